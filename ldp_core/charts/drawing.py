"""Drawings of estimates: rows of numbers in, Altair charts out. The numbers of a chart are those of the estimate."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ldp_core.charts.themes import Chart, Theme, altair, themed
from ldp_core.errors import ParameterError
from ldp_core.tables import RECORDS, SHARE, View, about_whom, drawn_text_of, in_percent, visible

_OWN = (("mean",), ("value", "count"), ("left", "right", "share"))
"""What a chart calls labels and estimate, by the number of labels."""

Row: TypeAlias = Mapping[str, Any]
"""One row of an estimate: the names that charts use to values."""


class _Said(NamedTuple):
    """What is said around a picture: its title, and the name of the column, for its axis."""

    name: str
    title: str
    n: int | None = None
    confidence: float | None = None
    population: str | int | None = None

    def above(self, *notes: str) -> Any:
        """The title, with what the numbers are about and notes below it."""
        parts = [] if self.n is None else [f"{self.n:,} reports"]
        if self.confidence is not None:
            parts.append(f"{in_percent(self.confidence)} % intervals{about_whom(self.population)}")
        return heading(self.title, [", ".join(parts), *notes])


WIDTH = 420
HALF_WIDTH = 200
"""Of pictures side by side."""
_STEP = 24  # pixels a value
_PERCENT: dict[str, Any] = {"format": "~%"}
_NUMBER: dict[str, Any] = {"labelExpr": "format(datum.value, abs(datum.value) < 1000 ? '~g' : '~s')"}
# (as a format, ~s writes 0k beside 5k, and -500m for -0.5)


def row_of(record: Mapping[str, Any], view: View) -> dict[str, Any]:
    """The fields that an estimate's record has, under the names that charts use."""
    labels = view.labels
    if view.rate:
        record, labels = {**record, "value": ", ".join(drawn_text_of(record[label]) for label in labels)}, ("value",)
    own = dict(zip(_OWN[len(labels)], (*labels, view.estimate), strict=True))
    own |= {name: name for name in ("low", "high", "n", "window_start", "window_end")}
    return {ours: record[theirs] for ours, theirs in own.items() if theirs in record}


def draw(
    records: Sequence[Mapping[str, Any]],
    view: View,
    *,
    n: int | None = None,
    confidence: float | None = None,
    population: str | int | None = None,
    truth: Mapping[Any, float] | float | None = None,
    shares: bool = False,
    top: int = 20,
    least: float | None = None,
    name: str = "",
    title: str = "",
    width: int = WIDTH,
    theme: Theme | None = "light",
) -> Chart:
    """Rows of an answer as its view says: bars of values, areas of buckets, points of single numbers.

    ``least`` is an estimate to mark: what is below it is taken for noise. ``name`` is the column's, for its axis. For
    the others see `Result.plot`; raise `ParameterError` for an option that rows of this kind do not have.
    """
    rows = [row_of(record, view) for record in records]
    said = _Said(visible(name or title), title, n, confidence, population)
    if shares and not view.counts:
        raise ParameterError("shares=True is for counts of records: these estimates are none")
    if truth is not None and (view.curve or (len(view.labels) == 2 and not view.rate)):
        what = "a curve" if view.curve else "buckets"
        raise ParameterError(f"truth= is for values and for single numbers: a picture of {what} has none")
    if view.curve:
        return themed(_curve(rows, said, width), theme)
    if len(view.labels) == 1 and not (view.counts or view.shares):  # numbers, of which bars from 0 would say nothing
        of_label = [{"group": drawn_text_of(row["value"]), "mean": row["count"], "n": n, **row} for row in rows]
        return themed(draw_means(of_label, truth=truth, unit=view.unit, **said._asdict()), theme)
    if len(view.labels) == 1 or view.rate:
        if truth is not None and not isinstance(truth, Mapping):
            raise ParameterError("truth= of several values is a mapping from value to true number")
        if shares and not n:
            raise ParameterError("shares need the number of reports, and it is not known, or 0")
        unit, scale = (SHARE, 1 / n) if shares and n else (view.unit, 1.0)
        if len(view.labels) == 2:
            known = _known(truth, rows)
            return themed(_heat_map(records, [_entry(row, scale, known) for row in rows], view, said), theme)
        bars: dict[str, Any] = {"truth": truth, "top": top, "ranked": view.ranked, "least": least}
        bars |= {"unit": unit, "scale": scale}
        return themed(_bars(rows, said, width=width, **bars), theme)
    if view.labels:
        return themed(_areas(rows, said, width), theme)
    rows = [{"group": "", "n": n, **row} for row in rows]
    return themed(draw_means(rows, truth=truth, unit=view.unit, **said._replace(n=None)._asdict()), theme)


def _bars(
    rows: Sequence[Row],
    said: _Said,
    *,
    truth: Mapping[Any, float] | None,
    unit: str,
    scale: float,
    top: int,
    ranked: bool,
    least: float | None,
    width: int,
) -> Chart:
    """Bars of counts, or shares, with their intervals; ``rows`` have value, count, low, high."""
    alt = altair()
    check_top(top)
    known = _known(truth, rows, some=ranked)
    shown = [_entry(row, scale, known) for row in rows]
    if ranked or len(shown) > top:
        shown.sort(key=lambda row: -(row["count"] if row["count"] is not None else -math.inf))
    hidden, shown = len(shown) - top, shown[:top]
    held = [row["holds"] for row in shown if row.get("holds") is not None]
    notes = [*_endless(shown, "count")]
    if held:
        notes.append(f"{sum(held)} of {len(held)} intervals hold the truth (diamonds)")
    if hidden > 0:
        notes.append(f"the {top} largest of {top + hidden:,} values{'' if held else ', often too high'}")
    base = alt.Chart(alt.InlineData(values=shown)).encode(
        y=alt.Y("value:N", sort=[row["value"] for row in shown], title=None if said.name in said.title else said.name)
    )
    axis = alt.Axis(tickCount=6, **(_NUMBER if unit == RECORDS else _PERCENT))
    tooltip = [alt.Tooltip(f"{name}:{'N' if name == 'value' else 'Q'}") for name in (shown[0] if shown else [])]
    bars = base.mark_bar(height={"band": 0.72}).encode(x=alt.X("count:Q", title=unit, axis=axis), tooltip=tooltip)
    layers = [bars, *_intervals(base, held=bool(held))]
    if known is not None:
        layers.append(base.mark_point(shape="diamond", filled=True, style="truth").encode(x="truth:Q"))
    if least is not None and shown:
        mark = alt.Chart(alt.InlineData(values=[{"least": least * scale}]))
        layers.append(mark.mark_rule(style="zero", strokeDash=[4, 3]).encode(x="least:Q"))
        notes.append("dashed: below it is noise")
    return alt.layer(*layers).properties(width=width, height=alt.Step(_STEP), title=said.above(*notes))


def _heat_map(records: Sequence[Row], counts: Sequence[Row], view: View, said: _Said) -> Chart:
    """Rates of pairs of values, one column's below each other, the other's beside, with all intervals to point at."""
    alt = altair()
    first, second = view.labels
    said = said._replace(title=said.title or f"{first} and {second}")
    shown = []
    for record, count in zip(records, counts, strict=True):
        rate, low, high = (finite(record[f"{view.rate}{end}"]) for end in ("", "_low", "_high"))
        half = None if low is None or high is None else (high - low) / 2
        written = "?" if rate is None or half is None else f"{rate:.1%}\n±{100 * half:.1f}"
        cell = {"first": drawn_text_of(record[first]), "second": drawn_text_of(record[second]), "text": written}
        shown.append({**cell, "rate": rate, "rate_low": low, "rate_high": high, **count})
    unknown = [cell["text"] == "?" for cell in shown]
    most = min(max([0.01, *(cell["rate"] for cell in shown if cell["text"] != "?")]), 1.0)
    names = [alt.Tooltip("first:N", title=first), alt.Tooltip("second:N", title=second)]
    numbers = [
        f"{end}:Q" for end in ("rate", "rate_low", "rate_high", *_ENDS, *(("truth",) if "truth" in counts[0] else ()))
    ]
    base = alt.Chart(alt.InlineData(values=shown)).encode(
        x=alt.X("second:N", sort=None, title=second, axis=alt.Axis(labelAngle=0, orient="top", ticks=False)),
        y=alt.Y("first:N", sort=None, title=first),
        tooltip=[*names, *numbers],
    )
    color = alt.Color(
        "rate:Q", scale=alt.Scale(domain=[0, most], clamp=True), legend=alt.Legend(format="~%", gradientLength=140)
    )
    cells = base.transform_filter("datum.text !== '?'").mark_rect().encode(color=color)
    strong = f"datum.text !== '?' && datum.rate > {most / 2}"
    faint, on = (
        base.transform_filter(f"{sign}({strong})").mark_text(style=style, lineBreak="\n", dy=-6).encode(text="text:N")
        for sign, style in (("!", "on-faint"), ("", "on-strong"))
    )
    notes = [f"of those with each {first}, the share with each value of {second}, and half of its interval"]
    layers, held = [cells, faint, on], [cell["holds"] for cell in shown if cell.get("holds") is not None]
    if held:
        layers.append(base.transform_filter("datum.holds === false").mark_rect(style="miss", filled=False))
        notes.append(f"{sum(held)} of {len(held)} intervals of counts hold the truth")
    if any(unknown):
        notes.append("?: nobody knows, too few have the value")
    size = {"width": alt.Step(_CELL), "height": alt.Step(38)}
    return alt.layer(*layers).properties(**size, title=said.above(*notes))


_CELL = 64  # pixels a value of the second column


def _known(truth: Mapping[Any, float] | None, rows: Sequence[Row], *, some: bool = False) -> dict[str, float] | None:
    """The true numbers by the names of values; ``some``: the rows may lack values that there are."""
    known = None if truth is None else {drawn_text_of(value): float(count) for value, count in truth.items()}
    _check_names([] if some else known or [], [drawn_text_of(row["value"]) for row in rows])
    if known and max(known.values()) <= 1 and any(count % 1 for count in known.values()):
        raise ParameterError("truth= are counts, also where shares are drawn, and these are shares: multiply them by n")
    return known


def _check_names(named: Iterable[Any], there: Sequence[str]) -> None:
    known = set(there)
    if unknown := [name for name in named if name not in known]:
        more = ", ..." if len(there) > _NAMED else ""
        raise ParameterError(f"truth= has {unknown[:_NAMED]}, and there are {', '.join(there[:_NAMED])}{more}")


_NAMED = 20  # in an error


def _entry(row: Row, scale: float, known: Mapping[str, float] | None) -> dict[str, Any]:
    value, count, low, high = drawn_text_of(row["value"]), *(finite(row[name]) for name in ("count", "low", "high"))
    entry: dict[str, Any] = {"value": value}
    entry |= {name: None if x is None else x * scale for name, x in zip(_ENDS, (count, low, high), strict=True)}
    if known is not None:
        true = known.get(value)
        entry["truth"] = None if true is None else true * scale
        entry["holds"] = None if true is None or low is None or high is None else bool(low <= true <= high)
    return entry


_ENDS = ("count", "low", "high")


def _endless(shown: Sequence[Row], estimate: str) -> list[str]:
    """The note that intervals without ends have no lines."""
    endless = any(row[estimate] is not None and None in (row["low"], row["high"]) for row in shown)
    return ["no line: the interval has no end"] * endless


def _intervals(base: Chart, *, held: bool) -> list[Chart]:
    """Lines from low to high with ends; those that do not hold the truth in another color."""
    parts = [(base.transform_filter("datum.holds !== false"), "interval")] if held else [(base, "interval")]
    if held:
        parts.append((base.transform_filter("datum.holds === false"), "miss"))
    made = []
    for part, style in parts:
        made.append(part.mark_rule(style=style).encode(x="low:Q", x2="high:Q"))
        tick = part.mark_tick(style=style, orient="vertical", size=9, thickness=2)
        made += [tick.encode(x=f"{end}:Q") for end in ("low", "high")]
    return made


def draw_means(
    rows: Sequence[Row],
    *,
    confidence: float | None,
    truth: Mapping[str, float] | float | None,
    unit: str,
    name: str,
    title: str,
    population: str | int | None = None,
    n: int | None = None,
) -> Chart:
    """Single numbers with their intervals, one per line, without colors of a theme.

    Rows have group (a name, perhaps empty), mean, low, high, n. ``truth`` is the true number, of several groups by
    group; ``n`` by default the sum of those of the rows.
    """
    alt = altair()
    each = truth if isinstance(truth, Mapping) else {row["group"]: truth for row in rows if truth is not None}
    known = {drawn_text_of(group): number for group, number in each.items()}
    _check_names(known, [row["group"] for row in rows])
    shown = []
    for row in rows:
        entry = {"group": row["group"], **{name: finite(row[name]) for name in ("mean", "low", "high")}, "n": row["n"]}
        if known:
            true = known.get(row["group"])
            inside = None not in (true, entry["low"], entry["high"]) and entry["low"] <= true <= entry["high"]
            entry |= {"truth": true, "holds": None if true is None else inside}
        shown.append(entry)
    groups = [row["group"] for row in shown]
    base = alt.Chart(alt.InlineData(values=shown)).encode(
        y=alt.Y("group:N", sort=groups, title=None, axis=alt.Axis(labels=len(groups) > 1, grid=False))
    )
    axis = alt.Axis(tickCount=6)
    x = alt.X("mean:Q", title=of_column(unit, name), scale=alt.Scale(zero=False), axis=axis)
    points = base.mark_point(filled=True, size=80).encode(
        x=x, tooltip=[alt.Tooltip(f"{k}:Q") for k in ("mean", "low", "high", "n")]
    )
    layers = [*_intervals(base, held=bool(known)), points]
    n = n if n is not None or any(row["n"] is None for row in rows) else sum(int(row["n"]) for row in rows)
    notes = [*_endless(shown, "mean")]
    said = _Said(name, title, n, confidence, population)
    if known:
        layers.append(base.mark_point(shape="diamond", filled=True, style="truth").encode(x="truth:Q"))
        notes.append("diamonds: the truth")
    return alt.layer(*layers).properties(width=WIDTH, height=alt.Step(_STEP + 8), title=said.above(*notes))


def _curve(rows: Sequence[Row], said: _Said, width: int) -> Chart:
    """Cumulative shares as a line of steps, with a band; ``rows`` have value, count (the share), low, high."""
    alt = altair()
    numbers = all(isinstance(row["value"], (int, float)) and not isinstance(row["value"], bool) for row in rows)
    dates = all(isinstance(row["value"], dt.date) for row in rows)
    named = instant if dates else drawn_text_of
    shown = [
        {"value": row["value"] if numbers else named(row["value"]), **{end: finite(row[end]) for end in _ENDS}}
        for row in rows
    ]
    kind, scale = ("Q", {"scale": alt.Scale(zero=False, nice=False)}) if numbers else ("N", {"sort": None})
    if dates:
        kind, scale = "T", {"scale": alt.Scale(type="utc", nice=False)}
    x = alt.X(
        f"value:{kind}", title=said.name or ("number" if numbers else "value"), axis=alt.Axis(grid=False), **scale
    )
    base = alt.Chart(alt.InlineData(values=shown)).encode(x=x)
    y = alt.Y("count:Q", title="share up to here", axis=alt.Axis(tickCount=6, **_PERCENT))
    step = {"interpolate": "step-after"} if numbers or dates else {}
    at = _tooltip_of_times("value", [str(row["value"]) for row in shown]) if dates else alt.Tooltip(f"value:{kind}")
    tooltip = [at, *(alt.Tooltip(f"{end}:Q") for end in _ENDS)]
    band = base.mark_area(opacity=0.22, line=False, **step).encode(y=alt.Y("low:Q"), y2="high:Q")
    line = base.mark_line(**step).encode(y=y, tooltip=tooltip)
    return alt.layer(band, line).properties(width=width, height=240, title=said.above())


def _areas(rows: Sequence[Row], said: _Said, width: int) -> Chart:
    """Buckets with their shares and intervals; ``rows`` have left, right, share, low, high.

    Where buckets have different widths, the height is the share divided by the width, so that the area is the share.
    """
    alt = altair()
    widths = [row["right"] - row["left"] for row in rows]
    uneven = bool(widths) and max(widths) > min(widths) * (1 + 1e-9)
    shown = []
    for row, wide in zip(rows, widths, strict=True):
        unit = wide if uneven else 1.0
        ends = {name: None if (x := finite(row[name])) is None else x / unit for name in ("share", "low", "high")}
        shown.append({"left": row["left"], "right": row["right"], "center": (row["left"] + row["right"]) / 2, **ends})
    base = alt.Chart(alt.InlineData(values=shown))
    y = alt.Y("share:Q", title=of_column("share, for each unit", said.name) if uneven else SHARE)
    y = y.axis(alt.Axis(format="~g" if uneven else "~%", tickCount=6))
    tooltip = [alt.Tooltip(f"{name}:Q") for name in ("left", "right", "share", "low", "high")]
    edge = {"domain": [rows[0]["left"], rows[-1]["right"]], "nice": False} if rows else {}
    bars = base.mark_rect(strokeWidth=0, xOffset=0.5, x2Offset=-0.5).encode(
        x=alt.X("left:Q", title=said.name or "number", scale=alt.Scale(**edge), axis=alt.Axis(grid=False)),
        x2="right:Q",
        y=y,
        y2=alt.datum(0),
        tooltip=tooltip,
    )
    spread = base.encode(x="center:Q")
    size = max(min(9, round(0.5 * width / max(len(rows), 1))), 2)
    layers = [bars, spread.mark_rule(style="interval", strokeWidth=1.5).encode(y="low:Q", y2="high:Q")]
    if size > 3:
        layers += [
            spread.mark_tick(style="interval", orient="horizontal", size=size, thickness=1.5).encode(y=f"{end}:Q")
            for end in ("low", "high")
        ]
    return alt.layer(*layers).properties(width=width, height=240, title=said.above())


def draw_windows(
    rows: Sequence[Row],
    *,
    quantity: str,
    confidence: float | None,
    population: str | int | None,
    series: Sequence[str],
    note: str,
    title: str,
) -> Chart:
    """Lines over time with bands of their intervals, without colors of a theme; see `ldp_plots.windows`.

    Rows have window (a time), series and panel (names, perhaps empty), y (what ``quantity`` says), low, high, cut (see
    `is_cut`). ``series`` are the names in order; ``note`` says which of all these are.
    """
    alt = altair()
    shown = [
        {
            "window": instant(row["window"]),
            "series": row["series"],
            "panel": row["panel"],
            **{name: finite(row[name]) for name in ("y", "low", "high")},
            **({"cut": True} if row["cut"] else {}),
        }
        for row in rows
    ]
    named = {"domain": list(series)} if series else {}  # (given, so that colors and marks have one legend)
    told: dict[str, Any] = {"title": None, "legend": alt.Undefined if len(series) > 1 else None}
    color = alt.Color("series:N", scale=alt.Scale(**named), **told)
    shape = alt.Shape("series:N", scale=alt.Scale(range=_MARKS, **named), **told)
    panels = list(dict.fromkeys(row["panel"] for row in shown))
    starts = [row["window"] for row in shown if row["window"] is not None]
    at = ticks(starts, _TICKS if len(panels) == 1 else _TICKS // 2)
    places = [dt.datetime.fromisoformat(start).timestamp() * 1000 for start in at]
    days = {"format": "%b %d" if len({start[:4] for start in starts}) == 1 else "%Y-%m-%d"}
    dates = days if all(start.endswith("T00:00:00Z") for start in starts) else {}
    x = alt.X(
        "window:T",
        title="start of the window (UTC)",
        scale=alt.Scale(type="utc"),
        axis=alt.Axis(grid=False, labelOverlap=True, labelSeparation=8, values=places, **dates),
    )
    base = alt.Chart().encode(x=x, color=color)
    form = {SHARE: _PERCENT, RECORDS: _NUMBER}.get(quantity, {})
    known = [row[name] for row in shown for name in ("y", "low", "high") if row[name] is not None]
    far = bool(known) and min(known) > max(known) / 3  # (an axis from 0 on would hide how they differ)
    unit = f"{quantity} (axis not from 0)" if far else quantity
    scale = alt.Scale(zero=quantity in (SHARE, RECORDS) and not far)
    y = alt.Y("y:Q", title=unit, axis=alt.Axis(tickCount=6, **form), scale=scale)
    band = base.mark_area(opacity=0.22, line=False).encode(y=alt.Y("low:Q", title=unit), y2="high:Q")
    line = base.mark_line().encode(y=y)
    tooltip = [_tooltip_of_times("window", starts), "series:N", "panel:N", "y:Q", "low:Q", "high:Q"]
    points = base.mark_point(filled=True, size=40).encode(y=y, shape=shape, tooltip=tooltip)
    layers, notes = [band, line, points], []
    if any("cut" in row for row in shown):
        cut = base.mark_point(filled=False, size=60, strokeWidth=2).encode(y=y, shape=shape, tooltip=tooltip)
        layers = [band, line, points.transform_filter("!datum.cut"), cut.transform_filter("datum.cut")]
        notes.append("open points: the records fill this window only in part")
    notes += [note] if note else []
    data, head = alt.InlineData(values=shown), _Said("", title, None, confidence, population).above(*notes)
    if len(panels) > 1:
        layered = alt.layer(*layers, data=data).properties(width=WIDTH // 2, height=160)
        return layered.facet(alt.Facet("panel:N", title=None, sort=panels), columns=2).properties(title=head)
    return alt.layer(*layers, data=data).properties(width=WIDTH, height=220, title=head)


def _tooltip_of_times(name: str, times: Iterable[str]) -> Any:
    """What pointing at a time says: the time in UTC, as the axis has it, not in the zone of who looks."""
    text = "%Y-%m-%d" if all(time.endswith("T00:00:00Z") for time in times) else "%Y-%m-%d %H:%M:%S"
    unit = "utcyearmonthdatehoursminutesseconds"
    return altair().Tooltip(f"{name}:T", timeUnit=unit, format=text, title=f"{name} (UTC)")


_TICKS = 10
_MARKS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right"]


def ticks(starts: Iterable[str], most: int) -> list[str]:
    """Where the ticks of windows are: at starts, at most so many, those that begin an hour, a day, a month, a year.

    Args:
        starts: times in ISO 8601, all in UTC.
        most: how many.

    >>> weeks = [f"{dt.date(2024, 1, 4) + dt.timedelta(weeks=k)}T00:00:00Z" for k in range(20)]
    >>> [start[5:10] for start in ticks(weeks, 10)]
    ['01-04', '02-01', '03-07', '04-04', '05-02']
    >>> [start[5:10] for start in ticks(weeks[:15], 10)]
    ['01-04', '01-18', '02-01', '02-15', '02-29', '03-14', '03-28', '04-11']
    """
    found = sorted(set(starts))
    for kept in map(len, ("2024-01-04T10", "2024-01-04", "2024-01", "2024")):
        if len(found) <= most:
            break
        first = sorted({start[:kept]: start for start in reversed(found)}.values())
        if 2 * len(first) < most:
            break
        found = first
    return found[:: math.ceil(len(found) / most)] if found else []


def side_by_side(charts: Sequence[Chart], *axes: str) -> Chart:
    """Charts of groups without colors, two in a row; those of ``axes``, "x" and "y", are the same in all of them."""
    if len(charts) == 1:
        return charts[0]
    return altair().concat(*charts, columns=2, spacing=24).resolve_scale(**dict.fromkeys(axes, "shared"))


def stacked(charts: Sequence[Chart], title: str, theme: Theme | None) -> Chart:
    """Charts without colors of their own, one below the other; one alone as it is."""
    if len(charts) == 1:
        return themed(charts[0], theme)
    above = {"title": title} if title else {}
    return themed(altair().vconcat(*charts, spacing=28, **above), theme)


# ---- words and numbers


def of_column(what: str, name: str) -> str:
    """The title of an axis."""
    return f"{what} of {visible(name)}" if name else what


def finite(x: Any) -> float | None:
    """A number; None for what JSON has no number for; `ParameterError` for a word or a date, as a quantile may be."""
    if isinstance(x, (str, dt.date)):
        raise ParameterError("quantiles that are words or dates have no picture: ask for the curve, which has (cdf)")
    return float(x) if x is not None and math.isfinite(x) else None


def instant(time: Any) -> str | None:
    """A time as ISO 8601 in UTC: of a datetime or date (without a zone: UTC), or of Beam's Timestamp."""
    return None if time is None else f"{utc(time).replace(tzinfo=None).isoformat()}Z"


def utc(time: Any) -> dt.datetime:
    """A time with the zone UTC: of a datetime or date (without a zone: UTC), or of Beam's Timestamp."""
    if hasattr(time, "to_utc_datetime"):  # Beam's
        time = time.to_utc_datetime()
    if not isinstance(time, dt.datetime):
        if not isinstance(time, dt.date):
            raise ParameterError(f"the start of a window is a date or a time, got {type(time).__name__}")
        time = dt.datetime(time.year, time.month, time.day, tzinfo=dt.UTC)
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)


def is_cut(start: Any, end: Any, covered: tuple[Any, Any] | None) -> bool:
    """Whether a tenth of a window, or more, is before the first record or after the last one, the times ``covered``.

    A date of the last one means until the day's end.
    """
    if covered is None or None in (start, end, *covered):
        return False
    first, last = map(utc, covered)
    if not isinstance(covered[1], dt.datetime) and isinstance(covered[1], dt.date):
        last += dt.timedelta(days=1, microseconds=-1)  # (9999-12-31 has no next day)
    start, end = utc(start), utc(end)
    return bool(min(end, last) - max(start, first) <= _FULL * (end - start))


_FULL = 0.9


def check_top(top: int) -> None:
    """Raise `ParameterError` unless there is something to draw."""
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise ParameterError(f"top must be an integer, at least 1, got {top!r}")


def heading(title: str, notes: Iterable[str]) -> Any:
    """A title with notes below it: the first on a line of its own, as it is there nearly always."""
    first, *rest = [*filter(None, notes), ""]
    lines = [line for line in (visible(title), first, "; ".join(filter(None, rest))) if line]
    return altair().TitleParams(text=lines[0] if lines else "", **({"subtitle": lines[1:]} if lines[1:] else {}))
