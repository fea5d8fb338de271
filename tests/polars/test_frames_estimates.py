"""All estimates of a mixed plan."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    CountMeanSketch,
    HeavyHitters,
    HeavyHittersEstimate,
    HistogramEstimate,
    Hybrid,
    MeanEstimate,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    SquareWave,
)

WORDS = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8)
MIXED = PrivacyPlan(
    {
        "level": RandomizedResponse([1, 2, 10], epsilon=3.0),
        "crashed": RandomizedResponse(epsilon=3.0),
        "age": Hybrid((0, 120), epsilon=3.0),
        "delay": SquareWave((0, 10), epsilon=3.0, buckets=16),
        "word": WORDS,
    },
    keep=["day", "time"],
)
PEOPLE = pl.DataFrame(
    {
        "level": [1, 2, 10, 10] * 2000,
        "crashed": [True, False] * 4000,
        "age": [30, 50] * 4000,
        "delay": [1.0, 9.0] * 4000,
        "word": ["rome"] * 5000 + ["oslo"] * 3000,
        "day": [1, 2] * 4000,
        "time": [dt.datetime(2026, 1, 1 + i % 2) for i in range(8000)],
    }
)


def test_every_column_of_a_mixed_plan_has_its_estimate(run):
    reports = PEOPLE.ldp.perturb(MIXED)
    found = reports.ldp.estimates(MIXED, by="day")
    assert list(found) == list(MIXED.columns)
    for name, ask in {
        "level": ldp_polars.histogram,
        "crashed": ldp_polars.histogram,
        "delay": ldp_polars.distribution,
        "word": ldp_polars.heavy_hitters,
    }.items():
        groups = reports.group_by("day").agg(ask(name)).sort("day")
        expected = groups.explode(name).unnest(name)
        assert found[name].equals(expected.select(found[name].columns))
        assert found[name].columns[-1] == "n"
    means = reports.group_by("day").agg(ldp_polars.mean("age")).sort("day").unnest("age")
    assert found["age"].equals(means)
    lazy = reports.lazy().ldp.estimates(MIXED, by="day")
    assert all(table.collect().equals(found[name]) for name, table in lazy.items())


def test_values_have_their_own_type():
    found = PEOPLE.ldp.perturb(MIXED).ldp.estimates(MIXED)
    assert found["level"]["value"].to_list() == [1, 2, 10]
    assert found["crashed"]["value"].to_list() == [False, True]
    assert found["word"]["value"].to_list() == ["rome", "oslo"]


def test_what_is_asked_of_a_column():
    reports = PEOPLE.ldp.perturb(MIXED)
    ask = {"delay": MeanEstimate(), "word": HeavyHittersEstimate(k=1), "level": HistogramEstimate(simultaneous=True)}
    found = reports.ldp.estimates(MIXED, window="1d", event_time="time", ask=ask)
    assert found["delay"].columns == ["window_start", "window_end", "mean", "standard_error", "low", "high", "n"]
    assert found["word"].height == 2
    assert found["level"]["n"].unique().to_list() == [4000]
    with pytest.raises(ParameterError, match="a mean needs"):
        reports.ldp.estimates(MIXED, ask={"level": MeanEstimate()})
    with pytest.raises(PlanError, match=r"ask names columns \['other'\]"):
        reports.ldp.estimates(MIXED, ask={"other": MeanEstimate()})
    with pytest.raises(PlanError, match="has columns"):
        reports.with_columns(low=1).ldp.estimates(MIXED, by="low")


def test_where_nothing_was_found_there_is_no_row(run):
    plan = PrivacyPlan({"word": WORDS}, keep=["day"])
    few = PEOPLE.with_columns(day=pl.when(pl.int_range(pl.len()) < 3).then(3).otherwise("day")).ldp.perturb(plan)
    found = run(few, lambda f: f.ldp.estimates(plan, by="day")["word"])
    assert found["day"].unique().sort().to_list() == [1, 2]
    assert not found["value"].has_nulls()


def test_a_sketch_without_candidates_is_not_left_out_silently():
    plan = PrivacyPlan({"page": CountMeanSketch("str", epsilon=1.0)})
    reports = pl.DataFrame({"page": ["a"]}).ldp.perturb(plan)
    with pytest.raises(PlanError, match=r"column 'page' has no estimate.*candidates"):
        reports.ldp.estimates(plan)
