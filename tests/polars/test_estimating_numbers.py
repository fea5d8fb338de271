"""Means and distributions: what the core gives for the same reports; groups, merges, types, keyed noise."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    DomainError,
    Hybrid,
    Keyed,
    OneBitMean,
    ParameterError,
    Piecewise,
    RandomizedResponse,
    Secret,
    SquareWave,
    StochasticRounding,
)

DOMAIN = (0.0, 10.0)


MECHANISMS = {
    "one bit": OneBitMean(DOMAIN, epsilon=1.0),
    "piecewise": Piecewise(DOMAIN, epsilon=1.0),
    "piecewise, epsilon 6": Piecewise(DOMAIN, epsilon=6.0),
    "hybrid": Hybrid(DOMAIN, epsilon=1.0),
    "square wave": SquareWave(DOMAIN, epsilon=2.0, buckets=60),
    "rounding, k-RR": StochasticRounding(DOMAIN, epsilon=2.0, buckets=5, oracle="randomized_response"),
    "rounding, OUE": StochasticRounding(DOMAIN, epsilon=2.0, buckets=70),
}


DTYPES = {"one bit": pl.Boolean, "piecewise, epsilon 6": pl.UInt16, "rounding, k-RR": pl.Int64}


N = 30_000


each = pytest.mark.parametrize("name", MECHANISMS)


each_distribution = pytest.mark.parametrize("name", ["square wave", "rounding, k-RR", "rounding, OUE"])


def frame() -> pl.DataFrame:
    numbers = np.random.default_rng(0).beta(2, 5, N) * 10
    return pl.DataFrame({"x": numbers, "k": np.arange(N) % 3, "id": np.arange(N)})


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_means_of_groups_are_those_of_the_core(name, engine):
    m, data = MECHANISMS[name], frame()
    reports = data.lazy().with_columns(ldp_polars.perturb("x", m, typed=False)).collect(engine=engine)
    assert reports["x"].null_count() == 0
    if name in DTYPES:
        assert reports.schema["x"] == DTYPES[name]
    found = reports.group_by("k").agg(pl.col("x").ldp.mean(m, confidence=0.9)).sort("k").unnest("x")
    for k, *numbers in found.iter_rows():
        expected = m.mean(m.tally(reports.filter(pl.col("k") == k)["x"].to_arrow()), confidence=0.9)
        ours = (expected.mean, expected.standard_error, expected.low, expected.high, expected.n)
        assert tuple(numbers) == pytest.approx(ours)
        true = data.filter(pl.col("k") == k)["x"].mean()
        assert abs(expected.mean - true) < 6 * np.sqrt(m.variance(expected.n)) + 10 / 60


@each
def test_tallies_merge_and_null_stays_null(name):
    m = MECHANISMS[name]
    reports = frame().select(ldp_polars.perturb("x", m, typed=False), "k")
    whole = reports.select(pl.col("x").ldp.mean(m)).item()
    daily = reports.group_by("k").agg(pl.col("x").ldp.tally(m))
    merged = daily.select(pl.col("x").ldp.merge(m)).select(ldp_polars.mean("x", m)).item()
    assert merged == whole
    holes = daily.with_columns(pl.when(pl.col("k") > 0).then("x")).select("k", ldp_polars.mean("x", m))
    assert holes.sort("k")["x"].is_null().to_list() == [True, False, False]
    empty = reports.clear().select(pl.col("x").ldp.mean(m)).item()
    assert empty["n"] == 0
    assert np.isnan(empty["mean"])


@each_distribution
def test_distributions_are_those_of_the_core(name):
    m = MECHANISMS[name]
    reports = frame().select(ldp_polars.perturb("x", m, typed=False), "k")
    options = {"buckets": 12} if name == "square wave" else {}
    grouped = reports.group_by("k", maintain_order=True).agg(pl.col("x").ldp.distribution(m, **options))
    for k, entries in grouped.iter_rows():
        tally = m.tally(reports.filter(pl.col("k") == k)["x"].to_arrow())
        expected = m.distribution(tally, **options).to_polars()
        got = pl.DataFrame(entries, schema=expected.schema)
        np.testing.assert_allclose(got.to_numpy(), expected.to_numpy(), rtol=1e-9, atol=1e-12)
    daily = reports.group_by("k").agg(pl.col("x").ldp.tally(m))
    holes = daily.with_columns(pl.when(pl.col("k") > 0).then("x"))
    lists = holes.select("k", ldp_polars.distribution("x", m, **options)).sort("k")["x"]
    assert lists.is_null().to_list() == [True, False, False]
    assert len(reports.clear().select(pl.col("x").ldp.distribution(m, **options)).item()) == len(expected)


@each
def test_typed_reports_need_no_mechanism(name):
    m = MECHANISMS[name]
    reports = frame().select(pl.col("x").ldp.perturb(m, typed=True))
    assert reports.schema["x"].mechanism == m
    assert reports.select(pl.col("x").ldp.mean()).item()["n"] == N
    if hasattr(m, "distribution"):
        assert len(reports.select(pl.col("x").ldp.distribution()).item()) == m.buckets


@each
def test_keyed_reports_are_those_of_the_core(name):
    m, secret, data = MECHANISMS[name], Secret.generate(), frame().head(2000)
    ours = data.select(pl.col("x").ldp.perturb(m, key=secret, id="id", typed=False))["x"]
    core = m.perturb(data["x"].to_arrow(), randomness=Keyed(secret, data["id"].to_arrow(), column="x"))
    assert ours.to_list() == core.to_pylist()


def test_wrong_arguments():
    m, other = MECHANISMS["hybrid"], RandomizedResponse(epsilon=1.0)
    for bad in (other, "hybrid"):
        with pytest.raises(ParameterError):
            ldp_polars.mean("x", bad)
        with pytest.raises(ParameterError):
            ldp_polars.distribution("x", bad)
    with pytest.raises(ParameterError):
        ldp_polars.distribution("x", m)  # means only
    with pytest.raises(ParameterError):
        ldp_polars.mean("x", m, confidence=1.0)
    with pytest.raises(ParameterError):
        ldp_polars.distribution("x", MECHANISMS["square wave"], buckets=61)
    with pytest.raises(DomainError):
        pl.DataFrame({"x": [1.0, None]}).select(ldp_polars.perturb("x", m, typed=False))
    with pytest.raises(DomainError, match="1 of 2 values"):
        pl.DataFrame({"x": [1.0, 11.0]}).select(ldp_polars.perturb("x", m, typed=False))
