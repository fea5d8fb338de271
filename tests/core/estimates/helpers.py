"""Populations and counts for the tests of distributions; weights of reports, and how often intervals of them hold."""

import numpy as np
from scipy import stats

SIDE = (-1.0, 1.0)
METHODS = ["ems", "em"]


def counts_of(m, shares, n, seed=0):
    row = m._mixture(np.asarray(shares, float))
    return np.random.default_rng(seed).multinomial(n, row / row.sum())


def population(kind, d) -> np.ndarray:
    """Shares of d buckets."""
    at = np.arange(d + 1) / d
    shares = np.diff(stats.beta(3, 2).cdf(at))
    if kind == "beta":
        return shares
    shares *= 0.7
    shares[7 * d // 16] += 0.3
    return shares


def weights_of(supports, m):
    """Of reports for a value: the first columns are people, the last ones cases."""
    return (supports - m.q) / (m.p - m.q)


def first(k, n):
    return (np.arange(n) < k).astype(float)


def held(found, truth, probability):
    """How often intervals hold, and how often they are bounded."""
    holds = np.array([one.low <= truth <= one.high for one in found])
    bounded = np.array([np.isfinite(one.low) for one in found])
    return probability @ holds, probability @ bounded
