"""Parquet files as batches, of which none takes more memory than the limit of a row group.

What a file's metadata declare is not what its pages hold, and Arrow (25.0) believes the pages. So the headers of the
pages are read here first, as Arrow will read them, and what they declare is added up: docs/input.md has the figures.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ldp_core.arrays.ipc import bytes_of, spelled_out
from ldp_core.errors import InputError, LimitError
from ldp_core.limits import DEFAULT, Limits, check_row_groups, over

BATCH_ROWS = 1 << 16
_BATCH_BYTES = 1 << 28  # at most, or one row: Arrow may take some times as much


def read_batches(
    file: pq.ParquetFile, stream: BinaryIO, columns: Sequence[str] | None, limits: Limits = DEFAULT
) -> Iterator[pa.RecordBatch]:
    """Batches of 65,536 rows, of fewer where texts are so long that these may take more than 256 MiB."""
    groups = _groups(file, stream, columns, limits)
    for run in _runs(groups, limits.row_group_bytes):
        yield from _read(file, run, max(groups[g].widest for g in run), columns, limits)


def check_parquet(
    file: pq.ParquetFile, stream: BinaryIO, columns: Sequence[str] | None = None, limits: Limits = DEFAULT
) -> None:
    """Raise `LimitError` if a row group takes more than the limits permit when it is read as a whole, as by Polars.

    Where what its pages declare may be more, it is read here in small batches, and each value counts as it is spelled.
    """
    for g, group in enumerate(_groups(file, stream, columns, limits)):
        size = group.size + group.widest * file.metadata.row_group(g).num_rows
        if size > limits.row_group_bytes:
            size = 0
            for batch in _read(file, [g], group.widest, columns, limits):
                size += sum(bytes_of(column) + spelled_out(column) for column in batch.columns)
                if size > limits.row_group_bytes:
                    raise LimitError(over("a row group", size, "bytes when read", "row_group_bytes", limits))


def _read(
    file: pq.ParquetFile, run: list[int], widest: int, columns: Sequence[str] | None, limits: Limits
) -> Iterator[pa.RecordBatch]:
    rows = min(BATCH_ROWS, min(limits.row_group_bytes, _BATCH_BYTES) // max(widest, 1))
    yield from file.iter_batches(max(rows, 1), row_groups=run, columns=columns)


def _groups(file: pq.ParquetFile, stream: BinaryIO, columns: Sequence[str] | None, limits: Limits) -> list[_Group]:
    check_row_groups(file, limits)
    try:
        chunks = _chunks(stream, file.metadata)
        return [_group(file.metadata, chunks[g], g, stream, columns, limits) for g in range(file.num_row_groups)]
    except (LookupError, TypeError, AttributeError, OverflowError):  # (a footer of other types)
        raise _corrupt() from None


@dataclass(frozen=True)
class _Group:
    size: int  # bytes of its pages, decompressed, and of what is decoded whole
    widest: int  # bytes of one row at most, where its bytes in the pages do not tell


def _runs(groups: list[_Group], most: int) -> Iterator[list[int]]:
    """Row groups that are read together, as a batch may hold rows of several."""
    run, size = list[int](), 0
    for g, group in enumerate(groups):
        if run and size + group.size > most:
            yield run
            run, size = [], 0
        run.append(g)
        size += group.size
    if run:
        yield run


def _group(
    metadata: pq.FileMetaData,
    chunks: list[_Chunk],
    g: int,
    stream: BinaryIO,
    columns: Sequence[str] | None,
    limits: Limits,
) -> _Group:
    size = widest = 0
    for c, chunk in enumerate(chunks):
        column = metadata.schema.column(c)
        if columns is not None and not any(f"{column.path}.".startswith(f"{name}.") for name in columns):
            continue
        pages = _pages(stream, chunk)
        found = _chunk(pages, chunk, column, stream, metadata, g, limits)
        size, widest = size + found.size, widest + found.widest
    largest = max(size, widest, metadata.row_group(g).num_rows)  # (a row is a byte at least)
    if largest > limits.row_group_bytes:
        raise LimitError(over("a row group", largest, "bytes when read", "row_group_bytes", limits))
    return _Group(size, widest)


# ---- columns

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY, _BYTE_STREAM_SPLIT = 0, 2, 3, 8, 9
_DELTA_INTEGERS, _DELTA_LENGTHS, _DELTA_TEXTS = 5, 6, 7
_BY_DICTIONARY = {_PLAIN_DICTIONARY, _RLE_DICTIONARY}
_LENGTHS = {_DELTA_LENGTHS, _DELTA_TEXTS}
_KNOWN = {_PLAIN, _RLE, _BYTE_STREAM_SPLIT, _DELTA_INTEGERS} | _BY_DICTIONARY | _LENGTHS


def _chunk(
    pages: list[_Page], chunk: _Chunk, column: Any, stream: BinaryIO, metadata: pq.FileMetaData, g: int, limits: Limits
) -> _Group:
    """What one column adds."""
    size = sum(page.size + _ENTRY * page.values * page.dictionary for page in pages)
    if size > limits.row_group_bytes:
        return _Group(size, 0)
    width = _WIDTHS.get(column.physical_type, column.length)
    values = sum(page.values for page in pages if not page.dictionary)
    encodings = {page.encoding for page in pages if not page.dictionary}
    if encodings - _KNOWN or any(page.values > page.size for page in pages if page.dictionary):
        raise InputError("the pages of a column are in no known encoding")
    if column.physical_type == "BYTE_ARRAY":
        width = 4  # an offset
        entries = sum(page.size for page in pages if page.dictionary)
        if entries and encodings & _BY_DICTIONARY:
            short = entries * BATCH_ROWS <= limits.row_group_bytes >> 6  # it is as good as one text of this length
            width += entries if short else _longest(pages, column.path, stream, metadata, g)
    by_differences = [page for page in pages if not page.dictionary and page.encoding in _LENGTHS]
    for page in by_differences:
        if not page.compressed and chunk.codec and _OLD.match((metadata.created_by or "").lower()):
            raise _corrupt()
        _check_lengths(stream, page, chunk.codec, column)
        size += 8 * page.values
    width += max((page.size for page in by_differences if page.encoding == _DELTA_TEXTS), default=0)
    if column.max_repetition_level:
        return _Group(size + values * (width + _LEVELS), 0)
    return _Group(max(size, values), width)


_ENTRY = 16  # bytes of an entry of a dictionary, besides those of its text
_OLD = re.compile(r"(?s).*parquet-cpp(?!-arrow version (?:[4-9]|[1-9][0-9])\.)")
"""Writers that call pages uncompressed by mistake; Arrow knows it and decompresses them."""
_LEVELS = 8  # bytes that say where a value is in lists, and whether it is there


def _longest(pages: list[_Page], path: str, stream: BinaryIO, metadata: pq.FileMetaData, g: int) -> int:
    if len(pages) > 1 and pages[0].dictionary and pages[1].encoding in _BY_DICTIONARY:
        reader = pq.ParquetFile(stream, metadata=metadata, read_dictionary=[path])
        array = next(reader.iter_batches(1, row_groups=[g], columns=[path])).column(0)
        while pa.types.is_nested(array.type):  # (it has this one column)
            array = array.field(0) if pa.types.is_struct(array.type) else array.values
        if pa.types.is_dictionary(array.type) and len(array.dictionary) == pages[0].values:
            return int(pc.max(pc.binary_length(array.dictionary)).as_py() or 0)
    return max(page.size for page in pages if page.dictionary)


def _check_lengths(stream: BinaryIO, page: _Page, codec: int, column: Any) -> None:
    """Raise if a page of texts has the lengths of more of them than its header says: Arrow makes room for all.

    Lengths are differences in blocks: https://parquet.apache.org/docs/file-format/data-pages/encodings/
    """
    stream.seek(page.begin)
    data, at = stream.read(page.stored), 0
    if page.levels is None:
        data = _decompressed(data, page.size, codec)
        for most in (column.max_repetition_level, column.max_definition_level):
            at += 4 + int.from_bytes(data[at : at + 4], "little") if most else 0
    else:
        data = _decompressed(data[page.levels :], page.size - page.levels, codec if page.compressed else 0)
    try:
        for _ in range(
            2 if page.encoding == _DELTA_TEXTS else 1
        ):  # of what is shared with the text before; of the rest
            block, at = _varint(data, at)
            parts, at = _varint(data, at)
            count, at = _varint(data, at)
            _, at = _varint(data, at)
            if count > page.values or not 0 < parts <= block // 32:
                raise _corrupt()
            at = _after_blocks(data, at, count - 1, parts, block // parts)
    except IndexError:
        raise _corrupt() from None


def _after_blocks(data: bytes, at: int, left: int, parts: int, numbers: int) -> int:
    while left > 0:
        _, at = _varint(data, at)
        widths, at = data[at : at + parts], at + parts
        for width in widths[: -(-left // numbers)]:
            at += numbers * width // 8
        left -= parts * numbers
    return at


_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}


def _decompressed(data: bytes, size: int, codec: int) -> bytes:
    if not codec:
        return data
    if codec not in _CODECS:
        raise _corrupt()
    return bytes(pa.Codec(_CODECS[codec]).decompress(data, size))


# ---- the metadata and the headers of pages: Thrift's compact protocol


@dataclass(frozen=True)
class _Chunk:
    codec: int
    values: int
    begin: int
    end: int


def _chunks(stream: BinaryIO, metadata: pq.FileMetaData) -> list[list[_Chunk]]:
    """The columns of each row group, as they stand in the file.

    Not by pyarrow's ``row_group(g).column(c)``, and not by what it writes of the metadata again: in 25.0 a fault of the
    metadata ends the process in both.
    """
    stream.seek(0, io.SEEK_END)
    end = stream.tell() - 8  # the footer, how long it is, and "PAR1"
    stream.seek(end)
    size = int.from_bytes(stream.read(4), "little")
    stream.seek(end - size)
    footer, _ = _struct(stream.read(size), 0, _DEPTH)
    chunks = [[_read_chunk(column) for column in group[1, _LIST]] for group in footer.get((4, _LIST), [])]
    if [len(group) for group in chunks] != [metadata.num_columns] * metadata.num_row_groups:
        raise _corrupt()
    return chunks


def _read_chunk(column: Any) -> _Chunk:
    chunk = column.get((3, _STRUCT))
    if chunk is None:  # encrypted
        raise _corrupt()
    begin, dictionary = chunk[9, _I64], chunk.get((11, _I64), 0)
    begin = dictionary if 0 < dictionary < begin else begin
    return _Chunk(chunk[4, _I32], chunk[5, _I64], begin, begin + chunk[7, _I64])


@dataclass(frozen=True)
class _Page:
    dictionary: bool
    size: int  # bytes, decompressed
    begin: int
    stored: int
    values: int
    encoding: int
    levels: int | None  # bytes in front that are not compressed; None: they are, and say themselves how many they are
    compressed: bool


_DATA, _INDEX, _DICTIONARY, _DATA_2 = range(4)
_HEADERS = {_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}
_MOST_HEADER = 1 << 24
_DEPTH = 16


def _pages(stream: BinaryIO, chunk: _Chunk) -> list[_Page]:
    """What the headers of a column's pages say, up to the page with which Arrow stops."""
    at, end = chunk.begin, chunk.end
    if at < 0:
        raise _corrupt()
    pages, values = list[_Page](), 0
    while values < chunk.values:
        header, begin = _header(stream, at, end)
        kind, size, stored = (_number(header, name) for name in (1, 2, 3))
        at = begin + stored
        if at > end:
            raise _corrupt()
        if kind not in _HEADERS:
            if kind != _INDEX:
                raise _corrupt()
            continue
        inner = header.get((_HEADERS[kind], _STRUCT))
        if not isinstance(inner, dict):
            raise _corrupt()
        encoding, levels = _number(inner, 4 if kind == _DATA_2 else 2), None
        if kind == _DATA_2:
            levels = _number(inner, 5) + _number(inner, 6)
        elif encoding in _LENGTHS and not _number(inner, 3) == _number(inner, 4) == _RLE:
            raise _corrupt()
        compressed = (7, _FALSE) not in inner
        found = _Page(kind == _DICTIONARY, size, begin, stored, _number(inner, 1), encoding, levels, compressed)
        pages.append(found)
        if not found.dictionary:
            values += found.values
    return pages


def _corrupt() -> InputError:
    return InputError("the pages of a column are corrupt")


def _number(struct: _Struct, name: int) -> int:
    number: int = struct.get((name, _I32), -1)
    if not 0 <= number < 1 << 31:
        raise _corrupt()
    return number


def _header(stream: BinaryIO, at: int, end: int) -> tuple[_Struct, int]:
    """A page's header, and where its content begins."""
    length = 1 << 8
    while at < end:
        stream.seek(at)
        data = stream.read(min(length, end - at))
        try:
            header, used = _struct(data, 0, _DEPTH)
        except IndexError:  # there is more of it
            if len(data) < length or length >= _MOST_HEADER:
                break
            length <<= 4
        else:
            return header, at + used
    raise _corrupt()


_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _FLOAT64, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)


_Struct: TypeAlias = dict[tuple[int, int], Any]  # values by number and type: Arrow skips what is of another type


def _struct(data: bytes, at: int, depth: int) -> tuple[_Struct, int]:
    """A struct, whose numbers ascend; and where it ends."""
    found: _Struct = {}
    name = 0
    while data[at]:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if not step:
            new, at = _zigzag(data, at)
            step = new - name
        if step <= 0:
            raise _corrupt()
        name += step
        found[name, kind], at = _value(data, at, kind, depth)
    return found, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in (_I16, _I32, _I64):
        return _zigzag(data, at)
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind == _STRUCT and depth:
        return _struct(data, at, depth - 1)
    if kind in (_BYTE, _FLOAT64):
        at += 1 if kind == _BYTE else 8
        return data[at - 1], at
    if kind == _LIST and depth:
        size, inner = data[at] >> 4, data[at] & 15
        at += 1
        if size == 15:
            size, at = _varint(data, at)
        items = []
        for _ in range(size):
            item, at = _value(data, at, _BYTE if inner in (_TRUE, _FALSE) else inner, depth - 1)
            items.append(item)
        return items, at
    raise _corrupt()


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise _corrupt()


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = _varint(data, at)
    return number >> 1 ^ -(number & 1), at
