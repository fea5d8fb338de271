"""``python -m benchmarks.comparisons``: what comparisons promise, by seeded simulations; tables in Markdown.

Levels and powers of the chi-square test of a whole histogram, the power that `required_n` plans for, simultaneous
coverage over many looks, and the run length of the CUSUM.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks.simulation import EPSILONS, Table, percent, print_tables, zipf
from ldp_core import RandomizedResponse, SubsetSelection, UnaryEncoding, required_n
from ldp_core.estimates.change import threshold
from ldp_core.estimates.comparison import Compare
from ldp_core.estimates.quantile_differences import CompareQuantiles

RUNS = 2000
ORACLES = {
    "OUE": lambda d, epsilon: UnaryEncoding(range(d), epsilon=epsilon),
    "SUE": lambda d, epsilon: UnaryEncoding(range(d), epsilon=epsilon, variant="symmetric"),
    "randomized response": lambda d, epsilon: RandomizedResponse(range(d), epsilon=epsilon),
    "subset selection": lambda d, epsilon: SubsetSelection(range(d), epsilon=epsilon),
}


def tallies(m, shares, n: int, runs: int, generator: np.random.Generator) -> np.ndarray:
    """int64[runs, d]: counters of n reports of people drawn from a population."""
    if isinstance(m, RandomizedResponse):
        return generator.multinomial(n, m.q + (m.p - m.q) * shares, size=runs)
    people = generator.multinomial(n, shares, size=runs)
    if not isinstance(m, UnaryEncoding):
        codes = np.arange(len(shares), dtype=m.domain.code_dtype)
        return np.array([m.simulate_counters(codes, row, generator) for row in people])
    return generator.binomial(people, m.p) + generator.binomial(n - people, m.q)


def compared(m, shares, others, sizes, runs: int, seed: int, **asked):
    """The columns of `Compare.rows` of so many runs: [runs, d] and [runs]."""
    generator = np.random.default_rng(seed)
    sides = [tallies(m, f, n, runs, generator) for f, n in zip((shares, others), sizes, strict=True)]
    names = ("before", "after", "difference", "se", "low", "high", "p", "p_adjusted", "statistic", "degrees", "p_all")
    found = Compare(**asked)._arrays(m, np.tile(sizes, (runs, 1)), np.stack(sides, axis=1))
    return dict(zip(names, found, strict=False))


def levels(runs: int) -> Table:
    yield ("mechanism", "d", "epsilon", "level: all values", "any value (Holm)", "coverage of the differences")
    for k, (name, make) in enumerate(ORACLES.items()):
        for d in (2, 4, 16, 40) if k < 3 else (4, 16):  # (subsets are drawn one by one)
            for epsilon in EPSILONS:
                f = zipf(d)
                seed = 1000 * k + 10 * d + int(2 * epsilon)
                found = compared(make(d, epsilon), f, f, (20_000, 12_000), runs, seed)
                hold = ((found["low"] <= 0) & (found["high"] >= 0)).mean()
                shares = ((found["p_all"] < 0.05).mean(), (found["p_adjusted"].min(axis=1) < 0.05).mean(), hold)
                yield (name, str(d), f"{epsilon:g}", *percent(*shares))


def powers(runs: int) -> Table:
    yield ("mechanism", "epsilon", "change", "planned power", "people a side", "power")
    for k, (name, make) in enumerate(ORACLES.items()):
        for epsilon, change, power in ((0.5, 0.05, 0.8), (1.0, 0.01, 0.8), (1.0, 0.03, 0.5), (2.0, 0.01, 0.9)):
            m = make(16 if k else 2, epsilon)
            need = required_n(m, change=change, base=0.05, power=power).n
            rest = m.domain.size - 1
            shares = [np.array([f, *[(1 - f) / rest] * rest]) for f in (0.05, 0.05 + change)]
            found = compared(m, *shares, (need, need), runs, seed=77 + k)
            reached = (found["p"][:, 0] < 0.05).mean()
            yield (name, f"{epsilon:g}", f"{100 * change:g} %", f"{power:.0%}", f"{need:,}", *percent(reached))


def medians(runs: int) -> Table:
    """Of a smooth population, one with all values alike, and one of which 40 % have one value; and of these shifted."""
    yield ("mechanism", "d", "epsilon", "people a side", "median: level", "coverage of a shift", "worst")
    for k, (name, make) in enumerate(ORACLES.items()):
        d = (64, 16, 6)[min(k, 2)]
        for epsilon, n in product((1.0, 3.0), (1000, 10_000)) if k < 3 else ():  # (subsets are drawn one by one)
            bell = np.exp(-(((np.arange(d) - 0.4 * d) / (0.15 * d)) ** 2) / 2)
            called, held = [], []
            for seed, f in enumerate(
                (bell / bell.sum(), np.full(d, 1 / d), np.full(d, 0.6 / d) + 0.4 * np.eye(d)[d // 3])
            ):
                m, generator = make(d, epsilon), np.random.default_rng(seed)
                later = np.concatenate([np.zeros(d // 8), f[: d - d // 8]]) / f[: d - d // 8].sum()
                for shares, is_held in ((f, called), (later, held)):
                    true = [int(np.argmax(np.cumsum(one) >= 0.5 - 1e-9)) for one in (f, shares)]
                    sizes = (n, n // 2)
                    sides = [tallies(m, one, k, runs, generator) for one, k in zip((f, shares), sizes, strict=True)]
                    found, _ = CompareQuantiles().rows(m, np.tile(sizes, (runs, 1)), np.stack(sides, axis=1))
                    low, high = (found[end].to_numpy() for end in ("low", "high"))
                    is_held.append(np.mean((low <= true[1] - true[0]) & (true[1] - true[0] <= high)))
            shown = percent(1 - min(called), float(np.mean(held)), min(held))
            yield (name, str(d), f"{epsilon:g}", f"{n:,}", *shown)


def looks(runs: int) -> Table:
    yield ("60 looks, 500 to 100,000 reports a side", "all intervals hold", "all values: ever called changed")
    m, f, generator = RandomizedResponse(range(4), epsilon=1.0), zipf(4), np.random.default_rng(5)
    at = np.unique(np.round(np.geomspace(500, 100_000, 60)).astype(int))
    lam = m.q + (m.p - m.q) * f
    counters = np.zeros((2, runs, len(at), 4), np.int64)
    for side in counters:
        more = [generator.multinomial(n, lam, size=runs) for n in np.diff(at, prepend=0)]
        side[:] = np.cumsum(np.stack(more, axis=1), axis=1)
    for asked, name in ((None, "ordinary"), (True, "anytime"), (50_000, "anytime, tightest at 50,000")):
        ask, fixed = Compare(anytime=asked), np.tile(np.stack([at, at], axis=1), (runs, 1))
        found = ask._arrays(m, fixed, np.moveaxis(counters, 0, 2).reshape(-1, 2, 4))
        holds = ((found[4] <= 0) & (found[5] >= 0)).reshape(runs, len(at), 4)[..., 0].all(axis=1).mean()
        ever = (found[10].reshape(runs, len(at)) < 0.05).any(axis=1).mean()
        yield (name, *percent(holds, ever))


def run_lengths(runs: int) -> Table:
    """Of standardized differences of one value to all windows before, as `changes` has them."""
    yield ("run length asked for", "windows until the first false alarm, on average", "standard error")
    generator = np.random.default_rng(8)
    for wanted in (100, 500):
        limit, length = threshold(2 * wanted, 0.5), np.zeros(runs)
        sums, mean, alive, window = np.zeros((2, runs)), generator.normal(size=runs), np.ones(runs, bool), 1
        while alive.any():
            new = generator.normal(size=runs)
            z = (new - mean) / np.sqrt(1 + 1 / window)
            mean += (new - mean) / (window + 1)
            sums, window = np.maximum(sums + np.array([z, -z]) - 0.5, 0), window + 1
            length[alive] = window
            alive &= (sums <= limit).all(axis=0)
        yield (str(wanted), f"{length.mean():.0f}", f"{length.std() / np.sqrt(runs):.0f}")


if __name__ == "__main__":
    print_tables([levels, powers, medians, looks, run_lengths], RUNS, __doc__)
