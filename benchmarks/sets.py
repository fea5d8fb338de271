"""Shares of items of sets: variance, by exact formulas, and how often intervals hold: ``python -m benchmarks.sets``.

The tables of docs/sets.md. A population is 20 sets, the empty one among them, of items of which each is 0.9 times as
frequent as the one before, in shares that fall likewise. Intervals are about these people, and noise is the only error.
A cell is the share of RUNS tallies whose interval holds the true number, in percent: the mean over all items, and the
least of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from benchmarks.simulation import Table, best, cases, ends, print_tables, simulated
from ldp_core import HistogramEstimate, PrivSet, SubsetSelection, UnaryEncoding
from ldp_core.engine import I64, apportioned

RUNS = 2000
ITEMS = ((20, 3), (50, 5), (100, 10))


def variances(_: int) -> Table:
    """n times the variance of the share of an item that nobody has."""
    yield "epsilon", "items", "most", "a bit for each item", "one item drawn", "PrivSet", "k"
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for d, most in ITEMS:
            bits = UnaryEncoding(range(d), epsilon=epsilon / most, variant="symmetric").variance(1)
            one = SubsetSelection(range(d + most), epsilon=epsilon).variance(1) * most**2
            m = PrivSet(range(d), epsilon=epsilon, most=most)
            yield f"{epsilon:g}", str(d), str(most), *(f"{x:.3g}" for x in (bits, one, m.variance(1))), str(m.k)


def population(d: int, most: int, n: int) -> tuple[list[list[int]], I64]:
    """Sets of items, and how many of n people have each."""
    generator, weights = np.random.default_rng(1), 0.9 ** np.arange(d)
    sizes = np.arange(20) % (most + 1)
    sets = [generator.choice(d, size, replace=False, p=weights / weights.sum()).tolist() for size in sizes]
    return sets, apportioned("sets", 0.9 ** np.arange(20), n)


def speeds(_: int) -> Table:
    yield "items", "most", "perturb, ns a person", "tally, ns a report"
    for d, most in ITEMS:
        m, n = PrivSet(range(d), epsilon=1.0, most=most), 200_000
        sets, people = population(d, most, n)
        column = pa.array([items for items, number in zip(sets, people.tolist(), strict=True) for _ in range(number)])
        reports = m.perturb(column, packed=True)
        taken = best(lambda: m.perturb(column, packed=True)), best(lambda: m.tally(reports))
        yield str(d), str(most), *(f"{1e9 * one / n:.0f}" for one in taken)


def coverage(runs: int) -> Table:
    yield "items", "most", "epsilon", "people", "all items", "least item"
    for (d, most), epsilon, n in cases(ITEMS):
        m, (sets, people) = PrivSet(range(d), epsilon=epsilon, most=most), population(d, most, n)
        true = np.zeros(d)
        for items, number in zip(sets, people.tolist(), strict=True):
            true[items] += number
        low, high = ends(HistogramEstimate(), m, n, simulated(m, sets, people, runs, seed=1))
        held = ((low <= true) & (true <= high)).mean(axis=0)
        yield str(d), str(most), f"{epsilon:g}", f"{n:,}", f"{100 * held.mean():.1f}", f"{100 * held.min():.1f}"


if __name__ == "__main__":
    print_tables([variances, speeds, coverage], RUNS, __doc__)
