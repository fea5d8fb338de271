"""Streams: Beam's local runner against its own read-only floor on the same Parquet files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions

import ldp_beam
from benchmarks.timing import Row, alternate
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


def rows(scale: float) -> Iterator[Row]:
    n = int(2e7 * scale) // FILES * FILES
    with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
        folder = Path(scratch)
        write_events(folder, n)
        cases: list[tuple[str, str, Mechanism, float]] = [
            ("k-ary RR d=128", "wide", RandomizedResponse(range(128), epsilon=1.0), 0.5),
            ("OUE d=16", "narrow", UnaryEncoding(range(16), epsilon=1.0), 0.35),
            ("OUE d=128", "wide", UnaryEncoding(range(128), epsilon=1.0), 0.25),
        ]
        for name, column, mechanism, bar in cases:
            job = ldp_beam.PrivateHistogram(column, mechanism, window=600, event_time="event_time")
            columns = [column, "event_time"]
            ours, floor = alternate(
                lambda: run(folder, columns, job),
                lambda: run(folder, columns, beam.Map(pa.Table.num_rows.__get__), beam.CombineGlobally(sum)),
                repeats=3,
            )
            yield Row(
                f"Beam: Parquet -> {name} -> windowed histogram, {n / ours / 1e6:.3g} M records/s",
                f"reading only, {n / floor / 1e6:.3g} M/s",
                "ns/row",
                1e9 * ours / n,
                1e9 * floor / n,
                f">= {bar:g}x" + (" (a later goal)" if name == "OUE d=128" else ""),
                floor / ours >= bar,
            )
