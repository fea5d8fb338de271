"""Windows without records have rows where that is asked for; records that come too late are counted."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_beam import DeadLetter
from ldp_beam.elements.faults import LATE, NULL
from ldp_core import Hybrid, ParameterError, SquareWave

from ..helpers import SURE_BOOL, name, run
from ..streams import LOCAL, All, batch, counted, late_of, ns, stream

# ---- empty windows


def filled(window=10, kind=ldp_beam.Histogram, **options):
    return kind("v", SURE_BOOL, window=window, event_time="t", **options)


FILLS = [
    ((0, 60), range(0, 60, 10)),
    ((-15, 30), [-10, 0, 10, 20]),
    ((Timestamp(5), Timestamp(31)), [10, 20, 30, 50]),
    (
        (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 1, 0, 20, tzinfo=timezone(timedelta(hours=1)))),
        [0, 10, 50],
    ),
]


@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
def test_bounded(kind):
    found = run(All([filled(kind=kind, fill=fill) for fill, _ in FILLS]), [batch([11, 12, 55])])
    for rows, (_, starts) in zip(found, FILLS, strict=True):
        assert ns(rows) == {(s, s + 10): 0 for s in starts} | {(10, 20): 2, (50, 60): 1}
        for row in rows:
            assert (row.count, row.standard_error) == (0, 0) if not row.n else row.n
            assert (row.frequency == row.frequency) == bool(row.n)  # nan where there are no reports


def test_sliding_and_offset_windows():
    sliding, offset = filled(SlidingWindows(20, 10), fill=(0, 40)), filled(FixedWindows(10, offset=3), fill=(0, 30))
    in_sliding, in_offset = run(All([sliding, offset]), [batch([25])])
    assert ns(in_sliding) == {(-10, 10): 0, (0, 20): 0, (10, 30): 1, (20, 40): 1, (30, 50): 0}
    assert ns(in_offset) == {(3, 13): 0, (13, 23): 0, (23, 33): 1}


def test_keys():
    transform = filled(by=["c"], fill=(0, 20), fill_keys=[("fr",), ("it",)])
    assert ns(run(transform, [batch([1]), batch([15], "de")])) == {
        (0, 10, "fr"): 1,
        (0, 10, "it"): 0,
        (10, 20, "fr"): 0,
        (10, 20, "it"): 0,
        (10, 20, "de"): 1,
    }


def test_empty_windows_of_means_and_distributions():
    hybrid, wave = Hybrid((0.0, 10.0), epsilon=1.0), SquareWave((0.0, 10.0), epsilon=2.0, buckets=64)
    numbers = [pa.table({"v": [1.0, 2.0], "t": [5, 6]})]
    mean = ldp_beam.PrivateMean("v", hybrid, window=10, event_time="t", fill=(0, 30))
    wide = ldp_beam.PrivateDistribution("v", wave, buckets=2, window=10, event_time="t", fill=(0, 20))
    means, buckets = run(All([mean, wide]), numbers)
    starts = sorted((r.window_start.micros // 10**6, r.n, r.mean != r.mean) for r in means)
    assert starts == [(0, 2, False), (10, 0, True), (20, 0, True)]
    found = sorted((r.window_start.micros // 10**6, r.left, r.n, r.frequency != r.frequency) for r in buckets)
    assert found == [(0, 0.0, 2, False), (0, 5.0, 2, False), (10, 0.0, 0, True), (10, 5.0, 0, True)]


def test_windows_of_a_stream_are_filled_as_they_close():
    rows = run(filled(fill=(0, 50)), stream([0, [1], 35, [36]]), **LOCAL)
    assert ns(rows) == {(0, 10): 1, (10, 20): 0, (20, 30): 0, (30, 40): 1, (40, 50): 0}


def test_an_endless_fill_ticks():
    p = beam.Pipeline("FnApiRunner")
    _ = p | beam.Create([batch([1])]) | filled(fill=(0, None))
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
        filled(**{"window": None, **options})


# ---- late records: read = counted + late, whatever the windows and the lateness


def histogram(kind=ldp_beam.Histogram, window=10, **options):
    return kind("v", SURE_BOOL, window=window, event_time="t", **options).with_exception_handling()


# Allowed lateness, what is counted, and how many are late. At watermark 16 the record of 13 is in time; the record of
# 4 is 6 s past the end of its window, the record of 3 was 2 s past it.
LATENESSES = [(0, {0: 2, 10: 1, 20: 1}, 2), (5, {0: 3, 10: 1, 20: 1}, 1), (40, {0: 4, 10: 1, 20: 1}, 0)]


@pytest.mark.parametrize(
    ("form", "kind"), [("batches", ldp_beam.Histogram), ("single records", ldp_beam.PrivateHistogram)]
)
@pytest.mark.parametrize(("lateness", "expected", "late"), LATENESSES)
def test_what_is_dropped_is_reported(form, kind, lateness, expected, late):
    source = stream([0, [1, 2], 12, [3], 16, [4, 13], 20, [25], 45], form)
    good, dead = run(histogram(kind, allowed_lateness=lateness), source, **LOCAL)
    assert counted(good) == expected
    assert late_of(dead) == late
    assert {letter.column for letter in dead} <= {"t"}


def test_a_window_that_only_late_records_would_open():
    good, dead = run(histogram(), stream([0, [1], 100, [55, 56], [57]]), **LOCAL)
    assert counted(good) == {0: 1}
    assert late_of(dead) == 3


WINDOWS = [FixedWindows(10), FixedWindows(10, offset=3), SlidingWindows(20, 10), SlidingWindows(15, 5, 2)]
DEFAULT = {(0, 0, 0), (1, 7, 0), (2, 7, 1), (3, 0, 1), (3, 60, 0)}  # number of the window, lateness, seed
CASES = [
    pytest.param(window, lateness, seed, marks=() if (i, lateness, seed) in DEFAULT else pytest.mark.slow)
    for i, window in enumerate(WINDOWS)
    for lateness in (0, 7, 60)
    for seed in (0, 1)
]


@pytest.mark.parametrize(("window", "lateness", "seed"), CASES, ids=name)
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
    mode = rng.choice([AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING])
    transform = histogram(window=window, allowed_lateness=lateness, accumulation_mode=mode)
    good, dead = run(transform, stream(steps), **LOCAL)
    got = defaultdict(int)
    for row in good:
        if row.value == "true":
            start = row.window_start.micros // 10**6
            got[start] = row.n + (got[start] if mode == AccumulationMode.DISCARDING else 0)
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


def test_late_records_of_sessions_are_not_counted():
    good, dead = run(histogram(window=Sessions(5)), stream([0, [1, 2], 50, [3], 60]), **LOCAL)
    assert counted(good) == {1: 2}
    assert dead == []
