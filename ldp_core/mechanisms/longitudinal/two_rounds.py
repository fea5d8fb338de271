"""Longitudinal mechanisms: a permanent answer for each value, remembered for ever, and fresh noise on it every time.

Ulfar Erlingsson, V. Pihur, A. Korolova, "RAPPOR", CCS 2014, sections 2 and 3: a report is the *instantaneous*
randomized response to a *permanent* one. One report spends epsilon_1; all reports about one value together, however
many, spend at most epsilon_infinity, since they are made of the one permanent answer. H. H. Arcolezi, J.-F. Couchot,
B. Al Bouna, X. Xiao, "Improving the Utility of Locally Differentially Private Protocols for Longitudinal and
Multidimensional Frequency Estimates", Digital Communications and Networks, 2022 (arXiv:2111.04636), section 4,
chains any two pure protocols: with (p1, q1) of the permanent round and (p2, q2) of the instantaneous one

    p = p1 p2 + (1 - p1) q2        q = q1 p2 + (1 - q1) q2        p - q = (p1 - q1) (p2 - q2)

is a pure protocol too, so that the estimator is that of all the others. Chains are here of unary encoding twice (L-OSUE
and its relatives) and of randomized response twice (L-GRR).

Nothing is stored: the permanent answer is keyed noise, a function of secret, id and value.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes
from ldp_core.errors import ParameterError, no_warning_of_epsilon
from ldp_core.exact.composition import History, SharedAnswer, SharedBits, SharedSymbol, Spent, memoized
from ldp_core.exact.probability import SURE, exp_below, log_above
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanism import of_inner
from ldp_core.mechanisms.oracles.base import FrequencyOracle, n_codes
from ldp_core.mechanisms.oracles.randomized_response import RandomizedResponse, variance_of_one
from ldp_core.mechanisms.oracles.unary_encoding import BitVectors, UnaryEncoding
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_choice, check_epsilon, converted, parameter
from ldp_core.reports import Native
from ldp_core.reports.bits import clear_padding, row_bytes
from ldp_core.simulated_counts import Generator


class Longitudinal(FrequencyOracle):
    """A frequency oracle that a person may answer any number of times."""

    memoized: ClassVar[bool] = True

    epsilon_infinity: float
    """What all reports about one value, however many, spend together."""

    epsilon_1: float
    """What one report spends."""

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        """What one report spends: epsilon_1."""
        return self.epsilon_1

    @abstractmethod
    def permanent_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of one permanent answer under two values."""

    @property
    def realized_epsilon_infinity(self) -> float:
        """What the rounded probabilities of a permanent answer really spend; see `realized_epsilon`."""
        return log_above(self.permanent_ratio())

    @property
    def permanent_answers(self) -> int:
        """How many a person can come to give."""
        return n_codes(self.domain)


@dataclass(frozen=True, init=False)
class TwoRounds(Longitudinal):
    """A longitudinal mechanism whose permanent answers are reported with fresh noise."""

    domain: Domain = converted(Domain.of)
    epsilon_infinity: float = parameter(check_epsilon)
    epsilon_1: float = parameter(check_epsilon, below=lambda self: ("epsilon_infinity", self.epsilon_infinity))

    @property
    @abstractmethod
    def shared(self) -> SharedAnswer:
        """The two rounds, for `spent_by`."""

    @property
    @abstractmethod
    def instantaneous(self) -> FrequencyOracle:
        """The second round."""

    @override
    def common_noise(self, *, keyed: bool, share: float | None = None) -> float:
        """The first round's: given a permanent answer S1, a report supports a value with q2 + (p2 - q2) S1 on average.

        So the mean of k reports has the variance V1 + (V - V1) / k, V1 being the first round's alone: of those who have
        the value (p2 - q2)^2 p1 (1 - p1) = (p - q2) (p2 - p), of others the same with q, both over (p - q)^2.
        """
        f, second = 1 / self.domain.size if share is None else share, self.instantaneous
        of_both = ((x - second.q) * (second.p - x) / self.rates.difference**2 for x in (self.p, self.q))
        first = sum(part * v for part, v in zip((f, 1 - f), of_both, strict=True))
        return min(float(first / self.variance(1, f)), 1.0)

    @override
    def spent_by(self, history: History) -> Spent:
        return memoized(
            self.shared,
            history,
            one=self.epsilon_1,
            infinity=self.epsilon_infinity,
            answers=self.permanent_answers,
            apart=self.answers_apart,
        )


class Chain(TwoRounds):
    """One pure protocol on the answers of another; a report is one of the second's."""

    @property
    @abstractmethod
    def permanent(self) -> FrequencyOracle:
        """The first round."""

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """In both rounds those of all values are the same."""
        p1, q1 = (rates[0] for rates in self.permanent.support_probabilities())
        p2, q2 = (rates[0] for rates in self.instantaneous.support_probabilities())
        return [chained(p1, p2, q2)] * self.domain.size, [chained(q1, p2, q2)] * self.domain.size

    @override
    def permanent_ratio(self) -> Fraction:
        return self.permanent.worst_ratio()

    supported = of_inner("supported", "instantaneous")
    reports = of_inner("reports", "instantaneous")
    count_reports = of_inner("count_reports", "instantaneous")


def chained(supports: Fraction, p2: Fraction, q2: Fraction) -> Fraction:
    """Pr[the report supports a value], if the permanent answer does with probability ``supports``."""
    return supports * p2 + (1 - supports) * q2


Variant: TypeAlias = Literal["OSUE", "SUE", "OUE", "SOUE"]


@dataclass(frozen=True, init=False)
class LongitudinalUnaryEncoding(BitVectors, Chain):
    """L-OSUE and its relatives: a permanent bit vector, of which each report is a noisy copy.

    Args:
        domain: with ``unmatched="none"`` a value outside it is the all-zero vector, perturbed.
        epsilon_infinity: of all reports about one value, finite, > 0.
        epsilon_1: of one report, in (0, epsilon_infinity); less far where the second round is optimized.
        variant: ``"OSUE"`` (optimized, then symmetric: the least variance), ``"SUE"`` (both symmetric: basic RAPPOR),
            ``"OUE"`` (both optimized) or ``"SOUE"`` (symmetric, then optimized).

    Reports are those of `UnaryEncoding`; they take keyed noise. p and q of the chain give
    epsilon_1 = ln(p (1 - q) / ((1 - p) q)), by which the second round is found.

    >>> m = LongitudinalUnaryEncoding(["a", "b", "c"], epsilon_infinity=2.0, epsilon_1=1.0)
    >>> round(m.instantaneous.p, 6), m.p, round(m.q, 6)
    (0.803388, 0.5, 0.268941)
    """

    name: ClassVar[str] = "longitudinal_unary_encoding"
    chunk: ClassVar[int] = 1 << 18  # permanent and instantaneous bits stay in the L2 cache

    variant: Variant = parameter(check_choice, among=get_args(Variant))

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon_infinity: float,
        epsilon_1: float,
        variant: Variant = "OSUE",
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(
            variant=variant, domain=Domain.of(domain, unmatched), epsilon_infinity=epsilon_infinity, epsilon_1=epsilon_1
        )
        if not SURE < self.epsilon_1 < 0.999 * self._most:
            _ = self.instantaneous  # which refuses what is too small or too large

    @property
    def _most(self) -> float:
        """About what a report spends without noise in the second round, or less."""
        e = math.exp(min(self.epsilon_infinity, 30) / (1 if self.variant in ("OSUE", "OUE") else 2))
        kept = float(self._second(0)[0])
        p, q = kept * (0.5 if self.variant in ("OSUE", "OUE") else e / (e + 1)), kept / (e + 1)
        return math.log(p * (1 - q) / ((1 - p) * q))

    @cached_property
    @no_warning_of_epsilon()
    def permanent(self) -> UnaryEncoding:
        """The first round."""
        variant: Literal["optimized", "symmetric"] = "optimized" if self.variant in ("OSUE", "OUE") else "symmetric"
        return UnaryEncoding(self.domain, epsilon=self.epsilon_infinity, variant=variant)

    @cached_property
    @no_warning_of_epsilon()
    def instantaneous(self) -> UnaryEncoding:
        """The second round: the least noise with which a report spends no more than epsilon_1.

        The least q2 is found by bisection over multiples of 2^-53, so that both probabilities are floats, exactly.
        """
        limit = exp_below(self.epsilon_1)
        p1, q1 = (rates[0] for rates in self.permanent.support_probabilities())
        parts = math.lcm(p1.denominator, q1.denominator)
        permanent, every = [int(rate * parts) for rate in (p1, q1)], parts * _STEPS

        def is_private(k: int) -> bool:
            """`_ratio_with` is at most the limit: in integers, as fractions would take ten times as long."""
            kept = int(self._second(k)[0] * _STEPS)
            p, q = (ones * kept + (parts - ones) * k for ones in permanent)
            return p * (every - q) * limit.denominator <= limit.numerator * (every - p) * q

        half = _STEPS // 2
        if is_private(0):
            bound = log_above(self._ratio_with(*self._second(0)))
            raise ParameterError(
                f'epsilon_1 must be in (0, {bound:.6g}) with variant "{self.variant}" and epsilon_infinity = '
                f"{self.epsilon_infinity!r}, as no second round spends more; got {self.epsilon_1!r}"
            )
        if not is_private(half - 1):
            raise ParameterError("epsilon_1 is too small: with 53-bit probabilities it must be above about 1e-15")
        p2, q2 = self._second(_least(is_private, 0, half - 1))
        return UnaryEncoding.from_probabilities(self.domain, p=float(p2), q=float(q2))

    def _second(self, k: int) -> tuple[Fraction, Fraction]:
        """(p2, q2) for the k-th q2."""
        q2 = k * _STEP
        return (1 - q2 if self.variant in ("OSUE", "SUE") else Fraction(1, 2)), q2

    def _ratio_with(self, p2: Fraction, q2: Fraction) -> Fraction:
        p1, q1 = (rates[0] for rates in self.permanent.support_probabilities())
        p, q = chained(p1, p2, q2), chained(q1, p2, q2)
        return p * (1 - q) / ((1 - p) * q)

    @cached_property
    def shared(self) -> SharedBits:
        """Two rounds of each bit; a value has one, no value none."""
        (p1, *_), (q1, *_) = self.permanent.support_probabilities()
        (p2, *_), (q2, *_) = self.instantaneous.support_probabilities()
        return SharedBits(self.domain.size, int(self.exhaustive), 1, p1, q1, p2, q2)

    @override
    def worst_ratio(self) -> Fraction:
        """Inputs that differ in two bits."""
        p2, q2 = (rates[0] for rates in self.instantaneous.support_probabilities())
        return self._ratio_with(p2, q2)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        """Codes to rows of bytes, uint8[n, ceil(d / 8)]: bits with p2 where the permanent ones are 1, q2 where 0."""
        d = self.domain.size
        width = row_bytes(d)
        p2, q2 = self.instantaneous.thresholds
        again, beyond = noise.instantaneous(), np.full(len(codes), 8 * width, np.uint32)
        rows = self.permanent.perturb_codes(codes, noise)
        zeros = again.one_hot_rows(q2, q2, beyond, width, _ZEROS)
        if self.variant in ("OSUE", "SUE"):  # q2 is the probability of a flip
            rows ^= zeros
        else:
            rows &= again.one_hot_rows(p2, p2, beyond, width, _ONES) ^ zeros
            rows ^= zeros
        clear_padding(rows, d)
        return rows


_STEPS = 1 << 53
_STEP = Fraction(1, _STEPS)

_ZEROS, _ONES = 0, 1  # lanes of the instantaneous noise


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least integer for which ``holds``, if it does for ``high`` and not for ``low``, and changes once."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True, init=False)
class LongitudinalRandomizedResponse(Chain):
    """L-GRR: a randomized response to a permanent randomized response.

    Args:
        domain: a `Domain` or a list of labels; no ``unmatched="none"``.
        epsilon_infinity: of all reports about one value.
        epsilon_1: of one report, less.

    Reports are those of `RandomizedResponse`; they take keyed noise.

    The chain is itself a randomized response, that of epsilon_1: the second round follows exactly. (For more than two
    values the paper's is noisier: it takes ln((p1 p2 + q1 q2) / (p1 q2 + q1 p2)) for epsilon_1, which leaves out the
    other d - 2 ways to a report.)

    >>> m = LongitudinalRandomizedResponse(["a", "b", "c"], epsilon_infinity=2.0, epsilon_1=1.0)
    >>> round(m.permanent.p, 6), round(m.p, 6), round(m.q, 6)
    (0.786986, 0.576117, 0.211942)
    """

    name: ClassVar[str] = "longitudinal_randomized_response"

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon_infinity: float,
        epsilon_1: float,
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon_infinity=epsilon_infinity, epsilon_1=epsilon_1)
        _ = self.permanent  # which refuses domains
        if self.epsilon_1 < SURE:
            _ = self.instantaneous  # which refuses what is too small

    @cached_property
    @no_warning_of_epsilon()
    def permanent(self) -> RandomizedResponse:
        """The first round."""
        return RandomizedResponse(self.domain, epsilon=self.epsilon_infinity)

    @cached_property
    @no_warning_of_epsilon()
    def instantaneous(self) -> RandomizedResponse:
        """The second round: the least noise with which a report spends no more than epsilon_1."""
        d, e = self.domain.size, exp_below(self.epsilon_1)
        p1, q1 = self.permanent.support_probabilities()
        keep = min((e - 1) / (e - 1 + d) / (p1[0] - q1[0]), 1 - _STEP)
        # Below ln(1 + d keep / (1 - keep)), whose exp `exp_below` takes to be less by more than `log_above` added.
        return RandomizedResponse(self.domain, epsilon=math.nextafter(log_above(1 + d * keep / (1 - keep)), 0))

    @cached_property
    def shared(self) -> SharedSymbol:
        """Two rounds over the values."""
        (p1, *_), (q1, *_) = self.permanent.support_probabilities()
        (p2, *_), (q2, *_) = self.instantaneous.support_probabilities()
        return SharedSymbol(self.domain.size, p1, q1, p2, q2)

    @override
    def worst_ratio(self) -> Fraction:
        """``p / q``, as of the randomized response that the chain is."""
        p, q = self.support_probabilities()
        return p[0] / q[0]

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        return self.instantaneous.perturb_codes(self.permanent.perturb_codes(codes, noise), noise.instantaneous())

    @override
    def sum_variance(self, weights: F64) -> F64:
        return variance_of_one(self.rates, weights)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        permanent = self.permanent.simulate_counters(codes, people, generator)
        return self.instantaneous.simulate_counters(np.arange(len(permanent)), permanent, generator)
