"""The loops that are worth compiling; see `ldp_core.compute.compiled`. The numpy code that calls each says what it is.

They are written for a vectorizing compiler: no branch in an inner loop; results of a piece in a small array of the
kernel's own, so that there are few arrays that might overlap; and unsigned indices, which cannot count from the end.
(Slices would do too, but take a second to compile.) There is no floating point, but for one division that is put right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ldp_core.arrays.types import I64, U8, U32, U64, Codes
from ldp_core.compute.compiled import Kernel, inlined

_U = np.uint64
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_PIECE = 256  # words


@inlined
def _decided(  # noqa: C901 (planes, then ties)
    src: U64, start: int, words: int, threshold: Any, spare: int, out: U64
) -> int:
    """Bits of decisions to ``out``, from the planes and the words for ties at ``start``; returns how many ties."""
    if threshold == _U(1) << _U(63):
        for j in range(words):
            out[_U(j)] = src[_U(start + j)]
        return 0
    tail = threshold << _U(8)
    heads = (  # of the threshold's leading bits, from the first on: all ones for 1
        _ZERO - (threshold >> _U(63)),
        _ZERO - (threshold >> _U(62) & _ONE),
        _ZERO - (threshold >> _U(61) & _ONE),
        _ZERO - (threshold >> _U(60) & _ONE),
        _ZERO - (threshold >> _U(59) & _ONE),
        _ZERO - (threshold >> _U(58) & _ONE),
        _ZERO - (threshold >> _U(57) & _ONE),
        _ZERO - (threshold >> _U(56) & _ONE),
    )
    both = np.empty(2 * _PIECE, np.uint64)
    ties, first, step = 0, start + 8 * words, _U(words)
    for a in range(0, words, _PIECE):
        m = min(_PIECE, words - a)
        for j in range(m):
            at = _U(start + a) + _U(j)
            less, equal = _ZERO, ~_ZERO
            for plane in range(8):
                p = src[at]
                less |= equal & p & heads[plane]
                equal &= p ^ heads[plane]
                at += step
            both[_U(j)] = less
            both[_U(_PIECE + j)] = equal
        if tail == _ZERO:
            for j in range(m):
                out[_U(a + j)] = both[_U(j)]
            continue
        for j in range(m):
            less, equal = both[_U(j)], both[_U(_PIECE + j)]
            while equal != _ZERO:
                low = equal & (_ZERO - equal)
                if ties < spare and src[_U(first + ties)] < tail:
                    less |= low
                ties += 1
                equal ^= low
            out[_U(a + j)] = less
    return ties


@inlined
def _overwritten(rows: U8, width: int, position: Codes, bits: U64) -> None:
    """Bit ``position[i]`` of row i set to bit i of ``bits``, where the row has it."""
    if width == 2:
        words = rows.view(np.uint16)
        for i in range(position.size):
            word = words[_U(i)]
            inside = np.uint16(position[_U(i)] <= 15)
            place = np.uint16(position[_U(i)]) & np.uint16(15)
            bit = np.uint16(bits[_U(i) >> _U(6)] >> (_U(i) & _U(63)) & _ONE)
            words[_U(i)] = word ^ ((word >> place & np.uint16(1) ^ bit) & inside) << place
        return
    for i in range(position.size):
        column = _U(position[_U(i)])
        if column < _U(8 * width):
            at, shift = _U(i * width) + (column >> _U(3)), np.uint8(column & _U(7))
            row = rows[at]
            one = np.uint8(bits[_U(i) >> _U(6)] >> (_U(i) & _U(63)) & _ONE)
            rows[at] = row ^ (row >> shift & np.uint8(1) ^ one) << shift


@Kernel
def decided(src: U64, words: int, threshold: Any, spare: int, out: U64) -> int:
    """`sampling.decided`."""
    return _decided(src, 0, words, threshold, spare, out)


@Kernel
def one_hot(
    src: U64, q: Any, words: int, spare: int, size: int, p: Any, trues: int, true_spare: int,
    position: Codes, width: int, out: U64,
) -> bool:  # fmt: skip
    """`sampling.one_hot_rows`; False if there are more ties than words for them."""
    bits = np.empty(trues, np.uint64)
    ties = _decided(src, 0, words, q, spare, out)
    true_ties = _decided(src, size, trues, p, true_spare, bits)
    _overwritten(out.view(np.uint8), width, position, bits)
    return ties <= spare and true_ties <= true_spare


@Kernel
def grouped_column_sums(words: Codes, skipped: int, groups: I64, out: I64) -> bool:
    """`bits.grouped_column_sums`, of rows of words without the first few; False if a group is none of ``len(out)``.

    The eight bits with one place in their bytes have eight counters of 8 bits, in one word: a group's are added up
    after 255 rows.
    """
    n_groups, columns = out.shape
    stride = words.size // groups.size
    per_row = stride - skipped
    bits = columns // per_row
    counters = np.zeros(n_groups * per_row * 8, np.uint64)
    rows = np.zeros(n_groups, np.uint8)
    for i in range(groups.size):
        group = groups[_U(i)]
        if group < 0 or group >= n_groups:
            return False
        at = _U(group * per_row * 8)
        for w in range(per_row):
            word = _U(words[_U(i * stride + skipped + w)])
            for b in range(8):
                counters[at + _U(b)] += word >> _U(b) & _LOWEST
            at += _U(8)
        rows[_U(group)] += np.uint8(1)
        if rows[_U(group)] == 255:
            _add_counters(counters, rows, group, per_row, bits, out)
    for group in range(n_groups):
        if rows[_U(group)]:
            _add_counters(counters, rows, group, per_row, bits, out)
    return True


_LOWEST = np.uint64(0x0101010101010101)


@Kernel
def ones_of_pairs(one: U64, two: U64, words: int, out: I64) -> bool:
    """`bits.counts_of_pairs`, of planes of so many words each; compilers know this as one instruction for many words.

    Ones by halves, quarters and bytes of each word (H. S. Warren, "Hacker's Delight", 2012, Section 5-1).
    """
    halves, quarters, bytes_ = _U(0x5555555555555555), _U(0x3333333333333333), _U(0x0F0F0F0F0F0F0F0F)
    for a in range(one.size // words):
        for b in range(two.size // words):
            total = _ZERO
            for w in range(words):
                x = one[_U(a * words + w)] & two[_U(b * words + w)]
                x -= x >> _ONE & halves
                x = (x & quarters) + (x >> _U(2) & quarters)
                total += (x + (x >> _U(4)) & bytes_) * _U(0x0101010101010101) >> _U(56)
            out[_U(a), _U(b)] = np.int64(total)
    return True


@inlined
def _add_counters(counters: U64, rows: U8, group: int, per_row: int, bits: int, out: I64) -> None:
    """Add the 8-bit counters of a group to its sums, and set them to 0."""
    for w in range(per_row):
        for b in range(8):
            at = _U((group * per_row + w) * 8 + b)
            counted = counters[at]
            counters[at] = _ZERO
            for k in range(0, bits, 8):
                out[group, w * bits + k + b] += np.int64(counted >> _U(k) & _U(255))
    rows[_U(group)] = 0


@Kernel
def affine_support(reports: U64, groups: I64, low: U32, width: U32, prime: int, out: I64) -> bool:
    """`AffineFamily.support_counts` of reports in order of their groups; False if a bucket or a group does not exist.

    Without ``groups`` all are in the first one.

    A value at a time, for a piece of the reports of a group: what is left of each is its residue, a and width.
    """
    n_groups, d = out.shape
    p = np.uint32(prime)
    state = np.empty(3 * _PIECE, np.uint32)
    start = 0
    while start < reports.size:
        group, m = 0, 0
        if groups.size:
            group = groups[_U(start)]
        if group < 0 or group >= n_groups:
            return False
        while m < _PIECE and start + m < reports.size and (groups.size == 0 or groups[_U(start + m)] == group):
            report = reports[_U(start + m)]
            bucket = report >> _U(48)
            if bucket >= _U(width.size):
                return False
            residue = np.uint32((report & _LOW_24) + _U(p - low[bucket]))
            state[_U(m)] = min(residue, np.uint32(residue - p))  # modulo P: what wraps below 0 is huge
            state[_U(_PIECE + m)] = np.uint32(report >> _U(24) & _LOW_24)
            state[_U(2 * _PIECE + m)] = width[bucket]
            m += 1
        for v in range(d):
            count = np.uint32(0)
            for j in range(m):
                residue = state[_U(j)]
                count = np.uint32(count + np.uint32(residue < state[_U(2 * _PIECE + j)]))
                residue = np.uint32(residue + state[_U(_PIECE + j)])
                state[_U(j)] = min(residue, np.uint32(residue - p))
            out[group, v] += np.int64(count)
        start += m
    return True


_LOW_24 = np.uint64((1 << 24) - 1)


@Kernel
def keyed_blocks(high: U64, low: U64, codes: Codes, place: Any, out: U64) -> bool:
    """`KeyedRows._places` of all rows, as blocks; without ``low`` it is 0 everywhere."""
    for i in range(codes.size):
        out[_U(2 * i)] = high[_U(i)]
        out[_U(2 * i + 1)] = _U(codes[_U(i)]) << _U(32) | place
    if low.size:
        for i in range(codes.size):
            out[_U(2 * i + 1)] ^= low[_U(i)]
    return True


@Kernel
def less(words: U64, column: int, threshold: Any, out: U8) -> bool:
    """Packed bits: whether the word in a column of two is below the threshold."""
    n = words.size >> 1
    coins = np.zeros(_PIECE >> 3, np.uint64)
    single = coins.view(np.uint8)
    for start in range(0, n, _PIECE):
        m = min(_PIECE, n - start)
        for j in range(m):
            single[_U(j)] = words[_U(2 * (start + j) + column)] < threshold
        for j in range(m, (m + 7) & ~7):
            single[_U(j)] = 0
        for k in range((m + 7) >> 3):  # byte k of a word of coins becomes bit k of the highest byte
            out[_U((start >> 3) + k)] = coins[_U(k)] * _U(0x0102040810204080) >> _U(56)
    return True


@Kernel
def kept_or_drawn_by_words(words: U64, keep: Any, codes: Codes, d: Any, out: Codes) -> bool:
    """`kept_or_drawn` of two words per record; False if one must be drawn again."""
    biased, fine = (_ONE << _U(32)) % d, True
    for i in range(codes.size):
        wide = (words[_U(2 * i + 1)] & _LOW_32) * d
        fine &= wide & _LOW_32 >= biased
        kept = _ZERO - _U(words[_U(2 * i)] < keep)
        drawn = wide >> _U(32)
        out[_U(i)] = drawn ^ ((drawn ^ _U(codes[_U(i)])) & kept)
    return fine


_LOW_32 = np.uint64((1 << 32) - 1)


@Kernel
def kept_or_drawn(
    src: U64, words: int, keep: Any, spare: int, given: Codes, d: Any, codes: Codes, out: Codes, out_again: I64
) -> int:
    """`sampling.kept_or_drawn`; returns how many must be drawn again, and -1 if there are more ties than words."""
    bits = np.empty(words, np.uint64)
    if _decided(src, 0, words, keep, spare, bits) > spare:
        return -1
    width = _U(8 * given.itemsize)
    limit = (_ONE << width) - _ONE
    biased = (limit + _ONE) % d
    again = 0
    for start in range(0, codes.size, 64):
        word, fine = bits[_U(start >> 6)], True
        stop = min(64, codes.size - start)
        if given.itemsize == 1:
            for j in range(stop):
                i = _U(start + j)
                kept = _ZERO - (word >> _U(j) & _ONE)
                drawn = _U(given[i]) & (d - _ONE)
                out[i] = drawn ^ ((drawn ^ _U(codes[i])) & kept)
            continue
        for j in range(stop):
            i = _U(start + j)
            kept = _ZERO - (word >> _U(j) & _ONE)
            wide = _U(given[i]) * d
            fine &= wide & limit >= biased
            drawn = wide >> width
            out[i] = drawn ^ ((drawn ^ _U(codes[i])) & kept)
        if not fine:
            for j in range(stop):
                if _U(given[_U(start + j)]) * d & limit < biased:
                    out_again[_U(again)] = 2 * (start + j) + np.int64(word >> _U(j) & _ONE)
                    again += 1
    return again


@Kernel
def looked_up(heads: Codes, table: Codes, other: int, out: Codes, out_at: I64) -> int:
    """The entries of the table at ``heads``; positions where it is ``other`` to ``out_at``; returns how many."""
    for i in range(heads.size):
        out[_U(i)] = table[_U(heads[_U(i)])]
    found = 0
    for start in range(0, heads.size, 64):
        some = np.uint8(0)
        for i in range(start, min(start + 64, heads.size)):
            some |= np.uint8(out[_U(i)] == other)
        if some:
            for i in range(start, min(start + 64, heads.size)):
                if out[_U(i)] == other:
                    out_at[_U(found)] = i
                    found += 1
    return found


@Kernel
def counted(numbers: Codes, groups: I64, out: I64) -> bool:
    """`transforms.count_numbers`, to zeros; False if a number or a group does not exist.

    Without ``groups`` all are in the first one. Few numbers have four counters each there, since a counter that is
    read right after it was written makes the processor wait.
    """
    n_groups, k = out.shape
    if groups.size:
        for i in range(numbers.size):
            number, group = _U(numbers[_U(i)]), _U(groups[_U(i)])
            if number >= _U(k) or group >= _U(n_groups):
                return False
            out[group, number] += 1
        return True
    lanes = 4 if k <= _FEW else 1
    counters = np.zeros(lanes * k, np.int64)
    for i in range(numbers.size):
        number = _U(numbers[_U(i)])
        if number >= _U(k):
            return False
        counters[number * _U(lanes) + (_U(i) & _U(lanes - 1))] += 1
    for cell in range(k):
        for lane in range(lanes):
            out[0, cell] += counters[_U(cell * lanes + lane)]
    return True


_FEW = 1 << 12


@Kernel
def entry_sums(rows: Codes, low: int, high: int, out: I64) -> bool:
    """`summation_histogram_encoding._sums`, added to ``out``; False if an entry is not in [low, high].

    Short rows are taken several at a time. 2^15 entries of about 2^15 at most are added in 32 bits.
    """
    width = out.size
    wide = width * max(_PIECE // width, 1)
    sums = np.zeros(wide, np.int32)
    least, most = np.zeros(wide, rows.dtype), np.zeros(wide, rows.dtype)
    for start in range(0, rows.size, wide << 15):
        for j in range(wide):
            sums[_U(j)] = 0
        for first in range(start, min(start + (wide << 15), rows.size), wide):
            for j in range(min(wide, rows.size - first)):
                entry = rows[_U(first + j)]
                sums[_U(j)] += entry
                least[_U(j)], most[_U(j)] = min(least[_U(j)], entry), max(most[_U(j)], entry)
        for j in range(0, wide, width):
            for k in range(width):
                out[_U(k)] += sums[_U(j + k)]
    return bool(least.min() >= low and most.max() <= high)


@Kernel
def fixed_slots(micros: I64, first: int, size: int, out: I64) -> bool:
    """How often ``size`` goes into each distance from ``first``, of 0 to 2^52: a product may be off by one."""
    inverse = 1.0 / size
    for i in range(micros.size):
        distance = micros[_U(i)] - first
        slot = np.int64(distance * inverse)
        rest = distance - slot * size
        out[_U(i)] = slot + np.int64(rest >= size) - np.int64(rest < 0)
    return True
