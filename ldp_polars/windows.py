"""Windows of times: when each begins and ends, also in the night of a clock change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from ldp_core import ParameterError
from ldp_core.engine import Window, type_words
from ldp_polars._compat import at_plan_time
from ldp_polars.columns import as_expr, unnamed

WINDOW_START, WINDOW_END = "window_start", "window_end"


def window_start(time: pl.Expr | str, window: str | timedelta) -> pl.Expr:
    """The start of the window of each time.

    Args:
        time: a Datetime or Date column (or its name). Windows of whole days and of months are those of its time zone,
            whose days have 23 or 25 hours when the clock changes. Others, as of 12 hours, are all of one length and
            begin at multiples of it in UTC, whatever the time zone, as Beam's do. (`polars.DataFrame.group_by_dynamic`
            begins the first of these by the clock of the zone, and so many hours later each of the others.)
        window: a length of windows, see `histograms`.

    Raises:
        ParameterError: at once: no such length; when planned: another dtype, or one that is too coarse for the windows.

    >>> import datetime as dt, polars as pl
    >>> days = pl.DataFrame({"day": [dt.date(2024, 1, 7), dt.date(2024, 1, 8)]})
    >>> days.select(window_start(pl.col("day"), "1w"))["day"].to_list()
    [datetime.date(2024, 1, 1), datetime.date(2024, 1, 8)]
    """
    Window.of(window)
    return at_plan_time(as_expr(time), partial(_window_start, window=window))


def window_end(start: pl.Expr, dtype: Any, window: str | timedelta) -> pl.Expr:
    """The end of the windows that begin at these times, of this dtype: when the next one begins."""
    fixed = Window.of(window)
    return _begin(_shown(start, dtype, fixed), dtype, fixed, 1)


def _window_start(time: pl.Expr, dtype: Any, *, window: str | timedelta) -> pl.Expr:
    check_window(dtype, window, time.meta.output_name(raise_if_undetermined=False) or "")
    fixed = Window.of(window)
    if _clock(dtype, fixed) in (None, "UTC"):
        return _begin(_shown(time, dtype, fixed), dtype, fixed)
    return pl.map_batches([time], partial(_last_begun, window=fixed), return_dtype=dtype, is_elementwise=True)


def _last_begun(inputs: Sequence[pl.Series], return_dtype: object = None, *, window: Window) -> pl.Series:
    """Polars calls it back: times of a time zone -> the begin of the last window that has begun.

    It need not be the one that the clock shows, which goes back, or leaves out an hour.
    """
    times = unnamed(inputs[0])
    shown = pl.DataFrame([times.alias("t")]).select(_shown(pl.col("t"), times.dtype, window)).unique().drop_nulls()
    near = [_begin(pl.col("t"), times.dtype, window, later).alias(str(later)) for later in (-1, 0, 1)]
    begins = pl.concat(shown.select(near).get_columns()).unique().sort()
    last = np.searchsorted(begins.to_physical().to_numpy(), times.to_physical().fill_null(0).to_numpy(), "right") - 1
    return begins.gather(pl.Series(last, dtype=pl.Int64).set(times.is_null(), None)).alias(inputs[0].name)


def _clock(dtype: Any, window: Window) -> str | None:
    """The time zone by whose clock windows begin: that of the times if they are of whole days or months, or UTC."""
    zone: str | None = getattr(dtype, "time_zone", None)
    return "UTC" if zone is not None and window.micros % _DAY else zone


def _shown(time: pl.Expr, dtype: Any, window: Window) -> pl.Expr:
    """What the clock shows, at these times, as the begin of the window; but for the offset of windows."""
    clock = _clock(dtype, window)
    local = time if clock is None else time.dt.convert_time_zone(clock).dt.replace_time_zone(None)
    return (local.dt.offset_by(f"-{_in_units(window.offset)}") if window.offset else local).dt.truncate(
        _duration(window)
    )


def _begin(shown: pl.Expr, dtype: Any, window: Window, later: int = 0) -> pl.Expr:
    """When that window begins which is so many ``later`` than the one whose begin the clock shows, see `_shown`."""
    clock = _clock(dtype, window)
    at = shown.dt.offset_by(f"{'-' * (later < 0)}{_duration(window)}") if later else shown
    at = at.dt.offset_by(_in_units(window.offset)) if window.offset else at
    if clock is None:
        return at
    left_out = _on_clock(clock, at.dt.offset_by("-1d")).dt.offset_by("24h")
    return _on_clock(clock, at).fill_null(left_out).dt.convert_time_zone(dtype.time_zone)


def _on_clock(zone: str, local: pl.Expr) -> pl.Expr:
    """When a clock first shows this; null for what it leaves out."""
    return local.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")


def _duration(window: Window) -> str:
    return f"{window.months}mo" if window.months else _in_units(window.micros)


def _in_units(micros: int) -> str:
    """A length in whole days if it can be, as a Date takes no other, and as days follow the clock of a time zone."""
    return f"{micros // _DAY}d" if micros % _DAY == 0 else f"{micros}us"


_DAY = 86_400_000_000
_UNITS = {"ms": 1000, "us": 1, "ns": 1}  # microseconds of the unit of a Datetime, at least one


def check_window(dtype: Any, window: str | timedelta, event_time: str) -> None:
    """Raise `ParameterError` unless there are such windows of times of this dtype."""
    if not isinstance(dtype, (pl.Datetime, pl.Date)):
        text = 'text column.str.to_datetime() (with time_zone="UTC" if it names zones, as Z)'  # (which Polars demands)
        made = "seconds since the epoch pl.from_epoch(column)" if dtype.is_numeric() else text
        raise ParameterError(
            f"event_time must be a Datetime or Date column, {event_time!r} is {type_words(dtype)}; of {made} makes one"
        )
    unit, what = (_DAY, "days") if isinstance(dtype, pl.Date) else (_UNITS[dtype.time_unit], dtype.time_unit)
    fixed = Window.of(window)
    if fixed.micros % unit or fixed.offset % unit:
        raise ParameterError(f"{event_time!r} is {dtype}: window must be of whole {what}, got {window!r}")
