"""Which lines Arrow's JSON reader will certainly not take, a few microseconds each.

Arrow reads many lines at once, or none: it does not say which of them are at fault, and a call for one line alone takes
more than a hundred microseconds. So this looks at lines one by one with Python's reader. It never refuses a line that
Arrow takes. Of the others it refuses nearly all; those that it lets through are found by halving, each at that price:
values nested too deep for Python, and wrong values of other types than text, numbers, Booleans and timestamps.

What Arrow takes was found by trying, and `tests/beam/io/test_sieve.py` holds this file to it: NaN, Inf and
-Infinity are numbers; an exponent above 308 is an error, even of 0; half of a surrogate pair is one, written as an
escape, anywhere; a byte that is no UTF-8 is one only in a column of the schema, and so is a name that comes twice.
"""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from ldp_beam.elements.faults import NO_COLUMN, NOT_A_RECORD, NULL, Fault, not_of


class _Number(str):
    """What a number looks like in JSON: it is not read."""

    __slots__ = ()


class _Whole(_Number):
    """A number without point and exponent."""

    __slots__ = ()


class _RefusedError(Exception):
    """Arrow does not read this."""


def _real(token: str) -> _Number:
    mantissa, e, exponent = token.replace("E", "e").partition("e")
    if e and not exponent.startswith("-") and int(exponent[:9]) > 308 + len(mantissa.partition(".")[2]):
        raise _RefusedError
    return _Number(token)


_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_float=_real, parse_int=_Whole, parse_constant=_Number)
_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![0-9.])(-?(?:Inf(?:inity)?|NaN))', re.DOTALL)  # a text, or a constant
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_DAY = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = _DAY + r"(?:[T ](?:[01]\d|2[0-3])(?::[0-5]\d(?::[0-5]\d%s)?)?(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?"
_FRACTION = {"s": "", "ms": r"(?:\.\d{1,3})?", "us": r"(?:\.\d{1,6})?", "ns": r"(?:\.\d{1,9})?"}


_NONE: Fault = ("", NOT_A_RECORD)


class Sieve:
    """Refuses lines that are no objects of a schema, and says why.

    >>> sieve = Sieve(pa.schema([("os", pa.string()), ("n", pa.int8())]))
    >>> [sieve.fault_of(line) for line in (b'{"os": "ios", "n": 7}', b'{"n": 300}', b'{"os": "ios"')]
    [None, ('n', 'not of type int8'), ('', 'not a JSON object of the schema')]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._fields = [(field.name, _check_of(field.type), field.nullable, not_of(field.type)) for field in schema]
        self._names = frozenset(schema.names)

    def fault_of(self, line: bytes) -> Fault | None:
        """What is wrong with a line, without white space around it: the first field; None if nothing certainly is."""
        try:
            pairs = _pairs(line)
        except _RefusedError:
            return _NONE
        except (ValueError, RecursionError):  # what only Python does not read
            return None
        if pairs is None:
            return _NONE
        row = dict(pairs)
        if len(row) != len(pairs) and self._names_twice(pairs):
            return _NONE
        return self._misfit(row)

    def _misfit(self, row: Mapping[str, Any]) -> Fault | None:
        for name, fits, nullable, reason in self._fields:
            value = row.get(name)
            if value is None:
                if not nullable:
                    return name, NULL if name in row else NO_COLUMN
            elif not fits(value):
                return name, reason
        return None

    def _names_twice(self, pairs: tuple[tuple[str, Any], ...]) -> bool:
        names = [name for name, _ in pairs if name in self._names]
        return len(set(names)) != len(names)


def _pairs(line: bytes) -> tuple[tuple[str, Any], ...] | None:
    """Names and values of an object; None if it is certainly none; ValueError if only Python may not read it."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode(errors="surrogateescape")
    try:
        pairs, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError:
        if "Inf" not in text and "NaN" not in text:
            return None
        text = _CONSTANT.sub(lambda found: "0.0" if found[1] else found[0], text)  # Python lacks Inf, -Inf and -NaN
        try:
            pairs, end = _DECODER.raw_decode(text)
        except json.JSONDecodeError:
            return None
    if end != len(text) or ("\\u" in text and _has_half_a_pair(text)):
        return None
    return pairs


def _has_half_a_pair(text: str) -> bool:
    return any(match[1] for match in _ESCAPE.finditer(text))


def _check_of(kind: pa.DataType) -> Callable[[Any], Any]:
    """Whether Arrow may make this type of a value as `_DECODER` gives it; of other types nothing is known."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _is_text
    if pa.types.is_integer(kind):
        low = -(1 << (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
        high = low + (1 << kind.bit_width) - 1

        def is_whole(value: Any) -> bool:
            short = type(value) is _Whole and len(value) <= _LONGEST
            return short and low <= int(value) <= high and (low < 0 or value != "-0")

        return is_whole
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return lambda value: isinstance(value, _Number)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        matches = re.compile(_DAY if pa.types.is_date(kind) else _TIME % _FRACTION[kind.unit], re.ASCII).fullmatch
        return lambda value: type(value) is str and matches(value) and _is_date(value)
    if pa.types.is_list(kind):
        fits = _check_of(kind.value_type)
        return lambda value: type(value) is list and all(item is None or fits(item) for item in value)
    return (lambda value: type(value) is bool) if pa.types.is_boolean(kind) else (lambda value: True)


_LONGEST = 20  # digits and sign of a 64-bit integer


def _is_text(value: Any) -> bool:
    """Bytes that are no UTF-8 have become surrogates."""
    if type(value) is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return type(value) is str


def _is_date(text: str) -> bool:
    month, day = text[5:7], text[8:10]
    if day <= "28" or month not in _SHORT:
        return True
    return day <= _SHORT[month] or (month == "02" and day == "29" and calendar.isleap(int(text[:4])))


_SHORT = {"02": "28", "04": "30", "06": "30", "09": "30", "11": "30"}
