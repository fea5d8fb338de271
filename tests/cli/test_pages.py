"""The report of a folder of estimates, and where the planner is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ldp_core import PrivacyPlan


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_a_report_has_what_was_estimated(ldp, people):
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    ldp("estimate reports.parquet --window 7d --event-time day --output weekly")
    done = ldp("report weekly -o weekly.html")
    assert done.out == "weekly.html\n"
    data = data_of(Path("weekly.html").read_text())
    assert [column["name"] for column in data["columns"]] == ["os", "minutes", "crashed"]
    assert data["plan"]["fingerprint"] == PrivacyPlan.from_toml(Path("plan.toml")).fingerprint
    assert data["columns"][0]["confidence"] == 0.95
    said = ldp("estimate reports.parquet --window 7d --event-time day --column os --json").data
    found = said["columns"]["os"]["estimates"]
    rows = [row for group in data["columns"][0]["groups"] for row in group["rows"]]
    assert [row[:2] for row in rows] == [[row["value"], row["count"]] for row in found]


def test_it_is_not_written_over(ldp, people):
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    ldp("estimate reports.parquet --output all --csv")
    ldp("report all")
    assert "is there already" in ldp("report all", code=1).err
    ldp("report all --overwrite")
    assert "must end in .html" in ldp("report all -o report.pdf", code=1).err.replace("\n", " ")


def test_columns_of_the_same_reports_go_into_one_folder(ldp, people):
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    ldp("estimate reports.parquet --output all --column os")
    ldp("estimate reports.parquet --output all --column crashed")
    assert "is there already" in ldp("estimate reports.parquet --output all --column crashed", code=1).err
    other = ldp("estimate reports.parquet --output all --column minutes --confidence 0.9", code=1)
    assert "results.json" in other.err  # its intervals are others
    ldp("report all")
    assert len(data_of(Path("report.html").read_text())["columns"]) == 2


def test_what_is_no_result(ldp):
    assert "there are no estimates" in ldp("report nothing", code=1).err
    assert not Path("report.html").exists()


def test_results_that_do_not_say_their_plan(ldp, people):
    Path("old").mkdir()
    Path("old/os.csv").write_text("value,count,low,high,n\nios,5.5,4.0,7.0,10\n")
    assert "--plan PLAN" in ldp("report old").err
    assert data_of(Path("report.html").read_text())["plan"] is None
    assert ldp("report old --plan plan.toml --overwrite").err == ""


def test_the_planner_is_a_file(ldp, monkeypatch):
    path = Path(ldp("planner").out.strip())
    assert "<title>Privacy planner</title>" in path.read_text(encoding="utf-8")
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: not opened.append(url))
    ldp("planner --open")
    assert opened == [path.as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    assert "no browser" in ldp("planner --open").err
