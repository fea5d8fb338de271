"""Long lists of labels: what Polars and Beam write is small and is read back, and what could not be is refused."""

from __future__ import annotations

import apache_beam as beam
import polars as pl
import pyarrow as pa
import pytest

import ldp_polars
from ldp_beam import Perturb
from ldp_beam.io import ReadReports, WriteReports
from ldp_core import LocalHashing, PlanError, PrivacyPlan
from ldp_core.limits import DEFAULT

LABELS = [f"label{i}" for i in range(200_000)]
PLAN = PrivacyPlan({"x": LocalHashing(LABELS, epsilon=1.0)})
RECORDS = pa.record_batch({"x": LABELS[:1000]})


def test_a_file_of_a_thousand_reports_is_read_back_by_both(tmp_path):
    """It was 5.7 MB, of which 9 kB are the reports."""
    pl.DataFrame(RECORDS).ldp.perturb(PLAN).ldp.sink_parquet(tmp_path / "polars.parquet", PLAN)
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create([RECORDS]) | Perturb(PLAN) | WriteReports(f"{tmp_path}/beam", PLAN, RECORDS.schema)
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    for file in files:
        assert file.stat().st_size < 500_000
        assert ldp_polars.read_plan(file) == ReadReports(str(file)).plan == PLAN
        tally = pl.read_parquet(file).select(pl.col("x").ldp.tally()).item()
        assert (tally["n"], tally["fingerprint"]) == (1000, PLAN["x"].fingerprint)


def test_what_would_not_be_read_is_not_written(tmp_path):
    plan = PrivacyPlan({"x": LocalHashing(range(DEFAULT.labels + 1), epsilon=1.0)})
    for write in (
        lambda: pl.DataFrame({"x": [1, 2]}).ldp.perturb(plan).ldp.sink_parquet(tmp_path / "x.parquet", plan),
        lambda: WriteReports(f"{tmp_path}/x", plan, pa.schema([("x", pa.int64())])),
    ):
        with pytest.raises(PlanError, match="labels=1048576: if it is meant to, give Limits"):
            write()
    assert not list(tmp_path.iterdir())
