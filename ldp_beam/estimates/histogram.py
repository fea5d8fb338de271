"""Reports, or values, to estimated histograms per window and key."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Unpack

import apache_beam as beam
from typing_extensions import override

from ldp_beam.elements.ids import KeyLike
from ldp_beam.elements.rows import HistogramRow
from ldp_beam.estimates._tallying import Head, Perturbing, Tallying, TallyingOptions
from ldp_beam.estimates.combine import estimation
from ldp_core import FrequencyOracle, Tally
from ldp_core.estimates.consistency import Consistency
from ldp_core.estimates.histogram import HistogramEstimate


class HistogramOptions(TallyingOptions, total=False):
    """Keyword arguments of `Histogram`."""

    confidence: float
    simultaneous: bool
    consistency: Consistency | None


class _HistogramTransform(Tallying):
    """What `Histogram` and `PrivateHistogram` share."""

    _mechanism: FrequencyOracle

    def __init__(
        self,
        column: str,
        mechanism: FrequencyOracle,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
        **options: Unpack[TallyingOptions],
    ) -> None:
        self._how = estimation(mechanism, confidence, simultaneous, consistency)
        super().__init__(column, mechanism, **options)

    @override
    def _rows(self) -> beam.ParDo:
        return self._each_pane(partial(_rows_of, mechanism=self._mechanism, how=self._how), HistogramRow)


class Histogram(_HistogramTransform):
    """Estimate how many records hold each value, from reports: one `HistogramRow` per window, key, pane and value.

    Elements may be ``pyarrow.RecordBatch`` or ``pyarrow.Table`` (the fast way: windows are assigned
    to all rows of a batch at once), dictionaries, ``beam.Row`` or NamedTuples, with the report column, in
    either layout, as this library's Beam or Polars code or ``ldp_core`` made it.

    Args:
        column: of the reports.
        mechanism: that made them. A batch whose metadata carry a plan with another one is refused.
        window: fixed windows by length, in seconds or like ``"1h"``; or a Beam ``FixedWindows``, ``SlidingWindows``,
            ``Sessions`` (per key) or ``GlobalWindows``. None: the windows that the elements are in;
            ``event_time`` is not read then.
        event_time: column of the records' times: Arrow timestamps (without zone: UTC), dates, or a number of seconds
            since the epoch; in single records also datetime or Beam Timestamp. None: the elements' timestamps.
        by: columns to tally by; null counts as the text ``null``.
        confidence, simultaneous, consistency: see `FrequencyOracle.estimate`. Counts made consistent are biased: do
            not add those of panes or windows up.
        trigger, allowed_lateness: see ``beam.WindowInto``; by default one pane when the watermark passes the
            window's end and, within ``allowed_lateness`` (seconds or text), one for each late batch. A trigger that
            counts elements counts partial tallies, of which a batch makes one per slot and key.
        accumulation_mode: default ACCUMULATING: each pane estimates from all reports so far, and replaces
            the pane before. DISCARDING: each pane has only the new ones.
        fill: a pair (start, end) of times: windows that begin in this stretch have rows even if no report is in them,
            with ``n`` 0. ``end`` None: for as long as the job runs (needs a runner with Beam's ``PeriodicImpulse``).
        fill_keys: with ``by`` and ``fill``: the keys that have such rows.

    A window without reports gives no row otherwise. Records carry their own time, so those in one batch may be older
    than the batch's timestamp: in a streaming pipeline Beam drops records of windows whose end the watermark has
    passed by more than ``allowed_lateness``. Give batches the timestamp of their oldest record, or allow lateness.
    What is dropped from fixed and sliding windows is counted, by the counter ``late``, and reported as dead letters
    with the reason ``late`` (in sliding windows a record counts for each window that it missed); from sessions not.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `ReportError`, `DomainError` or
    `DtypeError` (not reports of this mechanism), `PlanError` (no such column), `InputError` (no event
    time), `MechanismMismatchError` (the batch says that another mechanism made its reports).

    Raises:
        ParameterError: bad arguments.

    >>> from ldp_core import RandomizedResponse
    >>> mechanism = RandomizedResponse(epsilon=50.0)
    >>> reports = [{"crashed": i < 2, "time": 60.0 * i} for i in range(6)]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | Histogram("crashed", mechanism, window="3m", event_time="time")
    ...     _ = rows | beam.Map(lambda r: print(r.window_start, r.value, round(r.count), r.n))
    Timestamp(0) false 1 3
    Timestamp(0) true 2 3
    Timestamp(180) false 3 3
    Timestamp(180) true 0 3
    """


class PrivateHistogram(Perturbing, _HistogramTransform):
    """`Perturb` and `Histogram` in one step: each value is perturbed and tallied at once; reports never leave memory.

    The fast way when nobody stores the reports. Elements hold the raw values; output and arguments are those of
    `Histogram`, and ``key`` and ``id`` for keyed noise, as in `Perturb`. Each record is perturbed once, also
    where ``window`` is sliding.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `DomainError`, `DtypeError`,
    `PlanError`, `InputError`, `MechanismMismatchError` (the column holds reports already).

    Raises:
        ParameterError: bad arguments; or the input is in sliding windows, where each record would be perturbed
            several times: pass them as ``window``.

    >>> import pyarrow as pa
    >>> from ldp_core import UnaryEncoding
    >>> mechanism = UnaryEncoding(["ios", "android"], epsilon=1.0)
    >>> batch = pa.record_batch({"os": ["ios", "android", "ios"], "country": ["fr", "fr", "it"]})
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create([batch]) | PrivateHistogram("os", mechanism, by=["country"])
    ...     _ = rows | beam.Map(lambda r: print(r.key, r.value, r.n))
    {'country': 'fr'} ios 2
    {'country': 'fr'} android 2
    {'country': 'it'} ios 1
    {'country': 'it'} android 1
    """

    def __init__(
        self,
        column: str,
        mechanism: FrequencyOracle,
        *,
        key: KeyLike | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        **options: Unpack[HistogramOptions],
    ) -> None:
        super().__init__(column, mechanism, key=key, id=id, **options)


def _rows_of(head: Head, tally: Tally, *, mechanism: FrequencyOracle, how: HistogramEstimate) -> Iterator[HistogramRow]:
    """One row a value."""
    estimate = how.result(mechanism, tally)
    tail = (estimate.n, how.confidence, mechanism.epsilon, tally.fingerprint)
    columns = (estimate.counts, estimate.frequencies, estimate.standard_errors, estimate.low, estimate.high)
    numbers = zip(*(array.tolist() for array in columns), strict=True)
    for value, estimated in zip(mechanism.domain.texts, numbers, strict=True):
        yield HistogramRow._make((*head, value, *estimated, *tail))
