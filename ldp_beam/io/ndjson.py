"""Lines of JSON as Arrow batches of a declared schema; what does not fit is counted, never shown."""

from __future__ import annotations

import codecs
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.json

from ldp_beam.elements.faults import NOT_A_RECORD, Fault, in_halves
from ldp_beam.io._sieve import Sieve
from ldp_core import Limits
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import I64, Bools

_READ_BYTES = 1 << 23
_BLOCK_BYTES = 1 << 24
_LINES = 1 << 9  # read together where there is a bad one among more: if bad ones are few, few are looked at one by one
_TRIES = 4  # that may fail, and one more for each that did not: if bad ones are many, it is better not to try


def parse_lines(lines: Iterable[bytes], schema: pa.Schema) -> tuple[list[pa.RecordBatch], I64, Counter[Fault]]:
    """Parse one JSON object a line, all lines at once where they are sound; blank lines are no records.

    A field that a line lacks is null, one that the schema lacks is ignored; times are ISO 8601 text, without a zone
    UTC. It gives batches of exactly ``schema``; of which line each record is, int64[n], from 0, all lines counted; and
    how many lines are no such objects, by what is wrong with them.

    >>> batches, numbers, bad = parse_lines([b'{"os": "ios"}', b'{"os": 7}', b""], pa.schema([("os", pa.string())]))
    >>> [batch.to_pylist() for batch in batches], numbers.tolist(), bad
    ([[{'os': 'ios'}]], [0], Counter({('os', 'not of type string'): 1}))
    """
    stripped = [line.strip() for line in lines]
    # pyarrow.json (25.0) ends the whole process with a segmentation fault where a bare null is the first record
    objects = [line.startswith(b"{") and line.endswith(b"}") for line in stripped]
    faults = Counter[Fault]()
    batches, good = _parsed(stripped if all(objects) else list(compress(stripped, objects)), schema, faults)
    numbers = np.flatnonzero(objects)[good]
    others = sum(map(bool, stripped)) - len(numbers) - faults.total()
    if others:
        faults["", NOT_A_RECORD] += others
    return batches, numbers, faults


def parse_stream(
    stream: BinaryIO, schema: pa.Schema, limits: Limits = DEFAULT
) -> Iterator[tuple[list[pa.RecordBatch], I64, Counter[Fault]]]:
    """`parse_lines` for a whole file, a few megabytes at a time; a line over the limit is no such object."""
    first = 0  # number of the first line of what is parsed next
    # the line that has begun; whether it is over the limit, and is read to its end
    rest, cut = stream.read(3).removeprefix(codecs.BOM_UTF8), False
    while chunk := stream.read(_READ_BYTES):
        if cut:
            _, newline, chunk = chunk.partition(b"\n")
            cut = not newline
        head, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline:
            lines = head.split(b"\n")
            batches, numbers, bad = _within(lines, schema, limits)
            yield batches, numbers + first, bad
            first += len(lines)
        if len(rest) > limits.line_bytes:
            rest, cut = b"", True
            yield [], np.empty(0, np.int64), Counter({("", NOT_A_RECORD): 1})
            first += 1
    if rest:
        batches, numbers, bad = _within([rest], schema, limits)
        yield batches, numbers + first, bad


def _within(lines: list[bytes], schema: pa.Schema, limits: Limits) -> tuple[list[pa.RecordBatch], I64, Counter[Fault]]:
    """`parse_lines`, of those that are not over the limit."""
    if max(map(len, lines)) <= limits.line_bytes:
        return parse_lines(lines, schema)
    short = [line if len(line) <= limits.line_bytes else b"" for line in lines]
    batches, numbers, bad = parse_lines(short, schema)
    bad["", NOT_A_RECORD] += sum(map(bool, lines)) - sum(map(bool, short))
    return batches, numbers, bad


def _parsed(lines: Sequence[bytes], schema: pa.Schema, faults: Counter[Fault]) -> tuple[list[pa.RecordBatch], Bools]:
    """Parse lines together; where that fails, some at a time; where that fails too, without those that are refused.

    What is wrong with those is counted in ``faults``.
    """
    good = np.ones(len(lines), bool)
    batches = _together(lines, schema)
    if batches is not None:
        return batches, good
    sieve, parts = Sieve(schema), list[pa.RecordBatch]()
    tries = _TRIES if len(lines) > _LINES else 0
    for start in range(0, len(lines), _LINES):
        some = lines[start : start + _LINES]
        found = _together(some, schema) if tries > 0 else None
        tries += -1 if found is None else 1
        if found is None:
            own = good[start : start + _LINES]
            wrong = [sieve.fault_of(line) for line in some]
            faults.update(fault for fault in wrong if fault is not None)
            own[:] = [fault is None for fault in wrong]
            left = np.flatnonzero(own)
            halves = list(in_halves([some[i] for i in left.tolist()], lambda lines: _together(lines, schema)))
            found = [batch for _, batches in halves for batch in batches or ()]
            own[left] = [batches is not None for lines, batches in halves for _ in lines]
        parts += found
    whole = pa.Table.from_batches(parts, schema).combine_chunks()
    return whole.to_batches(), good


def _together(lines: Sequence[bytes], schema: pa.Schema) -> list[pa.RecordBatch] | None:
    """The lines as batches; None if there is anything wrong with one of them."""
    if not lines:
        return []
    block = b"\n".join(lines)
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(block),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(_BLOCK_BYTES, len(block) + 1)),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=_read_as(schema), unexpected_field_behavior="ignore"
            ),
        )
        columns = [column.cast(field.type) for field, column in zip(schema, table.columns, strict=True)]
        table = pa.Table.from_arrays(columns, schema=schema)  # nullability and metadata as declared
        table.validate(full=True)  # the parser does not look at UTF-8
    except (pa.ArrowException, OSError, ValueError):  # what it says quotes the line
        return None
    if table.num_rows != len(lines) or any(
        column.null_count for field, column in zip(schema, table.columns, strict=True) if not field.nullable
    ):
        return None
    return table.combine_chunks().to_batches()


def _read_as(schema: pa.Schema) -> pa.Schema:
    """The schema, with text in the place of days: of text Arrow makes days, but not in JSON."""
    text = [pa.string() if pa.types.is_date(field.type) else field.type for field in schema]
    return pa.schema(list(zip(schema.names, text, strict=True)))
