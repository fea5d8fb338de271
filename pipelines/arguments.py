"""The command line of the telemetry job; it needs no Beam."""

from __future__ import annotations

import argparse

CALLED = "python -m pipelines.telemetry"
MAX_DEAD = 0.1
"""The share of records that may be dead letters."""
PLACE = "(place in its file)"
"""A column that no file has: which file a record is in, and where there."""
TIME_UNITS = ("s", "ms", "us", "ns")
"""Of event times that are numbers."""

_EPILOG = """\
Any other option goes to Beam: --runner=FlinkRunner --flink_master=... (default: Beam's local runner, in this
process). A plan is a TOML file:

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

Declare unmatched = "other" (or "none", where reports are bit vectors) in every column in which a value may be missing
or not declared. Without it such a record is a dead letter: it says without noise that this record's value was missing,
and a record's other columns are lost with it. In CSV only an empty field without quotes is missing: NA is text, which
no domain of numbers has, and text columns have only if they declare it.

Mechanisms that remember (longitudinal ones, RAPPOR) take a secret, which is in a file or in the environment and never
on the command line, and the column that says whose record it is. Each worker reads it there:

  python -c 'from ldp_core import Secret; Secret.generate().to_file("secret")'    # keep it: it is the memory

Without --demo and --live, --plan, --input, --event-time and --output are required.

Examples:

  python -m pipelines.telemetry --demo
  python -m pipelines.telemetry --plan plan.toml --input 'events/*.parquet' --event-time time --output out
  python -m pipelines.telemetry --plan plan.toml --input 'events/*.ndjson' --event-time time --output out \\
    --secret-file secret --id user
  python -m pipelines.telemetry --live --for 60s
  python -m pipelines.telemetry --live --plan plan.toml --rate 1e6 --window 10s
  python -m pipelines.telemetry --live --engine flink --for 60s
"""


def _epilog(called: str) -> str:
    """The examples as they are called: by ``python -m``, or by the commands of ``ldp``."""
    return _EPILOG if called == CALLED else _EPILOG.replace(f"{CALLED} --live", "ldp live").replace(CALLED, "ldp run")


def parser(called: str = CALLED) -> argparse.ArgumentParser:
    """The command line, as it is ``called``."""
    made = argparse.ArgumentParser(
        prog=called,
        description="Perturb events at ingestion; print and write unbiased histograms and means, with error bars.",
        epilog=_epilog(called),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--plan", metavar="FILE", help="privacy plan, TOML")
    made.add_argument(
        "--window",
        metavar="LENGTH",
        help='length of the windows, as "30d", "1w", "1h", "15m", "5s" (default 1d; with --live 5s). They begin at '
        'multiples of it since 1970-01-01 in UTC, a Thursday: those of 7d on Thursdays; of 1w on Mondays, of "1w+6d" 6 '
        "days later, on Sundays",
    )
    made.add_argument("--confidence", type=float, default=0.95, help="of the intervals (default 0.95)")
    made.add_argument("--simultaneous", action="store_true", help="intervals that hold together over a column's values")
    _add_files(made.add_argument_group("events in files, perturbed at ingestion"))
    _add_live(
        made.add_argument_group(
            "live: simulated devices that perturb (in a checkout; needs ldp-telemetry[gcp], or [kafka])"
        )
    )
    return made


def _add_files(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--demo", action="store_true", help="run on 336,776 real flights, and compare with the truth")
    group.add_argument(
        "--input", metavar="PATTERN", nargs="+", help="event files: .parquet, .csv, .ndjson; globs allowed"
    )
    group.add_argument("--event-time", metavar="COLUMN", help="column with the time of the event")
    group.add_argument(
        "--time-unit",
        choices=list(TIME_UNITS),
        default="s",
        help="of event times that are numbers, since 1970-01-01 in UTC (default s)",
    )
    group.add_argument(
        "--output",
        metavar="DIR",
        help="directory for histograms and means (.parquet, .ndjson), dead letters (.ndjson), the plan (results.json)",
    )
    group.add_argument("--overwrite", action="store_true", help="delete the results of an earlier run in --output")
    group.add_argument(
        "--max-dead",
        type=float,
        default=MAX_DEAD,
        metavar="SHARE",
        help=f"end with 1 if more than this share of the records cannot be used, 0 to 1 (default {MAX_DEAD})",
    )
    group.add_argument(
        "--by", metavar="COLUMN", nargs="+", default=[], help="split estimates by these columns (unprotected)"
    )
    group.add_argument("--reports", action="store_true", help="write the private reports too (Parquet, packed)")
    secret = group.add_mutually_exclusive_group()
    secret.add_argument("--secret-file", metavar="FILE", help="with --id: keyed noise, by the hexadecimal digits in it")
    secret.add_argument("--secret-env", metavar="NAME", help="the same, by the digits in this environment variable")
    group.add_argument("--id", metavar="COLUMN", help="whose record it is; not passed on unless the plan keeps it")
    group.add_argument(
        "--record",
        metavar="COLUMN",
        nargs="?",
        const=PLACE,
        help="noise that a replay draws again: a record's own id is in this column; without a name, its place in "
        "its file is one",
    )
    group.add_argument(
        "--heavy-hitters", type=int, default=20, metavar="K", help="so many values to find in each window (default 20)"
    )
    group.add_argument("--top", type=int, default=4, metavar="N", help="print so many values of a column (default 4)")


def _add_live(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--live", action="store_true", help="stream, print each window as it closes, end with Ctrl-C or after --for"
    )
    group.add_argument(
        "--engine",
        choices=["local", "flink"],
        help="local: Pub/Sub and Beam's local runner, in this process (default, ldp-telemetry[gcp]); flink: Kafka and "
        "Flink, started and stopped with it (ldp-telemetry[kafka], Java, and Maven the first time)",
    )
    group.add_argument("--for", dest="duration", metavar="LENGTH", help='how long, as "60s", "10m" (default: no end)')
    group.add_argument(
        "--rate", default="20000", metavar="N", help='reports a second, or "max" for all it takes (default 20000)'
    )
    group.add_argument("--devices", type=int, default=100_000, metavar="N", help="how many report (default 100000)")
    group.add_argument(
        "--page",
        metavar="PORT",
        nargs="?",
        type=int,
        const=0,
        help="show the windows on a page too, served to this machine only (default: on a free port)",
    )
    group.add_argument(
        "--epsilon",
        type=float,
        metavar="E",
        help="of one report, without --plan: half for each of two columns (default 2)",
    )
