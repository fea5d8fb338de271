"""Reports, or values, to estimated histograms per window and key."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, TypedDict, Unpack

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, TriggerFn
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfoTiming

from ldp_beam.combine import HistogramCombineFn, estimation
from ldp_beam.fill import EmptyTallies, Fill
from ldp_beam.keys import noise_key
from ldp_beam.late import LateRecords, knows_late
from ldp_beam.partials import PartialTallies, PerturbAndTally, TallyReports
from ldp_beam.records import RecordsTransform, refuse_sliding
from ldp_beam.rows import DeadLetter, HistogramRow
from ldp_beam.windows import Window, seconds, window_fn
from ldp_core import FrequencyOracle, ParameterError, Secret, Tally
from ldp_core.consistency import Consistency
from ldp_core.estimation import Estimation

Keyed = tuple[tuple[str, ...], Tally]


class HistogramOptions(TypedDict, total=False):
    """Keyword arguments of `Histogram`."""

    window: Window
    event_time: str | None
    by: Iterable[str]
    confidence: float
    simultaneous: bool
    consistency: Consistency | None
    trigger: TriggerFn | None
    accumulation_mode: Any
    allowed_lateness: float | str
    fill: Fill | None
    fill_keys: Iterable[tuple[str, ...]] | None


class _HistogramTransform(RecordsTransform):
    """What `Histogram` and `PrivateHistogram` share: partial tallies in a DoFn, then Beam's windows and panes."""

    def __init__(
        self,
        column: str,
        mechanism: FrequencyOracle,
        *,
        window: Window = None,
        event_time: str | None = None,
        by: Iterable[str] = (),
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
        trigger: TriggerFn | None = None,
        accumulation_mode: Any = None,
        allowed_lateness: float | str = 0,
        fill: Fill | None = None,
        fill_keys: Iterable[tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__()
        self._how = estimation(mechanism, confidence, simultaneous, consistency)
        by = (by,) if isinstance(by, str) else tuple(by)
        names = [column, *by, *([] if event_time is None else [event_time])]
        if not all(isinstance(name, str) for name in names):
            raise ParameterError("column, event_time and by must be names of columns")
        if len(set(by)) < len(by) or column in (*by, event_time):
            raise ParameterError(f"column {column!r} cannot be event time or key too, and keys must be distinct: {by}")
        self._windows = window_fn(window)
        lateness = seconds(allowed_lateness, name="allowed_lateness")
        if self._windows is None and (trigger is not None or accumulation_mode is not None or lateness):
            raise ParameterError("trigger, accumulation_mode and allowed_lateness need a window")
        if trigger is not None and not isinstance(trigger, TriggerFn):
            raise ParameterError(f"trigger must be a Beam trigger, got {type(trigger).__name__}")
        modes = (AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING)
        if accumulation_mode is None:
            accumulation_mode = AccumulationMode.ACCUMULATING
        if accumulation_mode not in modes:
            raise ParameterError("accumulation_mode must be AccumulationMode.ACCUMULATING or DISCARDING")
        self._fill = None
        if fill is not None:
            self._fill = EmptyTallies(self._windows, fill, _keys(fill_keys, by), mechanism.empty_tally())
        elif fill_keys is not None:
            raise ParameterError("fill_keys= says which keys fill= fills: pass both")
        self._column = column
        self._mechanism = mechanism
        self._event_time = event_time
        self._by = by
        self._trigger = trigger
        self._accumulation_mode = accumulation_mode
        self._lateness = lateness

    def _dofn(self, kind: type[PartialTallies], **options: Any) -> PartialTallies:
        return kind(
            self._column,
            self._mechanism,
            windows=self._windows,
            event_time=self._event_time,
            by=self._by,
            dead_letter_tag=self._dead_letter_tag,
            **options,
        )

    @abstractmethod
    def _partial_tallies(self) -> PartialTallies:
        """The DoFn that makes partial tallies."""

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """See `beam.PTransform`."""
        partials, dead_letters = self._outputs(pcoll, "PartialTallies", self._partial_tallies(), Keyed)
        if self._windows is not None:
            if not pcoll.is_bounded and knows_late(self._windows):
                late = partials | "Late" >> LateRecords(self._windows, self._lateness, self._event_time or self._column)
                if dead_letters is not None:
                    late |= "As the input" >> beam.WindowInto(pcoll.windowing)
                    dead_letters = (dead_letters, late) | "Dead letters" >> beam.Flatten()
            if self._fill is not None:
                empty = pcoll.pipeline | "Empty windows" >> copy.copy(self._fill)  # (it belongs to one pipeline then)
                partials = (partials, empty) | "Filled" >> beam.Flatten()
            partials |= "Window" >> beam.WindowInto(
                self._windows,
                trigger=self._trigger,
                accumulation_mode=self._accumulation_mode,
                allowed_lateness=self._lateness,
            )
        combine = HistogramCombineFn(self._mechanism, extract="tally")
        tallies = partials | "Sum" >> beam.CombinePerKey(combine).with_output_types(Keyed)
        rows = tallies | "Estimate" >> beam.ParDo(
            _EstimateDoFn(self._column, self._mechanism, self._by, self._how)
        ).with_output_types(HistogramRow)
        if dead_letters is None:
            return rows
        dead_letters.element_type = DeadLetter
        return rows, dead_letters

    def display_data(self) -> dict[str, Any]:
        """Column and mechanism, for the runner's user interface."""
        return {"column": self._column, "mechanism": self._mechanism.name, "epsilon": self._mechanism.epsilon}


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

    def _partial_tallies(self) -> PartialTallies:
        return self._dofn(TallyReports)


class PrivateHistogram(_HistogramTransform):
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
        key: Secret | Callable[[], Secret] | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        **options: Unpack[HistogramOptions],
    ) -> None:
        super().__init__(column, mechanism, **options)
        self._key = noise_key(key, id)
        mechanism.check_noise(keyed=self._key is not None)

    def _partial_tallies(self) -> PartialTallies:
        return self._dofn(PerturbAndTally, key=self._key)

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """See `beam.PTransform`."""
        refuse_sliding(pcoll)
        return super().expand(pcoll)


def _keys(keys: Iterable[tuple[str, ...]] | None, by: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The keys to fill, one text for each name in ``by``."""
    if keys is None and by:
        raise ParameterError(
            f"fill= with by={by} needs fill_keys=, tuples of {len(by)} texts: they are not known before"
        )
    out = ((),) if keys is None else tuple(keys)
    if not all(isinstance(key, tuple) and len(key) == len(by) and all(isinstance(k, str) for k in key) for key in out):
        raise ParameterError(f"fill_keys= are tuples of {len(by)} texts, one for each name in by={by}")
    return out


class _EstimateDoFn(beam.DoFn):
    """(key, tally) of a pane to rows."""

    def __init__(self, column: str, mechanism: FrequencyOracle, by: tuple[str, ...], how: Estimation) -> None:
        self._column = column
        self._mechanism = mechanism
        self._by = by
        self._how = how

    def process(
        self, element: Keyed, window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[HistogramRow]:
        """One row a value."""
        key, tally = element
        estimate = self._mechanism.estimate(tally, **asdict(self._how))
        whole = isinstance(window, GlobalWindow)
        head = (
            MIN_TIMESTAMP if whole else window.start,
            MAX_TIMESTAMP if whole else window.end,
            pane.index,
            PaneInfoTiming.to_string(pane.timing),
            pane.is_first,
            pane.is_last,
            self._column,
            dict(zip(self._by, key, strict=True)),
        )
        tail = (estimate.n, self._how.confidence, self._mechanism.epsilon, tally.fingerprint)
        columns = (estimate.counts, estimate.frequencies, estimate.standard_errors, estimate.low, estimate.high)
        numbers = zip(*(array.tolist() for array in columns), strict=True)
        for value, estimated in zip(self._mechanism.domain.texts, numbers, strict=True):
            yield HistogramRow._make((*head, value, *estimated, *tail))
