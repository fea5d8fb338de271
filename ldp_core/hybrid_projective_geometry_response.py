"""Hybrid projective geometry response: blocks of values, each with a projective space over a smaller field of its own.

V. Feldman, J. Nelson, H. L. Nguyen, K. Talwar, "Private Frequency Estimation via Projective Geometry", ICML 2022, its
extension that trades utility for time: values are dealt out to h blocks, each the points of one small space (see
`ldp_core.projective_geometry_response` for t, F, s and c), of b points. A report is a block and a point; value v is
supported by the s points y of its own block with <v, y> = 0. With h F near e^eps + 1 the variance is near that of the
larger field, while the server's work is n + O(h b F t).

It is no pure protocol: another value is supported with one probability if it is of the same block, with another if not.
But with C[v] the number of reports that support v and B[v] the number of reports in its block, the sum

    X[v] = C[v] - (c / s) B[v]

has the same expectation q for every report of another value, of whichever block, so that (X[v] - n q) / (p - q) is
unbiased. (Of the support sets of two values in a block c of s points are common, of two blocks none, and
s^2 - c b = s - c = F^(t-2).) Its variance is larger for reports of the same block; a tally counts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from ldp_core.domain import Codes, Domain, Label
from ldp_core.errors import ParameterError
from ldp_core.estimation import check_confidence
from ldp_core.frequency_oracle import FrequencyOracle
from ldp_core.histogram import F64
from ldp_core.mechanism import Native
from ldp_core.probability import check_epsilon, check_integer, check_resolved, exp_below, floor_threshold, fraction
from ldp_core.projective_geometry_response import (
    I64,
    U64,
    ProjectiveSpace,
    check_field,
    projective_space,
    values_of,
)
from ldp_core.randomness import Noise
from ldp_core.words import Words, cell_counts, check_below


class _Chances(NamedTuple):
    """Of a report, given whose value is the true one."""

    supports: Fraction
    in_block: Fraction
    mean: Fraction  # of its part in X
    variance: Fraction


@dataclass(frozen=True, init=False)
class HybridProjectiveGeometryResponse(Words, FrequencyOracle):
    """Report one of h b points: with some probability one of the s of the value's block that support it.

    ``p`` and ``q`` are the *expected parts* in X of a report of the value and of another one. A tally has d + h
    counters: supporters of each value, then reports in each block.

    Args:
        domain: a `Domain` or a list of labels. With ``unmatched="none"`` a value outside it is one more value,
            which is not estimated.
        epsilon: finite, > 0.
        field: F, a small prime; 5 as in the paper's experiments.
        blocks: h; default (e^epsilon + 1) / F, rounded up.

    Reports are one ``uint64`` each, below h b; a tally of n of them costs n + O(h b F t).

    Raises:
        ParameterError: an epsilon, a field or a number of blocks that does not exist; 2**31 points or more.

    >>> m = HybridProjectiveGeometryResponse(range(22000), epsilon=5.0)
    >>> m.blocks, m.space.points, round(m.variance(1), 5)  # OUE: 0.02732
    (30, 781, 0.03376)
    >>> m.perturb([3, 999]).dtype
    dtype('uint64')
    """

    name: ClassVar[str] = "hybrid_projective_geometry_response"

    domain: Domain
    epsilon: float
    field: int
    blocks: int

    def __init__(
        self, domain: Domain | Iterable[Label], *, epsilon: float, field: int = 5, blocks: int | None = None
    ) -> None:
        object.__setattr__(self, "domain", Domain.of(domain))
        object.__setattr__(self, "epsilon", check_epsilon(epsilon))
        object.__setattr__(self, "field", check_field(field))
        values = values_of(self.domain)
        if blocks is None:
            blocks = min(ceil((exp_below(self.epsilon) + 1) / field), values)
        object.__setattr__(self, "blocks", check_integer("blocks", blocks, 1, values))
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
        return -(-values_of(self.domain) // self.blocks)

    @property
    def points(self) -> int:
        """In all blocks."""
        return self.blocks * self.space.points

    @property
    def counters(self) -> int:
        """D + h."""
        return self.domain.size + self.blocks

    @cached_property
    def _agree(self) -> int:
        """Probability of a point that supports the true value, as an integer over 2^64, rounded down."""
        e, s = exp_below(self.epsilon), self.space.support
        return floor_threshold(e * s / ((e - 1) * s + self.points))

    @cached_property
    def _chances(self) -> tuple[_Chances, _Chances, _Chances]:
        """Given that the true value is v; that it is another one of v's block; one of another block."""
        agree, space = fraction(self._agree), self.space
        s, c, rest = space.support, space.intersection, (1 - agree) / (self.points - space.support)
        here = agree + rest * (space.points - s)
        return (
            self._chances_of(agree, here),
            self._chances_of(agree * Fraction(c, s) + rest * (s - c), here),
            self._chances_of(rest * s, rest * space.points),
        )

    def _chances_of(self, supports: Fraction, in_block: Fraction) -> _Chances:
        less = Fraction(self.space.intersection, self.space.support)
        mean = supports - less * in_block
        square = supports * (1 - less) ** 2 + (in_block - supports) * less**2
        return _Chances(supports, in_block, mean, square - mean**2)

    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Exact (p, q) of each value: the expected part in X of a report if the value is true, if another one is."""
        d, (own, same, _) = self.domain.size, self._chances
        return [own.mean] * d, [same.mean] * d

    @cached_property
    def _rates(self) -> tuple[F64, F64, F64]:
        """Of records spread evenly over the blocks; see `debias` for those that are not."""
        own, same, other = (float(x.variance) / self._difference**2 for x in self._chances)
        a = (same + (self.blocks - 1) * other) / self.blocks
        d = self.domain.size
        return np.full(d, self.q), np.full(d, a), np.full(d, own - same)

    @property
    def parts(self) -> tuple[float, float]:
        """Of X: of a report in the block that does not support the value, of one that does."""
        less = self.space.intersection / self.space.support
        return -less, 1 - less

    def variance(self, n: float, count: Any = 0.0) -> Any:
        """See `FrequencyOracle`; the other records are spread evenly over the blocks."""
        a = float(self._rates[1][0])
        return n * a + count * (float(self._chances[0].variance) / self._difference**2 - a)

    def debias(
        self, n: Any, support: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """See `FrequencyOracle`; ``support`` are counters, int64[..., d + h].

        The variance of an estimate depends also on how many records have a value of the same block, which is
        estimated from the reports in the block.
        """
        check_confidence(confidence)
        d, (_, same, other) = self.domain.size, self._chances
        block = np.arange(d) // self._in_block
        in_block = support[..., d:][..., block]
        x = support[..., :d] - in_block * (self.space.intersection / self.space.support)
        counts = (x - n * self.q) / self._difference
        near = (in_block - n * float(other.in_block)) / float(same.in_block - other.in_block)
        near = np.clip(near, 0, n)
        a = (near * float(same.variance) + (n - near) * float(other.variance)) / self._difference**2
        return self.with_intervals(counts, n, a, confidence=confidence, simultaneous=simultaneous)

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: a point has one probability over s, or another over the h b - s others."""
        agree, s = fraction(self._agree), self.space.support
        return agree * (self.points - s) / ((1 - agree) * s)

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]: a uniform point of those that support the value, or of all others in all blocks."""
        n, space = len(codes), self.space
        agree = np.unpackbits(noise.bernoulli(self._agree, n, _AGREE), count=n, bitorder="little").view(bool)
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

    def support_counts(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """int64[n_groups, d + h]: supporters of each value, then reports in each block."""
        d = self.domain.size
        out = np.empty((n_groups, self.counters), np.int64)
        for first, last, counts in cell_counts(reports.view(np.int64), groups, n_groups, self.points):
            blocks = counts.reshape(-1, self.space.points)
            supporters = self.space.supporters(blocks, self._in_block)
            out[first:last, :d] = supporters.reshape(last - first, -1)[:, :d]
            out[first:last, d:] = blocks.sum(axis=1).reshape(last - first, -1)
        return out

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`."""
        return check_below(super().from_arrow(reports, column=column), self.points, column)

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon": self.epsilon, "field": self.field, "blocks": self.blocks}


_AGREE, _INSIDE, _REST = 0, 1, 2  # lanes of noise
