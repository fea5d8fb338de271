"""Exact confidence bounds of probabilities, and of epsilon, from counts.

C. J. Clopper, E. S. Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
Biometrika 26(4), 1934: after k successes of n the lower bound of a probability is the p with Pr[Bin(n, p) >= k] =
alpha, the upper bound the p with Pr[Bin(n, p) <= k] = alpha. They hold for every n, however small. Both are quantiles
of beta distributions, which SciPy inverts.
"""

from __future__ import annotations

import math

from ldp_core.extras import need


def lower_bound(successes: int, trials: int, alpha: float) -> float:
    """A number that is above the true probability with probability ``alpha`` at most.

    Args:
        successes: of ``trials``.
        trials: independent ones.
        alpha: in (0, 1).

    >>> round(lower_bound(10, 10, 0.05), 6)  # 0.05 ** (1 / 10)
    0.741134
    """
    if successes == 0:
        return 0.0
    return float(need("scipy.special", "audit").betaincinv(successes, trials - successes + 1, alpha))


def upper_bound(successes: int, trials: int, alpha: float) -> float:
    """A number that is below the true probability with probability ``alpha`` at most.

    >>> round(upper_bound(0, 10, 0.05), 6)  # 1 - 0.05 ** (1 / 10)
    0.258866
    """
    if successes == trials:
        return 1.0
    return float(need("scipy.special", "audit").betainccinv(successes + 1, trials - successes, alpha))


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
