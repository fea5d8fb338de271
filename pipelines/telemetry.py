"""Perturb events at ingestion and print their per-window histograms: ``python -m pipelines.telemetry``.

Reads event files (Parquet, CSV, NDJSON; globs allowed), turns each record into one private report as a plan
says, tallies the reports in windows of event time, and writes debiased histograms with confidence intervals.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from ldp_core import LdpError, PrivacyPlan
from pipelines import demo
from pipelines.job import DEAD_LETTERS, HISTOGRAMS, TelemetryJob, read_lines
from pipelines.progress import PROGRESS
from pipelines.table import coverage_table, histogram_tables

_EPILOG = """\
Any other option goes to Beam: --runner=FlinkRunner --flink_master=... (default: Beam's local runner, in this
process). A plan is a TOML file:

  keep = ["country"]                      # columns that pass unprotected

  [columns.os]                            # columns that leave as private reports
  mechanism = "unary_encoding"
  epsilon = 1.0
  domain = ["ios", "android"]
  unmatched = "other"                     # what is not in the domain, nulls included

Without --demo, --plan, --input, --event-time and --output are required.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m pipelines.telemetry",
        description="Perturb events at ingestion; print and write per-window debiased histograms with error bars.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--demo", action="store_true", help="run on 336,776 real flights, and compare with the truth")
    made.add_argument("--plan", metavar="FILE", help="privacy plan, TOML")
    made.add_argument(
        "--input", metavar="PATTERN", nargs="+", help="event files: .parquet, .csv, .ndjson; globs allowed"
    )
    made.add_argument("--event-time", metavar="COLUMN", help="column with the time of the event")
    made.add_argument(
        "--window", metavar="LENGTH", default="1d", help='length of the windows, as "30d", "1h", "15m" (default 1d)'
    )
    made.add_argument(
        "--output", metavar="DIR", help="directory for histograms.parquet, histograms.ndjson and dead_letters.ndjson"
    )
    made.add_argument(
        "--by", metavar="COLUMN", nargs="+", default=[], help="split histograms by these columns (unprotected)"
    )
    made.add_argument("--reports", action="store_true", help="write the private reports too (Parquet, packed)")
    made.add_argument("--confidence", type=float, default=0.95, help="of the intervals (default 0.95)")
    made.add_argument("--simultaneous", action="store_true", help="intervals that hold together over a column's values")
    made.add_argument("--top", type=int, default=4, metavar="N", help="values to print a column (default 4)")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0 if it succeeded, 2 if the arguments or the input are at fault."""
    commands = parser()
    args, beam_args = commands.parse_known_args(argv)
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    try:
        if args.demo:
            return _demo(args, beam_args)
        missing = [
            f"--{name.replace('_', '-')}"
            for name in ("plan", "input", "event_time", "output")
            if not getattr(args, name)
        ]
        if missing:
            commands.error(f"the following arguments are required without --demo: {', '.join(missing)}")
        job = TelemetryJob(
            PrivacyPlan.from_toml(Path(args.plan)),
            tuple(args.input),
            args.event_time,
            args.window,
            args.output,
            tuple(args.by),
            args.reports,
            args.confidence,
            args.simultaneous,
        )
        run(job, beam_args, top=args.top)
    except LdpError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _demo(args: argparse.Namespace, beam_args: list[str]) -> int:
    plan = PrivacyPlan.from_toml(Path(args.plan or demo.PLAN))
    with tempfile.TemporaryDirectory(prefix="ldp-demo-") as scratch:
        events, truth = demo.write_events(Path(scratch) / "events")
        output = args.output or "out/demo"
        job = TelemetryJob(plan, (events,), demo.EVENT_TIME, demo.WINDOW, output, (), True)
        histograms = run(job, beam_args, top=args.top)
    print("Do the 95% intervals hold the truth? (known here, and only here)")
    print(coverage_table(histograms, demo.true_counts(truth, plan, job.window_micros // 1_000_000)))
    return 0


def run(job: TelemetryJob, beam_args: Sequence[str], *, top: int) -> pa.Table:
    """Run the job, print its tables and its balance; return the histograms."""
    options = PipelineOptions(["--runner=FnApiRunner", *beam_args])
    print(f"{job.plan!r}\n")
    with PROGRESS.show():
        pipeline = beam.Pipeline(options=options)
        job.build(pipeline)
        result = pipeline.run()
        result.wait_until_finish()
    with FileSystems.open(f"{job.output}/{HISTOGRAMS}.parquet") as stream:
        histograms = pq.read_table(stream)
    with FileSystems.open(f"{job.output}/{DEAD_LETTERS}.ndjson") as stream:
        letters = read_lines(line.decode() for line in stream)
    print()
    for text in histogram_tables(histograms, job.plan, top=top):
        print(text)
    counted = {(row["window_start"], tuple(row["key"])): row["n"] for row in histograms.to_pylist()}
    dead = sum(letter["count"] for letter in letters)
    print(f"records: {sum(counted.values()):,} in histograms + {dead:,} dead letters; written to {job.output}")
    for letter in letters:
        print(
            f"  dead letters: {letter['count']:,} x {letter['reason']}"
            + (f" in {letter['column']!r}" if letter["column"] else "")
        )
    print()
    return histograms


if __name__ == "__main__":
    sys.exit(main())
