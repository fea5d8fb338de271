"""Confidence intervals cover, and estimates are unbiased with the variance that is claimed.

The distribution of a support count, Binomial(c, p) + Binomial(n - c, q), is computed and not only simulated: a
cell's coverage is then a number without error. Simulation through the code confirms it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import signal, stats

from ldp_core import RandomizedResponse, Tally, UnaryEncoding
from ldp_core.mechanisms.oracles.hadamard_response import HadamardResponse
from ldp_core.mechanisms.oracles.local_hashing import LocalHashing
from ldp_core.mechanisms.oracles.subset_selection import SubsetSelection
from ldp_core.mechanisms.oracles.threshold_histogram_encoding import ThresholdHistogramEncoding

from .checks import FALSE_ALARM, check_binomial

SIXTEEN = range(16)
MECHANISMS = {
    f"{name}, epsilon {e}": make(e)
    for e in (0.5, 1, 3)
    for name, make in {
        "GRR d=2": lambda e: RandomizedResponse(epsilon=e),
        "GRR d=16": lambda e: RandomizedResponse(SIXTEEN, epsilon=e),
        "OUE d=16": lambda e: UnaryEncoding(SIXTEEN, epsilon=e),
        "SUE d=16": lambda e: UnaryEncoding(SIXTEEN, epsilon=e, variant="symmetric"),
        "SS d=16": lambda e: SubsetSelection(SIXTEEN, epsilon=e),
        "OLH d=16": lambda e: LocalHashing(SIXTEEN, epsilon=e),
        "BLH d=16": lambda e: LocalHashing(SIXTEEN, epsilon=e, variant="binary"),
        "FLH d=16": lambda e: LocalHashing(SIXTEEN, epsilon=e, variant="fast"),
        "HR d=16": lambda e: HadamardResponse(SIXTEEN, epsilon=e),
        "THE d=16": lambda e: ThresholdHistogramEncoding(SIXTEEN, epsilon=e),
    }.items()
} | {
    f"coins {t}, {y}": RandomizedResponse.from_coins(truth=t, yes=y) for t, y in [(0.5, 0.25), (0.25, 0.9), (0.8, 0.3)]
}
FREQUENCIES = (0, 0.01, 0.3, 0.9)
SIZES = (1000, 10_000)


def exact_coverage(m, n: int, f: float, value: int) -> float:
    p, q = (float(x[value]) for x in m.expected_parts())
    true = round(f * n)
    probability = signal.fftconvolve(
        stats.binom.pmf(np.arange(true + 1), true, p), stats.binom.pmf(np.arange(n - true + 1), n - true, q)
    )
    support = np.repeat(np.arange(n + 1)[:, None], m.domain.size, axis=1)
    _, _, low, high = (a[:, value] for a in m.debias(n, support))
    return float(probability[(low <= true) & (true <= high)].sum())


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", MECHANISMS)
def test_coverage(name, n):
    m = MECHANISMS[name]
    for f in FREQUENCIES:
        for value in range(2 if name.startswith("coins") else 1):
            coverage = exact_coverage(m, n, f, value)
            assert 0.94 <= coverage <= 0.96, (f, value)


@pytest.mark.parametrize("name", MECHANISMS)
def test_simulated_coverage_is_the_computed_one(name):
    m, n, f, repetitions = MECHANISMS[name], 1000, 0.3, 200_000
    rng = np.random.default_rng()
    p, q = (float(x[0]) for x in m.expected_parts())
    true = round(f * n)
    first = rng.binomial(true, p, repetitions) + rng.binomial(n - true, q, repetitions)
    support = np.repeat(first[:, None], m.domain.size, axis=1)
    _, _, low, high = (a[:, 0] for a in m.debias(n, support))
    check_binomial(np.sum((low <= true) & (true <= high)), repetitions, exact_coverage(m, n, f, 0))


@pytest.mark.parametrize("name", [n for n in MECHANISMS if "epsilon 1" in n or "0.25, 0.9" in n])
def test_coverage_through_perturb_tally_and_estimate(name):
    """3000 piles of 1000 records, 300 of them the second value, perturbed for real."""
    m, n, piles, true = MECHANISMS[name], 1000, 3000, 300
    codes = np.zeros((piles, n), np.uint8)
    codes[:, :true] = 1
    values = m.domain.decode(codes.reshape(-1))
    native = m.from_arrow(m.perturb(values))
    support = m.count_reports(native, np.repeat(np.arange(piles), n), piles)
    histograms = [m.estimate(Tally(n, s, m.fingerprint)) for s in support]
    covered = sum(bool(h.low[1] <= true <= h.high[1]) for h in histograms)
    check_binomial(covered, piles, exact_coverage(m, n, true / n, 1))
    assert all(isinstance(h.n, int) and h.n == n for h in histograms[:3])


@pytest.mark.parametrize("name", ["GRR d=16, epsilon 1", "OUE d=16, epsilon 1", "SUE d=16, epsilon 3"])
@pytest.mark.parametrize("uneven", [False, True])
def test_simultaneous_intervals_hold_together(name, uneven):
    m, n, repetitions, d = MECHANISMS[name], 10_000, 20_000, 16
    rng = np.random.default_rng(7)
    true = np.full(d, n // d) if not uneven else np.array([n - 15 * 10] + [10] * 15)
    if isinstance(m, RandomizedResponse):
        probabilities = np.full((d, d), m.q) + np.eye(d) * (m.p - m.q)
        support = sum(
            rng.multinomial(c, row / row.sum(), repetitions) for c, row in zip(true, probabilities, strict=True)
        )
    else:
        support = rng.binomial(true, m.p, (repetitions, d)) + rng.binomial(n - true, m.q, (repetitions, d))
    _, _, low, high = m.debias(n, support, simultaneous=True)
    joint = np.all((low <= true) & (true <= high), axis=1)
    assert stats.binom.cdf(joint.sum(), repetitions, 0.95) > FALSE_ALARM  # at least 95 %; normal tails at 0.3 % cost
    _, _, low, high = m.debias(n, support)
    assert np.all((low <= true) & (true <= high), axis=1).mean() < 0.7  # the others do not promise it


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99, 0.999])
def test_other_confidences(confidence):
    m = MECHANISMS["OUE d=16, epsilon 1"]
    tally = Tally(10_000, np.arange(2500, 2516), m.fingerprint)
    h = m.estimate(tally, confidence=confidence)
    for end in (h.low, h.high):
        sigmas = np.abs(h.counts - end) / np.sqrt(m.variance(10_000, end))
        np.testing.assert_allclose(sigmas, stats.norm.isf((1 - confidence) / 2))
    h = m.estimate(tally, confidence=confidence, simultaneous=True)
    for end in (h.low, h.high):
        sigmas = np.abs(h.counts - end) / np.sqrt(m.variance(10_000, end))
        np.testing.assert_allclose(sigmas, stats.norm.isf((1 - confidence) / 32))
    assert (h.confidence, h.simultaneous) == (confidence, True)


@pytest.mark.parametrize("f", [0, 0.3])
@pytest.mark.parametrize("name", MECHANISMS)
def test_estimates_are_unbiased_with_the_claimed_variance(name, f):
    """Within 5.7 standard errors, of 4000 piles that went through perturb."""
    m, n, piles = MECHANISMS[name], 500, 4000
    true = round(f * n)
    codes = np.zeros((piles, n), np.uint8)
    codes[:, :true] = 1
    native = m.from_arrow(m.perturb(m.domain.decode(codes.reshape(-1))))
    support = m.count_reports(native, np.repeat(np.arange(piles), n), piles)
    estimates = m.debias(n, support)[0]
    truth = np.zeros(m.domain.size)
    truth[0], truth[1] = n - true, true
    p, q = (np.array(x, float) for x in m.expected_parts())
    variance = (truth * p * (1 - p) + (n - truth) * q * (1 - q)) / (p - q) ** 2
    bound = stats.norm.isf(FALSE_ALARM / (2 * m.domain.size))
    assert np.all(np.abs(estimates.mean(axis=0) - truth) <= bound * np.sqrt(variance / piles))
    spread = np.sqrt(2 / (piles - 1))  # of a sample variance of nearly normal numbers
    assert np.all(np.abs(estimates.var(axis=0, ddof=1) / variance - 1) <= 1.1 * bound * spread)
    assert variance[1] == pytest.approx(m.variance(n, true), rel=1e-9)


def test_no_reports_at_all():
    m = MECHANISMS["OUE d=16, epsilon 1"]
    h = m.estimate(m.tally(m.perturb(pa.array([], pa.int64()))))
    assert h.n == 0
    assert h.counts.tolist() == h.low.tolist() == h.high.tolist() == [0] * 16
    assert np.isnan(h.frequencies).all()
    assert "Histogram of 0 reports" in repr(h)
