"""Cryptographic randomness: an AES-256-CTR keystream.

A mechanism never owns a generator. Each call of ``perturb`` makes its own
`Keystream` under a fresh key from the operating system, so there is no state to
fork, pickle, share between threads or replay.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_ZEROS = bytes(1 << 18)
_AES_BLOCK = 16


class Randomness(Protocol):
    """A source of independent uniform bytes."""

    def bytes(self, n: int) -> npt.NDArray[np.uint8]:
        """Return ``n`` uniform bytes; the array is valid until the next call."""
        ...


class Keystream:
    """The AES-256-CTR keystream under ``key``; without one, under a fresh key from the OS.

    A fixed key makes the output reproducible. That is for tests and simulation:
    whoever knows the key can take the noise away again.

    >>> Keystream(bytes(32)).bytes(4).tolist()
    [220, 149, 192, 120]
    """

    __slots__ = ("_buffer", "_encryptor")

    def __init__(self, key: bytes | None = None) -> None:
        cipher = Cipher(algorithms.AES(os.urandom(32) if key is None else key), modes.CTR(bytes(16)))
        self._encryptor = cipher.encryptor()
        self._buffer = np.empty(0, np.uint8)

    def bytes(self, n: int) -> npt.NDArray[np.uint8]:
        """Return the next ``n`` bytes of the keystream, in a buffer that the next call reuses."""
        if len(self._buffer) < n + _AES_BLOCK - 1:
            self._buffer = np.empty(n + _AES_BLOCK - 1, np.uint8)
        view = self._buffer.data
        for start in range(0, n, len(_ZEROS)):
            size = min(len(_ZEROS), n - start)
            zeros = _ZEROS if size == len(_ZEROS) else memoryview(_ZEROS)[:size]
            self._encryptor.update_into(zeros, view[start:])
        return self._buffer[:n]

    def __reduce__(self) -> str:
        raise TypeError("a Keystream must not be pickled or copied: two users of one key draw the same noise")
