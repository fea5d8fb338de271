"""The table of who has been seen: the first k of each, however what it is asked is cut."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_beam.persons._seen import Seen
from ldp_core import InputError


@settings(max_examples=200)
@given(
    ids=st.lists(st.integers(0, 6), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    k=st.integers(1, 4) | st.just(300) | st.just(2**70),
)
def test_it_admits_the_first_k_however_its_input_is_cut(ids, cuts, k):
    hashes = np.array(ids, np.uint64) * np.uint64(2**61)
    seen, passed = Seen.nobody(k), []
    for part in np.split(hashes, sorted(min(cut, len(ids)) for cut in cuts)):
        passes, seen = Seen.from_bytes(seen.to_bytes()).admit(part, k)
        passed += passes.tolist()
    so_far = Counter()
    for i, ok in zip(ids, passed, strict=True):
        so_far[i] += 1
        assert ok == (so_far[i] <= k)
    assert np.all(np.diff(seen.hashes.astype(object)) > 0)
    assert dict(zip(seen.hashes.tolist(), seen.counts.tolist(), strict=True)) == {
        i * 2**61: min(n, k) for i, n in so_far.items()
    }


def test_it_goes_on_with_another_limit_than_it_was_made_with():
    hashes = np.full(500, 7, np.uint64)
    for before, now, more in ((2, 400, 398), (400, 2, 0), (400, 401, 1)):
        passes, seen = Seen.nobody(before).admit(hashes, before)
        assert passes.sum() == before
        passes, seen = seen.admit(hashes, now)
        assert passes.sum() == more
        assert seen.counts.tolist() == [max(before, now)]


def test_a_damaged_state_is_refused():
    for data in (b"", b"\x01", bytes(8), b"\x02\x01" + bytes(6), b"\x01\x03" + bytes(6), b"\x01\x01" + bytes(7)):
        with pytest.raises(InputError, match="version 1"):
            Seen.from_bytes(data)


def test_a_state_that_no_limit_has_left_is_refused():
    for hashes, counts in (([7, 7], [1, 1]), ([9, 7], [1, 1]), ([7, 9], [1, 0]), ([7, 9], [1, 2**63])):
        damaged = Seen(np.array(hashes, np.uint64), np.array(counts, np.uint64)).to_bytes()
        with pytest.raises(InputError, match="damaged"):
            Seen.from_bytes(damaged)
