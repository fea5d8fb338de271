"""Ranges by hierarchical histograms: variance, by exact formulas and from simulated reports; speed.

``python -m benchmarks.ranges`` prints the tables of docs/ranges.md; `benchmarks.ordered` has the coverage.
`LDP-hierarchical-mechanism` (PyPI) is beside it where it is installed.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.simulation import EPSILONS, Table, best, print_tables
from ldp_core import HierarchicalHistogram, SubsetSelection
from ldp_core.engine import I64


def pairs(d: int, workload: str) -> tuple[I64, I64]:
    if workload == "prefixes":
        return np.zeros(d - 1, np.int64), np.arange(1, d)
    low, high = np.triu_indices(d + 1, 1)
    return low, high


def variances(runs: int) -> Table:
    yield "epsilon", "D", "ranges: exact", "ranges: from reports", "prefixes: exact", "prefixes: from reports"
    for epsilon in EPSILONS:
        for d in (64, 256, 1024):
            cells = []
            for workload in ("ranges", "prefixes"):
                m = HierarchicalHistogram(range(d), epsilon=epsilon, workload=workload)
                low, high = pairs(d, workload)
                cells += [f"{m.range_variances(low, high).mean():.2f}", f"{observed(m, low, high, runs):.2f}"]
            yield str(epsilon), str(d), *cells


def observed(m: HierarchicalHistogram, low: I64, high: I64, runs: int, n: int = 20_000) -> float:
    """n Var of shares, of 4,000 of the ranges at most, from simulated reports of people who are spread evenly."""
    d, rng = m.domain.size, np.random.default_rng(2)
    some = rng.permutation(len(low))[:4000]
    low, high = low[some], high[some]
    people = np.full(d, n // d)
    counters = np.array([m.simulate(people, seed=rng).counters for _ in range(runs)])
    total = int(people.sum())
    squares = 0.0
    for rows in np.array_split(counters, 20):
        counts, _ = m.range_counts(np.full(len(rows), total), rows, low, high)
        squares += float(((counts - (high - low) * (n // d)) ** 2).mean(axis=1).sum())
    return squares / runs / total


def speeds(_: int) -> Table:
    yield "D", "perturb, ns", "the same by subset selection", "tally, ns a report", "one range, ms", "all prefixes, ms"
    n = 1_000_000
    for d in (64, 256, 1024, 65536):
        m = HierarchicalHistogram(range(d), epsilon=1.0)
        values = np.random.default_rng(1).integers(0, d, n)
        reports = m.perturb(values)
        asked = np.array([n]), m.tally(reports).counters[None]
        flat, some = SubsetSelection(range(d), epsilon=1.0), values[: min(n, 20_000_000 // d)]
        cells = (
            best(lambda: m.perturb(values)) / n * 1e9,
            best(lambda: flat.perturb(some, packed=True)) / len(some) * 1e9,
            best(lambda: m.tally(reports)) / n * 1e9,
            best(lambda: m.range_counts(*asked, np.array([d // 3]), np.array([d // 2]))) * 1e3,
            best(lambda: m.range_counts(*asked, np.zeros(d, np.int64), np.arange(1, d + 1))) * 1e3,
        )
        yield str(d), *(f"{cell:.1f}" for cell in cells)


def peer(_: int, d: int = 64, n: int = 20_000, runs: int = 10) -> Table:
    """n Var over all ranges, and time, in one run."""
    yield "in one run", "n Var", "seconds"
    try:
        from hierarchical_mechanism_LDP.mechanism import Private_TreeBary
    except ImportError:
        yield "LDP-hierarchical-mechanism is not installed", "", ""
        return
    values, (low, high) = np.arange(n) % d, pairs(d, "ranges")
    before = np.cumsum(np.append(0, np.bincount(values, minlength=d)))
    m, errors, seconds = HierarchicalHistogram(range(d), epsilon=1.0), np.zeros(2), np.zeros(2)
    for _ in range(runs):
        start = time.perf_counter()
        tree = Private_TreeBary(d, 4, 1.0, on_all_levels=False)
        tree.update_tree(values)
        tree.post_process()
        curve = n * np.append(0, tree.cdf)  # (as `get_range_query` does, but from the first value on)
        theirs = curve[high] - curve[low]
        middle = time.perf_counter()
        ours = m.range_counts(np.array([n]), m.tally(m.perturb(values)).counters[None], low, high)[0][0]
        seconds += middle - start, time.perf_counter() - middle
        errors += [((found - (before[high] - before[low])) ** 2).mean() / n for found in (theirs, ours)]
    for k, name in enumerate(("LDP-hierarchical-mechanism, fan-out 4", "HierarchicalHistogram")):
        yield name, f"{errors[k] / runs:.1f}", f"{seconds[k] / runs:.3f}"


if __name__ == "__main__":
    print_tables([variances, speeds, peer], 1000, __doc__)
