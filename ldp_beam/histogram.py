# mypy: untyped-calls-exclude=apache_beam
"""Reports, or values, to estimated histograms per window and key."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, TriggerFn
from apache_beam.transforms.window import GlobalWindow, WindowFn
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue

from ldp_beam.batches import Batch, Part, as_reports, check_times
from ldp_beam.combine import HistogramCombineFn, check_estimate
from ldp_beam.faults import NO_COLUMN, NO_TIME, NOT_A_REPORT, WRONG_TYPE, Faults, check_reports, check_values
from ldp_beam.records import NAMESPACE, RecordsDoFn, RecordsTransform, plan_of, refuse_reports, refuse_sliding
from ldp_beam.rows import DeadLetter, HistogramRow
from ldp_beam.windows import Window, group, seconds, slots, window_fn
from ldp_core import (
    DtypeError,
    Keystream,
    Mechanism,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    ReportError,
    Tally,
)
from ldp_core.mechanism import Native

I64 = npt.NDArray[np.int64]
Keyed = tuple[tuple[str, ...], Tally]

_CELLS = 1 << 22  # support counts made in one call: 32 MiB


class _HistogramTransform(RecordsTransform):
    """What `Histogram` and `PrivateHistogram` share: partial tallies in a DoFn, then Beam's windows and panes."""

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *,
        window: Window = None,
        event_time: str | None = None,
        by: Iterable[str] = (),
        confidence: float = 0.95,
        simultaneous: bool = False,
        trigger: TriggerFn | None = None,
        accumulation_mode: Any = None,
        allowed_lateness: float | str = 0,
    ) -> None:
        super().__init__()
        check_estimate(mechanism, confidence)
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
        self._column = column
        self._mechanism = mechanism
        self._event_time = event_time
        self._by = by
        self._confidence = confidence
        self._simultaneous = simultaneous
        self._trigger = trigger
        self._accumulation_mode = accumulation_mode
        self._lateness = lateness

    def _dofn(self, kind: type[_PartialTallies]) -> _PartialTallies:
        return kind(
            self._column,
            self._mechanism,
            windows=self._windows,
            event_time=self._event_time,
            by=self._by,
            dead_letter_tag=self._dead_letter_tag,
        )

    @abstractmethod
    def _partial_tallies(self) -> _PartialTallies:
        """The DoFn that makes partial tallies."""

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """See `beam.PTransform`."""
        partials, dead_letters = self._outputs(pcoll, "PartialTallies", self._partial_tallies(), Keyed)
        if self._windows is not None:
            partials |= "Window" >> beam.WindowInto(
                self._windows,
                trigger=self._trigger,
                accumulation_mode=self._accumulation_mode,
                allowed_lateness=self._lateness,
            )
        combine = HistogramCombineFn(self._mechanism, extract="tally")
        tallies = partials | "Sum" >> beam.CombinePerKey(combine).with_output_types(Keyed)
        rows = tallies | "Estimate" >> beam.ParDo(
            _EstimateDoFn(self._column, self._mechanism, self._by, self._confidence, self._simultaneous)
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
        confidence, simultaneous: see `Mechanism.estimate`.
        trigger, allowed_lateness: see ``beam.WindowInto``; by default one pane when the watermark passes the
            window's end, and with ``allowed_lateness`` (seconds or text) one more for late data.
        accumulation_mode: default ACCUMULATING: each pane estimates from all reports so far, and replaces
            the pane before. DISCARDING: each pane has only the new ones.

    A window without reports gives no row. Records carry their own time, so those in one batch may be older than
    the batch's timestamp: in a streaming pipeline Beam drops, silently, records that are older than the
    watermark by more than ``allowed_lateness``. Give batches the timestamp of their oldest record, or allow lateness.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `ReportError`, `DomainError` or
    `DtypeError` (not reports of this mechanism), `PlanError` (no such column), `InputError` (no event
    time); and always `MechanismMismatchError`.

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

    def _partial_tallies(self) -> _PartialTallies:
        return self._dofn(_TallyReports)


class PrivateHistogram(_HistogramTransform):
    """`Perturb` and `Histogram` in one step: each value is perturbed and tallied at once; reports never leave memory.

    The fast way when nobody stores the reports. Elements hold the raw values; arguments and
    output are those of `Histogram`. Each record is perturbed once, also where ``window`` is sliding.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `DomainError`, `DtypeError`,
    `PlanError`, `InputError`; always `MechanismMismatchError` (the column holds reports already).

    Raises:
        ParameterError: bad arguments; or the input is in sliding windows, where each record would be perturbed
            several times: pass them as ``window``.

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

    def _partial_tallies(self) -> _PartialTallies:
        return self._dofn(_PerturbAndTally)

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """See `beam.PTransform`."""
        refuse_sliding(pcoll)
        return super().expand(pcoll)


class _PartialTallies(RecordsDoFn):
    """Records to ((key, tally) at a slot's time): one tally for each slot and key in a batch or lot."""

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *,
        windows: WindowFn | None,
        event_time: str | None,
        by: tuple[str, ...],
        dead_letter_tag: str | None,
    ) -> None:
        super().__init__(dead_letter_tag)
        self._column = column
        self._mechanism = mechanism
        self._fingerprint = mechanism.fingerprint
        self._windows = windows
        self._event_time = event_time if windows is not None else None
        self._by = by

    @abstractmethod
    def natives(self, part: Part) -> Native:
        """The records' reports, in the mechanism's working layout."""

    @abstractmethod
    def find_column_faults(self, part: Part, faults: Faults) -> None:
        """Note records whose `natives` cannot be had."""

    def work(self, part: Part) -> list[WindowedValue]:
        if not len(part):
            return []
        natives = self.natives(part)
        keys, texts = self._keys(part)
        if self._windows is None:
            return self._in_own_windows(part, natives, keys, texts)
        if self._event_time is None:
            times = part.stamps()
        else:
            times, missing = part.event_times(self._event_time)
            check_times(missing, self._event_time)
        slotted = slots(self._windows, times, keys)
        groups = group(slotted.number, keys, len(texts))
        stamps = slotted.timestamp(groups.slot)
        # the element's own window is a placeholder: WindowInto, which follows, assigns windows by timestamp
        window = (part.window,)
        out = [
            WindowedValue((texts[key], tally), _seconds(stamp), window)
            for tally, key, stamp in zip(
                self._tallies(natives, groups.of_record, len(stamps)), groups.key.tolist(), stamps.tolist(), strict=True
            )
        ]
        empty = self._mechanism.empty_tally()
        out += [WindowedValue((texts[key], empty), _seconds(time), window) for time, key in slotted.empty.tolist()]
        return out

    def _in_own_windows(
        self, part: Part, natives: Native, keys: I64, texts: list[tuple[str, ...]]
    ) -> list[WindowedValue]:
        own, windows = part.own_windows()
        groups = group(own, keys, len(texts))
        earliest = np.full(len(windows), np.iinfo(np.int64).max)
        np.minimum.at(earliest, own, part.stamps())
        return [
            WindowedValue((texts[key], tally), _seconds(int(earliest[number])), (windows[number],))
            for tally, key, number in zip(
                self._tallies(natives, groups.of_record, len(groups.key)),
                groups.key.tolist(),
                groups.slot.tolist(),
                strict=True,
            )
        ]

    def _keys(self, part: Part) -> tuple[I64, list[tuple[str, ...]]]:
        """The key of each record as a number, int64[n], and the keys that occur."""
        number = np.zeros(len(part), np.int64)
        if not self._by:
            return number, [()]
        columns = [part.texts(name) for name in self._by]
        for codes, texts in columns:
            number, _ = _renumber(number * len(texts) + codes)
        _, first = np.unique(number, return_index=True)
        rows = zip(*([texts[i] for i in codes[first].tolist()] for codes, texts in columns), strict=True)
        return number, list(rows)

    def _tallies(self, natives: Native, groups: I64, n_groups: int) -> Iterator[Tally]:
        """One tally for each group, of a bounded number of groups at a time."""
        at_once = max(_CELLS // self._mechanism.domain.size, 1)
        if n_groups > at_once or (n_groups > 1 and natives.ndim > 1):
            # rows of bits are summed group by group; in 16 bits numpy sorts by radix, about ten times faster
            order = np.argsort(groups.astype(np.uint16) if n_groups <= 1 << 16 else groups, kind="stable")
            natives, groups = natives.take(order, axis=0), groups.take(order)
        for first in range(0, n_groups, at_once):
            last = min(first + at_once, n_groups)
            some, numbers = natives, groups
            if n_groups > at_once:
                start, stop = np.searchsorted(groups, (first, last))
                some, numbers = natives[start:stop], groups[start:stop] - first
            counts = self._mechanism.support_counts(some, numbers, last - first)
            sizes = np.bincount(numbers, minlength=last - first) if last - first > 1 else [len(some)]
            for n, support in zip(sizes, counts, strict=True):
                yield Tally(int(n), support, self._fingerprint)

    def find_faults(self, part: Part, faults: Faults) -> None:
        self.find_column_faults(part, faults)
        everywhere = np.ones(len(part), bool)
        for name in self._by:
            try:
                part.texts(name)
            except PlanError:
                faults.add(name, NO_COLUMN, everywhere)
            except DtypeError:
                faults.add(name, WRONG_TYPE, everywhere)
        if self._event_time is None:
            return
        try:
            _, missing = part.event_times(self._event_time)
        except PlanError:
            faults.add(self._event_time, NO_COLUMN, everywhere)
        except DtypeError:
            faults.add(self._event_time, WRONG_TYPE, everywhere)
        else:
            if missing is not None:
                faults.add(self._event_time, NO_TIME, missing)


class _TallyReports(_PartialTallies):
    """Partial tallies of reports."""

    _checked: Any = None

    def natives(self, part: Part) -> Native:
        self._check_plan(part.schema)
        reports = (
            part.required(self._column) if isinstance(part, Batch) else part.reports(self._column, self._mechanism)
        )
        return self._mechanism.from_arrow(reports, column=self._column)

    def _check_plan(self, schema: pa.Schema) -> None:
        """Refuse reports that another mechanism made, if the metadata tell."""
        if schema.metadata == self._checked:
            return
        plan = plan_of(schema)
        if plan is not None and self._column in plan.keep:
            raise MechanismMismatchError(
                f"column {self._column!r} is kept as it is, says the plan in the data's metadata: it holds no reports"
            )
        made_by = plan.columns.get(self._column) if plan is not None else None
        if made_by is not None and made_by.fingerprint != self._fingerprint:
            raise MechanismMismatchError(
                f"column {self._column!r}: the reports were made by a mechanism with fingerprint "
                f"{made_by.fingerprint}, says the plan in the data's metadata, not {self._fingerprint}: "
                "estimate with the mechanism that made them"
            )
        self._checked = schema.metadata

    def find_column_faults(self, part: Part, faults: Faults) -> None:
        if isinstance(part, Batch):
            check_reports(part.column(self._column), self._mechanism, self._column, faults)
            return
        values = part.column(self._column)
        unlike = np.array([not self._is_like_a_report(value) for value in values], bool)
        faults.add(self._column, NOT_A_REPORT, unlike)
        values = [None if odd else value for value, odd in zip(values, unlike.tolist(), strict=True)]
        check_reports(as_reports(values, self._mechanism, self._column), self._mechanism, self._column, faults)

    def _is_like_a_report(self, value: Any) -> bool:
        try:
            as_reports([value], self._mechanism, self._column)
        except ReportError:
            return False
        return True


class _PerturbAndTally(_PartialTallies):
    """Partial tallies of values, perturbed here under a fresh key for each batch or lot."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._perturbed = Metrics.counter(NAMESPACE, "perturbed")

    def natives(self, part: Part) -> Native:
        if isinstance(part, Batch):
            refuse_reports(part.schema, (self._column,))
        values = part.required(self._column) if isinstance(part, Batch) else part.column(self._column)
        return self._mechanism.perturb_codes(self._mechanism.domain.encode(values, column=self._column), Keystream())

    def work(self, part: Part) -> list[WindowedValue]:
        out = super().work(part)
        self._perturbed.inc(len(part))
        return out

    def find_column_faults(self, part: Part, faults: Faults) -> None:
        check_values(part.column(self._column), self._mechanism.domain, self._column, faults)


class _EstimateDoFn(beam.DoFn):
    """(key, tally) of a pane to rows."""

    def __init__(
        self, column: str, mechanism: Mechanism, by: tuple[str, ...], confidence: float, simultaneous: bool
    ) -> None:
        self._column = column
        self._mechanism = mechanism
        self._by = by
        self._confidence = confidence
        self._simultaneous = simultaneous

    def process(
        self, element: Keyed, window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[HistogramRow]:
        """One row a value."""
        key, tally = element
        estimate = self._mechanism.estimate(tally, confidence=self._confidence, simultaneous=self._simultaneous)
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
        tail = (estimate.n, self._confidence, self._mechanism.epsilon, tally.fingerprint)
        columns = (estimate.counts, estimate.frequencies, estimate.standard_errors, estimate.low, estimate.high)
        numbers = zip(*(array.tolist() for array in columns), strict=True)
        for value, estimated in zip(self._mechanism.domain.texts, numbers, strict=True):
            yield HistogramRow._make((*head, value, *estimated, *tail))


def _renumber(numbers: I64) -> tuple[I64, I64]:
    """Numbers as 0 to k - 1 in order, and the k numbers."""
    occurring, codes = np.unique(numbers, return_inverse=True)
    return codes, occurring


def _seconds(micros: int) -> Timestamp:
    return Timestamp(micros=micros)
