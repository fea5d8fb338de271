"""Files of reports: what is in them, what comes out of them, and what is never written."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import ldp_polars
from ldp_core import CountMeanSketch, HeavyHitters, Prefixes, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding
from ldp_report import RESULTS

N = 4000


@pytest.fixture
def reports(ldp, people):
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    return pl.read_parquet("reports.parquet")


def test_reports_are_those_of_the_plan_and_nothing_else(reports):
    plan = ldp_polars.read_plan("reports.parquet")
    assert plan == PrivacyPlan.from_toml(Path("plan.toml"))
    assert reports.columns == ["os", "minutes", "crashed", "day"]
    assert len(reports) == N


def test_progress_is_on_standard_error(ldp, people, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    done = ldp("perturb people.parquet reports.parquet --plan plan.toml")
    assert "perturbing" in done.err
    assert "perturbing" not in done.out


def test_estimates_are_those_of_polars(ldp, people, reports):
    plan = ldp_polars.read_plan("reports.parquet")
    same = reports.ldp.estimates(plan)
    found = ldp("estimate reports.parquet --json").data
    assert found == {name: frame.to_dicts() for name, frame in same.items()}
    assert abs(found["os"][0]["count"] - N / 2) < 6 * found["os"][0]["standard_error"]
    shown = ldp("estimate reports.parquet").out
    assert f"{found['os'][0]['count']:,.0f}" in shown
    assert f"{found['minutes'][0]['mean']:,.3f}" in shown
    assert set(ldp("estimate reports.parquet --column crashed --json").data) == {"crashed"}


def test_groups_windows_and_files(ldp, people, reports):
    plan = ldp_polars.read_plan("reports.parquet")
    done = ldp("estimate reports.parquet --window 7d --event-time day --output weekly --csv --top 2")
    same = reports.ldp.estimates(plan, window="7d", event_time="day")
    assert sorted(path.name for path in Path("weekly").iterdir()) == ["crashed.csv", "minutes.csv", "os.csv", RESULTS]
    written = pl.read_csv("weekly/os.csv", try_parse_dates=True)
    assert written["count"].to_list() == pytest.approx(same["os"]["count"].to_list())
    assert written["window_start"].to_list() == same["os"]["window_start"].to_list()
    assert "more values" in done.out
    assert "is there already" in ldp("estimate reports.parquet --output weekly --csv", code=1).err
    by = ldp("estimate reports.parquet --by day --column os --json").data["os"]
    assert len({row["day"] for row in by}) == 10


@pytest.mark.parametrize(
    ("options", "data"), [("", 3), ("--column os --window 2d --event-time day", 18), ("--column minutes --by day", 10)]
)
def test_pictures(ldp, people, reports, options, data):
    line = f"estimate reports.parquet {options or '--column os'} --plot drawn.json"
    ldp(line)
    spec = pl.read_json("drawn.json")["datasets"].item()
    assert [len(rows) for rows in spec.values()] == [data]
    assert "which of" in ldp("estimate reports.parquet --plot drawn.json", code=2).err.replace("\n", " ")


def test_keyed_noise_gives_the_same_reports_again(ldp, people):
    Secret.generate().to_file("secret")
    for name in ("a", "b"):
        ldp(f"perturb people.parquet {name}.parquet --plan plan.toml --secret-file secret --id user")
    assert pl.read_parquet("a.parquet").equals(pl.read_parquet("b.parquet"))
    assert "user" not in pl.read_parquet("a.parquet").columns
    ldp("perturb people.parquet c.parquet --plan plan.toml --id user", code=2)
    ldp("perturb people.parquet c.parquet --plan plan.toml --secret-file secret", code=2)


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_text_files_are_read(ldp, people, suffix):
    getattr(people, f"write_{suffix}")(f"people.{suffix}")
    ldp(f"perturb people.{suffix} reports.parquet --plan plan.toml")
    assert len(pl.read_parquet("reports.parquet")) == N


def test_what_fails_leaves_nothing_and_quotes_nothing(ldp, people):
    people.with_columns(os=people["os"].replace("web", "beos")).write_parquet("odd.parquet")
    Path("bad.csv").write_text("os,minutes,crashed,day\nsecretword,x,y,z\n", encoding="utf-8")
    Path("cut.parquet").write_bytes(Path("people.parquet").read_bytes()[:-100])
    before = sorted(Path().iterdir())
    for source in ("odd.parquet", "bad.csv", "cut.parquet", "nowhere.parquet", "plan.toml"):
        done = ldp(f"perturb {source} reports.parquet --plan plan.toml", code=1)
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1
        assert not {"beos", "secretword"} & set(done.err.replace("'", " ").split())
        assert sorted(Path().iterdir()) == before


def test_a_column_that_is_missing_is_named(ldp, people):
    for name, write in (("less.csv", "write_csv"), ("less.parquet", "write_parquet"), ("less.ndjson", "write_ndjson")):
        getattr(people.drop("os"), write)(name)
        assert "['os']" in ldp(f"perturb {name} reports.parquet --plan plan.toml", code=1).err
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    assert "['country']" in ldp("estimate reports.parquet --by country", code=1).err


def test_reports_that_are_there_stay(ldp, people, reports):
    assert "--overwrite" in ldp("perturb people.parquet reports.parquet --plan plan.toml", code=1).err
    assert pl.read_parquet("reports.parquet").equals(reports)
    ldp("perturb people.parquet reports.parquet --plan plan.toml --overwrite")
    assert "must end in .parquet" in ldp("perturb people.parquet reports.csv --plan plan.toml", code=1).err


def test_reports_are_not_perturbed_again(ldp, people, reports):
    done = ldp("perturb reports.parquet again.parquet --plan plan.toml", code=1)
    assert "hold reports already" in done.err


def test_raw_data_are_not_estimated(ldp, people):
    assert "--plan names the plan" in ldp("estimate people.parquet", code=1).err
    assert "no reports" in ldp("estimate people.parquet --plan plan.toml", code=1).err


def test_a_sketch_answers_about_candidates(ldp):
    sketch = CountMeanSketch(epsilon=4.0, hashes=64, width=64)
    plan = PrivacyPlan({"word": sketch, "won": RandomizedResponse(epsilon=4.0)})
    Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    words = pl.DataFrame({"word": ["rome", "oslo"] * 500, "won": [True, False] * 500})
    words.write_parquet("words.parquet")
    ldp("perturb words.parquet reports.parquet --plan plan.toml")
    done = ldp("estimate reports.parquet --json")
    assert set(done.data) == {"won"}
    assert "--candidates word=FILE" in done.err
    Path("words.txt").write_text("oslo\nlima\n", encoding="utf-8")
    found = ldp("estimate reports.parquet --candidates word=words.txt --json").data["word"]
    assert [row["value"] for row in found] == ["oslo", "lima"]
    assert abs(found[0]["count"] - 500) < 6 * found[0]["standard_error"]
    assert "are of sketches" in ldp("estimate reports.parquet --candidates won=words.txt", code=1).err


def test_heavy_hitters_are_the_top(ldp):
    m = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8)
    Path("plan.toml").write_text(PrivacyPlan({"word": m}).to_toml(), encoding="utf-8")
    pl.DataFrame({"word": ["rome"] * 5000 + ["oslo"] * 3000}).write_parquet("words.parquet")
    ldp("perturb words.parquet reports.parquet --plan plan.toml")
    found = ldp("estimate reports.parquet --top 1 --json").data["word"]
    assert [row["value"] for row in found] == ["rome"]


@pytest.mark.parametrize("packed", ["--packed", "--no-packed"])
def test_folders_and_patterns(ldp, packed):
    plan = PrivacyPlan({"os": UnaryEncoding(["ios", "web"], epsilon=2.0)})
    Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    Path("reports").mkdir()
    for k in range(2):
        pl.DataFrame({"os": ["ios", "web"] * 10}).write_parquet(f"people{k}.parquet")
        ldp(f"perturb people{k}.parquet reports/{k}.parquet --plan plan.toml {packed}")
    for source in ("reports", "'reports/*.parquet'"):
        assert {row["n"] for row in ldp(f"estimate {source} --json").data["os"]} == {40}
