"""Bloom filters of cohorts: which of k bits per value sets, by a fast public hash or by MD5, as Google's clients do.

B. H. Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors", CACM 13(7), 1970. Each cohort has hash
functions of its own, so that two values that share a bit in one cohort are apart in most others (U. Erlingsson,
V. Pihur, A. Korolova, "RAPPOR", CCS 2014, section 5.2).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import F64, U8, U32, Codes
from ldp_core.exact.aes import aes, encrypt

_PUBLIC_KEY = b"ldp: bits of Bloom filters      "
"""Not a secret: clients and server must agree on the bits."""
_WORDS = 4  # of 32 bits in an AES block, each of them one hash function
MD5_BYTES = 16
"""MD5 gives a byte a hash function: at most 16 of them, of at most 256 bits."""


def positions(codes: Codes, cohorts: npt.NDArray[Any], bits: int, hashes: int) -> U32:
    """uint32[n, h]: the bits below k that values of n codes set in the filters of their cohorts, by a public hash.

    AES of (code, cohort) under a fixed key; 32 bits of it, scaled to ``range(bits)``, are one hash function. (A bit has
    probability 1 / bits up to 2^-32.) Some of the h bits of a value may coincide.
    """
    n, cipher = len(codes), aes(_PUBLIC_KEY)
    blocks, out = np.empty((n, 2), np.uint64), np.empty((n, hashes), np.uint32)
    for first in range(0, hashes, _WORDS):
        blocks[:, 0] = codes
        blocks[:, 1] = cohorts
        blocks[:, 1] |= np.uint64(first << 32)
        words = encrypt(cipher, blocks).view(np.uint32)[:, : hashes - first]
        wide = np.multiply(words, bits, dtype=np.uint64)
        np.right_shift(wide, 32, out=out[:, first : first + _WORDS], casting="unsafe")
    return out


def md5_positions(words: Iterable[bytes], cohorts: Iterable[int], bits: int, hashes: int) -> U32:
    """uint32[n, h]: the bits that texts set, by byte i of MD5(cohort as 4 big-endian bytes, text) mod k.

    As in Google's clients: ``get_bloom_bits`` in client/python/rappor.py of google/rappor. A Python loop: hash distinct
    texts only.
    """
    digest = b"".join(
        hashlib.md5(struct.pack(">L", cohort) + word, usedforsecurity=False).digest()
        for word, cohort in zip(words, cohorts, strict=True)
    )
    return (np.frombuffer(digest, np.uint8).reshape(-1, MD5_BYTES)[:, :hashes] % bits).astype(np.uint32)


def filters(where: U32, width: int) -> U8:
    """Bits set at ``where`` (uint32[n, h]) in rows of bytes, uint8[n, width]; see `exact/bits.py`."""
    rows = np.zeros((len(where), width), np.uint8)
    flat, start = rows.reshape(-1), np.arange(0, rows.size, width)
    for column in where.T:  # one function at a time: no two of its bits are in the same row
        at = start + (column >> np.uint32(3))
        flat[at] |= np.left_shift(np.uint8(1), (column & np.uint32(7)).astype(np.uint8))
    return rows


def density(bits: int, hashes: int, *, md5: bool = False) -> F64:
    """float64[bits]: the probability that a value sets a bit, over the hash functions: 1 - (1 - Pr[a hit])^h."""
    hit = np.full(bits, 1 / bits)
    if md5:  # the bytes 0 to 255 modulo k
        hit = np.bincount(np.arange(256) % bits, minlength=bits) / 256
    return 1 - (1 - hit) ** hashes
