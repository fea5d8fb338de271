"""Records that came too late, which Beam drops in silence: counted, and reported as dead letters.

A window's tally takes no more records once the watermark has passed the window's end by the allowed lateness L. The
same partial tallies, moved L into the future and put into windows moved by L, are *on time* there until that very
moment, and *late* from then on: their late panes are what the histogram dropped. No state, no timer, and standard
windows only, so that every runner that knows triggers can do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming

from ldp_beam.elements.faults import LATE
from ldp_beam.elements.records import NAMESPACE
from ldp_beam.elements.rows import DeadLetter
from ldp_core import Tally

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

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """See `beam.PTransform`."""
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

    def process(
        self, element: tuple[Any, Tally], timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[TimestampedValue[Any]]:
        if element[1].n:
            yield TimestampedValue((0, element[1].n), timestamp + self._by)


class _Letters(beam.DoFn):
    def __init__(self, column: str) -> None:
        self._column = column
        self._late = Metrics.counter(NAMESPACE, "late")

    def process(self, element: tuple[int, int], pane: Any = beam.DoFn.PaneInfoParam) -> Iterator[DeadLetter]:
        if pane.timing == PaneInfoTiming.LATE:
            self._late.inc(element[1])
            yield DeadLetter(self._column, LATE, element[1])
