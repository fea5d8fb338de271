"""Exact sampling at vector speed: Bernoulli bits and uniform integers.

A probability is an integer threshold T over 2^64 and a decision is the event
U < T for a uniform 64-bit integer U. Two facts make this cheap:

* U < T is decided by the leading bits. Eight bits of U settle all but 1 in 256
  decisions; only those draw eight bits more, and so on down to the 64th bit. The
  outcome has probability T / 2^64, not an approximation of it.
* Decisions are *bit-sliced*: bit i of a random byte is one bit of the i-th of eight
  independent U's, so that one AND or OR of two arrays advances eight decisions a
  byte, and the answers come out packed, as they travel.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ldp_core.exact.arrays import U8, WORDS

BITS = 64
ONE = 1 << BITS
"""The integer that stands for probability 1."""

_STEP = 8  # bits of U drawn at a time
_BLOCK = 1 << 19  # bytes of output at a time: long enough for two threads to overlap, eight planes of it fit in a cache

_UInts = npt.NDArray[Any]


class Source(Protocol):
    """A stream of independent uniform bytes."""

    def bytes(self, n: int) -> U8:
        """Return the next ``n`` bytes, in an array that is valid until the next call and may be written to."""
        ...


def bernoulli_bits(threshold: int, n_bytes: int, source: Source) -> U8:
    """Return ``8 * n_bytes`` packed independent bits, each 1 with probability ``threshold / 2**64``.

    ``threshold`` lies in ``(0, 2**64)``.
    """
    out = np.empty(n_bytes, np.uint8)
    for start in range(0, n_bytes, _BLOCK):
        block = out[start : start + _BLOCK]
        _less_than(threshold, BITS, block, source)
    return out


def _less_than(threshold: int, bits: int, out: U8, source: Source) -> None:
    """Fill ``out`` with the packed events U < threshold, U uniform over ``bits`` bits."""
    head, tail = divmod(threshold, 1 << (bits - _STEP))
    # Trailing zeros of the threshold decide nothing: U equal to T up to there means U >= T.
    depth = _STEP if tail else _STEP - ((head & -head).bit_length() - 1)
    # Bits of U, one plane a bit, most significant first; 1 stands for "this bit of U is 0".
    planes = source.bytes(depth * len(out)).reshape(depth, len(out))
    equal: U8 | None = None  # decisions in which U agrees with the threshold so far; None: all
    decided = False
    for i in range(depth):
        below = planes[i]
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
    if tail:
        assert equal is not None  # noqa: S101 (of at least one step)
        # Four bytes at a time: the search is a quarter as long, and most words with a tie have just one.
        word: type[np.unsignedinteger[Any]] = np.uint8 if len(out) % 4 else np.uint32
        tied = np.flatnonzero(equal.view(word) != 0)
        if len(tied):
            equal = equal.view(word)[tied].view(np.uint8)
            more = np.empty(len(equal), np.uint8)
            _less_than(tail, bits - _STEP, more, source)
            words = out.view(word)
            words[tied] |= (more & equal).view(word)


def uniform_below(d: int, n: int, source: Source) -> _UInts:
    """Return ``n`` independent integers, exactly uniform over ``range(d)``, for 1 <= d <= 2**31.

    The dtype is uint8 for d <= 256 and uint32 above. Multiply-and-shift with rejection:
    D. Lemire, "Fast Random Integer Generation in an Interval", ACM TOMACS 29(1), 2019,
    Algorithm 5, on words wide enough that fewer than one draw in 256 is rejected up to
    d = 2**24.
    """
    if 256 % d == 0:  # a power of two: the low bits of a byte are uniform as they are
        return source.bytes(n) & np.uint8(d - 1)
    word, product, result = (np.uint16, np.uint32, np.uint8) if d <= 256 else (np.uint32, np.uint64, np.uint32)
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


def one_hot_rows(p: int, q: int, position: npt.NDArray[Any], width: int, source: Source) -> U8:
    """uint8[n, width]: packed bits, each 1 with probability ``q / 2**64``; those at ``position`` with ``p / 2**64``.

    A position beyond the row leaves it as it is.
    """
    n = len(position)
    rows = bernoulli_bits(q, n * width, source).reshape(n, width)
    true = np.unpackbits(bernoulli_bits(p, -(-n // 8), source), count=n, bitorder="little")
    overwrite_bit(rows, position, true)
    return rows


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
