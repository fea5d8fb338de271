"""Perturb events at ingestion and print histograms and means per window: ``python -m pipelines.telemetry``.

Reads event files (Parquet, CSV, NDJSON; globs allowed), turns each record into one private report as a plan
says, tallies the reports in windows of event time, and writes unbiased histograms and means with confidence intervals.

With ``--live`` it needs no files: simulated devices perturb and stream reports, see `pipelines.local.live`, which is
not in the wheel.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from ldp_beam.elements.faults import NO_YEAR, NULL, UNDECLARED, UNREADABLE
from ldp_beam.elements.times import PER_SECOND
from ldp_beam.elements.windows import seconds
from ldp_beam.io import HISTOGRAM_SCHEMA
from ldp_core import Domain, HeavyHitters, LdpError, ParameterError, PrivacyPlan, Secret
from ldp_core.parameters import check_probability
from ldp_report import RESULTS, about
from pipelines import demo
from pipelines.job import DEAD_LETTERS, HISTOGRAMS, MEANS, PLACE, TelemetryJob, read_lines
from pipelines.means import MEAN_SCHEMA
from pipelines.progress import PROGRESS
from pipelines.table import coverage_table, estimate_tables

MAX_DEAD = 0.1
"""The share of records that may be dead letters."""
_LOCAL = ("FnApiRunner", "DirectRunner", "BundleBasedDirectRunner", "PrismRunner")
"""Runners whose workers read the secret where this command runs."""

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


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m pipelines.telemetry",
        description="Perturb events at ingestion; print and write unbiased histograms and means, with error bars.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--plan", metavar="FILE", help="privacy plan, TOML")
    made.add_argument(
        "--window",
        metavar="LENGTH",
        help='length of the windows, as "30d", "1h", "15m", "5s" (default 1d; with --live 5s)',
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
        choices=list(PER_SECOND),
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0 if it succeeded, 1 if too many records could not be used or live totals do not reconcile, 2 if arguments or
        input are at fault.
    """
    commands = parser()
    args, beam_args = commands.parse_known_args(argv)
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    try:
        _check_options(commands, args, beam_args)
        if args.live:
            _check_live(commands, args, beam_args)
            return _live(args)
        if args.engine:
            commands.error("--engine is for --live; elsewhere --runner says where the pipeline runs")
        if args.page is not None:
            commands.error("--page is for --live; of files: ldp report OUTPUT")
        if args.demo:
            if args.id or args.record or args.secret_file or args.secret_env:
                commands.error("--demo has nobody's ids: it does not take --id, --record and a secret")
            return _demo(args, beam_args)
        missing = [
            f"--{name.replace('_', '-')}"
            for name in ("plan", "input", "event_time", "output")
            if not getattr(args, name)
        ]
        if missing:
            commands.error(f"the following arguments are required without --demo and --live: {', '.join(missing)}")
        job = TelemetryJob(
            PrivacyPlan.from_toml(Path(args.plan)),
            tuple(args.input),
            args.event_time,
            args.window or "1d",
            args.output,
            tuple(args.by),
            args.reports,
            args.confidence,
            args.simultaneous,
            _key(args),
            args.id,
            args.heavy_hitters,
            args.time_unit,
            args.record,
        )
        run(job, beam_args, top=args.top, max_dead=args.max_dead, overwrite=args.overwrite)
    except LostRecordsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except LdpError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


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


def _key(args: argparse.Namespace) -> Callable[[], Secret] | None:
    """How a worker gets the secret; what travels with the job is the name of the file or variable."""
    if args.secret_file is not None:
        return partial(Secret.from_file, args.secret_file)
    return None if args.secret_env is None else partial(Secret.from_env, args.secret_env)


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


def _live(args: argparse.Namespace) -> int:
    if importlib.util.find_spec("pipelines.local") is None:
        raise LdpError("--live is not part of the installed package: run it in a checkout of the source")
    live = importlib.import_module("pipelines.local.live")  # needs packages that the other modes do not
    try:
        rate = None if args.rate == "max" else float(args.rate)
    except ValueError:
        raise ParameterError(f'--rate is a number of reports a second or "max", got {args.rate!r}') from None
    epsilon = 2.0 if args.epsilon is None else args.epsilon
    job = live.LiveJob(
        PrivacyPlan.from_toml(Path(args.plan)) if args.plan else live.default_plan(epsilon),
        window=args.window or "5s",
        rate=rate,
        devices=args.devices,
        duration=None if args.duration is None else seconds(args.duration, name="--for"),
        confidence=args.confidence,
        simultaneous=args.simultaneous,
    )
    for name in ("", "apache_beam"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # a failure is told once, by `run`
    return int(live.run(job, engine=args.engine or "local", page=args.page))


def _demo(args: argparse.Namespace, beam_args: list[str]) -> int:
    plan = PrivacyPlan.from_toml(Path(args.plan or demo.PLAN))
    plan.check_oracles()
    with tempfile.TemporaryDirectory(prefix="ldp-demo-") as scratch:
        events, truth = demo.write_events(Path(scratch) / "events")
        output = args.output or "out/demo"
        job = TelemetryJob(plan, (events,), demo.EVENT_TIME, demo.WINDOW, output, (), True)
        overwrite = args.overwrite or not args.output  # (the folder of the demo is nobody's)
        histograms = run(job, beam_args, top=args.top, max_dead=args.max_dead, overwrite=overwrite)
    print("Do the 95% intervals hold the truth? (known here, and only here)")
    print(coverage_table(histograms, demo.true_counts(truth, plan, job.window_micros // 1_000_000)))
    return 0


class LostRecordsError(LdpError):
    """Too many records could not be used: what there is of results is of the others."""


def run(
    job: TelemetryJob, beam_args: Sequence[str], *, top: int, max_dead: float = 1.0, overwrite: bool = False
) -> pa.Table:
    """Run the job, print its tables and its balance; return the histograms.

    Raises:
        LostRecordsError: a larger share of the records than ``max_dead`` became dead letters. All is written.
        InputError: there are results of an earlier run, and not ``overwrite``.
        ParameterError: ``max_dead`` is no share.
    """
    check_probability("max_dead", max_dead)
    job.claim_output(overwrite=overwrite)
    options = PipelineOptions(["--runner=FnApiRunner", *beam_args])
    secret = None
    if job.key is not None:
        local = options.view_as(StandardOptions).runner in _LOCAL
        secret = f"its fingerprint is {job.key().fingerprint}" if local else "the workers log its fingerprint"
    print(f"{job.plan!r}\n" if secret is None else f"{job.plan!r}\n\nsecret: {secret}\n")
    with PROGRESS.show():
        pipeline = beam.Pipeline(options=options)
        job.build(pipeline)
        result = pipeline.run()
        result.wait_until_finish()
        read = _counted(result, "rows_read")
        PROGRESS.settle(read)
    with FileSystems.create(f"{job.output}/{RESULTS}") as stream:
        stream.write(about(job.plan, job.confidence).encode())
    all_numbers = len(job.numbers) == len(job.plan.columns)
    histograms = HISTOGRAM_SCHEMA.empty_table() if all_numbers else _written(job, HISTOGRAMS)
    means = _written(job, MEANS) if job.numbers else MEAN_SCHEMA.empty_table()
    with FileSystems.open(f"{job.output}/{DEAD_LETTERS}.ndjson") as stream:
        letters = read_lines(line.decode() for line in stream)
    print()
    for text in estimate_tables(histograms, means, job.plan, top=top):
        print(text)
    rows = [row for table in (histograms, means) for row in table.select(["window_start", "key", "n"]).to_pylist()]
    counted = {(row["window_start"], tuple(row["key"])): row["n"] for row in rows}
    dead = sum(letter["count"] for letter in letters)
    what = "estimates" if job.numbers else "histograms"
    if all(isinstance(m, HeavyHitters) for m in job.plan.columns.values()):
        what = "windows in which something was found"  # there is no row of the others
    print(f"records: {sum(counted.values()):,} in {what} + {dead:,} dead letters; written to {job.output}")
    for letter in letters:
        print(f"  dead letters: {_letter_text(letter)}")
    print("\n".join([*_hints(job.plan, letters), *_hint_of_times(job, letters, _counted(result, "odd_times")), ""]))
    _check_lost(job, letters, read or sum(counted.values()) + dead, max_dead)
    return histograms


def _check_lost(job: TelemetryJob, letters: list[dict[str, Any]], records: int, max_dead: float) -> None:
    """Raise if more than this share of the records, or of the files, is lost."""
    files = len(job.read.paths)
    broken = sum(letter["count"] for letter in letters if letter["reason"] == UNREADABLE)
    if broken > max_dead * files:  # (nobody knows how many records are in the rest of a file)
        raise LostRecordsError(
            f"{broken:,} of {files:,} files could not be read to their end, more than --max-dead {max_dead:g} permits"
        )
    dead = sum(letter["count"] for letter in letters)
    if dead > max_dead * records:
        most = sorted(letters, key=lambda letter: -letter["count"])[:3]
        reasons = ", ".join(map(_letter_text, most))
        raise LostRecordsError(
            f"{dead:,} of {records:,} records could not be used, more than --max-dead {max_dead:g} permits: {reasons}"
        )


def _letter_text(letter: dict[str, Any]) -> str:
    return f"{letter['count']:,} x {letter['reason']}" + (f" in {letter['column']!r}" if letter["column"] else "")


def _counted(result: Any, name: str) -> int | None:
    """What the runner says that a counter has come to; None if it does not."""
    found: list[Any] = []
    with suppress(NotImplementedError, AttributeError, ValueError):  # runners differ in what they tell
        found = result.metrics().query(MetricsFilter().with_namespace("ldp").with_name(name))["counters"]
    told = [one.attempted if one.committed is None else one.committed for one in found]
    return sum(told) if told and None not in told else None


def _hint_of_times(job: TelemetryJob, letters: list[dict[str, Any]], odd: int | None) -> list[str]:
    if not odd and not any(letter["reason"] == NO_YEAR for letter in letters):
        return []
    return [
        f"  hint: there are times before 1990 or after 2100 in {job.event_time!r}. If they are numbers, --time-unit "
        f"says what they count; it is {job.time_unit}."
    ]


def _hints(plan: PrivacyPlan, letters: list[dict[str, Any]]) -> list[str]:
    """What to do about values that were missing or undeclared, which dead letters tell without noise."""
    named = {letter["column"] for letter in letters if letter["reason"] in (NULL, UNDECLARED)}
    columns = [name for name, m in plan.columns.items() if name in named and isinstance(m.inputs, Domain)]
    if not columns:
        return []
    return [
        f"  hint: these letters say without noise that a value of {', '.join(map(repr, columns))} was missing or not "
        'declared.\n  unmatched = "other" in the plan makes it one more answer, with noise as every answer '
        '("none" for bit vectors).'
    ]


def _written(job: TelemetryJob, name: str) -> pa.Table:
    with FileSystems.open(f"{job.output}/{name}.parquet") as stream:
        return pq.read_table(stream)


if __name__ == "__main__":
    sys.exit(main())
