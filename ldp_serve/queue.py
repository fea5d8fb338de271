"""Reports handed to Kafka or Pub/Sub: acknowledged when the queue has acknowledged them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from typing_extensions import override

from ldp_core import InputError, ParameterError, PrivacyPlan
from ldp_core.engine import import_extra, write_batch
from ldp_serve.store import Batch, Sink

MOST_BYTES = 900_000  # of one message to the queue: brokers of Kafka take 1 MB unless they are told otherwise
SECONDS = 15.0  # in which the queue has to acknowledge; a client that gets 503 sends again
_ADDRESS = re.compile(r"(kafka|pubsub)://([^/]+)/([^/]+)")

Send: TypeAlias = Callable[[Sequence[tuple[bytes, bytes]]], dict[bytes, str]]
"""Sends messages with their names, waits, and says why which names did not arrive."""


class Queue(Sink):
    """A topic, which gets each message of a client as an Arrow batch with the plan, as `ldp_beam.io` reads it.

    The key (of Pub/Sub the attribute ``key``) is a digest of the client's ``Idempotency-Key``, and a number after it
    from the second part on of what is cut: what comes twice has the same key twice. What this process has sent it
    knows again; a process that starts knows nothing.

    Args:
        address: ``kafka://host:port,host:port/topic`` or ``pubsub://project/topic``.
        options: more of ``confluent_kafka.Producer``, as for security.

    Raises:
        ParameterError, InputError: another address, or options of Pub/Sub; no answer of the brokers, or no such topic.
    """

    def __init__(self, address: str, plan: PrivacyPlan, options: Mapping[str, str] | None = None) -> None:
        super().__init__(plan)
        found = _ADDRESS.fullmatch(address)
        if not found or (options and found[1] != "kafka"):
            raise ParameterError(
                "a queue is kafka://HOST:PORT/TOPIC, perhaps with options, or pubsub://PROJECT/TOPIC without"
            )
        kind, place, topic = found.groups()
        self._send: Send = _kafka(place, topic, options or {}) if kind == "kafka" else _pubsub(place, topic)

    @override
    def _keep(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        parts = ((batch.name, part) for batch in batches for part in enumerate(_messages(batch.reports)))
        failed = self._send([(name + (k.to_bytes(4) if k else b""), message) for name, (k, message) in parts])
        if failed:
            reason = next(iter(failed.values()))
            logging.getLogger("ldp_serve").error("%d messages did not reach the queue: %s", len(failed), reason)
        lost = {name[:16] for name in failed}  # without the part's number
        return [batch for batch in batches if batch.name not in lost]


def _messages(reports: pa.RecordBatch) -> Iterator[bytes]:
    message, half = write_batch(reports), reports.num_rows // 2
    if len(message) <= MOST_BYTES or not half:
        yield message
    else:
        yield from _messages(reports.slice(0, half))
        yield from _messages(reports.slice(half))


def _kafka(servers: str, topic: str, options: Mapping[str, str]) -> Send:
    kafka, refusal = import_extra("confluent_kafka", "kafka"), ""
    config = {"linger.ms": 0, "message.timeout.ms": int(1000 * SECONDS), **options}
    try:
        producer = kafka.Producer({**config, "bootstrap.servers": servers, "enable.idempotence": True})
        refusal = str(producer.list_topics(topic, SECONDS).topics[topic].error or "")
    except kafka.KafkaException as error:
        refusal = error.args[0].str()
    if refusal:
        raise InputError(f"Kafka does not take reports for the topic {topic!r}: {refusal}")

    def send(messages: Sequence[tuple[bytes, bytes]]) -> dict[bytes, str]:
        failed: dict[bytes, str] = {}

        def delivered(name: bytes, error: Any, _: Any) -> None:
            if error is not None:
                failed[name] = error.str()

        for name, message in messages:
            try:
                producer.produce(topic, message, name.hex(), on_delivery=partial(delivered, name))
            except (kafka.KafkaException, BufferError) as error:
                failed[name] = str(error)
        producer.flush()  # ends: each message arrives, or times out
        return failed

    return send


def _pubsub(project: str, topic: str) -> Send:
    client = import_extra("google.cloud.pubsub_v1", "gcp").PublisherClient()
    errors = import_extra("google.api_core.exceptions", "gcp").GoogleAPIError, TimeoutError
    path = client.topic_path(project, topic)

    def send(messages: Sequence[tuple[bytes, bytes]]) -> dict[bytes, str]:
        waiting = [(name, client.publish(path, message, key=name.hex())) for name, message in messages]
        failed, end = dict[bytes, str](), time.monotonic() + SECONDS
        for name, future in waiting:
            try:
                future.result(max(end - time.monotonic(), 0.0))
            except errors as error:
                failed[name] = type(error).__name__
        return failed

    return send
