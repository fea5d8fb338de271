"""Longitudinal mechanisms: a permanent answer for each value, remembered for ever, and fresh noise on it every time.

Ulfar Erlingsson, V. Pihur, A. Korolova, "RAPPOR", CCS 2014, sections 2 and 3: a report is the *instantaneous*
randomized response to a *permanent* one. One report spends epsilon_1; all reports about one value together, however
many, spend at most epsilon_infinity, since they are made of the one permanent answer. H. H. Arcolezi, J.-F. Couchot,
B. Al Bouna, X. Xiao, "Improving the Utility of Locally Differentially Private Protocols for Longitudinal and
Multidimensional Frequency Estimates", Digital Communications and Networks, 2022 (arXiv:2111.04636), section 4,
chains any two pure protocols: with (p1, q1) of the permanent round and (p2, q2) of the instantaneous one

    p = p1 p2 + (1 - p1) q2        q = q1 p2 + (1 - q1) q2        p - q = (p1 - q1) (p2 - q2)

is a pure protocol too, so that the estimator is that of all the others.

Nothing is stored: the permanent answer is keyed noise, a function of secret, id and value.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ldp_core import bits
from ldp_core.domain import Codes, Domain, Label
from ldp_core.errors import ParameterError
from ldp_core.frequency_oracle import FrequencyOracle
from ldp_core.mechanism import Native
from ldp_core.probability import check_epsilon, exp_below, log_above
from ldp_core.randomized_response import RandomizedResponse
from ldp_core.randomness import Noise
from ldp_core.reported_by import ReportedBy
from ldp_core.unary_encoding import UnaryEncoding

Variant = Literal["OSUE", "SUE", "OUE", "SOUE"]


class Longitudinal(FrequencyOracle):
    """A frequency oracle that a person may answer any number of times."""

    memoised: ClassVar[bool] = True

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
    def realised_epsilon_infinity(self) -> float:
        """What the rounded probabilities of a permanent answer really spend; see `realised_epsilon`."""
        return log_above(self.permanent_ratio())

    @property
    def permanent_answers(self) -> int:
        """How many permanent answers a person can come to give, if the value changes and changes again."""
        return self.domain.size + (self.domain.unmatched == "none")

    @property
    def epsilon_total(self) -> float:
        """What a person spends who gives all `permanent_answers`: as many times epsilon_infinity.

        It bounds what reports say about the values, not about when they changed.
        """
        return self.permanent_answers * self.epsilon_infinity


class Chain(ReportedBy, Longitudinal):
    """One pure protocol on the answers of another; a report is one of the second's."""

    @property
    @abstractmethod
    def permanent(self) -> FrequencyOracle:
        """The first round."""

    @property
    @abstractmethod
    def instantaneous(self) -> FrequencyOracle:
        """The second round."""

    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """See `Mechanism`: the chain's p and q."""
        first, second = self.permanent.support_probabilities(), self.instantaneous.support_probabilities()
        rounds = list(zip(*first, *second, strict=True))
        return [_chained(p1, p2, q2) for p1, _, p2, q2 in rounds], [_chained(q1, p2, q2) for _, q1, p2, q2 in rounds]

    def permanent_ratio(self) -> Fraction:
        """See `Longitudinal`."""
        return self.permanent.worst_ratio()

    def support_counts(self, reports: Native, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        """See `Mechanism`."""
        return self.instantaneous.support_counts(reports, groups, n_groups)

    @property
    def reporter(self) -> FrequencyOracle:
        """The second round."""
        return self.instantaneous


def _chained(supports: Fraction, p2: Fraction, q2: Fraction) -> Fraction:
    """Pr[the report supports a value], if the permanent answer does with probability ``supports``."""
    return supports * p2 + (1 - supports) * q2


@dataclass(frozen=True, init=False)
class LongitudinalRandomizedResponse(Chain):
    """L-GRR: a randomized response to a permanent randomized response.

    Args:
        domain: a `Domain` or a list of labels; no ``unmatched="none"``.
        epsilon_infinity: of all reports about one value, finite, > 0.
        epsilon_1: of one report, in (0, epsilon_infinity).

    Reports are those of `RandomizedResponse`; they take keyed noise.

    The chain is itself a randomized response, whose probability of keeping the value is the product of the two; so
    that the second one follows exactly from epsilon_1 = ln(p / q), and p and q are those of `RandomizedResponse` with
    epsilon_1. (For more than two values the paper's second round is noisier: it takes ln((p1 p2 + q1 q2) /
    (p1 q2 + q1 p2)) for epsilon_1, which leaves out the other d - 2 ways to a report.)

    Raises:
        ParameterError: epsilons that do not exist, or are too small.

    >>> m = LongitudinalRandomizedResponse(["a", "b", "c"], epsilon_infinity=2.0, epsilon_1=1.0)
    >>> round(m.permanent.p, 6), round(m.p, 6), round(m.q, 6)
    (0.786986, 0.576117, 0.211942)
    >>> from ldp_core import Keyed, Secret
    >>> m.perturb(["a", "c"], randomness=Keyed(Secret.generate(), [17, 18], column="os")).shape
    (2,)
    """

    name: ClassVar[str] = "longitudinal_randomized_response"

    domain: Domain
    epsilon_infinity: float
    epsilon_1: float

    def __init__(self, domain: Domain | Iterable[Label], *, epsilon_infinity: float, epsilon_1: float) -> None:
        object.__setattr__(self, "domain", Domain.of(domain))
        object.__setattr__(self, "epsilon_infinity", check_epsilon(epsilon_infinity, "epsilon_infinity"))
        object.__setattr__(self, "epsilon_1", check_epsilon_1(epsilon_1, self.epsilon_infinity))
        _ = self.permanent, self.instantaneous  # they refuse what is too small

    @cached_property
    def permanent(self) -> RandomizedResponse:
        """The first round."""
        return RandomizedResponse(self.domain, epsilon=self.epsilon_infinity)

    @cached_property
    def instantaneous(self) -> RandomizedResponse:
        """The second round: the least noise with which a report spends no more than epsilon_1."""
        d, e = self.domain.size, exp_below(self.epsilon_1)
        p1, q1 = self.permanent.support_probabilities()
        keep = min((e - 1) / (e - 1 + d) / (p1[0] - q1[0]), 1 - _STEP)
        # Below ln(1 + d keep / (1 - keep)), whose exp `exp_below` takes to be less by more than `log_above` added.
        return RandomizedResponse(self.domain, epsilon=math.nextafter(log_above(1 + d * keep / (1 - keep)), 0))

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: p / q, as of the randomized response that the chain is."""
        p, q = self.support_probabilities()
        return p[0] / q[0]

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """Codes in, codes out, of the same dtype."""
        return self.instantaneous.perturb_codes(self.permanent.perturb_codes(codes, noise), noise.instantaneous())

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon_infinity": self.epsilon_infinity, "epsilon_1": self.epsilon_1}


@dataclass(frozen=True, init=False)
class LongitudinalUnaryEncoding(Chain):
    """L-OSUE and its relatives: a permanent bit vector, of which each report is a noisy copy.

    Args:
        domain: a `Domain` or a list of labels. With ``unmatched="none"`` a value outside it is the
            all-zero vector, perturbed.
        epsilon_infinity: of all reports about one value, finite, > 0.
        epsilon_1: of one report, in (0, epsilon_infinity); less far where the second round is optimized.
        variant: ``"OSUE"`` (optimized, then symmetric: the least variance), ``"SUE"`` (both symmetric: basic RAPPOR),
            ``"OUE"`` (both optimized) or ``"SOUE"`` (symmetric, then optimized).

    Reports are those of `UnaryEncoding`; they take keyed noise. p and q of the chain give
    epsilon_1 = ln(p (1 - q) / ((1 - p) q)), by which the second round is found.

    Raises:
        ParameterError: epsilons that do not exist, are too small or too close; an unknown variant.

    >>> m = LongitudinalUnaryEncoding(["a", "b", "c"], epsilon_infinity=2.0, epsilon_1=1.0)
    >>> round(m.instantaneous.p, 6), m.p, round(m.q, 6)
    (0.803388, 0.5, 0.268941)
    >>> from ldp_core import Keyed, Secret
    >>> m.perturb(["a", "c"], randomness=Keyed(Secret.generate(), [17, 18], column="os")).shape
    (2, 3)
    """

    name: ClassVar[str] = "longitudinal_unary_encoding"

    domain: Domain
    epsilon_infinity: float
    epsilon_1: float
    variant: Variant

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon_infinity: float,
        epsilon_1: float,
        variant: Variant = "OSUE",
    ) -> None:
        if variant not in ("OSUE", "SUE", "OUE", "SOUE"):
            raise ParameterError(f'variant must be "OSUE", "SUE", "OUE" or "SOUE", got {variant!r}')
        object.__setattr__(self, "domain", Domain.of(domain))
        object.__setattr__(self, "epsilon_infinity", check_epsilon(epsilon_infinity, "epsilon_infinity"))
        object.__setattr__(self, "epsilon_1", check_epsilon_1(epsilon_1, self.epsilon_infinity))
        object.__setattr__(self, "variant", variant)
        _ = self.permanent, self.instantaneous  # they refuse what is too small

    @cached_property
    def permanent(self) -> UnaryEncoding:
        """The first round."""
        variant: Literal["optimized", "symmetric"] = "optimized" if self.variant in ("OSUE", "OUE") else "symmetric"
        return UnaryEncoding(self.domain, epsilon=self.epsilon_infinity, variant=variant)

    @cached_property
    def instantaneous(self) -> UnaryEncoding:
        """The second round: the least noise with which a report spends no more than epsilon_1.

        The more often it sets a 0, the less a report spends: a larger q2 is a smaller one with symmetric flips on top.
        So the least q2 is found by bisection, over multiples of 2^-53: both probabilities are floats, exactly.
        """
        limit = exp_below(self.epsilon_1)

        def is_private(k: int) -> bool:
            return self._ratio_with(*self._second(k)) <= limit

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
        p, q = _chained(p1, p2, q2), _chained(q1, p2, q2)
        return p * (1 - q) / ((1 - p) * q)

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: inputs that differ in two bits."""
        p2, q2 = (rates[0] for rates in self.instantaneous.support_probabilities())
        return self._ratio_with(p2, q2)

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """Codes to rows of bytes, uint8[n, ceil(d / 8)]: bits with p2 where the permanent ones are 1, q2 where 0."""
        n, d = len(codes), self.domain.size
        width = bits.row_bytes(d)
        p2, q2 = self.instantaneous.thresholds
        symmetric = self.variant in ("OSUE", "SUE")
        fresh = noise.instantaneous()
        rows = np.empty((n, width), np.uint8)
        step = max(_BLOCK // width, 1)
        for start in range(0, n, step):
            stop = min(start + step, n)
            again, beyond = fresh.rows(start, stop), np.full(stop - start, 8 * width, np.uint32)
            block = self.permanent.perturb_codes(codes[start:stop], noise.rows(start, stop))
            zeros = again.one_hot_rows(q2, q2, beyond, width, _ZEROS)
            if symmetric:  # q2 is the probability of a flip
                block ^= zeros
            else:
                block &= again.one_hot_rows(p2, p2, beyond, width, _ONES) ^ zeros
                block ^= zeros
            rows[start:stop] = block
        bits.clear_padding(rows, d)
        return rows

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon_infinity": self.epsilon_infinity, "epsilon_1": self.epsilon_1, "variant": self.variant}


_STEPS = 1 << 53
_STEP = Fraction(1, _STEPS)

_BLOCK = 1 << 18  # bytes of reports made at a time: permanent and instantaneous bits stay in the L2 cache

_ZEROS, _ONES = 0, 1  # lanes of the instantaneous noise


def check_epsilon_1(epsilon_1: float, epsilon_infinity: float) -> float:
    """Return ``epsilon_1`` as a float.

    Raises:
        ParameterError: unless it is a number in (0, epsilon_infinity).
    """
    value = check_epsilon(epsilon_1, "epsilon_1")
    if not value < epsilon_infinity:
        raise ParameterError(f"epsilon_1 must be in (0, epsilon_infinity = {epsilon_infinity!r}), got {value!r}")
    return value


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least integer for which ``holds``, if it does for ``high`` and not for ``low``, and changes once."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
