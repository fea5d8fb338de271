"""Windows assigned to whole batches are the windows that Beam assigns to single records."""

import re
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from itertools import product

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms.trigger import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    OrFinally,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp

import ldp_beam
from ldp_beam import AfterTallies
from ldp_beam.elements.batches import Batch, Record, RowBatch, times_of
from ldp_beam.time.times import EventTime
from ldp_beam.time.windows import group, slots, window_fn
from ldp_core import LdpWarning, ParameterError, RandomizedResponse, Secret
from ldp_core.windows import seconds

from ..helpers import SURE, SURE_BOOL, counters, on_my_word, run, run_with_result
from ..streams import LATE_AND_LATER, LOCAL, counted, late_of, ns, stream

SECOND = 10**6
WINDOWS = [
    FixedWindows(10),
    FixedWindows(7, offset=3),
    FixedWindows(Duration(micros=1000)),
    SlidingWindows(10, 5),
    SlidingWindows(10, 4, offset=1),
    SlidingWindows(7, 3, offset=2),
    SlidingWindows(3, 10, offset=4),  # with holes: some records are in no window
]


def windows_of(fn, micros):
    return {(w.start.micros, w.end.micros) for w in fn.assign(WindowFn.AssignContext(Timestamp(micros=int(micros))))}


def test_a_slots_time_is_in_the_windows_of_its_records():
    for middle in (0, 1_700_000_000 * SECOND):
        for fn in WINDOWS:
            rng = np.random.default_rng(7)
            near = rng.integers(-50 * SECOND, 50 * SECOND, 200)
            edges = np.arange(-30, 30) * SECOND
            micros = middle + np.concatenate([near, edges, edges - 1, edges + 1])
            slotted = slots(fn, micros, np.zeros_like(micros))
            assert len(slotted.empty) == 0
            for record, time in zip(micros, slotted.timestamp(slotted.number), strict=True):
                assert windows_of(fn, record) == windows_of(fn, time)


def test_groups_are_the_distinct_pairs():
    for spread, n_keys in ((1, 1), (1, 5), (50, 1), (50, 3), (10**9, 1), (10**9, 4)):
        rng = np.random.default_rng(3)
        slot = rng.integers(-spread, spread, 500)
        keys = rng.integers(0, n_keys, 500)
        groups = group(slot, keys, n_keys)
        pairs = list(zip(slot.tolist(), keys.tolist(), strict=True))
        named = list(zip(groups.slot.tolist(), groups.key.tolist(), strict=True))
        assert [named[g] for g in groups.of_record] == pairs
        assert sorted(named) == sorted(set(pairs))
        assert len(group(slot[:0], keys[:0], n_keys).key) == 0


def test_few_partials_whatever_the_number_of_records():
    rng = np.random.default_rng(5)
    micros = rng.integers(0, 3600 * SECOND, 100_000)
    zeros = np.zeros_like(micros)
    slotted = slots(Sessions(60), micros, zeros)
    # buckets of half a gap: 120 of them, two anchors each
    assert len(group(slotted.number, zeros, 1).key) + len(slotted.empty) <= 2 * 121


def test_weeks_begin_on_mondays_and_windows_later_where_it_is_said():
    assert seconds("2w") == 14 * 86400
    week = 7 * 86400
    for text, size, offset in [
        ("1w", week, 4 * 86400),
        ("2w", 2 * week, 4 * 86400),
        ("7d", week, 0),
        ("7d+4d", week, 4 * 86400),
        ("1w+6d", week, 3 * 86400),
        ("1d + 6h", 86400, 6 * 3600),
    ]:
        assert window_fn(text) == FixedWindows(size, offset=offset)
    for wrong in ("7d+", "7d+x", "+1d", "7d+1d+1d"):
        with pytest.raises(ParameterError, match="window"):
            window_fn(wrong)


def test_what_is_no_window_is_refused_at_construction():
    for window in (
        0,
        -1,
        "0s",
        "-5m",
        "5",
        "5 parsecs",
        "",
        float("nan"),
        float("inf"),
        True,
        [5],
        0.0001,
        FixedWindows,
    ):
        with pytest.raises(ParameterError, match="window"):
            ldp_beam.Histogram("v", SURE, window=window)


def test_windows_of_another_kind_are_refused():
    class Odd(FixedWindows):
        pass

    with pytest.raises(ParameterError, match="Odd"):
        ldp_beam.Histogram("v", SURE, window=Odd(5))
    assert Counter(type(w) for w in map(window_fn, [1, "1s"])) == {FixedWindows: 2}


# ---- a trigger that counts is told partial tallies: who means records is refused, and told what to do


LATER = AfterProcessingTime(60)
AROUND = [
    Repeatedly,
    lambda count: AfterWatermark(early=count),
    lambda count: AfterWatermark(late=count),
    lambda count: Repeatedly(AfterAny(LATER, count)),
    lambda count: Repeatedly(AfterAll(count, LATER)),
    lambda count: Repeatedly(AfterEach(LATER, count)),
    lambda count: OrFinally(Repeatedly(LATER), count),
]


def test_counting_records_is_refused_with_the_reason():
    for kind in (ldp_beam.Histogram, ldp_beam.PrivateHistogram):
        for around in AROUND:
            with pytest.raises(
                ParameterError, match=r"AfterCount\(1000\) would not count records.*AfterTallies\(1000\)"
            ):
                kind("v", SURE_BOOL, window=10, trigger=around(AfterCount(1000)))
            windows = beam.WindowInto(FixedWindows(10), trigger=around(AfterCount(1000)), accumulation_mode=1)
            with pytest.raises(ParameterError, match=r"AfterTallies\(1000\)"):
                _ = beam.Pipeline("FnApiRunner") | beam.Create([{"v": True}]) | windows | kind("v", SURE_BOOL)
            for count in (AfterCount(1), AfterTallies(1000)):
                kind("v", SURE_BOOL, window=10, trigger=around(count))


def test_a_trigger_that_drops_late_records_is_refused_and_the_form_that_is_told_works():
    """Our own words recommended it, and it was Beam's "Unsafe trigger", whose remedy drops them uncounted."""
    options = {"window": 10, "event_time": "t", "allowed_lateness": 30}
    windows = partial(beam.WindowInto, FixedWindows(10), accumulation_mode=1, allowed_lateness=30)
    for early in (AfterWatermark(early=LATER), AfterWatermark()):
        with pytest.raises(ParameterError, match=r"needs late=.*add late=AfterCount\(1\)"):
            ldp_beam.Histogram("v", SURE_BOOL, **options, trigger=early)
        with pytest.raises(ParameterError, match="needs late="):
            _ = (
                beam.Pipeline()
                | beam.Create([{"v": True}])
                | windows(trigger=early)
                | ldp_beam.Histogram("v", SURE_BOOL)
            )
    with pytest.raises(ParameterError) as told:
        ldp_beam.Histogram("v", SURE_BOOL, **options, trigger=AfterCount(1000))
    [form] = re.findall(r"take (AfterWatermark\(.*\));", str(told.value))
    histogram = ldp_beam.Histogram("v", SURE_BOOL, **options, trigger=eval(form))
    rows, letters = run(on_my_word(histogram.with_exception_handling()), stream(LATE_AND_LATER), **LOCAL)
    assert counted(rows) == {0: 4}
    assert late_of(letters) == 1


def test_in_batch_all_is_there_before_a_second_is_over():
    """Local runners have no clock then: an early pane, as Beam YAML asks for it, was an AttributeError of Beam's."""
    histogram, windows = partial(ldp_beam.PrivateHistogram, "v", SURE_BOOL), FixedWindows(10)
    records = [{"v": True, "t": float(second)} for second in range(20)]
    at_its_time = beam.Map(lambda record: beam.window.TimestampedValue(record, record["t"]))
    early, always = AfterWatermark(early=LATER), Repeatedly(AfterAny(LATER, AfterCount(1)))
    for transform in (
        histogram(window=windows, event_time="t", trigger=early),
        histogram(window=windows, event_time="t", trigger=always, accumulation_mode="discarding"),
        at_its_time | beam.WindowInto(windows, trigger=early, accumulation_mode=1) | histogram(),
    ):
        for runner in ("FnApiRunner", "BundleBasedDirectRunner"):
            assert ns(run(transform, records, runner=runner)) == {(0, 10): 10, (10, 20): 10}
    sliding = beam.WindowInto(SlidingWindows(10, 5), trigger=early, accumulation_mode=1)
    found = ns(run(at_its_time | sliding | ldp_beam.Histogram("v", SURE_BOOL), records))
    assert found == {(-5, 5): 5, (0, 10): 10, (5, 15): 10, (10, 20): 10, (15, 25): 5}


def test_runners_know_it_as_a_count():
    trigger = Repeatedly(AfterTallies(3))
    known = TriggerFn.from_runner_api(trigger.to_runner_api(PipelineContext()), PipelineContext())
    assert known == Repeatedly(AfterCount(3))
    assert beam.WindowInto(beam.window.FixedWindows(1), trigger=trigger, accumulation_mode=1)


def test_a_count_is_a_number():
    for count in (0, True, 1.5, "2"):
        with pytest.raises(ParameterError, match="count must be"):
            AfterTallies(count)


# ---- units of numbers, times of unlikely years, and columns that are not there


NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = int(NEW_YEAR.timestamp())
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
HALF = 500_000


def test_numbers_in_each_unit():
    for unit, per_second in UNITS.items():
        whole, part = SECONDS * per_second, per_second // 2  # half a second later
        columns = [
            (pa.array([whole, whole + part]), [0, HALF if part else 0]),
            (pa.array([float(whole), whole + per_second / 2]), [0, HALF]),
            (pa.array([whole], pa.uint64()), [0]),
            (pa.array([NEW_YEAR], pa.timestamp("ms", "UTC")), [0]),  # has its own unit
            (pa.array([NEW_YEAR.date()]), [0]),
        ]
        for column, after in columns:
            values = column.to_pylist()
            for ones in (values, [np.float64(v) if isinstance(v, float) else v for v in values]):
                singles = RowBatch([Record({"t": value}, beam.utils.timestamp.Timestamp(0), None) for value in ones])
                for part_of in (Batch(pa.table({"t": column}), beam.utils.timestamp.Timestamp(0), None), singles):
                    assert (times_of(part_of, EventTime("t", unit)) - SECONDS * 10**6).tolist() == after


def test_numpys_times_are_times_of_single_records_too():
    """They had no event time; keys had them."""
    before = np.datetime64("1969-12-31T23:59:59.999999999")
    for unit in UNITS:
        for time in (np.datetime64("2026-01-01", "D"), *(np.datetime64("2026-01-01", one) for one in UNITS), before):
            [micros] = times_of(
                RowBatch([Record({"t": time}, beam.utils.timestamp.Timestamp(0), None)]), EventTime("t", unit)
            )
            assert micros == (-1 if time is before else SECONDS * 10**6)
    records = [{"v": True, "t": before}, {"v": True, "t": np.datetime64("NaT")}]
    rows, dead = run(ldp_beam.Histogram("v", SURE_BOOL, window="1h", event_time="t").with_exception_handling(), records)
    assert {(row.window_start.micros, row.n) for row in rows} == {(-3600 * 10**6, 1)}
    assert dead == [("t", "no event time", 1)]


def starts(transform, elements):
    (rows, *_), result = run_with_result(transform, elements)
    return sorted({row.window_start.micros // 10**6 for row in rows.elements}), counters_with_odd(result)


def counters_with_odd(result):
    found = result.metrics().query(beam.metrics.MetricsFilter().with_name("odd_times"))["counters"]
    return {**counters(result), "odd_times": sum(c.committed for c in found)}


@pytest.mark.parametrize(("kind", "single"), [(ldp_beam.Histogram, True), (ldp_beam.PrivateHistogram, False)])
def test_milliseconds_as_seconds_are_said(kind, single, caplog):
    records = [{"v": True, "t": SECONDS * 1000 + i} for i in range(5)]
    elements = records if single else [pa.RecordBatch.from_pylist(records)]
    found, numbers = starts(kind("v", SURE_BOOL, window="1h", event_time="t", time_unit="ms"), elements)
    assert (found, numbers["odd_times"], caplog.messages) == ([SECONDS], 0, [])
    found, numbers = starts(kind("v", SURE_BOOL, window="1h", event_time="t"), elements)
    assert (len(found), numbers["odd_times"]) == (1, 5)
    [message] = [m for m in caplog.messages if "before 1990" in m]
    assert "time_unit='s'" in message
    assert str(SECONDS) not in message  # no value


def test_windows_that_would_never_end_are_refused():
    for window, count in ((SlidingWindows(3600, 0.001), "3,600,000"), (SlidingWindows(20_001, 1), "20,001")):
        with pytest.raises(ParameterError, match=f"in {count} sliding windows, more than 20,000"):
            ldp_beam.Histogram("v", SURE_BOOL, window=window, event_time="t")
    ldp_beam.Histogram("v", SURE_BOOL, window=SlidingWindows(20_000, 1), event_time="t", fill=(0, 20_000))


def test_sliding_windows_with_holes_are_told_of():
    """Size and period the wrong way round: of 1,200 records read 200 counted, and no metric said so."""
    with pytest.warns(LdpWarning, match="between these sliding windows count in none"):
        ldp_beam.Histogram("v", SURE_BOOL, window=SlidingWindows(600, 3600), event_time="t")
    ldp_beam.Histogram("v", SURE_BOOL, window=SlidingWindows(600, 600), event_time="t")


def test_a_stream_without_windows_is_refused_with_the_remedy():
    records = beam.Pipeline() | stream([1.0])
    for transform in (ldp_beam.PrivateHistogram, ldp_beam.Histogram):
        with pytest.raises(ParameterError, match="stop_at=, is counted in windows: pass window=, as '1h'"):
            records | transform.__name__ >> transform("v", SURE_BOOL)
    _ = records | "In hours" >> ldp_beam.Histogram("v", SURE_BOOL, window="1h")


def test_single_records_without_the_column_to_group_by_are_refused():
    letters = [ldp_beam.DeadLetter("v", "null", 1)]  # a NamedTuple, whose method is no key
    with pytest.raises(Exception, match=r"no columns \['index'\]"):
        run(ldp_beam.Histogram("reason", RandomizedResponse(["null", "late"], epsilon=1.0), by="index"), letters)
    whole = [{"v": True, "c": None}, {"v": True, "c": "fr"}]
    for records, lacking in (([{"v": True}] * 3, 3), ([*whole, {"v": True}], 1)):
        histogram = ldp_beam.Histogram("v", SURE_BOOL, by="c")
        with pytest.raises(Exception, match=f"no column 'c' in {lacking} of 3 records"):
            run(histogram, records)
        rows, dead = run(histogram.with_exception_handling(), records)
        assert dead == [("c", "no such column", lacking)]
        assert {row.key["c"] for row in rows} == (set() if lacking == 3 else {"null", "fr"})


@pytest.mark.parametrize("window", ["1m", "1h", "1w", SlidingWindows(60, 30), Sessions(60)])
def test_a_window_without_times_is_refused(window):
    """Beam's elements without a time are at the beginning of time: before it no window can begin."""
    histogram = ldp_beam.PrivateHistogram("v", SURE_BOOL, window=window)
    with pytest.raises(Exception, match=r"1 of 1 records have no event time .*event_time="):
        run(histogram, [{"v": True}])
    assert run(histogram.with_exception_handling(), [{"v": True}]) == ([], [("", "no event time", 1)])


class ByFlag(NonMergingWindowFn):
    """Windows that need no time."""

    def assign(self, context):
        return [IntervalWindow(int(context.element["v"]), 10)]

    def get_window_coder(self):
        return IntervalWindowCoder()


def test_own_windows_without_times_are_refused():
    """They had an answer for the window at the beginning of time."""
    records, batch = [{"v": True, "u": 1}] * 2, pa.record_batch({"v": [True] * 2, "u": [1, 1]})
    steps = [ldp_beam.PrivateHistogram("v", SURE_BOOL), ldp_beam.BoundContributions("u", 1)]
    for step, elements in product(steps, (records, [batch])):
        windows = beam.WindowInto(FixedWindows(60))
        with pytest.raises(Exception, match=r"2 of 2 records have no event time .*pass window=.*event_time="):
            run(windows | step, elements)
        assert run(windows | step.with_exception_handling(), elements) == ([], [("", "no event time", 2)])
    for other, elements in ((ByFlag(), records), (GlobalWindows(), [batch])):
        assert {row.n for row in run(beam.WindowInto(other) | steps[0], elements)} == {2}
        assert len(run(beam.WindowInto(other) | steps[1], elements)) == 1


@pytest.mark.slow
def test_times_at_both_ends_of_beams_are_dead_letters():
    times = [MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, SECONDS * 10**6]
    for batched, window in product((False, True), (60, "30d", SlidingWindows(60, 30), Sessions(60))):
        records = [{"v": True, "t": time} for time in times]
        histogram = ldp_beam.Histogram("v", SURE_BOOL, window=window, event_time="t", time_unit="us")
        elements = [pa.RecordBatch.from_pylist(records)] if batched else records
        rows, dead = run(on_my_word(histogram.with_exception_handling()), elements)
        assert ({row.n for row in rows}, dead) == ({1}, [("t", "no event time", 2)])


def test_limits_know_units():
    limit = ldp_beam.BoundContributions("u", 1, window="1d", event_time="t", time_unit="ms")
    records = [{"u": 1, "v": True, "t": 1000 * (SECONDS + 3600 * hour)} for hour in range(30)]
    assert len(run(limit, records)) == 2  # as seconds, each hour would be a day of its own


def test_other_units_are_refused():
    for unit in ("m", None, 1, "S"):
        with pytest.raises(ParameterError, match="time_unit must be one of 's', 'ms', 'us', 'ns'"):
            ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", time_unit=unit)


# ---- columns that are not there


def test_a_missing_column_is_called_missing():
    for make, transform, column in (
        (dict, ldp_beam.Histogram("w", SURE_BOOL), "w"),
        (dict, ldp_beam.PrivateHistogram("v", SURE_BOOL, window="1h", event_time="time"), "time"),
        (
            dict,
            ldp_beam.PrivateHistogram("v", SURE_BOOL, key=partial(Secret.from_seed, 1), id="user", repeats=1),
            "user",
        ),
        (dict, ldp_beam.BoundContributions("user", 1), "user"),  # (the type of beam.Row says it before)
    ):
        records = [make(v=True, t=SECONDS) for _ in range(3)]
        with pytest.raises(Exception, match=f"there is no column '{column}' in any of 3 records"):
            run(transform, records)
        assert run(transform.with_exception_handling(), records)[1] == [(column, "no such column", 3)]


def test_a_record_without_the_column_among_others_has_no_such_column():
    _, letters = run(ldp_beam.Histogram("v", SURE_BOOL).with_exception_handling(), [{"v": True}, {"v": None}, {}])
    assert sorted(letters) == [("v", "no such column", 1), ("v", "null", 1)]
