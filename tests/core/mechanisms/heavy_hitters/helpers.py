"""A small space of texts, values in it, and vectors of its points."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ldp_core import HeavyHitters, Prefixes

SMALL = Prefixes("abcdefg", 4)  # 2801 values


def small(epsilon=2.0, **options) -> HeavyHitters:
    return HeavyHitters(SMALL, epsilon=epsilon, **{"levels": (2, 4), "rows": 16, "width": 256, **options})


def words(**counts: int) -> pa.Array:
    return pa.array([word for word, count in counts.items() for _ in range(count)])


def spread(n: int) -> pa.Array:
    """n values of which none is frequent, and none is bead."""
    codes = SMALL.begin(4)
    codes = codes[codes != SMALL.encode(["bead"])]
    return pa.array(SMALL.values(codes[np.arange(n) % len(codes)]))


# ---- the channel of a row, by enumeration


def vector(number: int, g: int, m: int) -> tuple[int, ...]:
    return tuple(number // g**i % g for i in reversed(range(m)))


def orthogonal(y, v, g) -> bool:
    return sum(a * b for a, b in zip(y, (1, *v), strict=True)) % g == 0


# ---- the search

POPULATION = {"bead": 9000, "cafe": 6000, "a": 5000, "gag": 4000, "beef": 3000, "dad": 2500}


def population(n: int = 20_000) -> pa.Array:
    return pa.concat_arrays([words(**POPULATION), spread(n)])


def report_vectors(g: int, m: int) -> list[int]:
    """The vector of each report as a number to the base g: 0, and those whose highest digit that is not 0 is 1."""
    return [0, *(v for k in range(m + 1) for v in range(g**k, 2 * g**k))]
