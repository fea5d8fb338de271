"""Projective geometry response and its hybrid: every point for every value, other people's numbers."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import Keyed, ParameterError, UnaryEncoding
from ldp_core.mechanisms.oracles import projective_geometry_response
from ldp_core.mechanisms.oracles.projective_geometry_response import ProjectiveSpace, best_field

from ....cases import each
from ...checks import check_marginals, slow
from ...enumeration import Every, check_oracle
from ...exact.helpers import incidence
from ...keyed_reference import SECRET, block
from .helpers import domain, some_codes
from .projective_helpers import MECHANISMS, PGR, channel, supported

# ---- known answers


@each("epsilon", [0.5, 1.0, 2.0, 5.0])
@each(("field", "d"), [(2, 20), (3, 100), (7, 1000), (149, 150), (149, 2000)])
def test_closed_forms(epsilon, field, d):
    m = PGR(range(d), epsilon=epsilon, field=field)
    t = next(t for t in range(2, 20) if sum(field**k for k in range(t)) >= d)
    points, s, c = (sum(field**k for k in range(k)) for k in (t, t - 1, t - 2))
    e = math.exp(epsilon)
    p, q = e * s / ((e - 1) * s + points), (s + (e - 1) * c) / ((e - 1) * s + points)
    n_var = (1 + e * c / field ** (t - 2)) * (e - 1 + field) / (e - 1) ** 2
    assert (m.p, m.q, m.variance(1)) == tuple(pytest.approx(x, rel=1e-9) for x in (p, q, n_var))
    assert m.realized_epsilon == pytest.approx(epsilon, rel=1e-12)
    assert m.variance(1) < (e - 1 + field) ** 2 / ((field - 1) * (e - 1) ** 2)  # of local hashing with g = F


# Mean squared errors of all 22000 counts, n = 10000 people who all have value 0: means and standard errors of the 300
# trials in minilek/private_frequency_oracles, experiments/results/spike7.mse (epsilon 5) and spike8.mse (1.386).
# Its q is the first prime from e^epsilon + 1 on; in the hybrid q = 5 and h = 30, and 781 values are in a block.
PUBLISHED = [(5.0, 151, 272.7334, 0.9126), (1.386, 5, 17765.16, 11.91)]


@each(("epsilon", "field", "mean", "error"), PUBLISHED)
def test_published_errors(epsilon, field, mean, error):
    m = PGR(range(22000), epsilon=epsilon, field=field)
    ours = (21999 * m.variance(10000) + m.variance(10000, 10000)) / 22000
    assert abs(ours - mean) < 3 * error
    assert abs(ours - mean) < 0.01 * mean
    other = PGR(range(22000), epsilon=epsilon * 1.02, field=field)
    assert abs(other.variance(10000) - mean) > 3 * error  # the check has power


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0, 4.0, 5.0])
@pytest.mark.parametrize("d", [2, 16, 128, 1024, slow(22_000)])
def test_the_field_chosen_is_nearly_as_good_as_the_optimum(epsilon, d):
    """The price of a prime: at most 2.5 % above OUE."""
    m = PGR(range(d), epsilon=epsilon)
    assert m.variance(1) <= 1.025 * UnaryEncoding(range(d), epsilon=epsilon).variance(1)
    assert m.space.points >= d


def test_large_domains_get_a_field_that_they_can_afford():
    for values, epsilon in ((10**5, 5.0), (10**6, 3.0), (10**7, 8.0)):
        field = best_field(values, epsilon)
        space = projective_geometry_response.projective_space(field, values)
        assert space.points * field * space.dimension <= 2**30 * (1 if values < 10**7 else 2)


CASES = [(2, 2, "error"), (2, 3, "none"), (3, 3, "other"), (2, 7, "error"), (3, 12, "none"), (5, 6, "error")]


@each(("field", "d", "policy"), CASES)
@each("epsilon", [1e-6, 1.0, 40.0])
def test_probabilities_and_ratios_over_all_points(field, d, policy, epsilon):
    m = PGR(domain(d, policy), epsilon=epsilon, field=field)
    check_oracle(m, reports=m.space.points)
    supports, p = incidence(field, m.space.dimension), m.support_probabilities()[0][0]
    assert sum(channel(m, 0)[y] for y in np.flatnonzero(supports[0])) == p


# ---- samples


def test_a_product_of_the_wrong_digits_is_found(monkeypatch):
    m = PGR(range(16), epsilon=1.0, field=3)
    codes = some_codes(m, 100_000)
    expected = np.where(np.eye(16, dtype=bool), m.p, m.q)
    real = ProjectiveSpace._product
    monkeypatch.setattr(ProjectiveSpace, "_product", lambda self, a, b: real(self, a, b * 2))
    with pytest.raises(AssertionError, match="probability"):
        check_marginals(codes, supported(m, m.perturb(codes)), expected)


# ---- keyed noise


def below(words: bytes, d: int) -> int:
    wide = int.from_bytes(words[:4], "little") * d
    assert wide % 2**32 >= 2**32 % d, "drawn again"
    return wide >> 32


@each("name", ["PGR", "HPGR"])
def test_keyed_reports_are_those_of_the_reference(name):
    m = MECHANISMS[name]
    x, ids = np.arange(300) % m.domain.size, np.arange(300) * 7
    reports = m.reports.from_arrow(m.perturb(pa.array(x), randomness=Keyed(SECRET, ids, column="c")))
    cells = m.space.points if isinstance(m, PGR) else m.points
    for report, code, id_word in zip(reports.tolist(), x.tolist(), ids.tolist(), strict=True):
        first, second = (block(m, "c", id_word, 0, code, lane, 0, 0) for lane in (0, 2))
        agree = int.from_bytes(first[:8], "little") < m._agree
        inside, outside = below(first[8:], m.space.support), below(second, cells - m.space.support)
        assert Every(m.perturb_codes, code, given={0: agree, 1: inside, 2: outside}).reports.tolist() == [report]
        assert supported(m, [report])[0, code] == agree


# ---- value objects and errors


def test_spaces_that_are_too_large():
    with pytest.raises(ParameterError, match=r"2\*\*31"):
        PGR(range(40_000), epsilon=1, field=32749)
