"""What a user meets who walks through the pages: mixed plans, wrong uses, and errors that say what to do instead."""

from __future__ import annotations

import re
from pathlib import Path

import apache_beam as beam
import polars as pl
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers .ldp)
from ldp_beam.yaml import LdpHistogram, LdpPerturb
from ldp_core import (
    DtypeError,
    HadamardCountMeanSketch,
    HeavyHitters,
    Hybrid,
    LongitudinalUnaryEncoding,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    Secret,
    SquareWave,
)
from pipelines.job import TelemetryJob

WORDS = ["rome", "oslo"]
SKETCH = HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32)
NO_HISTOGRAM = {
    "number": Hybrid((0, 100), epsilon=1.0),
    "word": SKETCH,
    "page": Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75),
    "name": HeavyHitters(Prefixes("abc", 2), epsilon=2.0, rows=4, width=64),
}
each = pytest.mark.parametrize("column", NO_HISTOGRAM)


def frame() -> pl.DataFrame:
    return pl.DataFrame({"os": ["ios", "web"] * 50, "number": [1.0, 2.0] * 50, "word": WORDS * 50})


# ---- Polars


def test_a_frame_without_any_histogram_says_what_to_do_instead():
    plan = PrivacyPlan({"number": NO_HISTOGRAM["number"], "word": SKETCH})
    reports = frame().ldp.perturb(plan)
    for one in (reports, reports.lazy()):
        with pytest.raises(PlanError, match=r"\['number', 'word'\] has a histogram: of numbers take .*candidates"):
            one.ldp.histograms(plan)


def test_columns_without_a_histogram_are_left_out_until_a_sketch_has_candidates():
    columns = {"os": RandomizedResponse(["ios", "web"], epsilon=1.0), "number": NO_HISTOGRAM["number"]}
    plan = PrivacyPlan({**columns, "word": SKETCH})
    reports = frame().ldp.perturb(plan)
    assert set(reports.ldp.histograms(plan)["column"]) == {"os"}
    tidy = reports.ldp.histograms(PrivacyPlan({**columns, "word": SKETCH.over(WORDS)}))
    assert tidy.filter(pl.col("column") == "word")["value"].to_list() == WORDS


@each
def test_a_histogram_of_what_has_none_says_what_to_do_instead(column):
    for make in (pl.col(column).ldp.histogram, pl.col(column).ldp.estimate):
        with pytest.raises(ParameterError, match=r"\.ldp\.mean .*\.ldp\.heavy_hitters .*sketch\.over"):
            make(NO_HISTOGRAM[column])


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_different_aggregations_in_one_step(engine):
    os, number = RandomizedResponse(["ios", "web"], epsilon=1.0), NO_HISTOGRAM["number"]
    plan = PrivacyPlan({"os": os, "number": number, "word": SKETCH})
    table = (
        frame()
        .lazy()
        .ldp.perturb(plan)
        .select(
            pl.col("os").ldp.histogram(os).list.len(),
            pl.col("number").ldp.mean(number).struct.field("n"),
            pl.col("word").ldp.histogram(SKETCH.over(WORDS)).list.len(),
        )
        .collect(engine=engine)
    )
    assert table.rows() == [(2, 100, 2)]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_large_matrices_do_not_overflow_the_stacks_of_polars_threads(engine):
    wave = SquareWave((0, 3), epsilon=1.0, buckets=512)
    page = Rappor("str", bits=64, hashes=2, cohorts=32, f=0.25, p=0.25, q=0.75)
    plan, secret = PrivacyPlan({"number": wave, "word": page}, keep=["os"]), Secret.from_seed(1)
    reports = frame().with_row_index("user").ldp.perturb(plan, key=secret, id="user")
    many = page.over([*WORDS, *map(str, range(500))])
    groups = (
        reports.lazy()
        .group_by("os")
        .agg(pl.col("number").ldp.distribution(wave, buckets=4), pl.col("word").ldp.histogram(many))
        .select(pl.col("number").list.len(), pl.col("word").list.len())
        .collect(engine=engine)
    )
    assert groups.rows() == [(4, 502)] * 2


@pytest.mark.parametrize("kind", [PrivacyPlan.sampled, PrivacyPlan.fake])
@pytest.mark.parametrize("typed", [False, True])
def test_a_plan_of_drawn_columns_perturbs_and_estimates(kind, typed):
    plan = kind({"os": ["ios", "web"], "word": WORDS}, epsilon=2.0)
    tidy = frame().ldp.perturb(plan, typed=typed).ldp.histograms(plan)
    assert tidy["n"].to_list() == [100] * 4


# ---- Beam


@each
def test_a_histogram_in_beam_of_what_has_none_says_what_to_do_instead(column):
    with pytest.raises(ParameterError, match=r"of numbers take Mean, .*HeavyHitters, .*sketch\.over"):
        ldp_beam.Histogram(column, NO_HISTOGRAM[column])


@each
def test_a_histogram_in_yaml_of_what_has_none_says_what_to_do_instead(column):
    with pytest.raises(ParameterError, match=r"candidates .*LdpMean, .*LdpHeavyHitters"):
        LdpHistogram(column=column, mechanism=NO_HISTOGRAM[column].to_dict())


@pytest.mark.parametrize(
    ("mechanism", "needs"),
    [
        (NO_HISTOGRAM["number"], "hybrid needs float values, not str"),
        (HadamardCountMeanSketch("int", epsilon=1.0), "int"),
    ],
)
def test_yaml_names_the_mechanism_and_not_labels_that_it_has_not(mechanism, needs):
    plan = PrivacyPlan({"word": mechanism}).to_dict()
    with pytest.raises(DtypeError, match=f"'word': .*{needs}"), beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create([beam.Row(word="rome")]) | LdpPerturb(plan=plan)


def test_rappor_with_md5_is_perturbed_and_tallied_in_one_step():
    m = Rappor("str", bits=32, hashes=2, cohorts=8, f=0.25, p=0.05, q=0.95, hashing="md5").over([*WORDS, "bern"])
    events = [{"word": "rome" if i % 3 else "oslo", "user": i} for i in range(3000)]
    with beam.Pipeline("FnApiRunner") as p:
        histogram = ldp_beam.PrivateHistogram("word", m, key=Secret.from_seed(1).shared(), id="user")
        counts = (
            p | beam.Create(events) | histogram | beam.Map(lambda row: (row.value, row.count)) | beam.combiners.ToDict()
        )
        _ = counts | beam.Map(_check_counts)


def _check_counts(counts: dict[str, float]) -> None:
    assert abs(counts["rome"] - 2000) < 500
    assert abs(counts["bern"]) < 500


# ---- the pages


@pytest.mark.parametrize("page", ["mechanisms", "rappor", "heavy_hitters"])
def test_the_blocks_of_a_page_run_one_after_the_other(page):
    names: dict = {}
    for block in _blocks(page, "python"):
        exec(compile(block, f"{page}.md", "exec"), names)


@pytest.mark.parametrize("page", ["sketches", "rappor", "numbers", "heavy_hitters"])
def test_a_plan_in_toml_can_be_copied(page):
    plan = PrivacyPlan.from_toml(_blocks(page, "toml")[0])
    assert PrivacyPlan.from_toml(plan.to_toml()) == plan


def _blocks(page: str, language: str) -> list[str]:
    text = (Path(__file__).parents[1] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert blocks
    return blocks


# ---- the command line


def test_the_job_refuses_permanent_answers_before_it_reads_anything():
    plan = PrivacyPlan({"os": LongitudinalUnaryEncoding(["ios", "web"], epsilon_infinity=2.0, epsilon_1=1.0)})
    with pytest.raises(PlanError, match=r"keyed noise: give --secret-file FILE or --secret-env NAME, and --id COLUMN"):
        TelemetryJob(plan, ("nothing.parquet",), "time", "1d", "out")
