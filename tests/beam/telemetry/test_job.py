"""The job refuses what it could not do before it reads anything."""

from __future__ import annotations

import pytest

from ldp_beam.telemetry.job import TelemetryJob
from ldp_core import (
    HadamardCountMeanSketch,
    InputError,
    LongitudinalUnaryEncoding,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
)


def test_the_job_refuses_permanent_answers_before_it_reads_anything():
    plan = PrivacyPlan({"os": LongitudinalUnaryEncoding(["ios", "web"], epsilon_infinity=2.0, epsilon_1=1.0)})
    with pytest.raises(PlanError, match=r"keyed noise: give --secret-file FILE or --secret-env NAME, and --id COLUMN"):
        TelemetryJob(plan, ("nothing.parquet",), "time", "1d", "out")


def test_the_job_refuses_an_output_that_is_a_file(tmp_path):
    (tmp_path / "out").touch()
    plan = PrivacyPlan({"os": RandomizedResponse(epsilon=1.0)})
    with pytest.raises(InputError, match="the output must be a directory"):
        TelemetryJob(plan, ("nothing.parquet",), "time", "1d", str(tmp_path / "out"))


def test_a_sketch_without_candidates_says_how_to_write_them():
    for mechanism, name in [
        (HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32), "candidates"),
        (Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75), "rappor_candidates"),
    ]:
        with pytest.raises(PlanError, match=f'mechanism = "{name}"'):
            TelemetryJob(PrivacyPlan({"word": mechanism}), ("nothing.parquet",), "time", "1d", "out")
        assert mechanism.over(["rome"]).to_dict()["mechanism"] == name
