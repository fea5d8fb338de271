"""Frequency oracles: the pure LDP protocol, and the one estimator for all of them.

A mechanism is *pure* (T. Wang, J. Blocki, N. Li, S. Jha, "Locally Differentially Private
Protocols for Frequency Estimation", USENIX Security 2017, Definition 3.2) if a report
supports its own true value with probability p and any other given value with
probability q < p. Then, with C[v] the number of n reports that support v,

    estimate[v] = (C[v] - n q) / (p - q)                               (ibid., Equation 1)
    variance[v] = (c p (1 - p) + (n - c) q (1 - q)) / (p - q)^2        (ibid., Theorem 2)

where c is the true count. Nothing below this class's subclasses knows which one it holds.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from ldp_core.accounting.shuffling import Levels
from ldp_core.arrays.types import F64, I64, Bools
from ldp_core.errors import DomainError, ParameterError, ReportError
from ldp_core.estimates.base import Population, z_score
from ldp_core.estimates.consistency import Consistency, Rates
from ldp_core.estimates.histogram import Histogram, HistogramEstimate
from ldp_core.estimates.plausibility import Sums, Term
from ldp_core.estimates.tails import COUNTS_ALONE, ends_together, reach_of_few, two_point_score
from ldp_core.estimates.weights import one_by_one
from ldp_core.exact import bits
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanism import ExpectedError, Mechanism
from ldp_core.parameters import check_integer, check_open, shown
from ldp_core.poisoning import Influence, gain_of, influence_of
from ldp_core.reports import Native
from ldp_core.reports.bits import bit_of
from ldp_core.tally import Tally


class Moments(NamedTuple):
    """Of sums of weights over estimated counts: float64[k, r], then float64[r] each."""

    variances: F64
    """Of the noise of k groups of people."""
    inner: F64
    """Of the noise of one report, on average over the values with a weight above 0."""
    outer: F64
    """The same, over all others."""
    unlike: F64
    """How unlike it is for values of one side: the sum of the squared differences from these means."""
    reach: F64
    """How far apart two reports can be, times p - q."""
    least: F64
    """Of the noise of one report, the least of any value; or 0."""


class FrequencyOracle(Mechanism):
    """A mechanism that estimates how many records hold each value of a declared domain.

    A subclass says with what exact probabilities a report supports a value; everything else is here. All are made of

    * ``domain``: a `Domain`, or a list of labels; of numbers an `Interval` or a pair, of sketches a kind;
    * ``unmatched``, beside a list of labels: what becomes of other values, nulls included; see `Domain`;
    * ``epsilon``, or those of several reports: finite, > 0;

    and of options of their own. What does not exist among these is refused by a `ParameterError`, domains by a
    `DomainError`.
    """

    domain: Domain
    """What is estimated; and, in all but views of sketches, what is perturbed."""

    most: int = 1
    """How many of the domain's values a record holds at most."""

    @property
    def exhaustive(self) -> bool:
        """Whether each record holds one of the domain's values, so that the true counts add up to n."""
        return self.domain.unmatched != "none"

    @property
    def counters(self) -> int:
        """``d``: one counter per value."""
        return self.domain.size

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Each counter is in [0, n], and their sum what n reports can support."""
        least, most = self.supported
        total = np.add.reduce(counters, axis=-1)
        return super().is_possible(n, counters) & (n * least <= total) & (total <= n * most)

    @abstractmethod
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Exact (p, q) of each value: what a report adds on average to the number that is debiased.

        First if the value is the true one, then if another one is. In a pure protocol these are the probabilities that
        the report supports the value.
        """

    @property
    def p(self) -> float:
        """Pr[a report supports its own true value]."""
        return float(self.support_probabilities()[0][-1])

    @property
    def q(self) -> float:
        """Pr[a report supports some other given value]."""
        return float(self.support_probabilities()[1][-1])

    tails: ClassVar[Callable[[Any, F64, Any], F64] | None] = None
    """Of added noise that is far from normal: the `error_score` of so many of its standard errors, of n reports."""
    collided: Callable[[], tuple[F64, F64]] | None = None
    """Of candidates of a sketch, see `Sketch.collided`."""
    has_two_levels: ClassVar[bool] = False
    """Whether a report is `worst_ratio` times as likely under each value that it supports as under any other one."""
    with_sums: ClassVar[str] = "subset_selection or unary_encoding"
    """What to take for the errors of sums of many values, where it has none."""
    none_is_a_value: ClassVar[bool] = False
    """Whether no value, of ``unmatched="none"``, is reported as one more value is; else it has a level of its own."""

    @property
    @override
    def two_levels(self) -> Sequence[Levels]:
        if not (self.has_two_levels and (self.exhaustive or self.none_is_a_value)):
            return ()
        (p, *_), (q, *_) = self.support_probabilities()
        return (Levels(p - q, p),)

    @property
    def parts(self) -> tuple[float, float]:
        """The least and the greatest that one report adds to the number that is debiased."""
        return 0.0, 1.0

    @property
    def step(self) -> float:
        """What a report that supports a value adds to its estimated count; 0 where sums of few are normal."""
        least, greatest = self.parts
        return (greatest - least) / self.rates.difference if math.isfinite(greatest) else 0.0

    @property
    def is_pure(self) -> bool:
        """Whether a report supports each value or does not, and how many support it says all of its count."""
        return self.parts == (0.0, 1.0) and type(self).debias is FrequencyOracle.debias

    @property
    def crowded(self) -> float:
        """By how much more each other record can add to n times the variance of a share than where they are even."""
        return 0.0

    @property
    def supported(self) -> tuple[int, int]:
        """Bounds of how many values one report supports, least and most; any set of so many, unless more is said.

        (0, d) here: what `influence` and `worst_gain` say is then an upper bound.
        """
        return 0, self.domain.size

    def extremes(self) -> list[F64]:
        """What those reports that do most add to the estimated counts: of each float64[d], in some order of the values.

        (part - q) / (p - q). Values with the least q come first, and are supported: of the fewest and the most values
        that a report may support, and of as many as it takes to move each of them by as much as can be.
        """
        low, high = self.parts
        q, _, _, difference = self.rates
        q = np.sort(np.broadcast_to(q, self.domain.size))
        least, most = self.supported
        gaining = int(np.count_nonzero(2 * q <= low + high))
        sizes = {least, most, min(max(gaining, least), most)}
        order = np.arange(len(q))
        return [(np.where(order < size, high, low) - q) / difference for size in sorted(sizes)]

    @override
    def influence(self) -> Influence:
        return influence_of(self.extremes())

    @override
    def worst_gain(self, *, fake: int, targets: int = 1) -> float:
        return gain_of(self.extremes(), fake, check_integer("targets", targets, 1, self.domain.size))

    def sum_bounds(self, weights: F64) -> tuple[float, float]:
        """The least and the greatest sum of weights, float64[d], over the values that one report supports."""
        d, (least, most) = len(weights), self.supported
        sums = np.append(0.0, np.cumsum(np.sort(weights)))
        return float(sums[least : most + 1].min()), float(sums[-1] - sums[d - most : d - least + 1].min())

    def sum_variance(self, weights: F64) -> F64:
        """Var[sum over v of w_v S_v | x] for each x, S_v being whether a report of x supports v.

        Of weights float64[m, d]: float64[m, d], [i, x]; one column more for a report of no value, where there may be
        some. Raises `ParameterError` where it is not known how the S_v of one report hang together.
        """
        raise ParameterError(
            f"how the estimated shares of one report hang together is not known for {self.name}: ask for a histogram"
        )

    def covariance(self, shares: F64, *, sampled: Any = 1.0) -> F64:
        """Covariances of the estimated shares, of one report: divide them by n for those of a histogram.

        E[Cov(S | x)] / (p - q)^2 is that of noise, x being the value of a person. If the people are a random sample of
        a population with such shares f, diag(f) - f f^T is added. It is the same for every mechanism, as the noise has
        mean 0 whoever is in the sample.

        Args:
            shares: float64[k, d], f of k populations; estimated ones will do, which need not be shares.
            sampled: what part of that is added, one number or float64[k]: 1 for a large population, 0 for these people.

        Returns:
            float64[k, d, d]; refused where it is not known, or of more than 256 values.

        >>> from ldp_core import RandomizedResponse
        >>> m = RandomizedResponse(epsilon=1.0)
        >>> m.covariance(np.array([[0.5, 0.5]])).round(4).tolist()
        [[[1.1707, -1.1707], [-1.1707, 1.1707]]]
        """
        d = self.domain.size
        if d > MOST_COVARIANCES:
            raise ParameterError(f"covariances are computed of at most {MOST_COVARIANCES} values, the domain has {d}")
        missing = 1 - shares.sum(axis=1, keepdims=True)
        shares = shares + missing / d if self.exhaustive else np.concatenate([shares, missing], axis=1)
        covariances = self.noise_covariance(shares)
        covariances += np.reshape(sampled, (-1, 1, 1)) * sample_covariance(shares[:, :d])
        return covariances

    def noise_covariance(self, shares: F64) -> F64:
        """`covariance` of noise alone: by polarization, as 2 Cov(S_a, S_b) = Var(S_a + S_b) - Var(S_a) - Var(S_b)."""
        d = self.domain.size
        one = np.eye(d)
        alone = self.sum_variance(one) @ shares.T
        out = np.empty((len(shares), d, d))
        for a in range(d):
            together = self.sum_variance(one[a:] + one[a]) @ shares.T
            out[:, a, a:] = out[:, a:, a] = (together - alone[a:] - alone[a]).T / 2
        out /= self.rates.difference**2
        return out

    def variances(self, shares: F64) -> F64:
        """float64[k, d]: the diagonal of `noise_covariance`."""
        return self.rates.a + self.rates.b * shares[:, : self.domain.size]

    def sums(self, n: I64, counters: I64, weights: F64) -> tuple[F64, F64]:
        """Estimated sums of weights over the records, and their variances about these people: of noise alone.

        Where true counts add up to n, a sum is n times the weights' mean, plus the sum of the weights less their mean.
        It is as unbiased, and varies less (of unary encoding, half as much on average over all ranges). The variance of
        one report is that of `sum_variance`, averaged over the estimated shares of the values.

        Args:
            n, counters: of k tallies, int64[k] and int64[k, counters].
            weights: float64[r, d].

        Returns:
            float64[k, r] twice; nan where there are records of which none answers.

        >>> from ldp_core import RandomizedResponse
        >>> m = RandomizedResponse(["a", "b", "c"], epsilon=50.0)  # hardly any noise
        >>> tally = m.tally(m.perturb(["a", "a", "b", "c"]))
        >>> m.sums(np.array([tally.n]), tally.counters[None], np.array([[1.0, 0.0, 1.0]]))[0].round(6).tolist()
        [[3.0]]
        """
        oracle, answers, counted = self.answers(n, counters)
        d, m = oracle.domain.size, answers[:, None].astype(float)
        counts, errors, *_ = oracle.debias(answers[:, None], counted, confidence=COUNTS_ALONE)
        if oracle.exhaustive:
            middle = weights.mean(axis=1)
            weights = weights - middle[:, None]
            sums = m * middle + counts @ weights.T
            people = counts + (m - counts.sum(axis=1, keepdims=True)) / d
        else:
            sums = counts @ weights.T
            people = np.concatenate([counts, m - counts.sum(axis=1, keepdims=True)], axis=1)
        variances = oracle.noise_of_sums(m, people, weights)
        if type(oracle).sum_variance is FrequencyOracle.sum_variance:
            # At the estimates of few people it may be nearly 0: then as of values that are supported independently.
            variances = np.where(m < _MANY, np.maximum(variances, errors**2 @ (weights**2).T), variances)
        if oracle is not self:  # those who answer are a sample of those who report, without replacement
            with np.errstate(divide="ignore", invalid="ignore"):
                scale = n[:, None] / m
                means = people[:, :d] @ weights.T / m
                squares = people[:, :d] @ (weights**2).T / m
                left_out = (n[:, None] - m) / np.maximum(n[:, None] - 1, 1)
                sums, variances = (
                    sums * scale,
                    scale**2 * (variances + m * left_out * np.maximum(squares - means**2, 0)),
                )
            sums, variances = (np.where(n[:, None] == 0, 0.0, array) for array in (sums, variances))
        return sums, variances

    def noise_of_sums(self, n: F64, people: F64, weights: F64) -> F64:
        """float64[k, r]: variances of sums of weights, float64[r, d], given people of each code, float64[k, codes]."""
        if type(self).sum_variance is FrequencyOracle.sum_variance:
            if self.domain.size > MOST_COVARIANCES:
                raise ParameterError(
                    f"the errors of sums of {self.name} are computed of at most {MOST_COVARIANCES} values, the domain "
                    f"has {self.domain.size}: take {self.with_sums}"
                )
            shares = np.divide(people, n, out=np.full_like(people, 1 / people.shape[1]), where=n > 0)
            each = np.eye(people.shape[1]) if len(people) > people.shape[1] else shares  # (it is linear in the shares)
            covariances = (self.noise_covariance(one[None])[0] for one in each)  # (of all at once they are many)
            found = np.array([((weights @ one) * weights).sum(axis=1) for one in covariances])
            found = found.reshape(len(each), len(weights))  # (of no tallies, too)
            made: F64 = n * (found if each is shares else shares @ found)
            return made.clip(min=0)
        if not n.any():  # as of an empty tally, where it is asked whether the errors are known
            return np.zeros((len(people), len(weights)))
        found, inner, outer, unlike, _, least = self.moments(weights, people)
        sums = people[:, : self.domain.size] @ (weights > 0).T
        within = sums.clip(0, n)
        found += (within - sums) * (inner - outer)
        # Few people seldom give the reports of which most comes: then as if they were spread evenly on either side.
        # They are few if the sum of noisy counts, of values of unlike noise, is not known to a tenth.
        unlike *= self.rates.a.max() / np.maximum(_TENTH * np.minimum(inner, outer), 1e-99) ** 2
        few = n < np.maximum(_A_CELL * people.shape[1], unlike)
        # Counts that reports support together err together: what is told from them may be below that of any people.
        return np.maximum(np.where(few, np.maximum(found, within * inner + (n - within) * outer), found), n * least)

    def moments(self, weights: F64, people: F64) -> Moments:
        """Of sums of weights, float64[r, d], given people of each code, float64[k, codes].

        Where it is not known how the S_v of one report hang together, of values that are supported independently.
        """
        step, (least, most) = max(PRODUCTS // self.domain.size, 1), self.supported
        known, parts = type(self).sum_variance is not FrequencyOracle.sum_variance, []
        for start in range(0, len(weights), step):
            some = weights[start : start + step]
            given = self.sum_variance(some) / self.rates.difference**2 if known else self.rates.b * some**2
            inside = np.pad(some > 0, ((0, 0), (0, given.shape[1] - some.shape[1])))
            last = given[:, -1] if given.shape[1] > some.shape[1] else 0.0
            inner, outer = means_inside(
                (given * inside).sum(axis=1), given.sum(axis=1), inside.sum(axis=1), given.shape[1], last
            )
            unlike = ((given - np.where(inside, inner[:, None], outer[:, None])) ** 2).sum(axis=1)
            parts.append((people[:, : given.shape[1]] @ given.T, inner, outer, unlike, given.min(axis=1)))
        # If reports support as many values each, one that supports a value of the sum does not support another one.
        reach = np.ones(len(weights)) if least == most else np.abs(weights).max(axis=1)
        variances, inner, outer, unlike, lowest = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        return Moments(variances, inner, outer, unlike, reach, lowest)

    def _in_sums(self, weights: Bools) -> F64:
        """The weights of the estimated counts in `sums`."""
        return weights - weights.mean(axis=1, keepdims=True) if self.exhaustive else weights.astype(float)

    def range_terms(self, n: I64, counters: I64, low: I64, high: I64) -> tuple[Any, Any, Any]:
        """See `Ordered`."""
        codes = np.arange(self.domain.size)
        return self.sum_terms(n, counters, (codes >= low[:, None]) & (codes < high[:, None]))

    def sum_terms(self, n: I64, counters: I64, weights: Bools) -> tuple[Any, Any, Any]:
        """`range_terms` of sums, bool[r, d]."""
        oracle, *_ = self.answers(n, counters)
        found = oracle.moments(oracle._in_sums(weights), np.empty((0, n_codes(oracle.domain))))
        return found.inner - found.outer, 0.0, [oracle.step * found.reach]

    def range_counts(self, n: I64, counters: I64, low: I64, high: I64) -> tuple[F64, F64]:
        """Estimated counts of records with low <= code < high, int64[r] each, and their variances: see `sums`.

        Raises:
            ParameterError: see `sums`; or there are too many ranges of too many values.
        """
        if len(low) * self.domain.size > MOST_SUMS:
            raise ParameterError(
                f"{len(low):,} ranges of {self.domain.size:,} values are too many, at most {MOST_SUMS:,} products: ask "
                "for fewer ranges, take coarser values, or a mechanism of ranges"
            )
        codes = np.arange(self.domain.size)
        return self.sums(n, counters, ((codes >= low[:, None]) & (codes < high[:, None])).astype(float))

    def debiased(self, counters: I64) -> F64:
        """float64[..., d], the numbers that are debiased, of int64[..., counters]."""
        return counters.astype(float)

    def answers(self, n: I64, counters: I64) -> tuple[FrequencyOracle, I64, I64]:
        """What there is of reports that are answers, if not all of them are: the mechanism, n and the counters."""
        return self, n, counters

    def in_common(self, n: Any, counters: I64, counts: F64) -> tuple[Any, Any]:
        """What tallies of other mechanisms may have, too, and the variance of counts that is the same error in all."""
        return None, 0.0

    def bounded_sums(self, n: Any, counters: I64, counts: F64) -> Sequence[Sums]:
        """The estimated counts, which are sums with a mean between 0 and 1 a report; and what they add up to."""
        return Sums(counts, n, self.count_term), Sums(counts.sum(axis=-1, keepdims=True), n, self.total_term, True)

    @cached_property
    def count_term(self) -> Term:
        """What a report adds to the estimated count of each value."""
        least, greatest = self.parts
        q, _, _, difference = self.rates
        return Term(0.0, 1.0, (least - q) / difference, (greatest - q) / difference)

    @cached_property
    def total_term(self) -> Term:
        """What a report adds to all the estimated counts: on average 1, if its value is one of the domain's."""
        one = self.count_term
        every = np.broadcast_to(1.0, self.domain.size)
        least, greatest = float((one.least * every).sum()), float((one.greatest * every).sum())
        return Term(float(self.exhaustive), float(self.most), least, greatest)

    def variance(self, n: float, count: Any = 0.0) -> Any:
        """Variance of an estimated count, given ``n`` reports and true count(s) ``count`` (Theorem 2).

        Where the values differ in p and q (unequal coins), ``count`` is that of the last one.
        """
        p, q = self.p, self.q
        return (count * p * (1 - p) + (n - count) * q * (1 - q)) / self.rates.difference**2

    @cached_property
    def rates(self) -> Rates:
        """Of estimated counts. The difference is rounded once: it may be far smaller than p and q."""
        exact_p, exact_q = self.support_probabilities()
        d, difference = len(exact_q), float(exact_p[-1] - exact_q[-1])
        if (exact_p, exact_q) == (exact_p[:1] * d, exact_q[:1] * d):  # the same for all: one exact number will do
            exact_p, exact_q = exact_p[:1], exact_q[:1]
        q = np.array(exact_q, float)
        b = np.array([1 - p - q for p, q in zip(exact_p, exact_q, strict=True)], float) / difference
        a = q * (1 - q) / difference**2
        return Rates(np.broadcast_to(q, d), np.broadcast_to(a, d), np.broadcast_to(b, d), difference)

    def accuracy(self, n: int, beta: float = 0.05) -> float:
        """The alpha with Pr[|estimated - true frequency| >= alpha] <= beta, for one value.

        Hoeffding's inequality for n independent support indicators, divided by p - q:
        ``sqrt(ln(2 / beta) / (2 n)) / (p - q)``.
        """
        return hoeffding(n, beta) / self.rates.difference

    def explain(self, n: int) -> ExpectedError:
        """The standard error of a value of any share: of 0, of 1, or of sampled columns of one between them."""
        d = self.domain.size
        error = math.sqrt(np.max(self.variance(n, n * np.linspace(0, 1, 65))))
        share = error / n if n else math.inf
        advice = None
        if not n or math.sqrt(self.variance(n, n / d)) / n > 1 / d:
            enough = math.ceil(self.variance(1, 1 / d) * d**2)
            advice = (
                f"the error exceeds the share of a typical value, {1 / d:.2%}: "
                f"take more than {enough:,} reports, a larger epsilon, or fewer values"
            )
        return ExpectedError(error, "records", share, advice)

    @override
    def code_of(self, value: Label) -> int:
        with suppress(ReportError):
            return int(self.domain.lookup([self.domain.as_report(value)])[0])
        raise ParameterError(f"value must be one of the domain's {self.domain.size}, got {shown(value)}")

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        """By counting each report by itself: a subclass may know a shorter way."""
        debias = partial(self.debias, confidence=COUNTS_ALONE)
        return one_by_one(self, reports, lambda counters: debias(1, counters)[0][:, code])

    def weights_by(self, supports: Any, code: int) -> F64:
        """Weights, given what each report adds to the number that is debiased."""
        return (supports - self.rates.q[code]) / self.rates.difference

    def estimate(
        self,
        tally: Tally,
        *,
        confidence: float = 0.95,
        simultaneous: bool = False,
        consistency: Consistency | None = None,
        population: Population = None,
    ) -> Histogram:
        """Debias a tally: see `HistogramEstimate`.

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: as of `HistogramEstimate`; or consistent counts that this domain does not allow.
        """
        return HistogramEstimate(confidence, simultaneous, consistency, population).result(self, tally)

    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """Estimated counts, their standard errors, and the low and high ends of their intervals.

        The variance of an estimate depends on the true count c, as a + b c. The interval holds all c that lie
        within z standard errors *of their own* from the estimate, the roots of (estimate - c)^2 = z^2 (a + b c): a
        score interval (E. B. Wilson, JASA 22(158), 1927), here of the debiased count. It reaches farther where the
        noise makes few reports support a value, and intervals that hold together need the tails as they are:
        `ldp_core.estimates.tails`.

        Args:
            n: number of reports, broadcast against ``counters`` (int64[k, 1] for k tallies at once).
            counters: of tallies, int64[..., d].
            confidence, simultaneous: see `HistogramEstimate`.

        Returns:
            Four arrays float64[..., d].
        """
        check_open("confidence", confidence)
        q, a, _, difference = self.rates
        counts: F64 = (counters - n * q) / difference
        return self.with_intervals(counts, n, n * a, confidence=confidence, simultaneous=simultaneous)

    def with_intervals(
        self, counts: F64, n: Any, a: Any, *, confidence: float, simultaneous: bool
    ) -> tuple[F64, F64, F64, F64]:
        """`debias` of estimated ``counts``, the variance of which is ``a`` at a true count of 0."""
        b = self.rates.b
        errors: F64 = np.sqrt(a + b * np.clip(counts, 0, n))
        if simultaneous:
            z, people = z_score(confidence, self.domain.size), np.broadcast_to(np.maximum(n, 1), counts.shape)

            def score(errors: F64, at: F64) -> F64:
                return self.error_score(errors, people, a + b * at)

            return counts, errors, *ends_together(counts, np.broadcast_to(n, counts.shape), z, score, z * errors)
        z = z_score(confidence)
        shift = np.where(np.equal(n, 0), 0, z * b / 2)  # without reports there is nothing to be uncertain about
        middle = counts + z * shift
        half = z * np.sqrt(np.maximum(a + b * counts + shift**2, 0))
        ends = middle - half, middle + half
        return counts, errors, *reach_of_few(ends, counts, n, z, self.step, (a, b, 0.0))

    def error_score(self, errors: F64, n: F64, variance: F64) -> F64:
        """How improbable errors of estimated counts are, as the z with Pr[as far or farther] <= Pr[N > z]."""
        part = self.count_term
        return two_point_score(np.abs(errors), n, variance, np.where(errors > 0, part.greatest, 1 - part.least))


class BitReports(FrequencyOracle):
    """A mechanism whose reports are bits, of which the first d say what values they support."""

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        return bits.grouped_column_sums(reports, self.domain.size, groups, n_groups)

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        return self.weights_by(bit_of(reports, code), code)


class Uncorrelated(FrequencyOracle):
    """A mechanism of which the S_v of one report are uncorrelated, given the person's value, with one p and one q."""

    @override
    def sum_variance(self, weights: F64) -> F64:
        squares = self.rates.difference**2 * weights**2
        none = self.rates.a[0] * squares.sum(axis=1, keepdims=True)
        variances: F64 = none + self.rates.b[0] * squares
        return variances if self.exhaustive else np.concatenate([variances, none], axis=1)

    @override
    def noise_covariance(self, shares: F64) -> F64:
        return np.eye(self.domain.size) * self.variances(shares)[:, None]


MOST_COVARIANCES = 256
"""The most values of which `FrequencyOracle.covariance` has all covariances: there are as many as their square."""
MOST_SUMS = 1 << 25
"""The most ranges, times values, of which `FrequencyOracle.range_counts` has errors: of a curve, 5,792 values."""
PRODUCTS = 1 << 18
"""Of them at a time."""
_MANY = 10_000  # people, from whom on their number does not matter
_A_CELL = 20  # of them in each
_TENTH = 0.1


def sample_covariance(shares: F64) -> F64:
    """float64[k, d, d], of the values of one person of k populations: diag(f) - f f^T."""
    return shares[:, :, None] * (np.eye(shares.shape[1]) - shares[:, None, :])


def check_reported(name: str, value: Any, what: str) -> Domain:
    """A domain for a mechanism whose every report speaks for some value: not with ``unmatched="none"``."""
    made = Domain.of(value)
    if made.unmatched == "none":
        raise DomainError(
            f'{what} has no "none", as its every report names a value: take unmatched="other", one more answer; a '
            "share among those who answered is a ratio of weights: .ldp.ratio in Polars, ldp_core.ratio of arrays; of "
            "ordered values it is in the curve: .ldp.cdf, CdfEstimate"
        )
    return made


def hoeffding(n: int, beta: float) -> float:
    """The alpha with Pr[|mean of n numbers in [0, 1] - its expectation| >= alpha] <= beta."""
    if n < 1:
        raise ParameterError(f"n must be at least 1, got {n}")
    return math.sqrt(math.log(2 / check_open("beta", beta)) / (2 * n))


def n_codes(domain: Domain) -> int:
    """Number of codes that a mechanism tells apart: the values, and one more for none of them."""
    return domain.size + (domain.unmatched == "none")


def means_inside(within: F64, total: F64, size: I64, codes: int, last: Any) -> tuple[F64, F64]:
    """Of sums over so many codes and over all: means of those, and of the others. If there are none, the same.

    Nearly all may have no value, and the ``last`` code: then of the others it is at least its own.
    """
    inner, outer = within / np.maximum(size, 1), np.maximum((total - within) / np.maximum(codes - size, 1), last)
    return np.where(size, inner, outer), np.where(size < codes, outer, inner)
