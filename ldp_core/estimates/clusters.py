"""Several reports of one person: people are independent, their reports are not.

An estimated share is f = sum_g W_g / sum_g m_g, over the G people: W_g is the sum of the weights of the m_g reports of
person g (`ldp_core.estimates.weights`), which are alike if the value is, and more so if the noise is keyed or has a
permanent answer. Linearized, as the ratio of two sums over independent people, it has the variance

    V = E / (E - 1) sum_g (W_g - f m_g)^2 / (sum_g m_g)^2        (W. G. Cochran, "Sampling Techniques", 3rd ed., 1977,
                                                                 Section 9A.2 and Equation 11.29 of clusters of unequal
                                                                 size; K.-Y. Liang, S. L. Zeger, Biometrika 73(1), 1986)

of whatever mechanism, keyed or fresh noise, and changing or constant values: the cluster-robust one. E is the effective
number of persons, (sum_g m_g)^2 / sum_g m_g^2 (Kish), which is G if all have as many reports. Cochran has G there, and
with it 20 people of whom one has 50 reports get intervals that hold 7 % of the time, as f is nearly that person's own
share. Of fewer than `LEAST_EFFECTIVE` the variance is not known: it is infinite. Its ratio to the
variance V_1 of as many reports of as many people is the design effect (L. Kish, "Survey Sampling", 1965). Intervals are
score intervals of the n V_1 / V reports that these are worth (E. L. Korn, B. I. Graubard, "Confidence Intervals for
Proportions with Small Expected Number of Positive Counts Estimated from Survey Data", Survey Methodology 24(2), 1998),
with the quantile of Student's distribution with E - 1 degrees of freedom.

**Without ids**: if nobody has more than r reports in a tally, the variance is at most r times that of independent
reports. The sum over g of T_g = sum_i X_gi, over the m_g <= r reports of each, has the variance

    sum_g Var(T_g) = sum_g sum_ij Cov(X_gi, X_gj) <= sum_g m_g sum_i Var(X_gi) <= r sum_g sum_i Var(X_gi)

as |Cov(X, Y)| <= sqrt(Var(X) Var(Y)) (Cauchy and Schwarz) and (sum_i a_i)^2 <= m sum_i a_i^2 of m numbers (the same).
It is reached by r equal reports, as keyed noise makes them of a constant value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_core.arrays.arrow import column_of, plain
from ldp_core.arrays.types import F64, I64
from ldp_core.errors import InputError, ParameterError
from ldp_core.estimates.base import Population
from ldp_core.parameters import check_integer
from ldp_core.reports import Native

LEAST_EFFECTIVE = 10
"""Effective persons from which on a variance is computed from their differences."""
_COUNTERS = 1 << 21
"""Of the tallies of single persons, at a time."""


def check_repeats(name: str, value: int | None) -> int | None:
    """Return ``value``; raise `ParameterError` unless it is None or an integer from 1 on."""
    return None if value is None else check_integer(name, value, 1)


def check_persons_population(population: Population) -> None:
    """Raise `ParameterError` for a population of which persons are not a sample of many."""
    if isinstance(population, int):
        raise ParameterError(
            'where persons are told apart, they are a sample of many: population="many", or leave it out; what of a '
            "person's reports is noise is not known, so that no finite population can be corrected for"
        )


def codes_of(persons: Any, n: int) -> tuple[I64, int]:
    """A number for each report, the same for those of one person, from 0; and how many persons there are.

    Args:
        persons: n ids: integers, text or binary, of Arrow or numpy.

    Raises:
        InputError: not as many as there are reports, or nulls.
    """
    given = column_of(persons)
    ids = plain(given) if isinstance(given, pa.Array) else pa.array(given)
    if len(ids) != n or ids.null_count:
        raise InputError(
            f"persons must be the id of the person of each of {n:,} reports, got {len(ids):,} of which "
            f"{ids.null_count:,} are null"
        )
    ids = ids if pa.types.is_dictionary(ids.type) else ids.dictionary_encode()
    used, codes = np.unique(ids.indices.to_numpy(zero_copy_only=False).astype(np.int64), return_inverse=True)
    return codes, len(used)


def tallies_of(mechanism: Any, reports: Native, codes: I64, people: int) -> Iterator[tuple[I64, I64]]:
    """n and the counters of each person's reports: int64[k], int64[k, counters], some persons at a time."""
    order = np.argsort(codes, kind="stable")
    ends = np.concatenate(([0], np.cumsum(np.bincount(codes, minlength=people))))
    step = max(_COUNTERS // mechanism.counters, 1)
    for first in range(0, people, step):
        last = min(first + step, people)
        mine = order[ends[first] : ends[last]]
        yield np.diff(ends[first : last + 1]), mechanism.count_reports(reports[mine], codes[mine] - first, last - first)


def variance_of_sum(persons: Iterable[tuple[Any, Any]]) -> tuple[F64, float]:
    """n^2 V, float64[d] or float64[1], n being the sum of m, and the degrees of freedom: see this module's text.

    Args:
        persons: some at a time: W, float64[k, d], and m, int64[k, 1].
    """
    moments = [_moments(w, m) for w, m in persons]
    if not moments:
        return np.full(1, np.inf), 1.0
    w, m, ww, wm, mm = (sum(parts) for parts in zip(*moments, strict=True))
    effective = float(m[0]) ** 2 / max(float(mm[0]), 1.0)
    if effective < LEAST_EFFECTIVE:
        return np.full(1, np.inf), 1.0
    f = w / np.maximum(m, 1)
    made: F64 = np.maximum(ww - 2 * f * wm + f**2 * mm, 0)
    return made * effective / (effective - 1), effective - 1


def _moments(w: Any, m: Any) -> tuple[F64, ...]:
    return w.sum(axis=0), m.sum(axis=0), (w**2).sum(axis=0), (w * m).sum(axis=0), (m * m).sum(axis=0)


def student(z: float, degrees: float) -> float:
    """About the quantile of Student's distribution where the normal one is z (Abramowitz, Stegun 1972, 26.7.5).

    >>> round(student(1.959964, 9), 2), round(student(1.959964, 99), 3)
    (2.26, 1.984)
    """
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
