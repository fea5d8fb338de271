"""The hybrid mechanism: the piecewise mechanism or one bit, by a coin that does not depend on the number.

Wang et al., ICDE 2019 (see `Piecewise`), section III-C: with h = e^(eps / 2) and e = e^eps the coin is

    alpha = 1 - 1 / h  for  eps > eps* = 0.61,  else 0

and then the variance of a report is the same for every number, and never above that of either part:

    (h + 3) / (3 h (h - 1)) + (1 / h) ((e + 1) / (e - 1))^2   for eps > eps*,  else ((e + 1) / (e - 1))^2 - t^2

on [-1, 1]. Which part was used is part of the report: it does not depend on the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes, select
from ldp_core.errors import no_warning_of_epsilon
from ldp_core.exact.probability import exp_below, floor_threshold, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.interval import STEPS
from ldp_core.mechanisms.numbers.base import LANE_ROUND, Symbols, raised
from ldp_core.mechanisms.numbers.one_bit_mean import OneBitMean
from ldp_core.mechanisms.numbers.piecewise import Piecewise
from ldp_core.noise.base import Noise, coins
from ldp_core.simulated_counts import Generator

_TURN = 0.61098
"""Eps*, cut to five digits: ln((-5 + 2 (6353 - 405 sqrt(241))^(1/3) + 2 (6353 + 405 sqrt(241))^(1/3)) / 27)."""


@dataclass(frozen=True, init=False)
class Hybrid(Symbols):
    """Report by the piecewise mechanism with probability alpha, else one bit: the least worst variance of the three.

    Args:
        domain: an `Interval`, or a pair (low, high).
        epsilon: finite, > 0.

    Reports are ``uint8`` or ``uint16``: the cells of `Piecewise`, and after them the two bits of `OneBitMean`. Up to
    epsilon 0.61 there are the bits only.

    Raises:
        DomainError, ParameterError: an interval or an epsilon that does not exist.

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
        """``m + 2``, where m is the number of the piecewise mechanism's cells."""
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
        """Each part's own."""
        parts = [(1 - self.alpha, self.one_bit.symbol_bounds())]
        if self.piecewise is not None:
            parts.insert(0, (self.alpha, self.piecewise.symbol_bounds()))
        low, high = (np.concatenate([share * bounds[end] for share, bounds in parts]) for end in (0, 1))
        return low, high

    @override
    def symbol_values(self) -> list[Fraction]:
        """Each part's own."""
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
        """The greater one of the parts'."""
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
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """Each part's own, of the people whose coin chose it."""
        if self.piecewise is None:
            return self.one_bit.simulate_counters(codes, people, generator)
        first = generator.binomial(people, self.alpha)
        cells = self.piecewise.simulate_counters(codes, first, generator)
        return np.concatenate((cells, self.one_bit.simulate_counters(codes, people - first, generator)))


_FLIP, _COIN = 10, 11  # lanes of noise, besides those of `Piecewise`
