"""Local hashing: a random hash function, and the value's hash under it by randomized response over g buckets.

Wang et al. 2017, section 4.4: p = e^eps / (e^eps + g - 1) for the value's own bucket, 1 / (e^eps + g - 1) for each
other one; a report supports the values that its function hashes to its bucket. With c the probability that two
given values collide,

    q = p c + (1 - p) (1 - c) / (g - 1)                          = 1 / g where c = 1 / g

BLH has g = 2, OLH g = e^eps + 1, rounded, which has the variance of OUE. FLH (G. Cormode, S. Maddock, C. Maple,
"Frequency Estimation under Local Differential Privacy", VLDB 14(11), 2021) draws from few declared functions, so that
the server counts reports first and hashes once for each function instead of once for each report.

q is exact, because c is, of both families of hash functions: `AffineFamily` for any number of buckets, `LinearFamily`
for a prime number of them, with so few functions that the server counts reports before it hashes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, U32, U64, Bools, Codes
from ldp_core.compute import kernels
from ldp_core.errors import ParameterError, ReportError
from ldp_core.exact import bits
from ldp_core.exact.probability import best_symbols, check_resolved, exp_below, fraction, keeping
from ldp_core.exact.projective import primes_to
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.base import FrequencyOracle, n_codes
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_choice, check_epsilon, converted, parameter
from ldp_core.reports import Native, Word
from ldp_core.reports.bits import row_bytes
from ldp_core.simulated_counts import Generator, by_code, inner_products, multinomials

BUCKET_SHIFT = np.uint64(48)
"""A report is bucket << 48 | function."""
FUNCTION = np.uint64((1 << 48) - 1)
MOST_BUCKETS = 1 << 15
"""So that a report is below 2^63, and fits where there are no unsigned integers."""

FIRST, SECOND = 2, 3
"""Lanes of noise that draw functions."""


PRIME = (1 << 24) - 3
_HALF = np.uint64(24)


class AffineFamily:
    """Numbered hash functions from codes to range(g): v to floor(g ((a v + b) mod P) / P), P a prime.

    There are P^2, for the pairs a, b below P. Two codes have one hash with probability ``collision``, exactly.

    J. L. Carter, M. N. Wegman, "Universal Classes of Hash Functions", JCSS 18(2), 1979: for v and w that differ
    modulo P, (a v + b, a w + b) takes each pair of residues for exactly one (a, b). So two codes collide with
    probability exactly the sum over the buckets of (size / P)^2: 1 / g + r (g - r) / (g P^2), r = P mod g.
    """

    def __init__(self, g: int) -> None:
        self.g, self.size = g, PRIME**2
        edges = -(-np.arange(g + 1, dtype=np.int64) * PRIME // g)
        self._low, self._width = edges[:-1].astype(np.uint32), np.diff(edges).astype(np.uint32)
        remainder = PRIME % g
        self.collision = Fraction(1, g) + Fraction(remainder * (g - remainder), g * PRIME**2)

    def draw(self, n: int, noise: Noise) -> U64:
        """Numbers of ``n`` functions, uniform."""
        a = noise.uniform_below(PRIME, n, FIRST).astype(np.uint64)
        return a << _HALF | noise.uniform_below(PRIME, n, SECOND)

    def hash(self, functions: U64, codes: Codes) -> U64:
        """The hash of each code under its function."""
        a, b = self._split(functions)
        residues: U64 = a * codes.astype(np.uint64)
        residues += b
        residues %= np.uint64(PRIME)
        residues *= np.uint64(self.g)
        residues //= np.uint64(PRIME)
        return residues

    def exists(self, functions: U64) -> Bools:
        """Whether these are numbers of functions."""
        a, b = self._split(functions)
        return np.maximum(a, b) < np.uint64(PRIME)

    def is_possible(self, n: I64, counters: I64) -> Bools:
        """bool[k]: what else is known of int64[k, d] counters of n reports each, in [0, n]: here nothing."""
        return np.ones(len(n), bool)

    def _split(self, functions: U64) -> tuple[U64, U64]:
        return functions >> _HALF, functions & np.uint64((1 << 24) - 1)

    def support_counts(self, reports: U64, groups: I64, n_groups: int, d: int) -> I64:
        """int64[n_groups, d]: in each group, how many reports support each code below d."""
        reports, groups = _by_group(reports, groups, n_groups)
        out = np.zeros((n_groups, d), np.int64)
        of_each = groups if n_groups > 1 else groups[:0]
        if kernels.affine_support(reports, of_each, self._low, self._width, PRIME, out):
            return out
        return _counts_of_rows(reports, groups, n_groups, d, self)

    def simulate(self, people: I64, keep: float, d: int, generator: Generator) -> I64:
        """int64[d]: how many reports might support each code below d, of people with each code, int64[codes].

        They report the hash under a random function with probability ``keep``, else a uniform bucket. Each counter has
        exactly its distribution. All together they are independent here, as under independent hash functions; these
        are independent in pairs only, and P^2 of them are too many to count with.
        """
        have, rest = people[:d], (1 - keep) / self.g
        counts: I64 = generator.binomial(have, keep + rest)
        counts += generator.binomial(people.sum() - have, keep * float(self.collision) + rest)
        return counts

    def supported(self, reports: U64, d: int) -> Iterator[Bools]:
        """A residue is in the bucket if, counted from the bucket's first one, it is below the bucket's width."""
        a, b = (part.astype(np.uint32) for part in self._split(reports & FUNCTION))
        bucket = reports >> BUCKET_SHIFT
        width, prime = self._width[bucket], np.uint32(PRIME)
        residue = b + (prime - self._low[bucket])
        np.minimum(residue, residue - prime, out=residue)  # modulo P: what wraps below 0 is huge
        less, reduced = np.empty(len(a), bool), np.empty(len(a), np.uint32)
        for _ in range(d):
            yield np.less(residue, width, out=less)
            residue += a
            np.subtract(residue, prime, out=reduced)
            np.minimum(residue, reduced, out=residue)

    def triple_collisions(self, a: int, d: int, n: int) -> F64:
        """Pr[a, b and x have one hash], of the b from a + 1 to d - 1 and the x below n: float64[d - 1 - a, n]."""
        return triples(self.g, n)[n : n + d - 1 - a, n - 1 - a : 2 * n - 1 - a]


SMALL_PRIMES = primes_to(255)
"""Numbers of buckets for which there is a `LinearFamily`."""


class LinearFamily:
    """Numbered hash functions from codes to range(g): v to <a, v> mod g, g a prime.

    a and v are vectors of m digits to the base g. There are K = g^m, the least power >= d.

    For v != w the differences of their digits are not all 0 modulo g, so that <a, v - w> takes each value for exactly
    g^(m-1) of the a: two codes collide with probability exactly 1 / g. (Random functions, as in the paper's FLH, do
    so only on average over the choice of the functions: given them, estimates would be biased.)
    """

    def __init__(self, g: int, codes: int) -> None:
        self.g, self.digits = g, 1
        while g**self.digits < codes:
            self.digits += 1
        self.size = g**self.digits
        self.collision = Fraction(1, g)

    def draw(self, n: int, noise: Noise) -> U64:
        """Numbers of ``n`` functions, uniform."""
        return noise.uniform_below(self.size, n, FIRST).astype(np.uint64)

    def hash(self, functions: U64, codes: Codes) -> U64:
        """The hash of each code under its function."""
        return self._product(self._digits(functions), self._digits(codes.astype(np.uint64))).astype(np.uint64)

    def _digits(self, numbers: U64) -> list[U32]:
        """The m digits, the last one first."""
        out = []
        for _ in range(self.digits):
            numbers, digit = np.divmod(numbers, np.uint64(self.g))
            out.append(digit.astype(np.uint32))
        return out

    def _product(self, a: list[U32], v: list[U32]) -> U32:
        total = a[0] * v[0]
        for x, y in zip(a[1:], v[1:], strict=True):
            total += x * y
        total %= np.uint32(self.g)
        return total

    def exists(self, functions: U64) -> Bools:
        """Whether these are numbers of functions."""
        return functions < np.uint64(self.size)

    def support_counts(self, reports: U64, groups: I64, n_groups: int, d: int) -> I64:
        """int64[n_groups, d]: in each group, how many reports support each code below d."""
        cells, n = self.size * self.g, len(reports)
        of_rows = n * d * self.digits if n <= _AT_ONCE else (n + _CALLS + _MORE_CALLS // self.g) * d // 8
        if of_rows < n_groups * cells * self.g * self.digits:  # (in units of about 3 ns)
            return _counts_of_rows(reports, groups, n_groups, d, self)
        out = np.empty((n_groups, d), np.int64)
        at = (groups * self.size + (reports & FUNCTION).view(np.int64)) * self.g
        at += (reports >> BUCKET_SHIFT).view(np.int64)
        step = max(_CELLS // cells, 1)
        for first in range(0, n_groups, step):
            last = min(first + step, n_groups)
            some = at if step >= n_groups else at[(groups >= first) & (groups < last)] - first * cells
            counts = np.bincount(some, minlength=(last - first) * cells)
            out[first:last] = self._transform(counts.reshape(-1, self.size, self.g))[:, :d, 0]
        return out

    def simulate(self, people: I64, keep: float, d: int, generator: Generator) -> I64:
        """From how many people report each function and bucket; all counters together have their distribution."""
        values = np.zeros((self.size, self.g), np.int64)
        values[: len(people), 0] = generator.binomial(people, keep)
        cells = inner_products(values, generator)
        cells += multinomials(people.sum() - values.sum(), cells.size, generator).reshape(cells.shape)
        return self._transform(cells[None])[0, :d, 0]

    def triple_collisions(self, a: int, d: int, n: int) -> F64:
        """As of an `AffineFamily`: 1 / g of the x on a line with a and b, where one equation says all, else 1 / g^2."""
        b, steps = np.arange(a + 1, d), np.arange(self.g)
        line = np.zeros((len(b), self.g), np.int64)
        for unit in (self.g**k for k in range(self.digits)):
            x, y = a // unit % self.g, b // unit % self.g
            line += (x + steps * (y - x)[:, None]) % self.g * unit
        out = np.full((len(b), n + 1), 1 / self.g**2)
        np.put_along_axis(out, np.minimum(line, n), 1 / self.g, axis=1)
        return out[:, :n]

    def is_possible(self, n: I64, counters: I64) -> Bools:
        """In each block of g^k codes, with the largest k that there is, a report supports a hyperplane, all or none.

        Let R[a, b] be the sum of the counters of the codes v with <a, v> = b. Two hyperplanes that are not parallel
        have g^(k-2) codes in common, so R[a, b] - min R[a, .] is g^(k-1) times the reports of that hyperplane above the
        fewest of any parallel one. Without these, r is left of each counter: r reports that support all are the fewest.
        """
        d, g = counters.shape[1], self.g
        block = self.size if d == self.size else self.size // g
        if block == 1:  # a part of one block of g codes: the others may be supported by as few as any
            missing = np.repeat(counters.min(axis=1, keepdims=True), g - d, axis=1)
            counters, d, block = np.concatenate([counters, missing], axis=1), g, g
        share, blocks = block // g, d // block
        good = np.ones(len(n), bool)
        if self.digits * g * g > _MOST_CELLS:  # of a block its sum, and of each line in it, a block of g codes, all
            good = (counters[:, : blocks * block].reshape(len(n), blocks, block).sum(axis=2) % share == 0).all(axis=1)
            block, share, blocks = g, 1, d // g
        rows, of_row = counters[:, : blocks * block].reshape(len(n) * blocks, block), np.repeat(n, blocks)
        fits = np.empty(len(rows), bool)
        step = max(_CELLS // (block * g), 1)
        for first in range(0, len(rows), step):
            some = slice(first, first + step)
            sums = LinearFamily(g, block)._sums_of_hyperplanes(rows[some])
            above, broken = np.divmod(sums - sums.min(axis=2, keepdims=True), share)
            reports = above.sum(axis=(1, 2))
            left, rest = np.divmod(rows[some].sum(axis=1) - reports * share, block)
            enough = (left >= 0) & (rest == 0) & (reports + left <= of_row[some])
            fits[some] = enough & ~broken.any(axis=(1, 2))
        return good & fits.reshape(len(n), blocks).all(axis=1)

    def _sums_of_hyperplanes(self, counters: I64) -> I64:
        """int64[k, size] to int64[k, directions, g]: sums over the parallel hyperplanes of each direction."""
        if self.digits == 1:
            return counters[:, None]
        cells = np.zeros((*counters.shape, self.g), np.int64)
        cells[:, :, 0] = counters
        directions = [np.arange(self.g**k, 2 * self.g**k) for k in range(self.digits)]  # the first digit is 1
        return self._transform(cells)[:, np.concatenate(directions)]

    def _transform(self, counts: I64) -> I64:
        """int64[groups, a, bucket] to int64[groups, v, y]: the sum over a of counts[a, y + <a, v>].

        A digit at a time, as in the fast Walsh-Hadamard transform (g = 2): the last digit of a becomes that of v,
        s'[v, y] = sum over a of s[a, y + a v], and moves to the front. K g^2 log_g(K) additions.
        """
        n, g = len(counts), self.g
        a, y = np.divmod(np.arange(g * g), g)
        for _ in range(self.digits):
            pairs = counts.reshape(n, -1, g * g)
            after = np.empty((n, g, pairs.shape[1], g), np.int64)
            for v in range(g):
                shifted = pairs[:, :, a * g + (y + a * v) % g]
                shifted.reshape(n, -1, g, g).sum(axis=2, out=after[:, v])
            counts = after
        return counts.reshape(n, self.size, g)

    def supported(self, reports: U64, d: int) -> Iterator[Bools]:
        """The next value has the last digit one higher, unless that is 0 again."""
        g = np.uint16(self.g)
        bucket = (reports >> BUCKET_SHIFT).astype(np.uint16)
        digits = self._digits(reports & FUNCTION)
        last = digits[0].astype(np.uint16)
        for first in range(0, d, self.g):
            hashed = self._product(digits, self._digits(np.array([first], np.uint64))).astype(np.uint16)
            for _ in range(first, min(first + self.g, d)):
                yield hashed == bucket
                hashed += last
                np.minimum(hashed, hashed - g, out=hashed)


HashFamily: TypeAlias = AffineFamily | LinearFamily


_MOST_CELLS = 1 << 9  # that a counter may cost to check: about 2 us
_CELLS = 1 << 22  # counts of reports made at a time: 32 MiB
_ROWS = 1 << 15  # reports hashed at a time: their residues stay in the L2 cache
_AT_ONCE = 64  # reports, up to which each is hashed with all codes at once
_CALLS, _MORE_CALLS = 3000, 20_000  # so many reports cost as much as numpy's calls for a code, and for g codes


def _counts_of_rows(reports: U64, groups: I64, n_groups: int, d: int, family: HashFamily) -> I64:
    out = np.zeros((n_groups, d), np.int64)
    if len(reports) <= _AT_ONCE:
        codes = np.arange(d)
        for report, group in zip(reports, groups.tolist(), strict=True):
            out[group] += family.hash(report & FUNCTION, codes) == report >> BUCKET_SHIFT
        return out
    reports, groups = _by_group(reports, groups, n_groups)
    for start in range(0, len(reports), _ROWS):
        block, of_row = reports[start : start + _ROWS], groups[start : start + _ROWS]
        first, last = int(of_row[0]), int(of_row[-1]) + 1
        if last == first + 1:
            out[first] += [np.count_nonzero(column) for column in family.supported(block, d)]
            continue
        rows = np.empty((len(block), row_bytes(d)), np.uint8)
        for v, column in enumerate(family.supported(block, d)):
            if v % 8 == 0:
                byte = column.astype(np.uint8)
            else:
                byte |= column.view(np.uint8) << np.uint8(v % 8)
            if v % 8 == 7 or v == d - 1:
                rows[:, v // 8] = byte
        out[first:last] += bits.grouped_column_sums(rows, d, of_row - first, last - first)
    return out


def _by_group(reports: U64, groups: I64, n_groups: int) -> tuple[U64, I64]:
    if n_groups > 1 and np.any(groups[1:] < groups[:-1]):
        order = np.argsort(groups, kind="stable")
        return reports[order], groups[order]
    return reports, groups


class HashedWord(Word):
    """A ``uint64``: the bucket in the high 16 bits, the function's number in the low 48."""

    def __init__(self, family: HashFamily) -> None:
        super().__init__(family.g << 48)
        self._declare(family=family)

    family: HashFamily

    @override
    def check(self, numbers: U64, column: str) -> None:
        good = self.family.exists(numbers & FUNCTION) & (numbers < np.uint64(self.limit))
        if not good.all():
            wrong = len(numbers) - int(np.count_nonzero(good))
            raise ReportError(
                f"column {column!r}: {wrong} of {len(numbers)} reports name a hash function or a bucket that this "
                "mechanism does not have"
            )


@lru_cache(maxsize=8)
def triples(g: int, n: int) -> F64:
    """Pr[0, s and t have one hash of an `AffineFamily`], for s and t from 1 - n to n - 1: float64[2 n - 1, 2 n - 1].

    1 / g^2 - g / (3 u v w) (B(u / g) + B(v / g) + B(w / g)), B(x) = x^3 - 3/2 x^2 + x / 2 of the fractional part,
    and (u, v, w) = (s, -t, t - s) over the common divisor of s and t; up to about n g / P. Proof: a and b, over P,
    are nearly uniform in [0, 1), and the three hashes are buckets of b, b + a s and b + a t. Of the Fourier series
    of three indicators of [0, 1 / g) their mean leaves the terms with frequencies j (w, v, u), of
    sin(pi m / g) / (pi m) each; and 4 sin x sin y sin z = -(sin 2x + sin 2y + sin 2z) where x + y + z = 0, sum over
    j of sin(2 pi j x) / j^3 = 2 pi^3 B(x) / 3 (Abramowitz, Stegun 1972, 23.1.17).
    """
    s, t = np.meshgrid(np.arange(1 - n, n), np.arange(1 - n, n), indexing="ij")
    apart = (s != 0) & (t != 0) & (s != t)
    u = np.where(apart, [s, -t, t - s], 1) // np.where(apart, np.gcd(s, t), 1)
    x = u % g / g
    sums = (x * (x - 0.5) * (x - 1)).sum(axis=0)
    return np.where(apart, 1 / g**2 - g * sums / (3 * u.prod(axis=0)), 1 / g)


class HashedReports(FrequencyOracle):
    """Reports of a hash function, which does not depend on the value, and of a bucket by randomized response.

    A report supports the values that its function hashes to its bucket.
    """

    @property
    @abstractmethod
    def family(self) -> HashFamily:
        """The hash functions."""

    @property
    @abstractmethod
    def bucket_probabilities(self) -> tuple[Fraction, Fraction]:
        """Exact probabilities of a bucket: the value's own, and any other given one."""

    @property
    @override
    def reports(self) -> HashedWord:
        return HashedWord(self.family)

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Over the random function, two values collide with the family's exact probability."""
        d, c = self.domain.size, self.family.collision
        own, other = self.bucket_probabilities
        return [own] * d, [own * c + other * (1 - c)] * d

    @property
    @override
    def supported(self) -> tuple[int, int]:
        """All values: both families have constant functions, as two values could not collide as often without them."""
        return 0, self.domain.size

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        possible = np.array(super().is_possible(n, counters))
        possible[possible] = self.family.is_possible(np.broadcast_to(n, possible.shape)[possible], counters[possible])
        return possible

    @override
    def worst_ratio(self) -> Fraction:
        own, other = self.bucket_probabilities
        return own / other

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        return self.family.support_counts(reports, groups, n_groups, self.domain.size)

    @override
    def noise_covariance(self, shares: F64) -> F64:
        """From how three values collide.

        Pr[a and b are supported | x] = (own - other) Pr[h(a) = h(b) = h(x)] + other Pr[h(a) = h(b)]
        """
        d, n = self.domain.size, shares.shape[1]
        own, other = map(float, self.bucket_probabilities)
        q, difference = self.rates.q[0], self.rates.difference
        means, base = q * difference * shares, other * float(self.family.collision) - q**2
        out: F64 = np.eye(d) * self.variances(shares)[:, None]
        for a in range(d):
            among = self.family.triple_collisions(a, d, n)
            both = (own - other) * shares @ among.T + base - means[:, a : a + 1] - means[:, a + 1 : d]
            out[:, a, a + 1 :] = out[:, a + 1 :, a] = both / difference**2
        return out

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        hashed = self.family.hash(reports & FUNCTION, np.array([code], np.uint64))
        return self.weights_by(hashed == reports >> BUCKET_SHIFT, code)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        own, other = self.bucket_probabilities
        have = by_code(codes, people, n_codes(self.domain))
        return self.family.simulate(have, float(own - other), self.domain.size, generator)


Variant: TypeAlias = Literal["optimal", "binary", "fast"]


@dataclass(frozen=True, init=False)
class LocalHashing(HashedReports):
    """Report a random hash function and the bucket of the true value under it, or, with some probability, another.

    Args:
        domain: at most 2**24 - 3 values; with ``unmatched="none"`` one outside is one more, which is not estimated.
        variant: ``"optimal"`` (OLH), ``"binary"`` (BLH, two buckets) or ``"fast"`` (FLH: few functions, so that a tally
            of n reports costs n and not n d).

    Reports are one ``uint64`` each: the bucket in the high 16 bits, the function's number in the low 48.

    >>> m = LocalHashing(range(1000), epsilon=1.0)
    >>> m.g, round(m.p, 6), round(m.q, 6)
    (4, 0.475367, 0.25)
    """

    name: ClassVar[str] = "local_hashing"
    has_two_levels: ClassVar[bool] = True
    none_is_a_value: ClassVar[bool] = True

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    variant: Variant = parameter(check_choice, among=get_args(Variant))

    def __init__(
        self,
        domain: Domain | Iterable[Label],
        *,
        epsilon: float,
        variant: Variant = "optimal",
        unmatched: Unmatched = "error",
    ) -> None:
        self._declare(variant=variant, domain=Domain.of(domain, unmatched), epsilon=epsilon)
        if n_codes(self.domain) > PRIME or (
            variant == "fast" and n_codes(self.domain) > _FEW and self.functions > _MOST_LISTED
        ):
            raise ParameterError(
                f"local hashing takes at most {PRIME} values, and fast at most {_MOST_LISTED} functions"
            )
        check_resolved(self.epsilon, lambda: (self._keep, 0), " * g")

    @cached_property
    def g(self) -> int:
        """Number of buckets."""
        if self.variant == "binary":
            return 2
        if self.variant == "optimal":
            return min(round(exp_below(self.epsilon)) + 1, MOST_BUCKETS)
        return best_symbols(SMALL_PRIMES, self.epsilon)

    @cached_property
    @override
    def family(self) -> HashFamily:
        return LinearFamily(self.g, n_codes(self.domain)) if self.variant == "fast" else AffineFamily(self.g)

    @cached_property
    def functions(self) -> int:
        """``k``, how many hash functions there are."""
        return self.family.size

    @property
    @override
    def alike(self) -> float:
        return 1 / self.functions  # each is drawn as often, and the report says which

    @cached_property
    def _keep(self) -> int:
        """Integer threshold of keeping the bucket; otherwise it is drawn uniformly from all g, its own included."""
        return keeping(self.epsilon, self.g)

    @cached_property
    @override
    def bucket_probabilities(self) -> tuple[Fraction, Fraction]:
        keep = fraction(self._keep)
        return keep + (1 - keep) / self.g, (1 - keep) / self.g

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]; `unmatched_code` under ``"none"`` is hashed too, so that it supports values with q."""
        functions = self.family.draw(len(codes), noise)
        own = self.family.hash(functions, codes)
        return noise.kept_or_drawn(self._keep, own, self.g, _BUCKET) << BUCKET_SHIFT | functions

    @override
    def compiled(self) -> dict[str, Any]:
        family = {"functions": self.functions} if self.variant == "fast" else {"prime": PRIME}
        return {"draw": "hash", "keep": str(self._keep), "buckets": self.g, **family}


_MOST_LISTED = 1 << 31  # what one uniform draw can choose from
_FEW = _MOST_LISTED // 255  # codes: there are less than 255 times as many functions

_BUCKET = 0  # lane of noise, with the next one, beside those that draw functions
