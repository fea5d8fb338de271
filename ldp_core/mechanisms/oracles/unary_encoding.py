"""Bit vectors whose bits are independent.

Unary (one-hot) encoding: a bit per value, kept with p where it is 1, set with q where it is 0.

Ulfar Erlingsson, V. Pihur, A. Korolova, "RAPPOR", CCS 2014 (the symmetric variant, "basic one-time
RAPPOR"); Wang et al. 2017, section 4.3: symmetric (SUE) p = e^(eps/2) / (e^(eps/2) + 1), q = 1 - p;
optimized (OUE) p = 1/2, q = 1 / (e^eps + 1); for any p > q,

    epsilon = ln(p (1 - q) / ((1 - p) q))                                      (ibid., Equation 7)

because two inputs differ in two bits.

Thresholded histogram encoding (THE): Laplace noise on each entry of a one-hot vector, and which exceed a threshold.

Wang et al. 2017, section 4.2: with noise of scale 2 / epsilon the vector is epsilon-private; the client reports only
which entries exceed theta, so that a bit is 1 with probability

    p = 1 - exp(epsilon (theta - 1) / 2) / 2   (the true value's)        q = exp(-epsilon theta / 2) / 2   (the others')

for theta in (1/2, 1). The bits are drawn with these probabilities; no Laplace variable is, and none is rounded. At a
given epsilon OUE has the smaller variance: this is here for reports that others collect or publish.
`SummationHistogramEncoding` sends the entries themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from math import exp, floor, inf
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Codes
from ldp_core.errors import ParameterError
from ldp_core.estimates.plausibility import Term
from ldp_core.exact import bits
from ldp_core.exact.probability import (
    agreement,
    ceil_threshold,
    check_resolved,
    exp_below,
    floor_threshold,
    fraction,
    log_above,
)
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.base import BitReports, FrequencyOracle, Uncorrelated
from ldp_core.noise.base import Noise
from ldp_core.noise.fresh import Keystream
from ldp_core.noise.keyed import KeyedRows
from ldp_core.parameters import check_choice, check_epsilon, check_probability, check_share, converted, parameter
from ldp_core.poisoning import CountsOnes, chances_of_ones
from ldp_core.reports import Bits, Native
from ldp_core.reports.bits import clear_padding, row_bytes
from ldp_core.simulated_counts import Generator, by_code


class BitVectors(CountsOnes, BitReports, Uncorrelated):
    """Reports of d independent bits: the true value's is 1 with probability p, any other with q."""

    @cached_property
    @override
    def total_term(self) -> Term:
        return total_of_bits(self)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        have = by_code(codes, people, self.domain.size + 1)[:-1]  # the last ones have no value
        return generator.binomial(have, self.p) + generator.binomial(people.sum() - have, self.q)

    @override
    def ones(self, reports: Native) -> I64:
        return bits.row_weights(reports).astype(np.int64)

    @override
    def ones_chances(self) -> F64:
        """One bit has probability p, or none if a value may be in no bit."""
        return chances_of_ones(self.domain.size, [1] if self.exhaustive else [0, 1], self.p, self.q)


class IndependentBits(BitVectors):
    """Bit vectors that are drawn at once, by two thresholds."""

    has_two_levels: ClassVar[bool] = True
    chunk: ClassVar[int] = 1 << 19  # the random bits are still in a cache when the true one is drawn
    parallel: ClassVar[tuple[type[Noise], ...]] = (Keystream, KeyedRows)

    @property
    @abstractmethod
    def thresholds(self) -> tuple[int, int]:
        """(p, q) as integers over 2^64: p rounded down, q up."""

    @property
    @override
    def independent_bits(self) -> tuple[float, float]:
        p, q = (float(fraction(t)) for t in self.thresholds)
        return p, q

    @cached_property
    @override
    def alike(self) -> float:
        own, other = (p * p + (1 - p) ** 2 for p in self.independent_bits)
        return max(own, other) * other ** (self.domain.size - 1)

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        p, q = (fraction(t) for t in self.thresholds)
        return [p] * self.domain.size, [q] * self.domain.size

    @override
    def worst_ratio(self) -> Fraction:
        """Inputs that differ in two bits (with ``unmatched="none"`` also in one, which is less)."""
        p, q = (fraction(t) for t in self.thresholds)
        return p * (1 - q) / ((1 - p) * q)

    @cached_property
    @override
    def reports(self) -> Bits:
        return Bits(self.domain.size)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        """Codes to rows of bytes, uint8[n, ceil(d / 8)]; `unmatched_code` under ``"none"`` has no true bit."""
        d = self.domain.size
        p, q = self.thresholds
        rows = noise.one_hot_rows(p, q, codes, row_bytes(d), _BITS)
        clear_padding(rows, d)
        return rows

    @override
    def compiled(self) -> dict[str, Any]:
        p, q = self.thresholds
        return {"draw": "bits", "p": str(p), "q": str(q)}


def total_of_bits(mechanism: FrequencyOracle) -> Term:
    """What each of d independent bits adds to all the estimated counts."""
    one, d = mechanism.count_term, mechanism.domain.size
    least, greatest = (float(np.asarray(x).reshape(-1)[0]) for x in (one.least, one.greatest))
    return Term(float(mechanism.exhaustive) / d, 1 / d, least, greatest, each=d)


_BITS = 0  # lane of noise


Variant = Literal["optimized", "symmetric"]


@dataclass(frozen=True, init=False)
class UnaryEncoding(IndependentBits):
    """Report a vector of d bits, of which the true value's is 1 with probability p and the others with q.

    Args:
        domain: with ``unmatched="none"`` a value outside it is the all-zero vector, perturbed.
        variant: ``"optimized"`` (OUE, the least variance) or ``"symmetric"`` (SUE, basic RAPPOR).

    Reports are ``FixedSizeList<bool, d>`` or, packed, ``FixedSizeList<uint64, ceil(d / 64)>``;
    as numpy arrays ``bool[n, d]`` or ``uint64[n, ceil(d / 64)]``.

    >>> m = UnaryEncoding(["a", "b", "c"], epsilon=1.0)
    >>> m.p, round(m.q, 6)
    (0.5, 0.268941)
    """

    name: ClassVar[str] = "unary_encoding"
    other_constructor = ("from_probabilities", "probabilities", ("p", "q"))

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    variant: Variant | None = parameter(check_choice, default=None, among=get_args(Variant))
    probabilities: tuple[float, float] | None = None
    """(p, q) of a mechanism made by `from_probabilities`, which has no variant."""

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        variant: Variant = "optimized",
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(variant=variant, domain=Domain.of(domain, unmatched), epsilon=epsilon)
        check_resolved(self.epsilon, lambda: self.thresholds)

    @classmethod
    def from_probabilities(cls, domain: Domain | Iterable[Label], *, p: float, q: float) -> UnaryEncoding:
        """Keep 1s with probability ``p``, set 0s with probability ``q < p``; epsilon follows.

        >>> UnaryEncoding.from_probabilities(["a", "b"], p=0.75, q=0.25).epsilon  # ln 9
        2.1972245773362196
        """
        exact_p, exact_q = check_probability("p", p), check_probability("q", q)
        if not 0 < exact_q < exact_p < 1:
            raise ParameterError(f"p and q must satisfy 0 < q < p < 1, got p={float(p)!r} and q={float(q)!r}")
        epsilon = log_above(exact_p * (1 - exact_q) / ((1 - exact_p) * exact_q))
        self = cls._made(domain=domain, epsilon=epsilon, probabilities=(float(p), float(q)))
        if not self.thresholds[0] > self.thresholds[1]:
            raise ParameterError("p and q are too close: they must differ by more than 64-bit probabilities resolve")
        return self

    @cached_property
    def thresholds(self) -> tuple[int, int]:
        """(p, q) as integers over 2^64: p rounded down, q up."""
        if self.probabilities is not None:
            p, q = self.probabilities
            return floor_threshold(Fraction(p)), ceil_threshold(Fraction(q))
        if self.variant == "symmetric":
            keep = agreement(Fraction(self.epsilon) / 2)
            return keep, ONE - keep
        return ONE // 2, ceil_threshold(1 / (exp_below(self.epsilon) + 1))


@dataclass(frozen=True, init=False)
class ThresholdHistogramEncoding(IndependentBits):
    """Report a vector of d bits: which entries of the one-hot vector with Laplace noise exceed theta.

    Args:
        domain: with ``unmatched="none"`` a value outside it is the all-zero vector, perturbed.
        epsilon: finite, > 0. What a report really spends, `realized_epsilon`, is less: the bits reveal
            less than the noisy entries.
        theta: the threshold, in [1/2, 1]; default the one of least variance, to six digits.

    Reports are bit vectors in the layouts of `UnaryEncoding`.

    >>> m = ThresholdHistogramEncoding(["a", "b", "c"], epsilon=1.0)
    >>> m.theta, round(m.p, 6), round(m.q, 6)
    (0.618553, 0.586819, 0.366989)
    """

    name: ClassVar[str] = "threshold_histogram_encoding"

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    theta: float = parameter(check_share, default=cached_property(lambda self: best_theta(self.epsilon)), least=0.5)

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        theta: float | None = None,
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon, theta=theta)
        if theta is None:
            check_resolved(self.epsilon, lambda: (floor(exp_below(self.epsilon) * ONE), ONE))  # or there is no best one
        check_resolved(self.epsilon, lambda: self.thresholds)

    @cached_property
    @override
    def thresholds(self) -> tuple[int, int]:
        half, theta = Fraction(self.epsilon) / 2, Fraction(self.theta)
        p = 1 - 1 / (2 * exp_below(half * (1 - theta)))
        return floor_threshold(p), ceil_threshold(1 / (2 * exp_below(half * theta)))


_DIGITS = Context(prec=50)
_GRID, _NEAR = 10**6, 3


def best_theta(epsilon: float) -> float:
    """The theta of least variance of a rare value, q (1 - q) / (p - q)^2, to six digits.

    In decimal arithmetic, which is the same on every machine: theta is part of a mechanism's fingerprint.

    >>> best_theta(2.0)
    0.709614
    """
    half = _DIGITS.divide(_DIGITS.create_decimal(min(epsilon, 100.0)), Decimal(2))
    low, high = _GRID // 2, _GRID

    def falls(theta: int) -> bool:
        return _variance(half, theta) > _variance(half, theta + 1)

    # It falls and then rises: where does it stop falling? Floats know nearly, and take a tenth of the time.
    near = _first_not(lambda theta: _nearly(float(half), theta) > _nearly(float(half), theta + 1), low, high)
    if near - _NEAR > low and falls(near - _NEAR):
        low = near - _NEAR
    if near + _NEAR < high and not falls(near + _NEAR):
        high = near + _NEAR
    return _first_not(falls, low, high) / _GRID


def _first_not(holds: Callable[[int], bool], low: int, high: int) -> int:
    while high > low:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if holds(middle) else (low, middle)
    return low


def _nearly(half: float, theta: int) -> float:
    q, p = exp(-half * theta / _GRID) / 2, 1 - exp(half * (theta / _GRID - 1)) / 2
    return q * (1 - q) / (p - q) ** 2 if p > q else inf


def _variance(half: Decimal, theta: int) -> Decimal:
    c = _DIGITS
    share = c.divide(Decimal(theta), Decimal(_GRID))
    q = c.divide(c.exp(c.multiply(-half, share)), Decimal(2))
    p = c.subtract(Decimal(1), c.divide(c.exp(c.multiply(half, c.subtract(share, Decimal(1)))), Decimal(2)))
    gap = c.subtract(p, q)
    return c.divide(c.multiply(q, c.subtract(Decimal(1), q)), c.multiply(gap, gap))
