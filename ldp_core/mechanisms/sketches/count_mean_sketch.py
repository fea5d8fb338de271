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
only records of one value are correlated. What F2 is the sketch itself says: see `CountMean.collisions`.

**Hadamard count mean sketch (HCMS)** (the same paper): one bit of the Hadamard transform of the value's bucket, in one
word; such a bit is also in R. Bassily, K. Nissim, U. Stemmer, A. Thakurta, "Practical Locally Private Heavy Hitters",
NIPS 2017. A report is (j, l, y): j uniform over the k functions, l over the m columns of Sylvester's matrix H[r, l] =
(-1)^<r, l>, and y = H[h_j(v), l] with probability p' = e^eps / (e^eps + 1), else its opposite. It supports w if
H[h_j(w), l] = y. Two different rows of H agree in half of the columns, so that over the functions

    p = p'        q = c p' + (1 - c) / 2        c = 1 / m

and all else is as for `CountMeanSketch` with q' = 1 / 2. The variance of a rare value is nearly
n ((e^eps + 1) / (e^eps - 1))^2 (m / (m - 1))^2, and what collisions add to it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.accounting.binomials import pmf, spread
from ldp_core.arrays.types import F64, I64, U64, Bools, Codes
from ldp_core.errors import ParameterError, no_warning_of_epsilon
from ldp_core.estimates.plausibility import Sums, Term
from ldp_core.exact.probability import agreement, check_resolved, fraction
from ldp_core.exact.random_functions import MOST_BUCKETS, RandomFunctions
from ldp_core.exact.sampling import ONE
from ldp_core.exact.transforms import walsh_hadamard
from ldp_core.inputs.open_domain import OpenDomain
from ldp_core.mechanism import ExpectedError, of_inner
from ldp_core.mechanisms.oracles.unary_encoding import UnaryEncoding, Variant
from ldp_core.mechanisms.sketches._numbered_bits import NumberedBits
from ldp_core.mechanisms.sketches.base import Sketch
from ldp_core.noise.base import Noise, coins
from ldp_core.noise.fresh import Keystream
from ldp_core.parameters import check_epsilon, check_integer, converted, parameter, shown
from ldp_core.poisoning import CountsOnes, chances_of_ones
from ldp_core.randomizer.tallying import NumberedCounters
from ldp_core.reports import Native
from ldp_core.reports.bits import row_bytes
from ldp_core.simulated_counts import Generator, inner_products, scatter

_MOST_CELLS = 1 << 26
"""Of a sketch: half a GiB of counts."""
MOST_SALT = (1 << 64) - 1


def check_width(name: str, value: int, hashes: int) -> int:
    """A power of two, and not too large for so many hash functions."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 2 <= value <= MOST_BUCKETS or value & (value - 1):
        raise ParameterError(f"{name} must be a power of two in [2, {MOST_BUCKETS}], got {shown(value)}")
    if hashes * value > _MOST_CELLS:
        raise ParameterError(f"hashes * {name} must be at most {_MOST_CELLS}, got {hashes * value}")
    return value


class CountMean(Sketch):
    """What Apple's two sketches share: k functions to m buckets, and how many reports speak for each bucket."""

    domain: OpenDomain
    epsilon: float
    hashes: int
    width: int
    salt: int

    @property
    @abstractmethod
    def bucket_probabilities(self) -> tuple[Fraction, Fraction]:
        """Pr[a report speaks for its own value's bucket], Pr[... for some other given one], of its function."""

    @property
    @abstractmethod
    def expected_squares(self) -> Fraction:
        """Expected sum of squares, over the m buckets, of whether a report speaks for each, less their mean."""

    @abstractmethod
    def table(self, counters: I64) -> I64:
        """int64[..., k, m]: how many of the reports with each function speak for each bucket."""

    @cached_property
    def functions(self) -> RandomFunctions:
        """The k public hash functions."""
        return RandomFunctions(self.hashes, self.width, self.salt)

    def simulate_buckets(self, codes: Codes, people: I64, generator: Generator) -> I64:
        """int64[k, m]: how many people might draw each function, and have each bucket under it."""
        table, m = np.zeros(self.hashes * self.width, np.int64), self.width

        def cell(values: I64, functions: I64) -> I64:
            return functions * m + self.functions.at(functions.astype(np.uint32), codes[values])

        scatter(people, self.hashes, cell, table, generator)
        return table.reshape(self.hashes, m)

    @override
    def support_probabilities(self) -> tuple[Fraction, Fraction]:
        """Over the functions, two values collide with probability 1 / m."""
        own, other = self.bucket_probabilities
        c = self.functions.collision
        return own, c * own + (1 - c) * other

    @override
    def support_of(self, counters: I64, codes: Codes) -> I64:
        return self.functions.sums(self.table(counters), codes)

    @override
    def collisions(self, n: Any, counters: I64) -> tuple[F64, float]:
        """((F2 - c^2) - (n - c)) / (k (m - 1)) of a count c, with an unbiased estimate of F2.

        Let T be the table and T' the mean of a row of it. A report contributes `expected_squares` to the sum of
        (T - T')^2 by itself, and pairs of reports (p' - q')^2 / k (1 - c) if their values are equal and 0 if not, on
        average over the functions. So

            (F2 - n) / (k (m - 1)) = m (sum of (T - T')^2 - n expected_squares) / ((m - 1)^2 (p' - q')^2).

        It is an estimate with a relative error of sqrt(2 / (k m)), counted in variances of the noise.
        """
        own, other = self.bucket_probabilities
        m = self.width
        table: F64 = self.table(counters).astype(float)
        table -= table.mean(axis=-1, keepdims=True)
        excess: F64 = np.square(table, out=table).sum(axis=(-2, -1))[..., None] - n * float(self.expected_squares)
        per_pair = 1 / (self.hashes * (m - 1))
        n = np.asarray(n, float)
        pairs = np.clip(excess * (m / ((m - 1) ** 2 * float(own - other) ** 2)), 0, n * (n - 1) * per_pair)
        return pairs, per_pair

    @property
    @override
    def collision_skewness(self) -> float:
        """(1 - 2 c) / sqrt(k c (1 - c)), c = 1 / m: of the functions, among k, under which two values collide.

        (Of all distributions with this F2 that with one heavy value is the most skewed.)
        """
        return (self.width - 2) / math.sqrt(self.hashes * (self.width - 1))

    @override
    def collided(self) -> tuple[F64, F64]:
        """All k functions send two values to one bucket with probability c = 1 / m each: (A - c) / (1 - c)."""
        k, c = self.hashes, 1 / self.width
        first, last = spread(k, c, 1 - c, 1e-12)
        under = np.arange(first, last + 1.0)
        return (under / k - c) / (1 - c), pmf(under, np.array(float(k)), c, 1 - c)

    @override
    def collision_error(self, beta: float) -> float:
        """Bernstein: a function moves a frequency by at most 1, by a variance of at most 1 / (m - 1)."""
        level = math.log(2 / beta) / self.hashes
        return level / 3 + math.sqrt((level / 3) ** 2 + 2 * level / (self.width - 1))

    @override
    def explain(self, n: int) -> ExpectedError:
        """The standard error of a value of any share, without the collisions, which depend on the others."""
        p, q = self.support_probabilities()
        error = math.sqrt(n * float(max(p * (1 - p), q * (1 - q)))) / float(p - q)
        share = error / n if n else math.inf
        return ExpectedError(error, "records", share)


@dataclass(frozen=True, init=False)
class CountMeanSketch(CountsOnes, CountMean):
    """Report the number of a hash function and m bits, of which that of the value's bucket is 1 with probability p'.

    Args:
        kind: ``"str"`` or ``"int"``: any text, or any integer.
        hashes: k, the number of hash functions.
        width: m, the number of buckets: a power of two.
        variant: of the bits: ``"optimized"`` (as OUE) or ``"symmetric"`` (as in Apple's paper).
        salt: chooses other hash functions.

    Reports are ``FixedSizeList<uint64, 1 + ceil(m / 64)>``, as numpy arrays ``uint64[n, 1 + ceil(m / 64)]``: the
    function's number, and the bits from the lowest of the first word on. A tally has k m counters, ``[j, b]``: the
    reports with function j and bit b set.

    >>> sketch = CountMeanSketch(epsilon=2.0, hashes=64, width=64)
    >>> tally = sketch.tally(sketch.perturb(["new york"] * 3000 + ["york"] * 1000))
    >>> tally.n, tally.counters.size
    (4000, 4096)
    >>> sketch.over(["york", "new york", "old york"]).estimate(tally).values
    ('york', 'new york', 'old york')
    """

    name: ClassVar[str] = "count_mean_sketch"
    chunk: ClassVar[int] = 1 << 19
    parallel: ClassVar[tuple[type[Noise], ...]] = (Keystream,)

    domain: OpenDomain = converted(OpenDomain.of)
    epsilon: float = parameter(check_epsilon)
    hashes: int = parameter(check_integer, low=1)
    width: int = parameter(check_width, hashes=lambda self: self.hashes)
    variant: Variant = parameter()
    salt: int = parameter(check_integer, low=0, high=MOST_SALT)

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
        self._declare(domain=kind, epsilon=epsilon, hashes=hashes, width=width, variant=variant, salt=salt)
        _ = self._encoding  # (refuses a variant that does not exist, and an epsilon that is too small)

    @cached_property
    @no_warning_of_epsilon()
    def _encoding(self) -> UnaryEncoding:
        """The bits' p' and q' and the epsilon of two of them, which depend on no domain."""
        return UnaryEncoding([0, 1], epsilon=self.epsilon, variant=self.variant)

    @property
    @override
    def bucket_probabilities(self) -> tuple[Fraction, Fraction]:
        p, q = self._encoding.thresholds
        return fraction(p), fraction(q)

    @property
    @override
    def expected_squares(self) -> Fraction:
        """With B the number of 1s, E B - E B^2 / m."""
        p, q = self.bucket_probabilities
        m = self.width
        ones = p + (m - 1) * q
        return ones - (ones**2 + p * (1 - p) + (m - 1) * q * (1 - q)) / m

    worst_ratio = of_inner("worst_ratio", "_encoding")  # (the function does not depend on the value)

    @property
    @override
    def counters(self) -> int:
        return self.hashes * self.width

    @property
    @override
    def reports(self) -> NumberedBits:
        return NumberedBits.of(self.hashes, self.width)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        p, q = self._encoding.thresholds
        functions = noise.uniform_below(self.hashes, len(codes), _FUNCTION)
        buckets = self.functions.at(functions, codes)
        return self.reports.joined(functions, noise.one_hot_rows(p, q, buckets, row_bytes(self.width), _BITS))

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        cells = self.reports.cells(reports, groups)
        return self.reports.sums(reports, cells, n_groups * self.hashes).reshape(n_groups, self.counters)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        table = self.simulate_buckets(codes, people, generator)
        p, q = (float(x) for x in self.bucket_probabilities)
        others = table.sum(axis=1, keepdims=True) - table
        counters: I64 = generator.binomial(table, p) + generator.binomial(others, q)
        return counters.reshape(-1)

    ones = of_inner("ones", "reports")

    @override
    def ones_chances(self) -> F64:
        p, q = self.bucket_probabilities
        return chances_of_ones(self.width, [1], float(p), float(q))

    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        """How often each function's bits were 1."""
        p, q = (float(x) / self.hashes for x in self.bucket_probabilities)
        return (Sums(counters, n, Term(q, p, 0.0, 1.0)),)

    @override
    def table(self, counters: I64) -> I64:
        return counters.reshape(*counters.shape[:-1], self.hashes, self.width)

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """A report counts at most once in each column, and for one function."""
        return super().is_possible(n, counters) & (self.table(counters).max(axis=-1).sum(axis=-1) <= n)


_FUNCTION, _BITS = 0, 1  # lanes of noise


@dataclass(frozen=True, init=False)
class HadamardCountMeanSketch(NumberedCounters, CountMean):
    """Report a hash function, a column of a Hadamard matrix, and whether the value's bucket is +1 there, perturbed.

    Args are those of `CountMeanSketch`.

    Reports are one ``uint64`` each, 2 (j m + l) + (y = 1), which is also the number of the counter that counts it: a
    tally has 2 k m, which add up to n.

    >>> sketch = HadamardCountMeanSketch("int", epsilon=2.0)
    >>> tally = sketch.tally(sketch.perturb([17] * 3000 + [2**40] * 1000))
    >>> sketch.over([17, 18, 2**40]).estimate(tally).values
    (17, 18, 1099511627776)
    """

    name: ClassVar[str] = "hadamard_count_mean_sketch"

    domain: OpenDomain = converted(OpenDomain.of)
    epsilon: float = parameter(check_epsilon)
    hashes: int = parameter(check_integer, low=1)
    width: int = parameter(check_width, hashes=lambda self: self.hashes)
    salt: int = parameter(check_integer, low=0, high=MOST_SALT)

    def __init__(
        self,
        kind: OpenDomain | Literal["str", "int"] = "str",
        *,
        epsilon: float,
        hashes: int = 512,
        width: int = 128,
        salt: int = 0,
    ) -> None:
        self._declare(domain=kind, epsilon=epsilon, hashes=hashes, width=width, salt=salt)
        check_resolved(self.epsilon, lambda: (self._agree, ONE // 2))

    @cached_property
    def _agree(self) -> int:
        return agreement(self.epsilon)

    @property
    @override
    def bucket_probabilities(self) -> tuple[Fraction, Fraction]:
        """Two rows of the matrix agree in half of the columns."""
        return fraction(self._agree), Fraction(1, 2)

    @property
    @override
    def expected_squares(self) -> Fraction:
        """A column is half +1 and half -1, but for column 0, which is the same for all buckets."""
        return Fraction(self.width - 1, 4)

    @override
    def worst_ratio(self) -> Fraction:
        """Function and column do not depend on the value, the bit is a randomized response."""
        p = fraction(self._agree)
        return p / (1 - p)

    @property
    @override
    def counters(self) -> int:
        return 2 * self.hashes * self.width

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> U64:
        n = len(codes)
        agree = coins(noise, self._agree, n, _AGREE)
        cells = noise.uniform_below(self.hashes * self.width, n, _CELL).astype(np.uint32)
        odd = self._odd(cells, codes)
        odd ^= agree
        odd &= 1
        reports: U64 = cells.astype(np.uint64)
        reports <<= np.uint64(1)
        reports |= odd
        return reports

    def _odd(self, cells: npt.NDArray[np.uint32], codes: Codes) -> npt.NDArray[np.uint8]:
        """How many bits the buckets have in common with the columns: if their number is odd, the matrix has -1."""
        columns = cells.astype(np.uint16)
        columns &= np.uint16(self.width - 1)
        rows = self.functions.at(cells >> np.uint32(self.width.bit_length() - 1), codes)
        rows &= columns
        return np.bitwise_count(rows)

    def supports(self, reports: U64, code: Any) -> Bools:
        """Of each report, whether it says that its column has +1 for what this code is counted by."""
        odd = self._odd((reports >> np.uint64(1)).astype(np.uint32), np.full(len(reports), code))
        return (odd ^ reports.astype(np.uint8)) & 1 == 1

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        table = self.simulate_buckets(codes, people, generator)
        agree = generator.binomial(table, float(fraction(self._agree)))
        return inner_products(np.stack([table - agree, agree], axis=-1), generator).reshape(-1)

    @override
    def bounded_sums(self, n: Any, counters: I64, counts: F64 | None) -> Sequence[Sums]:
        p, cells = float(fraction(self._agree)), self.hashes * self.width
        return (Sums(counters, n, Term((1 - p) / cells, p / cells, 0.0, 1.0)),)

    @override
    def table(self, counters: I64) -> I64:
        """The transform is, for each row of the matrix, reports that agree less those that do not."""
        k, m = self.hashes, self.width
        pairs = counters.reshape(-1, m, 2)
        agree = walsh_hadamard(pairs[:, :, 1] - pairs[:, :, 0])
        agree += pairs.sum(axis=(1, 2))[:, None]
        agree >>= 1
        return agree.reshape(*counters.shape[:-1], k, m)


_AGREE, _CELL = 0, 1  # lanes of noise
