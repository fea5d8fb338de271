"""From reports, or values, to rows of estimates per window and key.

`Estimate` does it for every kind of estimate; the other transforms name the kind and its options.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeAlias, TypedDict, Unpack

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, TriggerFn
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfoTiming
from typing_extensions import override

import ldp_core
from ldp_beam._compat import StableInputParDo as OnceStable
from ldp_beam._compat import knows_stable_input
from ldp_beam.elements.ids import KeyLike, is_repeatable, noise_key
from ldp_beam.elements.records import NAMESPACE, RecordsTransform, refuse_sliding
from ldp_beam.elements.rows import HISTOGRAM_ROWS, DistributionRow, HistogramRow, MeanRow
from ldp_beam.estimates._empty_and_late import EmptyTallies, Fill, LateRecords, knows_late
from ldp_beam.estimates._partials import Key, KeyedTally, PartialTallies, PerturbAndTally, TallyReports
from ldp_beam.estimates.combine import TallyCombineFn
from ldp_beam.graph.budgeted import refuse_unbudgeted as refuse_uncharged
from ldp_beam.graph.upstream import EndsValues, refuse_other_reports, refuse_perturbed
from ldp_beam.time.times import EventTime, TimeUnit
from ldp_beam.time.triggers import refuse_counts
from ldp_beam.time.windows import WindowLike, window_fn
from ldp_core import FrequencyOracle, Mechanism, Numeric, ParameterError
from ldp_core.estimates import base
from ldp_core.estimates.consistency import Consistency
from ldp_core.estimates.distribution import DistributionEstimate
from ldp_core.estimates.heavy_hitters import HeavyHittersEstimate
from ldp_core.estimates.histogram import HistogramEstimate
from ldp_core.estimates.mean import MeanEstimate
from ldp_core.estimates.plausibility import listening
from ldp_core.windows import seconds

_LOG = logging.getLogger(__name__)

AnyEstimate: TypeAlias = base.Question[Any]

_BARS = ("standard_errors", "low", "high")
_ENTRIES = ("counts", *_BARS, "frequencies", "frequency_standard_errors", "frequency_low", "frequency_high")


def _columns(result: Any, *names: str) -> list[list[Any]]:
    return [np.atleast_1d(getattr(result, name)).tolist() for name in names]


def _values(domain: ldp_core.Domain) -> Sequence[Any]:
    """Of the domain's own type: text where ``other`` joins others."""
    return domain.texts if domain.arrow_type == pa.string() else domain.values


_ROWS: dict[type[AnyEstimate], tuple[Any, Callable[[Any], list[Sequence[Any]]]]] = {
    HistogramEstimate: (HistogramRow, lambda found: [_values(found.domain), *_columns(found, *_ENTRIES)]),
    MeanEstimate: (MeanRow, lambda found: [*_columns(found, "mean", "standard_error", "low", "high")]),
    DistributionEstimate: (
        DistributionRow,
        lambda found: [found.edges[:-1].tolist(), found.edges[1:].tolist(), *_columns(found, "frequencies", *_BARS)],
    ),
    HeavyHittersEstimate: (HistogramRow, lambda found: [found.values, *_columns(found, *_ENTRIES)]),
}
"""Of each kind of estimate: the type of its rows, and from a result the columns between head and tail.

(`Estimate.table` would give them too, at twice the time of a single pane.)
"""


def _row_type(estimate: AnyEstimate, mechanism: Mechanism) -> Any:
    """Type of the rows: that of a histogram says of which type the values are."""
    row = _ROWS[type(estimate)][0]
    return HISTOGRAM_ROWS[estimate.schema(mechanism).field("value").type] if row is HistogramRow else row


class EstimateOptions(TypedDict, total=False):
    """Keyword arguments of every transform that estimates; see `Histogram`."""

    window: WindowLike
    event_time: str | None
    time_unit: TimeUnit
    by: Iterable[str]
    trigger: TriggerFn | None
    accumulation_mode: Any
    allowed_lateness: float | str
    fill: Fill | None
    fill_keys: Iterable[Key] | None


class PrivateOptions(EstimateOptions, total=False):
    """Keyword arguments of those that perturb, too; see `Perturb` for ``key``, ``id`` and ``record``."""

    key: KeyLike | None
    id: str | None
    record: str | None
    stabilize: bool


class Estimate(RecordsTransform, EndsValues):
    """Any estimate of a column, per window and key: the transform under `Histogram`, `Mean` and the others.

    Args:
        column: of the reports, or of the values.
        mechanism: that made the reports, or is to.
        estimate: what is asked for: a `HistogramEstimate`, `MeanEstimate`, `DistributionEstimate` or
            `HeavyHittersEstimate` of `ldp_core.estimates`.
        private: whether the column holds values, which are perturbed and tallied at once; reports never leave memory.
        key, id, record: with ``private``: of keyed noise; see `Perturb`.
        stabilize: with ``private``: on Flink hold rows back until they are in a checkpoint, unless a repeated bundle
            makes the same ones again (``record``, or ``key`` and ``id``). Without it a restart may tell a pane twice,
            with two noises of the same records, which then spend epsilon twice.
        window, event_time, time_unit, by, trigger, accumulation_mode, allowed_lateness, fill, fill_keys: see
            `Histogram`.

    Elements, rows, late records, dead letters and errors are as in `Histogram`.

    Raises:
        ParameterError: bad arguments, or an estimate that the mechanism does not offer; or, with ``private``, the
            input is in sliding windows, where each record would be perturbed several times: pass them as ``window``.
        MechanismMismatchError: the pipeline perturbs the column with another mechanism, or leaves it as it is; or, with
            ``private``, it has perturbed the column already.

    >>> mechanism = ldp_core.RandomizedResponse(epsilon=50.0)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     events = p | beam.Create([{"crashed": True}])
    ...     rows = events | Estimate("crashed", mechanism, HistogramEstimate(confidence=0.9), private=True)
    ...     _ = rows | beam.Map(lambda r: print(r.value, round(r.count), r.confidence))
    False 0 0.9
    True 1 0.9
    """

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        estimate: AnyEstimate,
        *,
        private: bool = False,
        key: KeyLike | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        record: str | None = None,
        stabilize: bool = True,
        window: WindowLike = None,
        event_time: str | None = None,
        time_unit: TimeUnit = "s",
        by: Iterable[str] = (),
        trigger: TriggerFn | None = None,
        accumulation_mode: Any = None,
        allowed_lateness: float | str = 0,
        fill: Fill | None = None,
        fill_keys: Iterable[Key] | None = None,
    ) -> None:
        super().__init__()
        if type(estimate) not in _ROWS:
            names = " or ".join(made.__name__ for made in _ROWS)
            raise ParameterError(f"estimate must be a {names}, got {type(estimate).__name__}")
        estimate.check(mechanism)
        by = (by,) if isinstance(by, str) else tuple(by)
        _check_names(column, event_time, by)
        windows = window_fn(window)
        lateness = seconds(allowed_lateness, name="allowed_lateness")
        if windows is None and (trigger is not None or accumulation_mode is not None or lateness):
            raise ParameterError("trigger, accumulation_mode and allowed_lateness need a window")
        if trigger is not None and not isinstance(trigger, TriggerFn):
            raise ParameterError(f"trigger must be a Beam trigger, got {type(trigger).__name__}")
        if trigger is not None:
            refuse_counts(trigger)
        if accumulation_mode not in (None, AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING):
            raise ParameterError("accumulation_mode must be AccumulationMode.ACCUMULATING or DISCARDING")
        self._fill = None
        if fill is not None:
            self._fill = EmptyTallies(windows, fill, _keys(fill_keys, by), mechanism.empty_tally())
        elif fill_keys is not None:
            raise ParameterError("fill_keys= says which keys fill= fills: pass both")
        self._key = noise_key(key, id, record, remembers=mechanism.memoised)
        self._keyed = self._key is not None and self._key.keyed
        self._waits = private and stabilize and not is_repeatable(self._key, remembers=mechanism.memoised)
        if private:
            mechanism.check_noise(keyed=self._keyed)
        elif self._key is not None:
            raise ParameterError("key=, id= and record= are for private=True: reports have their noise already")
        self._column = column
        self._mechanism = mechanism
        self._estimate = estimate
        self._private = private
        self._time = EventTime(event_time, time_unit)
        self._by = by
        self._windows = windows
        self._trigger = trigger
        self._accumulation_mode = accumulation_mode or AccumulationMode.ACCUMULATING
        self._lateness = lateness

    def _partial_tallies(self) -> PartialTallies:
        """The DoFn that makes partial tallies."""
        options: dict[str, Any] = {
            "windows": self._windows,
            "event_time": self._time,
            "by": self._by,
            "dead_letter_tag": self._dead_letter_tag,
        }
        if self._private:
            return PerturbAndTally(self._column, self._mechanism, key=self._key, **options)
        return TallyReports(self._column, self._mechanism, **options)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        if self._private:
            refuse_sliding(pcoll)
            refuse_perturbed(pcoll, [self._column])
            refuse_uncharged(pcoll, keyed=self._keyed, epsilon=Fraction(self._mechanism.epsilon))
        else:
            refuse_other_reports(pcoll, self._column, self._mechanism.fingerprint)
        partials, dead_letters = self._outputs(pcoll, "PartialTallies", self._partial_tallies(), KeyedTally)
        if self._windows is not None:
            if self._fill is not None:
                empty = partials | "Empty windows" >> copy.copy(self._fill)  # (it belongs to one pipeline then)
                partials = (partials, empty) | "Filled" >> beam.Flatten()
            if not pcoll.is_bounded and knows_late(self._windows):
                late = partials | "Late" >> LateRecords(
                    self._windows, self._lateness, self._time.column or self._column
                )
                if dead_letters is not None:
                    late |= "As the input" >> beam.WindowInto(pcoll.windowing)
                    dead_letters = (dead_letters, late) | "Dead letters" >> beam.Flatten()
            partials |= "Window" >> beam.WindowInto(
                self._windows,
                trigger=self._trigger,
                accumulation_mode=self._accumulation_mode,
                allowed_lateness=self._lateness,
            )
        tallies = partials | "Sum" >> beam.CombinePerKey(TallyCombineFn(self._mechanism)).with_output_types(KeyedTally)
        rows_of = _RowsOf(
            self._column,
            self._by,
            self._mechanism,
            self._estimate,
            bounded=tallies.is_bounded,
            filled=self._fill is not None,
        )
        pardo: Any = OnceStable if self._waits and knows_stable_input(pcoll) else beam.ParDo
        rows = tallies | "Estimate" >> pardo(rows_of).with_output_types(_row_type(self._estimate, self._mechanism))
        return rows if dead_letters is None else (rows, dead_letters)

    @override
    def display_data(self) -> dict[str, Any]:
        return {"column": self._column, "mechanism": self._mechanism.name, "epsilon": self._mechanism.epsilon}


def _check_names(column: str, event_time: str | None, by: tuple[str, ...]) -> None:
    names = [column, *by, *([] if event_time is None else [event_time])]
    if not all(isinstance(name, str) for name in names):
        raise ParameterError("column, event_time and by must be names of columns")
    if len(set(by)) < len(by) or column in (*by, event_time):
        raise ParameterError(f"column {column!r} cannot be event time or key too, and keys must be distinct: {by}")


def _keys(keys: Iterable[Key] | None, by: tuple[str, ...]) -> tuple[Key, ...]:
    """The keys to fill, one text for each name in ``by``."""
    if keys is None and by:
        raise ParameterError(
            f"fill= with by={by} needs fill_keys=, tuples of {len(by)} texts: they are not known before"
        )
    out = ((),) if keys is None else tuple(keys)
    if not all(isinstance(key, tuple) and len(key) == len(by) and all(isinstance(k, str) for k in key) for key in out):
        raise ParameterError(f"fill_keys= are tuples of {len(by)} texts, one for each name in by={by}")
    return out


class _RowsOf(beam.DoFn):
    """(key, tally) of a pane to rows."""

    def __init__(
        self,
        column: str,
        by: tuple[str, ...],
        mechanism: Mechanism,
        estimate: AnyEstimate,
        *,
        bounded: bool,
        filled: bool,
    ) -> None:
        self._bounded = bounded
        self._filled = filled
        self._column = column
        self._by = by
        self._mechanism = mechanism
        self._estimate = estimate
        self._row = _row_type(estimate, mechanism)
        self._implausible = Metrics.counter(NAMESPACE, "implausible_estimates")
        self._told = False

    def process(
        self, element: KeyedTally, window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[Any]:
        key, tally = element
        if not tally.n and not pane.index and not self._filled:
            # nobody opened this window. Flink says so of one whose end and allowed lateness the watermark passes at
            # once: it forgets the window after its pane, and then closes it again
            return
        whole = isinstance(window, GlobalWindow)
        head = (
            MIN_TIMESTAMP if whole else window.start,
            MAX_TIMESTAMP if whole else window.end,
            pane.index,
            PaneInfoTiming.to_string(self._timing(pane)),
            pane.is_first,
            pane.is_last,
            self._column,
            dict(zip(self._by, key, strict=True)),
        )
        tail = (tally.n, self._estimate.confidence, self._mechanism.epsilon, tally.fingerprint)
        columns = _ROWS[type(self._estimate)][1]
        with listening() as doubts:
            result = self._estimate.result(self._mechanism, tally)
        if doubts:
            self._implausible.inc()
            if not self._told:
                _LOG.warning("column %r: %s", self._column, doubts[0])
            self._told = True
        for own in zip(*columns(result), strict=True):
            yield self._row._make((*head, *own, *tail))

    def _timing(self, pane: Any) -> Any:
        """The pane's; of bounded input the only pane, which Flink leaves UNKNOWN, comes when all is there: ON_TIME."""
        only = self._bounded and pane.is_first and pane.is_last
        return PaneInfoTiming.ON_TIME if only and pane.timing == PaneInfoTiming.UNKNOWN else pane.timing


class Histogram(Estimate):
    """Estimate how many records hold each value, from reports: one `HistogramRow` per window, key, pane and value.

    Of a domain of integers the rows are `IntegerHistogramRow`, of Booleans `BooleanHistogramRow`: ``value`` is of the
    domain's own type. Rows of columns of different types go through `text_row` before they go into one table.
    Intervals are about the people who reported, and not about a larger population; see `ldp_core.Histogram`.

    Elements may be ``pyarrow.RecordBatch`` or ``pyarrow.Table`` (the fast way: windows are assigned
    to all rows of a batch at once), dictionaries, ``beam.Row`` or NamedTuples, with the report column, in
    either layout, as this library's Beam or Polars code or ``ldp_core`` made it.

    Args:
        column: of the reports.
        mechanism: that made them. Another one is refused if a `Perturb` before this step made them, or if a batch's
            metadata say so; single records that were stored in between do not tell.
        window: fixed windows by length, in seconds or like ``"1h"``; or a Beam ``FixedWindows``, ``SlidingWindows``,
            ``Sessions`` (per key) or ``GlobalWindows``. None: the windows that the elements are in;
            ``event_time`` is not read then. Windows of ``"1w"`` begin on Mondays, of ``"7d"`` on Thursdays (as
            1970-01-01 was one), of ``"1w+6d"`` 6 days after Monday; all in UTC.
        event_time: column of the records' times: Arrow timestamps (without zone: UTC), dates, or integers or floats
            since the epoch; in single records also datetime or Beam Timestamp. None: the elements' timestamps. Times
            before 1990 or after 2100 are counted in the metric ``odd_times``, and said once a worker in its log.
        time_unit: of numbers in ``event_time``: ``"s"`` (default), ``"ms"``, ``"us"`` or ``"ns"``.
        by: columns to tally by; null counts as the text ``null``.
        confidence, simultaneous, consistency: see `HistogramEstimate`. Counts made consistent are biased: do
            not add those of panes or windows up.
        trigger, allowed_lateness: see ``beam.WindowInto``; by default one pane when the watermark passes the
            window's end and, within ``allowed_lateness`` (seconds or text), one for each late batch. An
            ``AfterCount`` of more than one is refused: it would count partial tallies, see `AfterTallies`.
        accumulation_mode: default ACCUMULATING: each pane estimates from all reports so far, and replaces
            the pane before. DISCARDING: each pane has only the new ones.
        fill: a pair (start, end) of times: windows that begin in this stretch have rows even if no report is in them,
            with ``n`` 0. ``end`` None, in a stream: for as long as it goes on, as its watermark does.
        fill_keys: with ``by`` and ``fill``: the keys that have such rows.

    A window without reports gives no row otherwise. Records carry their own time, so those in one batch may be older
    than the batch's timestamp: in a streaming pipeline Beam drops records of windows whose end the watermark has
    passed by more than ``allowed_lateness``. Give batches the timestamp of their oldest record, or allow lateness.
    What is dropped from fixed and sliding windows is counted, by the counter ``late``, and reported as dead letters
    with the reason ``late`` (in sliding windows a record counts for each window that it missed); from sessions not, and
    not what comes more than a week, or 10,000 windows if that is less, after its window (but an hour at least).

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
    Timestamp(0) False 1 3
    Timestamp(0) True 2 3
    Timestamp(180) False 3 3
    Timestamp(180) True 0 3
    """

    def __init__(
        self,
        column: str,
        mechanism: FrequencyOracle,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
        **options: Unpack[EstimateOptions],
    ) -> None:
        super().__init__(column, mechanism, HistogramEstimate(confidence, simultaneous, consistency), **options)


class PrivateHistogram(Estimate):
    """`Perturb` and `Histogram` in one step: each value is perturbed and tallied at once; reports never leave memory.

    The fast way when nobody stores the reports. Elements hold the raw values; output and arguments are those of
    `Histogram`, and ``key``, ``id`` and ``record`` for keyed noise, as in `Perturb`. Each record is perturbed once,
    also where ``window`` is sliding.

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
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
        **options: Unpack[PrivateOptions],
    ) -> None:
        estimate = HistogramEstimate(confidence, simultaneous, consistency)
        super().__init__(column, mechanism, estimate, private=True, **options)


class Mean(Estimate):
    """Estimate the mean of the numbers in a column of reports: one `MeanRow` per window, key and pane.

    Args:
        column: of the reports.
        mechanism: that made them, as `ldp_core.Hybrid`.
        confidence: of the interval, in (0, 1).
        window, event_time, time_unit, by, trigger, accumulation_mode, allowed_lateness, fill, fill_keys: see
            `Histogram`.

    Elements, late records, dead letters and errors are as in `Histogram`.

    Raises:
        ParameterError: bad arguments.

    >>> from ldp_core import OneBitMean
    >>> mechanism = OneBitMean((0, 10), epsilon=80.0)  # so large that a report says whether the number was 0 or 10
    >>> reports = [{"seconds": bool(report)} for report in mechanism.perturb([0, 10, 10, 0])]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | Mean("seconds", mechanism)
    ...     _ = rows | beam.Map(lambda r: print(round(r.mean, 6), r.n))
    5.0 4
    """

    def __init__(
        self, column: str, mechanism: Numeric, *, confidence: float = 0.95, **options: Unpack[EstimateOptions]
    ) -> None:
        super().__init__(column, mechanism, MeanEstimate(confidence), **options)


class PrivateMean(Estimate):
    """Perturb and `Mean` in one step: each number is perturbed and tallied at once; reports never leave memory.

    Args:
        column: of the numbers.
        mechanism: as `ldp_core.Hybrid`.
        key, id, record: of keyed noise; see `Perturb`.

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
        self, column: str, mechanism: Numeric, *, confidence: float = 0.95, **options: Unpack[PrivateOptions]
    ) -> None:
        super().__init__(column, mechanism, MeanEstimate(confidence), private=True, **options)


class Distribution(Estimate):
    """Estimate how the numbers in a column of reports are distributed: a `DistributionRow` per window, key and bucket.

    Args:
        column: of the reports.
        mechanism: that made them: `ldp_core.SquareWave` or `ldp_core.StochasticRounding`.
        confidence: of the intervals, in (0, 1).
        buckets, method: of `SquareWave.distribution`, and of that mechanism only.
        window, event_time, time_unit, by, trigger, accumulation_mode, allowed_lateness, fill, fill_keys: see
            `Histogram`.

    Elements, late records, dead letters and errors are as in `Histogram`. What flows between workers are
    tallies; the estimate, some tenths of a second for `SquareWave`, is made once a pane and key.

    Raises:
        ParameterError: bad arguments.

    >>> from ldp_core import StochasticRounding
    >>> mechanism = StochasticRounding((0, 8), epsilon=80.0, buckets=3, oracle="randomized_response")
    >>> reports = [{"seconds": report} for report in mechanism.perturb([0.0, 4.0, 4.0, 8.0]).tolist()]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | Distribution("seconds", mechanism)
    ...     _ = rows | beam.Map(lambda r: print(r.bucket_start, r.bucket_end, round(r.frequency, 6)))
    0.0 2.0 0.25
    2.0 6.0 0.5
    6.0 8.0 0.25
    """

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *,
        confidence: float = 0.95,
        buckets: int | None = None,
        method: str | None = None,
        **options: Unpack[EstimateOptions],
    ) -> None:
        super().__init__(column, mechanism, DistributionEstimate(confidence, buckets, method), **options)


class PrivateDistribution(Estimate):
    """Perturb and `Distribution` in one step; reports never leave memory.

    Args:
        column: of the numbers.
        mechanism: as `ldp_core.SquareWave`.
        key, id, record: of keyed noise; see `Perturb`.

    The other arguments are those of `Distribution`.

    Raises:
        ParameterError: bad arguments; or the input is in sliding windows, where each record would be perturbed
            several times: pass them as ``window``.

    >>> from ldp_core import SquareWave
    >>> events = [{"age": age} for age in (17.0, 18.0, 71.0)]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(events) | PrivateDistribution("age", SquareWave((0, 100), epsilon=1.0), buckets=2)
    ...     _ = rows | beam.Map(lambda r: print(r.bucket_start, r.bucket_end, r.n))
    0.0 50.0 3
    50.0 100.0 3
    """

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *,
        confidence: float = 0.95,
        buckets: int | None = None,
        method: str | None = None,
        **options: Unpack[PrivateOptions],
    ) -> None:
        estimate = DistributionEstimate(confidence, buckets, method)
        super().__init__(column, mechanism, estimate, private=True, **options)


class HeavyHitters(Estimate):
    """Find the most frequent values, from reports: one `HistogramRow` per window, key, pane and value found.

    Rows come in order of the estimated count within a pane; of integers they are `IntegerHistogramRow`. A window
    in which nothing is above the threshold has no row.

    Args:
        column: of the reports.
        mechanism: `ldp_core.HeavyHitters`, that made them.
        k: the most values to return.
        confidence, threshold: see `HeavyHittersEstimate`.
        window, event_time, time_unit, by, trigger, accumulation_mode, allowed_lateness: see `Histogram`.

    What flows between workers are tallies (see `Tally.to_bytes`) of `mechanism.counters` counts; the search, a
    tenth of a second for a million candidates, runs once a pane.

    Raises:
        ParameterError: bad arguments.

    >>> from ldp_core import Prefixes
    >>> letters = Prefixes("abcdefghijklmnopqrstuvwxyz", 4)
    >>> mechanism = ldp_core.HeavyHitters(letters, epsilon=5.0, levels=(2, 4), rows=8)
    >>> words = ["rome"] * 5000 + ["oslo"] * 3000
    >>> reports = [{"word": r} for r in mechanism.perturb(words).tolist()]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(reports) | HeavyHitters("word", mechanism, k=2)
    ...     _ = rows | beam.Map(lambda r: print(r.value))
    rome
    oslo
    """

    def __init__(
        self,
        column: str,
        mechanism: ldp_core.HeavyHitters,
        k: int,
        *,
        confidence: float = 0.95,
        threshold: float | None = None,
        **options: Unpack[EstimateOptions],
    ) -> None:
        super().__init__(column, mechanism, HeavyHittersEstimate(k, confidence, threshold), **options)


class PrivateHeavyHitters(Estimate):
    """Perturb and `HeavyHitters` in one step; reports never leave memory.

    Args:
        key, id, record: of keyed noise, with ``id`` a person is always at the same level; see `Perturb`.

    The other arguments are those of `HeavyHitters`.

    Raises:
        ParameterError: bad arguments; or the input is in sliding windows, where each record would be perturbed
            several times: pass them as ``window``.
    """

    def __init__(
        self,
        column: str,
        mechanism: ldp_core.HeavyHitters,
        k: int,
        *,
        confidence: float = 0.95,
        threshold: float | None = None,
        **options: Unpack[PrivateOptions],
    ) -> None:
        estimate = HeavyHittersEstimate(k, confidence, threshold)
        super().__init__(column, mechanism, estimate, private=True, **options)
