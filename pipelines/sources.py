"""Reading event files as Arrow batches: Parquet, CSV and NDJSON, whole columns at a time.

A record that cannot be read (a broken line, a text where a number or a time belongs) becomes a dead
letter that says which column and why, and never what it said; the rest of its batch goes on.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from ldp_beam import DeadLetter
from ldp_beam.elements.faults import UNREADABLE
from ldp_beam.io.csv_text import cast_or_null, header_names, read_text
from ldp_beam.io.ndjson import parse_stream
from ldp_beam.io.parquet_batches import read_batches
from ldp_core import InputError, PlanError, PrivacyPlan
from ldp_core.exact.arrow import ARROW_TYPES
from ldp_core.limits import open_parquet
from pipelines.progress import PROGRESS

TIME = pa.timestamp("us", "UTC")
FORMATS = {".parquet": "parquet", ".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson"}


@dataclass(frozen=True)
class EventSchema:
    """Which columns to read, and as what.

    Attributes:
        event_time: name of the column with the event time.
        columns: Arrow type of every other column; None leaves the type as it is (text, in text formats; see
            `with_json_types`).
    """

    event_time: str
    columns: tuple[tuple[str, pa.DataType | None], ...]

    @classmethod
    def of(cls, plan: PrivacyPlan, event_time: str, extra: tuple[str, ...] = ()) -> EventSchema:
        """The columns that ``plan`` needs, with the types of its domains, and ``extra`` ones."""
        types: dict[str, pa.DataType | None] = {name: ARROW_TYPES[m.inputs.kind] for name, m in plan.columns.items()}
        types |= dict.fromkeys((*plan.keep, *extra))
        types.pop(event_time, None)
        return cls(event_time, tuple(types.items()))

    @property
    def names(self) -> list[str]:
        """All columns to read."""
        return [self.event_time, *(name for name, _ in self.columns)]

    @property
    def output(self) -> pa.Schema:
        """Schema of the batches read from text formats."""
        return pa.schema([(self.event_time, TIME), *((name, kind or pa.string()) for name, kind in self.columns)])


_JSON_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_HEAD_BYTES, _HEAD_LINES = 1 << 16, 100


def with_json_types(schema: EventSchema, paths: list[str]) -> EventSchema:
    """Kept columns, keys and ids with the types that they have at the head of the first NDJSON file, if there is one.

    (The integer 5 and the text "5" are two ids.)
    """
    path = next((path for path in paths if file_format(path) == "ndjson"), None)
    if path is None or all(kind is not None for _, kind in schema.columns):
        return schema
    found: dict[str, pa.DataType] = {}
    with suppress(Exception), FileSystems.open(path) as stream:  # each decompressor has errors of its own
        for line in stream.read(_HEAD_BYTES).splitlines()[:_HEAD_LINES]:
            with suppress(ValueError, AttributeError, RecursionError):  # a dead letter, later
                for name, value in json.loads(line).items():
                    if value is not None:
                        found.setdefault(name, _JSON_TYPES.get(type(value), pa.string()))
    return EventSchema(schema.event_time, tuple((name, kind or found.get(name)) for name, kind in schema.columns))


def match_files(patterns: list[str]) -> list[str]:
    """Paths of the files that the patterns (globs allowed) name, sorted.

    Raises:
        InputError: a pattern matches nothing, a file is empty, or of none of the known formats.
    """
    paths: list[str] = []
    for pattern, result in zip(patterns, FileSystems.match([_in_a_folder(p) for p in patterns]), strict=True):
        if not result.metadata_list:
            raise InputError(f"no file matches {pattern!r}")
        for file in result.metadata_list:
            if file.size_in_bytes == 0:
                raise InputError(f"{file.path!r} is empty")
            file_format(file.path)
            paths.append(file.path)
    return sorted(set(paths))


def _in_a_folder(pattern: str) -> str:
    """Beam finds nothing for ``*.csv``, but for ``./*.csv`` what is meant."""
    return f"./{pattern}" if "/" not in pattern and os.sep not in pattern and re.search(r"[*?[]", pattern) else pattern


def file_format(path: str) -> str:
    """``parquet``, ``csv`` or ``ndjson``, from the name (a compression suffix may follow)."""
    name = path.removesuffix(".gz").removesuffix(".bz2").removesuffix(".zst")
    for suffix, kind in FORMATS.items():
        if name.endswith(suffix):
            return kind
    raise InputError(f"{path!r}: the name must end in one of {sorted(FORMATS)}")


def check_file(path: str, schema: EventSchema) -> pa.Schema | None:
    """Look at a file's head; the Arrow schema where the format has one.

    Raises:
        InputError: the file cannot be read as what its name says.
        PlanError: it lacks a needed column.
    """
    kind = file_format(path)
    found: pa.Schema | None = None
    names: list[str] | None = None
    try:
        with FileSystems.open(path) as stream:
            if kind == "parquet":
                found = open_parquet(stream).schema_arrow
                names = found.names
            elif kind == "csv":
                names = header_names(stream)
    except Exception:  # Arrow's, which may quote the file, and each decompressor's own
        names = []
    if names == []:
        raise InputError(f"{path!r} cannot be read as {kind}: it is corrupt, or of another format")
    missing = sorted(set(schema.names) - set(names)) if names is not None else []
    if missing:
        # A file of text without a line of names begins with a record.
        has = "" if found is None else f"; it has {names}"
        raise PlanError(f"{path!r} does not have the columns {missing}{has}")
    if found is not None:
        _check_types(path, found, schema)
        found = pa.schema([found.field(name) for name in schema.names])
    return found


def _check_types(path: str, found: pa.Schema, schema: EventSchema) -> None:
    time = found.field(schema.event_time).type
    if not (pa.types.is_timestamp(time) or pa.types.is_date(time)):
        raise InputError(f"{path!r}: event time {schema.event_time!r} must be a timestamp or a date, got {time}")


class ReadEvents(beam.DoFn):
    """Path -> ``pyarrow.RecordBatch`` es of the needed columns; unreadable records -> the tag ``dead``."""

    DEAD = "dead"

    def __init__(self, schema: EventSchema) -> None:
        self.schema = schema
        self._read = Metrics.counter("ldp", "records_read")

    def process(self, path: str) -> Iterator[Any]:
        """Yield the file's batches, and a dead letter for what follows where it cannot be read on."""
        reader = {"parquet": read_parquet, "csv": read_csv, "ndjson": read_ndjson}[file_format(path)]
        readable = True
        try:
            with FileSystems.open(path) as stream:
                for item in reader(stream, self.schema):
                    yield self._counted(item)
        except Exception:  # Arrow's, which may quote the file, and each decompressor's own
            readable = False
        if not readable:
            yield self._counted(DeadLetter("", UNREADABLE, 1))

    def _counted(self, item: Item) -> Any:
        rows = item.count if isinstance(item, DeadLetter) else item.num_rows
        self._read.inc(rows)
        PROGRESS.add(rows)
        return beam.pvalue.TaggedOutput(self.DEAD, item) if isinstance(item, DeadLetter) else item


Item: TypeAlias = pa.RecordBatch | DeadLetter


def read_parquet(stream: BinaryIO, schema: EventSchema) -> Iterator[Item]:
    """Batches of a Parquet file in its own types; records without an event time are dead letters."""
    for batch in read_batches(open_parquet(stream), stream, schema.names):
        batch.validate(full=True)
        yield from _with_time(batch.select(schema.names), schema.event_time)


def read_csv(stream: BinaryIO, schema: EventSchema) -> Iterator[Item]:
    """Batches of a CSV file with a header line; only an empty field without quotes is null."""
    for batch, bad in read_text(stream, schema.names):
        yield from _convert(batch, schema)
        if bad:
            yield DeadLetter("", "a line with another number of fields than the header", bad)


def read_ndjson(stream: BinaryIO, schema: EventSchema) -> Iterator[Item]:
    """Batches of a file with one JSON object a line; blank lines are no records."""
    for batches, malformed in parse_stream(stream, _json_schema(schema)):
        for batch in batches:
            yield from _convert(batch, schema)
        if malformed:
            yield DeadLetter("", "a line that is not a JSON object with the expected types", malformed)


def _json_schema(schema: EventSchema) -> pa.Schema:
    return pa.schema(
        [(schema.event_time, pa.string()), *((name, kind or pa.string()) for name, kind in schema.columns)]
    )


def _convert(batch: pa.RecordBatch, schema: EventSchema) -> Iterator[Item]:
    """Text columns to the types of the schema; a record with a text that does not convert is a dead letter."""
    arrays: list[pa.Array] = []
    for field in schema.output:
        column = batch.column(field.name)
        typed = _to_time(column) if field.name == schema.event_time else cast_or_null(column, field.type)
        bad = pc.and_(pc.is_valid(column), pc.is_null(typed))
        count = pc.sum(bad).as_py() or 0
        if count:
            yield DeadLetter(field.name, f"not of type {field.type}", count)
            good = pc.invert(bad)
            batch, typed = batch.filter(good), typed.filter(good)
            arrays = [array.filter(good) for array in arrays]
        arrays.append(typed)
    yield from _with_time(pa.RecordBatch.from_arrays(arrays, schema=schema.output), schema.event_time)


def _with_time(batch: pa.RecordBatch, event_time: str) -> Iterator[Item]:
    column = batch.column(event_time)
    if column.null_count:
        yield DeadLetter(event_time, "no event time", column.null_count)
        batch = batch.filter(pc.is_valid(column))
    if batch.num_rows:
        yield batch


_ZONE = r"(Z|[+-]\d{2}:?\d{2})$"


def _to_time(text: pa.Array) -> pa.Array:
    """ISO 8601 text to UTC timestamps; without a zone it is taken as UTC; null where it is neither."""
    text = cast_or_null(text, pa.string())
    zoned = pc.fill_null(pc.match_substring_regex(text, _ZONE), False)
    none = pa.nulls(len(text), pa.string())
    aware = cast_or_null(pc.if_else(zoned, text, none), TIME)
    naive = cast_or_null(pc.if_else(zoned, none, text), pa.timestamp("us"))
    return pc.coalesce(aware, pc.assume_timezone(naive, "UTC"))


def union_schema(schemas: Mapping[str, pa.Schema | None], events: EventSchema) -> pa.Schema:
    """The one schema of all files' batches.

    Raises:
        InputError: two files give a column different types.
    """
    found = {path: schema or events.output for path, schema in schemas.items()}
    first_path, first = next(iter(found.items()))
    for path, schema in found.items():
        if not schema.equals(first):
            raise InputError(f"{path!r} and {first_path!r} have columns of different types: {schema} and {first}")
    return first
