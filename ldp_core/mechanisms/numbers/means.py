"""Means of numbers: one bit; a cell of a window around the number; by a coin either of the two; one of N outputs.

One bit a number: Ding et al.'s 1BitMean, which is Duchi, Jordan and Wainwright's mechanism in one dimension.

B. Ding, J. Kulkarni, S. Yekhanin, "Collecting Telemetry Data Privately", NIPS 2017, section 3: for x in [0, m], with
e = e^epsilon,

    Pr[b = 1] = 1 / (e + 1) + (x / m) (e - 1) / (e + 1)        mean = (m / n) sum of (b (e + 1) - 1) / (e - 1)

J. C. Duchi, M. I. Jordan, M. J. Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA 113(521),
2018: for t in [-1, 1] a report is +(e + 1) / (e - 1) with probability 1/2 + t (e - 1) / (2 (e + 1)), else the same with
a minus. With t = 2 x / m - 1 these are the same probability and, moved to [0, m], the same two values. The variance
of a report is ((e + 1) / (e - 1))^2 - t^2 on [-1, 1].

Here: the number is rounded to low or high at random without bias, and that bit is kept with p = e^eps / (e^eps + 1).

The piecewise mechanism: a uniform cell of a window around the number, or, with some probability, of all cells.

N. Wang, X. Xiao, Y. Yang, J. Zhao, S. C. Hui, H. Shin, J. Shin, G. Yu, "Collecting and Analyzing Multidimensional Data
with Local Differential Privacy", ICDE 2019, Algorithm 2. On [-1, 1] a report lies in [-C, C]; with h = e^(eps / 2)

    C = (h + 1) / (h - 1)        window of length C - 1        density ratio e^eps
    variance of a report of t = t^2 / (h - 1) + (h + 3) / (3 (h - 1)^2)        worst, at t = +-1: 4 h / (3 (h - 1)^2)

Here the scale of reports is cut into M cells and the window is W of them, W / M being the paper's 1 / (h + 1) to within
1 / (2 M). Its first cell, 0 to M - W, is the number's, rounded without bias, so that a report is unbiased, exactly.

The hybrid mechanism: the piecewise mechanism or one bit, by a coin that does not depend on the number.

Wang et al., ICDE 2019 (see `Piecewise`), section III-C: with h = e^(eps / 2) and e = e^eps the coin is

    alpha = 1 - 1 / h  for  eps > eps* = 0.61,  else 0

and then the variance of a report is the same for every number, and never above that of either part:

    (h + 3) / (3 h (h - 1)) + (1 / h) ((e + 1) / (e - 1))^2   for eps > eps*,  else ((e + 1) / (e - 1))^2 - t^2

on [-1, 1]. Which part was used is part of the report: it does not depend on the number.

N outputs: the cells of a window again, but with the values that have the least worst variance.

I. Baek, Y. D. Chung, "N-output Mechanism: Estimating Statistical Information from Numerical Data under Local
Differential Privacy", arXiv:2510.11116, 2025: outputs of which each has a probability that is piecewise linear in the
number, and values found by optimization. Here the pieces are equally long and the outputs equally probable at least, as
in `Window`, and that has a closed form. Let there be N = a W cells, e = e^eps, and g = (e - 1) / (a + e - 1), which is
the threshold `keep`. Values are unbiased if and only if cell i W + r has, on [-1, 1],

    v = (i - (a - 1) / 2) c + d(r)        c = 2 / (g (a - 1))        d(0) + ... + d(W - 1) = 0

With s = r / W and many cells, the variance of a report of x, where the window begins at the s-th part of the i-th cell
of a, and z = x / g, is

    c^2 a (a^2 - 1) / (12 (a + e - 1)) + integral of d^2 + g (1 - g) z^2 + g (s (1 - s) c^2 + 2 c integral to s of d)

It is least in the worst case if the last two terms do not rise on the way to the end of the outermost cell: if

    d(s) = g c sign(s - 1/2) max(|s - 1/2| - (1/2 - L), 0)        L = max(1 - a (a - 2) / (e - 1), 0) / 2

    n Var at worst = a (a + 1) (a + e - 1) / (3 (a - 1) (e - 1)^2) + a / (e - 1) + 8 L^3 / (3 (a - 1)^2)

of which `NOutput` takes the best a. With d = 0 this is stochastic rounding to a points with randomized response: then
the last term is 4 L^2 / (a - 1)^2, which is never less.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools, Codes, select
from ldp_core.errors import no_warning_of_epsilon
from ldp_core.estimates.base import z_score
from ldp_core.estimates.histogram import Side
from ldp_core.exact.probability import agreement, check_resolved, exp_below, floor_threshold, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.interval import STEPS
from ldp_core.mechanisms.numbers.base import LANE_FIRST, LANE_ROUND, Symbols, raised, round_to_points, simulate_points
from ldp_core.noise.base import Noise, coins
from ldp_core.reports import Flag
from ldp_core.simulated_counts import Generator, multinomials, scatter


@dataclass(frozen=True, init=False)
class OneBitMean(Symbols):
    """Report one bit, which is 1 with a probability that grows linearly with the number.

    Reports are Booleans. Up to epsilon 0.61 its worst variance is that of `Hybrid`; that of `NOutput` is less.

    >>> m = OneBitMean((0, 10), epsilon=1.0)
    >>> m.mean(m.tally(m.perturb([2.5] * 1000 + [7.5] * 1000))).n
    2000
    >>> round(m.variance(1, 5.0) / 25, 5)  # on [-1, 1]: ((e + 1) / (e - 1))^2
    4.68269
    """

    name: ClassVar[str] = "one_bit_mean"

    points: ClassVar[int] = 2
    symbols: ClassVar[int] = 2

    @override
    def check_resolution(self) -> None:
        check_resolved(self.epsilon, lambda: (self.keep, ONE // 2))

    @property
    @override
    def reports(self) -> Flag:
        return Flag()

    @cached_property
    def keep(self) -> int:
        """Pr[the rounded bit is reported as it is] as an integer over 2^64, rounded down."""
        return agreement(self.epsilon)

    @override
    def channel(self, point: int) -> list[Fraction]:
        p = fraction(self.keep)
        return [1 - p, p] if point else [p, 1 - p]

    @override
    def symbol_values(self) -> list[Fraction]:
        """(b - (1 - p)) / (2 p - 1)."""
        p = fraction(self.keep)
        return [(p - 1) / (2 * p - 1), p / (2 * p - 1)]

    @override
    def point_variances(self) -> F64:
        p = fraction(self.keep)
        return np.full(2, float(p * (1 - p) / (2 * p - 1) ** 2))

    @override
    def worst_ratio(self) -> Fraction:
        p = fraction(self.keep)
        return p / (1 - p)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Bools:
        n = len(codes)
        flips = coins(noise, ONE - self.keep, n, LANE_FIRST)
        flips ^= round_to_points(codes, 2, noise).astype(np.uint8)
        return flips.view(bool)

    @override
    def compiled(self) -> dict[str, Any]:
        return {"draw": "one_bit", "flip": str(ONE - self.keep)}

    @override
    def count_reports(self, reports: Bools, groups: I64, n_groups: int) -> I64:
        one = n_groups == 1
        ones = np.array([np.count_nonzero(reports)]) if one else np.bincount(groups[reports], minlength=n_groups)
        sizes = np.array([len(reports)]) if one else np.bincount(groups, minlength=n_groups)
        return np.stack([sizes - ones, ones], axis=1)

    @override
    def share_means(self, n: Any, counters: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """The interval is that of the share of many people who have the rounded bit, by randomized response.

        Given different numbers the ones are not binomial but vary less, so that it is on the safe side.
        """
        mean, error = self.means_and_errors(n, counters)
        zero, one = self.values
        bits = Side(np.asarray(n, float), mean, -zero * one, sampled=1.0, step=one - zero)
        return mean, error, *bits.ends(z_score(confidence))


class Window(Symbols):
    """A mechanism whose point k has W cells, k to k + W - 1 of M, with probability ph each, and the others with pl.

    With probability ``keep`` the report is uniform over the window, else over all cells: pl = (1 - keep) / M,
    ph = pl + keep / W. The expected cell is then linear in k, with slope ``keep``: an affine value is unbiased.
    """

    @property
    @abstractmethod
    def cells(self) -> tuple[int, int]:
        """(M, W)."""

    @property
    @override
    def symbols(self) -> int:
        return self.cells[0]

    @property
    @override
    def points(self) -> int:
        """``m - w + 1``: where the window can begin."""
        m, w = self.cells
        return m - w + 1

    @cached_property
    def keep(self) -> int:
        """Integer threshold of drawing from the window, the largest with ph / pl <= e^eps.

        (ph / pl = 1 + keep M / ((1 - keep) W).)
        """
        m, w = self.cells
        gain = (exp_below(self.epsilon) - 1) * w
        return floor_threshold(gain / (gain + m))

    @override
    def check_resolution(self) -> None:
        check_resolved(self.epsilon, lambda: (self.keep, 0))

    @cached_property
    def cell_probabilities(self) -> tuple[Fraction, Fraction]:
        """Exact (ph, pl)."""
        m, w = self.cells
        keep = fraction(self.keep)
        return keep / w + (1 - keep) / m, (1 - keep) / m

    @override
    def channel(self, point: int) -> list[Fraction]:
        m, w = self.cells
        high, low = self.cell_probabilities
        return [low] * point + [high] * w + [low] * (m - w - point)

    @override
    def symbol_bounds(self) -> tuple[F64, F64]:
        high, low = (float(p) for p in self.cell_probabilities)
        return np.full(self.symbols, low), np.full(self.symbols, high)

    @override
    def symbol_values(self) -> list[Fraction]:
        """E[cell | k] = keep (k + (W - 1) / 2) + (1 - keep) (M - 1) / 2, solved for k."""
        m, w = self.cells
        keep = fraction(self.keep)
        first = Fraction(w - 1, 2) + (1 - keep) / keep * Fraction(m - 1, 2)
        start, step = self.place(0), self.place(1) - self.place(0)
        return [start + step * (cell / keep - first) for cell in range(m)]

    @override
    def point_variances(self) -> F64:
        high, low = (float(p) for p in self.cell_probabilities)
        squares = np.concatenate(([0.0], np.cumsum(self.values**2)))
        window = squares[self.cells[1] :] - squares[: self.points]
        return low * squares[-1] + (high - low) * window - self.places**2

    @override
    def worst_ratio(self) -> Fraction:
        """The first cell under the first point and the last; mixtures of rows have no greater one."""
        high, low = self.cell_probabilities
        return high / low

    def begin(self, codes: Codes, noise: Noise) -> Codes:
        """The first cell of each code's window."""
        return round_to_points(codes, self.points, noise)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Codes:
        return self.cells_of(self.begin(codes, noise), noise)

    @override
    def compiled(self) -> dict[str, Any]:
        m, w = self.cells
        return {"draw": "window", "keep": str(self.keep), "cells": m, "window": w}

    def cells_of(self, first: Codes, noise: Noise) -> Codes:
        """Reports of windows that begin at ``first``."""
        n, dtype = len(first), self.reports.dtype
        m, w = self.cells
        keep = coins(noise, self.keep, n, LANE_FIRST)
        inside: Codes = first.astype(dtype)
        inside += noise.uniform_below(w, n, _INSIDE).astype(dtype, copy=False)
        return select(keep, inside, noise.uniform_below(m, n, _ANYWHERE))

    def simulate_beginnings(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """int64[points]: how many people's windows might begin at each cell; see `begin`."""
        return simulate_points(codes, people, self.points, generator)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        m, w = self.cells
        begun = self.simulate_beginnings(codes, people, generator)
        kept = generator.binomial(begun, self.keep / ONE)
        counters = multinomials((begun - kept).sum(), m, generator).copy()
        scatter(kept, w, np.add, counters, generator)
        return counters


_INSIDE, _ANYWHERE = 12, 13  # lanes of noise; the pair shares a block of keyed noise


@dataclass(frozen=True, init=False)
class Piecewise(Window):
    """Report a cell near the number, more likely than one far from it.

    Reports are ``uint8`` below 254, or from epsilon 5.4 ``uint16`` below 1024. From epsilon 1.3 the worst variance is
    less than that of `OneBitMean`; `Hybrid` has a smaller one still.

    >>> m = Piecewise((-1, 1), epsilon=2.0)
    >>> m.cells, m.perturb([0.0, 0.5]).dtype
    ((253, 68), dtype('uint8'))
    >>> round(m.variance(1, 0.0), 4), round(m.variance(1), 4)  # the paper's, of a continuum of cells: 0.6456, 1.2276
    (0.6457, 1.228)
    """

    name: ClassVar[str] = "piecewise"

    @cached_property
    @override
    def cells(self) -> tuple[int, int]:
        """(M, W): as many as a byte holds besides two more symbols (`Hybrid`'s), if the window is wide enough."""
        parts = exp_below(Fraction(self.epsilon) / 2) + 1
        most = _FEW if _WIDE * parts <= _FEW else _MANY
        w = max(int(most / parts), 1)
        return min(round(w * parts), most), w


_FEW, _MANY = 254, 1024  # cells
_WIDE = 16  # cells that a window should have


_TURN = 0.61098
"""Eps*, cut to five digits: ln((-5 + 2 (6353 - 405 sqrt(241))^(1/3) + 2 (6353 + 405 sqrt(241))^(1/3)) / 27)."""


@dataclass(frozen=True, init=False)
class Hybrid(Symbols):
    """Report by the piecewise mechanism with probability alpha, else one bit: the least worst variance of the three.

    Reports are ``uint8`` or ``uint16``: the cells of `Piecewise`, and after them the two bits of `OneBitMean`. Up to
    epsilon 0.61 there are the bits only.

    >>> m = Hybrid((-1, 1), epsilon=2.0)
    >>> m.symbols, round(m.variance(1), 4), round(m.variance(1, 0.0), 4)
    (255, 1.0427, 1.0424)
    """

    name: ClassVar[str] = "hybrid"

    @override
    def check_resolution(self) -> None:
        self.one_bit.check_resolution()

    @cached_property
    @no_warning_of_epsilon()
    def one_bit(self) -> OneBitMean:
        """The mechanism that is used with probability 1 - alpha."""
        return OneBitMean(self.domain, epsilon=self.epsilon)

    @cached_property
    @no_warning_of_epsilon()
    def piecewise(self) -> Piecewise | None:
        """The mechanism that is used with probability alpha; None where alpha is 0."""
        return Piecewise(self.domain, epsilon=self.epsilon) if self.epsilon > _TURN else None

    @cached_property
    def coin(self) -> int:
        """``alpha`` as an integer over 2^64, rounded; neither privacy nor bias depends on it."""
        return floor_threshold(1 - 1 / exp_below(Fraction(self.epsilon) / 2)) if self.piecewise else 0

    @property
    def alpha(self) -> float:
        """Pr[the piecewise mechanism is used]."""
        return float(fraction(self.coin))

    @property
    @override
    def symbols(self) -> int:
        return self._cells + 2

    @cached_property
    def _cells(self) -> int:
        return self.piecewise.symbols if self.piecewise else 0

    @property
    @override
    def points(self) -> int:
        """Those of the piecewise mechanism; the bit's probability is linear anyhow."""
        return self.piecewise.points if self.piecewise else 2

    @override
    def channel(self, point: int) -> list[Fraction]:
        alpha = fraction(self.coin)
        share = self.place(point)
        low, high = self.one_bit.channel(0), self.one_bit.channel(1)
        bits = [(1 - alpha) * (a + share * (b - a)) for a, b in zip(low, high, strict=True)]
        return [alpha * p for p in self.piecewise.channel(point)] + bits if self.piecewise else bits

    @override
    def symbol_bounds(self) -> tuple[F64, F64]:
        parts = [(1 - self.alpha, self.one_bit.symbol_bounds())]
        if self.piecewise is not None:
            parts.insert(0, (self.alpha, self.piecewise.symbol_bounds()))
        low, high = (np.concatenate([share * bounds[end] for share, bounds in parts]) for end in (0, 1))
        return low, high

    @override
    def symbol_values(self) -> list[Fraction]:
        return [*(self.piecewise.symbol_values() if self.piecewise else ()), *self.one_bit.symbol_values()]

    @override
    def point_variances(self) -> F64:
        """A mixture's second moments are the mixture of its parts'."""
        at = self.places
        zero, one = self.one_bit.point_variances() + np.array([0.0, 1.0])
        bit: F64 = zero + (one - zero) * at - at**2
        if self.piecewise is not None:
            bit = self.alpha * self.piecewise.point_variances() + (1 - self.alpha) * bit
        return bit

    @override
    def worst_ratio(self) -> Fraction:
        parts = [m.worst_ratio() for m in (self.piecewise, self.one_bit) if m]
        return max(parts)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Codes:
        """One draw rounds for both parts, of which only one is reported."""
        n, dtype = len(codes), self.reports.dtype
        below = noise.uniform_below(STEPS, n, LANE_ROUND)
        cells: Codes | None = None
        if self.piecewise is not None:  # (first: its lanes are the rounding's neighbors)
            cells = self.piecewise.cells_of(raised(codes, self.points, below), noise)
        bits: Codes = raised(codes, 2, below).astype(dtype)
        bits ^= coins(noise, ONE - self.one_bit.keep, n, _FLIP)
        if cells is None:
            return bits
        bits += dtype.type(self._cells)
        return select(coins(noise, self.coin, n, _COIN), cells, bits)

    @override
    def share_means(self, n: Any, counters: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        if self.piecewise is None:
            return self.one_bit.share_means(n, counters, confidence)
        return super().share_means(n, counters, confidence)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        if self.piecewise is None:
            return self.one_bit.simulate_counters(codes, people, generator)
        first = generator.binomial(people, self.alpha)
        cells = self.piecewise.simulate_counters(codes, first, generator)
        return np.concatenate((cells, self.one_bit.simulate_counters(codes, people - first, generator)))


_FLIP, _COIN = 10, 11  # lanes of noise, besides those of `Piecewise`


@dataclass(frozen=True, init=False)
class NOutput(Window):
    """Report one of N outputs, with values of the least worst variance: of these mechanisms the best one for a mean.

    Reports are ``uint8``. Up to epsilon 15 the worst variance, at the ends of the interval, is less than that of
    `Hybrid`.

    >>> m = NOutput((-1, 1), epsilon=2.0)
    >>> m.cells, m.perturb([0.0, 0.5]).dtype
    ((255, 85), dtype('uint8'))
    >>> round(m.variance(1), 4), round(m.variance(1, 0.0), 4)
    (0.942, 0.4725)
    """

    name: ClassVar[str] = "n_output"

    @cached_property
    @override
    def cells(self) -> tuple[int, int]:
        """(M, W): as many as a byte holds, M a multiple of W, which has the least worst variance."""
        gain = float(min(max(exp_below(self.epsilon) - 1, 1 / _FAR), _FAR))

        def worst(a: int) -> float:
            curved = max(1 - a * (a - 2) / gain, 0.0) / 2
            return a * (a + 1) * (a + gain) / (3 * (a - 1) * gain**2) + a / gain + 8 * curved**3 / (3 * (a - 1) ** 2)

        w = _OUTPUTS // min(range(2, _MOST_WINDOWS + 1), key=worst)
        return _OUTPUTS // w * w, w

    @property
    @override
    def tells_squares(self) -> bool:
        """For two windows side by side: of more the second moment is not quadratic in the number."""
        m, w = self.cells
        return m == 2 * w

    @override
    def symbol_values(self) -> list[Fraction]:
        """The docstring's v, as shares of the way from low to high."""
        m, w = self.cells
        a, keep = m // w, fraction(self.keep)
        step = 1 / (keep * (a - 1))
        flat = min((a - 2) * (1 - keep) / keep, Fraction(1)) / 2  # 1/2 - L
        within = []
        for r in range(w):
            at = Fraction(2 * r + 1, 2 * w) - Fraction(1, 2)
            within.append((at - min(max(at, -flat), flat)) / (a - 1))
        return [Fraction(1, 2) + (i - Fraction(a - 1, 2)) * step + d for i in range(a) for d in within]


_FAR = Fraction(10**100)  # no other W is best beyond: floats will do to choose it
_OUTPUTS = 256  # as many as a byte holds
_MOST_WINDOWS = 64  # side by side, so that each has several cells
