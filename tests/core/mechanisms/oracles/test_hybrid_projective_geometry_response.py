"""The hybrid projective geometry response; what it shares with the other one is in that one's tests."""

from __future__ import annotations

from fractions import Fraction

from ....cases import each
from ...enumeration import check_ratio, n_codes
from ...exact.helpers import incidence
from .helpers import domain
from .projective_helpers import HPGR, channel


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
