"""Public hash functions from 64-bit codes to range(m), as good as drawn at random, and sums over what they point to.

Under a public key AES-256 gives 128 bits for each pair (code, number): eight functions of 16 bits, of which the low
log2(m) are the hash. To whoever chose the values without looking at the key this is a random function, so that, over
the choice of the functions,

    two given codes collide under a function with probability c = 1 / m,

independently for all functions and for the pairs of one code with all others. The last is what the variance of a
sketch needs: the collisions of a value with two others must not be correlated. A pairwise independent family makes
estimates unbiased, but does not promise that: under a x + b consecutive integers collide in numbers or not at all.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import I64, U16, U64, Codes
from ldp_core.exact.aes import aes, encrypt

MOST_BUCKETS = 1 << 16
_PER_BLOCK = 8  # functions of 16 bits from one block of AES
_PAIRS = 1 << 15  # (code, function) pairs at a time: their places, 8 bytes each, stay in the L2 cache


@dataclass(frozen=True)
class RandomFunctions:
    """Functions (k is ``count``) from 64-bit codes to ``range(width)``; others for another ``salt``.

    The width m is a power of two, at most 2**16.
    """

    count: int
    width: int
    salt: int

    @property
    def collision(self) -> Fraction:
        """Pr[two given codes have one hash], over the functions: the same for any two."""
        return Fraction(1, self.width)

    @cached_property
    def _key(self) -> bytes:
        """Not a secret: clients and server must agree on the functions."""
        return hashlib.sha256(f"ldp: hash functions {self.salt}".encode()).digest()

    def at(self, functions: npt.NDArray[np.unsignedinteger[Any]], codes: Codes) -> U16:
        """The hash of each code under the function with this number, uint16[n]."""
        blocks = np.empty((len(codes), 2), np.uint64)
        blocks[:, 0] = codes
        np.floor_divide(functions, _PER_BLOCK, out=blocks[:, 1], casting="unsafe")
        place = np.arange(0, _PER_BLOCK * len(codes), _PER_BLOCK)
        place += functions % _PER_BLOCK
        return self._hashed(blocks).reshape(-1).take(place)

    def all(self, codes: Codes) -> U16:
        """The hashes of each code under all functions, uint16[n, k]."""
        groups = -(-self.count // _PER_BLOCK)
        blocks = np.empty((len(codes), groups, 2), np.uint64)
        blocks[:, :, 0] = codes[:, None]
        blocks[:, :, 1] = np.arange(groups, dtype=np.uint64)
        return self._hashed(blocks).reshape(len(codes), -1)[:, : self.count]

    def _hashed(self, blocks: U64) -> U16:
        """Eight hashes a block, in a flat array."""
        hashes = encrypt(aes(self._key), blocks).reshape(-1).view(np.uint16)
        hashes &= np.uint16(self.width - 1)
        return hashes

    def sums(self, tables: I64, codes: Codes) -> I64:
        """int64[..., c]: of tables int64[..., k, m] the sum over the functions of the entries at a code's hashes."""
        cells = self.count * self.width
        flat = tables.reshape(-1, cells)
        out = np.empty((len(flat), len(codes)), np.int64)
        rows = np.arange(0, cells, self.width)
        step = max(_PAIRS // self.count, 1)
        for start in range(0, len(codes), step):
            at = rows + self.all(codes[start : start + step])
            for table, total in zip(flat, out, strict=True):
                table.take(at).sum(axis=1, out=total[start : start + step])
        return out.reshape(*tables.shape[:-2], len(codes))
