"""Exact confidence bounds of probabilities, and of epsilon, from counts.

C. J. Clopper, E. S. Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
Biometrika 26(4), 1934: after k successes of n the lower bound of a probability is the p with Pr[Bin(n, p) >= k] =
alpha, the upper bound the p with Pr[Bin(n, p) <= k] = alpha. They hold for every n, however small. Both are quantiles
of beta distributions, which SciPy inverts.
"""

from __future__ import annotations

import math

from ldp_core.extras import import_extra


def lower_bound(successes: int, trials: int, alpha: float) -> float:
    """A number that is above the true probability with probability ``alpha`` at most, after so many successes."""
    if successes == 0:
        return 0.0
    return float(import_extra("scipy.special", "audit").betaincinv(successes, trials - successes + 1, alpha))


def upper_bound(successes: int, trials: int, alpha: float) -> float:
    """A number that is below the true probability with probability ``alpha`` at most."""
    if successes == trials:
        return 1.0
    return float(import_extra("scipy.special", "audit").betainccinv(successes + 1, trials - successes, alpha))


def epsilon_bound(hits: int, trials: int, other_hits: int, other_trials: int, alpha: float) -> float:
    """A number that is above ln(p / q) with probability ``2 * alpha`` at most; -inf if there is nothing to say.

    An event of probability p occurred ``hits`` times in ``trials``, one of probability q ``other_hits`` times.
    """
    low = lower_bound(hits, trials, alpha)
    return math.log(low / upper_bound(other_hits, other_trials, alpha)) if low else -math.inf
