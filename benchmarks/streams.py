"""Streams: Beam's local runner against its own read-only floor on the same Parquet files."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import ldp_beam
from benchmarks.timing import Row, alternate, seconds
from ldp_core import Mechanism, RandomizedResponse, UnaryEncoding

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
    with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
        folder = Path(scratch)
        n = int(5e7 * scale) // FILES * FILES
        write_events(folder, n)
        for file in list(folder.iterdir()):  # read twice: Beam ends a bundle up to 0.2 s late
            os.link(file, folder / f"again-{file.name}")
        n *= 2
        for name, column, mechanism, bar in CASES:
            columns = [column, "event_time"]
            ours, floor = alternate(
                lambda: run(folder, columns, private(column, mechanism)),
                lambda: run(folder, columns, beam.Map(pa.Table.num_rows.__get__), beam.CombineGlobally(sum)),
                repeats=3,
            )
            yield Row(
                f"Beam: Parquet, {n:.0e} rows -> {name} -> windowed histogram, {n / ours / 1e6:.3g} M records/s",
                f"reading only, {n / floor / 1e6:.3g} M/s",
                "ns/row",
                1e9 * ours / n,
                1e9 * floor / n,
                f">= {bar:g}x",
                floor / ours >= bar,
            )
    for n in (int(10**k * scale) // FILES * FILES for k in (5, 6, 7, 8)):
        with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
            write_events(Path(scratch), n)
            _, column, mechanism, _ = CASES[1]
            cost = statistics.median(
                seconds(lambda: run(Path(scratch), [column, "event_time"], private(column, mechanism)))
                for _ in range(3)
            )
        yield Row(f"Beam: the same, OUE d=16, {n:.0e} rows", "", "ns/row", 1e9 * cost / n, None, "", None)
    n = int(3e5 * scale)
    ours, theirs = alternate(
        lambda: run_dicts(n, private("wide", CASES[0][2])),
        lambda: run_dicts(n, beam.Map(_stamped), beam.WindowInto(FixedWindows(600)), beam.combiners.Count.PerElement()),
        repeats=3,
    )
    job = "Beam: dictionaries -> k-ary RR d=128 -> windowed histogram"
    yield Row(
        f"{job}, {n / ours / 1e6:.3g} M records/s",
        "Beam's own windowed Count.PerElement, no noise",
        "ns/row",
        1e9 * ours / n,
        1e9 * theirs / n,
        ">= 0.8x",
        theirs / ours >= 0.8,
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
