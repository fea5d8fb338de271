"""The main job, end to end on files, through its command line."""

import datetime as dt
import json
import logging
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import get_args

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics.execution import MetricResult
from apache_beam.pipeline import PipelineVisitor

from ldp_beam import HistogramRow
from ldp_beam.io import estimate_schema
from ldp_beam.telemetry.job import TelemetryJob, logged
from ldp_beam.telemetry.options import TimeUnit
from ldp_beam.telemetry.running import _counted
from ldp_beam.telemetry.table import estimate_tables
from ldp_beam.time.times import PER_SECOND
from ldp_core import (
    Dates,
    DBitFlip,
    Domain,
    DtypeError,
    HadamardCountMeanSketch,
    HeavyHitters,
    HistogramEstimate,
    Hybrid,
    InputError,
    LdpWarning,
    LongitudinalRandomizedResponse,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    Secret,
    SquareWave,
    UnaryEncoding,
)
from ldp_report import RESULTS, read_results
from pipelines.telemetry import main

from ...cases import EVIL, full_disk

SECRET = "s3cr3t-value"
ROOT = Path(__file__).parents[3]
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


def code_of(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


def telemetry(*args: str) -> int:
    return main([*args, "--event-time", "t", "--window", "1d"])


def histograms(output: Path) -> list[dict]:
    rows = pq.read_table(output / "histograms.parquet").to_pylist()
    lines = [json.loads(line) for line in (output / "histograms.ndjson").read_text().splitlines()]
    assert len(rows) == len(lines)
    return rows


TRUE_SHARES = {
    ("os", "ios"): 1 / 2, ("os", "android"): 1 / 2, ("os", "web"): 0.0,
    ("crashed", "true"): 0.3, ("crashed", "false"): 0.7,
    **{("age", str(k)): 0.2 for k in range(4)}, ("age", "other"): 0.2,
}  # fmt: skip


def check_histograms(rows: list[dict], n: int, plan: PrivacyPlan = PLAN) -> None:
    """Each window and key has ``n`` records; estimates are as near to the truth as their errors say."""
    for row in rows:
        true = TRUE_SHARES[row["column_name"], row["value"]] * n
        assert abs(row["count"] - true) < 6.5 * np.sqrt(plan[row["column_name"]].variance(n, true))  # 8e-11 a row
        assert row["n"] == n
        assert row["window_end"] - row["window_start"] == DAY
        assert (row["window_start"] - START) % DAY == dt.timedelta(0)


def test_estimates_are_right_and_reports_hold_nothing_else(tmp_path, plan_file, capsys):
    """Several files, found by a pattern; a key; and the reports, which are packed and carry the plan."""
    import polars as pl

    import ldp_polars  # noqa: F401

    n, table, out = 18_000, events(18_000), tmp_path / "out"
    for part in range(3):
        write(table.slice(part * 6000, 6000), tmp_path / f"part-{part}.parquet")
    arguments = ["--plan", plan_file, "--input", str(tmp_path / "part-*.parquet"), "--output", str(out)]
    assert telemetry(*arguments, "--by", "country", "--reports") == 0
    rows = histograms(out)
    assert {(row["window_start"], row["key"][0]) for row in rows} == {
        (START + d * DAY, ("country", c)) for d in range(3) for c in ("de", "fr")
    }
    assert len(rows) == 6 * (3 + 2 + 5)
    check_histograms(rows, n // 6)
    printed = capsys.readouterr()
    assert f"records: {n:,} in histograms + 0 dead letters" in printed.out
    assert f"{n:,} records read" in printed.err
    assert SECRET not in printed.out + printed.err
    files = sorted((out / "reports").glob("*.parquet"))
    for path in files:
        assert SECRET.encode() not in path.read_bytes()
        plan = PrivacyPlan.from_metadata(pq.read_schema(path).metadata)
        assert plan == PrivacyPlan(PLAN.columns, keep=[*PLAN.keep, "window_start"])  # which names all that is written
        plan.check_reports(pq.read_schema(path))
    reports = pl.read_parquet(files)
    assert reports["os"].ext.storage().dtype == pl.Array(pl.UInt64, 1)
    assert set(reports.columns) == {"os", "crashed", "age", "country", "window_start"}
    assert reports["window_start"].unique().sort().to_list() == [START + d * DAY for d in range(3)]  # no exact time
    # Matching is literal: Polars estimates from the files exactly what the job wrote.
    for name, mechanism in PLAN.columns.items():
        estimated = reports.group_by("window_start", "country").agg(pl.col(name).ldp.histogram(mechanism))
        ours = {
            (start, country, text): count
            for start, country, counts in estimated.rows()
            for text, count in zip(mechanism.domain.texts, (row["count"] for row in counts), strict=True)
        }
        found = [row for row in rows if row["column_name"] == name]
        theirs = {(row["window_start"], row["key"][0][1], row["value"]): row["count"] for row in found}
        assert ours == pytest.approx(theirs)


def test_a_stranger_s_names_and_labels_move_no_cursor(tmp_path, capsys):
    plan = PrivacyPlan({f"os{EVIL}": RandomizedResponse(["ios", f"web{EVIL}"], epsilon=3.0)})
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    values = pa.array(["ios", f"web{EVIL}", f"undeclared{EVIL}"] * 50)
    people = pa.table({f"os{EVIL}": values, "t": pa.array([10**15] * 150, pa.timestamp("us", "UTC"))})
    write(people, tmp_path / "people.parquet")
    words = ["--plan", f"{tmp_path}/plan.toml", "--input", f"{tmp_path}/people.parquet", "--output", f"{tmp_path}/out"]
    assert telemetry(*words, "--max-dead", "0.9") == 0
    assert telemetry(*words, "--overwrite", "--max-dead", "0.1") == 1
    assert main([*words, "--overwrite", "--event-time", f"t{EVIL}"]) > 0
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert "records: 100 in histograms + 50 dead letters" in text
    assert text.count("gotcha") >= 8
    assert not [c for c in text if not c.isprintable() and c != "\n"]


def test_a_full_disk_is_said_in_a_line(tmp_path, plan_file, capsys):
    """It was a traceback, and the folder was not in it."""
    write(events(300), tmp_path / "events.parquet")
    out = tmp_path / "out"
    arguments = ["--plan", plan_file, "--input", str(tmp_path / "events.parquet"), "--output", str(out)]
    with full_disk(10):
        assert telemetry(*arguments) > 0
    assert f"error: cannot write into the folder '{out}': File too large" in capsys.readouterr().err
    assert not any(path.suffix == ".parquet" for path in out.rglob("*"))
    assert telemetry(*arguments) == 0
    assert {path.name for path in out.glob("*.parquet")} == {"histograms.parquet"}


def test_malformed_records_are_counted_redacted_and_do_not_stop_the_job(tmp_path, plan_file, capsys, caplog):
    path = tmp_path / "events.ndjson"
    write(events(3000), path)
    lines = path.read_text().splitlines()
    bad = [
        f'{{"t": "2026-01-01T00:00:00Z", "os": "{SECRET}", "crashed": true, "age": 1, "country": "de"}}',
        f'{{"t": "2026-01-01T00:00:00Z", "os": "ios", "crashed": "{SECRET}", "age": 1, "country": "de"}}',
        f'{{"t": "{SECRET}", "os": "ios", "crashed": true, "age": 1, "country": "de"}}',
        '{"t": null, "os": "ios", "crashed": true, "age": 1, "country": "de"}',
        '{"t": "2026-01-01T00:00:00Z", "os": "ios", "age": 1, "country": "de"}',
        f"{SECRET}",
        '{"t": "2026-01-01T00:00:00Z"}{"t": "2026-01-01T00:00:00Z"}',
        '{"t": "2026-02-30T00:00:00Z", "os": "ios", "crashed": true, "age": 1, "country": "de"}',
    ]
    mixed = [lines[0], *(line for i, line in enumerate(lines[1:]) for line in (*bad[i : i + 1], line))]
    path.write_text("\n".join(mixed) + "\n")
    out = tmp_path / "out"
    assert telemetry("--plan", plan_file, "--input", str(path), "--output", str(out), "--reports") == 0
    letters = [json.loads(line) for line in (out / "dead_letters.ndjson").read_text().splitlines()]
    assert sum(letter["count"] for letter in letters) == len(bad)
    check_histograms(histograms(out), 1000)
    printed = capsys.readouterr()
    assert f"records: 3,000 in histograms + {len(bad)} dead letters" in printed.out
    assert f"{3000 + len(bad):,} records read" in printed.err
    everything = printed.out + printed.err + caplog.text
    for file in out.rglob("*"):
        everything += file.read_bytes().decode("latin1") if file.is_file() else ""
    assert SECRET not in everything


# ---- means, heavy hitters, one candidate

SKETCH = HadamardCountMeanSketch(epsilon=4.0, hashes=64, width=64)
RAPPOR = Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75)
MIXED = PrivacyPlan(
    {
        "seconds": Hybrid((0, 12), epsilon=4.0),
        "level": SquareWave((0, 4), epsilon=4.0, buckets=64),
        "word": HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=6.0, levels=(2, 4), rows=8),
        "place": SKETCH.over(["rome"]),
        "os": UnaryEncoding(OS, epsilon=3.0),
    },
    keep=["level_kept"],
)


def numbers(n: int) -> pa.Table:
    """`events`, and as exact: seconds of mean 4, levels of mean 2, two words; "rome" is half of the places."""
    k = np.arange(n) // 3
    return (
        events(n)
        .append_column("seconds", pa.array(np.array([1.5, 6.5])[k % 2]))
        .append_column("level", pa.array(1 + 2 * (k % 2)))
        .append_column("level_kept", pa.array(k % 2))
        .append_column("word", pa.array(np.array(["rome", "oslo", "rome"])[k % 3]))
        .append_column("place", pa.array([f"street {i}" if i % 2 else "rome" for i in k.tolist()]))
    )


@pytest.mark.parametrize("suffix", ["parquet", *(pytest.param(s, marks=pytest.mark.slow) for s in ("csv", "ndjson"))])
@pytest.mark.slow
def test_means_heavy_hitters_and_one_candidate(tmp_path, capsys, suffix):
    n = 18_000
    (tmp_path / "plan.toml").write_text(MIXED.to_toml())
    source, out = write(numbers(n), tmp_path / f"events.{suffix}"), tmp_path / "out"
    arguments = ["--plan", str(tmp_path / "plan.toml"), "--input", source, "--output", str(out)]
    assert telemetry(*arguments, "--by", "level_kept", "--heavy-hitters", "2", "--ask", "level=mean") == 0
    means = pq.read_table(out / "means.parquet").to_pylist()
    lines = [json.loads(line) for line in (out / "means.ndjson").read_text().splitlines()]
    assert sorted(row["mean"] for row in means) == sorted(line["mean"] for line in lines)
    assert {(row["column_name"], row["window_start"], tuple(row["key"])) for row in means} == {
        (column, START + day * DAY, (("level_kept", kept),))
        for column in ("seconds", "level") for day in range(3) for kept in "01"
    }  # fmt: skip
    for row in means:
        kept = int(row["key"][0][1])
        true = (1.5 + 5 * kept) if row["column_name"] == "seconds" else 1 + 2 * kept
        sigma = np.sqrt(MIXED[row["column_name"]].variance(n / 6, true))
        middle = 4 / 64 / 2 if row["column_name"] == "level" else 0  # a square wave's number is its bucket's middle
        assert abs(row["mean"] - true) < 6 * sigma + middle
        assert row["low"] < row["mean"] < row["high"]
        assert row["n"] == n / 6
    found: dict = {}
    for row in histograms(out):
        found.setdefault(row["column_name"], {}).setdefault(row["value"], []).append(row)
    assert set(found) == {"word", "place", "os"}
    assert set(found["word"]) == {"rome", "oslo"}
    for column, value, true in [("word", "rome", n / 9), ("word", "oslo", n / 18)]:
        for row in found[column][value]:
            assert abs(row["count"] - true) < 6.5 * row["standard_error"] < true
    assert list(found["place"]) == ["rome"]
    for row in found["place"]["rome"]:
        assert abs(row["count"] - (0 if row["key"][0][1] == "1" else n / 6)) < 6.5 * row["standard_error"]
    printed = capsys.readouterr().out
    assert f"records: {n:,} in estimates + 0 dead letters" in printed
    assert "seconds: hybrid, [0, 12], epsilon 4; estimated mean and half of its 95% interval" in printed
    assert "place: hadamard_count_mean_sketch, 1 value, epsilon 4" in printed


def test_medians_of_numbers_are_numbers_beside_those_of_words(tmp_path, capsys):
    """All were in one file, as text: `ldp report` drew numbers as words in their order of appearance."""
    exact = {"epsilon": 50.0}  # so large that there is no noise
    ages, grades = RandomizedResponse(range(9), **exact), RandomizedResponse(["none", "school", "phd"], **exact)
    days = RandomizedResponse(Dates("2024-01-01", "2024-01-05", every="1d"), **exact)
    (tmp_path / "plan.toml").write_text(PrivacyPlan({"age": ages, "grade": grades, "born": days}).to_toml())
    rows = {"age": [8, 2, 7], "grade": ["phd", "none", "school"], "born": [dt.date(2024, 1, day) for day in (2, 3, 4)]}
    source, out = write(pa.table({**rows, "t": [START] * 3}), tmp_path / "events.parquet"), tmp_path / "out"
    ask = [word for name in rows for word in ("--ask", f"{name}=median")]
    arguments = ["--plan", str(tmp_path / "plan.toml"), "--input", source, "--output", str(out), *ask]
    assert telemetry(*arguments, "--event-time", "t") == 0
    files = {"medians": [("age", 7.0)], "medians_of_words": [("born", "2024-01-03"), ("grade", "school")]}
    for file, expected in files.items():
        lines = [json.loads(line) for line in (out / f"{file}.ndjson").read_text().splitlines()]
        stored = pq.read_table(out / f"{file}.parquet").to_pylist()
        for found in (lines, stored):
            assert sorted((row["column_name"], row["median"]) for row in found) == expected
    assert telemetry(*arguments, "--event-time", "t") != 0
    assert "has 6 files of an earlier run" in capsys.readouterr().err


def test_a_page_says_of_each_column_whom_its_intervals_are_about(tmp_path):
    """Of all it said that they are of the noise alone."""
    (tmp_path / "plan.toml").write_text(PLAN.to_toml())
    source, out = write(events(300), tmp_path / "events.parquet"), str(tmp_path / "out")
    ask = ["--ask", "os=histogram:population=many", "--ask", "age=histogram:population=500"]
    arguments = ["--plan", str(tmp_path / "plan.toml"), "--input", source, "--output", out, *ask]
    assert telemetry(*arguments, "--event-time", "t") == 0
    found = read_results(out)
    assert found.population == {"os": "many", "age": 500}
    assert [c["name"] for c in found.to_json()["columns"] if c["alone"]] == ["crashed"]


# ---- keyed noise

MEMOISED = PrivacyPlan({"os": DBitFlip(OS, epsilon_infinity=3.0, bits=2)}, keep=["country"])
VARIABLE = "LDP_TEST_TELEMETRY_SECRET"


@pytest.fixture
def keyed(tmp_path, monkeypatch) -> dict[str, tuple[str, str]]:
    """Options that name the secret, which is bytes 0 to 31."""
    (tmp_path / "secret").write_text(bytes(range(32)).hex() + "\n")
    monkeypatch.setenv(VARIABLE, bytes(range(32)).hex())
    (tmp_path / "memoized.toml").write_text(MEMOISED.to_toml())
    return {"file": ("--secret-file", str(tmp_path / "secret")), "env": ("--secret-env", VARIABLE)}


def test_reports_of_keyed_noise_are_those_of_the_secret(tmp_path, keyed, capsys, caplog):
    n = 3000
    ids = pa.array(np.arange(n) % 700)
    table = events(n).set_column(5, "user", ids)
    out = tmp_path / "out"
    arguments = ["--plan", str(tmp_path / "memoized.toml"), "--input", write(table, tmp_path / "events.csv")]
    arguments += ["--output", str(out), "--reports", *keyed["file"], "--id", "user"]
    assert telemetry(*arguments) == 2
    assert "say repeats=1" in capsys.readouterr().err
    assert telemetry(*arguments, "--repeats", "5") == 0
    batch = table.set_column(5, "user", ids.cast(pa.string()))  # in CSV ids are text
    batch = batch.combine_chunks().to_batches()[0]
    expected = MEMOISED.perturb(batch, key=Secret(bytes(range(32))), id=batch["user"])["os"].to_pylist()
    reports = pq.read_table(sorted((out / "reports").glob("*.parquet")))
    assert reports.column_names == ["os", "country", "window_start"]
    assert sorted(reports["os"].to_pylist()) == sorted(expected)
    assert sum({row["window_start"]: row["n"] for row in histograms(out)}.values()) == n
    printed = capsys.readouterr()
    assert f"secret: its fingerprint is {Secret(bytes(range(32))).fingerprint}\n" in printed.out
    everything = printed.out + printed.err + caplog.text
    for file in out.rglob("*"):
        everything += file.read_bytes().decode("latin1") if file.is_file() else ""
    assert bytes(range(32)).hex() not in everything
    assert bytes(range(32)).decode("latin1") not in everything


@pytest.mark.parametrize("words", [["--window", "7d"], ["--input", "x.csv"], ["--ask", "os=mean"], ["--by", "os"]])
def test_the_demonstration_takes_no_options_that_do_nothing(words, capsys):
    assert code_of(["--demo", *words]) == 2
    assert f"does not take ['{words[0]}']" in capsys.readouterr().err


class Functions(PipelineVisitor):
    """Collects the functions of all steps."""

    def __init__(self) -> None:
        self.found: list = []

    def visit_transform(self, node) -> None:
        self.found += [node.transform.fn] if isinstance(node.transform, beam.ParDo) else []


def test_files_of_reports_are_not_perturbed_again(tmp_path):
    source = str(tmp_path / "reports.parquet")
    plan = PrivacyPlan({"b": RandomizedResponse(epsilon=1.0)}, keep=["t"])
    noon = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    reports = plan.perturb(pa.record_batch({"b": [True, False], "t": [noon] * 2}))
    pq.write_table(pa.Table.from_batches([reports]), source)
    with pytest.raises(MechanismMismatchError, match="hold reports already"):
        job(source, plan=plan)


def test_the_secret_does_not_travel_with_the_job(tmp_path, keyed):
    source = write(events(30), tmp_path / "events.parquet")
    made = job(
        source,
        plan=MEMOISED,
        id="user",
        key=partial(Secret.from_file, str(tmp_path / "secret")),
        reports=True,
        repeats=1,
    )
    p = beam.Pipeline("FnApiRunner")
    made.build(p)
    steps = Functions()
    p.visit(steps)  # (in the job's graph they are compressed)
    travels = cloudpickle.dumps(made) + b"".join(map(cloudpickle.dumps, steps.found))
    assert str(tmp_path / "secret").encode() in travels
    for secret in (bytes(range(32)), bytes(range(32)).hex().encode()):
        assert secret not in travels
        assert secret not in repr(made).encode()


def test_workers_log_the_fingerprint_of_the_secret_once(caplog):
    caplog.set_level(logging.INFO, logger="ldp_beam.telemetry.job")
    key = Secret.generate().shared()
    assert [pickle.loads(pickle.dumps(partial(logged, key.shared)))() for _ in range(3)] == [key] * 3
    assert caplog.messages == [f"keyed noise by the secret with fingerprint {key.fingerprint}"]


def test_a_seeded_plan_repeats_itself(tmp_path):
    """The estimates are those of the reports that the core makes."""
    plan, table, out = PLAN.seeded(7), events(3000), tmp_path / "out"
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    arguments = ["--plan", str(tmp_path / "plan.toml"), "--input", write(table, tmp_path / "events.parquet")]
    assert telemetry(*arguments, "--output", str(out), "--id", "user") == 0
    batch = table.combine_chunks().to_batches()[0]
    reports = plan.perturb(batch, id=batch["user"])
    for row in histograms(out):
        m = plan[row["column_name"]]
        here = pc.equal(pc.floor_temporal(batch["t"], unit="day"), row["window_start"])
        expected = m.estimate(m.tally(reports[row["column_name"]].filter(here)))
        assert row["count"] == pytest.approx(expected.counts[m.domain.texts.index(row["value"])])


def test_keyed_noise_is_refused_before_anything_is_read(tmp_path, keyed, capsys):
    for message, options in [
        ("--secret-file FILE or --secret-env NAME, and --id COLUMN", []),
        ("both", ["--id", "user"]),
        ("both", ["--secret-env", VARIABLE]),
        ("cannot read the secret file", ["--secret-file", "no/such/file", "--id", "user"]),
        ("must hold 32 to 2048 hexadecimal digits", ["--secret-env", "LDP_NO_SUCH_SECRET", "--id", "user"]),
        ("does not have the columns ['person']", ["--secret-env", VARIABLE, "--id", "person"]),
        ("cannot be perturbed", ["--secret-env", VARIABLE, "--id", "os"]),
        ("nor be the event time", ["--secret-env", VARIABLE, "--id", "t"]),
        ("nor one of --by", ["--secret-env", VARIABLE, "--id", "user", "--by", "country", "user"]),
        ("ids must be integers, text or binary", ["--secret-env", VARIABLE, "--id", "crashed"]),
        ("not allowed with", ["--secret-env", VARIABLE, "--secret-file", "f", "--id", "user"]),
        ("on the command line", ["--secret", SECRET, "--id", "user"]),
        ("on the command line", [f"--key={SECRET}", "--id", "user"]),
    ]:
        source, out = write(events(30), tmp_path / "events.parquet"), tmp_path / "out"
        arguments = ["--plan", str(tmp_path / "memoized.toml"), "--input", source, "--output", str(out), *options]
        code = telemetry(*arguments)
        printed = capsys.readouterr()
        assert code == 2
        assert message in printed.err
        assert SECRET not in printed.out + printed.err
        assert not out.exists()


def job(path: str, **changes: object) -> TelemetryJob:
    arguments: dict = {"plan": PLAN, "inputs": (path,), "event_time": "t", "window": "1d", "output": "unused"}
    return TelemetryJob(**{**arguments, **changes})


def test_bad_arguments_fail_before_the_job_starts(tmp_path):
    good = write(events(30), tmp_path / "events.parquet")

    def plan(**columns):
        return {"plan": PrivacyPlan(columns)}

    flag, seeded = RandomizedResponse(epsilon=1), PLAN.seeded(1)
    lasting = LongitudinalRandomizedResponse(OS, epsilon_infinity=2, epsilon_1=1)
    (tmp_path / "file").touch()
    for error, match, changes in (
        (ParameterError, "window", {"window": 0}),
        (ParameterError, "window", {"window": "-3h"}),
        (ParameterError, "confidence", {"confidence": 1.0}),
        (PlanError, "when", {"event_time": "when"}),
        (PlanError, "lang", plan(lang=flag)),
        (PlanError, "planet", {"by": ("planet",)}),
        (MechanismMismatchError, r"\['os'\] hold reports, says the plan: .*--table", {"by": ("os",)}),
        (PlanError, "windows", plan(t=flag)),
        (InputError, "timestamp", {"event_time": "user", **plan(crashed=flag)}),
        (PlanError, r"'os'.* candidates", plan(os=SKETCH)),
        (PlanError, 'mechanism = "candidates"', plan(os=SKETCH)),
        (PlanError, 'mechanism = "rappor_candidates"', plan(os=RAPPOR)),
        (DtypeError, "'os'", plan(os=Hybrid((0, 1), epsilon=1))),
        (DtypeError, "'age'", plan(age=UnaryEncoding(OS, epsilon=1))),
        (ParameterError, "k must be", {"heavy_hitters": 0, **plan(os=MIXED["word"])}),
        (PlanError, "--id", {"plan": seeded}),
        (PlanError, "no secret", {"plan": seeded, "key": Secret.generate, "id": "user"}),
        (PlanError, "keyed noise: give --secret-file FILE or --secret-env NAME, and --id COLUMN", plan(os=lasting)),
        (InputError, "no file", {"inputs": (str(tmp_path / "nothing-*.csv"),)}),
        (InputError, "the output must be a directory", {"output": str(tmp_path / "file")}),
        *((InputError, "a pattern", {"output": str(tmp_path / name)}) for name in ("out*", "out?", "out[1]")),
    ):
        with pytest.raises(error, match=match):
            job(good, **changes)


def test_empty_and_corrupt_files(tmp_path):
    for name in ["events.parquet", "events.csv", "events.ndjson", "events.xml"]:
        for content in [b"", SECRET.encode()]:
            path = tmp_path / name
            path.write_bytes(content)
            if name == "events.ndjson" and content:
                assert job(str(path)).read.paths  # one bad line is a dead letter, not a bad file
                continue
            with pytest.raises((InputError, PlanError)) as caught:
                job(str(path))
            assert name in str(caught.value)
            chain = [caught.value, caught.value.__cause__, caught.value.__context__]
            assert not any(SECRET in str(e) for e in chain)


def test_files_with_different_types(tmp_path):
    table = events(30)
    write(table, tmp_path / "a.parquet")
    write(table.set_column(table.column_names.index("country"), "country", pa.array(range(30))), tmp_path / "b.parquet")
    words = r"different types, country: int64 and country: \w+: write one of them with the types of the other"
    with pytest.raises(InputError, match=words):
        job(str(tmp_path / "*.parquet"))


@pytest.mark.slow
def test_a_parquet_file_that_breaks_in_the_middle(tmp_path, plan_file, capsys):
    path = tmp_path / "events.parquet"
    write(events(6000), path)
    raw = bytearray(path.read_bytes())
    raw[2000:20_000] = bytes(18_000)
    path.write_bytes(bytes(raw))
    assert telemetry("--plan", plan_file, "--input", str(path), "--output", str(tmp_path / "out")) == 1
    printed = capsys.readouterr()
    assert "1 x not a readable file" in printed.out
    assert "error: 1 of 1 files could not be read to their end, more than --max-dead 0.1" in printed.err


def test_command_line_errors_and_help(tmp_path, plan_file, capsys):
    assert main(["--plan", plan_file, "--input", "nowhere-*.csv", "--event-time", "t", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: no file matches")
    assert main(["--plan", plan_file]) == 2
    assert "--input" in capsys.readouterr().err
    for words in (["--help"], ["--live", "--help"]):
        assert code_of(words) == 0
        assert "privacy plan" in capsys.readouterr().out


_WITHOUT_BEAM = """
import sys
sys.modules["apache_beam"] = None  # an import of it fails
sys.argv = ["telemetry", *sys.argv[1:]]
import runpy
runpy.run_module("pipelines.telemetry", run_name="__main__")
"""


def test_help_and_misuse_need_no_beam():
    for words, code in [(["--help"], 0), (["--plan", "p.toml"], 2), (["--demo"], 2)]:
        command = [sys.executable, "-c", _WITHOUT_BEAM, *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        if words == ["--demo"]:
            assert done.stderr == "error: apache_beam is not installed: pip install 'ldp-telemetry[beam]'\n"
        else:
            assert "--event-time" in done.stdout + done.stderr


def test_the_units_of_times_are_those_of_the_transforms():
    assert tuple(PER_SECOND) == get_args(TimeUnit)


@pytest.mark.slow
def test_demo_covers_the_truth(tmp_path, capsys):
    """The README's first command; 1651 intervals at 95 %."""
    assert main(["--demo", "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "records: 336,776 in histograms + 0 dead letters" in printed
    intervals, inside = map(int, re.search(r"^all +(\d+) +(\d+)", printed, re.MULTILINE).groups())
    assert intervals == 13 * (16 + 105 + 3 + 3)
    # Binomial(1651, 0.95) is within 0.95 +- 0.03 but for 1e-7; the 13 windows' columns are only weakly dependent.
    assert abs(inside / intervals - 0.95) < 0.03
    covered = json.loads((tmp_path / "out" / "results.json").read_text())["covered"]
    assert [time[:10] for time in covered] == ["2013-01-01", "2014-01-01"], "so that a page marks windows in part"
    others = [r for r in histograms(tmp_path / "out") if r["column_name"] == "late" and r["value"] == "other"]
    missing = sum(r["count"] for r in others)
    sigma = np.sqrt(sum(r["standard_error"] ** 2 for r in others))
    assert abs(missing - 9430) < 6 * sigma  # the nulls come back as an estimate of how many there were


def test_options_that_are_misspelt_or_nobodys_are_refused(capsys, tmp_path):
    for wrong, right in [
        ("--windw", "--window"),
        ("--heavy_hitters", "--heavy-hitters"),
        ("--report", "--reports"),
        ("--tops=3", "--top"),
    ]:
        assert main(["--plan", "p", "--input", "i", "--event-time", "t", "--output", "o", wrong]) == 2
        assert f"did you mean {right}?" in capsys.readouterr().err
    (tmp_path / "events.ndjson").write_text('{"t": 1767268800, "c": true}\n')
    (tmp_path / "plan.toml").write_text(PrivacyPlan({"c": RandomizedResponse(epsilon=1.0)}).to_toml())
    files = ("--plan", str(tmp_path / "plan.toml"), "--input", str(tmp_path / "events.ndjson"), "--event-time", "t")
    assert main([*files, "--output", str(tmp_path / "out"), "--no-such-option"]) == 2
    assert "neither this command nor Beam has an option --no-such-option" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (earlier := tmp_path / "earlier" / RESULTS).parent.mkdir()
    earlier.write_text("{}")
    assert main([*files, "--output", str(earlier.parent), "--overwrite", "--runner=Nobodys"]) == 2
    assert "Unexpected pipeline runner: Nobodys" in capsys.readouterr().err
    assert earlier.exists(), "it was deleted for a job that could not begin"
    flags = [
        "--flink_master=x",
        "--checkpointing_interval=1",
        "--environment_type=DOCKER",
        "--region=r",
        "--project",
        "p",
    ]
    assert main(["--plan", "p", "--input", "i", "--event-time", "t", "--output", "o", *flags]) == 2
    assert "cannot read the plan 'p'" in capsys.readouterr().err


def test_pairs_of_columns_have_histograms_of_each_column(tmp_path, capsys):
    plan = PrivacyPlan.pairs({"os": ["ios", "web"], "crashed": [False, True]}, epsilon=20.0)
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    lines = [f'{{"time": "2026-01-01T00:00:00", "os": "{os}", "crashed": true}}' for os in ["ios"] * 3 + ["web"]]
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    where = {name: str(tmp_path / name) for name in ("plan.toml", "events.ndjson", "out")}
    options = ["--plan", where["plan.toml"], "--input", where["events.ndjson"], "--output", where["out"]]
    assert main([*options, "--event-time", "time"]) == 0
    rows = pq.read_table(tmp_path / "out" / "histograms.parquet").to_pylist()
    found = {(row["column_name"], row["value"]): round(row["count"]) for row in rows}
    assert len(found) == 4 + 2 + 2
    assert [found[of] for of in (("os", "ios"), ("os", "web"), ("crashed", "true"), ("crashed", "false"))] == [
        3,
        1,
        4,
        0,
    ]
    assert "os: from 1 pair, 2 values, epsilon 20; estimated count" in capsys.readouterr().out


def test_records_in_windows_without_heavy_hitters_are_not_said_to_be_missing(tmp_path, capsys):
    mechanism = HeavyHitters(Prefixes("abc", 2), epsilon=2.0, rows=4, width=64)
    (tmp_path / "plan.toml").write_text(PrivacyPlan({"name": mechanism}).to_toml())
    (tmp_path / "events.ndjson").write_text('{"time": "2026-01-01T00:00:00", "name": "ab"}\n')
    where = {name: str(tmp_path / name) for name in ("plan.toml", "events.ndjson", "out")}
    options = ["--plan", where["plan.toml"], "--input", where["events.ndjson"], "--output", where["out"]]
    assert main([*options, "--event-time", "time"]) == 0
    out = capsys.readouterr().out
    assert "name: nothing was found" in out
    assert "records: 0 in windows in which something was found + 0 dead letters" in out


# ---- times as numbers, lost records, what is there already, the place of a record


def coin_job(tmp_path, name, lines, *options):
    (tmp_path / "plan.toml").write_text('[columns.crashed]\nmechanism = "randomized_response"\nepsilon = 100.0\n')
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    out = str(tmp_path / "out")
    return telemetry("--plan", str(tmp_path / "plan.toml"), "--input", str(path), "--output", out, *options)


def shown(tmp_path):
    rows = pq.read_table(tmp_path / "out" / "histograms.parquet").to_pylist()
    letters = [json.loads(line) for line in (tmp_path / "out" / "dead_letters.ndjson").read_text().splitlines()]
    return {row["window_start"]: row["n"] for row in rows}, letters


MIDDAY = int(START.timestamp()) + 12 * 3600
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize(
    ("unit", "suffix", "kind"),
    [("ms", "ndjson", int), ("s", "csv", float), pytest.param("us", "csv", int, marks=pytest.mark.slow)],
)
def test_event_times_may_be_numbers_of_any_unit(tmp_path, capsys, unit, suffix, kind):
    times = [kind((MIDDAY + i) * UNITS[unit]) for i in range(30)]
    lines = [json.dumps({"t": time, "crashed": True}) for time in times]
    if suffix == "csv":
        lines = ["t,crashed", *(f"{time!r},true" for time in times)]
    assert coin_job(tmp_path, f"events.{suffix}", lines, "--time-unit", unit, "--reports") == 0
    assert shown(tmp_path) == ({START: 30}, [])
    assert "1990" not in capsys.readouterr().out
    [stored] = (tmp_path / "out" / "reports").glob("*")
    assert set(pq.read_table(stored)["window_start"].to_pylist()) == {START}


def test_stored_windows_of_times_with_nanoseconds(tmp_path):
    # one before a day of 1969 ends, and one after: what is below a microsecond is cut off towards the past
    path, out = tmp_path / "events.parquet", str(tmp_path / "out")
    pq.write_table(pa.table({"t": pa.array([-1, 1], pa.timestamp("ns")), "crashed": [True, False]}), path)
    (tmp_path / "plan.toml").write_text('[columns.crashed]\nmechanism = "randomized_response"\nepsilon = 100.0\n')
    words = ["--plan", str(tmp_path / "plan.toml"), "--input", str(path), "--output", out, "--reports"]
    assert telemetry(*words) == 0
    assert {start.day for start in shown(tmp_path)[0]} == {31, 1}
    stored = pq.read_table(tmp_path / "out" / "reports").to_pylist()
    assert {row["window_start"].day: row["crashed"] for row in stored} == {31: True, 1: False}


def test_another_unit_is_said(tmp_path, capsys):
    def run(time, *options):
        return coin_job(tmp_path, "events.ndjson", [json.dumps({"t": time, "crashed": True})], *options)

    assert run(MIDDAY, "--time-unit", "ms") == 0  # in 1970
    assert "hint: there are times before 1990 or after 2100 in 't'" in capsys.readouterr().out
    assert run(MIDDAY * 1000, "--overwrite") == 1
    printed = capsys.readouterr()
    assert "--time-unit says what they count; it is s" in printed.out
    assert "1 x a time before the year 1 or after 9999 in 't'" in printed.err


def test_a_job_that_loses_most_records_fails_and_says_why(tmp_path, capsys):
    lines = [json.dumps({"t": MIDDAY, "crashed": "no"})] * 95 + [json.dumps({"t": MIDDAY, "crashed": False})] * 5
    assert coin_job(tmp_path, "events.ndjson", lines) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == (
        "error: 95 of 100 records could not be used, more than --max-dead 0.1 permits: "
        "95 x not of type bool in 'crashed'"
    )
    assert shown(tmp_path) == ({START: 5}, [{"column_name": "crashed", "reason": "not of type bool", "count": 95}])
    assert coin_job(tmp_path, "events.ndjson", lines, "--overwrite", "--max-dead", "0.95") == 0
    assert coin_job(tmp_path, "events.ndjson", lines, "--overwrite", "--max-dead", "1.5") == 2


@pytest.mark.parametrize(
    ("first", "bad", "reason"),
    [
        (MIDDAY, ["soon"], "not of type number, s since the epoch"),
        ("2026-01-01T12:00:00Z", ["soon", 5], "not of type timestamp[us, tz=UTC]"),
    ],
)
def test_a_letter_names_the_column_and_what_was_expected(tmp_path, first, bad, reason):
    lines = [json.dumps({"t": time, "crashed": True}) for time in [*[first] * 40, *bad, None]]
    assert coin_job(tmp_path, "events.ndjson", lines) == 0
    counts, letters = shown(tmp_path)
    assert counts == {START: 40}
    assert {(letter["column_name"], letter["reason"]): letter["count"] for letter in letters} == {
        ("t", reason): len(bad),
        ("t", "no event time"): 1,
    }


def test_a_file_of_lines_without_the_event_time_says_so(tmp_path, capsys):
    assert coin_job(tmp_path, "events.ndjson", [json.dumps({"time": MIDDAY, "crashed": True})] * 3) == 2
    assert "none of its first 3 lines has the event time 't'" in capsys.readouterr().err
    with pytest.warns(LdpWarning, match=r"none of its first 3 lines has the columns \['crashed'\]"):
        assert coin_job(tmp_path, "events.ndjson", [json.dumps({"t": MIDDAY, "Crashed": True})] * 3) == 1


@pytest.mark.slow
def test_results_of_an_earlier_run_are_not_written_over_unasked(tmp_path, capsys):
    lines = [json.dumps({"t": MIDDAY, "crashed": True})] * 3
    assert coin_job(tmp_path, "events.ndjson", lines, "--reports") == 0
    (tmp_path / "out" / "mine.txt").write_text("mine")
    assert coin_job(tmp_path, "events.ndjson", lines * 2) == 2
    assert "has 5 files of an earlier run: take another one, or --overwrite" in capsys.readouterr().err
    assert shown(tmp_path)[0] == {START: 3}
    assert coin_job(tmp_path, "events.ndjson", lines * 2, "--overwrite") == 0
    assert shown(tmp_path)[0] == {START: 6}
    left = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert left == ["dead_letters.ndjson", "histograms.ndjson", "histograms.parquet", "mine.txt", RESULTS]


@pytest.mark.parametrize("named", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_noise_of_records_is_the_same_again(tmp_path, named, keyed):
    lines = [json.dumps({"t": MIDDAY, "os": OS[i % 3], "n": i}) for i in range(40)]
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    (tmp_path / "os.toml").write_text(PrivacyPlan({"os": UnaryEncoding(OS, epsilon=1.0)}).to_toml())
    options = ["--plan", str(tmp_path / "os.toml"), "--input", str(tmp_path / "events.ndjson"), "--reports"]
    options += ["--record", "n"] if named else ["--by-place"]
    secret = [] if named else keyed["file"]
    again = []
    for run_number in range(2):
        out = tmp_path / f"out{run_number}"
        assert telemetry(*options, *secret, "--output", str(out)) == 0
        tables = [pq.read_table(path) for path in (out / "reports").glob("*")]
        again.append(sorted(str(row) for table in tables for row in table.to_pylist()))
        assert all(table.column_names == ["os", "window_start"] for table in tables)
    assert (again[0] == again[1]) is bool(secret)


class Told:
    """A runner's results: Flink's has attempted counts only."""

    def __init__(self, *counts):
        self.counts = counts

    def metrics(self):
        return self

    def query(self, _):
        found = [MetricResult(None, committed, attempted) for committed, attempted in self.counts]
        return {"counters": found}


def test_counts_of_runners_that_tell_less():
    assert _counted(Told((None, 5), (None, 7)), "rows_read") == 12
    assert _counted(Told((3, 5)), "rows_read") == 3
    assert _counted(Told((None, None)), "rows_read") is None
    assert _counted(Told(), "rows_read") is None
    assert _counted(object(), "rows_read") is None


# ---- what a job prints


def test_half_of_an_interval_that_is_not_symmetric_is_half_of_it():
    row = dict.fromkeys(estimate_schema(HistogramRow).names) | {
        "window_start": datetime(2026, 1, 1, tzinfo=UTC),
        "column_name": "os",
    }
    row |= {"key": [], "value": "ios", "count": 50.0, "low": 0.0, "high": 60.0, "n": 100, "confidence": 0.95}
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    table = pa.Table.from_pylist([row], estimate_schema(HistogramRow))
    text = "".join(estimate_tables({"os": table}, {"os": HistogramEstimate()}, plan.columns))
    assert "50 ± 30" in text


def test_windows_of_seconds_are_lines_of_their_own():
    """Those of one minute were one line, with the n of the first and the counts of the last."""
    about = {"column_name": "os", "key": [], "value": "ios", "low": 0.0, "high": 60.0, "confidence": 0.95}
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    rows = [about | {"window_start": start + dt.timedelta(seconds=5 * k), "count": 50.0, "n": 100 + k} for k in (0, 1)]
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    table = pa.Table.from_pylist(rows, estimate_schema(HistogramRow))
    text = "".join(estimate_tables({"os": table}, {"os": HistogramEstimate()}, plan.columns))
    assert [line.split()[:3] for line in text.strip().splitlines()[-2:]] == [
        ["2024-01-01", "00:00", "100"],
        ["2024-01-01", "00:00:05", "101"],
    ]
