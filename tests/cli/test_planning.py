"""Plans and numbers from the command are those of the core."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldp_core import (
    Domain,
    HeavyHitters,
    Hybrid,
    Interval,
    PrivacyPlan,
    recommend,
    required_epsilon,
    required_n,
)


def test_a_new_plan_is_what_was_asked_for(ldp):
    Path("words.txt").write_text("one\n\ntwo words\n", encoding="utf-8")
    ldp(
        "plan new plan.toml -c os=ios,android -c level=1..3 -c crashed=false,true -c w=@words.txt -c minutes=0:60 "
        "-c name=text:3 --epsilon 6 --keep day --other os"
    )
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    assert plan.keep == ("day",)
    assert plan.epsilon <= 6
    domains = {name: m.inputs for name, m in plan.columns.items()}
    assert domains["os"] == Domain(["ios", "android"], unmatched="other")
    assert domains["level"].values == (1, 2, 3)
    assert domains["crashed"].values == (False, True)
    assert domains["w"].values == ("one", "two words")
    assert (domains["minutes"], type(plan["minutes"])) == (Interval(0, 60), Hybrid)
    assert (domains["name"].length, type(plan["name"])) == (3, HeavyHitters)


def test_a_plan_that_is_there_stays(ldp):
    ldp("plan new plan.toml -c os=ios,android --epsilon 1")
    before = Path("plan.toml").read_text()
    done = ldp("plan new plan.toml -c os=ios,android --epsilon 2", code=1)
    assert "--overwrite replaces it" in done.err
    assert Path("plan.toml").read_text() == before
    ldp("plan new plan.toml -c os=ios,android --epsilon 2 --overwrite")
    assert PrivacyPlan.from_toml(Path("plan.toml")).epsilon == 2


def test_a_plan_is_printed_without_a_file(ldp):
    done = ldp("plan new -c os=ios,android -c crashed=false,true --epsilon 2 --way sampled")
    assert PrivacyPlan.from_toml(done.out) == PrivacyPlan.sampled(
        {"os": ["ios", "android"], "crashed": [False, True]}, epsilon=2
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("plan new -c os --epsilon 1", "NAME=WHAT"),
        ("plan new -c os=a,b -c os=a,b --epsilon 1", "twice"),
        ("plan new -c os=a,b --epsilon 1 --other so", "not in the plan"),
        ("plan new -c os=@nowhere --epsilon 1", "cannot read 'nowhere'"),
        ("plan new -c os=a,b --epsilon -1", "epsilon must be in (0, inf)"),
        ("plan new -c w=text:x --epsilon 1", "whole number"),
        ("plan check nowhere.toml", "cannot read the plan"),
        ("simulate plan.toml --share os=ios", "VALUE:SHARE"),
        ("simulate plan.toml nowhere.csv", "there is no file"),
        ("plan check plan.toml nowhere.xls", "there is no file"),
        ("simulate plan.toml people.parquet --plot no/such/folder/a.html", "No such file or directory"),
        ("plan new no/such/folder/a.toml -c os=a,b --epsilon 1", "No such file or directory"),
        ("size 0:60 -m 0.1 -e 1 --mechanism unary_encoding", "one of ['hybrid'"),
    ],
)
def test_errors_of_ours_are_one_line(ldp, people, line, says):
    done = ldp(line, code=1)
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert says in done.err


@pytest.mark.parametrize(
    "line",
    [
        "nothing",
        "recommend 16",
        "size 16 -m 0.1",
        "size -m 0.1",
        "plan explain plan.toml",
        "simulate plan.toml",
        "plan",
    ],
)
def test_wrong_use_ends_with_2(ldp, people, line):
    ldp(line, code=2)


def test_check_counts_what_would_be_refused_and_shows_no_value(ldp, people):
    assert "the plan fits" in ldp("plan check plan.toml people.parquet").out
    odd = people.with_row_index().select("day", "minutes", "crashed", os=people["os"].replace("web", "beos"))
    odd.write_csv("odd.csv")
    odd.write_ndjson("odd.ndjson")
    refused = (people["os"] == "web").sum()
    for name in ("odd.csv", "odd.ndjson"):
        found = ldp(f"plan check plan.toml {name} --json", code=1)
        assert found.data["columns"]["os"]["refused"] == refused
        assert (found.data["records"], found.data["fits"]) == (len(people), False)
        shown = ldp(f"plan check plan.toml {name}", code=1)
        assert f"{refused:,}" in shown.out
        assert "beos" not in found.out + found.err + shown.out + shown.err


def test_check_says_which_column_has_another_type(ldp, people):
    people.with_columns(minutes=people["os"]).write_parquet("odd.parquet")
    found = ldp("plan check plan.toml odd.parquet --json", code=1).data["columns"]
    assert "minutes" in found["minutes"]["error"]
    assert found["os"] == {"refused": 0, "error": None}
    people.drop("os").write_parquet("less.parquet")
    assert "does not have the columns ['os']" in ldp("plan check plan.toml less.parquet", code=1).err


def test_a_corrupt_file_is_not_quoted(ldp, people):
    for name in ("a.parquet", "a.csv", "a.ndjson"):
        Path(name).write_bytes(b'os,minutes,crashed\nsecretword,"1,2\n{]')
        done = ldp(f"plan check plan.toml {name}", code=1)
        assert "secretword" not in done.err
        assert name in done.err


def test_explain_is_the_plan_s(ldp, people):
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    assert ldp("plan explain plan.toml --people 4000").out == plan.explain(4000) + "\n"
    assert ldp("plan explain plan.toml --data people.parquet").out == plan.explain(4000) + "\n"
    assert ldp("plan explain plan.toml --data people.parquet --id user").out.startswith("4000 people; records of one")
    found = ldp("plan explain plan.toml --people 4000 --json").data
    assert (found["epsilon"], found["epsilon_of_reports"]["10"]) == (plan.epsilon, plan.epsilon_of(10))
    assert found["columns"]["os"]["error"] == plan["os"].explain(4000).error


def test_recommend_and_size_are_the_core_s(ldp):
    assert ldp("recommend 16 -e 1 -n 100000 --json").data == [row.values() for row in recommend(16, 1.0, 100_000)]
    numbers = recommend(Interval(0, 60), 1.0, 1000)
    assert ldp("recommend 0:60 -e 1 -n 1000 --json").data == [row.values() for row in numbers]
    found = ldp("size 16 -m 0.01 -e 1 --json").data
    assert found == [row.values() for row in required_n(None, 0.01, domain=16, epsilon=1.0)]
    found = ldp("size 2 -m 0.02 -n 10000 --mechanism randomized_response --json").data
    assert found[0]["epsilon"] == required_epsilon("randomized_response", 0.02, 10_000, domain=2).epsilon
    found = {row["mechanism"]: row["n"] for row in ldp("size 0:60 -m 0.5 -e 1 --json").data}
    assert found["hybrid"] == required_n(Hybrid, 0.5, domain=Interval(0, 60), epsilon=1.0).n == min(found.values())


def test_size_of_a_plan(ldp, people):
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    done = ldp("size --plan plan.toml -m 0.5")
    assert f"{required_n(plan, 0.5).n:,} people" in done.out
    margins = {"os": 0.02, "minutes": 0.5, "crashed": 0.1}
    options = " ".join(f"-m {name}={margin}" for name, margin in margins.items())
    found = {row["name"]: row["n"] for row in ldp(f"size --plan plan.toml {options} --json").data}
    assert found == {row.name: row.n for row in required_n(plan, margins)}
    for wrong in ("--plan plan.toml -m os=much", "16 -e 1 -m os=0.1", "--plan plan.toml -m os=0.1"):
        assert ldp(f"size {wrong}", code=1).err.startswith("error: ")


def test_simulate_is_the_plan_s(ldp):
    ldp("plan new plan.toml -c os=ios,web --epsilon 1")
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    line = "simulate plan.toml --share os=ios:0.75,web:0.25 -n 4000 --seed 7"
    same = plan.simulate({"os": {"ios": 0.75, "web": 0.25}}, n=4000, seed=7)
    rows = [{**row, "people": n} for row, n in zip(same["os"].to_arrow().to_pylist(), (3000, 1000), strict=True)]
    assert ldp(f"{line} --json").data == {"os": rows}
    shown = ldp(line).out
    assert "3,000" in shown
    assert f"{same['os'].counts[0]:,.0f}" in shown


def test_simulate_reads_data_and_draws(ldp, people):
    done = ldp("simulate plan.toml people.parquet --seed 1 --plot seen.html")
    assert "3,800" in done.out  # of 4000, 200 crashed
    assert "vega" in Path("seen.html").read_text(encoding="utf-8")
    assert "a file of .html" in ldp("simulate plan.toml people.parquet --plot seen.txt", code=1).err
