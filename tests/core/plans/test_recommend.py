"""Recommendations against the mechanisms themselves, simulation, exact distributions and other people's numbers."""

import math
import re
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ldp_core import (
    Domain,
    HeavyHitters,
    HistogramEstimate,
    Hybrid,
    Interval,
    LocalHashing,
    OneBitMean,
    ParameterError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    SampledColumn,
    SubsetSelection,
    TableEstimate,
    UnaryEncoding,
    compare_plans,
    expected_error,
    recommend,
    required_epsilon,
    required_n,
)
from ldp_core.estimates.comparison import Compare
from ldp_core.mechanisms import catalog
from ldp_core.mechanisms.catalog import CHOICES, Choice
from ldp_core.plans import recommend as module
from ldp_core.plans import required
from ldp_core.plans.answered import MarginEstimate, joint_of, margins
from ldp_core.plans.compare import compare

from ...cases import each
from ..acceptance import ACCEPTANCE
from .helpers import AB, NAMES, close, epsilons, exactly, mechanism, names, precision, sizes

# ---- other people's numbers


@each("row", ACCEPTANCE["n_var"])
def test_published_variances(row):
    """n Var at f = 0 of Wang et al. 2017; with n = 10,000 what its Figure 1 plots."""
    for short, name in NAMES.items():
        table = row[short] if short == "GRR" else {"2": row[short], "2048": row[short]}
        for d, n_var in table.items():
            error = expected_error(name, 10_000, 0, domain=int(d), epsilon=row["epsilon"])
            assert error**2 * 10_000 == exactly(n_var)


@each("epsilon", [0.5, 1, 2, 3, 4])
def test_the_adaptive_rule(epsilon):
    """GRR has the smaller variance at f = 0 if and only if d < 3 e^epsilon + 2."""
    for d in range(2, 300):
        grr, oue = (expected_error(NAMES[kind], 1000, 0, domain=d, epsilon=epsilon) for kind in ("GRR", "OUE"))
        assert (grr < oue) == (d < 3 * math.exp(epsilon) + 2)


@settings(max_examples=30)
@given(names, sizes, epsilons, st.integers(1, 10**9), st.floats(0, 1))
@pytest.mark.slow
def test_errors_and_margins_are_the_mechanisms(name, d, epsilon, n, f):
    m = mechanism(name, d, epsilon)
    (r,) = (r for r in recommend(d, epsilon, n, frequency=f) if r.key == name)
    assert r.standard_error == close(math.sqrt(m.variance(n, f * n)) / n, rel=precision(name))
    assert r.standard_error == close(expected_error(m, n, f), rel=precision(name))
    typical = expected_error(name, n, domain=d, epsilon=epsilon)
    assert typical == close(math.sqrt(m.variance(n, n / d)) / n, rel=precision(name))
    assert r.mechanism(range(d)) == m


# ---- exact distributions


def miss_probability(p, q, n, f, margin):
    """Pr[|estimate - f| > margin], from the exact distribution of the support count."""
    from scipy import signal  # which takes long to import

    true = round(f * n)
    probability = signal.fftconvolve(
        stats.binom.pmf(np.arange(true + 1), true, p), stats.binom.pmf(np.arange(n - true + 1), n - true, q)
    )
    error = (np.arange(n + 1) - n * q) / (p - q) / n - true / n
    return float(probability[np.abs(error) > margin * (1 + 1e-12)].sum())


@each("beta", [0.05, 0.01])
@each("name", sorted(CHOICES))
def test_that_many_reports_keep_the_margin(name, beta):
    d, epsilon, margin = 16, 1.0, 0.05
    p, q = CHOICES[name].probabilities(d, epsilon)
    arguments = {"domain": d, "epsilon": epsilon}
    for f in (1 / d, 0, 0.3):
        n = required_n(name, margin, beta, **arguments, frequency=f, population=None).n
        assert 0.75 * beta <= miss_probability(p, q, n, f, margin) <= beta


# ---- the table


def test_in_order_and_complete():
    for d in (2, 3, 16, 1000, 10**6):
        for epsilon in (0.1, 1.0, 5.0):
            made = recommend(d, epsilon, 10_000)
            assert {r.key for r in made} == set(CHOICES)
            errors = [r.standard_error for r in made]
            assert all(one <= 1.02 * min(errors[k:]) for k, one in enumerate(errors))
            near = [r for r in made if r.standard_error <= 1.02 * min(errors)]
            assert made[0].server_operations <= 100 * min(r.server_operations for r in near)
    assert recommend(2, 1.0, 100)[0].key == NAMES["GRR"]
    assert recommend(3, 5.0, 100)[0].key == NAMES["GRR"]


def test_the_smaller_report_wins_where_the_error_is_the_same(monkeypatch):
    """OLH with g = 4 has n Var 3.69165 where OUE has 3.68269."""

    def hashing(d, epsilon):
        g = round(math.exp(epsilon)) + 1
        return math.exp(epsilon) / (math.exp(epsilon) + g - 1), 1 / g

    local = Choice(LocalHashing, hashing, "word")
    for user in (catalog, module):
        monkeypatch.setattr(user, "CHOICES", {NAMES["OUE"]: CHOICES[NAMES["OUE"]], local.key: local})
    error = expected_error(local.key, 1, 0, domain=128, epsilon=1.0)
    assert error**2 == exactly(3.6916546174566887)
    assert recommend(128, 1.0, 1000)[0].key == local.key  # 8 bytes instead of 16
    assert recommend(32, 1.0, 1000)[0].key == NAMES["OUE"]  # 4 bytes


# ---- tables, and what else is asked for

PLAN = PrivacyPlan({"os": UnaryEncoding(range(12), epsilon=2.0), "minutes": Hybrid((0, 60), epsilon=1.0)})


def test_the_default_is_the_interval_that_people_see():
    """A histogram of so many people has intervals of that half width."""
    m, margin = UnaryEncoding(range(12), epsilon=2.0), 0.02
    n = required_n(m, margin, frequency=1 / 12, population=None).n
    assert n == pytest.approx(7754, rel=0.06)  # by normal theory
    histogram = m.estimate(m.simulate(np.full(12, n // 12), seed=1))
    half = (histogram.high - histogram.low) / 2 / histogram.n
    assert half == pytest.approx(np.full(12, margin), rel=0.1)
    together = m.estimate(m.simulate(np.full(12, n // 12), seed=1), simultaneous=True)
    wider = margin * ((together.high - together.low) / 2 / n).mean() / half.mean()
    assert required_n(m, wider, frequency=1 / 12, simultaneous=True, population=None).n == pytest.approx(n, rel=0.05)


def test_tables_for_people_and_programs():
    for table in (
        recommend(16, 1.0, 1000),
        recommend(Interval(0, 9), 1.0, 1000),
        recommend(Prefixes("abc", 6), 2.0, 10**5),
        required_n(None, 0.1, domain=16, epsilon=1.0),
        required_n(PLAN, {"os": 0.1, "minutes": 3.0}),
        required_epsilon(None, 0.1, 10_000, domain=16),
        compare_plans({"os": range(4), "crashed": [False, True]}, 1.0, 1000),
    ):
        lines = repr(table).splitlines()
        assert len(lines) >= 1 + len(table)
        page = table._repr_html_()
        assert page.count("<tr>") == 1 + len(table)
        assert page.startswith("<table>")
        arrow, frame = table.to_arrow(), table.to_polars()
        assert arrow.num_rows == frame.height == len(table)
        assert frame.columns == arrow.column_names == list(table[0].values())


@each("key", sorted(CHOICES))
def test_names_are_those_of_toml_and_of_the_classes(key):
    r = next(r for r in recommend(16, 1.0, 1000) if r.key == key)
    m = r.mechanism(range(16))
    assert m.to_dict()["mechanism"] == m.name == r.name == r.values()["mechanism"]
    assert m.to_dict().get("variant", r.variant) == (r.variant or m.to_dict().get("variant"))
    assert required_n(key, 0.1, domain=16, epsilon=1.0).n == required_n(m, 0.1).n
    if r.variant is None:
        assert required_n(type(m), 0.1, domain=range(16), epsilon=1.0).n == required_n(m, 0.1).n


def test_of_all_choices_the_best_is_first():
    table = required_n(None, 0.01, domain=1000, epsilon=1.0)
    assert len(table) == len(CHOICES)
    assert table.n == table[0].n == min(need.n for need in table)


@cache
def of_minutes():
    return recommend(Interval(0, 60), 1.0, 20_000)


@each("name", ["n_output", "hybrid", "one_bit_mean"])
def test_means(name):
    """The standard error of a mean of so many numbers is the mechanism's in the worst case; people follow from it."""
    (r,) = (r for r in of_minutes() if r.name == name)
    m = r.mechanism()
    assert (m.domain, m.name) == (Interval(0, 60), name)
    n = required_n(name, 3.0, domain=Interval(0, 60), epsilon=1.0).n
    most = min(m.variance(1) + 30**2, (30 * np.ptp(m.value_bounds())) ** 2)  # (half of the reports at each end)
    assert n == required_n(m, 3.0).n == pytest.approx(stats.norm.isf(0.025) ** 2 * most / 9, abs=1)
    noise = required_n(m, 3.0, population=None).n
    assert noise == pytest.approx(stats.norm.isf(0.025) ** 2 * m.variance(1) / 9, abs=1)
    assert r.standard_error == pytest.approx(math.sqrt(m.variance(20_000)))
    assert required_epsilon(name, 3.0, n, domain=Interval(0, 60)).epsilon == pytest.approx(1.0, rel=1e-3)


def test_of_a_trillion_people_a_median_is_a_hundred_times_as_sure_as_of_a_hundred_million():
    """Squares of more than 3e9 people are no int64: the margin of 10^12 was 100 times that of 10^9."""
    of = [recommend(9, 1.0, n, ask="median") for n in (10**8, 10**12)]
    few, many = ({row.key: row.standard_error for row in rows} for rows in of)
    assert many == pytest.approx({key: error / 100 for key, error in few.items()}, rel=0.01)


def test_a_group_is_a_share_of_the_people():
    m = OneBitMean((0, 1), epsilon=1.0)
    assert required_n(m, 0.01, group=0.1).n == pytest.approx(10 * required_n(m, 0.01).n, abs=10)
    assert expected_error(m, 1000, group=0.1) == pytest.approx(expected_error(m, 100))
    assert recommend(16, 1.0, 1000, group=0.5)[0].margin == recommend(16, 1.0, 500)[0].margin
    assert required_epsilon("unary_encoding", 0.05, 20_000, domain=9, group=0.1).epsilon == pytest.approx(
        required_epsilon("unary_encoding", 0.05, 2000, domain=9).epsilon
    )


def test_plans_and_columns_of_which_one_is_answered():
    table = required_n(PLAN, {"os": 0.02, "minutes": 1.0})
    assert [(need.name, need.n) for need in table] == [
        ("os", required_n(PLAN["os"], 0.02).n),
        ("minutes", required_n(PLAN["minutes"], 1.0).n),
    ]
    assert (table.n, table.epsilon) == (max(need.n for need in table), 3.0)
    sampled = SampledColumn(UnaryEncoding(Domain(range(4)), epsilon=1.0), columns=5)
    assert required_n(sampled, 0.02).n > 5 * required_n(sampled.inner, 0.02).n


@pytest.mark.slow
def test_heavy_hitters_are_found_by_so_many_people():
    """A value that a share f of the people has is found in 95 % of searches; with too few people in fewer."""
    m = HeavyHitters(Prefixes("abcd", 6), epsilon=3.0, rows=8, width=512)
    share, found = 0.05, {}
    n = required_n(m, share).n
    others = [a + b + c for a in "abcd" for b in "abcd" for c in "abcd"]
    for scale in (1.0, 0.4):
        people = int(scale * n)
        counts = {"cab": 0} | dict.fromkeys(others, int(people * (1 - share) / 64)) | {"dad": int(share * people)}
        tallies = (m.simulate(counts, seed=seed) for seed in range(30))
        found[scale] = sum("dad" in m.find(tally, 5).values for tally in tallies)
    assert found[1.0] >= 24
    assert found[0.4] < 24
    (r,) = recommend(m.domain, 3.0, n)
    assert r.mechanism().domain == m.domain


def test_the_epsilon_with_which_heavy_hitters_are_found():
    """It was an OverflowError. One report of each person is looked at: more were left out without a word."""
    how = {"domain": Prefixes("abcd", 6)}
    for share, people in ((0.05, 20_000), (0.01, 10**9)):
        epsilon = required_epsilon("heavy_hitters", share, people, **how).epsilon
        assert required_n("heavy_hitters", share, epsilon=epsilon, **how).n <= 1.01 * people
        assert required_n("heavy_hitters", share, epsilon=0.98 * epsilon, **how).n > people
    with pytest.raises(ParameterError, match="one report of each person: leave out repeats"):
        required_n("heavy_hitters", 0.05, epsilon=1.0, repeats=7, **how)


# ---- errors

COMPLETE = {"domain": 16, "epsilon": 1.0}


@each(
    "call",
    [
        lambda: recommend(1, 1.0, 100),
        lambda: recommend(2**31, 1.0, 100),
        lambda: recommend(16, math.nan, 100),
        lambda: recommend(16, 1.0, 10.5),
        lambda: recommend(16, 1.0, 100, frequency=1.1),
        lambda: recommend(16, 1.0, 100, bytes_per_report=0),
        lambda: recommend(16, 1.0, 100)[0].mechanism(range(15)),
        recommend(16, 1.0, 100)[0].mechanism,
        lambda: recommend(16, 1.0, 100, group=0),
        lambda: recommend(Interval(0, 1), 1.0, 100, frequency=0.5),
        lambda: required_n(Hybrid, 1.0, domain=16, epsilon=1.0),
        lambda: required_n(Hybrid, 0, domain=Interval(0, 1), epsilon=1.0),
        lambda: required_n(UnaryEncoding, 0.1, domain=Interval(0, 1), epsilon=1.0),
        lambda: required_n(PLAN, 0.1, epsilon=1.0),
        lambda: required_n(PLAN, {"os": 0.1}),
        lambda: required_n("unary_encoding", {"os": 0.1}, domain=4, epsilon=1.0),
        lambda: required_n("unary encoding, optimized", 0.1, domain=4, epsilon=1.0),
        lambda: required_n(3, 0.01, **COMPLETE),
        lambda: required_n(NAMES["OUE"], 0.01),
        lambda: required_n(NAMES["OUE"], 0.01, epsilon=1.0),
        lambda: required_n(RandomizedResponse(epsilon=1), 0.01, epsilon=1.0),
        lambda: required_n(NAMES["OUE"], "wide", **COMPLETE),
        lambda: required_n(NAMES["OUE"], 0.01, 1.0, **COMPLETE),
        lambda: expected_error(NAMES["OUE"], 0, **COMPLETE),
        lambda: expected_error(NAMES["OUE"], 10, -0.1, **COMPLETE),
        lambda: required_epsilon("olh?", 0.01, 10**6, domain=4),
        lambda: required_epsilon(NAMES["OUE"], 0.01, 0, domain=4),
    ],
)
def test_refused(call):
    with pytest.raises(ParameterError):
        call()


def test_the_first_point_that_suffices_is_found_whatever_the_jumps():
    """Needs that fall, but come back up to three times as high: the first is that of a scan of all points."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        falling = np.cumsum(rng.random(400))[::-1] + 1.0
        needs = np.exp(falling / 20) * rng.uniform(1.0, 3.0, 400)  # so a later one is at most 3 times as high
        wanted = float(needs[rng.integers(400)]) * rng.uniform(0.9, 1.1)
        expected = next((k for k in range(400) if needs[k] <= wanted), None)
        assert required._first(lambda k, t=1.0, n=needs, w=wanted: n[k] <= t * w, 400, 4.0) == expected
    assert required._first(lambda *_: False, 400, 4.0) is None


@pytest.mark.slow
def test_epsilons_are_found_with_few_trials(monkeypatch):
    """A scan of the grid took 26,554 mechanisms."""
    asked, real = [], required.resolve
    monkeypatch.setattr(required, "resolve", lambda *a: (asked.append(a), real(*a))[1])
    found = required_epsilon(None, 0.01, 50_000, domain=16)
    assert len(asked) < 3000
    assert [row.mechanism for row in found][:2] == ["unary_encoding:symmetric", "subset_selection"]


@each(
    ("how", "says"),
    [
        ({}, "one share, whatever it is, of a population"),
        ({"frequency": 0.25}, "that of a value that 25 % of the people has"),
        ({"simultaneous": True}, "the shares of all 16 values at once"),
        ({"beta": 0.01, "group": 0.5}, "with a probability of 99 %"),
        ({"group": 0.5}, "A share of 0.5 of the people is in the group"),
    ],
)
def test_a_need_says_which_question_it_answers(how, says):
    table = required_n("unary_encoding", 0.01, domain=16, epsilon=1.0, **how)
    assert says in table.note
    assert says in " ".join(repr(table).split())
    assert says in table._repr_html_()


@pytest.mark.slow
def test_what_no_epsilon_is_enough_for_is_named():
    table = required_epsilon(None, 0.01, 10_000, domain=1000)
    assert "hadamard_response" not in {row.mechanism for row in table}
    assert [row.epsilon for row in table] == sorted(row.epsilon for row in table)
    assert table.epsilon == table[0].epsilon
    enough = int(re.search(r"hadamard_response needs at least ([\d,]+) people", table.note)[1].replace(",", ""))
    assert required_epsilon("hadamard_response", 0.01, enough, domain=1000).epsilon <= 50
    with pytest.raises(ParameterError, match="no epsilon suffices"):
        required_epsilon("hadamard_response", 0.01, round(0.99 * enough), domain=1000)


def test_all_mechanisms_for_such_values_are_asked_about():
    means = {"n_output", "hybrid", "piecewise", "one_bit_mean"}
    for domain, margin, kinds, words in (
        (Interval(0, 60), 0.5, means, "within the margin"),
        (Prefixes("abc", 4), 0.05, {"heavy_hitters"}, "is found"),
    ):
        found = required_n(None, margin, domain=domain, epsilon=2.0)
        assert {row.mechanism for row in found} == kinds
        assert words in found.note


# ---- which way of sharing is best


def error_of(question, tallier, reports, true):
    """The root mean square of the errors of all cells, of runs whose true counts are an array [runs, ...]."""
    runs = len(true)
    n = len(next(iter(reports))) // runs
    parts = [m.reports.from_arrow(reports[name]) for name, m in tallier.by_column(reports.schema.names[0]).items()]
    counters = tallier.count_reports(tallier.joined(parts), np.repeat(np.arange(runs), n), runs)
    counts = question.rows(tallier, np.full(runs, n), counters)[0]["count"].to_numpy()
    return math.sqrt(((counts - true.reshape(-1)) ** 2).mean()) / n


@pytest.mark.slow
def test_the_comparison_agrees_with_the_reports():
    columns, n, runs = {"x": range(4), "y": range(12), "z": [False, True]}, 500, 400
    rng, found = np.random.default_rng(2), {}
    values = {name: rng.permutation(np.arange(n * runs) % len(domain)) for name, domain in columns.items()}
    records = pa.record_batch({**values, "z": values["z"].astype(bool)})

    def true(*chosen):
        shape = [runs, *(len(columns[name]) for name in chosen)]
        at = np.ravel_multi_index([np.repeat(np.arange(runs), n), *(values[name] for name in chosen)], shape)
        return np.bincount(at, minlength=math.prod(shape)).reshape(shape)

    for sharing in compare(columns, 1.0, n):
        reports = sharing.plan.seeded(3).perturb(records, id=np.arange(n * runs))
        alone, errors = margins(sharing.plan.columns), []
        for name in columns:
            if alone:
                errors.append(error_of(MarginEstimate(), alone[name], reports, true(name)))
            else:
                errors.append(error_of(HistogramEstimate(), sharing.plan[name], reports.select([name]), true(name)))
            assert sharing.standard_errors[name] == pytest.approx(errors[-1], rel=0.1)
        found[sharing.way] = math.sqrt(sum(e**2 for e in errors) / 3)
        for both, expected in sharing.table_errors.items():
            made = error_of(TableEstimate(), joint_of(sharing.plan.columns, both), reports, true(*both))
            assert expected == pytest.approx(made, rel=0.1)
        assert len(sharing.table_errors) == (3 if sharing.way in ("split", "pairs") else 0)
    assert list(found) == sorted(found, key=found.get)
    assert next(iter(found)) == "sampled"
    ways = {s.way: s for s in compare({"x": AB, "y": AB}, 5.0, 1000)}
    assert list(ways) == ["pairs", "split", "sampled", "fake"]
    assert ways["split"].values()["table_cell"] > ways["pairs"].values()["table_cell"]
    found = compare({"x": AB, "y": AB}, 5.0, 1000)
    assert "no table" in repr(found)
    assert found.note.endswith(f"take {found[0].way}, for tables of two columns pairs.")
    assert compare({"x": Interval(0, 1), "y": Interval(0, 1)}, 5.0, 1000).note.endswith(" at a time take split.")


# ---- changes


def test_no_more_people_than_there_are():
    """Mechanisms that need more were the error of all others, or, of a question, people that nobody has.

    Of a range of Warner's randomized response n is the variance of noise, and of a sample, by the square of
    margin / 1.96. If all people report, there is noise alone.
    """
    share, range_ = {"margin": 0.01, "epsilon": 1.0}, {"ask": "range:values=[1]"}
    minutes = (Interval(0, 60), {"margin": 0.5}, 68_000)
    for domain, how, whom in ((16, {}, 300_000), minutes, (16, {"ask": "range:low=4,high=7"}, 200_000)):
        asked = {"domain": domain, **share, **how}
        found = required_n(**asked, population=whom)
        every = {row.mechanism: row.n for row in required_n(**asked, population=None)}
        left = every.keys() - {row.mechanism for row in found}
        assert 0 < len(left) < len(every)
        assert max(row.n for row in found) <= whom
        assert all(name in found.note for name in left)
        for name in left:
            with pytest.raises(ParameterError, match="all there are"):
                required_n(name, **asked, population=whom)
    noise, z = 1 / (math.exp(0.5) - math.exp(-0.5)) ** 2, stats.norm.ppf(0.975)
    alone, many = (z**2 * v / 0.01**2 for v in (noise, noise + 0.25))
    one = {"mechanism": "randomized_response", "domain": 2, **share, **range_}
    for whom, n in ((10**6, many), (int(1.1 * alone), 1.1 * alone), (int(1.01 * alone), 1.01 * alone)):
        assert required_n(**one, population=whom).n == pytest.approx(n, rel=2e-3)
    for asked in (one, {**one, "ask": "distribution", "mechanism": "stochastic_rounding", "domain": Interval(0, 60)}):
        with pytest.raises(ParameterError, match="all there are"):
            required_n(**asked, population=int(0.99 * alone))


def test_people_for_a_change_by_hand():
    """J. L. Fleiss' formula with the variance of Warner's randomized response; the wrong number has half the power."""
    share = {"domain": 2, "epsilon": 1.0}
    odds = math.exp(0.5) - math.exp(-0.5)
    noise = 1 / odds**2  # p (1 - p) / (2 p - 1)^2
    z, y = stats.norm.ppf([0.975, 0.8])
    for population, sampled, n in ((None, 0, 144_600), ("many", 1, 152_683)):  # (1,446 of these people change)
        v = [noise + sampled * f * (1 - f) for f in (0.05, 0.055, 0.06)]
        expected = ((z * math.sqrt(2 * v[1]) + y * math.sqrt(v[0] + v[2])) / 0.01) ** 2
        need = required_n("randomized_response", change=0.01, base=0.05, population=population, **share).n
        assert need == n == (math.ceil(expected) if sampled else 100 * math.ceil(expected / 100))
    # what people take who plan for the margin of one share: 1.96^2 noise / 0.01^2
    margin = z**2 * noise / 0.01**2
    assert math.ceil(margin) == 35_368
    assert stats.norm.sf(z - 0.01 / math.sqrt(2 * noise / margin)) == pytest.approx(0.283, abs=0.001)
    mean = required_n("hybrid", change=0.5, domain=Interval(0, 60), epsilon=1.0, power=0.9).n
    variance = Hybrid((0, 60), epsilon=1.0).variance(1) + 60**2 / 4
    assert mean == math.ceil(2 * variance * (z + stats.norm.ppf(0.9)) ** 2 / 0.5**2)
    more = required_n("unary_encoding", change=0.01, base=0.05, domain=10, epsilon=1.0, simultaneous=True).n
    assert more == required_n("unary_encoding", None, 0.005, change=0.01, base=0.05, domain=10, epsilon=1.0).n
    found = required_epsilon("randomized_response", n=152_683, change=0.01, base=0.05, domain=2).epsilon
    assert found == pytest.approx(1, abs=1e-5)


def test_the_power_is_the_planned_one():
    """Of 4,000: 80 % within 4 standard errors of 0.63 % (1 of 15,000 seeds fails); at 35,368 people it is 27 %."""
    m, generator = RandomizedResponse(epsilon=1.0), np.random.default_rng(1)

    def power(n):
        lam = m.q + (m.p - m.q) * np.array([0.05, 0.06])
        yes = generator.binomial(n, lam, size=(4000, 2))
        table, _ = Compare().rows(m, np.full((4000, 2), n), np.stack([n - yes, yes], axis=2))
        return (table["p_value"].to_numpy()[1::2] < 0.05).mean()

    assert power(required_n(m, change=0.01, base=0.05).n) == pytest.approx(0.8, abs=0.025)
    assert power(35_368) < 0.3


@each(
    "how",
    [
        {"change": 0.01},
        {"change": 0.01, "base": 0.995},
        {"change": -0.01, "base": 0.5},
        {"base": 0.5},
        {"change": 0.01, "base": 0.05, "margin": 0.01},
        {"change": 0.01, "base": 0.05, "power": 1.0},
        {"change": 0.01, "base": 0.05, "frequency": 0.1},
        {"change": 0.01, "base": 0.05, "domain": Interval(0, 1), "mechanism": "hybrid"},
        {"change": 0.01, "domain": Prefixes("ab", 4), "mechanism": "heavy_hitters"},
        {"change": 0.01, "base": 0.05, "mechanism": PLAN, "domain": None, "epsilon": None},
    ],
)
def test_changes_that_are_refused(how):
    with pytest.raises(ParameterError):
        required_n(**{"mechanism": "unary_encoding", "domain": 4, "epsilon": 1.0, **how})


@pytest.mark.parametrize("margin", [1e-9, 1e-16])
def test_margins_that_nobody_reaches_have_an_answer(margin):
    """Of so many people a sum is normal, and the tail of a bound has more digits than doubles have."""
    oracle = SubsetSelection(range(16), epsilon=0.001)
    p, q, share = oracle.p, oracle.q, np.linspace(0, 1, 100_001)
    variance = (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2 + share * (1 - share)
    n = required_n("subset_selection", margin, domain=16, epsilon=0.001).n
    assert n == pytest.approx((stats.norm.ppf(0.975) / margin) ** 2 * variance.max(), rel=1e-7)
    with pytest.raises(ParameterError, match="people"):
        required_n("subset_selection", margin, domain=16, epsilon=0.001, population=10**6)
