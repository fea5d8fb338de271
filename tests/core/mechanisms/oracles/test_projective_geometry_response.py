"""Projective geometry response and its hybrid: every point for every value, other people's numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ldp_core import HybridProjectiveGeometryResponse, ParameterError, ProjectiveGeometryResponse, UnaryEncoding
from ldp_core.mechanisms.oracles import projective_geometry_response
from ldp_core.mechanisms.oracles.projective_geometry_response import best_field

from ....cases import each
from ...checks import slow
from ...enumeration import Every, check_ratio, n_codes
from ...exact.helpers import incidence
from .helpers import domain

PGR, HPGR = ProjectiveGeometryResponse, HybridProjectiveGeometryResponse


def channel(m, code: int) -> list[Fraction]:
    """Exact probability of each report of a code, by its number."""
    table = Every(m.perturb_codes, code).table
    return [table[report] for report in range(len(table))]


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


@each(
    ("field", "d", "unmatched"), [(2, 20, "error"), (3, 13, "none"), (3, 14, "error"), (7, 7, "none"), (7, 8, "error")]
)
def test_the_noise_of_a_sum_is_that_of_all_reports_with_their_probabilities(field, d, unmatched):
    m = PGR(range(d), epsilon=2.0, field=field, unmatched=unmatched)
    weights = np.random.default_rng(1).normal(size=(3, d))
    supports = m.count_reports(np.arange(m.cells, dtype=np.uint64), np.arange(m.cells), m.cells)
    sums = weights @ supports.T
    chances = np.array([channel(m, code) for code in n_codes(m)], float)
    want = sums**2 @ chances.T - (sums @ chances.T) ** 2
    np.testing.assert_allclose(m.sum_variance(weights), want, rtol=1e-9)
    assert m.sum_bounds(weights[0]) == pytest.approx((sums[0].min(), sums[0].max()))
    # Ranges: few reports can be all of one cell, and its neighbors.
    inside = np.array([np.arange(d) < d // 2, (np.arange(d) >= 2) & (np.arange(d) < d - 1), np.ones(d, bool)])
    weights = inside - inside.mean(axis=1, keepdims=True) * m.exhaustive
    inside[2] &= not m.exhaustive  # (of all values nothing is left)
    sums, people = weights @ supports.T, np.arange(float(len(n_codes(m))))
    given = (sums**2 @ chances.T - (sums @ chances.T) ** 2) / m.rates.difference**2
    found = m.moments(weights, people[None])
    np.testing.assert_allclose(found.variances, [given @ people], rtol=1e-9, atol=1e-9)
    for row, few, inner, outer, unlike in zip(given, inside, *found[1:4], strict=True):
        of = np.pad(few, (0, len(row) - d))
        want = max(row[~of].mean(), row[-1]) if unmatched == "none" else row[~of].mean()  # (all may have no value)
        assert (inner, outer) == pytest.approx((row[of].mean() if of.any() else want, want), abs=1e-9)
        assert unlike == pytest.approx(((row - np.where(of, inner, outer)) ** 2).sum(), abs=1e-9)
    np.testing.assert_allclose(found.reach, np.ptp(sums, axis=1))


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


@each("epsilon", [0.5, 1.0, 2.0, 3.0, 4.0, 5.0])
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


def test_published_error_of_the_hybrid():
    m = HPGR(range(22000), epsilon=5.0)
    assert (m.field, m.blocks, m.space.points) == (5, 30, 781)
    own, same, other = (10000 * float(x.variance) / (m.p - m.q) ** 2 for x in m._chances)
    assert abs((own + 780 * same + (22000 - 781) * other) / 22000 - 348.9148) < 3 * 1.1288


HYBRIDS = [(2, 1, 3, "error"), (2, 2, 4, "none"), (2, 3, 9, "other"), (3, 2, 7, "error"), (3, 2, 20, "none")]


@each(("field", "blocks", "d", "policy"), HYBRIDS)
@each("epsilon", [1e-6, 1.0, 40.0])
def test_means_variances_and_ratios_over_all_points_of_the_hybrid(field, blocks, d, policy, epsilon):
    m = HPGR(domain(d, policy), epsilon=epsilon, field=field, blocks=blocks)
    supports, b = incidence(field, m.space.dimension), m.space.points
    less, in_block = Fraction(m.space.intersection, m.space.support), -(-(d + (policy == "none")) // blocks)
    p, q = m.support_probabilities()
    own, same, other = m._chances
    tables = [channel(m, code) for code in n_codes(m)]
    for code, table in enumerate(tables):
        for v in range(d):
            k, w = divmod(v, in_block)
            parts = [supports[w, y % b] - less if y // b == k else Fraction(0) for y in range(m.cells)]
            mean = sum(x * t for x, t in zip(parts, table, strict=True))
            assert mean == (p[v] if v == code else q[v])  # the same q for both kinds of other values
            chances = own if v == code else same if k == code // in_block else other
            assert chances.variance == sum(x**2 * t for x, t in zip(parts, table, strict=True)) - mean**2
    check_ratio(m, [dict(enumerate(table)) for table in tables])
