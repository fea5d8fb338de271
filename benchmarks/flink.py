"""Flink on this machine: ``python -m benchmarks.flink``. Batch against Beam's local runner, and a stream from Kafka."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

import ldp_beam
from benchmarks.processes import Pins, Watch, slope
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


def batch(sizes: list[int], task_managers: int, pinned: bool) -> Iterator[list[str]]:
    """Rows of a table: seconds of the job, here and there, the better of two runs taken in turns."""
    with (
        tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch,
        FlinkCluster(Path(scratch) / "cluster", task_managers=task_managers, settings=PATIENCE) as cluster,
        Pins(cluster) if pinned else nullcontext(),
    ):
        flink = cluster.pipeline_flags()
        for n in sizes:
            folder = Path(scratch) / str(n)
            folder.mkdir()
            write_events(folder, n // FILES * FILES)
            runs = []
            for _ in range(2):
                with Watch(cluster, every=0.5) as watch:
                    there = seconds(partial(histogram, flink, folder))
                runs.append((there, watch, seconds(partial(histogram, ["--runner=FnApiRunner"], folder))))
            there, watch, _ = min(runs, key=itemgetter(0))
            here = min(run[2] for run in runs)
            yield [
                *[str(task_managers), f"{n:.0e}", f"{there:.1f}", f"{n / there / 1e6:.2f}"],
                *[f"{here:.1f}", f"{n / here / 1e6:.2f}", *cpu(watch.samples[0], watch.samples[-1], n)],
            ]


KINDS = {"taskmanager": "TaskManagers", "workers": "Python workers", "jobmanager": "JobManager"}
CPU = [f"{name}: CPU us/record" for name in KINDS.values()]
PATIENCE = {"heartbeat.timeout": "180000", "pekko.ask.timeout": "120 s"}  # where others use the machine too


def cpu(first: dict[str, float], last: dict[str, float], records: float) -> list[str]:
    """Microseconds of the processor for a record, of each kind of process."""
    return [f"{1e6 * (last[f'{kind} cpu'] - first[f'{kind} cpu']) / records:.3g}" for kind in KINDS]


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
GROWN = 240.0  # seconds after which its memory is looked at: by then Java has touched its heap


def all_run(cluster: FlinkCluster) -> bool:
    """Whether a job is there and all its tasks run."""
    jobs = cluster.get("/jobs/overview")["jobs"]
    return any(job["tasks"]["running"] == job["tasks"]["total"] for job in jobs)


def stream(rate: float, duration: float, task_managers: int) -> Iterator[list[str]]:
    """A row of a table: a stream from Kafka to panes of one second, checkpoints of 10 s. Of a long one, its memory."""
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
        with Watch(cluster, more={"Kafka": broker.process.pid}) as watch:
            producer = multiprocessing.get_context("spawn").Process(
                target=produce, args=(broker.servers, topic, rate, duration)
            )
            producer.start()
            producer.join(SETTLED)
            first = watch.sample()
            producer.join()
            last = watch.sample()
            deadline, sent = time.time() + 60, rate * duration
            while (seen := panes(path)[:, 2].sum()) < 0.99 * sent and time.time() < deadline:
                time.sleep(1)
        result.cancel()
        found = panes(path)
    settled = found[found[:, 0] > found[:, 0].min() + SETTLED]
    late = settled[:, 1] - settled[:, 0]
    records = rate * (last["time"] - first["time"])
    yield [
        *[str(task_managers), f"{rate:.0e}", f"{sent:.0f}", f"{seen:.0f}"],
        *[f"{np.median(late):.1f}", f"{np.quantile(late, 0.99):.1f}", *cpu(first, last, records)],
    ]
    if duration > 2 * GROWN:
        print(aligned(memory(watch, first["time"])), flush=True)


def memory(watch: Watch, start: float) -> list[list[str]]:
    """A table of megabytes: every five minutes, and the growth a minute with its standard error."""
    names = [*(f"{kind} MB" for kind in (*KINDS, "Kafka")), "heap MB", "checkpoint kB"]
    found = {name: watch.values(name) for name in names}
    ends = watch.samples[-1]["time"]
    rows = [["minutes", *names]]
    for minute in range(0, int((ends - start) // 60) + 1, 5):
        values = [
            points[np.searchsorted(points[:, 0], start + 60 * minute).clip(max=len(points) - 1), 1]
            for points in found.values()
        ]
        rows.append([str(minute), *(f"{value:.0f}" for value in values)])
    slopes = [slope(points[points[:, 0] > start + GROWN], least=name == "heap MB") for name, points in found.items()]
    rows.append(["a minute", *(f"{rate:.3f}" for rate, _ in slopes)])
    rows.append(["its error", *(f"{error:.3f}" for _, error in slopes)])
    return rows


def main() -> None:
    """Print the tables, a line as soon as it is there."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.flink", description=__doc__)
    made.add_argument("--rows", type=float, nargs="*", default=[1e6, 1e7, 1e8], metavar="N", help="of batch jobs")
    made.add_argument(
        "--rates", type=float, nargs="*", default=[1e5, 1e6], metavar="N", help="records a second, from Kafka"
    )
    made.add_argument("--seconds", type=float, default=60, metavar="N", help="that a stream lasts (default: 60)")
    made.add_argument("--task-managers", type=int, default=2, metavar="N", help="of one slot each (default: 2)")
    made.add_argument("--pinned", action="store_true", help="in batch each TaskManager, with its workers, has one core")
    options: Any = made.parse_args()
    tables = {
        "Parquet to windowed histograms, OUE d=16, in batch": (
            ["TaskManagers", "rows", "Flink s", "M/s", "FnApiRunner s", "M/s", *CPU],
            batch([int(n) for n in options.rows], options.task_managers, options.pinned),
        ),
        "Kafka to panes of 1 s, OUE d=16, noise of positions, checkpoints of 10 s": (
            ["TaskManagers", "records/s", "sent", "in panes", "pane after its window: median s", "99 % s", *CPU],
            chain.from_iterable(stream(rate, options.seconds, options.task_managers) for rate in options.rates),
        ),
    }
    for title, (heading, rows) in tables.items():
        lines = [heading]
        for row in rows:
            lines.append(row)
            print(row, flush=True)
        if len(lines) > 1:
            print(title, aligned(lines), sep="\n\n", flush=True)


if __name__ == "__main__":
    main()
