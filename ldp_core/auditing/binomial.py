"""Exact confidence bounds of probabilities, and of epsilon, from counts.

C. J. Clopper, E. S. Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
Biometrika 26(4), 1934: after k successes of n the lower bound of a probability is the p with Pr[Bin(n, p) >= k] =
alpha, the upper bound the p with Pr[Bin(n, p) <= k] = alpha. They hold for every n, however small.
"""

from __future__ import annotations

import math

import numpy as np

_HALVINGS = 60
_SMALLEST = math.log(2.0**-60)  # terms of a tail below this share of its first one are bounded, not added up,
_DEVIATIONS, _AT_LEAST = 12, 64  # nor those that are so many standard deviations, and so many, from it


def lower_bound(successes: int, trials: int, alpha: float) -> float:
    """A number that is above the true probability with probability ``alpha`` at most.

    Args:
        successes: of ``trials``.
        trials: independent ones.
        alpha: in (0, 1/2].

    >>> round(lower_bound(10, 10, 0.05), 6)  # 0.05 ** (1 / 10)
    0.741134
    """
    if successes == 0:
        return 0.0
    low, high = 0.0, successes / trials  # the tail at ``high`` is about a half: at least alpha
    limit = math.log(alpha)
    for _ in range(_HALVINGS):
        middle = math.exp((math.log(low) + math.log(high)) / 2) if low else high / 2
        if log_upper_tail(successes, trials, middle) <= limit:
            low = middle
        else:
            high = middle
    return low


def upper_bound(successes: int, trials: int, alpha: float) -> float:
    """A number that is below the true probability with probability ``alpha`` at most.

    >>> round(upper_bound(0, 10, 0.05), 6)  # 1 - 0.05 ** (1 / 10)
    0.258866
    """
    if successes == trials:
        return 1.0
    low, high = successes / trials, 1.0
    limit = math.log(alpha)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if log_upper_tail(trials - successes, trials, 1 - middle) <= limit:
            high = middle
        else:
            low = middle
    return high


def log_upper_tail(k: int, n: int, p: float) -> float:
    """Logarithm of Pr[Bin(n, p) >= k], or a number a little above it, for k >= 1.

    The terms from k on are Pr[k] times products of ratios that fall, so that a geometric series bounds what is left
    out; below the mean, where they first rise, all are added up.
    """
    if p <= 0.0:
        return -math.inf
    if p >= 1.0:
        return 0.0
    first = (
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
    )
    odds = p / (1 - p)
    ratio = (n - k) / (k + 1) * odds  # of the second term to the first, the greatest one
    if k == n:
        return first
    terms = n - k
    if ratio < 1:
        far = math.ceil(_DEVIATIONS * math.sqrt(n * p * (1 - p))) + _AT_LEAST
        terms = min(n - k, far, math.ceil(_SMALLEST / math.log(ratio)) + 1)
    at = np.arange(k, k + terms, dtype=np.float64)
    products = np.cumsum(np.log((n - at) / (at + 1) * odds))
    top = max(float(products.max()), 0.0)
    total = math.exp(-top) + float(np.exp(products - top).sum())
    last = (n - k - terms) / (k + terms + 1) * odds
    if terms < n - k:
        total += math.exp(float(products[-1]) - top) * last / (1 - last)
    return min(first + top + math.log(total), 0.0)


def epsilon_bound(hits: int, trials: int, other_hits: int, other_trials: int, alpha: float) -> float:
    """A number that is above ln(p / q) with probability ``2 * alpha`` at most; -inf if there is nothing to say.

    Args:
        hits: how often an event of probability p occurred, in ``trials``.
        trials: independent ones.
        other_hits: how often one of probability q occurred, in ``other_trials``.
        other_trials: independent ones.
        alpha: of each of the two bounds.

    >>> round(epsilon_bound(7311, 10_000, 2689, 10_000, 1e-3), 3)  # of 1: the counts of binary randomized response
    0.931
    """
    low = lower_bound(hits, trials, alpha)
    return math.log(low / upper_bound(other_hits, other_trials, alpha)) if low else -math.inf
