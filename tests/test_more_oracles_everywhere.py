"""Oracles whose tallies are not just supporters of each value, through Polars and Beam, which know none of them.

Perturbed here, tallied there; typed; keyed; in groups. Estimates are checked against the true counts, within 6 of the
standard errors in the histograms; counts of the same reports must be equal wherever they are made.
"""

from __future__ import annotations

import io
import json

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import ldp_beam
import ldp_polars  # registers the namespaces
from ldp_core import Domain, Keyed, Mechanism, PrivacyPlan, Secret, Tally
from ldp_core.hybrid_projective_geometry_response import HybridProjectiveGeometryResponse
from ldp_core.projective_geometry_response import ProjectiveGeometryResponse
from ldp_core.summation_histogram_encoding import SummationHistogramEncoding

OS = ["ios", "android", "web", "tv"]
OTHER, NONE, WIDE = Domain(OS, unmatched="other"), Domain(OS, unmatched="none"), Domain(range(70))
MECHANISMS: dict[str, Mechanism] = {
    "SHE none": SummationHistogramEncoding(NONE, epsilon=1.0),
    "SHE wide": SummationHistogramEncoding(WIDE, epsilon=2.0, unit=10),
    "PGR other": ProjectiveGeometryResponse(OTHER, epsilon=1.0),
    "PGR none": ProjectiveGeometryResponse(NONE, epsilon=1.0, field=3),
    "PGR wide": ProjectiveGeometryResponse(WIDE, epsilon=2.0),
    "HPGR none": HybridProjectiveGeometryResponse(NONE, epsilon=2.0, field=2),
    "HPGR wide": HybridProjectiveGeometryResponse(WIDE, epsilon=2.0, field=3),
}
N = 30_000
each = pytest.mark.parametrize("name", MECHANISMS)


def events(m: Mechanism, n: int = N) -> pl.DataFrame:
    """Values, skewed, nulls where the domain takes them; a key of three groups; ids."""
    labels = [*m.domain.labels, *([None] if m.domain.unmatched != "error" else [])]
    weights = 0.6 ** np.minimum(np.arange(len(labels)), 6)
    codes = np.random.default_rng(3).choice(len(labels), n, p=weights / weights.sum())
    values = pl.Series("x", labels).gather(codes)
    return pl.DataFrame({"x": values, "code": codes, "k": np.arange(n) % 3, "id": np.arange(n)})


def check_counts(m: Mechanism, counts, errors, codes) -> None:
    """What is "none" is counted nowhere."""
    true = np.bincount(codes, minlength=m.domain.size)[: m.domain.size]
    sigmas = np.abs(np.asarray(counts) - true) / np.asarray(errors)
    assert len(sigmas) == m.domain.size
    assert sigmas.max() < stats.norm.isf(1e-9 / len(sigmas))


# ---- Polars


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(name, engine):
    m = MECHANISMS[name]
    frame = events(m)
    reports = frame.lazy().with_columns(ldp_polars.perturb("x", m)).collect(engine=engine)
    assert reports["x"].null_count() == 0
    histogram = reports.select(pl.col("x").ldp.histogram(m)).explode("x").unnest("x")
    assert histogram["value"].cast(pl.String).to_list() == list(m.domain.texts)
    check_counts(m, histogram["count"], histogram["standard_error"], frame["code"].to_numpy())
    # in groups, and their tallies merged
    grouped = reports.group_by("k", maintain_order=True).agg(pl.col("x").ldp.tally(m))
    merged = grouped.select(pl.col("x").ldp.merge(m))
    assert merged.item() == reports.select(pl.col("x").ldp.tally(m)).item()


def test_a_wrong_mechanism_is_found_in_polars():
    """The check of the estimates has power: reports with half of the epsilon, debiased with the whole."""
    m, half = (ProjectiveGeometryResponse(WIDE, epsilon=x, field=7) for x in (2.0, 1.0))
    frame = events(m)
    wrong = m.debias(N, m.support_counts(half.perturb(frame["x"].to_numpy()), np.zeros(N, int), 1)[0])
    with pytest.raises(AssertionError):
        check_counts(m, wrong[0], wrong[1], frame["code"].to_numpy())


@each
def test_typed_and_keyed_reports(name):
    m, secret = MECHANISMS[name], Secret.generate()
    frame = events(m, 1000)
    reports = frame.select(pl.col("x").ldp.perturb(m, typed=True))
    assert reports.schema["x"].mechanism == m
    assert reports.select(pl.col("x").ldp.histogram()).item().len() == m.domain.size
    ours = frame.select(pl.col("x").ldp.perturb(m, key=secret, id="id"))["x"]
    core = m.perturb(frame["x"].to_arrow(), randomness=Keyed(secret, frame["id"].to_arrow(), column="x"))
    assert ours.to_list() == core.to_pylist()


# ---- Beam


def collected(tmp_path, rows) -> list:
    out = str(tmp_path / "rows.txt")
    lines = rows | "Lines" >> beam.Map(lambda r: json.dumps([r.key.get("k"), r.value, r.count, r.standard_error, r.n]))
    _ = lines | "Rows" >> beam.io.WriteToText(out, shard_name_template="")
    rows.pipeline.run().wait_until_finish()
    with open(out) as file:
        return [json.loads(line) for line in file]


@each
def test_beam_perturbs_and_tallies(tmp_path, name):
    m = MECHANISMS[name]
    frame = events(m)
    batches = frame.select("x", "k").to_arrow().to_batches(max_chunksize=10_000)
    rows = beam.Pipeline("FnApiRunner") | beam.Create(batches) | ldp_beam.PrivateHistogram("x", m, by=["k"])
    found = collected(tmp_path, rows)
    for key in range(3):
        rows_of = {value: (count, error) for k, value, count, error, _ in found if k == str(key)}
        assert list(rows_of) == list(m.domain.texts)
        check_counts(m, *np.array(list(rows_of.values())).T, frame.filter(pl.col("k") == key)["code"].to_numpy())


@each
def test_reports_of_polars_are_tallied_by_beam_and_the_other_way_round(tmp_path, name):
    m = MECHANISMS[name]
    plan = PrivacyPlan({"x": m}, keep=["k"])
    frame = events(m, 3000).select("x", "k")
    path = str(tmp_path / "reports.parquet")
    frame.select(pl.col("x").ldp.perturb(m), "k").write_parquet(path)
    expected = m.estimate(m.tally(pq.read_table(path)["x"])).counts
    rows = beam.Pipeline("FnApiRunner") | beam.io.ReadFromParquetBatched(path) | ldp_beam.Histogram("x", m)
    np.testing.assert_allclose([count for _, _, count, _, _ in collected(tmp_path, rows)], expected)

    table = perturbed_by_beam(tmp_path, frame.to_arrow().combine_chunks(), plan)
    tally = pl.from_arrow(table).select(pl.col("x").ldp.tally(m)).item()
    assert tally["support"] == m.tally(table["x"]).support.tolist()
    assert tally["n"] == 3000


def perturbed_by_beam(tmp_path, table: pa.Table, plan: PrivacyPlan) -> pa.Table:
    """What `ldp_beam.Perturb` makes of one batch, through a file."""
    with beam.Pipeline("FnApiRunner") as p:
        reports = p | beam.Create(table.to_batches()) | ldp_beam.Perturb(plan)
        _ = reports | beam.Map(as_ipc) | beam.io.WriteToText(str(tmp_path / "ipc"), shard_name_template="")
    with open(tmp_path / "ipc") as file:
        [line] = file
    return pa.ipc.open_stream(io.BytesIO(bytes.fromhex(line.strip()))).read_all()


def as_ipc(batch) -> str:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch) if isinstance(batch, pa.RecordBatch) else writer.write_table(batch)
    return sink.getvalue().hex()


@each
def test_single_records(tmp_path, name):
    """Dictionaries: one report each, and back."""
    m = MECHANISMS[name]
    plan = PrivacyPlan({"x": m}, keep=["k"])
    records = events(m, 300).select("x", "k").to_dicts()
    perturbed = beam.Pipeline("FnApiRunner") | beam.Create(records) | ldp_beam.Perturb(plan)
    found = collected(tmp_path, perturbed | ldp_beam.Histogram("x", m, by=["k"]))
    assert len(found) == 3 * m.domain.size
    assert sum(n for *_, n in found) == 300 * m.domain.size


@each
def test_combine_fn(name):
    m = MECHANISMS[name]
    reports = m.perturb(events(m, 1000)["x"].to_arrow())
    combine = ldp_beam.HistogramCombineFn(m, extract="tally")
    accumulator = combine.add_inputs(combine.create_accumulator(), [reports[:600], *reports[600:].to_pylist()])
    assert combine.extract_output(accumulator) == m.tally(reports)
    assert Tally.from_bytes(m.tally(reports).to_bytes()) == m.tally(reports)


@pytest.mark.parametrize("name", ["PGR wide", "HPGR wide", "SHE wide"])
def test_reports_that_are_none_become_dead_letters(tmp_path, name):
    m = MECHANISMS[name]
    reports = m.perturb(events(m, 100)["x"].to_arrow()).to_pylist()
    reports[7] = [m.entries[1] + 1] * 70 if "SHE" in name else 2**40  # neither entries nor a point
    batch = pa.record_batch({"x": pa.array(reports, m.report_type())})
    histogram = ldp_beam.Histogram("x", m).with_exception_handling()
    good, bad = beam.Pipeline("FnApiRunner") | beam.Create([batch]) | histogram
    out = str(tmp_path / "bad.txt")
    letters = bad | beam.Map(lambda letter: json.dumps([letter.column, letter.count]))
    _ = letters | beam.io.WriteToText(out, shard_name_template="")
    assert {n for *_, n in collected(tmp_path, good)} == {99}
    with open(out) as file:
        assert [json.loads(line) for line in file] == [["x", 1]]
