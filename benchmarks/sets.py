"""Shares of items of sets: variance, by exact formulas, and how often intervals hold: ``python -m benchmarks.sets``.

The tables of docs/sets.md. A population is 20 sets, the empty one among them, of items of which each is 0.9 times as
frequent as the one before, in shares that fall likewise. Intervals are about these people, and noise is the only error.
A cell is the share of RUNS tallies whose interval holds the true number, in percent: the mean over all items, and the
least of them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.timing import print_tables
from ldp_core import HistogramEstimate, PrivSet, SubsetSelection, UnaryEncoding
from ldp_core.engine import I64, apportioned, generator_of

RUNS = 2000
SIZES = ((20, 3), (50, 5), (100, 10))


def variances(runs: int) -> Iterator[Sequence[str]]:
    """n times the variance of the share of an item that nobody has."""
    yield ("epsilon", "items", "most", "a bit for each item", "one item drawn", "PrivSet", "k")
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for d, most in SIZES:
            bits = UnaryEncoding(range(d), epsilon=epsilon / most, variant="symmetric").variance(1)
            one = SubsetSelection(range(d + most), epsilon=epsilon).variance(1) * most**2
            m = PrivSet(range(d), epsilon=epsilon, most=most)
            numbers = (f"{x:.3g}" for x in (bits, one, m.variance(1)))
            yield (f"{epsilon:g}", str(d), str(most), *numbers, str(m.k))


def population(d: int, most: int, n: int) -> tuple[list[list[int]], I64]:
    """Sets of items, and how many of n people have each."""
    generator, weights = np.random.default_rng(1), 0.9 ** np.arange(d)
    sizes = np.arange(20) % (most + 1)
    sets = [generator.choice(d, size, replace=False, p=weights / weights.sum()).tolist() for size in sizes]
    return sets, apportioned("sets", 0.9 ** np.arange(20), n)


def coverage(m: PrivSet, n: int, runs: int) -> tuple[float, float]:
    """Percentages of intervals that hold: of all items, and of the item of which the fewest do."""
    sets, people = population(m.domain.size, m.most, n)
    generator, true = generator_of(1), np.zeros(m.domain.size)
    for items, number in zip(sets, people.tolist(), strict=True):
        true[items] += number
    counters = np.array([m.simulate_values(sets, people, generator).counters for _ in range(runs)])
    table, _ = HistogramEstimate().rows(m, np.full(runs, n), counters)
    low, high = (np.array(table[name]).reshape(runs, -1) for name in ("low", "high"))
    held = ((low <= true) & (true <= high)).mean(axis=0)
    return 100 * held.mean(), 100 * held.min()


def speeds(runs: int) -> Iterator[Sequence[str]]:
    """Nanoseconds a person."""
    yield ("items", "most", "perturb, ns a person", "tally, ns a report")
    for d, most in SIZES:
        m, n = PrivSet(range(d), epsilon=1.0, most=most), 200_000
        sets, people = population(d, most, n)
        values = [items for items, number in zip(sets, people.tolist(), strict=True) for _ in range(number)]
        column = pa.array(values)
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            reports = m.perturb(column, packed=True)
            middle = time.perf_counter()
            m.tally(reports)
            taken.append((middle - start, time.perf_counter() - middle))
        yield (str(d), str(most), *(f"{1e9 * min(seconds) / n:.0f}" for seconds in zip(*taken, strict=True)))


def intervals(runs: int) -> Iterator[Sequence[str]]:
    yield ("items", "most", "epsilon", "people", "all items", "least item")
    for (d, most), epsilon, n in itertools.product(SIZES, (0.5, 1.0, 2.0), (500, 20_000, 1_000_000)):
        found = coverage(PrivSet(range(d), epsilon=epsilon, most=most), n, runs)
        yield (str(d), str(most), f"{epsilon:g}", f"{n:,}", *(f"{x:.1f}" for x in found))


if __name__ == "__main__":
    print_tables([variances, speeds, intervals], RUNS, __doc__)
