"""Reports, or values, to estimated means per window and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple, Unpack

import apache_beam as beam
from apache_beam.coders import RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from ldp_beam.elements.ids import KeyLike
from ldp_beam.estimates._tallying import Head, Perturbing, Tallying, TallyingOptions
from ldp_core import Numeric, Tally
from ldp_core.estimates.mean import MeanEstimate


class MeanRow(NamedTuple):
    """The estimated mean in one pane of one window, for one key. A Beam schema type.

    Attributes:
        window_start, window_end, pane_index, pane_timing, pane_is_first, pane_is_last: see `HistogramRow`.
        column: the column that was tallied.
        key: name and value, as text, of each ``by`` column; empty without ``by``.
        mean: of the numbers, unbiased, in their own unit; nan if n is 0.
        standard_error, low, high: of ``mean``, and the ends of its confidence interval.
        n: number of reports in the pane.
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
    mean: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float
    epsilon: float
    fingerprint: str


registry.register_coder(MeanRow, RowCoder)


class MeanOptions(TallyingOptions, total=False):
    """Keyword arguments of `Mean`."""

    confidence: float


class _MeanTransform(Tallying):
    """What `Mean` and `PrivateMean` share."""

    _mechanism: Numeric

    def __init__(
        self, column: str, mechanism: Numeric, *, confidence: float = 0.95, **options: Unpack[TallyingOptions]
    ) -> None:
        MeanEstimate(confidence).check(mechanism)
        self._confidence = confidence
        super().__init__(column, mechanism, **options)

    @override
    def _rows(self) -> beam.ParDo:
        return self._each_pane(partial(_rows_of, mechanism=self._mechanism, confidence=self._confidence), MeanRow)


class Mean(_MeanTransform):
    """Estimate the mean of the numbers in a column of reports: one `MeanRow` per window, key and pane.

    Args:
        column: of the reports.
        mechanism: that made them, as `ldp_core.Hybrid`.
        window, event_time, by, confidence, trigger, accumulation_mode, allowed_lateness, fill, fill_keys: see
            `Histogram`.

    Elements, late records, dead letters and errors are as in `Histogram`.

    Raises:
        ParameterError: bad arguments.

    >>> from ldp_core.mechanisms.numbers.one_bit_mean import OneBitMean
    >>> mechanism = OneBitMean((0, 10), epsilon=80.0)  # so large that a report says whether the number was 0 or 10
    >>> reports = [{"seconds": bool(report)} for report in mechanism.perturb([0, 10, 10, 0])]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | Mean("seconds", mechanism)
    ...     _ = rows | beam.Map(lambda r: print(round(r.mean, 6), r.n))
    5.0 4
    """

    def __init__(self, column: str, mechanism: Numeric, **options: Unpack[MeanOptions]) -> None:
        super().__init__(column, mechanism, **options)


class PrivateMean(Perturbing, _MeanTransform):
    """Perturb and `Mean` in one step: each number is perturbed and tallied at once; reports never leave memory.

    Args:
        column: of the numbers.
        mechanism: as `ldp_core.Hybrid`.
        key, id: of keyed noise; see `Perturb`.

    The other arguments are those of `Mean`.

    Raises:
        ParameterError: bad arguments; or the input is in sliding windows, where each record would be perturbed
            several times: pass them as ``window``.

    >>> from ldp_core import OneBitMean
    >>> mechanism = OneBitMean((0, 10), epsilon=80.0)  # so large that a report says whether the number was 0 or 10
    >>> events = [{"seconds": seconds} for seconds in (0, 10, 10, 0)]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(events) | PrivateMean("seconds", mechanism)
    ...     _ = rows | beam.Map(lambda r: print(round(r.mean, 6), r.n))
    5.0 4
    """

    def __init__(
        self,
        column: str,
        mechanism: Numeric,
        *,
        key: KeyLike | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        **options: Unpack[MeanOptions],
    ) -> None:
        super().__init__(column, mechanism, key=key, id=id, **options)


def _rows_of(head: Head, tally: Tally, *, mechanism: Numeric, confidence: float) -> Iterator[MeanRow]:
    """One row."""
    m = mechanism.mean(tally, confidence=confidence)
    tail = (m.n, confidence, mechanism.epsilon, tally.fingerprint)
    yield MeanRow._make((*head, m.mean, m.standard_error, m.low, m.high, *tail))
