"""How often intervals of ranges, quantiles and curves hold: ``python -m benchmarks.ordered``, for docs/ordered.md.

Populations are fixed shares of the values, rounded to whole people; intervals are about these people, and noise is the
only error. Each cell is the share of RUNS tallies whose interval holds the true number, in percent: the mean over 12
ranges, the mean over the quantiles 0.1, 0.5 and 0.9, and the bands of the whole curve.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.timing import print_tables
from ldp_core import (
    CdfEstimate,
    HierarchicalHistogram,
    Mechanism,
    QuantilesEstimate,
    RangeEstimate,
    SubsetSelection,
)
from ldp_core.engine import F64, I64, apportioned, generator_of

RUNS = 2000
PROBABILITIES = (0.1, 0.5, 0.9)


def populations(d: int) -> Mapping[str, F64]:
    """Shares of d ordered values, of six populations."""
    x = (np.arange(d) + 0.5) / d
    beta = x**4 * (1 - x)
    normals = np.exp(-(((x - 0.3) / 0.08) ** 2) / 2) + np.exp(-(((x - 0.75) / 0.05) ** 2) / 2)
    heap = 0.7 * beta / beta.sum()
    heap[d // 3] += 0.3
    tens = beta * (np.arange(d) % 5 == 0)
    end = np.zeros(d)
    end[-1] = 1.0
    made = {"beta(5,2)": beta, "two normals": normals, "30 % at one": heap, "integers": tens, "one end": end}
    return {**{name: shares / shares.sum() for name, shares in made.items()}, "uniform": np.full(d, 1 / d)}


def ranges_of(d: int, generator: np.random.Generator) -> list[tuple[int, int]]:
    """A dozen ranges, both ends included: random ones, of all lengths."""
    ends = np.sort(generator.integers(0, d, (12, 2)), axis=1)
    return [(int(low), int(high)) for low, high in ends]


def coverage(m: Mechanism, people: I64, runs: int, seed: int) -> tuple[float, float, float]:
    """Percentages of ranges, of quantiles and of bands that hold, over so many tallies of simulated reports."""
    generator = generator_of(seed)
    n, d = int(people.sum()), len(people)
    counters = np.array([m.simulate_values(range(d), people, generator).counters for _ in range(runs)])
    ns = np.full(runs, n)
    sums = np.concatenate([[0], np.cumsum(people)])
    ranges = ranges_of(d, np.random.default_rng(seed))
    truths = np.array([sums[high + 1] - sums[low] for low, high in ranges], float)

    def held(question: Any, true: F64, slack: float = 0.0) -> Any:
        table, _ = question.rows(m, ns, counters)
        low, high = (np.array(table[name]).reshape(runs, -1) for name in ("low", "high"))
        return (low - slack <= true) & (true <= high + slack)

    quantiles = np.array([np.searchsorted(sums[1:], p * n - 1e-9) for p in PROBABILITIES])
    of_ranges = held(RangeEstimate(ranges=ranges), truths, 1e-6 * n).mean()
    of_quantiles = held(QuantilesEstimate(PROBABILITIES), quantiles).mean()
    bands = held(CdfEstimate(), sums[1:] / n, 1e-9).all(axis=1).mean()
    return 100 * of_ranges, 100 * of_quantiles, 100 * bands


def _table(kind: Any, d: int, runs: int) -> Iterator[Sequence[str]]:
    yield ("values", "population", "epsilon", "people", "ranges", "quantiles", "bands")
    for (name, shares), epsilon, n in itertools.product(populations(d).items(), (0.5, 1.0, 2.0), (500, 20_000, 10**6)):
        found = coverage(kind(range(d), epsilon=epsilon), apportioned(name, shares, n), runs, seed=1)
        yield (str(d), name, f"{epsilon:g}", f"{n:,}", *(f"{x:.1f}" for x in found))


def subset_selection(runs: int) -> Iterator[Sequence[str]]:
    return _table(SubsetSelection, 32, runs)


def hierarchical(runs: int) -> Iterator[Sequence[str]]:
    return _table(HierarchicalHistogram, 128, runs)


if __name__ == "__main__":
    print_tables([subset_selection, hierarchical], RUNS, __doc__)
