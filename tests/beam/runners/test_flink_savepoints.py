"""Streams on Flink that are stopped and go on, and that write files while checkpoints are made."""

import time
from functools import partial

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.io.unbounded_source import ReadFromUnboundedSource
from apache_beam.transforms.window import FixedWindows

from ldp_beam import BoundContributions, Histogram, Perturb
from ldp_beam.io import WriteReports
from ldp_core import PrivacyPlan, RandomizedResponse
from tests.bed.flink import FlinkCluster

from .conftest import need_flink
from .flink_faults import PATIENCE, Job, until
from .test_flink_watermark import Ticks, TicksReader

pytestmark = pytest.mark.flink


def _tell(name, path):
    with path.open("a") as file:
        file.write(f"{name}\n")


def _told(path):
    return sorted(path.read_text().split()) if path.exists() else []


def _sources(p, path, *names):
    for name in names:
        _ = p | name >> beam.Create([name]) | f"Tell {name}" >> beam.Map(_tell, path)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_each_source_is_read_once_when_a_savepoint_goes_on_with_another_one(flink_cluster, tmp_path, parallelism):
    """The new one took the old one's state, and was never read; the old one was read a second time."""
    path = tmp_path / "told"
    flags = partial(flink_cluster.pipeline_flags, streaming=True, checkpoint_every=1.0)
    job = Job(flink_cluster, lambda p: _sources(p, path, "first"), flags(parallelism=2))
    until(lambda: _told(path) == ["first"], PATIENCE, "the source is read")
    place = job.stop()
    again = [*flags(parallelism=parallelism), f"--savepoint_path={place}"]
    with Job(flink_cluster, lambda p: _sources(p, path, "first", "second"), again) as job:
        until(lambda: len(_told(path)) == 2, PATIENCE, "another source is read")
        until(lambda: job.checkpoints() >= 2, PATIENCE, "all that there is has been read")
    assert _told(path) == ["first", "second"]


def test_reports_become_files_while_checkpoints_are_made(flink_cluster, tmp_path):
    """Beam's file sinks have side inputs, with which each checkpoint failed. (Ours have none.)"""
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    events = pa.record_batch({"crashed": [True, False]})

    def build(p):
        ticks = p | ReadFromUnboundedSource(Ticks(), max_read_time_seconds=0.5) | beam.Map(lambda _: events)
        _ = ticks | Perturb(plan) | WriteReports(f"{tmp_path}/part", plan, events.schema, triggering_frequency=1)
        tables = ticks | "Tables" >> beam.Map(lambda batch: pa.Table.from_batches([batch]))
        _ = tables | beam.io.WriteToParquetBatched(f"{tmp_path}/beams", events.schema, triggering_frequency=1)

    with Job(flink_cluster, build, flink_cluster.pipeline_flags(streaming=True, checkpoint_every=1.0)) as job:
        for files in "part*.parquet", "beams*":
            until(lambda files=files: len([*tmp_path.glob(files)]) >= 3, PATIENCE, "files")
        done = job.checkpoints()
        until(lambda: job.checkpoints() >= done + 2, PATIENCE, "checkpoints")


class Slow(Ticks):
    """The watermark is two seconds behind the elements."""

    def create_reader(self, options, checkpoint_mark):
        reader = TicksReader()
        reader.get_watermark = lambda: reader.now - 2
        return reader


def test_what_waits_for_a_checkpoint_is_not_late(flink_cluster, tmp_path):
    """Where a wait is longer than the watermark is behind, records that are older than their batch were."""
    windows, late = tmp_path / "windows", tmp_path / "late"
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["t"])

    def build(p):
        ticks = p | ReadFromUnboundedSource(Slow(), max_read_time_seconds=0.5)
        events = ticks | beam.Map(lambda _: pa.record_batch({"crashed": [True], "t": [time.time() - 1]}))
        count = Histogram("crashed", plan["crashed"], window=1, event_time="t").with_exception_handling()
        rows, letters = events | Perturb(plan) | count
        _ = rows | beam.Map(lambda row: row.window_start) | "Tell rows" >> beam.Map(_tell, windows)
        _ = letters | beam.Map(lambda letter: letter.reason) | "Tell letters" >> beam.Map(_tell, late)

    with Job(flink_cluster, build, flink_cluster.pipeline_flags(streaming=True, checkpoint_every=5.0)):
        until(lambda: len(set(_told(windows))) >= 12, PATIENCE, "windows")
    assert _told(late) == []


def test_a_limit_that_takes_late_records_holds_no_window_back(flink_cluster, tmp_path):
    """What comes behind it, and windows of its dead letters, waited until no late record could come any more."""
    windows, letters = tmp_path / "windows", tmp_path / "letters"
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["t"])

    def build(p):
        ticks = p | ReadFromUnboundedSource(Ticks(), max_read_time_seconds=0.5)
        events = ticks | beam.Map(lambda _: pa.record_batch({"user": ["a"], "crashed": [True], "t": [time.time()]}))
        events |= beam.WindowInto(FixedWindows(2))  # (else the letters are of the end of the hour)
        limit = BoundContributions("user", 1, window=2, event_time="t", allowed_lateness="1h")
        passed, dead = events | limit.with_exception_handling()
        reports = passed | Perturb(plan, stabilize=False)
        rows = reports | Histogram("crashed", plan["crashed"], window=1, event_time="t")
        _ = rows | beam.Map(lambda row: row.window_start) | "Tell rows" >> beam.Map(_tell, windows)
        counts = dead | beam.Map(lambda letter: (letter.reason, letter.count))
        told = counts | beam.CombinePerKey(sum) | "Counts" >> beam.Values()
        _ = told | "Tell letters" >> beam.Map(_tell, letters)

    with Job(flink_cluster, build, flink_cluster.pipeline_flags(streaming=True, checkpoint_every=2.0)):
        until(lambda: len(set(_told(windows))) >= 4, 60.0, "windows")
        until(lambda: len(_told(letters)) >= 4, 60.0, "windows of dead letters")


def test_checkpoints_are_kept_when_a_cluster_is_stopped(tmp_path):
    """Flink removes those of a job that did not fail: there was none to go on from."""
    need_flink()
    kept = tmp_path / "kept"
    with FlinkCluster(tmp_path / "cluster", task_managers=1, checkpoints=kept, timeout=PATIENCE) as cluster:
        flags = cluster.pipeline_flags(streaming=True, checkpoint_every=1.0)
        job = Job(cluster, lambda p: _sources(p, tmp_path / "told", "first"), flags).__enter__()
        until(job.checkpoints, PATIENCE, "a checkpoint")
    assert list(kept.glob("*/chk-*/_metadata"))
