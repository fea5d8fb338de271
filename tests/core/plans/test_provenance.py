"""Metadata of typed reports."""

from __future__ import annotations

import pytest

from ldp_core import ReportError
from ldp_core.plans.provenance import described


@pytest.mark.parametrize("metadata", ["x", "[]", "1", "null"])
def test_metadata_of_typed_reports_are_a_table(metadata):
    with pytest.raises(ReportError, match=r"ldp\.report"):
        described(metadata)
