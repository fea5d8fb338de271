"""Summation with histogram encoding: the exact law of an entry, every vector of small ranges, known variances, sums."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_core import Domain, ReportError, SummationHistogramEncoding
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.oracles import summation_histogram_encoding

from ....cases import each
from ...checks import check_binomial, exact_exp
from ...enumeration import check_ratio

SHE = SummationHistogramEncoding
MECHANISMS = {
    "d=3": SHE(["a", "b", "c"], epsilon=1.0),
    "other": SHE(Domain(range(6), unmatched="other"), epsilon=2.0, unit=10),
    "none": SHE(Domain(range(9), unmatched="none"), epsilon=0.5, unit=3),
    "wide": SHE(range(70), epsilon=4.0),
}


def law(m) -> dict[int, Fraction]:
    """Probability of each entry where 0 is true."""
    low, high = m.entries
    weights = m._weights[1]
    assert len(weights) == high - low + 1
    assert sum(weights) == ONE
    return {k: Fraction(w, ONE) for k, w in enumerate(weights, low)}


# ---- known answers
# Of Laplace noise in real numbers, 8 / epsilon^2.
N_VAR = {0.5: 32, 1.0: 8, 1.5: 3.5555555555555554, 2.0: 2, 2.5: 1.28, 3.0: 0.8888888888888888, 4.0: 0.5, 5.0: 0.32}


@each("epsilon", N_VAR)
def test_known_variances(epsilon):
    """On a grid 2 a / (1 - a)^2 / unit^2, a little less than in real numbers."""
    for unit in (1, 3, math.ceil(5 * epsilon)):
        m = SHE(range(4), epsilon=epsilon, unit=unit)
        a = math.exp(-epsilon / (2 * unit))
        assert m.variance(1) == pytest.approx(2 * a / (1 - a) ** 2 / unit**2, rel=1e-6)
        assert m.realized_epsilon == pytest.approx(epsilon, abs=2e-8)
        assert m.variance(1) < N_VAR[epsilon]
    assert m.variance(1) == pytest.approx(N_VAR[epsilon], rel=1e-3)
    assert SHE(range(4), epsilon=epsilon).variance(1) == pytest.approx(1 / (math.cosh(epsilon / 2) - 1), rel=1e-6)


@each(("epsilon", "unit"), [(0.05, 1), (0.5, 3), (1.0, 1), (4.0, 20), (5.0, 1)])
def test_the_law_is_discrete_laplace(epsilon, unit):
    """To the margin of 2^-28 for rounding, inside the range; at its ends is what lies beyond."""
    m = SHE(range(4), epsilon=epsilon, unit=unit)
    x = -Fraction(epsilon) / (2 * unit)
    a = exact_exp(x)
    low, high = m.entries
    assert low + high == unit
    for k, probability in law(m).items():
        exact = exact_exp(x * abs(k)) / (1 + a) * (1 if k in (low, high) else 1 - a)
        assert abs(probability / exact - 1) < (abs(k) - 1 / x) / unit / 2**28 + Fraction(1, 2**29)
        assert probability >= Fraction(1, 2**34)
    mean = sum(k * p for k, p in law(m).items())
    p, q = m.support_probabilities()
    assert (p, q) == ([unit - mean] * 4, [mean] * 4)
    assert m.variance(7, 3) * (m.p - m.q) ** 2 / 7 == pytest.approx(
        float(sum(k**2 * p for k, p in law(m).items()) - mean**2), rel=1e-12
    )


# ---- privacy


@given(st.floats(0.0016, 300), st.integers(1, 64))
@pytest.mark.slow
def test_epsilon_is_never_above_the_one_asked_for(epsilon, unit):
    epsilon *= unit
    m = SHE(range(2), epsilon=epsilon, unit=unit)
    assert m.worst_ratio() <= exact_exp(epsilon)
    assert m.worst_ratio() >= exact_exp(min(epsilon, 36) - 2e-8)


class Scripted:
    """Noise that gives these words."""

    def __init__(self, words) -> None:
        self.words = np.array(words, np.uint64)

    def rows(self, start, stop):
        assert (start, stop) == (0, len(self.words))
        return self

    def head_rows(self, n, width, lane):
        assert (n, width, lane) == (*self.words.shape, 0)
        return (self.words >> np.uint64(48)).astype(np.uint16)

    def tails(self, rows, columns, lane):
        assert lane == 0
        return self.words[rows, columns] & np.uint64((1 << 48) - 1)


@each(("epsilon", "unit"), [(12.0, 1), (20.0, 1), (30.0, 2), (200.0, 1)])
@each("policy", ["error", "none"])
def test_the_ratio_over_all_vectors(epsilon, unit, policy):
    m = SHE(Domain(range(2), unmatched=policy), epsilon=epsilon, unit=unit)
    weights = m._weights[1]
    least = np.concatenate(([0], np.cumsum(np.array(weights[:-1], object)))).tolist()  # word of each entry
    vectors = list(itertools.product(range(len(weights)), repeat=2))
    chances = [Fraction(weights[i] * weights[j], ONE**2) for i, j in vectors]
    words = [[least[i], least[j]] for i, j in vectors]
    tables = []
    for code in range(2 + (policy == "none")):
        reports = m.perturb_codes(np.full(len(words), code, np.uint8), Scripted(words))
        assert len({tuple(row) for row in reports.tolist()}) == len(vectors)
        tables.append({tuple(row): chance for row, chance in zip(reports.tolist(), chances, strict=True)})
        for v in range(2):
            mean = sum(row[v] * chance for row, chance in tables[-1].items())
            assert mean == m.support_probabilities()[v != code][v]
    check_ratio(m, tables)


@each(("epsilon", "unit"), [(0.01, 1), (1.0, 1), (2.0, 10), (36.0, 64)])
def test_each_entry_has_exactly_its_words(epsilon, unit):
    """The least and the greatest word of each entry; what is between cannot be another, entries being in order."""
    m = SHE(range(2), epsilon=epsilon, unit=unit)
    weights = m._weights[1]
    edges = [0, *itertools.accumulate(weights)]
    assert edges[-1] == ONE
    words = np.array([w for low, high in itertools.pairwise(edges) for w in (low, high - 1)], np.uint64)
    np.testing.assert_array_equal(m._entry_of(words), np.repeat(np.arange(m.entries[0], m.entries[1] + 1), 2))
    rows = words.reshape(-1, 2)
    entries = m._draw_entries(len(rows), Scripted(rows))
    np.testing.assert_array_equal(entries, np.repeat(np.arange(m.entries[0], m.entries[1] + 1), 2))


# ---- samples


def test_rows_and_columns_are_independent():
    m = MECHANISMS["d=3"]
    signs = m.perturb(["a"] * 400_000) > 0
    p = float(sum(chance for k, chance in law(m).items() if k > 0))
    others = signs[:, 1:]
    check_binomial((others[:, 0] & others[:, 1]).sum(), 400_000, p**2)
    check_binomial((others[::2] & others[1::2]).sum(axis=0), 200_000, p**2)
    check_binomial((others[:200_000] & others[200_000:]).sum(axis=0), 200_000, p**2)


def test_intervals_and_accuracy():
    m = SHE(range(200), epsilon=1.0)
    n = 2000
    histogram = m.estimate(m.tally(m.perturb(np.zeros(n, int))))
    assert histogram.standard_errors == pytest.approx(math.sqrt(7.835396 * n), rel=1e-6)
    true = np.where(np.arange(200) == 0, n, 0)
    check_binomial(np.count_nonzero((histogram.low <= true) & (true <= histogram.high)), 200, 0.95)
    logarithm, span = math.log(2 / 0.05), m.entries[1] - m.entries[0]
    alpha = m.accuracy(n)
    # Bernstein: 2 exp(-s^2 / (2 n V + 2 R s / 3)) = beta
    s = alpha * n * (m.p - m.q)
    v = m.variance(1) * (m.p - m.q) ** 2
    assert s**2 / (2 * n * v + 2 * span * s / 3) == pytest.approx(logarithm)


# ---- counting


def test_sums_do_not_overflow():
    m = SHE(range(2), epsilon=0.0016)
    top = np.full((40_000, 2), m.entries[1], m.reports.dtype)
    assert m.count_reports(top, np.zeros(40_000, int), 1).tolist() == [[40_000 * m.entries[1]] * 2]
    assert m.count_reports(top, np.arange(40_000) // 20_000, 2).tolist() == [[20_000 * m.entries[1]] * 2] * 2


@each(("epsilon", "unit"), [(0.0016, 1), (0.3, 1), (1.0, 1), (2.0, 1), (4.0, 1), (36.0, 64)])
@each("entries", [1 << 9, 1 << 12, 1 << 19])
def test_tallies_of_the_greatest_and_the_least_entries(monkeypatch, epsilon, unit, entries):
    """From one to many of them in the type of an entry; and numbers of reports that cannot be halved."""
    monkeypatch.setattr(summation_histogram_encoding, "_TALLIED", entries)
    m = SHE(range(2), epsilon=epsilon, unit=unit)
    for n in (0, 1, 255, 256, 511, 1024, 3 * 512, (1 << 14) + 257):
        for k in m.entries:
            mixed = np.tile(np.array([k, sum(m.entries) - k], m.reports.dtype), (n, 1))
            assert m.tally(mixed).counters.tolist() == [n * k, n * (sum(m.entries) - k)]


def test_every_block_of_a_tally_is_checked(monkeypatch):
    monkeypatch.setattr(summation_histogram_encoding, "_TALLIED", 300)
    m = MECHANISMS["d=3"]
    for row in (0, 99, 100, 950, 999):
        for wrong in (m.entries[0] - 1, m.entries[1] + 1):
            reports = np.zeros((1000, 3), np.int8)
            reports[row, row % 3] = wrong
            with pytest.raises(ReportError, match=r"column 'x': entries must be in \[-43, 44\]"):
                m.tally(reports, column="x")
