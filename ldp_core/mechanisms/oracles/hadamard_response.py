"""Hadamard response: a random column of a Hadamard matrix in which the true value's row is, more likely than not, +1.

J. Acharya, Z. Sun, H. Zhang, "Hadamard Response: Estimating Distributions Privately, Efficiently, and with Little
Communication", AISTATS 2019 (its scheme for high privacy). With K = 2^ceil(log2(d + 1)) and
H[r, y] = (-1)^<r, y> of Sylvester's matrix, value v has row v + 1, and a report y supports it if H[v + 1, y] = 1. Half
of the columns support a given value, a quarter support two given ones, so that

    p = e^eps / (e^eps + 1)        q = 1/2        n Var = ((e^eps + 1) / (e^eps - 1))^2

for every epsilon. The variance is 1.27 times that of OUE at epsilon 1 and 2.4 times at 2: from there on take local
hashing, whose "fast" variant is the same idea over g > 2 symbols.

**Block Hadamard response** (the same paper, arXiv:1802.04705, its general scheme, for any epsilon; that for high
privacy is one block). There are B blocks of b = 2^ceil(log2(d / B + 1)) columns. Value v belongs to block v mod B and
has row j = v // B + 1 of H[j, y] = (-1)^<j, y> there. Of the K = B b reports the b/2 of its block with H[j, y] = 1
support it, and are e^eps times as likely as each other one. That is a mixture, as in the authors' own program: with
probability t a uniform one of the b/2, else a uniform one of all K, where

    t = (e^eps - 1) / (e^eps - 1 + 2 B)

With C the number of reports that support a value and N that of reports in its block, 2 C - N counts a report of another
value as 0 on average, of whichever block, and one of the value itself as t. So (2 C - N) / t is unbiased, and

    n Var = 1 / (B t^2) - f = (e^eps - 1 + 2 B)^2 / (B (e^eps - 1)^2) - f

where a B-th of all records are in the value's block and f have the value: least for B = (e^eps - 1) / 2, where it is
8 / (e^eps - 1), up to twice that of OUE. See `BlockReports` for records that are spread unevenly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, isqrt
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, U64, Bools, Codes
from ldp_core.errors import ParameterError
from ldp_core.exact.probability import agreement, check_resolved, exp_below, fraction, keeping
from ldp_core.exact.sampling import ONE
from ldp_core.exact.transforms import walsh_hadamard
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles._blocks import Block, BlockReports
from ldp_core.mechanisms.oracles.cells import SummedCells
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer, converted, parameter
from ldp_core.simulated_counts import Generator, by_code, inner_products, multinomials


@dataclass(frozen=True, init=False)
class HadamardResponse(SummedCells):
    """Report one of K columns: with probability p one of the half that supports the true value.

    Args:
        domain: a `Domain` or a list of labels, at most 2**31 - 1. With ``unmatched="none"`` a value outside it
            is a uniform column.

    Reports are one ``uint64`` each, below K; a tally of n of them costs n + K log K.

    >>> m = HadamardResponse(range(100), epsilon=1.0)
    >>> m.columns, round(m.p, 6), m.q
    (128, 0.731059, 0.5)
    """

    name: ClassVar[str] = "hadamard_response"
    has_two_levels: ClassVar[bool] = True

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)

    def __init__(self, domain: Domain | Iterable[Label], *, epsilon: float, unmatched: Unmatched = "error") -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon)
        check_resolved(self.epsilon, lambda: (self._agree, ONE // 2))

    @cached_property
    def columns(self) -> int:
        """``k``, the least power of two above d."""
        return 1 << self.domain.size.bit_length()

    @property
    @override
    def cells(self) -> int:
        return self.columns

    @cached_property
    def _agree(self) -> int:
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

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """And rows below a power of two tell how many reports agree in that many bits of their columns."""
        possible = np.array(super().is_possible(n, counters))
        whole, n = 1 << (self.domain.size + 1).bit_length() - 1, np.broadcast_to(n, possible.shape)
        some = possible & (n < (1 << 62) // whole)  # (of more reports sums would have no 64 bits)
        if some.any():
            n, supported = n[some][:, None], counters[some][:, : whole - 1]
            each = walsh_hadamard(np.concatenate([n, 2 * supported - n], axis=1))
            possible[some] = ((each >= 0) & (each % whole == 0)).all(axis=1)
        return possible

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
    def compiled(self) -> dict[str, Any]:
        return {"draw": "hadamard", "agree": str(self._agree), "columns": self.columns}

    @override
    def counters_of(self, counts: I64) -> I64:
        sums = walsh_hadamard(counts)
        return (sums[:, :1] + sums[:, 1 : self.domain.size + 1]) >> 1

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        d = self.domain.size
        have = by_code(codes, people, d + 1)
        rows = np.zeros((self.columns, 2), np.int64)
        rows[1 : d + 1, 0] = generator.binomial(have[:d], self.p)
        rows[1 : d + 1, 1] = have[:d] - rows[1 : d + 1, 0]
        rows[0, 0] = have[d]  # a row without bits, with which all columns agree
        return self.counters_of(inner_products(rows, generator, zero=True)[None, :, 0])[0]

    @property
    @override
    def supporting(self) -> int:
        return self.columns // 2

    @override
    def supports(self, cells: I64, codes: I64 | None = None) -> F64:
        """Of a report that is a uniform column, half."""
        rows = (np.arange(self.domain.size) if codes is None else codes) + 1
        odd = np.bitwise_count(rows[:, None] & cells) & 1
        return np.pad(1.0 - odd, ((0, codes is None and not self.exhaustive), (0, 0)), constant_values=0.5)


_AGREE, _COLUMN = 0, 1  # lanes of noise


@dataclass(frozen=True, init=False)
class BlockHadamardResponse(BlockReports):
    """Report one of B b columns: with some probability one of the b/2 of the value's block that support it.

    ``p`` and ``q`` are the *expected parts* in C - N / 2, see `BlockReports`: t / 2 and 0.

    Args:
        domain: with ``unmatched="none"`` a value outside it is a uniform column.
        blocks: B, from 1 (`HadamardResponse`) to d; default the one of least variance, see `best_blocks`.

    Reports are one ``uint64`` each, below K = B b; a tally of n of them costs n + K log b.

    >>> m = BlockHadamardResponse(range(1000), epsilon=4.0)
    >>> m.blocks, m.columns, round(m.variance(1), 4)  # HadamardResponse: 1.0761, OUE: 0.076
    (27, 64, 0.1473)
    """

    name: ClassVar[str] = "block_hadamard_response"

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    blocks: int = parameter(
        check_integer,
        default=cached_property(lambda self: best_blocks(self.domain.size, self.epsilon)),
        low=1,
        high=lambda self: self.domain.size,
    )

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        blocks: int | None = None,
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon, blocks=blocks)
        if (blocks is not None or self.domain.size > 1 << 29) and self.cells > 1 << 31:
            raise ParameterError(f"blocks must be an integer with which there are at most 2**31 columns, got {blocks}")
        check_resolved(self.epsilon, lambda: (self._force, 0), " * blocks")

    @cached_property
    def columns(self) -> int:
        """Of a block, b: the least power of two above the number of its values."""
        return 1 << (-(-self.domain.size // self.blocks)).bit_length()

    @property
    @override
    def block(self) -> Block:
        return Block(self.columns, self.columns // 2, Fraction(self.columns, 4))

    @override
    def supported_of(self, values: int) -> tuple[int, int]:
        """As in `HadamardResponse`."""
        return max(values - self.columns // 2, 0), values

    @override
    def supports(self, points: I64, code: int) -> Bools:
        return np.bitwise_count((code // self.blocks + 1) & points) & 1 == 0

    @cached_property
    @override
    def block_of(self) -> I64:
        """Neighbors are in different blocks, where values are often listed by frequency."""
        return np.arange(self.domain.size) % self.blocks

    @cached_property
    def _force(self) -> int:
        """``t`` as an integer over 2^64, rounded down."""
        return keeping(self.epsilon, 2 * self.blocks)

    @property
    @override
    def own(self) -> Fraction:
        """Of all K columns b/2 support a value."""
        t = fraction(self._force)
        return t + (1 - t) / (2 * self.blocks)

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n].

        A uniform column of all; or, forced, the same column of the value's block, in which one bit that the value's row
        has is flipped if it does not support the value: a bijection between the two halves.
        """
        n, b, one = len(codes), np.uint32(self.columns), np.uint32(1)
        force = coins(noise, self._force, n, _FORCE)
        anywhere = noise.uniform_below(self.cells, n, _COLUMN).astype(np.uint32)
        if self.domain.unmatched == "none":
            force[codes == self.domain.unmatched_code] = 0
        codes = codes.astype(np.uint32)
        rows = codes // np.uint32(self.blocks)
        forced = codes - rows * np.uint32(self.blocks)
        forced *= b
        column = anywhere & (b - one)
        rows += one
        lowest = rows & np.negative(rows)
        lowest *= np.bitwise_count(rows & column) & np.uint8(1)
        column ^= lowest
        forced += column
        forced ^= anywhere
        forced &= np.negative(force.astype(np.uint32))
        return (anywhere ^ forced).astype(np.uint64)

    @override
    def counters_of(self, counts: I64) -> I64:
        """int64[m, K], how often each column was reported, to int64[m, d + B]."""
        sums = walsh_hadamard(counts.reshape(-1, self.columns)).reshape(len(counts), self.blocks, self.columns)
        supporters = ((sums[..., :1] + sums[..., 1:]) >> 1).transpose(0, 2, 1).reshape(len(counts), -1)
        return np.concatenate((supporters[:, : self.domain.size], sums[..., 0]), axis=1)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        d = self.domain.size
        forced = generator.binomial(by_code(codes, people, d + 1)[:d], self._force / ONE)
        rows = np.zeros((self.blocks, self.columns, 2), np.int64)
        of = np.arange(d)
        rows[of % self.blocks, of // self.blocks + 1, 0] = forced
        anywhere = multinomials(people.sum() - forced.sum(), self.cells, generator).copy()
        anywhere += inner_products(rows, generator, zero=True)[..., 0].reshape(-1)
        return self.counters_of(anywhere[None])[0]


_FORCE = 0  # a lane of noise, beside that of columns


def best_blocks(values: int, epsilon: float) -> int:
    """The number of blocks, at most one per value, of least 4 B + (e^eps - 1)^2 / B, and so of least variance.

    It is the first B that B + 1 does not improve on, 4 B (B + 1) >= (e^eps - 1)^2. (The paper's power of two,
    2^(ceil(log2 min(e^eps, 2 d)) - 1), is up to twice as many: 18, 1, 7, 1 and 8 % more variance at epsilon 1 to 5.)

    >>> [best_blocks(1000, epsilon) for epsilon in (1.0, 2.0, 3.0, 4.0, 20.0)]
    [1, 3, 10, 27, 1000]
    """
    odd = isqrt(ceil((exp_below(epsilon) - 1) ** 2)) + 1  # the least with odd^2 >= (e^eps - 1)^2 + 1
    return min(max(odd // 2, 1), values)
