"""How often intervals of ranges, quantiles and curves hold: ``python -m benchmarks.ordered``, for docs/ordered.md.

Populations are fixed shares of the values, rounded to whole people; intervals are about these people, and noise is the
only error. Each cell is the share of RUNS tallies whose interval holds the true number, in percent: the mean over 12
ranges, the mean over the quantiles 0.1, 0.5 and 0.9, and the bands of the whole curve. Of few people it is the worst of
several ranges.
"""

from __future__ import annotations

from itertools import product

import numpy as np

import ldp_core as ldp
from benchmarks.simulation import Table, cases, ends, percent, print_tables, simulated
from ldp_core.engine import F64, apportioned

RUNS = 2000
PROBABILITIES = (0.1, 0.5, 0.9)
FEW = (1.0, 2.0, 4.0, 6.0, 8.0)
KINDS = ((ldp.UnaryEncoding, 64), (ldp.SubsetSelection, 64), (ldp.HierarchicalHistogram, 128))


def populations(d: int) -> dict[str, F64]:
    """Shares of d ordered values, of six populations."""
    x = (np.arange(d) + 0.5) / d
    beta = x**4 * (1 - x)
    normals = np.exp(-(((x - 0.3) / 0.08) ** 2) / 2) + np.exp(-(((x - 0.75) / 0.05) ** 2) / 2)
    heap = 0.7 * beta / beta.sum()
    heap[d // 3] += 0.3
    made = {"beta(5,2)": beta, "two normals": normals, "30 % at one": heap}
    made |= {"integers": beta * (np.arange(d) % 5 == 0), "one end": np.eye(d)[-1], "uniform": np.ones(d)}
    return {name: shares / shares.sum() for name, shares in made.items()}


def coverage(runs: int) -> Table:
    yield "mechanism", "values", "population", "epsilon", "people", "ranges", "quantiles", "bands"
    each = ((*of, name, shares) for of in KINDS for name, shares in populations(of[1]).items())
    for (kind, d, name, shares), epsilon, n in cases(each):
        m, people = kind(range(d), epsilon=epsilon), apportioned(name, shares, n)
        counters = simulated(m, range(d), people, runs, seed=1)
        sums = np.cumsum(people)
        ranges = np.sort(np.random.default_rng(1).integers(0, d, (12, 2)), axis=1)
        truths = sums[ranges[:, 1]] - sums[ranges[:, 0]] + people[ranges[:, 0]]
        quantiles = np.array([np.searchsorted(sums, p * n - 1e-9) for p in PROBABILITIES])
        held = []
        for question, true, slack in (
            (ldp.RangeEstimate(ranges=[(int(low), int(high)) for low, high in ranges]), truths, 1e-6 * n),
            (ldp.QuantilesEstimate(PROBABILITIES), quantiles, 0.0),
            (ldp.CdfEstimate(), sums / n, 1e-9),
        ):
            low, high = ends(question, m, n, counters)
            held.append((low - slack <= true) & (true <= high + slack))
        found = (held[0].mean(), held[1].mean(), held[2].all(axis=1).mean())
        yield m.name, str(d), name, f"{epsilon:g}", f"{n:,}", *(f"{100 * share:.1f}" for share in found)


def few_people(runs: int) -> Table:
    """The worst of 20 cases: k people at one of 64 values, and the others spread over the first half."""
    yield "mechanism", "epsilon", "50 people", "200 people", "1,000 people"
    d = 64
    for kind, epsilon in product(
        (ldp.RandomizedResponse, ldp.UnaryEncoding, ldp.SubsetSelection, ldp.HierarchicalHistogram), FEW
    ):
        m, worst = kind(range(d), epsilon=epsilon), []
        for n in (50, 200, 1000):
            held = []
            for k in (0, 1, 5, n // 2, n - 1):
                people = np.bincount(np.arange(n - k) % (d // 2), minlength=d)
                people[d - 1] += k
                ranges = [(d - 1, d - 1), (0, d - 2), (0, d // 2 - 1), (d - 4, d - 1)]
                low, high = ends(ldp.RangeEstimate(ranges=ranges), m, n, simulated(m, range(d), people, runs, seed=1))
                truths = np.array([people[first : last + 1].sum() for first, last in ranges])
                held += ((low - 1e-6 * n <= truths) & (truths <= high + 1e-6 * n)).mean(axis=0).tolist()
            worst.append(min(held))
        yield m.name, f"{epsilon:g}", *percent(*worst)


if __name__ == "__main__":
    print_tables([coverage, few_people], RUNS, __doc__)
