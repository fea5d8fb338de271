"""Ordered values: counts of ranges, the curve of cumulative shares and its inverse, the quantiles, from one interface.

With A records up to t, N in all (the estimated number, where some may have no value), and p a share, A - p N has mean 0
if the share up to t is p. With B = N - A its variance is

    V = (1 - p) Var A + p Var B - p (1 - p) Var N,        plus p (1 - p) N if the people are a sample of many

All p with (A - p N)^2 <= z^2 V, the roots of a quadratic (E. C. Fieller, JRSS B 16(2), 1954), are the interval of the
share up to t. The p-quantile is the first t with a share of at least p: its interval goes from the first t whose share
may be p or more to the last one of which the share below may be p or less (R. S. Woodruff, JASA 47(260), 1952). Where
one value holds much it is wider than it needs to be: either end fails less often than it may.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Population, Question, refuse_mechanism, refuse_repeats, sampled_part, z_score
from ldp_core.estimates.distribution import Distributing, Distribution
from ldp_core.estimates.histogram import Counting, Side
from ldp_core.estimates.plausibility import collecting, watch
from ldp_core.estimates.tails import COUNTS_ALONE, reach_of_few
from ldp_core.inputs.base import edges_between
from ldp_core.inputs.interval import WholeNumbers
from ldp_core.mechanism import Mechanism
from ldp_core.tables import text_of
from ldp_core.tally import Tally

_TIE = 1e-12  # shares that differ by less are the same, but for rounding


@runtime_checkable
class Ordered(Protocol):
    """What a mechanism of ordered values offers, beside ``inputs.between`` and ``inputs.ends``: a `FrequencyOracle`."""

    def range_counts(self, n: I64, counters: I64, low: I64, high: I64) -> tuple[F64, F64]:
        """Estimated counts of records with low <= code < high, and their variances about these people (noise only).

        n int64[k], counters int64[k, c], low and high int64[r] -> float64[k, r] twice.
        """

    def range_terms(self, n: I64, counters: I64, low: I64, high: I64) -> tuple[Any, Any, Any]:
        """B and K, if the variance of one report is a + B f + K f (1 - f), f being the share; and each `Side.step`.

        Arrays that broadcast to float64[k, r]; of steps a list.
        """


class Curve(NamedTuple):
    """Shares of the records up to the end of each of L cells, their errors and intervals: float64[k, L] each."""

    shares: F64
    errors: F64
    low: F64
    high: F64


@dataclass(frozen=True)
class Reader:
    """How questions about order read the tallies of an `Ordered` mechanism: all is linear and unbiased."""

    mechanism: Any
    population: Population
    times: float = 1.0
    """`Question.times`."""
    repeats: int | None = None

    @cached_property
    def ends(self) -> tuple[pa.Array, pa.Array]:
        """The lowest and the highest value of each cell; see `Inputs.ends`."""
        return self.mechanism.inputs.ends

    @property
    def fitted(self) -> bool:
        """Whether estimates are off in a way that more reports do not mend; only intervals allow for it."""
        return False

    @property
    def ascending(self) -> bool | None:
        """Whether numbers go up, so that their differences say how far apart they are; None of what is no number."""
        if answer_type(self.ends[0]) != pa.float64():
            return None
        first = self.ends[0].to_numpy(zero_copy_only=False)
        return bool((first[1:] > first[:-1]).all())

    def between(self, low: Any, high: Any) -> tuple[int, int]:
        """Cells of a range; see `Inputs.between`."""
        return self.mechanism.inputs.between(low, high)

    def name(self, first: int, beyond: int) -> str:
        """A range in words: its one value, or its two ends."""
        ends = (end[at].as_py() for end, at in zip(self.ends, (first, beyond - 1), strict=True))
        lowest, highest = (f"{end:.9g}" if isinstance(end, float) else text_of(end) for end in ends)
        return lowest if lowest == highest else f"{lowest} to {highest}"

    def watch(self, n: I64, counters: I64) -> None:
        """Warn if tallies are not what reports add up to."""
        m = self.mechanism
        counts = m.debias(n[:, None], counters, confidence=COUNTS_ALONE)[0] if isinstance(m, Counting) else None
        watch(m, n[:, None], counters, counts, repeats=self.repeats)

    def ranges(self, n: I64, counters: I64, cells: I64, z: float) -> tuple[F64, F64, F64, F64]:
        """Counts of the ranges ``cells``, int64[r, 2], their errors, low and high ends: float64[k, r] each."""
        found, terms = self._counts(n, counters, *cells.T), self.mechanism.range_terms(n, counters, *cells.T)
        return self.with_ends(n, counters, *found, z, terms)

    def _counts(self, n: I64, counters: I64, low: I64, high: I64) -> tuple[F64, F64]:
        """`Ordered.range_counts`; a variance that is not known is so large that nothing is."""
        counts, variances = self.mechanism.range_counts(n, counters, low, high)
        return counts, np.where(np.isinf(variances), 1e6 * ((n[:, None] + 1.0) ** 2 + counts**2), variances)

    def with_ends(
        self, n: I64, counters: I64, counts: F64, variances: F64, z: float, terms: tuple[Any, Any, Any]
    ) -> tuple[F64, F64, F64, F64]:
        """Counts, their errors, low and high ends, float64[k, r] each, given variances of noise.

        An interval holds the counts that are within z of their own standard errors, as those of a histogram do, by the
        ``terms`` of `Ordered.range_terms`. Those who answer one of several columns are a sample.
        """
        _, answers, _ = self.mechanism.answers(n, counters)
        some, m = (np.maximum(number, 1.0)[:, None] for number in (n, answers))  # (squares of 3e9 are no int64)
        shares, times = counts / some, self.times**2
        inside, (slopes, bends, steps) = np.clip(shares, 0, 1), terms
        bends = bends + (variances > 0) * (n - answers)[:, None] / np.maximum(n - 1, 1)[:, None]  # (of all: none)
        at_none = variances * m / some**2 - (slopes + bends * (1 - inside)) * inside
        sampled = bends
        if self.population is not None:
            sampled = terms[1] + sampled_part(self.population, answers[:, None], self.repeats)
        side = Side(m, shares, times * at_none, times * slopes, times * sampled)
        lows, highs = zip(*(side._replace(step=times * step).ends(z) for step in steps), strict=True)
        found = np.sqrt(side.variance(inside)), np.min(lows, axis=0), np.max(highs, axis=0)
        errors, low, high = (np.where(n[:, None], some * array, 0) for array in found)
        return counts, errors, low, high

    def curve(self, n: I64, counters: I64, z: float, *, cut: bool = True) -> Curve:
        """Cumulative shares of k tallies, with intervals of so many standard errors, ``cut`` to [0, 1] or not."""
        size, count = len(self.ends[0]), self._counts
        none, places = np.zeros(size, np.int64), np.arange(1, size + 1)
        upto, v_upto = count(n, counters, none, places)
        whole, v_whole = upto[:, -1:], v_upto[:, -1:]
        if not v_whole.any() and np.allclose(whole, n[:, None]):  # the number of all is known
            terms = self.mechanism.range_terms(n, counters, none, places)
            found = self.with_ends(n, counters, upto, v_upto, z, terms)
            return _bounded(*(array / np.where(n, n, np.nan)[:, None] for array in found), cut=cut)
        sides, most, times = ((none, places), (places, np.full(size, size))), n[:, None].astype(float), self.times**2
        above, v_above = count(n, counters, *sides[1])
        # Of those who answer one of several columns, as in `with_ends`: each answer stands for ``each`` people.
        _, m, _ = self.mechanism.answers(n, counters)
        answers, left = m[:, None].astype(float), (n - m)[:, None] / np.maximum(n - 1, 1)[:, None]
        each = most / np.maximum(answers, 1)
        v_upto, v_above, v_whole = (
            v - left * each * np.maximum(x * (1 - x / np.maximum(most, 1)), 0)
            for x, v in ((upto, v_upto), (above, v_above), (whole, v_whole))
        )
        people = np.clip(whole, 0, most)
        sampled = left if self.population is None else sampled_part(self.population, answers, self.repeats)
        v_whole = v_whole - sampled * each * people
        slopes, steps = [], []
        for side, counted in zip(sides, (upto, above), strict=True):  # (a bend at the estimate)
            slope, bend, step = self.mechanism.range_terms(n, counters, *side)
            slopes.append(each * (slope + bend * (1 - 2 * np.clip(counted / np.maximum(most, 1), 0, 1))))
            steps.append(step)
        # If the share is p, p N are up to t: V is a + b p + e p^2.
        more, less = (slope * people for slope in slopes)
        a = v_upto - slopes[0] * np.clip(upto, 0, most)
        b = v_above - slopes[1] * np.clip(above, 0, most) + less + more - a - v_whole
        e = v_whole - more - less
        square = times * z**2
        over, middle = np.where(whole > 0, whole**2 - square * e, 0), upto * whole + square / 2 * b
        root = np.sqrt(np.maximum(middle**2 - over * (upto**2 - square * a), 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(whole > 0, upto / whole, np.nan)
            p = np.clip(shares, 0, 1)
            errors = np.sqrt(np.maximum(a + (b + e * p) * p, 0)) / whole * self.times
            low, high = np.where(over > 0, (middle - root) / over, 0.0), np.where(over > 0, (middle + root) / over, 1.0)
            known = times / np.where(over > 0, whole, np.inf)
            one = known * each
            poly = tuple(known / whole * term for term in (a, b, e))
            ends = [  # (a report adds 1 - p of what it adds to those up to t, and p of what it adds to those above)
                reach_of_few((low, high), shares, answers, z, one * first, poly, 1, 1, one * (last - first))
                for first, last in zip(*steps, strict=True)
            ]
        lows, highs = zip(*ends, strict=True)
        end = 0.0 if cut else np.where(over > 0, 0.0, math.inf)  # (all shares may be true)
        return _bounded(shares, errors, np.min(lows, axis=0) - end, np.max(highs, axis=0) + end, cut=cut)

    def quantiles(
        self, n: I64, counters: I64, probabilities: F64, confidence: float, parts: Sequence[float] = (1.0,)
    ) -> list[pa.Array]:
        """Quantiles, low and high ends of their intervals: k times as many values each, null where not known.

        Of each of some ``parts`` of the standard errors that the confidence has, low and high.

        For the estimate the curve is made monotone: half way between the greatest share so far and the least from here
        on, which is in the interval.
        """
        curve = self.curve(n, counters, z := z_score(confidence))
        rising = np.maximum.accumulate(curve.shares, axis=1)
        rising += np.minimum.accumulate(curve.shares[:, ::-1], axis=1)[:, ::-1]
        p = probabilities[None, :, None]
        at = np.argmax(rising[:, None] / 2 >= p - _TIE, axis=2).reshape(-1)
        unknown = np.repeat(np.isnan(curve.shares[:, 0]), len(probabilities))
        (first, last), none, ends = self.ends, np.zeros(len(at), bool), []
        for part in parts:
            # (ends that are cut off at 0 and 1 have no parts)
            near = curve if part == 1 else self.curve(n, counters, z * part)
            before = np.concatenate([np.zeros((len(n), 1)), near.low[:, :-1]], axis=1)[:, None, ::-1]
            ends.append(_answer(first, np.argmax(near.high[:, None] >= p - _TIE, axis=2).reshape(-1), none))
            ends.append(_answer(last, before.shape[2] - 1 - np.argmax(before <= p, axis=2).reshape(-1), none))
        middle = _answer(first, at, unknown)
        if middle.type == pa.float64():  # of a cell, its middle
            middle = pa.array((np.array(middle) + np.array(_answer(last, at, unknown))) / 2, from_pandas=True)
        elif pa.types.is_temporal(middle.type):
            begins = np.array(middle)
            middle = pa.array(begins + (np.array(_answer(last, at, unknown)) - begins) // 2)
        return [middle, *ends]


def _answer(values: pa.Array, at: I64, unknown: Any) -> pa.Array:
    """Values at these places, numbers as float64, dates as they are, and all else as text; null where unknown."""
    taken = values.take(pa.array(at, mask=unknown))
    if pa.types.is_temporal(values.type):
        return taken
    if answer_type(values) == pa.float64():
        return taken.cast(pa.float64())
    return pa.array([None if value is None else text_of(value) for value in taken.to_pylist()], pa.string())


def answer_type(values: pa.Array) -> pa.DataType:
    """Of quantiles of such values."""
    if pa.types.is_temporal(values.type):
        return values.type
    number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    return pa.float64() if number else pa.string()


def _bounded(shares: F64, errors: F64, low: F64, high: F64, *, cut: bool) -> Curve:
    """A curve that ends in 1, with intervals in [0, 1], if they are ``cut``."""
    low[:, -1] = high[:, -1] = 1.0
    if not cut:
        return Curve(shares, errors, low, high)
    return Curve(shares, errors, np.clip(np.nan_to_num(low), 0, 1), np.clip(np.nan_to_num(high, nan=1.0), 0, 1))


class _OfDistribution(Reader):
    """Of `Distributing`, at the grid where the cumulative distribution is known, with the intervals that it has there.

    They are those of noise and sampling together: of the people themselves, or of few, they are on the safe side.
    """

    @cached_property
    def _nothing(self) -> Distribution:
        return self.mechanism.distribution(self.mechanism.empty_tally())

    @property
    @override
    def fitted(self) -> bool:
        return self._nothing.method != "unbiased"

    @property
    def _grid(self) -> F64:
        return self._nothing.grid

    @cached_property
    @override
    def ends(self) -> tuple[pa.Array, pa.Array]:
        if not self._within:
            return pa.array(self._grid[:-1]), pa.array(self._grid[1:])
        ends = self._grid[:-1] + self._within, self._grid[1:] - self._within
        first, last = (pa.array(np.rint(end).astype(np.int64)) for end in ends)
        return first, last

    @cached_property
    def _within(self) -> float:
        """How far the numbers of a cell are from its edges: whole ones that are cut between them by 1/2, else 0."""
        whole = isinstance(self.mechanism.domain, WholeNumbers)
        return 0.5 * (whole and np.allclose(self._grid - np.rint(self._grid - 0.5), 0.5))

    @override
    def between(self, low: Any, high: Any) -> tuple[int, int]:
        def moved(end: Any, by: float) -> Any:
            return end + by if by and isinstance(end, (int, float)) and not isinstance(end, bool) else end

        return edges_between(self._grid, moved(low, -self._within), moved(high, self._within))

    def _found(self, n: I64, counters: I64, confidence: float = 0.95) -> list[Distribution]:
        tallies = (Tally(int(a), b, self.mechanism.fingerprint) for a, b in zip(n, counters, strict=True))
        with collecting():  # (`watch` says it, and knows ``repeats``)
            found = [self.mechanism.distribution(tally, confidence=confidence) for tally in tallies]
        return [_scaled(one, self.times) for one in found]

    @override
    def curve(self, n: I64, counters: I64, z: float, *, cut: bool = True) -> Curve:
        found, shape = self._found(n, counters, 2 * NormalDist().cdf(z) - 1), (len(n), len(self._grid) - 1)
        shares = np.array([one.cumulative for one in found]).reshape(shape)
        low, high = (
            np.array([getattr(one, f"cumulative_{end}") for one in found]).reshape(shape) for end in ("low", "high")
        )
        errors = (high - low) / (2 * z)
        if not self.fitted:
            # A number counts for the two nearest points: what is counted up to the point before is at most the share
            # up to here, and what is counted up to the point after is at least that.
            low[:, 1:], low[:, 0], high[:, :-1] = low[:, :-1].copy(), 0.0, high[:, 1:].copy()
        elif not cut:  # (bounds that end at 0 or 1 by themselves: an error may be all of the longer side)
            longer, ended = np.maximum(high - shares, shares - low), (low <= _TIE) | (high >= 1 - _TIE)
            low, high = np.where(ended, shares - longer, low), np.where(ended, shares + longer, high)
        return _bounded(shares, errors, low, high, cut=cut)

    @override
    def ranges(self, n: I64, counters: I64, cells: I64, z: float) -> tuple[F64, F64, F64, F64]:
        """Differences of the curve; of the two errors, whose correlation is not known, the sum."""
        ends = [np.concatenate([np.zeros((len(n), 1)), array], axis=1) for array in self.curve(n, counters, z)]
        people: F64 = n[:, None].astype(float)
        (share, error, low, high), (below, error_below, low_below, high_below) = (
            [people * np.where(people, array[:, side], 0) for array in ends] for side in cells[:, ::-1].T
        )
        least: F64 = np.maximum(low - high_below, 0)
        most: F64 = np.minimum(high - low_below, people)
        return share - below, error + error_below, least, most

    @override
    def quantiles(
        self, n: I64, counters: I64, probabilities: F64, confidence: float, parts: Sequence[float] = (1.0,)
    ) -> list[pa.Array]:
        """`Distribution.quantile` and `quantile_interval`."""
        found, asked = self._found(n, counters, confidence), probabilities.tolist()
        each = [(one, [_scaled(one, part) for part in parts]) for one in found]
        rows = [
            [one.quantile(p), *(end for part in some for end in part.quantile_interval(p))]
            for one, some in each
            for p in asked
        ]
        columns = np.array(rows, float).reshape(-1, 1 + 2 * len(parts)).T
        if self._within:
            columns[0] = np.ceil(columns[0] - 0.5 - 1e-9)
            columns[1::2] = np.rint(columns[1::2] + 0.5 - 1e-9)
            columns[2::2] = np.rint(columns[2::2] - 0.5 + 1e-9)
        unknown = (np.nan, *(self._grid[0] + self._within, self._grid[-1] - self._within) * len(parts))
        return [pa.array(np.where(np.isnan(a), b, a), from_pandas=True) for a, b in zip(columns, unknown, strict=True)]


def _scaled(found: Distribution, times: float) -> Distribution:
    """With intervals of cumulative shares that are so many times as wide."""
    if times == 1:
        return found
    middle, ends = found.cumulative, (found.cumulative_low, found.cumulative_high)
    low, high = (middle + times * (end - middle) for end in ends)
    return replace(found, cumulative_low=low, cumulative_high=high)


def reader_of(what: str, mechanism: Mechanism, question: Question[Any], *, ordered: bool = True) -> Reader:
    """What reads a mechanism's tallies; `ParameterError` if it has no ordered values, or its errors are not known.

    Whole numbers that do not go up are no ``ordered`` values: 18 would be above 65 where it is declared after it.
    """
    asked = question.population, question.times, question.repeats
    if isinstance(mechanism, Mechanism) and isinstance(mechanism, Distributing):
        of_distribution = _OfDistribution(mechanism, *asked)
        if question.times > 1 and of_distribution.fitted:
            raise refuse_repeats(f"{what} of {mechanism.name}, whose distribution is fitted,")
        return of_distribution
    if not isinstance(mechanism, Mechanism) or not isinstance(mechanism, Ordered):
        raise refuse_mechanism(what, "ordered values: a frequency oracle, SquareWave or StochasticRounding", mechanism)
    reader, none = Reader(mechanism, *asked), np.zeros(1, np.int64)
    reader._counts(none, mechanism.empty_tally().counters[None], none, none + 1)  # (it may not know its errors)
    if ordered and reader.ascending is False:
        raise ParameterError(
            f"{what} is of numbers that go up, and these are declared in another order: declare them from the smallest "
            "to the largest, or as text, which has the order in which it is declared"
        )
    return reader
