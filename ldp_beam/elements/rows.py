"""What comes out: one row of an estimated histogram, and a count of records that could not be used."""

from collections.abc import Mapping
from typing import NamedTuple

from apache_beam.coders import RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.utils.timestamp import Timestamp


class HistogramRow(NamedTuple):
    """The estimate of one value in one pane of one window, for one key. A Beam schema type.

    Attributes:
        window_start, window_end: of the event-time window [start, end); of the global window, the ends of time.
        pane_index: 0 for the first pane of the window and key.
        pane_timing: ``EARLY``, ``ON_TIME``, ``LATE`` or, on runners that do not tell, ``UNKNOWN``.
        pane_is_first, pane_is_last: whether the pane is known to be the first, the last.
        column: the column that was tallied.
        key: name and value, as text, of each ``by`` column; empty without ``by``.
        value: as text (``false`` and ``true`` for Booleans), ``other`` included where the domain has it.
        count: estimated number of records with the value; unbiased, so it can be below 0.
        frequency: ``count / n``; nan if n is 0.
        standard_error, low, high: of ``count``, and the ends of its confidence interval.
        n: number of reports in the pane. In accumulating mode a later pane replaces an earlier one; in
            discarding mode counts, ``n`` and squared standard errors of the panes of a window add up.
        confidence: of the interval.
        epsilon: of the mechanism, per report.
        fingerprint: of the mechanism.
    """

    window_start: Timestamp
    window_end: Timestamp
    pane_index: int
    pane_timing: str
    pane_is_first: bool
    pane_is_last: bool
    column: str
    key: Mapping[str, str]
    value: str
    count: float  # type: ignore[assignment]  # hides tuple.count
    frequency: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float
    epsilon: float
    fingerprint: str


class DeadLetter(NamedTuple):
    """How many records of one batch could not be used, and why; never which or what. A Beam schema type.

    Attributes:
        column: the first column in which these records were unusable.
        reason: one of the constants of `ldp_beam.elements.faults`.
        count: number of records, at least 1.
    """

    column: str
    reason: str
    count: int  # type: ignore[assignment]  # hides tuple.count


for _row in (HistogramRow, DeadLetter):
    registry.register_coder(_row, RowCoder)


def is_histogram_row(element: object) -> bool:
    """Whether ``element`` is a `HistogramRow`, or the twin that Beam makes of one where it knows the schema only.

    (On portable runners rows come out of a coder as NamedTuples of a generated class.)
    """
    return isinstance(element, HistogramRow) or getattr(element, "_fields", None) == HistogramRow._fields
