"""A watched folder: complete files, each once, and what cannot be read."""

import base64
import gzip
import threading
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.utils.timestamp import Timestamp

import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_beam import DeadLetter
from ldp_beam.elements.faults import NOT_A_LINE, NOT_A_RECORD, UNREADABLE
from ldp_beam.io import WatchFolder, _files
from ldp_beam.io.files import ReadParquet
from ldp_beam.io.folder import Poll, _complete_files
from ldp_core import InputError, Limits, ParameterError, PrivacyPlan

from ..helpers import SURE, SURE_BITS, run, run_with_result
from ..raw_values import SECRET, assert_clean, everything_about

PLAN = PrivacyPlan({"v": SURE, "w": SURE_BITS}, keep=["t"])
EVENTS = pa.record_batch({"v": ["a", "b"] * 50, "w": ["c", "a"] * 50, "t": range(100)})
REPORTS = PLAN.perturb(EVENTS)
SCHEMA = pa.schema([("v", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
AT = datetime(2024, 1, 1, tzinfo=UTC)


def put(path, content):
    """Write under another name, then rename: as producers must."""
    unfinished = path.with_name(f".{path.name}.tmp")
    if isinstance(content, bytes):
        unfinished.write_bytes(content)
    else:
        pq.write_table(pa.Table.from_batches([content]), unfinished, row_group_size=30)
    unfinished.rename(path)


def watched(folder, pattern="*", **options):
    return WatchFolder(str(folder / pattern), **{"stop_after": 0, "poll_interval": 0.05, **options})


def read(transform):
    return run(transform.with_exception_handling())


def values(batches, name):
    return sorted(value for batch in batches for value in batch.column(name).to_pylist())


def test_the_plan_travels_with_parquet(tmp_path):
    put(tmp_path / "a.parquet", REPORTS)
    batches, dead = read(watched(tmp_path))
    assert pa.Table.from_batches(batches).combine_chunks().equals(pa.Table.from_batches([REPORTS]))
    by_polars = pl.from_arrow(pa.Table.from_batches([EVENTS])).ldp.perturb(PLAN)
    by_polars.ldp.sink_parquet(tmp_path / "b.parquet", PLAN)
    batches, more_dead = read(watched(tmp_path))
    assert sum(batch.num_rows for batch in batches) == 2 * REPORTS.num_rows
    assert all(PrivacyPlan.from_metadata(batch.schema.metadata) == PLAN for batch in batches)
    assert dead == more_dead == []
    parts, _ = read(watched(tmp_path, schema=pa.schema([("t", pa.int64())])))
    assert [part.schema.names for part in parts] == [["t"]] * len(parts)


def test_text_files(tmp_path):
    put(tmp_path / "a.ndjson", b'{"v": "a", "n": 1, "at": "2024-01-01T00:00:00Z"}\n{"v": "b"}\n')
    put(tmp_path / "b.csv", b"at,n,other,v\n2024-01-01T01:00:00+01:00,2,x,c\n,,x,d\n")
    put(tmp_path / "c.jsonl", b'{"n": 3}')
    put(tmp_path / "d.ndjson.gz", gzip.compress(b'{"n": 4}'))
    batches, dead = read(watched(tmp_path, schema=SCHEMA))
    assert all(batch.schema.equals(SCHEMA) for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert sorted(rows, key=str) == sorted(
        [
            {"v": "a", "n": 1, "at": AT},
            {"v": "b", "n": None, "at": None},
            {"v": "c", "n": 2, "at": AT},
            {"v": "d", "n": None, "at": None},
            {"v": None, "n": 3, "at": None},
            {"v": None, "n": 4, "at": None},
        ],
        key=str,
    )
    assert dead == []


UNFINISHED = [".a.ndjson", "_a.ndjson", "a.ndjson.tmp", "a.ndjson.part", "a.txt", ".a.ndjson.tmp"]


def test_unfinished_files_are_never_read(tmp_path):
    for name in UNFINISHED:
        (tmp_path / name).write_bytes(b'{"n": 1}')
    put(tmp_path / "b.ndjson", b'{"n": 2}')
    (tmp_path / "folder.ndjson").mkdir()
    assert list(_complete_files(str(tmp_path / "*"))) == [str(tmp_path / "b.ndjson")]
    assert list(_complete_files(str(tmp_path / ".*"))) == []
    batches, dead = read(watched(tmp_path, "*", schema=SCHEMA))
    assert (values(batches, "n"), dead) == ([2], [])


def test_a_pattern_without_a_folder_is_of_the_one_where_it_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "a.parquet", EVENTS)
    batches, dead = read(WatchFolder("*.parquet", stop_after=0))
    assert (values(batches, "t"), dead) == (list(range(100)), [])
    assert values(run(ReadParquet("*.parquet")), "t") == list(range(100))


def test_a_link_that_moves_on_is_no_new_file(tmp_path, monkeypatch):
    """Of `latest` each file but the newest was read twice, with noise of its own."""
    monkeypatch.chdir(tmp_path)
    found = set()
    for name in ("z1.csv", "z2.csv", "z3.csv"):
        (tmp_path / name).write_text("x\n1\n")
        (tmp_path / "latest.csv").unlink(missing_ok=True)
        (tmp_path / "latest.csv").symlink_to(name)
        found.update(_complete_files("*.csv"))
    assert len(found) == 3
    (tmp_path / "other").symlink_to(tmp_path)
    assert {*_complete_files("*/*.csv")} == found


@pytest.mark.slow
def test_files_that_come_later_are_read_and_each_once(tmp_path, monkeypatch):
    """A new file is put into the folder after each look, until nine are there."""
    looks = threading.Semaphore(0)
    call = Poll.__call__
    names = iter(range(9))

    def look_and_add(self, element):
        found = call(self, element)
        number = next(names, None)
        if number is not None:
            put(tmp_path / f"{number}.ndjson", b'{"n": %d}' % number)
        looks.release()
        return found

    monkeypatch.setattr(Poll, "__call__", look_and_add)
    batches, _ = read(watched(tmp_path, schema=SCHEMA, poll_interval=0.02, stop_after=2))
    looked = 0
    while looks.acquire(blocking=False):
        looked += 1
    assert looked > 10, "too few looks for nine files to be seen twice"
    assert values(batches, "n") == list(range(9))


def test_a_clock_that_is_set_back_makes_no_file_late(tmp_path, monkeypatch):
    """Files had times behind the watermark, for as long as the clock was set back."""
    poll, found = Poll(0.001, 60), []
    for now in (7200, 3600, 7300):
        monkeypatch.setattr(Timestamp, "now", lambda now=now: Timestamp(now))
        put(tmp_path / f"{now}.parquet", REPORTS)
        found.append(poll(str(tmp_path / "*.parquet")))
    assert [one.watermark for one in found] == [7140, 7140, 7240]
    assert all(out.timestamp == one.watermark for one in found for out in one.outputs)


def test_it_waits_between_looks():
    poll = Poll(0.2, 0)
    before = Timestamp.now()
    poll("nothing/*")
    poll("nothing/*")
    assert Timestamp.now() - before >= 0.2


def test_the_time_of_a_batch_is_that_of_the_look_less_the_delay(tmp_path):
    put(tmp_path / "a.ndjson", b'{"n": 1}')
    before = Timestamp.now()
    [sink], _ = run_with_result(watched(tmp_path, schema=SCHEMA, max_delay="1h"))
    [(_, at, _)] = sink.stamped
    # Beam's coders cut timestamps to milliseconds
    assert before - 3600.001 <= at <= Timestamp.now() - 3600


CORRUPT = {
    "a.parquet": b"PAR1" + SECRET.encode(),
    "b.parquet": b"",
    "c.csv": b"v,n\nx,1\n",
    "d.csv": b"",
    "e.ndjson.gz": SECRET.encode(),
}


def test_files_that_cannot_be_read(tmp_path):
    for name, content in CORRUPT.items():
        put(tmp_path / name, content)
        with pytest.raises(InputError, match=f"{UNREADABLE}|does not have the columns") as caught:
            list(_files.ReadFileDoFn(SCHEMA, None).process(str(tmp_path / name)))
        assert_clean(everything_about(caught.value))
    put(tmp_path / "good.ndjson", b'{"n": 1}')
    batches, dead = read(watched(tmp_path, schema=SCHEMA))
    assert values(batches, "n") == [1]
    assert dead == [DeadLetter("", UNREADABLE, 1)] * len(CORRUPT)


def test_a_zone_that_is_no_utf8(tmp_path):
    """Arrow reads it when somebody asks for it: by then the job ended."""
    put(tmp_path / "a.parquet", pa.record_batch({"t": pa.array([0], pa.timestamp("us", "QQQQ"))}))
    data, schema = (tmp_path / "a.parquet").read_bytes(), pq.read_metadata(tmp_path / "a.parquet").metadata
    told = schema[b"ARROW:schema"]
    damaged = base64.b64encode(base64.b64decode(told).replace(b"QQQQ", b"QQ\xff\xff"))
    assert data.count(told) == 1
    put(tmp_path / "a.parquet", data.replace(told, damaged))
    batches, dead = read(watched(tmp_path))
    assert (batches, [letter.reason for letter in dead]) == ([], [UNREADABLE])


def test_files_of_which_something_is_missing_or_too_much(tmp_path):
    put(tmp_path / "a.parquet", REPORTS)
    lacks_a_column = watched(tmp_path, schema=SCHEMA)
    over_the_limit = watched(tmp_path, limits=Limits(row_group_bytes=100))
    (tmp_path / "text").mkdir()
    put(tmp_path / "text" / "a.ndjson", b'{"n": 1}')
    for transform in (lacks_a_column, over_the_limit, watched(tmp_path / "text")):  # text needs a schema
        assert read(transform) == ([], [DeadLetter("", UNREADABLE, 1)])


def test_lines_that_cannot_be_read(tmp_path):
    put(tmp_path / "a.ndjson", b'{"n": 1}\nnull\n{"n": "x"}\n\n{"n": 2}')
    lines = [b"v,n,at", b"a,3,", b"a,b,", b"a", b"a,4,yesterday", b"\xff,5,", b"a,6,2024-01-01", b"a,7,"]
    put(tmp_path / "b.csv", b"\n".join(lines))
    batches, dead = read(watched(tmp_path, schema=SCHEMA))
    assert values(batches, "n") == [1, 2, 3, 7]
    assert sorted(dead) == [
        DeadLetter("", NOT_A_RECORD, 1),
        DeadLetter("", NOT_A_LINE, 1),
        DeadLetter("at", "not of type timestamp[us, tz=UTC]", 2),
        DeadLetter("n", "not of type int64", 1),
        DeadLetter("n", "not of type int64", 1),
        DeadLetter("v", "not of type string", 1),
    ]


def test_errors_and_logs_tell_nothing(tmp_path, caplog):
    caplog.set_level("INFO")
    for name, text in (("a.ndjson", b'{"n": "%b"}\n'), ("a.csv", b"v,n,at\nx,%b,\n")):
        put(tmp_path / name, text % SECRET.encode())
        with pytest.raises(InputError) as caught:
            run(watched(tmp_path, name, schema=SCHEMA))
        assert_clean(everything_about(caught.value))
        assert_clean("\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records))


def test_configuration_is_checked_at_once():
    for arguments in (
        {"pattern": ""},
        {"pattern": 5},
        {"pattern": "*.csv"},
        {"pattern": "*.ndjson.gz"},
        {"poll_interval": 0},
        {"poll_interval": -1},
        {"stop_after": "soon"},
        {"max_delay": float("nan")},
        {"schema": {"v": "str"}},
    ):
        with pytest.raises(ParameterError):
            WatchFolder(**{"pattern": "in/*", **arguments})
