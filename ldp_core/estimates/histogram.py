"""Histograms: debiased counts with error bars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from typing_extensions import override

from ldp_core.charts.drawing import draw_histogram, row_of
from ldp_core.charts.themes import Chart, Theme
from ldp_core.estimates.base import Estimate, Result, refuse_mechanism
from ldp_core.estimates.consistency import Consistency, Noisy, check_method, consistent
from ldp_core.estimates.plausibility import watch
from ldp_core.exact.arrays import F64, I64
from ldp_core.inputs.domain import Domain, Label
from ldp_core.mechanism import Mechanism
from ldp_core.parameters import check_open, parameter
from ldp_core.tables import aligned, html
from ldp_core.tally import Tally


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
        numbers = (self.counts, self.frequencies, self.standard_errors, self.low, self.high)
        return pa.table([self.domain.arrow_values, *numbers], entries_schema(self.domain.arrow_type))

    def plot(
        self,
        *,
        truth: Mapping[Label, float] | None = None,
        shares: bool = False,
        top: int = 20,
        title: str = "",
        theme: Theme | None = "light",
    ) -> Chart:
        """Bars of the counts with their intervals, as an Altair chart; needs the extra ``plot``.

        Args:
            truth: value to true count, if it is known; intervals that do not hold it are drawn in another colour.
            shares: shares of the n people in place of counts.
            top: draw at most so many values; if there are more, those of the largest counts.
            title: what is shown above.
            theme: ``"light"``, ``"dark"``, or None for a chart without colours of its own.

        Raises:
            MissingExtraError: Altair is not installed.
            ParameterError: bad options.

        >>> from ldp_core import RandomizedResponse
        >>> m = RandomizedResponse(["ios", "android"], epsilon=2.0)
        >>> chart = m.estimate(m.simulate([700, 300], seed=1)).plot(title="systems")
        >>> chart.to_dict()["title"]["subtitle"]
        ['1,000 reports, 95 % intervals']
        """
        rows = [row_of(record) for record in self.to_arrow().to_pylist()]
        options: dict[str, Any] = {"truth": truth, "shares": shares, "top": top, "title": title, "theme": theme}
        return draw_histogram(rows, n=self.n, confidence=self.confidence, **options)

    def _shown(self) -> tuple[str, list[tuple[str, ...]], list[str]]:
        """What is shown: a head, rows of cells, and notes."""
        kind = "simultaneous" if self.simultaneous else "per value"
        head = f"Histogram of {self.n:,} reports, {self.confidence:.0%} intervals ({kind})"
        if self.biased:
            head += f" of the unbiased estimate; counts made consistent ({self.consistency}: biased)"
        order = np.argsort(-self.counts, kind="stable") if len(self) > 20 else np.arange(len(self))
        rows: list[tuple[str, ...]] = [("value", "count", "frequency", "std.error", "low", "high")]
        for i in order[:20]:
            numbers = (self.counts[i], 100 * self.frequencies[i], self.standard_errors[i], self.low[i], self.high[i])
            c, f, s, lo, hi = numbers
            rows.append((self.domain.texts[i], f"{c:,.1f}", f"{f:.2f} %", f"{s:,.1f}", f"{lo:,.1f}", f"{hi:,.1f}"))
        more = [f"... {len(self) - 20} more values, in order of count"] if len(self) > 20 else []
        return head, rows, more

    def __repr__(self) -> str:
        head, rows, more = self._shown()
        return "\n".join([head, *aligned(rows, numbers=range(1, 6)), *more])

    @override
    def _repr_html_(self) -> str:
        head, rows, more = self._shown()
        return html(rows, title=head, numbers=range(1, 6), notes=more)


@runtime_checkable
class Counting(Noisy, Protocol):
    """What a mechanism with histograms offers: a `FrequencyOracle`."""

    def debias(
        self, n: Any, counters: I64, *, confidence: float = 0.95, simultaneous: bool = False
    ) -> tuple[F64, F64, F64, F64]:
        """Estimated counts, their standard errors, and the low and high ends of their intervals."""
        ...


@dataclass(frozen=True, init=False)
class HistogramEstimate(Estimate[Histogram]):
    """How many records hold each value of the domain.

    Args:
        confidence: of the intervals, in (0, 1).
        simultaneous: widen them so that all d hold together with that confidence (Bonferroni).
        consistency: make the counts non-negative and add up to n by a method of `consistent`;
            biased. Standard errors and intervals remain those of the unbiased estimate.

    Raises:
        ParameterError: confidence outside (0, 1), or an unknown method.

    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(epsilon=1.0)
    >>> HistogramEstimate(consistency="norm-sub").result(m, m.tally([True, True])).counts.tolist()
    [0.0, 2.0]
    """

    confidence: float = parameter(check_open)
    simultaneous: bool = parameter()
    consistency: Consistency | None = parameter()

    def __init__(
        self, confidence: float = 0.95, simultaneous: bool = False, consistency: Consistency | None = None
    ) -> None:
        if consistency is not None:
            check_method(consistency)
        self._declare(confidence=confidence, simultaneous=simultaneous, consistency=consistency)

    @override
    def check(self, mechanism: Mechanism) -> None:
        if not isinstance(mechanism, Mechanism) or not isinstance(mechanism, Counting):
            raise refuse_mechanism("a histogram", "a frequency oracle", mechanism)
        if self.consistency is not None:
            check_method(self.consistency, mechanism)

    @override
    def schema(self, mechanism: Any) -> pa.Schema:
        return entries_schema(mechanism.domain.arrow_type)

    @override
    def result(self, mechanism: Any, tally: Tally) -> Histogram:
        self.check(mechanism)
        mechanism.check_tally(tally)
        arrays = self._arrays(mechanism, tally.n, tally.counters)
        return Histogram(mechanism.domain, tally.n, *arrays, self.confidence, self.simultaneous, self.consistency)

    @override
    def table(self, mechanism: Any, n: I64, counters: I64) -> tuple[pa.Table, I64]:
        domain: Domain = mechanism.domain
        counts, *rest = self._arrays(mechanism, n[:, None], counters)
        with np.errstate(invalid="ignore"):
            frequencies = counts / n[:, None]  # nan where there are no reports
        values = domain.arrow_values.take(pa.array(np.tile(np.arange(domain.size), len(n))))
        numbers = [array.reshape(-1) for array in (counts, frequencies, *rest)]
        return pa.table([values, *numbers], self.schema(mechanism)), np.full(len(n), domain.size)

    def _arrays(self, mechanism: Any, n: Any, counters: I64) -> tuple[F64, F64, F64, F64]:
        """`Counting.debias`, and counts made consistent, of any number of tallies at once."""
        counts, errors, low, high = mechanism.debias(
            n, counters, confidence=self.confidence, simultaneous=self.simultaneous
        )
        watch(mechanism, n, counters, counts)
        if self.consistency is not None:
            known = ~np.isnan(counts[..., 0])  # (a sampled column that nobody answered has no estimate)
            total = np.broadcast_to(n, (*known.shape, 1))[known]
            counts[known] = consistent(counts[known], total, self.consistency, mechanism=mechanism)
        return counts, errors, low, high


def entries_schema(values: pa.DataType) -> pa.Schema:
    """Columns of a table of counted values: value, count, frequency, standard_error, low, high."""
    numbers = ("count", "frequency", "standard_error", "low", "high")
    return pa.schema([("value", values), *((name, pa.float64()) for name in numbers)])
