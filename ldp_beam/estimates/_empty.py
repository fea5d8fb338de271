"""Windows without records: they are filled with empty tallies, from which rows with ``n = 0`` are made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.coders import BooleanCoder
from apache_beam.pvalue import PCollection
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration, Timestamp
from typing_extensions import override

from ldp_beam.estimates._partials import Key, KeyedTally
from ldp_beam.time.windows import MOST_WINDOWS, step_of
from ldp_core import ParameterError, Tally

Time: TypeAlias = datetime | float | str | Timestamp
Fill: TypeAlias = tuple[Time, Time | None]
"""From when on, and until when (exclusive), there are rows for empty windows; None: as long as the stream goes on."""


class WithEmptyTallies(beam.PTransform[Any, Any]):
    """Tallies, and an empty one more for each window in a stretch of time, and each key.

    Attributes:
        start: when the first of the windows begins. In sliding windows what fills it is in earlier ones too.
    """

    def __init__(self, windows: WindowFn | None, fill: Fill, keys: tuple[Key, ...], empty: Tally) -> None:
        super().__init__()
        if not isinstance(windows, (FixedWindows, SlidingWindows)):
            raise ParameterError("fill= needs fixed or sliding windows, of which there is one after the other")
        if not isinstance(fill, (tuple, list)) or len(fill) != 2:
            raise ParameterError("fill= is a pair (start, end) of times; end None for as long as a stream goes on")
        self._step = step_of(windows)
        first = _timestamp(fill[0])
        # The first instant, not before the start, at which a window begins.
        behind = (first.micros - windows.offset.micros) % self._step.micros
        self.start = first if not behind else first + Duration(micros=self._step.micros - behind)
        self._end = None if fill[1] is None else _timestamp(fill[1])
        if self._end is not None and self._end <= first:
            raise ParameterError("fill=(start, end) must end after it begins")
        until = Timestamp.now() if self._end is None else self._end
        count = -(-(until.micros - self.start.micros) // self._step.micros)
        if count > MOST_WINDOWS:
            raise ParameterError(
                f"fill= would be {count:,} windows{'' if self._end else ' until now'}, more than {MOST_WINDOWS:,}: "
                "fill a shorter stretch, or longer windows"
            )
        self._keys = keys
        self._empty = empty

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        once = pcoll.pipeline | "Once" >> beam.Create([_ONE], reshuffle=False).with_output_types(_One)
        if self._end is not None:
            begins = once | "Windows" >> beam.FlatMap(_begins, self.start, self._end, self._step)
        elif pcoll.is_bounded:
            raise ParameterError(
                "fill=(start, None) goes on as long as a stream does; for bounded input pass fill an end"
            )
        else:
            watermark = (
                pcoll
                | "Nothing" >> beam.FlatMap(_nothing).with_output_types(_One)
                | "Watermark" >> beam.WindowInto(GlobalWindows())
            )
            ticks = _Ticks(self.start, self._step)
            begins = (once, watermark) | "Clock" >> beam.Flatten() | "Ticks" >> beam.ParDo(ticks)
        tallies = [(key, self._empty) for key in self._keys]
        empty = begins | "Keys" >> beam.FlatMap(lambda _: tallies).with_output_types(KeyedTally)
        filled = (pcoll, empty) | "Filled" >> beam.Flatten()
        # In one stream: else what is late and what is summed see two watermarks on Flink, and what is read is not
        # counted + late while a job starts. (Endless filling lacks windows there now and then, not less so with it.)
        return filled if self._end is None else filled | "In one stream" >> beam.Reshuffle()


def _timestamp(time: Time) -> Timestamp:
    try:
        found = datetime.fromisoformat(time) if isinstance(time, str) else time
        if not isinstance(found, datetime) or found.tzinfo is not None:
            return Timestamp.of(found.astimezone(UTC) if isinstance(found, datetime) else found)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            "the times of fill= are datetimes, text in ISO 8601 like '2026-01-01T00:00:00Z', Timestamps or seconds, "
            f"got {time if isinstance(time, str) else type(time).__name__!r}"
        ) from None
    raise ParameterError("the times of fill= need a time zone: datetime(2026, 1, 1, tzinfo=UTC), or a text with Z")


_One: TypeAlias = tuple[int, None]
_ONE: _One = (0, None)


def _nothing(element: Any) -> tuple[_One, ...]:
    return ()


class _Ticks(beam.DoFn):
    """The beginnings of windows, each when the watermark comes to it, until the stream ends.

    (Beam's ``PeriodicImpulse`` goes with the clock, and leaves state behind with every tick on Flink.)
    """

    _TICK = TimerSpec("tick", TimeDomain.WATERMARK)
    _END = TimerSpec("end", TimeDomain.WATERMARK)
    _TICK_PARAM = beam.DoFn.TimerParam(_TICK)
    _END_PARAM = beam.DoFn.TimerParam(_END)
    _ENDED_PARAM = beam.DoFn.StateParam(ReadModifyWriteStateSpec("ended", BooleanCoder()))

    def __init__(self, start: Timestamp, step: Duration) -> None:
        self._start, self._step = start, step

    @override
    def process(self, element: _One, tick: Any = _TICK_PARAM, end: Any = _END_PARAM) -> None:
        tick.set(self._start)
        end.set(GlobalWindow().max_timestamp())

    @on_timer(_TICK)
    def ticked(
        self, at: Any = beam.DoFn.TimestampParam, tick: Any = _TICK_PARAM, ended: Any = _ENDED_PARAM
    ) -> Iterator[TimestampedValue[Any]]:
        """Emit it, and all that the clock has passed: a runner may take a second for each time that this is called."""
        if ended.read():
            return
        step = self._step.micros
        micros = at.micros
        until = min(max(micros, Timestamp.now().micros), micros + (_AT_ONCE - 1) * step)
        while micros <= until:
            yield TimestampedValue(None, Timestamp(micros=micros))
            micros += step
        tick.set(Timestamp(micros=micros))

    @on_timer(_END)
    def stop(self, ended: Any = _ENDED_PARAM) -> None:
        """All watermarks have passed: without this there would be ticks until the end of time."""
        ended.write(True)


_AT_ONCE = 1000  # windows that begin in one call


def _begins(_: _One, start: Timestamp, end: Timestamp, step: Duration) -> Iterator[TimestampedValue[Any]]:
    for micros in range(start.micros, end.micros, step.micros):
        yield TimestampedValue(None, Timestamp(micros=micros))
