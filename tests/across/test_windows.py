"""Windows begin at the same times in Polars, in Beam and in what the telemetry command stores."""

import datetime as dt
import json
from typing import Any

import apache_beam as beam
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_beam.io import EstimateBatches, bigquery_row, estimate_batch, estimate_schema
from ldp_core import PrivacyPlan, RandomizedResponse
from pipelines.telemetry import main

from ..beam.helpers import run
from ..beam.streams import All
from ..cases import case

PLAN = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["time"])
FIRST = dt.datetime(2025, 12, 24, 15)
PEOPLE = pl.DataFrame({"crashed": [True] * 60, "time": [FIRST + dt.timedelta(hours=17 * i) for i in range(60)]})
WEEKDAYS = {"1w": 1, "2w": 1, "7d": 4, "14d": 4, "1w+6d": 7, "7d+3d": 7, "2w+7d": 1}


def starts(name: str) -> dict[dt.datetime, int]:
    """Start of each window, and how many records are in it; by the calendar, one record after the other."""
    length, _, later = name.partition("+")
    days = int(length[:-1]) * (7 if length[-1] == "w" else 1)
    anchor = dt.datetime(1970, 1, 5 if length[-1] == "w" else 1)
    anchor += dt.timedelta(days=int(later[:-1]) if later else 0)
    found: dict[dt.datetime, int] = {}
    for time in PEOPLE["time"]:
        start = anchor + (time - anchor) // dt.timedelta(days=days) * dt.timedelta(days=days)
        found[start] = found.get(start, 0) + 1
    return found


def test_windows_are_the_same_everywhere():
    options = {"event_time": "time"}
    private = [ldp_beam.PrivateHistogram("crashed", PLAN["crashed"], window=w, **options) for w in WEEKDAYS]
    for window, rows in zip(WEEKDAYS, run(All(private), PEOPLE.to_arrow().to_batches()), strict=True):
        expected = starts(window)
        with case(window):
            assert {start.isoweekday() for start in expected} == {WEEKDAYS[window]}
            tidy = PEOPLE.ldp.perturb(PLAN).ldp.histograms(PLAN, window=window, **options)
            assert dict(tidy.select("window_start", "n").rows()) == expected
            length = dt.timedelta(days=14 if window.startswith(("2w", "14d")) else 7)
            assert set(tidy["window_end"] - tidy["window_start"]) == {length}
            assert {row.window_start.to_utc_datetime(): row.n for row in rows} == expected
            assert {(row.window_end - row.window_start).micros for row in rows} == {length.days * 86400 * 10**6}
    week, reports = dt.timedelta(days=7), PEOPLE.ldp.perturb(PLAN)
    assert reports.ldp.histograms(PLAN, window=week, **options).equals(
        reports.ldp.histograms(PLAN, window="7d", **options)
    )
    assert ldp_beam.time.windows.window_fn(week) == ldp_beam.time.windows.window_fn("7d")


def test_what_the_command_stores_is_cut_to_the_same_windows(tmp_path):
    PEOPLE.write_parquet(tmp_path / "events.parquet")
    (tmp_path / "plan.toml").write_text(PrivacyPlan(PLAN.columns).to_toml())
    files = ["--plan", str(tmp_path / "plan.toml"), "--input", str(tmp_path / "events.parquet")]
    assert main([*files, "--event-time", "time", "--output", str(tmp_path), "--window", "1w+6d", "--reports"]) == 0
    expected = {start.replace(tzinfo=dt.UTC): n for start, n in starts("1w+6d").items()}
    stored = pl.read_parquet(tmp_path / "reports" / "*.parquet")["window_start"]
    assert dict(stored.value_counts().rows()) == expected
    written = pl.read_parquet(tmp_path / "histograms.parquet")
    assert dict(written.select("window_start", "n").rows()) == expected


# ---- values of estimates are of their domain's own type, from the core to files; of mixed columns they are text


SURE = 50.0
FOUR = pl.DataFrame({"level": [1, 2, 10, 10], "crashed": [True, False, True, True], "os": ["ios", "web", "ios", "web"]})
TYPED = PrivacyPlan(
    {
        "level": RandomizedResponse([1, 2, 10], epsilon=SURE),
        "crashed": RandomizedResponse(epsilon=SURE),
        "os": RandomizedResponse(["ios", "web"], epsilon=SURE),
    }
)
ROWS = {
    "level": (ldp_beam.IntegerHistogramRow, [1, 2, 10], pa.int64()),
    "crashed": (ldp_beam.BooleanHistogramRow, [False, True], pa.bool_()),
    "os": (ldp_beam.HistogramRow, ["ios", "web"], pa.string()),
}


def rows_of(*names: str) -> beam.PTransform[Any, Any]:
    """Histograms of these columns in one collection."""

    class Histograms(beam.PTransform):
        def expand(self, events):
            return [events | n >> ldp_beam.PrivateHistogram(n, TYPED[n]) for n in names] | beam.Flatten()

    return Histograms()


@pytest.mark.slow
def test_rows_of_beam_have_the_type_of_the_domain_and_agree_with_polars():
    for single, events in ((False, FOUR.to_arrow().to_batches()), (True, FOUR.to_dicts())):
        transforms = [rows_of(column) | beam.Reshuffle() for column in ROWS]
        transforms += [rows_of(*ROWS) | beam.Reshuffle() | beam.Map(ldp_beam.text_row)]
        *found, mixed = run(All(transforms), events)
        for (column, (kind, values, arrow)), rows in zip(ROWS.items(), found, strict=True):
            with case(column, single):
                assert [row.value for row in rows] == values
                assert [type(row.value) for row in rows] == [type(value) for value in values]
                assert {round(row.count) for row in rows} == set(FOUR[column].value_counts()["count"])
                assert (beam.Pipeline() | beam.Create(events) | rows_of(column)).element_type is kind
                assert estimate_schema(kind).field("value").type == arrow
        tidy = FOUR.ldp.perturb(TYPED).ldp.histograms(TYPED).select("column_name", "value")
        assert sorted((row.column_name, row.value) for row in mixed) == sorted(tidy.rows())
    estimates = FOUR.ldp.perturb(TYPED).ldp.estimates(TYPED)
    assert {column: estimates[column]["value"].to_list() for column in ROWS} == {c: v for c, (_, v, _) in ROWS.items()}


def test_batches_and_rows_of_bigquery():
    transforms = [t for column in ROWS for t in (rows_of(column) | EstimateBatches(), rows_of(column))]
    # behind a step that says no types, they are text, whatever comes
    transforms += [rows_of("level") | beam.Map(lambda row: row).with_output_types(Any) | EstimateBatches()]
    *found, [untyped] = run(All(transforms), FOUR.to_dicts())
    assert untyped["value"].to_pylist() == ["1", "2", "10"]
    for (kind, values, _), [batch], rows in zip(ROWS.values(), found[::2], found[1::2], strict=True):
        assert batch.schema.equals(estimate_schema(kind))
        assert batch["value"].to_pylist() == values
        assert [bigquery_row(row)["value"] for row in rows] == values
        texts = [str(value).lower() for value in values]
        assert [bigquery_row(ldp_beam.text_row(row))["value"] for row in rows] == texts
        assert estimate_batch(rows, estimate_schema(ldp_beam.HistogramRow))["value"].to_pylist() == texts


@pytest.mark.parametrize(
    ("columns", "kind"),
    [(["level"], pl.Int64), pytest.param(["crashed"], pl.Boolean, marks=pytest.mark.slow), ([*ROWS], pl.String)],
)
def test_the_files_of_the_command(tmp_path, capsys, columns, kind):
    FOUR.select(columns).with_columns(time=1).write_parquet(tmp_path / "events.parquet")
    (tmp_path / "plan.toml").write_text(PrivacyPlan({name: TYPED[name] for name in columns}).to_toml())
    files = ["--plan", str(tmp_path / "plan.toml"), "--input", str(tmp_path / "events.parquet")]
    assert main([*files, "--event-time", "time", "--output", str(tmp_path / "out")]) == 0
    written = pl.read_parquet(tmp_path / "out" / "histograms.parquet")
    assert written.schema["value"] == kind
    lines = (tmp_path / "out" / "histograms.ndjson").read_text().splitlines()
    found = {(row["column_name"], row["value"]) for row in map(json.loads, lines)}
    assert found == set(written.select("column_name", "value").rows())
    plan = PrivacyPlan({name: TYPED[name] for name in columns})
    expected = FOUR.ldp.perturb(plan).ldp.histograms(plan).select("column_name", "value")
    assert sorted(found) == sorted(expected.rows())
    assert expected.schema["value"] == kind
    assert len(pq.read_table(tmp_path / "out" / "histograms.parquet")) == len(lines)
    printed = capsys.readouterr().out
    assert all(f"  {word}" in printed for word in (["false", "true"] if "crashed" in columns else ["1", "2", "10"]))
