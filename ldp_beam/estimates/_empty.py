"""Windows without records: they are filled with empty tallies, from which rows with ``n = 0`` are made."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.pvalue import PCollection
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue
from typing_extensions import override

from ldp_beam._compat import drops_late_state, knows_stable_input
from ldp_beam.elements.records import InWindows
from ldp_beam.estimates._partials import Key
from ldp_beam.time.windows import MOST_WINDOWS, step_of
from ldp_core import ParameterError
from ldp_core.engine import warn_user

Time: TypeAlias = datetime | float | str | Timestamp
Fill: TypeAlias = tuple[Time, Time | None]
"""From when on, and until when (exclusive), there are rows for empty windows; None: as long as the stream goes on."""


class WithEmptyTallies(beam.PTransform[Any, Any]):
    """Sums of windows, and an empty one for each window in a stretch of time that has none, and each key."""

    def __init__(
        self, windows: WindowFn | None, lateness: float, fill: Fill, keys: tuple[Key, ...], empty: tuple[Any, ...]
    ) -> None:
        super().__init__()
        if not isinstance(windows, (FixedWindows, SlidingWindows)):
            raise ParameterError("fill= needs fixed or sliding windows, of which there is one after the other")
        if not isinstance(fill, (tuple, list)) or len(fill) != 2:
            raise ParameterError("fill= is a pair (start, end) of times; end None for as long as a stream goes on")
        step = step_of(windows)
        first = _timestamp(fill[0])
        # The first instant, not before the start, at which a window begins.
        start = first.micros + (windows.offset.micros - first.micros) % step.micros
        end = None if fill[1] is None else _timestamp(fill[1])
        if end is not None and end <= first:
            raise ParameterError("fill=(start, end) must end after it begins")
        until = Timestamp.now() if end is None else end
        count = -(-(until.micros - start) // step.micros)
        if count > MOST_WINDOWS:
            raise ParameterError(
                f"fill= would be {count:,} windows{'' if end else ' until now'}, more than {MOST_WINDOWS:,}: "
                "fill a shorter stretch, or longer windows"
            )
        self._keys = keys
        sizes = step.micros, windows.size.micros, Duration.of(lateness).micros
        self._fill = _Fill((start, None if end is None else end.micros), *sizes, keys, empty)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        if pcoll.is_bounded and self._fill.end is None:
            raise ParameterError(
                "fill=(start, None) goes on as long as a stream does; for bounded input pass fill an end"
            )
        if not pcoll.is_bounded and not drops_late_state(pcoll):  # (it does not hold watermarks for timers)
            warn_user(
                "Beam's local streaming runner hands on rows of empty windows late: a GroupByKey behind drops them, or "
                "the job stops. Write the rows one by one, or take another runner"
            )
        keys = beam.Create([(json.dumps(key), None) for key in self._keys], reshuffle=False).with_output_types(_Keyed)
        told = pcoll | "Told" >> beam.Map(_told).with_output_types(_Keyed) | beam.WindowInto(GlobalWindows())
        both = (pcoll.pipeline | "Keys" >> keys, told) | beam.Flatten()
        fill = copy.copy(self._fill)
        # Flink fires a timer only behind its time: of one at the end the rows would be late for steps behind.
        fill.before = int(knows_stable_input(pcoll))
        filled: PCollection[Any] = both | "Fill" >> InWindows(fill, pcoll.windowing)
        # (A step behind that waits for checkpoints would make the whole stage wait, if it were in this one.)
        return filled | beam.Reshuffle() if knows_stable_input(pcoll) else filled


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


_Keyed: TypeAlias = tuple[str, Any]  # the key as JSON, for which Beam has a coder that it knows to be deterministic


def _told(
    element: Any,
    at: Any = beam.DoFn.TimestampParam,
    window: Any = beam.DoFn.WindowParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> _Keyed:
    return json.dumps(element[0]), WindowedValue(element, at, (window,), pane)


class _Fill(beam.DoFn):
    """Hand on what is told of windows, and tell of those with nothing when the watermark passes their end.

    It stands behind the sum: there no runner drops what it takes for late, however far the watermark jumps.
    """

    _TICK = TimerSpec("tick", TimeDomain.WATERMARK)
    _OVER = TimerSpec("over", TimeDomain.WATERMARK)
    _TICK_PARAM = beam.DoFn.TimerParam(_TICK)
    _OVER_PARAM = beam.DoFn.TimerParam(_OVER)
    # The first window that has not ended. And windows: of those before it, which were filled and may be told of late;
    # of the others, which were told of.
    _STATE_PARAM = beam.DoFn.StateParam(ReadModifyWriteStateSpec("windows", FastPrimitivesCoder()))

    def __init__(
        self,
        fill: tuple[int, int | None],
        step: int,
        size: int,
        lateness: int,
        keys: tuple[Key, ...],
        empty: tuple[Any, ...],
    ) -> None:
        self._start, self.end = fill
        self.before = 0  # microseconds from a timer to the end of its window
        self._step, self._size, self._lateness = step, size, lateness
        self._keys, self._empty = frozenset(keys), empty

    @override
    def process(
        self, element: _Keyed, tick: Any = _TICK_PARAM, over: Any = _OVER_PARAM, state: Any = _STATE_PARAM
    ) -> Iterable[WindowedValue]:
        told = element[1]
        if told is None:
            over.set(GlobalWindow().max_timestamp())
            self._wind(self._start, tick)
            return ()
        pane, start = told.pane_info, told.windows[0].start.micros
        if not (told.value[1].n or pane.index):
            return ()  # (see `RowsOf`)
        if told.value[0] in self._keys and start >= self._start:
            first, known = state.read() or (self._start, ())
            if start < first and start in known:
                pane = PaneInfo(False, pane.is_last, PaneInfoTiming.LATE, pane.index + 1, pane.nonspeculative_index + 1)
            elif start >= first and start not in known:
                state.write((first, (*known, start)))
        return (WindowedValue(told.value, told.timestamp, told.windows, pane),)

    @on_timer(_TICK)
    def ticked(
        self,
        key: Any = beam.DoFn.KeyParam,
        at: Any = beam.DoFn.TimestampParam,
        tick: Any = _TICK_PARAM,
        state: Any = _STATE_PARAM,
    ) -> Iterator[WindowedValue]:
        """Fill the windows that have ended since the last time."""
        first, known = state.read() or (self._start, ())
        until = at.micros + self.before + 1000 - self._size  # (a runner may cut off what is below a millisecond)
        passed = range(first, until if self.end is None else min(until, self.end), self._step)
        if passed:
            filled = sorted({*passed} - {*known})
            yield from self._empties(key, filled)
            first = passed[-1] + self._step
            over = at.micros - self._lateness - self._size
            state.write((first, (*(s for s in known if s >= first or over <= s < passed[0]), *filled)))
            self._wind(first, tick)

    @on_timer(_OVER)
    def stop(self, key: Any = beam.DoFn.KeyParam, state: Any = _STATE_PARAM) -> Iterator[WindowedValue]:
        """All watermarks have passed: without this there would be ticks until the end of time."""
        first, known = state.read() or (self._start, ())
        yield from self._empties(key, sorted({*range(first, self._due, self._step)} - {*known}))
        state.write((MAX_TIMESTAMP.micros, ()))

    @property
    def _due(self) -> int:
        """Windows that begin before are filled if the stream ends now."""
        return Timestamp.now().micros - self._size if self.end is None else self.end

    def _wind(self, first: int, tick: Any) -> None:
        """Set a timer for the end of the first window, and for those that are due and 1, 3, 7 and so on after it.

        (A runner may take a second from a timer to the one that it sets, and many windows may have ended.)
        """
        for number in range(MOST_WINDOWS.bit_length()):
            start = first + (2**number - 1) * self._step
            if start < self._due or (not number and self.end is None):
                tick.set(Timestamp(micros=start + self._size - self.before), dynamic_timer_tag=str(number))

    def _empties(self, key: str, starts: Iterable[int]) -> Iterator[WindowedValue]:
        pane = PaneInfo(True, not self._lateness, PaneInfoTiming.ON_TIME, 0, 0)
        for start in starts:
            window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=start + self._size))
            yield WindowedValue((tuple(json.loads(key)), *self._empty), window.max_timestamp(), (window,), pane)
