"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ldp_cli.values import integer, share, whole
from ldp_core.engine import Window


def count(words: str, parser: Callable[[Any], int] = whole, metavar: str = "N") -> Any:
    """The option of a whole number, with these words as its help. One of `integer` is checked where it is used."""
    return typer.Option(parser=parser, metavar=metavar, help=words)


def said(metavar: str, words: str) -> Any:
    """The option of a text, or of several."""
    return typer.Option(metavar=metavar, help=words)


def ratio(words: str) -> Any:
    """The option of a share of something."""
    return typer.Option(parser=share, metavar="SHARE", help=words)


Source = Annotated[str, typer.Argument(metavar="REPORTS", help="The reports: a file, a folder, or a pattern.")]
By = Annotated[list[str] | None, said("COLUMN", "Split the estimates by this kept column.")]
Length = Annotated[str | None, said("LENGTH", "The length of windows of event time: 7d, 1h, 15m.")]
EventTime = Annotated[str | None, said("COLUMN", "With --window: the kept column that has the time.")]
Columns = Annotated[list[str] | None, said("NAME", "Take only this column.")]
Repeats = Annotated[int | None, count("The most reports of one person in a group or window. Keyed noise needs it.")]
Person = Annotated[str | None, said("COLUMN", "In place of --repeats: the kept column that says whose report it is.")]
Confidence = Annotated[float, ratio("The confidence of the intervals.")]
Plot = Annotated[
    Path | None, said("FILE", "Draw it in this file: .html (needs no network), .svg, .png, .pdf or .json.")
]
Theme = Annotated[Literal["light", "dark"], typer.Option(help="The colors of the picture.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file if it is there.")]
Json = Annotated[bool, typer.Option("--json", help="Print all numbers as JSON, in place of a table.")]


def people(words: str) -> Any:
    """The option of a number of people, with these words as its help."""
    return typer.Option("--people", "-n", parser=integer, metavar="N", help=words)


def check_window(window: str | None, event_time: str | None) -> None:
    """Raise unless both are given, or none, and there are such windows."""
    if (window is None) != (event_time is None):
        raise typer.BadParameter("--window and --event-time go together: --window 7d --event-time day")
    if window is not None:
        Window.of(window)
