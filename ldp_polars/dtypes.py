"""From Arrow types to Polars dtypes, and from Arrow arrays to Series."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa

from ldp_core import DtypeError, FrequencyOracle, Mechanism
from ldp_core.estimates.base import Estimate


def arrow(values: pl.Series) -> pa.Array:
    """``values`` as Arrow; of a 128-bit integer what does not fit in 64 bits is no label, and becomes null."""
    if values.dtype in (pl.Int128, pl.UInt128):
        values = values.cast(pl.Int64, strict=False)
    try:
        return values.to_arrow()
    except pa.ArrowException:
        pass
    raise DtypeError(f"column {values.name!r}: Arrow has no type for {values.dtype}")


def report_dtype(mechanism: Mechanism, *, packed: bool) -> pl.DataType:
    """Dtype of a column of reports: text is an Enum of the domain's values."""
    kind = mechanism.reports.arrow_type(packed=packed)
    if pa.types.is_dictionary(kind):
        if not isinstance(mechanism, FrequencyOracle):
            raise DtypeError(f"there is no Polars dtype for reports of type {kind}")
        return pl.Enum(mechanism.domain.texts)
    return _dtype(kind)


@lru_cache(maxsize=256)
def physical_report_dtype(mechanism: Mechanism, packed: bool) -> pl.DataType:
    """The dtype that a Python function returns for reports: for an Enum its codes."""
    dtype = report_dtype(mechanism, packed=packed)
    return pl.Series(dtype=dtype).to_physical().dtype if isinstance(dtype, pl.Enum) else dtype


def physical_series(name: str, array: pa.Array, dtype: pl.DataType) -> pl.Series:
    """Arrow reports as a Series of physical ``dtype``; no copy unless the code width differs."""
    values = array.indices if pa.types.is_dictionary(array.type) else array
    series = pl.Series(name, values)
    return series if series.dtype == dtype else series.cast(dtype)


def spread(values: pl.Series, there: pl.Series) -> pl.Series:
    """``values``, in order, in the rows that are ``there``, and null in the others."""
    position = there.cum_sum().cast(pl.Int64) - 1
    return values.gather(position.set(~there, None))


def tally_dtype(mechanism: Mechanism) -> pl.Struct:
    """Struct{n, counters, fingerprint}."""
    counters = pl.Array(pl.Int64, mechanism.counters)
    return pl.Struct({"n": pl.Int64, "counters": counters, "fingerprint": pl.String})


def estimate_dtype(estimate: Estimate[Any], mechanism: Mechanism) -> pl.DataType:
    """Dtype of an estimate: a Struct of its columns, or a List of such Structs."""
    schema = estimate.schema(mechanism)
    row = pl.Struct({field.name: _dtype(field.type) for field in schema})
    return row if estimate.single else pl.List(row)


def _dtype(kind: pa.DataType) -> pl.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pl.Array(_dtype(kind.value_type), kind.list_size)
    return _PLAIN[kind]


_PLAIN: dict[pa.DataType, pl.DataType] = {
    pa.string(): pl.String(),
    pa.float64(): pl.Float64(),
    pa.bool_(): pl.Boolean(),
    pa.uint8(): pl.UInt8(),
    pa.uint16(): pl.UInt16(),
    pa.uint32(): pl.UInt32(),
    pa.uint64(): pl.UInt64(),
    pa.int8(): pl.Int8(),
    pa.int16(): pl.Int16(),
    pa.int32(): pl.Int32(),
    pa.int64(): pl.Int64(),
}
