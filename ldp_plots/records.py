"""What can be drawn: results of the core, frames and tables of any kind, rows of Beam; all become records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ldp_core import ParameterError, Result
from ldp_core.engine import CHART_FIELDS as FIELDS
from ldp_core.engine import ChartRow as Row
from ldp_core.engine import View, view_of
from ldp_core.engine import chart_row_of as row_of
from ldp_core.engine import chart_text as text


@dataclass(frozen=True)
class Panel:
    """Rows that belong in one picture: of one column, and of one group.

    Attributes:
        column: the estimated column; empty if it is not known.
        group: name and value of what the estimates are by, as text.
        records: the rows, with the columns of ``view``.
        view: which of them to look at.
    """

    column: str
    group: tuple[tuple[str, str], ...]
    records: Sequence[Mapping[str, Any]]
    view: View

    @property
    def rows(self) -> list[Row]:
        """The records, under the names that charts use."""
        return [row_of(record, self.view) for record in self.records]

    def titled(self, title: str) -> str:
        """A title, by default the column, and the group in words."""
        return ", ".join(filter(None, [title or self.column, *(f"{name} {value}" for name, value in self.group)]))

    def one(self, name: str) -> Any:
        """What all rows say in a field, None if it is not known."""
        said = {record.get(FIELDS[name]) for record in self.records}
        return said.pop() if len(said) == 1 else None


def panels(data: Any, *, column: str | None = None, by: str | Iterable[str] = ()) -> list[Panel]:
    """The rows of data, by column and group, in the order in which these come.

    Args:
        data: a result of the core; a Polars or pandas frame, an Arrow table, or whatever else has
            ``__arrow_c_stream__``, with a row an entry, or with columns of structs or lists of them; or an iterable of
            Beam's rows or of mappings.
        column: only this one.
        by: columns, or names in Beam's ``key``, that tell groups apart.

    Raises:
        ParameterError: it cannot be drawn: another kind of data, or missing columns.
    """
    records = _records(data)
    keys = [by] if isinstance(by, str) else list(by)
    if not records:
        raise ParameterError("there is nothing to draw: there are no rows of estimates")
    made: dict[tuple[str, tuple[tuple[str, str], ...]], list[Mapping[str, Any]]] = {}
    for record in records:
        name = text(record[FIELDS["column"]]) if FIELDS["column"] in record else ""
        if column is None or name == column:
            made.setdefault((name, tuple((key, _of_key(record, key)) for key in keys)), []).append(record)
    if not made:
        named = sorted({str(record.get(FIELDS["column"])) for record in records})
        raise ParameterError(f"there is no column {column!r} among the estimates, there are {named}")
    known = data.view if isinstance(data, Result) else None
    return [Panel(name, group, rows, known or _view(rows[0])) for (name, group), rows in made.items()]


def _view(record: Mapping[str, Any]) -> View:
    found = view_of(record)
    if found is None:
        kinds = "value and count, mean, or bucket_start, bucket_end and frequency"
        raise ParameterError(
            f"rows of estimates have {kinds}, with low and high; these have {sorted(map(str, record))}"
        )
    return found


def _of_key(record: Mapping[str, Any], key: str) -> str:
    inner = record.get(
        "key"
    )  # a mapping, or pairs, or records of key and value: as Beam, Arrow and older Polars have it
    pairs = inner.items() if isinstance(inner, Mapping) else inner if isinstance(inner, list) else ()
    of_beam = dict(tuple(pair.values()) if isinstance(pair, Mapping) else pair for pair in pairs)
    if key not in record and key not in of_beam:
        raise ParameterError(f"by names {key!r}, which the estimates do not have; they have {sorted(map(str, record))}")
    return text(record[key] if key in record else of_beam[key])


def _records(data: Any) -> list[Mapping[str, Any]]:
    if isinstance(data, Result):
        about = {FIELDS[name]: getattr(data, name) for name in ("n", "confidence")}
        return [{**about, **record} for record in data.to_arrow().to_pylist()]
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return _flat(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _flat(pa.table(data))
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, Mapping)):
        return [_record(row) for row in data]
    raise ParameterError(
        f"expected an estimate, a frame of estimates, or Beam's rows, got {type(data).__name__}; "
        "of a lazy frame take .collect()"
    )


def _record(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    for method in ("_asdict", "as_dict"):
        if hasattr(row, method):
            made: Mapping[str, Any] = getattr(row, method)()
            return made
    raise ParameterError(f"expected rows of estimates, as Beam makes them, or mappings, got {type(row).__name__}")


def _flat(table: Any) -> list[Mapping[str, Any]]:
    """Records of a table; a column of structs, or of lists of them, becomes a record a struct."""
    nested = [field.name for field in table.schema if _is_nested(field.type)]
    rows: list[Mapping[str, Any]] = table.to_pylist()
    if not nested:
        return rows
    made: list[Mapping[str, Any]] = []
    for row in rows:
        rest = {name: value for name, value in row.items() if name not in nested}
        for name in nested:
            entries = row[name] if isinstance(row[name], list) else [row[name]]
            made += [{**rest, FIELDS["column"]: name, **entry} for entry in entries if entry is not None]
    return made


def _is_nested(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return False  # Beam's key
    inner = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    return bool(pa.types.is_struct(inner)) and inner.get_field_index(FIELDS["low"]) >= 0
