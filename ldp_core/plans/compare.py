"""Which way to share one epsilon among several columns: split it, or draw the column that answers.

Before any data exist, from closed forms: what each column's mechanism, as `ldp_core.plans.sharing` chooses it, says of
its error (`Mechanism.explain`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypeAlias

from typing_extensions import override

from ldp_core.errors import ParameterError, PlanError
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.parameters import check_integer
from ldp_core.plans.answered import joint_of, margins
from ldp_core.plans.plan import PrivacyPlan
from ldp_core.plans.sharing import Column
from ldp_core.tables import Row, Table

Way: TypeAlias = Literal["split", "sampled", "fake", "pairs"]
"""`PrivacyPlan.split` (SPL), `PrivacyPlan.sampled` (SMP), `PrivacyPlan.fake` (RS+FD), `PrivacyPlan.pairs`."""


@dataclass(frozen=True)
class Sharing(Row):
    """One way, and what to expect of it: a row of the table that `compare` gives.

    Attributes:
        way: its name, which is that of the method of `PrivacyPlan`.
        plan: the plan itself.
        n: number of records.
        standard_errors: of each column, that of the estimated frequency of a value which one record in d holds; of
            numbers that of the mean in the worst case, as a share of the interval.
        table_errors: of each two columns, that of the estimated frequency of a pair of values which one record in d1 d2
            holds; empty if the plan's reports have no tables.
    """

    way: Way
    plan: PrivacyPlan
    n: int
    standard_errors: Mapping[str, float]
    table_errors: Mapping[tuple[str, str], float]

    @property
    def standard_error(self) -> float:
        """The root of the mean of the columns' variances."""
        return _average(self.standard_errors.values())

    @property
    def cell_error(self) -> float | None:
        """The root of the mean of the tables' variances; None if there are none."""
        return _average(self.table_errors.values()) if self.table_errors else None

    @property
    def worst(self) -> str:
        """The column with the largest error."""
        return max(self.standard_errors, key=lambda name: self.standard_errors[name])

    @override
    def values(self) -> dict[str, Any]:
        return {
            "way": self.way,
            "n": self.n,
            "standard_error": self.standard_error,
            "worst": self.standard_errors[self.worst],
            "worst_name": self.worst,
            "table_cell": self.cell_error,
        }

    @override
    def texts(self) -> dict[str, str]:
        shares = (self.standard_error, self.standard_errors[self.worst], self.cell_error)
        average, worst, cell = ("no table" if share is None else f"{100 * share:.4g} %" for share in shares)
        return {"plan": self.way, "std.error": average, "worst": worst, "in column": self.worst, "table cell": cell}


def compare(columns: Mapping[str, Column], epsilon: float, n: int) -> Table[Sharing]:
    r"""The four ways to share an epsilon among columns, the one with the least average variance of a column first.

    The last number is the error of a cell of a table of two columns. A note says which way to take for which questions.
    Of numbers there are no fake data and no pairs: then there are two ways. Pairs are of listed values, without
    mechanisms of your own.

    Args:
        columns: name to domain or `Interval`, or to a mechanism with an epsilon of its own; see `PrivacyPlan.split`.
        epsilon: what a record spends over all of them.
        n: number of records.

    Returns:
        A table: a `Sharing` a row.

    Raises:
        PlanError: fewer than two columns, or a bad one.
        ParameterError: n is not an integer, at least 1.

    >>> columns = {"os": range(4), "version": range(40), "crashed": [False, True]}
    >>> compare(columns, 1.0, 100_000)
    plan     std.error    worst  in column  table cell
    sampled    0.816 %  1.033 %  version    no table
    pairs      1.231 %  1.325 %  crashed    1.001 %
    fake       1.438 %  1.824 %  version    no table
    split      1.452 %  1.841 %  version    6.366 %
    For questions about one column at a time take sampled, for tables of two columns
    pairs.
    """
    n = check_integer("n", n, 1)
    plans: dict[Way, PrivacyPlan] = {
        "split": PrivacyPlan.split(columns, epsilon=epsilon),
        "sampled": PrivacyPlan.sampled(columns, epsilon=epsilon),
    }
    if len(plans["split"].oracles) == len(columns):
        plans["fake"] = PrivacyPlan.fake(columns, epsilon=epsilon)
    with suppress(PlanError):  # what `sampled` takes and pairs do not
        plans["pairs"] = PrivacyPlan.pairs(columns, epsilon=epsilon)
    ways = []
    for way, plan in plans.items():
        errors = {name: _typical(m, n) for name, m in plan.columns.items()}
        if way == "pairs":
            alone = margins(plan.columns)
            errors = {name: math.sqrt(alone[name].variance(1 / alone[name].domain.size) / n) for name in columns}
        ways.append(Sharing(way, plan, n, errors, _tables(plan, n)))
    ways.sort(key=lambda sharing: sharing.standard_error)
    tables = [(sharing.cell_error, sharing.way) for sharing in ways if sharing.cell_error is not None]
    note = f"For questions about one column at a time take {ways[0].way}"
    return Table(tuple(ways), note=note + (f", for tables of two columns {min(tables)[1]}." if tables else "."))


def _typical(m: Mechanism, n: int) -> float:
    """One of `Sharing.standard_errors`."""
    if isinstance(m, FrequencyOracle):
        return math.sqrt(m.variance(n, n / m.domain.size)) / n
    return m.explain(n).share


def _tables(plan: PrivacyPlan, n: int) -> dict[tuple[str, str], float]:
    """`Sharing.table_errors`."""
    try:
        pairs = {names: joint_of(plan.columns, names) for names in combinations(plan.inputs, 2)}
    except ParameterError:
        return {}
    return {names: math.sqrt(pair.cell_variance / n) for names, pair in pairs.items()}


def _average(errors: Collection[float]) -> float:
    """The root of the mean of the squares."""
    return math.sqrt(sum(e**2 for e in errors) / len(errors))
