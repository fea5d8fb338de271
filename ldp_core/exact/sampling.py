"""Exact sampling at vector speed: Bernoulli bits and uniform integers.

A probability is an integer threshold T over 2^64 and a decision is the event U < T for a uniform 64-bit integer U. Two
facts make this cheap:

* U < T is decided by the leading bits. Eight bits of U settle all but 1 in 256 decisions; only those, the *ties*, draw
  the other 56. The outcome has probability T / 2^64, not an approximation of it.
* Decisions are *bit-sliced*: bit i of a random byte is one bit of the i-th of eight independent U's, so that one AND or
  OR of two arrays advances eight decisions a byte, and the answers come out packed, as they travel.

The bytes of W words of decisions: eight planes of W words, one per bit of U, the most significant first; then words for
ties, in order, of which the high 56 bits are used: as many as are enough but for once in 10^14. If there are more ties,
their words come next.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import U8, U64, WORDS, Codes, select
from ldp_core.compute import kernels

BITS = 64
ONE = 1 << BITS
"""The integer that stands for probability 1."""

_HALF = ONE >> 1
_STEP = 8  # leading bits
_TAIL = BITS - _STEP
_BLOCK = 1 << 19  # bytes of output at a time: long enough for two threads to overlap

_UInts = npt.NDArray[Any]


class Source(Protocol):
    """A stream of independent uniform bytes."""

    def bytes(self, n: int) -> U8:
        """Return the next ``n`` bytes, in an array that is valid until the next call and may be written to."""


def bernoulli_bits(threshold: int, n_bytes: int, source: Source) -> U8:
    """Return ``8 * n_bytes`` packed independent bits, each 1 with probability ``threshold / 2**64``.

    ``threshold`` lies in ``(0, 2**64)``.
    """
    if n_bytes <= _BLOCK:
        return _decisions(threshold, n_bytes, source)
    out = np.empty(n_bytes, np.uint8)
    for start in range(0, n_bytes, _BLOCK):
        block = out[start : start + _BLOCK]
        block[:] = _decisions(threshold, len(block), source)
    return out


class _Draw(NamedTuple):
    """What some decisions take: a threshold, words of decisions, planes, and words for ties."""

    threshold: int
    words: int
    planes: int
    spare: int

    @classmethod
    @lru_cache(maxsize=256)  # batches are alike
    def of(cls, threshold: int, n_bytes: int) -> _Draw:
        words = -(-n_bytes // 8)
        planes = 1 if threshold == _HALF else _STEP
        # A word has 64 / 256 ties on average. The variance is no greater: this is eight standard deviations more.
        spare = words // 4 + 4 * isqrt(words) + 8 if threshold % (1 << _TAIL) else 0
        return cls(threshold, words, planes, spare)

    @property
    def size(self) -> int:
        """All words."""
        return self.planes * self.words + self.spare


def _decisions(threshold: int, n_bytes: int, source: Source) -> U8:
    """Packed events U < threshold."""
    draw = _Draw.of(threshold, n_bytes)
    src = source.bytes(8 * draw.size).view(np.uint64)
    out = np.empty(draw.words, np.uint64)
    ties = kernels.decided(src, draw.words, np.uint64(threshold), draw.spare, out)
    if ties is None or ties > draw.spare:
        _decide(draw, src, source, out)
    return out.view(np.uint8)[:n_bytes]


def _decide(draw: _Draw, src: U64, source: Source, out: U64) -> None:
    """Fill ``out`` with the decisions of the planes and of the words for ties in ``src``, which is overwritten."""
    head, tail = divmod(draw.threshold, 1 << _TAIL)
    equal: U64 | None = None  # decisions in which U agrees with the threshold so far; None: all
    decided = False
    for i in range(draw.planes):
        below = src[i * draw.words : (i + 1) * draw.words]  # 1 stands for "this bit of U is 0"
        if equal is not None:
            np.bitwise_and(below, equal, out=below)
        if head >> (_STEP - 1 - i) & 1:  # U has 0 where the threshold has 1: less, decided
            if decided:
                np.bitwise_or(out, below, out=out)
            else:
                out[:] = below
                decided = True
            equal = ~below if equal is None else np.bitwise_xor(equal, below, out=equal)
        else:  # U must have 0 too, or it is greater
            equal = below
    if not decided:
        out[:] = 0
    if not tail or not draw.words:
        return
    assert equal is not None  # noqa: S101 (of at least one plane)
    halves, found = out.view(np.uint32), equal.view(np.uint32)  # most halves with a tie have just one
    tied = np.flatnonzero(found != 0)
    left = found[tied]
    counts = np.bitwise_count(left)
    last = np.cumsum(counts, dtype=np.int64)
    words = src[draw.planes * draw.words :]
    ties = int(last[-1]) if len(last) else 0
    if ties > draw.spare:
        words = np.concatenate((words.copy(), source.bytes(8 * (ties - draw.spare)).view(np.uint64)))
    less_words = words[:ties] < np.uint64(tail << _STEP)
    at = last - counts
    while len(tied):
        low = left & (~left + np.uint32(1))
        halves[tied] |= low * less_words[at]
        left ^= low
        more = np.flatnonzero(left)
        tied, left, at = tied[more], left[more], at[more] + 1


def uniform_below(d: int, n: int, source: Source) -> _UInts:
    """Return ``n`` independent integers, exactly uniform over ``range(d)``, for 1 <= d <= 2**31.

    The dtype is uint8 for d <= 256 and uint32 above. Multiply-and-shift with rejection:
    D. Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29(1), 2019,
    Algorithm 5, on words wide enough that fewer than one draw in 256 is rejected up to
    d = 2**24.
    """
    word = _word_for(d)
    if word == np.uint8:
        return source.bytes(n) & np.uint8(d - 1)
    product, result = (np.uint32, np.uint8) if d <= 256 else (np.uint64, np.uint32)
    bits = 8 * np.dtype(word).itemsize
    out: _UInts = np.empty(n, result)
    for start in range(0, n, _BLOCK):
        part = out[start : start + _BLOCK]
        wide = np.multiply(source.bytes(len(part) * bits // 8).view(word), d, dtype=product)
        np.right_shift(wide, bits, out=part, casting="unsafe")
        biased = (1 << bits) % d
        if biased:
            rejected = np.flatnonzero(wide.astype(word) < biased)
            if len(rejected):
                part[rejected] = uniform_below(d, len(rejected), source)
    return out


def _word_for(d: int) -> type[np.unsignedinteger[Any]]:
    """What a uniform integer below d is made of: where d is a power of two, the low bits of a byte."""
    return np.uint8 if 256 % d == 0 else np.uint16 if d <= 256 else np.uint32


def kept_or_drawn(keep: int, codes: Codes, d: int, source: Source) -> Codes:
    """Each of the codes with probability ``keep / 2**64``, else an integer that is uniform over ``range(d)``."""
    n = len(codes)
    if n <= _BLOCK:
        draw, word = _Draw.of(keep, -(-n // 8)), np.dtype(_word_for(d))
        data = source.bytes(8 * draw.size + word.itemsize * n)
        src, given = data[: 8 * draw.size].view(np.uint64), data[8 * draw.size :].view(word)
        out, again = np.empty(n, codes.dtype), np.empty(n if word.itemsize > 1 else 0, np.int64)
        count = kernels.kept_or_drawn(
            src, draw.words, np.uint64(keep), draw.spare, given, np.uint64(d), codes, out, again
        )
        if count is not None and count >= 0:
            if count:
                drawn, at = uniform_below(d, count, source), again[:count]
                dropped = np.flatnonzero(at & 1 == 0)
                out[at[dropped] >> 1] = drawn[dropped]
            return out
        source = _Again(data, source)
    kept = np.unpackbits(bernoulli_bits(keep, -(-n // 8), source), count=n, bitorder="little")
    return select(kept, codes, uniform_below(d, n, source))


def one_hot_rows(p: int, q: int, position: npt.NDArray[Any], width: int, source: Source) -> U8:
    """uint8[n, width]: packed bits, each 1 with probability ``q / 2**64``; those at ``position`` with ``p / 2**64``.

    A position beyond the row leaves it as it is.
    """
    n = len(position)
    if n * width <= _BLOCK:
        all_bits, true_bits = _Draw.of(q, n * width), _Draw.of(p, -(-n // 8))
        src = source.bytes(8 * (all_bits.size + true_bits.size)).view(np.uint64)
        out = np.empty(all_bits.words, np.uint64)
        done = kernels.one_hot(
            src, np.uint64(q), all_bits.words, all_bits.spare, all_bits.size,
            np.uint64(p), true_bits.words, true_bits.spare, position, width, out,
        )  # fmt: skip
        if done:
            return out.view(np.uint8)[: n * width].reshape(n, width)
        source = _Again(src.view(np.uint8), source)
    rows = bernoulli_bits(q, n * width, source).reshape(n, width)
    true = np.unpackbits(bernoulli_bits(p, -(-n // 8), source), count=n, bitorder="little")
    overwrite_bit(rows, position, true)
    return rows


class _Again:
    """A source of which some bytes have been drawn."""

    def __init__(self, drawn: U8, source: Source) -> None:
        self._drawn, self._source = drawn, source

    def bytes(self, n: int) -> U8:
        """Return the next ``n`` bytes: the drawn ones first."""
        first, self._drawn = self._drawn[:n], self._drawn[n:]
        return first if len(first) == n else np.concatenate((first.copy(), self._source.bytes(n - len(first))))


def overwrite_bit(rows: U8, position: npt.NDArray[np.unsignedinteger], bit: U8) -> None:
    """Set bit ``position[i]`` of row ``i`` to ``bit[i]`` (0 or 1), in place.

    A position beyond the row's bytes leaves the row as it is.
    """
    n, width = rows.shape
    word = WORDS.get(width)
    if word is not None:  # a row is one machine word: plain SIMD arithmetic, no gather
        whole = rows.reshape(-1).view(word)
        mask = np.left_shift(np.array(1, word), position.astype(word, copy=False))
        np.bitwise_and(whole, ~mask, out=whole)
        np.multiply(mask, bit, out=mask)
        np.bitwise_or(whole, mask, out=whole)
        return
    inside = np.flatnonzero(position < 8 * width) if n and position.max() >= 8 * width else None
    start = np.arange(0, n * width, width)
    if inside is not None:
        start, position, bit = start[inside], position[inside], bit[inside]
    at = start + (position >> 3)
    mask = np.left_shift(np.uint8(1), (position & 7).astype(np.uint8, copy=False))
    flat = rows.reshape(-1)
    byte = flat[at]
    byte &= ~mask
    byte |= mask * bit
    flat[at] = byte
