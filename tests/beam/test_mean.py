"""Mean and PrivateMean against the core's means of the same reports; windows, keys, dead letters."""

import math

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.transforms.window import SlidingWindows

import ldp_beam
import ldp_polars
from ldp_beam import Mean, MeanRow, PrivateMean
from ldp_core import ParameterError, PrivacyPlan, RandomizedResponse, Secret
from ldp_core.mechanisms.numbers.hybrid import Hybrid
from ldp_core.mechanisms.numbers.one_bit_mean import OneBitMean
from ldp_core.mechanisms.numbers.piecewise import Piecewise
from ldp_core.mechanisms.numbers.square_wave import SquareWave
from ldp_core.mechanisms.numbers.stochastic_rounding import StochasticRounding

from .helpers import run

DOMAIN = (0.0, 10.0)
MECHANISMS = {
    "one bit": OneBitMean(DOMAIN, epsilon=1.0),
    "piecewise, epsilon 6": Piecewise(DOMAIN, epsilon=6.0),
    "hybrid": Hybrid(DOMAIN, epsilon=1.0),
    "square wave": SquareWave(DOMAIN, epsilon=2.0, buckets=60),
    "rounding, OUE": StochasticRounding(DOMAIN, epsilon=2.0, buckets=9),
}
N = 3000
RNG = np.random.default_rng(0)
NUMBERS, TIME, KEY = RNG.uniform(0, 10, N), RNG.integers(0, 600, N), RNG.choice(["x", "y"], N)
each = pytest.mark.parametrize("name", MECHANISMS)


def check(rows, m, reports, places) -> None:
    """One row for each place, {(start, end, key text): bool[N]}, of the core's estimate."""
    found = {(r.window_start.micros / 1e6, r.window_end.micros / 1e6, *r.key.values()): r for r in rows}
    assert len(found) == len(rows)
    assert set(found) == set(places)
    for place, records in places.items():
        expected, row = m.mean(m.tally(reports.filter(pa.array(records)))), found[place]
        assert (row.mean, row.standard_error) == pytest.approx((expected.mean, expected.standard_error))
        assert (row.low, row.high) == pytest.approx((expected.low, expected.high))
        assert (row.n, row.confidence, row.epsilon) == (expected.n, 0.95, m.epsilon)
        assert (row.column, row.fingerprint, row.pane_index) == ("v", m.fingerprint, 0)


@each
@pytest.mark.parametrize("form", ["batches", "records"])
def test_windows_and_keys(name, form):
    m = MECHANISMS[name]
    reports = pl.DataFrame({"v": NUMBERS}).select(ldp_polars.perturb("v", m))["v"].to_arrow()
    table = pa.table({"v": reports, "t": TIME, "k": KEY})
    elements = table.to_batches(max_chunksize=1000) if form == "batches" else table.to_pylist()
    rows = run(Mean("v", m, window="5m", event_time="t", by=["k"]), elements)
    places = {
        (float(s), float(s + 300), k): np.equal(TIME // 300 * 300, s) & np.equal(KEY, k) for s in (0, 300) for k in "xy"
    }
    check(rows, m, reports, places)


@each
def test_perturbed_by_beam_and_averaged_by_polars(name):
    m = MECHANISMS[name]
    plan = PrivacyPlan({"v": m}, keep=["k"])
    batches = pa.table({"v": NUMBERS, "k": KEY}).to_batches()
    [reports] = run(ldp_beam.Perturb(plan), batches)
    found = pl.from_arrow(reports).select(pl.col("v").ldp.mean(m)).unnest("v")
    expected = m.mean(m.tally(reports["v"]))
    assert found["mean"].item() == pytest.approx(expected.mean)
    assert abs(expected.mean - NUMBERS.mean()) < 6 * np.sqrt(m.variance(N)) + 10 / 60
    records = run(ldp_beam.Perturb(plan), [{"v": 3, "k": "x"}, {"v": 4.5, "k": "y"}])
    (row,) = run(Mean("v", m), records)
    assert row.n == 2


@each
@pytest.mark.parametrize("keyed", [False, True])
def test_private_mean(name, keyed):
    m = MECHANISMS[name]
    table = pa.table({"v": NUMBERS, "k": KEY, "id": np.arange(N)})
    options = {"key": Secret.generate(), "id": "id"} if keyed else {}
    rows = run(PrivateMean("v", m, by="k", **options), [table])
    again = run(PrivateMean("v", m, by="k", **options), [table])
    assert sorted(r.key["k"] for r in rows) == ["x", "y"]
    for row in rows:
        mine = np.equal(KEY, row.key["k"])
        assert row.n == mine.sum()
        assert abs(row.mean - NUMBERS[mine].mean()) < 6 * math.sqrt(m.variance(row.n)) + 10 / 60
    assert (sorted(r.mean for r in rows) == sorted(r.mean for r in again)) == keyed


def test_half_of_the_noise_is_found():
    """The check of the means has power: reports with another epsilon than the estimate's."""
    m, other = OneBitMean(DOMAIN, epsilon=1.0), OneBitMean(DOMAIN, epsilon=2.0)
    numbers = np.full(N, 9.0)
    (row,) = run(Mean("v", m), [pa.table({"v": other.perturb(pa.array(numbers))})])
    assert abs(row.mean - 9.0) > 6 * math.sqrt(m.variance(N))


def test_empty_windows_are_filled():
    m = MECHANISMS["hybrid"]
    batch = pa.table({"v": m.perturb(pa.array([1.0, 2.0])), "t": [5, 6]})
    rows = run(Mean("v", m, window=10, event_time="t", fill=(0, 30)), [batch])
    assert sorted((r.window_start.micros // 10**6, r.n, math.isnan(r.mean)) for r in rows) == [
        (0, 2, False),
        (10, 0, True),
        (20, 0, True),
    ]


@pytest.mark.parametrize("form", ["batch", "records"])
def test_dead_letters(form):
    m = MECHANISMS["hybrid"]
    numbers = [1.0, None, 11.0, 2.0]
    table = pa.table({"v": numbers})
    transform = PrivateMean("v", m).with_exception_handling()
    rows, letters = run(transform, [table] if form == "batch" else table.to_pylist())
    assert [r.n for r in rows] == [2]
    assert sorted((d.column, d.reason, d.count) for d in letters) == [("v", "not in the domain", 1), ("v", "null", 1)]
    bad = pa.table({"v": pa.array([0, 255, 1], pa.uint8())})
    rows, letters = run(Mean("v", m).with_exception_handling(), [bad])
    assert ([r.n for r in rows], [d.count for d in letters]) == ([2], [1])


def test_rows_have_a_schema():
    row = MeanRow._make([None] * len(MeanRow._fields))
    assert beam.coders.registry.get_coder(type(row)).is_deterministic() in (True, False)
    assert MeanRow._fields[:8] == ldp_beam.HistogramRow._fields[:8]


def test_bad_arguments():
    m = MECHANISMS["hybrid"]
    for bad in (RandomizedResponse(epsilon=1.0), "hybrid", None):
        with pytest.raises(ParameterError):
            Mean("v", bad)
    for options in ({"confidence": 1}, {"by": ["v"]}, {"window": -1}):
        with pytest.raises(ParameterError):
            Mean("v", m, **options)
    with pytest.raises(ParameterError):
        run(beam.WindowInto(SlidingWindows(10, 5)) | PrivateMean("v", m), [{"v": 1.0}])
    with pytest.raises(ParameterError):
        PrivateMean("v", m, key=Secret.generate())
