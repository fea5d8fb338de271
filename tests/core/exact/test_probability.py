"""The realized epsilon, in exact arithmetic, is never above the requested one and as close as 64 bits allow."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ldp_core import ParameterError
from ldp_core.exact.probability import exp_above, exp_below, float_above, log_above

from ...cases import each
from ..checks import exact_exp, exact_ln


@given(st.floats(1e-18, 99))
def test_bounds_of_exp_and_ln(x):
    assert Fraction(exact_exp(x)) * (1 - Fraction(1, 10**50)) < exp_below(x) < exact_exp(x)
    ratio = exact_exp(x).limit_denominator(10**40)
    assume(ratio >= 1)
    value = log_above(ratio)
    assert Decimal(value) >= exact_ln(ratio)
    assert Fraction(math.nextafter(value, -1)) < Fraction(exact_ln(ratio)) + Fraction(1, 10**55)


@given(st.floats(0, 100))
def test_an_upper_bound_of_exp(x):
    assert exact_exp(x) < exp_above(x) < exact_exp(x) * (1 + Fraction(1, 10**54))


@each("x", [-1.0, 101.0])
def test_exp_above_has_an_interval(x):
    with pytest.raises(ParameterError, match=r"\[0, 100"):
        exp_above(x)


@given(st.fractions(-(10**6), 10**6))
def test_the_next_float(x):
    assert math.nextafter(float_above(x), -math.inf) < x <= float_above(x)
