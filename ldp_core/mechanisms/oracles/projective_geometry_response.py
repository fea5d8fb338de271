"""Projective geometry response: a random point of a finite projective space, oftener one in the value's hyperplane.

V. Feldman, J. Nelson, H. L. Nguyen, K. Talwar, "Private Frequency Estimation via Projective Geometry", ICML 2022.
Values and reports are points of the projective space of dimension t - 1 over the integers modulo a prime F; there are
K = (F^t - 1) / (F - 1) >= d. Value v is supported by the points y with <v, y> = 0: s = (F^(t-1) - 1) / (F - 1) of
them, of which any other value is supported by c = (F^(t-2) - 1) / (F - 1). A point that supports the value is e^eps
times as likely as one that does not, so that

    p = e^eps s / ((e^eps - 1) s + K)       q = (s + (e^eps - 1) c) / ((e^eps - 1) s + K)
    n Var = (1 + e^eps c / F^(t-2)) (e^eps - 1 + F) / (e^eps - 1)^2     at f = 0, where s - c = F^(t-2)

With F near e^eps + 1 that is the variance of subset selection and OUE, 4 e^eps / (e^eps - 1)^2, in a report of log2 K
bits, and the server's work is n + O(K F t), not n d. (t = 2 is randomized response over F + 1 values.)

**Hybrid projective geometry response** (the same paper, its extension that trades utility for time): values are dealt
out to h blocks, each the points of one small space over a smaller field, of b points. A report is a block and a point;
value v is supported by the s points y of its own block with <v, y> = 0. With h F near e^eps + 1 the variance is near
that of the larger field, while the server's work is n + O(h b F t).

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

from ldp_core.arrays.types import F64, I64, U64, Bools, Codes
from ldp_core.errors import ParameterError
from ldp_core.exact.probability import agreement, check_resolved, exp_below, fraction
from ldp_core.exact.projective import ProjectiveSpace, primes_to
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanism import of_inner
from ldp_core.mechanisms.oracles._blocks import Block, BlockReports
from ldp_core.mechanisms.oracles.base import n_codes
from ldp_core.mechanisms.oracles.cells import SummedCells
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon, check_integer, converted, parameter, shown
from ldp_core.simulated_counts import Generator, by_code, multinomials, scatter

_MOST_ELEMENTS = 1 << 15


def check_field(name: str, value: int) -> int:
    """Return ``value``; raise `ParameterError` unless it is a prime."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value not in primes_to(_MOST_ELEMENTS):
        raise ParameterError(f"{name} must be a prime number in [2, {_MOST_ELEMENTS}], got {shown(value)}")
    return int(value)


@dataclass(frozen=True, init=False)
class ProjectiveGeometryResponse(SummedCells):
    """Report one of K points: with probability p one of the s that support the true value.

    Args:
        domain: with ``unmatched="none"`` a value outside it is one more value, which is not estimated.
        field: F, a prime, the number of elements of the field; default the one of least variance among those whose
            estimates take at most 2**30 additions (about a second), see `best_field`.

    Reports are one ``uint64`` each, below K; a tally of n of them costs n + O(K F t).

    >>> m = ProjectiveGeometryResponse(range(1000), epsilon=2.0)
    >>> m.field, m.space.dimension, m.space.points
    (7, 5, 2801)
    """

    name: ClassVar[str] = "projective_geometry_response"
    has_two_levels: ClassVar[bool] = True
    none_is_a_value: ClassVar[bool] = True

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    field: int = parameter(
        check_field, default=cached_property(lambda self: best_field(n_codes(self.domain), self.epsilon))
    )

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        field: int | None = None,
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon, field=field)
        if field is not None:
            _ = self.space  # which refuses too many points
        check_resolved(self.epsilon, lambda: self._pair, " * field")

    @cached_property
    def space(self) -> ProjectiveSpace:
        """The points, and which support which."""
        return projective_space(self.field, n_codes(self.domain))

    cells = of_inner("points", "space")
    supporting = of_inner("support", "space")

    @cached_property
    def _agree(self) -> int:
        return agreement(self.epsilon, self.space.points, self.space.support)

    @cached_property
    def _pair(self) -> tuple[Fraction, Fraction]:
        """Of the s points that support a value, c support another; of the K - s that do not, s - c do."""
        p, space = fraction(self._agree), self.space
        both, other = space.intersection, space.support - space.intersection
        return p, p * Fraction(both, space.support) + (1 - p) * Fraction(other, space.points - space.support)

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        p, q = self._pair
        return [p] * self.domain.size, [q] * self.domain.size

    @property
    @override
    def supported(self) -> tuple[int, int]:
        return self.space.supported(self.domain.size)

    @override
    def worst_ratio(self) -> Fraction:
        """A point has probability p over s, or 1 - p over K - s."""
        p, space = fraction(self._agree), self.space
        return p * (space.points - space.support) / ((1 - p) * space.support)

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]: a uniform point of those that support the value, or of the others."""
        n, space = len(codes), self.space
        agree = coins(noise, self._agree, n, _AGREE).view(bool)
        inside = noise.uniform_below(space.support, n, _INSIDE)
        outside = noise.uniform_below(space.points - space.support, n, _OUTSIDE)
        return space.draw(codes, agree, inside, outside).astype(np.uint64)

    @override
    def counters_of(self, counts: I64) -> I64:
        return self.space.supporters(counts, self.domain.size)

    @override
    def supports(self, cells: I64, codes: I64 | None = None) -> F64:
        return self.space.supports(cells, np.arange(n_codes(self.domain)) if codes is None else codes).astype(float)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        space = self.space
        have, share = by_code(codes, people, n_codes(self.domain)), Fraction(space.support, space.points)
        chosen = generator.binomial(have, float((fraction(self._agree) - share) / (1 - share)))
        points = multinomials((have - chosen).sum(), space.points, generator).copy()
        scatter(chosen, space.support, lambda v, i: space.draw(v, v >= 0, i, np.zeros_like(i)), points, generator)
        return self.counters_of(points[None])[0]


_AGREE, _INSIDE, _OUTSIDE = 0, 1, 2  # lanes of noise


# ---- which field


def projective_space(field: int, values: int) -> ProjectiveSpace:
    """The smallest space over ``field`` with at least ``values`` points; raise `ParameterError` if it is too large."""
    space = ProjectiveSpace(field, _dimension(field, values)) if field * values < _MOST_VECTORS else None
    if space is None or field**space.dimension >= _MOST_VECTORS:
        raise ParameterError(f"a field of {field} elements and {values} values make a space of 2**31 vectors or more")
    return space


def best_field(values: int, epsilon: float) -> int:
    """The prime of least variance at f = 0 among those whose transform takes at most 2**30 additions.

    If there is none, the one whose transform takes the fewest.

    >>> best_field(1000, 2.0), best_field(22000, 5.0), best_field(100, 5.0)
    (7, 149, 101)
    """
    e = round(exp_below(epsilon) * _FINE)  # an integer: the same field on every machine

    def key(field: int) -> tuple[bool, Fraction, int]:
        t = _dimension(field, values)
        cost = field ** (t + 1) // (field - 1) * t
        half = Fraction(e * ((field ** (t - 2) - 1) // (field - 1)), field ** (t - 2)) + _FINE
        affordable = cost <= _AFFORDABLE
        return (not affordable, half * (e + (field - 1) * _FINE) if affordable else Fraction(cost), field)

    limit = min(4 * (e // _FINE) + 8, _MOST_ELEMENTS)
    return min(_promising(primes_to(limit), values, e / _FINE), key=key)


def _promising(fields: tuple[int, ...], values: int, e: float) -> list[int]:
    """The sixteen best, in floating point: the exact order of thousands would take a while."""
    f = np.array(fields, float)
    t = np.full(len(f), 2.0)
    while (short := (f**t - 1) / (f - 1) < values).any():
        t += short
    cost = f ** (t + 1) / (f - 1) * t
    variance = (1 + e * (f ** (t - 2) - 1) / (f - 1) / f ** (t - 2)) * (e + f - 1)
    affordable = cost <= _AFFORDABLE
    order = np.lexsort((np.where(affordable, variance, cost), ~affordable))
    return [fields[i] for i in order[:16].tolist()]


def _dimension(field: int, values: int) -> int:
    t = 2
    while (field**t - 1) // (field - 1) < values:
        t += 1
    return t


_MOST_VECTORS = 1 << 31  # so that 32 bits hold a vector, and the product of two
_AFFORDABLE = 1 << 30
_FINE = 1 << 20


@dataclass(frozen=True, init=False)
class HybridProjectiveGeometryResponse(BlockReports):
    """Report one of h b points: with some probability one of the s of the value's block that support it.

    ``p`` and ``q`` are the *expected parts* in X, see `BlockReports`.

    Args:
        domain: with ``unmatched="none"`` a value outside it is one more value, which is not estimated.
        field: F, a small prime; 5 as in the paper's experiments.
        blocks: h; default (e^epsilon + 1) / F, rounded up.

    Reports are one ``uint64`` each, below h b; a tally of n of them costs n + O(h b F t).

    >>> m = HybridProjectiveGeometryResponse(range(22000), epsilon=5.0)
    >>> m.blocks, m.space.points, round(m.variance(1), 5)  # OUE: 0.02732
    (30, 781, 0.03374)
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
        if self.cells >= 1 << 31:
            raise ParameterError(f"a field of {field} elements and {blocks} blocks make 2**31 points or more")
        check_resolved(self.epsilon, lambda: (self._chances[0].mean, self._chances[1].mean), " * blocks")

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
        return Block(self.space.points, self.space.support, self.space.intersection)

    @override
    def supported_of(self, values: int) -> tuple[int, int]:
        return self.space.supported(values)

    @override
    def supports(self, points: I64, code: int) -> Bools:
        return self.space.supports(points, np.array([code % self._in_block]))[0]

    @cached_property
    @override
    def block_of(self) -> I64:
        return np.arange(self.domain.size) // self._in_block

    @cached_property
    def _agree(self) -> int:
        return agreement(self.epsilon, self.cells, self.space.support)

    @property
    @override
    def own(self) -> Fraction:
        return fraction(self._agree)

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]: a uniform point of those that support the value, or of all others in all blocks."""
        n, space = len(codes), self.space
        agree = coins(noise, self._agree, n, _AGREE).view(bool)
        inside = noise.uniform_below(space.support, n, _INSIDE)
        rest = noise.uniform_below(self.cells - space.support, n, _OUTSIDE).astype(np.uint32)
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

    @override
    def counters_of(self, counts: I64) -> I64:
        blocks = counts.reshape(-1, self.space.points)
        supporters = self.space.supporters(blocks, self._in_block).reshape(len(counts), -1)
        in_block = blocks.sum(axis=1).reshape(len(counts), -1)
        return np.concatenate((supporters[:, : self.domain.size], in_block), axis=1)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        space, share = self.space, Fraction(self.space.support, self.cells)
        have = by_code(codes, people, n_codes(self.domain))
        chosen = generator.binomial(have, float((self.own - share) / (1 - share)))
        points = multinomials((have - chosen).sum(), self.cells, generator).copy()

        def cell(values: I64, inside: I64) -> I64:
            block, code = np.divmod(values, self._in_block)
            return block * space.points + space.draw(code, code >= 0, inside, np.zeros_like(inside)).astype(np.int64)

        scatter(chosen, space.support, cell, points, generator)
        return self.counters_of(points[None])[0]
