"""Counts of ranges of ordered values, of sets of values, and of coarser buckets of one's own choice."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Population, Question, check_population, refuse_mechanism, z_score
from ldp_core.estimates.histogram import Counted, entries, entries_schema
from ldp_core.estimates.ordered import Reader, reader_of
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open, parameter
from ldp_core.tables import View, about_whom, in_percent
from ldp_core.tally import Tally

End: TypeAlias = bool | int | float | str | dt.date | None
"""An end of a range: a label, an edge of cells (a date as such or as text in ISO 8601), or None for no end."""


@dataclass(frozen=True, eq=False, repr=False)
class Ranges(Counted):
    """Estimates of how many of ``n`` records are in each of k ranges, or sets; unbiased. All arrays are float64[k].

    The attributes are those of a `Histogram`; ``values`` are the ranges in words.

    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection(range(100), epsilon=50.0)
    >>> RangeEstimate(ranges=((20, 30), (31, None))).result(m, m.empty_tally()).values
    ('20 to 30', '31 to 99')
    """

    question: ClassVar[str] = "range"

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
        whom = about_whom(self.population)
        return f"Ranges of {self.n:,} reports, {in_percent(self.confidence)}% intervals (per range){whom}"

    @override
    def _texts(self) -> Sequence[str]:
        return self.values

    @override
    def to_arrow(self) -> pa.Table:
        """Table of the columns of a `Histogram`, one row per range; the values are text."""
        return self._entries(pa.array(self.values, pa.string()))


def _check_end(name: str, value: Any) -> Any:
    """A value as JSON has it; of a list a tuple of such."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return tuple(_check_end(name, one) for one in value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if value is not None and not isinstance(value, (bool, int, float, str, np.generic)):
        raise ParameterError(f"{name} must be a value, or left out (None) for no end, got {type(value).__name__}")
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class RangeEstimate(Question[Ranges]):
    """How many records are in a range, in several ranges, in coarser buckets, or in a set of values.

    Args:
        low, high: of labels, as whole numbers, both belong to the range. Of cells of numbers they are edges: a range
            that cuts a cell is refused. None: no end.
        ranges: in their place several pairs (low, high), which may overlap.
        edges: or the values with which each bucket but the first begins: of ages [18, 30] are the buckets up to 17, 18
            to 29, and from 30 on.
        values: or a set of labels, in any order, as of a domain without one.
        confidence: of the intervals, in (0, 1), of each one.
        population: whom they are about; see `HistogramEstimate`. `SquareWave` and `StochasticRounding` have errors of
            noise and sampling together in any case.
        repeats: the most reports of one person; see `HistogramEstimate`.

    A range or a set is one row, of the columns of a histogram; ``value`` is the range in words.

    Raises:
        ParameterError: none of these or several; when asked: none of the mechanism's values, or not in its order.

    >>> from ldp_core import SubsetSelection
    >>> m = SubsetSelection(range(100), epsilon=50.0)  # hardly any noise
    >>> tally = m.tally(m.perturb([17, 18, 45, 60]))
    >>> RangeEstimate(30, 45).result(m, tally).counts.round(6).tolist()
    [1.0]
    >>> found = RangeEstimate(edges=[18, 30]).result(m, tally)
    >>> found.values, found.counts.round(6).tolist()
    (('0 to 17', '18 to 29', '30 to 99'), [1.0, 1.0, 2.0])
    """

    name: ClassVar[str] = Ranges.question
    view: ClassVar[View] = Ranges.view
    linear: ClassVar[bool] = True

    low: End = parameter(_check_end, default=None)
    high: End = parameter(_check_end, default=None)
    ranges: Sequence[tuple[End, End]] | None = parameter(_check_end, default=None)
    edges: Sequence[End] | None = parameter(_check_end, default=None)
    values: Sequence[End] | None = parameter(_check_end, default=None)
    confidence: float = parameter(check_open, default=0.95)
    population: Population = parameter(check_population, default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [self.low is not None or self.high is not None]
        for name, example in _LISTS.items():
            value = getattr(self, name)
            given.append(value is not None)
            if value is not None and (not isinstance(value, tuple) or not value):
                raise ParameterError(f"{name} must be a list, as {example}")
        if sum(given) != 1:
            raise ParameterError("say one of low and high, ranges, edges and values, as low=18, as text range:low=18")
        if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in self.ranges or ()):
            raise ParameterError(f"ranges must be pairs of low and high, as {_LISTS['ranges']}")

    @property
    def single(self) -> bool:  # type: ignore[override]
        """Whether it is one range, or one set."""
        return self.ranges is None and self.edges is None

    def _asked(self, mechanism: Mechanism) -> tuple[Reader, list[str], I64]:
        """What reads tallies, the ranges in words, and from which cell to before which one; of a set, its codes."""
        reader = reader_of("a range", mechanism, self, ordered=self.values is None)
        if self.values is not None:
            if not hasattr(mechanism, "sums"):
                raise refuse_mechanism("a set of values", "a frequency oracle", mechanism)
            codes = [mechanism.code_of(value) for value in self.values]
            return reader, [" or ".join(mechanism.domain.texts[code] for code in codes)], np.array(codes)
        if self.edges is None:
            cells = [reader.between(low, high) for low, high in self.ranges or [(self.low, self.high)]]
        else:
            starts = [0, *(reader.between(edge, None)[0] for edge in self.edges), len(reader.ends[0])]
            cells = list(pairwise(starts))
            if any(beyond <= first for first, beyond in cells):
                raise ParameterError("edges must increase, and be above the first value: each begins a bucket")
        return reader, [reader.name(first, beyond) for first, beyond in cells], np.array(cells)

    @override
    def check(self, mechanism: Mechanism) -> None:
        self._asked(mechanism)

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        return entries_schema(pa.string())

    @override
    def result(self, mechanism: Any, tally: Tally) -> Ranges:
        asked = self._asked(mechanism)
        mechanism.check_tally(tally)
        names, arrays = self._arrays(mechanism, asked, np.array([tally.n]), tally.counters[None])
        counts, errors, low, high = (array[0] for array in arrays)
        about = (self.confidence, mechanism, self.population)
        return Ranges(tuple(names), tally.n, counts, errors, low, high, *about)

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        names, arrays = self._arrays(mechanism, self._asked(mechanism), n, counters)
        numbers = [array.reshape(-1) for array in arrays]
        table = entries(pa.array(names * len(n), pa.string()), np.repeat(n, len(names)), numbers)
        return table, np.full(len(n), len(names))

    def _arrays(
        self, mechanism: Any, asked: tuple[Reader, list[str], I64], n: I64, counters: I64
    ) -> tuple[list[str], Sequence[F64]]:
        (reader, names, cells), z = asked, z_score(self.confidence)
        reader.watch(n, counters)
        if self.values is None:
            return names, reader.ranges(n, counters, cells, z)
        weights = np.bincount(cells, minlength=mechanism.domain.size)[None] > 0
        counts, variances = mechanism.sums(n, counters, weights.astype(float))
        return names, reader.with_ends(n, counters, counts, variances, z, mechanism.sum_terms(n, counters, weights))


_LISTS = {"ranges": "[[30, 45], [60, 90]]", "edges": "[18, 30, 65]", "values": '["ios", "ipados"]'}
