"""The typed functions; the ``.ldp`` namespaces are sugar for these.

Perturb first, in a ``with_columns`` or ``select`` of its own, and aggregate the resulting column:
every evaluation of a perturbing expression draws again, and each draw spends epsilon again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import polars as pl

from ldp_core import (
    Domain,
    DtypeError,
    Mechanism,
    ParameterError,
    PrivacyPlan,
    RandomizedResponse,
    UnaryEncoding,
)
from ldp_polars.dtypes import physical_report_dtype, report_dtype, tally_dtype
from ldp_polars.noise import NoiseOptions, is_keyed, keyed_noise
from ldp_polars.planned import at_plan_time
from ldp_polars.typed import Report, mechanism_of
from ldp_polars.udfs import MergeTallies, Perturb, TallyReports

if TYPE_CHECKING:
    from ldp_core.inputs.domain import Label, Unmatched
    from ldp_core.mechanisms.oracles.unary_encoding import Variant


def perturb(
    expr: pl.Expr | str,
    mechanism: Mechanism,
    *,
    packed: bool = False,
    typed: bool = False,
    **noise: Unpack[NoiseOptions],
) -> pl.Expr:
    """One private report a row; under fresh noise, if nothing else is said.

    Args:
        expr: the values (or a column's name): Boolean, integer, String, Enum or Categorical, as the
            mechanism's domain has them, one a row. Literals and several columns at once work; each row
            and each column gets noise of its own.
        mechanism: any mechanism.
        packed: bit vectors as 64-bit words, ``Array(UInt64, ceil(d / 64))``: what to store when d is large.
        typed: as the extension dtype `Report`, which carries the mechanism: `histogram` then needs no argument, and
            reports of different mechanisms do not mix.
        noise: ``key=`` and ``id=`` for keyed noise (memoization), ``seed=`` and ``row_id=`` for repeatable runs that
            are not private, ``tag=``; see `NoiseOptions`.

    Returns:
        The reports, without nulls: Boolean, Int64 or Enum for randomized response,
        ``Array(Boolean, d)`` for bit vectors.

    Raises:
        ParameterError: the expression selects, repeats or aggregates rows (``first()``, ``filter()``,
            ``drop_nulls()``): one record, one report; do that to the frame before.
        DomainError: when run: values outside the domain, nulls included, under ``unmatched="error"``.
        DtypeError: when run: the column is of another kind than the domain.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> df = pl.DataFrame({"clicked": [True, False, True]})
    >>> df.select(ldp_polars.perturb("clicked", RandomizedResponse(epsilon=1.0))).schema["clicked"]
    Boolean
    """
    check_mechanism(mechanism).check_noise(keyed=is_keyed(noise))
    values = one_value_a_row(as_expr(expr))
    index = pl.int_range(pl.len(), dtype=pl.get_index_type())
    keyed, ids = keyed_noise(noise, values)
    reports = pl.map_batches(
        [values, index, *([] if ids is None else [one_value_a_row(as_expr(ids))])],
        Perturb(mechanism, packed, _constant(values), keyed),
        return_dtype=physical_report_dtype(mechanism, packed),
        is_elementwise=True,
    )
    return finished(reports, mechanism, packed=packed, typed=typed, seeded=noise.get("seed") is not None)


def finished(reports: pl.Expr, mechanism: Mechanism, *, packed: bool, typed: bool, seeded: bool) -> pl.Expr:
    """Physical reports in the dtype that `perturb` gives them."""
    dtype = report_dtype(mechanism, packed=packed)
    if isinstance(dtype, pl.Enum):
        reports = reports.cat.to(dtype)
    if not typed:
        return reports
    if isinstance(dtype, pl.Enum):
        reports = reports.cast(pl.String)
    return reports.ext.to(Report(mechanism, packed=packed, seeded=seeded))


def randomized_response(
    expr: pl.Expr | str,
    mechanism: RandomizedResponse | None = None,
    *,
    epsilon: float | None = None,
    domain: Domain | Iterable[Label] | None = None,
    unmatched: Unmatched = "error",
    typed: bool = False,
    **noise: Unpack[NoiseOptions],
) -> pl.Expr:
    """Randomized response: the true value with probability p, any other one with q.

    Args:
        expr: the values, or a column's name.
        mechanism: a `RandomizedResponse`, or instead of it
        epsilon: what one report spends, and
        domain: the declared values; default those that the column's dtype declares: the Booleans, or the categories of
            an Enum (also that of ``bin_intervals``).
        unmatched: what becomes of other values, nulls included: see `ldp_core.Domain`.
        typed: see `perturb`.
        noise: see `perturb`.

    Returns:
        Boolean, Int64, or Enum of the domain.

    Raises:
        DtypeError: when planned: no domain, and a dtype that declares none.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"os": ["ios", "android"]})
    >>> df.select(ldp_polars.randomized_response("os", domain=["ios", "android"], epsilon=1.0)).schema["os"]
    Enum(categories=['ios', 'android'])
    """
    if mechanism is None:
        make = partial(RandomizedResponse, epsilon=_required(epsilon))
        return _perturb_over(expr, make, domain, unmatched, typed=typed, **noise)
    only = _only(mechanism, RandomizedResponse, domain=domain, epsilon=epsilon, unmatched=_given(unmatched, "error"))
    return perturb(expr, only, typed=typed, **noise)


def unary_encode(
    expr: pl.Expr | str,
    mechanism: UnaryEncoding | None = None,
    *,
    domain: Domain | Iterable[Label] | None = None,
    epsilon: float | None = None,
    variant: Variant = "optimized",
    unmatched: Unmatched = "error",
    packed: bool = False,
    typed: bool = False,
    **noise: Unpack[NoiseOptions],
) -> pl.Expr:
    """Unary encoding: one bit a value of the domain, each perturbed.

    Args:
        expr: the values, or a column's name.
        mechanism: a `UnaryEncoding`, or instead of it
        epsilon: what one report spends,
        domain: the declared values; default the categories of an Enum column (also that of ``bin_intervals``),
        variant: ``"optimized"`` (OUE) or ``"symmetric"`` (SUE), and
        unmatched: what becomes of values outside the domain, nulls included: see `ldp_core.Domain`.
        packed: as 64-bit words rather than Booleans.
        typed: see `perturb`.
        noise: see `perturb`.

    Returns:
        ``Array(Boolean, d)``, or packed ``Array(UInt64, ceil(d / 64))``.

    Raises:
        DtypeError: when planned: no domain, and a dtype that declares none.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"os": ["ios", "android"]})
    >>> df.select(ldp_polars.unary_encode("os", domain=["ios", "android"], epsilon=1.0)).schema["os"]
    Array(Boolean, shape=(2,))
    """
    if mechanism is None:
        make = partial(UnaryEncoding, epsilon=_required(epsilon), variant=variant)
        return _perturb_over(expr, make, domain, unmatched, packed=packed, typed=typed, **noise)
    given = {"variant": _given(variant, "optimized"), "unmatched": _given(unmatched, "error")}
    only = _only(mechanism, UnaryEncoding, domain=domain, epsilon=epsilon, **given)
    return perturb(expr, only, packed=packed, typed=typed, **noise)


def tally(expr: pl.Expr | str, mechanism: Mechanism | None = None) -> pl.Expr:
    """Aggregate reports to a tally, which `merge` adds and `estimate` debiases.

    Args:
        expr: a column of reports (or its name).
        mechanism: the one that made them; not needed for typed reports.

    Returns:
        One ``Struct{n: Int64, counters: Array(Int64, d), fingerprint: String}`` a group.

    Raises:
        ReportError: when run: nulls, or not the shape of this mechanism's reports.
        MechanismMismatchError: when run: typed reports of another mechanism.
        DtypeError: when planned: no mechanism, and no typed reports.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> df = pl.DataFrame({"reports": [True, False, True]})
    >>> df.select(ldp_polars.tally("reports", RandomizedResponse(epsilon=1.0))).item()["counters"]
    [1, 2]
    """
    if mechanism is None:
        return at_plan_time(as_expr(expr), _tally_typed)
    mechanism = check_mechanism(mechanism)
    return pl.map_batches(
        [as_expr(expr)], TallyReports(mechanism), return_dtype=tally_dtype(mechanism), returns_scalar=True
    )


def merge(expr: pl.Expr | str, mechanism: Mechanism) -> pl.Expr:
    """Aggregate tallies to their sum; null tallies count as none.

    Raises:
        MechanismMismatchError: when run: a tally is another mechanism's.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> m = RandomizedResponse(epsilon=1.0)
    >>> df = pl.DataFrame({"day": [1, 1, 2], "reports": [True, False, True]})
    >>> daily = df.group_by("day").agg(ldp_polars.tally("reports", m))
    >>> daily.select(ldp_polars.merge("reports", m)).item()["counters"]
    [1, 2]
    """
    mechanism = check_mechanism(mechanism)
    return pl.map_batches(
        [as_expr(expr)], MergeTallies(mechanism), return_dtype=tally_dtype(mechanism), returns_scalar=True
    )


def _perturb_over(
    expr: pl.Expr | str,
    make: Callable[[Domain], Mechanism],
    domain: Domain | Iterable[Label] | None,
    unmatched: Unmatched,
    *,
    packed: bool = False,
    typed: bool,
    **noise: Unpack[NoiseOptions],
) -> pl.Expr:
    """`perturb` by the mechanism that ``make`` makes over a domain; without one, over that of the column's dtype."""
    if domain is not None:
        return perturb(expr, make(_domain(domain, unmatched)), packed=packed, typed=typed, **noise)
    values = one_value_a_row(as_expr(expr))
    # Bad parameters are refused now, not when planned.
    make(Domain((False, True), unmatched=unmatched))
    keyed_noise(noise, values)
    options = {"packed": packed, "typed": typed, **noise}
    return at_plan_time(values, partial(_perturb_declared, make=make, unmatched=unmatched, options=options))


def _perturb_declared(
    values: pl.Expr, dtype: Any, *, make: Callable[[Domain], Mechanism], unmatched: Unmatched, options: dict[str, Any]
) -> pl.Expr:
    if isinstance(dtype, pl.Enum):
        labels = dtype.categories.to_list()
    elif dtype == pl.Boolean:
        labels = [False, True]
    else:
        raise DtypeError(f"column {values.meta.output_name()!r}: pass domain=: a column of {dtype} declares none")
    return perturb(values, make(Domain(labels, unmatched=unmatched)), **options)


def _domain(domain: Domain | Iterable[Label], unmatched: Unmatched) -> Domain:
    if not isinstance(domain, Domain):
        return Domain(domain, unmatched=unmatched)
    if unmatched != "error":
        raise ParameterError("pass a Domain, which has its own unmatched, or unmatched=, not both")
    return domain


def _given(value: str, default: str) -> str | None:
    return None if value == default else value


def _tally_typed(reports: pl.Expr, dtype: Any) -> pl.Expr:
    return tally(reports, mechanism_of(dtype, reports.meta.output_name()))


def as_expr(expr: pl.Expr | str) -> pl.Expr:
    """An expression as it is, or the column of a name."""
    if isinstance(expr, str):
        return pl.col(expr)
    if not isinstance(expr, pl.Expr):
        raise ParameterError(f"expected an expression or a column's name, got {type(expr).__name__}")
    return expr


def one_value_a_row(expr: pl.Expr) -> pl.Expr:
    """Refuse ``first()``, ``filter()`` and the like, of which Polars would spread one record's value over all rows.

    `Perturb` refuses them too, but the streaming engine broadcasts before it calls. So what Polars cannot tell
    before it runs (an operation on a selector, a Python function) is refused as well; plain selectors pass.
    """
    if expr.meta.is_column_selection() or _constant(expr):
        return expr
    if not _keeps_rows(expr):
        raise ParameterError(
            "perturb needs one value a row, and this expression selects, repeats or aggregates rows, or Polars cannot "
            "tell: compute it in a with_columns or select of its own before, then perturb the column"
        )
    return expr


def _keeps_rows(expr: pl.Expr) -> bool:
    with suppress(pl.exceptions.PolarsError):
        return expr.meta.is_length_preserving()
    # Polars 2.1 does not know the dtype of bins before it knows the column's, and gives up; they are elementwise.
    inputs = expr.meta.pop()
    return len(inputs) == 1 and str(expr) == f"{inputs[0]}.bin_intervals()" and _keeps_rows(inputs[0])


def _constant(expr: pl.Expr) -> bool:
    """Whether all that ``expr`` is made of are literals."""
    inputs = expr.meta.pop()
    return all(map(_constant, inputs)) if inputs else expr.meta.is_literal()


def check_mechanism(mechanism: Mechanism) -> Mechanism:
    """Return ``mechanism``; raise `ParameterError` if it is none."""
    if not isinstance(mechanism, Mechanism):
        hint = ": a plan is for a frame, df.ldp.perturb(plan)" if isinstance(mechanism, PrivacyPlan) else ""
        raise ParameterError(f"expected a mechanism, got {type(mechanism).__name__}{hint}")
    return mechanism


def _required(epsilon: float | None) -> float:
    if epsilon is None:
        raise ParameterError("pass a mechanism, or epsilon in (0, inf)")
    return epsilon


def _only(mechanism: Any, kind: type[Mechanism], **parameters: object) -> Mechanism:
    if not isinstance(mechanism, kind):
        raise ParameterError(
            f"expected a {kind.__name__}, got {type(mechanism).__name__}; .perturb takes any mechanism, "
            "and a domain or an epsilon goes by keyword"
        )
    given = [name for name, value in parameters.items() if value is not None]
    if given:
        raise ParameterError(f"pass a mechanism or {' and '.join(given)}, not both: the mechanism has its own")
    return mechanism
