"""Mechanisms whose reports are another mechanism's: a chain's last round, a sketch's view, a column of several."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from ldp_core.mechanism import Mechanism, Native


class ReportedBy(Mechanism):
    """On the wire, the reports are those of `reporter`."""

    @property
    @abstractmethod
    def reporter(self) -> Mechanism:
        """The mechanism whose reports they are."""

    def report_type(self, *, packed: bool = False) -> pa.DataType:
        """The reporter's."""
        return self.reporter.report_type(packed=packed)

    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """See the reporter."""
        return self.reporter.to_arrow(reports, packed=packed)

    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """See the reporter."""
        return self.reporter.from_arrow(reports, column=column)

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """See the reporter."""
        return self.reporter.to_numpy(reports, packed=packed)
