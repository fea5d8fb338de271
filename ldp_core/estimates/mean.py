"""Means of numbers, with error bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import (
    Population,
    Question,
    SingleNumber,
    check_population,
    refuse_mechanism,
    sampled_part,
    score_reach,
    z_score,
)
from ldp_core.estimates.clusters import Persons, check_persons_population, codes_of, student
from ldp_core.estimates.histogram import Side
from ldp_core.estimates.plausibility import watch
from ldp_core.estimates.tails import reach_of_few
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open, parameter
from ldp_core.tables import View
from ldp_core.tally import Tally


@dataclass(frozen=True, eq=False, repr=False)
class Mean(SingleNumber):
    """An unbiased estimate of the mean of ``n`` numbers, in their own unit.

    Attributes:
        mean: the estimate; it can lie outside of the declared interval. nan where there are no reports.
        standard_error, low, high: of ``mean``: about whom, see `MeanEstimate`.

    >>> Mean(21.5, 0.4, 20.716, 22.284, 10_000, 0.95)
    Mean of 10,000 records: 21.5, standard error 0.4, 95% interval 20.716 to 22.284
    """

    view: ClassVar[View] = View("mean", unit="mean")
    question: ClassVar[str] = "mean"

    mean: float
    standard_error: float
    low: float
    high: float
    n: int
    confidence: float
    mechanism: Mechanism | None = None
    population: Population = None


@runtime_checkable
class Averaging(Protocol):
    """What a mechanism with means offers: `Numeric`."""

    def means(self, n: I64, counters: I64, *, confidence: float = 0.95) -> tuple[F64, F64, F64, F64]:
        """Estimated means, their standard errors, and the low and high ends of their intervals, of many tallies."""

    def answers(self, n: I64, counters: I64) -> tuple[Any, I64, I64]:
        """What there is of reports that are answers; see `Counting`."""

    def far(self, n: Any, means: F64, errors: F64) -> tuple[F64, F64]:
        """`far_numbers` of estimated means and their standard errors, in the numbers' own unit."""


@dataclass(frozen=True)
class MeanEstimate(Question[Mean]):
    """The mean of numbers, in their own unit.

    Args:
        confidence: of the interval, in (0, 1).
        population: whom the interval is about. ``"many"``: a large population of which these people are a random
            sample. None: these people, for whom the same interval is on the safe side, as noise and the numbers'
            spread are not told apart. N: a population of N people. What exceeds the noise of such numbers (or that of
            the worst number, where reports do not tell squares, see `linear_fit`) is spread for certain, and is there
            only in the part that `sampled_part` says.

        repeats: the most reports of one person; see `HistogramEstimate`.

    Raises:
        ParameterError: confidence outside (0, 1); when asked: more reports than people.

    >>> from ldp_core import Hybrid
    >>> MeanEstimate(0.9).schema(Hybrid((0, 1), epsilon=1.0)).names
    ['mean', 'standard_error', 'low', 'high', 'n']
    """

    name: ClassVar[str] = Mean.question
    view: ClassVar[View] = Mean.view
    single: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    confidence: float = parameter(check_open, default=0.95)
    population: Population = parameter(check_population, default=None)

    @override
    def check(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, Mechanism) or not isinstance(mechanism, Averaging):
            raise refuse_mechanism("a mean", "a mechanism for numbers, as Hybrid", mechanism)

    @override
    def schema(self, mechanism: Mechanism) -> pa.Schema:
        return Mean.arrow_schema()

    @override
    def result(self, mechanism: Any, tally: Tally) -> Mean:
        self.check(mechanism)
        mechanism.check_tally(tally)
        watch(mechanism, tally.n, tally.counters, repeats=self.repeats)
        mean, error, low, high = (float(x) for x in self._numbers(mechanism, np.array(tally.n), tally.counters))
        return Mean(mean, error, low, high, tally.n, self.confidence, mechanism, self.population)

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        watch(mechanism, n[:, None], counters, repeats=self.repeats)
        columns = (*self._numbers(mechanism, n, counters), n)
        return pa.table([pa.array(column) for column in columns], Mean.arrow_schema()), np.ones(len(n), np.int64)

    def _numbers(self, mechanism: Any, n: I64, counters: I64) -> tuple[F64, F64, F64, F64]:
        """Means, standard errors, and the ends of intervals, of many tallies."""
        mean, error, low, high = mechanism.means(n, counters, confidence=self.confidence)
        if not isinstance(self.population, int) and self.repeats is None:
            return mean, error, low, high
        times = self.times * finite_times(mechanism, self.population, n, mean, error, self.repeats)
        off, coin = off_of(mechanism), coin_of(mechanism, self.population, n, self.repeats) / np.maximum(n, 1)
        below, above, z = mean - low - off, high - mean - off, z_score(self.confidence)
        if self.times > 1:  # (fewer persons tell far numbers, which one may have in all reports)
            few, one = np.maximum(n, 1) / self.times**2, error * self.times
            far = [score_reach(z, one, distance / few) / self.times for distance in mechanism.far(few, mean, one)]
            below, above = np.maximum((below, above), far)
        ends, known = (mean - below * times, mean + above * times), ((error * times) ** 2, 0.0, 0.0)
        low, high = reach_of_few(ends, mean, n, z, self.times**2 * coin, known, 1, NEAR)
        below, above = np.minimum(mean - low, below * self.times), np.minimum(high - mean, above * self.times)
        return mean, error * times, mean - below - off, mean + above + off

    @override
    def of_persons(self, mechanism: Any, reports: Any, persons: Any, *, column: str = "reports") -> Mean:
        self.check(mechanism)
        check_persons_population(self.population)
        weights = mechanism.weights(reports, column=column)
        codes, people = codes_of(persons, len(weights))
        sums, each, squares = (np.bincount(codes, w, minlength=people)[:, None] for w in (weights, None, weights**2))
        return self.of_sums(mechanism, mechanism.tally(reports, column=column), Persons.of(sums, each, squares))

    @override
    def person_sums(self, mechanism: Any, n: I64, counters: I64) -> Persons:
        return Persons.of(*self.person_numbers(mechanism, n, counters))

    def person_numbers(self, mechanism: Any, n: I64, counters: I64) -> tuple[F64, I64, F64]:
        """What `Persons.of` takes, of k persons and their tallies."""
        check_persons_population(self.population)
        if not hasattr(mechanism, "values"):
            raise ParameterError(
                f"a tally of {mechanism.name} does not tell the squares of its reports, which errors by person take: "
                "count with Hybrid or NOutput, or estimate from the reports themselves, as in Polars"
            )
        weights = mechanism.domain.decode(mechanism.values)
        return (counters @ weights)[:, None], n[:, None], (counters @ weights**2)[:, None]

    @override
    def of_sums(self, mechanism: Any, tally: Tally, sums: Persons) -> Mean:
        mechanism.check_tally(tally)
        watch(mechanism, tally.n, tally.counters, repeats=sums.most)
        numbers = mechanism.means(np.array(tally.n), tally.counters, confidence=self.confidence)
        mean, error, (lowest,), (highest,) = (np.array([x], float) for x in numbers)
        n, z, (times, far) = sums.m, z_score(self.confidence), of_clusters(mechanism, sums, mean, error)
        reach, off = student(z, sums.degrees), off_of(mechanism)
        side = Side(n, mean, error**2 * n, step=coin_of(mechanism, "many", np.array(tally.n)), far=far, safer=NEAR)
        ends = side.of_clusters(*np.where(np.isinf(times), 1, times)).ends(reach)
        made = float(error[0] * np.sqrt(times[0][0])) if np.isfinite(times[0][0]) else np.inf
        more = reach * made - z * error[0]  # (what else there is in the interval stays)
        low, high = min(lowest - more, ends[0][0] - off), max(highest + more, ends[1][0] + off)
        return Mean(float(mean[0]), made, float(low), float(high), tally.n, self.confidence, mechanism, "many")


def of_clusters(mechanism: Any, sums: Persons, mean: F64, error: F64) -> tuple[tuple[F64, F64], tuple[F64, F64]]:
    """The design effects T and M of a mean, and `far_numbers` as persons tell them: one may have a number every time.

    ``error``: that of independent reports.
    """
    times, most = sums.effect_of_mean(mean, error**2)
    return (times, most), mechanism.far(sums.m / most, mean, error * np.sqrt(most))


def far_numbers(n: Any, mean: F64, error: F64, low: Any = 0.0, high: Any = 1.0) -> tuple[F64, F64]:
    """How far below and above a mean there may be numbers of which so many reports tell too little.

    If the mean is t higher than the estimate because of numbers in [low, high] of which too few came, these are at most
    d = high - mean above it, and add at most t d to the variance of a number. So the end of a score interval is where
    t^2 = z^2 (error^2 + t d / n); of numbers of two values that is E. B. Wilson's interval. Where the squared
    differences of the reports from the mean add up to those of `_TOLD` such numbers, the sample tells its variance: the
    distance goes down to 0 there. The same below.
    """
    with np.errstate(over="ignore"):
        below, above = (
            distance * np.clip(1 - (n * error / distance) ** 2 / _TOLD, 0, 1)
            for distance in (np.maximum(np.minimum(end, high - low), 1e-200) for end in (mean - low, high - mean))
        )
    return below, above


def score_interval(
    n: Any, mean: F64, error: F64, z: Any, low: Any = 0.0, high: Any = 1.0, slope: Any = 0.0
) -> tuple[F64, F64]:
    """The ends of means of numbers in [low, high]: mean -+ z errors, or farther out if there are `far_numbers`.

    Where the variance of one report is estimated ``slope`` higher, as a mean is 1 too high, it is more on one side.
    """
    far = zip(far_numbers(n, mean, error, low, high), (-slope, slope), strict=True)
    ends = (score_reach(z, error, (distance + np.maximum(more, 0)) / np.maximum(n, 1)) for distance, more in far)
    below, above = ends
    return mean - below, mean + above


FEW_NUMBERS = 20
"""Errors of fewer reports are not told by them."""
_TOLD = 40
"""So intervals of 20 to 1,000 numbers of two values hold in 93.5 % or more, without noise; with 20, in 92.9."""
NEAR = 4
"""What rare reports of numbers are off is less than a coin: they are so many times as likely as its variance says.

(Uniform cells: 3 times at an end of the interval, 12 in its middle, where many of them are near.)
"""


def coin_of(mechanism: Any, population: Population, n: I64, repeats: int | None = None) -> F64 | float:
    """`Numeric.step` in the numbers' own unit; of N people, the more of whom noise is all, of rare reports, too."""
    part = sampled_part("many" if population is None else population, n, repeats)
    share = part * mechanism.step + (1 - part) * np.ptp(mechanism.value_bounds())
    return share * (mechanism.domain.high - mechanism.domain.low)


def off_of(mechanism: Any) -> float:
    """By how much the expectation of a mean may be off, in the numbers' own unit."""
    return mechanism.blur * (mechanism.domain.high - mechanism.domain.low)


def finite_times(
    mechanism: Any, population: Population, n: I64, mean: F64, error: F64, repeats: int | None = None
) -> F64:
    """By how much errors of means are smaller, as spread is there only in the part that `sampled_part` says."""
    if not isinstance(population, int):
        return np.ones(np.shape(error))
    part = sampled_part(population, n, repeats)
    low, length = mechanism.domain.low, mechanism.domain.high - mechanism.domain.low
    noise = mechanism.noise_among((mean - low) / length, (error / length) ** 2 * n) * length**2
    spread = np.maximum(error**2 - noise / np.maximum(n, 1), 0) * np.greater_equal(n, FEW_NUMBERS)
    return np.sqrt(1 - (1 - part) * spread / np.where(error > 0, error, 1) ** 2)
