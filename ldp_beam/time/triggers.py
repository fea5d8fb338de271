"""Triggers that count partial tallies, and not records; and that drop late records. Streams without windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apache_beam import PCollection
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    TriggerFn,
)

from ldp_core import ParameterError
from ldp_core.engine import check_integer, warn_user


class AfterTallies(AfterCount):
    """Beam's ``AfterCount``, where it is meant that it counts partial tallies.

    Estimates gather records before Beam's triggers see them. A batch, or up to 4,096 single records, is one partial
    tally for each slot of time and key. So a trigger that waits for 1,000 of them waits for a thousand batches or more,
    and not for 1,000 records; `Histogram` and its like refuse ``AfterCount(1000)``. ``AfterCount(1)``, whenever
    something has come, is what it seems to be.

    Args:
        count: number of partial tallies, at least 1.

    Raises:
        ParameterError: not such a number.

    >>> from apache_beam.transforms.trigger import AfterWatermark
    >>> AfterWatermark(early=AfterTallies(2))
    AfterWatermark(early=AfterTallies(2))
    """

    def __init__(self, count: int) -> None:
        super().__init__(check_integer("count", count, 1))  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return f"AfterTallies({self.count})"

    __hash__ = AfterCount.__hash__


def check_trigger(trigger: TriggerFn, lateness: float) -> None:
    """Raise if a trigger means to count records, or drops those that come late within the allowed lateness."""
    if lateness and has_one_end(trigger):
        raise ParameterError(
            "with allowed_lateness a trigger AfterWatermark(...) needs late=, or records that come late are dropped, "
            "and not counted: add late=AfterCount(1), with each late batch, or late=AfterProcessingTime(60)"
        )
    for part in _parts(trigger):
        if isinstance(part, AfterCount) and not isinstance(part, AfterTallies) and int(part.count) > 1:
            raise ParameterError(
                f"the trigger's AfterCount({part.count}) would not count records but partial tallies: a batch, "
                "or up to 4096 single records, is one, and with fewer there would be no row at all. For rows before a "
                "window ends take AfterWatermark(early=AfterProcessingTime(60), late=AfterCount(1)); if partial "
                f"tallies are meant, ldp_beam.AfterTallies({part.count})"
            )


def check_windowing(pcoll: PCollection[Any]) -> None:
    """Raise if a stream has no windows, or a trigger that is not right for counting; warn of panes nobody chose."""
    windowing = pcoll.windowing
    if windowing.is_default() and not (pcoll.is_bounded or pcoll.pipeline.allow_unsafe_triggers):
        raise ParameterError("a stream, also one with stop_at=, is counted in windows: pass window=, as '1h'")
    check_trigger(windowing.triggerfn, windowing.allowed_lateness.micros)
    discards = windowing.accumulation_mode == AccumulationMode.DISCARDING and not pcoll.is_bounded
    if discards and windowing.allowed_lateness.micros and isinstance(windowing.triggerfn, DefaultTrigger):
        warn_user(  # (Beam asks for the mode only beside another trigger)
            "in the windows of the input late records get panes of their own, which do not replace the pane before: "
            "add up those of a window, or give beam.WindowInto accumulation_mode=AccumulationMode.ACCUMULATING"
        )


def has_one_end(trigger: TriggerFn) -> bool:
    """Whether no pane comes after the one at the window's end."""
    return isinstance(trigger, AfterWatermark) and trigger.late is None


def reads_clock(trigger: TriggerFn) -> bool:
    """Whether a trigger waits for so many seconds."""
    return any(isinstance(part, AfterProcessingTime) for part in _parts(trigger))


def _parts(trigger: Any) -> Iterator[Any]:
    """A trigger and those that it is made of."""
    yield trigger
    for value in vars(trigger).values():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, TriggerFn):
                yield from _parts(part)
