"""Probabilities as integers over 2^64, rounded towards privacy, and exact epsilons.

All arithmetic here is on integers and fractions. The only transcendental inputs, exp and ln,
come from `decimal` (correctly rounded at 60 digits) and are moved outwards by one unit in the
58th digit, so that every bound is a true bound.
"""

from __future__ import annotations

import math
import operator
import sys
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

from ldp_core.errors import ParameterError
from ldp_core.exact.sampling import ONE

_DIGITS = Context(prec=60)
_MARGIN = Fraction(1, 10**58)
_BITS, _TINY = 256, 400
_SATURATED = 100.0
"""Beyond this epsilon, exp(epsilon) is far outside what 64-bit thresholds resolve."""


SURE = 1e-6
"""From this epsilon on the probabilities of values that 32 bits can count differ by far more than 64 bits resolve."""


def check_resolved(
    epsilon: float, rates: Callable[[], Iterable[Fraction | float]], scale: str = "", name: str = "epsilon"
) -> None:
    """Raise `ParameterError` unless p > q: both are rounded towards privacy, and meet where epsilon is tiny.

    Elsewhere ``rates`` are not found yet: they cost an exponential of 60 digits, and a plan has many mechanisms.
    """
    if epsilon < SURE and not operator.gt(*rates()):
        raise ParameterError(f"{name} is too small: with 64-bit probabilities it must be above about 1e-18{scale}")


@lru_cache(maxsize=64)  # (of the levels of a tree it is asked often)
def exp_below(x: Fraction | float) -> Fraction:
    """A rational lower bound of exp(min(x, 100)), tight to 57 digits."""
    exact = Fraction(min(x, _SATURATED))
    power = _DIGITS.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    # The argument itself was rounded to 60 digits: |x| <= 100 makes that a relative error below 10^-57.
    return Fraction(_DIGITS.exp(power)) * (1 - 200 * _MARGIN)


def exp_above(x: Fraction | float) -> Fraction:
    """A rational upper bound of exp(x), for 0 <= x <= 100, tight to 55 digits."""
    if not 0 <= x <= _SATURATED:
        raise ParameterError(f"exp_above takes a number in [0, {_SATURATED}], got {float(x)!r}")
    return exp_below(x) * (1 + 1000 * _MARGIN)


def float_above(x: Fraction | float) -> float:
    """The least float >= x; infinity beyond the largest one."""
    if x > Fraction(sys.float_info.max):
        return math.inf
    value = float(x)
    return value if Fraction(value) >= x else math.nextafter(value, math.inf)


def log_above(ratio: Fraction) -> float:
    """The least float that is certainly >= ln(ratio), for ratio >= 1."""
    numerator = _DIGITS.ln(Decimal(ratio.numerator))
    denominator = _DIGITS.ln(Decimal(ratio.denominator))
    bound = Fraction(numerator) - Fraction(denominator) + (100 + Fraction(numerator)) * _MARGIN  # long ones err by more
    return float_above(bound)


def power_below(base: Fraction, exponent: int) -> Fraction:
    """A lower bound of base^exponent, for ``base`` in [0, 1], tight to 180 bits if the exponent is below 2^64.

    By squaring, with mantissas of 256 bits that are cut off. Below 2^-400 it is 0.
    """
    if not base:
        return Fraction(0**exponent)
    result, power = (1, 0), _cut(base.numerator << 2 * _BITS, base.denominator, -2 * _BITS)
    while exponent:
        if exponent & 1:
            result = _cut(result[0] * power[0], 1, result[1] + power[1])
        exponent >>= 1
        power = _cut(power[0] * power[0], 1, 2 * power[1])
    mantissa, scale = result
    if mantissa.bit_length() + scale < -_TINY:
        return Fraction(0)
    return Fraction(mantissa << scale) if scale >= 0 else Fraction(mantissa, 1 << -scale)


def _cut(numerator: int, denominator: int, scale: int) -> tuple[int, int]:
    """A mantissa of `_BITS` bits at most and the exponent of 2, of no more than numerator / denominator * 2^scale."""
    whole = numerator // denominator
    surplus = max(whole.bit_length() - _BITS, 0)
    return whole >> surplus, scale + surplus


def floor_threshold(probability: Fraction) -> int:
    """The largest integer threshold whose probability is at most ``probability``, below 1."""
    return min(math.floor(probability * ONE), ONE - 1)


def ceil_threshold(probability: Fraction) -> int:
    """The smallest integer threshold whose probability is at least ``probability``, above 0."""
    return max(math.ceil(probability * ONE), 1)


def agreement(epsilon: Fraction | float, symbols: int = 2, favored: int = 1) -> int:
    """The threshold of f e^epsilon / (f e^epsilon + symbols - f), rounded down, with f = ``favored``.

    So probable may it be to report one of the f symbols that a value favors, if all of these are equally probable and
    all others are.
    """
    weight = favored * exp_below(epsilon)
    return floor_threshold(weight / (weight + symbols - favored))


def keeping(epsilon: Fraction | float, symbols: int) -> int:
    """The threshold of (e^epsilon - 1) / (e^epsilon - 1 + symbols), rounded down.

    So often may one of the symbols be kept, if otherwise one is drawn uniformly from all, this one included.
    """
    e = exp_below(epsilon)
    return floor_threshold((e - 1) / (e - 1 + symbols))


def best_symbols(among: Sequence[int], epsilon: Fraction | float) -> int:
    """Among increasing numbers of symbols that of least variance, if a report keeps one of them as in `keeping`.

    If it supports 1 in so many, the variance for a value that nobody has is n (e^epsilon - 1 + symbols)^2 /
    ((symbols - 1) (e^epsilon - 1)^2): Wang et al., "Locally Differentially Private Protocols for Frequency Estimation",
    USENIX Security 2017, section 4.4.
    """
    e = exp_below(epsilon)
    at = bisect(among, e + 1)  # where the variance is least
    return min(among[max(at - 1, 0) : at + 1], key=lambda symbols: (e - 1 + symbols) ** 2 / (symbols - 1))


def fraction(threshold: int) -> Fraction:
    """The probability that an integer threshold stands for."""
    return Fraction(threshold, ONE)
