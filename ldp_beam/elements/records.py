"""The DoFn under all transforms: batches at once, single records many at a time, unusable ones as dead letters."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Self

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

import ldp_core as core
from ldp_beam.elements.batches import AnyBatch, Batch, Record, RowBatch, is_frame, is_record, parts_of
from ldp_beam.elements.faults import OTHER_PLAN, UNSAID, Faults, not_of
from ldp_beam.elements.rows import DeadLetter

NAMESPACE = "ldp"  # namespace of all metrics
ROW_BATCH = 4096  # single records that are handled in one call

_DATA_ERRORS = (
    core.DomainError,
    core.DtypeError,
    core.InputError,
    core.MechanismMismatchError,
    core.ParameterError,  # (of keyed noise, which anybody's batch may say that it has)
    core.PlanError,
    core.ReportError,
)


class RecordsDoFn(beam.DoFn):
    """Calls `work` with Arrow batches as they come, and with the single records of a bundle, many at a time.

    With a ``dead_letter_tag`` only with their usable records. Metrics: counters ``records_read`` and ``dead_lettered``,
    distribution ``batch_rows``.
    """

    def __init__(self, dead_letter_tag: str | None) -> None:
        self._waiting: list[Record] = []
        self._dead_letter_tag = dead_letter_tag
        self._read = Metrics.counter(NAMESPACE, "records_read")
        self._dead = Metrics.counter(NAMESPACE, "dead_lettered")
        self._rows = Metrics.distribution(NAMESPACE, "batch_rows")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_waiting": []}  # raw records never travel with the code

    @override
    def start_bundle(self) -> None:
        self._waiting = []

    @override
    def process(
        self, element: Any, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterable[Any]:
        if isinstance(element, (pa.RecordBatch, pa.Table)):
            return [out for part in parts_of(element) for out in self._handle(Batch(part, timestamp, window))]
        if self._dead_letter_tag is not None and not is_record(type(element)):
            count, kind = (len(element) or 1, "pyarrow.Table") if is_frame(type(element)) else (1, "record")
            self._read.inc(count)
            self._dead.inc(count)
            letter = WindowedValue(DeadLetter("", not_of(kind), count), timestamp, (window,))
            return [beam.pvalue.TaggedOutput(self._dead_letter_tag, letter)]
        self._waiting.append(Record(element, timestamp, window))
        return self.finish_bundle() if len(self._waiting) >= ROW_BATCH else ()

    @override
    def finish_bundle(self) -> Iterable[Any]:
        records, self._waiting = self._waiting, []
        return self._handle(RowBatch(records)) if records else ()

    @abstractmethod
    def work(self, part: AnyBatch) -> list[WindowedValue]:
        """What becomes of the records of one batch."""

    def check_schema(self, schema: pa.Schema) -> None:
        """Raise if a batch's metadata say that it is not for this step."""

    @abstractmethod
    def find_faults(self, part: AnyBatch, faults: Faults) -> None:
        """Note the records that `work` cannot use."""

    def _handle(self, batch: AnyBatch) -> Iterable[Any]:
        self._read.inc(len(batch))
        self._rows.update(len(batch))
        if self._dead_letter_tag is None:
            return self.work(batch)
        try:
            return self.work(batch)
        except _DATA_ERRORS:
            pass  # some records are unusable: work on the others, outside of this error's context
        faults = Faults(len(batch))
        try:
            self.check_schema(batch.schema)
        except core.LdpError as error:
            faults.add("", UNSAID if isinstance(error, core.ParameterError) else OTHER_PLAN)
        else:
            self.find_faults(batch, faults)
        good = faults.good
        out: list[Any] = [
            beam.pvalue.TaggedOutput(self._dead_letter_tag, letter) for letter in letters(batch, faults, ~good)
        ]
        self._dead.inc(len(batch) - int(np.count_nonzero(good)))
        if good.any():
            out += self.work(batch.take(good))
        return out


def letters(part: AnyBatch, faults: Faults, bad: Any) -> Iterator[WindowedValue]:
    """Dead letters, counted per window; each at the time of one of the window's unusable records: see `CoarseTimes`."""
    own, windows = part.own_windows()
    stamps = part.stamps()
    for number, window in enumerate(windows):
        rows = np.flatnonzero(bad & (own == number))
        for letter in faults.letters(rows):
            yield WindowedValue(letter, Timestamp(micros=int(stamps[rows].max())), (window,))


class CoarseTimes(beam.PTransform[Any, Any]):
    """Dead letters with the time of their window's end, and not of their records; one by one, as `FlushedAtOnce`.

    A dead letter says that a value was null, or undeclared: an answer without noise. With the exact time of its record
    whoever knows when a person used the app knows whose answer it was. In the global window and in merging ones it is
    the end of the hour, in UTC: coarse enough to hold more than one person, and fine enough to see when faults began.
    (With a beginning time would go back, and letters be late. At the end of time no later window would hold them.)
    """

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        coarse: PCollection[Any] = pcoll | beam.ParDo(_Coarse(merging=pcoll.windowing.windowfn.is_merging()))
        coarse.element_type = DeadLetter
        return coarse


class _Coarse(beam.DoFn):
    def __init__(self, *, merging: bool) -> None:
        self._merging = merging

    @override
    def process(
        self, element: Any, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Any]:
        if self._merging:
            yield TimestampedValue(element, _end_of_hour(timestamp))  # and it is put in windows anew
        else:
            end = _end_of_hour(timestamp) if isinstance(window, GlobalWindow) else window.max_timestamp()
            yield WindowedValue(element, end, (window,))


_HOUR = 3_600_000_000  # microseconds


def _end_of_hour(timestamp: Any) -> Timestamp:
    """The last microsecond of the hour; of those after all windows, the time itself."""
    time = Timestamp.of(timestamp)
    return max(time, min(Timestamp(micros=(time.micros // _HOUR + 1) * _HOUR - 1), GlobalWindow().max_timestamp()))


class FlushedAtOnce(beam.PTransform[Any, Any]):
    """The same elements. Put after what emits when a bundle ends, in front of steps that are not known.

    Beam 2.77 flushes a step with ``process_batch``, as WriteToJson and its like begin with, before its upstream step
    has finished its bundle (`DoOperation.finish`): what that emits then, of the last single records, would be
    lost. A step between that works element by element saves it.
    """

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        same: PCollection[Any] = pcoll | beam.Map(_same)
        same.element_type = pcoll.element_type
        return same


def _same(element: Any) -> Any:
    return element


class InWindows(beam.ParDo):
    """A ParDo that puts its elements into these windows, whichever its input is in."""

    def __init__(self, fn: beam.DoFn, windowing: Any) -> None:
        super().__init__(fn)  # type: ignore[no-untyped-call]
        self._windowing = windowing

    @override
    def get_windowing(self, inputs: Any) -> Any:
        return self._windowing


class RecordsTransform(beam.PTransform[Any, Any]):
    """Base of the transforms: configuration, and the choice of what to do with unusable records."""

    _dead_letter_tag: str | None = None
    _main_tag: str = "good"

    def with_exception_handling(self, main_tag: str = "good", dead_letter_tag: str = "bad") -> Self:
        """A copy of this transform that returns ``(good, dead_letters)`` and goes on without unusable records.

        Unlike ``ParDo.with_exception_handling`` it works row by row inside batches, and a
        `DeadLetter` tells column, reason and count, but nothing of the records themselves. Its time is the end of
        their window; in the global window and in merging ones the end of the hour, in UTC.
        """
        if main_tag == dead_letter_tag:
            raise core.ParameterError("main_tag and dead_letter_tag must differ")
        other = copy.copy(self)
        other._main_tag, other._dead_letter_tag = main_tag, dead_letter_tag
        return other

    def _outputs(
        self, pcoll: PCollection[Any], label: str, fn: beam.DoFn, output_type: Any, *others: str, windowing: Any = None
    ) -> tuple[Any, ...]:
        """Apply ``fn``, which has ``dead_letter_tag``: its main output, its dead letters or None, and the others."""
        pardo: Any = InWindows(fn, windowing or pcoll.windowing)
        dead = self._dead_letter_tag
        if dead is None and not others:
            return pcoll | label >> pardo.with_output_types(output_type), None
        tags = others if dead is None else (dead, *others)
        outputs = pcoll | label >> pardo.with_outputs(*tags, main=self._main_tag)
        outputs[self._main_tag].element_type = convert_to_beam_type(output_type)  # (a hint is for all outputs)
        dead_letters = None if dead is None else outputs[dead] | f"{label} dead letters" >> CoarseTimes()
        return outputs[self._main_tag], dead_letters, *(outputs[tag] for tag in others)

    def _batches(self, pcoll: PCollection[Any], label: str, fn: beam.DoFn) -> Any:
        batches, dead_letters = self._outputs(pcoll, label, fn, pa.RecordBatch)
        return batches if dead_letters is None else (batches, dead_letters)

    def _handled_as_here(self, step: RecordsTransform) -> RecordsTransform:
        if self._dead_letter_tag is None:
            return step
        return step.with_exception_handling(self._main_tag, self._dead_letter_tag)
