"""Sums of the columns of bit vectors, and single bits, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_core.exact import bits, sampling
from ldp_core.reports.bits import clear_padding, row_bytes

from ...cases import each
from ..bit_rows import random_rows, seeds, sizes, unpacked


@given(sizes, st.integers(0, 3000), seeds)
def test_column_sums(d, n, seed):
    matrix, rows = random_rows(n, d, seed)
    sums = bits.column_sums(rows, d)
    assert sums.dtype == np.int64
    np.testing.assert_array_equal(sums, matrix.sum(axis=0))


@each(("n", "d"), [(3_000_001, 3), (400_000, 65), (1, 100_000), (50, 100_000), (4096, 8), (4097, 8)])
def test_column_sums_of_many_rows(n, d):
    rng = np.random.default_rng(n)
    rows = rng.integers(0, 256, (n, row_bytes(d)), np.uint8)
    clear_padding(rows, d)
    expected = np.zeros(d, np.int64)
    for part in np.array_split(rows, max(1, rows.size // 2**22)):
        expected += np.unpackbits(part, axis=1, bitorder="little", count=d).sum(axis=0, dtype=np.int64)
    np.testing.assert_array_equal(bits.column_sums(rows, d), expected)
    ones = np.full((n, row_bytes(d)), 255, np.uint8)
    assert bits.column_sums(ones, d).tolist() == [n] * d


@given(sizes, st.integers(0, 2000), st.integers(1, 60), seeds, st.booleans(), st.sampled_from([1 << 20, 1 << 8, 1]))
def test_grouped_column_sums(d, n, n_groups, seed, in_order, chunk):
    matrix, rows = random_rows(n, d, seed)
    groups = np.random.default_rng(seed + 1).integers(0, n_groups, n)
    groups[groups == n_groups // 2] = 0  # a group without rows
    if in_order:
        groups.sort()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bits, "_CHUNK", chunk)
        sums = bits.grouped_column_sums(rows, d, groups, n_groups)
    expected = np.zeros((n_groups, d), np.int64)
    np.add.at(expected, groups, matrix.astype(np.int64))
    assert sums.dtype == np.int64
    np.testing.assert_array_equal(sums, expected)


@given(sizes, st.integers(0, 30), seeds)
def test_overwrite_bit(d, n, seed):
    matrix, rows = random_rows(n, d, seed)
    rng = np.random.default_rng(seed + 1)
    position = rng.integers(0, d + 1, n).astype(np.min_scalar_type(d))  # d: nowhere
    value = rng.integers(0, 2, n).astype(np.uint8)
    sampling.overwrite_bit(rows, position, value)
    clear_padding(rows, d)
    for i in range(n):
        if position[i] < d:
            matrix[i, position[i]] = value[i]
    np.testing.assert_array_equal(unpacked(rows, d), matrix)
    np.testing.assert_array_equal(rows, np.packbits(matrix, axis=1, bitorder="little"))
