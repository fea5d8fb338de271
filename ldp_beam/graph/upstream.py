"""What a pipeline has done before a step: known when it is built, for single records too, which carry no plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from apache_beam.pvalue import PCollection

from ldp_core import Mechanism, MechanismMismatchError, ParameterError, PlanError, PrivacyPlan
from ldp_core.engine import PLAN_WAYS, PlanTold, check_same, refuse_keys_in, refuse_reports_in


class EndsValues:
    """A transform whose elements are other data than what goes in: what was done before it says nothing of them.

    Attributes:
        made: the plan of the reports that come out; None if these are no reports.
    """

    made: PrivacyPlan | None = None


def check_plan(plan: Any) -> None:
    """Raise `PlanError` if this is no plan."""
    if not isinstance(plan, PrivacyPlan):
        raise PlanError(f"plan must be a PrivacyPlan, got {type(plan).__name__}: {PLAN_WAYS}")


def transforms_before(pcoll: PCollection[Any], *, until: type | None = None) -> Iterator[Any]:
    """The transforms that a collection comes from; of composite ones each that a step is a part of.

    Args:
        until: do not look at what is before a transform of this class.
    """
    seen: set[int] = set()
    ahead = [pcoll.producer]
    while ahead:
        step = ahead.pop()
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        before = [one.producer for one in step.inputs if isinstance(one, PCollection)]
        while step is not None:  # and the transforms that it is a part of
            if until is not None and isinstance(step.transform, until):
                before = []
            yield step.transform
            step = step.parent
        ahead += before


def refuse_other_reports(pcoll: PCollection[Any], column: str, mechanism: Mechanism) -> None:
    """Raise if the pipeline perturbs this column with another mechanism than this one.

    Raises:
        MechanismMismatchError: it does, or it leaves the column as it is.
    """
    for plan in _plans_before(pcoll):
        check_reports_of(plan, column, mechanism, "the Perturb before this step")


def refuse_perturbed(pcoll: PCollection[Any], columns: Iterable[str]) -> None:
    """Raise if the pipeline has perturbed one of these columns before.

    Raises:
        MechanismMismatchError: perturbing reports again makes estimates wrong.
    """
    names = set(columns)
    for plan in _plans_before(pcoll):
        refuse_reports_in(plan.columns.keys() & names, "the Perturb before this step")


def refuse_perturbed_keys(pcoll: PCollection[Any], by: Iterable[str]) -> None:
    """Raise if the pipeline has perturbed one of the columns to group by before.

    Raises:
        MechanismMismatchError: a group of equal reports has records of all values.
    """
    names = set(by)
    for plan in _plans_before(pcoll):
        refuse_keys_in(plan.columns.keys() & names, "the Perturb before this step")


def made_by(pcoll: PCollection[Any]) -> PrivacyPlan | None:
    """The plan of the transform whose output this is, with no step in between that may have changed the records."""
    step = pcoll.producer
    while step is not None:
        if isinstance(step.transform, EndsValues):
            return step.transform.made
        step = step.parent
    return None


def check_reports_of(plan: PrivacyPlan | PlanTold | None, column: str, mechanism: Mechanism, who: str) -> None:
    """Raise if ``plan``, which made the data, did not make reports of this column with this mechanism.

    A plan without the column says nothing: the column may have had another name.

    Raises:
        MechanismMismatchError: it names another mechanism, or keeps the column.
    """
    if plan is None:
        return
    if column in plan.keep:
        raise MechanismMismatchError(f"column {column!r} is kept as it is, says {who}: it holds no reports")
    if column in plan.columns:
        check_same(plan.columns[column], mechanism, column, who)


def _plans_before(pcoll: PCollection[Any]) -> list[PrivacyPlan]:
    """The plans of the reports in a collection."""
    steps = transforms_before(pcoll, until=EndsValues)
    return [step.made for step in steps if isinstance(step, EndsValues) and step.made is not None]


class BudgetsNoise:
    """A transform that lets through what a budget pays for.

    Attributes:
        keyed: whether it charges for keyed noise.
        each: epsilon of one record, as declared.
    """

    keyed: bool
    each: Fraction


def refuse_unbudgeted(pcoll: PCollection[Any], *, keyed: bool, epsilon: Fraction) -> None:
    """Raise if a ledger before this step charges less for a record, or for another kind of noise, than is drawn here.

    Of several steps after one ledger each is held to it alone: that together they are the plan, nobody checks.

    Raises:
        ParameterError: a ledger charges for the other kind of noise, or less.
    """
    for ledger in transforms_before(pcoll):
        if not isinstance(ledger, BudgetsNoise):
            continue
        if epsilon > ledger.each:
            raise ParameterError(
                f"the ledger before this step charges {float(ledger.each):g} for a record, and here it spends "
                f"{float(epsilon):g}: give the ledger the plan that perturbs"
            )
        if keyed and not ledger.keyed:
            raise ParameterError(
                "the ledger before this step charges for fresh noise, and with keyed noise reports also show that a "
                'value changed: give the ledger the plan, keyed=True, and changes=0 or change_times="public" if that '
                "is true"
            )
        if ledger.keyed and not keyed:
            raise ParameterError(
                "the ledger before this step charges for keyed noise, under which reports of one value are one: "
                "perturb with key= and id=, or leave out keyed=True"
            )
