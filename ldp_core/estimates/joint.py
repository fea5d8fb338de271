"""Tables of private columns, from reports that were perturbed independently: counts of cells, rates, independence.

**Counts.** A report's weight for the value a is w_a = (S_a - q) / (p - q), S_a whether it supports a: w_a has the
expectation 1 for a record with a, else 0. Reports of two columns have independent noise, so that the sum of products
w_a w_b is an unbiased count of the pairs (a, b). Of S[a], S[b] and S[a, b], how many reports support a, b and both,

    J[a, b] = (S[a, b] - q2 S[a] - q1 S[b] + n q1 q2) / ((p1 - q1) (p2 - q2))

With V0 = E[w_a^2 | another value], V1 = E[w_a^2 | a], and W0, W1 of b, the variance of J is

    (V1 W1 - 1) J + V1 W0 (F_a - J) + V0 W1 (F_b - J) + V0 W0 (n - F_a - F_b + J)

where F are the true counts of each column by itself. At the estimated counts it is the sum of squares (w_a w_b)^2 less
J. It is linear in J, so that the interval is the score interval of a histogram, with the counts of the columns put in.

**Of more columns** all of this has one factor a column. So numbers are kept with their margins, float64[d1 + 1, d2 + 1,
...], where the last place of each axis is for all values of its column. From supports S[a] and S[all] along an axis
come the estimates, (S[a] - q S[all]) / (p - q), and the sums of powers w^j, no^j S[all] + (yes^j - no^j) S[a]. From
counts come the variances, V0 F[all] + (V1 - V0) F[a]. Each is a matrix a column, and the Kronecker product of these is
applied one axis at a time. The variance grows with the product of the V0.

**Rates.** J[a, b] / F_a by `ldp_core.estimates.ratios.ratios`: a product of weights over the weight of a, or over the
product of the weights of all columns but the last. Of the sums of squares what the people themselves differ by is taken
off where they are no sample.

**Independence** and how far from it: `ldp_core.estimates.association`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from hashlib import sha256
from itertools import accumulate, combinations, pairwise, product
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
from ldp_core.estimates.margins import along, margin, turned
from ldp_core.estimates.plausibility import SHARED, Sums, Term, watch
from ldp_core.estimates.ratios import ratios, rest_of, score_sums
from ldp_core.estimates.several import Several
from ldp_core.exact.bits import counts_of_pairs
from ldp_core.mechanism import Mechanism, not_a_mechanism
from ldp_core.parameters import check_open, parameter, taken_names
from ldp_core.reports import Bits, Native
from ldp_core.tables import View, about_whom, in_percent
from ldp_core.tally import Tally

RATE = ("rate", "rate_standard_error", "rate_low", "rate_high")
"""Columns of a table beside those of a histogram: the share of the last value among those who have the others."""
LARGEST = 2**24
"""Cells of the largest table, those of its margins among them: 128 MiB of numbers."""
MOST_REPORTS = 2**33
"""More than there are people."""


# ---- tallies of reports of several columns


@dataclass(frozen=True, init=False)
class Joint(Several):
    """Private columns whose reports are tallied together.

    Args:
        columns: names and mechanisms, in the order of the table; or all columns of a plan, with ``names``.
        names: which of them, two or more.

    Raises:
        ParameterError: fewer than two columns; a name that columns of the table have; a mechanism of which reports do
            not either support a value or not, or of which a record answers one of several columns; more than 2^24
            cells with the margins; or, of three columns and more, more reports than there are people, until the
            standard error of a share is 1 %.

    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> system, crashed = RandomizedResponse(["a", "b"], epsilon=50.0), RandomizedResponse(epsilon=50.0)
    >>> plan = PrivacyPlan({"os": system, "crashed": crashed})
    >>> people = {"os": ["a", "a", "b"], "crashed": [True, False, False]}
    >>> reports = {name: plan[name].perturb(values) for name, values in people.items()}  # hardly any noise
    >>> joint = Joint(plan.columns)
    >>> joint.estimate(joint.tally(reports)).counts.round(3).tolist()
    [[1.0, 1.0], [1.0, -0.0]]
    """

    name: ClassVar[str] = "table"

    names: tuple[str, ...]
    mechanisms: tuple[Any, ...]

    def __init__(self, columns: Mapping[str, Any], names: Sequence[str] | None = None) -> None:
        chosen = list(columns if names is None else names)
        if len(chosen) < 2 or not all(isinstance(name, str) for name in chosen) or len({*chosen}) < len(chosen):
            raise ParameterError(f"a table is of two or more columns, each of them once, got {[*map(str, chosen)]}")
        if missing := [name for name in chosen if name not in columns]:
            raise ParameterError(f"a table is of private columns of the plan, {list(columns)}, got {missing}")
        for name in chosen:
            _check_pure(name, columns[name])
        self._set(names=tuple(chosen), mechanisms=tuple(columns[name] for name in chosen))
        _check_size(self)

    def _set(self, **values: Any) -> None:
        if taken := {*values["names"]} & {*ENTRY[1:], *RATE}:
            raise ParameterError(taken_names("the table", sorted(taken)))
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    @override
    def makers(self) -> dict[str, Any]:
        return dict(zip(self.names, self.mechanisms, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """(d1, d2, ...), the numbers of values."""
        return tuple(mechanism.domain.size for mechanism in self.mechanisms)

    @cached_property
    def margins(self) -> list[tuple[int, ...]]:
        """What is counted, by positions of columns: all of them, then those of one column less, down to each alone."""
        k = len(self.names)
        return [axes for size in range(k, 0, -1) for axes in combinations(range(k), size)]

    @property
    @override
    def counters(self) -> int:
        """Those of each of `margins`, row by row: of two columns d1 d2, d1 and d2."""
        return math.prod(d + 1 for d in self.shape) - 1

    @cached_property
    def fingerprint(self) -> str:
        """Of the mechanisms, in this order; as that of a mechanism it does not depend on the columns' names."""
        return sha256(":".join(["pair", *(m.fingerprint for m in self.mechanisms)]).encode()).hexdigest()[:16]

    @override
    def count_reports(self, reports: Any, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        out = np.zeros((n_groups, self.counters), np.int64)
        sums = self.split(out)
        if n_groups == 1 and len(sums) == 3 and all(isinstance(m.reports, Bits) for m in self.mechanisms):
            for start in range(0, len(reports), _ROWS):
                first, second = reports[start : start + _ROWS].parts
                for total, some in zip(sums, counts_of_pairs(first, second, *self.shape), strict=True):
                    np.add(total, some, out=total)
            return out
        step, k = max(_ROWS, n_groups * self.counters), len(self.names)
        together = list(zip(self.margins[:-k], sums, strict=False))
        for start in range(0, len(reports), step):
            of, parts = groups[start : start + step], reports[start : start + step].parts
            for axes, total in together:
                _count_by_value(total, [(self.mechanisms[axis], parts[axis]) for axis in axes], of)
        for mechanism, alone, total in zip(self.mechanisms, reports.parts, sums[-k:], strict=True):
            total[:] = mechanism.count_reports(alone, groups, n_groups)
        return out

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Those of each column can be its own, and reports that support some values but not others are not below 0."""
        k, sums = len(self.names), self.with_margins(n, counters)
        axes = tuple(range(-k, 0))
        possible: Bools = np.asarray((sums >= 0).all(axis=axes))
        for _ in range(k):  # (numbers that are not below 0 have a difference without overflow)
            cells, every = turned(sums, k)
            sums = np.concatenate([cells, every - cells, every], axis=-1)
            possible = possible & (sums >= 0).all(axis=axes)
        for mechanism, alone in zip(self.mechanisms, self.split(counters)[-k:], strict=True):
            possible = possible & mechanism.is_possible(np.asarray(n), alone)
        return possible

    @override
    def bounded_sums(self, n: Any, counters: I64, counts: F64) -> Sequence[Sums]:
        """Of each cell, who has some of its values and not the others: sums of products of weights w and 1 - w.

        A person is 0 or 1 of them on average, if each report has noise of its own. ``counts`` are with their margins.
        """
        sums = [counts]
        for _ in self.names:
            sums = [
                part
                for cells, every in (turned(some, len(self.names)) for some in sums)
                for part in (cells, every - cells)
            ]
        columns = [_moments(mechanism) for mechanism in self.mechanisms]
        others = [_Moments(1 - one.no, 1 - one.yes, one.own - 1, one.other + 1) for one in columns]
        found = []
        for some, chosen in zip(sums, product(*zip(columns, others, strict=True)), strict=True):
            low, high = _ends(chosen)
            variance = math.prod(float(np.maximum(one.own, one.other).max()) for one in chosen)
            term = Term(0.0, 1.0, low.min(), high.max(), variance)
            found.append(Sums(some.reshape(len(counts), math.prod(self.shape)), n, term, likely=SHARED))
        return found

    def split(self, counters: I64) -> list[I64]:
        """Views of those of each of `margins`, int64[..., d of each of its columns]."""
        return [counters[..., at].reshape(*counters.shape[:-1], *shape) for at, shape in self._places]

    @cached_property
    def _places(self) -> list[tuple[slice, tuple[int, ...]]]:
        """Where among the counters those of each of `margins` are, and of how many values."""
        shapes = [tuple(self.shape[axis] for axis in axes) for axes in self.margins]
        ends = list(accumulate(map(math.prod, shapes), initial=0))
        return [(slice(*pair), shape) for pair, shape in zip(pairwise(ends), shapes, strict=True)]

    def with_margins(self, n: I64, counters: I64) -> I64:
        """int64[..., d1 + 1, d2 + 1, ...]: the last place of each axis is for all values, and n in the corner."""
        k, sums = len(self.names), np.empty((*counters.shape[:-1], *(d + 1 for d in self.shape)), np.int64)
        for axes, part in zip(self.margins, self.split(counters), strict=True):
            sums[margin(k, axes)] = part
        sums[margin(k, ())] = n
        return sums

    @property
    def cell_variance(self) -> float:
        """n times the variance of the share of a cell that one in d1 d2 ... records has; of the worst one."""
        even = [np.append(np.full(d, 1 / d), 1.0) for d in self.shape]
        a, b = _noise([_moments(mechanism) for mechanism in self.mechanisms], reduce(np.multiply.outer, even))
        return float((a + b / math.prod(self.shape)).max())

    def arrays(self, asked: TableEstimate, n: I64, counters: I64) -> tuple[list[F64], F64]:
        """float64[k, d1, d2, ...] each: counts, their errors and ends, rates, their errors and ends.

        And the counts with their margins, float64[k, d1 + 1, d2 + 1, ...].
        """
        return asked._arrays(self, n, counters)

    def association(self, asked: TableEstimate, n: I64, counters: I64, counts: F64) -> Association:
        """The test of independence and Cramer's V of k tables, of counts with their margins."""
        return of_columns(self.mechanisms, n, counts, asked.times, asked.confidence)

    def estimate(self, tally: Tally, *, confidence: float = 0.95, population: Population = None) -> Table:
        """The table of a tally, of one report of each person; see `TableEstimate`."""
        return TableEstimate(confidence, population).result(self, tally)


_ROWS = 1 << 15
"""Rows whose pairs are counted at a time: their planes of bits, 2^9 words a value, stay in the cache."""


def _count_by_value(total: I64, columns: Sequence[tuple[Any, Native]], groups: I64) -> None:
    """Add int64[n_groups, d1, d2, ...]: the reports that support a value of one column, tallied by the others' way."""
    at = total.shape.index(min(total.shape[1:]), 1) - 1  # the one with the fewest values
    (mechanism, reports), (other, part), *more = columns[at], *columns[:at], *columns[at + 1 :]
    before: Any = (slice(None),) * (at + 1)
    for code in range(total.shape[at + 1]):
        rows = np.flatnonzero(mechanism.weights_of(reports, code) > 0)
        cells, of, some = total[(*before, code)], groups.take(rows), part.take(rows, axis=0)
        if more:
            _count_by_value(cells, [(other, some), *((m, rest.take(rows, axis=0)) for m, rest in more)], of)
        else:
            cells += other.count_reports(some, of, len(total))


def _check_size(joint: Joint) -> None:
    """Raise `ParameterError` for a table that is too large, or of which no number of people tells anything."""
    names = list(joint.names)
    if joint.counters > LARGEST:
        raise ParameterError(
            f"a table of {names} has {joint.counters:,} cells with its margins, more than {LARGEST:,}: leave columns "
            "out, or merge rare values"
        )
    if len(names) > 2 and (reports := joint.cell_variance / _SHARE**2) > MOST_REPORTS:
        raise ParameterError(
            f"a table of {names} would take {reports:.2g} reports, more than there are people, until the standard "
            f"error of a share is {_SHARE:.0%}: leave columns out, take a larger epsilon, or ask for them as one column"
        )


_SHARE = 0.01


def _check_pure(name: str, mechanism: Any) -> None:
    """Raise `ParameterError` unless a report supports each value or does not, and that is all that it says."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(f"column {name!r}: expected a mechanism, got {not_a_mechanism(mechanism)}")
    try:  # some have no weights, or none that multiply, and say why
        mechanism.code_of(mechanism.domain.values[0] if isinstance(mechanism, Counting) else None)
    except ParameterError as error:
        raise ParameterError(f"column {name!r}: {error}") from None
    if not isinstance(mechanism, Counting) or not getattr(mechanism, "is_pure", False):
        raise ParameterError(
            f"column {name!r}: a table needs reports that support each value or do not, as those of randomized "
            "response, unary encoding, subset selection and local hashing; squares of the weights of "
            f"{mechanism.name} do not follow from a tally: take (w * v).ldp.ratio(w), where w is the .ldp.weight of a "
            "value, and v that of the other column, or ldp estimate --by-private"
        )


# ---- the table


@dataclass(frozen=True, eq=False, repr=False)
class Table(Counted):
    """Estimates of how many of ``n`` records have each combination of values; unbiased.

    Arrays are float64[d1, d2, ...], in the order of the domains.

    Attributes:
        n: number of reports, of which each is of all columns.
        counts, standard_errors, low, high, population: see `Histogram`; repeats: see `TableEstimate`.
        rates, rate_standard_errors, rate_low, rate_high: of those who have the other columns' values, the share who
            have the last one's, as `ldp_core.ratio`. Near 0 people it may be anything; the interval is unbounded then.
        with_margins: counts, and in the last place of each axis those of all values of its column; see `margin`.
        statistic, degrees_of_freedom, p_value: of the chi-square test that all columns are independent in a population
            of which the people are a random sample; nan, 0 and nan where there are too few reports, or it is not known
            how the estimated shares of a mechanism hang together. Values with few reports are added together.
        cramers_v, cramers_v_low, cramers_v_high: how far two columns are from independence there, 0 to 1, without what
            noise adds; and its interval. nan where a value's share is at most 2 standard errors or cells have few
            reports (merge rare values), where a person may have several values or none, with ``repeats`` above 1, of
            more than 64 values, and of three columns.

    >>> from ldp_core import RandomizedResponse
    >>> joint = Joint({name: RandomizedResponse(epsilon=50.0) for name in ("late", "canceled")})  # hardly any noise
    >>> tally = joint.tally({"late": [True] * 40 + [False] * 60, "canceled": [True] * 30 + [False] * 69 + [True]})
    >>> joint.estimate(tally)
    Table of late and canceled of 100 reports, 95% intervals (per cell)
    late, canceled  count   low  high     rate      low     high
    false, false     59.0  59.0  59.0  98.33 %  98.33 %  98.33 %
    false, true       1.0   1.0   1.0   1.67 %   1.67 %   1.67 %
    true, false      10.0  10.0  10.0  25.00 %  25.00 %  25.00 %
    true, true       30.0  30.0  30.0  75.00 %  75.00 %  75.00 %
    independent? chi-square 60.34, 1 degrees of freedom, p = 7.98e-15
    Cramer's V 0.770 (0.629 to 0.890)
    """

    question: ClassVar[str] = "table"

    joint: Joint
    n: int
    counts: F64
    standard_errors: F64
    low: F64
    high: F64
    rates: F64
    rate_standard_errors: F64
    rate_low: F64
    rate_high: F64
    with_margins: F64
    statistic: float
    degrees_of_freedom: int
    p_value: float
    cramers_v: float
    cramers_v_low: float
    cramers_v_high: float
    confidence: float
    population: Population = None
    repeats: int = 1
    mechanism: Mechanism | None = None

    @property
    def view(self) -> View:  # type: ignore[override]
        """Combinations of values with their counts and rates."""
        return View("count", self.joint.names, rate="rate")

    def margin(self, *names: str) -> F64:
        """Estimated counts of some of the columns, in the order of the table; much nearer to the truth than sums.

        Raises:
            ParameterError: no such columns.
        """
        if not {*names} <= {*self.joint.names}:
            raise ParameterError(f"expected some of the columns {list(self.joint.names)}, got {[*map(str, names)]}")
        axes = [axis for axis, name in enumerate(self.joint.names) if name in names]
        return self.with_margins[margin(len(self.joint.names), axes)]

    def consistent(self, method: Consistency = "norm-sub") -> F64:
        """Counts for display: moved least so that they add up to the margins, then made non-negative; biased.

        The margins of one column are made consistent by ``method``, see `ldp_core.consistent`, and those of more
        columns add up to them: over columns of which each person has one value.
        """
        k, moved = len(self.joint.names), self.with_margins.copy()
        makers = [self.joint.makers.get(name) for name in self.joint.names]
        exhaustive = [mechanism is None or mechanism.exhaustive for mechanism in makers]
        for axis, mechanism in enumerate(makers):
            alone = margin(k, (axis,))
            moved[alone] = consistent(moved[alone], self.n, method, mechanism=mechanism, repeats=self.repeats)
            if exhaustive[axis]:
                moved[margin(k, ())] = moved[alone].sum()
        for adds_up in exhaustive:
            cells, every = turned(moved, k)
            cells = cells + adds_up * (every - cells.sum(axis=-1, keepdims=True)) / cells.shape[-1]
            moved = np.concatenate([cells, every], axis=-1)
        counts = moved[margin(k, range(k))]
        total = self.n if all(exhaustive) else max(counts.sum(), 0)
        return consistent(counts.reshape(-1), total, "norm-sub").reshape(counts.shape)

    @override
    def to_arrow(self) -> pa.Table:
        """A row per cell: the values under their columns' names, the other columns in `ENTRY`, and those in `RATE`."""
        of_rates = (self.rates, self.rate_standard_errors, self.rate_low, self.rate_high)
        arrays = (self.counts, self.standard_errors, self.low, self.high, *of_rates)
        return _rows(self.joint, np.array([self.n]), [array[np.newaxis] for array in arrays])

    @override
    def _head(self) -> str:
        of = f"Table of {' and '.join(self.joint.names)} of {self.n:,} reports"
        return f"{of}, {in_percent(self.confidence)}% intervals (per cell){about_whom(self.population)}"

    @override
    def _texts(self) -> Sequence[str]:
        return [", ".join(texts) for texts in product(*(m.domain.texts for m in self.joint.mechanisms))]

    @override
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        head, texts = (", ".join(self.joint.names), "count", "low", "high", "rate", "low", "high"), self._texts()
        counts, rates = (self.counts, self.low, self.high), (self.rates, self.rate_low, self.rate_high)
        order = range(self.counts.size)
        chosen = order if len(order) <= _SHOWN else np.argsort(-self.counts.reshape(-1), kind="stable")[:_SHOWN]
        rows: list[tuple[str, ...]] = [head]
        for i in map(int, chosen):
            of_count = (f"{array.reshape(-1)[i]:,.1f}" for array in counts)
            of_rate = (f"{100 * array.reshape(-1)[i]:.2f} %" for array in rates)
            rows.append((texts[i], *of_count, *of_rate))
        notes = [f"... {len(order) - _SHOWN} more cells, in order of count"] if len(order) > _SHOWN else []
        if self.degrees_of_freedom:
            test = f"chi-square {self.statistic:.4g}, {self.degrees_of_freedom} degrees of freedom"
            notes.append(f"independent? {test}, p = {self.p_value:.3g}")
        if not math.isnan(self.cramers_v):
            ends = f"{self.cramers_v_low:.3f} to {self.cramers_v_high:.3f}"
            notes.append(f"Cramer's V {self.cramers_v:.3f} ({ends})")
        if self.n < (enough := reports_for(self.joint)):
            notes.append(
                f"the noise exceeds the count of a typical cell, n / {self.counts.size}: take more than "
                f"{enough:,} reports, a larger epsilon, or a plan that asks for these columns as one"
            )
        return rows, notes


_SHOWN = 24


def reports_for(joint: Joint) -> int:
    """How many reports it takes until the standard error of a cell that one in d1 d2 ... records has is its count.

    >>> from ldp_core import UnaryEncoding
    >>> reports_for(Joint({name: UnaryEncoding(range(16), epsilon=1.0) for name in ("x", "y")}))
    949921
    """
    return math.ceil(joint.cell_variance * math.prod(joint.shape) ** 2)


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


def _ends(columns: Sequence[_Moments]) -> tuple[F64, F64]:
    """float64[d1, d2, ...] each: between which numbers a product of weights is."""
    low: F64 = np.ones(())
    high = low
    for one in columns:
        ends = [np.multiply.outer(end, weight) for end in (low, high) for weight in (one.no, one.yes)]
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    return low, high


def _noise(columns: Sequence[_Moments], counts: F64) -> tuple[F64, F64]:
    """a and b, float64[..., d1, d2, ...]: the variance of an estimated count c is a + b c, given those of margins."""
    k, counts = len(columns), counts.copy()
    counts[margin(k, range(k))] = 0
    each = reduce(np.multiply.outer, [one.own - one.other for one in columns])
    return along(counts, [(one.own - one.other, one.other) for one in columns]), each - 1


def _sum_of(powers: Sequence[int], columns: Sequence[_Moments], sums: I64) -> F64:
    """float64[..., d1, d2, ...], the sum of the product of w^j over reports: each w is one of two numbers."""
    powered = [(one.yes**j, one.no**j) for one, j in zip(columns, powers, strict=True)]
    return along(sums, [(yes - no, no) for yes, no in powered])


@dataclass(frozen=True)
class TableEstimate(Question[Table]):
    """How many records have each combination of values of private columns, and the rate of the last given the others.

    It is asked of a `Joint` in the place of a mechanism.

    Args:
        confidence: of each interval, in (0, 1).
        population: whom counts and rates are about, see `HistogramEstimate`.
        repeats: the most reports of one person; see `HistogramEstimate`. The chi-square statistic is over it.

    Raises:
        ParameterError: confidence outside (0, 1), or no such population; when asked: no `Joint`, or more reports than
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
    def view_of(cls, columns: Collection[str], name: str = "") -> View | None:
        names, told = list(columns), [one.strip() for one in name.split(",")]
        place = names.index("count") if {"count", "low", "high", *RATE} <= set(names) else 0
        k = len(told) if len(told) > 2 and told == names[max(place - len(told), 0) : place] else 2
        return View("count", tuple(names[place - k : place]), rate="rate") if place >= k > 1 else None

    @override
    def check(self, mechanism: Any) -> None:
        if not isinstance(mechanism, Joint):
            raise ParameterError(
                "a table is of several columns: ldp_core.Joint, frame.ldp.table, ldp_beam.Table, ldp estimate --table"
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
        arrays, counts = mechanism.arrays(self, n, counters)
        of_test = [array[0].item() for array in mechanism.association(self, n, counters, counts)]
        asked = self.confidence, self.population, self.repeats or 1
        fields: list[Any] = [*(array[0] for array in (*arrays, counts)), *of_test, *asked]
        return Table(mechanism, tally.n, *fields)

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        arrays, _ = mechanism.arrays(self, n, counters)
        return _rows(mechanism, n, arrays), np.full(len(n), math.prod(mechanism.shape))

    def _arrays(self, joint: Joint, n: I64, counters: I64) -> tuple[list[F64], F64]:
        """See `Joint.arrays`."""
        columns, k = [_moments(mechanism) for mechanism in joint.mechanisms], len(joint.names)
        sums, people = joint.with_margins(n, counters), n.reshape(-1, *[1] * k).astype(float)
        inverse = [(1 / m.rates.difference, -m.rates.q / m.rates.difference) for m in joint.mechanisms]
        estimates = along(sums, inverse, margins=True)
        places = [(mechanism, margin(k, (axis,))) for axis, mechanism in enumerate(joint.mechanisms)]
        alone = [watch(m, n[:, None], sums[at], estimates[at], repeats=self.repeats) for m, at in places]
        if not any(alone):
            watch(joint, n[:, None], counters, estimates, repeats=self.repeats)
        within, counts = np.clip(estimates, 0, people), estimates[margin(k, range(k))]
        a, b = _noise(columns, within)
        low, high = _ends(columns)
        most, step = np.maximum(people, 1), high - low
        sampled = sampled_part(self.population, people, self.repeats)
        side = Side(people, counts / most, a / most, b, sampled, step).of_clusters(self.times**2)
        errors = most * np.sqrt(side.variance(side.inside))
        # Who is in a cell is in its margins, too: where one is estimated below 1, that many. (Much noise hides it.)
        rise, _ = _noise(columns, np.less(within, 1).astype(float))
        side = side._replace(far=(0.0, rise * (a < _QUIET) * self.times**2))
        low, high = (np.where(people, most * end, 0) for end in side.ends(z_score(self.confidence)))

        # What the people themselves add to the sums of squares, as far as they are no sample.
        others, of_others = within[margin(k, range(k - 1))][..., None], estimates[margin(k, range(k - 1))][..., None]
        first = (1 - sampled) * others
        true = (1 - sampled) * np.clip(counts, 0, others)
        zero = np.zeros_like(counts)
        squares = [_sum_of((*[2] * (k - 1), power), columns, sums) for power in (2, 1, 0)]
        of_ratio = np.stack([counts, of_others + zero, *squares], axis=-1)
        ends = [one.yes + one.no for one in columns]
        sums_of_two = reduce(np.multiply.outer, ends[:-1])[..., None], ends[-1]
        rest, score = rest_of(of_ratio, people, *sums_of_two, (0.0, 1.0)), score_sums(of_ratio, *sums_of_two)
        score += np.stack([zero, first / 2 + zero, first + zero], axis=-1)
        of_ratio[..., 2:] -= np.stack([true, true, first + zero], axis=-1)
        rates = ratios(of_ratio, self.confidence, score, self.times, (people, step), rest)
        return [counts, errors, low, high, *rates], estimates


_QUIET = 4.0
"""The variance of a cell below which its margins tell more than its own noise, in squared people."""


def _rows(joint: Joint, n: I64, arrays: Sequence[F64]) -> pa.Table:
    """A table of the columns of `TableEstimate.schema`, of the arrays [k, d1, d2, ...] of `Joint.arrays`."""
    numbers = [array.reshape(-1) for array in arrays]
    values = [
        mechanism.domain.arrow_values.take(pa.array(np.tile(codes.reshape(-1), len(n))))
        for mechanism, codes in zip(joint.mechanisms, np.indices(joint.shape), strict=True)
    ]
    counted = entries(values[-1], np.repeat(n, math.prod(joint.shape)), numbers[:4])
    columns = [*values, *(counted[name] for name in ENTRY[1:-1]), *numbers[4:], counted[ENTRY[-1]]]
    return pa.table(columns, TableEstimate().schema(joint))
