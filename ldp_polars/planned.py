"""Reports and the plan that made them: whether they belong together, and both in one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from ldp_core import InputError, Mechanism, ParameterError, PlanError, PrivacyPlan, engine
from ldp_polars.columns import Report, as_typed, report_dtype


def sink_parquet(
    reports: pl.DataFrame | pl.LazyFrame,
    /,
    path: str | Path,
    plan: PrivacyPlan,
    *,
    assume_reports: bool = False,
    **options: Any,
) -> pl.LazyFrame | None:
    """Write reports with their plan in the file's metadata, where `read_plan` and the Beam transforms find it.

    Nothing else is written under a plan: the dtype of each planned column must say that it holds reports of the plan's
    mechanism, as it does after ``.ldp.perturb(plan)``, and there must be no column that the plan neither perturbs nor
    keeps.

    Args:
        reports: made by ``plan``; a lazy frame is streamed.
        path: of the file. One that is there is replaced once the new one is whole, but with ``lazy=True``.
        plan: the plan that made them.
        assume_reports: take plain columns for reports **on your word alone**, with an `LdpWarning`: for reports that
            were made elsewhere. If they are raw values, they travel as reports from here on.
        options: of ``LazyFrame.sink_parquet``; with ``lazy=True`` nothing is written before what returns is collected.

    Raises:
        PlanError: at once: a column holds no reports, for all that is known, or is not of their dtype; or it is not in
            the plan; or reports are seeded, and the plan is not; or a kept column holds reports, which would not count
            in the plan's epsilon, or integers of 128 bits.
        ParameterError: at once: ``metadata`` is given.
        MechanismMismatchError: at once: a column's reports were made by another mechanism.
        OSError: the disk is full: make room, and write again.

    >>> import polars as pl, ldp_polars, tempfile
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    >>> reports = pl.LazyFrame({"crashed": [True, False]}).ldp.perturb(plan)
    >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
    ...     ldp_polars.sink_parquet(reports, file.name, plan)
    ...     ldp_polars.read_plan(file.name) == plan
    True
    """
    if "metadata" in options:
        raise ParameterError("the metadata of the file are the plan: leave out metadata=")
    checked = checked_reports(reports, plan, assume_reports)
    plan.check_readable()
    if wide := [name for name, dtype in checked.collect_schema().items() if _is_wide(dtype)]:
        raise PlanError(f"columns {wide} are of 128 bits, which only Polars reads from files: cast them before")
    there = isinstance(path, (str, Path)) and os.path.isfile(file := os.path.expanduser(path))  # (as of Polars)
    there = there and os.access(file, os.W_OK)  # (a file that must not be written is not replaced)
    there = there and not any(map(options.get, ("lazy", "sinked_paths_callback")))  # these are told the path
    try:
        with engine.replacing(Path(file)) if there else nullcontext(path) as where:
            later: pl.LazyFrame | None = checked.sink_parquet(where, metadata=plan.metadata, **options)
    except pl.exceptions.ComputeError as error:
        if (full := engine.disk_error(error)) is None:
            raise
        raise OSError(full.errno, f"{full.strerror}: no whole file was written", str(path)) from None
    return later


def _is_wide(dtype: Any) -> bool:
    """Whether there are integers of 128 bits in it, which Arrow does not read."""
    within = [field.dtype for field in dtype.fields] if isinstance(dtype, pl.Struct) else []
    within += [dtype.inner] if isinstance(dtype, (pl.List, pl.Array)) else []
    return dtype in (pl.Int128, pl.UInt128) or any(map(_is_wide, within))


def checked_reports(reports: pl.DataFrame | pl.LazyFrame, plan: PrivacyPlan, assume_reports: bool) -> pl.LazyFrame:
    """Typed reports of a plan and what it keeps, and nothing else; see `sink_parquet` for arguments and errors."""
    check_reports(reports, plan)
    schema = reports.collect_schema()
    lazy = reports.lazy()
    plain = [name for name in plan.columns if assume_reports and not isinstance(schema[name], Report)]
    if plain:
        lazy = lazy.with_columns(as_typed(name, schema[name], plan[name], plan.seed is not None) for name in plain)
        schema = lazy.collect_schema()
    made = {name: d.made if isinstance(d, Report) else None for name, d in schema.items()}
    plan.check_made(schema.names(), made)
    if plain:
        engine.warn_assumed(plain)
    return lazy


def read_plan(path: str | Path) -> PrivacyPlan:
    """The plan in the metadata of Parquet files of reports.

    Args:
        path: a file; a folder of them, or a pattern (``"out/*.parquet"``), whose files must all have one plan.

    Raises:
        PlanError: a file has no plan, or two have different ones.
        InputError: a file cannot be read as Parquet, or there is none.

    >>> import polars as pl, ldp_polars, tempfile
    >>> from ldp_core import PrivacyPlan, RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
    ...     pl.DataFrame({"crashed": [True, False]}).ldp.perturb(plan).ldp.sink_parquet(file.name, plan)
    ...     ldp_polars.read_plan(file.name).epsilon
    1.0
    """
    plans = {file: _plan_of(file) for file in engine.files_of(path)}
    [first, plan], *others = plans.items()
    for file, other in others:
        if other != plan:
            raise PlanError(f"the files {first!r} and {file!r} have different plans: read them one by one")
    return plan


def _plan_of(file: str) -> PrivacyPlan:
    found = None
    # whatever the bytes lead it to (TypeError: a name with half a surrogate pair, as a shell's that is no UTF-8)
    polars = pl.exceptions.PolarsError, pl.exceptions.PanicException
    with suppress(*polars, pa.ArrowException, OSError, ValueError, TypeError):
        if Path(file).exists():
            engine.open_parquet(file).close()
        found = {k.encode(): v.encode() for k, v in pl.read_parquet_metadata(file).items()}
    if found is None:
        why = "it is not there, corrupt, over a limit (docs/input.md), or of another format"
        raise InputError(f"{file!r} cannot be read as parquet: {why}")
    try:
        return PrivacyPlan.from_metadata(found)
    except PlanError as error:
        raise PlanError(f"{file!r}: {error}") from None


def check_reports(
    reports: pl.DataFrame | pl.LazyFrame, plan: PrivacyPlan | Mapping[str, Mechanism], *texts: type[pl.DataType]
) -> Mapping[str, Mechanism]:
    """Mechanisms by column; a `PlanError` unless the columns are there with the dtypes of the plan's reports.

    In place of an Enum they may be Categorical, or of ``texts``: a String that is written would be text of any kind.
    """
    schema = schema_of(reports)
    if not isinstance(plan, Mapping):
        checked_plan(plan).check_columns(schema.names())
    columns = plan if isinstance(plan, Mapping) else plan.columns
    for name, mechanism in columns.items():
        dtype = schema[name]
        if isinstance(dtype, Report):
            engine.check_same(dtype.mechanism, mechanism, name)
            continue
        plain, packed = (report_dtype(mechanism, packed=packed) for packed in (False, True))
        as_text = isinstance(plain, pl.Enum) and isinstance(dtype, (pl.Categorical, *texts))
        if dtype not in (plain, packed) and not as_text:
            fits = f"{plain}" if packed == plain else f"{plain} or {packed}"
            raise PlanError(
                f"column {name!r}: reports made by this plan are {fits}, got {engine.type_words(dtype)}: no reports. "
                "Values are perturbed first: ldp perturb, or df.ldp.perturb(plan). Reports of another program are cast "
                "to that dtype and taken with assume_reports; ldp estimate --assume-reports casts lists and integers"
                f"{engine.of_floats(dtype)}"
            )
    return columns


def checked_plan(plan: PrivacyPlan) -> PrivacyPlan:
    """The plan; a `PlanError` if it is none."""
    if not isinstance(plan, PrivacyPlan):
        raise PlanError(f"expected a PrivacyPlan, got {type(plan).__name__}: {engine.PLAN_WAYS}")
    return plan


def plan_of(reports: pl.DataFrame | pl.LazyFrame, plan: PrivacyPlan | None) -> PrivacyPlan:
    """The plan; if none is given, that of the typed reports of a frame."""
    return PrivacyPlan(makers_of(reports)) if plan is None else checked_plan(plan)


def makers_of(reports: pl.DataFrame | pl.LazyFrame) -> dict[str, Mechanism]:
    """The mechanisms of the typed reports of a frame, by column; a `PlanError` if there are none."""
    made = {name: dtype.mechanism for name, dtype in schema_of(reports).items() if isinstance(dtype, Report)}
    if not made:
        raise PlanError("no column of the frame is of typed reports: give the plan that made them")
    return made


def schema_of(frame: Any) -> pl.Schema:
    """The columns of a frame; a `ParameterError` if it is none."""
    if not isinstance(frame, (pl.DataFrame, pl.LazyFrame)):
        raise ParameterError(
            f"expected a Polars frame, got {type(frame).__module__.partition('.')[0]}.{type(frame).__name__}: "
            "pl.from_pandas(frame) or pl.from_arrow(table) makes one"
        )
    return frame.collect_schema()
