"""Fresh noise: a keystream of AES-256 in counter mode.

A mechanism never owns a generator. Each call of ``perturb`` makes its own `Keystream` under a fresh key from the
operating system, so there is no state to fork, pickle, share between threads or replay. Noise that is a
function of a secret and an id instead is in `ldp_core.noise.keyed`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.exact import sampling
from ldp_core.exact.aes import SPARE, Segments
from ldp_core.noise.base import Noise, Randomness


class Keystream(Noise, Randomness):
    """The keystream of AES-256 under ``key``; without one, under a fresh key from the OS.

    The encrypted counter blocks v || 2, v || 3, ... of a 96-bit v and 32 bits of counter, for v = 0, 1, ...: see
    `ldp_core.exact.aes`. A fixed key makes the output reproducible. That is for tests and simulation:
    whoever knows the key can take the noise away again.

    >>> Keystream(bytes(32)).bytes(4).tolist()
    [206, 167, 64, 61]
    """

    __slots__ = ("_buffer", "_fresh", "_segments")

    def __init__(self, key: bytes | None = None) -> None:
        self._fresh = key is None
        self._segments = Segments(os.urandom(32) if key is None else key)
        self._buffer = np.empty(0, np.uint8)

    def bytes(self, n: int) -> npt.NDArray[np.uint8]:
        """Return the next ``n`` bytes of the keystream, in a buffer that the next call reuses."""
        if len(self._buffer) < n + SPARE:
            self._buffer = np.empty(n + SPARE, np.uint8)
        self._segments.into(self._buffer, n)
        return self._buffer[:n]

    by_value = False

    def _itself(self, *_: Any, **__: Any) -> Keystream:
        """Itself: fresh noise depends on nothing, and whatever comes next is the noise of the next records."""
        return self

    bind = rows = at = of_persons = with_codes = instantaneous = _itself

    @override
    def another(self) -> Keystream | None:
        """Under a fresh key of its own; a key that is given has one keystream."""
        return Keystream() if self._fresh else None

    @override
    def bernoulli(self, threshold: int, n: int, lane: int = 0) -> npt.NDArray[np.uint8]:
        return sampling.bernoulli_bits(threshold, -(-n // 8), self)

    @override
    def words(self, n: int, lane: int = 0) -> npt.NDArray[np.uint64]:
        return self.bytes(8 * n).view(np.uint64).copy()

    @override
    def head_rows(self, n: int, width: int, lane: int = 0) -> npt.NDArray[np.uint16]:
        return self.bytes(2 * n * width).view(np.uint16).reshape(n, width)

    @override
    def tails(
        self, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], lane: int = 0
    ) -> npt.NDArray[np.uint64]:
        return self.words(len(rows)) >> np.uint64(16)

    @override
    def one_hot_rows(
        self, p: int, q: int, position: npt.NDArray[Any], width: int, lane: int = 0
    ) -> npt.NDArray[np.uint8]:
        return sampling.one_hot_rows(p, q, position, width, self)

    @override
    def uniform_below(self, d: int, n: int, lane: int = 0) -> npt.NDArray[Any]:
        return sampling.uniform_below(d, n, self)

    @override
    def kept_or_drawn(self, keep: int, codes: npt.NDArray[Any], d: int, lane: int = 0) -> npt.NDArray[Any]:
        return sampling.kept_or_drawn(keep, codes, d, self)

    @override
    def uniform_again(self, d: int, rows: npt.NDArray[np.int64], step: int = 0, lane: int = 0) -> npt.NDArray[Any]:
        return sampling.uniform_below(d, len(rows), self)

    def __reduce__(self) -> str:
        raise TypeError("a Keystream must not be pickled or copied: two users of one key draw the same noise")
