"""Records that come too late: Beam drops them in silence, and here they are counted, and reported as dead letters.

A window takes no more records once the watermark has passed the window's end by the allowed lateness L. The same
records, moved L into the future and put into windows moved by L, are *early* there until that very moment, and *late*
from then on. Only what is not late goes on, moved back: it comes to the steps behind before the watermark does, so that
these take it, whatever worker they are on. (If it were counted beside them, two workers could see two watermarks. It is
where a runner is one process.) No state, no timer, and standard windows only, for every runner that knows triggers.
Whole batches are not moved: of those a step with state itself says what it took (`with_dropped`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import FixedWindows, IntervalWindow, SlidingWindows, TimestampedValue
from apache_beam.typehints import Tuple
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue
from typing_extensions import override

from ldp_beam._compat import drops_late_state, sees_one_watermark
from ldp_beam.elements.faults import LATE
from ldp_beam.elements.records import NAMESPACE, InWindows
from ldp_beam.elements.rows import DeadLetter
from ldp_beam.time.windows import step_of


def horizon(windows: FixedWindows | SlidingWindows) -> float:
    """Seconds after which even the count of the late forgets a window: a week, or 10,000 windows, at least an hour.

    Flink keeps some 300 bytes of each window until then.
    """
    return min(7 * 86400.0, max(3600.0, 10_000 * step_of(windows).micros / 1e6))


_SHARDS = 16  # (with 300 bytes of each window, too)

_LEAST = Duration(micros=1)
"""At the very end, and lateness, the local Python runner still takes a record. Java's, which cut off what is below a
millisecond, do not any more."""


def in_time(
    parts: PCollection[Any],
    into: beam.WindowInto | None,
    column: str,
    like: PCollection[Any],
    dead_letters: PCollection[Any] | None,
    *,
    once: bool = False,
) -> tuple[PCollection[Any], PCollection[Any] | None]:
    """Parts in their windows, in a stream without those that come too late for them, which are counted.

    Of fixed or sliding windows, or of the input's fixed ones where ``into`` is None. With ``once``, and no lateness,
    what comes at a window's very end is late too: the local Python runner would take it in another pane.
    """
    windowing = parts.windowing if into is None else into.windowing
    windows: Any = windowing.windowfn
    once = once and not drops_late_state(like)
    one = sees_one_watermark(like) and not once
    late = windowing.allowed_lateness - (_LEAST if once else Duration(0))
    known = isinstance(windows, (FixedWindows, SlidingWindows)) if into is not None else type(windows) is FixedWindows
    judge = Judged(windows, late, early=not one) if known and not like.is_bounded else None
    if judge is not None:
        judged = (parts | "Counts" >> beam.Map(_count_of) if one else parts) | "Judge" >> judge
        dead_letters = _with_late(judged, Letters(column), like, dead_letters)
        if not one:
            back: Any = InWindows(_Back(windows, judge.by), windowing)
            return judged | "In time" >> back.with_output_types(parts.element_type), dead_letters
    return parts if into is None else parts | "Window" >> into, dead_letters


def with_dropped(
    given: PCollection[Any], taken: PCollection[Any], column: str, like: PCollection[Any], dead: PCollection[Any] | None
) -> PCollection[Any] | None:
    """Dead letters with those of parts in windows that a step with state was given, and that the runner dropped there.

    ``taken`` are numbers of records, at the times of the others. Which are late only the step's own watermark says:
    counted beside it, where workers see several, some that come as a window closes were in neither count, or in both.
    """
    windows: Any = given.windowing.windowfn
    lateness = given.windowing.allowed_lateness
    counts = (
        given | "Given" >> beam.Map(lambda part: (0, part[1].n)).with_output_types(tuple[int, int]),
        taken
        | "In windows" >> beam.WindowInto(windows, allowed_lateness=lateness)
        | "Taken" >> beam.Map(lambda n: (0, -n)).with_output_types(tuple[int, int]),
    )
    judged = counts | beam.Flatten() | "Judge" >> Judged(windows, lateness)
    return _with_late(judged, _Dropped(column), like, dead)


def _with_late(
    judged: PCollection[Any], fn: beam.DoFn, like: PCollection[Any], dead_letters: PCollection[Any] | None
) -> PCollection[Any] | None:
    late = judged | "Late" >> beam.ParDo(fn).with_output_types(DeadLetter)
    if dead_letters is None:
        return None
    late |= "As the input" >> beam.WindowInto(like.windowing, allowed_lateness=like.windowing.allowed_lateness)
    return (dead_letters, late) | "Dead letters" >> beam.Flatten()


class Count(NamedTuple):
    """Nothing of a part but its number of records."""

    n: int


def _count_of(element: tuple[Any, Any]) -> tuple[None, Count]:
    """A part with a key to its number of records."""
    return None, Count(element[1].n)


class Judged(beam.PTransform[Any, Any]):
    """Parts to pairs of numbers and parts with their times, in panes which are LATE if the windows no longer take them.

    Those that are not come at once if ``early``.

    Elements are (key, part) at a time in the windows of the part's records. `Letters` asks their number of ``part.n``.
    """

    def __init__(self, windows: FixedWindows | SlidingWindows, lateness: Duration, *, early: bool = False) -> None:
        super().__init__()
        self._trigger = AfterWatermark(early=AfterCount(1) if early else None, late=AfterCount(1))
        self.by = lateness + _LEAST
        self._windows = _moved(windows, self.by)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        moved = Tuple[int, Tuple[pcoll.element_type or Any, int]]
        return (
            pcoll
            | "Move" >> beam.Map(_moved_part, self.by).with_output_types(moved)
            | "Window"
            >> beam.WindowInto(
                self._windows,
                trigger=self._trigger,
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=horizon(self._windows),
            )
            | beam.GroupByKey()
        )


def _moved(windows: FixedWindows | SlidingWindows, by: Duration) -> FixedWindows | SlidingWindows:
    offset = Timestamp(micros=(windows.offset.micros + by.micros) % step_of(windows).micros)
    if isinstance(windows, FixedWindows):
        return FixedWindows(windows.size, offset)
    return SlidingWindows(windows.size, windows.period, offset)


def _moved_part(element: tuple[Any, Any], by: Duration, timestamp: Any = beam.DoFn.TimestampParam) -> Any:
    return TimestampedValue((hash(element[0]) % _SHARDS, (element, timestamp.micros)), timestamp + by)


class _Back(beam.DoFn):
    """What is not late, in the window of its own from which it was moved."""

    def __init__(self, windows: FixedWindows | SlidingWindows, by: Duration) -> None:
        self._by, self._size, self._step = by.micros, windows.size.micros, step_of(windows).micros
        self._offset = windows.offset.micros

    @override
    def process(
        self,
        element: tuple[int, Iterable[tuple[Any, int]]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[WindowedValue]:
        if pane.timing != PaneInfoTiming.LATE:
            start = window.start.micros - self._by
            start += (self._offset - start) % self._step  # (from which a runner may have cut off what is below 1 ms)
            own = IntervalWindow(Timestamp(micros=start), Timestamp(micros=start + self._size))
            for part, micros in element[1]:
                yield WindowedValue(part, Timestamp(micros=micros), (own,))


class Letters(beam.DoFn):
    """Dead letters of what is late, as `Judged` has it."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._late = Metrics.counter(NAMESPACE, "late")

    @override
    def process(
        self, element: tuple[int, Iterable[tuple[Any, int]]], pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[DeadLetter]:
        return self._told(sum(part[1].n for part, _ in element[1]) if pane.timing == PaneInfoTiming.LATE else 0)

    def _told(self, n: int) -> Iterator[DeadLetter]:
        if n > 0:
            self._late.inc(n)
            yield DeadLetter(self._column, LATE, n)


_OWED = beam.DoFn.StateParam(ReadModifyWriteStateSpec("owed", beam.coders.VarIntCoder()))


class _Dropped(Letters):
    """Dead letters of what was given and not taken, as `Judged` has it: when a window is over, all that is has come.

    But of what was given some may be under way yet: that is owed.
    """

    @override
    def process(
        self, element: tuple[int, Iterable[tuple[tuple[int, int], int]]], owed: Any = _OWED
    ) -> Iterator[DeadLetter]:
        n = sum(count for (_, count), _ in element[1]) - (owed.read() or 0)
        owed.write(max(-n, 0))
        return self._told(n)
