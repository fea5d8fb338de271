"""Streams: Beam's local runner against its own read-only floor, on Parquet files and lines of JSON; and live."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import ldp_beam
from benchmarks.timing import Row, absolute, compare
from ldp_beam.io.ndjson import parse_lines
from ldp_core import Mechanism, PrivacyPlan, RandomizedResponse, UnaryEncoding

FILES = 8
START = 1_780_000_000


def write_events(folder: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    for part in range(FILES):
        rows = n // FILES
        time = pa.array(START * 10**6 + rng.integers(0, 3600 * 10**6, rows), pa.timestamp("us", "UTC"))
        table = pa.table({"narrow": rng.integers(0, 16, rows), "wide": rng.integers(0, 128, rows), "event_time": time})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=1 << 16)


def run(folder: Path, columns: list[str], *steps: beam.PTransform) -> None:
    with beam.Pipeline("FnApiRunner", options=PipelineOptions([])) as pipeline:
        tables = pipeline | beam.io.ReadFromParquetBatched(str(folder / "*.parquet"), columns=columns)
        for step in steps:
            tables |= step


CASES: list[tuple[str, str, Mechanism, float]] = [
    ("k-ary RR d=128", "wide", RandomizedResponse(range(128), epsilon=1.0), 0.8),
    ("OUE d=16", "narrow", UnaryEncoding(range(16), epsilon=1.0), 0.75),
    ("OUE d=128", "wide", UnaryEncoding(range(128), epsilon=1.0), 0.5),
]


def rows(scale: float) -> Iterator[Row]:
    yield from _files(scale)
    yield from _lines(scale)
    yield from _live(scale)


def _files(scale: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
        folder = Path(scratch)
        n = int(5e7 * scale) // FILES * FILES
        write_events(folder, n)
        for file in list(folder.iterdir()):  # read twice: Beam ends a bundle up to 0.2 s late
            os.link(file, folder / f"again-{file.name}")
        for name, column, mechanism, bar in CASES:
            columns = [column, "event_time"]
            yield compare(
                f"Beam: Parquet, {2 * n:.0e} rows -> {name} -> windowed histogram",
                "reading only",
                lambda: run(folder, columns, private(column, mechanism)),
                lambda: run(folder, columns, beam.Map(pa.Table.num_rows.__get__), beam.CombineGlobally(sum)),
                n=2 * n,
                bar=bar,
                repeats=3,
            )
    _, column, mechanism, _ = CASES[1]
    for n in (int(10**k * scale) // FILES * FILES for k in (5, 6, 7, 8)):
        with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
            folder = Path(scratch)
            write_events(folder, n)
            job = partial(run, folder, [column, "event_time"], private(column, mechanism))
            yield absolute(f"Beam: the same, OUE d=16, {n:.0e} rows", job, n=n, unit="ns/row", repeats=3)
    n = int(3e5 * scale)
    yield compare(
        "Beam: dictionaries -> k-ary RR d=128 -> windowed histogram",
        "Beam's own windowed Count.PerElement, no noise",
        lambda: run_dicts(n, private("wide", CASES[0][2])),
        lambda: run_dicts(n, beam.Map(_stamped), beam.WindowInto(FixedWindows(600)), beam.combiners.Count.PerElement()),
        n=n,
        bar=0.8,
        repeats=3,
    )


def private(column: str, mechanism: Mechanism) -> beam.PTransform:
    return ldp_beam.PrivateHistogram(column, mechanism, window=600, event_time="event_time")


def run_dicts(n: int, *steps: beam.PTransform) -> None:
    with beam.Pipeline("FnApiRunner", options=PipelineOptions([])) as pipeline:
        records = pipeline | beam.Create([n]) | "Dictionaries" >> beam.FlatMap(_dictionaries)
        for step in steps:
            records |= step


def _dictionaries(n: int) -> Iterator[dict[str, float]]:
    for i in range(n):
        yield {"wide": i & 127, "event_time": START + i % 3600}


def _stamped(record: dict[str, int]) -> TimestampedValue[int]:
    return TimestampedValue(record["wide"], record["event_time"])


# ---- NDJSON of which a part cannot be used, against the same lines without fault

SCHEMA = pa.schema([("os", pa.string()), ("n", pa.int64()), ("ok", pa.bool_()), ("at", pa.timestamp("us", "UTC"))])
FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda line: line[:-3] + b"}",
    "of another type": lambda line: line.replace(b'"ios"', b"7"),
    "no time": lambda line: line.replace(b"-01-01", b"-02-30"),
    "no UTF-8": lambda line: line.replace(b"ios", b"\xff"),
}


def _lines(scale: float) -> Iterator[Row]:
    n = int(1e5 * scale)
    good = [
        json.dumps({"os": "ios", "n": i, "ok": i % 2 == 0, "at": f"2024-01-01T00:00:{i % 60:02}Z"}).encode()
        for i in range(n)
    ]
    for fault, make in FAULTS.items():
        for share in (0.0001, 0.01, 0.5, 1.0):
            bad = np.random.default_rng(0).random(n) < share
            lines = [make(line) if is_bad else line for line, is_bad in zip(good, bad.tolist(), strict=True)]
            yield compare(
                f"{share:.2%} of lines {fault}",
                "good lines",
                lambda lines=lines: parse_lines(lines, SCHEMA),  # type: ignore[misc]
                lambda: parse_lines(good, SCHEMA),
                n=n,
                bar=0.1,
            )


# ---- simulated devices, Pub/Sub server and Beam's local streaming runner, all in one process


def _live(scale: float) -> Iterator[Row]:
    seconds = max(int(20 * scale), 5)
    labels = [f"v{i}" for i in range(16)]
    for name, kind in (("k-ary RR d=16", RandomizedResponse), ("OUE d=16", UnaryEncoding)):
        with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
            plan = Path(scratch) / "plan.toml"
            plan.write_text(PrivacyPlan({"value": kind(labels, epsilon=1.0)}).to_toml(), encoding="utf-8")
            options = ["--live", "--for", f"{seconds}s", "--window", "5s", "--rate", "max", "--plan", str(plan)]
            command = [sys.executable, "-m", "pipelines.telemetry", *options]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        sent = re.search(r"sent ([\d,]+) = counted .* holds", done.stdout)
        assert sent is not None, done.stdout
        cost = 1e9 * seconds / int(sent[1].replace(",", ""))
        job = f"Beam live: {name}, perturbed, sent, received and counted for {seconds} s"
        yield Row(f"{job}, {1000 / cost:.3g} M reports/s", "", "ns/report", cost, None, "<= 200", cost <= 200)
