"""How often intervals of ratios and quantiles hold. ``python -m benchmarks.weights`` prints docs/weights.md's table.

Each case is simulated as its mechanism draws, from fixed seeds. An interval that holds 95 % of the time holds in 93 to
97 % of 2,000 runs, but for one in 20,000. And in ``python -m benchmarks``: each question against a plain histogram.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import polars as pl

import ldp_core as ldp
import ldp_polars  # noqa: F401 (the namespace)
from benchmarks.simulation import Table, print_tables
from benchmarks.timing import Row, absolute, compare
from ldp_core.estimates.ratios import ratios, score_sums

Sample = Callable[[np.random.Generator, int, float], tuple[Any, float]]
W3C = ldp.RandomizedResponse(epsilon=1.1)
BIT = ldp.RandomizedResponse(epsilon=2.0)
SYSTEM = ldp.UnaryEncoding(["yes", "no", "none"], epsilon=1.0)


def _coins(rng: np.random.Generator, m: ldp.RandomizedResponse, bits: Any) -> Any:
    return bits ^ (rng.random(len(bits)) >= m.p)


def _bits(rng: np.random.Generator, m: ldp.UnaryEncoding, codes: Any) -> Any:
    d = m.domain.size
    return rng.random((len(codes), d)) < np.where(np.eye(d, dtype=bool)[codes], m.p, m.q)


def _times(rng: np.random.Generator, n: int, share: float) -> tuple[Any, Any]:
    """Log-normal times, longer in the group, and its weights."""
    inside = rng.random(n) < share
    y = np.where(inside, rng.lognormal(7.6, 0.6, n), rng.lognormal(7.0, 0.5, n))
    return y, W3C.weights(_coins(rng, W3C, inside), True)


def mean_of_a_group(rng: np.random.Generator, n: int, share: float) -> tuple[Any, float]:
    y, w = _times(rng, n, share)
    return ldp.ratio(w * y, w), float(np.exp(7.6 + 0.18))


def median_of_a_group(rng: np.random.Generator, n: int, share: float) -> tuple[Any, float]:
    return ldp.weighted_quantiles(*_times(rng, n, share), [0.5]), float(np.exp(7.6))


def share_of_answers(rng: np.random.Generator, n: int, share: float) -> tuple[Any, float]:
    """Of those who say yes or no, so many of all, 60 % say yes."""
    codes = rng.choice(3, n, p=[0.6 * share, 0.4 * share, 1 - share])
    bits = _bits(rng, SYSTEM, codes)
    yes, no = SYSTEM.weights(bits, "yes"), SYSTEM.weights(bits, "no")
    return ldp.ratio(yes, yes + no), 0.6


def rate_of_both_private(rng: np.random.Generator, n: int, share: float) -> tuple[Any, float]:
    """30 % of the group crash, and 10 % of the others."""
    inside = rng.random(n) < share
    crashed = rng.random(n) < np.where(inside, 0.3, 0.1)
    w, c = BIT.weights(_coins(rng, BIT, inside), True), BIT.weights(_coins(rng, BIT, crashed), True)
    return ldp.ratio(w * c, w), 0.3


CASES: list[tuple[str, Sample, int, float]] = [
    ("mean of a public number", mean_of_a_group, 2000, 0.2),
    ("mean of a public number", mean_of_a_group, 20_000, 0.2),
    ("mean of a public number", mean_of_a_group, 20_000, 0.05),
    ("mean of a public number", mean_of_a_group, 2000, 0.05),
    ("its median", median_of_a_group, 2000, 0.2),
    ("its median", median_of_a_group, 20_000, 0.05),
    ("share of those who answered", share_of_answers, 2000, 0.5),
    ("share of those who answered", share_of_answers, 20_000, 0.1),
    ("rate of a private column", rate_of_both_private, 2000, 0.2),
    ("rate of a private column", rate_of_both_private, 20_000, 0.05),
]


def coverage(sample: Sample, n: int, share: float, runs: int) -> tuple[float, float]:
    """How often the interval holds the truth, and how often it is unbounded."""
    rng, held, unbounded = np.random.default_rng(11), 0, 0
    for _ in range(runs):
        found, truth = sample(rng, n, share)
        low, high = np.ravel(found.low)[0], np.ravel(found.high)[0]
        held += bool(low <= truth <= high)
        unbounded += not np.isfinite(high - low)
    return held / runs, unbounded / runs


# ---- rare values


def rare(private: bool, epsilon: float, rate: float, runs: int) -> tuple[list[float], list[float], float]:
    """Of a 0/1 number, with so rare a 1, in a private group: over groups and people how often intervals hold.

    Fieller's alone and with the score's, in each case; and by how much more often the latter are unbounded.
    """
    rng, more, held = np.random.default_rng(13), 0.0, ([], [])
    m = ldp.RandomizedResponse(epsilon=epsilon)
    values = m.weights(np.array([True, False]), True)
    p, q, y = (m.p, m.q, values) if private else (1.0, 0.0, np.array([1.0, 0.0]))
    yes = q + rate * (p - q)
    u, w = np.outer(values, y).ravel(), np.repeat(values, 2)
    for share in (0.05, 0.2, 0.5):
        for n in (500, 2000, 20_000, 100_000):
            inside = rng.binomial(n, share, runs)
            chances = (np.outer((x, 1 - x), (yes, 1 - yes)).ravel() for x in (m.p, m.q))
            cells = sum(rng.multinomial(k, chance) for k, chance in zip((inside, n - inside), chances, strict=True))
            sums = cells @ np.stack([u, w, u * u, u * w, w * w], axis=1)
            both = [ratios(sums, 0.95, score)[2:] for score in (None, score_sums(sums, values.sum(), y.sum()))]
            for shares, (low, high) in zip(held, both, strict=True):
                shares.append(float(np.mean((low <= rate) & (rate <= high))))
            open_ends = [float(np.mean(np.isinf(high))) for _, high in both]
            more = max(more, open_ends[1] - open_ends[0])
    return *held, more


# ---- second moments


def lines(m: Any, other: Any, n: int, runs: int) -> tuple[float, float, dict[str, float]]:
    """Slopes of y = 0.2 + x / 2 + noise, x of a beta(2, 5): their mean, their deviation, and how often intervals hold.

    Args:
        m, other: mechanisms of x and y; None of a public y.
    """
    variance = 10 / (49 * 8)
    true = {"variance x": variance, "covariance": variance / 2, "slope": 0.5, "intercept": 0.2}
    true |= {"variance y": variance / 4 + 0.0075, "correlation": (variance / (variance + 0.03)) ** 0.5}
    rng, slopes, held = np.random.default_rng(4), [], dict.fromkeys(true, 0.0)
    for k in range(runs):
        x = rng.beta(2, 5, n)
        y = 0.2 + x / 2 + rng.uniform(-0.15, 0.15, n)
        found = ldp.linear_fit(
            (m, _reports(m, x, 2 * k)), y if other is None else (other, _reports(other, y, 2 * k + 1))
        )
        slopes.append(found["slope"][0])
        for name in found.names:
            held[name] += (found[name][1] <= true[name] <= found[name][2]) / runs
    return float(np.mean(slopes)), float(np.std(slopes)), held


def _reports(m: Any, x: Any, seed: int) -> Any:
    return m.perturb(x, randomness=ldp.Keyed(ldp.Secret.from_seed(seed), np.arange(len(x)), column="x"))


LINES = [
    ("Hybrid, epsilon 2, of both", ldp.Hybrid((0, 1), epsilon=2.0), ldp.Hybrid((0, 1), epsilon=2.0), 200_000),
    ("Hybrid, epsilon 2, of both", ldp.Hybrid((0, 1), epsilon=2.0), ldp.Hybrid((0, 1), epsilon=2.0), 20_000),
    ("Piecewise, epsilon 2, of both", ldp.Piecewise((0, 1), epsilon=2.0), ldp.Piecewise((0, 1), epsilon=2.0), 20_000),
    ("Piecewise, epsilon 4, of x; y is public", ldp.Piecewise((0, 1), epsilon=4.0), None, 5000),
    ("Hybrid, epsilon 2, of x; y is public", ldp.Hybrid((0, 1), epsilon=2.0), None, 20_000),
]


# ---- speed


def rows(scale: float) -> Iterator[Row]:
    """Each question against the histogram of the same reports."""
    n = int(10**6 * scale)
    rng = np.random.default_rng(1)
    values = {"os": rng.choice(["ios", "android", "web"], n), "minutes": rng.random(n), "age": rng.integers(0, 64, n)}
    m = ldp.UnaryEncoding(["ios", "android", "web"], epsilon=1.0)
    reports = pl.DataFrame(values | {"crashed": rng.random(n) < 0.1, "time": rng.random(n), "week": np.arange(n) % 2})
    reports = reports.with_columns(
        pl.col("os").ldp.perturb(m),
        pl.col("crashed").ldp.perturb(BIT),
        pl.col("time").ldp.perturb(ldp.Hybrid((0, 1), epsilon=1.0)),
        pl.col("age").ldp.perturb(ldp.HierarchicalHistogram(range(64), epsilon=1.0, workload="prefixes")),
    )
    w, y, age = pl.col("os").ldp.weight("ios"), pl.col("minutes"), pl.col("age").ldp
    selected = {
        ("ratio by weights", "os"): (w * y).ldp.ratio(w),
        ("total by weights", "os"): (w * y).ldp.total(w),
        ("weighted mean", "os"): w.ldp.weighted_mean(weights="minutes"),
        ("quantiles by weights", "os"): y.ldp.weighted_quantiles([0.5], w),
        ("linear fit, y public", "time"): pl.col("time").ldp.linear_fit("minutes"),
        ("range", "age"): age.range(10, 20),
        ("median", "age"): age.median(),
        ("curve", "age"): age.cdf(),
    }
    jobs = {asked: partial(reports.select, expression) for asked, expression in selected.items()}
    jobs["comparison of two groups", "os"] = partial(
        reports.ldp.compare, ldp.PrivacyPlan({"os": m}, keep=["week"]), by="week"
    )
    jobs["table of two columns", "os"] = partial(reports.ldp.table, "os", "crashed")
    yield absolute("weights of reports", lambda: reports.select(w), n=n, unit="ns/row", limit=10)
    for (name, column), ours in jobs.items():
        histogram = partial(
            reports.select, pl.col(column).ldp.mean() if column == "time" else pl.col(column).ldp.histogram()
        )
        against = f"a {'mean' if column == 'time' else 'histogram'} of the same reports"
        yield compare(name, against, ours, histogram, n=n)


def groups(runs: int) -> Table:
    yield "", "people", "share of the group", "intervals hold", "unbounded"
    for name, sample, n, share in CASES:
        yield name, f"{n:,}", f"{share:.0%}", *(f"{x:.1%}" for x in coverage(sample, n, share, runs))


def rare_values(runs: int) -> Table:
    yield "the 0/1 number", "epsilon", "rate", "worst", "of Fieller's alone", "below 93%", "more unbounded"
    for private, epsilon, rate in product((False, True), (0.5, 1.0, 3.0, 5.0), (0.001, 0.01, 0.05, 0.3)):
        before, after, more = rare(private, epsilon, rate, runs)
        low = f"{sum(x < 0.93 for x in after)} of {len(after)}"
        cells = f"{epsilon:g}", f"{rate:.1%}", f"{min(after):.1%}", f"{min(before):.1%}", low, f"{more:.1%}"
        yield "private" if private else "public", *cells


def second_moments(runs: int) -> Table:
    yield "a line of", "people", "slope", "deviation", "least", "most"
    for name, first, second, n in LINES:
        mean, deviation, shares = lines(first, second, n, runs)
        found = [share for share in shares.values() if share]
        yield name, f"{n:,}", f"{mean:.3f}", f"{deviation:.3f}", f"{min(found):.1%}", f"{max(found):.1%}"


if __name__ == "__main__":
    print_tables([groups, rare_values, second_moments], 2000, __doc__)
