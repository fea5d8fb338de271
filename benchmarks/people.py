"""``python -m benchmarks.people``: how often 95 % intervals hold where people report again; tables in Markdown.

2,000 people, of whom a share of 20 % has a value, are drawn from a large population in each run. Each reports so often;
a value stays, or is drawn anew each time with the probability 1/5. Noise is fresh, keyed, or that of a longitudinal
mechanism. What is drawn is how many reports of each person say yes, which is all that there is in a tally.
"""

from __future__ import annotations

import argparse

import numpy as np

from ldp_core import HistogramEstimate, LongitudinalRandomizedResponse, RandomizedResponse, Tally

RUNS, PEOPLE, SHARE, CHANGES = 2000, 2000, 0.2, 0.2
NOISE = ("fresh", "keyed", "longitudinal")


def with_value(reports: int, changing: bool, generator: np.random.Generator) -> np.ndarray:
    """int64[people]: in how many reports each has the value."""
    now = generator.random(PEOPLE) < SHARE
    found = np.zeros(PEOPLE, np.int64)
    for _ in range(reports):
        found += now
        if changing:
            anew = generator.random(PEOPLE) < CHANGES
            now = np.where(anew, generator.random(PEOPLE) < SHARE, now)
    return found


def said_yes(m, noise: str, own: np.ndarray, reports: int, generator: np.random.Generator) -> np.ndarray:
    """int64[people]: how many reports say yes, of which ``own`` are of the value."""
    rest = reports - own
    if noise == "fresh":
        return generator.binomial(own, m.p) + generator.binomial(rest, m.q)
    first = m if noise == "keyed" else m.permanent
    yes, no = (generator.random(PEOPLE) < chance for chance in (first.p, first.q))  # to either value the same again
    if noise == "keyed":
        return own * yes + rest * no
    second = m.instantaneous
    chances = (np.where(answer, second.p, second.q) for answer in (yes, no))
    return sum(generator.binomial(k, chance) for k, chance in zip((own, rest), chances, strict=True))


def held(noise: str, reports: int, changing: bool, runs: int, seed: int) -> np.ndarray:
    """Shares of intervals that hold: as of independent reports, by persons, by the bound."""
    generator, holds = np.random.default_rng(seed), np.zeros(3)
    m = RandomizedResponse(epsilon=1.0)
    if noise == "longitudinal":
        m = LongitudinalRandomizedResponse([False, True], epsilon_infinity=2.0, epsilon_1=1.0)
    many, bound = HistogramEstimate(population="many"), HistogramEstimate(population="many", repeats=reports)
    n = np.full(PEOPLE, reports)
    for _ in range(runs):
        yes = said_yes(m, noise, with_value(reports, changing, generator), reports, generator)
        each = np.stack([n - yes, yes], axis=1)
        tally = Tally(int(n.sum()), each.sum(axis=0), m.fingerprint)
        found = (many.result(m, tally), many.of_tallies(m, tally, [(n, each)]), bound.result(m, tally))
        holds += [one.frequency_low[1] <= SHARE <= one.frequency_high[1] for one in found]
    return holds / runs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.people", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    args = parser.parse_args()
    print("| noise | values | reports of each | as if independent | by persons | `repeats=` |\n|" + " --- |" * 6)
    seed = 0
    for noise in NOISE:
        for changing in (False, True):
            for reports in (1, 7, 30, 90):
                seed += 1
                shares = held(noise, reports, changing, args.runs, seed)
                cells = (noise, "change" if changing else "stay", str(reports), *(f"{100 * x:.1f} %" for x in shares))
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
