"""``python -m benchmarks.promises 7 200``: whether intervals hold what they promise, whatever is asked.

Situations are drawn: a mechanism, its epsilon, how many people have which value, a confidence, and whom intervals are
about. In each one all questions that the mechanism takes are asked, of a thousand tallies. A seed (7) is a list of
situations, of which the first 200 are asked here. What is broken is printed, and then the least that held.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
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

MANY, SOME = 1000, 200
"""Tallies: of questions that answer many at once, and of those that are answered one by one."""
LEAST = {0.8: 0.77, 0.9: 0.868, 0.95: 0.93, 0.99: 0.98}
"""What is promised of each confidence, of few people less than it says."""
PLACES = 33
"""Numbers are k / 32."""

LABELS = {
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
NUMBERS = {
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
    length: float = np.nan
    """Of the longest intervals, on average, beside normal ones of estimates that spread as these do."""


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
        """n and counters of each run, of reports that are drawn all at once."""
        (runs, _), n, noise = people.shape, people.sum(axis=1), Keystream(self.rng.bytes(32))
        codes = m.inputs.encode(np.repeat(np.tile(self.values, runs), people.reshape(-1)), column="x")
        if isinstance(m, DrawnColumn):  # (a plan draws which column a record answers)
            reports = m.perturb_drawn(codes, self.rng.random(len(codes)) < 1 / m.columns, noise)
        else:
            reports = m.perturb_codes(codes, noise)
        return n, m.count_reports(reports, np.repeat(np.arange(runs), n), runs)

    def perturb(self, m: Any, values: np.ndarray) -> Any:
        return m.perturb(values, randomness=Keystream(self.rng.bytes(32)))


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
        name = str(rng.choice([*LABELS] * 2 + [*NUMBERS]))
        d = int(rng.choice([2, 3, 8, 16, 40])) if name in LABELS else PLACES
        make, domain = (LABELS[name], range(d)) if name in LABELS else (NUMBERS[name], (0, 1))
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
            if together:
                yield Held(question.name + " of all at once", held.all(axis=1, keepdims=True), s.confidence)
            else:
                yield Held(question.name, held, s.confidence, length(table, ends, s))


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
            true = moved if s.labeled else moved @ s.values
            ends = ("low", "high")
            yield Held("difference", between(table, ends, true, s.runs), s.confidence, length(table, ends, s))
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
    _, (_, _, low, high, _, p) = pooled_rows(
        [s.mechanism, s.another], np.stack(n, axis=1), counters, s.confidence, None
    )
    true = s.shares if s.labeled else s.shares @ s.values
    yield Held("pooled", inside(low, high, true), s.confidence)
    yield Held("pooled, of one population", p >= 0.05)


def of_weights(s: Situation) -> Iterator[Held]:
    """Of a public number of those who have a private value; of survey weights; of the number itself."""
    if isinstance(s.mechanism, (DrawnColumn, HierarchicalHistogram, SquareWave)):
        return  # (weights of square waves are of the middles of buckets)
    d, at, among, slope = len(s.shares), len(s.shares) // 2, stats.gamma(2), s.rng.random()
    share = s.shares[at] if s.labeled else s.shares @ s.values
    times, median = 1 + slope * at / d, among.ppf(0.5)
    held: dict[str, list[bool]] = {}

    def ask(name: str, low: float, high: float, true: float) -> None:
        held.setdefault(name, []).append(low <= true + 1e-9 and high >= true - 1e-9)

    for _ in range(SOME):
        codes = s.rng.choice(d, s.n, p=s.shares)
        reports = s.perturb(s.mechanism, s.values[codes])
        u = s.mechanism.weights(reports, int(s.values[at])) if s.labeled else reports
        found = total(u if s.labeled else (s.mechanism, u), confidence=s.confidence)
        ask("total", found.low, found.high, s.n * share)
        asked = s.rng.random(s.n) < 1 / (1 + codes % 2)  # half of those with an odd code
        if asked.any():
            stands, some = 1.0 + codes[asked] % 2, u[asked] if s.labeled else (s.mechanism, u[asked])
            found = weighted_mean(some, weights=stands, confidence=s.confidence)
            ask("weighted mean", found.low, found.high, share)
        if s.labeled and share:
            y = among.rvs(s.n, random_state=s.rng) * (1 + slope * codes / d)
            of_y, middle = (
                ratio(u * y, u, confidence=s.confidence),
                weighted_quantiles(y, u, [0.5], confidence=s.confidence),
            )
            ask("ratio", of_y.low, of_y.high, 2 * times)
            ask("weighted quantile", middle.low[0], middle.high[0], median * times)
    for name, each in held.items():
        yield Held(name, np.array(each)[:, None], s.confidence)


def of_tables(s: Situation) -> Iterator[Held]:
    """Of a second column, of Booleans, which depends on the first one in half of the cases."""
    d = len(s.shares)
    if not s.labeled or isinstance(s.mechanism, (DrawnColumn, HierarchicalHistogram)) or d > 8:
        return
    yes = s.rng.random(d) if s.rng.random() < 0.5 else np.full(d, s.rng.random())
    rates = np.column_stack([1 - yes, yes])
    cells = s.shares[:, None] * rates
    joint = Joint({"a": s.mechanism, "b": RandomizedResponse(range(2), epsilon=s.another.epsilon)})
    question, found = TableEstimate(s.confidence, "many"), []
    for _ in range(SOME):
        codes = s.rng.choice(d, s.n, p=s.shares)
        values = {"a": codes, "b": (s.rng.random(s.n) < yes[codes]).astype(np.int64)}
        reports = {name: s.perturb(m, values[name]) for name, m in joint.makers.items()}
        found.append(question.result(joint, joint.tally(reports)))

    def held(name: str, true: Any) -> np.ndarray:
        low, high = (np.array([np.ravel(getattr(one, name + end)) for one in found]) for end in ("low", "high"))
        return inside(low, high, np.ravel(true))

    yield Held("cell", held("", s.n * cells), s.confidence)
    yield Held("rate", held("rate_", rates)[:, np.repeat(s.shares > 0, 2)], s.confidence)
    there = s.shares > 0
    alone = np.outer(s.shares, cells.sum(axis=0))[there]
    yield Held("Cramer's V", held("cramers_v_", np.sqrt(((cells[there] - alone) ** 2 / alone).sum())), s.confidence)
    if (yes == yes[0]).all():
        yield Held("independent", np.array([[not one.p_value < 0.05] for one in found]))


def of_persons(s: Situation) -> Iterator[Held]:
    """Of 1 to 5 reports of each person, half of which have a value of their own."""
    question: Any = HistogramEstimate(s.confidence, population="many") if s.labeled else MeanEstimate(s.confidence)
    if isinstance(s.mechanism, (DrawnColumn, HierarchicalHistogram, SquareWave)) or not fits(question, s.mechanism):
        return
    d, held = len(s.shares), []
    for _ in range(SOME):
        persons = np.repeat(np.arange(s.n), s.rng.integers(1, 6, s.n))
        own, other = (s.rng.choice(d, k, p=s.shares) for k in (s.n, len(persons)))
        codes = np.where(s.rng.random(len(persons)) < 0.5, own[persons], other)
        found = question.of_persons(s.mechanism, s.perturb(s.mechanism, s.values[codes]), persons)
        true = s.shares * len(codes) if s.labeled else s.shares @ s.values
        held.append(np.atleast_1d(inside(found.low, found.high, true)))
    yield Held("of persons", np.array(held), s.confidence)


def of_plans(s: Situation) -> Iterator[Held]:
    """So many people as are said to be needed have an estimate within the margin."""
    margin, about = float(np.exp(s.rng.uniform(np.log(0.03), np.log(0.3)))), s.population and "many"
    question: Any = HistogramEstimate() if s.labeled else MeanEstimate()
    if isinstance(s.mechanism, HierarchicalHistogram) or not fits(question, s.mechanism):
        return  # (of trees one plans for an answer)
    n = required_n(s.mechanism, margin, 1 - s.confidence, population=about).n
    if n < 3000:
        table, _ = question.rows(s.mechanism, *s.tallies(s.mechanism, s.people(s.shares, n, about, s.runs)))
        found = table["frequency" if s.labeled else "mean"].to_numpy().reshape(s.runs, -1)
        shares = s.shares if about else whole(s.shares, n) / n
        true = shares if s.labeled else shares @ s.values
        yield Held("planned" + " of these people" * (about is None), abs(found - true) <= margin + 1e-9, s.confidence)


def fits(question: Any, mechanism: Any) -> bool:
    try:
        question.check(mechanism)
    except ParameterError:
        return False
    return True


def between(table: Any, ends: tuple[str, str], true: Any, runs: int) -> np.ndarray:
    return inside(*(np.asarray(table[end].to_numpy(), float).reshape(runs, -1) for end in ends), true)


def length(table: Any, ends: tuple[str, str], s: Situation) -> float:
    made = next((name for name in ("frequency", "share", "mean", "difference") if name in table.column_names), None)
    if made is None or isinstance(s.mechanism, SquareWave):  # (of which half a bucket is not known)
        return np.nan
    found, low, high = (np.asarray(table[name].to_numpy(), float).reshape(s.runs, -1) for name in (made, *ends))
    normal = 2 * stats.norm.isf((1 - s.confidence) / 2) * found.std(axis=0)
    return float(((high - low).mean(axis=0) / np.maximum(normal, 1e-9))[normal > 1e-9].max(initial=0))


def inside(low: np.ndarray, high: np.ndarray, true: Any) -> np.ndarray:
    """Where nothing is said (nan), nothing is promised."""
    return ~(low > np.asarray(true) + 1e-9) & ~(high < np.asarray(true) - 1e-9)


ASKED = (of_one_tally, of_two_tallies, of_weights, of_tables, of_persons, of_plans)


def judged(found: Held) -> tuple[float, float]:
    """The least that held, of all values, and how probable so few are if as many hold as should."""
    least = found.held.mean(axis=0).min()
    return least, stats.binom.cdf(round(least * len(found.held)), len(found.held), LEAST[found.confidence])


def told(seed: int, count: int) -> Iterator[tuple[Held, Situation, float, float]]:
    """What was asked in each situation, and its `judged`."""
    for s in situations(seed, count):
        for ask in ASKED:
            for found in ask(s):
                yield found, s, *judged(found)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    leasts: dict[tuple[str, float], list[float]] = {}
    for found, s, least, chance in told(*map(int, sys.argv[1:])):
        leasts.setdefault((found.what, found.confidence), []).append(least)
        if chance < 1e-4 or (found.length > 1.2 and s.n > 1000):
            print(f"{found.what}: {least:.3f} of {found.confidence}, {found.length:.2f} times as long: {s}", flush=True)
    for (what, confidence), held in sorted(leasts.items()):
        print(f"{what} {confidence}: {min(held):.3f} and more in {len(held)}, median {np.median(held):.3f}")
