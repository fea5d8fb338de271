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


# ---- statistics


def reports_of(m, counts, seed):
    """A tally of reports under noise that is always the same."""
    return m.simulate(dict(zip(m.domain.values, counts, strict=True)), seed=seed)


def test_randomized_response_has_pearsons_statistic():
    """Of the reports, as scipy has it."""
    m = RandomizedResponse(FOUR, epsilon=1.0)
    one, two = (
        Tally(1000, np.array([300, 260, 240, 200]), m.fingerprint),
        Tally(3000, np.array([840, 800, 760, 600]), m.fingerprint),
    )
    found, expected = compare(m, one, two), stats.chi2_contingency([one.counters, two.counters], correction=False)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert (found.degrees_of_freedom, found.p_value) == (3, pytest.approx(expected.pvalue, rel=1e-9))
    for v in range(4):  # and each value has the z test of two proportions
        table = [[t.counters[v], t.n - t.counters[v]] for t in (one, two)]
        alone = stats.chi2_contingency(table, correction=False).pvalue
        assert found.p_values[v] == pytest.approx(alone, rel=1e-9)


def test_the_statistic_of_unary_encodings():
    """By hand: the least squares of the differences, given that they add up to 0."""
    m = UnaryEncoding(FOUR, epsilon=1.0)
    n1, n2, shares = 5000, 8000, (np.array([0.43, 0.28, 0.19, 0.1]), SHARES)
    tallies = [
        Tally(n, np.round(n * (m.q + (m.p - m.q) * f)).astype(np.int64), m.fingerprint)
        for n, f in zip((n1, n2), shares, strict=True)
    ]
    f1, f2 = ((t.counters / t.n - m.q) / (m.p - m.q) for t in tallies)
    f = (n1 * f1 + n2 * f2) / (n1 + n2)
    lam = m.q + (m.p - m.q) * f
    covariance = np.diag(lam * (1 - lam) / (m.p - m.q) ** 2 + f**2) - np.outer(f, f)
    inverse = np.linalg.inv(covariance * (1 / n1 + 1 / n2))
    delta, one = f2 - f1, np.ones(4)
    expected = delta @ inverse @ delta - (one @ inverse @ delta) ** 2 / (one @ inverse @ one)  # least squares, sum 0
    found = compare(m, *tallies)
    assert found.statistic == pytest.approx(expected, rel=1e-3)  # (their sum is off by rounding)
    assert found.degrees_of_freedom == 3
    np.testing.assert_allclose(found.differences, delta, atol=1e-12)


def test_unknown_covariances_leave_the_differences():
    m = LocalHashing(FOUR, epsilon=1.0)
    found = compare(m, reports_of(m, [400, 300, 200, 100], 1), reports_of(m, [100, 300, 200, 400], 2))
    assert (found.degrees_of_freedom, np.isnan(found.statistic)) == (0, True)
    assert "no test" in repr(found)
    assert found.to_arrow()["statistic"].null_count == 4
    assert np.isfinite(found.low).all()
    assert found.p_values[0] < 0.01


def test_means_differ_as_two_normal_variables():
    m = Hybrid((0, 10), epsilon=1.0)
    tallies = [m.tally(np.random.default_rng(k).permutation(m.perturb([x] * 4000))) for k, x in ((1, 3.0), (2, 7.0))]
    found, (one, two) = compare(m, *tallies), map(m.mean, tallies)
    error = math.hypot(one.standard_error, two.standard_error)
    z = (two.mean - one.mean) / error
    assert (found.differences[0], found.standard_errors[0]) == pytest.approx((two.mean - one.mean, error))
    assert found.p_value == found.p_values[0] == pytest.approx(2 * stats.norm.sf(abs(z)))
    assert (found.low[0], found.high[0]) == pytest.approx(
        (two.mean - one.mean - 1.959964 * error, two.mean - one.mean + 1.959964 * error), rel=1e-6
    )
    together = compare(m, *tallies, same_people=True)
    assert together.standard_errors[0] == pytest.approx(one.standard_error + two.standard_error)
    assert found.to_arrow()["value"].to_pylist() == [None]


def test_intervals_without_noise_are_newcombes():
    """His method 10, of 56 / 70 less 48 / 80: table II of the paper, (a), without correction: 0.0524 to 0.3339."""
    m = RandomizedResponse(epsilon=50.0)
    before, after = (Tally(n, np.array([n - k, k]), m.fingerprint) for n, k in ((80, 48), (70, 56)))
    found = compare(m, before, after)
    assert (found.low[1], found.high[1]) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_holm_and_the_tail():
    p = np.array([[0.01, 0.04, 0.03, 0.5], [0.9, 0.8, 0.7, 0.6]])
    np.testing.assert_allclose(holm(p), [[0.04, 0.09, 0.09, 0.5], [1, 1, 1, 1]])
    t, k = np.meshgrid([0.0, 1e-9, 0.3, 5.0, 40.0, 300.0, 2000.0], [1, 2, 3, 4, 15, 40, 255])
    np.testing.assert_allclose(
        chi_square_tail(t.ravel(), k.ravel()), stats.chi2.sf(t, k).ravel(), rtol=1e-9, atol=1e-300
    )


def test_many_pairs_at_once_are_each_as_one():
    for m in (UnaryEncoding(FOUR, epsilon=1.0), SampledColumn(RandomizedResponse(FOUR, epsilon=1.0), columns=3)):
        tallies = [reports_of(m, [400, 300, 200, 100], seed) for seed in range(6)]
        ask = Compare(anytime=300)
        n, counters = np.array([t.n for t in tallies]), np.array([t.counters for t in tallies])
        table, lengths = ask.rows(m, n.reshape(3, 2), counters.reshape(3, 2, -1))
        assert lengths.tolist() == [4, 4, 4]
        for pair in range(3):
            one = ask.result(m, *tallies[2 * pair : 2 * pair + 2]).to_arrow()
            assert one.schema.equals(table.schema)
            for ours, alone in zip(table.slice(4 * pair, 4).to_pylist(), one.to_pylist(), strict=True):
                assert ours == pytest.approx(alone)


def test_an_empty_side_is_unbounded_or_refused():
    m = UnaryEncoding(FOUR, epsilon=1.0)
    some, none = reports_of(m, [400, 300, 200, 100], 1), m.empty_tally()
    with pytest.raises(ParameterError, match="'after' has no reports"):
        compare(m, some, none)
    table, _ = Compare().rows(m, np.array([[1000, 0]]), np.stack([[some.counters, none.counters]]))
    [row, *_] = table.to_pylist()
    assert (row["low"], row["high"], row["p_value"], row["p_adjusted"]) == (-math.inf, math.inf, 1.0, 1.0)
    assert [row[name] for name in ("after", "difference", "standard_error", "statistic", "p_value_of_all")] == [
        None
    ] * 5
    assert (row["n_before"], row["n_after"], row["before"] is None) == (1000, 0, False)


def test_what_cannot_be_compared_is_refused():
    m, other = UnaryEncoding(FOUR, epsilon=1.0), UnaryEncoding(FOUR, epsilon=2.0)
    one, two = reports_of(m, [400, 300, 200, 100], 1), reports_of(m, [400, 300, 200, 100], 2)
    with pytest.raises(MechanismMismatchError):
        compare(m, one, reports_of(other, [400, 300, 200, 100], 2))
    for how in ({"anytime": True, "same_people": True}, {"confidence": 1.0}, {"about": "me"}, {"anytime": 0}):
        with pytest.raises(ParameterError):
            compare(m, one, two, **how)
    with pytest.raises(ParameterError, match="the same tally"):
        compare(m, one, one)
    kept = LongitudinalUnaryEncoding(FOUR, epsilon_infinity=2.0, epsilon_1=1.0)
    one, two = (reports_of(kept, [400, 300, 200, 100], seed) for seed in (1, 2))
    with pytest.raises(ParameterError, match="same_people=False"):
        compare(kept, one, two)
    apart, together = (compare(kept, one, two, same_people=same) for same in (False, True))
    np.testing.assert_allclose(together.standard_errors, math.sqrt(2) * apart.standard_errors, rtol=0.01)
    numbers = Hybrid((0, 1), epsilon=1.0)
    with pytest.raises(ParameterError, match="population"):
        compare(numbers, numbers.tally(numbers.perturb([0.5])), numbers.tally(numbers.perturb([0.5])), about="people")


def test_what_is_shown():
    m = RandomizedResponse(["ok", "crashed"], epsilon=2.0)
    found = compare(
        m, Tally(1000, np.array([800, 200]), m.fingerprint), Tally(1000, np.array([700, 300]), m.fingerprint)
    )
    assert repr(found).splitlines()[-1] == "all values together: chi-square 26.67, 1 degrees of freedom, p = 2.42e-07"
    assert found == found.__reduce__()[0](*found.__reduce__()[1])
    chart = found.plot().to_dict()
    assert chart["title"]["text"] == "2,000 reports, 95 % intervals"
    assert chart["layer"][0]["encoding"]["x"]["title"] == "difference of the shares"
