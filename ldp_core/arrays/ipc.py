"""One Arrow batch as one IPC stream: written, and read from strangers, who may declare more than they send.

A stream is messages; one is a flatbuffer, which says how many rows and how long each buffer is, and then the buffers.
A compressed buffer begins with its length when decompressed. So the sizes are known, and compared with the limits,
before any memory is taken. (Flatbuffers: the tables of ``Message.fbs`` in the Arrow format, version 5. They are read
here: the package ``flatbuffers`` needs 39 us for a header, and this 8 us, of the 72 us that a small message takes.)
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ldp_core.arrays.arrow import stored
from ldp_core.errors import InputError, LimitError
from ldp_core.limits import DEPTH, Limits, over

# What Arrow and numpy raise for bytes that are no stream. Messages of these errors may quote the bytes.
_FAULTS = (
    pa.ArrowException, OSError, ValueError, LookupError, TypeError, BufferError, OverflowError,
    AttributeError, struct.error,
)  # fmt: skip


def write_batch(batch: pa.RecordBatch, trailer: bytes = b"", *, compression: str | None = None) -> bytes:
    """One batch as one IPC stream, and some bytes after it."""
    sink = pa.BufferOutputStream()
    options = None if compression is None else pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    sink.write(trailer)
    return bytes(sink.getvalue().to_pybytes())


def read_batch(message: Any, limits: Limits | None) -> pa.RecordBatch:
    """The batch of a stream of exactly one, checked: wrong offsets of a stranger would crash its reader later.

    Without limits the bytes are those of our own workers: neither sizes nor content are checked.
    """
    too_large, batch = None, None
    if isinstance(message, (bytes, bytearray, memoryview)):  # Arrow would take text for the path of a file
        try:
            buffer = pa.py_buffer(message)
            too_large = None if limits is None else _over(buffer, limits)
            batch = None if too_large else _read(buffer)
            if limits is not None and batch is not None:
                too_large = _over_as_read(batch, limits)
        except MemoryError:
            if limits is not None:  # what the bytes declare is within the limits: there is no memory
                raise
        except _FAULTS:
            batch = None
    if too_large is not None:
        raise LimitError(too_large)
    if batch is None:
        raise InputError("the message is not an Arrow IPC stream of one record batch")
    return batch


def _read(buffer: pa.Buffer) -> pa.RecordBatch | None:
    source = pa.BufferReader(buffer)
    with pa.ipc.open_stream(source) as stream:
        batches = list(stream)
    return batches[0] if len(batches) == 1 and source.tell() == buffer.size else None  # (nothing after its end)


def _over_as_read(batch: pa.RecordBatch, limits: Limits) -> str | None:
    """What of a batch is over the limits, in words; None if nothing is, and then its content is sound."""
    found = _over_in_schema(batch.schema, limits)
    if found is not None:
        return found
    batch.validate()  # (what takes no time, so that what takes some can be bounded)
    size = sum(map(_of_dictionaries, batch.columns))
    if size > limits.bytes:
        return over("the message", size, "bytes with a dictionary for each column", "bytes", limits)
    batch.validate(full=True)
    few = limits.bytes // max(batch.num_columns, 1)
    size = sum(spelled_out(column, few) for column in batch.columns)
    return (
        over("the message", size, "bytes with each value spelled out", "bytes", limits) if size > limits.bytes else None
    )


def _over_in_schema(schema: pa.Schema, limits: Limits) -> str | None:
    """What of the columns is over the limits: how many there are, nested ones included, and how deep they nest."""
    count, level = 0, [(field.name, field.type) for field in schema]
    for _ in range(DEPTH + 1):
        count += len(level)
        if count > limits.columns:
            return over("the message", count, "columns, nested ones included", "columns", limits)
        if not level:
            return None
        for _, kind in level:
            getattr(kind, "tz", None)  # which Arrow decodes, as names: a ValueError where it is no UTF-8
        level = [inner for _, kind in level for inner in _inside(kind)]
    return f"the message nests columns deeper than {DEPTH} levels"


def _inside(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Name and type of what is in a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return [("", kind.storage_type)]
    if pa.types.is_dictionary(kind):
        return [("", kind.value_type)]
    return [(kind.field(i).name, kind.field(i).type) for i in range(kind.num_fields)]


def bytes_of(data: Any) -> int:
    """``nbytes`` of a batch or an array; of types at which Arrow (25.0) has none, or may crash, whole buffers count."""
    whole = isinstance(data, pa.RecordBatch)
    if len(data) and all(map(_is_measured, data.schema.types if whole else [data.type])):
        with suppress(pa.ArrowTypeError):  # (pyarrow 20, of views)
            return int(data.nbytes)
    arrays = data.columns if whole else [data]
    sizes = [int(buffer.size) for array in arrays for buffer in array.buffers() if buffer is not None]
    return sum(sizes) + sum(map(_of_dictionaries, arrays))


def _is_measured(kind: pa.DataType) -> bool:
    """Whether ``nbytes`` reads no offset, and no code of a union, of what has no elements: a message may have none."""
    inside, types = _inside(kind), pa.types
    if inside and not (types.is_struct(kind) or types.is_fixed_size_list(kind) or types.is_dictionary(kind)):
        return isinstance(kind, pa.BaseExtensionType) and _is_measured(kind.storage_type)
    return all(_is_measured(inner) for _, inner in inside)


def _of_dictionaries(array: pa.Array) -> int:
    """Bytes of all dictionaries in an array: one that several share is checked, and counts, for each."""
    if pa.types.is_dictionary(array.type):
        return int(array.dictionary.get_total_buffer_size()) + _of_dictionaries(array.dictionary)
    return sum(map(_of_dictionaries, _children(array)))


def spelled_out(array: pa.Array, few: int = 0) -> int:
    """Bytes of the texts and lists of an array of which several elements may share one: each with its own.

    Those of a dictionary do not count where they are surely no more than ``few``.
    """
    kind, types = array.type, pa.types
    if types.is_dictionary(kind):
        inside = spelled_out(array.dictionary)
        if len(array) * (bytes_of(array.dictionary) + inside) <= few:
            return inside
        lengths = np.append(_lengths(array.dictionary, inside), 0)
        return int(lengths[array.indices.cast(pa.int64(), safe=False).fill_null(len(lengths) - 1).to_numpy()].sum())
    if types.is_run_end_encoded(kind):
        ends = np.clip(array.run_ends.to_numpy().astype(np.int64) - array.offset, 0, len(array))
        return int((_lengths(array.values) * np.diff(ends, prepend=0)).sum())
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return int(_lengths(array).sum())
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return int(pc.sum(pc.list_value_length(array)).as_py() or 0)
    return sum(spelled_out(child, few) for child in _children(array))


def _children(array: pa.Array) -> list[pa.Array]:
    kind, types = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return [array.storage]
    if types.is_struct(kind) or types.is_union(kind):
        return [array.field(i) for i in range(kind.num_fields)]
    if types.is_map(kind):
        return [array.keys, array.items]
    return [array.values] if types.is_nested(kind) else []


def _lengths(array: pa.Array, inside: int | None = None) -> npt.NDArray[np.int64]:
    """Bytes of each element; of one that is no text or binary, those of an average one.

    ``inside`` is `spelled_out` of it, where that is known: found anew at each level, it would be found 2^levels times.
    """
    n, types = len(array), pa.types
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        # A view is 16 bytes, its length the first 4. Those under nulls count: Arrow does not check, but adds them up.
        return stored(array, 4 * n, "<u4", at=4 * array.offset)[::4].astype(np.int64)
    with suppress(pa.ArrowNotImplementedError):
        return pc.binary_length(array).fill_null(0).to_numpy().astype(np.int64)
    inside = spelled_out(array) if inside is None else inside
    return np.full(n, -(-(bytes_of(array) + inside) // max(n, 1)), np.int64)


# ---- what a stream declares


def _over(buffer: pa.Buffer, limits: Limits) -> str | None:
    """What of a stream is over the limits, in words; None if nothing is."""
    rows = size = 0
    for message in pa.ipc.MessageReader.open_stream(buffer):  # (Arrow verifies each flatbuffer)
        if message.type == "schema":
            continue
        declared, more = _declared(message)
        size += more
        rows += declared if message.type == "record batch" else 0
        if rows > limits.rows:
            return over("the message", rows, "rows", "rows", limits)
        if size > limits.bytes:
            return over("the message", size, "bytes when decompressed", "bytes", limits)
    return None


def _declared(message: pa.Message) -> tuple[int, int]:
    """Rows of a batch or a dictionary; and its bytes when decompressed, each value one at least."""
    table = _Table.root(message.metadata)
    batch = table.table(2)
    if message.type == "dictionary":
        batch = batch.table(1)
    elif message.type != "record batch":
        raise ValueError  # a tensor
    rows = batch.int64(0)
    lengths, buffers = batch.pairs(1)[:, 0], batch.pairs(2)
    sizes = buffers[:, 1]
    if batch.has(3):
        sizes = _decompressed(np.frombuffer(message.body, np.uint8), buffers)
    if min(rows, int(lengths.min(initial=0)), int(sizes.min(initial=0))) < 0:
        raise ValueError
    return rows, sum(lengths.tolist()) + sum(sizes.tolist())  # (Python's integers: these do not wrap)


def _decompressed(body: npt.NDArray[np.uint8], buffers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Lengths of compressed buffers: the first 8 bytes of each, or -1 where it was left as it is."""
    sizes = buffers[:, 1].copy()
    there = np.flatnonzero(sizes)
    starts = buffers[there, 0]
    if ((starts < 0) | (sizes[there] < _PREFIX) | (starts > len(body) - _PREFIX)).any():
        raise ValueError
    declared = np.ascontiguousarray(body[starts[:, None] + np.arange(_PREFIX)]).view("<i8").reshape(-1)
    sizes[there] = np.where(declared == -1, sizes[there] - _PREFIX, declared)
    return sizes


_PREFIX = 8  # bytes


class _Table:
    """A table of a flatbuffer: a word that leads to where its fields are."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - struct.unpack_from("<i", data, at)[0]

    @classmethod
    def root(cls, buffer: pa.Buffer) -> _Table:
        data = memoryview(buffer).cast("B")
        return cls(data, struct.unpack_from("<I", data, 0)[0])

    def _where(self, field: int) -> int | None:
        place = 4 + 2 * field
        if place >= struct.unpack_from("<H", self._data, self._fields)[0]:
            return None
        offset: int = struct.unpack_from("<H", self._data, self._fields + place)[0]
        return self._at + offset if offset else None

    def has(self, field: int) -> bool:
        return self._where(field) is not None

    def _led(self, field: int) -> int | None:
        """Where an offset leads to."""
        at = self._where(field)
        return None if at is None else at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, field: int) -> _Table:
        at = self._led(field)
        if at is None:
            raise ValueError
        return _Table(self._data, at)

    def int64(self, field: int) -> int:
        at = self._where(field)
        return 0 if at is None else int(struct.unpack_from("<q", self._data, at)[0])

    def pairs(self, field: int) -> npt.NDArray[np.int64]:
        """A vector of structs of two 64-bit integers, int64[k, 2]."""
        at = self._led(field)
        if at is None:
            return np.empty((0, 2), np.int64)
        (count,) = struct.unpack_from("<I", self._data, at)
        return np.frombuffer(self._data, "<i8", 2 * count, at + 4).reshape(-1, 2)
