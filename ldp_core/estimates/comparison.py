"""Comparisons: whether two tallies are of people with the same shares or the same mean, and by how much they differ.

**One value.** With estimates f1, f2 of n1, n2 other people, and V(f) the variance of one report's estimate where the
share is f (noise; for a population f (1 - f) more), z = (f2 - f1) / sqrt(V(f) (1 / n1 + 1 / n2)) is a standard normal
variable if nothing differs, f being the share among all n1 + n2. The interval adds those of the two sides, which are
score intervals: low = f2 - f1 - sqrt((f2 - low2)^2 + (high1 - f1)^2), high alike (R. G. Newcombe, "Interval Estimation
for the Difference between Independent Proportions", Statistics in Medicine 17, 1998, method 10). p-values are adjusted
for the number of values by S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
Statistics 6(2), 1979.

One difference of fewer than twelve coins (`tails`) has their tails. The whole histogram has a test of `chi_square`.

**Looking again and again.** With ``anytime`` intervals and p-values hold at all looks at once, by the normal mixture of
I. Waudby-Smith, D. Arbour, R. Sinha, E. H. Kennedy, A. Ramdas, "Time-uniform Central Limit Theory and Asymptotic
Confidence Sequences", Annals of Statistics 52(6), 2024, Theorem 2.2. As reports come in on either side, in whatever
proportion, the error of a difference moves as a Brownian motion does whose time is its variance. So with x the
information (one over the variance) as a multiple of some that is fixed beforehand, the z that is allowed is

    z(x)^2 = 2 (x + 1) / x ln(sqrt(x + 1) / alpha)        p = sqrt(x + 1) exp(-z^2 x / (2 (x + 1)))

and x = -2 ln(alpha) + ln(1 - 2 ln(alpha)) is where the interval is nearly tightest (ibid., Appendix C.3). Of k degrees
of freedom p = (x + 1)^(k / 2) exp(-T x / (2 (x + 1))).

**Several reports of a person** on a side: variances and covariances are at most ``repeats`` times as large, and are
taken to be (`clusters` in this room); chi-square statistics are over it.

**The same people on both sides**, or keyed noise: how their errors hang together is not known. The standard deviation
of a difference is at most the sum of the two, which ``same_people=True`` takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import OfAll, Population, Tabular, check_population, refuse_mechanism, sampled_part
from ldp_core.estimates.chi_square import chi_square_tail, enough, of_one_coin, possible, whitened
from ldp_core.estimates.clusters import normal
from ldp_core.estimates.histogram import Counting, Side, answering_part, counted_side
from ldp_core.estimates.mean import NEAR, Averaging, coin_of, finite_times, off_of
from ldp_core.estimates.plausibility import watch
from ldp_core.estimates.tails import few_at, scores_of_few
from ldp_core.inputs.domain import Domain
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_flag, check_integer, check_open, parameter
from ldp_core.randomizer.tallying import Tallier
from ldp_core.tables import View, in_percent
from ldp_core.tally import MOST, Tally

TIGHTEST = 10_000
"""Reports of each side at which intervals of ``anytime=True`` are tightest."""

ANSWER = (
    *("before", "after", "difference", "standard_error", "low", "high", "p_value", "p_adjusted"),
    *("statistic", "degrees_of_freedom", "p_value_of_all", "n_before", "n_after"),
)
"""Columns of a table of differences, beside ``value``; those from ``statistic`` on are of a whole comparison."""


@runtime_checkable
class Comparable(Counting, Protocol):
    """What a mechanism offers whose histograms are compared: a `FrequencyOracle`."""

    def covariance(self, shares: F64, *, sampled: Any = 1.0) -> F64:
        """Covariances of the estimated shares, of one report."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Tabular):
    """Differences of estimated shares, or of a mean, between two sides: what comes after less what was before.

    Arrays are float64[d], in the order of the domain's values, and float64[1] of a mean. Where a side has no reports
    there is no difference (nan): the interval is unbounded, and the p-value 1.

    Attributes:
        domain: of the values; None of a mean.
        n_before, n_after: numbers of reports.
        before, after: unbiased estimates: shares of the records, or the mean.
        differences: ``after - before``; unbiased.
        standard_errors: of ``differences``.
        low, high: ends of the confidence interval of each difference.
        p_values: of each difference by itself, two-sided: the probability of one as large if there is none.
        p_adjusted: by Holm's method, so that the probability of calling any of the values changed that is not is at
            most alpha, if all with ``p_adjusted <= alpha`` are called so.
        statistic, degrees_of_freedom, p_value: of the chi-square test of the whole histogram, where values with fewer
            than about six supporting reports on a side are added together; nan, 0 and nan where fewer than two are
            left, or it is not known how estimated shares hang together, see `FrequencyOracle.covariance`.
        confidence, simultaneous, anytime, same_people, population, repeats: see `compare`.

    >>> from ldp_core import RandomizedResponse, compare
    >>> m = RandomizedResponse(epsilon=50.0)  # so large that there is no noise
    >>> found = compare(m, m.tally([True] * 300 + [False] * 100), m.tally([True] * 360 + [False] * 40))
    >>> found.differences.round(3).tolist(), found.degrees_of_freedom, found.p_value < 1e-6
    ([-0.15, 0.15], 1, True)
    """

    question: ClassVar[str] = "comparison"

    domain: Domain | None
    n_before: int
    n_after: int
    before: F64
    after: F64
    differences: F64
    standard_errors: F64
    low: F64
    high: F64
    p_values: F64
    p_adjusted: F64
    statistic: float
    degrees_of_freedom: int
    p_value: float
    confidence: float
    simultaneous: bool
    anytime: int | None
    same_people: bool | None
    population: Population
    mechanism: Mechanism | None = None
    repeats: int | None = None

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of reports on both sides."""
        return self.n_before + self.n_after

    @property
    def view(self) -> View:  # type: ignore[override]
        """Values with their differences, or one difference."""
        if self.domain is None:
            return View("difference", unit="difference of the means, in the unit of the numbers")
        return View("difference", ("value",), unit="difference of the shares")

    @override
    def to_arrow(self) -> pa.Table:
        """Table of the columns ``value`` (null of a mean) and those in `ANSWER`, one row per value; null for nan."""
        whole = (self.statistic, self.degrees_of_freedom, self.p_value, self.n_before, self.n_after)
        arrays = (self.before, self.after, self.differences, self.standard_errors, self.low, self.high)
        columns = [*arrays, self.p_values, self.p_adjusted, *(np.full(len(self.before), x) for x in whole)]
        return self._with_metadata(_table(self.domain, 1, columns))

    @override
    def _head(self) -> str:
        kinds = {"simultaneous": self.simultaneous, "at all looks": self.anytime, "same people": self.same_people}
        kinds[f"up to {self.repeats} reports of a person"] = (self.repeats or 1) > 1
        said = "".join(f", {kind}" for kind, is_so in kinds.items() if is_so)
        sides = f"After ({self.n_after:,} reports) less before ({self.n_before:,})"
        return f"{sides}, {in_percent(self.confidence)}% intervals{said}"

    @override
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        scale, unit = (1.0, "") if self.domain is None else (100.0, " %")
        names = ("mean",) if self.domain is None else self.domain.texts
        order = np.argsort(self.p_values, kind="stable") if len(names) > _SHOWN else np.arange(len(names))
        rows: list[tuple[str, ...]] = [("", "before", "after", "difference", "low", "high", "p", "p adjusted")]
        shown = (self.before, self.after, self.differences, self.low, self.high)
        for i in order[:_SHOWN].tolist():
            cells = (f"{scale * array[i]:.4g}{unit}" for array in shown)
            rows.append((names[i], *cells, f"{self.p_values[i]:.3g}", f"{self.p_adjusted[i]:.3g}"))
        notes = [f"... {len(names) - _SHOWN} more values, in order of p"] if len(names) > _SHOWN else []
        if self.domain is not None and self.degrees_of_freedom:
            test = f"{self.statistic:.4g}, {self.degrees_of_freedom} degrees of freedom, p = {self.p_value:.3g}"
            notes.append(f"all values together: chi-square {test}")
        elif self.domain is not None:
            notes.append("all values together: no test, as reports are too few, or covariances are not known")
        return rows, notes


_SHOWN = 20


def _check_anytime(name: str, value: bool | int | None) -> int | None:
    if value is None or isinstance(value, bool):
        return TIGHTEST if value else None
    return check_integer(name, value, 1, MOST)


def _check_people(name: str, value: bool | None) -> bool | None:
    return None if value is None else check_flag(name, value)


@dataclass(frozen=True)
class Compare(OfAll):
    """How two tallies of one mechanism are compared; see `compare`, which is this for one pair.

    >>> from ldp_core import RandomizedResponse
    >>> Compare(anytime=True).schema(RandomizedResponse(epsilon=1.0)).names[:5]
    ['value', 'before', 'after', 'difference', 'standard_error']
    """

    name: ClassVar[str] = "comparison"

    confidence: float = parameter(check_open, default=0.95)
    simultaneous: bool = parameter(check_flag, default=False)
    anytime: bool | int | None = parameter(_check_anytime, default=None)
    same_people: bool | None = parameter(_check_people, default=None)
    population: Population = parameter(check_population, default="many")

    def __post_init__(self) -> None:
        self._declare(**vars(self))
        if self.anytime and (self.same_people or (self.repeats or 1) > 1):
            raise ParameterError(
                "anytime is for different people with one report each: leave out same_people= and repeats= above 1"
            )

    def compares(self, mechanism: Any) -> bool:
        """Whether the mechanism has what is compared."""
        return isinstance(mechanism, Mechanism) and isinstance(mechanism, (Comparable, Averaging))

    def check(self, mechanism: Mechanism) -> None:
        """Raise `ParameterError` for what `result` would refuse later."""
        if not self.compares(mechanism):
            raise refuse_mechanism("a comparison", "a frequency oracle or a mechanism for numbers", mechanism)
        self.check_people(mechanism)

    def check_people(self, mechanism: Mechanism, *, keyed: bool = False) -> None:
        """Raise `ParameterError` if nobody says whether people are on both sides, and it matters, as of keyed noise."""
        if (mechanism.memoized or keyed) and self.same_people is None:
            raise unsaid_people()

    def tallier(self, mechanism: Any) -> Tallier:
        """What makes the tallies of both sides: the mechanism, as of a `Question`."""
        return mechanism

    def schema(self, mechanism: Any) -> pa.Schema:
        """Columns of `rows`: ``value``, of the values' own type (null text of a mean), and those in `ANSWER`."""
        return _schema(domain_of(mechanism))

    def result(self, mechanism: Any, before: Tally, after: Tally) -> Comparison:
        """See `compare`."""
        return self._comparison(mechanism, self._arrays(mechanism, *self._sides(mechanism, before, after)))

    def _comparison(self, mechanism: Any, arrays: list[Any]) -> Comparison:
        """Of the `_arrays` of one pair."""
        *values, statistic, degrees, p_value, n_before, n_after = (array[0] for array in arrays)
        refuse_empty(n_before, n_after)
        found: list[Any] = [int(n_before), int(n_after), *values, float(statistic), int(degrees), float(p_value)]
        return Comparison(domain_of(mechanism), *found, **{**self._parameters(), "mechanism": mechanism})

    def _sides(self, mechanism: Any, before: Tally, after: Tally) -> tuple[I64, I64]:
        """n and counters of one pair, as `rows` takes them; checked."""
        self.check(mechanism)
        mechanism.check_tally(before)
        mechanism.check_tally(after)
        if before is after:
            raise ParameterError("before and after are the same tally: a side is not compared with itself")
        return np.array([[before.n, after.n]]), np.array([[before.counters, after.counters]])

    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        """`Question.rows` for k pairs of tallies: n is int64[k, 2], before and after, counters int64[k, 2, counters].

        A pair of which a side has no reports has no estimates (null), unbounded intervals, and p-values of 1.
        """
        arrays = self._arrays(mechanism, n, counters)
        size = arrays[0].shape[1]
        columns = [array.reshape(-1) if array.ndim == 2 else np.repeat(array, size) for array in arrays]
        return _table(domain_of(mechanism), len(n), columns), np.full(len(n), size)

    def _arrays(self, mechanism: Any, n: I64, counters: I64) -> list[Any]:
        """The columns in `ANSWER`: [k, d] each, and [k] from ``statistic`` on."""
        one, two = self._both(mechanism, n, counters)
        empty = (one.n == 0) | (two.n == 0)
        differences = two.estimates - one.estimates
        at_estimates = [side._replace(far=(0.0, 0.0)).variance(np.clip(side.estimates, 0, 1)) for side in (one, two)]
        pooled, at_pooled = pooled_of(one, two)
        alpha = (1 - self.confidence) / (differences.shape[1] if self.simultaneous else 1)
        z = self._z(alpha, self._information(alpha, one.n, two.n, *at_estimates))
        oracle = mechanism.answers(n[:, 0], counters[:, 0])[0] if isinstance(mechanism, Comparable) else None
        tails = oracle if oracle is not None and oracle.tails is not None else None
        sides = of_few(one, two, self._added(*at_estimates), z)
        (low1, high1), (low2, high2) = (side.ends_of(z, tails, self.repeats or 1) for side in sides)
        low = differences - self._added((two.estimates - low2) ** 2, (high1 - one.estimates) ** 2)
        high = differences + self._added((high2 - two.estimates) ** 2, (one.estimates - low1) ** 2)
        low, high = low - one.off - two.off, high + one.off + two.off

        squares = self._scores(one, two, at_pooled) ** 2
        step = one.step if oracle is None else (oracle.step or 1) * (self.repeats or 1)
        p_values = np.where(empty, 1.0, self.p_values(one, two, at_pooled, step, tails))
        test = self._test(oracle, one, two, pooled, step) if oracle is not None else None
        statistic, degrees = (squares[:, 0], np.ones(len(n), np.int64)) if test is None else test
        sizes = [np.maximum(side.n[:, 0], 1) for side in (one, two)]
        information = self._information(1 - self.confidence, *sizes, *(1 / size for size in sizes))
        p_value = self._p(statistic, degrees, information)
        none = empty[:, 0] | (degrees == 0)

        def known(array: F64, missing: Any, otherwise: float) -> F64:
            return np.where(missing, otherwise, array)

        return [
            known(one.estimates, one.n == 0, np.nan),
            known(two.estimates, two.n == 0, np.nan),
            known(differences, empty, np.nan),
            known(self._added(*at_estimates), empty, np.nan),
            known(low, empty, -np.inf),
            known(high, empty, np.inf),
            p_values,
            holm(p_values),
            known(statistic, none, np.nan),
            np.where(none, 0, degrees),
            known(p_value if test else p_values[:, 0], none, np.nan),
            *(np.where(side.n[:, 0] > 0, reported, 0) for side, reported in zip((one, two), n.T, strict=True)),
        ]

    def scores(self, mechanism: Any, n: I64, counters: I64) -> F64:
        """float64[k, d], the differences in standard errors that they have if nothing differs; see `rows`.

        Of means they are normal scores of Student's, as their errors are told by the reports.
        """
        one, two = self._both(mechanism, n, counters)
        at_pooled = pooled_of(one, two)[1]
        z = self._scores(one, two, at_pooled)
        if domain_of(mechanism) is None:
            z = normal(z, np.maximum(np.minimum(one.n, two.n) - 1, 1))
        return of_coins(z, one, two, self._added(*at_pooled), np.maximum(one.step, two.step))

    def _both(self, mechanism: Any, n: I64, counters: I64) -> tuple[Side, Side]:
        one, two = (side_of(mechanism, n[:, i], counters[:, i], self.population, self.repeats) for i in (0, 1))
        return one, two

    def p_values(self, one: Side, two: Side, at_pooled: Sequence[F64], step: float = 0.0, tails: Any = None) -> F64:
        """float64[k, d], of each difference by itself; where few reports decide, with the tails of sums of ``step``.

        Where noise has tails of its own, an oracle's, they are those of so many reports as the smaller side has.
        """
        errors = self._added(*at_pooled)
        z = of_coins(self._scores(one, two, at_pooled), one, two, errors, step)
        if tails is not None:
            least, most = (np.maximum(pick(one.n, two.n), 1) for pick in (np.minimum, np.maximum))
            far = np.abs(two.estimates - one.estimates) * least
            z = np.minimum(np.abs(z), tails.error_score(far, least * (1 + least / most), (errors * least) ** 2))
        squares = z**2
        information = self._information(1 - self.confidence, one.n, two.n, *at_pooled)
        return self._p(squares, np.ones(squares.shape, np.int64), information)

    def _scores(self, one: Side, two: Side, at_pooled: Sequence[F64]) -> F64:
        errors, differences = self._added(*at_pooled), nearer(two.estimates - one.estimates, one.off + two.off)
        some = (one.n > 0) & (two.n > 0) & (errors > 0)
        return np.divide(differences, errors, out=np.zeros_like(errors), where=some)

    def _added(self, one: F64, two: F64) -> F64:
        """The error of a difference, from the squared errors of its sides: at most their sum if they hang together."""
        return np.sqrt(one) + np.sqrt(two) if self.same_people else np.sqrt(one + two)

    def _information(self, alpha: float, n1: F64, n2: F64, one: F64, two: F64) -> F64:
        """``x``: 1 / variance, of errors with variances ``one`` and ``two``, in units of what is tightest."""
        reports = self.anytime or TIGHTEST
        variance, then = one + two, (n1 * one + n2 * two) / reports
        x = np.divide(then, variance, out=np.ones_like(variance), where=variance > 0)
        return x * (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha)))

    def _z(self, alpha: float, x: F64) -> F64:
        """How many standard errors an interval reaches."""
        if not self.anytime:
            return np.full(x.shape, -NormalDist().inv_cdf(alpha / 2))
        return np.asarray(np.sqrt(2 * (x + 1) / x * np.log(np.sqrt(x + 1) / alpha)))

    def _p(self, statistic: F64, degrees: I64, x: F64) -> F64:
        """Of chi-square statistics."""
        if not self.anytime:
            return chi_square_tail(statistic, degrees)
        return np.minimum(np.exp(degrees / 2 * np.log1p(x) - statistic * x / (2 * (x + 1))), 1)

    def _test(self, oracle: Any, one: Side, two: Side, pooled: F64, step: float) -> tuple[F64, I64]:
        """T and its degrees of freedom, 0 where the covariances are not known, or reports too few."""
        k, d = pooled.shape
        statistic, degrees = np.zeros(k), np.zeros(k, np.int64)
        fewest = np.minimum(one.n, two.n) * (self.repeats or 1)
        reports = [1 / np.maximum(side.n[:, 0], 1) for side in (one, two)]
        many = max(_ENTRIES // d**2, 1)
        for first in range(0, k, many):
            some = slice(first, first + many)
            each = [one_over[some] for one_over in reports]
            parts = [np.broadcast_to(side.sampled, side.n.shape)[some, 0] / (self.repeats or 1) for side in (one, two)]
            sampled = np.maximum(*parts) if self.same_people else sum(map(np.multiply, parts, each)) / sum(each)
            try:
                covariances = oracle.covariance(possible(oracle, pooled[some]), sampled=sampled)
            except ParameterError:  # it is not known
                break
            errors = self._added(*each) * math.sqrt(self.repeats or 1)
            delta = (two.estimates - one.estimates)[some] / errors[:, None]
            variances = np.diagonal(covariances, axis1=1, axis2=2)
            coins = fewest[some] * np.minimum(variances / step**2, 1)  # (a report is one at most)
            sums, classes = enough(coins)
            delta, covariances = sums @ delta[:, :, None], sums @ covariances @ sums.transpose(0, 2, 1)
            coin = of_one_coin(sums, variances, coins)
            statistic[some], ranks = whitened(delta, covariances, coin, add_up=oracle.exhaustive)
            degrees[some] = np.where(classes > oracle.exhaustive, ranks, 0)
        return statistic, degrees


def unsaid_people(_column: str = "") -> ParameterError:
    """To raise where noise is a person's own, and nobody says whether people are on both sides."""
    return ParameterError(
        "the noise of these reports is a person's own, so that people who are on both sides have it in common: say "
        "same_people=False if nobody is, or same_people=True for the widest intervals there can be"
    )


def refuse_empty(before: int, after: int) -> None:
    """Raise `ParameterError` if a side has no reports, or none that answers: of a record one column may."""
    for side, people in (("before", before), ("after", after)):
        if not people:
            raise ParameterError(f"the side {side!r} has no reports with an answer: there is nothing to compare")


_ENTRIES = 1 << 22
"""Covariances computed at a time."""


def pooled_of(one: Side, two: Side) -> tuple[F64, list[F64]]:
    """The estimates of both sides together, and the variances of each if these are true."""
    pooled = (one.n * one.estimates + two.n * two.estimates) / np.maximum(one.n + two.n, 1)
    return pooled, [side.variance(pooled) for side in (one, two)]


def few_coins(one: Side, two: Side, error: F64, step: Any, z: Any) -> F64:
    """Whether few coins decide about a difference of z errors, each worth ``step`` on the smaller side.

    (That of two sides of one size is not skewed.)
    """
    least, most = np.minimum(one.n, two.n), np.maximum(one.n, two.n)
    return np.asarray(error**2 * least**2 < 2 * few_at(z, 1 - least / np.maximum(most, 1)) * np.square(step))


def of_coins(z: F64, one: Side, two: Side, error: F64, step: Any) -> F64:
    """Scores of differences; where few coins decide, of their tails, and N - 1 of N (G. Upton, JRSS A 145(1), 1982)."""
    few = few_coins(one, two, error, step, z) & (z != 0)
    n, coin = np.maximum(one.n + two.n, 1), step / np.maximum(np.minimum(one.n, two.n), 1)
    return scores_of_few(z, few, n, error, coin, np.sqrt(1 - 1 / n))


def of_few(one: Side, two: Side, error: F64, z: Any) -> list[Side]:
    """Both sides, with `reach_of_few` only where few coins decide about a difference with this error; else Newcombe."""
    few = few_coins(one, two, error, np.maximum(one.step, two.step), z)
    return [side._replace(step=np.where(few, side.step, 0.0), safer=2 * side.safer) for side in (one, two)]


def nearer(difference: F64, off: Any) -> F64:
    """What is left of a difference that may be so much nearer to 0, as of means that are `off_of`."""
    return difference - np.clip(difference, -off, off)


def side_of(
    mechanism: Any, n: I64, counters: I64, population: Population, repeats: int | None = None, most: float | None = None
) -> Side:
    """k tallies as one side, with the variances of at most so many reports of a person; ``most``: only for `watch`."""
    one = _side_of(mechanism, n, counters, population, repeats, most or repeats)
    return one if repeats is None else one.of_clusters(repeats)


def _side_of(
    mechanism: Any, n: I64, counters: I64, population: Population, repeats: int | None, most: float | None
) -> Side:
    if not isinstance(mechanism, Comparable):
        watch(mechanism, n[:, None], counters, repeats=most)
        means, errors, *_ = np.nan_to_num(mechanism.means(np.maximum(n, 1), counters))
        people = np.where(mechanism.answers(n, counters)[1], n, 0)[:, None].astype(float)
        times = finite_times(mechanism, population, n, means, errors, repeats)
        below, above = mechanism.far(n, means, errors)
        a, below, above = ((x * times**2)[:, None] for x in (errors**2 * np.maximum(n, 1), below, above))
        step = np.asarray(coin_of(mechanism, population, people, repeats))
        return Side(people, means[:, None], a, step=step, far=(below, above), off=off_of(mechanism), safer=NEAR)
    sampled_part(population, n, repeats)  # (who does not answer is there, too)
    reported, (oracle, answers, counters) = n, mechanism.answers(n, counters)
    side = counted_side(oracle, answers, counters, repeats=repeats or 1)
    side = side._replace(sampled=answering_part(population, reported[:, None], side.n, repeats))
    people = np.maximum(answers, 1)[:, None].astype(float)
    watch(oracle, people, counters, side.estimates * people, repeats=most)
    return side


_WHOLE = 1e-3  # so far from a whole number rounding leaves none


def p_values_of(
    mechanism: Any,
    n: I64,
    estimates: F64,
    errors: F64,
    *,
    values: Sequence[int] | None = None,
    anytime: bool = False,
    population: Population = None,
) -> F64 | None:
    """p-values, float64[d], of differences between two sides of which only the estimates are left.

    None of what is not compared so: columns that not all people answer, noise that people keep, and counts that were
    made consistent: of unbiased ones whole numbers of reports support the values. (Of reports that say more than that,
    as those in blocks, nothing tells: these mechanisms are not compared.)

    Args:
        mechanism: that made the reports.
        n: int64[2], numbers of reports, at least 1.
        estimates, errors: float64[2, d]: unbiased shares, or means (d = 1), and their standard errors.
        values: places in the domain of the values that they are of; default: of all, in its order.
        anytime: see `compare`.
        population: whom the errors of shares are about. Those of noise alone, None, get the error of sampling here.
    """
    is_oracle = isinstance(mechanism, Comparable)
    if mechanism.memoized or not (is_oracle or isinstance(mechanism, Averaging)):
        return None
    if is_oracle and mechanism.answers(n, np.zeros((2, mechanism.counters), np.int64))[0] is not mechanism:
        return None
    if is_oracle:
        if not mechanism.is_pure:
            return None
        supports = n[:, None] * (mechanism.q + estimates * (mechanism.p - mechanism.q))
        if np.abs(supports - np.round(supports)).max() > _WHOLE or (estimates.min(axis=1) == 0).any():
            return None
    b = mechanism.rates.b[slice(None) if values is None else values] if is_oracle else 0.0
    sampled = float(is_oracle and population is None)
    of_one = errors**2 * n[:, None] - b * np.clip(estimates, 0, 1)
    below, above = (0 * errors, 0 * errors) if is_oracle else mechanism.far(n[:, None], estimates, errors)
    people, alike, off = n[:, None, None].astype(float), (b, sampled, 0.0), 0.0 if is_oracle else off_of(mechanism)
    one, two = (Side(people[i], estimates[i, None], of_one[i, None], *alike, (below[i], above[i]), off) for i in (0, 1))
    few: Any = (mechanism.step or 1, mechanism.tails and mechanism) if is_oracle else ()
    return np.asarray(Compare(anytime=anytime).p_values(one, two, pooled_of(one, two)[1], *few)[0])


def compare(
    mechanism: Mechanism,
    before: Tally,
    after: Tally,
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
    anytime: bool | int | None = None,
    same_people: bool | None = None,
    population: Population = "many",
    repeats: int | None = None,
) -> Comparison:
    """Whether, and by how much, shares (or a mean) differ between two tallies of other people, with fresh noise.

    That is two weeks, two groups, two versions. A group is compared with the others, and not with all, of whom it is a
    part.

    Args:
        mechanism: that made the reports of both: a frequency oracle, or a mechanism for numbers with means.
        before, after: its tallies.
        confidence: of the intervals, in (0, 1).
        simultaneous: widen them so that those of all values hold together with that confidence (Bonferroni).
        anytime: True if you look again and again while reports come in, and stop when you like: intervals and p-values
            then hold at all looks together. They are tightest at 10,000 reports of each side, or as many as you say in
            place of True: a number that is fixed before the first look.
        same_people: whether the same people may be on both sides, or their noise is keyed. None, or False: other people
            on both sides, which mechanisms whose noise is a person's own want to be told. True: errors of the two sides
            may add up, (sd1 + sd2)^2 in place of sd1^2 + sd2^2.
        population: whose difference it is, see `Population`: ``"many"``, that of two large populations of which those
            who report are random samples; None, that of these people themselves, of which noise is the only error (of
            means on the safe side, see `MeanEstimate`); N, that of two populations of N people each.
        repeats: the most reports of one person on a side; see `HistogramEstimate`. Default: one.

    Raises:
        MechanismMismatchError: a tally is another mechanism's.
        ParameterError: a side without reports, or twice the same; options that exclude each other; a memoized
            mechanism, and nothing is said of ``same_people``; a mechanism without shares and means.

    Returns:
        See `Comparison`. All of it is right for large n, where estimates are nearly normal: hundreds of reports a side,
        and more where p - q is small and q is near 0.

    >>> from ldp_core import RandomizedResponse, compare
    >>> m = RandomizedResponse(["ok", "slow", "crashed"], epsilon=2.0)
    >>> compare(m, m.simulate([8000, 1500, 500], seed=7), m.simulate([7000, 2200, 800], seed=8))
    After (10,000 reports) less before (10,000), 95% intervals
              before    after  difference       low      high         p  p adjusted
    ok       79.28 %  70.63 %    -8.656 %  -10.63 %  -6.677 %  1.07e-17    3.22e-17
    slow     15.14 %  21.66 %     6.525 %   4.808 %    8.24 %  9.98e-14       2e-13
    crashed  5.583 %  7.714 %     2.131 %  0.6694 %   3.592 %   0.00427     0.00427
    all values together: chi-square 77.6, 2 degrees of freedom, p = 1.41e-17
    """
    asked = Compare(confidence, simultaneous, anytime, same_people, population, repeats=repeats)
    return asked.result(mechanism, before, after)


# ---- tables


def domain_of(mechanism: Any) -> Domain | None:
    """The values that are compared; None of a mean."""
    return mechanism.domain if isinstance(mechanism, Comparable) else None


def _schema(domain: Domain | None) -> pa.Schema:
    whole = {"degrees_of_freedom", "n_before", "n_after"}
    numbers = [(name, pa.int64() if name in whole else pa.float64()) for name in ANSWER]
    return pa.schema([("value", pa.string() if domain is None else domain.arrow_type), *numbers])


def _table(domain: Domain | None, pairs: int, columns: list[Any]) -> pa.Table:
    """Rows of so many comparisons; null for nan."""
    schema = _schema(domain)
    if domain is None:
        values = pa.nulls(pairs, pa.string())
    else:
        values = domain.arrow_values.take(pa.array(np.tile(np.arange(domain.size), pairs)))
    return pa.table([values, *(pa.array(column, mask=np.isnan(column)) for column in columns)], schema)


def holm(p_values: F64) -> F64:
    """p-values adjusted for their number, along the last axis: the i-th least of d times d - i, and not below those.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    d = p_values.shape[-1]
    order = np.argsort(p_values, axis=-1)
    ranked = np.take_along_axis(p_values, order, axis=-1) * np.arange(d, 0, -1)
    adjusted = np.empty_like(ranked)
    np.put_along_axis(adjusted, order, np.minimum(np.maximum.accumulate(ranked, axis=-1), 1), axis=-1)
    return adjusted
