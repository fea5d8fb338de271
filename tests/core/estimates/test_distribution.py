"""Distributions of numbers: fits against matrices, errors against differences and repeated runs, coverage."""

import pickle
from functools import partial

import numpy as np
import pytest
from scipy import stats

from ldp_core import Distribution, ParameterError, SquareWave, StochasticRounding, Tally, WholeNumbers, usual_question
from ldp_core.estimates.distribution import DistributionEstimate
from ldp_core.estimates.expectation_maximization import derivative, fit
from ldp_core.mechanisms.numbers import square_wave

from ...cases import each
from ..checks import slow
from .helpers import METHODS, SIDE, counts_of, population


def test_distribution_from_reports():
    numbers = np.random.default_rng(3).beta(5, 2, 200_000) * 50 + 10
    for m in (SquareWave((10, 60), epsilon=2.0, buckets=256), StochasticRounding((10, 60), epsilon=2.0, buckets=26)):
        found = m.distribution(m.tally(m.perturb(numbers)))
        assert (found.edges[0], found.edges[-1], found.n) == (10, 60, 200_000)
        assert found.mean == pytest.approx(numbers.mean(), abs=0.5)
        for share in (0.1, 0.5, 0.9):
            assert found.quantile(share) == pytest.approx(np.quantile(numbers, share), abs=1.5)
    assert found.method == "unbiased"
    assert found.mean == pytest.approx(m.mean(m.tally(m.perturb(numbers))).mean, abs=0.5)


@each("last", [2, 5, 11])
def test_few_whole_numbers_are_not_blurred(last):
    m = SquareWave(WholeNumbers(1, last), epsilon=2.0)
    shares = np.append(2, np.zeros(last - 2)) / 3
    people = m.domain.encode(np.arange(1.0, last + 1)), np.rint(np.append(shares, 1 / 3) * 30_000).astype(np.int64)
    tally = Tally(30_000, m.simulate_counters(*people, np.random.default_rng(last)), m.fingerprint)
    found = m.distribution(tally, buckets=last)
    assert found.method == "em"
    np.testing.assert_allclose(found.frequencies, np.append(shares, 1 / 3), atol=0.02)
    wave = SquareWave(WholeNumbers(18, 90), epsilon=1.0)
    assert wave.distribution(wave.empty_tally()).method == "ems"


def test_an_option_that_a_mechanism_does_not_have():
    """It was a TypeError."""
    for name, value in (("buckets", 4), ("method", "em")):
        with pytest.raises(ParameterError, match=f"{name} is no option of the distribution of StochasticRounding"):
            DistributionEstimate(**{name: value}).check(StochasticRounding((0, 1), epsilon=1.0))


def test_by_default_there_are_as_many_buckets_as_people_look_at():
    """Square Wave's own, 1,024, were as many rows of a table, of a file and of a page."""
    for buckets, shown in ((100, 40), (41, 40), (16, 16)):
        m = SquareWave((0, 80), epsilon=2.0, buckets=buckets)
        tally = m.simulate({20.0: 500, 60.0: 300}, seed=1)
        found = m.distribution(tally)
        assert len(found) == len(usual_question(m).result(m, tally)) == shown
        assert found.frequencies.sum() == pytest.approx(1)
        fine = m.distribution(tally, buckets=buckets)
        assert (len(fine), fine.quantile(0.5)) == (buckets, found.quantile(0.5)), "quantiles are of the fine ones"
        assert found.mean == pytest.approx(fine.mean, abs=0.1)


@each("buckets", [3, 128, 129])
@each("method", METHODS)
def test_one_bucket_of_all_numbers_is_in_its_interval(method, buckets):
    m = SquareWave((0, 1), epsilon=1e-9, buckets=buckets)
    for cell in (0, m.symbols // 2, m.symbols - 1):
        counts = np.bincount([cell], minlength=m.symbols)
        found = m.distribution(Tally(1, counts, m.fingerprint), buckets=1, method=method)
        assert found.low[0] <= found.frequencies[0] <= found.high[0] <= 1


def by_hand(frequencies) -> Distribution:
    k = len(frequencies)
    edges, zeros = np.arange(k + 1.0), np.zeros(k)
    shares = np.array(frequencies)
    cumulative = np.cumsum(frequencies)
    arrays = (shares, zeros, shares, shares, edges, cumulative, cumulative - 0.196, cumulative + 0.196)
    return Distribution(edges, (edges[1:] + edges[:-1]) / 2, *arrays, 10, 0.95, "em")


def test_quantiles():
    found = by_hand([0.2, 0.0, 0.3, 0.5])
    assert found.quantile(0.1) == pytest.approx(0.5)
    assert found.quantile(0.2) == pytest.approx(1.0)
    assert found.quantile(0.35) == pytest.approx(2.5)
    np.testing.assert_allclose([found.quantile(share) for share in (0.0, 0.5, 1.0)], [0, 3, 4])
    assert by_hand([0.0, 1.0, 0.0]).quantile(0.0) == 1.0
    assert by_hand([0.5, -0.1, 0.6]).quantile(0.45) == pytest.approx(0.9)
    assert found.quantile_interval(0.5) == (2, 4), "nothing is known between points of the grid"
    for share in (-0.1, 1.1, float("nan"), True):
        with pytest.raises(ParameterError):
            found.quantile(share)


def test_distribution_is_a_value():
    a, b = by_hand([0.25, 0.75]), by_hand([0.5, 0.5])
    assert a == pickle.loads(pickle.dumps(a)) != b
    assert "10 reports over 2 buckets (em)" in repr(a)
    numbers = ["frequency", "standard_error", "low", "high", "n"]
    assert a.to_arrow().column_names == ["bucket_start", "bucket_end", *numbers]


def repeated(m, shares, n, runs, method, k) -> list[Distribution]:
    tallies = (Tally(n, counts_of(m, shares, n, i), m.fingerprint) for i in range(runs))
    return [m.distribution(tally, method=method, buckets=k, assume="smooth") for tally in tallies]


@pytest.mark.parametrize("method", ["ems", slow("em")])
def test_errors_of_few_coarse_buckets_are_those_of_all(monkeypatch, method):
    m = SquareWave((0, 1), epsilon=1.0, buckets=256)
    tally = Tally(50_000, counts_of(m, population("beta", 256), 50_000), m.fingerprint)
    found = m.distribution(tally, method=method, buckets=16, assume="smooth")
    monkeypatch.setattr(square_wave, "_COARSE", 256)
    finer = m.distribution(tally, method=method, buckets=16, assume="smooth")
    np.testing.assert_allclose(found.standard_errors, finer.standard_errors, rtol=0.1)
    np.testing.assert_allclose(found.high - found.low, finer.high - finer.low, rtol=0.15)


# ---- intervals

RUNS = 80
REST = [("beta", 20_000, "em"), ("beta", 20_000, "ems"), ("spike", 100_000, "em")]


# Of 80 independent runs as many hits, or more, with probability 1 - 1e-9 where intervals cover with 0.93 at least;
# there are 8 + 3 intervals in each of 4 cases, and counts are seeded
LEAST = int(stats.binom.ppf(1e-9, RUNS, 0.93))


def hits(found, shares, k=8) -> np.ndarray:
    """How many runs hold the truth, int64[k + 3]: of each bucket, and of the three quartiles."""
    d = len(shares)
    truth, points = shares.reshape(k, -1).sum(1), np.concatenate(([0], np.cumsum(shares)))
    out = np.zeros(k + 3, np.int64)
    for run in found:
        out[:k] += (run.low <= truth) & (truth <= run.high)
        for i, share in enumerate((0.25, 0.5, 0.75)):
            low, high = run.quantile_interval(share)
            out[k + i] += low <= np.interp(share, points, np.arange(d + 1) / d) <= high
    return out


@pytest.mark.parametrize(("kind", "n", "method"), [("spike", 100_000, "ems"), *(slow(*case) for case in REST)])
def test_intervals_cover_and_standard_errors_are_those_of_the_runs(kind, n, method):
    """Of quantiles where the distribution is smooth; a smoothed spike's own are not to be had.

    A standard deviation of 80 runs is less than 0.6 of what it should be with probability 3e-8 (chi square).
    """
    m, shares = SquareWave((0, 1), epsilon=3.0, buckets=64), population(kind, 64)
    found = repeated(m, shares, n, RUNS, method, 8)
    assert hits(found, shares)[: 11 if kind == "beta" else 8].min() >= LEAST
    ratio = np.mean([f.standard_errors for f in found], 0) / np.std([f.frequencies for f in found], 0)
    assert 0.7 < np.median(ratio) < 1.4
    assert 0.6 < ratio.min() < ratio.max() < 1.8


@pytest.mark.slow
def test_intervals_hold_for_every_population():
    """Of a heap at one number, at a cut or inside a bucket; of whole numbers; where reports say nothing; of few.

    They were of +-0.0 points at epsilon 0.05, and 0 to 90 % of them held beside a heap.
    """
    d, runs = 32, 25
    heap, whole, end = (np.full(d, 0.5 / d) for _ in range(3))
    heap[14], whole[::4], end[0] = heap[14] + 0.5, 0.5 / d + 0.5 / 8, 0.5 / d + 0.5
    for epsilon, n in ((0.05, 500), (1.0, 100_000), (4.0, 500)):
        m = SquareWave((0, 1), epsilon=epsilon, buckets=d)
        for shares in (heap, whole, end):
            tallies = [Tally(n, counts_of(m, shares, n, i), m.fingerprint) for i in range(runs)]
            found = [m.distribution(tally, buckets=8) for tally in tallies]
            # (of 25 runs fewer than 18 hold with probability 3e-5 where intervals cover with 0.95)
            assert hits(found, shares)[:8].min() >= 18
            assert hits(found, shares).mean() >= 0.93 * runs
            for one in found:
                assert one.low.min() >= 0
                assert (one.low <= one.frequencies).all()
                assert (one.frequencies <= one.high).all()
                assert one.high.max() <= 1


def test_a_rare_bucket_has_an_interval_too():
    """It was 0 to 100 % where a bucket had fewer than 20 reports. (Clopper and Pearson: 0 to 1.2 % for no report.)"""
    m = SquareWave(WholeNumbers(1, 11), epsilon=6.0)
    counts = np.array([300, *[0] * 10])
    found = m.distribution(Tally(300, counts, m.fingerprint))
    assert m.cells == (11, 1)
    assert 0.012 < found.high[1:].max() < 0.06
    assert found.low[0] > 0.9


def test_an_interval_of_few_reports_is_by_the_theorem():
    """Maurer and Pontil's, with the sample variance over n - 1: it was over n."""
    m = SquareWave(WholeNumbers(1, 5), epsilon=50.0)  # no noise
    counts, one_of = np.array([17, 3, 0, 0, 0]), -np.log(0.025 / 2)
    high = m.distribution(Tally(20, counts, m.fingerprint)).high[1]
    variance = np.var([1] * 3 + [0] * 17, ddof=1)
    assert high == pytest.approx(0.15 + np.sqrt(2 * variance * one_of / 20) + 7 * one_of / (3 * 19))


def test_what_a_cut_inside_a_bucket_leaves_open_is_in_the_interval():
    m = SquareWave((0, 1), epsilon=8.0, buckets=10)
    for number, least, most in ((0.55, [0.99, 0.0], [1.0, 0.01]), (0.78, [0.0, 0.0], [1.0, 1.0])):
        found = m.distribution(m.simulate({number: 1_000_000}, seed=1), buckets=4, method="em")
        np.testing.assert_allclose(found.low[2:] > 0.9, np.array(least) > 0.9)
        np.testing.assert_allclose(found.high[2:], most, atol=0.02)


def test_smoothness_is_assumed_only_where_reports_can_bear_it():
    m = SquareWave((0, 1), epsilon=1.0, buckets=256)
    shares = np.full(256, 0.5 / 256)
    shares[100] += 0.5
    for run in repeated(m, shares, 10**6, 3, "ems", 256):
        assert not run.low[100] <= shares[100] <= run.high[100], "as the documentation says"
    few = Tally(m.least_if_smooth - 1, counts_of(m, shares, m.least_if_smooth - 1), m.fingerprint)
    assert m.distribution(few, assume="smooth") == m.distribution(few)
    noisy = SquareWave((0, 1), epsilon=0.4)
    with pytest.raises(ParameterError, match="from epsilon"):
        noisy.distribution(noisy.empty_tally(), assume="smooth")


# ---- expectation maximization


def dense_ems(m, counts, smooth):
    """EM and EMS with matrices, as in vvv214/LDP_Protocols sw.py (its stopping rule, the paper's, and smoothing)."""
    d, n_cells = m.buckets, m.symbols
    channel = np.array([m.channel(point) for point in range(d)], float).T
    kernel = np.zeros((d, d))
    for i in range(d):
        for j, weight in ((i - 1, 1), (i, 2), (i + 1, 1)):
            if 0 <= j < d:
                kernel[i, j] = weight
    kernel /= kernel.sum(axis=1, keepdims=True)
    theta, old = np.full(d, 1 / d), None
    threshold = 1e-3 if smooth else 1e-3 * np.exp(m.epsilon)
    for _ in range(10_000):
        theta = theta * (channel.T @ (counts / (channel @ theta)))
        theta /= theta.sum()
        if smooth:
            theta = kernel @ theta
            theta /= theta.sum()
        likelihood = counts @ np.log(channel @ theta)
        if old is not None and abs(likelihood - old) < threshold:
            break
        old = likelihood
    assert len(counts) == n_cells
    return theta


@each("method", ["ems", "em"])
@each(("epsilon", "buckets"), [(0.5, 20), (1.0, 64), (3.0, 33)])
def test_expectation_maximization_is_that_with_matrices(method, epsilon, buckets):
    m = SquareWave(SIDE, epsilon=epsilon, buckets=buckets)
    counts = counts_of(m, np.diff(stats.beta(5, 2).cdf(np.arange(buckets + 1) / buckets)), 20_000)
    found = m.distribution(Tally(20_000, counts, m.fingerprint), method=method, buckets=buckets)
    np.testing.assert_allclose(found.frequencies, dense_ems(m, counts, method == "ems"), rtol=1e-6, atol=1e-12)
    assert found.method == method
    assert np.isfinite([found.standard_errors, found.low, found.high]).all()


@each("smoothing", [0.0, 0.25])
@each(("steps", "tolerance"), [(1, 1e-6), (2, 1e-6), (3, 0.04), (10, 0.04), (100, 0.04)])
def test_derivatives_are_quotients_of_differences(smoothing, steps, tolerance):
    """Exact for two steps; of more, some are taken to be alike."""
    m = SquareWave((0, 1), epsilon=2.0, buckets=24)
    channel = np.array([m.channel(point) for point in range(24)], float).T
    counts = counts_of(m, population("beta", 24), 20_000).astype(float)
    run = partial(fit, mixture=m._mixture, backward=m._backward, d=24, smoothing=smoothing, most=steps)
    found = derivative(run(counts), counts, channel, smoothing)
    nearby = 1e-3 * np.eye(len(counts))
    expected = np.array([(run(counts + h).shares - run(counts - h).shares) / 2e-3 for h in nearby]).T * counts.sum()
    assert np.abs(found - expected).max() < tolerance * np.abs(expected).max()
