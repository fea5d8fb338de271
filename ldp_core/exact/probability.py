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
from ldp_core.exact.sampling import ONE

_DIGITS = Context(prec=60)
_MARGIN = Fraction(1, 10**58)
_SATURATED = 100.0
"""Beyond this epsilon, exp(epsilon) is far outside what 64-bit thresholds resolve."""


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """Return ``epsilon`` as a float.

    Raises:
        ParameterError: unless it is a finite number > 0.
    """
    value = _number(name, epsilon, "(0, inf)")
    if not (math.isfinite(value) and value > 0):
        raise ParameterError(f"{name} must be in (0, inf), got {value!r}")
    return value


def check_resolved(p: Fraction | int, q: Fraction | int, scale: str = "", *, name: str = "epsilon") -> None:
    """Raise `ParameterError` unless p > q: both are rounded towards privacy, and meet where epsilon is tiny."""
    if not p > q:
        raise ParameterError(f"{name} is too small: with 64-bit probabilities it must be above about 1e-18{scale}")


def check_integer(name: str, value: int, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int.

    Raises:
        ParameterError: unless it is an integer in [low, high], where no ``high`` is no bound.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        permitted = f", at least {low}" if high is None else f" in [{low}, {high}]"
        raise ParameterError(f"{name} must be an integer{permitted}, got {value!r}")
    return int(value)


def check_open(name: str, value: float) -> float:
    """Return ``value`` as a float.

    Raises:
        ParameterError: unless it is a number in (0, 1).
    """
    number = _number(name, value, "(0, 1)")
    if not 0 < number < 1:
        raise ParameterError(f"{name} must be in (0, 1), got {number!r}")
    return number


def _number(name: str, value: Any, interval: str) -> float:
    """``value`` as a float, if it is one number."""
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(value, (bool, np.bool_, str, bytes)) and np.ndim(value) == 0:
            return float(value)
    raise ParameterError(f"{name} must be a number in {interval}, got {type(value).__name__}")


def check_probability(name: str, value: float, least: float = 0) -> Fraction:
    """Return ``value`` as an exact fraction.

    Raises:
        ParameterError: unless it is a number in [least, 1].
    """
    number = _number(name, value, f"[{least}, 1]")
    if not least <= number <= 1:
        raise ParameterError(f"{name} must be a probability in [{least}, 1], got {number!r}")
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
