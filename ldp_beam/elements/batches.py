"""Elements as columns: Arrow batches as they are, single records (dict, Row, NamedTuple) gathered into batches."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.pvalue import Row
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from ldp_beam.elements.faults import NO_COLUMN, NO_TIME, Faults
from ldp_beam.time.times import PER_SECOND, EventTime, TimeUnit
from ldp_core import DtypeError, InputError, PlanError, ReportError
from ldp_core.engine import I64, Bools, ReportFormat, chosen, plain, taken, text_of, type_words

_FIRST, _LAST = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros
_DAY = 86_400 * 10**6
_PASSED_ON = (
    "a plan passes on what its keep names, a limit of persons its id with drop_id=False; names of folders, as day=1, "
    "are no columns: pl.scan_parquet(folder).ldp.sink_parquet(file, plan) writes them as such"
)
_ROOM = 4000 * 366 * _DAY  # microseconds at both ends of Beam's time: of windows and lateness, a thousand years each


class Batch:
    """An Arrow batch: one element of many records, all with the element's timestamp and window."""

    def __init__(self, table: pa.RecordBatch | pa.Table, timestamp: Timestamp, window: Any) -> None:
        self.table = table
        self.timestamp = timestamp
        self.window = window

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batch."""
        return self.table.schema

    def column(self, name: str) -> pa.Array | None:
        """The column as one Arrow array; None if there is none of that name, or several."""
        index = self.table.schema.get_field_index(name)
        if index < 0:
            return None
        return plain(self._whole(index))

    def _whole(self, index: int) -> pa.Array:
        column = self.table.column(index)
        if isinstance(column, pa.ChunkedArray):  # combine_chunks would copy a single one
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return column

    def select(self, names: Iterable[str]) -> pa.RecordBatch:
        """The columns of these names as one record batch, metadata kept."""
        arrays = {name: self.required(name) for name in names}
        fields = [self.schema.field(name) for name in arrays]
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=pa.schema(fields, self.schema.metadata))

    def required(self, name: str) -> pa.Array:
        """`column`, or a `PlanError`."""
        column = self.column(name)
        if column is None:
            raise PlanError(f"there is no column {name!r}; the data have {sorted(self.schema.names)} ({_PASSED_ON})")
        return column

    def texts(self, name: str) -> tuple[I64, list[str]]:
        """A column's values as numbers 0 to k - 1, int64[n], and the k texts that they stand for."""
        column = self.required(name)
        labels: list[str | None] | None = None
        with suppress(pa.ArrowException, ArithmeticError):  # it may quote the value; of decimals of odd scales
            if not pa.types.is_dictionary(column.type):
                column = column.cast(_wider(column.type))  # (Arrow lacks it for the narrow ones)
                column = column.dictionary_encode(null_encoding="encode")
            values, kind = column.dictionary, self.schema.field(name).type
            values = kind.wrap_array(values) if isinstance(kind, pa.BaseExtensionType) else values
            own = isinstance(values, pa.ExtensionArray)  # (a UUID is no bytes)
            labels = [*map(_text, values.to_pylist())] if own else _texts_of(values)
        if labels is None:
            got = type_words(column.type)
            raise DtypeError(f"column {name!r}: keys must be text, numbers, Booleans or times, got {got}")
        codes = column.indices
        if codes.null_count:
            codes = codes.cast(pa.int64()).fill_null(len(labels))
            labels.append(None)
        return codes.to_numpy(zero_copy_only=False).astype(np.int64), ["null" if t is None else t for t in labels]

    def reports(self, name: str, form: ReportFormat) -> pa.Array:
        """The column of reports; see `required`."""
        return self.required(name)

    def event_times(self, name: str, unit: TimeUnit) -> tuple[I64, Bools | None]:
        """Times in microseconds, and which records have none; see `event_times`."""
        return event_times(self.required(name), name, unit)

    def stamps(self) -> I64:
        """The element timestamp of each record, int64[n] microseconds."""
        return np.full(len(self), self.timestamp.micros)

    def own_windows(self) -> tuple[I64, list[Any]]:
        """The element window of each record, as numbers int64[n], and the windows."""
        return np.zeros(len(self), np.int64), [self.window]

    def take(self, rows: Bools) -> Batch:
        """The records where ``rows`` is true."""
        return self._with([chosen(self._whole(index), rows) for index in range(self.table.num_columns)], rows.sum())

    def ordered(self, at: I64) -> Batch:
        """The records at these positions."""
        return self._with([taken(self._whole(index), at) for index in range(self.table.num_columns)], len(at))

    def _with(self, arrays: list[pa.Array], n: int) -> Batch:
        table = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if not arrays:  # (which does not say how many records there are)
            table = pa.RecordBatch.from_struct_array(pa.nulls(n, pa.struct([])))
        return Batch(table, self.timestamp, self.window)

    def slice(self, start: int, end: int) -> Batch:
        """The records from one position to before another."""
        return Batch(self.table.slice(start, end - start), self.timestamp, self.window)

    def without(self, name: str | None) -> Batch:
        """The records without this column, as one record batch."""
        rest = [index for index, n in enumerate(self.schema.names) if n != name]
        part = Batch(self.table.select(rest), self.timestamp, self.window)
        return part._with([part._whole(index) for index in range(len(rest))], len(self))

    def elements(self) -> list[WindowedValue]:
        """The batch as an element, at its time and in its window."""
        return [WindowedValue(self.table, self.timestamp, (self.window,))]


def joined(group: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches of equal schemas as one; as they are if that is over 2 GiB of text, or over a dictionary's indices."""
    if len(group) == 1:
        return group
    try:
        return [pa.concat_batches(group)]
    except pa.ArrowException:
        return group


def parts_of(element: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch | pa.Table]:
    """The element; or a table's batches, if a column cannot be one array: its dictionaries have too many values."""
    if isinstance(element, pa.Table):
        try:
            element.unify_dictionaries()
        except pa.ArrowException:
            return list(element.to_batches())
    return [element]


class Record(NamedTuple):
    """A single record: an element."""

    element: Any
    timestamp: Timestamp
    window: Any


class RowBatch:
    """Single records of one bundle, each with a timestamp and a window of its own; they are never empty."""

    schema = pa.schema([])

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.window: Any = records[-1].window if records else None
        for cls in {type(record.element) for record in records}:
            if not is_record(cls):
                kinds = "pyarrow.RecordBatch, pyarrow.Table, dict, beam.Row or NamedTuple"
                frame = (
                    ": pass frame.to_arrow(), or of pandas pyarrow.Table.from_pandas(frame)" if is_frame(cls) else ""
                )
                raise DtypeError(f"elements must be {kinds}, got {cls.__name__}{frame}")

    def __len__(self) -> int:
        return len(self.records)

    def column(self, name: str) -> list[Any]:
        """The values of this name, None where a record has none."""
        return [
            e.get(name) if isinstance(e, Mapping) else getattr(e, name, None) for e in (r.element for r in self.records)
        ]

    def texts(self, name: str) -> tuple[I64, list[str]]:
        """The values as numbers and texts, as `Batch.texts`; every record has one, which may be None."""
        lacking = int(np.count_nonzero(self.lacks(name)))
        if lacking:
            raise PlanError(
                f"there is no column {name!r} in {lacking} of {len(self)} records: group by one that each has, None "
                "where there is no value"
            )
        numbers: dict[str, int] = {}
        codes = [numbers.setdefault(_text(value), len(numbers)) for value in self.column(name)]
        return np.array(codes, np.int64), list(numbers)

    def lacks(self, name: str) -> Bools:
        """bool[n]: the records that have nothing of this name, or a method."""
        elements = (record.element for record in self.records)
        absent = (name not in e if isinstance(e, Mapping) else callable(getattr(e, name, len)) for e in elements)
        return np.array([*absent], bool)

    def required(self, name: str) -> list[Any]:
        """`column`, or a `PlanError` if no record has one of this name."""
        values = self.column(name)
        if all(value is None for value in values) and self.lacks(name).all():
            raise PlanError(f"there is no column {name!r} in any of {len(values)} records ({_PASSED_ON})")
        return values

    def reports(self, name: str, form: ReportFormat) -> pa.Array:
        """The reports of this name; see `required` and `as_reports`."""
        return as_reports(self.required(name), form, name)

    def event_times(self, name: str, unit: TimeUnit) -> tuple[I64, Bools | None]:
        """Times as `event_times` gives them: from datetime (naive: UTC), numpy's, date, Beam Timestamp, or a number."""
        micros = [_micros(value, PER_SECOND[unit]) for value in self.required(name)]
        bad = np.array([m is None for m in micros], bool)
        return np.array([m or 0 for m in micros], np.int64), bad if bad.any() else None

    def stamps(self) -> I64:
        """The timestamp of each record, int64[n] microseconds."""
        return np.array([record.timestamp.micros for record in self.records], np.int64)

    def own_windows(self) -> tuple[I64, list[Any]]:
        """The window of each record, as numbers int64[n], and the windows."""
        numbers: dict[Any, int] = {}
        codes = [numbers.setdefault(record.window, len(numbers)) for record in self.records]
        return np.array(codes, np.int64), list(numbers)

    def take(self, rows: Bools) -> RowBatch:
        """The records where ``rows`` is true."""
        return self.ordered(np.flatnonzero(rows))

    def ordered(self, at: I64) -> RowBatch:
        """The records at these positions."""
        return RowBatch([self.records[i] for i in at.tolist()])

    def slice(self, start: int, end: int) -> RowBatch:
        """The records from one position to before another."""
        return RowBatch(self.records[start:end])

    def without(self, name: str | None) -> RowBatch:
        """The records without this column."""
        return RowBatch([record._replace(element=_without(record.element, name)) for record in self.records])

    def elements(self) -> list[WindowedValue]:
        """The records as elements, each at its time and in its window."""
        return [WindowedValue(r.element, r.timestamp, (r.window,)) for r in self.records]


AnyBatch: TypeAlias = Batch | RowBatch


def is_record(cls: type) -> bool:
    """Whether elements of this type are single records; protobuf's Struct, a mapping without ``get``, is none."""
    named = hasattr(cls, "get") if issubclass(cls, Mapping) else issubclass(cls, Row) or hasattr(cls, "_fields")
    return named or dataclasses.is_dataclass(cls)


def is_frame(cls: type) -> bool:
    """Whether elements of this type are frames, of Polars or pandas."""
    return hasattr(cls, "__arrow_c_stream__") and hasattr(cls, "columns")


def _without(element: Any, name: str | None) -> Any:
    fields: Any = element._asdict() if hasattr(element, "_asdict") else element
    if not isinstance(fields, Mapping):
        fields = {field.name: getattr(element, field.name) for field in dataclasses.fields(element)}
    rest = {key: value for key, value in fields.items() if key != name}
    return rest if isinstance(element, Mapping) else Row(**rest)


def _wider(kind: pa.DataType) -> pa.DataType:
    """A type of numbers of which Arrow makes dictionaries; any other as it is."""
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(38, kind.scale)
    return pa.float32() if pa.types.is_float16(kind) else kind


def _texts_of(values: pa.Array) -> list[str | None]:
    """The `_text` of each value, or None."""
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_duration(kind) or "binary" in str(kind):
        values = values.cast(pa.duration("us")) if pa.types.is_duration(kind) else values
        return [_text(value) for value in values.to_pylist()]
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        values = values.cast(pa.timestamp(kind.unit, "UTC"))
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return [text and _short(text) for text in texts] if pa.types.is_temporal(kind) else texts


def _text(value: Any) -> str:
    """The text of a key: one of each value, of whatever unit or type. Times with a zone are in UTC, and end with Z."""
    value = value.item() if isinstance(value, (np.floating, np.bool_)) else value
    value = str.__str__(value) if isinstance(value, str) else value  # (of an Enum of texts: it is equal to one)
    if value is None or (isinstance(value, (datetime, np.datetime64, np.timedelta64)) and value != value):  # noqa: PLR0124 (NaT)
        return "null"
    value = _of_arrow(value) if isinstance(value, (np.datetime64, np.timedelta64)) else value
    if isinstance(value, Timestamp):
        with suppress(OverflowError):
            value = value.to_utc_datetime(has_tz=True)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**64 else str(value)
    if isinstance(value, Decimal) and abs(value.adjusted()) < 80:  # (Arrow's have up to 76 digits)
        return _short(f"{value or abs(value):f}")
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, datetime) and value.tzinfo is not None:
        with suppress(OverflowError):  # (at the ends of the calendar)
            return _short(f"{value.astimezone(UTC).replace(tzinfo=None)}Z")
    return _short(str(value)) if isinstance(value, (datetime, time, Decimal)) else text_of(value)


def _of_arrow(value: np.datetime64 | np.timedelta64) -> Any:
    """The text of a batch's time or duration, which have fewer units than numpy; what is none there as it is."""
    with suppress(TypeError, pa.ArrowException):
        whole = np.datetime_data(value.dtype)[0] in "YMWD" and isinstance(value, np.datetime64)
        return _texts_of(pa.array(np.array([value.astype("M8[D]") if whole else value + np.timedelta64(0, "s")])))[0]
    return value


def _short(text: str) -> str:
    """A number or time without zeros at the end of its fraction."""
    return re.sub(r"(\.\d*?)0+(Z?)$", lambda found: found[1].rstrip(".") + found[2], text)


def event_times(column: pa.Array, name: str, unit: TimeUnit = "s") -> tuple[I64, Bools | None]:
    """Times in microseconds since the epoch, int64[n]; and bool[n], where there is none, or None if all are there.

    They are Arrow timestamps of any unit (without zone: UTC), dates, or numbers of ``unit``; else it is a `DtypeError`.
    There is no time where there is null, nan, or one beyond Beam's range.
    """
    kind, per_second = column.type, PER_SECOND[unit]
    if pa.types.is_date32(kind):
        column = column.cast(pa.timestamp("s"))
    if pa.types.is_timestamp(column.type) or pa.types.is_date64(kind):
        per_second = PER_SECOND[getattr(column.type, "unit", "ms")]
        column = column.view(pa.int64())
    elif not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        raise DtypeError(f"column {name!r}: event times must be timestamps, dates or numbers, got {type_words(kind)}")
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    column = column.fill_null(0) if column.null_count else column
    raw: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        raw = raw.astype(np.float64)
        odd = ~np.isfinite(raw)
        if odd.any():
            missing = odd if missing is None else missing | odd
            raw = np.where(odd, 0.0, raw)
        micros = np.floor(raw * (10**6 / per_second))  # (as of other times: no window begins after its records)
        return _in_range(micros, micros.clip(_FIRST, _LAST).astype(np.int64), _FIRST, _LAST, missing)
    if pa.types.is_uint64(kind):
        raw = np.minimum(raw, np.uint64(2**63 - 1))
    raw = raw.astype(np.int64, copy=False)
    if per_second > 10**6:
        return raw // (per_second // 10**6), missing
    scale = 10**6 // per_second
    return _in_range(raw, raw if scale == 1 else raw * scale, -(-_FIRST // scale), _LAST // scale, missing)


def _in_range(
    raw: npt.NDArray[Any], micros: I64, first: int, last: int, missing: Bools | None
) -> tuple[I64, Bools | None]:
    """``micros``, and ``missing`` together with the rows whose ``raw`` is out of [first, last]."""
    if len(raw) and (raw.min() < first or raw.max() > last):
        outside = (raw < first) | (raw > last)
        missing = outside if missing is None else missing | outside
    return micros, missing


def _micros(value: Any, per_second: int) -> int | None:
    """One event time in microseconds; None if it is none. A number counts so many a second."""
    micros = None
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    if isinstance(value, Timestamp):
        micros = int(value.micros)
    elif isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        micros = (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    elif isinstance(value, date):
        micros = (value.toordinal() - date(1970, 1, 1).toordinal()) * _DAY
    elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, int):
            micros = number * 10**6 // per_second
        else:
            micros = math.floor(number * (10**6 / per_second)) if abs(number) < 1e27 else None
    return micros if micros is not None and _FIRST <= micros <= _LAST else None


def times_of(part: AnyBatch, time: EventTime) -> I64:
    """The event time of each record, int64[n] microseconds: from the column, or without one the element timestamp."""
    times, missing = _found(part, time)
    if missing is not None:
        remedy = f"{'pass window=, and ' if time.own else ''}name the column that has it with event_time="
        raise InputError(
            f"{'timestamps of elements' if time.column is None else f'column {time.column!r}'}: "
            f"{np.count_nonzero(missing)} of {len(missing)} records have no event time (null, not a time, or out of "
            f"range){': ' + remedy if time.column is None else ''}"
        )
    return times


def windows_of(part: AnyBatch) -> tuple[I64, list[Any]]:
    """The window of each record, as numbers int64[n], and the windows: none is that of elements without a time."""
    own, windows = part.own_windows()
    if any(map(_is_timeless, windows)):
        times_of(part, EventTime(None, own=True))
    return own, windows


def _is_timeless(window: Any) -> bool:
    """Whether it is at the beginning of Beam's time (windows of other kinds may need none)."""
    return isinstance(window, IntervalWindow) and window.end.micros < _FIRST + _ROOM


def _found(part: AnyBatch, time: EventTime) -> tuple[I64, Bools | None]:
    """Times in microseconds, and which records have none; see `event_times`."""
    times, missing = (part.stamps(), None) if time.column is None else part.event_times(time.column, time.unit)
    if time.own:
        own, windows = part.own_windows()
        return times, np.array([*map(_is_timeless, windows)], bool).take(own)
    return _in_range(times, times, _FIRST + _ROOM, _LAST - _ROOM, missing) if time.windowed else (times, missing)


def find_time_faults(part: AnyBatch, time: EventTime, faults: Faults) -> None:
    """Note the records that `times_of` refuses."""
    name = time.column or ""
    with faults.of(name, "timestamp, date or number"):
        _, missing = _found(part, time)
        if name:
            find_lacking(part, name, faults)
        if missing is not None:
            faults.add(name, NO_TIME, missing)


def find_lacking(part: AnyBatch, name: str, faults: Faults) -> None:
    """Note the single records that have no column of this name."""
    if isinstance(part, RowBatch):
        faults.add(name, NO_COLUMN, part.lacks(name))


def as_reports(values: list[Any], form: ReportFormat, column: str) -> pa.Array:
    """Single reports, as `Perturb` makes them from single records, as an Arrow array of their type."""
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError, LookupError):  # they quote the value
        return _converted(values, form)
    types = " or ".join(dict.fromkeys(str(form.arrow_type(packed=packed)) for packed in (False, True)))
    raise ReportError(
        f"column {column!r}: each report must be of type {types}, as the mechanism makes them, and many a pyarrow "
        "array; if these are values, perturb them first"
    )


def _converted(values: list[Any], form: ReportFormat) -> pa.Array:
    plain, packed = form.arrow_type(), form.arrow_type(packed=True)
    if not (pa.types.is_fixed_size_list(plain) and pa.types.is_boolean(plain.value_type)):
        return _of_words(values, plain.value_type if pa.types.is_dictionary(plain) else plain)
    are_bits = [v is not None and len(v) == plain.list_size for v in values]
    if not any(are_bits):
        return _of_words(values, packed)
    values = [[_BIT[bit] for bit in v] if bits else v for v, bits in zip(values, are_bits, strict=True)]
    if all(bits or v is None for v, bits in zip(values, are_bits, strict=True)):
        return pa.array(values, plain)
    # both layouts in one batch
    return _converted([_words(v) if bits else v for v, bits in zip(values, are_bits, strict=True)], form)


def _of_words(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values of this type; lists of words may be signed, as `Perturb` gives them in single records, or unsigned."""
    words = chain.from_iterable(value for value in values if isinstance(value, (list, tuple, np.ndarray)))
    if any(issubclass(one, (float, np.floating, Decimal)) for one in {*map(type, values), *map(type, words)}):
        raise TypeError  # Arrow would cut it to an integer; and where words have been floats, bits are lost
    if not (pa.types.is_fixed_size_list(kind) and pa.types.is_uint64(kind.value_type)):
        return pa.array(values, kind)
    with suppress(pa.ArrowException, OverflowError):
        return pa.array(values, kind)
    return pa.array(values, pa.list_(pa.int64(), kind.list_size)).view(kind)


_BIT = {0: False, 1: True, None: None}  # (a list of nulls is no answer, where there are such reports)


def _words(bits: list[bool]) -> list[int]:
    """Bits as signed 64-bit words: bit v is bit v % 64 of word v // 64."""
    padded = np.zeros(-(-len(bits) // 64) * 64, bool)
    padded[: len(bits)] = bits
    return np.packbits(padded, bitorder="little").view("<i8").tolist()
