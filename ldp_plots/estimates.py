"""Pictures of estimates, of whatever kind and whoever has made them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ldp_core import ParameterError
from ldp_core.engine import CHART_FIELDS as FIELDS
from ldp_core.engine import RECORDS, SHARE, Chart, Theme, check_top, draw, draw_means, draw_windows, themed
from ldp_core.engine import ChartRow as Row
from ldp_core.engine import chart_text as text
from ldp_core.engine import is_cut_chart as is_cut
from ldp_core.engine import stacked_charts as stacked
from ldp_plots.records import Panel, panels


def estimate(
    data: Any,
    *,
    column: str | None = None,
    by: str | Iterable[str] = (),
    truth: Mapping[Any, float] | float | None = None,
    shares: bool = False,
    top: int = 20,
    ranked: bool = False,
    title: str = "",
    theme: Theme | None = "light",
) -> Chart:
    """Estimates of any kind with their intervals, one picture per column and group.

    Values have bars, buckets have areas, and single numbers, as means, have points: those of groups one below the
    other, in one picture.

    Args:
        data: a result of the core, as a `ldp_core.Histogram`; a frame or an Arrow table with a row per entry, as
            ``df.ldp.histograms(plan)`` gives it, or with columns of answers, as
            ``select(pl.col("os").ldp.histogram())``; or Beam's rows.
        column: only this one, of several.
        by: columns of the frame, or names in Beam's ``key``, that tell groups apart.
        truth: value to true count, if it is known; of single numbers the number, or that of each group by its name.
            Intervals that do not hold it are drawn in another color.
        shares: of counts: shares of the n records in their place.
        top: draw at most so many values; if there are more, those of the largest counts.
        ranked: the largest first, in any case; of a result that has ranks, as heavy hitters, it is so without this.
        title: what is shown above, with the group; default: the column.
        theme: ``"light"``, ``"dark"``, or None for a chart without colors of its own, see `themed`.

    Returns:
        An Altair chart, whose data are the numbers of the estimate.

    Raises:
        ParameterError: no estimates; several rows for one value, which ``by`` or `windows` would tell apart.
        MissingExtraError: Altair is not installed.

    >>> from ldp_core import Mean, RandomizedResponse
    >>> m = RandomizedResponse(["ios", "android"], epsilon=2.0)
    >>> chart = estimate(m.estimate(m.simulate([700, 300], seed=1)), truth={"ios": 700, "android": 300})
    >>> chart.to_dict()["title"]["subtitle"]
    ['2 of 2 intervals hold the truth (diamonds)']
    >>> chart = estimate(Mean(21.5, 0.4, 20.716, 22.284, 10_000, 0.95), truth=21.0)
    >>> next(iter(chart.to_dict()["datasets"].values()))[0]["holds"]
    True
    """
    least = getattr(data, "threshold", None)
    options: dict[str, Any] = {"shares": shares, "top": top, "least": least}

    def draw_one(panel: Panel) -> Chart:
        told = [tuple(text(record[label]) for label in panel.view.labels) for record in panel.records]
        if len(set(told)) < len(told):
            raise ParameterError(
                f"there are several rows for one {' and '.join(panel.view.labels)}: by= names the columns that tell "
                "them apart, column= one of several columns, and windows() draws them over time"
            )
        about: dict[str, Any] = {"n": panel.one("n"), "confidence": panel.one("confidence"), "truth": truth}
        view = replace(panel.view, ranked=panel.view.ranked or ranked)
        return draw(panel.records, view, title=panel.titled(title), theme=None, **about, **options)

    def draw_numbers(panels: list[Panel]) -> Chart:
        rows = []
        for panel in panels:
            if len(panel.records) > 1:
                raise ParameterError(
                    "there are several rows for one group: by= tells them apart, and windows() draws them over time"
                )
            rows.append({"n": None, **panel.rows[0], "group": ", ".join(value for _, value in panel.group)})
        first = panels[0]
        about: dict[str, Any] = {"confidence": first.one("confidence"), "unit": first.view.unit, "truth": truth}
        return draw_means(rows, title=title or first.column, theme=None, **about)

    found = panels(data, column=column, by=by)
    numbers: dict[str, list[Panel]] = {}
    for panel in found:
        if not panel.view.labels:
            numbers.setdefault(panel.column, []).append(panel)
    charts = [draw_one(panel) for panel in found if panel.view.labels] + [draw_numbers(one) for one in numbers.values()]
    groups_of_one = len(charts) > 1 and len({panel.column for panel in found}) == 1
    chart = stacked(charts, "", theme)
    return chart.resolve_scale(x="shared") if groups_of_one else chart  # bars of groups are compared by eye


def windows(
    data: Any,
    *,
    column: str | None = None,
    by: str | Iterable[str] = (),
    values: Sequence[Any] | None = None,
    top: int = 5,
    shares: bool = False,
    covered: tuple[Any, Any] | None = None,
    title: str = "",
    theme: Theme | None = "light",
) -> Chart:
    """Estimates over time: a line per value, or one of means, with a band of the intervals.

    Args:
        data: a frame or an Arrow table of histograms or means with ``window_start``, as
            ``df.ldp.histograms(plan, window="7d", event_time="time")`` and the files of the telemetry command have it;
            or rows of Beam.
        column: the one to draw; needed if there are several.
        by: columns that tell groups apart: a panel each.
        values: those to draw; default: the ``top`` ones, by the sum of their counts.
        top: how many.
        shares: shares of the n records in the window, in place of counts.
        covered: event times of the first and of the last record. Windows that these fill only in part, to nine tenths
            or less, are drawn with open points: their counts are low for that reason. It needs ``window_end``.
        title, theme: see `estimate`.

    Raises:
        ParameterError: no windows; several columns; or several rows for one value, window and group.
        MissingExtraError: Altair is not installed.

    >>> import datetime as dt
    >>> rows = [{"window_start": dt.date(2024, 1, day), "value": "ios", "count": 9.0 * day, "low": 5.0, "high": 20.0}
    ...         for day in (1, 2)]
    >>> [row["y"] for row in next(iter(windows(rows).to_dict()["datasets"].values()))]
    [9.0, 18.0]
    """
    found = panels(data, column=column, by=by)
    if FIELDS["window"] not in found[0].records[0]:
        raise ParameterError(f"there are no windows: the estimates have no column {FIELDS['window']}")
    named = list(dict.fromkeys(panel.column for panel in found))
    if len(named) > 1:
        raise ParameterError(f"there are several columns: say which, column= one of {named}")
    check_top(top)
    view = found[0].view
    means = not view.labels
    quantity = view.estimate if means else SHARE if shares else RECORDS
    flat = [(panel, row) for panel in found for row in panel.rows]
    names = [] if means else _largest(row for _, row in flat)
    wanted = names[:top] if values is None else [text(value) for value in values]
    unknown = sorted(set(wanted) - set(names)) if not means else []
    if unknown:
        raise ParameterError(f"values names {len(unknown)} that the estimates do not have")
    rows: list[Row] = []
    for panel, row in flat:
        name = quantity if means else text(row.get("value"))
        if means or name in wanted:
            place = {"window": row["window"], "series": name, "panel": ", ".join(v for _, v in panel.group)}
            cut = is_cut(row["window"], row.get("end"), covered)
            rows.append({**place, **_heights(row, means=means, shares=shares), "cut": cut})
    places = [(row["window"], row["series"], row["panel"]) for row in rows]
    if len(set(places)) < len(places):
        raise ParameterError("there are several rows for one window and value: by= names what tells them apart")
    chart = draw_windows(
        rows,
        quantity=quantity,
        confidence=found[0].one("confidence"),
        series=wanted,
        hidden=0 if means or values is not None else len(names) - len(wanted),
        title=title or named[0],
        theme=None,
    )
    return themed(chart, theme)


def _largest(rows: Iterable[Row]) -> list[str]:
    """Values by the sum of their counts, the largest first."""
    sums: dict[str, float] = {}
    for row in rows:
        if "value" not in row or "count" not in row:
            raise ParameterError("windows are drawn of histograms (value, count) or of means (mean)")
        count = row["count"]
        name = text(row["value"])
        sums[name] = sums.get(name, 0.0) + (count if count is not None and count == count else 0.0)  # noqa: PLR0124
    return sorted(sums, key=lambda name: -sums[name])


def _heights(row: Row, *, means: bool, shares: bool) -> dict[str, Any]:
    parts = {"y": row["mean" if means else "count"], "low": row["low"], "high": row["high"]}
    if means or not shares:
        return parts
    if "n" not in row:
        raise ParameterError("shares need n, the number of reports of each window, as a column")
    n = row["n"]
    return {name: x / n if n and x is not None else None for name, x in parts.items()}
