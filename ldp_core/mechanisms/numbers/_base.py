"""Numbers: mechanisms whose reports have an affine, exactly unbiased value, so that a mean is an average.

An `Interval` makes a number a code, an integer x of 0 to 2^24. A mechanism has K points, equidistant from low to high.
A code lies between two of them and becomes one at random, such that its expectation is the code,

    point = floor((x (K - 1) + U) / 2^24)      U uniform over the integers below 2^24,

and the point is reported through a channel Pr[report | point] of exact rational probabilities. A code's row of the
channel is a mixture of those of two points, which no ratio of probabilities gains by: epsilon is that of the K rows. If
value(report) has the expectation k / (K - 1) for every point k, it has x / 2^24 for every code x, exactly. Then

    mean = average of the values                  standard error^2 = their sample variance / n
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import ParameterError, ReportError
from ldp_core.estimates.mean import Mean
from ldp_core.estimates.options import check_confidence
from ldp_core.exact.arrays import F64, I64, Codes
from ldp_core.inputs.interval import STEPS, Interval
from ldp_core.mechanism import Mechanism, Native, Outlook, other_type
from ldp_core.noise.base import Noise
from ldp_core.tally import Tally

LANE_ROUND, LANE_FIRST = 15, 14
"""Lanes of noise from the top: those from 0 are a frequency oracle's. Keyed noise draws a pair in one block."""


class Numeric(Mechanism):
    """A mechanism for numbers, of which means can be estimated without bias.

    All variances and errors are per report of a number that is known: they are the noise's. On shares, the scale on
    which low is 0 and high is 1, unless a docstring says that they are in the numbers' own unit.
    """

    domain: Interval

    @property
    def inputs(self) -> Interval:
        """The interval."""
        return self.domain

    # ---- what a subclass supplies

    @property
    @abstractmethod
    def points(self) -> int:
        """K, the number of points to which codes are rounded, at least 2."""

    @abstractmethod
    def point_variances(self) -> F64:
        """float64[K]: the variance of a report's value where the number is a point."""

    @abstractmethod
    def perturb_block(self, codes: Codes, noise: Noise) -> Native:
        """Codes to reports, for so many records that the intermediate arrays stay in a cache."""

    @abstractmethod
    def share_means(self, n: Any, counts: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """`means`, but of shares."""

    # ---- what follows from it

    def place(self, point: int) -> Fraction:
        """Where a point is, as a share."""
        return Fraction(point, self.points - 1)

    @cached_property
    def places(self) -> F64:
        """float64[K]: where the points are."""
        return np.array([self.place(point) for point in range(self.points)], float)

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """See `perturb_block`."""
        if len(codes) <= _BLOCK:
            return self.perturb_block(codes, noise.rows(0, len(codes)))
        blocks = (slice(start, min(start + _BLOCK, len(codes))) for start in range(0, len(codes), _BLOCK))
        return np.concatenate([self.perturb_block(codes[b], noise.rows(b.start, b.stop)) for b in blocks])

    def mean(self, tally: Tally, *, confidence: float = 0.95) -> Mean:
        """Estimate the mean of the numbers, in their own unit.

        Args:
            tally: of reports of this mechanism.
            confidence: of the interval, in (0, 1).

        Raises:
            MechanismMismatchError: the tally is another mechanism's.
            ParameterError: confidence outside (0, 1).
        """
        self.check_tally(tally)
        mean, error, low, high = self.means(np.array(tally.n), tally.counters, confidence=confidence)
        return Mean(float(mean), float(error), float(low), float(high), tally.n, confidence)

    def means(self, n: npt.NDArray[Any], counts: I64, *, confidence: float = 0.95) -> tuple[F64, F64, F64, F64]:
        """Estimated means, their standard errors, and the low and high ends of their intervals, of many tallies.

        Args:
            n: numbers of reports, int64[...].
            counts: of tallies, int64[..., counters].
            confidence: see `mean`.

        Returns:
            Four arrays float64[...], in the numbers' own unit; nan where n is 0.
        """
        mean, error, low, high = self.share_means(n, counts, check_confidence(confidence))
        decode = self.domain.decode
        return decode(mean), error * (self.domain.high - self.domain.low), decode(low), decode(high)

    def variance(self, n: float, number: float | None = None) -> float:
        """Variance of an estimated mean, in the numbers' own unit squared, given that all n numbers are ``number``.

        It is the noise's, and so that of the mean of any n known numbers is an average of such variances. None: the
        worst number's.

        Raises:
            ParameterError: n is below 1, or the number is not in the interval.
        """
        if not n >= 1:
            raise ParameterError(f"n must be at least 1, got {n!r}")
        if number is not None and not self.domain.low <= number <= self.domain.high:
            raise ParameterError(f"number must be in {self.domain.summary}")
        length = self.domain.high - self.domain.low
        noise = self.most_noise if number is None else float(self.noise((number - self.domain.low) / length))
        return noise * length * length / n  # (inf, not an error, where floats end)

    def noise(self, shares: Any) -> F64:
        """The variance of a report's value, of one number each: second moments are linear between points."""
        inside = np.clip(shares, self.places[0], self.places[-1])
        variances: F64 = np.interp(inside, self.places, self.point_variances() + self.places**2) - inside**2
        return variances

    @cached_property
    def most_noise(self) -> float:
        """The greatest variance of a report's value: at points, or between them, where second moments are linear."""
        at = self.places
        moments = self.point_variances() + at**2
        slopes = np.diff(moments) / np.diff(at)
        inside = np.clip(slopes / 2, at[:-1], at[1:])  # where the derivative of (linear - share^2) vanishes
        return float(np.max(moments[:-1] + slopes * (inside - at[:-1]) - inside**2))

    @cached_property
    def least_noise(self) -> float:
        """The least variance of a report's value, which is at a point."""
        return float(np.min(self.point_variances()))

    def explain(self, n: int) -> Outlook:
        """The standard error of the mean in the worst case, in the numbers' own unit and as a share of the interval."""
        if n < 1:
            return Outlook("inf", "inf")
        share = math.sqrt(self.most_noise / n)
        advice = None
        if share > _COARSE:
            enough = math.ceil(self.most_noise / _COARSE**2)
            advice = (
                f"the error of a mean exceeds {_COARSE:.0%} of the interval: take more than {enough:,} reports, "
                "a larger epsilon, or a narrower interval"
            )
        error = share * (self.domain.high - self.domain.low)
        return Outlook(f"{error:.3g} (mean)", f"{share:.1%} of the interval".replace("%", " %"), advice)

    def parameters(self) -> dict[str, Any]:
        """See `Mechanism`."""
        return {"epsilon": self.epsilon}


def check_numeric(mechanism: Numeric) -> Numeric:
    """Return ``mechanism``.

    Raises:
        ParameterError: it is not for numbers.
    """
    if not isinstance(mechanism, Numeric):
        raise ParameterError(f"a mean needs a mechanism for numbers, as Hybrid, got {type(mechanism).__name__}")
    return mechanism


class Symbols(Numeric):
    """A numeric mechanism whose report is one of M symbols, 0 to M - 1; a tally counts how often each was reported.

    Reports are ``uint8``, or ``uint16`` for more than 256 symbols.
    """

    @property
    @abstractmethod
    def symbols(self) -> int:
        """M."""

    @abstractmethod
    def channel(self, point: int) -> list[Fraction]:
        """The exact probability of each symbol, M of them, where the number is a point."""

    @abstractmethod
    def symbol_values(self) -> list[Fraction]:
        """The value of each symbol, such that its expectation is a point's `place`, exactly."""

    def probabilities(self, code: int) -> list[Fraction]:
        """The exact probability of each symbol for a code 0 to 2^24."""
        point, rest = divmod(code * (self.points - 1), STEPS)
        row = self.channel(point)
        if not rest:
            return row
        up = Fraction(rest, STEPS)
        return [a + up * (b - a) for a, b in zip(row, self.channel(point + 1), strict=True)]

    @cached_property
    def values(self) -> F64:
        """float64[M]: `symbol_values`."""
        return np.array(self.symbol_values(), float)

    @property
    def counters(self) -> int:
        """M."""
        return self.symbols

    def count_reports(self, reports: Native, groups: I64, n_groups: int) -> I64:
        """See `Mechanism`: how often each symbol was reported."""
        m = self.symbols
        out = np.zeros((n_groups, m), np.int64)
        if n_groups == 1:
            for start in range(0, len(reports), _BLOCK):
                out[0] += np.bincount(reports[start : start + _BLOCK], minlength=m)
            return out
        return np.bincount(groups * m + reports, minlength=n_groups * m).reshape(n_groups, m)

    def is_possible(self, n: int, counts: I64) -> bool:
        """See `Mechanism`: each report counts once."""
        return super().is_possible(n, counts) and bool(counts.sum() == n)

    def share_means(self, n: Any, counts: I64, confidence: float) -> tuple[F64, F64, F64, F64]:
        """See `Numeric`. The interval is the mean -+ z standard errors, z the normal quantile.

        The sample variance is taken to be at least what it is on average if all numbers are the mean: noise and
        population together have no less, because the second moment of a report is a convex function of the number.
        """
        value = self.values
        known = np.where(np.equal(n, 0), np.nan, n)
        mean: F64 = (counts @ value) / known
        spread = np.ptp(value) ** 2 / 4  # the most that a single report can have (Popoviciu)
        squares = (counts * (value - mean[..., None]) ** 2).sum(axis=-1)
        sample = np.where(np.greater(n, 1), squares / np.maximum(known - 1, 1), spread)
        error: F64 = np.sqrt(np.maximum(sample, Numeric.noise(self, mean)) / known)
        return mean, error, *normal_interval(mean, error, confidence)

    # ---- reports

    @property
    def dtype(self) -> type[np.uint8 | np.uint16]:
        """Of reports as numpy arrays."""
        return np.uint8 if self.symbols <= _BYTE else np.uint16

    def report_type(self, *, packed: bool = False) -> pa.DataType:
        """``uint8`` or ``uint16``; ``packed`` changes nothing."""
        return pa.uint8() if self.symbols <= _BYTE else pa.uint16()

    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """See `Mechanism`."""
        return pa.array(reports)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`."""
        self.check_reports(reports, column)
        symbols: Native = reports.to_numpy(zero_copy_only=False)  # (Booleans are bits there)
        if len(symbols) and symbols.max() >= self.symbols:
            wrong = int(np.count_nonzero(symbols >= self.symbols))
            raise ReportError(f"column {column!r}: {wrong} of {len(symbols)} reports are not below {self.symbols}")
        return symbols

    def check_reports(self, reports: pa.Array, column: str) -> None:
        """Raise `ReportError` for nulls, or another type than this mechanism's reports have."""
        if reports.type != self.report_type():
            raise other_type(column, self.report_type(), reports.type)
        if reports.null_count:
            raise ReportError(f"column {column!r}: {reports.null_count} of {len(reports)} reports are null")

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """See `Mechanism`."""
        return reports


_BLOCK = 1 << 15  # records at a time: codes, noise and reports stay in the L2 cache
_BYTE = 256
_COARSE = 0.05  # share of the interval above which `explain` warns of the error


def normal_interval(mean: F64, error: F64, confidence: float) -> tuple[F64, F64]:
    """The mean -+ z standard errors, z the normal quantile."""
    half = -NormalDist().inv_cdf((1 - confidence) / 2) * error
    return mean - half, mean + half


def round_to_points(codes: Codes, points: int, noise: Noise) -> Codes:
    """Points 0 to ``points - 1``, unsigned integers, one a code; their expectation is ``code (points - 1) / 2^24``.

    >>> from ldp_core import Keystream
    >>> round_to_points(np.array([0, STEPS], np.uint32), 11, Keystream()).tolist()
    [0, 10]
    """
    return raised(codes, points, noise.uniform_below(STEPS, len(codes), LANE_ROUND))


def raised(codes: Codes, points: int, below: Codes) -> Codes:
    """Points from uniform integers ``below`` 2^24: the sum carries into the next point as often as it should."""
    word = np.uint32 if points <= _BYTE else np.uint64  # 2^24 * 255 + 2^24 - 1 is the greatest uint32
    out: Codes = codes.astype(word)
    out *= word(points - 1)
    out += below
    out >>= word(STEPS.bit_length() - 1)
    return out
