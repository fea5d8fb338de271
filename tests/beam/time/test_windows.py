"""Windows assigned to whole batches are the windows that Beam assigns to single records."""

from collections import Counter

import numpy as np
import pytest
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration, Timestamp

import ldp_beam
from ldp_beam.time.windows import group, slots, window_fn
from ldp_core import ParameterError
from ldp_core.windows import seconds

from ..helpers import SURE

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


def test_lengths():
    for text, length in (("30d", 30 * 86400), ("1h", 3600), ("15m", 900), ("10s", 10), ("500ms", 0.5)):
        assert seconds(text) == length
        assert window_fn(text) == FixedWindows(length) == window_fn(length)


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
