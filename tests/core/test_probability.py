"""The realised epsilon, in exact arithmetic, is never above the requested one and as close as 64 bits allow."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ldp_core import Domain, ParameterError, RandomizedResponse, UnaryEncoding
from ldp_core.exact.probability import exp_below, log_above
from ldp_core.exact.sampling import ONE

from .checks import exact_exp, exact_ln

AWKWARD = (
    [1e-6, math.nextafter(1e-6, 1), 0.1, 1 / 3, math.log(2), math.log(3), math.e, math.pi, 1, 2, 50]
    + [math.nextafter(1, 0), math.nextafter(1, 2), 2**-10, 44.361419555836498, 44.4, 45.0, 49.99999999999999]
    + [math.log(k) for k in (5, 7, 255, 256, 257, 2**32, 2**53)]
)
epsilons = st.one_of(
    st.floats(math.log(1e-6), math.log(50)).map(lambda x: min(max(math.exp(x), 1e-6), 50.0)),
    st.sampled_from(AWKWARD),
)
sizes = st.one_of(st.integers(2, 300), st.integers(2, 5000), st.sampled_from([2, 3, 4, 255, 256, 257, 5000]))
policies = st.sampled_from(["error", "other"])


def domain(d: int, unmatched: str = "error") -> Domain:
    return Domain(range(d - (unmatched == "other")), unmatched=unmatched)


def spends_at_most(m, epsilon: float) -> bool:
    return exact_ln(m.worst_ratio()) <= Decimal(epsilon)


def as_threshold(p: Fraction) -> int:
    scaled = p * ONE
    assert scaled.denominator == 1, "not an integer over 2^64"
    assert 0 < scaled < ONE
    return int(scaled)


# Never needlessly low: moving a threshold by one unit, 2^-64, away from privacy would exceed epsilon. That is the
# sharpest bound there is; in terms of epsilon it is about 2^-64 (1 / (1 - p) + 1 / q) (saturating at ln 2^64 = 44.4).


@given(epsilons, sizes, policies)
@example(1e-6, 5000, "error")
@example(50.0, 2, "error")
def test_grr(epsilon, d, policy):
    m = RandomizedResponse(domain(d, policy), epsilon=epsilon)
    (p, *more_p), (q, *more_q) = m.expected_parts()
    assert set(more_p) == {p}
    assert set(more_q) == {q}
    assert p + (d - 1) * q == 1
    assert m.worst_ratio() == p / q
    assert spends_at_most(m, epsilon)
    keep = as_threshold(p if d == 2 else p - q)
    assert keep <= (exact_exp(epsilon) - (d > 2)) / (exact_exp(epsilon) + (1 if d == 2 else d - 1)) * ONE
    if keep < ONE - 1:
        better = Fraction(keep + 1, ONE)
        ratio = better / (1 - better) if d == 2 else (better + (1 - better) / d) / ((1 - better) / d)
        assert exact_ln(ratio) > Decimal(epsilon)


@given(epsilons, sizes)
def test_symmetric_unary_encoding(epsilon, d):
    m = UnaryEncoding(domain(d), epsilon=epsilon, variant="symmetric")
    p, q = m.thresholds
    assert p + q == ONE
    assert m.worst_ratio() == Fraction(p, q) ** 2
    assert spends_at_most(m, epsilon)
    if p < ONE - 1:
        assert exact_ln(Fraction(p + 1, q - 1) ** 2) > Decimal(epsilon)


@given(epsilons, sizes)
def test_optimized_unary_encoding(epsilon, d):
    m = UnaryEncoding(domain(d), epsilon=epsilon)
    p, q = m.thresholds
    assert p == ONE // 2
    assert m.worst_ratio() == Fraction(ONE - q, q)
    assert spends_at_most(m, epsilon)
    if q > 1:
        assert exact_ln(Fraction(ONE - q + 1, q - 1)) > Decimal(epsilon)


open_unit = st.one_of(
    st.floats(0, 1, exclude_min=True, exclude_max=True),
    st.floats(-40, -1e-9).map(math.exp).filter(lambda x: 0 < x < 1),
    st.floats(-36, -1).map(lambda x: 1 - math.exp(x)).filter(lambda x: 0 < x < 1),
)


def is_least_float_above(epsilon: float, ratio: Fraction) -> bool:
    return Decimal(math.nextafter(epsilon, 0)) < exact_ln(ratio) <= Decimal(epsilon)


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


@given(open_unit, open_unit)
@example(0.5, 0.5)
@example(0.01, 0.9)
@example(1 - 2**-53, 1 - 2**-53)
def test_from_coins(truth, yes):
    t, y = Fraction(truth), Fraction(yes)
    p1, p0 = t + (1 - t) * y, (1 - t) * y
    assume(math.floor(p1 * ONE) > math.ceil(p0 * ONE))
    m = RandomizedResponse.from_coins(truth=truth, yes=yes)
    (no_of_no, yes_of_yes), (no_of_yes, yes_of_no) = m.expected_parts()
    assert no_of_no + yes_of_no == yes_of_yes + no_of_yes == 1
    assert yes_of_yes * ONE == math.floor(p1 * ONE)
    assert yes_of_no * ONE == math.ceil(p0 * ONE)
    ratios = [p1 / p0, p0 / p1, (1 - p0) / (1 - p1), (1 - p1) / (1 - p0)]
    assert is_least_float_above(m.epsilon, max(ratios))
    assert m.worst_ratio() == max(yes_of_yes / yes_of_no, no_of_no / no_of_yes)
    assert spends_at_most(m, m.epsilon)


@given(epsilons, sizes)
def test_realised_epsilon_is_the_least_float_above_the_exact_one(epsilon, d):
    for m in (RandomizedResponse(domain(d), epsilon=epsilon), UnaryEncoding(domain(d), epsilon=epsilon)):
        assert is_least_float_above(m.realised_epsilon, m.worst_ratio())
        assert m.realised_epsilon <= math.nextafter(epsilon, math.inf)


@pytest.mark.parametrize("epsilon", [60, 100, 100.1, 1e3, 1e308])
def test_an_enormous_epsilon_saturates(epsilon):
    for m in (
        RandomizedResponse(epsilon=epsilon),
        RandomizedResponse([1, 2, 3], epsilon=epsilon),
        UnaryEncoding([1, 2], epsilon=epsilon),
        UnaryEncoding([1, 2], epsilon=epsilon, variant="symmetric"),
    ):
        p, q = m.expected_parts()
        assert 0 < q[0] < p[0] < 1
        assert spends_at_most(m, epsilon)


@given(st.floats(1e-18, 99))
def test_bounds_of_exp_and_ln(x):
    assert Fraction(exact_exp(x)) * (1 - Fraction(1, 10**50)) < exp_below(x) < exact_exp(x)
    ratio = exact_exp(x).limit_denominator(10**40)
    assume(ratio >= 1)
    value = log_above(ratio)
    assert Decimal(value) >= exact_ln(ratio)
    assert Fraction(math.nextafter(value, -1)) < Fraction(exact_ln(ratio)) + Fraction(1, 10**55)


# ---- what is refused


@pytest.mark.parametrize(
    "epsilon", [0, -0.0, -1, -1e-300, math.nan, math.inf, -math.inf, True, False, "1", None, [1], 1j, b"1", {}]
)
@pytest.mark.parametrize(
    "make",
    [
        lambda e: RandomizedResponse(epsilon=e),
        lambda e: RandomizedResponse([1, 2, 3], epsilon=e),
        lambda e: UnaryEncoding([1, 2], epsilon=e),
        lambda e: UnaryEncoding([1, 2], epsilon=e, variant="symmetric"),
    ],
)
def test_epsilon_must_be_a_finite_positive_number(make, epsilon):
    with pytest.raises(ParameterError, match=r"epsilon must be .* \(0, inf\)"):
        make(epsilon)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-20])
def test_an_epsilon_that_64_bits_cannot_express_is_refused(epsilon):
    with pytest.raises(ParameterError, match="too small"):
        RandomizedResponse([1, 2, 3], epsilon=epsilon)
    with pytest.raises(ParameterError, match="too small"):
        UnaryEncoding([1, 2, 3], epsilon=epsilon)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (0.5, 0.5),
        (0.3, 0.6),
        (1, 0.5),
        (0.5, 0),
        (0, 0),
        (1, 1),
        (1, 0),
        (0, 1),
        (1.5, 0.5),
        (0.5, -0.1),
        (math.nan, 0.5),
        (0.5, math.nan),
        (math.inf, 0.5),
        (True, 0.5),
        (0.5, False),
        ("0.75", 0.25),
        (None, 0.5),
    ],
)
def test_p_and_q_must_be_ordered_probabilities_strictly_inside(p, q):
    with pytest.raises(ParameterError):
        UnaryEncoding.from_probabilities([1, 2], p=p, q=q)


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.1, math.nan, True, "0.5", None])
def test_coins_must_be_strictly_inside(bad):
    with pytest.raises(ParameterError):
        RandomizedResponse.from_coins(truth=bad)
    with pytest.raises(ParameterError):
        RandomizedResponse.from_coins(yes=bad)


def test_a_variant_must_exist():
    with pytest.raises(ParameterError, match='"optimized" or "symmetric"'):
        UnaryEncoding([1, 2], epsilon=1, variant="best")


def test_numbers_of_other_types_are_taken():
    assert RandomizedResponse(epsilon=np.float64(1)) == RandomizedResponse(epsilon=1) == RandomizedResponse(epsilon=1.0)
    assert RandomizedResponse(epsilon=Decimal("0.5")).epsilon == RandomizedResponse(epsilon=Fraction(1, 2)).epsilon
