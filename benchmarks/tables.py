"""``python -m benchmarks.tables``: what tables of two and three columns promise, by seeded simulations; in Markdown.

Coverage of 95 % intervals of counts and rates, levels of the test of independence, Cramer's V, and the time of a tally.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from benchmarks.simulation import Table, best, print_tables, zipf
from ldp_core import Joint, Keystream, PrivacyPlan, RandomizedResponse, SubsetSelection, TableEstimate, UnaryEncoding
from ldp_core.estimates.association import Association
from ldp_core.estimates.several import RowsOf
from ldp_core.plans import answered

RUNS = 2000
PAIRS = {
    "OUE x OUE": (UnaryEncoding, UnaryEncoding),
    "RR x OUE": (RandomizedResponse, UnaryEncoding),
    "SS x RR": (SubsetSelection, RandomizedResponse),
}
THREE = {
    "OUE x RR x RR": (UnaryEncoding, RandomizedResponse, RandomizedResponse),
    "SS x OUE x RR": (SubsetSelection, UnaryEncoding, RandomizedResponse),
}
SHAPES = ((4, 3), (16, 8))
SIZES = (2000, 20_000, 200_000)
MOST_REPORTS = 2000 * 200_000  # of a row: of more people there are fewer runs


def shares_of(shape: tuple[int, ...], *, independent: bool) -> np.ndarray:
    """Of each cell: Zipf's in each column; dependent ones have a tenth more where the sum of the codes is even."""
    shares = reduce(np.multiply.outer, map(zipf, shape))
    if not independent:
        shares *= 1 + 0.4 * (-1.0) ** np.indices(shape).sum(axis=0)
    return shares / shares.sum()


def joint_of(name: str, shape: tuple[int, ...], epsilon: float) -> Joint:
    kinds = zip("xyz", (PAIRS | THREE)[name], shape, strict=False)
    return Joint({c: kind(range(d), epsilon=epsilon) for c, kind, d in kinds})


def tallies(joint: Joint, people: np.ndarray, seed: int) -> np.ndarray:
    """int64[runs, counters], of so many people with each combination of values, int64[runs, d1, d2, ...]."""
    key = np.random.default_rng(seed).bytes(32)  # simulated reports protect nobody
    noise, out = Keystream(key), []
    for counts in people:
        codes = [np.repeat(of.ravel(), counts.ravel()) for of in np.indices(counts.shape, dtype=np.uint8)]
        reports = RowsOf(
            *(m.draw(of.astype(np.int64), noise, "x") for m, of in zip(joint.mechanisms, codes, strict=True))
        )
        out.append(joint.count_reports(reports, np.broadcast_to(np.int64(0), len(reports)), 1)[0])
    return np.array(out)


def cases(runs: int) -> Iterator[tuple[Any, ...]]:
    """The first cells of a row, and the number of the case, the columns, their shape, n, runs."""
    for number, (name, shape, n) in enumerate((*product(PAIRS, SHAPES, SIZES), *product(THREE, [(4, 3, 2)], SIZES))):
        epsilon, fewer = 1.0 if n > 2000 else 2.0, min(runs, max(MOST_REPORTS // n, 200))
        row = [name, " x ".join(map(str, shape)), f"{epsilon:g}", f"{n:,}", f"{fewer:,}"]
        yield row, number, joint_of(name, shape, epsilon), shape, n, fewer


HEAD = ("columns", "values", "epsilon", "n", "runs")


def coverage(runs: int) -> Table:
    yield *HEAD, "counts", "by cell", "of a population", "by cell", "rates", "by cell"
    for row, number, pair, shape, n, fewer in cases(runs):
        shares, generator = shares_of(shape, independent=False), np.random.default_rng(number)
        fixed = generator.multinomial(n, shares.ravel()).reshape(shape)
        sampled = generator.multinomial(n, shares.ravel(), size=fewer).reshape(-1, *shape)
        found = []
        for people, population, true in (
            (np.broadcast_to(fixed, sampled.shape), None, fixed),
            (sampled, "many", n * shares),
        ):
            made, asked = tallies(pair, people, number), TableEstimate(population=population)
            _, _, low, high, _, _, rate_low, rate_high = asked._arrays(pair, np.full(fewer, n), made)[0]
            rates = true / true.sum(axis=-1, keepdims=True)
            found += [(low <= true) & (true <= high), (rate_low <= rates) & (rates <= rate_high)]
        counts, rates_of_these, of_population, _ = found
        for held in (counts, of_population, rates_of_these):
            row += [f"{held.mean():.3f}", f"{held.mean(0).min():.3f} to {held.mean(0).max():.3f}"]
        yield row


def levels(runs: int) -> Table:
    yield *HEAD, "independent: p < 0.05", "dependent"
    for row, number, pair, shape, n, fewer in cases(runs):
        for independent in (True, False):
            shares = shares_of(shape, independent=independent)
            people = np.random.default_rng(number).multinomial(n, shares.ravel(), size=fewer).reshape(-1, *shape)
            of, made = np.full(fewer, n), tallies(pair, people, number)
            row.append(f"{(association(pair, of, made).p_value < 0.05).mean():.3f}")
        yield row


def association(pair: Any, n: np.ndarray, made: np.ndarray) -> Association:
    asked = TableEstimate()
    return pair.association(asked, n, made, pair.arrays(asked, n, made)[1])


def shares_with(v: float, shape: tuple[int, int]) -> np.ndarray:
    """Of each pair, with this V: so much of the coupling in which both columns grow together, Zipf's in each."""
    apart = np.outer(*map(zipf, shape))
    f, g = (np.append(0, np.cumsum(zipf(d))) for d in shape)
    both = np.minimum.outer(f[1:], g[1:]) - np.maximum.outer(f[:-1], g[:-1])
    moved = np.maximum(both, 0) - apart
    return apart + moved * v / np.sqrt((moved**2 / apart).sum() / (min(shape) - 1))


def cramers_v(runs: int) -> Table:
    yield *HEAD[:-1], "V", "it is known", "its interval holds", "mean width", "p < 0.05"
    for name, shape, (epsilon, n) in product([*PAIRS, "plan of pairs"], ((2, 2), (4, 3)), ((2.0, 2000), (1.0, 20_000))):
        if name in PAIRS:
            pair: Any = joint_of(name, shape, epsilon)
        else:
            plan = PrivacyPlan.pairs(
                {c: range(d) for c, d in zip("xyz", (*shape, 2), strict=True)}, epsilon=2 * epsilon
            )
            pair = answered.joint_of(plan.columns, ("x", "y"))
        for seed, v in enumerate((0.0, 0.1, 0.3, 0.5)):
            generator = np.random.default_rng(seed)
            people = generator.multinomial(n, shares_with(v, shape).ravel(), size=runs)
            if name in PAIRS:
                made = tallies(pair, people.reshape(-1, *shape), seed)
            else:
                m, codes = pair.mechanism, np.arange(people.shape[1])
                made = np.array([m.simulate_counters(codes, of, generator) for of in people])
            found = association(pair, np.full(runs, n), made)
            known = ~np.isnan(found.cramers_v)
            low, high = found.cramers_v_low[known], found.cramers_v_high[known]
            held = ((low <= v) & (v <= high)).mean()
            numbers = (v, known.mean(), held, (high - low).mean(), (found.p_value < 0.05).mean())
            epsilons = f"{epsilon:g} each" if name in PAIRS else f"{2 * epsilon:g}"
            yield [name, f"{shape[0]} x {shape[1]}", epsilons, f"{n:,}", *(f"{one:.3g}" for one in numbers)]


def times(_: int) -> Table:
    yield "reports", "one column, ns a row", "the pair, ns a row", "times"
    m = UnaryEncoding(range(16), epsilon=1.0)
    pair = Joint({"x": m, "y": m})
    for n in (100_000, 1_000_000, 4_000_000):
        columns = {c: m.perturb(np.arange(n) % 16, packed=True) for c in "xy"}
        one, both = (best(call, 9) / n for call in (lambda: m.tally(columns["x"]), lambda: pair.tally(columns)))
        yield f"{n:,}", f"{1e9 * one:.2f}", f"{1e9 * both:.2f}", f"{both / one:.2f}"


if __name__ == "__main__":
    print_tables([coverage, levels, cramers_v, times], RUNS, __doc__)
