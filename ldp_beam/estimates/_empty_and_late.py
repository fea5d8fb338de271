"""What a window's tally is not told by its records: that there are none, and that some came too late.

Empty windows are filled with empty tallies, from which rows with ``n = 0`` are made.

Records that come too late Beam drops in silence; here they are counted, and reported as dead letters. A window's tally
takes no more records once the watermark has passed the window's end by the allowed lateness L. The same partial
tallies, moved L into the future and put into windows moved by L, are *on time* there until that very moment, and
*late* from then on: their late panes are what the histogram dropped. No state, no timer, and standard windows only, so
that every runner that knows triggers can do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeGuard

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming
from typing_extensions import override

from ldp_beam.elements.faults import LATE
from ldp_beam.elements.records import NAMESPACE
from ldp_beam.elements.rows import DeadLetter
from ldp_beam.estimates._partials import Key, KeyedTally
from ldp_core import ParameterError, Tally

Time: TypeAlias = datetime | float | Timestamp
Fill: TypeAlias = tuple[Time, Time | None]
"""From when on, and until when (exclusive), there are rows for empty windows; None: for as long as the job runs."""


class EmptyTallies(beam.PTransform[Any, Any]):
    """An empty tally for each window in a stretch of time, and each key.

    Args:
        windows: fixed or sliding.
        fill: the stretch.
        keys: the keys.
        empty: a tally of no reports.

    Raises:
        ParameterError: other windows, or a stretch that ends before it begins.
    """

    def __init__(self, windows: WindowFn | None, fill: Fill, keys: tuple[Key, ...], empty: Tally) -> None:
        super().__init__()
        if not isinstance(windows, (FixedWindows, SlidingWindows)):
            raise ParameterError("fill= needs fixed or sliding windows, of which there is one after the other")
        if not isinstance(fill, tuple) or len(fill) != 2:
            raise ParameterError("fill= is a pair (start, end) of times; end None for as long as the job runs")
        self._step = windows.size if isinstance(windows, FixedWindows) else windows.period
        first = _timestamp(fill[0])
        # The first instant, not before the start, at which a window begins.
        behind = (first.micros - windows.offset.micros) % self._step.micros
        self._start = first if not behind else first + Duration(micros=self._step.micros - behind)
        self._end = None if fill[1] is None else _timestamp(fill[1])
        if self._end is not None and self._end <= first:
            raise ParameterError("fill=(start, end) must end after it begins")
        self._keys = keys
        self._empty = empty

    @override
    def expand(self, pbegin: PBegin) -> Any:
        if self._end is None:
            ticks = pbegin | "Ticks" >> PeriodicImpulse(self._start, MAX_TIMESTAMP, self._step.micros / 1e6)
            stamped = ticks | "Stamp" >> beam.Map(_stamp)
        else:
            stamped = (
                pbegin
                | "Once" >> beam.Create([None], reshuffle=False)
                | "Windows" >> beam.ParDo(_Windows(self._start, self._end, self._step))
            )
        return stamped | "Keys" >> beam.ParDo(_Keys(self._keys, self._empty)).with_output_types(KeyedTally)


def _timestamp(time: Time) -> Timestamp:
    if isinstance(time, datetime) and time.tzinfo is None:
        raise ParameterError("the times of fill= need a time zone: datetime(2026, 1, 1, tzinfo=UTC)")
    try:
        return Timestamp.of(time.astimezone(UTC) if isinstance(time, datetime) else time)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ParameterError(
            f"the times of fill= are datetimes, Timestamps or seconds, got {type(time).__name__}"
        ) from None


def _stamp(element: Any, timestamp: Any = beam.DoFn.TimestampParam) -> TimestampedValue[Any]:
    return TimestampedValue(None, timestamp)


class _Windows(beam.DoFn):
    def __init__(self, start: Timestamp, end: Timestamp, step: Duration) -> None:
        self._start, self._end, self._step = start, end, step

    @override
    def process(self, element: None) -> Iterator[TimestampedValue[Any]]:
        for micros in range(self._start.micros, self._end.micros, self._step.micros):
            yield TimestampedValue(None, Timestamp(micros=micros))


class _Keys(beam.DoFn):
    def __init__(self, keys: tuple[Key, ...], empty: Tally) -> None:
        self._keys, self._empty = keys, empty

    @override
    def process(self, element: None) -> Iterator[KeyedTally]:
        for key in self._keys:
            yield key, self._empty


HORIZON = 7 * 86400
"""Seconds after which even the count of the late forgets a window."""


_HALF = Duration(micros=500)
"""Half of the watermark's step of a millisecond: at the very last one the local Python runner still takes a record, and
Java's, in whose timestamps the half is cut off, do not any more."""


class LateRecords(beam.PTransform[Any, Any]):
    """Partial tallies to dead letters that count the records which their windows no longer take.

    Args:
        windows: fixed or sliding. (In sliding windows a record counts once for every window that it missed.)
        lateness: allowed, in seconds.
        column: to name in the dead letters.
    """

    def __init__(self, windows: FixedWindows | SlidingWindows, lateness: float, column: str) -> None:
        super().__init__()
        self._by = Duration(micros=round(lateness * 1e6)) + _HALF
        self._windows = _moved(windows, self._by)
        self._column = column

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        return (
            pcoll
            | "Move" >> beam.ParDo(_Move(self._by)).with_output_types(tuple[int, int])
            | "Window"
            >> beam.WindowInto(
                self._windows,
                trigger=AfterWatermark(late=AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=HORIZON,
            )
            | "Sum" >> beam.CombinePerKey(sum)
            | "Late" >> beam.ParDo(_Letters(self._column)).with_output_types(DeadLetter)
        )


def knows_late(windows: WindowFn | None) -> TypeGuard[FixedWindows | SlidingWindows]:
    """Whether records can be too late for these windows in a way that `LateRecords` sees; not so for sessions."""
    return isinstance(windows, (FixedWindows, SlidingWindows))


def _moved(windows: FixedWindows | SlidingWindows, by: Duration) -> FixedWindows | SlidingWindows:
    step = windows.size if isinstance(windows, FixedWindows) else windows.period
    offset = Timestamp(micros=(windows.offset.micros + by.micros) % step.micros)
    if isinstance(windows, FixedWindows):
        return FixedWindows(windows.size, offset)
    return SlidingWindows(windows.size, windows.period, offset)


class _Move(beam.DoFn):
    def __init__(self, by: Duration) -> None:
        self._by = by

    @override
    def process(
        self, element: tuple[Any, Tally], timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[TimestampedValue[Any]]:
        if element[1].n:
            yield TimestampedValue((0, element[1].n), timestamp + self._by)


class _Letters(beam.DoFn):
    def __init__(self, column: str) -> None:
        self._column = column
        self._late = Metrics.counter(NAMESPACE, "late")

    @override
    def process(self, element: tuple[int, int], pane: Any = beam.DoFn.PaneInfoParam) -> Iterator[DeadLetter]:
        if pane.timing == PaneInfoTiming.LATE:
            self._late.inc(element[1])
            yield DeadLetter(self._column, LATE, element[1])
