"""Dates and times in records of Beam: what is refused is counted by itself, and what comes back."""

import datetime as dt

import apache_beam as beam
import pyarrow as pa
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

import ldp_beam
from ldp_beam.elements.faults import NO_TIME, NULL, UNDECLARED, not_of
from ldp_core import Dates, HierarchicalHistogram, PrivacyPlan, RandomizedResponse

from ..helpers import perturbed, run

BORN = HierarchicalHistogram(Dates("2024-01-01", "2024-07-01", "1mo"), epsilon=80.0)
AT = RandomizedResponse(Dates("2024-01-01T00:00", "2024-01-02T00:00", "6h", unmatched="clip"), epsilon=80.0)
FLAG = RandomizedResponse(epsilon=80.0)
PLAN = PrivacyPlan({"born": BORN, "at": AT})
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


def test_bad_dates_are_dead_letters_and_good_ones_pass():
    beams = Timestamp.from_utc_datetime(NOON)
    good = [{"born": day, "at": NOON} for day in (dt.date(2024, 6, 30), "2024-02-29", beams)]
    good[0]["at"] = beams
    bad = [{"born": day, "at": "2024-01-01"} for day in ("2024-02-30", MIN_TIMESTAMP, None, 3)]
    reports, dead = perturbed(ldp_beam.Perturb(PLAN).with_exception_handling(), [*good, *bad])
    assert [report["at"] for report in reports] == ["2024-01-01 12:00:00"] * 3
    assert {(letter.reason, letter.count) for letter in dead} == {(UNDECLARED, 2), (NULL, 1), (not_of("date"), 1)}


def test_rows_have_dates_as_text_and_times_as_timestamps():
    times = [NOON + dt.timedelta(hours=6 * (k % 2)) for k in range(120)]
    batch = pa.record_batch({"born": pa.array([dt.date(2024, 1 + k % 5, 28) for k in range(120)]), "at": times})
    [reports] = run(ldp_beam.Perturb(PLAN), [batch])
    rows = run(ldp_beam.Histogram("born", BORN), [reports])
    assert [(row.value, round(row.count, 3)) for row in rows] == [(f"2024-0{k}-01", 24 * (k < 6)) for k in range(1, 7)]
    assert {type(row) for row in rows} == {ldp_beam.HistogramRow}
    rows = run(ldp_beam.Histogram("at", AT), [reports])
    hour = Timestamp.from_utc_datetime(NOON)
    found = [(row.value, round(row.count, 3)) for row in rows]
    assert found == [(hour - 12 * 3600, 0), (hour - 6 * 3600, 0), (hour, 60), (hour + 6 * 3600, 60)]
    texts = run(ldp_beam.Histogram("at", AT) | beam.Map(ldp_beam.text_row), [reports])
    assert [row.value for row in texts] == [f"2024-01-01 {k:02}:00:00" for k in (0, 6, 12, 18)], "not Timestamp(...)"
    [median] = run(ldp_beam.Estimate("born", BORN, "median"), [reports])
    assert (median.median, median.low, median.high) == ("2024-03-16", "2024-03-01", "2024-03-31")
    [spring] = run(ldp_beam.Estimate("born", BORN, "range:low=2024-03-01,high=2024-05-31"), [reports])
    assert (spring.value, round(spring.count, 3)) == ("2024-03-01 to 2024-05-31", 72)


def test_event_times_beyond_beams_range_are_none():
    """Their microseconds would be those of other times, in 64 bits."""
    for kind, storage, micros in ((pa.date32(), pa.int32(), 86_400 * 10**6), (pa.timestamp("s"), pa.int64(), 10**6)):
        first, last = -(-MIN_TIMESTAMP.micros // micros), MAX_TIMESTAMP.micros // micros
        wraps = [first - 1, last + 1, *([20_454 + 640_511_947] if storage == pa.int32() else [])]
        times = pa.array([first, *wraps, last, None], storage).cast(kind)
        batch = pa.record_batch({"v": [True] * len(times), "t": times})
        transform = ldp_beam.PrivateHistogram("v", FLAG, window=beam.window.GlobalWindows(), event_time="t")
        rows, dead = run(transform.with_exception_handling(), [batch])
        assert [row.n for row in rows] == [2, 2], kind
        assert [(letter.reason, letter.count) for letter in dead] == [(NO_TIME, len(wraps) + 1)], kind
