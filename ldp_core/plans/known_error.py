"""What is known of the error of an estimate before any data exist, from closed forms.

Most of it follows from the two probabilities of a pure protocol (Wang, Blocki, Li, Jha, USENIX Security 2017): with
n reports, a value of true frequency f is estimated with variance (ibid., Theorem 2)

    variance = (f p (1 - p) + (1 - f) q (1 - q)) / (n (p - q)^2)        + f (1 - f) / n

the second term where f is the share of a population of which the n people are a random sample. The probability of a
larger error than a margin is bounded as `ldp_core.estimates.tails` bounds it, which is nearly normal for many people.
Of numbers the error is the mean's, in their own unit, see `Numeric.variance`; of heavy hitters it is
`HeavyHitters.reports_to_find`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ldp_core.accounting.binomials import normal_tail
from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Population, sampled_part
from ldp_core.estimates.mean import off_of
from ldp_core.estimates.tails import few_at, least_beyond, least_that, scores_of_few, two_point_score
from ldp_core.exact.probability import check_resolved
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters, chance_of_none
from ldp_core.mechanisms.numbers.base import Numeric
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.mechanisms.ranges.hierarchical import HierarchicalHistogram
from ldp_core.mechanisms.sketches.base import Sketch
from ldp_core.parameters import check_probability
from ldp_core.plans.answered import Margin

Shares: TypeAlias = tuple[float, float]
"""The least and the greatest share that the value may have that is asked about."""
ANY: Shares = (0.0, 1.0)


@runtime_checkable
class InBlocks(Protocol):
    """A mechanism whose values are in blocks, as `BlockHadamardResponse`: tests work with reports of a block, too."""

    @property
    def most_disturbed(self) -> list[tuple[float, float]]:
        """Of a report of the value, and of one that disturbs most: Pr[in its block], and Pr[supports it, if there]."""

    def told(self, supports: I64, inside: I64, n: int) -> tuple[F64, F64]:
        """Estimated shares, and the variances of one report at a share of 0, from such counts of n reports."""


class Error(NamedTuple):
    """What is known of the error of an estimate."""

    n_variance: Callable[[float], float]
    """n times its variance, of noise alone, from the true frequency."""
    together: int
    """How many estimates there are: d."""
    ends: tuple[float, float] | None = None
    """The least and the greatest that a report adds to an estimated count; None: its error is taken for normal."""
    finds: Callable[[float, float, float], bool] | None = None
    """Of heavy hitters, whether so many reports find a value of such a share, but for beta."""
    length: float = 0.0
    """Of the interval of numbers, of whose mean it is the error; 0 of a frequency."""
    step: float = 0.0
    """Half of what the values of two reports of numbers differ by at most: rare ones are so far off."""
    common: Callable[[float], float] | None = None
    """The part of the noise that all reports of a person share, from the true frequency; None: there is none."""
    tails: Callable[[F64, Any], F64] | None = None
    """Those of the noise, which are taken to be those of the error: `FrequencyOracle.tails`."""
    off: float = 0.0
    """By how much the expectation of a mean may be off, `off_of`."""
    collided: tuple[F64, F64] | None = None
    """Of a sketch, `Sketch.collided`: all people with other values are taken to have one, which is the worst."""
    crowded: float = 0.0
    """See `FrequencyOracle.crowded`."""
    pure: tuple[float, float] | None = None
    """p and q, if these say all."""
    blocks: InBlocks | None = None
    """The mechanism, if its values are in blocks."""
    slope: float = 0.0
    """Of the variance of a report, as a test has it, in the share."""
    apart: int = 1
    """How many reports of a person have noise of their own: each moves the person's mean so many times less."""

    @property
    def coin(self) -> float:
        """How much the estimated count may move by a report; 0 where it is taken for normal."""
        return 0.0 if self.ends is None else self.ends[1] - self.ends[0]

    def repeated(self, reports: int, *, keyed: bool = False) -> Error:
        """That of people who send so many reports each: the mean of a person's reports, of a value that stays.

        Under ``keyed`` noise of one round these are one report.
        """
        if self.finds and reports > 1:
            raise ParameterError("heavy hitters are found from one report of each person: leave out repeats")
        common = self.common or ((lambda _: 1.0) if keyed else None)
        return self._replace(
            n_variance=lambda f: (1 + (reports - 1) * (common(f) if common else 0)) / reports * self.n_variance(f),
            apart=1 if common else reports,
            pure=self.pure if reports == 1 else None,
            blocks=self.blocks if reports == 1 else None,
        )

    def worst_others(self) -> Error:
        """That where all other people have the values that disturb most."""
        return self._replace(n_variance=lambda f: self.n_variance(f) + (1 - f) * self.crowded) if self.crowded else self

    @classmethod
    def of(cls, p: float, q: float, d: int) -> Error:
        """That of a pure protocol."""
        check_resolved(0, lambda: (p, q), " * values")
        ends = (-q / (p - q), (1 - q) / (p - q))
        known = cls(lambda f: (f * p * (1 - p) + (1 - f) * q * (1 - q)) / (p - q) ** 2, d, ends)
        return known._replace(pure=(p, q), slope=(1 - p - q) / (p - q))

    def share(self, frequency: float | None) -> float:
        """The frequency, checked; by default that of one value in d."""
        if self.length:
            refuse_frequency(frequency)
        return check_frequency(frequency, self.together)

    def variance(self, f: float, sampled: float, collided: float = 0.0) -> float:
        """``n`` times the variance of what is asked about; ``sampled`` as `sampled_part` has it.

        With the collisions among so many reports.
        """
        # Of numbers: at most, where half of the people are at each end, or of reports where half are.
        made = self.n_variance(f) + sampled * (self.length**2 / 4 if self.length else f * (1 - f))
        if self.collided is not None:
            moves, chances = self.collided
            made += collided * (1 - f) ** 2 * float(chances @ moves**2)
        return min(made, self.step**2) if self.step else made

    def worst(self, shares: Shares, sampled: float, n: float) -> float:
        """The share of the greatest variance, a polynomial of degree 2, or the greatest of some for each value."""
        at0, middle, at1 = (self.variance(f, sampled, n) for f in (0.0, 0.5, 1.0))
        bend = 2 * (at0 + at1 - 2 * middle)
        least, most = shares
        top = min(max(-(at1 - at0 - bend) / (2 * bend), least), most) if bend < 0 else least
        return max(least, most, top, key=lambda f: self.variance(f, sampled, n))

    def _score(self, shares: Shares, n: float, population: Population) -> tuple[float, Callable[[Any], F64]]:
        """The variance, and from margins, one number or float64[2], how improbable an error beyond is, on either side.

        Of the share with the greatest variance.
        """
        sampled = part_of(population, n)
        f = self.worst(shares, sampled, n)
        variance = self.variance(f, sampled)
        score = self._score_of_reports(f, n, variance, sampled)
        if self.collided is None:
            return variance, score
        moves, chances = self.collided
        moved = (1 - f) * moves[:, None] * [1, -1]

        def of_all(margin: Any) -> F64:
            left = margin - moved
            tails = chances @ normal_tail(np.copysign(score(np.abs(left)), left))
            return np.array([-NormalDist().inv_cdf(min(max(tail, 1e-300), 0.5)) for tail in tails])

        return variance, of_all

    def _score_of_reports(self, f: float, n: float, variance: float, sampled: float) -> Callable[[Any], F64]:
        """That of all but collisions, from margins, float64[..., 2] or one number."""
        errors, k = math.sqrt(n / max(variance, 1e-300)), self.apart
        n, variance, drawn = n * k, variance * k, k * (sampled > 0)  # (who is in the sample is k reports alike)
        if (tails := self.tails) is not None:
            return lambda margin: tails(np.broadcast_to(margin, 2) * errors, n)
        if self.ends is None:

            def of_coins(margin: Any) -> F64:
                z: F64 = margin * np.full(2, errors)
                step = max(self.step, drawn * self.length / 2)
                some = n * variance < self._few(z, variance / k) * step**2
                if self._bits(variance / k):  # no closer than halfway to the next sum
                    z -= some * np.minimum(step / n * errors, z)
                elif some.any():
                    z = scores_of_few(z, some, n, 1 / errors, step / n)
                return z

            return of_coins
        least, greatest = self.ends
        # Of these people, those who have the value add 1 on average, and the others 0.
        below, above = (f, f) if sampled == 1 and k == 1 else (0.0, 1.0)
        reach, reports = np.maximum([greatest - below, above - least], drawn * (k > 1)), np.full(2, n)
        return lambda margin: two_point_score(reports * margin, reports, reports * variance, reach)

    def _bits(self, variance: float) -> bool:
        """Whether reports are bits of which half are 1: their sums are on a lattice."""
        return variance > (1 - 1e-9) * self.step**2

    def _few(self, z: Any, variance: float) -> Any:
        """How many coins are few: of bits more, the likelier the sums are that a step of the lattice takes in."""
        return np.maximum(few_at(z), _FEW_BITS * self._bits(variance) * np.exp(1.96**2 - np.square(z)))

    def suffices(self, reports: float, margin: float, beta: float, shares: Shares, population: Population) -> bool:
        """Whether so many reports keep the margin."""
        if self.finds is not None:
            return self.finds(reports, margin, beta)
        scores = (self._score(shares, reports, whom)[1] for whom in self._bounding(population))
        return margin > self.off and any(score(margin - self.off).min() >= _z(beta) for score in scores)

    def reports(self, margin: float, beta: float, shares: Shares, population: Population) -> float:
        """How many reports a margin takes: the least that `suffices`."""
        if margin <= self.off:
            return math.inf
        variance = self._score(shares, 1.0, population)[0]
        normal, known = (_z(beta) / (margin - self.off)) ** 2 * variance, self.finds or self.ends
        many = normal > _UNTOLD if known else normal * variance >= self._few(_z(beta), variance) * self.step**2
        if many and not self.finds and self.collided is None and not isinstance(population, int):
            return normal
        return least_that(lambda n: self.suffices(n, margin, beta, shares, population), max(normal, 1e-3))

    def margin(self, reports: float, beta: float, shares: Shares, population: Population) -> float:
        """The inverse of `reports`."""
        if self.finds is not None:
            low, high = 0.0, 1.0
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (low, middle) if self.finds(reports, middle, beta) else (middle, high)
            return high
        found = []
        for whom in self._bounding(population):
            variance, score = self._score(shares, reports, whom)
            normal = _z(beta) * math.sqrt(variance / reports)
            found.append(float(least_beyond(_z(beta), score, np.full(2, max(normal, 1e-12))).max()))
        return self.off + min(found)

    def _bounding(self, population: Population) -> tuple[Population, ...]:
        """Those whose bounds hold for a population: of people who are not drawn one by one sums are less spread.

        (Hoeffding, see `tails`, Theorem 4; and of those whose values stay by the means of exp(t part).)
        """
        return (population, "many") if self.ends is not None and self.apart == 1 else (population,)


_FEW_BITS = 36  # (of 43 and more a margin is missed in 6.6 % or less)
_UNTOLD = 1e18  # people: a normal sum takes fewer by less than one in 10^8, and doubles do not tell larger tails


def _z(beta: float) -> float:
    """What a normal variable exceeds on either side with a probability of beta."""
    return -NormalDist().inv_cdf(beta / 2)


def part_of(population: Population, n: float) -> float:
    """`sampled_part`; 0 if more are asked for than there are."""
    return float(sampled_part(population, min(n, population) if isinstance(population, int) else n))


def error_of(m: Mechanism | Margin) -> Error:
    """The error of a mechanism, which knows it best; or of one column of pairs."""
    n = _MANY
    if isinstance(m, Margin):
        return Error(m.variance, m.domain.size, m.ends())
    common = (lambda f: m.common_noise(keyed=True, share=f)) if m.memoized else None
    if isinstance(m, FrequencyOracle):
        moves = m.extremes() if math.isfinite(m.parts[1]) else []
        ends = (min(float(x.min()) for x in moves), max(float(x.max()) for x in moves)) if moves else None
        moved = m.collided() if m.collided else None
        known = Error(lambda f: float(m.variance(n, n * f)) / n, m.domain.size, ends, common=common, tails=m.tails)
        pure, blocks = (m.p, m.q) if m.is_pure else None, m if isinstance(m, InBlocks) else None
        known = known._replace(pure=pure, blocks=blocks, slope=float(m.rates.b[-1]))
        return known._replace(collided=moved, crowded=m.crowded)
    if isinstance(m, Numeric):
        length, (low, high) = m.domain.high - m.domain.low, m.value_bounds()
        return Error(lambda _: m.variance(1), 1, length=length, step=length * (high - low) / 2, off=off_of(m))
    if isinstance(m, HeavyHitters):
        levels = len(m.levels)
        one = Error.of(m.p, chance_of_none(m), 2)
        return Error(
            lambda f: levels * one.n_variance(f) + (levels - 1) * f * (1 - f), m.least_candidates, finds=m.finds
        )
    if isinstance(m, Sketch):
        p, q = (float(x) for x in m.support_probabilities())
        return Error.of(p, q, 1)._replace(together=_FEW, collided=m.collided(), common=common, pure=None)
    if isinstance(m, HierarchicalHistogram):
        raise ParameterError(f'say what {m.name} is asked for: ask="median", or another question')
    raise ParameterError(f"the error of {m.name} is not known before there are reports")


def error_of_half(m: HierarchicalHistogram) -> Error:
    """Of the share of the first half of the values of a tree, as in its `explain`."""
    variance = m.explain(1).share ** 2
    return Error(lambda _: variance, 1)


_FEW = 100  # candidates, for the frequency of a typical one: a sketch has no list
_MANY = 10**9  # reports: where an error falls as 1 / sqrt(n) only in the limit (a sample of columns), it is the limit's


def check_frequency(f: float | None, d: int) -> float:
    """The frequency of a value, checked; by default that of one in d."""
    return 1 / d if f is None else float(check_probability("frequency", f))


def refuse_frequency(f: float | None) -> None:
    """Raise `ParameterError` if there is a frequency where no declared value is asked about."""
    if f is not None:
        raise ParameterError("frequency is that of a declared value: leave it out")
