"""Projective spaces: points, hyperplanes and reports about buckets, against vectors that are enumerated."""

from fractions import Fraction
from itertools import product

import numpy as np

from ldp_core.exact import projective
from ldp_core.exact.projective import PointsAndZero, ProjectiveSpace

from ...cases import each
from .helpers import incidence, orthogonal, report_vectors, vector

SPACES = [(2, 2), (3, 2), (11, 2), (2, 3), (3, 3), (5, 3), (2, 5), (3, 4), (5, 4)]


@each(("field", "t"), SPACES)
@each("block", [1, 1 << 15])
def test_the_transform_is_the_product_with_the_matrix(monkeypatch, field, t, block):
    monkeypatch.setattr(projective, "_BLOCK", block)
    space = ProjectiveSpace(field, t)
    counts = np.random.default_rng(t).integers(0, 1000, (3, space.points))
    expected = counts @ incidence(field, t).T
    for d in {1, 2, space.points // 2, field ** (t - 1), space.points}:
        np.testing.assert_array_equal(space.supporters(counts, d), expected[:, :d])


def channel(points: PointsAndZero, p: Fraction) -> list[list[Fraction]]:
    """Pr[point | bucket], from what `PointsAndZero.draw` makes of every tail."""
    tails = np.arange(points.buckets, dtype=np.uint16)
    out = []
    for bucket in range(points.buckets):
        row = [Fraction(0)] * points.size
        for agree, probability in ((1, p), (0, 1 - p)):
            made = points.draw(np.full(len(tails), bucket), np.full(len(tails), agree, np.uint8), tails)
            for point in made.tolist():
                row[point] += probability / points.buckets
        out.append(row)
    return out


@each(("g", "m"), [(2, 3), (3, 2), (5, 2), (7, 2)])
def test_p_q_and_the_ratio_by_enumeration(g, m):
    points, p = PointsAndZero(g, m), Fraction(2, 3)
    assert points.size == (g ** (m + 1) - 1) // (g - 1) + 1
    rows = channel(points, p)
    assert all(sum(row) == 1 for row in rows)
    vectors = [vector(y, g, m + 1) for y in report_vectors(g, m)]
    multiples = [{tuple(c * x % g for x in y) for c in range(1, g)} for y in vectors]
    assert not any(a & b for i, a in enumerate(multiples) for b in multiples[:i])  # one number a point
    supports = [[orthogonal(y, vector(v, g, m), g) for v in range(g**m)] for y in vectors]
    for v, w in product(range(g**m), repeat=2):
        supported = sum(row for row, support in zip(rows[v], supports, strict=True) if support[w])
        assert supported == (p if v == w else Fraction(1, g))
    columns = list(zip(*rows, strict=True))
    assert max(max(column) / min(column) for column in columns) == p * (g - 1) / (1 - p)


@each(("g", "m"), [(2, 4), (3, 3), (13, 2)])
def test_support_counts_of_buckets(g, m):
    points = PointsAndZero(g, m)
    counts = np.random.default_rng(0).integers(0, 50, (3, points.size))
    vectors = [vector(y, g, m + 1) for y in report_vectors(g, m)]
    for v in range(0, points.buckets, 5):
        there = [orthogonal(y, vector(v, g, m), g) for y in vectors]
        assert points.supporters(counts)[:, v].tolist() == counts[:, there].sum(axis=1).tolist()
    huge = np.zeros((1, points.size), np.int64)
    huge[0, :2] = 2**40 + 1, 3  # beyond what 32 bits hold
    assert points.supporters(huge).max() == 2**40 + 4
