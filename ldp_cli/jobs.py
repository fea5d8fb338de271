"""What runs elsewhere: audits, the telemetry job, the live demonstration, a Flink cluster."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, TypeVar

import typer

from ldp_beam import telemetry
from ldp_beam.telemetry import FileOptions, LiveOptions
from ldp_beam.telemetry.command import of_checkout
from ldp_beam.telemetry.options import declarations, made
from ldp_cli.options import Json, count, ratio, said
from ldp_cli.printing import note, say, say_json
from ldp_cli.values import integer, share
from ldp_core import PrivacyPlan

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""Of a command that hands on options that are not its own."""
_T = TypeVar("_T")


def audit(
    plan: Annotated[Path | None, typer.Argument(metavar="PLAN", help="A plan: a TOML file.")] = None,
    *,
    catalog: Annotated[
        bool, typer.Option("--catalog", help="Audit an example of each mechanism, in place of a plan.")
    ] = False,
    column: Annotated[list[str] | None, said("NAME", "Audit only this column.")] = None,
    trials: Annotated[int, count("How many reports are drawn of each input.")] = 1_000_000,
    false_alarm: Annotated[
        float, ratio("The chance that the audit calls a correct plan broken, over all its lines.")
    ] = 1e-6,
    keyed: Annotated[bool, typer.Option("--keyed", help="Audit under keyed noise, with new secrets and ids.")] = False,
    rounds: Annotated[int, count("Of columns that memoize, also audit this many reports of one value.", integer)] = 4,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress on standard error.")] = False,
) -> None:
    """Look for faults: lower bounds of epsilon, from reports that are drawn here."""
    from ldp_core.engine import run_audit, table  # noqa: PLC0415 (only here)

    if (plan is None) == (not catalog) or (catalog and column):
        raise typer.BadParameter("give a plan and perhaps --column, or --catalog")
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


def _typed(options: type[_T], command: Callable[[_T], int], text: str) -> Callable[..., None]:
    """A command of typer, whose options are those that a class declares, with their help."""

    def call(context: typer.Context, **given: Any) -> None:
        _end(command(made(options, given, context.args)))

    parameters = [Parameter("context", Parameter.POSITIONAL_ONLY, annotation=typer.Context)]
    for declared in declarations(options):
        kind: Any = GenericAlias(list, (declared.kind,)) if declared.many else declared.kind
        if declared.default is None:
            kind |= None
        number = {int: integer, float: share}.get(declared.kind) if declared.flag != "--epsilon" else None
        about = typer.Option(declared.flag, parser=number, metavar=declared.metavar, help=declared.help)
        default = list(declared.default) if declared.many else declared.default
        parameters.append(
            Parameter(declared.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about])
        )
    vars(call)["__signature__"] = Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__doc__ = text
    return call


run = _typed(
    FileOptions,
    telemetry.run,
    """Run the telemetry job: perturb event files at ingestion, estimate in windows of event time.

    Any other option goes to Beam, as --runner=FlinkRunner.
    """,
)
live = _typed(LiveOptions, telemetry.live, "Stream reports of simulated devices, and show each window as it closes.")


def flink(context: typer.Context) -> None:
    """Run a Flink cluster on this machine: up, submit, status, jobs, restart, down."""
    cluster = of_checkout("tests.bed.flink.__main__", "ldp flink")
    _end(cluster.main(context.args, called="ldp flink"))


def _end(code: int) -> None:
    if code:
        raise typer.Exit(code)
