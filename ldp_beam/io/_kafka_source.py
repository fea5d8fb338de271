"""A Kafka topic as a splittable source: an element is a partition (of how many), a restriction a range of its offsets.

Beam's own ``ReadFromKafka`` (looked at in 2.77) needs Java where a pipeline is built and beside each worker. It has no
offsets to stop at, and hands on one message at a time: 10^6 records in 1,000 messages took it 16 s, and this 0.8 s
(local runner, 2 cores). Here a poll becomes a batch, and a partition without traffic follows the clock only where the
brokers say that all has been read.

What is used of Beam is public. The watermark is the state of the estimator. A runner keeps that in its checkpoint,
beside the range that is left.
"""

from __future__ import annotations

import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Literal, NamedTuple, TypeAlias

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from typing_extensions import override

from ldp_core import InputError
from ldp_core.engine import import_extra

Partition: TypeAlias = tuple[int, int | None]
"""The number of one to read, and how many there were; None: not all are read."""
Start: TypeAlias = Literal["earliest", "latest", "committed"]

POLL_SECONDS = 0.1  # how long one poll waits for messages
REQUEST_SECONDS = 15.0  # how long a request to the brokers may take
IDLE_CHECK_SECONDS = 1.0  # how often the end of a partition without new messages is asked for
CHECK_PATIENCE_SECONDS = 1.0  # how long that question may take; it holds up reading
COUNT_CHECK_SECONDS = 60.0  # how often the number of partitions is asked for
PARKED_SECONDS = 60.0  # how long a connection waits for the next bundle
PAUSE_SECONDS = 0.1  # until the next poll of a partition of which all has been read
BUNDLE_POLLS, BUNDLE_SECONDS = 100, 1.0
"""After so many polls, or so long, the runner may make durable what has been read."""

_NEVER = (1 << 63) - 1  # the offset to stop at of what does not end
_PLACE = struct.Struct(">iqq")  # partition, offset, milliseconds
_RANGE = struct.Struct(">qq")


def client(name: str, config: Mapping[str, Any]) -> Any:
    made = getattr(import_extra("confluent_kafka", "kafka"), name)
    return ask("Kafka's client refuses its configuration", lambda: made(dict(config)))


def ask(failed: str, request: Callable[[], Any]) -> Any:
    try:
        return request()
    except import_extra("confluent_kafka", "kafka").KafkaException as error:
        reason = error.args[0].str()
    raise InputError(f"{failed}: {reason}")


@dataclass(frozen=True)
class Topic:
    """What to read, and how.

    Args:
        config: of ``confluent_kafka.Consumer``, complete; it may hold a password, so it is in no repr.
        stop_at: ``"latest"``: end at what was the end of each partition when reading began; or the offset to
            stop before, by partition; None: never.
        named: whether each message comes with bytes that name it: topic, partition, offset and time. (Not the
            brokers: they move. The time, since a topic that is made anew begins again with offset 0.)
    """

    config: Mapping[str, Any] = field(repr=False)
    name: str
    partitions: tuple[int, ...] | None = None
    start: Start = "earliest"
    stop_at: Literal["latest"] | Mapping[int, int] | None = None
    max_batch: int = 1000
    max_delay: float = 0.0
    named: bool = False

    def found(self) -> list[Partition]:
        """The partitions to read, asked for if they were not given."""
        if self.partitions is not None:
            return [(one, None) for one in sorted(set(self.partitions))]
        with closing(client("Consumer", self.config)) as consumer:
            n = self.count(consumer, REQUEST_SECONDS)
        return [(one, n) for one in range(n)]

    def count(self, consumer: Any, patience: float) -> int:
        """How many partitions there are: their numbers begin at 0."""
        found = ask("Kafka: cannot get topics", lambda: consumer.list_topics(self.name, timeout=patience))
        topic = found.topics.get(self.name)
        if topic is None or topic.error is not None or not topic.partitions:
            raise InputError(f"Kafka: there is no topic {self.name!r}")
        return len(topic.partitions)

    def place(self, partition: int, offset: int | None = None) -> Any:
        make = import_extra("confluent_kafka", "kafka").TopicPartition
        return make(self.name, partition) if offset is None else make(self.name, partition, offset)

    def ends(self, consumer: Any, partition: int, patience: float) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        place = self.place(partition)
        low, high = ask("Kafka: cannot get offsets", lambda: consumer.get_watermark_offsets(place, timeout=patience))
        return int(low), int(high)

    def offsets(self, partition: int) -> OffsetRange:
        """Where to begin and where to stop: a checkpoint made later says the same whenever it is used."""
        with closing(client("Consumer", self.config)) as consumer:
            low, high = self.ends(consumer, partition, REQUEST_SECONDS)
            first = high if self.start == "latest" else low
            if self.start == "committed":
                asked, what = [self.place(partition)], "Kafka: cannot get committed offsets"
                [found] = ask(what, lambda: consumer.committed(asked, timeout=REQUEST_SECONDS))
                first = found.offset if found.offset >= 0 else low
                if first > high:  # else all that is there would be left out, in silence
                    what = f"offset {first} of partition {partition} of {self.name!r}, which ends at {high}"
                    raise InputError(f"Kafka: the group has committed {what}: give another group=, or start='earliest'")
        stop = high if self.stop_at == "latest" else (self.stop_at or {}).get(partition, _NEVER)
        return OffsetRange(first, max(first, stop))


class _Poll(NamedTuple):
    messages: list[Any]
    oldest: Timestamp
    newest: Timestamp
    following: int  # the offset to go on from
    full: bool  # whether there were as many messages as may be: there may be more


class _Connection:
    """A consumer of one partition, which one bundle leaves to the next."""

    def __init__(self, topic: Topic, partition: int, offset: int) -> None:
        self._topic = topic
        self._partition = partition
        self._kafka = import_extra("confluent_kafka", "kafka")
        self._consumer = client("Consumer", topic.config)
        self._consumer.assign([topic.place(partition, offset)])
        self._begin = b"kafka\0" + topic.name.encode() + b"\0"  # of the names of all messages
        self._asked_at = time.monotonic()
        self._counted_at = -COUNT_CHECK_SECONDS
        self._lock = Lock()  # of the two below
        self._committed = 0
        self._closed = False

    def poll(self, following: int, stop: int) -> _Poll:
        """Messages from one offset on to before another."""
        messages, values = self._consumer.consume(self._topic.max_batch, timeout=POLL_SECONDS), []
        oldest, newest = MAX_TIMESTAMP, MIN_TIMESTAMP
        for message in messages:
            offset = message.offset()
            if message.error() is not None:
                if message.error().code() == self._kafka.KafkaError._PARTITION_EOF:
                    # past the control records of transactions, which are never delivered
                    following = max(following, offset)
                elif not message.error().retriable():
                    raise InputError(f"Kafka: topic {self._topic.name!r}: {message.error().str()}")
            elif following <= offset < stop:
                meaning, millis = message.timestamp()
                known = meaning != self._kafka.TIMESTAMP_NOT_AVAILABLE
                when = _timestamp(1000 * millis) if known else Timestamp.now()
                oldest, newest = min(oldest, when), max(newest, when)
                name = self._begin + _PLACE.pack(self._partition, offset, millis if known else 0)
                values.append((message.value(), name) if self._topic.named else message.value())
                following = offset + 1
            else:
                following = max(following, offset)  # beyond the stop, or seen
        return _Poll(values, oldest, newest, min(following, stop), len(messages) == self._topic.max_batch)

    def read_to_its_end(self, following: int) -> Timestamp | None:
        """When the brokers were asked, and said that nothing is left; None if not, or if they were asked just now."""
        if time.monotonic() - self._asked_at < IDLE_CHECK_SECONDS:
            return None
        self._asked_at = time.monotonic()
        asked = Timestamp.now()  # before the question: what is not there yet will be newer
        try:
            _, end = self._topic.ends(self._consumer, self._partition, CHECK_PATIENCE_SECONDS)
        except InputError:
            return None
        return asked if following >= end else None

    def check_count(self, of: int | None) -> None:
        """A partition that was added is nobody's: its messages would be missing in all counts, without a word."""
        wants_all = self._topic.partitions is None and self._topic.stop_at is None
        recently = time.monotonic() - self._counted_at < COUNT_CHECK_SECONDS
        if not wants_all or of is None or self._partition + 1 < of or recently:  # (the last of them tells)
            return
        self._counted_at, n = time.monotonic(), of
        with suppress(InputError):  # brokers that do not answer are asked again
            n = self._topic.count(self._consumer, CHECK_PATIENCE_SECONDS)
        if n > of:
            there, added = list(range(of)), list(range(of, n))
            what = f"Kafka: topic {self._topic.name!r} has {n} partitions now, and had {of} when it was first read"
            raise InputError(f"{what}: go on with partitions={there}, and read {added} in a job of its own")

    def commit(self, offset: int) -> None:
        """Commit to the consumer group; never backwards. Works after `close` too, when Beam asks for it."""
        with self._lock:
            if offset <= self._committed:
                return
            consumer = client("Consumer", self._topic.config) if self._closed else self._consumer
            places = [self._topic.place(self._partition, offset)]
            try:
                ask("Kafka: cannot get a commit", lambda: consumer.commit(offsets=places, asynchronous=False))
            finally:
                if self._closed:
                    consumer.close()
            self._committed = offset

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                self._consumer.close()


def _timestamp(micros: int) -> Timestamp:
    return Timestamp(micros=min(max(micros, MIN_TIMESTAMP.micros), MAX_TIMESTAMP.micros))


class _Parked:
    """Connections of this process between two bundles, by partition and the offset to go on from.

    On Flink the instance of a step waits until its bundle is durable, and the next bundle has another one. That would
    open a connection of its own, and each of those fetches ahead, up to 64 MB: between two checkpoints there were some
    hundred of them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: OrderedDict[Hashable, tuple[_Connection, float]] = OrderedDict()

    def put(self, place: Hashable, connection: _Connection) -> None:
        """Leave a connection to whoever goes on at this place."""
        before = self.take(place)
        if before is not None:
            before.close()
        with self._lock:
            self._waiting[place] = connection, time.monotonic()

    def take(self, place: Hashable) -> _Connection | None:
        """The connection that waits there, which is then the caller's, or None; those that waited long are closed."""
        with self._lock:
            found = self._waiting.pop(place, None)
            long_ago = time.monotonic() - PARKED_SECONDS
            old = [place for place, (_, since) in self._waiting.items() if since <= long_ago]
            left = [self._waiting.pop(place)[0] for place in old]
        for one in left:
            one.close()
        return found[0] if found else None


_PARKED = _Parked()


class OffsetRangeCoder(beam.coders.Coder):
    """What is left of a partition in a runner's checkpoint: two integers of 64 bits."""

    @override
    def encode(self, value: OffsetRange) -> bytes:
        return _RANGE.pack(value.start, value.stop)

    @override
    def decode(self, encoded: bytes) -> OffsetRange:
        start, stop = _RANGE.unpack(encoded) if len(encoded) == _RANGE.size else (-1, 0)
        if not 0 <= start <= stop:
            raise InputError("a checkpoint is the offset to go on from, and the one to stop at")
        return OffsetRange(start, stop)

    @override
    def is_deterministic(self) -> bool:
        return True


class _Offsets(OffsetRestrictionTracker):
    """A range that may be without end; it is divided only into what has been read and the rest."""

    @override
    def try_split(self, fraction_of_remainder: float) -> Any:
        return super().try_split(0) if fraction_of_remainder == 0 else None  # type: ignore[no-untyped-call]

    @override
    def is_bounded(self) -> bool:
        return False


class ReadPartition(beam.DoFn, RestrictionProvider):
    """A partition -> lists of messages (bytes, or None; or pairs with a name), one list a poll.

    The timestamp of a list is that of its oldest message: none is made late by its company.

    Watermark: the newest message time so far, but no later than now, less ``max_delay``. Where all that there is has
    been read (the brokers are asked for the end offset, at most once a second), every later message is newer than the
    moment of the question: the watermark is that moment less ``max_delay``, so a partition without traffic does not
    hold up the others. If the brokers do not answer, it stays. It is the end of time when the partition has come to its
    stop.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._left: dict[int, Hashable] = {}  # where this instance has parked its connection to a partition

    @override
    def initial_restriction(self, element: Partition) -> OffsetRange:
        return self._topic.offsets(element[0])

    @override
    def create_tracker(self, restriction: OffsetRange) -> _Offsets:
        return _Offsets(restriction)

    @override
    def restriction_coder(self) -> OffsetRangeCoder:
        return OffsetRangeCoder()

    @override
    def restriction_size(self, element: Partition, restriction: OffsetRange) -> float:
        return 1.0  # (how many messages there are nobody has asked)

    @override
    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: Partition,
        finalizer: Any = beam.DoFn.BundleFinalizerParam,
        tracker: Any = beam.DoFn.RestrictionParam(),  # noqa: B008 (so Beam has it)
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),  # noqa: B008
    ) -> Iterator[Any]:
        """Poll, until there is nothing for now, or for so long that the runner should make it durable."""
        return self._bundle(element, finalizer, tracker, estimator)

    def _bundle(self, element: Partition, finalizer: Any, tracker: Any, estimator: Any) -> Iterator[Any]:
        partition, of = element
        offsets = tracker.current_restriction()
        following = offsets.start
        if following >= offsets.stop:
            _raise_watermark(estimator, MAX_TIMESTAMP)
            return
        place = self._place(partition, following)
        connection = _PARKED.take(place) or _Connection(self._topic, partition, following)
        deadline, parked = time.monotonic() + BUNDLE_SECONDS, False
        try:
            connection.check_count(of)
            for polls in range(1, BUNDLE_POLLS + 1):
                found = connection.poll(following, offsets.stop)
                if found.following > following and not tracker.try_claim(found.following - 1):
                    return  # the runner has taken the rest: what this poll brought is read again
                following = found.following
                if found.messages:
                    yield TimestampedValue(found.messages, found.oldest)
                    self._follow(estimator, found.newest)
                if following >= offsets.stop:
                    _raise_watermark(estimator, MAX_TIMESTAMP)
                    return
                if not found.messages and (asked := connection.read_to_its_end(following)) is not None:
                    self._follow(estimator, asked)
                if not found.full or polls == BUNDLE_POLLS or time.monotonic() >= deadline:
                    # what came goes on now; if all that there is came, the next poll can wait
                    tracker.defer_remainder(None if found.full else Duration(seconds=PAUSE_SECONDS))
                    self._left[partition] = self._place(partition, following)
                    _PARKED.put(self._left[partition], connection)
                    parked = True
                    return
        finally:
            if following > offsets.start:
                finalizer.register(partial(connection.commit, following))
            if not parked:
                connection.close()

    @override
    def teardown(self) -> None:
        for place in self._left.values():
            connection = _PARKED.take(place)
            if connection is not None:
                connection.close()

    def _place(self, partition: int, offset: int) -> Hashable:
        """What a connection that is parked is good for."""
        config = tuple(sorted((name, repr(value)) for name, value in self._topic.config.items()))
        return config, self._topic.name, self._topic.max_batch, self._topic.named, partition, offset

    def _follow(self, estimator: Any, newest: Timestamp) -> None:
        newest = min(newest, Timestamp.now())  # one producer's clock that is ahead would make all others late
        _raise_watermark(estimator, _timestamp(newest.micros - round(self._topic.max_delay * 1e6)))


def _raise_watermark(estimator: Any, to: Timestamp) -> None:
    """Beam refuses to take it back."""
    now = estimator.current_watermark()
    if now is None or to > now:
        estimator.set_watermark(to)
