"""Tallies as values: they add up, travel as bytes, and refuse what no reports can have."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_core import MechanismMismatchError, RandomizedResponse, ReportError, Tally

from ..cases import each
from .examples import AB

edges = st.sampled_from([0, 255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**62])  # of the widths on the wire
counts = st.lists(st.one_of(st.integers(0, 300), edges), min_size=1, max_size=20)
fingerprints = st.text("0123456789abcdef", min_size=16, max_size=16)


@given(counts, st.integers(0, 2**61), fingerprints)
def test_tally_round_trips(counters, more, fingerprint):
    n = max(counters) + more
    tally = Tally(n, np.array(counters), fingerprint)
    for again in (
        Tally.from_bytes(tally.to_bytes()),
        Tally.from_dict(json.loads(json.dumps(tally.to_dict()))),
        pickle.loads(pickle.dumps(tally)),
        copy.deepcopy(tally),
    ):
        assert again == tally
        assert hash(again) == hash(tally)
        assert again.counters.dtype == np.int64
        assert not again.counters.flags.writeable
    assert tally != Tally(n + 1, np.array(counters), fingerprint)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_tally(data):
    good = RandomizedResponse(epsilon=1).empty_tally().to_bytes()
    for bad in (data, good[:-1], good + b"\0", b"\x02" + good[1:], good[:1] + b"\x03" + good[2:]):
        with pytest.raises(ReportError):
            Tally.from_bytes(bad)


def test_what_is_no_tally_is_refused():
    m = RandomizedResponse(epsilon=1.0)
    for use in (m.merge, m.estimate):
        with pytest.raises(ReportError, match="expected a tally"):
            use([1, 2])
    row = m.tally([True, False]).to_dict()  # as a column of tallies has it
    with pytest.raises(ReportError, match="got dict; Tally"):
        m.estimate(row)
    assert m.estimate(Tally.from_dict(row)).n == 2
    another_alphabet = b"\x01\x01" + b"\xff" * 16 + bytes(12)
    for data in (another_alphabet, None, "text", 5, [1, 2]):
        with pytest.raises(ReportError):
            Tally.from_bytes(data)


def test_a_tally_does_not_share_its_counts():
    support = np.array([1, 2])
    tally = Tally(3, support, "a" * 16)
    support[0] = 99
    assert tally.counters.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        tally.counters[0] = 5
    with pytest.raises(AttributeError):
        tally.n = 4


@each(
    "changed",
    [
        {"counters": ["a"]},
        {"counters": [2**70]},
        {"counters": [2**63]},
        {"counters": [1.7]},
        {"counters": [[1], [1, 2]]},
        {"counters": None},
        {"counters": [[1]]},
        *({"fingerprint": wrong} for wrong in (5, "abc", "é" * 16)),
        *({"n": wrong} for wrong in (None, -1, 1.5)),
        {"n": 2**63},
        {"people": 3},  # was passed over in silence
    ],
)
def test_hostile_tallies_raise_our_errors(changed):
    """Other errors came out, 1.7 was 1, and 2**63 from numpy's unsigned integers became negative."""
    good = {"n": 3, "counters": [1, 2], "fingerprint": "a" * 16}
    assert Tally.from_dict(good).to_dict() == good
    with pytest.raises(ReportError):
        Tally.from_dict(good | changed)
    for key in changed.keys() & good.keys():
        with pytest.raises(ReportError):
            Tally.from_dict({k: v for k, v in good.items() if k != key})


def test_no_reports_count_nothing():
    """Such a tally took the counts of others away, and left their number as it was."""
    honest = RandomizedResponse(AB, epsilon=1).tally(["a"] * 3)
    for counters in (-honest.counters, honest.counters):
        with pytest.raises(ReportError, match="counts nothing"):
            Tally(0, counters, honest.fingerprint)
    forged = honest.to_bytes().replace(b"\3" + bytes(7), bytes(8), 1)
    with pytest.raises(ReportError, match="counts nothing"):
        Tally.from_bytes(forged)


def test_sums_beyond_64_bits_are_refused():
    """Four of 2^62 were 0."""
    for n, counters in ((9, [2**62, 0]), (9, [0, 2**63 - 1]), (9, [-(2**62) - 1, 5]), (2**62, [0, 0])):
        tally = Tally(n, np.array(counters), "a" * 16)
        with pytest.raises(ReportError, match="beyond 64 bits"):
            tally + tally
    one, other = (Tally(9, np.array(c), "a" * 16) for c in ([2**62, -(2**62), 5], [2**62 - 1, -(2**62), -7]))
    assert (one + other).counters.tolist() == [2**63 - 1, -(2**63), -2]


def test_merged_tallies_are_checked_one_by_one():
    m = RandomizedResponse(AB, epsilon=1)
    honest = m.tally(["a"] * 3)
    assert m.merge([]) == m.empty_tally()
    assert m.merge(iter([honest, m.empty_tally(), honest])) == honest + honest
    with pytest.raises(ReportError, match="cannot be those of 1 reports"):
        m.merge([honest, honest, Tally(1, -honest.counters, m.fingerprint)])
    with pytest.raises(MechanismMismatchError, match=rf"is not of randomized_response \(epsilon 1, .* {m.fingerprint}"):
        m.merge([honest, RandomizedResponse(AB, epsilon=2).tally(["a"])])
    full = Tally(m.most_reports, np.array([m.most_reports, 0]), m.fingerprint)
    assert m.merge([full]) == full
    with pytest.raises(ReportError, match="at most 4611686018427387903 reports"):
        m.merge([full, honest])
