"""Longitudinal unary encoding: the numbers of papers and peers, and rounds that are drawn wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_core import Domain, LongitudinalUnaryEncoding, Secret
from ldp_core.exact import bits

from ....cases import each
from ...checks import check_binomial
from .helpers import TIMES, VARIANTS, check_permanents, collected, ue

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
