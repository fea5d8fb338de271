"""Ids as hashes: the same for ever, different under another key, spread evenly."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

from ldp_beam.elements.batches import Batch
from ldp_beam.elements.ids import IdHash
from ldp_core import Secret

HASH_OF_17 = "0xad620114b57ac473"


def test_hashes_are_keyed_stable_and_spread():
    part = Batch(pa.record_batch({"user": pa.array(range(100_000))}), Timestamp(0), GlobalWindow())
    plain = IdHash("user").of(part)
    # this value must never change: state that outlives a release is looked up by it
    assert hex(plain[17]) == HASH_OF_17
    assert np.array_equal(plain, IdHash("user").of(part))
    keyed = IdHash("user", Secret(bytes(16))).of(part)
    assert not np.any(keyed == plain)
    assert len(np.unique(plain)) == 100_000
    shards = np.bincount((plain >> np.uint64(58)).astype(int), minlength=64)
    assert abs(shards - 100_000 / 64).max() < 7 * (100_000 / 64) ** 0.5
