"""Deduplicate: one of each record, however often and in whatever form it is delivered."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import GlobalWindows, SlidingWindows
from apache_beam.transforms.window import TimestampedValue as At
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_beam
from ldp_beam.persons.transforms import BoundContributions, Deduplicate
from ldp_core import ParameterError, PrivacyPlan

from .helpers import SURE, counters, run, run_with_result

RECORDS = [{"id": f"record {i}", "time": 60.0 * i, "n": i} for i in range(120)]


def as_batch(records):
    return pa.RecordBatch.from_pylist(records)


def numbers(elements):
    rows = (r for e in elements for r in (e.to_pylist() if isinstance(e, pa.RecordBatch) else [e]))
    return sorted(r["n"] for r in rows)


FORMS = {"batches": lambda rs: [as_batch(rs[i : i + 50]) for i in range(0, len(rs), 50)], "dicts": list}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("within", ["1h", 1.0, GlobalWindows()])
def test_delivered_again(form, within):
    delivered = RECORDS + RECORDS[::-1] + RECORDS[::7]
    once = Deduplicate("id", within=within, event_time="time")
    out, result = run_with_result(once, FORMS[form](delivered))
    assert numbers(out[0].elements) == list(range(120))
    assert counters(result)["duplicates_dropped"] == len(delivered) - 120
    good, bad = run(once.with_exception_handling(), FORMS[form](delivered))
    assert numbers(good) == list(range(120))
    assert {d[:2] for d in bad} == {("id", "duplicate")}
    assert sum(d.count for d in bad) == len(delivered) - 120


@settings(max_examples=20)
@given(picks=st.lists(st.integers(0, 119), min_size=1, max_size=60), size=st.integers(1, 60))
def test_whatever_is_delivered_how_often_and_in_what_batches(picks, size):
    delivered = [RECORDS[i] for i in picks]
    elements = [as_batch(delivered[i : i + size]) for i in range(0, len(delivered), size)]
    for reshuffle in (True, False):
        source = beam.Create(elements, reshuffle=reshuffle)
        assert numbers(run(Deduplicate("id", within="1h", event_time="time"), source)) == sorted(set(picks))


def test_an_id_means_another_record_in_another_window():
    again = [{**r, "time": r["time"] + 7200, "n": r["n"] + 1000} for r in RECORDS[:10]]
    out = run(Deduplicate("id", within="1h", event_time="time"), [*RECORDS[:10], *again])
    assert numbers(out) == [*range(10), *range(1000, 1010)]
    for_ever = run(Deduplicate("id", within=GlobalWindows(), event_time="time"), [*RECORDS[:10], *again])
    assert numbers(for_ever) == list(range(10))


@pytest.mark.parametrize("form", ["batches", "dicts"])
def test_a_stream_that_delivers_late_and_again(form):
    source = Stream().advance_watermark_to(0)
    for start in range(0, 120, 20):
        for part in (RECORDS[start : start + 20], RECORDS[max(start - 30, 0) : start + 10]):
            source.add_elements([At(e, 60.0 * start) for e in FORMS[form](part)])
        source.advance_watermark_to(60.0 * (start + 20))
    source.add_elements([At(e, 60.0 * 120) for e in FORMS[form](RECORDS)]).advance_watermark_to_infinity()
    once = Deduplicate("id", within="10m", event_time="time", allowed_lateness="1d")
    out = run(once, source, runner="BundleBasedDirectRunner", flags=("--streaming",))
    assert numbers(out) == list(range(120))


def test_a_repeated_bundle_is_no_duplicate():
    once = Deduplicate("id", within="1h", event_time="time") | beam.Reshuffle()
    out = run(once, FORMS["batches"](RECORDS + RECORDS), flags=("--direct_runner_bundle_repeat=2",))
    assert set(numbers(out)) == set(range(120))
    assert len(numbers(out)) == 120 * 3, "three attempts, each with all records"


def test_null_ids_are_dead_letters():
    batch = pa.record_batch({"id": pa.array(["a", None, "a"]), "n": [0, 1, 2]})
    good, bad = run(Deduplicate("id", within=GlobalWindows()).with_exception_handling(), [batch])
    assert numbers(good) == [0]
    assert sorted(bad) == [("id", "duplicate", 1), ("id", "null", 1)]


def test_before_a_budget_and_a_histogram():
    plan = PrivacyPlan({"os": SURE})
    events = [{"id": i, "user": i % 4, "os": "abca"[i % 4], "time": i} for i in range(40)]
    job = (
        Deduplicate("id", within="1h", event_time="time")
        | BoundContributions("user", 3, window="1h", event_time="time")
        | ldp_beam.Perturb(plan)
        | ldp_beam.Histogram("os", SURE)
    )
    rows = run(job, [as_batch(events), as_batch(events), *events])
    assert {row.n for row in rows} == {12}
    assert {row.value: round(row.count) for row in rows} == {"a": 6, "b": 3, "c": 3}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Deduplicate("id", within=SlidingWindows(10, 5)),
        lambda: Deduplicate("id", within="soon"),
        lambda: Deduplicate(None, within=10),
        lambda: Deduplicate("id", within=None, event_time="time"),
    ],
)
def test_bad_parameters_at_construction(make):
    with pytest.raises(ParameterError):
        make()
