"""AES-256: as a keystream, and of single blocks; each in the mode of OpenSSL that is fastest on this machine.

OpenSSL computes some modes with wide vector instructions (VAES) where the processor has them, and others not. What a
mode computes beside AES is not used here, so that modes can stand for each other, bit for bit:

* **A keystream.** GCM and CTR. GCM with a 96-bit IV v adds to the text the encrypted counter blocks v || 2, v || 3, ...
  with 32 bits of counter (NIST SP 800-38D, section 7.1); of zeros that is the keystream. Its tag is not asked for.
* **Single blocks.** XTS and ECB. XTS encrypts block j as E1(P + T_j) + T_j, with ``+`` for XOR and T_j = E2(iv) x^j in
  GF(2^128) (IEEE 1619-2007, section 5.3). For iv = D2(0) all T_j are 0, whatever the second key is, and E1(P) is left.

Which one is measured at first use, once in a process, in less than a millisecond; one that does not give the
same bits is not taken. The environment variables ``LDP_KEYSTREAM`` (gcm, ctr) and ``LDP_BLOCKS`` (xts, ecb) force it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from time import perf_counter
from typing import TypeAlias

import numpy as np
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from ldp_core.arrays.types import U8, U64
from ldp_core.errors import ParameterError

BLOCK = 16
"""Bytes."""
SPARE = BLOCK - 1
"""Bytes that `CipherContext.update_into` wants to have beyond its result."""
SEGMENT = (1 << 36) - 32
"""Bytes of the keystream under one key and IV: GCM's counter has no more (NIST SP 800-38D, section 5.2.1.1)."""

_ZEROS = bytes(1 << 22)  # encrypted at a time; never written, so it is one page of memory
_BLOCKS = 1 << 16  # encrypted at a time; XTS takes at most 2^20
_OTHER_KEY = hashlib.sha256(b"ldp: second key of XTS").digest()  # E2 above: any but the first, and no secret

_Make: TypeAlias = Callable[[bytes, int], CipherContext]


def _gcm(key: bytes, iv: int) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.GCM(iv.to_bytes(12, "big"))).encryptor()


def _ctr(key: bytes, iv: int) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CTR(iv.to_bytes(12, "big") + b"\0\0\0\2")).encryptor()


def _ecb(key: bytes, _: int) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 (nothing is encrypted with it)


def _xts(key: bytes, _: int) -> CipherContext:
    return Cipher(algorithms.AES(key + _OTHER_KEY), modes.XTS(_zero_tweak())).encryptor()


@cache
def _zero_tweak() -> bytes:
    return Cipher(algorithms.AES(_OTHER_KEY), modes.ECB()).decryptor().update(bytes(BLOCK))  # noqa: S305


MODES: dict[str, dict[str, _Make]] = {
    "LDP_KEYSTREAM": {"ctr": _ctr, "gcm": _gcm},
    "LDP_BLOCKS": {"ecb": _ecb, "xts": _xts},
}
"""By environment variable and name; the first one is there on every machine."""


class Segments:
    """The keystream under ``key``: under each IV from 0 on ``segment`` bytes, a multiple of 16."""

    __slots__ = ("_cipher", "_iv", "_key", "_left", "_make", "_segment")

    def __init__(self, key: bytes, segment: int = SEGMENT) -> None:
        self._key, self._segment = key, segment
        self._make = _fastest("LDP_KEYSTREAM")
        self._iv, self._left = 0, segment
        self._cipher = self._make(key, 0)

    def into(self, out: U8, n: int) -> None:
        """Write the next ``n`` bytes to the beginning of ``out``, which has `SPARE` more."""
        view, start = out.data, 0
        while start < n:
            if not self._left:
                self._iv, self._left = self._iv + 1, self._segment
                self._cipher = self._make(self._key, self._iv)
            size = min(len(_ZEROS), n - start, self._left)
            self._cipher.update_into(_ZEROS if size == len(_ZEROS) else memoryview(_ZEROS)[:size], view[start:])
            start += size
            self._left -= size


def aes(key: bytes) -> CipherContext:
    """AES under ``key``, for `encrypt`: a pseudo-random function of distinct blocks."""
    return _fastest("LDP_BLOCKS")(key, 0)


def encrypt(cipher: CipherContext, blocks: U64) -> U8:
    """AES of each pair of words of uint64[..., 2], as uint8[k, 16]."""
    out = np.empty(blocks.nbytes + SPARE, np.uint8)
    given, view = blocks.reshape(-1).view(np.uint8).data, out.data
    for start in range(0, blocks.nbytes, BLOCK * _BLOCKS):
        cipher.update_into(given[start : start + BLOCK * _BLOCKS], view[start:])
    return out[: blocks.nbytes].reshape(-1, BLOCK)


_MEASURED = 1 << 16  # bytes


@cache
def _fastest(variable: str) -> _Make:
    """The mode that the environment variable names, or the fastest of those that give the same bytes as the first."""
    modes_of = MODES[variable]
    forced = os.environ.get(variable)
    if forced is not None:
        if forced not in modes_of:
            raise ParameterError(f"{variable} must be {' or '.join(modes_of)}, got {forced!r}")
        return modes_of[forced]
    chosen, *others = modes_of.values()
    expected, best = _trial(chosen)
    for make in others:
        with suppress(UnsupportedAlgorithm, ValueError):  # an OpenSSL that does without it
            given, seconds = _trial(make)
            if given == expected and seconds < best:
                chosen, best = make, seconds
    return chosen


def _trial(make: _Make) -> tuple[bytes, float]:
    """What the mode makes of 64 KiB of zeros, and the least time of a few times as many."""
    out = bytearray(_MEASURED + SPARE)
    given = memoryview(_ZEROS)[:_MEASURED]
    cipher = make(bytes(32), 0)
    cipher.update_into(given, out)
    result, seconds = bytes(out[:_MEASURED]), []
    for _ in range(4):
        start = perf_counter()
        cipher.update_into(given, out)
        seconds.append(perf_counter() - start)
    return result, min(seconds)
