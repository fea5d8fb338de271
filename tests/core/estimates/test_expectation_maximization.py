"""Expectation maximization against matrices, and its derivatives against differences."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import stats

from ldp_core import SquareWave, Tally
from ldp_core.estimates.expectation_maximization import Fit, derivative, fit, smoothed

from ...cases import each
from .helpers import SIDE, counts_of, population


def dense_ems(m, counts, smooth):
    """EM and EMS with matrices, as in vvv214/LDP_Protocols sw.py (its stopping rule, the paper's, and smoothing)."""
    d, n_cells = m.buckets, m.symbols
    channel = np.array([m.channel(point) for point in range(d)], float).T
    kernel = np.zeros((d, d))
    for i in range(d):
        for j, weight in ((i - 1, 1), (i, 2), (i + 1, 1)):
            if 0 <= j < d:
                kernel[i, j] = weight
    kernel /= kernel.sum(axis=1, keepdims=True)
    theta, old = np.full(d, 1 / d), None
    threshold = 1e-3 if smooth else 1e-3 * np.exp(m.epsilon)
    for _ in range(10_000):
        theta = theta * (channel.T @ (counts / (channel @ theta)))
        theta /= theta.sum()
        if smooth:
            theta = kernel @ theta
            theta /= theta.sum()
        likelihood = counts @ np.log(channel @ theta)
        if old is not None and abs(likelihood - old) < threshold:
            break
        old = likelihood
    assert len(counts) == n_cells
    return theta


@each("method", ["ems", "em"])
@each(("epsilon", "buckets"), [(0.5, 20), (1.0, 64), (3.0, 33)])
def test_expectation_maximization_is_that_with_matrices(method, epsilon, buckets):
    m = SquareWave(SIDE, epsilon=epsilon, buckets=buckets)
    counts = counts_of(m, np.diff(stats.beta(5, 2).cdf(np.arange(buckets + 1) / buckets)), 20_000)
    found = m.distribution(Tally(20_000, counts, m.fingerprint), method=method)
    np.testing.assert_allclose(found.frequencies, dense_ems(m, counts, method == "ems"), rtol=1e-6, atol=1e-12)
    assert found.method == method
    assert np.isfinite([found.standard_errors, found.low, found.high]).all()


def test_em_finds_a_distribution_from_counts_without_noise():
    m = SquareWave((0, 1), epsilon=3.0, buckets=40)
    shares = np.diff(stats.beta(2, 5).cdf(np.arange(41) / 40))
    counts = np.rint(m._mixture(shares) * 1e9).astype(np.int64)
    found = m.distribution(Tally(int(counts.sum()), counts, m.fingerprint), method="em")
    assert np.abs(np.cumsum(found.frequencies) - np.cumsum(shares)).max() < 2e-3


def test_smoothing_is_that_of_a_matrix():
    x = np.random.default_rng(0).random(7)
    np.testing.assert_allclose(smoothed(np.eye(7)) @ x, smoothed(x))
    np.testing.assert_allclose(smoothed(np.ones(7)), 1)


@each("smoothing", [0.0, 0.25])
@each(("steps", "tolerance"), [(1, 1e-6), (2, 1e-6), (3, 0.04), (10, 0.04), (100, 0.04)])
def test_derivatives_are_quotients_of_differences(smoothing, steps, tolerance):
    """Exact for two steps; of more, some are taken to be alike."""
    m = SquareWave((0, 1), epsilon=2.0, buckets=24)
    channel = np.array([m.channel(point) for point in range(24)], float).T
    counts = counts_of(m, population("beta", 24), 20_000).astype(float)
    run = partial(fit, mixture=m._mixture, backward=m._backward, d=24, smoothing=smoothing, most=steps)
    found = derivative(run(counts), counts, channel, smoothing)
    nearby = 1e-3 * np.eye(len(counts))
    expected = np.array([(run(counts + h).shares - run(counts - h).shares) / 2e-3 for h in nearby]).T * counts.sum()
    assert np.abs(found - expected).max() < tolerance * np.abs(expected).max()


@each("steps", [1, 2, 3, 4, 7, 8, 100, 4096])
def test_stretches_are_all_steps(steps):
    path = [np.array([float(at)]) for at in (0, 1, *(3 * 2**j for j in range(12))) if at <= steps]
    begin = 0
    for shares, length in Fit(np.array([float(steps)]), path, steps).stretches():
        assert begin <= shares[0] <= begin + length
        begin += length
    assert begin == steps
