"""Estimates have the same fields everywhere, of the values' own type, and no name that SQL does not take."""

import datetime as dt
import json

import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_beam import HistogramRow
from ldp_beam.elements.rows import DistributionRow, MeanRow
from ldp_beam.estimates.transforms import Estimate
from ldp_beam.io import estimate_schema
from ldp_cli.app import app
from ldp_core import (
    HeavyHitters,
    HistogramEstimate,
    Hybrid,
    Mechanism,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    SquareWave,
    StochasticRounding,
    UnaryEncoding,
    estimates_metadata,
    usual_question,
)
from pipelines.telemetry import main

from ..beam.helpers import assumed, run
from ..beam.streams import All
from ..cases import case
from .sql_words import RESERVED

COUNTED = ["value", "count", "standard_error", "low", "high"]
COUNTED += ["frequency", "frequency_standard_error", "frequency_low", "frequency_high", "n"]
FIELDS = {
    "level": COUNTED,
    "word": COUNTED,
    "age": ["mean", "standard_error", "low", "high", "n"],
    "delay": ["bucket_start", "bucket_end", "frequency", "standard_error", "low", "high", "n"],
}
PLAN = PrivacyPlan(
    {
        "level": UnaryEncoding([1, 2, 10], epsilon=3.0),
        "word": HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8),
        "age": Hybrid((0, 120), epsilon=3.0),
        "delay": SquareWave((0, 10), epsilon=3.0, buckets=16),
    },
    keep=["day", "time"],
)
N = 4000
PEOPLE = pl.DataFrame(
    {
        "level": [1, 2, 10, 10] * (N // 4),
        "word": ["rome", "rome", "oslo", "rome"] * (N // 4),
        "age": [30.0, 50.0] * (N // 2),
        "delay": [1.0, 9.0] * (N // 2),
        "day": [1, 2] * (N // 2),
        "time": [dt.datetime(2026, 1, 1 + i % 2) for i in range(N)],
    }
)
ASKED = {"level": "histogram", "word": "heavy_hitters", "age": "mean", "delay": "distribution"}


@pytest.fixture(scope="module")
def reports():
    return PEOPLE.ldp.perturb(PLAN)


def test_one_vocabulary_in_core_arrow_polars_and_beam(reports):
    questions = {name: usual_question(m, 0.95) for name, m in PLAN.columns.items()}
    columns = {name: reports[name].ext.storage().to_arrow() for name in FIELDS}
    told = assumed(pa.record_batch(columns), PLAN.columns)
    found = run(All([Estimate(name, PLAN[name], how) for name, how in questions.items()]), [told])
    tables = reports.ldp.estimates(PLAN)
    for (name, how), rows in zip(questions.items(), found, strict=True):
        result = how.result(PLAN[name], PLAN[name].tally(columns[name]))
        core = result.to_arrow()
        with case(name):
            assert core.column_names == result.to_polars().columns == FIELDS[name]
            assert set(core["n"].to_pylist()) == {N}
            polars = reports.select(getattr(pl.col(name).ldp, ASKED[name])())
            polars = (polars if how.single else polars.explode(name)).unnest(name)
            assert polars.equals(pl.DataFrame(core))
            assert tables[name].columns == FIELDS[name]
            fields = rows[0]._fields
            assert fields[fields.index("key") + 1 : fields.index("confidence")] == tuple(FIELDS[name])
            for field in FIELDS[name]:
                assert [getattr(row, field) for row in rows] == core[field].to_pylist()


def test_no_name_is_a_reserved_word_of_sql(reports):
    tables = reports.ldp.estimates(PLAN, window="1d", event_time="time")
    names = {name for table in tables.values() for name in table.columns}
    names |= set(reports.ldp.histograms(PLAN, by="day").columns)
    for row in (ldp_beam.HistogramRow, MeanRow, DistributionRow, ldp_beam.DeadLetter):
        names |= set(row._fields)
    names |= {*estimate_schema(HistogramRow).names, *estimate_schema(MeanRow).names}
    assert {"column_name", "window_start", "window_end", "bucket_start"} <= names
    assert not {name.lower() for name in names} & RESERVED


# ---- tables and Parquet files of estimates say how they were made: the confidence, epsilon and the mechanism


MECHANISMS = {
    "os": (UnaryEncoding(["ios", "web"], epsilon=1.0), ["ios", "web"]),
    "age": (Hybrid((0, 100), epsilon=2.0), [20.0, 40.0]),
    "delay": (SquareWave((0, 10), epsilon=1.0, buckets=8), [1.0, 2.0]),
    "late": (StochasticRounding((0, 8), epsilon=1.0, buckets=3), [1.0, 2.0]),
    "word": (HeavyHitters(Prefixes("ab", 4), epsilon=5.0, levels=(2, 4), rows=8), ["ab", "ba"]),
}


def told(metadata, key="ldp.estimates"):
    return json.loads({(k if isinstance(k, str) else k.decode()): v for k, v in metadata.items()}[key])


def test_options_that_change_what_a_number_means_are_there():
    m = MECHANISMS["os"][0]
    how = HistogramEstimate(0.99, simultaneous=True, consistency="norm-sub")
    [of_result] = told(how.result(m, m.tally(m.perturb(["ios"]))).to_arrow().schema.metadata)
    [of_question] = told(estimates_metadata({"os": (how, m)}))
    assert of_question.pop("column_name") == "os"
    assert of_result == of_question
    assert {k: of_result[k] for k in ("confidence", "simultaneous", "consistency")} == {
        "confidence": 0.99,
        "simultaneous": True,
        "consistency": "norm-sub",
    }


def test_the_files_of_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = PrivacyPlan(
        {"os": MECHANISMS["os"][0], "crashed": RandomizedResponse(epsilon=1.0), "age": MECHANISMS["age"][0]}
    )
    people = pl.DataFrame({"os": ["ios", "web"], "crashed": [True, False], "age": [20.0, 40.0], "time": [1, 2]})
    people.write_parquet("events.parquet")
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    files = ["--plan", "plan.toml", "--input", "events.parquet", "--event-time", "time", "--output", "out"]
    assert main([*files, "--confidence", "0.9", "--simultaneous"]) == 0
    expected = {"histograms": ["os", "crashed"], "means": ["age"]}
    for name, columns in expected.items():
        found = told(pl.read_parquet_metadata(f"out/{name}.parquet"))
        assert [how["column_name"] for how in found] == columns
        assert {how["confidence"] for how in found} == {0.9}
        assert [Mechanism.from_dict(how["mechanism"]) for how in found] == [plan[column] for column in columns]

    people.select("os", "crashed", "age").ldp.perturb(plan).ldp.sink_parquet("reports.parquet", plan)
    done = CliRunner().invoke(app, ["estimate", "reports.parquet", "--confidence", "0.8", "--output", "estimates"])
    assert done.exit_code == 0, done.output
    for column in plan.columns:
        [how] = told(pl.read_parquet_metadata(f"estimates/{column}.parquet"))
        assert (how["column_name"], how["confidence"]) == (column, 0.8)
        assert Mechanism.from_dict(how["mechanism"]) == plan[column]
