"""Mixed plans, wrong uses, and errors that say what to do instead."""

from __future__ import annotations

import polars as pl
import pytest

import ldp_polars  # noqa: F401 (registers .ldp)
from ldp_core import (
    HadamardCountMeanSketch,
    HeavyHitters,
    Hybrid,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    Secret,
    SquareWave,
)

WORDS = ["rome", "oslo"]
SKETCH = HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32)
NO_HISTOGRAM = {
    "number": Hybrid((0, 100), epsilon=1.0),
    "word": SKETCH,
    "page": Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75),
    "name": HeavyHitters(Prefixes("abc", 2), epsilon=2.0, rows=4, width=64),
}


def frame() -> pl.DataFrame:
    return pl.DataFrame({"os": ["ios", "web"] * 50, "number": [1.0, 2.0] * 50, "word": WORDS * 50})


def test_a_frame_without_any_histogram_says_what_to_do_instead():
    plan = PrivacyPlan({"number": NO_HISTOGRAM["number"], "word": SKETCH})
    reports = frame().ldp.perturb(plan)
    for one in (reports, reports.lazy()):
        with pytest.raises(PlanError, match=r"\['number', 'word'\] has a histogram: .*candidates"):
            one.ldp.histograms(plan)


def test_columns_without_a_histogram_are_left_out_until_a_sketch_has_candidates():
    columns = {"os": RandomizedResponse(["ios", "web"], epsilon=1.0), "number": NO_HISTOGRAM["number"]}
    plan = PrivacyPlan({**columns, "word": SKETCH})
    reports = frame().ldp.perturb(plan)
    assert set(reports.ldp.histograms(plan)["column"]) == {"os"}
    tidy = reports.ldp.histograms(PrivacyPlan({**columns, "word": SKETCH.over(WORDS)}))
    assert tidy.filter(pl.col("column") == "word")["value"].to_list() == WORDS


@pytest.mark.parametrize("column", NO_HISTOGRAM)
def test_a_histogram_of_what_has_none_says_what_to_do_instead(column):
    for make in (pl.col(column).ldp.histogram, pl.col(column).ldp.estimate):
        with pytest.raises(ParameterError, match=r"numbers have a mean, .*HeavyHitters has .*sketch\.over"):
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


@pytest.mark.parametrize(
    "plan",
    [
        PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)}),
        PrivacyPlan.sampled({"os": ["ios", "web"], "word": WORDS}, epsilon=1.0),
    ],
)
def test_typed_reports_are_not_perturbed_again(plan):
    reports = frame().ldp.perturb(plan, typed=True)
    for one in (reports, reports.lazy()):
        with pytest.raises(MechanismMismatchError, match="hold reports already"):
            one.ldp.perturb(plan)  # at once
    with pytest.raises(MechanismMismatchError, match=r"\['os'\] hold reports already"):
        reports.select(pl.col("os").ldp.perturb(RandomizedResponse(["ios", "web"], epsilon=1.0)))


def test_estimates_by_a_column_that_the_plan_did_not_keep_are_refused_at_once():
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    reports = frame().lazy().ldp.perturb(plan)
    for options in ({"by": "country"}, {"by": ["country"]}, {"window": "1d", "event_time": "time"}):
        with pytest.raises(PlanError, match=r"\['(country|time)'\].*keep"):
            reports.ldp.histograms(plan, **options)


def test_a_plan_in_the_place_of_a_mechanism_says_where_it_belongs():
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    with pytest.raises(ParameterError, match=r"df\.ldp\.perturb\(plan\)"):
        pl.col("os").ldp.perturb(plan)
