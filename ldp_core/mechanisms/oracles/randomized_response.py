"""Randomized response: Warner's for two values, k-ary (GRR) for more, and the two coins.

S. L. Warner, "Randomized Response", JASA 60(309), 1965. P. Kairouz, K. Bonawitz, D. Ramage,
"Discrete Distribution Estimation under Local Privacy", ICML 2016 (k-RR); as the pure protocol
"direct encoding" in Wang et al. 2017, section 4.1: p = e^eps / (e^eps + d - 1), q = (1 - p) / (d - 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import DomainError, ParameterError
from ldp_core.exact.arrays import Codes
from ldp_core.exact.probability import (
    ceil_threshold,
    check_epsilon,
    check_probability,
    check_resolved,
    exp_below,
    floor_threshold,
    fraction,
    log_above,
)
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanism import Native
from ldp_core.mechanisms.oracles._base import FrequencyOracle
from ldp_core.noise.fresh import Noise, Randomness


@dataclass(frozen=True, init=False)
class RandomizedResponse(FrequencyOracle):
    """Report the true value with probability p, any other given value with probability q.

    Args:
        domain: a `Domain` or a list of labels; default the Booleans.
        epsilon: finite, > 0.

    Reports have the type of the values (text as dictionary), or text where the domain has an
    ``other`` bucket. ``unmatched="none"`` does not exist here: every report names a value.

    >>> m = RandomizedResponse(epsilon=1.0)
    >>> round(m.p, 6), round(m.q, 6)
    (0.731059, 0.268941)
    >>> m.estimate(m.tally(m.perturb([True] * 30_000 + [False] * 70_000))).n
    100000
    """

    name: ClassVar[str] = "randomized_response"

    domain: Domain
    epsilon: float
    coins: tuple[float, float] | None = field(init=False)
    """(truth, yes) of a mechanism made by `from_coins`."""

    def __init__(self, domain: Domain | Iterable[Label] = (False, True), *, epsilon: float) -> None:
        self._set(Domain.of(domain), check_epsilon(epsilon), None)
        check_resolved(*self._pair, " * d")

    def _set(self, domain: Domain, epsilon: float, coins: tuple[float, float] | None) -> None:
        if domain.unmatched == "none":
            raise DomainError('randomized response has no "none": use unmatched="error" or "other"')
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "coins", coins)

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
        self = cls.__new__(cls)
        self._set(domain, log_above(max(p1 / p0, (1 - p0) / (1 - p1))), (float(t), float(y)))
        check_resolved(*self._yes, name="truth")
        return self

    @cached_property
    def _pair(self) -> tuple[Fraction, Fraction]:
        """Exact (p, q) without coins; d > 2 mixes "keep" with a uniform draw over all d values."""
        d = self.domain.size
        e = exp_below(self.epsilon)
        if d == 2:
            p = fraction(floor_threshold(e / (e + 1)))
            return p, 1 - p
        keep = fraction(floor_threshold((e - 1) / (e - 1 + d)))
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

    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """See `Mechanism`. With unequal coins the two values differ; p - q is the same for both."""
        if self.coins is not None:
            p1, p0 = (fraction(t) for t in self._yes)
            return [1 - p0, p1], [1 - p1, p0]
        p, q = self._pair
        return [p] * self.domain.size, [q] * self.domain.size

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: over both answers of the coins, else p / q."""
        p, q = self.support_probabilities()
        return max(a / b for a, b in zip(p[:2], q[:2], strict=True))

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """Codes in, codes out, of the same dtype."""
        reports = np.empty_like(codes)
        for start in range(0, len(codes), _BLOCK):
            stop = min(start + _BLOCK, len(codes))
            reports[start:stop] = self._perturb_block(codes[start:stop], noise.rows(start, stop))
        return reports

    def _perturb_block(self, codes: Codes, noise: Noise) -> Native:
        n, d = len(codes), self.domain.size
        if d == 2:
            p1, p0 = self._yes
            flips = _mask(noise.bernoulli(p0, n, _FIRST), n)
            if p0 == ONE - p1:  # symmetric: one probability of a flip
                return flips ^ codes
            return _select(codes, _mask(noise.bernoulli(p1, n, _SECOND), n), flips)
        keep = _mask(noise.bernoulli(self._keep, n, _FIRST), n)
        return _select(keep, codes, noise.uniform_below(d, n, _SECOND))

    def perturb_arrow(self, values: pa.Array, randomness: Randomness, *, packed: bool, column: str) -> pa.Array:
        """See `Mechanism`. Booleans stay bits: a report is the value's bit, flipped or not."""
        plain = pa.types.is_boolean(values.type) and self.domain.values == (False, True) and not values.null_count
        if not plain or randomness.by_value or not len(values):
            return super().perturb_arrow(values, randomness, packed=packed, column=column)
        noise = randomness.bind(self.fingerprint, np.zeros(len(values), np.uint8))
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

    def support_counts(self, reports: Native, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        """A report supports the value that it names."""
        d = self.domain.size
        cells: npt.NDArray[Any] = reports
        if n_groups > 1:
            cells = groups * d
            cells += reports
        return np.bincount(cells, minlength=n_groups * d).reshape(n_groups, d)

    def report_type(self, *, packed: bool = False) -> pa.DataType:
        """The values' own type, text as a dictionary; ``packed`` changes nothing."""
        return self.domain.report_type

    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """See `Mechanism`."""
        return self.domain.decode(reports)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`."""
        return self.domain.lookup(reports, column=column)

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """See `Mechanism`."""
        return np.array(self.domain.arrow_values.to_pylist())[reports]

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        if self.coins is not None:
            return {"truth": self.coins[0], "yes": self.coins[1]}
        return {"epsilon": self.epsilon}

    @classmethod
    def from_parameters(cls, domain: Domain, parameters: Mapping[str, Any]) -> RandomizedResponse:
        """See `Mechanism`."""
        if "truth" in parameters or "yes" in parameters:
            return cls.from_coins(domain, **parameters)
        return cls(domain, **parameters)


_BLOCK = 1 << 18  # records at a time, so that the intermediate arrays stay in the cache


_FIRST, _SECOND = 0, 1  # lanes of noise


def _mask(bits: npt.NDArray[np.uint8], n: int) -> npt.NDArray[np.uint8]:
    """``n`` packed bits as bytes 0 and 1."""
    return np.unpackbits(bits, count=n, bitorder="little")


def _select(condition: Codes, yes: Codes, no: Codes) -> Codes:
    """``yes`` where ``condition`` is 1, ``no`` where it is 0; three times as fast as ``np.where``, and branch-free."""
    other = no.astype(yes.dtype, copy=False)
    chosen: Codes = yes ^ other
    chosen &= np.negative(condition.astype(chosen.dtype, copy=False))
    chosen ^= other
    return chosen
