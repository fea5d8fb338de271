"""Unary encoding: exact epsilon and probabilities, other people's numbers, samples of bit vectors."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats

from ldp_core import ParameterError, Tally, ThresholdHistogramEncoding, UnaryEncoding
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.oracles.unary_encoding import best_theta

from ....cases import each
from ...acceptance import ACCEPTANCE, PEERS, exactly
from ...checks import check_binomial, check_rows_independent, exact_exp, exact_ln
from .helpers import KINDS, domain, epsilons, is_least_float_above, open_unit, sizes, spends_at_most, table_of


@each(("kind", "d"), [("OUE", 3), ("SUE", 16), ("custom", 65), ("OUE", 128)])
def test_rows_and_columns_of_bit_vectors_are_independent(kind, d):
    m = KINDS[kind](range(d))
    for value in (0, d // 2):
        check_rows_independent(m.perturb(np.full(150_000, value)), table_of(m)[value])


@pytest.mark.slow
@pytest.mark.parametrize("d", [1000, 100_000])
def test_wide_bit_vectors(d):
    m = UnaryEncoding(range(d), epsilon=4.0)
    n = 200_000_000 // d
    value = d - 1
    tally = m.tally(m.perturb(np.full(n, value), packed=True))
    check_binomial(tally.counters, n, np.where(np.arange(d) == value, m.p, m.q))


# A weight above 1 is a record of several values; here a record has one value, so those rows do not apply.
@each("row", [r for r in PEERS["bit_vector"] if r["max_weight"] == 1])
def test_epsilon_of_a_bit_vector(row):
    m = UnaryEncoding.from_probabilities([1, 2, 3], p=1 - row["f"] / 2, q=row["f"] / 2)
    assert m.epsilon == exactly(row["epsilon"])


@each("row", PEERS["unary_encoding"])
def test_epsilon_of_unary_encoding(row):
    assert UnaryEncoding.from_probabilities([1, 2], p=row["p"], q=row["q"]).epsilon == exactly(row["epsilon"])


@each("row", ACCEPTANCE["debias_bit_vector"])
def test_debiased_bit_vectors(row):
    d = len(row["counts"])
    m = UnaryEncoding.from_probabilities(range(d), p=1 - row["f"] / 2, q=row["f"] / 2)
    estimate = m.estimate(Tally(row["n"], np.array(row["counts"]), m.fingerprint))
    np.testing.assert_allclose(estimate.counts, row["estimate"], rtol=1e-12, atol=1e-12)


@given(epsilons, sizes, st.sampled_from(["symmetric", "optimized"]))
def test_epsilon_is_never_above_the_one_asked_for_and_cannot_be_nearer(epsilon, d, variant):
    m = UnaryEncoding(domain(d), epsilon=epsilon, variant=variant)
    p, q = m.thresholds
    assert p == (ONE - q if variant == "symmetric" else ONE // 2)
    assert m.worst_ratio() == Fraction(p, ONE - p) * Fraction(ONE - q, q)
    assert spends_at_most(m, epsilon)
    if p < ONE - 1 and q > 1:  # one step nearer to the edge
        p, q = p + (variant == "symmetric"), q - 1
        assert exact_ln(Fraction(p, ONE - p) * Fraction(ONE - q, q)) > Decimal(epsilon)


@given(open_unit, open_unit, st.integers(2, 20))
@example(0.75, 0.25, 2)
@example(1 - 2**-53, 1e-300, 2)
@example(math.nextafter(0.5, 1), 0.5, 2)
def test_from_probabilities(a, b, d):
    p, q = max(a, b), min(a, b)
    assume(math.floor(Fraction(p) * ONE) > math.ceil(Fraction(q) * ONE))
    m = UnaryEncoding.from_probabilities(domain(d), p=p, q=q)
    low, high = m.thresholds
    assert low == math.floor(Fraction(p) * ONE)
    assert high == math.ceil(Fraction(q) * ONE)
    assert spends_at_most(m, m.epsilon)
    assert is_least_float_above(m.epsilon, Fraction(p) * (1 - Fraction(q)) / ((1 - Fraction(p)) * Fraction(q)))


@each("bad", [0, 1, -0.1, 1.5, math.nan, math.inf, True, False, "0.75", None])
def test_p_and_q_must_be_ordered_probabilities_strictly_inside(bad):
    for p, q in ((bad, 0.25), (0.75, bad), (bad, bad), (0.5, 0.5), (0.3, 0.6)):
        with pytest.raises(ParameterError):
            UnaryEncoding.from_probabilities([1, 2], p=p, q=q)


# acceptance.json: epsilon -> n Var at f = 0, and theta to six digits
TABLE = {
    0.5: (17.827846864164275, 0.561629),
    1.0: (4.80715413009729, 0.618553),
    1.5: (2.2370064276076924, 0.668053),
    2.0: (1.2835772932763339, 0.709614),
    2.5: (0.8192764669092752, 0.744004),
    3.0: (0.5564506819905206, 0.772404),
    3.5: (0.3931269044264001, 0.795969),
    4.0: (0.2851675869600375, 0.815676),
    4.5: (0.21069088284937584, 0.832302),
    5.0: (0.1577250434926386, 0.846455),
}


# acceptance.json, "mechanism_parameters": as pure-ldp returns them, theta to four digits
PEER = [
    (0.5, 0.5616, 0.5519037296865329, 0.43450528082201645),
    (1.0, 0.6186, 0.5868097674463382, 0.3669802744150433),
    (2.0, 0.7096, 0.6260178389976807, 0.245920447238365),
]


@each("epsilon", TABLE)
def test_known_variances_and_thetas(epsilon):
    n_var, theta = TABLE[epsilon]
    m = ThresholdHistogramEncoding(range(16), epsilon=epsilon)
    assert m.theta == theta
    assert m.variance(1) == pytest.approx(n_var, rel=1e-9)  # (theta is rounded)


@each(("epsilon", "theta", "p", "q"), PEER)
def test_known_p_and_q(epsilon, theta, p, q):
    m = ThresholdHistogramEncoding(range(16), epsilon=epsilon, theta=theta)
    assert (m.p, m.q) == (pytest.approx(p, rel=1e-12), pytest.approx(q, rel=1e-12))
    spent = np.log(p * (1 - q) / ((1 - p) * q))  # what two bits reveal: less than was asked for
    assert m.realized_epsilon == pytest.approx(spent, rel=1e-12)
    assert m.realized_epsilon < 0.95 * epsilon


@each("theta", [0.5, 0.75, 1.0])
@each("epsilon", [0.5, 1.0, 4.0])
def test_bits_are_those_of_laplace_noise_above_a_threshold(epsilon, theta):
    m = ThresholdHistogramEncoding(range(16), epsilon=epsilon, theta=theta)
    noise = stats.laplace(scale=2 / epsilon)
    assert m.p == pytest.approx(noise.sf(theta - 1), rel=1e-12)
    assert m.q == pytest.approx(noise.sf(theta), rel=1e-12)


@each("epsilon", [0.1, 1.0, 5.0, 20.0, 50.0])
def test_theta_has_the_least_variance(epsilon):
    best = best_theta(epsilon)
    assert 0.5 <= best <= 1
    variance = ThresholdHistogramEncoding([1, 2], epsilon=epsilon).variance(1)
    for theta in np.linspace(0.5, 1, 101):
        other = ThresholdHistogramEncoding([1, 2], epsilon=epsilon, theta=float(theta)).variance(1)
        assert variance <= other * (1 + 1e-9)


# ---- every report, through the code


@given(st.floats(1e-6, 300), st.one_of(st.none(), st.floats(0.5, 1)))
def test_epsilon_is_never_above_the_one_asked_for(epsilon, theta):
    m = ThresholdHistogramEncoding(range(3), epsilon=epsilon, theta=theta)
    assert m.worst_ratio() <= exact_exp(epsilon)
    p, q = m.support_probabilities()
    half, share = Fraction(epsilon) / 2, Fraction(m.theta)
    if epsilon < 80:  # above, p and q are what 64 bits resolve
        exact_p, exact_q = 1 - exact_exp(half * (share - 1)) / 2, exact_exp(-half * share) / 2
        assert 0 <= exact_p - p[0] <= Fraction(2, ONE)
        assert 0 <= q[0] - exact_q <= Fraction(2, ONE)
