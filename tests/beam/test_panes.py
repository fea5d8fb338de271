"""Early, on-time and late panes on the local streaming runner (`BundleBasedDirectRunner`)."""

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import TimestampedValue

import ldp_beam
from ldp_core import PrivacyPlan

from .helpers import SURE_BOOL, run

EACH = AfterWatermark(early=AfterCount(1), late=AfterCount(1))


def batch(*times):
    return pa.record_batch({"v": pa.array([True] * len(times)), "t": pa.array(times, pa.float64())})


def singles(*times):
    return [{"v": True, "t": t} for t in times]


def stream(form):
    """Window [0, 10): two records early, one more; one late; then one after the allowed lateness of 20 s."""
    source = Stream()

    def add(at, *times):
        elements = [batch(*times)] if form == "batches" else singles(*times)
        source.add_elements([TimestampedValue(element, at) for element in elements])

    source.advance_watermark_to(0)
    add(2, 1, 2)
    add(3, 3)
    source.advance_watermark_to(12)
    add(5, 5)
    source.advance_watermark_to(100)
    add(6, 6)
    return source.advance_watermark_to_infinity()


@pytest.mark.parametrize("form", ["batches", "single records"])
@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
@pytest.mark.parametrize(
    ("options", "panes"),
    [
        ({}, [("ON_TIME", 3), ("LATE", 4)]),
        ({"accumulation_mode": AccumulationMode.DISCARDING}, [("ON_TIME", 3), ("LATE", 1)]),
        ({"trigger": EACH}, [("EARLY", 2), ("EARLY", 3), ("ON_TIME", 3), ("LATE", 4)]),
        (
            {"trigger": EACH, "accumulation_mode": AccumulationMode.DISCARDING},
            [("EARLY", 2), ("EARLY", 1), ("ON_TIME", 0), ("LATE", 1)],
        ),
    ],
    ids=["default", "default discarding", "each accumulating", "each discarding"],
)
def test_panes(form, kind, options, panes):
    transform = kind("v", SURE_BOOL, window=10, event_time="t", allowed_lateness="20s", **options)
    rows = run(transform, stream(form), runner="BundleBasedDirectRunner", flags=("--streaming",))
    true = [row for row in rows if row.value == "true"]
    assert [(row.pane_timing, row.n) for row in true] == panes
    assert [row.pane_index for row in true] == list(range(len(panes)))
    assert [row.pane_is_first for row in true] == [True] + [False] * (len(panes) - 1)
    assert [round(row.count, 9) for row in true] == [n for _, n in panes]
    assert {(row.window_start.micros, row.window_end.micros) for row in rows} == {(0, 10**7)}


def test_a_late_record_in_an_early_batch_is_in_its_own_window():
    # the batch's timestamp is not late, but one of its records is older than the watermark: lateness decides
    ns = {}
    for lateness in (0, 30):
        source = Stream().advance_watermark_to(15)
        source.add_elements([TimestampedValue(batch(3, 16), 16)]).advance_watermark_to_infinity()
        transform = ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", allowed_lateness=lateness)
        rows = run(transform, source, runner="BundleBasedDirectRunner", flags=("--streaming",))
        ns[lateness] = sorted((r.window_start.micros // 10**6, r.n, r.pane_timing) for r in rows if r.value == "true")
    assert ns == {0: [(10, 1, "ON_TIME")], 30: [(0, 1, "LATE"), (10, 1, "ON_TIME")]}


def test_the_last_lot_of_a_bundle_is_not_held_back():
    source = Stream().advance_watermark_to(0).add_elements([TimestampedValue({"v": True}, 1)])
    source.advance_watermark_to(50).add_elements([TimestampedValue({"v": True}, 51)]).advance_watermark_to_infinity()
    rows = run(
        beam.WindowInto(beam.window.FixedWindows(10)) | ldp_beam.Histogram("v", SURE_BOOL),
        source,
        runner="BundleBasedDirectRunner",
        flags=("--streaming",),
    )
    assert [(r.window_start.micros // 10**6, r.n) for r in rows if r.value == "true"] == [(0, 1), (50, 1)]


def test_late_reports_survive_being_stabilised_in_windows():
    source = Stream().advance_watermark_to(0).add_elements([TimestampedValue({"v": True}, 1)])
    source.advance_watermark_to(20).add_elements([TimestampedValue({"v": True}, 2)]).advance_watermark_to_infinity()
    windows = beam.WindowInto(
        beam.window.FixedWindows(10),
        trigger=AfterWatermark(late=AfterCount(1)),
        accumulation_mode=AccumulationMode.ACCUMULATING,
        allowed_lateness=60,
    )
    rows = run(
        windows | ldp_beam.Perturb(PrivacyPlan({"v": SURE_BOOL})) | ldp_beam.Histogram("v", SURE_BOOL),
        source,
        runner="BundleBasedDirectRunner",
        flags=("--streaming",),
    )
    assert [(r.window_start.micros, r.n, r.pane_timing) for r in rows if r.value == "true"] == [
        (0, 1, "ON_TIME"),
        (0, 2, "LATE"),
    ]
