"""Reports of a number and of bits: a hash function and its buckets, or a cohort and a Bloom filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ldp_core.arrays.types import I64, U8, U64
from ldp_core.compute import kernels
from ldp_core.errors import ReportError
from ldp_core.exact import bits as packing
from ldp_core.reports import Native, Row
from ldp_core.reports.bits import clear_padding, row_bytes, row_words


@dataclass(frozen=True)
class NumberedBits(Row):
    """A number below ``limit``, and ``bits`` bits, from the lowest of the next word on.

    ``FixedSizeList<uint64, 1 + ceil(bits / 64)>``; as numpy arrays ``uint64[n, 1 + ceil(bits / 64)]``.
    """

    limit: int
    bits: int

    @classmethod
    def of(cls, limit: int, bits: int) -> NumberedBits:
        """The format for numbers below ``limit`` and so many bits."""
        return cls(np.dtype(np.uint64), 1 + row_words(bits), limit, bits)

    @property
    @override
    def width(self) -> int:
        return row_bytes(self.bits)

    @override
    def check(self, rows: Native, column: str) -> None:
        wrong = rows[:, 0] >= np.uint64(self.limit)
        if self.bits % _WORD:
            wrong |= rows[:, -1] >> np.uint64(self.bits % _WORD) != 0
        count = int(np.count_nonzero(wrong))
        if count:
            raise ReportError(
                f"column {column!r}: {count} of {len(rows)} reports have a number that is not below {self.limit}, or "
                f"bits beyond the {self.bits} that there are"
            )

    def joined(self, numbers: npt.NDArray[Any], rows: U8) -> U64:
        """Reports of these numbers and bits, the latter in the layout of `exact/bits.py` and without padding."""
        clear_padding(rows, self.bits)
        reports = np.zeros((len(rows), self.size), np.uint64)
        reports[:, 0] = numbers
        reports.view(np.uint8)[:, 8 : 8 + rows.shape[1]] = rows
        return reports

    def ones(self, reports: Native) -> I64:
        """How many bits of each report are 1."""
        return np.bitwise_count(reports[:, 1:]).sum(axis=1, dtype=np.int64)

    def cells(self, reports: Native, groups: I64) -> I64:
        """Which of n_groups * limit cells each report belongs to: ``group * limit + number``."""
        cells = groups * self.limit
        cells += reports[:, 0].astype(np.int64)
        return cells

    def sums(self, reports: Native, cells: I64, n_cells: int) -> I64:
        """How many of the reports in each cell have each bit, int64[n_cells, bits]."""
        vectors = reports[:, 1:]
        if len(reports):
            made = np.zeros((n_cells, _WORD * vectors.shape[1]), np.int64)
            if kernels.grouped_column_sums(reports.reshape(-1), 1, cells, made):
                return made[:, : self.bits]
        if self.bits <= _NARROW or n_cells <= _FEW_CELLS or n_cells * vectors.shape[1] > _LONG:
            return self._sums_by_cell(vectors, cells, n_cells)
        out = np.zeros((n_cells, self.bits), np.int64)
        for start in range(0, len(vectors), _ROWS):
            block, of_block = vectors[start : start + _ROWS], cells[start : start + _ROWS]
            sizes = np.bincount(of_block, minlength=n_cells)
            if sizes.max() * n_cells > 2 * len(block):  # few, or not spread as clients draw them (say, sorted)
                out += self._sums_by_cell(block, of_block, n_cells)
            else:
                out += _sums_side_by_side(block, of_block, sizes)[:, : self.bits]
        return out

    def _sums_by_cell(self, vectors: U64, cells: I64, n_cells: int) -> I64:
        rows = np.ascontiguousarray(vectors).view(np.uint8)[:, : row_bytes(self.bits)]
        return packing.grouped_column_sums(np.ascontiguousarray(rows), self.bits, cells, n_cells)


def _sums_side_by_side(vectors: U64, cells: I64, sizes: I64) -> I64:
    """The i-th reports of all cells make one long row, which `bits.column_sums` adds several times as fast."""
    n, words = vectors.shape
    order = np.argsort(cells.astype(np.uint16), kind="stable")
    within = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = np.full((sizes.max(), len(sizes)), n)
    at[within, cells[order]] = order
    padded = np.zeros((n + 1, words), np.uint64)
    padded[:n] = vectors
    rows = padded.take(at, axis=0).view(np.uint8).reshape(len(at), -1)
    return packing.column_sums(rows, len(sizes) * words * _WORD).reshape(len(sizes), -1)


_WORD = 64  # bits
_ROWS = 1 << 17  # reports counted at a time
_LONG = 1 << 11  # words of a long row, of which a cache should hold many
_NARROW, _FEW_CELLS = 32, 8  # bits and cells up to which many short piles are added as fast, or faster
