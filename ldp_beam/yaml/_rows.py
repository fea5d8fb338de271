"""The rows of Beam YAML: what a schema tells about a column."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import Row
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.utils.timestamp import Timestamp

from ldp_core import DtypeError, Mechanism, PlanError
from ldp_core.engine import PYTHON_TYPES

Fields = dict[str, Any]

_SCALARS = (bool, int, float, str, bytes, np.generic)


def is_arrow(pcoll: Any) -> bool:
    """Whether elements are Arrow batches, as of `LdpReadParquet`."""
    return pcoll.element_type in (pa.RecordBatch, pa.Table)


def fields_of(pcoll: Any) -> Fields | None:
    """Names and types of the columns; None where there is no schema."""
    if is_arrow(pcoll):
        return None
    try:
        return dict(named_fields_from_element_type(pcoll.element_type))
    except (TypeError, ValueError, AttributeError):
        return None


def check_there(names: Sequence[str | None], fields: Fields) -> None:
    """Raise `PlanError` if a named column is missing."""
    missing = [name for name in names if name is not None and name not in fields]
    if missing:
        raise PlanError(f"there are no columns {missing}; the rows have {sorted(fields)}")


def check_type(name: str, mechanism: Mechanism, fields: Fields) -> None:
    """Raise `DtypeError` if values of the column's type cannot be the mechanism's; types that do not tell pass."""
    declared = fields[name]
    several = [t for t in typing.get_args(declared) if t is not type(None)]
    if len(several) == 1 and type(None) in typing.get_args(declared):
        declared = several[0]
    of_labels = mechanism.inputs.kind
    if isinstance(declared, type) and issubclass(declared, _SCALARS) and declared not in PYTHON_TYPES[of_labels]:
        raise DtypeError(f"column {name!r}: {mechanism.name} needs {of_labels} values, not {declared.__name__}")


_OF_FILES = {pa.string(): str, pa.int64(): np.int64, pa.float64(): np.float64, pa.bool_(): bool}


def schema_fields(schema: pa.Schema) -> list[tuple[str, Any]]:
    """What a Beam schema calls the columns of a text file; times are Beam's `Timestamp`."""
    kinds = [(field, _OF_FILES.get(field.type, Timestamp)) for field in schema]
    return [(field.name, typing.Optional[kind] if field.nullable else kind) for field, kind in kinds]  # noqa: UP045


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The records of a batch, one by one, for steps that are not of this package."""
    columns = [_plain(column) for column in batch.columns]
    return (Row(**dict(zip(batch.schema.names, values, strict=True))) for values in zip(*columns, strict=True))


def _plain(column: pa.Array) -> list[Any]:
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    return [None if v is None else Timestamp(micros=v) for v in column.cast(pa.int64()).to_pylist()]
