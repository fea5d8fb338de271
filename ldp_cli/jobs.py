"""What runs elsewhere: audits, the telemetry job, the live demonstration, a Flink cluster. Thin: they have commands."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ldp_cli.printing import note, say, say_json
from ldp_cli.values import whole
from ldp_core import LdpError, PrivacyPlan

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Of a command that takes the options of another one."""


def audit(
    plan: Annotated[Path | None, typer.Argument(metavar="PLAN", help="A plan: a TOML file.")] = None,
    *,
    catalogue: Annotated[bool, typer.Option("--catalogue", help="Instead: an example of each mechanism.")] = False,
    column: Annotated[list[str] | None, typer.Option("--column", metavar="NAME", help="Only this column.")] = None,
    trials: Annotated[int, typer.Option(parser=whole, metavar="N", help="Of each input.")] = 1_000_000,
    false_alarm: Annotated[float, typer.Option(help="That any line is wrong, all together.")] = 1e-6,
    keyed: Annotated[bool, typer.Option("--keyed", help="Under keyed noise, with new secrets and ids.")] = False,
    rounds: Annotated[
        int, typer.Option(min=0, help="Of columns that remember: so many reports of one value, too.")
    ] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")] = False,
) -> None:
    """Look for faults: lower bounds of epsilon, from reports that are drawn here."""
    from ldp_core.auditing.table import run_audit, table  # noqa: PLC0415 (only here)

    if (plan is None) == (not catalogue) or (catalogue and column):
        raise typer.BadParameter("give a plan and perhaps --column, or --catalogue")
    audits = run_audit(
        None if plan is None else PrivacyPlan.from_toml(plan),
        columns=column or (),
        trials=trials,
        false_alarm=false_alarm,
        keyed=keyed,
        rounds=rounds,
        progress=None if quiet else note,
    )
    if as_json:
        say_json([found.to_dict() for found in audits])
    else:
        say(table(audits))
    _end(int(any(found.broken for found in audits)))


def run(context: typer.Context) -> None:
    """Run the telemetry job: perturb event files at ingestion, estimate in windows of event time."""
    _telemetry(context.args, "ldp run")


def live(context: typer.Context) -> None:
    """Stream reports of simulated devices, and show each window as it closes."""
    _local("ldp live")
    words = context.args if _asks_for_help(context.args) else ["--live", *context.args]
    _telemetry(words, "ldp live")


def flink(context: typer.Context) -> None:
    """Run a Flink cluster on this machine: up, submit, status, down."""
    _local("ldp flink")
    other: Any = importlib.import_module("pipelines.local.flink.__main__")
    commands = other.parser()
    for one in (commands, *(sub for action in commands._actions for sub in dict(action.choices or {}).values())):
        one.prog = one.prog.replace("python -m pipelines.local.flink", "ldp flink")
    if _asks_for_help(context.args):
        say(commands.format_help() + _FLINK)
        return
    commands.parse_args(context.args)  # which says how `ldp flink` is used, if it is misused
    _end(_run(other.main, context.args))


_FLINK = """
Examples:

  ldp flink up
  ldp flink submit -m pipelines.telemetry --plan plan.toml --input ...
  ldp flink down
"""


def _local(command: str) -> None:
    """Raise `LdpError` where the tools for one machine are not installed."""
    if importlib.util.find_spec("pipelines.local") is None:
        raise LdpError(f"{command} is not part of the installed package: run it in a checkout of the source")


def _telemetry(arguments: Sequence[str], command: str) -> None:
    telemetry: Any = importlib.import_module("pipelines.telemetry")
    if _asks_for_help(arguments):
        say(telemetry.parser(command).format_help())
        return
    _end(_run(partial(telemetry.main, called=command), arguments))


def _asks_for_help(arguments: Sequence[str]) -> bool:
    return bool(arguments) and arguments[0] in ("--help", "-h")


def _run(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """The exit code of another command as ours: it says 2 for what failed, and ends by itself where it is misused."""
    code = main(list(arguments))
    return 1 if code else 0


def _end(code: int) -> None:
    if code:
        raise typer.Exit(code)
