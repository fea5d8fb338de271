"""Hadamard response: every column for every value; known answers; the transform against the matrix itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import HadamardResponse, Keyed

from ....cases import each
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
    assert m.realized_epsilon == pytest.approx(epsilon, rel=1e-12)


# ---- every outcome, through the code


CASES = [(2, "error"), (3, "other"), (3, "none"), (4, "error"), (4, "none"), (7, "error"), (8, "none"), (9, "other")]


@each(("d", "policy"), CASES)
@each("epsilon", [1e-6, 1.0, 50.0])
def test_probabilities_and_ratios_over_all_columns(d, policy, epsilon):
    m = HadamardResponse(domain(d, policy), epsilon=epsilon)
    check_oracle(m, reports=m.columns)


# ---- counting


# ---- samples


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
