"""Counts of ranges of ordered values, of sets of values, and of coarser buckets of one's own choice."""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Population, Question, check_population, refuse_mechanism, z_score
from ldp_core.estimates.histogram import Counted, entries, entries_schema
from ldp_core.estimates.ordered import Reader, reader_of, with_sampling
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open, parameter, shown
from ldp_core.tables import View
from ldp_core.tally import Tally

End: TypeAlias = bool | int | float | str | dt.date | None
"""An end of a range: a label, an edge of cells (a date as such or as text in ISO 8601), or None for no end."""


@dataclass(frozen=True, eq=False, repr=False)
class Ranges(Counted):
    """Estimates of how many of ``n`` records are in each of k ranges, or sets; unbiased. All arrays are float64[k].

    Attributes:
        values: the ranges in words.
        n: number of reports.
        counts: estimated number of records.
        standard_errors: of ``counts``.
        low, high: ends of the confidence interval of each count: all counts within z of their standard errors.
        frequencies, frequency_standard_errors, frequency_low, frequency_high: the same as shares: divided by ``n``.
        confidence: of the intervals, of each one.
        mechanism: that made the reports; None if it is not known.
        population: whom standard errors and intervals are about, see `HistogramEstimate`.
    """

    view: ClassVar[View] = View("count", ("value",))
    question: ClassVar[str] = "ranges"

    values: tuple[str, ...]
    n: int
    counts: F64
    standard_errors: F64
    low: F64
    high: F64
    confidence: float
    mechanism: Mechanism | None = None
    population: Population = None

    @override
    def _head(self) -> str:
        return f"Ranges of {self.n:,} reports, {self.confidence:.0%} intervals (per range)"

    @override
    def _texts(self) -> Sequence[str]:
        return self.values

    @override
    def to_arrow(self) -> pa.Table:
        """Table of the same columns as of a `Histogram`, one row per range; the values are text."""
        return self._entries(pa.array(self.values, pa.string()))


class _RangesQuestion(Question[Ranges]):
    """Base of the two questions."""

    view: ClassVar[View] = Ranges.view
    population: Population

    @abstractmethod
    def _cells(self, reader: Reader) -> I64:
        """int64[r, 2]: the ranges, each from a cell to before another one."""

    def _asked(self, mechanism: Mechanism) -> tuple[list[str], Reader, I64]:
        reader = reader_of("a range", mechanism, self.population)
        cells = self._cells(reader)
        return [reader.name(first, beyond) for first, beyond in cells.tolist()], reader, cells

    @override
    def check(self, mechanism: Mechanism) -> None:
        self._asked(mechanism)

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        return entries_schema(pa.string())

    @override
    def result(self, mechanism: Any, tally: Tally) -> Ranges:
        self.check(mechanism)
        mechanism.check_tally(tally)
        names, arrays = self._found(mechanism, np.array([tally.n]), tally.counters[None])
        return Ranges(
            tuple(names), tally.n, *(array[0] for array in arrays), self.confidence, mechanism, self.population
        )

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        names, arrays = self._found(mechanism, n, counters)
        values = pa.array(names * len(n), pa.string())
        table = entries(values, np.repeat(n, len(names)), [array.reshape(-1) for array in arrays])
        return table, np.full(len(n), len(names))

    def _found(self, mechanism: Any, n: I64, counters: I64) -> tuple[list[str], Sequence[F64]]:
        names, reader, cells = self._asked(mechanism)
        reader.watch(n, counters)
        return names, reader.ranges(n, counters, cells, z_score(self.confidence))


def _check_end(name: str, value: End) -> End:
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    if value is None or isinstance(value, (bool, int, float, str, np.generic)):
        return value.item() if isinstance(value, np.generic) else value
    raise ParameterError(f"{name} of a range must be a value, or None for no end, got {type(value).__name__}")


def _listed(name: str, value: Any, example: str) -> tuple[Any, ...] | None:
    if value is None:
        return None
    items = tuple(value) if isinstance(value, Iterable) and not isinstance(value, (str, bytes)) else ()
    if not items:
        raise ParameterError(f"{name} must be a list, as {example}, got {shown(value)}")
    return items


def _check_values(name: str, value: Any) -> tuple[End, ...] | None:
    items = _listed(name, value, '["ios", "ipados"]')
    return items and tuple(_check_end("a value", item) for item in items)


def _check_edges(name: str, value: Any) -> tuple[End, ...] | None:
    items = _listed(name, value, "[18, 30, 65]")
    return items and tuple(_check_end("an edge", item) for item in items)


def _check_ranges(name: str, value: Any) -> tuple[tuple[End, End], ...] | None:
    items = _listed(name, value, "[(30, 45), (60, None)]")
    if items is None:
        return None
    pairs = [_listed(name, item, "[(30, 45), (60, None)]") or () for item in items]
    if any(len(pair) != 2 for pair in pairs):
        raise ParameterError(f"{name} must be pairs (low, high), as [(30, 45), (60, None)]")
    return tuple((_check_end("low", low), _check_end("high", high)) for low, high in pairs)


@dataclass(frozen=True)
class RangeEstimate(_RangesQuestion):
    """How many records are in a range, or in a set of values.

    Args:
        low, high: of labels, as whole numbers, both belong to the range. Of cells of numbers they are edges: a range
            that cuts a cell is refused. None: no end.
        values: a set of labels in their place, in any order.
        confidence: of the interval, in (0, 1).
        population: whom it is about; see `HistogramEstimate`. `SquareWave` and `StochasticRounding` have errors of
            noise and sampling together in any case.

    Raises:
        ParameterError: neither or both of a range and a set, or what they are is none of the mechanism's.

    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection(range(100), epsilon=50.0)  # hardly any noise
    >>> RangeEstimate(30, 45).result(m, m.tally(m.perturb([29, 30, 45, 60]))).counts.round(6).tolist()
    [2.0]
    """

    name: ClassVar[str] = "range"
    single: ClassVar[bool] = True

    low: End = parameter(_check_end, default=None)
    high: End = parameter(_check_end, default=None)
    values: tuple[End, ...] | None = parameter(_check_values, default=None)
    confidence: float = parameter(check_open, default=0.95)
    population: Population = parameter(check_population, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.values is None) == (self.low is None and self.high is None):
            raise ParameterError("a range has low=, high= or both, as range(30, 45); or say a set, values=")

    @override
    def _cells(self, reader: Reader) -> I64:
        return np.array([reader.between(self.low, self.high)], np.int64)

    @override
    def _asked(self, mechanism: Mechanism) -> tuple[list[str], Reader, I64]:
        if self.values is None:
            return super()._asked(mechanism)
        reader = reader_of("a set of values", mechanism, self.population)
        if not hasattr(mechanism, "sums"):
            raise refuse_mechanism("a set of values", "a frequency oracle", mechanism)
        return [" or ".join(dict.fromkeys(map(str, self.values)))], reader, np.empty((0, 2), np.int64)

    @override
    def _found(self, mechanism: Any, n: I64, counters: I64) -> tuple[list[str], Sequence[F64]]:
        names, reader, cells = self._asked(mechanism)
        if self.values is None:
            return super()._found(mechanism, n, counters)
        reader.watch(n, counters)
        weights = np.zeros((1, mechanism.domain.size))
        weights[0, [mechanism.code_of(value) for value in self.values]] = 1
        found = mechanism.sums(n, counters, weights)
        return names, with_sampling(n, *found, self.population, z_score(self.confidence))


@dataclass(frozen=True)
class RangesEstimate(_RangesQuestion):
    """How many records are in each of several ranges, or in coarser buckets of one's own choice.

    Args:
        ranges: pairs (low, high) as of `RangeEstimate`, which may overlap.
        edges: in their place the values with which each bucket but the first begins: of ages [18, 30] are the buckets
            up to 17, 18 to 29, and from 30 on.
        confidence: of the intervals, in (0, 1), of each one.
        population: whom they are about; see `HistogramEstimate`.

    Raises:
        ParameterError: neither or both of ranges and edges, or what they are is none of the mechanism's.

    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection(range(100), epsilon=50.0)  # hardly any noise
    >>> found = RangesEstimate(edges=[18, 30]).result(m, m.tally(m.perturb([17, 18, 45, 60])))
    >>> found.values, found.counts.round(6).tolist()
    (('0 to 17', '18 to 29', '30 to 99'), [1.0, 1.0, 2.0])
    """

    name: ClassVar[str] = "ranges"

    ranges: tuple[tuple[End, End], ...] | None = parameter(_check_ranges, default=None)
    edges: tuple[End, ...] | None = parameter(_check_edges, default=None)
    confidence: float = parameter(check_open, default=0.95)
    population: Population = parameter(check_population, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.ranges is None) == (self.edges is None):
            raise ParameterError("say ranges=[(30, 45), (60, None)], or edges=[18, 30, 65] of buckets")

    @override
    def _cells(self, reader: Reader) -> I64:
        if self.ranges is not None:
            return np.array([reader.between(low, high) for low, high in self.ranges], np.int64)
        starts = [0, *(reader.between(edge, None)[0] for edge in self.edges or ()), len(reader.ends[0])]
        if any(later <= earlier for earlier, later in zip(starts, starts[1:], strict=False)):
            raise ParameterError("edges must increase, and be above the first value: each begins a bucket")
        return np.array([starts[:-1], starts[1:]], np.int64).T
