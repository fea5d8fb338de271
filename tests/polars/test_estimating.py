"""All kinds of estimates: several in one step, wrong uses, and errors that say what to do instead."""

from __future__ import annotations

import warnings
from functools import partial

import polars as pl
import pytest

import ldp_core
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

from ..cases import case

X = pl.col("x")
RR = RandomizedResponse(["ios", "android"], epsilon=1.0)
WORDS = ["rome", "oslo"]
NO_HISTOGRAM = [
    Hybrid((0, 100), epsilon=1.0),
    HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32),
    Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75),
    HeavyHitters(Prefixes("abc", 2), epsilon=2.0, rows=4, width=64),
]


def frame() -> pl.DataFrame:
    return pl.DataFrame({"os": ["ios", "web"] * 50, "number": [1.0, 2.0] * 50, "word": WORDS * 50})


def test_a_histogram_of_what_has_none_says_what_to_do_instead():
    said = r"numbers have a mean.*HeavyHitters has heavy hitters.*sketch\.over"
    for m in NO_HISTOGRAM:
        for make in (X.ldp.histogram, partial(X.ldp.estimate, HistogramEstimate())):
            with case(m), pytest.raises(ParameterError, match=said):
                make(m)
    with pytest.raises(ParameterError, match=r"got a mechanism: name it, as estimate\(mechanism=m\)"):
        X.ldp.estimate(RR)


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
        .agg(pl.col("number").ldp.distribution(wave, buckets=4), pl.col("word").ldp.histogram(many, repeats=1))
        .select(pl.col("number").list.len(), pl.col("word").list.len())
        .collect(engine=engine)
    )
    assert groups.rows() == [(4, 502)] * 2


# ---- estimates that no data give


FLAG = RandomizedResponse(epsilon=1.0)
UNPERTURBED = pl.DataFrame({"x": [True] * 6000, "g": [1, 2, 3] * 2000})


@pytest.mark.parametrize(
    "query",
    [
        lambda f: f.select(X.ldp.histogram(FLAG, assume_reports=True)),
        lambda f: f.group_by("g").agg(X.ldp.histogram(FLAG, assume_reports=True)),
        lambda f: f.select(X.ldp.tally(FLAG, assume_reports=True)).select(X.ldp.histogram(FLAG)),
        lambda f: f.select(X.ldp.mean(OneBitMean((0, 1), epsilon=1.0), assume_reports=True)),
    ],
    ids=["histogram", "groups", "tallies", "mean"],
)
def test_values_that_were_never_perturbed_are_noticed_once_a_call(query, run):
    with pytest.warns(LdpWarning, match="column 'x': implausible for .*never perturbed") as caught:
        run(UNPERTURBED, query)
    assert sum("implausible" in str(one.message) for one in caught) == 1


def test_values_that_nobody_says_are_reports_are_refused():
    """Raw Booleans look like reports of randomized response: a share of 0.30 came out as 0.033."""
    plan, few = PrivacyPlan({"x": FLAG}), pl.DataFrame({"x": [True] * 30 + [False] * 70, "g": [1, 2] * 50})
    for ask in (
        lambda **how: few.ldp.histograms(plan, **how),
        lambda **how: few.lazy().ldp.estimates(plan, **how),
        lambda **how: few.select(X.ldp.histogram(FLAG, **how)),
        lambda **how: few.group_by("g").agg(ldp_polars.estimate("x", "histogram", FLAG, **how)),
        lambda **how: few.select(X.ldp.tally(FLAG, **how).over("g")),
        lambda **how: few.ldp.perturb(plan).select(X.ext.storage().ldp.histogram(FLAG, **how)),
    ):
        with pytest.raises(DtypeError, match=r"columns \['x'\]: nothing says that these are reports.*assume_reports"):
            ask()
        with pytest.warns(LdpWarning, match="assume_reports: nothing proves"):
            ask(assume_reports=True)


def test_reports_are_not_suspected():
    with warnings.catch_warnings(action="error", category=LdpWarning):
        UNPERTURBED.ldp.perturb(PrivacyPlan({"x": FLAG})).ldp.histograms(PrivacyPlan({"x": FLAG}))


# ---- people who report again


def test_reports_of_persons():
    """As the core has it, in groups, windows and frames, eager and lazy; and what is refused."""
    m, numbers = RandomizedResponse([1, 2, 3], epsilon=1.0), ldp_core.Hybrid((0, 1), epsilon=1.0)
    plan = ldp_core.PrivacyPlan({"x": m, "y": numbers}, keep=["user", "day"])
    frame = pl.DataFrame({"user": [f"u{i % 40}" for i in range(400)], "day": [i // 200 for i in range(400)]})
    frame = frame.with_columns(x=pl.int_range(pl.len()) % 40 % 3 + 1, y=pl.lit(0.5))
    made = frame.ldp.perturb(plan)
    for reports in (made, made.lazy()):
        for day, part in made.group_by("day"):
            found = reports.ldp.estimates(plan, by="day", person="user")
            for name, question in (("x", ldp_core.HistogramEstimate()), ("y", ldp_core.MeanEstimate())):
                table = found[name].lazy().filter(pl.col("day") == day[0]).collect()
                expected = question.of_persons(plan[name], part[name].ext.storage().to_arrow(), part["user"].to_arrow())
                assert table["standard_error"].to_list() == pytest.approx(
                    expected.to_arrow()["standard_error"].to_pylist()
                )
    alone = made.select(pl.col("y").ldp.mean(person=pl.col("user"))).unnest("y")
    assert alone["standard_error"].item() > 0
    tidy = made.ldp.histograms(plan, person="user")
    assert tidy["n"].to_list() == [400] * 3
    with pytest.raises(ldp_core.ParameterError, match="tallies do not tell persons apart"):
        made.select(pl.col("x").ldp.tally()).select(pl.col("x").ldp.estimate("histogram", m, person="x"))


def test_weighted_means_of_reports():
    frame = pl.DataFrame({"w": [1.5, -0.5, 1.5, 0.5] * 5, "d": [1.0, 2.0] * 10, "g": ["a", "b", "b", "a"] * 5})
    shares = {"a": 0.3, "b": 0.7}
    [found] = frame.select(pl.col("w").ldp.weighted_mean(weights="d", groups="g", shares=shares)).unnest("w").to_dicts()
    expected = ldp_core.weighted_mean(frame["w"], weights=frame["d"], groups=frame["g"].to_list(), shares=shares)
    assert found == expected.to_arrow().to_pylist()[0]
    with pytest.raises(ldp_core.InputError, match="have nulls"):
        frame.with_columns(d=None).select(pl.col("w").ldp.weighted_mean(weights="d"))
    private = frame.with_columns(pl.col("g").ldp.randomized_response(domain=["a", "b"], epsilon=1.0))
    for grouped in (pl.col("w").ldp.weighted_mean(groups="g", shares=shares), pl.col("g").ldp.histogram(person="g")):
        with pytest.raises(ldp_core.MechanismMismatchError, match="hold reports"):
            private.select(grouped)
