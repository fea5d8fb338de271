"""When a dead letter is: at the end of its window, or of the hour, whenever its record was."""

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

import ldp_beam
from ldp_beam import DeadLetter
from ldp_beam.io import DecodeMessages
from ldp_core import PrivacyPlan

from ..helpers import SURE, SURE_BITS, Collector, counters, given

HOUR = 3600
DAY = 24 * HOUR
AT = Timestamp(micros=50 * DAY * 10**6 + 12_345_678_901)  # 03:25:45.678901
NULL = DeadLetter("v", "null", 1)


def just_before(seconds):
    return Timestamp(micros=(50 * DAY + seconds) * 10**6 - 1)


def dead_letters(transform, elements, windows=None):
    """(letter, time, window) of the dead letters of elements at their times."""
    p = beam.Pipeline("FnApiRunner")
    stamped = [e if isinstance(e, TimestampedValue) else TimestampedValue(e, AT) for e in elements]
    source = p | given(stamped) | beam.Map(lambda e: e)
    if windows is not None:
        source |= beam.WindowInto(windows)
    _, dead = source | transform.with_exception_handling()
    collector = Collector()
    _ = dead | collector.sink()
    p.run().wait_until_finish()
    return collector.stamped


def interval(start, end):
    return IntervalWindow(50 * DAY + start, 50 * DAY + end)


PERTURB = ldp_beam.Perturb(PrivacyPlan({"v": SURE}))
WINDOWS = {
    "global": (None, just_before(4 * HOUR), GlobalWindow()),
    "day": (FixedWindows(DAY), just_before(DAY), interval(0, DAY)),
    "minute": (FixedWindows(60), just_before(12_360), interval(12_300, 12_360)),
    "sessions": (Sessions(600), just_before(4 * HOUR), None),
}


def test_a_dead_letter_is_at_the_end_of_its_window_or_hour():
    """It was at the microsecond of the record whose value was null; a session's window began there."""
    for batch in (False, True):
        for windows, time, window in WINDOWS.values():
            elements = [{"v": "a"}, {"v": None}]
            if batch:
                elements = [pa.record_batch({"v": ["a", None]})]
            [(letter, at, found)] = dead_letters(PERTURB, elements, windows)
            assert (letter, Timestamp.of(at)) == (NULL, time)
            assert found == (window or IntervalWindow(time, time + 600))


def test_beams_runtime_type_check_takes_dead_letters():
    """It knows the type of the main output alone: a letter was no tuple."""
    for step in (PERTURB, ldp_beam.PrivateHistogram("v", SURE), ldp_beam.BoundContributions("v", 1)):
        p = beam.Pipeline("FnApiRunner", options=PipelineOptions(["--runtime_type_check"]))
        _ = p | beam.Create([{"v": "a"}, {"v": None}]) | step.with_exception_handling()
        assert counters(p.run())["dead_lettered"] == 1


def test_in_sliding_windows_each_letter_is_at_the_end_of_its_own():
    histogram = ldp_beam.Histogram("v", SURE_BITS)
    bits = [TimestampedValue({"v": None}, AT)]
    found = dead_letters(histogram, bits, SlidingWindows(2 * HOUR, HOUR))
    ends = [(3, 5), (2, 4)]
    assert sorted((Timestamp.of(at), window) for _, at, window in found) == sorted(
        (just_before(end * HOUR), interval(start * HOUR, end * HOUR)) for start, end in ends
    )


def test_records_over_a_limit_are_not_told_to_the_microsecond():
    bound = ldp_beam.BoundContributions("user", per_window=1, window="1d")
    rows = [{"v": "a", "user": "ann"}, {"v": "b", "user": "ann"}]
    for windows, time in ((None, just_before(4 * HOUR)), (FixedWindows(DAY), just_before(DAY))):
        [(letter, at, _)] = dead_letters(bound, rows, windows)
        assert letter.reason == "over the limit"
        assert Timestamp.of(at).micros // 1000 == time.micros // 1000  # (between workers times are of milliseconds)


def test_messages_and_lines():
    for transform, message in (
        (DecodeMessages(), b"noise"),
        (DecodeMessages("ndjson", schema=pa.schema([])), b"noise"),
    ):
        [(_, at, _)] = dead_letters(transform, [message])
        assert Timestamp.of(at) == just_before(4 * HOUR)


def test_ends_of_hours_at_the_edges():
    for time, end in (
        (Timestamp(0), Timestamp(micros=HOUR * 10**6 - 1)),
        (Timestamp(micros=HOUR * 10**6 - 1), Timestamp(micros=HOUR * 10**6 - 1)),
        (Timestamp(micros=-1), Timestamp(micros=-1)),
        (Timestamp(micros=-2), Timestamp(micros=-1)),
        (GlobalWindow().max_timestamp(), GlobalWindow().max_timestamp()),
        (MAX_TIMESTAMP, MAX_TIMESTAMP),
    ):
        [(_, at, _)] = dead_letters(PERTURB, [TimestampedValue({"v": None}, time)])
        assert Timestamp.of(at) == end
