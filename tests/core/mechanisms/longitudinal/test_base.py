"""Longitudinal mechanisms: each round and the chain over every outcome; what thousands of reports of one person say."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import (
    DBitFlip,
    DomainError,
    Keyed,
    Mechanism,
    ParameterError,
    ReportError,
    Secret,
    UnaryEncoding,
)

from ....cases import each
from ...checks import exact_exp, exact_ln
from ...enumeration import Branching, n_codes, worst_ratio
from ..oracles.helpers import check_runs, runs_of
from .helpers import (
    MANY,
    SAMPLED,
    VARIANTS,
    check_permanents,
    distribution,
    flip,
    grr,
    loloha,
    second_round,
    ue,
)

CHAINS = {
    "grr d=2": grr(2),
    "grr d=3": grr(3),
    "grr d=4 weak": grr(4, 6.0, 0.1),
    "grr other": grr(2, 3.0, 2.9, "other"),
    **{f"{v} d=2": ue(2, v, 2.0, 0.5) for v in VARIANTS},
    "OSUE d=3 none": ue(3, "OSUE", 4.0, 2.0, "none"),
    "SOUE d=3": ue(3, "SOUE", 1.0, 0.2),
    "SUE other": ue(2, "SUE", 1.0, 0.999, "other"),
}


@each("name", CHAINS)
def test_both_rounds_over_all_outcomes(name):
    m = CHAINS[name]
    seen = m.domain.size
    reports = [distribution(m.perturb_codes, code, seen) for code in n_codes(m)]
    permanent = [distribution(m.permanent.perturb_codes, code, seen) for code in n_codes(m)]
    assert worst_ratio(reports) == m.worst_ratio() <= exact_exp(m.epsilon_1)
    assert worst_ratio(permanent) == m.permanent_ratio() <= exact_exp(m.epsilon_infinity)
    p, q = m.support_probabilities()
    for code, table in enumerate(reports):
        for v in range(m.domain.size):
            supports = [v == r[0] if name.startswith("grr") else bool(r[0] >> v & 1) for r in table]
            assert sum(itertools.compress(table.values(), supports)) == (p[v] if v == code else q[v])


@each("name", ["grr d=3", "OSUE d=2", "OUE d=2"])
def test_any_number_of_reports_spends_at_most_epsilon_infinity(name):
    """Joint probabilities of several reports of one value: ratios grow with them, up to the permanent answer's."""
    m = CHAINS[name]
    seen = m.domain.size
    permanent = [distribution(m.permanent.perturb_codes, code, seen) for code in n_codes(m)]
    answers = sorted(permanent[0])
    channel = {answer: second_round(m, answer, Branching(seen)) for answer in answers}
    found = []
    for k in (1, 2, 4, 8, 32):
        joint = [
            {o: sum(a[s] * math.prod([channel[s][y] for y in o]) for s in answers) for o in sequences(answers, k)}
            for a in permanent
        ]
        found.append(worst_ratio(joint))
    assert found[0] == m.worst_ratio()
    assert found == sorted(found)
    assert found[-1] <= m.permanent_ratio() <= exact_exp(m.epsilon_infinity)
    assert float(found[-1]) > 0.9 * float(m.permanent_ratio())


def sequences(answers, k):
    """All of them; of long ones those with the largest ratios, k times the same report."""
    return list(itertools.product(answers, repeat=k)) if k <= 2 else [(y,) * k for y in answers]


ratios = st.floats(1e-6, 1 - 1e-6)


def most_of_optimized(kind, infinity) -> float:
    """What a report spends if the second round leaves 0s as they are and keeps 1s with 1/2."""
    first = UnaryEncoding([0, 1], epsilon=infinity, variant="optimized" if kind == "OUE" else "symmetric")
    p, q = first.p / 2, first.q / 2
    return math.log(p * (1 - q) / ((1 - p) * q))


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 12), ratios, st.integers(2, 500), st.sampled_from(["grr", "loloha", *VARIANTS]))
def test_epsilons_are_never_above_those_asked_for(infinity, ratio, d, kind):
    one = infinity * ratio
    make = {"grr": grr, "loloha": lambda d, i, o: loloha(d, 7, i, o)}.get(kind, lambda d, i, o: ue(d, kind, i, o))
    if kind in ("OUE", "SOUE") and one >= most_of_optimized(kind, infinity):
        with pytest.raises(ParameterError, match="no second round spends more"):
            make(d, infinity, one)
        return
    m = make(d, infinity, one)
    assert m.worst_ratio() <= exact_exp(one)
    assert m.permanent_ratio() <= exact_exp(infinity)
    assert exact_ln(m.worst_ratio()) >= Decimal(one) * (1 - Decimal("1e-6"))
    assert m.permanent_ratio() > m.worst_ratio()


@each("name", MANY)
def test_reports_of_one_person_converge_to_the_permanent_answer(name):
    check_permanents(MANY[name])


@each("name", SAMPLED)
def test_estimates_are_unbiased_and_have_the_variance_of_the_formula(name):
    check_runs(SAMPLED[name], runs_of(SAMPLED[name]))


# ---- keyed noise

ALL = {**SAMPLED, "wide": ue(200, "OSUE", 3.0, 1.0), "many buckets": flip(40_000, 2)}


def reports_of(m, secret, n=400, column="c"):
    codes = np.arange(n) % m.domain.size
    labels = m.domain.arrow_values.take(pa.array(codes))
    if m.domain.unmatched == "other":
        labels = pa.array([None if c == m.domain.size - 1 else int(c) for c in codes], pa.int64())
    return m.perturb(labels, randomness=Keyed(secret, np.arange(n) // 2, column=column))


@each("name", ALL)
def test_what_keyed_noise_repeats(name):
    m, secret = ALL[name], Secret.generate()
    once, again = reports_of(m, secret), reports_of(m, secret)
    assert once.equals(again) == isinstance(m, DBitFlip)  # which alone has no second round
    assert not once.equals(reports_of(m, Secret.generate()))
    assert not reports_of(m, secret, column="other").equals(once)
    seeded = Secret.from_seed(3)
    assert reports_of(m, seeded).equals(reports_of(m, seeded))


# ---- tallies, wire, value objects


def test_errors_name_the_permitted_interval():
    with pytest.raises(ParameterError, match=r"\(0, epsilon_infinity = 2.0\)"):
        grr(3, 2.0, 3.0)
    with pytest.raises(ParameterError, match=r"\(0, 1\.3"):
        ue(3, "SOUE", 2.0, 1.5)
    with pytest.raises(ParameterError, match=r"\[1, 3\]"):
        flip(3, 4)
    with pytest.raises(DomainError):
        grr(3, unmatched="none")
    for make in (
        lambda: ue(3, "OUE", 2.0, 1.9),
        lambda: ue(3, "OSUE", 1.0, 1e-17),
        lambda: loloha(3, 2, 1.0, 1.0),
        lambda: flip(3, 2, 1e-25),
        lambda: Mechanism.from_dict({"mechanism": "loloha", "domain": [1, 2], "epsilon_infinity": 1}),
    ):
        with pytest.raises(ParameterError):
            make()


def test_what_is_no_report():
    m = loloha(9, 3)
    with pytest.raises(ReportError, match="1 of 2 reports"):
        m.tally(np.array([0, 3 << 48], np.uint64))
    m = flip(9, 2)
    for bad in ([2, 3], [2, 18], [17, 16]):
        with pytest.raises(ReportError, match="1 of 2 reports are not of 2 different buckets"):
            m.tally(np.array([[0, 17], bad], np.uint16))
