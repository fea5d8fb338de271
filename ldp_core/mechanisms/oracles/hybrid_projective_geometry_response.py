"""Hybrid projective geometry response: blocks of values, each with a projective space over a smaller field of its own.

V. Feldman, J. Nelson, H. L. Nguyen, K. Talwar, "Private Frequency Estimation via Projective Geometry", ICML 2022, its
extension that trades utility for time: values are dealt out to h blocks, each the points of one small space (see
`ProjectiveGeometryResponse` for t, F, s and c), of b points. A report is a block and a point; value v is
supported by the s points y of its own block with <v, y> = 0. With h F near e^eps + 1 the variance is near that of the
larger field, while the server's work is n + O(h b F t).

The estimator is that of `BlockReports`, in which s^2 - c b = s - c = F^(t-2).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import ClassVar

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import I64, U64, Codes
from ldp_core.errors import ParameterError
from ldp_core.exact.probability import agreement, check_resolved, exp_below, fraction
from ldp_core.exact.projective import ProjectiveSpace
from ldp_core.exact.transforms import cell_counts
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles._blocks import Block, BlockReports
from ldp_core.mechanisms.oracles.base import n_codes
from ldp_core.mechanisms.oracles.projective_geometry_response import (
    check_field,
    projective_space,
)
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer, converted, parameter
from ldp_core.reports import Native
from ldp_core.simulated_counts import Generator, by_code, multinomials, spread


@dataclass(frozen=True, init=False)
class HybridProjectiveGeometryResponse(BlockReports):
    """Report one of h b points: with some probability one of the s of the value's block that support it.

    ``p`` and ``q`` are the *expected parts* in X (see `BlockReports`) of a report of the value and of
    another one. A tally has d + h counters: supporters of each value, then reports in each block.

    Args:
        domain: a `Domain` or a list of labels. With ``unmatched="none"`` a value outside it is one more value,
            which is not estimated.
        unmatched: beside a list of labels: what becomes of other values, nulls included; see `Domain`.
        epsilon: finite, > 0.
        field: F, a small prime; 5 as in the paper's experiments.
        blocks: h; default (e^epsilon + 1) / F, rounded up.

    Reports are one ``uint64`` each, below h b; a tally of n of them costs n + O(h b F t).

    Raises:
        ParameterError: an epsilon, a field or a number of blocks that does not exist; 2**31 points or more.

    >>> m = HybridProjectiveGeometryResponse(range(22000), epsilon=5.0)
    >>> m.blocks, m.space.points, round(m.variance(1), 5)  # OUE: 0.02732
    (30, 781, 0.03374)
    >>> m.perturb([3, 999]).dtype
    dtype('uint64')
    """

    name: ClassVar[str] = "hybrid_projective_geometry_response"

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    field: int = parameter(check_field)
    blocks: int = parameter(check_integer, low=1, high=lambda self: n_codes(self.domain))

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        field: int = 5,
        blocks: int | None = None,
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon, field=field)
        if blocks is None:
            blocks = min(ceil((exp_below(self.epsilon) + 1) / field), n_codes(self.domain))
        self._declare(blocks=blocks)
        if self.points >= 1 << 31:
            raise ParameterError(f"a field of {field} elements and {blocks} blocks make 2**31 points or more")
        own, same, _ = self._chances
        check_resolved(own.mean, same.mean, " * blocks")

    @cached_property
    def space(self) -> ProjectiveSpace:
        """The points of a block, and which support which."""
        return projective_space(self.field, self._in_block)

    @cached_property
    def _in_block(self) -> int:
        """How many values are dealt to a block; the next ones are the next block's."""
        return -(-n_codes(self.domain) // self.blocks)

    @property
    @override
    def block(self) -> Block:
        """A space."""
        return Block(self.space.points, self.space.support, self.space.intersection)

    @override
    def supported_of(self, values: int) -> tuple[int, int]:
        return self.space.supported(values)

    @cached_property
    @override
    def block_of(self) -> I64:
        return np.arange(self.domain.size) // self._in_block

    @cached_property
    def _agree(self) -> int:
        """Probability of a point that supports the true value, as an integer over 2^64, rounded down."""
        return agreement(self.epsilon, self.points, self.space.support)

    @property
    @override
    def own(self) -> Fraction:
        return fraction(self._agree)

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]: a uniform point of those that support the value, or of all others in all blocks."""
        n, space = len(codes), self.space
        agree = coins(noise, self._agree, n, _AGREE).view(bool)
        inside = noise.uniform_below(space.support, n, _INSIDE)
        rest = noise.uniform_below(self.points - space.support, n, _REST).astype(np.uint32)
        block, code = np.divmod(codes.astype(np.uint32), np.uint32(self._in_block))
        here = np.uint32(space.points - space.support)
        near = agree | (rest < here)
        points = space.draw(code, agree, inside, np.minimum(rest, here - np.uint32(1)))
        away, point = np.divmod(rest - here, np.uint32(space.points))
        away += away >= block
        reports: U64 = np.where(near, block, away).astype(np.uint64)
        reports *= np.uint64(space.points)
        reports += np.where(near, points, point)
        return reports

    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """int64[n_groups, d + h]: supporters of each value, then reports in each block."""
        out = np.empty((n_groups, self.counters), np.int64)
        for first, last, counts in cell_counts(reports.view(np.int64), groups, n_groups, self.points):
            out[first:last] = self._supporters(counts)
        return out

    def _supporters(self, counts: I64) -> I64:
        """int64[m, h b], how often each point was reported, to int64[m, d + h]."""
        blocks = counts.reshape(-1, self.space.points)
        supporters = self.space.supporters(blocks, self._in_block).reshape(len(counts), -1)
        in_block = blocks.sum(axis=1).reshape(len(counts), -1)
        return np.concatenate((supporters[:, : self.domain.size], in_block), axis=1)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """A mixture: a uniform point of those that support the value, or of all."""
        space, share = self.space, Fraction(self.space.support, self.points)
        have = by_code(codes, people, n_codes(self.domain))
        chosen = generator.binomial(have, float((self.own - share) / (1 - share)))
        points = multinomials((have - chosen).sum(), self.points, generator).copy()

        def cell(values: I64, inside: I64) -> I64:
            block, code = np.divmod(values, self._in_block)
            return block * space.points + space.draw(code, code >= 0, inside, np.zeros_like(inside)).astype(np.int64)

        spread(chosen, space.support, cell, points, generator)
        counters: I64 = self._supporters(points[None])[0]
        return counters


_AGREE, _INSIDE, _REST = 0, 1, 2  # lanes of noise
