"""Unbiased weights of reports as a column, and what sums of weights estimate: totals, ratios, quantiles of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

import ldp_core as core
from ldp_core import DtypeError, InputError, Mechanism, MechanismMismatchError, ParameterError, ReportError, Result
from ldp_core.engine import FIT_SCHEMA, QUANTILE_SCHEMA, Label, check_integer, check_open, refuse_keys_in, warn_user
from ldp_polars._compat import at_plan_time, chosen, multiplied
from ldp_polars.columns import (
    Report,
    answers_of,
    as_expr,
    check_mechanism,
    check_repeats_said,
    dtype_of,
    in_query,
    maker_of,
    of_one_noise,
    to_arrow,
    untyped,
)

_RATIO = dtype_of(pa.struct(list(core.Ratio.arrow_schema())))
_TOTAL = dtype_of(pa.struct(list(core.Total.arrow_schema())))
_FIT = pl.List(dtype_of(pa.struct(list(FIT_SCHEMA))))
_WEIGHTED = dtype_of(pa.struct(list(core.WeightedMean.arrow_schema())))
_QUANTILES = pl.List(dtype_of(pa.struct(list(QUANTILE_SCHEMA))))


def weight(
    expr: pl.Expr | str,
    value: Label | None = None,
    mechanism: Mechanism | None = None,
    *,
    repeats: int | None = None,
    assume_reports: bool = False,
) -> pl.Expr:
    """One unbiased weight per report: it is 1 on average where the record has the value, and 0 where it has another.

    Negative weights are normal: keep them. Weights of different columns are independent given the record, so that their
    product is a weight of both values. **Under keyed noise one column at two times is not two columns**: its weights
    share the noise, and sums of their product are wrong. Perturb each time with a ``tag=`` of its own. A warning says
    so of products, in an expression, of weights of two keyed columns of one mechanism; of weights that are columns
    already nothing tells. See `total`, `ratio` and `weighted_quantiles` for what sums of weights estimate.

    Args:
        expr, mechanism, assume_reports: see `estimate`.
        value: one of the domain's; of numbers None, where the weight is the report's value, on average the number.
        repeats: the most reports of one person in what is summed. Weights are the same whatever it is, but keyed noise
            asks for it: say the same to `total`, `ratio` and the others, whose errors it makes larger. Or sum weights
            by person first: such sums are independent.

    Returns:
        Float64, one per report.

    Raises:
        ParameterError: a value that the domain does not have, or a mechanism whose reports have no weights; when
            planned: keyed noise, and no ``repeats``.
        ReportError, MechanismMismatchError, DtypeError: see `estimate`.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(["ios", "android"], epsilon=1.0)
    >>> df = pl.DataFrame({"os": ["ios", "android"]}).select(ldp_polars.perturb("os", m))
    >>> df.select(ldp_polars.weight("os", "ios")).dtypes
    [Float64]
    """
    if mechanism is not None:
        check_mechanism(mechanism).code_of(value)  # what is refused is refused now
    said = None if repeats is None else check_integer("repeats", repeats, 1)
    chosen = partial(_weight, mechanism=mechanism, value=value, repeats=said, assume_reports=assume_reports)
    return at_plan_time(as_expr(expr), chosen)


def _weight(
    reports: pl.Expr, dtype: Any, *, mechanism: Mechanism | None, value: Any, repeats: int | None, assume_reports: bool
) -> pl.Expr:
    made_by = maker_of(reports, dtype, mechanism, assume_reports=assume_reports)
    check_repeats_said(reports.meta.output_name(raise_if_undetermined=False) or "", dtype, made_by, repeats)
    function = partial(_weighed, mechanism=made_by, code=made_by.code_of(value))
    return pl.map_batches([reports], function, return_dtype=pl.Float64, is_elementwise=True)


def _weighed(inputs: Sequence[pl.Series], return_dtype: Any = None, *, mechanism: Mechanism, code: int) -> pl.Series:
    """Polars calls it back: reports -> weights."""
    [reports] = inputs
    plain, name = untyped(reports, mechanism), reports.name
    if nulls := plain.null_count():
        raise ReportError(
            f"column {name!r}: {nulls} of {len(plain)} reports are null: leave these rows out; {_IN_BRANCHES}"
        )
    return pl.Series(name, mechanism.weights_of_code(to_arrow(plain), code, column=name))


_IN_BRANCHES = "in when/then, where Polars makes nulls of other rows, make the weights a column before, by with_columns"


def ratio(
    expr: pl.Expr | str,
    below: pl.Expr | str,
    *,
    of: core.Numeric | None = None,
    confidence: float = 0.95,
    repeats: int | None = None,
) -> pl.Expr:
    """Aggregate to the sum of some numbers over the sum of others, with Fieller's interval; see `ldp_core.ratio`.

    Args:
        expr, below: columns of numbers, as products of weights and public numbers. With w the weight of a value, the
            mean of y among those who have it is ``ratio(w * y, w)``; with a and b the weights of two values, the share
            of the first among those who have one of them is ``ratio(a, a + b)``; with c the weight of a value of
            another column, the rate of c in the group is ``ratio(w * c, w)``. Rows with a null in either are left out.
        of, confidence, repeats: see `ldp_core.ratio`.

    Returns:
        A ``Struct{ratio, standard_error, low, high, n}`` a group; low is -inf and high inf where the sum below is not
        clearly different from 0.

    Raises:
        ParameterError: confidence outside (0, 1); ``of`` without means.
        InputError: when run: numbers that are not finite.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"w": [1.5, -0.5, 1.5, -0.5] * 50, "minutes": [30.0, 10.0, 50.0, 20.0] * 50})
    >>> df.select(ldp_polars.ratio(pl.col("w") * pl.col("minutes"), "w")).unnest("w")["ratio"].round(2).to_list()
    [52.5]
    """
    core.ratio([], [], of=of)  # what is refused is refused now
    return _aggregated([expr, below], _answered, _RATIO, ask=core.ratio, of=of, **_errors(confidence, repeats))


def _errors(confidence: float, repeats: int | None) -> dict[str, Any]:
    """How large errors are, checked now."""
    times = 1 if repeats is None else check_integer("repeats", repeats, 1)
    return {"confidence": check_open("confidence", confidence), "repeats": times}


def total(
    expr: pl.Expr | str,
    weights: pl.Expr | str | None = None,
    *,
    confidence: float = 0.95,
    repeats: int | None = None,
) -> pl.Expr:
    """Aggregate to a sum of numbers with its interval: products of public numbers and weights of one column or two.

    Args:
        expr: a column of numbers; the total of y among those who have a value is ``total(w * y, w)``, w its weight.
            Nulls are left out. Or typed reports of private numbers, whose noise is known.
        weights: w, which products that differ ask for: see `ldp_core.total`.
        confidence, repeats: see `ldp_core.ratio`; keyed noise asks for it.

    Returns:
        A ``Struct{total, standard_error, low, high, n}`` a group. The error is that of noise and of the people
        together, who are a sample of many.

    Raises:
        ParameterError, InputError: see `ratio`.

    >>> import polars as pl, ldp_polars
    >>> pl.DataFrame({"w": [1.5, -0.5, 1.5]}).select(ldp_polars.total("w")).unnest("w")["total"].to_list()
    [2.5]
    """
    how: dict[str, Any] = {"ask": core.total, **_errors(confidence, repeats)}
    if weights is not None:
        return _aggregated([expr, weights], _answered, _TOTAL, **how)
    return _aggregated([expr], _answered, _TOTAL, said=repeats, **how)


def weighted_mean(
    expr: pl.Expr | str,
    *,
    weights: pl.Expr | str | None = None,
    groups: pl.Expr | str | None = None,
    shares: Mapping[Any, float] | None = None,
    confidence: float = 0.95,
    repeats: int | None = None,
) -> pl.Expr:
    """Aggregate to the mean of a population by survey weights or known shares of groups; see `ldp_core.weighted_mean`.

    Args:
        expr: a column of numbers, as `weight` makes them of reports: the mean is then the share of the value. Or typed
            reports of private numbers, whose noise is known.
        weights: a column: how many people each stands for. Default: all as many.
        groups: a column of public groups, with ``shares``.
        shares: of each group in the population (post-stratification).
        confidence, repeats: see `ldp_core.weighted_mean`; keyed noise of typed reports asks for it.

    Returns:
        A ``Struct{mean, standard_error, low, high, n, effective}`` a group.

    Raises:
        ParameterError, InputError: when run, see `ldp_core.weighted_mean`; nulls.
        MechanismMismatchError: when run: groups, or weights, that are reports.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"w": [1.5, -0.5, 1.5, 0.5], "sex": ["f", "m", "f", "m"]})
    >>> df.select(ldp_polars.weighted_mean("w", groups="sex", shares={"f": 0.5, "m": 0.5})).unnest("w")["mean"].item()
    0.75
    """
    columns = {"weights": weights, "groups": groups}
    given = {name: column for name, column in columns.items() if column is not None}
    options: dict[str, Any] = {"names": tuple(given), "shares": shares, **_errors(confidence, repeats)}
    options["said"] = repeats
    inputs = [expr, *given.values()]
    return _aggregated(inputs, _weighted_mean, _WEIGHTED, **options)


def _weighted_mean(
    inputs: Sequence[pl.Series], return_dtype: Any = None, *, names: Sequence[str], said: int | None, **options: Any
) -> pl.Series:
    """Polars calls it back: numbers, and perhaps weights and groups -> one mean."""
    numbers, *others = inputs
    others = [one.new_from_index(0, len(numbers)) if len(one) == 1 else one for one in others]  # (pl.lit)
    private = {
        name: column.name for name, column in zip(names, others, strict=True) if isinstance(column.dtype, Report)
    }
    if "weights" in private:
        raise MechanismMismatchError(
            f"columns {[private['weights']]} hold reports, says their dtype, and weights are public numbers: for a "
            "mean by a private one take (w * x).ldp.ratio(w, of=mechanism of x), of their .ldp.weight()"
        )
    refuse_keys_in(private.values(), "their dtype")
    nulls = [column.name for column in inputs if column.null_count()]
    if nulls:
        raise InputError(f"columns {nulls} have nulls: leave these rows out, or give them a group and a weight")
    columns: dict[str, Any] = {
        name: column.to_list() if name == "groups" else _without_nulls([column])[0]
        for name, column in zip(names, others, strict=True)
    }
    found = core.weighted_mean(_numbers(numbers, said), **columns, **options)
    return answers_of(numbers.name, found.to_arrow(), None, return_dtype)


def weighted_quantiles(
    expr: pl.Expr | str,
    probabilities: Sequence[float],
    weights: pl.Expr | str,
    *,
    confidence: float = 0.95,
    repeats: int | None = None,
) -> pl.Expr:
    """Aggregate to quantiles of public numbers in a private group; see `ldp_core.weighted_quantiles`.

    Args:
        expr: a column of public numbers (or its name).
        probabilities: of the quantiles, each in (0, 1).
        weights: of the group, as `weight` makes them. Rows with a null in either are left out.
        confidence, repeats: see `ldp_core.weighted_quantiles`.

    Returns:
        A ``List(Struct{probability, quantile, low, high, n})`` a group, as `quantiles` makes it.

    Raises:
        ParameterError: a probability outside (0, 1); numbers that are weights; and InputError: see `ratio`.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"minutes": range(1, 101), "w": 1.0})
    >>> df.select(ldp_polars.weighted_quantiles("minutes", [0.5], "w")).item().struct.unnest().row(0)
    (0.5, 50.0, 41.0, 60.0, 100)
    """
    if weighed := sorted(chosen(as_expr(expr))):
        raise ParameterError(
            f"quantiles by weights are of a public number; this one is made of columns {weighed}, as weights are, and "
            "their noise would count as that of the people. A private number needs a mechanism that has .ldp.quantiles"
        )
    how = _errors(confidence, repeats)
    checked = core.weighted_quantiles([], [], probabilities, **how)  # what is refused is refused now
    given = tuple(checked.probabilities.tolist())
    how |= {"ask": core.weighted_quantiles, "probabilities": given}
    return _aggregated([expr, weights], _answered, _QUANTILES, **how)


def _aggregated(
    columns: Sequence[pl.Expr | str], answer: Callable[..., pl.Series], dtype: Any, **options: Any
) -> pl.Expr:
    numbers = [as_expr(column) for column in columns]
    asked = pl.map_batches(numbers, in_query(answer, **options), return_dtype=dtype, returns_scalar=True)
    products = set[frozenset[str]]().union(*map(multiplied, numbers))
    factors = sorted(frozenset[str]().union(*products))
    if len(factors) < 2 or asked.meta.has_multiple_outputs():
        return asked
    name = asked.meta.output_name(raise_if_undetermined=False) or factors[0]
    looked = partial(_with_pairs, products=products, asked=asked)
    return at_plan_time(pl.struct(map(as_expr, factors)).alias(name), looked)


def _with_pairs(_: pl.Expr, dtype: Any, *, products: Any, asked: pl.Expr) -> pl.Expr:
    """What is asked; ``dtype`` is of the columns that are multiplied."""
    pairs = of_one_noise((field.name, field.dtype) for field in dtype.fields)
    _warn_of_one_noise([pair for pair in pairs if frozenset(pair) in products])
    return asked


def _warn_of_one_noise(pairs: Sequence[list[str]]) -> None:
    """Of two columns nothing else tells: what is wrong is as likely as what is right, where as many have changed."""
    if pairs:
        warn_user(
            f"columns {pairs[0]} have keyed noise of one mechanism: if they are one column at two times, they share "
            "it, and what is said of both together is wrong: perturb each time with a tag= of its own. Columns that "
            "were perturbed under names or tags of their own do not share it"
        )


def _answered(
    inputs: Sequence[pl.Series], return_dtype: Any = None, *, ask: Callable[..., Result], **options: Any
) -> pl.Series:
    """Polars calls it back: columns of numbers -> what the core says of them."""
    columns = [_numbers(inputs[0], options.pop("said"))] if "said" in options else _without_nulls(inputs)
    found = ask(*columns, **options)
    table = found.to_arrow()
    return answers_of(inputs[0].name, table, [len(table)] if isinstance(return_dtype, pl.List) else None, return_dtype)


def _without_nulls(columns: Sequence[pl.Series]) -> list[Any]:
    """The rows without a null in any, as numpy arrays."""
    for column in columns:
        if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
            came = "reports: take .ldp.weight(value) of them" if isinstance(column.dtype, Report) else column.dtype
            raise DtypeError(f"column {column.name!r}: expected numbers, got {came}")
    columns = [column.cast(pl.Float64) for column in columns]
    if any(column.null_count() for column in columns):
        columns = pl.DataFrame([column.alias(str(i)) for i, column in enumerate(columns)]).drop_nulls().get_columns()
    return [column.to_numpy() for column in columns]


def _numbers(column: pl.Series, said: int | None) -> Any:
    """Public numbers without nulls; or of typed reports of private ones the mechanism and these."""
    if not (isinstance(column.dtype, Report) and isinstance(column.dtype.mechanism, core.Numeric)):
        return _without_nulls([column])[0]
    check_repeats_said(column.name, column.dtype, column.dtype.mechanism, said)
    return column.dtype.mechanism, column.drop_nulls()


def linear_fit(
    expr: pl.Expr | str, y: pl.Expr | str, *, confidence: float = 0.95, repeats: int | None = None
) -> pl.Expr:
    """Aggregate two columns of numbers to their variances, covariance and line; see `ldp_core.linear_fit`.

    Args:
        expr, y: columns (or their names) of typed reports of private numbers; one of them may be of public numbers.
        confidence: of each interval.
        repeats: see `ldp_core.ratio`; keyed noise asks for it.

    Returns:
        A ``List(Struct{name, estimate, standard_error, low, high, n})`` a group.

    Raises:
        ParameterError: at once: weights (of a column that was made of some nothing tells); when run: reports of a
            mechanism that does not tell squares, as one-bit means do not; two public columns; fewer than two records;
            keyed noise, and no ``repeats``.
        InputError: when run: nulls, or numbers that are not finite.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import Piecewise
    >>> df = pl.DataFrame({"x": range(100), "y": range(3, 103)})
    >>> df = df.with_columns(pl.col("x").ldp.perturb(Piecewise((0, 99), epsilon=4.0)))
    >>> df.select(ldp_polars.linear_fit("x", "y")).explode("x").unnest("x")["name"][2]
    'slope'
    """
    if weighed := sorted(chosen(as_expr(expr)) | chosen(as_expr(y))):
        raise ParameterError(
            "a line is of public numbers, or of typed reports of private ones, whose noise is known; these are made of "
            f"columns {weighed}, as weights are, and their noise would count as that of the people. Means of y in "
            "private groups are (w * y).ldp.ratio(w), w the .ldp.weight of a value; what is public compute before"
        )
    return _aggregated([expr, y], _fitted, _FIT, said=repeats, **_errors(confidence, repeats))


def _fitted(inputs: Sequence[pl.Series], return_dtype: Any = None, *, said: int | None, **how: Any) -> pl.Series:
    """Polars calls it back: two columns -> one list of estimates."""
    for s in inputs:
        if isinstance(s.dtype, Report):
            check_repeats_said(s.name, s.dtype, s.dtype.mechanism, said)
        elif s.null_count():
            raise InputError(f"column {s.name!r} has nulls: leave these rows out of both columns")
    _warn_of_one_noise(of_one_noise((s.name, s.dtype) for s in inputs))
    x, y = ((s.dtype.mechanism, s) if isinstance(s.dtype, Report) else _without_nulls([s])[0] for s in inputs)
    return pl.Series(inputs[0].name, [core.linear_fit(x, y, **how).to_arrow().to_pylist()], dtype=_FIT)


def navigation_timing(value: pl.Expr | str = "value", rate: pl.Expr | str = "randomizedTriggerRate") -> pl.Expr:
    """The weight of "low" of what browsers report as ``PerformanceNavigationTiming.confidence``.

    Browsers say by randomized response whether a page's timing is representative ("high") or was measured while the
    browser started or the machine was busy ("low"): with the probability ``rate`` a fair coin decides, else it is true.
    The specification (W3C, Navigation Timing Level 2, PerformanceTimingConfidence) debiases by these weights; `total`,
    `ratio` and `weighted_quantiles` add intervals, which it lacks. ``1 - weight`` is the weight of "high".

    Args:
        value: column of "high" and "low".
        rate: column of ``randomizedTriggerRate``, in [0, 1), which may differ between records.

    Returns:
        Float64: (1[value is "low"] - rate / 2) / (1 - rate).

    Raises:
        InputError: when run: a value that is neither, or a rate that is none.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"value": ["high", "low"], "randomizedTriggerRate": [0.4994798, 0.4994798]})
    >>> df.select(ldp_polars.navigation_timing().round(4)).to_series().to_list()
    [-0.499, 1.499]
    """
    both = [as_expr(value).cast(pl.String), as_expr(rate).cast(pl.Float64)]
    return pl.map_batches(both, _of_browsers, return_dtype=pl.Float64, is_elementwise=True)


def _of_browsers(inputs: Sequence[pl.Series]) -> pl.Series:
    """Polars calls it back: "high" or "low", and rates -> weights."""
    value, rate = inputs
    if not (value.is_in(["high", "low"]) & rate.is_between(0, 1, closed="left")).fill_null(value=False).all():
        words = 'expected "high" or "low", and rates from 0 to below 1, without nulls'
        raise InputError(f"column {value.name!r}: {words}; {_IN_BRANCHES}")
    return ((value == "low").cast(pl.Float64) - rate / 2) / (1 - rate)
