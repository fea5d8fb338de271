"""Columns of any origin (Arrow, numpy, Python) as Arrow arrays, without quoting a value when that fails."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ldp_core.arrays.types import type_words
from ldp_core.errors import DomainError, DtypeError

_NUMPY_KINDS = {"bool": "b", "int": "iu", "str": "U", "float": "iuf", "date": "M"}
PYTHON_TYPES: dict[str, set[type]] = {
    "bool": {bool, np.bool_},
    "int": {int, *(np.dtype(code).type for code in np.typecodes["AllInteger"])},
    "str": {str, np.str_},
    "date": {dt.date, dt.datetime, np.datetime64, str, np.str_},
}
ARROW_TYPES = {"bool": pa.bool_(), "int": pa.int64(), "str": pa.string(), "float": pa.float64(), "date": pa.string()}
"""What values of a kind are read as from text; dates as text."""

LISTS = {f"list of {kind}": kind for kind in ("bool", "int", "str")}
"""Kinds of columns of lists, and of what is in them."""
_NUMPY_KINDS |= dict.fromkeys(LISTS, "")
PYTHON_TYPES["float"] = PYTHON_TYPES["int"] | {float, np.float16, np.float32, np.float64}
PYTHON_TYPES |= {lists: {list, tuple, np.ndarray} for lists in LISTS}
ARROW_TYPES |= {lists: pa.list_(ARROW_TYPES[kind]) for lists, kind in LISTS.items()}

# What conversions raise quotes the value it could not convert, so that it is suppressed, and an error of ours
# raised after the ``with`` block: inside an ``except`` block the quoting error would travel on as its context.
CONVERSION_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def column_of(values: Any) -> Any:
    """A column of Arrow, Polars or pandas as one Arrow array; anything else as it is.

    Libraries of frames hand their columns over by the Arrow PyCapsule interface; pandas before version 3 does not, and
    pyarrow knows how to read it.
    """
    if isinstance(values, pa.ChunkedArray):
        return combine(values)
    if isinstance(values, (pa.Array, np.ndarray, list)):
        return values
    with suppress(*CONVERSION_ERRORS):
        if hasattr(values, "__arrow_c_stream__"):
            return combine(pa.chunked_array(values))
        if hasattr(values, "__arrow_c_array__") or is_of_pandas(values):
            return column_of(pa.array(values, from_pandas=True))
    return list(values) if hasattr(values, "__arrow_c_stream__") else values  # (of Polars' integers of 128 bits)


def array_of(values: Any) -> pa.Array:
    """``pa.array``, which (25.0.1) ends the process where a number of numpy comes after a time of numpy."""
    listed = isinstance(values, (list, tuple)) or (isinstance(values, np.ndarray) and values.dtype.kind == "O")
    first = next((value for value in values if value is not None), None) if listed else None
    if isinstance(first, np.datetime64) and not {*map(type, values)} <= {np.datetime64, type(None)}:
        raise TypeError
    return pa.array(values)


def table_of(data: Any) -> Any:
    """A frame of Arrow, Polars or pandas as an Arrow table, a batch as a batch; anything else as it is."""
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return data
    with suppress(*CONVERSION_ERRORS):
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if is_of_pandas(data):
            return pa.Table.from_pandas(data)
    return data


def is_of_pandas(values: Any) -> bool:
    """Whether ``values`` are an object of pandas, which need not be installed."""
    return any(cls.__module__.partition(".")[0] == "pandas" for cls in type(values).__mro__)


def as_arrow(values: Any, kind: str, *, column: str) -> pa.Array:
    """``values`` as one Arrow array of what ``kind`` says, or a dictionary of it; else raise `DtypeError`."""
    values = column_of(values)
    if isinstance(values, pa.ExtensionArray) and values.type.extension_name == "pandas.period":  # 56 is 2026
        of = "numbers or text of them, as column.dt.year or column.astype(str)"
        raise DtypeError(f"column {column!r}: {_INPUTS[kind]} cannot encode periods of pandas: make {of}")
    values = plain(values) if isinstance(values, pa.Array) else _from_python(values, kind, column)
    found = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_null(found):
        return pa.nulls(len(values), ARROW_TYPES[kind])
    if not _IS_KIND[kind](found):
        hint = ": cast the column, or declare values of its own type"
        if kind == "int" and pa.types.is_floating(found):
            hint += '; pandas makes floats of integers with holes, column.astype("Int64") integers'
        raise DtypeError(f"column {column!r}: {_INPUTS[kind]} cannot encode values of type {type_words(found)}{hint}")
    return values


def as_floats(values: Any, *, column: str) -> npt.NDArray[np.float64]:
    """``values`` as float64[n], nulls as nan; raise `DtypeError` if they are no numbers."""
    numbers = as_arrow(values, "float", column=column)
    if pa.types.is_dictionary(numbers.type):
        numbers = numbers.dictionary_decode()
    return numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def combine(chunks: pa.ChunkedArray) -> pa.Array:
    """The chunks as one array; dictionaries that do not fit together are decoded."""
    with suppress(pa.ArrowException):
        return chunks.combine_chunks()
    return chunks.cast(chunks.type.value_type).combine_chunks()


def structs(table: pa.Table) -> pa.StructArray:
    """The rows of a table as one array of structs (``pa.Table.to_struct_array`` of pyarrow 20 refuses no rows)."""
    whole = table.combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in whole.columns]
    return pa.StructArray.from_arrays(columns, fields=list(table.schema))


def plain(array: pa.Array) -> pa.Array:
    """The array itself, or what an extension type stores; views as text or binary that Arrow can select from."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        if array.type.value_type in _VIEWS:
            return pa.DictionaryArray.from_arrays(array.indices, plain(array.dictionary), safe=False)
        return array
    return array.cast(_VIEWS[array.type]) if array.type in _VIEWS else array


_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def chosen(array: pa.Array, rows: npt.NDArray[np.bool_]) -> pa.Array:
    """The elements where ``rows`` is true, of an array of any type, in its own type."""
    if array.type not in _VIEWS:
        with suppress(pa.ArrowNotImplementedError):
            return array.filter(pa.array(rows))
    return taken(array, np.flatnonzero(rows))


def taken(array: pa.Array, at: npt.NDArray[np.int64]) -> pa.Array:
    """The elements at these positions, of an array of any type, in its own type."""
    if array.type in _VIEWS:
        return plain(array).take(pa.array(at)).cast(array.type)
    with suppress(pa.ArrowNotImplementedError):
        return array.take(pa.array(at))
    # From runs, and from lists of views, Arrow (25) takes no elements, but it joins slices.
    edges = [0, *(np.flatnonzero(np.diff(at) != 1) + 1).tolist(), len(at)]
    parts = [array.slice(at[start], stop - start) for start, stop in pairwise(edges) if stop > start]
    return pa.concat_arrays(parts or [array[:0]])


def stored(array: pa.Array, n: int, dtype: npt.DTypeLike, at: int | None = None) -> npt.NDArray[Any]:
    """``n`` of the numbers that an array stores, from its offset on, or from number ``at``, as a view of its buffer.

    A buffer from outside may have any length: also one that is no multiple of a number's.
    """
    kind, data = np.dtype(dtype), array.buffers()[1]
    if data is None or not len(data):  # of an empty array, also of its one offset
        return np.zeros(n, kind)
    return np.frombuffer(data, kind, n, (array.offset if at is None else at) * kind.itemsize)


def null_count(array: pa.Array) -> int:
    """Number of nulls, those that an index of a dictionary points to included."""
    if not pa.types.is_dictionary(array.type) or not array.dictionary.null_count:
        return int(array.null_count)
    return int(pc.sum(pc.is_null(array.dictionary).take(array.indices).fill_null(True)).as_py() or 0)


def is_text(kind: pa.DataType) -> bool:
    """Whether ``kind`` is one of Arrow's text types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    """Whether ``kind`` is one of Arrow's integers, floats or decimals."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


_IS_KIND: dict[str, Callable[[pa.DataType], bool]] = {
    "bool": pa.types.is_boolean,
    "int": pa.types.is_integer,
    "str": is_text,
    "float": _is_number,
    "date": lambda kind: bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or is_text(kind)),
}


def _are_lists(kind: pa.DataType, of: str) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return False
    found = kind.value_type.value_type if pa.types.is_dictionary(kind.value_type) else kind.value_type
    return bool(pa.types.is_null(found)) or _IS_KIND[of](found)


_IS_KIND |= {lists: partial(_are_lists, of=kind) for lists, kind in LISTS.items()}


_INPUTS = {kind: f"a domain of {kind} labels" for kind in ("bool", "int", "str")} | {"float": "an interval of numbers"}
_INPUTS |= {"date": "a domain of dates"}
_INPUTS |= {lists: f"sets (a list a row) of {kind} labels" for lists, kind in LISTS.items()}


def _from_python(values: Any, kind: str, column: str) -> pa.Array:
    column_like = values.ndim == 1 if isinstance(values, np.ndarray) else isinstance(values, Iterable)
    if not column_like or isinstance(values, (str, bytes, bytearray, Set, Mapping)):
        raise DtypeError(f"column {column!r}: expected a one-dimensional column of {kind} values")
    converted: pa.Array | None = None
    came = ""
    if isinstance(values, np.ndarray) and values.dtype.kind in _NUMPY_KINDS[kind] and kind != "str":
        values = as_micros(values) if kind == "date" else values
        values = values.astype(float) if values.itemsize > 8 else values  # (Arrow has no long doubles)
        return pa.array(values.astype(values.dtype.newbyteorder("="), copy=False))
    if not isinstance(values, np.ndarray) or values.dtype.kind in "OU":
        items = list(values) if not isinstance(values, np.ndarray) else values.tolist()  # (Arrow cuts "U" at NUL)
        if kind == "date":  # also Timestamps of Beam, which this package does not know
            items = [np.datetime64(v.micros, "us") if hasattr(v, "to_utc_datetime") else v for v in items]
        types = {type(item) for item in items} - {type(None)}
        came = f", got {' and '.join(sorted(one.__name__ for one in types))}" if types else ""
        if types <= PYTHON_TYPES[kind]:
            if kind == "date" and (zones := {str(v.tzinfo) for v in items if getattr(v, "tzinfo", None) is not None}):
                with suppress(*CONVERSION_ERRORS):
                    return pa.array(items, pa.timestamp("us", max(zones - {"UTC"}, default="UTC")))
            if kind == "date":  # of one type in Arrow: text
                items = [as_micros(np.array([v]))[0] if isinstance(v, np.datetime64) else v for v in items]
                items = [v if v is None or isinstance(v, str) else str(v).removesuffix("+00:00") for v in items]
            if kind == "int":  # beyond 64 bits there are no labels
                items = [None if v is None or not -(2**63) <= v < 2**63 else v for v in items]
            came += " with half of a surrogate pair, which is no text" * (kind == "str")  # if this fails
            with suppress(*CONVERSION_ERRORS):
                converted = pa.array(items, ARROW_TYPES[kind])
    if converted is None:
        raise DtypeError(f"column {column!r}: {_INPUTS[kind]} needs {kind} values{came}")
    return converted


def as_micros(times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``datetime64`` of any unit in microseconds; what they cannot hold is moved, so that it stays far."""
    if np.datetime_data(times.dtype)[0] in ("Y", "M", "W", "D", "h", "m", "s", "ms"):
        times = times.clip(*np.array(["-9999-01-01", "19999-01-01"], times.dtype))
    return times.astype("datetime64[us]")


def filled_indices(array: pa.DictionaryArray, entries: int, *, column: str) -> npt.NDArray[Any]:
    """Indices into a dictionary, nulls as ``entries``; raise `DomainError` if some are out of its bounds."""
    indices, nulls = array.indices, array.indices.null_count
    if nulls:
        indices = pc.fill_null(indices.cast(pa.int64()), entries)
    out = stored(indices, len(indices), str(indices.type))  # (pyarrow's to_pandas_dtype imports pandas)
    bound = entries + bool(nulls)
    unsigned = out.view(f"u{out.dtype.itemsize}")  # a negative index is a huge one then
    if len(out) and unsigned.max() >= bound:
        beyond = int(np.count_nonzero(unsigned >= bound))
        raise DomainError(f"column {column!r}: {beyond} of {len(out)} values are out of their dictionary's bounds")
    return out
