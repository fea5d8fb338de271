"""Columns of which a record answers one: one function for all of them, because one draw decides for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import polars as pl
from polars import selectors as cs

from ldp_core import Keyed, LdpError, ParameterError, Secret
from ldp_core.engine import DrawnColumns
from ldp_polars.columns import as_expr, physical, refuse_reports, to_arrow, to_physical
from ldp_polars.noise import NoiseOptions, ids_to_arrow, keyed_noise
from ldp_polars.perturbing import one_value_a_row


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
    names = [name for name, _ in columns.columns]
    keyed, ids = keyed_noise(noise, cs.by_name(names[0]), names[0])
    for _, column in columns.columns:
        column.inner.check_noise(keyed=keyed is not None)
    inputs = [index, *(cs.by_name(name) for name in names)]
    if keyed is not None:
        inputs.append(index if ids is None else one_value_a_row(as_expr(ids)))
    dtypes = [physical(column, packed=packed, typed=typed) for _, column in columns.columns]
    return pl.map_batches(
        inputs,
        PerturbDrawn(columns, packed, noise.get("tag"), None if keyed is None else keyed.secret),
        return_dtype=pl.Struct(dict(zip(fields, dtypes, strict=True))),
        is_elementwise=True,
    )


@dataclass(frozen=True)
class PerturbDrawn:
    """What Polars calls back.

    The row index is there for the reasons that `ldp_polars.perturbing.Perturb` gives.
    """

    columns: DrawnColumns
    packed: bool
    tag: str | None = None
    secret: Secret | None = None
    """Of keyed noise; fresh noise if None."""

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: Any = None) -> pl.Series:
        """(row index, values of each column[, ids]) -> structs of a report for each column."""
        index, *values = inputs
        refuse_reports({series.name: series.dtype for series in values})
        ids = values.pop() if self.secret is not None else index
        n = len(index)
        if any(len(series) != n for series in (ids, *values)):
            raise ParameterError("a plan needs one value a row in each of its columns")
        keyed = None if self.secret is None else Keyed(self.secret, ids_to_arrow(ids), column="")
        arrays = self.columns.perturb([to_arrow(v) for v in values], keyed, packed=self.packed, tag=self.tag)
        series = []
        for field, reports in zip(return_dtype.fields, arrays, strict=True):
            if len(reports) != n:
                raise LdpError(f"column {field.name!r}: {len(reports)} reports for {n} records")
            series.append(to_physical(field.name, reports, field.dtype))
        return pl.DataFrame(series).to_struct("reports")
