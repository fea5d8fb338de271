"""dBitFlipPM: a person answers for a few buckets only, for ever the same ones, with permanent bits.

B. Ding, J. Kulkarni, S. Yekhanin, "Collecting Telemetry Data Privately", NeurIPS 2017, sections 3 and 4: of b buckets a
person draws d, once and for all, and reports for each of them whether the value is in it, by a randomized response
with p = e^(eps/2) / (e^(eps/2) + 1), q = 1 - p. With n reports, of which S[v] are about bucket v and O[v] say yes,

    estimate[v] = (b / d) (O[v] - q S[v]) / (p - q)                                    (ibid., section 3.2)
    variance[v] = (b / d) n q (1 - q) / (p - q)^2 + (b / d - 1) c

where c is the true count. Estimates of different buckets are uncorrelated: given which d they are bits are independent,
and what one adds to a bucket that is not the value's has mean 0. The bits are permanent: a function of the person and
of which of the d buckets the value is in, if any. So a person has at most min(d + 1, b) answers, however often the
value changes.

There is no second round: all reports of one value are equal, and spend what one does. Two reports that differ show
that the value did, which no epsilon bounds. Values that are in none of the person's buckets share an answer, so that
this holds even where it is known which reports have the same value, unless there is at most one such value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.arrays.types import F64, I64, Bools, Codes
from ldp_core.errors import ReportError
from ldp_core.estimates.consistency import Rates
from ldp_core.exact.composition import History, Spent, memoryless
from ldp_core.exact.probability import agreement, check_resolved, fraction
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.domain import Domain, Label, Unmatched
from ldp_core.mechanism import Mechanism
from ldp_core.mechanisms.longitudinal.two_rounds import Longitudinal
from ldp_core.mechanisms.oracles.base import Uncorrelated, n_codes
from ldp_core.noise.base import Noise
from ldp_core.parameters import check_epsilon, check_integer, converted, parameter
from ldp_core.poisoning import CountsOnes, chances_of_ones
from ldp_core.reports import Native, Row
from ldp_core.reports.bits import row_bytes
from ldp_core.simulated_counts import Generator, by_code, subset_sums


@dataclass(frozen=True, init=False)
class DBitFlip(CountsOnes, Longitudinal, Uncorrelated):
    """Report d permanent bits of the value's one-hot vector, at places that are the person's own for ever.

    Args:
        domain: the buckets, a `Domain` or a list of labels. With ``unmatched="none"`` a value outside it is in none.
        epsilon_infinity: of all reports about one bucket, and of each, as there is no second round.
        bits: d, from 1 to the number of buckets.

    Reports are ``FixedSizeList<uint16, d>`` (uint32 from 32,769 buckets on): bucket * 2 + bit, for d different
    buckets. They take keyed noise. A tally has two counters a bucket: how many reports said 0 of it, and how many 1.

    With ``bits=1`` the whole of epsilon is that bit's (the paper halves it there too).

    >>> m = DBitFlip(range(24), epsilon_infinity=2.0, bits=4)
    >>> m.permanent_answers, m.epsilon_of(1000), m.epsilon_of(2, changes=1)
    (5, 2.0, inf)
    """

    name: ClassVar[str] = "d_bit_flip"
    chunk: ClassVar[int] = 1 << 17  # buckets stay in the L2 cache

    domain: Domain = converted(Domain.of)
    epsilon_infinity: float = parameter(check_epsilon)
    bits: int = parameter(check_integer, low=1, high=lambda self: min(self.domain.size, _MOST_BITS))

    def __init__(
        self, domain: Domain | Iterable[Label], *, epsilon_infinity: float, bits: int, unmatched: Unmatched = "error"
    ) -> None:
        self._declare(domain=Domain.of(domain, unmatched), epsilon_infinity=epsilon_infinity, bits=bits)
        check_resolved(self.epsilon_infinity, lambda: (self._keep, ONE // 2), name="epsilon_infinity")

    @property
    @override
    def reports(self) -> _BucketBits:
        return _BucketBits(np.dtype(self._dtype), self.bits, self.domain.size)

    @property
    def epsilon_1(self) -> float:  # type: ignore[override]
        """What one report spends: all, since there is no second round."""
        return self.epsilon_infinity

    @property
    @override
    def permanent_answers(self) -> int:
        """One for each of the d buckets, and one for the others, if there are any."""
        return min(self.bits + 1, super().permanent_answers)

    @property
    def counters(self) -> int:
        """2 b: for each bucket, how many reports said 0 and how many 1."""
        return 2 * self.domain.size

    @cached_property
    def _keep(self) -> int:
        """Pr[a bit is reported as it is], as an integer over 2^64, rounded down."""
        return agreement(Fraction(self.epsilon_infinity) / min(self.bits, 2))

    @property
    def _rate(self) -> Fraction:
        """``d / b``: how likely a person's bits are to include a given bucket's."""
        return Fraction(self.bits, self.domain.size)

    @override
    def support_probabilities(self) -> tuple[list[Fraction], list[Fraction]]:
        b, p = self.domain.size, fraction(self._keep)
        return [self._rate * p] * b, [self._rate * (1 - p)] * b

    @override
    def worst_ratio(self) -> Fraction:
        """Which buckets does not depend on the value; two values differ in two bits, or in the one."""
        p = fraction(self._keep)
        return (p / (1 - p)) ** min(self.bits, 2)

    @override
    def permanent_ratio(self) -> Fraction:
        return self.worst_ratio()

    @property
    @override
    def answers_apart(self) -> bool:
        """If of two values at least one has a bit."""
        return n_codes(self.domain) - self.bits <= 1

    @override
    def spent_by(self, history: History) -> Spent:
        """As keyed noise on a mechanism of one round."""
        return memoryless(replace(history, keyed=True), self.epsilon_infinity, apart=self.answers_apart)

    @override
    def variance(self, n: float, count: Any = 0.0) -> Any:
        """Of the paper's estimator, which knows how many reports were about a bucket."""
        return self.rates.a[0] * n + self.rates.b[0] * count

    @property
    def parts(self) -> tuple[float, float]:
        """Of a report about the bucket that says 0, and of one that says 1; see `debias`."""
        less = float((1 - fraction(self._keep)) * (1 - self._rate))
        return -less, 1 - less

    @override
    def extremes(self) -> list[F64]:
        """Reports of d times 1, and of d times 0; what a report is not about it does not move."""
        p = fraction(self._keep)
        moves = [float(part / self._rate / (2 * p - 1)) for part in (p, p - 1)]
        return [np.where(np.arange(self.domain.size) < self.bits, move, 0.0) for move in moves]

    @cached_property
    @override
    def rates(self) -> Rates:
        size, p = self.domain.size, fraction(self._keep)
        per_report = p * (1 - p) / (2 * p - 1) ** 2 / self._rate
        yes, no = self.support_probabilities()
        return Rates(
            np.array(no, float),
            np.full(size, float(per_report)),
            np.full(size, float(1 / self._rate - 1)),
            float(yes[0] - no[0]),
        )

    @override
    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """The 1s of a bucket are first corrected for how many more or fewer than n d / b reports were about it."""
        said = counters.reshape(*counters.shape[:-1], self.domain.size, 2)
        about, q = said.sum(axis=-1), float(1 - fraction(self._keep))
        ones = said[..., 1] + q * (n * float(self._rate) - about)
        return super().debias(n, ones, confidence=confidence, simultaneous=simultaneous)

    @override
    def weights_of(self, reports: Native, code: int) -> F64:
        no, yes = ((reports == 2 * code + bit).any(axis=1) for bit in (0, 1))
        return self.weights_by(yes + float(1 - fraction(self._keep)) * (float(self._rate) - (no | yes)), code)

    @override
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        out = self.reports.empty(len(codes))
        width = row_bytes(self.bits)
        buckets = self._buckets(len(codes), noise.of_persons())
        none = np.min_scalar_type(8 * width).type(8 * width)
        place = np.full(len(codes), none)  # of the value's bucket among the person's, of which one at most is it
        for k, bucket in enumerate(buckets):
            place -= (bucket == codes) * (none - k)  # several times as fast as to choose by a mask
        # The bits depend on the value only by its place: whatever is at none has one answer.
        rows = noise.with_codes(place).one_hot_rows(self._keep, ONE - self._keep, place, width, _BITS)
        for k, bucket in enumerate(buckets):
            report = bucket.astype(self._dtype)
            report <<= 1
            report |= rows[:, k >> 3] >> np.uint8(k & 7) & np.uint8(1)
            out[:, k] = report
        return out

    def _buckets(self, n: int, noise: Noise) -> npt.NDArray[Any]:
        """The d different buckets of each of n persons, [d, n]: every set of them is equally likely.

        R. W. Floyd's algorithm: J. Bentley, "Programming Pearls: A Sample of Brilliance", CACM 30(9), 1987.
        """
        b, d = self.domain.size, self.bits
        buckets = np.empty((d, n), np.min_scalar_type(b - 1))
        if d == b:
            buckets[:] = np.arange(b)[:, None]
            return buckets
        rows = np.arange(n)
        for k, last in enumerate(range(b - d, b)):
            if k < _LANES:  # cheaper, but there are no more lanes than this
                drawn = noise.uniform_below(last + 1, n, _PLACES + k)
            else:
                drawn = noise.uniform_again(last + 1, rows, k, _MORE_PLACES)
            buckets[k] = drawn
            again = (buckets[:k] == buckets[k]).any(axis=0)
            np.maximum(buckets[k], again * buckets.dtype.type(last), out=buckets[k])  # (none is above ``last``)
        return buckets

    @override
    def ones(self, reports: Native) -> I64:
        return (reports & 1).sum(axis=1, dtype=np.int64)

    @override
    def ones_chances(self) -> F64:
        """Of d bits; the value is in one of these buckets or in none."""
        p = float(fraction(self._keep))
        kinds = [0, 1] if self.permanent_answers > self.bits else [1]
        return chances_of_ones(self.bits, kinds, p, 1 - p)

    @property
    def _dtype(self) -> type[np.unsignedinteger[Any]]:
        return np.uint16 if self.counters <= 1 << 16 else np.uint32

    @override
    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        cells = reports if n_groups == 1 else groups[:, None] * self.counters + reports
        counts = np.bincount(cells.reshape(-1), minlength=n_groups * self.counters)
        return counts.reshape(n_groups, self.counters)

    @override
    def simulate_counters(self, codes: Codes, people: I64, generator: Generator) -> I64:
        b, d = self.domain.size, self.bits
        have, p = by_code(codes, people, b + 1), float(fraction(self._keep))
        nowhere = np.append(np.zeros(b, np.int64), have[b])  # in none, which is one more value here
        there = generator.binomial(have[:b], float(self._rate))
        others = subset_sums(d - 1, there, generator) + subset_sums(d, nowhere, generator)[:b]
        if d < b:
            others += subset_sums(d, have[:b] - there, generator)
        ones = generator.binomial(there, p) + generator.binomial(others, 1 - p)
        return np.stack([there + others - ones, ones], axis=1).reshape(-1)

    @override
    def is_possible(self, n: I64, counters: I64) -> Bools:
        """Each report says something of d buckets, and of none twice."""
        about = counters[..., ::2] + counters[..., 1::2]
        possible: Bools = Mechanism.is_possible(self, n, counters) & (about.max(axis=-1) <= n)
        possible &= about.sum(axis=-1) == n * self.bits
        return possible


@dataclass(frozen=True)
class _BucketBits(Row):
    """Rows of numbers 2 bucket + bit, of different buckets."""

    buckets: int

    @override
    def check(self, rows: Native, column: str) -> None:
        step = max((1 << 17) // self.size, 1)
        wrong = sum(self._count_wrong(rows[start : start + step]) for start in range(0, len(rows), step))
        if wrong:
            raise ReportError(
                f"column {column!r}: {wrong} of {len(rows)} reports are not of {self.size} different buckets"
            )

    def _count_wrong(self, rows: Native) -> int:
        """How many reports are about a bucket that does not exist, or about one twice."""
        buckets = np.ascontiguousarray(rows.T) >> 1
        wrong = (buckets >= self.buckets).any(axis=0)
        for k in range(1, self.size):
            wrong |= (buckets[:k] == buckets[k]).any(axis=0)
        return int(np.count_nonzero(wrong))


_MOST_BITS = 1 << 16  # steps that `Noise.uniform_again` has

_BITS, _MORE_PLACES, _PLACES = range(3)  # lanes of noise; places take the rest
_LANES = 16 - _PLACES
