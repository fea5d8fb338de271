"""Rows of packed bits: the ones of each row, and of each column.

Rows are C-contiguous ``uint8[n, width]``: bit ``v`` of a row is bit ``v % 8`` (little-endian) of byte ``v // 8``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import I64, U8
from ldp_core.compute import kernels


def column_sums(rows: U8, d: int) -> I64:
    """Number of 1s in each of the ``d`` columns.

    Carry-save adders over whole rows: three rows of weight w become one of weight w and one
    of weight 2w (sum = a^b^c, carry = majority), until few rows of each weight are left to
    unpack (W. Mula, N. Kurz, D. Lemire, "Faster Population Counts Using AVX2
    Instructions", The Computer Journal 61(1), 2018, section 4).
    """
    n, width = rows.shape
    total = np.zeros(8 * width, np.int64)
    step = max(_CHUNK // width, 1)
    for start in range(0, n, step):
        _add_chunk(rows[start : start + step], total)
    return total[:d]


_CHUNK = 1 << 20  # bytes: with its carries it stays in the L2 cache
_FEW = 1 << 12  # bytes: below this unpacking is cheaper than another round of adders
_LARGE_GROUP = 64  # rows a group, on average, from which the adders are worth their calls


def _add_chunk(rows: U8, total: I64) -> None:
    weight = 1
    while len(rows):
        carries, left = [], []
        while rows.size > _FEW and len(rows) >= 3:
            m = len(rows) // 3
            a, b, c = rows[:m], rows[m : 2 * m], rows[2 * m : 3 * m]
            if len(rows) > 3 * m:
                left.append(rows[3 * m :])
            half = a ^ b
            carry = a & b
            rows = half ^ c
            half &= c
            carry |= half
            carries.append(carry)
        total += weight * _unpacked_sum(np.concatenate((rows, *left)) if left else rows)
        if not carries:
            return
        rows = np.concatenate(carries)
        weight *= 2


def _unpacked_sum(rows: U8) -> I64:
    bits = np.unpackbits(rows.reshape(-1), bitorder="little").reshape(len(rows), -1)
    words = bits.view(np.uint64)  # eight columns add up in one word: of 255 rows no byte overflows
    sums = np.zeros(bits.shape[1], np.int64)
    for start in range(0, len(rows), 255):
        sums += words[start : start + 255].sum(axis=0).view(np.uint8)
    return sums


def counts_of_pairs(first: U8, second: U8, d1: int, d2: int) -> tuple[I64, I64, I64]:
    """int64[d1, d2], in how many rows bit a of one and bit b of the other are 1; int64[d1], int64[d2], of each alone.

    By planes of bits, a word for 64 rows and a value: pairs of words are ANDed, and their ones counted.

    Args:
        first, second: at most 65,472 rows each, so few that 16 bits count them; of 2^15 the planes stay in the cache.
    """
    one, two = _planes(first, d1), _planes(second, d2)
    both = np.zeros((d1, d2), np.int64)
    if not one.size or not kernels.ones_of_pairs(one.reshape(-1), two.reshape(-1), one.shape[1], both):
        for a in range(0, d1, _TILE):
            both[a : a + _TILE] = _ones(one[a : a + _TILE, None] & two)
    return both, _ones(one), _ones(two)


_TILE = 4  # planes of one column at a time: what they are ANDed to stays in the cache


def _ones(words: npt.NDArray[np.uint64]) -> I64:
    return np.bitwise_count(words).sum(axis=-1, dtype=np.uint16).astype(np.int64)


_MASKS = (1 << np.arange(8)).astype(np.uint8)[:, None]


def _planes(rows: U8, d: int) -> npt.NDArray[np.uint64]:
    """uint64[d, ceil(n / 64)]: each column's bits, those of no row 0; `packbits` takes what is not 0 for a 1."""
    n, width = rows.shape
    planes = np.zeros((8 * width, -(-n // 64) * 8), np.uint8)
    words = rows.view(np.uint16)[:, 0] if width == 2 else None  # (numpy shifts many words at a time)
    for byte in range(width):
        column = rows[:, byte] if words is None else (words >> np.uint16(8 * byte)).astype(np.uint8)
        bits = np.packbits(np.ascontiguousarray(column) & _MASKS, axis=1)
        planes[8 * byte : 8 * byte + 8, : bits.shape[1]] = bits
    return planes[:d].view(np.uint64)


def row_weights(rows: U8) -> npt.NDArray[np.int32]:
    """The number of ones in each row, by its widest words; few words add up faster column by column."""
    ones = np.bitwise_count(rows.view(f"u{_word_bytes(rows.shape[1])}"))
    if ones.shape[1] > _FEW_WORDS:
        return ones.sum(axis=1, dtype=np.int32)
    total: npt.NDArray[np.int32] = ones[:, 0].astype(np.int32)
    for column in range(1, ones.shape[1]):
        total += ones[:, column]
    return total


_FEW_WORDS = 16


def _word_bytes(width: int) -> int:
    """Bytes of the widest words that make up a row."""
    return next(size for size in (8, 4, 2, 1) if width % size == 0)


def grouped_column_sums(rows: U8, d: int, groups: I64, n_groups: int) -> I64:
    """Column sums of each group of rows: int64[n_groups, d]; ``groups`` gives each row's group."""
    if n_groups == 1:
        return column_sums(rows, d)[None]
    out = np.zeros((n_groups, 8 * rows.shape[1]), np.int64)
    words = rows.reshape(-1).view(f"u{_word_bytes(rows.shape[1])}")
    if not len(rows) or kernels.grouped_column_sums(words, 0, groups, out):
        return out[:, :d]
    if rows.shape[1] <= _NARROW and n_groups <= len(rows) // 8:
        return _sums_by_byte(rows, groups, n_groups)[:, :d]
    if np.any(groups[1:] < groups[:-1]):
        # In 16 bits numpy sorts by radix, several times as fast; `take` gathers whole rows.
        order = np.argsort(groups.astype(np.uint16) if n_groups <= 1 << 16 else groups, kind="stable")
        rows, groups = rows.take(order, axis=0), groups.take(order)
    return _sums_of_sorted(rows, d, groups, n_groups)


_NARROW = 4  # bytes a row, up to which counting bytes beats sorting rows
_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little").astype(np.int64)


def _sums_by_byte(rows: U8, groups: I64, n_groups: int) -> I64:
    """Count how often each byte value occurs in each group, then the bits of the byte values."""
    out = np.empty((n_groups, rows.shape[1], 8), np.int64)
    for at in range(rows.shape[1]):
        counts = np.bincount(groups << 8 | rows[:, at], minlength=n_groups << 8)
        out[:, at] = counts.reshape(n_groups, 256) @ _BITS_OF_BYTE
    return out.reshape(n_groups, -1)


def _sums_of_sorted(rows: U8, d: int, groups: I64, n_groups: int) -> I64:
    out = np.zeros((n_groups, d), np.int64)
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    present = groups[starts]
    edges = np.append(starts, len(rows))
    if len(rows) >= _LARGE_GROUP * len(starts):
        for k, group in enumerate(present):
            out[group] = column_sums(rows[edges[k] : edges[k + 1]], d)
        return out
    per_block = max(_CHUNK // (8 * rows.shape[1]), 1)  # small groups: unpack many of them at a time
    first = 0
    while first < len(starts):
        last = max(int(np.searchsorted(edges, edges[first] + per_block)) - 1, first + 1)
        block = rows[edges[first] : edges[last]]
        bits = np.unpackbits(block, axis=1, bitorder="little", count=d)
        out[present[first:last]] = np.add.reduceat(bits, starts[first:last] - starts[first], axis=0, dtype=np.int64)
        first = last
    return out
