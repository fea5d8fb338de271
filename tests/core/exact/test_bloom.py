"""Bloom filters: those of Google's client, and how uniform their hash functions are."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_core import Rappor
from ldp_core.exact import bits, bloom
from ldp_core.reports.bits import row_bytes

from ...cases import each
from ..checks import check_binomial, check_uniform
from ..mechanisms.sketches.helpers import CHROME


# acceptance.json, "bloom_k16_h2"
@each(
    ("word", "cohort", "expected"),
    [("v1", 0, [8, 10]), ("v1", 1, [3, 6]), ("v2", 0, [7, 5]), ("foo", 0, [6, 6]), ("foo", 4, [4, 7])],
)
def test_md5_filters_are_those_of_google(word, cohort, expected):
    assert bloom.md5_positions([word.encode()], [cohort], 16, 2).tolist() == [expected]
    m = Rappor(bits=16, hashes=2, cohorts=8, **CHROME, hashing="md5")
    assert m.over([word, "x"]).design.positions[cohort, 0].tolist() == expected


def test_filters_have_the_bits_of_their_positions():
    where = np.random.default_rng(0).integers(0, 21, (500, 3)).astype(np.uint32)
    rows = np.unpackbits(bloom.filters(where, 3), axis=1, bitorder="little")
    for row, bits_set in zip(rows, where, strict=True):
        assert set(np.flatnonzero(row)) == set(bits_set.tolist())


@each(("k", "h"), [(16, 2), (100, 5), (7, 16)])
def test_public_hash_is_uniform_and_independent_in_values_cohorts_and_functions(k, h):
    n = 40_000
    codes, cohorts = np.arange(n, dtype=np.uint64) // 8, np.arange(n) % 8
    where = bloom.positions(codes, cohorts, k, h)
    for column in where.T:
        check_uniform(np.bincount(column, minlength=k))
    check_binomial((where[:, 1:] == where[:, :-1]).sum(axis=0), n, 1 / k)  # another function
    check_binomial((where[1::2] == where[::2]).sum(axis=0), n // 2, 1 / k)  # another cohort
    check_binomial((where[8:] == where[:-8]).sum(axis=0), n - 8, 1 / k)  # another value
    found = bits.column_sums(bloom.filters(where, row_bytes(k)), k)
    check_binomial(found, n, bloom.density(k, h))
    np.testing.assert_array_equal(where[:, :2], bloom.positions(codes, cohorts, k, 2))


def test_density_of_md5_counts_bytes():
    n, k = 40_000, 100
    where = bloom.md5_positions((b"%d" % i for i in range(n)), [3] * n, k, 2)
    check_binomial(bits.column_sums(bloom.filters(where, 13), k), n, bloom.density(k, 2, md5=True))
    with pytest.raises(AssertionError):  # bytes modulo 100 are not uniform
        check_binomial(bits.column_sums(bloom.filters(where, 13), k), n, bloom.density(k, 2))
