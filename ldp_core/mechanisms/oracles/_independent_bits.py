"""Reports that are vectors of d bits, in two layouts: Booleans, or packed in 64-bit words."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import ReportError
from ldp_core.exact import bits
from ldp_core.exact.arrays import Codes
from ldp_core.exact.probability import fraction
from ldp_core.mechanism import Native, other_type
from ldp_core.mechanisms.oracles._base import FrequencyOracle
from ldp_core.noise.base import Noise


class BitVectors(FrequencyOracle):
    """A mechanism whose reports are ``FixedSizeList<bool, d>`` or ``FixedSizeList<uint64, ceil(d / 64)>``.

    In the working layout they are rows of bytes, ``uint8[n, ceil(d / 8)]``; see `exact/bits.py`. A report supports
    the values whose bits are 1.
    """

    def count_reports(self, reports: Native, groups: npt.NDArray[np.int64], n_groups: int) -> npt.NDArray[np.int64]:
        """See `Mechanism`: a report supports the values whose bits are 1."""
        if n_groups == 1:
            return bits.column_sums(reports, self.domain.size)[None]
        return bits.grouped_column_sums(reports, self.domain.size, groups, n_groups)

    def report_type(self, *, packed: bool = False) -> pa.DataType:
        """See `Mechanism`."""
        d = self.domain.size
        return pa.list_(pa.uint64(), bits.row_words(d)) if packed else pa.list_(pa.bool_(), d)

    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """See `Mechanism`."""
        return bits.to_arrow(reports, self.domain.size, packed=packed)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`."""
        plain, packed = self.report_type(), self.report_type(packed=True)
        kind = reports.type
        same = pa.types.is_fixed_size_list(kind) and any(
            kind.list_size == t.list_size and kind.value_type == t.value_type for t in (plain, packed)
        )
        if not same:
            raise other_type(column, f"{plain} or {packed}", kind)
        if reports.null_count or reports.flatten().null_count:
            raise ReportError(
                f"column {column!r}: {reports.null_count} of {len(reports)} reports are null, or hold nulls"
            )
        if pa.types.is_uint64(kind.value_type) and bits.has_stray_bits(reports, self.domain.size):
            raise ReportError(f"column {column!r}: bits are set beyond the domain's {self.domain.size} values")
        return bits.from_arrow(reports, self.domain.size)

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """See `Mechanism`."""
        if packed:
            values: npt.NDArray[np.uint64] = self.to_arrow(reports, packed=True).flatten().to_numpy()
            return values.reshape(len(reports), bits.row_words(self.domain.size))
        count = self.domain.size
        return np.unpackbits(reports, axis=1, count=count, bitorder="little").view(bool)


class IndependentBits(BitVectors):
    """Bit vectors whose bits are independent: the true value's is 1 with probability p, any other with q."""

    @property
    @abstractmethod
    def thresholds(self) -> tuple[int, int]:
        """(p, q) as integers over 2^64: p rounded down, q up."""

    def expected_parts(self) -> tuple[list[Fraction], list[Fraction]]:
        """See `Mechanism`: a report supports the values whose bits are 1."""
        p, q = (fraction(t) for t in self.thresholds)
        return [p] * self.domain.size, [q] * self.domain.size

    def worst_ratio(self) -> Fraction:
        """See `Mechanism`: inputs that differ in two bits (with ``unmatched="none"`` also in one, which is less)."""
        p, q = (fraction(t) for t in self.thresholds)
        return p * (1 - q) / ((1 - p) * q)

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """Codes to rows of bytes, uint8[n, ceil(d / 8)]; `unmatched_code` under ``"none"`` has no true bit."""
        n, d = len(codes), self.domain.size
        width = bits.row_bytes(d)
        p, q = self.thresholds
        rows = np.empty((n, width), np.uint8)
        step = max(_BLOCK // width, 1)
        for start in range(0, n, step):
            stop = min(start + step, n)
            rows[start:stop] = noise.rows(start, stop).one_hot_rows(p, q, codes[start:stop], width, _BITS)
        bits.clear_padding(rows, d)
        return rows


_BLOCK = 1 << 19  # bytes of reports made at a time: the random bits are still in a cache for the true one
_BITS = 0  # lane of noise
