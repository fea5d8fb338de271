"""Pub/Sub: what is handed to Beam's own transforms, and what is made of their messages."""

import sys

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue

from ldp_beam import DeadLetter
from ldp_beam.elements.faults import NOT_A_BATCH
from ldp_beam.io import ReadPubSub, WritePubSub, decode, encode
from ldp_core import ParameterError
from ldp_core.extras import MissingExtraError

from ..helpers import Collector, run_with_result

pytest.importorskip("google.cloud.pubsub")

SUBSCRIPTION = "projects/project/subscriptions/reports"
TOPIC = "projects/project/topics/reports"
BATCH = pa.record_batch({"v": [1, 2]})


@pytest.fixture
def beams_own(monkeypatch):
    """Beam's transforms replaced by a stored list of messages and by a collector."""
    calls, sink = [], Collector()

    def read(**arguments):
        calls.append(arguments)
        messages = [TimestampedValue(encode(BATCH), 5), TimestampedValue(b"noise", 6)]
        return beam.Create(messages, reshuffle=False) | beam.Map(lambda x: x).with_output_types(bytes)

    def write(topic):
        calls.append(topic)
        return sink.sink()

    monkeypatch.setattr(beam.io, "ReadFromPubSub", read)
    monkeypatch.setattr(beam.io, "WriteToPubSub", write)
    return calls, sink


def test_messages_become_batches(beams_own):
    calls, _ = beams_own
    read = ReadPubSub(SUBSCRIPTION, timestamp_attribute="ts", id_label="id")
    (good, bad), _ = run_with_result(read.with_exception_handling())
    assert calls == [{"topic": None, "subscription": SUBSCRIPTION, "id_label": "id", "timestamp_attribute": "ts"}]
    [(batch, at, _)] = good.stamped
    assert batch.equals(BATCH)
    assert at.seconds() == 5
    assert bad.elements == [DeadLetter("", NOT_A_BATCH, 1)]


def test_batches_become_messages(beams_own):
    calls, sink = beams_own
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create([BATCH]) | WritePubSub(TOPIC)
    assert calls == [TOPIC]
    assert [decode(message).equals(BATCH) for message in sink.elements] == [True]


def test_configuration_is_checked_at_once():
    for arguments in (
        {},
        {"subscription": SUBSCRIPTION, "topic": TOPIC},
        {"subscription": TOPIC},
        {"topic": SUBSCRIPTION},
        {"subscription": "reports"},
        {"subscription": "projects//subscriptions/x"},
        {"subscription": 5},
        {"subscription": 5, "position": "position"},
        {"subscription": SUBSCRIPTION, "format": "ndjson"},
    ):
        with pytest.raises(ParameterError):
            ReadPubSub(**arguments)
    with pytest.raises(ParameterError):
        WritePubSub(SUBSCRIPTION)


def test_a_missing_client_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.cloud.pubsub", None)
    for make in (lambda: ReadPubSub(SUBSCRIPTION), lambda: WritePubSub(TOPIC)):
        with pytest.raises(MissingExtraError, match=r"ldp-telemetry\[gcp\]"):
            make()
