"""Clopper-Pearson bounds against scipy, against sums of exact fractions, and by how often they fail."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ldp_core.auditing.binomial import epsilon_bound, log_upper_tail, lower_bound, upper_bound

from ...cases import each

COUNTS = [(0, 10), (1, 10), (10, 10), (3, 7), (0, 500_000), (1, 500_000), (20, 500_000), (250_000, 500_000)]
COUNTS += [(365_529, 500_000), (499_999, 500_000), (10**6, 10**7)]


@each(("k", "n"), COUNTS)
@each("alpha", [0.5, 0.05, 1e-6, 1e-12])
def test_bounds_are_scipys(k, n, alpha):
    low = stats.beta.ppf(alpha, k, n - k + 1) if k else 0.0
    high = stats.beta.isf(alpha, k + 1, n - k) if k < n else 1.0
    assert lower_bound(k, n, alpha) == pytest.approx(low, rel=1e-7, abs=1e-300)
    assert upper_bound(k, n, alpha) == pytest.approx(high, rel=1e-7, abs=1e-300)
    assert 1 - upper_bound(k, n, alpha) == pytest.approx(1 - high, rel=1e-6, abs=1e-12)


@each(("k", "n"), [(1, 1), (1, 30), (7, 30), (29, 30), (30, 30)])
@each("p", [Fraction(1, 1000), Fraction(1, 4), Fraction(9, 10)])
def test_tails_are_exact_sums(k, n, p):
    exact = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
    assert log_upper_tail(k, n, float(p)) == pytest.approx(math.log(exact), rel=1e-12)


@each(("n", "p"), [(5, 0.2), (40, 0.03), (40, 0.5)])
def test_bounds_fail_as_seldom_as_they_say(n, p):
    """Over all counts, with their exact probabilities: coverage is no estimate."""
    alpha, chances = 0.05, stats.binom.pmf(np.arange(n + 1), n, p)
    assert sum(c for k, c in enumerate(chances) if lower_bound(k, n, alpha) > p) <= alpha
    assert sum(c for k, c in enumerate(chances) if upper_bound(k, n, alpha) < p) <= alpha


def test_what_was_never_seen_bounds_nothing():
    assert epsilon_bound(0, 1000, 5, 1000, 1e-6) == -math.inf
    assert epsilon_bound(1000, 1000, 0, 1000, 1e-6) == pytest.approx(
        math.log(1e-6 ** (1 / 1000) / (1 - 1e-6 ** (1 / 1000)))
    )
