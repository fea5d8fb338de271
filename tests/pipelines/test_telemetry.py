"""The main job, end to end on files, through its command line."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp_core import Domain, InputError, ParameterError, PlanError, PrivacyPlan, RandomizedResponse, UnaryEncoding
from pipelines import demo
from pipelines.job import TelemetryJob
from pipelines.telemetry import main

SECRET = "s3cr3t-value"
OS = ["ios", "android", "web"]
PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(OS, epsilon=3.0),
        "crashed": RandomizedResponse(epsilon=3.0),
        "age": RandomizedResponse(Domain(range(4), unmatched="other"), epsilon=3.0),
    },
    keep=["country"],
)
DAY = dt.timedelta(days=1)
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def events(n: int) -> pa.Table:
    """Three days; the shares of the values are exact and the same every day."""
    k = np.arange(n)
    time = [START + DAY * (i % 3) + dt.timedelta(seconds=i % 86_000) for i in range(n)]
    return pa.table(
        {
            "t": pa.array(time, pa.timestamp("us", "UTC")),
            "os": pa.array(np.array(OS)[(k // 3) % 2]),  # never "web"
            "crashed": (k // 3) % 10 < 3,
            "age": pa.array([None if i % 5 == 4 else i % 5 for i in (k // 3).tolist()], pa.int64()),
            "country": pa.array(np.array(["de", "fr"])[(k // 6) % 2]),
            "user": [f"{SECRET}-{i}" for i in range(n)],
        }
    )


def write(table: pa.Table, path: Path) -> str:
    """Write in the format of the suffix."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=1000)
        return str(path)
    rows = table.to_pylist()
    for row in rows:
        row["t"] = row["t"].isoformat()
    if path.suffix == ".csv":
        text = [",".join(table.column_names)]
        text += [
            ",".join("" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in row.values())
            for row in rows
        ]
    else:
        text = [json.dumps(row) for row in rows]
    path.write_text("\n".join(text) + "\n")
    return str(path)


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.to_toml())
    return str(path)


def telemetry(*args: str) -> int:
    return main([*args, "--event-time", "t", "--window", "1d"])


def histograms(output: Path) -> list[dict]:
    rows = pq.read_table(output / "histograms.parquet").to_pylist()
    lines = [json.loads(line) for line in (output / "histograms.ndjson").read_text().splitlines()]
    assert len(rows) == len(lines)
    return rows


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_estimates_are_right_for_every_format(tmp_path, plan_file, capsys, suffix):
    n = 30_000
    source = write(events(n), tmp_path / f"events.{suffix}")
    out = tmp_path / "out"
    assert telemetry("--plan", plan_file, "--input", source, "--output", str(out)) == 0
    rows = histograms(out)
    assert len(rows) == 3 * (3 + 2 + 5)
    truth = {
        ("os", "ios"): 1 / 2, ("os", "android"): 1 / 2, ("os", "web"): 0.0,
        ("crashed", "true"): 0.3, ("crashed", "false"): 0.7,
        **{("age", str(k)): 0.2 for k in range(4)}, ("age", "other"): 0.2,
    }  # fmt: skip
    for row in rows:
        true = truth[row["column"], row["value"]] * n / 3
        sigma = np.sqrt(PLAN[row["column"]].variance(n / 3, true))
        assert abs(row["count"] - true) < 6 * sigma  # 2e-9 a row
        assert row["n"] == n / 3
        assert row["window_end"] - row["window_start"] == DAY
        assert (row["window_start"] - START) % DAY == dt.timedelta(0)
    printed = capsys.readouterr()
    assert f"records: {n:,} in histograms + 0 dead letters" in printed.out
    assert f"{n:,} records read" in printed.err
    assert SECRET not in printed.out + printed.err


def test_globs_and_several_files_and_keys(tmp_path, plan_file):
    table = events(12_000)
    for part in range(3):
        write(table.slice(part * 4000, 4000), tmp_path / f"part-{part}.parquet")
    out = tmp_path / "out"
    pattern = str(tmp_path / "part-*.parquet")
    assert telemetry("--plan", plan_file, "--input", pattern, "--output", str(out), "--by", "country") == 0
    sizes = {(row["window_start"], row["key"][0]): row["n"] for row in histograms(out)}
    assert sizes == {(START + d * DAY, ("country", c)): 2000 for d in range(3) for c in ("de", "fr")}


def test_reports_are_packed_carry_the_plan_and_nothing_else(tmp_path, plan_file):
    import polars as pl

    import ldp_polars  # noqa: F401

    n = 30_000
    source = write(events(n), tmp_path / "events.parquet")
    out = tmp_path / "out"
    assert telemetry("--plan", plan_file, "--input", source, "--output", str(out), "--reports") == 0
    files = sorted((out / "reports").glob("*.parquet"))
    for path in files:
        raw = path.read_bytes()
        assert SECRET.encode() not in raw
        assert PrivacyPlan.from_metadata(pq.read_schema(path).metadata) == PLAN
    reports = pl.read_parquet(files)
    assert reports.schema["os"] == pl.Array(pl.UInt64, 1)
    assert set(reports.columns) == {"os", "crashed", "age", "country", "window_start"}
    assert reports["window_start"].unique().sort().to_list() == [START + d * DAY for d in range(3)]  # no exact time
    # Matching is literal: Polars estimates from the file exactly what the job wrote.
    for name, mechanism in PLAN.columns.items():
        estimated = reports.group_by("window_start").agg(pl.col(name).ldp.histogram(mechanism))
        ours = {
            (row["window_start"], row["value"] if isinstance(row["value"], str) else str(row["value"]).lower()): row[
                "count"
            ]
            for row in estimated.explode(name).unnest(name).to_dicts()
        }
        theirs = {(r["window_start"], r["value"]): r["count"] for r in histograms(out) if r["column"] == name}
        assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("suffix", ["ndjson", "csv"])
def test_malformed_records_are_counted_redacted_and_do_not_stop_the_job(tmp_path, plan_file, capsys, caplog, suffix):
    good = events(3000)
    path = tmp_path / f"events.{suffix}"
    write(good, path)
    lines = path.read_text().splitlines()
    bad = {
        "ndjson": [
            f'{{"t": "2026-01-01T00:00:00Z", "os": "{SECRET}", "crashed": true, "age": 1, "country": "de"}}',
            f'{{"t": "2026-01-01T00:00:00Z", "os": "ios", "crashed": "{SECRET}", "age": 1, "country": "de"}}',
            f'{{"t": "{SECRET}", "os": "ios", "crashed": true, "age": 1, "country": "de"}}',
            '{"t": null, "os": "ios", "crashed": true, "age": 1, "country": "de"}',
            '{"t": "2026-01-01T00:00:00Z", "os": "ios", "age": 1, "country": "de"}',
            f"{SECRET}",
            "{",
            '{"t": "2026-01-01T00:00:00Z"}{"t": "2026-01-01T00:00:00Z"}',
            "[1, 2]",
            '{"t": "2026-02-30T00:00:00Z", "os": "ios", "crashed": true, "age": 1, "country": "de"}',
        ],
        "csv": [
            f"2026-01-01T00:00:00Z,{SECRET},true,1,de,u",
            f"2026-01-01T00:00:00Z,ios,{SECRET},1,de,u",
            f"{SECRET},ios,true,1,de,u",
            ",ios,true,1,de,u",
            "2026-01-01T00:00:00Z,ios,,1,de,u",
            f"{SECRET}",
            "2026-01-01T00:00:00Z,ios,true,1,de,u,more",
            f"2026-01-01T00:00:00Z,ios,true,{SECRET},de,u",
            "2026-02-30T00:00:00Z,ios,true,1,de,u",
        ],
    }[suffix]
    mixed = [lines[0], *(line for i, line in enumerate(lines[1:]) for line in (*bad[i : i + 1], line))]
    path.write_text("\n".join(mixed) + "\n")
    out = tmp_path / "out"
    assert telemetry("--plan", plan_file, "--input", str(path), "--output", str(out), "--reports") == 0
    letters = [json.loads(line) for line in (out / "dead_letters.ndjson").read_text().splitlines()]
    assert sum(letter["count"] for letter in letters) == len(bad)
    assert sum({row["window_start"]: row["n"] for row in histograms(out)}.values()) == 3000
    printed = capsys.readouterr()
    assert f"records: 3,000 in histograms + {len(bad)} dead letters" in printed.out
    assert f"{3000 + len(bad):,} records read" in printed.err
    everything = printed.out + printed.err + caplog.text
    for file in out.rglob("*"):
        everything += file.read_bytes().decode("latin1") if file.is_file() else ""
    assert SECRET not in everything


def test_invalid_utf8_is_one_records_fault(tmp_path, plan_file):
    path = tmp_path / "events.csv"
    write(events(300), path)
    path.write_bytes(path.read_bytes() + b"2026-01-01T00:00:00Z,\xff\xfe,true,1,de,u\n")
    out = tmp_path / "out"
    assert telemetry("--plan", plan_file, "--input", str(path), "--output", str(out)) == 0
    letters = [json.loads(line) for line in (out / "dead_letters.ndjson").read_text().splitlines()]
    assert [(letter["column"], letter["count"]) for letter in letters] == [("os", 1)]


def job(path: str, **changes: object) -> TelemetryJob:
    arguments: dict = {"plan": PLAN, "inputs": (path,), "event_time": "t", "window": "1d", "output": "unused"}
    return TelemetryJob(**{**arguments, **changes})


def test_bad_arguments_fail_before_the_job_starts(tmp_path):
    good = write(events(30), tmp_path / "events.parquet")
    with pytest.raises(ParameterError, match="window"):
        job(good, window=0)
    with pytest.raises(ParameterError, match="window"):
        job(good, window="-3h")
    with pytest.raises(ParameterError, match="confidence"):
        job(good, confidence=1.0)
    with pytest.raises(PlanError, match="when"):
        job(good, event_time="when")
    with pytest.raises(PlanError, match="lang"):
        job(good, plan=PrivacyPlan({"lang": RandomizedResponse(epsilon=1)}))
    with pytest.raises(PlanError, match="planet"):
        job(good, by=("planet",))
    with pytest.raises(PlanError, match="windows"):
        job(good, plan=PrivacyPlan({"t": RandomizedResponse(epsilon=1)}))
    with pytest.raises(InputError, match="timestamp"):
        job(good, event_time="age", plan=PrivacyPlan({"crashed": RandomizedResponse(epsilon=1)}))
    with pytest.raises(InputError, match="no file"):
        job(str(tmp_path / "nothing-*.csv"))


@pytest.mark.parametrize("name", ["events.parquet", "events.csv", "events.ndjson", "events.xml"])
@pytest.mark.parametrize("content", [b"", SECRET.encode()])
def test_empty_and_corrupt_files(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    if name == "events.ndjson" and content:
        assert job(str(path)).paths  # one bad line is a dead letter, not a bad file
        return
    with pytest.raises((InputError, PlanError)) as caught:
        job(str(path))
    assert name in str(caught.value)
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert name == "events.csv" or not any(SECRET in str(e) for e in chain)  # a csv's first line is its column names


def test_a_parquet_file_that_breaks_in_the_middle(tmp_path, plan_file, capsys):
    path = tmp_path / "events.parquet"
    write(events(30_000), path)
    raw = bytearray(path.read_bytes())
    raw[2000:40_000] = bytes(38_000)
    path.write_bytes(bytes(raw))
    assert telemetry("--plan", plan_file, "--input", str(path), "--output", str(tmp_path / "out")) == 2
    assert "corrupt" in capsys.readouterr().err


def test_files_with_different_types(tmp_path):
    table = events(30)
    write(table, tmp_path / "a.parquet")
    other = table.set_column(table.column_names.index("country"), "country", pa.array(range(30)))
    write(other, tmp_path / "b.parquet")
    with pytest.raises(InputError, match="different types"):
        job(str(tmp_path / "*.parquet"))


def test_command_line_errors_and_help(tmp_path, plan_file, capsys):
    assert main(["--plan", plan_file, "--input", "nowhere-*.csv", "--event-time", "t", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: no file matches")
    with pytest.raises(SystemExit) as caught:
        main(["--plan", plan_file])
    assert caught.value.code == 2
    assert "--input" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    assert "privacy plan" in capsys.readouterr().out


def test_demo_covers_the_truth(tmp_path):
    """The README's first command, in a process of its own; 1651 intervals at 95 %."""
    command = [sys.executable, "-m", "pipelines.telemetry", "--demo", "--output", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "records: 336,776 in histograms + 0 dead letters" in done.stdout
    intervals, inside = map(int, re.search(r"^all +(\d+) +(\d+)", done.stdout, re.MULTILINE).groups())
    assert intervals == 13 * (16 + 105 + 3 + 3)
    # Binomial(1651, 0.95) is within 0.95 +- 0.03 but for 1e-7; the 13 windows' columns are only weakly dependent.
    assert abs(inside / intervals - 0.95) < 0.03
    others = [r for r in histograms(tmp_path / "out") if r["column"] == "late" and r["value"] == "other"]
    missing = sum(r["count"] for r in others)
    sigma = np.sqrt(sum(r["standard_error"] ** 2 for r in others))
    assert abs(missing - 9430) < 6 * sigma  # the nulls come back as an estimate of how many there were


def test_demo_plan_is_declared_for_the_data():
    plan = PrivacyPlan.from_toml(demo.PLAN)
    table = demo.flights()
    assert len(table) == 336_776
    assert table["late"].null_count == 9430
    for name in ("carrier", "dest", "origin"):
        assert set(table[name].to_pylist()) == set(plan[name].domain.labels)
    assert plan.epsilon == 6.0
