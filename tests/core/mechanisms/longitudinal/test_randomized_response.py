"""Longitudinal randomized response: the chain of two rounds against the papers."""

from __future__ import annotations

import math

import pytest

from ....cases import each
from .helpers import grr, loloha, paper_p2


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
