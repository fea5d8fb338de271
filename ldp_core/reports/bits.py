"""Reports that are vectors of d bits, in two layouts: Booleans, or packed in 64-bit words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.errors import ReportError
from ldp_core.exact import bits
from ldp_core.exact.arrays import U8
from ldp_core.reports.base import ReportFormat, other_type, refuse_nulls


@dataclass(frozen=True)
class Bits(ReportFormat):
    """``FixedSizeList<bool, d>``, or packed ``FixedSizeList<uint64, ceil(d / 64)>``.

    In the working layout rows of bytes, ``uint8[n, ceil(d / 8)]``; see `exact/bits.py`.

    Args:
        d: number of bits.
        ones: how many of them are 1; None: any number.
    """

    d: int
    ones: int | None = None

    @override
    def arrow_type(self, *, packed: bool = False) -> pa.DataType:
        return pa.list_(pa.uint64(), bits.row_words(self.d)) if packed else pa.list_(pa.bool_(), self.d)

    @override
    def empty(self, n: int) -> U8:
        return np.empty((n, bits.row_bytes(self.d)), np.uint8)

    @override
    def to_arrow(self, reports: U8, *, packed: bool = False) -> pa.Array:
        return bits.to_arrow(reports, self.d, packed=packed)

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
        if pa.types.is_uint64(got.value_type) and bits.has_stray_bits(reports, self.d):
            raise ReportError(f"column {column!r}: bits are set beyond the domain's {self.d} values")
        rows = bits.from_arrow(reports, self.d)
        if self.ones is not None:
            wrong = int(np.count_nonzero(bits.row_weights(rows) != self.ones))
            if wrong:
                raise ReportError(
                    f"column {column!r}: {wrong} of {len(rows)} reports are not sets of {self.ones} values"
                )
        return rows

    @override
    def to_numpy(self, reports: U8, *, packed: bool = False) -> npt.NDArray[Any]:
        if packed:
            words: npt.NDArray[np.uint64] = self.to_arrow(reports, packed=True).flatten().to_numpy()
            return words.reshape(len(reports), bits.row_words(self.d))
        return np.unpackbits(reports, axis=1, count=self.d, bitorder="little").view(bool)
