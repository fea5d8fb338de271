"""Frames, groups and windows compared: the pairs are those of `ldp_core.compare`, lazily and streaming too."""

import datetime as dt
import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ldp_polars
from ldp_core import (
    HadamardCountMeanSketch,
    Hybrid,
    LdpWarning,
    LongitudinalUnaryEncoding,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    PrivSet,
    RandomizedResponse,
    Secret,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
    compare,
    compare_persons,
    compare_quantiles,
)

PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(["ios", "android", "web"], epsilon=1.0),
        "crashed": RandomizedResponse(epsilon=1.0),
        "minutes": Hybrid((0, 60), epsilon=1.0),
    },
    keep=["country", "day"],
)


def frame(n, seed):
    generator = np.random.default_rng(seed)
    records = {
        "os": generator.choice(["ios", "android", "web"], n),
        "crashed": generator.random(n) < 0.2,
        "minutes": generator.random(n) * 60,
        "country": generator.choice(["de", "fr", "it"], n),
        "day": [dt.date(2024, 1, 1) + dt.timedelta(days=int(k)) for k in generator.integers(0, 28, n)],
    }
    return unmarked(pl.DataFrame(records), PLAN, seed)


def unmarked(records, plan, seed):
    """Reports whose dtype does not say that they are seeded."""
    made, fresh = records.ldp.perturb(plan, seed=seed), records.ldp.perturb(plan).schema
    return made.with_columns(pl.col(name).ext.storage().ext.to(fresh[name]) for name in plan.columns)


ONE, TWO = frame(900, 1), frame(700, 2)


def expected(before, after, **asked):
    """One pair of frames by the core, column by column, without names."""
    out = []
    for name, m in PLAN.columns.items():
        found = compare(m, *(m.tally(side[name].ext.storage().to_arrow()) for side in (before, after)), **asked)
        rows = found.to_polars().with_columns(pl.lit(name).alias("column_name"))
        out.append(rows.with_columns(pl.col("value").cast(pl.String)))
    return pl.concat(out).select("column_name", "value", pl.exclude("column_name", "value"))


def test_two_frames():
    found = ONE.ldp.compare(PLAN, other=TWO, anytime=500)
    assert_frame_equal(found, expected(ONE, TWO, anytime=500))
    assert_frame_equal(ONE.lazy().ldp.compare(PLAN, other=TWO, anytime=500).collect(engine="streaming"), found)


def test_frames_with_a_seed_of_their_own_are_compared_as_the_error_says():
    """It said to give each frame such a plan, also of those that had one."""
    people = pl.DataFrame({"crashed": [True, False] * 500})
    sides = [people.ldp.perturb(PrivacyPlan({"crashed": PLAN["crashed"]}, seed=seed)) for seed in (1, 2)]
    plan = PrivacyPlan({"crashed": PLAN["crashed"]})
    with pytest.raises(ParameterError, match="same_people=False if row_id=, a seed of its own for each frame"):
        sides[0].ldp.compare(plan, other=sides[1])
    assert sides[0].ldp.compare(plan, other=sides[1], same_people=False).height == 2


def test_two_frames_by_groups_of_which_one_is_missing():
    only = TWO.filter(pl.col("country") != "it")
    found = ONE.ldp.compare(PLAN, other=only, by="country")
    for country in ("de", "fr"):
        sides = (side.filter(pl.col("country") == country) for side in (ONE, TWO))
        assert_frame_equal(found.filter(pl.col("country") == country).drop("country"), expected(*sides))
    gone = found.filter(pl.col("country") == "it")
    assert gone["low"].to_list() == [-math.inf] * 6
    assert gone["difference"].null_count() == gone["after"].null_count() == 6
    assert set(gone["n_after"]) == {0}
    assert found.select(pl.col(pl.Float64).is_nan().any()).row(0) != (True,)


def test_lazy_groups_of_two_frames_are_in_order():
    """Polars left out the sorting before a join, and groups were in any order."""
    found = ONE.ldp.compare(PLAN, other=TWO, by="day")
    assert found.filter(column_name="minutes")["day"].is_sorted()
    assert_frame_equal(ONE.lazy().ldp.compare(PLAN, other=TWO.lazy(), by="day").collect(), found)


def test_groups_against_a_baseline():
    sides = {country: ONE.filter(pl.col("country") == country) for country in ("de", "fr", "it")}
    for baseline, first in ((None, "de"), ("fr", "fr")):
        found = ONE.lazy().ldp.compare(PLAN, by="country", baseline=baseline).collect()
        assert set(found["compared_with"]) == {first}
        assert set(found["country"]) == set(sides) - {first}
        for country in set(sides) - {first}:
            rows = found.filter(pl.col("country") == country).drop("country", "compared_with")
            assert_frame_equal(rows, expected(sides[first], sides[country]))
    with pytest.raises((ParameterError, pl.exceptions.ComputeError), match="no reports of the baseline"):
        ONE.ldp.compare(PLAN, by="country", baseline="es")


def test_each_window_against_the_one_before():
    kept = ONE.filter(pl.col("day").dt.day() != 10)
    weeks = [dt.date(2024, 1, d) for d in (1, 8, 15, 22)]
    found = kept.ldp.compare(PLAN, by="country", window="1w", event_time="day")
    assert set(found["window_start"]) == set(weeks[1:])
    for country in ("de", "fr"):
        for before, start in pairwise(weeks):
            of_country = kept.filter(pl.col("country") == country)
            sides = (of_country.filter(pl.col("day").dt.truncate("1w") == week) for week in (before, start))
            rows = found.filter(pl.col("country") == country, pl.col("window_start") == start)
            assert set(rows["compared_with"]) == {before}
            assert_frame_equal(rows.drop("country", "window_start", "window_end", "compared_with"), expected(*sides))
    alone = kept.ldp.compare(PLAN, window="1w", event_time="day")
    assert alone.columns[:4] == ["column_name", "window_start", "window_end", "compared_with"]
    assert len(alone) == 3 * 6


def test_reports_without_a_time_are_said_and_compared_with_nothing():
    kept = ONE.with_columns(pl.when(pl.col("crashed").is_first_distinct().not_()).then("day").alias("day"))
    for by in ((), ("country",)):
        found = kept.ldp.compare(PLAN, by=by, window="1w", event_time="day")
        without = found.filter(pl.col("window_start").is_null())
        assert set(without["compared_with"]) == {None}
        assert set(without["n_before"]) == {0}
        assert set(without["low"]) == {-math.inf}
        assert set(without["p_value"]) == {1}
        groups = kept.filter(pl.col("day").is_null()).group_by(by or pl.lit(1)).len()["len"]
        assert without.filter(column_name="minutes")["n_after"].sum() == groups.sum() == 2
        timed = kept.filter(pl.col("day").is_not_null()).ldp.compare(PLAN, by=by, window="1w", event_time="day")
        assert_frame_equal(found.filter(pl.col("window_start").is_not_null()), timed)


@pytest.mark.filterwarnings("ignore:os. left out")
def test_quantiles_are_those_of_the_core():
    """Of columns of ordered numbers alone, between frames, groups and windows."""
    age, wave = SubsetSelection(range(30), epsilon=3.0), SquareWave((0, 9), epsilon=3.0, buckets=16)
    plan = PrivacyPlan({"os": PLAN["os"], "age": age, "wave": wave}, keep=["country", "day"])
    generator = np.random.default_rng(3)
    columns = {"age": generator.integers(0, 30, 900), "wave": generator.random(900) * 9, "os": ["ios"] * 900}
    reports = ONE.select("country", "day").with_columns(**{k: pl.Series(v) for k, v in columns.items()})
    reports = unmarked(reports, plan, 1)

    def core(before, after, **asked):
        tables = []
        for name, m in (("age", age), ("wave", wave)):
            sides = (m.tally(side[name].ext.storage().to_arrow()) for side in (before, after))
            table = pl.DataFrame(compare_quantiles(m, *sides, [0.5, 0.9], **asked).to_arrow())
            tables.append(table.select(pl.lit(name).alias("column_name"), pl.all()))
        return pl.concat(tables)

    one, two = reports.head(400), reports.tail(500)
    for asked in ({}, {"simultaneous": True, "population": None}, {"same_people": True, "confidence": 0.8}):
        found = one.lazy().ldp.compare(plan, other=two, quantiles=[0.5, 0.9], **asked).collect()
        assert_frame_equal(found, core(one, two, **asked), check_exact=False)
    with pytest.warns(LdpWarning, match="^os: left out, without quantiles of numbers to compare$"):
        found = reports.ldp.compare(plan, by="country", quantiles=[0.5, 0.9])
    sides = [reports.filter(country=country) for country in ("de", "fr")]
    assert_frame_equal(found.filter(country="fr").drop("country", "compared_with"), core(*sides), check_exact=False)
    weeks = reports.ldp.compare(plan, window="1w", event_time="day", quantiles=[0.5])
    assert weeks.columns[:5] == ["column_name", "window_start", "window_end", "compared_with", "probability"]
    assert len(weeks) == 2 * 3
    gone = one.ldp.compare(plan, other=two.filter(country="de"), by="country", quantiles=[0.5]).filter(country="fr")
    assert (
        gone.select("after", "difference", "low", "high", "n_after").rows()
        == [(None, None, -math.inf, math.inf, 0)] * 2
    )
    for how, text in (
        ({"quantiles": [2]}, "probabilities"),
        ({"quantiles": []}, "probabilities"),
        ({"quantiles": [0.5], "anytime": True}, "anytime"),
    ):
        with pytest.raises(ParameterError, match=text):
            one.ldp.compare(plan, other=two, **how)
    with pytest.raises(PlanError, match="quantiles of numbers"):
        ONE.ldp.compare(PLAN, other=TWO, quantiles=[0.5])


def test_a_frame_is_not_compared_with_its_copy():
    copies = [ONE.clone(), pl.DataFrame(ONE.to_dict()), ONE.with_columns(country=pl.lit("x"))]
    for copy in copies:
        with pytest.raises(ParameterError, match="itself"):
            ONE.ldp.compare(PLAN, other=copy)
        with pytest.raises(ParameterError, match="itself"):
            ONE.lazy().ldp.compare(PLAN, other=copy.lazy(), by="country").collect(engine="streaming")
    one = PLAN.seeded(1)
    seeded = pl.select(crashed=pl.repeat(True, 900), minutes=1.0, os=pl.lit("ios"), country=0, day=0).ldp.perturb(one)
    moved = pl.concat([seeded.tail(1), seeded.head(-1)]).lazy()
    with pytest.raises(ParameterError, match="anytime= allow for no shared noise; say same_people=False if row_id="):
        seeded.lazy().ldp.compare(one, other=moved, anytime=True)
    found = seeded.lazy().ldp.compare(one, other=moved, same_people=False).collect()
    assert found["p_value"].min() == 1  # the order differs, and other noise may be the same in other reports
    few = ONE.head(20)  # may be equal by chance
    assert few.lazy().ldp.compare(PLAN, other=few.clone().lazy()).collect().height == 6
    assert few.ldp.compare(PLAN, other=few.clone()).height == 6


def test_keyed_noise_asks_whether_people_are_on_both_sides():
    plan = PrivacyPlan({"os": PLAN["os"]}, keep=["side"])
    people = pl.DataFrame({"id": range(60), "side": ["a", "b"] * 30, "os": ["ios", "web"] * 30})
    keyed, fresh = people.ldp.perturb(plan, key=Secret(bytes(32)), id="id"), people.ldp.perturb(plan)
    for reports, how in ((keyed, {"by": "side"}), (keyed, {"other": fresh}), (fresh.lazy(), {"other": keyed.lazy()})):
        with pytest.raises(ParameterError, match=r"noise of these reports is a person's own.*same_people=False"):
            reports.ldp.compare(plan, **how)
        for same_people in (False, True):
            with pytest.raises(ParameterError, match="say repeats=1"):
                reports.ldp.compare(plan, same_people=same_people, **how)
            said = reports.lazy().ldp.compare(plan, same_people=same_people, repeats=1, **how).collect()
            again = reports.lazy().ldp.compare(plan, same_people=same_people, repeats=4, **how).collect()
            np.testing.assert_allclose(again["standard_error"], 2 * said["standard_error"])
    assert fresh.ldp.compare(plan, by="side").height == 3


def test_a_baseline_is_a_value_of_the_column():
    kept = ONE.with_columns(number=pl.col("day").dt.day() % 2, flag=pl.col("day").dt.day() < 9)
    plan = PrivacyPlan(PLAN.columns, keep=["country", "day", "number", "flag"])
    for by, wrong in (("number", ["0", True, [0], object()]), ("flag", ["true", 1]), ("country", [5]), ("day", ["x"])):
        for baseline in wrong:
            for frame_of in (kept, kept.lazy()):
                with pytest.raises(ParameterError, match="baseline= must be"):
                    frame_of.ldp.compare(plan, by=by, baseline=baseline)
    assert set(kept.ldp.compare(plan, by="day", baseline="2024-01-03")["compared_with"]) == {dt.date(2024, 1, 3)}


def test_values_have_their_own_type_if_it_is_one():
    plan = PrivacyPlan({"level": RandomizedResponse([1, 2, 10], epsilon=1.0)}, keep=["os"])
    reports = pl.DataFrame({"os": ["a", "b"] * 50, "level": [1, 2, 2, 10] * 25}).ldp.perturb(plan)
    assert reports.ldp.compare(plan, by="os")["value"].to_list() == [1, 2, 10]


def test_what_is_refused():
    for how, text in (
        ({}, "compare with what"),
        ({"by": ["country", "day"]}, "one column"),
        ({"by": "country", "baseline": "de", "other": TWO}, "baseline"),
        ({"other": ONE}, "itself"),
        ({"window": "1w"}, "go together"),
        ({"other": [1]}, "Polars frame"),
        ({"other": "reports.parquet"}, "Polars frame"),
        ({"other": TWO, "anytime": True, "same_people": True}, "anytime"),
    ):
        with pytest.raises(ParameterError, match=text):
            ONE.ldp.compare(PLAN, **how)
    kept = PrivacyPlan(
        {"os": LongitudinalUnaryEncoding(["a", "b"], epsilon_infinity=2.0, epsilon_1=1.0)}, keep=["week"]
    )
    reports = pl.DataFrame({"os": ["a", "b"], "week": [1, 2], "id": [1, 2]}).ldp.perturb(
        kept, key=Secret.generate(), id="id"
    )
    with pytest.raises(ParameterError, match="same_people=False"):
        reports.ldp.compare(kept, by="week")
    with pytest.raises(ParameterError, match="say repeats=1"):
        reports.ldp.compare(kept, by="week", same_people=True)
    assert len(reports.ldp.compare(kept, by="week", same_people=True, repeats=1)) == 2
    sketch = PrivacyPlan({"word": HadamardCountMeanSketch("str", epsilon=1.0)})
    with pytest.raises(PlanError, match="shares or a mean"):
        ldp_polars.compare(pl.DataFrame({"word": ["a"]}), sketch)


def test_persons_are_told_apart():
    """Groups, windows and frames of reports of people who are on both sides; sets have a test of all values."""
    tags = PrivSet(["x", "y"], epsilon=1.0, most=1)
    plan = PrivacyPlan({"os": PLAN["os"], "minutes": PLAN["minutes"], "tags": tags}, keep=["country", "day", "user"])
    generator = np.random.default_rng(7)
    users = pl.Series("user", [f"u{k}" for k in generator.integers(0, 90, 900)])
    columns = {
        "os": ["ios", "web", "web"] * 300,
        "minutes": generator.random(900) * 60,
        "tags": [["x"], [], ["y"]] * 300,
    }
    records = ONE.select("country", "day").with_columns(users, **{k: pl.Series(v) for k, v in columns.items()})
    reports, later = (
        records.ldp.perturb(plan, key=Secret.from_seed(1), id="user"),
        records.ldp.perturb(plan, packed=True),
    )

    def core(before, after):
        tables = []
        for name, m in plan.columns.items():
            one, two = ((side[name].ext.storage().to_arrow(), side["user"]) for side in (before, after))
            rows = compare_persons(m, one, two, simultaneous=True).to_polars()
            tables.append(
                rows.select(pl.lit(name).alias("column_name"), pl.col("value").cast(pl.String), pl.exclude("value"))
            )
        return pl.concat(tables)

    how = {"person": "user", "simultaneous": True}
    of_country = [reports.filter(country=country) for country in ("de", "fr")]
    found = reports.lazy().ldp.compare(plan, by="country", **how)
    for engine in ("in-memory", "streaming"):
        rows = found.collect(engine=engine).filter(country="fr").drop("country", "compared_with")
        assert_frame_equal(rows, core(*of_country))
    assert rows.filter(column_name="tags")["degrees_of_freedom"].to_list() == [2, 2]
    weeks = reports.ldp.compare(plan, window="1w", event_time="day", **how).filter(window_start=dt.date(2024, 1, 15))
    sides = [reports.filter(pl.col("day").dt.truncate("1w") == dt.date(2024, 1, d)) for d in (8, 15)]
    assert_frame_equal(weeks.drop("window_start", "window_end", "compared_with"), core(*sides))
    both = reports.ldp.compare(plan, other=later.filter(country="de"), by="country", **how)
    expected = core(of_country[0], later.filter(country="de"))
    assert_frame_equal(both.filter(country="de").drop("country"), expected)
    assert both.filter(country="it")["difference"].null_count() == 6
    nobody = reports.ldp.compare(plan, other=later.clear(), **how)  # (was an error, where groups had none)
    assert nobody["before"].null_count() == 0
    assert set(nobody["p_value"]) == {1.0}
    assert set(nobody["high"]) == {np.inf}
    for wrong, said in (
        ({"repeats": 2}, "leave out same_people"),
        ({"quantiles": [0.5], "person": "user"}, "quantiles do not tell persons apart"),
    ):
        with pytest.raises(ParameterError, match=said):
            reports.ldp.compare(plan, by="country", **{**how, **wrong})
    with pytest.raises(PlanError, match="must be a column of one dtype on both sides"):
        reports.ldp.compare(plan, other=later.with_columns(user=1), **how)
    with pytest.raises(MechanismMismatchError):
        reports.ldp.compare(plan, by="country", person="os")
