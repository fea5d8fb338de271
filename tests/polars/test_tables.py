"""Tables of two columns of a frame: what the core says, in groups and windows, eagerly and lazily."""

import datetime as dt
import re

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    DBitFlip,
    Hybrid,
    Joint,
    LdpWarning,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
    UnaryEncoding,
)

from ..cases import case

VERSIONS = ["1", "2", "3"]
PLAN = PrivacyPlan(
    {
        "version": UnaryEncoding(VERSIONS, epsilon=2.0),
        "crashed": RandomizedResponse(epsilon=2.0),
        "level": UnaryEncoding(range(9), epsilon=2.0),
    },
    keep=["country", "time"],
)
N = 6000
RNG = np.random.default_rng(7)
PEOPLE = pl.DataFrame(
    {
        "version": RNG.choice(VERSIONS, N),
        "level": RNG.integers(0, 9, N),
        "country": RNG.choice(["fr", "it"], N),
        "time": [dt.datetime(2024, 1, 1 + int(day)) for day in RNG.integers(0, 3, N)],
    }
).with_columns(crashed=pl.Series(RNG.random(N)) < pl.when(pl.col("version") == "3").then(0.5).otherwise(0.02))
REPORTS = PEOPLE.ldp.perturb(PLAN, packed=True, seed=3)
PAIR = Joint(PLAN.columns, ("version", "crashed"))


def expected(frame: pl.DataFrame, **asked):
    return PAIR.estimate(PAIR.tally(frame), **asked).to_polars()


def test_what_the_core_says():
    found = REPORTS.ldp.table("version", "crashed")
    assert found.equals(expected(REPORTS))
    assert found.schema["crashed"] == pl.Boolean
    for engine in ("in-memory", "streaming"):
        lazy = REPORTS.lazy().ldp.table("version", "crashed", plan=PLAN, confidence=0.9, population="many")
        assert lazy.collect(engine=engine).equals(expected(REPORTS, confidence=0.9, population="many"))
    plain = REPORTS.with_columns(pl.col(name).ext.storage() for name in PAIR.names)
    with pytest.warns(LdpWarning, match="assume_reports"):
        assert plain.ldp.table("version", "crashed", plan=dict(PLAN.columns), assume_reports=True).equals(found)
    assert ldp_polars.table(REPORTS, "crashed", "version").columns[:2] == ["crashed", "version"]


def test_the_rates_are_those_of_the_people():
    """By a public column they would be 2, 2 and 50 %; by the reported version they are something in between."""
    found = REPORTS.ldp.table("version", "crashed").filter(crashed=True)
    true = PEOPLE.group_by("version").agg(pl.col("crashed").mean()).sort("version")["crashed"]
    assert ((found["rate_low"] <= true) & (true <= found["rate_high"])).all()
    assert (found["rate_high"] - found["rate_low"] < 0.25).all()


def test_three_columns():
    """What the core says, lazily and in groups; a row a cell, the last column's rate."""
    names = ("level", "version", "crashed")
    joint = Joint(PLAN.columns, names)
    found = REPORTS.ldp.table(*names)
    assert found.equals(joint.estimate(joint.tally(REPORTS)).to_polars())
    assert (found.columns[:4], found.height) == ([*names, "count"], 54)
    lazy = REPORTS.lazy().ldp.table(*names, plan=PLAN, by="country", population="many").collect(engine="streaming")
    for (country,), rows in lazy.group_by("country"):
        expected = joint.estimate(joint.tally(REPORTS.filter(country=country)), population="many")
        assert rows.drop("country").equals(expected.to_polars())


def test_groups_and_windows():
    by = REPORTS.ldp.table("version", "crashed", by="country")
    for (country,), rows in by.group_by("country"):
        assert rows.drop("country").equals(expected(REPORTS.filter(country=country)))
    windows = REPORTS.ldp.table("version", "crashed", window="1d", event_time="time")
    assert windows.columns[:2] == ["window_start", "window_end"]
    assert windows["n"].sum() == 6 * N
    assert REPORTS.head(0).ldp.table("version", "crashed")["n"].to_list() == [0] * 6
    assert REPORTS.head(0).ldp.table("version", "crashed", by="country").height == 0


def test_rows_that_answer_no_pair_are_refused():
    """Without plan= those that a left join adds were counted, with it refused."""
    columns = {"version": VERSIONS, "crashed": [False, True], "country": ["fr", "it"]}
    plan = PrivacyPlan.pairs(columns, epsilon=2.0, keep=["id"])
    reports = PEOPLE.with_row_index("id").ldp.perturb(plan)
    joined = pl.DataFrame({"id": range(2 * N)}, schema={"id": pl.UInt32}).join(reports, on="id", how="left")
    for given in ({}, {"plan": plan}):
        assert reports.ldp.table("version", "crashed", **given)["n"].to_list() == [N] * 6
        for wrong in (joined, joined.lazy()):
            with pytest.raises(ReportError, match="rows have no answer, or several"):
                wrong.ldp.table("version", "crashed", **given).lazy().collect()
    one = reports.select("version_crashed").ldp.table("version", "crashed")  # which is all that there is
    assert one.equals(reports.ldp.table("version", "crashed"))


def test_what_is_refused():
    sampled = PrivacyPlan.sampled({"version": VERSIONS, "crashed": [False, True]}, epsilon=2.0)
    other = {**PLAN.columns, "crashed": RandomizedResponse(epsilon=1.0)}
    for call, error, message in (
        (lambda: REPORTS.ldp.table("version", "version"), ParameterError, "each of them once"),
        (lambda: REPORTS.ldp.table("version", "country"), ParameterError, r"got \['country'\]"),
        (lambda: REPORTS.ldp.table("version", "nowhere", plan=PLAN), ParameterError, r"got \['nowhere'\]"),
        (lambda: REPORTS.ldp.table("version", "crashed", plan="plan"), PlanError, "expected a PrivacyPlan"),
        (lambda: REPORTS.ldp.table("version", "crashed", plan=other), MechanismMismatchError, "'crashed'"),
        (lambda: REPORTS.ldp.table("version", "crashed", by="version"), PlanError, "columns of its own|of its own"),
        (lambda: PEOPLE.ldp.table("version", "crashed"), PlanError, "give the plan that made them"),
        (lambda: PEOPLE.ldp.perturb(sampled).ldp.table("version", "crashed"), ParameterError, "answers one of 2"),
        (
            lambda: REPORTS.with_columns(pl.col("crashed").shift(1)).ldp.table("version", "crashed"),
            ReportError,
            "1 of 6000 reports are null",
        ),
        (lambda: REPORTS.ldp.table("version", "crashed", confidence=2), ParameterError, "confidence"),
    ):
        with case(message), pytest.raises(error, match=message):
            call()


def test_the_remedy_of_a_table_of_a_number_gives_its_mean():
    """It named .ldp.ratio of both weights, which gave 2.2 in place of 0.7."""
    plan = PrivacyPlan({"os": RandomizedResponse(["a", "b"], epsilon=3.0), "x": Hybrid((0, 1), epsilon=3.0)})
    people = pl.DataFrame({"os": ["a", "b", "b", "b"] * 10_000, "x": [0.7, 0.3, 0.3, 0.3] * 10_000})
    reports = people.ldp.perturb(plan.seeded(1))
    with pytest.raises(ParameterError) as refused:
        reports.ldp.table("os", "x", plan=plan)
    remedy = re.search(r"take (\(.*?\)\.ldp\.ratio\(.*?\))", str(refused.value))[1]
    w, v = (pl.col(name).ldp.weight(value) for name, value in (("os", "a"), ("x", None)))
    found = reports.select(eval(remedy, {"w": w, "v": v})).item()
    assert found["ratio"] == pytest.approx(0.7, abs=5 * found["standard_error"])


def test_a_column_at_two_times_has_no_table_under_one_keyed_noise():
    """An unchanged value has one report: of 90 % who stay, 144 % were said to, at epsilon 2."""
    m, noise = RandomizedResponse(epsilon=2.0), {"key": Secret.generate(), "id": "user"}
    users = np.arange(20_000)
    first = users % 10 < 3
    values = {"x": first, "y": first ^ (users % 11 == 0)}
    times = [pl.DataFrame({"user": users, "x": column}) for column in values.values()]

    def joined(tags):
        made = [
            f.select("user", pl.col("x").ldp.perturb(m, tag=tag, **noise)) for f, tag in zip(times, tags, strict=True)
        ]
        return made[0].join(made[1].rename({"x": "y"}), on="user")

    for frame in (joined([None, None]), joined([None, None]).lazy(), joined(["first", "second"])):
        with pytest.raises(ParameterError, match=r"\['x', 'y'\] have keyed noise of one mechanism.*tag= of its own"):
            frame.ldp.table("x", "y", repeats=1)
    m = DBitFlip([False, True], epsilon_infinity=2.0, bits=1)  # it has no table at all: weights, the error said
    with pytest.raises(ParameterError, match="keyed noise of one mechanism"):
        joined([None, None]).ldp.table("x", "y", repeats=1)
    m = RandomizedResponse(epsilon=2.0)
    told = joined(["first", "second"]).ldp.table("x", "y", plan={"x": m, "y": m}, repeats=1, confidence=1 - 1e-9)
    stay = told.row(by_predicate=pl.col("x") & pl.col("y"), named=True)
    assert stay["rate_low"] < values["y"][first].mean() < stay["rate_high"]
    plan = PrivacyPlan({"x": m, "y": m}, keep=["user"])
    both = pl.DataFrame({"user": users, **values}).ldp.perturb(plan, **noise)
    assert both.ldp.table("x", "y", plan=plan, repeats=1)["count"].sum() == pytest.approx(20_000)
