"""What comes out: rows of estimates, and counts of records that could not be used."""

# Beam reads the types of the fields, which therefore must be no strings: no ``from __future__ import annotations``.

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
from apache_beam.coders import RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.utils.timestamp import Timestamp


class _NamedTuple:
    """What type checkers need to know of rows."""

    _fields: ClassVar[tuple[str, ...]]
    _make: ClassVar[Callable[[Iterable[Any]], Self]]
    _asdict: Callable[[], dict[str, Any]]


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


Row = TypeVar("Row")


def _row(cls: type[Row]) -> type[Row]:
    """A NamedTuple of the fields of ``cls`` between those of `Head` and `Tail`; a Beam schema type."""
    counts = Counts.__annotations__ if issubclass(cls, Counts) else {}
    fields = {**Head.__annotations__, **cls.__annotations__, **counts, **Tail.__annotations__}
    make: Any = NamedTuple
    made = make(cls.__name__, list(fields.items()))
    made.__module__, made.__doc__ = cls.__module__, cls.__doc__
    registry.register_coder(made, RowCoder)
    return made  # type: ignore[no-any-return]


@_row
class HistogramRow(Head, Counts, Tail):
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
class IntegerHistogramRow(Head, Counts, Tail):
    """A `HistogramRow` of a domain of integers. A Beam schema type."""

    value: int


@_row
class BooleanHistogramRow(Head, Counts, Tail):
    """A `HistogramRow` of a domain of Booleans. A Beam schema type."""

    value: bool


HISTOGRAM_ROWS: dict[pa.DataType, Any] = {
    pa.string(): HistogramRow,
    pa.int64(): IntegerHistogramRow,
    pa.bool_(): BooleanHistogramRow,
}
"""By the type of the values."""


@_row
class MeanRow(Head, Tail):
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
class DistributionRow(Head, Tail):
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


AnyHistogramRow = HistogramRow | IntegerHistogramRow | BooleanHistogramRow


def is_histogram_row(element: object) -> bool:
    """Whether ``element`` is one of `HISTOGRAM_ROWS`, or a twin that Beam makes where it knows the schema only.

    (On portable runners rows come out of a coder as NamedTuples of a generated class.)
    """
    return getattr(element, "_fields", None) == HistogramRow._fields


def text_row(row: Any) -> HistogramRow:
    """A row of a histogram with its value as text, ``false`` and ``true`` for Booleans.

    What rows of several columns take whose values are of different types, before they go into one table::

        rows = (os_rows, age_rows) | beam.Flatten() | beam.Map(ldp_beam.text_row)

    Args:
        row: `HistogramRow`, `IntegerHistogramRow` or `BooleanHistogramRow`.

    >>> head = (Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "crashed", {})
    >>> text_row(BooleanHistogramRow(*head, True, *[0.0] * 8, 2, 0.95, 1.0, "f" * 16)).value
    'true'
    """
    value = row.value
    if isinstance(row, HistogramRow) and isinstance(value, str):
        return row
    fields = row._asdict()
    return HistogramRow(**{**fields, "value": str(value).lower() if isinstance(value, bool) else str(value)})


def value_type(element_type: Any) -> pa.DataType:
    """Of the values in rows of this type: text if it does not say, or if there are rows of several types.

    >>> value_type(IntegerHistogramRow), value_type(Any)
    (DataType(int64), DataType(string))
    """
    try:
        kind: Any = dict(named_fields_from_element_type(element_type)).get("value")
    except (TypeError, ValueError, AttributeError):
        return pa.string()
    return {bool: pa.bool_(), int: pa.int64(), np.int64: pa.int64()}.get(kind, pa.string())
