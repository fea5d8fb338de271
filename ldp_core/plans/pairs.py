"""Pairs of columns, of which a record answers one with the whole epsilon: tables of two columns, and of one.

A pair of columns with d1 and d2 values is a column of d1 d2 values. A record draws one of the D (D - 1) / 2 pairs and
answers it alone, as in `ldp_core.plans.sampled`, whose tallies and variances these are. So a table costs
V(epsilon) D (D - 1) / 2, n times the variance of a share that nobody has, where columns that are perturbed by
themselves cost V(epsilon / D)^2: a joint domain costs bytes, not error (V of OUE and of subset selection hardly depends
on the number of values).

**One column** is in D - 1 pairs. Of pair j m_j records answer. The sum of the weights of a row's cells, u[a], is
unbiased for 1[x = a]. It has the variance V1 for a record with a and V0 for another one, which follow from the
covariances of the cells. With f_j[a] = mean of u[a] and weights h_j in proportion to m_j / V0_j,

    f[a] = sum over j of h_j f_j[a]                                         (best linear unbiased for a small f)
    n variance = n sum of h_j^2 / m_j (V0_j + (V1_j - V0_j) f) + f (1 - f) (n sum of h_j^2 / m_j - 1) n / (n - 1)

since people answer one pair each: given the draw the noise is independent, and those who answer the pairs are disjoint
samples without replacement, of which two means have the covariance -S^2 / n (W. G. Cochran, "Sampling Techniques",
1977, Section 2.9). In a sample of a large population the last factor is n sum of h_j^2 / m_j.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from operator import eq
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import Codes
from ldp_core.errors import ParameterError
from ldp_core.exact.composition import History, Spent
from ldp_core.inputs import inputs_from_dict
from ldp_core.inputs.domain import Domain
from ldp_core.limits import DEFAULT, VARIABLE
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.parameters import check_integer, derived, parameter
from ldp_core.plans.sampled import SampledColumn


def joint_domain(first: Domain, second: Domain) -> Domain:
    """All pairs of values as text, ``["ios", false]``, row by row: JSON, so that no two are the same.

    Raises:
        ParameterError: values outside a domain have no row; or more pairs than `ldp_core.limits.Limits.labels`, so that
            no plan with them could be read.
    """
    if (cells := first.size * second.size) > DEFAULT.labels:
        raise ParameterError(
            f"they have {cells} pairs of values, more than the limit labels={DEFAULT.labels}: merge rare values, or "
            f"set {VARIABLE}"
        )
    return Domain(list(_cells(first, second)))


def _cells(first: Domain, second: Domain) -> Iterator[str]:
    """The values of `joint_domain`, one by one: of a stranger's plan they may be too many and too long to keep."""
    if "none" in (first.unmatched, second.unmatched):
        raise ParameterError('a pair has a value of each column: unmatched is "error" or a label, not "none"')
    return (json.dumps(both, ensure_ascii=False) for both in product(first.values, second.values))


@dataclass(frozen=True, init=False)
class SampledPair(SampledColumn):
    """Pairs of values of two columns, of which each record tells one of several pairs and leaves the others null.

    Args:
        inner: the frequency oracle of the joint domain, see `joint_domain`.
        columns: how many pairs are drawn from; 1 if there are only two columns.
        first, second: a mapping with the column's name, ``column``, and its ``domain`` (and ``unmatched``).

    Raises:
        ParameterError: another domain than that of the pairs.

    >>> from ldp_core import PrivacyPlan
    >>> plan = PrivacyPlan.pairs({"os": ["ios", "web"], "crashed": [False, True]}, epsilon=1.0)
    >>> plan["os_crashed"].domain.values
    ('["ios", false]', '["ios", true]', '["web", false]', '["web", true]')
    """

    name: ClassVar[str] = "sampled_pair"

    columns: int = parameter(check_integer, low=1, high=(1 << 16) - 1)
    of: tuple[tuple[str, Domain], tuple[str, Domain]] = derived()
    """Both columns' names and values."""

    def __init__(
        self, inner: FrequencyOracle, *, columns: int, first: Mapping[str, Any], second: Mapping[str, Any]
    ) -> None:
        super().__init__(inner, columns=columns)
        one, two = (_source(source) for source in (first, second))
        cells, given = _cells(one[1], two[1]), self.domain
        same = given.unmatched == "error" and given.size == one[1].size * two[1].size  # (and only then compare)
        if one[0] == two[0] or not same or not all(map(eq, given.values, cells)):
            raise ParameterError("a pair is of two columns, and its domain all pairs of their values, row by row")
        self._declare(of=(one, two))

    @override
    def parameters(self) -> dict[str, Any]:
        (one, domain), (two, other) = self.of
        sources = {"first": {"column": one, **domain.to_dict()}, "second": {"column": two, **other.to_dict()}}
        return {**super().parameters(), **sources}

    @override
    def sources(self, name: str) -> dict[str, Any]:
        return dict(self.of)

    @override
    def spent_by(self, history: History) -> Spent:
        """A pair changes when either of its columns does: with c changes of each it has up to 2 c + 1 values."""
        changes = None if history.changes is None else len(self.of) * history.changes
        return super().spent_by(replace(history, changes=changes))

    @override
    def codes(self, values: Mapping[str, Any], name: str) -> Codes:
        one, two = (domain.encode(values[source], column=source).astype(np.int64) for source, domain in self.of)
        return (one * self.shape[1] + two).astype(self.domain.code_dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """(d1, d2), the numbers of values."""
        return self.of[0][1].size, self.of[1][1].size


def _source(given: Mapping[str, Any]) -> tuple[str, Domain]:
    """The name and the values of one of the two columns."""
    rest = dict(given) if isinstance(given, Mapping) else {}
    name = rest.pop("column", None)
    if not isinstance(name, str) or not {"domain"} <= rest.keys() <= {"domain", "unmatched"}:
        raise ParameterError('first and second have "column", "domain" and perhaps "unmatched"')
    domain = inputs_from_dict(rest)
    if not isinstance(domain, Domain):
        raise ParameterError("a pair is of columns of listed values")
    return name, Domain.of(domain)
