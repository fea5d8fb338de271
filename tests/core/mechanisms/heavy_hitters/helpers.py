"""A small space of texts, and values in it."""

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
    return pa.array(SMALL.decode(codes[np.arange(n) % len(codes)]))


# ---- the search

POPULATION = {"bead": 9000, "cafe": 6000, "a": 5000, "gag": 4000, "beef": 3000, "dad": 2500}


def population(n: int = 20_000) -> pa.Array:
    return pa.concat_arrays([words(**POPULATION), spread(n)])
