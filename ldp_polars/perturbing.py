"""From values to reports: any mechanism, and the two that are used most by their parameters.

Perturb first, in a ``with_columns`` or ``select`` of its own, and aggregate the resulting column:
every evaluation of a perturbing expression draws again, and each draw spends epsilon again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import polars as pl
import pyarrow as pa
from polars import selectors as cs

import ldp_core as core
from ldp_core.engine import DrawnColumns, type_words
from ldp_polars._compat import at_plan_time
from ldp_polars.columns import (
    as_expr,
    check_mechanism,
    from_physical,
    physical,
    polars_words,
    refuse_reports,
    to_arrow,
    to_physical,
    with_nulls,
)
from ldp_polars.noise import KeyedNoise, NoiseOptions, check_options, ids_to_arrow, keyed_noise

if TYPE_CHECKING:
    from ldp_core.engine import Label, Unmatched
    from ldp_core.engine import UnaryEncodingVariant as Variant


def perturb(
    expr: pl.Expr | str,
    mechanism: core.Mechanism,
    *,
    packed: bool = False,
    typed: bool = True,
    **noise: Unpack[NoiseOptions],
) -> pl.Expr:
    """One private report per row; under fresh noise, if nothing else is said.

    Args:
        expr: the values (or a column's name): Boolean, integer, String, Enum or Categorical, as the
            mechanism's domain has them, one per row. Literals and several columns at once work; each row
            and each column gets noise of its own.
        mechanism: any mechanism.
        packed: bit vectors as 64-bit words, ``Array(UInt64, ceil(d / 64))``: what to store when d is large.
        typed: as the extension dtype `Report`, which carries the mechanism: `histogram` needs no argument then, reports
            of different mechanisms do not mix, and they are not perturbed again. Polars does not compute on it;
            ``.ext.storage()`` makes the column plain, ``typed=False`` does at once.
        noise: ``key=`` and ``id=`` for keyed noise (memoization), ``seed=`` and ``row_id=`` for repeatable runs that
            are not private, ``tag=``; see `NoiseOptions`.

    Returns:
        The reports, without nulls. Within their dtype they are Boolean, Int64 or String (plain: Enum) for randomized
        response, ``Array(Boolean, d)`` for bit vectors.

    Raises:
        ParameterError: the expression selects, repeats or aggregates rows (``first()``, ``filter()``,
            ``drop_nulls()``): one record, one report; do that to the frame before. What keeps the number of rows, as
            ``forward_fill()`` or ``first().over(...)``, is not seen: it makes several reports of one person's value.
        MechanismMismatchError: it is perturbed already.
        DomainError: when run: values outside the domain, nulls included, under ``unmatched="error"``.
        DtypeError: when run: the column is of another kind than the domain.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import RandomizedResponse
    >>> df = pl.DataFrame({"clicked": [True, False, True]})
    >>> reports = df.select(ldp_polars.perturb("clicked", RandomizedResponse(epsilon=1.0)))
    >>> reports.schema["clicked"].mechanism.epsilon, reports.schema["clicked"].ext_storage()
    (1.0, Boolean)
    """
    return perturb_column(expr, mechanism, packed=packed, typed=typed, noise=noise)


def perturb_column(
    expr: pl.Expr | str,
    mechanism: core.Mechanism,
    *,
    packed: bool,
    typed: bool,
    noise: NoiseOptions,
    column: str | None = None,
    index: pl.Expr | None = None,
) -> pl.Expr:
    """`perturb`; if there is a ``column``, as this one of a plan, whose name and tag are two (see `keyed_noise`).

    A row ``index`` that is a column already lets the streaming engine forget rows that are done: see `row_index`.
    """
    values = one_value_a_row(as_expr(expr))
    keyed, ids = keyed_noise(noise, values, column) if noise else (None, None)
    check_mechanism(mechanism).check_noise(keyed=keyed is not None)
    constant = _constant(values)
    reports = pl.map_batches(
        [
            values,
            row_index() if index is None else index,
            *([] if ids is None else [one_value_a_row(as_expr(ids))]),
            *([_NO_FRAME] if constant else []),
        ],
        Perturb(mechanism, packed, constant, keyed),
        return_dtype=physical(mechanism, packed=packed, typed=typed),
        is_elementwise=True,
    )
    seeded = keyed is not None and keyed.secret.seeded
    marks = {"seeded": seeded, "keyed": keyed is not None and not seeded}
    return from_physical(reports, mechanism, packed=packed, typed=typed, **marks)


def randomized_response(
    expr: pl.Expr | str,
    mechanism: core.RandomizedResponse | None = None,
    *,
    epsilon: float | None = None,
    domain: core.Domain | Iterable[Label] | None = None,
    unmatched: Unmatched = "error",
    typed: bool = True,
    **noise: Unpack[NoiseOptions],
) -> pl.Expr:
    """Randomized response: the true value with probability p, any other one with q.

    Args:
        expr, typed, noise: see `perturb`, also for what is returned.
        mechanism: a `RandomizedResponse`, or instead of it
        epsilon: what one report spends, and
        domain: the declared values; default those that the column's dtype declares: the Booleans, or the categories of
            an Enum (also that of ``bin_intervals``).
        unmatched: what becomes of other values, nulls included: see `ldp_core.Domain`.

    Raises:
        DtypeError: when planned: no domain, and a dtype that declares none.

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"os": ["ios", "android"]})
    >>> reports = df.select(ldp_polars.randomized_response("os", domain=["ios", "android"], epsilon=1.0))
    >>> reports.schema["os"].mechanism
    RandomizedResponse(domain=Domain(['ios', 'android']), epsilon=1.0, coins=None)
    """
    given = {"domain": domain, "epsilon": epsilon, "unmatched": None if unmatched == "error" else unmatched}
    return _perturb(expr, core.RandomizedResponse, mechanism, given, typed=typed, **noise)


def unary_encode(
    expr: pl.Expr | str,
    mechanism: core.UnaryEncoding | None = None,
    *,
    domain: core.Domain | Iterable[Label] | None = None,
    epsilon: float | None = None,
    variant: Variant = "optimized",
    unmatched: Unmatched = "error",
    packed: bool = False,
    typed: bool = True,
    **noise: Unpack[NoiseOptions],
) -> pl.Expr:
    """Unary encoding: one bit per value of the domain, each perturbed.

    Args:
        expr, packed, typed, noise: see `perturb`, also for what is returned.
        mechanism: a `UnaryEncoding`, or instead of it
        epsilon, domain, unmatched: see `randomized_response`, also for the error where no domain is declared; and
        variant: ``"optimized"`` (OUE) or ``"symmetric"`` (SUE).

    >>> import polars as pl, ldp_polars
    >>> df = pl.DataFrame({"os": ["ios", "android"]})
    >>> reports = df.select(ldp_polars.unary_encode("os", domain=["ios", "android"], epsilon=1.0))
    >>> reports.schema["os"].ext_storage()
    Array(Boolean, shape=(2,))
    """
    given = {"domain": domain, "epsilon": epsilon, "unmatched": None if unmatched == "error" else unmatched}
    given |= {} if variant == "optimized" else {"variant": variant}
    return _perturb(expr, core.UnaryEncoding, mechanism, given, packed=packed, typed=typed, **noise)


_METHODS: dict[Any, str] = {core.RandomizedResponse: "randomized_response", core.UnaryEncoding: "unary_encode"}


def _perturb(expr: pl.Expr | str, kind: Any, mechanism: Any, given: dict[str, Any], **options: Any) -> pl.Expr:
    """`perturb` by a mechanism of this kind, or by the one that is made of what is given."""
    given = {name: value for name, value in given.items() if value is not None}
    if noise := {name: value for name, value in options.items() if name not in ("packed", "typed")}:
        check_options(noise)
    if mechanism is not None:
        if not isinstance(mechanism, kind):
            if isinstance(mechanism, core.Mechanism):
                ways = f".ldp.perturb takes any mechanism, this one a {kind.__name__}"
            else:
                ways = f"the labels and epsilon go by keyword, .ldp.{_METHODS[kind]}(domain=[...], epsilon=1.0)"
            raise core.ParameterError(f"got {type(mechanism).__name__} in the place of a mechanism: {ways}")
        if given:
            raise core.ParameterError(f"pass a mechanism or {' and '.join(given)}, not both: the mechanism has its own")
        return perturb(expr, mechanism, **options)
    if "epsilon" not in given:
        raise core.ParameterError(
            f"epsilon is missing: .ldp.{_METHODS[kind]}(domain=[...], epsilon=1.0), or pass a mechanism"
        )
    domain, unmatched = given.pop("domain", None), given.pop("unmatched", "error")
    if domain is not None:
        return perturb(expr, kind(core.Domain.of(domain, unmatched), **given), **options)
    several = as_expr(expr).meta.output_name(raise_if_undetermined=False) is None  # one by one, when planned
    make = partial(
        _perturb_declared, kind=kind, unmatched=unmatched, parameters=given, options=options, several=several
    )
    make(as_expr(expr), pl.Boolean())  # bad arguments are refused now, not when planned
    return at_plan_time(as_expr(expr), make)


def _perturb_declared(
    values: pl.Expr,
    dtype: Any,
    *,
    kind: Any,
    unmatched: Unmatched,
    parameters: dict[str, Any],
    options: dict[str, Any],
    several: bool,
) -> pl.Expr:
    """`perturb` over the domain that a column's dtype declares; the column may be one of ``several``."""
    if isinstance(dtype, pl.Enum):
        labels = dtype.categories.to_list()
    elif dtype == pl.Boolean:
        labels = [False, True]
    else:
        refuse_reports({values.meta.output_name(): dtype})
        raise core.DtypeError(
            f"column {values.meta.output_name()!r}: pass domain=[...], the values that there may be: a column of "
            f"{type_words(dtype)} declares none, as Boolean and Enum do"
        )
    mechanism = kind(core.Domain(labels, unmatched=unmatched), **parameters)
    noise: Any = dict(options)
    packed, typed = noise.pop("packed", False), noise.pop("typed", True)
    column = values.meta.output_name(raise_if_undetermined=False) if several else None
    return perturb_column(values, mechanism, packed=packed, typed=typed, noise=noise, column=column)


def one_value_a_row(expr: pl.Expr) -> pl.Expr:
    """Refuse ``first()``, ``filter()`` and the like, of which Polars would spread one record's value over all rows.

    `Perturb` refuses them too, but the streaming engine broadcasts before it calls. So what Polars cannot tell
    before it runs (an operation on a selector, a Python function) is refused as well; plain selectors pass.
    """
    if expr.meta.is_column_selection() or _constant(expr):
        return expr
    if not _keeps_rows(expr):
        made: Any = {}
        with suppress(pl.exceptions.PolarsError, core.LdpError):
            made = pl.LazyFrame(schema=dict.fromkeys(expr.meta.root_names(), pl.Boolean)).select(expr).collect_schema()
        refuse_reports(made)  # (that an expression makes, of whatever columns)
        raise core.ParameterError(
            "perturb needs one value a row, and this expression selects, repeats or aggregates rows, or Polars cannot "
            "tell (of a Python function it cannot, so not of what is perturbed already): compute it in a with_columns "
            "or select of its own before, then perturb the column, and perturb it once"
        )
    return expr


def _keeps_rows(expr: pl.Expr) -> bool:
    with suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException):  # (as of several fields of a struct)
        return expr.meta.is_length_preserving()
    # Polars 2.1 does not know the dtype of bins before it knows the column's, and gives up; they are elementwise.
    inputs = expr.meta.pop()
    return len(inputs) == 1 and str(expr) == f"{inputs[0]}.bin_intervals()" and _keeps_rows(inputs[0])


def row_index() -> pl.Expr:
    """The row index as an expression.

    The streaming engine of Polars 2.1 computes it beside the columns, and joins both. It keeps in memory what one of
    the two is ahead: of a large file up to the whole column of values.
    """
    return pl.int_range(pl.len(), dtype=pl.get_index_type())


def _constant(expr: pl.Expr) -> bool:
    """Whether all that ``expr`` is made of are literals."""
    inputs = expr.meta.pop()
    return all(map(_constant, inputs)) if inputs else expr.meta.is_literal()


_NO_FRAME = pl.any_horizontal(cs.all().is_null())
"""One value where there are no columns, as in ``pl.select``; as many as there are rows elsewhere, perhaps none."""


@dataclass(frozen=True)
class Perturb:
    """What Polars calls back.

    A class of plain parameters: it holds no randomness, so that threads, forks and pickled plans can share it, and it
    pickles by reference, so that a plan serializes without cloudpickle. (Polars passes ``return_dtype`` by keyword.)

    The row index is not decoration. It gives the true length where the value is a literal of length 1,
    and it keeps the optimizer from evaluating the function on a Parquet file's dictionary, statistics or
    partition values in place of its rows, where one draw would decide the fate of many records. (Nor will
    ``pl.repeat`` do: that is a literal too.)
    """

    mechanism: core.Mechanism
    packed: bool
    constant: bool
    """The values are a literal, which stands for as many as there are rows; one record's value never does.

    In ``pl.select``, without a frame, it stands for one; what `_NO_FRAME` is there comes last among the inputs.
    """
    noise: KeyedNoise | None = None
    """Fresh noise if None."""

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: Any = None) -> pl.Series:
        """(values, row index[, ids][, no frame]) -> one report per row, of physical ``return_dtype``."""
        values, index, *others = inputs
        if self.constant and len(others.pop()) > len(index):
            index = pl.Series([0], dtype=index.dtype)
        ids = others[0] if others else index
        name, n = values.name, len(index)
        if self.constant and len(values) == 1:
            values = values.new_from_index(0, n)
        if len(values) != n:
            raise core.ParameterError(
                f"column {name!r}: perturb needs one value a row, got {len(values)} values for {n} rows: "
                "select, repeat or aggregate rows in a step of its own before, then perturb the column"
            )
        if len(ids) != n:
            raise core.ParameterError(
                f"column {name!r}: keyed noise needs one id a row, got {len(ids)} ids for {n} rows"
            )
        masked = index.null_count() > 0  # in a branch of when/then, lazy engines null the other branch's rows
        if masked:
            there = index.is_not_null()
            values, ids = values.filter(there), ids.filter(there)
        randomness = None if self.noise is None else self.noise.randomness(ids, name)
        arrow = to_arrow(values, self.mechanism.inputs.kind)
        if not isinstance(arrow, pa.DictionaryArray):  # an Enum, which is slow to ask for its dtype, holds no reports
            refuse_reports({name: values.dtype})
        with polars_words(values, arrow):
            reports = self.mechanism.perturb(arrow, randomness=randomness, packed=self.packed, column=name)
        if len(reports) != len(values):  # Polars does not check this in every context
            raise core.LdpError(f"column {name!r}: {len(reports)} reports for {len(values)} records")
        series = to_physical(name, reports, return_dtype)
        return with_nulls(series, there) if masked else series


# ---- columns of which a record answers one: one function for all of them, because one draw decides for all


def perturb_drawn(
    columns: DrawnColumns,
    fields: tuple[str, ...],
    *,
    index: pl.Expr,
    packed: bool,
    typed: bool,
    **noise: Unpack[NoiseOptions],
) -> pl.Expr:
    """Structs of physical reports, under the names ``fields``; ``index`` is the column of row numbers.

    The structs must be unnested as a whole: of two fields that are taken out of an expression, each may come from a
    draw of its own.
    """
    names = list(columns.sources)
    keyed, ids = keyed_noise(noise, cs.by_name(names[0]), names[0])
    for _, column in columns.columns:
        column.inner.check_noise(keyed=keyed is not None)
    inputs = [index, *(cs.by_name(name) for name in names)]
    if keyed is not None:
        inputs.append(index if ids is None else one_value_a_row(as_expr(ids)))
    dtypes = [physical(column, packed=packed, typed=typed) for _, column in columns.columns]
    function = partial(_perturbed_draw, columns=columns, packed=packed, tag=noise.get("tag"), noise=keyed)
    structs = pl.Struct(dict(zip(fields, dtypes, strict=True)))
    return pl.map_batches(inputs, function, return_dtype=structs, is_elementwise=True)


def _perturbed_draw(
    inputs: Sequence[pl.Series],
    return_dtype: Any = None,
    *,
    columns: DrawnColumns,
    packed: bool,
    tag: str | None,
    noise: KeyedNoise | None,
) -> pl.Series:
    """Polars calls it back: (row index, see `Perturb`; values of each column; perhaps ids) -> structs of reports."""
    index, *values = inputs
    refuse_reports({series.name: series.dtype for series in values})
    ids = values.pop() if noise is not None else index
    n = len(index)
    if any(len(series) != n for series in (ids, *values)):
        raise core.ParameterError("a plan needs one value a row in each of its columns")
    keyed = None if noise is None else core.Keyed(noise.secret, ids_to_arrow(ids), column="")
    sources = columns.sources
    arrays = columns.perturb({v.name: to_arrow(v, sources[v.name].kind) for v in values}, keyed, packed=packed, tag=tag)
    series = []
    for field, reports in zip(return_dtype.fields, arrays, strict=True):
        if len(reports) != n:
            raise core.LdpError(f"column {field.name!r}: {len(reports)} reports for {n} records")
        series.append(to_physical(field.name, reports, field.dtype))
    return pl.DataFrame(series).to_struct("reports")
