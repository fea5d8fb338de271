"""By how much quantiles differ between two tallies of other people.

Each side has its interval by Woodruff's method, see `ordered` in this room. The interval of the difference d = q2 - q1
adds up how far each reaches (R. G. Newcombe, Statistics in Medicine 17, 1998, method 10, for two medians):

    low = d - sqrt((q2 - low2)^2 + (high1 - q1)^2)        high = d + sqrt((high2 - q2)^2 + (q1 - low1)^2)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Tabular
from ldp_core.estimates.quantiles import QuantilesEstimate
from ldp_core.mechanism import Mechanism
from ldp_core.tables import View
from ldp_core.tally import Tally


@dataclass(frozen=True, eq=False, repr=False)
class QuantileDifferences(Tabular):
    """Differences of quantiles: after less before. Arrays are float64[k], in the numbers' own unit.

    Attributes:
        probabilities: of the quantiles.
        before, after: the estimated quantiles.
        differences: ``after - before``.
        low, high: ends of the confidence intervals of the differences.
        n_before, n_after: numbers of reports.

    >>> from ldp_core import SubsetSelection, compare_quantiles
    >>> m = SubsetSelection(range(100), epsilon=50.0)  # hardly any noise
    >>> compare_quantiles(m, m.tally(m.perturb([20, 30, 40] * 99)), m.tally(m.perturb([20, 45, 46] * 99)))
    Quantiles after (297 reports) less before (297), 95% intervals
         before  after  difference  low  high
    50%      30     45          15   15    15
    """

    view: ClassVar[View] = View("difference", ("probability",), unit="difference of the quantiles")

    probabilities: F64
    before: F64
    after: F64
    differences: F64
    low: F64
    high: F64
    n_before: int
    n_after: int
    confidence: float
    mechanism: Mechanism | None = None

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of reports on both sides."""
        return self.n_before + self.n_after

    @override
    def _head(self) -> str:
        sides = f"after ({self.n_after:,} reports) less before ({self.n_before:,})"
        return f"Quantiles {sides}, {self.confidence:.0%} intervals"

    @override
    def _shown(self) -> tuple[list[tuple[str, ...]], list[str]]:
        rows: list[tuple[str, ...]] = [("", "before", "after", "difference", "low", "high")]
        for p, *numbers in zip(*self._columns(), strict=True):
            rows.append((f"{100 * p:.4g}%", *(f"{x:.6g}" for x in numbers)))
        return rows, []

    def _columns(self) -> tuple[F64, ...]:
        return self.probabilities, self.before, self.after, self.differences, self.low, self.high

    @override
    def to_arrow(self) -> pa.Table:
        names = ("probability", "before", "after", "difference", "low", "high", "n_before", "n_after")
        counts = (np.full(len(self.low), n) for n in (self.n_before, self.n_after))
        return self._with_metadata(pa.table([pa.array(array) for array in (*self._columns(), *counts)], names))


def compare_quantiles(
    mechanism: Mechanism,
    before: Tally,
    after: Tally,
    probabilities: Sequence[float] = (0.5,),
    *,
    confidence: float = 0.95,
) -> QuantileDifferences:
    """By how much quantiles, as the median, differ between two tallies of other people, with fresh noise.

    Where an interval does not hold 0 the quantile is another one, with an error of at most 1 - confidence. Intervals
    are about two populations, of which the people are random samples. Where single values hold much of the people they
    are wider than they need to be.

    Args:
        mechanism: that made the reports of both, of ordered numbers: see `QuantilesEstimate`.
        before, after: its tallies.
        probabilities: of the quantiles, each in (0, 1).
        confidence: of each interval, in (0, 1).

    Raises:
        MechanismMismatchError: a tally is another mechanism's.
        ParameterError: values that are no numbers, a mechanism without quantiles, or one whose noise is a person's own;
            a side without reports, or twice the same; probabilities or a confidence outside (0, 1).

    >>> from ldp_core import UnaryEncoding
    >>> m = UnaryEncoding(range(20), epsilon=50.0)  # hardly any noise
    >>> compare_quantiles(m, m.tally(m.perturb([3] * 90)), m.tally(m.perturb([9] * 90))).differences.tolist()
    [6.0]
    """
    shares: Any = probabilities  # which the question makes a tuple
    asked = QuantilesEstimate(shares, confidence, "many")
    sides = [asked.result(mechanism, side) for side in (before, after)]
    if before is after or not (before.n and after.n):
        raise ParameterError("two sides with reports are needed: a side is empty, or compared with itself")
    if mechanism.memoized:
        raise ParameterError(f"the noise of {mechanism.name} is a person's own: quantiles are compared of fresh noise")
    if not isinstance(sides[0].low, np.ndarray):
        raise ParameterError(f"differences are of numbers: the values of this {mechanism.name} are none")
    (q1, low1, high1), (q2, low2, high2) = (
        (np.asarray(x.quantiles), np.asarray(x.low), np.asarray(x.high)) for x in sides
    )
    d = q2 - q1
    ends = d - np.hypot(q2 - low2, high1 - q1), d + np.hypot(high2 - q2, q1 - low1)
    found = (np.array(asked.probabilities), q1, q2, d, *ends)
    return QuantileDifferences(*found, before.n, after.n, confidence, mechanism)
