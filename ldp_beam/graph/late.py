"""Records that come too late: Beam drops them in silence, and here they are counted, and reported as dead letters.

A window takes no more records once the watermark has passed the window's end by the allowed lateness L. The same
records, moved L into the future and put into windows moved by L, are *on time* there until that very moment, and *late*
from then on: their late panes are what the window dropped. No state, no timer, and standard windows only, so that every
runner that knows triggers can do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming
from typing_extensions import override

from ldp_beam.elements.faults import LATE
from ldp_beam.elements.records import NAMESPACE
from ldp_beam.elements.rows import DeadLetter
from ldp_beam.time.windows import step_of


def horizon(windows: FixedWindows | SlidingWindows) -> float:
    """Seconds after which even the count of the late forgets a window: a week, or 10,000 windows, at least an hour.

    Flink keeps some 300 bytes of each window until then.
    """
    return min(7 * 86400.0, max(3600.0, 10_000 * step_of(windows).micros / 1e6))


_HALF = Duration(micros=500)
"""Half of the watermark's step of a millisecond: at the very last one the local Python runner still takes a record, and
Java's, in whose timestamps the half is cut off, do not any more."""


def with_late(
    parts: PCollection[Any],
    windows: WindowFn | None,
    lateness: float,
    column: str,
    like: PCollection[Any],
    dead_letters: PCollection[Any] | None,
) -> PCollection[Any] | None:
    """Count the parts' records that come too late, in a stream of fixed or sliding windows; or of the input's fixed."""
    if windows is None and type(like.windowing.windowfn) is FixedWindows:
        windows, lateness = like.windowing.windowfn, like.windowing.allowed_lateness.micros / 1e6
    if like.is_bounded or not isinstance(windows, (FixedWindows, SlidingWindows)):
        return dead_letters
    late = parts | "Late" >> LateRecords(windows, lateness, column)
    if dead_letters is None:
        return None
    late |= "As the input" >> beam.WindowInto(like.windowing, allowed_lateness=like.windowing.allowed_lateness)
    both: PCollection[Any] = (dead_letters, late) | "Dead letters" >> beam.Flatten()
    return both


class LateRecords(beam.PTransform[Any, Any]):
    """Parts to dead letters that count the records which their windows no longer take.

    Elements are (key, part) at a time in the windows of the part's records, of which ``part.n`` is the number.
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
            | "Move" >> beam.FlatMap(_moved_counts, self._by).with_output_types(tuple[int, int])
            | "Window"
            >> beam.WindowInto(
                self._windows,
                trigger=AfterWatermark(late=AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=horizon(self._windows),
            )
            | "Sum" >> beam.CombinePerKey(sum)
            | "Late" >> beam.ParDo(_Letters(self._column)).with_output_types(DeadLetter)
        )


def _moved(windows: FixedWindows | SlidingWindows, by: Duration) -> FixedWindows | SlidingWindows:
    offset = Timestamp(micros=(windows.offset.micros + by.micros) % step_of(windows).micros)
    if isinstance(windows, FixedWindows):
        return FixedWindows(windows.size, offset)
    return SlidingWindows(windows.size, windows.period, offset)


def _moved_counts(
    element: tuple[Any, Any], by: Duration, timestamp: Any = beam.DoFn.TimestampParam
) -> Iterator[TimestampedValue[Any]]:
    if element[1].n:
        yield TimestampedValue((0, element[1].n), timestamp + by)


class _Letters(beam.DoFn):
    def __init__(self, column: str) -> None:
        self._column = column
        self._late = Metrics.counter(NAMESPACE, "late")

    @override
    def process(self, element: tuple[int, int], pane: Any = beam.DoFn.PaneInfoParam) -> Iterator[DeadLetter]:
        if pane.timing == PaneInfoTiming.LATE:
            self._late.inc(element[1])
            yield DeadLetter(self._column, LATE, element[1])
