"""What brings messages to the live pipeline, and runs it: Pub/Sub and Beam's local runner, or Kafka and Flink.

An engine is started and stopped by a ``with`` block. Its pipeline is the same for all; what comes of it, rows and dead
letters, is put into a queue in this process.
"""

import contextlib
import datetime as dt
import json
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeAlias

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp
from typing_extensions import override

from ldp_beam import DeadLetter, HistogramRow
from ldp_beam.io import DecodeMessages, ReadKafka, WriteKafka, estimate_line
from ldp_core import LdpError, ParameterError
from ldp_core.extras import import_extra
from tests.bed.fleet import TIMESTAMP_ATTRIBUTE, Message
from tests.bed.flink import FlinkCluster
from tests.bed.flink.recipe import cache_directory
from tests.bed.kafka import KafkaBroker
from tests.bed.pubsub import PubSub, PubSubServer, google_types
from tests.bed.runner import LocalRunner

TOPIC = "projects/ldp-live/topics/reports"
SUBSCRIPTION = "projects/ldp-live/subscriptions/histograms"

REPORTS, RESULTS = "reports", "results"
"""Topics of the Kafka broker."""

_CLUSTER_SECONDS = 300
_JOB_SECONDS = 600  # from the job's submission until its tasks run

EngineName: TypeAlias = Literal["local", "flink"]
ENGINES: tuple[EngineName, ...] = ("local", "flink")

Build: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]
"""Batches and dead letters of messages -> `HistogramRow`, and (column, `DeadLetter`)."""


class Engine(ABC):
    """Runs the pipeline for a ``with`` block; at its end nothing that it started runs any more.

    Attributes:
        ahead: seconds by which the devices' clocks are ahead of this machine's; see `Fleet`.
        patience: seconds without any progress after the last window's end, until what is missing counts as lost.
        starting: what is said while it starts; empty if that takes no time.
        is_up: whether it has started, so that the devices can report.
        results: what came of the messages: `HistogramRow`, and (column, `DeadLetter`).
        error: what ended the pipeline, if anything did.
    """

    ahead: float
    patience: float
    starting: ClassVar[str] = ""
    _last_words: ClassVar[float] = (
        0.0  # seconds to wait for what a cancelled pipeline tells; the local runner never does
    )

    def __init__(self) -> None:
        self.is_up = False
        self.results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stack = contextlib.ExitStack()
        self._watch: _Watch | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.cancel()
        self._stack.close()

    @abstractmethod
    def start(self, build: Build, is_over: Callable[[], bool]) -> None:
        """Start the pipeline, and all that it needs; returns when it reads, when it has failed, or when it is over."""

    @abstractmethod
    def send(self, message: Message) -> Future[Any]:
        """See `fleet.Send`."""

    def backlog(self) -> int:
        """Messages that the pipeline has not taken yet, as far as is known."""
        return 0

    @property
    def error(self) -> BaseException | None:
        """What ended the pipeline before `cancel` did."""
        return None if self._watch is None else self._watch.error

    def cancel(self) -> None:
        """End the pipeline."""
        if self._watch is not None:
            self._watch.cancel(self._last_words)


class LocalEngine(Engine):
    """Pub/Sub and Beam's local streaming runner, all in this process."""

    ahead = 2.0
    patience = 10.0

    def __init__(self) -> None:
        super().__init__()
        google_types()

    @override
    def start(self, build: Build, is_over: Callable[[], bool]) -> None:
        service = PubSub()
        self._stack.enter_context(PubSubServer(service))
        self._publisher = self._stack.enter_context(contextlib.closing(_Publisher()))
        sink = self._stack.enter_context(_box(self.results))
        pipeline = beam.Pipeline(LocalRunner(), PipelineOptions(["--streaming"]))
        messages = pipeline | "Read" >> beam.io.ReadFromPubSub(
            subscription=SUBSCRIPTION, timestamp_attribute=TIMESTAMP_ATTRIBUTE
        )
        rows, letters = build(*(messages | "Decode" >> DecodeMessages().with_exception_handling()))
        _ = rows | "Print" >> sink
        _ = letters | "Print letters" >> sink
        self._watch = _Watch(pipeline.run())
        self._service = service
        while not (service.wait_for_pulls(2, timeout=0.2) or is_over() or self.error):
            pass  # the first pull sets the watermark
        self.is_up = True

    @override
    def send(self, message: Message) -> Future[Any]:
        return self._publisher.send(message)

    @override
    def backlog(self) -> int:
        return self._service.backlog(SUBSCRIPTION)


class FlinkEngine(Engine):
    """Kafka and Flink, in processes of their own on this machine; the pipeline's Python runs in Flink's workers."""

    ahead = 0.0
    patience = 30.0
    starting = "Kafka and Flink start; the first time Maven fetches them."
    delay: ClassVar[float] = 2.0
    """Seconds by which the watermark is behind: what a message may take from its device to the broker."""
    partitions: ClassVar[int] = 2
    _last_words = 30.0  # Beam's client prints a traceback if the cluster goes before

    def __init__(self, rate: float | None) -> None:
        super().__init__()
        if rate is None:
            raise ParameterError('--rate "max" needs --engine local: Kafka takes more than the pipeline; give a number')
        import_extra("confluent_kafka", "kafka")
        self._over = threading.Event()
        self._cluster: FlinkCluster | None = None

    @override
    def start(self, build: Build, is_over: Callable[[], bool]) -> None:
        broker = self._stack.enter_context(KafkaBroker())
        # without restarts: what a job has sent on it would send again
        folder, once = cache_directory() / "live", {"restart-strategy.type": "none"}
        cluster = FlinkCluster(folder, task_managers=self.partitions, settings=once, timeout=_CLUSTER_SECONDS)
        self._stack.enter_context(cluster)
        large = {"max.message.bytes": str(8 << 20)}
        broker.create_topic(REPORTS, self.partitions, large)
        broker.create_topic(RESULTS, 1, large)
        self._connect(broker.servers)
        pipeline = beam.Pipeline(options=PipelineOptions(cluster.pipeline_flags(streaming=True)))
        read = ReadKafka(broker.servers, REPORTS, max_delay=self.delay).with_exception_handling()
        rows, letters = build(*(pipeline | "Read" >> read))
        results = (
            rows | "Rows" >> beam.Map(estimate_line) | "As letters" >> beam.WindowInto(GlobalWindows()),
            letters | "Letters" >> beam.MapTuple(letter_line),
        )
        lines = results | "All" >> beam.Flatten() | "To bytes" >> beam.Map(str.encode).with_output_types(bytes)
        _ = lines | "Write" >> WriteKafka(broker.servers, RESULTS)
        self._cluster = cluster
        self._watch = _Watch(pipeline.run())
        deadline = time.monotonic() + _JOB_SECONDS
        while not (self.error or is_over() or _runs(cluster)):
            if time.monotonic() > deadline:
                raise LdpError(f"the job did not start within {_JOB_SECONDS} s; the logs are in {cluster.directory}")
            time.sleep(0.2)
        self.is_up = True

    @property
    @override
    def error(self) -> BaseException | None:
        if self._cluster is None:
            return None
        logs = f"the logs are in {self._cluster.directory}"
        if super().error is not None:
            return LdpError(f"Flink ended the job; {logs}")
        ended = [name for name, alive in self._cluster.running().items() if not alive]
        return LdpError(f"the process {ended[0]} has ended; {logs}") if ended else None

    def _connect(self, servers: str) -> None:
        kafka = import_extra("confluent_kafka", "kafka")
        quiet = {"bootstrap.servers": servers, "log_level": 0}
        self._producer = kafka.Producer({**quiet, "enable.idempotence": True, "message.max.bytes": 8 << 20})
        self._consumer = kafka.Consumer({**quiet, "group.id": "view", "enable.auto.commit": False})
        self._consumer.assign([kafka.TopicPartition(RESULTS, 0, 0)])
        threads = [
            threading.Thread(target=work, name=work.__name__, daemon=True) for work in (self._deliver, self._receive)
        ]
        for thread in threads:
            thread.start()
        self._stack.callback(self._disconnect, threads)

    def _disconnect(self, threads: list[threading.Thread]) -> None:
        self._over.set()
        for thread in threads:
            thread.join()
        self._consumer.close()

    def _deliver(self) -> None:
        """Answer those who wait for what they sent."""
        while not self._over.is_set():
            self._producer.poll(0.1)

    def _receive(self) -> None:
        """What the pipeline sends."""
        while not self._over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.results.put(parse(message.value()))

    @override
    def send(self, message: Message) -> Future[Any]:
        future: Future[Any] = Future()

        def answer(error: Any, _: Any) -> None:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(LdpError(f"Kafka: a message did not reach its topic: {error.str()}"))

        self._producer.produce(REPORTS, message.data, on_delivery=answer)
        return future


def make_engine(name: EngineName, rate: float | None) -> Engine:
    """The engine of that name, for so many reports a second."""
    if name not in ENGINES:
        raise ParameterError(f"the engine must be one of {[*ENGINES]}, got {name!r}")
    return LocalEngine() if name == "local" else FlinkEngine(rate)


def _runs(cluster: FlinkCluster) -> bool:
    """Whether all tasks of the job run, with their Python workers."""
    with contextlib.suppress(LdpError):  # it may be too busy to answer
        jobs = cluster.get("/jobs/overview")["jobs"]
        return any(job["state"] == "RUNNING" and job["tasks"]["running"] == job["tasks"]["total"] for job in jobs)
    return False


def letter_line(column: str, letter: DeadLetter) -> str:
    """A dead letter, and the planned column that it is of, as a line of JSON."""
    return json.dumps({"of": column, "column_name": letter.column_name, "reason": letter.reason, "count": letter.count})


def parse(line: bytes) -> HistogramRow | tuple[str, DeadLetter]:
    """What `estimate_line`, which leaves out whether a pane is the first or the last, or `letter_line` wrote."""
    fields: dict[str, Any] = json.loads(line)
    if "of" in fields:
        return fields.pop("of"), DeadLetter(**fields)
    for name in ("window_start", "window_end"):
        fields[name] = Timestamp.from_utc_datetime(dt.datetime.fromisoformat(fields[name]))
    return HistogramRow(**fields | {"pane_is_first": False, "pane_is_last": False})


_BOXES: dict[int, queue.SimpleQueue[Any]] = {}


def _put(box: int, element: Any) -> None:
    _BOXES[box].put(element)


@contextlib.contextmanager
def _box(into: queue.SimpleQueue[Any]) -> Iterator[Any]:
    """A transform that puts elements into a queue in this process: the local runner's workers live here."""
    number = id(into)
    _BOXES[number] = into
    try:
        yield beam.Map(partial(_put, number))
    finally:
        del _BOXES[number]


class _Publisher:
    """Google's own client, a request a message."""

    def __init__(self) -> None:
        pubsub: Any = import_extra("google.cloud.pubsub_v1", "gcp")
        self._client = pubsub.PublisherClient(pubsub.types.BatchSettings(max_messages=1))
        self._client.create_topic(name=TOPIC)
        with pubsub.SubscriberClient() as subscriber:
            subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC)

    def send(self, message: Message) -> Future[Any]:
        """See `fleet.Send`."""
        return self._client.publish(TOPIC, message.data, **message.attributes)

    def close(self) -> None:
        """Release the connection."""
        self._client.stop()
        self._client.transport.close()


class _Watch:
    """What ended the pipeline, if anything did. Beam tells only whoever waits for the end, so that a thread does."""

    def __init__(self, result: Any) -> None:
        self._result = result
        self._cancelled = False
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._wait, name="pipeline", daemon=True)
        self._thread.start()

    def cancel(self, patience: float = 0.0) -> None:
        """End it, once, and wait for so many seconds until its end has been told."""
        if not self._cancelled:
            self._cancelled = True
            with contextlib.suppress(Exception):  # it may have ended by itself
                self._result.cancel()
            self._thread.join(patience)

    def _wait(self) -> None:
        try:
            self._result.wait_until_finish()
        except BaseException as error:
            if not self._cancelled:
                self.error = error
