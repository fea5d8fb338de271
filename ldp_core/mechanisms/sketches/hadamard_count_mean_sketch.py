"""Hadamard count mean sketch (HCMS): one bit of the Hadamard transform of the value's bucket, in one word.

Apple Differential Privacy Team, "Learning with Privacy at Scale", Apple Machine Learning Journal 1(8), 2017; one bit of
a Hadamard transform also in R. Bassily, K. Nissim, U. Stemmer, A. Thakurta, "Practical Locally Private Heavy Hitters",
NIPS 2017. A report is (j, l, y): j uniform over the k functions, l over the m columns of Sylvester's matrix
H[r, l] = (-1)^<r, l>, and y = H[h_j(v), l] with probability p' = e^eps / (e^eps + 1), else its opposite. It supports w
if H[h_j(w), l] = y. Two different rows of H agree in half of the columns, so that over the functions

    p = p'        q = c p' + (1 - c) / 2        c = 1 / m

and all else is as for `CountMeanSketch` with q' = 1 / 2. The variance of a rare value is nearly
n ((e^eps + 1) / (e^eps - 1))^2 (m / (m - 1))^2, and what collisions add to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, U64, Bools, Codes
from ldp_core.estimates.plausibility import Part, Sums
from ldp_core.exact.probability import agreement, check_resolved, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.exact.transforms import count_numbers, walsh_hadamard
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.mechanisms.sketches.count_mean_sketch import MOST_SALT, CountMean, check_width
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer, converted, parameter
from ldp_core.reports import Native, Word
from ldp_core.simulated_counts import Generator, inner_products


@dataclass(frozen=True, init=False)
class HadamardCountMeanSketch(CountMean):
    """Report a hash function, a column of a Hadamard matrix, and whether the value's bucket is +1 there, perturbed.

    Args:
        kind: ``"str"`` or ``"int"``: any text, or any integer.
        epsilon: finite, > 0.
        hashes: k, the number of hash functions.
        width: m, the number of buckets: a power of two.
        salt: chooses other hash functions.

    Reports are one ``uint64`` each, 2 (j m + l) + (y = 1), which is also the number of the counter that counts it: a
    tally has 2 k m, which add up to n.

    Raises:
        ParameterError: a parameter outside its interval.
        DomainError: another kind.

    >>> sketch = HadamardCountMeanSketch("int", epsilon=2.0)
    >>> tally = sketch.tally(sketch.perturb([17] * 3000 + [2**40] * 1000))
    >>> tally.n, tally.counters.size
    (4000, 131072)
    >>> sketch.over([17, 18, 2**40]).estimate(tally).values
    (17, 18, 1099511627776)
    """

    name: ClassVar[str] = "hadamard_count_mean_sketch"

    domain: OpenDomain = converted(OpenDomain.of)
    epsilon: float = parameter(check_epsilon)
    hashes: int = parameter(check_integer, low=1)
    width: int = parameter(check_width, hashes=lambda self: self.hashes)
    salt: int = parameter(check_integer, low=0, high=MOST_SALT)

    def __init__(
        self,
        kind: OpenDomain | Literal["str", "int"] = "str",
        *,
        epsilon: float,
        hashes: int = 512,
        width: int = 128,
        salt: int = 0,
    ) -> None:
        self._declare(domain=kind, epsilon=epsilon, hashes=hashes, width=width, salt=salt)
        check_resolved(self._agree, ONE // 2)

    @cached_property
    def _agree(self) -> int:
        """``p`` as an integer over 2^64, rounded down."""
        return agreement(self.epsilon)

    @property
    @override
    def bucket_probability(self) -> tuple[Fraction, Fraction]:
        """Two rows of the matrix agree in half of the columns."""
        return fraction(self._agree), Fraction(1, 2)

    @property
    @override
    def spread(self) -> Fraction:
        """A column is half +1 and half -1, but for column 0, which is the same for all buckets."""
        return Fraction(self.width - 1, 4)

    @override
    def worst_ratio(self) -> Fraction:
        """Function and column do not depend on the value, the bit is a randomized response."""
        p = fraction(self._agree)
        return p / (1 - p)

    @property
    @override
    def counters(self) -> int:
        """Two a function and column."""
        return 2 * self.hashes * self.width

    @property
    @override
    def reports(self) -> Word:
        """The number of the counter that counts the report."""
        return Word(self.counters)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        n = len(codes)
        agree = coins(noise, self._agree, n, _AGREE)
        cells = noise.uniform_below(self.hashes * self.width, n, _CELL).astype(np.uint32)
        columns = cells.astype(np.uint16)
        columns &= np.uint16(self.width - 1)
        rows = self.functions.at(cells >> np.uint32(self.width.bit_length() - 1), codes)
        rows &= columns
        odd = np.bitwise_count(rows)  # an odd number of common bits: the matrix has -1
        odd ^= agree
        odd &= 1
        reports: U64 = cells.astype(np.uint64)
        reports <<= np.uint64(1)
        reports |= odd
        return reports

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        return count_numbers(reports, groups, n_groups, self.counters)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """Who has each function and bucket and agrees; and a column for each."""
        table = self.simulate_buckets(codes, people, generator)
        agree = generator.binomial(table, float(fraction(self._agree)))
        return inner_products(np.stack([table - agree, agree], axis=-1), generator).reshape(-1)

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Each report counts once."""
        possible: Bools = super().is_possible(n, counters) & (counters.sum(axis=-1) == n)
        return possible

    @override
    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        """How often each function and column was reported, with 1 and with 0."""
        p, cells = float(fraction(self._agree)), self.hashes * self.width
        return (Sums(counters, n, Part((1 - p) / cells, p / cells, 0.0, 1.0)),)

    @override
    def table(self, counters: I64) -> I64:
        """The transform is, for each row of the matrix, reports that agree less those that do not."""
        k, m = self.hashes, self.width
        pairs = counters.reshape(-1, m, 2)
        agree = walsh_hadamard(pairs[:, :, 1] - pairs[:, :, 0])
        agree += pairs.sum(axis=(1, 2))[:, None]
        agree >>= 1
        return agree.reshape(*counters.shape[:-1], k, m)


_AGREE, _CELL = 0, 1  # lanes of noise
