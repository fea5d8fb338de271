"""Pictures of estimates, of whatever kind and whoever has made them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ldp_core import ParameterError, Result, engine
from ldp_core.engine import ChartRow as Row
from ldp_core.engine import chart_row_of as row_of
from ldp_core.engine import is_cut_chart as is_cut
from ldp_core.engine import stacked_charts as stacked


def estimate(
    data: Any,
    *,
    column: str | None = None,
    by: str | Iterable[str] = (),
    truth: Mapping[Any, float] | float | None = None,
    shares: bool = False,
    top: int = 20,
    ranked: bool = False,
    confidence: float | None = None,
    title: str = "",
    theme: engine.Theme | None = "light",
) -> engine.Chart:
    """Estimates of any kind with their intervals, one picture per column and group.

    Values have bars and buckets have areas; those of groups are side by side, on one axis for each column. Single
    numbers, as means, have points: those of groups one below the other, in one picture.

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
        confidence: of the intervals, to be said where the data do not: results of the core, their Arrow tables and
            rows of Beam say it, frames of Polars do not.
        title: what is shown above, with the group; default: the column.
        theme: ``"light"``, ``"dark"``, or None for a chart without colors of its own, see `themed`.

    Returns:
        An Altair chart, whose data are the numbers of the estimate.

    Raises:
        ParameterError: no estimates; several rows for one value, which ``by`` or `windows` would tell apart.
        MissingExtraError: Altair is not installed.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ios", "android"], epsilon=2.0)
    >>> chart = estimate(m.estimate(m.simulate([700, 300], seed=1)), truth={"ios": 700, "android": 300})
    >>> chart.to_dict()["title"]["subtitle"]
    ['2 of 2 intervals hold the truth (diamonds)']
    """
    _check_confidence(confidence)
    least = getattr(data, "threshold", None)
    options: dict[str, Any] = {"shares": shares, "top": top, "least": least}

    def draw_one(panel: Panel, width: int) -> engine.Chart:
        labels = [tuple(engine.drawn_text_of(record[label]) for label in panel.view.labels) for record in panel.records]
        if len(set(labels)) < len(labels):
            raise ParameterError(
                f"there are several rows for one {' and '.join(panel.view.labels)}: by= names the columns that tell "
                "them apart, column= one of several columns, and windows() draws them over time"
            )
        about: dict[str, Any] = {"n": panel.one("n"), "confidence": panel.one("confidence", confidence), "truth": truth}
        about |= {
            "population": panel.one("population"),
            "name": panel.column or title,
            "title": panel.titled(title),
            "width": width,
        }
        view = replace(panel.view, ranked=panel.view.ranked or ranked)
        return engine.draw(panel.records, view, theme=None, **about, **options)

    def draw_numbers(panels: list[Panel]) -> engine.Chart:
        rows = []
        for panel in panels:
            if len(panel.records) > 1:
                raise ParameterError(
                    "there are several rows for one group: by= tells them apart, and windows() draws them over time"
                )
            rows.append({"n": None, **panel.rows[0], "group": ", ".join(value for _, value in panel.group)})
        first = panels[0]
        about: dict[str, Any] = {"confidence": first.one("confidence", confidence), "unit": first.view.unit}
        about |= {"population": first.one("population")}
        return engine.draw_means(rows, truth=truth, name=first.column or title, title=title or first.column, **about)

    of_column: dict[str, list[Panel]] = {}
    for panel in panels(data, column=column, by=by):
        of_column.setdefault(panel.column, []).append(panel)
    charts = []
    for found in of_column.values():
        view = found[0].view
        if view.labels:
            wide = engine.CHART_WIDTH if len(found) == 1 else engine.HALF_CHART_WIDTH
            # Bars have one axis, and buckets both. A map is as large as its values are many: it shares none.
            axes = ("x",) if len(view.labels) != 2 else () if view.rate else ("x", "y")
            charts.append(engine.charts_side_by_side([draw_one(panel, wide) for panel in found], *axes))
        else:
            charts.append(draw_numbers(found))
    return stacked(charts, "", theme)


def windows(
    data: Any,
    *,
    column: str | None = None,
    by: str | Iterable[str] = (),
    values: Sequence[Any] | None = None,
    top: int = 5,
    shares: bool = False,
    covered: tuple[Any, Any] | None = None,
    confidence: float | None = None,
    title: str = "",
    theme: engine.Theme | None = "light",
) -> engine.Chart:
    """Estimates over time: a line per value, or one of means, with a band of the intervals.

    Args:
        data: a frame or an Arrow table of histograms or means with ``window_start``, as
            ``df.ldp.histograms(plan, window="7d", event_time="time")`` and the files of the telemetry command have it;
            or rows of Beam.
        column: the one to draw; needed if there are several.
        by: columns that tell groups apart: a panel each.
        values: those to draw; default: the ``top`` ones, by the sum of their counts; of curves evenly spread ones.
        top: how many.
        shares: shares of the n records in the window, in place of counts.
        covered: event times of the first and of the last record. Windows that these fill only in part, to nine tenths
            or less, are drawn with open points: their counts are low for that reason. It needs ``window_end``.
        confidence, title, theme: see `estimate`.

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
    if "window_start" not in found[0].records[0]:
        raise ParameterError("there are no windows: the estimates have no column window_start")
    named = list(dict.fromkeys(panel.column for panel in found))
    if len(named) > 1:
        raise ParameterError(f"there are several columns: say which, column= one of {named}")
    engine.check_top(top)
    _check_confidence(confidence)
    view = found[0].view
    if shares and not view.counts:
        raise ParameterError("shares=True is for counts of records: these estimates are none")
    means = not view.labels
    quantity = engine.axis_of_column(view.unit, named[0]) if means else engine.SHARE if shares else view.unit
    flat = [(panel, row) for panel in found for row in panel.rows]
    names = [] if means else _largest(row for _, row in flat)
    wanted = names[:top]
    if view.curve:  # the largest are the last ones
        names = list(dict.fromkeys(engine.drawn_text_of(row["value"]) for _, row in flat))
        wanted = [names[(2 * k + 1) * len(names) // (2 * top)] for k in range(top)] if len(names) > top else names
    wanted = wanted if values is None else [engine.drawn_text_of(value) for value in values]
    unknown = sorted(set(wanted) - set(names)) if not means else []
    if unknown:
        raise ParameterError(f"values names {len(unknown)} that the estimates do not have")
    rows: list[Row] = []
    for panel, row in flat:
        name = quantity if means else engine.drawn_text_of(row.get("value"))
        if means or name in wanted:
            place = {"window": row["window_start"], "series": name, "panel": ", ".join(v for _, v in panel.group)}
            cut = is_cut(row["window_start"], row.get("window_end"), covered)
            rows.append({**place, **_heights(row, means=means, shares=shares), "cut": cut})
    places = [(row["window"], row["series"], row["panel"]) for row in rows]
    if len(set(places)) < len(places):
        raise ParameterError("there are several rows for one window and value: by= names what tells them apart")
    note = f"the {len(wanted)} largest of {len(names)} values" if values is None and len(wanted) < len(names) else ""
    chart = engine.draw_windows(
        rows,
        quantity=quantity,
        confidence=found[0].one("confidence", confidence),
        population=found[0].one("population"),
        series=wanted,
        note=f"shares up to {len(wanted)} of {len(names)} values" if view.curve else note,
        title=title or named[0],
    )
    return engine.themed(chart, theme)


def _largest(rows: Iterable[Row]) -> list[str]:
    """Values by the sum of their counts, the largest first."""
    sums: dict[str, float] = {}
    for row in rows:
        if "value" not in row or "count" not in row:
            raise ParameterError("windows are drawn of histograms (value, count) or of means (mean)")
        count = row["count"]
        name = engine.drawn_text_of(row["value"])
        sums[name] = sums.get(name, 0.0) + (count if isinstance(count, (int, float)) and count == count else 0.0)  # noqa: PLR0124
    return sorted(sums, key=lambda name: -sums[name])


def _heights(row: Row, *, means: bool, shares: bool) -> dict[str, Any]:
    parts = {"y": row["mean" if means else "count"], "low": row["low"], "high": row["high"]}
    if means or not shares:
        return parts
    if "n" not in row:
        raise ParameterError("shares need n, the number of reports of each window, as a column")
    n = row["n"]
    return {name: x / n if n and x is not None else None for name, x in parts.items()}


# ---- what can be drawn: results of the core, frames and tables of any kind, rows of Beam; all become records


@dataclass(frozen=True)
class Panel:
    """Rows that belong in one picture: of one column, which may have no name, and of one group."""

    column: str
    group: tuple[tuple[str, str], ...]  # name and value of what the estimates are by, as text
    records: Sequence[Mapping[str, Any]]
    view: engine.View

    @property
    def rows(self) -> list[Row]:
        """The records, under the names that charts use."""
        return [row_of(record, self.view) for record in self.records]

    def titled(self, title: str) -> str:
        """A title, by default the column, and the group in words."""
        return ", ".join(filter(None, [title or self.column, *(f"{name} {value}" for name, value in self.group)]))

    def one(self, name: str, unsaid: Any = None) -> Any:
        """What all rows say in a field; ``unsaid`` if they do not have it, None if they differ."""
        said = {record.get(name, unsaid) for record in self.records}
        return said.pop() if len(said) == 1 else None


def panels(data: Any, *, column: str | None = None, by: str | Iterable[str] = ()) -> list[Panel]:
    """The rows of data, which are those of `estimate`, by column and group, in the order in which these come."""
    records = _records(data)
    keys = [by] if isinstance(by, str) else list(by)
    if not records:
        raise ParameterError("there is nothing to draw: there are no rows of estimates")
    made: dict[tuple[str, tuple[tuple[str, str], ...]], list[Mapping[str, Any]]] = {}
    for record in records:
        name = engine.drawn_text_of(record["column_name"]) if "column_name" in record else ""
        if column is None or name == engine.drawn_text_of(column):
            made.setdefault((name, tuple((key, _of_key(record, key)) for key in keys)), []).append(record)
    if not made:
        named = sorted({str(record.get("column_name")) for record in records})
        raise ParameterError(f"there is no column {column!r} among the estimates, there are {named}")
    known = data.view if isinstance(data, Result) else None
    return [Panel(name, group, rows, known or _view(rows[0], name, keys)) for (name, group), rows in made.items()]


def _view(record: Mapping[str, Any], name: str, keys: Sequence[str]) -> engine.View:
    found = engine.view_of([field for field in record if field not in keys], name) or engine.view_of(record, name)
    if found is None:
        kinds = "value and count, mean, or bucket_start, bucket_end and frequency"
        raise ParameterError(
            f"rows of estimates have {kinds}, with low and high; these have {sorted(map(str, record))}"
        )
    return found


def _of_key(record: Mapping[str, Any], key: str) -> str:
    inner = record.get("key")  # a mapping, pairs, or records of key and value: as Beam, Arrow, older Polars have it
    pairs = inner.items() if isinstance(inner, Mapping) else inner if isinstance(inner, list) else ()
    of_beam = dict(tuple(pair.values()) if isinstance(pair, Mapping) else pair for pair in pairs)
    if key not in record and key not in of_beam:
        raise ParameterError(f"by names {key!r}, which the estimates do not have; they have {sorted(map(str, record))}")
    value = record[key] if key in record else of_beam[key]
    return "null" if value is None else '"null"' if value == "null" else engine.drawn_text_of(value)


def _records(data: Any) -> list[Mapping[str, Any]]:
    if isinstance(data, Result):
        about = {"n": data.n, "confidence": data.confidence, "population": getattr(data, "population", None)}
        return [{**about, **record} for record in data.to_arrow().to_pylist()]
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return _flat(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _flat(pa.table(data))
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, Mapping)):
        return [_record(row) for row in data]
    raise ParameterError(
        f"expected an estimate, a frame of estimates, or Beam's rows, got {type(data).__name__}; "
        "of a lazy frame take .collect()"
    )


def _record(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    for method in ("_asdict", "as_dict"):
        if hasattr(row, method):
            return getattr(row, method)()
    raise ParameterError(f"expected rows of estimates, as Beam makes them, or mappings, got {type(row).__name__}")


def _flat(table: Any) -> list[Mapping[str, Any]]:
    """Records of a table; a column of structs, or of lists of them, becomes a record a struct."""
    nested = [field.name for field in table.schema if _is_nested(field.type)]
    about = _about(table)
    rows: list[Mapping[str, Any]] = [{**about, **row} for row in table.to_pylist()]
    if not nested:
        return rows
    made: list[Mapping[str, Any]] = []
    for row in rows:
        rest = {name: value for name, value in row.items() if name not in nested}
        for name in nested:
            entries = row[name] if isinstance(row[name], list) else [row[name]]
            made += [{**rest, "column_name": name, **entry} for entry in entries if entry is not None]
    return made


def _about(table: Any) -> dict[str, Any]:
    """What a table's metadata say of its intervals: see `ldp_core.estimates_metadata`."""
    text = (table.schema.metadata or {}).get(engine.ESTIMATES_KEY.encode())
    how = engine.read_json(text, "the metadata of the estimates", ParameterError) if text else []
    asked = [one for one in how if isinstance(one, Mapping)] if isinstance(how, list) else []
    said = {name: {one.get(name) for one in asked} for name in ("confidence", "population")}
    return {name: found.pop() for name, found in said.items() if len(found) == 1}


def _check_confidence(confidence: float | None) -> None:
    if confidence is not None:
        engine.check_open("confidence", confidence)


def _is_nested(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    return bool(pa.types.is_struct(inner)) and inner.get_field_index("low") >= 0
