"""Local hashing: a random hash function, and the value's hash under it by randomized response over g buckets.

Wang et al. 2017, section 4.4: p = e^eps / (e^eps + g - 1) for the value's own bucket, 1 / (e^eps + g - 1) for each
other one; a report supports the values that its function hashes to its bucket. With c the probability that two
given values collide,

    q = p c + (1 - p) (1 - c) / (g - 1)                          = 1 / g where c = 1 / g

BLH has g = 2, OLH g = e^eps + 1, rounded, which has the variance of OUE. FLH (G. Cormode, S. Maddock, C. Maple,
"Frequency Estimation under Local Differential Privacy", VLDB 14(11), 2021) draws from few declared functions, so that
the server counts reports first and hashes once for each function instead of once for each report.

q is exact, because c is: see `AffineFamily` and `LinearFamily`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import ParameterError, ReportError
from ldp_core.exact import bits
from ldp_core.exact.arrays import I64, U32, U64, Codes
from ldp_core.exact.probability import check_resolved, exp_below, floor_threshold, fraction
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanism import Native
from ldp_core.mechanisms.oracles._base import FrequencyOracle
from ldp_core.noise.base import Noise, coins
from ldp_core.parameters import check_epsilon
from ldp_core.reports.words import Words

Variant = Literal["optimal", "binary", "fast"]

BUCKET_SHIFT = np.uint64(48)
"""A report is bucket << 48 | function."""


class HashedReports(Words, FrequencyOracle):
    """Reports of a hash function and a bucket: ``bucket << 48 | function``. They support what hashes to the bucket."""

    g: int
    """Number of buckets."""

    _family: HashFamily

    def support_counts(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """See `Mechanism`: a report supports the values that its function hashes to its bucket."""
        return self._family.support_counts(reports, groups, n_groups, self.domain.size)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`."""
        words = super().from_arrow(reports, column=column)
        good = self._family.exists(words & FUNCTION) & (words >> BUCKET_SHIFT < self.g)
        if not good.all():
            wrong = len(words) - int(np.count_nonzero(good))
            raise ReportError(
                f"column {column!r}: {wrong} of {len(words)} reports name a hash function or a bucket that this "
                "mechanism does not have"
            )
        return words


@dataclass(frozen=True, init=False)
class LocalHashing(HashedReports):
    """Report a random hash function and the bucket of the true value under it, or, with some probability, another.

    Args:
        domain: a `Domain` or a list of labels, at most 2**24 - 3. With ``unmatched="none"`` a value outside
            it is hashed like one more value, which is not estimated.
        epsilon: finite, > 0.
        variant: ``"optimal"`` (OLH), ``"binary"`` (BLH, two buckets) or ``"fast"`` (FLH: few functions, so that a tally
            of n reports costs n and not n d).

    Reports are one ``uint64`` each: the bucket in the high 16 bits, the function's number in the low 48.

    Raises:
        ParameterError: an epsilon or a variant that does not exist; a domain too large.

    >>> m = LocalHashing(range(1000), epsilon=1.0)
    >>> m.g, round(m.p, 6), round(m.q, 6)
    (4, 0.475367, 0.25)
    >>> m.perturb([3, 999]).dtype
    dtype('uint64')
    """

    name: ClassVar[str] = "local_hashing"

    domain: Domain
    epsilon: float
    variant: Variant

    def __init__(self, domain: Domain | Iterable[Label], *, epsilon: float, variant: Variant = "optimal") -> None:
        if variant not in ("optimal", "binary", "fast"):
            raise ParameterError(f'variant must be "optimal", "binary" or "fast", got {variant!r}')
        object.__setattr__(self, "domain", Domain.of(domain))
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", epsilon))
        object.__setattr__(self, "variant", variant)
        if self._hashed > PRIME or (variant == "fast" and self.functions > _MOST_LISTED):
            raise ParameterError(
                f"local hashing takes at most {PRIME} values, and fast at most {_MOST_LISTED} functions"
            )
        check_resolved(self._keep, 0, " * g")

    @property
    def _hashed(self) -> int:
        """Number of codes that may have to be hashed."""
        return self.domain.size + (self.domain.unmatched == "none")

    @cached_property
    def g(self) -> int:  # type: ignore[override]
        """Number of buckets."""
        if self.variant == "binary":
            return 2
        e = exp_below(self.epsilon)
        if self.variant == "optimal":
            return min(round(e) + 1, MOST_BUCKETS)
        return min(SMALL_PRIMES, key=lambda g: (e - 1 + g) ** 2 / (g - 1))  # of n Var at f = 0

    @cached_property
    def _family(self) -> HashFamily:  # type: ignore[override]
        return LinearFamily(self.g, self._hashed) if self.variant == "fast" else AffineFamily(self.g)

    @cached_property
    def functions(self) -> int:
        """K, how many hash functions there are."""
        return self._family.size

    @cached_property
    def _keep(self) -> int:
        """Integer threshold of keeping the bucket; otherwise it is drawn uniformly from all g, its own included."""
        e = exp_below(self.epsilon)
        return floor_threshold((e - 1) / (e - 1 + self.g))

    @cached_property
    def _pair(self) -> tuple[Fraction, Fraction]:
        """Exact probabilities of a bucket: the value's own, and any other given one."""
        keep = fraction(self._keep)
        return keep + (1 - keep) / self.g, (1 - keep) / self.g

    def expected_parts(self) -> tuple[list[Fraction], list[Fraction]]:
        """See `Mechanism`: over the random function, two values collide with the family's exact probability."""
        d = self.domain.size
        own, other = self._pair
        c = self._family.collision
        return [own] * d, [own * c + other * (1 - c)] * d

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: the function does not depend on the value, the bucket is a randomized response."""
        own, other = self._pair
        return own / other

    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        """Codes to uint64[n]; `unmatched_code` under ``"none"`` is hashed too, so that it supports values with q."""
        n = len(codes)
        keep = coins(noise, self._keep, n, _KEEP)
        buckets = noise.uniform_below(self.g, n, _BUCKET).astype(np.uint64)
        functions = self._family.draw(n, noise)
        own = self._family.hash(functions, codes)
        buckets ^= (own ^ buckets) & np.negative(keep.astype(np.uint64))  # own where kept, without a branch
        return buckets << BUCKET_SHIFT | functions

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon": self.epsilon, "variant": self.variant}


MOST_BUCKETS = 1 << 15  # so that a report is below 2^63, and fits where there are no unsigned integers
_MOST_LISTED = 1 << 31  # what one uniform draw can choose from
FUNCTION = np.uint64((1 << 48) - 1)

_KEEP, _BUCKET, _FIRST, _SECOND = range(4)  # lanes of noise


class HashFamily(Protocol):
    """Numbered hash functions from codes to range(g)."""

    size: int
    collision: Fraction
    """Pr[two given codes have one hash], over the functions: the same for any two."""

    def draw(self, n: int, noise: Noise) -> U64:
        """Numbers of ``n`` functions, uniform."""
        ...

    def hash(self, functions: U64, codes: Codes) -> U64:
        """The hash of each code under its function."""
        ...

    def exists(self, functions: U64) -> npt.NDArray[np.bool_]:
        """Whether these are numbers of functions."""
        ...

    def support_counts(self, reports: U64, groups: I64, n_groups: int, d: int) -> I64:
        """See `Mechanism.support_counts`."""
        ...


PRIME = (1 << 24) - 3
_HALF = np.uint64(24)


class AffineFamily:
    """Code v to floor(g ((a v + b) mod P) / P), for the P^2 pairs a, b below a prime P = 2^24 - 3.

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
        """See `HashFamily`."""
        a = noise.uniform_below(PRIME, n, _FIRST).astype(np.uint64)
        functions: U64 = a << _HALF | noise.uniform_below(PRIME, n, _SECOND)
        return functions

    def hash(self, functions: U64, codes: Codes) -> U64:
        """See `HashFamily`."""
        a, b = self._split(functions)
        residues: U64 = a * codes.astype(np.uint64)
        residues += b
        residues %= np.uint64(PRIME)
        residues *= np.uint64(self.g)
        residues //= np.uint64(PRIME)
        return residues

    def exists(self, functions: U64) -> npt.NDArray[np.bool_]:
        """See `HashFamily`."""
        a, b = self._split(functions)
        good: npt.NDArray[np.bool_] = np.maximum(a, b) < np.uint64(PRIME)
        return good

    def _split(self, functions: U64) -> tuple[U64, U64]:
        return functions >> _HALF, functions & np.uint64((1 << 24) - 1)

    def support_counts(self, reports: U64, groups: I64, n_groups: int, d: int) -> I64:
        """See `HashFamily`."""
        return _counts_of_rows(reports, groups, n_groups, d, self._supported)

    def _supported(self, reports: U64, d: int) -> Iterator[npt.NDArray[np.bool_]]:
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


SMALL_PRIMES = [g for g in range(2, 256) if all(g % k for k in range(2, g))]


class LinearFamily:
    """Code v to <a, v> mod g: a and v as m digits to the base g, a prime; K = g^m functions, the least power >= d.

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
        """See `HashFamily`."""
        return noise.uniform_below(self.size, n, _FIRST).astype(np.uint64)

    def hash(self, functions: U64, codes: Codes) -> U64:
        """See `HashFamily`."""
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

    def exists(self, functions: U64) -> npt.NDArray[np.bool_]:
        """See `HashFamily`."""
        return functions < np.uint64(self.size)

    def support_counts(self, reports: U64, groups: I64, n_groups: int, d: int) -> I64:
        """See `HashFamily`."""
        cells = self.size * self.g
        if len(reports) * d < n_groups * cells * self.g * self.digits:  # few reports a group: one by one is cheaper
            return _counts_of_rows(reports, groups, n_groups, d, self._supported)
        out = np.empty((n_groups, d), np.int64)
        at = (groups * self.size + (reports & FUNCTION).view(np.int64)) * self.g
        at += (reports >> BUCKET_SHIFT).view(np.int64)
        step = max(_CELLS // cells, 1)
        for first in range(0, n_groups, step):
            last = min(first + step, n_groups)
            some = at if step >= n_groups else at[(groups >= first) & (groups < last)] - first * cells
            counts = np.bincount(some, minlength=(last - first) * cells)
            out[first:last] = self._transform(counts.reshape(-1, self.size, self.g))[:, :d]
        return out

    def _transform(self, counts: I64) -> I64:
        """int64[groups, a, bucket] to int64[groups, v]: the sum over a of counts[a, <a, v>].

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
        return counts.reshape(n, self.size, g)[:, :, 0]

    def _supported(self, reports: U64, d: int) -> Iterator[npt.NDArray[np.bool_]]:
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


_CELLS = 1 << 22  # counts of reports made at a time: 32 MiB
_ROWS = 1 << 15  # reports hashed at a time: their residues stay in the L2 cache


def _counts_of_rows(reports: U64, groups: I64, n_groups: int, d: int, supported: Any) -> I64:
    """Support counts from one column of Booleans a value, for a block of reports at a time."""
    out = np.zeros((n_groups, d), np.int64)
    if n_groups > 1 and np.any(groups[1:] < groups[:-1]):
        order = np.argsort(groups, kind="stable")
        reports, groups = reports[order], groups[order]
    for start in range(0, len(reports), _ROWS):
        block, of_row = reports[start : start + _ROWS], groups[start : start + _ROWS]
        first, last = int(of_row[0]), int(of_row[-1]) + 1
        if last == first + 1:
            out[first] += [np.count_nonzero(column) for column in supported(block, d)]
            continue
        rows = np.empty((len(block), bits.row_bytes(d)), np.uint8)
        for v, column in enumerate(supported(block, d)):
            if v % 8 == 0:
                byte = column.astype(np.uint8)
            else:
                byte |= column.view(np.uint8) << np.uint8(v % 8)
            if v % 8 == 7 or v == d - 1:
                rows[:, v // 8] = byte
        out[first:last] += bits.grouped_column_sums(rows, d, of_row - first, last - first)
    return out
