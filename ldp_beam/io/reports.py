"""Reports into Parquet files, with the plan that made them; nothing else is written under it."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.parquetio import WriteToParquetBatched
from apache_beam.pvalue import PCollection
from typing_extensions import override

from ldp_core import DtypeError, PlanError, PrivacyPlan
from ldp_core.plans.plan import PLAN_WAYS


class WriteReports(beam.PTransform[Any, Any]):
    """Batches of reports into Parquet files with their plan, which Polars (`ldp_polars.read_plan`) and Beam read.

    Text is written as text: of a dictionary Polars could not tell that it holds reports.

    Elements are the ``pyarrow.RecordBatch`` (or Table) of ``Perturb(plan)``, perhaps filtered, sliced or read from a
    message. Every batch must say of each planned column that it holds reports of the plan's mechanism; see
    `PrivacyPlan.check_reports`. Of single records (dict, ``beam.Row``) nothing says so: perturb batches, or make
    batches of them and take `PrivacyPlan.assume_reports`, which warns.

    Args:
        file_path_prefix: of the files, on any file system that Beam knows.
        plan: that made the reports; it is written into each file.
        schema: of the records: the types of the columns that the plan keeps.
        packed: as of `Perturb`: whether bit vectors are 64-bit words.
        options: of ``beam.io.WriteToParquetBatched``; the file names end in ``.parquet`` if they do not say otherwise.

    Errors while the pipeline runs: `PlanError` (raw values, or columns that the plan does not name),
    `MechanismMismatchError` (another mechanism's reports), `DtypeError` (no batch).

    Raises:
        PlanError: not a plan; or the schema lacks a column of it.

    >>> import tempfile
    >>> from ldp_beam import Perturb
    >>> from ldp_core import RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    >>> events = pa.record_batch({"crashed": [True, False]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with beam.Pipeline("FnApiRunner") as p:
    ...         reports = p | beam.Create([events]) | Perturb(plan)
    ...         _ = reports | WriteReports(f"{folder}/part", plan, events.schema, shard_name_template="")
    ...     PrivacyPlan.from_metadata(pa.parquet.read_schema(f"{folder}/part.parquet").metadata) == plan
    True
    """

    def __init__(
        self, file_path_prefix: str, plan: PrivacyPlan, schema: pa.Schema, *, packed: bool = False, **options: Any
    ) -> None:
        super().__init__()
        if not isinstance(plan, PrivacyPlan):
            raise PlanError(f"plan must be a PrivacyPlan, got {type(plan).__name__}: {PLAN_WAYS}")
        self._plan = plan
        names = plan.schema(schema, packed=packed)
        plain = pa.schema(
            f.with_type(pa.string()) if f.name in plan.columns and pa.types.is_dictionary(f.type) else f for f in names
        )
        self._schema = plan.with_proof(plain, seeded=plan.seed is not None)
        self._write = WriteToParquetBatched(
            file_path_prefix, self._schema, **{"file_name_suffix": ".parquet", **options}
        )

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        tables = pcoll | "Check" >> beam.Map(_checked, self._plan, self._schema).with_output_types(pa.Table)
        return tables | "Write" >> self._write

    @override
    def display_data(self) -> dict[str, Any]:
        return {"plan": self._plan.fingerprint}


def _checked(reports: Any, plan: PrivacyPlan, schema: pa.Schema) -> pa.Table:
    """A batch as a table of the file's schema.

    Raises:
        LdpError: it may not be written under the plan.
    """
    if not isinstance(reports, (pa.RecordBatch, pa.Table)):
        raise DtypeError(
            "reports are written from a pyarrow.RecordBatch or Table, which says how they were made, "
            f"got {type(reports).__name__}: perturb batches, or see PrivacyPlan.assume_reports"
        )
    plan.check_columns(reports.schema.names)
    plan.check_reports(reports.schema)
    table = reports if isinstance(reports, pa.Table) else pa.Table.from_batches([reports])
    columns = [
        _of_type(table[field.name], field.type) if field.name in plan.columns else table[field.name] for field in schema
    ]
    wrong = [field.name for field, column in zip(schema, columns, strict=True) if column.type != field.type]
    if wrong:
        raise PlanError(f"columns {wrong} are of other types than schema= and packed= say")
    return pa.Table.from_arrays(columns, schema=schema)


def _of_type(reports: pa.ChunkedArray, to: pa.DataType) -> pa.ChunkedArray:
    """Text of the one type: it is a dictionary in the reports of the core, and large in those of Polars."""
    text = pa.types.is_dictionary(reports.type) or pa.types.is_large_string(reports.type)
    return reports.cast(to) if text and pa.types.is_string(to) else reports
