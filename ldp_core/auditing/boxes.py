"""What is audited, by its claim: a mechanism, a plan, or a number and somebody's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise, permutations
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ldp_core.auditing.inputs import inputs_of, labels_of
from ldp_core.auditing.readings import Reading, reading
from ldp_core.errors import ParameterError
from ldp_core.inputs.domain import Domain
from ldp_core.mechanism import Mechanism
from ldp_core.noise.keyed import Keyed
from ldp_core.noise.secret import Secret
from ldp_core.parameters import check_epsilon, check_integer
from ldp_core.plans.drawn import composed
from ldp_core.plans.plan import PrivacyPlan

MOST_INPUTS = 32

BlackBox: TypeAlias = Callable[..., Any]
"""An array of values for each position of an input -> reports of them, or a tuple of reports."""


@dataclass(frozen=True)
class Box:
    """A black box, and what is known of it from outside.

    ``inputs`` are tuples of values, one for each argument of ``perturb``; ``exact`` is epsilon, where it is known;
    ``reading`` what the claimed mechanism itself reads in reports; ``values`` all those of the declared domain, if
    there is one and nobody chose inputs; ``of_pairs`` what is claimed of two of the inputs, where it is less.
    """

    name: str
    perturb: BlackBox
    inputs: Sequence[tuple[Any, ...]]
    claimed: float
    exact: float | None
    reading: Reading
    values: Sequence[Any] = ()
    of_pairs: Mapping[tuple[int, int], float] = field(default_factory=dict)

    def claim(self, pair: tuple[int, int]) -> float:
        """The claimed epsilon of two inputs, by their positions."""
        return self.of_pairs.get(pair, self.claimed)


def box_of(
    claim: Mechanism | PrivacyPlan | float,
    perturb: BlackBox | None,
    inputs: Sequence[Any] | None,
    epsilon: float | None,
    rounds: int,
    keyed: bool,
    name: str | None,
) -> Box:
    """What `audit` was asked to audit; see there."""
    check_integer("rounds", rounds, low=1, high=64)
    epsilon = None if epsilon is None else check_epsilon("epsilon", epsilon)
    if isinstance(claim, Mechanism):
        box = _of_mechanism(claim, inputs, rounds, keyed)
    elif rounds > 1:
        raise ParameterError("rounds are of a mechanism: give a function the values of all rounds, as a tuple each")
    elif isinstance(claim, PrivacyPlan):
        box = _of_plan(claim, inputs, keyed)
    else:
        claimed = check_epsilon("the claimed epsilon", claim)
        if perturb is None or inputs is None:
            raise ParameterError("a number claims nothing by itself: give perturb and inputs too")
        title = str(getattr(perturb, "__name__", type(perturb).__name__))
        box = Box(title, perturb, _tuples(inputs), claimed, None, lambda _: [])
    of_pairs: dict[tuple[int, int], float] | None = None if epsilon is None else {}
    given: dict[str, Any] = {"name": name, "perturb": perturb, "claimed": epsilon, "of_pairs": of_pairs}
    box = replace(box, **{which: value for which, value in given.items() if value is not None})
    if math.isinf(box.claimed):
        raise ParameterError(
            "no number bounds what reports of these changing inputs spend: give epsilon, what they are said to spend"
        )
    return box


def _of_mechanism(m: Mechanism, inputs: Sequence[Any] | None, rounds: int, keyed: bool) -> Box:
    """Each argument of the black box is a round of the same persons."""
    keyed = keyed or m.memoized
    title = m.title + (f", {rounds} reports" if rounds > 1 else "")
    if inputs is None:
        chosen = [(value,) * rounds for value in inputs_of(m)]
    else:
        chosen = _tuples(inputs)
        rounds = len(chosen[0])

    def perturb(*values: pa.Array) -> tuple[Any, ...]:
        noise = _new_persons(len(values[0])) if keyed else None
        return tuple(m.perturb(each, randomness=noise) for each in values)

    changes = max(sum(one != next_ for one, next_ in pairwise(row)) for row in chosen)
    claimed = m.epsilon_of(rounds, changes=changes, keyed=keyed)
    exact = m.realized_epsilon if rounds == 1 else None
    values = m.inputs.labels if inputs is None and rounds == 1 and isinstance(m.inputs, Domain) else ()
    return Box(title, perturb, chosen, claimed, exact, reading([m] * rounds, chosen), values)


def _of_plan(plan: PrivacyPlan, inputs: Sequence[Any] | None, keyed: bool) -> Box:
    """Each argument of the black box is a column of the same records."""
    if plan.seed is not None:
        raise ParameterError("the noise of a seeded plan is no noise: audit plan.seeded(None)")
    mechanisms = list(plan.columns.values())
    private = plan.inputs
    if inputs is None:
        each = [inputs_of(plan[name]) if name in plan.columns else labels_of(of) for name, of in private.items()]
        inputs = [tuple(values[k % len(values)] for values in each) for k in range(max(map(len, each)))]
        inputs += _others(each, MOST_INPUTS - len(inputs))
    keyed = keyed or plan.memoized

    def perturb(*columns: pa.Array) -> tuple[Any, ...]:
        noise = _new_persons(len(columns[0])) if keyed else None
        values = dict(zip(private, columns, strict=True))
        return tuple(plan.perturb_columns(values, noise, packed=False).values())

    exact = float(composed(mechanisms, lambda m: Fraction(m.realized_epsilon)))
    chosen = _tuples(inputs)
    if len(chosen[0]) != len(private):
        raise ParameterError(f"inputs of this plan are tuples of {len(private)} values, of {[*private]}")
    of_pairs = {}  # two records are told apart by the columns in which they differ, and by no other
    for x, y in permutations(range(len(chosen)), 2):
        unlike = {source for source, a, b in zip(private, chosen[x], chosen[y], strict=True) if a != b}
        differ = [m for name, m in plan.columns.items() if not unlike.isdisjoint(plan.sources(name))]
        of_pairs[x, y] = float(composed(differ, lambda m: Fraction(m.epsilon)))
    values = dict(zip(private, zip(*chosen, strict=True), strict=True))
    taken = [
        list(plan.values_of(name, {source: values[source] for source in plan.sources(name)})) for name in plan.columns
    ]
    read = reading(mechanisms, list(zip(*taken, strict=True)))
    return Box("the whole record", perturb, chosen, plan.epsilon, exact, read, of_pairs=of_pairs)


def _others(each: Sequence[Sequence[Any]], most: int) -> list[tuple[Any, ...]]:
    """Records of which one differs from the first in a column alone, or, of many columns, any two columns differ."""
    n = len(each)
    other = np.eye(n, dtype=int) if n <= most else np.arange(n) >> np.arange((n - 1).bit_length())[:, None] & 1
    return [tuple(values[k % len(values)] for k, values in zip(row, each, strict=True)) for row in other]


def _tuples(inputs: Sequence[Any]) -> list[tuple[Any, ...]]:
    rows = [value if isinstance(value, tuple) else (value,) for value in inputs]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise ParameterError("inputs are at least two values, or tuples of equal length, one value for each argument")
    return rows


def _new_persons(n: int) -> Keyed:
    return Keyed(Secret.generate(), np.arange(n), column="audited")
