"""Rows of answers, to whatever question, as Arrow batches, lines of JSON, rows of BigQuery, and files."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from os import PathLike
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

from ldp_beam._compat import unwritable
from ldp_beam.elements.records import FlushedAtOnce
from ldp_beam.elements.rows import EstimateRow, arrow_type, fields_of, is_estimate_row, word_of
from ldp_beam.graph.replay import ReplaySafe
from ldp_beam.io._files import check_folder
from ldp_core import DtypeError, ParameterError

_FileFormat: TypeAlias = Literal["parquet", "ndjson"]
_LEFT_OUT = ("pane_is_first", "pane_is_last")
_YEAR_1, _YEAR_10000 = -62_135_596_800 * 10**6, 253_402_300_800 * 10**6
_TIME = "%Y%m%dT%H%M%S.%fZ"
_TEMPORARY = ".part-"  # a dot file: those who watch the folder do not see it before it is complete


def estimate_schema(row_type: Any) -> pa.Schema:
    """Of `estimate_batch`: all fields of such rows but whether a pane is the first or the last.

    Args:
        row_type: `HistogramRow`, `IntegerHistogramRow`, `MeanRow`, ...; or what ``rows.element_type`` says.

    Raises:
        DtypeError: this is no type of rows of estimates.

    >>> from ldp_beam import IntegerHistogramRow
    >>> estimate_schema(IntegerHistogramRow).field("value").type
    DataType(int64)
    """
    schema = _schema_of(row_type)
    if schema is None:
        raise DtypeError("these are not rows of estimates, or of several types, or no type says of which")
    return schema


@cache
def _schema_of(row_type: Any) -> pa.Schema | None:
    fields = fields_of(row_type)
    if fields is None or not is_estimate_row(row_type):
        return None
    return pa.schema([(name, arrow_type(declared)) for name, declared in fields.items() if name not in _LEFT_OUT])


def estimate_batch(rows: Sequence[EstimateRow], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Rows of one type as one batch; the ends of the global window are null.

    Args:
        rows: one at least, if there is no schema.
        schema: `estimate_schema` of the rows, which is the default; columns that are text in it become text.

    >>> from ldp_beam import MeanRow
    >>> row = MeanRow(Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "seconds", {"app": "mail"},
    ...               2.0, 0.5, 1.0, 3.0, 2, 0.95, 1.0, "f" * 16)
    >>> estimate_batch([row]).select(["column_name", "mean", "n"]).to_pylist()
    [{'column_name': 'seconds', 'mean': 2.0, 'n': 2}]
    """
    if schema is None:
        schema = estimate_schema(type(rows[0]))
    arrays = [pa.array([_cell(getattr(row, f.name), f.type) for row in rows], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cell(value: Any, to: pa.DataType) -> Any:
    if pa.types.is_timestamp(to):
        return None if value is None else _micros(value)
    if pa.types.is_map(to):
        return list(value.items())
    return word_of(value) if pa.types.is_string(to) else value


def _micros(time: Timestamp) -> int | None:
    """Microseconds since the epoch; None for what no calendar has, the ends of the global window among them."""
    return int(time.micros) if _YEAR_1 <= time.micros < _YEAR_10000 else None


def estimate_dict(row: EstimateRow) -> dict[str, Any]:
    """A row as JSON's types, the fields of `estimate_schema`: times in ISO 8601, UTC; null for what is not finite.

    >>> from ldp_beam import MeanRow
    >>> row = MeanRow(Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "seconds", {"app": "mail"},
    ...               2.0, *[float("nan")] * 3, 1, 0.95, 1.0, "f" * 16)
    >>> line = estimate_dict(row)
    >>> line["window_end"], line["key"], line["mean"], line["standard_error"]
    ('1970-01-01T00:01:00Z', {'app': 'mail'}, 2.0, None)
    """
    out: dict[str, Any] = {name: value for name, value in row._asdict().items() if name not in _LEFT_OUT}
    for name in (name for name, value in out.items() if isinstance(value, Timestamp)):
        out[name] = None if _micros(out[name]) is None else out[name].to_utc_datetime().isoformat() + "Z"
    return {**{name: _finite(value) for name, value in out.items()}, "key": dict(row.key)}


def _finite(value: Any) -> Any:
    """A value as JSON has it, which has no nan."""
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def estimate_line(row: EstimateRow) -> str:
    """A row as a line of JSON, without its end; see `estimate_dict`.

    >>> from ldp_beam import MeanRow
    >>> head = (Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "seconds", {})
    >>> json.loads(estimate_line(MeanRow(*head, 2.0, 0.5, 1.0, 3.0, 2, 0.95, 1.0, "f" * 16)))["window_end"]
    '1970-01-01T00:01:00Z'
    """
    return json.dumps(estimate_dict(row), allow_nan=False)


_BIGQUERY_TYPES = (
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_integer, "INTEGER"),
    (pa.types.is_floating, "FLOAT"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_string, "STRING"),
)


def bigquery_schema(schema: pa.Schema) -> dict[str, Any]:
    """What ``beam.io.WriteToBigQuery`` takes as ``schema``, for a flat Arrow schema with maps of text.

    So rows go there: ``rows | beam.Map(bigquery_row) | beam.io.WriteToBigQuery(table, schema=...)``, with
    ``bigquery_schema(estimate_schema(HistogramRow))``, or of the type that the rows have.

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


def bigquery_row(row: EstimateRow) -> dict[str, Any]:
    """A row as ``beam.io.WriteToBigQuery`` takes it: `estimate_dict`, the key as repeated records.

    >>> from ldp_beam import MeanRow
    >>> head = (Timestamp(0), Timestamp(60), 0, "ON_TIME", True, True, "seconds", {"app": "mail"})
    >>> bigquery_row(MeanRow(*head, 2.0, 0.5, 1.0, 3.0, 2, 0.95, 1.0, "f" * 16))["key"]
    [{'key': 'app', 'value': 'mail'}]
    """
    return {**estimate_dict(row), "key": [{"key": name, "value": value} for name, value in row.key.items()]}


class EstimateBatches(beam.PTransform[Any, Any]):
    """Rows -> batches of `estimate_schema`: one per question, window and bundle, at the window's end.

    Columns are of the types that the type of the rows says when the pipeline is built. If it does not say (behind a
    ``beam.Map`` without types, or where rows of several types come together) ``value`` is text.

    >>> from ldp_beam import PrivateHistogram
    >>> from ldp_core import RandomizedResponse
    >>> events = [{"crashed": False}, {"crashed": True}]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     rows = p | beam.Create(events) | PrivateHistogram("crashed", RandomizedResponse(epsilon=1.0))
    ...     _ = rows | EstimateBatches() | beam.Map(lambda batch: print(batch.num_rows, batch["n"].to_pylist()))
    2 [2, 2]
    """

    @override
    def expand(self, rows: PCollection[EstimateRow]) -> Any:
        gather = _Gather(estimate_batch, _schema_of(rows.element_type))
        return rows | "Gather" >> beam.ParDo(gather).with_output_types(pa.RecordBatch) | "Flushed" >> FlushedAtOnce()


class _Gather(beam.DoFn):
    """Rows -> what ``make`` makes of the rows of one question and one window in one bundle, and their schema."""

    def __init__(self, make: Callable[[Sequence[EstimateRow], pa.Schema], Any], schema: pa.Schema | None) -> None:
        self._make = make
        self._schema = schema
        self._rows: dict[Any, list[EstimateRow]] = {}

    @override
    def start_bundle(self) -> None:
        self._rows = {}

    @override
    def process(self, row: EstimateRow, window: Any = beam.DoFn.WindowParam) -> None:
        if not is_estimate_row(row):
            raise DtypeError(f"elements must be rows of estimates, as HistogramRow, got {type(row).__name__}")
        self._rows.setdefault((window, row._fields), []).append(row)

    @override
    def finish_bundle(self) -> Iterator[WindowedValue]:
        gathered, self._rows = self._rows, {}
        for (window, _), rows in gathered.items():
            schema = self._schema
            if schema is None:  # values are text that are not known to be of one type
                found = estimate_schema(type(rows[0]))
                schema = pa.schema([one.with_type(pa.string()) if one.name == "value" else one for one in found])
            yield WindowedValue(self._make(rows, schema), window.max_timestamp(), (window,))


def _parquet(rows: Sequence[EstimateRow], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema) as writer:
        writer.write_batch(estimate_batch(rows, schema))
    return bytes(sink.getvalue().to_pybytes())


def _ndjson(rows: Sequence[EstimateRow], schema: pa.Schema) -> bytes:
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    rows = [row._replace(**{name: word_of(getattr(row, name)) for name in texts}) for row in rows]
    return "".join(estimate_line(row) + "\n" for row in rows).encode()


_FILES: dict[_FileFormat, Callable[[Sequence[EstimateRow], pa.Schema], bytes]] = {
    "parquet": _parquet,
    "ndjson": _ndjson,
}


def _file(rows: Sequence[EstimateRow], schema: pa.Schema, format: _FileFormat) -> tuple[str, bytes]:  # noqa: A002
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
    try:
        with FileSystems.create(unfinished, compression_type=CompressionTypes.UNCOMPRESSED) as stream:
            stream.write(content)
        FileSystems.rename([unfinished], [path])
    except OSError as error:
        with suppress(Exception):  # (any file system's)
            FileSystems.delete([unfinished])
        raise unwritable(folder, error) from error
    return str(path)


class WriteEstimates(beam.PTransform[Any, Any]):
    """Rows into files of a folder, one per question, window and bundle; for bounded and for streaming pipelines.

    A file's name has the ends of the window and a digest of the content: a repeated write makes the same file again,
    and no pane overwrites another's. Each is written under a dot name and renamed when it is complete. In
    accumulating mode a later pane replaces an earlier one: take the highest ``pane_index`` of each
    window, column and key. Rows of different questions have different columns: give each question a folder.

    The result is a PCollection of the files' paths. Of which type the values are: see `EstimateBatches`.

    Args:
        path: a folder, on any file system that Beam knows.
        format: ``"parquet"``, of `estimate_schema`; or ``"ndjson"``, see `estimate_line`.

    Raises:
        ParameterError: another format, or no path.
        InputError: the path is a file, or of a file system that Beam lacks; while the pipeline runs, where a worker
            cannot write.

    >>> WriteEstimates("out", format="csv")
    Traceback (most recent call last):
        ...
    ldp_core.errors.ParameterError: format must be one of ['parquet', 'ndjson'], got 'csv'
    """

    def __init__(self, path: str, format: _FileFormat = "parquet") -> None:  # noqa: A002 (as in DecodeMessages)
        super().__init__()
        if format not in list(_FILES):
            raise ParameterError(f"format must be one of {list(_FILES)}, got {format!r}")
        if not isinstance(path, (str, PathLike)) or not str(path):
            raise ParameterError(f"path must be a folder's, got {path!r}")
        check_folder(str(path))
        self._path = str(path)
        self._format = format

    @override
    def expand(self, rows: PCollection[EstimateRow]) -> Any:
        gather = _Gather(partial(_file, format=self._format), _schema_of(rows.element_type))
        return (
            rows
            | "Gather" >> beam.ParDo(gather).with_output_types(tuple[str, bytes])
            | "Stabilize" >> ReplaySafe()
            | "Write" >> beam.Map(_write, self._path).with_output_types(str)
        )
