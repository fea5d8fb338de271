"""Simulated tallies against those of real reports, closed forms, and what one report can be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ldp_core import (
    DBitFlip,
    Domain,
    DomainError,
    FakeDataColumn,
    FrequencyOracle,
    HadamardResponse,
    HeavyHitters,
    LocalHashing,
    Loloha,
    LongitudinalUnaryEncoding,
    Mechanism,
    ParameterError,
    Prefixes,
    RandomizedResponse,
    Rappor,
    ReportError,
    SampledColumn,
    SquareWave,
    StochasticRounding,
    SubsetSelection,
    SummationHistogramEncoding,
    UnaryEncoding,
)
from ldp_core.mechanisms.oracles.hash_families import AffineFamily, LinearFamily
from ldp_core.mechanisms.oracles.independent_bits import BitVectors, IndependentBits
from ldp_core.mechanisms.sketches.base import Candidates

from ..cases import each
from .checks import FALSE_ALARM, fails
from .examples import EVERY, REGISTERED, keyed, people_of

MORE: dict[str, Mechanism] = {
    "coins": RandomizedResponse.from_coins(truth=0.3, yes=0.8),
    "SUE, none": UnaryEncoding(Domain(range(5), unmatched="none"), epsilon=1.0, variant="symmetric"),
    "HR, none": HadamardResponse(Domain(range(5), unmatched="none"), epsilon=1.0),
    "SHE, unit 3": SummationHistogramEncoding(Domain(range(4), unmatched="none"), epsilon=1.0, unit=3),
    "SS, large sets": SubsetSelection(range(7), epsilon=0.5, k=5),
    "FLH, none": LocalHashing(Domain(range(9), unmatched="none"), epsilon=1.5, variant="fast"),
    "dBitFlipPM, all": DBitFlip(range(4), epsilon_infinity=2.0, bits=4),
    "dBitFlipPM, none": DBitFlip(Domain(range(5), unmatched="none"), epsilon_infinity=2.0, bits=3),
    "L-SOUE": LongitudinalUnaryEncoding(range(4), epsilon_infinity=3.0, epsilon_1=1.0, variant="SOUE"),
    "RAPPOR, MD5": Rappor(bits=16, hashes=3, cohorts=4, f=0.5, p=0.25, q=0.75, hashing="md5"),
    "heavy hitters, large field": HeavyHitters(Prefixes(None, 4), epsilon=3.0, rows=2, width=512),
    "square wave, few": SquareWave((0, 1), epsilon=1.0, buckets=8),
    "stochastic rounding, SS": StochasticRounding((0, 1), epsilon=1.0, buckets=5, oracle="subset_selection"),
    "sampled RR": SampledColumn(RandomizedResponse(range(3), epsilon=1.0), columns=4),
    "fake by a prior": FakeDataColumn(UnaryEncoding(range(3), epsilon=1.0), columns=2, prior=[2, 0, 1]),
    "fake of no value": FakeDataColumn(UnaryEncoding(range(3), epsilon=1.0), columns=3, fake="none"),
}
ALL = {**EVERY, **MORE}


def native_reports(m: Mechanism, value, n: int, seed: int):
    """Real reports of n people, in the working layout."""
    codes, noise = m.inputs.encode([value] * n), keyed(n, seed + 1)
    if isinstance(m, SampledColumn | FakeDataColumn):
        drawn = np.random.default_rng(seed).random(n) < 1 / m.columns
        return m.perturb_drawn(codes, drawn, noise)
    if isinstance(m, Rappor) and m.hashing == "md5":
        return m.draw([value] * n, noise, "x")
    return m.perturb_codes(codes, noise.bind(m.digest, codes))


def directions(m: Mechanism) -> np.ndarray:
    """Int64[k, counters]: some counters, unless each is rare; and large sums, unless they are right one by one."""
    rng, size = np.random.default_rng(5), m.counters
    single = np.zeros((min(size, 6), size), np.int64)
    single[np.arange(len(single)), rng.permutation(size)[: len(single)]] = 1
    if apart(m):
        return single
    sums = np.concatenate([rng.choice([-1, 1], (4, size)), rng.choice([0, 1], (2, size))])
    return sums if size > _FEW else np.concatenate([single, sums])


_FEW = 64


def apart(m: Mechanism) -> bool:
    """Whether only each counter by itself has its distribution."""
    return isinstance(m, LocalHashing | Loloha) and isinstance(m.family, AffineFamily)


def check_law(m: Mechanism, runs: int, reports: int) -> None:
    """Simulated tallies have the mean and the covariances of sums of real reports: a chi-square test.

    (Those of a report are found from many; what they are off by is far below what the test can see.)
    """
    people, onto = people_of(m), directions(m)
    mean, covariance = np.zeros(len(onto)), np.zeros((len(onto), len(onto)))
    for value, n in people.items():
        parts = []
        step = max(_CELLS // m.counters, 1)
        for start in range(0, reports, step):
            k = min(step, reports - start)
            native = native_reports(m, value, k, seed=start)
            parts.append(m.count_reports(native, np.arange(k), k) @ onto.T)
        projected = np.concatenate(parts).astype(float)
        mean += n * projected.mean(axis=0)
        covariance += n * np.cov(projected.T)
    drawn = np.array([onto @ m.simulate(people, seed=seed).counters for seed in range(runs)]) - mean
    check_chi_square(drawn, covariance, [[i] for i in range(len(onto))] if apart(m) else [range(len(onto))])


_CELLS = 1 << 20


def check_chi_square(drawn, covariance, groups) -> None:
    """``drawn`` (float[runs, k], about 0) has this covariance, in each group of its columns; both tails."""
    for group in groups:
        some = np.ix_(list(group), list(group))
        values, vectors = np.linalg.eigh(covariance[some])
        good = values > 1e-9 * values.max()
        vectors, values = vectors[:, good], values[good]
        components = drawn[:, list(group)] @ vectors
        assert np.abs(drawn[:, list(group)] - components @ vectors.T).max() < 1e-6 * (1 + np.abs(drawn).max())
        chi_square, freedom = (components**2 / values).sum(), components.size
        bar = FALSE_ALARM / 2 / len(groups)
        assert stats.chi2.ppf(bar, freedom) / 1.1 < chi_square < 1.1 * stats.chi2.isf(bar, freedom)


SMALL = {name: m for name, m in ALL.items() if m.counters <= 1 << 14}
QUICK = [
    "k-ary RR", "coins", "OUE", "SS", "OLH", "FLH, none", "HR, none", "BHR", "SHE, unit 3", "PGR", "HPGR",
    "dBitFlipPM, none", "L-GRR", "L-SOUE", "LOLOHA, linear", "RAPPOR", "RAPPOR, MD5", "heavy hitters, large field",
    "hybrid", "square wave, few", "stochastic rounding, SS", "sampled RR", "fake by a prior", "fake of no value",
]  # fmt: skip


@each("name", QUICK)
def test_counters_have_the_law_of_real_reports(name):
    check_law(ALL[name], 20, 1 << 11)


@pytest.mark.slow
@each("name", SMALL)
def test_counters_have_the_law_of_many_real_reports(name):
    check_law(SMALL[name], 300, 1 << 16)


@each("name", ["k-ary RR", "RAPPOR"])
def test_mechanisms_that_know_no_short_way_make_the_reports(monkeypatch, name):
    monkeypatch.setattr(type(ALL[name]), "simulate_counters", Mechanism.simulate_counters)
    check_law(ALL[name], 20, 1 << 11)


BILLION = [name for name, m in EVERY.items() if isinstance(m, FrequencyOracle) and not isinstance(m, Candidates)]


@each("name", BILLION)
def test_a_billion_people_are_estimated_within_the_mechanism_s_error(name):
    """Nearly normal, and seeded: nothing fails by chance; the bar is 6 standard errors, 2e-9 a value."""
    m = EVERY[name]
    people = {value: n * 10**7 for value, n in people_of(m).items()}
    n = sum(people.values())
    histogram = m.estimate(m.simulate(people, seed=4))
    assert histogram.n == n
    true = np.array([people.get(value, 0) for value in histogram.values])
    assert (np.abs(histogram.counts - true) < 6 * np.sqrt(m.variance(n, true))).all()


@each("name", ["hybrid", "piecewise", "one bit", "stochastic rounding"])
def test_a_billion_numbers_have_their_mean(name):
    m = REGISTERED[name]
    low, length = m.domain.low, m.domain.high - m.domain.low
    people = {low + length * share: n * 10**7 for share, n in ((0, 50), (0.3, 20), (0.7, 25), (1, 5))}
    mean = m.mean(m.simulate(people, seed=1))
    true = sum(number * n for number, n in people.items()) / 10**9
    assert abs(mean.mean - true) < 6 * np.sqrt(m.variance(10**9))


def test_frequent_strings_are_found():
    m = HeavyHitters(Prefixes("abcdefgh", 4), epsilon=2.0, rows=4, width=256)
    people = {"bad": 40_000, "cafe": 30_000, "": 10_000} | {f"{a}{b}": 20 for a in "abcdefgh" for b in "abcdefgh"}
    assert m.find(m.simulate(people, seed=1), 3).values == ("bad", "cafe", "")


@each("name", SMALL)
def test_one_person_s_tally_is_that_of_a_report(name):
    m = SMALL[name]
    value = next(iter(people_of(m)))
    native = native_reports(m, value, n := 1 << 20 - m.counters.bit_length(), seed=0)
    possible = {row.tobytes() for row in m.count_reports(native, np.arange(n), n)}
    for seed in range(3):
        tally = m.simulate({value: 1}, seed=seed)
        m.check_tally(tally)
        if len(possible) < n / 100:  # so few that all of them have been seen
            assert tally.counters.tobytes() in possible


def test_who_is_counted():
    m = UnaryEncoding(Domain(["a", "b"], unmatched="none"), epsilon=1.0)
    assert m.simulate({"a": 3, "b": 0, None: 2, "c": 1}, seed=1) == m.simulate([3, 0, 3], seed=1)
    other = RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0)
    assert other.simulate({"a": 3, "c": 2, None: 1}, seed=1) == other.simulate([3, 0, 3], seed=1)
    assert m.simulate({}) == m.simulate(np.zeros(3, int)) == m.empty_tally()
    assert m.simulate([5, 5, 5], seed=1) == m.simulate([5, 5, 5], seed=1) != m.simulate([5, 5, 5], seed=2)
    assert REGISTERED["hybrid"].simulate({}) == REGISTERED["hybrid"].empty_tally()
    numbers = REGISTERED["one bit"]
    assert numbers.simulate({2.5: 10}, seed=1).n == 10


@each(
    ("counts", "error", "words"),
    [
        ([1, 2], ParameterError, "counts must be 5 numbers of people, one a code, got 2"),
        ([[1, 2, 3, 4, 5]], ParameterError, "whole numbers of people"),
        ([1, 2, 3, 4, -1], ParameterError, "at least 0"),
        ([0.2] * 5, ParameterError, "whole numbers of people, at least 0, got an array of float64"),
        ({0: 1, 9: 2}, DomainError, "1 of 2 values are not in the domain"),
        ({0: 2**62, 1: 2**62}, ReportError, "at most"),
    ],
)
def test_refusals(counts, error, words):
    with pytest.raises(error, match=words):
        REGISTERED["k-ary RR"].simulate(counts)


def test_other_refusals():
    with pytest.raises(ParameterError, match="must map values to numbers of people"):
        REGISTERED["HCMS"].simulate([1, 2])
    with pytest.raises(ParameterError, match="seed must be an integer"):
        REGISTERED["k-ary RR"].simulate({0: 1}, seed=-1)


# ---- planted faults


def test_independent_bits_in_place_of_a_set_are_seen(monkeypatch):
    monkeypatch.setattr(SubsetSelection, "simulate_counters", BitVectors.simulate_counters)
    fails(check_law, ALL["SS"], 20, 1 << 11)


def test_functions_in_place_of_the_family_s_are_seen(monkeypatch):
    """The linear family's counters are not independent: under function 0 all values are in one bucket."""
    monkeypatch.setattr(LinearFamily, "simulate", AffineFamily.simulate)
    fails(test_one_person_s_tally_is_that_of_a_report, "FLH, none")


@pytest.mark.filterwarnings("ignore::ldp_core.LdpWarning")
def test_a_keep_that_is_off_by_a_thousandth_is_seen(monkeypatch):
    right = IndependentBits.support_probabilities
    monkeypatch.setattr(UnaryEncoding, "p", property(lambda m: float(right(m)[0][0]) * 1.001))
    fails(test_a_billion_people_are_estimated_within_the_mechanism_s_error, "OUE")
