"""Examples of RAPPOR, and counters simulated from the true filters."""

import numpy as np

from ldp_core import Keyed, OpenDomain, Rappor, Secret

CHROME = {"f": 0.5, "p": 0.5, "q": 0.75}
FRUIT = ["apple", "plum", "pear", "fig", "quince"]


def keyed(ids, secret=None, column="c"):
    return Keyed(secret or Secret.generate(), ids, column=column)


def codes(integers):
    return OpenDomain("int").encode(integers)


# ---- decoding: bias, errors, intervals, discoveries. Counters are simulated from the true filters, exactly.


def simulated(m, positions, counts, rng):
    """Counters of one collection from people of whom ``counts[v]`` hold value v: random cohorts, then binomials."""
    of_cohort = np.array([rng.multinomial(c, [1 / m.cohorts] * m.cohorts) for c in counts])
    out = np.zeros((m.cohorts, 1 + m.bits), np.int64)
    for i in range(m.cohorts):
        filters = np.zeros((len(counts), m.bits), np.int64)
        filters[np.arange(len(counts))[:, None], positions[i]] = 1
        n, ones = of_cohort[:, i].sum(), of_cohort[:, i] @ filters
        out[i, 0] = n
        out[i, 1:] = rng.binomial(ones, m.q_star) + rng.binomial(n - ones, m.p_star)
    return out.reshape(-1)


def fits(m, names, truth, repetitions, seed):
    """Fits of the candidates ``names`` in collections from people who hold ``truth``: name to count."""
    rng, oracle = np.random.default_rng(seed), m.over(names)
    positions = m.positions(m.inputs.encode(list(truth)), list(truth))
    counts = np.array(list(truth.values()))
    return [oracle.fit(simulated(m, positions, counts, rng)) for _ in range(repetitions)]


CASES = {
    "chrome": Rappor(bits=32, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75),
    "little noise": Rappor(bits=16, hashes=2, cohorts=8, f=0.05, p=0.02, q=0.98),
    "one hash, few cohorts": Rappor(bits=64, hashes=1, cohorts=2, f=0.25, p=0.25, q=0.75),
    "md5": Rappor(bits=24, hashes=2, cohorts=8, f=0.25, p=0.25, q=0.75, hashing="md5"),
}
N = 20_000
