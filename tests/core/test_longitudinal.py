"""Longitudinal mechanisms: each round and the chain over every outcome; what thousands of reports of one person say."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import (
    Domain,
    DomainError,
    Keyed,
    Mechanism,
    MechanismMismatchError,
    ParameterError,
    RandomizedResponse,
    ReportError,
    Secret,
    Tally,
    UnaryEncoding,
)
from ldp_core.exact import bits
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.longitudinal._base import (
    Longitudinal,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
)
from ldp_core.mechanisms.longitudinal.d_bit_flip import DBitFlip
from ldp_core.mechanisms.longitudinal.loloha import Loloha
from ldp_core.noise.keyed import KeyedRows

from .checks import check_binomial, check_marginals, check_uniform, exact_exp, exact_ln

VARIANTS = ("OSUE", "SUE", "OUE", "SOUE")


def grr(d, infinity=2.0, one=1.0, unmatched="error"):
    return LongitudinalRandomizedResponse(
        Domain(range(d), unmatched=unmatched), epsilon_infinity=infinity, epsilon_1=one
    )


def ue(d, variant="OSUE", infinity=2.0, one=1.0, unmatched="error"):
    domain = Domain(range(d), unmatched=unmatched)
    return LongitudinalUnaryEncoding(domain, epsilon_infinity=infinity, epsilon_1=one, variant=variant)


def loloha(d, g="optimal", infinity=2.0, one=1.0, unmatched="error"):
    return Loloha(Domain(range(d), unmatched=unmatched), epsilon_infinity=infinity, epsilon_1=one, g=g)


def flip(b, d, infinity=2.0, unmatched="error"):
    return DBitFlip(Domain(range(b), unmatched=unmatched), epsilon_infinity=infinity, bits=d)


# ---- other people's numbers

# acceptance.json, "longitudinal", "L_OSUE": epsilon_infinity, epsilon_1, q1, p2, p and q of the chain, n Var at f = 0
OSUE = [
    (2.0, 1.0, 0.11920292202211755, 0.8033880667585181, 0.5, 0.2689414213699951, 3.6826943768311686),
    (4.0, 1.0, 0.01798620996209156, 0.7396804649632878, 0.5, 0.2689414213699951, 3.6826943768311686),
    (1.0, 0.5, 0.2689414213699951, 0.7649962877984056, 0.5, 0.3775406687981454, 15.670792356131049),
]


@pytest.mark.parametrize(("infinity", "one", "q1", "p2", "p", "q", "n_var"), OSUE)
def test_known_answers_of_osue(infinity, one, q1, p2, p, q, n_var):
    m = ue(16, "OSUE", infinity, one)
    found = m.permanent.p, m.permanent.q, m.instantaneous.p, m.instantaneous.q, m.p, m.q, m.variance(1)
    assert found == pytest.approx((0.5, q1, p2, 1 - p2, p, q, n_var), rel=1e-12)
    assert m.realised_epsilon == pytest.approx(one, rel=1e-12)
    assert m.realised_epsilon_infinity == pytest.approx(infinity, rel=1e-12)
    assert (m.epsilon, m.epsilon_1, m.epsilon_infinity, m.epsilon_total) == (one, one, infinity, 16 * infinity)


@pytest.mark.parametrize(("f", "n_var", "peers"), [(0.8, 4.4826943768311684, 3.683), (0.3, 3.9826943768311684, 3.683)])
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


@pytest.mark.parametrize(("variant", "infinity", "one", "p2", "q2", "n_var"), PEERS)
def test_second_rounds_are_those_of_the_peers(variant, infinity, one, p2, q2, n_var):
    m = ue(4, variant, infinity, one)
    assert (m.instantaneous.p, m.instantaneous.q, m.variance(1)) == pytest.approx((p2, q2, n_var), rel=1e-10)


def paper_p2(infinity, one, d):
    """The second round of L-GRR (Arcolezi et al. 2022) and of LOLOHA, as multi-freq-ldpy and LOLOHA compute it."""
    p1 = math.exp(infinity) / (math.exp(infinity) + d - 1)
    q1, e = (1 - p1) / (d - 1), math.exp(one)
    return (q1 - e * p1) / (-p1 * e + d * q1 * e - q1 * e - p1 * (d - 1) + q1)


@pytest.mark.parametrize(("infinity", "one"), [(2.0, 1.0), (4.0, 1.0), (1.0, 0.5)])
def test_randomized_response_of_two_values_is_the_papers(infinity, one):
    m = grr(2, infinity, one)
    assert m.instantaneous.p == pytest.approx(paper_p2(infinity, one, 2), rel=1e-12)
    assert loloha(9, "binary", infinity, one)._rounds.instantaneous.p == m.instantaneous.p


@pytest.mark.parametrize("d", [2, 3, 16, 300])
@pytest.mark.parametrize(("infinity", "one"), [(2.0, 1.0), (1.0, 0.5)])
def test_the_chain_of_randomized_responses_is_one(d, infinity, one):
    """Kairouz et al. 2016: p = e / (e + d - 1), with e = exp(epsilon_1); the paper's second round spends less."""
    m, e = grr(d, infinity, one), math.exp(one)
    assert (m.p, m.q) == pytest.approx((e / (e + d - 1), 1 / (e + d - 1)), rel=1e-12)
    p1, q1 = m.permanent.p, m.permanent.q
    p2 = paper_p2(infinity, one, d)
    q2 = (1 - p2) / (d - 1)
    spent = math.log((p1 * p2 + (1 - p1) * q2) / (q1 * p2 + (1 - q1) * q2))
    assert spent < one - 1e-3 if d > 2 else spent == pytest.approx(one)


def test_loloha_has_the_variance_of_optimized_unary_encoding_with_epsilon_1():
    """Wang et al. 2017, section 4.4: (e - 1 + g)^2 / ((g - 1) (e - 1)^2), least at g = e + 1."""
    for infinity, one, g in [(2.0, 1.0, 4), (5.0, 2.0, 8), (3.0, 0.5, 3)]:
        m, e = loloha(50, infinity=infinity, one=one), math.exp(one)
        assert m.g == g
        assert m.variance(1) == pytest.approx((e - 1 + g) ** 2 / ((g - 1) * (e - 1) ** 2), rel=1e-9)
        assert m.variance(1) == pytest.approx(UnaryEncoding(range(50), epsilon=one).variance(1), rel=0.02)


@pytest.mark.parametrize(("b", "d", "epsilon"), [(16, 4, 2.0), (16, 16, 1.0), (100, 2, 0.5)])
def test_variance_of_d_bit_flip(b, d, epsilon):
    """Ding et al. 2017: of the sum of (b / d) ((e^(eps/2) + 1) bit - 1) / (e^(eps/2) - 1) over the bits."""
    m, e = flip(b, d, epsilon), math.exp(epsilon / 2)
    share, p = d / b, e / (e + 1)
    one, zero = (1 / share) * ((e + 1) - 1) / (e - 1), (1 / share) * -1 / (e - 1)
    absent = share * ((1 - p) * one**2 + p * zero**2)  # its mean is 0
    present = share * (p * one**2 + (1 - p) * zero**2) - 1
    assert m.variance(10) == pytest.approx(10 * absent, rel=1e-12)
    assert m.variance(10, 3) == pytest.approx(7 * absent + 3 * present, rel=1e-12)
    tally = Tally(4, np.tile([1, 1], b) * (2 * d // b) if d == b else quarter(b, d), m.fingerprint)
    said = tally.counters.reshape(b, 2)
    np.testing.assert_allclose(m.estimate(tally).counts, said[:, 1] * one + said[:, 0] * zero)
    np.testing.assert_allclose(
        m.estimate(tally).standard_errors, np.sqrt(m.variance(4, m.estimate(tally).counts.clip(0, 4)))
    )


def quarter(b, d):
    """Counters of four reports."""
    counters = np.zeros(2 * b, np.int64)
    counters[: 2 * d] = 2
    return counters


# ---- every outcome, through the code


class Outcomes:
    """`Noise` for one record that runs through every combination of the decisions that are asked of it."""

    def __init__(self, seen: int = 1) -> None:
        self.seen = seen  # bits of a row that can be seen
        self.choices: list[int] = []
        self.sizes: list[int] = []
        self.probability = Fraction(1)

    def decide(self, probabilities: list[Fraction]) -> int:
        at = len(self.sizes)
        self.sizes.append(len(probabilities))
        if at == len(self.choices):
            self.choices.append(0)
        self.probability *= probabilities[self.choices[at]]
        return self.choices[at]

    def bit(self, threshold: int) -> int:
        return self.decide([1 - Fraction(threshold, ONE), Fraction(threshold, ONE)])

    def bernoulli(self, threshold, n, lane):
        return np.array([self.bit(threshold)], np.uint8)

    def uniform_below(self, d, n, lane):
        return np.array([self.decide([Fraction(1, d)] * d)], np.uint32)

    def uniform_again(self, d, rows, step, lane):
        return self.uniform_below(d, 1, lane)

    def one_hot_rows(self, p, q, position, width, lane):
        row = [self.bit(p if v == position[0] else q) for v in range(self.seen)]
        return np.packbits(np.array(row + [0] * (8 * width - self.seen), np.uint8), bitorder="little")[None]

    def rows(self, start, stop):
        return self

    def of_persons(self):
        return self

    def with_codes(self, codes):
        return self

    def instantaneous(self):
        return self

    def next_run(self) -> bool:
        while self.choices and self.choices[-1] == self.sizes[-1] - 1:
            self.choices.pop()
            self.sizes.pop()
        if not self.choices:
            return False
        self.choices[-1] += 1
        self.sizes, self.probability = [], Fraction(1)
        return True


def distribution(perturb_codes, code, seen=1) -> dict:
    """Probability of each report, as a tuple of numbers."""
    noise, table = Outcomes(seen), defaultdict(Fraction)
    while True:
        report = perturb_codes(np.array([code], np.uint8), noise)
        table[tuple(np.ravel(report).tolist())] += noise.probability
        if not noise.next_run():
            assert sum(table.values()) == 1
            return dict(table)


def codes_of(m) -> range:
    return range(m.domain.size + (m.domain.unmatched == "none"))


def worst(tables) -> Fraction:
    assert all(set(table) == set(tables[0]) for table in tables), "a report that some value cannot give"
    return max(a[o] / b[o] for a, b in itertools.permutations(tables, 2) for o in a)


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


@pytest.mark.parametrize("name", CHAINS)
def test_both_rounds_over_all_outcomes(name):
    m = CHAINS[name]
    seen = m.domain.size
    reports = [distribution(m.perturb_codes, code, seen) for code in codes_of(m)]
    permanent = [distribution(m.permanent.perturb_codes, code, seen) for code in codes_of(m)]
    assert worst(reports) == m.worst_ratio() <= exact_exp(m.epsilon_1)
    assert worst(permanent) == m.permanent_ratio() <= exact_exp(m.epsilon_infinity)
    p, q = m.expected_parts()
    for code, table in enumerate(reports):
        for v in range(m.domain.size):
            supports = [v == r[0] if name.startswith("grr") else bool(r[0] >> v & 1) for r in table]
            assert sum(itertools.compress(table.values(), supports)) == (p[v] if v == code else q[v])


@pytest.mark.parametrize("name", ["grr d=3", "OSUE d=2", "OUE d=2"])
def test_any_number_of_reports_spends_at_most_epsilon_infinity(name):
    """Joint probabilities of several reports of one value: ratios grow with them, up to the permanent answer's."""
    m = CHAINS[name]
    seen = m.domain.size
    permanent = [distribution(m.permanent.perturb_codes, code, seen) for code in codes_of(m)]
    answers = sorted(permanent[0])
    channel = {s: defaultdict(Fraction) for s in answers}
    noise = Outcomes(seen)
    while True:  # the second round alone, given a permanent answer
        for answer in answers:
            noise.sizes, noise.probability = [], Fraction(1)
            channel[answer][second_round(m, answer, noise)] += noise.probability
        if not noise.next_run():
            break
    found = []
    for k in (1, 2, 4, 8, 32):
        joint = [
            {o: sum(a[s] * math.prod([channel[s][y] for y in o]) for s in answers) for o in sequences(answers, k)}
            for a in permanent
        ]
        found.append(max(a[o] / b[o] for a, b in itertools.permutations(joint, 2) for o in a))
    assert found[0] == m.worst_ratio()
    assert found == sorted(found)
    assert found[-1] <= m.permanent_ratio() <= exact_exp(m.epsilon_infinity)
    assert float(found[-1]) > 0.9 * float(m.permanent_ratio())


def sequences(answers, k):
    """All of them; of long ones those with the largest ratios, k times the same report."""
    return list(itertools.product(answers, repeat=k)) if k <= 2 else [(y,) * k for y in answers]


def second_round(m, answer, noise):
    """Through the code: a permanent round without noise is put before it."""

    class First:
        def perturb_codes(self, codes, noise):
            return (
                np.array([answer], np.uint8) if isinstance(m, LongitudinalUnaryEncoding) else np.array(answer, np.uint8)
            )

    twin = pickle.loads(pickle.dumps(m))
    twin.__dict__["permanent"], twin.__dict__["instantaneous"] = First(), m.instantaneous
    return tuple(np.ravel(twin.perturb_codes(np.array([0], np.uint8), noise)).tolist())


@pytest.mark.parametrize(("d", "g", "unmatched"), [(3, 2, "error"), (3, 3, "error"), (2, 2, "none"), (4, 3, "other")])
def test_loloha_over_all_outcomes(d, g, unmatched):
    m = loloha(d - (unmatched == "other"), g, unmatched=unmatched)
    tables = [distribution(m.perturb_codes, code) for code in codes_of(m)]
    assert worst(tables) == m.worst_ratio() <= exact_exp(m.epsilon_1)
    assert m.permanent_ratio() <= exact_exp(m.epsilon_infinity)
    p, q = m.expected_parts()
    for code, table in enumerate(tables):
        reports = np.array(list(table), np.uint64)[:, 0]
        supported = m.count_reports(reports, np.arange(len(reports)), len(reports))
        for v in range(m.domain.size):
            total = sum(itertools.compress(table.values(), supported[:, v]))
            assert total == (p[v] if v == code else q[v])


@pytest.mark.parametrize(
    ("b", "d", "unmatched"), [(2, 1, "error"), (4, 2, "error"), (4, 1, "none"), (3, 3, "none"), (4, 3, "other")]
)
def test_d_bit_flip_over_all_outcomes(b, d, unmatched):
    m = flip(b - (unmatched == "other"), d, unmatched=unmatched)
    tables = [distribution(m.perturb_codes, code, d) for code in codes_of(m)]
    assert worst(tables) == m.worst_ratio() == m.permanent_ratio() <= exact_exp(m.epsilon)
    assert m.realised_epsilon == pytest.approx(2.0, rel=1e-12)
    p, q = m.expected_parts()
    for code, table in enumerate(tables):
        sets = defaultdict(Fraction)
        for report, weight in table.items():
            sets[frozenset(entry >> 1 for entry in report)] += weight
        assert sets == {frozenset(s): Fraction(1, math.comb(b, d)) for s in itertools.combinations(range(b), d)}
        for v in range(b):
            total = sum(weight for report, weight in table.items() if 2 * v + 1 in report)
            assert total == (p[v] if v == code else q[v])


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


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-6, 20), st.integers(2, 300), st.data())
def test_epsilon_of_d_bit_flip(epsilon, b, data):
    m = flip(b, data.draw(st.integers(1, b)), epsilon)
    assert m.worst_ratio() <= exact_exp(epsilon)
    assert exact_ln(m.worst_ratio()) >= Decimal(epsilon) * (1 - Decimal("1e-9"))


# ---- one person, thousands of reports

TIMES = 5000
MANY = {
    "grr": grr(5),
    "grr d=2": grr(2),
    **{v: ue(12, v, 2.0, 0.5) for v in VARIANTS},
    "loloha": loloha(20, 3),
    "loloha g=4": loloha(20),
}


def collected(m, value, secret, person=17, times=TIMES, column="c"):
    """Reports of one person with one value."""
    noise = Keyed(secret, np.full(times, person), column=column)
    return m.from_arrow(m.perturb(pa.array(np.full(times, value)), randomness=noise))


def permanent_answer(m, code, secret, person=17, column="c"):
    """The answer to one code; for LOLOHA the code is a bucket."""
    codes = np.array([code], np.uint8)
    rounds = m._rounds if isinstance(m, Loloha) else m
    return rounds.permanent.perturb_codes(codes, Keyed(secret, [person], column=column).bind(m.fingerprint, codes))


def support_rates(m, reports, answer) -> tuple[np.ndarray, np.ndarray]:
    """How often each bit or bucket was reported, and how often it should be after this permanent answer."""
    if isinstance(m, LongitudinalUnaryEncoding):
        ones = bits.column_sums(reports, m.domain.size)
        given = np.unpackbits(answer[0], count=m.domain.size, bitorder="little")
        second = m.instantaneous
    else:
        rounds = m._rounds if isinstance(m, Loloha) else m
        second, size = rounds.instantaneous, rounds.domain.size
        shown = reports >> np.uint64(48) if isinstance(m, Loloha) else reports
        ones = np.bincount(shown.astype(np.int64), minlength=size)
        given = np.arange(size) == answer[0]
    return ones, np.where(given, second.p, second.q)


def check_permanent(m, value, secret) -> None:
    reports = collected(m, value, secret)
    code = value
    if isinstance(m, Loloha):
        [function] = np.unique(reports & np.uint64((1 << 48) - 1))
        [code] = m._family.hash(np.array([function]), np.array([value]))
    reported, rates = support_rates(m, reports, permanent_answer(m, code, secret))
    check_binomial(reported, TIMES, rates)


def check_permanents(m) -> None:
    for _ in range(6):
        check_permanent(m, 1, Secret.generate())


@pytest.mark.parametrize("name", MANY)
def test_reports_of_one_person_converge_to_the_permanent_answer(name):
    check_permanents(MANY[name])


class Redrawn(LongitudinalUnaryEncoding):
    """The fault of multi-freq-ldpy: the permanent round is drawn again each time."""

    def perturb_codes(self, codes, noise):
        return super().perturb_codes(codes, noise.instantaneous())


@pytest.mark.parametrize("variant", VARIANTS)
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


def test_a_permanent_round_that_is_redrawn_is_found_in_the_others(monkeypatch):
    monkeypatch.setattr(
        LongitudinalRandomizedResponse,
        "perturb_codes",
        lambda self, codes, noise: self.instantaneous.perturb_codes(
            self.permanent.perturb_codes(codes, noise.instantaneous()), noise.instantaneous()
        ),
    )
    for name in ("grr", "loloha"):
        with pytest.raises(AssertionError, match="probability"):
            check_permanents(MANY[name])


@pytest.mark.parametrize("m", [grr(4, 1.5), ue(4, "OSUE", 1.5), ue(4, "SOUE", 1.5, 0.3)], ids=lambda m: m.name)
def test_guesses_after_any_number_of_reports_are_no_better_than_epsilon_infinity_allows(m):
    """The best guess of one of d values has probability at most e / (e + d - 1) under epsilon-LDP."""
    persons, value = 20_000, 2
    codes = np.full(persons, value, np.uint8)
    noise = Keyed(Secret.from_seed(1), np.arange(persons), column="c").bind(m.fingerprint, codes)
    answers = m.permanent.perturb_codes(codes, noise)
    most = math.exp(m.epsilon_infinity) / (math.exp(m.epsilon_infinity) + 3)
    shown = answers == value if answers.ndim == 1 else answers[:, 0] == 1 << value  # only this value's bit
    assert shown.mean() <= most + 4 * math.sqrt(most / persons)


def test_d_bit_flip_reports_the_same_for_ever():
    for m in (flip(16, 4), flip(16, 16), flip(9, 1, unmatched="none")):
        reports = collected(m, 3, Secret.generate(), times=500)
        assert (reports == reports[0]).all()


# ---- people whose values change

PERSONS, VALUES = 300, 40


def histories(m, secret):
    """Reports of each person for each value, [persons, values, ...]."""
    noise = Keyed(secret, np.repeat(np.arange(PERSONS), VALUES), column="c")
    values = np.tile(np.arange(VALUES), PERSONS)
    reports = m.from_arrow(m.perturb(pa.array(values), randomness=noise))
    return reports.reshape(PERSONS, VALUES, -1)


def distinct(reports) -> np.ndarray:
    """How many different reports each person gives."""
    return np.array([len(np.unique(person, axis=0)) for person in reports])


def check_states_of_d_bit_flip(m) -> None:
    reports = histories(m, Secret.generate())
    buckets = reports >> 1
    assert (buckets == buckets[:, :1]).all(), "not always the same buckets"
    assert distinct(reports).max() <= m.permanent_answers
    for person, own in zip(reports, buckets[:, 0], strict=True):
        outside = np.setdiff1d(np.arange(VALUES), own)
        assert (person[outside] == person[outside[:1]]).all()
    check_uniform(np.bincount(buckets[:, 0].ravel(), minlength=VALUES))


@pytest.mark.parametrize("d", [1, 3, 20])
def test_d_bit_flip_has_an_answer_a_bit_and_one_more(d):
    m = flip(VALUES, d)
    assert m.permanent_answers == d + 1
    check_states_of_d_bit_flip(m)
    assert flip(VALUES, VALUES).permanent_answers == VALUES
    assert flip(VALUES, VALUES, unmatched="none").permanent_answers == VALUES + 1


@pytest.mark.parametrize(("b", "d"), [(250, 248), (256, 249), (257, 256), (1000, 3), (32_769, 5), (65_537, 2)])
def test_d_bit_flip_of_many_buckets(b, d):
    """Beyond 8 and 16 bits; one bit in 10^13 is flipped, so that the value's is the one that is 1."""
    m, n = flip(b, d, infinity=60.0), 1000
    noise = Keyed(Secret.from_seed(1), np.arange(n), column="c")
    reports = m.from_arrow(m.perturb(pa.array(np.zeros(n, int)), randomness=noise))  # checked to be different
    buckets = reports >> 1
    assert 0.9 * b < buckets.max() < b
    assert not (buckets == 0).any(axis=1).all()
    np.testing.assert_array_equal(reports, buckets * 2 + (buckets == 0))
    for place in (0, d // 2, d - 1):
        values = buckets[:, place]
        reports = m.from_arrow(m.perturb(pa.array(values), randomness=noise))
        np.testing.assert_array_equal(reports, buckets * 2 + (np.arange(d) == place))


def test_d_bit_flip_that_answers_by_value_or_draws_buckets_again_is_found(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(KeyedRows, "with_codes", lambda self, codes: self)
        patch.setattr(KeyedRows, "of_persons", zero_codes)
        with pytest.raises(AssertionError):
            check_states_of_d_bit_flip(flip(VALUES, 3))
    monkeypatch.setattr(KeyedRows, "of_persons", lambda self: self)
    with pytest.raises(AssertionError, match="not always the same buckets"):
        check_states_of_d_bit_flip(flip(VALUES, 3))


def zero_codes(self):
    return KeyedRows(self._cipher, self._high, self._low, np.zeros(len(self._codes), np.uint8), self._again)


def check_states_of_loloha(m, monkeypatch) -> None:
    """With the second round taken away: one function a person, one answer a bucket of it."""
    with monkeypatch.context() as patch:
        patch.setattr(
            LongitudinalRandomizedResponse,
            "perturb_codes",
            lambda self, codes, noise: self.permanent.perturb_codes(codes, noise),
        )
        reports = histories(m, Secret.generate())[:, :, 0]
    functions = reports & np.uint64((1 << 48) - 1)
    assert (functions == functions[:, :1]).all()
    assert distinct(reports).max() <= m.g
    for person, function in zip(reports, functions[:, 0], strict=True):
        hashed = m._family.hash(np.full(VALUES, function), np.arange(VALUES))
        for bucket in range(m.g):
            assert len(np.unique(person[hashed == bucket])) <= 1, "two answers for one bucket"


@pytest.mark.parametrize("g", [2, 3, 4])
def test_loloha_has_an_answer_a_bucket(monkeypatch, g):
    m = loloha(VALUES, g)
    assert (m.permanent_answers, m.epsilon_total) == (g, g * 2.0)
    check_states_of_loloha(m, monkeypatch)


def test_loloha_that_answers_by_value_is_found(monkeypatch):
    """Memoised by value, as in L-GRR after hashing: the loss would grow with the number of values."""
    monkeypatch.setattr(KeyedRows, "with_codes", lambda self, codes: self)
    monkeypatch.setattr(KeyedRows, "of_persons", zero_codes)
    with pytest.raises(AssertionError, match="two answers for one bucket"):
        check_states_of_loloha(loloha(VALUES, 2), monkeypatch)


def test_answers_to_different_buckets_are_independent():
    """So that what is said about k of them together has a ratio of at most the k-th power."""
    m, n, secret = loloha(VALUES, 3), 200_000, Secret.generate()
    rounds, answers = m._rounds, []
    for bucket in range(3):
        codes = np.full(n, bucket, np.uint8)
        noise = Keyed(secret, np.arange(n), column="c").bind(m.fingerprint, np.zeros(n, np.uint8)).with_codes(codes)
        answers.append(rounds.permanent.perturb_codes(codes, noise))
    p, q = rounds.permanent.p, rounds.permanent.q
    for (i, a), (j, b) in itertools.combinations(enumerate(answers), 2):
        for x, y in itertools.product(range(3), repeat=2):
            both = int(np.count_nonzero((a == x) & (b == y)))
            check_binomial(both, n, (p if x == i else q) * (p if y == j else q))


# ---- samples

SAMPLED = {
    "grr": grr(6),
    "grr d=2": grr(2),
    "grr other": grr(5, unmatched="other"),
    "OSUE": ue(10),
    "OUE none": ue(9, "OUE", 2.0, 0.5, "none"),
    "SOUE d=70": ue(70, "SOUE", 3.0, 1.5),
    "SUE": ue(16, "SUE"),
    "loloha": loloha(12),
    "loloha g=2": loloha(12, 2, unmatched="none"),
    "flip": flip(10, 3),
    "flip none": flip(9, 9, unmatched="none"),
    "flip 1": flip(12, 1),
}


def supported(m, reports) -> np.ndarray:
    each = m.count_reports(reports, np.arange(len(reports)), len(reports))
    return each[:, 1::2].astype(bool) if isinstance(m, DBitFlip) else each.astype(bool)


def expected_support(m) -> np.ndarray:
    table = np.full((len(codes_of(m)), m.domain.size), m.q)
    np.fill_diagonal(table, m.p)
    return table


@pytest.mark.parametrize("name", SAMPLED)
def test_marginals(name):
    m, n = SAMPLED[name], 120_000
    codes = np.random.default_rng(1).permutation(n) % len(codes_of(m))
    noise = Keyed(Secret.generate(), np.arange(n), column="c")
    reports = m.perturb_codes(codes.astype(np.uint8), noise.bind(m.fingerprint, codes.astype(np.uint8)))
    check_marginals(codes, supported(m, reports), expected_support(m))


def test_noise_on_the_wrong_bits_is_found():
    """A second round that takes the permanent bits for their opposite."""
    m, n = ue(10, "OUE", 2.0, 0.5), 120_000
    codes = (np.arange(n) % 10).astype(np.uint8)
    noise = Keyed(Secret.generate(), np.arange(n), column="c").bind(m.fingerprint, codes)

    class Opposite:
        def perturb_codes(self, codes, noise):
            return ~m.permanent.perturb_codes(codes, noise)

    twin = ue(10, "OUE", 2.0, 0.5)
    twin.__dict__["permanent"] = Opposite()
    with pytest.raises(AssertionError, match="probability"):
        check_marginals(codes, supported(m, twin.perturb_codes(codes, noise)), expected_support(m))


N, RUNS = 400, 500


def check_estimates(m) -> None:
    """The mean and the variance of the estimates of a value of no record and one of 30 %, within 3 standard errors."""
    codes = np.tile(np.where(np.arange(N) < 0.3 * N, 1, 2 if m.domain.size > 2 else 1), RUNS)
    codes[codes == 2] = 2 + np.arange(np.count_nonzero(codes == 2)) % max(m.domain.size - 2, 1)
    if m.domain.size == 2:
        codes = np.tile((np.arange(N) < 0.3 * N).astype(int), RUNS)
    noise = Keyed(Secret.from_seed(5), np.arange(N * RUNS), column="c").bind(m.fingerprint, codes)
    reports = m.perturb_codes(codes.astype(np.uint8), noise)
    support = m.count_reports(reports, np.repeat(np.arange(RUNS), N), RUNS)
    counts = m.debias(np.full((RUNS, 1), N), support)[0]
    for value, f in [(1, 0.3)] if m.domain.size == 2 else [(0, 0.0), (1, 0.3)]:
        true, variance = f * N, m.variance(N, f * N)
        assert abs(counts[:, value].mean() - true) < 3 * math.sqrt(variance / RUNS)
        assert abs(counts[:, value].var(ddof=1) / variance - 1) < 3 * math.sqrt(2 / (RUNS - 1))


@pytest.mark.parametrize("name", SAMPLED)
def test_estimates_are_unbiased_and_have_the_variance_of_the_formula(name):
    check_estimates(SAMPLED[name])


def test_a_wrong_estimator_or_variance_is_found(monkeypatch):
    m = ue(10)
    check_estimates(m)
    with monkeypatch.context() as patch:  # debiased for the second round only
        patch.setattr(
            LongitudinalUnaryEncoding, "expected_parts", lambda m: m.instantaneous.expected_parts()
        )
        with pytest.raises(AssertionError):
            check_estimates(ue(10))
    m = flip(10, 2, 0.5)
    check_estimates(m)
    monkeypatch.setattr(DBitFlip, "variance", pure_variance)
    with pytest.raises(AssertionError):
        check_estimates(m)


def pure_variance(m, n, count=0.0):
    """Of the estimator that does not know how many reports were about a bucket."""
    return (count * m.p * (1 - m.p) + (n - count) * m.q * (1 - m.q)) / (m.p - m.q) ** 2


# ---- keyed noise

ALL = {**SAMPLED, "wide": ue(200, "OSUE", 3.0, 1.0), "many buckets": flip(40_000, 2)}


def reports_of(m, secret, n=400, column="c"):
    codes = np.arange(n) % m.domain.size
    labels = m.domain.arrow_values.take(pa.array(codes))
    if m.domain.unmatched == "other":
        labels = pa.array([None if c == m.domain.size - 1 else int(c) for c in codes], pa.int64())
    return m.perturb(labels, randomness=Keyed(secret, np.arange(n) // 2, column=column))


@pytest.mark.parametrize("name", ALL)
def test_what_keyed_noise_repeats(name):
    m, secret = ALL[name], Secret.generate()
    once, again = reports_of(m, secret), reports_of(m, secret)
    assert once.equals(again) == isinstance(m, DBitFlip)  # which alone has no second round
    assert not once.equals(reports_of(m, Secret.generate()))
    assert not reports_of(m, secret, column="other").equals(once)
    seeded = Secret.from_seed(3)
    assert reports_of(m, seeded).equals(reports_of(m, seeded))


@pytest.mark.parametrize("name", ALL)
def test_fresh_noise_is_refused(name):
    with pytest.raises(ParameterError, match="keyed noise"):
        ALL[name].perturb(pa.array([1, 1]))


def test_blocks_do_not_show(monkeypatch):
    secret = Secret.from_seed(1)
    for m in (ue(20), flip(20, 3), loloha(20)):
        whole = reports_of(m, secret)
        for module in ("longitudinal", "d_bit_flip"):
            monkeypatch.setattr(f"ldp_core.{module}._BLOCK", 64)
        monkeypatch.setattr("ldp_core.reports.words._BLOCK", 7)
        assert reports_of(m, secret).equals(whole)
        monkeypatch.undo()


# ---- tallies, wire, value objects


@pytest.mark.parametrize("name", ALL)
def test_tallies_merge_and_arrow_round_trips(name):
    m = ALL[name]
    reports = reports_of(m, Secret.generate())
    assert reports.type == m.report_type()
    whole = m.tally(reports)
    assert Tally.merge([m.tally(reports[:123]), m.tally(reports[123:])]) == whole
    assert whole == m.tally(pa.chunked_array([reports[:7], reports[7:]])) == Tally.from_bytes(whole.to_bytes())
    native = m.from_arrow(reports)
    assert m.to_arrow(m.from_arrow(m.to_arrow(native, packed=True))).equals(reports)
    if not isinstance(m, LongitudinalRandomizedResponse):
        assert m.tally(m.to_numpy(native)) == whole
    groups = np.arange(len(native)) % 3
    counts = m.count_reports(native, groups, 3)
    for group in range(3):
        np.testing.assert_array_equal(
            counts[group], m.tally(reports.take(pa.array(np.flatnonzero(groups == group)))).counters
        )
    histogram = m.estimate(whole, confidence=0.9)
    assert (histogram.low <= histogram.high).all()
    many = m.debias(np.full((3, 1), 9), counts)
    assert all(part.shape == (3, m.domain.size) for part in many)
    assert m.estimate(m.empty_tally()).counts.tolist() == [0.0] * m.domain.size


@pytest.mark.parametrize("name", ALL)
def test_value_objects(name):
    m = ALL[name]
    for again in (pickle.loads(pickle.dumps(m)), Mechanism.from_dict(json.loads(json.dumps(m.to_dict())))):
        assert again == m
        assert (hash(again), repr(again), again.fingerprint) == (hash(m), repr(m), m.fingerprint)
        assert again.expected_parts() == m.expected_parts()
    assert isinstance(m, Longitudinal)
    assert m.memoised
    assert f"epsilon_infinity={m.epsilon_infinity}" in repr(m)
    with pytest.raises(AttributeError):
        m.epsilon_infinity = 3.0


def test_all_differ():
    others = [
        RandomizedResponse(range(6), epsilon=1.0),
        grr(6, 2.0, 0.5),
        grr(6, 3.0),
        loloha(12, 3),
        flip(10, 4),
        ue(10, "SUE"),
    ]
    mechanisms = [*ALL.values(), *others]
    assert len(set(mechanisms)) == len({m.fingerprint for m in mechanisms}) == len(mechanisms)
    assert loloha(12, 4) == loloha(12, "optimal")
    with pytest.raises(MechanismMismatchError):
        others[1].estimate(others[2].empty_tally())


BAD = [
    lambda: grr(3, 1.0, 1.0),
    lambda: grr(3, 1.0, 2.0),
    lambda: grr(3, 0.0, -1.0),
    lambda: grr(3, math.inf, 1.0),
    lambda: grr(3, 1.0, math.nan),
    lambda: grr(3, "2", 1.0),
    lambda: grr(3, 1.0, 1e-25),
    lambda: ue(3, "OUE", 2.0, 1.9),
    lambda: ue(3, "SOUE", 2.0, 1.9),
    lambda: ue(3, "optimized"),
    lambda: ue(3, "OSUE", 1.0, 1e-17),
    lambda: ue(3, "OSUE", 1.0, 1.0),
    lambda: loloha(3, 1),
    lambda: loloha(3, 2.5),
    lambda: loloha(3, True),
    lambda: loloha(3, "best"),
    lambda: loloha(3, 1 << 16),
    lambda: loloha(3, 2, 1.0, 1.0),
    lambda: flip(3, 0),
    lambda: flip(3, 4),
    lambda: flip(3, True),
    lambda: flip(3, 1, 0.0),
    lambda: flip(3, 2, 1e-25),
    lambda: Mechanism.from_dict({"mechanism": "loloha", "domain": [1, 2], "epsilon_infinity": 1}),
    lambda: Mechanism.from_dict({"mechanism": "d_bit_flip", "domain": [1, 2], "epsilon_infinity": 1, "bits": 9}),
]


@pytest.mark.parametrize("make", BAD)
def test_bad_parameters(make):
    with pytest.raises(ParameterError):
        make()


def test_errors_name_the_permitted_interval():
    with pytest.raises(ParameterError, match=r"\(0, epsilon_infinity = 2.0\)"):
        grr(3, 2.0, 3.0)
    with pytest.raises(ParameterError, match=r"\(0, 1\.3"):
        ue(3, "SOUE", 2.0, 1.5)
    with pytest.raises(ParameterError, match=r"\[1, 3\]"):
        flip(3, 4)
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
    for reports in (pa.array([1, 2]), pa.array([[1, 2]]), pa.array([None, [1, 4]], m.report_type()), pa.array(["x"])):
        with pytest.raises(ReportError):
            m.tally(reports)
    for counters in (np.zeros(18, int), np.full(18, 1), np.r_[2, 2, np.zeros(16, int)]):
        with pytest.raises(ReportError):
            m.estimate(Tally(2, counters, m.fingerprint))


@pytest.mark.parametrize("name", ALL)
def test_no_records(name):
    m = ALL[name]
    reports = m.perturb(
        pa.array([], pa.int64()), randomness=Keyed(Secret.generate(), pa.array([], pa.int64()), column="c")
    )
    assert reports.type == m.report_type()
    assert m.tally(reports) == m.empty_tally()
