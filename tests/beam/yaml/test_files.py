"""Files as rows and as batches, in pipelines of plain text."""

import json

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.utils.timestamp import Timestamp

from ldp_beam.yaml import LdpPerturb, LdpReadCsv, LdpReadNdjson, LdpReadParquet
from ldp_core import InputError, LdpWarning, ParameterError

from .spec import OS, expand

SECRET = "s3cr3t"
SURE_MEAN = {"mechanism": "one_bit_mean", "epsilon": 80.0, "domain": {"low": 0.0, "high": 10.0}}  # of the ends
CSV = (
    "user,os,n,x,crashed,t\n"
    'ann,"NA",1,0.5,true,1970-01-01T00:00:01Z\n'
    "bob,NA,,,,\n"
    'cyd,"",-2,1e3,FALSE,1970-01-01T01:00:00+01:00\n'
    "dan,,3,nan,1,1970-01-01T00:00:00.000001Z\n"
    f"eve,ios,{SECRET},1,true,\n"
    f"eve,ios,4,1,true,{SECRET}\n"
    f"eve,ios,4,1,true,,{SECRET}\n"
)
COLUMNS = {"os": "string", "n": "integer", "x": "number", "crashed": "boolean", "t": "timestamp"}
AS_READ = [
    ("NA", 1, 0.5, True, Timestamp(1)),
    ("NA", None, None, None, None),
    ("", -2, 1000.0, False, Timestamp(0)),
    (None, 3, "nan", True, Timestamp(micros=1)),
]
LETTERS = {
    ("n", "not of type int64"): 1,
    ("t", "not of type timestamp[us, tz=UTC]"): 1,
    ("", "not a line of the schema"): 1,
}


def read(kind, good="Read.good", **config):
    job = {"type": kind, "name": "Read", "config": {**config, "error_handling": {"output": "bad"}}}
    found = expand([job], good=good, bad="Read.bad")
    letters: dict[tuple[str, str], int] = {}
    for letter in found["bad"]:
        key = letter.column_name, letter.reason
        letters[key] = letters.get(key, 0) + letter.count
    return found["good"], letters


def said(values):
    return tuple("nan" if isinstance(v, float) and np.isnan(v) else v for v in values)


def written(folder, content=CSV, name="e.csv"):
    (folder / name).write_text(content)
    return str(folder / name)


def test_csv_as_rows(tmp_path):
    rows, letters = read("LdpReadCsv", path=written(tmp_path), columns=COLUMNS)
    assert sorted((said(getattr(row, name) for name in COLUMNS) for row in rows), key=repr) == sorted(AS_READ, key=repr)
    assert letters == LETTERS


def test_csv_as_batches(tmp_path):
    path = written(tmp_path, name="events-0-of-1")  # whatever its name is
    batches, letters = read("LdpReadCsv", path=path, columns=COLUMNS, batches=True)
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    rows = [tuple(row[name] for name in COLUMNS) for batch in batches for row in batch.to_pylist()]
    assert [said(row[:4]) for row in rows] == [row[:4] for row in AS_READ]
    assert {batch.schema.field("t").type for batch in batches} == {pa.timestamp("us", "UTC")}
    assert letters == LETTERS


def test_a_line_without_what_is_required(tmp_path):
    rows, letters = read("LdpReadCsv", path=written(tmp_path), columns=COLUMNS, required=["os", "x"])
    assert sorted(row.n for row in rows) == [-2, 1]
    assert letters == LETTERS | {("os", "null"): 1, ("x", "null"): 1}


def test_what_is_known_of_the_columns(tmp_path):
    p = beam.Pipeline("FnApiRunner")
    rows = p | LdpReadCsv(path=written(tmp_path), columns=COLUMNS, required=["os", "t"])
    assert dict(named_fields_from_element_type(rows.element_type)) == {
        "os": str,
        "n": np.int64 | None,
        "x": np.float64 | None,
        "crashed": bool | None,
        "t": Timestamp,
    }
    batches = p | "Batches" >> LdpReadCsv(path=written(tmp_path), columns=COLUMNS, batches=True)
    assert batches.element_type is pa.RecordBatch
    for read in (rows, batches):
        _ = read | f"{read}" >> LdpPerturb(plan={"columns": {"os": OS}})


def test_ndjson_to_files_of_means(tmp_path):
    lines = [f'{{"s": {s}, "at": "1970-01-01T0{at}:00:00Z", "more": [1]}}' for s, at in ((0, 0), (0, 1), (10, 1))]
    (tmp_path / "e").write_text("\n".join([*lines, lines[0].replace("0", f'"{SECRET}"', 1), "{}"]))
    source = {"path": str(tmp_path / "e"), "columns": {"s": "number", "at": "timestamp"}, "required": ["at"]}
    for batches in (False, True):
        good, letters = read("LdpReadNdjson", **source, batches=batches)
        found = [row["s"] for one in good for row in (one.to_pylist() if batches else [one._asdict()])]
        assert sorted(found) == [0, 0, 10]
        assert letters == {("s", "not of type double"): 1, ("at", "no such column"): 1}
    mean = {"column": "s", "mechanism": SURE_MEAN, "ask": "mean", "private": True, "window": "1h", "event_time": "at"}
    for form in ("parquet", "ndjson"):
        out = tmp_path / form
        write = {"type": "LdpWriteEstimates", "config": {"path": str(out), "format": form}}
        (tmp_path / "e").write_text("\n".join(lines))
        paths = expand([{"type": "LdpReadNdjson", "config": source}, {"type": "LdpEstimate", "config": mean}, write])
        assert sorted(paths) == sorted(map(str, out.iterdir()))
        files = [pq.read_table(path).to_pylist() if form == "parquet" else lines_of(path) for path in paths]
        rows = [row for file in files for row in file]
        assert sorted((row["n"], round(row["mean"])) for row in rows) == [(1, 0), (2, 5)]


@pytest.mark.parametrize("between", [[], [{"type": "Filter", "config": {"language": "python", "keep": "not crashed"}}]])
def test_values_that_were_read_do_not_count_as_reports(tmp_path, between):
    source = {"path": written(tmp_path, "crashed\ntrue\nfalse\n"), "columns": {"crashed": "boolean"}}
    coin = {"column": "crashed", "mechanism": {"mechanism": "randomized_response", "epsilon": 1.0}}
    for kind in ("LdpReadCsv", "LdpReadNdjson"):
        with pytest.raises(ValueError, match=r"column 'crashed': Read.* reads values, which would count as reports"):
            expand([{"type": kind, "config": source}, *between, {"type": "LdpHistogram", "config": coin}])


def lines_of(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"columns": {}}, "one at least"),
        ({"columns": ["os"]}, "one at least"),
        ({"columns": {"os": "text"}}, "'boolean', 'integer', 'number', 'string', 'timestamp'"),
        ({"columns": {"os": ["string"]}}, "'string'"),
        ({"columns": {5: "string"}}, "text"),
        ({"columns": {"os": "string"}, "required": ["t"]}, r"\['t'\]"),
        ({"columns": {"os": "string"}, "required": {"os": True}}, "list of texts"),
        ({"columns": {"os": "string"}, "batches": "yes"}, "batches"),
        ({"columns": {"os": "string"}, "path": 5}, "pattern"),
        ({"columns": {"\ud800": "string"}, "batches": True}, "surrogate"),
        *(({"columns": {name: "string"}}, "batches=True") for name in ("my os", "", "_x", "class", "self")),
    ],
)
def test_wrong_arguments(tmp_path, config, words):
    with pytest.raises(ParameterError, match=words):
        LdpReadCsv(**{"path": written(tmp_path), **config})
    with pytest.raises(ParameterError, match="surrogate"):
        LdpReadParquet(path=written(tmp_path), columns=["\ud800"])


@pytest.mark.parametrize(
    "make", [lambda path: LdpReadCsv(path=path, columns=COLUMNS), lambda p: LdpReadParquet(path=p)]
)
def test_files_that_are_not_there(tmp_path, make):
    with pytest.raises(InputError, match="no files"):
        make(str(tmp_path / "*.nothing"))


def test_a_file_that_is_none_of_its_kind_is_counted_or_ends_the_job(tmp_path):
    """A broken Parquet file ended the job with Arrow's error, and there was no ``error_handling``."""
    pq.write_table(pa.table({"os": ["ios"]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-1] + SECRET.encode())
    path = str(tmp_path / "*.parquet")
    batches, letters = read("LdpReadParquet", path=path, columns=["os"])
    assert [batch.to_pydict() for batch in batches] == [{"os": ["ios"]}]
    assert letters == {("", "not a readable file"): 1}
    header = written(tmp_path, "another,header\n1,2\n")
    assert read("LdpReadCsv", path=header, columns=COLUMNS) == ([], {("", "not a readable file"): 1})
    for job in (
        {"type": "LdpReadParquet", "config": {"path": path}},
        {"type": "LdpReadCsv", "config": {"path": written(tmp_path), "columns": COLUMNS}},
    ):
        with pytest.raises(InputError, match=r"x not (a readable file|of type int64 in column 'n')") as caught:
            expand([job])
        assert SECRET not in str(caught.value)


def test_a_slip_in_a_columns_name_is_said(tmp_path):
    """Of CSV and Parquet the file was "not a readable file"; of NDJSON all were null, and so "other", in silence."""
    pq.write_table(pa.table({"os": ["ios"]}), tmp_path / "a.parquet")
    for config in (
        {"type": "LdpReadCsv", "config": {"path": written(tmp_path), "columns": {"oss": "string"}}},
        {"type": "LdpReadParquet", "config": {"path": str(tmp_path / "a.parquet"), "columns": ["oss"]}},
    ):
        with pytest.raises(InputError, match=r"(e\.csv|a\.parquet)': it does not have the columns \['oss'\]"):
            expand([config])
    lines = written(tmp_path, '{"os": "ios"}\n', "a.ndjson")
    with pytest.warns(LdpWarning, match=r"none of its first 1 lines has the columns \['oss'\]"):
        LdpReadNdjson(path=lines, columns={"oss": "string"})
    LdpReadNdjson(path=lines, columns={"os": "string"})
