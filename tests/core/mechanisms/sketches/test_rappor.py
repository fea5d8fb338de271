"""RAPPOR: the published rows and known answers; both privacy bounds over all filters and outcomes; decoding."""

import hmac
import itertools
import math
import struct
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
    Keystream,
    MechanismMismatchError,
    ParameterError,
    Rappor,
    ReportError,
    Secret,
)
from ldp_core.exact import bloom
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.sketches.rappor import RapporCandidates

from ....cases import each
from ...checks import check_binomial, exact_exp, exact_ln
from ...enumeration import Every, check_ratio
from .helpers import CHROME, FRUIT, codes, keyed

# ---- acceptance.json, "rappor"
# f, p, q, h, q*, p*, epsilon_infinity, epsilon_1
ROWS = [
    (0.5, 0.5, 0.75, 2, 0.6875, 0.5625, 4.394449154672439, 1.074285864166728),
    (0.5, 0.5, 0.75, 1, 0.6875, 0.5625, 2.1972245773362196, 0.537142932083364),
    (0.25, 0.35, 0.65, 1, 0.6125, 0.38749999999999996, 3.8918202981106265, 0.9156661872509613),
    (0.75, 0.5, 0.75, 2, 0.65625, 0.59375, 2.043302495063963, 0.5342750864402975),
    (0.0, 0.5, 0.75, 2, 0.75, 0.5, math.inf, 2.1972245773362196),
]


@each(("f", "p", "q", "h", "q_star", "p_star", "eps_infinity", "eps_1"), ROWS)
@each("bits", [16, 128])
def test_published_rows(bits, f, p, q, h, q_star, p_star, eps_infinity, eps_1):
    m = Rappor(bits=bits, hashes=h, cohorts=64, f=f, p=p, q=q)
    assert (m.p_star, m.q_star) == (pytest.approx(p_star, rel=1e-14), pytest.approx(q_star, rel=1e-14))
    assert m.epsilon == pytest.approx(eps_1, rel=1e-12)
    assert m.epsilon_infinity == pytest.approx(eps_infinity, rel=1e-12)


# ---- every filter, every outcome, through the code


SMALL = [
    (2, 1, 0.5, 0.5, 0.75),
    (2, 2, 0.3, 0.25, 0.7),
    (3, 1, 0.01, 0.1, 0.9),
    (3, 2, 0.75, 0.02, 0.999),
    (4, 2, 0.3, 0.35, 0.65),
    (4, 3, 0.9, 0.3, 0.31),
]


@each(("k", "h", "f", "p", "q"), SMALL)
def test_ratios_of_one_report_over_all_filters_and_outcomes(monkeypatch, k, h, f, p, q):
    m = Rappor("int", bits=k, hashes=h, cohorts=3, f=f, p=p, q=q)
    p_star, q_star = m.bit_probabilities()
    tables = {}
    for positions in itertools.product(range(k), repeat=h):
        filtered = sum(1 << j for j in set(positions))
        if filtered in tables:
            continue
        where = np.array([positions], np.uint32)
        monkeypatch.setattr(bloom, "positions", lambda codes, *_, where=where: np.repeat(where, len(codes), axis=0))
        table = Every(m.perturb_codes, dtype=np.uint64, seen=k, given={"persons 2": 0}).table  # cohort 0
        for j in range(k):  # the channel of each bit
            assert sum(weight for (cohort, report), weight in table.items() if cohort == 0 and report >> j & 1) == (
                q_star if filtered >> j & 1 else p_star
            )
        tables[filtered] = table
    check_ratio(m, list(tables.values()))


@settings(max_examples=50)
@given(
    st.integers(2, 300),
    st.integers(1, 16),
    st.floats(1e-9, 1 - 1e-9),
    st.one_of(st.just(0.0), st.floats(1e-9, 0.9)),
    st.floats(1e-9, 1 - 1e-9),
)
def test_epsilons_are_above_the_exact_ratios_and_near_the_formulas(k, h, f, p, share):
    q = p + (1 - p) * share
    m = Rappor(bits=k, hashes=h, cohorts=8, f=f, p=p, q=q)
    assert m.worst_ratio() <= exact_exp(m.epsilon)
    assert m.infinite_ratio() <= exact_exp(m.epsilon_infinity)
    assert m.epsilon <= m.epsilon_infinity
    if k >= 2 * h:
        x = Fraction(f) / 2 * (Fraction(q) - Fraction(p))
        p_star, q_star = Fraction(p) + x, Fraction(q) - x
        formula = h * exact_ln(q_star * (1 - p_star) / (p_star * (1 - q_star)))
        assert m.epsilon == pytest.approx(float(formula), rel=1e-6, abs=1e-12)
        infinite = 2 * h * exact_ln((1 - Fraction(f) / 2) / (Fraction(f) / 2))
        assert m.epsilon_infinity == pytest.approx(float(infinite), rel=1e-12)
    else:  # the formulas, which assume 2 h bits, are above
        assert m.infinite_ratio() == ((1 - m_flip(m)) / m_flip(m)) ** k


def m_flip(m) -> Fraction:
    return Fraction(m._thresholds[0], ONE)


# ---- keyed noise


def unpacked(m, reports):
    """The bits of reports, bool[n, k]."""
    words = np.ascontiguousarray(reports[:, 1:])
    return np.unpackbits(words.view(np.uint8), axis=1, bitorder="little", count=m.bits).astype(bool)


def collected(m, people, times):
    """Shares of 1s of each bit in ``times`` reports of each person of one value, and the permanent responses."""
    secret = Secret.generate()
    values = np.full(people * times, 5)
    reports = m.perturb(values, randomness=Keyed(secret, np.repeat(np.arange(people), times), column="c"))
    found = unpacked(m, reports).reshape(people, times, m.bits)
    # The first round under the same digest, bare: what is left if the second one reports the bits as they are.
    bare = Rappor("int", bits=m.bits, hashes=m.hashes, cohorts=m.cohorts, f=m.f, p=0.0, q=1.0)
    object.__setattr__(bare, "digest", m.digest)
    permanent = bare.perturb(np.full(people, 5), randomness=Keyed(secret, np.arange(people), column="c"))
    np.testing.assert_array_equal(np.repeat(permanent[:, 0], times), reports[:, 0])
    return found, unpacked(bare, permanent), permanent[:, 0]


def check_converges(m, found, permanent):
    times = found.shape[1]
    check_binomial(found.sum(axis=1), times, np.where(permanent, m.q, m.p))


def test_five_thousand_reports_of_a_person_converge_to_the_permanent_response_and_no_further():
    m = Rappor("int", bits=32, hashes=2, cohorts=8, f=0.5, p=0.25, q=0.75)
    found, permanent, cohorts = collected(m, 40, 5000)
    check_converges(m, found, permanent)
    where = bloom.positions(codes(np.full(40, 5)), cohorts, 32, 2)
    filters = np.unpackbits(bloom.filters(where, 4), axis=1, bitorder="little").astype(bool)
    anew = unpacked(m, m.perturb(np.full(5000, 5), randomness=keyed(np.arange(5000))))[None]  # as of 5000 people
    for wrong in ((found, filters), (anew, permanent[:1])):
        with pytest.raises(AssertionError):
            check_converges(m, *wrong)
    # What the mean reveals, read off, is the filter with each bit flipped with probability f / 2: epsilon_infinity.
    read = found.mean(axis=1) > 0.5
    np.testing.assert_array_equal(read, permanent)
    check_binomial(int((read != filters).sum()), read.size, 0.25)


# ---- marginals


@each("hashing", ["aes", "md5"])
@each(("k", "h", "f", "p", "q"), [(16, 2, 0.5, 0.5, 0.75), (130, 3, 0.3, 0.2, 0.9), (5, 1, 0, 0.1, 0.6)])
def test_marginals(hashing, k, h, f, p, q):
    m = Rappor(bits=k, hashes=h, cohorts=3, f=f, p=p, q=q, hashing=hashing)
    n = 60_000
    which = np.random.default_rng(k).permutation(n) % 5
    reports = m.perturb(pa.array(np.array(FRUIT)[which]), randomness=keyed(np.arange(n)))
    rows = m.reports.from_arrow(reports)
    check_filters(m, which, rows)


def check_filters(m, which, rows):
    """The bits of reports, by value and cohort, have probability q* in the filter and p* elsewhere."""
    positions = m.over(FRUIT).design.positions
    found, cohorts = unpacked(m, rows), rows[:, 0].astype(int)
    for v, cohort in itertools.product(range(5), range(m.cohorts)):
        mine = found[(which == v) & (cohorts == cohort)]
        expected = np.full(m.bits, m.p_star)
        expected[positions[cohort, v]] = m.q_star
        check_binomial(mine.sum(axis=0), len(mine), expected)


# ---- tallies


def test_what_is_no_report_or_tally():
    m = Rappor(bits=16, hashes=2, cohorts=8, **CHROME)
    with pytest.raises(ReportError, match="2 of 3 reports"):
        m.tally(np.array([[7, 65535], [8, 0], [0, 65536]], np.uint64))
    kind = m.reports.arrow_type()
    for reports in (
        pa.array([[0, None]], kind),
        pa.array([[0, 1, 2]], pa.list_(pa.uint64(), 3)),
        pa.array([[0, 1]], pa.list_(pa.int64(), 2)),
    ):
        with pytest.raises(ReportError):
            m.tally(reports)


def test_nulls_and_other_types_are_refused():
    m = Rappor(bits=16, hashes=2, cohorts=8, **CHROME, hashing="md5")
    with pytest.raises(DomainError, match="1 of 2 values are null"):
        m.perturb(pa.array(["secret text", None]), randomness=keyed([1, 2]))
    with pytest.raises(ParameterError, match="texts"):
        m.perturb_codes(np.zeros(1, np.uint64), Keystream())
    with pytest.raises(ParameterError, match="texts"):
        m.support_of(np.zeros(m.counters, np.int64), np.zeros(1, np.uint64))


def test_support_of_the_first_bit_is_a_pure_protocol():
    """`Sketch`'s contract, over the hash functions: 400 values, each the only one that is held."""
    m = Rappor("int", bits=16, hashes=2, cohorts=64, f=0.1, p=0.1, q=0.9)
    p, q = m.support_probabilities()
    assert q == p - (p - m.bit_probabilities()[0]) * (1 - (1 - (1 - Fraction(1, 16)) ** 2))
    n = 100_000
    tally = m.tally(m.perturb(np.arange(n), randomness=keyed(np.arange(n))))  # everybody another value
    assert abs(m.support_of(tally.counters, codes(np.arange(300))) / n - float(q)).max() < 0.03
    tally = m.tally(m.perturb(np.full(n, 7), randomness=keyed(np.arange(n))))
    check_binomial(m.support_of(tally.counters, codes([7])), n, float(p))


def test_no_reports_and_simultaneous_intervals():
    m = Rappor(bits=16, hashes=2, cohorts=4, **CHROME)
    o = m.over(FRUIT)
    assert o.decode(m.empty_tally()).found == ()
    assert o.tally(o.perturb(pa.array([], pa.string()), randomness=keyed(np.array([], int)))).n == 0
    tally = m.tally(m.perturb(FRUIT[:1] * 100, randomness=keyed(np.arange(100))))
    assert (o.estimate(tally, simultaneous=True).high > o.estimate(tally).high).all()
    with pytest.raises(MechanismMismatchError):
        o.decode(Rappor(bits=16, hashes=2, cohorts=5, **CHROME).empty_tally())


# ---- value objects and bad parameters


GOOD = {"bits": 16, "hashes": 2, "cohorts": 8, **CHROME}


def test_bad_parameters():
    md5 = {"hashing": "md5"}
    for bad in (
        {"bits": 257, **md5},
        {"f": 0, "p": 0},
        {"f": 0, "q": 1},
        {"p": 1e-30, "q": 2e-30},
        {"kind": "int", **md5},
    ):
        with pytest.raises(ParameterError):
            Rappor(**(GOOD | bad))


def test_bad_candidates_and_levels():
    m = Rappor(**GOOD)
    for candidates in ([1, 2], Domain(FRUIT, unmatched="other")):
        with pytest.raises(ParameterError):
            m.over(candidates)
    with pytest.raises(DomainError):
        Rappor("float", **GOOD)
    with pytest.raises(ParameterError):
        RapporCandidates.from_parameters(
            Domain(FRUIT), {"sketch": {"mechanism": "randomized_response"} | {"domain": [1, 2], "epsilon": 1}}
        )
    for options in ({"level": 0}, {"level": 1.0}, {"level": True}, {"correction": "none"}, {"confidence": 2}):
        with pytest.raises(ParameterError):
            m.over(FRUIT).decode(m.empty_tally(), **options)


def test_a_tally_that_no_machine_holds_is_refused():
    with pytest.raises(ParameterError, match="at most 16777216"):
        Rappor(bits=1 << 16, hashes=2, cohorts=1 << 16, f=0.5, p=0.5, q=0.75)


def test_known_answer_of_googles_client():
    """acceptance.json, "known_answer": the encoder test of client/python/rappor_test.py."""
    where = bloom.md5_positions([b"abc"], [0], 16, 2)
    filtered = int(bloom.filters(where, 2).view("<u2")[0, 0])
    assert filtered == 8256
    digest = hmac.digest(b"secret", struct.pack(">L", filtered), "sha256")[:16]  # f is 1/2
    uniform = sum((byte & 1) << i for i, byte in enumerate(digest))
    mask = sum(((byte >> 1) < 64) << i for i, byte in enumerate(digest))
    permanent = filtered & ~mask | uniform & mask
    assert (uniform, mask, permanent) == (50360, 56237, 57576)
    cycle = [0.0, 0.6, 0.0]
    below = {t: sum((cycle[i % 3] < t) << i for i in range(16)) for t in (0.5, 0.75)}
    assert below[0.5] & ~permanent | below[0.75] & permanent == 64493
    m = Rappor(bits=16, hashes=2, cohorts=8, **CHROME, hashing="md5")
    tally = m.tally(np.array([[0, 64493]], np.uint64))
    counts = tally.counters.reshape(8, 17)
    assert counts[0].tolist() == [1, *(64493 >> i & 1 for i in range(16))]
    assert not counts[1:].any()
