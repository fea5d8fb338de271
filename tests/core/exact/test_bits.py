"""Sums of the columns of bit vectors, and single bits, against plain numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from ldp_core.exact import bits, sampling, transforms
from ldp_core.exact.transforms import count_numbers, walsh_hadamard
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


# ---- transforms


@each(("m", "k"), [(3, 1), (3, 2), (3, 8), (3, 64), (1, 2), (40, 16)])
def test_the_transform_is_the_product_with_the_matrix(m, k):
    counts = np.random.default_rng(k).integers(0, 1000, (m, k))
    before = counts.copy()
    np.testing.assert_array_equal(walsh_hadamard(counts), counts @ linalg.hadamard(k))
    np.testing.assert_array_equal(counts, before)


@each("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@each("k", [1, 5, 200])
@each("n_groups", [1, 4])
def test_numbers_are_counted(monkeypatch, dtype, k, n_groups):
    monkeypatch.setattr(transforms, "_BLOCK", 7)
    rng = np.random.default_rng(k)
    numbers, groups = rng.integers(0, k, 1000).astype(dtype), rng.integers(0, n_groups, 1000)
    expected = [[np.count_nonzero(numbers[groups == g] == v) for v in range(k)] for g in range(n_groups)]
    np.testing.assert_array_equal(count_numbers(numbers, groups, n_groups, k), expected)
    assert not count_numbers(numbers[:0], groups[:0], n_groups, k).any()
