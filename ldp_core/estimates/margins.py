"""Arrays of several columns with their margins: the last place of each axis is for all values of its column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ldp_core.arrays.types import F64


def margin(k: int, axes: Collection[int]) -> Any:
    """Where an array of k columns has the sums of some of them: an index."""
    return (..., *(slice(None, -1) if axis in axes else -1 for axis in range(k)))


def turned(sums: Any, k: int) -> tuple[Any, Any]:
    """With the first of the last k axes made the last one: its values, and the place for all of them."""
    sums = np.moveaxis(sums, -k, -1)
    return sums[..., :-1], sums[..., -1:]


def along(sums: Any, terms: Sequence[tuple[Any, Any]], *, margins: bool = False) -> F64:
    """``a`` times the values and ``b`` times all of them, (a, b) for each axis in turn: a matrix a column, applied.

    Args:
        sums: [..., d1 + 1, d2 + 1, ...].
        terms: numbers, or float64[d] or [..., 1, d], of each column.
        margins: keep them as they are; without, the answer is [..., d1, d2, ...].
    """
    for a, b in terms:
        cells, every = turned(sums, len(terms))
        sums = a * cells + b * every
        if margins:
            sums = np.concatenate([sums, every], axis=-1)
    return sums
