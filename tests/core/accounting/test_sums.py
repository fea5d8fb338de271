"""What sums of bit vectors reveal: against the exact loss, by enumeration, and against a published table."""

import math
from itertools import product

import numpy as np
import pytest

from ldp_core import LocalHashing, ParameterError, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_core.accounting.shuffling import amplified_sums
from ldp_core.accounting.sums import divergence_of_sums, sums


def law_of_sums(values: tuple[int, ...], d: int, p: float, q: float) -> np.ndarray:
    """float64[n + 1, ..., n + 1], d times: of the sums of people with these values."""
    law = np.ones(1)
    for k in range(d):
        of_one = np.ones(1)
        for value in values:
            x = p if value == k else q
            of_one = np.convolve(of_one, [1 - x, x])
        law = np.multiply.outer(law, of_one)
    return law[0]


@pytest.mark.parametrize(("p", "q"), [(0.75, 0.25), (0.5, 0.12), (0.9, 0.3)])
def test_it_bounds_the_exact_loss_of_every_data_set(p, q):
    # All data sets of n people with 3 values, all neighbors: the largest hockey-stick divergence is the exact loss.
    for n in (1, 2, 5):
        for epsilon in (0.1, 0.5, 1.0):
            exact = 0.0
            for others in product(range(3), repeat=n - 1):
                one, another = (law_of_sums((value, *others), 3, p, q) for value in (0, 1))
                exact = max(exact, float(np.maximum(one - math.exp(epsilon) * another, 0).sum()))
            cells = sums(p, q, n, 1e-3)
            bound = max(divergence_of_sums(a, b, epsilon, 1e-3) for a, b in product(cells, repeat=2))
            assert exact <= bound
            # What is lost: both sums have their worst m at once, though no more than n - 1 others have the values.
            assert bound < 1.45 * exact + 1e-3


def test_the_table_of_the_draft_is_reached():
    # draft-wang-ppm-differential-privacy-00, section "Utility" of the policy with client randomization: n = 100,000,
    # delta = 1e-9; each bit flipped with 1 / (exp(EPSILON_0) + 1), which is epsilon = 2 EPSILON_0 of a report.
    # Below that table is what one value among a third one reveals, exactly: no bound can be below it. (0.285 at 5.0.)
    for epsilon_0, published in ((5.0, 0.317), (6.5, 0.906), (7.0, 1.528)):
        m = UnaryEncoding(range(16), epsilon=2 * epsilon_0, variant="symmetric")
        assert m.q == pytest.approx(1 / (math.exp(epsilon_0) + 1), rel=1e-9)
        found = m.shuffled(100_000, 1e-9, rows=False)
        assert exact_among_a_third(m.q, 100_000, found) < 1e-9
        assert exact_among_a_third(m.q, 100_000, 0.85 * found) > 1e-9
        assert found < published


def exact_among_a_third(q: float, n: int, epsilon: float) -> float:
    """The loss where all others have a third value: their bits in both sums are Bin(n - 1, q), by SciPy."""
    stats = pytest.importorskip("scipy.stats")
    noise = stats.binom.pmf(np.arange(2000), n - 1, q)
    at, before = np.append(noise, 0), np.insert(noise, 0, 0)
    yes, no = q * at + (1 - q) * before, (1 - q) * at + q * before
    return float(np.maximum(np.outer(yes, no) - math.exp(epsilon) * np.outer(no, yes), 0).sum())


@pytest.mark.slow
def test_it_is_never_above_what_the_reports_reveal_and_falls_with_n_and_delta():
    for epsilon in (0.5, 8.0):
        m = UnaryEncoding(range(4), epsilon=epsilon)
        bounds = [m.shuffled(n, 1e-8, rows=False) for n in (1, 50, 500)]
        assert bounds == sorted(bounds, reverse=True)
        assert all(bound <= m.shuffled(n, 1e-8) for bound, n in zip(bounds, (1, 50, 500), strict=True))
        assert m.shuffled(500, 1e-12, rows=False) > bounds[2]
        assert amplified_sums(m.p, m.q, 500, 1e-200, 0.4) == 0.4  # floats end there


@pytest.mark.filterwarnings("error")
def test_what_is_0_as_a_float_is_left_out():
    # By numbers of 80 bits, where all others have a third value: 4.54967.
    assert 4.54967 < UnaryEncoding(range(4), epsilon=5.0).shuffled(300, 1e-90, rows=False) < 4.54967 * 1.06


def test_others_have_no_bits_that_are_drawn_apart():
    for m in (RandomizedResponse(range(4), epsilon=2.0), LocalHashing(range(4), epsilon=2.0)):
        assert m.shuffled(100, 1e-6, rows=False) == m.shuffled(100, 1e-6)
    with pytest.raises(ParameterError, match="delta"):
        UnaryEncoding(range(4), epsilon=1.0).shuffled(1000, 2.0, rows=False)


def test_explain_says_both():
    plan = PrivacyPlan({"x": UnaryEncoding(range(16), epsilon=10.0, variant="symmetric")})
    text = " ".join(plan.explain(100_000, delta=1e-9).split())
    assert "100,000 shuffled records (epsilon 6.38" in text
    assert "histograms of 100,000 shuffled records (epsilon 0.308" in text
