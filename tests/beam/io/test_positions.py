"""Where records come from: the same however they are read, another one for each, and nothing that can be read."""

import hashlib
import json
import os
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp_beam.elements.faults import NOT_A_BATCH, NOT_A_RECORD
from ldp_beam.io import DecodeMessages, ReadKafka, ReadPubSub, WatchFolder, encode, pubsub
from ldp_beam.io._files import ReadFileDoFn
from ldp_beam.io._positions import POSITION
from ldp_beam.io.messages import Decoder
from ldp_core import DtypeError, InputError, Limits, ParameterError

from ..helpers import run
from .mock_broker import MockBroker
from .test_kafka import send

confluent_kafka = pytest.importorskip("confluent_kafka")

SCHEMA = pa.schema([("i", pa.int64())])


def expected(name, row):
    """From the description: SHA-256 of the name, and the row in its second word."""
    high, low = struct.unpack("<QQ", hashlib.sha256(name).digest()[:16])
    return struct.pack("<QQ", high, low ^ row)


def of_records(batches, column="i"):
    """Position of each record, by what it holds."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert len({row[column] for row in rows}) == len(rows)
    return {row[column]: row["position"] for row in rows}


def decoded(decoder, *portions):
    return [batch for portion in portions for part in decoder.decode(portion) for batch in part.batches]


def ndjson(numbers):
    return b"".join(json.dumps({"i": i}).encode() + b"\n" for i in numbers)


def test_a_position_is_that_of_message_and_row_however_messages_are_gathered():
    for cuts in ([6], [1, 1, 1, 1, 1, 1], [2, 4], [5, 1]):
        messages = [(encode(pa.record_batch({"i": [10 * k, 10 * k + 1]})), b"m%d" % k) for k in range(6)]
        ends = np.cumsum(cuts).tolist()
        portions = [messages[end - size : end] for end, size in zip(ends, cuts, strict=True)]
        batches = decoded(Decoder(position="position"), *portions)
        assert {batch.schema.field("position").type for batch in batches} == {POSITION}
        assert of_records(batches) == {10 * k + row: expected(b"m%d" % k, row) for k in range(6) for row in (0, 1)}
        assert of_records(decoded(Decoder(position="position", limits=Limits(rows=2)), messages)) == of_records(batches)


def test_messages_of_several_schemas_in_turns():
    other = {"k": "v"}
    batches = [pa.record_batch({"i": [2 * k, 2 * k + 1]}) for k in range(6)]
    batches = [batch.replace_schema_metadata(other) if k % 2 else batch for k, batch in enumerate(batches)]
    messages = [(encode(batch), b"%d" % k) for k, batch in enumerate(batches)]
    messages.insert(3, (b"noise", b"n"))
    [(read, letters, _)] = Decoder(position="position").decode(messages)
    assert letters == [("", NOT_A_BATCH, 1)]
    assert [batch.schema.metadata for batch in read] == [None, {b"k": b"v"}]
    assert of_records(read) == {2 * k + row: expected(b"%d" % k, row) for k in range(6) for row in (0, 1)}


def test_lines_are_counted_as_they_stand_in_the_message():
    message = b'\n{"i": 1}\n{"i": "no"}\n\n[]\n{"i": 5}\r\n{"i": 6'
    decoder = Decoder("ndjson", SCHEMA, position="position")
    [(batches, letters, total)] = decoder.decode([(ndjson([10, 11]), b"a"), (message, b"b"), (b'{"i": 20}', b"c")])
    assert (sorted(letters), total) == ([("", NOT_A_RECORD, 2), ("i", "not of type int64", 1)], 8)
    rows = {10: (b"a", 0), 11: (b"a", 1), 1: (b"b", 1), 5: (b"b", 5), 20: (b"c", 0)}
    assert of_records(batches) == {i: expected(*place) for i, place in rows.items()}


def test_a_sender_chooses_no_position():
    own = pa.record_batch({"position": ["mine"], "i": [1]})
    twice = pa.RecordBatch.from_arrays([pa.array([1])] * 3, names=["position", "i", "position"])
    for batch in (own, twice):
        [read] = decoded(Decoder(position="position"), [(encode(batch), b"m")])
        assert read.to_pylist() == [{"i": 1, "position": expected(b"m", 0)}]


def test_a_message_without_a_name():
    for message in (encode(pa.record_batch({"i": [1]})), (b"x",), [b"x", b"y"]):
        with pytest.raises(DtypeError, match="a pair of it and of bytes that name it"):
            list(Decoder(position="position").decode([message]))


def test_configuration_is_checked_at_once():
    for make in (
        lambda: DecodeMessages(position=5),
        lambda: DecodeMessages(position=""),
        lambda: DecodeMessages("ndjson", schema=SCHEMA, position="i"),
        lambda: ReadKafka("localhost:1", "t", position=5),
        lambda: WatchFolder("*.ndjson", schema=SCHEMA, position="i"),
    ):
        with pytest.raises(ParameterError, match="position"):
            make()


def kafka(broker, topic, **options):
    """Batches of all that is in a topic."""
    options = {"stop_at": "latest", "partitions": [0, 1], "position": "position", **options}
    return run(ReadKafka(broker.servers, topic, **options))


def test_of_kafka_it_is_topic_partition_offset_time_and_row():
    """Not polls, group, or brokers: a second broker has the same log."""
    read, names = [], {}
    for _ in range(2):
        broker = MockBroker()
        messages = [(ndjson([2 * k, 2 * k + 1]), k % 2, 1_700_000_000_000 + k) for k in range(20)]
        send(broker, "events", messages)
        for max_batch, group in ((1, "a"), (7, "b"), (1000, "c")):
            batches = kafka(broker, "events", max_batch=max_batch, format="ndjson", schema=SCHEMA, group=group)
            assert max(batch.num_rows for batch in batches) <= 2 * max_batch
            read.append(of_records(batches))
    assert all(found == read[0] for found in read)
    for k in range(20):
        name = b"kafka\0events\0" + struct.pack(">iqq", k % 2, k // 2, 1_700_000_000_000 + k)
        names |= {2 * k + row: expected(name, row) for row in (0, 1)}
    assert read[0] == names


FILES: dict[str, Any] = {
    "parquet": lambda path, n: pq.write_table(pa.table({"i": range(n)}), path, row_group_size=70),
    "ndjson": lambda path, n: path.write_bytes(b"\n" + ndjson(range(n))),
    "csv": lambda path, n: path.write_text("i\n" + "\n".join(map(str, range(n))) + "\n"),
}


def read_file(path):
    schema = None if str(path).endswith(".parquet") else SCHEMA
    out = list(ReadFileDoFn(schema, "dead", position="position").process(str(path)))
    return [batch for batch in out if isinstance(batch, pa.RecordBatch)]


@pytest.mark.parametrize("form", FILES)
def test_of_a_file_it_is_path_size_time_and_row(form, tmp_path, monkeypatch):
    monkeypatch.setattr("ldp_core.arrays.parquet_batches.BATCH_ROWS", 50)
    path = tmp_path / f"events.{form}"
    FILES[form](path, 200)
    os.utime(path, (1e9, 1e9))
    found = of_records(read_file(path))
    assert found == of_records(read_file(path))
    name = f"file\0{path}\0{path.stat().st_size}\0{1e9}".encode()
    assert found == {i: expected(name, i + (form == "ndjson")) for i in range(200)}

    monkeypatch.chdir(tmp_path)  # one file, however its path is written
    (tmp_path / "linked").symlink_to(tmp_path)
    for written in (path.name, f"./{path.name}", f"linked/{path.name}"):
        assert of_records(read_file(written)) == found

    os.utime(path, (2e9, 2e9))  # another file in its place
    assert not set(found.values()) & set(of_records(read_file(path)).values())
    path.rename(tmp_path / f"other.{form}")
    assert not set(found.values()) & set(of_records(read_file(tmp_path / f"other.{form}")).values())


def test_bad_lines_of_a_file_are_counted(tmp_path):
    path = tmp_path / "a.ndjson"
    path.write_bytes(b'{"i": 0}\n[]\n\n{"i": 3}\n{"i": "x"}\n{"i": 5}')
    name = f"file\0{path}\0{path.stat().st_size}\0{path.stat().st_mtime}".encode()
    assert of_records(read_file(path)) == {i: expected(name, i) for i in (0, 3, 5)}
    path = tmp_path / "a.csv"
    path.write_text("i\n0\nno\n2\n")
    name = f"file\0{path}\0{path.stat().st_size}\0{path.stat().st_mtime}".encode()
    assert of_records(read_file(path)) == {i: expected(name, i) for i in (0, 2)}


def test_of_pubsub_it_is_subscription_and_message_id():
    message = type("Message", (), {"data": b"x", "message_id": "17"})
    assert pubsub._named(message, b"pubsub\0s\0") == (b"x", b"pubsub\0s\x0017")
    message.message_id = None
    with pytest.raises(InputError, match="does not tell the ids"):
        pubsub._named(message, b"")


def test_pubsub_asks_for_the_ids(monkeypatch):
    pytest.importorskip("google.cloud.pubsub")
    asked = []
    monkeypatch.setattr("apache_beam.io.ReadFromPubSub", lambda **options: asked.append(options))
    ReadPubSub("projects/p/subscriptions/s", position="position")
    assert asked[0]["with_attributes"]
