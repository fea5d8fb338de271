"""Event-time windows, assigned to a whole batch at once.

A batch holds records of many windows, and Beam assigns windows one element at a time. So a batch is
cut into *slots*: stretches of event time that lie wholly in the same windows. One partial tally a slot,
timestamped inside it, is put by Beam's own WindowFn into the very windows its records belong to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple, TypeAlias

import numpy as np
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp

from ldp_core import ParameterError
from ldp_core.engine import I64, Window, count_numbers, kernels, warn_user

WindowLike: TypeAlias = WindowFn | float | str | timedelta | None
"""A Beam WindowFn; or fixed windows by their length: seconds, text like ``"15m"`` (`Window`), a timedelta; or None."""

MOST_WINDOWS = 20_000
"""Sliding windows that a record may be in, and windows to fill: two weeks of minutes, or two years of hours.

Beam's local runner looks at all windows of a key whenever one closes: these take minutes, and ten times as many hours.
"""
_SLOTTED = (FixedWindows, SlidingWindows, Sessions, GlobalWindows)


def window_fn(window: WindowLike) -> WindowFn | None:
    """The WindowFn that ``window`` stands for."""
    if window is None:
        return None
    if not isinstance(window, WindowFn):
        fixed = Window.of(window)
        if fixed.months:
            raise ParameterError(f"Beam has no windows of months, got {window!r}: take days or weeks")
        window = FixedWindows(Duration(micros=fixed.micros), Timestamp(micros=fixed.offset))
    if type(window) not in _SLOTTED:
        raise ParameterError(
            f"window must be fixed, sliding, session or global windows, or a length; got {type(window).__name__}. "
            "For other windows apply beam.WindowInto first and leave out window="
        )
    lengths = [getattr(window, name).micros for name in ("size", "period", "gap_size") if hasattr(window, name)]
    if any(length <= 0 or length % 1000 for length in lengths):
        raise ParameterError("window lengths must be whole numbers of milliseconds, greater than 0")
    if isinstance(window, SlidingWindows) and window.size.micros > MOST_WINDOWS * window.period.micros:
        raise ParameterError(
            f"a record would be in {window.size.micros // window.period.micros:,} sliding windows, more than "
            f"{MOST_WINDOWS:,}: take a longer period, or a smaller size"
        )
    if isinstance(window, SlidingWindows) and window.size < window.period:
        warn_user("the records between these sliding windows count in none: a size of at least the period has them all")
    return window


def step_of(windows: FixedWindows | SlidingWindows) -> Duration:
    """The time from the beginning of a window to that of the next one."""
    return windows.size if isinstance(windows, FixedWindows) else windows.period


class Slots(NamedTuple):
    """The slots of a batch's records."""

    number: I64  # int64[n]: the slot of each record; numbers in time order, not necessarily without holes
    timestamp: Callable[[I64], I64]
    """From slots to a time in each, in microseconds, that is in the same windows as the slot's records."""
    empty: I64  # int64[k, 2]: rows of (time, key) at which a tally of no records is needed to get the windows right


_NO_TALLIES = np.empty((0, 2), np.int64)
_ONE_GROUP = np.empty(0, np.int64)


def slots(windows: WindowFn, micros: I64, keys: I64) -> Slots:
    """Put records at event times, in microseconds, into slots: those of one key and slot are in the same windows."""
    if isinstance(windows, GlobalWindows):
        return Slots(np.zeros_like(micros), lambda index: index, _NO_TALLIES)
    if isinstance(windows, Sessions):
        return _session_anchors(windows.gap_size.micros, micros, keys)
    assert isinstance(windows, (FixedWindows, SlidingWindows))  # noqa: S101 (of `window_fn`)
    size, offset = windows.size.micros, windows.offset.micros
    if isinstance(windows, SlidingWindows):
        # windows begin at offset + i * period and end at offset + i * period + size: on multiples of the gcd
        size = math.gcd(size, windows.period.micros)
        offset %= size
    if len(micros):
        first, number = offset + (int(micros.min()) - offset) // size * size, np.empty_like(micros)
        near = first > -_EARLIEST and int(micros.max()) - first < _EXACT
        if near and kernels.fixed_slots(micros, first, size, number):
            return Slots(number, lambda index: index * size + first, _NO_TALLIES)
    return Slots((micros - offset) // size, lambda index: index * size + offset, _NO_TALLIES)


_EXACT = 1 << 52  # microseconds (142 years): the kernel counts those below
_EARLIEST = 1 << 62  # microseconds before the epoch: a window that begins there has a beginning of 64 bits


def _session_anchors(gap: int, micros: I64, keys: I64) -> Slots:
    """First events of all non-empty buckets of half a gap as slots; last events as empty partials.

    Two events of one bucket are less than a gap apart, hence in one session. So the first and last
    events of the buckets chain up to the same sessions as all events do: the last of one bucket and
    the first of the next are neighbors among all events, and a session begins and ends with one of them.
    """
    order = np.lexsort((micros, keys))
    times, groups = micros[order], keys[order]
    bucket = times // max(gap // 2, 1)
    change = np.flatnonzero((bucket[1:] != bucket[:-1]) | (groups[1:] != groups[:-1])) + 1
    starts = np.concatenate((np.zeros(min(len(times), 1), np.int64), change))
    lengths = np.diff(np.append(starts, len(times)))
    first, last = times[starts], times[starts + lengths - 1]
    index = np.empty_like(micros)
    index[order] = np.repeat(np.arange(len(starts)), lengths)
    wide = last > first
    return Slots(index, lambda number: first[number], np.stack((last[wide], groups[starts][wide]), axis=1))


class Groups(NamedTuple):
    """The (slot, key) pairs of a batch."""

    of_record: I64  # int64[n]: the number of each record's pair
    slot: I64  # int64[g]: the slot of each pair
    key: I64  # int64[g]: the key of each pair
    size: I64  # int64[g]: the number of records of each pair, at least 1


def group(index: I64, keys: I64, n_keys: int) -> Groups:
    """Number the (slot, key) pairs that occur in at least one record: 0 to g - 1."""
    if not len(index):
        return Groups(index, index, index, index)
    low = int(index.min())
    span = int(index.max()) - low + 1
    if span == n_keys == 1:
        return Groups(np.zeros_like(index), index[:1], np.zeros(1, np.int64), np.full(1, len(index)))
    room = 4 * len(index) + 1024  # up to this many cells a table is faster than sorting
    if span * n_keys <= room:
        slot_of = low + np.arange(span)
        number = index - low if low else index
    else:
        slot_of, number = np.unique(index, return_inverse=True)
    cells = len(slot_of) * n_keys
    if n_keys > 1:
        number = number * n_keys + keys
    if cells > room:
        occupied, number, size = np.unique(number, return_inverse=True, return_counts=True)
    else:
        size = count_numbers(number, _ONE_GROUP, 1, cells)[0]
        occupied = np.flatnonzero(size)
        if len(occupied) < cells:
            number = (np.cumsum(size > 0) - 1)[number]
            size = size[occupied]
    return Groups(number, slot_of[occupied // n_keys], occupied % n_keys, size)
