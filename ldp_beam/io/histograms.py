"""Histogram rows as Arrow batches, lines of JSON, rows of BigQuery, and files."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, TypeAlias

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import PCollection
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

from ldp_beam.elements.rows import AnyHistogramRow, is_histogram_row, text_row, value_type
from ldp_beam.graph.replay import ReplaySafe
from ldp_core import DtypeError, ParameterError
from ldp_core.estimates.histogram import entries_schema

_FileFormat: TypeAlias = Literal["parquet", "ndjson"]


def histogram_schema(value: pa.DataType) -> pa.Schema:
    """Of `histogram_batch`: fields of `HistogramRow`. The ends of the global window are null.

    Args:
        value: type of the values: ``mechanism.domain.arrow_type``, that is ``string``, ``int64`` or ``bool``.

    >>> histogram_schema(pa.int64()).field("value").type
    DataType(int64)
    """
    return pa.schema(
        [
            ("window_start", pa.timestamp("us", "UTC")),
            ("window_end", pa.timestamp("us", "UTC")),
            ("pane_index", pa.int64()),
            ("pane_timing", pa.string()),
            ("column_name", pa.string()),
            ("key", pa.map_(pa.string(), pa.string())),
            *entries_schema(value),
            ("confidence", pa.float64()),
            ("epsilon", pa.float64()),
            ("fingerprint", pa.string()),
        ]
    )


HISTOGRAM_SCHEMA = histogram_schema(pa.string())
"""`histogram_schema` of values that are text."""

_BIGQUERY_TYPES = (
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_integer, "INTEGER"),
    (pa.types.is_floating, "FLOAT"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_string, "STRING"),
)
_YEAR_1, _YEAR_10000 = -62_135_596_800 * 10**6, 253_402_300_800 * 10**6
_TIME = "%Y%m%dT%H%M%S.%fZ"
_TEMPORARY = ".part-"  # a dot file: those who watch the folder do not see it before it is complete


def histogram_batch(rows: Sequence[AnyHistogramRow], schema: pa.Schema = HISTOGRAM_SCHEMA) -> pa.RecordBatch:
    """Rows as one batch.

    Args:
        rows: `HistogramRow` s, or those of integers or Booleans.
        schema: `histogram_schema` of the values' type; as text by default, whatever their type is.

    >>> from apache_beam.utils.timestamp import Timestamp
    >>> from ldp_beam import HistogramRow
    >>> row = HistogramRow(Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "os", {"app": "mail"}, "ios",
    ...                    2.0, 0.5, 1.0, 3.0, 1.0, 0.25, 0.5, 1.5, 2, 0.95, 1.0, "f" * 16)
    >>> histogram_batch([row]).select(["value", "count", "n"]).to_pylist()
    [{'value': 'ios', 'count': 2.0, 'n': 2}]
    """
    columns: dict[str, list[Any]] = {name: [getattr(r, name) for r in _as(rows, schema)] for name in schema.names}
    for name in ("window_start", "window_end"):
        columns[name] = [_micros(time) for time in columns[name]]
    columns["key"] = [list(key.items()) for key in columns["key"]]
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(rows: Sequence[AnyHistogramRow], schema: pa.Schema) -> Sequence[AnyHistogramRow]:
    """The rows; with values as text where the schema has them so."""
    return [text_row(row) for row in rows] if schema.field("value").type == pa.string() else rows


def _micros(time: Timestamp) -> int | None:
    """Microseconds since the epoch; None for what no calendar has, the ends of the global window among them."""
    return int(time.micros) if _YEAR_1 <= time.micros < _YEAR_10000 else None


def histogram_dict(row: AnyHistogramRow) -> dict[str, Any]:
    """A row as JSON's types, the fields of `HISTOGRAM_SCHEMA`: times in ISO 8601, UTC; null for what is not a number.

    >>> from apache_beam.utils.timestamp import Timestamp
    >>> from ldp_beam import HistogramRow
    >>> row = HistogramRow(Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "os", {"app": "mail"}, "ios",
    ...                    0.0, 0.0, 0.0, 0.0, *[float("nan")] * 4, 0, 0.95, 1.0, "f" * 16)
    >>> line = histogram_dict(row)
    >>> line["window_end"], line["key"], line["value"], line["frequency"]
    ('1970-01-01T00:01:00Z', {'app': 'mail'}, 'ios', None)
    """
    values = row._asdict()
    out: dict[str, Any] = {name: values[name] for name in HISTOGRAM_SCHEMA.names}
    for name in ("window_start", "window_end"):
        out[name] = None if _micros(out[name]) is None else out[name].to_utc_datetime().isoformat() + "Z"
    out = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in out.items()}
    return {**out, "key": dict(row.key)}


def histogram_line(row: AnyHistogramRow) -> str:
    """A row as a line of JSON, without its end; see `histogram_dict`.

    >>> from apache_beam.utils.timestamp import Timestamp
    >>> from ldp_beam import HistogramRow
    >>> row = HistogramRow(Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "os", {"app": "mail"}, "ios",
    ...                    2.0, 0.5, 1.0, 3.0, 1.0, 0.25, 0.5, 1.5, 2, 0.95, 1.0, "f" * 16)
    >>> json.loads(histogram_line(row))["window_end"]
    '1970-01-01T00:01:00Z'
    """
    return json.dumps(histogram_dict(row), allow_nan=False)


def bigquery_schema(schema: pa.Schema) -> dict[str, Any]:
    """What ``beam.io.WriteToBigQuery`` takes as ``schema``, for a flat Arrow schema with maps of text.

    Raises:
        DtypeError: a type that has no counterpart here.

    >>> bigquery_schema(pa.schema([("n", pa.int64())]))
    {'fields': [{'name': 'n', 'type': 'INTEGER', 'mode': 'NULLABLE'}]}
    """
    return {"fields": [_bigquery_field(field.name, field.type) for field in schema]}


def _bigquery_field(name: str, arrow_type: pa.DataType) -> dict[str, Any]:
    if pa.types.is_map(arrow_type):
        fields = [_bigquery_field("key", arrow_type.key_type), _bigquery_field("value", arrow_type.item_type)]
        return {"name": name, "type": "RECORD", "mode": "REPEATED", "fields": fields}
    for is_type, bigquery_type in _BIGQUERY_TYPES:
        if is_type(arrow_type):
            return {"name": name, "type": bigquery_type, "mode": "NULLABLE"}
    raise DtypeError(f"field {name!r}: {arrow_type} has no counterpart in BigQuery here")


BIGQUERY_SCHEMA = bigquery_schema(HISTOGRAM_SCHEMA)
"""Of `bigquery_row`: ``rows | beam.Map(bigquery_row) | beam.io.WriteToBigQuery(table, schema=BIGQUERY_SCHEMA)``."""


def bigquery_row(row: AnyHistogramRow, schema: pa.Schema = HISTOGRAM_SCHEMA) -> dict[str, Any]:
    """A row as ``beam.io.WriteToBigQuery`` takes it: `histogram_dict`, the key as repeated records.

    Args:
        row: of a histogram.
        schema: `histogram_schema`; as text by default. Integers that are to remain integers:
            ``rows | beam.Map(bigquery_row, schema)``, and ``bigquery_schema(schema)`` for the table.

    >>> from apache_beam.utils.timestamp import Timestamp
    >>> from ldp_beam import HistogramRow
    >>> row = HistogramRow(Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "os", {"app": "mail"}, "ios",
    ...                    2.0, 0.5, 1.0, 3.0, 1.0, 0.25, 0.5, 1.5, 2, 0.95, 1.0, "f" * 16)
    >>> bigquery_row(row)["key"]
    [{'key': 'app', 'value': 'mail'}]
    """
    [row] = _as([row], schema)
    return {**histogram_dict(row), "key": [{"key": name, "value": value} for name, value in row.key.items()]}


class HistogramBatches(beam.PTransform[Any, Any]):
    """`HistogramRow` s -> batches of `histogram_schema`: one a window and bundle, at the window's end.

    Values are of the type that the type of the rows says when the pipeline is built. They are text if it does not say
    (behind a ``beam.Map`` without types), or where rows of several types come together.

    >>> from ldp_beam import PrivateHistogram
    >>> from ldp_core import RandomizedResponse
    >>> events = [{"crashed": False}, {"crashed": True}]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(events) | PrivateHistogram("crashed", RandomizedResponse(epsilon=1.0))
    ...     _ = rows | HistogramBatches() | beam.Map(lambda batch: print(batch.num_rows, batch["n"].to_pylist()))
    2 [2, 2]
    """

    @override
    def expand(self, rows: PCollection[AnyHistogramRow]) -> Any:
        make = partial(histogram_batch, schema=schema_of(rows))
        return rows | "Gather" >> beam.ParDo(_Gather(make)).with_output_types(pa.RecordBatch)


def schema_of(rows: PCollection[AnyHistogramRow]) -> pa.Schema:
    """Of the batches that `HistogramBatches` makes."""
    return histogram_schema(value_type(rows.element_type))


class _Gather(beam.DoFn):
    """Rows -> what ``make`` makes of the rows of one window in one bundle."""

    def __init__(self, make: Callable[[Sequence[AnyHistogramRow]], Any]) -> None:
        self._make = make
        self._rows: dict[Any, list[AnyHistogramRow]] = {}

    @override
    def start_bundle(self) -> None:
        self._rows = {}

    @override
    def process(self, row: AnyHistogramRow, window: Any = beam.DoFn.WindowParam) -> None:
        if not is_histogram_row(row):
            raise DtypeError(f"elements must be HistogramRow, got {type(row).__name__}")
        self._rows.setdefault(window, []).append(row)

    @override
    def finish_bundle(self) -> Iterator[WindowedValue]:
        gathered, self._rows = self._rows, {}
        for window, rows in gathered.items():
            yield WindowedValue(self._make(rows), window.max_timestamp(), (window,))


def _parquet(rows: Sequence[AnyHistogramRow], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema) as writer:
        writer.write_batch(histogram_batch(rows, schema))
    return bytes(sink.getvalue().to_pybytes())


def _ndjson(rows: Sequence[AnyHistogramRow], schema: pa.Schema) -> bytes:
    return "".join(histogram_line(row) + "\n" for row in _as(rows, schema)).encode()


_FILES: dict[_FileFormat, Callable[[Sequence[AnyHistogramRow], pa.Schema], bytes]] = {
    "parquet": _parquet,
    "ndjson": _ndjson,
}


def _file(rows: Sequence[AnyHistogramRow], format: _FileFormat, schema: pa.Schema) -> tuple[str, bytes]:  # noqa: A002
    """Name and content of the file of one window's rows."""
    content = _FILES[format](rows, schema)
    ends = [_micros(time) for time in (rows[0].window_start, rows[0].window_end)]
    times = [
        "all" if end is None else f"{datetime.fromtimestamp(0, UTC) + timedelta(microseconds=end):{_TIME}}"
        for end in ends
    ]
    return f"{'_'.join(times)}_{hashlib.sha256(content).hexdigest()[:16]}.{format}", content


def _write(file: tuple[str, bytes], folder: str) -> str:
    """Write a file beside its final name, then rename it; the path."""
    name, content = file
    path, unfinished = (FileSystems.join(folder, n) for n in (name, f"{_TEMPORARY}{uuid.uuid4().hex}"))
    with suppress(OSError):  # it is there, which some file systems say by an error
        FileSystems.mkdirs(folder)
    with FileSystems.create(unfinished, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
        stream.write(content)
    FileSystems.rename([unfinished], [path])
    return str(path)


class WriteHistograms(beam.PTransform[Any, Any]):
    """`HistogramRow` s into files of a folder, one a window and bundle; for bounded and for streaming pipelines.

    A file's name has the ends of the window and a digest of the content: a repeated write makes the same file again,
    and no pane overwrites another's. Each is written under a dot name and renamed when it is complete. In
    accumulating mode a later pane replaces an earlier one: take the highest ``pane_index`` of each
    window, column, key and value.

    The result is a PCollection of the files' paths. Of which type the values are: see `HistogramBatches`.

    Args:
        path: a folder, on any file system that Beam knows.
        format: ``"parquet"``, of `histogram_schema`; or ``"ndjson"``, see `histogram_line`.

    Raises:
        ParameterError: another format.

    >>> WriteHistograms("out", format="csv")
    Traceback (most recent call last):
        ...
    ldp_core.errors.ParameterError: format must be one of ['parquet', 'ndjson'], got 'csv'
    """

    def __init__(self, path: str, format: _FileFormat = "parquet") -> None:  # noqa: A002 (as in DecodeMessages)
        super().__init__()
        if format not in _FILES:
            raise ParameterError(f"format must be one of {list(_FILES)}, got {format!r}")
        self._path = str(path)
        self._format = format

    @override
    def expand(self, rows: PCollection[AnyHistogramRow]) -> Any:
        make = partial(_file, format=self._format, schema=schema_of(rows))
        return (
            rows
            | "Gather" >> beam.ParDo(_Gather(make)).with_output_types(tuple[str, bytes])
            | "Stabilize" >> ReplaySafe()
            | "Write" >> beam.Map(_write, self._path).with_output_types(str)
        )
