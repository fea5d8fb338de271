"""The files of a job."""

import bz2
import gzip
import json
import tracemalloc
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path

import apache_beam as beam
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from apache_beam.transforms.window import GlobalWindows

from ldp_beam import BoundContributions, DeadLetter, Deduplicate, Histogram, Perturb, PrivacyLedger, PrivateHistogram
from ldp_beam.elements.faults import NOT_A_RECORD, UNREADABLE
from ldp_beam.io import ReadEvents, WatchFolder, WriteReports
from ldp_beam.io._files import ReadFileDoFn
from ldp_beam.io.events import EventSchema, EventsDoFn, match_files, with_json_types
from ldp_beam.io.files import ReadNdjson
from ldp_core import (
    InputError,
    Limits,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
)

from ...cases import each
from ..helpers import counters, run, run_with_result


def test_a_pattern_without_a_folder_finds_the_files_that_are_here(tmp_path, monkeypatch):
    (tmp_path / "a.ndjson").write_text("{}")
    (tmp_path / "a.pq").write_text("PAR1")
    monkeypatch.chdir(tmp_path)
    assert match_files(["a.pq"]) == ["a.pq"]  # (as the command takes it)
    assert [Path(path).name for path in match_files(["*.ndjson"])] == ["a.ndjson"]
    assert match_files(["a.ndjson"]) == ["a.ndjson"]
    assert len(match_files(["a.ndjson", "*.ndjson", str(tmp_path / "a.ndjson")])) == 1  # its records count once


@pytest.mark.parametrize("pattern", ["**/*.ndjson", "./**/*.ndjson", "{here}/**/*.ndjson"])
def test_two_stars_find_the_files_of_all_folders_as_in_polars(tmp_path, monkeypatch, pattern):
    """Beam left out those above the folders: records were lost in silence."""
    (tmp_path / "day=1" / "hour=2").mkdir(parents=True)
    there = ["a.ndjson", "day=1/b.ndjson", "day=1/hour=2/c.ndjson"]
    for name in there:
        (tmp_path / name).write_text('{"x": 1}')
    monkeypatch.chdir(tmp_path)
    pattern = pattern.format(here=tmp_path)
    assert [Path(path).resolve() for path in match_files(pattern)] == [tmp_path / name for name in there]
    assert pl.scan_ndjson(pattern).collect().height == len(there)
    assert [Path(path).name for path in match_files("*/*.ndjson")] == ["b.ndjson"]


PATTERNS = {
    "*.ndjson": 1,
    "*/*.ndjson": 3,
    "**/*.ndjson": 6,
    "./**/eu/**/*.ndjson": 2,
    "**/**/*.ndjson": 6,
    "a.ndjson": 1,
    "**.ndjson": 6,
    "eu/": 1,
}


@each("pattern", PATTERNS)
def test_each_reader_finds_files_as_a_shell(tmp_path_factory, monkeypatch, pattern):
    """Beam looks into no linked folder, takes a linked file twice, hidden ones, and what a dead job of it has left."""
    here = tmp_path_factory.mktemp("in")
    monkeypatch.chdir(here)
    there = ["a", "day=1/b", "eu/c", "eu/1/d", "../disk/e", "../disk/2/f"]
    hidden = [".a", "day=1/.b", "eu/.ipynb_checkpoints/c", "eu/beam-temp-x/c"]
    for name in [*there, *hidden]:
        path = Path(f"{name}.ndjson")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"x": 1}')
    Path("linked").symlink_to("../disk")
    Path("day=1/latest.ndjson").symlink_to("b.ndjson")
    n = PATTERNS[pattern]
    assert len(match_files(pattern)) == n
    assert len(run(ReadNdjson(pattern, {"x": "integer"}))) == n
    watched = WatchFolder(pattern, schema=pa.schema([("x", pa.int64())]), stop_after=0, poll_interval=0.05)
    assert sum(batch.num_rows for batch in run(watched.with_exception_handling())[0]) == n
    plan = PrivacyPlan({"x": RandomizedResponse([1, 2], epsilon=50.0)})
    assert sum(batch.num_rows for batch in run(ReadEvents(pattern, plan))) == n


def test_numbers_of_ndjson_may_begin_with_whole_ones(tmp_path):
    """A column was of the type of its first value: 900 of 1,000 records were dead letters, and not at random."""
    plan = PrivacyPlan({"x": RandomizedResponse([1, 2], epsilon=50.0)}, keep=["minutes", "late"])
    rows = [{"x": 1, "minutes": i % 2 / 2, "late": 7} | ({"minutes": 3} if i % 3 == 0 else {}) for i in range(90)]
    (tmp_path / "a.ndjson").write_text("\n".join(map(json.dumps, rows)))
    events = ReadEvents(f"{tmp_path}/a.ndjson", plan)
    assert (events.schema.field("minutes").type, events.schema.field("late").type) == (pa.float64(), pa.int64())
    (tmp_path / "b.ndjson").write_text('{"x": 1, "id": 7}\n{"x": 1, "id": 50.0}')
    ids = ReadEvents(f"{tmp_path}/b.ndjson", PrivacyPlan(plan.columns), also=["id"]).schema.field("id")
    assert ids.type == pa.int64()  # (no id is 12.5)
    assert sorted(value for batch in run(events) for value in batch["minutes"].to_pylist())[-31:] == [0.5] + [3.0] * 30


def test_names_of_files_may_be_in_capitals(tmp_path):
    """The watched folder left them out in silence."""
    (tmp_path / "A.NDJSON").write_text('{"x": 1}')
    (tmp_path / "b.Csv").write_text("x\n1\n2\n")
    (tmp_path / "C.CSV.gz").write_bytes(gzip.compress(b"x\n1\n"))
    watched = WatchFolder(f"{tmp_path}/*", schema=pa.schema([("x", pa.int64())]), stop_after=0, poll_interval=0.05)
    assert sum(batch.num_rows for batch in run(watched)) == 4
    plan = PrivacyPlan({"x": RandomizedResponse([1, 2], epsilon=50.0)})
    assert sum(batch.num_rows for batch in run(ReadEvents(f"{tmp_path}/*", plan))) == 4


@pytest.mark.parametrize("name", ["a.ndjson.gz", "a.csv.gz", "a.parquet"])
def test_a_file_that_breaks_off_is_a_dead_letter(tmp_path, name):
    """What a decompressor raises is no error of Arrow's."""
    schema = EventSchema("t", (("os", pa.string()),))
    text = b"t,os\n" + b"".join(b"2024-01-01T00:00:00,%d\n" % i for i in range(9000))
    if name == "a.ndjson.gz":
        text = b"".join(b'{"t": "2024-01-01T00:00:00", "os": "%d"}\n' % i for i in range(9000))
    path = tmp_path / name
    packed = bytearray(gzip.compress(text))
    packed[200:300] = bytes(100)
    path.write_bytes(packed if name.endswith("gz") else b"PAR1" + text)
    found = list(EventsDoFn(schema, "dead").process(str(path)))
    assert found[-1].value == DeadLetter("", UNREADABLE, 1)
    assert with_json_types(schema, [str(path)]).event_time == "t"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstandard.compress], ids=["gz", "bz2", "zst"])
@pytest.mark.parametrize("form", ["csv", "ndjson"])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_compressed_file_that_was_cut_is_a_dead_letter(tmp_path, pack, form, parts):
    """Beam takes what there is for all: half of the records were counted, and the last line was half of one."""
    schema = pa.schema([("i", pa.int64())])
    head, line = (b"i,j\n", b"%d,0\n") if form == "csv" else (b"", b'{"i": %d}\n')
    packed = pack(head + b"".join(line % (i**3) for i in range(9000)))
    packed += b"".join(pack(b"".join(line % (i**3) for i in range(9000, 18000))) for _ in range(parts - 1))
    path = tmp_path / f"a.{form}.{ {gzip.compress: 'gz', bz2.compress: 'bz2'}.get(pack, 'zst') }"
    for end, n in ((len(packed), 9000 * parts), (len(packed) - 20, None)):
        path.write_bytes(packed[:end])
        found = list(ReadFileDoFn(schema, "dead").process(str(path)))
        rows = [i for batch in found if isinstance(batch, pa.RecordBatch) for i in batch["i"].to_pylist()]
        assert rows == [i**3 for i in range(len(rows) if n is None else n)]
        letters = [item.value for item in found if not isinstance(item, pa.RecordBatch)]
        assert letters == ([DeadLetter("", UNREADABLE, 1)] if n is None else [])


@pytest.mark.parametrize("name", ["a.ndjson.gz", "a.csv.gz"])
def test_a_compressed_file_takes_no_more_memory_than_its_lines(tmp_path, name):
    """All 16 MiB that Beam reads at once were decompressed before the first line was compared with its limit."""
    (tmp_path / name).write_bytes(gzip.compress(b"i\n1\n" + bytes(1 << 26)))
    tracemalloc.start()
    try:
        read = ReadFileDoFn(pa.schema([("i", pa.int64())]), "dead", Limits(line_bytes=1 << 10))
        assert isinstance(list(read.process(str(tmp_path / name)))[-1].value, DeadLetter)
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    """Of CSV the first was taken, and of Parquet a KeyError came out."""
    plan = PrivacyPlan({"os": RandomizedResponse(["a", "b"], epsilon=1.0)})
    (tmp_path / "a.csv").write_text("os,os\na,b\n")
    pq.write_table(pa.table([["a"], ["b"]], ["os", "os"]), tmp_path / "a.parquet")
    schema, dead = pa.schema([("os", pa.string())]), DeadLetter("", UNREADABLE, 1)
    for path in (str(tmp_path / "a.csv"), str(tmp_path / "a.parquet")):
        with pytest.raises(PlanError, match="twice: which one is meant"):
            ReadEvents(path, plan)
        assert [item.value for item in ReadFileDoFn(schema, "dead").process(path)] == [dead]  # (a file that came later)


def test_a_file_over_the_limit_of_columns_is_not_only_called_corrupt(tmp_path):
    path = str(tmp_path / "wide.parquet")
    pq.write_table(pa.table({f"c{i}": [1] for i in range(4096)}), path)
    with pytest.raises(InputError, match=r"over a limit \(docs/input.md\)"):
        ReadEvents(path, PrivacyPlan({"c0": RandomizedResponse([0, 1], epsilon=1.0)}))


# ---- the source


PLAN = PrivacyPlan({"os": RandomizedResponse(["a", "b"], epsilon=80.0)}, keep=["land"])
LINES = ['{"t": 1767225600, "os": "a", "land": 5}', '{"t": "x", "os": "a"}', "[]", '{"os": 3, "t": 1767225601}']
LINES += ['{"t": 1767225602, "os": "b", "land": 6, "user": "s3cr3t"}']


@pytest.fixture
def events(tmp_path):
    (tmp_path / "a.ndjson").write_text("\n".join(LINES))
    return str(tmp_path / "*.ndjson")


def read(source):
    """All batches as one table, dead letters and counters."""
    (batches, letters), result = run_with_result(source.with_exception_handling())
    return pa.Table.from_batches(batches.elements), sorted(letters.elements), counters(result)


def test_the_columns_of_the_plan_and_letters_for_the_rest(events):
    source = ReadEvents(events, PLAN, event_time="t")
    batch, letters, counted = read(source)
    assert batch.schema == source.schema
    assert batch.to_pydict() == {
        "t": [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (0, 2)],
        "os": ["a", "b"],
        "land": [5, 6],
    }
    assert letters == [
        ("", NOT_A_RECORD, 1),
        ("os", "not of type string", 1),
        ("t", "not of type number, s since the epoch", 1),
    ]
    assert counted == {"files_read": 1, "rows_read": 5, "dead_lettered": 3}
    with pytest.raises(Exception, match=r"1 x not "):
        run(source)


def test_times_as_databases_and_programs_write_them(tmp_path):
    """Those of PostgreSQL and DuckDB (+00), and with nanoseconds, were dead letters: not of type timestamp."""
    times = ["2026-01-01 02:00:00+02", "2025-12-31T19:00:00.000000-0500", "2026-01-01T00:00:00.000000999Z"]
    times += ["2026-01-01 00:00:00.0000001", "2026-01-01", "1767225600.0000001"]
    (tmp_path / "a.csv").write_text("t,os,land\n" + "".join(f"{time},a,5\n" for time in [*times, "2026-01", "1:0+00"]))
    (tmp_path / "a.ndjson").write_text("".join(f'{{"t": "{time}", "os": "a", "land": "5"}}\n' for time in times))
    batch, letters, _ = read(ReadEvents([f"{tmp_path}/a.csv", f"{tmp_path}/a.ndjson"], PLAN, event_time="t"))
    assert batch["t"].to_pylist() == [datetime(2026, 1, 1, tzinfo=UTC)] * 2 * len(times)
    assert letters == [("t", "not of type timestamp[us, tz=UTC]", 2)]


def test_positions_are_those_of_the_watched_folder(events):
    source = ReadEvents(events, PLAN, event_time="t", position="place")
    batch, _, _ = read(source)
    schema = pa.schema([("os", pa.string()), ("land", pa.int64())])
    watched = WatchFolder(events, schema=schema, stop_after=0, poll_interval=1, position="place")
    seen, _, _ = read(watched)
    assert set(batch["place"].to_pylist()) < set(seen["place"].to_pylist())
    assert batch.schema == source.schema


def test_files_whose_text_is_of_several_types_are_read_together(tmp_path):
    """Polars and pandas write large_string, pyarrow string: files of both were refused, and such files beside CSV."""
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=50.0)}, keep=["app"])
    columns = {"t": [datetime(2024, 1, 1, tzinfo=UTC)], "os": ["ios"], "app": ["mail"]}
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        arrays = [pa.array(columns["t"]), pa.array(columns["os"], pa.string()), pa.array(columns["app"], kind)]
        with suppress(pa.ArrowNotImplementedError):  # (older ones write no string_view)
            pq.write_table(pa.table(arrays, names=[*columns]), tmp_path / f"{kind}.parquet")
    (tmp_path / "a.csv").write_text("t,os,app\n2024-01-01,ios,mail\n")
    read = ReadEvents(str(tmp_path / "*"), plan, event_time="t")
    assert read.schema.field("app").type == pa.large_string()
    assert read.schema.field("os").type == pa.string()
    found = run(read)
    assert all(batch.schema.remove_metadata().equals(read.schema) for batch in found)
    assert sum(batch.num_rows for batch in found) == len(read.paths) >= 3
    prefix = str(tmp_path / "out" / "part")
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | ReadEvents(read.paths, plan, event_time="t") | Perturb(plan) | WriteReports(prefix, plan, read.schema)
    files = [pq.read_table(file) for file in (tmp_path / "out").iterdir()]
    assert [word for table in files for word in table["app"].to_pylist()] == ["mail"] * len(read.paths)


def test_without_event_times_and_with_further_columns(events):
    for files, also in (([events], ["user"]), (Path(events), "user")):
        batch, _, _ = read(ReadEvents(files, PLAN, also=also))
        assert batch.to_pydict() == {"os": ["a", "a", "b"], "land": [5, None, 6], "user": [None, None, "s3cr3t"]}


def test_values_that_were_read_are_no_reports(tmp_path):
    """A share of 30 % came out as 7 %, without a word."""
    (tmp_path / "a.csv").write_text("user,x\n" + "1,true\n" * 3 + "2,false\n" * 7)
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)})
    events = beam.Pipeline("FnApiRunner") | ReadEvents(str(tmp_path / "a.csv"), plan, also="user")
    passed = [
        [],
        [beam.WindowInto(GlobalWindows())],
        [BoundContributions("user", 9)],
        [Deduplicate("user", within="1d")],
    ]
    passed += [["Named" >> beam.Filter(len)], [beam.Filter(len), beam.Reshuffle()]]
    for number, steps in enumerate(passed):
        values = reduce(lambda made, step: made | f"{number} {steps.index(step)}" >> step, steps, events)
        with pytest.raises(MechanismMismatchError, match="'x': ReadEvents reads values"):
            _ = values | f"Refused {number}" >> Histogram("x", plan["x"])
    some, others = events | beam.Partition(lambda batch, n: len(batch) % n, 2)
    for number, values in enumerate((some, (some, others) | beam.Flatten())):
        with pytest.raises(MechanismMismatchError, match="'x': ReadEvents reads values"):
            _ = values | f"Partition {number}" >> Histogram("x", plan["x"])
    for limit in (BoundContributions("person", 1), PrivacyLedger(plan, id="person", budget=1)):  # a worker said it
        with pytest.raises(PlanError, match=r"ReadEvents does not read the columns \['person'\].*also="):
            _ = events | f"{limit}" >> beam.Filter(len) | limit
    _ = events | "Of columns that are there" >> BoundContributions("user", 1, window="1d", event_time="x")
    _ = events | PrivateHistogram("x", plan["x"])
    _ = events | Perturb(plan) | Histogram("x", plan["x"])
    _ = events | beam.Map(plan.assume_reports) | "Elsewhere" >> Histogram("x", plan["x"])


def test_what_cannot_be_read_is_refused_when_it_is_made(events):
    for arguments, error in (
        ({"plan": {}}, PlanError),
        ({"files": []}, ParameterError),
        ({"files": 5}, ParameterError),
        ({"files": 5 * [1]}, ParameterError),
        ({"time_unit": "min"}, ParameterError),
        ({"position": ""}, ParameterError),
        ({"position": "os"}, ParameterError),
        ({"files": "nothing*.csv"}, InputError),
        ({"event_time": "when"}, PlanError),
    ):
        with pytest.raises(error):
            ReadEvents(**{"files": events, "plan": PLAN, "event_time": "t", **arguments})
