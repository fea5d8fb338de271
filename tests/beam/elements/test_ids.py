"""Ids as hashes: the same for ever, different under another key, spread evenly."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

from ldp_beam.elements.batches import Batch, Record, RowBatch
from ldp_beam.elements.faults import Faults
from ldp_beam.elements.ids import IdHash, NoiseKey
from ldp_core import DtypeError, Secret, UnaryEncoding

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


def test_equal_integers_of_any_width_are_one_id_and_others_are_others():
    """-1 was 2**64 - 1."""
    numbers = [7, -1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**38 - 1]
    records = RowBatch([Record({"user": n}, Timestamp(0), GlobalWindow()) for n in numbers])
    hashes = IdHash("user").of(records)
    assert len(set(hashes.tolist())) == len(numbers)
    for dtype, some in (
        (pa.decimal128(38), range(9)),
        (pa.int64(), range(4)),
        (pa.uint64(), [0, 2, 4, 5]),
        (pa.int8(), [0, 1]),
    ):
        column = pa.array([numbers[k] for k in some], dtype)
        part = Batch(pa.record_batch({"user": column}), Timestamp(0), GlobalWindow())
        assert IdHash("user").of(part).tolist() == hashes[list(some)].tolist()
        keyed = NoiseKey(Secret(bytes(16)), "user").randomness(part, "x")
        single = RowBatch([Record({"user": n}, Timestamp(0), GlobalWindow()) for n in column.to_pylist()])
        m = UnaryEncoding(range(64), epsilon=1.0)
        codes = np.zeros(len(column), np.int64)
        expected = m.perturb(codes, randomness=NoiseKey(Secret(bytes(16)), "user").randomness(single, "x"))
        np.testing.assert_array_equal(m.perturb(codes, randomness=keyed), expected)


def test_integers_of_too_many_digits_are_faults():
    """Of keyed noise they ended the pipeline, dead letters or not."""
    part = RowBatch([Record({"user": n}, Timestamp(0), GlobalWindow()) for n in (1, 10**38, -(10**38), 2**64)])
    for finder in (IdHash("user"), NoiseKey(Secret(bytes(16)), "user")):
        faults = Faults(len(part))
        finder.find_faults(part, faults)
        assert faults.good.tolist() == [True, False, False, True]
    with pytest.raises(DtypeError, match="38 digits"):
        IdHash("user").of(part)
    with pytest.raises(DtypeError, match="ids must be"):
        NoiseKey(Secret(bytes(16)), "user").randomness(part, "x")
