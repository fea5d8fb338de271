"""Strings of a declared alphabet and length, or integers, as 64-bit codes whose leading bits are prefixes.

A character is a number of ceil(log2(m + 1)) bits, 0 the end of a shorter string; the first character has the highest
bits. An integer of b bits is a string of b binary digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from ldp_core.arrays.arrow import as_arrow, filled_indices, stored
from ldp_core.arrays.types import U64, Bools, Codes
from ldp_core.errors import DomainError
from ldp_core.inputs.base import Inputs

Outside: TypeAlias = Literal["error", "cut"]

_WORD = 64
_MOST_BITS = 63  # of an integer, so that it has an Arrow int64


@dataclass(frozen=True)
class Prefixes(Inputs):
    """Text of up to ``length`` characters of ``alphabet``, or integers of ``length`` bits; all that may be found.

    Args:
        alphabet: the distinct ASCII characters that may occur, in any order, declared and not learned from the data.
            None: integers from 0 to ``2**length - 1``.
        length: the most characters of a text, such that ``length * ceil(log2(len(alphabet) + 1))`` is at most
            64 (12 letters, 9 of 127 characters); of integers the number of bits, 1 to 63.
        unmatched: what becomes of text that is longer or has other characters, and of nulls. ``"error"``: an error
            that counts them. ``"cut"``: a text ends before the first such character, and after ``length``
            characters; null is the empty text. What is cut is perturbed like every value. (Integers: "error" only.)

    Raises:
        DomainError: an alphabet, a length or a policy that does not exist.

    >>> names = Prefixes("abcdefghijklmnopqrstuvwxyz", 6, unmatched="cut")
    >>> names.decode(names.encode(["york", "New York", "washington", None]))
    ('york', '', 'washin', '')
    """

    alphabet: str | None
    length: int
    unmatched: Outside = "error"

    def __post_init__(self) -> None:
        if self.unmatched not in ("error", "cut"):
            raise DomainError(f'unmatched must be "error" or "cut", got {self.unmatched!r}')
        if self.alphabet is not None:
            if not isinstance(self.alphabet, str) or not self.alphabet:
                raise DomainError("an alphabet is a text of at least one character, or None for integers")
            if len(set(self.alphabet)) < len(self.alphabet) or not all("\0" < c < "\x80" for c in self.alphabet):
                raise DomainError("an alphabet has distinct ASCII characters other than NUL")
        elif self.unmatched != "error":
            raise DomainError('unmatched of integers must be "error"')
        most = _MOST_BITS if self.alphabet is None else _WORD // self.symbol_bits
        if isinstance(self.length, bool) or not isinstance(self.length, int) or not 1 <= self.length <= most:
            raise DomainError(f"length must be an integer in [1, {most}], so that a code fits in 64 bits")

    @cached_property
    def symbol_bits(self) -> int:
        """Bits of a character, the end of the string counted as one; of an integer, 1."""
        return 1 if self.alphabet is None else len(self.alphabet).bit_length()

    @property
    def bits(self) -> int:
        """Of a code."""
        return self.length * self.symbol_bits

    @property
    @override
    def kind(self) -> str:  # type: ignore[override]
        return "int" if self.alphabet is None else "str"

    @property
    @override
    def summary(self) -> str:
        if self.alphabet is None:
            return f"{self.length} bits"
        return f"{self.length} of {len(self.alphabet)} characters"

    @override
    def to_dict(self) -> dict[str, Any]:
        """The alphabet and the length are parameters of the mechanism."""
        return {"domain": {"kind": self.kind}}

    @property
    @override
    def remedy(self) -> str:
        return "declare a larger alphabet or length" + (', or use unmatched="cut"' if self.alphabet is not None else "")

    # ---- values to codes

    def encode(self, values: Any, *, column: str = "values") -> Codes:
        """Codes of text or integers, uint64: numbers of `bits` bits, of which the leading ones are prefixes.

        Raises:
            DomainError: ``unmatched="error"``, and some are null, too long or large, or have other characters.
            DtypeError: the values are of another kind.
        """
        codes, outside = self._codes(values, column)
        wrong = int(np.count_nonzero(outside)) if self.unmatched == "error" else 0
        if wrong:
            raise DomainError(
                f"column {column!r}: {wrong} of {len(codes)} values are null or not {self.summary}; {self.remedy}"
            )
        return codes

    @override
    def counted(self, values: Any) -> list[Any]:
        return list(self.decode(self.encode(values)))

    @override
    def outside(self, values: Any, *, column: str = "values") -> Bools:
        return self._codes(values, column)[1]

    def _codes(self, values: Any, column: str) -> tuple[U64, Bools]:
        """Codes, and which values are not declared."""
        array = as_arrow(values, self.kind, column=column)
        if pa.types.is_dictionary(array.type):
            codes, bad = self._of_array(array.dictionary)
            at = filled_indices(array, len(codes), column=column)  # what is null is one past the end
            return np.append(codes, np.uint64(0)).take(at), np.append(bad, True).take(at)
        return self._of_array(array)

    def _of_array(self, array: pa.Array) -> tuple[U64, Bools]:
        if self.alphabet is not None:
            # (Under a null there may still be a text: that of a column which somebody has masked.)
            codes, bad = self._of_text(pc.fill_null(array.cast(pa.large_string()), ""))
        else:
            numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
            codes = numbers.astype(np.int64, copy=False).view(np.uint64)  # a negative number is a huge one
            bad = codes >> np.uint64(self.length) != 0
        if array.null_count:
            bad |= array.is_null().to_numpy(zero_copy_only=False)
        return codes, bad

    def _of_text(self, array: pa.Array) -> tuple[U64, Bools]:
        n = len(array)
        codes, bad = np.zeros(n, np.uint64), np.zeros(n, bool)
        if not n:
            return codes, bad
        offsets = stored(array, n + 1, np.int64)
        start, stop = int(offsets[0]), int(offsets[-1])
        symbols = np.zeros(stop - start + self.length + _BYTES, np.uint8)  # so that every word can be read whole
        self._symbol_of_byte.take(
            np.frombuffer(array.buffers()[2] or b"", np.uint8)[start:stop], out=symbols[: stop - start]
        )
        words = np.lib.stride_tricks.sliding_window_view(symbols, _BYTES)
        for first in range(0, n, _ROWS):
            rows = slice(first, min(first + _ROWS, n))
            codes[rows], bad[rows] = self._of_rows(words, offsets[first : rows.stop + 1] - start)
        return codes, bad

    def _of_rows(self, words: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> tuple[U64, Bools]:
        """The codes, and which texts had to be cut; eight characters at a time."""
        at, lengths = offsets[:-1], np.diff(offsets)
        bad = lengths > self.length
        codes = np.zeros(len(at), np.uint64)
        for place in range(0, self.length, _BYTES):
            taken = min(self.length - place, _BYTES)
            word = words[at + place].view("<u8").reshape(-1)
            word &= _LEADING[np.clip(lengths - place, 0, taken)]
            foreign = word & _TOP_BITS
            if foreign.any():
                cut = np.flatnonzero(foreign)
                lowest = foreign[cut] & np.negative(foreign[cut])
                word[cut] &= (lowest >> np.uint64(7)) - np.uint64(1)  # the bytes before the first foreign one
                lengths[cut] = 0
                bad[cut] = True
            codes <<= np.uint64(taken * self.symbol_bits)
            codes |= self._packed(word) >> np.uint64((_BYTES - taken) * self.symbol_bits)
        return codes, bad

    def _packed(self, word: U64) -> U64:
        """Eight bytes, the first in the low bits, as eight symbols, the first in the high bits."""
        word = word.byteswap()
        used = self.symbol_bits
        for field, high in zip((8, 16, 32), _HIGH_FIELDS, strict=True):  # two fields become one
            word = (word & high) >> np.uint64(field - used) | word & ~high
            used *= 2
        return word

    @cached_property
    def _symbol_of_byte(self) -> npt.NDArray[np.uint8]:
        table = np.full(256, _NO_SYMBOL, np.uint8)
        for number, byte in enumerate((self.alphabet or "").encode(), start=1):
            table[byte] = number
        return table

    # ---- codes to values

    def decode(self, codes: Codes) -> tuple[str | int, ...]:
        """The values of codes."""
        if self.alphabet is None:
            return tuple(codes.tolist())
        return tuple(map(self._text, codes.tolist()))

    def _text(self, code: int) -> str:
        mask = (1 << self.symbol_bits) - 1
        symbols = (code >> (self.symbol_bits * place) & mask for place in reversed(range(self.length)))
        return "".join((self.alphabet or "")[symbol - 1] for symbol in symbols if symbol)

    # ---- prefixes

    def prefix(self, codes: U64, length: Any) -> U64:
        """The first ``length`` characters (one number, or one for each code) of codes."""
        shift = np.asarray((self.length - length) * self.symbol_bits, np.uint64)
        return codes >> shift

    def extensions(self, steps: int) -> int:
        """By how many strings of ``steps`` characters a prefix may be continued; the end is followed by ends only."""
        if self.alphabet is None:
            return 1 << steps
        return sum(len(self.alphabet) ** i for i in range(steps + 1))

    def extended(self, prefixes: U64, steps: int) -> U64:
        """All the strings that are ``steps`` characters longer and begin with one of the ``prefixes``, uint64[c].

        >>> Prefixes("ab", 2).extended(np.array([1, 0], np.uint64), 1).tolist()  # a: a$, aa, ab; the empty text: $$
        [4, 5, 6, 0]
        """
        for _ in range(steps):
            prefixes = self._longer(prefixes)
        return prefixes

    def begin(self, steps: int) -> U64:
        """All the strings of ``steps`` characters."""
        size = 2 if self.alphabet is None else len(self.alphabet) + 1
        return self.extended(np.arange(size, dtype=np.uint64), steps - 1)

    def _longer(self, prefixes: U64) -> U64:
        longer = prefixes << np.uint64(self.symbol_bits)
        if self.alphabet is None:
            return (longer[:, None] | np.arange(2, dtype=np.uint64)).reshape(-1)
        symbols = np.arange(len(self.alphabet) + 1, dtype=np.uint64)
        ended = prefixes & np.uint64((1 << self.symbol_bits) - 1) == 0
        return np.concatenate([(longer[~ended, None] | symbols).reshape(-1), longer[ended]])


_NO_SYMBOL = 255
_BYTES = 8  # of a word
_TOP_BITS = np.uint64(0x8080808080808080)  # of the bytes that are no symbols: there are at most 127
_LEADING = np.array([(1 << 8 * k) - 1 for k in range(_BYTES + 1)], np.uint64)
_HIGH_FIELDS = tuple(map(np.uint64, (0xFF00FF00FF00FF00, 0xFFFF0000FFFF0000, 0xFFFFFFFF00000000)))
_ROWS = 1 << 15  # texts at a time: what is made of them stays in the L2 cache
