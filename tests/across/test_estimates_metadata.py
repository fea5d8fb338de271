"""Tables and Parquet files of estimates say how they were made: the confidence, epsilon and the mechanism."""

from __future__ import annotations

import json
import pickle
from itertools import product

import numpy as np
import polars as pl
import pyarrow.parquet as pq
from typer.testing import CliRunner

import ldp_polars  # noqa: F401 (registers the namespaces)
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

from ..cases import case

MECHANISMS = {
    "os": (UnaryEncoding(["ios", "web"], epsilon=1.0), ["ios", "web"]),
    "age": (Hybrid((0, 100), epsilon=2.0), [20.0, 40.0]),
    "delay": (SquareWave((0, 10), epsilon=1.0, buckets=8), [1.0, 2.0]),
    "late": (StochasticRounding((0, 8), epsilon=1.0, buckets=3), [1.0, 2.0]),
    "word": (HeavyHitters(Prefixes("ab", 4), epsilon=5.0, levels=(2, 4), rows=8), ["ab", "ba"]),
}


def told(metadata, key="ldp.estimates"):
    return json.loads({(k if isinstance(k, str) else k.decode()): v for k, v in metadata.items()}[key])


def test_results_of_the_core_say_it_in_arrow_and_parquet(tmp_path):
    path = tmp_path / "estimate.parquet"
    for (name, (m, values)), n in product(MECHANISMS.items(), (0, 2)):
        result = usual_question(m, 0.9).result(m, m.tally(m.perturb(values[:n])))
        pq.write_table(result.to_arrow(), path)
        with case(name, n):
            assert result.mechanism == m
            assert pickle.loads(pickle.dumps(result)).mechanism == m
            for metadata in (result.to_arrow().schema.metadata, pl.read_parquet_metadata(path)):
                [how] = told(metadata)
                assert (how["confidence"], how["epsilon"]) == (0.9, m.epsilon)
                assert Mechanism.from_dict(how["mechanism"]) == m


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


def test_of_a_random_sample_the_variances_of_noise_and_sampling_add_up():
    """Reports of a random sample are independent: each supports a value with q + (p - q) f, a binomial count."""
    n = 1000
    for m in (RandomizedResponse(range(7), epsilon=1.5), MECHANISMS["os"][0]):
        for share in (0.0, 0.1, 0.5, 1.0):
            support = m.q + (m.p - m.q) * share
            whole = support * (1 - support) / n / (m.p - m.q) ** 2
            assert np.isclose(m.variance(n, n * share) / n**2 + share * (1 - share) / n, whole, rtol=1e-12)
