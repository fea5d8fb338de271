"""All kinds of estimates: several in one step, wrong uses, and errors that say what to do instead."""

from __future__ import annotations

import math
import warnings
from functools import partial

import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    DtypeError,
    HadamardCountMeanSketch,
    HeavyHitters,
    HistogramEstimate,
    Hybrid,
    LdpWarning,
    OneBitMean,
    ParameterError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    Secret,
    SquareWave,
)

X = pl.col("x")
RR = RandomizedResponse(["ios", "android"], epsilon=1.0)
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


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, 95, math.nan, math.inf, True, False])
@pytest.mark.parametrize("name", ["estimate", "histogram"])
def test_confidence(name, confidence):
    with pytest.raises(ParameterError, match=r"\(0, 1\)"):
        getattr(X.ldp, name)(mechanism=RR, confidence=confidence)


@pytest.mark.parametrize("column", NO_HISTOGRAM)
def test_a_histogram_of_what_has_none_says_what_to_do_instead(column):
    for make in (pl.col(column).ldp.histogram, partial(pl.col(column).ldp.estimate, HistogramEstimate())):
        with pytest.raises(ParameterError, match=r"numbers have a mean.*HeavyHitters has heavy hitters.*sketch\.over"):
            make(NO_HISTOGRAM[column])


def test_a_mechanism_is_no_question():
    with pytest.raises(ParameterError, match=r"got a mechanism: name it, as estimate\(mechanism=m\)"):
        X.ldp.estimate(RR)


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


# ---- heavy hitters


HITTERS = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8)


def spoken(**options) -> pl.DataFrame:
    words = pl.DataFrame({"word": ["rome"] * 5000 + ["oslo"] * 3000, "day": [1, 2] * 4000})
    return words.with_columns(pl.col("word").ldp.perturb(HITTERS, **options))


def test_ways_to_ask_for_heavy_hitters():
    reports = spoken()
    [expected] = reports.select(pl.col("word").ldp.heavy_hitters(HITTERS, k=2))["word"]
    assert expected.struct.field("value").to_list() == ["rome", "oslo"]
    core = HITTERS.find(HITTERS.tally(reports["word"].to_arrow()), 2).to_polars()
    assert expected.struct.unnest().equals(core)
    for ask in (
        pl.col("word").ldp.heavy_hitters(HITTERS, 2),
        ldp_polars.heavy_hitters("word", HITTERS, 2),
        pl.col("word").ldp.tally(HITTERS).ldp.heavy_hitters(HITTERS, k=2),
    ):
        assert reports.select(ask)["word"][0].equals(expected)


def test_typed_reports_have_heavy_hitters_without_a_mechanism(run):
    typed = spoken()
    plain = typed.with_columns(pl.col("word").ext.storage())
    for ask in (lambda f, e: f.select(e), lambda f, e: f.group_by("day").agg(e).sort("day")):
        found = run(typed, lambda f, ask=ask: ask(f, pl.col("word").ldp.heavy_hitters(k=2)))
        assert found.equals(ask(plain, pl.col("word").ldp.heavy_hitters(HITTERS, k=2)))
        assert found["word"].list.len().to_list() == [2] * len(found)
    with pytest.raises(DtypeError, match="column 'word': pass the mechanism"):
        plain.lazy().select(pl.col("word").ldp.heavy_hitters(k=2)).collect_schema()


@pytest.mark.parametrize("wrong", [{"k": 0}, {"k": True}, {"confidence": 1.0}, {"threshold": -1.0}], ids=str)
def test_options_of_heavy_hitters_are_checked_before_anything_runs(wrong):
    for mechanism in (HITTERS, None):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            pl.col("word").ldp.heavy_hitters(mechanism, **wrong)
    with pytest.raises(ParameterError, match="HeavyHitters"):
        pl.col("word").ldp.heavy_hitters(RR, k=2)


# ---- estimates that no data give


FLAG = RandomizedResponse(epsilon=1.0)
UNPERTURBED = pl.DataFrame({"x": [True] * 6000, "g": [1, 2, 3] * 2000})


@pytest.mark.parametrize(
    "query",
    [
        lambda f: f.select(X.ldp.histogram(FLAG)),
        lambda f: f.group_by("g").agg(X.ldp.histogram(FLAG)),
        lambda f: f.select(X.ldp.tally(FLAG)).select(X.ldp.histogram(FLAG)),
        lambda f: f.select(X.ldp.mean(OneBitMean((0, 1), epsilon=1.0))),
        lambda f: f.ldp.histograms(PrivacyPlan({"x": FLAG})),
    ],
    ids=["histogram", "groups", "tallies", "mean", "frame"],
)
def test_values_that_were_never_perturbed_are_noticed_once_a_call(query, run):
    with pytest.warns(LdpWarning, match="column 'x': implausible for .*never perturbed") as caught:
        run(UNPERTURBED, query)
    assert len(caught) == 1


def test_the_warning_can_be_made_an_error():
    with warnings.catch_warnings(action="error", category=LdpWarning), pytest.raises(LdpWarning, match="column 'x'"):
        UNPERTURBED.select(X.ldp.histogram(FLAG))


def test_reports_are_not_suspected():
    with warnings.catch_warnings(action="error", category=LdpWarning):
        UNPERTURBED.ldp.perturb(PrivacyPlan({"x": FLAG})).ldp.histograms(PrivacyPlan({"x": FLAG}))
