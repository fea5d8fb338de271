"""What several reports of one person spend together.

Neighbors are two *histories*: the values of k reports, x_1 ... x_k and y_1 ... y_k. The loss is the largest
ln(Pr[reports | x] / Pr[reports | y]). A history makes at most c changes, from one report to the next. A value is what
the mechanism's inputs make of it: labels outside of a domain with ``unmatched="other"`` are one value, and a number
is one of 2^24 steps.

**Fresh noise.** Reports are independent, so the ratios multiply: k epsilon, for any histories.

**A permanent answer** (memoized mechanisms). Each value w has an answer B(w), drawn once; reports are drawn from it
independently. Answers of different values are independent. With Q the second round,

    Pr[r | x] = product over values w of  E over B(w) of  product over t with x_t = w of  Q(r_t | B(w))

*One value that never changes* (`ratio`, exact). Let a permanent bit be 1 with probability a under x and g < a under y,
and let all reports that are about it have the likelihood L under 1, relative to 0. Their ratio

    (a L + 1 - a) / (g L + 1 - g)

grows with L. So the worst reports are those with the largest L: each of them the answer that is most in favor of 1.
If one such report has Pr[. | 0] / Pr[. | 1] = u, then L = u^-k, and

    ratio(k) = (a + (1 - a) u^k) / (g + (1 - g) u^k)        which grows with k, up to a / g: epsilon_infinity      (1)

- Bits (unary encoding, RAPPOR) are independent. On a bit that only x has, all reports are 1: a = pi_1, g = pi_0, u =
  q2 / p2. On a bit that only y has, all are 0: a = 1 - pi_0, g = 1 - pi_1, u = (1 - p2) / (1 - q2). The product.
- Symbols (randomized response twice, LOLOHA over its buckets). Let n_b reports be b, and l = p2 / q2. Then Pr[r | v]
  is q2^k times p1 l^n_v + q1 R, R the sum over the other symbols. The ratio grows with n_v and falls with each other
  n_b, so that v itself, k times, is the worst: (p1 l^k + (d - 1) q1) / (q1 l^k + p1 + (d - 2) q1). That is (1) with a
  = p1, g = q1, u = q2 / p2.

(U. Erlingsson, V. Pihur, A. Korolova, "RAPPOR", CCS 2014, sections 3.1 and 3.2, has k = 1 and the limit; so has H. H.
Arcolezi et al., "Improving the Utility...", arXiv:2111.04636, section 4.)

*Values that change, at times that are public* (`public`). Both histories have the same pattern: x_s = x_t if and only
if y_s = y_t. That is more than the same times of change: a, b, a and a, b, c change at the same times. The m values
of a history have n_1 + ... + n_m = k reports, with answers of their own, so the losses of m unchanged values add up.
By (1) the slope of the loss C is a difference of two logistic functions of n, which rises and then falls: C is convex
up to some n, and concave from there on. Its least concave majorant on [0, k] is a line through 0, up to the x where
C(x) / x is the largest, and from there on C; the sum over m values is at most m times the majorant at k / m. And C(x)
/ x only falls beyond that x: if C(2) <= 2 C(1), then C(n) <= n C(1) for all n, and k reports spend k epsilon_1 at most.

This needs different values to have different answers. With LOLOHA two values may share a bucket, so that one pattern
of values has several patterns of buckets; there the next bound is taken. With dBitFlip the loss is infinite.

*Values that change, at any time* (`secret`). Two bounds hold; the smaller one is taken.

(A) Step by step. Pr[r_t | r_1 ... r_(t-1), x] is the second round's, averaged over the posterior of the answer that
    is asked. The posterior of a bit whose prior is pi is between that of t - 1 zeros and that of t - 1 ones. The
    logarithm of the ratio of the two ends, for the report for which it is largest, bounds what report t adds. The
    first adds epsilon_1, exactly; the later ones come to ln(p2 / q2) and its like *for every bit*, as each bit of
    another answer is another coin.

(B) All together. Pr[r | y] is at most that of the best answer for each report. Pr[r | x] is, for each of the m
    answers in x, an average. For a bit with z zeros and s ones, compared with the best ones,

        -ln(pi e^(-z a0) + (1 - pi) e^(-s a1))        a1 = ln(p2 / q2), a0 = ln((1 - q2) / (1 - p2))

    which is concave in (z, s). So m answers with k / m reports each are the worst, at the worst z + s = k / m. A bit
    that no value of x or y has falls short of the best under y, too: by the least, if all ones are of one answer of y
    and all zeros of another (by Chebyshev's inequality: the mean of a product is at least the product of the means if
    both factors grow with the permanent bit, and at most that if one grows and one falls). That is taken off; there are
    d - 2 m h such bits at least, h being the most that a value has.

    For symbols, y favors j <= m of them in at most k of the reports. The weighted means inequality, with weight 1 / j
    for each of these symbols, gives k (1 - 1 / j) ln l - m ln(j q1), at the worst j.

For large k the loss of bits *is* d k a0 a1 / (a0 + a1) but for a constant: take x = a, a, ... and y = a, ..., a, b,
..., b, and reports of ones, then of zeros, all bits alike. So it grows without bound, already with one change.

**Keyed noise on a mechanism without a second round.** Reports of one value are equal, which costs one report. Two
reports that differ have probability 0 under a, a and not under a, b: at secret times the loss is infinite. If the
pattern is public, each value costs one report. Where two values may share one, as in a node of a tree, it is infinite.

Numbers: `ratio` is exact, but for u^k, which is rounded down by less than 2^-180 of it: an upper bound. The other
bounds are computed in floating point, of terms of relative error below 10^-12, and 10^-9 of them is added.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np

from ldp_core.errors import ParameterError
from ldp_core.exact.probability import float_above, log_above, power_below
from ldp_core.parameters import check_choice, check_integer

ChangeTimes: TypeAlias = Literal["secret", "public"]

Spent: TypeAlias = Fraction | float
"""An upper bound of a loss, exactly; ``math.inf`` if there is none."""

_ROUNDING = 1e-9
_HALF = Fraction(1, 2)
_SURE = 300.0
"""A posterior is as good as certain after so much log-likelihood."""
_FINE = 32  # reports that are looked at one by one in bound (A)
_FEW = 64  # intervals, at each end, in which bound (B) looks for the worst number of ones
_CLOSE = 20.0  # log-likelihood at the end of these


@dataclass(frozen=True)
class History:
    """What is known of the histories of one person.

    Attributes:
        reports: k; None for any number.
        changes: at most so many from one report to the next; None for any number.
        change_times: ``"secret"``: when the value changes is protected too. ``"public"``: which reports have the same
            value is known.
        keyed: whether mechanisms without permanent answers have keyed noise.
    """

    reports: int | None
    changes: int | None
    change_times: ChangeTimes
    keyed: bool

    @classmethod
    def of(
        cls,
        reports: int | None,
        changes: int | None = None,
        change_times: ChangeTimes = "secret",
        keyed: bool = False,
    ) -> History:
        """A history of checked arguments."""
        if reports is not None:
            reports = check_integer("reports", reports, 0)
        if changes is not None:
            changes = check_integer("changes", changes, 0)
        if reports is not None and reports < 2:
            changes = 0
        if not isinstance(keyed, bool):
            raise ParameterError(f"keyed must be True or False, got {type(keyed).__name__}")
        return cls(reports, changes, check_choice("change_times", change_times, get_args(ChangeTimes)), keyed)

    @property
    def values(self) -> float:
        """How many different values there can be."""
        reports = math.inf if self.reports is None else self.reports
        return min(reports, math.inf if self.changes is None else self.changes + 1)


class Composing(ABC):
    """What reports are made by, if it is known what several of one person spend: a mechanism, a plan."""

    def epsilon_of(
        self,
        reports: int | None = 1,
        *,
        changes: int | None = 0,
        change_times: ChangeTimes = "secret",
        keyed: bool = False,
    ) -> float:
        """What several reports of one person spend together, in nats: an upper bound, rounded up, or infinite.

        Without permanent answers and with fresh noise it is ``reports * epsilon``, with the declared epsilon, as a plan
        and a budget count it. With permanent answers and ``changes=0`` it is the exact loss: more than ``reports *
        epsilon`` for a few reports, and at most epsilon_infinity. See `ldp_core.exact.composition` for all formulas and
        their proofs.

        Of a plan it is the sum over all columns; of columns of which a record answers one, the largest counts. With
        fresh noise each record draws its column anew and spends epsilon; with keyed noise a person answers the same
        column for ever, and its reports spend what they would alone (`ldp_core.plans.drawn`).

        Args:
            reports: how many; None for any number.
            changes: how often the value changes at most, from one report to the next, of a plan that of *each* column
                of the records; None for any number. A value is what the domain makes of it: all that are unmatched are
                one.
            change_times: ``"secret"``: that the value changed, and when, is protected too. ``"public"``: it is known
                which reports have the same value (more than the times of the changes: also what returns).
            keyed: whether the noise is keyed (`Keyed`). A memoized mechanism's always is; a plan with one takes keyed
                noise for all its columns, and is counted so.

        Raises:
            ParameterError: negative numbers, or other words.

        >>> from ldp_core import LongitudinalRandomizedResponse, RandomizedResponse
        >>> RandomizedResponse(epsilon=0.5).epsilon_of(10), RandomizedResponse(epsilon=0.5).epsilon_of(10, keyed=True)
        (5.0, 0.5)
        >>> m = LongitudinalRandomizedResponse(range(100), epsilon_infinity=5.0, epsilon_1=0.5)
        >>> [round(m.epsilon_of(k), 3) for k in (1, 4, 10, 1000, None)]
        [0.5, 2.408, 4.859, 5.0, 5.0]
        >>> m.epsilon_of(1000, changes=1, change_times="public"), round(m.epsilon_of(1000, changes=1))
        (10.0, 379)
        """
        return float_above(self.spent_by(History.of(reports, changes, change_times, keyed)))

    @abstractmethod
    def spent_by(self, history: History) -> Spent:
        """`epsilon_of` before it is rounded to a float, for budgets."""


def times(number: float | None, each: Spent) -> Spent:
    """So many times ``each``; None and ``math.inf`` are any number."""
    if number == 0:
        return Fraction(0)
    if number is None or math.inf in (number, each):
        return math.inf
    return Fraction(number) * Fraction(each)


def memoryless(history: History, epsilon: float, *, apart: bool = True) -> Spent:
    """Of a mechanism without permanent answers, of which one report spends ``epsilon``.

    ``apart`` says whether different values of a person have different reports under keyed noise.
    """
    if not history.keyed:
        return times(history.reports, epsilon)
    if history.changes == 0 or (history.change_times == "public" and apart):
        return times(history.values, epsilon)
    return math.inf


@dataclass(frozen=True)
class Permanent:
    """A permanent bit, and the report that speaks most for it: equation (1)."""

    own: Fraction
    """a: the probability that it is 1, under the value that is more in favor of it."""
    other: Fraction
    """g < a: under the other value."""
    unlikely: Fraction
    """u < 1: the report's probability if the bit is 0, in parts of that if it is 1."""

    def ratio(self, reports: int | None) -> Fraction:
        """Of so many reports; None for the limit."""
        power = Fraction(0) if reports is None else power_below(self.unlikely, reports)
        return (self.own + (1 - self.own) * power) / (self.other + (1 - self.other) * power)

    @property
    def subadditive(self) -> bool:
        """Whether n reports spend at most n times what one spends."""
        return self.ratio(2) <= self.ratio(1) ** 2

    @cached_property
    def _floats(self) -> tuple[float, float, float, float]:
        """Own, other, their difference, and what a report adds to the log-likelihood."""
        return float(self.own), float(self.other), float(self.own - self.other), _gain(self.unlikely)

    def _loss(self, reports: float) -> float:
        _, g, more, gain = self._floats
        if math.isinf(reports * gain):
            return math.log1p(more / g)
        return math.log1p(more * -math.expm1(-reports * gain) / (g + (1 - g) * math.exp(-reports * gain)))

    def _slope(self, reports: float) -> float:
        a, g, more, gain = self._floats
        if math.isinf(reports * gain):
            return 0.0
        u = math.exp(-reports * gain)
        return gain * more * u / ((a + (1 - a) * u) * (g + (1 - g) * u))

    @cached_property
    def _touch(self) -> float:
        """Where the loss per report is the largest: there the line through 0 touches, or 0 if the loss is concave."""
        gain = self._floats[3]
        if math.isinf(gain):
            return 0.0
        low, high = 0.0, 1 / gain
        while self._loss(high) < high * self._slope(high):
            low, high = high, 2 * high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._loss(middle) < middle * self._slope(middle) else (low, middle)
        return high

    def majorant(self, reports: float, most: float) -> float:
        """The least concave majorant of the loss, between 0 and ``most``."""
        touch = min(self._touch, most)
        return self._loss(reports) if reports >= touch else self._loss(touch) * (reports / touch)


class SharedAnswer(ABC):
    """Reports that share a permanent answer: what k of them spend."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Permanent, ...]:
        """Whose losses add up to that of an unchanged value."""

    @abstractmethod
    def ratio(self, reports: int | None) -> Fraction:
        """The largest ratio of the probabilities of k reports of one unchanged value; None for the limit."""

    @abstractmethod
    def majorant(self, reports: float, most: float) -> float:
        """A concave bound of the logarithm of `ratio`, for reports from 0 to ``most``."""

    @abstractmethod
    def together(self, reports: float, values: float) -> float:
        """Bound (B)."""

    @abstractmethod
    def step(self, before: float) -> float:
        """What a report adds in bound (A), after so many before it."""

    @property
    @abstractmethod
    def certain(self) -> float:
        """After how many reports a posterior is as good as certain, so that `step` stays as it is."""

    def public(self, reports: int, values: float) -> float:
        """The loss of so many reports of at most so many values, with one pattern."""
        return values * self.majorant(reports / values, reports)

    def secret(self, reports: int, values: float) -> float:
        """The loss of so many reports of at most so many values, at any times."""
        together, alone = self.together(reports, values), 0.0
        for first, last in _stretches(reports, self.certain):
            alone += self.step(last - 1) * (last - first + 1)
            if alone > together:
                return together
        return alone


@dataclass(frozen=True)
class SharedBits(SharedAnswer):
    """Independent bits, so many (``size``), of which a value has from ``fewest`` to ``most``.

    ``one`` and ``zero`` < ``one`` are Pr[a permanent bit is 1], if the value has it and if not; ``p2`` and ``q2`` <
    ``p2`` Pr[a reported bit is 1], if the permanent one is 1 and if it is 0.
    """

    size: int
    fewest: int
    most: int
    one: Fraction
    zero: Fraction
    p2: Fraction
    q2: Fraction

    @cached_property
    def _ones(self) -> Permanent:
        return Permanent(self.one, self.zero, self.q2 / self.p2)

    @cached_property
    def _zeros(self) -> Permanent:
        return Permanent(1 - self.zero, 1 - self.one, (1 - self.p2) / (1 - self.q2))

    @property
    def parts(self) -> tuple[Permanent, ...]:
        """See `SharedAnswer`."""
        return self._ones, self._zeros

    def ratio(self, reports: int | None) -> Fraction:
        """Of a bits that only the first value has, and as many as there can be that only the second has."""
        one, zero = self._ones.ratio(reports), self._zeros.ratio(reports)
        most = min(self.most, self.size - 1)
        return max(one**a * zero ** min(self.most, self.size - a) for a in range(1, most + 1))

    def majorant(self, reports: float, most: float) -> float:
        """Of each bit; a little more than `ratio` if a value has more than half of them."""
        each = self._ones.majorant(reports, most) + self._zeros.majorant(reports, most)
        return min(self.most, self.size - 1) * each

    @cached_property
    def _gains(self) -> tuple[float, float]:
        """(a1, a0)."""
        return _gain(self.q2 / self.p2), _gain((1 - self.p2) / (1 - self.q2))

    @property
    def certain(self) -> float:
        """See `SharedAnswer`."""
        return _SURE / min(self._gains)

    def together(self, reports: float, values: float) -> float:
        """See `SharedAnswer`; infinite without a second round."""
        each = reports / values
        own, none = (self._short_of_the_best(float(pi), float(1 - pi), each) for pi in (self.one, self.zero))
        if math.inf in (own, none):
            return math.inf
        whole = values * max(a * own + (self.size - a) * none for a in (self.fewest, self.most))
        of_nobody = max(self.size - 2 * values * self.most, 0)  # bits that no value of either history has
        if not of_nobody or math.inf in self._gains:
            return whole
        return whole - of_nobody * max(values * none - self._of_nobody(reports, values), 0.0)

    def _of_nobody(self, reports: float, values: float) -> float:
        """The most that a bit adds that no value has: bound (B) and what y falls short of the best, too."""
        a1, a0 = self._gains
        pi, rest = float(self.zero), float(1 - self.zero)
        if reports <= _FEW:
            low = high = np.arange(reports + 1, dtype=float)
        else:  # numbers of ones in intervals: the first term is taken where it is largest, the others at the ends
            near, far = (np.linspace(0, min(reports, _CLOSE / gain), _FEW) for gain in (a1, a0))
            ends = np.unique(np.concatenate([near, reports - far]))
            low, high = ends[:-1], ends[1:]
        best = values * self._best_ones(pi, rest, reports / values)
        ones = np.clip(best, low, high) / values
        apart = -np.logaddexp(math.log(pi) - (reports / values - ones) * a0, math.log(rest) - ones * a1)
        of_ones = np.logaddexp(math.log(pi), math.log(rest) - low * a1)
        of_zeros = np.logaddexp(math.log(pi) - (reports - high) * a0, math.log(rest))
        return float((values * apart + of_ones + of_zeros).max())

    def _best_ones(self, pi: float, rest: float, reports: float) -> float:
        """How many of the reports are ones, if the bit is the furthest from the best."""
        a1, a0 = self._gains
        return (reports * a0 + math.log(rest / pi) + math.log(a1 / a0)) / (a0 + a1)

    def _short_of_the_best(self, pi: float, rest: float, reports: float) -> float:
        """The most that a bit of an answer can be less likely than the best for each of its reports."""
        a1, a0 = self._gains
        if math.isinf(a1) and math.isinf(a0):
            return math.inf
        if math.isinf(a1):  # a single one rules out that the permanent bit is 0
            return reports * a0 - math.log(pi)
        if math.isinf(a0):
            return reports * a1 - math.log(rest)
        ones = min(max(self._best_ones(pi, rest, reports), 0.0), reports)
        return _minus_log_mean(pi, (reports - ones) * a0, rest, ones * a1)

    def step(self, before: float) -> float:
        """See `SharedAnswer`."""
        a1, a0 = self._gains
        if math.isinf(a1) or math.isinf(a0):
            return math.inf if before else log_above(self.ratio(1))
        up, down = min(before * a1, _SURE), -min(before * a0, _SURE)
        neither, both = self._apart(self.zero, self.zero, up, down), self._apart(self.one, self.one, up, down)
        differ = self._apart(self.one, self.zero, up, down) + self._apart(self.zero, self.one, up, down)
        return self.size * neither + self.most * max(both - neither, differ - 2 * neither, 0.0)

    def _apart(self, pi: Fraction, rho: Fraction, up: float, down: float) -> float:
        """The largest log ratio of the next bit, if the permanent one had priors ``pi`` and ``rho`` under x and y.

        Reports before it have added ``up`` to the log odds, or ``down`` < 0, at most.
        """
        odds, others = float(pi / (1 - pi)), float(rho / (1 - rho))
        more = float(pi / (1 - pi) - rho / (1 - rho))
        grown, shrunk = math.expm1(up), math.expm1(down)
        most, least = odds * math.exp(up), others * math.exp(down)
        missed, q2, gap = self._second
        shift = gap * (more + odds * grown - others * shrunk) / ((1 + most) * (1 + least))
        by_one = shift / (q2 + gap * least / (1 + least))
        most, least = others * math.exp(up), odds * math.exp(down)
        shift = gap * (others * grown - odds * shrunk - more) / ((1 + most) * (1 + least))
        by_zero = shift / (missed + gap / (1 + most))
        return math.log1p(max(by_one, by_zero, 0.0))

    @cached_property
    def _second(self) -> tuple[float, float, float]:
        """1 - p2, q2 and p2 - q2."""
        return float(1 - self.p2), float(self.q2), float(self.p2 - self.q2)


@dataclass(frozen=True)
class SharedSymbol(SharedAnswer):
    """Two rounds of randomized response over ``size`` symbols.

    The permanent answer is the value with probability p1, another given one with q1; a report is the answer with p2,
    another given one with q2.
    """

    size: int
    p1: Fraction
    q1: Fraction
    p2: Fraction
    q2: Fraction

    @cached_property
    def _answer(self) -> Permanent:
        return Permanent(self.p1, self.q1, self.q2 / self.p2)

    @property
    def parts(self) -> tuple[Permanent, ...]:
        """See `SharedAnswer`."""
        return (self._answer,)

    @cached_property
    def _gain(self) -> float:
        """``ln l``."""
        return _gain(self.q2 / self.p2)

    def ratio(self, reports: int | None) -> Fraction:
        """The value itself, k times."""
        return self._answer.ratio(reports)

    def majorant(self, reports: float, most: float) -> float:
        """See `SharedAnswer`."""
        return self._answer.majorant(reports, most)

    @property
    def certain(self) -> float:
        """See `SharedAnswer`."""
        return _SURE / self._gain

    def together(self, reports: float, values: float) -> float:
        """See `SharedAnswer`; the worst j is found among the real numbers."""
        in_all = reports * self._gain
        favored = min(max(in_all / values, 1.0), values)
        return in_all * (1 - 1 / favored) - values * math.log(favored * float(self.q1))

    def step(self, before: float) -> float:
        """See `SharedAnswer`.

        A symbol's posterior is the largest if it is the value and was all reports, and the least if another was both:
        p1 E / (p1 E + (d - 1) q1) and q1 / (p1 E + (d - 1) q1), where E = l^before.
        """
        p1, q1, more = float(self.p1), float(self.q1), float(self.p1 - self.q1)
        up = math.expm1(min(before * self._gain, _SURE))
        whole = p1 * (1 + up) + (self.size - 1) * q1
        gap = float(self.p2 - self.q2)
        return math.log1p(gap * (more + p1 * up) / whole / (float(self.q2) + gap * q1 / whole))


def memoized(
    shared: SharedAnswer, history: History, *, one: float, infinity: float, answers: float, apart: bool
) -> Spent:
    """Of a mechanism with two rounds (``shared``).

    Its bounds are ``one``, epsilon_1 of one report, and ``infinity``, epsilon_infinity of all reports of one value. A
    person can have so many permanent ``answers``; ``apart`` says whether different values have different ones.
    """
    reports = history.reports
    if reports == 0:
        return Fraction(0)
    if history.changes == 0:
        within = one if reports == 1 else infinity
        return Fraction(within) if reports is None else Fraction(min(log_above(shared.ratio(reports)), within))
    values = min(history.values, answers)
    most = times(values, infinity) if history.change_times == "public" and apart else math.inf
    if reports is None:
        return most
    bounds = [shared.secret(reports, values)]
    if history.change_times == "public" and apart:
        bounds.append(shared.public(reports, values))
        if all(part.subadditive for part in shared.parts):
            most = min(most, times(reports, one))
    bound = min(bounds)
    return most if math.isinf(bound) else min(most, Fraction(bound * (1 + _ROUNDING)))


def _gain(unlikely: Fraction) -> float:
    """-ln u."""
    if unlikely > _HALF:
        return -math.log1p(-float(1 - unlikely))
    return math.log(unlikely.denominator) - math.log(unlikely.numerator) if unlikely else math.inf


def _minus_log_mean(weight: float, loss: float, rest: float, other: float) -> float:
    """-ln(weight e^-loss + rest e^-other), where the weights add up to 1."""
    if max(loss, other) < 1:
        return -math.log1p(weight * math.expm1(-loss) + rest * math.expm1(-other))
    losses = sorted((loss - math.log(weight), other - math.log(rest)))
    return losses[0] - math.log1p(math.exp(losses[0] - losses[1]))


def _stretches(reports: int, certain: float) -> Iterator[tuple[int, int]]:
    """1 to ``reports``, in stretches: at first single numbers, then a thirty-second of the first; then the rest."""
    first = 1
    while first <= reports:
        last = reports if first > certain + 1 else min(first + first // _FINE, reports)
        yield first, last
        first = last + 1
