"""Event files as Arrow batches: the columns that a plan needs, in the types of its domains.

A record that cannot be read (a broken line, a text where a number or a time belongs) becomes a dead letter that says
which column and what was expected, and never what it said; the rest of its batch goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from typing_extensions import override

from ldp_beam._compat import to_the_end
from ldp_beam.elements.batches import event_times
from ldp_beam.elements.faults import NO_TIME, NO_YEAR, Faults, not_of
from ldp_beam.elements.records import RecordsTransform
from ldp_beam.elements.rows import DeadLetter
from ldp_beam.graph.upstream import ReadsValues, check_plan
from ldp_beam.io._files import (
    FORMATS,
    ReadFileDoFn,
    file_format,
    file_sizes,
    head_of,
    parquet_schema,
    real_path,
    schema_of_names,
)
from ldp_beam.io._positions import POSITION, check_position
from ldp_beam.io.csv_text import cast_or_null, header_names
from ldp_beam.time.times import EventTime, TimeUnit
from ldp_core import InputError, Limits, ParameterError, PlanError, PrivacyPlan
from ldp_core.engine import ARROW_TYPES, Bools, is_text, of_folders, refuse_reports, warn_user
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT

TIME = pa.timestamp("us", "UTC")
_NUMBER = pa.float64()


class ReadEvents(RecordsTransform, ReadsValues):
    r"""Event files (Parquet, CSV, NDJSON) -> ``pyarrow.RecordBatch`` with the columns that a plan needs.

    Columns that the plan perturbs have the types of its domains; those that it keeps, and further ones, are as they are
    in Parquet (``large_string`` if files have text of several types), in NDJSON as in the first lines of the first
    file, and text in CSV. With `with_exception_handling`:
    ``(batches, dead_letters)``; a `DeadLetter` names the column and the type that was expected.

    Args:
        files: a pattern, or several; globs allowed, on any file system that Beam knows. The names end in ``.parquet``,
            ``.csv``, ``.ndjson``, ``.jsonl`` or ``.json``; text may be compressed (``.gz``, ``.bz2``, ``.zst``).
        plan: says which columns.
        event_time: the column of the records' times. It comes out as ``timestamp[us, UTC]``, made of ISO 8601 text (UTC
            without a zone) or of numbers; the timestamps and dates of Parquet stay as they are. A record without one is
            a dead letter. None: there is none.
        time_unit: of times that are numbers, since the epoch: ``"s"`` (default), ``"ms"``, ``"us"`` or ``"ns"``.
        also: further columns to read, as ids and keys.
        limits: for the row groups of Parquet files and the lines of text files.
        position: put where each record comes from into a column of this name, for ``Perturb(..., record=)``; as of
            `WatchFolder`.

    Attributes:
        schema: of the batches, a ``pyarrow.Schema``.

    Metrics: counters ``files_read``, ``rows_read`` and ``dead_lettered``. Errors while the pipeline runs, unless
    `with_exception_handling` is used: `InputError`.

    Raises:
        InputError: a pattern matches nothing; a file is empty, cannot be read, or holds reports already; or a column is
            of different types in two files.
        PlanError: not a plan, or a file lacks a needed column, or has it twice.
        ParameterError: bad arguments.

    >>> import tempfile
    >>> from ldp_core import RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    >>> with tempfile.NamedTemporaryFile("w", suffix=".ndjson") as file, beam.Pipeline("FnApiRunner") as p:
    ...     _ = file.write('{"crashed": true, "at": 1767225600000}\n{"crashed": 3, "at": 1767225600000}\n')
    ...     file.flush()
    ...     read = ReadEvents(file.name, plan, event_time="at", time_unit="ms").with_exception_handling()
    ...     batches, dead = p | read
    ...     _ = batches | "Good" >> beam.Map(lambda batch: print(batch["at"][0], batch["crashed"]))
    ...     _ = dead | "Dead" >> beam.Map(print)
    2026-01-01 00:00:00+00:00 [
      true
    ]
    DeadLetter(column_name='crashed', reason='not of type bool', count=1)
    """

    def __init__(
        self,
        files: str | PathLike[str] | Iterable[str],
        plan: PrivacyPlan,
        *,
        event_time: str | None = None,
        time_unit: TimeUnit = "s",
        also: Iterable[str] = (),
        limits: Limits = DEFAULT,
        position: str | None = None,
    ) -> None:
        super().__init__()
        check_plan(plan)
        EventTime(event_time, time_unit)
        check_position(position)
        self.paths = match_files(files)
        also = (also,) if isinstance(also, str) else tuple(also)
        events = EventSchema.of(plan, event_time, also, time_unit)
        events = with_json_types(replace(events, limits=limits, position=position), self.paths)
        heads = {path: check_file(path, events) or events.output for path in self.paths}
        kinds = {name: {head.field(name).type for head in heads.values()} for name in events.names}
        events = replace(
            events, large=tuple(name for name, of in kinds.items() if len(of) > 1 and all(map(is_text, of)))
        )
        heads = {path: events.one_text(head) for path, head in heads.items()}
        first_path, first = next(iter(heads.items()))
        for path, head in heads.items():
            refuse_reports(head, plan.inputs)
            if not head.equals(first):
                both = [(pa.schema([one]), pa.schema([other])) for one, other in zip(head, first, strict=True)]
                types = "; ".join(f"{one} and {other}" for one, other in both if not one.equals(other))
                raise InputError(
                    f"{path!r} and {first_path!r} have columns of different types, {types}: "
                    "write one of them with the types of the other, or read them in two runs"
                )
        self.schema = first.remove_metadata()
        if position is not None:
            if position in self.schema.names:
                raise ParameterError(f"position {position!r} is a column of the files: take another name")
            self.schema = self.schema.append(pa.field(position, POSITION, nullable=False))
        self._events, self.raw = events, plan.inputs

    @override
    def expand(self, pbegin: Any) -> Any:
        paths = pbegin | "Files" >> beam.Create(self.paths)
        fn = EventsDoFn(self._events, self._dead_letter_tag)
        return self._batches(paths, "Read", fn)


@dataclass(frozen=True)
class EventSchema:
    """Which columns to read, and as what."""

    event_time: str | None
    columns: tuple[tuple[str, pa.DataType | None], ...]
    time_unit: TimeUnit = "s"
    numbers: bool = False
    limits: Limits = DEFAULT
    position: str | None = None
    large: tuple[str, ...] = ()  # of text, of which files have several types

    @classmethod
    def of(
        cls, plan: PrivacyPlan, event_time: str | None, extra: tuple[str, ...] = (), time_unit: TimeUnit = "s"
    ) -> EventSchema:
        """The columns that ``plan`` needs, with the types of its domains, and ``extra`` ones."""
        types: dict[str, pa.DataType | None] = {name: ARROW_TYPES[one.kind] for name, one in plan.inputs.items()}
        types |= dict.fromkeys(name for name in (*plan.keep, *extra) if name not in types)
        types.pop(event_time or "", None)
        return cls(event_time, tuple(types.items()), time_unit)

    @property
    def names(self) -> list[str]:
        """All columns to read."""
        return self.output.names

    @property
    def output(self) -> pa.Schema:
        """Schema of the batches made of text formats."""
        return self._schema(TIME)

    def one_text(self, schema: pa.Schema) -> pa.Schema:
        """The schema with each column of text as one type in all files."""
        large = pa.large_string()
        return pa.schema([f.with_type(large) if f.name in self.large else f for f in schema], schema.metadata)

    def read_as(self, form: str | None) -> pa.Schema:
        """What the columns of a file are read as: times are text, or numbers."""
        return self._schema(_NUMBER if self.numbers and form == "ndjson" else pa.string())

    def _schema(self, time: pa.DataType) -> pa.Schema:
        times = [] if self.event_time is None else [(self.event_time, time)]
        return schema_of_names(times + [(name, kind or pa.string()) for name, kind in self.columns])


_JSON_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
_HEAD_BYTES, _HEAD_LINES = 1 << 16, 100


def _head(path: str) -> list[dict[str, Any]]:
    found = []
    with suppress(Exception), FileSystems.open(path) as stream:  # each decompressor has errors of its own
        for line in to_the_end(stream).read(_HEAD_BYTES).splitlines()[:_HEAD_LINES]:
            with suppress(ValueError, RecursionError):  # a dead letter, later
                value = json.loads(line)
                if isinstance(value, dict):
                    found.append(value)
    return found


def with_json_types(schema: EventSchema, paths: list[str]) -> EventSchema:
    """Times, kept columns, keys and ids with the types that they have at the head of the first NDJSON file.

    (The integer 5 and the text "5" are two ids.)
    """
    path = next((path for path in paths if file_format(path) == "ndjson"), None)
    if path is None:
        return schema
    found: dict[str, pa.DataType] = {}
    for row in _head(path):
        for name, value in row.items():
            if value is not None:
                kind = _JSON_TYPES.get(type(value), pa.string())
                if found.setdefault(name, kind) == pa.int64() and kind == pa.float64() and value % 1 > 0:
                    found[name] = kind  # (3.0 is written as 3, and 12.5 is no id)
    columns = tuple((name, kind or found.get(name)) for name, kind in schema.columns)
    numbers = found.get(schema.event_time or "") in (pa.int64(), _NUMBER)
    return replace(schema, columns=columns, numbers=numbers)


def match_files(files: str | PathLike[str] | Iterable[str]) -> list[str]:
    """Paths of the files that a pattern, or several, name (globs allowed), sorted."""
    given = [files] if isinstance(files, (str, PathLike)) or not isinstance(files, Iterable) else [*files]
    patterns = [str(pattern) if isinstance(pattern, PathLike) else pattern for pattern in given]
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise ParameterError("files must be a pattern, or several")
    paths: list[str] = []
    try:
        results = [file_sizes(pattern) for pattern in patterns]
    except (BeamIOError, OSError, ValueError) as error:
        raise InputError(f"Beam cannot look for {patterns}: is the extra for its file system installed?") from error
    for pattern, found in zip(patterns, results, strict=True):
        if not found:
            raise InputError(f"no file matches {pattern!r}")
        for path, size in found.items():
            if size == 0:
                raise InputError(f"{path!r} is empty")
            if file_format(path) is None:
                raise InputError(f"{path!r}: the name must end in one of {sorted(FORMATS)}")
            paths.append(path)
    return sorted({real_path(path): path for path in sorted(paths)[::-1]}.values())


def check_file(path: str, schema: EventSchema) -> pa.Schema | None:
    """Look at a file's head; the Arrow schema where the format has one.

    Warns (`LdpWarning`) if no line at the head of an NDJSON file has a needed column: there it may be optional.
    """
    kind = file_format(path)
    if kind == "ndjson":
        check_head(path, schema.names, schema.event_time)
        return None
    found = head_of(path, parquet_schema) if kind == "parquet" else None
    names = head_of(path, header_names) if found is None else found.names
    missing = sorted(set(schema.names) - set(names))
    if missing:
        # A file of text without a line of names begins with a record.
        has = "" if found is None else f"; it has {names}{of_folders([path], missing)}"
        raise PlanError(f"{path!r} does not have the columns {missing}{has}")
    if twice := [name for name in schema.names if [*names].count(name) > 1]:
        raise PlanError(f"{path!r} has the columns {twice} twice: which one is meant? Rename one of them")
    if found is None:
        return None
    head = pa.schema([found.field(name) for name in schema.names], found.metadata)
    if schema.event_time is None:
        return head
    time = found.field(schema.event_time).type
    if _is_a_number(time):
        return head.set(0, pa.field(schema.event_time, TIME))
    if not (pa.types.is_timestamp(time) or pa.types.is_date(time)):
        raise InputError(
            f"{path!r}: event time {schema.event_time!r} must be a timestamp, a date or a number, got {time}"
        )
    return head


def check_head(path: str, names: Iterable[str], event_time: str | None = None) -> None:
    """Look at the first lines of an NDJSON file, and say what none of them has."""
    rows = _head(path)
    missing = [name for name in names if rows and not any(name in row for row in rows)]
    if event_time in missing:
        raise PlanError(f"{path!r}: none of its first {len(rows)} lines has the event time {event_time!r}")
    if missing:
        warn_user(f"{path!r}: none of its first {len(rows)} lines has the columns {missing}")


def _is_a_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


class EventsDoFn(ReadFileDoFn):
    """Path -> ``pyarrow.RecordBatch`` of the needed columns, and dead letters if there is a tag for them."""

    def __init__(self, events: EventSchema, dead_letter_tag: str | None) -> None:
        super().__init__(None, dead_letter_tag, events.limits, events.position)
        self._events = events

    @override
    def items(self, path: str) -> Iterator[pa.RecordBatch | DeadLetter]:
        form = file_format(path)
        names = set(self._events.names)
        numbers = self._events.numbers and form == "ndjson"
        expected = not_of(f"number, {self._events.time_unit} since the epoch" if numbers else TIME)
        for item in self.read(path, self._events.read_as(form)):
            if isinstance(item, DeadLetter):
                yield item._replace(reason=expected) if item.column_name == self._events.event_time else item
            else:
                kept = [name for name in item.schema.names if name in names or name == self._position]
                some = item.select(kept)
                yield from self._with_times(
                    some.cast(self._events.one_text(some.schema)) if self._events.large else some
                )

    def _with_times(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch | DeadLetter]:
        """Times as timestamps; records without one are dead letters."""
        name = self._events.event_time
        if name is None:
            yield batch
            return
        index = batch.schema.get_field_index(name)
        column = batch.column(index)
        times = column
        if pa.types.is_string(column.type):
            times = _text_to_time(column, self._events.time_unit)
        elif _is_a_number(column.type):
            times = _to_time(column, self._events.time_unit)
        faults, lost = Faults(batch.num_rows), _mask(pc.is_null(times))
        faults.add(name, NO_TIME, _mask(pc.is_null(column)))
        faults.add(name, NO_YEAR, lost & _mask(_are_numbers(column)))
        faults.add(name, not_of(TIME), lost)
        good = faults.good
        yield from faults.letters(np.flatnonzero(~good))
        batch = batch.set_column(index, batch.schema.field(index).with_type(times.type), times)
        if good.any():
            yield batch if good.all() else batch.filter(pa.array(good))


def _mask(array: pa.Array) -> Bools:
    return array.to_numpy(zero_copy_only=False)


def _are_numbers(times: pa.Array) -> pa.Array:
    if pa.types.is_string(times.type):
        return pc.fill_null(pc.match_substring_regex(times, _DIGITS), False)
    return pa.array(np.full(len(times), _is_a_number(times.type)))


_FIRST, _LAST = (int(time.replace(tzinfo=UTC).timestamp()) * 10**6 for time in (datetime.min, datetime.max))


def _to_time(numbers: pa.Array, unit: TimeUnit) -> pa.Array:
    """Numbers since the epoch to timestamps; null where there is none, or in no year that a date has."""
    micros, missing = event_times(numbers, "", unit)
    outside = (micros < _FIRST) | (micros > _LAST)
    return pa.array(micros, mask=outside if missing is None else outside | missing).cast(TIME)


_ZONE = r"(Z|[+-]\d{2}:?\d{2}|:.*[+-]\d{2})$"  # (as PostgreSQL and DuckDB write it, +00)
_FINER = r"(:\d\d\.\d{6})\d+"  # than microseconds, as Go, Java and .NET write times
_DIGITS = r"^[ \t]*[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?$"


def _text_to_time(text: pa.Array, unit: TimeUnit) -> pa.Array:
    """ISO 8601 text, or numbers since the epoch, to timestamps; without a zone in UTC; null where it is neither."""
    none = pa.nulls(len(text), pa.string())
    zoned = pc.fill_null(pc.match_substring_regex(text, _ZONE), False)
    digits = _are_numbers(text)
    aware = cast_or_null(pc.if_else(zoned, text, none), TIME)
    naive = cast_or_null(pc.if_else(pc.or_(zoned, digits), none, text), pa.timestamp("us"))
    found = pc.coalesce(aware, pc.assume_timezone(naive, "UTC"))
    if pc.any(digits).as_py():
        numbers = cast_or_null(pc.if_else(digits, text, none), pa.float64())
        found = pc.coalesce(found, _to_time(numbers, unit))
    if found.null_count > text.null_count and not (cut := pc.replace_substring_regex(text, _FINER, r"\1")).equals(text):
        return _text_to_time(cut, unit)
    return found
