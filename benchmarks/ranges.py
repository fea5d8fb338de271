"""Ranges by hierarchical histograms: variance, by exact formulas and from simulated reports; coverage; speed.

    python -m benchmarks.ranges            # variances and speeds
    python -m benchmarks.ranges coverage   # 2,000 runs a population, n and epsilon: about an hour

`LDP-hierarchical-mechanism` (PyPI) is beside it where it is installed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ldp_core import HierarchicalHistogram, SubsetSelection

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


def main() -> None:
    if "coverage" in sys.argv[1:]:
        coverage(2000)
    else:
        variances()
        speeds()


def pairs(d: int, workload: str) -> tuple[I64, I64]:
    if workload == "prefixes":
        return np.zeros(d - 1, np.int64), np.arange(1, d)
    low, high = np.triu_indices(d + 1, 1)
    return low, high


def variances() -> None:
    print("| epsilon | D | ranges: exact | ranges: from reports | prefixes: exact | prefixes: from reports |")
    print("| --- | --- | --- | --- | --- | --- |")
    for epsilon in (0.5, 1.0, 2.0):
        for d in (64, 256, 1024):
            cells = []
            for workload in ("ranges", "prefixes"):
                m = HierarchicalHistogram(range(d), epsilon=epsilon, workload=workload)
                low, high = pairs(d, workload)
                exact = float(np.mean([m.range_variance(a, b) for a, b in _some(low, high)]))
                cells += [f"{exact:.2f}", f"{observed(m, *np.array(_some(low, high)).T):.2f}"]
            print("|", " | ".join([str(epsilon), str(d), *cells]), "|", flush=True)


def _some(low: I64, high: I64) -> list[tuple[int, int]]:
    """4,000 of the ranges, drawn; or all, if they are fewer."""
    chosen = np.random.default_rng(1).permutation(len(low))[:4000]
    return list(zip(low[chosen].tolist(), high[chosen].tolist(), strict=True))


def observed(m: HierarchicalHistogram, low: I64, high: I64, runs: int = 300, n: int = 20_000) -> float:
    """n Var of shares, from simulated reports of people who are spread evenly."""
    d, rng = m.domain.size, np.random.default_rng(2)
    people = np.full(d, n // d)
    counters = np.array([m.simulate(people, seed=rng).counters for _ in range(runs)])
    total = int(people.sum())
    counts, _ = m.range_counts(np.full(runs, total), counters, low, high)
    return float(((counts - (high - low) * (n // d)) ** 2).mean() / total)


def speeds() -> None:
    print(
        "\n| D | perturb, ns | the same by subset selection | tally, ns a report | one range, ms | all prefixes, ms |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
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
        print("|", d, "|", " | ".join(f"{cell:.1f}" for cell in cells), "|", flush=True)


def best(run: Callable[[], object], times: int = 5) -> float:
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


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


def coverage(runs: int, d: int = 256) -> None:
    """Of 95 % intervals about the people, of eight ranges: the mean, the least and the greatest."""
    low = np.array([0, 0, 0, d // 4, d // 3, d // 3, d // 8, d // 2])
    high = np.array([1, d // 4, d // 3, d // 2, d // 3 + 1, d // 2, d - 3, d])
    print("| epsilon | n | population | runs | mean | least | greatest |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
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
                print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
