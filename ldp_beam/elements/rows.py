"""What comes out: rows of answers, and counts of records that could not be used.

The type of the rows follows from the columns of an answer: fields that every row begins with, these columns, and
fields that every row ends with.
"""

# Beam reads the types of the fields, which therefore must be no strings: no ``from __future__ import annotations``.

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from keyword import iskeyword
from typing import Any, ClassVar, NamedTuple, Optional, Self, TypeVar

import numpy as np
import pyarrow as pa
from apache_beam.coders import RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.utils.timestamp import Timestamp

from ldp_core import ParameterError, PlanError
from ldp_core.engine import text_of


def fields_of(element_type: Any) -> dict[str, Any] | None:
    """Names and types of the fields of elements of this type; None where no schema tells, as of Arrow's."""
    try:
        return dict(named_fields_from_element_type(element_type))
    except (TypeError, ValueError, AttributeError):
        return None


def check_fields(fields: Mapping[str, Any] | None, names: Iterable[str | None]) -> None:
    """Raise if rows with the fields of a schema lack one of these columns: as nulls all would be "other"."""
    if fields is None:
        return
    missing = [name for name in names if name is not None and name not in fields]
    if missing:
        kept = "a limit of persons passes its id on with drop_id=False"
        raise PlanError(f"there are no columns {missing}; the rows have {sorted(fields)} ({kept})")


class _NamedTuple:
    """What type checkers need to know of rows."""

    _fields: ClassVar[tuple[str, ...]]
    _make: ClassVar[Callable[[Iterable[Any]], Self]]
    _asdict: Callable[[], dict[str, Any]]
    _replace: Callable[..., Self]


class Head(_NamedTuple):
    """The fields that every row of an estimate begins with."""

    window_start: Timestamp
    window_end: Timestamp
    pane_index: int
    pane_timing: str
    pane_is_first: bool
    pane_is_last: bool
    column_name: str
    key: Mapping[str, str]


class Tail:
    """The fields that every row of an estimate ends with."""

    n: int
    confidence: float
    epsilon: float
    fingerprint: str


class EstimateRow(Head, Tail):
    """The answer to a question in one pane of one window, for one key: a row of any question. A Beam schema type."""


class Counts:
    """The numbers of one value of a histogram."""

    count: float
    standard_error: float
    low: float
    high: float
    frequency: float
    frequency_standard_error: float
    frequency_low: float
    frequency_high: float


_HEAD, _TAIL = Head.__annotations__, Tail.__annotations__
_Columns = tuple[tuple[str, Any], ...]
_MADE: dict[_Columns, Any] = {}  # the types of rows that there are, by the columns of the answer and their types


def _made(columns: _Columns, like: type) -> Any:
    make: Any = NamedTuple
    made = make(like.__name__, [*_HEAD.items(), *columns, *_TAIL.items()])
    made.__module__, made.__doc__ = like.__module__, like.__doc__
    registry.register_coder(made, RowCoder)
    _MADE[columns] = made
    return made


Row = TypeVar("Row")


def _row(cls: type[Row]) -> type[Row]:
    """The type of rows with the columns that ``cls`` declares."""
    counts = Counts.__annotations__ if issubclass(cls, Counts) else {}
    return _made(tuple({**cls.__annotations__, **counts}.items()), cls)


@_row
class HistogramRow(EstimateRow, Counts):
    """The estimate of one value in one pane of one window, for one key. A Beam schema type.

    Of a domain of integers the rows are `IntegerHistogramRow`, of Booleans `BooleanHistogramRow`: the same fields, with
    ``value`` as an integer or a Boolean, so that joins work and 10 does not sort before 2.

    Attributes:
        window_start, window_end: of the event-time window [start, end); of the global window, the ends of time.
        pane_index: 0 for the first pane of the window and key.
        pane_timing: ``EARLY``, ``ON_TIME``, ``LATE`` or, on runners that do not tell, ``UNKNOWN``.
        pane_is_first, pane_is_last: whether the pane is known to be the first, the last.
        column_name: the column that was tallied.
        key: name and value, as text, of each ``by`` column; empty without ``by``.
        value: text; ``other`` included where the domain has it, which makes text of integers and Booleans, too.
        count: estimated number of records with the value; unbiased, so it can be below 0.
        standard_error, low, high: of ``count``, and the ends of its confidence interval.
        frequency: ``count / n``; nan if n is 0.
        frequency_standard_error, frequency_low, frequency_high: of ``frequency``, and the ends of its interval.
        n: number of reports in the pane. In accumulating mode a later pane replaces an earlier one; in
            discarding mode counts, ``n`` and squared standard errors of the panes of a window add up.
        confidence: of the interval.
        epsilon: of the mechanism, per report.
        fingerprint: of the mechanism.
    """

    value: str


@_row
class IntegerHistogramRow(EstimateRow, Counts):
    """A `HistogramRow` of a domain of integers. A Beam schema type."""

    value: int


@_row
class BooleanHistogramRow(EstimateRow, Counts):
    """A `HistogramRow` of a domain of Booleans. A Beam schema type."""

    value: bool


@_row
class MeanRow(EstimateRow):
    """The estimated mean in one pane of one window, for one key. A Beam schema type.

    Attributes:
        window_start to key, and n to fingerprint: see `HistogramRow`.
        mean: of the numbers, unbiased, in their own unit; nan if n is 0.
        standard_error, low, high: of ``mean``, and the ends of its confidence interval.
    """

    mean: float
    standard_error: float
    low: float
    high: float


@_row
class DistributionRow(EstimateRow):
    """One bucket of the estimated distribution in one pane of one window, for one key. A Beam schema type.

    Attributes:
        window_start to key, and n to fingerprint: see `HistogramRow`.
        bucket_start, bucket_end: ends of the bucket, in the numbers' own unit.
        frequency: estimated share of the numbers in the bucket; nan if n is 0.
        standard_error, low, high: of ``frequency``, and the ends of its confidence interval, each bucket's own.
    """

    bucket_start: float
    bucket_end: float
    frequency: float
    standard_error: float
    low: float
    high: float


def row_type(schema: pa.Schema) -> Any:
    """Type of the rows of an answer with these columns: one NamedTuple for each schema, and a Beam schema type."""
    columns = tuple((field.name, _declared(field)) for field in schema if field.name not in _TAIL)
    taken = sorted((_HEAD.keys() | _TAIL.keys() - {"n"}) & set(schema.names))
    if taken:
        raise ParameterError(f"an answer cannot have columns {taken}: all rows of Beam have them")
    if odd := [name for name in schema.names if not name.isidentifier() or iskeyword(name) or name.startswith("_")]:
        raise ParameterError(f"columns {odd} cannot be fields of a row of Beam: rename them, as 'my os' to 'my_os'")
    if columns not in _MADE:
        # a worker that reads a row from a pickle may have to make its type first
        _made(columns, EstimateRow).__reduce__ = lambda row: (_row_of, (schema, tuple(row)))
    return _MADE[columns]


UNKNOWN = {"median", "quantile"}
"""Columns of words, dates and times that are null where the reports do not tell; of numbers they are nan."""
_WORD_OR_NONE, _TIME_OR_NONE = Optional[str], Optional[Timestamp]  # noqa: UP045 (Beam knows no other way to say it)


def _declared(field: pa.Field) -> Any:
    kind = python_type(field.type)
    return {str: _WORD_OR_NONE, Timestamp: _TIME_OR_NONE}.get(kind, kind) if field.name in UNKNOWN else kind


def _row_of(schema: pa.Schema, values: Iterable[Any]) -> Any:
    return row_type(schema)(*values)


_PYTHON_TYPES = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_floating, float),
    (pa.types.is_string, str),
    (pa.types.is_large_string, str),
    (pa.types.is_date, str),
    (pa.types.is_timestamp, Timestamp),
)


def python_type(arrow_type: pa.DataType) -> Any:
    """What a Beam schema calls an Arrow type."""
    if pa.types.is_fixed_size_list(arrow_type) or pa.types.is_list(arrow_type):
        return typing.Sequence[python_type(arrow_type.value_type)]  # type: ignore[misc]
    if pa.types.is_dictionary(arrow_type):
        return python_type(arrow_type.value_type)
    for is_type, kind in _PYTHON_TYPES:
        if is_type(arrow_type):
            return kind
    raise ParameterError(f"{arrow_type} does not fit into a Beam row; use Arrow batches")


_ARROW_TYPES = {
    **dict.fromkeys((bool, np.bool_), pa.bool_()),
    **dict.fromkeys((int, np.int64), pa.int64()),
    **dict.fromkeys((float, np.float64), pa.float64()),
    **dict.fromkeys((Timestamp, _TIME_OR_NONE), pa.timestamp("us", "UTC")),
}


def arrow_type(declared: Any) -> pa.DataType:
    """The type in Arrow of a field of rows; text if it does not say, or says several."""
    of = typing.get_args(declared)
    if typing.get_origin(declared) is Sequence:
        return pa.list_(arrow_type(of[0]))
    if typing.get_origin(declared) is Mapping:
        return pa.map_(*map(arrow_type, of))
    return _ARROW_TYPES.get(declared, pa.string())


class DeadLetter(NamedTuple):
    """How many records of one batch could not be used, and why; never which or what. A Beam schema type.

    Attributes:
        column_name: the first column in which these records were unusable.
        reason: one of the constants of `ldp_beam.elements.faults`, or ``not of type`` and the type that was expected.
        count: number of records, at least 1.
    """

    column_name: str
    reason: str
    count: int  # type: ignore[assignment]  # hides tuple.count


registry.register_coder(DeadLetter, RowCoder)


def is_estimate_row(element: object) -> bool:
    """Whether this is a row of an estimate, or a NamedTuple of its fields, as coders of portable runners make it."""
    names = getattr(element, "_fields", ())
    return names[: len(_HEAD)] == tuple(_HEAD) and names[-len(_TAIL) :] == tuple(_TAIL)


def text_row(row: Any, kind: Any = HistogramRow) -> Any:
    """A row with its values as text, ``false`` and ``true`` for Booleans.

    What rows of several columns take whose values are of different types, before they go into one table::

        rows = (os_rows, age_rows) | beam.Flatten() | beam.Map(ldp_beam.text_row)

    Args:
        row: `HistogramRow`, `IntegerHistogramRow` or `BooleanHistogramRow`; or of another question.
        kind: the type of what comes out, with the same fields; those that are text in it become text.

    >>> head = (Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "crashed", {})
    >>> text_row(BooleanHistogramRow(*head, True, *[0.0] * 8, 2, 0.95, 1.0, "f" * 16)).value
    'true'
    """
    texts = {name for name, declared in kind.__annotations__.items() if declared in (str, _WORD_OR_NONE)}
    return kind(**{name: word_of(value) if name in texts else value for name, value in row._asdict().items()})


def word_of(value: Any) -> str | None:
    """The text of a value, of a time as `Dates` has it; None, and of numbers nan, if the reports do not tell."""
    if isinstance(value, Timestamp):
        return str(value.to_utc_datetime())
    return None if value is None or value != value else text_of(value)  # noqa: PLR0124 (nan)
