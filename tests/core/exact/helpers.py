"""Vectors over a finite field, slowly."""

import itertools

import numpy as np


def reports_of(field: int, t: int) -> list[tuple[int, ...]]:
    """Vectors whose last digit that is not 0 is 1, in the order of the numbers that they are, lowest digit first."""
    vectors = [v for v in itertools.product(range(field), repeat=t) if any(v) and [x for x in v if x][-1] == 1]
    return sorted(vectors, key=lambda v: v[::-1])


def values_of(field: int, t: int) -> list[tuple[int, ...]]:
    """Vectors whose first digit that is not 0 is 1: those with the earliest 1 first, then in order of the rest."""
    vectors = [v for v in itertools.product(range(field), repeat=t) if any(v) and next(x for x in v if x) == 1]
    return sorted(vectors, key=lambda v: (v.index(1), v[::-1]))


def incidence(field: int, t: int) -> np.ndarray:
    """bool[values, reports]: <v, y> = 0 modulo the field."""
    return np.array(values_of(field, t)) @ np.array(reports_of(field, t)).T % field == 0


def vector(number: int, g: int, m: int) -> tuple[int, ...]:
    return tuple(number // g**i % g for i in reversed(range(m)))


def orthogonal(y, v, g) -> bool:
    return sum(a * b for a, b in zip(y, (1, *v), strict=True)) % g == 0


def report_vectors(g: int, m: int) -> list[int]:
    """The vector of each report as a number to the base g: 0, and those whose highest digit that is not 0 is 1."""
    return [0, *(v for k in range(m + 1) for v in range(g**k, 2 * g**k))]
