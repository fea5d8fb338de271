"""The wire format: what goes in comes out, and what is none is refused without a word of it."""

import io
import json
import random
from itertools import product
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows

from ldp_beam import DeadLetter
from ldp_beam.elements.coders import RecordBatchCoder
from ldp_beam.elements.faults import NOT_A_BATCH, NOT_A_RECORD, TOO_LARGE
from ldp_beam.io import ndjson
from ldp_beam.io.messages import DecodeMessages, Decoder, decode, encode, message_of
from ldp_beam.io.ndjson import parse_lines, parse_stream
from ldp_core import DtypeError, InputError, LimitError, Limits, ParameterError, PrivacyPlan

from ..helpers import SURE, SURE_BITS, counters, run, run_with_result, stamped
from ..raw_values import SECRET, assert_clean, everything_about

PLAN = PrivacyPlan({"v": SURE, "w": SURE_BITS}, keep=["t", "s"])
EVENTS = pa.record_batch({"v": ["a", "b"] * 20, "w": ["c", "a"] * 20, "t": range(40), "s": [None, "é"] * 20})
REPORTS = PLAN.perturb(EVENTS)
SCHEMA = pa.schema([("os", pa.string()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])


def one(array):
    return pa.record_batch({"a": array})


def test_a_batch_and_its_plan_survive():
    for batch in (REPORTS, REPORTS.slice(3, 5), REPORTS.slice(0, 0), EVENTS, one(pa.array(["x"]).dictionary_encode())):
        back = decode(encode(batch))
        assert back.equals(batch, check_metadata=True)
    assert PrivacyPlan.from_metadata(decode(encode(REPORTS)).schema.metadata) == PLAN


def several(n):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, EVENTS.schema) as stream:
        for _ in range(n):
            stream.write_batch(EVENTS)
    return sink.getvalue().to_pybytes()


BAD_TEXT = pa.array([SECRET.encode() + b"\xff"]).view(pa.string())
NOT_BATCHES: dict[str, Any] = {
    "two messages in one": 2 * encode(one(pa.array([1]))),
    "more after its end": encode(one(pa.array([1]))) + bytes(8),
    "empty": b"",
    "text": SECRET.encode(),
    "str": SECRET,
    "a path": __file__,
    "none": None,
    "no batch": several(0),
    "two batches": several(2),
    "cut": encode(EVENTS)[:-200],
    "a file, not a stream": b"ARROW1\0\0" + encode(EVENTS),
    "no UTF-8": encode(one(BAD_TEXT)),
    "no UTF-8 in a dictionary": encode(one(pa.DictionaryArray.from_arrays(pa.array([0]), BAD_TEXT))),
    "no such dictionary value": encode(one(pa.DictionaryArray.from_arrays(pa.array([5]), ["x"], safe=False))),
    "no UTF-8 in a name": encode(pa.record_batch({"qqqq": [1]})).replace(b"qqqq", b"\xff\xfe\xff\xff"),
    "no UTF-8 in a nested name": encode(one(pa.array([{"qqqq": 1}]))).replace(b"qqqq", b"\xff\xfe\xff\xff"),
}


def test_what_is_no_batch_is_refused():
    for message in NOT_BATCHES.values():
        with pytest.raises(InputError) as caught:
            decode(message)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None
        assert_clean(everything_about(caught.value))


def test_dead_letters_are_sent_as_the_error_says():
    with pytest.raises(DtypeError, match=r"beam.Map\(lambda letter: json.dumps\(letter._asdict\(\)\).encode\(\)\)"):
        message_of(DeadLetter("v", "null", 1))
    assert message_of(json.dumps(DeadLetter("v", "null", 1)._asdict()).encode())


def test_damaged_messages_do_no_harm():
    """Whatever is taken can be read and worked with; a wrong offset that slips through would end the process."""
    rng = random.Random(7)
    nested = one(pa.array([{"a": [1, 2], "b": "x"}, None] * 9))
    sound = [
        encode(batch) for batch in (REPORTS, EVENTS, nested, one(pa.array(["a", "b", None] * 9, pa.string_view())))
    ]
    taken = refused = 0
    for _ in range(3000):
        message = bytearray(rng.choice(sound))
        for _ in range(rng.randrange(1, 6)):
            message[rng.randrange(len(message))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        cut = rng.choice([None, None, rng.randrange(len(message))])
        try:
            batch = decode(bytes(message[:cut]))
        except InputError:
            refused += 1
            continue
        str(batch.schema)
        for column in batch.columns:
            column.to_pylist()
        taken += 1
    assert taken > 100
    assert refused > 100


def test_messages_of_a_poll_become_one_batch_a_schema():
    other = EVENTS.replace_schema_metadata({"k": "v"})
    parts = [EVENTS.slice(i, 4) for i in range(0, 40, 4)]
    messages = [encode(part) for part in parts] + [b"noise"] + [encode(other)] * 2
    [(batches, letters, total)] = Decoder().decode(messages)
    assert [batch.num_rows for batch in batches] == [40, 80]
    assert batches[0].equals(EVENTS, check_metadata=True)
    assert batches[1].schema.metadata == {b"k": b"v"}
    assert (letters, total) == ([("", NOT_A_BATCH, 1)], 13)


def test_views_have_a_size_in_every_version_of_arrow():
    """pyarrow 20 has no ``nbytes`` of them, and its TypeError ended the job."""
    for values, kind in ((["x", "y" * 20], pa.string_view()), ([["x"], ["y"]], pa.list_(pa.string_view()))):
        batch = one(pa.array(values, kind))
        [([read], letters, total)] = Decoder().decode([encode(batch)])
        assert (read.to_pydict(), letters, total) == (batch.to_pydict(), [], 1)
        assert 10 < RecordBatchCoder().estimate_size(batch) < 10_000


def test_dictionaries_are_joined():
    a, b = (one(pa.array(values).dictionary_encode()) for values in (["x", "y"], ["z", "x"]))
    [([batch], _, _)] = Decoder().decode([encode(a), encode(b)])
    assert batch.to_pydict() == {"a": ["x", "y", "z", "x"]}


def test_the_transform_keeps_times_and_windows():
    messages = [(encode(EVENTS.slice(0, 3)), 5), (b"noise", 6), ([encode(EVENTS)] * 2, 15)]
    windowed = stamped(messages) | beam.WindowInto(FixedWindows(10))
    [good, bad], result = run_with_result(DecodeMessages().with_exception_handling(), windowed)
    seen = sorted((batch.num_rows, at.seconds(), window.start.seconds()) for batch, at, window in good.stamped)
    assert seen == [(3, 5, 0), (80, 15, 10)]
    [(letter, at, window)] = bad.stamped
    assert (letter, window.start.seconds()) == (DeadLetter("", NOT_A_BATCH, 1), 0)
    assert at.seconds() == 9  # the window's last second
    assert counters(result) == {"messages_read": 4, "dead_lettered": 1}


def test_without_handling_the_pipeline_stops_and_tells_nothing(caplog):
    caplog.set_level("INFO")
    lines = DecodeMessages("ndjson", schema=SCHEMA)
    for transform, message in ((DecodeMessages(), SECRET.encode()), (lines, f'{{"n": "{SECRET}"}}'.encode())):
        with pytest.raises(InputError, match="1 of 1") as caught:
            run(transform, [message])
        assert_clean(everything_about(caught.value))
        assert_clean("\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records))


LINES = [
    b'{"os": "ios", "n": 1, "at": "2024-01-01T00:00:00Z"}',
    b'{"os": "mac", "other": [1, {"x": null}], "at": "2024-01-01T02:00:00+02:00"}',
    b"  ",
    b'{"n": 9223372036854775807}\r',
]
BROKEN = [
    b"null",
    b"[]",
    b"17",
    b"{",
    b"}",
    b'{"n": 1} null',
    b'{"n": 1}{"n": 2}',
    b'{"n": "1"}',
    b'{"n": 1.5}',
    b'{"n": 9223372036854775808}',
    b'{"n": 1, "n": 2}',
    b'{"os": 5}',
    b'{"os": "\xff"}',
    b'{"at": "today"}',
    b'{"at": 5}',
    b"\xff",
    b"{" * 5000 + b"}" * 5000,
]


def test_a_broken_line_is_counted_and_the_others_are_read():
    for place in (0, 2, 4):
        for broken in BROKEN:
            batches, numbers, bad = parse_lines([*LINES[:place], broken, *LINES[place:]], SCHEMA)
            assert bad.total() == 1
            assert numbers.tolist() == [i + (i >= place) for i in (0, 1, 3)]
            rows = [row for batch in batches for row in batch.to_pylist()]
            assert [row["os"] for row in rows] == ["ios", "mac", None]
            assert [row["n"] for row in rows] == [1, None, 2**63 - 1]
            assert rows[0]["at"] == rows[1]["at"]
            assert all(batch.schema.equals(SCHEMA) for batch in batches)
    for broken in BROKEN:  # alone too
        batches, _, bad = parse_lines([broken], SCHEMA)
        assert (batches, bad.total()) == ([], 1)


def test_a_field_that_must_be_there():
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)], {"k": "v"})
    [batch], _, bad = parse_lines([b'{"n": 1}', b"{}", b'{"n": null}'], schema)
    assert (batch.to_pydict(), bad.total()) == ({"n": [1]}, 2)
    assert batch.schema.equals(schema, check_metadata=True)


def test_a_stream_of_many_blocks(monkeypatch):
    many = b"\n".join(b'{"n": %d}' % i for i in range(100)) + b"\nnull\n" + b'{"n": 100}'
    long = b'{"n": 2, "x": "' + b"y" * 100 + b'"}'  # over the limit: its end is looked for, and it is no record
    texts = (
        (many, list(range(101)), [*range(100), 101]),
        (b'{"n": 1}\n%b\n{"n": 3}' % long, [1, 3], [0, 2]),
        (b"%b\n\n" % long, [], []),
        (b'{"n": 1}\n%b' % long, [1], [0]),
        (b'\xef\xbb\xbf{"n": 1}\n[]\n{"n": 2}', [1, 2], [0, 2]),  # with a mark of UTF-8
    )
    for size, (text, rows, numbers) in product((10, 1 << 20), texts):  # (in one read a long line was a record)
        monkeypatch.setattr(ndjson, "_READ_BYTES", size)
        read = list(parse_stream(io.BytesIO(text), pa.schema([("n", pa.int64())]), Limits(line_bytes=30)))
        assert [row["n"] for batches, _, _ in read for batch in batches for row in batch.to_pylist()] == rows
        assert [number for _, found, _ in read for number in found.tolist()] == numbers
        assert sum(bad.total() for _, _, bad in read) == 1


def test_lines_are_dead_letters():
    transform = DecodeMessages("ndjson", schema=SCHEMA).with_exception_handling()
    message = b"\n".join(LINES + BROKEN)
    good, bad = run(transform, [message, [LINES[0], LINES[1] + b"\n" + BROKEN[0], None]])
    assert sorted(batch.num_rows for batch in good) == [2, 3]
    assert sorted(bad) == [
        ("", NOT_A_RECORD, 2),
        ("", NOT_A_RECORD, 10),
        ("at", "not of type timestamp[us, tz=UTC]", 2),
        ("n", "not of type int64", 3),
        ("os", "not of type string", 2),
    ]


def test_configuration_is_checked_at_once():
    for arguments in ({"format": "avro"}, {"format": "ndjson"}, {"schema": SCHEMA}, {"format": "ndjson", "schema": {}}):
        with pytest.raises(ParameterError):
            DecodeMessages(**arguments)


def test_what_sinks_send():
    assert message_of(b"x") == b"x"
    assert decode(message_of(EVENTS)).equals(EVENTS)
    for other in (SECRET, pa.table(EVENTS), {"v": SECRET}):
        with pytest.raises(DtypeError) as caught:
            message_of(other)
        assert_clean(everything_about(caught.value))


def test_compressed_messages_are_read_like_others():
    for compression in ("lz4", "zstd"):
        batch = pa.record_batch({"v": pa.array([True, False] * 50_000)})
        message = encode(batch, compression=compression)
        assert len(message) < len(encode(batch)) / 5
        assert decode(message).equals(batch)


def test_messages_over_the_limits_are_dead_letters():
    limits = Limits(rows=20, bytes=10_000)
    bomb = encode(one(pa.array(np.zeros(10**7, np.uint8))), compression="zstd")
    transform = DecodeMessages(limits=limits).with_exception_handling()
    good, bad = run(transform, [encode(EVENTS.slice(0, 20)), encode(EVENTS), [bomb, b"noise", bomb]])
    assert [batch.num_rows for batch in good] == [20]
    assert sorted(bad) == sorted(DeadLetter("", *found) for found in ((TOO_LARGE, 1), (TOO_LARGE, 2), (NOT_A_BATCH, 1)))
    transform = DecodeMessages("ndjson", schema=SCHEMA, limits=limits).with_exception_handling()
    good, bad = run(transform, [b"{}\n" * 20, b"{}\n" * 21, b'{"os": "' + b"x" * 10_000 + b'"}'])
    assert [batch.num_rows for batch in good] == [20]
    assert sorted(bad) == [DeadLetter("", TOO_LARGE, 1), DeadLetter("", TOO_LARGE, 21)]
    with pytest.raises(InputError, match="1 of 1 messages are over the limits"):
        run(DecodeMessages(limits=limits), [bomb])
    with pytest.raises(LimitError, match="rows=20"):
        decode(encode(EVENTS), limits=limits)


def test_many_large_messages_are_read_some_at_a_time():
    """A thousand messages of one poll, each within the limits, must not be in memory together."""
    messages = [encode(one(pa.array(np.zeros(1000, np.uint8))), compression="zstd")] * 50
    portions = list(Decoder(limits=Limits(bytes=5000)).decode(messages))
    assert [portion.total for portion in portions] == [6] * 8 + [2]
    assert sum(batch.num_rows for portion in portions for batch in portion.batches) == 50_000
    nothing = [encode(one(pa.nulls(1000)))] * 10  # which takes no bytes, until somebody counts it
    assert [portion.total for portion in Decoder(limits=Limits(rows=2000)).decode(nothing)] == [3, 3, 3, 1]
    lines = list(Decoder("ndjson", SCHEMA, Limits(bytes=50)).decode([b'{"n": 1}\n' * 4] * 3))
    assert [portion.total for portion in lines] == [8, 4]
