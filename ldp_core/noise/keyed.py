"""Keyed noise (memoization): reports that are a pure function of secret, mechanism, column, id and value.

Fresh noise averages out when one person reports one unchanged value again and again. Keyed noise does not:
the same person's same value always gives the same report, on every engine and for ever, while another
value, person, column, mechanism or secret gives an independent one (U. Erlingsson, V. Pihur,
A. Korolova, "RAPPOR", CCS 2014, section 3.1, the permanent randomized response).

How a block of noise is made. E1 and E2 are AES-256 under two keys, each the HMAC-SHA-256 of the length-prefixed parts
(purpose, the mechanism's digest, tag, column) under the secret. A block is 128 bits, two words (a, b); ``+`` is XOR.

* An id is a block I: of an integer from -2^63 to 2^63 - 1 its 64 bits, (i, 0); of all other ids a keyed 128-bit hash
  H, the CBC-MAC in `ldp_core.exact.hashing`, under a key of its own.
* A place is 32 bits: which decision of the record the block is for.
* Codes of up to 32 bits (declared domains, numbers): the noise is E2(I + (0, code 2^32 + place)).
* Codes of 64 bits (open domains, prefixes): the noise is E2(S + (0, place)), with the seed S = E1(I + (0, code)).
  Where a value has 128 bits (v, w), S = E1(E1(I + (0, v)) + (0, w)).

Why this is a pseudo-random function of id, whole value and place. Replace HMAC, H and then E1 and E2 by random
functions. The outputs are independent and uniform if all inputs of E2 are different. For two different triples of id,
code and place:

* Codes of up to 32 bits. For one id, or two integers, the inputs are different: nothing overlaps. Else a random H
  enters, and they are equal with probability 2^-128.
* Codes of 64 bits. Likewise the inputs of E1 are different, or equal with probability 2^-128. Then the seeds are
  random, and S + (0, place) is equal for both with probability 2^-128. (With 128 bits that may happen at two steps.)

AES is a permutation, which differs from a random function by at most n^2 / 2^129 for n blocks (the switching lemma).
So whoever does not have the secret tells B blocks of noise of q pairs of id and value from uniform ones with advantage
at most (B^2 + 4 q^2) / 2^128 (for 2^48 blocks below 2^-29), beside what breaks AES or HMAC, and about l q^2 / 2^128
more where ids are hashed and have up to l blocks of 16 bytes (M. Bellare, K. Pietrzak, P. Rogaway, "Improved Security
Analyses for CBC MACs", CRYPTO 2005; S. Jha, M. Nandi, "Revisiting Structure Graphs", Journal of Mathematical Cryptology
10, 2016).

Equal codes. The code of a text of an open domain is a public hash of 64 bits: two given texts share it with
probability 2^-64, and whoever may choose texts can make two that do. A mechanism sees nothing but codes, so that these
two are one value for it: all that it reports of them is the same, and does not tell which of them it was. They are
counted together, which is an error of the estimate and no loss of privacy. RAPPOR by MD5 sees more than the code, and
has values of 128 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.arrays.types import U8, U64
from ldp_core.compute import kernels
from ldp_core.errors import ParameterError
from ldp_core.exact.aes import BLOCK, SPARE, aes, encrypt
from ldp_core.exact.hashing import id_words
from ldp_core.noise.base import Noise, Randomness, kept_or_drawn
from ldp_core.noise.fresh import Keystream
from ldp_core.noise.secret import Secret


class Keyed(Randomness):
    """Keyed noise for the records of one call: pass it as ``randomness``.

    Args:
        secret: see `Secret`.
        ids: of the persons (or devices, or sessions), one per record: integers, text or binary. Equal integers are one
            id, whatever their width (-1 and 2**64 - 1 are two); so are text and binary of the same bytes. The integer
            17 and the text "17" are two ids, and so are two Unicode forms of one name: normalize before.
        column, tag: names of the noise: columns, or tags, of different names share nothing.
        records: what tells the records apart, as ids do the persons, one per record. It changes nothing but the second
            round of a mechanism that remembers, which is fresh otherwise: that round becomes a function of the record
            too, so that a record which is perturbed again gives the same report.

    Raises:
        DtypeError: ids of another type.
        InputError: null ids.
        ParameterError: not as many records as ids.

    >>> from ldp_core import RandomizedResponse
    >>> m, secret = RandomizedResponse(epsilon=1.0), Secret.generate()
    >>> first, again = (m.perturb([True], randomness=Keyed(secret, [17], column="crashed")) for _ in range(2))
    >>> bool(first[0] == again[0])
    True
    """

    __slots__ = ("_high", "_low", "_name", "_records", "_secret")

    by_value = True

    def __init__(self, secret: Secret, ids: Any, *, column: str, tag: str | None = None, records: Any = None) -> None:
        if not isinstance(secret, Secret):
            raise ParameterError(f"expected a Secret, got {type(secret).__name__}")
        self._secret = secret
        self._name = _name(column, tag)
        self._high, self._low = id_words(ids, secret.derive("id"))
        self._records = None if records is None else id_words(records, secret.derive("id"))
        if self._records is not None and len(self._records[0]) != len(self):
            raise ParameterError(f"{len(self)} ids for {len(self._records[0])} records")

    def named(self, column: str, tag: str | None = None) -> Keyed:
        """The noise of the same records for another column."""
        other = copy(self)
        other._name = _name(column, tag)
        return other

    def __len__(self) -> int:
        return len(self._high)

    def bind(self, digest: str, codes: npt.NDArray[Any]) -> KeyedRows:
        """The noise of these codes (one per record, see `Randomness.bind`) under the mechanism with this digest."""
        if len(codes) != len(self):
            raise ParameterError(f"{len(self)} ids for {len(codes)} records")
        noise, value = (self._secret.derive(purpose, digest, *self._name) for purpose in ("noise", "value"))
        again = None
        if self._records is not None or self._secret.seeded:
            second = self._secret.derive("instantaneous", digest, *self._name)
            again = KeyedRows(Ciphers(second, value), None, *(self._records or (self._high, self._low)), codes)
        return KeyedRows(Ciphers(noise, value), again, self._high, self._low, codes)


def refuse_own(whose: object, perturbed: Container[str], one: str = "person") -> None:
    """Raise `ParameterError` if a column that is perturbed says whose records these are, or which."""
    if isinstance(whose, str) and whose in perturbed:
        raise ParameterError(
            f"id={whose!r} is a column that is perturbed: all who have a value would be one {one}, with one report "
            f"or limit of them all; give the column that tells the {one}s apart"
        )


def _name(column: str, tag: str | None) -> tuple[str, ...]:
    names = (column,) if tag is None else (tag, column)
    with suppress(TypeError, UnicodeEncodeError):
        "".join(names).encode()
        return names
    raise ParameterError("column and tag, which name keyed noise, must be text")


# A place is 32 bits: 4 of lane, 4 of level and 24 of counter. Two lanes of single draws share a block, a word each.
_CODE_SHIFT, _LANE_SHIFT, _LEVEL_SHIFT = 32, 28, 24
_SHORT = 4  # bytes of a code that has room in a block beside the id and the place
_REDRAWS = 8  # levels 0 to 7: a draw, and what is drawn again after a rejection
_ROWS, _TIES = 8, 9  # levels: bytes for rows of bits, and words for their ties
_STEPS = 10  # level: draws that are repeated step by step, 16 bits of step and 8 of rejections in the counter
_STEP_SHIFT = 8
_HEADS, _TAILS = 11, 12  # levels: the leading bits of rows of words, and the others where they are needed
_CHUNK = 1 << 17  # blocks at a time: long enough for two threads to overlap


class Ciphers:
    """E2, the noise, and E1, of values, under their keys; of one thread, as a cipher of OpenSSL is."""

    __slots__ = ("_keys", "of_value", "to_noise")

    def __init__(self, noise: bytes, value: bytes) -> None:
        self._keys = noise, value
        self.to_noise, self.of_value = aes(noise), aes(value)

    def another(self) -> Ciphers:
        """The same for another thread."""
        return Ciphers(*self._keys)


class KeyedRows(Noise):
    """The noise of n records, each a function of its own id and value; see `Keyed.bind` and `Noise`."""

    __slots__ = ("_again", "_ciphers", "_codes", "_drawn", "_high", "_low", "_seeds")

    def __init__(
        self,
        ciphers: Ciphers,
        again: KeyedRows | None,
        high: U64,
        low: U64 | None,
        codes: npt.NDArray[Any],
        seeds: U64 | None = None,
    ) -> None:
        self._ciphers, self._again = ciphers, again
        self._high, self._low, self._codes = high, low, codes
        self._seeds = seeds
        self._drawn: tuple[int, U64] | None = None

    @override
    def rows(self, start: int, stop: int) -> KeyedRows:
        return self.at(slice(start, stop))

    @override
    def at(self, some: npt.NDArray[np.int64] | slice) -> KeyedRows:
        low, seeds = (None if words is None else words[some] for words in (self._low, self._seeds))
        again = None if self._again is None else self._again.at(some)
        return KeyedRows(self._ciphers, again, self._high[some], low, self._codes[some], seeds)

    @override
    def another(self) -> KeyedRows:
        again = None if self._again is None else self._again.another()
        return KeyedRows(self._ciphers.another(), again, self._high, self._low, self._codes, self._seeds)

    @override
    def instantaneous(self) -> Noise:
        """Fresh, unless the secret is a seed, or the noise is that of records."""
        return Keystream() if self._again is None else self._again

    @override
    def of_persons(self) -> KeyedRows:
        return self.with_codes(np.zeros(len(self._codes), np.uint8))

    @override
    def with_codes(self, codes: npt.NDArray[Any]) -> KeyedRows:
        again = None if self._again is None else self._again.with_codes(codes)
        return KeyedRows(self._ciphers, again, self._high, self._low, codes)

    def _places(self, places: int | U64, rows: npt.NDArray[np.int64] | slice = slice(None)) -> tuple[U64, U64]:
        """The words of the blocks of some of the rows at ``places``."""
        if self._codes.dtype.itemsize > _SHORT:
            seeds = self._seeds_of_values()[rows]
            low: U64 = seeds[:, 1] ^ np.asarray(places, np.uint64)
            return seeds[:, 0], low
        low = self._codes[rows].astype(np.uint64)
        low <<= np.uint64(_CODE_SHIFT)
        if not isinstance(places, int):
            low |= places
        elif places:
            low |= np.uint64(places)
        if self._low is not None:
            low ^= self._low[rows]
        return self._high[rows], low

    def _seeds_of_values(self) -> U64:
        """uint64[n, 2]: S of the module's docstring, made when first asked for: of a block of records, not of all."""
        if self._seeds is None:
            codes = self._codes.view(np.uint64).reshape(len(self._codes), -1)
            seeds = np.zeros((len(codes), 2), np.uint64)
            seeds[:, 0] = self._high
            if self._low is not None:
                seeds[:, 1] = self._low
            for word in codes.T:
                seeds[:, 1] ^= word
                seeds = encrypt(self._ciphers.of_value, seeds).view(np.uint64)
            self._seeds = seeds
        return self._seeds

    def _words(self, lane: int) -> U64:
        """A 64-bit word per record."""
        return self._pairs(lane)[:, lane & 1]

    def _pairs(self, lane: int) -> U64:
        """uint64[n, 2]: the words of two lanes. They share a block, drawn once, for whichever is asked first."""
        pair = lane & ~1
        if self._drawn is None or self._drawn[0] != pair:
            n = len(self._codes)
            drawn = np.empty(BLOCK * n + SPARE, np.uint8)
            blocks = np.empty((min(n, _CHUNK), 2), np.uint64)
            for start in range(0, n, _CHUNK):
                chunk = slice(start, min(start + _CHUNK, n))
                part = blocks[: chunk.stop - start]
                self._fill(part, _place(pair), chunk)
                self._ciphers.to_noise.update_into(part.reshape(-1).view(np.uint8).data, drawn[BLOCK * start :].data)
            self._drawn = pair, drawn[: BLOCK * n].view(np.uint64).reshape(n, 2)
        return self._drawn[1]

    def _fill(self, blocks: U64, place: int, rows: slice) -> None:
        """The blocks of some rows at one place."""
        if self._codes.dtype.itemsize <= _SHORT:
            low = self._high[:0] if self._low is None else self._low[rows]
            if kernels.keyed_blocks(self._high[rows], low, self._codes[rows], np.uint64(place), blocks.reshape(-1)):
                return
        blocks[:, 0], blocks[:, 1] = self._places(place, rows)

    @override
    def words(self, n: int, lane: int) -> U64:
        return self._words(lane)

    @override
    def head_rows(self, n: int, width: int, lane: int) -> npt.NDArray[np.uint16]:
        _check_width(width)
        counters = np.arange(-(-width // 8), dtype=np.uint64)
        high, low = self._places(_place(lane, _HEADS))
        blocks = self._blocks(high[:, None], low[:, None] ^ counters)
        return blocks.view(np.uint16).reshape(n, 8 * len(counters))[:, :width]

    @override
    def tails(self, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], lane: int) -> U64:
        """A block of its own for each."""
        places = columns.astype(np.uint64) | np.uint64(_place(lane, _TAILS))
        return self._blocks(*self._places(places, rows)).view(np.uint64)[:, 0] >> np.uint64(16)

    @override
    def bernoulli(self, threshold: int, n: int, lane: int) -> U8:
        """A word of 64 bits, compared exactly."""
        words, out = self._pairs(lane), np.empty(-(-n // 8), np.uint8)
        if kernels.less(words.reshape(-1), lane & 1, np.uint64(threshold), out):
            return out
        return np.packbits(words[:, lane & 1] < np.uint64(threshold), bitorder="little")

    @override
    def kept_or_drawn(self, keep: int, codes: npt.NDArray[Any], d: int, lane: int) -> npt.NDArray[Any]:
        words, out = self._pairs(lane), np.empty(len(codes), codes.dtype)
        if kernels.kept_or_drawn_by_words(words.reshape(-1), np.uint64(keep), codes, np.uint64(d), out):
            return out
        return kept_or_drawn(self, keep, codes, d, lane)

    @override
    def one_hot_rows(self, p: int, q: int, position: npt.NDArray[Any], width: int, lane: int) -> U8:
        """A byte a decision settles all but 1 in 256; a block of its own settles each of those."""
        _check_width(8 * width)
        n = len(position)
        out = np.empty((n, width), np.uint8)
        step = max(_CHUNK * BLOCK // (8 * width), 1)
        for start in range(0, n, step):
            chunk = slice(start, start + step)
            out[chunk] = self.rows(start, start + step)._one_hot_rows(p, q, position[chunk], width, lane)
        return out

    def _one_hot_rows(self, p: int, q: int, position: npt.NDArray[Any], width: int, lane: int) -> U8:
        n = len(position)
        counters = np.arange(-(-8 * width // BLOCK), dtype=np.uint64)
        high, low = self._places(_place(lane, _ROWS))
        draws = self._blocks(high[:, None], low[:, None] ^ counters).reshape(n, -1)
        flat, columns = draws.reshape(-1), draws.shape[1]
        head, tail = divmod(q, 1 << 56)
        less = flat < head
        if tail:
            equal = (flat == head).view(np.uint64)  # eight decisions at a time
            words = np.flatnonzero(equal != 0)
            at = np.flatnonzero(equal[words].view(bool))
            at = 8 * words[at >> 3] + (at & 7)
            less[at] = self._tie_is_less(at, columns, tail, lane)
        own = np.arange(0, n * columns, columns)
        if n and position.max() >= 8 * width:
            inside = np.flatnonzero(position < 8 * width)
            own, position = own[inside], position[inside]
        own += position
        draw = flat[own]
        head, tail = divmod(p, 1 << 56)
        less[own] = draw < head
        if tail:
            at = own[draw == head]
            less[at] = self._tie_is_less(at, columns, tail, lane)
        if columns > 8 * width:
            less = less.reshape(n, columns)[:, : 8 * width].reshape(-1)
        return np.packbits(less, bitorder="little").reshape(n, width)

    def _tie_is_less(self, at: npt.NDArray[np.int64], columns: int, tail: int, lane: int) -> npt.NDArray[np.bool_]:
        """Whether 56 more bits are below ``tail``, for decisions of which the leading 8 bits equal the threshold's."""
        row = at // columns
        place = (at - row * columns).astype(np.uint64) | np.uint64(_place(lane, _TIES))
        more = self._blocks(*self._places(place, row)).view(np.uint64)[:, 0] >> np.uint64(8)
        return more < np.uint64(tail)

    @override
    def uniform_below(self, d: int, n: int, lane: int) -> npt.NDArray[Any]:
        """What is rejected draws again, on the next level."""
        return self._uniform(self._words(lane), d, np.arange(n), lambda k: _place(lane, k % _REDRAWS, k // _REDRAWS))

    @override
    def uniform_again(self, d: int, rows: npt.NDArray[np.int64], step: int, lane: int) -> npt.NDArray[Any]:
        first = step << _STEP_SHIFT
        words = self._blocks(*self._places(_place(lane, _STEPS, first), rows)).view(np.uint64)[:, 0]
        return self._uniform(words, d, rows, lambda k: _place(lane, _STEPS, first + k))

    def _uniform(
        self, words: U64, d: int, rows: npt.NDArray[np.int64], place: Callable[[int], int]
    ) -> npt.NDArray[Any]:
        """Multiply and shift on 32 bits of a word for each of ``rows``; what is rejected draws at the next place."""
        out: npt.NDArray[Any] = np.empty(len(words), np.uint8 if d <= _BYTE else np.uint32)
        rejected, attempt = _scaled(words, d, out), 1
        while len(rejected):
            blocks = self._blocks(*self._places(place(attempt), rows[rejected]))
            part = np.empty(len(rejected), out.dtype)
            again = _scaled(blocks.view(np.uint64)[:, 0], d, part)
            out[rejected] = part
            rejected = rejected[again]
            attempt += 1
        return out

    def _blocks(self, high: U64, low: U64) -> U8:
        """uint8[k, 16]: AES of k blocks of two words each, which broadcast against each other."""
        blocks = np.empty((*low.shape, 2), np.uint64)
        blocks[..., 0] = high
        blocks[..., 1] = low
        return encrypt(self._ciphers.to_noise, blocks)


_BYTE = 256


def _scaled(words: U64, d: int, out: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The low halves of words as integers below ``d``, into ``out``; returns where they must be drawn again."""
    wide = words & np.uint64(0xFFFFFFFF)
    wide *= np.uint64(d)
    np.right_shift(wide, 32, out=out, casting="unsafe")
    biased = (1 << 32) % d
    return np.flatnonzero(wide.astype(np.uint32) < biased) if biased else np.empty(0, np.int64)


def _place(lane: int, level: int = 0, count: int = 0) -> int:
    return lane << _LANE_SHIFT | level << _LEVEL_SHIFT | count


def _check_width(width: int) -> None:
    """Raise `ParameterError` if a row has more decisions than a counter can number."""
    if width > 1 << _LEVEL_SHIFT:
        raise ParameterError(f"keyed noise has at most {1 << _LEVEL_SHIFT} decisions a report, got {width}")
