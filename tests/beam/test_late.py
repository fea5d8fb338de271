"""Records that came too late are counted: read = counted + late, whatever the windows and the lateness."""

from __future__ import annotations

import random
from collections import defaultdict

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue

import ldp_beam
from ldp_beam import DeadLetter
from ldp_beam.elements.faults import LATE, NULL

from .helpers import SURE_BOOL, run

LOCAL = {"runner": "BundleBasedDirectRunner", "flags": ("--streaming",)}


def batch(times, country="fr"):
    k = len(times)
    return pa.record_batch({"v": pa.array([True] * k), "t": pa.array(times, pa.float64()), "c": [country] * k})


def stream(steps, form="batches"):
    """Steps are a watermark, or the times of records that arrive together."""
    source = Stream()
    for step in steps:
        if isinstance(step, (int, float)):
            source.advance_watermark_to(step)
        elif form == "batches":
            source.add_elements([TimestampedValue(batch(step), min(step))])
        else:
            source.add_elements([TimestampedValue({"v": True, "t": float(t), "c": "fr"}, t) for t in step])
    return source.advance_watermark_to_infinity()


def counted(rows):
    """Start of window -> n of its last pane."""
    return {row.window_start.micros // 10**6: row.n for row in rows if row.value == "true"}


def late_of(letters):
    assert all(letter.reason == LATE for letter in letters)
    return sum(letter.count for letter in letters)


def histogram(kind=ldp_beam.Histogram, window=10, **options):
    return kind("v", SURE_BOOL, window=window, event_time="t", **options).with_exception_handling()


@pytest.mark.parametrize("form", ["batches", "single records"])
@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
@pytest.mark.parametrize(
    ("lateness", "expected", "late"),
    [(0, {0: 2, 20: 1}, 3), (5, {0: 3, 20: 1}, 2), (40, {0: 4, 10: 1, 20: 1}, 0)],
)
def test_what_is_dropped_is_reported(form, kind, lateness, expected, late):
    """Window [10, 20) has no record but a late one; window [0, 10) gets two late ones, one after the other."""
    source = stream([0, [1, 2], 12, [3], 16, [4, 13], 20, [25], 45], form)
    # At watermark 16 the record of 13 is in time; the record of 4 is 6 s past the end of its window.
    if lateness == 0:
        expected, late = {0: 2, 10: 1, 20: 1}, 2
    elif lateness == 5:
        expected, late = {0: 3, 10: 1, 20: 1}, 1
    good, dead = run(histogram(kind, allowed_lateness=lateness), source, **LOCAL)
    assert counted(good) == expected
    assert late_of(dead) == late
    assert {letter.column for letter in dead} <= {"t"}


def test_a_window_that_only_late_records_would_open():
    good, dead = run(histogram(), stream([0, [1], 100, [55, 56], [57]]), **LOCAL)
    assert counted(good) == {0: 1}
    assert late_of(dead) == 3


@pytest.mark.parametrize("lateness", [0, 7, 60])
@pytest.mark.parametrize(
    "window", [FixedWindows(10), FixedWindows(10, offset=3), SlidingWindows(20, 10), SlidingWindows(15, 5, 2)]
)
@pytest.mark.parametrize("seed", range(2))
def test_read_is_counted_plus_late(window, lateness, seed):
    """Random arrivals against the definition: a record misses windows whose end is more than L behind the watermark."""
    rng = random.Random(f"{seed} {lateness} {type(window).__name__} {window.offset}")
    watermark, steps, expected, late = 0, [0], defaultdict(int), 0
    size = window.size.micros // 10**6
    period = window.period.micros // 10**6 if isinstance(window, SlidingWindows) else size
    offset = window.offset.micros // 10**6
    for _ in range(30):
        if rng.random() < 0.4:
            watermark += rng.randrange(1, 12)
            steps.append(watermark)
            continue
        times = [max(0, watermark + rng.randrange(-70, 20)) for _ in range(rng.randrange(1, 5))]
        steps.append(times)
        for t in times:
            start = t - (t - offset) % period
            while start > t - size:
                if watermark > start + size + lateness:  # (with Java's runners: >=)
                    late += 1
                else:
                    expected[start] += 1
                start -= period
    options = {"accumulation_mode": rng.choice([AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING])}
    good, dead = run(histogram(window=window, allowed_lateness=lateness, **options), stream(steps), **LOCAL)
    got = defaultdict(int)
    for row in good:
        if row.value == "true":
            start = row.window_start.micros // 10**6
            got[start] = row.n + (got[start] if options["accumulation_mode"] == AccumulationMode.DISCARDING else 0)
    assert dict(got) == dict(expected)
    assert late_of(dead) == late
    assert late or lateness == 60  # the case has something to show


def test_late_records_are_counted_by_key_and_with_other_faults_and_triggers():
    source = Stream().advance_watermark_to(0)
    source.add_elements([TimestampedValue(batch([1, 2], c), 1) for c in ("fr", "it")])
    source.advance_watermark_to(30)
    nulls = pa.record_batch({"v": pa.array([True, None]), "t": pa.array([3.0, 31.0]), "c": ["de", "de"]})
    source.add_elements([TimestampedValue(nulls, 31), TimestampedValue(batch([4], "it"), 31)])
    source.advance_watermark_to_infinity()
    transform = histogram(by="c", trigger=AfterWatermark(early=AfterCount(1), late=AfterCount(1)))
    good, dead = run(transform, source, **LOCAL)
    assert {(r.key["c"], r.n) for r in good if r.value == "true"} >= {("fr", 2), ("it", 2)}
    assert not any(r.key["c"] == "de" for r in good)
    total = defaultdict(int)
    for letter in dead:
        total[letter[:2]] += letter.count
    assert total == {("t", LATE): 2, ("v", NULL): 1}
    assert all(type(letter) is DeadLetter for letter in dead)


def test_bounded_input_has_no_late_records_and_no_step_for_them():
    good, dead = run(histogram(), [batch([1, 2, 500, 3])])
    assert counted(good) == {0: 3, 500: 1}
    assert dead == []
    p = beam.Pipeline("FnApiRunner")
    _ = p | beam.Create([1]) | histogram()
    assert "Late" not in str(p.to_runner_api())


def test_sessions_are_as_before():
    good, dead = run(histogram(window=Sessions(5)), stream([0, [1, 2], 50, [3], 60]), **LOCAL)
    assert counted(good) == {1: 2}
    assert dead == []
