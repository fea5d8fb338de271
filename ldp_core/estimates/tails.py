"""Intervals that hold together: the tails of skewed sums, which are not normal ones.

That d intervals hold together with confidence 1 - alpha is promised if each end fails with a probability of at most
alpha / (2 d) (Bonferroni). So far out a sum of n reports is not normal where few of them support a value. What is known
of a report's part in an estimated count is its variance v and how far it is above its mean at most, b. Among such parts
the one of two values, b and -v / b, makes large sums the likeliest (W. Hoeffding, "Probability Inequalities for Sums of
Bounded Random Variables", JASA 58(301), 1963, Theorem 3), and their sum is a binomial count of n coins with
r = v / (b^2 + v). Of this count

    Pr[Bin(n, r) >= k] <= Pr[N > sqrt(2 n KL((k - 1) / n, r))]        k - 1 >= n r

(A. M. Zubkov, A. A. Serov, "A Complete Proof of Universal Inequalities for the Distribution Function of the Binomial
Law", Theory of Probability and Its Applications 57(3), 2013). For a sum that is binomial itself both are proven; for
parts of different means tests enumerate it. Where the sum is nearly normal the interval is a score interval.

**Intervals of one count** hold 79 to 93 % in the place of 95 % where the noise makes few reports support a value, as
score intervals of a small binomial count do (L. D. Brown, T. T. Cai, A. DasGupta, "Interval Estimation for a Binomial
Proportion", Statistical Science 16(2), 2001, Section 4.1.1): nearly always no report supports it, and one that does is
farther than z standard errors. So an interval is the score interval, and in addition all counts that the estimate is
not too improbable for as a sum of coins: of N that are worth s each, and are heads with the probability r, where

    N = max(n, 4 V / s^2)        N r (1 - r) s^2 = V

so that it has the variance V of the estimate, whatever has made it. If that is more than n coins have, a report is a
sum of several, which are rarer: N grows by `_MORE` times as much. Sums of coins are nearly binomial if the variance is
matched (K. Butler, M. A. Stephens, "The Distribution of a Sum of Independent Binomial Random Variables", Methodology
and Computing in Applied Probability 19, 2017). Of coins with different r this one has the greatest skewness, as
v sqrt(1 - 4 v), the third central moment of a coin of variance v, is concave. For k heads Zubkov and Serov have

    Pr[Bin(N, r) > k] <= Pr[N > sqrt(2 N KL(k / N, r))] <= Pr[Bin(N, r) >= k]        k >= N r

It is nearly the mean of both, as of a mid-p interval. With a whole coin less in k, as above, it would be a bound, and
intervals up to twice as long; `_NEARER + _OF_FEW / N` of a coin less is what it takes to hold at least 93 %, and 88 %
of 90 %, which tests enumerate.
Where V is that of `FEW` rare coins or more, at both ends (of few people more, and for 90 % or less `_LESS` times as
many), the score interval does so by itself, and also where it is that of `_NONE` coins (for more than 95 %, fewer) or
fewer: with that they all fall as expected. Farther out more coins are few, see `few_at`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ldp_core.accounting.binomials import deviance
from ldp_core.arrays.types import F64

_CLOSE = 1e-12  # of an interval's length: so near are its ends


def two_point_score(t: F64, n: F64, variance: F64, reach: F64) -> F64:
    """The z with Pr[sum of n parts >= t] <= Pr[N > z], N a standard normal variable, elementwise.

    Args:
        t: at least 0.
        n: independent parts of mean 0; above 0.
        variance: of the sum; at least 0.
        reach: the most that a part can be.

    >>> two_point_score(np.array([0.0, 30.0, 101.0]), np.array(100.0), np.array(25.0), np.array(1.0)).round(2).tolist()
    [0.0, 5.21, inf]
    """
    variance = np.maximum(variance, 1e-300)
    square = reach**2 + variance / n
    expected = variance / square
    count = expected + t * reach / square
    below = np.clip(count - 1, expected, n)
    rest = np.maximum(n - below, 1e-300)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        twice = 2 * (deviance(below, expected) + deviance(rest, n - expected))
    beyond = t > n * reach * (1 + 1e-9)  # (of n parts that are the most each, too, t is rounded)
    return np.where(beyond, math.inf, np.sqrt(np.maximum(twice, 0)))  # (also where nothing varies)


def coins_score(t: F64, n: F64, variance: F64, step: F64, *, ends: bool = True) -> F64:
    """As `two_point_score`, of coins that are worth ``step`` and have this variance together; nearly, and no bound.

    (Of ``ends`` of intervals; a p-value of one report would be that of none.)

    >>> coins_score(np.array([0.0, 30.0, 101.0]), np.array(100.0), np.array(25.0), np.array(1.0)).round(2).tolist()
    [0.0, 6.15, inf]
    """
    of_one = np.maximum(variance, 1e-300) / step**2
    coins = np.maximum(n, 4 * of_one + _MORE * np.maximum(4 * of_one - n, 0))
    v = of_one / coins
    expected = coins * 2 * v / (1 + np.sqrt(np.maximum(1 - 4 * v, 0)))
    heads = expected + np.maximum(t / step - _NEARER - ends * _OF_FEW / coins, 0)
    rest = np.maximum(coins - heads, 1e-300)
    with np.errstate(over="ignore"):
        twice = 2 * (deviance(np.maximum(heads, 1e-300), expected) + deviance(rest, coins - expected))
    return np.where(heads > coins * (1 + 1e-9), math.inf, np.sqrt(np.maximum(twice, 0)))


def scores_of_few(z: F64, few: Any, n: Any, error: Any, step: Any, part: Any = 1.0) -> F64:
    """Scores ``z`` of sums with these errors; where ``few`` coins decide, a part of those of their tails, if less."""
    size, people, one, coin, part = (np.broadcast_to(x, z.shape)[few] for x in (np.abs(z), n, error, step, part))
    made = z.copy()
    made[few] = np.copysign(np.minimum(size, part * coins_score(size * one, people, one**2, coin, ends=False)), z[few])
    return made


def reach_of_few(
    ends: tuple[F64, F64],
    counts: F64,
    n: Any,
    z: Any,
    step: Any,
    variance: tuple[Any, Any, Any],
    most: Any = None,
    safer: float = 1,
    rise: Any = 0.0,
) -> tuple[F64, F64]:
    """Ends of score intervals of estimated counts, moved out where few coins decide; see this module's text.

    Args:
        ends: of the score intervals, float64[...].
        counts: float64[...].
        n: of how many independent reports; z: how many standard errors intervals reach.
        step: what a report that supports a value adds to its count; 0 where sums are normal.
        variance: (a, b, e), of the estimate if the count is c: a + b c + e c^2.
        most: the greatest count, if it is not n.
        safer: by how many times less variance a coin may be missed: of a difference, that of two sides.
        rise: by how much ``step`` is more at the greatest count than at 0.
    """
    low, high = ends
    a, b, e = variance
    if np.all(np.less(z, _NO_REACH)):
        return ends

    def at(c: Any, a: Any, b: Any, e: Any) -> F64:
        return a + (b + e * c) * c

    most, share = n if most is None else most, 1 - _ALL / np.maximum(n, 1)
    none = _NONE / safer * np.exp(np.minimum(1.1 * (1.921 - np.square(z) / 2), 0))  # (z^2 / 2 is 1.921 of 95 %)
    last, slope = step + rise, rise / np.maximum(most, 1e-99)
    with np.errstate(invalid="ignore", divide="ignore"):  # (where no report tells)
        enough = _enough(z) * np.square(np.maximum(step, last))
        if np.all(np.minimum(a, at(most, a, b, e)) * share >= enough) and np.all(np.asarray(e) <= 0):
            return ends  # there are enough everywhere, as the variance is concave
        one = most / np.maximum(n, 1)  # (a count that may be missed is beyond an interval without any coins)
        first_one, last_one = at(one, a, b, e) - a, at(most - one, a, b, e) - at(most, a, b, e)
        one = one * (np.maximum(first_one / np.square(step), last_one / np.square(last)) > none)
        inside = [np.clip(end, 0, most) for end in (low - one, high + one, low, high)]
        coins = [at(c, a, b, e) / np.square(step + slope * c) for c in inside]
        few = (reduce(np.minimum, coins) * share < _enough(z)) & (reduce(np.maximum, coins) > none)
    few &= np.isfinite(low) & np.isfinite(high) & np.greater(np.minimum(step, last), 0) & np.greater(n, 0)
    if not few.any():
        return ends
    count, people, far, size, slope, end, *poly = (
        np.broadcast_to(array, few.shape)[few].astype(float) for array in (counts, n, z, step, slope, most, a, b, e)
    )
    width = np.maximum(np.maximum(count - low[few], high[few] - count), 1e-6 * size)

    def reaches(count: F64, people: F64, far: F64, size: F64, slope: F64, end: F64, width: F64, *poly: F64) -> F64:
        def score(t: F64) -> F64:
            c = count + _sides(t) * t
            return coins_score(t, people, at(c, *poly), size + slope * np.clip(c, 0, end))

        return least_beyond(far, score, np.stack([width, width]), 1e-6)

    columns = np.stack([count, people, far, size, slope, end, width, *poly])
    blocks = np.array_split(columns, -(-len(count) // _BLOCK), axis=1)  # (which stay in the cache)
    below, above = np.concatenate([reaches(*block) for block in blocks], axis=1)
    low, high = np.array(low), np.array(high)
    low[few], high[few] = np.minimum(low[few], count - below), np.maximum(high[few], count + above)
    return low, high


def enough_reports(z: float, step: float, least: float) -> int:
    """Of so many reports, each with this variance at ``least``, `reach_of_few` moves no end."""
    return math.ceil(float(min(_ALL + _enough(z) * step**2 / max(least, 1e-99), 2**53)))


def _enough(z: Any) -> Any:
    return few_at(z) * np.clip(1 + 10 * (1.96 - z), 1, _LESS)


def few_at(z: Any, skewed: Any = 1.0) -> Any:
    """How many coins are few, z standard errors out: (z / 2)^3 times this part of their skewness as many, if more.

    A skewness of 1 / sqrt(N) makes a normal tail about exp(z^3 / (6 sqrt(N))) times as heavy, and the other one as much
    lighter. (The power is ours: with it a thousand differences held together in simulations.)
    """
    return FEW * np.maximum(1, skewed * (np.abs(z) / 2) ** 3)


COUNTS_ALONE = 1e-9
"""The confidence of whom intervals do not matter: no end is looked for."""
_NO_REACH = 1e-6
_BLOCK = 1 << 12
_NONE, FEW, _ALL, _NEARER, _OF_FEW, _MORE, _LESS = 0.04, 6, 24, 0.23, 1.2, 10, 4


def least_that(holds: Callable[[float], bool], about: float) -> float:
    """The least positive number that a statement holds of, which holds of all greater ones; to twelve digits.

    Infinity where doubles find none.
    """
    high = about
    while not holds(high):
        if high > 1e100:
            return math.inf
        high *= 2
    low = high / 2
    while holds(low) and high > 1e-9 * about:
        low, high = low / 2, low
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def ends_together(counts: F64, n: F64, z: F64 | float, score: Callable[[F64, F64], F64], width: F64) -> tuple[F64, F64]:
    """The counts nearest below and above the estimated ones that their errors are too improbable for, float64[...].

    Args:
        counts: estimated, float64[...].
        n: numbers of reports; where there are none, nothing is uncertain.
        z: of a normal variable that is as improbable.
        score: from errors (of estimates less counts) and counts, z as `two_point_score` gives it.
        width: where the search begins.
    """
    width = np.broadcast_to(np.maximum(width, 1e-6), counts.shape)
    below, above = least_beyond(z, lambda t: score(-_sides(t) * t, counts + _sides(t) * t), np.stack([width, width]))
    return np.where(n > 0, counts - below, counts), np.where(n > 0, counts + above, counts)


def _sides(t: F64) -> F64:
    """-1 and 1, of distances below and above."""
    return np.array([-1.0, 1.0]).reshape(2, *[1] * (t.ndim - 1))


def least_beyond(z: Any, score: Callable[[F64], F64], width: F64, close: float = _CLOSE) -> F64:
    """The least distances from 0 whose score is at least ``z``, by the Illinois algorithm, vectorized.

    M. Dowell, P. Jarratt, "A Modified Regula Falsi Method for Computing the Root of an Equation", BIT 11, 1971.

    Args:
        z: above 0, one number or one of each.
        score: grows with the distance, from 0, elementwise; may be infinite.
        width: positive, where the search begins.
        close: of the distance, how near the found one is.
    """

    def excess(distance: F64) -> F64:
        return np.minimum(score(distance), 4 * z) - z  # (finite, so that the search goes on)

    far = width.astype(float)
    near, at_near = np.zeros_like(far), np.zeros_like(far) - z
    at_far = excess(far)
    while (short := at_far < 0).any():  # at the latest beyond n times a part's greatest error the score is infinite
        near, at_near, far = np.where(short, far, near), np.where(short, at_far, at_near), np.where(short, 2 * far, far)
        at_far = excess(far)
    last = np.zeros(far.shape, bool)
    for _ in range(100):
        open_ = (far - near > close * far) & (at_far > close * z)
        if not open_.any():
            break
        middle = near + (far - near) * at_near / (at_near - at_far)
        at_middle = excess(middle)
        beyond = at_middle >= 0
        # An end that stays for the second time weighs half as much.
        kept_near, kept_far = np.where(last, at_near / 2, at_near), np.where(last, at_far, at_far / 2)
        # What is found stays, so that it does not depend on what else is looked for.
        near, far = np.where(open_ & ~beyond, middle, near), np.where(open_ & beyond, middle, far)
        at_near = np.where(open_, np.where(beyond, kept_near, at_middle), at_near)
        at_far = np.where(open_, np.where(beyond, at_middle, kept_far), at_far)
        last = beyond
    return far
