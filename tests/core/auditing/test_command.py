"""``python -m ldp_core.auditing``: its table, its JSON, its exit status."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ldp_core import DBitFlip, PrivacyPlan, RandomizedResponse, UnaryEncoding
from ldp_core.auditing.__main__ import main

from ...cases import each

PLAN = PrivacyPlan(
    {"crashed": RandomizedResponse(epsilon=1.0), "hour": DBitFlip(range(4), epsilon_infinity=2.0, bits=4)},
)


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.to_toml())
    return str(path)


def test_each_column_and_the_whole_record(plan, capsys):
    assert main([plan, "--trials", "4e3"]) == 0
    out, progress = capsys.readouterr()
    lines = [line.split("  ")[0] for line in out.splitlines()]
    assert lines == ["audited", "crashed", "hour", "hour, 4 reports", "the whole record"]
    assert "hour: 4,000 of 4,000 trials of each input" in progress


def test_one_column_as_json(plan, capsys):
    assert main([plan, "--trials", "4000", "--column", "crashed", "--false-alarm", "1e-3", "--json", "--quiet"]) == 0
    out, progress = capsys.readouterr()
    [found] = json.loads(out)
    assert (found["name"], found["claimed"], found["false_alarm"], found["verdict"]) == (
        "crashed",
        1.0,
        1e-3,
        "not broken",
    )
    assert progress == ""


def test_a_sampled_plan_has_the_whole_record_only(tmp_path, capsys):
    path = tmp_path / "plan.toml"
    path.write_text(PrivacyPlan.sampled({"a": ["x", "y"], "b": [1, 2]}, epsilon=1.0).to_toml())
    assert main([str(path), "--trials", "4e3", "--quiet"]) == 0
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()] == ["audited", "the whole record"]


def test_what_is_broken_is_in_the_exit_status(plan, capsys, monkeypatch):
    monkeypatch.setattr(RandomizedResponse, "perturb", lambda self, values, **_: values)
    assert main([plan, "--trials", "4e3", "--column", "crashed", "--quiet"]) == 1
    assert capsys.readouterr().out.splitlines()[1].endswith("broken")


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    assert "python -m ldp_core.auditing plan.toml" in capsys.readouterr().out


def test_help_needs_neither_beam_nor_polars():
    code = "import runpy, sys; sys.modules.update(apache_beam=None, polars=None); sys.argv[1:] = ['--help']; "
    code += "runpy.run_module('ldp_core.auditing', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: python -m ldp_core.auditing")


@each(
    ("arguments", "said"),
    [
        ([], "give a plan, or --catalogue"),
        (["nowhere.toml"], "cannot read the plan"),
        (["nowhere.toml", "--trials", "inf"], "expected a whole number, like 1000000 or 1e6, got 'inf'"),
        (["--catalogue", "--trials", "10"], "trials must be an integer, at least 1000"),
        (["--catalogue", "--false-alarm", "0"], "--false-alarm must be in (0, 1)"),
        (["--catalogue", "--false-alarm", "2"], "--false-alarm must be in (0, 1)"),
        (["--catalogue", "--column", "os"], "--column is of a plan"),
    ],
)
def test_what_cannot_be_audited(arguments, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_a_column_that_is_not_there(plan, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([plan, "--column", "nothing"])
    assert stopped.value.code == 2
    assert "the plan does not perturb column 'nothing'" in capsys.readouterr().err


def test_an_encoding_of_many_values(capsys, tmp_path):
    """Reports of many places are told apart by few of them."""
    path = tmp_path / "plan.toml"
    path.write_text(PrivacyPlan({"x": UnaryEncoding(range(200), epsilon=1.0)}).to_toml())
    assert main([str(path), "--trials", "1e3", "--quiet"]) == 0
