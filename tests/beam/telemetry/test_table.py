"""What a job prints."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from ldp_beam import HistogramRow
from ldp_beam.io import estimate_schema
from ldp_beam.telemetry.table import estimate_tables
from ldp_core import HistogramEstimate, PrivacyPlan, RandomizedResponse


def test_half_of_an_interval_that_is_not_symmetric_is_half_of_it():
    row = dict.fromkeys(estimate_schema(HistogramRow).names) | {
        "window_start": datetime(2026, 1, 1, tzinfo=UTC),
        "column_name": "os",
    }
    row |= {"key": [], "value": "ios", "count": 50.0, "low": 0.0, "high": 60.0, "n": 100, "confidence": 0.95}
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    table = pa.Table.from_pylist([row], estimate_schema(HistogramRow))
    text = "".join(estimate_tables({"os": table}, {"os": HistogramEstimate()}, plan))
    assert "50 ± 30" in text
