"""A Kafka topic as a Beam source that can be stopped and resumed: one element is the messages of one poll."""

from __future__ import annotations

import json
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from threading import Lock
from typing import Any, Literal, TypeAlias, cast

import apache_beam as beam
from apache_beam.io.unbounded_source import CheckpointMark, UnboundedReader, UnboundedSource
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from typing_extensions import override

from ldp_core import InputError
from ldp_core.extras import need
from ldp_core.limits import read_json

Start: TypeAlias = Literal["earliest", "latest", "committed"]

POLL_SECONDS = 0.1
"""How long one poll waits for messages."""
REQUEST_SECONDS = 15.0
"""How long a request to the brokers may take."""
IDLE_CHECK_SECONDS = 1.0
"""How often the end of a partition without new messages is asked for."""

CHECK_PATIENCE_SECONDS = 1.0
"""How long that question may take; it holds up reading."""

PARKED_SECONDS = 60.0
"""How long a connection waits for the next reader."""

_PLACE = struct.Struct(">iqq")  # partition, offset, milliseconds


def client(name: str, config: Mapping[str, Any]) -> Any:
    """A ``confluent_kafka.Consumer`` or ``Producer``.

    Raises:
        InputError: the client refuses its configuration.
    """
    kafka = need("confluent_kafka", "kafka")
    reason = None
    try:
        return getattr(kafka, name)(dict(config))
    except kafka.KafkaException as error:
        reason = error.args[0].str()
    raise InputError(f"Kafka's client refuses its configuration: {reason}")


def ask(what: str, request: Callable[[], Any]) -> Any:
    """The brokers' answer.

    Raises:
        InputError: there is none; says what the client says of brokers, topics and offsets.
    """
    kafka = need("confluent_kafka", "kafka")
    reason = None
    try:
        return request()
    except kafka.KafkaException as error:
        reason = error.args[0].str()
    raise InputError(f"Kafka: cannot get {what}: {reason}")


class KafkaMark(CheckpointMark):
    """Where to go on: for each partition the next offset, and the offset to stop at or None.

    Made by a reader, it can commit the offsets to the reader's consumer group; decoded from bytes, it is a
    position only.
    """

    def __init__(
        self,
        positions: Mapping[int, tuple[int, int | None]],
        commit: Callable[[Mapping[int, int]], None] | None = None,
    ) -> None:
        self.positions = dict(positions)
        self._commit = commit

    @override
    def finalize_checkpoint(self) -> None:
        """Commit to the consumer group: the runner has made all that was read durable."""
        if self._commit is not None:
            self._commit({partition: offset for partition, (offset, _) in self.positions.items()})


def _is_position(row: Any) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 3
        and all(type(number) is int for number in row[:2])
        and type(row[2]) in (int, type(None))
    )


class KafkaMarkCoder(beam.coders.Coder):
    """A mark as JSON, the same bytes for the same mark.

    >>> KafkaMarkCoder().encode(KafkaMark({1: (7, None), 0: (5, 9)}))
    b'[[0, 5, 9], [1, 7, null]]'
    >>> KafkaMarkCoder().decode(b'[[0, 5, 9], [1, 7, null]]').positions
    {0: (5, 9), 1: (7, None)}
    """

    @override
    def encode(self, value: KafkaMark) -> bytes:
        """Partition, next offset, offset to stop at."""
        return json.dumps([[p, *value.positions[p]] for p in sorted(value.positions)]).encode()

    @override
    def decode(self, encoded: bytes) -> KafkaMark:
        """Inverse of `encode`.

        Raises:
            InputError: it is no mark.
        """
        rows = read_json(encoded, "a checkpoint", InputError)
        if not isinstance(rows, list) or not all(map(_is_position, rows)):
            raise InputError("a checkpoint is a list of partition, next offset, and offset to stop at")
        return KafkaMark({partition: (offset, stop) for partition, offset, stop in rows})

    @override
    def is_deterministic(self) -> bool:
        return True


class KafkaSource(UnboundedSource):
    """A topic; elements are lists of message values (bytes, or None), one list a poll; or of pairs of value and name.

    Args:
        config: of ``confluent_kafka.Consumer``, complete; it may hold a password, so it is in no repr.
        topic: to read.
        partitions: which of its partitions; None: all that there are when the pipeline starts.
        start: where to begin without a checkpoint.
        stop_at: ``"latest"``: end at what was the end of each partition when reading began; or the offset to
            stop before, by partition; None: never.
        max_batch: messages in one poll, at most.
        max_delay: seconds; see `ReadKafka`.
        named: whether each value comes with bytes that name the message: topic, partition, offset and time. (Not the
            brokers: they move. The time, since a topic that is made anew begins again with offset 0.)
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        partitions: Iterable[int] | None,
        start: Start,
        stop_at: Literal["latest"] | Mapping[int, int] | None,
        max_batch: int,
        max_delay: float,
        named: bool = False,
    ) -> None:
        self.config = dict(config)
        self.topic = topic
        self.partitions = None if partitions is None else tuple(sorted(set(partitions)))
        self.start = start
        self.stop_at = stop_at
        self.max_batch = max_batch
        self.max_delay = max_delay
        self.named = named

    def of(self, partitions: Iterable[int]) -> KafkaSource:
        """The same for some partitions."""
        return KafkaSource(
            self.config, self.topic, partitions, self.start, self.stop_at, self.max_batch, self.max_delay, self.named
        )

    @override
    def split(self, desired_num_splits: int, options: Any = None) -> list[KafkaSource]:
        """Partitions dealt out to at most ``desired_num_splits`` sources."""
        partitions = self.all_partitions()
        return [self.of(partitions[i::desired_num_splits]) for i in range(min(desired_num_splits, len(partitions)))]

    def by_partition(self) -> list[KafkaSource]:
        """A source for each partition."""
        return [self.of([partition]) for partition in self.all_partitions()]

    def all_partitions(self) -> tuple[int, ...]:
        """The partitions to read, asked for if they were not given.

        Raises:
            InputError: the brokers do not answer, or there is no such topic.
        """
        if self.partitions is not None:
            return self.partitions
        consumer = client("Consumer", self.config)
        try:
            found = ask("topics", lambda: consumer.list_topics(self.topic, timeout=REQUEST_SECONDS))
        finally:
            consumer.close()
        topic = found.topics.get(self.topic)
        if topic is None or topic.error is not None or not topic.partitions:
            raise InputError(f"Kafka: there is no topic {self.topic!r}")
        return tuple(sorted(topic.partitions))

    @override
    def create_reader(self, options: Any, checkpoint_mark: CheckpointMark | None) -> KafkaReader:
        """A reader, from the mark (a `KafkaMark`) or from the start."""
        return KafkaReader(self, cast("KafkaMark | None", checkpoint_mark))

    @override
    def get_checkpoint_mark_coder(self) -> KafkaMarkCoder:
        return KafkaMarkCoder()

    @override
    def default_output_coder(self) -> beam.coders.Coder:
        """Lists of bytes, or of pairs of bytes."""
        return beam.coders.FastPrimitivesCoder()


class _Connection:
    """A consumer, and what one reader of a source leaves to the next.

    Attributes:
        consumer: one reader at a time polls it. Any may commit.
        assigned: whether it has been told where to begin.
        asked_at: when the ends of partitions were last asked for.
        watermarks: of partitions.
        committed: next offsets that the group knows of.
        lock: of `committed` and `closed`.
        closed: it has left the brokers.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.consumer = client("Consumer", config)
        self.assigned = False
        self.asked_at = time.monotonic()
        self.watermarks: dict[int, Timestamp] = {}
        self.committed: dict[int, int] = {}
        self.lock = Lock()
        self.closed = False

    def close(self) -> None:
        """Leave the brokers."""
        with self.lock:
            if not self.closed:
                self.closed = True
                self.consumer.close()


class _Parked:
    """Connections of this process between two bundles, by source and the offsets to go on from.

    Beam keeps a reader with the instance of the step that has read the bundle. On Flink that instance waits until the
    bundle is durable, and the next bundle has another one. It would open a connection of its own, and each of
    those fetches ahead, up to 64 MB: between two checkpoints there were some hundred of them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: OrderedDict[Hashable, tuple[_Connection, float]] = OrderedDict()

    def put(self, place: Hashable, connection: _Connection) -> None:
        """Leave a connection to whoever goes on at this place."""
        with self._lock:
            before = self._waiting.pop(place, None)
            self._waiting[place] = connection, time.monotonic()
            old = self._old()
        for one in [*old, *([before[0]] if before else [])]:
            one.close()

    def take(self, place: Hashable) -> _Connection | None:
        """The connection that waits there, which is then the caller's, or None."""
        with self._lock:
            found = self._waiting.pop(place, None)
            old = self._old()
        for one in old:
            one.close()
        return found[0] if found else None

    def _old(self) -> list[_Connection]:
        """Remove those that nobody has taken for a while; the caller holds the lock."""
        before = time.monotonic() - PARKED_SECONDS
        places = [place for place, (_, since) in self._waiting.items() if since < before]
        return [self._waiting.pop(place)[0] for place in places]


_PARKED = _Parked()


class KafkaReader(UnboundedReader):
    """Polls the partitions of one source.

    When a mark is made, a bundle is over: the connection then waits for whoever reads next, mostly another reader.

    Watermark of a partition: the newest record time so far less ``max_delay``. Where all that there is has been read
    (the brokers are asked for the end offset, at most once a second), every later record is newer than the
    moment of the question: the watermark is that moment less ``max_delay``, so a partition without traffic
    does not hold up the others; if the brokers do not answer, it stays. Of a reader: the least of its
    partitions; the end of time when all have come to their stop.
    """

    def __init__(self, source: KafkaSource, mark: KafkaMark | None) -> None:
        self._kafka = need("confluent_kafka", "kafka")
        self._source = source
        self._connection: _Connection | None = None
        self._last: _Connection | None = None  # the last that this reader had
        self._values: list[Any] = []
        self._pause = False
        self._names = b"kafka\0" + source.topic.encode() + b"\0"  # of all messages: how their names begin
        self._timestamp = MIN_TIMESTAMP
        self._next: dict[int, int] = {}
        self._stop: dict[int, int | None] = {}
        self._watermarks: dict[int, Timestamp] = {}
        try:
            positions = self._positions() if mark is None else mark.positions
        except InputError:
            self.close()
            raise
        self._next = {partition: offset for partition, (offset, _) in positions.items()}
        self._stop = {partition: stop for partition, (_, stop) in positions.items()}
        self._watermarks = dict.fromkeys(positions, MIN_TIMESTAMP)

    @property
    def _place(self) -> Hashable:
        """What a connection that is parked is good for."""
        source = self._source
        config = tuple(sorted((name, repr(value)) for name, value in source.config.items()))
        return config, source.topic, tuple(sorted(self._next.items())), tuple(sorted(self._open()))

    def _connected(self) -> _Connection:
        if self._connection is None:
            self._connection = self._last = _PARKED.take(self._place) or _Connection(self._source.config)
            for partition, watermark in self._connection.watermarks.items():
                self._watermarks[partition] = max(self._watermarks[partition], watermark)
        return self._connection

    def _positions(self) -> dict[int, tuple[int, int | None]]:
        """Where to begin and where to stop, as offsets: a mark made later says the same whenever it is used."""
        partitions = self._source.all_partitions()
        topic, kafka = self._source.topic, self._kafka
        starts: dict[int, int] = {}
        if self._source.start == "committed":
            asked = [kafka.TopicPartition(topic, partition) for partition in partitions]
            found = ask(
                "committed offsets", lambda: self._connected().consumer.committed(asked, timeout=REQUEST_SECONDS)
            )
            starts = {place.partition: place.offset for place in found if place.offset >= 0}
        positions: dict[int, tuple[int, int | None]] = {}
        for partition in partitions:
            low, high = self._ends(partition)
            first = starts.get(partition, high if self._source.start == "latest" else low)
            stop_at = self._source.stop_at
            stop = high if stop_at == "latest" else None if stop_at is None else stop_at.get(partition)
            positions[partition] = (first, stop)
        return positions

    def _ends(self, partition: int, patience: float = REQUEST_SECONDS) -> tuple[int, int]:
        place = self._kafka.TopicPartition(self._source.topic, partition)
        ends = ask("offsets", lambda: self._connected().consumer.get_watermark_offsets(place, timeout=patience))
        return int(ends[0]), int(ends[1])

    @override
    def start(self) -> bool:
        """Poll."""
        return self.advance()

    @override
    def advance(self) -> bool:
        """Poll; whether there was a message.

        Without a poll there is none after one that was not full: all that had come has been read, and the bundle
        ends, so that what it has goes on.

        Raises:
            InputError: an error of the brokers that does not go away by itself.
        """
        if self._pause or not self._open():
            self._pause = False
            return False
        self._values = []
        oldest = MAX_TIMESTAMP
        quiet = set(self._open())
        connection = self._connected()
        if not connection.assigned:
            topic = self._source.topic
            connection.consumer.assign([self._kafka.TopicPartition(topic, p, self._next[p]) for p in self._open()])
            connection.assigned = True
        messages = connection.consumer.consume(self._source.max_batch, timeout=POLL_SECONDS)
        for message in messages:
            partition = message.partition()
            if message.error() is not None:
                self._note(message)
            elif message.offset() >= self._next[partition] and not self._stopped(partition, message.offset()):
                when = self._time(message)
                oldest = min(oldest, when)
                value = message.value()
                self._values.append((value, self._name(message)) if self._source.named else value)
                self._raise_watermark(partition, when)
                self._next[partition] = message.offset() + 1
                quiet.discard(partition)
            else:
                self._next[partition] = max(self._next[partition], message.offset())  # beyond the stop, or seen
        self._timestamp = oldest
        self._check_ends(quiet.intersection(self._open()))
        has = bool(self._values)
        self._pause = has and len(messages) < self._source.max_batch
        return has

    def _note(self, message: Any) -> None:
        error = message.error()
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            # past the control records of transactions, which are never delivered
            partition = message.partition()
            self._next[partition] = max(self._next[partition], message.offset())
        elif not error.retriable():
            raise InputError(f"Kafka: topic {self._source.topic!r}: {error.str()}")

    def _time(self, message: Any) -> Timestamp:
        meaning, millis = message.timestamp()
        if meaning == self._kafka.TIMESTAMP_NOT_AVAILABLE:
            return Timestamp.now()
        return Timestamp(micros=min(max(1000 * millis, MIN_TIMESTAMP.micros), MAX_TIMESTAMP.micros))

    def _name(self, message: Any) -> bytes:
        meaning, millis = message.timestamp()
        known = meaning != self._kafka.TIMESTAMP_NOT_AVAILABLE
        return self._names + _PLACE.pack(message.partition(), message.offset(), millis if known else 0)

    def _raise_watermark(self, partition: int, newest: Timestamp) -> None:
        micros = max(newest.micros - round(self._source.max_delay * 1e6), MIN_TIMESTAMP.micros)
        self._watermarks[partition] = max(self._watermarks[partition], Timestamp(micros=micros))

    def _check_ends(self, quiet: Iterable[int]) -> None:
        """Let time go on in partitions without new messages if they have been read to their end."""
        connection = self._connected()
        if time.monotonic() - connection.asked_at < IDLE_CHECK_SECONDS:
            return
        connection.asked_at = time.monotonic()
        for partition in quiet:
            asked = Timestamp.now()  # before the question: what is not there yet will be newer
            with suppress(InputError):
                if self._next[partition] >= self._ends(partition, CHECK_PATIENCE_SECONDS)[1]:
                    self._raise_watermark(partition, asked)

    def _stopped(self, partition: int, offset: int) -> bool:
        stop = self._stop[partition]
        return stop is not None and offset >= stop

    def _open(self) -> list[int]:
        """Partitions that have not come to their stop."""
        return [partition for partition, offset in self._next.items() if not self._stopped(partition, offset)]

    @override
    def get_current(self) -> list[Any]:
        """The messages of the last poll; with their names, if the source gives them."""
        return self._values

    @override
    def get_current_timestamp(self) -> Timestamp:
        """Time of the oldest of them: none is made late by its company."""
        return self._timestamp

    @override
    def get_watermark(self) -> Timestamp:
        """See the class."""
        return min((self._watermarks[partition] for partition in self._open()), default=MAX_TIMESTAMP)

    @override
    def get_checkpoint_mark(self) -> KafkaMark:
        """The offsets after the last poll. The connection waits for whoever goes on there."""
        if self._connection is not None:
            self._connection.watermarks = dict(self._watermarks)
            _PARKED.put(self._place, self._connection)
            self._connection = None
        return KafkaMark({p: (offset, self._stop[p]) for p, offset in self._next.items()}, self.commit)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets to the consumer group; never backwards. Works after `close` too, when Beam asks for it."""
        last = self._last or self._connected()
        with last.lock:
            new = {p: offset for p, offset in offsets.items() if offset > last.committed.get(p, 0)}
            if not new:
                return
            consumer = client("Consumer", self._source.config) if last.closed else last.consumer
            places = [self._kafka.TopicPartition(self._source.topic, p, offset) for p, offset in new.items()]
            try:
                ask("a commit", lambda: consumer.commit(offsets=places, asynchronous=False))
            finally:
                if last.closed:
                    consumer.close()
            last.committed.update(new)

    @override
    def close(self) -> None:
        """Leave the brokers."""
        connection, self._connection = self._connection or _PARKED.take(self._place), None
        if connection is not None:
            connection.close()
