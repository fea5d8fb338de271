"""Printing estimates: a table for each column, a line for each window and key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ldp_core import FrequencyOracle, Question
from ldp_core.engine import Margin, View, in_percent, text_of
from ldp_core.engine import aligned as in_columns


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines, a rule under the first; all columns but the first to the right."""
    heading, *lines = in_columns(rows, numbers=range(1, len(rows[0])))
    rule = "  ".join("-" * max(map(len, column)) for column in zip(*rows, strict=True))
    return "\n".join([heading, rule, *lines])


def estimate_tables(
    found: Mapping[str, pa.Table], questions: Mapping[str, Question[Any]], asked: Mapping[str, Any], *, top: int = 4
) -> Iterable[str]:
    """For each column asked about: windows down, its number or ``top`` largest values across, and half intervals.

    Of buckets there is the one in which the median is.
    """
    for column, mechanism in asked.items():
        table, view = found[column], questions[column].view
        rows = table.filter(pc.equal(table["column_name"], column))
        if not len(rows):
            yield f"{column}: {'nothing was found' if view.ranked else 'no reports'}"
            continue
        confidence = rows["confidence"][0].as_py()
        d = mechanism.domain.size if isinstance(mechanism, FrequencyOracle | Margin) else None
        values = mechanism.inputs.summary if d is None else f"{d} value{'s' * (d != 1)}"
        about = f"estimated {view.estimate} and half of its {in_percent(confidence)}% interval"
        if len(view.labels) > 1:
            about = "the bucket in which the estimated median is"
        yield f"{column}: {mechanism.title}, {values}, epsilon {mechanism.epsilon:g}; {about}"
        made = (_numbers, _values, _medians)[len(view.labels)](rows, view, top)
        yield made + "\n"


def _numbers(rows: pa.Table, view: View, top: int) -> str:
    cells = [[*_head(row), f"{row['n']:,}", _cell(row, view)] for row in rows.sort_by("window_start").to_pylist()]
    return aligned([["window start", *_keys(rows), "n", view.estimate], *cells])


def _medians(rows: pa.Table, view: View, top: int) -> str:
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows.sort_by("window_start").to_pylist():
        groups.setdefault(_head(row), []).append(row)
    cells = []
    for key, buckets in groups.items():
        cumulative = accumulate(row[view.estimate] for row in buckets)
        middle = next((row for row, sum_ in zip(buckets, cumulative, strict=True) if sum_ >= 0.5), buckets[-1])
        cells.append([*key, f"{middle['n']:,}", " to ".join(f"{middle[label]:.4g}" for label in view.labels)])
    return aligned([["window start", *_keys(rows), "n", "median in"], *cells])


def _head(row: dict[str, Any]) -> tuple[str, ...]:
    return (_start(row), *(text for _, text in row["key"]))


def _keys(rows: pa.Table) -> list[str]:
    return [name for name, _ in rows["key"][0].as_py()]


def _start(row: dict[str, Any]) -> str:
    time = row["window_start"]
    return "-" if time is None else str(time.replace(tzinfo=None)).removesuffix(":00")


def _values(rows: pa.Table, view: View, top: int) -> str:
    [label] = view.labels
    labels = pc.unique(rows[label])
    if view.counts:
        totals = rows.group_by(label).aggregate([(view.estimate, "sum")])
        labels = totals.sort_by([(f"{view.estimate}_sum", "descending")])[label][:top]
    values = [text_of(value) for value in labels.to_pylist()[:: -(-len(labels) // top)]]
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows.sort_by("window_start").to_pylist():
        line = cells.setdefault(_head(row), {"n": f"{row['n']:,}"})
        line[text_of(row[label])] = _cell(row, view)
    heading = ["window start", *_keys(rows), "n", *values]
    return aligned([heading, *([*key, line["n"], *(line.get(v, "") for v in values)] for key, line in cells.items())])


def _cell(row: dict[str, Any], view: View) -> str:
    found, low, high = row[view.estimate], row["low"], row["high"]
    if not isinstance(low, (int, float)):  # a word
        return f"{'unknown' if found is None else found} ({low} to {high})"
    half = (high - low) / 2
    if view.shares:
        return f"{found:.2%} ± {half:.2%}"
    return f"{found:z,.0f} ± {half:,.0f}" if view.counts else f"{found:.4g} ± {half:.2g}"


def coverage_table(histograms: pa.Table, truth: dict[tuple[str, int, str], int]) -> str:
    """For each column: how many intervals hold the true count, and the typical error in standard errors."""
    lines: list[list[str]] = [
        ["column", "intervals", "cover the truth", "share", "root mean square of error / standard error"]
    ]
    inside: dict[str, list[bool]] = {}
    squares: dict[str, list[float]] = {}
    for row in histograms.to_pylist():
        true = truth[(row["column_name"], int(row["window_start"].timestamp()), text_of(row["value"]))]
        inside.setdefault(row["column_name"], []).append(row["low"] <= true <= row["high"])
        squares.setdefault(row["column_name"], []).append(((row["count"] - true) / row["standard_error"]) ** 2)
    inside["all"] = [x for column in inside.values() for x in column]
    squares["all"] = [x for column in squares.values() for x in column]
    for column, hits in inside.items():
        rms = math.sqrt(sum(squares[column]) / len(hits))
        lines.append([column, str(len(hits)), str(sum(hits)), f"{sum(hits) / len(hits):.1%}", f"{rms:.3f}"])
    return aligned(lines)
