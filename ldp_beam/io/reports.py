"""Reports into Parquet files, with the plan that made them, and back; nothing else is written under it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from os import PathLike
from random import randrange
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.windowed_value import PaneInfoTiming
from typing_extensions import override

from ldp_beam._compat import sink_of_windows, write_parquet
from ldp_beam.elements.records import NAMESPACE, InWindows, RecordsTransform
from ldp_beam.graph.late import horizon
from ldp_beam.graph.upstream import EndsValues, check_plan, persons_before, refuse_overlapping, refuse_sorted
from ldp_beam.io._files import ReadFileDoFn, check_folder, head_of, parquet_schema
from ldp_beam.io.events import match_files
from ldp_core import DtypeError, LdpError, Limits, ParameterError, PlanError, PrivacyPlan
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import METADATA_KEY, check_made_by, is_text, of_folders


class WriteReports(beam.PTransform[Any, Any]):
    """Batches of reports into Parquet files with their plan, which Polars (`ldp_polars.read_plan`) and Beam read.

    Text is written as text: of a dictionary Polars could not tell that it holds reports.

    Elements are the ``pyarrow.RecordBatch`` (or Table) of ``Perturb(plan)``, perhaps filtered, sliced or read from a
    message. Every batch must say of each planned column that it holds reports of the plan's mechanism; see
    `PrivacyPlan.check_reports`. Single records (dict, ``beam.Row``, NamedTuple) cannot say so: make batches of them,
    and take `PrivacyPlan.assume_reports`, which warns.

    Args:
        file_path_prefix: of the files, on any file system that Beam knows.
        plan: that made the reports; it is written into each file.
        schema: of the records: the types of the columns that the plan keeps.
        packed: as of `Perturb`: whether bit vectors are 64-bit words.
        options: of ``beam.io.WriteToParquetBatched``; the file names end in ``.parquet`` if they do not say otherwise.
            A stream takes ``triggering_frequency=``: of how many seconds of Beam's timestamps a file is. It is written
            when the watermark has passed them. Batches that come later are dropped; the metric ``late`` counts their
            records.

    Errors while the pipeline runs: `PlanError` (raw values, or columns that the plan does not name),
    `MechanismMismatchError` (another mechanism's reports), `DtypeError` (no batch).

    Raises:
        PlanError: not a plan; or the schema lacks a column of it.
        ParameterError: the prefix is a folder's; in a stream no ``triggering_frequency=``, or names without windows;
            the input is, or was, in windows that overlap.
        InputError: see `WriteEstimates`.

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
        check_plan(plan)
        if isinstance(file_path_prefix, str) and not os.path.basename(file_path_prefix):
            raise ParameterError(
                f"file_path_prefix is how names of files begin, as 'reports/part', no folder: got {file_path_prefix!r}"
            )
        self._plan = plan
        names = plan.schema(schema, packed=packed)
        plain = pa.schema(
            f.with_type(pa.string()) if f.name in plan.columns and pa.types.is_dictionary(f.type) else f for f in names
        )
        plan.check_readable()
        self._schema = plan.with_proof(plain, seeded=plan.seed is not None)
        self._options = {"file_path_prefix": file_path_prefix, "file_name_suffix": ".parquet", **options}
        write_parquet(self._schema, self._options)  # (bad options are refused now)
        if isinstance(file_path_prefix, str):  # (and not a value that comes later)
            check_folder(os.path.dirname(file_path_prefix) or os.curdir)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        if not pcoll.is_bounded and not self._options.get("triggering_frequency"):
            raise ParameterError(
                "in a stream WriteReports takes triggering_frequency=, the seconds of Beam's timestamps in one file"
            )
        refuse_overlapping(pcoll)
        refuse_sorted(pcoll, self._plan.inputs)
        fresh = self._schema
        keyed = fresh if self._plan.seed is not None else self._plan.with_proof(fresh, seeded=False, keyed=True)
        schema = keyed if persons_before(pcoll)[1] else fresh
        tables = pcoll | "Check" >> beam.Map(_checked, self._plan, schema, keyed).with_output_types(pa.Table)
        if pcoll.is_bounded:
            return tables | "Write" >> write_parquet(schema, self._options)
        sink, windows = sink_of_windows(schema, self._options), FixedWindows(self._options["triggering_frequency"])
        if not {"W", "V"} & {*sink.shard_name_template} or "U" in sink.shard_name_template:
            raise ParameterError(
                "in a stream shard_name_template= has W or V, the window, and no U, as each file takes the place of "
                f"one of the same name: got {sink.shard_name_template!r}"
            )
        files: Any = InWindows(_WriteWindows(sink), Windowing(windows))
        return (
            tables
            | "Shard" >> beam.FlatMap(_sharded, max(1, sink.num_shards)).with_output_types(tuple[int, pa.Table])
            | "Window"
            >> beam.WindowInto(
                windows,
                trigger=AfterWatermark(late=AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=horizon(windows),
            )
            | beam.GroupByKey()
            | "Write" >> files.with_output_types(str)
        )


def _sharded(table: pa.Table, shards: int) -> Iterator[tuple[int, pa.Table]]:
    """Nothing to the others: after a restart all files of a window are replaced, also where batches go elsewhere."""
    own = randrange(shards)  # noqa: S311 (any does)
    for shard in range(shards):
        yield shard, table if shard == own else table.schema.empty_table()  # (a slice is pickled with all its rows)


class _WriteWindows(beam.DoFn):
    """What a window has at its end into a file: who counts what is late beside it may see another watermark."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._late = Metrics.counter(NAMESPACE, "late")

    @override
    def process(
        self,
        element: tuple[int, Iterable[pa.Table]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[str]:
        shard, tables = element
        if pane.timing == PaneInfoTiming.LATE:
            self._late.inc(sum(table.num_rows for table in tables))
        elif any(True for _ in tables):  # (the last pane of a window that a stream ends in has nothing)
            yield self._sink.write_window(tables, shard, window)


def _checked(reports: pa.RecordBatch | pa.Table, plan: PrivacyPlan, schema: pa.Schema, keyed: pa.Schema) -> pa.Table:
    """A batch as a table of the file's schema, or of ``keyed`` if it says that its noise is."""
    if not isinstance(reports, (pa.RecordBatch, pa.Table)):
        raise DtypeError(
            f"nothing says of single records that they are reports of the plan, got {type(reports).__name__}: perturb "
            "pyarrow batches; for reports that were made elsewhere see PrivacyPlan.assume_reports"
        )
    plan.check_columns(reports.schema.names)
    plan.check_reports(reports.schema)
    makers = [check_made_by(reports.schema.field(name), mechanism) for name, mechanism in plan.columns.items()]
    if any(made is not None and made.keyed for made in makers):
        schema = keyed
    table = reports if isinstance(reports, pa.Table) else pa.Table.from_batches([reports])
    columns = [
        _of_type(table[field.name], field.type) if field.name in plan.columns else table[field.name] for field in schema
    ]
    wrong = [field.name for field, column in zip(schema, columns, strict=True) if column.type != field.type]
    if wrong:
        raise PlanError(f"columns {wrong} are of other types than schema= and packed= say")
    return pa.Table.from_arrays(columns, schema=schema)


def _of_type(reports: Any, to: pa.DataType) -> Any:
    """Text of the one type: it is a dictionary in the reports of the core, and large or a view in those of others."""
    text = pa.types.is_dictionary(reports.type) or is_text(reports.type)
    return reports.cast(to) if text and pa.types.is_string(to) else reports


class ReadReports(RecordsTransform, EndsValues):
    """Parquet files of reports, as `WriteReports` and Polars' ``sink_parquet`` write them -> ``pyarrow.RecordBatch``.

    The plan that made them is read from the files when this is made, and travels with the batches. When
    the pipeline is built, an estimate with another mechanism is refused, and one of keyed reports that does not say how
    often a person is in it.

    Args:
        files: a pattern, or several; globs allowed, on any file system that Beam knows.
        plan: of which the reports must be. None: that of the files, which must be one.
        columns: to read; None: all. Columns that are not asked for cost nothing.
        limits: for the files' row groups.

    Attributes:
        plan: that made the reports: ``Histogram("os", read.plan["os"])``.

    With `with_exception_handling`: ``(batches, dead_letters)``; the rest of a file that cannot be read on is a
    `DeadLetter`. Metrics: counters ``files_read``, ``rows_read`` and ``dead_lettered``.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `InputError`.

    Raises:
        InputError: there are no such files, or one cannot be read.
        PlanError: a file has no plan, or another one; or there is no such column.
        ParameterError: bad arguments.

    >>> import tempfile
    >>> from ldp_beam import Histogram, Perturb
    >>> from ldp_core import RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=50.0)})
    >>> events = pa.record_batch({"crashed": [True, False, True]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with beam.Pipeline("FnApiRunner") as p:
    ...         _ = p | beam.Create([events]) | Perturb(plan) | WriteReports(f"{folder}/part", plan, events.schema)
    ...     read = ReadReports(f"{folder}/part*")
    ...     with beam.Pipeline("FnApiRunner") as p:
    ...         rows = p | read | Histogram("crashed", read.plan["crashed"])
    ...         _ = rows | beam.Map(lambda row: print(row.value, round(row.count)))
    False 1
    True 2
    """

    def __init__(
        self,
        files: str | PathLike[str] | Iterable[str],
        *,
        plan: PrivacyPlan | None = None,
        columns: Iterable[str] | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        super().__init__()
        if plan is not None:
            check_plan(plan)
        self.paths = match_files(files)
        heads = {path: head_of(path, parquet_schema) for path in self.paths}
        for path, head in heads.items():
            found = _plan_of(path, head)
            if plan is None:
                plan = found
            if found != plan:
                came, expected = (_differing(one, other) for one, other in ((found, plan), (plan, found)))
                raise PlanError(
                    f"{path!r} has reports of another plan, with {came} in place of {expected}: "
                    "read the files of one plan at a time"
                )
        assert plan is not None  # noqa: S101 (there is a file at least)
        self.plan = self.made = plan
        distinct = {head.serialize().to_pybytes(): head for head in heads.values()}.values()
        self.said_keyed = {field.name for head in distinct for field in head if _is_keyed(field, plan)}
        self._schema = None
        if columns is not None:
            names = [columns] if isinstance(columns, str) else list(columns)
            missing = [name for name in names if any(name not in head.names for head in heads.values())]
            if missing:
                has = f"the plan has {list(plan)}{of_folders(self.paths, missing)}"
                raise PlanError(f"the files do not have the columns {missing}; {has}")
            self._schema = pa.schema([next(iter(heads.values())).field(name) for name in names])
        self._limits = limits

    @override
    def expand(self, pbegin: Any) -> Any:
        paths = pbegin | "Files" >> beam.Create(self.paths)
        fn = ReadFileDoFn(self._schema, self._dead_letter_tag, self._limits)
        return self._batches(paths, "Read", fn)


def _plan_of(path: str, head: pa.Schema) -> PrivacyPlan:
    metadata = head.metadata or {}
    if METADATA_KEY.encode() not in metadata:
        raise PlanError(
            f"{path!r} does not say which plan made it: WriteReports and ldp_polars do; of reports from elsewhere "
            "PrivacyPlan.assume_reports takes your word"
        )
    try:
        return PrivacyPlan.from_metadata(metadata)
    except LdpError as error:
        reason = str(error)
    raise PlanError(f"{path!r}: the plan in its metadata cannot be read: {reason}")


def _is_keyed(field: pa.Field, plan: PrivacyPlan) -> bool:
    """Whether a column of reports says that its noise is; what it should not say its batches are refused for."""
    with suppress(LdpError):
        made = check_made_by(field, plan[field.name]) if field.name in plan.columns else None
        return made is not None and made.keyed
    return False


def _differing(plan: PrivacyPlan, other: PrivacyPlan) -> str:
    """The columns of a plan that another one does not have in this way."""
    parts = [f"{name!r}: {m.described}" for name, m in plan.columns.items() if other.columns.get(name) != m]
    if plan.keep != other.keep:
        parts.append(f"keep={list(plan.keep)}")
    if plan.seed != other.seed:
        parts.append(f"seed={plan.seed}")
    return ", ".join(parts) or "other declarations"
