"""Which records cannot be used or may not pass, and why, without a word about their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.utils.timestamp import Timestamp

from ldp_beam.elements.rows import DeadLetter
from ldp_core import DtypeError, LdpError, PlanError
from ldp_core.engine import LISTS, PYTHON_TYPES, Bools, Inputs, Nullable, ReportFormat, Value

_S = TypeVar("_S", bound=Any)
_T = TypeVar("_T")

# The reasons of a `DeadLetter`. Of a record:
NULL = "null"
UNDECLARED = "not in the domain"
NO_COLUMN = "no such column"
NO_TIME = "no event time"
NO_YEAR = "a time before the year 1 or after 9999"
NOT_A_REPORT = "not a report of this mechanism"
NOT_DISTINCT = "does not tell the records apart"
NOT_PROVED = "nothing says that these are reports: perturb, or take assume_reports"
OTHER_PLAN = "its metadata name another plan, or none that can be read"
UNSAID = "keyed noise: say repeats=, person= or same_people="
LATE = "late"
# of one that a limit keeps back,
OVER_LIMIT = "over the limit"
DUPLICATE = "duplicate"
BUDGET_SPENT = "budget spent"
# and of what is read from outside: a message, a line of one or of a file, a file or the rest of one.
NOT_A_BATCH = "not a batch"
TOO_LARGE = "over the limits of a message"
NOT_A_RECORD = "not a JSON object of the schema"
NOT_A_LINE = "not a line of the schema"
UNREADABLE = "not a readable file"


def not_of(kind: object) -> str:
    """The reason where something is of another type than ``kind``."""
    return f"not of type {kind}"


Fault: TypeAlias = tuple[str, str]  # column, if it is known, and reason


class Faults:
    """The first fault of each of n records."""

    def __init__(self, n: int) -> None:
        self.first = np.full(n, -1, np.int64)
        self._found: list[Fault] = []

    def add(self, column: str, reason: str, rows: Bools | None = None) -> None:
        """Note a fault of ``rows``, bool[n], or of all; records that have one already keep that."""
        new = self.good if rows is None else rows & self.good
        if new.any():
            self.first[new] = len(self._found)
            self._found.append((column, reason))

    @contextmanager
    def of(self, column: str, kind: object) -> Iterator[None]:
        """Note it of all records if reading this column says that it is missing, or of another type than ``kind``."""
        try:
            yield
        except PlanError:
            self.add(column, NO_COLUMN)
        except DtypeError:
            self.add(column, not_of(kind))

    @property
    def good(self) -> Bools:
        """bool[n]: records without fault."""
        return self.first < 0

    def letters(self, rows: npt.NDArray[np.int64]) -> Iterator[DeadLetter]:
        """The faults of the records at ``rows``, counted."""
        counts = np.bincount(self.first[rows] + 1, minlength=len(self._found) + 1)[1:]
        for (column, reason), count in zip(self._found, counts.tolist(), strict=True):
            if count:
                yield DeadLetter(column, reason, count)


def check_values(values: Any, inputs: Inputs, column: str, faults: Faults) -> None:
    """Note which values a mechanism with these ``inputs`` would refuse."""
    if values is None:
        faults.add(column, NO_COLUMN)
        return
    if isinstance(values, list):
        values, wrong = _of_right_type(values, inputs.kind)
        faults.add(column, not_of(inputs.kind), wrong)
        missing = np.fromiter((v is None for v in values), bool, len(values))
    else:
        missing = values.is_null().to_numpy(zero_copy_only=False)
    if not inputs.takes_nulls:
        faults.add(column, NULL, missing)
    with faults.of(column, inputs.kind):
        refused = inputs.refuses(values, column=column)
        faults.add(column, NULL, refused & missing)
        faults.add(column, UNDECLARED, refused)


def _of_right_type(values: list[Any], kind: str, *, in_list: bool = False) -> tuple[list[Any], Bools]:
    """``values`` with None for those of another type than ``kind``; and which these are."""
    types = PYTHON_TYPES[kind] | ({Timestamp} if kind == "date" else set())
    if kind in LISTS:
        of = LISTS[kind]
        right = [
            v is None or (type(v) in types and not _of_right_type([*v], of, in_list=True)[1].any()) for v in values
        ]
    else:
        any_size = kind == "int" and not in_list  # (an integer that has no 64 bits is one that nobody declared)
        right = [v is None or (type(v) in types and (any_size or _fits(v, kind))) for v in values]
    return [v if ok else None for v, ok in zip(values, right, strict=True)], ~np.array(right, bool)


def _fits(value: Any, kind: str) -> bool:
    """Whether Arrow takes it: an integer of 64 bits, or that a float can be; text without half of a character."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
    most = {"int": 2**63 - 1, "float": 2**53}.get(kind)
    return most is None or not isinstance(value, (int, np.integer)) or -most - (kind == "int") <= int(value) <= most


def check_reports(reports: pa.Array | None, form: ReportFormat, column: str, faults: Faults) -> None:
    """Note which of n reports are not of this format; None if there is no such column."""
    if reports is None:
        faults.add(column, NO_COLUMN)
        return
    if not _readable(reports.slice(0, 0), form):
        faults.add(column, not_of(_name(form)))
        return
    missing = reports.is_null().to_numpy(zero_copy_only=False)
    if not form.nullable:
        faults.add(column, NULL, missing)
    inner = form.inner if isinstance(form, Nullable) else form
    if isinstance(inner, Value):  # look it up
        faults.add(column, NOT_A_REPORT, inner.domain.declared.refuses(reports) & ~missing)
        return
    parts = in_halves(reports, lambda some: _readable(some, form) or None)  # only the format knows its reports
    readable = [good for part, found in parts for good in [found is not None] * len(part)]
    faults.add(column, NOT_A_REPORT, ~np.array(readable, bool))


def _name(form: ReportFormat) -> pa.DataType:
    """The type of reports; of text the text's, which may be a dictionary or not."""
    found = form.arrow_type()
    return found.value_type if pa.types.is_dictionary(found) else found


def _readable(reports: pa.Array, form: ReportFormat) -> bool:
    try:
        form.from_arrow(reports)
    except LdpError:
        return False
    return True


def in_halves(items: _S, attempt: Callable[[_S], _T | None]) -> Iterator[tuple[_S, _T | None]]:
    """Parts of some items, in order, and what ``attempt`` makes of each; None of a single item only.

    What works for all items or fails for all is tried on both halves, down to the items that are at fault.

    >>> list(in_halves("ab3d", lambda text: text.upper() if text.isalpha() else None))
    [('ab', 'AB'), ('3', None), ('d', 'D')]
    """
    found = attempt(items)
    if found is not None or len(items) < 2:
        yield items, found
        return
    middle = len(items) // 2
    yield from in_halves(items[:middle], attempt)
    yield from in_halves(items[middle:], attempt)
