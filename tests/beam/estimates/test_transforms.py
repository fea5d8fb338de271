"""The estimating transforms in pipelines: rows per window, key and pane, and what they are made of.

All are one transform with different questions: windows, panes, keys and dead letters are tested with histograms. The
partial tallies that they start from are tested in `test_partials`.
"""

from __future__ import annotations

import math
import pickle
from functools import partial

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.transforms.trigger import (
    AfterCount,
    AfterWatermark,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindow, Sessions, SlidingWindows
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

import ldp_beam
import ldp_polars
from ldp_beam.estimates.transforms import _RowsOf
from ldp_core import (
    DistributionEstimate,
    HadamardCountMeanSketch,
    HeavyHitters,
    HistogramEstimate,
    Hybrid,
    MeanEstimate,
    MechanismMismatchError,
    OneBitMean,
    ParameterError,
    Piecewise,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    Secret,
    SquareWave,
    StochasticRounding,
)

from ...cases import each
from ..helpers import (
    SURE,
    SURE_BITS,
    SURE_BOOL,
    counters,
    debiased,
    run,
    run_with_result,
    stamped,
    table,
)
from ..runners.stream_cases import BOTH, DISC, EARLY, panes, window_options
from ..streams import LATE_AND_LATER, LOCAL, All, batch, stream, true_panes
from .driven import EVERYTHING, KEY, MECHANISMS, RR, SUPPORTS, TIME, VALUES, N, places, tallied
from .test_partials import NOISY, ODD

KINDS = [ldp_beam.Histogram, ldp_beam.PrivateHistogram]


# ---- histograms: rows


def check(rows, column, expected):
    """Rows are exactly what the formulas give for the records of each place: {place: bool[N]}."""
    found, mechanism = table(rows), MECHANISMS[column]
    p, q = mechanism.p, mechanism.q
    assert set(found) == set(expected)
    for place, records in expected.items():
        n = int(records.sum())
        counts = debiased(SUPPORTS[column][: len(records)][records].sum(axis=0), n, p, q)
        for value, count in zip(VALUES, counts, strict=True):
            row = found[place][value]
            assert row.n == n
            assert row.column_name == column
            assert math.isclose(row.count, count, rel_tol=1e-12, abs_tol=1e-9)
            assert math.isclose(row.frequency, count / n, rel_tol=1e-12, abs_tol=1e-12)
            clipped = min(max(count, 0), n)
            error = math.sqrt(clipped * p * (1 - p) + (n - clipped) * q * (1 - q)) / (p - q)
            assert math.isclose(row.standard_error, error, rel_tol=1e-9)
            assert row.low < count < row.high
            for end in (row.low, row.high):  # 1.96 standard errors of its own away (a score interval)
                variance = (end * p * (1 - p) + (n - end) * q * (1 - q)) / (p - q) ** 2
                assert math.isclose(abs(count - end), 1.959963984540054 * math.sqrt(variance), rel_tol=1e-9)
            assert (row.confidence, row.epsilon, row.fingerprint) == (0.95, 1.0, mechanism.fingerprint)
            assert row.pane_index == 0


def test_fixed_windows_by_a_key():
    for column, elements in (("rr", EVERYTHING.to_pylist()), ("bits", EVERYTHING.to_batches(max_chunksize=700))):
        rows = run(ldp_beam.Histogram(column, MECHANISMS[column], window=60, event_time="t", by=["k"]), elements)
        check(rows, column, places(60, k=KEY))
        assert {tuple(row.key) for row in rows} == {("k",)}


def test_sliding_windows():
    window = SlidingWindows(100, 40, offset=10)
    rows = run(ldp_beam.Histogram("rr", RR, window=window, event_time="t"), [EVERYTHING])
    starts = np.arange(-200, 601, 40) + 10
    inside = {(float(s), float(s + 100)): (s <= TIME) & (s + 100 > TIME) for s in starts}
    check(rows, "rr", {place: records for place, records in inside.items() if records.any()})


def test_element_times_where_no_column_has_them():
    source = stamped(zip(EVERYTHING[:300].to_pylist(), TIME[:300].tolist(), strict=True))
    rows = run(ldp_beam.Histogram("rr", RR, window="1m", by=["k"]), source)
    check(rows, "rr", places(60, 300, k=KEY))


def test_the_inputs_own_windows():
    rows, ours, theirs = EVERYTHING[:200], [], []
    for fn, batched in ((FixedWindows(60), True), (SlidingWindows(60, 30), True), (Sessions(2), False)):
        elements = rows.to_batches(max_chunksize=1) if batched else rows.to_pylist()
        stream = stamped(zip(elements, TIME.tolist()[:200], strict=True))
        theirs.append(table(run(beam.WindowInto(fn) | ldp_beam.Histogram("rr", RR, by=["k"]), stream)))
        ours.append(table(run(ldp_beam.Histogram("rr", RR, window=fn, event_time="t", by=["k"]), [rows])))
    assert theirs == ours


def test_the_global_window():
    rows = run(ldp_beam.Histogram("rr", RR, event_time="t"), [EVERYTHING, EVERYTHING])
    assert {(row.window_start, row.window_end, row.n) for row in rows} == {(MIN_TIMESTAMP, MAX_TIMESTAMP, 2 * N)}
    assert [row.value for row in rows] == VALUES


def test_intervals_are_configurable():
    rows = run(ldp_beam.Histogram("rr", RR, confidence=0.5, simultaneous=True), [EVERYTHING])
    expected = RR.estimate(RR.tally(EVERYTHING["rr"]), confidence=0.5, simultaneous=True)
    assert [row.low for row in rows] == expected.low.tolist()
    assert [row.high for row in rows] == expected.high.tolist()
    assert {row.confidence for row in rows} == {0.5}


def test_private_histogram_of_sure_mechanisms_is_the_histogram():
    elements, expected = EVERYTHING.select(["rr", "t", "k"]), places(60, k=KEY)
    truth = {place: SUPPORTS["rr"][records].sum(axis=0).tolist() for place, records in expected.items()}
    for mechanism, parts in ((SURE, elements.to_pylist()), (SURE_BITS, elements.to_batches(max_chunksize=700))):
        private = ldp_beam.PrivateHistogram("rr", mechanism, window=60, event_time="t", by=["k"])
        (out,), result = run_with_result(private, parts)
        found = table(out.elements)
        assert {place: [round(found[place][v].count, 6) for v in VALUES] for place in found} == truth
        assert counters(result) == {"records_read": N, "perturbed": N}


def test_dead_letters():
    for kind, elements in ((ldp_beam.Histogram, [NOISY]), (ldp_beam.PrivateHistogram, NOISY.to_pylist())):
        transform = kind("v", SURE, window=10, event_time="t", by=["k"]).with_exception_handling()
        (rows, letters), result = run_with_result(transform, elements)
        ns = {place: row["a"].n for place, row in table(rows.elements).items()}
        assert ns == {(0.0, 10.0, "x"): 1, (0.0, 10.0, "y"): 1, (10.0, 20.0, "x"): 1}
        assert sorted(letters.elements) == [("t", "no event time", 1), ("v", ODD[kind], 1), ("v", "null", 2)]
        expected = {"records_read": 7, "dead_lettered": 4}
        assert counters(result) == (expected if kind is ldp_beam.Histogram else {**expected, "perturbed": 3})


def test_reports_stay_marked_with_their_plan_through_the_shuffle():
    events = [pa.table({"v": ["a", "c"]})]
    perturb = ldp_beam.Perturb(PrivacyPlan({"v": SURE}))
    rows = run(perturb | ldp_beam.Histogram("v", SURE), events)
    assert [round(row.count, 9) for row in rows] == [1, 0, 1]
    with pytest.raises(MechanismMismatchError):
        run(perturb | ldp_beam.Histogram("v", RR), events)


def test_a_repeated_bundle_is_tallied_once():
    batches = [pa.record_batch({"v": ["a", "b"] * 50})] * 3
    rows = run(
        ldp_beam.PrivateHistogram("v", RR) | beam.Reshuffle(), batches, flags=("--direct_runner_bundle_repeat=2",)
    )
    assert {row.n for row in rows} == {300}


def test_single_reports_are_tallied():
    plan = PrivacyPlan({"app": SURE_BITS}, keep=["t"])
    events = [{"app": app, "t": t} for app, t in (("c", 1), ("b", 2), ("c", 70))]
    for packed in (True, False):
        histogram = ldp_beam.Histogram("app", SURE_BITS, window="1m", event_time="t")
        found = table(run(ldp_beam.Perturb(plan, packed=packed) | histogram, events))
        assert {place: [round(row.count, 9) + 0 for row in rows.values()] for place, rows in found.items()} == {
            (0, 60): [0, 1, 1],
            (60, 120): [0, 0, 1],
        }


@pytest.mark.parametrize("keys", [500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_every_key_of_very_many_has_its_own(keys):
    key = np.repeat(np.arange(keys), 1 + np.arange(keys) % 3)
    key = np.random.default_rng(0).permutation(key)
    events = pa.table({"k": key, "v": np.ones(len(key), bool), "t": np.arange(len(key)) % 3600})
    private = ldp_beam.PrivateHistogram("v", SURE_BOOL, window="1h", event_time="t", by=["k"])
    rows = run(private, events.to_batches(max_chunksize=1 << 16))
    assert len(rows) == 2 * keys
    for row in rows:
        assert row.n == 1 + int(row.key["k"]) % 3
        assert round(row.count, 6) == (row.n if row.value else 0)


# ---- panes: all but these are in `runners.stream_cases`, for all engines


def test_early_panes_of_single_records_and_of_values():
    """A trigger that counts counts lots of a bundle: how many records these have is the engine's to say."""
    histograms = [kind("v", SURE_BOOL, **window_options(BOTH, 20, DISC)) for kind in KINDS]
    for rows in run(All(histograms), stream(LATE_AND_LATER, "single records"), **LOCAL):
        assert panes(rows) == "E2 E1 O0 L1"


def test_the_last_lot_of_a_bundle_is_not_held_back():
    histogram = beam.WindowInto(FixedWindows(10)) | ldp_beam.Histogram("v", SURE_BOOL)
    rows = run(histogram, stream([0, [1], 50, [51]], "single records"), **LOCAL)
    assert [(r.window_start.micros // 10**6, r.n) for r in true_panes(rows)] == [(0, 1), (50, 1)]


def rows_of(tally, *, bounded, filled, timing):
    """Of the only pane of the global window."""
    fn = _RowsOf("v", (), SURE_BOOL, HistogramEstimate(), bounded=bounded, filled=filled)
    fn.setup()
    pane = PaneInfo(is_first=True, is_last=True, timing=timing, index=0, nonspeculative_index=0)
    return list(fn.process(((), tally), GlobalWindow(), pane))


def test_the_only_pane_of_bounded_input_is_on_time_where_the_runner_does_not_tell():
    for bounded, expected in ((True, "ON_TIME"), (False, "UNKNOWN")):
        rows = rows_of(SURE_BOOL.tally([True]), bounded=bounded, filled=False, timing=PaneInfoTiming.UNKNOWN)
        assert {row.pane_timing for row in rows} == {expected}


def test_a_window_that_nobody_opened_has_rows_only_where_it_is_filled():
    for filled, rows in ((False, 0), (True, 2)):
        empty = SURE_BOOL.empty_tally()
        assert len(rows_of(empty, bounded=False, filled=filled, timing=PaneInfoTiming.ON_TIME)) == rows


def test_triggers_that_would_lose_records_are_refused_when_built():
    """Beam's own rule: a trigger that can finish while records may still come."""
    for trigger in (AfterWatermark(), EARLY, AfterCount(1)):
        events = beam.Pipeline("FnApiRunner") | beam.Create([batch([1])])
        with pytest.raises(ValueError, match="Unsafe trigger"):
            _ = events | ldp_beam.Histogram("v", SURE_BOOL, **window_options(trigger, 20, None))


# ---- means

DOMAIN = (0.0, 10.0)
MEANS = {
    "one bit": OneBitMean(DOMAIN, epsilon=1.0),
    "piecewise, epsilon 6": Piecewise(DOMAIN, epsilon=6.0),
    "hybrid": Hybrid(DOMAIN, epsilon=1.0),
    "square wave": SquareWave(DOMAIN, epsilon=2.0, buckets=60),
    "rounding, OUE": StochasticRounding(DOMAIN, epsilon=2.0, buckets=9),
}
HYBRID = MEANS["hybrid"]
_rng = np.random.default_rng(0)
NUMBERS, SIDE = _rng.uniform(0, 10, N), _rng.choice(["x", "y"], N)
EVENTS = pa.table({"v": NUMBERS, "t": TIME, "k": SIDE, "id": np.arange(N)})


def reports_of(m):
    """What Polars makes of the numbers."""
    return pl.DataFrame({"v": NUMBERS}).select(ldp_polars.perturb("v", m))["v"].to_arrow()


def elements_of(m, columns, *, single):
    """Reports, and the elements with them."""
    reports = reports_of(m)
    events = EVENTS.set_column(0, "v", reports).select(columns)
    return reports, events.to_pylist() if single else events.to_batches(max_chunksize=1000)


def test_means_by_windows_and_keys():
    """One row for each window and key, of the core's estimate; a mean is what a mechanism for numbers is asked."""
    for name, question, single in (("hybrid", None, True), ("rounding, OUE", MeanEstimate(), False)):
        m, expected = MEANS[name], places(300, k=SIDE)
        reports, elements = elements_of(m, ["v", "t", "k", "id"], single=single)
        rows = run(ldp_beam.Estimate("v", m, question, window="5m", event_time="t", by=["k"]), elements)
        found = {(r.window_start.micros / 1e6, r.window_end.micros / 1e6, *r.key.values()): r for r in rows}
        assert len(found) == len(rows)
        assert set(found) == set(expected)
        for place, records in expected.items():
            mean, row = m.mean(m.tally(reports.filter(pa.array(records)))), found[place]
            assert (row.mean, row.standard_error) == pytest.approx((mean.mean, mean.standard_error))
            assert (row.low, row.high) == pytest.approx((mean.low, mean.high))
            assert (row.n, row.confidence, row.epsilon) == (mean.n, 0.95, m.epsilon)
            assert (row.column_name, row.fingerprint, row.pane_index) == ("v", m.fingerprint, 0)


def test_private_means():
    private = partial(ldp_beam.Estimate, "v", HYBRID, private=True, by="k")
    keyed = partial(private, key=Secret.generate(), id="id")
    for make, repeats in ((private, False), (keyed, True)):
        rows, again = run(All([make(), make()]), [EVENTS])
        assert sorted(r.key["k"] for r in rows) == ["x", "y"]
        for row in rows:
            mine = np.equal(SIDE, row.key["k"])
            assert row.n == mine.sum()
            assert abs(row.mean - NUMBERS[mine].mean()) < 6 * math.sqrt(HYBRID.variance(row.n))
        assert (sorted(r.mean for r in rows) == sorted(r.mean for r in again)) == repeats


@each("name", MEANS)
def test_tallies_of_private_means(name):
    """Fresh noise is right, keyed noise is the same again: as the pipelines above, for every mechanism."""
    m = MEANS[name]
    private = partial(ldp_beam.Estimate, "v", m, MeanEstimate(), private=True, by="k")
    for transform, repeats in ((private(), False), (private(key=Secret.generate(), id="id"), True)):
        (found, _), (again, _) = (tallied(transform, [EVENTS]) for _ in range(2))
        assert sorted(key for _, _, key in found) == ["x", "y"]
        for (_, _, key), tally in found.items():
            mine = np.equal(SIDE, key)
            assert tally.n == mine.sum()
            # half of a bucket: the middles of the square wave's buckets
            assert abs(m.mean(tally).mean - NUMBERS[mine].mean()) < 6 * math.sqrt(m.variance(tally.n)) + 10 / 60
        assert (found == again) == repeats


def test_half_of_the_noise_is_found():
    """The check of the means has power: reports with another epsilon than the estimate's."""
    m, other = MEANS["one bit"], OneBitMean(DOMAIN, epsilon=2.0)
    numbers = np.full(N, 9.0)
    (row,) = run(ldp_beam.Estimate("v", m), [pa.table({"v": other.perturb(pa.array(numbers))})])
    assert abs(row.mean - 9.0) > 6 * math.sqrt(m.variance(N))


def test_dead_letters_of_numbers():
    numbers = pa.table({"v": [1.0, None, 11.0, 2.0]})
    for m in (HYBRID, MEANS["rounding, OUE"]):
        private = ldp_beam.Estimate("v", m, private=True).with_exception_handling()
        for elements in (numbers.to_pylist(), [numbers]):
            found, letters = tallied(private, elements)
            assert [tally.n for tally in found.values()] == [2]
            assert sorted(letters) == [("v", "not in the domain", 1), ("v", "null", 1)]
    bad = pa.table({"v": pa.array([0, 255, 1], pa.uint8())})
    found, letters = tallied(ldp_beam.Estimate("v", HYBRID).with_exception_handling(), [bad])
    assert ([tally.n for tally in found.values()], [letter.count for letter in letters]) == ([2], [1])


# ---- distributions

WAVE = SquareWave(DOMAIN, epsilon=2.0, buckets=64)
DISTRIBUTIONS = [
    (WAVE, {"buckets": 5}),
    (WAVE, {"buckets": 4, "method": "em", "confidence": 0.8}),
    (MEANS["rounding, OUE"], {}),
]


def same(rows, expected) -> None:
    """Rows of one pane are a distribution's buckets, in order."""
    theirs = {
        "bucket_start": expected.edges[:-1],
        "bucket_end": expected.edges[1:],
        "frequency": expected.frequencies,
        "standard_error": expected.standard_errors,
        "low": expected.low,
        "high": expected.high,
    }
    for name, values in theirs.items():
        np.testing.assert_allclose([getattr(row, name) for row in rows], values, rtol=1e-9, atol=1e-12)
    assert {(row.n, row.confidence) for row in rows} == {(expected.n, expected.confidence)}


def test_distributions_by_windows_and_keys():
    for single, (m, how) in zip((True, False, False), DISTRIBUTIONS, strict=True):
        reports, elements = elements_of(m, ["v", "t", "k"], single=single)
        question = DistributionEstimate(**how)
        rows = run(ldp_beam.Estimate("v", m, question, window="5m", event_time="t", by=["k"]), elements)
        found = {}
        for row in rows:
            found.setdefault((row.window_start.micros / 1e6, row.window_end.micros / 1e6, row.key["k"]), []).append(row)
        expected = places(300, k=SIDE)
        assert set(found) == set(expected)
        for place, records in expected.items():
            same(found[place], m.distribution(m.tally(reports.filter(pa.array(records))), **how))
            assert {(r.column_name, r.fingerprint, r.epsilon, r.pane_index) for r in found[place]} == {
                ("v", m.fingerprint, 2.0, 0)
            }


def test_distributions_in_one_step_with_keyed_noise():
    secret = Secret.generate()
    for m, how in DISTRIBUTIONS:
        private = partial(ldp_beam.Estimate, "v", m, DistributionEstimate(**how), private=True)
        rows, fresh = run(All([private(key=secret, id="id"), private()]), [EVENTS[1000:], EVENTS[:1000]])
        assert rows != fresh
        reports = pl.from_arrow(EVENTS).select(ldp_polars.perturb("v", m, key=secret, id="id"))["v"].to_arrow()
        same(rows, m.distribution(m.tally(reports), **how))


# ---- any question


def test_what_stands_for_a_question():
    how = HistogramEstimate(0.9, consistency="norm-sub")
    options = {"confidence": 0.9, "consistency": "norm-sub"}
    events = [{"v": value, "k": 1} for value in "abb"]
    expected = run(ldp_beam.Histogram("v", SURE, **options), events)
    for asked in (how, how.to_dict(), "histogram:consistency=norm-sub,confidence=0.9"):
        assert run(ldp_beam.Estimate("v", SURE, asked), events) == expected
    keyed = {"key": Secret(bytes(32)), "id": "k"}
    own = run(ldp_beam.Estimate("v", SURE, how, private=True, **keyed), events)
    assert own == run(ldp_beam.PrivateHistogram("v", SURE, **keyed, **options), events)
    for bad in (
        lambda: ldp_beam.Estimate("v", SURE, {"confidence": 0.9}),
        lambda: ldp_beam.Estimate("v", SURE, MeanEstimate()),
        lambda: ldp_beam.Estimate("v", SURE, "fortune"),
        lambda: ldp_beam.Estimate("v", SURE, how, **keyed),  # reports have their noise
    ):
        with pytest.raises(ParameterError):
            bad()


def test_rows_begin_and_end_alike():
    for kind in (ldp_beam.MeanRow, ldp_beam.DistributionRow, ldp_beam.IntegerHistogramRow):
        assert pickle.loads(pickle.dumps(kind)) is kind
        assert kind._fields[:8] == ldp_beam.HistogramRow._fields[:8]
        assert kind._fields[-4:] == ldp_beam.HistogramRow._fields[-4:]
        assert isinstance(beam.coders.registry.get_coder(kind), beam.coders.RowCoder)


# ---- what is refused at construction

BAD_OPTIONS = [
    {"confidence": 1.0},
    {"confidence": None},
    {"by": ["v"]},
    {"by": ["k", "k"]},
    {"by": [3]},
    {"event_time": "v", "window": 5},
    {"event_time": 3, "window": 5},
    {"window": 0},
    {"window": -1},
    {"allowed_lateness": -1, "window": 5},
    {"allowed_lateness": "soon", "window": 5},
    {"allowed_lateness": 5},
    {"accumulation_mode": DISC},
    {"accumulation_mode": "x", "window": 5},
    {"trigger": "x", "window": 5},
]


@each("kind", [*KINDS, ldp_beam.Estimate])
def test_bad_options(kind):
    for bad in BAD_OPTIONS:
        with pytest.raises(ParameterError):
            kind("v", SURE, **bad)
    with pytest.raises(ParameterError):
        kind("v", "rr")
    with pytest.raises((TypeError, ParameterError)):
        kind("v", SURE, 5)  # options are named


def test_a_histogram_of_what_has_none_says_what_to_do_instead():
    says = r"a histogram needs a frequency oracle, .*HeavyHitters .*sketch\.over"
    for mechanism in (
        HYBRID,
        HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32),
        Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75),
        HeavyHitters(Prefixes("abc", 2), epsilon=2.0, rows=4, width=64),
    ):
        with pytest.raises(ParameterError, match=says):
            ldp_beam.Histogram("v", mechanism)


def test_questions_that_a_mechanism_cannot_answer():
    flag = RandomizedResponse(epsilon=1.0)
    for bad in (flag, "hybrid", None):
        with pytest.raises(ParameterError, match="a mean needs a mechanism for numbers"):
            ldp_beam.Estimate("v", bad, "mean")
    for bad in (flag, Hybrid((0, 1), epsilon=1.0), "square_wave", None):
        with pytest.raises(ParameterError, match="SquareWave or StochasticRounding"):
            ldp_beam.Estimate("v", bad, "distribution", private=True)
    for options in ("confidence=1", "buckets=65", "method=mle"):
        with pytest.raises(ParameterError):
            ldp_beam.Estimate("v", WAVE, f"distribution:{options}")
    with pytest.raises(ParameterError, match="buckets is no option of the distribution of StochasticRounding"):
        ldp_beam.Estimate("v", MEANS["rounding, OUE"], "distribution:buckets=4")


def test_what_would_perturb_twice_is_refused():
    sliding = beam.Pipeline("FnApiRunner") | beam.Create([{"v": 1.0}]) | beam.WindowInto(SlidingWindows(10, 5))
    with pytest.raises(ParameterError, match="sliding"):
        _ = sliding | ldp_beam.Estimate("v", HYBRID, private=True)
    with pytest.raises(ParameterError):
        ldp_beam.Estimate("v", HYBRID, private=True, key=Secret.generate())
