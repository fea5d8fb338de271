"""Sampling of columns (SMP): a record answers one column of D with the whole epsilon, and says nothing of the others.

T. T. Nguyen et al., "Collecting and Analyzing Data from Smart Device Users with Local Differential Privacy",
arXiv:1606.05053, 2016; N. Wang et al., ICDE 2019; "SMP" in H. H. Arcolezi, J.-F. Couchot, B. Al Bouna, X. Xiao,
"Random Sampling Plus Fake Data", CIKM 2021. Why a record spends epsilon: `ldp_core.plans.drawn`.

Of n records m answer this column; S[v] of these reports support v. Given m, those who answer are a uniform sample
of m without replacement, so that with f = c / n, c being the true count among all n records,

    estimate[v] = n / m * (S[v] - m q) / (p - q)                                             (unbiased)
    variance[v] = n / m * ((c p (1 - p) + (n - c) q (1 - q)) / (p - q)^2 + c (1 - f) (n - m) / (n - 1))

The last term is the sampling of people, with the correction for a finite population (W. G. Cochran, "Sampling
Techniques", 1977, equation 2.9). It does not vanish for a large epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools, Codes
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import z_score
from ldp_core.estimates.consistency import Rates
from ldp_core.estimates.plausibility import Sums, Term
from ldp_core.estimates.tails import COUNTS_ALONE, ends_together, reach_of_few
from ldp_core.mechanism import of_inner
from ldp_core.mechanisms.numbers.base import Numeric
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.noise.base import Randomness
from ldp_core.parameters import check_open, parameter
from ldp_core.plans.drawn import DrawnColumn, check_oracle
from ldp_core.poisoning import Influence
from ldp_core.reports import Native, Nullable
from ldp_core.simulated_counts import Generator
from ldp_core.tally import Tally


class Sampled(DrawnColumn):
    """One of D columns, of which each record answers one and leaves the others null.

    A null here is no value that slipped through: which column is answered is drawn without a look at the record, and
    a null tells no more than that the draw fell on another column. (A *value* that is null is refused or becomes
    a label, as ever: see `Domain`.) Under a null the report's buffer holds zeros.

    Reports are those of the inner mechanism, and nulls; in place of a list (bit vectors) there is a list of nulls,
    because pyarrow, as released, does not read a null fixed-size list from Parquet (apache/arrow#35692, seen in
    version 25.0.1). Tallies count the answers first: ``1 + inner.counters`` counters.
    """

    @property
    @override
    def reports(self) -> Nullable:
        return Nullable(self.inner.reports)

    @override
    def perturb_drawn(self, codes: Codes, drawn: Bools, randomness: Randomness) -> Native:
        at = np.flatnonzero(drawn)
        if randomness.by_value:  # each record's noise is its own: perturb all, show those who answer
            answers = self.inner.perturb_codes(codes, randomness.bind(self.digest, codes))[at]
        else:
            answers = self.inner.perturb_codes(codes[at], randomness.bind(self.digest, codes[at]))
        return self.reports.rows(drawn, answers)

    @override
    def tally(self, reports: Any, *, column: str = "reports") -> Tally:
        """By a shorter way than that of the rows, which a single tally does not need."""
        array = self._reports_as_arrow(reports, column)
        _, answers = self.reports.answers(array, column=column)
        counts = self.inner.count_reports(answers, np.broadcast_to(np.int64(0), len(answers)), 1)[0]
        return Tally(len(array), np.concatenate([[len(answers)], counts]), self.fingerprint)

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """How many reports are answers; then what the inner mechanism counts of these."""
        at = np.flatnonzero(reports["answered"])
        answers, of_answer = reports["report"][at], groups[at]
        counts = np.empty((n_groups, self.counters), np.int64)
        counts[:, 0] = np.bincount(of_answer, minlength=n_groups)
        counts[:, 1:] = self.inner.count_reports(answers, of_answer, n_groups)
        return counts

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """How many answer; then the inner mechanism's."""
        answers = generator.binomial(people, 1 / self.columns)
        return np.append(answers.sum(), self.inner.simulate_counters(codes, answers, generator))

    def answers(self, n: I64, counters: I64) -> tuple[Any, I64, I64]:
        """The inner mechanism, of those who answer."""
        return self.inner.answers(counters[..., 0], counters[..., 1:])

    @property
    def counters(self) -> int:
        """One for the number of answers, and the inner mechanism's."""
        return 1 + int(self.inner.counters)

    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Whether there are at most n answers, and the inner mechanism's counters can be of as many."""
        answers = counters[..., 0]
        return (answers >= 0) & (answers <= n) & super().is_possible(answers, counters[..., 1:])


@dataclass(frozen=True, init=False)
class SampledColumn(Sampled, FrequencyOracle):
    """Values, of which each record tells one of D columns and leaves the others null.

    See `Sampled`. p and q are those of an answer.

    >>> from ldp_core import UnaryEncoding
    >>> m = SampledColumn(UnaryEncoding(["ios", "android"], epsilon=2.0), columns=4)
    >>> m.epsilon, m.counters
    (2.0, 3)
    """

    name: ClassVar[str] = "sampled_column"

    inner: FrequencyOracle = parameter(check_oracle)
    collided = of_inner("collided")
    exhaustive = of_inner("exhaustive")
    most = of_inner("most")
    parts = of_inner("parts")
    support_probabilities = of_inner("support_probabilities")  # of an answer

    def variance(self, n: float, count: Any = 0.0) -> Any:
        """Variance of an estimated count, given ``n`` records of which one in D answers; see `FrequencyOracle`."""
        people = count * (1 - count / max(n, 1)) * _unsampled(n, n / self.columns)
        return self.columns * (self.inner.variance(n, count) + people)

    @property
    @override
    def crowded(self) -> float:
        return self.columns * self.inner.crowded

    @override
    def common_noise(self, *, keyed: bool, share: float | None = None) -> float:
        """Under keyed noise also who answers is a person's own: only what answers do not have in common is apart."""
        if not (keyed or self.memoized):
            return 0.0
        n, f = 1e9, 1 / self.domain.size if share is None else share
        apart = 1 - self.inner.common_noise(keyed=keyed, share=share)
        return 1 - apart * float(self.columns * self.inner.variance(n, n * f) / self.variance(n, n * f))

    @cached_property
    @override
    def rates(self) -> Rates:
        """Of one answer in D; the term in c^2, which makes the variance less, left out."""
        q, a, b, difference = self.inner.rates
        return Rates(q, self.columns * a, self.columns * (b + 1) - 1, difference)

    @override
    def error_score(self, errors: F64, n: F64, variance: F64) -> F64:
        """Of one answer in D."""
        columns = self.columns
        return self.inner.error_score(errors / columns, n / columns, variance / columns**2)

    @override
    def extremes(self) -> list[F64]:
        """``d`` times the inner mechanism's, for values that few people hold: one record in d answers."""
        return [self.columns * moves for moves in self.inner.extremes()]

    @override
    def influence(self) -> Influence:
        """A bound, where one record in D answers, and estimated counts are at least 0 and add up to n at most.

        One more answer also lowers the number of records that each stands for, and so all counts together by at most
        D - 1.
        """
        one, whole = super().influence(), self.columns - 1
        return Influence(one.one + whole, one.all + whole)

    def accuracy(self, n: int, beta: float = 0.05) -> float:
        """As of `FrequencyOracle`, for as many answers as one record in D gives: ``floor(n / D)``.

        (Hoeffding's inequality holds for samples without replacement too: his section 6.)
        """
        answers = n // self.columns
        if answers < 1:
            raise ParameterError(f"n must be at least {self.columns}, the number of columns, got {n}")
        return self.inner.accuracy(answers, beta)

    @override
    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """For the variance above: the interval's ends are the roots of a quadratic in c again.

        All four are nan where there are records and no answer.
        """
        check_open("confidence", confidence)
        n = np.asarray(n, float)
        answers = counters[..., :1].astype(float)
        none = answers == 0
        answers = np.where(none, 1, answers)
        b = self.inner.rates.b
        scale = n / answers
        of_answers, of_noise, *_ = self.inner.debias(answers, counters[..., 1:], confidence=COUNTS_ALONE)
        counts: F64 = scale * of_answers
        people = _unsampled(n, answers)
        # variance = a + b c + e c^2. In a pure protocol a is n times a constant; where an error depends on more than
        # the count (collisions of a sketch, values of one block, a regression) the inner mechanism knows how much.
        a = scale**2 * (of_noise**2 - b * np.clip(of_answers, 0, answers))
        b, e = scale * (b + people), -people / answers
        inside = np.clip(counts, 0, n)
        errors: F64 = np.sqrt(np.maximum(a + (b + e * inside) * inside, 0))
        out = counts, errors, *self._ends(counts, n, answers, (a, b, e), confidence, simultaneous)
        empty = np.where(n == 0, 0.0, np.nan)  # without records there is nothing to be uncertain about
        made = [np.where(none, empty, array) for array in out]
        return made[0], made[1], made[2], made[3]

    def _ends(
        self, counts: F64, n: F64, answers: F64, variance: tuple[F64, F64, F64], confidence: float, simultaneous: bool
    ) -> tuple[F64, F64]:
        """Ends of the intervals, given the variance's coefficients (a, b, e)."""
        a, b, e = variance
        if simultaneous:
            scale = n / answers
            z, reports = z_score(confidence, self.domain.size), np.broadcast_to(answers, counts.shape)

            def score(errors: F64, at: F64) -> F64:
                return self.inner.error_score(errors / scale, reports, (a + (b + e * at) * at) / scale**2)

            return ends_together(counts, reports, z, score, z * np.sqrt(np.maximum(a + b * counts, scale**2)))
        z = z_score(confidence)
        shrink = 1 - z**2 * e
        middle = counts + z**2 * b / 2
        half = np.sqrt(np.maximum(middle**2 - shrink * (counts**2 - z**2 * a), 0))
        ends = (middle - half) / shrink, (middle + half) / shrink
        return reach_of_few(ends, counts, answers, z, n / answers * self.inner.step, variance, n)

    @override
    def bounded_sums(self, n: Any, counters: I64, counts: F64) -> Sequence[Sums]:
        """How many answer, one in D; and the inner mechanism's, of those who do."""
        answers = counters[..., :1]
        of_answers = counts * (answers / np.maximum(n, 1))
        return _answering(answers, n, self.columns), *self.inner.bounded_sums(
            answers, counters[..., 1:], np.where(answers, of_answers, 0)
        )


def _check_numeric(name: str, value: Numeric) -> Numeric:
    if not isinstance(value, Numeric) or isinstance(value, DrawnColumn):
        raise ParameterError(f"this column is answered by a mechanism for numbers, got {type(value).__name__}")
    return value


@dataclass(frozen=True, init=False)
class SampledNumber(Sampled, Numeric):
    """Numbers, of which each record tells one of D columns and leaves the others null.

    See `Sampled`. The mean is that of those who answer, which is unbiased: they are drawn without a look at the
    numbers. Wang et al., ICDE 2019, Algorithm 4, with the number of answers in place of its expectation, n / D. In the
    worst case half of the people are at each end: then n times the variance is D times the noise's and (D - 1) / 4
    lengths of the interval squared.

    >>> from ldp_core import NOutput
    >>> m = SampledNumber(NOutput((-1, 1), epsilon=1.0), columns=10)
    >>> round(m.variance(1), 1), round(NOutput((-1, 1), epsilon=0.1).variance(1), 1)  # a tenth of epsilon for each
    (49.2, 400.0)
    """

    name: ClassVar[str] = "sampled_number"

    inner: Numeric = parameter(_check_numeric)

    points = of_inner("points")
    places = of_inner("places")
    blur = of_inner("blur")
    rounds_at_random = of_inner("rounds_at_random")

    @override
    def point_variances(self) -> F64:
        return self.noise(self.places)

    @override
    def noise(self, shares: Any) -> F64:
        """Of numbers that are so on average: half of them, say, at each end."""
        people: F64 = (self.columns - 1) * np.asarray(shares) * (1 - np.asarray(shares))
        return self.columns * self.inner.noise(shares) + people

    @cached_property
    @override
    def most_noise(self) -> float:
        """A bound, that of two worst cases: of noise, and of the sampling of people."""
        return self.columns * self.inner.most_noise + (self.columns - 1) / 4

    @override
    def noise_among(self, mean: F64, variance: F64) -> F64:
        """All but the spread of the numbers themselves, of whom those who answer are a sample."""
        of_one = variance / self.columns
        return variance - np.maximum(of_one - self.inner.noise_among(mean, of_one), 0)

    @override
    def share_means(self, n: Any, counters: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """The inner mechanism's, of those who answer; nan where nobody does."""
        return self.inner.share_means(counters[..., 0], counters[..., 1:], confidence)

    @override
    def far(self, n: Any, means: F64, errors: F64) -> tuple[F64, F64]:
        """One record in D answers, and moves the mean D times as far."""
        below, above = self.inner.far(n / self.columns, means, errors)
        return self.columns * below, self.columns * above

    @override
    def value_bounds(self) -> tuple[float, float]:
        """Of the mean and D times the difference from it of an answer, whatever the mean is."""
        low, high = self.inner.value_bounds()
        return self.columns * low - (self.columns - 1), self.columns * high

    @override
    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        """How many answer, one in D; and the inner mechanism's, of those who do."""
        answers = counters[..., :1]
        return _answering(answers, n, self.columns), *self.inner.bounded_sums(answers, counters[..., 1:], None)


def _answering(answers: I64, n: Any, columns: int) -> Sums:
    """How many answer, one in D."""
    likely = "nulls, which are records that answer another column, were dropped, or some were added; or "
    return Sums(answers, n, Term(1 / columns, 1 / columns, 0.0, 1.0), likely=likely)


def _unsampled(n: Any, answers: Any) -> Any:
    """(n - m) / (n - 1), the correction for a finite population."""
    return np.maximum(n - answers, 0) / np.maximum(np.asarray(n) - 1, 1)
