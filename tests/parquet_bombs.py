"""Parquet files whose pages hold more than their metadata say: what Arrow writes, taken apart and changed."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# A struct of Thrift's compact protocol is {number: (type, value)}.
TRUE, FALSE, BYTE, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 12
Struct = dict[int, Any]
Page = tuple[Struct, bytes]


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def zigzag(n: int) -> bytes:
    return varint(2 * n if n >= 0 else -2 * n - 1)


class Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def take(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def varint(self) -> int:
        n = shift = 0
        while True:
            (byte,) = self.take(1)
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    def value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind in (BYTE, DOUBLE):
            return self.take(1 if kind == BYTE else 8)
        if kind == BINARY:
            return self.take(self.varint())
        if kind == LIST:
            (head,) = self.take(1)
            n = head >> 4 if head >> 4 < 15 else self.varint()
            inner = head & 15
            return inner, [self.value(BYTE if inner in (TRUE, FALSE) else inner) for _ in range(n)]
        if kind == STRUCT:
            return self.struct()
        n = self.varint()
        return n >> 1 ^ -(n & 1)

    def struct(self) -> Struct:
        found: Struct = {}
        name = 0
        while head := self.take(1)[0]:
            name = name + (head >> 4) if head >> 4 else self.value(I32)
            found[name] = head & 15, self.value(head & 15)
        return found


def written(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return b""
    if kind in (BYTE, DOUBLE):
        return bytes(value)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == LIST:
        inner, items = value
        return (
            bytes([0xF0 | inner])
            + varint(len(items))
            + b"".join(written(BYTE if inner in (TRUE, FALSE) else inner, item) for item in items)
        )
    if kind == STRUCT:
        out, last = b"", 0
        for name, (inner, item) in sorted(value.items()):
            mark = inner if inner not in (TRUE, FALSE) else TRUE if item else FALSE
            out += bytes([(name - last) << 4 | mark]) if name - last < 16 else bytes([mark]) + zigzag(name)
            out += written(inner, item)
            last = name
        return out + b"\0"
    return zigzag(value)


class Parts:
    """A file of one column and one row group, in parts that may be changed.

    Attributes:
        footer: the file's metadata; ``schema``, ``group`` and ``chunk`` are in it.
        pages: header and content of each, in their order; the first is the dictionary if there is one.
    """

    def __init__(self, column: pa.Array, **options: Any) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table({"v": column}), sink, store_schema=False, write_statistics=False, **options)
        data = sink.getvalue()
        self.footer = Reader(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")).struct()
        self.schema: list[Struct] = self.footer[2][1][1]
        self.group: Struct = self.footer[4][1][1][0]
        self.column: Struct = self.group[1][1][1][0]
        self.chunk: Struct = self.column[3][1]
        self.chunk.pop(16, None)
        reader = Reader(data, self.chunk.get(11, self.chunk[9])[1])
        end = reader.at + self.chunk[7][1]
        self.pages: list[Page] = []
        while reader.at < end:
            header = reader.struct()
            self.pages.append((header, reader.take(header[3][1])))

    def replace(self, page: int, content: bytes, size: int | None = None) -> None:
        """Another content, of this size when decompressed."""
        header = self.pages[page][0]
        header[2], header[3] = (I32, len(content) if size is None else size), (I32, len(content))
        header.pop(4, None)
        self.pages[page] = header, content

    def set_rows(self, n: int) -> None:
        self.footer[3] = self.group[3] = self.chunk[5] = (I64, n)

    def data(self) -> bytes:
        out, first = b"PAR1", dict[int, int]()
        for header, content in self.pages:
            first.setdefault(header[1][1], len(out))
            out += written(STRUCT, header) + content
        self.chunk[7], self.chunk[9] = (I64, len(out) - 4), (I64, first[0] if 0 in first else first[3])
        self.chunk.pop(11, None)
        if 2 in first:
            self.chunk[11] = (I64, first[2])
        for name in (4, 5, 6, 7):
            self.column.pop(name, None)
        footer = written(STRUCT, self.footer)
        return out + footer + len(footer).to_bytes(4, "little") + b"PAR1"


NUMBERS = pa.array([7] * 1000, pa.int64())
TEXTS = pa.array(["a", "b"] * 500)
MANY = 1 << 26


def zeros(codec: str, of: str, version: str = "1.0") -> bytes:
    """A page of 64 MB of zeros, compressed."""
    parts = Parts(NUMBERS, compression=codec, use_dictionary=of == "dictionary", data_page_version=version)
    header, content = parts.pages[0]
    levels = header[8][1][5][1] + header[8][1][6][1] if 8 in header else 0
    packed = pa.Codec(codec).compress(bytes(MANY - levels), asbytes=True)
    parts.replace(0, content[:levels] + packed, MANY)
    if levels:
        header[8][1][7] = TRUE, True
    return parts.data()


def number(page: int, where: tuple[int, ...], n: int, column: pa.Array = NUMBERS, **options: Any) -> bytes:
    """A page whose header has another number."""
    parts = Parts(column, compression="none", **options)
    struct = parts.pages[page][0]
    for name in where[:-1]:
        struct = struct[name][1]
    struct[where[-1]] = I32, n
    return parts.data()


def runs(rows: int, pages: int) -> bytes:
    """Pages with one run of an entry of the dictionary each."""
    parts = Parts(NUMBERS, compression="none")
    run = varint(rows << 1)
    content = (len(run) + 1).to_bytes(4, "little") + run + b"\1" + b"\1" + run + b"\0"
    parts.pages[1][0][5][1][1] = I32, rows
    parts.replace(1, content)
    parts.pages[1:] *= pages
    parts.set_rows(rows * pages)
    return parts.data()


def a_long_list(n: int) -> bytes:
    parts = Parts(pa.array([[7, 7, 7, 7]], pa.list_(pa.int64())), compression="none")
    repeated = varint(1 << 1) + b"\0" + varint((n - 1) << 1) + b"\1"
    defined = varint(n << 1) + b"\3"
    content = len(repeated).to_bytes(4, "little") + repeated + len(defined).to_bytes(4, "little") + defined
    parts.pages[1][0][5][1][1] = I32, n
    parts.replace(1, content + b"\1" + varint(n << 1) + b"\0")
    parts.chunk[5] = I64, n
    return parts.data()


def wide_nulls() -> bytes:
    parts = Parts(pa.array([None] * 1000, pa.binary(4)))
    parts.schema[1][2] = I32, 1 << 18
    return parts.data()


def many_share(codec: str) -> Parts:
    """65,536 rows of one text of 5 kB."""
    return Parts(pa.DictionaryArray.from_arrays(np.zeros(65536, np.int32), ["x" * 5000]), compression=codec)


def shared_after_a_plain_page() -> bytes:
    """The first page does not use the dictionary, and the second one does."""
    parts = many_share("none")
    parts.pages.insert(1, Parts(pa.array(["a"]), compression="none", use_dictionary=False).pages[0])
    parts.set_rows(65537)
    return parts.data()


def differences(count: int) -> bytes:
    """So many zeros, in one block."""
    return varint((count // 128 + 1) * 128) + varint(1) + varint(count) + zigzag(0) + zigzag(0) + b"\0"


def one_step(first: int, step: int) -> bytes:
    """``first``, and 999 times ``first + step``, in a block of 32-bit differences."""
    return (
        varint(1024)
        + varint(1)
        + varint(1000)
        + zigzag(first)
        + zigzag(min(step, 0))
        + b"\x20"
        + b"".join((difference - min(step, 0)).to_bytes(4, "little") for difference in [step] + [0] * 1023)
    )


def by_differences(encoding: int, content: bytes, n: int = 1000) -> bytes:
    parts = Parts(TEXTS, compression="none", use_dictionary=False)
    levels = varint(n << 1) + b"\1"
    parts.pages[0][0][5][1][2] = I32, encoding
    parts.replace(0, len(levels).to_bytes(4, "little") + levels + content)
    return parts.data()


def shared_prefixes(length: int) -> bytes:
    """A long text, and 999 that have it as their prefix and nothing more."""
    return by_differences(7, one_step(0, length) + one_step(length, -length) + b"x" * length)


def statistics_of_another_size() -> bytes:
    """It is pyarrow's metadata of the column that end the process."""
    parts = Parts(NUMBERS)
    parts.chunk[16] = STRUCT, {2: (LIST, (I64, [1, 2, 3, 4]))}
    return parts.data()


def levels_of_a_schema(n: int) -> bytes:
    parts = Parts(pa.array([1], pa.int32()))
    root, leaf = parts.schema
    level = {3: (I32, 1), 4: (BINARY, b"x"), 5: (I32, 1)}
    parts.schema[:] = [root, *[level] * n, leaf]
    parts.chunk[3] = LIST, (BINARY, [b"x"] * n + [b"v"])
    return parts.data()


HUGE = 2**31 - 1
LONG = 1 << 25

BOMBS: dict[str, Callable[[], bytes]] = {
    **{
        f"a page of {codec}": lambda codec=codec: zeros(codec, "data") for codec in ("zstd", "gzip", "snappy", "brotli")
    },
    "a page of version 2": lambda: zeros("zstd", "data", "2.0"),
    "a dictionary": lambda: zeros("zstd", "dictionary"),
    "a page that says 2 GiB": lambda: number(0, (2,), HUGE, use_dictionary=False),
    "a page that is not there": lambda: number(0, (3,), HUGE, use_dictionary=False),
    "2^31 entries of a dictionary": lambda: number(0, (7, 1), HUGE),
    "2^31 texts of a dictionary": lambda: number(0, (7, 1), HUGE, TEXTS),
    "2^31 values of a page": lambda: number(1, (5, 1), HUGE),
    "2^34 rows in runs": lambda: runs(HUGE, 8),
    "a long list": lambda: a_long_list(1 << 23),
    "a text that many share": lambda: many_share("zstd").data(),
    "a text that many share, later": shared_after_a_plain_page,
    "wide nulls": wide_nulls,
    "lengths by differences": lambda: by_differences(6, differences(LONG)),
    "texts by differences": lambda: by_differences(7, differences(LONG) + differences(LONG)),
    "prefixes that many share": lambda: shared_prefixes(1 << 18),
    "statistics of another size": statistics_of_another_size,
    "20,000 levels": lambda: levels_of_a_schema(20_000),
}
"""Files of some 500 bytes, of a few MB at most. Arrow takes 64 to 640 MB for most; the last ends the process."""

READ_IN_SMALL_BATCHES = {
    *("a text that many share", "a text that many share, later", "wide nulls", "prefixes that many share")
}
"""The others are refused."""
