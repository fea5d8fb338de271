"""Hadamard response: a random column of a Hadamard matrix in which the true value's row is, more likely than not, +1.

J. Acharya, Z. Sun, H. Zhang, "Hadamard Response: Estimating Distributions Privately, Efficiently, and with Little
Communication", AISTATS 2019 (its scheme for high privacy). With K = 2^ceil(log2(d + 1)) and
H[r, y] = (-1)^<r, y> of Sylvester's matrix, value v has row v + 1, and a report y supports it if H[v + 1, y] = 1. Half
of the columns support a given value, a quarter support two given ones, so that

    p = e^eps / (e^eps + 1)        q = 1/2        n Var = ((e^eps + 1) / (e^eps - 1))^2

for every epsilon. (The paper's general scheme, of several blocks of columns, is `BlockHadamardResponse`.)
The variance is 1.27 times that of OUE at epsilon 1 and 2.4 times at 2: from there on take local hashing, whose "fast"
variant is the same idea over g > 2 symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.accounting.shuffling import Levels
from ldp_core.arrays.types import F64, I64, U64, Codes
from ldp_core.exact.probability import agreement, check_resolved, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.exact.transforms import cell_counts, walsh_hadamard
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, converted, parameter
from ldp_core.reports import Native, Word
from ldp_core.simulated_counts import Generator, by_code, inner_products


@dataclass(frozen=True, init=False)
class HadamardResponse(FrequencyOracle):
    """Report one of K columns: with probability p one of the half that supports the true value.

    Args:
        domain: a `Domain` or a list of labels, at most 2**31 - 1. With ``unmatched="none"`` a value outside it
            is a uniform column.
        unmatched: beside a list of labels: what becomes of other values, nulls included; see `Domain`.
        epsilon: finite, > 0.

    Reports are one ``uint64`` each, below K; a tally of n of them costs n + K log K.

    Raises:
        ParameterError: an epsilon that does not exist.

    >>> m = HadamardResponse(range(100), epsilon=1.0)
    >>> m.columns, round(m.p, 6), m.q
    (128, 0.731059, 0.5)
    >>> m.perturb([3, 99]).dtype
    dtype('uint64')
    """

    name: ClassVar[str] = "hadamard_response"

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)

    def __init__(self, domain: Domain | Iterable[Label], *, epsilon: float, unmatched: Unmatched = "error") -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon)
        check_resolved(self._agree, ONE // 2)

    @property
    @override
    def reports(self) -> Word:
        return Word(self.columns)

    @cached_property
    def columns(self) -> int:
        """``k``, the least power of two above d."""
        return 1 << self.domain.size.bit_length()

    @cached_property
    def _agree(self) -> int:
        """``p`` as an integer over 2^64, rounded down."""
        return agreement(self.epsilon)

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Two rows agree in half of the columns, in those that support one as in those that do not."""
        d = self.domain.size
        return [fraction(self._agree)] * d, [Fraction(1, 2)] * d

    @property
    @override
    def supported(self) -> tuple[int, int]:
        """Column 0 supports all values, any other one K / 2 of the K rows, of which K - d are no values."""
        return self.domain.size - self.columns // 2, self.domain.size

    @override
    def worst_ratio(self) -> Fraction:
        """A column has probability p or 1 - p, over K / 2 (1 / K for a value that is none)."""
        p = fraction(self._agree)
        return p / (1 - p)

    @property
    @override
    def two_levels(self) -> Sequence[Levels]:
        """A value that is none has a third level."""
        return self._levels_of_support() if self.exhaustive else ()

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n].

        A uniform column; where it should support the value and does not, or the other way round, one bit is
        flipped that the value's row has: a bijection between the two halves.
        """
        n = len(codes)
        agree = coins(noise, self._agree, n, _AGREE)
        columns = noise.uniform_below(self.columns, n, _COLUMN).astype(np.uint64)
        rows = codes.astype(np.uint64)
        rows += np.uint64(1)
        if self.domain.unmatched == "none":
            rows[codes == self.domain.unmatched_code] = 0  # a row without bits: the column stays uniform
        flip = (np.bitwise_count(rows & columns) ^ agree ^ 1) & 1
        lowest = rows & np.negative(rows)
        lowest *= flip
        return columns ^ lowest

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """The transform of the counts of columns is, for each row, supporters less the others."""
        out = np.empty((n_groups, self.domain.size), np.int64)
        for first, last, counts in cell_counts(reports.view(np.int64), groups, n_groups, self.columns):
            out[first:last] = self._supporters(counts)
        return out

    def _supporters(self, counts: I64) -> I64:
        """int64[m, K], how often each column was reported, to int64[m, d]."""
        sums = walsh_hadamard(counts)
        return (sums[:, :1] + sums[:, 1 : self.domain.size + 1]) >> 1

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """Who agrees; and a column for each, of those that do or do not support the value."""
        d = self.domain.size
        have = by_code(codes, people, d + 1)
        rows = np.zeros((self.columns, 2), np.int64)
        rows[1 : d + 1, 0] = generator.binomial(have[:d], self.p)
        rows[1 : d + 1, 1] = have[:d] - rows[1 : d + 1, 0]
        rows[0, 0] = have[d]  # a row without bits, with which all columns agree
        counters: I64 = self._supporters(inner_products(rows, generator, zero=True)[None, :, 0])[0]
        return counters

    knows_sums: ClassVar[bool] = True

    @property
    def _supports(self) -> I64:
        """int64[K, d]: whether each column supports each value."""
        return self.count_reports(np.arange(self.columns, dtype=np.uint64), np.arange(self.columns), self.columns)

    @override
    def sum_bounds(self, weights: F64) -> tuple[float, float]:
        """Over all columns."""
        sums = self._supports @ weights
        return float(sums.min()), float(sums.max())

    @override
    def sum_variance(self, weights: F64) -> F64:
        """Over all columns: uniform among those that support x with p, else among the others."""
        supports = self._supports
        given = np.where(supports, self.p, 1 - self.p) * 2 / self.columns  # [column, x]
        sums = weights @ supports.T
        variances: F64 = sums**2 @ given - (sums @ given) ** 2
        return variances


_AGREE, _COLUMN = 0, 1  # lanes of noise
