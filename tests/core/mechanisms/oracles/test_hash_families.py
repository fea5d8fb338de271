"""Families of hash functions: how often two values collide, over all functions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

from ldp_core import Keystream
from ldp_core.mechanisms.oracles import hash_families

from ....cases import each
from ...checks import check_binomial, check_uniform


@each("prime", [5, 7, 11, 13])
@each("g", [2, 3, 4, 5])
def test_collisions_of_affine_functions(monkeypatch, prime, g):
    monkeypatch.setattr(hash_families, "PRIME", prime)
    family = hash_families.AffineFamily(g)
    a, b = np.indices((prime, prime)).reshape(2, -1).astype(np.uint64)
    hashes = np.array([family.hash(a << np.uint64(24) | b, np.full(prime**2, v)) for v in range(prime)])
    assert set(hashes.ravel().tolist()) == set(range(g))
    for v, w in itertools.combinations(range(prime), 2):
        assert Fraction(int((hashes[v] == hashes[w]).sum()), prime**2) == family.collision


@each("g", [2, 3, 4, 149, 1000, 65536])
def test_collision_probability_of_the_real_family(g):
    family = hash_families.AffineFamily(g)
    assert family._width.sum() == hash_families.PRIME
    exact = sum(Fraction(int(w), hash_families.PRIME) ** 2 for w in family._width.tolist())
    assert family.collision == exact
    assert 0 <= family.collision - Fraction(1, g) <= Fraction(g, hash_families.PRIME**2)


def test_the_prime_is_one():
    prime = hash_families.PRIME
    assert prime == 2**24 - 3
    assert all(prime % k for k in range(2, math.isqrt(prime) + 1))


@each(("g", "digits"), [(2, 3), (3, 2), (5, 2)])
def test_collisions_of_linear_functions(g, digits):
    family = hash_families.LinearFamily(g, g**digits)
    functions = np.arange(family.size, dtype=np.uint64)
    hashes = np.array([family.hash(functions, np.full(family.size, v)) for v in range(family.size)])
    for v, w in itertools.combinations(range(family.size), 2):
        assert Fraction(int((hashes[v] == hashes[w]).sum()), family.size) == family.collision == Fraction(1, g)


@each(("g", "codes"), [(2, 30), (3, 9), (5, 100)])
def test_the_transform_is_the_sum_over_functions(g, codes):
    family = hash_families.LinearFamily(g, codes)
    counts = np.random.default_rng(1).integers(0, 1000, (3, family.size, g))
    functions = np.arange(family.size, dtype=np.uint64)
    expected = [
        counts[:, np.arange(family.size), family.hash(functions, np.full(family.size, v)).astype(int)].sum(axis=1)
        for v in range(family.size)
    ]
    np.testing.assert_array_equal(family._transform(counts), np.transpose(expected))


def test_codes_at_the_end_of_the_largest_domain():
    """All the arithmetic at its edges; of a domain of 16 million values two are looked at."""
    family = hash_families.AffineFamily(1 << 16)
    n, top = 400_000, hash_families.PRIME - 1
    functions = family.draw(n, Keystream())
    one, other = (family.hash(functions, np.full(n, v, np.uint32)) for v in (top, top - 1))
    assert max(one.max(), other.max()) < 1 << 16
    check_binomial(np.sum(one == other), n, float(family.collision))
    check_uniform(np.bincount((one >> np.uint64(8)).astype(int), minlength=256))
