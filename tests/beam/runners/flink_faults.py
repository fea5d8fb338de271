"""Faults on Flink: records of a known truth are produced live, a process is killed, and what a sink saw is compared.

The sink appends to a file at once: it commits with no checkpoint, so it shows what a service outside would have seen.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from confluent_kafka import Producer

from ldp_beam.io import encode
from ldp_core import LdpError, ParameterError
from tests.bed.flink import FlinkCluster

MESSAGE = 100  # records
PATIENCE = 180.0  # seconds: of a machine that others use too


class Numbers:
    """Arrow messages of `MESSAGE` records: ``id`` (0, 1, ...), ``value`` (id modulo ``values``), ``t``, their time."""

    size = MESSAGE

    def __init__(self, values: int) -> None:
        self._values = values
        self.records = 0

    def messages(self, now: float) -> list[bytes]:
        """The next `size` records."""
        ids = np.arange(self.records, self.records + self.size)
        return [encode(pa.record_batch({"id": ids, "value": ids % self._values, "t": np.full(self.size, now)}))]


class Live(threading.Thread):
    """Sends what a source makes, at a rate, until the end of a ``with`` block."""

    def __init__(self, servers: str, topic: str, source: Any, *, rate: float, partitions: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self._topic, self._source, self._rate, self._partitions = topic, source, rate, partitions
        self._over = threading.Event()

    def run(self) -> None:
        start, sent = time.time(), 0
        while not self._over.wait(0.01):
            now = time.time()
            while self._source.records < (now - start) * self._rate:
                for message in self._source.messages(now):
                    partition = sent % self._partitions
                    self._producer.produce(self._topic, message, partition=partition, timestamp=int(now * 1000))
                    sent += 1
                self._source.records += self._source.size
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def __enter__(self) -> Live:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


class Append(beam.DoFn):
    """Arrays of numbers to the end of a file, at once: a line each, which a kill in the middle spoils alone."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def process(self, rows: npt.NDArray[Any]) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, b"\n" + base64.b64encode(rows.tobytes()) + b"\n")
        os.close(file)


class Sent(NamedTuple):
    """What a sink has seen, if ``n`` records were made."""

    n: int
    words: npt.NDArray[np.uint64]

    @classmethod
    def read(cls, path: Path, n: int) -> Sent:
        """What `Append` has put into a file so far."""
        lines = path.read_bytes().split(b"\n") if path.exists() else []
        whole = b"".join(base64.b64decode(line) for line in lines if len(line) % 4 == 0)
        return cls(n, np.frombuffer(whole[: len(whole) // 32 * 32], np.uint64).reshape(-1, 4))

    @property
    def lost(self) -> int:
        """Records that the sink has not seen."""
        return self.n - len(np.unique(self.words[:, 0]))

    @property
    def again(self) -> int:
        """Records that it has seen more than once."""
        _, counts = np.unique(self.words[:, 0], return_counts=True)
        return int(np.count_nonzero(counts > 1))

    @property
    def different(self) -> int:
        """Records of which it has seen two reports."""
        pairs = np.unique(self.words[:, :2], axis=0)
        return int(np.count_nonzero(np.unique(pairs[:, 0], return_counts=True)[1] > 1))

    def after(self, moment: float) -> npt.NDArray[np.uint64]:
        """The first column of the rows whose own time is after this one."""
        return self.words[self.words[:, 2].copy().view(np.float64) > moment, 0]

    def all_again(self, places: npt.NDArray[np.uint64]) -> bool:
        """Whether it has seen each of these more than once."""
        seen, counts = np.unique(self.words[:, 0], return_counts=True)
        return bool(np.isin(places, seen[counts > 1]).all())

    def latency(self, share: float) -> float:
        """Seconds from when a record was made until it was first sent, at most, for this share of the records."""
        made, sent = self.words[:, 2:].copy().view(np.float64).T
        order = np.argsort(sent, kind="stable")
        _, first = np.unique(self.words[order, 0], return_index=True)
        return float(np.quantile((sent - made)[order][first], share))

    def __str__(self) -> str:
        return (
            f"{len(np.unique(self.words[:, 0]))} seen, {self.again} again, {self.different} of them different; "
            f"sent after {self.latency(0.5):.1f} s (median), {self.latency(0.99):.1f} s (99 %)"
        )


def report_rows(batch: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """Packed reports of at most 64 bits, in column ``value``, as rows for `Append`."""
    rows = np.empty((batch.num_rows, 4), np.uint64)
    rows[:, 0] = batch.column("id")
    rows[:, 1] = batch.column("value").flatten()
    rows[:, 2] = batch.column("t").to_numpy().view(np.uint64)
    rows[:, 3] = np.full(batch.num_rows, time.time()).view(np.uint64)
    return rows


def pane_rows(row: Any) -> npt.NDArray[np.uint64]:
    """A row of an estimate, as a row for `Append`: window, pane and value in one number, and the estimated count."""
    window = row.window_start.micros // 10**6
    place = (window * 100 + row.pane_index) * 1000 + int(row.value)
    times = np.array([row.window_end.micros / 1e6, time.time()]).view(np.uint64)
    return np.array([[place, np.float64(row.count).view(np.uint64), *times]], np.uint64)


def until(done: Callable[[], Any], seconds: float, what: str) -> Any:
    """Wait for what other processes do. (A JobManager may be too busy to answer.)"""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(LdpError):
            if found := done():
                return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {seconds:g} s")


class Job:
    """A streaming job that runs on a cluster until the end of the ``with`` block."""

    def __init__(self, cluster: FlinkCluster, build: Callable[[beam.Pipeline], Any], flags: list[str]) -> None:
        self._cluster = cluster
        before = until(lambda: ({job["jid"] for job in self._jobs()},), PATIENCE, "the cluster's jobs")[0]
        pipeline = beam.Pipeline(options=PipelineOptions(flags))
        build(pipeline)
        self._result = pipeline.run()
        self.id: str = until(
            lambda: {job["jid"] for job in self._jobs()} - before, PATIENCE, "a job on the cluster"
        ).pop()

    def _jobs(self) -> list[dict[str, Any]]:
        return list(self._cluster.get("/jobs/overview")["jobs"])

    @property
    def running(self) -> bool:
        """Whether all its tasks run."""
        [job] = [job for job in self._jobs() if job["jid"] == self.id]
        assert job["state"] not in ("FAILED", "FINISHED", "CANCELED"), job["state"]
        return job["state"] == "RUNNING" and job["tasks"]["running"] == job["tasks"]["total"]

    def checkpoints(self, state: Literal["completed", "in_progress"] = "completed") -> int:
        """How many there are."""
        return int(self._cluster.get(f"/jobs/{self.id}/checkpoints")["counts"][state])

    def wait_for_uncertain(self, sinks: dict[Path, float], every: float) -> dict[Path, npt.NDArray[np.uint64]]:
        """Until each sink has seen what only records give that were made after the last checkpoint.

        A fault now makes the job draw all of that again, and send it again. (What a sink has seen since the checkpoint
        does not do: the state that the checkpoint has may be all that a pane is made of. It comes again as it was.)
        """

        def due() -> dict[Path, npt.NDArray[np.uint64]] | None:
            last = self._cluster.get(f"/jobs/{self.id}/checkpoints")["latest"]["completed"]
            if not last or self.checkpoints("in_progress") or time.time() > last["trigger_timestamp"] / 1e3 + every - 1:
                return None
            saved = last["latest_ack_timestamp"] / 1e3
            found = {path: Sent.read(path, 0).after(saved + age) for path, age in sinks.items()}
            return found if all(map(len, found.values())) else None

        return dict(until(due, PATIENCE, "rows after a checkpoint"))

    def kill_workers(self) -> float:
        """Kill all Python workers (SIGKILL); seconds until all tasks run again."""
        workers = list(self._cluster.workers())
        assert workers
        for name in workers:
            with suppress(ParameterError):  # (it has ended: when the first one dies the job ends the others)
                self._cluster.kill(name)
        start = time.monotonic()
        until(lambda: not self.running, PATIENCE, "the fault is noticed")
        until(lambda: self.running, PATIENCE, "all tasks run again")
        return time.monotonic() - start

    def stop(self) -> str:
        """Take a savepoint and end; where it is."""
        request = self._cluster.get(f"/jobs/{self.id}/stop", "POST")["request-id"]
        status = f"/jobs/{self.id}/savepoints/{request}"
        until(lambda: self._cluster.get(status)["status"]["id"] == "COMPLETED", PATIENCE, "a savepoint")
        done = self._cluster.get(status)["operation"]
        assert "location" in done, done
        until(lambda: self.state == "FINISHED", PATIENCE, "the job ends")
        return str(done["location"])

    @property
    def state(self) -> str:
        """Flink's word for it."""
        return str({job["jid"]: job["state"] for job in self._jobs()}[self.id])

    def __enter__(self) -> Job:
        until(lambda: self.running, PATIENCE, "all tasks run")
        return self

    def __exit__(self, *_: object) -> None:
        until(lambda: [self._cluster.get(f"/jobs/{self.id}?mode=cancel", "PATCH")], PATIENCE, "the job is cancelled")
        ended = ("CANCELED", "FAILED", "FINISHED")
        until(lambda: {job["jid"]: job["state"] for job in self._jobs()}[self.id] in ended, PATIENCE, "the job ends")
