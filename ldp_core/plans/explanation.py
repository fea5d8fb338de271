"""A plan in words and numbers: its table, the errors to expect, and what it promises."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pyarrow as pa

from ldp_core.arrays.arrow import table_of
from ldp_core.errors import ParameterError
from ldp_core.exact.composition import ChangeTimes
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_integer
from ldp_core.plans.contents import PlanContents
from ldp_core.plans.fake import FakeDataColumn
from ldp_core.plans.promises import promises
from ldp_core.tables import aligned, folded


def contents(plan: PlanContents) -> list[tuple[str, ...]]:
    """The rows of the table that shows a plan."""
    rows: list[tuple[str, ...]] = [("column", "mechanism", "values", "epsilon")]
    rows += [(c, m.title, m.inputs.summary, _spends(m)) for c, m in plan.columns.items()]
    rows += [(c, "kept as it is", "", "unprotected") for c in plan.keep]
    rows += [("total a record", "", "", f"{plan.epsilon:.4g}")]
    return rows


def seed_warning(plan: PlanContents) -> list[str]:
    """A line if the plan has a seed."""
    return [] if plan.seed is None else [f"seeded with {plan.seed}: repeatable, and therefore NOT private"]


def explanation(
    plan: PlanContents, n: int, *, reports: Iterable[int], keyed: bool, total: float | None, delta: float | None
) -> str:
    """See `PrivacyPlan.explain`."""
    if isinstance(table_of(n), (pa.Table, pa.RecordBatch)):
        raise ParameterError(
            "n is the number of reports, got a frame: plan.explain(len(frame)), or of Polars df.ldp.explain(plan)"
        )
    check_integer("n", n, low=0)
    rows = [("column", "mechanism", "epsilon", "margin, 95 %")]
    warnings = []
    for name, m in plan.columns.items():
        outlook = m.explain(n)
        rows.append((name, m.title, _spends(m), outlook.margin))
        if outlook.advice is not None:
            warnings.append(f"{name}: {outlook.advice}")
    rows += [(name, "kept as it is", "unprotected", "") for name in plan.keep]
    rows.append(("total a record", "", f"{plan.epsilon:.4g}", ""))
    learnt = [] if plan.seed is not None else promises(plan.columns, plan.exact_epsilon, n, total=total, delta=delta)
    parts = [
        aligned(rows) + folded(warnings),
        _of_a_person(plan, reports, keyed),
        folded(learnt) + seed_warning(plan),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _of_a_person(plan: PlanContents, reports: Iterable[int], keyed: bool) -> list[str]:
    """What several reports of one person spend, as lines."""
    counts = (*(check_integer("reports", k, low=1) for k in reports), None)
    head = ("records of one person", *("any number" if k is None else f"{k:,}" for k in counts))
    cases: list[tuple[str, int | None, ChangeTimes]] = [
        ("epsilon, if values never change", 0, "secret"),
        ("epsilon, if they change in secret", None, "secret"),
    ]
    if keyed or plan.memoized:
        cases.append(("epsilon, if they change in public", None, "public"))
    rows = []
    for name, changes, times in cases:
        spent = [plan.epsilon_of(k, changes=changes, change_times=times, keyed=keyed) for k in counts]
        rows.append((name, *("no bound" if math.isinf(s) else f"{s:.4g}" for s in spent)))
    if len({row[1:] for row in rows}) == 1:
        rows = [("epsilon together", *rows[0][1:])]
    fakes = [name for name, m in plan.columns.items() if isinstance(m, FakeDataColumn)]
    shown = f"keyed noise: which of the columns {fakes} a person answers is seen once values change"
    table = aligned([head, *rows], numbers=range(1, len(head)))
    return table + (folded([shown]) if fakes and (keyed or plan.memoized) else [])


def _spends(mechanism: Mechanism) -> str:
    """What a report spends; and all reports about one value together, where the mechanism remembers."""
    in_all = getattr(getattr(mechanism, "inner", mechanism), "epsilon_infinity", None)
    return f"{mechanism.epsilon:.4g}" + ("" if in_all is None else f" ({in_all:.4g} in all)")
