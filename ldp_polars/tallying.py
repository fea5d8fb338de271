"""Tallies of reports, and sums of tallies, as aggregations; and which reports an honest client hardly ever sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from ldp_core import Mechanism, MechanismMismatchError
from ldp_core.engine import I64, type_words, warn_user
from ldp_polars._compat import at_plan_time
from ldp_polars.columns import (
    Report,
    as_expr,
    check_mechanism,
    in_query,
    maker_of,
    polars_words,
    to_arrow,
    unnamed,
    untyped,
)


def tally(expr: pl.Expr | str, mechanism: Mechanism | None = None, *, assume_reports: bool = False) -> pl.Expr:
    """Aggregate reports to a tally, which `merge` adds and `histogram`, `mean` and others estimate from.

    Args:
        expr, mechanism, assume_reports: see `estimate`, which raises the same errors.

    Returns:
        One ``Struct{n: Int64, counters: Array(Int64, d), fingerprint: String}`` a group.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(epsilon=1.0)
    >>> df = pl.DataFrame({"crashed": [True, False, True]}).select(ldp_polars.perturb("crashed", m))
    >>> df.select(ldp_polars.tally("crashed")).item()["n"]
    3
    """
    if mechanism is not None:
        check_mechanism(mechanism)
    return at_plan_time(as_expr(expr), partial(_tally, mechanism=mechanism, assume_reports=assume_reports))


def _tally(reports: pl.Expr, dtype: Any, *, mechanism: Mechanism | None, assume_reports: bool) -> pl.Expr:
    made_by = maker_of(reports, dtype, mechanism, assume_reports=assume_reports)
    return tally_for(reports, made_by, made_by)


def tally_for(
    expr: pl.Expr | str, mechanism: Mechanism, tallier: Any, repeats: int | None = None, *, grouped: bool = False
) -> pl.Expr:
    """`tally` of reports of a mechanism by what a question counts them with; see `Question.tallier`.

    If ``grouped``, for ``group_by``, where no report is in two groups: of all groups in one call.
    """
    function = in_query(_tallied, mechanism=mechanism, tallier=tallier, repeats=repeats, grouped=grouped)
    if grouped:
        lists = as_expr(expr).implode()
        return pl.map_batches([lists], function, return_dtype=tally_dtype(tallier), is_elementwise=True)
    return _aggregated(expr, function, tallier)


def merge(expr: pl.Expr | str, mechanism: Mechanism) -> pl.Expr:
    """Aggregate tallies to their sum; null tallies count as none.

    Args:
        expr: a column of tallies (or its name).
        mechanism: the one that made the reports.

    Raises:
        MechanismMismatchError: when run: a tally is another mechanism's.
        ReportError: when run: a tally's counters cannot be those of its n reports, whatever the others are; or all
            together have more reports than `Mechanism.most_reports`.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(epsilon=1.0)
    >>> df = pl.DataFrame({"day": [1, 1, 2], "crashed": [True, False, True]})
    >>> daily = df.with_columns(ldp_polars.perturb("crashed", m)).group_by("day").agg(ldp_polars.tally("crashed"))
    >>> daily.select(ldp_polars.merge("crashed", m)).item()["n"]
    3
    """
    return _aggregated(expr, partial(_merged, mechanism=check_mechanism(mechanism)), mechanism)


def _aggregated(expr: pl.Expr | str, function: Callable[..., pl.Series], tallier: Any) -> pl.Expr:
    return pl.map_batches([as_expr(expr)], function, return_dtype=tally_dtype(tallier), returns_scalar=True)


def is_tally(dtype: Any) -> bool:
    """Whether a dtype is that of tallies, of whatever mechanism."""
    return isinstance(dtype, pl.Struct) and [field.name for field in dtype.fields] == ["n", "counters", "fingerprint"]


def tally_dtype(tallier: Any) -> pl.Struct:
    """Struct{n, counters, fingerprint}, of a mechanism's tallies or of a question's own."""
    counters = pl.Array(pl.Int64, tallier.counters)
    return pl.Struct({"n": pl.Int64, "counters": counters, "fingerprint": pl.String})


def _tallied(
    inputs: Sequence[pl.Series],
    return_dtype: object = None,
    *,
    mechanism: Mechanism,
    tallier: Any,
    repeats: int | None,
    grouped: bool,
) -> pl.Series:
    """Polars calls it back: reports -> one tally; or lists of reports -> a tally of each."""
    [reports] = inputs
    sizes = np.array([len(reports)])
    if grouped:
        sizes, name = unnamed(reports).list.len().to_numpy().astype(np.int64), reports.name
        reports = unnamed(reports).explode(empty_as_null=False).alias(name)
    plain = untyped(reports, mechanism)
    arrow = to_arrow(plain)
    form = tallier.reports
    with polars_words(plain, arrow, form.arrow_type(), form.arrow_type(packed=True)):
        counters = tallier.tally_parts(arrow, sizes, column=reports.name)
    for end, size in zip(np.cumsum(sizes)[sizes >= _LOOKED_AT], sizes[sizes >= _LOOKED_AT], strict=True):
        warn_of_copies(reports, arrow.slice(end - size, size), mechanism, repeats)
    return tally_series(reports.name, sizes, counters, tallier.fingerprint)


_LOOKED_AT = 512  # reports: to look at each of a thousand groups of 100 would take a fifth of the time of all


def warn_of_copies(reports: pl.Series, arrow: pa.Array, mechanism: Mechanism, repeats: int | None) -> None:
    """Warn where reports that are said to be of other people each are there twice, see `Mechanism.copied`."""
    if len(arrow) < _LOOKED_AT:
        return
    once = repeats == 1 or (repeats is None and isinstance(dtype := reports.dtype, Report) and not dtype.keyed)
    if once and mechanism.copied(arrow, column=reports.name):
        words = "reports are there twice, as after a join of what is perturbed, so that intervals are too narrow"
        warn_user(f"column {reports.name!r}: {words}. Take one of each record, or say repeats=")


def _merged(inputs: Sequence[pl.Series], return_dtype: object = None, *, mechanism: Mechanism) -> pl.Series:
    """Polars calls it back: tallies -> their sum."""
    [tallies] = inputs
    n, counters = counts(unnamed(tallies).drop_nulls().alias(tallies.name), mechanism)
    total = sum(n.tolist())
    mechanism.check_total(total)
    return tally_series(tallies.name, [total], counters.sum(axis=0), mechanism.fingerprint)


def tally_series(name: str, n: Sequence[int] | I64, counters: I64, fingerprint: str) -> pl.Series:
    """k tallies, of n, int64[k], and counters, int64[k, counters], as a Series of `tally_dtype`."""
    made = pa.FixedSizeListArray.from_arrays(pa.array(counters.reshape(-1)), counters.shape[-1])
    made_by = pa.array([fingerprint] * len(n), pa.string())
    fields = {"n": pa.array(n, pa.int64()), "counters": made, "fingerprint": made_by}
    return pl.Series(name, pa.StructArray.from_arrays(list(fields.values()), list(fields)))


def counts_with_nulls(tallies: pl.Series, mechanism: Mechanism) -> tuple[I64, I64]:
    """`counts`; of null those of no reports."""
    there = tallies.is_not_null().to_numpy()
    n, counters = np.zeros(len(tallies), np.int64), np.zeros((len(tallies), mechanism.counters), np.int64)
    n[there], counters[there] = counts(tallies.drop_nulls(), mechanism)
    return n, counters


def counts(tallies: pl.Series, mechanism: Any) -> tuple[I64, I64]:
    """``n``, int64[k], and the counters, int64[k, counters], of k tallies; see `merge` for errors."""
    if tallies.dtype != tally_dtype(mechanism):
        came = "reports" if isinstance(tallies.dtype, Report) else type_words(tallies.dtype)
        raise MechanismMismatchError(
            f"column {tallies.name!r}: tallies of this mechanism are {tally_dtype(mechanism)}, got {came}; "
            ".ldp.tally makes them of reports, and .ldp.histogram estimates from reports; cast those that "
            "another program wrote to that dtype"
        )
    fields = unnamed(tallies).struct
    other = int(fields.field("fingerprint").ne_missing(mechanism.fingerprint).sum())
    if other:
        raise MechanismMismatchError(
            f"column {tallies.name!r}: {other} of {len(tallies)} tallies were made by another mechanism "
            f"than {mechanism.described}: estimate with the mechanism that made the reports"
        )
    n, counters = fields.field("n").to_numpy(), fields.field("counters").to_numpy()
    if n.dtype != np.int64 or counters.dtype != np.int64:  # what to_numpy makes of nulls
        raise MechanismMismatchError(f"column {tallies.name!r}: tallies hold nulls in n or counters")
    counters = counters.reshape(len(tallies), mechanism.counters)
    mechanism.check_counts(n, counters, column=tallies.name)
    return n, counters


# ---- which reports an honest client hardly ever sends


def suspicious(expr: pl.Expr | str, mechanism: Mechanism | None = None, *, false_alarm: float = 1e-6) -> pl.Expr:
    """Whether each report has so few or so many ones as an honest one hardly ever has.

    It finds crude attacks only; see `Mechanism.suspicious` for what it cannot see.

    Args:
        expr, mechanism: see `estimate`.
        false_alarm: the most that the probability may be that an honest report is suspicious, in (0, 1).

    Returns:
        Boolean, one per report.

    Raises:
        ParameterError: false_alarm outside (0, 1); or nothing of the kind is known of such reports.
        ReportError, MechanismMismatchError, DtypeError: see `estimate`.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import UnaryEncoding
    >>> m = UnaryEncoding(range(40), epsilon=1.0)
    >>> df = pl.DataFrame({"r": [[True] * 40, [True, False] * 20]}, schema={"r": pl.Array(pl.Boolean, 40)})
    >>> df.select(ldp_polars.suspicious("r", m)).to_series().to_list()
    [True, False]
    """
    if mechanism is None:
        return at_plan_time(as_expr(expr), partial(_of_typed, false_alarm=false_alarm))
    function = partial(_flagged, mechanism=check_mechanism(mechanism), false_alarm=false_alarm)
    nothing = pl.Series(mechanism.reports.to_arrow(mechanism.reports.empty(0)))
    function([nothing])  # what is refused is refused now
    return pl.map_batches([as_expr(expr)], function, return_dtype=pl.Boolean, is_elementwise=True)


def _of_typed(reports: pl.Expr, dtype: Any, *, false_alarm: float) -> pl.Expr:
    return suspicious(reports, maker_of(reports, dtype, None, assume_reports=False), false_alarm=false_alarm)


def _flagged(
    inputs: Sequence[pl.Series], return_dtype: object = None, *, mechanism: Mechanism, false_alarm: float
) -> pl.Series:
    """Polars calls it back: reports -> Booleans."""
    [reports] = inputs
    arrow, name = to_arrow(untyped(reports, mechanism)), reports.name
    return pl.Series(name, mechanism.suspicious(arrow, false_alarm=false_alarm, column=name))
