"""Kafka: every record once, times and watermarks, restarts, and what goes wrong."""

import sys
import time
from itertools import count, islice
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.internal import pickler
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_beam import DeadLetter
from ldp_beam.elements.faults import NOT_A_BATCH
from ldp_beam.io import ReadKafka, WriteKafka, decode, encode
from ldp_beam.io import _kafka_source as module
from ldp_beam.io._kafka_source import ReadPartition, Topic
from ldp_core import InputError, LdpError, ParameterError, PrivacyPlan, UnaryEncoding
from ldp_core.extras import MissingExtraError

from ..helpers import debiased, run
from ..raw_values import SECRET, assert_clean, everything_about
from .conftest import topics
from .mock_broker import MockBroker

confluent_kafka = pytest.importorskip("confluent_kafka")
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient, NewPartitions  # noqa: E402

OS = UnaryEncoding([f"os{i}" for i in range(16)], epsilon=1.0)
PLAN = PrivacyPlan({"os": OS}, keep=["t"])
DEADLINE = 60.0
_groups = count()
_steps = []


@pytest.fixture(autouse=True)
def _torn_down():
    yield
    while _steps:
        _steps.pop().teardown()


def numbers(first, n):
    return encode(pa.record_batch({"id": np.arange(first, first + n)}))


def send(broker, topic, messages, **config):
    """Send (value, partition, time in ms or 0 for now); wait until all have arrived."""
    producer = Producer({"bootstrap.servers": broker.servers, **config})
    for value, partition, when in messages:
        producer.produce(topic, value, partition=partition, timestamp=when)
    assert producer.flush(DEADLINE) == 0


def source(broker, topic, **options):
    config = {"bootstrap.servers": broker.servers, "group.id": f"group-{next(_groups)}", "auto.offset.reset": "error"}
    config |= {"enable.auto.commit": False, "enable.partition.eof": True, **options.pop("config", {})}
    return Topic(config, topic, **{"partitions": (0,), **options})


class Bundle:
    """One bundle of a partition, as a runner has it: from a checkpoint, or from the start."""

    def __init__(self, topic, checkpoint=None, *, partition=0, of=None, step=None):
        element = (partition, of)
        self.step = step or ReadPartition(pickler.loads(pickler.dumps(topic)))
        _steps.append(self.step)
        at, watermark = (self.step.initial_restriction(element), None) if checkpoint is None else checkpoint
        self.tracker = ThreadsafeRestrictionTracker(self.step.create_tracker(at))
        self.estimator = ManualWatermarkEstimator(watermark)
        self.finalizer = []
        finalizer = SimpleNamespace(register=self.finalizer.append)
        self.elements = self.step.process(element, finalizer, RestrictionTrackerView(self.tracker), self.estimator)

    @property
    def watermark(self):
        return self.estimator.current_watermark()

    def rest(self):
        """The checkpoint after the bundle, over the coder of the step; None if the partition has come to its stop."""
        list(self.elements)
        self.tracker.check_done()
        left = self.tracker.deferred_status()
        coder = self.step.restriction_coder()
        return None if left is None else (coder.decode(coder.encode(left[0])), self.watermark)


def bundles(topic, checkpoint=None, **options):
    """(messages, timestamp, watermark after them) of each poll that brought some, and each bundle when it is over."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        bundle = Bundle(topic, checkpoint, **options)
        polls = [(element.value, element.timestamp) for element in bundle.elements]
        checkpoint = bundle.rest()
        yield polls, bundle, checkpoint
        if checkpoint is None:
            return
    raise AssertionError("nothing came")


def read_all(topic, **options):
    return [i for polls, _, _ in bundles(topic, **options) for messages, _ in polls for i in ids(messages)]


def ids(messages):
    return [i for message in messages for i in decode(message).column("id").to_pylist()]


def ids_of(elements):
    return sorted(i for batch in elements for i in batch.column("id").to_pylist())


def committed(broker, topic, group):
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    places = consumer.committed([TopicPartition(topic, p) for p in (0, 1)], timeout=DEADLINE)
    consumer.close()
    return [place.offset for place in places]


def test_a_hundred_thousand_reports_of_polars_are_counted_exactly(broker, topic):
    n, messages = 100_000, 250
    events = pl.DataFrame({"os": [f"os{i * i % 16}" for i in range(n)], "t": np.arange(n) // 1000, "user": range(n)})
    [reports] = events.ldp.perturb(PLAN).rechunk().to_arrow().to_batches()
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


def test_what_is_written_is_read(broker, topic):
    batches = [pa.record_batch({"os": [f"os{i % 16}"] * 10, "t": [i] * 10}) for i in range(50)]
    reports = [PLAN.perturb(batch) for batch in batches]
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create(reports) | WriteKafka(broker.servers, topic)
    out = run(ReadKafka(broker.servers, topic, stop_at="latest"))
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
    out = run(ReadKafka(broker.servers, topic, stop_at="latest"))
    records = [record for batch in out for record in batch.to_pylist()]
    assert len(records) > 20, "the bundles were not repeated: the test shows nothing"
    assert len({(record["id"], *record["v"]) for record in records}) == 20


def test_each_record_and_the_watermark_once_over_a_restart(broker, topic, monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", 0.1)
    base = 1_700_000_000
    send(broker, topic, [(numbers(10 * i, 10), 0, 1000 * (base + i)) for i in range(100)])
    whole = source(broker, topic, stop_at="latest", max_batch=7, max_delay=5)
    for _ in range(10):  # (a broker that is slow to answer ends a bundle early: it is read again)
        first = Bundle(whole)
        polls = list(islice(first.elements, 2))
        if len(polls) == 2:
            break
    seen = [i for poll in polls for i in ids(poll.value)]
    read, left = first.tracker.try_split(0)  # the runner makes a checkpoint between two polls
    assert not list(first.elements), "what is read after the checkpoint is another bundle's"
    first.tracker.check_done()
    rest = left, first.watermark
    assert len(seen) == 10 * read.stop
    assert Timestamp(base + read.stop - 1 - 7 - 5) <= rest[1] <= Timestamp(base + read.stop - 1 - 5)
    # what comes later is beyond the stop, which the checkpoint remembers
    send(broker, topic, [(numbers(5000, 10), 0, 0)])
    later = list(bundles(whole, rest))
    seen += [i for polls, _, _ in later for messages, _ in polls for i in ids(messages)]
    assert seen == list(range(1000))
    assert all(bundle.watermark >= rest[1] for _, bundle, _ in later)
    assert later[-1][1].watermark == MAX_TIMESTAMP


def test_each_partition_is_an_element_that_a_runner_can_give_to_another_worker(broker, topic):
    """Flink's runner gives all that becomes of one element to one slot."""
    send(broker, topic, [(numbers(0, 1), 0, 0)])
    assert [one for one, _ in source(broker, topic, partitions=None).found()][:2] == [0, 1]
    assert source(broker, topic, partitions=(2, 0, 2)).found() == [(0, None), (2, None)]
    read = beam.Pipeline() | ReadKafka("127.0.0.1:1", "t", partitions=[0, 1])
    labels = [part.full_label for part in _parts(read.pipeline.transforms_stack[0])]
    assert labels.index("ReadKafka/Partitions") < labels.index("ReadKafka/Poll")


def _parts(transform):
    return [transform, *(deep for part in transform.parts for deep in _parts(part))]


def test_a_batch_is_as_old_as_its_oldest_message(broker, topic):
    base = 1_700_000_000_000
    times = [base + 5000, base + 1000, base + 9000]
    send(broker, topic, [(numbers(i, 1), 0, when) for i, when in enumerate(times)])
    got = [poll for polls, _, _ in bundles(source(broker, topic, stop_at={0: 3}, max_delay=2)) for poll in polls]
    assert sum(len(messages) for messages, _ in got) == 3
    assert min(timestamp for _, timestamp in got) == Timestamp(base / 1000 + 1)  # (one poll for all: as good as always)


def test_the_watermark_follows_the_messages_less_the_delay_as_long_as_there_are_unread_ones(broker, topic, monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.0)
    monkeypatch.setattr(module, "POLL_SECONDS", DEADLINE)  # each poll of one message ends when it has come
    base = 1_700_000_000
    times = [base, base - 5, *range(base + 1, base + 5)]
    send(broker, topic, [(numbers(i, 1), 0, 1000 * when) for i, when in enumerate(times)])
    bundle = Bundle(source(broker, topic, max_delay=30, max_batch=1))
    assert bundle.watermark is None
    got = []
    for element in bundle.elements:
        got.append((element.timestamp.seconds(), None if bundle.watermark is None else bundle.watermark.seconds() + 30))
        if len(got) == len(times):
            break
    # when an element is handed on, the watermark is that of the elements before it
    assert got == list(zip(times, [None, base, base, *range(base + 1, base + 4)], strict=True))


def test_a_producer_whose_clock_is_ahead_makes_nobody_late(broker, topic):
    far = Timestamp.now().seconds() + 365 * 86_400
    send(broker, topic, [(numbers(0, 1), 0, 1000 * far), (numbers(1, 1), 0, 1_700_000_000_000)])
    for polls, bundle, _ in bundles(source(broker, topic, max_delay=5)):  # noqa: B007 (used after the loop)
        if polls:
            break
    assert bundle.watermark <= Timestamp.now() - 5


@pytest.mark.parametrize("partition", [0, 1], ids=["read to its end", "empty"])
def test_a_partition_without_traffic_follows_the_clock(broker, topic, partition, monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.3)  # longer than a poll: each bundle has another instance
    send(broker, topic, [(numbers(0, 1), 0, 1_700_000_000_000)])
    before = Timestamp.now()
    for _, bundle, _ in bundles(source(broker, topic, max_delay=5), partition=partition):
        if bundle.watermark is not None and bundle.watermark >= before - 5:
            break
    assert before - 5 <= bundle.watermark <= Timestamp.now() - 5


def test_the_clock_is_followed_only_where_nothing_is_left_to_read(broker, topic, monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.0)
    send(broker, topic, [(numbers(i, 1), 0, 0) for i in range(2)])
    connection = module._Connection(source(broker, topic), 0, 0)
    assert connection.read_to_its_end(1) is None
    assert connection.read_to_its_end(2) is not None
    connection.close()


def test_time_stands_still_without_a_broker(monkeypatch):
    monkeypatch.setattr(module, "IDLE_CHECK_SECONDS", 0.05)
    broker = MockBroker()
    base = 1_700_000_000
    send(broker, "t", [(numbers(0, 1), 0, 1000 * base)])
    topic = source(broker, "t", config={"log_level": 0})
    for polls, bundle, rest in bundles(topic):  # noqa: B007 (used after the loop)
        if polls:
            break
    broker.stop()
    asked, really = [], Topic.ends
    monkeypatch.setattr(Topic, "ends", lambda *args: asked.append(1) or really(*args))
    settled = bundle.watermark
    for polls, bundle, _ in bundles(topic, rest):
        assert not polls
        assert bundle.watermark == settled
        if len(asked) >= 3:
            break


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
    assert read_all(source(real_broker, topic, stop_at="latest")) == [0, 1, 2]
    before = Timestamp.now()
    for _, bundle, _ in bundles(source(real_broker, topic)):
        if bundle.watermark is not None and bundle.watermark >= before:
            break


def test_offsets_are_committed_when_the_work_is_durable(broker, topic):
    send(broker, topic, [(numbers(10 * i, 10), i % 2, 0) for i in range(7)])
    options: dict[str, Any] = {"group": "readers", "start": "committed", "stop_at": "latest", "partitions": [0, 1]}
    assert ids_of(run(ReadKafka(broker.servers, topic, **options))) == list(range(70))
    assert committed(broker, topic, "readers") == [4, 3]
    send(broker, topic, [(numbers(100, 10), 1, 0)])
    assert ids_of(run(ReadKafka(broker.servers, topic, **options))) == list(range(100, 110))
    assert committed(broker, topic, "readers") == [4, 4]
    assert run(ReadKafka(broker.servers, topic, **options)) == []


def _breaks(_):
    raise OSError("the disk is full")


def test_what_a_failed_job_had_read_comes_again_if_the_offsets_are_set_back(broker, topic):
    """A local runner keeps no checkpoint: behind a shuffle the messages are lost, and they count as committed."""
    send(broker, topic, [(numbers(0, 10), 0, 0)])
    group, places = "broken", [TopicPartition(topic, 0, 0)]
    options: dict[str, Any] = {"group": group, "start": "committed", "stop_at": "latest", "partitions": [0]}
    with pytest.raises((OSError, RuntimeError), match="disk is full"), beam.Pipeline("FnApiRunner") as p:
        _ = p | ReadKafka(broker.servers, topic, **options) | beam.Reshuffle() | beam.Map(_breaks)
    assert run(ReadKafka(broker.servers, topic, **options)) == []
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    assert ids_of(run(ReadKafka(broker.servers, topic, **options))) == list(range(10))


def test_a_topic_that_is_shorter_than_what_is_committed_is_an_error(broker, topic):
    """As one that was made anew: nothing of it was read, without a word."""
    send(broker, topic, [(numbers(0, 10), 0, 0)])
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "before"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.close()
    options: dict[str, Any] = {"group": "before", "stop_at": "latest", "partitions": [0]}
    with pytest.raises(InputError, match=r"committed offset 7 of partition 0 of .*, which ends at 1: give another"):
        run(ReadKafka(broker.servers, topic, start="committed", **options))
    assert ids_of(run(ReadKafka(broker.servers, topic, start="earliest", **options))) == list(range(10))


def test_bundles_that_follow_each_other_share_one_connection(broker, topic, monkeypatch):
    """On Flink each bundle has another instance of the step. A commit never goes back, and works after the end."""
    made, real = [], module.client
    send(broker, topic, [(numbers(i, 1), 0, 0) for i in range(20)])
    whole = source(broker, topic, stop_at={0: 20}, max_batch=2, config={"group.id": "g"})
    checkpoint = Bundle(whole).step.initial_restriction((0, None)), None
    monkeypatch.setattr(module, "client", lambda *args: made.append(real(*args)) or made[-1])
    monkeypatch.setattr(module, "BUNDLE_POLLS", 3)
    done = list(bundles(whole, checkpoint))
    assert [i for polls, _, _ in done for messages, _ in polls for i in ids(messages)] == list(range(20))
    assert len(done) > 3
    assert len(made) == 1
    with pytest.raises(RuntimeError):  # it is closed
        made[0].assignment()
    assert committed(broker, topic, "g")[0] < 0
    commits = [commit for _, bundle, _ in done for commit in bundle.finalizer]
    commits[-1]()
    commits[0]()
    assert committed(broker, topic, "g")[0] == 20


def test_a_connection_that_nobody_takes_is_closed(broker, topic, monkeypatch):
    made, real = [], module.client
    send(broker, topic, [(numbers(i, 1), 0, 0) for i in range(3)])
    kinds = [source(broker, topic) for _ in range(3)]
    checkpoint = Bundle(kinds[0]).step.initial_restriction((0, None)), None
    monkeypatch.setattr(module, "client", lambda *args: made.append(real(*args)) or made[-1])
    given_up, torn_down, other = (Bundle(kind, checkpoint) for kind in kinds)
    assert given_up.rest() is not None
    assert torn_down.rest() is not None
    assert Bundle(kinds[1], checkpoint, partition=1, step=torn_down.step).rest() is not None
    made[0].assignment()  # it is open
    torn_down.step.teardown()  # which has left one connection to each of two partitions
    for closed in made[1:]:
        with pytest.raises(RuntimeError):
            closed.assignment()
    monkeypatch.setattr(module, "PARKED_SECONDS", 0)
    other.rest()
    with pytest.raises(RuntimeError):
        made[0].assignment()


def test_two_readers_of_a_topic_have_a_connection_each(broker, topic):
    """In one process, of one group: at the topic's end both wait at the same place."""
    kinds = [source(broker, topic, named=named, config={"group.id": "g"}) for named in (False, True)]
    send(broker, topic, [(numbers(0, 1), 0, 0)])
    checkpoints = [Bundle(kind).rest() for kind in kinds]
    send(broker, topic, [(numbers(1, 1), 0, 0)])
    for kind, checkpoint in zip(kinds, checkpoints, strict=True):
        messages = next(polls[0][0] for polls, _, _ in bundles(kind, checkpoint) if polls)
        assert {type(message) for message in messages} == {tuple if kind.named else bytes}


def test_latest_is_what_comes_after(broker, topic):
    send(broker, topic, [(numbers(0, 10), 0, 0)])
    late = source(broker, topic, start="latest")
    at = Bundle(late).step.initial_restriction((0, None))  # before the first poll
    send(broker, topic, [(numbers(10, 10), 0, 0)])
    for polls, _, _ in bundles(late, (at, None)):
        if polls:
            break
    assert ids(polls[0][0]) == list(range(10, 20))


def test_dead_letters(broker, topic):
    noise = [b"", SECRET.encode(), None]
    send(broker, topic, [(numbers(0, 5), 0, 0), *((value, 0, 0) for value in noise), (numbers(5, 5), 1, 0)])
    read = ReadKafka(broker.servers, topic, stop_at="latest").with_exception_handling()
    good, dead = run(read)
    assert ids_of(good) == list(range(10))
    assert sum(letter.count for letter in dead) == 3
    assert {letter[:2] for letter in dead} == {DeadLetter("", NOT_A_BATCH, 1)[:2]}
    with pytest.raises(InputError) as caught:
        run(ReadKafka(broker.servers, topic, stop_at="latest"))
    assert_clean(everything_about(caught.value))


@pytest.mark.kafka
def test_no_such_topic(real_broker):
    with pytest.raises(InputError, match="no topic 'nothing'"):
        run(ReadKafka(real_broker.servers, "nothing", stop_at="latest"))


@pytest.mark.kafka
def test_a_partition_that_is_added_is_an_error_of_what_reads_all(real_broker, monkeypatch):
    """It was not read, without a word: its part of the messages was missing in every count."""
    monkeypatch.setattr(module, "COUNT_CHECK_SECONDS", 0.0)
    topic = real_broker.create_topic(next(topics), 2)
    send(real_broker, topic, [(numbers(0, 3), 1, 0)])
    reads_all = source(real_broker, topic, partitions=None)
    _, last = reads_all.found()
    assert last == (1, 2)
    rest = next(rest for polls, _, rest in bundles(reads_all, partition=1, of=2) if polls)
    admin = AdminClient({"bootstrap.servers": real_broker.servers})
    [added] = admin.create_partitions([NewPartitions(topic, 4)]).values()
    added.result(DEADLINE)
    expected = r"has 4 partitions now, and had 2 when .*: go on with partitions=\[0, 1\], and read \[2, 3\] in a job"
    with pytest.raises(InputError, match=expected):
        list(islice(bundles(reads_all, rest, partition=1, of=2), 50))  # (the news may take a moment)
    list(islice(bundles(reads_all, partition=0, of=2), 3))  # one of them tells
    send(real_broker, topic, [(numbers(3, 4), 1, 0)])
    as_told = source(real_broker, topic, partitions=(0, 1))
    polls = next(polls for polls, _, _ in bundles(as_told, rest, partition=1, of=2) if polls)
    assert [i for messages, _ in polls for i in ids(messages)] == list(range(3, 7))
    stops = source(real_broker, topic, partitions=None, stop_at="latest")
    assert read_all(stops, partition=1, of=2) == list(range(7))  # it was asked for what there was then


def test_offsets_that_are_gone_are_an_error_unless_said_otherwise(broker, topic):
    send(broker, topic, [(numbers(0, 10), 0, 0)])
    gone = OffsetRange(77, 100), None
    with pytest.raises(InputError, match=topic):
        list(bundles(source(broker, topic), gone))
    next(bundles(source(broker, topic, config={"auto.offset.reset": "earliest"}), gone))


def test_messages_that_do_not_arrive_fail_the_bundle():
    nobody = {"message.timeout.ms": 300, "log_level": 0}
    write = WriteKafka("127.0.0.1:1", "t", producer_config=nobody)
    with pytest.raises(LdpError, match="2 messages did not reach topic 't'"):
        run(write, [encode(pa.record_batch({"v": [SECRET]})), pa.record_batch({"v": [SECRET]})])


@pytest.mark.parametrize("packed", [False, True])
def test_a_batch_that_is_longer_than_a_message_becomes_several(broker, topic, packed):
    """A poll of a backlog is one batch: a job that wrote its reports began again and again."""
    events = pa.record_batch({"os": [f"os{i % 16}" for i in range(2_000)], "t": range(2_000)})
    reports = PLAN.perturb(events, packed=packed)
    few = {"message.max.bytes": 10_000}
    run(WriteKafka(broker.servers, topic, producer_config=few), [reports])
    result = run(ReadKafka(broker.servers, topic, stop_at="latest", max_batch=1))
    assert len(result) > 2
    assert pa.Table.from_batches(result).sort_by("t").combine_chunks().to_batches() == [reports]


def test_a_message_that_is_too_large_fails_the_bundle_too(broker, topic):
    write = WriteKafka(broker.servers, topic, producer_config={"message.max.bytes": 1000})
    with pytest.raises(LdpError, match=f"1 messages did not reach topic '{topic}': .*too large"):
        run(write, [numbers(0, 1000), numbers(0, 10)])  # (bytes, which are sent as they are)


def test_no_broker_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.3)
    read = ReadKafka("127.0.0.1:1", "t", stop_at="latest", consumer_config={"log_level": 0})
    with pytest.raises(InputError, match="Kafka: cannot get topics"):
        run(read)


def test_an_option_that_the_client_does_not_know():
    with pytest.raises(InputError, match="refuses"):
        run(ReadKafka("127.0.0.1:1", "t", consumer_config={"no.such.option": "x"}))


def test_configuration_is_checked_at_once():
    for arguments in (
        {"topic": ""},
        {"bootstrap_servers": 9092},
        {"start": "newest"},
        {"stop_at": "end"},
        {"stop_at": 5},
        {"max_batch": 0},
        {"max_batch": True},
        {"max_delay": "soon"},
        {"max_delay": -1},
        {"stop_at": {"0": 5}},
        {"stop_at": {0: "5"}},
        {"stop_at": {0: -1}},
        {"partitions": []},
        {"partitions": "01"},
        {"partitions": [-1]},
        {"consumer_config": {"group.id": "x"}},
        {"consumer_config": {"enable.auto.commit": True}},
        {"format": "ndjson"},
    ):
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
    assert_clean("".join(map(repr, (read, write, Topic(options, "t")))))
