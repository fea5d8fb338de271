"""Distributions of numbers over buckets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Question, Tabular, refuse_mechanism
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open, parameter, shown
from ldp_core.tables import SHARE, View
from ldp_core.tally import Tally


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Tabular):
    """Which share of ``n`` numbers lies in each of k buckets, estimated.

    Attributes:
        edges: float64[k + 1], of the buckets, in the numbers' own unit.
        centers: float64[k], where the numbers in a bucket are on average, as far as is known.
        frequencies: float64[k], of the buckets; they add up to 1 for ``"em"`` and ``"ems"``, to about 1 otherwise.
        standard_errors: float64[k], of ``frequencies``: how much they vary; the intervals may allow for bias, too.
        low, high: float64[k], ends of the confidence interval of each frequency.
        grid: float64[m + 1], where the cumulative distribution is known, low and high included.
        cumulative: float64[m], the share of numbers up to each point of the grid but the first.
        cumulative_low, cumulative_high: float64[m], ends of the confidence interval of each of these shares.
        method: ``"ems"``, ``"em"``, or ``"unbiased"``.

    >>> from ldp_core import StochasticRounding
    >>> m = StochasticRounding((0, 8), epsilon=50.0, buckets=3, oracle="randomized_response")  # hardly any noise
    >>> found = m.distribution(m.tally(m.perturb([0.0, 4.0, 4.0, 8.0])))
    >>> found.edges.tolist(), found.frequencies.round(6).tolist(), round(found.mean, 6)
    ([0.0, 2.0, 6.0, 8.0], [0.25, 0.5, 0.25], 4.0)
    """

    view: ClassVar[View] = View("frequency", ("bucket_start", "bucket_end"), unit=SHARE)
    question: ClassVar[str] = "distribution"
    _names: ClassVar[int] = 0

    edges: F64
    centers: F64
    frequencies: F64
    standard_errors: F64
    low: F64
    high: F64
    grid: F64
    cumulative: F64
    cumulative_low: F64
    cumulative_high: F64
    n: int
    confidence: float
    method: str
    mechanism: Mechanism | None = None

    def __len__(self) -> int:
        return len(self.frequencies)

    @property
    def mean(self) -> float:
        """The mean, each number taken to be in its bucket's center; and the shares to add up to 1, if they do not."""
        middle = self.centers.mean()
        return float(middle + self.frequencies @ (self.centers - middle))

    def quantile(self, share: float) -> float:
        """The number below which this share of the numbers lies, interpolated inside a bucket.

        That is where the line through the points (grid, cumulative) reaches it; the right end if it never does.

        Raises:
            ParameterError: share outside [0, 1].
        """
        share, cumulative = _checked(share), self.cumulative
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

    def quantile_interval(self, share: float) -> tuple[float, float]:
        """Ends of the interval of a quantile: where the intervals of cumulative shares begin and end to hold the share.

        Of the confidence that the frequencies have (R. S. Woodruff, JASA 47(260), 1952). Nothing is taken for granted
        between the points of the grid, so that ends are of these points. Where a number counts for the two nearest
        centers (``method="unbiased"``), the share that is counted up to a center is at least that of the numbers up to
        it, and at most that of the numbers up to the next one. So ends are centers then.

        Raises:
            ParameterError: share outside [0, 1].
        """
        share, low, high = _checked(share), self.cumulative_low, self.cumulative_high
        if np.isnan(low).any():
            return math.nan, math.nan
        fewer = int(np.argmax(np.append(high >= share, True)))
        reached = len(low) - int(np.argmax(np.append(low[::-1] < share, True)))
        ends, beyond = self.grid, 1
        if self.method == "unbiased":
            ends, beyond = np.concatenate((self.grid[:1], self.centers, self.grid[-1:])), 2
        return float(ends[fewer]), float(ends[min(reached + beyond, len(ends) - 1)])

    def to_arrow(self) -> pa.Table:
        """Table of columns bucket_start, bucket_end, frequency, standard_error, low, high and n; one row per bucket."""
        numbers = (self.frequencies, self.standard_errors, self.low, self.high)
        n = np.full(len(self), self.n)
        columns = (self.edges[:-1], self.edges[1:], *numbers, n)
        return self._with_metadata(pa.table([pa.array(column) for column in columns], _SCHEMA))

    @override
    def _head(self) -> str:
        head = f"Distribution of {self.n:,} reports over {len(self)} buckets ({self.method})"
        ends = f"{self.edges[0]:.6g} to {self.edges[-1]:.6g}"
        if not self.n:
            return f"{head}, {ends}"
        quarters = ", ".join(f"{share:.0%} below {self.quantile(share):.4g}" for share in (0.25, 0.5, 0.75))
        return f"{head}, {ends}: mean {self.mean:.4g}; {quarters}"

    @override
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        if len(self) > _SHOWN:
            return [], []
        shares = (self.frequencies, self.standard_errors, self.low, self.high)
        rows: list[tuple[str, ...]] = [("from", "to", "frequency", "std.error", "low", "high")]
        for i in range(len(self)):
            ends = (f"{self.edges[i]:.6g}", f"{self.edges[i + 1]:.6g}")
            rows.append((*ends, *(f"{100 * array[i]:.2f} %" for array in shares)))
        return rows, []


_SHOWN = 20
"""At most so many buckets are shown to people."""

_NUMBERS = ("bucket_start", "bucket_end", "frequency", "standard_error", "low", "high")
_SCHEMA = pa.schema([*((name, pa.float64()) for name in _NUMBERS), ("n", pa.int64())])


@runtime_checkable
class Distributing(Protocol):
    """What a mechanism with distributions offers: `SquareWave`, `StochasticRounding`."""

    @property
    def distribution(self) -> Callable[..., Distribution]:
        """Of a tally, a confidence and options of its own: which share of the numbers lies in each bucket."""


@dataclass(frozen=True)
class DistributionEstimate(Question[Distribution]):
    """Which share of the numbers lies in each bucket, of a population that these people are a random sample of.

    Args:
        confidence: of the intervals, in (0, 1).
        buckets: how many the result has; None: the mechanism's own, of `SquareWave` at most 40.
        method: of `SquareWave.distribution`; None: its default.
        assume: of `SquareWave.distribution`; None: nothing, so that intervals hold for every population.

    Raises:
        ParameterError: confidence outside (0, 1). (Of the others `check` says, by a ParameterError too, whether the
            mechanism has them.)

    >>> from ldp_core import SquareWave
    >>> m = SquareWave((0, 100), epsilon=1.0, buckets=64)
    >>> DistributionEstimate(buckets=2).result(m, m.tally(m.perturb([20.0, 30.0]))).edges.tolist()
    [0.0, 50.0, 100.0]
    """

    name: ClassVar[str] = Distribution.question
    view: ClassVar[View] = Distribution.view

    confidence: float = parameter(check_open, default=0.95)
    buckets: int | None = parameter(default=None)
    method: str | None = parameter(default=None)
    assume: str | None = parameter(default=None)

    @override
    def check(self, mechanism: Mechanism) -> None:
        empty: Any = mechanism.empty_tally() if isinstance(mechanism, Mechanism) else None
        self.result(mechanism, empty)  # which refuses options that it does not have

    @override
    def schema(self, mechanism: Mechanism) -> pa.Schema:
        return _SCHEMA

    @override
    def expected_error(self, *asked: Any) -> tuple[float, float]:
        if self.assume is not None:
            raise ParameterError(
                "how near estimates of smooth populations are is not known in advance: leave out assume"
            )
        return super().expected_error(*asked)

    @override
    def result(self, mechanism: Any, tally: Tally) -> Distribution:
        if not isinstance(mechanism, Mechanism) or not isinstance(mechanism, Distributing):
            raise refuse_mechanism("a distribution", "SquareWave or StochasticRounding", mechanism)
        options = {"buckets": self.buckets, "method": self.method, "assume": self.assume}
        given = {name: value for name, value in options.items() if value is not None}
        known = signature(mechanism.distribution).parameters
        for name in given.keys() - known.keys():
            raise ParameterError(
                f"{name} is no option of the distribution of {type(mechanism).__name__}: it has the buckets of the "
                "mechanism; leave it out, or take SquareWave"
            )
        return mechanism.distribution(tally, confidence=self.confidence, **given)


def _checked(share: float) -> float:
    if isinstance(share, bool) or not 0 <= share <= 1:
        raise ParameterError(f"a quantile's share must be in [0, 1], got {shown(share)}")
    return float(share)
