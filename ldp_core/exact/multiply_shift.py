"""Fast public hash functions from 64-bit codes to buckets, and sums over what they point to."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np

from ldp_core.arrays.types import F64, I64, U64


class MultiplyShift:
    """Public hash functions from 64-bit codes to ``range(buckets)``, the same in all mechanisms.

    x = (x1, x0), two halves of 32 bits, has the hash floor(B (a1 x1 + a0 x0 + b mod 2^64 >> 32) / 2^32): the 32 bits
    are strongly universal (M. Thorup, "High Speed Hashing for Integers and Strings", arXiv:1504.06804, section 3), so
    that two codes share one of B buckets with exactly 1 / B + r (B - r) / (B 2^64), r = 2^32 mod B, over the choice of
    a1, a0, b, which are digits of SHAKE-256.
    """

    def __init__(self, functions: int, buckets: int) -> None:
        drawn = hashlib.shake_256(b"ldp: rows of heavy hitters").digest(24 * functions)
        self._low, self._high, self._added = np.frombuffer(drawn, "<u8").reshape(functions, 3).T.copy()
        self._buckets = np.uint64(buckets)
        remainder = (1 << 32) % buckets
        self.collision = Fraction(1, buckets) + Fraction(remainder * (buckets - remainder), buckets << 64)

    def at(self, functions: Any, codes: U64) -> I64:
        """Buckets of codes, under one function or one for each."""
        hashed = (codes & _HALF) * self._low[functions]
        hashed += (codes >> _HALF_BITS) * self._high[functions]
        hashed += self._added[functions]
        hashed >>= _HALF_BITS
        hashed *= self._buckets
        hashed >>= _HALF_BITS
        return hashed.view(np.int64)

    def sums(self, table: F64, first: int, codes: U64) -> F64:
        """For each code the sum over rows j of table[j] at its bucket under function first + j.

        `at` a row and a block at a time, into arrays that are made once: new ones cost more than what is done in them.
        """
        out = np.zeros(len(codes))
        long = bool((codes > _HALF).any())
        for start in range(0, len(codes), _BLOCK):
            block, total = codes[start : start + _BLOCK], out[start : start + _BLOCK]
            low, high = block & _HALF, block >> _HALF_BITS
            hashed, added, entries = np.empty_like(block), np.empty_like(block), np.empty_like(total)
            for function, row in enumerate(table, start=first):
                np.multiply(low, self._low[function], out=hashed)
                if long:
                    hashed += np.multiply(high, self._high[function], out=added)
                hashed += self._added[function]
                hashed >>= _HALF_BITS
                hashed *= self._buckets
                hashed >>= _HALF_BITS
                total += row.take(hashed.view(np.int64), out=entries, mode="clip")  # (the mode that needs no copy)
        return out


_BLOCK = 1 << 14  # codes at a time: what is made of them stays in the L2 cache
_HALF_BITS = np.uint64(32)
_HALF = np.uint64((1 << 32) - 1)
