"""Reports that are one number, a row of as many numbers each, or a value of the domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import Codes
from ldp_core.inputs.domain import Domain
from ldp_core.reports.base import Native, ReportFormat, other_type, refuse_from, refuse_nulls


@dataclass(frozen=True)
class Number(ReportFormat):
    """One unsigned integer below ``limit``, of a dtype of its own in Arrow, in numpy and in the working layout."""

    limit: int
    dtype: np.dtype[Any]

    @override
    def arrow_type(self, *, packed: bool = False) -> pa.DataType:
        return pa.from_numpy_dtype(self.dtype)

    @override
    def empty(self, n: int) -> Native:
        return np.empty(n, self.dtype)

    @override
    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        return pa.array(reports)

    @override
    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        if reports.type != self.arrow_type():
            raise other_type(column, self.arrow_type(), reports.type)
        refuse_nulls(reports, column)
        numbers: Native = reports.to_numpy(zero_copy_only=False)  # (Booleans are bits in Arrow)
        self.check(numbers, column)
        return numbers

    def check(self, numbers: Native, column: str) -> None:
        """Raise `ReportError` for numbers that are no reports."""
        refuse_from(numbers, self.limit, column)


class Word(Number):
    """One ``uint64``, below ``limit``."""

    @override
    def compiled(self) -> dict[str, Any]:
        return {"layout": "word", "limit": str(self.limit)}

    def __init__(self, limit: int) -> None:
        super().__init__(limit, np.dtype(np.uint64))


class Symbol(Number):
    """One of ``limit`` symbols: ``uint8``, or ``uint16`` for more than 256 of them."""

    @override
    def compiled(self) -> dict[str, Any]:
        return {"layout": "symbol", "limit": self.limit}

    def __init__(self, limit: int) -> None:
        super().__init__(limit, np.dtype(np.uint8 if limit <= _BYTE else np.uint16))


_BYTE = 256


class Flag(Number):
    """One Boolean."""

    @override
    def compiled(self) -> dict[str, Any]:
        return {"layout": "flag"}

    def __init__(self) -> None:
        super().__init__(2, np.dtype(bool))

    @override
    def check(self, numbers: Native, column: str) -> None:
        pass  # there is no other


@dataclass(frozen=True)
class Row(ReportFormat):
    """``FixedSizeList<dtype, size>``; in numpy and in the working layout ``dtype[n, size]``."""

    dtype: np.dtype[Any]
    size: int

    @override
    def arrow_type(self, *, packed: bool = False) -> pa.DataType:
        return pa.list_(pa.from_numpy_dtype(self.dtype), self.size)

    @property
    @override
    def width(self) -> int:
        return self.size

    @override
    def empty(self, n: int) -> Native:
        return np.empty((n, self.size), self.dtype)

    @override
    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(pa.array(reports.reshape(-1)), self.size)

    @override
    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        rows = self.rows(reports, column)
        self.check(rows, column)
        return rows

    def rows(self, reports: pa.Array, column: str) -> Native:
        """`from_arrow` without `check`."""
        expected, got = self.arrow_type(), reports.type
        same = pa.types.is_fixed_size_list(got) and got.list_size == self.size
        if not same or got.value_type != expected.value_type:
            raise other_type(column, expected, got)
        refuse_nulls(reports, column)
        return reports.flatten().to_numpy().reshape(len(reports), self.size)

    def check(self, rows: Native, column: str) -> None:
        """Raise `ReportError` for rows that are no reports; here all rows are some."""


@dataclass(frozen=True)
class Value(ReportFormat):
    """A value of ``domain``: of its own Arrow type, text as a dictionary. Codes in the working layout."""

    domain: Domain

    @override
    def compiled(self) -> dict[str, Any]:
        return {"layout": "value"}

    @override
    def arrow_type(self, *, packed: bool = False) -> pa.DataType:
        return self.domain.report_type

    @override
    def empty(self, n: int) -> Codes:
        return np.empty(n, self.domain.code_dtype)

    @override
    def to_arrow(self, reports: Codes, *, packed: bool = False) -> pa.Array:
        return self.domain.decode(reports)

    @override
    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Codes:
        return self.domain.lookup(reports, column=column)

    @override
    def to_numpy(self, reports: Codes, *, packed: bool = False) -> npt.NDArray[Any]:
        return np.array(self.domain.declared.labels)[reports]
