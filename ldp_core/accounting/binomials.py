"""Binomial probabilities with a known relative error, without SciPy, and the divergence that bounds their tails.

C. Loader, "Fast and Accurate Computation of Binomial Probabilities", 2000: Stirling's formula with its correction, and
deviances in place of powers, so that no large numbers cancel.
"""

from __future__ import annotations

import math

import numpy as np

from ldp_core.arrays.types import F64

ERROR = 1e-11
"""The relative error of `pmf` is below this wherever the probability is above 1e-300.

The deviances are right to about 10 units in the last place, relatively, and below 700 there; so the error of the
exponent is below 2e-12. Tests find less than 1e-12.
"""

_SMALL = 16

_erfc = np.frompyfunc(math.erfc, 1, 1)


def normal_tail(z: F64) -> F64:
    """Pr[N > z] of a standard normal variable N, elementwise."""
    return np.asarray(_erfc(z / math.sqrt(2)), float) / 2


def pmf(k: F64, n: F64, p: float, q: float) -> F64:
    """Pr[Bin(n, p) = k], elementwise, of whole numbers as float64; ``q`` is 1 - p, for where that would be rounded."""
    k, n = np.asarray(k, float), np.asarray(n, float)
    inside = (k > 0) & (k < n)
    if inside.all():
        return _middle(k, n, p, q)
    middle = _middle(np.where(inside, k, 1.0), np.where(inside, n, 2.0), p, q)
    ends = np.where(k == 0, np.exp(n * _log(p, q)[1]), np.where(k == n, np.exp(n * _log(p, q)[0]), 0.0))
    return np.where(inside, middle, ends)


def _middle(x: F64, m: F64, p: float, q: float) -> F64:
    """`pmf` for 0 < x < m."""
    y = m - x
    exponent = _correction(m) - _correction(x) - _correction(y) - deviance(x, m * p) - deviance(y, m * q)
    return np.exp(exponent) * np.sqrt(m / (2 * math.pi * x * y))


def _log(p: float, q: float) -> tuple[float, float]:
    """``ln p`` and ``ln q``, each from the smaller one of both."""
    return (math.log(p), math.log1p(-p)) if p < q else (math.log1p(-q), math.log(q))


def spread(n: float, p: float, q: float, rest: float) -> tuple[int, int]:
    """Whole numbers between which Bin(n, p) lies, but for a probability of at most ``rest``.

    Bernstein's inequality on either side: Pr[|X - n p| >= t] <= 2 exp(-t^2 / (2 n p q + 2 t / 3)).
    """
    log = math.log(2 / rest)
    t = log / 3 + math.sqrt((log / 3) ** 2 + 2 * n * p * q * log)
    return max(math.floor(n * p - t), 0), int(min(math.ceil(n * p + t), n))


def divergence(a: F64, r: F64) -> F64:
    """KL(a || r) of two coins, in nats: a ln(a / r) + (1 - a) ln((1 - a) / (1 - r)), elementwise."""
    with np.errstate(divide="ignore", invalid="ignore"):  # (0 ln 0 is 0)
        one = np.where(a > 0, a * np.log(a / r), 0.0)
        zero = np.where(a < 1, (1 - a) * (np.log1p(-a) - np.log1p(-r)), 0.0)
    return one + zero


def _correction(n: F64) -> F64:
    """ln(n!) - ln(sqrt(2 pi n) (n / e)^n), n >= 1; from 16 on by its series, which is cut off below 2e-15."""
    large = np.maximum(n, _SMALL)
    square = 1 / (large * large)
    series: F64 = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / large
    if n.size and n.min() < _SMALL:
        return np.where(n < _SMALL, _TABLE[np.minimum(n, _SMALL - 1).astype(np.int64)], series)
    return series


_TABLE = np.array(
    [
        0.0,
        *(math.log(math.factorial(n)) - (n + 0.5) * math.log(n) + n - math.log(2 * math.pi) / 2 for n in range(1, 16)),
    ]
)


_NEAR, _TERMS = 0.05, 15  # what is left out is below 0.05^16 / 17 of the rest


def deviance(x: F64, mean: F64) -> F64:
    """``x ln(x / mean) + mean - x``, for x > 0, elementwise: n times the divergence of two coins has two of these."""
    difference = x - mean
    v = difference / (x + mean)
    far = np.abs(v) > _NEAR
    if far.all():
        return x * np.log(x / mean) - difference
    square = v * v
    series = np.full_like(v, 1 / _TERMS)
    for odd in range(_TERMS - 2, 1, -2):
        series *= square
        series += 1 / odd
    near: F64 = difference * v + 2 * x * v * square * series
    return np.where(far, x * np.log(x / mean) - difference, near) if far.any() else near
