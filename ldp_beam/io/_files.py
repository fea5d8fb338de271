"""Files of batches: Parquet, NDJSON and CSV, read plainly; what cannot be read is counted, never shown."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import reduce
from typing import Any, BinaryIO, TypeAlias, TypeVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.metrics.metric import Metrics
from typing_extensions import override

from ldp_beam._compat import to_the_end, unwritable
from ldp_beam.elements.faults import NOT_A_LINE, NULL, UNREADABLE, Faults, not_of
from ldp_beam.elements.records import NAMESPACE
from ldp_beam.elements.rows import DeadLetter
from ldp_beam.io._positions import positions, with_positions
from ldp_beam.io.csv_text import cast_or_null, check_names, read_text
from ldp_beam.io.ndjson import parse_stream
from ldp_core import InputError, LdpError, Limits, ParameterError
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import I64, METADATA_KEY, PARQUET, UNFINISHED, matching_files, open_parquet, read_batches

_T = TypeVar("_T")
_Found: TypeAlias = tuple[list[pa.RecordBatch], I64] | DeadLetter
"""Batches, and of each record in them its row in the file: int64[n], from 0; or unusable records."""
FORMATS = dict.fromkeys(PARQUET, "parquet") | {".csv": "csv"} | dict.fromkeys((".ndjson", ".jsonl", ".json"), "ndjson")


def file_format(path: str) -> str | None:
    """``parquet``, ``csv`` or ``ndjson``, from the name, in capitals, too; None if the name says none of them."""
    name = path.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    return next((found for suffix, found in FORMATS.items() if name.endswith(suffix)), None)


def file_sizes(pattern: str) -> dict[str, int]:
    """The files that a pattern names, each once, and their sizes: as a shell finds them, on any file system.

    Of this machine Beam finds nothing for ``*.csv``, and does not look into linked folders. For ``**/`` it finds the
    files of folders below, and not those of the folder itself. As in Beam, ``in/`` are its files, and ``**`` before a
    name is of all folders below.
    """
    pattern = re.sub(r"((?:^|/)\*\*)(?=[^/*])", r"\1/*", pattern) + "*" * pattern.endswith("/")
    found = {}
    if isinstance(FileSystems.get_filesystem(pattern), LocalFileSystem):
        for path in matching_files(pattern):
            with suppress(OSError):  # (it is gone meanwhile)
                found[path] = os.path.getsize(path)
        return found
    first, *parts = re.split(r"(?:^|(?<=/))\*\*/", pattern)
    forms = reduce(lambda forms, part: [form + star + part for form in forms for star in ("**/", "")], parts, [first])
    there = {file.path: file.size_in_bytes for of_one in FileSystems.match(forms) for file in of_one.metadata_list}
    hidden = [UNFINISHED] + ["/."] * ("/." not in pattern)
    return {path: size for path, size in there.items() if not any(mark in path for mark in hidden)}


def check_folder(path: str) -> None:
    """Raise if no file can be written there, as far as this machine tells."""
    try:
        path.encode()
        local = isinstance(FileSystems.get_filesystem(path), LocalFileSystem)
        if local and not os.path.isdir(path) and os.stat(path):
            raise NotADirectoryError(errno.ENOTDIR, "it is a file")
    except (FileNotFoundError, PermissionError):
        pass  # it will be made, or the workers may
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from error


def head_of(path: str, read: Callable[[BinaryIO], _T]) -> _T:
    """What ``read`` finds at the head of a file."""
    found = None
    with suppress(Exception), FileSystems.open(path) as stream:  # Arrow's, which quote the file, and decompressors' own
        found = read(stream)
    if not found:
        why = "it is corrupt, over a limit (docs/input.md), or of another format"
        raise InputError(f"{path!r} cannot be read as {file_format(path)}: {why}")
    return found


def parquet_schema(stream: BinaryIO) -> pa.Schema:
    """The schema of a Parquet file, with the plan in its metadata wherever it is."""
    return _schema_of(open_parquet(stream))


def schema_of_names(fields: Iterable[Any]) -> pa.Schema:
    """A schema of these names, which may be anybody's."""
    with suppress(UnicodeEncodeError):
        return pa.schema(fields)
    raise ParameterError("names of columns are text in UTF-8: one of these has half of a surrogate pair")


def _schema_of(file: pq.ParquetFile) -> pa.Schema:
    schema, key = file.schema_arrow, METADATA_KEY.encode()
    for kind in schema.types:
        getattr(kind, "tz", None)  # which Arrow decodes, as names: a ValueError where it is no UTF-8
    plan = {k: v for k, v in (file.metadata.metadata or {}).items() if k == key}  # where Polars writes it
    return schema.with_metadata({**plan, **(schema.metadata or {})} or None)


def real_path(path: str) -> str:
    """The one path of a file of this machine, however it is written; of others the path as it is."""
    return path if "://" in path else os.path.realpath(path)


def _positioned(found: Iterable[_Found], path: str, position: str | None) -> Iterator[pa.RecordBatch | DeadLetter]:
    """Batches with a column of positions, if it has a name.

    A file is its path with its size and the time when it was last changed: what takes its place is another one.
    """
    name = b""
    if position is not None:
        file = FileSystems.get_filesystem(path).metadata(path)
        name = f"file\0{real_path(path)}\0{file.size_in_bytes}\0{file.last_updated_in_seconds}".encode()
    for item in found:
        if isinstance(item, DeadLetter):
            yield item
            continue
        batches, rows = item
        if position is not None:
            batches = with_positions(batches, position, positions([name], np.zeros(len(rows), np.int64), rows))
        yield from batches


def _parquet(stream: BinaryIO, schema: pa.Schema | None, limits: Limits) -> Iterator[_Found]:
    file = open_parquet(stream)
    columns, whole = None if schema is None else schema.names, _schema_of(file)
    if columns is not None:
        check_names(columns, whole.names)
    first = 0
    for batch in read_batches(file, stream, columns, limits):
        batch.validate(full=True)
        yield [batch.replace_schema_metadata(whole.metadata)], np.arange(first, first + batch.num_rows)
        first += batch.num_rows


def _ndjson(stream: BinaryIO, schema: pa.Schema, limits: Limits) -> Iterator[_Found]:
    for batches, lines, bad in parse_stream(stream, schema, limits):
        yield batches, lines
        for (column, reason), count in bad.items():
            yield DeadLetter(column, reason, count)


def _csv(stream: BinaryIO, schema: pa.Schema, limits: Limits) -> Iterator[_Found]:
    first = 0  # (rows are counted that have as many fields as the header)
    for text, other in read_text(stream, schema.names, limits):
        batches, faults = _typed(text, schema)
        good = faults.good
        yield batches, first + np.flatnonzero(good)
        first += len(good)
        yield from faults.letters(np.flatnonzero(~good))
        if other:
            yield DeadLetter("", NOT_A_LINE, other)


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> tuple[list[pa.RecordBatch], Faults]:
    """Text columns as the schema has them, without the rows of which one does not convert; and which rows these are."""
    arrays, faults = [], Faults(batch.num_rows)
    for column, field in zip(batch.columns, schema, strict=True):
        typed = cast_or_null(column, field.type)
        missing, empty = np.asarray(typed.is_null()), np.asarray(column.is_null())
        faults.add(field.name, not_of(field.type), missing & ~empty)
        if not field.nullable:
            faults.add(field.name, NULL, missing & empty)
        arrays.append(typed)
    whole, good = pa.RecordBatch.from_arrays(arrays, schema=schema), faults.good
    return ([whole if good.all() else whole.filter(pa.array(good))] if good.any() else []), faults


class ReadFileDoFn(beam.DoFn):
    """Path -> batches, and dead letters if there is a tag for them."""

    def __init__(
        self,
        schema: pa.Schema | None,
        dead_letter_tag: str | None,
        limits: Limits = DEFAULT,
        position: str | None = None,
        form: str | None = None,
    ) -> None:
        self._schema = schema
        self._limits = limits
        self._position = position
        self._form = form
        self._dead_letter_tag = dead_letter_tag
        self._files = Metrics.counter(NAMESPACE, "files_read")
        self._rows = Metrics.counter(NAMESPACE, "rows_read")
        self._dead = Metrics.counter(NAMESPACE, "dead_lettered")

    def items(self, path: str) -> Iterator[pa.RecordBatch | DeadLetter]:
        return self.read(path, self._schema)

    def read(self, path: str, schema: pa.Schema | None) -> Iterator[pa.RecordBatch | DeadLetter]:
        """The batches of a file, and how many of its records are unusable."""
        form = self._form or file_format(path)
        readable = True
        try:
            with FileSystems.open(path) as stream:
                found: Iterable[_Found] = ()
                if form == "parquet":
                    found = _parquet(stream, schema, self._limits)
                elif schema is not None:
                    found = (_ndjson if form == "ndjson" else _csv)(to_the_end(stream), schema, self._limits)
                else:
                    readable = False
                yield from _positioned(found, path, self._position)
        except LdpError as error:  # ours, which quotes nothing of the file, and says what to do
            if self._dead_letter_tag is None:
                raise InputError(f"{path!r}: {error}") from None
            readable = False
        except Exception:  # Arrow's, which quote the file, and each decompressor's own
            readable = False
        if not readable:
            yield DeadLetter("", UNREADABLE, 1)

    @override
    def process(self, path: str) -> Iterator[Any]:
        self._files.inc()
        for item in self.items(path):
            self._rows.inc(item.num_rows if isinstance(item, pa.RecordBatch) else item.count)
            if isinstance(item, pa.RecordBatch):
                yield item
            elif self._dead_letter_tag is None:
                where = f" in column {item.column_name!r}" if item.column_name else ""
                raise InputError(f"{path!r}: {item.count} x {item.reason}{where}")
            else:
                self._dead.inc(item.count)
                yield beam.pvalue.TaggedOutput(self._dead_letter_tag, item)
