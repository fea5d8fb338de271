"""Pictures of estimates: one function for each kind, whatever has made the estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ldp_core import ParameterError
from ldp_core.charts.drawing import (
    Row,
    check_top,
    draw_distribution,
    draw_histogram,
    draw_means,
    draw_windows,
    is_cut,
    stacked,
    text,
)
from ldp_core.charts.themes import Chart, Theme, themed
from ldp_plots.records import Panel, panels

_COUNTED = ("value", "count", "low", "high")


def histogram(
    data: Any,
    *,
    column: str | None = None,
    by: str | Iterable[str] = (),
    truth: Mapping[Any, float] | None = None,
    shares: bool = False,
    top: int = 20,
    title: str = "",
    theme: Theme | None = "light",
) -> Chart:
    """Bars of estimated counts with their intervals, one picture a column and group.

    Args:
        data: a `ldp_core.Histogram`; a frame or an Arrow table with a row a value, as ``df.ldp.histograms(plan)`` gives
            it, or with columns of histograms, as ``select(pl.col("os").ldp.histogram())``; or Beam's `HistogramRow` s.
        column: only this one, of several.
        by: columns of the frame, or names in Beam's ``key``, that tell groups apart: one picture each.
        truth: value to true count, if it is known; intervals that do not hold it are drawn in another colour.
        shares: shares of the n records in place of counts.
        top: draw at most so many values; if there are more, those of the largest counts.
        title: what is shown above, with the group; default: the column.
        theme: ``"light"``, ``"dark"``, or None for a chart without colours of its own, see `themed`.

    Returns:
        An Altair chart, whose data are the numbers of the estimate.

    Raises:
        ParameterError: no histogram; several rows for one value, which ``by`` or `windows` would tell apart.
        MissingExtraError: Altair is not installed.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ios", "android"], epsilon=2.0)
    >>> chart = histogram(m.estimate(m.simulate([700, 300], seed=1)), truth={"ios": 700, "android": 300})
    >>> chart.to_dict()["title"]["subtitle"]
    ['2 of 2 intervals hold the truth (diamonds)']
    """

    def draw(panel: Panel) -> Chart:
        values = [text(row["value"]) for row in panel.rows]
        if len(set(values)) < len(values):
            raise ParameterError(
                "there are several rows for one value: by= names the columns that tell them apart, column= one of "
                "several columns, and windows() draws them over time"
            )
        return draw_histogram(
            panel.rows,
            n=panel.one("n"),
            confidence=panel.one("confidence"),
            truth=truth,
            shares=shares,
            top=top,
            title=panel.titled(title),
            theme=None,
        )

    found = panels(data, needs=_COUNTED, column=column, by=by, called="histogram")
    return _together(found, draw, theme)


def heavy_hitters(
    data: Any,
    *,
    column: str | None = None,
    by: str | Iterable[str] = (),
    truth: Mapping[Any, float] | None = None,
    shares: bool = False,
    top: int = 20,
    title: str = "",
    theme: Theme | None = "light",
) -> Chart:
    """Bars of the most frequent values with their intervals, the most frequent first.

    Args:
        data: what `ldp_core.HeavyHitters.find` gives; a frame or an Arrow table of such values, as
            ``pl.col("word").ldp.heavy_hitters()`` gives them; or Beam's rows.
        column, by, truth, shares, top, title, theme: see `histogram`.

    Raises:
        ParameterError: see `histogram`; or nothing was found.
        MissingExtraError: Altair is not installed.

    >>> chart = heavy_hitters([{"value": "oslo", "count": 9.0, "low": 5.0, "high": 13.0, "n": 100}])
    >>> [row["value"] for row in next(iter(chart.to_dict()["datasets"].values()))]
    ['oslo']
    """

    def draw(panel: Panel) -> Chart:
        return draw_histogram(
            panel.rows,
            n=panel.one("n"),
            confidence=panel.one("confidence"),
            truth=truth,
            shares=shares,
            top=top,
            ranked=True,
            least=getattr(data, "threshold", None),
            title=panel.titled(title),
            theme=None,
        )

    found = panels(data, needs=_COUNTED, column=column, by=by, called="table of heavy hitters")
    return _together(found, draw, theme)


def mean(
    data: Any,
    *,
    column: str | None = None,
    by: str | Iterable[str] = (),
    truth: Mapping[str, float] | float | None = None,
    title: str = "",
    theme: Theme | None = "light",
) -> Chart:
    """Means with their intervals: a point each, groups one below the other.

    Args:
        data: a `ldp_core.Mean`; a frame or an Arrow table with a row a mean, or with a column of them, as
            ``pl.col("age").ldp.mean()``; or Beam's `MeanRow` s.
        column: only this one, of several.
        by: columns that tell groups apart.
        truth: the true mean, if it is known; of groups, by the group's name.
        title, theme: see `histogram`.

    Raises:
        ParameterError: no mean; several rows for one group.
        MissingExtraError: Altair is not installed.

    >>> from ldp_core import Mean
    >>> chart = mean(Mean(21.5, 0.4, 20.716, 22.284, 10_000, 0.95), truth=21.0)
    >>> next(iter(chart.to_dict()["datasets"].values()))[0]["holds"]
    True
    """
    grouped = panels(data, needs=("mean", "low", "high", "n"), column=column, by=by, called="mean")
    made: dict[str, list[Row]] = {}
    for panel in grouped:
        if len(panel.rows) > 1:
            raise ParameterError("there are several means for one group: by= tells them apart, or windows() draws them")
        name = ", ".join(value for _, value in panel.group)
        made.setdefault(panel.column, []).append({**panel.rows[0], "group": name})
    whole = [Panel(name, (), rows) for name, rows in made.items()]

    def draw(panel: Panel) -> Chart:
        confidence = panel.one("confidence")
        return draw_means(panel.rows, confidence=confidence, truth=truth, title=panel.titled(title), theme=None)

    return _together(whole, draw, theme)


def distribution(
    data: Any,
    *,
    column: str | None = None,
    by: str | Iterable[str] = (),
    title: str = "",
    theme: Theme | None = "light",
) -> Chart:
    """The shares of numbers in buckets, with their intervals.

    Where buckets have different widths, the height is the share divided by the width, so that the area is the share.

    Args:
        data: a `ldp_core.Distribution`; a frame or an Arrow table with a row a bucket, or with a column of
            distributions, as ``pl.col("age").ldp.distribution()``; or Beam's `DistributionRow` s.
        column, by, title, theme: see `histogram`.

    Raises:
        ParameterError: no distribution; several rows for one bucket.
        MissingExtraError: Altair is not installed.

    >>> from ldp_core import SquareWave
    >>> m = SquareWave((0, 100), epsilon=2.0, buckets=200)
    >>> chart = distribution(m.distribution(m.tally(m.perturb([20.0, 30.0, 40.0] * 1000)), buckets=10))
    >>> len(next(iter(chart.to_dict()["datasets"].values())))
    10
    """

    def draw(panel: Panel) -> Chart:
        if len({row["left"] for row in panel.rows}) < len(panel.rows):
            raise ParameterError("there are several rows for one bucket: by= names the columns that tell them apart")
        n, confidence = panel.one("n"), panel.one("confidence")
        return draw_distribution(panel.rows, n=n, confidence=confidence, title=panel.titled(title), theme=None)

    found = panels(data, needs=("left", "right", "share", "low", "high"), column=column, by=by, called="distribution")
    return _together(found, draw, theme)


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
    """Estimates over time: a line a value, or one of means, with a band of the intervals.

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
        title, theme: see `histogram`.

    Raises:
        ParameterError: no windows; several columns; or several rows for one value, window and group.
        MissingExtraError: Altair is not installed.

    >>> import datetime as dt
    >>> rows = [{"window_start": dt.date(2024, 1, day), "value": "ios", "count": 9.0 * day, "low": 5.0, "high": 20.0}
    ...         for day in (1, 2)]
    >>> [row["y"] for row in next(iter(windows(rows).to_dict()["datasets"].values()))]
    [9.0, 18.0]
    """
    found = panels(data, needs=("window", "low", "high"), column=column, by=by, called="table of windows")
    named = list(dict.fromkeys(panel.column for panel in found))
    if len(named) > 1:
        raise ParameterError(f"there are several columns: say which, column= one of {named}")
    check_top(top)
    means = "mean" in found[0].rows[0]
    quantity = "mean" if means else "share of the records" if shares else "records"
    flat = [(panel, row) for panel in found for row in panel.rows]
    names = [] if means else _largest(row for _, row in flat)
    wanted = names[:top] if values is None else [text(value) for value in values]
    unknown = sorted(set(wanted) - set(names)) if not means else []
    if unknown:
        raise ParameterError(f"values names {len(unknown)} that the estimates do not have")
    rows: list[Row] = []
    for panel, row in flat:
        name = "mean" if means else text(row.get("value"))
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


def _together(found: Sequence[Panel], draw: Callable[[Panel], Chart], theme: Theme | None) -> Chart:
    chart = stacked([draw(panel) for panel in found], "", theme)
    groups_of_one = len(found) > 1 and len({panel.column for panel in found}) == 1
    return chart.resolve_scale(x="shared") if groups_of_one else chart  # bars of groups are compared by eye
