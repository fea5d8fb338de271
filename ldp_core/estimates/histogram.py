"""Histograms: debiased counts with error bars."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import (
    Population,
    Question,
    Tabular,
    check_population,
    refuse_mechanism,
    sampled_part,
    z_score,
)
from ldp_core.estimates.clusters import Persons, check_persons_population, codes_of, student, tallies_of
from ldp_core.estimates.consistency import Consistency, Noisy, check_method, consistent
from ldp_core.estimates.plausibility import watch
from ldp_core.estimates.tails import COUNTS_ALONE, ends_together, reach_of_few
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_flag, check_open, parameter
from ldp_core.tables import View, about_whom, in_percent
from ldp_core.tally import Tally


class Counted(Tabular):
    """Values with estimated counts, and the same as shares of the ``n`` records, which is a known number."""

    view: ClassVar[View] = View("count", ("value",))

    n: int
    counts: F64
    standard_errors: F64
    low: F64
    high: F64

    @property
    def frequencies(self) -> F64:
        """Estimated shares, ``counts / n``; nan where there are no reports."""
        return _shares(self.n, self.counts)

    @property
    def frequency_standard_errors(self) -> F64:
        """Of `frequencies`."""
        return _shares(self.n, self.standard_errors)

    @property
    def frequency_low(self) -> F64:
        """Low ends of the intervals of the shares."""
        return _shares(self.n, self.low)

    @property
    def frequency_high(self) -> F64:
        """High ends of the intervals of the shares."""
        return _shares(self.n, self.high)

    def __len__(self) -> int:
        return len(self.counts)

    def _entries(self, values: pa.Array) -> pa.Table:
        """`to_arrow`, given the values."""
        return self._with_metadata(entries(values, self.n, (self.counts, self.standard_errors, self.low, self.high)))

    @abstractmethod
    def _texts(self) -> Sequence[str]:
        """The values as text."""

    @override
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        texts = self._texts()
        order = np.argsort(-self.counts, kind="stable") if len(self) > _SHOWN else np.arange(len(self))
        rows: list[tuple[str, ...]] = [("value", "count", "std.error", "low", "high", "frequency", "low", "high")]
        counts = (self.counts, self.standard_errors, self.low, self.high)
        shares = (self.frequencies, self.frequency_low, self.frequency_high)
        for i in order[:_SHOWN].tolist():
            numbers = (*(f"{array[i]:,.1f}" for array in counts), *(f"{100 * array[i]:.2f} %" for array in shares))
            rows.append((texts[i], *numbers))
        more = [f"... {len(self) - _SHOWN} more values, in order of count"] if len(self) > _SHOWN else []
        return rows, more


@dataclass(frozen=True, eq=False, repr=False)
class Histogram(Counted):
    """Estimates of how many of ``n`` records hold each value of the domain; unbiased, unless ``consistency`` is set.

    All arrays are float64[d], in the order of ``domain.values``. Unbiased means that a rare value can
    come out below 0, and that sums and differences of estimates stay unbiased.

    Attributes:
        n: number of reports, those included whose value is none of the domain's (``unmatched="none"``).
        counts: estimated number of records.
        standard_errors: of ``counts``: the root of the variance at the estimate, moved into [0, n].
        low, high: ends of the confidence interval of each count; see `Mechanism.debias`.
        frequencies, frequency_standard_errors, frequency_low, frequency_high: the same divided by ``n``, which is
            known, so that the intervals hold with the same confidence.
        confidence, simultaneous, population: see `HistogramEstimate`.
        consistency: the method that made ``counts`` consistent, and so biased (see `consistent`); None
            where they are the unbiased estimates. Intervals are about the true counts, and standard errors are the
            unbiased estimate's, whatever is done to the estimate. A consistent count may lie outside its interval, and
            has none of its own: its error depends on all the true counts.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ios", "android"], epsilon=50.0)  # so large that there is no noise
    >>> histogram = m.estimate(m.tally(m.perturb(["ios", "ios", "ios", "android"])))
    >>> histogram.values, histogram.counts.round(6).tolist(), histogram.n
    (('ios', 'android'), [3.0, 1.0], 4)
    """

    question: ClassVar[str] = "histogram"

    domain: Domain
    n: int
    counts: F64
    standard_errors: F64
    low: F64
    high: F64
    confidence: float
    simultaneous: bool
    consistency: Consistency | None = None
    mechanism: Mechanism | None = None
    population: Population = None

    @property
    def values(self) -> tuple[Label, ...]:
        """The domain's values, ``"other"`` last where there is such a bucket."""
        return self.domain.values

    @property
    def biased(self) -> bool:
        """Whether ``counts`` were made consistent: do not add, subtract or average them."""
        return self.consistency is not None

    @override
    def to_arrow(self) -> pa.Table:
        """Table of the columns in `ENTRY`, one row per value of its own type; metadata as `estimates_metadata`."""
        return self._entries(self.domain.arrow_values)

    @override
    def _head(self) -> str:
        kind = "simultaneous" if self.simultaneous else "per value"
        head = f"Histogram of {self.n:,} reports, {in_percent(self.confidence)}% intervals ({kind})"
        head += about_whom(self.population)
        if self.biased:
            head += f" of the unbiased estimate; counts made consistent ({self.consistency}: biased)"
        return head

    @override
    def _texts(self) -> Sequence[str]:
        return self.domain.texts


@runtime_checkable
class Counting(Noisy, Protocol):
    """What a mechanism with histograms offers: a `FrequencyOracle`."""

    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """Estimated counts, their standard errors, and the low and high ends of their intervals."""

    def answers(self, n: I64, counters: I64) -> tuple[Any, I64, I64]:
        """What there is of reports that are answers, if not all of them are: the mechanism, n and the counters."""


def _check_consistency(name: str, value: Consistency | None) -> Consistency | None:
    if value is not None:
        check_method(value)
    return value


@dataclass(frozen=True)
class HistogramEstimate(Question[Histogram]):
    """How many records hold each value of the domain.

    Args:
        confidence: of the intervals, in (0, 1).
        simultaneous: widen them so that all d hold together with that confidence (Bonferroni).
        consistency: make the counts non-negative and add up to n by a method of `consistent`;
            biased. Standard errors and intervals remain those of the unbiased estimate.
        population: whom the intervals are about. None: the people who reported, and noise is the only error.
            ``"many"``: a large population of which they are a random sample. N: a population of N people. With a true
            share f a share has f (1 - f) / n times `sampled_part` more variance: the noise has mean 0 whoever is in the
            sample. The interval is Wilson's score interval, of that variance; so it holds near shares of 0 and 1.
        repeats: the most reports of one person, where some have several. The variance is at most so many times that of
            independent reports (`ldp_core.estimates.clusters` has the proof), and is taken to be; and of N people as
            few as can be have reported. `of_persons` needs no such bound. Default: one report of each.

    Raises:
        ParameterError: confidence outside (0, 1), or an unknown method; when asked: more reports than people.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(epsilon=1.0)
    >>> found = HistogramEstimate(population="many").result(m, m.tally([True] * 400 + [False] * 600))
    >>> [round(float(x[1]), 4) for x in (found.frequencies, found.frequency_low, found.frequency_high)]
    [0.2836, 0.2188, 0.35]
    >>> HistogramEstimate(consistency="norm-sub").result(m, m.tally([True, True])).counts.tolist()
    [0.0, 2.0]
    """

    name: ClassVar[str] = Histogram.question
    view: ClassVar[View] = Histogram.view
    linear: ClassVar[bool] = True

    confidence: float = parameter(check_open, default=0.95)
    simultaneous: bool = parameter(check_flag, default=False)
    consistency: Consistency | None = parameter(_check_consistency, default=None)
    population: Population = parameter(check_population, default=None)

    @override
    def check(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, Mechanism) or not isinstance(mechanism, Counting):
            raise refuse_mechanism("a histogram", "a frequency oracle", mechanism)
        if self.consistency is not None:
            check_method(self.consistency, mechanism)

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        return entries_schema(mechanism.domain.arrow_type)

    @override
    def result(self, mechanism: Any, tally: Tally) -> Histogram:
        self.check(mechanism)
        mechanism.check_tally(tally)
        arrays = self._arrays(mechanism, tally.n, tally.counters)
        asked = (self.confidence, self.simultaneous, self.consistency)
        return Histogram(mechanism.domain, tally.n, *arrays, *asked, mechanism, self.population)

    @override
    def of_persons(self, mechanism: Any, reports: Any, persons: Any, *, column: str = "reports") -> Histogram:
        """See `Question.of_persons`. The intervals are about a population of many people, or on the safe side."""
        self.check(mechanism)
        native = mechanism._checked(reports, column)
        codes, people = codes_of(persons, len(native))
        each = tallies_of(mechanism, native, codes, people)
        sums = Persons.total(self.person_sums(mechanism, *some) for some in each)
        return self.of_sums(mechanism, mechanism.tally(reports, column=column), sums)

    @override
    def person_sums(self, mechanism: Any, n: I64, counters: I64) -> Persons:
        return Persons.of(*self.person_numbers(mechanism, n, counters))

    def person_numbers(self, mechanism: Any, n: I64, counters: I64) -> tuple[F64, I64, Any]:
        """What `Persons.of` takes, of k persons and their tallies."""
        check_persons_population(self.population)
        if math.isinf(mechanism.parts[1]):
            raise ParameterError(f"{mechanism.name} fits all reports at once, and no persons: say repeats= instead")
        oracle, m, counted = mechanism.answers(n, counters)
        return oracle.debias(m[:, None], counted, confidence=COUNTS_ALONE)[0], m[:, None], 0.0

    @override
    def of_sums(self, mechanism: Any, tally: Tally, sums: Persons) -> Histogram:
        many = replace(self, population="many", repeats=None)
        side = counted_side(mechanism, np.array(tally.n), tally.counters, 1.0)
        z = z_score(self.confidence, mechanism.domain.size if self.simultaneous else 1)
        reach = student(z, sums.degrees) / z
        arrays = many._arrays(mechanism, tally.n, tally.counters, side.effects(sums), reach, sums.most)
        asked = (self.confidence, self.simultaneous, self.consistency)
        return Histogram(mechanism.domain, tally.n, *arrays, *asked, mechanism, "many")

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        domain: Domain = mechanism.domain
        numbers = self._arrays(mechanism, n[:, None], counters)
        values = domain.arrow_values.take(pa.array(np.tile(np.arange(domain.size), len(n))))
        table = entries(values, np.repeat(n, domain.size), [array.reshape(-1) for array in numbers])
        return table, np.full(len(n), domain.size)

    def _arrays(
        self,
        mechanism: Any,
        n: Any,
        counters: I64,
        times: tuple[Any, Any] | None = None,
        reach: float = 1.0,
        most: float | None = None,
    ) -> tuple[F64, F64, F64, F64]:
        """`Counting.debias`, and counts made consistent, of any number of tallies at once.

        ``times``: the design effects of noise and of the sample, if they are not ``repeats``. ``reach``: how many times
        as many standard errors intervals are wide. ``most``: how many reports of a person `watch` allows for.
        """
        if times is None and (self.repeats or 1) > 1:
            times = self.repeats, self.repeats
        counts, errors, low, high = mechanism.debias(
            n, counters, confidence=self.confidence, simultaneous=self.simultaneous
        )
        watch(mechanism, n, counters, counts, repeats=most or self.repeats)
        if self.population is not None or times is not None:
            of_noise = (errors, low, high)
            errors, low, high = self._widened(mechanism, n, counters, of_noise, times or (1, 1), reach)
        if self.consistency is not None:
            known = ~np.isnan(counts[..., 0])  # (a sampled column that nobody answered has no estimate)
            total = np.broadcast_to(n, (*known.shape, 1))[known]
            alike = np.clip(1 if times is None else times[0], 1, np.maximum(total, 1)).max(axis=-1, keepdims=True)
            counts[known] = consistent(counts[known], total, self.consistency, mechanism=mechanism, repeats=alike)
        return counts, errors, low, high

    def _widened(
        self,
        mechanism: Any,
        n: Any,
        counters: I64,
        of_noise: tuple[F64, F64, F64],
        times: tuple[Any, Any],
        reach: float,
    ) -> tuple[F64, F64, F64]:
        """Errors and ends of intervals, given those of noise alone, with the error of the sample and of clusters."""
        n = np.broadcast_to(n, (*counters.shape[:-1], 1))
        before = after = counted_side(mechanism, n[..., 0], counters)
        if (self.repeats or 1) > 1:
            after = counted_side(mechanism, n[..., 0], counters, repeats=self.repeats or 1)
        answers = before.n
        sampled_part(self.population, n, self.repeats)  # (who does not answer has reported, too)
        before, after = (
            side._replace(sampled=answering_part(whom, n, answers, self.repeats))
            for side, whom in ((before, None), (after, self.population))
        )
        oracle, *_ = mechanism.answers(n[..., 0], counters)
        z = z_score(self.confidence, mechanism.domain.size if self.simultaneous else 1)
        unknown = np.isinf(times[0])
        noise, sample = (np.where(unknown, 1, one) for one in times)
        after = after.of_clusters(noise, sample)
        errors = np.where(unknown, np.inf, n * np.sqrt(after.variance(after.inside)))
        fitted = math.isinf(oracle.parts[1])  # by a regression
        tails = oracle if self.simultaneous and not fitted else None
        narrow, wide = before.ends_of(z, tails), after.ends_of(reach * z, tails, noise)
        # What the mechanism knows beside the variance, as how skewed collisions are, stays in the interval.
        below, above = (n * (wide[i] - narrow[i]) for i in (0, 1))
        low, high = of_noise[1] + below, of_noise[2] + above
        if fitted:  # it knows more: the sample takes nothing away, and has its own interval
            low = np.min([low, of_noise[1], n * wide[0]], axis=0)
            high = np.max([high, of_noise[2], n * wide[1]], axis=0)
        there = answers > 0
        unbounded = there & np.isinf(errors)
        return (
            np.where(there, errors, of_noise[0]),
            np.where(unbounded, -np.inf, np.where(there, low, of_noise[1])),
            np.where(unbounded, np.inf, np.where(there, high, of_noise[2])),
        )


class Side(NamedTuple):
    """Estimated shares of k tallies; the estimate of one report has variance a + b f + sampled f (1 - f)."""

    n: F64  # [k, 1]
    estimates: F64  # [k, d]
    a: F64  # [k, d]
    b: Any = 0.0
    sampled: Any = 0.0
    step: Any = 0.0
    """What one report adds to the sum of so many, if it adds much; see `ldp_core.estimates.tails`."""
    far: tuple[Any, Any] = (0.0, 0.0)
    """By how much that variance rises as f falls and rises from the estimate: of means, see `far_numbers`."""
    off: float = 0.0
    """By how much the expectation of an estimate may be off: of means, see `off_of`."""
    safer: float = 1
    """See `reach_of_few`."""

    def variance(self, f: F64) -> F64:
        """Of the estimates, if the shares are ``f``."""
        of_one: F64 = np.maximum(self.a + self.b * f + self.sampled * f * (1 - f) + self.more(f), 0)
        return of_one / np.maximum(self.n, 1)

    def more(self, f: F64) -> F64:
        """What ``far`` adds to the variance of the estimate of one report, if the means are ``f``."""
        return np.where(f < self.estimates, *self.far) * np.abs(f - self.estimates)

    def of_clusters(self, noise: Any, sample: Any = None) -> Side:
        """With so many times the variance of noise, and (default: as many) of the sample."""
        sample = noise if sample is None else sample
        step = self.step * np.maximum(noise, sample)
        far = self.far[0] * sample, self.far[1] * sample
        return self._replace(a=self.a * noise, b=self.b * noise, sampled=self.sampled * sample, step=step, far=far)

    def effects(self, sums: Persons) -> tuple[F64, F64]:
        """The design effects of noise and of the sample, of shares among many people; see `clusters` in this room."""
        f, variance, slope = self.inside, self.variance(self.inside), self.b + 1 - 2 * self.inside
        of_reports = variance + slope * (self.estimates - f) / np.maximum(self.n, 1)  # (f is moved)
        effect, most = sums.effect(f, sums.mm * variance * self.n + slope * (sums.wm - f * sums.mm), of_reports)
        alike = 2 / (2 + self.n / most * f * (1 - f))
        return effect, effect + alike * np.maximum(most - effect, 0)

    @property
    def inside(self) -> F64:
        """The estimates, moved into [0, 1]."""
        return np.clip(self.estimates, 0, 1)

    def ends(self, z: F64 | float) -> tuple[F64, F64]:
        """Of intervals of all f that are within z of their own standard errors: roots of a polynomial of degree 2.

        Where few reports decide they reach farther.
        """
        square = z**2 / np.maximum(self.n, 1)
        f, scale, n = self.estimates, 1 + self.sampled * square, np.maximum(self.n, 1)
        at_f = square * (self.a + (self.b + self.sampled * (1 - f)) * f)

        def end(side: int) -> F64:
            slope = square / 2 * (self.b + self.sampled * (1 - 2 * f) + side * self.far[side > 0])
            return f + (slope + side * np.sqrt(np.maximum(slope**2 + scale * at_f, 0))) / scale

        of_one = self.a / n, (self.b + self.sampled) / n, -self.sampled / n
        return reach_of_few((end(-1), end(1)), f, self.n, z, self.step / n, of_one, 1, self.safer)

    def ends_of(self, z: F64 | float, tails: Any = None, times: Any = 1.0) -> tuple[F64, F64]:
        """`ends`, with the tails that n / times reports of an oracle have, see `ldp_core.estimates.tails`."""
        if tails is None:
            return self.ends(z)
        people = np.broadcast_to(np.maximum(self.n, 1) / times, self.estimates.shape)

        def score(errors: F64, at: F64) -> F64:
            return tails.error_score(errors * people, people, self.variance(at) * people**2)

        width = z * np.sqrt(self.variance(self.inside))
        return ends_together(self.estimates, np.broadcast_to(self.n, people.shape), z, score, width)


def answering_part(population: Population, n: Any, answers: Any, repeats: int | None = None) -> Any:
    """`sampled_part` of those who answer; who answer one of several columns are a sample of those who reported."""
    if population is None:
        return np.maximum(n - answers, 0) / np.maximum(n - 1, 1)
    return sampled_part(population, answers, repeats)


def counted_side(mechanism: Any, n: I64, counters: I64, sampled: float = 0.0, repeats: int = 1) -> Side:
    """The shares of tallies, int64[..., counters] of n reports, int64[...]: among those who answer.

    (Of ``repeats`` equal reports of each: what a mechanism tells of its noise is what it tells of one report each.)
    """
    oracle, n, counters = mechanism.answers(n, counters)
    people, of_one = np.maximum(n, 1)[..., None] / repeats, counters if repeats == 1 else counters / repeats
    counts, errors, *_ = oracle.debias(people, of_one, confidence=COUNTS_ALONE)
    b, estimates = oracle.rates.b, counts / people
    # (Where a variance depends on more than f, the mechanism knows how.)
    a = errors**2 / people - b * np.clip(estimates, 0, 1)
    return Side(np.asarray(n)[..., None].astype(float), estimates, a, b, sampled, oracle.step)


_SHOWN = 20
"""At most so many values are shown to people."""

_NUMBERS = ("count", "standard_error", "low", "high")
_SHARES = ("frequency", *(f"frequency_{name}" for name in _NUMBERS[1:]))

ENTRY = ("value", *_NUMBERS, *_SHARES, "n")
"""Columns of a table of counted values, the same everywhere: in Arrow, in Polars, and in the rows of Beam."""


def entries_schema(values: pa.DataType) -> pa.Schema:
    """Columns of a table of counted values, as in `ENTRY`."""
    numbers = ((name, pa.float64()) for name in (*_NUMBERS, *_SHARES))
    return pa.schema([("value", values), *numbers, ("n", pa.int64())])


def entries(values: pa.Array, n: Any, numbers: Sequence[F64]) -> pa.Table:
    """A table of the columns in `ENTRY`: of k values, n of all or of each, counts and their errors and ends."""
    n = np.broadcast_to(np.asarray(n, np.int64), len(values))
    columns = [values, *numbers, *(_shares(n, array) for array in numbers), n]
    return pa.table(columns, entries_schema(values.type))


def _shares(n: Any, numbers: F64) -> F64:
    """Numbers of records as shares of ``n``; nan where there are none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: F64 = np.where(n, numbers / np.asarray(n), np.nan)
    return shares
