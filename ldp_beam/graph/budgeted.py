"""Whether what a ledger has charged for is what is drawn after it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from apache_beam.pvalue import PCollection

from ldp_beam.graph.upstream import transforms_before
from ldp_core import ParameterError


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
