"""Several reports of one person: cluster-robust intervals, and the bound where nobody is told apart."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from benchmarks.people import SHARE, held, reports_of, weighted
from ldp_core import (
    BlockHadamardResponse,
    CdfEstimate,
    DistributionEstimate,
    HeavyHittersEstimate,
    HistogramEstimate,
    Hybrid,
    InputError,
    Joint,
    Keyed,
    LongitudinalUnaryEncoding,
    MeanEstimate,
    MedianEstimate,
    ParameterError,
    Piecewise,
    QuantilesEstimate,
    Question,
    RandomizedResponse,
    RangeEstimate,
    Secret,
    SquareWave,
    StochasticRounding,
    SubsetSelection,
    TableEstimate,
    Tally,
    UnaryEncoding,
    compare_persons,
    linear_fit,
    ratio,
    total,
    weighted_mean,
    weighted_quantiles,
)
from ldp_core.estimates.clusters import student

from ..checks import fails
from ..examples import ALONE, counters_of_runs, keyed, some_values

RNG = np.random.default_rng(11)
PERSONS = np.repeat(np.arange(300), RNG.integers(1, 9, 300))


def by_hand(weights, persons):
    """Mean, the most that the design effect can be, effective persons and the design effect, report by report."""
    people, f, n = np.unique(persons), weights.mean(), len(weights)
    m = np.array([np.count_nonzero(persons == g) for g in people])
    sums = np.array([(weights[persons == g] - f).sum() for g in people])
    squares = np.array([((weights[persons == g] - f) ** 2).sum() for g in people])
    most, effective = (m @ m) / n, n**2 / (m @ m)
    more = max(most, m @ squares / squares.sum())  # (of values that hang together with m)
    effect = more * effective / (effective - 1) * (sums @ sums) / (m @ squares)
    return f, more, n / more, effective, min(max(effect, 1), more)


def test_errors_are_those_of_sums_over_persons():
    values = RNG.integers(0, 4, 300)[PERSONS]
    for m in (UnaryEncoding(range(4), epsilon=1.0), RandomizedResponse(range(4), epsilon=2.0)):
        reports = m.perturb(values, randomness=keyed(len(PERSONS)))
        for ids in (PERSONS, np.array([f"person {g}" for g in PERSONS])):
            found = HistogramEstimate().of_persons(m, reports, ids)
            for v in range(4):
                f, most, effective, _, effect = by_hand(m.weights(reports, v), PERSONS)
                least, greatest = np.unique(m.weights(reports, v))
                noise, chosen = (greatest - f) * (f - least) - f * (1 - f), f * (1 - f)
                variance = effect * noise + (effect + (most - effect) * 2 / (2 + effective * chosen)) * chosen
                expected = (f, np.sqrt(variance / len(PERSONS)))
                assert (found.frequencies[v], found.frequency_standard_errors[v]) == pytest.approx(expected)
        assert found.population == "many"
    m = Hybrid((0, 10), epsilon=1.0)
    reports = m.perturb(RNG.uniform(0, 10, 300)[PERSONS], randomness=keyed(len(PERSONS)))
    found, alone = MeanEstimate().of_persons(m, reports, PERSONS), MeanEstimate().result(m, m.tally(reports))
    mean, _, _, effective, effect = by_hand(m.weights(reports), PERSONS)
    error = alone.standard_error * np.sqrt(effect)
    assert (found.mean, found.standard_error) == pytest.approx((mean, error))
    t = stats.t.ppf(0.975, effective - 1)
    assert found.high - found.mean == pytest.approx(t * error, rel=1e-4)
    many = np.repeat(np.arange(20), [50, *[1] * 19])  # (1.9 effective persons)
    one = HistogramEstimate().of_persons(RandomizedResponse(epsilon=1.0), [True] * 69, many)
    assert np.isinf([one.standard_errors, one.high - one.low]).all()
    for epsilon in (1.0, 40.0):  # (numpy warned of inf * 0; of the second one, which has no error, the ends were nan)
        m = Hybrid((0, 10), epsilon=epsilon)
        with np.errstate(invalid="raise"):
            few = MeanEstimate().of_persons(m, m.perturb(np.full(69, 10.0), randomness=keyed(69)), many)
        assert [few.standard_error, few.low, few.high] == [np.inf, -np.inf, np.inf]
    for degrees in (5, 10, 100):
        assert student(1.959964, degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=0.005)


@pytest.mark.slow
def test_all_mechanisms_tell_persons_apart():
    """One report of each, of all mechanisms: as if nobody was told apart. Each report twice says no more."""
    for name, m in ALONE.items():
        kind = HistogramEstimate if hasattr(m, "debias") else MeanEstimate if hasattr(m, "means") else None
        if kind is None:
            continue
        reports = np.asarray(m.perturb(some_values(m, 600), randomness=keyed(600)))
        if m.name in ("rappor_candidates", "hierarchical_histogram"):
            with pytest.raises(ParameterError, match=r"fits all reports at once.* say repeats="):
                kind().of_persons(m, reports, np.arange(600))
            continue
        once = kind(population="many").result(m, m.tally(reports))
        single = kind().of_persons(m, reports, np.arange(600))
        twice = kind().of_persons(m, np.concatenate([reports, reports]), np.tile(np.arange(600), 2))
        a, b, c = (
            np.atleast_1d(one.frequency_standard_errors if kind is HistogramEstimate else one.standard_error)
            for one in (once, single, twice)
        )
        np.testing.assert_allclose(b, a, rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(c, b, rtol=0.2, err_msg=name)


@pytest.mark.slow
def test_intervals_hold_where_people_report_again():
    """A few of the cases of `python -m benchmarks.people`."""
    for noise, reports, changing in (("fresh", 7, True), ("keyed", 30, False), ("longitudinal", 30, True)):
        alone, by_person, bound = held(noise, np.full(2000, reports), changing, 100, seed=4)
        assert alone < 0.92, (noise, reports)
        assert 0.9 <= by_person <= 0.99, (noise, reports)
        assert bound >= 0.9, (noise, reports)
    for noise, n, share in (("fresh", np.full(15, 30), 0.01), ("keyed", reports_of(20, skewed=True), 0.2)):
        assert held(noise, n, False, 100, 4, share, 3.0, few=True)[1] >= 0.92, noise  # (by residuals alone 56 and 75 %)
    assert SHARE == 0.2
    made = np.array([weighted(20, share, 3.0, 200, seed=4) for share in (0.05, 0.5)])
    assert np.all(made > 0.92)  # (by residuals alone 82 to 88 %)


def test_those_who_report_often_may_have_other_values():
    """1 % of people send 30 reports, of which they have a value that nobody else has. Errors were half of it."""
    often, rng = np.arange(10_000) < 100, np.random.default_rng(1)
    persons = np.repeat(np.arange(10_000), np.where(often, 30, 1))
    own = (often & (rng.random(10_000) < 0.2))[persons]
    for m in (RandomizedResponse(epsilon=6.0), Piecewise((0, 1), epsilon=6.0)):
        is_mean = m.name == "piecewise"
        reports = m.perturb(own.astype(float) if is_mean else own, randomness=keyed(len(own)))
        w = m.weights(reports) if is_mean else m.weights(reports, True)
        residuals = np.bincount(persons, w - w.mean())
        error = np.sqrt(residuals @ residuals) / len(w)  # Cochran, Section 9A.2
        if is_mean:
            found = MeanEstimate().of_persons(m, reports, persons).standard_error
            sides = [(reports[part], persons[part]) for part in (persons % 2 == 0, persons % 2 == 1)]
            compared = compare_persons(m, *sides).standard_errors[0]
            assert compared == pytest.approx(2 * error, rel=0.05)
        else:
            found = HistogramEstimate().of_persons(m, reports, persons).frequency_standard_errors[1]
        assert found == pytest.approx(error, rel=0.03), m


def test_rare_numbers_are_told_by_persons():
    """None of 300 uneven people has a number that 2 % have: of all such samples 84 %, and compared 87 %, held."""
    each, m = np.geomspace(1, 50, 300).astype(int), Piecewise((0, 1), epsilon=20.0)
    persons = np.repeat(np.arange(300), each)
    one = m.perturb(np.zeros(len(persons))), persons
    found, compared = MeanEstimate().of_persons(m, *one), compare_persons(m, one, (one[0], persons + 300))
    effective = each.sum() ** 2 / (each @ each)
    expected = stats.t.ppf(0.975, effective - 1) ** 2 / effective  # as E. B. Wilson's interval, 1927
    assert found.high == pytest.approx(expected, rel=0.05)
    assert (-compared.low[0], compared.high[0]) == pytest.approx((expected, expected), rel=0.05)
    thirty = MeanEstimate(repeats=30).result(m, m.tally(m.perturb(np.zeros(3000))))
    assert thirty.high == pytest.approx(1.96**2 / 100, rel=0.05)  # (it was a fifth of it)


def test_the_bound_is_so_many_times_the_variance():
    m = RandomizedResponse(epsilon=1.0)
    tally = m.simulate([700, 300], seed=1)
    for options in ({}, {"population": "many"}, {"simultaneous": True}):
        one, seven = (HistogramEstimate(repeats=r, **options).result(m, tally) for r in (1, 7))
        np.testing.assert_allclose(seven.standard_errors, np.sqrt(7) * one.standard_errors)
        assert np.all(seven.low < one.low)
        assert np.all(seven.high > one.high)
        np.testing.assert_allclose(one.low, HistogramEstimate(**options).result(m, tally).low, rtol=1e-9)
    n = Hybrid((0, 1), epsilon=1.0)
    tally = n.simulate_values(np.full(500, 0.5), np.ones(500, np.int64), np.random.default_rng(1))
    one, seven = (MeanEstimate(repeats=r).result(n, tally) for r in (None, 7))
    assert seven.high - seven.mean == pytest.approx(np.sqrt(7) * (one.high - one.mean))


def test_equal_reports_tell_of_few_people_in_a_block_what_one_each_tells():
    """Two people that a block may have beside those told are k times as many reports: 81 % of 5,000 runs held."""
    m = BlockHadamardResponse(range(20), epsilon=8.0)
    tally = m.simulate([20] * 20, seed=1)
    once, thirty = HistogramEstimate(repeats=1), HistogramEstimate(repeats=30)
    again = thirty.result(m, Tally(30 * tally.n, 30 * tally.counters, m.fingerprint))
    np.testing.assert_allclose(again.standard_errors, 30 * once.result(m, tally).standard_errors)


TIMES, PEOPLE, RUNS = 7, 600, 400
AGES = np.random.default_rng(3).binomial(15, 0.4, PEOPLE)  # the same people in all runs, each with one value
LATE = np.arange(PEOPLE) % 3 == 0


def tallies_of_constant_values(m, values):
    """n and the counters of runs in which each person has `TIMES` reports, all equal: as keyed noise makes them."""
    return np.full(RUNS, TIMES * PEOPLE), TIMES * counters_of_runs(m, np.tile(values, (RUNS, 1)))


def tallies_of_pairs(pair):
    both = zip(pair.names, (AGES > 6, LATE), pair.mechanisms, strict=True)
    reports = pair._checked({name: m.perturb(pa.array(np.tile(values, RUNS))) for name, values, m in both}, "x")
    counters = pair.count_reports(reports, np.repeat(np.arange(RUNS), PEOPLE), RUNS)
    return np.full(RUNS, TIMES * PEOPLE), TIMES * counters


def check_held(question, m, tallies, truth, low="low", high="high"):
    """95 % intervals, or a band, hold in 95 % of the runs, less two standard errors of a share of so many runs."""
    table, _ = question.rows(m, *tallies)
    least, greatest = (np.array(table[end]).reshape(RUNS, -1) for end in (low, high))
    held = (least - 1e-6 <= truth) & (truth <= greatest + 1e-6)
    share = held.all(axis=1).mean() if getattr(question, "simultaneous", False) else held.mean()
    assert share >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / RUNS), share
    return share


@pytest.mark.filterwarnings("ignore:implausible")  # (that is what repeated noise looks like)
@pytest.mark.slow
def test_intervals_of_all_linear_questions_hold_for_constant_values_under_keyed_noise(monkeypatch):
    counts = np.bincount(AGES, minlength=16)
    m, rounding = SubsetSelection(range(16), epsilon=1.0), StochasticRounding((0, 15), epsilon=1.0, buckets=16)
    ordered = tallies_of_constant_values(m, AGES)
    ids = np.tile(np.arange(PEOPLE), TIMES)
    again = m.perturb(np.tile(AGES, TIMES), randomness=Keyed(Secret.from_seed(1), ids, column="x"))
    assert (m.tally(again).counters == TIMES * m.tally(m.perturb(AGES, randomness=keyed(PEOPLE))).counters).all()
    pair = Joint({"old": RandomizedResponse(epsilon=2.0), "late": RandomizedResponse(epsilon=2.0)})
    pairs = tallies_of_pairs(pair)
    cells = np.bincount(2 * (AGES > 6) + LATE, minlength=4)
    rates = cells / np.repeat(cells.reshape(2, 2).sum(axis=1), 2)
    shares = np.cumsum(counts) / PEOPLE
    of = [0.25, 0.5, 0.9]
    quantiles = np.array([np.argmax(shares >= p - 1e-9) for p in of])
    rounded = tallies_of_constant_values(rounding, AGES.astype(float))
    cases = (
        (
            RangeEstimate(ranges=((0, 5), (7, None)), repeats=TIMES),
            m,
            ordered,
            TIMES * np.array([counts[:6].sum(), counts[7:].sum()]),
        ),
        (RangeEstimate(values=[3, 9, 5], repeats=TIMES), m, ordered, TIMES * counts[[3, 9, 5]].sum()),
        (QuantilesEstimate(of, repeats=TIMES), m, ordered, quantiles),
        (MedianEstimate(repeats=TIMES), m, ordered, quantiles[1]),
        (CdfEstimate(repeats=TIMES), m, ordered, shares),
        (CdfEstimate(simultaneous=False, repeats=TIMES), m, ordered, shares),
        (TableEstimate(repeats=TIMES), pair, pairs, TIMES * cells),
        (TableEstimate(repeats=TIMES), pair, pairs, rates, "rate_low", "rate_high"),
        (QuantilesEstimate(of, repeats=TIMES), rounding, rounded, quantiles),
    )
    for one in cases:
        check_held(*one)
    monkeypatch.setattr(Question, "times", 1.0)  # the planted fault: repeats= is not looked at
    for one in cases[:-1]:  # (the last is a point too wide at each side, and holds in 96 % even so)
        fails(check_held, *one)


def test_the_bound_of_questions_and_of_weights_is_so_many_times_the_variance():
    """Errors, of answers and of sums of weights; and where the answer is no sum, a refusal."""
    m, pair = RandomizedResponse(range(5), epsilon=1.0), Joint({x: RandomizedResponse(epsilon=2.0) for x in "ab"})
    tally = m.simulate([700, 300, 100, 50, 90], seed=1)
    both = pair.tally({x: np.arange(500) % k == 0 for x, k in (("a", 2), ("b", 3))})
    for asked, of, one, names in (
        (RangeEstimate(1, 3), m, tally, ["standard_error"]),
        (RangeEstimate(1, 3, population="many"), m, tally, ["standard_error"]),
        (CdfEstimate(), m, tally, ["standard_error"]),
        (TableEstimate(), pair, both, ["standard_error", "rate_standard_error"]),
    ):
        once, seven = (replace(asked, repeats=k).result(of, one).to_arrow() for k in (1, 7))
        assert once.equals(asked.result(of, one).to_arrow())
        for name in names:
            np.testing.assert_allclose(np.array(seven[name]), np.sqrt(7) * np.array(once[name]))
    once, seven = (TableEstimate(repeats=k).result(pair, both).statistic for k in (1, 7))
    assert seven == pytest.approx(once / 7)
    assert QuantilesEstimate(repeats=7).expected_error(m, tally.n, tally.counters)[0] > 0
    w, y = RNG.normal(1, 1, 400), RNG.normal(5, 1, 400)
    for function, columns in ((ratio, (w * y, w)), (ratio, (w > 1, w > 0)), (total, (w, w)), (weighted_mean, (w,))):
        once, seven = (function(*columns, repeats=k) for k in (1, 7))
        assert once == function(*columns)
        assert seven.standard_error == pytest.approx(np.sqrt(7) * once.standard_error)
        assert seven.high - seven.low > 2.5 * (once.high - once.low)
    once, seven = (weighted_quantiles(y, np.abs(w), [0.5], repeats=k) for k in (1, 7))
    assert seven.high - seven.low > 2 * (once.high - once.low)
    number = Piecewise((-10, 10), epsilon=4.0)
    x = (number, number.perturb(w))
    np.testing.assert_allclose(
        linear_fit(x, y, repeats=7).standard_errors, np.sqrt(7) * linear_fit(x, y).standard_errors
    )
    wave = SquareWave((0, 9), epsilon=1.0)
    for make in (
        lambda: HeavyHittersEstimate(repeats=2),
        lambda: DistributionEstimate(repeats=2),
        lambda: MedianEstimate(repeats=2).check(wave),
        lambda: RangeEstimate(1, 3, repeats=2).check(wave),
    ):
        with pytest.raises(ParameterError, match=r"is no sum over reports.*say repeats=1; or ask for a mean"):
            make()
    MeanEstimate(repeats=2).check(wave)
    MedianEstimate(repeats=1).check(wave)
    for function in (ratio, weighted_mean):
        with pytest.raises(ParameterError, match="repeats must be an integer"):
            function([1.0, 2.0], *([[1.0, 1.0]] if function is ratio else []), repeats=0)


def test_what_is_refused_and_what_is_unbounded():
    m = RandomizedResponse(epsilon=1.0)
    alone = HistogramEstimate().of_persons(m, [True] * 5, [1] * 5)
    assert np.isinf(alone.standard_errors).all()
    assert (alone.low == -np.inf).all()
    assert (alone.high == np.inf).all()
    nobody = HistogramEstimate().of_persons(m, np.zeros(0, bool), np.zeros(0, np.int64))
    assert nobody.n == 0
    for ids in ([1, 2], [1, 2, None]):
        with pytest.raises(InputError, match="persons must be the id"):
            HistogramEstimate().of_persons(m, [True] * 3, ids)
    with pytest.raises(ParameterError, match="sample of many"):
        HistogramEstimate(population=50).of_persons(m, [True] * 3, [1, 2, 3])
    with pytest.raises(ParameterError, match="does not tell persons apart"):
        DistributionEstimate().of_persons(SquareWave((0, 1), epsilon=1.0), [], [])
    for wrong in (0, 1.5, True, 1 << 63):
        with pytest.raises(ParameterError, match="repeats must be an integer"):
            HistogramEstimate(repeats=wrong)


def test_permanent_noise_is_common_to_all_reports_of_a_person():
    """The part that `common_noise` says, by simulation of the chain: of the mean of k reports of one value."""
    m = LongitudinalUnaryEncoding(["a", "b"], epsilon_infinity=2.0, epsilon_1=1.0)
    rng, k = np.random.default_rng(2), 5
    weights = []
    for value, chance in ((1, m.permanent.p), (0, m.permanent.q)):  # half of the people hold it: d = 2
        answer = rng.random(200_000) < chance
        yes = rng.binomial(k, np.where(answer, m.instantaneous.p, m.instantaneous.q))
        weights.append((yes / k - m.q) / (m.p - m.q) - value)
    expected = m.variance(1, 0.5) * (1 + (k - 1) * m.common_noise(keyed=True)) / k
    assert np.var(np.concatenate(weights)) == pytest.approx(expected, rel=0.02)
    assert RandomizedResponse(epsilon=1.0).common_noise(keyed=False) == 0
    assert RandomizedResponse(epsilon=1.0).common_noise(keyed=True) == 1


def test_weighted_mean():
    u, d = RNG.normal(1, 2, 60), RNG.uniform(1, 5, 60)
    of = np.repeat(["a", "b", "c"], 20)
    shares = {"a": 0.5, "b": 0.3, "c": 0.2}
    parts = [weighted_mean(u[of == g], weights=d[of == g]) for g in shares]
    for one, g in zip(parts, shares, strict=True):  # a ratio of sums, linearized
        w, x = d[of == g], u[of == g]
        f = (w @ x) / w.sum()
        assert one.mean == pytest.approx(f)
        off = np.eye(20) - w / w.sum()  # x - f, of x: V is unbiased
        k = w**2 @ (off**2).sum(axis=1) / (w @ w)
        assert one.standard_error == pytest.approx(np.sqrt(((w * (x - f)) ** 2).sum() / k) / w.sum())
        assert one.effective == pytest.approx(w.sum() ** 2 / (w @ w))
    found = weighted_mean(u, weights=d, groups=of, shares=shares)
    assert found.mean == pytest.approx(sum(p * one.mean for p, one in zip(shares.values(), parts, strict=True)))
    errors = (p * one.standard_error for p, one in zip(shares.values(), parts, strict=True))
    assert found.standard_error == pytest.approx(np.sqrt(sum(e**2 for e in errors)))
    plain = weighted_mean(u)
    assert plain.effective == pytest.approx(60)
    half = stats.t.ppf(0.975, 59) * stats.sem(u)
    assert (plain.low, plain.high) == pytest.approx((u.mean() - half, u.mean() + half), rel=1e-4)
    for wrong, said in (
        ({"weights": np.zeros(60)}, "weights must be above 0"),
        ({"groups": of}, "groups and shares go together"),
        ({"groups": of, "shares": {"a": 1.0}}, "of which 40 have none"),
        ({"groups": of, "shares": shares | {"d": 0.1}}, "add up to 1"),
        ({"groups": of, "shares": {"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.1}}, "fewer than two records"),
        ({"weights": np.ones(3)}, "as many finite numbers"),
        ({"groups": of, "shares": {"a": "some"}}, "shares must be a mapping"),
        ({"groups": of, "shares": [0.5, 0.5]}, "shares must be a mapping .* got list"),
        ({"groups": [[1.0]] * 60, "shares": shares}, "groups must be a column"),
        ({"groups": 5, "shares": shares}, "groups must be a column"),
    ):
        with pytest.raises((InputError, ParameterError), match=said):
            weighted_mean(u, **wrong)
    with pytest.raises(InputError, match="fewer than two records"):
        weighted_mean([], groups=[], shares=shares)
    alone = weighted_mean([1.5])
    assert (alone.mean, alone.standard_error, alone.low, alone.high, alone.n) == (1.5, math.inf, -math.inf, math.inf, 1)
    assert math.isnan(weighted_mean([]).mean)
    huge = weighted_mean(u * 1e98, weights=d, groups=pa.array(of), shares=shares)
    assert (huge.low, huge.high) == pytest.approx((found.low * 1e98, found.high * 1e98))


def test_weighted_means_hold_the_share_of_the_population():
    """A sample of whom some were asked three times as often, and post-stratified: 600 runs at epsilon 1."""
    rng, m, n = np.random.default_rng(5), RandomizedResponse(epsilon=1.0), 1000
    held_by = np.zeros(2)
    for _ in range(600):
        old = rng.random(n) < 0.75  # half of the population
        yes = np.where(rng.random(n) < np.where(old, 0.4, 0.1), rng.random(n) < m.p, rng.random(n) < m.q)
        w = (yes - m.q) / (m.p - m.q)
        for i, asked in enumerate(
            ({"weights": np.where(old, 1.0, 3.0)}, {"groups": old, "shares": {True: 0.5, False: 0.5}})
        ):
            found = weighted_mean(w, **asked)
            held_by[i] += found.low <= 0.25 <= found.high
    assert np.all((held_by / 600 > 0.92) & (held_by / 600 < 0.98))
