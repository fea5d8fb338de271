"""Files of reports: what is in them, what comes out of them, and what is never written."""

import datetime as dt
import gzip
import json
import math
import re
import shlex
import shutil
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_polars
from ldp_cli import files
from ldp_core import (
    CountMeanSketch,
    Domain,
    HeavyHitters,
    HierarchicalHistogram,
    Hybrid,
    InputError,
    Limits,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
    engine,
)
from ldp_report import RESULTS, read_results

from ..cases import EVIL, full_disk
from ..parquet_bombs import BOMBS

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


def test_on_a_full_disk_a_file_is_whole_or_as_it_was(ldp, reports, monkeypatch):
    """Plans and estimates were left empty."""
    ldp("estimate reports.parquet --output out")
    there = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}

    def full(path, text, **_):
        with Path(path).open("w", encoding="utf-8") as file:
            file.write("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", lambda _, path, **how: full(path, "half", **how))
    for line in (
        "plan new plan.toml -c os=ios,web -e 1 --overwrite",
        "plan new other.toml -c os=ios,web -e 1",
        "estimate reports.parquet --output out --overwrite",
        "estimate reports.parquet --output elsewhere --csv",
    ):
        assert "No space left on device" in ldp(line, code=1).err, line
    assert {path: path.read_bytes() for path in there} == there
    assert {path.suffix for path in Path().rglob("*") if path.is_file() and path not in there} == {".csv"}  # (complete)


def test_a_column_whose_file_would_have_too_long_a_name_is_refused_before_all_is_written(ldp):
    """The files of the columns before it were left; and of 238 to 247 bytes names are not too long."""
    for name in ("n" * 247, "n" * 248, "日" * 83, "/" * 83):
        asked = RandomizedResponse(epsilon=1.0)
        plan = PrivacyPlan({"os": asked, name: asked})
        pl.DataFrame({"os": [True, False], name: [True, False]}).ldp.perturb(plan).ldp.sink_parquet("r.parquet", plan)
        if name == "n" * 247:
            ldp("estimate r.parquet --output fits")
            assert Path(f"fits/{name}.parquet").is_file()
            continue
        said = ldp("estimate r.parquet --output out", code=1).err
        assert "names of files have at most 255 bytes" in said
        assert not Path("out").exists()
        ldp("estimate r.parquet --output out --column os")  # the remedy
        shutil.rmtree("out")


def test_a_full_disk_is_said_with_the_file(ldp, people, reports):
    """Polars' message was left out, and with it the reason; and nothing said which file it was."""
    there = Path("reports.parquet").read_bytes()
    for line, target in (
        ("perturb people.parquet reports.parquet --plan plan.toml --overwrite", "reports.parquet"),
        ("estimate reports.parquet --output out", "os.parquet"),
    ):
        with full_disk(100):
            said = ldp(line, code=1).err
        assert f"{target}': " in said, said
        assert "cannot write" in said
        assert target != "reports.parquet" or "File too large" in said  # (of footers Polars does not tell)
    assert Path("reports.parquet").read_bytes() == there
    assert not any(path.is_file() for path in Path("out").rglob("*"))


def test_a_table_of_two_columns(ldp, reports):
    expected = reports.ldp.table("os", "crashed").to_dicts()
    [(name, found)] = ldp("estimate reports.parquet --table os,crashed --json").data["columns"].items()
    assert name == "os,crashed"
    assert [{k: v for k, v in row.items() if k != "value"} for row in found["estimates"]] == expected
    assert found["estimates"][1]["value"] == f"{expected[1]['os']}, true"
    [wide] = ldp("estimate reports.parquet --table os,crashed --repeats 4 --json").data["columns"].values()
    errors = [[row["standard_error"] for row in one["estimates"]] for one in (wide, found)]
    assert errors[0] == pytest.approx([2 * error for error in errors[1]])
    shown = ldp("estimate reports.parquet --table os,crashed --plot table.json").out
    assert all(word in shown for word in ("rate from", "rate to", found["estimates"][1]["value"]))
    ldp("estimate reports.parquet --table os,crashed --output out --population many")
    assert pl.read_parquet("out/os%2Ccrashed.parquet")["rate"].to_list() == [row["rate"] for row in expected]
    ldp("report out --output page.html")
    for wrong in ("os", "os,os", "os,nowhere", "os,crashed --column os"):
        ldp(f"estimate reports.parquet --table {wrong}", code=2)


def test_columns_are_named_in_any_script(ldp):
    """A letter of Cyrillic had six bytes in a file's name, and one of Japanese nine: a question had no room in it."""
    names = ["Сколько минут в день вы пользуетесь телефоном?", "日本語の質問" * 8, "a/b: 50%", "\u202eevil"]
    pl.DataFrame({name: [True, False] * 9 for name in names}).write_parquet("people.parquet")
    plan = PrivacyPlan({name: RandomizedResponse(epsilon=1.0) for name in names})
    Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    for kind in ("", "--csv"):
        ldp(f"estimate reports.parquet --output out{kind} {kind}")
        assert list(read_results(f"out{kind}").columns) == names
    assert {"日本語の質問" * 8 + ".csv", "a%2Fb%3A 50%25.csv"} < {path.name for path in Path("out--csv").iterdir()}


def test_a_table_of_three_columns(ldp, people):
    people.with_columns(old=pl.col("minutes") < 9).write_parquet("people.parquet")
    ldp("plan new three.toml -c os=ios,android,web -c old=false,true -c crashed=false,true --epsilon 9")
    ldp("perturb people.parquet three.parquet --plan three.toml")
    expected = pl.read_parquet("three.parquet").ldp.table("os", "old", "crashed")
    [(name, found)] = ldp("estimate three.parquet --table os,old,crashed --json").data["columns"].items()
    assert name == "os,old,crashed"
    keys = ["os", "old", "crashed", "count", "low", "high"]
    assert [tuple(row[key] for key in keys) for row in found["estimates"]] == expected.select(keys).rows()
    assert "ios, false, true" in ldp("estimate three.parquet --table os,old,crashed --plot three.svg").out
    ldp("estimate three.parquet --table os,old,crashed --output three")
    ldp("report three --output page.html")


def test_estimates_are_those_of_polars(ldp, people, reports):
    plan = ldp_polars.read_plan("reports.parquet")
    same = reports.ldp.estimates(plan)
    data = ldp("estimate reports.parquet --json").data
    assert data["epsilon"] == plan.epsilon
    about = {name: (c["mechanism"], c["epsilon"], c["confidence"]) for name, c in data["columns"].items()}
    assert about == {name: (m.title, m.epsilon, 0.95) for name, m in plan.columns.items()}
    ldp("estimate reports.parquet --output out --confidence 90%")
    [written] = json.loads(pl.read_parquet_metadata("out/os.parquet")["ldp.estimates"])
    said = [written[key] for key in ("column_name", "epsilon", "confidence", "mechanism")]
    assert said == ["os", plan["os"].epsilon, 0.9, plan["os"].to_dict()]
    found = {name: c["estimates"] for name, c in data["columns"].items()}
    assert found == {name: frame.to_dicts() for name, frame in same.items()}
    assert abs(found["os"][0]["count"] - N / 2) < 6 * found["os"][0]["standard_error"]
    shown = ldp("estimate reports.parquet").out
    assert f"{found['os'][0]['count']:,.0f}" in shown
    assert f"{found['minutes'][0]['mean']:,.3f}" in shown
    assert set(ldp("estimate reports.parquet --column crashed --json").data["columns"]) == {"crashed"}


def test_groups_windows_and_files(ldp, people, reports):
    plan = ldp_polars.read_plan("reports.parquet")
    done = ldp("estimate reports.parquet --window 7d --event-time day --output weekly --csv --top 2")
    same = reports.ldp.estimates(plan, window="7d", event_time="day")
    assert sorted(path.name for path in Path("weekly").iterdir()) == ["crashed.csv", "minutes.csv", "os.csv", RESULTS]
    written = pl.read_csv("weekly/os.csv", try_parse_dates=True)
    assert written["count"].to_list() == pytest.approx(same["os"]["count"].to_list())
    assert written["window_start"].to_list() == same["os"]["window_start"].to_list()
    assert "more values" in ldp("estimate reports.parquet --top 2").out
    wrong = ldp("estimate reports.parquet --ask minutes=mean:confidence=2", code=2).err
    assert wrong == "error: --ask minutes: confidence must be in (0, 1), got 2.0\n"
    together = "--ask os=histogram:simultaneous=true"  # what is said of the largest helps
    assert together in " ".join(ldp("estimate reports.parquet --column os --top 1").out.split())
    assert "too high" not in ldp(f"estimate reports.parquet --column os --top 1 {together}").out
    rows = {name: frame.height for name, frame in same.items()}
    assert [line.split()[:4] for line in done.out.splitlines()[3:6]] == [
        [name, f"{name}.csv", f"{n}", "2"] for name, n in rows.items()
    ]
    assert "already exists" in ldp("estimate reports.parquet --output weekly --csv", code=1).err
    done = ldp("estimate reports.parquet --output weekly --csv --column os --overwrite", code=1)  # not by week
    assert "estimates of other reports, ['crashed.csv', 'minutes.csv']" in done.err
    by = ldp("estimate reports.parquet --by day --column os --json").data["columns"]["os"]["estimates"]
    assert len({row["day"] for row in by}) == 10


@pytest.mark.parametrize("csv", ["", " --csv"])
def test_a_page_says_of_each_column_whom_its_intervals_are_about(ldp, people, reports, csv):
    """Where columns differ it said of all that they are of the noise alone."""
    asked = ldp(f"estimate reports.parquet --ask os=histogram:population=many --output out{csv}")
    assert "(os, minutes: of noise and sampling together)" in " ".join(asked.out.split())
    assert {c["name"]: c["alone"] for c in read_results("out").to_json()["columns"]} == {
        "os": False,
        "minutes": False,
        "crashed": True,
    }


def test_a_group_may_be_called_as_the_answer_to_another_question(ldp):
    plan = PrivacyPlan({"age": SquareWave((0, 100), epsilon=2.0, buckets=4)}, keep=["mean"])
    records = pl.DataFrame({"age": [20.0, 30.0, 80.0] * 40, "mean": ["high", "low", "low"] * 40})
    records.ldp.perturb(plan).ldp.sink_parquet("r.parquet", plan)
    assert "high" in ldp("estimate r.parquet --by mean").out
    for kind in ("", "--csv"):
        ldp(f"estimate r.parquet --by mean --output out {kind} --overwrite --plot drawn.json")
        [column] = read_results("out").to_json()["columns"]
        assert column["kind"] == "distribution"
        assert [group["key"] for group in column["groups"]] == ["mean = high", "mean = low"]
        Path("out/age.parquet").unlink(missing_ok=True)


def test_a_picture_is_replaced_by_a_whole_one(ldp, people, reports, monkeypatch):
    """It was written over at once: what failed left half a picture."""
    Path("drawn.svg").write_text("old")

    def full(chart, path, **options):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("altair.TopLevelMixin.save", full)
    for line in ("estimate reports.parquet --column os", "simulate plan.toml people.parquet"):
        assert "cannot write" in ldp(f"{line} --plot drawn.svg --overwrite", code=1).err
        assert Path("drawn.svg").read_text() == "old"


def test_pictures(ldp, people, reports):
    for options, data in [("", 3), ("--column os --window 2d --event-time day", 18), ("--column minutes --by day", 10)]:
        Path("drawn.json").unlink(missing_ok=True)
        line = f"estimate reports.parquet {options or '--column os'} --plot drawn.json"
        ldp(line)
        assert "'drawn.json' already exists: --overwrite" in ldp(line, code=1).err  # (it was replaced)
        spec = pl.read_json("drawn.json")["datasets"].item()
        assert [len(rows) for rows in spec.values()] == [data]
        assert "which of" in ldp("estimate reports.parquet --plot other.json", code=2).err.replace("\n", " ")
    line = "estimate reports.parquet --column os --window 2d --event-time day --plot drawn.json --overwrite"
    ldp(f"{line} --at 2024-01-02 --value ios --value web")
    spec = json.loads(Path("drawn.json").read_text())
    assert [len(rows) for rows in spec["datasets"].values()] == [2]
    assert '"bar"' in json.dumps(spec)
    for options, says in [
        ("--value ios", "what --plot draws"),
        ("--at 2026-01-03 --plot other.json", "which window of --window"),
        ("--value nothing --plot other.json", "--value nothing: it is not there; among others these are: android"),
        ("--window 2d --event-time day --at 1999 --plot other.json", "--at 1999: it is not there"),
        ("--csv", "--csv is how --output writes: give --output FOLDER, too"),
        ("--assume-reports", "give --plan FILE, too"),
        ("--person day --repeats 2", "--person is in place of --repeats"),
    ]:
        said = ldp(f"estimate reports.parquet --column os {options}", code=2).err
        assert says in " ".join(said.replace("│", " ").split())


def test_a_picture_of_one_value_that_is_true_or_false(ldp, reports):
    """``true``, as it stands in the table, was not there."""
    for value in ("true", "True"):
        ldp(f"estimate reports.parquet --column crashed --plot true.json --value {value} --overwrite")
    assert "these are: false, true" in ldp("estimate reports.parquet --column crashed --plot x.json --value 1", 2).err
    assert "say which of ['os', " in ldp("estimate reports.parquet --plot x.json --value ios", 2).err
    assert "99.99999 % intervals" in ldp("estimate reports.parquet --confidence 0.9999999").out  # (it said 100 %)


def test_keyed_noise_gives_the_same_reports_again(ldp, people):
    Secret.generate().to_file("secret")
    for name in ("a", "b"):
        ldp(f"perturb people.parquet {name}.parquet --plan plan.toml --secret-file secret --id user")
    assert pl.read_parquet("a.parquet").equals(pl.read_parquet("b.parquet"))
    assert "user" not in pl.read_parquet("a.parquet").columns
    ldp("perturb people.parquet c.parquet --plan plan.toml --secret-file secret", code=2)
    assert "of a histogram or mean --person COLUMN" in ldp("estimate a.parquet", code=2).err
    people.head(99).write_parquet("few.parquet")
    ldp("perturb few.parquet c.parquet --plan plan.toml --secret-file secret --id user")
    said = ldp("pool a.parquet c.parquet", code=2).err
    assert "say --repeats 1" in said
    assert "person=" not in said  # (pool has no such option)


@pytest.fixture
def many():
    """many.parquet: of 40 people 25 records each, over 100 days that begin on a Wednesday."""
    days = [dt.date(2024, 1, 3) + dt.timedelta(days=k % 100) for k in range(1000)]
    frame = pl.DataFrame(
        {"user": [f"u{k % 40}" for k in range(1000)], "day": days, "won": [k % 3 == 0 for k in range(1000)]}
    )
    frame.write_parquet("many.parquet")
    plan = PrivacyPlan({"won": RandomizedResponse(epsilon=2.0)}, keep=["day"])
    Path("won.toml").write_text(plan.to_toml(), encoding="utf-8")
    return frame


def test_perturb_says_of_what_the_epsilon_is(ldp, many):
    done = ldp("perturb many.parquet a.parquet --plan won.toml")
    assert done.err.count("\n") == 1
    assert "epsilon 2 is per record" in done.err
    told = shlex.split(re.search(r"ldp (plan explain .*) says", done.err)[1])
    assert "epsilon 20" in ldp(shlex.join(told)).out  # 10 records of a person
    done = ldp("perturb many.parquet b.parquet --plan won.toml --id user")
    assert "one person has 25 records, which spend epsilon 50 together" in done.err
    Secret.generate().to_file("secret")
    done = ldp("perturb many.parquet c.parquet --plan won.toml --id user --secret-file secret")
    assert "epsilon 2 together if the values never change, without bound if they do" in done.err
    assert "next: ldp estimate c.parquet --repeats K, the most reports of one person" in done.out
    done = ldp("perturb many.parquet d.parquet --plan won.toml --id user --secret-file secret --records 2")
    ldp(re.search(r"next: ldp (estimate d.* --repeats 2)$", done.out.strip())[1])  # (without --repeats it is refused)


def test_what_is_spent_is_rounded_up(ldp, many):
    """1.00004 was called 1, and 25 of it 25."""
    Path("won.toml").write_text(PrivacyPlan({"won": RandomizedResponse(epsilon=1.00004)}).to_toml(), encoding="utf-8")
    perturb = "perturb many.parquet a.parquet --plan won.toml --overwrite"
    assert "epsilon 1.001 is per record" in ldp(perturb).err
    assert "A record spent epsilon 1.001." in " ".join(ldp("estimate a.parquet").out.split())
    assert "which spend epsilon 25.01 together" in ldp(f"{perturb} --id user").err
    assert "which spends epsilon 1.001" in ldp(f"{perturb} --id user --records 1").err
    many.unique("user").write_parquet("once.parquet")
    once = ldp("perturb once.parquet b.parquet --plan won.toml --id user")
    assert "one record, which spends epsilon 1.001" in once.err


def test_records_of_a_person_are_bounded_as_in_polars(ldp, many):
    for options, per in [
        ("--records 1", []),
        ("--records 3 --per day", ["day"]),
        ("--records 2 --per day=1mo", [pl.col("day").dt.truncate("1mo")]),
    ]:
        done = ldp(f"perturb many.parquet a.parquet --plan won.toml --id user {options} --overwrite")
        records = int(options.split()[1])
        bounded = many.ldp.bound(id="user", records=records, per=per)
        reports = pl.read_parquet("a.parquet")
        assert reports["day"].to_list() == bounded["day"].to_list()
        assert reports.columns == ["won", "day"]
        assert f"{1000 - len(bounded):,} of 1,000 records were dropped" in done.out
        assert ("one record of" if records == 1 else f"at most {records} records of") + " each person" in done.err
        assert f"epsilon {2 * records}" in done.err
        assert ("in each of these anew" in done.err) == bool(per)
        told = " ".join(done.err.split())
        assert (f"a population take --repeats {records} in each " in told) == (records > 1)
    Secret.generate().to_file("secret")
    done = ldp("perturb many.parquet b.parquet --plan won.toml --id user --records 1 --per day --secret-file secret")
    assert "two of these spend epsilon 2 together if the values never change, without bound if they do" in done.err
    assert "anew" not in done.err


def test_options_of_persons_that_do_not_go_together(ldp, many):
    for options in ["--records 1", "--id user --per day", "--secret-env X", "--id user --secret-env X --secret-file y"]:
        ldp(f"perturb many.parquet a.parquet --plan won.toml {options}", code=2)
    done = ldp("perturb many.parquet a.parquet --plan won.toml --id person", code=1)
    assert "does not have the columns ['person']" in done.err
    done = ldp("perturb many.parquet a.parquet --plan won.toml --id won --records 1", code=2)
    assert "--id 'won' is a column that is perturbed" in done.err


def test_times_that_are_cut_to_days_or_hours_fill_them(ldp, many):
    """The last day was a time of midnight, so that its whole week was said to be filled in part."""
    weeks = pl.read_parquet("many.parquet").filter(pl.col("day").is_between(dt.date(2024, 1, 8), dt.date(2024, 1, 21)))
    hour = pl.col("day").cast(pl.Datetime) + pl.duration(hours=23 * pl.int_range(pl.len()).over("day") % 24)
    for name, time in (("days", pl.col("day").cast(pl.Datetime("us", "Asia/Kolkata"))), ("hours", hour)):
        weeks.with_columns(day=time.dt.truncate("1d") if name == "days" else time).write_parquet(f"{name}.parquet")
        ldp(f"perturb {name}.parquet of_{name}.parquet --plan won.toml")
        for window in ("1w", "6h"):
            found = ldp(f"estimate of_{name}.parquet --window {window} --event-time day --json").data
            assert found["columns"]["won"]["partial_windows"] == [], (name, window)


def test_windows_that_the_records_fill_in_part_are_marked(ldp, many):
    """100 days from a Wednesday, in weeks from Monday: the first week lacks 2 days, the last one 5."""
    ldp("perturb many.parquet a.parquet --plan won.toml")
    line = "estimate a.parquet --window 1w --event-time day"
    shown = ldp(line).out
    assert re.findall(r"(\S+) \*  +true", shown) == ["2024-01-01", "2024-04-08"]
    assert "* the records fill this window only in part" in shown
    assert ldp(f"{line} --json").data["columns"]["won"]["partial_windows"] == ["2024-01-01", "2024-04-08"]
    untimed = pl.read_parquet("a.parquet").with_columns(day=pl.when(pl.int_range(pl.len()) % 9 != 0).then("day"))
    untimed.ldp.sink_parquet("b.parquet", ldp_polars.read_plan("a.parquet"))
    written = ldp("estimate b.parquet --window 1w --event-time day --output weekly").out
    assert re.search(r"parquet +32 +15 +2\n", written)  # two values each of 15 weeks, and of no week
    ldp(f"{line} --plot a.json")
    spec = json.loads(Path("a.json").read_text())
    [rows] = spec["datasets"].values()
    assert {row["window"][:10] for row in rows if row.get("cut")} == {"2024-01-01", "2024-04-08"}
    assert {row["window"][:10] for row in rows if not row.get("cut")} == {
        str(d) for d in weeks("2024-01-08", "2024-04-01")
    }
    assert "open points" in json.dumps(spec["title"])
    assert '"records"' in json.dumps(spec)
    assert "people" not in json.dumps(spec)
    for csv in ("", "--csv"):
        ldp(f"{line} --output weekly --overwrite {csv}")
        written = pl.read_csv("weekly/won.csv", try_parse_dates=True) if csv else pl.read_parquet("weekly/won.parquet")
        partial = written.filter("partial")["window_start"].cast(pl.String).unique().sort()
        assert [start[:10] for start in partial] == ["2024-01-01", "2024-04-08"]
        shutil.rmtree("weekly")


def weeks(first, last):
    return pl.date_range(dt.date.fromisoformat(first), dt.date.fromisoformat(last), "1w", eager=True)


def test_a_table_is_a_screen_and_the_rest_is_written(ldp, many):
    ldp("perturb many.parquet a.parquet --plan won.toml")
    line = "estimate a.parquet --window 1d --event-time day"
    shown = ldp(line).out
    assert len(shown.splitlines()) < 50
    assert "... 160 more rows; --output FOLDER writes all" in shown
    done = ldp(f"{line} --output daily --csv")
    assert len(done.out.splitlines()) < 10
    assert "won.csv   200      100" in done.out
    assert len(pl.read_csv("daily/won.csv")) == 200


def test_what_the_numbers_mean_is_below_them(ldp, people, reports):
    for options in ["", "--output out", "--confidence 90%"]:
        said = ldp(f"estimate reports.parquet {options}").out.replace("\n", " ")
        level = "90" if "90" in options else "95"
        assert f"{level} % intervals of the noise alone: sampling error comes on top (means, " in said
        assert "A record spent epsilon 6 over its 3 columns." in said
        assert "sampling" in ldp("estimate --help").out
        assert "95 % intervals of noise and sampling together." in ldp("estimate reports.parquet --column minutes").out
    plan = PrivacyPlan({"x": SquareWave((0, 8), epsilon=9.0), "os": RandomizedResponse(epsilon=9.0)}, keep=["user"])
    rows = pl.DataFrame({"x": [1.0, 2.0] * 200, "os": [True] * 400, "user": [*range(100)] * 4})
    rows.ldp.perturb(plan).ldp.sink_parquet("x.parquet", plan)
    for options in ("x --ask x=median", "x --ask x=range:high=4", "os --person user --population none"):
        said = ldp(f"estimate x.parquet --column {options} --output {options[0]} --overwrite").out
        assert "95 % intervals of noise and sampling together." in said, options
        ldp(f"report {options[0]} -o page.html --overwrite")
        assert '"alone": false' in Path("page.html").read_text(encoding="utf-8"), options
    assert "--population must be none (these people)" in ldp("estimate reports.parquet --population 0", code=2).err


def test_polars_expressions_are_not_shown(ldp, people, reports):
    """Errors that come out of a query say nothing of its expressions."""
    odd = people.with_columns(os=people["os"].replace("web", "beos"))
    odd.write_parquet("odd.parquet")
    broken = reports.with_columns(os=pl.lit(None, dtype=pl.Enum(["ios", "android", "web"])))
    broken.write_parquet("broken.parquet")
    Secret.generate().to_file("secret")
    people.with_columns(user=pl.lit(None, dtype=pl.String)).write_parquet("nobody.parquet")
    for line in (
        "perturb odd.parquet a.parquet --plan plan.toml",
        "perturb nobody.parquet a.parquet --plan plan.toml --id user --secret-file secret",
        "perturb nobody.parquet a.parquet --plan plan.toml --id user --records 1",
        "estimate broken.parquet --plan plan.toml --column os",
        "estimate broken.parquet --plan plan.toml --column os --by day",
    ):
        done = ldp(line, code=1)
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1
        assert not {word for word in ("udf", "col(", "expression") if word in done.err}


def test_progress_is_in_percent_on_a_terminal_only(ldp, people, monkeypatch):
    """The number of records is known from Parquet's footer, and nearly so from the bytes of text."""
    for suffix in ["parquet", "csv", "ndjson"]:
        getattr(people, f"write_{suffix}")(f"people.{suffix}")
        assert files.size_of(f"people.{suffix}") == pytest.approx(N, rel=0.001)
        done = ldp(f"perturb people.{suffix} {suffix}.parquet --plan plan.toml")
        assert "%" not in done.err
        assert len(pl.read_parquet(f"{suffix}.parquet")) == N
        with monkeypatch.context() as terminal:
            terminal.setenv("FORCE_COLOR", "1")
            done = ldp(f"perturb people.{suffix} {suffix}.parquet --plan plan.toml --overwrite")
        assert "100%" in done.err


def test_what_fails_leaves_nothing_and_quotes_nothing(ldp, people):
    people.with_columns(os=people["os"].replace("web", "beos")).write_parquet("odd.parquet")
    Path("bad.csv").write_text("os,minutes,crashed,day\nsecretword,x,y,z\n", encoding="utf-8")
    Path("cut.parquet").write_bytes(Path("people.parquet").read_bytes()[:-100])
    before = sorted(Path().iterdir())
    for source in ("odd.parquet", "bad.csv", "cut.parquet", "nowhere.parquet", "plan.toml"):
        done = ldp(f"perturb {source} reports.parquet --plan plan.toml", code=2 if source == "plan.toml" else 1)
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1
        assert not {"beos", "secretword"} & set(done.err.replace("'", " ").split())
        assert sorted(Path().iterdir()) == before


def test_files_that_end_polars_or_have_nothing_are_errors_of_ours(ldp):
    """A row group that says it has a row more, at which Polars panics; no record; a name that is no UTF-8."""
    pl.DataFrame({"os": ["ios", "web", "web"] * 20}).write_csv("raw.csv")
    ldp("plan new plan.toml -c os=ios,web --epsilon 1")
    ldp("perturb raw.csv reports.parquet --plan plan.toml")
    data, rows = Path("reports.parquet").read_bytes(), b"\x16\x78\x26"  # (60 rows, in Thrift)
    assert data.count(rows) == 1
    Path("forged.parquet").write_bytes(data.replace(rows, b"\x16\x7a\x26"))
    assert "PanicException" in ldp("estimate forged.parquet", code=1).err
    for name, content in (("none.csv", b"os\n"), ("none.parquet", None)):
        Path(name).write_bytes(content) if content else pl.DataFrame({"os": []}, {"os": pl.String}).write_parquet(name)
        assert "has no records" in ldp(f"simulate plan.toml {name}", code=1).err
    for name, expected in (("empty.csv", "a line of names"), ("empty.ndjson", "an object of JSON in each line")):
        Path(name).write_bytes(b" \n" * (name == "empty.ndjson"))  # (Polars said NoDataError, or ComputeError)
        assert f"is empty: expected {expected}" in ldp(f"perturb {name} out.parquet --plan plan.toml", code=1).err
    Path("old.csv").write_bytes(b"os,x\rios,1\rweb,2\r")  # (it had no records, and the plan fitted)
    for line in ("perturb old.csv out.parquet --plan plan.toml", "plan check plan.toml old.csv"):
        assert r"ends its lines with \r alone" in ldp(line, code=1).err
    Path("latin.csv").write_bytes("os,city\nios,München\n".encode("latin-1"))
    assert '"CSV UTF-8"' in ldp("perturb latin.csv out.parquet --plan plan.toml", code=1).err
    pl.DataFrame({"other": [1], "os": ["ios"]}).write_parquet("raw.parquet")
    Path("raw.parquet").write_bytes(Path("raw.parquet").read_bytes().replace(b"other", b"oth\xff\xff"))
    for line in ("simulate plan.toml raw.parquet", "plan check plan.toml raw.parquet"):
        assert "cannot be read as parquet" in ldp(line, code=1).err


def test_a_column_that_is_missing_is_named(ldp, people):
    for name, write in (("less.csv", "write_csv"), ("less.parquet", "write_parquet"), ("less.ndjson", "write_ndjson")):
        getattr(people.drop("os"), write)(name)
        assert "['os']" in ldp(f"perturb {name} reports.parquet --plan plan.toml", code=1).err
    people.write_csv("european.csv", separator=";")  # (as spreadsheets write them where 0,5 is a half)
    assert "commas are between" in ldp("perturb european.csv reports.parquet --plan plan.toml", code=1).err
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    assert "['country']" in ldp("estimate reports.parquet --by country", code=1).err


def test_ids_of_csv_are_text_whatever_they_look_like(ldp):
    """As in `ldp run`: else an id is a number on one day and text on another, and its person has two answers."""
    ldp(f"plan new plan.toml -c age={','.join(map(str, range(100)))} -e 1")
    Path("secret").write_text("ab" * 32)
    made = []
    for name, ids in {"digits": ["7", "007", "07", "8"], "letters": ["7", "007", "07", "8", "A17"]}.items():
        frame = pl.DataFrame({"age": [3] * len(ids), "user": ids})
        for kind in ("csv", "parquet"):
            getattr(frame, f"write_{kind}")(f"{name}.{kind}")
            ldp(f"perturb {name}.{kind} {name}.{kind}.parquet --plan plan.toml --id user --secret-file secret")
            made.append(pl.read_parquet(f"{name}.{kind}.parquet").head(4))
    assert all(made[0].equals(other) for other in made[1:])
    ldp("perturb digits.csv once.parquet --plan plan.toml --id user --records 1")
    assert pl.read_parquet("once.parquet").height == 4
    assert ldp("plan explain plan.toml --data digits.csv --id user").out.startswith("4 people, one record each")


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_numbers_of_text_may_begin_with_whole_ones(ldp, kind):
    """Polars takes the types of text files from their first 100 rows."""
    ldp("plan new plan.toml -c minutes=0:60 -e 200")
    numbers = [10.0] * 1000 + [12.5] * 1000
    rows = [f'{{"minutes": {x:g}}}' if kind == "ndjson" else f"{x:g}" for x in numbers]
    Path(f"people.{kind}").write_text("\n".join([*(["minutes"] if kind == "csv" else []), *rows]) + "\n")
    ldp(f"perturb people.{kind} reports.parquet --plan plan.toml")
    found = ldp("estimate reports.parquet --json").data["columns"]["minutes"]["estimates"][0]
    assert found["mean"] == pytest.approx(11.25, abs=0.2)


def test_whole_numbers_and_booleans_of_csv_are_those_of_ldp_run(ldp):
    """After 100 empty fields they were text; Booleans could not be 0 and 1; of NA, a country, the check said null."""
    domains = {"age": Domain([1, 5, 7], unmatched="other"), "old": [False, True], "land": ["NA", "FR"]}
    plan = PrivacyPlan({name: RandomizedResponse(domain, epsilon=60.0) for name, domain in domains.items()})
    Path("plan.toml").write_text(plan.to_toml())
    Path("people2.csv").write_text("age,old,land\n")  # of a day without records
    for bits in (["true", "False", "TRUE"], ["1", "0", "1"]):
        rows = [*[f",{bits[0]},NA"] * 150, f"7,{bits[0]},NA", f" 5,{bits[1]},FR", f"+1,{bits[2]},NA"]
        Path("people.csv").write_text("\n".join(["age,old,land", *rows]) + "\n")
        ldp("perturb people*.csv reports.parquet --overwrite --plan plan.toml")
        made = pl.read_parquet("reports.parquet")
        assert made["age"].to_list() == [*["other"] * 150, "7", "5", "1"]
        assert made["old"].to_list() == [*[True] * 151, False, True]
    Path("people.csv").write_text("\n".join(["age,old,land", *rows[:-1]]) + "\n")
    assert ldp("plan check plan.toml people.csv --json").data["columns"]["land"]["refused"] == 0
    Path("people.ndjson").write_text('{"age":%s,"old":true,"land":"NA"}\n' % 10**30)  # (Arrow has no such type)
    assert ldp("plan check plan.toml people.ndjson --json").data["columns"]["age"]["not declared"] == 1


@pytest.mark.parametrize("kind", [pl.Date, pl.Datetime("us", "UTC")])
def test_a_time_at_an_end_of_the_calendar_is_none(ldp, kind):
    """9999-12-31, SQL's "never", ended all windows' estimates in a traceback: its window ends in the year 10000."""
    plan = PrivacyPlan({"a": RandomizedResponse(["x", "y"], epsilon=40.0)}, keep=["t"])
    for name, never in (("never", [dt.date(9999, 12, 31), dt.date(1, 1, 1)]), ("null", [None, None])):
        days = [dt.date(2026, 1, 5), *never, dt.date(2026, 1, 6)] * 9
        frame = pl.DataFrame({"a": ["x", "y", "y", "x"] * 9, "t": pl.Series(days, dtype=pl.Date).cast(kind)})
        frame.ldp.perturb(plan).ldp.sink_parquet(f"{name}.parquet", plan)
        frame.reverse().ldp.perturb(plan).ldp.sink_parquet(f"{name}2.parquet", plan)
    windows = "--window 1w --event-time t --json"
    for command in (
        f"estimate %s.parquet {windows}",
        f"compare %s.parquet {windows}",
        f"pool %s.parquet %s2.parquet {windows}",
    ):
        told, plain = (ldp(command.replace("%s", name)) for name in ("never", "null"))
        assert "18 records have a time before the year 100 or after 9900" in told.err
        assert told.out.replace("never", "null") == plain.out


@pytest.mark.parametrize("wrong", ["ios,0,95,shop", "ios,0", '"ios",1,"a,b",c', 'ios,1,13" and 15"', 'ios,1,"13" TV"'])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_of_csv_have_as_many_fields_as_the_first(ldp, wrong, packed):
    """Of columns that no plan reads Polars does not miss any: 0,95 was 0, and a mean of 1 was 0.5.

    From the quotes of 13" to the next ones it took all for one line: half of the people were gone.
    """
    ldp("plan new plan.toml -c os=ios,web -c price=0..10 -e 4")
    for lines, fine in ((["ios,1,shop", 'web,"2","a,\nb"', "web,3,"], True), (["ios,1,shop", wrong], False)):
        text = "\n".join(["os,price,place", *lines]).encode()
        Path("people.csv").write_bytes(gzip.compress(text) if packed else text)
        for command in ("perturb people.csv r.parquet --plan plan.toml --overwrite", "plan check plan.toml people.csv"):
            found = ldp(command, code=0 if fine else 1)
            assert fine or "number of fields than the first, 3, or quotes within a field" in " ".join(found.err.split())


def test_kept_texts_of_csv_are_no_numbers_and_no_dates_of_another_country(ldp):
    """Versions 1.1 and 1.10 were one group, 007 was 7, and 02/01/2024 of February was the second of January.

    So were rooms 1E2 and 10E1, and what has more digits than a float.
    """
    days = ["01/01/2024", "02/01/2024", "03/01/2024"]
    frame = pl.DataFrame(
        {
            "os": ["ios", "web", "ios"] * 50,
            "version": ["1.1", "1.10", "2.0"] * 50,
            "zip": ["01067", "1067", "80331"] * 50,
            "day": days * 50,
            "price": ["1.50", "12.00", "0.75"] * 50,
            "share": ["0.5", "1.0", "1e-05"] * 50,
            "began": ["2024-01-02", "2024-01-03", "2024-01-09"] * 50,
            "room": ["1E2", "10E1", "2E7"] * 50,
            "long": ["0.1", "0.10000000000000000001", "0.25"] * 50,
            "whole": ["0.5", "9007199254740992", "9007199254740993"] * 50,
            "signed": ["1E+2", "10E+1", "7"] * 50,
            "stamp": ["1700000000123456.0", "1700000000123457.0", "1700000000123458.0"] * 50,
            "mixed": ["-0.0", "0", "0.30000000000000004"] * 50,
        }
    )
    frame.write_csv("people.csv")
    kept = " ".join(f"--keep {name}" for name in frame.columns[1:])
    ldp(f"plan new plan.toml -c os=ios,web -e 60 {kept}")
    told = ldp("perturb people.csv reports.parquet --plan plan.toml").err
    assert "['price'] are numbers, of which 1.10 becomes 1.1: write names" in told
    made = pl.read_parquet("reports.parquet")
    texts = ["version", "zip", "day", "room", "long", "whole", "signed"]
    assert made.select(texts).equals(frame.select(texts))
    assert made.select("price", "share", "stamp", "mixed", "began").dtypes == [*[pl.Float64] * 4, pl.Date]
    rows = ldp("estimate reports.parquet --by version --json").data["columns"]["os"]["estimates"]
    assert {(row["version"], row["n"], row["value"] == "ios") for row in rows if row["count"] > 25} == {
        ("1.1", 50, True),
        ("1.10", 50, False),
        ("2.0", 50, True),
    }
    assert "is String" in ldp("estimate reports.parquet --window 1mo --event-time day", code=2).err
    line = "perturb people.csv weekly.parquet --plan plan.toml --id zip --records 1 --per day=7d"
    assert "is String" in ldp(line, code=2).err  # (weeks of other dates would let more records through)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_columns_of_ndjson_may_come_late(ldp, mark):
    """Polars looks for columns in the first 100 rows, and reads no mark of UTF-8; two ids are not made one."""
    ldp("plan new plan.toml -c minutes=0:60 -e 200 --keep day")
    early, late = b'{"minutes": 1.5, "user": 7}\n' * 150, b'{"minutes": 1.5, "user": 7, "day": "a"}\n' * 50
    Path("one.ndjson").write_bytes(mark + early + late)
    Path("two.ndjson").write_bytes(late)
    ldp("perturb [ot]*.ndjson reports.parquet --plan plan.toml")
    assert pl.read_parquet("reports.parquet")["day"].value_counts(sort=True).rows() == [(None, 150), ("a", 100)]
    ldp("perturb one.ndjson once.parquet --plan plan.toml --id user --records 1")
    assert pl.read_parquet("once.parquet").height == 1
    Path("two.ndjson").write_bytes(early + late.replace(b"7", b'"7"'))
    ldp("perturb two.ndjson once.parquet --overwrite --plan plan.toml --id user --records 1", code=1)


def test_ids_of_ndjson_are_all_texts_or_all_numbers(ldp):
    """One text among the first made all ids text: people with numbers had other noise than in files without it."""
    ldp("plan new plan.toml -c minutes=0:60 -e 1")
    perturb, ids = "perturb {}.ndjson once.parquet --plan plan.toml --id user --records 1", ["a", *range(150)]
    for name, some in {"mixed": ids, "turned": [*map(str, ids), 7], "texts": map(str, ids)}.items():
        Path(f"{name}.ndjson").write_text("".join(json.dumps({"minutes": 1.5, "user": one}) + "\n" for one in some))
    for name in ("mixed", "turned"):
        assert "two ids" in ldp(perturb.format(name), code=1).err
    ldp(perturb.format("texts"))


@pytest.mark.parametrize("name", ["partial", "epsilon", "confidence", "column_name", "pane_index"])
def test_groups_are_not_named_as_what_files_say_of_estimates(ldp, people, name):
    """Else `partial` is written over, and on a page or picture groups are one."""
    Path("plan.toml").write_text(Path("plan.toml").read_text().replace('"day"', f'"day", "{name}"'))
    people.with_columns(pl.Series(name, ["g1", "g2"] * (N // 2))).write_parquet("named.parquet")
    ldp("perturb named.parquet reports.parquet --plan plan.toml")
    line = f"estimate reports.parquet --column os --by {name} --window 7d --event-time day"
    assert {row[name] for row in ldp(f"{line} --json").data["columns"]["os"]["estimates"]} == {"g1", "g2"}
    for way in ("--output out", "--plot os.svg"):
        assert f"has columns ['{name}'] of its own" in ldp(f"{line} {way}", code=1).err


def test_reports_that_are_there_stay(ldp, people, reports):
    assert "--overwrite" in ldp("perturb people.parquet reports.parquet --plan plan.toml", code=1).err
    assert pl.read_parquet("reports.parquet").equals(reports)
    ldp("perturb people.parquet reports.parquet --plan plan.toml --overwrite")
    assert "must end in .parquet" in ldp("perturb people.parquet reports.csv --plan plan.toml", code=2).err


def test_reports_that_arrow_has_written_are_estimated_and_not_perturbed_again(ldp):
    """Their columns are plain to Polars: they were perturbed again, and simulated as if they were true."""
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    Path("plan.toml").write_text(plan.to_toml())
    table = plan.perturb(pa.table({"os": ["ios"] * 1000}))
    pq.write_table(table, "reports.parquet")
    found = ldp("estimate reports.parquet --json").data["columns"]["os"]["estimates"]
    assert [row["count"] for row in found] == pytest.approx(plan["os"].estimate(plan["os"].tally(table["os"])).counts)
    for line in ("perturb reports.parquet out.parquet --plan plan.toml", "simulate plan.toml reports.parquet"):
        assert "hold reports already" in ldp(line, code=1).err
    assert not Path("out.parquet").exists()


def test_plans_that_differ_are_not_estimated_by_one_of_them(ldp):
    """``--plan`` of one of them was taken for all: 114 % of the people had a value."""
    Path("r").mkdir()
    for name, epsilon in (("a", 1.0), ("b", 4.0)):
        plan = PrivacyPlan({"won": RandomizedResponse(epsilon=epsilon)})
        Path(f"{name}.toml").write_text(plan.to_toml())
        reports = plan.perturb(pa.table({"won": [True] * 100}))["won"].to_numpy()
        pl.DataFrame({"won": reports}).write_parquet(f"r/{name}.parquet", metadata=plan.metadata)
    assert "'r/b.parquet' has a plan of its own" in ldp("estimate r --plan a.toml --assume-reports", code=1).err
    assert "estimate them one by one" in ldp("estimate r", code=1).err


def test_groups_are_of_any_dtype(ldp):
    """Each row of nan was a group: 10 reports of 8. Lists and structs had a TypeError. Nanoseconds were one group."""
    keys = {"f": [1.5, float("nan")] * 4, "l": [[1], None] * 4, "s": [{"a": [1]}, {"a": None}] * 4}
    keys["t"] = pl.Series([1, 2] * 4, dtype=pl.Time)
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)}, keep=list(keys))
    pl.DataFrame({"os": ["ios"] * 8, **keys}).ldp.perturb(plan).ldp.sink_parquet("reports.parquet", plan)
    for key in keys:
        shown = ldp(f"estimate reports.parquet --by {key} --top 1").out
        assert shown.startswith("os: 8 reports")
        assert "2 more values" in shown


def test_groups_of_lists_and_of_what_is_no_number_are_told_apart(ldp):
    """CSV ended in an error, of durations too, and JSON had null for all three numbers."""
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=9.0)}, keep=["g"])
    cases: list[list[object]] = [[[1], [1, 2], None], [{"a": 1}, {"a": math.nan}, None], [b"a", b"\xff", None]]
    cases += [[dt.timedelta(0, 1), dt.timedelta(2), None], [math.nan, math.inf, None]]
    for groups in cases:
        frame = pl.DataFrame({"crashed": [True, False] * 30, "g": groups * 20}, strict=False)
        ldp_polars.sink_parquet(frame.ldp.perturb(plan), "g.parquet", plan)
        ldp("estimate g.parquet --by g --csv --output out --overwrite")
        assert pl.read_csv("out/crashed.csv", infer_schema=False)["g"].n_unique() == 3, groups
        rows = ldp("estimate g.parquet --by g --json").data["columns"]["crashed"]["estimates"]
        rows += [{"g": row["compared_with"]} for row in ldp("compare g.parquet --by g --json").data]
        rows += ldp("estimate g.parquet --by g --by-private crashed --among true --among false --json").data
        assert len({str(row["g"]) for row in rows}) == 3, groups
    assert {row["g"] for row in rows} == {"nan", "inf", None}


def test_names_that_mean_something_to_polars(ldp):
    """An id of this name ended the command once the reports were written; of this column no records were read."""
    Path("plan.toml").write_text(PrivacyPlan({"^o.*$": RandomizedResponse(["ios", "web"], epsilon=1.0)}).to_toml())
    pl.DataFrame({"^o.*$": ["ios", "web"] * 10, "len": range(20)}).write_csv("raw.csv")
    assert "each person has one record" in ldp("perturb raw.csv reports.parquet --plan plan.toml --id len").err
    assert ldp("plan check plan.toml raw.csv --json").data["records"] == 20


def test_raw_data_are_not_estimated(ldp, people):
    assert "--plan names the plan" in ldp("estimate people.parquet", code=1).err
    Path("broken.parquet").write_bytes(Path("people.parquet").read_bytes()[:-9])
    assert "--plan" not in ldp("estimate broken.parquet", code=1).err
    assert "no reports" in ldp("estimate people.parquet --plan plan.toml", code=1).err


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_text_is_estimated_on_the_users_word(ldp, people, reports, kind):
    """Reports of text were "no reports" in all files but those of Polars, whatever the user said."""
    made = pl.read_parquet("reports.parquet").select(pl.col("os", "crashed").ext.storage())
    plan = PrivacyPlan.from_toml("plan.toml")
    Path("part.toml").write_text(PrivacyPlan({name: plan[name] for name in made.columns}).to_toml())
    getattr(made, f"write_{kind}")(f"plain.{kind}")
    assert "no reports" in ldp(f"estimate plain.{kind} --plan part.toml", code=1).err
    found = ldp(f"estimate plain.{kind} --plan part.toml --assume-reports --json").data["columns"]
    known = ldp("estimate reports.parquet --json").data["columns"]
    assert {name: found[name]["estimates"] for name in found} == {name: known[name]["estimates"] for name in found}
    with pytest.raises(PlanError, match="no reports"):  # written they would be text of any kind
        made.ldp.sink_parquet("again.parquet", PrivacyPlan.from_toml("part.toml"), assume_reports=True)


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_text_in_csv_is_text_whatever_it_looks_like(ldp):
    """Reports of such labels were numbers or dates, and "no reports"."""
    pairs = (["1", "2"], ["true", "false"], ["2026-01-05", "2026-01-06"], ["10:00:00", "11:00:00"], ["1e5", "10e4"])
    for labels in pairs:
        plan = PrivacyPlan({"v": RandomizedResponse(labels, epsilon=50.0)})
        Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
        made = pl.DataFrame({"v": labels * 20 + labels[:1] * 20}).ldp.perturb(plan)
        made.select(pl.col("v").ext.storage()).write_csv("plain.csv")
        rows = ldp("estimate plain.csv --plan plan.toml --assume-reports --json").data["columns"]["v"]["estimates"]
        assert [(row["value"], round(row["count"])) for row in rows] == [*zip(labels, (40, 20), strict=True)]


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
@pytest.mark.parametrize(("kind", "packed"), [("parquet", True), ("parquet", False), ("ndjson", False)])
def test_lists_and_wider_integers_are_estimated_on_the_users_word(ldp, kind, packed):
    """Reports that DuckDB, pandas or JSON had written were "no reports", and the command had no remedy."""
    plan = PrivacyPlan({"os": UnaryEncoding(["ios", "web"], epsilon=1.0), "age": Hybrid((0, 99), epsilon=1.0)})
    Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    made = pl.DataFrame({"os": ["ios", "web", "web"] * 50, "age": [20, 50, 80] * 50}).ldp.perturb(plan, packed=packed)
    made.ldp.sink_parquet("reports.parquet", plan)
    plain = made.with_columns(pl.col("os", "age").ext.storage())
    wider = {"os": pl.List(pl.Int64 if packed else pl.Boolean), "age": pl.Int64}
    getattr(plain.cast(wider), f"write_{kind}")(f"plain.{kind}")
    line = f"estimate plain.{kind} --plan plan.toml"
    assert "--assume-reports casts lists and integers" in ldp(line, code=1).err
    found, known = (
        ldp(f"{one} --json").data["columns"] for one in (f"{line} --assume-reports", "estimate reports.parquet")
    )
    assert {name: found[name]["estimates"] for name in found} == {name: known[name]["estimates"] for name in known}
    plain.with_columns(age=300).write_parquet("ragged.parquet")
    assert "(file, plan, assume_reports=True) gives it back" in ldp("compare ragged.parquet again.parquet", code=1).err
    plain.ldp.sink_parquet("again.parquet", plan, assume_reports=True)
    assert ldp("estimate again.parquet --json").data["columns"].keys() == known.keys()
    said = ldp("estimate ragged.parquet --plan plan.toml --assume-reports", code=1).err
    assert "some records do not have the types" in said
    assert "'age': 'UInt8'" in said


def test_columns_that_two_plans_have_in_common_are_compared(ldp):
    """A plan that had got a column more was another one: no week could be compared with the one before."""
    os, flag = RandomizedResponse(["ios", "web"], epsilon=1.0), RandomizedResponse(epsilon=1.0)
    people = pl.DataFrame({"os": ["ios", "web", "web"] * 100, "won": [True, False, False] * 100, "day": 1, "hour": 2})
    plans = {"first": PrivacyPlan({"os": os}, keep=["day"]), "more": PrivacyPlan({"won": flag, "os": os}, keep=["day"])}
    plans["other"] = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=2.0)}, keep=["day"])
    plans["keeps"] = PrivacyPlan({"os": os}, keep=["day", "hour"])
    for name, plan in plans.items():
        people.ldp.perturb(plan).ldp.sink_parquet(f"{name}.parquet", plan)
    first, more = pl.read_parquet("first.parquet"), pl.read_parquet("more.parquet")
    known = first.ldp.compare(plans["first"], other=more)["difference"].to_list()
    assert [row["difference"] for row in ldp("compare first.parquet more.parquet --json").data] == known
    said = ldp("compare more.parquet first.parquet", code=1).err
    assert "of the columns ['won']: --column takes those that are the same in both" in said
    found = ldp("compare more.parquet first.parquet --column os --json").data
    assert [row["difference"] for row in found] == [-difference for difference in known]
    assert "of the columns ['os']" in ldp("compare first.parquet other.parquet", code=1).err
    for line in ("compare keeps.parquet first.parquet", "compare keeps.parquet more.parquet --column os --by day"):
        assert ldp(f"{line} --json").data  # (a kept column that nobody asks for was missed)
    assert "['hour']" in ldp("compare keeps.parquet first.parquet --by hour", code=1).err


@pytest.mark.parametrize("other", ["--no-packed", "--secret-file secret --id user"])
def test_files_of_other_types_are_pooled(ldp, other):
    """`ldp estimate` of both ended without a remedy."""
    Secret.generate().to_file("secret")
    Path("plan.toml").write_text(PrivacyPlan({"hour": UnaryEncoding(range(24), epsilon=50.0)}).to_toml())
    pl.DataFrame({"user": range(480), "hour": [*range(24)] * 20}).write_parquet("people.parquet")
    Path("both").mkdir()
    for name, more in (("a", ""), ("b", other)):
        ldp(f"perturb people.parquet both/{name}.parquet --plan plan.toml {more}")
    assert "one by one, or reports together by ldp pool" in ldp("estimate both --repeats 1", code=1).err
    pooled = ldp("pool both/a.parquet both/b.parquet --repeats 1 --json").data
    assert {row["n"] for row in pooled} == {960}


def test_what_a_record_spent_is_what_the_files_say(ldp, people, reports):
    """A plan of one of its columns said that a record spent the epsilon of that one."""
    whole = PrivacyPlan.from_toml("plan.toml")
    Path("part.toml").write_text(PrivacyPlan({"os": whole["os"]}).to_toml())
    assert "a plan of its own" in ldp("estimate reports.parquet --plan part.toml", code=1).err
    assert ldp("estimate reports.parquet --plan plan.toml").out == ldp("estimate reports.parquet").out


def test_a_sketch_answers_about_candidates(ldp):
    sketch = CountMeanSketch(epsilon=4.0, hashes=64, width=64)
    plan = PrivacyPlan({"word": sketch, "won": RandomizedResponse(epsilon=4.0)})
    Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    words = pl.DataFrame({"word": ["rome", "oslo"] * 500, "won": [True, False] * 500})
    words.write_parquet("words.parquet")
    ldp("perturb words.parquet reports.parquet --plan plan.toml")
    done = ldp("estimate reports.parquet --json")
    assert set(done.data["columns"]) == {"won"}
    assert "--candidates word=FILE" in done.err
    Path("words.txt").write_text("oslo\nlima\n", encoding="utf-8-sig")  # a mark of UTF-8 is no part of the first word
    found = ldp("estimate reports.parquet --candidates word=words.txt --json").data["columns"]["word"]["estimates"]
    assert [row["value"] for row in found] == ["oslo", "lima"]
    assert abs(found[0]["count"] - 500) < 6 * found[0]["standard_error"]
    assert "are of sketches" in ldp("estimate reports.parquet --candidates won=words.txt", code=2).err


def test_folders_and_patterns(ldp):
    for packed in ["--packed", "--no-packed"]:
        plan = PrivacyPlan({"os": UnaryEncoding(["ios", "web"], epsilon=2.0)})
        Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
        Path("reports").mkdir(exist_ok=True)
        for k in range(2):
            pl.DataFrame({"os": ["ios", "web"] * 10}).write_parquet(f"people{k}.parquet")
            ldp(f"perturb people{k}.parquet reports/{k}.parquet --plan plan.toml {packed} --overwrite")
        for source in ("reports", "'reports/*.parquet'"):
            assert {row["n"] for row in ldp(f"estimate {source} --json").data["columns"]["os"]["estimates"]} == {40}
    for old, new in (("0.parquet", "0.PARQUET"), ("1.parquet", "1.pq")):  # (they were left out in silence)
        Path("reports", old).rename(Path("reports", new))
    for source, n in (("reports", 40), ("reports/1.pq", 20)):
        assert {row["n"] for row in ldp(f"estimate {source} --json").data["columns"]["os"]["estimates"]} == {n}
    Path("empty").mkdir()
    assert "there is no Parquet file in 'empty'" in ldp("estimate empty", code=1).err


def test_columns_in_the_names_of_folders_are_in_the_file_that_the_error_says_to_write(ldp):
    """Such a folder, of records or reports, ended all commands without a remedy, and only Polars read it."""
    plan = PrivacyPlan({"won": RandomizedResponse(epsilon=9.0)}, keep=["the day"])
    Path("plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    people = pl.DataFrame(
        {"won": [True, False, False] * 200, "the day": [dt.date(2026, 1, 1 + k % 2) for k in range(600)]}
    )
    by_day = {name: pl.PartitionBy(name, key="the day", include_key=False) for name in ("raw", "made")}
    people.lazy().sink_parquet(by_day["raw"], mkdir=True)
    people.lazy().ldp.perturb(plan).ldp.sink_parquet(by_day["made"], plan, mkdir=True)
    for line in (
        "perturb raw out.parquet --plan plan.toml",
        "plan check plan.toml raw",
        "perturb 'raw/*/*.parquet' out.parquet --plan plan.toml",
        "estimate made --by 'the day'",
        "compare made --by 'the day'",
        "pool 'made/the day=2026-01-01' 'made/the day=2026-01-02'",
    ):
        said = ldp(line, code=1).err
        assert "['the day'] are in the names of folders" in said, line
        assert ".sink_parquet(file), with its rows" in said
        assert "of reports .ldp.sink_parquet(file, ldp_polars.read_plan(folder))" in said
    pl.scan_parquet("raw").sink_parquet("raw.parquet")
    ldp("perturb raw.parquet again.parquet --plan plan.toml")
    pl.scan_parquet("made").ldp.sink_parquet("made.parquet", ldp_polars.read_plan("made"))
    for file in ("again.parquet", "made.parquet"):
        rows = ldp(f"estimate {file} --by 'the day' --json").data["columns"]["won"]["estimates"]
        assert [(row["the day"], row["n"]) for row in rows[::2]] == [("2026-01-01", 300), ("2026-01-02", 300)]
        assert all(abs(row["count"] - 100) < 6 * row["standard_error"] for row in rows if row["value"] is True)


@pytest.mark.parametrize("inside", [True, False])
def test_folders_that_are_named_after_a_private_value_are_refused(ldp, inside):
    """Reports came folder by folder, in the order of the value: 99 % were guessed, where epsilon 1 allows 73 %."""
    Path("plan.toml").write_text(PrivacyPlan({"won": RandomizedResponse(epsilon=1.0)}).to_toml(), encoding="utf-8")
    people = pl.DataFrame({"won": [True, False, False] * 200})
    people.lazy().sink_parquet(pl.PartitionBy("raw", key="won", include_key=inside), mkdir=True)
    for source in ("raw", "'raw/*/*.parquet'"):
        for line in (f"perturb {source} out.parquet --plan plan.toml", f"plan check plan.toml {source}"):
            assert "named after values of ['won']" in ldp(line, code=1).err
    assert (ldp("simulate plan.toml raw", code=0 if inside else 1).err != "") is not inside
    if inside:  # (of one folder no order tells anything)
        ldp("perturb raw/won=true out.parquet --plan plan.toml")
        Path("out.parquet").unlink()
    pl.read_parquet("raw").sample(fraction=1, shuffle=True).write_parquet("raw.parquet")
    ldp("perturb raw.parquet out.parquet --plan plan.toml")


def test_names_that_no_file_can_have_are_errors_of_ours(ldp, people, reports):
    """OSError, TypeError; and no name was the folder itself."""
    Path("old").mkdir()
    for name in ("x" * 300, "\udcff.parquet", "", "ol*", "x" * 300 + "*"):
        for line in (
            "estimate {}",
            "compare {} --by day",
            "pool reports.parquet {}",
            "perturb {} out.parquet --plan plan.toml",
        ):
            said = ldp(line.format(shlex.quote(name)), code=1).err
            assert "no file" in said or "not there" in said or "matches a folder, 'old'" in said
        with pytest.raises(InputError):
            ldp_polars.read_plan(name)


def test_a_column_named_as_a_pattern_is_itself(ldp):
    """Polars found no column: "the data have []"."""
    ldp("plan new plan.toml -c ^x$=a,b -e 2 --keep *")
    pl.DataFrame({"^x$": ["a", "b"], "*": [1, 2], "^u$": [1, 1], "x": [0, 0]}).write_csv("a.csv")
    assert "one person has 2 records" in ldp("perturb a.csv r.parquet --plan plan.toml --id ^u$").err
    assert pl.read_parquet("r.parquet").columns == ["^x$", "*"]
    pl.DataFrame({"x": [1]}).write_parquet("plain.parquet")
    assert "error: 'plain.parquet': the metadata" in ldp("compare r.parquet plain.parquet", code=1).err


def test_a_file_with_brackets_in_its_name_is_itself(ldp):
    """Polars took the name for a pattern, and read v1 in the place of v[1]: records of others, without a word."""
    ldp("plan new plan.toml -c x=a,b -e 50")
    for kind in ("csv", "ndjson", "parquet"):
        for name, letters in (("v[1]", ["a"] * 20), ("v1", ["b"] * 70)):
            getattr(pl.DataFrame({"x": letters}), f"write_{kind}")(f"{name}.{kind}")
        ldp(f"perturb 'v[1].{kind}' 'r[1].parquet' --plan plan.toml --overwrite")
        ldp(f"perturb v1.{kind} r1.parquet --plan plan.toml --overwrite")
        found = ldp("estimate 'r[1].parquet' --json").data["columns"]["x"]["estimates"]
        assert [(row["value"], round(row["count"]), row["n"]) for row in found] == [("a", 20, 20), ("b", 0, 20)]
    ldp("perturb v[1].csv other.parquet --plan plan.toml")
    assert ldp_polars.pool(["r[1].parquet", "other.parquet"])["n"].to_list() == [40, 40]


def test_columns_that_are_the_same_in_several_plans_are_estimated_together(ldp, reports):
    """All that the plans say had to be the same."""
    plan, web, day = ldp_polars.read_plan("reports.parquet"), ["web"] * 40, [dt.date(2024, 1, 3)] * 40
    up, os = RandomizedResponse(epsilon=3.0), plan["os"]
    Path("mixed").mkdir()
    shutil.copy("reports.parquet", "mixed")
    more = PrivacyPlan({"up": up, "os": os, "won": os, "crashed": up}, keep=["day"])
    people = pl.DataFrame({"up": [True] * 40, "os": web, "won": web, "crashed": [False] * 40, "day": day})
    made = people.ldp.perturb(more, packed=True)
    made.ldp.sink_parquet("mixed/more.parquet", more)
    found = ldp("estimate mixed --column os --by day --json").data
    both = pl.concat([frame.select("os", "day") for frame in (reports, made)])
    expected = both.ldp.histograms(PrivacyPlan({"os": os}, keep=["day"]), by="day")
    assert [row["count"] for row in found["columns"]["os"]["estimates"]] == expected["count"].to_list()
    assert found["epsilon"] == more.epsilon > plan.epsilon
    assert "at most epsilon 10 by the plans of all files" in " ".join(ldp("estimate mixed --column os").out.split())
    for line in ("", "--column os --column up", "--column crashed", "--column os --output out", "--table os,crashed"):
        assert "different plans" in ldp(f"estimate mixed {line}", code=1).err
    keyed = people.with_columns(user=pl.int_range(pl.len())).ldp.perturb(
        more, packed=True, key=Secret.generate(), id="user"
    )
    keyed.ldp.sink_parquet("mixed/more.parquet", more)  # (the error did not say what to do)
    assert "['os'] are not of one type in all files" in (said := ldp("estimate mixed --column os", code=1).err)
    assert "by ldp pool" in said
    made.ldp.sink_parquet("mixed/more.parquet", more.seeded(1), assume_reports=True)
    assert "different plans" in ldp("estimate mixed --column os", code=1).err


def test_a_link_to_a_file_beside_it_is_that_file(ldp, reports):
    """As latest.parquet: people were counted twice, and their records perturbed twice, in silence."""
    for folder, source in (("in", "people.parquet"), ("out", "reports.parquet")):
        Path(folder).mkdir()
        shutil.copy(source, f"{folder}/day.parquet")
        Path(f"{folder}/latest.parquet").symlink_to("day.parquet")
    n = pl.read_parquet("people.parquet").height
    for path in ("in", "'in/*.parquet'", "in/latest.parquet"):
        ldp(f"perturb {path} made.parquet --plan plan.toml --overwrite")
        assert pl.read_parquet("made.parquet").height == n, path
    for path in ("out", "'out/*.parquet'", "out/latest.parquet"):
        found = ldp(f"estimate {path} --column crashed --json").data["columns"]["crashed"]["estimates"]
        assert found[0]["n"] == n, path


def test_files_of_linked_folders_are_read_once_though_links_go_in_circles(ldp, reports):
    """Linked folders of a folder were not read, and nobody was told; two links in a circle took for ever."""
    for folder, source in (("in", "people.parquet"), ("out", "reports.parquet")):
        Path(f"{folder}/day=1").mkdir(parents=True)
        Path(f"{folder}/.old").mkdir()
        Path(f"disk-{folder}/eu").mkdir(parents=True)
        whole = pl.read_parquet(source)
        for name, rows in {
            "day=1/a": 900,
            ".old/b": 90,
            f"../disk-{folder}/c": 500,
            f"../disk-{folder}/eu/d": 70,
        }.items():
            whole.head(rows).write_parquet(f"{folder}/{name}.parquet")
        Path(f"{folder}/linked").symlink_to(f"../disk-{folder}")
        Path(f"{folder}/beam-temp-job").mkdir()  # of a job that was ended, whose records are written again
        whole.head(7).write_parquet(f"{folder}/beam-temp-job/e.parquet")
        for circle in ("up", "above"):
            Path(f"{folder}/day=1/{circle}").symlink_to("..")
    for pattern in ("in", "in/", "./in//", "'in/**/*.parquet'", "'i*/day=1/**/*.parquet'"):
        ldp(f"perturb {pattern} made.parquet --plan plan.toml --overwrite")
        assert pl.read_parquet("made.parquet").height == 1470, pattern
    for pattern in ("out", "out/", "'out/**/*.parquet'"):
        found = ldp(f"estimate {pattern} --plan plan.toml --column crashed --json").data["columns"]["crashed"][
            "estimates"
        ]
        assert found[0]["n"] == 1470, pattern


def test_a_copy_in_a_folder_is_not_counted_again(ldp, reports):
    """People counted twice there, with intervals that were too narrow."""
    Path("folder").mkdir()
    for name in ("one", "copy"):
        shutil.copy("reports.parquet", f"folder/{name}.parquet")
    shutil.copy("reports.parquet", "third.parquet")
    for line in ("estimate folder", "estimate 'folder/*.parquet' --repeats 1", "compare folder --by day"):
        assert "'one.parquet' is a copy of 'copy.parquet'" in ldp(line, code=2).err
    assert "is a copy of 'reports.parquet'" in ldp("pool reports.parquet third.parquet", code=2).err
    n = pl.read_parquet("reports.parquet").height
    found = ldp("estimate folder --column crashed --repeats 2 --json").data["columns"]["crashed"]["estimates"]
    assert found[0]["n"] == 2 * n  # keyed reports of one day may be those of another
    few = pl.scan_parquet("reports.parquet").head(20)  # these may be equal by chance
    for name in ("one", "copy"):
        few.ldp.sink_parquet(f"folder/{name}.parquet", ldp_polars.read_plan("reports.parquet"))
    assert ldp("estimate folder --column crashed --json").data["columns"]["crashed"]["estimates"][0]["n"] == 40


# ---- the report of a folder of estimates, and where the planner is


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
    assert "changed" in data["columns"][0]["changed"]
    ldp("estimate reports.parquet --window 7d --event-time day --repeats 1 --column os --output often")
    ldp("report often -o often.html")  # (who is in both windows, nobody said)
    assert data_of(Path("often.html").read_text())["columns"][0]["changed"] is None
    said = ldp("estimate reports.parquet --window 7d --event-time day --column os --json").data
    found = said["columns"]["os"]["estimates"]
    rows = [row for group in data["columns"][0]["groups"] for row in group["rows"]]
    assert [row[:2] for row in rows] == [[row["value"], row["count"]] for row in found]


def test_reports_of_groups_in_which_nothing_is_found_are_counted(ldp):
    """The title and the page had 900 of 903."""
    plan = PrivacyPlan({"word": HeavyHitters(Prefixes("ab", 4), epsilon=5.0, levels=(2, 4), rows=8)}, keep=["g"])
    words = pl.DataFrame({"word": ["abba"] * 903, "g": ["many"] * 900 + ["few"] * 3})
    words.ldp.perturb(plan).ldp.sink_parquet("reports.parquet", plan)
    assert "word: 903 reports" in ldp("estimate reports.parquet --by g").out
    ldp("estimate reports.parquet --by g --output found")
    assert set(pl.read_parquet("found/word.parquet")["g"]) == {"many"}
    ldp("report found")
    assert data_of(Path("report.html").read_text())["counted"] == 903


def test_columns_of_the_same_reports_go_into_one_folder(ldp, people):
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    ldp("estimate reports.parquet --output all --column os")
    ldp("estimate reports.parquet --output all --column crashed")
    assert "already exists" in ldp("estimate reports.parquet --output all --column crashed", code=1).err
    other = ldp("estimate reports.parquet --output all --column minutes --confidence 0.9", code=1)
    assert "results.json" in other.err  # its intervals are others
    ldp("report all")
    assert "already exists" in ldp("report all", code=1).err
    ldp("report all --overwrite")
    assert "must end in .html" in ldp("report all -o report.pdf", code=1).err.replace("\n", " ")
    assert len(data_of(Path("report.html").read_text())["columns"]) == 2


def test_results_that_do_not_say_their_plan(ldp, people):
    Path("old").mkdir()
    Path("old/os.csv").write_text("value,count,low,high,n\nios,5.5,4.0,7.0,10\n")
    assert "--plan PLAN" in ldp("report old").err
    assert data_of(Path("report.html").read_text())["plan"] is None
    assert ldp("report old --plan plan.toml --overwrite").err == ""


def test_the_planner_is_a_file(ldp, monkeypatch):
    path = Path(ldp("planner").out.strip()).resolve()
    assert "<title>Privacy planner</title>" in path.read_text(encoding="utf-8")
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: not opened.append(url))
    ldp("planner --open")
    assert opened == [path.as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    assert "no browser" in ldp("planner --open").err
    path.write_text("mine")
    assert "already exists" in ldp("planner", code=1).err
    assert "must end in .html" in ldp("planner -o planner.txt", code=1).err


@pytest.mark.slow
def test_comparisons_are_those_of_polars(ldp, people, reports):
    ldp("perturb people.parquet again.parquet --plan plan.toml")
    plan, other = ldp_polars.read_plan("reports.parquet"), pl.read_parquet("again.parquet")
    same = reports.ldp.compare(plan, other=other, anytime=True)
    assert ldp("compare reports.parquet again.parquet --anytime --json").data == json.loads(
        json.dumps(same.to_dicts(), default=str)
    )
    once, again = (
        ldp(f"compare reports.parquet again.parquet --repeats {k} --json").data[0]["standard_error"] for k in (1, 4)
    )
    assert again == pytest.approx(2 * once)
    shown = ldp("compare reports.parquet again.parquet --column os").out
    assert f"{100 * ldp('compare reports.parquet again.parquet --json').data[0]['difference']:.2f} %" in shown
    assert "minutes" not in shown
    ages = PrivacyPlan({"age": SubsetSelection(range(9), epsilon=3.0)}, keep=["sex", "user"])
    people_of = pl.DataFrame({"age": [k % 9 for k in range(900)], "sex": ["f", "m"] * 450, "user": [*range(60)] * 15})
    people_of.ldp.perturb(ages).ldp.sink_parquet("ages.parquet", ages)
    asked = "compare ages.parquet --by sex --quantile 0.5 --quantile 0.9"
    medians = pl.read_parquet("ages.parquet").ldp.compare(ages, by="sex", quantiles=[0.5, 0.9])
    assert ldp(f"{asked} --json").data == medians.to_dicts()
    told = pl.read_parquet("ages.parquet").ldp.compare(ages, by="sex", person="user")
    assert ldp("compare ages.parquet --by sex --person user --json").data == told.to_dicts()
    alone = pl.read_parquet("ages.parquet").ldp.estimates(ages, by="sex", person="user", population="many")["age"]
    assert (
        ldp("estimate ages.parquet --by sex --person user --json").data["columns"]["age"]["estimates"]
        == alone.to_dicts()
    )
    assert "not have the columns ['who']" in ldp("estimate ages.parquet --person who", code=1).err
    wrong = ldp("compare ages.parquet --by sex --person user --repeats 2", code=2).err.replace("\n", " ")
    assert "leave out --same-people, --repeats, population= and --anytime" in wrong
    for bad in ("low=none", "ranges=[(0,3)]"):  # what is said instead works
        wrong = ldp(f"estimate ages.parquet --ask age=range:{bad}", code=2).err.replace("\n", " ")
        assert ("or left out" if "low" in bad else "a list, as [[30, 45], [60, 90]]") in wrong
    for good in ("high=3", "ranges=[[0,3]]"):
        [row] = ldp(f"estimate ages.parquet --ask age=range:{good} --json").data["columns"]["age"]["estimates"]
        assert row["value"] == "0 to 3"
    assert "there are ['age']" in ldp("estimate ages.parquet --column age --ask sex=median", code=1).err
    assert "50.00 %" in ldp(asked).out
    assert "Holm" not in ldp(asked).out
    assert "quantiles of numbers" in ldp("compare reports.parquet again.parquet --quantile 0.5", code=1).err
    columns = {"age": HierarchicalHistogram(range(8), epsilon=1.0), "os": RandomizedResponse(["a", "b"], epsilon=1.0)}
    both, rows = PrivacyPlan(columns, keep=["g"]), pl.DataFrame({"age": [1, 2], "os": ["a", "b"], "g": [1, 2]})
    rows.ldp.perturb(both).ldp.sink_parquet("both.parquet", both)
    assert "age: left out, without shares or a mean to compare" in ldp("compare both.parquet --by g").err
    assert "os: left out, without quantiles" in ldp("compare both.parquet --by g --quantile 0.5").err
    weeks = ldp("compare reports.parquet --window 1w --event-time day --json").data
    assert {row["compared_with"][:10] for row in weeks} == {"2024-01-01"}
    days = ldp("compare reports.parquet --by day --baseline 2024-01-03 --json").data
    assert {row["compared_with"][:10] for row in days} == {"2024-01-03"}
    assert "baseline" in ldp("compare reports.parquet --by day --baseline x", code=2).err
    kinds = {"share": ["1.5", "x"], "sex": ["1", "--1"], "won": ["True", "1"]}
    half = PrivacyPlan({"os": plan["os"]}, keep=list(kinds))
    odd = {"share": [1.5, 2.5] * 50, "sex": [1, 2] * 50, "won": [True, False] * 50}
    pl.DataFrame({"os": ["web"] * 100, **odd}).ldp.perturb(half).ldp.sink_parquet("odd.parquet", half)
    for name, (there, none) in kinds.items():
        line = f"compare odd.parquet --by {name} --baseline"
        assert {row["compared_with"] for row in ldp(f"{line} {there} --json").data} == {odd[name][0]}
        assert "--baseline must be one of" in ldp(f"{line} {none}", code=2).err
    ldp("plan new other.toml -c os=ios,android,web -c minutes=0:60 -c crashed=false,true --epsilon 5 --keep day")
    ldp("perturb people.parquet other.parquet --plan other.toml")
    assert "different plans" in ldp("compare reports.parquet other.parquet", code=1).err
    for line, words in {  # of Python, as by= and same_people=True
        "": "compare with what? give AFTER, more reports; --by, groups; or --window and --event-time",
        "--window 7d": '--window and --event-time go together: --window "7d", --event-time "time"',
        "--by day --quantile 0.5 --person day": "with --quantile say --repeats and --same-people in place of --person",
    }.items():
        assert words in ldp(f"compare reports.parquet {line}", code=2).err
    line = "compare reports.parquet again.parquet --column minutes --quantile"
    assert "error: each of --quantile must be in (0, 1)" in ldp(f"{line} 2", code=2).err
    assert (
        "does not have the columns ['who']; it has" in ldp("compare reports.parquet --by day --person who", code=1).err
    )
    assert "no columns ['nothing']" in ldp("compare reports.parquet again.parquet --column nothing", code=1).err
    assert "there twice" in ldp("compare reports.parquet ./reports.parquet", code=2).err
    seeded, records = plan.seeded(1), pl.read_parquet("people.parquet")
    for name, some in {"one": records, "two": records.reverse()}.items():
        some.ldp.perturb(seeded).ldp.sink_parquet(f"{name}.parquet", seeded)
    records.ldp.perturb(other := plan.seeded(2)).ldp.sink_parquet("three.parquet", other)
    assert "perturb both sides by one plan" in ldp("compare one.parquet three.parquet", code=1).err
    assert "say --same-people, or --other-people if row_id=" in ldp("compare one.parquet two.parquet", code=2).err
    assert "NOT private" in ldp("compare one.parquet two.parquet --same-people").out
    seeds = {name: ldp(f"estimate {name}.parquet --json").data.get("seeded") for name in ("one", "reports")}
    assert seeds == {"one": True, "reports": None}
    assert all(row["seeded"] for row in ldp("compare one.parquet two.parquet --same-people --json").data)
    assert not any("seeded" in row for row in ldp("compare reports.parquet again.parquet --json").data)
    Path("seeded.toml").write_text(seeded.to_toml())
    assert ldp("plan explain seeded.toml -n 9 --json").data["seeded"]
    assert ldp("plan check seeded.toml people.parquet --json").data["seeded"]
    shutil.copy("one.parquet", "copy.parquet")
    for line in ("compare one.parquet copy.parquet --same-people", "pool one.parquet copy.parquet --repeats 1"):
        assert "is a copy of" in ldp(line, code=2).err
    assert "with itself" in ldp("compare one.parquet copy.parquet --same-people --repeats 2", code=2).err
    assert "there twice" in ldp("pool one.parquet copy.parquet --repeats 2", code=2).err


def test_pooled_files_are_those_of_polars(ldp, people, reports):
    os = RandomizedResponse(Domain(["web", "ios"], unmatched="other"), epsilon=2.0)
    other = PrivacyPlan({"os": os, "crashed": RandomizedResponse(epsilon=1.0)}, keep=["day"])
    people.ldp.perturb(other).ldp.sink_parquet("other.parquet", other)
    both = ["reports.parquet", "other.parquet"]
    same = json.loads(json.dumps(ldp_polars.pool(both).to_dicts(), default=str))
    assert ldp("pool reports.parquet other.parquet --json").data == same
    assert [row["value"] for row in same] == ["ios", "web", "false", "true"]
    again = ldp("pool reports.parquet other.parquet --repeats 4 --json").data[0]
    assert again["standard_error"] == pytest.approx(2 * same[0]["standard_error"])
    shown = ldp("pool reports.parquet other.parquet --column os").out
    assert f"{100 * same[0]['estimate']:.2f} %" in shown
    assert "crashed" not in shown
    weeks = ldp("pool reports.parquet other.parquet --window 1w --event-time day --json").data
    assert {row["window_start"][:10] for row in weeks} == {"2024-01-01", "2024-01-08"}
    assert "minutes" in ldp("pool reports.parquet other.parquet --column minutes", code=1).err
    for twice in ("reports.parquet ./reports.parquet", "reports.parquet 'report[s].parquet'"):
        assert "there twice" in ldp(f"pool {twice}", code=2).err
    assert "give two files, folders" in ldp("pool reports.parquet", code=2).err
    for name in ("a repeats=1", "of repeats=1 .parquet", "in overwrite=False out.parquet"):  # (an IndexError)
        assert f"there is no file '{name}'" in ldp(f"estimate '{name}'", code=1).err
    seeded = ldp_polars.read_plan("reports.parquet").seeded(1)
    people.ldp.perturb(seeded).ldp.sink_parquet("seeded.parquet", seeded)
    assert "NOT private" in ldp("pool reports.parquet seeded.parquet").out
    assert all(row["seeded"] for row in ldp("pool reports.parquet seeded.parquet --json").data)
    Path("unseeded.toml").write_text(seeded.seeded(None).to_toml())
    people.ldp.perturb(seeded).write_parquet("plain.parquet")  # what the reports' dtype says
    said = " ".join(ldp("estimate plain.parquet --plan unseeded.toml").out.split())
    assert "The reports are seeded" in said
    assert "spent" not in said


def test_a_stranger_s_names_and_labels_move_no_cursor(ldp):
    plan = PrivacyPlan({f"os{EVIL}": RandomizedResponse(["ios", f"web{EVIL}"], epsilon=3.0)}, keep=[f"day{EVIL}"])
    Path("plan.toml").write_text(plan.to_toml())
    people = pl.DataFrame({f"os{EVIL}": ["ios", f"web{EVIL}"] * 50, f"day{EVIL}": [f"1{EVIL}", "2"] * 50})
    people.write_parquet("people.parquet")
    ldp("perturb people.parquet reports.parquet --plan plan.toml")
    people.select(pl.lit(5).alias(f"day{EVIL}")).write_parquet("others.parquet")
    lines = ["check plan.toml", "check plan.toml people.parquet", "explain plan.toml -n 100"]
    runs = [ldp(f"plan {line}") for line in lines]
    runs += [ldp("estimate reports.parquet"), ldp(shlex.join(["estimate", "reports.parquet", "--by", f"day{EVIL}"]))]
    runs.append(ldp("simulate plan.toml people.parquet"))
    runs.append(ldp(shlex.join(["perturb", "people.parquet", f"a b{EVIL}.parquet", "--plan", "plan.toml"])))
    assert "next: ldp estimate 'a b" in runs[-1].out
    line = shlex.join(["estimate", "reports.parquet", "--output", "\udcff"])  # (a TypeError of Polars)
    assert "its name is not text in UTF-8" in ldp(line, code=1).err
    Path("taken").touch()
    assert "'taken': File exists" in ldp("estimate reports.parquet --output taken", code=1).err
    runs.append(ldp("plan check plan.toml others.parquet", code=1))
    runs.append(
        ldp(
            shlex.join(["estimate", "reports.parquet", "--by-private", f"os{EVIL}", "--among", "x", "--among", "y"]),
            code=2,
        )
    )
    runs.append(ldp("estimate reports.parquet --plot s.svg --value x", code=2))
    for run in runs:
        text = run.out + run.err
        assert "u001b" in text or "x1b" in text
        assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert PrivacyPlan.from_toml("plan.toml") == plan
    assert not [c for c in repr(plan) if not c.isprintable() and c != "\n"]


def test_reports_that_are_there_twice_are_told_once(ldp):
    """By groups the same warning came once for each."""
    plan = PrivacyPlan({"os": UnaryEncoding(range(40), epsilon=1.0)}, keep=["country"])
    people = pl.DataFrame({"os": [k % 40 for k in range(1200)], "country": ["de", "fr", "it"] * 400})
    reports = people.ldp.perturb(plan)
    pl.concat([reports, reports]).ldp.sink_parquet("twice.parquet", plan)
    assert ldp("estimate twice.parquet --by country").err.count("reports are there twice") == 1


def test_few_bytes_of_a_stranger_take_little_memory(ldp, monkeypatch):
    """60,000 rows of one text of 100 kB are 352 bytes: they took 8.4 GB."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 10_000]))
    pq.write_table(pa.table({"os": texts}), "people.parquet", store_schema=False)
    ldp("plan new plan.toml -c os=ios,web --epsilon 1")
    monkeypatch.setattr(engine, "DEFAULT_LIMITS", Limits(row_group_bytes=1_000_000))
    sizes = [batch.nbytes for batch in files.batches("people.parquet", PrivacyPlan.from_toml(Path("plan.toml")))]
    assert len(sizes) > 9
    assert max(sizes) <= 1_000_000
    ldp("plan check plan.toml people.parquet", 1)
    for line in (
        "perturb people.parquet out.parquet --plan plan.toml",
        "estimate people.parquet --plan plan.toml --assume-reports",
        "simulate plan.toml people.parquet",
    ):
        assert "row_group_bytes=1000000" in ldp(line, 1).err


def test_a_footer_that_nobody_reads_is_an_error_of_ours(ldp):
    Path("people.parquet").write_bytes(BOMBS["20,000 levels"]())
    with pytest.raises(InputError, match="cannot be read as parquet"):
        files.scan("people.parquet")
