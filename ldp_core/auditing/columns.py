"""Reports of any kind as columns of numbers: what events are made of.

A report may be a number, a text, a list of them, or several of these (columns of a record, or rounds). Each place of a
list is a column, and one of floats a second one: its bits, as the lowest ones and the sign of -0.0 may tell the value.
A text is a column, its length another, and each eight bytes of its first and last 32.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.arrays.arrow import column_of
from ldp_core.errors import ReportError

Column: TypeAlias = npt.NDArray[Any]
Part: TypeAlias = list[Column]
"""One report: a column for each of its places."""

NULL = np.iinfo(np.int64).min + 1
"""What stands for a null; a null around others is as many above it as it is deep, plus one."""
_NULL_FLOAT = 0x7FF8_0000_5EED_0000  # the bits of a NaN that is no other one's


def columns(reports: Any) -> list[Part]:
    """Each report of a tuple of them, or the one there is, as columns of n numbers.

    Of Arrow (or what it reads), numpy, or a list of numbers, texts or lists; raise `ReportError` for another type.
    """
    return [_with_bits(_places(part)) for part in (reports if isinstance(reports, tuple) else (reports,))]


def _with_bits(part: Part) -> Part:
    """A part with its floats' bits beside them."""
    floats = [np.ascontiguousarray(column) for column in part if column.dtype.kind == "f"]
    return part + [column.view(f"i{column.dtype.itemsize}") for column in floats]


def _places(reports: Any) -> Part:
    reports = column_of(reports)
    if isinstance(reports, (pa.Array, pa.ChunkedArray)):
        return _of_arrow(reports)
    if not isinstance(reports, np.ndarray):
        try:
            reports = np.asarray(reports)
        except ValueError:
            reports = np.empty(0, object)
    if reports.dtype.kind in "biuf" and reports.ndim in (1, 2):
        return [_signed(column) for column in np.ascontiguousarray(reports.reshape(len(reports), -1).T)]
    if reports.ndim == 1 and reports.dtype.kind in "OUS" and len(reports):
        try:
            return _of_arrow(pa.array(reports.tolist()))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            pass
    raise ReportError(
        "an audit takes reports that are numbers, texts or lists of equal length, as an Arrow or numpy array or a list"
    )


def _of_arrow(array: pa.Array, depth: int = 0) -> Part:
    if isinstance(array, pa.ChunkedArray):  # (of no chunks, or of some that do not combine)
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        size, n = kind.list_size, len(array)
        places = _of_arrow(array.values.slice(array.offset * size, n * size), depth + 1)
        parts = [column for place in places for column in np.ascontiguousarray(place.reshape(n, size).T)]
        return [_with_nulls(column, array, depth + 1) for column in parts]
    if pa.types.is_struct(kind):
        parts = [column for k in range(kind.num_fields) for column in _of_arrow(array.field(k), depth + 1)]
        return [_with_nulls(column, array, depth + 1) for column in parts]
    if pa.types.is_null(kind):
        return [np.full(len(array), NULL)]
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0) if array.null_count else array
        numbers = filled.to_numpy(zero_copy_only=False)
        return [_with_nulls(_signed(numbers), array)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_nested(kind):
        raise ReportError(f"an audit takes lists of a fixed size, got reports of type {kind}")
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _of_arrow(array.cast(pa.int32() if kind.bit_width == 32 else pa.int64()))
    return [_of_texts(array), *_of_bytes(array)]


def _of_bytes(array: pa.Array) -> Part:
    """Texts' lengths, and their first and last bytes, by eights: a value may be beside what makes all texts differ.

    Of a dictionary there are none: its texts are as few as labels.
    """
    if pa.types.is_dictionary(array.type):
        return []
    text = array.cast(pa.string()) if pa.types.is_decimal(array.type) else array
    try:
        text = pa.concat_arrays([text.cast(pa.large_binary())])  # (from its first byte on)
    except pa.ArrowException:
        return []
    _, ends, data = text.buffers()
    offsets = np.frombuffer(ends, np.int64)[text.offset :][: len(text) + 1, None]
    letters = np.append(np.frombuffer(data or b"", np.uint8), np.uint8(0))
    parts = [np.diff(offsets[:, 0])]
    for at in (offsets[:-1] + np.arange(_LETTERS), offsets[1:] + np.arange(-_LETTERS, 0)):
        inside = (at >= offsets[:-1]) & (at < offsets[1:])
        words = np.where(inside, letters[np.where(inside, at, 0)], np.uint8(0)).view(np.int64)
        parts += [np.ascontiguousarray(column) for column in words.T]
    return parts


_LETTERS = 32
"""How many bytes of each end of a text are looked at."""


def _of_texts(array: pa.Array) -> Column:
    """Texts (or whatever else has equal values) by a hash of them."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    times: Counter[Any] = Counter()  # (a dictionary may have a text twice, which is then two)
    distinct = []
    for value in array.dictionary.to_pylist():
        word = f"{value!r}{times[value] or ''}".encode()
        distinct.append(NULL if value is None else int.from_bytes(hashlib.blake2b(word, digest_size=7).digest()))
        times[value] += 1
    numbers = np.array([*distinct, NULL], np.int64)
    at = array.indices.fill_null(len(distinct)) if array.indices.null_count else array.indices
    return numbers[at.to_numpy(zero_copy_only=False)]


def _signed(column: Column) -> Column:
    """Booleans as bytes, and words as int64: so that a null, too, leaves all numbers as they are."""
    if column.dtype == bool:
        return column.view(np.uint8)
    return column.view(np.int64) if column.dtype == np.uint64 else column


def _with_nulls(column: Column, array: pa.Array, depth: int = 0) -> Column:
    if not array.null_count:
        return column
    missing = array.is_null().to_numpy(zero_copy_only=False)
    floats = column.dtype.kind == "f"
    out = column.astype(np.float64 if floats else np.int64)
    out.view(np.int64)[missing] = (_NULL_FLOAT if floats else NULL) + depth
    return out
