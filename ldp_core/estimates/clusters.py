"""Several reports of one person: people are independent, their reports are not.

An estimated share is f = sum_g W_g / n over the G people: W_g is the sum of the weights of the m_g reports of person g
(`ldp_core.estimates.weights`), and n = sum_g m_g. Linearized, as the ratio of two sums over independent people, it has
the variance sum_g E[r_g^2] / n^2, r_g = W_g - f m_g (W. G. Cochran, "Sampling Techniques", 3rd ed., 1977, Section 9A.2
and Equation 11.29 of clusters of unequal size; K.-Y. Liang, S. L. Zeger, Biometrika 73(1), 1986), of whatever
mechanism, keyed or fresh noise, and changing or constant values. With X_gi the weight of report i of person g, and s(f)
the known variance of one,

    sum_g r_g^2 <= sum_g m_g sum_i (X_gi - f)^2      (Cauchy and Schwarz)      E[sum_i (X_gi - f)^2] = m_g s(f)

and both sides are equal where all reports of a person are. So the variance is R M s(f) / n, where M = sum_g m_g^2 / n
is the most that the design effect can be (L. Kish, "Survey Sampling", 1965), and R, the left side's part of the right
one, is what reports tell: a ratio estimator, which is 1 for certain if noise is keyed and values stay. If persons of
many reports have other values, the right side is more than M n s(f): then M is the right side over n s(f). (If it is
less, errors are too large: there the safe side is kept.) The right side needs no single reports: of a weight that has
two values s(f) is a quadratic, and (X - f)^2 = s(f) + s'(f) (X - f). With E = n^2 / sum_g m_g^2, the effective number
of persons (Kish), the design effect is

    T = min(M, max(1, R M E / (E - 1)))

in place of Cochran's G / (G - 1): of 20 people of whom one has 50 reports f is nearly that person's own share. Of fewer
than `LEAST_EFFECTIVE` the variance is not known: it is infinite. And of a value that few persons have, or all but a
few, they do not tell how much alike a person's values are. So the part f (1 - f) of s(f), that of the values, has the
factor

    T + (M - T) 2 / (2 + f (1 - f) n / M)

which is M, as if values stayed for certain, where f is 0 or 1, and T where many persons have the value. (The weight 2
is ours: with 4 and 8 intervals held up to two points more often in simulations of the cases of `benchmarks.people`.)
Of means, numbers far away (`mean.far_numbers`) have the factor M, and n / M persons tell how many of them there are.
Intervals are score intervals of these variances (E. L. Korn, B. I. Graubard, "Confidence Intervals for Proportions with
Small Expected Number of Positive Counts Estimated from Survey Data", Survey Methodology 24(2), 1998), with the quantile
of Student's distribution with E - 1 degrees of freedom.

**Without ids**: if nobody has more than r reports in a tally, the variance is at most r times that of independent
reports. The sum over g of T_g = sum_i X_gi, over the m_g <= r reports of each, has the variance

    sum_g Var(T_g) = sum_g sum_ij Cov(X_gi, X_gj) <= sum_g m_g sum_i Var(X_gi) <= r sum_g sum_i Var(X_gi)

as |Cov(X, Y)| <= sqrt(Var(X) Var(Y)) (Cauchy and Schwarz) and (sum_i a_i)^2 <= m sum_i a_i^2 of m numbers (the same).
It is reached by r equal reports, as keyed noise makes them of a constant value. This holds of whatever is a sum over
reports, and so of ranges, of A - p N of curves and quantiles (`ordered` in this room), of pairs, and of u - m w of
ratios. Of a vector of such sums the covariances are at most r times as large in every direction; so a chi-square
statistic over r is too large no more often than that of independent reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ldp_core.arrays.arrow import CONVERSION_ERRORS, column_of, plain
from ldp_core.arrays.types import F64, I64
from ldp_core.errors import DtypeError, InputError, ParameterError
from ldp_core.estimates.base import Population
from ldp_core.exact.hashing import check_id_type
from ldp_core.reports import Native

LEAST_EFFECTIVE = 10
"""Effective persons from which on a variance is computed from their differences."""
_COUNTERS = 1 << 21
"""Of the tallies of single persons, at a time."""


def unsaid_repeats(column: str) -> ParameterError:
    """To raise where noise is keyed, and nobody says how often a person reports."""
    return ParameterError(
        f"column {column!r}: the noise of these reports is keyed, so that several reports of one person share it, and "
        "intervals of independent reports are too narrow: say repeats=1 if each person is at most once in what is "
        f"estimated (a group, a window), repeats=k if k times (the question says it, if one is given){OR_PERSON}"
    )


OR_PERSON = ", or of a histogram or mean person=COLUMN where an id is there"


def check_persons_population(population: Population) -> None:
    """Raise `ParameterError` for a population of which persons are not a sample of many."""
    if isinstance(population, int):
        raise ParameterError(
            'where persons are told apart, they are a sample of many: population="many", or leave it out; what of a '
            "person's reports is noise is not known, so that no finite population can be corrected for"
        )


def codes_of(persons: Any, n: int) -> tuple[I64, int]:
    """A number for each of n reports, the same for those of one person, from 0; and how many persons there are."""
    given = column_of(persons)
    ids = None
    with suppress(*CONVERSION_ERRORS):
        ids = plain(given) if isinstance(given, pa.Array) else pa.array(given)
    if ids is None:
        raise DtypeError("persons must be integers, text or binary: the column cannot be compared")
    check_id_type(ids.type)
    ids = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
    if len(ids) != n or ids.null_count:
        raise InputError(
            f"persons must be the id of the person of each of {n:,} reports, got {len(ids):,} of which "
            f"{ids.null_count:,} are null"
        )
    used, codes = np.unique(ids.indices.to_numpy(zero_copy_only=False).astype(np.int64), return_inverse=True)
    return codes, len(used)


def tallies_of(mechanism: Any, reports: Native, codes: I64, people: int) -> Iterator[tuple[I64, I64]]:
    """n and the counters of each person's reports: int64[k], int64[k, counters], some persons at a time."""
    order = np.argsort(codes, kind="stable")
    ends = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=people))))
    step = max(_COUNTERS // mechanism.counters // 2, 1) * 2  # (even: of both sides of a person)
    for first in range(0, people, step):
        last = min(first + step, people)
        mine = order[ends[first] : ends[last]]
        yield np.diff(ends[first : last + 1]), mechanism.count_reports(reports[mine], codes[mine] - first, last - first)


class Persons(NamedTuple):
    """Sums over persons, of the sums W of weights and the numbers m of reports of each: float64[d], m float64[1].

    Those of other persons add up.
    """

    w: F64
    m: F64
    ww: F64
    wm: F64
    mm: F64
    ms: F64
    """Of m times the sum S of a person's squared weights."""

    @classmethod
    def of(cls, w: Any, m: Any, s: Any = 0.0) -> Persons:
        """Given W, float64[k, d], m, int64[k, 1], and, where they are asked for, S, float64[k, d], of k persons."""
        return cls(*(x.sum(0) for x in (w, m, w**2, w * m, m * m, m * s)))

    @classmethod
    def total(cls, parts: Iterable[Persons]) -> Persons:
        """The sums over all persons, of sums over some."""
        return cls(*(sum(some, np.zeros(1)) for some in zip(*(_NOBODY, *parts), strict=True)))

    @property
    def most(self) -> float:
        """M: the most that the design effect can be."""
        return float(self.mm[0]) / max(float(self.m[0]), 1.0)

    @property
    def effective(self) -> float:
        """E."""
        return float(self.m[0]) / max(self.most, 1.0)

    @property
    def degrees(self) -> float:
        """Of freedom of Student's distribution."""
        return max(self.effective, LEAST_EFFECTIVE) - 1

    def squares(self, f: F64) -> F64:
        """The sum of r_g^2."""
        return np.maximum(self.ww - 2 * f * self.wm + f**2 * self.mm, 0)

    def effect(self, f: F64, bound: F64, variance: F64) -> tuple[F64, F64]:
        """T and M of shares or means f, given a ``bound`` of `squares`; T is infinite of too few persons.

        Args:
            f, bound: see above.
            variance: that f would have of as many independent reports.
        """
        part = np.divide(self.squares(f), bound, out=np.ones_like(f), where=bound > 0)
        alone = variance * self.m**2
        most = np.maximum(np.divide(bound, alone, out=np.ones_like(f), where=alone > 0), max(self.most, 1.0))
        if self.effective < LEAST_EFFECTIVE:
            return np.full(f.shape, np.inf), most
        return np.clip(part * most * self.effective / (self.effective - 1), 1, most), most

    def effect_of_mean(self, f: F64, variance: F64) -> tuple[F64, F64]:
        """T and M of means f, bounded by the squares of the reports."""
        return self.effect(f, self.ms - 2 * f * self.wm + f**2 * self.mm, variance)


_NOBODY = (np.zeros(1),) * 6


def student(z: float, degrees: Any) -> Any:
    """About the quantile of Student's distribution where the normal one is z (Abramowitz, Stegun 1972, 26.7.5).

    >>> round(student(1.959964, 9), 2), round(student(1.959964, 99), 3)
    (2.26, 1.984)
    """
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3


def normal(t: F64, degrees: Any) -> F64:
    """About the normal quantile where Student's is t: by D. L. Wallace, Annals of Mathematical Statistics 30(4), 1959.

    >>> normal(np.array([2.26, -1.984]), 9).round(2).tolist(), normal(np.array([2.26, -1.984]), 99).round(2).tolist()
    ([1.96, -1.76], [2.23, -1.96])
    """
    return np.copysign(np.sqrt(degrees * np.log1p(t**2 / degrees)), t) * (8 * degrees + 1) / (8 * degrees + 3)
