"""Reports that are vectors of d bits, in two layouts: Booleans, or packed in 64-bit words."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.arrow import stored
from ldp_core.arrays.types import U8, WORDS
from ldp_core.errors import ReportError
from ldp_core.exact.bits import row_weights
from ldp_core.parameters import check_flag
from ldp_core.reports.base import ReportFormat, other_type, refuse_nulls


def row_bytes(d: int) -> int:
    """Bytes of a row of ``d`` bits."""
    return -(-d // 8)


def row_words(d: int) -> int:
    """64-bit words of a packed row of ``d`` bits."""
    return -(-d // 64)


def bit_of(rows: U8, v: int) -> U8:
    """uint8[n]: bit ``v`` of each row."""
    return rows[:, v // 8] >> np.uint8(v % 8) & np.uint8(1)


def clear_padding(rows: U8, d: int) -> None:
    """Set the unused bits of each row to 0, in place."""
    if d % 8:
        rows[:, -1] &= np.uint8((1 << d % 8) - 1)


@dataclass(frozen=True)
class Bits(ReportFormat):
    """``FixedSizeList<bool, d>``, or packed ``FixedSizeList<uint64, ceil(d / 64)>``.

    In the working layout rows of bytes, ``uint8[n, ceil(d / 8)]``: bit ``v`` of a row is bit ``v % 8`` (little-endian)
    of byte ``v // 8``, and the unused high bits of the last byte are 0. Arrow's list of Booleans is the same bytes when
    ``d`` is a multiple of 8; packed reports are the same bytes padded to whole little-endian words.

    Args:
        d: number of bits.
        ones: how many of them are 1; None: any number.
    """

    d: int
    ones: int | None = None

    @override
    def arrow_type(self, *, packed: bool = False) -> pa.DataType:
        if check_flag("packed", packed):
            return pa.list_(pa.uint64(), row_words(self.d))
        return pa.list_(pa.bool_(), self.d)

    @property
    @override
    def width(self) -> int:
        return row_bytes(self.d)

    @override
    def empty(self, n: int) -> U8:
        return np.empty((n, self.width), np.uint8)

    @override
    def to_arrow(self, reports: U8, *, packed: bool = False) -> pa.Array:
        n = len(reports)
        if check_flag("packed", packed):
            words = row_words(self.d)
            values = pa.Array.from_buffers(pa.uint64(), n * words, [None, pa.py_buffer(_padded(reports, 8 * words))])
            return pa.FixedSizeListArray.from_arrays(values, words)
        flat = reports
        if 8 * reports.shape[1] != self.d:
            bits = np.unpackbits(reports.reshape(-1), bitorder="little").reshape(n, 8 * reports.shape[1])[:, : self.d]
            flat = np.packbits(bits.reshape(-1), bitorder="little")
        values = pa.Array.from_buffers(pa.bool_(), n * self.d, [None, pa.py_buffer(flat)])
        return pa.FixedSizeListArray.from_arrays(values, self.d)

    @override
    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> U8:
        plain, packed = self.arrow_type(), self.arrow_type(packed=True)
        got = reports.type
        same = pa.types.is_fixed_size_list(got) and any(
            got.list_size == t.list_size and got.value_type == t.value_type for t in (plain, packed)
        )
        if not same:
            raise other_type(column, f"{plain} or {packed}", got)
        refuse_nulls(reports, column)
        if pa.types.is_uint64(got.value_type) and _has_stray_bits(reports, self.d):
            raise ReportError(f"column {column!r}: bits are set beyond the domain's {self.d} values")
        rows = rows_of(reports, self.d)
        if self.ones is not None:
            wrong = int(np.count_nonzero(row_weights(rows) != self.ones))
            if wrong:
                raise ReportError(
                    f"column {column!r}: {wrong} of {len(rows)} reports are not sets of {self.ones} values"
                )
        return rows

    @override
    def compiled(self) -> dict[str, Any]:
        return {"layout": "bits", "length": self.d}

    @override
    def to_json(self, reports: U8) -> list[Any]:
        """Base64 of each row of bytes."""
        size = row_bytes(self.d)
        return [b64encode(row[:size].tobytes()).decode("ascii") for row in reports]

    @override
    def from_json(self, reports: Sequence[Any], *, column: str = "reports") -> pa.Array:
        size = row_bytes(self.d)
        try:
            rows = [b64decode(report, validate=True) if isinstance(report, str) else b"" for report in reports]
        except ValueError:
            rows = [b""]
        if any(len(row) != size for row in rows):
            raise ReportError(f"column {column!r}: reports in JSON must be {size} bytes each, in base64")
        made = np.zeros((len(rows), 8 * row_words(self.d)), np.uint8)
        made[:, :size] = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), size)
        if self.to_json(made) != list(reports):  # bits below the padding of base64, which say nothing
            raise ReportError(f"column {column!r}: reports in base64 must end with bits that are 0")
        array = pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1).view(np.uint64)), row_words(self.d))
        self.from_arrow(array, column=column)
        return array

    @override
    def to_numpy(self, reports: U8, *, packed: bool = False) -> npt.NDArray[Any]:
        if check_flag("packed", packed):
            words: npt.NDArray[np.uint64] = self.to_arrow(reports, packed=True).flatten().to_numpy()
            return words.reshape(len(reports), row_words(self.d))
        return np.unpackbits(reports, axis=1, count=self.d, bitorder="little").view(bool)


def rows_of(reports: pa.FixedSizeListArray, d: int) -> U8:
    """Reports of either layout as rows of bytes. Packed rows keep their zero padding."""
    n = len(reports)
    values = reports.flatten()
    data = values.buffers()[1]
    if data is None or not n:
        return np.zeros((n, row_bytes(d)), np.uint8)
    if pa.types.is_boolean(values.type):
        first = values.offset
        raw = np.frombuffer(data, np.uint8)[first // 8 : -(-(first + n * d) // 8)]
        if d % 8 == 0 and first % 8 == 0:
            return raw.reshape(n, d // 8)
        return _rows_without_gaps(raw, first % 8, n, d)
    words = row_words(d)
    packed = stored(values, words * n, np.uint64)
    narrow = WORDS.get(row_bytes(d))
    if words == 1 and narrow is not None:
        return packed.astype(narrow, copy=False).view(np.uint8).reshape(n, row_bytes(d))
    return packed.view(np.uint8).reshape(n, 8 * words)


def _rows_without_gaps(raw: U8, first: int, n: int, d: int) -> U8:
    """Rows of bits, of which each begins at the bit after the last one, as rows of bytes: eight rows are d bytes."""
    blocks, width = -(-n // 8), row_bytes(d)
    source = np.zeros(blocks * d + 2, np.uint8)
    source[: len(raw)] = raw
    spans = np.lib.stride_tricks.sliding_window_view(source, d + 2)[::d]
    rows = np.empty((blocks, 8, width), np.uint8)
    step = 1 if width < blocks else width  # (numpy is fast where the longer side is the inner one)
    for row in range(8):
        byte, shift = divmod(first + row * d, 8)
        for at in range(0, width, step):
            here, after = (spans[:, begin : begin + step] for begin in (byte + at, byte + at + 1))
            rows[:, row, at : at + step] = here >> np.uint8(shift) | after << np.uint8(8 - shift)
    made = rows.reshape(-1, width)[:n]
    clear_padding(made, d)
    return made


def _has_stray_bits(reports: pa.FixedSizeListArray, d: int) -> bool:
    """Whether any packed report has a 1 beyond its ``d`` bits."""
    if d % 64 == 0 or not len(reports):
        return False
    values = reports.flatten()
    last = stored(values, row_words(d) * len(reports), np.uint64)
    return bool(np.bitwise_or.reduce(last[row_words(d) - 1 :: row_words(d)]) >> np.uint64(d % 64))


def _padded(rows: U8, width: int) -> U8:
    if rows.shape[1] == width:
        return rows
    word = WORDS.get(rows.shape[1])
    if width == 8 and word is not None:
        return rows.reshape(-1).view(word).astype(np.uint64).view(np.uint8).reshape(-1, 8)
    out = np.zeros((len(rows), width), np.uint8)
    out[:, : rows.shape[1]] = rows
    return out
