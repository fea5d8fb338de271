"""What crafted reports can do to estimates, and which reports an honest client hardly sends.

An estimate is a sum over reports, and a client can send any report that the format has. Epsilon does not help against
that: the smaller it is, the more one report weighs (A. Cheu, A. Smith, J. Ullman, "Manipulation Attacks in Local
Differential Privacy", IEEE S&P 2021). A report adds x[v] = (part[v] - q) / (p - q) to the estimated count of v, with
part[v] 1 if it supports v and 0 if not (other mechanisms have other parts). The *maximal gain attack* (X. Cao, J. Jia,
N. Gong, "Data Poisoning Attacks to Local Differential Privacy Protocols", USENIX Security 2021) takes the report
whose sum of x[v] over its targets is the largest; k fake reports gain k times as much.

What a mechanism must know is its extreme reports: the moves of all counts by those crafted reports that do most.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ldp_core.accounting.binomials import divergence, pmf
from ldp_core.arrays.types import F64, I64, Bools
from ldp_core.parameters import check_integer
from ldp_core.reports import Native

# ---- what crafted reports can do


@dataclass(frozen=True)
class Influence:
    """By how much one more report, whatever it says, moves estimates; an honest one adds 1 to its value on average.

    Attributes:
        one: the most that it moves one estimated count, up or down. Of numbers: see `Numeric.influence`.
        all: the most that it moves all estimated counts together: the sum of the absolute moves. Infinite for
            sketches and heavy hitters, where there are as many counts as somebody asks for.

    >>> from ldp_core import RandomizedResponse, UnaryEncoding
    >>> both = [kind(range(16), epsilon=1.0).influence() for kind in (UnaryEncoding, RandomizedResponse)]
    >>> [(round(influence.one, 1), round(influence.all, 1)) for influence in both]
    [(3.2, 50.6), (9.7, 18.5)]
    """

    one: float
    all: float


def influence_of(extremes: Iterable[F64]) -> Influence:
    """From the moves of all counts by each extreme report."""
    moves = [np.abs(row) for row in extremes]
    return Influence(max(float(row.max()) for row in moves), max(float(row.sum()) for row in moves))


def gain_of(extremes: Iterable[F64], fake: int, targets: int) -> float:
    """``fake`` times the largest sum of ``targets`` moves of one extreme report."""
    return check_fake(fake) * max(float(np.sort(row)[-targets:].sum()) for row in extremes)


def check_fake(fake: int) -> int:
    """Return a number of fake reports; raise `ParameterError` if it is none."""
    return check_integer("fake", fake, 0)


# ---- which reports honest clients hardly send


class CountsOnes(ABC):
    """A mechanism of which the number of ones in an honest report has a known distribution, or one of several.

    (Several, if before the noise some values have more ones than others.)
    """

    @abstractmethod
    def ones(self, reports: Native) -> I64:
        """The number of ones in each report."""

    @abstractmethod
    def ones_chances(self) -> F64:
        """The probability of each number of ones, from 0 on, in a row for each kind of value.

        The first row is that of the values with the fewest ones before the noise, the last one of those with the most.
        """

    def unlikely(self, reports: Native, false_alarm: float) -> Bools:
        """Which reports have so few or so many ones as an honest one has with that probability at most."""
        chances = self.ones_chances()
        few = np.cumsum(chances[0]) * _ROUNDED <= false_alarm / 2
        many = np.cumsum(chances[-1, ::-1])[::-1] * _ROUNDED <= false_alarm / 2
        return (few | many)[self.ones(reports)]

    def most_ones(self, false_alarm: float) -> tuple[int, float]:
        """The least number of ones, from 1 on, that an honest report exceeds with that probability at most.

        And with what probability it does, rounded up.
        """
        above = np.append(np.cumsum(self.ones_chances()[-1, :1:-1])[::-1], 0.0) * _ROUNDED  # from 1 on
        least = int(np.argmax(above <= false_alarm))
        return 1 + least, float(above[least])

    def unlikely_together(self, reports: Native, false_alarm: float) -> bool:
        """Whether some number of ones occurs in so many or so few reports as with that probability at most.

        How many of n honest reports have j ones is a sum of independent Booleans. With r their mean probability, a
        share of a or more (or, below r, of a or less) has a probability of at most exp(-n KL(a || r)) (W. Hoeffding,
        JASA 58(301), 1963, Theorem 1). Each number of ones and each side has an equal part of the false alarms.
        """
        if not len(reports):
            return False
        chances = self.ones_chances()
        share = np.bincount(self.ones(reports), minlength=chances.shape[1]) / len(reports)
        nearest = share.clip(chances.min(axis=0) / _ROUNDED, np.minimum(chances.max(axis=0) * _ROUNDED, 1))
        return bool(len(reports) * divergence(share, nearest).max() >= math.log(2 * len(share) / false_alarm))


_ROUNDED = 1 + 1e-6
"""Chances are floats: what is at the edge is not suspicious."""


def chances_of_ones(d: int, set_bits: Iterable[int], p: float, q: float) -> F64:
    """Float64[., d + 1]: of the number of ones of d bits, so many of which have probability p, the others q."""

    def chances(n: int, p: float) -> F64:
        p = min(p, 1 - 2.0**-53)  # of a p that is 1 as a float: a 0 is then taken for likelier than it is
        return pmf(np.arange(n + 1.0), np.array(float(n)), p, 1 - p)

    return np.stack([np.convolve(chances(k, p), chances(d - k, q)) for k in set_bits])
