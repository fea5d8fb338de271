"""The result for numbers: their estimated distribution over buckets."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from ldp_core.errors import ParameterError
from ldp_core.estimates._result import Result
from ldp_core.exact.arrays import F64
from ldp_core.mechanism import Mechanism
from ldp_core.tally import Tally


@dataclass(frozen=True, eq=False)
class Distribution(Result):
    """Which share of ``n`` numbers lies in each of k buckets, estimated.

    Attributes:
        edges: float64[k + 1], of the buckets, in the numbers' own unit.
        centres: float64[k], where the numbers in a bucket are on average, as far as is known.
        frequencies: float64[k], of the buckets; they add up to 1 for ``"em"`` and ``"ems"``, to about 1 otherwise.
        standard_errors: float64[k], of ``frequencies``: how much they vary; the intervals may allow for bias, too.
        low, high: float64[k], ends of the confidence interval of each frequency.
        grid: float64[m + 1], where the cumulative distribution is known, low and high included.
        cumulative: float64[m], the share of numbers up to each point of the grid but the first.
        cumulative_errors: float64[m], its errors, with the bias that intervals allow for.
        n: number of reports.
        confidence: of the intervals, of each one.
        method: ``"ems"``, ``"em"``, or ``"unbiased"``.

    >>> from ldp_core import StochasticRounding
    >>> m = StochasticRounding((0, 8), epsilon=50.0, buckets=3, oracle="randomized_response")  # hardly any noise
    >>> found = m.distribution(m.tally(m.perturb([0.0, 4.0, 4.0, 8.0])))
    >>> found.edges.tolist(), found.frequencies.round(6).tolist(), round(found.mean, 6)
    ([0.0, 2.0, 6.0, 8.0], [0.25, 0.5, 0.25], 4.0)
    """

    edges: F64
    centres: F64
    frequencies: F64
    standard_errors: F64
    low: F64
    high: F64
    grid: F64
    cumulative: F64
    cumulative_errors: F64
    n: int
    confidence: float
    method: str

    @classmethod
    def of(
        cls,
        edges: F64,
        frequencies: F64,
        standard_errors: F64,
        total_errors: F64,
        grid: F64,
        cumulative: F64,
        cumulative_errors: F64,
        n: int,
        confidence: float,
        method: str,
    ) -> Distribution:
        """With intervals of the normal approximation, cut to [0, 1]: z total errors, which allow for bias too."""
        z = -NormalDist().inv_cdf((1 - confidence) / 2)
        low = np.maximum(frequencies - z * total_errors, 0)
        high = np.minimum(frequencies + z * total_errors, 1)
        arrays = (frequencies, standard_errors, low, high, grid, cumulative, cumulative_errors)
        return cls(edges, (edges[1:] + edges[:-1]) / 2, *arrays, n, confidence, method)

    def __len__(self) -> int:
        return len(self.frequencies)

    @property
    def mean(self) -> float:
        """The mean, each number taken to be in its bucket's centre; and the shares to add up to 1, if they do not."""
        middle = self.centres.mean()
        return float(middle + self.frequencies @ (self.centres - middle))

    def quantile(self, share: float) -> float:
        """The number below which this share of the numbers lies, interpolated inside a bucket.

        Raises:
            ParameterError: share outside [0, 1].
        """
        return self._inverse(self.cumulative, _checked(share))

    def quantiles(self, shares: Any) -> F64:
        """`quantile` of several shares, float64[...]."""
        found: F64 = np.vectorize(self.quantile, otypes=[float])(shares)
        return found

    def quantile_interval(self, share: float) -> tuple[float, float]:
        """Ends of the interval of a quantile: where the share, an error bar up and down, crosses the quantile's.

        Of the confidence that the frequencies have, by the normal approximation.

        Raises:
            ParameterError: share outside [0, 1].
        """
        share = _checked(share)
        half = -NormalDist().inv_cdf((1 - self.confidence) / 2) * self.cumulative_errors
        return self._inverse(self.cumulative + half, share), self._inverse(self.cumulative - half, share)

    def _inverse(self, cumulative: F64, share: float) -> float:
        """Where the line through the points (grid, cumulative) reaches a share; the right end if it never does."""
        if np.isnan(cumulative).any():
            return float("nan")
        rising = np.maximum.accumulate(np.concatenate(([0.0], np.clip(cumulative, 0, 1))))
        at = int(np.searchsorted(rising, share, side="left"))
        if at == 0:  # of share 0: the left end of what there is
            at = int(np.searchsorted(rising, 0.0, side="right"))
            return float(self.grid[min(at, len(cumulative)) - 1])
        if at > len(cumulative):
            return float(self.grid[-1])
        inside = (share - rising[at - 1]) / (rising[at] - rising[at - 1])
        return float(self.grid[at - 1] + inside * (self.grid[at] - self.grid[at - 1]))

    def to_arrow(self) -> pa.Table:
        """Table of columns left, right, frequency, standard_error, low, high; one row a bucket."""
        return pa.table(
            {
                "left": self.edges[:-1],
                "right": self.edges[1:],
                "frequency": self.frequencies,
                "standard_error": self.standard_errors,
                "low": self.low,
                "high": self.high,
            }
        )

    def __repr__(self) -> str:
        head = f"Distribution of {self.n:,} reports over {len(self)} buckets ({self.method})"
        ends = f"{self.edges[0]:.6g} to {self.edges[-1]:.6g}"
        if not self.n:
            return f"{head}, {ends}"
        quarters = ", ".join(f"{share:.0%} below {self.quantile(share):.4g}" for share in (0.25, 0.5, 0.75))
        return f"{head}, {ends}: mean {self.mean:.4g}; {quarters}"


@runtime_checkable
class Distributing(Protocol):
    """A mechanism that estimates distributions: `SquareWave`, `StochasticRounding`."""

    fingerprint: Any

    def distribution(self, tally: Tally, *, confidence: float = 0.95, **options: Any) -> Distribution:
        """See the mechanism."""
        ...


def check_distributing(mechanism: Distributing | Mechanism, *, confidence: float, **options: Any) -> Mechanism:
    """Return ``mechanism``, if it estimates distributions and has these options.

    Raises:
        ParameterError: it does not, or bad values of its options.
        TypeError: an option that it does not have.
    """
    if not (isinstance(mechanism, Mechanism) and isinstance(mechanism, Distributing)):
        raise ParameterError(f"a distribution needs SquareWave or StochasticRounding, got {type(mechanism).__name__}")
    mechanism.distribution(mechanism.empty_tally(), confidence=confidence, **options)
    return mechanism


def _checked(share: float) -> float:
    if isinstance(share, bool) or not 0 <= share <= 1:
        raise ParameterError(f"a quantile's share must be in [0, 1], got {share!r}")
    return float(share)
