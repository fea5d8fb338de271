"""Comparisons by person: covariances report by report, other people's code where it applies, levels by simulation."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.comparisons import by_persons
from ldp_core import (
    CountMeanSketch,
    HadamardResponse,
    Hybrid,
    InputError,
    LongitudinalRandomizedResponse,
    ParameterError,
    Piecewise,
    PrivacyPlan,
    PrivSet,
    RandomizedResponse,
    Tally,
    UnaryEncoding,
    compare,
    compare_persons,
)
from ldp_core.estimates.comparison import Compare
from ldp_core.estimates.comparison_of_persons import ComparePersons, Pairs
from ldp_core.estimates.mean import MeanEstimate

from ..examples import ALONE, keyed, some_values

RNG = np.random.default_rng(12)
PERSONS = (np.repeat(np.arange(300), RNG.integers(1, 9, 300)), np.repeat(np.arange(100, 400), RNG.integers(1, 9, 300)))


def residuals(weights, persons):
    """Of each person r_g / n of a side, and the share."""
    f = weights.mean()
    return np.bincount(persons, weights - f, minlength=400) / len(weights), f


def times_if_alike(m, sides):
    """By how much errors are larger, for the shares of both sides together, than for those of each; on the diagonal."""
    both = [m.estimate(m.tally(side)) for side in sides]
    n = sum(one.n for one in both)
    alike = sum(one.counts for one in both) / n

    def variance(one, f):
        moved = m.rates.b * (f - np.clip(one.frequencies, 0, 1)) / one.n
        return one.frequency_standard_errors**2 + moved + f * (1 - f) / one.n

    return np.diag(np.sqrt(sum(variance(x, alike) for x in both) / sum(variance(x, x.frequencies) for x in both)))


def test_errors_are_those_of_sums_over_persons_of_both_sides():
    """200 of 400 people are on both sides. The mean's error, and the chi-square statistic of four values."""
    m = Hybrid((0, 10), epsilon=8.0)
    values = RNG.uniform(0, 10, 400)
    reports = [m.perturb(values[ids], randomness=keyed(len(ids), k)) for k, ids in enumerate(PERSONS)]
    found = compare_persons(m, *zip(reports, PERSONS, strict=True))
    (r1, f1), (r2, f2) = (residuals(m.weights(r), ids) for r, ids in zip(reports, PERSONS, strict=True))
    assert found.differences[0] == pytest.approx(f2 - f1)
    alone, by_person = (
        [how(m, r, ids).standard_error for r, ids in zip(reports, PERSONS, strict=True)]
        for how in (lambda m, r, _: MeanEstimate().result(m, m.tally(r)), MeanEstimate().of_persons)
    )
    e = min(len(ids) ** 2 / (np.bincount(ids) ** 2).sum() for ids in PERSONS)
    rho = (r1 @ r2) / np.sqrt((r1 @ r1) * (r2 @ r2))
    assert rho > 0.1
    step = 4 * max(len(ids) * error**2 for ids, error in zip(PERSONS, alone, strict=True))
    shared = rho * np.prod(by_person) - step / e**2
    assert found.standard_errors[0] == pytest.approx(np.sqrt(np.square(by_person).sum() - 2 * shared))

    m = UnaryEncoding(range(4), epsilon=3.0)
    values = RNG.integers(0, 4, 400)
    reports = [m.perturb(values[ids], randomness=keyed(len(ids), k)) for k, ids in enumerate(PERSONS)]
    found = compare_persons(m, *zip(reports, PERSONS, strict=True))
    r = np.array(
        [
            residuals(m.weights(reports[1], v), PERSONS[1])[0] - residuals(m.weights(reports[0], v), PERSONS[0])[0]
            for v in range(4)
        ]
    )
    s = r @ r.T * e / (e - 1)
    basis = np.linalg.qr(np.eye(4) - 1 / 4)[0][:, :3]  # the differences that add up to 0: generalized least squares
    back = np.linalg.inv(s)
    fitted = np.linalg.inv(basis.T @ back @ basis) @ basis.T @ back @ found.differences
    times = basis.T @ times_if_alike(m, reports) @ basis
    expected = fitted @ np.linalg.inv(times @ np.linalg.inv(basis.T @ back @ basis) @ times) @ fitted
    assert (found.statistic, found.degrees_of_freedom) == (pytest.approx(expected), 3)
    exact = stats.f.sf(expected * (e - 3) / (3 * (e - 1)), 3, e - 3)  # Hotelling's T^2
    assert found.p_value == pytest.approx(exact, rel=0.02)


def test_one_report_of_each_is_compared_as_without_ids():
    for m in (RandomizedResponse(range(4), epsilon=1.0), Piecewise((0, 3), epsilon=1.0)):
        sides = [m.perturb(RNG.integers(0, 4, n), randomness=keyed(n, n)) for n in (4000, 3000)]
        found = compare_persons(m, (sides[0], np.arange(4000)), (sides[1], np.arange(4000, 7000)))
        expected = compare(m, *map(m.tally, sides))
        for name in ("before", "after", "standard_errors", "low", "high", "p_values", "statistic", "p_value"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0.02, err_msg=name)


def test_sets_and_sketches_have_a_test_of_all_values():
    """The statistic is that of Hotelling, of the estimates of each report."""
    sketch = CountMeanSketch("int", epsilon=2.0, hashes=4, width=16).over(range(3))
    for m in (PrivSet(range(3), epsilon=2.0, most=2), sketch):
        of = [
            [[x, (x + 1) % 3] if m.name == "privset" else x for x in RNG.integers(0, 3, n).tolist()] for n in (300, 200)
        ]
        sides = [m.perturb(values, randomness=keyed(len(values), k)) for k, values in enumerate(of)]
        found = compare_persons(m, (sides[0], range(300)), (sides[1], range(300, 500)))
        w1, w2 = (np.transpose([m.estimate(m.tally(side[[i]])).counts for i in range(len(side))]) for side in sides)
        times = times_if_alike(m, sides)
        s = times @ (np.cov(w1, bias=True) / 300 + np.cov(w2, bias=True) / 200) @ times * 200 / 199
        d = w2.mean(axis=1) - w1.mean(axis=1)
        assert (found.statistic, found.degrees_of_freedom) == (pytest.approx(d @ np.linalg.inv(s) @ d), 3)
        assert compare(m, *map(m.tally, sides)).degrees_of_freedom == 0


@pytest.mark.slow
def test_levels_and_intervals_hold():
    """Two cases of `python -m benchmarks.comparisons`. It fails with 1 in 100 of other seeds."""
    for same, keyed_noise, reports in ((True, True, 5), (False, False, 5)):
        level, _, held = by_persons(same, keyed_noise, True, reports, 30, seed=3)
        assert level < 0.2, (same, level)
        assert 0.88 < held < 0.995, (same, held)  # (the covariance of the sides left out: 1; as if independent: 0.7)


def test_noise_of_people_who_stay_cancels():
    """One report of each on both sides, of the same value under one key: nothing differs. Then 30 of 1,000 change."""
    m, ids = RandomizedResponse(epsilon=1.0), np.arange(1000)
    values = RNG.random(1000) < 0.3
    one = m.perturb(values, randomness=keyed(1000))
    same = compare_persons(m, (one, ids), (one.copy(), ids))
    assert same.differences.tolist() == [0, 0]
    assert (same.degrees_of_freedom, same.p_values.tolist()) == (0, [1, 1])
    assert np.all((same.low < 0) & (same.high > 0))
    values[np.flatnonzero(~values)[:30]] = True
    found = compare_persons(m, (one, ids), (m.perturb(values, randomness=keyed(1000)), ids))
    assert found.p_value < 0.01
    assert compare(m, m.tally(one), m.tally(m.perturb(values, randomness=keyed(1000)))).p_value > 0.1


def test_few_persons_and_many_values():
    m = RandomizedResponse(range(4), epsilon=1.0)
    few = compare_persons(m, ([1, 2, 3] * 9, [*range(9)] * 3), ([1, 2, 3] * 9, [*range(9)] * 3))
    assert np.isinf([few.low, few.high, few.standard_errors]).all()
    assert (few.p_values.tolist(), few.degrees_of_freedom) == ([1] * 4, 0)
    some = compare_persons(m, (RNG.integers(0, 4, 29), range(29)), (RNG.integers(0, 4, 29), range(29)))
    assert np.isfinite(some.low).all()
    assert some.degrees_of_freedom == 0  # (3 take 30 persons)
    wide = UnaryEncoding(range(300), epsilon=1.0)
    sides = [(wide.perturb(RNG.integers(0, 300, 400), randomness=keyed(400, k)), range(400)) for k in (1, 2)]
    found = compare_persons(wide, *sides)
    assert found.degrees_of_freedom == 0
    assert np.isfinite(found.low).all()
    asked, n = ComparePersons(), np.ones((400, 2), np.int64)
    m = UnaryEncoding(range(4), epsilon=1.0)
    counters = RNG.binomial(1, 0.35, (400, 2, 4))
    whole = asked.person_sums(m, n, counters)
    parts = Pairs.total(asked.person_sums(m, n[rows], counters[rows]) for rows in (slice(150), slice(150, None)))
    tallies = [Tally(400, side, m.fingerprint) for side in counters.sum(axis=0)]
    one, two = (asked.of_sums(m, tallies, sums) for sums in (whole, parts))
    np.testing.assert_allclose(one.low, two.low)
    assert one.statistic == pytest.approx(two.statistic)


def test_rare_values_are_added_together_as_without_ids():
    """Of 100 nobody has a value that 20 of 2,000 have: without a difference 76 % of such runs were called different."""
    m = RandomizedResponse(range(4), epsilon=8.0)
    few, many = np.zeros(100, np.int64), np.repeat(range(4), [1940, 20, 20, 20])
    found = compare_persons(m, (few, range(100)), (many, range(100, 2100)))
    assert (found.degrees_of_freedom, compare(m, m.tally(few), m.tally(many)).degrees_of_freedom) == (0, 0)


def test_few_reports_of_a_small_side_are_as_improbable_as_without_ids():
    """Pearson's statistic. With errors of 200 of their own it was 29.1 in place of 23.5, and 13 % of tests wrong."""
    m = RandomizedResponse(range(16), epsilon=8.0)
    few = np.repeat(range(16), [6, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 19])
    many = np.repeat(range(16), 200)
    found = compare_persons(m, (few, range(200)), (many, range(200, 3400)))
    pearson = stats.chi2_contingency([np.bincount(few), np.bincount(many)]).statistic
    assert (found.statistic, found.degrees_of_freedom) == (pytest.approx(pearson, rel=0.05), 15)


def test_few_reports_that_differ_from_most_have_the_level():
    """60 runs of 300 and 2,000 people who all have one value: 1 in 4 was called different, as of 5 reports there."""
    m, found = HadamardResponse(range(8), epsilon=4.0), []
    for k in range(60):
        sides = [
            (m.perturb(np.zeros(n, np.int64), randomness=keyed(n, 2 * k + (n > 300))), range(n, 2 * n))
            for n in (300, 2000)
        ]
        found.append(compare_persons(m, *sides).p_value)
    assert 0 < np.mean(np.array(found) < 0.05) < 0.15


@pytest.mark.parametrize("nobody", [0, 1])
def test_a_side_on_which_nobody_answers_tells_nothing(nobody):
    """As of a column of a sampled plan in a small group, where all draw another one: it was a ZeroDivisionError."""
    m = PrivacyPlan.sampled({"os": ["a", "b"], "late": [False, True]}, epsilon=2.0)["os"]
    answers = [
        m.reports.to_arrow(m.reports.rows(np.full(40, drawn), np.zeros(40 * drawn, np.uint8))) for drawn in (0, 1)
    ]
    sides = answers[::-1] if nobody else answers
    found = compare_persons(m, *((side, range(40)) for side in sides))
    plain, _ = Compare().rows(m, np.array([[40, 40]]), np.array([[m.tally(side).counters for side in sides]]))
    got = found.to_arrow().to_pydict()
    for name in ("before", "after", "difference", "low", "high", "p_value", "degrees_of_freedom", "p_value_of_all"):
        np.testing.assert_allclose(np.array(got[name], float), np.array(plain[name].to_pylist(), float), err_msg=name)
    assert (found.low == -np.inf).all()
    assert np.isnan(found.differences).all()


def test_what_is_refused():
    m = RandomizedResponse(epsilon=1.0)
    side = ([True] * 20, range(20))
    for asked in ({"anytime": True}, {"same_people": True}, {"repeats": 2}, {"population": None}, {"population": 99}):
        with pytest.raises(ParameterError, match="leave out same_people"):
            ComparePersons(**asked)
    for wrong, said in (
        (([True] * 20, [str(x) for x in range(20)]), "of one type, got int64 and string"),
        (([True] * 20, range(19)), "persons must be the id"),
        (([True] * 20, [None, *range(19)]), "1 are null"),
    ):
        with pytest.raises(InputError, match=said):
            compare_persons(m, side, wrong)
    with pytest.raises(ParameterError, match="'after' has no reports"):
        compare_persons(m, side, ([], []))
    rappor = ALONE["RAPPOR over candidates"]
    answers = rappor.perturb(some_values(rappor, 20), randomness=keyed(20))
    with pytest.raises(ParameterError, match="fits all reports at once"):
        compare_persons(rappor, (answers, range(20)), (answers, range(20)))
    remembered = LongitudinalRandomizedResponse([False, True], epsilon_infinity=2.0, epsilon_1=1.0)
    compare_persons(remembered, side, side)  # (nobody has to say who is on which side)
