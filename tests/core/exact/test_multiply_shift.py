"""Multiply-shift hash functions against their formula, in Python's integers, and how often they collide."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldp_core.exact import multiply_shift
from ldp_core.exact.multiply_shift import MultiplyShift

from ..checks import check_binomial


def test_hashes_are_those_of_the_formula_and_collide_as_often_as_it_says():
    hashes = MultiplyShift(30_000, 49)
    pairs = np.array([[0, 1], [5, 5 << 32], [2**63, 3], [77, 78]], np.uint64)
    functions = np.arange(30_000)
    for x, y in pairs:
        of_x = hashes.at(functions, np.full(30_000, x))
        same = of_x == hashes.at(functions, np.full(30_000, y))
        check_binomial(int(same.sum()), 30_000, float(hashes.collision))
        check_binomial(np.bincount(of_x, minlength=49), 30_000, 1 / 49)
    a0, a1, b = (int(part[7]) for part in (hashes._low, hashes._high, hashes._added))
    x = 0x123456789ABCDEF
    expected = ((a1 * (x >> 32) + a0 * (x % 2**32) + b) % 2**64 >> 32) * 49 >> 32
    assert hashes.at(7, np.array([x], np.uint64)).tolist() == [expected]
    sizes = np.diff([-(-(i << 32) // 49) for i in range(50)])
    assert sum(Fraction(int(s), 1 << 32) ** 2 for s in sizes) == hashes.collision


def test_sums_over_rows_are_of_the_buckets_that_the_formula_gives():
    hashes = MultiplyShift(7, 49)
    table = np.random.default_rng(3).integers(0, 1000, (4, 49)).astype(float)
    short = np.arange(2**20, 2**20 + multiply_shift._BLOCK + 5, dtype=np.uint64)
    for codes in (short, short << np.uint64(40) | short):  # (the last block is not full; the second has both halves)
        expected = [sum(table[j][hashes.at(3 + j, codes[[i]])[0]] for j in range(4)) for i in (0, 77, -1)]
        assert hashes.sums(table, 3, codes)[[0, 77, -1]].tolist() == expected
    assert (hashes.sums(table, 3, short) != hashes.sums(table, 3, short << np.uint64(40) | short)).mean() > 0.9
    assert len(hashes.sums(table, 3, short[:0])) == 0
