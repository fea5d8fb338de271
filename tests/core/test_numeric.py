"""Mechanisms for numbers: exact channels by enumeration of the code's decisions; closed forms; errors that are true."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from math import comb

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ldp_core import (
    DomainError,
    DtypeError,
    HadamardResponse,
    Interval,
    Keyed,
    Keystream,
    LocalHashing,
    Mechanism,
    MechanismMismatchError,
    ParameterError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
    SubsetSelection,
    Tally,
    UnaryEncoding,
)
from ldp_core.exact.sampling import ONE
from ldp_core.inputs.interval import STEPS
from ldp_core.mechanisms.numbers import _base as numeric
from ldp_core.mechanisms.numbers.hybrid import Hybrid
from ldp_core.mechanisms.numbers.one_bit_mean import OneBitMean
from ldp_core.mechanisms.numbers.piecewise import Piecewise
from ldp_core.mechanisms.numbers.square_wave import SquareWave
from ldp_core.mechanisms.numbers.stochastic_rounding import StochasticRounding, spread

from .checks import check_binomial, exact_exp

# Evaluations of the papers' closed forms: epsilon; Duchi at 0; piecewise at t = 0 and 1; its C
MEANS = [
    (0.5, 16.67079235613105, 17.701756920970418, 21.222568585158218, 8.0416233283756),
    (1.0, 4.6826943768311695, 3.682103369506886, 5.223597452043684, 4.082988165073596),
    (2.0, 1.7240616609663102, 0.64558808540773, 1.2275647922770565, 2.163953413738653),
    (4.0, 1.0760218298380713, 0.0848362442391045, 0.24135388698877014, 1.3130352854993312),
]
# epsilon; b, p, q, as vvv214/LDP_Protocols sw.py has them
SQUARE_WAVE = [
    (0.5, 0.35815542461116684, 0.7559484588634582, 0.4585059174632018),
    (1.0, 0.25608293750147265, 1.1363051215897186, 0.4180232931306735),
    (2.0, 0.1293370667457663, 2.53801040671566, 0.34348235725033444),
    (4.0, 0.030427703824353614, 12.630880147922284, 0.23134263963622595),
]
SIDE = (-1.0, 1.0)
SYMBOLS = {
    "one bit": OneBitMean(SIDE, epsilon=1.0),
    "one bit, epsilon 3": OneBitMean(SIDE, epsilon=3.0),
    "piecewise": Piecewise(SIDE, epsilon=4.0),
    "piecewise, epsilon 7": Piecewise(SIDE, epsilon=7.0),
    "hybrid": Hybrid(SIDE, epsilon=4.0),
    "hybrid, epsilon 0.5": Hybrid(SIDE, epsilon=0.5),
    "square wave": SquareWave(SIDE, epsilon=1.0, buckets=10),
    "square wave, 2 buckets": SquareWave(SIDE, epsilon=0.5, buckets=2),
}
ROUNDED = {
    "rounding, k-RR": StochasticRounding(SIDE, epsilon=2.0, buckets=5, oracle="randomized_response"),
    "rounding, OUE": StochasticRounding(SIDE, epsilon=1.0, buckets=4),
    "rounding, SUE": StochasticRounding(
        SIDE, epsilon=1.0, buckets=9, oracle=partial(UnaryEncoding, variant="symmetric")
    ),
    "rounding, subsets": StochasticRounding(SIDE, epsilon=1.0, buckets=8, oracle="subset_selection"),
    "rounding, Hadamard": StochasticRounding(SIDE, epsilon=1.0, buckets=6, oracle="hadamard_response"),
}
ALL = SYMBOLS | ROUNDED
CODES = [0, 1, STEPS // 3, STEPS // 2, STEPS - 1, STEPS]
each_symbols = pytest.mark.parametrize("name", SYMBOLS)
each = pytest.mark.parametrize("name", ALL)


def true_share(m, code) -> Fraction:
    """What a report's value should be on average: the number, or the middle of its bucket."""
    if isinstance(m, SquareWave):
        return Fraction(2 * min(code * m.buckets // STEPS, m.buckets - 1) + 1, 2 * m.buckets)
    return Fraction(code, STEPS)


# ---- the channel, from the code that perturbs


class Recorded:
    """Noise that gives zeros, and remembers what was asked for."""

    def __init__(self) -> None:
        self.asked: dict[int, tuple[str, int]] = {}

    def uniform_below(self, d, n, lane):
        return self._decide("uniform", d, n, lane).astype(np.uint8 if d <= 256 else np.uint32)

    def bernoulli(self, threshold, n, lane):
        return np.packbits(self._decide("bernoulli", threshold, n, lane).astype(bool), bitorder="little")

    def _decide(self, kind, parameter, n, lane):
        assert lane not in self.asked, "two decisions in one lane"
        self.asked[lane] = kind, parameter
        return np.zeros(n, np.int64)


class Every(Recorded):
    """Noise for as many records as there are combinations of decisions; that of the rounding is given."""

    def __init__(self, asked, below) -> None:
        super().__init__()
        self.below = below
        self.lanes = [lane for lane in asked if lane != numeric.LANE_ROUND]
        self.sizes = [2 if asked[lane][0] == "bernoulli" else asked[lane][1] for lane in self.lanes]
        self.choices = np.indices(self.sizes).reshape(len(self.sizes), -1)
        self.bits = [i for i, lane in enumerate(self.lanes) if asked[lane][0] == "bernoulli"]
        self.thresholds = [asked[self.lanes[i]][1] for i in self.bits]

    def _decide(self, kind, parameter, n, lane):
        super()._decide(kind, parameter, n, lane)
        return np.full(n, self.below) if lane == numeric.LANE_ROUND else self.choices[self.lanes.index(lane)]

    def distribution(self, reports, symbols) -> list[Fraction]:
        """Exact probability of each symbol, from the reports of all combinations."""
        uniform = len(reports) // 2 ** len(self.bits)
        total = [Fraction(0)] * symbols
        for outcome in product((0, 1), repeat=len(self.bits)):
            rows = np.logical_and.reduce([self.choices[i] == bit for i, bit in zip(self.bits, outcome, strict=True)])
            weight = Fraction(1, uniform)
            for bit, threshold in zip(outcome, self.thresholds, strict=True):
                weight *= Fraction(threshold if bit else ONE - threshold, ONE)
            for symbol, count in enumerate(np.bincount(reports[rows], minlength=symbols).tolist()):
                total[symbol] += count * weight
        return total


def enumerated(m, code) -> list[Fraction]:
    """Pr[symbol | code]: all decisions of `perturb_block`, and for the rounding one draw of each stretch in which
    neither of the two roundings that there may be (to points, and to one bit) changes."""
    recorded = Recorded()
    m.perturb_block(np.array([code], np.uint32), recorded)
    breaks = {0, STEPS, STEPS - code, STEPS - code * (m.points - 1) % STEPS}
    total = [Fraction(0)] * m.symbols
    for start, stop in pairwise(sorted(breaks)):
        for below in {start, stop - 1}:  # both ends, to see that nothing changes between
            noise = Every(recorded.asked, below)
            reports = m.perturb_block(np.full(noise.choices.shape[1], code, np.uint32), noise)
            part = noise.distribution(np.asarray(reports, np.int64), m.symbols)
        total = [a + Fraction(stop - start, STEPS) * b for a, b in zip(total, part, strict=True)]
    return total


@each_symbols
def test_the_channel_is_that_of_the_code_that_perturbs(name):
    m = SYMBOLS[name]
    for code in CODES[2:3] if m.symbols > 100 else CODES:
        assert enumerated(m, code) == m.probabilities(code)


@pytest.mark.parametrize("points", [2, 3, 100, 256, 257, 1000])
def test_rounding_carries_exactly_as_often_as_it_should(points):
    for code in [*CODES, 12_345_678]:
        point, rest = divmod(code * (points - 1), STEPS)
        below = np.array([0, max(STEPS - rest - 1, 0), min(STEPS - rest, STEPS - 1), STEPS - 1], np.uint32)
        rounded = numeric.raised(np.full(4, code, np.uint32), points, below)
        assert rounded.tolist() == [point, point, point + (rest > 0), point + (rest > 0)]


@each_symbols
def test_probabilities_add_up_and_values_are_unbiased_exactly(name):
    m = SYMBOLS[name]
    values = m.symbol_values()
    for code in [*CODES, 777_777]:
        row = m.probabilities(code)
        assert sum(row) == 1
        assert len(row) == m.symbols == m.counters
        assert sum(p * v for p, v in zip(row, values, strict=True)) == true_share(m, code)


@each_symbols
def test_every_ratio_is_within_epsilon(name):
    m = SYMBOLS[name]
    near = STEPS // 7 * (m.points - 1) // STEPS
    points = range(m.points) if m.points < 20 else [0, 1, near, near + 1, m.points - 2, m.points - 1]
    rows = [m.channel(point) for point in points]
    worst = max(max(column) / min(column) for column in zip(*rows, strict=True))
    assert worst == m.worst_ratio() <= exact_exp(m.epsilon)
    row = m.probabilities(STEPS // 7)
    assert all(min(column) <= p <= max(column) for p, column in zip(row, zip(*rows, strict=True), strict=True))


@settings(max_examples=40)
@given(st.floats(1e-6, 200))
def test_epsilon_is_never_above_the_one_asked_for(epsilon):
    for m in (OneBitMean(SIDE, epsilon=epsilon), Piecewise(SIDE, epsilon=epsilon), Hybrid(SIDE, epsilon=epsilon)):
        assert 1 < m.worst_ratio() <= exact_exp(epsilon)
    for buckets in (2, 1000):
        assert 1 < SquareWave(SIDE, epsilon=epsilon, buckets=buckets).worst_ratio() <= exact_exp(epsilon)


# ---- closed forms, on [-1, 1]


def exact_variance(m, code) -> Fraction:
    """n Var on [-1, 1], from the channel."""
    row, values = m.probabilities(code), m.symbol_values()
    second = sum(p * v**2 for p, v in zip(row, values, strict=True))
    return 4 * (second - true_share(m, code) ** 2)


@pytest.mark.parametrize(("epsilon", "duchi", "at_0", "at_1", "c"), MEANS)
def test_variances_are_those_of_the_papers(epsilon, duchi, at_0, at_1, c):
    one_bit, piecewise = OneBitMean(SIDE, epsilon=epsilon), Piecewise(SIDE, epsilon=epsilon)
    assert float(exact_variance(one_bit, STEPS // 2)) == pytest.approx(duchi, rel=1e-12)
    assert one_bit.variance(1) == pytest.approx(duchi, rel=1e-12)
    assert one_bit.variance(10, 1.0) == pytest.approx((duchi - 1) / 10, rel=1e-12)
    for code, known in ((STEPS // 2, at_0), (STEPS, at_1)):
        assert float(exact_variance(piecewise, code)) == pytest.approx(known, rel=0.002)
    assert piecewise.variance(1) == pytest.approx(at_1, rel=0.002)
    m, w = piecewise.cells
    values = piecewise.symbol_values()
    right = 2 * float(values[-1] + (values[1] - values[0]) / 2) - 1  # the right end of the last cell
    assert right == pytest.approx(c, rel=0.01)
    h, e = np.exp(epsilon / 2), np.exp(epsilon)
    assert w / m == pytest.approx(1 / (h + 1), abs=0.5 / m)
    expected = (h + 3) / (3 * h * (h - 1)) + ((e + 1) / (e - 1)) ** 2 / h if epsilon > 0.61 else duchi
    hybrid = Hybrid(SIDE, epsilon=epsilon)
    assert hybrid.variance(1) == pytest.approx(expected, rel=0.002)
    assert hybrid.variance(1) <= min(one_bit.variance(1), piecewise.variance(1)) * 1.002


@pytest.mark.parametrize("epsilon", [0.1, 5.3, 5.5, 8.0, 10.0])
def test_piecewise_cells_are_fine_enough_everywhere(epsilon):
    m, h = Piecewise(SIDE, epsilon=epsilon), np.exp(epsilon / 2)
    for t in (0.0, 0.37, 1.0):
        paper = t**2 / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)
        assert float(exact_variance(m, round((t + 1) / 2 * STEPS))) == pytest.approx(paper, rel=0.01)


@pytest.mark.parametrize("name", ["one bit", "hybrid", "piecewise", "square wave"])
def test_variance_of_any_number_is_that_of_the_channel(name):
    m = SYMBOLS[name]
    codes = [*CODES, 777_777, 8_400_001]
    exact = [float(exact_variance(m, code)) for code in codes]
    ours = [m.variance(1, min(2 * code / STEPS - 1, 1.0)) for code in codes]
    np.testing.assert_allclose(ours, exact, rtol=1e-9)
    assert max(exact) <= m.variance(1) * (1 + 1e-9)
    assert 4 * m.least_noise <= min(exact) * (1 + 1e-9)


def test_one_bit_mean_is_ding_s_and_duchi_s():
    m, e = OneBitMean((0, 8), epsilon=1.5), np.exp(1.5)
    for code in CODES:
        share = code / STEPS
        ding = 1 / (e + 1) + share * (e - 1) / (e + 1)
        duchi = 0.5 + (2 * share - 1) * (e - 1) / (2 * (e + 1))
        assert float(m.probabilities(code)[1]) == pytest.approx(ding, rel=1e-12) == pytest.approx(duchi, rel=1e-12)
    tally = Tally(10, np.array([3, 7]), m.fingerprint)
    assert m.mean(tally).mean == pytest.approx(8 / 10 * (7 * (e + 1 - 1) / (e - 1) - 3 / (e - 1)))
    wilson = stats.binomtest(7, 10).proportion_ci(0.95, method="wilson")
    ends = [8 * (p * (e + 1) - 1) / (e - 1) for p in (wilson.low, wilson.high)]
    assert [m.mean(tally).low, m.mean(tally).high] == pytest.approx(ends)


@pytest.mark.parametrize(("epsilon", "b", "p", "q"), SQUARE_WAVE)
def test_square_wave_parameters(epsilon, b, p, q):
    m = SquareWave((0, 1), epsilon=epsilon, buckets=2048)
    assert m.b == pytest.approx(b, rel=1e-12)
    high, low = (float(x) * m.buckets for x in m.cell_probabilities)  # of cells, as densities
    assert (high, low) == (pytest.approx(p, rel=0.005), pytest.approx(q, rel=0.005))
    assert m.cells == (2048 + 2 * int(b * 2048), 2 * int(b * 2048) + 1)
    small = SquareWave((0, 1), epsilon=epsilon, buckets=50)
    (cells, w), e = small.cells, np.exp(epsilon)
    assert float(small.cell_probabilities[0]) == pytest.approx(e / (w * e + cells - w), rel=1e-12)


# ---- stochastic rounding: how the parts of one report hang together


def law_of_bits(oracle, x, bits) -> Fraction:
    """Exact probability that exactly these values are supported by a report of x; small k only."""
    k = len(bits)
    p, q = (Fraction(a[0]) for a in oracle.expected_parts())
    if isinstance(oracle, RandomizedResponse):
        return Fraction(0) if sum(bits) != 1 else p if bits[x] else q
    if isinstance(oracle, SubsetSelection):
        if sum(bits) != oracle.k:
            return Fraction(0)
        return p / comb(k - 1, oracle.k - 1) if bits[x] else (1 - p) / comb(k - 1, oracle.k)
    weight = Fraction(1)
    for v, bit in enumerate(bits):
        one = p if v == x else q
        weight *= one if bit else 1 - one
    return weight


def supports_by_report(oracle):
    """Each set of supported values that there may be, and its exact probability given each value."""
    k = oracle.domain.size
    if isinstance(oracle, HadamardResponse):
        p = Fraction(oracle.expected_parts()[0][0])
        for y in range(oracle.columns):
            bits = [((v + 1) & y).bit_count() % 2 == 0 for v in range(k)]
            yield np.array(bits), [2 * (p if bits[x] else 1 - p) / oracle.columns for x in range(k)]
        return
    for bits in product((False, True), repeat=k):
        yield np.array(bits), [law_of_bits(oracle, x, bits) for x in range(k)]


@pytest.mark.parametrize("name", ROUNDED)
def test_spread_over_all_reports(name):
    m = ROUNDED[name]
    weights = np.vstack([m.places, np.tri(m.buckets)[1], np.random.default_rng(0).normal(size=m.buckets)])
    total, first, second = np.zeros(m.buckets), *np.zeros((2, 3, m.buckets))
    for bits, exact in supports_by_report(m.oracle):
        law, sums = np.array(exact, float), weights @ bits
        total += law
        first += sums[:, None] * law
        second += sums[:, None] ** 2 * law
    np.testing.assert_allclose(total, 1)
    np.testing.assert_allclose(spread(m.oracle, weights), second - first**2, atol=1e-12)


def test_two_points_and_randomized_response_are_one_bit_mean():
    rounding = StochasticRounding((3, 5), epsilon=1.25, buckets=2, oracle="randomized_response")
    one_bit = OneBitMean((3, 5), epsilon=1.25)
    assert rounding.worst_ratio() == one_bit.worst_ratio()
    assert rounding.variance(7, 3.3) == pytest.approx(one_bit.variance(7, 3.3), rel=1e-12)
    counts = np.array([400, 600])
    ours = rounding.mean(Tally(1000, counts, rounding.fingerprint))
    theirs = one_bit.mean(Tally(1000, counts, one_bit.fingerprint))
    assert ours.mean == pytest.approx(theirs.mean, rel=1e-12)
    assert ours.standard_error == pytest.approx(theirs.standard_error * np.sqrt(999 / 1000), rel=1e-9)


def test_k_ary_randomized_response_agrees_with_the_sample_variance():
    """There a report is a symbol, so that the error from the model is that of the sample."""
    m = ROUNDED["rounding, k-RR"]
    counts = np.array([300, 100, 250, 50, 300])
    value = (m.places - m.oracle.q * m.places.sum()) / (m.oracle.p - m.oracle.q)
    sample = np.repeat(value, counts)
    found = m.mean(Tally(1000, counts, m.fingerprint))
    assert (found.mean + 1) / 2 == pytest.approx(sample.mean(), rel=1e-12)
    assert found.standard_error / 2 == pytest.approx(sample.std() / np.sqrt(1000), rel=1e-12)


@pytest.mark.parametrize(
    "oracle", [LocalHashing, "local_hashing", lambda points, epsilon: 7, lambda points, epsilon: SYMBOLS["hybrid"]]
)
def test_oracles_that_do_not_do(oracle):
    with pytest.raises(ParameterError):
        StochasticRounding(SIDE, epsilon=1.0, oracle=oracle)
    with pytest.raises(ParameterError):
        StochasticRounding(SIDE, epsilon=1.0, oracle=lambda points, epsilon: UnaryEncoding(points, epsilon=2 * epsilon))


# ---- samples

N = 300_000
POPULATIONS = {
    "ends and zero": lambda: np.random.default_rng(0).permutation(np.arange(N) % 3 - 1.0),
    "30 % at 0.2": lambda: np.where(np.random.default_rng(1).random(N) < 0.3, 0.2, -0.4),
}


def check_mean(m, numbers, found) -> None:
    """Within 6 standard errors of the noise alone; and the stated error is noise and population together."""
    levels, counts = np.unique(numbers, return_counts=True)
    n = len(numbers)
    noise = sum(c * m.variance(1, x) for x, c in zip(levels.tolist(), counts.tolist(), strict=True)) / n**2
    reported = numbers
    if isinstance(m, SquareWave):  # which knows of a number nothing but its bucket
        bucket = np.minimum(np.floor((numbers + 1) / 2 * m.buckets), m.buckets - 1)
        reported = (2 * bucket + 1) / m.buckets - 1
    assert abs(found.mean - reported.mean()) < 6 * np.sqrt(noise)
    assert found.standard_error == pytest.approx(np.sqrt(noise + reported.var() / n), rel=0.05)
    assert found.low < found.mean < found.high
    assert found.n == n


@each
@pytest.mark.parametrize("population", POPULATIONS)
def test_means_are_unbiased(name, population):
    m, numbers = ALL[name], POPULATIONS[population]()
    check_mean(m, numbers, m.mean(m.tally(m.perturb(numbers))))


@each_symbols
def test_marginals_of_samples(name):
    m = SYMBOLS[name]
    codes = np.array([0, 3_333_333, STEPS], np.uint32)
    for code in codes:
        counts = np.bincount(m.perturb_codes(np.full(N, code), Keystream()).astype(int), minlength=m.symbols)
        check_binomial(counts, N, np.array([float(p) for p in m.probabilities(int(code))]))


def test_keyed_noise_has_the_same_marginals():
    for m in (SYMBOLS["hybrid"], SYMBOLS["piecewise, epsilon 7"], SYMBOLS["one bit"]):
        noise = Keyed(Secret.generate(), np.arange(N), column="c")
        counts = m.tally(m.perturb(np.full(N, 0.123), randomness=noise)).counters
        (code,) = m.inputs.encode([0.123]).tolist()
        check_binomial(counts, N, np.array([float(p) for p in m.probabilities(code)]))


def coverage(m, numbers, runs, n) -> float:
    """Share of 95 % intervals that hold the mean of the population from which n numbers are drawn each time."""
    rng = np.random.default_rng(4)
    codes = m.inputs.encode(numbers)
    row = np.mean([[float(p) for p in m.probabilities(int(code))] for code in codes], axis=0)
    counts = rng.multinomial(n, row / row.sum(), size=runs)
    _, _, low, high = m.means(np.full(runs, n), counts)
    return float(np.mean((low <= numbers.mean()) & (numbers.mean() <= high)))


@pytest.mark.parametrize("name", ["one bit", "one bit, epsilon 3", "piecewise", "hybrid", "hybrid, epsilon 0.5"])
@pytest.mark.parametrize("n", [50, 1000])
def test_intervals_of_means_cover(name, n):
    for numbers in (np.array([-1.0, -0.9, 0.4]), np.array([1.0])):
        assert 0.93 <= coverage(SYMBOLS[name], numbers, 8000, n) <= 0.985


def test_intervals_of_means_from_model_errors_cover():
    """Through real reports: 1000 tallies of 500 numbers each."""
    m = ROUNDED["rounding, subsets"]
    runs, n = 1000, 500
    numbers = np.random.default_rng(2).choice([-1.0, -0.2, 0.9], runs * n)
    native = m.perturb_codes(
        m.inputs.encode(numbers),
        Keyed(Secret.from_seed(1), np.arange(runs * n), column="c").bind(m.fingerprint, m.inputs.encode(numbers)),
    )
    counts = m.count_reports(native, np.arange(runs * n) // n, runs)
    _, _, low, high = m.means(np.full(runs, n), counts)
    truth = -0.3 / 3
    assert 0.925 <= np.mean((low <= truth) & (truth <= high)) <= 0.975


# ---- planted faults


def test_too_little_noise_is_found(monkeypatch):
    row = Piecewise(SIDE, epsilon=4.0).probabilities(0)
    m = Piecewise(SIDE, epsilon=4.0)
    monkeypatch.setitem(m.__dict__, "keep", m.keep + (ONE - m.keep) // 2)
    assert enumerated(m, 0) != row
    counts = np.bincount(m.perturb_codes(np.zeros(N, np.uint32), Keystream()), minlength=m.symbols)
    with pytest.raises(AssertionError, match="probability"):
        check_binomial(counts, N, np.array(row, float))
    assert m.worst_ratio() > exact_exp(m.epsilon)


def test_rounding_to_the_nearest_point_is_found(monkeypatch):
    numbers = np.full(N, 0.2)
    m = OneBitMean(SIDE, epsilon=3.0)
    check_mean(m, numbers, m.mean(m.tally(m.perturb(numbers))))

    def nearest(codes, points, noise):
        return np.rint(codes / STEPS * (points - 1)).astype(np.uint32)

    monkeypatch.setattr("ldp_core.mechanisms.numbers.one_bit_mean.round_to_points", nearest)
    with pytest.raises(AssertionError):
        check_mean(m, numbers, m.mean(m.tally(m.perturb(numbers))))


@pytest.mark.parametrize("kind", [OneBitMean, Piecewise, Hybrid, StochasticRounding])
def test_the_values_of_another_epsilon_are_found(kind):
    numbers = POPULATIONS["30 % at 0.2"]()
    m, half = kind(SIDE, epsilon=2.0), kind(SIDE, epsilon=1.0)
    reports = half.perturb(numbers)
    if kind in (Piecewise, Hybrid):  # so that they could be m's
        reports = np.minimum(reports, m.symbols - 1)
    with pytest.raises(AssertionError):
        check_mean(m, numbers, m.mean(m.tally(reports)))


def test_error_bars_that_are_too_short_are_found(monkeypatch):
    m, numbers = SYMBOLS["hybrid"], np.array([-1.0, -0.9, 0.4])
    real = numeric.normal_interval
    monkeypatch.setattr(numeric, "normal_interval", lambda mean, error, confidence: real(mean, 0.8 * error, confidence))
    assert coverage(m, numbers, 8000, 1000) < 0.92
    found = m.mean(m.tally(m.perturb(np.full(N, 0.5))))
    with pytest.raises(AssertionError):
        check_mean(m, np.full(N, 0.5), replace(found, standard_error=0.8 * found.standard_error))


def test_a_channel_with_a_wrong_row_is_found():
    class Wrong(OneBitMean):
        name = "wrong one bit mean"

        def perturb_block(self, codes, noise):
            return super().perturb_block(np.maximum(codes, STEPS // 64), noise)

    try:
        m = Wrong(SIDE, epsilon=1.0)
        assert enumerated(m, 0) != m.probabilities(0)
        assert enumerated(m, STEPS) == m.probabilities(STEPS)
    finally:
        del Mechanism._registry["wrong one bit mean"]


# ---- unbiased distributions


def test_the_mean_of_an_unbiased_distribution_is_the_mean():
    for name, m in ROUNDED.items():
        tally = m.tally(m.perturb(POPULATIONS["30 % at 0.2"]()[:5000]))
        found = m.distribution(tally)
        expected = m.mean(tally).mean
        total = found.frequencies.sum()
        if name == "rounding, k-RR":
            assert total == pytest.approx(1)
        assert found.mean == pytest.approx(expected)
        middles = (found.centres[1:] + found.centres[:-1]) / 2
        np.testing.assert_allclose(found.edges, [-1, *middles, 1], atol=1e-12)


def test_errors_of_cumulative_shares_of_rounded_numbers():
    m = ROUNDED["rounding, Hadamard"]
    numbers = POPULATIONS["30 % at 0.2"]()[:2000]
    found = [m.distribution(m.tally(m.perturb(numbers))) for _ in range(250)]
    stated = np.mean([f.cumulative_errors for f in found], 0)[:-1]
    seen = np.std([f.cumulative for f in found], 0)[:-1]
    assert all(f.cumulative[-1] == pytest.approx(1) for f in found)
    assert np.all(seen < 1.3 * stated)
    assert np.all(seen > 0.7 * stated)


# ---- value objects and errors


@each
def test_value_object(name):
    m = ALL[name]
    m.perturb([0.5])
    for again in (Mechanism.from_dict(json.loads(json.dumps(m.to_dict()))), pickle.loads(pickle.dumps(m))):
        assert again == m
        assert (hash(again), again.fingerprint, repr(again)) == (hash(m), m.fingerprint, repr(m))
        assert again.worst_ratio() == m.worst_ratio()
    plan = PrivacyPlan({"x": m}, keep=["t"])
    assert PrivacyPlan.from_toml(plan.to_toml()) == plan
    assert "(mean)" in plan.explain(1000)
    with pytest.raises(AttributeError):
        m.epsilon = 1


def test_all_differ():
    assert len({m.fingerprint for m in ALL.values()}) == len(ALL) == len(set(ALL.values()))


def test_fingerprints_of_this_release():
    """Stored reports and tallies name these: a change needs a migration."""
    assert OneBitMean((0, 1), epsilon=1).to_dict() == {
        "mechanism": "one_bit_mean",
        "epsilon": 1.0,
        "domain": {"low": 0.0, "high": 1.0},
    }
    assert StochasticRounding((0, 1), epsilon=1.0).to_dict()["oracle"] == "unary_encoding"
    assert ROUNDED["rounding, SUE"].to_dict()["oracle"] == {"mechanism": "unary_encoding", "variant": "symmetric"}


@each
def test_tallies_merge_and_layouts_agree(name):
    m = ALL[name]
    numbers = np.random.default_rng(1).uniform(-1, 1, 5000)
    reports = m.perturb(pa.array(numbers))
    assert reports.type == m.report_type()
    whole = m.tally(reports)
    assert Tally.merge([m.tally(reports[:1234]), m.tally(reports[1234:])]) == whole
    assert whole == m.tally(m.to_numpy(m.from_arrow(reports))) == m.tally(pa.chunked_array([reports[:7], reports[7:]]))
    groups = np.arange(5000) % 3
    native = m.from_arrow(reports)
    grouped = m.count_reports(native, groups, 3)
    for g in range(3):
        np.testing.assert_array_equal(grouped[g], m.count_reports(native[groups == g], groups[groups == g] * 0, 1)[0])
    n = np.bincount(groups)
    together = m.means(n, grouped)
    alone = [m.mean(Tally(int(n[g]), grouped[g], m.fingerprint)) for g in range(3)]
    np.testing.assert_allclose(together[0], [a.mean for a in alone])
    np.testing.assert_allclose(together[3], [a.high for a in alone])


@each
def test_keyed_reports_repeat(name):
    m = ALL[name]
    numbers, ids, secret = np.linspace(-1, 1, 70_000), np.arange(70_000), Secret.generate()

    def reports(order):
        return m.to_numpy(
            m.from_arrow(m.perturb(pa.array(numbers[order]), randomness=Keyed(secret, ids[order], column="c")))
        )

    order = np.random.default_rng(0).permutation(70_000)
    np.testing.assert_array_equal(reports(ids)[order], reports(order))


@each
def test_no_reports_and_one(name):
    m = ALL[name]
    empty = m.mean(m.tally(m.perturb(pa.array([], pa.float64()))))
    assert empty.n == 0
    assert np.isnan([empty.mean, empty.low, empty.high]).all()
    one = m.mean(m.tally(m.perturb([0.5])))
    assert np.isfinite([one.mean, one.standard_error, one.low, one.high]).all()
    assert one.standard_error >= np.sqrt(4 * m.least_noise) * (1 - 1e-9)
    assert m.explain(0).error == "inf"
    if hasattr(m, "distribution"):
        assert np.isnan(m.distribution(m.empty_tally()).frequencies).all()
        assert np.isnan(m.distribution(m.empty_tally()).quantile(0.5))


def test_reports_of_equal_symbols_are_not_certain():
    m = Piecewise(SIDE, epsilon=1.0)
    counts = np.zeros(m.symbols, np.int64)
    counts[100] = 5
    assert m.mean(Tally(5, counts, m.fingerprint)).standard_error == pytest.approx(
        np.sqrt(m.variance(5, m.mean(Tally(5, counts, m.fingerprint)).mean))
    )


@each
def test_inputs(name):
    m = ALL[name]
    for values in ([1.5], [None, 0.5], [float("nan")], pa.array([0.1, None]), np.array([-1.0000001])):
        with pytest.raises(DomainError) as error:
            m.perturb(values)
        assert "1.5" not in str(error.value).replace("[-1, 1]", "")
    for values in (["a"], [True], pa.array(["a"]), pa.array([True]), 7):
        with pytest.raises(DtypeError):
            m.perturb(values)
    for values in (pa.array([1, 0]), np.array([1, 0], np.int8), [0, 1], pa.array([0.5, -0.5], pa.float32())):
        assert len(m.perturb(values)) == 2


def test_clipping():
    m = OneBitMean(Interval(0, 10, "clip"), epsilon=80.0)
    assert m.perturb([-5, 0, 10, 99]).tolist() == [False, False, True, True]
    assert Mechanism.from_dict(m.to_dict()) == m


@pytest.mark.parametrize("kind", [OneBitMean, Piecewise, Hybrid, SquareWave, StochasticRounding])
def test_bad_parameters(kind):
    for epsilon in (0, -1, float("nan"), float("inf"), 1e-20, "1", None):
        with pytest.raises(ParameterError):
            kind(SIDE, epsilon=epsilon)
    for domain in ((1, 0), (0, 0), (0, float("inf")), (0, 1e-310), "ab", 7, (0, 1, 2), (True, 2)):
        with pytest.raises(DomainError):
            kind(domain, epsilon=1.0)
    m = kind(SIDE, epsilon=1.0)
    for n, number in ((0, None), (10, 2.0), (10, float("nan"))):
        with pytest.raises(ParameterError):
            m.variance(n, number)
    for confidence in (0, 1, 95, True, float("nan")):
        with pytest.raises(ParameterError):
            m.mean(m.empty_tally(), confidence=confidence)
    with pytest.raises(MechanismMismatchError):
        m.mean(kind(SIDE, epsilon=2.0).empty_tally())
    with pytest.raises(ParameterError):
        Mechanism.from_dict({**m.to_dict(), "seed": 1})


@pytest.mark.parametrize("kind", [SquareWave, StochasticRounding])
def test_bad_buckets(kind):
    for buckets in (0, 1, 2.0, True, 10**6, "4"):
        with pytest.raises(ParameterError):
            kind(SIDE, epsilon=1.0, buckets=buckets)
    m = kind(SIDE, epsilon=1.0, buckets=np.int64(5))
    assert json.loads(json.dumps(m.to_dict()))["buckets"] == 5


def test_bad_distributions():
    m = SquareWave(SIDE, epsilon=1.0, buckets=10)
    for options in ({"method": "mle"}, {"buckets": 11}, {"buckets": 0}, {"confidence": 1}):
        with pytest.raises(ParameterError):
            m.distribution(m.empty_tally(), **options)


@each_symbols
def test_what_is_no_report(name):
    m = SYMBOLS[name]
    bad = [pa.array([1, 2]), pa.array([None], m.report_type()), pa.array(["x"]), pa.array([[True]])]
    if m.report_type() != pa.bool_():
        bad.append(pa.array([0, m.symbols], m.report_type()))
    for reports in bad:
        with pytest.raises(ReportError):
            m.tally(reports)
    with pytest.raises(ReportError):
        m.mean(Tally(3, np.arange(m.symbols), m.fingerprint))
