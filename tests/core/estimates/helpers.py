"""Populations and counts for the tests of distributions."""

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
