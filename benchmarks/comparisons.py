"""``python -m benchmarks.comparisons``: what comparisons promise, by seeded simulations; tables in Markdown.

Levels and powers of the chi-square test of a whole histogram, also where people report again, the power that
`required_n` plans for, simultaneous coverage over many looks, and the run length of the CUSUM.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np

import ldp_core as ldp
from benchmarks.simulation import EPSILONS, Table, percent, print_tables, zipf
from ldp_core.estimates.change import threshold
from ldp_core.estimates.comparison import Compare
from ldp_core.estimates.comparison_of_persons import ComparePersons
from ldp_core.estimates.quantile_differences import CompareQuantiles
from ldp_core.mechanisms.oracles.local_hashing import AffineFamily, HashedReports
from ldp_core.plans.fake import FakeDataColumn
from ldp_core.plans.sampled import SampledColumn

RUNS = 2000
ORACLES = {
    "OUE": lambda d, epsilon: ldp.UnaryEncoding(range(d), epsilon=epsilon),
    "SUE": lambda d, epsilon: ldp.UnaryEncoding(range(d), epsilon=epsilon, variant="symmetric"),
    "randomized response": lambda d, epsilon: ldp.RandomizedResponse(range(d), epsilon=epsilon),
    "subset selection": lambda d, epsilon: ldp.SubsetSelection(range(d), epsilon=epsilon),
}


OTHERS = {
    "local hashing": lambda d: ldp.LocalHashing(range(d), epsilon=1.0),
    "local hashing, binary": lambda d: ldp.LocalHashing(range(d), epsilon=1.0, variant="binary"),
    "local hashing, fast": lambda d: ldp.LocalHashing(range(d), epsilon=1.0, variant="fast"),
    "Hadamard response": lambda d: ldp.HadamardResponse(range(d), epsilon=1.0),
    "Hadamard response, 2 blocks": lambda d: ldp.BlockHadamardResponse(range(d), epsilon=1.0, blocks=2),
    "projective geometry": lambda d: ldp.ProjectiveGeometryResponse(range(d), epsilon=1.0),
    "projective geometry, hybrid": lambda d: ldp.HybridProjectiveGeometryResponse(range(d), epsilon=1.0),
    "THE": lambda d: ldp.ThresholdHistogramEncoding(range(d), epsilon=1.0),
    "SHE": lambda d: ldp.SummationHistogramEncoding(range(d), epsilon=1.0),
    "L-GRR": lambda d: ldp.LongitudinalRandomizedResponse(range(d), epsilon_infinity=2.0, epsilon_1=1.0),
    "L-OSUE": lambda d: ldp.LongitudinalUnaryEncoding(range(d), epsilon_infinity=2.0, epsilon_1=1.0),
    "LOLOHA, 4 buckets": lambda d: ldp.Loloha(range(d), epsilon_infinity=2.0, epsilon_1=1.0, g=4),
    "dBitFlip, 2 bits": lambda d: ldp.DBitFlip(range(d), epsilon_infinity=1.0, bits=2),
    "fake data, 3 columns, OUE": lambda d: FakeDataColumn(ldp.UnaryEncoding(range(d), epsilon=1.0), columns=3),
    "sampled, 3 columns, OUE": lambda d: SampledColumn(ldp.UnaryEncoding(range(d), epsilon=1.0), columns=3),
}
REPEATS = 7


def tallies(m, shares, n: int, runs: int, generator: np.random.Generator) -> np.ndarray:
    """int64[runs, d]: counters of n reports of people drawn from a population."""
    if isinstance(m, ldp.RandomizedResponse):
        return generator.multinomial(n, m.q + (m.p - m.q) * shares, size=runs)
    people = generator.multinomial(n, shares, size=runs)
    if not isinstance(m, ldp.UnaryEncoding):
        codes = np.arange(len(shares), dtype=m.domain.code_dtype)
        if not (isinstance(m, HashedReports) and isinstance(m.family, AffineFamily)):
            return np.array([m.simulate_counters(codes, row, generator) for row in people])
        found = []
        for row in people:  # (simulated, their functions are independent)
            noise = ldp.Keyed(ldp.Secret.from_seed(int(generator.integers(2**62))), np.arange(n), column="x")
            found.append(m.tally(m.perturb(np.repeat(m.domain.labels, row), randomness=noise)).counters)
        return np.array(found)
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


def all_levels(runs: int) -> Table:
    yield ("mechanism, epsilon 1", "level: all values, d = 4", "d = 16")
    for k, (name, make) in enumerate(OTHERS.items()):
        found = []
        for d in (4, 16):
            f, same_people = zipf(d), False if make(d).memoized else None
            one = compared(make(d), f, f, (20_000, 12_000), runs, 900 + 100 * k + d, same_people=same_people)
            found.append((one["p_all"] < 0.05).mean())
        yield (name, *percent(*found))


def repeated(runs: int) -> Table:
    """Of 2,000 and 1,500 people, who report 7 times each; a value changes with the probability 1/5."""
    yield (
        *("d", "noise", "values", "level: all values", "with `repeats=`"),
        *("coverage of the differences", "with `repeats=`", "pooled", "with `repeats=`"),
    )
    for seed, (d, keyed, changing) in enumerate(product((2, 4, 16), (False, True), (False, True))):
        m, f, generator = ldp.RandomizedResponse(range(d), epsilon=1.0), zipf(d), np.random.default_rng(seed)
        n = np.array([2000, 1500])
        counters = np.array(
            [[_of_people(m, f, k, REPEATS, keyed, changing, generator)[0].sum(axis=0) for k in n] for _ in range(runs)]
        )
        sizes, cells = np.tile(REPEATS * n, (runs, 1)), []
        for repeats in (None, REPEATS):
            found = Compare(repeats=repeats)._arrays(m, sizes, counters)
            held = np.zeros(d)
            for pair in counters:
                both = [(m, ldp.Tally(REPEATS * int(k), c, m.fingerprint)) for k, c in zip(n, pair, strict=True)]
                one = ldp.pool(both, repeats=repeats)
                held += (one.low <= f) & (f <= one.high)
            cells.append(((found[10] < 0.05).mean(), ((found[4] <= 0) & (found[5] >= 0)).mean(), held.mean() / runs))
        columns = [one for both in zip(*cells, strict=True) for one in both]
        yield (str(d), "keyed" if keyed else "fresh", "change" if changing else "stay", *percent(*columns))


def _of_people(m, shares, people: int, reports: int, keyed, changing: bool, generator, now=None):
    """int64[people, d]: counters of so many reports of each; and what they would answer to each value, their values.

    ``keyed``: whether they always answer a value alike, or what they answer; ``now``: their values, if they have some.
    """
    d, found = len(shares), np.zeros((people, len(shares)), np.int64)
    now = generator.choice(d, people, p=shares) if now is None else now

    def answers(values):
        others = generator.integers(0, d - 1, values.shape)
        return np.where(generator.random(values.shape) < m.p, values, others + (others >= values))

    own = answers(np.tile(np.arange(d), (people, 1))) if keyed is True else keyed
    for _ in range(reports):
        found[np.arange(people), answers(now) if own is False else own[np.arange(people), now]] += 1
        if changing:
            now = np.where(generator.random(people) < 0.2, generator.choice(d, people, p=shares), now)
    return found, own, now


def by_persons(same: bool, keyed: bool, changing: bool, reports: int, runs: int, seed: int, d: int = 4) -> np.ndarray:
    """Levels of the test of all values and of any (Holm), and coverage of the differences; nothing differs.

    Of 2,000 people, and the same again, of whom one in five has a new value; or 1,500 others.
    """
    m, f, generator = ldp.RandomizedResponse(range(d), epsilon=1.0), zipf(d), np.random.default_rng(seed)
    asked, found = ComparePersons(), []
    for _ in range(runs):
        before, own, now = _of_people(m, f, 2000, reports, keyed, changing, generator)
        if same:
            now = np.where(generator.random(2000) < 0.2, generator.choice(d, 2000, p=f), now)
            after, *_ = _of_people(m, f, 2000, reports, own, changing, generator, now)
            counters = np.stack([before, after], axis=1)
        else:
            after, *_ = _of_people(m, f, 1500, reports, keyed, changing, generator)
            sides = (np.concatenate([before, 0 * after]), np.concatenate([0 * before, after]))
            counters = np.stack(sides, axis=1)
        sums = asked.person_sums(m, counters.sum(axis=2), counters)
        sides = [ldp.Tally(int(side.sum()), side, m.fingerprint) for side in counters.sum(axis=0)]
        one = asked.of_sums(m, sides, sums)
        found.append((one.p_value < 0.05, one.p_adjusted.min() < 0.05, ((one.low <= 0) & (one.high >= 0)).mean()))
    return np.mean(found, axis=0)


def persons(runs: int) -> Table:
    yield ("people", "noise", "values", "reports of each", "level: all values", "any value (Holm)", "coverage")
    cases = product((False, True), (False, True), (False, True), (1, 7, 30))
    for seed, (same, keyed, changing, reports) in enumerate(cases, 50):
        how = ("the same" if same else "others", "keyed" if keyed else "fresh", "change" if changing else "stay")
        yield (*how, str(reports), *percent(*by_persons(same, keyed, changing, reports, runs, seed)))


SKETCH = {"epsilon": 2.0, "hashes": 8, "width": 64}
SETS = {
    "PrivSet, at most 2 items": lambda d: ldp.PrivSet(range(d), epsilon=1.0, most=2),
    "count mean sketch": lambda d: ldp.CountMeanSketch("int", **SKETCH).over(range(d)),
    "Hadamard count mean sketch": lambda d: ldp.HadamardCountMeanSketch("int", **SKETCH).over(range(d)),
}


def each_row(runs: int) -> Table:
    """Of mechanisms whose covariances are not known: 500 and 400 people, of whom each has one report."""
    yield ("mechanism", "d", "level: all values", "any value (Holm)", "coverage")
    for (name, make), d in product(SETS.items(), (4, 16)):
        m, generator, found = make(d), np.random.default_rng(d), []
        for _ in range(runs):
            sides = []
            for n in (500, 400):
                values = generator.choice(d, n, p=zipf(d))
                codes = np.stack([values, (values + generator.integers(0, 2, n)) % d], axis=1)
                held = codes.tolist() if isinstance(m, ldp.PrivSet) else values
                rows, secret = np.arange(n) + 500 * len(sides), ldp.Secret.from_seed(int(generator.integers(2**62)))
                sides.append((m.perturb(held, randomness=ldp.Keyed(secret, rows, column="x")), rows))
            one = ldp.compare_persons(m, *sides)
            found.append((one.p_value < 0.05, one.p_adjusted.min() < 0.05, ((one.low <= 0) & (one.high >= 0)).mean()))
        yield (name, str(d), *percent(*np.mean(found, axis=0)))


def powers(runs: int) -> Table:
    yield ("mechanism", "epsilon", "change", "planned power", "people a side", "power")
    for k, (name, make) in enumerate(ORACLES.items()):
        for epsilon, change, power in ((0.5, 0.05, 0.8), (1.0, 0.01, 0.8), (1.0, 0.03, 0.5), (2.0, 0.01, 0.9)):
            m = make(16 if k else 2, epsilon)
            need = ldp.required_n(m, change=change, base=0.05, power=power).n
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
            cells = percent(1 - min(called), float(np.mean(held)), min(held))
            yield (name, str(d), f"{epsilon:g}", f"{n:,}", *cells)


def looks(runs: int) -> Table:
    yield ("60 looks, 500 to 100,000 reports a side", "all intervals hold", "all values: ever called changed")
    m, f, generator = ldp.RandomizedResponse(range(4), epsilon=1.0), zipf(4), np.random.default_rng(5)
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
    warnings.simplefilter("ignore", ldp.LdpWarning)  # (keyed noise looks implausible)
    print_tables([levels, all_levels, repeated, persons, each_row, powers, medians, looks, run_lengths], RUNS, __doc__)
