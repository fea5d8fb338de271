"""Pub/Sub: batches out of a subscription and into a topic; thin over Beam's own transforms."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection
from typing_extensions import override

from ldp_beam.elements.records import RecordsTransform
from ldp_beam.graph.replay import ReplaySafe
from ldp_beam.io.messages import DecodeMessages, Format, messages_of
from ldp_core import InputError, Limits, ParameterError
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import import_extra

_MESSAGE_BYTES = 9_000_000  # a request has 10^7 at most


class ReadPubSub(RecordsTransform):
    """Messages -> ``pyarrow.RecordBatch``: ``beam.io.ReadFromPubSub``, then `DecodeMessages`.

    With `with_exception_handling`: ``(batches, dead_letters)``, see `DecodeMessages`; also messages that cannot be
    read are acknowledged then, and not delivered again.

    Args:
        subscription, topic: ``"projects/<project>/subscriptions/<name>"``, or ``"projects/<project>/topics/<name>"``
            (Beam then makes a subscription of its own); one of them.
        timestamp_attribute: the message attribute with the time of the message, in milliseconds or RFC 3339 (at other
            text Beam's local runner fails); without, the time of publishing. No record should be older, or it may be
            late.
        id_label: the attribute that tells repeated messages from new ones, on runners that know it.
        position: put where each record comes from into a column of this name, for ``Perturb(..., record=)``: a hash of
            the subscription, or the topic, and the message's id, with its row there. A message that is delivered again
            has its id again. The runner must tell ids: Dataflow and Beam's local runner do.
        format, schema, limits: see `DecodeMessages`.

    Needs ``pip install 'ldp-telemetry[gcp]'``.

    Raises:
        MissingExtraError: Beam's ``gcp`` extra is not installed.
        ParameterError: both or neither of subscription and topic, or one of another form.
    """

    def __init__(
        self,
        subscription: str | None = None,
        *,
        topic: str | None = None,
        timestamp_attribute: str | None = None,
        id_label: str | None = None,
        format: Format = "arrow",  # noqa: A002 (as in DecodeMessages)
        schema: pa.Schema | None = None,
        limits: Limits = DEFAULT,
        position: str | None = None,
    ) -> None:
        super().__init__()
        import_extra("google.cloud.pubsub", "gcp")
        self._read = _beams(
            beam.io.ReadFromPubSub,
            topic=topic,
            subscription=subscription,
            id_label=id_label,
            timestamp_attribute=timestamp_attribute,
            **({} if position is None else {"with_attributes": True}),
        )
        source = str(subscription or topic).encode(errors="surrogatepass")
        self._named = None if position is None else b"pubsub\0" + source + b"\0"
        self._decode = DecodeMessages(format, schema=schema, limits=limits, position=position)

    @override
    def expand(self, pbegin: PBegin) -> Any:
        messages = pbegin | "Messages" >> self._read
        if self._named is not None:
            messages |= "Names" >> beam.Map(_named, self._named).with_output_types(Any)
        return messages | "Decode" >> self._handled_as_here(self._decode)


def _named(message: Any, names: bytes) -> tuple[bytes, bytes]:
    if not message.message_id:
        raise InputError("Pub/Sub: the runner does not tell the ids of messages, of which position= is made")
    return message.data, names + message.message_id.encode()


class WritePubSub(beam.PTransform[Any, Any]):
    """Messages into a topic, as `WriteKafka` makes them, and as often.

    Needs ``pip install 'ldp-telemetry[gcp]'``.

    Args:
        topic: ``"projects/<project>/topics/<name>"``.

    Raises:
        MissingExtraError: Beam's ``gcp`` extra is not installed.
        ParameterError: ``topic`` is of another form.
    """

    def __init__(self, topic: str) -> None:
        super().__init__()
        import_extra("google.cloud.pubsub", "gcp")
        self._write = _beams(beam.io.WriteToPubSub, topic=topic)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        return (
            pcoll
            | "To messages" >> beam.FlatMap(messages_of, _MESSAGE_BYTES).with_output_types(bytes)
            | "Stabilize" >> ReplaySafe()
            | "Publish" >> self._write
        )


def _beams(transform: Any, **arguments: Any) -> Any:
    """A transform of Beam, which checks subscription and topic."""
    try:
        return transform(**arguments)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"Pub/Sub: {error}") from None
