"""Whom an interval is about: these people, a large population, or one of N people."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ldp_core import (
    CdfEstimate,
    HistogramEstimate,
    Hybrid,
    Joint,
    MeanEstimate,
    NOutput,
    OneBitMean,
    ParameterError,
    Piecewise,
    RandomizedResponse,
    RangeEstimate,
    SquareWave,
    TableEstimate,
    Tally,
    UnaryEncoding,
    compare,
    question_of,
    recommend,
    required_epsilon,
    required_n,
)
from ldp_core.estimates.base import check_population
from ldp_core.estimates.comparison import Compare
from ldp_core.estimates.histogram import Counting
from ldp_core.estimates.mean import Averaging

from ...cases import case
from ..examples import EVERY, counters_of_runs, people_of

RR = RandomizedResponse(epsilon=1.0)


def test_a_share_of_many_people_has_the_score_interval_of_its_reports():
    """A report is a coin of probability q + (p - q) f: Wilson's interval of its share, mapped, by scipy.

    Where few coins may decide it reaches farther: up to the share r whose coins are about as improbable on the other
    side, where there are more of them. A normal variable's 0.025 is between the probabilities of a coin more and less.
    """
    for yes, n in ((400, 1000), (260, 1000), (0, 50), (50, 50), (1, 40)):
        tally = Tally(n, np.array([n - yes, yes]), RR.fingerprint)
        found = HistogramEstimate(population="many").result(RR, tally)
        wilson, exact = (stats.binomtest(yes, n).proportion_ci(method=how) for how in ("wilson", "exact"))
        ends = [RR.q + (RR.p - RR.q) * end[1] for end in (found.frequency_low, found.frequency_high)]
        if n == 1000:
            np.testing.assert_allclose(ends, wilson, atol=1e-12)
            continue
        assert ends[0] <= wilson.low - 1e-3
        assert ends[1] >= wilson.high + 1e-3
        reach = max(yes / n - exact.low, exact.high - yes / n)
        assert max(yes / n - ends[0], ends[1] - yes / n) < 1.5 * reach
        fewer, share = (n - yes, 1 - ends[0]) if 2 * yes > n else (yes, ends[1])
        far = 2 * n * share - fewer  # heads, as many more than expected as there are fewer
        assert stats.binom.sf(np.ceil(far), n, share) < 0.025 < stats.binom.sf(np.floor(far) - 2, n, share)
    found = HistogramEstimate(population="many").result(RR, Tally(1000, np.array([600, 400]), RR.fingerprint))
    # the vector of an independent computation: sqrt(pi (1 - pi) / n) / (p - q)
    assert found.frequency_standard_errors[1] == pytest.approx(0.033524, abs=1e-6)


@pytest.mark.slow
def test_the_size_of_a_population_leads_from_these_people_to_many():
    """Of all mechanisms, and of intervals that hold together: N = n is these people, and a great N is many."""
    for name, m in EVERY.items():
        kind = HistogramEstimate if isinstance(m, Counting) else MeanEstimate if isinstance(m, Averaging) else None
        if kind is None:
            continue
        tally = m.simulate({value: 5 * n for value, n in people_of(m).items()}, seed=1)
        for options in [{}, {"simultaneous": True}] if kind is HistogramEstimate else [{}]:
            numbers = []
            for population in (None, tally.n, 2 * tally.n, 10**12, "many"):
                found = kind(population=population, **options).result(m, tally)
                errors = getattr(found, "standard_errors", None)
                numbers.append(np.atleast_1d(found.high - found.low if errors is None else errors))
                assert np.all(np.atleast_1d(found.low <= found.high)), name
            table, _ = kind(population="many", **options).rows(m, np.array([tally.n]), tally.counters[None])
            np.testing.assert_allclose(table["low"].to_numpy(), np.atleast_1d(found.low), rtol=1e-9)
            if kind is HistogramEstimate:  # of a mean it is not told apart what of the error is noise
                np.testing.assert_allclose(numbers[0], numbers[1], rtol=1e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(numbers[0], numbers[-1])
            np.testing.assert_allclose(numbers[3], numbers[4], rtol=1e-6, err_msg=name)
            # (Less noise is that of fewer coins: of 250 answers, intervals may reach 2 % farther.)
            assert np.all(numbers[1] <= numbers[2] * (1.02 if name == "sampled number" else 1 + 1e-9)), name
            assert np.all(numbers[2] <= numbers[3] * (1 + 1e-9)), name


def test_intervals_hold_of_the_population_that_they_are_about():
    """2,000 samples of N people, where noise is small and the sample is much of the population: 93 to 97 %."""
    rng, n, m = np.random.default_rng(7), 400, RandomizedResponse(epsilon=4.0)
    for population, share in ((800, 0.3), (800, 0.02), (4000, 0.97), ("many", 0.3), ("many", 0.01)):
        size = 10**9 if population == "many" else population
        yes = rng.hypergeometric(round(size * share), size - round(size * share), n, 2000)
        ones = rng.binomial(yes, m.p) + rng.binomial(n - yes, m.q)
        counters = np.stack([n - ones, ones], axis=1)
        table, _ = HistogramEstimate(population=population).rows(m, np.full(2000, n), counters)
        low, high = (table[name].to_numpy()[1::2] for name in ("frequency_low", "frequency_high"))
        assert 0.93 <= np.mean((low <= share) & (share <= high)) <= 0.975, (population, share)


def test_a_mean_of_n_people_is_not_narrower_than_its_error():
    """The numbers' spread is told from the noise of the worst number only: the interval is on the safe side."""
    rng, n, m = np.random.default_rng(3), 500, Hybrid((0, 1), epsilon=6.0)
    numbers = rng.uniform(0, 1, 1000)
    counters = counters_of_runs(m, rng.permuted(np.tile(numbers, (400, 1)), axis=1)[:, :n])
    tables = (MeanEstimate(population=whom).rows(m, np.full(400, n), counters)[0] for whom in (1000, "many"))
    few, many = (np.array([table["low"], table["high"]]) for table in tables)
    assert (few[1] - few[0] < many[1] - many[0]).all()
    assert np.mean((few[0] <= numbers.mean()) & (numbers.mean() <= few[1])) > 0.93


def test_of_all_people_the_error_of_a_mean_is_the_noise_of_their_numbers():
    """Not that of the worst number, which made errors 1.2 to 1.8 times as large; one bit does not tell it."""
    n, numbers = 20_000, np.linspace(0, 10, 9)
    counters_of = {
        m: np.array([m.probabilities(int(x)) for x in m.inputs.encode(numbers, column="x")], float).mean(0)
        for m in (Piecewise((0, 10), epsilon=4.0), NOutput((0, 10), epsilon=6.0), OneBitMean((0, 10), epsilon=4.0))
    }
    for m, shares in counters_of.items():
        tallies = [
            Tally(n, np.diff(np.rint(n * np.cumsum(shares)), prepend=0).astype(int), m.fingerprint) for _ in "ab"
        ]
        known = np.mean([m.variance(n, x) for x in numbers]) if not isinstance(m, OneBitMean) else m.variance(n)
        of = 0.45 if isinstance(m, NOutput) else 2e-3  # (whose noise is only nearly a polynomial)
        with case(m):
            assert m.mean(tallies[0], population=n).standard_error ** 2 == pytest.approx(known, rel=of)
            assert compare(m, *tallies, population=n).standard_errors[0] ** 2 == pytest.approx(2 * known, rel=of)


@pytest.mark.slow
def test_a_mean_of_n_people_holds_where_a_rare_report_is_near():
    """Missed in 8 and 12 %: of numbers in the middle, a report far off is a third of a coin or less."""
    rng, runs = np.random.default_rng(5), 1500
    for m, numbers in (
        (Hybrid((0, 1), epsilon=12.0), np.resize(np.linspace(0, 1, 9), 20)),
        (Hybrid((0, 1), epsilon=18.0), np.resize([0.4, 0.6], 1000)),
    ):
        n = len(numbers)
        codes, people = np.unique(m.inputs.encode(numbers, column="x"), return_counts=True)
        rows = [np.array(m.probabilities(int(code)), float) for code in codes]
        counters = sum(rng.multinomial(k, row / row.sum(), (runs, 2)) for k, row in zip(people, rows, strict=True))
        one, _ = MeanEstimate(population=n).rows(m, np.full(runs, n), counters[:, 0])
        two, _ = Compare(population=n).rows(m, np.full((runs, 2), n), counters)
        for table, true in ((one, numbers.mean()), (two, 0.0)):
            low, high = np.array(table["low"]), np.array(table["high"])
            assert np.mean((low <= true) & (true <= high)) > 0.93, (m, n)


def test_comparisons_and_plans_are_about_the_same_people():
    """N = n is these people, a great N is many; the level is 5 % for two samples of N people each, and n suffices."""
    m, n, rng = RandomizedResponse(epsilon=4.0), 400, np.random.default_rng(9)
    yes = rng.hypergeometric(240, 560, n, (4000, 2))
    ones = rng.binomial(yes, m.p) + rng.binomial(n - yes, m.q)
    counters, of = np.stack([n - ones, ones], axis=2), np.full((4000, 2), n)
    levels = {}
    for population in (None, 400, 800, 10**12, "many"):
        table, _ = Compare(population=population).rows(m, of, counters)
        one, test = (table[name].to_numpy()[1::2] for name in ("p_value", "p_value_of_all"))
        np.testing.assert_allclose(one, test, atol=1e-9)  # (of two values the test of all is that of one)
        levels[population] = np.mean(test < 0.05)
    assert levels[None] == levels[400] > 0.15
    assert levels[10**12] == levels["many"] < 0.02
    assert levels[800] == pytest.approx(0.05, abs=0.013)
    numbers = Hybrid((0, 1), epsilon=6.0)
    one, two = (numbers.simulate_values(rng.uniform(0, 1, n), np.ones(n, np.int64), rng) for _ in range(2))
    errors = [compare(numbers, one, two, population=N).standard_errors[0] for N in (None, "many", 10**12, 500)]
    assert errors[0] == errors[1] == pytest.approx(errors[2], rel=1e-6)
    assert errors[3] < 0.9 * errors[1]

    z, spread = stats.norm.ppf(0.975), 1 / 4
    for population in (1000, 40_000):
        n = required_n(numbers, 0.02, population=population).n
        takes = z**2 * (numbers.variance(1) + (population - n) / (population - 1) * spread) / 0.02**2
        assert n - 1 < takes <= n
        each = required_n(numbers, change=0.05, population=population, group=0.5).n / 2
        both = 2 * (numbers.variance(1) + (population / 2 - each) / (population / 2 - 1) * spread)
        assert each == pytest.approx(both * (z + stats.norm.ppf(0.8)) ** 2 / 0.05**2, rel=0.01)
    asked = {"domain": 2, "population": 2000}
    n = required_n("randomized_response", 0.03, epsilon=4.0, **asked).n
    assert required_n("randomized_response", 0.03, domain=2, epsilon=4.0, population=None).n < n
    assert n < required_n("randomized_response", 0.03, domain=2, epsilon=4.0).n
    yes = rng.hypergeometric(1000, 1000, n, 4000)
    found = (rng.binomial(yes, m.p) + rng.binomial(n - yes, m.q)) / n
    assert np.mean(np.abs((found - m.q) / (m.p - m.q) - 0.5) > 0.03) <= 0.06
    assert required_epsilon("randomized_response", 0.03, n, **asked).epsilon == pytest.approx(4, abs=0.02)
    assert "population of 2,000" in required_n("randomized_response", 0.03, epsilon=4.0, **asked).note
    for refused in (
        lambda: required_n("randomized_response", 0.01, epsilon=1.0, **asked),
        lambda: required_n("randomized_response", change=0.01, base=0.1, epsilon=1.0, **asked),
        lambda: required_epsilon("randomized_response", 0.01, 2001, **asked),
        lambda: recommend(2, 1.0, 2001, population=2000),
    ):
        with pytest.raises(ParameterError, match="population=2000 "):
            refused()


def test_of_a_finite_population_reports_are_no_people():
    """What people have reported seven times says what it says once, if it is keyed; and they are one in eight.

    The plain number of reports would make of them seven in eight.
    """
    k, whom, z = 7, 8000, Hybrid((0, 1), epsilon=6.0)
    m, pair = UnaryEncoding(range(3), epsilon=6.0), Joint({name: RandomizedResponse(epsilon=3.0) for name in "ab"})
    each, numbers = np.arange(1000), ("standard_error", "low", "high")
    shares = {prefix + name for prefix in ("frequency_", "rate_") for name in numbers}
    tallies = {
        m: m.simulate([500, 300, 200], seed=1),
        z: z.tally(z.perturb(each % 2 * 1.0)),
        pair: pair.tally({"a": each % 2 == 0, "b": each % 3 == 0}),
    }
    again = {one: Tally(k * t.n, k * t.counters, t.fingerprint) for one, t in tallies.items()}
    for asked, one in (
        (HistogramEstimate(), m),
        (RangeEstimate(1, 2), m),
        (RangeEstimate(values=[0, 2]), m),
        (CdfEstimate(), m),
        (TableEstimate(), pair),
        (MeanEstimate(), z),
    ):
        with case(asked):
            for size in (whom, 1000):
                told = replace(asked, population=size).result(one, tallies[one]).to_arrow()
                found = replace(asked, population=size, repeats=k).result(one, again[one]).to_arrow()
                for name in shares.intersection(told.column_names) or numbers:
                    here, there = (np.array(table[name]) for table in (found, told))
                    np.testing.assert_allclose(here, there, rtol=2e-3, atol=1e-6, err_msg=name)
            with pytest.raises(ParameterError, match="population=999 is less than the 1000 who reported"):
                replace(asked, population=999, repeats=k).result(one, again[one])
    for one, other in ((m, m.simulate([450, 320, 230], seed=2)), (z, z.tally(z.perturb(each % 3 / 2)))):
        twice = Tally(k * other.n, k * other.counters, other.fingerprint)
        told = compare(one, tallies[one], other, population=whom)
        found = compare(one, again[one], twice, population=whom, repeats=k)
        for name in ("standard_errors", "low", "high", "p_values", "statistic"):
            np.testing.assert_allclose(getattr(found, name), getattr(told, name), rtol=3e-3, err_msg=name)


def test_how_far_buckets_are_off_is_the_same_whoever_it_is_about():
    """Of numbers at the low ends of two of eight buckets: of all, 0.495 to 0.505 was said of 0.438."""
    m, counters = SquareWave((0, 1), epsilon=8.0, buckets=8), 0
    for bucket in (0, 7):
        counters = counters + np.round(np.array(m.channel(bucket), float) * 10_000).astype(int)
    tally = Tally(int(counters.sum()), counters, m.fingerprint)
    for asked in (MeanEstimate(), MeanEstimate(population=tally.n), MeanEstimate(repeats=4)):
        found = asked.result(m, tally)
        for reach in (found.mean - found.low, found.high - found.mean):
            assert reach - 1 / 16 == pytest.approx(1.96 * found.standard_error, rel=0.01)


def test_means_of_all_people_hold_where_few_reports_are_noisy():
    """Of five bits the 95 % interval held in 91 %, and of 200 numbers at epsilon 12 that of 99.9 % in 97 %."""
    bits, k = OneBitMean((0, 1), epsilon=5.0), np.arange(6)
    table, _ = MeanEstimate(population=5).rows(bits, np.full(6, 5), np.stack([5 - k, k], axis=1))
    for mean in np.linspace(0.005, 0.995, 100):
        one = (mean - bits.values[0]) / np.ptp(bits.values)
        held = (np.array(table["low"]) <= mean) & (mean <= np.array(table["high"]))
        assert stats.binom.pmf(k, 5, one)[held].sum() > 0.93, mean
    m, rng = NOutput((0, 1), epsilon=12.0), np.random.default_rng(1)
    counters = sum(rng.multinomial(100, np.array(m.channel(end), float), 4000) for end in (0, m.points - 1))
    table, _ = MeanEstimate(0.999, population=200).rows(m, np.full(4000, 200), counters)
    assert np.mean((np.array(table["low"]) <= 0.5) & (np.array(table["high"]) >= 0.5)) > 0.995


def test_what_cannot_be_a_population():
    for wrong in (0, -1, 1.5, True, "few", "Many"):
        with pytest.raises(ParameterError, match='"many", or how many people'):
            check_population("population", wrong)
    for m, kind in ((RR, HistogramEstimate), (Hybrid((0, 1), epsilon=1.0), MeanEstimate)):
        values = [True] * 20 if kind is HistogramEstimate else [0.5] * 20
        with pytest.raises(ParameterError, match="population=19 is less than the 20 who reported"):
            kind(population=19).result(m, m.tally(m.perturb(values)))


def test_the_largest_population():
    """Larger ones were an OverflowError."""
    tally = RR.simulate([60, 40], seed=1)
    many, most = (RR.estimate(tally, population=whom) for whom in ("many", (1 << 63) - 1))
    assert most.low.tolist() == pytest.approx(many.low.tolist())
    with pytest.raises(ParameterError, match="population must be"):
        RR.estimate(tally, population=1 << 63)


def test_it_is_said_wherever_the_question_goes():
    asked = question_of("histogram:population=many")
    assert asked == HistogramEstimate(population="many")
    assert question_of("mean:population=500").population == 500
    assert asked.to_dict()["population"] == "many"
    found = RR.estimate(RR.simulate([60, 40], seed=1), population=12_345)
    assert "about a population of 12,345" in repr(found)
    assert json.loads(found.to_arrow().schema.metadata[b"ldp.estimates"])[0]["population"] == 12_345
    chart = found.plot(title="x").to_dict()
    assert chart["title"]["subtitle"] == ["100 reports, 95 % intervals, about a population of 12,345"]
