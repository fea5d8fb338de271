"""How often intervals of `SquareWave.distribution` hold the truth, by population, epsilon and number of reports.

    python -m benchmarks.square_wave [--runs 100] [--epsilon 0.05 0.5 1 4] [--n 500 20000 1000000] [--assume smooth]

Numbers are in [0, 100]. A row has the percentage of 95 % intervals that hold: of 20 buckets (on average, and of the
bucket with the least) and of the quantiles 0.1, 0.25, 0.5, 0.75, 0.9; and half the width of a bucket's interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from benchmarks.simulation import SIZES, Table, print_tables
from ldp_core import Interval, SquareWave
from ldp_core.engine import F64

_LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
_FINE = (np.arange(4096) + 0.5) / 4096


def _smooth(density: F64, share: float = 1.0) -> dict[float, float]:
    return dict(zip((100 * _FINE).tolist(), (share * density / density.sum()).tolist(), strict=True))


def _normal(mean: float, deviation: float) -> F64:
    return np.exp(-(((_FINE - mean) / deviation) ** 2) / 2)


_BETA = _FINE**4 * (1 - _FINE)
_AGES = np.exp(-(((np.arange(101) - 40) / 18) ** 2) / 2)
POPULATIONS: dict[str, dict[float, float]] = {
    "smooth: beta(5, 2)": _smooth(_BETA),
    "30 % at 30, others beta(5, 2)": {**_smooth(_BETA, 0.7), 30.0: 0.3},
    "whole numbers, normal": dict(zip(np.arange(101.0).tolist(), (_AGES / _AGES.sum()).tolist(), strict=True)),
    "two normals, sd 8": _smooth(_normal(0.3, 0.08) + _normal(0.7, 0.08)),
    "35 % at 0, 15 % at 100, others exponential": {**_smooth(np.exp(-5 * _FINE), 0.5), 0.0: 0.35, 100.0: 0.15},
}
"""Number to its share."""


def coverage(
    m: SquareWave, population: dict[float, float], n: int, *, runs: int, seed: int = 0, **options: str | None
) -> tuple[F64, F64, float]:
    """(float64[20], float64[5], float): shares of the runs in which intervals hold, and half their width."""
    numbers = np.array(sorted(population))
    shares = np.array([population[number] for number in numbers.tolist()])
    shares /= shares.sum()
    quantiles = numbers[np.searchsorted(np.cumsum(shares), _LEVELS)]
    generator = np.random.default_rng(seed)
    of_buckets, of_quantiles, width = np.zeros(20), np.zeros(len(_LEVELS)), 0.0
    for run in range(runs):
        people = generator.multinomial(n, shares)
        found = m.distribution(
            m.simulate(dict(zip(numbers.tolist(), people.tolist(), strict=True)), seed=seed + run),
            buckets=20,
            **options,  # type: ignore[arg-type]
        )
        truth = np.histogram(numbers, found.edges, weights=shares)[0]
        of_buckets += (found.low <= truth + 1e-9) & (truth <= found.high + 1e-9)
        ends = np.array([found.quantile_interval(level) for level in _LEVELS])
        of_quantiles += (ends[:, 0] <= quantiles) & (quantiles <= ends[:, 1])
        width += float(np.mean(found.high - found.low)) / 2
    return of_buckets / runs, of_quantiles / runs, width / runs


def intervals(runs: int, *, epsilon: Sequence[float], n: Sequence[int], assume: str | None) -> Table:
    yield "epsilon", "reports", "population", "buckets: mean, least", "quantiles: mean, least", "half a width"
    for e, reports, (name, population) in product(epsilon, n, POPULATIONS.items()):
        m = SquareWave(Interval(0, 100), epsilon=e)
        *shares, width = coverage(m, population, reports, runs=runs, assume=assume)
        held = (f"{100 * one.mean():.0f}, {100 * one.min():.0f}" for one in shares)
        yield f"{e:g}", f"{reports:,}", name, *held, f"{100 * width:.1f} %"


if __name__ == "__main__":
    print_tables([intervals], 100, __doc__, epsilon=(0.05, 0.5, 1.0, 4.0), n=SIZES, assume=None)
