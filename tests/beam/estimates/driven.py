"""Tallies per window and key without a pipeline, and the records that they are tallied of."""

import typing
from collections import defaultdict

import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import WindowFn

from ldp_core import RandomizedResponse, UnaryEncoding

from ..helpers import assumed, drive, values, word_for

VALUES = ["a", "b", "c"]
RR = RandomizedResponse(VALUES, epsilon=1.0)
BITS = UnaryEncoding(VALUES, epsilon=1.0)
MECHANISMS = {"rr": RR, "bits": BITS}
N = 3000
_rng = np.random.default_rng(11)
REPORT = _rng.integers(0, 3, N)
VECTOR = _rng.random((N, 3)) < 0.4
TIME = _rng.integers(0, 600, N)
KEY = _rng.choice(["x", "y", "z"], N, p=[0.9, 0.09, 0.01])
FLAG = _rng.random(N) < 0.5
EVERYTHING = pa.table(
    {
        "rr": np.array(VALUES)[REPORT],
        "bits": pa.FixedSizeListArray.from_arrays(pa.array(VECTOR.reshape(-1)), 3),
        "t": TIME,
        "k": KEY,
        "f": FLAG,
    }
)
SUPPORTS = {"rr": np.eye(3, dtype=bool)[REPORT], "bits": VECTOR}


class Report(typing.NamedTuple):
    rr: str
    bits: list[bool]
    t: int
    k: str
    f: bool


def places(size, n=N, **by):
    """(start, end, key texts) -> which of the first ``n`` records, bool[n]: fixed windows and these key columns."""
    out = {}
    for start in np.unique(TIME[:n] // size * size):
        inside = TIME[:n] // size * size == start
        for key in {tuple(k) for k in zip(*(c[:n].tolist() for c in by.values()), strict=True)} if by else {()}:
            records = inside.copy()
            for column, value in zip(by.values(), key, strict=True):
                records &= column[:n] == value
            if records.any():
                texts = (str(v).lower() if isinstance(v, bool) else str(v) for v in key)
                out[float(start), float(start + size), *texts] = records
    return out


def tallied(transform, elements, windows=None):
    """(start, end, key texts) -> tally of all records there; and dead letters.

    The partial tallies of one bundle, put into windows, which are merged, by Beam's own WindowFn, and added up. Arrow
    columns of reports that say nothing of themselves are taken for such.
    """
    told = [assumed(element, word_for(transform)) for element in elements]
    partials, dead = drive(transform._partial_tallies(), told, windows)
    fn, found = transform._windows, defaultdict(list)
    for one in partials:
        key, tally = one.value
        for window in one.windows if fn is None else fn.assign(WindowFn.AssignContext(one.timestamp)):
            found[key].append((window, tally))
    out = {}
    for key, parts in found.items():
        into = merged(fn, [window for window, _ in parts])
        for assigned, tally in parts:
            window = into.get(assigned, assigned)
            place = (window.start.micros / 1e6, window.end.micros / 1e6, *key)
            out[place] = out[place] + tally if place in out else tally
    return {place: tally for place, tally in out.items() if tally.n}, values(dead)


def merged(fn, windows):
    """Window -> the session that it becomes a part of."""
    into = {}

    class Context(WindowFn.MergeContext):
        def merge(self, to_be_merged, merge_result):
            into.update(dict.fromkeys(to_be_merged, merge_result))

    if fn is not None and fn.is_merging():
        fn.merge(Context(list(set(windows))))
    return into


def check_tallies(found, column, expected):
    """The tallies are exactly what numpy counts of the records of each place: {place: bool[n]}."""
    assert set(found) == set(expected)
    for place, records in expected.items():
        assert found[place].n == records.sum()
        assert found[place].counters.tolist() == SUPPORTS[column][: len(records)][records].sum(axis=0).tolist()
