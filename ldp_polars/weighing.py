"""Unbiased weights of reports as a column, and what sums of weights estimate: totals, ratios, quantiles of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from ldp_core import InputError, Mechanism, weighted_quantiles
from ldp_core.engine import F64, QUANTILE_SCHEMA, RATIO_SCHEMA, Label, check_open, ratios, totals
from ldp_polars.columns import as_expr, check_mechanism, dtype_of, of_typed, to_arrow, untyped

_ROW = dtype_of(pa.struct(list(RATIO_SCHEMA)))
_TOTAL = dtype_of(pa.struct([RATIO_SCHEMA.field(0).with_name("total"), *list(RATIO_SCHEMA)[1:]]))
_QUANTILES = pl.List(dtype_of(pa.struct(list(QUANTILE_SCHEMA))))


def weight(expr: pl.Expr | str, value: Label | None = None, mechanism: Mechanism | None = None) -> pl.Expr:
    """One unbiased weight per report: it is 1 on average where the record has the value, and 0 where it has another.

    Negative weights are normal: keep them. Weights of different columns are independent given the record, so that their
    product is a weight of both values. See `total`, `ratio` and `quantiles` for what sums of them estimate.

    Args:
        expr: a column of reports (or its name).
        value: one of the domain's; of numbers None, where the weight is the report's value, on average the number.
        mechanism: the one that made the reports; not needed for typed reports.

    Returns:
        Float64, one per report.

    Raises:
        ParameterError: a value that the domain does not have, or a mechanism whose reports have no weights.
        ReportError: when run: nulls, or not the shape of this mechanism's reports.
        MechanismMismatchError: when run: typed reports of another mechanism.
        DtypeError: when planned: no mechanism, and no typed reports.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ios", "android"], epsilon=1.0)
    >>> df = pl.DataFrame({"os": ["ios", "android"]}).select(ldp_polars.perturb("os", m))
    >>> df.select(ldp_polars.weight("os", "ios")).dtypes
    [Float64]
    """
    if mechanism is None:
        return of_typed(expr, partial(_weight, value=value))
    return _weight(as_expr(expr), check_mechanism(mechanism), value)


def _weight(expr: pl.Expr, mechanism: Mechanism, value: Any) -> pl.Expr:
    function = partial(_weighed, mechanism=mechanism, value=value)
    function([pl.Series(mechanism.reports.to_arrow(mechanism.reports.empty(0)))])  # what is refused is refused now
    return pl.map_batches([expr], function, return_dtype=pl.Float64, is_elementwise=True)


def _weighed(inputs: Sequence[pl.Series], return_dtype: Any = None, *, mechanism: Mechanism, value: Any) -> pl.Series:
    """Polars calls it back: reports -> weights."""
    [reports] = inputs
    arrow, name = to_arrow(untyped(reports, mechanism)), reports.name
    return pl.Series(name, mechanism.weights(arrow, value, column=name))


def ratio(expr: pl.Expr | str, below: pl.Expr | str, *, confidence: float = 0.95) -> pl.Expr:
    """Aggregate to the sum of some numbers over the sum of others, with Fieller's interval; see `ldp_core.ratio`.

    Args:
        expr, below: columns of numbers, as products of weights and public numbers. With w the weight of a value, the
            mean of y among those who have it is ``ratio(w * y, w)``; with a and b the weights of two values, the share
            of the first among those who have one of them is ``ratio(a, a + b)``; with c the weight of a value of
            another column, the rate of c in the group is ``ratio(w * c, w)``. Rows with a null in either are left out.
        confidence: of the interval, in (0, 1).

    Returns:
        A ``Struct{ratio, standard_error, low, high, n}`` a group; low is -inf and high inf where the sum below is not
        clearly different from 0.

    Raises:
        ParameterError: confidence outside (0, 1).
        InputError: when run: numbers that are not finite.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"w": [1.5, -0.5, 1.5, -0.5] * 50, "minutes": [30.0, 10.0, 50.0, 20.0] * 50})
    >>> df.select(ldp_polars.ratio(pl.col("w") * pl.col("minutes"), "w")).unnest("w")["ratio"].round(2).to_list()
    [52.5]
    """
    u, w = as_expr(expr).cast(pl.Float64), as_expr(below).cast(pl.Float64)
    both = u.is_not_null() & w.is_not_null()
    u, w = u.filter(both), w.filter(both)
    return _of_sums([u, w, u * u, u * w, w * w], lambda n, sums: ratios(sums, confidence), _ROW, confidence)


def total(expr: pl.Expr | str, *, confidence: float = 0.95) -> pl.Expr:
    """Aggregate to a sum of numbers with its interval: products of weights and public numbers.

    Args:
        expr: a column of numbers; the total of y among those who have a value is ``total(w * y)``, w its weight.
            Nulls are left out.
        confidence: of the interval, in (0, 1).

    Returns:
        A ``Struct{total, standard_error, low, high, n}`` a group. The error is that of noise and of the people
        together, who are a sample of many.

    Raises:
        ParameterError: confidence outside (0, 1).
        InputError: when run: numbers that are not finite.

    >>> import polars as pl, ldp_polars
    >>> pl.DataFrame({"w": [1.5, -0.5, 1.5]}).select(ldp_polars.total("w")).unnest("w")["total"].to_list()
    [2.5]
    """
    u = as_expr(expr).cast(pl.Float64).drop_nulls()
    return _of_sums([u, u * u], lambda n, sums: totals(n, sums, confidence), _TOTAL, confidence)


def _of_sums(
    summed: Sequence[pl.Expr], estimate: Callable[[Any, F64], Sequence[F64]], row: pl.DataType, confidence: float
) -> pl.Expr:
    """Structs ``row``, a group each, from sums that Polars makes by itself."""
    check_open("confidence", confidence)
    sums = pl.struct(summed[0].len().alias("n"), *(e.sum().alias(f"{i}") for i, e in enumerate(summed)))
    found = partial(_estimated, estimate=estimate)
    named = summed[0].meta.output_name()
    return pl.map_batches([sums], found, return_dtype=row, is_elementwise=True).alias(named)


def _estimated(inputs: Sequence[pl.Series], return_dtype: Any = None, *, estimate: Any) -> pl.Series:
    """Polars calls it back: sums -> estimates, a group each."""
    [given] = inputs
    n, *sums = (given.struct.field(field).to_numpy() for field in given.struct.fields)
    arrays = np.stack(sums, axis=-1)
    if not np.isfinite(arrays).all():
        raise InputError("the numbers that are summed must be finite: leave out NaN and infinities, as by drop_nans()")
    names = [field.name for field in return_dtype.fields]
    columns = (*estimate(n, arrays), n)
    return pl.DataFrame(dict(zip(names, columns, strict=True))).to_struct(given.name).cast(return_dtype)


def quantiles(
    expr: pl.Expr | str, probabilities: Sequence[float], weights: pl.Expr | str, *, confidence: float = 0.95
) -> pl.Expr:
    """Aggregate to quantiles of public numbers in a private group; see `ldp_core.weighted_quantiles`.

    Args:
        expr: a column of public numbers (or its name).
        probabilities: of the quantiles, each in (0, 1).
        weights: of the group, as `weight` makes them. Rows with a null in either are left out.
        confidence: of each interval, in (0, 1).

    Returns:
        A ``List(Struct{probability, quantile, low, high, n})`` a group: ``.explode(name).unnest(name)`` makes it a
        table.

    Raises:
        ParameterError: a probability or confidence outside (0, 1).
        InputError: when run: numbers that are not finite.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"minutes": range(1, 101), "w": 1.0})
    >>> df.select(ldp_polars.quantiles("minutes", [0.5], "w")).item().struct.unnest().row(0)
    (0.5, 50.0, 41.0, 60.0, 100)
    """
    function = partial(_quantiles, probabilities=tuple(probabilities), confidence=confidence)
    function([pl.Series([], dtype=pl.Float64)] * 2)  # what is refused is refused now
    both = [as_expr(expr).cast(pl.Float64), as_expr(weights).cast(pl.Float64)]
    return pl.map_batches(both, function, return_dtype=_QUANTILES, returns_scalar=True)


def _quantiles(
    inputs: Sequence[pl.Series], return_dtype: Any = None, *, probabilities: Sequence[float], confidence: float
) -> pl.Series:
    """Polars calls it back: numbers and weights -> one list of quantiles."""
    numbers, weights = inputs
    there = numbers.is_not_null() & weights.is_not_null()
    found = weighted_quantiles(numbers.filter(there), weights.filter(there), probabilities, confidence=confidence)
    return pl.Series(numbers.name, [found.to_arrow().to_pylist()], dtype=_QUANTILES)


def navigation_timing(value: pl.Expr | str = "value", rate: pl.Expr | str = "randomizedTriggerRate") -> pl.Expr:
    """The weight of "low" of what browsers report as ``PerformanceNavigationTiming.confidence``.

    Browsers say by randomized response whether a page's timing is representative ("high") or was measured while the
    browser started or the machine was busy ("low"): with the probability ``rate`` a fair coin decides, else it is true.
    The specification (W3C, Navigation Timing Level 2, PerformanceTimingConfidence) debiases by these weights; `total`,
    `ratio` and `quantiles` add intervals, which it lacks. ``1 - weight`` is the weight of "high".

    Args:
        value: column of "high" and "low".
        rate: column of ``randomizedTriggerRate``, in [0, 1), which may differ between records.

    Returns:
        Float64: (1[value is "low"] - rate / 2) / (1 - rate).

    Raises:
        InvalidOperationError: when run, by Polars: a value that is neither.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"value": ["high", "low"], "randomizedTriggerRate": [0.4994798, 0.4994798]})
    >>> df.select(ldp_polars.navigation_timing().round(4)).to_series().to_list()
    [-0.499, 1.499]
    """
    low = as_expr(value).replace_strict({"high": 0.0, "low": 1.0}, return_dtype=pl.Float64)
    return (low - as_expr(rate) / 2) / (1 - as_expr(rate))
