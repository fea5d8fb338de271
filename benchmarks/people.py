"""``python -m benchmarks.people``: how often 95 % intervals hold where people report again; tables in Markdown.

2,000 people, of whom a share of 20 % has a value, are drawn from a large population in each run; then few people.
Each reports so often; a value stays, or is drawn anew each time with the probability 1/5. Noise is fresh, keyed, or
that of a longitudinal mechanism. What is drawn is how many reports of each person say yes, which is all that there is
in a tally.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np

import ldp_core as ldp
from benchmarks.simulation import Table, percent, print_tables

RUNS, PEOPLE, SHARE, CHANGES = 2000, 2000, 0.2, 0.2
NOISE = ("fresh", "keyed", "longitudinal")
FEW = (10, 15, 20, 50, 100)
CASES = list(product((0.01, 0.05, 0.2, 0.5), (0.5, 1.0, 3.0)))  # share and epsilon


def with_value(n: np.ndarray, changing: bool, share: float, generator: np.random.Generator) -> np.ndarray:
    """int64[people]: in how many of its n reports each has the value."""
    now = generator.random(len(n)) < share
    if not changing:
        return n * now
    found = np.zeros(len(n), np.int64)
    for report in range(n.max()):
        found += now & (report < n)
        anew = generator.random(len(n)) < CHANGES
        now = np.where(anew, generator.random(len(n)) < share, now)
    return found


def said_yes(m, noise: str, own: np.ndarray, n: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """int64[people]: how many of n reports say yes, of which ``own`` are of the value."""
    rest = n - own
    if noise == "fresh":
        return generator.binomial(own, m.p) + generator.binomial(rest, m.q)
    first = m if noise == "keyed" else m.permanent
    yes, no = (generator.random(len(n)) < chance for chance in (first.p, first.q))  # to either value the same again
    if noise == "keyed":
        return own * yes + rest * no
    second = m.instantaneous
    chances = (np.where(answer, second.p, second.q) for answer in (yes, no))
    return sum(generator.binomial(k, chance) for k, chance in zip((own, rest), chances, strict=True))


def reports_of(effective: int, skewed: bool) -> np.ndarray:
    """int64[people]: 30 reports of each, or 1 to 50 (log-uniform), of people until so many are effective."""
    if not skewed:
        return np.full(effective, 30)
    n = np.exp(np.random.default_rng(effective).uniform(0, np.log(51), 100 * effective)).astype(np.int64)
    return n[: 1 + int(np.argmax(np.cumsum(n) ** 2 / np.cumsum(n**2) >= effective))]


def held(
    noise: str,
    n: np.ndarray,
    changing: bool,
    runs: int,
    seed: int,
    share: float = SHARE,
    epsilon: float = 1.0,
    few: bool = False,
) -> np.ndarray:
    """Shares of intervals that hold: as of independent reports, by persons, by the bound; n reports of each.

    Of ``few`` only those by persons.
    """
    generator, holds = np.random.default_rng(seed), np.zeros(3)
    m = ldp.RandomizedResponse(epsilon=epsilon)
    if noise == "longitudinal":
        m = ldp.LongitudinalRandomizedResponse([False, True], epsilon_infinity=2.0, epsilon_1=1.0)
    many, bound = (
        ldp.HistogramEstimate(population="many"),
        ldp.HistogramEstimate(population="many", repeats=int(n.max())),
    )
    for _ in range(runs):
        yes = said_yes(m, noise, with_value(n, changing, share, generator), n, generator)
        each = np.stack([n - yes, yes], axis=1)
        tally = ldp.Tally(int(n.sum()), each.sum(axis=0), m.fingerprint)
        by_person = many.of_sums(m, tally, many.person_sums(m, n, each))
        found = (by_person,) * 3 if few else (many.result(m, tally), by_person, bound.result(m, tally))
        holds += [one.frequency_low[1] <= share <= one.frequency_high[1] for one in found]
    return holds / runs


def weighted(people: int, share: float, epsilon: float, runs: int, seed: int) -> np.ndarray:
    """Shares of intervals of `weighted_mean` that hold, by weights and by groups; two of three have one and a half of
    the share of all. Of the first a quarter of people stand for three each, of the latter there are two groups."""
    generator, holds, m = np.random.default_rng(seed), np.zeros(2), ldp.RandomizedResponse(epsilon=epsilon)
    old = np.arange(people) < 0.75 * people
    for _ in range(runs):
        has = generator.random(people) < np.where(old, 1.5, 0.5) * share
        w = (np.where(has, generator.random(people) < m.p, generator.random(people) < m.q) - m.q) / (m.p - m.q)
        by_groups = {"groups": old, "shares": {True: 0.5, False: 0.5}}
        found = (ldp.weighted_mean(w, weights=np.where(old, 1.0, 3.0)), ldp.weighted_mean(w, **by_groups))
        holds += [one.low <= share <= one.high for one in found]
    return holds / runs


def repeated(runs: int) -> Table:
    yield "noise", "values", "reports of each", "as if independent", "by persons", "`repeats=`"
    for seed, (noise, changing, reports) in enumerate(product(NOISE, (False, True), (1, 7, 30, 90)), 1):
        shares = held(noise, np.full(PEOPLE, reports), changing, runs, seed)
        yield noise, "change" if changing else "stay", str(reports), *percent(*shares)


def few_people(runs: int) -> Table:
    """The least and the median of 12 cases, of shares of 1, 5, 20, 50 % and epsilon 0.5, 1, 3."""
    yield "noise", "values", "reports of each", *(f"{e} effective persons" for e in FEW)
    for noise, changing, skewed in product(NOISE[:2], (False, True), (False, True)):
        sizes = [reports_of(effective, skewed) for effective in FEW]
        made = [[held(noise, n, changing, runs, 25, *case, few=True)[1] for case in CASES] for n in sizes]
        yield noise, "change" if changing else "stay", "1 to 50" if skewed else "30", *map(_least, made)


def weighted_means(runs: int) -> Table:
    yield "people", "by weights", "by groups"
    for people in (20, 50, 100):
        made = np.array([weighted(people, *case, runs, 24) for case in CASES])
        yield str(people), *map(_least, made.T)


def _least(shares: Any) -> str:
    return f"{100 * np.min(shares):.1f}, {100 * np.median(shares):.1f} %"


if __name__ == "__main__":
    warnings.simplefilter("ignore", ldp.LdpWarning)  # (keyed noise of few people looks implausible)
    print_tables([repeated, few_people, weighted_means], RUNS, __doc__)
