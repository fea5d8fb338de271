"""Windows without records, filled: empty tallies, from which rows with ``n = 0`` are made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.pvalue import PBegin
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

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

    def __init__(self, windows: WindowFn | None, fill: Fill, keys: tuple[tuple[str, ...], ...], empty: Tally) -> None:
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

    def expand(self, pbegin: PBegin) -> Any:
        """See `beam.PTransform`."""
        if self._end is None:
            ticks = pbegin | "Ticks" >> PeriodicImpulse(self._start, MAX_TIMESTAMP, self._step.micros / 1e6)
            stamped = ticks | "Stamp" >> beam.Map(_stamp)
        else:
            stamped = (
                pbegin
                | "Once" >> beam.Create([None], reshuffle=False)
                | "Windows" >> beam.ParDo(_Windows(self._start, self._end, self._step))
            )
        return stamped | "Keys" >> beam.ParDo(_Keys(self._keys, self._empty)).with_output_types(
            tuple[tuple[str, ...], Tally]
        )


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

    def process(self, element: None) -> Iterator[TimestampedValue[Any]]:
        for micros in range(self._start.micros, self._end.micros, self._step.micros):
            yield TimestampedValue(None, Timestamp(micros=micros))


class _Keys(beam.DoFn):
    def __init__(self, keys: tuple[tuple[str, ...], ...], empty: Tally) -> None:
        self._keys, self._empty = keys, empty

    def process(self, element: None) -> Iterator[tuple[tuple[str, ...], Tally]]:
        for key in self._keys:
            yield key, self._empty
