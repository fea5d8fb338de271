"""Sketches through Polars and Beam: perturbed here, tallied there, the candidates asked for later."""

from __future__ import annotations

import json
import re
from pathlib import Path

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import ldp_beam
import ldp_polars
from ldp_core import Keyed, ParameterError, PrivacyPlan, Secret, Tally
from ldp_core.count_mean_sketch import CountMeanSketch
from ldp_core.hadamard_count_mean_sketch import HadamardCountMeanSketch

from .test_oracles_everywhere import collected, perturbed_by_beam

SKETCHES = {
    "CMS": CountMeanSketch(epsilon=2.0, hashes=32, width=64),
    "HCMS": HadamardCountMeanSketch(epsilon=2.0, hashes=32, width=64),
    "HCMS of integers": HadamardCountMeanSketch("int", epsilon=2.0, hashes=32, width=64),
}
N = 30_000
each = pytest.mark.parametrize("name", SKETCHES)


def label(m, k: int):
    return f"word {k}" if m.domain.kind == "str" else 10**12 + k


def events(m) -> pl.DataFrame:
    codes = np.minimum(np.random.default_rng(3).geometric(0.4, N), 400)
    values = [label(m, k) for k in codes.tolist()]
    return pl.DataFrame({"x": values, "code": codes, "k": np.arange(N) % 3, "id": np.arange(N)})


def candidates(m):
    """The two most frequent values, one that nobody has, in an order of their own."""
    return m.over([label(m, k) for k in (2, 9999, 1)])


def check_counts(counts, errors, codes) -> None:
    true = np.array([np.sum(codes == k) for k in (2, 9999, 1)])
    sigmas = np.abs(np.asarray(counts) - true) / np.asarray(errors)
    assert sigmas.max() < stats.norm.isf(1e-9)


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(name, engine):
    m = SKETCHES[name]
    frame = events(m)
    reports = frame.lazy().with_columns(ldp_polars.perturb("x", m)).collect(engine=engine)
    assert reports["x"].null_count() == 0
    histogram = reports.select(pl.col("x").ldp.histogram(candidates(m))).explode("x").unnest("x")
    check_counts(histogram["count"], histogram["standard_error"], frame["code"].to_numpy())
    # tallies know no candidates; in groups, merged, and asked later
    grouped = reports.group_by("k", maintain_order=True).agg(pl.col("x").ldp.tally(m))
    merged = grouped.select(pl.col("x").ldp.merge(m))
    assert merged.item() == reports.select(pl.col("x").ldp.tally(candidates(m))).item()
    later = merged.select(ldp_polars.estimate("x", candidates(m))).explode("x").unnest("x")
    assert later.equals(histogram)


@each
def test_typed_reports_carry_their_sketch(name):
    m = SKETCHES[name]
    reports = events(m).head(500).select(pl.col("x").ldp.perturb(m, typed=True))
    assert reports.schema["x"].mechanism == m
    assert reports.select(pl.col("x").ldp.tally()).item()["n"] == 500


@each
def test_keyed_reports_of_polars_are_those_of_the_core(name):
    m, secret = SKETCHES[name], Secret.generate()
    frame = events(m).head(2000)
    ours = frame.select(pl.col("x").ldp.perturb(m, key=secret, id="id"))["x"]
    core = m.perturb(frame["x"].to_arrow(), randomness=Keyed(secret, frame["id"].to_arrow(), column="x"))
    assert ours.to_list() == core.to_pylist()


@each
def test_reports_of_polars_are_tallied_by_beam_and_the_other_way_round(tmp_path, name):
    m = SKETCHES[name]
    frame = events(m).select("x", "k")
    path = str(tmp_path / "reports.parquet")
    frame.select(pl.col("x").ldp.perturb(m), "k").write_parquet(path)
    expected = candidates(m).estimate(m.tally(pq.read_table(path)["x"]))
    check_counts(expected.counts, expected.standard_errors, events(m)["code"].to_numpy())
    histogram = ldp_beam.Histogram("x", candidates(m))
    rows = beam.Pipeline("FnApiRunner") | beam.io.ReadFromParquetBatched(path) | histogram
    found = collected(tmp_path, rows)
    assert [value for _, value, _, _ in found] == list(candidates(m).domain.texts)
    np.testing.assert_allclose([count for _, _, count, _ in found], expected.counts)

    [table] = perturbed_by_beam(tmp_path, [frame.to_arrow().combine_chunks()], PrivacyPlan({"x": m}, keep=["k"]), False)
    tally = pl.from_arrow(table).select(pl.col("x").ldp.tally(m)).item()
    assert tally["support"] == m.tally(table["x"]).support.tolist()
    assert tally["n"] == N


@each
def test_beam_perturbs_and_tallies_by_key(tmp_path, name):
    m = SKETCHES[name]
    frame = events(m)
    batches = frame.select("x", "k").to_arrow().to_batches(max_chunksize=12_000)
    private = ldp_beam.PrivateHistogram("x", candidates(m), by=["k"])
    found = collected(tmp_path, beam.Pipeline("FnApiRunner") | beam.Create(batches) | private)
    assert len(found) == 9
    for key in range(3):
        counts = [count for k, _, count, _ in found if k == str(key)]
        errors = np.sqrt([candidates(m).variance(N // 3, N / 6)] * 3) * 1.5
        check_counts(counts, errors, frame.filter(pl.col("k") == key)["code"].to_numpy())


@each
def test_single_records(tmp_path, name):
    m = SKETCHES[name]
    frame = events(m).head(300).select("x", "k")
    perturb = ldp_beam.Perturb(PrivacyPlan({"x": m}, keep=["k"]))
    histogram = ldp_beam.Histogram("x", candidates(m))
    rows = beam.Pipeline("FnApiRunner") | beam.Create(frame.to_dicts()) | perturb | histogram
    found = collected(tmp_path, rows)
    assert [n for _, _, _, n in found] == [300] * 3


@each
def test_combine_fn(name):
    m = SKETCHES[name]
    reports = m.perturb(events(m).head(1000)["x"].to_arrow())
    combine = ldp_beam.HistogramCombineFn(candidates(m), extract="tally")
    accumulator = combine.add_inputs(combine.create_accumulator(), [reports[:600], *reports[600:].to_pylist()])
    assert combine.extract_output(accumulator) == m.tally(reports)
    assert Tally.from_bytes(m.tally(reports).to_bytes()) == m.tally(reports)


def test_a_plan_of_a_sketch_is_written_and_read():
    plan = PrivacyPlan({"x": SKETCHES["CMS"], "y": SKETCHES["HCMS of integers"]})
    assert PrivacyPlan.from_toml(plan.to_toml()) == plan
    assert plan.epsilon == 4.0


@pytest.mark.parametrize("name", ["CMS", "HCMS"])
def test_reports_that_are_none_become_dead_letters(tmp_path, name):
    m = SKETCHES[name]
    reports = m.perturb(events(m).head(100)["x"].to_arrow()).to_pylist()
    reports[7] = 2**64 - 1 if name == "HCMS" else [m.hashes, 0]
    batch = pa.record_batch({"x": pa.array(reports, m.report_type())})
    histogram = ldp_beam.Histogram("x", candidates(m)).with_exception_handling()
    good, bad = beam.Pipeline("FnApiRunner") | beam.Create([batch]) | histogram
    out = str(tmp_path / "bad.txt")
    letters = bad | beam.Map(lambda letter: json.dumps([letter.column, letter.count]))
    _ = letters | beam.io.WriteToText(out, shard_name_template="")
    assert {n for _, _, _, n in collected(tmp_path, good)} == {99}
    with open(out) as file:
        assert [json.loads(line) for line in file] == [["x", 1]]


def test_a_histogram_needs_candidates():
    with pytest.raises(ParameterError, match="over"):
        pl.col("x").ldp.histogram(SKETCHES["CMS"])


def test_the_guide_runs():
    text = (Path(__file__).parents[1] / "docs" / "sketches.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "sketches.md", "exec"), {})
