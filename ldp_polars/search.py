"""Heavy hitters as an aggregation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from ldp_core import ParameterError
from ldp_core.mechanisms.heavy_hitters.prefix_extending import HeavyHitters
from ldp_polars.dtypes import entries_dtype
from ldp_polars.functions import as_expr, tally
from ldp_polars.udfs import tallies


def heavy_hitters(
    expr: pl.Expr | str,
    mechanism: HeavyHitters,
    k: int,
    *,
    confidence: float = 0.95,
    threshold: float | None = None,
) -> pl.Expr:
    """Aggregate reports to the most frequent values, in ``select``, ``group_by`` or windows.

    Args:
        expr: a column of reports (or its name), as `perturb` makes them.
        mechanism: the one that made the reports.
        k: the most values to return.
        confidence, threshold: see `HeavyHitters.find`.

    Returns:
        A ``List(Struct{value, count, frequency, standard_error, low, high})`` a group, the most frequent value
        first; empty where nothing is above the threshold. ``value`` is String, or Int64.

    Raises:
        ParameterError: bad arguments.
        ReportError: when run: nulls, or not the shape of this mechanism's reports.

    >>> import polars as pl, ldp_polars
    >>> from ldp_core import HeavyHitters, Prefixes
    >>> m = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8)
    >>> df = pl.DataFrame({"word": m.perturb(["rome"] * 5000 + ["oslo"] * 3000)})
    >>> df.select(ldp_polars.heavy_hitters("word", m, k=2)).explode("word").unnest("word")["value"].to_list()
    ['rome', 'oslo']
    """
    return find(tally(expr, _checked_mechanism(mechanism)), mechanism, k, confidence=confidence, threshold=threshold)


def find(
    expr: pl.Expr | str,
    mechanism: HeavyHitters,
    k: int,
    *,
    confidence: float = 0.95,
    threshold: float | None = None,
) -> pl.Expr:
    """Search a column of tallies, as `ldp_polars.tally` and `merge` make them, each by itself; null gives null.

    Arguments and result are those of `heavy_hitters`.

    Raises:
        MechanismMismatchError: when run: a tally is another mechanism's.
    """
    _checked_mechanism(mechanism).check_search(k, confidence, threshold)
    return pl.map_batches(
        [as_expr(expr)],
        Find(mechanism, k, confidence, threshold),
        return_dtype=found_dtype(mechanism),
        is_elementwise=True,
    )


def found_dtype(mechanism: HeavyHitters) -> pl.List:
    """As of a histogram; the values are text or integers."""
    return entries_dtype(pl.String() if mechanism.inputs.kind == "str" else pl.Int64())


@dataclass(frozen=True)
class Find:
    """Tallies -> values found, row by row; null -> null."""

    mechanism: HeavyHitters
    k: int
    confidence: float
    threshold: float | None

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: pl.DataType | None = None) -> pl.Series:
        """See `ldp_polars.udfs`."""
        column, m = inputs[0], self.mechanism
        there = column.is_not_null()
        found_in = partial(m.find, k=self.k, confidence=self.confidence, threshold=self.threshold)
        tables = map(found_in, tallies(column.drop_nulls(), m))
        found = iter([pl.DataFrame(table.to_arrow()).to_struct().to_list() for table in tables])
        lists = [next(found) if one else None for one in there.to_list()]
        return pl.Series(column.name, lists, found_dtype(m), strict=False)


def _checked_mechanism(mechanism: HeavyHitters) -> HeavyHitters:
    if not isinstance(mechanism, HeavyHitters):
        raise ParameterError(f"expected ldp_core.HeavyHitters, got {type(mechanism).__name__}")
    return mechanism
