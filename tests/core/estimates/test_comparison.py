"""Comparisons: covariances by enumeration of all reports, statistics by closed forms and by other people's code."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from ldp_core import (
    BlockHadamardResponse,
    DBitFlip,
    HadamardResponse,
    Hybrid,
    HybridProjectiveGeometryResponse,
    LocalHashing,
    LongitudinalUnaryEncoding,
    MechanismMismatchError,
    ParameterError,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    SubsetSelection,
    SummationHistogramEncoding,
    Tally,
    UnaryEncoding,
    compare,
)
from ldp_core.estimates.comparison import Compare, chi_square_tail, holm
from ldp_core.plans.sampled import SampledColumn

from ...cases import each
from ..enumeration import Every, n_codes

FOUR = ["a", "b", "c", "d"]
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


# ---- covariances


def laws(m):
    """Of each code, all estimates of the shares that one report can give, and their probabilities."""
    for code in n_codes(m):
        if isinstance(m, SubsetSelection):  # its decisions are many: all k-subsets, by the paper's formula
            sets = list(combinations(range(m.domain.size), m.k))
            counters = np.array([[v in s for v in range(m.domain.size)] for s in sets], np.int64)
            own = counters[:, code] == 1
            chances = np.where(own, m.p / own.sum(), (1 - m.p) / (~own).sum())
        else:
            every = Every(m.perturb_codes, code, dtype=m.domain.code_dtype, seen=m.domain.size)
            counters = m.count_reports(every.reports, np.arange(every.n), every.n)
            weights, whole = every._weights()
            chances = (weights / whole).astype(float)
        yield m.debias(np.ones((len(counters), 1)), counters)[0], chances


ORACLES = [
    RandomizedResponse(FOUR, epsilon=1.0),
    RandomizedResponse.from_coins(truth=0.6, yes=0.3),
    UnaryEncoding(FOUR, epsilon=1.0),
    UnaryEncoding(FOUR, epsilon=2.0, variant="symmetric"),
    UnaryEncoding(["a", "b", "c"], epsilon=1.0, unmatched="none"),
    SubsetSelection(FOUR, epsilon=0.5),
    SubsetSelection(range(6), epsilon=0.5, k=3),
    LocalHashing(FOUR, epsilon=1.0, variant="fast"),
    HadamardResponse(FOUR, epsilon=1.0),
    ProjectiveGeometryResponse(FOUR, epsilon=1.5),
    BlockHadamardResponse(FOUR, epsilon=2.0),
    HybridProjectiveGeometryResponse(FOUR, epsilon=2.0),
]


@each("m", ORACLES)
def test_covariances_over_all_reports(m):
    """Expected from the code that perturbs. Without the sampling term, or with p of the wrong coin, it fails."""
    codes = len(n_codes(m))
    people = np.arange(codes, 0, -1.0) / (codes * (codes + 1) / 2)
    first, second, noise = 0.0, 0.0, 0.0
    for share, (estimates, chances) in zip(people, laws(m), strict=True):
        mean, square = chances @ estimates, (estimates * chances[:, None]).T @ estimates
        first, second = first + share * mean, second + share * square
        noise = noise + share * (square - np.outer(mean, mean))
    shares = people[None, : m.domain.size]
    np.testing.assert_allclose(m.covariance(shares)[0], second - np.outer(first, first), atol=1e-9)
    np.testing.assert_allclose(m.covariance(shares, about="people")[0], noise, atol=1e-9)


def test_covariances_by_closed_forms():
    m = SummationHistogramEncoding(FOUR, epsilon=1.0)
    expected = m.variance(1) * np.eye(4) + np.diag(SHARES) - np.outer(SHARES, SHARES)
    np.testing.assert_allclose(m.covariance(SHARES[None])[0], expected, rtol=1e-12)
    two = LongitudinalUnaryEncoding(FOUR, epsilon_infinity=2.0, epsilon_1=1.0)  # independent bits
    lam = two.q + (two.p - two.q) * SHARES
    expected = np.diag(lam * (1 - lam) / (two.p - two.q) ** 2 + SHARES**2) - np.outer(SHARES, SHARES)
    np.testing.assert_allclose(two.covariance(SHARES[None])[0], expected, rtol=1e-12)


@each("m", [LocalHashing(FOUR, epsilon=1.0), DBitFlip(range(8), epsilon_infinity=1.0, bits=2)])
def test_covariances_that_are_not_known_are_refused(m):
    with pytest.raises(ParameterError, match="not known"):
        m.covariance(np.full((1, m.domain.size), 1 / m.domain.size))
