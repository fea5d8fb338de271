"""Sketches through Polars and Beam: perturbed here, tallied there, the candidates asked for later."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import ldp_beam
import ldp_polars
from ldp_core import Keyed, ParameterError, PrivacyPlan, Secret
from ldp_core.mechanisms.sketches.count_mean_sketch import CountMeanSketch
from ldp_core.mechanisms.sketches.hadamard_count_mean_sketch import HadamardCountMeanSketch

from ..beam.helpers import run
from .checks import (
    by_key,
    check_beam_reads,
    check_combined,
    check_dead_letter,
    check_groups_merge,
    check_polars_reads_beam,
    some,
)
from .checks import histogram as histogram_of

SKETCHES = {
    "CMS": CountMeanSketch(epsilon=2.0, hashes=32, width=64),
    "HCMS": HadamardCountMeanSketch(epsilon=2.0, hashes=32, width=64),
    "HCMS of integers": HadamardCountMeanSketch("int", epsilon=2.0, hashes=32, width=64),
}
N = 30_000
each = pytest.mark.parametrize("name", some(SKETCHES, "CMS", "HCMS"))


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
    histogram = histogram_of(reports, candidates(m))
    check_counts(histogram["count"], histogram["standard_error"], frame["code"].to_numpy())
    # tallies know no candidates; in groups, merged, and asked later
    merged = check_groups_merge(reports, m).select(pl.col("x").ldp.merge(m))
    later = merged.select(ldp_polars.histogram("x", candidates(m))).explode("x").unnest("x")
    assert later.equals(histogram)


@each
def test_a_question_about_one_value(name):
    m = SKETCHES[name]
    frame = events(m)
    one = m.over([label(m, 1)])
    assert PrivacyPlan.from_toml(PrivacyPlan({"x": one}).to_toml())["x"] == one
    reports = frame.select(pl.col("x").ldp.perturb(m))
    [found] = reports.select(pl.col("x").ldp.histogram(one)).item().to_list()
    assert found["value"] == label(m, 1)
    assert abs(found["count"] - (frame["code"] == 1).sum()) < stats.norm.isf(1e-9) * found["standard_error"]
    [row] = run(ldp_beam.Histogram("x", one), [reports.to_arrow()])
    assert (row.value, row.count, row.n) == (label(m, 1), pytest.approx(found["count"]), N)


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
    check_beam_reads(path, candidates(m))
    check_polars_reads_beam(frame, PrivacyPlan({"x": m}, keep=["k"]))


@each
def test_beam_perturbs_and_tallies_by_key(name):
    m = SKETCHES[name]
    frame = events(m)
    batches = frame.select("x", "k").to_arrow().to_batches(max_chunksize=12_000)
    private = ldp_beam.PrivateHistogram("x", candidates(m), by=["k"])
    found = by_key(run(private, batches))
    assert sorted(found) == ["0", "1", "2"]
    for key, rows in found.items():
        errors = np.sqrt([candidates(m).variance(N // 3, N / 6)] * 3) * 1.5
        check_counts([row.count for row in rows], errors, frame.filter(pl.col("k") == int(key))["code"].to_numpy())


@each
def test_single_records(name):
    m = SKETCHES[name]
    frame = events(m).head(300).select("x", "k")
    perturb = ldp_beam.Perturb(PrivacyPlan({"x": m}, keep=["k"]))
    rows = run(perturb | ldp_beam.Histogram("x", candidates(m)), frame.to_dicts())
    assert [row.n for row in rows] == [300] * 3


@each
def test_combine_fn(name):
    m = SKETCHES[name]
    reports = m.perturb(events(m).head(1000)["x"].to_arrow())
    check_combined(candidates(m), reports, [reports[:600], *reports[600:].to_pylist()])


def test_a_plan_of_a_sketch_is_written_and_read():
    plan = PrivacyPlan({"x": SKETCHES["CMS"], "y": SKETCHES["HCMS of integers"]})
    assert PrivacyPlan.from_toml(plan.to_toml()) == plan
    assert plan.epsilon == 4.0


@pytest.mark.parametrize("name", ["CMS", "HCMS"])
def test_reports_that_are_none_become_dead_letters(name):
    m = SKETCHES[name]
    reports = m.perturb(events(m).head(100)["x"].to_arrow()).to_pylist()
    reports[7] = 2**64 - 1 if name == "HCMS" else [m.hashes, 0]
    check_dead_letter(ldp_beam.Histogram("x", candidates(m)), pa.array(reports, m.reports.arrow_type()))


def test_a_histogram_needs_candidates():
    with pytest.raises(ParameterError, match="over"):
        pl.col("x").ldp.histogram(SKETCHES["CMS"])
