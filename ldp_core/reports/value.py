"""Reports that are values of the domain themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import Codes
from ldp_core.inputs.domain import Domain
from ldp_core.reports.base import ReportFormat


@dataclass(frozen=True)
class Value(ReportFormat):
    """A value of ``domain``: of its own Arrow type, text as a dictionary. Codes in the working layout."""

    domain: Domain

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
        return np.array(self.domain.arrow_values.to_pylist())[reports]
