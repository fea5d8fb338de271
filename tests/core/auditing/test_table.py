"""The table of audits: which lines it has, and what they share."""

from __future__ import annotations

import pytest

from ldp_core import DBitFlip, ParameterError, PlanError, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_core.auditing.table import run_audit, table
from ldp_core.mechanisms.catalog import CATALOG

PLAN = PrivacyPlan(
    {"crashed": RandomizedResponse(epsilon=1.0), "hour": DBitFlip(range(4), epsilon_infinity=2.0, bits=4)},
)


def first_column(text):
    return [line.split("  ")[0] for line in text.splitlines()]


def test_each_column_and_the_whole_record():
    progress = []
    audits = run_audit(PLAN, trials=4_000, false_alarm=1e-3, progress=progress.append)
    assert first_column(table(audits)) == ["audited", "crashed", "hour", "hour, 4 reports", "the whole record"]
    assert [found.false_alarm for found in audits] == [1e-3 / 4] * 4
    assert not any(found.broken for found in audits)
    assert "hour: 4,000 of 4,000 trials of each input" in progress


def test_no_rounds_and_one_column():
    [found] = run_audit(PLAN, columns=["hour"], trials=4_000, rounds=1)
    assert (found.name, found.claimed, found.false_alarm) == ("hour", 2.0, 1e-6)


def test_a_sampled_plan_has_the_whole_record_only():
    plan = PrivacyPlan.sampled({"a": ["x", "y"], "b": [1, 2]}, epsilon=1.0)
    assert first_column(table(run_audit(plan, trials=4_000))) == ["audited", "the whole record"]


def test_what_is_broken_is_said(monkeypatch):
    monkeypatch.setattr(RandomizedResponse, "perturb", lambda self, values, **_: values)
    audits = run_audit(PLAN, columns=["crashed"], trials=4_000)
    assert audits[0].broken
    assert table(audits).splitlines()[1].endswith("broken")


def test_an_encoding_of_many_values():
    """Reports of many places are told apart by few of them."""
    [found] = run_audit(PrivacyPlan({"x": UnaryEncoding(range(200), epsilon=1.0)}), trials=1_000)
    assert found.verdict == "not broken"


def test_without_a_plan_each_mechanism_is_audited(monkeypatch):
    asked = []
    monkeypatch.setattr("ldp_core.auditing.table.audit", lambda m, *, name, **_: asked.append((name, m)))
    run_audit()
    assert {m for _, m in asked} == {m for entry in CATALOG for m in entry.examples().values()}


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"columns": ["nothing"]}, PlanError, "the plan does not perturb column 'nothing'"),
        ({"trials": 10}, ParameterError, "trials must be an integer, at least 1000"),
        ({"false_alarm": 0}, ParameterError, r"false_alarm must be in \(0, 1\)"),
        ({"false_alarm": 2}, ParameterError, r"false_alarm must be in \(0, 1\)"),
    ],
)
def test_what_cannot_be_audited(options, error, said):
    with pytest.raises(error, match=said):
        run_audit(PLAN, **options)
