"""Ratios of sums of weights have intervals that hold."""

import warnings
from functools import reduce

import numpy as np
import pytest
from scipy import stats

from ldp_core import (
    BlockHadamardResponse,
    DBitFlip,
    HadamardResponse,
    Hybrid,
    Joint,
    LdpWarning,
    NOutput,
    OneBitMean,
    ParameterError,
    Piecewise,
    RandomizedResponse,
    SquareWave,
    SummationHistogramEncoding,
    UnaryEncoding,
    ratio,
    total,
)
from ldp_core.estimates.ratios import added_sums, ratio_of, ratio_sums, ratios

from ...cases import case, each
from ..examples import keyed
from .helpers import first, held, weights_of


def test_numbers_far_from_0_have_the_intervals_of_those_near_it():
    rng = np.random.default_rng(1)
    w, y = rng.normal(1, 2, 20_000), rng.normal(0, 100, 20_000)
    near, far = ratio(w * y, w), ratio(w * (y + 1.7e9), w)
    np.testing.assert_allclose([far.low - 1.7e9, far.high - 1.7e9], [near.low, near.high], atol=1e-3)
    for some in (20_000, 100, 1):  # as in Beam, where sums of so many records are added
        sums = reduce(
            added_sums,
            (ratio_sums(w[i : i + some] * (y[i : i + some] + 1.7e9), w[i : i + some]) for i in range(0, 20_000, some)),
        )
        found = ratio_of(sums, 0.95)
        np.testing.assert_allclose([found.low - 1.7e9, found.high - 1.7e9], [near.low, near.high], atol=1e-3)
    # Of public groups, whose weights are 1: rounded off, these were two values, and their standard error 0.
    for k in range(4):
        y, ones = np.random.default_rng(k).random(3000), np.ones(3000)
        near, far = ratio(y, ones), ratio(y + 1e9, ones)
        np.testing.assert_allclose([far.low - 1e9, far.high - 1e9], [near.low, near.high], atol=1e-5)
        sums = ratio_of(ratio_sums(y + 1e9, ones), 0.95)
        np.testing.assert_allclose([sums.low - 1e9, sums.high - 1e9], [near.low, near.high], atol=1e-5)


def test_sums_tell_of_nearly_equal_weights_what_all_of_them_tell():
    """Where no discrete noise came, weights are 0 and 1 but for digits: 38 of 60 Beam jobs ended with an error."""
    m, rng, unbounded = SummationHistogramEncoding(["ios", "web"], epsilon=8.0), np.random.default_rng(1), 0
    for k in range(200):
        n = (20, 200)[k // 2 % 2]
        os = np.where(np.arange(n) < (1, n // 4)[k % 2], "ios", "web")
        w = m.weights(m.perturb(os, randomness=keyed(n, k)), "ios")
        y = rng.integers(1, 60, n) if k % 3 else np.full(n, 3.0)
        whole, sums = ratio(w * y, w), ratio_of(ratio_sums(w * y, w), 0.95)
        np.testing.assert_allclose([sums.low, sums.high], [whole.low, whole.high], rtol=1e-4)
        unbounded += np.isinf(whole.low)
    assert 50 < unbounded < 200


def test_means_of_numbers_that_are_mostly_0_hold():
    """400 runs: 10 to 80 % held where no report of the few who have a number supported the value.

    If 95 % hold, fewer than 91 % are in one of 1,500 runs of a case.
    """
    rng, n, runs = np.random.default_rng(12), 3000, 400
    some, few = RandomizedResponse(range(4), epsilon=6.0), UnaryEncoding(range(4), epsilon=4.0)
    answers = RandomizedResponse(range(4), epsilon=4.0)
    # mechanism, share of those with a number in the group and outside of it, numbers, weights of the people
    for m, inside, outside, most, survey in (
        (some, 0.005, 0.005, 3, 1),
        (few, 0.005, 0.005, 3, 1),
        (some, 0.0, 0.02, 3, 1),
        (few, 0.0, 0.002, 3, 1),
        (answers, 0.003, 0.003, 1, 2),  # (a public bit, but of weights that are not of two values)
    ):
        have = rng.random((runs, n)) < 0.1
        w = weights_of(rng.random((runs, n)) < np.where(have, m.p, m.q), m) * rng.integers(1, survey + 1, (runs, n))
        y = (rng.random((runs, n)) < np.where(have, inside, outside)) * rng.integers(1, most + 1, (runs, n))
        found = [ratio(u, one) for u, one in zip(w * y, w, strict=True)]
        with case(m, inside, outside, most, survey):
            holds, bounded = held(found, inside * (1 + most) / 2, np.full(runs, 1 / runs))
            assert holds >= 0.91
            assert bounded > 0.99
            sums = ratio_of(reduce(added_sums, map(ratio_sums, np.split(w[0] * y[0], 3), np.split(w[0], 3))), 0.95)
            np.testing.assert_allclose([sums.low, sums.high], [found[0].low, found[0].high], rtol=1e-6)


def test_the_mean_of_a_public_bit_holds_where_reports_have_a_part_of_the_buckets():
    """300 runs: weights of `DBitFlip` are of two values, or 0. Without that 66 % held, silently."""
    rng, n, runs = np.random.default_rng(13), 3000, 300
    m = DBitFlip(range(6), epsilon_infinity=4.0, bits=1)
    found = []
    for k in range(runs):
        os, y = np.where(rng.random(n) < 0.2, 0, rng.integers(1, 6, n)), rng.random(n) < 0.01
        w = m.weights(m.perturb(os, randomness=keyed(n, k)), 0)
        found.append(ratio(w * y, w))
    holds, bounded = held(found, 0.01, np.full(runs, 1 / runs))
    assert holds >= 0.91
    assert bounded > 0.99


def test_the_ends_are_where_the_difference_is_z_standard_errors():
    rng = np.random.default_rng(1)
    w, y = rng.normal(1, 2, 500), rng.normal(3, 1, 500)
    found, z2 = ratio(w * y, w, confidence=0.9), stats.norm.ppf(0.95) ** 2
    for m in (found.low, found.high):
        g = w * y - m * w
        np.testing.assert_allclose(g.sum() ** 2, z2 * (g**2).sum(), rtol=1e-9)
    assert found.low < found.ratio < found.high
    np.testing.assert_allclose(found.ratio, (w * y).sum() / w.sum())
    g = w * y - found.ratio * w
    np.testing.assert_allclose(found.standard_error, (g**2).sum() ** 0.5 / abs(w.sum()))


def test_public_bits_have_wilsons_interval_where_it_reaches_further():
    for yes, n in [(0, 100), (5, 100), (100, 100), (1, 3000)]:
        with case(yes, n):
            found = ratio(np.arange(n) < yes, np.ones(n))
            expected = stats.binomtest(yes, n).proportion_ci(method="wilson")
            ends = (found.low, expected.low) if yes == n else (found.high, expected.high)
            np.testing.assert_allclose(*ends, rtol=1e-9)


def test_rare_values_in_a_private_group_hold():
    """92 % of 200 runs or fewer hold with a probability below 0.05, if 95 % do; of Fieller's alone 3 to 90 % hold.

    Of two thirds of the public cases no record of the group has the number, and the sum of squares is 0.
    """
    rng = np.random.default_rng(4)
    for kind, epsilon, n, rate in [
        ("public", 5.0, 500, 0.001),
        ("private", 5.0, 500, 0.01),
        ("share", 5.0, 500, 0.001),
    ]:
        m = RandomizedResponse([0, 1, 2] if kind == "share" else [0, 1], epsilon=epsilon)
        held = alone = unbounded = 0
        for _ in range(200):
            inside, has = rng.random(n) < 0.2, rng.random(n) < rate
            values = np.where(inside, np.where(has, 2, 1), 0) if kind == "share" else inside
            w, v = (m.weights(drawn(m, x, rng), 1) for x in (values, has))
            u = {"public": w * has, "private": w * v, "share": w}[kind]
            if kind == "share":
                u = m.weights(r := drawn(m, values, rng), 2)
                w = u + m.weights(r, 1)
            found = ratio(u, w)
            _, _, low, high = ratios(np.array([u.sum(), w.sum(), u @ u, u @ w, w @ w]), 0.95)
            held, alone = held + (found.low <= rate <= found.high), alone + (low <= rate <= high)
            unbounded += np.isinf(found.high) and np.isfinite(high)
        with case(kind):
            assert held / 200 > 0.92 > 0.9 >= alone / 200
            assert unbounded == 0


@each("private", [False, True])
@each("rate", [0.002, 0.998])
def test_rare_values_hold_where_weights_are_symmetric(rate, private):
    """Of Hadamard response: without what is known of the others fewer hold, as perhaps nobody came who differs."""
    m, bit = HadamardResponse(range(3), epsilon=1.0), RandomizedResponse(epsilon=8.0)
    rng, n, runs = np.random.default_rng(2), 1000, 200
    held = alone = 0
    for _ in range(runs):
        inside = rng.random(n) < 0.3
        has = rng.random(n) < np.where(inside, rate, round(rate))
        w = weights_of(rng.random(n) < np.where(inside, m.p, m.q), m)
        v = weights_of(rng.random(n) < np.where(has, bit.p, bit.q), bit) if private else has
        found = ratio(u := w * v, w)
        _, _, low, high = ratios(np.array([u.sum(), w.sum(), u @ u, u @ w, w @ w]), 0.95)
        held, alone = held + (found.low <= rate <= found.high), alone + (low <= rate <= high)
    assert held / runs > 0.92
    assert alone / runs < 0.9


@pytest.mark.filterwarnings("ignore:fewer than 30 reports")
def test_rare_values_hold_where_reports_of_other_blocks_have_no_weight():
    """48 to 73 % held, in the last case nobody was told: of weights 0, a and -a a public bit was as any number."""
    rng, runs = np.random.default_rng(3), 500
    m = BlockHadamardResponse(range(10), epsilon=4.0)
    for n, share in ((100, 0.2), (300, 0.05), (300, 0.2), (1000, 0.05)):
        group, y = rng.random((runs, n)) < share, rng.random((runs, n)) < 0.02
        values = np.where(group, 0, rng.integers(1, 10, (runs, n)))
        weights = m.weights(m.perturb(values.ravel()), 0).reshape(runs, n)
        for found in (ratio, lambda u, w: ratio_of(ratio_sums(u, w), 0.95)):
            with case(n, share):
                intervals = [found(w * one, w) for w, one in zip(weights, y, strict=True)]
                assert held(intervals, 0.02, np.full(runs, 1 / runs))[0] >= 0.93


def test_rates_of_tables_that_nobody_has_hold_where_weights_are_symmetric():
    joint = Joint({"os": HadamardResponse(range(3), epsilon=0.8), "late": RandomizedResponse(range(3), epsilon=8.0)})
    os, late = joint.mechanisms
    held, codes = 0, np.repeat(np.arange(3), 100)
    for seed in range(100):
        reports = [m.perturb(x, randomness=keyed(300, seed=seed)) for m, x in ((os, codes), (late, codes % 2))]
        found = joint.estimate(joint.tally(dict(zip(joint.names, reports, strict=True))))
        held += found.rate_low[0, 2] <= 0 <= found.rate_high[0, 2]
    assert held > 92  # (of 100; without what is known of the others 10)


def drawn(m, codes, rng):
    """Reports of randomized response, as it draws."""
    d = m.domain.size
    lies = (codes + rng.integers(1, d, len(codes))) % d
    return np.where(rng.random(len(codes)) < m.p, codes, lies)


def test_an_unclear_sum_below_makes_an_unbounded_interval():
    found = ratio([1.0, 2.0, 1.0, 2.0], [1.0, -1.0, 1.0, -0.5])
    assert (found.low, found.high) == (-np.inf, np.inf)
    assert repr(found).endswith("95% interval unbounded")
    empty = ratio([], [])
    assert np.isnan(empty.ratio)
    assert (empty.low, empty.high, empty.n) == (-np.inf, np.inf, 0)
    assert np.isnan(ratio([1.0, -1.0], [0.0, 0.0]).ratio)


def test_a_ratio_in_a_group_that_no_report_supports_is_unbounded():
    """Weights then add up to clearly less than nobody. A share of 1 was said to be near 0 in 28 of 100 runs."""
    m, others = RandomizedResponse(range(1000), epsilon=4.0), 10 + np.arange(700)
    a, b, c = (m.weights(others, value) for value in (3, 4, 50))
    for u, w in ((a * (others % 10 == 0), a), (a * c, a), (a, a + b), (a * others, a)):
        for found in (ratio(u, w), ratio_of(ratio_sums(u, w), 0.95)):
            assert (found.low, found.high) == (-np.inf, np.inf)


def test_shares_over_two_mechanisms_hold():
    """Of a value that nobody has, or all: Fieller's interval held in 46 to 81 %."""
    for epsilons, n in (((4.0, 5.0), 50), ((6.0, 7.0), 500), ((7.0, 8.0), 500)):
        one, two = (RandomizedResponse(epsilon=e) for e in epsilons)
        k = np.arange(9)
        probability = np.outer(*(stats.binom.pmf(k, n, m.q) for m in (one, two))).ravel()
        for has in (False, True):
            numbers = [
                np.concatenate([weights_of(abs(has - first(x, n)), m) for x, m in ((a, one), (b, two))])
                for a in k
                for b in k
            ]
            with case(epsilons, has):
                found = [ratio(u, np.ones(2 * n)) for u in numbers]
                holds, bounded = held(found, float(has), probability)
                assert holds >= 0.95
                assert bounded == pytest.approx(probability.sum())
                assert probability @ [x.high - x.low for x in found] < 13 / (2 * n)
                combined = ratio_of(ratio_sums(numbers[9], np.ones(2 * n)), 0.95)  # as in Beam
                assert (combined.low, combined.high) == pytest.approx((found[9].low, found[9].high))


def test_shares_of_a_public_sum_hold_where_reports_are_alike():
    """Of uneven numbers, as minutes: of a value that nobody has, or all, 14 to 66 % held, without a word."""
    for epsilon, n in ((4.0, 60), (6.0, 60), (6.0, 200)):
        m, minutes, k = RandomizedResponse(epsilon=epsilon), np.tile([1.0, 3.0], n // 2), np.arange(9)
        probability = stats.binom.pmf(k, n, m.q)
        for has in (0, 1):
            with case(epsilon, n, has):
                numbers = [weights_of(abs(has - first(x, n)), m) * minutes for x in k]
                found = [ratio(u, minutes) for u in numbers]
                assert held(found, float(has), probability)[0] >= 0.95
                combined = ratio_of(ratio_sums(numbers[0], minutes), 0.95)  # as in Beam
                assert (combined.low, combined.high) == pytest.approx((found[0].low, found[0].high))


def coverage_of_means(n, share, weigh, runs=400):
    """How often an interval holds the mean of log-normal numbers of those who have a bit, as in `navigation_timing`."""
    rng, held = np.random.default_rng(11), 0
    m = RandomizedResponse([False, True], epsilon=1.1)
    for _ in range(runs):
        has = rng.random(n) < share
        y = np.where(has, rng.lognormal(7.6, 0.6, n), rng.lognormal(7.0, 0.5, n))
        reports = has ^ (rng.random(n) >= m.p)
        w = weigh(m, reports)
        found = ratio(w * y, w)
        held += found.low <= np.exp(7.6 + 0.18) <= found.high
    return held / runs


@each(("n", "share"), [(2000, 0.2), (2000, 0.05)])
@pytest.mark.slow
def test_means_in_a_private_group_hold(n, share):
    """Outside of 92 to 98 % with a probability below 0.01, if they hold 95 % of the time. The seed is fixed."""
    assert 0.92 <= coverage_of_means(n, share, lambda m, reports: m.weights(reports, True)) <= 0.98


@pytest.mark.slow
def test_means_of_very_uneven_public_numbers_hold():
    """86 to 89 % of log-normal numbers held, as a sample without the largest ones has a low mean and a low variance.

    Of ten people in the group 74 % held.
    """
    rng, runs = np.random.default_rng(5), 1000
    for epsilon, n, share, least in ((2, 500, 0.5, 0.92), (4, 500, 0.5, 0.92), (4, 2000, 0.1, 0.92), (4, 50, 0.2, 0.8)):
        m = RandomizedResponse(epsilon=epsilon)
        has, y = rng.random((runs, n)) < share, rng.lognormal(0, 1.5, (runs, n))
        w = weights_of(has ^ (rng.random((runs, n)) >= m.p), m)
        with case(epsilon, n, share):
            found = [ratio(w * y, w) for y, w in zip(y, w, strict=True)]
            assert held(found, np.exp(1.125), np.full(runs, 1 / runs))[0] >= least
            combined = [ratio_of(ratio_sums(w * y, w), 0.95).high for y, w in zip(y[:9], w[:9], strict=True)]
            np.testing.assert_allclose(combined, [one.high for one in found[:9]])  # as in Beam
    y, w = rng.normal(5, 1, 2000), weights_of(rng.random(2000) < 0.5, m)
    even, sums = ratio(w * y, w), np.array([w @ y, w.sum(), (w * y) @ (w * y), (w * y) @ w, w @ w])
    np.testing.assert_allclose([even.low, even.high], ratios(sums, 0.95)[2:])  # Fieller's


@each(
    "kind",
    [ratio, lambda above, below: ratio_of(ratio_sums(above, below), 0.95), total],
)
def test_few_reports_with_uneven_numbers_are_told_of(kind):
    """Most of twelve people have about 1, one in ten has 30: intervals of 60 % of samples held, without a word."""
    rng, m = np.random.default_rng(8), RandomizedResponse(epsilon=8.0)
    for people, warned, bounded in ((6, True, False), (12, True, True), (100, False, True)):
        w, y = weights_of(first(people, 200), m), 1 + rng.random(200) / 10
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = kind(w * y, w)
        assert np.isfinite([found.low, found.high]).all() == bounded, people
        assert [one.category for one in told] == [LdpWarning] * warned, people
        assert not told or "fewer than 30 reports carry a sum of weights" in str(told[0].message)


def test_ten_reports_alike_are_ten_in_whatever_order_they_are_added():
    """Their sums of squares were rounded to fewer than ten reports, or not: a pipeline's interval had no end."""
    y = np.random.default_rng(8).lognormal(size=10)
    for size in np.linspace(0.5, 3, 500):
        u, w = size * y, np.full(10, size)
        with pytest.warns(LdpWarning, match="fewer than 30"):
            found = [ratio(u, w), ratio_of(ratio_sums(u, w), 0.95)]
        assert np.isfinite([one.low for one in found]).all(), size


@pytest.mark.slow
def test_means_of_private_numbers_in_a_private_group_hold():
    """All of 25 to 50 people at the end: 34 to 95 % held, as few samples have one of the far reports."""
    rng, runs = np.random.default_rng(6), 160
    for kind, epsilon in ((Piecewise, 6.0), (Hybrid, 8.0), (NOutput, 4.0), (OneBitMean, 8.0), (SquareWave, 8.0)):
        system, time = RandomizedResponse(["a", "b"], epsilon=epsilon), kind((0, 10), epsilon=epsilon)
        for n in (50, 90):
            inside = rng.random((runs, n)) < 30 / n
            w = weights_of(inside ^ (rng.random((runs, n)) >= system.p), system)
            x = np.where(inside, 10, rng.uniform(0, 10, (runs, n))).ravel()
            x = time.weights(time.perturb(x, randomness=keyed(len(x)))).reshape(runs, n)
            with case(time, n):
                found = [ratio(w * x, w, of=time) for w, x in zip(w, x, strict=True)]
                assert held(found, 10.0, np.full(runs, 1 / runs))[0] >= 0.93
                combined = [
                    ratio_of(ratio_sums(w * x, w), 0.95, of=time).low for w, x in zip(w[:9], x[:9], strict=True)
                ]
                np.testing.assert_allclose(combined, [one.low for one in found[:9]])  # as in Beam
    with pytest.raises(ParameterError, match="mechanism for numbers"):
        ratio(w[0], w[0], of=system)


def test_rare_large_private_numbers_of_which_nobody_came_are_in_the_interval():
    """1 in 50 of some 50 people has 10, others 0: 68 % held. As `MeanEstimate` has it of the group alone."""
    rng, runs, n = np.random.default_rng(7), 200, 200
    system, time = RandomizedResponse(["a", "b"], epsilon=8.0), NOutput((0, 10), epsilon=8.0)
    inside = rng.random((runs, n)) < 0.25
    w = weights_of(inside ^ (rng.random((runs, n)) >= system.p), system)
    x = 10.0 * (rng.random((runs, n)) < np.where(inside, 0.02, 0.5)).ravel()
    x = time.weights(time.perturb(x, randomness=keyed(len(x)))).reshape(runs, n)
    found = [ratio(w * x, w, of=time) for w, x in zip(w, x, strict=True)]
    assert held(found, 0.2, np.full(runs, 1 / runs))[0] >= 0.93


def test_without_weights_they_do_not():
    assert coverage_of_means(2000, 0.2, lambda m, reports: reports.astype(float)) < 0.5


def test_sums_tell_uneven_numbers_far_from_0():
    """Log-normal numbers above 10,000: those of sums, as in Beam, were 0.3 times as long."""
    rng, p, q = np.random.default_rng(2), 0.95, 0.05
    for far in (1e4, 1e5) * 50:
        has = rng.random(150) < 0.5
        w = (np.where(rng.random(150) < np.where(has, p, q), 1, 0) - q) / (p - q)
        u = w * (far + rng.lognormal(0, 1.5, 150))
        one, two = ratio(u, w), ratio_of(ratio_sums(u, w), 0.95)
        assert two.high - two.low > 0.8 * (one.high - one.low)
