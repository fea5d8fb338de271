"""Every frequency oracle through Polars and Beam, which know none of them: perturbed here, tallied there, typed, keyed.

Estimates are checked against the true counts, within 6 of the mechanism's own standard errors over all cells together;
counts of the same reports must be equal wherever they are made.
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
from ldp_core.hadamard_response import HadamardResponse
from ldp_core.histogram_encoding import ThresholdHistogramEncoding
from ldp_core.local_hashing import LocalHashing
from ldp_core.subset_selection import SubsetSelection

OS = ["ios", "android", "web", "tv"]
PLAIN, OTHER, NONE = Domain(OS), Domain(OS, unmatched="other"), Domain(OS, unmatched="none")
WIDE = Domain(range(70))
MECHANISMS: dict[str, Mechanism] = {
    "subset": SubsetSelection(PLAIN, epsilon=1.0),
    "subset other": SubsetSelection(OTHER, epsilon=1.0, k=2),
    "subset wide": SubsetSelection(WIDE, epsilon=2.0),
    "OLH": LocalHashing(PLAIN, epsilon=1.0),
    "OLH none": LocalHashing(NONE, epsilon=1.0),
    "BLH wide": LocalHashing(WIDE, epsilon=2.0, variant="binary"),
    "FLH other": LocalHashing(OTHER, epsilon=1.0, variant="fast"),
    "FLH wide": LocalHashing(WIDE, epsilon=2.0, variant="fast"),
    "Hadamard none": HadamardResponse(NONE, epsilon=1.0),
    "Hadamard wide": HadamardResponse(WIDE, epsilon=2.0),
    "THE none": ThresholdHistogramEncoding(NONE, epsilon=1.0),
    "THE wide": ThresholdHistogramEncoding(WIDE, epsilon=2.0),
}
N = 60_000
each = pytest.mark.parametrize("name", MECHANISMS)


def events(m: Mechanism) -> pl.DataFrame:
    """Values, skewed, nulls where the domain takes them; a key of three groups; ids."""
    labels = [*m.domain.labels, *([None] if m.domain.unmatched != "error" else [])]
    weights = 0.6 ** np.minimum(np.arange(len(labels)), 6)
    codes = np.random.default_rng(3).choice(len(labels), N, p=weights / weights.sum())
    values = pl.Series("x", labels).gather(codes)
    return pl.DataFrame({"x": values, "code": codes, "k": np.arange(N) % 3, "id": np.arange(N)})


def truth(m: Mechanism, codes: np.ndarray) -> np.ndarray:
    """True count of each value of the domain; what is "none" is counted nowhere."""
    return np.bincount(codes, minlength=m.domain.size)[: m.domain.size]


def check_counts(m: Mechanism, counts, true, n) -> None:
    sigmas = np.abs(np.asarray(counts) - true) / np.sqrt(m.variance(n, true))
    assert sigmas.max() < stats.norm.isf(1e-9 / len(sigmas))


def text(value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- Polars


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(name, engine):
    m = MECHANISMS[name]
    frame = events(m)
    lazy = frame.lazy().with_columns(ldp_polars.perturb("x", m))
    reports = lazy.collect(engine=engine)
    assert reports["x"].null_count() == 0
    histogram = reports.select(pl.col("x").ldp.histogram(m)).explode("x").unnest("x")
    assert [text(v) for v in histogram["value"]] == list(m.domain.texts)
    check_counts(m, histogram["count"], truth(m, frame["code"].to_numpy()), N)
    # in groups, and their tallies merged
    grouped = reports.group_by("k", maintain_order=True).agg(pl.col("x").ldp.tally(m))
    merged = grouped.select(pl.col("x").ldp.merge(m))
    assert merged.item() == reports.select(pl.col("x").ldp.tally(m)).item()


def test_a_wrong_mechanism_is_found_in_polars():
    """The check of the estimates has power: reports with half of the epsilon, debiased with the whole."""
    m, half = LocalHashing(PLAIN, epsilon=1.0, variant="binary"), LocalHashing(PLAIN, epsilon=0.5, variant="binary")
    frame = events(m)
    counts = frame.select(pl.col("x").ldp.perturb(half)).select(pl.col("x").ldp.histogram(m)).explode("x").unnest("x")
    with pytest.raises(AssertionError):
        check_counts(m, counts["count"], truth(m, frame["code"].to_numpy()), N)


@each
def test_typed_reports_carry_their_mechanism(name):
    m = MECHANISMS[name]
    reports = events(m).select(pl.col("x").ldp.perturb(m, typed=True))
    assert reports.schema["x"].mechanism == m
    assert reports.select(pl.col("x").ldp.histogram()).item().len() == m.domain.size


@each
def test_keyed_reports_of_polars_are_those_of_the_core(name):
    m, secret = MECHANISMS[name], Secret.generate()
    frame = events(m).head(2000)
    ours = frame.select(pl.col("x").ldp.perturb(m, key=secret, id="id"))["x"]
    core = m.perturb(frame["x"].to_arrow(), randomness=Keyed(secret, frame["id"].to_arrow(), column="x"))
    assert ours.to_list() == core.to_pylist()


# ---- Beam


def collected(tmp_path, rows) -> list:
    out = str(tmp_path / "rows.txt")
    lines = rows | "Lines" >> beam.Map(lambda r: json.dumps([r.key.get("k"), r.value, r.count, r.n]))
    _ = lines | "Rows" >> beam.io.WriteToText(out, shard_name_template="")
    rows.pipeline.run().wait_until_finish()
    with open(out) as file:
        return [json.loads(line) for line in file]


@each
def test_beam_perturbs_and_tallies(tmp_path, name):
    m = MECHANISMS[name]
    frame = events(m)
    batches = frame.select("x", "k").to_arrow().to_batches(max_chunksize=20_000)
    rows = beam.Pipeline("FnApiRunner") | beam.Create(batches) | ldp_beam.PrivateHistogram("x", m, by=["k"])
    found = collected(tmp_path, rows)
    for key in range(3):
        counts = {value: count for k, value, count, _ in found if k == str(key)}
        assert list(counts) == list(m.domain.texts)
        codes = frame.filter(pl.col("k") == key)["code"].to_numpy()
        check_counts(m, list(counts.values()), truth(m, codes), len(codes))


@each
@pytest.mark.parametrize("packed", [False, True])
def test_reports_of_polars_are_tallied_by_beam_and_the_other_way_round(tmp_path, name, packed):
    m = MECHANISMS[name]
    plan = PrivacyPlan({"x": m}, keep=["k"])
    frame = events(m).head(6000).select("x", "k")
    path = str(tmp_path / "reports.parquet")
    frame.select(pl.col("x").ldp.perturb(m, packed=packed), "k").write_parquet(path)
    expected = m.estimate(m.tally(pq.read_table(path)["x"])).counts
    rows = beam.Pipeline("FnApiRunner") | beam.io.ReadFromParquetBatched(path) | ldp_beam.Histogram("x", m)
    np.testing.assert_allclose([count for _, _, count, _ in collected(tmp_path, rows)], expected)

    [table] = perturbed_by_beam(tmp_path, [frame.to_arrow().combine_chunks()], plan, packed)
    reports = pl.from_arrow(table)
    tally = reports.select(pl.col("x").ldp.tally(m)).item()
    assert tally["support"] == m.tally(table["x"]).support.tolist()
    assert tally["n"] == 6000


def perturbed_by_beam(tmp_path, batches, plan, packed) -> list[pa.Table]:
    """The batches that `ldp_beam.Perturb` makes, through files."""
    with beam.Pipeline("FnApiRunner") as p:
        reports = p | beam.Create([b.to_batches()[0] for b in batches]) | ldp_beam.Perturb(plan, packed=packed)
        encoded = reports | beam.Map(as_ipc)
        _ = encoded | beam.io.WriteToText(str(tmp_path / "ipc"), shard_name_template="")
    with open(tmp_path / "ipc") as file:
        return [pa.ipc.open_stream(io.BytesIO(bytes.fromhex(line.strip()))).read_all() for line in file]


def as_ipc(batch) -> str:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch) if isinstance(batch, pa.RecordBatch) else writer.write_table(batch)
    return sink.getvalue().hex()


@each
@pytest.mark.parametrize("packed", [False, True])
def test_single_records(tmp_path, name, packed):
    """Dictionaries: one report each, bits or words or a number, and back."""
    m = MECHANISMS[name]
    plan = PrivacyPlan({"x": m}, keep=["k"])
    frame = events(m).head(500).select("x", "k")
    perturb = ldp_beam.Perturb(plan, packed=packed)
    histogram = ldp_beam.Histogram("x", m, by=["k"])
    rows = beam.Pipeline("FnApiRunner") | beam.Create(frame.to_dicts()) | perturb | histogram
    found = collected(tmp_path, rows)
    assert len(found) == 3 * m.domain.size
    assert sum(n for _, _, _, n in found) == 500 * m.domain.size


@each
def test_combine_fn_and_dead_letters(name):
    m = MECHANISMS[name]
    frame = events(m).head(1000)
    reports = m.perturb(frame["x"].to_arrow())
    combine = ldp_beam.HistogramCombineFn(m, extract="tally")
    accumulator = combine.add_inputs(combine.create_accumulator(), [reports[:600], *reports[600:].to_pylist()])
    assert combine.extract_output(accumulator) == m.tally(reports)
    assert Tally.from_bytes(m.tally(reports).to_bytes()) == m.tally(reports)


@pytest.mark.parametrize("name", ["OLH", "FLH wide", "Hadamard wide"])
def test_reports_that_are_none_become_dead_letters(tmp_path, name):
    m = MECHANISMS[name]
    reports = m.perturb(events(m).head(100)["x"].to_arrow()).to_pylist()
    reports[7] = 2**64 - 1  # neither a bucket nor a column
    batch = pa.record_batch({"x": pa.array(reports, pa.uint64())})
    histogram = ldp_beam.Histogram("x", m).with_exception_handling()
    good, bad = beam.Pipeline("FnApiRunner") | beam.Create([batch]) | histogram
    out = str(tmp_path / "bad.txt")
    _ = (
        bad
        | beam.Map(lambda letter: json.dumps([letter.column, letter.reason, letter.count]))
        | beam.io.WriteToText(out, shard_name_template="")
    )
    found = collected(tmp_path, good)
    assert {n for _, _, _, n in found} == {99}
    with open(out) as file:
        [[column, reason, count]] = [json.loads(line) for line in file]
    assert (column, count) == ("x", 1)
    assert reason
