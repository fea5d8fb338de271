"""Empty windows have rows where that is asked for, and nothing else changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_core import ParameterError

from .helpers import SURE, run, table


def batch(times, country="fr"):
    k = len(times)
    return pa.record_batch({"v": ["a"] * k, "t": pa.array(times, pa.float64()), "c": [country] * k})


def ns(rows):
    return {place: next(iter(values.values())).n for place, values in table(rows).items()}


@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
@pytest.mark.parametrize(
    ("fill", "starts"),
    [
        ((0, 60), range(0, 60, 10)),
        ((-15, 30), [-10, 0, 10, 20]),
        ((Timestamp(5), Timestamp(31)), [10, 20, 30, 50]),
        (
            (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 1, 0, 20, tzinfo=timezone(timedelta(hours=1)))),
            [0, 10, 50],
        ),
    ],
)
def test_bounded(kind, fill, starts):
    rows = run(kind("v", SURE, window=10, event_time="t", fill=fill), [batch([11, 12, 55])])
    expected = {(s, s + 10): 0 for s in starts} | {(10, 20): 2, (50, 60): 1}
    assert ns(rows) == expected
    for row in rows:
        assert (row.count, row.standard_error) == (0, 0) if not row.n else row.n
        assert (row.frequency == row.frequency) == bool(row.n)  # nan where there are no reports


def test_sliding_and_offset_windows():
    rows = run(
        ldp_beam.Histogram("v", SURE, window=SlidingWindows(20, 10), event_time="t", fill=(0, 40)), [batch([25])]
    )
    assert ns(rows) == {(-10, 10): 0, (0, 20): 0, (10, 30): 1, (20, 40): 1, (30, 50): 0}
    rows = run(
        ldp_beam.Histogram("v", SURE, window=FixedWindows(10, offset=3), event_time="t", fill=(0, 30)), [batch([25])]
    )
    assert ns(rows) == {(3, 13): 0, (13, 23): 0, (23, 33): 1}


def test_keys():
    transform = ldp_beam.Histogram(
        "v", SURE, window=10, event_time="t", by=["c"], fill=(0, 20), fill_keys=[("fr",), ("it",)]
    )
    assert ns(run(transform, [batch([1]), batch([15], "de")])) == {
        (0, 10, "fr"): 1,
        (0, 10, "it"): 0,
        (10, 20, "fr"): 0,
        (10, 20, "it"): 0,
        (10, 20, "de"): 1,
    }


def test_streaming_windows_are_filled_as_they_close():
    source = Stream().advance_watermark_to(0).add_elements([TimestampedValue(batch([1]), 1)])
    source.advance_watermark_to(35).add_elements([TimestampedValue(batch([36]), 36)]).advance_watermark_to_infinity()
    rows = run(
        ldp_beam.Histogram("v", SURE, window=10, event_time="t", fill=(0, 50)),
        source,
        runner="BundleBasedDirectRunner",
        flags=("--streaming",),
    )
    assert ns(rows) == {(0, 10): 1, (10, 20): 0, (20, 30): 0, (30, 40): 1, (40, 50): 0}


def test_an_endless_fill_ticks():
    p = beam.Pipeline("FnApiRunner")
    _ = p | beam.Create([batch([1])]) | ldp_beam.Histogram("v", SURE, window=10, event_time="t", fill=(0, None))
    assert "Ticks" in str(p.to_runner_api())


@pytest.mark.parametrize(
    "options",
    [
        {"fill": (0, 60)},
        {"fill": (0, 60), "window": Sessions(5)},
        {"fill": (60, 60), "window": 10},
        {"fill": 60, "window": 10},
        {"fill": ("0", "60"), "window": 10},
        {"fill": (datetime(2026, 1, 1), None), "window": 10},
        {"fill": (0, 60), "window": 10, "by": "c"},
        {"fill": (0, 60), "window": 10, "by": "c", "fill_keys": ["fr"]},
        {"fill": (0, 60), "window": 10, "by": "c", "fill_keys": [("fr", "x")]},
        {"fill_keys": [("fr",)], "window": 10, "by": "c"},
    ],
)
def test_bad_fills(options):
    with pytest.raises(ParameterError, match="fill"):
        ldp_beam.Histogram("v", SURE, event_time="t", **options)
