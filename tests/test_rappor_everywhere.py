"""RAPPOR through Polars and Beam: perturbed here, tallied there, from the same file; candidates are named later."""

from __future__ import annotations

import json
from functools import partial

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_core import Keyed, Mechanism, ParameterError, PrivacyPlan, Secret
from ldp_core.rappor import Rappor

NOISE = {"f": 0.2, "p": 0.2, "q": 0.8}
MECHANISMS = {
    "text": Rappor(bits=32, hashes=2, cohorts=8, **NOISE),
    "integers": Rappor("int", bits=70, hashes=1, cohorts=4, **NOISE),
    "MD5": Rappor(bits=16, hashes=2, cohorts=8, **NOISE, hashing="md5"),
}
N = 30_000
CANDIDATES = 6  # of which the last is nobody's; another value is, and nobody lists it
each = pytest.mark.parametrize("name", MECHANISMS)


def labels(m: Mechanism) -> list:
    return [10 * v for v in range(7)] if m.inputs.kind == "int" else [f"host {v}" for v in range(7)]


def events(m: Mechanism) -> pl.DataFrame:
    which = np.random.default_rng(3).choice([0, 1, 2, 3, 4, 6], N, p=[0.4, 0.25, 0.15, 0.1, 0.05, 0.05])
    values = pl.Series("x", labels(m)).gather(which)
    return pl.DataFrame({"x": values, "which": which, "k": np.arange(N) % 3, "id": np.arange(N)})


def over(m):
    return m.over(labels(m)[:CANDIDATES])


def check(counts, errors, which) -> None:
    true = np.bincount(which, minlength=7)[:CANDIDATES]
    assert np.abs((np.asarray(counts) - true) / np.asarray(errors)).max() < 6


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(name, engine):
    m = MECHANISMS[name]
    frame = events(m)
    lazy = frame.lazy().with_columns(pl.col("x").ldp.perturb(m, key=Secret.generate(), id="id"))
    reports = lazy.collect(engine=engine)
    assert reports.schema["x"] == pl.Array(pl.UInt64, 1 + -(-m.bits // 64))
    histogram = reports.select(pl.col("x").ldp.histogram(over(m))).explode("x").unnest("x")
    assert histogram["value"].to_list() == labels(m)[:CANDIDATES]
    check(histogram["count"], histogram["standard_error"], frame["which"].to_numpy())
    with pytest.raises(AssertionError):  # the check has power: against other true counts
        check(histogram["count"], histogram["standard_error"], (frame["which"].to_numpy() + 1) % 5)
    # in groups, before anybody names candidates, and merged
    grouped = reports.group_by("k", maintain_order=True).agg(pl.col("x").ldp.tally(m))
    merged = grouped.select(pl.col("x").ldp.merge(m).alias("all"))
    assert merged.item() == reports.select(pl.col("x").ldp.tally(m)).item()
    later = merged.select(pl.col("all").ldp.estimate(over(m))).explode("all").unnest("all")
    assert later["count"].to_list() == histogram["count"].to_list()
    each_group = grouped.select(pl.col("x").ldp.estimate(over(m)))["x"].to_list()
    assert len(each_group) == 3
    assert sum(row["count"] for rows in each_group for row in rows) == pytest.approx(
        sum(histogram["count"]), abs=6 * np.sqrt(3) * np.linalg.norm(histogram["standard_error"])
    )


@each
def test_keyed_reports_of_polars_are_those_of_the_core_but_for_the_second_round(name):
    m, secret = MECHANISMS[name], Secret.generate()
    frame = events(m).head(2000)
    perturb = pl.col("x").ldp.perturb(m, key=secret, id="id")
    ours, again = (np.array(frame.select(perturb)["x"].to_list(), np.uint64) for _ in range(2))
    core = m.from_arrow(m.perturb(frame["x"].to_arrow(), randomness=Keyed(secret, frame["id"].to_arrow(), column="x")))
    np.testing.assert_array_equal(ours[:, 0], core[:, 0])  # the cohort stays
    for other in (again, core):
        differing = np.bitwise_count(ours[:, 1:] ^ other[:, 1:]).sum() / (len(ours) * m.bits)
        assert abs(differing - 2 * 0.2 * 0.8) < 0.02  # of two draws of the same permanent bits


@each
def test_no_key_is_refused_at_once(name):
    m = MECHANISMS[name]
    for refused in (
        lambda: pl.col("x").ldp.perturb(m),
        lambda: ldp_beam.Perturb(PrivacyPlan({"x": m})),
        lambda: ldp_beam.PrivateHistogram("x", over(m)),
        lambda: pl.col("x").ldp.histogram(m),
    ):
        with pytest.raises(ParameterError):
            refused()


def collected(tmp_path, rows) -> list:
    out = str(tmp_path / "rows.txt")
    lines = rows | "Lines" >> beam.Map(lambda r: json.dumps([r.key.get("k"), r.value, r.count, r.standard_error, r.n]))
    _ = lines | "Rows" >> beam.io.WriteToText(out, shard_name_template="")
    rows.pipeline.run().wait_until_finish()
    with open(out) as file:
        return [json.loads(line) for line in file]


SEED = partial(Secret, bytes(range(32)))


@each
def test_beam_perturbs_and_tallies(tmp_path, name):
    m = MECHANISMS[name]
    frame = events(m)
    batches = frame.select("x", "k", "id").to_arrow().to_batches(max_chunksize=10_000)
    histogram = ldp_beam.PrivateHistogram("x", over(m), by=["k"], key=SEED, id="id")
    found = collected(tmp_path, beam.Pipeline("FnApiRunner") | beam.Create(batches) | histogram)
    for key in range(3):
        mine = [(count, error) for k, _, count, error, _ in found if k == str(key)]
        assert len(mine) == CANDIDATES
        check(*zip(*mine, strict=True), frame.filter(pl.col("k") == key)["which"].to_numpy())


@each
def test_reports_of_polars_are_tallied_by_beam_and_the_other_way_round(tmp_path, name):
    m = MECHANISMS[name]
    frame = events(m).select("x", "id", "which")
    path = str(tmp_path / "reports.parquet")
    frame.select(pl.col("x").ldp.perturb(m, key=Secret.generate(), id="id")).write_parquet(path)
    expected = over(m).estimate(m.tally(pq.read_table(path)["x"])).counts
    rows = beam.Pipeline("FnApiRunner") | beam.io.ReadFromParquetBatched(path) | ldp_beam.Histogram("x", over(m))
    np.testing.assert_allclose([count for _, _, count, _, _ in collected(tmp_path, rows)], expected)

    out = str(tmp_path / "made")
    plan = PrivacyPlan({"x": m})
    schema = plan.schema(frame.to_arrow().schema)
    with beam.Pipeline("FnApiRunner") as p:
        batches = p | beam.Create(frame.select("x", "id").to_arrow().to_batches())
        reports = batches | ldp_beam.Perturb(plan, key=SEED, id="id")
        tables = reports | beam.Map(lambda batch: pa.Table.from_batches([batch]))
        _ = tables | beam.io.WriteToParquetBatched(out, schema, shard_name_template="")
    made = pl.read_parquet(out)
    histogram = made.select(pl.col("x").ldp.histogram(over(m))).explode("x").unnest("x")
    check(histogram["count"], histogram["standard_error"], frame["which"].to_numpy())
    assert made.select(pl.col("x").ldp.tally(m)).item()["support"] == m.tally(pq.read_table(out)["x"]).support.tolist()


def test_the_combine_fn_takes_reports_and_tallies():
    m = MECHANISMS["text"]
    frame = events(m).head(1000)
    reports = m.perturb(frame["x"].to_arrow(), randomness=Keyed(Secret.generate(), np.arange(1000), column="x"))
    combine = ldp_beam.HistogramCombineFn(over(m), extract="tally")
    accumulator = combine.add_inputs(combine.create_accumulator(), [reports[:600], m.tally(reports[600:])])
    assert combine.extract_output(accumulator) == m.tally(reports)


def test_reports_that_are_none_become_dead_letters(tmp_path):
    m = MECHANISMS["text"]
    reports = m.perturb(["host 1"] * 100, randomness=Keyed(Secret.generate(), np.arange(100), column="x"))
    reports[7, 0] = 8  # there is no such cohort
    batch = pa.record_batch({"x": pa.FixedSizeListArray.from_arrays(pa.array(reports.reshape(-1)), 2)})
    histogram = ldp_beam.Histogram("x", over(m)).with_exception_handling()
    good, bad = beam.Pipeline("FnApiRunner") | beam.Create([batch]) | histogram
    out = str(tmp_path / "bad.txt")
    _ = (
        bad
        | beam.Map(lambda letter: json.dumps([letter.column, letter.count]))
        | beam.io.WriteToText(out, shard_name_template="")
    )
    assert {n for *_, n in collected(tmp_path, good)} == {99}
    with open(out) as file:
        assert [json.loads(line) for line in file] == [["x", 1]]


def test_single_records(tmp_path):
    """Dictionaries: a list of words each, and back."""
    m = MECHANISMS["text"]
    frame = events(m).head(500).select("x", "id", "k")
    plan = PrivacyPlan({"x": m}, keep=["k"])
    histogram = ldp_beam.Histogram("x", over(m), by=["k"])
    records = beam.Pipeline("FnApiRunner") | beam.Create(frame.to_dicts())
    found = collected(tmp_path, records | ldp_beam.Perturb(plan, key=SEED, id="id") | histogram)
    assert len(found) == 3 * CANDIDATES
    assert sum(n for *_, n in found) == 500 * CANDIDATES
