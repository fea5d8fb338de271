"""Longitudinal mechanisms through Polars and Beam: collected again and again, perturbed here and tallied there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from scipy import stats

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_core import Domain, Keyed, Mechanism, ParameterError, PrivacyPlan, Secret, bits
from ldp_core.d_bit_flip import DBitFlip
from ldp_core.loloha import Loloha
from ldp_core.longitudinal import LongitudinalRandomizedResponse, LongitudinalUnaryEncoding

OS = ["ios", "android", "web", "tv"]
MECHANISMS: dict[str, Mechanism] = {
    "L-GRR": LongitudinalRandomizedResponse(OS, epsilon_infinity=3.0, epsilon_1=2.0),
    "L-OSUE": LongitudinalUnaryEncoding(Domain(OS, unmatched="none"), epsilon_infinity=3.0, epsilon_1=2.0),
    "L-SOUE wide": LongitudinalUnaryEncoding(range(70), epsilon_infinity=3.0, epsilon_1=1.0, variant="SOUE"),
    "LOLOHA": Loloha(Domain(OS, unmatched="other"), epsilon_infinity=3.0, epsilon_1=2.0, g=3),
    "dBitFlip": DBitFlip(range(12), epsilon_infinity=3.0, bits=5),
}
N = 20_000
each = pytest.mark.parametrize("name", MECHANISMS)


def events(m: Mechanism, n: int = N) -> pl.DataFrame:
    """Values, skewed, nulls where the domain takes them; a key of three groups; ids."""
    labels = [*m.domain.labels, *([None] if m.domain.unmatched != "error" else [])]
    weights = 0.6 ** np.minimum(np.arange(len(labels)), 6)
    codes = np.random.default_rng(3).choice(len(labels), n, p=weights / weights.sum())
    values = pl.Series("x", labels).gather(codes)
    return pl.DataFrame({"x": values, "code": codes, "k": np.arange(n) % 3, "id": np.arange(n)})


def check_counts(m: Mechanism, counts, codes) -> None:
    """Within what a false alarm of 1e-9 allows over all values, by the mechanism's own variance."""
    true = np.bincount(codes, minlength=m.domain.size)[: m.domain.size]
    sigmas = np.abs(np.asarray(counts) - true) / np.sqrt(m.variance(len(codes), true))
    assert sigmas.max() < stats.norm.isf(1e-9 / len(sigmas))


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(name, engine):
    m, secret = MECHANISMS[name], Secret.generate()
    frame = events(m)
    reports = frame.lazy().with_columns(pl.col("x").ldp.perturb(m, key=secret, id="id")).collect(engine=engine)
    histogram = reports.select(pl.col("x").ldp.histogram(m)).explode("x").unnest("x")
    check_counts(m, histogram["count"], frame["code"].to_numpy())
    grouped = reports.group_by("k", maintain_order=True).agg(pl.col("x").ldp.tally(m))
    merged = grouped.select(pl.col("x").ldp.merge(m))
    assert merged.item() == reports.select(pl.col("x").ldp.tally(m)).item()


def test_reports_without_debiasing_are_found():
    """The check has power: the second round taken for the whole chain."""
    m = MECHANISMS["L-OSUE"]
    frame = events(m)
    reports = frame.select(pl.col("x").ldp.perturb(m, key=Secret.generate(), id="id"))["x"]
    wrong = m.instantaneous
    counts = wrong.estimate(wrong.tally(reports.to_arrow())).counts
    with pytest.raises(AssertionError):
        check_counts(m, counts, frame["code"].to_numpy())


@each
def test_fresh_noise_is_refused_everywhere(name):
    m = MECHANISMS[name]
    with pytest.raises(ParameterError, match="keyed noise"):
        pl.col("x").ldp.perturb(m)
    with pytest.raises(ParameterError, match="keyed noise"):
        ldp_beam.Perturb(PrivacyPlan({"x": m}))
    with pytest.raises(ParameterError, match="keyed noise"):
        ldp_beam.PrivateHistogram("x", m)


@each
def test_a_seeded_run_is_that_of_the_core(name):
    m = MECHANISMS[name]
    frame = events(m, 1000)
    ours = frame.select(pl.col("x").ldp.perturb(m, seed=7, row_id="id"))["x"]
    noise = Keyed(Secret.from_seed(7), frame["id"].to_arrow(), column="x")
    assert ours.to_list() == m.perturb(frame["x"].to_arrow(), randomness=noise).to_pylist()


def test_days_of_reports_of_one_person_say_the_permanent_answer():
    """Each day a query of its own; the bits converge to the permanent ones, and stay near p2 and q2."""
    m, secret, days = MECHANISMS["L-SOUE wide"], Secret.generate(), 60
    frame = pl.DataFrame({"x": [3] * 50, "id": ["ann"] * 50})
    perturb = pl.col("x").ldp.perturb(m, key=secret, id="id")
    rows = np.vstack([m.from_arrow(frame.select(perturb)["x"].to_arrow()) for _ in range(days)])
    codes = np.array([3], np.uint8)
    noise = Keyed(secret, ["ann"], column="x").bind(m.fingerprint, codes)
    permanent = np.unpackbits(m.permanent.perturb_codes(codes, noise)[0], count=70, bitorder="little")
    means = bits.column_sums(rows, 70) / len(rows)
    rate = np.where(permanent, m.instantaneous.p, m.instantaneous.q)
    assert (np.abs(means - rate) < 7 * np.sqrt(rate * (1 - rate) / len(rows))).all()


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
    batches = frame.select("x", "k", "id").to_arrow().to_batches(max_chunksize=7000)
    secret = Secret.generate().shared()
    rows = (
        beam.Pipeline("FnApiRunner")
        | beam.Create(batches)
        | ldp_beam.PrivateHistogram("x", m, by=["k"], key=secret, id="id")
    )
    found = collected(tmp_path, rows)
    for key in range(3):
        counts = {value: count for k, value, count, _ in found if k == str(key)}
        assert list(counts) == list(m.domain.texts)
        check_counts(m, list(counts.values()), frame.filter(pl.col("k") == key)["code"].to_numpy())


@each
@pytest.mark.parametrize("packed", [False, True])
def test_reports_of_polars_are_tallied_by_beam(tmp_path, name, packed):
    m = MECHANISMS[name]
    path = str(tmp_path / "reports.parquet")
    frame = events(m, 3000)
    frame.select(pl.col("x").ldp.perturb(m, key=Secret.generate(), id="id", packed=packed), "k").write_parquet(path)
    expected = m.estimate(m.tally(pq.read_table(path)["x"])).counts
    rows = beam.Pipeline("FnApiRunner") | beam.io.ReadFromParquetBatched(path) | ldp_beam.Histogram("x", m)
    np.testing.assert_allclose([count for _, _, count, _ in collected(tmp_path, rows)], expected, atol=1e-6)


@each
@pytest.mark.parametrize("packed", [False, True])
def test_single_records_of_beam(tmp_path, name, packed):
    """Dictionaries: one report each, and back; a seeded plan gives those of the core."""
    m = MECHANISMS[name]
    plan = PrivacyPlan({"x": m}, keep=["k", "id"], seed=11)
    frame = events(m, 200).select("x", "k", "id")
    out = str(tmp_path / "reports.txt")
    with beam.Pipeline("FnApiRunner") as p:
        reports = p | beam.Create(frame.to_dicts()) | ldp_beam.Perturb(plan, id="id", packed=packed)
        _ = (
            reports
            | beam.Map(lambda r: json.dumps([r["id"], listed(r["x"])]))
            | beam.io.WriteToText(out, shard_name_template="")
        )
    with open(out) as file:
        found = dict(json.loads(line) for line in file)
    noise = Keyed(Secret.from_seed(11), frame["id"].to_arrow(), column="x")
    expected = m.perturb(frame["x"].to_arrow(), randomness=noise, packed=packed).to_pylist()
    assert [found[i] for i in range(200)] == expected
    histogram = ldp_beam.Histogram("x", m, by=["k"])
    rows = beam.Pipeline("FnApiRunner") | beam.Create([{"x": r, "k": 0} for r in expected]) | histogram
    assert sum(n for _, _, _, n in collected(tmp_path, rows)) == 200 * m.domain.size


def listed(report):
    return report.tolist() if hasattr(report, "tolist") else report


def test_combine_fn():
    for m in MECHANISMS.values():
        frame = events(m, 500)
        noise = Keyed(Secret.generate(), frame["id"].to_arrow(), column="x")
        reports = m.perturb(frame["x"].to_arrow(), randomness=noise)
        combine = ldp_beam.HistogramCombineFn(m, extract="tally")
        accumulator = combine.add_inputs(combine.create_accumulator(), [reports[:300], *reports[300:].to_pylist()])
        assert combine.extract_output(accumulator) == m.tally(reports)


def test_the_examples_of_the_guide_run(capsys):
    text = (Path(__file__).parents[1] / "docs" / "longitudinal.md").read_text(encoding="utf-8")
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "longitudinal.md", "exec"), names)
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert names["reports"].height == 3
