"""Summation with histogram encoding (SHE): Laplace noise on each entry of a one-hot vector, and the sum of reports.

Wang et al. 2017, section 4.2: two inputs differ by 1 in two entries, so that noise of scale 2 / epsilon on each makes
the vector epsilon-private; the sum of n reports has the variance n 8 / epsilon^2 in each entry.

Laplace variables in floating point are not private (I. Mironov, "On Significance of the Least Significant Bits for
Differential Privacy", CCS 2012). So this is the *discrete* Laplace distribution (A. Ghosh, T. Roughgarden,
M. Sundararajan, "Universally Utility-Maximizing Privacy Mechanisms", STOC 2009): entries are integers, the true
value's is ``unit``, and

    Pr[noise = k] = (1 - a) / (1 + a) a^|k|        a = exp(-epsilon / (2 unit))
    n Var = 2 a / (1 - a)^2 / unit^2 < 8 / epsilon^2

The finer the grid, the nearer to 8 / epsilon^2 *from below*: within 0.1 % of it from unit = 5 epsilon on, while
unit = 1 has the least variance, 1 / (cosh(epsilon / 2) - 1). Noise that is far out is moved to the end of a finite
range, in which every entry has a probability of at least 2^-34 under every input: privacy needs that, and the
estimator knows it.

`ThresholdHistogramEncoding` sends which entries exceed a threshold instead: bits, and less variance. OUE has the least.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, U64, Bools, Codes
from ldp_core.compute import kernels
from ldp_core.errors import ParameterError, ReportError
from ldp_core.estimates.consistency import Rates
from ldp_core.estimates.plausibility import Term
from ldp_core.exact.probability import exp_below
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanisms.oracles.base import Uncorrelated
from ldp_core.mechanisms.oracles.unary_encoding import total_of_bits
from ldp_core.noise.base import Noise
from ldp_core.noise.fresh import Keystream
from ldp_core.parameters import check_epsilon, check_integer, converted, parameter
from ldp_core.reports import Native, Row
from ldp_core.simulated_counts import Generator, by_code, multinomials
from ldp_core.tally import Tally


@dataclass(frozen=True, init=False)
class SummationHistogramEncoding(Uncorrelated):
    """Report the one-hot vector with discrete Laplace noise on each of its d entries.

    It is no pure protocol, but the same estimator serves: ``p`` and ``q`` are the *expected entries* of the true value
    and of another one (``unit`` and 0, but for the finite range), and a tally holds the sums of the entries.

    Args:
        domain: with ``unmatched="none"`` a value outside it is the all-zero vector, perturbed.
        epsilon: at least about 0.0015 * unit. Above 36 nothing is gained.
        unit: the true value's entry, in [1, 64]; 1, the default, has the least variance.

    Reports are ``FixedSizeList<int8, d>``, or of the wider integers that `entries` need (below epsilon 0.3 ``int16``,
    with ``unit`` 1); as numpy arrays ``int8[n, d]``.

    >>> m = SummationHistogramEncoding(["a", "b", "c"], epsilon=1.0)
    >>> round(m.variance(1), 6), m.entries  # 8 in real numbers
    (7.835396, (-43, 44))
    """

    name: ClassVar[str] = "summation_histogram_encoding"
    chunk: ClassVar[int] = 1 << 19  # 1 MiB of leading bits
    parallel: ClassVar[tuple[type[Noise], ...]] = (Keystream,)

    domain: Domain = converted(Domain.of)
    epsilon: float = parameter(check_epsilon)
    unit: int = parameter(check_integer, low=1, high=64)

    def __init__(
        self, domain: Domain | Iterable[Label], *, epsilon: float, unit: int = 1, unmatched: Unmatched = "error"
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon=epsilon, unit=unit)
        if not self._step > 0 or math.log(1 / _RAREST) / self._step > _MOST_ENTRIES:
            raise ParameterError("epsilon is too small for this unit: it must be above about 0.0015 * unit")

    @cached_property
    @override
    def reports(self) -> _Entries:
        dtype = np.result_type(np.min_scalar_type(self.entries[0] - 1), np.min_scalar_type(-self.entries[1] - 1))
        return _Entries(dtype, self.domain.size, *self.entries)

    @property
    def _step(self) -> float | Fraction:
        """The epsilon of a step of the grid, less 2^-28 in all: weights of 2^30 and more are rounded by less than 1."""
        half = Fraction(min(self.epsilon, _SATURATED)) / 2
        return (half - Fraction(1, 1 << 28)) / self.unit

    @cached_property
    def entries(self) -> tuple[int, int]:
        """The least and the greatest entry of a report: symmetric about unit / 2."""
        weights = self._weights
        return self.unit - weights[0], weights[0]

    @cached_property
    def _weights(self) -> tuple[int, list[int]]:
        """The greatest entry, and the integer weights over 2^64 of all entries, the least first, where 0 is true.

        A weight is the difference of two cumulative ones, rounded down: of integers over 2^256.
        """
        one = 1 << _FIXED
        a = math.ceil(one / exp_below(Fraction(self._step)))
        power, powers = one, [one]  # a^k
        while power * (one - a) // (one + a) > one * _RAREST:
            power = power * a >> _FIXED
            powers.append(power)
        top = len(powers) - 2
        above = [power * one // (one + a) for power in powers[:-1]]  # Pr[noise >= k], k >= 0
        below = above[1 : top - self.unit + 1][::-1]  # Pr[noise <= -k], k = top - unit .. 1
        cumulative = [*below, *(one - x for x in above[1:]), one]
        rounded = [0, *(x >> (_FIXED - _BITS) for x in cumulative)]
        return top, [high - low for low, high in pairwise(rounded)]

    @cached_property
    def _thresholds(self) -> U64:
        """Cumulative weights: a word that is at least i of them is entry number i."""
        return np.cumsum(np.array(self._weights[1][:-1], np.uint64), dtype=np.uint64)

    @cached_property
    def _open(self) -> int:
        return int(np.iinfo(self.reports.dtype).min)

    @cached_property
    def _by_head(self) -> npt.NDArray[Any]:
        """For each leading 16 bits of a word the entry that it is, or `_open` if the other bits decide."""
        first = np.arange(1 << 16, dtype=np.uint64) << _TAIL_BITS
        low, high = (self._entry_of(words) for words in (first, first | (_ONE << _TAIL_BITS) - _ONE))
        return np.where(low == high, low, self._open).astype(self.reports.dtype)

    @cached_property
    def _moments(self) -> tuple[Fraction, Fraction]:
        """Exact mean and variance of an entry where 0 is true; where unit is, it is the mirror image."""
        low, weights = self.entries[0], self._weights[1]
        mean = Fraction(sum(k * w for k, w in enumerate(weights, low)), ONE)
        return mean, Fraction(sum(k * k * w for k, w in enumerate(weights, low)), ONE) - mean**2

    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        """Exact (p, q) of each value: the expected entry of the value if it is true, if another one is."""
        d, mean = self.domain.size, self._moments[0]
        return [self.unit - mean] * d, [mean] * d

    @property
    def parts(self) -> tuple[float, float]:
        """The least and the greatest entry."""
        return float(self.entries[0]), float(self.entries[1])

    @override
    def variance(self, n: float, count: Any = 0.0) -> Any:
        return n * float(self.rates.a[0]) + 0 * count

    @cached_property
    @override
    def rates(self) -> Rates:
        p, q = self.support_probabilities()
        d, difference = self.domain.size, float(p[0] - q[0])
        variance = float(self._moments[1]) / difference**2
        return Rates(np.full(d, float(q[0])), np.full(d, variance), np.zeros(d), difference)

    @cached_property
    @override
    def count_term(self) -> Term:
        return replace(super().count_term, variance=float(self.rates.a[0]))

    @cached_property
    @override
    def total_term(self) -> Term:
        return replace(total_of_bits(self), variance=float(self.rates.a[0]))

    @property
    @override
    def step(self) -> float:
        """One entry: where the noise moves few of them."""
        return 1 / self.rates.difference

    @override
    def error_score(self, errors: F64, n: F64, variance: F64) -> F64:
        """Of a greater variance than the noise has, as that of a sample is, the shape is taken to be the same."""
        return self.tails(np.abs(errors) / np.sqrt(np.maximum(variance, n * self.rates.a[0])), n)

    @override
    def tails(self, z: F64, n: Any) -> F64:
        """Of n discrete Laplace variables: sqrt(2 n I), I the Legendre transform of ln E exp(y noise).

        exp(-n I) is Chernoff's bound. The root in place of it is the leading term of the tail (R. Lugannani, S. Rice,
        Advances in Applied Probability 12(2), 1980), taken one entry nearer, as in `two_point_score`.
        """
        a = math.exp(-float(self._step))
        t = np.maximum(z * self.rates.difference * np.sqrt(n * self.rates.a[0]) - 1, 0) / n
        # The root of a y / (1 - a y) - a / (y - a) = t in [1, 1 / a).
        y = (t * (1 + a**2) + np.hypot(t * (1 - a**2), 2 * a)) / (2 * a * (1 + t))
        exponent = t * np.log(y) + np.log1p(-a * (y - 1) / (1 - a)) + np.log1p(a * (y - 1) / (y * (1 - a)))
        return np.sqrt(np.maximum(2 * n * exponent, 0))

    def accuracy(self, n: int, beta: float = 0.05) -> float:
        """The alpha with Pr[|estimated - true frequency| >= alpha] <= beta, for one value.

        Bernstein's inequality for n independent entries of variance V in an interval of length R:
        Pr[|sum - mean| >= s] <= 2 exp(-s^2 / (2 n V + 2 R s / 3)).
        """
        super().accuracy(n, beta)  # refuses what is not a number of reports or a probability
        logarithm = math.log(2 / beta)
        linear = (self.entries[1] - self.entries[0]) * logarithm / 3
        sum_error = linear + math.sqrt(linear**2 + 2 * n * float(self._moments[1]) * logarithm)
        return sum_error / (n * self.rates.difference)

    @override
    def worst_ratio(self) -> Fraction:
        """Two entries differ, one each way (with ``unmatched="none"`` also one, which is less)."""
        weights = self._weights[1]
        return max(Fraction(x, y) for x, y in zip(weights[::-1], weights, strict=True)) ** 2

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        """Codes to int8[n, d] (or wider); `unmatched_code` under ``"none"`` has no true entry."""
        n, d = len(codes), self.domain.size
        entries = self._draw_entries(n, noise)
        true = np.arange(0, len(entries), d)
        true += codes
        if self.domain.unmatched == "none":
            true = true[codes < d]
        entries[true] = self.unit - entries[true]  # the mirror image
        return entries.reshape(n, d)

    def _draw_entries(self, n: int, noise: Noise) -> npt.NDArray[Any]:
        """Entries where 0 is true, by inversion of the cumulative distribution of a 64-bit word.

        Its leading 16 bits settle nearly all; the others are drawn for the rest.
        """
        heads = noise.head_rows(n, self.domain.size, _ENTRIES).reshape(-1)
        out: npt.NDArray[Any] = np.empty(len(heads), self.reports.dtype)
        still = np.empty(len(heads), np.int64)
        found = kernels.looked_up(heads, self._by_head, self._open, out, still)
        if found is None:  # (np.take would make int64 of the heads.)
            out = pa.array(self._by_head).take(pa.array(heads)).to_numpy().copy()
            still = np.flatnonzero(out == self._open)
        else:
            still = still[:found]
        words = heads[still].astype(np.uint64) << _TAIL_BITS
        words |= noise.tails(*np.divmod(still, self.domain.size), _ENTRIES)
        out[still] = self._entry_of(words)
        return out

    def _entry_of(self, words: U64) -> I64:
        return np.searchsorted(self._thresholds, words, side="right") + self.entries[0]

    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """int64[n_groups, d]: the sums of the entries."""
        out = np.zeros((n_groups, self.domain.size), np.int64)
        if n_groups > 1 and np.any(groups[1:] < groups[:-1]):
            order = np.argsort(groups, kind="stable")
            reports, groups = reports.take(order, axis=0), groups[order]
        for start in range(0, len(reports), _ROWS):
            block, of = reports[start : start + _ROWS], groups[start : start + _ROWS]
            if of[0] == of[-1]:
                out[of[0]] += _sums(block, self.entries[1])
            else:
                first = np.flatnonzero(np.diff(of, prepend=-1))
                out[of[first]] += np.add.reduceat(np.ascontiguousarray(block.T), first, axis=1, dtype=np.int64).T
        return out

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        return self.weights_by(reports[:, code], code)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        have = by_code(codes, people, self.domain.size + 1)[:-1]
        drawn = multinomials(np.array([have, people.sum() - have]), np.array(self._weights[1], float), generator)
        true, others = drawn @ np.arange(self.entries[0], self.entries[1] + 1)
        return self.unit * have - true + others

    @property
    @override
    def most_reports(self) -> int:
        return super().most_reports // self.entries[1]

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        low, high = self.entries
        return (n * low <= counters.min(axis=-1)) & (counters.max(axis=-1) <= n * high)

    @override
    def tally(self, reports: Any, *, column: str = "reports") -> Tally:
        """As of any mechanism, but checks and adds up block by block, which reads the reports from memory once."""
        rows = self.reports.rows(self._reports_as_arrow(reports, column), column)
        sums = np.zeros(self.domain.size, np.int64)
        if not kernels.entry_sums(rows.reshape(-1), *self.entries, sums):
            sums[:] = 0  # what the kernel has added before it saw that an entry is out of range
            step = max(_TALLIED // self.domain.size, 1)
            for start in range(0, len(rows), step):
                block = rows[start : start + step]
                sums += _sums(block, self.reports.greatest(block, column))
        return Tally(len(rows), sums, self.fingerprint)


@dataclass(frozen=True)
class _Entries(Row):
    """Rows of integers from ``low`` to ``high``."""

    low: int
    high: int

    @override
    def empty(self, n: int) -> Native:
        memory = pa.allocate_buffer(n * self.size * self.dtype.itemsize)  # Arrow hands out pages again, numpy new ones
        return np.ndarray((n, self.size), self.dtype, memory)

    @override
    def check(self, rows: Native, column: str) -> None:
        self.greatest(rows, column)

    def greatest(self, rows: Native, column: str) -> int:
        """The greatest absolute value of an entry; raises `ReportError` if one is out of range."""
        least, most = (int(rows.min()), int(rows.max())) if rows.size else (0, 0)
        if not self.low <= least <= most <= self.high:
            raise ReportError(f"column {column!r}: entries must be in [{self.low}, {self.high}]")
        return max(-least, most)


_MOST_ENTRIES = 1 << 15
_SATURATED = 36  # epsilon / 2 = 18: the rarest entry that privacy needs still has a weight of 2^30
_RAREST = Fraction(1, 1 << 34)
_FIXED = 256  # bits of the fixed-point numbers that weights are made of
_BITS = 64
_ONE, _TAIL_BITS = np.uint64(1), np.uint64(48)
_ROWS = 1 << 12  # reports added up at a time
_TALLIED = 1 << 19  # entries that are checked and added up at a time
_PARTS = 1 << 6  # rows whose 8-bit sums are added in 16 bits, at most 2^8
_ENTRIES = 0  # lane of noise


def _sums(rows: npt.NDArray[Any], greatest: int) -> I64:
    """The sum of each column, of entries in [-greatest, greatest]; of a few of them in the type that they have."""
    whole = len(rows) - len(rows) % _PARTS
    rest, rows = rows[whole:].sum(axis=0, dtype=np.int64), rows[:whole]
    beyond, wide = 1 << (8 * rows.itemsize - 1), np.int16 if rows.itemsize == 1 else np.int64
    while len(rows) and len(rows) % (2 * _PARTS) == 0 and 2 * greatest < beyond:
        half = len(rows) // 2
        rows = rows[:half] + rows[half:]
        greatest *= 2
    parts = np.add.reduce(rows.reshape(_PARTS, -1), axis=0, dtype=wide).reshape(-1, rows.shape[1])
    return parts.sum(axis=0, dtype=np.int64) + rest
