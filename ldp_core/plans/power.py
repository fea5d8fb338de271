"""How often `compare` finds a change of a share where few reports decide: by its own test of what may be counted.

Of a pure protocol by enumeration of all pairs of counts that are not too improbable. Of values in blocks the test works
also with the number of reports in the value's block: there it is a number of typical pairs of tallies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from ldp_core.accounting.binomials import pmf, spread
from ldp_core.arrays.types import F64, I64
from ldp_core.estimates.base import Population
from ldp_core.estimates.comparison import Compare, pooled_of
from ldp_core.estimates.histogram import Side
from ldp_core.estimates.tails import FEW
from ldp_core.plans.known_error import Error, InBlocks, part_of

MANY_COINS = 4 * FEW
"""Of so many a difference is nearly normal, and its error known."""


def finder(
    error: Error, base: float, change: float, beta: float, population: Population
) -> Callable[[float], float] | None:
    """From how many people a side, the probability that the test at level ``beta`` finds it; None: it is not known."""
    if error.pure is None and error.blocks is None:
        return None
    compare = Compare(population=population)

    @cache
    def found(n: int) -> float:
        everybody = n if population is None else population
        sampled, made = part_of(population, n), []
        for gained in (0.0, change):
            people: _People = base + gained
            if not isinstance(everybody, str):
                have = round(base * everybody) + math.floor(gained * everybody * (1 + 1e-9))
                people = _drawn(min(have, everybody), everybody, min(n, everybody))
            made.append(_of_blocks(error.blocks, people, n) if error.blocks else _pure(error.pure, people, n))
        (one, a_one, of_one), (two, a_two, of_two) = made
        size, k = len(two), len(one) * len(two)

        def side(estimates: F64, a: F64) -> Side:
            each = np.full((k, 1), float(n))
            return Side(each, estimates[:, None], a[:, None], error.slope, sampled, error.coin)

        before, after = side(np.repeat(one, size), np.repeat(a_one, size)), side(*np.tile([two, a_two], k // size))
        p_values = compare.p_values(before, after, pooled_of(before, after)[1], error.coin)
        return float(of_one @ (p_values < beta).reshape(-1, size) @ of_two)

    return lambda n: found(max(math.ceil(n * (1 - 1e-12)), 1))  # (as `_Asked.people` rounds)


_Law: TypeAlias = tuple[I64, F64]  # numbers and their probabilities
_People: TypeAlias = "float | _Law"  # a share of many, or how many of those who report have the value


def _binomials(n: I64, p: float) -> tuple[int, F64]:
    """The least number and, of numbers from it on, the probabilities float64[len(n), numbers] of Bin(n, p)."""
    p = min(max(p, 1e-300), 1 - 1e-16)
    low, high = (spread(float(of), p, 1 - p, _REST)[i] for i, of in enumerate((n.min(), n.max())))
    k = np.arange(low, high + 1, dtype=float)
    each, people = np.broadcast_arrays(k, n[:, None].astype(float))
    return low, pmf(each, people, p, 1 - p)


def _drawn(have: int, everybody: int, n: int) -> _Law:
    """Of n people out of everybody, of whom so many have the value: hypergeometric."""
    mean = n * have / everybody
    far = 30 + 12 * math.sqrt(mean * (1 - have / everybody) * (1 - n / everybody))
    low, high = max(n - everybody + have, math.floor(mean - far)), min(have, n, math.ceil(mean + far))
    k = np.arange(max(low, 0), high + 1)
    ratios = (have - k[:-1]) / k[1:] * ((n - k[:-1]) / (everybody - have - n + k[1:]))
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    return _likely(k, np.exp(logs - logs.max()))


def _likely(k: I64, chances: F64) -> _Law:
    some = chances > _REST * chances.max()
    return k[some], chances[some] / chances[some].sum()


def _pure(pure: tuple[float, float] | None, people: _People, n: int) -> tuple[F64, F64, F64]:
    """Estimated shares, the variances of one report at a share of 0, and how likely they are."""
    p, q = pure or (1.0, 0.0)
    if isinstance(people, float):
        first, [chances] = _binomials(np.array([n]), people * p + (1 - people) * q)
        supports, chances = _likely(first + np.arange(len(chances)), chances)
    else:
        have, chance = people
        (first, one), (second, two) = _binomials(have, p), _binomials(n - have, q)
        size = one.shape[1] + two.shape[1] - 1
        sums = np.fft.irfft(chance @ (np.fft.rfft(one, size) * np.fft.rfft(two, size)), size)
        supports, chances = _likely(first + second + np.arange(size), sums)
    return (supports / n - q) / (p - q), np.full(len(supports), q * (1 - q) / (p - q) ** 2), chances


def _of_blocks(m: InBlocks, people: _People, n: int) -> tuple[F64, F64, F64]:
    """As `_pure`: quantiles of so many tallies, the same for the same n."""
    generator = np.random.default_rng(n)
    if isinstance(people, float):
        have = generator.binomial(n, people, _RUNS)
    else:
        have = generator.choice(people[0], _RUNS, p=people[1])
    supports = inside = np.zeros(_RUNS, np.int64)
    for k, (is_inside, is_support) in zip((have, n - have), m.most_disturbed, strict=True):
        some = generator.binomial(k, is_inside)
        supports, inside = supports + generator.binomial(some, is_support), inside + some
    estimates, a = m.told(supports, inside, n)
    typical = np.lexsort((a, estimates))[_EVERY // 2 :: _EVERY]
    return estimates[typical], a[typical], np.full(len(typical), 1 / len(typical))


_REST = 1e-7
_RUNS, _EVERY = 20_000, 100
