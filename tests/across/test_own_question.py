"""A question that is defined here is asked everywhere that a question is: nothing else had to change for it."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import ldp_plots
import ldp_polars  # noqa: F401 (registers the namespace)
from ldp_beam.telemetry import command as telemetry
from ldp_cli.app import app
from ldp_core import (
    HistogramEstimate,
    MechanismMismatchError,
    ParameterError,
    PrivacyPlan,
    RandomizedResponse,
    SquareWave,
    question_of,
    usual_question,
)
from ldp_core.engine import asked_of, questions_of
from ldp_report import read_results

from ..beam.estimates.test_own_question import BITS, Mode, ModeEstimate, SetTogether

OSES = ["ios", "android", "web"]
RR = RandomizedResponse(OSES, epsilon=3.0)
PLAN = PrivacyPlan({"os": RR}, keep=["country"])


@pytest.fixture(scope="module")
def reports() -> pl.DataFrame:
    people = pl.DataFrame({"os": ["ios"] * 600 + ["android"] * 300 + ["web"] * 1100})
    country = pl.Series("country", ["fr"] * 900 + ["it"] * 1100)
    return people.with_columns(country).ldp.perturb(PLAN)


def expected(column: pl.Series) -> Mode:
    return ModeEstimate().result(RR, RR.tally(column.ext.storage().to_arrow()))


def test_it_is_written_as_text_and_as_a_mapping():
    assert question_of("mode:confidence=0.9") == ModeEstimate(0.9) == question_of({"question": "mode"}, confidence=0.9)
    assert question_of(ModeEstimate(0.8).to_dict()) == ModeEstimate(0.8)
    texts = ("mood", "mode:k=2", "mode:question=mean", "mode:confidence", "histogram:simultaneous=no")
    for wrong in (*texts, {"question": "mode", "width": 1}, {}, 7):
        with pytest.raises(ParameterError, match=r"question|option|true or false"):
            question_of(wrong)


def test_what_is_asked_of_columns():
    asked = asked_of(["os=mode:confidence=0.9", "word=heavy_hitters"])
    assert asked == {"os": "mode:confidence=0.9", "word": "heavy_hitters"}
    columns = {"os": RR, "age": RR}
    found = questions_of(columns, {"os": asked["os"]}, simultaneous=True, k=3)
    assert found == {"os": ModeEstimate(0.9), "age": HistogramEstimate(simultaneous=True)}
    for wrong in (["os"], ["=mode"], ["os="], ["os=mode", "os=mean"]):
        with pytest.raises(ParameterError, match="NAME=QUESTION"):
            asked_of(wrong)
    with pytest.raises(ParameterError, match="confidence"):
        questions_of(columns, {"os": ModeEstimate()}, confidence=7)


def test_polars(reports):
    os, mode = pl.col("os").ldp, expected(reports["os"])
    for question in (ModeEstimate(), "mode"):
        assert reports.select(os.estimate(question)).unnest("os").to_dicts() == mode.to_arrow().to_pylist()
    by_country = {country: expected(part["os"]).value for (country,), part in reports.group_by("country")}
    assert by_country == {"fr": "ios", "it": "web"}
    grouped = reports.group_by("country").agg(os.estimate(ModeEstimate()))
    assert {row["country"]: row["os"]["value"] for row in grouped.to_dicts()} == by_country
    over = reports.select("country", os.estimate(ModeEstimate()).over("country"))
    assert {(row["country"], row["os"]["value"]) for row in over.to_dicts()} == set(by_country.items())
    windows = reports.with_row_index("i").with_columns(pl.col("i").cast(pl.Int64)).sort("i")
    dynamic = windows.group_by_dynamic("i", every="900i").agg(os.estimate(ModeEstimate()))
    assert [row["value"] for row in dynamic["os"]] == ["ios", "web", "web"]
    tallies = reports.group_by("country").agg(os.tally())
    merged = tallies.select(os.merge(RR)).select(os.estimate(ModeEstimate(), RR)).unnest("os")
    assert merged.to_dicts() == mode.to_arrow().to_pylist()
    table = reports.ldp.estimates(PLAN, by="country", ask={"os": ModeEstimate()})["os"]
    assert dict(table.select("country", "value").iter_rows()) == by_country


def test_simulation_and_pictures(reports):
    people = {"os": {"ios": 0.1, "android": 0.2, "web": 0.7}}
    seen = PLAN.simulate(people, n=1000, seed=1, ask={"os": "mode"})
    assert seen["os"].value == "web"
    assert seen.plot().to_dict()["$schema"]
    frame = reports.ldp.estimates(PLAN, by="country", ask={"os": ModeEstimate()})["os"]
    for chart in (expected(reports["os"]).plot(truth={"web": 1100}), ldp_plots.estimate(frame, by="country")):
        assert next(iter(chart.to_dict()["datasets"].values()))[0]["value"] in OSES


def test_the_command_and_the_report(reports, tmp_path):
    file, folder = tmp_path / "reports.parquet", tmp_path / "out"
    reports.ldp.sink_parquet(file, PLAN)
    ask = ["estimate", str(file), "--ask", "os=mode", "--by", "country", "--confidence", "0.9"]
    shown = CliRunner().invoke(app, ask, catch_exceptions=False).output
    assert [name for name in OSES if name in shown] == ["ios", "web"]
    told = json.loads(CliRunner().invoke(app, [*ask, "--json"], catch_exceptions=False).output)
    assert [row["value"] for row in told["columns"]["os"]["estimates"]] == ["ios", "web"]
    CliRunner().invoke(app, [*ask, "--output", str(folder)], catch_exceptions=False)
    [column] = read_results(folder).to_json()["columns"]
    assert [(group["key"], group["rows"][0][0]) for group in column["groups"]] == [
        ("country = fr", "ios"),
        ("country = it", "web"),
    ]


def test_the_telemetry_job(tmp_path, capsys):
    """Beside a column of which nothing is said: of a Square Wave the job asks what the command asks, a distribution."""
    plan = PrivacyPlan({"os": RR, "age": SquareWave((0, 100), epsilon=4.0, buckets=8)})
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    people = pl.DataFrame({"os": ["web"] * 2000 + ["ios"] * 500, "age": [30.0] * 2500, "t": [0] * 2500})
    people.write_parquet(tmp_path / "people.parquet")
    given = ["--plan", str(tmp_path / "plan.toml"), "--input", str(tmp_path / "people.parquet"), "--event-time", "t"]
    assert telemetry.main([*given, "--output", str(tmp_path / "out"), "--ask", "os=mode"]) == 0
    assert {file.stem for file in (tmp_path / "out").glob("*.parquet")} == {"modes", "distributions"}
    [mode] = pl.read_parquet(tmp_path / "out" / "modes.parquet").to_dicts()
    assert (mode["value"], mode["n"]) == ("web", 2500)
    assert usual_question(plan["age"]).name == "distribution"
    assert "25 to 37.5" in capsys.readouterr().out


def test_counts_of_its_own():
    """Of pairs of bits: what Beam's toy counts is the same here, in groups and in merges."""
    people = pl.DataFrame({"v": ["a", "b", "c"] * 300, "day": [1, 2, 3] * 300})
    reports = people.select("day", pl.col("v").ldp.perturb(BITS))
    bits = reports["v"].ext.storage().to_numpy().astype(int)
    pairs = SetTogether().tallier(BITS).pairs
    expected = [int((bits[:, i] & bits[:, j]).sum()) for i, j in pairs]
    found = reports.select(pl.col("v").ldp.estimate(SetTogether())).explode("v").unnest("v")
    assert found["both"].to_list() == expected
    days = reports.group_by("day", maintain_order=True).agg(pl.col("v").ldp.estimate(SetTogether()))
    assert np.sum([[row["both"] for row in rows] for rows in days["v"]], axis=0).tolist() == expected
    with pytest.raises(MechanismMismatchError, match="made by another mechanism"):
        reports.select(pl.col("v").ldp.tally(BITS)).select(pl.col("v").ldp.estimate(SetTogether(), BITS))
