"""Each cell of the table of docs/compare.md, "Where each question works", is run."""

import json
import re
import shlex
from pathlib import Path

import apache_beam as beam
import numpy as np
import polars as pl
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import ldp_beam
import ldp_polars
from ldp_cli.app import app
from ldp_core import (
    CdfEstimate,
    DistributionEstimate,
    HeavyHitters,
    Hybrid,
    MeanEstimate,
    MedianEstimate,
    Prefixes,
    PrivacyPlan,
    QuantilesEstimate,
    RandomizedResponse,
    RangeEstimate,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)

from ..beam.helpers import run
from ..beam.runners.stream_cases import BOTH
from ..beam.streams import LOCAL, All, stream
from ..cases import case

N = 400
PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(["ios", "web"], epsilon=2.0),
        "crashed": RandomizedResponse(epsilon=2.0),
        "minutes": Hybrid((0, 60), epsilon=2.0),
        "age": SquareWave((0, 100), epsilon=2.0, buckets=16),
        "level": SubsetSelection(range(6), epsilon=2.0),
        "page": HeavyHitters(Prefixes("abcd", 3), epsilon=4.0, rows=4, width=64),
    },
    keep=["country", "y", "stands", "t", "user"],
)
_k = np.arange(N)
REPORTS = pl.DataFrame(
    {
        "os": np.where(_k % 3 == 0, "ios", "web"),
        "crashed": _k % 5 == 0,
        "minutes": _k % 60 + 0.0,
        "age": _k % 90 + 0.0,
        "level": _k % 6,
        "page": np.where(_k % 4 == 0, "b", "a"),
        "country": np.where(_k % 2 == 0, "de", "fr"),
        "y": _k % 7 + 0.0,
        "stands": 1 + _k % 2,
        "t": np.sort(_k % 20) + 0.0,
        "user": _k % 50,
    }
).ldp.perturb(PLAN)

ios, y = pl.col("os").ldp.weight("ios"), pl.col("y")
POLARS = {
    "histogram": pl.col("os").ldp.histogram(),
    "heavy_hitters": pl.col("page").ldp.heavy_hitters(),
    "mean": pl.col("minutes").ldp.mean(),
    "distribution": pl.col("age").ldp.distribution(),
    "range": pl.col("level").ldp.range(1, 3),
    "quantiles": pl.col("level").ldp.quantiles([0.5]),
    "median": pl.col("level").ldp.median(),
    "cdf": pl.col("level").ldp.cdf(),
    "table": lambda frame: frame.ldp.table("os", "crashed"),
    "ratio": (ios * y).ldp.ratio(ios),
    "total": (ios * y).ldp.total(ios),
    "weighted_quantiles": y.ldp.weighted_quantiles([0.5], ios),
    "weighted_mean": ios.ldp.weighted_mean(weights="stands"),
    "histogram(person=)": pl.col("os").ldp.histogram(person="user"),
    "mean(person=)": pl.col("minutes").ldp.mean(person="user"),
    "linear_fit": pl.col("minutes").ldp.linear_fit("y"),
    "compare": lambda frame: frame.ldp.compare(PLAN, by="country"),
    "compare(person=)": lambda frame: frame.ldp.compare(PLAN, by="country", person="user"),
    "ldp_polars.pool": lambda frame: ldp_polars.pool(
        [(frame.head(300), PLAN), (REPORTS.tail(100), PLAN)], columns=["os"]
    ),
}


def estimate(column, *questions):
    """Transforms, given how windows are."""
    return lambda **how: [ldp_beam.Estimate(column, PLAN[column], one, **how) for one in questions]


def combined(fn, of):
    """What a CombineFn makes of batches, of each what it takes."""

    def made(window=None, trigger=None, event_time=None):
        mode = AccumulationMode.ACCUMULATING if trigger else None
        steps = beam.Map(of) | beam.WindowInto(FixedWindows(window or 1000), trigger=trigger, accumulation_mode=mode)
        return [steps | beam.CombineGlobally(fn).without_defaults()]

    return made


def weighed(batch):
    w = PLAN["os"].weights(batch["os"], "ios")
    return w * batch["y"].to_numpy(), w


BEAM = {
    "Histogram": [lambda **how: [ldp_beam.Histogram("os", PLAN["os"], **how)]],
    "Estimate": [
        estimate("page", None),
        estimate("minutes", MeanEstimate()),
        estimate("age", DistributionEstimate(buckets=4)),
        estimate("level", RangeEstimate(1, 3), QuantilesEstimate([0.5]), MedianEstimate(), CdfEstimate()),
    ],
    "Table": [lambda **how: [ldp_beam.Table(["os", "crashed"], PLAN, **how)]],
    "Compare": [lambda **how: [ldp_beam.Compare("os", PLAN["os"], **{"window": 10, "event_time": "t", **how})]],
    "Estimate(person=)": [
        lambda **how: [ldp_beam.Estimate(name, PLAN[name], person="user", **how) for name in ("os", "minutes")]
    ],
    "Compare(person=)": [
        lambda **how: [ldp_beam.Compare("os", PLAN["os"], person="user", **{"window": 10, "event_time": "t", **how})]
    ],
    "RatioCombineFn": [combined(ldp_beam.RatioCombineFn(), weighed)],
    "PoolCombineFn": [combined(ldp_beam.PoolCombineFn([PLAN["os"]] * 2), lambda batch: (0, batch["os"]))],
}
COMMAND = {
    "default": ["ldp estimate r.parquet --column os", "ldp estimate r.parquet --column page"],
    "--ask": [
        f"ldp estimate r.parquet --column {name.split('=')[0]} --ask {name}"
        for name in ("minutes=mean", "age=distribution:buckets=4", "level=range:low=1,high=3", "level=quantiles")
    ]
    + [f"ldp estimate r.parquet --column level --ask level={name}" for name in ("median", "cdf")],
    "--table": ["ldp estimate r.parquet --table os,crashed"],
    "--by-private": ["ldp estimate r.parquet --by-private os --of y --quantile 0.5"],
    "--weights": ["ldp estimate r.parquet --by-private os --weights stands"],
    "--share": ["ldp estimate r.parquet --by-private os --share country=de:0.4,fr:0.6"],
    "--person": [f"ldp estimate r.parquet --column {name} --person user" for name in ("os", "minutes")],
    "ldp compare --person": ["ldp compare r.parquet --by country --column os --person user"],
    "ldp compare": ["ldp compare r.parquet --by country --column os"],
    "ldp pool": ["ldp pool r.parquet again.parquet --column os"],
}


def cells():
    """Of each place, the names in its column; a cell that begins with "no" has none."""
    page = (
        (Path(__file__).parents[2] / "docs/compare.md").read_text(encoding="utf-8").split("## Where each question")[1]
    )
    rows = [line.split("|")[2:5] for line in page.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 9
    said = [[re.findall("`([^`]+)`", cell) or [cell.strip()] for cell in row] for row in rows]
    kept = [[[] if cell[0].startswith("no") or "no:" in text else cell for cell, text in zip(r, raw, strict=True)]
            for r, raw in zip(said, rows, strict=True)]  # fmt: skip
    return [{name for row in kept for name in row[place]} for place in range(3)]


def test_the_table_names_what_is_run():
    assert cells() == [set(POLARS), set(BEAM), set(COMMAND)]


def test_polars():
    for name, asked in POLARS.items():
        ask = asked if callable(asked) else lambda frame, asked=asked: frame.select(asked)
        eager, lazy = ask(REPORTS), ask(REPORTS.lazy())
        with case(name):
            assert eager.height > 0
            assert isinstance(lazy, pl.DataFrame) == (name == "ldp_polars.pool")
            for engine in ("in-memory", "streaming"):
                assert_frame_equal(lazy.lazy().collect(engine=engine), eager, check_row_order=name != "compare")


def test_beam_in_batch_and_in_windows():
    ways = [{}, {"window": 10, "event_time": "t"}]
    named = [(name, one) for how in ways for name, makers in BEAM.items() for make in makers for one in make(**how)]
    found = run(All([transform for _, transform in named]), REPORTS.to_arrow().to_batches())
    for (name, _), rows in zip(named, found, strict=True):
        assert len(rows) > 0, name


def test_beam_live():
    """Panes before the window ends, as reports come in, and one when it is over."""
    how = {"window": 10, "event_time": "t", "trigger": BOTH}
    live = {name: makers for name, makers in BEAM.items() if not name.endswith("(person=)")}
    named = [(name, one) for name, makers in live.items() for make in makers for one in make(**how)]
    rows = REPORTS.sort("t").to_arrow()
    parts = [rows[start : start + 100].combine_chunks().to_batches()[0] for start in range(0, N, 100)]
    steps = stream([0, parts[:1], parts[1:2], 10, parts[2:3], parts[3:]])
    for (name, _), panes in zip(named, run(All([one for _, one in named]), steps, **LOCAL), strict=True):
        assert len(panes) > 0, name
        if hasattr(panes[0], "pane_timing"):
            assert {row.pane_timing for row in panes} >= {"EARLY", "ON_TIME"}, name


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file, reports in {"r.parquet": REPORTS, "again.parquet": REPORTS[1:]}.items():  # (a copy is refused)
        reports.ldp.sink_parquet(file, PLAN)
    for lines in COMMAND.values():
        for line in lines:
            with case(line):
                done = CliRunner().invoke(app, shlex.split(f"{line} --json")[1:], prog_name="ldp")
                assert done.exit_code == 0, done.output
                assert json.loads(done.stdout)
