"""Simulated tallies against those of real reports, closed forms, and what one report can be."""

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
from ldp_core import simulated_counts as simulation
from ldp_core.mechanisms.oracles.local_hashing import AffineFamily
from ldp_core.mechanisms.sketches.base import Candidates
from ldp_core.plans.drawn import DrawnColumn
from ldp_core.simulated_counts import inner_products, multinomials, scatter, subset_sums

from ..cases import each
from .checks import FALSE_ALARM, check_binomial
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
    if isinstance(m, DrawnColumn):
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
    "hybrid", "N outputs", "square wave, few", "stochastic rounding, SS", "sampled RR", "fake by a prior",
    "fake of no value", "PrivSet", "PrivSet wide",
]  # fmt: skip


@each("name", QUICK)
@pytest.mark.slow
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
    held = {value: value if isinstance(value, tuple) else (value,) for value in people}
    true = np.array([sum(n for who, n in people.items() if value in held[who]) for value in histogram.values])
    assert (np.abs(histogram.counts - true) < 6 * np.sqrt(m.variance(n, true))).all()


@each("name", ["hybrid", "N outputs", "piecewise", "one bit", "stochastic rounding"])
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
    native = native_reports(m, value, n := 1 << 16 - m.counters.bit_length(), seed=0)
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


# ---- draws for many people at once, against binomial tails


def generator():
    return np.random.default_rng(7)


@each("weights", [1, 2, 5, 64, np.array([1.0, 0.0, 3.0, 4.0, 1e-30])])
def test_each_choice_has_its_share(weights):
    people = np.array([0, 10, 10**9])
    counts = multinomials(people, weights, generator())
    shares = np.ones(weights) if isinstance(weights, int) else weights
    assert (counts.sum(axis=-1) == people).all()
    check_binomial(counts, people[:, None], shares / shares.sum())


def test_weights_of_each_row():
    counts = multinomials(np.array([[1000], [2000]]), np.array([[[0.0, 1, 0]], [[1, 0, 1]]]), generator())
    assert counts[0].tolist() == [[0, 1000, 0]]
    check_binomial(counts[1, 0], 2000, [0.5, 0, 0.5])


@each("people", [[3, 0, 10**6], [10**9, 5, 1]])
def test_scatter_as_one_by_one(people):
    people, out = np.array(people), np.zeros(30, np.int64)
    scatter(people, 10, lambda kind, choice: kind * 10 + choice, out, generator())
    check_binomial(out.reshape(3, 10), people[:, None], 0.1)


@each(("d", "size"), [(2, 1), (5, 0), (5, 2), (7, 6), (33, 20), (64, 1)])
def test_sets_of_others(d, size):
    people = np.arange(d) ** 3 % 11 * 10**5
    sums = subset_sums(size, people, generator())
    assert sums.sum() == size * people.sum()
    check_binomial(sums, people.sum() - people, size / (d - 1))


def test_more_people_than_numpy_draws_from_at_once(monkeypatch):
    monkeypatch.setattr(simulation, "_MOST_DRAWN", 10**6)
    test_sets_of_others(5, 2)


@each(("f", "m"), [(2, 1), (2, 6), (3, 3), (7, 2)])
def test_inner_products(f, m):
    k = f**m
    v, s = k - 1, f - 1  # all digits f - 1
    counts = np.zeros((k, f), np.int64)
    counts[v, s] = 10**6
    digits = np.arange(k)[:, None] // f ** np.arange(m) % f
    right = (s + digits.sum(axis=1) * (f - 1)) % f
    drawn = inner_products(counts, generator())
    check_binomial(drawn[np.arange(k), right], 10**6, 1 / k)
    assert drawn.sum() == drawn[np.arange(k), right].sum()
    zero = inner_products(counts, generator(), zero=True)
    check_binomial(zero[:, 0], 10**6, (right == 0) * f / k)
    assert not zero[:, 1:].any()


def test_choices_of_weight_0_stay_empty_whatever_rounding_leaves():
    weights = np.array([[0.1, 0.7, 0.2, 0.0, 0.0], [0.3, 0.3, 0.4, 0.0, 0.0], [0.0, 0.1, 0.2, 0.3, 0.0]])
    people = np.full((1000, 3), 1 << 62)
    counts = multinomials(people, weights, generator())
    assert (counts.sum(axis=-1) == people).all()
    assert not counts[:, weights == 0].any()


def test_sets_of_2_60_people_cost_no_more_than_those_of_few():
    people = np.full(16, 1 << 56)
    sums = subset_sums(4, people, generator())
    assert sums.sum() == 4 * people.sum()
    others, share = float(15 << 56), 4 / 15  # (too many for exact tails)
    assert (abs(sums - others * share) < 7 * (others * share * (1 - share)) ** 0.5).all()


def test_few_of_more_people_than_numpy_draws_from(monkeypatch):
    monkeypatch.setattr(simulation, "_MOST_DRAWN", 3)
    people, random = np.array([6, 4, 10]), generator()
    drawn = np.array([simulation._taken(people, 7, random) for _ in range(3_000)])
    assert (drawn.sum(axis=1) == 7).all()
    assert ((drawn >= 0) & (drawn <= people)).all()
    for kind, own in enumerate(people):  # each number as often as without replacement
        at_most = stats.hypergeom(20, own, 7).cdf(np.arange(8))
        cumulative = np.cumsum(np.bincount(drawn[:, kind], minlength=8))
        check_binomial(cumulative[:-1], len(drawn), np.clip(at_most[:-1], 0, 1))
