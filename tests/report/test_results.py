"""Files of estimates to what a page shows; broken ones to one error."""

import itertools
import json
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp_core import (
    CdfEstimate,
    Dates,
    HadamardResponse,
    HeavyHitters,
    HistogramEstimate,
    Hybrid,
    InputError,
    Joint,
    LdpError,
    LimitError,
    Limits,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    RangeEstimate,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
    compare,
    estimates_metadata,
)
from ldp_core.engine import p_values_of
from ldp_core.estimates.consistency import METHODS
from ldp_report import RESULTS, Results, about, read_results, report_page

from ..memory import forget_peak, needs_peak, peak
from .conftest import EVIL, EVIL_COLUMN, N

PLAN = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
ROW = {"value": "true", "count": 12.5, "low": 3.0, "high": 21.0, "n": 100}


@pytest.mark.slow
def test_numbers_are_those_of_the_files(results):
    found = read_results(results).to_json()
    assert [column["name"] for column in found["columns"]] == [EVIL_COLUMN, "minutes", "length", "word"]
    assert [column["kind"] for column in found["columns"]] == ["histogram", "mean", "distribution", "histogram"]
    assert found["windows"] == [
        "2023-12-29 to 2024-01-06",  # of 8 days, from 1970-01-01 on
        "2024-01-06 to 2024-01-14",
        "2024-01-14 to 2024-01-22",
        "2024-01-22 to 2024-01-30",
    ]
    assert found["partial"] == [True, False, False, True]  # of records from 2024-01-01 to 2024-01-24
    assert found["counted"] == N
    assert found["plan"]["n"] == 1250, "margins are of a window, and not of all records: 1,250, 2,000, 2,000, 750"
    written = pl.read_parquet(results / "histograms.parquet")
    shown = [row for group in found["columns"][0]["groups"] for row in group["rows"]]
    assert [row[1:] for row in shown] == [list(row) for row in written.select("count", "low", "high").rows()]
    means = pl.read_parquet(results / "minutes.parquet")
    assert [group["rows"][0][1] for group in found["columns"][1]["groups"]] == means["mean"].to_list()
    assert {(letter["column"], letter["late"]): letter["count"] for letter in found["letters"]} == {
        ("os", True): 3,
        (EVIL_COLUMN, False): 2,
        ("", False): 1,
    }
    assert found["columns"][0]["confidence"] == 0.95
    assert found["plan"]["epsilon"] == 9.0
    assert found["plan"]["people"] == [
        ["fresh noise, any values", 9.0, 90.0, 900.0],
        ["noise keyed by person, values that never change", 9.0, 9.0, 9.0],
    ]


def test_pairs_of_values_have_their_rates(tmp_path):
    pair = Joint({"a": RandomizedResponse(epsilon=50.0), "b": RandomizedResponse(epsilon=50.0)})
    table = pair.estimate(pair.tally({"a": [True] * 4, "b": [True, False] * 2})).to_polars()
    for frame in (table, table.with_columns(value=pl.lit("x"), country=pl.lit("fr"))):  # as the command writes it
        frame.write_csv(tmp_path / "a,b.csv")
        [column] = read_results(tmp_path).to_json()["columns"]
        assert (column["kind"], column["labels"]) == ("table", ("a", "b"))
        [group] = column["groups"]
        assert group["key"] == ("country = fr" if "country" in frame.columns else "")
        assert [row[0] for row in group["rows"]] == [[a, b] for a in ("false", "true") for b in ("false", "true")]
        assert group["rows"][3][1:] == pytest.approx([2, 2, 2, 0.5, 0.5, 0.5])
        assert group["rows"][0][5:] == [None, None]  # nobody has the first value


def test_a_table_of_three_columns_is_one_group(tmp_path):
    """Under a name that says its columns: each report is counted once, and each row has three labels."""
    joint = Joint({c: RandomizedResponse(epsilon=50.0) for c in "abc"})
    table = joint.estimate(joint.tally(dict.fromkeys("abc", [True, False] * 2))).to_polars()
    for name, frame in (("a,b,c", table), ("x", table.with_columns(column_name=pl.lit("a, b, c")))):
        frame.with_columns(value=pl.lit("x"), country=pl.lit("fr")).write_csv(tmp_path / f"{name}.csv")
        found = read_results(tmp_path).to_json()
        [column] = found["columns"]
        assert (column["kind"], column["labels"]) == ("table", ("a", "b", "c"))
        [group] = column["groups"]
        assert (group["key"], group["n"], found["counted"]) == ("country = fr", 4, 4)
        assert [group["rows"][i][0] for i in (0, 7)] == [["false"] * 3, ["true"] * 3]
        (tmp_path / f"{name}.csv").unlink()


def test_a_table_is_known_in_a_process_that_made_none():
    """It was a histogram of a group of its own rate, until something else in the process had asked for a table."""
    rate = dict.fromkeys(("rate", "rate_standard_error", "rate_low", "rate_high"), 0.5)
    row = {"os": "ios", "crashed": "true", "count": 12.5, "low": 3.0, "high": 21.0, **rate, "n": 100}
    program = f"from ldp_report import Results; print(Results({{'t': [{row}]}}).to_json()['columns'][0]['groups'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    shown = [["ios", "true"], 12.5, 3.0, 21.0, 0.5, 0.5, 0.5]
    assert done.stdout.strip() == str([{"window": None, "key": "", "n": 100, "rows": [shown]}])


def test_numbers_that_a_file_has_as_text_are_numbers():
    """They were words, in their order of appearance: `ldp_beam.text_row` makes text of them, for a table with words."""
    numbers = {"low": "9.5", "median": "10.0", "high": "100.0", "n": 9}
    words = {"low": "1", "median": "10", "high": "9", "n": 9}  # in the order of their domain
    plan = PrivacyPlan(
        {
            "age": RandomizedResponse(range(200), epsilon=1.0),
            "seconds": SquareWave((0, 200), epsilon=1.0),
            "grade": RandomizedResponse(["1", "10", "9"], epsilon=1.0),
        }
    )
    rows = {"age": [numbers, {**numbers, "median": None, "window_start": "2026-01-01", "window_end": "2026-01-02"}]}
    age, seconds, grade = Results({**rows, "seconds": [numbers], "grade": [words]}, plan=plan).to_json()["columns"]
    assert [group["rows"] for group in age["groups"]] == [[["", 10.0, 9.5, 100.0]], [["", None, 9.5, 100.0]]]
    assert (age["unit"], seconds["unit"], seconds["groups"][0]["rows"]) == ("", "", [["", 10.0, 9.5, 100.0]])
    assert grade["groups"][0]["rows"] == [["", 1.0, 0.0, 2.0]]


def test_frames_of_estimates_are_their_rows():
    """They were an AttributeError."""
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)}, keep=["country"], seed=1)
    records = pl.DataFrame({"os": ["ios", "web"] * 50, "country": ["fr"] * 40 + ["it"] * 60})
    frames = records.ldp.perturb(plan).ldp.estimates(plan, by="country")
    of_rows = Results({name: frame.to_dicts() for name, frame in frames.items()}, plan=plan).to_json()
    assert [group["n"] for group in of_rows["columns"][0]["groups"]] == [40, 60]
    assert Results(frames, plan=plan).to_json() == of_rows


def test_records_in_several_windows_are_counted_once():
    """Windows of 2 days begin each day: the page said that twice as many reports were counted."""
    of_day, day = {"a": [3, 5, 7, 11], "b": [2, 0, 4, 0]}, np.timedelta64(1, "D")
    rows = [
        {**ROW, "window_start": str(start), "window_end": str(start + 2 * day), "g": g, "n": n}
        for g, sizes in of_day.items()
        for k, start in enumerate(np.datetime64("2026-01-01") + np.arange(-1, 4) * day)
        if (n := sum(sizes[max(k - 1, 0) : k + 1]))
    ]
    assert sum(row["n"] for row in rows) == 2 * 32
    assert Results({"crashed": rows[::-1]}).to_json()["counted"] == 32
    later = {**rows[0], "pane_index": 1, "n": 4}  # of the same window: new ones, or all so far
    assert Results({"crashed": [*rows, later]}).to_json()["counted"] is None
    hour, begin = np.timedelta64(1, "h"), np.datetime64("2026-01-01T00")
    for size, apart, n in ((3, 2, None), (3, 1, 12), (10, 3, None), (24, 6, 12), (24, 9, None)):  # hours
        rows = []
        for start in begin + np.arange(-(size // apart) * apart, 12, apart) * hour:
            inside = sum(bool(start <= begin + k * hour < start + size * hour) for k in range(12))
            ends = {"window_start": str(start), "window_end": str(start + size * hour)}
            rows += [{**ROW, **ends, "n": inside}] if inside else []
        assert Results({"crashed": rows}).to_json()["counted"] == n
        assert Results({"crashed": rows}, live=True, counted=99).to_json()["counted"] is None


def test_records_without_a_time_are_not_all_records():
    """The page called them so, beside each window."""
    window = {"window_start": "2026-01-01", "window_end": "2026-01-02"}
    rows = [{**ROW, **window}, {**ROW, **dict.fromkeys(window)}]
    untimed, timed = Results({"crashed": rows}).to_json()["columns"][0]["groups"]
    assert (untimed["window"], untimed["untimed"], timed["window"]) == (None, True, 0)
    [whole] = Results({"crashed": [ROW]}).to_json()["columns"][0]["groups"]
    assert "untimed" not in whole


def test_only_what_was_counted_is_there(tmp_path):
    """A page of `ldp estimate` said that no record was late, and nobody had looked."""
    (tmp_path / "os.ndjson").write_text(json.dumps(ROW))
    assert [read_results(tmp_path).to_json()[name] for name in ("letters", "late", "dead")] == [None, None, None]
    (tmp_path / "dead_letters.ndjson").write_text("")  # as the telemetry job writes it, where there are none
    assert [read_results(tmp_path).to_json()[name] for name in ("letters", "late", "dead")] == [[], 0, 0]


def test_nothing_of_the_data_is_html(results):
    page = report_page(read_results(results))
    assert page.count("<script") == page.count("</script>") == 2
    for text in (*EVIL[:3], EVIL_COLUMN, "<i>null</i>"):
        assert (text in page) == (text == "</script>")  # which ends our own


def test_a_page_asks_for_nothing(results):
    page = report_page(read_results(results))
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in page
    assert "default-src 'none'" in page
    assert "connect-src" not in page
    assert "connect-src 'self'" in report_page(Results(), live="data.json")


def test_csv_ndjson_groups_and_times(tmp_path):
    folder = tmp_path / "by country"
    folder.mkdir()
    frame = pl.DataFrame({"country": ["FR", "IT"], **{k: [v, v] for k, v in ROW.items()}})
    frame.write_csv(folder / "a%2Fb.csv")
    window = {"window_start": "2024-01-01T10:00:00Z", "window_end": "2024-01-01T10:00:05Z"}
    line = {"column_name": "os", **window, "key": {"app": "mail"}, **ROW, "confidence": 0.9, "epsilon": 2.0}
    (folder / "histograms.ndjson").write_text(json.dumps(line) + "\n\n")
    found = read_results(folder).to_json()
    assert found["windows"] == ["2024-01-01 10:00:00 to 10:00:05"]
    by = {column["name"]: column for column in found["columns"]}
    assert [group["key"] for group in by["a/b"]["groups"]] == ["country = FR", "country = IT"]
    assert by["os"]["groups"][0]["key"] == "app = mail"
    assert (by["os"]["confidence"], by["os"]["epsilon"]) == (0.9, 2.0)
    assert found["plan"] is None
    assert read_results(folder, plan=PLAN).plan == PLAN
    short = {"window_start": "2024-01-01T10:00:00.500", "window_end": "2024-01-01T10:00:01", **ROW}
    assert Results({"os": [short]}).to_json()["windows"] == ["2024-01-01 10:00:00.500 to 10:00:01.000"]


def test_a_file_says_by_itself_how_it_was_made(tmp_path):
    """A page said of such intervals that they are of the noise alone, and not of which confidence."""
    m = RandomizedResponse(epsilon=1.0)
    for name, asked in {"a": HistogramEstimate(0.8, population="many"), "b": HistogramEstimate(0.9)}.items():
        made = asked.result(m, m.simulate([60, 40], seed=1)).to_polars()
        made.write_parquet(tmp_path / f"{name}.parquet", metadata=estimates_metadata({name: (asked, m)}))
    pl.DataFrame([ROW]).write_parquet(tmp_path / "c.parquet", metadata={"ldp.estimates": '[3, {"column_name": ["c"]}]'})
    columns = read_results(tmp_path).to_json()["columns"]
    assert [(c["confidence"], c["alone"], len(c["groups"])) for c in columns] == [
        (0.8, False, 1),
        (0.9, True, 1),
        (None, True, 1),
    ]


def test_the_index_of_pandas_is_no_group(tmp_path):
    """Each row was a group of its own, and its reports were counted again."""
    rows = pl.DataFrame([{**ROW, "value": value, "n": 100} for value in ("a", "b", "c")])
    rows.with_row_index("__index_level_0__").write_parquet(tmp_path / "x.parquet")
    for column in ("", "Unnamed: 0"):
        rows.with_row_index(column).write_csv(tmp_path / f"y{column}.csv")
    found = read_results(tmp_path).to_json()
    assert [[len(group["rows"]) for group in column["groups"]] for column in found["columns"]] == [[3]] * 3
    assert found["counted"] == 100


def test_csv_beside_another_file_of_one_name_is_refused(tmp_path):
    frame = pl.DataFrame({k: [v] for k, v in ROW.items()})
    folder = tmp_path / "weekly.csv"  # (a folder of this name was a KeyError)
    folder.mkdir()
    for suffix in ("parquet", "ndjson"):  # these two `ldp run` writes
        getattr(frame, f"write_{suffix}")(folder / f"os.{suffix}")
        assert list(read_results(folder).columns) == ["os"]
    frame.write_csv(folder / "os.csv")
    for other, both in (("parquet", r"'os\.ndjson' and 'os\.csv'"), ("ndjson", r"'os\.csv' and 'os\.parquet'")):
        (folder / f"os.{other}").rename(tmp_path / f"os.{other}")
        with pytest.raises(InputError, match=f"{both}: which of them is right"):
            read_results(folder)
        (tmp_path / f"os.{other}").rename(folder / f"os.{other}")


def test_groups_that_a_page_cannot_tell_apart_are_refused(tmp_path):
    """Groups by a column named epsilon were shown as one group, of twice as many rows."""
    frame = pl.DataFrame({"group": [1, 2], **{k: [v, v] for k, v in ROW.items()}})
    frame.write_parquet(tmp_path / "os.parquet")
    assert len(read_results(tmp_path).to_json()["columns"][0]["groups"]) == 2
    for kind in ("csv", "parquet"):  # (of CSV these two were one group, and then refused)
        (tmp_path / "os.csv").unlink(missing_ok=True)
        (tmp_path / "os.parquet").unlink(missing_ok=True)
        getattr(frame.with_columns(group=pl.Series([None, ""])), f"write_{kind}")(tmp_path / f"os.{kind}")
        groups = read_results(tmp_path).to_json()["columns"][0]["groups"]
        assert [group["key"] for group in groups] == ["group = ", "group is null"]
        getattr(frame.with_columns(group=pl.Series(["7", "007"])), f"write_{kind}")(tmp_path / f"os.{kind}")
        groups = read_results(tmp_path).to_json()["columns"][0]["groups"]
        assert {group["key"] for group in groups} == {"group = 7", "group = 007"}
    frame.with_columns(low=pl.col("high") + 1).write_parquet(tmp_path / "os.parquet")
    with pytest.raises(InputError, match="low end is above the high one"):  # (it was a page)
        read_results(tmp_path)
    for name in ("epsilon", "partial", "pane_timing", "fingerprint"):
        frame.rename({"group": name}).write_parquet(tmp_path / "os.parquet")
        with pytest.raises(InputError, match="two rows of one value in one group"):
            read_results(tmp_path)


def test_times_that_utc_does_not_have_are_none(tmp_path):
    row = ROW | {"window_start": "0001-01-01T00:00:00+14:00", "window_end": "1970-01-01T00:00:00Z"}
    (tmp_path / "crashed.ndjson").write_text(json.dumps(row))
    assert read_results(tmp_path).to_json()["windows"] == []
    times = pa.array([-(2**63)], pa.int64()).view(pa.timestamp("ns"))
    pq.write_table(pa.table({**{k: [v] for k, v in row.items()}, "window_start": times}), tmp_path / "crashed.parquet")
    (tmp_path / "crashed.ndjson").unlink()
    assert read_results(tmp_path).to_json()["windows"] == []


def test_odd_cells_are_no_faults(tmp_path):
    """Found by the search for faults: a group's column named key, text where a number should be."""
    odd = {**ROW, "key": "a", "n": "many", "pane_index": "last", "epsilon": [1], "confidence": {}}
    (tmp_path / "os.ndjson").write_text(f"{json.dumps(odd)}\n{json.dumps({**odd, 'key': [1]})}")
    [column] = read_results(tmp_path).to_json()["columns"]
    assert [(group["key"], group["n"]) for group in column["groups"]] == [("key = [1]", None), ("key = a", None)]
    assert (column["epsilon"], column["confidence"]) == (None, None)


def test_few_bytes_that_are_many_texts(tmp_path, monkeypatch):
    """A thousand rows share one text of 2^16 characters."""
    monkeypatch.setattr("ldp_report.reading.DEFAULT", Limits(bytes=1 << 24))
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["x" * 2**16]))
    pq.write_table(
        pa.table({"value": texts, **{name: [1.0] * 1000 for name in ("count", "low", "high")}}),
        tmp_path / "os.parquet",
        store_schema=False,
    )
    assert (tmp_path / "os.parquet").stat().st_size < 2**16
    with pytest.raises(LimitError, match="larger than"):
        read_results(tmp_path)


@needs_peak
def test_memory_is_not_taken_first(tmp_path, monkeypatch):
    """256 rows were read before anybody looked: 2.5 kB took 6.8 GB."""
    monkeypatch.setattr("ldp_report.reading.DEFAULT", Limits(bytes=1 << 22))
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), pa.array(["x" * 2**20]))
    estimates = pa.table({"value": texts, **{name: [1.0] * 200 for name in ("count", "low", "high")}})
    pq.write_table(estimates, tmp_path / "os.parquet", store_schema=False)
    forget_peak()
    before = peak()
    with pytest.raises(LimitError, match="larger than"):
        read_results(tmp_path)
    assert peak() - before < 64 << 10  # KiB; all of it is 200 MB


def test_columns_of_nulls_are_not_free(tmp_path, monkeypatch):
    """4,000 of them in 60,000 rows have no byte in Arrow, and 9 GB as dictionaries."""
    monkeypatch.setattr("ldp_report.reading.DEFAULT", Limits(bytes=1 << 20))
    table = pa.table({"value": range(2000), **{name: [1.0] * 2000 for name in ("count", "low", "high")}})
    pq.write_table(table, tmp_path / "os.parquet")
    assert len(read_results(tmp_path).columns["os"]) == 2000
    for k in range(40):
        table = table.append_column(f"{k}", pa.nulls(2000))
    pq.write_table(table, tmp_path / "os.parquet")
    with pytest.raises(LimitError, match="larger than"):
        read_results(tmp_path)


def test_parquet_is_read_once_and_reports_are_not(tmp_path):
    table = pa.Table.from_pylist([{"column_name": "os", **ROW}])
    pq.write_table(table, tmp_path / "histograms.parquet")
    (tmp_path / "histograms.ndjson").write_text(json.dumps({"column_name": "os", **ROW}))
    pq.write_table(pa.table({"os": [1, 2, 3]}), tmp_path / "reports.parquet")
    assert [len(rows) for rows in read_results(tmp_path, most_rows=1).columns.values()] == [1]


def test_searches_say_how_often_any_of_them_errs():
    """Eight at 95 %: 1 - 0.95^8 is 0.34. A window in which nothing was found is one of them."""
    plan = PrivacyPlan(
        {"word": HeavyHitters(Prefixes("abc", 4), epsilon=1.0), "crashed": RandomizedResponse(epsilon=1.0)}
    )
    windows = [{"window_start": f"2024-01-0{k}", "window_end": f"2024-01-0{k + 1}"} for k in range(1, 9)]
    columns = {"word": [{**ROW, **windows[0]}], "crashed": [{**ROW, **window} for window in windows]}
    word, crashed = Results(columns, plan=plan, confidence=0.95).to_json()["columns"]
    assert "a probability of 0.05 at most, and any of the 8 on this page with 0.34." in word["searches"]
    assert crashed["searches"] is None
    assert Results({"word": [ROW]}, plan=plan, confidence=0.95).to_json()["columns"][0]["searches"] == ""


def test_the_last_window_is_compared_with_the_one_before():
    """As `ldp_core.compare` does it, of the rows alone; on the live page at all looks together."""
    os, minutes = UnaryEncoding(["ios", "web"], epsilon=2.0), Hybrid((0, 60), epsilon=2.0)
    plan = PrivacyPlan({"os": os, "minutes": minutes})
    tallies = [os.simulate([7000, 3000], seed=1), os.simulate([7000, 3000], seed=2), os.simulate([5500, 4500], seed=3)]
    rows: list[dict] = []
    days = [f"2024-01-0{k}" for k in range(1, 5)]
    for k, tally in enumerate(tallies):
        when = {"window_start": days[k], "window_end": days[k + 1]}
        rows += [{**row, **when} for row in os.estimate(tally).to_arrow().to_pylist()]
    for last, live in ((2, False), (2, True), (1, False), (1, True)):
        sure = compare(os, tallies[last - 1], tallies[last], anytime=live)
        shown = Results({"os": rows[: 2 * last + 2]}, plan=plan, live=live).to_json()["columns"][0]["changed"]
        assert ("web" in shown) == (sure.p_adjusted.max() < 0.05) == (last == 2), (last, live)
        assert ("nothing has changed" in shown) == (last == 1)
        assert ("at all looks" in shown) == live
        n, before = np.array([10_000, 10_000]), [os.estimate(tally) for tally in tallies[last - 1 : last + 1]]
        sides = [np.array([getattr(one, name) / 10_000 for one in before]) for name in ("counts", "standard_errors")]
        np.testing.assert_allclose(p_values_of(os, n, *sides, anytime=live), sure.p_values, rtol=1e-4, atol=1e-12)
        many = [HistogramEstimate(population="many").result(os, tally) for tally in tallies[last - 1 : last + 1]]
        sides[1] = np.array([one.standard_errors / 10_000 for one in many])
        found = p_values_of(os, n, *sides, anytime=live, population="many")
        np.testing.assert_allclose(found, sure.p_values, rtol=0.01, atol=1e-12)
    means = [{"mean": m, "standard_error": 0.5, "low": 0, "high": 60, "n": 500} for m in (20.0, 30.0)]
    means = [{**row, "window_start": days[k], "window_end": days[k + 1]} for k, row in enumerate(means)]
    assert "changed: 20 to 30 (" in Results({"minutes": means}, plan=plan).to_json()["columns"][0]["changed"]
    assert Results({"os": rows}, plan=plan, repeats=1).to_json()["columns"][0]["changed"] is None
    alone, overlapping = Results({"os": rows[:2]}, plan=plan), {"window_end": "2024-01-09"}
    rolling = Results({"os": [{**row, **overlapping} for row in rows]}, plan=plan)
    seeded = Results({"os": rows}, plan=plan.seeded(1))
    said = seeded.to_json()["plan"]
    assert (said["seeded"], said["record"]) == (True, ""), "nobody's promise"
    assert [one.to_json()["columns"][0]["changed"] for one in (alone, rolling, seeded)] == [None] * 3


def test_panes_of_new_records_alone_are_not_compared():
    """The last pane of late records, of whom more have the value, stood for its window: a change in 1,000 of 1,000.

    Of panes that accumulate each group has its own last one: that one group had a late pane hid what another's did.
    """
    m = RandomizedResponse(epsilon=4.0)

    def rows(day, pane, n, share, group):
        when = {"window_start": f"2026-01-0{day}", "window_end": f"2026-01-0{day + 1}", "pane_index": pane}
        found = m.estimate(m.simulate([n - round(share * n), round(share * n)], seed=n + day)).to_arrow().to_pylist()
        return [{**row, **when, "key": {"g": group}} for row in found]

    every = [*rows(5, 0, 5000, 0.1, "a"), *rows(6, 0, 5000, 0.1, "a"), *rows(5, 0, 5000, 0.1, "b")]
    every += [*rows(6, 0, 5000, 0.9, "b"), *rows(6, 1, 5050, 0.1, "a")]
    for many, said in ((every[:8], "g = b, true"), (every, None), (every[:4] + every[8:], None)):
        changed = Results({"c": many}, plan=PrivacyPlan({"c": m})).to_json()["columns"][0]["changed"]
        assert (changed is None) == (said is None)
        assert said is None or said in changed
    for many, said in ((every, "g = b, true"), (every[:4] + every[8:], "nothing has changed")):
        found = Results({"c": many}, plan=PrivacyPlan({"c": m}), accumulating=True)
        assert said in found.to_json()["columns"][0]["changed"]


def test_consistent_counts_are_not_compared():
    """As if they were unbiased, norm-mul of 128 values had changed in 65 % of 1,000 pages, where nothing had."""
    oue, half = UnaryEncoding(range(8), epsilon=1.0), HadamardResponse(range(8), epsilon=1.0)
    for m, consistency in itertools.product((oue, half), (None, *METHODS)):  # (of half of the reports an empty one)
        plan = PrivacyPlan({"c": m})
        rows = [
            {**row, "window_start": f"2026-01-0{day}", "window_end": f"2026-01-0{day + 1}"}
            for day, n in ((5, 100_000), (6, 2000))
            for row in m.estimate(m.simulate([n - n // 5, n // 5, *[0] * 6], seed=n), consistency=consistency)
            .to_arrow()
            .to_pylist()
        ]
        changed = Results({"c": rows}, plan=plan).to_json()["columns"][0]["changed"]
        assert (changed is None) == (consistency is not None), consistency


def test_rows_that_are_none_are_refused():
    """Beam's own rows were a TypeError; as dictionaries of their fields two windows were one group, in silence."""
    times = {"window_start": np.timedelta64(0), "window_end": "2026-01-01"}
    for row, came in (((1, 2), "tuple"), (ROW | times, "one whose window ends with a timedelta64")):
        with pytest.raises(InputError, match=rf"estimate_dict makes of Beam's rows; got {came}"):
            Results({"os": [row]})


@pytest.mark.parametrize("m", [UnaryEncoding(range(50), epsilon=5.0), RandomizedResponse(range(50), epsilon=5.0)])
def test_a_small_last_window_is_seldom_said_to_have_changed_if_it_has_not(m):
    """Few reports support a rare value: as of normal errors 13 to 15 % were said to have changed, and not 5 %."""
    plan, shares, said = PrivacyPlan({"os": m}), 1 / np.arange(1, 51), 0
    generator = np.random.default_rng(5)
    for _ in range(100):
        rows: list[dict] = []
        for day, n in ((1, 5000), (2, 200)):
            tally = m.simulate(generator.multinomial(n, shares / shares.sum()), seed=generator)
            when = {"window_start": f"2024-01-0{day}", "window_end": f"2024-01-0{day + 1}"}
            rows += [{**row, **when} for row in m.estimate(tally).to_arrow().to_pylist()]
        said += "nothing has changed" not in Results({"os": rows}, plan=plan).to_json()["columns"][0]["changed"]
    assert said <= 5


def test_what_has_changed_is_said_of_declared_values():
    """Of some of them or of a range there was an IndexError; and no curve was said to have changed."""
    arabic = "\N{ARABIC LETTER MEEM}"
    os = SubsetSelection(["ios", "web", arabic], epsilon=2.0)
    tallies = [os.simulate(people, seed=1) for people in ([6000, 3000, 1000], [4000, 3000, 3000])]
    found = {}
    for question in (HistogramEstimate(), RangeEstimate("ios", "web"), CdfEstimate()):
        rows = []
        for day, tally in enumerate(tallies, 1):
            when = {"window_start": f"2024-01-0{day}", "window_end": f"2024-01-0{day + 1}"}
            rows += [{**row, **when} for row in question.result(os, tally).to_arrow().to_pylist()]
        plan = PrivacyPlan({"os": os})
        for values in (["ios"], [arabic, "ios"], None):
            some = [row for row in rows if values is None or row["value"] in values]
            if some:
                found[question.name, len(values or "all")] = Results({"os": some}, plan=plan).to_json()["columns"][0]
    said = {name: column["changed"] for name, column in found.items()}
    assert {name for name, text in said.items() if text} == {("histogram", k) for k in (1, 2, 3)}
    assert [text.count(" to ") for name, text in said.items() if text] == [1, 2, 2]
    assert f"\u2068{arabic}\u2069 " in said["histogram", 2]  # so that it does not turn the numbers around


def test_no_name_of_a_stranger_turns_the_numbers_around():
    """In a caption the group "\\u202eone" made "stroper 432,1" of 1,234 reports."""
    row = {"value": "\u202eios", "count": 12.0, "low": 3.0, "high": 21.0, "n": 1234, "\u202eapp": "\u202eone"}
    letters = [{"column_name": "\u202eos", "reason": "\u202elate", "count": 1}]
    plan = PrivacyPlan({"\u202eos": SubsetSelection(["\u202eios", "web"], epsilon=2.0)}, keep=["\u202eapp"])
    made = Results({"\u202eos": [row]}, letters=letters, plan=plan, name="\u202e", doubts=["\u202e"]).to_json()
    assert "\u202e" not in json.dumps(made, ensure_ascii=False)
    assert made["columns"][0]["groups"][0]["key"] == "\\u202eapp = \\u202eone"


@pytest.mark.parametrize("written", ["2024-01-0{} 06:00:00+00:00", "2024-01-0{}T06:00:00Z"])
def test_what_has_changed_is_said_of_times_as_beam_writes_them(written):
    """Parquet has them with a zone, and nothing was said."""
    at = UnaryEncoding(Dates("2024-01-01T06:00", "2024-01-03T06:00", "1d"), epsilon=2.0)
    rows = []
    for day, people in enumerate(([6000, 4000], [4000, 6000]), 1):
        when = {"window_start": f"2024-01-0{day}", "window_end": f"2024-01-0{day + 1}"}
        found = at.estimate(at.simulate(people, seed=1)).to_arrow().to_pylist()
        rows += [{**row, **when, "value": written.format(k)} for k, row in enumerate(found, 1)]
    said = Results({"at": rows}, plan=PrivacyPlan({"at": at})).to_json()["columns"][0]["changed"]
    assert all(f"{written.format(k)} " in said for k in (1, 2))


def test_a_zone_that_nobody_knows(tmp_path):
    times = pa.array([0], pa.timestamp("s", "America/Nowhere"))
    table = pa.table({"value": ["ios"], "count": [2.0], "low": [1.0], "high": [3.0], "n": [3], "window_start": times})
    pq.write_table(table, tmp_path / "os.parquet")
    with pytest.raises(InputError, match="cannot be read"):
        read_results(tmp_path)


def test_broken_files_are_our_errors(tmp_path_factory):
    for name, data in [
        ("os.parquet", b"PAR1 no"),
        ("os.ndjson", b'{"value": 1\n'),
        ("os.ndjson", b"[1]\n"),
        ("os.ndjson", b"\xff\n"),
        ("os.csv", b'value,count\n"a,1\n1,2,3,4\n'),
        ("os.csv", b""),
        ("os.ndjson", b""),
        (RESULTS, b"[]"),
        (RESULTS, b'{"plan": {"columns": 1}}'),
        ("dead_letters.ndjson", b'{"reason": "late", "count": "many"}'),
    ]:
        tmp_path = tmp_path_factory.mktemp("broken")
        (tmp_path / "fine.ndjson").write_text(json.dumps(ROW))
        if name != RESULTS and not name.startswith("dead"):
            (tmp_path / "fine.ndjson").unlink()
        (tmp_path / name).write_bytes(data)
        with pytest.raises(LdpError) as raised:
            json.dumps(read_results(tmp_path).to_json(), allow_nan=False)
        assert "\n" not in str(raised.value)


def test_too_much_for_a_page(tmp_path):
    (tmp_path / "os.ndjson").write_text("".join(json.dumps({**ROW, "day": day}) + "\n" for day in range(3)))
    assert len(read_results(tmp_path, most_rows=3).columns["os"]) == 3
    with pytest.raises(LimitError, match="3 rows"):
        read_results(tmp_path, most_rows=2)
    with pytest.raises(InputError, match="there is no folder or file"):
        read_results(tmp_path / "nothing")


def test_numbers_that_json_does_not_have():
    none = Results({}, plan=PrivacyPlan({"os": UnaryEncoding(["a", "b"], epsilon=1.0)})).to_json()["plan"]
    assert none["n"] == 1  # of which the margins are
    row = {**ROW, "count": float("nan"), "low": float("-inf"), "n": 0}
    [group] = Results({"os": [row]}).to_json()["columns"][0]["groups"]
    assert group["rows"] == [["true", None, None, 21.0]]
    assert "NaN" not in report_page(Results({"os": [row]}))


def test_the_plan_comes_back(results, tmp_path):
    assert json.loads(about(PLAN))["confidence"] is None
    (tmp_path / RESULTS).write_text(about(PLAN, 0.9))
    shutil.copy(results / "minutes.parquet", tmp_path)
    found = read_results(tmp_path)
    assert (found.plan, found.confidence, found.to_json()["partial"]) == (PLAN, 0.9, None)
    assert read_results(tmp_path, plan=PLAN).plan == PLAN
    with pytest.raises(PlanError, match="says another plan"):  # the page said the epsilon of that one
        read_results(tmp_path, plan=PLAN.seeded(1))
    window = {"window_start": "2024-01-01", "window_end": "2024-01-08"}
    for last, partial in (
        ("2024-01-07", False),
        ("9999-12-31", False),
        ("9999-12-31T23:59-05:00", None),
        ("2024-01-06T12:00:00", True),
        ("2024", None),
        (7, None),
    ):
        (tmp_path / RESULTS).write_text(json.dumps({"covered": ["2024-01-01", last]}))
        pl.DataFrame([{**ROW, **window, "partial": True}]).write_csv(tmp_path / "os.csv")
        found = read_results(tmp_path / "os.csv").to_json()
        assert found["partial"] == (None if partial is None else [partial])
        assert found["columns"][0]["groups"][0]["key"] == "", "a column of the file that is no group"
