"""What a plan holds: a mechanism for each perturbed column, the columns that are kept, and what a record spends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from ldp_core.errors import ParameterError, PlanError
from ldp_core.exact.composition import Composing, History, Spent
from ldp_core.exact.probability import float_above
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.parameters import Declared
from ldp_core.plans.drawn import DrawnColumn, DrawnColumns, composed

PLAN_WAYS = "PrivacyPlan({name: mechanism}) makes a plan, PrivacyPlan.from_toml(path) reads one"
"""Where plans come from, for who passes something else."""


class PlanContents(Declared, Composing):
    """The value itself: see `PrivacyPlan` for its arguments."""

    columns: Mapping[str, Mechanism]
    inputs: Mapping[str, Any]
    """The columns of records that the plan perturbs, and what they may hold."""
    keep: tuple[str, ...]
    seed: int | None
    drawn: DrawnColumns | None
    """The columns of which a record answers one; None if there are none."""
    _items: tuple[tuple[str, Mechanism], ...]

    def __init__(
        self,
        columns: Mapping[str, Mechanism],
        *,
        keep: Iterable[str] = (),
        seed: int | None = None,
        epsilon: None = None,
    ) -> None:
        if epsilon is not None:
            raise PlanError(
                "each mechanism of a plan has its own epsilon: PrivacyPlan.split(columns, epsilon=) divides one"
            )
        if not isinstance(columns, Mapping):
            raise PlanError(f"a plan maps column names to mechanisms, got {type(columns).__name__}: {PLAN_WAYS}")
        if isinstance(keep, str) or not isinstance(keep, Iterable):
            raise PlanError(f"keep is a list of column names, got {type(keep).__name__}")
        columns, keep = dict(columns), tuple(keep)
        if not all(isinstance(name, str) for name in keep):
            raise PlanError("keep is a list of column names, and names are text")
        if not columns:
            raise PlanError("a plan needs at least one perturbed column")
        for name, mechanism in columns.items():
            _check_column(name, mechanism)
        inputs = sources_of(columns)
        both = sorted((columns.keys() | inputs) & set(keep))
        if both or len(set(keep)) < len(keep):
            raise PlanError(f"columns {both or list(keep)} are named twice; a column is either perturbed or kept")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer))):
            raise PlanError(f"seed must be an integer or None, got {type(seed).__name__}")
        drawn = tuple((name, m) for name, m in columns.items() if isinstance(m, DrawnColumn))
        try:
            all_drawn = DrawnColumns(drawn) if drawn else None
        except ParameterError as error:
            raise PlanError(str(error)) from None
        items = tuple(columns.items())
        self._declare(
            columns=MappingProxyType(columns),
            inputs=MappingProxyType(inputs),
            keep=keep,
            seed=None if seed is None else int(seed),
        )
        self._declare(drawn=all_drawn, _items=items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlanContents) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._items, self.keep, self.seed

    def __iter__(self) -> Iterator[str]:
        """Names of the columns of a report: the perturbed ones, then the kept ones."""
        return iter((*self.columns, *self.keep))

    def __getitem__(self, column: str) -> Mechanism:
        if column not in self.columns:
            raise PlanError(f"the plan does not perturb column {column!r}; it perturbs {sorted(self.columns)}")
        return self.columns[column]

    @property
    def epsilon(self) -> float:
        """What one record spends over all its columns: the sum (sequential composition). See `epsilon_of` for several.

        Columns of which it answers one spend the largest epsilon among them, once.
        """
        return float_above(self.exact_epsilon)

    @property
    def exact_epsilon(self) -> Fraction:
        """`epsilon` before it is rounded to a float, for budgets."""
        return Fraction(composed(self.columns.values(), lambda m: Fraction(m.epsilon)))

    def spent_by(self, history: History) -> Spent:
        """`epsilon_of` before it is rounded to a float, for budgets."""
        history = replace(history, keyed=history.keyed or self.memoized)
        return composed(self.columns.values(), lambda m: m.spent_by(history))

    @property
    def memoized(self) -> bool:
        """Whether a mechanism is memoized, so that the noise of all columns is keyed."""
        return any(m.memoized for m in self.columns.values())

    def check_noise(self, *, keyed: bool) -> None:
        """Raise `ParameterError` if a mechanism is memoized and the noise is not keyed."""
        for mechanism in self.columns.values():
            (mechanism.inner if isinstance(mechanism, DrawnColumn) else mechanism).check_noise(keyed=keyed)

    def sources(self, column: str) -> dict[str, Any]:
        """The columns of records that a column of reports is made from, and what they may hold: one, or a pair's."""
        return sources_of({column: self[column]})

    def values_of(self, column: str, values: Mapping[str, Any]) -> Any:
        """What the mechanism of a column takes, of values of its `sources`: of a pair they are taken row by row."""
        if list(values) == [column]:
            return values[column]
        m: Any = self[column]
        return m.inputs.arrow_values.take(pa.array(m.codes(values, column)))

    @property
    def oracles(self) -> dict[str, FrequencyOracle]:
        """The columns of which histograms can be made."""
        return {name: m for name, m in self.columns.items() if isinstance(m, FrequencyOracle)}

    def check_oracles(self) -> None:
        """Raise `PlanError` unless a histogram can be made of every perturbed column."""
        others = sorted(self.columns.keys() - self.oracles.keys())
        if others:
            raise PlanError(
                f"columns {others} are not perturbed by a frequency oracle: there is no histogram of them "
                "(of numbers take the mean, of a sketch give candidates, sketch.over([...]))"
            )


def sources_of(columns: Mapping[str, Mechanism]) -> dict[str, Any]:
    """`PlanContents.inputs`; raise `PlanError` if two columns of reports are made from another kind of values."""
    found: dict[str, Any] = {}
    for column, m in columns.items():
        for name, inputs in m.sources(column).items():
            if found.setdefault(name, inputs) != inputs:
                raise PlanError(f"column {name!r} has other values in {column!r} than in the columns before it")
    return found


def enough_to_differ(plan: PlanContents) -> int:
    """Of so many reports 30 are others, on average, when they are drawn anew: none with a probability of exp(-30).

    Of a column of epsilon e a report is another one than that of the same value with a probability of about exp(-e).
    """
    return math.ceil(30 * math.exp(min(30.0, *(mechanism.epsilon for mechanism in plan.columns.values()))))


def refuse_private(columns: Mapping[str, Mechanism], keys: Iterable[str | None], *, perturbed: bool = True) -> None:
    """Raise `PlanError` if records are grouped by raw values of a column that ``columns`` of reports are made from.

    Once they are ``perturbed``, a column of such a name holds reports, unless pairs are made from it.
    """
    given = set(keys)
    if private := [name for name in sources_of(columns) if name in given and not (perturbed and name in columns)]:
        raise PlanError(
            f"columns {private} are private, says the plan: their raw values have no place beside the reports. A table "
            "says how two of them go together (frame.ldp.table, ldp_beam.Table)"
        )


def _check_column(name: object, mechanism: object) -> None:
    """Raise `PlanError` unless these are a column's name and its mechanism."""
    if not isinstance(name, str) or not isinstance(mechanism, Mechanism):
        got = f"a class, {mechanism.__name__}" if isinstance(mechanism, type) else type(mechanism).__name__
        raise PlanError(
            f"a plan maps column names to mechanisms, got {got} for {name!r}; "
            "PrivacyPlan.split(columns, epsilon=) makes mechanisms of lists of values"
        )
