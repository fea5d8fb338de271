"""Windows begin at the same times in Polars, in Beam and in what the telemetry command stores."""

from __future__ import annotations

import datetime as dt

import polars as pl

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
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
