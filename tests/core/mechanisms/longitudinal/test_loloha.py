"""LOLOHA: every outcome, and an answer for each bucket."""

import itertools
import math

import numpy as np
import pytest

from ldp_core import Keyed, LongitudinalRandomizedResponse, Secret, UnaryEncoding

from ....cases import each
from ...checks import check_binomial, exact_exp
from ...enumeration import n_codes, worst_ratio
from .helpers import VALUES, distinct, distribution, histories, loloha


def test_loloha_has_the_variance_of_optimized_unary_encoding_with_epsilon_1():
    """Wang et al. 2017, section 4.4: (e - 1 + g)^2 / ((g - 1) (e - 1)^2), least at g = e + 1."""
    for infinity, one, g in [(2.0, 1.0, 4), (5.0, 2.0, 8), (3.0, 0.5, 3)]:
        m, e = loloha(50, infinity=infinity, one=one), math.exp(one)
        assert m.g == g
        assert m == loloha(50, g, infinity, one)
        assert m.variance(1) == pytest.approx((e - 1 + g) ** 2 / ((g - 1) * (e - 1) ** 2), rel=1e-9)
        assert m.variance(1) == pytest.approx(UnaryEncoding(range(50), epsilon=one).variance(1), rel=0.02)


@each(("d", "g", "unmatched"), [(3, 2, "error"), (3, 3, "error"), (2, 2, "none"), (4, 3, "other")])
def test_loloha_over_all_outcomes(d, g, unmatched):
    m = loloha(d - (unmatched == "other"), g, unmatched=unmatched)
    tables = [distribution(m.perturb_codes, code) for code in n_codes(m)]
    assert worst_ratio(tables) == m.worst_ratio() <= exact_exp(m.epsilon_1)
    assert m.permanent_ratio() <= exact_exp(m.epsilon_infinity)
    p, q = m.support_probabilities()
    for code, table in enumerate(tables):
        reports = np.array(list(table), np.uint64)[:, 0]
        supported = m.count_reports(reports, np.arange(len(reports)), len(reports))
        for v in range(m.domain.size):
            total = sum(itertools.compress(table.values(), supported[:, v]))
            assert total == (p[v] if v == code else q[v])


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
        hashed = m.family.hash(np.full(VALUES, function), np.arange(VALUES))
        for bucket in range(m.g):
            assert len(np.unique(person[hashed == bucket])) <= 1, "two answers for one bucket"


@each("g", [2, 3, 4])
def test_loloha_has_an_answer_a_bucket(monkeypatch, g):
    m = loloha(VALUES, g)
    assert m.permanent_answers == g
    check_states_of_loloha(m, monkeypatch)


def test_answers_to_different_buckets_are_independent():
    """So that what is said about k of them together has a ratio of at most the k-th power."""
    m, n, secret = loloha(VALUES, 3), 200_000, Secret.generate()
    rounds, answers = m._rounds, []
    for bucket in range(3):
        codes = np.full(n, bucket, np.uint8)
        noise = Keyed(secret, np.arange(n), column="c").bind(m.digest, np.zeros(n, np.uint8)).with_codes(codes)
        answers.append(rounds.permanent.perturb_codes(codes, noise))
    p, q = rounds.permanent.p, rounds.permanent.q
    for (i, a), (j, b) in itertools.combinations(enumerate(answers), 2):
        for x, y in itertools.product(range(3), repeat=2):
            both = int(np.count_nonzero((a == x) & (b == y)))
            check_binomial(both, n, (p if x == i else q) * (p if y == j else q))
