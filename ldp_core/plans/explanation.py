"""A plan in words and numbers: its table, the errors to expect, and what it promises, once it is shuffled too."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from fractions import Fraction

import pyarrow as pa

from ldp_core.accounting.people import best_guess, shuffled_epsilon
from ldp_core.arrays.arrow import table_of
from ldp_core.errors import ParameterError, warn_user
from ldp_core.exact.composition import ChangeTimes
from ldp_core.exact.probability import exp_above, float_above
from ldp_core.inputs.domain import Domain
from ldp_core.mechanism import ExpectedError, Mechanism
from ldp_core.parameters import check_epsilon, check_integer, check_open, shown
from ldp_core.plans.contents import PlanContents
from ldp_core.plans.drawn import DrawnColumn
from ldp_core.plans.fake import FakeDataColumn
from ldp_core.tables import aligned, folded


def contents(plan: PlanContents) -> list[tuple[str, ...]]:
    """The rows of the table that shows a plan."""
    rows: list[tuple[str, ...]] = [("column", "mechanism", "values", "epsilon")]
    rows += [(c, m.title, m.inputs.summary, _spends(m)) for c, m in plan.columns.items()]
    rows += [(c, "kept as it is", "", "unprotected") for c in plan.keep]
    rows += [("total a record", "", "", epsilon_above(plan.epsilon))]
    return rows


def seed_warning(plan: PlanContents) -> list[str]:
    """A line if the plan has a seed."""
    return [] if plan.seed is None else [f"seeded with {plan.seed}: repeatable, and therefore NOT private"]


def warn_of_seed(plan: PlanContents) -> None:
    """Warn, where records are perturbed, of a plan that has a seed."""
    for said in seed_warning(plan):
        warn_user(f"the plan is {said}: for tests and simulation. Perturb people's records with plan.seeded(None)")


def explanation(
    plan: PlanContents,
    n: int,
    *,
    records: Iterable[int],
    keyed: bool,
    total: float | None,
    delta: float | None,
    repeats: float,
) -> str:
    """See `PrivacyPlan.explain`."""
    if isinstance(table_of(n), (pa.Table, pa.RecordBatch)):
        raise ParameterError(
            "n is the number of reports, got a frame: plan.explain(len(frame)), or of Polars df.ldp.explain(plan)"
        )
    check_integer("n", n, low=0)
    if (repeats := check_epsilon("repeats", repeats)) < 1:
        raise ParameterError(f"repeats must be at least 1, got {repeats!r}")
    keyed = keyed or plan.memoized  # (the noise of all columns)
    rows = [("column", "mechanism", "epsilon", "margin, 95 %")]
    warnings = []
    for name, m in plan.columns.items():
        outlook, worth = outlook_of(m, n, repeats, keyed=keyed)
        rows.append((name, m.title, _spends(m), outlook.margin))
        if outlook.advice is not None:
            warnings.append(f"{name}: {outlook.advice}")
        if worth < n:
            warnings.append(
                f"{name}: a person's reports have noise in common: if values stay, {n:,} reports are worth "
                f"{worth:,} of as many people"
            )
    rows += [(name, "kept as it is", "unprotected", "") for name in plan.keep]
    rows.append(("total a record", "", epsilon_above(plan.epsilon), ""))
    learnt: list[str] = []
    if plan.seed is None:
        learnt = _promises(plan, n, total=total, delta=delta, shared=keyed and repeats > 1)
    parts = [aligned(rows) + folded(warnings), _of_a_person(plan, records, keyed), folded(learnt) + seed_warning(plan)]
    return "\n\n".join("\n".join(part) for part in parts if part)


def outlook_of(m: Mechanism, n: int, repeats: float, *, keyed: bool) -> tuple[ExpectedError, int]:
    """`Mechanism.explain` of n records, of which each person has so many; and how many of other people they are worth.

    A count is one of all records, and what the advice takes more of are reports of as many people.
    """
    worth = math.ceil(n / (1 + (repeats - 1) * m.common_noise(keyed=keyed)))
    found = m.explain(worth)
    if worth < n:
        error = found.share * n if found.unit == "records" else found.error
        found = found._replace(error=error, advice=found.advice and f"{found.advice} (reports of as many people)")
    return found, worth


def _of_a_person(plan: PlanContents, records: Iterable[int], keyed: bool) -> list[str]:
    """What several records of one person spend, as lines."""
    if not isinstance(records, Iterable):
        raise ParameterError(f"records must be numbers of records, as [1, 25], got {shown(records)}")
    counts = (*(check_integer("records", k, low=1) for k in records), None)
    head = ("records of one person", *("any number" if k is None else f"{k:,}" for k in counts))
    cases: list[tuple[str, int | None, ChangeTimes]] = [
        ("epsilon, if values never change", 0, "secret"),
        ("epsilon, if they change in secret", None, "secret"),
    ]
    if keyed:
        cases.append(("epsilon, if they change in public", None, "public"))
    rows = []
    for name, changes, times in cases:
        each = [plan.epsilon_of(k, changes=changes, change_times=times, keyed=keyed) for k in counts]
        rows.append((name, *("no bound" if math.isinf(one) else epsilon_above(one) for one in each)))
    if len({row[1:] for row in rows}) == 1:
        rows = [("epsilon together", *rows[0][1:])]
    fakes = [name for name, m in plan.columns.items() if isinstance(m, FakeDataColumn)]
    seen = f"keyed noise: which of the columns {fakes} a person answers is seen once values change"
    table = aligned([head, *rows], numbers=range(1, len(head)))
    return table + (folded([seen]) if fakes and keyed else [])


def _spends(mechanism: Mechanism) -> str:
    """What a report spends; and all reports about one value together, where the mechanism remembers."""
    in_all = getattr(getattr(mechanism, "inner", mechanism), "epsilon_infinity", None)
    return epsilon_above(mechanism.epsilon) + ("" if in_all is None else f" ({epsilon_above(in_all)} in all)")


def shuffled(columns: Mapping[str, Mechanism], epsilon: Fraction, n: int, delta: float, *, rows: bool) -> float:
    """`PrivacyPlan.shuffled`; ``epsilon`` is that of a record.

    Without the rows, what is seen is made of one tally of reports for each column, and of one set of shuffled reports
    for all columns of which a record answers one: their epsilons and their deltas add up. It is made of the
    shuffled rows as well.
    """
    n, delta = check_integer("n", n, low=1), check_open("delta", delta)
    alone = [m for m in columns.values() if not isinstance(m, DrawnColumn)]
    if len(columns) == len(alone) == 1:
        return alone[0].shuffled(n, delta, rows=rows)
    whole = shuffled_epsilon(float_above(epsilon), n, delta)
    if rows:
        return whole
    drawn = max((m.epsilon for m in columns.values() if isinstance(m, DrawnColumn)), default=None)
    part = math.nextafter(delta / (len(alone) + (drawn is not None)), 0.0)
    spent = [m.shuffled(n, part, rows=False) for m in alone]
    if drawn is not None:
        spent.append(shuffled_epsilon(drawn, n, part))
    return min(float_above(sum(map(Fraction, spent), Fraction(0))), whole)


def _promises(plan: PlanContents, n: int, *, total: float | None, delta: float | None, shared: bool) -> list[str]:
    """Lines: one record, all reports of a person, the histograms of shuffled records, if no noise is ``shared``."""
    columns, epsilon = plan.columns, plan.exact_epsilon
    inputs = [m.inputs for m in columns.values()]
    values = inputs[0].size if len(inputs) == 1 and isinstance(inputs[0], Domain) else 2
    lines = [promise("one record", float_above(epsilon), values=values)]
    if total is not None:
        lines.append(promise("all reports of a person", check_epsilon("total", total), values=values))
    if delta is not None:
        delta = check_open("delta", delta)
        if shared:  # n records are not n clones: 400 equal ones of 20 people hide as little as 20
            return [*lines, "shuffled records: no bound, as those of a person share their noise: shuffle one of each"]
        seen, summed = (shuffled(columns, epsilon, n, delta, rows=rows) for rows in (True, False))
        pile = f"{n:,} shuffled records" + (f" that are alike in {list(plan.keep)}" if plan.keep else "")
        if seen > summed:
            lines.append(promise(pile, seen, values=values, delta=delta))
        lines.append(promise(f"histograms of {pile}", summed, values=values, delta=delta))
    return lines


# ---- an epsilon in plain words


def promise(what: str, epsilon: float, *, values: int = 2, delta: float = 0.0) -> str:
    """A sentence: the most that ``what`` tells anybody about a person. All numbers are rounded up.

    The odds of two values after the reports are seen are the odds before, times a ratio of probabilities, whose
    logarithm is at most epsilon (Bayes). With a delta there is no such factor, and only the guess is said.

    """
    if math.isinf(epsilon):
        return f"{what} (epsilon inf): there is no bound on what it tells"
    of = f"epsilon {epsilon_above(epsilon)}" + (f", delta {delta:.3g}" if delta else "")
    odds = "" if delta else f"odds between two values change at most {_factor(epsilon)}-fold; "
    guess = f"of 2 equally likely values the right one is guessed at most {_percent(epsilon, 2, delta)} of the time"
    guess += " (50 % without)"
    more = f", of {values} at most {_percent(epsilon, values, delta)} ({100 / values:.3g} %)" if values > 2 else ""
    return f"{what} ({of}): {odds}{guess}{more}"


def epsilon_above(epsilon: float, digits: int = 4) -> str:
    """So many digits, rounded up; what is above a shorter number by a float's error, as 0.1 is, has that number."""
    return "inf" if math.isinf(epsilon) else _up(Fraction(epsilon) * (1 - Fraction(1, 10**12)), digits)


def _factor(epsilon: float) -> str:
    if epsilon > 100:
        return "more than 10^43"
    factor = Fraction(exp_above(epsilon))
    if factor < _MILLION:
        return _up(factor, 3)
    least = _exponent(factor)
    return f"10^{least if 10**least >= factor else least + 1}"


_MILLION = 10**6


def _percent(epsilon: float, values: int, delta: float) -> str:
    """One decimal; near 100 % as many as it takes to tell the difference."""
    percent = 100 * Fraction(best_guess(epsilon, values=values, delta=delta))
    places = max(-_exponent(100 - percent), 1) if percent < 100 else 0
    return f"{float(math.ceil(percent * 10**places) / Fraction(10) ** places):.{places}f} %".replace(".0 %", " %")


def _up(x: Fraction | float, digits: int) -> str:
    """``x`` with so many significant digits, rounded up."""
    exact = Fraction(x)
    if not exact:
        return "0"
    unit = Fraction(10) ** (_exponent(exact) - digits + 1)
    value = float(min(math.ceil(exact / unit) * unit, Fraction(sys.float_info.max)))
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.{digits}g}"


def _exponent(x: Fraction) -> int:
    return math.floor(math.log10(x))
