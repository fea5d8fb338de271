"""Weights add up to the estimates, and what is estimated from them has intervals that hold."""

import datetime as dt
import math
import warnings

import numpy as np
import pytest
from scipy import stats

from ldp_core import (
    BlockHadamardResponse,
    CountMeanSketch,
    Dates,
    DBitFlip,
    Domain,
    FrequencyOracle,
    HadamardResponse,
    Hybrid,
    HybridProjectiveGeometryResponse,
    InputError,
    Joint,
    LdpWarning,
    NOutput,
    Numeric,
    ParameterError,
    Piecewise,
    PrivacyPlan,
    PrivSet,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    RangeEstimate,
    Rappor,
    SquareWave,
    StochasticRounding,
    UnaryEncoding,
    ratio,
    total,
    weighted_mean,
    weighted_quantiles,
)
from ldp_core.estimates.comparison import Compare
from ldp_core.mechanisms.catalog import examples

from ...cases import case, each
from ..examples import keyed
from .helpers import first, held, weights_of

N = 400


def weighing(kind):
    return [m for m in examples().values() if isinstance(m, kind)]


def test_weights_of_each_value_add_up_to_its_estimated_count():
    for m in weighing(FrequencyOracle):
        with case(m):
            values = m.domain.values
            given = [[value] for value in values] if isinstance(m, PrivSet) else values
            reports = m.perturb([given[i % len(values)] for i in range(N)], randomness=keyed(N))
            counts = m.estimate(m.tally(reports)).counts
            found = [m.weights(reports, value).sum() for value in values]
            np.testing.assert_allclose(found, counts, rtol=0, atol=1e-9 * N)


def test_weights_of_many_values_count_no_report_by_itself(monkeypatch):
    """Of 4,000 values one weight took 0.5 to 2 ms, as each report was a tally of all values."""
    for kind, how in (
        (HadamardResponse, {}),
        (BlockHadamardResponse, {}),
        (ProjectiveGeometryResponse, {}),
        (HybridProjectiveGeometryResponse, {}),
        (DBitFlip, {"bits": 4}),
    ):
        for size, unmatched in ((5, "error"), (7, "none"), (200, "other"), (200, "none")):
            epsilon = {"epsilon_infinity" if kind is DBitFlip else "epsilon": 3.0}
            m = kind(range(size), unmatched=unmatched, **epsilon, **how)
            reports = m.perturb([i % size for i in range(8)], randomness=keyed(8))
            each = [m.estimate(m.tally(reports[i : i + 1])).counts for i in range(8)]
            with case(m), monkeypatch.context() as patch:
                patch.setattr(kind, "count_reports", None)
                for code, value in [*enumerate(m.domain.values)][:: size // 5]:
                    np.testing.assert_allclose(m.weights(reports, value), np.array(each)[:, code], atol=1e-12)


def test_values_whose_reports_are_text_are_asked_for_by_themselves():
    """Beside "other" reports of numbers and Booleans are text, as those of dates always are."""
    days = Dates("2024-01-01", "2024-03-01", every="1mo", unmatched="other")
    hours = Dates("2024-01-01T00:00", "2024-01-01T12:00", every="6h", unmatched="other")
    for domain, value, other in [
        (Domain([False, True], unmatched="other"), True, 1),
        (Domain([7, 8], unmatched="other"), 8, True),
        (Domain([False, True], unmatched="other"), np.True_, "True"),
        (days, dt.date(2024, 2, 1), dt.date(2024, 2, 2)),
        (days, dt.datetime(2024, 2, 1), dt.datetime(2024, 2, 1, 1)),
        (hours, dt.datetime(2024, 1, 1, 6), dt.date(2024, 1, 1)),
        (hours, "2024-01-01T06:00", "2024-01-01"),
    ]:
        m = RandomizedResponse(domain, epsilon=np.log(4))  # p = 2/3, q = 1/6
        with case(domain):
            np.testing.assert_allclose(m.weights(domain.texts, value), [-1 / 3, 5 / 3, -1 / 3], rtol=1e-9)
            assert m.weights(domain.texts, "other").argmax() == 2
            assert Joint({"x": m, "y": m}, ["x", "y"]).counters == 15
            both = RangeEstimate(values=[value, "other"]).result(m, m.tally(domain.texts))
            np.testing.assert_allclose(both.counts, 2, rtol=1e-9)  # (2 - 3 x 2/6) / (1/2)
            assert both.values == (f"{domain.texts[1]} or other",)
            with pytest.raises(ParameterError, match="one of the domain's 3"):
                m.weights(domain.texts, other)


def test_weights_of_numbers_have_the_estimated_mean():
    for m in weighing(Numeric):
        with case(m):
            reports = m.perturb(np.linspace(m.domain.low, m.domain.high, N), randomness=keyed(N))
            np.testing.assert_allclose(m.weights(reports).mean(), m.mean(m.tally(reports)).mean, rtol=1e-9)


def test_reports_of_numbers_have_the_interval_of_their_mean():
    """But for those of stochastic rounding, of which a tally does not tell the squares."""
    for m in [m for m in weighing(Numeric) if not isinstance(m, StochasticRounding)]:
        with case(m):
            reports = m.perturb(np.linspace(m.domain.low, m.domain.high, N), randomness=keyed(N))
            expected, alike = m.mean(m.tally(reports)), weighted_mean((m, reports), weights=np.full(N, 2.0))
            for name in ("mean", "standard_error", "low", "high"):
                near = 0.02 * expected.standard_error  # (one-bit means have binomial variances)
                np.testing.assert_allclose(getattr(alike, name), getattr(expected, name), atol=near, err_msg=name)
            of_all = total((m, reports))
            np.testing.assert_allclose([of_all.low, of_all.high], [N * alike.low, N * alike.high])
            few = weighted_mean((m, reports[:9]))
            assert (few.low, few.high) == (-np.inf, np.inf)
    with pytest.raises(ParameterError, match="a mean needs a mechanism for numbers"):
        total((RandomizedResponse(epsilon=1.0), [True]))


@pytest.mark.slow
def test_reports_that_are_rarely_far_hold_where_nobody_sent_one():
    """5 % of reports are far. As weights alone 71 % held; of 400, fewer than 372 in one of 25 times if 95 % hold."""
    m, runs, n = Piecewise((0, 1), epsilon=6.0), 400, 20
    reports = m.perturb(np.full(runs * n, 0.3), randomness=keyed(runs * n)).reshape(runs, n)
    for planted in (False, True):
        found = [
            weighted_mean(m.weights(x) if planted else (m, x), weights=1.0 + 2 * (np.arange(n) % 2)) for x in reports
        ]
        assert (np.mean([one.low <= 0.3 <= one.high for one in found]) < 0.93) == planted


@each("kind", [NOutput, Hybrid, Piecewise])
def test_private_numbers_of_few_people_in_a_group_hold(kind):
    """Without noise: of three 0 or 1 in one group, all are alike in one of four samples, and 75 % held."""
    m, groups, held = kind((0, 1), epsilon=50.0), ["few"] * 3 + ["many"] * 200, 0.0
    for ones in range(4):
        numbers = np.append(np.arange(3) < ones, np.full(200, 0.5))
        found = weighted_mean((m, m.perturb(numbers)), groups=groups, shares={"few": 0.1, "many": 0.9})
        held += math.comb(3, ones) / 8 * (found.low <= 0.5 <= found.high)
    assert held > 0.95


@each("method", ["sampled", "fake"])
def test_drawn_columns_have_no_weights(method):
    """A record answers one of them: a product of weights of two would be 0, or that of a fake."""
    plan = getattr(PrivacyPlan, method)({"a": ["x", "y"], "b": range(5)}, epsilon=3.0)
    m = plan.columns["a"]
    with pytest.raises(ParameterError, match=r"PrivacyPlan\.split"):
        m.weights(m.reports.to_arrow(m.reports.empty(0)), "x")


def test_what_has_no_weights():
    oracle, numbers = RandomizedResponse(["a", "b"], epsilon=1.0), weighing(Numeric)[0]
    sketch = CountMeanSketch(epsilon=1.0, width=16, hashes=4)
    for m, value, words in [
        (oracle, "c", "value must be one of the domain's 2, got 'c'"),
        (oracle, None, "value must be one of the domain's 2, got None"),
        (numbers, 1.0, "leave out 1.0"),
        (sketch, "a", "reports of count_mean_sketch have no weights"),
        (sketch.over(["a", "b"]), "a", "values collide"),  # (61 % of 95 % intervals of means held)
        (Rappor("str", bits=16, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75).over(["a", "b"]), "a", "values collide"),
    ]:
        with case(m, value), pytest.raises(ParameterError, match=words):
            m.weights(m.reports.to_arrow(m.reports.empty(0)), value)


def test_columns_that_are_none():
    for above, below in [([1.0], [1.0, 2.0]), ([np.nan], [1.0]), ([[1.0]], [[1.0]]), ([1.0], [np.inf])]:
        with case(above, below), pytest.raises(InputError, match="as many finite numbers"):
            ratio(above, below)
    for above, below in [(["a"], [1.0]), ([1j], [1.0]), ([[1.0], [1.0, 2.0]], [1.0])]:
        with case(above, below), pytest.raises(InputError, match="must be a column of numbers"):
            ratio(above, below)
    with pytest.raises(ParameterError, match="must be a list"):
        weighted_quantiles([1.0], [1.0], 0.5)


def test_one_record_does_not_tell_an_error():
    assert (total([5.0]).low, total([5.0]).high) == (-np.inf, np.inf)
    assert (total([]).total, total([]).low, total([]).high) == (0, -np.inf, np.inf)  # it was 0 to 0


# ---- where few reports carry the sum: exact, over how many of each kind support the value


def test_totals_of_what_nobody_has_hold():
    """Normal intervals held in 15 to 83 %: none or few reports support the value, and their variance is about 0."""
    unary = UnaryEncoding(["a", "b", "c"], epsilon=4.0)
    randomized = [(RandomizedResponse(epsilon=e), n) for e, n in ((2, 10), (4, 20), (4, 50), (4, 100), (5, 100))]
    large = [(RandomizedResponse(epsilon=8.0), n) for n in (500, 2000)]
    for m, n in (*randomized, *large, (unary, 20), (unary, 50)):
        k = np.arange(min(n, 15) + 1)
        none = stats.binom.pmf(k, n, m.q)
        for has, probability in ((0, none), *([(n, none)] if m is not unary else [])):
            with case(m, n, has):
                found = [total(weights_of(first(x if has == 0 else n - x, n), m)) for x in k]
                holds, bounded = held(found, has, probability)
                assert holds >= 0.95
                assert bounded >= probability[1:].sum() - 1e-9  # always but where all reports are alike
    assert np.isinf([total(np.ones(50)).low, total(np.full(50, -0.01)).standard_error]).all()
    assert np.isinf(total(-0.01 * np.arange(1, 51), np.full(50, -0.01)).low)  # no report supports the value
    few = total([1.5, -0.5, 1.5] * 3)
    assert (few.low, few.high) == (-np.inf, np.inf)


def test_totals_of_public_numbers_hold_where_nobody_is_in_the_group():
    """Two numbers, of half of the people each: normal intervals held in 36 to 69 % in three of six cases."""
    for epsilon, n, numbers in ((4.0, 100, (1.0, 3.0)), (4.0, 50, (1.0, 0.0)), (5.0, 100, (9.0, 10.0))):
        m, y = RandomizedResponse(epsilon=epsilon), np.repeat(numbers, n // 2)
        k = np.arange(8)
        both = [np.concatenate([first(a, n // 2), first(b, n // 2)]) for a in k for b in k]
        each_one = stats.binom.pmf(k, n // 2, m.q)
        for has in (False, True):
            with case(epsilon, numbers, has):
                found = [total((w := weights_of(abs(has - supports), m)) * y, w) for supports in both]
                assert held(found, has * y.sum(), np.outer(each_one, each_one).ravel())[0] >= 0.95


def test_totals_of_numbers_below_0_are_mirror_images():
    """Bit for bit. Where no report supports the value all products are above 0, as if all did: 40 % held."""
    generator, n = np.random.default_rng(9), 60
    y = generator.uniform(1, 5, n)
    for m in (RandomizedResponse(range(3), epsilon=6.0), HybridProjectiveGeometryResponse(range(50), epsilon=3.0)):
        some = np.asarray(m.weights(m.perturb(np.arange(n) % 3, randomness=keyed(n)), 0))
        for w in (some, np.full(n, some.min()), np.full(n, some.max())):
            with case(m, w.max()):
                above, below, alone = total(w * y, w), total(-w * y, w), total(w * y, w * y)
                assert (-below.total, -below.high, -below.low) == (above.total, above.low, above.high)
                assert below.standard_error == above.standard_error
                assert (alone.low, alone.high) == (above.low, above.high)
                assert (w.max() > 0) == np.isfinite(below.high)
    with pytest.raises(ParameterError, match="products of public numbers"):
        total((Piecewise((0, 1), epsilon=1.0), [0.5]), [1.0])
    assert (total([], []).low, total([], []).high) == (-np.inf, np.inf)
    with pytest.raises(ParameterError, match="and not y alone"):  # (it was the total of all people)
        total(y, some)
    sparse = np.append(np.zeros(3000), some * y)  # (of 1,000 rows it saw too few)
    for u in (some * y, -some.min() * y, [1.0, 2.0], sparse):
        with pytest.raises(ParameterError, match="the numbers of a total differ: say the weights, too"):
            total(u)


def test_totals_of_numbers_of_both_signs_hold():
    """400 runs: by the products alone 13 to 61 % hold where no or few reports support the value.

    If 95 % hold, fewer than 91 % are in one of 1,500 runs of a case.
    """
    generator, runs = np.random.default_rng(10), 400
    some, rare = RandomizedResponse(range(3), epsilon=6.0), RandomizedResponse(range(1000), epsilon=6.0)
    for m, n, share, below, large in (
        (some, 200, 0.0, 0.9, 1.0),
        (some, 50, 0.0, 0.9, 1.0),
        (rare, 200, 0.01, 0.9, 1.0),
        (rare, 200, 0.5, 0.0, -300.0),
    ):
        y = generator.uniform(1, 5, (runs, n)) * np.where(generator.random((runs, n)) < below, -1, 1)
        y[:, 0] *= large
        have = generator.random((runs, n)) < share
        w, truth = weights_of(generator.random((runs, n)) < np.where(have, m.p, m.q), m), (have * y).sum(axis=1)
        for said in (True, False):
            found = [total(u, one if said else u) for u, one in zip(w * y, w, strict=True)]
            holds = np.mean([one.low <= x <= one.high for one, x in zip(found, truth, strict=True)])
            with case(m, n, share, below, said, holds):
                assert (holds >= 0.91) == said


def test_totals_of_many_numbers_of_both_signs_are_as_narrow_as_their_errors():
    generator, m, n = np.random.default_rng(11), RandomizedResponse(range(3), epsilon=2.0), 5000
    w = weights_of(generator.random(n) < m.q + (m.p - m.q) * (np.arange(n) < n // 3), m)
    found = total(u := w * generator.normal(1, 3, n), w)
    assert found.standard_error == pytest.approx(n**0.5 * u.std(ddof=1))
    assert found.high - found.low < 1.02 * 2 * 1.96 * found.standard_error


def test_totals_of_very_uneven_public_numbers_hold():
    """400 runs: 30 to 70 % held where reports of those who have the large numbers did not support the value."""
    generator, runs = np.random.default_rng(5), 400
    one_half, few = np.append(np.ones(49), 49.0), np.repeat([1.0, 20.0], [190, 10])
    m = RandomizedResponse(range(16), epsilon=2.0)
    uneven, least = stats.lognorm(1.5).ppf((np.arange(100) + 0.5) / 100), np.arange(100) < 50
    for y, has in ((one_half, True), (few, False), (generator.lognormal(0, 2, 60), False), (uneven, least)):
        with case(len(y), np.mean(has)):
            weights = (generator.random((runs, len(y))) < np.where(has, m.p, m.q)) - m.q
            found = [total(w * y, w) for w in weights / (m.p - m.q)]
            assert held(found, (has * y).sum(), np.full(runs, 1 / runs))[0] >= 0.935
    y, supports = generator.exponential(size=20_000), generator.random(20_000) < m.q
    numbers = (supports - m.q) / (m.p - m.q) * y
    many, error = total(numbers, numbers), 20_000**0.5 * numbers.std(ddof=1)
    assert many.high - many.low == pytest.approx(2 * 1.959964 * error, rel=0.01)


def test_those_who_have_two_private_values_are_counted():
    """500 runs: 10 to 72 % held, nobody was told; mostly no report supports both, and products do not show what it is.

    If 95 % hold, a case fails in one of 1,000 seeds.
    """
    generator, runs = np.random.default_rng(6), 500
    cases = ((30, 4.0, 0.1, 0.1), (100, 6.0, 0.03, 0.03), (100, 2.0, 0.1, 0.1), (300, 4.0, 0.03, 0.03))
    for n, epsilon, *shares in (*cases, (1000, 6.0, 0.03, 0.03), (300, 1.0, 0.5, 0.5)):
        m = RandomizedResponse(range(4), epsilon=epsilon)
        w, v = (
            weights_of(generator.random((runs, n)) < m.q + (m.p - m.q) * have, m)
            for have in (generator.random((runs, n)) < share for share in shares)
        )
        share = math.prod(shares)
        for y in (1.0, generator.choice([1.0, 3.0], (runs, n))):
            with case(n, epsilon, shares, np.ndim(y)):
                assert (
                    held([total(u, u) for u in w * v * y], n * share * np.mean(y), np.full(runs, 1 / runs))[0] >= 0.92
                )
        assert held([weighted_mean(u) for u in w * v], share, np.full(runs, 1 / runs))[0] >= 0.92


def test_those_who_have_two_values_are_counted_where_weights_of_one_are_a_and_minus_a():
    """38 to 90 % held, and nobody was told: products were -b a and b a, of nobody who supports the rare value."""
    generator, runs = np.random.default_rng(7), 500
    for n, epsilon, share in ((20, 4.0, 0.01), (100, 4.0, 0.01), (100, 6.0, 0.01), (1000, 6.0, 0.002)):
        m = RandomizedResponse(range(10), epsilon=epsilon)
        have = generator.random((runs, n)) < share
        w = weights_of(generator.random((runs, n)) < m.q + (m.p - m.q) * have, m)
        signs = np.where(generator.random((runs, n)) < np.where(have, 1 / (1 + math.exp(-epsilon)), 0.5), 1, -1)
        numbers = w * signs / math.tanh(epsilon / 2)  # (of Hadamard response)
        for found, truth in ((total, n * share), (weighted_mean, share)):
            with case(n, epsilon, found.__name__):
                assert held([found(u) for u in numbers], truth, np.full(runs, 1 / runs))[0] >= 0.92
    fractions = 0.5 * signs[0] / math.tanh(epsilon / 2)  # (a public number, of many people)
    assert weighted_mean(fractions).high < 0.2


def test_weights_of_several_values_or_of_none_are_no_products_of_two_columns():
    """Taken for such, where those above 0 are small, intervals of many people were 3 to 17 times as wide."""
    generator, n = np.random.default_rng(8), 20_000
    m, y = RandomizedResponse(range(100), epsilon=1.0), generator.lognormal(size=n)
    others = 1 - weights_of(generator.random(n) < m.q + (m.p - m.q) * (np.arange(n) < 1000), m)
    two_signs = HadamardResponse(range(10), epsilon=1.0)  # sums of eight are 0 but for rounding, too
    reports = two_signs.perturb(generator.integers(0, 10, n), randomness=keyed(n))
    eight = sum(two_signs.weights(reports, value) for value in range(8))
    for kind, numbers, most in (
        ("others", others, 1.1),
        ("y", others * y, 1.7),
        ("8", eight, 1.1),
        ("8y", eight * y, 1.3),
    ):
        with case(kind):
            for found in (total(numbers, numbers), weighted_mean(numbers)):
                assert found.high - found.low <= most * 2 * 1.96 * found.standard_error
    few = [weighted_mean(eight[k : k + 30]) for k in range(0, n, 30)]
    assert max(found.high - found.low for found in few) < 50


def test_totals_of_reports_of_other_blocks_are_as_narrow_as_of_one():
    """Their weights are nearly 0, and intervals were 6 to 104 times as wide."""
    y = np.exp(stats.norm.ppf((np.arange(400) + 0.5) / 400))
    for d, epsilon in ((50, 3.0), (1000, 5.0), (4000, 3.0)):
        m = HybridProjectiveGeometryResponse(range(d), epsilon=epsilon)
        weights = np.asarray(m.weights(m.perturb(np.repeat([5, 7], [120, 280]), randomness=keyed(400)), 5))
        for of_each, most in ((np.ones(400), 1.1), (np.random.default_rng(1).permutation(y), 2)):
            with case(d, epsilon, most):
                found = total(weights * of_each, weights)
                assert found.high - found.low <= most * 2 * 1.96 * found.standard_error


def test_known_shares_of_small_groups_hold():
    """Of groups a and b of 3 to 1,000 people: 79 to 91 % held, as the answers of few people are often all alike."""
    for m, na, nb, share, in_a, in_b in (
        (None, 3, 300, 0.35, 0.3, 0.5),
        (RandomizedResponse(epsilon=5.0), 5, 300, 0.4, 0.3, 0.5),
        (RandomizedResponse(epsilon=1.0), 3, 300, 0.35, 0.3, 0.5),
        (None, 10, 1000, 0.5, 0.15, 1.0),
    ):
        p, q = (1, 0) if m is None else (m.p, m.q)
        a, b = (stats.binom(n, q + (p - q) * x) for n, x in ((na, in_a), (nb, in_b)))
        some = np.unique(b.ppf(np.linspace(0.025, 0.975, 20)))
        pairs = [(x, y) for x in range(na + 1) for y in some]
        probability = np.array([a.pmf(x) * b.pmf(y) for x, y in pairs])
        of, shares = ["a"] * na + ["b"] * nb, {"a": share, "b": 1 - share}
        supports = [np.concatenate([first(x, na), first(y, nb)]) for x, y in pairs]
        found = [weighted_mean((s - q) / (p - q), groups=of, shares=shares) for s in supports]
        with case(m, na, nb):
            holds, bounded = held(found, share * in_a + (1 - share) * in_b, probability / probability.sum())
            assert holds >= 0.95
            assert bounded == pytest.approx(1)


def test_people_who_stand_for_many_hold():
    """All 5 % who have the value stand for ten each, as do 5 % who do not: 82 and 90 % held."""
    runs, n = 300, 500
    kinds = np.random.default_rng(6).choice(3, runs * n, p=np.array([0.005, 0.005, 0.9]) / 0.91)
    has, people = kinds == 0, np.split(np.where(kinds < 2, 10.0, 1.0), runs)
    some, numbers = UnaryEncoding(range(2), epsilon=4.0), Piecewise((0, 1), epsilon=4.0)
    weights = np.split(some.weights(some.perturb(has.astype(int), randomness=keyed(runs * n)), 1), runs)
    reports = np.split(np.asarray(numbers.perturb(has.astype(float), randomness=keyed(runs * n))), runs)
    for name, told in (("shares", weights), ("numbers", [(numbers, one) for one in reports])):
        with case(name):
            found = [weighted_mean(one, weights=of) for one, of in zip(told, people, strict=True)]
            assert held(found, 0.05, np.full(runs, 1 / runs))[0] >= 0.93
    found = [ratio(one * of, of) for one, of in zip(weights, people, strict=True)]
    assert held(found, 0.05, np.full(runs, 1 / runs))[0] >= 0.93


def test_few_who_are_counted_are_not_told_of():
    """No number is larger than most: their intervals hold in 94 % and more."""
    w = weights_of(first(20, 200), RandomizedResponse(epsilon=8.0))
    with warnings.catch_warnings(action="error"):
        for y in (np.ones(200), np.arange(200) % 2, np.arange(200) % 10 == 0):
            assert math.isfinite(total(w * y).high)


def test_few_people_who_stand_for_many_are_told_of():
    """Two of 150 stand for ten each, and one has the value: 81 % held, without a word."""
    for heavy, warned in ((2, True), (150, False)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            weighted_mean(np.tile([1.5, -0.5], 75), weights=np.repeat([10.0, 1.0], [heavy, 150 - heavy]))
        assert [one.category for one in told] == [LdpWarning] * warned


@pytest.mark.slow
def test_means_by_rounding_and_hadamard_response_hold():
    """Few of the reports are far off, on one side: of 20 and 50 people 84 to 87 % held."""
    m, runs = StochasticRounding((0, 10), epsilon=4.0, buckets=64, oracle="hadamard_response"), 60
    for n, number in ((20, 0.0), (50, 5.0)):
        reports = m.perturb(np.full(runs * n, number), randomness=keyed(runs * n))
        samples, people = np.split(np.asarray(reports), runs), np.tile([1.0, 3.0], n // 2)
        with case(n):
            found = [weighted_mean((m, one), weights=people) for one in samples]
            assert held(found, number, np.full(runs, 1 / runs))[0] >= 0.95
    system, inside = RandomizedResponse(["a", "b"], epsilon=4.0), np.tile([True, False], 50 * 200)  # half of 100 people
    told = inside ^ (np.random.default_rng(7).random(20_000) >= system.p)
    x = m.weights(m.perturb(np.where(inside, 4.0, 7.0), randomness=keyed(20_000)))
    products = zip(np.split(x, 200), np.split(weights_of(told, system), 200), strict=True)
    means = [ratio(w * one, w, of=m) for one, w in products]  # 90 % held
    assert held(means, 4.0, np.full(200, 1 / 200))[0] >= 0.95
    both = [m.perturb(np.full(400 * 20, x), randomness=keyed(8000)) for x in (5.0, 0.0)]  # compared: 87 % held
    counters = [[m.tally(one).counters for one in np.split(np.asarray(reports), 400)] for reports in both]
    table = Compare().rows(m, np.full((400, 2), 20), np.stack(counters, axis=1))[0]
    assert np.mean((np.array(table["low"]) <= -5) & (np.array(table["high"]) >= -5)) >= 0.95


def test_noise_of_square_wave_is_known_beyond_its_interval():
    """The mean of twelve reports at epsilon 0.05 may be ten intervals off: an IndexError in 133 of 300 samples."""
    time = SquareWave((0, 10), epsilon=0.05)
    np.testing.assert_array_equal(time.noise([-20, 20]), time.noise([0, 1]))
    found = weighted_mean((time, np.zeros(12, np.uint16)))
    assert found.low < found.mean < found.high


# ---- quantiles


def test_quantiles_of_all_are_order_statistics():
    """As of a binomial count: y[k] and y[k'] with (k - n q)^2 <= z^2 n q (1 - q), by hand for n = 100, q = 0.5."""
    y = np.random.default_rng(2).permutation(np.arange(1.0, 101.0))
    found = weighted_quantiles(y, np.ones(100), [0.5, 0.01])
    assert (found.quantiles[0], found.low[0], found.high[0]) == (50, 41, 60)
    assert found.low[1] == -np.inf
    assert found.to_arrow().column_names == ["probability", "quantile", "low", "high", "n"]
    empty = weighted_quantiles([], [], [0.5])
    assert np.isnan(empty.quantiles[0])
    assert (empty.low[0], empty.high[0]) == (-np.inf, np.inf)


def test_ties_are_one_place():
    found = weighted_quantiles([1.0, 2.0, 2.0, 2.0, 3.0] * 20, np.ones(100), [0.5])
    assert (found.quantiles[0], found.low[0], found.high[0]) == (2, 2, 2)


def test_quantiles_of_few_people_in_a_group_hold():
    """Half of 40 people's reports support the value, and weigh twice as much; so four decide: 90 % held."""
    rng, m, held = np.random.default_rng(5), UnaryEncoding(["a", "b"], epsilon=8.0), 0
    for _ in range(800):
        inside, y = rng.random(50) < 0.8, rng.normal(size=50)
        supports = rng.random(50) < np.where(inside, m.p, m.q)
        found = weighted_quantiles(y, (supports - m.q) / (m.p - m.q), [0.9])
        held += found.low[0] <= stats.norm.ppf(0.9) <= found.high[0]
    assert held / 800 >= 0.93


def test_quantiles_in_a_private_group_hold():
    """As `test_means_in_a_private_group_hold`; ends are numbers that are there, so that it is a little more often."""
    rng, m, held = np.random.default_rng(3), UnaryEncoding(["a", "b", "c"], epsilon=2.0), 0
    for _ in range(400):
        x = rng.integers(0, 3, 3000)
        y = rng.exponential(1 + x)
        bits = rng.random((3000, 3)) < np.where(np.eye(3)[x] == 1, m.p, m.q)
        found = weighted_quantiles(y, m.weights(bits, "b"), [0.5, 0.9])
        held += (found.low <= -2 * np.log([0.5, 0.1])) & (-2 * np.log([0.5, 0.1]) <= found.high)
    assert ((held / 400 >= 0.92) & (held / 400 <= 0.98)).all()
