"""Chi-square tests of a whole histogram, or table: whether all its differences can be noise.

**All values.** With delta = f2 - f1 of n1, n2 people, S = Cov(f) (1 / n1 + 1 / n2), of `FrequencyOracle.covariance`,
and u = S 1 where the true differences add up to 0,

    delta' = delta - u (1^T delta) / (1^T u)        S' = S - u u^T / (1^T u)        T = delta'^T S'^+ delta'

is a chi-square variable of d - 1 degrees of freedom, d where they do not add up to 0. Of unary encodings it is the
statistic of M. Gaboardi, R. Rogers, "Local Private Hypothesis Testing: Chi-Square Tests", ICML 2018, of randomized
response Pearson's of the reports.

**Few reports.** n Cov(f)_vv / s^2 coins, n at most, of n reports decide about a value, s being what one adds (`tails`).
Values with fewer than six on the smaller side are added together until they have six, and delta and S are those of the
sums (W. G. Cochran, "Some Methods for Strengthening the Common chi^2 Tests", Biometrics 10(4), 1954). If one value's
reports tell nearly all of another's (of Hadamard response, of sets), few decide how these differ: in units of one coin
eigenvectors of S with a variance below six are left out. Of one sum there is a test only where shares do not add up to
1. f is moved to shares that can be.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ldp_core.arrays.types import F64, I64
from ldp_core.estimates.consistency import consistent
from ldp_core.estimates.tails import FEW

_NOTHING = 1e-9
"""Variances this small beside the largest are rounding."""


def possible(oracle: Any, shares: F64) -> F64:
    """Shares that can be, near estimated ones: of others covariances would not be those of anything."""
    positive = np.maximum(shares, 0)
    if not oracle.exhaustive:
        return positive / np.maximum(positive.sum(axis=1, keepdims=True), 1)
    weights = np.maximum(oracle.variances(positive), 1e-300)  # (noise of those that have much is what is missing)
    missing = (1 - shares.sum(axis=1, keepdims=True)) / weights.sum(axis=1, keepdims=True)
    return consistent(shares + missing * weights, 1, "norm-sub")


def enough(coins: F64, least: Any = FEW) -> tuple[F64, I64]:
    """Sums of values with so many coins each, float64[k, d, d] of 0 and 1, a row each; and how many there are.

    >>> enough(np.array([[9.0, 2.0, 20.0, 5.0]]))[0][0, :3].astype(int).tolist()
    [[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 1]]
    """
    (k, d), few = coins.shape, coins < np.reshape(least, (-1, 1))
    # (Those with few come in the domain's order: their own would be one of errors.)
    order, rows = np.argsort(np.where(few, 0, -coins), axis=1, kind="stable"), np.arange(k)
    sums, row, held, left = np.zeros((k, d, d)), np.zeros(k, np.int64), np.zeros(k), coins.sum(axis=1)
    for value in order.T:
        sums[rows, row, value] = 1
        held, left = held + coins[rows, value], left - coins[rows, value]
        full = (held >= least) & (left >= least)
        row, held = row + full, np.where(full, 0, held)
    return sums, row + (held >= least)


def of_one_coin(sums: F64, variances: F64, coins: F64) -> F64:
    """The error that one coin makes in each of such sums of values, float64[k, d, 1]; 1 where there is none."""
    coins, variances = sums @ coins[:, :, None], sums @ variances[:, :, None]
    some = (coins > 0) & (variances > 0)
    return np.sqrt(np.divide(variances, coins, out=np.ones_like(coins), where=some))


def whitened(delta: F64, covariances: F64, coin: F64, *, add_up: bool) -> tuple[F64, I64]:
    """delta^T S^+ delta of float64[k, d, 1] and [k, d, d], and the ranks of S; ``add_up``: delta adds up to 0.

    Sums of numbers that fewer than six coins decide about are left out: one may tell nearly all of another.
    """
    if add_up:
        before, covariances = adding_up(covariances)
        delta = before @ delta
    white, ranks = whitening(covariances / coin / coin.transpose(0, 2, 1), FEW)
    delta = delta / coin
    return ((white @ delta) ** 2).sum(axis=(1, 2)), ranks


def adding_up(covariances: F64) -> tuple[F64, F64]:
    """What to multiply numbers by that add up to 0 but for noise, float64[k, d, d]; and their covariances then.

    Given that they do, so that their sum says what noise they have; the sum is 0 then.
    """
    u = covariances.sum(axis=2)
    total, trace = u.sum(axis=1), np.trace(covariances, axis1=1, axis2=2)
    part = np.divide(1.0, total, out=np.zeros_like(total), where=total > _NOTHING * trace)
    before = np.eye(covariances.shape[1]) - (u * part[:, None])[:, :, None]
    return before, covariances - u[:, :, None] * u[:, None, :] * part[:, None, None]


def whitening(covariances: F64, least: float = 0.0) -> tuple[F64, I64]:
    """float64[k, d, d], which make uncorrelated numbers of variance 1, or 0, of those with such covariances; ranks.

    Of those that have more than ``least`` before.
    """
    values, vectors = np.linalg.eigh(covariances)
    # (Few reports may leave a value out, or say what no covariances say.)
    kept = values > np.maximum(_NOTHING * values[:, -1:], least)
    scale = 1 / np.sqrt(np.where(kept, values, np.inf))
    return scale[:, :, None] * vectors.transpose(0, 2, 1), kept.sum(axis=1)


def chi_square_tail(statistic: F64, degrees: I64) -> F64:
    """Pr[a chi-square variable is larger], elementwise: from 1 or 2 degrees of freedom in steps of 2.

    Q(k + 2, t) = Q(k, t) + (t / 2)^(k / 2) exp(-t / 2) / Gamma(k / 2 + 1)      (Abramowitz, Stegun 1972, 26.4.8)

    >>> chi_square_tail(np.array([3.841459, 5.991465, 24.995790]), np.array([1, 2, 15])).round(6).tolist()
    [0.05, 0.05, 0.05]
    """
    half = np.maximum(statistic, 0) / 2
    odd = np.array([math.erfc(math.sqrt(x)) for x in half.reshape(-1).tolist()]).reshape(half.shape)
    tail: F64 = np.where(degrees % 2 == 1, odd, np.exp(-half))
    logs = np.log(np.maximum(half, 1e-300))
    for k in range(1, int(degrees.max(initial=0)) - 1):
        more = np.exp(k / 2 * logs - half - math.lgamma(k / 2 + 1))
        tail = tail + np.where((degrees > k + 1) & ((degrees - k) % 2 == 0), more, 0.0)
    return np.minimum(tail, 1)
