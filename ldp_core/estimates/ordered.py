"""Ordered values: counts of ranges, the curve of cumulative shares and its inverse, the quantiles, from one interface.

**Quantiles.** With A records up to t, N in all (the estimated number, where some may have no value), and p a share, the
sum T = A - p N has mean 0 if the share up to t is p. With B = N - A its variance is

    Var T = (1 - p) Var A + p Var B - p (1 - p) Var N,        plus p (1 - p) N if the people are a sample of many

All p with T^2 <= z^2 Var T, the roots of a quadratic (E. C. Fieller, JRSS B 16(2), 1954), are the interval of the share
up to t. The p-quantile is the first t with a share of at least p. So its interval goes from the first t whose share may
be p or more, to the last one of which the share below may be p or less (R. S. Woodruff, JASA 47(260), 1952). Where one
value holds much it is wider than it needs to be: either end fails less often than it may.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Population, refuse_mechanism, sampled_part, z_score
from ldp_core.estimates.distribution import Distributing, Distribution
from ldp_core.estimates.histogram import Counting
from ldp_core.estimates.plausibility import watch
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import shown
from ldp_core.tables import text_of
from ldp_core.tally import Tally


@runtime_checkable
class Ordered(Protocol):
    """What a mechanism of ordered values offers: a `FrequencyOracle`, by the order of its domain."""

    def range_counts(self, n: I64, counters: I64, low: I64, high: I64) -> tuple[F64, F64]:
        """Estimated counts of records with low <= code < high, and their variances about these people (noise only).

        Args:
            n: int64[k].
            counters: int64[k, c].
            low, high: int64[r].

        Returns:
            float64[k, r] twice.
        """
        ...


class Curve(NamedTuple):
    """Shares of the records up to the end of each of L cells, their errors and intervals: float64[k, L] each."""

    shares: F64
    errors: F64
    low: F64
    high: F64


@dataclass(frozen=True)
class Reader(ABC):
    """How the questions of this family read the tallies of one mechanism.

    Attributes:
        mechanism: whose tallies they are.
        population: whom intervals are about.
    """

    mechanism: Any
    population: Population

    @property
    @abstractmethod
    def ends(self) -> tuple[pa.Array, pa.Array]:
        """The lowest and the highest value of each cell."""

    @abstractmethod
    def between(self, low: Any, high: Any) -> tuple[int, int]:
        """Cells of a range; see `Inputs.between`."""

    @abstractmethod
    def curve(self, n: I64, counters: I64, z: float) -> Curve:
        """Cumulative shares of k tallies, with intervals of so many standard errors."""

    @abstractmethod
    def ranges(self, n: I64, counters: I64, cells: I64, z: float) -> tuple[F64, F64, F64, F64]:
        """Counts of the ranges ``cells``, int64[r, 2], their errors, low and high ends: float64[k, r] each."""

    @abstractmethod
    def quantiles(self, n: I64, counters: I64, probabilities: F64, confidence: float) -> list[pa.Array]:
        """Quantiles, low and high ends of their intervals: k times as many values each, null where not known."""

    def watch(self, n: I64, counters: I64) -> None:
        """Warn if tallies are not what reports add up to; by default the mechanism does when it is asked."""

    @property
    def quantile_type(self) -> pa.DataType:
        """Numbers as float64, all else as text."""
        kind = self.ends[0].type
        return pa.float64() if pa.types.is_integer(kind) or pa.types.is_floating(kind) else pa.string()

    def name(self, first: int, beyond: int) -> str:
        """A range in words: its one value, or its two ends."""
        lowest, highest = (text_of(end[at].as_py()) for end, at in zip(self.ends, (first, beyond - 1), strict=True))
        return lowest if lowest == highest else f"{lowest} to {highest}"

    def taken(self, cells: I64, which: int, known: Any) -> pa.Array:
        """The lowest (``which`` is 0) or the highest values of cells, as `quantile_type`; null where not known."""
        values = self.ends[which].take(pa.array(cells, mask=~np.broadcast_to(known, cells.shape)))
        if self.quantile_type == pa.string():
            return pa.array([None if value is None else text_of(value) for value in values.to_pylist()], pa.string())
        return values.cast(pa.float64())


class _OfCounts(Reader):
    """Of `Ordered`: all is linear and unbiased, so that intervals are normal ones, and nobody's shape is assumed."""

    @cached_property
    @override
    def ends(self) -> tuple[pa.Array, pa.Array]:
        made: tuple[pa.Array, pa.Array] = self.mechanism.inputs.ends
        return made

    @override
    def watch(self, n: I64, counters: I64) -> None:
        m = self.mechanism
        watch(m, n[:, None], counters, m.debias(n[:, None], counters)[0] if isinstance(m, Counting) else None)

    @override
    def between(self, low: Any, high: Any) -> tuple[int, int]:
        found: tuple[int, int] = self.mechanism.inputs.between(low, high)
        return found

    @override
    def ranges(self, n: I64, counters: I64, cells: I64, z: float) -> tuple[F64, F64, F64, F64]:
        counts, variances = self.mechanism.range_counts(n, counters, cells[:, 0], cells[:, 1])
        return with_sampling(n, counts, variances, self.population, z)

    @override
    def curve(self, n: I64, counters: I64, z: float) -> Curve:
        size = len(self.ends[0])
        first, last = np.zeros(size, np.int64), np.full(size, size)
        upto, v_upto = self.mechanism.range_counts(n, counters, first, first + np.arange(1, size + 1))
        whole, v_whole, v_above = upto[:, -1:], v_upto[:, -1:], v_upto
        if v_whole.any():
            v_above = self.mechanism.range_counts(n, counters, np.arange(1, size + 1), last)[1]
        sampling = sampled_part(self.population, n[:, None]) * np.maximum(whole, 0)
        square = z**2
        a = whole**2 - square * (v_whole - sampling)
        b = upto * whole + square * (v_above - v_upto - v_whole + sampling) / 2
        root = np.sqrt(np.maximum(b**2 - a * (upto**2 - square * v_upto), 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(whole > 0, upto / whole, np.nan)
            p = np.clip(shares, 0, 1)
            of_sum = (1 - p) * v_upto + p * v_above - p * (1 - p) * (v_whole - sampling)
            errors = np.sqrt(np.maximum(of_sum, 0)) / whole
            low, high = np.where(a > 0, (b - root) / a, 0.0), np.where(a > 0, (b + root) / a, 1.0)
        low[:, -1] = high[:, -1] = 1.0
        return Curve(shares, errors, np.clip(low, 0, 1), np.clip(high, 0, 1))

    @override
    def quantiles(self, n: I64, counters: I64, probabilities: F64, confidence: float) -> list[pa.Array]:
        """By inversion of `curve`; for the estimate itself the curve is made monotone.

        It is taken half way between the greatest share so far and the least from here on: so it is in the interval.
        """
        curve = self.curve(n, counters, z_score(confidence))
        rising = np.maximum.accumulate(curve.shares, axis=1)
        rising += np.minimum.accumulate(curve.shares[:, ::-1], axis=1)[:, ::-1]
        below = np.concatenate([np.zeros((len(n), 1)), curve.low[:, :-1]], axis=1)
        p = probabilities[None, :, None]
        at = np.argmax(rising[:, None] >= 2 * p, axis=2).reshape(-1)
        low = np.argmax(curve.high[:, None] >= p, axis=2).reshape(-1)
        high = below.shape[1] - 1 - np.argmax(below[:, None, ::-1] <= p, axis=2).reshape(-1)
        known = np.repeat(~np.isnan(curve.shares[:, 0]), len(probabilities))
        middle = self.taken(at, 0, known)
        if self.quantile_type == pa.float64():  # of a cell, its middle
            ends = (np.asarray(middle.to_numpy(zero_copy_only=False)), self.taken(at, 1, known).to_numpy(zero_copy_only=False))
            middle = pa.array((ends[0] + ends[1]) / 2, from_pandas=True)
        return [middle, self.taken(low, 0, True), self.taken(high, 1, True)]


class _OfDistribution(Reader):
    """Of `Distributing`, at the grid where the cumulative distribution is known, with the errors that it has there.

    They are those of noise and sampling together, for whatever population: of the people themselves, or of few, they
    are on the safe side.
    """

    @cached_property
    def _grid(self) -> F64:
        grid: F64 = self.mechanism.distribution(self.mechanism.empty_tally()).grid
        return grid

    @property
    @override
    def ends(self) -> tuple[pa.Array, pa.Array]:
        return pa.array(self._grid[:-1]), pa.array(self._grid[1:])

    @override
    def between(self, low: Any, high: Any) -> tuple[int, int]:
        return edges_between(self._grid, low, high)

    def _found(self, n: I64, counters: I64, confidence: float = 0.95) -> list[Distribution]:
        fingerprint = self.mechanism.fingerprint
        tallies = (Tally(int(a), b, fingerprint) for a, b in zip(n, counters, strict=True))
        return [self.mechanism.distribution(tally, confidence=confidence) for tally in tallies]

    @override
    def curve(self, n: I64, counters: I64, z: float) -> Curve:
        found = self._found(n, counters)
        shares, errors = (np.array([getattr(one, name) for one in found]) for name in ("cumulative", "cumulative_errors"))
        shares, errors = (array.reshape(len(n), len(self._grid) - 1) for array in (shares, errors))
        low, high = shares - z * errors, shares + z * errors
        if found and found[0].method == "unbiased":
            # A number counts for the two nearest points: what is counted up to the point before is at most the share
            # up to here, and what is counted up to the point after is at least that.
            low[:, 1:], low[:, 0], high[:, :-1] = low[:, :-1].copy(), 0.0, high[:, 1:].copy()
        low[:, -1] = high[:, -1] = 1.0
        bounds = (np.clip(np.where(np.isnan(end), unknown, end), 0, 1) for end, unknown in ((low, 0), (high, 1)))
        return Curve(shares, errors, *bounds)

    @override
    def ranges(self, n: I64, counters: I64, cells: I64, z: float) -> tuple[F64, F64, F64, F64]:
        """Differences of the curve; of the two errors, whose correlation is not known, the sum."""
        curve = self.curve(n, counters, z)
        ends = [np.concatenate([np.zeros((len(n), 1)), array], axis=1) for array in curve]
        ends[1][:, -1] = 0.0
        (shares, errors, low, high), (below, errors_below, low_below, high_below) = (
            [array[:, side] for array in ends] for side in (cells[:, 1], cells[:, 0])
        )
        found = (shares - below, errors + errors_below, np.maximum(low - high_below, 0), np.minimum(high - low_below, 1))
        made = [n[:, None] * array for array in found]
        return made[0], made[1], made[2], made[3]

    @override
    def quantiles(self, n: I64, counters: I64, probabilities: F64, confidence: float) -> list[pa.Array]:
        rows = [
            (one.quantile(p), *one.quantile_interval(p))
            for one in self._found(n, counters, confidence)
            for p in probabilities.tolist()
        ]
        columns = np.array(rows, float).reshape(-1, 3).T
        unknown = (np.nan, self._grid[0], self._grid[-1])
        return [pa.array(np.where(np.isnan(a), b, a)) for a, b in zip(columns, unknown, strict=True)]


def reader_of(what: str, mechanism: Mechanism, population: Population) -> Reader:
    """What reads the tallies of a mechanism.

    Args:
        what: is asked, for the error.
        mechanism: that made the reports.
        population: see `Reader`.

    Raises:
        ParameterError: it has no ordered values, or how its errors hang together is not known.
    """
    if isinstance(mechanism, Mechanism) and isinstance(mechanism, Distributing):
        return _OfDistribution(mechanism, population)
    if not isinstance(mechanism, Mechanism) or not isinstance(mechanism, Ordered):
        raise refuse_mechanism(what, "ordered values: a frequency oracle, SquareWave or StochasticRounding", mechanism)
    empty, none = mechanism.empty_tally(), np.zeros(1, np.int64)
    mechanism.range_counts(np.array([empty.n]), empty.counters[None], none, none + 1)  # (which may not know how)
    return _OfCounts(mechanism, population)


def with_sampling(
    n: I64, counts: F64, variances: F64, population: Population, z: float
) -> tuple[F64, F64, F64, F64]:
    """Counts, standard errors, low and high ends of intervals: float64[k, r] each, given variances of noise.

    In a population f (1 - f) n is added, times `sampled_part`; the ends are the roots of a quadratic (Wilson 1927).
    """
    people = np.maximum(n, 1)[:, None]
    part = sampled_part(population, n[:, None])
    inside = np.clip(counts, 0, people)
    errors = np.sqrt(variances + part * inside * (1 - inside / people))
    scale, middle = 1 + z**2 * part / people, counts + z**2 * part / 2
    half = np.sqrt(np.maximum(middle**2 - scale * (counts**2 - z**2 * variances), 0))
    return counts, errors, (middle - half) / scale, (middle + half) / scale


def edges_between(edges: F64, low: float | None, high: float | None) -> tuple[int, int]:
    """The cells between two edges, of increasing ``edges``, float64[cells + 1]: the first one, and one beyond the last.

    Raises:
        ParameterError: a range that cuts a cell, which is refused; no edges, or not in this order.

    >>> edges_between(np.array([0.0, 10.0, 20.0, 30.0]), 10, None)
    (1, 3)
    """
    found = []
    for name, value, otherwise in (("low", low, 0), ("high", high, len(edges) - 1)):
        if value is None:
            found.append(otherwise)
            continue
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        near = np.flatnonzero(np.isclose(edges, value, rtol=1e-12, atol=1e-12 * (edges[-1] - edges[0]))) if number else ()
        if not len(near):
            beside = ""
            if number and edges[0] < value < edges[-1]:
                after = int(np.searchsorted(edges, value))
                beside = f"; the nearest are {edges[after - 1]:.9g} and {edges[after]:.9g}"
            raise ParameterError(
                f"{name} of a range must be one of the {len(edges):,} edges of cells from {edges[0]:.9g} to "
                f"{edges[-1]:.9g}, or None for no end, got {shown(value)}{beside}: a cell is not cut"
            )
        found.append(int(near[0]))
    first, beyond = found
    if not first < beyond:
        raise ParameterError(f"a range goes from low to a greater high, got {shown(low)} to {shown(high)}")
    return first, beyond
