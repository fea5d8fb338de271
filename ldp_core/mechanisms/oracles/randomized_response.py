"""Randomized response: Warner's for two values, k-ary (GRR) for more, and the two coins.

S. L. Warner, "Randomized Response", JASA 60(309), 1965. P. Kairouz, K. Bonawitz, D. Ramage,
"Discrete Distribution Estimation under Local Privacy", ICML 2016 (k-RR); as the pure protocol
"direct encoding" in Wang et al. 2017, section 4.1: p = e^eps / (e^eps + d - 1), q = (1 - p) / (d - 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.accounting.shuffling import Levels
from ldp_core.arrays.types import F64, I64, Codes, select
from ldp_core.errors import DomainError, ParameterError
from ldp_core.estimates.consistency import Rates
from ldp_core.exact.probability import (
    agreement,
    ceil_threshold,
    check_resolved,
    floor_threshold,
    fraction,
    keeping,
    log_above,
)
from ldp_core.exact.sampling import ONE
from ldp_core.exact.transforms import count_numbers
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.base import FrequencyOracle, check_reported
from ldp_core.noise.base import Noise, Randomness, coins
from ldp_core.noise.keyed import KeyedRows
from ldp_core.parameters import check_epsilon, check_probability, parameter
from ldp_core.reports import Native, Value
from ldp_core.simulated_counts import Generator, by_code, multinomials


@dataclass(frozen=True, init=False)
class RandomizedResponse(FrequencyOracle):
    """Report the true value with probability p, any other given value with probability q.

    Args:
        domain: a `Domain` or a list of labels; default the Booleans.

    Reports have the type of the values (text as dictionary), or text where the domain has an
    ``other`` bucket. ``unmatched="none"`` does not exist here: every report names a value.

    >>> m = RandomizedResponse(epsilon=1.0)
    >>> round(m.p, 6), round(m.q, 6)
    (0.731059, 0.268941)
    >>> m.estimate(m.tally(m.perturb([True] * 30_000 + [False] * 70_000))).n
    100000
    """

    name: ClassVar[str] = "randomized_response"
    other_constructor = ("from_coins", "coins", ("truth", "yes"))
    has_two_levels: ClassVar[bool] = True
    chunk: ClassVar[int] = 1 << 17
    parallel: ClassVar[tuple[type[Noise], ...]] = (KeyedRows,)
    usual_domain: ClassVar[tuple[bool, bool]] = (False, True)

    domain: Domain = parameter(check_reported, what="randomized response")
    epsilon: float = parameter(check_epsilon)
    coins: tuple[float, float] | None = None
    """(truth, yes) of a mechanism made by `from_coins`."""

    def __init__(
        self, domain: Domain | Iterable[Label] = (False, True), *, epsilon: float, unmatched: Unmatched = "error"
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon)
        check_resolved(self.epsilon, lambda: self._pair, " * d")

    @classmethod
    def from_coins(
        cls, domain: Domain | Iterable[Label] = (False, True), *, truth: float = 0.5, yes: float = 0.5
    ) -> RandomizedResponse:
        """The two coins: answer truthfully with probability ``truth``, else say yes with probability ``yes``.

        ``yes`` is the domain's second value. With p1 = Pr[yes | yes] = truth + (1 - truth) yes and
        p0 = Pr[yes | no] = (1 - truth) yes, epsilon is the larger of ln(p1 / p0) and
        ln((1 - p0) / (1 - p1)) (the two other log ratios are negative).

        >>> RandomizedResponse.from_coins().epsilon  # two fair coins: ln 3
        1.0986122886681098
        """
        t, y = check_probability("truth", truth), check_probability("yes", yes)
        if not (0 < t < 1 and 0 < y < 1):
            raise ParameterError(
                f"truth and yes must be in (0, 1), got {float(t)!r} and {float(y)!r}: at the ends there is "
                "no privacy or no information"
            )
        domain = Domain.of(domain)
        if domain.size != 2:
            raise DomainError(f"two coins answer a question with two values, the domain has {domain.size}")
        p1, p0 = t + (1 - t) * y, (1 - t) * y
        epsilon = log_above(max(p1 / p0, (1 - p0) / (1 - p1)))
        self = cls._made(domain=domain, epsilon=epsilon, coins=(float(t), float(y)))
        check_resolved(0, lambda: self._yes, name="truth")
        return self

    @cached_property
    def _pair(self) -> tuple[Fraction, Fraction]:
        """Exact (p, q) without coins; d > 2 mixes "keep" with a uniform draw over all d values."""
        d = self.domain.size
        if d == 2:
            p = fraction(agreement(self.epsilon))
            return p, 1 - p
        keep = fraction(keeping(self.epsilon, d))
        return keep + (1 - keep) / d, (1 - keep) / d

    @cached_property
    def _keep(self) -> int:
        """Integer threshold of keeping the value, d > 2: p = keep + (1 - keep) / d, q = (1 - keep) / d."""
        p, q = self._pair
        return int((p - q) * ONE)

    @cached_property
    def _yes(self) -> tuple[int, int]:
        """Integer thresholds of Pr[second value | second value] and Pr[second value | first value], d = 2."""
        if self.coins is None:
            p = int(self._pair[0] * ONE)
            return p, ONE - p
        t, y = Fraction(self.coins[0]), Fraction(self.coins[1])
        return floor_threshold(t + (1 - t) * y), ceil_threshold((1 - t) * y)

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """With unequal coins the two values differ; p - q is the same for both."""
        if self.coins is not None:
            p1, p0 = (fraction(t) for t in self._yes)
            return [1 - p0, p1], [1 - p1, p0]
        p, q = self._pair
        return [p] * self.domain.size, [q] * self.domain.size

    supported = 1, 1

    @override
    def worst_ratio(self) -> Fraction:
        """Over both answers of the coins, else p / q."""
        p, q = self.support_probabilities()
        return max(a / b for a, b in zip(p[:2], q[:2], strict=True))

    @property
    @override
    def two_levels(self) -> Sequence[Levels]:
        """With coins the two answers have ratios of their own."""
        return super().two_levels if self.coins is None else ()

    @property
    @override
    def reports(self) -> Value:
        return Value(self.domain)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        n, d = len(codes), self.domain.size
        if d == 2:
            p1, p0 = self._yes
            flips = coins(noise, p0, n, _FIRST)
            if p0 == ONE - p1:  # symmetric: one probability of a flip
                return flips ^ codes
            return select(codes, coins(noise, p1, n, _SECOND), flips)
        return noise.kept_or_drawn(self._keep, codes, d, _FIRST)

    @override
    def perturb_arrow(self, values: pa.Array, randomness: Randomness, *, packed: bool, column: str) -> pa.Array:
        """Booleans stay bits: a report is the value's bit, flipped or not."""
        bits = self.domain.kind == "bool" and self.domain.values == (False, True)  # ((0, 1) is equal to it, too)
        plain = bits and pa.types.is_boolean(values.type) and not values.null_count
        if not plain or randomness.by_value or not len(values):
            return super().perturb_arrow(values, randomness, packed=packed, column=column)
        noise = randomness.bind(self.digest, np.zeros(len(values), np.uint8))
        n = len(values)
        p1, p0 = self._yes
        first = values.offset % 8
        n_bytes = -(-(first + n) // 8)
        truth = np.frombuffer(values.buffers()[1], np.uint8, n_bytes, values.offset // 8)
        reports = noise.bernoulli(p0, 8 * n_bytes, _FIRST)
        if p0 == ONE - p1:
            reports ^= truth
        else:
            reports &= ~truth
            reports |= truth & noise.bernoulli(p1, 8 * n_bytes, _SECOND)
        # The bits around a slice are other records', which have reports of their own.
        reports[0] &= 0xFF << first & 0xFF
        reports[-1] &= 0xFF >> -(first + n) % 8
        return pa.Array.from_buffers(pa.bool_(), n, [None, pa.py_buffer(reports)], offset=first)

    @override
    def compiled(self) -> dict[str, Any]:
        if self.domain.size > 2:
            return {"draw": "keep", "keep": str(self._keep)}
        return {"draw": "coins", "no": str(self._yes[1]), "yes": str(self._yes[0])}

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        return count_numbers(reports, groups, n_groups, self.domain.size)

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        return self.weights_by(reports == code, code)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        d = self.domain.size
        have = by_code(codes, people, d)
        if d == 2:
            yes = generator.binomial(have, [t / ONE for t in reversed(self._yes)]).sum()
            return np.array([have.sum() - yes, yes])
        kept = generator.binomial(have, self._keep / ONE)
        return kept + multinomials((have - kept).sum(), d, generator)

    @override
    def sum_variance(self, weights: F64) -> F64:
        return variance_of_one(self.rates, weights)


def variance_of_one(rates: Rates, weights: F64) -> F64:
    """`FrequencyOracle.sum_variance` where one S_v is 1: w of x with p, of any other given value with q."""
    first, second = ((a @ rates.q)[:, None] + rates.difference * a for a in (weights, weights**2))
    return second - first**2


_FIRST, _SECOND = 0, 1  # lanes of noise
