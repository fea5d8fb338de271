"""The result: debiased counts with error bars."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ldp_core.estimates._result import Result
from ldp_core.estimates.consistency import Consistency
from ldp_core.exact.arrays import F64
from ldp_core.inputs.domain import Domain, Label


@dataclass(frozen=True, eq=False)
class Histogram(Result):
    """Estimates of how many of ``n`` records hold each value of the domain; unbiased, unless ``consistency`` is set.

    All arrays are float64[d], in the order of ``domain.values``. Unbiased means that a rare value can
    come out below 0, and that sums and differences of estimates stay unbiased.

    Attributes:
        n: number of reports.
        counts: estimated number of records.
        standard_errors: of ``counts``: the root of the variance at the estimate, moved into [0, n].
        low, high: ends of the confidence interval of each count; see `Mechanism.debias`.
        confidence: of the intervals, of each one or, if ``simultaneous``, of all of them together.
        simultaneous: whether the intervals are Bonferroni-corrected over the domain.
        consistency: the method that made ``counts`` consistent, and so biased (see `consistent`); None
            where they are the unbiased estimates. It does not change the intervals, which are about the true counts
            and hold whatever is done to the estimate, nor ``standard_errors``, which remain the unbiased estimate's.
            A consistent count may lie outside its interval. It has none of its own: its error depends on all
            the true counts.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ios", "android"], epsilon=50.0)  # so large that there is no noise
    >>> histogram = m.estimate(m.tally(m.perturb(["ios", "ios", "ios", "android"])))
    >>> histogram.values, histogram.counts.round(6).tolist(), histogram.n
    (('ios', 'android'), [3.0, 1.0], 4)
    """

    domain: Domain
    n: int
    counts: F64
    standard_errors: F64
    low: F64
    high: F64
    confidence: float
    simultaneous: bool
    consistency: Consistency | None = None

    @property
    def values(self) -> tuple[Label, ...]:
        """The domain's values, ``"other"`` last where there is such a bucket."""
        return self.domain.values

    @property
    def biased(self) -> bool:
        """Whether ``counts`` were made consistent: do not add, subtract or average them."""
        return self.consistency is not None

    @property
    def frequencies(self) -> F64:
        """``counts / n``; nan where there are no reports."""
        return self.counts / self.n if self.n else np.full(len(self.counts), np.nan)

    def __len__(self) -> int:
        return len(self.counts)

    def to_arrow(self) -> pa.Table:
        """Table of columns value, count, frequency, standard_error, low, high; one row a value."""
        return pa.table(
            {
                "value": self.domain.arrow_values,
                "count": self.counts,
                "frequency": self.frequencies,
                "standard_error": self.standard_errors,
                "low": self.low,
                "high": self.high,
            }
        )

    def __repr__(self) -> str:
        kind = "simultaneous" if self.simultaneous else "per value"
        head = f"Histogram of {self.n:,} reports, {self.confidence:.0%} intervals ({kind})"
        if self.biased:
            head += f" of the unbiased estimate; counts made consistent ({self.consistency}: biased)"
        order = np.argsort(-self.counts, kind="stable") if len(self) > 20 else np.arange(len(self))
        rows = [("value", "count", "frequency", "std.error", "low", "high")]
        for i in order[:20]:
            numbers = (self.counts[i], 100 * self.frequencies[i], self.standard_errors[i], self.low[i], self.high[i])
            c, f, s, lo, hi = numbers
            rows.append((self.domain.texts[i], f"{c:,.1f}", f"{f:.2f} %", f"{s:,.1f}", f"{lo:,.1f}", f"{hi:,.1f}"))
        widths = [max(len(row[k]) for row in rows) for k in range(6)]
        lines = ["  ".join([row[0].ljust(widths[0]), *(row[k].rjust(widths[k]) for k in range(1, 6))]) for row in rows]
        more = [f"... {len(self) - 20} more values, in order of count"] if len(self) > 20 else []
        return "\n".join([head, *lines, *more])
