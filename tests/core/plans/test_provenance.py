"""Metadata of typed reports."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ldp_core import LocalHashing, PrivacyPlan, ReportError
from ldp_core.limits import DEFAULT
from ldp_core.plans import provenance
from ldp_core.plans.provenance import described

from ...cases import each


@each("metadata", ["x", "[]", "1", "null"])
def test_metadata_of_typed_reports_are_a_table(metadata):
    with pytest.raises(ReportError, match=r"ldp\.report"):
        described(metadata)


def test_a_large_plan_of_one_s_own_has_no_limits(monkeypatch):
    plan = PrivacyPlan({"page": LocalHashing(range(DEFAULT.labels + 1), epsilon=1.0)})
    reports = plan.perturb(pa.record_batch({"page": [1, 2, 3]}))
    plan.check_reports(reports.schema)
    monkeypatch.setattr(provenance, "_own", {})  # as if they came from elsewhere
    with pytest.raises(ReportError, match="labels"):
        plan.check_reports(reports.schema)
