"""Means and distributions of numbers, as aggregations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from ldp_core import Mechanism
from ldp_core.estimates.distribution import Distributing, check_distributing
from ldp_core.estimates.options import check_confidence
from ldp_core.mechanisms.numbers._base import Numeric, check_numeric
from ldp_polars.dtypes import spread
from ldp_polars.functions import as_expr, tally
from ldp_polars.planned import at_plan_time
from ldp_polars.typed import mechanism_of
from ldp_polars.udfs import arrays, checked, tallies

MEAN = pl.Struct({**dict.fromkeys(("mean", "standard_error", "low", "high"), pl.Float64), "n": pl.Int64})
DISTRIBUTION = pl.List(
    pl.Struct(dict.fromkeys(("left", "right", "frequency", "standard_error", "low", "high"), pl.Float64))
)


def mean(expr: pl.Expr | str, mechanism: Numeric | None = None, *, confidence: float = 0.95) -> pl.Expr:
    """Aggregate reports to the mean of the numbers, in ``select``, ``group_by``, windows, ``rolling`` or ``over``.

    Args:
        expr: a column of reports (or its name), as `perturb` makes them.
        mechanism: the one that made them, as `ldp_core.Hybrid`; not needed for typed reports.
        confidence: of the interval, in (0, 1).

    Returns:
        A ``Struct{mean, standard_error, low, high, n}`` a group, in the numbers' own unit; ``unnest`` makes columns.
        The mean is unbiased; see `ldp_core.Mean`. nan without reports.

    Raises:
        ParameterError: not a mechanism for numbers, or a confidence outside (0, 1).
        ReportError: when run: nulls, or not this mechanism's reports.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core.mechanisms.numbers.hybrid import Hybrid
    >>> m = Hybrid((0, 100), epsilon=1.0)
    >>> reports = pl.DataFrame({"age": [20.0, 30.0, 40.0] * 1000}).select(ldp_polars.perturb("age", m))
    >>> reports.select(ldp_polars.mean("age", m)).unnest("age").columns
    ['mean', 'standard_error', 'low', 'high', 'n']
    """
    check_confidence(confidence)
    if mechanism is None:
        return at_plan_time(as_expr(expr), partial(_mean_typed, confidence=confidence))
    return estimate_mean(tally(expr, check_numeric(mechanism)), mechanism, confidence=confidence)


def estimate_mean(expr: pl.Expr | str, mechanism: Numeric, *, confidence: float = 0.95) -> pl.Expr:
    """`mean` of a column of tallies, as `tally` and `merge` make them, each by itself; null gives null.

    Raises:
        MechanismMismatchError: when run: a tally is another mechanism's.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import Hybrid
    >>> m = Hybrid((0, 100), epsilon=1.0)
    >>> tallies = pl.DataFrame({"age": m.perturb([20.0, 30.0])}).select(ldp_polars.tally("age", m))
    >>> tallies.select(ldp_polars.estimate_mean("age", m)).unnest("age")["n"].to_list()
    [2]
    """
    udf = EstimateMean(check_numeric(mechanism), check_confidence(confidence))
    return pl.map_batches([as_expr(expr)], udf, return_dtype=MEAN, is_elementwise=True)


def distribution(
    expr: pl.Expr | str, mechanism: Distributing | None = None, *, confidence: float = 0.95, **options: Any
) -> pl.Expr:
    """Aggregate reports to the distribution of the numbers over buckets.

    Args:
        expr: a column of reports (or its name), as `perturb` makes them.
        mechanism: the one that made them, `ldp_core.SquareWave` or `ldp_core.StochasticRounding`; not needed for typed
            reports.
        confidence: of the intervals, in (0, 1).
        options: of the mechanism's ``distribution``: of `SquareWave` ``buckets=`` and ``method=``.

    Returns:
        A ``List(Struct{left, right, frequency, standard_error, low, high})`` a group, one entry a bucket from ``left``
        to ``right``: ``.explode(name).unnest(name)`` makes it a table. Of `SquareWave` the interval allows for bias,
        too; the standard error does not.

    Raises:
        ParameterError: not a mechanism for distributions, or bad values of its options.
        TypeError: an option that the mechanism does not have.
        ReportError: when run: nulls, or not this mechanism's reports.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core.mechanisms.numbers.square_wave import SquareWave
    >>> m = SquareWave((0, 100), epsilon=1.0, buckets=200)
    >>> reports = pl.DataFrame({"age": [20.0, 30.0, 40.0] * 1000}).select(ldp_polars.perturb("age", m))
    >>> buckets = reports.select(ldp_polars.distribution("age", m, buckets=10)).explode("age").unnest("age")
    >>> buckets["right"].to_list()[:2]
    [10.0, 20.0]
    """
    check_confidence(confidence)
    if mechanism is None:
        return at_plan_time(as_expr(expr), partial(_distribution_typed, confidence=confidence, options=options))
    made = check_distributing(mechanism, confidence=confidence, **options)
    return estimate_distribution(tally(expr, made), mechanism, confidence=confidence, **options)


def estimate_distribution(
    expr: pl.Expr | str, mechanism: Distributing, *, confidence: float = 0.95, **options: Any
) -> pl.Expr:
    """`distribution` of a column of tallies, as `tally` and `merge` make them, each by itself; null gives null.

    Raises:
        MechanismMismatchError: when run: a tally is another mechanism's.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import StochasticRounding
    >>> m = StochasticRounding((0, 10), epsilon=1.0, buckets=3)
    >>> tallies = pl.DataFrame({"age": m.perturb([2.5, 7.5])}).select(ldp_polars.tally("age", m))
    >>> buckets = tallies.select(ldp_polars.estimate_distribution("age", m)).explode("age").unnest("age")
    >>> buckets["right"].to_list()
    [2.5, 7.5, 10.0]
    """
    made = check_distributing(mechanism, confidence=confidence, **options)
    udf = EstimateDistribution(made, confidence, tuple(sorted(options.items())))
    return pl.map_batches([as_expr(expr)], udf, return_dtype=DISTRIBUTION, is_elementwise=True)


@dataclass(frozen=True)
class EstimateMean:
    """Tallies -> structs of a mean, row by row but all at once; null -> null."""

    mechanism: Numeric
    confidence: float

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: pl.DataType | None = None) -> pl.Series:
        """See `ldp_polars.udfs`."""
        column, m = inputs[0], self.mechanism
        n, counts = arrays(checked(column.drop_nulls(), m), m)
        means = m.means(n, counts, confidence=self.confidence)
        rows = pl.DataFrame([*means, n], schema=MEAN.to_schema()).to_struct(column.name)
        return spread(rows, column.is_not_null())


@dataclass(frozen=True)
class EstimateDistribution:
    """Tallies -> lists of buckets, row by row; null -> null."""

    mechanism: Mechanism
    confidence: float
    options: tuple[tuple[str, Any], ...]

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: pl.DataType | None = None) -> pl.Series:
        """See `ldp_polars.udfs`."""
        column, m = inputs[0], self.mechanism
        assert isinstance(m, Distributing)  # noqa: S101 (of `estimate_distribution`)
        options = dict(self.options)
        made = [m.distribution(t, confidence=self.confidence, **options) for t in tallies(column.drop_nulls(), m)]
        lists = [one.to_polars().to_struct(column.name).implode() for one in made]
        rows = pl.concat(lists) if lists else pl.Series(column.name, [], DISTRIBUTION)
        return spread(rows, column.is_not_null())


def _mean_typed(reports: pl.Expr, dtype: Any, *, confidence: float) -> pl.Expr:
    made_by: Any = mechanism_of(dtype, reports.meta.output_name())
    return mean(reports, made_by, confidence=confidence)


def _distribution_typed(reports: pl.Expr, dtype: Any, *, confidence: float, options: dict[str, Any]) -> pl.Expr:
    made_by: Any = mechanism_of(dtype, reports.meta.output_name())
    return distribution(reports, made_by, confidence=confidence, **options)
