"""Examples of both projective geometry responses, and what their reports say."""

from __future__ import annotations

from fractions import Fraction

from ldp_core import HybridProjectiveGeometryResponse, ProjectiveGeometryResponse

from ...enumeration import Every

PGR, HPGR = ProjectiveGeometryResponse, HybridProjectiveGeometryResponse


def channel(m, code: int) -> list[Fraction]:
    """Exact probability of each report of a code, by its number."""
    table = Every(m.perturb_codes, code).table
    return [table[report] for report in range(len(table))]
