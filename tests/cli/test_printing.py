"""A kept column may have any name: its groups are told apart, or it is to be renamed."""

import re
from itertools import product
from pathlib import Path

import polars as pl
import pytest

import ldp_polars  # noqa: F401 (it registers the .ldp methods)
from ldp_core import Dates, Interval, PrivacyPlan, SquareWave
from tests.cases import case

ESTIMATES = (
    "--column os",
    "--column x",
    "--column born --ask born=median",
    "--column born --ask born=cdf",
    "--table os,crashed",
)
BY_PRIVATE = (
    "--by-private os --of minutes --quantile 0.5",
    "--by-private os --among a --among b",
)
OTHERS = ("compare r.parquet --column os", "pool r.parquet s.parquet --column os")
HEADS = "share,from,to,95% from,reports,rate from,difference,p,p of all,p of Q,column name"
FIELDS = (
    "seeded,window_start,entry,key,partial,population,confidence,answer,value,estimate,mean,median,count,low,n,rate,"
    "before,column_name,standard_error,key 0,answer 0"
)
NAMES = f"{HEADS},{FIELDS},anything".split(",")
IN_TABLES = f"{HEADS},rate,value,n,anything".split(",")


@pytest.fixture
def reports(ldp):
    """r.parquet and s.parquet, of two groups and of a seeded plan, with hardly any noise."""
    columns = {"os": ["a", "b"], "crashed": [False, True], "x": Interval(0, 60)}
    columns |= {"born": Dates("2024-01-01", "2024-04-01", "1mo")}
    plan = PrivacyPlan.split(columns, epsilon=60, keep=["minutes", *NAMES], seed=1)
    k = range(400)
    people = {"os": ["ab"[i % 2] for i in k], "crashed": [i % 3 == 0 for i in k], "x": [float(i % 60) for i in k]}
    people |= {"born": [f"2024-0{i % 3 + 1}-01" for i in k], "minutes": [i % 60 for i in k]}
    people |= {name: [["g-one", "g-two"][i // 200] for i in k] for name in NAMES}
    for name, seeded in (("r", plan), ("s", plan.seeded(2))):
        pl.DataFrame(people).ldp.perturb(seeded).ldp.sink_parquet(f"{name}.parquet", seeded)


def rows(line, data):
    return next(iter(data["columns"].values()))["estimates"] if isinstance(data, dict) else data


def renamed(ldp, line):
    """Whether the command is refused with the words that say so."""
    try:
        ldp(line)
    except AssertionError as error:
        if "rename those of the reports" not in " ".join(str(error).split()):
            raise
        return True
    return False


@pytest.mark.slow
def test_groups_of_columns_of_any_name(ldp, reports):
    """The answer's own fields replaced some groups in JSON, and its heads in tables."""
    for line in (*(f"estimate r.parquet {way}" for way in (*ESTIMATES, *BY_PRIVATE)), *OTHERS):
        compared = line.startswith("compare")
        alone = rows(line, ldp(f"{line}{' --by anything' * compared} --json").data)
        for name in NAMES:
            with case(line, name):
                if renamed(ldp, asked := f'{line} --by "{name}" --json'):
                    assert name in {*alone[0], "entry", "seeded"} - {"anything"}
                    continue
                assert name == "anything" or name not in alone[0]
                found = rows(line, ldp(asked).data)
                assert len(found) == len(alone) * (1 if compared else 2)
                groups = {row[name] for row in found} | {row.get("compared_with", "g-one") for row in found}
                assert groups == {"g-one", "g-two"}
                if name in IN_TABLES:
                    shown = ldp(f'{line} --by "{name}"').out
                    assert "g-one" in shown
                    assert "g-two" in shown


@pytest.mark.slow
def test_groups_in_files_and_pictures(ldp, reports):
    """A picture took the group `population` for that of its intervals."""
    names = ["population", "partial", "key", "value", "share", "rate", "anything"]
    for way, name in product(("--column os", "--table os,crashed"), names):
        with case(name, way):
            line = f'estimate r.parquet {way} --by "{name}" --output out --plot p.json --overwrite'
            if not renamed(ldp, line):
                file = way.split()[1].replace(",", "%2C")
                assert {*pl.read_parquet(f"out/{file}.parquet")[name]} == {"g-one", "g-two"}
                assert "g-one" in Path("p.json").read_text()
            assert name != "population" or renamed(ldp, line)


def test_a_report_of_groups_that_are_arrays_of_which_one_is_null(ldp):
    """Arrow does not read null arrays that Polars writes: the page said that the file was corrupt."""
    plan = PrivacyPlan.split({"os": ["x", "y"]}, epsilon=4, keep=["at"])
    at = pl.Series("at", [[1, 2], None], pl.Array(pl.Int64, 2))
    pl.DataFrame({"os": ["x", "y"], "at": at}).ldp.perturb(plan).ldp.sink_parquet("r.parquet", plan)
    ldp("estimate r.parquet --by at --output out")
    ldp("report out --output page.html")
    assert "at = [1, 2]" in Path("page.html").read_text(encoding="utf-8")


def test_a_table_of_a_private_column_called_value(ldp):
    """Its values were replaced by those of both columns together."""
    plan = PrivacyPlan.split({"value": ["a", "b"], "os": ["x", "y"]}, epsilon=4)
    pl.DataFrame({"value": ["a", "b"], "os": ["x", "y"]}).ldp.perturb(plan).ldp.sink_parquet("r.parquet", plan)
    said = " ".join(ldp("estimate r.parquet --table value,os --json", code=1).err.split())
    assert 'in Python, take frame.ldp.table("value", ...)' in said


def test_endless_rates_are_numbers_and_nothing_is_minus_zero(ldp):
    """A column with them was as one of words, at the left; and counts of -0.2 were -0."""
    plan = PrivacyPlan.split({"os": ["a", "b"], "up": ["x", "y"]}, epsilon=6).seeded(1)
    pl.DataFrame({"os": ["a"] * 4, "up": ["x"] * 4}).ldp.perturb(plan).ldp.sink_parquet("r.parquet", plan)
    lines = [line for line in ldp("estimate r.parquet --table os,up").out.splitlines() if "inf %" in line]
    assert len(lines) == 2
    assert all(line.endswith(" inf %") for line in lines)
    assert " -0 " not in "".join(lines)


def test_numbers_of_tables_are_told_from_their_ends(ldp):
    """A mean of 3 % was 0.0 from 0.0 to 0.0."""
    columns = {"os": ["a", "b"], "x": Interval(0, 0.01), "w": SquareWave((0, 0.01), epsilon=20)}
    plan = PrivacyPlan.split(columns, epsilon=60, keep=["crashed", "small", "g"])
    k = range(6000)
    people = {"os": ["ab"[i % 2] for i in k], "x": [i % 60 / 6000 for i in k], "crashed": [i % 33 == 0 for i in k]}
    people |= {"w": people["x"], "small": people["x"], "g": ["ab"[i // 3000] for i in k]}
    made = pl.DataFrame(people).ldp.perturb(plan)
    for name, part in (("r", made), ("s", made[:2000]), ("t", made[2000:])):
        part.ldp.sink_parquet(f"{name}.parquet", plan)
    for line in (
        "estimate r.parquet --by-private os --of crashed",
        "estimate r.parquet --by-private os --of small --quantile 0.5",
        "estimate r.parquet --column x --by g",
        "estimate r.parquet --column w --ask w=median",
        "compare r.parquet --by g --column x",
        "pool s.parquet t.parquet --column x",
    ):
        with case(line):
            shown = {float(word) for word in ldp(line).out.replace(",", "").split() if re.fullmatch(r"-?[\d.]+", word)}
            for row in rows(line, ldp(f"{line} --json").data):
                width = row["high"] - row["low"]
                asked = ("estimate", "mean", "median", "before", "after", "difference", "low", "high")
                for number in (row[name] for name in asked if name in row):
                    assert min(abs(number - one) for one in shown) <= width / 18  # (half of the last of two digits)


def test_groups_of_numbers_that_differ_late(ldp):
    """Both groups were called 1.23457e+06."""
    plan = PrivacyPlan.split({"os": ["x", "y"]}, epsilon=4, keep=["at"])
    people = {"os": ["x", "y"], "at": [1234567.25, 1234567.5]}
    pl.DataFrame(people).ldp.perturb(plan).ldp.sink_parquet("r.parquet", plan)
    for line in ("estimate r.parquet --by at", "estimate r.parquet --by-private os --among x --among y --by at"):
        shown = ldp(line).out
        assert "1234567.25" in shown
        assert "1234567.5 " in shown


def test_ends_of_buckets_that_differ_late(ldp):
    """All were called 1.7e+09, in tables, and in the error that names the nearest ones."""
    low = 1_700_000_000
    plan = PrivacyPlan({"at": SquareWave((low, low + 100), epsilon=4.0)})
    pl.DataFrame({"at": [low + 50.0] * 400}).ldp.perturb(plan).ldp.sink_parquet("at.parquet", plan)
    starts = [f"{low + 2.5 * k:.15g}" for k in range(40)]
    shown = ldp("estimate at.parquet --top 50").out.splitlines()
    assert [line.split()[:2] for line in shown if line.lstrip().startswith("17")] == [
        [start, end] for start, end in zip(starts, [*starts[1:], f"{low + 100}"], strict=True)
    ]
    curve = ldp("estimate at.parquet --ask at=cdf").out
    assert f"{low}.78125 " in curve
    assert "100.00 %" in curve
    assert "100.0000" not in curve, "the last share differs from 1 by a rounding"
    told = ldp(f"estimate at.parquet --ask at=range:low={low + 1}", code=2).err
    assert re.search(r"edges are 17000000\d\d[.\d]* and 17000000\d\d[.\d]*", " ".join(told.split()))
    assert "[1700000000, 1700000100]" in ldp("plan new -e 1 -c at=1700000000:1700000100 p.toml").out
