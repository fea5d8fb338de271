"""Every context of Polars on every engine: one report a record comes out, of the right value and dtype."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest

import ldp_polars
from ldp_core import Domain, RandomizedResponse, Secret
from ldp_polars import columns

from ..cases import case
from .helpers import FEW, MECHANISMS, STRINGS, groups, records, some

N = 240


def flat(column):
    return lambda f: f.explode(column, empty_as_null=False)


REPORTS = {
    "select": lambda f, e: f.select(e),
    "with_columns": lambda f, e: f.with_columns(e),
    "before filter": lambda f, e: f.with_columns(e).filter("c"),
    "after filter": lambda f, e: f.filter("c").with_columns(e),
    "sort by report": lambda f, e: f.with_columns(e).sort("x"),
    "sort": lambda f, e: f.with_columns(e).sort("i", descending=True),
    "agg": lambda f, e: flat("x")(f.group_by("g").agg(e)),
    "dynamic": lambda f, e: flat("x")(f.group_by_dynamic("i", every="7i").agg(e)),
    "rolling": lambda f, e: flat("x")(f.rolling("i", period="1i").agg(e)),
    "over": lambda f, e: f.with_columns(e.over("g")),
    "when": lambda f, e: f.with_columns(pl.when("c").then(e).otherwise(e)),
    "head": lambda f, e: f.with_columns(e).head(10),
    "tail after": lambda f, e: f.tail(10).with_columns(e),
    "slice": lambda f, e: f.with_columns(e).slice(5, 11),
    "limit": lambda f, e: f.limit(3).with_columns(e),
    "join after": lambda f, e: f.with_columns(e).join(f.select("i", y="g"), on="i"),
    "join before": lambda f, e: f.join(f.select("i", y="g"), on="i").with_columns(e),
    "concat": lambda f, e: pl.concat([f.with_columns(e), f.filter("c").with_columns(e)]),
    "explode": lambda f, e: f.with_columns(y=pl.concat_list("g", "g")).explode("y").select(e),
    "unique after": lambda f, e: f.with_columns(e).unique("i"),
    "unique before": lambda f, e: f.unique("g").with_columns(e),
    "alias": lambda f, e: f.select(e.alias("y")).rename({"y": "x"}),
    "keep name": lambda f, e: f.select(e.name.suffix("_y")).rename({"x_y": "x"}),
    "gather": lambda f, e: f.with_columns(e).gather_every(3),
    "reverse": lambda f, e: f.reverse().with_columns(e),  # not after: polars 2.1 cannot reverse Array(Boolean)
    "row index": lambda f, e: f.with_row_index().with_columns(e),
    "implode": lambda f, e: flat("x")(f.select(e.implode())),
    "empty": lambda f, e: f.filter(pl.lit(value=False)).with_columns(e),
}


HEIGHTS = {"head": 10, "tail after": 10, "slice": 11, "limit": 3, "explode": 2 * N, "unique before": 3, "empty": 0}


@pytest.mark.parametrize("names", groups(FEW, "rr str other", "oue int none"))
def test_reports_in_every_context(names, run, support):
    for name, packed in product(names, (False, True)):
        mechanism = MECHANISMS[name]
        df = records(mechanism, N)
        chosen = df["c"].sum()
        heights = {"before filter": chosen, "after filter": chosen, "concat": N + chosen, "gather": N // 3} | HEIGHTS
        noise = ldp_polars.perturb("x", mechanism, packed=packed, typed=False)
        for context, transform in REPORTS.items():
            with case(name, packed, context):
                out = run(df, lambda f, transform=transform, noise=noise: transform(f, noise))
                assert out.height == heights.get(context, N)
                assert out.schema["x"] == columns.report_dtype(mechanism, packed=packed)
                assert out["x"].null_count() == 0
                tally = out.select(ldp_polars.tally("x", mechanism)).item()
                assert tally["n"] == out.height
                assert tally["counters"] == support(out["x"], mechanism).tolist()


def test_filter_on_the_report_itself(run):
    mechanism = MECHANISMS["rr str"]
    df = records(mechanism, N)
    out = run(
        df, lambda f: f.with_columns(r=ldp_polars.perturb("x", mechanism, typed=False)).filter(pl.col("r") == "web")
    )
    assert set(out["r"]) == {"web"}
    assert set(out["x"]) == set(STRINGS)


@pytest.mark.parametrize("name", some(FEW, "rr str other", "rr int"))
def test_the_right_value_is_perturbed_in_every_context(name, run):
    """Without noise (epsilon 100) every report says its own record's value."""
    domain = MECHANISMS[name].domain
    if domain.unmatched == "none":
        domain = Domain(domain.labels, unmatched="other")
    mechanism = RandomizedResponse(domain, epsilon=100.0)
    df = records(mechanism, N).with_columns(true="x")
    both = [ldp_polars.perturb("x", mechanism, typed=False), pl.col("true")]
    for transform in (
        lambda f: f.select(*both),
        lambda f: f.filter("c").select(*both),
        lambda f: f.sort("g", "i").select(*both),
        lambda f: f.group_by("g").agg(*both).explode("x", "true"),
        lambda f: f.group_by_dynamic("i", every="7i", period="9i").agg(*both).explode("x", "true"),
        lambda f: f.rolling("i", period="3i").agg(*both).explode("x", "true"),
        lambda f: f.select(both[0].over("g"), "true"),
        lambda f: f.select(pl.when("c").then(both[0]), pl.when("c").then("true")).drop_nulls("x"),
    ):
        out = run(df, transform).select(pl.all().cast(pl.String).fill_null("other"))
        assert out["x"].to_list() == out["true"].to_list()
        assert out.height >= N // 3


@pytest.mark.parametrize("engine", ["eager", "in-memory", "streaming"])
def test_a_literal_alone_is_one_record(engine):
    m = RandomizedResponse(["a", "b"], epsilon=50.0)
    literal = pl.lit("b").ldp.perturb(m)
    bits = pl.lit("b").ldp.unary_encode(domain=["a", "b"], epsilon=1.0).alias("bits")
    keyed = pl.lit("a").ldp.perturb(m, key=Secret.from_seed(1), id=pl.lit("u1")).alias("keyed")
    seeded = pl.lit("a").ldp.perturb(m, seed=1).alias("seeded")

    def select(*exprs):
        return pl.select(*exprs) if engine == "eager" else pl.LazyFrame().select(*exprs).collect(engine=engine)

    assert select(literal).to_series().ext.storage().cast(pl.String).to_list() == ["b"]
    assert [select(one).height for one in (bits, keyed, seeded)] == [1, 1, 1]
    if engine != "streaming":  # which has no rows of several without a frame
        assert select(literal, bits, keyed, seeded).height == 1
    for height in (0, 1, 3):
        frame = pl.LazyFrame({"x": range(height)})
        for query in (frame.select(literal), frame.select("x", literal), frame.with_columns(y=literal)):
            made = query.collect(engine="in-memory" if engine == "eager" else engine)
            assert made.height == height
    none = pl.DataFrame({"x": []}, schema={"x": pl.Int64})
    assert [none.select(literal).height, none.with_columns(y=literal).height] == [0, 0]
    with pytest.raises(pl.exceptions.ShapeError):  # one report is not spread over others' rows
        select(literal, pl.Series("s", [1, 2, 3]))
