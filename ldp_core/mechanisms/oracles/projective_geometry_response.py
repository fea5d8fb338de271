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
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import ParameterError
from ldp_core.exact.arrays import I64, U32, U64, Codes
from ldp_core.exact.probability import check_resolved, exp_below, floor_threshold, fraction
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanism import Native
from ldp_core.mechanisms.oracles._base import FrequencyOracle
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon
from ldp_core.reports.words import Words, cell_counts, check_below


@dataclass(frozen=True, init=False)
class ProjectiveGeometryResponse(Words, FrequencyOracle):
    """Report one of K points: with probability p one of the s that support the true value.

    Args:
        domain: a `Domain` or a list of labels. With ``unmatched="none"`` a value outside it is one more value,
            which is not estimated.
        epsilon: finite, > 0.
        field: F, a prime, the number of elements of the field; default the one of least variance among those whose
            estimates take at most 2**30 additions (about a second), see `best_field`.

    Reports are one ``uint64`` each, below K; a tally of n of them costs n + O(K F t).

    Raises:
        ParameterError: an epsilon or a field that does not exist; a space of 2**31 vectors or more.

    >>> m = ProjectiveGeometryResponse(range(1000), epsilon=2.0)
    >>> m.field, m.space.dimension, m.space.points
    (7, 5, 2801)
    >>> m.perturb([3, 999]).dtype
    dtype('uint64')
    """

    name: ClassVar[str] = "projective_geometry_response"

    domain: Domain
    epsilon: float
    field: int

    def __init__(self, domain: Domain | Iterable[Label], *, epsilon: float, field: int | None = None) -> None:
        object.__setattr__(self, "domain", Domain.of(domain))
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", epsilon))
        values = values_of(self.domain)
        object.__setattr__(self, "field", best_field(values, self.epsilon) if field is None else check_field(field))
        check_resolved(*self._pair, " * field")

    @cached_property
    def space(self) -> ProjectiveSpace:
        """The points, and which support which."""
        return projective_space(self.field, values_of(self.domain))

    @cached_property
    def _agree(self) -> int:
        """P as an integer over 2^64, rounded down."""
        e, space = exp_below(self.epsilon), self.space
        return floor_threshold(e * space.support / ((e - 1) * space.support + space.points))

    @cached_property
    def _pair(self) -> tuple[Fraction, Fraction]:
        """Of the s points that support a value, c support another; of the K - s that do not, s - c do."""
        p, space = fraction(self._agree), self.space
        both, other = space.intersection, space.support - space.intersection
        return p, p * Fraction(both, space.support) + (1 - p) * Fraction(other, space.points - space.support)

    def expected_parts(self) -> tuple[list[Fraction], list[Fraction]]:
        """See `FrequencyOracle`."""
        p, q = self._pair
        return [p] * self.domain.size, [q] * self.domain.size

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: a point has probability p over s, or 1 - p over K - s."""
        p, space = fraction(self._agree), self.space
        return p * (space.points - space.support) / ((1 - p) * space.support)

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]: a uniform point of those that support the value, or of the others."""
        n, space = len(codes), self.space
        agree = coins(noise, self._agree, n, _AGREE).view(bool)
        inside = noise.uniform_below(space.support, n, _INSIDE)
        outside = noise.uniform_below(space.points - space.support, n, _OUTSIDE)
        return space.draw(codes, agree, inside, outside).astype(np.uint64)

    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """See `Mechanism`."""
        d, space = self.domain.size, self.space
        out = np.empty((n_groups, d), np.int64)
        for first, last, counts in cell_counts(reports.view(np.int64), groups, n_groups, space.points):
            out[first:last] = space.supporters(counts, d)
        return out

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`."""
        return check_below(super().from_arrow(reports, column=column), self.space.points, column)

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon": self.epsilon, "field": self.field}


_AGREE, _INSIDE, _OUTSIDE = 0, 1, 2  # lanes of noise


class ProjectiveSpace:
    """Points of the projective space of dimension t - 1 over F elements, as values and as reports.

    A point is a vector of t digits to the base F, up to a factor. *Reports* y are the vectors whose highest digit
    that is not 0 is 1, numbered in their order as numbers. *Values* v are those whose lowest digit that is not 0 is 1:
    codes below F^(t-1) are digits 1 to t - 1, digit 0 being 1; from there on digit 0 is 0, and so on with the rest.
    So the lowest digit of v that is not 0, number j, is 1, and digit j of y follows from <v, y> and u, the other digits
    of y. Since u comes in its own normal form, so does y: nothing is ever divided in the field.
    """

    def __init__(self, field: int, dimension: int) -> None:
        self.field, self.dimension = field, dimension
        self.points: int = (field**dimension - 1) // (field - 1)
        self.support: int = (field ** (dimension - 1) - 1) // (field - 1)
        self.intersection: int = (field ** (dimension - 2) - 1) // (field - 1)
        self._powers = np.array([field**k for k in range(dimension)], np.uint32)
        starts = np.cumsum(self._powers[::-1], dtype=np.uint32)  # of codes with j = 1, 2, ...
        self._starts = starts[:-1]

    def draw(self, codes: Codes, agree: npt.NDArray[np.bool_], inside: Any, outside: Any) -> U32:
        """One report a code: of those that support it where ``agree``, of the others where not.

        Args:
            codes: values, unsigned integers below K.
            agree: which of the next two counts.
            inside: uniform below s.
            outside: uniform below K - s = F^(t-1).

        Returns:
            Reports, uint32[n]: for one code, each comes from exactly one number of ``inside`` or ``outside``.
        """
        one, f = np.uint32(1), np.uint32(self.field)
        digits, power = self._values(codes)
        # Outside, <v, y> = z is one of F - 1 numbers if u goes beyond digit j; else y's digit j is 1, u any j digits.
        rest = outside.astype(np.uint32) - power
        others = rest // (f - one)
        z = rest - others * (f - one) + one
        others += (power - one) // (f - one)
        u = self._vectors(_chosen(agree, inside.astype(np.uint32), others))
        z[agree] = 0
        below = np.flatnonzero((outside < power) & ~agree)
        u[below], z[below] = outside[below], 1
        product = self._product(u, digits)
        product %= f
        z += f - product
        np.minimum(z, z - f, out=z)  # digit j of y, modulo F: what wraps below 0 is huge
        above = u // power
        above *= f - one
        above += z
        above *= power
        above += u
        return self._numbers(above)

    def _values(self, codes: Codes) -> tuple[U32, Any]:
        """The digits of v beyond the lowest one, number j, that is not 0, in the places of u's; and F^j."""
        codes = codes.astype(np.uint32)
        if not len(codes) or codes.max() < self._starts[0]:
            return codes, np.uint32(1)
        power = np.ones(len(codes), np.uint32)
        below = np.zeros(len(codes), np.uint32)
        for j, start in enumerate(self._starts, 1):
            there = codes >= start
            power[there], below[there] = self._powers[j], start
        codes -= below
        codes *= power
        return codes, power

    def _vectors(self, numbers: U32) -> U32:
        """Vectors from the numbers of points: digits to the base F, the highest one 1."""
        vectors: U32 = numbers + np.uint32(1)
        for k in range(1, self.dimension - 1):
            vectors += (numbers >= (self.field**k - 1) // (self.field - 1)) * np.uint32(
                self.field ** (k - 1) * (self.field - 2)
            )
        return vectors

    def _numbers(self, vectors: U32) -> U32:
        """Inverse of `_vectors`."""
        numbers: U32 = vectors - np.uint32(1)
        for k in range(1, self.dimension):
            numbers -= (vectors >= self._powers[k]) * np.uint32(self.field ** (k - 1) * (self.field - 2))
        return numbers

    def _product(self, a: U32, b: U32) -> U32:
        """The sum of the products of t - 1 digits: below 2^32, because F^t is below 2^31."""
        f = np.uint32(self.field)
        total = np.zeros(len(a), np.uint32)
        for _ in range(self.dimension - 2):
            next_a, next_b = a // f, b // f
            a, b = a - next_a * f, b - next_b * f
            a *= b
            total += a
            a, b = next_a, next_b
        total += a * b
        return total

    def supporters(self, counts: I64, d: int) -> I64:
        """int64[m, K], how often each report occurs, to int64[m, d], how many support each value.

        Report 0 has digit 0 only and supports no value with digit 0. The others are u and digit 0 of y: values with
        digit 0 are supported by one digit for each u, see `_affine`; the values without digit 0 by all, so that they
        are the values of the space of one dimension less.
        """
        m, f = len(counts), self.field
        pairs = counts[:, 1:].reshape(m, self.support, f)
        first = f ** (self.dimension - 1)
        if d <= first:
            return self._affine(pairs)[:, :d]
        out = np.empty((m, d), np.int64)
        out[:, :first] = self._affine(pairs)
        if self.dimension == 2:  # one value is left
            out[:, first:] = counts[:, :1]
        else:
            less = ProjectiveSpace(f, self.dimension - 1)
            out[:, first:] = less.supporters(pairs.sum(axis=2), d - first) + counts[:, :1]
        return out

    def _affine(self, pairs: I64) -> I64:
        """int64[m, s, F] to int64[m, F^(t-1)]: for each vector w the sum over u of pairs[u, -<w, u>].

        A digit at a time, as in the paper's dynamic programming and in a fast Fourier transform: for each digit w the
        sum over the digits a of u of pairs[(u', a), z - w a], where u' is u without a. A u that has no more digits is
        settled. About K F additions a digit.
        """
        m, f = len(pairs), self.field
        w = np.arange(f)
        sums = pairs.transpose(2, 1, 0)  # z, u, and the digits of w so far together with m
        settled = np.zeros((1, m), np.int64)
        while True:
            settled = (settled + sums[-w % f, 0]).reshape(1, -1)  # u = (1): z = -w
            if sums.shape[1] == 1:
                by_value: I64 = settled.reshape(-1, m).T
                return by_value
            by_digit = sums[:, 1:].reshape(f, -1, f, settled.size // f).transpose(2, 0, 1, 3)
            sums = _shifted_sums(by_digit.reshape(f, f, -1)).reshape(f, f, -1, settled.size // f)
            sums = sums.transpose(1, 2, 0, 3).reshape(f, -1, settled.size)


def _shifted_sums(rows: I64) -> I64:
    """int64[F, F, r] to int64[F, F, r]: out[w, z] = sum over a of rows[a, z - w a]."""
    f, _, r = rows.shape
    twice = np.concatenate((rows, rows), axis=1).reshape(f, -1)  # so that a shifted row is a slice
    slices = np.lib.stride_tricks.sliding_window_view(twice, f * r, axis=1)[:, ::r]
    out = np.zeros((f, f * r), np.int64)
    w = np.arange(f)
    step = max(_BLOCK // (f * r), 1)
    for first in range(0, f, step):
        some = slice(first, first + step)
        for a in range(f):
            out[some] += slices[a, -w[some] * a % f]
    return out


_BLOCK = 1 << 15  # sums made at a time: they stay in the L2 cache


def _chosen(condition: npt.NDArray[np.bool_], yes: U32, no: U32) -> U32:
    """``yes`` where ``condition``, else ``no``, without a branch."""
    chosen: U32 = yes ^ no
    chosen &= np.negative(condition.astype(np.uint32))
    chosen ^= no
    return chosen


# ---- which field


def values_of(domain: Domain) -> int:
    """Number of codes that need a point of their own."""
    return domain.size + (domain.unmatched == "none")


def check_field(field: int) -> int:
    """Return ``field``; raise `ParameterError` unless it is a prime."""
    if isinstance(field, bool) or not isinstance(field, (int, np.integer)) or field not in primes_to(_MOST_ELEMENTS):
        raise ParameterError(f"field must be a prime number in [2, {_MOST_ELEMENTS}], got {field!r}")
    return int(field)


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


@lru_cache(maxsize=4)
def primes_to(limit: int) -> tuple[int, ...]:
    """The primes up to ``limit``.

    >>> primes_to(10)
    (2, 3, 5, 7)
    """
    is_prime = np.ones(limit + 1, bool)
    is_prime[:2] = False
    for k in range(2, int(limit**0.5) + 1):
        is_prime[k * k :: k] &= not is_prime[k]
    return tuple(np.flatnonzero(is_prime).tolist())


_MOST_ELEMENTS = 1 << 15
_MOST_VECTORS = 1 << 31  # so that 32 bits hold a vector, and the product of two
_AFFORDABLE = 1 << 30
_FINE = 1 << 20
