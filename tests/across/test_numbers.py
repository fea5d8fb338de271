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
from ..beam.streams import All
from ..cases import case

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


def test_perturbed_by_beam_and_averaged_by_polars():
    """Every number in one pipeline; single records too."""
    plans = [PrivacyPlan({"v": m}, keep=["k"]) for m in MECHANISMS.values()]
    batch = pa.record_batch({"v": NUMBERS, "k": ["x"] * N})
    made = run(All([ldp_beam.Perturb(plan) for plan in plans]), [batch])
    single = All([ldp_beam.Perturb(plan) | ldp_beam.Estimate("v", plan["v"], "mean") for plan in plans])
    rows = run(single, [{"v": 3, "k": "x"}, {"v": 4.5, "k": "y"}])
    for (name, m), [reports], [row] in zip(MECHANISMS.items(), made, rows, strict=True):
        found = pl.from_arrow(reports).select(pl.col("v").ldp.mean(m)).unnest("v")
        expected = m.mean(m.tally(reports["v"]))
        with case(name):
            assert found["mean"].item() == pytest.approx(expected.mean)
            # 6 standard errors, and half of a bucket: the square wave's numbers are the middles of its buckets
            assert abs(expected.mean - NUMBERS.mean()) < 6 * np.sqrt(m.variance(N)) + 10 / 60
            assert row.n == 2
