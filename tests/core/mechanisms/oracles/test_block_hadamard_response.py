"""Block Hadamard response: every column for every value, against the matrix itself; closed forms; one block."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import linalg

from ldp_core import (
    BlockHadamardResponse,
    Domain,
    HadamardResponse,
    HybridProjectiveGeometryResponse,
    Keyed,
    ParameterError,
    RangeEstimate,
    Secret,
)
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.oracles.hadamard_response import best_blocks

from ....cases import each
from ...enumeration import Every, check_ratio, n_codes
from .helpers import domain, some_codes, values_for

BHR = BlockHadamardResponse
MECHANISMS = {
    "BHR": BHR(range(50), epsilon=2.0),
    "BHR 129": BHR(range(129), epsilon=4.0),
    "BHR none": BHR(Domain(range(40), unmatched="none"), epsilon=1.0, blocks=7),
    "BHR other": BHR(Domain(range(12), unmatched="other"), epsilon=1.5, blocks=4),
    "BHR one block": BHR(range(6), epsilon=1.0),
    "BHR a value a block": BHR(range(5), epsilon=3.0, blocks=5),
}


def scores(m) -> np.ndarray:
    """int[d, K]: 1 for a report that supports the value, -1 for another one in its block, 0 for those elsewhere."""
    d, blocks = m.domain.size, m.blocks
    b = next(2**k for k in range(1, 40) if blocks * (2**k - 1) >= d)
    assert (m.columns, m.cells) == (b, blocks * b)
    table = np.zeros((d, blocks, b), int)
    table[np.arange(d), np.arange(d) % blocks] = linalg.hadamard(b)[1 + np.arange(d) // blocks]
    return table.reshape(d, -1)


# ---- known answers


@each("d", [2, 3, 127, 128, 129, 1000])
@each("epsilon", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_closed_forms(d, epsilon):
    """Of a value that has its share of a uniform population, if all blocks are full: (e - 1 + 2 B)^2 / ... - 1 / d."""
    m, e = BHR(range(d), epsilon=epsilon), math.exp(epsilon)
    t = (e - 1) / (e - 1 + 2 * m.blocks)
    assert (m.p, m.q) == (pytest.approx(t / 2, rel=1e-12), 0)
    assert m.realized_epsilon == pytest.approx(epsilon, rel=1e-12)
    for blocks in {1, d, *(b for b in (2, 5, 10, 43, 64) if d % b == 0)}:
        m = BHR(range(d), epsilon=epsilon, blocks=blocks)
        n_var = (e - 1 + 2 * blocks) ** 2 / (blocks * (e - 1) ** 2) - 1 / d
        assert m.variance(1, 1 / d) == pytest.approx(n_var, rel=1e-9)


@each("d", [2, 3, 127, 128, 1000])
@each("epsilon", [0.3, 1.0, 5.0])
def test_one_block_is_hadamard_response(d, epsilon):
    m, one = BHR(range(d), epsilon=epsilon, blocks=1), HadamardResponse(range(d), epsilon=epsilon)
    assert m.cells == one.columns
    assert abs(one.support_probabilities()[0][0] - m.own) <= Fraction(1, ONE)
    for count in (0, 30, 100):
        assert m.variance(100, count) == pytest.approx(one.variance(100, count), rel=1e-12)
    reports = m.perturb(np.arange(3000) % d)
    ours, theirs = m.estimate(m.tally(reports)), one.estimate(one.tally(reports))
    for name in ("counts", "standard_errors", "low", "high"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-6)


@each("epsilon", np.linspace(0.05, 7, 30))
def test_the_number_of_blocks_is_the_best(epsilon):
    def n_var(blocks):
        return (math.expm1(epsilon) + 2 * blocks) ** 2 / blocks

    assert best_blocks(10**9, epsilon) == min(range(1, 2000), key=n_var)
    papers = 2 ** (math.ceil(math.log2(min(math.exp(epsilon), 2 * 10**9))) - 1)
    assert n_var(best_blocks(10**9, epsilon)) <= n_var(papers) <= 1.39 * n_var(best_blocks(10**9, epsilon))


# ---- every outcome, through the code


def channel(m, code: int) -> list[Fraction]:
    """Exact probability of each report of a code, by its number."""
    table = Every(m.perturb_codes, code, dtype=np.uint16).table
    return [table[report] for report in range(m.cells)]


CASES = [
    (2, 1, "error"),
    (2, 2, "none"),
    (3, 1, "other"),
    (5, 2, "none"),
    (7, 3, "error"),
    (8, 1, "none"),
    (9, 4, "other"),
]


@each(("d", "blocks", "policy"), CASES)
@each("epsilon", [1e-6, 1.0, 40.0])
def test_means_variances_and_ratios_over_all_columns(d, blocks, policy, epsilon):
    m = BHR(domain(d, policy), epsilon=epsilon, blocks=blocks)
    table, (p, q), (own, same, other) = scores(m), m.support_probabilities(), m._chances
    tables = [channel(m, code) for code in n_codes(m)]
    for code, shares in enumerate(tables[:d]):
        supporting = {x for x, s in zip(shares, table[code], strict=True) if s == 1}
        others = {x for x, s in zip(shares, table[code], strict=True) if s != 1}
        assert (len(supporting), len(others)) == (1, 1)
        assert supporting.pop() / others.pop() == m.worst_ratio()
        for v in range(d):
            parts = [Fraction(int(s), 2) for s in table[v]]
            mean = sum(x * y for x, y in zip(parts, shares, strict=True))
            assert mean == (p[v] if v == code else q[v])
            assert q[v] == 0
            chances = own if v == code else same if v % blocks == code % blocks else other
            assert chances.variance == sum(x**2 * y for x, y in zip(parts, shares, strict=True)) - mean**2
    if policy == "none":
        assert set(tables[d]) == {Fraction(1, m.cells)}
    check_ratio(m, [dict(enumerate(table)) for table in tables])


# ---- counting


@each("name", MECHANISMS)
def test_the_estimator_is_the_authors(name):
    """(2 B - 1 + e) / (e - 1) (2 #C - #block), as in `decode_string` of their Hadamard_Rand_general_original."""
    m, n = MECHANISMS[name], 5000
    reports = m.reports.from_arrow(m.perturb(values_for(m, some_codes(m, n))))
    e = math.exp(m.epsilon)
    expected = (2 * m.blocks - 1 + e) / (e - 1) * scores(m)[:, reports.astype(int)].sum(axis=1)
    np.testing.assert_allclose(m.debias(n, m.tally(reports).counters)[0], expected, rtol=1e-9, atol=1e-6)


# ---- samples


POPULATION = {0: 0.3, 2: 0.1, 3: 0.6}


def variance_of(m, v: int, n: int) -> float:
    """By enumeration: of the estimate of v, each report of x being e^epsilon as likely if it supports x."""
    table = scores(m)
    weights = np.where(table == 1, math.exp(m.epsilon), 1.0)
    weights /= weights.sum(axis=1, keepdims=True)
    parts = table[v] * (2 * m.blocks - 1 + math.exp(m.epsilon)) / math.expm1(m.epsilon)
    return sum(n * f * (weights[x] @ parts**2 - (weights[x] @ parts) ** 2) for x, f in POPULATION.items())


@each("name", ["BHR", "BHR 129", "BHR other", "BHR one block", "BHR a value a block"])
def test_standard_errors_know_the_block(name):
    m, n = MECHANISMS[name], 1_000_000
    codes = np.repeat([0, 2, 3], [300_000, 100_000, 600_000])
    found = m.estimate(m.tally(m.perturb(codes))).standard_errors
    expected = np.sqrt([variance_of(m, v, n) for v in range(m.domain.size)])
    np.testing.assert_allclose(found, expected, rtol=0.03)  # 8 standard deviations
    if 1 < m.blocks < m.domain.size:  # which the variance of an even population does not
        even = np.sqrt(m.variance(n, np.bincount(codes, minlength=m.domain.size)))
        assert np.abs(even / expected - 1).max() > 0.15


@each("shares", ["uniform", "Zipf"])
def test_intervals_cover(shares):
    """1000 piles of 2000 records with seeded noise: overall within 0.5 %, each value within 4 standard errors of 95 %.

    Those that take the population to be even do not, where it is not.
    """
    m, n, piles, d = BHR(range(30), epsilon=2.5, blocks=4), 2000, 1000, 30
    weights = np.ones(d) if shares == "uniform" else 1 / np.arange(1, d + 1)
    true = np.bincount(np.searchsorted(np.cumsum(weights / weights.sum()), (np.arange(n) + 0.5) / n), minlength=d)
    noise = Keyed(Secret.from_seed(5), np.arange(n * piles), column="c")
    codes = np.tile(np.repeat(np.arange(d), true), piles)
    reports = m.reports.from_arrow(m.perturb(pa.array(codes), randomness=noise))
    support = m.count_reports(reports, np.repeat(np.arange(piles), n), piles)
    counts, _, low, high = m.debias(n, support)
    covered = ((low <= true) & (true <= high)).mean(axis=0)
    assert abs(covered.mean() - 0.95) < 0.005
    assert np.abs(covered - 0.95).max() < 4 * math.sqrt(0.95 * 0.05 / piles)
    _, _, low, high = m.with_intervals(counts, n, n * m.rates.a, confidence=0.95, simultaneous=False)
    even = ((low <= true) & (true <= high)).mean(axis=0)
    assert shares == "uniform" or np.abs(even - 0.95).max() > 4 * math.sqrt(0.95 * 0.05 / piles)


@each("kind", [BHR, HybridProjectiveGeometryResponse])
def test_errors_of_sums_that_are_not_known_have_a_remedy(kind):
    asked = RangeEstimate(3, 7)
    with pytest.raises(ParameterError, match=r'of sums of .*"none": take unmatched="other"'):
        asked.check(kind(range(12), epsilon=2.0, unmatched="none"))
    asked.check(kind(range(12), epsilon=2.0, unmatched="other"))
