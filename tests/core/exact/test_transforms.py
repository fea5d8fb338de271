"""Counts of numbers, and their transform, against plain sums and scipy's matrix."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ldp_core.exact import transforms
from ldp_core.exact.transforms import count_numbers, walsh_hadamard

from ...cases import each


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
