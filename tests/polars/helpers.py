"""Expected dtypes, in full."""

from __future__ import annotations

import polars as pl

from ldp_core import Mechanism


def histogram_dtype(mechanism: Mechanism) -> pl.DataType:
    """Of the entries: values as text, as they are tallied with an "other"."""
    domain = mechanism.domain
    value = (
        pl.String if "other" in domain.values else {"str": pl.String, "int": pl.Int64, "bool": pl.Boolean}[domain.kind]
    )
    numbers = ("count", "frequency", "standard_error", "low", "high")
    return pl.List(pl.Struct({"value": value, **dict.fromkeys(numbers, pl.Float64)}))
