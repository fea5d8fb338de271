"""Binomial probabilities are as exact as they say."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ldp_core.accounting.binomials import ERROR, pmf, spread

from ...cases import each

_PRECISE = Context(prec=40)


def exact_pmf(k: int, n: int, p: float) -> Decimal:
    """From integers: a float is a fraction over a power of two."""
    up, down = Fraction(p).as_integer_ratio()
    ratio = Fraction(math.comb(n, k) * up**k * (down - up) ** (n - k), down**n)
    return _PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))


def worst_error(n: int, p: float, ks: list[int]) -> float:
    found = pmf(np.array(ks, float), np.array(float(n)), p, 1 - p)
    errors = [
        abs(float(Decimal(float(got)) / exact - 1))
        for k, got in zip(ks, found, strict=True)
        if (exact := exact_pmf(k, n, p)) > Decimal("1e-300")
    ]
    return max(errors)


@each("n", [1, 2, 7, 15, 16, 33, 200, 400])
@each("p", [0.5, 0.25, 0.01, 0.999])
def test_probabilities_are_within_the_stated_error(n, p):
    assert worst_error(n, p, sorted({*range(min(n, 20) + 1), *range(0, n, max(n // 20, 1)), n})) < ERROR / 10


def test_a_wrong_series_is_seen(monkeypatch):
    """Planted: Stirling's formula without its correction."""
    monkeypatch.setattr("ldp_core.accounting.binomials._correction", np.zeros_like)
    assert worst_error(200, 0.5, [90, 100]) > ERROR


@each("n", [10**6, 10**10])
@each("p", [0.5, 0.03])
def test_probabilities_of_large_numbers(n, p):
    """SciPy's, which are not as exact there."""
    k = np.round(n * p + np.linspace(-8, 8, 33) * math.sqrt(n * p * (1 - p)))
    np.testing.assert_allclose(pmf(k, np.array(float(n)), p, 1 - p), stats.binom.pmf(k, n, p), rtol=1e-8)


def test_outside_nothing_is_probable():
    assert pmf(np.array([-1.0, 0, 3, 4]), np.array(3.0), 0.5, 0.5) == pytest.approx(
        [0, 0.125, 0.125, 0], abs=0, rel=ERROR
    )
    assert pmf(np.array([0.0, 1]), np.array(0.0), 0.25, 0.75).tolist() == [1, 0]


@each("rest", [1e-3, 1e-13])
@each(("n", "p"), [(0, 0.5), (1, 0.5), (10, 0.1), (1000, 0.5), (10**6, 1e-4)])
def test_little_is_left_out_of_a_spread(n, p, rest):
    low, high = spread(n, p, 1 - p, rest)
    assert stats.binom.cdf(low - 1, n, p) + stats.binom.sf(high, n, p) <= rest
