"""Mechanisms for numbers against the same in plain numpy: floats, a generator that is not cryptographic, no tally."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.columns import EPSILON
from benchmarks.timing import Row, absolute, compare
from ldp_core import Hybrid, Numeric, OneBitMean, Piecewise, SquareWave, StochasticRounding

F64 = npt.NDArray[np.float64]


def rows(scale: float) -> Iterator[Row]:
    n = int(1e6 * scale)
    numbers = np.random.default_rng(1).random(n)
    values = pa.array(numbers)
    plain: list[tuple[str, Numeric, Callable[[F64, np.random.Generator], object]]] = [
        ("1BitMean", OneBitMean((0, 1), epsilon=EPSILON), _one_bit),
        ("Piecewise", Piecewise((0, 1), epsilon=EPSILON), _piecewise),
        ("Square Wave", SquareWave((0, 1), epsilon=EPSILON), _square_wave),
    ]
    for label, m, theirs in plain:
        yield compare(
            f"{label}: client",
            "plain numpy",
            lambda: m.perturb(values),
            lambda: theirs(numbers, np.random.default_rng()),
            n=n,
        )
    for label, m in (
        ("Hybrid", Hybrid((0, 1), epsilon=EPSILON)),
        ("Stochastic rounding (16 points, OUE)", StochasticRounding((0, 1), epsilon=EPSILON)),
    ):
        yield absolute(f"{label}: client", lambda: m.perturb(values), n=n, unit="ns/row", limit=100)
    for label, m in (("1BitMean", plain[0][1]), ("Piecewise", plain[1][1])):
        reports = m.perturb(values)
        yield absolute(f"{label}: mean of reports", lambda: m.mean(m.tally(reports)), n=n, unit="ns/row", limit=20)


def _one_bit(x: F64, rng: np.random.Generator) -> object:
    e = math.exp(EPSILON)
    return rng.random(len(x)) < 1 / (e + 1) + x * (e - 1) / (e + 1)


def _piecewise(x: F64, rng: np.random.Generator) -> object:
    """N. Wang et al., ICDE 2019, Algorithm 2, on [-1, 1]."""
    t, h = 2 * x - 1, math.exp(EPSILON / 2)
    c = (h + 1) / (h - 1)
    left = (c + 1) / 2 * t - (c - 1) / 2
    inside = rng.random(len(x)) < h / (h + 1)
    near = left + rng.random(len(x)) * (c - 1)
    far = rng.random(len(x)) * (c + 1) - c
    far += (far > left) * (c - 1)
    return np.where(inside, near, far)


def _square_wave(x: F64, rng: np.random.Generator) -> object:
    """Z. Li et al., SIGMOD 2020, section 5.2."""
    e = math.exp(EPSILON)
    b = (EPSILON * e - e + 1) / (2 * e * (e - 1 - EPSILON))
    p, q = e / (2 * b * e + 1), 1 / (2 * b * e + 1)
    u = rng.random(len(x))
    near = x - b + (u - q * x) / p
    return np.where(u < q * x, u / q - b, np.where(u < q * x + 2 * b * p, near, (u - 2 * b * p) / q + b))
