"""Reports of one point of one of h blocks, among which the values are dealt out: one estimator for all such mechanisms.

Each block has b points, of which s support a given value of the block, and c two given ones. A point that supports the
true value has a probability e^eps times that of any other point, r, of whichever block. That is no pure protocol:
another value of the same block is supported with another probability than one of another block. But with C[v] the
number of reports that support v, and B[v] the number of reports in its block, the sum

    X[v] = C[v] - (c / s) B[v]

has the same expectation q = r (s - c b / s) for every report of another value, of whichever block, so that
(X[v] - n q) / (p - q) is unbiased, p being the expectation for a report of v. Its variance is larger for reports
of the same block; a tally counts them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from ldp_core.accounting.shuffling import Levels
from ldp_core.arrays.types import F64, I64, Bools
from ldp_core.estimates.consistency import Rates
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.oracles.cells import CountedCells
from ldp_core.parameters import check_open
from ldp_core.reports import Native


class Block(NamedTuple):
    """How many points a block has, how many of them support a value, and how many two given values."""

    points: int
    support: int
    intersection: int | Fraction


class _Chances(NamedTuple):
    """Of a report, given whose value is the true one."""

    supports: Fraction
    in_block: Fraction
    mean: Fraction  # of its part in X
    variance: Fraction


class BlockReports(CountedCells):
    """A mechanism whose reports are below h b: block * b + point.

    ``p`` and ``q`` are the *expected parts* in X of a report of the value and of another one. A tally has d + h
    counters: supporters of each value, then reports in each block.
    """

    blocks: int

    @property
    @abstractmethod
    def block(self) -> Block:
        """Of all blocks."""

    @property
    @abstractmethod
    def own(self) -> Fraction:
        """Pr[a report supports its own true value]."""

    @property
    @abstractmethod
    def block_of(self) -> I64:
        """int64[d]: of each value."""

    @abstractmethod
    def supported_of(self, values: int) -> tuple[int, int]:
        """The least and the greatest number of values that a report supports in a block with so many values."""

    @abstractmethod
    def supports(self, points: I64, code: int) -> Bools:
        """bool[m]: whether these points of its block support a value."""

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        cells, of = np.unique(reports.view(np.int64), return_inverse=True)
        block, points = np.divmod(cells, self.block.points)
        low, high = self.parts
        parts = np.where(self.supports(points, code), high, low)
        return self.weights_by(np.where(block == self.block_of[code], parts, 0.0), code)[of]

    @cached_property
    def _by_block(self) -> tuple[I64, I64, I64, I64, I64]:
        """Values in order of their blocks; of the blocks that have any: number, first place, and `supported_of`."""
        order = np.argsort(self.block_of, kind="stable")
        blocks, first, sizes = np.unique(self.block_of[order], return_index=True, return_counts=True)
        least, most = np.array([self.supported_of(size) for size in sizes.tolist()]).T
        return order, blocks, first, least, most

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Each report is in one block, where it supports values of this block only."""
        d = self.domain.size
        order, blocks, first, least, most = self._by_block
        supports, reports = counters[..., order], counters[..., d + blocks]
        sums, greatest = (add.reduceat(supports, first, axis=-1) for add in (np.add, np.maximum))
        inside = ((greatest <= reports) & (reports * least <= sums) & (sums <= reports * most)).all(axis=-1)
        inside &= np.add.reduce(counters[..., d:], axis=-1) == n
        return Mechanism.is_possible(self, n, counters) & inside

    @property
    @override
    def cells(self) -> int:
        return self.blocks * self.block.points

    @property
    def counters(self) -> int:
        """``d + h``."""
        return self.domain.size + self.blocks

    @cached_property
    def _less(self) -> Fraction:
        """``c / s``, what of the reports in a block is taken off."""
        return Fraction(self.block.intersection) / self.block.support

    @cached_property
    def _chances(self) -> tuple[_Chances, _Chances, _Chances]:
        """Given that the true value is v; that it is another one of v's block; one of another block."""
        b, s, c = self.block
        own, rest = self.own, (1 - self.own) / (self.cells - s)
        here = own + rest * (b - s)
        return (
            self._chances_of(own, here),
            self._chances_of(own * self._less + rest * (s - c), here),
            self._chances_of(rest * s, rest * b),
        )

    def _chances_of(self, supports: Fraction, in_block: Fraction) -> _Chances:
        low, high = -self._less, 1 - self._less
        mean = supports + low * in_block
        return _Chances(supports, in_block, mean, supports * high**2 + (in_block - supports) * low**2 - mean**2)

    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Exact (p, q) of each value: the expected part in X of a report if the value is true, if another one is."""
        d, (own, same, _) = self.domain.size, self._chances
        return [own.mean] * d, [same.mean] * d

    @property
    @override
    def crowded(self) -> float:
        sizes, (_, same, other) = np.bincount(self.block_of), self._chances
        worst = max(same.variance * int(sizes.max() > 1), other.variance * int(np.count_nonzero(sizes) > 1))
        return float(worst) / self.rates.difference**2 - float(self.rates.a[0])

    @cached_property
    @override
    def rates(self) -> Rates:
        """Of records spread evenly over the other values; see `debias` for those that are not."""
        d, (own, same, other) = self.domain.size, self._chances
        difference = float(own.mean - same.mean)
        variances = [float(x.variance) / difference**2 for x in (own, same, other)]
        near = (float(np.mean(np.bincount(self.block_of)[self.block_of])) - 1) / (d - 1)
        a = near * variances[1] + (1 - near) * variances[2]
        return Rates(np.full(d, self.q), np.full(d, a), np.full(d, variances[0] - variances[1]), difference)

    @property
    def parts(self) -> tuple[float, float]:
        """Of X: of a report in the block that does not support the value, of one that does."""
        return -float(self._less), 1 - float(self._less)

    @override
    def extremes(self) -> list[F64]:
        """Of blocks of each size, the reports that support the fewest and the most of its values."""
        low, high = self.parts
        out = []
        for size in np.unique(np.bincount(self.block_of)).tolist():
            for supported in self.supported_of(size):
                parts = np.zeros(self.domain.size)
                parts[:size] = low
                parts[:supported] = high
                out.append((parts - self.q) / self.rates.difference)
        return out

    @override
    def variance(self, n: float, count: Any = 0.0) -> Any:
        """The other records are spread evenly over the other values."""
        a = float(self.rates.a[0])
        return n * a + count * (float(self._chances[0].variance) / self.rates.difference**2 - a)

    @override
    def debiased(self, counters: I64) -> F64:
        d = self.domain.size
        return counters[..., :d] - counters[..., d:][..., self.block_of] * float(self._less)

    @override
    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """The variance of an estimate depends also on how many records have a value of the same block.

        That is estimated from the reports in the block.
        """
        check_open("confidence", confidence)
        counts = (self.debiased(counters) - n * self.q) / self.rates.difference
        a = self._at_none(n, counters[..., self.domain.size :][..., self.block_of])
        return self.with_intervals(counts, n, a, confidence=confidence, simultaneous=simultaneous)

    def _at_none(self, n: Any, in_block: I64) -> F64:
        """The variance of the estimated count of a value that nobody has, told from the reports in its block."""
        _, same, other = self._chances
        near = (in_block - n * float(other.in_block)) / float(same.in_block - other.in_block)
        near = np.clip(near + _MISSED, 0, n)
        a: F64 = (near * float(same.variance) + (n - near) * float(other.variance)) / self.rates.difference**2
        return a

    def told(self, supports: I64, inside: I64, n: int) -> tuple[F64, F64]:
        """Estimated shares, and the variances of one report at a share of 0, from such counts of one value's reports.

        Args:
            supports: of n reports, those that support it.
            inside: those in its block.
        """
        estimates = ((supports - float(self._less) * inside) / n - self.q) / self.rates.difference
        return estimates, self._at_none(n, inside) / n

    @property
    def most_disturbed(self) -> list[tuple[float, float]]:
        """Pr[in the block] and Pr[supports, if in the block] of a report of the value, and of one that disturbs most.

        That is one of another value of the block, if there is one.
        """
        own, same, other = self._chances
        both = own, (same if np.bincount(self.block_of).max() > 1 else other)
        return [(float(of.in_block), float(of.supports / of.in_block)) for of in both]

    @property
    @override
    def two_levels(self) -> Sequence[Levels]:
        """Of values in one block, and in two: a point is the likelier under a value that it supports.

        (A value that is none may have a third level.)
        """
        _, s, c = self.block
        more = self.own / s - (1 - self.own) / (self.cells - s)
        return (Levels((s - c) * more, self.own), Levels(s * more, self.own)) if self.exhaustive else ()

    @override
    def worst_ratio(self) -> Fraction:
        """A point has the probability of one of s, or that of one of the h b - s others."""
        s = self.block.support
        return self.own * (self.cells - s) / ((1 - self.own) * s)


_MISSED = 2.0  # people in a block, of whom few reports say nothing: half of z^2, as in the middle of a score interval
