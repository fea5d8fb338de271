"""Points of a projective space over a prime field, as values and as reports."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import F64, I64, U8, U16, U32, Bools, Codes, select


@lru_cache(maxsize=16)
def primes_to(limit: int) -> tuple[int, ...]:
    """The primes up to ``limit``."""
    is_prime = np.ones(limit + 1, bool)
    is_prime[:2] = False
    for k in range(2, int(limit**0.5) + 1):
        is_prime[k * k :: k] &= not is_prime[k]
    return tuple(np.flatnonzero(is_prime).tolist())


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
        """uint32[n]: one report a code: of those that support it where ``agree``, of the others where not.

        Of numbers uniform below s (``inside``) and below K - s = F^(t-1) (``outside``): for one code each report comes
        from exactly one number.
        """
        one, f = np.uint32(1), np.uint32(self.field)
        digits, power = self._values(codes)
        # Outside, <v, y> = z is one of F - 1 numbers if u goes beyond digit j; else y's digit j is 1, u any j digits.
        rest = outside.astype(np.uint32) - power
        others = rest // (f - one)
        z = rest - others * (f - one) + one
        others += (power - one) // (f - one)
        u = self._vectors(select(agree, inside.astype(np.uint32), others))
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

    def _product(self, a: Codes, b: Codes) -> Codes:
        """The sum of the products of t - 1 digits, in their dtype: in uint32 no sum overflows, as F^t is below 2^31."""
        f = a.dtype.type(self.field)
        total = np.zeros_like(a)
        for _ in range(self.dimension - 2):
            next_a, next_b = a // f, b // f
            a, b = a - next_a * f, b - next_b * f
            a *= b
            total += a
            a, b = next_a, next_b
        total += a * b
        return total

    def supported(self, d: int) -> tuple[int, int]:
        """Bounds of how many of the first ``d`` values one report supports; the greatest is one that a report reaches.

        At least as many as are left of all that it supports if none of the other points is a value.

        Values with digit 0 are all vectors of the other t - 1 digits, of which a report supports F^(t-2) or none; that
        with the last digit only supports the first F^(t-2). The values without digit 0 are those of the space of one
        dimension less, and a report that supports most of these can be one that supports F^(t-2) with digit 0.
        """
        least = max(self.support - (self.points - d), 0)
        most, first = 0, self.points - self.support
        while d > 0 and first > 1:  # (of the last value, the highest digit alone, no such report is a supporter)
            most += min(d, first // self.field)
            d, first = d - first, first // self.field
        return least, most

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
        out = np.empty((m, d), counts.dtype)
        out[:, :first] = self._affine(pairs)
        if self.dimension == 2:  # one value is left
            out[:, first:] = counts[:, :1]
        else:
            less = ProjectiveSpace(f, self.dimension - 1)
            out[:, first:] = less.supporters(pairs.sum(axis=2), d - first) + counts[:, :1]
        return out

    def supports(self, reports: Codes, values: Codes) -> Bools:
        """bool[values, m]: whether each of these values is supported by these reports, int64[m]."""
        digits, power = self._values(values)
        products = self._digits(digits * np.uint32(self.field) + power) @ self._digits(self._points[reports]).T
        return products.astype(np.uint32) % np.uint32(self.field) == 0  # (a sum below t F^2)

    @cached_property
    def _points(self) -> I64:
        """The vectors of all reports."""
        return np.concatenate([np.arange(power, 2 * power) for power in self._powers.astype(np.int64)])

    def _digits(self, vectors: Codes) -> F64:
        return (vectors[:, None] // self._powers % self.field).astype(float)

    def _affine(self, pairs: I64) -> I64:
        """int64[m, s, F] to int64[m, F^(t-1)]: for each vector w the sum over u of pairs[u, -<w, u>].

        A digit at a time, as in the paper's dynamic programming and in a fast Fourier transform: for each digit w the
        sum over the digits a of u of pairs[(u', a), z - w a], where u' is u without a. A u that has no more digits is
        settled. About K F additions a digit.
        """
        m, f = len(pairs), self.field
        w = np.arange(f)
        sums = pairs.transpose(2, 1, 0)  # z, u, and the digits of w so far together with m
        settled = np.zeros((1, m), pairs.dtype)
        while True:
            settled = (settled + sums[-w % f, 0]).reshape(1, -1)  # u = (1): z = -w
            if sums.shape[1] == 1:
                return settled.reshape(-1, m).T
            by_digit = sums[:, 1:].reshape(f, -1, f, settled.size // f).transpose(2, 0, 1, 3)
            sums = _shifted_sums(by_digit.reshape(f, f, -1)).reshape(f, f, -1, settled.size // f)
            sums = sums.transpose(1, 2, 0, 3).reshape(f, -1, settled.size)


class PointsAndZero:
    """The points of a `ProjectiveSpace` and the vector 0, as reports about F^m buckets, with digits in another order.

    `HeavyHitters` draws a report from one uniform tail, whatever the points' normal form is. So the vector 0 is a
    report too. It supports every bucket, and any other given bucket is supported with probability exactly 1 / F.
    A vector (h, a), h in F and a in F^m, is the number h F^m + a, where `ProjectiveSpace` has a F + h; bucket v is
    (1, v). Report 0 is the vector 0; the others are points, in the order of the vectors whose highest digit that is
    not 0 is 1.
    """

    def __init__(self, field: int, m: int) -> None:
        self.field, self.buckets = field, field**m
        self._space = ProjectiveSpace(field, m + 1)
        self.size = self._space.points + 1
        """Number of reports."""
        vectors = np.concatenate([np.arange(field**k, 2 * field**k) for k in range(m + 1)])  # of the points
        powers = field ** np.arange(m + 1)
        digits = vectors[:, None] // powers % field
        self._report = np.zeros(field * self.buckets, np.uint16)  # of each vector
        for factor in range(1, field):
            self._report[digits * factor % field @ powers] = np.arange(1, self.size)
        self._of_point = self._report[vectors % field * self.buckets + vectors // field]

    def draw(self, buckets: npt.NDArray[Any], agree: U8, tail: U16) -> U16:
        """One report per bucket: with <report, (1, bucket)> = 0 where ``agree`` is 1, else not 0.

        All the multiples of a point are one report, and exactly one of those of a point that is not orthogonal has
        the product 1: uniform among these, with a ``tail`` that is uniform below F^m.
        """
        f = np.uint16(self.field)
        product = self._space._product(tail, buckets.astype(np.uint16)) % f  # (below 2^16: F^m <= 2^14, m >= 2)
        head = (np.uint16(self.field + 1) - product - agree) % f
        return self._report[head * np.uint32(self.buckets) + tail]

    def counted(self, drawn: I64) -> I64:
        """int64[m, F^m, F], how often each tail was drawn with <report, (1, bucket)> less its head, to int64[m, size].

        (What `draw` makes of the two, of many reports at once.)
        """
        tail, less = np.indices(drawn.shape[1:])
        at = self._report[-less % self.field * self.buckets + tail]
        out = np.zeros((len(drawn), self.size), np.int64)
        np.add.at(out, (np.arange(len(drawn))[:, None, None], at), drawn)
        return out

    def supporters(self, counts: I64) -> I64:
        """int64[m, size], how often each report occurs, to int64[m, buckets], how many support each bucket."""
        return self._space.supporters(counts[:, self._of_point], self.buckets) + counts[:, :1]


def _shifted_sums(rows: I64) -> I64:
    """int64[F, F, r] to int64[F, F, r]: out[w, z] = sum over a of rows[a, z - w a]."""
    f, _, r = rows.shape
    twice = np.concatenate((rows, rows), axis=1).reshape(f, -1)  # so that a shifted row is a slice
    slices = np.lib.stride_tricks.sliding_window_view(twice, f * r, axis=1)[:, ::r]
    out = np.zeros((f, f * r), rows.dtype)
    w = np.arange(f)
    step = max(_BLOCK // (f * r), 1)
    for first in range(0, f, step):
        some = slice(first, first + step)
        for a in range(f):
            out[some] += slices[a, -w[some] * a % f]
    return out


_BLOCK = 1 << 15  # sums made at a time: they stay in the L2 cache
