"""Sources and sinks: whatever they read or write, elements are Arrow batches.

ReadEvents, ReadReports, WatchFolder -> batches      ReadKafka, ReadPubSub -> batches
DecodeMessages: messages of any other queue -> batches
batches or rows -> WriteKafka, WritePubSub          rows -> WriteHistograms, HistogramBatches
batches of reports -> WriteReports
"""

from ldp_beam.io.events import ReadEvents
from ldp_beam.io.folder import WatchFolder
from ldp_beam.io.histograms import (
    BIGQUERY_SCHEMA,
    HISTOGRAM_SCHEMA,
    HistogramBatches,
    WriteHistograms,
    bigquery_row,
    bigquery_schema,
    histogram_batch,
    histogram_line,
    histogram_schema,
)
from ldp_beam.io.kafka import ReadKafka, WriteKafka
from ldp_beam.io.messages import DecodeMessages, decode, encode
from ldp_beam.io.pubsub import ReadPubSub, WritePubSub
from ldp_beam.io.reports import ReadReports, WriteReports

__all__ = [
    "BIGQUERY_SCHEMA",
    "HISTOGRAM_SCHEMA",
    "DecodeMessages",
    "HistogramBatches",
    "ReadEvents",
    "ReadKafka",
    "ReadPubSub",
    "ReadReports",
    "WatchFolder",
    "WriteHistograms",
    "WriteKafka",
    "WritePubSub",
    "WriteReports",
    "bigquery_row",
    "bigquery_schema",
    "decode",
    "encode",
    "histogram_batch",
    "histogram_line",
    "histogram_schema",
]
