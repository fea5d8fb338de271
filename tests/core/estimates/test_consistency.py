"""Consistent histograms: other people's numbers, properties, and solvers that know nothing of ours."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from ldp_core import (
    BlockHadamardResponse,
    DBitFlip,
    Domain,
    HadamardResponse,
    HistogramEstimate,
    Keyed,
    MechanismMismatchError,
    ParameterError,
    RandomizedResponse,
    Rappor,
    SampledColumn,
    Secret,
    Tally,
    UnaryEncoding,
    consistent,
)
from ldp_core.estimates.consistency import METHODS

from ...cases import each
from ..checks import FALSE_ALARM
from ..examples import keyed

SUM_IS_N = ["norm", "norm-mul", "norm-sub", "mle-apx", "mle", "power-ns"]
PROJECTIONS = ["norm-sub", "mle-apx", "mle"]  # what is consistent already stays as it is
NOT_NEGATIVE = [m for m in METHODS if m != "norm"]
IDEMPOTENT = [m for m in METHODS if not m.startswith("power")]
SEVERAL = {
    "GRR": RandomizedResponse(range(16), epsilon=1.0),
    "OUE": UnaryEncoding(range(16), epsilon=1.0),
    "SUE": UnaryEncoding(range(16), epsilon=0.5, variant="symmetric"),
    "p + q > 1": UnaryEncoding.from_probabilities(range(16), p=0.9, q=0.3),
}


def count_reports(rng, m, true, repeats):
    """Draws from the exact distribution of the support counts: int64[repeats, d]."""
    n = int(true.sum())
    if isinstance(m, SampledColumn):
        answering = rng.binomial(true, 1 / m.columns, (repeats, len(true)))
        of_each = np.concatenate([count_reports(rng, m.inner, one, 1) for one in answering])
        return np.concatenate([answering.sum(axis=1, keepdims=True), of_each], axis=1)
    if isinstance(m, RandomizedResponse):
        rows = np.full((len(true), len(true)), m.q) + np.eye(len(true)) * (m.p - m.q)
        return sum(rng.multinomial(c, row / row.sum(), repeats) for c, row in zip(true, rows, strict=True))
    return rng.binomial(true, m.p, (repeats, len(true))) + rng.binomial(n - true, m.q, (repeats, len(true)))


def zipf(n, d, exponent):
    share = 1 / np.arange(1, d + 1) ** exponent
    counts = np.floor(n * share / share.sum()).astype(int)
    counts[0] += n - counts.sum()
    return counts


# ---- other people's numbers: the post_processing entry of the research note's acceptance.json, verbatim

GRR4 = RandomizedResponse(range(4), epsilon=1.0)
RAW = [108.19767068693263, 41.63953413738651, 8.36046586261346, -58.19767068693265]
PUBLISHED = {
    "norm-sub": [83.27906827477307, 16.72093172522693, 0.0, 0.0],
    "base-pos": [108.19767068693268, 41.63953413738653, 8.360465862613468, 0.0],
    # (the note has 26.3212052..., with which the sum would be 99.9999997: a digit was lost in copying)
    "norm-mul": [68.39397205857213, 26.321205588285572, 5.284822353142305, 0.0],
    "mle": [77.04941767173318, 22.950582328266828, 0.0, 0.0],
    # the code that the paper's authors published keeps the value that crosses n and scales to n
    "norm-cut": [100.0, 0.0, 0.0, 0.0],
}


@each("method", PUBLISHED)
def test_published_numbers(method):
    h = GRR4.estimate(Tally(100, np.array([50, 30, 20, 0]), GRR4.fingerprint))
    np.testing.assert_allclose(h.counts, RAW, rtol=1e-12)
    made = consistent(h.counts, h.n, method, mechanism=GRR4)
    np.testing.assert_allclose(made, PUBLISHED[method], rtol=1e-12, atol=1e-12)


def iterative_bayesian_update(f, support, p, q, steps):
    """EM for a mixture of the rows of Pr[v | u], with the whole matrix: d x d."""
    d = len(support)
    channel = np.full((d, d), q) + np.eye(d) * (p - q)
    channel /= channel.sum(1, keepdims=True)
    for _ in range(steps):
        posterior = channel * f[:, None] / (f @ channel)
        f = posterior @ (support / support.sum())
    return f


def test_mle_is_the_limit_of_the_iterative_bayesian_update():
    limit = iterative_bayesian_update(np.full(4, 1 / 4), np.array([50, 30, 20, 0]), GRR4.p, GRR4.q, 3000)
    np.testing.assert_allclose(consistent(RAW, 100, "mle", mechanism=GRR4), 100 * limit, atol=1e-8)


# ---- properties

shares = st.lists(st.integers(0, 1000), min_size=2, max_size=20)


@st.composite
def tallies(draw):
    """(mechanism, n, support counts) of any kind: not only likely ones."""
    d = draw(st.integers(2, 20))
    n = draw(st.integers(1, 10**6))
    epsilon = draw(st.sampled_from([0.1, 1.0, 4.0, None]))
    if epsilon is None:
        m = UnaryEncoding.from_probabilities(range(d), p=0.9, q=0.3)
    else:
        m = draw(st.sampled_from([RandomizedResponse, UnaryEncoding]))(range(d), epsilon=epsilon)
    support = np.array(draw(st.lists(st.integers(0, n), min_size=d, max_size=d)))
    if isinstance(m, RandomizedResponse):
        weights = support + 1e-9
        support = np.floor(n * weights / weights.sum()).astype(int)
        support[0] += n - support.sum()
    return m, n, support


@settings(max_examples=25)
@given(tallies())
def test_properties(drawn):
    m, n, support = drawn
    e = m.debias(n, support)[0]
    e.flags.writeable = False  # (the input is not changed)
    order, turn = np.argsort(e, kind="stable"), np.random.default_rng(0).permutation(len(e))
    for method in METHODS:
        c = consistent(e, n, method, mechanism=m)
        turned = consistent(e[turn], n, method, mechanism=m)
        np.testing.assert_allclose(turned, c[turn], rtol=1e-9, atol=1e-9 * n, err_msg=method)
        assert c.shape == e.shape
        assert np.isfinite(c).all()
        if method in SUM_IS_N:
            np.testing.assert_allclose(c.sum(), n, rtol=1e-9)
        if method in NOT_NEGATIVE:
            assert np.all(c >= 0)
        if method == "norm-cut":
            assert c.sum() <= n * (1 + 1e-12)
        slack = 1e-9 * np.abs(e).max()
        assert np.all(np.diff(c[order]) >= -slack), method  # order is preserved
        assert np.all(np.diff(c[order])[np.diff(e[order]) == 0] == 0), method  # and equality
        if method in IDEMPOTENT and m.p - m.q > 0.01:
            inside = c * (m.p - m.q) + n * m.q  # what norm and base-cut leave may be beyond n
            if np.all((inside >= 0) & (inside <= n)):
                again = consistent(c, n, method, mechanism=m)
                np.testing.assert_allclose(again, c, rtol=1e-7, atol=1e-7 * n, err_msg=method)


@settings(max_examples=25)
@given(shares.filter(any))
def test_what_is_consistent_stays(counts):
    """Without noise nothing changes, but for the posterior, and base-cut, which does not know that there is none."""
    n = sum(counts)
    m = UnaryEncoding(range(len(counts)), epsilon=1.0)
    for method in ("base-pos", "norm", "norm-mul", "norm-cut", *PROJECTIONS):
        np.testing.assert_allclose(consistent(counts, n, method, mechanism=m), counts, rtol=1e-9, atol=1e-9 * n)


def test_many_histograms_at_once_are_each_alone():
    rng = np.random.default_rng(3)
    for m in SEVERAL.values():
        n = np.array([1000, 50_000, 0, 7])
        support = np.stack([count_reports(rng, m, zipf(max(k, 1), 16, 1), 1)[0] * (k > 0) for k in n])
        e = m.debias(n[:, None], support)[0]
        for method in METHODS:
            together = consistent(e, n[:, None], method, mechanism=m)
            alone = [consistent(row, k, method, mechanism=m) for row, k in zip(e, n, strict=True)]
            np.testing.assert_array_equal(together, alone)
            assert np.all(together[2] == 0)
            cube = consistent(np.stack([e, e]), n[:, None], method, mechanism=m)
            np.testing.assert_array_equal(cube, [together, together])


@pytest.mark.filterwarnings("ignore::ldp_core.LdpWarning")  # no honest reports
def test_two_values_with_unequal_coins():
    """Values with a p and a q of their own; estimates add up to n, so that a projection clips."""
    m = RandomizedResponse.from_coins(truth=0.3, yes=0.8)
    for yes in (0, 10, 240, 700, 1000):
        h = m.estimate(Tally(1000, np.array([1000 - yes, yes]), m.fingerprint))
        for method in PROJECTIONS:
            expected = np.clip(h.counts, 0, 1000)
            np.testing.assert_allclose(consistent(h.counts, 1000, method, mechanism=m), expected, atol=1e-9)


# ---- independent solvers


@each("seed", range(5))
def test_norm_sub_against_a_root_finder(seed):
    """norm-sub is max(e + x, 0) with sum n: x by Brent's method, for a thousand values."""
    rng = np.random.default_rng(seed)
    e, n = rng.normal(0, 10.0 ** rng.integers(0, 6), 1000), float(rng.integers(1, 10**6))

    def excess(x):
        return np.maximum(e + x, 0).sum() - n

    x = optimize.brentq(excess, -e.max() - 1, n + np.abs(e).max(), xtol=1e-12, rtol=1e-15, maxiter=1000)
    np.testing.assert_allclose(consistent(e, n, "norm-sub"), np.maximum(e + x, 0), rtol=1e-7, atol=1e-7)


def least(e, n, a, b):
    """The minimum over the simplex of sum (e - c)^2 / (a + b c), by sequential quadratic programming."""
    solution = optimize.minimize(
        lambda f: np.sum((e / n - f) ** 2 / (a / n + b * f)),
        np.full(len(e), 1 / len(e)),
        method="SLSQP",
        bounds=[(0, None)] * len(e),
        constraints={"type": "eq", "fun": lambda f: f.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert solution.success, solution.message
    return n * solution.x


@each("name", SEVERAL)
@each("n", [200, 5000])
def test_projections_against_a_general_solver(name, n):
    m = SEVERAL[name]
    p, q = m.p, m.q
    for support in count_reports(np.random.default_rng(n), m, zipf(n, 16, 1), 1):
        e = m.debias(n, support)[0]
        for method, a, b in (
            ("norm-sub", n, 0),
            ("mle-apx", m.variance(n, 0), (1 - p - q) / (p - q)),
            ("mle", n * q / (p - q), 1),
        ):
            made = consistent(e, n, method, mechanism=m)
            np.testing.assert_allclose(made, least(e, n, a, b), atol=1e-3 * n, err_msg=method)


@each("name", ["GRR", "OUE"])
@each("n", [3000, 10**7])
def test_power_is_the_posterior_mean(name, n):
    """Against adaptive quadrature, for estimates from far below 0 to n."""
    m, d = SEVERAL[name], 16
    sigma = np.sqrt(m.variance(n, 0))
    e = np.clip(np.array([-4, -2, -1, -0.1, 0, 0.3, 1, 1.5, 2, 3, 4, 5, 7, 9, 12, 30]) * sigma, -n / 8, n)
    mean = optimize.brentq(lambda alpha: prior_moment(n, alpha, 1) / prior_moment(n, alpha, 0) - n / d, 0.01, 1.99)
    expected = [posterior(x, sigma, mean, n) for x in e]
    np.testing.assert_allclose(consistent(e, n, "power", mechanism=m), expected, rtol=2e-4)


def prior_moment(n, alpha, k):
    return integrate.quad(lambda u: np.exp((1 + k - alpha) * u), 0, np.log(n))[0]


def posterior(e, sigma, alpha, n):
    def weight(u, k):
        x = np.exp(u)
        return x**k * np.exp((1 - alpha) * u - ((e - x) / sigma) ** 2 / 2 + (min(e, 0) / sigma) ** 2 / 2)

    places = sorted({np.log(np.clip(e + k * sigma, 1, n)) for k in range(-8, 9)})
    top = np.log(np.clip(max(e, 0) + 12 * sigma, 1, n))
    options = {"points": places, "limit": 500, "epsabs": 0, "epsrel": 1e-9}
    one, zero = (integrate.quad(weight, 0, top, args=(k,), **options)[0] for k in (1, 0))
    return one / zero


def test_power_where_few_values_have_a_count():
    """n below d: the exponent stays at 2, large counts stay large, and nothing is infinite."""
    m = UnaryEncoding(range(1000), epsilon=4.0)
    true = np.zeros(1000, int)
    true[0] = 500
    e = m.debias(500, count_reports(np.random.default_rng(0), m, true, 4))[0]
    c = consistent(e, 500, "power", mechanism=m)
    assert np.all((c >= 1) & (c <= 500))
    np.testing.assert_allclose(c[:, 0], np.clip(e[:, 0], 0, 500), rtol=0.05)
    assert np.all(c[:, 1:].mean(-1) < 5)


def test_blocks_of_one_value_are_not_spread_evenly():
    """A count of n has less variance than one of 0, by more than it has: everybody was n / d in half of all cases."""
    for d, epsilon, n in ((2, 4.0, 20_000), (2, 2.0, 1000), (16, 4.0, 20_000)):
        m = BlockHadamardResponse(range(d), epsilon=epsilon)
        for seed in range(20):
            tally = m.simulate([n] + [0] * (d - 1), seed=seed)
            counts = m.estimate(tally, consistency="mle-apx").counts
            assert counts[0] > 0.9 * n
            np.testing.assert_array_equal(counts, m.estimate(tally, consistency="norm-sub").counts)


# ---- base-cut's promise


def any_left(m, n, significance, repeats):
    """In how many histograms of reports of one value does any of the others remain?"""
    true = np.zeros(m.domain.size, int)
    true[0] = n
    e = m.debias(n, count_reports(np.random.default_rng(1), m, true, repeats))[0]
    e = e[np.isfinite(e).all(axis=1)]  # (nobody of a sample answers)
    return int(np.count_nonzero(consistent(e, n, "base-cut", mechanism=m, significance=significance)[:, 1:].any(-1)))


def test_base_cut_leaves_no_empty_value_but_for_its_significance():
    """Of few supports, too, of which the normal tail kept one in up to a third of all histograms."""
    few = [(RandomizedResponse(range(100), epsilon=4.0), 1000), (UnaryEncoding(range(100), epsilon=4.0), 300)]
    few += [(RandomizedResponse(range(16), epsilon=2.0), 200), (RandomizedResponse(range(100), epsilon=1.0), 300)]
    few += [(UnaryEncoding(range(100), epsilon=0.5), 3), (SampledColumn(few[-1][0], columns=10), 300)]
    for m, n in few:
        assert stats.binom.sf(any_left(m, n, 0.05, 1000) - 1, 1000, 0.05) > FALSE_ALARM, (m, n)
    m, n, repeats = UnaryEncoding(range(64), epsilon=1.0), 200_000, 20_000
    for significance in (0.05, 0.01):
        hits = any_left(m, n, significance, repeats)
        assert stats.binom.sf(hits - 1, repeats, significance) > FALSE_ALARM
        assert hits > 0.5 * significance * repeats  # (the threshold is not needlessly high)


# ---- errors


@each(
    ("about", "options"),
    [
        *(("norm-sub", {"method": method}) for method in ("norm_sub", "", None, "NORM-SUB", ["norm-sub"])),
        *(("which mechanism", {"method": method}) for method in ("base-cut", "mle", "mle-apx", "power", "power-ns")),
        *(("n must be", {"n": n}) for n in (-1, np.nan, np.inf, [100] * 4, [[1, 2]])),
        ("n must be", {"counts": [RAW] * 3, "n": [[100]] * 2}),
        *(("finite", {"counts": counts}) for counts in ([np.nan, 1], [np.inf, 1], 3.0, [])),
        *(("repeats must be at least 1", {"repeats": k}) for k in (0, np.nan, [[1], [0.5]])),
        *(("significance", {"method": "base-cut", "mechanism": GRR4, "significance": s}) for s in (0, 1, -1, np.nan)),
    ],
)
def test_bad_arguments(about, options):
    with pytest.raises(ParameterError, match=about):
        consistent(**{"counts": RAW, "n": 100, "method": "norm-sub", **options})


def test_base_cut_takes_no_reports_in_blocks():
    """Their noise is that of their block: of 5,000 histograms 13 to 96 % kept a value that nobody has."""
    m = BlockHadamardResponse(range(64), epsilon=4.0)
    with pytest.raises(ParameterError, match="in blocks that depends on the others there: take base-pos"):
        m.estimate(m.simulate([100] * 64, seed=1), consistency="base-cut")


def test_the_wrong_mechanism():
    with pytest.raises(MechanismMismatchError):
        consistent(RAW, 100, "mle", mechanism=RandomizedResponse(range(5), epsilon=1.0))
    with pytest.raises(ParameterError, match="cannot come from"):
        consistent(RAW, 100, "mle", mechanism=RandomizedResponse(range(4), epsilon=3.0))
    with pytest.raises(ParameterError, match="cannot come from"):
        consistent(RAW, 1, "norm-sub", mechanism=GRR4)


def test_records_without_a_value_have_no_known_sum():
    m = UnaryEncoding(Domain(["a", "b", "c", "d"], unmatched="none"), epsilon=1.0)
    h = m.estimate(m.tally(m.perturb(["a"] * 1000 + [None] * 9000)))
    for method in METHODS:
        if method in ("base-pos", "base-cut", "norm-cut"):
            c = consistent(h.counts, h.n, method, mechanism=m)
            assert np.all(c >= 0)
            assert c.sum() <= h.n
        else:
            with pytest.raises(ParameterError, match="none"):
                consistent(h.counts, h.n, method, mechanism=m)
            with pytest.raises(ParameterError, match="none"):
                m.estimate(m.empty_tally(), consistency=method)


# ---- one keyword of estimate


@each("method", METHODS)
def test_estimate_makes_counts_consistent_and_says_so(method):
    for m in SEVERAL.values():
        tally = Tally(3000, count_reports(np.random.default_rng(1), m, zipf(3000, 16, 1.5), 1)[0], m.fingerprint)
        plain = m.estimate(tally, confidence=0.9)
        made = m.estimate(tally, confidence=0.9, consistency=method)
        assert (plain.consistency, plain.biased, made.consistency, made.biased) == (None, False, method, True)
        np.testing.assert_array_equal(made.counts, consistent(plain.counts, 3000, method, mechanism=m))
        np.testing.assert_array_equal(made.frequencies, made.counts / 3000)
        for same in ("standard_errors", "low", "high"):
            np.testing.assert_array_equal(getattr(made, same), getattr(plain, same))
        assert made != plain
        assert f"({method}: biased" in repr(made)
        assert "biased" not in repr(plain)


@each("method", METHODS)
def test_equal_reports_of_a_person_count_as_one(method):
    """As of keyed noise: a value that nobody has remained after base-cut in 72 to 100 % of histograms."""
    for m in SEVERAL.values():
        tally = Tally(3000, count_reports(np.random.default_rng(1), m, zipf(3000, 16, 1.5), 1)[0], m.fingerprint)
        once = m.estimate(tally, consistency=method)
        seven = Tally(21_000, 7 * tally.counters, m.fingerprint)
        again = HistogramEstimate(consistency=method, repeats=7).result(m, seven)
        np.testing.assert_allclose(again.counts, 7 * once.counts, rtol=1e-9, atol=1e-9, err_msg=str(m))
    people = np.tile(np.arange(3000), 7)
    noise = Keyed(Secret.from_seed(1), people, column="c")
    reports = GRR4.perturb(np.array(GRR4.domain.values, object)[people % 2], randomness=noise)
    told = HistogramEstimate(consistency=method).of_persons(GRR4, reports, people)
    once = GRR4.estimate(GRR4.tally(reports[:3000]), consistency=method)
    np.testing.assert_allclose(told.counts, 7 * once.counts, rtol=0.05, atol=20)


@each("n", [1, 3])
@each(
    "mechanism",
    [
        DBitFlip(range(10), epsilon_infinity=1.0, bits=3),
        Rappor("int", bits=16, hashes=2, cohorts=4, f=0.5, p=0.4, q=0.6).over([0, 1, 2, 3]),
    ],
)
@pytest.mark.slow
def test_few_reports_can_be_made_consistent(mechanism, n):
    """The estimates of few reports were refused: "cannot come from n reports of this mechanism"."""
    for seed in range(20):
        tally = mechanism.tally(mechanism.perturb(np.zeros(n, int), randomness=keyed(n, seed)))
        assert (mechanism.estimate(tally, consistency="base-pos").counts >= 0).all()


def test_a_probability_of_one_is_no_division_by_zero():
    """Where p rounds to 1 the variance of a count of n does to 0, and all values got n / d."""
    m = HadamardResponse(range(3), epsilon=50.0)
    tally = Tally(1000, np.array([1000, 484, 484]), m.fingerprint)
    assert m.estimate(tally, consistency="mle-apx").counts.tolist() == pytest.approx([1000, 0, 0])


def test_power_ns_hurts_where_there_is_little_noise():
    """Docs say so, with these numbers: it is not the best everywhere."""
    m, n = UnaryEncoding(range(128), epsilon=3.0), 1_000_000
    true = zipf(n, 128, 1.1)
    counts = m.debias(n, count_reports(np.random.default_rng(0), m, true, 20))[0]
    unbiased = np.mean((counts - true) ** 2)
    made = {method: consistent(counts, n, method, mechanism=m) for method in ("norm-sub", "power-ns")}
    ratios = {method: np.mean((c - true) ** 2) / unbiased for method, c in made.items()}
    assert ratios["norm-sub"] < 1 < 1.2 < ratios["power-ns"] < 1.7
