"""The piecewise mechanism: a uniform cell of a window around the number, or, with some probability, of all cells.

N. Wang, X. Xiao, Y. Yang, J. Zhao, S. C. Hui, H. Shin, J. Shin, G. Yu, "Collecting and Analyzing Multidimensional Data
with Local Differential Privacy", ICDE 2019, Algorithm 2. On [-1, 1] a report lies in [-C, C]; with h = e^(eps / 2)

    C = (h + 1) / (h - 1)        window of length C - 1        density ratio e^eps
    variance of a report of t = t^2 / (h - 1) + (h + 3) / (3 (h - 1)^2)        worst, at t = +-1: 4 h / (3 (h - 1)^2)

Here the scale of reports is cut into M cells and the window is W of them, W / M being the paper's 1 / (h + 1) to within
1 / (2 M). Its first cell, 0 to M - W, is the number's, rounded without bias, so that a report is unbiased, exactly.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes, select
from ldp_core.exact.probability import check_resolved, exp_below, floor_threshold, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.numbers.base import LANE_FIRST, Symbols, round_to_points, simulate_points
from ldp_core.noise.base import Noise, coins
from ldp_core.simulated_counts import Generator, multinomials, spread


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
        """M."""
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
        check_resolved(self.keep, 0)

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
        variances: F64 = low * squares[-1] + (high - low) * window - self.places**2
        return variances

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
        """How many reports are uniform over each window, and over all cells."""
        m, w = self.cells
        begun = self.simulate_beginnings(codes, people, generator)
        kept = generator.binomial(begun, self.keep / ONE)
        counters = multinomials((begun - kept).sum(), m, generator).copy()
        spread(kept, w, np.add, counters, generator)
        return counters


_INSIDE, _ANYWHERE = 12, 13  # lanes of noise; the pair shares a block of keyed noise


@dataclass(frozen=True, init=False)
class Piecewise(Window):
    """Report a cell near the number, more likely than one far from it.

    Args:
        domain: an `Interval`, or a pair (low, high).
        epsilon: finite, > 0.

    Reports are ``uint8`` below 254, or from epsilon 5.4 ``uint16`` below 1024. From epsilon 1.3 the worst variance is
    less than that of `OneBitMean`; `Hybrid` has a smaller one still.

    Raises:
        DomainError, ParameterError: an interval or an epsilon that does not exist.

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
