"""One bit a number: Ding et al.'s 1BitMean, which is Duchi, Jordan and Wainwright's mechanism in one dimension.

B. Ding, J. Kulkarni, S. Yekhanin, "Collecting Telemetry Data Privately", NIPS 2017, section 3: for x in [0, m], with
e = e^epsilon,

    Pr[b = 1] = 1 / (e + 1) + (x / m) (e - 1) / (e + 1)        mean = (m / n) sum of (b (e + 1) - 1) / (e - 1)

J. C. Duchi, M. I. Jordan, M. J. Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", JASA 113(521),
2018: for t in [-1, 1] a report is +(e + 1) / (e - 1) with probability 1/2 + t (e - 1) / (2 (e + 1)), else the same with
a minus. With t = 2 x / m - 1 these are the same probability and, moved to [0, m], the same two values. The variance
of a report is ((e + 1) / (e - 1))^2 - t^2 on [-1, 1].

Here: the number is rounded to low or high at random without bias, and that bit is kept with p = e^eps / (e^eps + 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools, Codes
from ldp_core.estimates.base import z_score
from ldp_core.exact.probability import agreement, check_resolved, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.numbers.base import LANE_FIRST, Symbols, round_to_points
from ldp_core.noise.base import Noise, coins
from ldp_core.reports import Flag


@dataclass(frozen=True, init=False)
class OneBitMean(Symbols):
    """Report one bit, which is 1 with a probability that grows linearly with the number.

    Args:
        domain: an `Interval`, or a pair (low, high).
        epsilon: finite, > 0.

    Reports are Booleans. Of the mechanisms for means it has the least variance up to epsilon 0.61.

    Raises:
        DomainError, ParameterError: an interval or an epsilon that does not exist.

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
        check_resolved(self.keep, ONE // 2)

    @property
    @override
    def reports(self) -> Flag:
        """The bit."""
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
    def count_reports(self, reports: Bools, groups: I64, n_groups: int) -> I64:
        one = n_groups == 1
        ones = np.array([np.count_nonzero(reports)]) if one else np.bincount(groups[reports], minlength=n_groups)
        sizes = np.array([len(reports)]) if one else np.bincount(groups, minlength=n_groups)
        return np.stack([sizes - ones, ones], axis=1)

    @override
    def share_means(self, n: Any, counters: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """The interval is Wilson's for the share of ones (JASA 22(158), 1927), moved to the scale of x.

        Given different numbers the ones are not binomial but vary less, so that it is on the safe side.
        """
        mean, error, _, _ = super().share_means(n, counters, confidence)
        zero, one = self.values
        z2 = z_score(confidence) ** 2
        known = np.where(np.equal(n, 0), np.nan, n)
        share = counters[..., 1] / known
        middle = (share + z2 / (2 * known)) / (1 + z2 / known)
        half = np.sqrt(z2 * (share * (1 - share) / known + z2 / (4 * known**2))) / (1 + z2 / known)
        return mean, error, zero + (one - zero) * (middle - half), zero + (one - zero) * (middle + half)
