"""Kafka: every record once, times and watermarks, restarts, and what goes wrong."""

import sys
import time
from itertools import count
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

import ldp_beam
from ldp_beam import DeadLetter
from ldp_beam.elements.faults import NOT_A_BATCH
from ldp_beam.io import ReadKafka, WriteKafka, decode, encode
from ldp_beam.io import _kafka_source as module
from ldp_beam.io._kafka_source import KafkaMark, KafkaMarkCoder, KafkaReader, KafkaSource
from ldp_core import InputError, LdpError, ParameterError, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_core.extras import MissingExtraError

from ..helpers import Collector, debiased, run
from ..raw_values import SECRET, assert_clean, everything_about
from .conftest import topics
from .mock_broker import MockBroker

confluent_kafka = pytest.importorskip("confluent_kafka")
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402

OS = UnaryEncoding([f"os{i}" for i in range(16)], epsilon=1.0)
PLAN = PrivacyPlan({"os": OS}, keep=["t"])
DEADLINE = 60.0
_groups = count()


def numbers(first, n):
    return encode(pa.record_batch({"id": np.arange(first, first + n)}))


def send(broker, topic, messages, **config):
    """Send (value, partition, time in ms or 0 for now); wait until all have arrived."""
    producer = Producer({"bootstrap.servers": broker.servers, **config})
    for value, partition, when in messages:
        producer.produce(topic, value, partition=partition, timestamp=when)
    assert producer.flush(DEADLINE) == 0


def source(broker, topic, **options):
    defaults: dict[str, Any] = {"partitions": [0, 1], "max_delay": 0, "group": f"group-{next(_groups)}"}
    return ReadKafka(broker.servers, topic, **{**defaults, **options})._source


def polls(reader, until):
    """(messages, timestamp, watermark) of each poll that brought some, until ``until(reader)``."""
    deadline = time.monotonic() + DEADLINE
    has = reader.start()
    while time.monotonic() < deadline:
        if has:
            yield reader.get_current(), reader.get_current_timestamp(), reader.get_watermark()
        if until(reader):
            return
        has = reader.advance()
    raise AssertionError("nothing came")


def ended(reader):
    return reader.get_watermark() == MAX_TIMESTAMP


def ids(messages):
    return [i for message in messages for i in decode(message).column("id").to_pylist()]


def ids_of(elements):
    return sorted(i for batch in elements for i in batch.column("id").to_pylist())


def committed(broker, topic, group):
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    places = consumer.committed([TopicPartition(topic, p) for p in (0, 1)], timeout=DEADLINE)
    consumer.close()
    return [place.offset for place in places]


def test_a_hundred_thousand_reports_are_counted_exactly(broker, topic):
    n, messages = 100_000, 250
    events = pa.record_batch({"os": [f"os{i * i % 16}" for i in range(n)], "t": np.arange(n) // 1000})
    reports = PLAN.perturb(events)
    parts = [reports.slice(i * n // messages, n // messages) for i in range(messages)]
    send(broker, topic, [(encode(part), i % 2, 0) for i, part in enumerate(parts)])
    read = ReadKafka(broker.servers, topic, stop_at="latest", max_batch=40)
    rows = run(ldp_beam.Histogram("os", OS, window=10, event_time="t"), read)
    assert len(rows) == 10 * 16
    for window in range(10):
        direct = OS.tally(reports.slice(window * 10_000, 10_000).column("os"))
        assert direct.n == 10_000
        expected = debiased(direct.counters, direct.n, OS.p, OS.q)
        found = {row.value: row for row in rows if row.window_start == Timestamp(window * 10)}
        assert {row.n for row in found.values()} == {10_000}
        np.testing.assert_allclose([found[value].count for value in OS.domain.labels], expected, rtol=1e-12)


def test_from_polars_through_kafka_to_beam(broker, topic):
    pl = pytest.importorskip("polars")
    import ldp_polars  # noqa: F401

    events = pl.DataFrame({"os": [f"os{i % 5}" for i in range(5000)], "t": range(5000), "user": range(5000)})
    reports = events.ldp.perturb(PLAN)
    for batch in reports.to_arrow().to_batches(max_chunksize=100):
        send(broker, topic, [(encode(batch), batch.num_rows % 2, 0)])
    histogram = ldp_beam.Histogram("os", OS, window="1d", event_time="t")
    rows = run(histogram, ReadKafka(broker.servers, topic, stop_at="latest"))
    direct = OS.tally(reports["os"].to_arrow())
    expected = debiased(direct.counters, 5000, OS.p, OS.q)
    np.testing.assert_allclose([row.count for row in rows], expected, rtol=1e-12)
    assert {row.n for row in rows} == {5000}


def test_what_is_written_is_read(broker, topic):
    batches = [pa.record_batch({"os": [f"os{i % 16}"] * 10, "t": [i] * 10}) for i in range(50)]
    reports = [PLAN.perturb(batch) for batch in batches]
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create(reports) | WriteKafka(broker.servers, topic)
    out = run(beam.Map(lambda x: x), ReadKafka(broker.servers, topic, stop_at="latest"))
    assert len(out) < 10, "messages of a poll are one batch"
    whole = pa.Table.from_batches(out).sort_by("t").combine_chunks()
    assert whole.equals(pa.Table.from_batches(reports).combine_chunks())
    assert PrivacyPlan.from_metadata(out[0].schema.metadata) == PLAN


def test_a_repeated_bundle_sends_no_other_report(broker, topic):
    # 64 bits, all but fair: that two draws of a record agree has probability below 1e-15
    plan = PrivacyPlan({"v": UnaryEncoding(list(range(64)), epsilon=0.01, variant="symmetric")}, keep=["id"])
    events = [pa.record_batch({"v": [i], "id": [i]}) for i in range(20)]
    options = PipelineOptions(["--direct_runner_bundle_repeat=2"])
    with beam.Pipeline("FnApiRunner", options=options) as p:
        reports = p | beam.Create(events) | ldp_beam.Perturb(plan, stabilize=False)
        _ = reports | WriteKafka(broker.servers, topic)
    out = run(beam.Map(lambda x: x), ReadKafka(broker.servers, topic, stop_at="latest"))
    records = [record for batch in out for record in batch.to_pylist()]
    assert len(records) > 20, "the bundles were not repeated: the test shows nothing"
    assert len({(record["id"], *record["v"]) for record in records}) == 20


def test_each_record_once_over_a_restart(broker, topic):
    send(broker, topic, [(numbers(10 * i, 10), i % 2, 0) for i in range(100)])
    whole = source(broker, topic, stop_at="latest", max_batch=7)
    first = KafkaReader(whole, None)
    seen: list[int] = []
    for messages, _, _ in polls(first, lambda _: False):
        seen += ids(messages)
        if len(seen) >= 300:
            break
    coder = KafkaMarkCoder()
    mark = coder.encode(first.get_checkpoint_mark())
    next(polls(first, lambda _: True), None)  # what is read after the mark is lost with the reader
    first.close()
    assert 300 <= len(seen) < 1000
    # what comes later is beyond the stop, which the mark remembers
    send(broker, topic, [(numbers(5000, 10), 0, 0), (numbers(6000, 10), 1, 0)])
    second = KafkaReader(pickler.loads(pickler.dumps(whole)), coder.decode(mark))
    for messages, _, _ in polls(second, ended):
        seen += ids(messages)
    second.close()
    assert sorted(seen) == list(range(1000))


def test_partitions_are_dealt_out(broker, topic):
    everything = KafkaSource({}, topic, range(5), "earliest", None, 10, 0)
    assert [part.partitions for part in everything.split(2)] == [(0, 2, 4), (1, 3)]
    assert [part.partitions for part in everything.split(20)] == [(0,), (1,), (2,), (3,), (4,)]
    send(broker, topic, [(numbers(0, 1), 0, 0)])
    found = source(broker, topic, partitions=None).split(20)
    assert [part.partitions for part in found[:2]] == [(0,), (1,)]


def test_each_partition_is_an_element_that_a_runner_can_give_to_another_worker():
    """Flink's runner gives all parts of one element to one slot."""
    everything = KafkaSource({}, "t", range(3), "earliest", None, 10, 0)
    source_of = beam.Create([everything]) | beam.FlatMap(KafkaSource.by_partition)
    found = run(beam.Map(lambda part: part), source_of)
    assert sorted(part.partitions for part in found) == [(0,), (1,), (2,)]
    read = beam.Pipeline() | ReadKafka("127.0.0.1:1", "t", partitions=[0, 1])
    labels = [part.full_label for part in _parts(read.pipeline.transforms_stack[0])]
    assert labels.index("ReadKafka/Poll/Partitions") < labels.index("ReadKafka/Poll/Read")


def _parts(transform):
    return [transform, *(deep for part in transform.parts for deep in _parts(part))]


def test_one_reader_may_have_all_partitions(broker, topic):
    """What Beam falls back to if splitting fails."""
    send(broker, topic, [(numbers(10 * i, 10), i % 2, 0) for i in range(10)])
    reader = KafkaReader(source(broker, topic, partitions=None, stop_at="latest"), None)
    assert sorted(i for messages, _, _ in polls(reader, ended) for i in ids(messages)) == list(range(100))
    reader.close()


def test_a_batch_is_as_old_as_its_oldest_message(broker, topic):
    base = 1_700_000_000_000
    times = [base + 5000, base + 1000, base + 9000]
    send(broker, topic, [(numbers(i, 1), 0, when) for i, when in enumerate(times)])
    reader = KafkaReader(source(broker, topic, partitions=[0], stop_at={0: 3}, max_delay=2), None)
    assert reader.get_watermark() == MIN_TIMESTAMP
    got = list(polls(reader, ended))
    assert sum(len(messages) for messages, _, _ in got) == 3
    if len(got) == 1:  # one poll for all three: as good as always
        assert got[0][1] == Timestamp(base / 1000 + 1)
    assert min(timestamp for _, timestamp, _ in got) == Timestamp(base / 1000 + 1)
    reader.close()


def test_the_watermark_follows_the_messages_less_the_delay(broker, topic):
    base = 1_700_000_000
    send(broker, topic, [(numbers(0, 1), 0, 1000 * base), (numbers(1, 1), 0, 1000 * (base - 5))])
    reader = KafkaReader(source(broker, topic, partitions=[0], max_delay=30, max_batch=1), None)
    got = []
    for _, timestamp, watermark in polls(reader, lambda _: len(got) == 2):
        got.append((timestamp.seconds(), watermark.seconds()))
    assert got == [(base, base - 30), (base - 5, base - 30)]
    reader.close()


def test_a_partition_without_traffic_does_not_hold_up_the_others(broker, topic, monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.05)
    send(broker, topic, [(numbers(0, 1), 0, 0)])  # partition 1 stays empty
    before = Timestamp.now()
    reader = KafkaReader(source(broker, topic, max_delay=5), None)
    list(polls(reader, lambda r: r.get_watermark() >= before - 5))
    assert before - 5 <= reader.get_watermark() <= Timestamp.now() - 5
    reader.close()


def test_a_partition_with_unread_messages_waits(broker, topic, monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.0)
    base = 1_700_000_000
    send(broker, topic, [(numbers(i, 1), 0, 1000 * (base + i)) for i in range(5)])
    reader = KafkaReader(source(broker, topic, partitions=[0], max_batch=1), None)
    marks = []
    for _, _, watermark in polls(reader, lambda _: len(marks) == 5):
        marks.append(watermark.seconds())
        if len(marks) < 5:
            assert reader.get_watermark() == Timestamp(base + len(marks) - 1)
    assert marks[:4] == [base, base + 1, base + 2, base + 3]
    reader.close()


def test_time_stands_still_without_a_broker(monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.05)
    broker = MockBroker()
    base = 1_700_000_000
    send(broker, "t", [(numbers(0, 1), 0, 1000 * base)])
    reader = KafkaReader(source(broker, "t", partitions=[0]), None)
    [(_, _, watermark)] = polls(reader, lambda r: r.get_watermark() >= Timestamp(base))
    broker.stop()
    settled = max(watermark, reader.get_watermark())
    asked = []
    monkeypatch.setattr(reader, "_ends", lambda *args: asked.append(1) or KafkaReader._ends(reader, *args))
    deadline = time.monotonic() + DEADLINE
    while len(asked) < 3 and time.monotonic() < deadline:
        assert not reader.advance()
        assert reader.get_watermark() == settled
    assert len(asked) >= 3
    reader.close()


@pytest.mark.kafka
def test_the_control_records_of_transactions_are_no_obstacle(real_broker, monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.05)
    topic = real_broker.create_topic(next(topics), 1)
    producer = Producer({"bootstrap.servers": real_broker.servers, "transactional.id": topic})
    producer.init_transactions(DEADLINE)
    for outcome in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, numbers(0, 3))
        producer.flush(DEADLINE)
        outcome(DEADLINE)
    bounded = KafkaReader(source(real_broker, topic, partitions=[0], stop_at="latest"), None)
    assert [ids(messages) for messages, _, _ in polls(bounded, ended)] == [[0, 1, 2]]
    bounded.close()
    before = Timestamp.now()
    endless = KafkaReader(source(real_broker, topic, partitions=[0]), None)
    list(polls(endless, lambda r: r.get_watermark() >= before))
    endless.close()


def test_offsets_are_committed_when_the_work_is_durable(broker, topic):
    send(broker, topic, [(numbers(10 * i, 10), i % 2, 0) for i in range(7)])
    options: dict[str, Any] = {"group": "readers", "start": "committed", "stop_at": "latest", "partitions": [0, 1]}
    assert ids_of(run(beam.Map(lambda x: x), ReadKafka(broker.servers, topic, **options))) == list(range(70))
    assert committed(broker, topic, "readers") == [4, 3]
    send(broker, topic, [(numbers(100, 10), 1, 0)])
    assert ids_of(run(beam.Map(lambda x: x), ReadKafka(broker.servers, topic, **options))) == list(range(100, 110))
    assert committed(broker, topic, "readers") == [4, 4]
    assert run(beam.Map(lambda x: x), ReadKafka(broker.servers, topic, **options)) == []


def test_a_commit_never_goes_back_and_works_after_the_end(broker, topic):
    send(broker, topic, [(numbers(i, 1), 0, 0) for i in range(5)])
    reader = KafkaReader(source(broker, topic, partitions=[0], group="g", stop_at="latest", max_batch=2), None)
    marks = [reader.get_checkpoint_mark() for _ in polls(reader, ended)]
    reader.close()
    assert committed(broker, topic, "g")[0] < 0
    marks[-1].finalize_checkpoint()
    marks[0].finalize_checkpoint()
    assert committed(broker, topic, "g")[0] == 5
    KafkaMarkCoder().decode(KafkaMarkCoder().encode(marks[0])).finalize_checkpoint()  # a position only
    assert committed(broker, topic, "g")[0] == 5


def test_readers_that_follow_each_other_share_one_connection(broker, topic, monkeypatch):
    """On Flink each bundle has another instance of the step, which knows nothing of the reader before it."""
    made, real = [], module.client
    monkeypatch.setattr(module, "client", lambda *args: made.append(real(*args)) or made[-1])
    send(broker, topic, [(numbers(i, 1), 0, 0) for i in range(20)])
    whole = source(broker, topic, partitions=[0], stop_at="latest", max_batch=2)
    seen, marks, mark = [], [], None
    while len(seen) < 20:
        reader = KafkaReader(whole, mark)
        seen += ids(next(polls(reader, lambda _: False))[0])
        marks.append(reader.get_checkpoint_mark())  # and Beam keeps the reader, which nobody closes
        mark = KafkaMarkCoder().decode(KafkaMarkCoder().encode(marks[-1]))
    for mark in marks:
        mark.finalize_checkpoint()
    assert (seen, len(made)) == (list(range(20)), 1)
    reader.close()
    with pytest.raises(RuntimeError):
        made[0].assignment()


def test_a_connection_that_nobody_takes_is_closed(broker, topic, monkeypatch):
    send(broker, topic, [(numbers(i, 1), 0, 0) for i in range(3)])
    readers = [KafkaReader(source(broker, topic, partitions=[0]), None) for _ in range(2)]
    for reader in readers:
        next(polls(reader, lambda _: True))
    consumer = readers[0]._connection.consumer
    readers[0].get_checkpoint_mark()
    consumer.assignment()  # it is open
    monkeypatch.setattr(module, "PARKED_SECONDS", 0)
    readers[1].get_checkpoint_mark()
    with pytest.raises(RuntimeError):
        consumer.assignment()
    readers[1].close()


def test_an_empty_partition_follows_the_clock_though_each_bundle_has_another_reader(broker, topic, monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.3)  # longer than a poll
    send(broker, topic, [(numbers(0, 1), 0, 0)])  # partition 1 stays empty
    before, mark, deadline = Timestamp.now(), None, time.monotonic() + DEADLINE
    empty = source(broker, topic, partitions=[1])
    while True:
        reader = KafkaReader(empty, mark)
        assert not reader.start()
        mark = reader.get_checkpoint_mark()
        if reader.get_watermark() >= before:
            break
        assert time.monotonic() < deadline
    reader.close()


def test_latest_is_what_comes_after(broker, topic):
    send(broker, topic, [(numbers(0, 10), 0, 0)])
    reader = KafkaReader(source(broker, topic, partitions=[0], start="latest"), None)
    mark = KafkaMarkCoder().encode(reader.get_checkpoint_mark())  # before the first poll
    reader.close()
    send(broker, topic, [(numbers(10, 10), 0, 0)])
    reader = KafkaReader(source(broker, topic, partitions=[0], start="latest"), KafkaMarkCoder().decode(mark))
    [(messages, _, _)] = polls(reader, lambda r: r.get_current())
    assert ids(messages) == list(range(10, 20))
    reader.close()


def test_dead_letters(broker, topic):
    noise = [b"", SECRET.encode(), None]
    send(broker, topic, [(numbers(0, 5), 0, 0), *((value, 0, 0) for value in noise), (numbers(5, 5), 1, 0)])
    read = ReadKafka(broker.servers, topic, stop_at="latest").with_exception_handling()
    p = beam.Pipeline("FnApiRunner")
    good, bad = p | read
    sink, dead = Collector(), Collector()
    _ = good | "Good" >> sink
    _ = bad | "Bad" >> dead
    p.run().wait_until_finish()
    assert ids_of(sink.elements) == list(range(10))
    assert sum(letter.count for letter in dead.elements) == 3
    assert {letter[:2] for letter in dead.elements} == {DeadLetter("", NOT_A_BATCH, 1)[:2]}
    with pytest.raises(InputError) as caught:
        run(beam.Map(lambda x: x), ReadKafka(broker.servers, topic, stop_at="latest"))
    assert_clean(everything_about(caught.value))


def test_lines_of_json(broker, topic):
    schema = pa.schema([("v", pa.string()), ("t", pa.int64())])
    lines = [(b'{"v": "a", "t": %d}' % i, i % 2, 0) for i in range(1000)]
    send(broker, topic, lines)
    out = run(beam.Map(lambda x: x), ReadKafka(broker.servers, topic, stop_at="latest", format="ndjson", schema=schema))
    assert sorted(t for batch in out for t in batch["t"].to_pylist()) == list(range(1000))
    assert len(out) < 100, "records of a poll are one batch"


@pytest.mark.kafka
def test_no_such_topic(real_broker):
    with pytest.raises(InputError, match="no topic 'nothing'"):
        run(beam.Map(lambda x: x), ReadKafka(real_broker.servers, "nothing", stop_at="latest"))


def test_offsets_that_are_gone_are_an_error_unless_said_otherwise(broker, topic):
    send(broker, topic, [(numbers(0, 10), 0, 0)])
    gone = KafkaMark({0: (77, 100)})
    reader = KafkaReader(source(broker, topic, partitions=[0]), gone)
    with pytest.raises(InputError, match=topic):
        list(polls(reader, lambda _: False))
    reader.close()
    config = {"auto.offset.reset": "earliest"}
    tolerant = source(broker, topic, partitions=[0], consumer_config=config)
    reader = KafkaReader(tolerant, gone)
    reader.start()
    reader.close()


def test_messages_that_do_not_arrive_fail_the_bundle():
    nobody = {"message.timeout.ms": 300, "log_level": 0}
    write = WriteKafka("127.0.0.1:1", "t", producer_config=nobody)
    with pytest.raises(LdpError, match="2 messages did not reach topic 't'"):
        run(write, [encode(pa.record_batch({"v": [SECRET]})), pa.record_batch({"v": [SECRET]})])


def test_no_broker_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.3)
    read = ReadKafka("127.0.0.1:1", "t", stop_at="latest", consumer_config={"log_level": 0})
    with pytest.raises(InputError, match="Kafka: cannot get topics"):
        run(beam.Map(lambda x: x), read)


def test_an_option_that_the_client_does_not_know():
    read = ReadKafka("127.0.0.1:1", "t", consumer_config={"no.such.option": "x"})
    with pytest.raises(InputError, match="refuses"):
        KafkaReader(read._source, None)


@pytest.mark.parametrize(
    "arguments",
    [
        {"topic": ""},
        {"bootstrap_servers": 9092},
        {"start": "newest"},
        {"stop_at": "end"},
        {"stop_at": 5},
        {"max_batch": 0},
        {"max_batch": True},
        {"max_delay": "soon"},
        {"max_delay": -1},
        {"partitions": []},
        {"consumer_config": {"group.id": "x"}},
        {"consumer_config": {"enable.auto.commit": True}},
        {"format": "ndjson"},
    ],
    ids=str,
)
def test_configuration_is_checked_at_once(arguments):
    with pytest.raises(ParameterError):
        ReadKafka(**{"bootstrap_servers": "localhost:1", "topic": "t", **arguments})


def test_a_missing_client_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    for make in (ReadKafka, WriteKafka):
        with pytest.raises(MissingExtraError, match=r"ldp-telemetry\[kafka\]"):
            make("localhost:1", "t")


def test_a_password_is_in_no_repr():
    options = {"sasl.password": SECRET}
    read = ReadKafka("localhost:1", "t", consumer_config=options)
    write = WriteKafka("localhost:1", "t", producer_config=options)
    assert_clean("".join(map(repr, (read, write, read._source, read.display_data(), write.display_data()))))


def test_binary_reports_keep_their_type(broker, topic):
    crashed = RandomizedResponse(epsilon=1.0)
    reports = PrivacyPlan({"crashed": crashed}).perturb(pa.record_batch({"crashed": [True, False] * 500}))
    send(broker, topic, [(encode(reports), 1, 0)])
    [out] = run(beam.Map(lambda x: x), ReadKafka(broker.servers, topic, stop_at="latest"))
    assert out.equals(reports, check_metadata=True)
