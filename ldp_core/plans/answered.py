"""Tables of two columns, and histograms of one, from reports of pairs: formulas in `ldp_core.plans.pairs`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools
from ldp_core.errors import ParameterError
from ldp_core.estimates.association import Association, of_cells
from ldp_core.estimates.base import Question, sampled_part, z_score
from ldp_core.estimates.consistency import OF_ESTIMATES, consistent
from ldp_core.estimates.histogram import HistogramEstimate, Side
from ldp_core.estimates.joint import Joint, TableEstimate
from ldp_core.estimates.ratios import ratios
from ldp_core.estimates.registry import Ask, by_column, question_of, questions_of
from ldp_core.estimates.several import Several
from ldp_core.estimates.tails import COUNTS_ALONE
from ldp_core.inputs.domain import Domain
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.plans.pairs import SampledPair
from ldp_core.tables import View


class _Cells(NamedTuple):
    """Noise of the weights of cells, of which all are alike: variances given the record's own cell, and another one.

    ``own`` is the covariance of the record's own cell with another one, ``others`` that of two others.
    """

    yes: float
    no: float
    own: float
    others: float

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, inner: FrequencyOracle) -> _Cells:
        """From p and q: a report that supports k cells always has indicators whose covariances with all add up to 0.

        Raises:
            ParameterError: another number of cells from report to report.
        """
        d, (least, most) = inner.domain.size, inner.supported
        if least != most:
            raise ParameterError(f"the errors of one column of a pair are not known for {inner.name}")
        p, q = (float(side[0]) for side in inner.support_probabilities())
        yes, no = (one * (1 - one) / (p - q) ** 2 for one in (p, q))
        own = -yes / (d - 1)
        return cls(yes, no, own, -(no + own) / (d - 2))

    def of_row(self, cells: int) -> tuple[float, float]:
        """(V1, V0) of the sum over a row of so many cells: for a record in this row, and for another one."""
        none = cells * (self.no + (cells - 1) * self.others)
        more = self.yes - self.no + 2 * (cells - 1) * (self.own - self.others)
        return none + more, none

    def with_row(self, cells: int) -> tuple[float, float, float]:
        """Covariances of a cell and its row: of a record in the cell, in another one of the row, in another row."""
        out = self.no + (cells - 1) * self.others
        return self.yes + (cells - 1) * self.own, out + self.own - self.others, out


class _Axis(NamedTuple):
    """A column of a pair in the place of its mechanism: it has none of its own."""

    domain: Domain


class _OfPairs(Several):
    """Tallied from reports of pairs, of which a record answers one: the largest spending counts."""

    @override
    def together(self, spent: Iterable[Any]) -> Any:
        return max(spent)

    @property
    @override
    def counters(self) -> int:
        return sum(m.counters for m in self.makers.values())

    @override
    def count_reports(self, reports: Any, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        each = zip(self.makers.values(), reports.parts, strict=True)
        return np.concatenate([m.count_reports(part, groups, n_groups) for m, part in each], axis=1)

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        each = zip(self.makers.values(), self._by_pair(counters), strict=True)
        return np.logical_and.reduce([m.is_possible(n, part) for m, part in each])

    def _by_pair(self, counters: I64) -> list[I64]:
        return np.split(counters, np.cumsum([m.counters for m in self.makers.values()])[:-1], axis=-1)


@dataclass(frozen=True, init=False)
class AnsweredPair(_OfPairs, Joint):
    """Two columns of which records answer the pair: see `joint_of`.

    Args:
        column: the name of the column of reports.
        mechanism: that made them.
        names: both columns, in the order of the table.
    """

    column: str
    mechanism: SampledPair

    def __init__(self, column: str, mechanism: SampledPair, names: Sequence[str]) -> None:
        axes = tuple(_Axis(dict(mechanism.of)[name]) for name in names)
        self._set(column=column, mechanism=mechanism, names=tuple(names), mechanisms=axes)

    @property
    @override
    def makers(self) -> dict[str, Any]:
        return {self.column: self.mechanism}

    @cached_property
    def fingerprint(self) -> str:
        """That of the mechanism, whose tallies these are."""
        return self.mechanism.fingerprint

    @property
    @override
    def cell_variance(self) -> float:
        return float(np.max(self.mechanism.variance(1, 1 / self.mechanism.domain.size)))

    @override
    def arrays(self, asked: TableEstimate, n: I64, counters: I64) -> tuple[list[F64], F64]:
        """A histogram of the cells; and rates, of those who answer, who are a sample."""
        question = HistogramEstimate(asked.confidence, population=asked.population, repeats=asked.repeats)
        swapped = self.names[0] != self.mechanism.of[0][0]
        cells = []
        for array in question._arrays(self.mechanism, n[:, None], counters):
            table = array.reshape(-1, *self.mechanism.shape)
            cells.append(table.transpose(0, 2, 1) if swapped else table)
        counts = cells[0]
        rows = np.concatenate([counts, counts.sum(axis=2, keepdims=True)], axis=2)
        whole = np.concatenate([rows, rows.sum(axis=1, keepdims=True)], axis=1)
        whole[:, -1, -1] = n
        m = counters[:, 0].astype(float)[:, None, None]
        scale = m / np.maximum(n, 1)[:, None, None]
        u, w = counts * scale, rows[:, :, -1:] * scale + np.zeros_like(counts)
        part = (
            sampled_part(asked.population, m, asked.repeats)
            if asked.population is not None
            else _unsampled(n[:, None, None], m)
        )
        f = np.clip(w, 0, m)
        c = np.clip(u, 0, f)
        noise = _Cells.of(self.mechanism.inner)
        inside, row, out = noise.with_row(self.shape[1])
        yes, no = noise.of_row(self.shape[1])
        of_row = f * (yes + part) + (m - f) * no
        squares = (
            c * (noise.yes + part) + (m - c) * noise.no,
            c * (inside + part) + (f - c) * row + (m - f) * out,
            of_row,
        )
        # The same if the rate is r, and so c = r f: of powers of r.
        more, shared = f * (noise.yes - noise.no + part), f * (inside + part - row)
        score = m * noise.no + 0 * c, f * row + (m - f) * out - more / 2, of_row - 2 * shared
        sums, of_score = (np.stack(arrays, axis=-1) for arrays in ((u, w, *squares), score))
        few = m, self.mechanism.inner.step
        return [*cells, *ratios(sums, asked.confidence, of_score, asked.times, few)], whole

    @override
    def association(self, asked: TableEstimate, n: I64, counters: I64, counts: F64) -> Association:
        """Of those who answer, who are a sample of the population too."""
        m = counters[:, 0]
        scale = (m / np.maximum(n, 1))[:, None, None]
        cells = np.where(scale > 0, counts[:, :-1, :-1] * scale, 0)  # (without answers counts are nan)
        of_answers = cells.sum(axis=2), cells.sum(axis=1)
        return of_cells(self.mechanism.inner, m, cells, of_answers, asked.times, asked.confidence)


def _unsampled(n: Any, m: Any) -> Any:
    """(n - m) / (n - 1): what part of the variance of a sample of m of n people there is."""
    return np.maximum(n - m, 0) / np.maximum(n - 1, 1)


def joint_of(columns: Mapping[str, Any], names: Sequence[str]) -> Joint:
    """What a table of some columns is tallied from: the reports of a pair, or of each column by itself.

    Raises:
        ParameterError: see `Joint`; or three and more columns of a plan of pairs.
    """
    held: set[str] = set()
    for column, mechanism in columns.items():
        if isinstance(mechanism, SampledPair):
            held.update(dict(mechanism.of))
            if len(names) == 2 and set(names) == {name for name, _ in mechanism.of}:
                return AnsweredPair(column, mechanism, names)
    if len(names) > 2 and {*names} <= held:
        raise ParameterError(
            f"a record answered two columns, got {list(names)}: fit_tables makes tables of more from those of pairs"
        )
    return Joint(columns, names)


@dataclass(frozen=True)
class Margin(_OfPairs):
    """One column, from the reports of all pairs that hold it.

    Attributes:
        column: its name.
        pairs: the columns of reports and their mechanisms.
    """

    name: ClassVar[str] = "margin"

    column: str
    pairs: tuple[tuple[str, SampledPair], ...]

    @property
    def domain(self) -> Domain:
        """Its values."""
        return dict(self.pairs[0][1].of)[self.column]

    @property
    @override
    def makers(self) -> dict[str, Any]:
        return dict(self.pairs)

    @cached_property
    def fingerprint(self) -> str:
        """Of the column and the mechanisms."""
        told = ":".join([self.column, *(m.fingerprint for _, m in self.pairs)])
        return sha256(told.encode()).hexdigest()[:16]

    @property
    @override
    def title(self) -> str:
        return f"from {len(self.pairs)} pair{'s' * (len(self.pairs) > 1)}"

    def variance(self, f: float) -> float:
        """n times the variance of a share that is f, where one in so many pairs is answered by each record."""
        of_pair, _, b, sampled = self._weighted(1.0, [np.array(1 / m.columns) for _, m in self.pairs])
        return float(of_pair + b * f + (sampled - 1) * f * (1 - f))

    def ends(self) -> tuple[float, float]:
        """The least and the greatest that a report adds to an estimated count, where the pairs have equal shares."""
        h = self._weighted(1.0, [np.array(1 / m.columns) for _, m in self.pairs])[1]
        each = []
        for (_, m), w in zip(self.pairs, h, strict=True):
            cells, supported = m.shape[1 - self._axis(m)], m.inner.supported[0]
            p, q = (float(side[0]) for side in m.inner.support_probabilities())
            of_row = np.array([max(supported + cells - m.inner.domain.size, 0), min(supported, cells)])
            each.append(m.columns * w * (of_row - cells * q) / (p - q))
        return float(np.min(each)), float(np.max(each))

    def side(self, n: Any, counters: I64) -> Side:
        """The shares, float64[..., d], as people a sample of which many."""
        found, answers = [], []
        for (_, m), part in zip(self.pairs, self._by_pair(counters), strict=True):
            people = part[..., :1].astype(float)
            some = np.maximum(people, 1)
            cells = m.inner.debias(some, part[..., 1:], confidence=COUNTS_ALONE)[0] / some
            found.append(cells.reshape(*cells.shape[:-1], *m.shape).sum(axis=-1 - self._axis(m)))
            answers.append(people)
        a, h, b, sampled = self._weighted(n, answers)
        n = np.asarray(n, float)
        with np.errstate(invalid="ignore"):  # (of a pair without answers)
            f = np.sum([w * one for w, one in zip(h, found, strict=True)], axis=0)
            coins = zip((m.inner.step for _, m in self.pairs), h, answers, strict=True)
            each = [step * np.nan_to_num(w / people) for step, w, people in coins]
        return Side(n, f, a + np.zeros_like(f), b, sampled, n * np.max(each, axis=0))

    def _axis(self, m: SampledPair) -> int:
        return [name for name, _ in m.of].index(self.column)

    def _weighted(self, n: Any, answers: Sequence[F64]) -> tuple[F64, list[F64], F64, F64]:
        """a, the weights of the pairs, b and n sum of h^2 / m, given how many of n answer each pair; see this text."""
        noise = [_Cells.of(m.inner).of_row(m.shape[1 - self._axis(m)]) for _, m in self.pairs]
        precision = [people / v0 for people, (_, v0) in zip(answers, noise, strict=True)]
        with np.errstate(divide="ignore", invalid="ignore"):
            h = [one / np.sum(precision, axis=0) for one in precision]
            each = [np.where(people > 0, w**2 / people, 0) * n for w, people in zip(h, answers, strict=True)]
        a = np.sum([one * v0 for one, (_, v0) in zip(each, noise, strict=True)], axis=0)
        b = np.sum([one * (v1 - v0) for one, (v1, v0) in zip(each, noise, strict=True)], axis=0)
        return a, h, b, np.sum(each, axis=0)


def margins(columns: Mapping[str, Any]) -> dict[str, Margin]:
    """The columns that pairs of a plan hold, and what their histograms are made from."""
    pairs = [(name, m) for name, m in columns.items() if isinstance(m, SampledPair)]
    held = dict.fromkeys(name for _, m in pairs for name, _ in m.of)
    return {c: Margin(c, tuple(pair for pair in pairs if c in dict(pair[1].of))) for c in held if c not in columns}


@dataclass(frozen=True)
class MarginEstimate(HistogramEstimate):
    """A histogram of a `Margin`: its options are those of `HistogramEstimate`.

    With ``repeats=r`` the variance is r times as large: the bound of `ldp_core.estimates.clusters` holds, as reports of
    one person are one of the independent parts of the sum whichever pairs they answer.
    """

    name: ClassVar[str] = "margin"
    view: ClassVar[View] = HistogramEstimate.view

    @classmethod
    def of(cls, asked: Ask, **options: Any) -> Self:
        """From what stands for a question, see `question_of`.

        Raises:
            ParameterError: another question than a histogram.
        """
        question = question_of(asked, **options)
        if not isinstance(question, HistogramEstimate):
            raise ParameterError(
                f"of one column of pairs there is a histogram, and no {question.name}: collect by PrivacyPlan.split"
            )
        return cls(**{option.name: getattr(question, option.name) for option in fields(HistogramEstimate)})

    @override
    def check(self, mechanism: Any) -> None:
        if not isinstance(mechanism, Margin):
            raise ParameterError("this question is asked of one column of pairs: see PrivacyPlan.pairs")
        if self.consistency not in (None, *OF_ESTIMATES):
            raise ParameterError(
                f"of one column of pairs consistency is one of {', '.join(OF_ESTIMATES)}: {self.consistency} needs the "
                "noise of one mechanism, and here several have a part in each count"
            )

    @override
    def person_sums(self, mechanism: Any, n: I64, counters: I64) -> NoReturn:
        raise ParameterError(NO_PERSONS)

    @override
    def _arrays(self, mechanism: Any, n: Any, counters: I64, *_: Any) -> tuple[F64, F64, F64, F64]:
        side = mechanism.side(np.asarray(n), counters)
        people = side.n
        # Of the people themselves, (sum n h^2 / m - 1) n / (n - 1); those who answer are a sample of them.
        part = 1 - sampled_part(self.population, people, self.repeats)
        sampled = np.maximum(side.sampled - part, 0) * (1 + part / np.maximum(people - 1, 1))
        side = side._replace(sampled=sampled).of_clusters(self.repeats or 1)
        z = z_score(self.confidence, mechanism.domain.size if self.simultaneous else 1)
        low, high = side.ends(z)
        made = [side.estimates, np.sqrt(side.variance(side.inside)), low, high]
        counts, errors, low, high = (np.where(people > 0, people * one, 0.0) for one in made)
        known = ~np.isnan(counts[..., 0])  # (there is an answer)
        if self.consistency is not None:
            total = np.broadcast_to(people, (*known.shape, 1))[known]
            counts[known] = consistent(counts[known], total, self.consistency)
        return counts, errors, low, high


NO_PERSONS = (
    "of one column of pairs persons are not told apart: how much a report counts depends on how many answer each pair, "
    "which is known only when all are summed. In place of person= say repeats=k, the most reports of one person; a "
    'pair by itself takes person=, as pl.col("os_crashed").ldp.histogram(person=...)'
)


def questions_and_margins(
    columns: Mapping[str, Any], ask: Mapping[str, Ask] | None = None, confidence: float = 0.95, **options: Any
) -> dict[str, Question[Any]]:
    """`questions_of` a plan's columns, and what is asked of each column that its pairs hold."""
    alone, ask = margins(columns), by_column(ask)
    asked = {name: MarginEstimate.of(ask.pop(name, "histogram"), confidence=confidence, **options) for name in alone}
    for name, question in asked.items():
        question.check(alone[name])
    return {**questions_of(columns, ask, confidence, **options), **asked}
