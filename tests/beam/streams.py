"""Streams of Booleans "v" at times "t", and what comes of them on Beam's local streaming runner."""

import pickle

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import BytesCoder
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue

from ldp_beam.elements.faults import LATE

from .helpers import table

LOCAL = {"runner": "BundleBasedDirectRunner", "flags": ("--streaming",)}
# Window [0, 10): two batches in time, one late by 2 s, one by 90 s.
LATE_AND_LATER = [0, [1, 2], [3], 12, [5], 100, [6]]


def batch(times, country="fr"):
    k = len(times)
    return pa.record_batch({"v": pa.array([True] * k), "t": pa.array(times, pa.float64()), "c": [country] * k})


def stream(steps, form="batches"):
    """Steps are a watermark, or what arrives together.

    That is the times of records, in one batch or one by one; or batches, or records as dictionaries, as they are. What
    the stream carries are bytes, as engines in other languages read it: Flink's in Java, Prism's in Go.
    """
    source = Stream(coder=BytesCoder())
    for step in steps:
        if isinstance(step, (int, float)):
            source.advance_watermark_to(step)
        else:
            source.add_elements([TimestampedValue(pickle.dumps(one), _oldest(one)) for one in _elements(step, form)])
    return source.advance_watermark_to_infinity().with_output_types(bytes) | "Decode" >> beam.Map(pickle.loads)


def _elements(step, form):
    if not isinstance(step[0], (int, float)):
        return step
    return [batch(step)] if form == "batches" else [{"v": True, "t": float(t), "c": "fr"} for t in step]


def _oldest(element):
    return min(element["t"].to_pylist()) if isinstance(element, pa.RecordBatch) else element["t"]


class All(beam.PTransform):
    """Several transforms of the same input."""

    def __init__(self, transforms):
        super().__init__()
        self.transforms = transforms

    def expand(self, pcoll):
        return tuple(pcoll | f"{i}" >> transform for i, transform in enumerate(self.transforms))


def ns(rows):
    """(start, end, key text) -> n of the only pane."""
    return {place: next(iter(values.values())).n for place, values in table(rows).items()}


def true_panes(rows):
    """The rows of the value True, in the order of their panes."""
    return sorted((row for row in rows if row.value is True), key=lambda row: (row.window_start, row.pane_index))


def counted(rows):
    """Start of window -> n of its last pane."""
    return {row.window_start.micros // 10**6: row.n for row in true_panes(rows)}


def late_of(letters):
    """How many records were late, if nothing else was wrong with any."""
    assert all(letter.reason == LATE for letter in letters)
    return sum(letter.count for letter in letters)
