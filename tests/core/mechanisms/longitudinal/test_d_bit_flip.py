"""dBitFlipPM: every outcome, and an answer for each bit."""

import itertools
import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import Keyed, Secret, Tally

from ....cases import each
from ...checks import check_uniform, exact_exp, exact_ln
from ...enumeration import n_codes, worst_ratio
from .helpers import VALUES, distinct, distribution, flip, histories


@each(("b", "d", "epsilon"), [(16, 4, 2.0), (16, 16, 1.0), (100, 2, 0.5)])
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


@each(("b", "d", "unmatched"), [(2, 1, "error"), (4, 2, "error"), (4, 1, "none"), (3, 3, "none"), (4, 3, "other")])
def test_d_bit_flip_over_all_outcomes(b, d, unmatched):
    m = flip(b - (unmatched == "other"), d, unmatched=unmatched)
    tables = [distribution(m.perturb_codes, code, d) for code in n_codes(m)]
    assert worst_ratio(tables) == m.worst_ratio() == m.permanent_ratio() <= exact_exp(m.epsilon)
    assert m.realized_epsilon == pytest.approx(2.0, rel=1e-12)
    p, q = m.support_probabilities()
    for code, table in enumerate(tables):
        sets = defaultdict(Fraction)
        for report, weight in table.items():
            sets[frozenset(entry >> 1 for entry in report)] += weight
        assert sets == {frozenset(s): Fraction(1, math.comb(b, d)) for s in itertools.combinations(range(b), d)}
        for v in range(b):
            total = sum(weight for report, weight in table.items() if 2 * v + 1 in report)
            assert total == (p[v] if v == code else q[v])


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-6, 20), st.integers(2, 300), st.data())
def test_epsilon_of_d_bit_flip(epsilon, b, data):
    m = flip(b, data.draw(st.integers(1, b)), epsilon)
    assert m.worst_ratio() <= exact_exp(epsilon)
    assert exact_ln(m.worst_ratio()) >= Decimal(epsilon) * (1 - Decimal("1e-9"))


def check_states_of_d_bit_flip(m) -> None:
    reports = histories(m, Secret.generate())
    buckets = reports >> 1
    assert (buckets == buckets[:, :1]).all(), "not always the same buckets"
    assert distinct(reports).max() <= m.permanent_answers
    for person, own in zip(reports, buckets[:, 0], strict=True):
        outside = np.setdiff1d(np.arange(VALUES), own)
        assert (person[outside] == person[outside[:1]]).all()
    check_uniform(np.bincount(buckets[:, 0].ravel(), minlength=VALUES))


@each("d", [1, 3, 20])
def test_d_bit_flip_has_an_answer_a_bit_and_one_more(d):
    m = flip(VALUES, d)
    assert m.permanent_answers == d + 1
    check_states_of_d_bit_flip(m)
    assert flip(VALUES, VALUES).permanent_answers == VALUES
    assert flip(VALUES, VALUES, unmatched="none").permanent_answers == VALUES + 1


@each(("b", "d"), [(250, 248), (256, 249), (257, 256), (1000, 3), (32_769, 5), (65_537, 2)])
def test_d_bit_flip_of_many_buckets(b, d):
    """Beyond 8 and 16 bits; one bit in 10^13 is flipped, so that the value's is the one that is 1."""
    m, n = flip(b, d, infinity=60.0), 1000
    noise = Keyed(Secret.from_seed(1), np.arange(n), column="c")
    reports = m.reports.from_arrow(m.perturb(pa.array(np.zeros(n, int)), randomness=noise))  # checked to be different
    buckets = reports >> 1
    assert 0.9 * b < buckets.max() < b
    assert not (buckets == 0).any(axis=1).all()
    np.testing.assert_array_equal(reports, buckets * 2 + (buckets == 0))
    for place in (0, d // 2, d - 1):
        values = buckets[:, place]
        reports = m.reports.from_arrow(m.perturb(pa.array(values), randomness=noise))
        np.testing.assert_array_equal(reports, buckets * 2 + (np.arange(d) == place))
