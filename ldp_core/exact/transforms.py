"""Counts of numbers, and the fast Walsh-Hadamard transform of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import I64, Codes
from ldp_core.compute import kernels


def count_numbers(numbers: Codes, groups: I64, n_groups: int, k: int) -> I64:
    """How often each of k numbers occurs in each group: int64[n_groups, k]."""
    cells = numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers
    out = np.zeros((n_groups, k), np.int64)
    if kernels.counted(cells, groups if n_groups > 1 else groups[:0], out):
        return out
    if n_groups > 1:
        at = groups * k
        at += cells
        return np.bincount(at, minlength=n_groups * k).reshape(n_groups, k)
    if cells.dtype == np.int64:
        return np.bincount(cells, minlength=k)[None]
    step = max(_BLOCK, k)
    for start in range(0, len(cells), step):  # (others are copied to int64, which stays in a cache this way)
        out += np.bincount(cells[start : start + step], minlength=k)
    return out


def some_groups(
    values: npt.NDArray[Any], groups: I64, n_groups: int, step: int
) -> Iterator[tuple[int, int, npt.NDArray[Any], I64]]:
    """The rows of ``step`` groups at a time: (first, last, their values, the group of each, counted from ``first``)."""
    if n_groups > step and np.any(groups[1:] < groups[:-1]):
        order = np.argsort(groups, kind="stable")
        values, groups = values.take(order, axis=0), groups.take(order)
    for first in range(0, n_groups, step):
        last = min(first + step, n_groups)
        some, of = values, groups
        if n_groups > step:
            start, stop = np.searchsorted(groups, (first, last))
            some, of = values[start:stop], groups[start:stop] - first
        yield first, last, some, of


def groups_of_cells(cells: I64, groups: I64, n_groups: int, k: int) -> Iterator[tuple[int, int, npt.NDArray[Any], I64]]:
    """`some_groups` at a time, so that counts of k numbers in each are of few MiB."""
    return some_groups(cells, groups, n_groups, max(_CELLS // k, 1))


def cell_counts(cells: I64, groups: I64, n_groups: int, k: int) -> Iterator[tuple[int, int, I64]]:
    """How often each of k numbers occurs, some groups at a time: (first, last, int64[last - first, k])."""
    for first, last, some, of in groups_of_cells(cells, groups, n_groups, k):
        yield first, last, count_numbers(some, of, last - first, k)


_BLOCK = 1 << 15  # numbers
_CELLS = 1 << 20  # counts made at a time: 8 MiB


def walsh_hadamard(counts: I64) -> I64:
    """The transform of each row of int64[m, K], K a power of two: out[r] = sum over y of (-1)^<r, y> counts[y]."""
    m, k = counts.shape
    columns = np.ascontiguousarray(counts.T)  # so that no loop is shorter than m
    done = 1
    while done < k:
        halves = columns.reshape(-1, 2, done * m)
        columns = np.empty_like(halves)
        np.add(halves[:, 0], halves[:, 1], out=columns[:, 0])
        np.subtract(halves[:, 0], halves[:, 1], out=columns[:, 1])
        done *= 2
    return np.ascontiguousarray(columns.reshape(k, m).T)
