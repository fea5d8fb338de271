"""Plans and numbers from the command are those of the core."""

import gzip
import json
import math
import re
from fractions import Fraction
from itertools import product
from pathlib import Path
from string import ascii_lowercase, digits

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp_core import (
    CountMeanSketch,
    Dates,
    Domain,
    HeavyHitters,
    HierarchicalHistogram,
    Interval,
    NOutput,
    PlanError,
    Prefixes,
    PrivacyPlan,
    PrivSet,
    RandomizedResponse,
    recommend,
    required_epsilon,
    required_n,
)
from tests.cases import case


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
    assert (domains["minutes"], type(plan["minutes"])) == (Interval(0, 60), NOutput)
    assert (domains["name"].length, type(plan["name"])) == (3, HeavyHitters)


def test_dates_are_declared_read_from_text_and_answered_as_dates(ldp):
    ldp("plan new plan.toml -c born=2024-01-01..2025-01-01/1mo -c at=2024-03-30T00..2024-03-31T00/6h -e 100 --other at")
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    assert plan["born"].domain == Dates("2024-01-01", "2025-01-01", "1mo")
    assert plan["at"].domain == Dates("2024-03-30T00:00", "2024-03-31T00:00", "6h", unmatched="other")
    assert PrivacyPlan.from_toml(ldp("plan new -c day=2024-01-01..2024-01-08 -e 1").out)["day"].domain.size == 7
    assert "is where the last cell ends" in ldp("plan new -c born=2024-01-01..2024-12-31/1mo -e 1", code=2).err
    rows = [{"born": f"2024-{k % 11 + 1:02}-28", "at": f"2024-03-30T{k % 2 * 6:02}:15:00Z"} for k in range(242)]
    Path("people.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    lines = ["born,at", *(f"{row['born']},{row['at']}" for row in rows)]
    Path("people.csv").write_text("\n".join(lines), encoding="utf-8")
    for kind in ("ndjson", "csv"):
        assert "the plan fits" in ldp(f"plan check plan.toml people.{kind}").out
        ldp(f"perturb people.{kind} {kind}.parquet --plan plan.toml")
        asked = ldp(f"estimate {kind}.parquet --ask born=range:low=2024-02-01,high=2024-03-31 --json").data["columns"]
        assert round(asked["born"]["estimates"][0]["count"], 3) == 44
        counts = {row["value"]: round(row["count"], 3) for row in asked["at"]["estimates"]}
        assert counts == {**{f"2024-03-30 {6 * k:02}:00:00": 121 * (k < 2) for k in range(4)}, "other": 0}
        [found] = ldp(f"estimate {kind}.parquet --ask born=median --json").data["columns"]["born"]["estimates"]
        assert found == {"median": "2024-06-15", "low": "2024-06-01", "high": "2024-06-30", "n": 242}
        assert "2024-06-15" in ldp(f"estimate {kind}.parquet --column born --ask born=median").out
        assert "2024-02-29   18.18 %" in ldp(f"estimate {kind}.parquet --column born --ask born=cdf").out
    refused = ldp("estimate csv.parquet --ask born=range:low=2024-02-02", code=2)
    assert "the nearest are 2024-02-01 and 2024-03-01" in refused.err


@pytest.mark.slow
def test_a_new_plan_is_what_the_core_makes_of_the_values(ldp):
    """Numbers and text were given mechanisms with epsilon / D: in sum too much, under `sampled` too little."""
    declared = {"0:60": Interval(0, 60), "text:3": Prefixes(ascii_lowercase + digits, 3, "cut"), "a,b": ["a", "b"]}
    for kinds, epsilon, count in product(
        (["0:60"], ["text:3"], ["0:60", "text:3"], ["0:60", "a,b", "text:3"]),
        (0.3, 1.0),
        (1, 5, 11, 13),
    ):
        columns = {f"c{k}": kinds[k % len(kinds)] for k in range(count)}
        line = " ".join(f"-c {name}={text}" for name, text in columns.items())
        with case(line, epsilon):
            plan = PrivacyPlan.from_toml(ldp(f"plan new {line} -e {epsilon}").out)
            assert sum(Fraction(m.epsilon) for m in plan.columns.values()) <= Fraction(epsilon)
            assert plan.epsilon == pytest.approx(epsilon, rel=1e-12)
            assert all(m.epsilon == pytest.approx(epsilon / count, rel=1e-12) for m in plan.columns.values())
            assert plan == PrivacyPlan.split({name: declared[text] for name, text in columns.items()}, epsilon=epsilon)
    plan = PrivacyPlan.from_toml(ldp("plan new -c a=x,y -c n=0:60 -c m=0:9 -e 1.5 --way sampled").out)
    assert [m.epsilon for m in plan.columns.values()] == [1.5] * 3
    for way, column, words in (
        ("sampled", "t=text:3", "'t': heavy_hitters is neither a frequency oracle nor for the mean of a number"),
        ("fake", "t=text:3", "take a split, or list the values"),
        ("fake", "n=0:60", "'n': fakes are of a frequency oracle: list the values, or take sampled"),
        ("pairs", "n=0:60", "'n': a pair is of columns of listed values: list them, or take a split"),
        ("pairs", "t=text:3", "'t': a pair is of columns of listed values: list them, or take a split"),
    ):
        refused = ldp(f"plan new -c a=x,y -c b=x,y -c {column} -e 1 --way {way}", code=2).err
        assert words in " ".join(refused.split())


def test_a_new_plan_for_clients_has_mechanisms_that_they_have(ldp):
    ldp("plan new any.toml -c age=0..120 -c minutes=0:60 -c os=a,b,c --epsilon 6 --keep day --other os")
    ldp("plan new plan.toml -c age=0..120 -c minutes=0:60 -c os=a,b,c --epsilon 6 --keep day --other os --clients")
    one, two = (PrivacyPlan.from_toml(Path(name)) for name in ("any.toml", "plan.toml"))
    with pytest.raises(PlanError, match="age"):
        one.compile()
    assert two.compile()["keep"] == ["day"]
    assert (two["minutes"], two["os"], two["age"].domain) == (one["minutes"], one["os"], one["age"].domain)
    assert two.epsilon == one.epsilon
    for rest, words in (("w=text:3", "'w'"), ("b=x,y --way sampled", "--way split")):
        assert words in ldp(f"plan new bad.toml -c a=x,y -c {rest} --epsilon 2 --clients", code=2).err
    assert not Path("bad.toml").exists()


def test_a_plan_that_is_there_stays(ldp):
    ldp("plan new plan.toml -c os=ios,android --epsilon 1")
    before = Path("plan.toml").read_text()
    done = ldp("plan new plan.toml -c os=ios,android --epsilon 2", code=1)
    assert "--overwrite replaces it" in done.err
    assert Path("plan.toml").read_text() == before
    ldp("plan new plan.toml -c os=ios,android --epsilon 2 --overwrite")
    assert PrivacyPlan.from_toml(Path("plan.toml")).epsilon == 2


def test_an_epsilon_whose_exponential_is_no_float(ldp):
    """Above 709 there was an OverflowError."""
    for line in ("plan new -c os=a,b", "recommend 16 -n 100", "size 16 -m 1%"):
        assert "randomized_response" in ldp(f"{line} -e 1e308").out


def test_a_plan_is_printed_without_a_file(ldp):
    done = ldp("plan new -c os=ios,android -c crashed=false,true --epsilon 2 --way sampled")
    assert PrivacyPlan.from_toml(done.out) == PrivacyPlan.sampled(
        {"os": ["ios", "android"], "crashed": [False, True]}, epsilon=2
    )


WRONG_LINES = [
    ("recommend abc -e 1 -n 100", 'at least two values, as ["yes", "no"], got one; values are written as ios,'),
    ("recommend 1..1 -e 1 -n 100", "at least two values"),
    ("recommend 1..x -e 1 -n 100", "a range of integers"),
    ("size abc -m 1% -e 1", "at least two values"),
    ("plan new -c os --epsilon 1", "NAME=WHAT"),
    ("plan new -c os=a,b -c os=a,b --epsilon 1", "twice"),
    ("plan new -c os=a,a --epsilon 1", "distinct"),
    ("plan new -c os=a,b, --epsilon 1", "'a,b,' has a comma without a value"),
    ("plan new -c os=a,b --epsilon 1 --other so", "not in the plan"),
    ("plan new -c os=a,b --epsilon -1", "--epsilon must be in (0, inf)"),
    ("plan new -c w=text:x --epsilon 1", "whole number"),
    ("simulate plan.toml --share os=ios", "VALUE:SHARE"),
    ("simulate plan.toml people.parquet --plot a.gif", "a picture is a file of"),
    ("size 16 --change 1% -e 1", "a change of a share is in (0, 1), and needs base"),
    ("size 0:60 -m 0.1 -e 1 --mechanism unary_encoding", "one of ['n_output'"),
    (
        "size 16 -m 1% -e 1 --mechanism hybrid",
        "hybrid is for numbers, as 0:60, and needs epsilon: got domain of type int",
    ),
    ("size 16 -m tiny -e 1", "as 0.01 or 1%, got 'tiny'"),
    ("size 0:60 -m 1% -e 1", "in the unit of the numbers"),
    ("size --plan plan.toml -m 1%", "in the unit of the numbers"),
    ("size --plan plan.toml -m os=1% -m os=2% -m minutes=1 -m crashed=1%", "--margin has a column twice"),
    ("size --plan plan.toml -m os=1% -m minutes=1 -m crashed=1% -m so=1%", "names columns ['so'], which the plan"),
    ("recommend 16,16 -e 1 -n 100", "distinct"),
    ("recommend 1..999999999999 -e 1 -n 100", "at most 2**31 - 1 labels"),
    ("recommend 16 -e 1e-300 -n 100", "epsilon is too small"),
    ("recommend 'a\nb,c' -e 1 -n 100", "a list is one line"),
    ("simulate plan.toml --share 'os=ios:1\n,web:1' -n 10", "a list is one line"),
    ("recommend text:3 -e 1e-17 -n 100", "epsilon is too small"),
    ("plan new -c os=a,b --epsilon 1e-18", "epsilon is too small"),
    ("simulate plan.toml people.parquet -n 99999999999999999999", "--people must be an integer in [0, "),
    (f"plan explain plan.toml -n {10**400}", "--people must be an integer below 2^1000, got one of 1329 bits"),
    (f"plan explain plan.toml -n {10**400} --json", "--people must be an integer below"),
    ("plan explain plan.toml -n -1 --json", "--people must be an integer, at least 0"),
    ("plan explain plan.toml -n 9 --repeats inf", "--repeats must be in (0, inf)"),
    (f"recommend 16 -e 1 -n {10**400}", "--people must be an integer below"),
    (f"size 16 -m 1% -n {10**400}", "--people must be an integer below"),
    (f"size 16 -m 1% -e 1 --repeats {10**400}", "--repeats must be an integer below"),
    ("recommend 1 -e 1 -n 10", "VALUES must be an integer"),
    ("recommend 16 -e 1 -n 10 --bytes 0", "--bytes must be at least"),
    (
        f"recommend 16 -e 1 -n {10**23} --ask median",
        "--people must be an integer in [1, 1000000000000]",
    ),  # (a TypeError)
    (f"size 16 -m 1 -n {10**23} --ask median", "--people must be an integer in [1, 1000000000000]"),
    ("recommend 0..9 -e 1 -n 10 --ask mean", "of numbers between two ends, as 0:9"),
    ("size 10 -e 1 -m 1 --ask mean", "of numbers between two ends, as 0:9"),
    ("recommend a,b -e 1 -n 10 --ask mean", "of numbers between two ends, as 0:60"),
    ("size 16 -m 1% -e 1 --population x", 'must be none (these people), "many"'),
    ("live --epsilon -1", "--epsilon must be in (0, inf), got -1.0"),  # (it said -0.5)
]
FAILURES = [
    ("simulate plan.toml people.parquet --repeats 10000000000000000", "at most 3074457345618258602 reports"),
    ("plan new -c os=@nowhere --epsilon 1", "cannot read 'nowhere'"),
    ("plan check nowhere.toml", "cannot read the plan"),
    ("simulate plan.toml nowhere.csv", "there is no file"),
    ("plan check plan.toml nowhere.xls", "there is no file"),
    ("report nowhere", "there is no folder or file 'nowhere'"),
    ("simulate plan.toml people.parquet --plot no/such/folder/a.json", "No such file or directory"),
    ("plan new no/such/folder/a.toml -c os=a,b --epsilon 1", "No such file or directory"),
    ("perturb people.parquet a.parquet --plan plan.toml --id user --records 1 --per os", "['os'] are perturbed"),
    ("plan explain plan.toml --data people.parquet --id nobody", "does not have the columns ['nobody']"),
]


def test_errors_of_ours_are_one_line(ldp, people):
    for line, says in WRONG_LINES + FAILURES:
        done = ldp(line, code=2 if (line, says) in WRONG_LINES else 1)
        assert done.out == ""
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1
        assert says in done.err


def test_a_column_that_is_there_twice(ldp, people):
    Path("twice.csv").write_text("os,os\nios,web\n")
    Path("twice.toml").write_text(PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)}).to_toml())
    for line in ("plan check twice.toml twice.csv", "perturb twice.csv out.parquet --plan twice.toml"):
        assert "['os'] twice" in ldp(line, code=1).err


def test_wrong_use_ends_with_2(ldp, people):
    for line in [
        "nothing",
        "recommend 16",
        "size 16 -m 0.1",
        "size -m 0.1",
        "size 16 -e 1",
        "size 16 -e 1 -m 1% --change 1% --base 5%",
        "size --plan plan.toml --change 1% --base 5%",
        "size --plan plan.toml -m os=1% -m minutes=1 -m crashed=1% --ask median",
        "plan explain plan.toml",
        "simulate plan.toml",
        "plan",
    ]:
        ldp(line, code=2)
    assert "of ['crashed', 'minutes'] it is not" in ldp("simulate plan.toml --share os=ios:1 -n 9", code=2).err


READERS = [
    "plan check plan.toml {}",
    "plan explain plan.toml --data {}",
    "plan explain plan.toml --data {} --id user",
    "simulate plan.toml {}",
    "perturb {} out.parquet --plan plan.toml",
    "estimate {} --plan plan.toml",
    "estimate {} --plan plan.toml --table os,crashed",
    "estimate {} --plan plan.toml --by-private os --of minutes",
    "estimate {} --plan plan.toml --by-private os --share sex=f:1",
    "estimate {} --plan plan.toml --person user --by country",
]


def test_check_counts_what_would_be_refused_and_shows_no_value(ldp, people):
    assert "the plan fits" in ldp("plan check plan.toml people.parquet").out
    ldp("plan new wide.toml -c os=ios,android -c minutes=1:59 -e 2 --other os --other minutes")
    lost = {"os": (people["os"] == "web").sum(), "minutes": (~people["minutes"].is_between(1, 59)).sum()}
    found = ldp("plan check wide.toml people.parquet --json").data
    assert found["columns"] == {name: {"refused": 0, "not declared": k, "error": None} for name, k in lost.items()}
    shown = ldp("plan check wide.toml people.parquet").out
    for name, k in lost.items():
        assert f"{name}: {k:,} of {len(people):,} values ({k / len(people):.2%}".replace("%", "") in shown
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
    people.with_columns(minutes=people["os"]).write_parquet("odd.parquet")
    found = ldp("plan check plan.toml odd.parquet --json", code=1).data["columns"]
    assert "minutes" in found["minutes"]["error"]
    assert found["os"] == {"refused": 0, "not declared": 0, "error": None}
    people.drop("os").write_parquet("less.parquet")
    assert "does not have the columns ['os']" in ldp("plan check plan.toml less.parquet", code=1).err
    Path("nohead.csv").write_text("secretword,12.5,true\n")
    Path("keys.ndjson").write_text('{"secretword": 1}\n')
    for name, line in product(("nohead.csv", "keys.ndjson"), READERS):
        done = ldp(line.format(name), code=1)
        assert f"{name!r} does not have the columns" in done.err
        assert "secretword" not in done.err + done.out, line
    for name in ("a.parquet", "a.csv", "a.ndjson"):
        Path(name).write_bytes(b'os,minutes,crashed\nsecretword,"1,2\n{]')
        done = ldp(f"plan check plan.toml {name}", code=1)
        assert "secretword" not in done.err
        assert name in done.err


def test_check_says_what_helps_each_column(ldp):
    """It said ``unmatched = "other"`` of numbers, which have no such answer, and took a file without a kept column."""
    Path("some.csv").write_text("os,minutes,late\nweb,61,1\nios,1,2\n")
    ldp("plan new plan.toml -c os=ios,android -c minutes=0:60 -e 2 --keep day")
    assert "does not have the columns ['day']" in ldp("plan check plan.toml some.csv", code=1).err
    text = Path("plan.toml").read_text().replace('"day"', '"late"')
    Path("plan.toml").write_text(text)
    shown = " ".join(ldp("plan check plan.toml some.csv", code=1).out.split())
    for name, answer in (("os", "other"), ("minutes", "clip")):
        said = f'unmatched="{answer}"'
        assert said in shown.partition(f"{name}: declare ")[2].partition(": declare")[0]
        text = text.replace(f'[columns."{name}"]', f'[columns."{name}"]\n{said}')
    Path("plan.toml").write_text(text)
    assert "the plan fits" in ldp("plan check plan.toml some.csv").out


@pytest.mark.parametrize(
    ("field", "declared", "mended"), [("no", "yes,no", "false"), ("3.0", "3.0,yes", "3"), ("NA", "yes,NA", "")]
)
def test_text_of_another_type_names_the_column_and_what_helps(ldp, field, declared, mended):
    """It was an error without the column."""
    kind, dtype = ("false,true", "Boolean") if field == "no" else ("1..5", "Int64")
    good = "true" if field == "no" else "4"
    ldp(f"plan new plan.toml -c os=ios,web -c a={kind} -e 2 --other a")
    Path("some.csv").write_text(f"os,a\nios,{good}\nweb,{field}\n")
    for line in ("plan check plan.toml some.csv", "perturb some.csv out.parquet --plan plan.toml"):
        assert f"{{'a': '{dtype}'}}: write numbers" in ldp(line, code=1).err
    Path("mended.csv").write_text(f"os,a\nios,{good}\nweb,{mended}\n")
    assert "the plan fits" in ldp("plan check plan.toml mended.csv").out
    ldp(f"plan new texts.toml -c os=ios,web -c a={declared} -e 2 --other a")
    assert "the plan fits" in ldp("plan check texts.toml some.csv").out


@pytest.mark.parametrize("second", ["os,a,b\nweb,1,2\n", "a,os\n1,web\n", "a,other\n1,web\n"])
def test_csv_files_of_unlike_columns_have_a_remedy(ldp, second):
    """The error said only that Polars could not read them."""
    ldp("plan new plan.toml --epsilon 1 -c os=ios,web")
    Path("0.csv").write_text("os,a\nios,1\n")
    Path("1.csv").write_text(second)
    done = ldp("perturb *.csv out.parquet --plan plan.toml", code=1)
    assert "not all have the same columns and types in one order" in " ".join(done.err.split())


def test_check_reads_as_perturb_does(ldp):
    """Arrow took 0x10 for 16, and made a column with +5 one of floats."""
    plan = PrivacyPlan({"age": RandomizedResponse([5, 16], epsilon=2.0), "ok": RandomizedResponse(epsilon=1.0)})
    Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    fits = {"5": True, "+5": True, " 5": True, "0x10": False, "5.0": False, "7": False, '"16"': True, "": False}
    for end, (field, code) in product(("csv", "csv.gz"), ((field, int(not fit)) for field, fit in fits.items())):
        text = f"age,ok\n16,1\n{field},0\n".encode()
        Path("some.csv").write_bytes(gzip.compress(text) if end == "csv.gz" else text)
        for line in ("plan check plan.toml some.csv", "perturb some.csv out.parquet --overwrite --plan plan.toml"):
            ldp(line, code)
    Path("some.ndjson").write_text('{"age": 5, "ok": true}\n' * 300 + '{"age": 16, "ok": false, "late": 1}\n')
    assert ldp("plan check plan.toml some.ndjson --json").data["records"] == 301


@pytest.mark.slow
def test_explain_is_the_plan_s(ldp, people):
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    assert ldp("plan explain plan.toml --people 4000").out == plan.explain(4000) + "\n"
    assert ldp("plan explain plan.toml --data people.parquet").out == plan.explain(4000) + "\n"
    assert ldp("plan explain plan.toml --data people.parquet --id user").out.startswith("4,000 people, one record each")
    found = ldp("plan explain plan.toml --people 4000 --json").data
    assert (found["epsilon"], found["epsilon_of_records"]["10"]) == (plan.epsilon, plan.epsilon_of(10))
    assert found["columns"]["os"]["standard_error"] == plan["os"].explain(4000).error
    spent = plan.epsilon_of(25)
    text = ldp("plan explain plan.toml -n 4000 --records 25").out
    assert text == plan.explain(4000, records=(1, 25), total=spent) + "\n"
    assert f"all reports of a person (epsilon {spent:g})" in text
    assert "all reports of a person (epsilon 7)" in ldp("plan explain plan.toml -n 4000 --total 7").out
    found = ldp("plan explain plan.toml -n 4000 --records 25 --json").data
    assert found["epsilon_of_records"] == {"1": plan.epsilon, "25": spent}
    text = ldp("plan explain plan.toml -n 8000000 --records 25 --delta 1e-9").out
    assert max(map(len, text.splitlines())) <= 80
    share = 1.959964 * math.sqrt(plan["crashed"].variance(8e6, 4e6)) / 8e6
    assert share < 0.0005  # less than 0.05 %, of which one decimal says nothing
    assert f"± {100 * share:.3g} % of the records" in text
    assert "margin, 95 %" in text
    keyed = ldp("plan explain plan.toml -n 4000 --keyed --repeats 4").out
    assert keyed == plan.explain(4000, keyed=True, repeats=4) + "\n"
    found = ldp("plan explain plan.toml -n 4000 --keyed --repeats 4 --json").data
    assert found["columns"]["os"]["standard_error"] == 4 * plan["os"].explain(1000).error  # (of 4,000)
    assert json.loads(ldp("plan compile plan.toml").out) == plan.compile()


def test_recommend_and_size_are_the_core_s(ldp):
    assert ldp("recommend 16 -e 1 -n 100000 --json").data == [row.values() for row in recommend(16, 1.0, 100_000)]
    often = [row.values() for row in recommend(16, 1.0, 100_000, repeats=7)]
    assert ldp("recommend 16 -e 1 -n 100000 --repeats 7 --json").data == often
    numbers = recommend(Interval(0, 60), 1.0, 1000)
    assert ldp("recommend 0:60 -e 1 -n 1000 --json").data == [row.values() for row in numbers]
    found = ldp("size 16 -m 0.01 -e 1 --json").data
    needs = required_n(None, 0.01, domain=16, epsilon=1.0)
    assert found == {"question": needs.note, "needs": [row.values() for row in needs]}
    found = ldp("size 2 -m 0.02 -n 10000 --mechanism randomized_response --json").data["needs"]
    assert found[0]["epsilon"] == required_epsilon("randomized_response", 0.02, 10_000, domain=2).epsilon
    found = ldp("size 16 --change 1% --base 5% --power 90% -e 1 --json").data
    needs = required_n(domain=16, epsilon=1.0, change=0.01, base=0.05, power=0.9)
    assert found == {"question": needs.note, "needs": [row.values() for row in needs]}
    found = {row["mechanism"]: row["n"] for row in ldp("size 0:60 -m 0.5 -e 1 --json").data["needs"]}
    assert found["n_output"] == required_n(NOutput, 0.5, domain=Interval(0, 60), epsilon=1.0).n
    assert next(iter(found.values())) == min(found.values())


def test_the_epsilon_that_is_printed_is_enough(ldp):
    """It was rounded to nearest: with 5.28835, of 5.288354, it took 10,001 people."""
    for d, margin, n in ((2, 0.01, 10_000), (2, 0.03, 10_000), (2, 0.01, 30_000)):
        asked = f"size {d} -m {margin} -n {n} --mechanism randomized_response"
        row = next(line for line in ldp(asked).out.splitlines() if line.startswith("randomized_response"))
        shown = float(row.split()[2])
        exact = ldp(f"{asked} --json").data["needs"][0]["epsilon"]
        assert exact <= shown < exact * (1 + 1e-5)
        assert required_n("randomized_response", margin, domain=d, epsilon=shown).n <= n


def test_a_plan_with_a_tree_has_a_size(ldp):
    """One tree made the whole plan unsizable."""
    ldp("plan new plan.toml -c os=ios,android -c minutes=1..64 -e 2")
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    tree = HierarchicalHistogram(range(1, 65), epsilon=1.0)
    made = PrivacyPlan({**plan.columns, "minutes": tree})
    Path("tree.toml").write_text(made.to_toml(), encoding="utf-8")
    found = {row["name"]: row["n"] for row in ldp("size --plan tree.toml -m 5% --population none --json").data["needs"]}
    explained = ldp(f"plan explain tree.toml -n {found['minutes']}").out
    assert "± 5 % of the records" in next(line for line in explained.splitlines() if line.startswith("minutes"))


@pytest.mark.slow
def test_a_question_is_planned_as_the_core_plans_it(ldp):
    rows = recommend(range(1, 21), 1.0, 1000, ask="median")
    assert ldp("recommend 1..20 -e 1 -n 1000 --ask median --json").data == [row.values() for row in rows]
    needs = required_n("subset_selection", 2.0, domain=20, epsilon=1.0, ask="median")
    found = ldp("size 20 --ask median -m 2 -e 1 --mechanism subset_selection --json").data
    assert found == {"question": needs.note, "needs": [row.values() for row in needs]}
    needs = required_n("hierarchical_histogram", 0.02, domain=Interval(0, 60), epsilon=1.0, ask="cdf")
    found = ldp("size 0:60 --ask cdf -m 2% -e 1 --mechanism hierarchical_histogram --json").data["needs"]
    assert found[0]["n"] == needs.n
    assert ldp("size 20 --ask median -m 2 -e 1 --mechanism subset_selection").err == ""  # not 200 % of the people
    assert "not in percent" in ldp("size 20 --ask median -m 2% -e 1", code=2).err
    needs = required_epsilon("subset_selection", 2.0, 9000, domain=20, ask="median")
    found = ldp("size 20 --ask median -m 2 -n 9000 --mechanism subset_selection --json").data
    assert found == {"question": needs.note, "needs": [row.values() for row in needs]}
    wrong = ldp("recommend 20 -e 1 -n 1000 --ask range", code=2).err
    assert "one of low and high, ranges, edges and values, as low=18" in wrong.replace("\n", " ")  # no VALUES


def test_size_says_what_is_left_out_too_much_and_taken(ldp):
    done = ldp("size 1000 -m 1% -n 10000")
    assert "hadamard_response " not in done.out.split("Asked for")[0]
    assert "hadamard_response needs at least" in done.out.replace("\n", " ").replace("  ", " ")
    # It said to give VALUES and one of both, to somebody who had given all three
    said = " ".join(ldp("size 16 --margin 1% --epsilon 1 --people 5000", code=2).err.replace("│", " ").split())
    assert "leave out one of them" in said
    for change in ("--power 95%", "--base 5%"):  # (they were left out in silence)
        assert "are of --change" in ldp(f"size 16 --margin 1% --epsilon 1 {change}", code=2).err
    assert "margin 0.5 is 50 % of the people; 0.5 % is written 0.5%" in ldp("size 16 --margin 0.5 --epsilon 1").err
    assert ldp("size 16 --margin 0.5% --epsilon 1").err == ldp("size 0:60 --margin 0.5 --epsilon 1").err == ""


def test_an_endless_margin_is_no_percent(ldp):
    assert "inf %" not in ldp("size 16 --margin inf --epsilon 1", code=2).err


def test_numbers_of_thousands_of_digits_are_refused_in_one_line(ldp):
    """They were Python's ValueError."""
    n = "1" * 5000
    for values, more in ((n, ""), (f"1..{n}", ""), (f"text:{n}", ""), (f"{n},2", ""), ("16", f"--population {n}")):
        told = ldp(f"size {values} --margin 1% --epsilon 1 {more}", code=2).err
        assert "at most 1000 digits, got 5000" in told


def test_size_of_a_plan(ldp, people):
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    done = ldp("size --plan plan.toml -m 0.5")
    assert f"{required_n(plan, 0.5).n:,} people" in done.out
    margins = {"os": 0.02, "minutes": 0.5, "crashed": 0.1}
    options = " ".join(f"-m {name}={margin}" for name, margin in margins.items())
    found = {row["name"]: row["n"] for row in ldp(f"size --plan plan.toml {options} --json").data["needs"]}
    assert found == {row.name: row.n for row in required_n(plan, margins)}
    for wrong in ("--plan plan.toml -m os=much", "16 -e 1 -m os=0.1", "--plan plan.toml -m os=0.1"):
        assert ldp(f"size {wrong}", code=2).err.startswith("error: ")


def test_simulate_is_the_plan_s(ldp):
    ldp("plan new plan.toml -c os=ios,web --epsilon 1")
    plan = PrivacyPlan.from_toml(Path("plan.toml"))
    line = "simulate plan.toml --share os=ios:0.75,web:0.25 -n 4000 --seed 7"
    same = plan.simulate({"os": {"ios": 0.75, "web": 0.25}}, n=4000, seed=7)
    rows = [{**row, "people": n} for row, n in zip(same["os"].to_arrow().to_pylist(), (3000, 1000), strict=True)]
    assert ldp(f"{line} --json").data == {"os": rows}
    assert ldp(f"{line} --repeats 100000000000000 --json").data["os"][0]["people"] == 3000 * 10**14
    again = plan.simulate({"os": {"ios": 0.75, "web": 0.25}}, n=4000, seed=7, repeats=3)["os"]
    found = [row["count"] for row in ldp(f"{line} --repeats 3 --json").data["os"]]
    assert found == again.counts.tolist()
    shown = ldp(line).out
    assert "3,000" in shown
    assert f"{same['os'].counts[0]:,.0f}" in shown


def test_simulate_reads_data_and_draws(ldp, people):
    for options, color in (("", "#ffffff"), ("--theme dark", "#14171c")):
        done = ldp(f"simulate plan.toml people.parquet --seed 1 --plot seen.json {options} --overwrite")
        assert "3,800" in done.out  # of 4000, 200 crashed
        assert color in Path("seen.json").read_text(encoding="utf-8")


def test_simulate_counts_the_items_of_sets(ldp):
    """Of lists the truth is of their items; of half floats, which Arrow does not count, of all people."""
    plan = PrivacyPlan({"p": PrivSet(["x", "y"], epsilon=1.0, most=2), "n": NOutput((0, 4), epsilon=1.0)})
    Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    halves = pa.array(np.array([1, 1, 1, 4] * 5, np.float16))
    pq.write_table(pa.table({"p": [["x"], ["y", "x"], [], ["x"]] * 5, "n": halves}), "sets.parquet")
    found = ldp("simulate plan.toml sets.parquet --seed 1 --json").data
    assert [row["people"] for row in found["p"]] == [15, 5]
    shown = ldp("simulate plan.toml sets.parquet --seed 1").out
    assert "p: 20 records" in shown
    assert "1.750" in shown


def test_simulate_shows_the_truth_of_what_is_counted(ldp):
    """Undeclared values are "other", numbers outside the nearer end; a null ended in a TypeError."""
    inputs = Interval(0, 60, "clip", missing=20)
    plan = {
        "os": RandomizedResponse(Domain(["ios"], unmatched="other"), epsilon=1.0),
        "m": NOutput(inputs, epsilon=1.0),
    }
    Path("plan.toml").write_text(PrivacyPlan(plan).to_toml(), encoding="utf-8")
    pq.write_table(pa.table({"os": ["ios", "web", None, None], "m": [10.0, 300.0, None, 30.0]}), "other.parquet")
    found = ldp("simulate plan.toml other.parquet --seed 1 --json").data
    assert [row["people"] for row in found["os"]] == [1, 3]
    assert "30.000" in ldp("simulate plan.toml other.parquet --seed 1").out  # (10 + 60 + 20 + 30) / 4


def test_plan_check_says_what_becomes_of_lists_and_of_nulls(ldp):
    """Lists that are cut were "not declared, and become what missing says"; of an open domain: "declare them"."""
    columns = {
        "cut": PrivSet(["a", "b", "c"], epsilon=1.0, most=1, on_more="first"),
        "other": PrivSet(Domain(["a", "b"], unmatched="other"), epsilon=1.0, most=1, on_more="first"),
        "long": PrivSet(["a", "b", "c"], epsilon=1.0, most=1),
        "word": CountMeanSketch(epsilon=1.0),
        "name": HeavyHitters(Prefixes("ab", 3), epsilon=1.0),
    }
    Path("plan.toml").write_text(PrivacyPlan(columns).to_toml(), encoding="utf-8")
    lists = [["a", "b"], ["c"]]
    words = {"word": ["rome", None], "name": ["ab", "abab"]}
    pq.write_table(pa.table({"cut": lists, "other": lists, "long": lists, **words}), "lists.parquet")
    said = " ".join(ldp("plan check plan.toml lists.parquet", code=1).out.split())
    assert (
        "cut: 1 of 2 values (50.00 %) have more items than the plan takes, of which the first ones stay other:" in said
    )
    assert 'the first ones stay, or others, which become "other"' in said
    assert 'for longer lists a larger "most", or on_more="first", which keeps the first ones' in said
    assert "word: fill them before" in said
    assert 'name: declare a larger alphabet or length, or use unmatched="cut"' in said


def test_numbers_that_mean_another_one_elsewhere(ldp):
    """100.000 people were taken for 100, 0:1,000 for the values 0:1 and 000, and the postal code 01067 for 1067."""
    for line in ("recommend 16 -e 1", "size 16 -m 1%", "plan explain plan.toml", "simulate plan.toml --share os=ios:1"):
        assert "got '100.000'" in ldp(f"{line} --people 100.000", code=2).err
    assert ldp("recommend 16 -e 1 -n 1.5e3 --json").data == ldp("recommend 16 -e 1 -n 1500 --json").data
    for line in ("plan explain plan.toml -n 9 --records", "recommend 16 -e 1 -n 9 --repeats", "live --devices"):
        assert "expected a whole number, as 1000000 or 1e6, got '1.000'" in ldp(f"{line} 1.000", code=2).err
    assert "write 0:1000 or 0:1.0000" in ldp("plan new -e 1 -c x=0:1.000", code=2).err
    assert "write -1250:2000 or -1.2500:2.0000" in ldp("plan new -e 1 -c x=-1.250:2.000", code=2).err
    for values, high in [("0:1.5", 1.5), ("0:1.0000", 1), ("0:0.125", 0.125), ("0.5:1.125", 1.125), ("0:1000", 1000)]:
        assert f'"high" = {float(high)}}}' in ldp(f"plan new -e 1 -c x={values}").out
    for values in ("0,5:99,5", "0:1,000", "1..1,000"):
        assert "no comma" in ldp(f"plan new -e 1 -c x={values}", code=2).err
    assert 'domain = ["01067", "80331"]' in ldp("plan new -e 1 -c plz=01067,80331").out
    assert 'domain = ["8:30", "12:00"]' in ldp("plan new -e 1 -c at=8:30,12:00").out


@pytest.mark.slow
def test_no_value_is_a_script_in_the_page_of_a_picture(ldp):
    plan = PrivacyPlan({"os": RandomizedResponse(["</script><script>alert(1)</script>", "ios"], epsilon=1.0)})
    Path("evil.toml").write_text(plan.to_toml(), encoding="utf-8")
    pq.write_table(pa.table({"os": [*plan["os"].domain.values]}), "evil.parquet")
    ldp("simulate evil.toml evil.parquet --plot evil.html")
    page = Path("evil.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    spec = re.search(r"const spec = (.*);\n", page).group(1)
    assert {row["value"] for row in next(iter(json.loads(spec)["datasets"].values()))} == {*plan["os"].domain.values}


@pytest.mark.slow
def test_all_that_shows_a_picture_is_in_its_page(ldp, people):
    ldp("simulate plan.toml people.parquet --seed 1 --plot seen.html")
    assert "already exists" in ldp("simulate plan.toml people.parquet --plot seen.html", code=1).err
    page = Path("seen.html").read_text(encoding="utf-8")
    assert "vega" in page
    assert re.findall(r"""(?:src|href)=["']https?:|cdn\.""", page) == []
    assert "#ffffff" in page
