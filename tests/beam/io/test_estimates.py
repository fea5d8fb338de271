"""Rows of estimates in other forms, and in files; those of a question of one's own are in `test_own_question`."""

import json
import os
from collections.abc import Iterator
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
from ldp_beam import HistogramRow, MeanRow
from ldp_beam.io import (
    EstimateBatches,
    WriteEstimates,
    WriteReports,
    bigquery_row,
    bigquery_schema,
    estimate_batch,
    estimate_line,
    estimate_schema,
)
from ldp_core import DtypeError, InputError, ParameterError, PrivacyPlan

from ...cases import full_disk
from ..helpers import SURE, Collector, on_my_word, run, stamped

NAMES = (
    *("window_start", "window_end", "pane_index", "pane_timing", "column_name", "key"),
    *("value", "count", "standard_error", "low", "high"),
    *("frequency", "frequency_standard_error", "frequency_low", "frequency_high"),
    *("n", "confidence", "epsilon", "fingerprint"),
)
"""Of files that were written before, too."""
SCHEMA = estimate_schema(HistogramRow)
BIGQUERY = bigquery_schema(SCHEMA)
ROW = HistogramRow(
    Timestamp(0), Timestamp(3600), 1, "LATE", False, True, "os", {"app": "mail", "zone": "ü"}, "ios",
    -1.5, 2.0, -3.0, 4.0, 0.5, 0.2, -0.3, 0.6, 7, 0.95, 1.0, "f" * 16,
)  # fmt: skip
EMPTY = ROW._replace(n=0, frequency=float("nan"), key={}, pane_index=0)
WHOLE = ROW._replace(window_start=GlobalWindow().start, window_end=GlobalWindow().end)
FAR = ROW._replace(window_end=Timestamp(10**12))


def test_a_batch_has_the_rows_fields():
    batch = estimate_batch([ROW, EMPTY, WHOLE])
    assert batch.schema.equals(SCHEMA)
    first, second, third = batch.to_pylist()
    assert first["window_end"] == datetime(1970, 1, 1, 1, tzinfo=UTC)
    assert dict(first["key"]) == dict(ROW.key)
    plain = set(SCHEMA.names) - {"window_start", "window_end", "key"}
    assert {name: first[name] for name in plain} == {name: getattr(ROW, name) for name in plain}
    assert second["frequency"] != second["frequency"]
    assert (third["window_start"], third["window_end"]) == (None, None)
    assert estimate_batch([], SCHEMA).schema.equals(SCHEMA)
    assert tuple(SCHEMA.names) == NAMES
    times, texts = (pa.timestamp("us", "UTC"),) * 2, (pa.string(),) * 2
    types = [*times, pa.int64(), *texts, pa.map_(pa.string(), pa.string()), pa.string(), *[pa.float64()] * 8]
    assert SCHEMA.types == [*types, pa.int64(), *[pa.float64()] * 2, pa.string()]
    assert estimate_schema(MeanRow).names == [*NAMES[:6], "mean", *NAMES[8:11], *NAMES[15:]]
    with pytest.raises(DtypeError, match="not rows of estimates"):
        estimate_schema(int)


def test_a_line_is_strict_json():
    def refuse(constant):
        raise AssertionError(constant)

    for row in (ROW, EMPTY, WHOLE, FAR):
        line = json.loads(estimate_line(row), parse_constant=refuse)
        assert list(line) == SCHEMA.names
        assert "\n" not in estimate_line(row)
    assert json.loads(estimate_line(EMPTY))["frequency"] is None
    assert json.loads(estimate_line(ROW))["window_end"] == "1970-01-01T01:00:00Z"
    assert json.loads(estimate_line(WHOLE))["window_end"] is None
    assert json.loads(estimate_line(FAR))["window_end"] is None


def test_bigquery():
    fields = {field["name"]: field for field in BIGQUERY["fields"]}
    assert list(fields) == SCHEMA.names
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

    parsed = parse_table_schema_from_json(json.dumps(BIGQUERY))
    assert [field.name for field in parsed.fields] == SCHEMA.names
    assert get_dict_table_schema(BIGQUERY) == BIGQUERY


def content(folder, kind):
    """All rows in the folder's files, as (start, pane, value, count)."""
    rows = []
    for name in os.listdir(folder):
        assert not name.startswith("."), "an unfinished file is left"
        assert name.endswith(kind)
        path = os.path.join(folder, name)
        if kind == "parquet":
            table = pq.read_table(path)
            assert table.schema.equals(SCHEMA)
            rows += [{**row, "start": row["window_start"].timestamp()} for row in table.to_pylist()]
        else:
            with open(path) as lines:
                found = [json.loads(line) for line in lines]
            rows += [{**row, "start": datetime.fromisoformat(row["window_start"]).timestamp()} for row in found]
    return sorted((row["start"], row["pane_index"], row["value"], round(row["count"])) for row in rows)


@pytest.mark.parametrize(("kind", "flags"), [("parquet", ()), ("ndjson", ("--direct_runner_bundle_repeat=2",))])
def test_files_of_a_bounded_pipeline(tmp_path, kind, flags):
    out = tmp_path / "new" / "folder"
    reports = pa.record_batch({"v": ["a", "a", "b"] * 4, "t": [1, 2, 61] * 4})
    histogram = ldp_beam.Histogram("v", SURE, window=60, event_time="t")
    paths = run(on_my_word(histogram) | WriteEstimates(str(out), kind), [reports], flags=flags)
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
    rows = p | stream | windows | on_my_word(ldp_beam.Histogram("v", SURE))
    _ = rows | WriteEstimates(str(tmp_path), "parquet")
    seen = Collector()
    _ = rows | "See" >> seen
    p.run().wait_until_finish()
    panes = sorted((0.0, row.pane_index, row.value, round(row.count)) for row in seen.elements)
    assert len({pane for _, pane, _, _ in panes}) == 3
    assert content(tmp_path, "parquet") == panes


def test_the_global_window(tmp_path):
    reports = pa.record_batch({"v": ["a", "b"]})
    [path] = run(on_my_word(ldp_beam.Histogram("v", SURE)) | WriteEstimates(str(tmp_path)), [reports])
    assert os.path.basename(path).startswith("all_all_")
    assert pq.read_table(path)["window_start"].null_count == 3


def test_batches_of_rows():
    [batch] = run(EstimateBatches(), [ROW, EMPTY])
    assert batch.schema.equals(SCHEMA)
    assert str(batch.to_pylist()) == str(estimate_batch([ROW, EMPTY]).to_pylist())  # nan is not itself
    windowed = stamped([(ROW, 1), (EMPTY, 2), (ROW, 61)]) | beam.WindowInto(beam.window.FixedWindows(60))
    assert sorted(batch.num_rows for batch in run(EstimateBatches(), windowed)) == [1, 2]


class InBatches(beam.DoFn):
    def process_batch(self, batches: list[pa.RecordBatch]) -> Iterator[list[int]]:
        yield [batch.num_rows for batch in batches]

    def infer_output_type(self, _):
        return int


def test_steps_that_take_several_batches_have_all():
    """Such a step in the same stage is flushed before ours ends its bundle: all batches were lost without a word."""
    assert run(EstimateBatches() | beam.ParDo(InBatches()), [ROW, EMPTY]) == [2]


def test_rows_of_several_questions_and_types():
    mean = MeanRow(*ROW[:8], 1.5, 0.1, 1.0, 2.0, *ROW[-4:])
    number = ldp_beam.IntegerHistogramRow(**{**ROW._asdict(), "value": 10})
    batches = run(EstimateBatches(), [ROW, mean, number])
    found = {tuple(batch.schema.names[6:8]): batch for batch in batches}
    assert found["value", "count"]["value"].to_pylist() == ["ios", "10"]
    assert found["mean", "standard_error"].schema.equals(estimate_schema(MeanRow))
    assert estimate_batch([number])["value"].to_pylist() == [10]
    assert json.loads(estimate_line(mean))["mean"] == 1.5


def test_other_elements_are_refused(tmp_path):
    with pytest.raises(DtypeError, match="HistogramRow"):
        run(WriteEstimates(str(tmp_path)), [{"v": 1}])
    with pytest.raises(ParameterError):
        WriteEstimates(str(tmp_path), "csv")


def test_a_full_disk_leaves_no_half_file(tmp_path):
    """Each try left one more, of a hidden name."""
    write = ldp_beam.PrivateHistogram("v", SURE) | WriteEstimates(f"{tmp_path}/out")
    for _ in range(2):
        with full_disk(100), pytest.raises(InputError, match=f"cannot write into .*'{tmp_path}/out': File too large"):
            run(write, [{"v": "a"}])
    assert [*(tmp_path / "out").iterdir()] == []
    assert run(write, [{"v": "a"}]) == [str(path) for path in (tmp_path / "out").iterdir()]


def test_a_folder_that_cannot_be_is_said(tmp_path):
    """Where a file is, half a character, a file system that Beam lacks: these were errors of Python, and late."""
    (tmp_path / "file").touch()
    for path in (f"{tmp_path}/file", tmp_path / "file" / "below", "a\0b", "\udc80", "nosuch://x", "x" * 300):
        with pytest.raises(InputError, match="cannot write into the folder"):
            WriteEstimates(path)
        with pytest.raises(InputError, match="cannot write into the folder"):
            WriteReports(f"{path}/part", PrivacyPlan({"v": SURE}), pa.schema({"v": pa.string()}))
    reports, histogram = [pa.record_batch({"v": ["a"]})], on_my_word(ldp_beam.Histogram("v", SURE))
    write = histogram | WriteEstimates(f"{tmp_path}/later")
    (tmp_path / "later").touch()
    with pytest.raises(InputError, match=r"later.*: File exists|later.*: Not a directory"):
        run(write, reports)
