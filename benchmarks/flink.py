"""Flink on this machine: ``python -m benchmarks.flink``. Batch against Beam's local runner, and a stream from Kafka."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

import ldp_beam
from benchmarks.streams import FILES, private, write_events
from benchmarks.timing import seconds
from ldp_beam.io import ReadKafka, encode
from ldp_beam.telemetry.table import aligned
from ldp_core import UnaryEncoding
from tests.bed.flink import FlinkCluster
from tests.bed.kafka import KafkaBroker

MECHANISM = UnaryEncoding(range(16), epsilon=1.0)


def histogram(flags: list[str], folder: Path) -> None:
    """Parquet -> noise -> histograms of six windows.

    In batch Flink's runner reads all of ``ReadFromParquetBatched`` in one slot; this one shuffles the files first.
    """
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        files = pipeline | beam.Create([str(folder / "*.parquet")])
        tables = files | beam.io.ReadAllFromParquetBatched(columns=["narrow", "event_time"])
        _ = tables | private("narrow", MECHANISM)


KINDS = ("jobmanager", "taskmanager", "worker-pool")
PATIENCE = {"heartbeat.timeout": "180000", "pekko.ask.timeout": "120 s"}  # where others use the machine too
CPU = [f"{kind}: CPU us/record" for kind in KINDS]


def cpu(cluster: FlinkCluster) -> np.ndarray:
    """float64[kinds]: seconds of the processor that all processes of a kind took so far, as Linux tells them."""
    found = dict.fromkeys(KINDS, 0.0)
    for name, pid in cluster.processes.items():
        kind = next((kind for kind in KINDS if name.startswith(kind)), None)
        if kind:
            found[kind] += seconds_of(pid)
    return np.array(list(found.values()))


def seconds_of(pid: int) -> float:
    """Of a process, of its children that run, and of those that have ended: proc(5)."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(seconds_of, map(int, children)))
    return 0.0


def per_record(before: np.ndarray, after: np.ndarray, records: float) -> list[str]:
    return [f"{cost:.3g}" for cost in 1e6 * (after - before) / records]


def batch(sizes: list[int], task_managers: int) -> Iterator[list[str]]:
    """Rows of a table: seconds of the job, here and there, the better of two runs taken in turns."""
    with (
        tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch,
        FlinkCluster(Path(scratch) / "cluster", task_managers=task_managers, settings=PATIENCE) as cluster,
    ):
        for n in sizes:
            folder = Path(scratch) / str(n)
            folder.mkdir()
            write_events(folder, n // FILES * FILES)
            runs = []
            for _ in range(2):
                before = cpu(cluster)
                there = seconds(partial(histogram, cluster.pipeline_flags(), folder))
                costs = per_record(before, cpu(cluster), n)
                runs.append((there, seconds(partial(histogram, ["--runner=FnApiRunner"], folder)), costs))
            (there, _, costs), here = min(runs), min(run[1] for run in runs)
            rates = [f"{n / there / 1e6:.2f}", f"{here:.1f}", f"{n / here / 1e6:.2f}"]
            yield [str(task_managers), f"{n:.0e}", f"{there:.1f}", *rates, *costs]


MESSAGE = 1_000  # records
PARTITIONS = 4


def produce(servers: str, topic: str, rate: float, duration: float) -> None:
    """Messages of `MESSAGE` records, at a rate of records a second."""
    from confluent_kafka import Producer

    rng = np.random.default_rng(0)
    messages = [encode(pa.record_batch({"narrow": rng.integers(0, 16, MESSAGE)})) for _ in range(64)]
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    start, sent = time.time(), 0
    while (now := time.time()) < start + duration:
        while sent < (now - start) * rate / MESSAGE:
            producer.produce(topic, messages[sent % 64], partition=sent % PARTITIONS)
            sent += 1
        producer.poll(0.005)
    producer.flush(60)
    print(f"sent {sent * MESSAGE}", flush=True)


class Tell(beam.DoFn):
    """When which pane came, with how many records; one line a pane."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def process(self, row: Any) -> None:
        if int(row.value) == 0:
            with self._path.open("a") as file:
                file.write(json.dumps([row.window_end.micros / 1e6, time.time(), row.n]) + "\n")


def panes(path: Path) -> np.ndarray:
    """End of the window, when its pane came, its records."""
    lines = path.read_text().splitlines() if path.exists() else []
    return np.array([json.loads(line) for line in lines]).reshape(-1, 3)


TOPIC = {"retention.bytes": "67108864", "segment.bytes": "16777216", "file.delete.delay.ms": "1000"}  # keeps little
SETTLED = 15.0  # seconds after which a stream runs as it will


def all_run(cluster: FlinkCluster) -> bool:
    """Whether a job is there and all its tasks run."""
    jobs = cluster.get("/jobs/overview")["jobs"]
    return any(job["tasks"]["running"] == job["tasks"]["total"] for job in jobs)


def stream(rate: float, duration: float, task_managers: int) -> list[str]:
    """A row of a table: a stream from Kafka to panes of one second, checkpoints of 10 s."""
    with (
        tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch,
        KafkaBroker() as broker,
        FlinkCluster(Path(scratch) / "cluster", task_managers=task_managers, settings=PATIENCE) as cluster,
    ):
        topic = broker.create_topic("events", PARTITIONS, TOPIC)
        path = Path(scratch) / "panes"
        pipeline = beam.Pipeline(options=PipelineOptions(cluster.pipeline_flags(streaming=True, checkpoint_every=10.0)))
        events = pipeline | ReadKafka(broker.servers, topic, group="bench", max_delay=0.5, position="position")
        rows = events | ldp_beam.PrivateHistogram("narrow", MECHANISM, window=1, record="position", stabilize=False)
        _ = rows | beam.ParDo(Tell(path))
        result = pipeline.run()
        while not all_run(cluster):
            time.sleep(1)
        producer = multiprocessing.get_context("spawn").Process(
            target=produce, args=(broker.servers, topic, rate, duration)
        )
        producer.start()
        producer.join(SETTLED)
        start, before = time.time(), cpu(cluster)
        producer.join()
        costs = per_record(before, cpu(cluster), rate * (time.time() - start))
        deadline, sent = time.time() + 60, rate * duration
        while (seen := panes(path)[:, 2].sum()) < 0.99 * sent and time.time() < deadline:
            time.sleep(1)
        result.cancel()
        found = panes(path)
    settled = found[found[:, 0] > found[:, 0].min() + SETTLED]
    late = settled[:, 1] - settled[:, 0]
    lateness = [f"{np.median(late):.1f}", f"{np.quantile(late, 0.99):.1f}"]
    return [str(task_managers), f"{rate:.0e}", f"{sent:.0f}", f"{seen:.0f}", *lateness, *costs]


def main() -> None:
    """Print the tables, a line as soon as it is there."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.flink", description=__doc__)
    made.add_argument("--rows", type=float, nargs="*", default=[1e6, 1e7, 1e8], metavar="N", help="of batch jobs")
    made.add_argument(
        "--rates", type=float, nargs="*", default=[1e5, 1e6], metavar="N", help="records a second, from Kafka"
    )
    made.add_argument("--seconds", type=float, default=60, metavar="N", help="that a stream lasts (default: 60)")
    made.add_argument("--task-managers", type=int, default=2, metavar="N", help="of one slot each (default: 2)")
    options: Any = made.parse_args()
    tables: dict[str, tuple[list[str], Iterator[list[str]]]] = {
        "Parquet to windowed histograms, OUE d=16, in batch": (
            ["TaskManagers", "rows", "Flink s", "M/s", "FnApiRunner s", "M/s", *CPU],
            batch([int(n) for n in options.rows], options.task_managers) if options.rows else iter(()),
        ),
        "Kafka to panes of 1 s, OUE d=16, noise of positions, checkpoints of 10 s": (
            ["TaskManagers", "records/s", "sent", "in panes", "pane after its window: median s", "99 % s", *CPU],
            (stream(rate, options.seconds, options.task_managers) for rate in options.rates),
        ),
    }
    for title, (heading, rows) in tables.items():
        lines = [heading]
        for row in rows:
            lines.append(row)
            print(row, flush=True)
        print(title, aligned(lines), sep="\n\n", flush=True)


if __name__ == "__main__":
    main()
