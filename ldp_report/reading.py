"""Files of estimates, as `ldp estimate` and the telemetry job write them, to `Results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import ldp_core as core
from ldp_core import engine
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_report.results import (
    WHOM,
    Results,
    Row,
    ends_in,
    groups_in,
    key_of,
    number_in,
    whole_in,
    whom_in,
    window_of,
    word_of,
)

MOST_ROWS = 200_000  # more rows of estimates than so many are no page to read


def read_results(
    folder: str | PathLike[str], *, plan: core.PrivacyPlan | None = None, most_rows: int = MOST_ROWS
) -> Results:
    """The estimates in a folder, as ``ldp estimate --output`` and the telemetry job write them.

    Files of estimates end in ``.parquet``, ``.csv`` or ``.ndjson``; of two with the same name the first of these is
    read. A file with columns ``reason`` and ``count`` has dead letters. The plan is in `RESULTS`, or in the reports
    under ``reports/``.

    Args:
        folder: the folder, or one file of estimates.
        plan: what the reports were made with, where the folder does not say it.
        most_rows: the most rows of estimates.

    Raises:
        InputError: there are no estimates, or a file cannot be read, or two rows are of one value in one group.
        LimitError: there is more than a page can show.
        PlanError: the plan in the folder is not one, or is not ``plan``.

    >>> import json, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     row = {"value": "ios", "count": 2.5, "low": 1.0, "high": 4.0, "n": 3}
    ...     _ = Path(folder, "os.ndjson").write_text(json.dumps(row))
    ...     read_results(folder).columns["os"][0]["count"]
    2.5
    """
    root = Path(folder)
    if not root.exists():
        raise core.InputError(
            f"there is no folder or file {str(root)!r}: give what `ldp estimate --output` has written"
        )
    files = [root] if root.is_file() else _files(root)
    if not files or files[0].suffix not in _READERS:
        raise core.InputError(f"there are no estimates in {str(root)!r}: files .parquet, .csv or .ndjson")
    found = Results(name=root.resolve().name if root.is_dir() else root.stem)
    beside = (root if root.is_dir() else root.parent) / engine.RESULTS
    if beside.is_file():
        said = engine.read_json(_bytes(beside), f"{beside.name!r}", core.PlanError)
        if not isinstance(said, Mapping):
            raise core.PlanError(f"{str(beside)!r} must be an object of JSON")
        found.plan = core.PrivacyPlan.from_dict(said["plan"]) if isinstance(said.get("plan"), Mapping) else None
        found.confidence = number_in(said.get("confidence"))
        found.covered = ends_in(said.get("covered"))
        found.repeats, found.counted = whole_in(said.get("repeats")), whole_in(said.get("counted"))
        whom = said.get("population")
        found.population = {n: whom_in(one) for n, one in whom.items()} if isinstance(whom, Mapping) else whom_in(whom)
    if plan is not None and found.plan not in (None, plan):
        raise core.PlanError(f"{str(beside)!r} says another plan than the one that is given: leave that out")
    found.plan = found.plan or plan or _plan_of_reports(root)
    left = most_rows
    for file in files:
        rows = _rows(file, left)
        left -= len(rows)
        _take(found, file, rows)
    if not found.columns:
        raise core.InputError(f"there are no estimates in {str(root)!r}: no file has a count, a mean or a share in it")
    for name, rows in found.columns.items():
        _check_told_apart(name, rows)
    if found.plan is not None:  # in the order of the plan
        order = {name: k for k, name in enumerate(found.plan.columns)}
        found.columns = dict(sorted(found.columns.items(), key=lambda item: order.get(item[0], len(order))))
    return found


def _files(root: Path) -> list[Path]:
    """One file for each name: `ldp run` writes Parquet and NDJSON of the same."""
    best: dict[str, Path] = {}
    for suffix in (".ndjson", ".csv", ".parquet"):  # the last one stays
        found = {path.stem: path for path in sorted(root.glob(f"*{suffix}")) if path.is_file()}
        twice = [best[name].name for name in found if name in best and ".csv" in (suffix, best[name].suffix)]
        if twice:
            raise core.InputError(
                f"the folder has {twice[0]!r} and {Path(twice[0]).stem + suffix!r}: which of them is right cannot be "
                "known; remove the one of an earlier run"
            )
        best |= found
    return [best[name] for name in sorted(best)]


def _take(found: Results, file: Path, rows: list[Row]) -> None:
    """Add the rows of a file: letters, estimates of many columns, or of the one that it is named after."""
    letters = found.letters or []
    for row in rows:
        if "reason" in row and "n" not in row:
            if not isinstance(row.get("count"), int):
                raise core.InputError(f"{str(file)!r} must say as a whole number how many dead letters there are")
            letters.append(row)
        elif engine.view_of(row) is not None:
            name = row.get("column_name")
            found.columns.setdefault(unquote(file.stem) if name is None else str(name), []).append(row)
    if letters or (file.stem == engine.DEAD_LETTERS and not rows):
        found.letters = letters


def _check_told_apart(name: str, rows: Sequence[Row]) -> None:
    """Raise `InputError` if a group has two rows of one value: they are of two groups, or of two estimates."""
    view = engine.view_of(rows[0], name) or core.HistogramEstimate.view
    different = {
        (window_of(row), key_of(row, view), *(word_of(row.get(label)) for label in view.labels)) for row in rows
    }
    ends = [(number_in(row.get("low")), number_in(row.get("high"))) for row in rows]
    if any(low is not None and high is not None and low > high for low, high in ends):
        raise core.InputError(f"column {name!r} has intervals whose low end is above the high one: write it again")
    if len(different) < len(rows):
        raise core.InputError(
            f"column {name!r} has two rows of one value in one group: give each estimate a page of its own, and rename "
            "columns of groups that have a name of columns of estimates, as 'epsilon'"
        )


def _bytes(file: Path) -> bytes:
    size = file.stat().st_size
    if size > DEFAULT.bytes:
        raise core.LimitError(f"{file.name!r} has {size:,} bytes, and at most {DEFAULT.bytes:,} are read")
    try:
        return file.read_bytes()
    except OSError as error:
        raise core.InputError(f"cannot read {str(file)!r}: {error.strerror or type(error).__name__}") from None


def _rows(file: Path, most: int) -> list[Row]:
    data = _bytes(file)
    try:
        return _READERS[file.suffix](file, data, most)
    except core.LdpError:
        raise
    # what they say may quote the file (KeyError: a zone that nobody knows)
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError):
        raise core.InputError(f"{str(file)!r} cannot be read: it is corrupt, or of another format") from None


def _of_ndjson(file: Path, data: bytes, most: int) -> list[Row]:
    lines = [line for line in data.splitlines() if line.strip()]
    _check_rows(file, len(lines), most)
    rows = [engine.read_json(line, f"a line of {file.name!r}", core.InputError) for line in lines]
    if not all(isinstance(row, Mapping) for row in rows):
        raise core.InputError(f"{str(file)!r} must have an object of JSON in each line")
    return rows


def _of_csv(file: Path, data: bytes, most: int) -> list[Row]:
    _check_rows(file, data.count(b"\n") - 1, most)
    nulls: dict[str, Any] = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}
    names = pa.csv.open_csv(pa.BufferReader(data)).schema.names
    view = engine.view_of(names)
    words = {"value", "key", *(() if view is None else groups_in(names, view))}  # as they are there: 007 is not 7
    words |= {*view.labels} if view is not None and view.rate else set()
    texts = pa.csv.ConvertOptions(column_types=dict.fromkeys(words, pa.string()), **nulls)
    rows: list[Row] = pa.csv.read_csv(pa.BufferReader(data), convert_options=texts).to_pylist()
    return [{**row, "value": ""} if row.get("value", "") is None else row for row in rows]


def _of_parquet(file: Path, data: bytes, most: int) -> list[Row]:
    with engine.open_parquet(stream := BytesIO(data)) as opened:
        names = opened.schema_arrow.names
        if engine.view_of(names) is None and "reason" not in names:  # (reports, perhaps)
            return []
        metadata = opened.metadata
        _check_rows(file, metadata.num_rows, most)
        text = (metadata.metadata or {}).get(engine.ESTIMATES_KEY.encode(), b"[]")
        said: Any = None
        with suppress(core.LdpError):
            said = engine.read_json(text, "metadata", core.InputError)
        about = {
            str(one.get("column_name")): {"confidence": one.get("confidence"), WHOM: whom_in(one.get("population"))}
            for one in (said if isinstance(said, list) else [])
            if isinstance(one, Mapping)
        }
        rows: list[Row] = []
        read, name = 0, unquote(file.stem)
        try:
            for batch in engine.read_batches(opened, stream, None, core.Limits(row_group_bytes=DEFAULT.bytes)):
                sizes = (engine.bytes_of(column) + engine.spelled_out(column) for column in batch.columns)
                read += sum(max(size, _CELL * batch.num_rows) for size in sizes)
                if read > DEFAULT.bytes:
                    raise core.LimitError
                rows += [{**about.get(str(r.get("column_name", name)), {}), **r} for r in batch.to_pylist()]
        except core.LimitError:
            raise core.LimitError(
                f"{file.name!r} is larger than {DEFAULT.bytes:,} bytes when read, which is the most"
            ) from None
    return rows


_CELL = 16  # bytes at least: nulls have none in Arrow, and are Python's in each row
_READERS = {".ndjson": _of_ndjson, ".csv": _of_csv, ".parquet": _of_parquet}


def _check_rows(file: Path, rows: int, most: int) -> None:
    if rows > most:
        raise core.LimitError(
            f"{file.name!r} has {rows:,} rows of estimates, and a page shows {most:,} at most: "
            "take longer windows, or fewer columns"
        )


def _plan_of_reports(root: Path) -> core.PrivacyPlan | None:
    for file in sorted(root.glob("reports/*.parquet"))[:1]:
        try:
            with engine.open_parquet(file) as opened:
                return engine.plan_of(opened.schema_arrow)
        except (pa.ArrowException, OSError, ValueError):
            return None
    return None
