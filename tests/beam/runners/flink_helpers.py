"""One input, one plan, and the engines that have to agree on them."""

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.options.pipeline_options import PipelineOptions

import ldp_beam
import ldp_polars
from ldp_beam.io.estimates import estimate_line
from ldp_beam.telemetry.job import TelemetryJob
from ldp_core import PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding

SECRET = Secret(bytes(range(32)))
PLAN = PrivacyPlan(
    {"os": UnaryEncoding(["ios", "android", "web", "other"], epsilon=1.0), "crashed": RandomizedResponse(epsilon=1.0)}
)
N = 60_000
WINDOW = 600
WINDOWS = 3
START = 1_780_000_200  # a multiple of WINDOW

Cell = tuple[str, int, str]  # column, start of the window in epoch seconds, value


def write_events(folder: Path) -> str:
    """Two Parquet files, each with all windows; their glob."""
    rng = np.random.default_rng(0)
    for part in range(2):
        rows = N // 2
        seconds = rng.integers(0, WINDOW * WINDOWS, rows)
        events = pa.table(
            {
                "user": [f"user {part} {i % 5000}" for i in range(rows)],
                "os": np.array(["ios", "android", "web", "other"])[rng.choice(4, rows, p=[0.8, 0.1, 0.1, 0.0])],
                "crashed": rng.random(rows) < 0.05,
                "event_time": pa.array((START + seconds) * 10**6, pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(events, folder / f"{part}.parquet", row_group_size=1 << 13)
    return str(folder / "*.parquet")


def _windows(pattern: str) -> pl.DataFrame:
    start = pl.col("event_time").dt.epoch("s") // WINDOW * WINDOW
    return pl.read_parquet(pattern).with_columns(start.alias("start"))


def truth(pattern: str) -> dict[Cell, tuple[int, int]]:
    """Cell -> true count and n of its window, counted by Polars."""
    frame = _windows(pattern)
    n = dict(frame.group_by("start").len().iter_rows())
    out = {}
    for column, mechanism in PLAN.columns.items():
        values = pl.col(column).cast(pl.String).alias("value")
        found = {(s, v): c for s, v, c in frame.group_by("start", values).len().iter_rows()}
        out |= {(column, s, v): (found.get((s, v), 0), n[s]) for s in n for v in mechanism.domain.texts}
    return out


def polars_keyed(pattern: str) -> dict[Cell, tuple[float, int]]:
    """Cell -> estimate and n, as Polars makes them with keyed noise."""
    plan = PrivacyPlan(PLAN.columns, keep=["start"])
    reports = _windows(pattern).ldp.perturb(plan, key=SECRET, id="user")
    n = dict(reports.group_by("start").len().iter_rows())
    out = {}
    for column, mechanism in PLAN.columns.items():
        rows = (
            reports.group_by("start")
            .agg(ldp_polars.histogram(column, mechanism, repeats=1))
            .explode(column)
            .unnest(column)
        )
        for start, counts in rows.group_by("start", maintain_order=True):
            texts = zip(mechanism.domain.texts, counts["count"], strict=True)
            out |= {(column, start[0], text): (count, n[start[0]]) for text, count in texts}
    return out


def beam_keyed(pattern: str, output: Path, flags: list[str]) -> dict[Cell, tuple[float, int]]:
    """The same from Beam, on the engine that the flags name."""
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        events = pipeline | beam.io.ReadFromParquetBatched(pattern)
        rows = [
            events
            | name
            >> ldp_beam.PrivateHistogram(
                name, mechanism, window=WINDOW, event_time="event_time", key=SECRET, id="user", repeats=1
            )
            for name, mechanism in PLAN.columns.items()
        ]
        lines = rows | beam.Flatten() | beam.Map(ldp_beam.text_row) | "Lines" >> beam.Map(estimate_line)
        _ = lines | beam.io.WriteToText(str(output / "rows"), num_shards=1, shard_name_template="")
    return cells(json.loads(line) for line in (output / "rows").read_text().splitlines())


def beam_telemetry(pattern: str, output: Path, flags: list[str]) -> dict[Cell, tuple[float, int]]:
    """Estimates and n of the deployable job, with fresh noise."""
    job = TelemetryJob(PLAN, (pattern,), "event_time", WINDOW, str(output), reports=True)
    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:
        job.build(pipeline)
    lines = (output / "histograms.ndjson").read_text().splitlines()
    return cells(json.loads(line) for line in lines)


def cells(rows: Any) -> dict[Cell, tuple[float, int]]:
    """Lines of a histogram file by cell."""
    out = {}
    for row in rows:
        start = int(np.datetime64(row["window_start"].removesuffix("Z"), "s").astype(int))
        cell = (row["column_name"], start, row["value"])
        assert cell not in out, "two rows of one window and value"
        out[cell] = (row["count"], row["n"])
    return out
