"""Matching is meant literally: Polars and Beam read each other's reports, from the same Parquet file."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_beam
import ldp_polars
from ldp_beam.io import WriteReports
from ldp_core import Domain, MechanismMismatchError, PrivacyPlan, RandomizedResponse, UnaryEncoding

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


@pytest.mark.parametrize("packed", [False, True])
def test_reports_of_polars_are_tallied_by_beam(tmp_path, packed):
    path = tmp_path / "reports.parquet"
    pl.from_arrow(events()).lazy().ldp.perturb(PLAN, packed=packed).sink_parquet(path)
    check_counts(path)


@pytest.mark.parametrize("packed", [False, True])
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
    check_counts(path)
