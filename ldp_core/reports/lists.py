"""Reports that are rows of as many integers each."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.errors import ReportError
from ldp_core.mechanism import Mechanism, Native, other_type


class Lists(Mechanism):
    """A mechanism whose reports are ``FixedSizeList<item, size>``; in numpy and in the working layout ``[n, size]``."""

    @property
    @abstractmethod
    def row(self) -> tuple[np.dtype[Any], int]:
        """What a report is made of: the type of an item, and how many there are."""

    def report_type(self, *, packed: bool = False) -> pa.DataType:
        """See `row`; ``packed`` changes nothing."""
        item, size = self.row
        return pa.list_(pa.from_numpy_dtype(item), size)

    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """See `Mechanism`."""
        return pa.FixedSizeListArray.from_arrays(pa.array(reports.reshape(-1)), self.row[1])

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`; which rows are reports, a subclass says."""
        expected, kind = self.report_type(), reports.type
        same = pa.types.is_fixed_size_list(kind) and kind.list_size == expected.list_size
        if not same or kind.value_type != expected.value_type:
            raise other_type(column, expected, kind)
        items = reports.flatten()
        if reports.null_count or items.null_count:
            raise ReportError(
                f"column {column!r}: {reports.null_count} of {len(reports)} reports are null, or hold nulls"
            )
        rows: Native = items.to_numpy().reshape(len(reports), expected.list_size)
        return rows

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """See `Mechanism`."""
        return reports
