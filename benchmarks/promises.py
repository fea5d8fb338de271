"""``python -m benchmarks.promises 7 200``: whether intervals hold what they promise, whatever is asked.

Situations are drawn: a mechanism, its epsilon, how many people have which value, a confidence, and whom intervals are
about. In each one all questions that the mechanism takes are asked, of a thousand tallies, and one of those that have
mechanisms or tallies of their own. A seed (7) is a list of situations, of which the first 200 are asked here. What is
broken is printed, and then the least that held.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.situations import (
    FEW,
    PLACES,
    SOME,
    Held,
    Situation,
    between,
    fits,
    inside,
    judged,
    length,
    shares_of,
    situations,
    whole,
)
from ldp_core import (
    CdfEstimate,
    CountMeanSketch,
    DBitFlip,
    DistributionEstimate,
    HadamardCountMeanSketch,
    HeavyHitters,
    HierarchicalHistogram,
    HistogramEstimate,
    Keyed,
    Loloha,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    MeanEstimate,
    MedianEstimate,
    ParameterError,
    Prefixes,
    PrivSet,
    QuantilesEstimate,
    RandomizedResponse,
    RangeEstimate,
    Secret,
    SquareWave,
    StochasticRounding,
    Tally,
    compare_persons,
    linear_fit,
    ratio,
    required_n,
    total,
    weighted_mean,
    weighted_quantiles,
)
from ldp_core.estimates.comparison import Compare
from ldp_core.estimates.joint import Joint, TableEstimate
from ldp_core.estimates.pooling import pooled_rows
from ldp_core.estimates.quantile_differences import CompareQuantiles
from ldp_core.plans.drawn import DrawnColumn

REMEMBERING = {
    "L-GRR": lambda d, epsilon: LongitudinalRandomizedResponse(d, epsilon_infinity=2 * epsilon, epsilon_1=epsilon),
    "L-OSUE": lambda d, epsilon: LongitudinalUnaryEncoding(d, epsilon_infinity=2 * epsilon, epsilon_1=epsilon),
    "LOLOHA": lambda d, epsilon: Loloha(d, epsilon_infinity=2 * epsilon, epsilon_1=epsilon),
    "dBitFlip": lambda d, epsilon: DBitFlip(d, epsilon_infinity=epsilon, bits=min(4, len(d))),
}


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

    yield Held("cell", of_all(found, "", s.n * cells), s.confidence)
    yield Held("rate", of_all(found, "rate_", rates)[:, np.repeat(s.shares > 0, 2)], s.confidence)
    there = s.shares > 0
    alone = np.outer(s.shares, cells.sum(axis=0))[there]
    yield Held(
        "Cramer's V", of_all(found, "cramers_v_", np.sqrt(((cells[there] - alone) ** 2 / alone).sum())), s.confidence
    )
    if (yes == yes[0]).all():
        yield Held("independent", np.array([[not one.p_value < 0.05] for one in found]))


def of_all(found: list[Any], name: str, true: Any) -> np.ndarray:
    low, high = (np.array([np.ravel(getattr(one, name + end)) for one in found]) for end in ("low", "high"))
    return inside(low, high, np.ravel(true))


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


def of_sets(s: Situation) -> Iterator[Held]:
    """Of people of as many kinds as there are values: each kind has some items, or none."""
    d = len(s.shares)
    if not s.labeled:
        return
    s, most = replace(s, tallied=SOME), int(s.rng.integers(1, min(d, 6) + 1))
    kinds = [s.rng.permutation(d)[:size].tolist() for size in s.rng.integers(0, most + 1, d)]
    has = np.array([np.isin(np.arange(d), kind) for kind in kinds])
    m = PrivSet(range(d), epsilon=s.mechanism.epsilon, most=most)
    size = s.n if s.population is None else s.population
    true = (s.shares if size == "many" else whole(s.shares, size) / size) @ has
    tallies = s.tallies(m, s.people(s.shares, s.n, s.population, s.runs), kinds)
    yield from of_histograms("items", m, tallies, true, s)
    other = s.tallies(m, s.people(s.shares, s.n, "many", s.runs), kinds)
    first = tallies if s.population == "many" else s.tallies(m, s.people(s.shares, s.n, "many", s.runs), kinds)
    table, _ = Compare(s.confidence).rows(m, *(np.stack(pair, axis=1) for pair in zip(first, other, strict=True)))
    yield Held("difference of items", between(table, ("low", "high"), 0, s.runs), s.confidence)
    p = table["p_adjusted"].to_numpy().reshape(s.runs, -1)
    yield Held("p_adjusted of items", (p >= 0.05).all(axis=1, keepdims=True))


def of_histograms(name: str, m: Any, tallies: Any, true: Any, s: Situation, **how: Any) -> Iterator[Held]:
    """Intervals of each value, and of all at once."""
    for together in (False, True):
        question = HistogramEstimate(s.confidence, together, population=s.population, **how)
        table, _ = question.rows(m, *tallies)
        held = between(table, ("frequency_low", "frequency_high"), true, len(tallies[0]))
        each = held.all(axis=1, keepdims=True) if together else held
        yield Held(name + " of all at once" * together, each, s.confidence)


def of_sketches(s: Situation) -> Iterator[Held]:
    """Of values, and of three that nobody has, over the hash functions: each run has its own."""
    if not s.labeled:
        return
    kind = (CountMeanSketch, HadamardCountMeanSketch)[s.rng.integers(2)]
    cells = {"hashes": int(s.rng.choice([1, 8, 64])), "width": int(s.rng.choice([4, 32, 256]))}
    size = s.n if s.population is None else s.population
    true = np.append(s.shares if size == "many" else whole(s.shares, size) / size, np.zeros(3))
    held: list[list[Any]] = [[], []]
    for salt, people in enumerate(s.people(s.shares, s.n, s.population, FEW)):
        sketch = kind("int", epsilon=s.mechanism.epsilon, salt=salt, **cells)
        tally = sketch.tally(s.perturb(sketch, np.repeat(np.arange(len(people)), people)))
        for together in (False, True):
            question = HistogramEstimate(s.confidence, together, population=s.population)
            found = question.result(sketch.over(range(len(true))), tally)
            inside_of = inside(found.frequency_low, found.frequency_high, true)
            held[together].append([inside_of.all()] if together else inside_of)
    yield Held("candidates", np.array(held[0]), s.confidence)
    yield Held("candidates of all at once", np.array(held[1]), s.confidence)


def of_searches(s: Situation) -> Iterator[Held]:
    """Of values that nobody has none are found; intervals of what is found; and whether it takes as many as planned."""
    if not s.labeled:
        return
    bits, d = int(s.rng.integers(6, 11)), len(s.shares)
    levels = (bits,) if s.rng.random() < 0.5 else (bits // 2, bits)
    cells = {"rows": int(s.rng.choice([8, 16])), "width": int(s.rng.choice([256, 1024]))}
    m = HeavyHitters(Prefixes(None, bits), epsilon=s.mechanism.epsilon, levels=levels, **cells)
    values = s.rng.permutation(2**bits)[:d]
    people = whole(s.shares, s.n)
    searches = [m.find(tally, 50, confidence=s.confidence) for tally in each_tally(m, values, people, s)]
    held = {*values[people > 0].tolist()}
    yield Held("nothing found that nobody has", np.array([[held >= {*one.values}] for one in searches]), s.confidence)
    for value, many in zip(values.tolist(), people, strict=True):
        found = [(one, one.values.index(value)) for one in searches if value in one.values]
        if many and len(found) >= FEW / 4:
            ends = np.array([(one.low[at], one.high[at]) for one, at in found])
            yield Held("found", inside(*ends.T, many)[:, None], s.confidence)
    n = m.reports_to_find(float(s.shares.max()))
    if n < 3000:
        people, most = whole(s.shares, math.ceil(n)), values[s.shares.argmax()]
        searches = [m.find(tally, 50) for tally in each_tally(m, values, people, s)]
        yield Held("found as planned", np.array([[most in one.values] for one in searches]))


def each_tally(m: Any, values: np.ndarray, people: np.ndarray, s: Situation) -> Iterator[Tally]:
    for _ in range(FEW):
        yield m.tally(s.perturb(m, np.repeat(values, people)))


def of_remembered(s: Situation) -> Iterator[Held]:
    """One report each, of a mechanism that remembers: what is asked of all others."""
    if not s.labeled or s.name == "tree":
        return
    make = REMEMBERING[str(s.rng.choice([*REMEMBERING]))]
    with suppress(ParameterError):
        m, other = (make(range(len(s.shares)), one.epsilon) for one in (s.mechanism, s.another))
        remembered = replace(s, name=m.name, mechanism=m, another=other, tallied=SOME)
        for ask in (of_one_tally, of_two_tallies):
            for found in ask(remembered):
                yield found._replace(what=found.what + ", remembered")


def of_the_same_people(s: Situation) -> Iterator[Held]:
    """Of a few reports of each, with keyed noise: of all together, and the last ones less the first ones."""
    if not s.labeled or isinstance(s.mechanism, (DrawnColumn, HierarchicalHistogram)):
        return
    m, d, n, times, moving = s.mechanism, len(s.shares), min(s.n, 200), int(s.rng.integers(2, 5)), s.rng.random() / 2
    codes = s.rng.choice(d, (FEW, n, 1), p=s.shares) + np.zeros(times, int)
    codes = np.where(s.rng.random(codes.shape) < moving, s.rng.choice(d, codes.shape, p=s.shares), codes)
    ids = np.arange(FEW * n).repeat(times)
    noise = Keyed(Secret.from_seed(int(s.rng.integers(2**60))), ids, column="x")
    reports = m.perturb(codes.reshape(-1), randomness=noise)
    native = m._checked(reports, "x")
    runs, first = ids // n, np.arange(len(ids)) % times == 0
    last = np.roll(first, -1)
    all_of, before, after = (m.count_reports(native[some], runs[some], FEW) for some in (first | True, first, last))
    for about, true in ((None, shares_in(codes, d)), ("many", s.shares)):
        of = replace(s, population=about)
        yield from of_histograms("repeated", m, (np.full(FEW, n * times), all_of), true, of, repeats=times)
    question = Compare(s.confidence, same_people=True)
    table, _ = question.rows(m, np.full((FEW, 2), n), np.stack([before, after], axis=1))
    yield Held("difference of the same people", between(table, ("low", "high"), 0, FEW), s.confidence)
    p = np.nan_to_num(table["p_value_of_all"].to_numpy(), nan=1.0).reshape(FEW, -1)[:, :1]
    yield Held("test of the same people", p >= 0.05)
    if math.isinf(m.parts[1]):
        return
    persons, both = [], []
    for run in range(FEW):
        mine = slice(run * n * times, (run + 1) * n * times)
        found = HistogramEstimate(s.confidence).of_persons(m, reports[mine], ids[mine])
        persons.append(inside(found.frequency_low, found.frequency_high, s.shares))
        sides = [(reports[mine][some[mine]], ids[mine][some[mine]]) for some in (first, last)]
        both.append(compare_persons(m, *sides, confidence=s.confidence))
    yield Held("keyed, of persons", np.array(persons), s.confidence)
    yield Held("difference by person", np.array([inside(x.low, x.high, 0) for x in both]), s.confidence)
    yield Held("test by person", np.array([[not x.p_value < 0.05] for x in both]))
    yield Held("p_adjusted by person", np.array([[(x.p_adjusted >= 0.05).all()] for x in both]))


def shares_in(codes: np.ndarray, d: int) -> np.ndarray:
    return (codes.reshape(len(codes), -1)[:, :, None] == np.arange(d)).mean(axis=1)


def of_looks(s: Situation) -> Iterator[Held]:
    """Of eight looks at two streams: intervals and tests that hold at all of them, and of all values at the last."""
    if s.labeled and isinstance(s.mechanism, HierarchicalHistogram):
        return
    looks, more = 8, s.rng.uniform(0.3, 3)
    sides = []
    for n in (max(1, s.n // looks), max(1, round(s.n * more / looks))):
        parts = [s.tallies(s.mechanism, s.people(s.shares, n, "many", SOME)) for _ in range(looks)]
        sides.append([np.cumsum(part, axis=0) for part in zip(*parts, strict=True)])
    n, counters = (np.stack(part, axis=2) for part in zip(*sides, strict=True))  # looks, runs, side
    at = int(np.exp(s.rng.uniform(np.log(10), np.log(1e5))))
    for together in (False, True):
        question = Compare(s.confidence, together, anytime=at)
        if not question.compares(s.mechanism):
            return
        rows, _ = question.rows(s.mechanism, n.reshape(-1, 2), counters.reshape(looks * SOME, 2, -1))
        held = between(rows, ("low", "high"), 0, looks * SOME).reshape(looks, SOME, -1).all(axis=0)
        each = held.all(axis=1, keepdims=True) if together else held
        yield Held("difference at all looks" + " of all at once" * together, each, s.confidence)
    for name in ("p_value", "p_value_of_all"):
        p = np.nan_to_num(rows[name].to_numpy(), nan=1.0).reshape(looks, SOME, -1).min(axis=0)
        yield Held(name + " at all looks", p >= 0.05)
    rows, _ = Compare(s.confidence, simultaneous=True).rows(s.mechanism, n[-1], counters[-1])
    held = between(rows, ("low", "high"), 0, SOME).all(axis=1, keepdims=True)
    yield Held("differences of all at once", held, s.confidence)


def of_three_columns(s: Situation) -> Iterator[Held]:
    """Of two columns of Booleans beside the first one, all of them independent in half of the cases."""
    d, epsilon = len(s.shares), s.another.epsilon
    if not s.labeled or isinstance(s.mechanism, (DrawnColumn, HierarchicalHistogram)) or d > 3:
        return
    alone, (b, c) = s.rng.random() < 0.5, s.rng.random((2, d, 2))
    if alone:
        b[:], c[:] = b[0, 0], c[0, 0]
    rates = np.stack([1 - c, c], axis=2)
    cells = s.shares[:, None, None] * np.stack([1 - b[:, 0], b[:, 0]], axis=1)[:, :, None] * rates
    with suppress(ParameterError):  # (more reports than there are people)
        makers = {name: RandomizedResponse(range(2), epsilon=epsilon) for name in "bc"}
        joint, question, found = Joint({"a": s.mechanism, **makers}), TableEstimate(s.confidence, "many"), []
        for _ in range(SOME):
            codes = np.unravel_index(s.rng.choice(cells.size, s.n, p=cells.reshape(-1)), cells.shape)
            reports = {name: s.perturb(m, of) for (name, m), of in zip(joint.makers.items(), codes, strict=True)}
            found.append(question.result(joint, joint.tally(reports)))
        there = np.repeat(cells.sum(axis=2).reshape(-1) > 0, 2)
        yield Held("cell of three columns", of_all(found, "", s.n * cells), s.confidence)
        yield Held("rate of three columns", of_all(found, "rate_", rates)[:, there], s.confidence)
        if alone:
            yield Held("independent, three columns", np.array([[not one.p_value < 0.05] for one in found]))


def of_distributions(s: Situation) -> Iterator[Held]:
    """Of rounding at random, which counts a number for the two nearest points, and of square waves."""
    if s.labeled:
        return
    epsilon, oracles = s.mechanism.epsilon, ["unary_encoding", "randomized_response", "subset_selection"]
    points, oracle, wave = int(s.rng.choice([2, 3, 5, 9, 17])), str(s.rng.choice(oracles)), s.rng.random() < 0.3
    if wave:
        m: Any = SquareWave((0, 1), epsilon=epsilon, buckets=32)
        of_buckets = np.minimum(np.arange(PLACES), 31)[:, None] == np.arange(32)
    else:
        m = StochasticRounding((0, 1), epsilon=epsilon, buckets=points, oracle=oracle)
        of_buckets = np.maximum(1 - abs(s.values[:, None] * (points - 1) - np.arange(points)), 0)
    n, counters = s.tallies(m, s.people(s.shares, s.n, s.population and "many", SOME))
    shares = s.shares if s.population else whole(s.shares, s.n) / s.n
    true, middle = of_buckets.T @ shares, s.values[np.searchsorted(np.cumsum(shares), 0.5 - 1e-9)]
    question = DistributionEstimate(s.confidence)
    found = [question.result(m, Tally(int(k), of, m.fingerprint)) for k, of in zip(n, counters, strict=True)]
    whose = ", square wave" * wave + " of these people" * (s.population is None)
    for name, at in (("low", "high"), true), (("cumulative_low", "cumulative_high"), np.cumsum(true)):
        ends = (np.array([getattr(one, end) for one in found]) for end in name)
        yield Held(f"distribution: {name[0]}{whose}", inside(*ends, at), s.confidence)
    ends = np.array([one.quantile_interval(0.5) for one in found]).T
    yield Held("median of a distribution", inside(*ends, middle)[:, None], s.confidence)


def of_lines(s: Situation) -> Iterator[Held]:
    """Of a second number that is a part of the first one, and the rest uniform; public, or reported by the same."""
    x = s.mechanism
    if s.labeled or isinstance(x, DrawnColumn) or not getattr(x, "tells_squares", False):
        return
    part, public = s.rng.random(), s.rng.random() < 0.5
    variance = s.shares @ s.values**2 - (s.shares @ s.values) ** 2
    true = {"variance x": variance, "covariance": part * variance}
    true["variance y"] = part**2 * variance + (1 - part) ** 2 / 12
    if variance > 1e-9:
        true |= {"slope": part, "intercept": (1 - part) / 2}
        true["correlation"] = part * (variance / true["variance y"]) ** 0.5
    held: dict[str, list[bool]] = {name: [] for name in true}
    for _ in range(SOME):
        of_x = s.rng.choice(s.values, s.n, p=s.shares)
        y = part * of_x + (1 - part) * s.rng.random(s.n)
        of_y = y if public else (s.another, s.perturb(s.another, y))
        found = linear_fit((x, s.perturb(x, of_x)), of_y, confidence=s.confidence)
        for name in held.keys() & {*found.names}:
            _, low, high = found[name]
            held[name].append(not low > true[name] + 1e-9 and not high < true[name] - 1e-9)
    for name, each in held.items():
        if each:
            yield Held("line: " + name, np.array(each)[:, None], s.confidence)


ASKED = (of_one_tally, of_two_tallies, of_weights, of_tables, of_persons, of_plans)
ALSO = (
    *(of_sets, of_sketches, of_searches, of_remembered, of_the_same_people),
    *(of_looks, of_three_columns, of_distributions, of_lines),
)
"""Of which each situation is asked one, which is drawn: they are slow."""


def told(seed: int, count: int) -> Iterator[tuple[Held, Situation, float, float]]:
    """What was asked in each situation, and its `judged`."""
    for s in situations(seed, count):
        also = replace(s, rng=s.rng.spawn(1)[0])  # (numbers of its own)
        for ask, of in (*((ask, s) for ask in ASKED), (ALSO[also.rng.integers(len(ALSO))], also)):
            for found in ask(of):
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
