"""Hadamard response: every column for every value; known answers; the transform against the matrix itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import linalg

from ldp_core import HadamardResponse, Keyed

from ....cases import each
from ...checks import check_marginals, check_rows_independent, check_uniform
from ...enumeration import check_oracle
from ...keyed_reference import SECRET, block
from .helpers import domain

# acceptance.json, "hadamard_response": epsilon, p, q, n Var at f = 0
KNOWN = [
    (0.5, 0.6224593312018546, 0.5, 16.67079235613105),
    (1.0, 0.7310585786300049, 0.5, 4.682694376831169),
    (2.0, 0.8807970779778824, 0.5, 1.7240616609663106),
]


@each(("epsilon", "p", "q", "n_var"), KNOWN)
@each("d", [2, 16, 128])
def test_known_answers(epsilon, p, q, n_var, d):
    m = HadamardResponse(range(d), epsilon=epsilon)
    assert (m.p, m.q, m.variance(1)) == tuple(pytest.approx(x, rel=1e-12) for x in (p, q, n_var))
    assert m.realised_epsilon == pytest.approx(epsilon, rel=1e-12)


# ---- every outcome, through the code


CASES = [(2, "error"), (3, "other"), (3, "none"), (4, "error"), (4, "none"), (7, "error"), (8, "none"), (9, "other")]


@each(("d", "policy"), CASES)
@each("epsilon", [1e-6, 1.0, 50.0])
def test_probabilities_and_ratios_over_all_columns(d, policy, epsilon):
    m = HadamardResponse(domain(d, policy), epsilon=epsilon)
    check_oracle(m, reports=m.columns)


# ---- counting


@each("d", [2, 7, 8, 100])
@each("n_groups", [1, 3, 700])
def test_counts_are_those_of_the_matrix(monkeypatch, d, n_groups):
    m = HadamardResponse(range(d), epsilon=1.0)
    reports = m.perturb(np.arange(5000) % d)
    groups = np.random.default_rng(d).integers(0, max(n_groups - 1, 1), 5000)
    expected = np.zeros((n_groups, d), np.int64)
    np.add.at(expected, groups, linalg.hadamard(m.columns)[1 : d + 1, reports.astype(int)].T == 1)
    np.testing.assert_array_equal(m.count_reports(reports, groups, n_groups), expected)
    monkeypatch.setattr("ldp_core.exact.transforms._CELLS", 2 * m.columns)
    np.testing.assert_array_equal(m.count_reports(reports, groups, n_groups), expected)
    assert not m.count_reports(reports[:0], groups[:0], n_groups).any()


# ---- samples


def supported(m, reports):
    return linalg.hadamard(m.columns)[1 : m.domain.size + 1, reports.astype(int)].T == 1


def test_columns_are_uniform_given_the_sign_and_rows_are_independent():
    m = HadamardResponse(range(20), epsilon=1.0)
    reports = m.perturb(np.full(500_000, 7))
    support = supported(m, reports)
    for side in (True, False):
        counts = np.bincount(reports[support[:, 7] == side].astype(int), minlength=m.columns)
        assert np.count_nonzero(counts) == m.columns // 2
        check_uniform(counts[counts > 0])
    for v in (7, 8):
        check_rows_independent(support[:, v : v + 1], np.array([m.p if v == 7 else m.q]))


def test_rows_that_are_one_off_are_found(monkeypatch):
    """The row of another value: codes from 0, rows from 0, as if row 0, which every column supports, were a value's."""
    m = HadamardResponse(range(16), epsilon=1.0)
    codes = np.arange(200_000) % 16
    expected = np.where(np.eye(16, dtype=bool), m.p, m.q)
    reports = m.perturb(codes)
    check_marginals(codes, supported(m, reports), expected)
    with pytest.raises(AssertionError, match="probability"):
        check_marginals(codes, linalg.hadamard(m.columns)[:16, reports.astype(int)].T == 1, expected)


# ---- keyed noise


def slow_report(m, code, id_word):
    data = block(m, "c", id_word, 0, code, 0, 0, 0)
    agree = int.from_bytes(data[:8], "little") < m._agree
    column = int.from_bytes(data[8:12], "little") * m.columns >> 32
    row = code + 1
    return column if ((row & column).bit_count() % 2 == 0) == agree else column ^ (row & -row)


def test_keyed_reports_are_those_of_the_reference():
    m = HadamardResponse(range(300), epsilon=1.0)
    x, ids = np.arange(2000) % 300, np.arange(2000) * 7
    reports = m.reports.from_arrow(m.perturb(pa.array(x), randomness=Keyed(SECRET, ids, column="c")))
    assert reports.tolist() == [slow_report(m, int(v), int(i)) for v, i in zip(x, ids, strict=True)]


# ---- value object and errors
