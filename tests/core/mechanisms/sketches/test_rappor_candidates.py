"""Decoding RAPPOR: solvers, bias, errors, intervals and discoveries."""

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import optimize, stats

from ldp_core import HadamardCountMeanSketch, HistogramEstimate, Keyed, Mechanism, ParameterError, Rappor, Secret, Tally
from ldp_core.mechanisms.sketches._regression import nonnegative, p_values, significant

from ....cases import each
from ...checks import check_binomial, check_uniform, slow
from .helpers import CASES, CHROME, FRUIT, N, codes, fits, keyed


def test_least_squares_are_numpys():
    """Weighted by the size of the cohort, on counts less their densities."""
    m = Rappor(bits=16, hashes=2, cohorts=6, **CHROME)
    o, rng = m.over(FRUIT), np.random.default_rng(0)
    sizes = np.array([100, 50, 0, 300, 20, 80])
    ones = rng.binomial(sizes[:, None], 0.6, (6, 16))
    rows, wanted = [], []
    for i in np.flatnonzero(sizes):
        filters = np.zeros((16, 5))
        for v in range(5):
            filters[o.design.positions[i, v], v] = 1
        density = 1 - (15 / 16) ** 2
        rows.append((filters - density) * math.sqrt(sizes[i]))
        y = (ones[i] - m.p_star * sizes[i]) / ((1 - m.f) * (m.q - m.p)) / sizes[i]
        wanted.append((y - density) * math.sqrt(sizes[i]))
    expected = np.linalg.lstsq(np.concatenate(rows), np.concatenate(wanted), rcond=None)[0]
    np.testing.assert_allclose(o.design.fit(sizes, ones).shares, expected, rtol=1e-9)


def check_estimates(found, true):
    """Unbiased, as variable as the standard errors say, and covered: z of means below 3.5, 10 % in the variance."""
    shares, errors = (np.array([getattr(f, name) for f in found]) for name in ("shares", "errors"))
    z = (N * shares - true) / (N * errors)
    assert np.abs(z.mean(axis=0)).max() < 4.5 / math.sqrt(len(found))
    assert abs(z.var() - 1) < 0.12
    assert abs((np.abs(z) < 1.96).mean() - 0.95) < 0.015


@pytest.mark.parametrize("name", ["chrome", slow("md5"), slow("little noise"), slow("one hash, few cohorts")])
def test_estimates_are_unbiased_and_errors_right_at_none_and_three_tenths(name):
    rest = 0.5 ** np.arange(10) * 0.7 * N / 2
    truth = {"none": 0, "much": int(0.3 * N), **{f"v{i}": round(c) for i, c in enumerate(rest)}}
    truth["v0"] += N - sum(truth.values())
    found = fits(CASES[name], list(truth), truth, 250, 1)
    check_estimates(found, np.array(list(truth.values())))
    assert np.mean([f.misfit for f in found]) < 1.2


def test_values_that_are_not_listed_do_not_bias_over_the_hash_functions():
    """Half of the people hold values that nobody listed; each repetition has other ones, so other filters."""
    m, found = CASES["chrome"], []
    for seed in range(200):
        others = {f"unlisted {seed} {i}": N // 40 for i in range(20)}
        found += fits(m, FRUIT, {"apple": 6000, "plum": 4000} | others, 1, seed)
    check_estimates(found, np.array([6000, 4000, 0, 0, 0]))


def test_intervals_know_how_few_residuals_show_a_misfit():
    """Student's quantile of bits less candidates (32 - 25: normal ones held in 90 % of 400 runs, these in 95 %)."""
    m = Rappor(bits=8, hashes=2, cohorts=4, **CHROME)
    values = [f"v{i}" for i in range(26)]
    o, tally = m.over(values[:25]), m.simulate(dict.fromkeys(values[:12], 1_000) | {values[25]: 12_000}, seed=3)
    found = o.decode(tally)
    assert found.misfit > 2
    of_all = found.histogram
    reach = (of_all.high - of_all.counts) / of_all.standard_errors
    np.testing.assert_allclose(reach, stats.t.ppf(0.975, 32 - 25), rtol=0.01)


@each(("f", "p", "q", "unlisted"), [(0.5, 0.5, 0.75, 25_000), (0, 0.25, 0.75, 50_000)])
@pytest.mark.slow
def test_a_frequent_value_that_is_not_listed_makes_no_discoveries(f, p, q, unlisted):
    """Few shared bits have no normal sum, by which 17 and 24 % of the runs found somebody."""
    m, found, together = Rappor("int", bits=32, hashes=2, cohorts=8, f=f, p=p, q=q), 0, 0
    for run in range(50):
        values = range(100 * run, 100 * run + 21)  # of each run other filters
        o, tally = m.over(values[:20]), m.simulate({values[0]: 50_000 - unlisted, values[20]: unlisted}, seed=run)
        found += o.decode(tally).significant[1:].any()
        together += (o.estimate(tally, simultaneous=True).low[1:] > 0).any()
    assert max(found, together) <= 4


def test_no_tallies_have_no_rows():
    o = Rappor("int", bits=16, hashes=2, cohorts=4, **CHROME).over([1, 2])
    rows, sizes = HistogramEstimate().rows(o, np.zeros(0, np.int64), np.zeros((0, o.counters), np.int64))
    assert (len(rows), len(sizes)) == (0, 0)


@pytest.mark.slow
def test_p_values_of_what_nobody_holds_are_uniform():
    m, names = CASES["chrome"], [f"nobody {i}" for i in range(60)]
    found = fits(m, [*FRUIT, *names], dict.fromkeys(FRUIT, 4000), 60, 3)
    p = np.array([p_values(f)[5:] for f in found])
    check_uniform(np.histogram(p, 10, (0, 1))[0])


def test_more_candidates_than_bits_tell_are_refused():
    """LASSO selected some of them: of single candidates that are like frequent ones 57 to 90 % of intervals held."""
    m = Rappor("int", bits=16, hashes=2, cohorts=8, f=0.05, p=0.02, q=0.98)
    assert m.over(range(102)).domain.size == 102  # of 128 bits
    with pytest.raises(ParameterError, match=r"103 candidates, .* 102 at most .* more cohorts"):
        m.over(range(103))
    with pytest.raises(ParameterError, match="192 candidates"):
        Mechanism.from_dict({**m.over(range(102)).to_dict(), "domain": list(range(192))})


def test_reports_of_few_cohorts_tell_nothing():
    m = Rappor("int", bits=16, hashes=2, cohorts=8, f=0.05, p=0.02, q=0.98)
    o, counters = m.over(range(20)), np.zeros((8, 17), np.int64)
    counters[3] = 1000, *[400] * 16  # (all in one cohort)
    decoded = o.decode(Tally(1000, counters.reshape(-1), m.fingerprint))
    assert np.isinf(decoded.histogram.standard_errors).all()
    assert np.isinf(decoded.histogram.low).all()
    assert np.isfinite(decoded.histogram.counts).all()
    assert decoded.found == ()


def test_candidates_that_cannot_be_told_apart_are_said_to_be():
    """Two candidates with the same filter in the one cohort there is: one gets an infinite error, or a combination."""
    m = Rappor("int", bits=4, hashes=1, cohorts=1, f=0.2, p=0.2, q=0.8)
    where = m.positions(codes(np.arange(20)), ())[0, :, 0]
    same = np.flatnonzero(where == where[0])[:2].tolist()
    o = m.over(same)
    reports = m.perturb(np.full(5000, same[0]), randomness=keyed(np.arange(5000)))
    histogram = o.estimate(o.tally(reports))
    assert np.isinf(histogram.standard_errors).sum() == 1
    assert np.isfinite(histogram.counts).all()
    first = np.isfinite(histogram.standard_errors)
    assert abs(histogram.counts[first] - 5000) < 6 * histogram.standard_errors[first]
    assert o.decode(o.tally(reports)).found == (same[int(np.flatnonzero(first)[0])],)


def test_population():
    """100,000 people, Zipf over 50 of 200 candidates: Bonferroni finds what it can, and nothing that is not there.

    The truth is measured against the detection limit of the paper's formula: z standard deviations of a count.
    """
    m = Rappor(bits=64, hashes=2, cohorts=32, f=0.25, p=0.25, q=0.75)
    n, names = 100_000, [f"value {i}" for i in range(200)]
    weights = 1 / np.arange(1, 51)
    which = np.random.default_rng(7).choice(50, n, p=weights / weights.sum())
    noise = Keyed(Secret.from_seed(11), np.arange(n), column="c")
    tally = m.tally(m.perturb(pa.array(np.array(names)[which]), randomness=noise))
    decoded = m.over(names).decode(tally)
    true = np.bincount(which, minlength=200)
    histogram = decoded.histogram
    z = (histogram.counts - true) / histogram.standard_errors
    assert np.abs(z).max() < 5
    check_binomial(int((np.abs(z) < 1.96).sum()), 200, 0.95)
    assert not decoded.significant[true == 0].any()
    limit = 3.48 * math.sqrt(m.over(names).variance(n))  # the normal quantile of 0.05 / 200
    assert decoded.significant[true > 1.7 * limit].all()
    assert (true > 1.7 * limit).sum() >= 10
    assert decoded.significant.sum() >= 15
    assert decoded.found[0] == "value 0"
    assert set(decoded.found) <= set(names[:50])
    more = m.over(names).decode(tally, correction="fdr")
    assert set(decoded.found) <= set(more.found)
    assert (decoded.counts >= 0).all()
    assert np.square(decoded.counts - true).sum() < np.square(histogram.counts - true).sum()
    assert histogram == m.over(names).estimate(tally)


def test_variance_in_advance_is_near_the_errors_of_an_estimate():
    for m in (CASES["chrome"], CASES["md5"]):
        [fit] = fits(m, FRUIT, {f"v{i}": 40 for i in range(500)}, 1, 5)
        assert N * fit.errors.mean() == pytest.approx(math.sqrt(m.over(FRUIT).variance(N)), rel=0.15)
    assert m.over(FRUIT).explain(N).error


@pytest.mark.slow
def test_accuracy_holds():
    """Hoeffding's bound, which the normal approximation exceeds by far: at beta = 0.3 it still fails in fewer cases."""
    m, truth = CASES["md5"], {f"v{i}": 40 for i in range(500)}
    o = m.over(FRUIT)
    errors = np.abs([f.shares for f in fits(m, FRUIT, truth, 100, 6)])
    assert (errors > o.accuracy(N, 0.3)).mean() < 0.3
    assert (errors > o.accuracy(N, 0.3) / 8).mean() > 0.3


def test_candidates_of_a_rappor_are_its_own():
    """Those of other sketches would read its tallies, too, and count wrongly."""
    rappor = Rappor("str", bits=32, hashes=2, cohorts=8, f=0.25, p=0.1, q=0.9)
    over = rappor.over(["rome", "oslo"]).to_dict()
    assert over["mechanism"] == "rappor_candidates"
    assert Mechanism.from_dict(over) == rappor.over(["rome", "oslo"])
    with pytest.raises(ParameterError, match="of rappor the candidates are 'rappor_candidates', not 'candidates'"):
        Mechanism.from_dict({**over, "mechanism": "candidates"})
    other = HadamardCountMeanSketch("str", epsilon=1.0).over(["rome", "oslo"]).to_dict()
    with pytest.raises(ParameterError, match="the candidates are 'candidates'"):
        Mechanism.from_dict({**other, "mechanism": "rappor_candidates"})


@each("seed", range(5))
def test_nonnegative_least_squares_is_scipys(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(60, 20)), rng.normal(size=60)
    np.testing.assert_allclose(nonnegative(a.T @ a, a.T @ b), optimize.nnls(a, b)[0], atol=1e-9)


@each("correction", ["bonferroni", "fdr"])
def test_corrections_by_hand(correction):
    p = np.array([0.2, 0.001, 0.012, 0.9, 0.02])
    expected = {"bonferroni": [0.001], "fdr": [0.001, 0.012, 0.02]}[correction]
    assert sorted(p[significant(p, 0.05, correction)]) == expected
    assert not significant(np.ones(3), 0.05, correction).any()
