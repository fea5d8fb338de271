"""Longitudinal mechanisms: each round and the chain over every outcome; what thousands of reports of one person say."""

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
    Domain,
    DomainError,
    Keyed,
    LongitudinalUnaryEncoding,
    ParameterError,
    ReportError,
    Secret,
    UnaryEncoding,
)
from ldp_core.exact import bits

from ....cases import each
from ...checks import check_binomial, exact_exp, exact_ln
from ...enumeration import Branching, n_codes, worst_ratio
from ..oracles.helpers import check_runs, runs_of
from .helpers import (
    MANY,
    SAMPLED,
    TIMES,
    VARIANTS,
    check_permanents,
    collected,
    distribution,
    flip,
    grr,
    loloha,
    paper_p2,
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
    with pytest.raises(ParameterError, match="got ndarray"):
        loloha(3, np.array([2, 3]))
    with pytest.raises(DomainError):
        grr(3, unmatched="none")


def test_what_is_no_report():
    m = loloha(9, 3)
    with pytest.raises(ReportError, match="1 of 2 reports"):
        m.tally(np.array([0, 3 << 48], np.uint64))
    m = flip(9, 2)
    for bad in ([2, 3], [2, 18], [17, 16]):
        with pytest.raises(ReportError, match="1 of 2 reports are not of 2 different buckets"):
            m.tally(np.array([[0, 17], bad], np.uint16))


@each(("infinity", "one"), [(2.0, 1.0), (4.0, 1.0), (1.0, 0.5)])
def test_randomized_response_of_two_values_is_the_papers(infinity, one):
    m = grr(2, infinity, one)
    assert m.instantaneous.p == pytest.approx(paper_p2(infinity, one, 2), rel=1e-12)
    assert loloha(9, "binary", infinity, one)._rounds.instantaneous.p == m.instantaneous.p


@each("d", [2, 3, 16, 300])
@each(("infinity", "one"), [(2.0, 1.0), (1.0, 0.5)])
def test_the_chain_of_randomized_responses_is_one(d, infinity, one):
    """Kairouz et al. 2016: p = e / (e + d - 1), with e = exp(epsilon_1); the paper's second round spends less."""
    m, e = grr(d, infinity, one), math.exp(one)
    assert (m.p, m.q) == pytest.approx((e / (e + d - 1), 1 / (e + d - 1)), rel=1e-12)
    p1, q1 = m.permanent.p, m.permanent.q
    p2 = paper_p2(infinity, one, d)
    q2 = (1 - p2) / (d - 1)
    spent = math.log((p1 * p2 + (1 - p1) * q2) / (q1 * p2 + (1 - q1) * q2))
    assert spent < one - 1e-3 if d > 2 else spent == pytest.approx(one)


# acceptance.json, "longitudinal", "L_OSUE": epsilon_infinity, epsilon_1, q1, p2, p and q of the chain, n Var at f = 0
OSUE = [
    (2.0, 1.0, 0.11920292202211755, 0.8033880667585181, 0.5, 0.2689414213699951, 3.6826943768311686),
    (4.0, 1.0, 0.01798620996209156, 0.7396804649632878, 0.5, 0.2689414213699951, 3.6826943768311686),
    (1.0, 0.5, 0.2689414213699951, 0.7649962877984056, 0.5, 0.3775406687981454, 15.670792356131049),
]


@each(("infinity", "one", "q1", "p2", "p", "q", "n_var"), OSUE)
def test_known_answers_of_osue(infinity, one, q1, p2, p, q, n_var):
    m = ue(16, "OSUE", infinity, one)
    found = m.permanent.p, m.permanent.q, m.instantaneous.p, m.instantaneous.q, m.p, m.q, m.variance(1)
    assert found == pytest.approx((0.5, q1, p2, 1 - p2, p, q, n_var), rel=1e-12)
    assert m.realized_epsilon == pytest.approx(one, rel=1e-12)
    assert m.realized_epsilon_infinity == pytest.approx(infinity, rel=1e-12)
    assert (m.epsilon, m.epsilon_1, m.epsilon_infinity, m.permanent_answers) == (one, one, infinity, 16)


@each(("f", "n_var", "peers"), [(0.8, 4.4826943768311684, 3.683), (0.3, 3.9826943768311684, 3.683)])
def test_variance_where_the_peers_formula_is_wrong(f, n_var, peers):
    """acceptance.json, "variance_for_positive_f"."""
    m = ue(4)
    assert m.variance(1, f) == pytest.approx(n_var, rel=1e-12)
    p1, q1, p2, q2 = m.permanent.p, m.permanent.q, m.instantaneous.p, m.instantaneous.q
    sigma = f * (2 * p1 * p2 - 2 * p1 * q2 + 2 * q2 - 1) + p2 * q1 + q2 * (1 - q1)
    assert sigma * (1 - sigma) / ((p1 - q1) * (p2 - q2)) ** 2 == pytest.approx(peers, abs=5e-4)


# multi-freq-ldpy 0.2.5, its formulas evaluated: epsilon_infinity, epsilon_1, p2, q2, n Var of the chain at f = 0
PEERS = [
    ("SUE", 2.0, 0.5, 0.6345470513461454, 0.3654529486538546, 15.916926438869076),
    ("SUE", 4.0, 1.0, 0.6607934229066844, 0.3392065770933156, 3.917698089032758),
    ("SUE", 3.0, 1.0, 0.6928041142815015, 0.30719588571849854, 3.917698089032773),
    ("OUE", 2.0, 0.5, 0.5, 0.22214827508718146, 16.981815350033244),
    ("OUE", 4.0, 1.0, 0.5, 0.14158355547029472, 4.225513799836423),
    ("OUE", 3.0, 1.0, 0.5, 0.12571569039436212, 4.28264469492775),
    ("SOUE", 2.0, 0.5, 0.5, 0.24821566650673338, 15.963587100621972),
    ("SOUE", 4.0, 1.0, 0.5, 0.20751219154083256, 3.700688548824478),
    ("SOUE", 3.0, 1.0, 0.5, 0.16113498302341814, 3.739860677815218),
    ("OSUE", 2.0, 0.5, 0.6607934229066843, 0.3392065770933157, 15.670792356131049),
]


@each(("variant", "infinity", "one", "p2", "q2", "n_var"), PEERS)
def test_second_rounds_are_those_of_the_peers(variant, infinity, one, p2, q2, n_var):
    m = ue(4, variant, infinity, one)
    assert (m.instantaneous.p, m.instantaneous.q, m.variance(1)) == pytest.approx((p2, q2, n_var), rel=1e-10)


class Redrawn(LongitudinalUnaryEncoding):
    """The fault of multi-freq-ldpy: the permanent round is drawn again each time."""

    def perturb_codes(self, codes, noise):
        return super().perturb_codes(codes, noise.instantaneous())


@each("variant", VARIANTS)
def test_a_permanent_round_that_is_redrawn_is_found(variant):
    domain = Domain(range(12))
    m = Redrawn(domain, epsilon_infinity=2.0, epsilon_1=0.5, variant=variant)
    with pytest.raises(AssertionError, match="probability"):
        check_permanents(m)
    # and then the value is there for everyone to read
    for value in range(12):
        ones = bits.column_sums(collected(m, value, Secret.generate()), 12)
        assert ones.argmax() == value
        check_binomial(ones, TIMES, np.where(np.arange(12) == value, m.p, m.q))
