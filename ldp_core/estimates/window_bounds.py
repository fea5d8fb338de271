"""Bounds of cumulative shares seen through a window, for every population: no smoothness is assumed.

Let X(k) be the share of the first k of d buckets, X(k) = 0 for k <= 0 and 1 for k >= d. Where bucket v is reported as
one of the cells v to v + W - 1 with probability ``high`` each, and as any other with probability ``low``,

    r(y) = (Pr[cell y] - low) / (high - low) = X(y + 1) - X(y + 1 - W)

so that X(k) is a sum of r over the cells before k, at distances of W, and 1 - X(k) one over the cells from k on. Both
are estimated without bias from the reports' counts; the weighted mean of the two that varies least (weights by the
variances of the sums, given a reference) is X^(k), which a few reports in a few cells decide. X never falls, so that

    mean of X(k - h + 1), ..., X(k)  <=  X(k)  <=  mean of X(k), ..., X(k + h - 1)          1 <= h <= W

whatever the population is: the mean of as many X^ is the bound's unbiased estimate, and its error is that of a weighted
sum of multinomial counts. A wide window has less error and more slack; a reference says which is the best one on
average. It decides how wide an interval is, not whether it holds. Where a sum is of too few reports to be normal its
bound is that of any independent parts of this range (A. Maurer, M. Pontil, "Empirical Bernstein Bounds and Sample
Variance Penalization", COLT 2009, Theorem 4).

(One-sided bounds by shape alone: M. Kuusela, P. B. Stark, "Shape-constrained uncertainty quantification in unfolding
steeply falling elementary particle spectra", Annals of Applied Statistics 11(3), 2017.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from ldp_core.arrays.types import F64, I64


@dataclass(frozen=True, eq=False)
class WindowBounds:
    """What is known of the channel, the counts and a reference."""

    counts: I64
    """int64[M], of the cells; of one report at least."""
    reference: F64
    """float64[M], probability of each cell, of a population near the one that reported."""
    window: int
    """W, number of cells of a window; M = d + W - 1."""
    high: float
    low: float
    """Probability of each cell in the window, and of each other one."""
    z: float
    """How many standard errors a bound lies away."""

    def bound(self, begin: I64, end: I64, *, upper: bool) -> F64:
        """float64[k]: upper, or lower, bounds in [0, 1] of X(end) - X(begin), each for itself; ends are 0 to d."""
        n, side = int(self.counts.sum()), 1 if upper else -1
        observed = self.counts / n
        best, found = np.full(len(end), np.inf), np.full(len(end), float(upper))
        tail = -math.log(NormalDist().cdf(-self.z) / 2)
        for width in self._widths():
            weights, shift = self._mean(end, width, forward=upper)
            subtracted, from_shift = self._mean(begin, width, forward=not upper)
            weights = (weights - subtracted) / (self.high - self.low)
            shift -= from_shift + self.low * weights.sum(axis=1)
            squares = weights**2
            spread = squares @ self.reference
            normal = n * spread**2 >= _REPORTS * (squares**2 @ self.reference)
            far = np.where(normal, self.z / math.sqrt(n), math.sqrt(2 * tail / max(n - 1, 1)))
            rest = np.where(normal, 0, 7 * tail * np.ptp(weights, axis=1) / (3 * max(n - 1, 1)))
            expected = side * (weights @ self.reference + shift) + far * np.sqrt(spread) + rest
            take = expected < best
            mean = weights @ observed
            variance = np.maximum(squares @ observed - mean**2, self.low * squares.sum(axis=1))
            bound = mean + shift + side * (far * np.sqrt(variance) + rest)
            best[take], found[take] = expected[take], bound[take]
        return np.clip(found, 0, 1)

    def _widths(self) -> list[int]:
        """Widths of windows to choose from, each about half as wide again as the one before."""
        widths = [self.window]
        while widths[-1] > 1:
            widths.append(widths[-1] * 2 // 3)
        return widths

    def _mean(self, k: I64, width: int, *, forward: bool) -> tuple[F64, F64]:
        """(float64[k, M], float64[k]): what to weigh r with, and to add, for the mean of X^ from k on, or up to k.

        Of the cells at distances of W from each other at most one is k's in a window: a mean of different sums.
        """
        cells, d = len(self.counts), len(self.counts) - self.window + 1
        first = k[:, None] - (0 if forward else width - 1)
        at = (np.arange(cells) - first + 1) % self.window
        places = first + at
        left = self._left[np.clip(places, 0, d)]
        asked = (at < width) & (places > 0) & (places < d) & ((k > 0) & (k < d))[:, None]
        weights = np.where(asked, (left - (np.arange(cells) >= places)) / width, 0.0)
        window = np.clip(first + np.arange(width), 0, d)
        shift = np.where(k <= 0, 0.0, np.where(k >= d, 1.0, 1 - self._left[window].mean(axis=1)))
        return weights, shift

    @cached_property
    def _left(self) -> F64:
        """float64[d + 1]: the weight of the sum of cells before k, in X^(k); 1 at 0, where X is known, and 0 at d."""
        cells = len(self.reference)
        rows = np.zeros((-(-cells // self.window), self.window))
        rows.reshape(-1)[:cells] = self.reference
        sums = np.cumsum(rows, axis=0)
        right = 1 - (sums / sums[-1]).reshape(-1)[: cells - self.window]
        return np.concatenate(([1.0], right, [0.0]))


_REPORTS = 20
"""As many reports of equal weight have as normal a sum as a window's must be."""
