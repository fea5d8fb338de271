"""Pages for people: a report of estimates, and the planner."""

from __future__ import annotations

import webbrowser
from importlib.resources import files as resources
from pathlib import Path
from typing import Annotated

import typer

from ldp_cli import files
from ldp_cli.printing import note, say
from ldp_core import InputError, PrivacyPlan
from ldp_report import read_results, report_page

Show = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]


def report(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="The folder of `ldp estimate --output` or of `ldp run`.")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    plan: Annotated[Path | None, typer.Option(help="Where the folder does not say it: the plan.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    show: Show = False,
) -> None:
    """Make a page of estimates: one file for a browser, which needs no network."""
    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"a report is a page: FILE must end in .html, got {output.name!r}")
    files.refuse_existing(output, overwrite=overwrite)
    made = None if plan is None else PrivacyPlan.from_toml(plan)
    found = read_results(results, plan=made)
    output.write_text(report_page(found), encoding="utf-8")
    if found.plan is None:
        note("the results do not say which plan made them: --plan PLAN adds what it costs a person", style="yellow")
    say(str(output))
    _show(output, show)


def planner(*, show: Show = False) -> None:
    """Say where the planner is: a page that finds epsilon, mechanism and plan; it needs no network."""
    page = Path(str(resources("ldp_report").joinpath("planner.html")))
    say(str(page))
    _show(page, show)


def _show(page: Path, wanted: bool) -> None:
    if wanted and not webbrowser.open(page.resolve().as_uri()):
        note(f"there is no browser to open {page} in", style="yellow")
