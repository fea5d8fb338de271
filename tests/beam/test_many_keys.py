"""A histogram for each of very many keys: each key's own records, no more and no fewer."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that

import ldp_beam

from .helpers import SURE_BOOL


def check(keys, rows):
    assert len(rows) == 2 * keys
    for key, value, n, count in rows:
        expected = 1 + int(key) % 3
        assert n == expected
        assert count == (expected if value == "true" else 0)


@pytest.mark.parametrize("keys", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_every_key_has_its_own(keys):
    key = np.repeat(np.arange(keys), 1 + np.arange(keys) % 3)
    key = np.random.default_rng(0).permutation(key)
    table = pa.table({"k": key, "v": np.ones(len(key), bool), "t": np.arange(len(key)) % 3600})
    with beam.Pipeline("FnApiRunner") as p:
        rows = (
            p
            | beam.Create(table.to_batches(max_chunksize=1 << 16), reshuffle=False)
            | ldp_beam.PrivateHistogram("v", SURE_BOOL, window="1h", event_time="t", by=["k"])
            | beam.Map(lambda row: (row.key["k"], row.value, row.n, round(row.count, 6) + 0))
        )
        assert_that(rows, lambda found: check(keys, found))
