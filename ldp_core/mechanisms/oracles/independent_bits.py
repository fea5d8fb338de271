"""Bit vectors whose bits are independent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.accounting.shuffling import Levels
from ldp_core.arrays.types import F64, I64, Codes
from ldp_core.estimates.plausibility import Part
from ldp_core.exact import bits
from ldp_core.exact.probability import fraction
from ldp_core.mechanisms.oracles.base import FrequencyOracle
from ldp_core.noise.base import Noise
from ldp_core.noise.fresh import Keystream
from ldp_core.noise.keyed import KeyedRows
from ldp_core.poisoning import CountsOnes, chances_of_ones
from ldp_core.reports import Bits, Native
from ldp_core.reports.bits import clear_padding, row_bytes
from ldp_core.simulated_counts import Generator, by_code


class BitVectors(CountsOnes, FrequencyOracle):
    """Reports of d independent bits: the true value's is 1 with probability p, any other with q."""

    @cached_property
    @override
    def total_part(self) -> Part:
        return total_of_bits(self)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """Two binomial numbers per value: of those who have it, and of all others."""
        have = by_code(codes, people, self.domain.size + 1)[:-1]  # the last ones have no value
        counters: I64 = generator.binomial(have, self.p) + generator.binomial(people.sum() - have, self.q)
        return counters

    @override
    def ones(self, reports: Native) -> I64:
        return bits.row_weights(reports).astype(np.int64)

    @override
    def ones_chances(self) -> F64:
        """One bit has probability p, or none if a value may be in no bit."""
        return chances_of_ones(self.domain.size, [1] if self.exhaustive else [0, 1], self.p, self.q)


class IndependentBits(BitVectors):
    """Bit vectors that are drawn at once, by two thresholds."""

    chunk: ClassVar[int] = 1 << 19  # the random bits are still in a cache when the true one is drawn
    parallel: ClassVar[tuple[type[Noise], ...]] = (Keystream, KeyedRows)

    @property
    @abstractmethod
    def thresholds(self) -> tuple[int, int]:
        """(p, q) as integers over 2^64: p rounded down, q up."""

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """A report supports the values whose bits are 1."""
        p, q = (fraction(t) for t in self.thresholds)
        return [p] * self.domain.size, [q] * self.domain.size

    @override
    def worst_ratio(self) -> Fraction:
        """Inputs that differ in two bits (with ``unmatched="none"`` also in one, which is less)."""
        p, q = (fraction(t) for t in self.thresholds)
        return p * (1 - q) / ((1 - p) * q)

    @property
    @override
    def two_levels(self) -> Sequence[Levels]:
        """A vector without a true bit has a third level."""
        return self._levels_of_support() if self.exhaustive else ()

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
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """A report supports the values whose bits are 1."""
        return bits.grouped_column_sums(reports, self.domain.size, groups, n_groups)

    knows_sums: ClassVar[bool] = True

    @override
    def sum_variance(self, weights: F64) -> F64:
        """The S_v are independent."""
        p, q = self.p, self.q
        squares = weights**2
        variances: F64 = q * (1 - q) * (squares.sum(axis=1, keepdims=True) - squares) + p * (1 - p) * squares
        return variances


def total_of_bits(mechanism: FrequencyOracle) -> Part:
    """What each of d independent bits adds to all the estimated counts."""
    one, d = mechanism.count_part, mechanism.domain.size
    least, greatest = (float(np.asarray(x).reshape(-1)[0]) for x in (one.least, one.greatest))
    return Part(float(mechanism.exhaustive) / d, 1 / d, least, greatest, each=d)


_BITS = 0  # lane of noise
