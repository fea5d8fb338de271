"""Recommendations against the mechanisms themselves, simulation, exact distributions and other people's numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, stats

from ldp_core import (
    ParameterError,
    RandomizedResponse,
    UnaryEncoding,
    expected_error,
    recommend,
    required_epsilon,
    required_n,
)
from ldp_core.mechanisms.catalogue import CHOICES, Choice
from ldp_core.plans import recommend as module
from ldp_core.plans.recommend import HEADER

from ..acceptance import ACCEPTANCE
from ..checks import FALSE_ALARM
from .helpers import NAMES, close, epsilons, exactly, fails, mechanism, names, only, precision, sizes

# ---- other people's numbers


@pytest.mark.parametrize("row", ACCEPTANCE["n_var"], ids=lambda row: str(row["epsilon"]))
def test_published_variances(row):
    """n Var at f = 0 of Wang et al. 2017; with n = 10,000 what its Figure 1 plots."""
    for short, name in NAMES.items():
        table = row[short] if short == "GRR" else {"2": row[short], "2048": row[short]}
        for d, n_var in table.items():
            error = expected_error(name, 10_000, 0, domain_size=int(d), epsilon=row["epsilon"])
            assert error**2 * 10_000 == exactly(n_var)


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 3, 4])
def test_the_adaptive_rule(epsilon):
    """GRR has the smaller variance at f = 0 if and only if d < 3 e^epsilon + 2."""
    for d in range(2, 300):
        errors = {r.choice.name: r.standard_error for r in recommend(d, epsilon, 1000, frequency=0)}
        assert (errors[NAMES["GRR"]] < errors[NAMES["OUE"]]) == (d < 3 * math.exp(epsilon) + 2)


@given(names, sizes, epsilons, st.integers(1, 10**9), st.floats(0, 1))
def test_errors_and_margins_are_the_mechanisms(name, d, epsilon, n, f):
    m = mechanism(name, d, epsilon)
    (r,) = (r for r in recommend(d, epsilon, n, frequency=f) if r.choice.name == name)
    assert r.standard_error == close(math.sqrt(m.variance(n, f * n)) / n, rel=precision(name))
    assert r.standard_error == close(expected_error(m, n, f), rel=precision(name))
    assert r.margin == close(m.accuracy(n, 0.05), rel=precision(name))
    typical = expected_error(name, n, domain_size=d, epsilon=epsilon)
    assert typical == close(math.sqrt(m.variance(n, n / d)) / n, rel=precision(name))
    assert r.mechanism(range(d)) == m


@given(names, sizes, epsilons, st.floats(1e-4, 0.5), st.floats(1e-6, 0.5))
def test_required_n_is_the_inverse_of_accuracy(name, d, epsilon, margin, beta):
    m = mechanism(name, d, epsilon)
    n = required_n(m, margin, beta)
    assert m.accuracy(n, beta) <= margin * (1 + 1e-9)
    assert n == 1 or m.accuracy(n - 1, beta) > margin * (1 - 1e-9)
    of_kind = required_n(name, margin, beta, domain_size=d, epsilon=epsilon)
    assert of_kind == close(n, rel=precision(name), abs=1)


@settings(max_examples=25)
@given(
    names,
    sizes,
    st.floats(0.05, 5),
    st.floats(1e-3, 0.3),
    st.floats(1e-6, 0.5),
    st.sampled_from(["hoeffding", "normal"]),
)
def test_required_epsilon_is_the_inverse_of_required_n(name, d, epsilon, margin, beta, bound):
    n = required_n(name, margin, beta, domain_size=d, epsilon=epsilon, bound=bound)
    if n < 1000:  # n is an integer: many epsilons have it
        return
    found = required_epsilon(name, margin, n, beta, domain_size=d, bound=bound)
    assert required_n(name, margin, beta, domain_size=d, epsilon=found, bound=bound) <= n
    assert required_n(name, margin, beta, domain_size=d, epsilon=0.99 * found, bound=bound) > n
    if name in NAMES.values():  # the others may have integer parameters, and an error that jumps
        assert found <= epsilon * (1 + 1e-9)
    if bound == "hoeffding":
        assert mechanism(name, d, found).accuracy(n, beta) <= margin * (1 + precision(name))


@pytest.mark.parametrize(("n", "margin"), [(10_000, 0.1), (10**6, 0.01), (10**8, 0.0005)])
def test_required_epsilon_is_the_closed_form(n, margin):
    """p - q = delta solved for epsilon by hand."""
    delta = math.sqrt(math.log(2 / 0.05) / (2 * n)) / margin
    assert delta < 0.5
    by_hand = {
        "GRR": math.log((1 + 15 * delta) / (1 - delta)),
        "SUE": 2 * math.log((1 + delta) / (1 - delta)),
        "OUE": math.log((0.5 + delta) / (0.5 - delta)),
    }
    for short, expected in by_hand.items():
        assert required_epsilon(NAMES[short], margin, n, domain_size=16) == exactly(expected)


# ---- simulation and exact distributions


@pytest.mark.parametrize("f", [0, 0.3])
@pytest.mark.parametrize("name", sorted(CHOICES))
def test_the_expected_error_is_that_of_perturbed_records(name, f):
    """The squared errors of 3000 piles of 500 records; nearly normal, so nearly a chi-square."""
    check_error(name, f, expected_error(name, 500, f, domain_size=8, epsilon=1.0))


def check_error(name, f, claimed):
    m, n, piles = mechanism(name, 8, 1.0), 500, 3000
    true = round(f * n)
    codes = np.zeros((piles, n), np.uint8)
    codes[:, :true] = 1
    native = m.reports.from_arrow(m.perturb(m.domain.decode(codes.reshape(-1))))
    support = m.count_reports(native, np.repeat(np.arange(piles), n), piles)
    errors = m.debias(n, support)[0][:, 1] / n - f
    ratio = np.mean(errors**2) / claimed**2
    # the variance of a square is 2 if normal; a tenth more for what is not
    assert abs(ratio - 1) <= stats.norm.isf(FALSE_ALARM / 2) * math.sqrt(2.2 / piles)


def miss_probability(p, q, n, f, margin):
    """Pr[|estimate - f| > margin], from the exact distribution of the support count."""
    true = round(f * n)
    probability = signal.fftconvolve(
        stats.binom.pmf(np.arange(true + 1), true, p), stats.binom.pmf(np.arange(n - true + 1), n - true, q)
    )
    error = (np.arange(n + 1) - n * q) / (p - q) / n - true / n
    return float(probability[np.abs(error) > margin * (1 + 1e-12)].sum())


@pytest.mark.parametrize("beta", [0.05, 0.01])
@pytest.mark.parametrize("name", sorted(CHOICES))
def test_that_many_reports_keep_the_margin(name, beta):
    d, epsilon, margin = 16, 1.0, 0.05
    p, q = CHOICES[name].probabilities(d, epsilon)
    arguments = {"domain_size": d, "epsilon": epsilon}
    for f in (1 / d, 0, 0.3):
        n = required_n(name, margin, beta, **arguments)
        assert miss_probability(p, q, n, f, margin) <= beta
        n = required_n(name, margin, beta, **arguments, bound="normal", frequency=f)
        assert 0.9 * beta <= miss_probability(p, q, n, f, margin) <= 1.1 * beta
    assert required_n(name, margin, beta, **arguments, bound="normal") < required_n(name, margin, beta, **arguments)


# ---- the table


def test_in_order_and_complete():
    for d in (2, 3, 16, 1000, 10**6):
        for epsilon in (0.1, 1.0, 5.0):
            made = recommend(d, epsilon, 10_000)
            assert {r.choice.name for r in made} == set(CHOICES)
            rounded = [float(f"{r.standard_error:.1e}") for r in made]
            assert rounded == sorted(rounded)
    assert recommend(2, 1.0, 100)[0].choice.name == NAMES["GRR"]
    assert recommend(3, 5.0, 100)[0].choice.name == NAMES["GRR"]


def test_known_order_without_other_mechanisms(monkeypatch):
    only(monkeypatch, *NAMES.values())
    assert [r.choice.name for r in recommend(1000, 1.0, 100)] == [NAMES["OUE"], NAMES["SUE"], NAMES["GRR"]]
    assert [r.choice.name for r in recommend(1000, 1.0, 100, bytes_per_report=2)] == [NAMES["GRR"]]
    with pytest.raises(ParameterError, match="at least 2"):
        recommend(1000, 1.0, 100, bytes_per_report=1)


def test_rows_are_aligned():
    for r in recommend(10**6, 1.0, 10**6):
        assert len(str(r)) == len(HEADER)
    shown = "\n".join([HEADER, *map(str, recommend(16, 1.0, 10_000))])
    ends = {len(line.rstrip()) for line in shown.splitlines()}
    assert len(ends) == 1


def joins(monkeypatch, choice):
    monkeypatch.setitem(module.CHOICES, choice.name, choice)


def test_another_mechanism_joins(monkeypatch):
    """Hadamard response (p = e / (1 + e), q = 1 / 2): its published n Var, its place in the table."""
    only(monkeypatch, *NAMES.values())

    def hadamard(d, epsilon):
        return 1 / (1 + math.exp(-epsilon)), 0.5

    def make(domain, epsilon):
        return UnaryEncoding.from_probabilities(domain, p=hadamard(2, epsilon)[0], q=0.5)

    joins(monkeypatch, Choice("a one-word mechanism", hadamard, lambda d, e: 8, lambda d, e: 1, make))
    published = {0.5: 16.67079235613105, 1.0: 4.682694376831169, 2.0: 1.7240616609663106}
    for epsilon, n_var in published.items():
        error = expected_error("a one-word mechanism", 1, 0, domain_size=128, epsilon=epsilon)
        assert error**2 == exactly(n_var)
    order = [r.choice.name for r in recommend(1024, 1.0, 1000)]
    assert order == [NAMES["OUE"], NAMES["SUE"], "a one-word mechanism", NAMES["GRR"]]


def test_the_smaller_report_wins_where_the_error_is_the_same(monkeypatch):
    """OLH with g = 4 has n Var 3.69165 where OUE has 3.68269."""
    only(monkeypatch, NAMES["OUE"])

    def hashing(d, epsilon):
        g = round(math.exp(epsilon)) + 1
        return math.exp(epsilon) / (math.exp(epsilon) + g - 1), 1 / g

    joins(monkeypatch, Choice("local", hashing, lambda d, e: 8, lambda d, e: d, CHOICES[NAMES["OUE"]].make))
    error = expected_error("local", 1, 0, domain_size=128, epsilon=1.0)
    assert error**2 == exactly(3.6916546174566887)
    assert recommend(128, 1.0, 1000)[0].choice.name == "local"  # 8 bytes instead of 16
    assert recommend(32, 1.0, 1000)[0].choice.name == NAMES["OUE"]  # 4 bytes


def test_a_variance_without_the_frequency(monkeypatch):
    """The fault of a peer: the variance at f = 0 for every f."""
    real = module._n_variance
    monkeypatch.setattr(module, "_n_variance", lambda p, q, f: real(p, q, 0))
    fails(test_errors_and_margins_are_the_mechanisms)
    fails(test_the_expected_error_is_that_of_perturbed_records, NAMES["GRR"], 0.3)
    fails(test_that_many_reports_keep_the_margin, NAMES["GRR"], 0.05)


def test_a_simulated_error_that_is_a_fifth_off():
    claimed = expected_error(NAMES["OUE"], 500, 0.3, domain_size=8, epsilon=1.0)
    fails(check_error, NAMES["OUE"], 0.3, 1.2 * claimed)
    fails(check_error, NAMES["OUE"], 0.3, claimed / 1.2)


def test_one_sided_hoeffding(monkeypatch):
    monkeypatch.setattr(module, "_hoeffding", lambda beta: math.sqrt(math.log(1 / beta) / 2))
    fails(test_required_n_is_the_inverse_of_accuracy)
    fails(test_required_epsilon_is_the_closed_form, 10_000, 0.1)


# ---- errors

COMPLETE = {"domain_size": 16, "epsilon": 1.0}


@pytest.mark.parametrize(
    "call",
    [
        lambda: recommend(1, 1.0, 100),
        lambda: recommend(2.0, 1.0, 100),
        lambda: recommend(True, 1.0, 100),
        lambda: recommend(2**31, 1.0, 100),
        lambda: recommend(16, 0, 100),
        lambda: recommend(16, math.nan, 100),
        lambda: recommend(16, 1.0, 0),
        lambda: recommend(16, 1.0, 10.5),
        lambda: recommend(16, 1.0, 100, frequency=1.1),
        lambda: recommend(16, 1.0, 100, frequency=math.nan),
        lambda: recommend(16, 1.0, 100, bytes_per_report=0),
        lambda: recommend(16, 1.0, 100)[0].mechanism(range(15)),
        lambda: required_n("olh?", 0.01, **COMPLETE),
        lambda: required_n(3, 0.01, **COMPLETE),
        lambda: required_n(NAMES["OUE"], 0.01),
        lambda: required_n(NAMES["OUE"], 0.01, epsilon=1.0),
        lambda: required_n(RandomizedResponse(epsilon=1), 0.01, epsilon=1.0),
        lambda: required_n(NAMES["OUE"], 0, **COMPLETE),
        lambda: required_n(NAMES["OUE"], "wide", **COMPLETE),
        lambda: required_n(NAMES["OUE"], 0.01, 1.0, **COMPLETE),
        lambda: required_n(NAMES["OUE"], 0.01, **COMPLETE, bound="exact"),
        lambda: expected_error(NAMES["OUE"], 0, **COMPLETE),
        lambda: expected_error(NAMES["OUE"], 10, -0.1, **COMPLETE),
        lambda: required_epsilon("olh?", 0.01, 10**6, domain_size=4),
        lambda: required_epsilon(NAMES["OUE"], 0.01, 0, domain_size=4),
    ],
)
def test_refused(call):
    with pytest.raises(ParameterError):
        call()


def test_an_impossible_margin_says_how_many_reports_it_takes():
    with pytest.raises(ParameterError, match="73,778"):  # p - q < 1 / 2: 4 ln(2 / 0.05) / (2 margin^2) reports
        required_epsilon(NAMES["OUE"], 0.01, 10_000, domain_size=4)
    assert math.ceil(2 * math.log(40) / 0.01**2) == 73_778
