"""What a plan promises once its records are shuffled, and in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from ldp_core.accounting.people import shuffled_epsilon
from ldp_core.accounting.words import promise
from ldp_core.exact.probability import float_above
from ldp_core.inputs.domain import Domain
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_epsilon, check_integer, check_open
from ldp_core.plans.drawn import DrawnColumn


def shuffled(columns: Mapping[str, Mechanism], epsilon: Fraction, n: int, delta: float, *, rows: bool) -> float:
    """`PrivacyPlan.shuffled`; ``epsilon`` is that of a record.

    Without the rows, what is seen is made of one shuffled pile of reports for each column, and of one for all columns
    of which a record answers one: their epsilons and their deltas add up. It is made of the shuffled rows as well.
    """
    n, delta = check_integer("n", n, low=1), check_open("delta", delta)
    alone = [m for m in columns.values() if not isinstance(m, DrawnColumn)]
    if len(columns) == len(alone) == 1:
        return alone[0].shuffled(n, delta)
    whole = shuffled_epsilon(float_above(epsilon), n, delta)
    if rows:
        return whole
    drawn = max((m.epsilon for m in columns.values() if isinstance(m, DrawnColumn)), default=None)
    part = math.nextafter(delta / (len(alone) + (drawn is not None)), 0.0)
    spent = [m.shuffled(n, part) for m in alone]
    if drawn is not None:
        spent.append(shuffled_epsilon(drawn, n, part))
    return min(float_above(sum(map(Fraction, spent), Fraction(0))), whole)


def promises(
    columns: Mapping[str, Mechanism], epsilon: Fraction, n: int, *, total: float | None, delta: float | None
) -> list[str]:
    """Lines for `PrivacyPlan.explain`: one record, all reports of a person, the histograms of shuffled records."""
    inputs = [m.inputs for m in columns.values()]
    values = inputs[0].size if len(inputs) == 1 and isinstance(inputs[0], Domain) else 2
    lines = [promise("one record", float_above(epsilon), values=values)]
    if total is not None:
        lines.append(promise("all reports of a person", check_epsilon("total", total), values=values))
    if delta is not None:
        after = shuffled(columns, epsilon, n, delta, rows=False)
        lines.append(promise(f"histograms of {n:,} shuffled records", after, values=values, delta=delta))
    return lines
