"""Run the telemetry job that options describe; print its tables and its balance."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from ldp_beam.elements.faults import NO_YEAR, NULL, UNDECLARED, UNREADABLE
from ldp_beam.telemetry import demo
from ldp_beam.telemetry.job import HISTOGRAMS, PLACE, TelemetryJob, read_lines
from ldp_beam.telemetry.options import FileOptions
from ldp_beam.telemetry.table import coverage_table, estimate_tables
from ldp_core import Domain, HeavyHitters, LdpError, ParameterError, PrivacyPlan, Secret
from ldp_core.engine import DEAD_LETTERS, RESULTS, about, asked_of, check_probability, visible_lines

_LOCAL = ("FnApiRunner", "DirectRunner", "BundleBasedDirectRunner", "PrismRunner")
"""Runners whose workers read the secret where this command runs."""


def start(options: FileOptions) -> None:
    """Run what the options ask for, the demonstration or a job of one's own."""
    if options.demo:
        return _demo(options)
    record = PLACE if options.by_place else options.record
    job = TelemetryJob(
        PrivacyPlan.from_toml(Path(options.plan or "")),
        options.input,
        options.event_time or "",
        options.window,
        options.output or "",
        options.by,
        options.reports,
        options.confidence,
        options.simultaneous,
        _key(options),
        options.id,
        options.heavy_hitters,
        options.time_unit,
        record,
        asked_of(options.ask),
        options.repeats,
    )
    _ = run(job, options)
    return None


def _key(options: FileOptions) -> Callable[[], Secret] | None:
    """How a worker gets the secret; what travels with the job is the name of the file or variable."""
    if options.secret_file is not None:
        return partial(Secret.from_file, options.secret_file)
    return None if options.secret_env is None else partial(Secret.from_env, options.secret_env)


def _demo(options: FileOptions) -> None:
    plan = PrivacyPlan.from_toml(Path(options.plan or demo.PLAN))
    plan.check_oracles()
    with tempfile.TemporaryDirectory(prefix="ldp-demo-") as scratch:
        events, truth = demo.write_events(Path(scratch) / "events")
        output = options.output or "out/demo"
        job = TelemetryJob(plan, (events,), demo.EVENT_TIME, demo.WINDOW, output, (), True)
        overwrite = options.overwrite or not options.output  # (the folder of the demo is nobody's)
        histograms = run(job, dataclasses.replace(options, overwrite=overwrite))
    ends = pc.min_max(truth[demo.EVENT_TIME]).as_py()  # (of flights that everybody knows)
    _write_about(job, (ends["min"], ends["max"]))
    print("Do the 95% intervals hold the truth? (known here, and only here)")
    print(coverage_table(histograms, demo.true_counts(truth, plan, job.window_micros // 1_000_000)))


class LostRecordsError(LdpError):
    """Too many records could not be used: what there is of results is of the others."""


def run(job: TelemetryJob, options: FileOptions) -> pa.Table:
    """Run the job, print its tables and its balance; return the table of histograms, None if there are none.

    If more than ``max_dead`` of the records became dead letters, it is a `LostRecordsError`, after all is written.
    """
    check_probability("max_dead", options.max_dead)
    beams = PipelineOptions(["--runner=FnApiRunner", *options.beam])
    local = beams.view_as(StandardOptions).runner in _LOCAL  # of other runners Beam does not know all options
    if local and (unknown := beams.get_all_options(retain_unknown_options=True).keys() - beams.get_all_options()):
        name = min(unknown).replace("_", "-")
        raise ParameterError(f"neither this command nor Beam has an option --{name}: remove it, or see --help")
    try:
        pipeline = beam.Pipeline(options=beams)
    except ValueError as error:  # of a runner that there is not
        raise ParameterError(str(error)) from None
    job.claim_output(overwrite=options.overwrite)
    secret = None
    if job.key is not None:
        secret = f"its fingerprint is {job.key().fingerprint}" if local else "the workers log its fingerprint"
    print(visible_lines(f"{job.plan!r}\n" if secret is None else f"{job.plan!r}\n\nsecret: {secret}\n"))
    began = time.perf_counter()
    job.build(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    read = _counted(result, "rows_read")
    records = "done" if read is None else f"{read:,} records read"
    print(f"perturbed at ingestion: {records} in {time.perf_counter() - began:.1f} s", file=sys.stderr)
    _write_about(job)
    found = {file: _written(job, file) for file in job.files}
    with FileSystems.open(f"{job.output}/{DEAD_LETTERS}.ndjson") as stream:
        letters = read_lines(line.decode() for line in stream)
    print()
    of_column = {name: found[file] for file, names in job.files.items() for name in names}
    for text in estimate_tables(of_column, job.questions, job.asked, top=options.top):
        print(visible_lines(text))
    rows = [row for table in found.values() for row in table.select(["window_start", "key", "n"]).to_pylist()]
    counted = {(row["window_start"], tuple(row["key"])): row["n"] for row in rows}
    dead = sum(letter["count"] for letter in letters)
    what = "histograms" if found.keys() == {HISTOGRAMS} else "estimates"
    if all(isinstance(m, HeavyHitters) for m in job.plan.columns.values()):
        what = "windows in which something was found"  # there is no row of the others
    print(f"records: {sum(counted.values()):,} in {what} + {dead:,} dead letters; written to {job.output}")
    for letter in letters:
        print(visible_lines(f"  dead letters: {_letter_text(letter)}"))
    hints = [*_hints(job.plan, letters), *_hint_of_times(job, letters, _counted(result, "odd_times")), ""]
    print(visible_lines("\n".join(hints)))
    _check_lost(job, letters, read or sum(counted.values()) + dead, options.max_dead)
    return found.get(HISTOGRAMS)


def _write_about(job: TelemetryJob, covered: tuple[Any, Any] | None = None) -> None:
    whom = {name: question.population for name, question in job.questions.items()}
    with FileSystems.create(f"{job.output}/{RESULTS}") as stream:
        stream.write(about(job.plan, job.confidence, covered, whom, job.repeats).encode())


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
    where = f" in {letter['column_name']!r}" if letter["column_name"] else ""
    return f"{letter['count']:,} x {letter['reason']}{where}"


def _counted(result: Any, name: str) -> int | None:
    """What the runner says that a counter has come to; None if it does not."""
    found: list[Any] = []
    with suppress(NotImplementedError, AttributeError, ValueError):  # runners differ in what they tell
        found = result.metrics().query(MetricsFilter().with_namespace("ldp").with_name(name))["counters"]
    numbers = [one.attempted if one.committed is None else one.committed for one in found]
    return sum(numbers) if numbers and None not in numbers else None


def _hint_of_times(job: TelemetryJob, letters: list[dict[str, Any]], odd: int | None) -> list[str]:
    if not odd and not any(letter["reason"] == NO_YEAR for letter in letters):
        return []
    return [
        f"  hint: there are times before 1990 or after 2100 in {job.event_time!r}. If they are numbers, --time-unit "
        f"says what they count; it is {job.time_unit}."
    ]


def _hints(plan: PrivacyPlan, letters: list[dict[str, Any]]) -> list[str]:
    """What to do about values that were missing or undeclared, which dead letters tell without noise."""
    named = {letter["column_name"] for letter in letters if letter["reason"] in (NULL, UNDECLARED)}
    columns = [name for name, inputs in plan.inputs.items() if name in named and isinstance(inputs, Domain)]
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
