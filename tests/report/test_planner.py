"""The planner's JavaScript says what `ldp_core` says, and the code that it writes runs."""

import json
import math
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from ldp_core import Domain, PrivacyPlan
from ldp_core.mechanisms.catalog import CHOICES
from ldp_report.page import asset, planner_page

from ..beam import cheap_pipelines  # noqa: F401 (changes Beam when it is imported)
from .golden import FILE, golden, golden_needs

ROOT = Path(__file__).parents[2]
FORMULAS = ROOT / "ldp_report" / "assets" / "formulas.js"
GOLDEN = json.loads(FILE.read_text(encoding="utf-8"))
AGAIN = "run: python -m tests.report.golden"
NODE = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here, which runs the JavaScript")


@cache
def run(code):
    """What JavaScript prints, as JSON; ``P`` has the formulas, ``G`` the golden file."""
    head = f"const P = require({json.dumps(str(FORMULAS))}), G = require({json.dumps(str(FILE))});"
    command = ["node", "-e", f"{head} process.stdout.write(JSON.stringify({code}))"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


def differing(found, expected, tolerance=1e-9):
    """Places at which two values of JSON differ."""
    if isinstance(expected, float):
        same = isinstance(found, (int, float)) and math.isclose(found, expected, rel_tol=tolerance)
        return [] if same else [(found, expected)]
    if isinstance(expected, list):
        if len(found) != len(expected):
            return [(found, expected)]
        return [d for a, b in zip(found, expected, strict=True) for d in differing(a, b, tolerance)]
    if isinstance(expected, dict):
        return [d for key in expected for d in differing(found.get(key), expected[key], tolerance)]
    return [] if found == expected else [(found, expected)]


def test_the_golden_file_is_what_the_core_says():
    expected = golden()
    assert differing({name: GOLDEN[name] for name in expected}, expected, 1e-12) == [], AGAIN


@pytest.mark.slow
def test_the_golden_file_has_the_needs_of_the_core():
    expected = golden_needs()
    assert differing({name: GOLDEN[name] for name in expected}, expected, 1e-11) == [], AGAIN


@NODE
def test_javascript_says_what_the_core_says():
    for function in GOLDEN:
        cases = GOLDEN[function]
        found = run(f"G.{function}.map(c => P.{function}(...c.arguments))")
        expected = [case.get("rows", case.get("is")) for case in cases]
        assert differing(found, expected) == []


@NODE
def test_all_mechanisms_are_there():
    assert run("P.CHOICES.map(c => c.key)") == list(CHOICES)


@NODE
def test_simulated_intervals_hold_the_truth_as_often_as_they_say():
    """Of 20,000 intervals of 95 % within five standard errors; planted: intervals that are too narrow by a tenth."""
    one = "P.simulate('unary_encoding', 16, 1, 1e5, P.shares(16, 0.01, 10), seed + 1)"
    inside = "r => Math.abs(r.estimate - r.truth) <= scale * (r.high - r.low) / 2"
    code = f"Array.from({{length: 2000}}, (_, seed) => {one}.filter({inside}).length).reduce((a, b) => a + b)"
    held, narrow = run(f"[1, 0.9].map(scale => {code})")
    bound = 5 * math.sqrt(0.95 * 0.05 / 20_000)
    assert abs(held / 20_000 - 0.95) < bound
    assert abs(narrow / 20_000 - 0.95) > bound


@NODE
def test_all_values_that_are_simulated_are_all_people():
    """Of a question with two values the picture had people with 66.7 and with 1 %."""
    for values, smallest in ((2, 0.01), (3, 0.2), (10, 1e-4), (2, 0.5)):
        shares = run(f"P.shares({values}, {smallest}, 10)")
        assert sum(shares) == pytest.approx(1)
        assert min(shares) == shares[-1] <= smallest
    assert sum(run("P.shares(16, 0.01, 10)")) < 1


@NODE
def test_the_answer_keeps_what_was_asked():
    asked = "{people: 100000, values: 16, smallest: 0.01, perDay: 3, shuffled: true, epsilon: null}"
    found = run(f"P.answer({asked})")
    needed = found["needs"][0]["epsilon"]
    assert needed <= found["epsilon"] < needed * 1.01
    assert found["taken"]["margin"] <= 0.01 / 2
    assert found["bytesPerDay"] == 100_000 * 3 * found["taken"]["bytes"]
    assert found["spend"][2]["fresh"] == pytest.approx(90 * found["epsilon"])
    assert found["spend"][2]["central"] < found["spend"][2]["fresh"]
    few = run("P.answer({people: 100, values: 2, smallest: 0.5, perDay: 1000, shuffled: true, epsilon: 1})")
    assert [spent["delta"] for spent in few["spend"]] == [pytest.approx(0.1), pytest.approx(0.7), 1, 1]


# ---- the code


@cache
def written(choice, values=5, epsilon=2.5):
    return run(f"P.code(P.CHOICES.find(c => c.key === {json.dumps(choice)}), {values}, {epsilon})")


@NODE
def test_the_toml_is_the_plan():
    for choice in CHOICES:
        plan = PrivacyPlan.from_toml(written(choice)["toml"])
        assert plan == PrivacyPlan({"answer": CHOICES[choice].make(Domain(range(5)), 2.5)})
        assert plan.epsilon <= 2.5


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"answer": [0, 1, 1, 2, 4] * 400}).write_parquet("people.parquet")
    Path("plan.toml").write_text(written("subset_selection")["toml"])
    return tmp_path


@NODE
def test_the_polars_code_runs(folder, capsys):
    exec(compile(written("subset_selection")["polars"], "polars", "exec"), {})
    assert "shape: (5, 6)" in capsys.readouterr().out
    assert pl.read_parquet("reports.parquet").height == 2000


@NODE
def test_the_beam_code_runs(folder, capsys):
    exec(compile(written("subset_selection")["beam"], "beam", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[0] for line in lines) == list("01234")


@NODE
@pytest.mark.slow
def test_the_yaml_runs(folder):
    pytest.importorskip("jinja2", reason="needs Beam YAML: pip install 'ldp-telemetry[yaml]'")
    Path("pipeline.yaml").write_text(written("subset_selection")["yaml"])
    command = [sys.executable, "-m", "apache_beam.yaml.main", "--yaml_pipeline_file=pipeline.yaml"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    subprocess.run([*command, "--runner=FnApiRunner"], check=True, timeout=300, capture_output=True, env=environment)
    rows = [json.loads(line) for path in folder.glob("histogram*") for line in path.read_text().splitlines()]
    assert {row["value"] for row in rows} == set(range(5))
    assert {row["n"] for row in rows} == {2000}


def test_the_page_has_the_formulas_that_are_tested():
    assert asset("formulas.js") in planner_page()
