"""What commands print: tables and JSON to standard output, notes and progress to standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from ldp_core import PlanError, PrivacyPlan
from ldp_core.engine import View, folded, in_percent, seed_warning, taken_names, text_of, visible, visible_lines

_WIDE = 120  # columns of a table that goes to a file or another program


def out() -> Console:
    """Standard output."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDE)


def note(message: str, *, style: str = "") -> None:
    """A line on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(visible_lines(message), style=style))


def show(rows: Sequence[Mapping[str, str]], *, title: str = "", notes: Sequence[str] = ()) -> None:
    """Cells by head as a table, columns of numbers to the right; what has no room is left out, and named."""
    console = out()
    if title:
        console.print(Text(visible(title), style="bold"))
    if rows:
        rows = [{visible(head): visible(cell) for head, cell in row.items()} for row in rows]
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, header_style="dim")
        natural = [max(map(len, [head, *(row[head] for row in rows)])) for head in rows[0]]
        narrow = sum(natural) + 2 * (len(natural) - 1) > console.width
        needed, missing = -2, list[str]()
        for k, head in enumerate(rows[0]):
            words = head.replace("/", "/ ").split()  # (where a head may be broken)
            numbers = all(_is_number(row[head]) for row in rows)
            longest = max(map(len, [*words, *(row[head] for row in rows if numbers or not k)]), default=1)
            needed += max(longest, 0 if numbers else min(natural[k], _WORD)) + 2
            if missing or (k and needed > console.width):
                missing.append(head)
                continue
            table.add_column(
                Text(" ".join(words) if narrow else head),
                justify="right" if numbers else "left",
                min_width=longest,  # names and numbers stay whole
                max_width=longest if numbers and narrow else None,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(Text(cell) for head, cell in row.items() if head not in missing))
        console.print(table)
        if missing:
            notes = [f"A wider terminal shows more columns: {', '.join(missing)}.", *notes]
    for line in folded(notes, indent="", width=min(80, console.width)):
        console.print(Text(line))


def show_by_column(
    found: list[dict[str, Any]],
    keys: list[str],
    cells: Callable[[dict[str, Any], Callable[[Any], str]], dict[str, str]],
    words: str,
    seeded: Sequence[str],
    titles: Mapping[str, str] | None = None,
) -> None:
    """A table for each column, of rows with ``cells`` after the keys and the value; below what they mean."""
    for k, name in enumerate(dict.fromkeys(row["column_name"] for row in found)):
        if k:
            out().print()
        cells_of_rows = []
        for row in (row for row in found if row["column_name"] == name):
            numbers = row.get("value") is None
            head = {key.replace("_", " "): word(row[key], 15) for key in (*keys, *([] if numbers else ["value"]))}
            text = partial(number if numbers else percent, digits=decimals(row, 3 if numbers else 4))
            cells_of_rows.append(beside(head, cells(row, text)))
        show(cells_of_rows, title=(titles or {}).get(name, name))
    show([], notes=[words, *seeded])


def beside(groups: Mapping[str, str], cells: Mapping[str, str]) -> dict[str, str]:
    """Cells that say the group, and those of its answer, of which some may have the same heads."""
    return {f"{head} (group)" if head in cells else head: cell for head, cell in groups.items()} | {**cells}


def check_groups(groups: Iterable[str], own: Iterable[str]) -> None:
    """Raise `PlanError` if columns of groups are called as an answer has ``own`` fields, which take their place."""
    if taken := sorted({*groups} & {*own}):
        raise PlanError(taken_names("the result", taken))


def _is_number(cell: str) -> bool:
    return not cell or cell[0] in "0123456789-<" or cell.removesuffix(" %") in _WORDS


_WORDS = ("no bound", "inf", "nan")
_WORD = 12  # of a text so many characters stay together, at least


def say(text: str) -> None:
    """Text, as it is."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def seed_words(plan: PrivacyPlan, *reports: Any) -> list[str]:
    """That a plan or a frame of its reports is seeded, for all outputs; nothing if none is."""
    dtypes = (dtype for frame in reports for dtype in frame.collect_schema().dtypes())
    of_reports = ["The reports are seeded: repeatable, and therefore NOT private."]
    seeded = any(getattr(dtype, "seeded", False) for dtype in dtypes)
    return [f"The plan is {said}." for said in seed_warning(plan)] or of_reports * seeded


def say_json(data: Any, seeded: Sequence[str] = ()) -> None:
    """JSON; null for what JSON has no number for. Where something is seeded, the answer or each of its rows says so."""
    if seeded:
        rows = data if isinstance(data, list) else [data]
        check_groups((name for row in rows[:1] for name in row), ["seeded"])
        data = [{"seeded": True, **row} for row in data] if isinstance(data, list) else {"seeded": True, **data}
    say(json.dumps(_plain(data), indent=2, default=str, allow_nan=False))


def told_apart(rows: Sequence[Mapping[str, Any]], groups: Sequence[str]) -> list[dict[str, Any]]:
    """Rows for JSON, in which columns of groups have ``"nan"`` and ``"inf"``, which are no null."""
    return [{**row, **{name: _plain(row[name], str) for name in groups}} for row in rows]


def _plain(data: Any, no_number: Callable[[float], Any] = lambda _: None) -> Any:
    if isinstance(data, Mapping):
        return {str(key): _plain(value, no_number) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(item, no_number) for item in data]
    return no_number(data) if isinstance(data, float) and not math.isfinite(data) else data


def decimals(row: Mapping[str, Any], least: int) -> int:
    """So many that the width of a row's interval has two digits, or its standard error where there is no width."""
    ends = [x if isinstance(x, (int, float)) else math.nan for x in map(row.get, ("low", "high", "standard_error"))]
    rounding = 1e-14 * max([1.0, *(abs(end) for end in ends[:2] if math.isfinite(end))])
    width = next((x for x in (ends[1] - ends[0], ends[2]) if rounding < x < math.inf), 1.0)
    return max(least, min(1 - math.floor(math.log10(width)), 15))


def number(x: Any, digits: int) -> str:
    """A number for people, or a word or a date as it is; empty where there is none."""
    return str(x) if isinstance(x, (str, date)) else "" if x is None or math.isnan(x) else f"{x:z,.{digits}f}"


def percent(x: float | None, digits: int = 4) -> str:
    """A share for people, with so many decimals of the number that it is."""
    return "" if x is None or math.isnan(x) else f"{100 * x:z.{digits - 2}f} %"


def word(value: Any, digits: int = 6) -> str:
    """A value for people, of floats so many digits; empty where there is none."""
    return f"{value:.{digits}g}" if isinstance(value, float) else "" if value is None else text_of(value)


def _digits(labels: Sequence[Any]) -> int:
    """So many that the ends of a bucket differ in three of them, at least six; of single numbers all but one or two."""
    if len(labels) != 2 or not all(isinstance(label, float) for label in labels) or labels[0] == labels[1]:
        return 15
    return max(6, min(4 + math.floor(math.log10(max(map(abs, labels)) / abs(labels[1] - labels[0]))), 15))


def largest(records: Sequence[dict[str, Any]], look: View, most: int) -> list[dict[str, Any]]:
    """The rows of an answer with the largest estimates, what is not known last."""
    known = [
        -math.inf if r[look.estimate] is None or math.isnan(r[look.estimate]) else r[look.estimate] for r in records
    ]
    order = sorted(range(len(records)), key=lambda k: -known[k])
    return [records[k] for k in order[:most]]


def cells_of(record: Mapping[str, Any], look: View, confidence: float) -> dict[str, str]:
    """One row of an answer, for people; ``look`` says which columns it has."""
    more = 0 if look.counts else decimals(record, 4 if look.shares else 3)
    as_text = partial(percent if look.shares else number, digits=more)
    labels = [record[label] for label in look.labels]
    about = {name.replace("_", " "): word(x, _digits(labels)) for name, x in zip(look.labels, labels, strict=True)}
    found, n = record[look.estimate], record["n"]
    about["estimate" if look.counts else "share" if look.shares else look.estimate] = as_text(found)
    if look.counts:
        about["share"] = percent(found / n if n and found is not None else None)
    about |= {f"{in_percent(confidence)}% from": as_text(record["low"]), "to": as_text(record["high"])}
    return about if look.labels else {**about, "reports": f"{n:,}"}


# ---- progress


@contextmanager
def working(what: str, *, total: Callable[[], int | None] | None = None) -> Iterator[Callable[[int], None]]:
    """A spinner and the time on standard error, if it is a terminal. Yields a function that counts records as done.

    How many there are is asked only there.
    """
    console = Console(stderr=True)
    if not console.is_terminal:  # (rich before 15 prints an empty line where progress is disabled)
        yield lambda records: None
        return
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}")]
    if total is not None:
        columns += [BarColumn(bar_width=24), TaskProgressColumn()]
    columns.append(TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total and total())
        yield lambda records: progress.advance(task, records)
