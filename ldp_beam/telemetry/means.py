"""Rows of means as an Arrow table and as lines of JSON, as `ldp_beam.io.estimates` has them of histograms."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ldp_beam import HistogramRow, MeanRow
from ldp_beam.io import estimate_schema

MEAN_SCHEMA = pa.schema(
    [
        pa.field("mean", pa.float64()) if field.name == "count" else field
        for field in estimate_schema(HistogramRow)
        if field.name != "value" and not field.name.startswith("frequency")
    ]
)
"""Of `mean_table`: fields of `MeanRow`."""


def mean_table(rows: Sequence[MeanRow]) -> pa.Table:
    """Rows as a table of `MEAN_SCHEMA`."""
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in MEAN_SCHEMA.names}
    for name in ("window_start", "window_end"):
        columns[name] = [time.micros for time in columns[name]]
    columns["key"] = [list(key.items()) for key in columns["key"]]
    return pa.table(columns, MEAN_SCHEMA)


def mean_line(row: MeanRow) -> str:
    """A row as a line of JSON, without its end: times in ISO 8601, UTC; null for what is not a number.

    >>> from apache_beam.utils.timestamp import Timestamp
    >>> nan = float("nan")
    >>> head = (Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "seconds", {})
    >>> row = MeanRow(*head, 2.5, nan, nan, nan, 1, 0.95, 1.0, "f" * 16)
    >>> line = json.loads(mean_line(row))
    >>> line["window_end"], line["mean"], line["standard_error"]
    ('1970-01-01T00:01:00Z', 2.5, None)
    """
    out = {name: getattr(row, name) for name in MEAN_SCHEMA.names}
    out |= {name: out[name].to_utc_datetime().isoformat() + "Z" for name in ("window_start", "window_end")}
    out = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in out.items()}
    return json.dumps({**out, "key": dict(row.key)}, allow_nan=False)
