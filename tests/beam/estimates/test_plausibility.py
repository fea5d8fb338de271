"""Estimates that no data give: counted each time, and said once."""

from __future__ import annotations

import logging

import pyarrow as pa

import ldp_beam
from ldp_beam.estimates.transforms import _LOG
from ldp_core import PrivacyPlan, RandomizedResponse, UnaryEncoding

from ..helpers import counters, run_with_result

FLAG = RandomizedResponse(epsilon=1.0)
OTHER = UnaryEncoding(range(8), epsilon=3.0)
UNPERTURBED = pa.record_batch({"x": [True] * 6000, "g": ["a", "b", "c"] * 2000})


def test_values_that_were_never_perturbed_are_counted_and_logged_once(caplog):
    caplog.set_level(logging.WARNING, _LOG.name)
    (rows,), result = run_with_result(ldp_beam.Histogram("x", FLAG, by="g"), [UNPERTURBED])
    assert len(rows.elements) == 6
    assert counters(result)["implausible_estimates"] == 3
    [said] = [record.getMessage() for record in caplog.records if record.name == _LOG.name]
    assert "column 'x': implausible for randomized_response, epsilon 1" in said


def test_reports_are_not_suspected(caplog):
    plan = PrivacyPlan({"x": FLAG}, keep=["g"])
    _, result = run_with_result(ldp_beam.Histogram("x", FLAG, by="g"), [plan.perturb(UNPERTURBED)])
    _, private = run_with_result(ldp_beam.PrivateHistogram("x", FLAG, by="g"), [UNPERTURBED])
    assert "implausible_estimates" not in {**counters(result), **counters(private)}
    assert not [record for record in caplog.records if record.name == _LOG.name]


def test_single_records_of_another_epsilon_are_noticed():
    """They have no schema that could say which mechanism made them."""
    reports = UnaryEncoding(range(8), epsilon=1.0).perturb(list(range(8)) * 500).tolist()
    _, result = run_with_result(ldp_beam.Histogram("x", OTHER), [{"x": report} for report in reports])
    assert counters(result)["implausible_estimates"] == 1
