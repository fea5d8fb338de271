"""By how much quantiles differ between two tallies of other people.

Each side has its interval by Woodruff's method, see `ordered` in this room. The interval of the difference d = q2 - q1
adds up how far each reaches (R. G. Newcombe, Statistics in Medicine 17, 1998, method 10, for two medians):

    low = d - sqrt((q2 - low2)^2 + (high1 - q1)^2)        high = d + sqrt((high2 - q2)^2 + (q1 - low1)^2)

Where a quantile jumps from one value to the next, both errors can be as large as that at once. So the interval also
holds all differences of quantiles of which the one is within z sin a standard errors and the other within z cos a,
where both jump there, or one of them within z / 2.

A fitted distribution blurs heaps: both sides may be off, and more reports do not mend it. There how far each reaches is
added up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import F64, I64
from ldp_core.errors import ParameterError
from ldp_core.estimates.base import Population, Tabular
from ldp_core.estimates.comparison import Compare, refuse_empty
from ldp_core.estimates.ordered import reader_of
from ldp_core.estimates.quantiles import QuantilesEstimate, check_probabilities
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import parameter
from ldp_core.tables import View, in_percent
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
        return f"Quantiles {sides}, {in_percent(self.confidence)}% intervals"

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
        """A row per quantile: probability, before, after, difference, low, high, n_before, n_after."""
        counts = (np.full(len(self.low), n) for n in (self.n_before, self.n_after))
        return self._with_metadata(pa.table([pa.array(array) for array in (*self._columns(), *counts)], _SCHEMA))


_PARTS = (*(math.sin(math.pi * i / 12) for i in range(1, 6)), 1.0)
_JUMPS = 0.8 + 0.2 * np.array(_PARTS[:-1])[:, None]  # so much of the reach, at this part of z, is of a jump
_SCHEMA = pa.schema(
    [
        *((name, pa.float64()) for name in ("probability", "before", "after", "difference", "low", "high")),
        *((name, pa.int64()) for name in ("n_before", "n_after")),
    ]
)


@dataclass(frozen=True)
class CompareQuantiles(Compare):
    """How quantiles of two tallies of one mechanism are compared; see `compare_quantiles`, which is this for one pair.

    >>> from ldp_core import UnaryEncoding
    >>> CompareQuantiles(probabilities=[0.5, 0.9]).schema(UnaryEncoding(range(4), epsilon=1.0)).names[:4]
    ['probability', 'before', 'after', 'difference']
    """

    name: ClassVar[str] = "quantile_comparison"

    probabilities: Sequence[float] = parameter(check_probabilities, default=(0.5,))

    @property
    def _question(self) -> QuantilesEstimate:
        tests: Any = len(self.probabilities) if self.simultaneous else 1
        asked: Any = self.probabilities
        how: dict[str, Any] = {"population": self.population, "repeats": self.repeats}
        return QuantilesEstimate(asked, 1 - (1 - self.confidence) / tests, **how)

    @override
    def compares(self, mechanism: Any) -> bool:
        with suppress(ParameterError):
            return bool(reader_of("a quantile", mechanism, self._question).ascending)
        return False

    @override
    def check(self, mechanism: Mechanism) -> None:
        self._question.check(mechanism)
        if not self.compares(mechanism):
            raise ParameterError(
                f"differences are of numbers: the values of this {mechanism.name} are none; compare their shares"
            )
        if self.anytime:
            raise ParameterError("quantiles are compared at one look: leave out anytime=, or compare shares")
        self.check_people(mechanism)

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        return _SCHEMA

    @override
    def result(self, mechanism: Any, before: Tally, after: Tally) -> QuantileDifferences:  # type: ignore[override]
        table, _ = self.rows(mechanism, *self._sides(mechanism, before, after))
        refuse_empty(before.n, after.n)
        made: Any = [column.to_numpy() for column in table.columns[:-2]]
        made += [before.n, after.n, self.confidence, mechanism]
        return QuantileDifferences(*made)

    @override
    def rows(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        asked, size = self._question, len(self.probabilities)
        reader, p, sides = reader_of("a quantile", mechanism, asked), np.array(self.probabilities), []
        add = np.add if self.same_people or reader.fitted else np.hypot
        for side in (0, 1):
            reader.watch(n[:, side], counters[:, side])
            found = reader.quantiles(n[:, side], counters[:, side], p, asked.confidence, _PARTS)
            sides.append(np.array([column.to_numpy(zero_copy_only=False) for column in found], float))
        (q1, low1, high1), (q2, low2, high2) = ((side[0], side[1::2], side[2::2]) for side in sides)

        def reach(one: F64, two: F64) -> F64:
            first, second = (x[:-1] >= _JUMPS * x[-1] for x in (one, two))
            both = first & second[::-1]
            both[:2] |= first[:2]  # (where one jumps so near, the other need not)
            both[-2:] |= second[1::-1]
            sums = np.where(both, one[:-1] + two[-2::-1], 0)
            return np.maximum(add(one[-1], two[-1]), sums.max(axis=0))

        d = q2 - q1
        low, high = d - reach(q2 - low2, high1 - q1), d + reach(high2 - q2, q1 - low1)
        unknown = np.isnan(d)
        ends = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
        columns = [np.tile(self.probabilities, len(n)), q1, q2, d, *ends, *np.repeat(n, size, axis=0).T]
        arrays = [pa.array(column, mask=np.isnan(column)) for column in columns]
        return pa.table(arrays, _SCHEMA), np.full(len(n), size)


def compare_quantiles(
    mechanism: Mechanism,
    before: Tally,
    after: Tally,
    probabilities: Sequence[float] = (0.5,),
    *,
    confidence: float = 0.95,
    simultaneous: bool = False,
    same_people: bool | None = None,
    population: Population = "many",
    repeats: int | None = None,
) -> QuantileDifferences:
    """By how much quantiles, as the median, differ between two tallies of other people, with fresh noise.

    Where an interval does not hold 0 the quantile is another one, with an error of at most 1 - confidence. Where single
    values hold much of the people intervals may be wider than they need to be.

    Args:
        mechanism: that made the reports of both, of ordered numbers: see `QuantilesEstimate`.
        before, after: its tallies.
        probabilities: of the quantiles, each in (0, 1).
        confidence: of each interval, in (0, 1).
        simultaneous, same_people, population, repeats: see `compare`. Of the same people, and of a `SquareWave`, the
            reaches of both sides are added.

    Raises:
        MechanismMismatchError: a tally is another mechanism's.
        ParameterError: values that are no numbers, or do not go up; a mechanism without quantiles; what `compare`
            refuses; probabilities or a confidence outside (0, 1).

    >>> from ldp_core import UnaryEncoding
    >>> m = UnaryEncoding(range(20), epsilon=50.0)  # hardly any noise
    >>> compare_quantiles(m, m.tally(m.perturb([3] * 90)), m.tally(m.perturb([9] * 90))).differences.tolist()
    [6.0]
    """
    asked = CompareQuantiles(confidence, simultaneous, None, same_people, population, probabilities, repeats=repeats)
    return asked.result(mechanism, before, after)
