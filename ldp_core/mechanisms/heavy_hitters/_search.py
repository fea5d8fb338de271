"""The search for heavy hitters: what a level's counters say of a prefix, and from prefixes to longer ones.

A level has R rows, each with a public hash function h_j and a frequency oracle over its buckets (see
`HeavyHitters`). With n reports at the level, C_j[b] those of row j that support bucket b, n_j those of row j,
and c the probability that two prefixes share a bucket,

    T_j[b] = (C_j[b] - n_j q) / (p - q)
    estimate[v] = (sum over j of T_j[h_j(v)] - n c) / (1 - c)

which is the estimator of a pure protocol whose q is c p + (1 - c) q. Given the hash functions a frequent prefix u is
an error of count(u) / R for all that share a bucket with it in one row. So what is found frequent is taken out of the
table and all are estimated again: T_j[h_j(u)] less estimate[u] n_j / n, n less estimate[u] (Jacobi iterations of the
least-squares fit; in signal processing, matching pursuit). The noise of an estimate is read off the table that is left,
the sum of the rows' variances over buckets: it has the noise of the reports and of the collisions that remain.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ldp_core.errors import ParameterError
from ldp_core.exact.arrays import F64, I64, U64
from ldp_core.inputs.prefixes import Prefixes

if TYPE_CHECKING:
    from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters


CANDIDATES = 5 << 18
"""At most so many prefixes are looked up at a level, 1.3 million, if the levels allow it."""

_LEAST_KEPT = 128  # prefixes that can survive a level of the default levels
_PASSES = 16
_HEAVY = 5.0  # standard errors, from which on a prefix is taken out of the table
_GHOSTS = 4.0  # rows in which what is taken out at once may share a bucket with the most frequent that is left
_MOST_HEAVY = 256
_ROUNDING = 1e-9


# ---- levels


def default_levels(domain: Prefixes) -> tuple[int, ...]:
    """As few lengths as `CANDIDATES` allow, if `_LEAST_KEPT` prefixes are to survive each."""
    levels = [_longest(domain, domain.length, CANDIDATES)]
    while levels[-1] < domain.length:
        levels.append(levels[-1] + _longest(domain, domain.length - levels[-1], CANDIDATES // _LEAST_KEPT))
    return tuple(levels)


def _longest(domain: Prefixes, most: int, candidates: int) -> int:
    steps = 1
    while steps < most and domain.extensions(steps + 1) <= candidates:
        steps += 1
    return steps


def check_levels(domain: Prefixes, levels: tuple[int, ...]) -> None:
    """Raise `ParameterError` unless the lengths increase to that of the domain, in steps that can be searched."""
    steps = [b - a for a, b in zip((0, *levels), levels, strict=False)]
    if not levels or min(steps) < 1 or levels[-1] != domain.length:
        raise ParameterError(f"levels must be increasing lengths in [1, {domain.length}], the last one {domain.length}")
    most = max(map(domain.extensions, steps))
    if most > _MOST_EXTENSIONS:
        raise ParameterError(
            f"levels are too far apart: a prefix may be continued in {most} ways, and at most {_MOST_EXTENSIONS} are "
            "looked up; declare more levels"
        )


_MOST_EXTENSIONS = 1 << 24


# ---- hash functions


class Hashes:
    """Public hash functions from 64-bit prefixes to buckets, one a row of a level.

    x = (x1, x0), two halves of 32 bits, has the hash floor(B (a1 x1 + a0 x0 + b mod 2^64 >> 32) / 2^32): the 32 bits
    are strongly universal (M. Thorup, "High Speed Hashing for Integers and Strings", arXiv:1504.06804, section 3), so
    that two prefixes share one of B buckets with exactly 1 / B + r (B - r) / (B 2^64), r = 2^32 mod B, over the choice
    of a1, a0, b: digits of SHAKE-256, the same for every mechanism.
    """

    def __init__(self, functions: int, buckets: int) -> None:
        drawn = hashlib.shake_256(b"ldp: rows of heavy hitters").digest(24 * functions)
        self._low, self._high, self._added = np.frombuffer(drawn, "<u8").reshape(functions, 3).T.copy()
        self._buckets = np.uint64(buckets)
        remainder = (1 << 32) % buckets
        self.collision = Fraction(1, buckets) + Fraction(remainder * (buckets - remainder), buckets << 64)

    def of(self, functions: Any, prefixes: U64) -> I64:
        """Buckets of prefixes, under one function or one for each."""
        hashed = (prefixes & _HALF) * self._low[functions]
        hashed += (prefixes >> _HALF_BITS) * self._high[functions]
        hashed += self._added[functions]
        hashed >>= _HALF_BITS
        hashed *= self._buckets
        hashed >>= _HALF_BITS
        out: I64 = hashed.view(np.int64)
        return out

    def sums(self, table: F64, first: int, prefixes: U64) -> F64:
        """For each prefix the sum over rows j of table[j] at its bucket under function first + j.

        `of` a row and a block at a time, into arrays that are made once: new ones cost more than what is done in them.
        """
        out = np.zeros(len(prefixes))
        long = bool((prefixes > _HALF).any())
        for start in range(0, len(prefixes), _BLOCK):
            block, total = prefixes[start : start + _BLOCK], out[start : start + _BLOCK]
            low, high = block & _HALF, block >> _HALF_BITS
            hashed, added, entries = np.empty_like(block), np.empty_like(block), np.empty_like(total)
            for function, row in enumerate(table, start=first):
                np.multiply(low, self._low[function], out=hashed)
                if long:
                    hashed += np.multiply(high, self._high[function], out=added)
                hashed += self._added[function]
                hashed >>= _HALF_BITS
                hashed *= self._buckets
                hashed >>= _HALF_BITS
                total += row.take(hashed.view(np.int64), out=entries, mode="clip")  # (the mode that needs no copy)
        return out


_BLOCK = 1 << 14  # prefixes at a time: what is made of them stays in the L2 cache
_HALF_BITS = np.uint64(32)
_HALF = np.uint64((1 << 32) - 1)


# ---- points of a projective space


SMALL_PRIMES = [g for g in range(2, 128) if all(g % k for k in range(2, g))]


def primes(width: int) -> list[int]:
    """Those g of which a power, from the square on, is at most ``width`` and not far below."""
    return [g for g in SMALL_PRIMES if (m := digits(g, width)) > 1 and 4 * g**m >= width]


def digits(g: int, width: int) -> int:
    """The largest m with g^m <= width."""
    m = 0
    while g ** (m + 1) <= width:
        m += 1
    return m


class Points:
    """The buckets (1, v), v in F_g^m as a number to the base g, and the vectors of F_g^(m+1) up to a factor.

    A vector (h, a) is the number h g^m + a.
    """

    def __init__(self, g: int, m: int) -> None:
        self.g, self.m, self.buckets = g, m, g**m
        vectors = np.arange(g ** (m + 1))
        digits = [vectors // g**place % g for place in range(m + 1)]  # the last one first
        leading = np.zeros_like(vectors)
        for digit in digits:
            leading = np.where(digit > 0, digit, leading)
        inverse = np.array([0, *(pow(d, -1, g) for d in range(1, g))])
        scaled = sum(digit * inverse[leading] % g * g**place for place, digit in enumerate(digits))
        self._vectors, numbers = np.unique(scaled, return_inverse=True)
        self._number = numbers.astype(np.uint16)
        self.size = len(self._vectors)
        """(g^(m+1) - 1) / (g - 1) + 1, the vector 0 included."""
        self._directions = self._vectors[1 : -self.buckets]  # the points (0, a); a is their number

    def on(self, buckets: npt.NDArray[Any], tail: npt.NDArray[np.uint16], agree: npt.NDArray[np.uint8]) -> Any:
        """Numbers of points (h, tail) with <(h, tail), (1, bucket)> = 0 where they ``agree``, else 1.

        All the multiples of a point are one point, and exactly one of those of a point that is not orthogonal has
        the product 1: uniform among these, with a uniform ``tail``.
        """
        g = np.uint16(self.g)
        product = _dot(tail, buckets.astype(np.uint16), g, self.m)
        head = (np.uint16(self.g + 1) - product - agree) % g
        return self._number[head * np.uint32(self.buckets) + tail]

    def support(self, counts: I64) -> F64:
        """How many reports support each bucket, float64[rows, buckets] (whole numbers), from int64[rows, points].

        1[x = 0] is the mean over t in F_g of w^(t x), w = exp(-2 pi i / g). So g times what supports v is n, and for
        each t > 0 the Fourier transform at t v: of the counts of points (1, a), times w^t, and of points (0, a). Along
        a line, v = s d and t v = u d, this is a product with the matrix of w^(u / s). The counts of all multiples of
        points (0, a) go along as the imaginary part: their transform has the sum over t, is real, and is the same all
        along a line, so that the product only changes its sign.
        """
        g, axes = self.g, tuple(range(1, self.m + 1))
        vectors = counts[:, -self.buckets :] + 1j * counts[:, self._number[: self.buckets]]
        vectors[:, 0].imag *= g - 1
        transformed = np.fft.fftn(vectors.reshape(-1, *(g,) * self.m), axes=axes).reshape(len(counts), -1)
        u = np.arange(1, g)
        lines = sum(digit[:, None] * u % g * g**place for place, digit in enumerate(self._split(self._directions)))
        turned = transformed[:, lines] @ np.exp(-2j * np.pi / g * np.outer(u, [pow(s, -1, g) for s in u.tolist()]))
        transformed[:, lines] = -turned  # (of v = 0 the sum of all w^t with t > 0 is -1)
        out: F64 = np.rint((counts.sum(axis=1, keepdims=True) - transformed.real + transformed.imag) / g)
        return out

    def _split(self, numbers: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        return [numbers // self.g**place % self.g for place in range(self.m)]


def _dot(a: npt.NDArray[np.uint16], v: npt.NDArray[np.uint16], g: np.uint16, m: int) -> npt.NDArray[np.uint16]:
    """<a, v> modulo g, of vectors of m digits as numbers; below 2^16 until the end, since g^m <= 2^14, m >= 2."""
    total = np.zeros(len(a), np.uint16)
    for _ in range(m - 1):
        next_a, next_v = a // g, v // g
        total += (a - next_a * g) * (v - next_v * g)
        a, v = next_a, next_v
    total += a * v
    total %= g
    return total


points = lru_cache(maxsize=16)(Points)


# ---- estimates


class Estimates(NamedTuple):
    """The largest counts of candidates among a level's reports, and how those of candidates that nobody has vary."""

    at: I64
    """Which candidates these are."""
    counts: F64
    error: float
    """Their standard error."""
    skewness: float
    """They are debiased counts of rare events, whose large deviations are more often upwards."""
    kurtosis: float
    """In excess of the normal distribution's: of the few that share a bucket with what is frequent more is noise."""

    def quantile(self, tail: float) -> float:
        """What one of them exceeds with about this probability, by Cornish and Fisher's corrections.

        The second one only upwards. Without it 30 values that 18,000 have, at epsilon 4 and 8 rows of width 256, let
        17 % of searches find one that nobody has, at confidence 0.95.
        """
        z, skewness = -NormalDist().inv_cdf(tail), max(self.skewness, 0.0)
        second = self.kurtosis * (z**3 - 3 * z) / 24 - skewness**2 * (2 * z**3 - 5 * z) / 36
        return self.error * (z + skewness * (z**2 - 1) / 6 + max(second, 0.0))


class Level:
    """The table T of one level."""

    def __init__(self, mechanism: HeavyHitters, number: int, counts: I64) -> None:
        self._rows, self._hashes = mechanism.rows, mechanism.hashes
        self._first = number * mechanism.rows
        self._collision = float(mechanism.hashes.collision)
        of_row = counts.sum(axis=1)
        q, difference = mechanism.q, mechanism.difference
        self.n = int(of_row.sum())
        self._share_of_row = of_row / max(self.n, 1)
        self._most_heavy = min(_MOST_HEAVY, mechanism.points.buckets // 8)
        self._least = self.n * q * (1 - q) / difference**2
        self._table = (mechanism.points.support(counts) - of_row[:, None] * q) / difference

    def estimates(self, candidates: U64, most: int) -> Estimates:
        """The ``most`` candidate prefixes with the largest estimates, of distinct ones, uint64[c], in their order.

        All are looked up once. When something is taken out of the table, others fall where they share its buckets, and
        rise by no more than the share c / (1 - c) of it; of what is less than 0, where many were taken out for what
        they shared, they rise by no more than all. So few can still be large enough; only these are looked up again.
        """
        before, share = self._sums(self._table, float(self.n), candidates), self._collision / (1 - self._collision)
        may_be_heavy = np.flatnonzero(before > _HEAVY * self._least**0.5 - self.n * share)
        out, taken, table = self._taken_out(candidates[may_be_heavy])
        out = may_be_heavy[out]
        rise = share * float(taken.clip(min=0).sum()) - float(taken.clip(max=0).sum())

        def after(among: I64) -> tuple[I64, F64]:
            at = np.union1d(out, among)
            counts = self._sums(table, self.n - float(taken.sum()), candidates[at])
            counts[np.searchsorted(at, out)] += taken
            return at, counts

        some = min(most + _BLOCK, len(candidates))  # more than are wanted: some are large by what falls
        _, counts = after(np.argpartition(before, -some)[-some:])
        wanted = min(most, some)
        at, counts = after(np.flatnonzero(before >= np.partition(counts, -wanted)[-wanted] - rise - _ROUNDING * self.n))
        top = best(counts, np.arange(len(at)), most)
        return Estimates(at[top], counts[top], *self._moments(table))

    def _taken_out(self, candidates: U64) -> tuple[I64, F64, F64]:
        """Positions of what is clearly frequent, in order, how much of it is taken out, and the table without that."""
        table, heavy, taken = self._table, np.arange(0), np.zeros(0)
        left = self._sums(table, float(self.n), candidates)
        for _ in range(_PASSES):
            at_least = max(_HEAVY * self._moments(table)[0], float(left.max(initial=0)) * _GHOSTS / self._rows)
            new = np.setdiff1d(np.flatnonzero(left >= at_least), heavy)
            new = best(left, new, self._most_heavy - len(heavy))
            if not len(new):
                break
            heavy, taken = np.append(heavy, new), np.append(taken + left[heavy], left[new])
            table = self._without(candidates[heavy], taken)
            left = self._sums(table, self.n - float(taken.sum()), candidates)
        order = np.argsort(heavy)
        return heavy[order], taken[order], table

    def _sums(self, table: F64, n: float, candidates: U64) -> F64:
        sums = self._hashes.sums(table, self._first, candidates)
        sums -= n * self._collision
        sums /= 1 - self._collision
        return sums

    def _without(self, prefixes: U64, counts: F64) -> F64:
        """The table without what these prefixes add to it: to a row its share of the reports, which were assigned."""
        table: F64 = self._table.copy()
        for row, share in enumerate(self._share_of_row):
            np.subtract.at(table[row], self._hashes.of(self._first + row, prefixes), counts * share)
        return table

    def _moments(self, table: F64) -> tuple[float, float, float]:
        """Standard error, skewness and excess kurtosis of the sum over rows of an entry each."""
        deviations = table - table.mean(axis=1, keepdims=True)
        squares = deviations**2
        variances = squares.mean(axis=1)
        variance = max(float(variances.sum()), self._least)
        deviations *= squares
        third = float(deviations.mean(axis=1).sum())
        squares *= squares
        fourth = float((squares.mean(axis=1) - 3 * variances**2).sum())
        unit = max(variance, 1.0)
        return variance**0.5 / (1 - self._collision), third / unit**1.5, fourth / unit**2


# ---- the search


class Survivors(NamedTuple):
    """What the last level says of the candidates that got there."""

    codes: U64
    """Plain codes, the most frequent first: at most k, with a count of at least the threshold."""
    counts: F64
    """Of all n records."""
    errors: F64
    """Standard errors of the counts."""
    threshold: float
    candidates: int
    """How many were looked up at the last level."""


def find(mechanism: HeavyHitters, counts: I64, k: int, confidence: float, threshold: float | None) -> Survivors:
    """From int64[levels, rows, points] to what survives the last level."""
    domain, lengths = mechanism.domain, mechanism.levels
    candidates = domain.begin(lengths[0])
    for number, steps in enumerate(np.diff(lengths).tolist()):
        # Twice as many as are wanted: with more, those that only the next level's noise lifts cost more than is gained.
        kept = max(min(max(2 * k, _LEAST_KEPT // 2), CANDIDATES // domain.extensions(steps)), k)
        found = Level(mechanism, number, counts[number]).estimates(candidates, kept)
        candidates = domain.extended(candidates[found.at], steps)
    level = Level(mechanism, len(lengths) - 1, counts[-1])
    n = int(counts.sum())
    scale = n / level.n if level.n else 1.0
    found = level.estimates(candidates, k)
    if threshold is None:
        tail = (1 - confidence) / len(candidates)
        threshold = max(found.quantile(tail), least_improbable(mechanism, level.n, tail)) * scale
    enough = (found.counts * scale >= threshold) & (level.n > 0)
    top = found.counts[enough]
    errors = scale * np.sqrt(_variances(mechanism, level.n, n, top, found.error))
    return Survivors(candidates[found.at[enough]], top * scale, errors, threshold, len(candidates))


def least_improbable(mechanism: HeavyHitters, n: int, tail: float) -> float:
    """The least count that a prefix which none of ``n`` reports is about has with a probability of at most ``tail``.

    Of a large n nothing is asked: `Estimates.quantile` is near enough. The number of reports that support such a prefix
    is binomial, over the functions: its bucket is another one's with the probability of a collision, and is supported
    with q otherwise.
    """
    if not 0 < n <= _FEW_REPORTS:
        return 0.0
    p, q, c = mechanism.p, mechanism.q, float(mechanism.hashes.collision)
    chance = q + c * (p - q)
    k = np.arange(1, n + 1)
    logarithms = np.cumsum(np.log((n - k + 1) / k)) + k * math.log(chance) + (n - k) * math.log1p(-chance)
    at_least = np.cumsum(np.exp(logarithms)[::-1])[::-1]  # Pr[supporters >= k]
    improbable = np.flatnonzero(at_least <= tail)
    supporters = int(k[improbable[0]]) if len(improbable) else n + 1
    return ((supporters - n * q) / mechanism.difference - n * c) / (1 - c)


_FEW_REPORTS = 1 << 16


def _variances(mechanism: HeavyHitters, at_level: int, n: int, counts: F64, error: float) -> F64:
    """Of estimated counts at the last level, as of all records'.

    That of a count of 0; what the reports of the value itself add to it, as in any pure protocol; and that the records
    at the level are a random sample of all (hypergeometric).
    """
    p, q = mechanism.p, mechanism.q
    counts = counts.clip(0, at_level)
    own = counts * (p * (1 - p) - q * (1 - q)) / mechanism.difference**2
    drawn = counts * (1 - counts / max(at_level, 1)) * (1 - at_level / max(n, 1))
    out: F64 = error**2 + own + drawn
    return out


def best(counts: F64, among: I64, most: int) -> I64:
    """The positions ``among`` those of counts that have the largest, in their order."""
    if len(among) > most:
        among = among[np.argpartition(-counts[among], most)[:most]]
    out: I64 = among[np.argsort(-counts[among], kind="stable")]
    return out
