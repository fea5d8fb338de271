"""Sources and sinks: whatever they read or write, elements are Arrow batches.

ReadEvents, ReadReports, WatchFolder -> batches      ReadKafka, ReadPubSub -> batches
DecodeMessages: messages of any other queue -> batches
batches or rows -> WriteKafka, WritePubSub          rows -> WriteEstimates, EstimateBatches
batches of reports -> WriteReports
"""

from ldp_beam.io.estimates import (
    EstimateBatches,
    WriteEstimates,
    bigquery_row,
    bigquery_schema,
    estimate_batch,
    estimate_dict,
    estimate_line,
    estimate_schema,
)
from ldp_beam.io.events import ReadEvents
from ldp_beam.io.folder import WatchFolder
from ldp_beam.io.kafka import ReadKafka, WriteKafka
from ldp_beam.io.messages import DecodeMessages, decode, encode
from ldp_beam.io.pubsub import ReadPubSub, WritePubSub
from ldp_beam.io.reports import ReadReports, WriteReports

__all__ = [
    "DecodeMessages",
    "EstimateBatches",
    "ReadEvents",
    "ReadKafka",
    "ReadPubSub",
    "ReadReports",
    "WatchFolder",
    "WriteEstimates",
    "WriteKafka",
    "WritePubSub",
    "WriteReports",
    "bigquery_row",
    "bigquery_schema",
    "decode",
    "encode",
    "estimate_batch",
    "estimate_dict",
    "estimate_line",
    "estimate_schema",
]
