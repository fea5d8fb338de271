"""CSV files as columns of text, a megabyte at a time; and text as other types, of which some may not convert.

Arrow's own reader of a stream (25.0) is not used. It reads ahead in a thread of its own, which calls the stream: the
process may hang or abort at its end. It fails where a line end in quotes is at the border of two blocks. And it decodes
a line of another number of fields before it tells: a bad byte in such a line is the end of the file. So the lines are
divided here, and Arrow's threads see nothing of Python's: no stream, no function, no buffer.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from ldp_beam._compat import to_the_end
from ldp_beam.elements.faults import in_halves
from ldp_core import LimitError, Limits, PlanError
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import over

_READ_BYTES = 1 << 20


def read_text(stream: BinaryIO, names: list[str], limits: Limits = DEFAULT) -> Iterator[tuple[pa.RecordBatch, int]]:
    r"""Columns of a CSV file with a header, as the bytes that they hold.

    Only the empty unquoted field is null. So NA, null and NaN are text, as the country code NA (Namibia) is; a quoted
    empty field is the empty text. A quoted field may have line ends in it. What is no UTF-8, no number, Boolean or time
    is found later, by `cast_or_null`: it is the fault of one record only.

    Yields:
        A batch of these columns, binary; and how many lines between its records are none: of another number of fields
        than the header, or with quotes that do not end, or before the end of the field.

    Raises:
        LimitError: a line is over the limit; where the next one begins is not known.
        PlanError: a column is not in the header, or twice.
        pyarrow.ArrowInvalid: there is no header.

    >>> import io
    >>> file = io.BytesIO(b'country,day\nNA,1\n"",2\n,3\n\xff,4,5\n')
    >>> [(batch.to_pydict(), bad) for batch, bad in read_text(file, ["country"])]
    [({'country': [b'NA', b'', None]}, 1)]
    """
    chunks = _chunks(stream)
    header, rest = _header(chunks, limits)
    found = _names(header)
    check_names(names, found)
    for chunk in chunks:
        lines = rest + chunk
        long = _first_long(lines, limits)
        lines, beyond = lines[:long], lines[long:]
        batch, bad = None, 0
        if b'"' not in lines:
            end = max(lines.rfind(b"\n"), lines.rfind(b"\r")) + 1
            rest = lines[end:]
            with suppress(pa.ArrowInvalid):  # a line of another number of fields
                batch = _parsed(names, header, memoryview(lines)[:end])
        if batch is None:
            good, bad, rest = _sifted(lines, len(found))
            batch = _parsed(names, header, *good)
        yield batch, bad
        _check_length(beyond or rest, limits)
    while rest:  # quotes that do not end: it is this line's fault
        good, bad, rest = _sifted(rest[_RAW.match(rest).end() :], len(found))
        yield _parsed(names, header, *good), bad + 1


def check_names(names: list[str], there: list[str]) -> None:
    """Raise if a file does not have a column, or has it twice."""
    if wrong := [name for name in names if there.count(name) != 1]:
        raise PlanError(f"it does not have the columns {wrong}, or has them twice: name columns that it has once")


def header_names(stream: BinaryIO) -> list[str]:
    r"""Names of the columns; the replacement character, U+FFFD, is where bytes are no UTF-8."""
    return _names(_header(_chunks(to_the_end(stream)), DEFAULT)[0])


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    """What there is to read, and an end of the last line; empty lines are no lines."""
    while chunk := stream.read(_READ_BYTES):
        yield chunk
    yield b"\n"


def _header(chunks: Iterator[bytes], limits: Limits) -> tuple[bytes, bytes]:
    """The header, in UTF-8, with its line end; and what has been read after it."""
    head = b""
    for chunk in chunks:
        head = (head + chunk).removeprefix(codecs.BOM_UTF8)
        found = _FIRST.match(head)
        if found is not None:
            _check_length(found[0].strip(b"\r\n"), limits)
            return found[0].decode(errors="replace").encode(), head[found.end() :]
        _check_length(head, limits)
    return b"", b""


def _check_length(line: bytes, limits: Limits) -> None:
    if len(line) > limits.line_bytes:
        raise LimitError(over("a line", len(line), "bytes", "line_bytes", limits))


def _first_long(lines: bytes, limits: Limits) -> int:
    """Where the first line over the limit begins, if it ends; else where all end."""
    at = 0
    while len(lines) - at > limits.line_bytes:
        short = _short_lines(limits.line_bytes).match(lines, at)
        at = short.end() if short is not None else at
        found = _LINE.match(lines, at)
        if found is None:
            break
        if len(found[0].strip(b"\r\n")) > limits.line_bytes:
            return at
        at = found.end()
    return len(lines)


def _names(header: bytes) -> list[str]:
    return _read(header).schema.names


def _parsed(names: list[str], *parts: bytes | memoryview) -> pa.RecordBatch:
    table = _read(
        *parts,
        options=pyarrow.csv.ConvertOptions(
            include_columns=names,
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,  # Arrow takes 16 words for null if it is not told otherwise
            check_utf8=False,
        ),
    )
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], schema=table.schema)


def _read(*parts: bytes | memoryview, options: pyarrow.csv.ConvertOptions | None = None) -> pa.Table:
    """What Arrow makes of these bytes, in memory of its own: a thread of its may be the last that holds them."""
    size = sum(map(len, parts))
    buffer, at = pa.allocate_buffer(size), 0
    with memoryview(buffer).cast("B") as view:
        for part in parts:
            view[at : at + len(part)] = part
            at += len(part)
    blocks = pyarrow.csv.ReadOptions(block_size=size + 1)
    return pyarrow.csv.read_csv(pa.BufferReader(buffer), read_options=blocks, convert_options=options)


# Quotes are quotes where a field begins only; two of them in quotes are one. Text behind the last ones is no field. (Of
# Arrow it is: so a field that begins as "Great, and has no end, would go on to the next quotes, many lines below.) What
# has begun in quotes and does not end is no line yet. Nothing is tried again and again, so that the time is linear.
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+(?:"(?=[,\r\n]|\Z)|\Z)|(?!")[^,\r\n]*+)'
_FIELDS = rb"%b(?:,%b)*+" % (_FIELD, _FIELD)
_ANY_LINE = rb"(?:%b[\r\n]++|(?!%b\Z)[^\r\n]*+[\r\n]++)" % (_FIELDS, _FIELDS)
_PLAIN = rb'(?:"[^"\r\n]*+(?:""[^"\r\n]*+)*+"|(?!"))[^,\r\n]*+'  # without the end of a line in quotes
_PLAIN_LINE = rb"%b(?:,%b)*+[\r\n]++" % (_PLAIN, _PLAIN)
_LINE, _FIRST = re.compile(_ANY_LINE), re.compile(rb"[\r\n]*+" + _ANY_LINE)
_RAW: Any = re.compile(rb"[^\r\n]*+[\r\n]*+")


@lru_cache(16)
def _short_lines(most: int) -> re.Pattern[bytes]:
    """Some lines of so many bytes at most, without the end of a line in quotes."""
    end = rb"{0,%d}+[\r\n]" % most
    return re.compile(rb'(?:[^"\r\n]%b++|(?=[^\r\n]%b)%b)*+' % (end, end, _PLAIN_LINE))


@lru_cache(16)
def _kinds_of_lines(fields: int) -> re.Pattern[bytes]:
    """Some lines of so many fields; or another line; or what is no line yet."""
    line = rb"%b(?:,%b){%d}+[\r\n]++" % (_FIELD, _FIELD, fields - 1)
    return re.compile(rb"((?:%b)++)|(%b)|(?s:.)++" % (line, _ANY_LINE))


def _sifted(lines: bytes, fields: int) -> tuple[list[bytes], int, bytes]:
    """Lines of so many fields, how many others there are, and what is no line yet."""
    good, bad = list[bytes](), 0
    for part in _kinds_of_lines(fields).finditer(lines.lstrip(b"\r\n")):
        if part[1]:
            good.append(part[1])
        elif part[2]:
            bad += 1
        else:
            return good, bad, part[0]
    return good, bad, b""


def cast_or_null(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text, or bytes that may be text, as another type; null where a value does not convert.

    A number is one as Polars reads it: with blanks or a plus before it, and not hexadecimal, or nan with more to it.
    Arrow converts all or nothing. So where it fails, what cannot be of the type by its looks becomes null before it
    tries again; what is left of the bad ones (as the 29th of February of a common year) is found by halving, some
    0.1 ms each.

    >>> cast_or_null(pa.array(["7", " +7", "0x7", "", "NA", None]), pa.int64()).to_pylist()
    [7, 7, None, None, None, None]
    """
    if pa.types.is_binary(text.type):
        text = _as_text(text)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    # What only Arrow takes: 0x10, which it has as 16, and nan(7).
    found = None if number and _has(text, (b"x", b"X", b"(")) else _cast(text, kind)
    if found is not None:
        return found
    looks = _looks_of(kind)
    if looks is not None:
        text = pc.if_else(pc.match_substring_regex(text, f"^(?:{looks})$"), text, pa.scalar(None, text.type))
    if number and _has(text, (b" ", b"\t", b"+")):
        text = pc.replace_substring_regex(text, r"^[ \t]*\+?", "")
    parts = in_halves(text, lambda some: _cast(some, kind))
    return pa.concat_arrays([pa.nulls(len(part), kind) if found is None else found for part, found in parts])


def _has(text: pa.Array, marks: Iterable[bytes]) -> bool:
    """Whether one of these is in the values, or in those beside them in memory."""
    data = text.buffers()[2]
    given = b"" if data is None else data.to_pybytes()
    return any(mark in given for mark in marks)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return array.cast(kind)
    except pa.ArrowException:  # it quotes the value
        return None


def _as_text(array: pa.Array) -> pa.Array:
    text = _cast(array, pa.string())
    return pa.array([_decoded(value) for value in array.to_pylist()], pa.string()) if text is None else text


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _looks_of(kind: pa.DataType) -> str | None:
    """A regular expression of all text that converts, and of little more; None: not known."""
    if pa.types.is_boolean(kind):
        return "(?i)true|false|0|1"
    if pa.types.is_integer(kind):
        digits = len(str(1 << (kind.bit_width - pa.types.is_signed_integer(kind))))
        return rf"[ \t]*[+-]?0*[0-9]{{1,{digits}}}"
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return r"(?i)[ \t]*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)"
    if pa.types.is_timestamp(kind):
        fraction = "" if kind.unit == "s" else rf"(?:\.[0-9]{{1,{_DIGITS[kind.unit]}}})?"
        time = rf"[T ](?:[01][0-9]|2[0-3])(?::[0-5][0-9](?::[0-5][0-9]{fraction})?)?"
        return f"{_DATE}(?:{time})?" if kind.tz is None else f"{_DATE}{time}(?:Z|[+-][0-9:]{{2,5}})"
    return None


_DIGITS = {"ms": 3, "us": 6, "ns": 9}
_DATE = (
    "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|[12][0-9]))"
)
