"""What a plan's estimates would look like, without reports: one simulated tally per column, and what it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ldp_core.arrays.arrow import as_arrow
from ldp_core.arrays.types import I64
from ldp_core.charts.drawing import stacked
from ldp_core.charts.themes import Chart, Theme
from ldp_core.errors import ParameterError, PlanError
from ldp_core.estimates.registry import Ask, questions_of
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.sketches.base import Sketch
from ldp_core.parameters import check_integer
from ldp_core.plans.contents import PlanContents
from ldp_core.randomizer.perturbing import check_people
from ldp_core.simulated_counts import generator_of
from ldp_core.tables import preformatted, text_of
from ldp_core.tally import Tally

Data: TypeAlias = Any
"""A frame of Polars or pandas, an Arrow table or batch; or a mapping of columns to values, or to a mapping from values
to numbers or shares."""


@dataclass(frozen=True)
class Simulation(Mapping[str, Any]):
    """What one would see of each column of a plan: a mapping from its name to its estimate; see `PrivacyPlan.simulate`.

    Attributes:
        estimates: by column.
        tallies: from which they were made.
        people: how many people had each value, as it is counted (undeclared ones as "other" or the nearer end): by
            column (value, number) pairs. If they send several reports, so many times more.
    """

    estimates: Mapping[str, Any]
    tallies: Mapping[str, Tally]
    people: Mapping[str, tuple[tuple[Any, int], ...]]

    def __getitem__(self, column: str) -> Any:
        return self.estimates[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __repr__(self) -> str:
        return "\n\n".join(f"{name}: {estimate!r}" for name, estimate in self.estimates.items())

    def plot(self, *, shares: bool = False, top: int = 20, title: str = "", theme: Theme | None = "light") -> Chart:
        """What one would see of each column, beside the people that were simulated, as an Altair chart.

        Args:
            shares, top, title, theme: see `Result.plot`.

        >>> from ldp_core import PrivacyPlan, RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
        >>> chart = plan.simulate({"crashed": {True: 0.1, False: 0.9}}, n=30_000, seed=1).plot()
        >>> chart.to_dict()["title"]["subtitle"]
        ['30,000 reports, 95 % intervals', '2 of 2 intervals hold the truth (diamonds)']
        """
        charts = []
        for name, found in self.estimates.items():
            options: dict[str, Any] = {"title": name, "theme": None}
            if found.view.counts:
                drawn = [text_of(value) for value in found.to_arrow()["value"].to_pylist()]
                people = {text_of(value): true for value, true in truth_of(self.people[name]).items()}
                values = not people.keys().isdisjoint(drawn)  # and not ranges, or sets
                truth = {value: people.get(value, 0) for value in drawn if values}
                options |= {"truth": truth, "top": top, "shares": shares}
            charts.append(found.plot(**options))
        return stacked(charts, title, theme)

    def _repr_html_(self) -> str:
        return "".join(preformatted(name) + estimate._repr_html_() for name, estimate in self.estimates.items())


def truth_of(people: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """How many people have each value, or each item of their lists."""
    truth = Counter[Any]()
    for value, number in people:
        truth.update(dict.fromkeys(value if isinstance(value, list) else [value], number))
    return dict(truth)


def simulate(
    plan: PlanContents,
    data: Data,
    n: int | None,
    seed: int | np.random.Generator | None,
    confidence: float,
    ask: Mapping[str, Ask] | None = None,
    repeats: int = 1,
) -> Simulation:
    """See `PrivacyPlan.simulate`."""
    generator = generator_of(seed)
    people = {}
    for name, m in plan.columns.items():
        given = {source: _column(data, source) for source in plan.sources(name)}
        if len(given) > 1 and any(isinstance(one, Mapping) for one in given.values()):
            raise PlanError(f"columns {list(given)} are perturbed together: give their values row by row, in a table")
        people[name] = _people(name, m, plan.values_of(name, given), n)
    return simulated(plan.columns, people, generator, confidence, ask, repeats)


def simulated(
    columns: Mapping[str, Mechanism],
    people: Mapping[str, tuple[pa.Array, I64]],
    generator: np.random.Generator,
    confidence: float,
    ask: Mapping[str, Ask] | None = None,
    repeats: int = 1,
) -> Simulation:
    """Of each column the values, and how many people have each."""
    answering = {name: _answering(m, *people[name]) for name, m in columns.items()}
    questions = questions_of(answering, ask, confidence)
    if check_integer("repeats", repeats, 1) > 1:
        if own := [name for name, m in columns.items() if m.memoized]:
            raise ParameterError(
                f"columns {own} have permanent answers, which reports of a person share: their errors are what "
                "required_n(repeats=) and explain(repeats=) say; leave out repeats"
            )
        questions = {name: replace(question, repeats=repeats) for name, question in questions.items()}
    estimates, tallies, pairs = {}, {}, {}
    for name, m in columns.items():
        values, numbers = people[name]
        m.check_total(sum(numbers.tolist()) * repeats)
        tallies[name] = m.simulate_values(values, numbers * repeats, generator, name)  # (fresh noise is each report's)
        estimates[name] = questions[name].result(answering[name], tallies[name])
        pairs[name] = tuple(zip(m.inputs.counted(values), (numbers * repeats).tolist(), strict=True))
    return Simulation(estimates, tallies, pairs)


def _answering(m: Mechanism, values: pa.Array, people: I64) -> Mechanism:
    """What is asked: the mechanism; of a sketch, its most frequent values."""
    if not isinstance(m, Sketch):
        return m
    order = np.argsort(-people, kind="stable")[:_CANDIDATES]
    return m.over(values.take(pa.array(order)).to_pylist())


_CANDIDATES = 100


def _column(data: Data, name: str) -> Any:
    named = set(data.schema.names) if isinstance(data, (pa.Table, pa.RecordBatch)) else data
    if not isinstance(data, (pa.Table, pa.RecordBatch, Mapping)):
        raise PlanError(
            "data to simulate are a frame (Polars, pandas), an Arrow table or a mapping of columns, got "
            f"{type(data).__name__}; of a LazyFrame take .ldp.simulate(plan)"
        )
    if name not in named:
        raise PlanError(f"the plan names column {name!r}, which the data do not have; they have {sorted(named)}")
    return data[name] if isinstance(data, Mapping) else data.column(name)


def _people(name: str, m: Mechanism, column: Any, n: int | None) -> tuple[pa.Array, I64]:
    """Values, and how many people have each: as many as there are, or n with the same shares."""
    if isinstance(column, Mapping):
        values = as_arrow(list(column), m.inputs.kind, column=name)
        weights = np.array(list(column.values()))
    else:
        values = as_arrow(column, m.inputs.kind, column=name)
        weights = np.ones(len(values), np.int64)
        with suppress(pa.ArrowNotImplementedError):  # (Arrow counts no lists, half floats and decimals of 32 bits)
            counted = pc.value_counts(values)
            values, weights = counted.field("values"), counted.field("counts").to_numpy()
    if n is not None:
        return values, apportioned(name, weights, n)
    if weights.dtype.kind not in "iu":
        raise ParameterError(f"column {name!r} has shares: say of how many people, n=")
    return values, check_people(weights)


def apportioned(name: str, weights: Any, n: int) -> I64:
    """``n`` people in these proportions, as near as whole numbers can be (largest remainders)."""
    check_integer("n", n, 0, 1 << 62)
    shares = np.asarray(weights, float)
    if not shares.size:
        raise ParameterError(f"column {name!r}: there are no records, or values, to take the shares of {n} people from")
    if shares.ndim != 1 or not np.isfinite(shares).all() or shares.min() < 0 or not shares.sum():
        raise ParameterError(f"column {name!r}: shares must be numbers, at least 0, and not all 0")
    exact = shares / shares.sum() * n
    people: I64 = np.floor(exact).astype(np.int64)
    left = n - int(people.sum())
    people[np.argsort(people - exact, kind="stable")[: max(left, 0)]] += 1
    return people
