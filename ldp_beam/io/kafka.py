"""Kafka: batches out of a topic and into one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection
from typing_extensions import override

from ldp_beam.elements.records import RecordsTransform
from ldp_beam.graph.replay import ReplaySafe
from ldp_beam.io._kafka_source import POLL_SECONDS, REQUEST_SECONDS, ReadPartition, Start, Topic, client
from ldp_beam.io.messages import DecodeMessages, Format, messages_of
from ldp_core import LdpError, Limits, ParameterError
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import check_integer, import_extra, seconds

_OURS = {"bootstrap.servers", "group.id", "enable.auto.commit", "enable.partition.eof", "enable.idempotence"}


class ReadKafka(RecordsTransform):
    """Messages of a topic -> ``pyarrow.RecordBatch``; many small messages of one poll become one batch.

    A partition is read by one worker at a time, from a checkpoint of the runner after a restart: every message is in
    the result once. Offsets are committed to the consumer group when the runner has made a bundle durable, for
    those who watch the group's lag, and for ``start="committed"``.

    A batch's timestamp is the time of the oldest message in it. So windows need ``event_time=`` or ``max_batch=1``:
    else a backlog is counted in too early ones. The watermark follows the message times of each partition (the broker's
    with ``LogAppendTime``, else the producer's), less ``max_delay``, and never the future; a partition that has been
    read to its end follows the clock, less ``max_delay``, as long as the brokers answer.

    With `with_exception_handling`: ``(batches, dead_letters)``, see `DecodeMessages`.

    Args:
        bootstrap_servers: ``"host:port,..."``.
        topic: to read.
        group: the consumer group; other members of it do not take partitions away.
        partitions: which; None: all that there are when the pipeline first starts. One that is added later is an error
            of a stream, within a minute: go on from the checkpoint with ``partitions=``, and read it in its own job.
        start: without a checkpoint begin at the ``"earliest"`` message, at the ``"latest"`` (only what comes after),
            or where the group ``"committed"`` (without a commit: the earliest). A job that failed has committed what it
            read, also where nothing of it was written: go on from its checkpoint, or set the group's offsets back.
        stop_at: ``"latest"``: end where each partition ended when its reading began; or the offset to stop before,
            by partition; None: never end.
        max_batch: messages in one poll, at most.
        max_delay: seconds, or text like ``"1m"``: how much older than its predecessors in the partition a message may
            be (several producers, transactions), and how much clocks may differ. Older ones may be late.
        consumer_config: more options of ``confluent_kafka.Consumer``: security, fetching. They travel with the job.
            If offsets are gone (retention), reading fails, unless ``auto.offset.reset`` says where to go on.
        position: put where each record comes from into a column of this name, for ``Perturb(..., record=)``: a hash of
            topic, partition, offset and time of its message, with its row there. It does not depend on brokers, group,
            polls, ``max_batch`` or worker. See `DecodeMessages`.
        format, schema, limits: see `DecodeMessages`.

    Errors while the pipeline runs: `InputError`: a message cannot be read (unless `with_exception_handling` is used),
    or the brokers refuse. Needs ``pip install 'ldp-telemetry[kafka]'``.

    Raises:
        MissingExtraError: ``confluent-kafka`` is not installed.
        ParameterError: an argument out of its range, or an option that is set by this class.

    >>> ReadKafka("localhost:9092", "reports", start="newest")
    Traceback (most recent call last):
        ...
    ldp_core.errors.ParameterError: start must be one of ['earliest', 'latest', 'committed'], got 'newest'
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        group: str = "ldp_beam",
        partitions: Iterable[int] | None = None,
        start: Start = "earliest",
        stop_at: Literal["latest"] | Mapping[int, int] | None = None,
        max_batch: int = 1000,
        max_delay: float | str = 10.0,
        consumer_config: Mapping[str, Any] | None = None,
        position: str | None = None,
        format: Format = "arrow",  # noqa: A002 (as in DecodeMessages)
        schema: pa.Schema | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        super().__init__()
        _check_names(bootstrap_servers=bootstrap_servers, topic=topic, group=group)
        starts = ["earliest", "latest", "committed"]
        if start not in starts:
            raise ParameterError(f"start must be one of {starts}, got {start!r}")
        if not (stop_at is None or stop_at == "latest" or isinstance(stop_at, Mapping)):
            raise ParameterError(f'stop_at must be None, "latest" or offsets by partition, got {stop_at!r}')
        check_integer("max_batch", max_batch, 1, 1_000_000)
        partitions = None if partitions is None else tuple(check_integer("partitions", one, 0) for one in partitions)
        if partitions == ():
            raise ParameterError("partitions must be at least one, or None for all")
        config = {
            "auto.offset.reset": "error",
            **_options(consumer_config, "consumer_config"),
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        delay = seconds(max_delay, name="max_delay")
        stops = stop_at
        if isinstance(stop_at, Mapping):  # (of the partition "0" nobody reads, and what has no offset never ends)
            stops = {check_integer("stop_at", k, 0): check_integer("stop_at", end, 0) for k, end in stop_at.items()}
        self._topic = Topic(config, topic, partitions, start, stops, max_batch, delay, named=position is not None)
        self._decode = DecodeMessages(format, schema=schema, limits=limits, position=position)
        import_extra("confluent_kafka", "kafka")

    @override
    def expand(self, pbegin: PBegin) -> Any:
        # Each partition is an element of its own: Flink's runner reads all that becomes of one element in one slot.
        topic = self._topic
        partitions = pbegin | beam.Create([None]) | "Partitions" >> beam.FlatMap(lambda _: topic.found())
        polls = partitions | "Poll" >> beam.ParDo(ReadPartition(topic))
        return polls | "Decode" >> self._handled_as_here(self._decode)


class WriteKafka(beam.PTransform[Any, Any]):
    """Messages into a topic: batches as `encode` has them, a `HistogramRow` as a line of JSON, bytes as they are.

    What `encode` refuses is refused. A batch that is longer than the producer's ``message.max.bytes`` (10^6) becomes
    several messages. They are fixed by a ``beam.Reshuffle`` before any is sent: a repeated bundle may send one again,
    but never another report of the same record. Each is acknowledged by all in-sync replicas before its bundle ends.

    Args:
        bootstrap_servers: ``"host:port,..."``.
        topic: to write to.
        producer_config: more options of ``confluent_kafka.Producer``. They travel with the job.

    Errors while the pipeline runs: `LdpError`: messages were not acknowledged; says how many and why.
    Needs ``pip install 'ldp-telemetry[kafka]'``.

    Raises:
        MissingExtraError: ``confluent-kafka`` is not installed.
        ParameterError: an option that is set by this class.

    >>> WriteKafka("localhost:9092", "reports", producer_config={"enable.idempotence": False})
    Traceback (most recent call last):
        ...
    ldp_core.errors.ParameterError: producer_config must not set ['enable.idempotence']
    """

    def __init__(self, bootstrap_servers: str, topic: str, *, producer_config: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        _check_names(bootstrap_servers=bootstrap_servers, topic=topic)
        self._config = {
            **_options(producer_config, "producer_config"),
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
        }
        self._topic = topic
        import_extra("confluent_kafka", "kafka")

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        most = int(self._config.get("message.max.bytes", 1_000_000))  # (as the client has it)
        return (
            pcoll
            | "To messages" >> beam.FlatMap(messages_of, most).with_output_types(bytes)
            | "Stabilize" >> ReplaySafe()
            | "Produce" >> beam.ParDo(_Produce(self._config, self._topic))
        )


class _Produce(beam.DoFn):
    """Sends messages; at the end of the bundle all have arrived, or it fails."""

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self._config = dict(config)
        self._topic = topic
        self._producer: Any = None
        self._failed: list[str] = []

    @override
    def setup(self) -> None:
        self._producer = client("Producer", self._config)

    @override
    def start_bundle(self) -> None:
        self._failed = []

    @override
    def process(self, message: bytes) -> None:
        while True:
            try:
                self._producer.produce(self._topic, message, on_delivery=self._delivered)
            except BufferError:  # the client's queue is full
                self._producer.poll(POLL_SECONDS)
                continue
            except import_extra("confluent_kafka", "kafka").KafkaException as error:  # (it has more than a message may)
                self._failed.append(error.args[0].str())
            break
        self._producer.poll(0)

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error.str())

    @override
    def finish_bundle(self) -> None:
        self._producer.flush()  # ends: each message arrives, or times out (message.timeout.ms)
        if self._failed:
            failed, self._failed = self._failed, []
            raise LdpError(f"Kafka: {len(failed)} messages did not reach topic {self._topic!r}: {failed[0]}")

    @override
    def teardown(self) -> None:
        if self._producer is not None:
            self._producer.flush(REQUEST_SECONDS)


def _options(config: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    taken = sorted(_OURS & set(config or {}))
    if taken:
        raise ParameterError(f"{name} must not set {taken}")
    return dict(config or {})


def _check_names(**names: Any) -> None:
    for name, value in names.items():
        if not isinstance(value, str) or not value:
            raise ParameterError(f"{name} must be text, got {type(value).__name__}")
