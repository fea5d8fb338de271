"""Situations that are drawn, for `benchmarks.promises`, and how answers in them are judged.

A situation is a mechanism, its epsilon, how many people have which value, a confidence, and whom intervals are about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ldp_core import (
    FakeDataColumn,
    HadamardResponse,
    HierarchicalHistogram,
    Hybrid,
    Keyed,
    LocalHashing,
    NOutput,
    OneBitMean,
    ParameterError,
    Piecewise,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    SampledColumn,
    SampledNumber,
    Secret,
    SquareWave,
    StochasticRounding,
    SubsetSelection,
    ThresholdHistogramEncoding,
    UnaryEncoding,
)
from ldp_core.estimates.base import Population
from ldp_core.noise.fresh import Keystream
from ldp_core.plans.drawn import DrawnColumn

MANY, SOME, FEW = 1000, 200, 100
"""Tallies: of questions that answer many at once, of those that are answered one by one, and of slow ones."""
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
    tallied: int = MANY

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
        return SOME if self.name == "square wave" else self.tallied

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

    def tallies(self, m: Any, people: np.ndarray, values: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """n and counters of each run, of reports that are drawn all at once."""
        (runs, d), n = people.shape, people.sum(axis=1)
        codes = m.inputs.encode(self.values if values is None else values, column="x")
        codes = codes[np.repeat(np.tile(np.arange(d), runs), people.reshape(-1))]
        noise: Any = Keystream(self.rng.bytes(32))
        if m.memoized:
            secret = Secret.from_seed(int(self.rng.integers(2**60)))
            noise = Keyed(secret, np.arange(len(codes)), column="x").bind(m.digest, codes)
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


# ---- how answers are judged


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


def judged(found: Held) -> tuple[float, float]:
    """The least that held, of all values, and how probable so few are if as many hold as should."""
    least = found.held.mean(axis=0).min()
    return least, stats.binom.cdf(round(least * len(found.held)), len(found.held), LEAST[found.confidence])
