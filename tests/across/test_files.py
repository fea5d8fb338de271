"""Matching is meant literally: Polars and Beam read each other's reports, from the same Parquet file."""

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_beam
import ldp_polars
from ldp_beam import Perturb
from ldp_beam.io import ReadReports, WriteReports
from ldp_core import (
    Domain,
    LocalHashing,
    MechanismMismatchError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    UnaryEncoding,
)
from ldp_core.limits import DEFAULT

from ..beam.helpers import run

OS = ["ios", "android", "web"]
PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(OS, epsilon=1.0),
        "wide": UnaryEncoding(Domain(range(130), unmatched="none"), epsilon=2.0, variant="symmetric"),
        "text": RandomizedResponse(Domain(OS, unmatched="other"), epsilon=1.0),
        "crashed": RandomizedResponse.from_coins(truth=0.4, yes=0.7),
        "hour": RandomizedResponse(range(24), epsilon=1.0),
    }
)
N = 5000


def events() -> pa.Table:
    k = np.arange(N)
    return pa.table(
        {
            "os": np.array(OS)[k % 3],
            "wide": pa.array([None if i % 7 == 0 else i % 150 for i in range(N)], pa.int64()),
            "text": pa.array([None if i % 5 == 0 else OS[i % 3] for i in range(N)]),
            "crashed": k % 3 == 0,
            "hour": k % 24,
        }
    )


class Histograms(beam.PTransform):
    """All columns of the plan."""

    def expand(self, reports):
        rows = [reports | name >> ldp_beam.Histogram(name, m) for name, m in PLAN.columns.items()]
        return rows | beam.Flatten()


def check_counts(path):
    """What Beam estimates from the file is what Polars estimates."""
    rows = run(Histograms(), beam.io.ReadFromParquetBatched(str(path)))
    assert {row.n for row in rows} == {N}
    found = {(row.column_name, ldp_beam.text_row(row).value): row.count for row in rows}
    assert found == pytest.approx(polars_counts(pl.read_parquet(path)))


def polars_counts(reports):
    """(column, value) -> count."""
    assert reports.height == N
    found = {}
    for name, m in PLAN.columns.items():
        counts = reports.select(ldp_polars.histogram(name, m)).explode(name).unnest(name)["count"]
        found |= {(name, text): count for text, count in zip(m.domain.texts, counts, strict=True)}
    return found


@pytest.mark.parametrize("packed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_reports_of_beam_are_tallied_by_polars(tmp_path, packed):
    batch = events().combine_chunks().to_batches()[0]
    with beam.Pipeline("FnApiRunner") as pipeline:
        reports = pipeline | beam.Create([batch]) | ldp_beam.Perturb(PLAN, packed=packed)
        options = {"num_shards": 1, "shard_name_template": ""}
        _ = reports | WriteReports(str(tmp_path / "reports"), PLAN, batch.schema, packed=packed, **options)
    path = tmp_path / "reports.parquet"
    assert PrivacyPlan.from_metadata(pq.read_schema(path).metadata) == PLAN
    with pytest.raises(MechanismMismatchError, match=r"\['crashed', 'hour', 'os', 'text', 'wide'\] hold reports"):
        pl.scan_parquet(path).ldp.perturb(PLAN)
    pl.scan_parquet(path).ldp.sink_parquet(tmp_path / "again.parquet", PLAN)
    check_counts(tmp_path / "again.parquet")
    with pytest.raises(Exception, match="the reports were made by the mechanism"):  # as the type of the column says
        run(ldp_beam.Histogram("crashed", RandomizedResponse(epsilon=0.123)), pq.read_table(path).to_batches())


# ---- long lists of labels: what Polars and Beam write is small and is read back, and what could not be is refused


MANY = [f"label{i}" for i in range(20_000)]
LONG = PrivacyPlan({"x": LocalHashing(MANY, epsilon=1.0)})
RECORDS = pa.record_batch({"x": MANY[:1000]})


def test_a_file_of_a_thousand_reports_is_read_back_by_both(tmp_path):
    """With ten times as many labels it was 5.7 MB, of which 9 kB are the reports."""
    pl.DataFrame(RECORDS).ldp.perturb(LONG).ldp.sink_parquet(tmp_path / "polars.parquet", LONG)
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create([RECORDS]) | Perturb(LONG) | WriteReports(f"{tmp_path}/beam", LONG, RECORDS.schema)
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    for file in files:
        assert file.stat().st_size < 100_000
        assert ldp_polars.read_plan(file) == ReadReports(str(file)).plan == LONG
        tally = pl.read_parquet(file).select(pl.col("x").ldp.tally()).item()
        assert (tally["n"], tally["fingerprint"]) == (1000, LONG["x"].fingerprint)


def test_what_would_not_be_read_is_not_written(tmp_path):
    plan = PrivacyPlan({"x": LocalHashing(range(DEFAULT.labels + 1), epsilon=1.0)})
    for write in (
        lambda: pl.DataFrame({"x": [1, 2]}).ldp.perturb(plan).ldp.sink_parquet(tmp_path / "x.parquet", plan),
        lambda: WriteReports(f"{tmp_path}/x", plan, pa.schema([("x", pa.int64())])),
    ):
        with pytest.raises(PlanError, match="labels=1048576: if it is meant to, give Limits"):
            write()
    assert not list(tmp_path.iterdir())
