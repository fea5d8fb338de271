"""Mechanisms for numbers through Polars and Beam: perturbed there, averaged here."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_core import Hybrid, OneBitMean, Piecewise, PrivacyPlan, SquareWave, StochasticRounding

from ..beam.helpers import run
from .checks import some

DOMAIN = (0.0, 10.0)
MECHANISMS = {
    "one bit": OneBitMean(DOMAIN, epsilon=1.0),
    "piecewise, epsilon 6": Piecewise(DOMAIN, epsilon=6.0),
    "hybrid": Hybrid(DOMAIN, epsilon=1.0),
    "square wave": SquareWave(DOMAIN, epsilon=2.0, buckets=60),
    "rounding, OUE": StochasticRounding(DOMAIN, epsilon=2.0, buckets=9),
}
N = 3000
NUMBERS = np.random.default_rng(0).uniform(0, 10, N)


@pytest.mark.parametrize("name", some(MECHANISMS, "hybrid", "rounding, OUE"))
def test_perturbed_by_beam_and_averaged_by_polars(name):
    m = MECHANISMS[name]
    plan = PrivacyPlan({"v": m}, keep=["k"])
    [reports] = run(ldp_beam.Perturb(plan), [pa.record_batch({"v": NUMBERS, "k": ["x"] * N})])
    found = pl.from_arrow(reports).select(pl.col("v").ldp.mean(m)).unnest("v")
    expected = m.mean(m.tally(reports["v"]))
    assert found["mean"].item() == pytest.approx(expected.mean)
    # 6 standard errors, and half of a bucket: the square wave's numbers are the middles of its buckets
    assert abs(expected.mean - NUMBERS.mean()) < 6 * np.sqrt(m.variance(N)) + 10 / 60


@pytest.mark.parametrize("name", some(MECHANISMS, "hybrid", "rounding, OUE"))
def test_single_records(name):
    m = MECHANISMS[name]
    perturb = ldp_beam.Perturb(PrivacyPlan({"v": m}, keep=["k"]))
    (row,) = run(perturb | ldp_beam.Mean("v", m), [{"v": 3, "k": "x"}, {"v": 4.5, "k": "y"}])
    assert row.n == 2
