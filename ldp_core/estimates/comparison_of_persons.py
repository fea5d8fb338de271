"""Comparisons where people report again, on one side or on both, and an id tells them apart.

With W_1g, W_2g the sums of the weights of person g on the two sides, and m_1g, m_2g the numbers of reports (0 of who is
on one side only), the difference of the shares is linearized as in `clusters` in this room:

    f2 - f1 - (true) = sum_g r_2g / n2 - r_1g / n1      r_1g = W_1g - f1 m_1g, r_2g alike
    S = E / (E - 1) sum_g (r_2g / n2 - r_1g / n1) (r_2g / n2 - r_1g / n1)^T

is its covariance over values, of whatever mechanism, fresh or keyed noise, and whoever is on which side (K.-Y. Liang,
S. L. Zeger, Biometrika 73(1), 1986). E is the lesser of the effective numbers of persons of both sides.

**One value.** Each side has the variance V_i and the interval that `clusters` has. With the correlation of the two

    rho = sum_g r_1g r_2g / sqrt(sum_g r_1g^2 sum_g r_2g^2)

the variance of the difference is V_1 + V_2 - 2 rho sqrt(V_1 V_2), and the interval is

    low = f2 - f1 - sqrt((f2 - low2)^2 + (high1 - f1)^2 - 2 rho (f2 - low2) (high1 - f1)),  high alike

(G. Y. Zou, A. Donner, "Construction of Confidence Limits about Effect Measures", Statistics in Medicine 27, 2008). If
hardly anybody changes, and noise is keyed, few persons tell how many do. As if two more had changed (A. Agresti,
Y. Min, "Simple Improved Confidence Intervals for Comparing Matched Proportions", Statistics in Medicine 24, 2005), a
positive rho sqrt(V_1 V_2) is less by (step / E)^2, with the step between the two weights of a report.

**All values.** T = delta^T S^+ delta, as of other people (`comparison`), with an S that is known of E persons. Rare
reports of a small side would say both delta and S. So it is D S D, D being by how much each value's error, of
independent reports, is larger for the shares of both sides together. A statistic T of E - 1 = v degrees has k degrees
of freedom as a Hotelling's T^2, whose quantile is, of the chi-square quantile x, about x + (x^2 + k x) / (2 v) (K. Ito,
Annals of Mathematical Statistics 27, 1956); k = 1 is Student's. Rare values are added together as there. With fewer
than ten effective persons for each value there is no test. As no covariances of the mechanism are needed, there is one
for sketches and sets, too: of one report a person, with the number of the row for an id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.arrow import column_of, plain
from ldp_core.arrays.types import F64, I64
from ldp_core.errors import InputError, ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.chi_square import adding_up, chi_square_tail, enough, of_one_coin, whitened
from ldp_core.estimates.clusters import LEAST_EFFECTIVE, Persons, codes_of, student, tallies_of
from ldp_core.estimates.comparison import (
    Comparable,
    Compare,
    Comparison,
    holm,
    nearer,
    of_coins,
    of_few,
    pooled_of,
    refuse_empty,
    side_of,
)
from ldp_core.estimates.histogram import HistogramEstimate, Side
from ldp_core.estimates.mean import MeanEstimate, of_clusters
from ldp_core.mechanism import Mechanism
from ldp_core.tally import Tally

_MOST = 256
"""Values of which there is a test of all."""
_NOTHING = 1e-9


class Pairs(NamedTuple):
    """Sums over persons, of both sides; those of other persons add up."""

    before: Persons
    after: Persons
    cross: F64
    """float64[4, d]: of W1 W2, W1 m2, m1 W2 and m1 m2."""
    gram: F64
    """Of the products of W1, m1, W2 and m2, float64[2 d + 2, 2 d + 2], of at most `_MOST` values; else 0."""

    @classmethod
    def of(cls, w: Any, m: Any, s: Any) -> Pairs:
        """Given W, m and S of `Persons`, [k, 2, ...], of k persons."""
        before, after = (Persons.of(w[:, i], m[:, i], s[:, i]) for i in (0, 1))
        (w1, w2), (m1, m2) = w.transpose(1, 0, 2), m.transpose(1, 0, 2)
        cross = np.array([(x * y).sum(0) + np.zeros(w.shape[2]) for x in (w1, m1) for y in (w2, m2)])
        each = np.concatenate([w, m], axis=2).reshape(len(w), -1).astype(float)
        return cls(before, after, cross, each.T @ each if w.shape[2] <= _MOST else np.zeros((1, 1)))

    @classmethod
    def total(cls, parts: Iterable[Pairs]) -> Pairs:
        """The sums over all persons, of sums over some."""
        some = [*parts]
        before, after = Persons.total(x.before for x in some), Persons.total(x.after for x in some)
        cross, gram = (sum(arrays, np.zeros(1)) for arrays in ([x.cross for x in some], [x.gram for x in some]))
        return cls(before, after, cross, gram)

    @property
    def effective(self) -> float:
        """E."""
        return min(self.before.effective, self.after.effective)

    def correlation(self, f1: F64, f2: F64) -> F64:
        """rho, float64[d]."""
        ww, wm, mw, mm = self.cross
        both = self.before.squares(f1) * self.after.squares(f2)
        found = np.divide(ww - f2 * wm - f1 * mw + f1 * f2 * mm, np.sqrt(both), out=np.zeros_like(f1), where=both > 0)
        return np.clip(found, -1, 1)

    def covariances(self, f1: F64, f2: F64) -> F64:
        """S, float64[d, d]; 0 where the sides do not differ at all."""
        d, n1, n2 = len(f1), *(np.maximum(side.m, 1) for side in (self.before, self.after))  # (or nobody answers)
        one, two = np.c_[-np.eye(d), f1] / n1, np.c_[np.eye(d), -f2] / n2
        half = d + 1
        alone = one @ self.gram[:half, :half] @ one.T + two @ self.gram[half:, half:] @ two.T
        found = alone + (between := one @ self.gram[:half, half:] @ two.T) + between.T
        known = np.trace(found) > _NOTHING * np.trace(alone)
        return np.where(known, found * self.effective / max(self.effective - 1, 1), 0.0)


@dataclass(frozen=True)
class ComparePersons(Compare):
    """How reports of people who are told apart are compared; see `compare_persons`.

    >>> from ldp_core import RandomizedResponse
    >>> ComparePersons(confidence=0.9).schema(RandomizedResponse(epsilon=1.0)).names[:3]
    ['value', 'before', 'after']
    """

    name: ClassVar[str] = "comparison_of_persons"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.anytime or self.population != "many" or (self.same_people, self.repeats) != (None, None):
            raise ParameterError(
                "where persons are told apart, ids say who is on which side how often, the persons are a sample of "
                "many, and there is one look: leave out same_people=, repeats=, population= and anytime="
            )

    @override
    def check_people(self, mechanism: Mechanism, *, keyed: bool = False) -> None:
        """Ids say who is on both sides."""

    def person_sums(self, mechanism: Any, n: I64, counters: I64) -> Pairs:
        """Of k persons and their tallies on both sides, int64[k, 2] and int64[k, 2, counters]; they add up."""
        self.check(mechanism)
        question = HistogramEstimate() if isinstance(mechanism, Comparable) else MeanEstimate()
        w, m, s = question.person_numbers(mechanism, n.reshape(-1), counters.reshape(-1, mechanism.counters))
        return Pairs.of(*(x.reshape(-1, 2, x.shape[1]) for x in (w, m, np.broadcast_to(s, w.shape))))

    def of_persons(self, mechanism: Any, reports: Sequence[Any], persons: Sequence[Any]) -> Comparison:
        """Of what `perturb` returned, before and after, and whose reports they are; see `compare_persons`."""
        self.check(mechanism)
        native = [mechanism._checked(some, "reports") for some in reports]
        codes, people = codes_of(_joined(persons), sum(map(len, native)))
        pairs = 2 * codes + np.repeat([0, 1], [len(some) for some in native])
        if isinstance(mechanism, Comparable):
            each = tallies_of(mechanism, np.concatenate(native), pairs, 2 * people)
            sums = Pairs.total(self.person_sums(mechanism, *some) for some in each)
        else:
            x = np.concatenate([mechanism.weights(some) for some in reports])
            of = (np.bincount(pairs, one, minlength=2 * people) for one in (x, None, x**2))
            sums = Pairs.of(*(one.reshape(people, 2, 1) for one in of))
        return self.of_sums(mechanism, [mechanism.tally(some) for some in reports], sums)

    def of_sums(self, mechanism: Any, tallies: Sequence[Tally], sums: Pairs) -> Comparison:
        """`of_persons`, given the tallies of both sides and the sums of all persons."""
        n, counters = self._sides(mechanism, *tallies)
        refuse_empty(*n[0])
        oracle, who = mechanism, (sums.before, sums.after)
        read = partial(side_of, mechanism, population="many")
        one, two = sides = [read(n[:, i], counters[:, i], most=of.most) for i, of in enumerate(who)]
        f1, f2 = one.estimates[0], two.estimates[0]
        step: Any = 4 * np.max([side.n * side.variance(side.inside) for side in sides], axis=0)
        if isinstance(mechanism, Comparable):
            oracle, _, _ = mechanism.answers(n[:, 0], counters[:, 0])
            step, times = oracle.step**2 or step, [side.effects(of) for side, of in zip(sides, who, strict=True)]
            test = _of_all(oracle.exhaustive, one, two, sums, step)
        else:
            each = zip(who, (f1, f2), (np.sqrt(side.variance(side.estimates)[0]) for side in sides), strict=True)
            known = [of_clusters(mechanism, *numbers) for numbers in each]
            times, far = ([numbers[i] for numbers in known] for i in (0, 1))
            one, two = sides = [side._replace(far=x) for side, x in zip(sides, far, strict=True)]
        unknown = bool(np.isinf(times).any())  # (of too few persons)
        one, two = sides = [side.of_clusters(*np.where(unknown, 1, of)) for side, of in zip(sides, times, strict=True)]
        rho = sums.correlation(f1, f2)

        def added(*squares: F64, times: float = 1.0) -> F64:
            """Standard errors of differences, or so many times as much, of the squares of those of both sides."""
            both = rho * np.sqrt(np.prod(squares, axis=0))
            both = np.where(rho > 0, np.maximum(both - step * (times / max(sums.effective, 1)) ** 2, 0), both)
            return np.sqrt(np.maximum(np.sum(squares, axis=0) - 2 * both, 0))

        before, after = (np.where(side.n > 0, side.estimates, np.nan) for side in sides)
        d, z = two.estimates - one.estimates, z_score(self.confidence, len(f1) if self.simultaneous else 1)
        errors = added(*(side.variance(side.inside) for side in sides))
        ends = [x.ends(student(z, of.degrees)) for x, of in zip(of_few(one, two, errors, z), who, strict=True)]
        (low1, high1), (low2, high2) = ends
        low = d - added((two.estimates - low2) ** 2, (high1 - one.estimates) ** 2, times=z)
        high = d + added((high2 - two.estimates) ** 2, (one.estimates - low1) ** 2, times=z)
        off = one.off + two.off
        low, high = low - off, high + off
        at_pooled = added(*pooled_of(one, two)[1])
        z_values = np.divide(nearer(d, off), at_pooled, out=np.zeros_like(d), where=at_pooled > 0)
        squares = of_coins(z_values, one, two, at_pooled, np.maximum(one.step, two.step)) ** 2
        statistic, degrees = test if isinstance(mechanism, Comparable) else (squares[:, 0], np.ones(1, np.int64))
        p_values, p_value = _tail(squares, np.ones(d.shape, np.int64), sums), _tail(statistic, degrees, sums)
        if unknown:
            errors, low, high, p_values, p_value = (
                np.full_like(x, at) for x, at in zip((errors, low, high, p_values, p_value), _UNKNOWN, strict=True)
            )
        whole = np.where(degrees, statistic, np.nan), degrees, np.where(degrees, p_value, np.nan)
        return self._comparison(
            mechanism, [before, after, after - before, errors, low, high, p_values, holm(p_values), *whole, *n.T]
        )


_UNKNOWN = (np.inf, -np.inf, np.inf, 1.0, 1.0)


def _of_all(exhaustive: bool, one: Side, two: Side, sums: Pairs, step: Any) -> tuple[F64, I64]:
    """T and its degrees of freedom, of sums of values as in `comparison`; 0 where there is no test."""
    d, (_, at_pooled) = one.estimates.size, pooled_of(one, two)
    if d > _MOST:
        return np.zeros(1), np.zeros(1, np.int64)
    reports = [side.n * v for side, v in zip((one, two), at_pooled, strict=True)]
    added, classes = enough(coins := sums.effective * np.min(reports, axis=0) / step)
    known, if_alike = one.variance(one.estimates) + two.variance(two.estimates), sum(at_pooled)
    scale = np.eye(d) * np.sqrt(np.divide(if_alike, known, out=np.ones_like(known), where=known > 0))
    covariances, delta = sums.covariances(one.estimates[0], two.estimates[0])[None], two.estimates - one.estimates
    coin = of_one_coin(added, np.diagonal(covariances, axis1=1, axis2=2) * np.diagonal(scale) ** 2, coins)
    if exhaustive:
        before, covariances = adding_up(covariances)
        delta, scale = delta @ before[0].T, scale - scale.mean(axis=1, keepdims=True)
    scale = added @ scale.T
    covariances = scale @ covariances @ scale.transpose(0, 2, 1)
    statistic, ranks = whitened(added @ delta[:, :, None], covariances, coin, add_up=False)
    tested = (sums.effective >= LEAST_EFFECTIVE * (d - exhaustive)) & (classes > exhaustive)
    return statistic, np.where(tested, ranks, 0)


def _tail(statistic: F64, degrees: I64, sums: Pairs) -> F64:
    """p-values: of the chi-square quantile x that belongs to a statistic of so many persons."""
    v = min(sums.before.degrees, sums.after.degrees)
    return chi_square_tail(np.sqrt((v + degrees / 2) ** 2 + 2 * v * statistic) - (v + degrees / 2), degrees)


def quantiles_of_persons() -> ParameterError:
    """To raise where quantiles are to be compared and persons told apart."""
    return ParameterError(
        "quantiles do not tell persons apart: with quantiles= say repeats= and same_people= in place of person="
    )


def _joined(persons: Sequence[Any]) -> pa.Array:
    """The ids of both sides as one column."""
    given = [plain(ids) if isinstance(ids := column_of(one), pa.Array) else pa.array(ids) for one in persons]
    decoded = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in given]
    types = {one.type for one in decoded if len(one)}
    if len(types) > 1:
        raise InputError(f"the ids of both sides must be of one type, got {' and '.join(sorted(map(str, types)))}")
    return pa.concat_arrays([one for one in decoded if len(one)] or decoded[:1])


def compare_persons(
    mechanism: Mechanism,
    before: tuple[Any, Any],
    after: tuple[Any, Any],
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
) -> Comparison:
    """`compare`, where people report again, on one side or on both: by how much shares, or a mean, differ.

    Errors are those of independent people, whatever the noise, who are a sample of many. With one report of each, and
    the numbers of the rows for ids, it is a test of all values of a sketch or of sets, which `compare` does not have.

    Args:
        mechanism: that made the reports of both: a frequency oracle, or a mechanism for numbers with means.
        before, after: the reports of a side, as `perturb` returned them, and whose they are: integers, text or binary.
            A pseudonym that is made for this will do, if it is the same on both sides.
        confidence, simultaneous: see `compare`.

    Raises:
        InputError: persons that are no ids, or of two types.
        ParameterError: a side without reports; a mechanism without shares and means, or one that fits all reports at
            once.

    Returns:
        See `Comparison`. With fewer than ten effective persons on a side intervals are unbounded, and p-values 1; with
        fewer than ten for each value there is no test of all.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(epsilon=50.0)  # so large that there is no noise
    >>> ids = [*range(100)] * 2  # two reports of each
    >>> found = compare_persons(m, ([True] * 100 + [False] * 100, ids), ([True] * 120 + [False] * 80, ids))
    >>> found.differences.round(3).tolist(), found.p_value < 1e-4
    ([-0.1, 0.1], True)
    """
    (reports, persons), (others, whose) = before, after
    asked = ComparePersons(confidence, simultaneous)
    return asked.of_persons(mechanism, (reports, others), (persons, whose))
