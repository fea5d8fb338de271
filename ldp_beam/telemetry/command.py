"""The command: ``python -m ldp_beam.telemetry``. Its help needs no Beam."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from ldp_beam.telemetry.options import FileOptions, LiveOptions, declarations, made
from ldp_core import LdpError
from ldp_core.engine import disk_error, import_extra, visible_lines

CALLED = "python -m ldp_beam.telemetry"
EXAMPLE_PLAN = """\
A plan is a TOML file:

  keep = ["country"]                      # columns that pass unprotected

  [columns.os]                            # columns that leave as private reports
  mechanism = "unary_encoding"
  epsilon = 1.0
  domain = ["ios", "android"]
  unmatched = "other"                     # what is not in the domain, nulls included: one more answer

  [columns.seconds]                       # numbers: their mean
  mechanism = "hybrid"
  epsilon = 1.0
  domain = {low = 0, high = 600}

  [columns.word]                          # the most frequent of values that nobody listed
  mechanism = "heavy_hitters"
  epsilon = 4.0
  alphabet = "abcdefghijklmnopqrstuvwxyz"
  length = 6
  outside = "cut"                         # longer text, other characters
  domain = {kind = "str"}
"""

_EPILOG = f"""\
Any other option goes to Beam: --runner=FlinkRunner --flink_master=... (default: Beam's local runner, in this
process). {EXAMPLE_PLAN}
Declare unmatched = "other" (or "none", where reports are bit vectors) in every column in which a value may be missing
or not declared. Without it such a record is a dead letter: it says without noise that this record's value was missing,
and a record's other columns are lost with it. In CSV only an empty field without quotes is missing: NA is text, which
no domain of numbers has, and text columns have only if they declare it.

Mechanisms that remember (longitudinal ones, RAPPOR) take a secret, which is in a file or in the environment and never
on the command line, and the column that says whose record it is. Each worker reads it there:

  python -c 'from ldp_core import Secret; Secret.generate().to_file("secret")'    # keep it: it is the memory

Without --demo, --plan, --input, --event-time and --output are required. --live --help has the options of --live:
simulated devices that perturb, on this machine (in a checkout).

Examples:

  %(prog)s --demo
  %(prog)s --plan plan.toml --input 'events/*.parquet' --event-time time --output out
  %(prog)s --plan plan.toml --input 'events/*.ndjson' --event-time time --output out \\
    --secret-file secret --id user
  %(prog)s --live --for 60s
"""
_LIVE_EPILOG = """\
Examples:

  %(prog)s --for 60s
  %(prog)s --plan plan.toml --rate 1e6 --window 10s
  %(prog)s --engine flink --for 60s
"""


def parser(options: type[Any], called: str = CALLED) -> argparse.ArgumentParser:
    """The command line of `FileOptions` or `LiveOptions`, as it is ``called``."""
    command = argparse.ArgumentParser(
        prog=called,
        usage="%(prog)s OPTIONS",
        description=str(options.__doc__).partition("\n")[0],
        epilog=_LIVE_EPILOG if options is LiveOptions else _EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for declared in declarations(options):
        how: dict[str, Any] = {"dest": declared.name, "help": declared.help, "default": declared.default}
        if declared.kind is bool:
            how["action"] = "store_true"
        elif declared.many:
            how |= {"action": "extend", "nargs": "+", "metavar": declared.metavar, "default": []}
        else:
            how |= {"type": declared.kind, "metavar": declared.metavar}
            if get_origin(declared.kind) is Literal:
                how |= {"type": str, "choices": get_args(declared.kind)}
            if declared.default is not None:
                how["help"] += " (default %(default)s)"
        command.add_argument(declared.flag, **how)
    return command


def main(argv: Sequence[str] | None = None, *, called: str = CALLED) -> int:
    """Run the command of these words, by default those of this process, under the name by which it is ``called``.

    It returns 0, or 1 if too many records were lost or live totals do not reconcile, or 2 if what is given is at fault.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if "--live" in words:
            words.remove("--live")
            given = parser(LiveOptions, f"{called} --live").parse_args(words)
            return live(made(LiveOptions, vars(given)))
        given, others = parser(FileOptions, called).parse_known_args(words)
        return run(made(FileOptions, vars(given), others))
    except LdpError as error:
        print(visible_lines(f"error: {error}"), file=sys.stderr)
        return 2


def run(options: FileOptions) -> int:
    """Perturb and estimate the events of files; 0, or 1 if too many records could not be used."""
    with _quiet():
        import_extra("apache_beam", "beam")
    from ldp_beam.telemetry import running  # noqa: PLC0415 (it imports Beam)

    try:
        running.start(options)
    except running.LostRecordsError as error:
        print(visible_lines(f"error: {error}"), file=sys.stderr)
        return 1
    except RuntimeError as error:  # (Beam's, of what its own sinks say)
        if (full := disk_error(error)) is None:
            raise
        print(f"error: cannot write into the folder {options.output!r}: {full.strerror}", file=sys.stderr)
        return 1
    return 0


def live(options: LiveOptions) -> int:
    """Stream reports of simulated devices; 0, or 1 if the totals do not reconcile."""
    bed = of_checkout("tests.bed.live", "--live")
    return int(bed.start(options))


def of_checkout(module: str, what: str) -> Any:
    """Import a tool that is beside the tests, and not in the wheel."""
    places = [Path(__file__).parents[2], Path.cwd(), *Path.cwd().parents]  # the last two: installed, and in a checkout
    source = next((each for each in places if (each / "tests" / "bed" / "flink").is_dir()), None)
    if source is None:
        raise LdpError(f"{what} is not part of the installed package: run it in a checkout of the source")
    if str(source) not in sys.path[:1]:
        sys.path.insert(0, str(source))  # other packages install a module `tests`, too
    with _quiet():
        return importlib.import_module(module)


@contextmanager
def _quiet() -> Iterator[None]:
    """Beam's errors only, and while it is imported not what it says without its ``gcp`` extra (seen in 2.77)."""

    def is_news(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("apitools not found")

    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    logging.getLogger().addFilter(is_news)
    try:
        yield
    finally:
        logging.getLogger().removeFilter(is_news)
