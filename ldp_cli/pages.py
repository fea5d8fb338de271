"""Pages for people: a report of estimates, and the planner."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from ldp_cli import files
from ldp_cli.printing import Overwrite, note, say
from ldp_core import InputError, PrivacyPlan
from ldp_report import planner_page, read_results, report_page

Show = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]


def report(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="The folder of `ldp estimate --output` or of `ldp run`.")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    plan: Annotated[Path | None, typer.Option(help="Where the folder does not say it: the plan.")] = None,
    overwrite: Overwrite = False,
    show: Show = False,
) -> None:
    """Make a page of estimates: one file for a browser, which needs no network."""
    _check(output, overwrite=overwrite)
    made = None if plan is None else PrivacyPlan.from_toml(plan)
    found = read_results(results, plan=made)
    if found.plan is None:
        note("the results do not say which plan made them: --plan PLAN adds what it costs a person", style="yellow")
    _write(output, report_page(found), show)


def planner(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("planner.html"),
    overwrite: Overwrite = False,
    show: Show = False,
) -> None:
    """Make the planner: a page that finds epsilon, mechanism and plan; it needs no network."""
    page = planner_page()
    there = output.is_file() and output.read_bytes() == page.encode()  # the same, from before
    _check(output, overwrite=overwrite or there)
    _write(output, page, show)


def _check(output: Path, *, overwrite: bool) -> None:
    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"this is a page: FILE must end in .html, got {output.name!r}")
    files.refuse_existing(output, overwrite=overwrite)


def _write(output: Path, page: str, show: bool) -> None:
    output.write_text(page, encoding="utf-8")
    say(str(output))
    if show and not webbrowser.open(output.resolve().as_uri()):
        note(f"there is no browser to open {output} in", style="yellow")
