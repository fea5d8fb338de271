"""Reports of several columns that are tallied together, row by row: what a table is made from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from typing_extensions import override

from ldp_core.arrays.types import I64, type_words
from ldp_core.errors import ReportError
from ldp_core.exact.composition import History, Spent
from ldp_core.randomizer.tallying import Tallier
from ldp_core.reports import Native, ReportFormat


class RowsOf(Sequence[Any]):
    """Reports of several columns in their working layouts, row by row; what little of an array a tally asks for."""

    def __init__(self, *parts: Native) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: Any) -> RowsOf:
        return RowsOf(*(part[rows] for part in self.parts))

    def take(self, rows: I64, axis: int = 0) -> RowsOf:
        """Some rows."""
        return RowsOf(*(part.take(rows, axis=axis) for part in self.parts))


@dataclass(frozen=True)
class Structs(ReportFormat):
    """Structs of a report of each column, by its name."""

    names: tuple[str, ...]
    formats: tuple[ReportFormat, ...]

    @override
    def arrow_type(self, *, packed: bool = False) -> pa.DataType:
        kinds = [form.arrow_type(packed=packed) for form in self.formats]
        return pa.struct(list(zip(self.names, kinds, strict=True)))

    @override
    def empty(self, n: int) -> Any:
        return RowsOf(*(form.empty(n) for form in self.formats))

    @override
    def to_arrow(self, reports: Any, *, packed: bool = False) -> pa.Array:
        each = zip(self.formats, reports.parts, strict=True)
        return pa.StructArray.from_arrays([form.to_arrow(r, packed=packed) for form, r in each], self.names)

    @override
    def from_arrow(self, reports: pa.Array, *, column: str = "reports") -> Any:
        if not pa.types.is_struct(reports.type) or {*self.names} - {field.name for field in reports.type}:
            raise ReportError(
                f"column {column!r}: reports of several columns are structs of {list(self.names)}, got "
                f"{type_words(reports.type)}"
            )
        fields = dict(zip((field.name for field in reports.type), reports.flatten(), strict=True))
        each = zip(self.names, self.formats, strict=True)
        return RowsOf(*(form.from_arrow(fields[name], column=name) for name, form in each))


class Several(Tallier):
    """What is tallied from reports of several columns of the same records."""

    @property
    @abstractmethod
    def makers(self) -> Mapping[str, Any]:
        """The mechanisms by column of reports."""

    def together(self, spent: Iterable[Any]) -> Any:
        """What a record spends, of what it spends in each column."""
        return sum(spent)

    @override
    def by_column(self, column: str) -> dict[str, Tallier]:
        return dict(self.makers)

    @override
    def joined(self, parts: Sequence[Native]) -> Any:
        return RowsOf(*parts)

    @cached_property
    @override
    def reports(self) -> ReportFormat:
        return Structs(tuple(self.makers), tuple(m.reports for m in self.makers.values()))

    @property
    def epsilon(self) -> float:
        """What a record spends over all columns."""
        return float(self.together(m.epsilon for m in self.makers.values()))

    @property
    def title(self) -> str:
        """What people read."""
        return " and ".join(m.title for m in self.makers.values())

    @property
    def memoized(self) -> bool:
        """Whether one of the mechanisms remembers permanent answers."""
        return any(m.memoized for m in self.makers.values())

    def check_noise(self, *, keyed: bool) -> None:
        """See `Mechanism.check_noise`."""
        for m in self.makers.values():
            m.check_noise(keyed=keyed)

    def spent_by(self, history: History) -> Spent:
        """What reports of all columns spend together; see `Mechanism.spent_by`."""
        return self.together(m.spent_by(history) for m in self.makers.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form: each column's mechanism."""
        return {name: m.to_dict() for name, m in self.makers.items()}

    @override
    def _checked(self, reports: Any, column: str) -> Any:
        if isinstance(reports, pa.ChunkedArray):
            reports = reports.combine_chunks()
        if isinstance(reports, pa.StructArray):
            return self.reports.from_arrow(reports, column=column)
        names = list(self.makers)
        try:
            parts = [reports[name] for name in names]
        except (TypeError, LookupError, ValueError):
            raise ReportError(f"a {self.name} is tallied of a frame, table or mapping with {names}") from None
        checked = [m._checked(part, name) for (name, m), part in zip(self.makers.items(), parts, strict=True)]
        numbers = [len(part) for part in checked]
        if len(set(numbers)) > 1:
            raise ReportError(f"columns {names} have {' and '.join(map(str, numbers))} reports")
        return self.joined(checked)
