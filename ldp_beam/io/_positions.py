"""Where a record comes from: a column that says it in 16 bytes, and in nothing that anybody can read.

A position is the first 16 bytes of the SHA-256 of what names the message or the file, with the record's row there, from
0, as a number of 64 bits, added to the last 8 of them by XOR. Of n records two share a position with probability
n^2 / 2^129. How messages were gathered into batches, and who read them, has no part in it. SHA-256 has no key: whoever
guesses a name can see whether a position is of it. It is no secret, and no raw value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import numpy as np
import pyarrow as pa

from ldp_core import DtypeError, ParameterError
from ldp_core.engine import I64

POSITION = pa.binary(16)  # the type of the column


def check_position(name: str | None, schema: pa.Schema | None = None) -> None:
    """Raise `ParameterError` if this is no name for the column, or the name of one that the records have."""
    if name is None:
        return
    if not isinstance(name, str) or not name:
        raise ParameterError(f"position must be a column's name, got {type(name).__name__}")
    if schema is not None and name in schema.names:
        raise ParameterError(f"position {name!r} is a column of the schema: take a name that records do not have")


def positions(names: Sequence[bytes], of: I64, rows: I64) -> pa.Array:
    """The positions of n records.

    Args:
        names: of k messages or files, each another one.
        of: int64[n], 0 to k - 1: the record's.
        rows: int64[n]: its row there.

    >>> of_two = positions([b"one", b"other"], np.array([0, 0, 1]), np.array([0, 1, 0])).to_pylist()
    >>> len(set(of_two)), of_two[2:] == positions([b"other"], np.array([0]), np.array([0])).to_pylist()
    (3, True)
    """
    wrong = {type(name).__name__ for name in names if not isinstance(name, bytes)}
    if wrong:
        raise DtypeError(f"with position= each message comes with bytes that name it, got {sorted(wrong)}")
    hashes = b"".join([sha256(name).digest()[:16] for name in names])
    words = np.frombuffer(hashes, "<u8").reshape(-1, 2)[of]
    words[:, 1] ^= rows.astype("<u8")
    return pa.Array.from_buffers(POSITION, len(words), [None, pa.py_buffer(words)])


def rows_of(sizes: Sequence[int]) -> tuple[I64, I64]:
    """Of messages with so many records, which message each record is in, and its row there."""
    counts = np.array(sizes, np.int64)
    of = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return of, np.arange(len(of)) - starts[of]


def with_positions(batches: Iterable[pa.RecordBatch], name: str, column: pa.Array) -> list[pa.RecordBatch]:
    """Batches with this column, which goes on from one to the next, as their last; a sender's of that name is none."""
    out, start = [], 0
    for batch in batches:
        kept = [i for i, field in enumerate(batch.schema) if field.name != name]
        arrays = [*(batch.column(i) for i in kept), column.slice(start, batch.num_rows)]
        fields = [*(batch.schema.field(i) for i in kept), pa.field(name, POSITION, nullable=False)]
        out.append(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, batch.schema.metadata)))
        start += batch.num_rows
    return out
