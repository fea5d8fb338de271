"""A stream that is served while things break: all that is made is known, and what comes out is held to it.

One job has all that keeps state: panes of windows, `Deduplicate`, `BoundContributions`, `PrivacyLedger`, and the dead
letters of messages that cannot be used. Where rows are compared noise is keyed: then Polars gives the same cells, bit
for bit. Who arrives first differs from run to run. So a person's records all have one value and one report: it does
not matter which of them pass, but how many.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterProcessingTime, AfterWatermark, Repeatedly
from apache_beam.transforms.window import GlobalWindows

import ldp_beam
import ldp_polars
from ldp_beam.elements.faults import LATE, NO_COLUMN, NOT_A_BATCH, TOO_LARGE, UNDECLARED
from ldp_beam.io import ReadKafka, encode
from ldp_core import LdpError, PrivacyPlan, Secret, UnaryEncoding
from ldp_core.limits import Limits
from tests.bed.flink import FlinkCluster
from tests.bed.kafka import KafkaBroker

from .flink_faults import PATIENCE, Append, Job, Live, until

SECRET = Secret(bytes(range(32)))
OS = UnaryEncoding(["ios", "android", "web", "other"], epsilon=1.0)
PLAN = PrivacyPlan({"os": OS}, keep=["id", "person", "t"])
WINDOW, PERIOD = 5, 20  # seconds
RATE, PARTITIONS = float(os.environ.get("LDP_FAULTS_RATE", "30000")), 4  # records a second
CHECKPOINT = 3.0  # seconds between two
PERSONS = 30_000
CONTRIBUTIONS, PAYS = 3, 3  # records of a person that pass: in a window, and in a period
DELAY = 4  # seconds that a message may be late
MESSAGE_BYTES = 100_000
# records in a message; of so many messages one is sent twice, one is poisoned, one is of a window that is over
RECORDS, AGAIN, POISON, OVER = 500, 10, 25, 50

Cell = tuple[str, int, str]  # branch, start of the window in epoch seconds, value


def build(pipeline: beam.Pipeline, servers: str, topic: str, folder: Path) -> None:
    """The job. It writes the files `rows`, `passed` and `dead` in the folder."""
    dead = []

    def step(name: str, transform: Any, branch: str, events: Any) -> Any:
        out, letters = events | name >> transform.with_exception_handling()
        dead.append(letters | f"Dead of {name}" >> beam.Map(_letter, branch))
        return out

    read = ReadKafka(servers, topic, group=topic, max_delay=DELAY, limits=Limits(bytes=MESSAGE_BYTES))
    # few shards: each limit cuts batches into so many pieces, which the next one cuts again
    keep: dict[str, Any] = {"event_time": "t", "drop_id": False, "shards": 2}
    once = ldp_beam.Deduplicate("id", within=WINDOW, **keep)
    bounded = ldp_beam.BoundContributions("person", CONTRIBUTIONS, window=WINDOW, **keep)
    paid = ldp_beam.PrivacyLedger(PLAN, id="person", budget=PAYS * PLAN.exact_epsilon, per=PERIOD, **keep)
    # (of the intervals, which are not compared)
    window: dict[str, Any] = {"window": WINDOW, "event_time": "t", "key": SECRET, "repeats": 1}
    early = AfterWatermark(early=Repeatedly(AfterProcessingTime(1)), late=AfterCount(1))
    panes: dict[str, Any] = {"trigger": early, "accumulation_mode": AccumulationMode.ACCUMULATING}
    counts = {
        "read": ldp_beam.PrivateHistogram("os", OS, id="id", **window),
        "once": ldp_beam.PrivateHistogram("os", OS, id="id", **window, **panes),
        "bounded": ldp_beam.PrivateHistogram("os", OS, id="person", **window),
    }
    events, rows = {"read": step("Read", read, "read", pipeline)}, []
    events["once"] = step("Once", once, "once", events["read"])
    events["bounded"] = step("Bounded", bounded, "bounded", events["once"])
    for branch, count in counts.items():
        rows.append(step(f"Count {branch}", count, branch, events[branch]) | f"Rows {branch}" >> beam.Map(_row, branch))
    _ = rows | beam.Flatten() | "Write rows" >> beam.ParDo(Append(folder / "rows"))
    reports = step("Paid", paid, "paid", events["bounded"])
    reports = step("Perturb", ldp_beam.Perturb(PLAN, packed=True), "paid", reports)
    _ = reports | beam.Map(_passed) | "Write passed" >> beam.ParDo(Append(folder / "passed"))
    # One window that never ends: letters of records of the last hour are late in a window of that hour, and dropped.
    now = Repeatedly(AfterProcessingTime(1))
    ever = beam.WindowInto(GlobalWindows(), trigger=now, accumulation_mode=AccumulationMode.ACCUMULATING)
    letters = dead | "All dead" >> beam.Flatten() | ever
    sums = letters | beam.CombinePerKey(sum) | "Sums" >> beam.Map(_bytes)
    _ = sums | "Write dead" >> beam.ParDo(Append(folder / "dead"))


def _bytes(line: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(line).encode(), np.uint8)


def _row(row: Any, branch: str) -> np.ndarray:
    start = row.window_start.micros // 10**6
    return _bytes([branch, start, row.value, row.pane_timing, row.n, row.count, time.time()])


def _letter(letter: Any, branch: str) -> tuple[tuple[str, str], int]:
    return (branch, letter.reason), letter.count


def _passed(batch: pa.RecordBatch) -> np.ndarray:
    seconds = batch.column("t").cast(pa.int64()).to_numpy() // 10**6
    word = np.asarray(batch.column("os").flatten()).view(np.int64)
    return np.stack([np.asarray(batch.column("person")), np.asarray(batch.column("id")), seconds, word], axis=1)


class Tail:
    """What `Append` has written to a file, whole lines only: each is read once, and what was made of it is kept."""

    def __init__(self, path: Path) -> None:
        self._path, self._place = path, 0

    def new(self) -> list[bytes]:
        """What has come since the last time."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._place)
            written = file.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._place += len(whole)
        return [base64.b64decode(line) for line in whole.split(b"\n") if line and len(line) % 4 == 0]


class Made:
    """Makes messages of records, some twice, and some that cannot be used; keeps the truth that is not compared yet."""

    size = RECORDS

    def __init__(self) -> None:
        self._rng = np.random.default_rng(1)
        self._lock = threading.Lock()
        self._batches: deque[tuple[float, pa.RecordBatch]] = deque()
        self.poisoned: Counter[tuple[str, str]] = Counter()
        self.records = 0
        self.over: int | None = None  # start of a window that has been told: from then on some records are for it

    def messages(self, now: float) -> list[bytes]:
        """The next records, up to a second old; and what else there is."""
        n = self.records // RECORDS
        person = self._rng.integers(0, PERSONS, RECORDS)
        micros = int(now * 1e6) - self._rng.integers(0, 10**6, RECORDS)
        values = np.array(OS.domain.texts)[person % 3]
        batch = _records(np.arange(self.records, self.records + RECORDS), person, values, micros)
        out = [encode(batch)]
        if n % AGAIN == 0:
            out *= 2
        with self._lock:
            self._batches.extend((now, batch) for _ in out)
        if n % POISON == 0:
            out.append(self._poison(n // POISON % 4, micros[:1]))
        if n % OVER == 0 and self.over is not None:
            out.append(encode(_records(batch["id"], person, values, np.full(RECORDS, self.over * 10**6))))
            self.poisoned["read", LATE] += RECORDS
        return out

    def _poison(self, kind: int, micros: Any) -> bytes:
        if kind == 0:
            self.poisoned["read", NOT_A_BATCH] += 1
            return b"not an Arrow stream"
        if kind == 1:
            self.poisoned["read", TOO_LARGE] += 1
            return encode(pa.record_batch({"id": np.zeros(MESSAGE_BYTES // 4, np.int64)}))
        if kind == 2:
            self.poisoned["once", NO_COLUMN] += 10
            return encode(pa.record_batch({"another": np.arange(10)}))
        self.poisoned["once", UNDECLARED] += 1
        return encode(_records(np.array([-1 - self.records]), np.array([-1]), ["plan9"], micros))

    @property
    def now(self) -> float:
        """Until when all records have been made."""
        with self._lock:
            return self._batches[-1][0] if self._batches else 0.0

    def frame(self) -> pl.DataFrame:
        """The usable records, also those sent twice; ``w`` and ``period`` are starts in epoch seconds."""
        seconds = pl.col("t").dt.epoch("s")
        with self._lock:
            batches = [batch for _, batch in self._batches]
        frame = pl.from_arrow(pa.Table.from_batches(batches))
        return frame.with_columns((seconds // WINDOW * WINDOW).alias("w"), (seconds // PERIOD * PERIOD).alias("period"))

    def forget(self, before: float) -> None:
        """Drop what was made before: at 30,000 records a second the truth of an hour would be gigabytes."""
        with self._lock:
            while self._batches and self._batches[0][0] < before:
                self._batches.popleft()


def _records(ids: Any, person: Any, values: Any, micros: Any) -> pa.RecordBatch:
    times = pa.array(micros, pa.timestamp("us", "UTC"))
    return pa.record_batch({"id": ids, "person": person, "os": values, "t": times})


def cells(frame: pl.DataFrame) -> dict[Cell, tuple[int, float]]:
    """Cell -> n and count: what the job has to find, made by Polars."""
    plan = PrivacyPlan(PLAN.columns, keep=["w"])
    out: dict[Cell, tuple[int, float]] = {}
    branches = ("read", frame, "id"), ("once", once(frame), "id"), ("bounded", bounded(frame), "person")
    for branch, records, id_column in branches:
        reports = records.ldp.perturb(plan, key=SECRET, id=id_column)
        counts = ldp_polars.histogram("os", OS, repeats=1)  # (of the intervals, which are not compared)
        found = reports.group_by("w").agg(pl.len(), counts).explode("os").unnest("os")
        places = found.with_columns(value=pl.Series(OS.domain.texts * found["w"].n_unique(), dtype=pl.String))
        for w, value, n, count in places.select("w", "value", "len", "count").rows():
            out[branch, w, value] = (n, count)
    return out


def once(frame: pl.DataFrame) -> pl.DataFrame:
    """Each record once."""
    return frame.unique("id")


def bounded(frame: pl.DataFrame) -> pl.DataFrame:
    """As many records as may contribute to a window; of a person they are all alike but for id and time."""
    return once(frame).filter(pl.int_range(pl.len()).over("w", "person") < CONTRIBUTIONS)


def spent(frame: pl.DataFrame) -> pl.DataFrame:
    """Period, person and number of records that the person can pay for."""
    return bounded(frame).group_by("period", "person").agg(n=pl.len().clip(upper_bound=PAYS))


class Panes:
    """The rows that came: the last of each cell, and whether any was told in two ways."""

    def __init__(self, folder: Path) -> None:
        self._tail = Tail(folder / "rows")
        self._told: dict[Cell, list[tuple[int, float]]] = defaultdict(list)
        self._most: dict[Cell, int] = {}
        self.times: list[float] = []

    def read(self) -> Panes:
        """Itself, with what has come by now."""
        for line in self._tail.new():
            branch, start, value, timing, n, count, when = json.loads(line)
            cell = (branch, start, value)
            self.times.append(when)
            if timing == "EARLY":
                self._most[cell] = max(n, self._most.get(cell, 0))
            else:
                self._told[cell].append((n, count))
        return self

    @property
    def last(self) -> dict[Cell, tuple[int, float]]:
        """What was told last of each cell, but for early panes."""
        return {cell: panes[-1] for cell, panes in self._told.items()}

    @property
    def on_time(self) -> int:
        """Rows that are of no early pane."""
        return sum(map(len, self._told.values()))

    @property
    def again(self) -> int:
        """Cells that were told more than once."""
        return sum(len(panes) > 1 for panes in self._told.values())

    @property
    def different(self) -> int:
        """Cells that were told in two ways."""
        return sum(len(set(panes)) > 1 for panes in self._told.values())

    @property
    def too_early(self) -> int:
        """Cells of which an early pane had more records than the last one."""
        return sum(self._most[cell] > self._told[cell][-1][0] for cell in self._most.keys() & self._told.keys())

    def next_output(self, after: float) -> float | None:
        """Seconds from then to the next row."""
        return min((when - after for when in self.times if when > after), default=None)


class Passed:
    """What came through the ledger to a sink outside: person, id, period, report."""

    def __init__(self, folder: Path) -> None:
        self._tail = Tail(folder / "passed")
        self._frame = self._of(b"")

    def _of(self, rows: bytes) -> pl.DataFrame:
        frame = pl.DataFrame(np.frombuffer(rows, np.int64).reshape(-1, 4), ["person", "id", "seconds", "report"])
        return frame.select("person", "id", "report", period=pl.col("seconds") // PERIOD * PERIOD)

    def read(self) -> pl.DataFrame:
        """All of it by now."""
        self._frame.extend(self._of(b"".join(self._tail.new())))
        return self._frame


def dead(folder: Path) -> Counter[tuple[str, str]]:
    """Dead letters so far, by branch and reason: the last sum of each."""
    return Counter(
        {(branch, reason): count for (branch, reason), count in map(json.loads, Tail(folder / "dead").new())}
    )


class Comparison:
    """Holds what came out to what was made: windows and periods that have been compared are forgotten."""

    def __init__(self, made: Made, folder: Path) -> None:
        self.made, self.panes, self._passed = made, Panes(folder), Passed(folder)
        self._windows = self._periods = 0.0  # those from here on have not been compared

    def __call__(self, to: float) -> dict[str, float]:
        """Compare the windows up to the one of this time, and the periods before it."""
        last = int(to // WINDOW * WINDOW)
        # (by the maker's own time: a busy one was 20 ms behind, and 11 records of 165,437 were not in its frame)
        until(lambda: self.made.now > last + WINDOW + 1, PATIENCE, "the records of the last window have been made")
        made = self.made.frame()
        windows = [w for w in made["w"].unique() if self._windows <= w <= last]
        expected: dict[Cell, tuple[int, float]] = {}
        records = 0
        for w in windows:  # one after the other: those of ten minutes, which a busy machine needs, take 6 GB together
            frame = made.filter(w=w)
            expected |= cells(frame)
            records += once(frame).height
        until(lambda: expected.keys() <= self.panes.read().last.keys(), PATIENCE, "the panes of all windows")
        found = self.panes.last
        wrong = {cell: (found[cell], true) for cell, true in expected.items() if found[cell] != true}
        assert not wrong, f"{len(wrong)} of {len(expected)} cells differ: {list(wrong.items())[:5]}"
        assert (self.panes.different, self.panes.too_early) == (0, 0), "a pane was told again with other rows"
        figures = {
            "records": records,
            "windows": len(windows),
            "cells": len(expected),
            "rows told again": self.panes.again,
            "reports told again": self._paid(made, last),
        }
        self._windows = last + WINDOW
        self.made.forget(min(self._windows, self._periods))
        return figures

    def _paid(self, made: pl.DataFrame, to: int) -> int:
        """Hold what the ledger let through to what persons can pay for; the number of reports that came twice."""
        periods = [p for p in made["period"].unique() if self._periods <= p <= to - PERIOD]
        true = pl.concat([spent(made.filter(period=p)) for p in periods] or [spent(made.clear())])

        def found(since: float) -> pl.DataFrame:
            records = self._passed.read().filter(pl.col("period") >= since).unique(["period", "person", "id"])
            return records.group_by("period", "person").agg(found=pl.len())

        def short() -> bool:
            both = true.join(found(self._periods), ["period", "person"], "left")
            return not both.filter(pl.col("found").fill_null(0) < pl.col("n")).is_empty()

        until(lambda: not short(), PATIENCE, "the reports of all persons")
        most = found(0)["found"].max()
        assert most == PAYS, f"{most} records of a person have passed, and the budget pays for {PAYS}"
        assert true.join(found(self._periods), ["period", "person"]).filter(pl.col("found") != pl.col("n")).is_empty()
        reports = self._passed.read().group_by("id").agg(pl.len(), pl.col("report").n_unique())
        assert reports["report"].max() == 1, "two reports of a record"
        self._periods = to // PERIOD * PERIOD
        return reports.filter(pl.col("len") > 1).height


class Stream:
    """The job, on a cluster that can be broken, with what it is sent and what came out of it."""

    def __init__(
        self, cluster: FlinkCluster, spare: FlinkCluster, broker: KafkaBroker, proxy: Proxy, folder: Path
    ) -> None:
        self.cluster, self.spare, self.proxy, self.folder = cluster, spare, proxy, folder
        self.compare = Comparison(Made(), folder)
        self._topic = broker.create_topic("events", PARTITIONS)
        self.job = self.submit()
        self.live = Live(broker.servers, self._topic, self.compare.made, rate=RATE, partitions=PARTITIONS)

    def submit(self, *flags: str) -> Job:
        """Start the job, or go on with it from a savepoint."""
        place = partial(build, servers=self.proxy.address, topic=self._topic, folder=self.folder)
        every = self.cluster.pipeline_flags(streaming=True, checkpoint_every=CHECKPOINT)
        return Job(self.cluster, place, [*every, *flags]).__enter__()

    def survives(self, fault: Callable[[], None], *, restarts: bool = True) -> dict[str, float]:
        """Let it happen while the stream flows, wait, compare all that has come since the last time; the figures."""
        before = time.time()
        self._flows(before)
        self.send_late()
        self._saved()
        told = self.compare.panes.read().on_time
        until(lambda: self.compare.panes.read().on_time > told, PATIENCE, "a pane, which will be told again")
        self._restarted = 0
        start = time.time()
        fault()
        if restarts:
            until(lambda: not self._runs(), PATIENCE, "the fault is noticed")
            noticed = time.time()
            until(lambda: self._supervise() or self._runs(), PATIENCE, "all tasks run again")
        back = time.time()
        output = until(lambda: self.compare.panes.read().next_output(back), PATIENCE, "an output")
        figures = {
            "s until it is noticed": noticed - start if restarts else 0.0,
            "s until all tasks run": back - start,
            "s until the next output": back + output - start,
            "processes started again": self._restarted,
        }
        return figures | self.compare(back)

    def _saved(self, count: int = 1) -> None:
        done = self.job.checkpoints()
        until(lambda: self.job.checkpoints() >= done + count, PATIENCE, "a checkpoint")

    def send_late(self) -> None:
        """From now on some records are for the first window. A checkpoint has that it is over, or it opens again."""
        made = self.compare.made
        if made.over is None:
            told = until(lambda: self.compare.panes.read().last, PATIENCE, "a window")
            self._saved(2)  # the first may have begun before
            made.over = min(start for _, start, _ in told)
        sent = made.poisoned["read", LATE]
        until(lambda: made.poisoned["read", LATE] > sent, PATIENCE, "late records are sent")

    def _supervise(self) -> None:
        """Start again what has ended, as whatever runs a cluster does."""
        for name, alive in self.cluster.running().items():
            if not alive:
                self.cluster.restart(name)
                self._restarted += 1

    def _runs(self) -> bool:
        try:
            return self.job.running
        except (LdpError, ValueError):  # no JobManager, or it does not know the job yet
            return False

    def _flows(self, since: float) -> None:
        until(lambda: self.compare.panes.read().next_output(since), PATIENCE, "the stream flows")

    def resume(self, place: str) -> None:
        """Submit the job anew, to go on from a savepoint or checkpoint."""
        self.job = self.submit(f"--savepoint_path={place}")


class Proxy:
    """Forwards connections of a port of the loopback address, until they are cut."""

    def __init__(self) -> None:
        self.target = ""
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._server.getsockname())
        self._serve()

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                inner, _ = server.accept()
                host, _, port = self.target.partition(":")
                outer = socket.create_connection((host, int(port)))
                self._open += [inner, outer]
                for pair in ((inner, outer), (outer, inner)):
                    threading.Thread(target=_forward, args=pair, daemon=True).start()

    def cut(self) -> None:
        """Close all connections, and take no new ones."""
        for each in (self._server, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def mend(self) -> None:
        """Take connections again, at the same address."""
        host, _, port = self.address.partition(":")
        self._server = socket.create_server((host, int(port)))
        self._serve()


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
