"""The files of a job."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from ldp_beam import DeadLetter
from ldp_beam.elements.faults import UNREADABLE
from ldp_beam.io.events import EventSchema, EventsDoFn, match_files, with_json_types


def test_a_pattern_without_a_folder_finds_the_files_that_are_here(tmp_path, monkeypatch):
    (tmp_path / "a.ndjson").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert [Path(path).name for path in match_files(["*.ndjson"])] == ["a.ndjson"]
    assert match_files(["a.ndjson"]) == ["a.ndjson"]


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
