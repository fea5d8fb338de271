"""Persons told apart: what each sent is summed in a window and key, and then all persons, in sums that add up.

Two sums, one after the other, count a person once only if the first says each person once: where a window has one pane,
and is the same for all persons of a key. Other windows and triggers are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import DefaultTrigger, TriggerFn
from apache_beam.transforms.window import NonMergingWindowFn, WindowFn
from typing_extensions import override

from ldp_beam.elements.ids import IdHash
from ldp_beam.estimates._partials import Key
from ldp_beam.estimates.combine import TalliesCombineFn, TallyCombineFn
from ldp_core import Mechanism, ParameterError, Tally
from ldp_core.engine import Pairs, Persons

_Sums: TypeAlias = tuple[Any, Any, list[Any]]
_AT_ONCE = 1024  # persons whose sums are made in one call


def person_of(column: str | None, question: Any, mechanism: Any) -> IdHash | None:
    """Whose the records are; raise `ParameterError` unless the question tells persons apart by the tallies of each."""
    if column is None:
        return None
    nothing = np.zeros(2, np.int64), np.zeros((2, mechanism.counters), np.int64)  # (of two persons, or of two sides)
    question.person_sums(mechanism, *nothing)
    return IdHash(column)


def refuse_panes(windows: WindowFn | None, trigger: TriggerFn | None, lateness: float, before: Any) -> None:
    """Raise `ParameterError` for windows that may be answered more than once, or are not the same for all persons."""
    if windows is None:
        windows, trigger, lateness = before.windowfn, before.triggerfn, before.allowed_lateness.micros
    is_once = isinstance(trigger or DefaultTrigger(), DefaultTrigger) and not lateness
    if not is_once or not isinstance(windows, NonMergingWindowFn):
        raise ParameterError(
            "person= sums what each person sent and then all persons, which is right where a window has one pane: "
            "leave out trigger and allowed_lateness, take fixed, sliding or global windows; or, in place of person=, "
            "give a question with repeats=, the most reports of one person in a window"
        )


class SumPersons(beam.PTransform[Any, Any]):
    """((key, person), tally) to (key, tally, sums): one of each key and window. Of two sides: pairs of tallies."""

    def __init__(self, mechanism: Mechanism, question: Any, *, sides: bool = False) -> None:
        super().__init__()
        self._sum = PersonsCombineFn(mechanism, question, sides=sides)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        each = pcoll | "Persons" >> beam.MapTuple(_without_person).with_output_types(tuple[Key, Any])
        summed = each | "Sum" >> beam.CombinePerKey(self._sum).with_output_types(tuple[Key, Any])
        return summed | "Flat" >> beam.MapTuple(_flat).with_output_types(Any)


def _without_person(key: Key, tally: Any) -> tuple[Key, Any]:
    return key[:-1], tally


def _flat(key: Key, summed: tuple[Any, Any]) -> tuple[Key, Any, Any]:
    return (key, *summed)


class PersonsCombineFn(beam.CombineFn):
    """Tallies of one person each, or pairs of two sides, to (tally of all, `Question.person_sums` of all)."""

    def __init__(self, mechanism: Mechanism, question: Any, *, sides: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mechanism, self._question, self._sides = mechanism, question, sides
        self._kind: Any = Pairs if sides else Persons
        self._total: Any = TalliesCombineFn([mechanism] * 2) if sides else TallyCombineFn(mechanism, question)

    @override
    def create_accumulator(self) -> _Sums:
        return self._total.create_accumulator(), self._kind.total([]), []

    @override
    def add_input(self, accumulator: _Sums, element: Any) -> _Sums:
        total, sums, each = accumulator
        total = self._total.add_input(total, element)
        tallies: list[Tally] = [*element] if self._sides else [element]
        if any(tally.n for tally in tallies):
            each += tallies
        return self.compact((total, sums, each)) if len(each) >= _AT_ONCE else (total, sums, each)

    @override
    def merge_accumulators(self, accumulators: Iterable[_Sums]) -> _Sums:
        totals, sums, _ = zip(*map(self.compact, [self.create_accumulator(), *accumulators]), strict=True)
        return self._total.merge_accumulators(totals), self._kind.total(sums), []

    @override
    def compact(self, accumulator: _Sums) -> _Sums:
        """Make sums of the persons that were added."""
        total, sums, each = accumulator
        if not each:
            return accumulator
        n, counters = np.array([one.n for one in each]), np.array([one.counters for one in each])
        return total, self._kind.total([sums, self._question.person_sums(self._mechanism, n, counters)]), []

    @override
    def extract_output(self, accumulator: _Sums) -> tuple[Any, Any]:
        total, sums, _ = self.compact(accumulator)
        return self._total.extract_output(total), sums
