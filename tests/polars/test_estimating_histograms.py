"""Tallies and histograms in every context of Polars equal the formula."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    UnaryEncoding,
)

from .helpers import FEW, MECHANISMS, STRINGS, records, some

N = 240


AGGREGATIONS = {
    "select": lambda f, a: f.select(pl.col("r").alias("rows").implode(), a),
    "agg": lambda f, a: f.group_by("g").agg(pl.col("r").alias("rows"), a),
    "agg after filter": lambda f, a: f.filter("c").group_by("g").agg(pl.col("r").alias("rows"), a),
    "dynamic": lambda f, a: f.group_by_dynamic("i", every="30i").agg(pl.col("r").alias("rows"), a),
    "overlapping": lambda f, a: f.group_by_dynamic("i", every="30i", period="80i").agg(pl.col("r").alias("rows"), a),
    "rolling": lambda f, a: f.head(60).rolling("i", period="20i").agg(pl.col("r").alias("rows"), a),
    "two keys": lambda f, a: f.group_by("g", "c").agg(pl.col("r").alias("rows"), a),
    "empty select": lambda f, a: f.filter(pl.col("i") < 0).select(pl.col("r").alias("rows").implode(), a),
    "empty agg": lambda f, a: f.filter(pl.col("i") < 0).group_by("g").agg(pl.col("r").alias("rows"), a),
}


def debiased(counts, n, mechanism):
    """(C - n q) / (p - q)."""
    p, q = (np.array([float(f) for f in side]) for side in mechanism.support_probabilities())
    return (counts - n * q) / (p - q)


def check_histogram(entries, n, counts, mechanism):
    p, q = (np.array([float(x) for x in side]) for side in mechanism.support_probabilities())
    estimate = debiased(counts, n, mechanism)
    columns = {key: np.array([row[key] for row in entries]) for key in entries[0]}
    values = list(mechanism.domain.values)
    if mechanism.domain.unmatched == "other":
        values = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    assert columns.pop("value").tolist() == values
    assert columns.pop("n").tolist() == [n] * len(values)
    shares = {"frequency": "count"} | {f"frequency_{name}": name for name in ("standard_error", "low", "high")}
    assert set(columns) == {*shares, *shares.values()}
    close = {"rtol": 1e-12, "atol": 1e-9}
    np.testing.assert_allclose(columns["count"], estimate, **close)
    c = np.clip(estimate, 0, n)
    error = np.sqrt(c * p * (1 - p) + (n - c) * q * (1 - q)) / (p - q)
    np.testing.assert_allclose(columns["standard_error"], error, **close)
    for end in (columns["low"], columns["high"]):  # 1.96 standard errors of its own away (a score interval)
        variance = (end * p * (1 - p) + (n - end) * q * (1 - q)) / (p - q) ** 2
        np.testing.assert_allclose((estimate - end) ** 2, 1.959963984540054**2 * variance, **close)
    if n:
        assert np.all((columns["low"] < estimate) & (estimate < columns["high"]))
    for share, of in shares.items():
        if n:
            np.testing.assert_allclose(columns[share], columns[of] / n, **close)
        else:
            assert np.isnan(columns[share]).all()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("context", AGGREGATIONS)
@pytest.mark.parametrize("name", some(FEW, "rr str other", "oue int none"))
def test_tallies_and_histograms_equal_the_formula(context, name, packed, run, support):
    mechanism = MECHANISMS[name]
    reports = (
        records(mechanism, N).with_columns(r=ldp_polars.perturb("x", mechanism, packed=packed, typed=False)).drop("x")
    )
    pair = [ldp_polars.tally("r", mechanism).alias("t"), ldp_polars.histogram("r", mechanism).alias("h")]
    for k, aggregate in enumerate(pair):
        out = run(reports, lambda f, aggregate=aggregate: AGGREGATIONS[context](f, aggregate))
        assert out.height or context == "empty agg"
        for row in out.iter_rows(named=True):
            rows = pl.Series(row["rows"], dtype=reports.schema["r"])
            counts = support(rows, mechanism)
            if k == 0:
                assert row["t"] == {
                    "n": len(rows),
                    "counters": counts.tolist(),
                    "fingerprint": mechanism.fingerprint,
                }
            else:
                check_histogram(row["h"], len(rows), counts, mechanism)


@pytest.mark.parametrize("name", some(FEW, "rr str other", "oue int none"))
def test_over_gives_each_row_its_groups_tally_and_histogram(name, run, support):
    mechanism = MECHANISMS[name]
    reports = records(mechanism, 90).with_columns(r=ldp_polars.perturb("x", mechanism, typed=False)).drop("x")
    out = run(
        reports,
        lambda f: f.with_columns(
            t=ldp_polars.tally("r", mechanism).over("g"), h=ldp_polars.histogram("r", mechanism).over("g")
        ),
    )
    assert out.height == 90
    groups = {g: out.filter(pl.col("g") == g)["r"] for g in range(3)}
    for row in out.iter_rows(named=True):
        rows = groups[row["g"]]
        assert row["t"]["counters"] == support(rows, mechanism).tolist()
        check_histogram(row["h"], len(rows), support(rows, mechanism), mechanism)


def test_histogram_check_has_power():
    mechanism = MECHANISMS["oue str"]
    reports = records(mechanism, N).select(ldp_polars.perturb("x", mechanism, typed=False))
    other = UnaryEncoding(STRINGS, epsilon=1.001)
    counts = np.array(reports["x"].to_list()).sum(axis=0)
    entries = reports.select(ldp_polars.histogram("x", mechanism)).item().to_list()
    check_histogram(entries, N, counts, mechanism)
    for wrong in ((N + 1, counts, mechanism), (N, counts[::-1] + 1, mechanism), (N, counts, other)):
        with pytest.raises(AssertionError):
            check_histogram(entries, *wrong)


@pytest.mark.parametrize(("confidence", "simultaneous", "z"), [(0.9, False, 1.6448536), (0.95, True, 2.3939798)])
def test_confidence_and_simultaneous(confidence, simultaneous, z):
    mechanism = MECHANISMS["oue str"]
    df = records(mechanism, N).select(ldp_polars.perturb("x", mechanism, typed=False))
    options = {"confidence": confidence, "simultaneous": simultaneous}
    for h in (
        df.select(pl.col("x").ldp.histogram(mechanism, **options)),
        df.select(pl.col("x").ldp.tally(mechanism)).select(pl.col("x").ldp.histogram(mechanism, **options)),
    ):
        table = h.explode("x").unnest("x")
        for end in (table["low"].to_numpy(), table["high"].to_numpy()):
            sigma = np.sqrt(mechanism.variance(df.height, end))
            np.testing.assert_allclose(np.abs(table["count"] - end), z * sigma, rtol=1e-7)


def test_histogram_equals_the_cores(run):
    for name in FEW:
        mechanism = MECHANISMS[name]
        reports = records(mechanism, N).select(ldp_polars.perturb("x", mechanism, typed=False))
        out = run(reports, lambda f, m=mechanism: f.select(ldp_polars.histogram("x", m)).explode("x").unnest("x"))
        expected = mechanism.estimate(mechanism.tally(reports["x"].to_arrow())).to_polars()
        assert out.equals(expected.cast(out.schema))
