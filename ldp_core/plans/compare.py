"""Which way to share one epsilon among several columns: split it, or draw the column that answers.

Before any data exist, from closed forms: what each column's mechanism, as `ldp_core.plans.sharing` chooses it, says of
its error (`Mechanism.explain`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from typing_extensions import override

from ldp_core.parameters import check_integer
from ldp_core.plans.plan import PrivacyPlan
from ldp_core.plans.sharing import Column
from ldp_core.tables import Row, Table

Way: TypeAlias = Literal["split", "sampled", "fake"]
"""`PrivacyPlan.split` (SPL), `PrivacyPlan.sampled` (SMP), `PrivacyPlan.fake` (RS+FD)."""


@dataclass(frozen=True)
class Sharing(Row):
    """One way, and what to expect of it: a row of the table that `compare` gives.

    Attributes:
        way: its name, which is that of the method of `PrivacyPlan`.
        plan: the plan itself.
        n: number of records.
        standard_errors: of each column, that of the estimated frequency of a value which one record in d holds; of
            numbers that of the mean in the worst case, as a share of the interval.
    """

    way: Way
    plan: PrivacyPlan
    n: int
    standard_errors: Mapping[str, float]

    @property
    def standard_error(self) -> float:
        """The root of the mean of the columns' variances."""
        return math.sqrt(sum(e**2 for e in self.standard_errors.values()) / len(self.standard_errors))

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
        }

    @override
    def texts(self) -> dict[str, str]:
        shares = (self.standard_error, self.standard_errors[self.worst])
        average, worst = (f"{100 * share:.4g} %" for share in shares)
        return {"plan": self.way, "std.error": average, "worst": worst, "in column": self.worst}


def compare(columns: Mapping[str, Column], epsilon: float, n: int) -> Table[Sharing]:
    r"""The three ways to share an epsilon among columns, the one with the least average variance first.

    Of numbers there are no fake data: then there are two ways.

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
    plan     std.error    worst  in column
    sampled    0.816 %  1.033 %  version
    fake       1.438 %  1.824 %  version
    split      1.452 %  1.841 %  version
    """
    n = check_integer("n", n, 1)
    plans: dict[Way, PrivacyPlan] = {
        "split": PrivacyPlan.split(columns, epsilon=epsilon),
        "sampled": PrivacyPlan.sampled(columns, epsilon=epsilon),
    }
    if len(plans["split"].oracles) == len(columns):
        plans["fake"] = PrivacyPlan.fake(columns, epsilon=epsilon)
    ways = []
    for way, plan in plans.items():
        errors = {name: m.explain(n).share for name, m in plan.columns.items()}
        ways.append(Sharing(way, plan, n, errors))
    return Table(tuple(sorted(ways, key=lambda sharing: sharing.standard_error)))
