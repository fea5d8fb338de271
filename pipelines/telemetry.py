"""Perturb events at ingestion and print histograms and means per window: ``python -m pipelines.telemetry``.

Reads event files (Parquet, CSV, NDJSON; globs allowed), turns each record into one private report as a plan
says, tallies the reports in windows of event time, and writes unbiased histograms and means with confidence intervals.

With ``--live`` it needs no files: simulated devices perturb and stream reports, see `pipelines.local.live`, which is
not in the wheel. ``--help`` needs no Beam.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from ldp_core import LdpError
from ldp_core.extras import need
from pipelines.arguments import CALLED, parser

__all__ = ["main", "parser"]


def main(argv: Sequence[str] | None = None, *, called: str = CALLED) -> int:
    """Run the command.

    Args:
        argv: its words; default those of this process.
        called: how it is called, for the lines on its usage.

    Returns:
        0 if it succeeded, 1 if too many records could not be used or live totals do not reconcile, 2 if arguments or
        input are at fault.
    """
    commands = parser(called)
    args, beam_args = commands.parse_known_args(argv)
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    _check_options(commands, args, beam_args)
    if args.live:
        _check_live(commands, args, beam_args)
    else:
        _check_files(commands, args)
    try:
        need("apache_beam", "beam")
        from pipelines import running  # noqa: PLC0415 (it imports Beam)

        return running.start(args, beam_args)
    except LdpError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _check_options(commands: argparse.ArgumentParser, args: argparse.Namespace, beam_args: Sequence[str]) -> None:
    """End with a message if there is a secret, or what looks like a misspelt option: Beam ignores what it lacks."""
    ours = [f"--{name.replace('_', '-')}" for name in vars(args)]
    for argument in beam_args:
        name = argument.partition("=")[0]
        if name in ("--secret", "--key"):
            commands.error("a secret on the command line is known to all: use --secret-file or --secret-env")
        near = get_close_matches(name, ours, 1, 0.8) if name.startswith("--") else []
        if near:
            commands.error(f"there is no option {name}: did you mean {near[0]}?")


def _check_files(commands: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """End with a message if arguments are missing, or would do nothing."""
    if args.engine:
        commands.error("--engine is for --live; elsewhere --runner says where the pipeline runs")
    if args.page is not None:
        commands.error("--page is for --live; of files: ldp report OUTPUT")
    if args.demo:
        if args.id or args.record or args.secret_file or args.secret_env:
            commands.error("--demo has nobody's ids: it does not take --id, --record and a secret")
        return
    required = ("plan", "input", "event_time", "output")
    missing = [f"--{name.replace('_', '-')}" for name in required if not getattr(args, name)]
    if missing:
        commands.error(f"the following arguments are required without --demo and --live: {', '.join(missing)}")


def _check_live(commands: argparse.ArgumentParser, args: argparse.Namespace, beam_args: Sequence[str]) -> None:
    """End with a message if there are arguments that would do nothing."""
    keyed = ("secret_file", "secret_env", "id", "record", "overwrite")
    names = ("demo", "input", "event_time", "output", "by", "reports", *keyed)
    files = [name for name in names if getattr(args, name)]
    without_use = [*(f"--{name.replace('_', '-')}" for name in files), *beam_args]
    if without_use:
        commands.error(f"--live makes its own events, and --engine says where it runs; it does not take {without_use}")
    if args.plan and args.epsilon is not None:
        commands.error("give --epsilon or --plan: a plan has its own epsilons")


if __name__ == "__main__":
    sys.exit(main())
