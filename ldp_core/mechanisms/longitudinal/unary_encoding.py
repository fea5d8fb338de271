"""L-OSUE and its relatives: two rounds of unary encoding; see `base.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import Codes
from ldp_core.errors import ParameterError, no_warning_of_epsilon
from ldp_core.exact.composition import Bits
from ldp_core.exact.probability import exp_below, log_above
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.longitudinal.base import Chain, below_infinity, chained
from ldp_core.mechanisms.oracles.independent_bits import BitVectors
from ldp_core.mechanisms.oracles.unary_encoding import UnaryEncoding
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_choice, check_epsilon, converted, parameter
from ldp_core.reports import Native
from ldp_core.reports.bits import clear_padding, row_bytes

Variant: TypeAlias = Literal["OSUE", "SUE", "OUE", "SOUE"]


@dataclass(frozen=True, init=False)
class LongitudinalUnaryEncoding(BitVectors, Chain):
    """L-OSUE and its relatives: a permanent bit vector, of which each report is a noisy copy.

    Args:
        domain: a `Domain` or a list of labels. With ``unmatched="none"`` a value outside it is the
            all-zero vector, perturbed.
        unmatched: beside a list of labels: what becomes of other values, nulls included; see `Domain`.
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
    chunk: ClassVar[int] = 1 << 18  # permanent and instantaneous bits stay in the L2 cache

    domain: Domain = converted(Domain.of)
    epsilon_infinity: float = parameter(check_epsilon)
    epsilon_1: float = parameter(check_epsilon, below=below_infinity)
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
        _ = self.permanent, self.instantaneous  # they refuse what is too small

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
        p, q = chained(p1, p2, q2), chained(q1, p2, q2)
        return p * (1 - q) / ((1 - p) * q)

    @cached_property
    def shared(self) -> Bits:
        """Two rounds of each bit; a value has one, no value none."""
        (p1, *_), (q1, *_) = self.permanent.support_probabilities()
        (p2, *_), (q2, *_) = self.instantaneous.support_probabilities()
        return Bits(self.domain.size, int(self.exhaustive), 1, p1, q1, p2, q2)

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
