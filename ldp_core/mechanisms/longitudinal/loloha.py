"""LOLOHA: a person hashes values into few buckets, for ever with the same function, and reports buckets in two rounds.

H. H. Arcolezi, C. Pinzon, C. Palamidessi, S. Gambs, "Frequency Estimation of Evolving Data Under Local
Differential Privacy", EDBT 2023 (arXiv:2210.00262). The permanent answer is to the bucket and not to the value, so
that somebody whose value changes and changes again gives at most g permanent answers.

What several reports spend is, for the person's own function, what L-GRR spends over the buckets. But two values may be
in one bucket where two others are not. So the pattern of values, which reports have the same one, does not tell the
pattern of buckets, and what unchanged values spend does not add up to a bound (the paper's total is g
epsilon_infinity). The bound for secret changes holds, over g buckets.

A report is the function and the answer's bucket. It supports the values that the function hashes to the bucket: with p
and q of the two rounds over g buckets (`LongitudinalRandomizedResponse`) and c the probability that two values collide,

    p_support = p        q_support = p c + q (1 - c)        = 1 / g where c = 1 / g
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import U64, Codes
from ldp_core.errors import ParameterError, no_warning_of_epsilon
from ldp_core.exact.probability import SURE, exp_below
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanism import of_inner
from ldp_core.mechanisms.longitudinal.two_rounds import LongitudinalRandomizedResponse, TwoRounds
from ldp_core.mechanisms.oracles.base import n_codes
from ldp_core.mechanisms.oracles.local_hashing import (
    BUCKET_SHIFT,
    MOST_BUCKETS,
    PRIME,
    SMALL_PRIMES,
    AffineFamily,
    HashedReports,
    HashFamily,
    LinearFamily,
)
from ldp_core.noise.base import Noise
from ldp_core.parameters import parameter, shown


def _check_buckets(name: str, value: Any) -> int:
    if isinstance(value, str) and value == "binary":
        return 2
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 2 <= value <= MOST_BUCKETS:
        raise ParameterError(
            f'{name} must be "optimal", "binary" or an integer in [2, {MOST_BUCKETS}], got {shown(value)}'
        )
    return int(value)


@dataclass(frozen=True, init=False)
class Loloha(HashedReports, TwoRounds):
    """Longitudinal local hashing: report one's own hash function, and a bucket by two rounds of randomized response.

    Args:
        domain: at most 2**24 - 3 values; with ``unmatched="none"`` one outside is one more, which is not estimated.
        epsilon_infinity: of all reports about one bucket.
        epsilon_1: of one report, less.
        g: number of buckets: ``"binary"`` (2: the least total loss), ``"optimal"`` (e^epsilon_1 + 1, rounded: the least
            variance, that of OUE with epsilon_1), or from 2 to 2**15.

    Reports are one ``uint64`` each: the bucket in the high 16 bits, the function's number in the low 48. They take
    keyed noise. (Where g is a prime below 256 the functions are few, and a tally of n reports costs n and not n d.)

    >>> m = Loloha(range(1000), epsilon_infinity=2.0, epsilon_1=1.0, g="binary")
    >>> m.g, m.q, m.permanent_answers
    (2, 0.5, 2)
    """

    name: ClassVar[str] = "loloha"

    g: int = parameter(
        _check_buckets, default=cached_property(lambda self: min(round(exp_below(self.epsilon_1)) + 1, MOST_BUCKETS))
    )

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon_infinity: float,
        epsilon_1: float,
        g: int | Literal["optimal", "binary"] = "optimal",
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon_infinity=epsilon_infinity, epsilon_1=epsilon_1)
        self._declare(g=None if isinstance(g, str) and g == "optimal" else g)
        if n_codes(self.domain) > PRIME:
            raise ParameterError(f"local hashing takes at most {PRIME} values")
        if self.epsilon_1 < SURE:
            _ = self._rounds  # which refuses what is too small

    @cached_property
    @override
    def family(self) -> HashFamily:
        return LinearFamily(self.g, n_codes(self.domain)) if self.g in SMALL_PRIMES else AffineFamily(self.g)

    @cached_property
    @no_warning_of_epsilon()
    def _rounds(self) -> LongitudinalRandomizedResponse:
        return LongitudinalRandomizedResponse(
            range(self.g), epsilon_infinity=self.epsilon_infinity, epsilon_1=self.epsilon_1
        )

    instantaneous = of_inner("instantaneous", "_rounds")  # over the buckets
    shared = of_inner("shared", "_rounds")
    permanent_ratio = of_inner("permanent_ratio", "_rounds")

    @property
    @override
    def permanent_answers(self) -> int:
        return min(self.g, super().permanent_answers)

    answers_apart = False  # two values may be in one bucket

    @property
    @override
    def bucket_probabilities(self) -> tuple[Fraction, Fraction]:
        own, other = (rates[0] for rates in self._rounds.support_probabilities())
        return own, other

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]; `unmatched_code` under ``"none"`` is hashed too, so that it supports values with q."""
        functions = self.family.draw(len(codes), noise.of_persons())
        own = self.family.hash(functions, codes).astype(self._rounds.domain.code_dtype)
        buckets = self._rounds.perturb_codes(own, noise.with_codes(own)).astype(np.uint64)
        return buckets << BUCKET_SHIFT | functions
