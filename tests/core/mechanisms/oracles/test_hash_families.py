"""Families of hash functions: how often two values collide, over all functions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ldp_core import Keystream
from ldp_core.mechanisms.oracles import local_hashing

from ....cases import each
from ...checks import check_binomial, check_uniform


@each("g", [2, 3, 4, 149, 1000, 65536])
def test_collision_probability_of_the_real_family(g):
    family = local_hashing.AffineFamily(g)
    assert family._width.sum() == local_hashing.PRIME
    exact = sum(Fraction(int(w), local_hashing.PRIME) ** 2 for w in family._width.tolist())
    assert family.collision == exact
    assert 0 <= family.collision - Fraction(1, g) <= Fraction(g, local_hashing.PRIME**2)


def test_the_prime_is_one():
    prime = local_hashing.PRIME
    assert prime == 2**24 - 3
    assert all(prime % k for k in range(2, math.isqrt(prime) + 1))


def test_codes_at_the_end_of_the_largest_domain():
    """All the arithmetic at its edges; of a domain of 16 million values two are looked at."""
    family = local_hashing.AffineFamily(1 << 16)
    n, top = 400_000, local_hashing.PRIME - 1
    functions = family.draw(n, Keystream())
    one, other = (family.hash(functions, np.full(n, v, np.uint32)) for v in (top, top - 1))
    assert max(one.max(), other.max()) < 1 << 16
    check_binomial(np.sum(one == other), n, float(family.collision))
    check_uniform(np.bincount((one >> np.uint64(8)).astype(int), minlength=256))
