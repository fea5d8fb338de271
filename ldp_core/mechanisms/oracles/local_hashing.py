"""Local hashing: a random hash function, and the value's hash under it by randomized response over g buckets.

Wang et al. 2017, section 4.4: p = e^eps / (e^eps + g - 1) for the value's own bucket, 1 / (e^eps + g - 1) for each
other one; a report supports the values that its function hashes to its bucket. With c the probability that two
given values collide,

    q = p c + (1 - p) (1 - c) / (g - 1)                          = 1 / g where c = 1 / g

BLH has g = 2, OLH g = e^eps + 1, rounded, which has the variance of OUE. FLH (G. Cormode, S. Maddock, C. Maple,
"Frequency Estimation under Local Differential Privacy", VLDB 14(11), 2021) draws from few declared functions, so that
the server counts reports first and hashes once for each function instead of once for each report.

q is exact, because c is: see `AffineFamily` and `LinearFamily`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias, get_args

from typing_extensions import override

from ldp_core.accounting.shuffling import Levels
from ldp_core.arrays.types import I64, U64, Codes
from ldp_core.errors import ParameterError
from ldp_core.exact.probability import best_symbols, check_resolved, exp_below, fraction, keeping
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.base import FrequencyOracle, n_codes
from ldp_core.mechanisms.oracles.hash_families import (
    BUCKET_SHIFT,
    MOST_BUCKETS,
    PRIME,
    SMALL_PRIMES,
    AffineFamily,
    HashedWord,
    HashFamily,
    LinearFamily,
)
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_choice, check_epsilon, converted, parameter
from ldp_core.reports import Native
from ldp_core.simulated_counts import Generator, by_code

Variant: TypeAlias = Literal["optimal", "binary", "fast"]


@dataclass(frozen=True, init=False)
class LocalHashing(FrequencyOracle):
    """Report a random hash function and the bucket of the true value under it, or, with some probability, another.

    Args:
        domain: a `Domain` or a list of labels, at most 2**24 - 3. With ``unmatched="none"`` a value outside
            it is hashed like one more value, which is not estimated.
        unmatched: beside a list of labels: what becomes of other values, nulls included; see `Domain`.
        epsilon: finite, > 0.
        variant: ``"optimal"`` (OLH), ``"binary"`` (BLH, two buckets) or ``"fast"`` (FLH: few functions, so that a tally
            of n reports costs n and not n d).

    Reports are one ``uint64`` each: the bucket in the high 16 bits, the function's number in the low 48.

    Raises:
        ParameterError: an epsilon or a variant that does not exist; a domain too large.

    >>> m = LocalHashing(range(1000), epsilon=1.0)
    >>> m.g, round(m.p, 6), round(m.q, 6)
    (4, 0.475367, 0.25)
    >>> m.perturb([3, 999]).dtype
    dtype('uint64')
    """

    name: ClassVar[str] = "local_hashing"

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    variant: Variant = parameter(check_choice, among=get_args(Variant))

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        variant: Variant = "optimal",
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(variant=variant, domain=Domain.of(domain, unmatched), epsilon=epsilon)
        if n_codes(self.domain) > PRIME or (variant == "fast" and self.functions > _MOST_LISTED):
            raise ParameterError(
                f"local hashing takes at most {PRIME} values, and fast at most {_MOST_LISTED} functions"
            )
        check_resolved(self._keep, 0, " * g")

    @property
    @override
    def reports(self) -> HashedWord:
        return HashedWord(self.family)

    @cached_property
    def g(self) -> int:
        """Number of buckets."""
        if self.variant == "binary":
            return 2
        if self.variant == "optimal":
            return min(round(exp_below(self.epsilon)) + 1, MOST_BUCKETS)
        return best_symbols(SMALL_PRIMES, self.epsilon)

    @cached_property
    def family(self) -> HashFamily:
        """The hash functions."""
        return LinearFamily(self.g, n_codes(self.domain)) if self.variant == "fast" else AffineFamily(self.g)

    @cached_property
    def functions(self) -> int:
        """``k``, how many hash functions there are."""
        return self.family.size

    @cached_property
    def _keep(self) -> int:
        """Integer threshold of keeping the bucket; otherwise it is drawn uniformly from all g, its own included."""
        return keeping(self.epsilon, self.g)

    @cached_property
    def _pair(self) -> tuple[Fraction, Fraction]:
        """Exact probabilities of a bucket: the value's own, and any other given one."""
        keep = fraction(self._keep)
        return keep + (1 - keep) / self.g, (1 - keep) / self.g

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Over the random function, two values collide with the family's exact probability."""
        d = self.domain.size
        own, other = self._pair
        c = self.family.collision
        return [own] * d, [own * c + other * (1 - c)] * d

    @override
    def worst_ratio(self) -> Fraction:
        """The function does not depend on the value, the bucket is a randomized response."""
        own, other = self._pair
        return own / other

    @property
    @override
    def two_levels(self) -> Sequence[Levels]:
        return self._levels_of_support()

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]; `unmatched_code` under ``"none"`` is hashed too, so that it supports values with q."""
        functions = self.family.draw(len(codes), noise)
        own = self.family.hash(functions, codes)
        return noise.kept_or_drawn(self._keep, own, self.g, _BUCKET) << BUCKET_SHIFT | functions

    @property
    @override
    def supported(self) -> tuple[int, int]:
        """All values: both families have constant functions, as two values could not collide as often without them."""
        return 0, self.domain.size

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """A report supports the values that its function hashes to its bucket."""
        return self.family.support_counts(reports, groups, n_groups, self.domain.size)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """As the family of the functions knows: if it is affine, each counter is right by itself, but not all together.

        (See `AffineFamily.simulate`: sums of estimates, as of a group of values, vary more or less than here.)
        """
        have = by_code(codes, people, n_codes(self.domain))
        return self.family.simulate(have, self._keep / ONE, self.domain.size, generator)


_MOST_LISTED = 1 << 31  # what one uniform draw can choose from

_BUCKET = 0  # lane of noise, with the next one, beside those that draw functions
