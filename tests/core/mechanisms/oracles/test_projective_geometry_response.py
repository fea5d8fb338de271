"""Projective geometry response and its hybrid: every point for every value, other people's numbers."""

from __future__ import annotations

import math

import pytest

from ldp_core import ParameterError, UnaryEncoding
from ldp_core.mechanisms.oracles import projective_geometry_response
from ldp_core.mechanisms.oracles.projective_geometry_response import best_field

from ....cases import each
from ...checks import slow
from .projective_helpers import PGR

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


# ---- value objects and errors


def test_spaces_that_are_too_large():
    with pytest.raises(ParameterError, match=r"2\*\*31"):
        PGR(range(40_000), epsilon=1, field=32749)
