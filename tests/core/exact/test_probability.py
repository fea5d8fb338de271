"""The realised epsilon, in exact arithmetic, is never above the requested one and as close as 64 bits allow."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from ldp_core.exact.probability import exp_below, log_above

from ..checks import exact_exp, exact_ln


@given(st.floats(1e-18, 99))
def test_bounds_of_exp_and_ln(x):
    assert Fraction(exact_exp(x)) * (1 - Fraction(1, 10**50)) < exp_below(x) < exact_exp(x)
    ratio = exact_exp(x).limit_denominator(10**40)
    assume(ratio >= 1)
    value = log_above(ratio)
    assert Decimal(value) >= exact_ln(ratio)
    assert Fraction(math.nextafter(value, -1)) < Fraction(exact_ln(ratio)) + Fraction(1, 10**55)
