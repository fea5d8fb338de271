"""Unary (one-hot) encoding: a bit per value, kept with p where it is 1, set with q where it is 0.

Ulfar Erlingsson, V. Pihur, A. Korolova, "RAPPOR", CCS 2014 (the symmetric variant, "basic one-time
RAPPOR"); Wang et al. 2017, section 4.3: symmetric (SUE) p = e^(eps/2) / (e^(eps/2) + 1), q = 1 - p;
optimized (OUE) p = 1/2, q = 1 / (e^eps + 1); for any p > q,

    epsilon = ln(p (1 - q) / ((1 - p) q))                                      (ibid., Equation 7)

because two inputs differ in two bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

from typing_extensions import override

from ldp_core.errors import ParameterError
from ldp_core.exact.probability import agreement, ceil_threshold, check_resolved, exp_below, floor_threshold, log_above
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.independent_bits import IndependentBits
from ldp_core.parameters import check_choice, check_epsilon, check_probability, converted, parameter

Variant = Literal["optimized", "symmetric"]


@dataclass(frozen=True, init=False)
class UnaryEncoding(IndependentBits):
    """Report a vector of d bits, of which the true value's is 1 with probability p and the others with q.

    Args:
        domain: a `Domain` or a list of labels. With ``unmatched="none"`` a value outside it is the
            all-zero vector, perturbed.
        unmatched: beside a list of labels: what becomes of other values, nulls included; see `Domain`.
        epsilon: finite, > 0.
        variant: ``"optimized"`` (OUE, the least variance) or ``"symmetric"`` (SUE, basic RAPPOR).

    Reports are ``FixedSizeList<bool, d>`` or, packed, ``FixedSizeList<uint64, ceil(d / 64)>``;
    as numpy arrays ``bool[n, d]`` or ``uint64[n, ceil(d / 64)]``.

    >>> m = UnaryEncoding(["a", "b", "c"], epsilon=1.0)
    >>> m.p, round(m.q, 6)
    (0.5, 0.268941)
    >>> m.perturb(["a", "c"]).shape
    (2, 3)
    """

    name: ClassVar[str] = "unary_encoding"

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
        check_resolved(*self.thresholds)

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

    @override
    def parameters(self) -> dict[str, Any]:
        if self.probabilities is not None:
            return {"p": self.probabilities[0], "q": self.probabilities[1]}
        return {"epsilon": self.epsilon, "variant": self.variant}

    @classmethod
    @override
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> UnaryEncoding:
        if "p" in parameters or "q" in parameters:
            return cls.from_probabilities(domain, **parameters)
        return cls(domain, **parameters)
