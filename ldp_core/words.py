"""Reports that are one unsigned 64-bit word each."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.domain import Codes
from ldp_core.errors import ReportError
from ldp_core.mechanism import Mechanism, Native
from ldp_core.randomness import Noise


class Words(Mechanism):
    """A mechanism whose reports are ``uint64``, in Arrow, in numpy and in the working layout."""

    @abstractmethod
    def perturb_block(self, codes: Codes, noise: Noise) -> npt.NDArray[np.uint64]:
        """Codes to uint64[n], for so many records that the intermediate arrays stay in a cache."""

    def perturb_codes(self, codes: Codes, noise: Noise) -> Native:
        """See `perturb_block`."""
        reports = np.empty(len(codes), np.uint64)
        for start in range(0, len(codes), _BLOCK):
            stop = min(start + _BLOCK, len(codes))
            reports[start:stop] = self.perturb_block(codes[start:stop], noise.rows(start, stop))
        return reports

    def report_type(self, *, packed: bool = False) -> pa.DataType:
        """``uint64``; ``packed`` changes nothing."""
        return pa.uint64()

    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """See `Mechanism`."""
        return pa.array(reports)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See `Mechanism`; which words are reports, a subclass says."""
        if reports.type != pa.uint64():
            raise ReportError(f"column {column!r}: reports must be {pa.uint64()}, got {reports.type}")
        if reports.null_count:
            raise ReportError(f"column {column!r}: {reports.null_count} of {len(reports)} reports are null")
        words: npt.NDArray[np.uint64] = reports.to_numpy()
        return words

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """See `Mechanism`."""
        return reports


_BLOCK = 1 << 16  # records
