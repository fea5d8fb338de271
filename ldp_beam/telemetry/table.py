"""Printing estimates: a table for each column, a line for each window and key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ldp_core import FrequencyOracle, Numeric, PrivacyPlan, tables
from ldp_core.charts.drawing import text


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines, a rule under the first; all columns but the first to the right."""
    heading, *lines = tables.aligned(rows, numbers=range(1, len(rows[0])))
    rule = "  ".join("-" * max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join([heading, rule, *lines])


def estimate_tables(histograms: pa.Table, means: pa.Table, plan: PrivacyPlan, *, top: int = 4) -> Iterable[str]:
    """For each planned column: windows down, its mean or ``top`` most frequent values across, and half intervals."""
    for column, mechanism in plan.columns.items():
        number = isinstance(mechanism, Numeric)
        table = means if number else histograms
        rows = table.filter(pc.equal(table["column_name"], column))
        if not len(rows):
            yield f"{column}: no reports" if column in plan.oracles or number else f"{column}: nothing was found"
            continue
        confidence = rows["confidence"][0].as_py()
        d = mechanism.domain.size if isinstance(mechanism, FrequencyOracle) else None
        values = mechanism.inputs.summary if d is None else f"{d} value{'s' * (d != 1)}"
        yield (
            f"{column}: {mechanism.title}, {values}, epsilon {mechanism.epsilon:g}; "
            f"estimated {'mean' if number else 'count'} and half of its {confidence:.0%} interval"
        )
        yield (_mean_table(rows) if number else _column_table(rows, top)) + "\n"


def _mean_table(rows: pa.Table) -> str:
    names = [name for name, _ in rows["key"][0].as_py()]
    cells = [
        [
            _start(row),
            *(text for _, text in row["key"]),
            f"{row['n']:,}",
            f"{row['mean']:.4g} ± {(row['high'] - row['low']) / 2:.2g}",
        ]
        for row in rows.sort_by("window_start").to_pylist()
    ]
    return aligned([["window start", *names, "n", "mean"], *cells])


def _start(row: dict[str, Any]) -> str:
    time = row["window_start"]
    return "-" if time is None else f"{time:%Y-%m-%d %H:%M}"


def _column_table(rows: pa.Table, top: int) -> str:
    totals = rows.group_by("value").aggregate([("count", "sum")]).sort_by([("count_sum", "descending")])
    values = [text(value) for value in totals["value"].to_pylist()[:top]]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows.sort_by("window_start").to_pylist():
        key = (_start(row), *(text for _, text in row["key"]))
        line = cells.setdefault(key, {"n": f"{row['n']:,}"})
        line[text(row["value"])] = f"{row['count']:,.0f} ± {(row['high'] - row['low']) / 2:,.0f}"
    names = [name for name, _ in rows["key"][0].as_py()]
    heading = ["window start", *names, "n", *values]
    return aligned([heading, *([*key, line["n"], *(line.get(v, "") for v in values)] for key, line in cells.items())])


def coverage_table(histograms: pa.Table, truth: dict[tuple[str, int, str], int]) -> str:
    """For each column: how many intervals hold the true count, and the typical error in standard errors."""
    lines: list[list[str]] = [
        ["column", "intervals", "cover the truth", "share", "root mean square of error / standard error"]
    ]
    inside: dict[str, list[bool]] = {}
    squares: dict[str, list[float]] = {}
    for row in histograms.to_pylist():
        true = truth[(row["column_name"], int(row["window_start"].timestamp()), text(row["value"]))]
        inside.setdefault(row["column_name"], []).append(row["low"] <= true <= row["high"])
        squares.setdefault(row["column_name"], []).append(((row["count"] - true) / row["standard_error"]) ** 2)
    inside["all"] = [x for column in inside.values() for x in column]
    squares["all"] = [x for column in squares.values() for x in column]
    for column, hits in inside.items():
        rms = math.sqrt(sum(squares[column]) / len(hits))
        lines.append([column, str(len(hits)), str(sum(hits)), f"{sum(hits) / len(hits):.1%}", f"{rms:.3f}"])
    return aligned(lines)
