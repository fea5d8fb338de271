"""Examples of both projective geometry responses, and what their reports say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldp_core import Domain, HybridProjectiveGeometryResponse, ProjectiveGeometryResponse

from ...enumeration import Every
from ...exact.helpers import incidence

PGR, HPGR = ProjectiveGeometryResponse, HybridProjectiveGeometryResponse


def channel(m, code: int) -> list[Fraction]:
    """Exact probability of each report of a code, by its number."""
    table = Every(m.perturb_codes, code).table
    return [table[report] for report in range(len(table))]


# ---- counting

MECHANISMS = {
    "PGR": PGR(range(100), epsilon=1.5),
    "PGR none": PGR(Domain(range(30), unmatched="none"), epsilon=1.0, field=5),
    "PGR other": PGR(Domain(range(12), unmatched="other"), epsilon=1.0, field=3),
    "HPGR": HPGR(range(50), epsilon=2.0, field=3),
    "HPGR none": HPGR(Domain(range(40), unmatched="none"), epsilon=1.0, field=2, blocks=7),
    "HPGR one block": HPGR(Domain(range(6), unmatched="other"), epsilon=1.0, field=2, blocks=1),
}


def supported(m, reports) -> np.ndarray:
    """bool[n, d], by the matrix."""
    reports, supports = np.asarray(reports).astype(int), incidence(m.field, m.space.dimension)
    if isinstance(m, PGR):
        return supports[: m.domain.size, reports].T
    size = -(-(m.domain.size + (m.domain.unmatched == "none")) // m.blocks)
    block, point = np.divmod(reports, m.space.points)
    value_block, value = np.divmod(np.arange(m.domain.size), size)
    return supports[value[None], point[:, None]] & (block[:, None] == value_block)
