"""Reports of which some are no answer: null, or a list of nulls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.arrow import stored
from ldp_core.arrays.types import I64, Bools
from ldp_core.errors import ReportError
from ldp_core.reports.base import Native, ReportFormat
from ldp_core.reports.bits import Bits, rows_of


@dataclass(frozen=True)
class Nullable(ReportFormat):
    """Reports of ``inner``, or null; in place of a list (bit vectors) a list of nulls.

    (pyarrow does not read a null fixed-size list from Parquet: apache/arrow#35692, seen in version 25.0.1.)
    The working layout has rows of (answered, report), where a report that is none is zeros.
    """

    inner: ReportFormat

    nullable: ClassVar[bool] = True

    @override
    def arrow_type(self, *, packed: bool = False) -> pa.DataType:
        return self.inner.arrow_type(packed=packed)

    @override
    def empty(self, n: int) -> Native:
        return self.rows(np.zeros(n, bool), self.inner.empty(0))

    @override
    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        shown = self.inner.to_arrow(np.ascontiguousarray(reports["report"]), packed=packed)
        return _with_nulls(shown, reports["answered"])

    @override
    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        return self.rows(*self.answers(reports, column=column))

    def answers(self, reports: pa.Array, *, column: str = "reports") -> tuple[Bools, Native]:
        """Which reports are answers, and these alone in the working layout of ``inner``."""
        self.inner.from_arrow(reports[:0], column=column)  # of the right type, before any are taken
        answered = _answered(reports, column)
        there = reports if answered.all() else _taken(reports, positions(answered))
        return answered, self.inner.from_arrow(there, column=column)

    def rows(self, answered: Bools, answers: Native) -> Native:
        """Rows of (answered, report) from answers, in the working layout of ``inner``."""
        rows = np.zeros(len(answered), [("answered", bool), ("report", answers.dtype, answers.shape[1:])])
        rows["answered"] = answered
        rows["report"][positions(answered)] = answers
        return rows

    @override
    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        out = np.empty(len(reports), object)  # None where there is no answer
        out[:] = self.to_arrow(reports, packed=packed).to_pylist()
        return out


def positions(mask: Bools) -> I64:
    """Positions, with which to index is several times as fast as with the mask itself."""
    return np.flatnonzero(mask)


def _answered(reports: pa.Array, column: str) -> Bools:
    """Which reports are answers."""
    there = _valid(reports)
    if not pa.types.is_fixed_size_list(reports.type) or not (items := reports.flatten()).null_count:
        return there
    size = reports.type.list_size
    at = items.offset + size * np.arange(len(items) // size)  # of the first items, whose bits alone are read
    validity = np.frombuffer(items.buffers()[0], np.uint8)
    first = (validity[at // 8] >> (at % 8).astype(np.uint8) & np.uint8(1)).view(bool)
    if items.null_count != size * np.count_nonzero(~first):
        raise ReportError(f"column {column!r}: a list is an answer, or all its items are null; some lists hold both")
    answered = there.copy()
    answered[positions(there)] = first
    return answered


def _taken(array: pa.Array, at: I64) -> pa.Array:
    """The elements ``at`` these positions, none of which is null; several times as fast as `filter` or `drop_null`."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(_taken(array.indices, at), array.dictionary, safe=False)
    if pa.types.is_integer(kind):
        values = stored(array, len(array), str(kind))
        return pa.array(values.take(at), kind)
    if pa.types.is_fixed_size_list(kind) and pa.types.is_boolean(kind.value_type):  # Arrow takes bit after bit
        size = kind.list_size
        lists = pa.FixedSizeListArray.from_arrays(array.values.slice(array.offset * size, len(array) * size), size)
        return Bits(size).to_arrow(rows_of(lists, size)[at])
    return array.take(pa.array(at))


def _valid(array: pa.Array) -> Bools:
    """Which elements are not null; ten times as fast as `is_valid`."""
    validity = array.buffers()[0]
    if validity is None or not array.null_count:
        return np.ones(len(array), bool)
    bits = np.frombuffer(validity, np.uint8)
    return np.unpackbits(bits, count=array.offset + len(array), bitorder="little")[array.offset :].view(bool)


def _with_nulls(array: pa.Array, valid: Bools) -> pa.Array:
    """A new array, without nulls and offset, with nulls, or lists of nulls, where it is not ``valid``."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(_with_nulls(array.indices, valid), array.dictionary, safe=False)
    if pa.types.is_fixed_size_list(kind):
        items = _with_nulls(array.values, np.repeat(valid, kind.list_size))
        return pa.Array.from_buffers(kind, len(array), [None], children=[items])
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(array), [validity, array.buffers()[1]])
