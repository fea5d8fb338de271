"""Files of records and of reports: as Arrow for what needs no Polars, as lazy frames for what does."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from functools import partial
from glob import escape
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from typing_extensions import override

from ldp_cli.printing import note
from ldp_core import InputError, LimitError, ParameterError, PlanError, PrivacyPlan, engine
from ldp_core.engine import (
    PARQUET,
    DrawnColumn,
    disk_error,
    enough_to_differ,
    import_extra,
    of_folders,
    open_parquet,
    refuse_reports,
    replacing,
)

if TYPE_CHECKING:
    import polars as pl

_FORMATS = dict.fromkeys(PARQUET, "parquet") | {".csv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson"}


def format_of(path: str) -> str:
    """``"parquet"``, ``"csv"`` or ``"ndjson"``, by the name; a folder is one of Parquet files."""
    if os.path.isdir(path):
        return "parquet"
    found = _FORMATS.get(Path(path).suffix.lower())
    if found is None:
        raise ParameterError(f"{path!r}: files are {', '.join(_FORMATS)}, by the end of their names")
    return found


def files_of(path: str) -> list[str]:
    """The files of a path, a folder or a pattern, which are all there."""
    found = engine.files_of(path)
    if not all(map(os.path.isfile, found)):
        raise InputError(f"there is no file {path!r}")
    return found


def refuse_same(
    sources: Iterable[str], plan: PrivacyPlan | None = None, *, repeats: int | None = None, person: str | None = None
) -> None:
    """Raise `ParameterError` if a file is there twice, by whatever name, or, unless people are, a copy of it.

    Of few reports two files may be the same by chance. ``plan`` is that of files that have none.
    """
    sized: dict[int, set[Path]] = {}
    for source in sources:
        for file in {Path(file).resolve() for file in files_of(source)}:
            alike = sized.setdefault(file.stat().st_size, set())
            if file in alike:
                raise ParameterError(f"files of {source!r} are there twice: give the reports of other people each")
            alike.add(file)
    if person is not None or (repeats or 1) > 1:  # (keyed reports of one day may be those of another)
        return
    found: dict[bytes, Path] = {}
    for file in sorted(file for alike in sized.values() if len(alike) > 1 for file in alike):
        with file.open("rb") as opened:
            first = found.setdefault(hashlib.file_digest(opened, "sha256").digest(), file)
        if first is file:
            continue
        made = our_polars().read_plan(file) if plan is None else plan
        if (size_of(str(file)) or 0) >= enough_to_differ(made):
            raise ParameterError(f"{file.name!r} is a copy of {first.name!r}, of which people count once: leave it out")


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise `InputError` if something is there that must not be written over."""
    if path.exists() and not overwrite:
        raise InputError(f"{str(path)!r} already exists: --overwrite replaces it")


def check_picture(path: Path | None, *, overwrite: bool) -> None:
    """Raise unless it is the name of a picture, which is not there or may be written over; before all is computed."""
    if path is not None and path.suffix.removeprefix(".").lower() not in _PICTURES:
        raise ParameterError(f"a picture is a file of {', '.join(f'.{kind}' for kind in _PICTURES)}, got {path.name!r}")
    if path is not None:
        refuse_existing(path, overwrite=overwrite)


_PICTURES = ("html", "json", "svg", "png", "pdf")


def save(chart: Any, path: Path) -> None:
    """Write a chart: ``.json`` by Altair, all else by vl-convert; an ``.html`` has all in it that shows it (1 MB)."""
    kind = path.suffix.removeprefix(".").lower()
    if kind != "json":
        import_extra("vl_convert", "plot")
    with replacing(path) as beside:
        chart.save(str(beside), **({"inline": True, "json_kwds": {"cls": _InScript}} if kind == "html" else {}))
    note(f"picture: {path}")


class _InScript(json.JSONEncoder):
    """JSON that may stand within ``<script>``: no value of a stranger ends the element."""

    @override
    def encode(self, o: Any) -> str:
        return super().encode(o).replace("<", "\\u003c")


def batches(path: str, plan: PrivacyPlan, kept: Iterable[str] = ()) -> Iterator[pa.RecordBatch]:
    """The planned columns of records, as Arrow batches, of text as `scan` reads it; ``kept`` ones must be there."""
    names = list(plan.inputs)
    needed = [*names, *kept]
    for file in files_of(path):
        if format_of(file) == "parquet":
            with _reading(file), open_parquet(file) as opened, Path(file).open("rb") as stream:
                _check(file, opened.schema_arrow.names, needed, " of the plan")
                refuse_reports(opened.schema_arrow, names)
                yield from engine.read_batches(opened, stream, names, engine.DEFAULT_LIMITS)
        else:
            to_arrow = our_polars().columns.to_arrow
            frame = having(scan(file, plan), needed, file, " of the plan").select(map(in_periods, names))
            with polars_work(file, frame):
                for part in frame.collect_batches(maintain_order=True):
                    columns = [to_arrow(part[name], inputs.kind) for name, inputs in plan.inputs.items()]
                    yield pa.record_batch(columns, names=names)


def at_most(found: Iterable[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    """Batches that are kept together; a `LimitError` once they take more than a row group may."""
    size, limits = 0, engine.DEFAULT_LIMITS
    for batch in found:
        size += engine.bytes_of(batch)
        if size > limits.row_group_bytes:
            raise LimitError(engine.over(repr(path), size, "bytes when read", "row_group_bytes", limits))
        yield batch


def scan(
    path: str,
    plan: PrivacyPlan | None = None,
    id: str | None = None,  # noqa: A002
    per: Iterable[str] = (),
    reports: PrivacyPlan | None = None,
) -> pl.LazyFrame:
    """A lazy frame of a file, a folder of Parquet files, or a pattern.

    In CSV texts of the plan, dates and ids are text, whatever they look like: 007 is not 7, and a person's id is of one
    type in all files, as keyed noise needs. Numbers and Booleans are of the type of the plan, also after many empty
    fields, or whole numbers; Booleans may be 0 and 1, which the first 100 records then say. Of kept columns and
    those of ``per`` see `_other_than_written`. ``reports`` is the plan of reports, of which texts are text, too. (Of
    Polars an empty line is a record of nulls.)
    """
    polars: Any = import_extra("polars", "polars")
    found = files_of(path)
    form = format_of(found[0])
    if form == "parquet":
        names = None if plan is None else list({*plan.inputs, *plan.keep, *per, *([] if id is None else [id])})
        for file in found:
            with _reading(file), open_parquet(file) as opened, Path(file).open("rb") as stream:
                if plan is not None:  # Polars does not show what a schema says of plain columns
                    refuse_reports(opened.schema_arrow, plan.inputs)
                engine.check_parquet(opened, stream, names, engine.DEFAULT_LIMITS)
        return polars.scan_parquet(found, glob=False)
    for file in found:
        _refuse_without_lines(file, form)
        if form == "csv":
            _refuse_other_lines(file)
    kinds = ({} if id is None else {id: "str"}) | ({} if plan is None else {n: i.kind for n, i in plan.inputs.items()})
    kinds |= {} if reports is None else dict.fromkeys(_of_text(reports), "str")
    if form == "ndjson":
        with polars_work(path):
            sources = [_unmarked(file) for file in found]
            each = [polars.scan_ndjson(one, infer_schema_length=None) for one in sources]  # some come late
            there = dict(polars.concat(each, how="diagonal_relaxed").collect_schema())
            first = polars.scan_ndjson(sources[0]).collect_schema()  # so that 7 and then "7" is an error: two ids
        there |= {name: kind for name, kind in first.items() if kind != polars.Null}
        there |= {name: polars.Float64 for name, kind in kinds.items() if kind == "float" and name in there}
        if id is not None and there.get(id) == polars.String:
            for file, one in zip(found, sources, strict=True):
                _refuse_numbers(file, one, id)
        return polars.concat([polars.scan_ndjson(one, schema=there) for one in sources])
    said = {"str": polars.String, "date": polars.String, "float": polars.Float64, "int": polars.Int64}
    dtypes = {name: said[kind] for name, kind in kinds.items() if kind in said}
    read = partial(polars.scan_csv, found, try_parse_dates=True, glob=False)
    with polars_work(path):
        there = read(schema_overrides=dtypes).collect_schema()
        dtypes |= _other_than_written(found, there, kinds, None if plan is None else [*plan.keep, *per])
        flags = [name for name, kind in kinds.items() if kind == "bool" and name in there]
        # (the first file's: of all files one of names alone says text)
        head = polars.scan_csv(found[0], glob=False).collect_schema() if flags else {}
    bits = [name for name in flags if name in head and head[name].is_integer()]
    frame = read(schema_overrides=dtypes | dict.fromkeys(flags, polars.Boolean) | dict.fromkeys(bits, polars.Int64))
    asked = polars.selectors.by_name(bits).replace_strict([0, 1], [False, True], return_dtype=polars.Boolean)
    return frame.with_columns(asked) if bits else frame


def _refuse_without_lines(file: str, form: str) -> None:
    with Path(file).open("rb") as text:
        start = next(filter(bytes.strip, iter(partial(text.read, _SAMPLE), b"")), b"")
    if not start:
        expected = "an object of JSON in each line" if form == "ndjson" else "a line of names, then records"
        raise InputError(f"{file!r} is empty: expected {expected}")
    names, mark, _ = start.partition(b"\r")
    if form == "csv" and mark and names.isascii() and b"\n" not in start:  # (and not compressed: Polars finds none)
        raise InputError(f"{file!r} ends its lines with \\r alone: write \\n, or \\r\\n, at their ends")


def _refuse_other_lines(file: str) -> None:
    """Lines of CSV with more fields than the first, or fewer, or with quotes within a field.

    Of columns that are not all read Polars does not tell: 0,95 would be 0, and the 95 the next column's; and from the
    quotes of 13" to the next ones all would be one line.
    """
    rest, number, lines = b"", 0, _lines(None)
    with suppress(pa.ArrowException, OSError), pa.input_stream(file, compression=_compression(file)) as text:
        for chunk in chain(iter(partial(text.read, _BLOCK), b""), [b"\n"]):  # (what cannot be read, Polars tells)
            rest += chunk
            if not number and (first := lines.match(rest := rest.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n"))):
                number = sum(1 for _ in re.finditer(_FIELD + rb"(?:,|[\r\n]++)", first[0]))
                lines = _lines(number)
            rest = rest[lines.match(rest).end() :].lstrip(b"\r\n") if number else rest
            if len(rest) > _BLOCK:
                break
        if rest:
            raise InputError(
                f"{file!r}: a line has another number of fields than the first, {number}, or quotes within a field: "
                'write what has commas or quotes in it in quotes, and its own quotes twice, as "0,95" and "a 13"" TV", '
                "and all the commas of a line. (ldp run counts such lines and goes on)"
            )


_BLOCK = 1 << 24  # bytes, more than any line has
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^",\r\n]*+)'  # (RFC 4180)


def _lines(fields: int | None) -> Any:
    """Lines of so many fields; or one line of any number."""
    if fields is None:
        return re.compile(rb"%b(?:,%b)*+[\r\n]++" % (_FIELD, _FIELD))
    return re.compile(rb"(?:%b(?:,%b){%d}+[\r\n]++)*+" % (_FIELD, _FIELD, fields - 1))


_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def _compression(file: str) -> str | None:
    with Path(file).open("rb") as opened:
        start = opened.read(4)
    return next((kind for mark, kind in _COMPRESSED.items() if start.startswith(mark)), None)


def _other_than_written(
    found: list[str], there: Mapping[str, Any], planned: Container[str], names: Iterable[str] | None
) -> dict[str, Any]:
    """Of these columns of CSV, or all, texts that Polars takes for numbers or times: groups would be mixed up.

    They have numbers that begin with 0, as 007, or versions, as 1.10 beside 1.9, or texts that are one float, as 1E2
    and 10E1 or more digits than it holds; or dates that do not begin with the year, as 02/01/2024, which may be of
    January or of February.
    """
    polars: Any = import_extra("polars", "polars")
    read = polars.scan_csv(found, schema_overrides=dict.fromkeys(there, polars.String), glob=False)
    names_there = [name for name in (there if names is None else names) if name in there and name not in planned]
    # A first look is a fifth of the whole: of texts as a number is written, of up to 15 digits, no two are one float.
    others = [(~in_periods(name).str.contains(_PLAIN)).any() for name in names_there if there[name].is_numeric()]
    other = read.select(others).collect(engine="streaming").to_dicts()[0] if others else {}
    asked = {}
    for name in names_there:
        text, kind = in_periods(name), there[name]
        if other.get(name) is False:
            continue
        if kind.is_numeric():
            decimals = text.str.extract(r"^[^.eE]*\.?(\d*)$").str.len_chars()  # (null of 1e-5)
            longer = text.str.contains(r"\.\d+0$").any()  # (than the number: 1 where all have as many decimals)
            versions = longer & (decimals.min() != decimals.max())
            wrong = text.str.contains(r"^[+-]?0\d").any() | versions
            if kind.is_float():
                same = text.str.replace(r"^-(0\.?0*)$", "$1").str.replace(r"\.0$", "")
                wrong |= same.hash().n_unique() != text.cast(polars.Float64, strict=False).n_unique()
            asked[name] = polars.when(wrong).then(2).otherwise(longer.cast(polars.Int32))
        elif kind in (polars.Date, polars.Datetime):
            asked[name] = 2 * (~text.str.contains(r"^\d{4}")).any().cast(polars.Int32)
    if not asked:
        return {}
    [row] = read.select(one.alias(name) for name, one in asked.items()).collect(engine="streaming").to_dicts()
    if names is not None and (shorter := [name for name, wrong in row.items() if wrong == 1]):
        note(f"kept columns {shorter} are numbers, of which 1.10 becomes 1.1: write names, as versions, as v1.10")
    return {name: polars.String for name, wrong in row.items() if wrong == 2}


_PLAIN = r"^-?(0|[1-9]\d{0,14}|(0|[1-9]\d{0,6})\.(0|\d{0,7}[1-9]))$"


def _refuse_numbers(file: str, source: Any, id: str) -> None:  # noqa: A002 (as in `scan`)
    """Of ids that Polars takes for text, because some are: those that are numbers elsewhere would be other persons'."""
    polars: Any = import_extra("polars", "polars")
    with polars_work(file):
        numbers = polars.scan_ndjson(source, schema={id: polars.Float64}, ignore_errors=True)  # (null: all else)
        mixed = numbers.select(polars.all().is_not_null().any()).collect().item()
    if mixed:
        raise InputError(
            f'{file!r}: some ids {id!r} are texts and some numbers; 7 and "7" are two ids: write all alike'
        )


def _unmarked(file: str) -> Any:
    """A file as Polars reads it: of one that begins with a mark of UTF-8 the bytes behind it."""
    with Path(file).open("rb") as text:
        return text.read() if text.read(3) == codecs.BOM_UTF8 else escape(file)  # (a name is no pattern)


def having(frame: pl.LazyFrame, names: Iterable[str | None], path: str, whose: str = "") -> pl.LazyFrame:
    """The frame, if it has these columns."""
    with polars_work(path):
        _check(path, frame.collect_schema().names(), [name for name in names if name is not None], whose)
    return frame


def on_calendar(frame: pl.LazyFrame, event_time: str | None, path: str) -> pl.LazyFrame:
    """The frame, in which a time near an end of the calendar, as 9999-12-31 for never, is none: no window has it."""
    polars: Any = import_extra("polars", "polars")
    if event_time is None:
        return frame
    dtype = frame.collect_schema()[event_time]
    if not isinstance(dtype, (polars.Date, polars.Datetime)):
        return frame
    unit = 86_400 * _A_SECOND[dtype.time_unit] if isinstance(dtype, polars.Datetime) else 1
    most = (1 << (31 if unit == 1 else 63)) - 1
    ends = [max(min(day.toordinal() - _EPOCH, most // unit), -most // unit) * unit for day in _CALENDAR]
    time = in_periods(event_time)
    there = time.to_physical().is_between(*ends)  # (there are times of which no year is known)
    with polars_work(path):
        beyond = frame.select((~there).sum()).collect().item()
    if beyond:
        note(f"{path}: {beyond:,} records have a time before the year 100 or after 9900, which is taken for none")
        frame = frame.with_columns(polars.when(there).then(time))
    return frame


_CALENDAR, _EPOCH = (date(100, 1, 1), date(9901, 1, 1)), date(1970, 1, 1).toordinal()
_A_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


def are_alike(one: PrivacyPlan, other: PrivacyPlan, names: Iterable[str]) -> bool:
    """Whether two plans perturb each of these columns alike, and by itself."""
    pairs = [(one.columns.get(name), other.columns.get(name)) for name in names]
    return all(a == b and a is not None and not isinstance(a, DrawnColumn) for a, b in pairs)


def together(path: str, names: Iterable[str | None]) -> pl.LazyFrame:
    """These columns of files that may have different others."""
    polars: Any = import_extra("polars", "polars")
    needed = [name for name in dict.fromkeys(names) if name is not None]
    each = [having(scan(file), needed, file).select(map(in_periods, needed)) for file in files_of(path)]
    first, *more = [frame.collect_schema() for frame in each]
    if wrong := [name for name in needed if any(there[name] != first[name] for there in more)]:
        raise InputError(f"{path!r}: columns {wrong} are not of one type in all files{_UNLIKE}")
    return polars.concat(each)


_UNLIKE = " (bits may be packed, or noise keyed, in some): take them one by one, or reports together by ldp pool"


def _of_text(plan: PrivacyPlan) -> list[str]:
    """The columns of which reports are text."""
    polars: Any = import_extra("polars", "polars")
    report_dtype = our_polars().columns.report_dtype
    return [name for name, m in plan.columns.items() if isinstance(report_dtype(m, packed=False), polars.Enum)]


def as_reports(frame: pl.LazyFrame, plan: PrivacyPlan) -> pl.LazyFrame:
    """The frame; lists and integers of other programs are cast to the dtypes of the plan's reports, if they fit."""
    polars: Any = import_extra("polars", "polars")
    there, fitting = frame.collect_schema(), {}
    for name, packed in product(there.keys() & plan.columns, (False, True)):
        got, dtype = there[name], our_polars().columns.report_dtype(plan[name], packed=packed)
        listed = [isinstance(one, (polars.List, polars.Array)) for one in (got, dtype)]
        has, wants = (one.inner if of else one for one, of in zip((got, dtype), listed, strict=True))
        if listed[0] == listed[1] and (has == wants or (has.is_integer() and wants.is_integer())):
            fitting[name] = in_periods(name).cast(dtype)
    return frame.with_columns(fitting.values())


def size_of(path: str) -> int | None:
    """Number of records, of text by its bytes and its first lines; None if it is not known: files may be broken."""
    records = 0.0
    with suppress(pa.ArrowException, OSError, ValueError):
        for file in files_of(path):
            if format_of(file) == "parquet":
                with open_parquet(file) as opened:
                    records += opened.metadata.num_rows
            else:
                with Path(file).open("rb") as text:
                    start = text.read(_SAMPLE)
                records += start.count(b"\n") * max(Path(file).stat().st_size / max(len(start), 1), 1)
        return round(records)
    return None


_SAMPLE = 1 << 20


def check_columns(names: Iterable[str], there: Iterable[str]) -> None:
    """Raise `PlanError` if the reports do not have these columns."""
    if unknown := sorted({*names} - {*there}):
        raise PlanError(f"the reports have no columns {unknown}; they have {list(there)}")


def counted(frame: pl.LazyFrame, read: list[int], done: Callable[[int], None]) -> pl.LazyFrame:
    """The frame, which while it streams adds to ``read`` how many of its rows have come, and tells it."""

    def tell(rows: pl.DataFrame) -> pl.DataFrame:
        read.append(rows.height)
        done(rows.height)
        return rows

    return frame.map_batches(tell, streamable=True)


def _check(file: str, there: list[str], names: list[str], whose: str) -> None:
    missing = [name for name in names if name not in there]
    if missing:
        # A file of text without a line of names begins with a record.
        files, has = files_of(file), ""
        if format_of(files[0]) == "parquet":
            has = f"; it has {sorted(there)}{of_folders(files, missing)}"
        elif format_of(files[0]) == "csv":
            has = "; commas are between the names in its first line"
        raise InputError(f"{file!r} does not have the columns {missing}{whose}{has}")
    if twice := [name for name in names if there.count(name) > 1 or f"{name}_duplicated_0" in there]:  # (of Polars)
        raise InputError(f"{file!r} has the columns {twice} twice: which one is meant? Rename one of them")


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """What Arrow says of a file may quote it, so it is not passed on."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:  # (a name that is no UTF-8)
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"cannot read {file!r}: {error.strerror}") from None
        why = "it is corrupt, over a limit (docs/input.md), or of another format"
        if isinstance(error, pa.ArrowNotImplementedError):
            why = "it has what Arrow does not read, as integers of 128 bits"
        raise InputError(f"{file!r} cannot be read as parquet: {why}") from None


def our_polars() -> Any:
    """Our package for Polars."""
    import_extra("polars", "polars")
    import ldp_polars  # noqa: PLC0415 (only some commands need it)

    return ldp_polars


def in_periods(name: str, length: str | None = None) -> Any:
    """The expression of a column; of times, the start of the period."""
    from polars import selectors  # noqa: PLC0415 (only here)

    column = selectors.by_name(name)  # (pl.col reads patterns)
    return column if length is None else our_polars().window_start(column, length)


def plan_of_columns(plan: PrivacyPlan, wanted: Mapping[str, Any], kept: Container[Any]) -> PrivacyPlan:
    """The plan of some columns: of those of which a record answers one there are all or none."""
    columns = {c: wanted.get(c, m) for c, m in plan.columns.items() if c in wanted or isinstance(m, DrawnColumn)}
    return PrivacyPlan(columns, keep=[name for name in plan.keep if name in kept], seed=plan.seed)


@contextmanager
def polars_work(what: str, data: pl.LazyFrame | None = None) -> Iterator[None]:
    """What Polars says of data may quote them, so only its kind and the columns are passed on; ours go through."""
    polars: Any = import_extra("polars", "polars")
    try:
        yield
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        if (full := disk_error(error)) is not None:
            raise full from None  # (`replacing` knows which file it was)
        if data is not None and (wrong := _misread(data)):
            raise InputError(
                f"{what}: some records do not have the types of the plan, or of the first records, {wrong}: write "
                "numbers as 3 or 2.5, Booleans as true and nothing where one is missing, or declare these texts"
            ) from None
        remedy = ""
        if isinstance(error, polars.exceptions.SchemaError) or str(error).startswith("schema "):  # the second is of CSV
            remedy = f"; of several files not all have the same columns and types in one order{_UNLIKE}"
        elif str(error).startswith("invalid utf-8"):
            remedy = '; it is no text in UTF-8: spreadsheets save it as "CSV UTF-8", and iconv makes it of other text'
        raise InputError(
            f"{what}: Polars could not read or write the data ({type(error).__name__}); its message is left out, as it "
            f"may quote them{remedy}"
        ) from None
    except OSError as error:
        about = f"{what}: {error.filename!r}" if error.filename else what
        raise disk_error(error) or InputError(f"{about}: {error.strerror or type(error).__name__}") from None


def _misread(data: pl.LazyFrame) -> dict[str, str]:
    """Columns that Polars cannot read even alone, and their types, none of them text: that is a broken file."""
    polars: Any = import_extra("polars", "polars")
    found = {}
    for name, dtype in data.collect_schema().items():
        if dtype != polars.String:
            try:
                data.select(in_periods(name)).null_count().collect(engine="streaming")
            except (polars.exceptions.PolarsError, polars.exceptions.PanicException):
                found[name] = engine.type_words(dtype)
    return found
