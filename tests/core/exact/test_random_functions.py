"""Random functions of sketches: stable, and as independent as the variances assume."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_core.exact.random_functions import RandomFunctions

from ..checks import check_binomial, check_uniform


def test_hashes_are_the_same_for_ever_and_either_way():
    """Stored reports and tallies rely on them."""
    f = RandomFunctions(19, 1 << 16, salt=3)
    codes = np.random.default_rng(0).integers(0, 2**64, 50, np.uint64)
    together = f.all(codes)
    for j in range(19):
        np.testing.assert_array_equal(f.at(np.full(50, j, np.uint8), codes), together[:, j])
        np.testing.assert_array_equal(RandomFunctions(19, 32, salt=3).all(codes)[:, j], together[:, j] % 32)
    assert not np.array_equal(together, RandomFunctions(19, 1 << 16, salt=4).all(codes))
    assert RandomFunctions(9, 16, 5).all(np.array([0, 1], np.uint64)).tolist() == [
        [10, 14, 11, 2, 7, 6, 10, 8, 12],
        [6, 13, 2, 12, 8, 6, 12, 10, 6],
    ]


def collisions_of_integers(functions) -> tuple[np.ndarray, np.ndarray]:
    """Of 64 consecutive integers with the first: how many collide, and how many neighbors both do, a function."""
    hashes = functions.all(np.arange(65, dtype=np.uint64))
    same = hashes[1:] == hashes[0]
    return same.sum(axis=0), (same[::2] & same[1::2]).sum(axis=0)


def check_collisions(functions) -> None:
    single, pairs = (x.sum() for x in collisions_of_integers(functions))
    check_binomial(single, 64 * functions.count, 1 / functions.width)
    check_binomial(pairs, 32 * functions.count, 1 / functions.width**2)


class Affine(RandomFunctions):
    """The top bits of a x + b modulo 2^64: pairwise independent for 32-bit x (Dietzfelbinger 1996), but no more."""

    def all(self, codes):
        a, b = np.random.default_rng(0).integers(0, 2**64, (2, self.count), np.uint64)
        return (codes[:, None] * a + b) >> np.uint64(65 - self.width.bit_length())


def test_collisions_are_those_of_random_functions():
    for width in (2, 16, 128):
        check_collisions(RandomFunctions(4096, width, 0))
    f = RandomFunctions(2, 64, 0)
    for j in range(2):
        check_uniform(np.bincount(f.all(np.arange(500_000, dtype=np.uint64))[:, j], minlength=64))


def test_collisions_that_come_in_numbers_are_found():
    functions = Affine(4096, 16, 0)
    single, _ = collisions_of_integers(functions)
    assert abs(single.mean() / 4 - 1) < 0.1  # no bias
    with pytest.raises(AssertionError, match="probability"):
        check_collisions(functions)
