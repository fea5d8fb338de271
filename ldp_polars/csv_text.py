"""Reports in CSV files, which have no lists: a vector is the text of its numbers, with a space between two of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from polars import selectors as cs

from ldp_core import PrivacyPlan
from ldp_polars.columns import Report, report_dtype
from ldp_polars.frames import checked_plan, checked_reports


def sink_csv(
    reports: pl.DataFrame | pl.LazyFrame,
    /,
    path: str | Path,
    plan: PrivacyPlan,
    *,
    assume_reports: bool = False,
    **options: Any,
) -> None:
    """Write reports as CSV, which Polars' own ``sink_csv`` refuses; `scan_csv` reads them.

    A bit vector is written as ``1 0 1``, a packed one as the decimal numbers of its words. A CSV file cannot hold the
    plan, as a Parquet file does (`sink_parquet`): keep it beside the file, as ``plan.to_toml()``.

    Args:
        reports, path, plan, assume_reports: see `sink_parquet`, also for errors.
        options: of ``LazyFrame.sink_csv``.

    >>> import polars as pl, ldp_polars, tempfile
    >>> from ldp_core import PrivacyPlan, UnaryEncoding
    >>> plan = PrivacyPlan({"os": UnaryEncoding(["ios", "web"], epsilon=50.0)}, keep=["day"])
    >>> people = pl.LazyFrame({"os": ["ios"] * 500 + ["web"] * 500, "day": [1, 2] * 500})
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     people.ldp.perturb(plan).ldp.sink_csv(file.name, plan)
    ...     reports = ldp_polars.scan_csv(file.name, plan).collect()
    >>> reports.columns, reports.schema["os"]
    (['os', 'day'], Array(Boolean, shape=(2,)))
    """
    lazy = checked_reports(reports, plan, assume_reports)
    schema = lazy.collect_schema()
    lazy.with_columns(
        _text(cs.by_name(name).ext.storage(), dtype.ext_storage())
        for name, dtype in schema.items()
        if isinstance(dtype, Report)
    ).sink_csv(path, **options)


def scan_csv(path: str | Path, plan: PrivacyPlan, *, packed: bool = False, **options: Any) -> pl.LazyFrame:
    r"""Reports that `sink_csv` wrote, as plain columns, lazily; other columns are of the types that Polars finds.

    Nothing in the file says that these are reports: estimates of them take ``assume_reports=True``.

    Args:
        path: of the file, or what else ``pl.scan_csv`` takes.
        plan: the plan that made them.
        packed: whether they were packed when they were written, see `perturb`.
        options: of ``pl.scan_csv``.

    Raises:
        PlanError: at once: a planned column is missing, or ``plan`` is none.
        polars.exceptions.PolarsError: when run: a field is no report in this layout.

    >>> import polars as pl, ldp_polars, tempfile
    >>> from ldp_core import PrivacyPlan, UnaryEncoding
    >>> plan = PrivacyPlan({"os": UnaryEncoding(["ios", "web"], epsilon=1.0)})
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("os\n1 0\n1 1\n0 0\n")
    ...     file.flush()
    ...     ldp_polars.scan_csv(file.name, plan).collect()["os"].to_list()
    [[True, False], [True, True], [False, False]]
    """
    dtypes = {name: report_dtype(m, packed=packed) for name, m in checked_plan(plan).columns.items()}
    read = {name: pl.String() if _is_text(dtype) else dtype for name, dtype in dtypes.items()}
    lazy = pl.scan_csv(path, schema_overrides=read, **options)
    plan.check_columns(lazy.collect_schema().names())
    return lazy.with_columns(_report(cs.by_name(name), dtype) for name, dtype in dtypes.items() if _is_text(dtype))


def _is_text(dtype: pl.DataType) -> bool:
    return isinstance(dtype, (pl.Array, pl.Enum))


def _number(vector: pl.Array) -> Any:
    """What an element of a vector is written as."""
    return pl.UInt8 if vector.inner == pl.Boolean else vector.inner


def _text(reports: pl.Expr, dtype: Any) -> pl.Expr:
    if not isinstance(dtype, pl.Array):
        return reports
    texts = reports.arr.eval(pl.element().cast(_number(dtype)).cast(pl.String))
    return texts.arr.join(" ", ignore_nulls=False)


def _report(texts: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if not isinstance(dtype, pl.Array):
        return texts.cast(dtype)
    elements = texts.str.split(" ").cast(pl.List(_number(dtype))).cast(pl.List(dtype.inner))
    return elements.list.to_array(dtype.size)
