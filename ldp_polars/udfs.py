"""The functions that Polars calls back, as module-level classes of plain parameters.

They hold no randomness, so that threads, forks and pickled plans can share them, and they pickle by
reference, so that a plan serialises without cloudpickle. Polars passes ``return_dtype`` by keyword.
"""

# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from ldp_core import (
    Keyed,
    LdpError,
    Mechanism,
    MechanismMismatchError,
    ParameterError,
    Secret,
    Tally,
)
from ldp_core.estimates.base import Estimate
from ldp_core.plans.drawn import DrawnColumns
from ldp_polars.dtypes import (
    arrow,
    estimate_dtype,
    physical_report_dtype,
    physical_series,
    spread,
    tally_dtype,
)
from ldp_polars.noise import KeyedNoise
from ldp_polars.typed import refuse_reports, untyped


@dataclass(frozen=True)
class Perturb:
    """(values, row index[, ids]) -> one report a row.

    The row index is not decoration. It gives the true length where the value is a literal of length 1,
    and it keeps the optimizer from evaluating the function on a Parquet file's dictionary, statistics or
    partition values in place of its rows, where one draw would decide the fate of many records. (Nor will
    ``pl.repeat`` do: that is a literal too.)
    """

    mechanism: Mechanism
    packed: bool
    constant: bool
    """The values are a literal, which stands for as many as there are rows; one record's value never does."""
    noise: KeyedNoise | None = None
    """Fresh noise if None."""

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: pl.DataType | None = None) -> pl.Series:
        values, index, ids = inputs[0], inputs[1], inputs[-1]
        name, n = values.name, len(index)
        refuse_reports({name: values.dtype})
        if self.constant and len(values) == 1:
            values = values.new_from_index(0, n)
        if len(values) != n:
            raise ParameterError(
                f"column {name!r}: perturb needs one value a row, got {len(values)} values for {n} rows: "
                "select, repeat or aggregate rows in a step of its own before, then perturb the column"
            )
        if len(ids) != n:
            raise ParameterError(f"column {name!r}: keyed noise needs one id a row, got {len(ids)} ids for {n} rows")
        masked = index.null_count() > 0  # in a branch of when/then, lazy engines null the other branch's rows
        if masked:
            values, ids = values.filter(index.is_not_null()), ids.filter(index.is_not_null())
        randomness = None if self.noise is None else self.noise.randomness(ids, name)
        reports = self.mechanism.perturb(arrow(values), randomness=randomness, packed=self.packed, column=name)
        if len(reports) != len(values):  # Polars does not check this in every context
            raise LdpError(f"column {name!r}: {len(reports)} reports for {len(values)} records")
        series = physical_series(name, reports, physical_report_dtype(self.mechanism, self.packed))
        return spread(series, index.is_not_null()) if masked else series


@dataclass(frozen=True)
class PerturbDrawn:
    """(row index, values of each column[, ids]) -> structs of a report for each column, of which a record answers one.

    One function for all columns, because one draw decides for all; and structs that must be unnested as a whole: of
    two fields that are taken out of an expression, each may come from a draw of its own. The row index is
    there for the reasons that `Perturb` gives.
    """

    columns: DrawnColumns
    fields: tuple[str, ...]
    """Names of the structs' fields, one a column."""
    packed: bool
    tag: str | None = None
    secret: Secret | None = None
    """Of keyed noise; fresh noise if None."""

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: pl.DataType | None = None) -> pl.Series:
        index, *values = inputs
        refuse_reports({series.name: series.dtype for series in values})
        ids = values.pop() if self.secret is not None else index
        n = len(index)
        if any(len(series) != n for series in (ids, *values)):
            raise ParameterError("a plan needs one value a row in each of its columns")
        keyed = None if self.secret is None else Keyed(self.secret, ids.to_arrow(), column="")
        arrays = self.columns.perturb([arrow(v) for v in values], keyed, packed=self.packed, tag=self.tag)
        series = []
        for (name, mechanism), field, reports in zip(self.columns.columns, self.fields, arrays, strict=True):
            if len(reports) != n:
                raise LdpError(f"column {name!r}: {len(reports)} reports for {n} records")
            series.append(physical_series(field, reports, physical_report_dtype(mechanism, self.packed)))
        return pl.DataFrame(series).to_struct("reports")


@dataclass(frozen=True)
class TallyReports:
    """Reports -> one tally."""

    mechanism: Mechanism

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: pl.DataType | None = None) -> pl.Series:
        reports = inputs[0]
        return _tally_series(
            reports.name, self.mechanism.tally(arrow(untyped(reports, self.mechanism)), column=reports.name)
        )


@dataclass(frozen=True)
class MergeTallies:
    """Tallies -> their sum."""

    mechanism: Mechanism

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: pl.DataType | None = None) -> pl.Series:
        tallies = checked(inputs[0].drop_nulls(), self.mechanism)
        n, counters = arrays(tallies, self.mechanism)
        total = Tally(int(n.sum()), counters.sum(axis=0), self.mechanism.fingerprint)
        return _tally_series(tallies.name, total)


@dataclass(frozen=True)
class EstimateTallies:
    """Tallies -> estimates, row by row but all at once; null -> null."""

    mechanism: Mechanism
    estimate: Estimate[Any]

    def __call__(self, inputs: Sequence[pl.Series], return_dtype: pl.DataType | None = None) -> pl.Series:
        there = inputs[0].is_not_null()
        tallies = checked(inputs[0].drop_nulls(), self.mechanism)
        table, lengths = self.estimate.table(self.mechanism, *arrays(tallies, self.mechanism))
        dtype = estimate_dtype(self.estimate, self.mechanism)
        rows = pl.DataFrame(table).to_struct(tallies.name)
        if isinstance(dtype, pl.List):
            offsets = np.concatenate(([0], np.cumsum(lengths)))
            lists = pa.LargeListArray.from_arrays(pa.array(offsets), rows.to_arrow())
            rows = pl.Series(tallies.name, lists)
        return spread(rows.cast(dtype), there)


def _tally_series(name: str, tally: Tally) -> pl.Series:
    counters = pa.FixedSizeListArray.from_arrays(pa.array(tally.counters), len(tally.counters))
    fields = {"n": pa.array([tally.n], pa.int64()), "counters": counters, "fingerprint": pa.array([tally.fingerprint])}
    return pl.Series(name, pa.StructArray.from_arrays(list(fields.values()), list(fields)))


def checked(tallies: pl.Series, mechanism: Mechanism) -> pl.Series:
    """The tallies, if they are this mechanism's.

    Raises:
        MechanismMismatchError: they are not.
    """
    if tallies.dtype != tally_dtype(mechanism):
        raise MechanismMismatchError(
            f"column {tallies.name!r}: tallies of this mechanism are {tally_dtype(mechanism)}, got {tallies.dtype}"
        )
    other = int(tallies.struct.field("fingerprint").ne_missing(mechanism.fingerprint).sum())
    if other:
        raise MechanismMismatchError(
            f"column {tallies.name!r}: {other} of {len(tallies)} tallies were made by another mechanism "
            f"than the given one, {mechanism.fingerprint}"
        )
    return tallies


def arrays(tallies: pl.Series, mechanism: Mechanism) -> tuple[np.ndarray, np.ndarray]:
    """N, int64[k], and the counters, int64[k, counters], of k tallies."""
    n = tallies.struct.field("n").to_numpy()
    counters = tallies.struct.field("counters").to_numpy()
    if n.dtype != np.int64 or counters.dtype != np.int64:  # what to_numpy makes of nulls
        raise MechanismMismatchError(f"column {tallies.name!r}: tallies hold nulls in n or counters")
    return n, counters.reshape(len(tallies), mechanism.counters)
