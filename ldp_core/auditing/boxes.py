"""What is audited, by its claim: a mechanism, a plan, or a number and somebody's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ldp_core.auditing.columns import Part
from ldp_core.auditing.inputs import inputs_of
from ldp_core.auditing.readings import Reading, reading
from ldp_core.errors import ParameterError
from ldp_core.mechanism import Mechanism
from ldp_core.noise.keyed import Keyed
from ldp_core.noise.secret import Secret
from ldp_core.parameters import check_epsilon, check_integer
from ldp_core.plans.drawn import composed
from ldp_core.plans.plan import PrivacyPlan

BlackBox: TypeAlias = Callable[..., Any]
"""An array of values for each position of an input -> reports of them, or a tuple of reports."""


@dataclass(frozen=True)
class Box:
    """A black box, and what is known of it from outside.

    Attributes:
        name: what tables call it.
        perturb: the black box.
        inputs: to tell apart: each a tuple of values, one for each argument of ``perturb``.
        claimed: epsilon.
        exact: epsilon, where it is known.
        reading: what the claimed mechanism itself reads in reports, besides the reports themselves.
    """

    name: str
    perturb: BlackBox
    inputs: Sequence[tuple[Any, ...]]
    claimed: float
    exact: float | None
    reading: Reading


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
        return _of_mechanism(claim, perturb, inputs, epsilon, rounds, keyed, name)
    if rounds > 1:
        raise ParameterError("rounds are of a mechanism: give a function the values of all rounds, as a tuple each")
    if isinstance(claim, PrivacyPlan):
        return _of_plan(claim, perturb, inputs, epsilon, keyed, name)
    claimed = check_epsilon("the claimed epsilon", claim)
    if perturb is None or inputs is None:
        raise ParameterError("a number claims nothing by itself: give perturb and inputs too")
    title = name or getattr(perturb, "__name__", type(perturb).__name__)
    return Box(str(title), perturb, _tuples(inputs), claimed, None, _nothing)


def _of_mechanism(
    m: Mechanism,
    perturb: BlackBox | None,
    inputs: Sequence[Any] | None,
    epsilon: float | None,
    rounds: int,
    keyed: bool,
    name: str | None,
) -> Box:
    keyed = keyed or m.memoized
    title = name or m.title + (f", {rounds} reports" if rounds > 1 else "")
    if inputs is None:
        chosen = [(value,) * rounds for value in inputs_of(m)]
    else:
        chosen = _tuples(inputs)
        rounds = len(chosen[0])
    changes = max(sum(one != next_ for one, next_ in pairwise(row)) for row in chosen)
    claimed = m.epsilon_of(rounds, changes=changes, keyed=keyed) if epsilon is None else epsilon
    if math.isinf(claimed):
        raise ParameterError(
            "no number bounds what reports of these changing inputs spend: give epsilon, what they are said to spend"
        )
    exact = m.realized_epsilon if rounds == 1 else None
    if perturb is None:
        m.check_noise(keyed=keyed)
        perturb = _Rounds(m, keyed)
    return Box(title, perturb, chosen, claimed, exact, reading([m] * rounds, chosen))


def _of_plan(
    plan: PrivacyPlan,
    perturb: BlackBox | None,
    inputs: Sequence[Any] | None,
    epsilon: float | None,
    keyed: bool,
    name: str | None,
) -> Box:
    if plan.seed is not None:
        raise ParameterError("the noise of a seeded plan is no noise: audit plan.seeded(None)")
    mechanisms = list(plan.columns.values())
    if inputs is None:
        each = [inputs_of(m) for m in mechanisms]
        inputs = [tuple(values[k % len(values)] for values in each) for k in range(max(map(len, each)))]
    keyed = keyed or plan.memoized
    if perturb is None:
        perturb = _Records(plan, keyed)
    exact = float(composed(mechanisms, lambda m: Fraction(m.realized_epsilon)))
    claimed = plan.epsilon if epsilon is None else epsilon
    chosen = _tuples(inputs)
    return Box(name or "the whole record", perturb, chosen, claimed, exact, reading(mechanisms, chosen))


def _nothing(_: Any) -> list[Part]:
    return []


def _tuples(inputs: Sequence[Any]) -> list[tuple[Any, ...]]:
    rows = [value if isinstance(value, tuple) else (value,) for value in inputs]
    if len(rows) < 2 or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise ParameterError("inputs are at least two values, or tuples of equal length, one value for each argument")
    return rows


@dataclass(frozen=True)
class _Rounds:
    """A mechanism as a black box: each call is of new persons, each argument is a round of the same persons."""

    mechanism: Mechanism
    keyed: bool

    def __call__(self, *rounds: pa.Array) -> tuple[Any, ...]:
        noise = _new_persons(len(rounds[0])) if self.keyed else None
        return tuple(self.mechanism.perturb(values, randomness=noise) for values in rounds)


@dataclass(frozen=True)
class _Records:
    """A plan as a black box: each argument is a column of the same records."""

    plan: PrivacyPlan
    keyed: bool

    def __call__(self, *columns: pa.Array) -> tuple[Any, ...]:
        noise = _new_persons(len(columns[0])) if self.keyed else None
        values = dict(zip(self.plan.columns, columns, strict=True))
        return tuple(self.plan.perturb_columns(values, noise, packed=False).values())


def _new_persons(n: int) -> Keyed:
    return Keyed(Secret.generate(), np.arange(n), column="audited")
