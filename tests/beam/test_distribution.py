"""Distribution and PrivateDistribution against the core's distributions of the same reports."""

import math
from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_polars
from ldp_beam import Distribution, DistributionRow, HistogramRow, PrivateDistribution
from ldp_core import Hybrid, ParameterError, RandomizedResponse, Secret, SquareWave, StochasticRounding

from .helpers import run

WAVE = SquareWave((0.0, 10.0), epsilon=2.0, buckets=64)
ROUNDED = StochasticRounding((0.0, 10.0), epsilon=2.0, buckets=9)
OPTIONS = {"square wave": {"buckets": 5}, "em": {"buckets": 4, "method": "em", "confidence": 0.8}, "rounding": {}}
N = 3000
RNG = np.random.default_rng(0)
NUMBERS, TIME, KEY = RNG.uniform(0, 10, N), RNG.integers(0, 600, N), RNG.choice(["x", "y"], N)
each = pytest.mark.parametrize("name", OPTIONS)


def mechanism(name):
    return ROUNDED if name == "rounding" else WAVE


def same(rows, expected) -> None:
    """Rows of one pane are a distribution's buckets, in order."""
    names = ("frequency", "standard_error", "low", "high")
    for i, name in enumerate(("left", "right", *names)):
        column = (expected.edges[:-1], expected.edges[1:], expected.frequencies, expected.standard_errors)
        theirs = (*column, expected.low, expected.high)[i]
        np.testing.assert_allclose([getattr(row, name) for row in rows], theirs, rtol=1e-9, atol=1e-12)
    assert {(row.n, row.confidence) for row in rows} == {(expected.n, expected.confidence)}


@each
@pytest.mark.parametrize("form", ["batches", "records"])
def test_windows_and_keys(name, form):
    m = mechanism(name)
    reports = pl.DataFrame({"v": NUMBERS}).select(ldp_polars.perturb("v", m))["v"].to_arrow()
    table = pa.table({"v": reports, "t": TIME, "k": KEY})
    elements = table.to_batches(max_chunksize=1000) if form == "batches" else table.to_pylist()
    rows = run(Distribution("v", m, window="5m", event_time="t", by=["k"], **OPTIONS[name]), elements)
    for start in (0, 300):
        for key in "xy":
            there = pa.array(np.equal(TIME // 300 * 300, start) & np.equal(KEY, key))
            pane = [row for row in rows if row.window_start.micros == start * 10**6 and row.key["k"] == key]
            same(pane, m.distribution(m.tally(reports.filter(there)), **OPTIONS[name]))
            assert {(r.column, r.fingerprint, r.epsilon, r.pane_index) for r in pane} == {("v", m.fingerprint, 2.0, 0)}
            rows = [row for row in rows if row not in pane]
    assert not rows


@each
def test_in_one_step_with_keyed_noise(name):
    m, secret = mechanism(name), Secret.generate()
    private = partial(PrivateDistribution, "v", m, **OPTIONS[name])
    table = pa.table({"v": NUMBERS, "id": np.arange(N)})
    rows = run(private(key=secret, id="id"), [table])
    assert rows == run(private(key=secret, id="id"), [table.slice(1000), table.slice(0, 1000)])
    assert rows != run(private(), [table])
    reports = pl.from_arrow(table).select(ldp_polars.perturb("v", m, key=secret, id="id"))["v"].to_arrow()
    same(rows, m.distribution(m.tally(reports), **OPTIONS[name]))


def test_empty_windows_are_filled():
    batch = pa.table({"v": WAVE.perturb([1.0, 2.0]), "t": [5, 6]})
    rows = run(Distribution("v", WAVE, buckets=2, window=10, event_time="t", fill=(0, 20)), [batch])
    found = sorted((r.window_start.micros // 10**6, r.left, r.n, math.isnan(r.frequency)) for r in rows)
    assert found == [(0, 0.0, 2, False), (0, 5.0, 2, False), (10, 0.0, 0, True), (10, 5.0, 0, True)]


def test_numbers_that_cannot_be_used_are_dead_letters():
    rows, letters = run(PrivateDistribution("v", ROUNDED).with_exception_handling(), [{"v": 1.0}, {"v": None}])
    assert {row.n for row in rows} == {1}
    assert [(d.column, d.reason, d.count) for d in letters] == [("v", "null", 1)]


def test_rows_begin_as_those_of_histograms():
    assert DistributionRow._fields[:8] == HistogramRow._fields[:8]
    assert DistributionRow._fields[-7:] == HistogramRow._fields[-7:]


@pytest.mark.parametrize("kind", [Distribution, PrivateDistribution])
def test_bad_arguments(kind):
    for bad in (RandomizedResponse(epsilon=1.0), Hybrid((0, 1), epsilon=1.0), "square_wave", None):
        with pytest.raises(ParameterError, match="SquareWave or StochasticRounding"):
            kind("v", bad)
    for options in ({"confidence": 1}, {"by": ["v"]}, {"window": -1}, {"buckets": 65}, {"method": "mle"}):
        with pytest.raises(ParameterError):
            kind("v", WAVE, **options)
    with pytest.raises(TypeError, match="buckets"):
        kind("v", ROUNDED, buckets=4)
