"""Event times: where a record has its time, the unit of a number, and a word if it is of no likely year."""

from __future__ import annotations

import logging
import typing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import numpy as np
from apache_beam.metrics.metric import Metrics

from ldp_core import ParameterError
from ldp_core.engine import I64

_LOG = logging.getLogger(__name__)

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
"""What a number that is a time counts, since the epoch: seconds, milliseconds, microseconds, nanoseconds."""

PER_SECOND: dict[str, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class EventTime:
    """Where a record's time is."""

    column: str | None
    unit: TimeUnit = "s"
    windowed: bool = False  # whether there is to be room for windows around it, in Beam's range of times
    own: bool = False  # whether the windows are those that the elements are in

    def __post_init__(self) -> None:
        if not isinstance(self.unit, str) or self.unit not in PER_SECOND:
            units = ", ".join(map(repr, typing.get_args(TimeUnit)))
            raise ParameterError(f"time_unit must be one of {units}, got {self.unit!r}")


_FIRST, _LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 10**6 for year in (1990, 2101))


class OddTimes:
    """Counts times before 1990 or after 2100 (``odd_times``), and says so once a worker in its log.

    Milliseconds that are read as seconds are in the year 57,000, and nothing fails.
    """

    def __init__(self, time: EventTime) -> None:
        self._time = time
        self._odd = Metrics.counter("ldp", "odd_times")
        self._warned = False

    def look(self, times: I64) -> None:
        """Look at n times, int64[n] microseconds."""
        if not len(times) or (times.min() >= _FIRST and times.max() < _LAST):
            return
        odd = int(np.count_nonzero((times < _FIRST) | (times >= _LAST)))
        self._odd.inc(odd)
        if not self._warned:
            where = (
                "timestamps of elements: if they mean nothing, name the column with event_time="
                if self._time.column is None
                else f"times in column {self._time.column!r}: numbers are read with time_unit={self._time.unit!r}, say "
                "so if they are in another unit"
            )
            _LOG.warning("%d of %d times are before 1990 or after 2100, of the %s", odd, len(times), where)
        self._warned = True
