"""Values of estimates are of their domain's own type, from the core to files; of mixed columns they are text."""

from __future__ import annotations

import json
from typing import Any

import apache_beam as beam
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_beam.io import EstimateBatches, WriteEstimates, bigquery_row, estimate_batch, estimate_schema
from ldp_core import Domain, HeavyHitters, Prefixes, PrivacyPlan, RandomizedResponse
from pipelines.telemetry import main

from ..beam.helpers import run
from ..beam.streams import All
from ..cases import case

SURE = 50.0
PEOPLE = pl.DataFrame(
    {"level": [1, 2, 10, 10], "crashed": [True, False, True, True], "os": ["ios", "web", "ios", "web"]}
)
PLAN = PrivacyPlan(
    {
        "level": RandomizedResponse([1, 2, 10], epsilon=SURE),
        "crashed": RandomizedResponse(epsilon=SURE),
        "os": RandomizedResponse(["ios", "web"], epsilon=SURE),
    }
)
ROWS = {
    "level": (ldp_beam.IntegerHistogramRow, [1, 2, 10], pa.int64()),
    "crashed": (ldp_beam.BooleanHistogramRow, [False, True], pa.bool_()),
    "os": (ldp_beam.HistogramRow, ["ios", "web"], pa.string()),
}


def rows_of(*names: str) -> beam.PTransform[Any, Any]:
    """Histograms of these columns in one collection."""

    class Histograms(beam.PTransform):
        def expand(self, events):
            return [events | n >> ldp_beam.PrivateHistogram(n, PLAN[n]) for n in names] | beam.Flatten()

    return Histograms()


def test_rows_of_beam_have_the_type_of_the_domain_and_agree_with_polars():
    for single, events in ((False, PEOPLE.to_arrow().to_batches()), (True, PEOPLE.to_dicts())):
        transforms = [rows_of(column) | beam.Reshuffle() for column in ROWS]
        transforms += [rows_of(*ROWS) | beam.Reshuffle() | beam.Map(ldp_beam.text_row)]
        *found, mixed = run(All(transforms), events)
        for (column, (kind, values, arrow)), rows in zip(ROWS.items(), found, strict=True):
            with case(column, single):
                assert [row.value for row in rows] == values
                assert [type(row.value) for row in rows] == [type(value) for value in values]
                assert {round(row.count) for row in rows} == set(PEOPLE[column].value_counts()["count"])
                assert (beam.Pipeline() | beam.Create(events) | rows_of(column)).element_type is kind
                assert estimate_schema(kind).field("value").type == arrow
        tidy = PEOPLE.ldp.perturb(PLAN).ldp.histograms(PLAN).select("column_name", "value")
        assert sorted((row.column_name, row.value) for row in mixed) == sorted(tidy.rows())
    estimates = PEOPLE.ldp.perturb(PLAN).ldp.estimates(PLAN)
    assert {column: estimates[column]["value"].to_list() for column in ROWS} == {c: v for c, (_, v, _) in ROWS.items()}


def test_the_bucket_of_others_makes_text_of_integers():
    mechanism = RandomizedResponse(Domain([1, 2], unmatched="other"), epsilon=SURE)
    rows = run(ldp_beam.PrivateHistogram("level", mechanism), PEOPLE.to_dicts())
    assert [row.value for row in rows] == ["1", "2", "other"]
    reports = PEOPLE.select(pl.col("level").ldp.perturb(mechanism))
    found = reports.select(pl.col("level").ldp.histogram()).explode("level").unnest("level")
    assert found["value"].to_list() == ["1", "2", "other"]


def test_integers_that_are_searched_for_are_integers():
    mechanism = HeavyHitters(Prefixes(None, 8), epsilon=5.0, levels=(4, 8), rows=8)
    numbers = pa.record_batch({"v": [7] * 5000 + [10] * 3000})
    rows = run(ldp_beam.Estimate("v", mechanism, "heavy_hitters:k=2", private=True), [numbers])
    assert [row.value for row in rows] == [7, 10]


def test_files_have_values_of_one_type(tmp_path):
    for number, columns in enumerate((["level"], ["crashed"], ["os"], ["level", "crashed"])):
        plan = PrivacyPlan({name: PLAN[name] for name in columns})
        expected = PEOPLE.ldp.perturb(plan).ldp.histograms(plan).select("column_name", "value")
        kinds = {"parquet": pl.read_parquet, "ndjson": pl.read_ndjson}
        folders = {kind: str(tmp_path / f"{number}{kind}") for kind in kinds}
        written = run(
            All([rows_of(*columns) | WriteEstimates(folders[kind], kind) for kind in kinds]), PEOPLE.to_dicts()
        )
        for (kind, read), paths in zip(kinds.items(), written, strict=True):
            found = pl.concat(map(read, paths)).select("column_name", "value")
            with case(columns, kind):
                assert found.schema == expected.schema
                assert sorted(found.rows()) == sorted(expected.rows())


def test_batches_and_rows_of_bigquery():
    transforms = [t for column in ROWS for t in (rows_of(column) | EstimateBatches(), rows_of(column))]
    # behind a step that says no types, they are text, whatever comes
    transforms += [rows_of("level") | beam.Map(lambda row: row).with_output_types(Any) | EstimateBatches()]
    *found, [untyped] = run(All(transforms), PEOPLE.to_dicts())
    assert untyped["value"].to_pylist() == ["1", "2", "10"]
    for (kind, values, _), [batch], rows in zip(ROWS.values(), found[::2], found[1::2], strict=True):
        assert batch.schema.equals(estimate_schema(kind))
        assert batch["value"].to_pylist() == values
        assert [bigquery_row(row)["value"] for row in rows] == values
        texts = [str(value).lower() for value in values]
        assert [bigquery_row(ldp_beam.text_row(row))["value"] for row in rows] == texts
        assert estimate_batch(rows, estimate_schema(ldp_beam.HistogramRow))["value"].to_pylist() == texts


@pytest.mark.parametrize(("columns", "kind"), [(["level"], pl.Int64), (["crashed"], pl.Boolean), ([*ROWS], pl.String)])
def test_the_files_of_the_command(tmp_path, capsys, columns, kind):
    PEOPLE.select(columns).with_columns(time=1).write_parquet(tmp_path / "events.parquet")
    (tmp_path / "plan.toml").write_text(PrivacyPlan({name: PLAN[name] for name in columns}).to_toml())
    files = ["--plan", str(tmp_path / "plan.toml"), "--input", str(tmp_path / "events.parquet")]
    assert main([*files, "--event-time", "time", "--output", str(tmp_path / "out")]) == 0
    written = pl.read_parquet(tmp_path / "out" / "histograms.parquet")
    assert written.schema["value"] == kind
    lines = (tmp_path / "out" / "histograms.ndjson").read_text().splitlines()
    found = {(row["column_name"], row["value"]) for row in map(json.loads, lines)}
    assert found == set(written.select("column_name", "value").rows())
    assert len(pq.read_table(tmp_path / "out" / "histograms.parquet")) == len(lines)
    printed = capsys.readouterr().out
    assert all(f"  {word}" in printed for word in (["false", "true"] if "crashed" in columns else ["1", "2", "10"]))
