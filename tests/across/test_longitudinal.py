"""Longitudinal mechanisms through Polars and Beam: collected again and again, perturbed here and tallied there."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_core import Domain, Keyed, Mechanism, ParameterError, PrivacyPlan, Secret
from ldp_core.exact import bits
from ldp_core.mechanisms.longitudinal.d_bit_flip import DBitFlip
from ldp_core.mechanisms.longitudinal.loloha import Loloha
from ldp_core.mechanisms.longitudinal.randomized_response import LongitudinalRandomizedResponse
from ldp_core.mechanisms.longitudinal.unary_encoding import LongitudinalUnaryEncoding

from ..beam.helpers import run
from .checks import (
    by_key,
    check_beam_reads,
    check_combined,
    check_counts,
    check_groups_merge,
    events,
    histogram,
    some,
    true_counts,
)

OS = ["ios", "android", "web", "tv"]
MECHANISMS: dict[str, Mechanism] = {
    "L-GRR": LongitudinalRandomizedResponse(OS, epsilon_infinity=3.0, epsilon_1=2.0),
    "L-OSUE": LongitudinalUnaryEncoding(Domain(OS, unmatched="none"), epsilon_infinity=3.0, epsilon_1=2.0),
    "L-SOUE wide": LongitudinalUnaryEncoding(range(70), epsilon_infinity=3.0, epsilon_1=1.0, variant="SOUE"),
    "LOLOHA": Loloha(Domain(OS, unmatched="other"), epsilon_infinity=3.0, epsilon_1=2.0, g=3),
    "dBitFlip": DBitFlip(range(12), epsilon_infinity=3.0, bits=5),
}
N = 20_000
each = pytest.mark.parametrize("name", some(MECHANISMS, "L-OSUE", "LOLOHA"))


def check_errors(m: Mechanism, counts, codes) -> None:
    """By the mechanism's own variance."""
    true = true_counts(m, codes)
    check_counts(counts, np.sqrt(m.variance(len(codes), true)), true)


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(name, engine):
    m, secret = MECHANISMS[name], Secret.generate()
    frame = events(m, N)
    reports = frame.lazy().with_columns(pl.col("x").ldp.perturb(m, key=secret, id="id")).collect(engine=engine)
    check_errors(m, histogram(reports, m)["count"], frame["code"])
    check_groups_merge(reports, m)


def test_reports_without_debiasing_are_found():
    """The check has power: the second round taken for the whole chain."""
    m = MECHANISMS["L-OSUE"]
    frame = events(m, N)
    reports = frame.select(pl.col("x").ldp.perturb(m, key=Secret.generate(), id="id"))["x"]
    wrong = m.instantaneous
    counts = wrong.estimate(wrong.tally(reports.to_arrow())).counts
    with pytest.raises(AssertionError, match="standard errors"):
        check_errors(m, counts, frame["code"])


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
    rows = np.vstack([m.reports.from_arrow(frame.select(perturb)["x"].to_arrow()) for _ in range(days)])
    codes = np.array([3], np.uint8)
    noise = Keyed(secret, ["ann"], column="x").bind(m.digest, codes)
    permanent = np.unpackbits(m.permanent.perturb_codes(codes, noise)[0], count=70, bitorder="little")
    means = bits.column_sums(rows, 70) / len(rows)
    rate = np.where(permanent, m.instantaneous.p, m.instantaneous.q)
    assert (np.abs(means - rate) < 7 * np.sqrt(rate * (1 - rate) / len(rows))).all()


# ---- Beam


@each
def test_beam_perturbs_and_tallies(name):
    m = MECHANISMS[name]
    frame = events(m, N)
    batches = frame.select("x", "k", "id").to_arrow().to_batches(max_chunksize=7000)
    secret = Secret.generate().shared()
    found = by_key(run(ldp_beam.PrivateHistogram("x", m, by=["k"], key=secret, id="id"), batches))
    assert sorted(found) == ["0", "1", "2"]
    for key, rows in found.items():
        assert [row.value for row in rows] == m.domain.arrow_values.to_pylist()
        check_errors(m, [row.count for row in rows], frame.filter(pl.col("k") == int(key))["code"])


@each
@pytest.mark.parametrize("packed", [False, True])
def test_reports_of_polars_are_tallied_by_beam(tmp_path, name, packed):
    m = MECHANISMS[name]
    path = str(tmp_path / "reports.parquet")
    frame = events(m, 3000)
    frame.select(pl.col("x").ldp.perturb(m, key=Secret.generate(), id="id", packed=packed), "k").write_parquet(path)
    check_beam_reads(path, m)


@each
@pytest.mark.parametrize("packed", [False, True])
def test_single_records_of_beam(name, packed):
    """Dictionaries: one report each, and back; a seeded plan gives those of the core."""
    m = MECHANISMS[name]
    plan = PrivacyPlan({"x": m}, keep=["k", "id"], seed=11)
    frame = events(m, 200).select("x", "k", "id")
    reports = run(ldp_beam.Perturb(plan, id="id", packed=packed), frame.to_dicts())
    found = {r["id"]: listed(r["x"]) for r in reports}
    noise = Keyed(Secret.from_seed(11), frame["id"].to_arrow(), column="x")
    expected = m.perturb(frame["x"].to_arrow(), randomness=noise, packed=packed).to_pylist()
    # a schema has no unsigned integers
    signed = [[w - 2**64 if w >= 2**63 else w for w in r] if isinstance(r, list) else r for r in expected]
    assert [found[i] for i in range(200)] == signed
    rows = run(ldp_beam.Histogram("x", m, by=["k"]), [{"x": r, "k": 0} for r in expected])
    assert sum(row.n for row in rows) == 200 * m.domain.size


def listed(report):
    return report.tolist() if hasattr(report, "tolist") else report


def test_combine_fn():
    for m in MECHANISMS.values():
        frame = events(m, 500)
        noise = Keyed(Secret.generate(), frame["id"].to_arrow(), column="x")
        reports = m.perturb(frame["x"].to_arrow(), randomness=noise)
        check_combined(m, reports, [reports[:300], *reports[300:].to_pylist()])
