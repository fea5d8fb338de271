"""Numbers: mechanisms whose reports have an affine, exactly unbiased value, so that a mean is an average.

An `Interval` makes a number a code, an integer x of 0 to 2^24. A mechanism has K points, equidistant from low to high.
A code lies between two of them and becomes one at random, such that its expectation is the code,

    point = floor((x (K - 1) + U) / 2^24)      U uniform over the integers below 2^24,

and the point is reported through a channel Pr[report | point] of exact rational probabilities. A code's row of the
channel is a mixture of those of two points, which no ratio of probabilities gains by: epsilon is that of the K rows. If
value(report) has the expectation k / (K - 1) for every point k, it has x / 2^24 for every code x, exactly. Then

    mean = average of the values                  standard error^2 = their sample variance / n

The interval is a score interval where few reports carry that variance (`ldp_core.estimates.mean.far_numbers`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Population, z_score
from ldp_core.estimates.mean import FEW_NUMBERS, Mean, MeanEstimate, far_numbers, off_of, score_interval
from ldp_core.estimates.plausibility import Sums, Term
from ldp_core.estimates.tails import reach_of_few
from ldp_core.estimates.weights import one_by_one
from ldp_core.inputs.interval import STEPS, Interval
from ldp_core.mechanism import ExpectedError, Mechanism
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_epsilon, check_integer, check_open, converted, parameter, shown
from ldp_core.poisoning import Influence, check_fake
from ldp_core.randomizer.tallying import NumberedCounters
from ldp_core.reports import Native, Number, Symbol
from ldp_core.simulated_counts import Generator, by_code, multinomials
from ldp_core.tally import Tally

LANE_ROUND, LANE_FIRST = 15, 14
"""Lanes of noise from the top: those from 0 are a frequency oracle's. Keyed noise draws a pair in one block."""


class Numeric(Mechanism):
    """A mechanism for numbers, of which means can be estimated without bias.

    All variances and errors are per report of a number that is known: they are the noise's. On shares, the scale on
    which low is 0 and high is 1, unless a docstring says that they are in the numbers' own unit.
    """

    chunk: ClassVar[int] = 1 << 15  # codes, noise and reports stay in the L2 cache

    domain: Interval

    # ---- what a subclass supplies

    @property
    @abstractmethod
    def points(self) -> int:
        """``k``, the number of points to which codes are rounded, at least 2."""

    @abstractmethod
    def point_variances(self) -> F64:
        """float64[K]: the variance of a report's value where the number is a point."""

    @abstractmethod
    def share_means(self, n: Any, counters: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """`means`, but of shares."""

    @abstractmethod
    def value_bounds(self) -> tuple[float, float]:
        """The least and the greatest value of a report, as shares."""

    # ---- what follows from it

    @property
    def step(self) -> float:
        """What is between the two values of nearly all reports, as a share; 0 where sums of few are normal."""
        square = (step := float(np.ptp(self.value_bounds()))) ** 2
        return step if 8 * self.most_noise > square else 0.0

    @property
    def rounds_at_random(self) -> bool:
        """Whether a number between points is right on average; else it counts for the middle of its bucket."""
        return True

    @property
    def blur(self) -> float:
        """By how much, as a share, the expectation of a report may be off the number."""
        return 0.0

    @property
    def slope(self) -> float:
        """By how much more, in shares, the variance of a report is estimated if a mean is; 0 where that is little."""
        return 0.0

    @override
    def influence(self) -> Influence:
        """The most by which a report's value differs from a number of the interval, in the numbers' own unit.

        So much, at most, does a report move the estimated sum in place of an honest one; and over n + 1 the mean.
        """
        low, high = self.value_bounds()
        length = self.domain.high - self.domain.low
        most = max(high, 1 - low) * length
        return Influence(most, most)

    @override
    def worst_gain(self, *, fake: int, targets: int = 1) -> float:
        """Of the estimated sum, in the numbers' own unit; ``targets`` must be 1."""
        check_integer("targets", targets, 1, 1)
        return check_fake(fake) * self.influence().one

    def place(self, point: int) -> Fraction:
        """Where a point is, as a share."""
        return Fraction(point, self.points - 1)

    @cached_property
    def places(self) -> F64:
        """float64[K]: where the points are."""
        return np.array([self.place(point) for point in range(self.points)], float)

    def mean(self, tally: Tally, *, confidence: float = 0.95, population: Population = None) -> Mean:
        """Estimate the mean of the numbers, in their own unit: see `MeanEstimate`.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
        """
        return MeanEstimate(confidence, population).result(self, tally)

    def means(self, n: I64, counters: I64, *, confidence: float = 0.95) -> tuple[F64, F64, F64, F64]:
        """Estimated means, their standard errors, and the low and high ends of their intervals, of many tallies.

        Args:
            n, counters: of the tallies, int64[...] and int64[..., counters].
            confidence: see `mean`.

        Returns:
            Four arrays float64[...], in the numbers' own unit; nan where n is 0.
        """
        mean, error, low, high = self.share_means(n, counters, check_open("confidence", confidence))
        decode = self.domain.decode
        return decode(mean), error * (self.domain.high - self.domain.low), decode(low), decode(high)

    def far(self, n: Any, means: F64, errors: F64) -> tuple[F64, F64]:
        """`far_numbers` of estimated means and their standard errors, and the `slope`, in the numbers' own unit."""
        below, above = far_numbers(n, means, errors, self.domain.low, self.domain.high)
        slope = self.slope * (self.domain.high - self.domain.low)
        return below + max(-slope, 0), above + max(slope, 0)

    @override
    def code_of(self, value: None) -> int:
        if value is not None:
            raise ParameterError(f"a report of numbers has one weight, its own value: leave out {shown(value)}")
        return 0

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        return self.domain.decode(self.report_shares(reports))

    def report_shares(self, reports: Native) -> F64:
        """float64[n]: the value of each report, as a share."""
        return one_by_one(self, reports, lambda counters: self.share_means(_ONE, counters, 0.95)[0])

    def answers(self, n: I64, counters: I64) -> tuple[Any, I64, I64]:
        """As of `FrequencyOracle`."""
        return self, n, counters

    @property
    def tells_squares(self) -> bool:
        """Whether `moments` can be estimated: not where second moments are no polynomial, or the points too few."""
        return self.points >= _POINTS

    def moments(self, reports: Any, *, about: float = 0.0, column: str = "reports") -> tuple[F64, F64]:
        """float64[n] twice: unbiased weights of each number less ``about``, and of the square of that.

        In their own unit, and in that squared; see `ldp_core.estimates.moments`.

        Raises:
            ParameterError: reports do not tell squares: one-bit means, and those that round to fewer than 64 points.
            ReportError: nulls, or not reports of this mechanism's shape.

        >>> from ldp_core import Piecewise
        >>> m = Piecewise((0, 10), epsilon=50.0)
        >>> print(m.moments(m.perturb(np.full(1000, 5.0)))[1].mean().round(1))
        25.0
        """
        self.code_of(None)  # what has no weights has no squares
        if not self.tells_squares:
            raise ParameterError(
                f"reports of {self.name} do not tell the squares of numbers, at this epsilon or of so few points: take "
                "Piecewise"
            )
        c, b, a, _ = self._squares
        share = self.report_shares(self._checked(reports, column))
        square = (share**2 - a - b * share) / c - 1 / (6 * (self.points - 1) ** 2)
        low, length = self.domain.low - about, self.domain.high - self.domain.low
        return low + length * share, low**2 + 2 * low * length * share + length**2 * square

    def variance(self, n: float, number: float | None = None) -> float:
        """Variance of an estimated mean, in the numbers' own unit squared, if all n numbers are ``number``.

        It is the noise's alone. None: the worst number's.

        Raises:
            ParameterError: n is below 1, or the number is not in the interval.
        """
        if not n >= 1:
            raise ParameterError(f"n must be at least 1, got {shown(n)}")
        if number is not None and not self.domain.low <= number <= self.domain.high:
            raise ParameterError(f"number must be in {self.domain.summary}")
        length = self.domain.high - self.domain.low
        noise = self.most_noise if number is None else float(self.noise((number - self.domain.low) / length))
        return noise * length * length / n  # (inf, not an error, where floats end)

    def noise(self, shares: Any) -> F64:
        """The variance of a report's value, of one number each: second moments are linear between points."""
        inside = np.clip(shares, self.places[0], self.places[-1])
        return np.interp(inside, self.places, self.point_variances() + self.places**2) - inside**2

    def noise_among(self, mean: F64, variance: F64) -> F64:
        """The noise in such a variance of reports of numbers with such a mean, as shares; at most, if it is not told.

        (A report's square is about c x^2 + b x + a on average: c times the spread of x is what the variance exceeds.)
        """
        if not self.tells_squares:
            return np.full(np.shape(variance), self.most_noise)
        c, b, a, off = self._squares
        spread = (variance + mean**2 - (c * mean + b) * mean - a - off) / c
        return np.minimum(variance - np.maximum(spread, 0), self.most_noise)

    @cached_property
    def _squares(self) -> tuple[float, ...]:
        """c, b and a; and by how much more it is at most, also where points are drawn."""
        squares = self.point_variances() + self.places**2
        made = np.polyfit(self.places, squares, 2)
        off = (squares - np.polyval(made, self.places)).max() + max(made[0], 0) * (np.diff(self.places).max() / 2) ** 2
        return *made.tolist(), float(off)

    @cached_property
    def most_noise(self) -> float:
        """The greatest variance of a report's value: at points, or between them, where second moments are linear."""
        at = self.places
        moments = self.point_variances() + at**2
        slopes = np.diff(moments) / np.diff(at)
        inside = np.clip(slopes / 2, at[:-1], at[1:])  # where the derivative of (linear - share^2) vanishes
        return float(np.max(moments[:-1] + slopes * (inside - at[:-1]) - inside**2))

    @override
    def explain(self, n: int) -> ExpectedError:
        """The standard error of the mean in the worst case, in the numbers' own unit and as a share of the interval."""
        if n < 1:
            return ExpectedError(math.inf, "mean", math.inf)
        share = math.sqrt(self.most_noise / n)
        advice = None
        if share > _COARSE:
            enough = math.ceil(self.most_noise / _COARSE**2)
            advice = (
                f"the error of a mean exceeds {_COARSE:.0%} of the interval: take more than {enough:,} reports, "
                "a larger epsilon, or a narrower interval"
            )
        return ExpectedError(share * (self.domain.high - self.domain.low), "mean", share, advice, off_of(self))


@dataclass(frozen=True, init=False)
class Symbols(NumberedCounters, Numeric):
    """A numeric mechanism whose report is one of M symbols, 0 to M - 1; a tally counts how often each was reported."""

    domain: Interval = converted(Interval.of)
    epsilon: float = parameter(check_epsilon)

    def __init__(self, domain: Interval | tuple[float, float], *, epsilon: float) -> None:
        self._declare(domain=domain, epsilon=epsilon)
        self.check_resolution()

    @abstractmethod
    def check_resolution(self) -> None:
        """Raise `ParameterError` if epsilon is below what 64-bit probabilities resolve."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """M."""

    @abstractmethod
    def channel(self, point: int) -> list[Fraction]:
        """The exact probability of each symbol, M of them, where the number is a point."""

    @abstractmethod
    def symbol_values(self) -> list[Fraction]:
        """The value of each symbol, such that its expectation is a point's `place`, exactly."""

    def probabilities(self, code: int) -> list[Fraction]:
        """The exact probability of each symbol for a code 0 to 2^24."""
        point, rest = divmod(code * (self.points - 1), STEPS)
        row = self.channel(point)
        if not rest:
            return row
        up = Fraction(rest, STEPS)
        return [a + up * (b - a) for a, b in zip(row, self.channel(point + 1), strict=True)]

    @cached_property
    def values(self) -> F64:
        """float64[M]: `symbol_values`."""
        return np.array(self.symbol_values(), float)

    @override
    def value_bounds(self) -> tuple[float, float]:
        return float(self.values.min()), float(self.values.max())

    def symbol_bounds(self) -> tuple[F64, F64]:
        """float64[M] each: the least and the greatest probability of each symbol, over all numbers."""
        rows = np.array([self.channel(point) for point in (0, self.points - 1)], float)
        return rows.min(axis=0), rows.max(axis=0)

    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        """How often each symbol was reported."""
        return (Sums(counters, n, self._symbol_term),)

    @cached_property
    def _symbol_term(self) -> Term:
        return Term(*self.symbol_bounds(), 0.0, 1.0)

    @property
    @override
    def reports(self) -> Number:
        return Symbol(self.symbols)

    @property
    @override
    def counters(self) -> int:
        return self.symbols

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        rounded = simulate_points(codes, people, self.points, generator)
        channel = np.array([self.channel(point) for point in range(self.points)], float)
        return multinomials(rounded, channel, generator).sum(axis=0)

    def means_and_errors(self, n: Any, counters: I64) -> tuple[F64, F64]:
        """Of shares. The sample variance is at least what it is on average if all are equal.

        (The second moment of a report is a convex function of the number.)
        """
        value = self.values
        known = np.where(np.equal(n, 0), np.nan, n)
        mean: F64 = (counters @ value) / known
        squares = (counters * (value - mean[..., None]) ** 2).sum(axis=-1)
        error: F64 = np.sqrt(sample_variance(squares, known, mean, Numeric.noise(self, mean), self.most_noise) / known)
        return mean, error

    @override
    def share_means(self, n: Any, counters: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """Score intervals, which reach farther where few coins decide; see `ldp_core.estimates.tails`."""
        (mean, error), z = self.means_and_errors(n, counters), z_score(confidence)
        ends, step = score_interval(n, mean, error, z), self.step / np.where(np.equal(n, 0), np.nan, n)
        return mean, error, *reach_of_few(ends, mean, n, z, step, (error**2, 0.0, 0.0), 1)


_ONE = np.array(1)  # report
_POINTS = 64
_BYTE = 256
_COARSE = 0.05  # share of the interval above which `explain` warns of the error


def sample_variance(squares: F64, n: Any, mean: F64, least: Any, most: Any) -> F64:
    """The variance of a report's value, as a share: from the sum of n squared differences from a mean; above ``least``.

    Of fewer than 20 reports, which may all be alike, it is above ``most``, the noise's, and the most that a population
    of such a mean has. There the mean is estimated with four numbers more, of which two are at each end (A. Agresti, B.
    Coull, The American Statistician 52(2), 1998).
    """
    inside = (n * np.clip(mean, 0, 1) + 2) / (n + 4)
    least = np.where(np.less(n, FEW_NUMBERS), most + inside * (1 - inside), least)
    return np.maximum(squares / np.maximum(n - 1, 1), least)


def round_to_points(codes: Codes, points: int, noise: Noise) -> Codes:
    """Points 0 to ``points - 1``, unsigned integers, one a code; their expectation is ``code (points - 1) / 2^24``.

    >>> from ldp_core import Keystream
    >>> round_to_points(np.array([0, STEPS], np.uint32), 11, Keystream()).tolist()
    [0, 10]
    """
    return raised(codes, points, noise.uniform_below(STEPS, len(codes), LANE_ROUND))


def simulate_points(codes: Codes, people: I64, points: int, generator: Generator) -> I64:
    """int64[points]: how many people's numbers `round_to_points` might make each point."""
    at, rest = np.divmod(codes.astype(np.int64) * (points - 1), STEPS)
    up = generator.binomial(people, rest / STEPS)
    return by_code(np.append(at, at + 1), np.append(people - up, up), points + 1)[:points]


def raised(codes: Codes, points: int, below: Codes) -> Codes:
    """Points from uniform integers ``below`` 2^24: the sum carries into the next point as often as it should."""
    word = np.uint32 if points <= _BYTE else np.uint64  # 2^24 * 255 + 2^24 - 1 is the greatest uint32
    out: Codes = codes.astype(word)
    out *= word(points - 1)
    out += below
    out >>= word(STEPS.bit_length() - 1)
    return out
