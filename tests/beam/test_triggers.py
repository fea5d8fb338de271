"""Every kind of trigger, with and without lateness, accumulating and discarding: the panes that Beam's rules promise.

Window [0, 10). Two batches are on time (2 records, then 1), one comes at watermark 12, one at 100. A trigger that
counts elements counts partial tallies: one a batch.
"""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to_per_window
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAny,
    AfterCount,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.window import IntervalWindow, TimestampedValue

import ldp_beam

from .helpers import SURE_BOOL

ACC, DISC = AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING
EARLY, LATE = AfterWatermark(early=AfterCount(1)), AfterWatermark(late=AfterCount(1))
BOTH = AfterWatermark(early=AfterCount(1), late=AfterCount(1))
EACH, PAIRS = Repeatedly(AfterCount(1)), Repeatedly(AfterCount(2))
ANY = Repeatedly(AfterAny(AfterCount(2), AfterWatermark()))

PANES = [
    (None, 0, ACC, [3]),
    (None, 0, DISC, [3]),
    (None, 20, ACC, [3, 4]),
    (None, 20, DISC, [3, 1]),
    (DefaultTrigger(), 20, ACC, [3, 4]),
    (AfterWatermark(), 0, ACC, [3]),
    (AfterWatermark(), 0, DISC, [3]),
    (EARLY, 0, ACC, [2, 3, 3]),
    (EARLY, 0, DISC, [2, 1, 0]),
    (LATE, 0, ACC, [3]),
    (LATE, 20, ACC, [3, 4]),
    (LATE, 20, DISC, [3, 1]),
    (BOTH, 0, ACC, [2, 3, 3]),
    (BOTH, 20, ACC, [2, 3, 3, 4]),
    (BOTH, 20, DISC, [2, 1, 0, 1]),
    (EACH, 0, ACC, [2, 3]),
    (EACH, 20, ACC, [2, 3, 4]),
    (EACH, 20, DISC, [2, 1, 1]),
    (PAIRS, 0, ACC, [3]),
    (PAIRS, 0, DISC, [3]),
]


def batch(*times):
    return pa.record_batch({"v": pa.array([True] * len(times)), "t": pa.array(times, pa.float64())})


def stream():
    source = Stream().advance_watermark_to(0)
    for step in (batch(1, 2), batch(3), 12, batch(5), 100, batch(6)):
        if isinstance(step, int):
            source.advance_watermark_to(step)
        else:
            source.add_elements([TimestampedValue(step, 9)])
    return source.advance_watermark_to_infinity()


@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
@pytest.mark.parametrize(("trigger", "lateness", "mode", "panes"), PANES)
def test_panes_per_window(kind, trigger, lateness, mode, panes):
    transform = kind(
        "v",
        SURE_BOOL,
        window=10,
        event_time="t",
        trigger=trigger,
        allowed_lateness=lateness,
        accumulation_mode=mode,
    )
    with beam.Pipeline("BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as p:
        counts = (
            p
            | stream()
            | transform
            | beam.Filter(lambda row: row.value == "true")
            | beam.Map(lambda row: (row.n, round(row.count, 6)))
        )
        expected = {IntervalWindow(0, 10): [(n, n) for n in panes]}
        assert_that(counts, equal_to_per_window(expected), reify_windows=True)


@pytest.mark.parametrize("trigger", [AfterWatermark(), EARLY, AfterCount(1)])
def test_triggers_that_would_lose_records_are_refused_when_built(trigger):
    """Beam's own rule: a trigger that can finish while records may still come."""
    with pytest.raises(ValueError, match="Unsafe trigger"):
        _ = (
            beam.Pipeline("FnApiRunner")
            | beam.Create([batch(1)])
            | ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", trigger=trigger, allowed_lateness=20)
        )
