"""The heavy part of estimates: records to partial tallies, one for each slot of time and key in a batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.transforms.window import GlobalWindows, WindowFn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

from ldp_beam.elements.batches import (
    AnyBatch,
    Batch,
    RowBatch,
    as_reports,
    find_lacking,
    find_time_faults,
    times_of,
    windows_of,
)
from ldp_beam.elements.faults import NOT_A_REPORT, NOT_PROVED, Faults, check_reports, check_values
from ldp_beam.elements.ids import IdHash, NoiseKey
from ldp_beam.elements.records import NAMESPACE, RecordsDoFn
from ldp_beam.graph.upstream import check_reports_of
from ldp_beam.time.times import EventTime, OddTimes
from ldp_beam.time.windows import Groups, group, slots
from ldp_core import Keystream, ParameterError, ReportError, Tally, engine
from ldp_core.engine import I64, Native, PlanTold, ReportFormat, check_made_by, refuse_keys, refuse_reports, some_groups

Key: TypeAlias = tuple[str, ...]  # the text of each column that is tallied by; empty without such columns
KeyedTally: TypeAlias = tuple[Key, Tally]

_CELLS = 1 << 22  # support counts made in one call: 32 MiB


def public_columns(
    by: tuple[str, ...], windows: WindowFn | None, event_time: EventTime, person: IdHash | None
) -> tuple[str, ...]:
    """The columns that say in which window, group and person a record is: in the clear, and exactly."""
    time = None if windows is None else event_time.column
    return (*by, *([] if person is None else [person.column]), *([] if time is None else [time]))


class PartialTallies(RecordsDoFn):
    """Records to ((key, tally) at a slot's time): one tally for each slot and key in a batch or lot.

    The arguments are those of `Estimate`. ``tallier`` is that of `Question.tallier`, by default the mechanism. Of a
    ``person`` the hexadecimal digits of the id's hash are the last part of the keys.
    """

    def __init__(
        self,
        column: str,
        mechanism: Any,
        tallier: Any = None,
        *,
        windows: WindowFn | None,
        event_time: EventTime,
        by: tuple[str, ...],
        dead_letter_tag: str | None,
        person: IdHash | None = None,
    ) -> None:
        super().__init__(dead_letter_tag)
        self._column = column
        self._mechanism = mechanism
        self._tallier = mechanism if tallier is None else tallier
        self._fingerprint = self._tallier.fingerprint
        self._windows = windows
        windowed = not (windows is None or isinstance(windows, GlobalWindows))
        self._time = EventTime(None, own=True) if windows is None else replace(event_time, windowed=windowed)
        self._odd = OddTimes(event_time) if windowed else None
        self._by = by
        self._person = person
        self._public = public_columns(by, windows, event_time, person)

    @abstractmethod
    def natives(self, part: AnyBatch) -> Native:
        """The records' reports, in the working layout of what counts them."""

    @override
    def work(self, part: AnyBatch) -> list[WindowedValue]:
        if not len(part):
            return []
        natives = self.natives(part)
        keys, texts = self._keys(part)
        if self._windows is None:
            return self._in_own_windows(part, natives, keys, texts)
        times = times_of(part, self._time)
        if self._odd is not None:
            self._odd.look(times)
        slotted = slots(self._windows, times, keys)
        groups = group(slotted.number, keys, len(texts))
        stamps = slotted.timestamp(groups.slot)
        # the element's own window is a placeholder: WindowInto, which follows, assigns windows by timestamp
        window = (part.window,)
        out = [
            WindowedValue((texts[key], tally), Timestamp(micros=stamp), window)
            for tally, key, stamp in zip(
                self._tallies(natives, groups), groups.key.tolist(), stamps.tolist(), strict=True
            )
        ]
        empty = self._tallier.empty_tally()
        out += [
            WindowedValue((texts[key], empty), Timestamp(micros=time), window) for time, key in slotted.empty.tolist()
        ]
        return out

    def _in_own_windows(self, part: AnyBatch, natives: Native, keys: I64, texts: list[Key]) -> list[WindowedValue]:
        own, windows = windows_of(part)
        groups = group(own, keys, len(texts))
        earliest = np.full(len(windows), np.iinfo(np.int64).max)
        np.minimum.at(earliest, own, part.stamps())
        return [
            WindowedValue((texts[key], tally), Timestamp(micros=int(earliest[number])), (windows[number],))
            for tally, key, number in zip(
                self._tallies(natives, groups), groups.key.tolist(), groups.slot.tolist(), strict=True
            )
        ]

    def _keys(self, part: AnyBatch) -> tuple[I64, list[Key]]:
        """The key of each record as a number, int64[n], and the keys that occur."""
        number = np.zeros(len(part), np.int64)
        columns = [part.texts(name) for name in self._by]
        if self._person is not None:
            whose, codes = np.unique(self._person.of(part), return_inverse=True)
            columns.append((codes, [f"{one:x}" for one in whose.tolist()]))
        if not columns:
            return number, [()]
        for codes, texts in columns:
            number = np.unique(number * len(texts) + codes, return_inverse=True)[1]
        _, first = np.unique(number, return_index=True)
        rows = zip(*([texts[i] for i in codes[first].tolist()] for codes, texts in columns), strict=True)
        return number, list(rows)

    def _tallies(self, natives: Native, groups: Groups) -> Iterator[Tally]:
        """One tally for each group, of a bounded number of groups at a time."""
        at_once = max(_CELLS // self._tallier.counters, 1)
        for first, last, some, of in some_groups(natives, groups.of_record, len(groups.key), at_once):
            counts = self._tallier.count_reports(some, of, last - first)
            for n, support in zip(groups.size[first:last].tolist(), counts, strict=True):
                yield Tally(n, support, self._fingerprint)

    @override
    def find_faults(self, part: AnyBatch, faults: Faults) -> None:
        for name in self._by:
            find_lacking(part, name, faults)
            if isinstance(part, Batch):
                with faults.of(name, "text, number, Boolean or time"):
                    part.texts(name)
        if self._person is not None:
            self._person.find_faults(part, faults)
        find_time_faults(part, self._time, faults)


class TallyReports(PartialTallies):
    _checked: pa.Schema | None = None
    _unproved: list[str]  # columns of the checked schema that say of themselves nothing

    def __init__(self, *args: Any, unsaid: Callable[[str], ParameterError] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unsaid = unsaid

    @override
    def natives(self, part: AnyBatch) -> Native:
        self.check_schema(part.schema)
        if self._unproved:
            raise ReportError(f"{engine.not_proved(self._unproved)}, as beam.Map(plan.assume_reports)")
        forms = {name: one.reports for name, one in self._tallier.by_column(self._column).items()}
        read = [form.from_arrow(part.reports(name, form), column=name) for name, form in forms.items()]
        return self._tallier.joined(read)

    @override
    def check_schema(self, schema: pa.Schema) -> None:
        """Refuse reports that another mechanism made, if the metadata or the column's type tell."""
        if self._checked is not None and schema.equals(self._checked, check_metadata=True):
            return
        made_with, unproved = PlanTold.of(schema), list[str]()
        for name, mechanism in self._mechanism.by_column(self._column).items():
            at = schema.get_field_index(name)
            if at >= 0:
                made = check_made_by(schema.field(at), mechanism)
                if self._unsaid is not None and made is not None and made.keyed:
                    raise self._unsaid(name)
                if made is None:
                    unproved.append(name)
            check_reports_of(made_with, name, mechanism, "the plan in the data's metadata")
        refuse_keys(schema, self._public)
        self._checked, self._unproved = schema, unproved

    @override
    def find_faults(self, part: AnyBatch, faults: Faults) -> None:
        for name in self._unproved:
            faults.add(name, NOT_PROVED)
        for name, one in self._tallier.by_column(self._column).items():
            reports, form = part.column(name), one.reports
            if isinstance(reports, list):
                if not form.nullable:
                    find_lacking(part, name, faults)
                unlike = np.array([not _is_like_a_report(value, form) for value in reports], bool)
                faults.add(name, NOT_A_REPORT, unlike)
                likely = [None if odd else value for value, odd in zip(reports, unlike.tolist(), strict=True)]
                reports = as_reports(likely, form, name)
            check_reports(reports, form, name, faults)
        super().find_faults(part, faults)


def _is_like_a_report(value: Any, form: ReportFormat) -> bool:
    try:
        as_reports([value], form, "")
    except ReportError:
        return False
    return True


class PerturbAndTally(PartialTallies):
    """Partial tallies of values, perturbed here, by default under a fresh key for each batch or lot."""

    def __init__(self, *args: Any, key: NoiseKey | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._key = key
        self._perturbed = Metrics.counter(NAMESPACE, "perturbed")

    @override
    def natives(self, part: AnyBatch) -> Native:
        self.check_schema(part.schema)
        drawn = []
        for name, mechanism in self._mechanism.by_column(self._column).items():
            missing_is_null = isinstance(part, RowBatch) and mechanism.inputs.unmatched != "error"
            values = part.column(name) if missing_is_null else part.required(name)
            randomness = Keystream() if self._key is None else self._key.randomness(part, name)
            drawn.append(mechanism.draw(values, randomness, name))
        return self._tallier.joined(drawn)

    @override
    def check_schema(self, schema: pa.Schema) -> None:
        """Refuse a column of reports."""
        refuse_reports(schema, self._mechanism.by_column(self._column))
        refuse_keys(schema, self._public)

    @override
    def work(self, part: AnyBatch) -> list[WindowedValue]:
        out = super().work(part)
        self._perturbed.inc(len(part))
        return out

    @override
    def find_faults(self, part: AnyBatch, faults: Faults) -> None:
        if self._key is not None:
            self._key.find_faults(part, faults)
        for name, mechanism in self._mechanism.by_column(self._column).items():
            if mechanism.inputs.unmatched == "error":
                find_lacking(part, name, faults)
            check_values(part.column(name), mechanism.inputs, name, faults)
        super().find_faults(part, faults)
        if self._key is not None:
            self._key.find_shared(part, faults)
