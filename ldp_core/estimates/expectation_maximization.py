"""Expectation maximization for shares seen through a channel, with or without smoothing; how far it may be off.

Z. Li, T. Wang, M. Lopuhaa-Zwakenberg, N. Li, B. Skoric, "Estimating Numerical Distributions under Local Differential
Privacy", SIGMOD 2020, Algorithm 1. With P the channel, c the counts of cells and S the smoothing, a step is

    f <- N(S(f * P'(c / P f)))        N(x) = x / sum(x)

from uniform shares until the log likelihood gains little. It stops long before a fixed point, so that its errors are
those of the steps taken: with J and G the derivatives of a step by the shares and by the counts, the result's is

    D <- J D + G        from D = 0 on, for as many steps

J changes slowly: from step 2^j to 2^(j + 1) it is taken to be that in the middle, whose powers need few products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ldp_core.arrays.types import F64

_Linear: TypeAlias = Callable[[F64], F64]

_MOST_STEPS = 10_000


@dataclass(frozen=True, eq=False)
class Fit:
    """Shares, float64[d], after so many steps; and on the way, after 0, 1, 3, 6, 12, ... steps."""

    shares: F64
    path: list[F64]
    steps: int

    def stretches(self) -> Iterator[tuple[F64, int]]:
        """(shares in its middle, number of steps) of each stretch of steps: 0, 1, 2 to 3, 4 to 7, ..."""
        begin = 0
        for shares in (*self.path, self.shares):
            length = min(max(begin, 1), self.steps - begin)
            if length:
                yield shares, length
            begin += length


def fit(
    counts: npt.NDArray[np.number],
    mixture: _Linear,
    backward: _Linear,
    d: int,
    *,
    smoothing: float = 0.0,
    gain: float | None = None,
    most: int = _MOST_STEPS,
) -> Fit:
    """Fit d shares to the counts of M cells.

    Args:
        counts: [M].
        mixture: shares to the probabilities of the cells, float64[d] -> float64[M].
        backward: its transpose.
        d: number of shares.
        smoothing: see `smoothed`; 0 is none.
        gain: stop once a step changes the log likelihood by less; None: never.
        most: stop after so many steps.
    """
    observed = counts.astype(np.float64)
    shares = np.full(d, 1 / d)
    path, due = [shares], 1
    mixed, before = mixture(shares), -np.inf
    for step in range(1, most + 1):
        shares = shares * backward(observed / mixed)
        if smoothing:
            shares = smoothed(shares, smoothing)
        shares /= shares.sum()
        if step == due:
            path.append(shares)
            due = max(2 * due, 3)
        mixed = mixture(shares)
        if gain is not None:
            likelihood = float(observed @ np.log(mixed))
            if abs(likelihood - before) < gain:
                break
            before = likelihood
    return Fit(shares, path, step)


def smoothed(shares: F64, weight: float = 0.25) -> F64:
    """Along the first axis, each entry mixed with its neighbors, of the weight each; at the ends, of 4/3 the weight.

    >>> smoothed(np.array([0.0, 0.0, 1.0, 0.0])).round(3).tolist()
    [0.0, 0.25, 0.5, 0.333]
    """
    out = (1 - 2 * weight) * shares
    neighbors = weight * shares
    out[1:-1] += neighbors[:-2] + neighbors[2:]
    out[0] += 2 / 3 * neighbors[0] + 4 / 3 * neighbors[1]
    out[-1] += 2 / 3 * neighbors[-1] + 4 / 3 * neighbors[-2]
    return out


def derivative(found: Fit, counts: npt.NDArray[np.number], channel: F64, smoothing: float) -> F64:
    """float64[d, M]: by how much the shares fitted to [M] counts grow with each count, times the number of all."""
    out = np.zeros(channel.T.shape)
    shares_of_cells = counts / counts.sum()
    for shares, length in found.stretches():
        by_shares, by_counts = _step(shares, shares_of_cells, channel, smoothing)
        power, total = _powers(by_shares, length)
        out = _product(power, out) + _product(total, by_counts)
    return out


def _step(shares: F64, shares_of_cells: F64, channel: F64, smoothing: float) -> tuple[F64, F64]:
    """(float64[d, d], float64[d, M]): derivatives of a step by the shares, and by the cells' shares."""
    mixed = channel @ shares
    weights = channel / mixed[:, None]
    ratio = shares_of_cells / mixed
    backward = channel.T @ ratio
    by_shares = np.diag(backward) - shares[:, None] * _product(channel.T, ratio[:, None] * weights)
    both = np.hstack((by_shares, shares[:, None] * weights.T, (shares * backward)[:, None]))
    if smoothing:
        both = smoothed(both, smoothing)
    total = both[:, -1].sum()
    both -= np.outer(both[:, -1] / total, both.sum(axis=0))
    return both[:, : len(shares)] / total, both[:, len(shares) : -1] / total


def _powers(a: F64, n: int) -> tuple[F64, F64]:
    """The n-th power of a matrix, and the sum of those before it: 1 + a + ... + a^(n - 1)."""
    one = np.eye(len(a))
    power, total = a, one
    for bit in bin(n)[3:]:  # after the first one
        power, total = _product(power, power), total + _product(power, total)
        if bit == "1":
            power, total = _product(a, power), one + _product(a, total)
    return power, total


def _product(a: F64, b: F64) -> F64:
    """``a @ b``, a few rows at a time.

    OpenBLAS makes products of up to 2^18 terms on the thread that asks, and others on several, which wait for each
    other where processors are busy: that took 50 times longer.
    """
    return np.concatenate([a[start : start + _ROWS] @ b for start in range(0, len(a), _ROWS)])


_ROWS = 8
