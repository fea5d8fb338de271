"""Reports, or values, to estimated distributions per window and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Unpack

import apache_beam as beam
from apache_beam.coders import RowCoder
from apache_beam.coders.typecoders import registry
from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from ldp_beam.elements.ids import KeyLike
from ldp_beam.estimates._tallying import Head, Perturbing, Tallying, TallyingOptions
from ldp_core import Mechanism, Tally
from ldp_core.estimates.distribution import DistributionEstimate


class DistributionRow(NamedTuple):
    """One bucket of the estimated distribution in one pane of one window, for one key. A Beam schema type.

    Attributes:
        window_start, window_end, pane_index, pane_timing, pane_is_first, pane_is_last: see `HistogramRow`.
        column: the column that was tallied.
        key: name and value, as text, of each ``by`` column; empty without ``by``.
        left, right: ends of the bucket, in the numbers' own unit.
        frequency: estimated share of the numbers in the bucket; nan if n is 0.
        standard_error, low, high: of ``frequency``, and the ends of its confidence interval.
        n: number of reports in the pane.
        confidence: of the interval, of each bucket.
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
    left: float
    right: float
    frequency: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float
    epsilon: float
    fingerprint: str


registry.register_coder(DistributionRow, RowCoder)


class DistributionOptions(TallyingOptions, total=False):
    """Keyword arguments of `Distribution`."""

    confidence: float
    buckets: int
    method: str


class _DistributionTransform(Tallying):
    """What `Distribution` and `PrivateDistribution` share."""

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *,
        confidence: float = 0.95,
        buckets: int | None = None,
        method: str | None = None,
        **options: Unpack[TallyingOptions],
    ) -> None:
        options_of_mechanism = {"buckets": buckets, "method": method}
        asked = {name: value for name, value in options_of_mechanism.items() if value is not None}
        DistributionEstimate(confidence, buckets, method).check(mechanism)
        made = mechanism
        self._estimated = partial(_rows_of, mechanism=made, confidence=confidence, asked=asked)
        super().__init__(column, made, **options)

    @override
    def _rows(self) -> beam.ParDo:
        return self._each_pane(self._estimated, DistributionRow)


class Distribution(_DistributionTransform):
    """Estimate how the numbers in a column of reports are distributed: a `DistributionRow` per window, key and bucket.

    Args:
        column: of the reports.
        mechanism: that made them: `ldp_core.SquareWave` or `ldp_core.StochasticRounding`.
        confidence: of the intervals, in (0, 1).
        buckets, method: of `SquareWave.distribution`, and of that mechanism only.
        window, event_time, by, trigger, accumulation_mode, allowed_lateness, fill, fill_keys: see
            `Histogram`.

    Elements, late records, dead letters and errors are as in `Histogram`. What flows between workers are
    tallies; the estimate, some tenths of a second for `SquareWave`, is made once a pane and key.

    Raises:
        ParameterError: bad arguments.
        TypeError: an option that the mechanism's ``distribution`` does not have.

    >>> from ldp_core import StochasticRounding
    >>> mechanism = StochasticRounding((0, 8), epsilon=80.0, buckets=3, oracle="randomized_response")
    >>> reports = [{"seconds": report} for report in mechanism.perturb([0.0, 4.0, 4.0, 8.0]).tolist()]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | Distribution("seconds", mechanism)
    ...     _ = rows | beam.Map(lambda r: print(r.left, r.right, round(r.frequency, 6)))
    0.0 2.0 0.25
    2.0 6.0 0.5
    6.0 8.0 0.25
    """

    def __init__(self, column: str, mechanism: Mechanism, **options: Unpack[DistributionOptions]) -> None:
        super().__init__(column, mechanism, **options)


class PrivateDistribution(Perturbing, _DistributionTransform):
    """Perturb and `Distribution` in one step; reports never leave memory.

    Args:
        column: of the numbers.
        mechanism: as `ldp_core.SquareWave`.
        key, id: of keyed noise; see `Perturb`.

    The other arguments are those of `Distribution`.

    Raises:
        ParameterError: bad arguments; or the input is in sliding windows, where each record would be perturbed
            several times: pass them as ``window``.
        TypeError: an option that the mechanism's ``distribution`` does not have.

    >>> from ldp_core import SquareWave
    >>> events = [{"age": age} for age in (17.0, 18.0, 71.0)]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(events) | PrivateDistribution("age", SquareWave((0, 100), epsilon=1.0), buckets=2)
    ...     _ = rows | beam.Map(lambda r: print(r.left, r.right, r.n))
    0.0 50.0 3
    50.0 100.0 3
    """

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *,
        key: KeyLike | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        **options: Unpack[DistributionOptions],
    ) -> None:
        super().__init__(column, mechanism, key=key, id=id, **options)


def _rows_of(
    head: Head, tally: Tally, *, mechanism: Any, confidence: float, asked: dict[str, Any]
) -> Iterator[DistributionRow]:
    """One row a bucket."""
    d = mechanism.distribution(tally, confidence=confidence, **asked)
    tail = (d.n, d.confidence, mechanism.epsilon, tally.fingerprint)
    columns = (d.edges[:-1], d.edges[1:], d.frequencies, d.standard_errors, d.low, d.high)
    for bucket in zip(*(column.tolist() for column in columns), strict=True):
        yield DistributionRow._make((*head, *bucket, *tail))
