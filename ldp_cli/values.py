"""Values as one writes them in a shell: ``ios,android``, ``16``, ``0:60``, ``1..40``, ``text:6``, ``@file``."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterable
from decimal import Decimal
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any

import typer

import ldp_core as core

SYNTAX = (
    "ios,android or false,true (a list); 1..40 (whole numbers); @FILE (one a line); 0:60 (numbers, for their mean); "
    "text:6 (any text of up to 6 small letters and digits); 2024-01-01..2025-01-01/1mo (dates before the second "
    "one, by month)"
)
"""How values are written."""


def population_of(text: str | None) -> Any:
    """Whom intervals are about: a number of people, None, or a word that is checked where it is used.

    >>> population_of("many"), population_of("4e4"), population_of("none")
    ('many', 40000, None)
    """
    return None if text in ("none", "None") else integer(text) if text is not None and _is_number(text) else text


def _int(text: str) -> int:
    if len(text) > _DIGITS:
        raise core.ParameterError(f"a whole number has at most {_DIGITS} digits, got {len(text)}")
    return int(text)


_DIGITS = 1000  # (Python raises ValueError above some thousand)


def values_of(text: str) -> int | core.Domain | core.Interval | core.Prefixes:
    """What is asked about: a number of values, or the values.

    >>> values_of("16"), values_of("0:60"), values_of("1..3"), values_of("false,true")
    (16, Interval(low=0.0, high=60.0, unmatched='error', missing=None), Domain([1, 2, 3]), Domain([False, True]))
    """
    if text.isdecimal():
        return _int(text)
    return declared(text)


def declared(text: str, *, other: bool = False) -> core.Domain | core.Interval | core.Prefixes:
    """Declared values, written as in `SYNTAX`; with ``other`` one more answer, for nulls and all other values."""
    if _UNCLEAR.fullmatch(text):
        large, small = text.replace(".", ""), re.sub(r"(\.\d+)", r"\g<1>0", text)
        raise core.ParameterError(f"{text!r} may have thousands or decimals: write {large} or {small}")
    try:
        made = _declared(text, other)
        return core.Domain.of(made) if isinstance(made, core.Domain) else made
    except core.DomainError as error:
        raise core.ParameterError(f"{text!r}: {error}; values are written as {SYNTAX}") from None


def _declared(text: str, other: bool) -> core.Domain | core.Interval | core.Prefixes:
    if text.startswith("@"):
        return core.Domain(labels(lines(text[1:])), unmatched="other" if other else "error")
    if text.startswith("text:"):
        return core.Prefixes(ascii_lowercase + digits, _whole(text[5:], text), unmatched="cut")
    if dates := _DATES.fullmatch(text):
        low, high, every = dates.groups()
        return core.Dates(low, high, every or "1d", "other" if other else "error")
    for mark in (":", ".."):
        ends = text.split(mark)
        if len(ends) == 2 and all(map(_is_number, ends)):
            if mark == ":":
                return core.Interval(float(ends[0]), float(ends[1]), unmatched="clip" if other else "error")
            low, high = (_whole(end, text) for end in ends)
            return core.Domain(range(low, high + 1), unmatched="other" if other else "error")
        if mark == ".." and len(ends) == 2 and "," not in text:
            raise core.ParameterError(f"{text!r}: a range of integers is written as 1..12")
    if re.fullmatch(r"-?[\d.]+(,\d+)*(:|\.\.)-?[\d.]+(,\d+)*", text):
        raise core.ParameterError(f"{text!r}: numbers have a point before the decimals, and no comma: 0.5:1000")
    words = _parts(text)
    if not all(map(str.strip, words)):
        raise core.ParameterError(f"{text!r} has a comma without a value; an empty text is declared in a plan's file")
    return core.Domain(labels(words), unmatched="other" if other else "error")


_DATES = re.compile(r"(\d{4}-[^,/]*)\.\.(\d{4}-[^,/]*)(?:/([^,/]+))?")

_UNCLEAR = re.compile(r"(?=.*\.)(-?([1-9]\d{0,2}\.\d{3}|\d+)(:|$)){2}")


def labels(words: Iterable[str]) -> list[str] | list[int] | list[bool]:
    """Words as labels: Booleans or integers where all of them are (007 is none, as a postal code).

    >>> labels(["1", "2"]), labels(["true", "false"]), labels(["1", "ios"]), labels(["007", "80331"])
    ([1, 2], [True, False], ['1', 'ios'], ['007', '80331'])
    """
    found = [word.strip() for word in words]
    if found and all(word.lower() in ("true", "false") for word in found):
        return [word.lower() == "true" for word in found]
    if found and all(word.removeprefix("-").isdecimal() and str(_int(word)) == word for word in found):
        return [_int(word) for word in found]
    return found


def lines(path: str) -> list[str]:
    """The lines of a text file, without empty ones."""
    try:
        return [line.strip() for line in Path(path).read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file in UTF-8"
        raise core.InputError(f"cannot read {path!r}: {reason}") from None


def named(pair: str, *, example: str) -> tuple[str, str]:
    """Both sides of ``NAME=WHAT``.

    >>> named("os=ios,android", example="os=ios,android")
    ('os', 'ios,android')
    """
    name, mark, what = pair.partition("=")
    if not (name and mark and what):
        raise core.ParameterError(f"expected NAME=WHAT, as {example}, got {pair!r}")
    return name, what


def shares_of(text: str, kind: str = "") -> dict[Any, float]:
    """Values, of texts and numbers of this ``kind``, and their shares or numbers of people: ``ios:0.6,android:0.4``.

    >>> shares_of("true:0.1,false:0.9"), shares_of("1:0.1,2:0.9", "str"), shares_of("0.5:1", "float")
    ({True: 0.1, False: 0.9}, {'1': 0.1, '2': 0.9}, {0.5: 1.0})
    """
    pairs = [part.rpartition(":") for part in _parts(text)]
    if not pairs or not all(value and _is_number(share.removesuffix("%")) for value, _, share in pairs):
        raise core.ParameterError(f"expected VALUE:SHARE,VALUE:SHARE, as ios:0.6,android:0.4, got {text!r}")
    words = [value.strip() for value, _, _ in pairs]
    if kind == "float" and not all(map(_is_number, words)):
        raise core.ParameterError(f"expected shares of numbers, as 0.5:30%,60:70%, got {text!r}")
    values = [float(word) for word in words] if kind == "float" else words if kind in ("str", "date") else labels(words)
    if len(set(values)) < len(values):
        raise core.ParameterError(f"a value has two shares: {text!r}")
    return dict(zip(values, (_number(share) for _, _, share in pairs), strict=True))


def margins_of(texts: list[str], *, numbers: Collection[str] = ()) -> float | dict[str, float]:
    """One margin, or margins by column. Those of ``numbers`` (``""`` is what has no columns) are in the numbers' unit.

    >>> margins_of(["2%"]), margins_of(["os=2%", "minutes=0.5"], numbers=["minutes"])
    (0.02, {'os': 0.02, 'minutes': 0.5})
    """
    one = len(texts) == 1 and "=" not in texts[0]
    pairs = {"": texts[0]} if one else dict(named(text, example="os=0.02") for text in texts)
    if len(pairs) < len(texts):
        raise core.ParameterError("--margin has a column twice")
    for name, text in pairs.items():
        of = f" of {name!r}" if name else ""
        if not _is_number(text.removesuffix("%")):
            raise core.ParameterError(f"the margin{of} must be a number, as 0.01 or 1%, got {text!r}")
        if text.endswith("%") and (name in numbers or (one and numbers)):
            raise core.ParameterError(
                f"a mean's margin is in the unit of the numbers, as 0.5, not in percent; got {text!r}"
            )
    found = {name: _number(text) for name, text in pairs.items()}
    return found[""] if one else found


def share(text: Any) -> float:
    """A share, as ``0.01`` or ``1%``; for options.

    >>> share("1%"), share("0.25")
    (0.01, 0.25)
    """
    try:
        return _number(str(text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no share: write 0.01 or 1%") from None


def whole(text: Any) -> int:
    """A number of things, also as ``1e6``; for options.

    >>> whole("1e6"), whole("20")
    (1000000, 20)
    """
    if (number := integer(text)) < 1:
        raise typer.BadParameter(f"expected a whole number, at least 1, got {text!r}")
    return number


def integer(text: Any) -> int:
    """The same, where what takes it says which it may be."""
    written = str(text).lower()
    if written.removeprefix("-").isdecimal():
        return _int(written)
    good = _is_number(written) and ("." not in written or "e" in written)  # (100.000 is another number elsewhere)
    if not (good and math.isfinite(float(written)) and int(exact := Decimal(written)) == exact):
        raise typer.BadParameter(f"expected a whole number, as 1000000 or 1e6, got {text!r}")
    return int(exact)


def _parts(text: str) -> list[str]:
    """What commas part; in quotes they do not."""
    try:
        return next(csv.reader([text]), [])
    except csv.Error:  # several lines, or a part of more than 131,072 characters
        raise core.ParameterError(f"a list is one line, of short values; values are written as {SYNTAX}") from None


def _number(text: str) -> float:
    return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _whole(text: str, given: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise core.ParameterError(f"expected a whole number in {given!r}; values are written as {SYNTAX}")
    return _int(text)
