"""Whether the noise that a ledger has charged for is the noise that is drawn after it."""

from __future__ import annotations

from typing import Any

from apache_beam.pvalue import PCollection

from ldp_core import ParameterError


class ChargesForNoise:
    """A transform that lets through what a budget pays for.

    Attributes:
        keyed: whether it charges for keyed noise.
    """

    keyed: bool


def refuse_other_noise(pcoll: PCollection[Any], *, keyed: bool) -> None:
    """Raise if a ledger before this step charges for another kind of noise than is drawn here.

    Raises:
        ParameterError: a ledger charges for the other kind of noise.
    """
    if not any(ledger.keyed != keyed for ledger in _ledgers(pcoll)):
        return
    if keyed:
        raise ParameterError(
            "the ledger before this step charges for fresh noise, and with keyed noise reports also show that a value "
            'changed: give the ledger the plan, keyed=True, and changes=0 or change_times="public" if that is true'
        )
    raise ParameterError(
        "the ledger before this step charges for keyed noise, under which reports of one value are one: perturb with "
        "key= and id=, or leave out keyed=True"
    )


def _ledgers(pcoll: PCollection[Any]) -> list[ChargesForNoise]:
    """The ledgers that a collection comes from."""
    found: list[ChargesForNoise] = []
    seen: set[int] = set()
    ahead = [pcoll.producer]
    while ahead:
        step = ahead.pop()
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        ahead += [one.producer for one in step.inputs if isinstance(one, PCollection)]
        while step is not None:  # and the transforms that it is a part of
            if isinstance(step.transform, ChargesForNoise):
                found.append(step.transform)
            step = step.parent
    return found
