"""Ranges by hierarchical histograms: variance, by exact formulas and from simulated reports; coverage; speed.

    python -m benchmarks.ranges --only variances speeds peer
    python -m benchmarks.ranges --only coverage   # 2,000 runs a population, n and epsilon: about an hour

`LDP-hierarchical-mechanism` (PyPI) is beside it where it is installed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.timing import Job, print_tables
from benchmarks.timing import seconds as taken
from ldp_core import HierarchicalHistogram, SubsetSelection

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


def pairs(d: int, workload: str) -> tuple[I64, I64]:
    if workload == "prefixes":
        return np.zeros(d - 1, np.int64), np.arange(1, d)
    low, high = np.triu_indices(d + 1, 1)
    return low, high


def variances(runs: int) -> Iterator[Sequence[str]]:
    yield ("epsilon", "D", "ranges: exact", "ranges: from reports", "prefixes: exact", "prefixes: from reports")
    for epsilon in (0.5, 1.0, 2.0):
        for d in (64, 256, 1024):
            cells = []
            for workload in ("ranges", "prefixes"):
                m = HierarchicalHistogram(range(d), epsilon=epsilon, workload=workload)
                low, high = pairs(d, workload)
                cells += [f"{m.range_variances(low, high).mean():.2f}", f"{observed(m, low, high):.2f}"]
            yield (str(epsilon), str(d), *cells)


def observed(m: HierarchicalHistogram, low: I64, high: I64, runs: int = 1000, n: int = 20_000) -> float:
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


def best(run: Job) -> float:
    return min(taken(run) for _ in range(5))


def speeds(runs: int) -> Iterator[Sequence[str]]:
    yield (
        "D",
        "perturb, ns",
        "the same by subset selection",
        "tally, ns a report",
        "one range, ms",
        "all prefixes, ms",
    )
    n = 1_000_000
    for d in (64, 256, 1024, 65536):
        m = HierarchicalHistogram(range(d), epsilon=1.0)
        values = np.random.default_rng(1).integers(0, d, n)
        reports = m.perturb(values)
        tally = m.tally(reports)
        asked = np.array([n]), tally.counters[None]
        flat, some = SubsetSelection(range(d), epsilon=1.0), values[: min(n, 20_000_000 // d)]
        cells = (
            best(lambda: m.perturb(values)) / n * 1e9,
            best(lambda: flat.perturb(some, packed=True)) / len(some) * 1e9,
            best(lambda: m.tally(reports)) / n * 1e9,
            best(lambda: m.range_counts(*asked, np.array([d // 3]), np.array([d // 2]))) * 1e3,
            best(lambda: m.range_counts(*asked, np.zeros(d, np.int64), np.arange(1, d + 1))) * 1e3,
        )
        yield (str(d), *(f"{cell:.1f}" for cell in cells))


def peer(runs: int, d: int = 64, n: int = 20_000) -> Iterator[Sequence[str]]:
    """`LDP-hierarchical-mechanism`, where it is installed, and ours, ten times: n Var over all ranges, and time."""
    yield ("fan-out 4", "n Var", "seconds")
    runs = 10
    try:
        from hierarchical_mechanism_LDP.mechanism import Private_TreeBary
    except ImportError:
        yield ("LDP-hierarchical-mechanism", "not installed", "")
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
        tally = m.tally(m.perturb(values))
        ours = m.range_counts(np.array([n]), tally.counters[None], low, high)[0][0]
        seconds += middle - start, time.perf_counter() - middle
        errors += [((found - (before[high] - before[low])) ** 2).mean() / n for found in (theirs, ours)]
    for k, name in enumerate(("LDP-hierarchical-mechanism", "HierarchicalHistogram")):
        yield (name, f"{errors[k] / runs:.1f}", f"{seconds[k] / runs:.3f}")


def populations(d: int) -> dict[str, F64]:
    """Shares of d values."""
    at = (np.arange(d) + 0.5) / d
    bells = 0.5 * np.exp(-(((at - 0.3) / 0.05) ** 2) / 2) / 0.05 + 0.5 * np.exp(-(((at - 0.7) / 0.1) ** 2) / 2) / 0.1
    spike = np.full(d, 0.7 / d)
    spike[d // 3] += 0.3
    integers = np.where(np.arange(d) % 4 == 0, np.exp(-(((at - 0.4) / 0.12) ** 2) / 2), 0)
    shares = {
        "beta(5, 2)": at**4 * (1 - at),
        "two normals": bells,
        "30 % at one value": spike,
        "integers": integers,
        "all at one end": np.eye(d)[0],
        "uniform": np.ones(d),
    }
    return {name: one / one.sum() for name, one in shares.items()}


def coverage(runs: int, d: int = 256) -> Iterator[Sequence[str]]:
    """Of 95 % intervals about the people, of eight ranges: the mean, the least and the greatest."""
    low = np.array([0, 0, 0, d // 4, d // 3, d // 3, d // 8, d // 2])
    high = np.array([1, d // 4, d // 3, d // 2, d // 3 + 1, d // 2, d - 3, d])
    yield ("epsilon", "n", "population", "runs", "mean", "least", "greatest")
    for epsilon in (0.5, 1.0, 2.0):
        m = HierarchicalHistogram(range(d), epsilon=epsilon)
        for n in (500, 20_000, 1_000_000):
            for name, shares in populations(d).items():
                rng = np.random.default_rng(3)
                people = rng.multinomial(n, shares, runs)
                counters = np.array([m.simulate(row, seed=rng).counters for row in people])
                counts, spread = m.range_counts(np.full(runs, n), counters, low, high)
                before = np.cumsum(np.pad(people, ((0, 0), (1, 0))), axis=1)
                inside = np.abs(counts - (before[:, high] - before[:, low])) < 1.959964 * np.sqrt(spread)
                held = inside.mean(axis=0)
                cells = (epsilon, n, name, runs, *(f"{x:.3f}" for x in (held.mean(), held.min(), held.max())))
                yield [str(cell) for cell in cells]


if __name__ == "__main__":
    print_tables([variances, speeds, peer, coverage], 2000, __doc__)
