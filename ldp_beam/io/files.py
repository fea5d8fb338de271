"""The files that there are when a job starts, as rows or batches: for Beam YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from glob import has_magic
from keyword import iskeyword
from typing import Any, ClassVar, Optional

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.filesystem import BeamIOError
from apache_beam.pvalue import Row
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from ldp_beam.elements.records import RecordsTransform
from ldp_beam.elements.rows import python_type
from ldp_beam.graph.upstream import ReadsValues
from ldp_beam.io._files import ReadFileDoFn, file_sizes, schema_of_names
from ldp_beam.io.events import check_head
from ldp_core import InputError, ParameterError

_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}


class _ReadFiles(RecordsTransform):
    """Files that match a pattern -> ``pyarrow.RecordBatch``; one worker reads a file, whatever it is called."""

    _form: ClassVar[str]

    def __init__(self, path: str, schema: pa.Schema | None) -> None:
        super().__init__()
        if not isinstance(path, str):
            raise ParameterError(f"path is a file pattern, got {type(path).__name__}")
        there: Mapping[str, int] = {}
        with suppress(BeamIOError, OSError, ValueError):
            there = file_sizes(path)
        if not there:
            raise InputError(f"there are no files to read at {path!r}")
        if schema is not None and self._form == "ndjson":  # a name with a slip would be a column of nulls
            check_head(next(iter(there)), schema.names)
        self._path, self._schema = path, schema

    @override
    def expand(self, pbegin: Any) -> Any:
        paths = (
            pbegin
            | "Pattern" >> beam.Create([self._path])
            | "Match" >> beam.FlatMap(_found).with_output_types(str)
            | "Spread" >> beam.Reshuffle()
        )
        return self._batches(paths, "Read", ReadFileDoFn(self._schema, self._dead_letter_tag, form=self._form))


def _found(path: str) -> Mapping[str, int]:
    """Perhaps none of a pattern, but of a path this worker must have the file."""
    found = file_sizes(path)
    if not found and not has_magic(path):
        raise InputError(f"there are no files to read at {path!r}")
    return found


class ReadParquet(_ReadFiles):
    """Parquet files as Arrow batches.

    Beam's ``ReadFromParquet`` makes a row of each record, and refuses columns of dates and timestamps.

    Args:
        path: a file pattern, on any file system that Beam knows.
        columns: to read; all if absent.

    Raises:
        InputError: there are no such files.
        ParameterError: bad arguments.
    """

    _form = "parquet"

    def __init__(self, path: str, columns: Iterable[str] | None = None) -> None:
        schema = None if columns is None else schema_of_names([(name, pa.string()) for name in columns])
        super().__init__(path, schema)


class _ReadText(_ReadFiles, ReadsValues):
    """Files of lines as rows, or as Arrow batches. Text may be compressed, as ``.gz``, ``.bz2`` or ``.zst``.

    A line with a value that is not of its column's type is unusable: with `with_exception_handling` it is counted, else
    the job ends.

    Args:
        path: a file pattern, on any file system that Beam knows.
        columns: to read, and the type of each: ``string``, ``integer``, ``number``, ``boolean`` (true, false, 1, 0) or
            ``timestamp`` (ISO 8601, with a zone), as ``{os: string, time: number}``.
        required: columns whose null makes a line unusable, as one that counts in an expression.
        batches: Arrow batches rather than rows: the fast way into the transforms of this package, and into them only.

    Raises:
        InputError: there are no such files.
        ParameterError: bad arguments.
    """

    def __init__(
        self, path: str, columns: Mapping[str, str], *, required: Iterable[str] = (), batches: bool = False
    ) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise ParameterError("columns is {NAME: TYPE, ...}, one at least")
        wrong = [name for name, kind in columns.items() if not isinstance(name, str) or str(kind) not in _TYPES]
        if wrong:
            raise ParameterError(f"columns {wrong}: the name is text, and the type one of {sorted(_TYPES)}")
        needed = set(required)
        if needed - set(columns):
            raise ParameterError(f"required names columns {sorted(needed - set(columns))} that are not in columns")
        schema = schema_of_names((name, _TYPES[kind], name not in needed) for name, kind in columns.items())
        super().__init__(path, schema)
        self.raw, self.schema = schema.names, schema
        odd = [one for one in columns if not one.isidentifier() or iskeyword(one) or one[0] == "_" or one == "self"]
        if odd and not batches:
            raise ParameterError(f"columns {odd}: a field of a Beam row has another name; batches=True takes any")
        self._row = None if batches else RowTypeConstraint.from_fields([(field.name, _kind(field)) for field in schema])

    @override
    def expand(self, pbegin: Any) -> Any:
        found = super().expand(pbegin)
        if self._row is None:
            return found
        batches, *dead_letters = found if isinstance(found, tuple) else (found,)
        rows = batches | "Rows" >> beam.FlatMap(_rows_of)
        rows.element_type = self._row
        return (rows, *dead_letters) if dead_letters else rows


class ReadCsv(_ReadText):
    """CSV files with a header line as rows, or as Arrow batches; only an empty field without quotes is null.

    So NA, null and NaN are text, as the country code NA is, and a quoted empty field is the empty text. (Beam's
    ``ReadFromCsv`` cannot tell them from a missing value.) A line of another number of fields is unusable, too.
    """

    _form = "csv"


class ReadNdjson(_ReadText):
    """Files of one JSON object a line as rows, or as Arrow batches; a field that a line lacks is null."""

    _form = "ndjson"


def _kind(field: pa.Field) -> Any:
    """What a Beam schema calls the type of a column."""
    kind = Timestamp if pa.types.is_timestamp(field.type) else python_type(field.type)
    return Optional[kind] if field.nullable else kind  # noqa: UP045 (Beam knows no other way to say it)


def _rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The records of a batch, one by one, for steps that are not of this package; times are Beam's `Timestamp`."""
    columns = [_values(column) for column in batch.columns]
    return (Row(**dict(zip(batch.schema.names, values, strict=True))) for values in zip(*columns, strict=True))


def _values(column: pa.Array) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    return [None if v is None else Timestamp(micros=v) for v in column.cast(pa.int64()).to_pylist()]
