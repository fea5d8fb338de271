"""Tables of two private columns, from reports that were perturbed independently: counts of pairs, rates, independence.

**Counts.** A report's weight for the value a is w_a = (S_a - q) / (p - q), S_a whether it supports a: w_a has the
expectation 1 for a record with a, else 0. Reports of two columns have independent noise, so that the sum of products
w_a w_b is an unbiased count of the pairs (a, b). Of S[a], S[b] and S[a, b], how many reports support a, b and both,

    J[a, b] = (S[a, b] - q2 S[a] - q1 S[b] + n q1 q2) / ((p1 - q1) (p2 - q2))

With V0 = E[w_a^2 | another value], V1 = E[w_a^2 | a], and W0, W1 of b, the variance of J is

    (V1 W1 - 1) J + V1 W0 (F_a - J) + V0 W1 (F_b - J) + V0 W0 (n - F_a - F_b + J)

where F are the true counts of each column by itself. At the estimated counts it is the sum of squares (w_a w_b)^2 less
J. It is linear in J, so that the interval is the score interval of a histogram, with the counts of the columns put in.

**Rates.** J[a, b] / F_a by `ldp_core.estimates.weights.ratios`: a product of weights over the weight of a. Of the sums
of squares what the people themselves differ by is taken off where they are no sample.

**Independence** and how far from it: `ldp_core.estimates.association`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools
from ldp_core.errors import ParameterError
from ldp_core.estimates.association import Association, of_columns
from ldp_core.estimates.base import Population, Question, check_population, sampled_part, z_score
from ldp_core.estimates.consistency import Consistency, consistent
from ldp_core.estimates.histogram import ENTRY, Counted, Counting, Side, entries
from ldp_core.estimates.plausibility import watch
from ldp_core.estimates.several import Several
from ldp_core.estimates.weights import ratios, score_sums
from ldp_core.exact.bits import counts_of_pairs
from ldp_core.mechanism import Mechanism, not_a_mechanism
from ldp_core.parameters import check_open, parameter
from ldp_core.reports import Bits, Native
from ldp_core.tables import View, about_whom
from ldp_core.tally import Tally

RATE = ("rate", "rate_standard_error", "rate_low", "rate_high")
"""Columns of a table beside those of a histogram: the share of the second value among those who have the first."""


# ---- tallies of reports of two columns


@dataclass(frozen=True, init=False)
class Pair(Several):
    """Two private columns whose reports are tallied together.

    Args:
        columns: two columns' names and mechanisms, in the order of the table; or all columns of a plan, with ``names``.
        names: which two of them.

    Raises:
        ParameterError: not two columns; a name that columns of the table have; or a mechanism of which reports do not
            either support a value or not, or of which a record answers one of several columns.

    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> system, crashed = RandomizedResponse(["a", "b"], epsilon=50.0), RandomizedResponse(epsilon=50.0)
    >>> plan = PrivacyPlan({"os": system, "crashed": crashed})
    >>> people = {"os": ["a", "a", "b"], "crashed": [True, False, False]}
    >>> reports = {name: plan[name].perturb(values) for name, values in people.items()}  # hardly any noise
    >>> pair = Pair(plan.columns)
    >>> pair.estimate(pair.tally(reports)).counts.round(3).tolist()
    [[1.0, 1.0], [1.0, -0.0]]
    """

    name: ClassVar[str] = "pair"

    names: tuple[str, str]
    mechanisms: tuple[Any, Any]

    def __init__(self, columns: Mapping[str, Any], names: Sequence[str] | None = None) -> None:
        chosen = list(columns if names is None else names)
        if len(chosen) != 2 or not all(isinstance(name, str) for name in chosen) or chosen[0] == chosen[1]:
            raise ParameterError(f"a table is of two columns, each of them once, got {[*map(str, chosen)]}")
        if missing := [name for name in chosen if name not in columns]:
            raise ParameterError(f"a table is of two private columns of the plan, {list(columns)}, got {missing}")
        for name in chosen:
            _check_pure(name, columns[name])
        self._set(names=tuple(chosen), mechanisms=tuple(columns[name] for name in chosen))

    def _set(self, **values: Any) -> None:
        if taken := {*values["names"]} & {*ENTRY[1:], *RATE}:
            raise ParameterError(f"the table has columns {sorted(taken)} of its own: rename those of the reports")
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    @override
    def makers(self) -> dict[str, Any]:
        return dict(zip(self.names, self.mechanisms, strict=True))

    @property
    def shape(self) -> tuple[int, int]:
        """(d1, d2), the numbers of values."""
        first, second = self.mechanisms
        return first.domain.size, second.domain.size

    @property
    @override
    def counters(self) -> int:
        """d1 d2 counts of pairs, row by row, then those of each column."""
        first, second = self.shape
        return first * second + first + second

    @cached_property
    def fingerprint(self) -> str:
        """Of both mechanisms, in this order; as that of a mechanism it does not depend on the columns' names."""
        return sha256(":".join(["pair", *(m.fingerprint for m in self.mechanisms)]).encode()).hexdigest()[:16]

    @override
    def count_reports(self, reports: Any, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        out = np.zeros((n_groups, self.counters), np.int64)
        sums = self.split(out)
        if n_groups == 1 and all(isinstance(mechanism.reports, Bits) for mechanism in self.mechanisms):
            for start in range(0, len(reports), _ROWS):
                first, second = reports[start : start + _ROWS].parts
                for total, some in zip(sums, counts_of_pairs(first, second, *self.shape), strict=True):
                    np.add(total, some, out=total)
            return out
        swapped = self.shape[0] > self.shape[1]
        (one, other), pairs = self.mechanisms, sums[0]
        if swapped:
            one, other, pairs = other, one, pairs.transpose(0, 2, 1)
        step = max(_ROWS, n_groups * self.counters)
        for start in range(0, len(reports), step):
            of, (first, second) = groups[start : start + step], reports[start : start + step].parts
            _count_by_value(pairs, one, second if swapped else first, other, first if swapped else second, of)
        for mechanism, alone, total in zip(self.mechanisms, reports.parts, sums[1:], strict=True):
            total[:] = mechanism.count_reports(alone, groups, n_groups)
        return out

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Those of each column can be its own, and pairs are no more than either of their values, nor too few."""
        both, one, two = self.split(counters)
        n = np.asarray(n)
        least = np.maximum(one[..., :, None] + two[..., None, :] - n[..., None, None], 0)
        most = np.minimum(one[..., :, None], two[..., None, :])
        possible: Bools = ((both >= least) & (both <= most)).all(axis=(-2, -1))
        for mechanism, alone in zip(self.mechanisms, (one, two), strict=True):
            possible = possible & mechanism.is_possible(n, alone)
        return possible

    def split(self, counters: I64) -> tuple[I64, I64, I64]:
        """S[a, b], int64[..., d1, d2]; S[a], int64[..., d1]; S[b], int64[..., d2]."""
        first, second = self.shape
        both = counters[..., : first * second].reshape(*counters.shape[:-1], first, second)
        return both, counters[..., first * second : first * second + first], counters[..., -second:]

    @property
    def cell_variance(self) -> float:
        """n times the variance of the share of a pair that one in d1 d2 records has; of the worst one."""
        one, two = (_moments(mechanism) for mechanism in self.mechanisms)
        a, b = _noise(one, two, 1.0, *(np.full(d, 1 / d) for d in self.shape))
        return float((a + b / math.prod(self.shape)).max())

    def arrays(self, asked: TableEstimate, n: I64, counters: I64) -> tuple[list[F64], list[F64]]:
        """float64[k, d1, d2] each: counts, their errors and ends, rates, their errors and ends; and the margins."""
        return asked._arrays(self, n, counters)

    def association(
        self, asked: TableEstimate, n: I64, counters: I64, counts: F64, margins: Sequence[F64]
    ) -> Association:
        """The test of independence and Cramer's V of k tables."""
        return of_columns(self.mechanisms, n, counts, margins, asked.times, asked.confidence)

    def estimate(self, tally: Tally, *, confidence: float = 0.95, population: Population = None) -> Table:
        """The table of a tally, of one report of each person; see `TableEstimate`."""
        return TableEstimate(confidence, population).result(self, tally)


_ROWS = 1 << 15
"""Rows whose pairs are counted at a time: their planes of bits, 2^9 words a value, stay in the cache."""


def _count_by_value(pairs: I64, one: Any, reports: Native, other: Any, others: Native, groups: I64) -> None:
    """Add int64[n_groups, d1, d2]: the reports that support a value of one column, tallied by the other's own way."""
    for code in range(one.domain.size):
        rows = np.flatnonzero(one.weights_of(reports, code) > 0)
        pairs[:, code] += other.count_reports(others.take(rows, axis=0), groups.take(rows), len(pairs))


def _check_pure(name: str, mechanism: Any) -> None:
    """Raise `ParameterError` unless a report supports each value or does not, and that is all that it says."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(f"column {name!r}: expected a mechanism, got {not_a_mechanism(mechanism)}")
    if isinstance(mechanism, Counting):
        mechanism.code_of(mechanism.domain.values[0])  # some have no weights that multiply, and say why
    if not isinstance(mechanism, Counting) or not getattr(mechanism, "is_pure", False):
        raise ParameterError(
            f"column {name!r}: a table needs reports that support each value or do not, as those of randomized "
            "response, unary encoding, subset selection and local hashing; squares of the weights of "
            f"{mechanism.name} do not follow from a tally: take .ldp.weight of both columns, and .ldp.ratio"
        )


# ---- the table


@dataclass(frozen=True, eq=False, repr=False)
class Table(Counted):
    """Estimates of how many of ``n`` records have each pair of values; unbiased.

    Arrays are float64[d1, d2], in the order of the two domains.

    Attributes:
        n: number of reports, of which each is of both columns.
        counts, standard_errors, low, high, population: see `Histogram`.
        rates, rate_standard_errors, rate_low, rate_high: of those who have the first column's value, the share who have
            the second's, as `ldp_core.ratio`. Near 0 people it may be anything; the interval is unbounded then.
        margin, other_margin: estimated counts of each column by itself, float64[d1] and float64[d2]; they are much
            nearer to the truth than sums of ``counts``.
        statistic, degrees_of_freedom, p_value: of the chi-square test of independence in a population of which the
            people are a random sample; nan, 0 and nan where there are no reports, or it is not known how the estimated
            shares of a mechanism hang together.
        cramers_v, cramers_v_low, cramers_v_high: how far the columns are from independence there, 0 to 1, without what
            noise adds; and its interval. nan where a value's share is at most 2 standard errors (V divides by it: merge
            rare values), where a person may have several values or none, and of more than 64 values.

    >>> from ldp_core import RandomizedResponse
    >>> pair = Pair({name: RandomizedResponse(epsilon=50.0) for name in ("late", "canceled")})  # hardly any noise
    >>> tally = pair.tally({"late": [True] * 40 + [False] * 60, "canceled": [True] * 30 + [False] * 69 + [True]})
    >>> pair.estimate(tally)
    Table of late and canceled of 100 reports, 95% intervals (per cell)
    late, canceled  count   low  high     rate      low     high
    false, false     59.0  59.0  59.0  98.33 %  98.33 %  98.33 %
    false, true       1.0   1.0   1.0   1.67 %   1.67 %   1.67 %
    true, false      10.0  10.0  10.0  25.00 %  25.00 %  25.00 %
    true, true       30.0  30.0  30.0  75.00 %  75.00 %  75.00 %
    independent? chi-square 60.34, 1 degrees of freedom, p = 7.98e-15
    Cramer's V 0.770 (0.654 to 0.890)
    """

    question: ClassVar[str] = "table"

    pair: Pair
    n: int
    counts: F64
    standard_errors: F64
    low: F64
    high: F64
    rates: F64
    rate_standard_errors: F64
    rate_low: F64
    rate_high: F64
    margin: F64
    other_margin: F64
    statistic: float
    degrees_of_freedom: int
    p_value: float
    cramers_v: float
    cramers_v_low: float
    cramers_v_high: float
    confidence: float
    population: Population = None
    mechanism: Mechanism | None = None

    @property
    def view(self) -> View:  # type: ignore[override]
        """Pairs of values with their counts and rates."""
        return View("count", self.pair.names, rate="rate")

    def consistent(self, method: Consistency = "norm-sub") -> F64:
        """Counts for display: moved least so that they add up to the margins, then made non-negative; biased.

        The margins are made consistent by ``method``, see `ldp_core.consistent`.
        """
        d1, d2 = self.counts.shape
        sides = zip((self.margin, self.other_margin), self.pair.mechanisms, strict=True)
        one, two = (consistent(margin, self.n, method, mechanism=m) for margin, m in sides)
        rows, columns = one - self.counts.sum(axis=1), two - self.counts.sum(axis=0)
        moved = self.counts + rows[:, None] / d2 + columns / d1 - (one.sum() - self.counts.sum()) / (d1 * d2)
        return consistent(moved.reshape(-1), self.n, "norm-sub").reshape(d1, d2)

    @override
    def to_arrow(self) -> pa.Table:
        """A row per pair: the values under their columns' names, the other columns in `ENTRY`, and those in `RATE`."""
        of_rates = (self.rates, self.rate_standard_errors, self.rate_low, self.rate_high)
        arrays = (self.counts, self.standard_errors, self.low, self.high, *of_rates)
        return _rows(self.pair, np.array([self.n]), [array[np.newaxis] for array in arrays])

    @override
    def _head(self) -> str:
        of = f"Table of {' and '.join(self.pair.names)} of {self.n:,} reports"
        return f"{of}, {self.confidence:.0%} intervals (per cell){about_whom(self.population)}"

    @override
    def _texts(self) -> Sequence[str]:
        first, second = (mechanism.domain.texts for mechanism in self.pair.mechanisms)
        return [f"{a}, {b}" for a in first for b in second]

    @override
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        head, texts = (", ".join(self.pair.names), "count", "low", "high", "rate", "low", "high"), self._texts()
        counts, rates = (self.counts, self.low, self.high), (self.rates, self.rate_low, self.rate_high)
        order = range(self.counts.size)
        chosen = order if len(order) <= _SHOWN else np.argsort(-self.counts.reshape(-1), kind="stable")[:_SHOWN]
        rows: list[tuple[str, ...]] = [head]
        for i in map(int, chosen):
            of_count = (f"{array.reshape(-1)[i]:,.1f}" for array in counts)
            of_rate = (f"{100 * array.reshape(-1)[i]:.2f} %" for array in rates)
            rows.append((texts[i], *of_count, *of_rate))
        notes = [f"... {len(order) - _SHOWN} more pairs, in order of count"] if len(order) > _SHOWN else []
        if self.degrees_of_freedom:
            test = f"chi-square {self.statistic:.4g}, {self.degrees_of_freedom} degrees of freedom"
            notes.append(f"independent? {test}, p = {self.p_value:.3g}")
        if not math.isnan(self.cramers_v):
            ends = f"{self.cramers_v_low:.3f} to {self.cramers_v_high:.3f}"
            notes.append(f"Cramer's V {self.cramers_v:.3f} ({ends})")
        if self.n < (enough := reports_for(self.pair)):
            notes.append(
                f"the noise exceeds the count of a typical pair, n / {self.counts.size}: take more than "
                f"{enough:,} reports, a larger epsilon, or a plan that asks for the pair as one column"
            )
        return rows, notes


_SHOWN = 24


def reports_for(pair: Pair) -> int:
    """How many reports it takes until the standard error of a pair that one in d1 d2 records has is its count.

    >>> from ldp_core import UnaryEncoding
    >>> reports_for(Pair({name: UnaryEncoding(range(16), epsilon=1.0) for name in ("x", "y")}))
    949921
    """
    return math.ceil(pair.cell_variance * math.prod(pair.shape) ** 2)


class _Moments(NamedTuple):
    """Weights of a report that supports a value, and of one that does not; and of their squares the expectations.

    float64[d] each. ``other`` is for a record with another value, ``own`` for one with this value.
    """

    yes: F64
    no: F64
    other: F64
    own: F64


def _moments(mechanism: Any) -> _Moments:
    q, a, b, difference = mechanism.rates
    return _Moments((1 - q) / difference, -q / difference, a, 1 + a + b)


def _step(one: _Moments, two: _Moments) -> F64:
    """float64[d1, d2]: between which numbers a product of weights is, their difference; see `Side`."""
    ends = [np.multiply.outer(a, b) for a in (one.yes, one.no) for b in (two.yes, two.no)]
    difference: F64 = np.maximum(ends[0], ends[3]) - np.minimum(ends[1], ends[2])
    return difference


def _noise(one: _Moments, two: _Moments, n: Any, first: F64, second: F64) -> tuple[F64, F64]:
    """a and b, float64[..., d1, d2]: the variance of an estimated count c is a + b c, given counts of the columns."""
    f, g = first[..., :, None], second[..., None, :]
    v0, v1, w0, w1 = one.other[:, None], one.own[:, None], two.other, two.own
    return f * (v1 - v0) * w0 + g * v0 * (w1 - w0) + n * v0 * w0, (v1 - v0) * (w1 - w0) - 1


def _sum_of(powers: tuple[int, int], one: _Moments, two: _Moments, n: Any, sums: tuple[I64, I64, I64]) -> F64:
    """float64[..., d1, d2], the sum of w_a^i w_b^j over reports: each is one of four numbers."""
    i, j = powers
    (yes, no), (of_yes, of_no) = ((side.yes**power, side.no**power) for side, power in ((one, i), (two, j)))
    both, first, second = sums[0], sums[1][..., :, None], sums[2][..., None, :]
    yes, no = yes[:, None], no[:, None]
    found: F64 = (both * of_yes + (first - both) * of_no) * yes + ((second - both) * of_yes) * no
    found += (n - first - second + both) * no * of_no
    return found


@dataclass(frozen=True)
class TableEstimate(Question[Table]):
    """How many records have each pair of values of two private columns, and the rate of the second given the first.

    It is asked of a `Pair` in the place of a mechanism.

    Args:
        confidence: of each interval, in (0, 1).
        population: whom counts and rates are about, see `HistogramEstimate`.
        repeats: the most reports of one person; see `HistogramEstimate`. The chi-square statistic is over it.

    Raises:
        ParameterError: confidence outside (0, 1), or no such population; when asked: no `Pair`, or more reports than
            people.

    >>> TableEstimate(population="many").to_dict()
    {'question': 'table', 'confidence': 0.95, 'population': 'many'}
    """

    name: ClassVar[str] = Table.question
    view: ClassVar[View] = View("count", ("value",))
    linear: ClassVar[bool] = True

    confidence: float = parameter(check_open, default=0.95)
    population: Population = parameter(check_population, default=None)

    @override
    @classmethod
    def view_of(cls, columns: Collection[str]) -> View | None:
        names = list(columns)
        place = names.index("count") if {"count", "low", "high", *RATE} <= set(names) else 0
        return View("count", tuple(names[place - 2 : place]), rate="rate") if place > 1 else None

    @override
    def check(self, mechanism: Any) -> None:
        if not isinstance(mechanism, Pair):
            raise ParameterError(
                "a table is of two columns: ldp_core.Pair, frame.ldp.table, ldp_beam.Table, ldp estimate --table"
            )

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        names = zip(mechanism.names, mechanism.mechanisms, strict=True)
        values = [(name, m.domain.arrow_type) for name, m in names]
        numbers = [(name, pa.float64()) for name in (*ENTRY[1:-1], *RATE)]
        return pa.schema([*values, *numbers, (ENTRY[-1], pa.int64())])

    @override
    def result(self, mechanism: Any, tally: Tally) -> Table:
        self.check(mechanism)
        mechanism.check_tally(tally)
        n, counters = np.array([tally.n]), tally.counters[np.newaxis]
        arrays, margins = mechanism.arrays(self, n, counters)
        of_test = [array[0].item() for array in mechanism.association(self, n, counters, arrays[0], margins)]
        fields: list[Any] = [*(array[0] for array in (*arrays, *margins)), *of_test, self.confidence, self.population]
        return Table(mechanism, tally.n, *fields)

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        arrays, _ = mechanism.arrays(self, n, counters)
        return _rows(mechanism, n, arrays), np.full(len(n), math.prod(mechanism.shape))

    def _arrays(self, pair: Pair, n: I64, counters: I64) -> tuple[list[F64], list[F64]]:
        """float64[k, d1, d2] each: counts, their errors and ends, rates, their errors and ends; and the margins."""
        one, two = (_moments(mechanism) for mechanism in pair.mechanisms)
        sums, people = pair.split(counters), n[:, None, None].astype(float)
        counts = _sum_of((1, 1), one, two, people, sums)
        margins = []
        for mechanism, alone in zip(pair.mechanisms, sums[1:], strict=True):
            margins.append((alone - n[:, None] * mechanism.rates.q) / mechanism.rates.difference)
            watch(mechanism, n[:, None], alone, margins[-1])
        within = [np.clip(margin, 0, n[:, None]) for margin in margins]
        a, b = _noise(one, two, people, *within)
        most = np.maximum(people, 1)
        sampled = sampled_part(self.population, people, self.repeats)
        side = Side(people, counts / most, a / most, b, sampled, _step(one, two)).of_clusters(self.times**2)
        errors = most * np.sqrt(side.variance(side.inside))
        low, high = (np.where(people, most * end, 0) for end in side.ends(z_score(self.confidence)))

        # What the people themselves add to the sums of squares, as far as they are no sample.
        first = (1 - sampled) * within[0][:, :, None]
        true = (1 - sampled) * np.clip(counts, 0, within[0][:, :, None])
        zero = np.zeros_like(counts)
        powers = ((2, 2), (2, 1), (2, 0))
        squares = [_sum_of(power, one, two, people, sums) for power in powers]
        of_ratio = np.stack([counts, margins[0][:, :, None] + zero, *squares], axis=-1)
        score = score_sums(of_ratio, (one.yes + one.no)[:, None], two.yes + two.no)
        score += np.stack([zero, first / 2 + zero, first + zero], axis=-1)
        of_ratio[..., 2:] -= np.stack([true, true, first + zero], axis=-1)
        rates = ratios(of_ratio, self.confidence, score, self.times, (people, _step(one, two)))
        return [counts, errors, low, high, *rates], margins


def _rows(pair: Pair, n: I64, arrays: Sequence[F64]) -> pa.Table:
    """A table of the columns of `TableEstimate.schema`, of arrays [k, d1, d2] as `TableEstimate._arrays` has them."""
    d1, d2 = pair.shape
    numbers = [array.reshape(-1) for array in arrays]
    values = [
        mechanism.domain.arrow_values.take(pa.array(np.tile(codes, len(n))))
        for mechanism, codes in zip(pair.mechanisms, np.indices((d1, d2)).reshape(2, -1), strict=True)
    ]
    counted = entries(values[1], np.repeat(n, d1 * d2), numbers[:4])
    columns = [*values, *(counted[name] for name in ENTRY[1:-1]), *numbers[4:], counted[ENTRY[-1]]]
    return pa.table(columns, TableEstimate().schema(pair))
