"""What a report format is: one kind of report in Arrow, in numpy, and in the layout in which mechanisms work."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ldp_core.arrays.types import of_floats, type_words
from ldp_core.errors import ParameterError, ReportError
from ldp_core.parameters import Declared

Native: TypeAlias = npt.NDArray[Any]
"""Reports in a mechanism's working layout: an array with one row (or element) a report."""


class ReportFormat(Declared, ABC):
    """A frozen value. Reports go out by `to_arrow` or `to_numpy`, and come in, checked, by `from_arrow`."""

    nullable: ClassVar[bool] = False
    """Whether a report may be null, or hold nulls: no answer, by a draw that no value has a part in."""

    @abstractmethod
    def arrow_type(self, *, packed: bool = False) -> pa.DataType:
        """Arrow type of a report column. ``packed`` concerns bit vectors only."""

    @property
    def width(self) -> int:
        """Elements of a report in the working layout."""
        return 1

    @abstractmethod
    def empty(self, n: int) -> Native:
        """Room for ``n`` reports in the working layout."""

    @abstractmethod
    def to_arrow(self, reports: Native, *, packed: bool = False) -> pa.Array:
        """Reports as an Arrow array of `arrow_type`."""

    @abstractmethod
    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Native:
        """Inverse of `to_arrow`, in either layout; raise `ReportError` for nulls and for what no report can be."""

    def compiled(self) -> dict[str, Any]:
        """The layout of a report in JSON, as in docs/wire.md; raise `ParameterError` if there is none."""
        raise ParameterError(f"reports of {type(self).__name__} have no form in JSON: send them as Arrow")

    def to_json(self, reports: Native) -> list[Any]:
        """Each report as a value of JSON: as it is in Arrow, but integers of 64 bits as decimal text."""
        listed: list[Any] = self.to_arrow(reports).to_pylist()
        return [
            str(report) if type(report) is int and self.compiled()["layout"] != "symbol" else report
            for report in listed
        ]

    def from_json(self, reports: Sequence[Any], *, column: str = "reports") -> pa.Array:
        """Inverse of `to_json`, as an Arrow array; raise `ReportError` for what no report can be."""
        kind, layout = self.arrow_type(), self.compiled()["layout"]
        wanted = bool if pa.types.is_boolean(kind) else int if layout == "symbol" else str
        if not all(type(report) is wanted for report in reports):
            raise ReportError(f"column {column!r}: reports in JSON must be {_IN_JSON[wanted]} ({layout})")
        if wanted is str and pa.types.is_integer(kind):
            if not all(_DECIMAL.fullmatch(report) for report in reports):
                raise ReportError(f"column {column!r}: reports in JSON must be integers as decimal text ({layout})")
            reports = list(map(int, reports))
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        try:
            array = pa.array(reports, plain)
        except (pa.ArrowException, OverflowError, UnicodeError):  # half of a surrogate pair is no text
            raise ReportError(f"column {column!r}: reports must be of type {plain}") from None
        self.from_arrow(array, column=column)
        return array

    def to_numpy(self, reports: Native, *, packed: bool = False) -> npt.NDArray[Any]:
        """Reports as a numpy array of the nearest numpy type."""
        return reports


_DECIMAL = re.compile(r"-?[1-9][0-9]{0,19}|0", re.ASCII)
_IN_JSON = {bool: "true or false", int: "integers", str: "texts"}


def other_type(column: str, expected: object, got: object) -> ReportError:
    """To raise for reports of another type, which may be raw values."""
    return ReportError(
        f"column {column!r}: reports must be {expected}, got {type_words(got)}; if these are values, perturb them first"
        f", and cast reports of another program to that{of_floats(got)}"
    )


def refuse_nulls(reports: pa.Array, column: str) -> None:
    """Raise `ReportError` if reports are null, or hold nulls."""
    if pa.types.is_fixed_size_list(reports.type):
        items, wrong = reports.flatten(), reports.null_count  # (null reports have no items here)
        if items.null_count:
            inside = items.is_null().to_numpy(zero_copy_only=False)
            wrong += int(inside.reshape(-1, reports.type.list_size).any(axis=1).sum())
        if wrong:
            raise ReportError(
                f"column {column!r}: {wrong} of {len(reports)} reports are null, or hold nulls: leave these rows out"
            )
    elif reports.null_count:
        raise ReportError(
            f"column {column!r}: {reports.null_count} of {len(reports)} reports are null: leave these rows out"
        )


def refuse_from(reports: npt.NDArray[Any], limit: int, column: str) -> None:
    """Raise `ReportError` unless all unsigned integers are below ``limit``."""
    if len(reports) and int(reports.max()) >= limit:
        wrong = int(np.count_nonzero(reports >= reports.dtype.type(limit)))
        raise ReportError(f"column {column!r}: {wrong} of {len(reports)} reports are not below {limit}")
