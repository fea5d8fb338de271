"""Probabilities as integers over 2^64, rounded towards privacy, and exact epsilons.

All arithmetic here is on integers and fractions. The only transcendental inputs, exp and ln,
come from `decimal` (correctly rounded at 60 digits) and are moved outwards by one unit in the
58th digit, so that every bound is a true bound.
"""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.sampling import ONE

_DIGITS = Context(prec=60)
_MARGIN = Fraction(1, 10**58)
_SATURATED = 100.0
"""Beyond this epsilon, exp(epsilon) is far outside what 64-bit thresholds resolve."""


def check_epsilon(epsilon: float) -> float:
    """Return ``epsilon`` as a float.

    Raises:
        ParameterError: unless it is a finite number > 0.
    """
    value = _number("epsilon", epsilon, "(0, inf)")
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"epsilon must be in (0, inf), got {value!r}")
    return value


def check_integer(name: str, value: int, low: int, high: int) -> int:
    """Return ``value`` as an int.

    Raises:
        ParameterError: unless it is an integer in [low, high].
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise ParameterError(f"{name} must be an integer in [{low}, {high}], got {value!r}")
    return int(value)


def _number(name: str, value: Any, interval: str) -> float:
    """``value`` as a float, if it is one number."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, (bool, np.bool_, str, bytes)) and np.ndim(value) == 0:
            return float(value)
    raise ParameterError(f"{name} must be a number in {interval}, got {type(value).__name__}")


def check_probability(name: str, value: float) -> Fraction:
    """Return ``value`` as an exact fraction.

    Raises:
        ParameterError: unless it is a finite number in [0, 1].
    """
    number = _number(name, value, "[0, 1]")
    if not 0.0 <= number <= 1.0:
        raise ParameterError(f"{name} must be a probability in [0, 1], got {number!r}")
    return Fraction(number)


def exp_below(x: Fraction | float) -> Fraction:
    """A rational lower bound of exp(min(x, 100)), tight to 57 digits."""
    exact = Fraction(min(x, _SATURATED))
    power = _DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    # The argument itself was rounded to 60 digits: |x| <= 100 makes that a relative error below 10^-57.
    return Fraction(_DIGITS.exp(power)) * (1 - 200 * _MARGIN)


def log_above(ratio: Fraction) -> float:
    """The least float that is certainly >= ln(ratio), for ratio >= 1."""
    numerator = _DIGITS.ln(Decimal(ratio.numerator))
    denominator = _DIGITS.ln(Decimal(ratio.denominator))
    bound = (Fraction(numerator) - Fraction(denominator)) + 100 * _MARGIN
    value = float(bound)  # rounded to nearest
    return value if Fraction(value) >= bound else math.nextafter(value, math.inf)


def floor_threshold(probability: Fraction) -> int:
    """The largest integer threshold whose probability is at most ``probability``, below 1."""
    return min(math.floor(probability * ONE), ONE - 1)


def ceil_threshold(probability: Fraction) -> int:
    """The smallest integer threshold whose probability is at least ``probability``, above 0."""
    return max(math.ceil(probability * ONE), 1)


def fraction(threshold: int) -> Fraction:
    """The probability that an integer threshold stands for."""
    return Fraction(threshold, ONE)
