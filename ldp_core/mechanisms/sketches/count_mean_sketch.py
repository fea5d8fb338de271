"""Count mean sketch (CMS): one of k public hash functions, and the value's bucket under it as perturbed one-hot bits.

Apple Differential Privacy Team, "Learning with Privacy at Scale", Apple Machine Learning Journal 1(8), 2017. A report
is (j, m bits): j uniform over the k functions, the bits those of `UnaryEncoding` of h_j(v) over m buckets (the paper's
are its symmetric variant). It supports w if bit h_j(w) is 1. Over the choice of the functions two values collide with
probability c = 1 / m, so that with the bits' own p' and q'

    p = p'        q = c p' + (1 - c) q'

and the pure protocol's estimate (C[w] - n q) / (p - q) is the paper's m / (m - 1) (M[w] / k - n / m). All reports share
the k functions, so that its variance, over their choice too, has a second part:

    Var = (c_w p (1 - p) + (n - c_w) q (1 - q)) / (p - q)^2 + ((F2 - c_w^2) - (n - c_w)) / (k (m - 1))

with c_w the true count and F2 the sum of the squares of all values' counts. Proof: given the functions, a report of v
supports w with s = q' + (p' - q') A, A the share of the functions under which they collide, E A = c and
Var A = c (1 - c) / k. C[w] has the variance E[sum of s (1 - s)] + Var[sum of s], sums over the records; in the second
only records of one value are correlated. What F2 is the sketch itself says: see `CountMean.collision_variance`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from ldp_core.errors import ParameterError, ReportError
from ldp_core.exact import bits
from ldp_core.exact.arrays import F64, I64, U64, Codes
from ldp_core.exact.probability import fraction
from ldp_core.exact.random_functions import MOST_BUCKETS, RandomFunctions
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.mechanism import Native, Outlook
from ldp_core.mechanisms.oracles.unary_encoding import UnaryEncoding, Variant
from ldp_core.mechanisms.sketches._base import Sketch
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_integer
from ldp_core.reports.lists import Lists

MOST_CELLS = 1 << 26
"""Of a sketch: half a GiB of counts."""


class CountMean(Sketch):
    """What Apple's two sketches share: k functions to m buckets, and how many reports speak for each bucket."""

    domain: OpenDomain
    epsilon: float
    hashes: int
    width: int
    salt: int

    def _set(self, kind: OpenDomain | str, epsilon: float, hashes: int, width: int, salt: int) -> None:
        object.__setattr__(self, "domain", OpenDomain.of(kind))
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "hashes", check_integer("hashes", hashes, 1))
        whole = isinstance(width, int) and not isinstance(width, bool)
        if not whole or not 2 <= width <= MOST_BUCKETS or width & (width - 1):
            raise ParameterError(f"width must be a power of two in [2, {MOST_BUCKETS}], got {width!r}")
        if hashes * width > MOST_CELLS:
            raise ParameterError(f"hashes * width must be at most {MOST_CELLS}, got {hashes * width}")
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "salt", check_integer("salt", salt, 0, 2**64 - 1))

    @property
    @abstractmethod
    def bucket_probability(self) -> tuple[Fraction, Fraction]:
        """Pr[a report speaks for its own value's bucket], Pr[... for some other given one], of its function."""

    @property
    @abstractmethod
    def spread(self) -> Fraction:
        """Expected sum of squares, over the m buckets, of whether a report speaks for each, less their mean."""

    @abstractmethod
    def table(self, counters: I64) -> I64:
        """int64[..., k, m]: how many of the reports with each function speak for each bucket."""

    @cached_property
    def functions(self) -> RandomFunctions:
        """The k public hash functions."""
        return RandomFunctions(self.hashes, self.width, self.salt)

    def support_probability(self) -> tuple[Fraction, Fraction]:
        """See `Sketch`: over the functions, two values collide with probability 1 / m."""
        own, other = self.bucket_probability
        c = self.functions.collision
        return own, c * own + (1 - c) * other

    def support_of(self, n: Any, counters: I64, codes: Codes) -> I64:
        """See `Sketch`: k look-ups a candidate."""
        return self.functions.sums(self.table(counters), codes)

    def collision_variance(self, n: Any, counters: I64, counts: F64) -> F64:
        """See `Sketch`: ((F2 - c^2) - (n - c)) / (k (m - 1)), at least 0, with an unbiased estimate of F2.

        Let T be the table and T' the mean of a row of it. A report contributes `spread` to the sum of (T - T')^2
        by itself, and pairs of reports (p' - q')^2 / k (1 - c) if their values are equal and 0 if not, on average
        over the functions. So

            (F2 - n) / (k (m - 1)) = m (sum of (T - T')^2 - n spread) / ((m - 1)^2 (p' - q')^2).

        It is an estimate with a relative error of sqrt(2 / (k m)), counted in variances of the noise.
        """
        own, other = self.bucket_probability
        m = self.width
        table: F64 = self.table(counters).astype(float)
        table -= table.mean(axis=-1, keepdims=True)
        excess: F64 = np.square(table, out=table).sum(axis=(-2, -1))[..., None] - n * float(self.spread)
        per_pair = 1 / (self.hashes * (m - 1))
        n = np.asarray(n, float)
        pairs = np.clip(excess * (m / ((m - 1) ** 2 * float(own - other) ** 2)), 0, n * (n - 1) * per_pair)
        c = np.clip(counts, 0, n)
        more: F64 = np.maximum(pairs - (c * c - c) * per_pair, 0)
        return more

    @property
    def collision_skewness(self) -> float:
        """See `Sketch`: that of the number of functions, among k, under which two values collide, about Poisson(k / m).

        (1 - 2 c) / sqrt(k c (1 - c)), c = 1 / m; of all distributions with this F2 that with one heavy value is the
        most skewed.
        """
        return (self.width - 2) / math.sqrt(self.hashes * (self.width - 1))

    def collision_error(self, beta: float) -> float:
        """See `Sketch`: Bernstein's inequality for the k functions, whatever the values are.

        A function moves the estimated frequency by at most 1 and by a variance of at most 1 / (m - 1) (all records
        hold one other value).
        """
        level = math.log(2 / beta) / self.hashes
        return level / 3 + math.sqrt((level / 3) ** 2 + 2 * level / (self.width - 1))

    def explain(self, n: int) -> Outlook:
        """The standard error of a value that nobody holds, without the collisions, which depend on the others."""
        p, q = self.support_probability()
        error = math.sqrt(n * float(q * (1 - q))) / float(p - q)
        share = error / n if n else math.inf
        return Outlook(f"{error:,.1f} records", f"{share:.1%}".replace("%", " %"))


@dataclass(frozen=True, init=False)
class CountMeanSketch(Lists, CountMean):
    """Report the number of a hash function and m bits, of which that of the value's bucket is 1 with probability p'.

    Args:
        kind: ``"str"`` or ``"int"``: any text, or any integer.
        epsilon: finite, > 0.
        hashes: k, the number of hash functions.
        width: m, the number of buckets: a power of two.
        variant: of the bits: ``"optimized"`` (as OUE) or ``"symmetric"`` (as in Apple's paper).
        salt: chooses other hash functions.

    Reports are ``FixedSizeList<uint64, 1 + ceil(m / 64)>``, as numpy arrays ``uint64[n, 1 + ceil(m / 64)]``: the
    function's number, and the bits from the lowest of the first word on. A tally has k m counters, ``[j, b]``: the
    reports with function j and bit b set.

    Raises:
        ParameterError: a parameter outside its interval.
        DomainError: another kind.

    >>> sketch = CountMeanSketch(epsilon=2.0, hashes=64, width=64)
    >>> tally = sketch.tally(sketch.perturb(["new york"] * 3000 + ["york"] * 1000))
    >>> tally.n, tally.counters.size
    (4000, 4096)
    >>> histogram = sketch.over(["york", "new york", "old york"]).estimate(tally)
    >>> histogram.values
    ('york', 'new york', 'old york')
    """

    name: ClassVar[str] = "count_mean_sketch"

    domain: OpenDomain
    epsilon: float
    hashes: int
    width: int
    variant: Variant
    salt: int

    def __init__(
        self,
        kind: OpenDomain | Literal["str", "int"] = "str",
        *,
        epsilon: float,
        hashes: int = 512,
        width: int = 128,
        variant: Variant = "optimized",
        salt: int = 0,
    ) -> None:
        bit = UnaryEncoding([0, 1], epsilon=epsilon, variant=variant)  # (checks both)
        self._set(kind, bit.epsilon, hashes, width, salt)
        object.__setattr__(self, "variant", variant)

    @cached_property
    def _encoding(self) -> UnaryEncoding:
        """The bits' p' and q' and the epsilon of two of them, which depend on no domain."""
        return UnaryEncoding([0, 1], epsilon=self.epsilon, variant=self.variant)

    @property
    def bucket_probability(self) -> tuple[Fraction, Fraction]:
        """See `CountMean`: those of a bit."""
        p, q = self._encoding.thresholds
        return fraction(p), fraction(q)

    @property
    def spread(self) -> Fraction:
        """See `CountMean`: with B the number of 1s, E B - E B^2 / m."""
        p, q = self.bucket_probability
        m = self.width
        ones = p + (m - 1) * q
        return ones - (ones**2 + p * (1 - p) + (m - 1) * q * (1 - q)) / m

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: the function does not depend on the value, and buckets differ in two bits."""
        return self._encoding.worst_ratio()

    @property
    def counters(self) -> int:
        """One a function and bucket."""
        return self.hashes * self.width

    @property
    def row(self) -> tuple[np.dtype[Any], int]:
        """See `Lists`: a function's number, and words of bits."""
        return np.dtype(np.uint64), 1 + bits.row_words(self.width)

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """Codes to uint64[n, 1 + ceil(m / 64)]."""
        n, size = len(codes), bits.row_bytes(self.width)
        p, q = self._encoding.thresholds
        reports = np.zeros((n, self.row[1]), np.uint64)
        vectors = reports.view(np.uint8)[:, 8 : 8 + size]
        step = max(_BLOCK // size, 1)
        for start in range(0, n, step):
            block = slice(start, min(start + step, n))
            part = noise.rows(block.start, block.stop)
            functions = part.uniform_below(self.hashes, block.stop - start, _FUNCTION)
            buckets = self.functions.at(functions, codes[block])
            rows = part.one_hot_rows(p, q, buckets, size, _BITS)
            bits.clear_padding(rows, self.width)
            reports[block, 0] = functions
            vectors[block] = rows
        return reports

    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """See `Mechanism`: the sums of the bits, for each function."""
        k, m = self.hashes, self.width
        cells = groups * k
        cells += reports[:, 0].astype(np.int64)
        return _sums(reports[:, 1:], cells, n_groups * k, m).reshape(n_groups, k * m)

    def table(self, counters: I64) -> I64:
        """See `CountMean`: the counters."""
        return counters.reshape(*counters.shape[:-1], self.hashes, self.width)

    def is_possible(self, n: int, counts: I64) -> bool:
        """See `Mechanism`: a report counts at most once in each column, and for one function."""
        return not counts.size or bool(counts.min() >= 0 and self.table(counts).max(axis=-1).sum() <= n)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`."""
        native = super().from_arrow(reports, column=column)
        wrong = native[:, 0] >= np.uint64(self.hashes)
        if self.width < _WORD:
            wrong |= native[:, -1] >> np.uint64(self.width) != 0
        if wrong.any():
            raise ReportError(
                f"column {column!r}: {np.count_nonzero(wrong)} of {len(native)} reports name a hash function or a "
                f"bucket that is not below {self.hashes} and {self.width}"
            )
        return native

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {
            "epsilon": self.epsilon,
            "hashes": self.hashes,
            "width": self.width,
            "variant": self.variant,
            "salt": self.salt,
        }


def _sums(vectors: U64, cells: I64, n_cells: int, m: int) -> I64:
    """The sums of the ``m`` bits of the reports in each cell, int64[n_cells, m]."""
    if n_cells * vectors.shape[1] > _LONG:
        return _sums_by_cell(vectors, cells, n_cells, m)
    out = np.zeros((n_cells, m), np.int64)
    for start in range(0, len(vectors), _ROWS):
        block, of_block = vectors[start : start + _ROWS], cells[start : start + _ROWS]
        sizes = np.bincount(of_block, minlength=n_cells)
        if sizes.max() * n_cells > 2 * len(block):  # few, or not spread as clients draw them (say, sorted)
            out += _sums_by_cell(block, of_block, n_cells, m)
        else:
            out += _sums_side_by_side(block, of_block, sizes)[:, :m]
    return out


def _sums_by_cell(vectors: U64, cells: I64, n_cells: int, m: int) -> I64:
    rows = np.ascontiguousarray(vectors).view(np.uint8)[:, : bits.row_bytes(m)]
    return bits.grouped_column_sums(np.ascontiguousarray(rows), m, cells, n_cells)


def _sums_side_by_side(vectors: U64, cells: I64, sizes: I64) -> I64:
    """The i-th reports of all cells make one long row.

    `bits.column_sums` adds a few long rows several times as fast as many short piles.
    """
    n, words = vectors.shape
    order = np.argsort(cells.astype(np.uint16), kind="stable")
    within = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = np.full((sizes.max(), len(sizes)), n)
    at[within, cells[order]] = order
    padded = np.zeros((n + 1, words), np.uint64)
    padded[:n] = vectors
    rows = padded.take(at, axis=0).view(np.uint8).reshape(len(at), -1)
    return bits.column_sums(rows, len(sizes) * words * _WORD).reshape(len(sizes), -1)


_ROWS = 1 << 17  # reports counted at a time
_LONG = 1 << 11  # words of a long row, of which a cache should hold many
_WORD = 64  # bits
_BLOCK = 1 << 19  # bytes of bits made at a time
_FUNCTION, _BITS = 0, 1  # lanes of noise
