"""Windows assigned to whole batches are the windows that Beam assigns to single records."""

from collections import Counter

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration, Timestamp

import ldp_beam
from ldp_beam.elements.windows import group, seconds, slots, window_fn
from ldp_core import ParameterError

from .helpers import SURE, SURE_BOOL, name, run, stamped, table

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


@pytest.mark.parametrize("fn", WINDOWS, ids=name)
@pytest.mark.parametrize("middle", [0, 1_700_000_000 * SECOND])
def test_a_slots_time_is_in_the_windows_of_its_records(fn, middle):
    rng = np.random.default_rng(7)
    near = rng.integers(-50 * SECOND, 50 * SECOND, 200)
    edges = np.arange(-30, 30) * SECOND
    micros = middle + np.concatenate([near, edges, edges - 1, edges + 1])
    slotted = slots(fn, micros, np.zeros_like(micros))
    assert len(slotted.empty) == 0
    for record, time in zip(micros, slotted.timestamp(slotted.number), strict=True):
        assert windows_of(fn, record) == windows_of(fn, time)


@pytest.mark.parametrize(("spread", "n_keys"), [(1, 1), (1, 5), (50, 1), (50, 3), (10**9, 1), (10**9, 4)])
def test_groups_are_the_distinct_pairs(spread, n_keys):
    rng = np.random.default_rng(3)
    slot = rng.integers(-spread, spread, 500)
    keys = rng.integers(0, n_keys, 500)
    groups = group(slot, keys, n_keys)
    pairs = list(zip(slot.tolist(), keys.tolist(), strict=True))
    named = list(zip(groups.slot.tolist(), groups.key.tolist(), strict=True))
    assert [named[g] for g in groups.of_record] == pairs
    assert sorted(named) == sorted(set(pairs))
    assert len(group(slot[:0], keys[:0], n_keys).key) == 0


def per_record(times, keys, fn):
    """The truth, from Beam: n of each window and key, one element a record."""
    p_rows = run(
        beam.WindowInto(fn) | "Count" >> beam.CombinePerKey(sum) | beam.Map(_with_window),
        stamped(((key, 1), time) for time, key in zip(times, keys, strict=True)),
    )
    return dict(p_rows)


def _with_window(kv, window=beam.DoFn.WindowParam):
    return (window.start.micros / 1e6, window.end.micros / 1e6, kv[0]), kv[1]


@pytest.mark.parametrize(
    "fn",
    [
        FixedWindows(20),
        FixedWindows(20, offset=7),
        SlidingWindows(20, 8),
        SlidingWindows(3, 10),
        Sessions(5),
        Sessions(1),
        Sessions(0.25),
    ],
    ids=name,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_window_has_the_records_that_beam_puts_there(fn, seed):
    rng = np.random.default_rng(seed)
    # whole quarters of seconds, so that gaps of exactly the session's gap occur
    times = np.sort(rng.integers(0, 800, 150))[rng.permutation(150)] / 4
    keys = rng.choice(["x", "y"], 150)
    truth = per_record(times.tolist(), keys.tolist(), fn)
    everything = pa.table({"v": rng.choice(["a", "b", "c"], 150), "t": times, "k": keys})
    for cut in (150, 40, 7):  # one batch, some, many
        batches = everything.to_batches(max_chunksize=cut)
        rows = run(ldp_beam.Histogram("v", SURE, window=fn, event_time="t", by=["k"]), batches)
        assert {place: row["a"].n for place, row in table(rows).items()} == truth


def test_sessions_are_per_key_and_made_of_the_events_exactly():
    # gap 10: 0, 4, 13.999 chain; 24 is 10.001 after 13.999: a new session; the other key does not bridge it
    batch = pa.record_batch({"v": [True] * 5, "t": [0.0, 4.0, 13.999, 24.0, 15.0], "k": [1, 1, 1, 1, 2]})
    rows = run(ldp_beam.Histogram("v", SURE_BOOL, window=Sessions(10), event_time="t", by="k"), [batch])
    assert {place: r["true"].n for place, r in table(rows).items()} == {
        (0.0, 23.999, "1"): 3,
        (24.0, 34.0, "1"): 1,
        (15.0, 25.0, "2"): 1,
    }


def test_few_partials_whatever_the_number_of_records():
    rng = np.random.default_rng(5)
    micros = rng.integers(0, 3600 * SECOND, 100_000)
    zeros = np.zeros_like(micros)
    slotted = slots(Sessions(60), micros, zeros)
    # buckets of half a gap: 120 of them, two anchors each
    assert len(group(slotted.number, zeros, 1).key) + len(slotted.empty) <= 2 * 121


@pytest.mark.parametrize(
    ("text", "length"), [("30d", 30 * 86400), ("1h", 3600), ("15m", 900), ("10s", 10), ("500ms", 0.5), ("2w", 1209600)]
)
def test_lengths(text, length):
    assert seconds(text) == length
    assert window_fn(text) == FixedWindows(length) == window_fn(length)


@pytest.mark.parametrize(
    "window", [0, -1, "0s", "-5m", "5", "5 parsecs", "", float("nan"), float("inf"), True, [5], 0.0001, FixedWindows]
)
def test_what_is_no_window_is_refused_at_construction(window):
    with pytest.raises(ParameterError, match="window"):
        ldp_beam.Histogram("v", SURE, window=window)


def test_global_windows_are_windows_too():
    batch = pa.record_batch({"v": ["a", "b"], "t": [1, 10**9]})
    rows = run(ldp_beam.Histogram("v", SURE, window=GlobalWindows(), event_time="t"), [batch, batch])
    assert {row.n for row in rows} == {4}


def test_windows_of_another_kind_are_refused():
    class Odd(FixedWindows):
        pass

    with pytest.raises(ParameterError, match="Odd"):
        ldp_beam.Histogram("v", SURE, window=Odd(5))
    assert Counter(type(w) for w in map(window_fn, [1, "1s"])) == {FixedWindows: 2}
