"""Whatever is asked, of whatever mechanism, of few or of many people: intervals hold what they promise.

Situations are drawn: a mechanism, its epsilon, how many people have which value, a confidence, whom intervals are about.
In each one all questions that the mechanism takes are asked, of a thousand tallies. A seed is a list of situations:
``python -m tests.core.estimates.test_promises 7 200`` draws others, prints what is broken, and the least that held.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from ldp_core import (
    CdfEstimate,
    FakeDataColumn,
    HadamardResponse,
    HierarchicalHistogram,
    HistogramEstimate,
    Hybrid,
    LocalHashing,
    MeanEstimate,
    MedianEstimate,
    NOutput,
    OneBitMean,
    ParameterError,
    Piecewise,
    ProjectiveGeometryResponse,
    QuantilesEstimate,
    RandomizedResponse,
    RangeEstimate,
    SampledColumn,
    SampledNumber,
    SquareWave,
    StochasticRounding,
    SubsetSelection,
    ThresholdHistogramEncoding,
    UnaryEncoding,
    ratio,
    required_n,
    total,
    weighted_mean,
    weighted_quantiles,
)
from ldp_core.estimates.base import Population
from ldp_core.estimates.comparison import Compare
from ldp_core.estimates.joint import Joint, TableEstimate
from ldp_core.estimates.pooling import pooled_rows
from ldp_core.estimates.quantile_differences import CompareQuantiles
from ldp_core.noise.fresh import Keystream
from ldp_core.plans.drawn import DrawnColumn

from ...cases import case

MANY, SOME = 1000, 200
"""Tallies: of questions that answer many at once, and of those that are answered one by one."""
LEAST = {0.8: 0.77, 0.9: 0.868, 0.95: 0.93, 0.99: 0.98}
"""What is promised of each confidence, of few people less than it says."""
FALSE_ALARM = 1e-5
PLACES = 33
"""Numbers are k / 32."""

Labels = {
    "RR": RandomizedResponse,
    "OUE": UnaryEncoding,
    "SUE": lambda d, epsilon: UnaryEncoding(d, epsilon=epsilon, variant="symmetric"),
    "SS": SubsetSelection,
    "OLH": LocalHashing,
    "HR": HadamardResponse,
    "PGR": ProjectiveGeometryResponse,
    "THE": ThresholdHistogramEncoding,
    "tree": HierarchicalHistogram,
    "sampled": lambda d, epsilon: SampledColumn(RandomizedResponse(d, epsilon=epsilon), columns=2),
    "fake": lambda d, epsilon: FakeDataColumn(RandomizedResponse(d, epsilon=epsilon), columns=2),
}
Numbers = {
    "Hybrid": Hybrid,
    "Piecewise": Piecewise,
    "one bit": OneBitMean,
    "N outputs": NOutput,
    "rounding": StochasticRounding,
    "square wave": lambda d, epsilon: SquareWave(d, epsilon=epsilon, buckets=32),
    "sampled number": lambda d, epsilon: SampledNumber(Piecewise(d, epsilon=epsilon), columns=2),
}


class Held(NamedTuple):
    """What was asked, and whether it held in each run (bool[runs, values]); what was promised."""

    what: str
    held: np.ndarray
    confidence: float = 0.95


@dataclass
class Situation:
    """Some people, and how they report."""

    name: str
    mechanism: Any
    another: Any
    """The same with another epsilon."""
    shares: np.ndarray
    n: int
    confidence: float
    population: Population
    rng: np.random.Generator

    def __str__(self) -> str:
        of = "" if self.population is None else f" of {self.population}"
        shares = " ".join(f"{share:.3g}" for share in self.shares[:9])
        epsilons = f"{self.mechanism.epsilon:.3g} and {self.another.epsilon:.3g}"
        return f"{self.name}({len(self.shares)}) epsilon {epsilons}, {self.n}{of}, {self.confidence}, shares {shares}"

    @property
    def labeled(self) -> bool:
        return self.mechanism.inputs.kind == "int"

    @property
    def runs(self) -> int:
        return SOME if self.name == "square wave" else MANY

    @property
    def values(self) -> np.ndarray:
        d = len(self.shares)
        return np.arange(d) if self.labeled else np.arange(d) / (d - 1)

    def people(self, shares: np.ndarray, n: int, population: Population, runs: int) -> np.ndarray:
        """int64[runs, d]: how many have each value, who are always the same unless they are a sample."""
        if population == "many":
            return self.rng.multinomial(n, shares, runs)
        if population is None:
            return np.tile(whole(shares, n), (runs, 1))
        return self.rng.multivariate_hypergeometric(whole(shares, population), n, runs)

    def tallies(self, m: Any, people: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """n and counters of each run."""
        runs, d = people.shape
        values, of_run = np.repeat(np.tile(self.values, runs), people.reshape(-1)), np.repeat(np.arange(runs), people.sum(axis=1))
        return people.sum(axis=1), m.count_reports(self.reports(m, values), of_run, runs)

    def reports(self, m: Any, values: np.ndarray) -> np.ndarray:
        codes, noise = m.inputs.encode(values, column="x"), Keystream(self.rng.bytes(32))
        if isinstance(m, DrawnColumn):  # (a plan draws which column a record answers)
            return m.perturb_drawn(codes, self.rng.random(len(codes)) < 1 / m.columns, noise)
        return m.perturb_codes(codes, noise)


def whole(shares: np.ndarray, n: int) -> np.ndarray:
    """So many people."""
    return np.diff(np.round(np.cumsum(shares) * n).astype(np.int64), prepend=0)


def shares_of(kind: str, d: int, n: int, rng: np.random.Generator) -> np.ndarray:
    shares, places = np.zeros(d), rng.permutation(d)
    if kind == "even":
        shares[:] = 1 / d
    elif kind == "one value":
        shares[places[0]] = 1
    elif kind == "two values":
        shares[places[:2]] = rng.dirichlet([1, 1])
    elif kind == "a person or two":
        shares[places[:2]] = np.array([1 - 2 / n, 2 / n])
    else:
        shares = rng.dirichlet(np.full(d, 0.3))
    return shares


def situations(seed: int, count: int) -> Iterator[Situation]:
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        n, more = (round(float(np.exp(x))) for x in rng.uniform(np.log(10), np.log(3000), 2))
        epsilons = np.exp(rng.uniform(np.log(0.3), np.log(8), 2)).round(3)
        name = str(rng.choice([*Labels] * 2 + [*Numbers]))
        d = int(rng.choice([2, 3, 8, 16, 40])) if name in Labels else PLACES
        make, domain = (Labels[name], range(d)) if name in Labels else (Numbers[name], (0, 1))
        try:
            mechanisms = [make(domain, epsilon=float(epsilon)) for epsilon in epsilons]
        except ParameterError:  # too few values, or an epsilon that it does not take
            continue
        population = [None, "many", n + more][rng.integers(3)]
        kind = str(rng.choice(["one value", "two values", "a person or two", "even", "uneven"]))
        confidence = float(rng.choice([0.8, 0.9, 0.95, 0.95, 0.95, 0.99]))
        yield Situation(name, *mechanisms, shares_of(kind, d, n, rng), n, confidence, population, rng)


# ---- what is asked


def of_one_tally(s: Situation) -> Iterator[Held]:
    about: dict[str, Any] = {"confidence": s.confidence, "population": s.population}
    tallies = s.tallies(s.mechanism, s.people(s.shares, s.n, s.population, s.runs))
    size = s.n if s.population is None else s.population
    shares = s.shares if size == "many" else whole(s.shares, size) / size
    below, d = np.cumsum(shares), len(shares)
    probabilities = (0.1, 0.5, 0.8)
    quantiles = s.values[[np.searchsorted(below, p - 1e-9) for p in probabilities]]
    ranges = [(0, 0), (0, d // 2), (d // 2, d - 1), (0, d - 2)]
    frequency = ("frequency_low", "frequency_high")
    asked = [
        (HistogramEstimate(**about), shares, frequency),
        (HistogramEstimate(simultaneous=True, **about), shares, frequency),
        (RangeEstimate(ranges=ranges, **about), [shares[a : b + 1].sum() for a, b in ranges], frequency),
        (CdfEstimate(**about), below, ("low", "high")),
        (CdfEstimate(simultaneous=False, **about), below, ("low", "high")),
        (QuantilesEstimate(probabilities, **about), quantiles, ("low", "high")),
        (MedianEstimate(**about), quantiles[1], ("low", "high")),
        (MeanEstimate(**about), shares @ s.values, ("low", "high")),
    ]
    for question, true, ends in asked:
        if (s.labeled or not isinstance(question, (CdfEstimate, RangeEstimate))) and fits(question, s.mechanism):
            table, _ = question.rows(s.mechanism, *tallies)
            held = between(table, ends, true, s.runs)
            together = getattr(question, "simultaneous", False)
            name = question.name + " of all at once" * together
            yield Held(name, held.all(axis=1, keepdims=True) if together else held, s.confidence)


def of_two_tallies(s: Situation) -> Iterator[Held]:
    """Of people of other shares, and of the same: intervals, and tests, of which the level is said to be 5 %."""
    question, quantiles = Compare(confidence=s.confidence), CompareQuantiles(confidence=s.confidence)
    more = max(5, round(s.n * np.exp(s.rng.uniform(-1, 1))))
    for shares in ((s.shares + shares_of("uneven", len(s.shares), s.n, s.rng)) / 2, s.shares):
        sides = [(s.shares, s.n), (shares, more)]
        tallies = [s.tallies(s.mechanism, s.people(share, n, "many", s.runs)) for share, n in sides]
        both = [np.stack(parts, axis=1) for parts in zip(*tallies, strict=True)]
        if question.compares(s.mechanism):
            table, _ = question.rows(s.mechanism, *both)
            moved = shares - s.shares
            yield Held("difference", between(table, ("low", "high"), moved if s.labeled else moved @ s.values, s.runs), s.confidence)
            for name in ("p_value", "p_adjusted", "p_value_of_all") if shares is s.shares else ():
                p = np.nan_to_num(table[name].to_numpy(), nan=1.0).reshape(s.runs, -1)
                yield Held(name, p >= 0.05 if name == "p_value" else (p >= 0.05).all(axis=1, keepdims=True))
        if quantiles.compares(s.mechanism):
            table, _ = quantiles.rows(s.mechanism, *both)
            before, after = (s.values[np.searchsorted(np.cumsum(share), 0.5 - 1e-9)] for share, _ in sides)
            yield Held("difference of medians", between(table, ("low", "high"), after - before, s.runs), s.confidence)
    if isinstance(s.mechanism, HierarchicalHistogram) or not question.compares(s.mechanism):
        return  # (trees are not pooled)
    other = s.tallies(s.another, s.people(s.shares, more, "many", s.runs))
    n, counters = zip(tallies[0], other, strict=True)
    _, (_, _, low, high, _, p) = pooled_rows([s.mechanism, s.another], np.stack(n, axis=1), counters, s.confidence, None)
    true = s.shares if s.labeled else s.shares @ s.values
    yield Held("pooled", inside(low, high, true), s.confidence)
    yield Held("pooled, of one population", p >= 0.05)


def of_weights(s: Situation) -> Iterator[Held]:
    """Of a public number, and of survey weights, in a group that is private, or of a private number."""
    if isinstance(s.mechanism, (DrawnColumn, HierarchicalHistogram)):
        return
    how: dict[str, Any] = {"confidence": s.confidence}
    names: dict[str, list[bool]] = {name: [] for name in ("ratio", "total", "weighted mean", "weighted quantile")}
    code, d, n, among = len(s.shares) // 2, len(s.shares), s.n, stats.gamma(2)
    slope = s.rng.uniform(0, 1)
    for _ in range(SOME):
        codes = s.rng.choice(d, n, p=s.shares)
        y = among.rvs(n, random_state=s.rng) * (1 + slope * codes / d)
        share = s.shares[code]
        if s.labeled:
            u = s.mechanism.weights(s.mechanism.perturb(s.values[codes], randomness=Keystream(s.rng.bytes(32))), int(s.values[code]))
            true = 2 * (1 + slope * code / d)
            found = ratio(u * y, u, **how)
            if share > 0:
                names["ratio"].append(found.low <= true <= found.high)
                found = weighted_quantiles(y, u, [0.5], **how)
                median = among.ppf(0.5) * (1 + slope * code / d)
                names["weighted quantile"].append(found.low[0] <= median <= found.high[0])
        else:
            u, share = s.mechanism.weights(s.mechanism.perturb(s.values[codes], randomness=Keystream(s.rng.bytes(32)))), s.shares @ s.values
        found = total(u, **how)
        names["total"].append(found.low <= n * share <= found.high)
        asked = s.rng.random(n) < 1 / (1 + codes % 2)  # of every second value half were asked
        if asked.sum() > 1:
            found = weighted_mean(u[asked], weights=1.0 + codes[asked] % 2, **how)
            names["weighted mean"].append(found.low <= share <= found.high)
    for name, held in names.items():
        if held:
            yield Held(name, np.array(held)[:, None], s.confidence)


def of_tables(s: Situation) -> Iterator[Held]:
    """Of a second column, which depends on the first one, or not."""
    if not s.labeled or isinstance(s.mechanism, (DrawnColumn, HierarchicalHistogram)) or len(s.shares) > 8:
        return
    d, also = len(s.shares), s.rng.beta(1, 1, len(s.shares))
    also[:] = also[0] if s.rng.random() < 0.5 else also
    cells = s.shares[:, None] * np.column_stack([1 - also, also])
    joint, question = Joint({"a": s.mechanism, "b": RandomizedResponse(range(2), epsilon=s.another.epsilon)}), TableEstimate(s.confidence, "many")
    tallies = []
    for _ in range(SOME):
        first = s.rng.choice(d, s.n, p=s.shares)
        second = (s.rng.random(s.n) < also[first]).astype(np.int64)
        tallies.append(joint.tally({name: m.perturb(values, randomness=Keystream(s.rng.bytes(32))) for (name, m), values in zip(joint.makers.items(), (first, second), strict=True)}))
    found = [question.result(joint, tally) for tally in tallies]
    low, high, rate_low, rate_high = (np.stack([getattr(one, name).reshape(-1) for one in found]) for name in ("low", "high", "rate_low", "rate_high"))
    yield Held("cell", inside(low, high, s.n * cells.reshape(-1)), s.confidence)
    some = np.repeat(s.shares > 0, 2)
    rates = np.column_stack([1 - also, also]).reshape(-1)
    yield Held("rate", inside(rate_low, rate_high, rates)[:, some], s.confidence)
    least, most = (np.array([getattr(one, name) for one in found]) for name in ("cramers_v_low", "cramers_v_high"))
    b = cells.sum(axis=0)
    v = np.sqrt((((cells - np.outer(s.shares, b)) ** 2)[s.shares > 0] / np.outer(s.shares, b)[s.shares > 0]).sum())
    yield Held("Cramer's V", (np.isnan(least) | inside(least, most, v))[:, None], s.confidence)
    if (also == also[0]).all():
        yield Held("independent", ~(np.array([[one.p_value] for one in found]) < 0.05))


def of_persons(s: Situation) -> Iterator[Held]:
    """Of 1 to 5 reports of each person, of values that hang together: of many people."""
    question: Any = HistogramEstimate(s.confidence, population="many") if s.labeled else MeanEstimate(s.confidence)
    if isinstance(s.mechanism, DrawnColumn) or not fits(question, s.mechanism) or s.name in ("tree", "square wave"):
        return
    d, held = len(s.shares), []
    for _ in range(SOME):
        own, reports = s.rng.choice(d, s.n, p=s.shares), s.rng.integers(1, 6, s.n)
        persons = np.repeat(np.arange(s.n), reports)
        codes = np.where(s.rng.random(len(persons)) < 0.5, own[persons], s.rng.choice(d, len(persons), p=s.shares))
        found = question.of_persons(s.mechanism, s.mechanism.perturb(s.values[codes], randomness=Keystream(s.rng.bytes(32))), persons)
        true = s.shares * len(codes) if s.labeled else s.shares @ s.values
        held.append(np.atleast_1d(inside(found.low, found.high, true)))
    yield Held("of persons", np.array(held), s.confidence)


def of_plans(s: Situation) -> Iterator[Held]:
    """So many people as are said to be needed have an estimate within the margin."""
    margin = float(np.exp(s.rng.uniform(np.log(0.03), np.log(0.3))))
    about: Population = None if s.population is None else "many"
    try:
        n = required_n(s.mechanism, margin, 1 - s.confidence, population=about).n
    except ParameterError:
        return
    if n > 3000:
        return
    tallies = s.tallies(s.mechanism, s.people(s.shares, n, about, s.runs))
    size = "many" if about == "many" else n
    shares = s.shares if about else whole(s.shares, n) / n
    question: Any = HistogramEstimate() if s.labeled else MeanEstimate()
    if fits(question, s.mechanism):
        table, _ = question.rows(s.mechanism, *tallies)
        found = table["frequency" if s.labeled else "mean"].to_numpy().reshape(s.runs, -1)
        yield Held(f"planned, {size if size == 'many' else 'these'}", abs(found - (shares if s.labeled else shares @ s.values)) <= margin + 1e-9, s.confidence)


def fits(question: Any, mechanism: Any) -> bool:
    try:
        question.check(mechanism)
    except ParameterError:
        return False
    return True


def between(table: Any, ends: tuple[str, str], true: Any, runs: int) -> np.ndarray:
    low, high = (np.asarray(table[end].to_numpy(), float).reshape(runs, -1) for end in ends)
    return inside(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high), true)


def inside(low: np.ndarray, high: np.ndarray, true: Any) -> np.ndarray:
    return (low <= np.asarray(true) + 1e-9) & (high >= np.asarray(true) - 1e-9)


ASKED = (of_one_tally, of_two_tallies, of_weights, of_tables, of_persons, of_plans)


def told(seed: int, count: int) -> Iterator[tuple[Held, Situation, float, float]]:
    """What held least of each promise, and how probable so few are if as many hold as are to."""
    for s in situations(seed, count):
        for ask in ASKED:
            for found in ask(s):
                least = found.held.mean(axis=0).min()
                chance = stats.binom.cdf(round(least * len(found.held)), len(found.held), LEAST[found.confidence])
                yield found, s, least, chance


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_intervals_hold_what_they_promise():
    for found, s, least, chance in told(1, 100):
        with case(found.what, s, least):
            assert chance > FALSE_ALARM


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    leasts: dict[tuple[str, float], list[float]] = {}
    for found, s, least, chance in told(int(sys.argv[1]), int(sys.argv[2])):
        leasts.setdefault((found.what, found.confidence), []).append(least)
        if chance < 1e-4:
            print(f"{least:.3f} of {found.confidence} (a chance of {chance:.1g}) {found.what}: {s}", flush=True)
    for (what, confidence), held in sorted(leasts.items()):
        print(f"{what:32} {confidence:4} held in {len(held):4} situations {min(held):.3f} and more, median {np.median(held):.3f}")
