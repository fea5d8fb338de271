"""Histogram rows in other forms, and in files."""

import json
import os
from datetime import UTC, datetime

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing import test_stream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_beam import HistogramRow
from ldp_beam.io import (
    BIGQUERY_SCHEMA,
    HISTOGRAM_SCHEMA,
    HistogramBatches,
    WriteHistograms,
    bigquery_row,
    histogram_batch,
    histogram_line,
)
from ldp_beam.io.histograms import bigquery_schema
from ldp_core import DtypeError, ParameterError

from ..helpers import SURE, Collector, run, stamped

ROW = HistogramRow(
    Timestamp(0), Timestamp(3600), 1, "LATE", False, True, "os", {"app": "mail", "zone": "ü"}, "ios",
    -1.5, 2.0, -3.0, 4.0, 0.5, 0.2, -0.3, 0.6, 7, 0.95, 1.0, "f" * 16,
)  # fmt: skip
EMPTY = ROW._replace(n=0, frequency=float("nan"), key={}, pane_index=0)
WHOLE = ROW._replace(window_start=GlobalWindow().start, window_end=GlobalWindow().end)
FAR = ROW._replace(window_end=Timestamp(10**12))


def test_a_batch_has_the_rows_fields():
    batch = histogram_batch([ROW, EMPTY, WHOLE])
    assert batch.schema.equals(HISTOGRAM_SCHEMA)
    first, second, third = batch.to_pylist()
    assert first["window_end"] == datetime(1970, 1, 1, 1, tzinfo=UTC)
    assert dict(first["key"]) == dict(ROW.key)
    plain = set(HISTOGRAM_SCHEMA.names) - {"window_start", "window_end", "key"}
    assert {name: first[name] for name in plain} == {name: getattr(ROW, name) for name in plain}
    assert second["frequency"] != second["frequency"]
    assert (third["window_start"], third["window_end"]) == (None, None)
    assert histogram_batch([]).schema.equals(HISTOGRAM_SCHEMA)
    assert set(HISTOGRAM_SCHEMA.names) == set(HistogramRow._fields) - {"pane_is_first", "pane_is_last"}


def test_a_line_is_strict_json():
    def refuse(constant):
        raise AssertionError(constant)

    for row in (ROW, EMPTY, WHOLE, FAR):
        line = json.loads(histogram_line(row), parse_constant=refuse)
        assert list(line) == HISTOGRAM_SCHEMA.names
        assert "\n" not in histogram_line(row)
    assert json.loads(histogram_line(EMPTY))["frequency"] is None
    assert json.loads(histogram_line(ROW))["window_end"] == "1970-01-01T01:00:00Z"
    assert json.loads(histogram_line(WHOLE))["window_end"] is None
    assert json.loads(histogram_line(FAR))["window_end"] is None


def test_bigquery():
    fields = {field["name"]: field for field in BIGQUERY_SCHEMA["fields"]}
    assert list(fields) == HISTOGRAM_SCHEMA.names
    assert (fields["window_start"]["type"], fields["count"]["type"], fields["n"]["type"]) == (
        "TIMESTAMP",
        "FLOAT",
        "INTEGER",
    )
    assert (fields["key"]["type"], fields["key"]["mode"]) == ("RECORD", "REPEATED")
    assert [field["name"] for field in fields["key"]["fields"]] == ["key", "value"]
    assert bigquery_row(ROW)["key"] == [{"key": "app", "value": "mail"}, {"key": "zone", "value": "ü"}]
    json.dumps(bigquery_row(EMPTY), allow_nan=False)
    with pytest.raises(DtypeError, match="'x'"):
        bigquery_schema(pa.schema([("x", pa.list_(pa.int64()))]))


def test_beam_takes_the_bigquery_schema():
    pytest.importorskip("google.cloud.bigquery")
    from apache_beam.io.gcp.bigquery_tools import get_dict_table_schema, parse_table_schema_from_json

    parsed = parse_table_schema_from_json(json.dumps(BIGQUERY_SCHEMA))
    assert [field.name for field in parsed.fields] == HISTOGRAM_SCHEMA.names
    assert get_dict_table_schema(BIGQUERY_SCHEMA) == BIGQUERY_SCHEMA


def content(folder, kind):
    """All rows in the folder's files, as (start, pane, value, count)."""
    rows = []
    for name in os.listdir(folder):
        assert not name.startswith("."), "an unfinished file is left"
        assert name.endswith(kind)
        path = os.path.join(folder, name)
        if kind == "parquet":
            table = pq.read_table(path)
            assert table.schema.equals(HISTOGRAM_SCHEMA)
            rows += [{**row, "start": row["window_start"].timestamp()} for row in table.to_pylist()]
        else:
            with open(path) as lines:
                found = [json.loads(line) for line in lines]
            rows += [{**row, "start": datetime.fromisoformat(row["window_start"]).timestamp()} for row in found]
    return sorted((row["start"], row["pane_index"], row["value"], round(row["count"])) for row in rows)


@pytest.mark.parametrize("kind", ["parquet", "ndjson"])
@pytest.mark.parametrize("flags", [(), ("--direct_runner_bundle_repeat=2",)], ids=["once", "repeated"])
def test_files_of_a_bounded_pipeline(tmp_path, kind, flags):
    out = tmp_path / "new" / "folder"
    reports = pa.record_batch({"v": ["a", "a", "b"] * 4, "t": [1, 2, 61] * 4})
    histogram = ldp_beam.Histogram("v", SURE, window=60, event_time="t")
    paths = run(histogram | WriteHistograms(str(out), kind), [reports], flags=flags)
    assert content(out, kind) == sorted(
        (start, 0, value, count)
        for start, counts in ((0, {"a": 8, "b": 0, "c": 0}), (60, {"a": 0, "b": 4, "c": 0}))
        for value, count in counts.items()
    )
    assert {os.path.basename(path) for path in paths} == set(os.listdir(out))
    assert all(name.startswith("1970010") for name in os.listdir(out))


@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING], ids=["add", "replace"])
def test_no_pane_of_a_live_window_is_lost(tmp_path, mode):
    def report(value, second):
        return TimestampedValue(pa.record_batch({"v": [value], "t": [second]}), second)

    stream = (
        test_stream.TestStream()
        .add_elements([report("a", 1), report("a", 2)])
        .advance_watermark_to(10)
        .add_elements([report("b", 3)])
        .advance_watermark_to(15)
        .add_elements([report("c", 4)])
        .advance_watermark_to(20)
        .advance_watermark_to_infinity()
    )
    windows = beam.WindowInto(
        beam.window.FixedWindows(10),
        trigger=AfterWatermark(late=AfterCount(1)),
        accumulation_mode=mode,
        allowed_lateness=100,
    )
    p = beam.Pipeline("BundleBasedDirectRunner", options=PipelineOptions(["--streaming"]))
    rows = p | stream | windows | ldp_beam.Histogram("v", SURE)
    _ = rows | WriteHistograms(str(tmp_path), "parquet")
    seen = Collector()
    _ = rows | "See" >> seen
    p.run().wait_until_finish()
    panes = sorted((0.0, row.pane_index, row.value, round(row.count)) for row in seen.elements)
    assert len({pane for _, pane, _, _ in panes}) == 3
    assert content(tmp_path, "parquet") == panes


def test_the_global_window(tmp_path):
    reports = pa.record_batch({"v": ["a", "b"]})
    [path] = run(ldp_beam.Histogram("v", SURE) | WriteHistograms(str(tmp_path)), [reports])
    assert os.path.basename(path).startswith("all_all_")
    assert pq.read_table(path)["window_start"].null_count == 3


def test_batches_of_rows():
    [batch] = run(HistogramBatches(), [ROW, EMPTY])
    assert batch.schema.equals(HISTOGRAM_SCHEMA)
    assert str(batch.to_pylist()) == str(histogram_batch([ROW, EMPTY]).to_pylist())  # nan is not itself
    windowed = stamped([(ROW, 1), (EMPTY, 2), (ROW, 61)]) | beam.WindowInto(beam.window.FixedWindows(60))
    assert sorted(batch.num_rows for batch in run(HistogramBatches(), windowed)) == [1, 2]


def test_other_elements_are_refused(tmp_path):
    with pytest.raises(DtypeError, match="HistogramRow"):
        run(WriteHistograms(str(tmp_path)), [{"v": 1}])
    with pytest.raises(ParameterError):
        WriteHistograms(str(tmp_path), "csv")
