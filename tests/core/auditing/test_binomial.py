"""Clopper-Pearson bounds against sums of exact fractions, against scipy.stats, and by how often they fail."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ldp_core.auditing.binomial import epsilon_bound, lower_bound, upper_bound

from ...cases import each

COUNTS = [(0, 10), (1, 10), (10, 10), (3, 7), (0, 500_000), (1, 500_000), (20, 500_000), (250_000, 500_000)]
COUNTS += [(365_529, 500_000), (499_999, 500_000), (10**6, 10**7)]


@each(("k", "n"), [(1, 1), (1, 30), (7, 30), (29, 30), (30, 30)])
@each("alpha", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6), Fraction(1, 10**12)])
def test_the_tail_at_a_bound_is_alpha(k, n, alpha):
    """By exact sums."""

    def tail(first: int, p: Fraction) -> Fraction:
        return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(first, n + 1))

    assert tail(k, Fraction(lower_bound(k, n, float(alpha)))) == pytest.approx(alpha, rel=1e-9)
    if k < n:
        assert 1 - tail(k + 1, Fraction(upper_bound(k, n, float(alpha)))) == pytest.approx(alpha, rel=1e-9)


@each(("k", "n"), COUNTS)
@each("alpha", [0.5, 0.05, 1e-6, 1e-12])
def test_the_tail_at_a_bound_of_many_trials_is_alpha(k, n, alpha):
    """By another function of another library than the one that inverts: `scipy.stats.binom`."""
    if k:
        assert stats.binom.sf(k - 1, n, lower_bound(k, n, alpha)) == pytest.approx(alpha, rel=1e-6)
    if (bound := upper_bound(k, n, alpha)) < 1:
        resolved = 2**-52 / (1 - bound)  # what the next float would change
        assert stats.binom.cdf(k, n, bound) == pytest.approx(alpha, rel=1e-6 + resolved)


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
