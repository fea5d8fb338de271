"""Values and numbers as options take them."""

from pathlib import Path

import polars as pl
import pytest
from typer import BadParameter

import ldp_polars  # noqa: F401 (it registers the .ldp methods)
from ldp_cli.values import integer
from ldp_core import Interval, PrivacyPlan, SquareWave
from tests.cases import case


@pytest.mark.slow
def test_a_share_may_be_in_percent_wherever_it_is_asked_for(ldp):
    """Four options took only a number."""
    columns = {"os": ["a", "b"], "w": SquareWave((0, 60), epsilon=4)}
    plan = PrivacyPlan.split(columns, epsilon=8, keep=["minutes", "g"])
    k = range(200)
    people = {"os": ["a", "b"] * 100, "w": [i % 60.0 for i in k], "minutes": k, "g": ["ab"[i // 100] for i in k]}
    pl.DataFrame(people).ldp.perturb(plan).ldp.sink_parquet("r.parquet", plan)
    Path("plan.toml").write_text(plan.to_toml())
    for line, number, percent in (
        ("estimate r.parquet --by-private os --of minutes --json --quantile", "0.5", "50%"),
        ("estimate r.parquet --json --confidence", "0.9", "90%"),
        ("compare r.parquet --by g --column w --json --quantile", "0.25", "25%"),
        ("size 16 -e 1 -m 0.01 --json --population", "1000000", "1e6"),
        ("estimate r.parquet --json --column os --population", "1000000", "1e6"),
    ):
        with case(line):
            assert ldp(f"{line} {percent}").out == ldp(f"{line} {number}").out
    told = ldp("audit plan.toml --trials 1000 --false-alarm 200%", code=2).err
    assert "must be in (0, 1), got 2.0" in " ".join(told.split())
    for option in ("--max-dead 10%", "--confidence 90%"):  # (what else is missing)
        assert "options are required" in " ".join(ldp(f"run {option}", code=2).err.split())


def test_whole_numbers_keep_their_digits():
    """They went through a float."""
    large = {"1e30": 10**30, "+9007199254740993": 2**53 + 1, "9007199254740993e0": 2**53 + 1, "-7": -7}
    assert {text: integer(text) for text in large} == large
    for text in ("9007199254740993.5e0", "1e-400", "1e999999999", "nan", "1.000"):
        with case(text), pytest.raises(BadParameter, match="expected a whole number"):
            integer(text)


def test_more_records_of_a_person_than_are_counted(ldp, people):
    """They ended in an error of Polars, which said nothing."""
    told = ldp(f"perturb people.parquet r.parquet --plan plan.toml --id user --records {10**43}", code=2).err
    assert "records must be an integer in [1, 9223372036854775807]" in " ".join(told.split())


def test_shares_of_texts_and_of_numbers_are_of_the_values_of_the_plan(ldp):
    """Texts that look as numbers were numbers, and decimals were texts: no share of either was taken."""
    plan = PrivacyPlan.split({"code": ["0", "1"], "x": Interval(0, 1)}, epsilon=40)
    Path("plan.toml").write_text(plan.to_toml())
    line = "simulate plan.toml -n 1000 --seed 1 --json --share code=0:40%,1:60% --share x="
    found = ldp(f"{line}0.25:50%,0.5:50%").data
    assert [row["people"] for row in found["code"]] == [400, 600]
    assert found["x"][0]["mean"] == pytest.approx(0.375, abs=0.05)
    assert "expected shares of numbers, as 0.5:30%,60:70%" in " ".join(ldp(f"{line}low:1", code=2).err.split())
    for twice in ("0.5:1,0.50:3", "0.5:1,0.25:1,0.5:1"):
        with case(twice):
            assert "a value has two shares" in ldp(f"{line}{twice}", code=2).err
