"""``ldp estimate --by-private``: the numbers are those that Polars gives for the expressions of docs/weights.md."""

import datetime as dt
import math
from pathlib import Path

import polars as pl
import pytest

import ldp_polars  # noqa: F401 (it registers the .ldp methods)
from ldp_core import Hybrid, Piecewise, PrivacyPlan, RandomizedResponse, Secret, SquareWave, UnaryEncoding

N = 2000
PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(["ios", "android", "web"], epsilon=2.0),
        "crashed": RandomizedResponse(epsilon=2.0),
        "age": Hybrid((0, 80), epsilon=2.0),
    },
    keep=["minutes", "stands", "country", "day"],
)
PEOPLE = pl.DataFrame(
    {
        "os": ["ios", "android", "android", "web"] * (N // 4),
        "crashed": [k % 3 == 0 for k in range(N)],
        "age": [20.0 + k % 50 for k in range(N)],
        "minutes": [k % 60 for k in range(N)],
        "stands": [1 + k % 2 for k in range(N)],
        "country": ["de"] * (N // 2) + ["fr"] * (N // 2),
        "day": [dt.date(2024, 1, 1 + k % 14) for k in range(N)],
        "id": range(N),
    }
)


@pytest.fixture
def reports():
    made = PEOPLE.ldp.perturb(PLAN)
    made.ldp.sink_parquet("reports.parquet", PLAN)
    return made


def numbers(row):
    """Without what says where it is."""
    return [row[name] for name in ("estimate", "standard_error", "low", "high", "n")]


def test_the_answers_are_those_of_weights(ldp, reports):
    os = {value: pl.col("os").ldp.weight(value) for value in PLAN["os"].domain.values}
    minutes, age = pl.col("minutes"), pl.col("age").ldp.weight()
    for options, answers in (
        ("--of minutes", {"mean": lambda w: (w * minutes).ldp.ratio(w), "total": lambda w: (w * minutes).ldp.total(w)}),
        (
            "--of age",
            {"mean": lambda w: (w * age).ldp.ratio(w, of=PLAN["age"]), "total": lambda w: (w * age).ldp.total(w * age)},
        ),
        ("--among ios --among web", {"share": lambda w: w.ldp.ratio(os["ios"] + os["web"])}),
        ("--weights stands", {"share": lambda w: w.ldp.weighted_mean(weights="stands")}),
    ):
        values = ["ios", "web"] if "among" in options else list(os)
        found = ldp(f"estimate reports.parquet --by-private os {options} --json").data
        assert [(row["value"], row["answer"]) for row in found] == [(v, a) for v in values for a in answers]
        for row in found:
            one = reports.select(answers[row["answer"]](os[row["value"]])).item()
            assert numbers(row) == pytest.approx(list(one.values())[:5]), options
            wide = [answer for answer in one if answer not in ("n", "effective")]
            assert len(wide) == 4
    asked = "--of minutes --quantile 0.5 --quantile 0.9 --among ios --by country"
    found = ldp(f"estimate reports.parquet --by-private os {asked} --json").data
    assert [(row["country"], row["answer"]) for row in found] == [
        (country, answer) for country in ("de", "fr") for answer in ("mean", "total", "50 %", "90 %")
    ]
    expected = reports.group_by("country").agg(minutes.ldp.weighted_quantiles([0.5, 0.9], os["ios"])).sort("country")
    medians = [row["estimate"] for row in found if row["answer"] == "50 %"]
    assert medians == [row[0]["quantile"] for row in expected["minutes"].to_list()]
    weeks = ldp("estimate reports.parquet --by-private crashed --of minutes --window 7d --event-time day --json").data
    assert len({row["window_start"] for row in weeks}) == len(weeks) / 4 > 1
    assert {row["value"] for row in weeks} == {"true", "false"}


def test_totals_of_numbers_below_0_have_the_intervals_of_their_weights(ldp):
    """Where nobody is in the group 95 % intervals held in 40 %."""
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=4.0)}, keep=["x", "y", "z"])
    x = [1.0 + k % 5 for k in range(200)]
    both = [-one if k % 10 else one for k, one in enumerate(x)]
    people = pl.DataFrame({"os": ["web"] * 200, "x": x, "y": [-one for one in x], "z": both})
    made = people.ldp.perturb(plan := plan.seeded(3))
    made.ldp.sink_parquet("below.parquet", plan)
    above, below, mixed = (ldp(f"estimate below.parquet --by-private os --of {y} --json").data[1] for y in "xyz")
    assert (below["low"], below["high"]) == (-above["high"], -above["low"])
    w = pl.col("os").ldp.weight("ios")
    expected = made.select(t=(w * pl.col("z")).ldp.total(w)).unnest("t").row(0, named=True)
    assert numbers(mixed) == pytest.approx(list(expected.values())[:5])
    assert mixed["high"] > 1.1 * made.select(t=(w * pl.col("z")).ldp.total(w * pl.col("z"))).unnest("t")["high"].item()


def test_a_total_of_few_private_numbers_allows_for_far_reports_that_nobody_sent(ldp):
    """Of 25 people in the group 95 % intervals held the total in 86 %, and 100 now; of 0 to 1 on a scale to 10."""
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=3.0), "x": Piecewise((0, 10), epsilon=6.0)})
    people = pl.DataFrame({"os": ["ios"] * 25 + ["web"] * 175, "x": [k % 100 / 100 for k in range(200)]})
    made = people.ldp.perturb(plan := plan.seeded(2))
    made.ldp.sink_parquet("few.parquet", plan)
    total = ldp("estimate few.parquet --by-private os --of x --json").data[1]
    product = pl.col("os").ldp.weight("ios") * pl.col("x").ldp.weight()
    plain = made.select(x=product.ldp.total(product)).unnest("x").row(0, named=True)
    assert total["high"] - total["estimate"] > 1.1 * (plain["high"] - plain["total"])


def test_a_total_of_buckets_allows_for_where_in_them_numbers_are(ldp):
    """It held in none of 1,000 runs: a number counts for the middle of its bucket, here 35 for 31."""
    wave = SquareWave((0, 100), epsilon=4.0, buckets=10)
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=4.0), "x": wave})
    people = pl.DataFrame({"os": ["ios"] * 600 + ["web"] * 1400, "x": [31.0] * 600 + [60.0] * 1400})
    people.ldp.perturb(plan := plan.seeded(1)).ldp.sink_parquet("buckets.parquet", plan)
    total = ldp("estimate buckets.parquet --by-private os --of x --json").data[1]
    assert total["low"] < 600 * 31 < total["estimate"] - 1200 < total["estimate"] + 2400 < total["high"]


def test_a_total_of_private_numbers_has_no_bound_where_no_report_supports_the_value(ldp):
    """Of nobody or one in 50, at epsilon 4, 95 % intervals held the total in 75 to 81 %: all ends were below 0."""
    plan = PrivacyPlan({"os": UnaryEncoding(["ios", "web"], epsilon=4.0), "x": Piecewise((0, 10), epsilon=2.0)})
    people = pl.DataFrame({"os": ["web"] * 50, "x": [10.0] * 50})
    people.ldp.perturb(plan := plan.seeded(1)).ldp.sink_parquet("none.parquet", plan)
    mean, total = ldp("estimate none.parquet --by-private os --of x --json").data[:2]
    assert total["estimate"] < 0
    assert [(one["answer"], one["low"], one["high"]) for one in (mean, total)] == [
        ("mean", None, None),
        ("total", None, None),
    ]


def test_a_total_is_bounded_where_too_few_have_the_value_for_a_mean(ldp):
    """Of one person in 40 of 2,000: it had the ends of the mean, which are infinite."""
    values = [f"v{k}" for k in range(20)]
    plan = PrivacyPlan({"os": RandomizedResponse(values, epsilon=1.0), "x": Piecewise((0, 10), epsilon=2.0)}).seeded(2)
    people = pl.DataFrame({"os": ["v0"] * 50 + values[1:19] * 100 + ["v19"] * 150, "x": [5.0] * 2000})
    people.ldp.perturb(plan).ldp.sink_parquet("many.parquet", plan)
    mean, total = ldp("estimate many.parquet --by-private os --of x --json").data[:2]
    assert mean["high"] in (None, "inf", math.inf)
    assert total["low"] <= 250 <= total["high"] < 10_000


def test_what_people_read(ldp, reports):
    shown = ldp("estimate reports.parquet --by-private os --of minutes --confidence 90%").out
    mean = ldp("estimate reports.parquet --by-private os --of minutes --json").data[0]["estimate"]
    assert f"{mean:,.1f}" in shown
    assert "90 %, of noise and sampling together" in " ".join(shown.split())
    shares = ldp("estimate reports.parquet --by-private os --among ios --among web").out
    assert shares.count(" %") >= 6
    again = [
        ldp(f"estimate reports.parquet --by-private os --of minutes --repeats {k} --json").data[1]["standard_error"]
        for k in (1, 4)
    ]
    assert again[1] == pytest.approx(2 * again[0])
    few = PEOPLE.head(40).ldp.perturb(PLAN)
    few.ldp.sink_parquet("few.parquet", PLAN)
    ends = {row["low"] for row in ldp("estimate few.parquet --by-private os --of minutes --json").data}
    assert None in ends  # (unbounded: JSON has no infinity)
    assert "inf" in ldp("estimate few.parquet --by-private os --of minutes").out
    seeded = PLAN.seeded(1)
    PEOPLE.ldp.perturb(seeded).ldp.sink_parquet("seeded.parquet", seeded)
    assert "NOT private" in ldp("estimate seeded.parquet --by-private os --of minutes").out
    assert all(row["seeded"] for row in ldp("estimate seeded.parquet --by-private os --of minutes --json").data)


def test_groups_of_equal_reports_are_refused(ldp, reports):
    """Records of all values are in each. Only dtypes, which other programs' files do not have, told what is private."""
    Path("plan.toml").write_text(PLAN.to_toml())
    PEOPLE.ldp.perturb(PLAN, typed=False).write_parquet("plain.parquet")
    by_private, plain = "estimate reports.parquet --by-private os", "estimate plain.parquet --plan plan.toml"
    for line in (
        f"{by_private} --of minutes --by crashed",
        f"{by_private} --among ios --among web --by country --by crashed",
        f"{plain} --assume-reports --by-private os --share crashed=true:0.5,false:0.5",
        f"{plain} --assume-reports --column os --by crashed",
        f"{plain} --assume-reports --column os --person crashed",
    ):
        assert "columns ['crashed'] hold reports, says the plan" in ldp(line, code=1).err.replace("\n", " "), line


def test_known_shares_of_groups(ldp, reports):
    w = pl.col("os").ldp.weight("web")
    asked = {"groups": "country", "shares": {"de": 0.2, "fr": 0.8}}
    for more, weights in (("", None), (" --weights stands", "stands")):
        line = f"estimate reports.parquet --by-private os --share country=de:20%,fr:0.8{more} --json"
        found = {row["value"]: row for row in ldp(line).data}
        expected = reports.select(w.ldp.weighted_mean(weights=weights, **asked)).unnest("os").row(0, named=True)
        assert {*found} == {"ios", "android", "web"}
        assert found["web"]["estimate"] == pytest.approx(expected["mean"])
        assert found["web"]["low"] == pytest.approx(expected["low"])
    line = "estimate reports.parquet --by-private os --share country=de:0.2"
    assert "add up to 1" in ldp(line, code=2).err
    assert "VALUE:SHARE" in ldp(f"{line},fr", code=2).err


def test_groups_with_known_shares_are_of_any_type(ldp):
    """Texts that look as numbers were numbers, and decimals were texts: no share was taken."""
    groups = {"plz": ["01067", "80331", "10115"], "half": [0.5, 1.5, 2.5], "whole": [1.0, 2.0, 3.0], "n": [1, 2, 3]}
    plan = PrivacyPlan({"os": PLAN["os"]}, keep=list(groups))
    rows = pl.DataFrame({"os": ["ios", "web", "web"] * 100, **{name: each * 100 for name, each in groups.items()}})
    rows.ldp.perturb(plan).ldp.sink_parquet("kept.parquet", plan)
    shares = [0.2, 0.3, 0.5]
    for name, each in groups.items():
        asked = {"groups": name, "shares": dict(zip(each, shares, strict=True))}
        w = pl.col("os").ldp.weight("ios").ldp.weighted_mean(**asked)
        expected = pl.read_parquet("kept.parquet").select(w).unnest("os")["mean"].item()
        text = ",".join(f"{group}:{share}" for group, share in asked["shares"].items())
        found = ldp(f"estimate kept.parquet --by-private os --share {name}={text} --json").data
        assert found[0]["estimate"] == pytest.approx(expected), name


def test_what_is_refused(ldp, reports):
    for options, text in (
        ("--by-private os", "--of NUMBER"),
        ("--by-private os --among ios", "--of NUMBER"),
        ("--by-private os --among ios --among ios", "--of NUMBER"),
        ("--by-private os --of minutes --weights stands", "--of NUMBER"),
        ("--by-private os --of age --quantile 0.5", "public number"),
        ("--by-private os --weights stands --quantile 0.5", "public number"),
        ("--by-private os --of minutes --among solaris", "the values are ios"),
        ("--by-private os --weights stands --among ios --among web", "--among is without them"),
        ("--by-private os --share country=de:0.5,fr:0.5 --among ios", "--among is without them"),
        ("--by-private os --of minutes --column os", "asked alone"),
        ("--by-private os --of minutes --population many", "asked alone"),
        ("--of minutes", "--by-private COLUMN"),
        ("--share country=de:1", "--by-private COLUMN"),
        ("--by-private os --of minutes --share country=de:1", "--of NUMBER"),
        ("--by-private os --of minutes --quantile 2", "--quantile must be in (0, 1), got 2.0"),
        ("--by-private os --of minutes --confidence 2", "confidence"),
    ):
        assert text in " ".join(ldp(f"estimate reports.parquet {options}", code=2).err.replace("│", "").split()), (
            options
        )
    for options, text in (
        ("--by-private os --of nothing", "not have the columns ['nothing']"),
        ("--by-private os --share nothing=a:1", "not have the columns ['nothing']"),
        ("--by-private nothing --of minutes", "list of values"),
        ("--by-private age --of minutes", "list of values"),
        ("--by-private os --of crashed", "without numbers"),
        ("--by-private os --of country", "take a column of numbers, got 'country' (String)"),
        ("--by-private os --weights day", "take a column of numbers, got 'day' (Date)"),
    ):
        assert text in ldp(f"estimate reports.parquet {options}", code=1).err.replace("\n", " "), options
    PEOPLE.ldp.perturb(PLAN, key=Secret(bytes(32)), id="id").ldp.sink_parquet("keyed.parquet", PLAN)
    assert "say --repeats 1" in ldp("estimate keyed.parquet --by-private os --of minutes", code=2).err.replace(
        "\n", " "
    )
    ldp("estimate keyed.parquet --by-private os --of minutes --repeats 1")
    said = ldp("estimate keyed.parquet --by-private os --weights stands", code=2).err
    assert "say --repeats 1" in said.replace("\n", " ")
    assert "keyed.parquet" not in said  # (Polars adds its plan)


def test_a_group_of_one_person_leaves_the_others_their_answers(ldp, reports):
    one = pl.when(pl.col("day").cum_count() == 1).then(pl.lit("lu")).otherwise("country").alias("country")
    reports.with_columns(one).ldp.sink_parquet("lonely.parquet", PLAN)
    found = ldp("estimate lonely.parquet --by-private os --weights stands --by country --json").data
    assert [row["n"] for row in found] == [999] * 3 + [1000] * 3 + [1] * 3
    assert found[3:6] == ldp("estimate reports.parquet --by-private os --weights stands --by country --json").data[3:]
    assert {(row["low"], row["high"]) for row in found[6:]} == {(None, None)}
