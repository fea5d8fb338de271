"""Perturbing expressions: arguments are checked while they are built, dtypes are known before anything runs."""

import datetime as dt
from itertools import product

import numpy as np
import polars as pl
import pytest
from polars import selectors as cs

import ldp_polars
from ldp_core import (
    Domain,
    DomainError,
    DtypeError,
    LdpError,
    ParameterError,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
)
from ldp_core import errors as core_errors
from ldp_polars import columns

from ..cases import case
from .helpers import FEW, FRAME, MECHANISMS, STRINGS, XYZ, N, groups, records

LABELS = ["ios", "android"]
RR, UE = RandomizedResponse(LABELS, epsilon=1.0), UnaryEncoding(LABELS, epsilon=1.0)
X = pl.col("x")


def test_what_is_no_mechanism_and_no_expression():
    for build in (
        lambda: X.ldp.randomized_response(UE),
        lambda: X.ldp.unary_encode(RR),
        lambda: X.ldp.unary_encode(LABELS, epsilon=1.0),
        lambda: X.ldp.randomized_response(1.0),
    ):
        with pytest.raises(ParameterError, match="in the place of a mechanism"):
            build()
    for name in ("perturb", "tally", "merge", "histogram"):
        nothing = False if name in ("tally", "histogram") else None  # there None is for typed reports
        for wrong in (nothing, 1.0, "oue", LABELS, Domain(LABELS), UnaryEncoding, RR.to_dict()):
            with case(name, wrong), pytest.raises(ParameterError, match="expected a mechanism"):
                getattr(X.ldp, name)(wrong)
        for wrong in (None, 1, pl.Series([True]), ["x"], np.array([1])):
            with case(name, wrong), pytest.raises(ParameterError, match="expected an expression"):
                getattr(ldp_polars, name)(wrong, RR)


def test_every_way_to_say_it():
    df = pl.DataFrame({"x": ["ios", "android"] * 50, "b": [True, False] * 50})
    sue, boolean = UnaryEncoding(LABELS, epsilon=1.0, variant="symmetric"), RandomizedResponse(epsilon=1.0)
    none = Domain(LABELS, unmatched="none")
    same = {"seed": 1, "tag": "same", "typed": False}
    said = {"domain": LABELS, "epsilon": 1.0}
    for expr, mechanism, dtype in (
        (X.ldp.randomized_response(RR, **same), RR, pl.Enum(LABELS)),
        (X.ldp.randomized_response(**said, **same), RR, pl.Enum(LABELS)),
        (pl.col("b").ldp.randomized_response(epsilon=1.0, **same), boolean, pl.Boolean),
        (ldp_polars.randomized_response("b", epsilon=1.0, **same), boolean, pl.Boolean),
        (X.ldp.unary_encode(UE, **same), UE, pl.Array(pl.Boolean, 2)),
        (X.ldp.unary_encode(**said, **same), UE, pl.Array(pl.Boolean, 2)),
        (X.ldp.unary_encode(**said, variant="optimized", **same), UE, pl.Array(pl.Boolean, 2)),
        (X.ldp.unary_encode(**said, variant="symmetric", **same), sue, pl.Array(pl.Boolean, 2)),
        (X.ldp.unary_encode(domain=iter(LABELS), epsilon=np.float64(1), **same), UE, pl.Array(pl.Boolean, 2)),
        (
            ldp_polars.unary_encode("x", domain=none, epsilon=1, **same),
            UnaryEncoding(none, epsilon=1.0),
            pl.Array(pl.Boolean, 2),
        ),
        (X.ldp.unary_encode(UE, packed=True, **same), UE, pl.Array(pl.UInt64, 1)),
        (X.ldp.perturb(UE, packed=True, **same), UE, pl.Array(pl.UInt64, 1)),
        (ldp_polars.perturb("x", UE, packed=True, **same), UE, pl.Array(pl.UInt64, 1)),
    ):
        column, packed = expr.meta.output_name(), dtype == pl.Array(pl.UInt64, 1)
        expected = df.select(pl.col(column).ldp.perturb(mechanism, packed=packed, **same))
        with case(expr):
            assert df.select(expr).equals(expected)
            assert expected.schema[column] == dtype


# ---- dtypes of reports


def test_report_dtypes(draws):
    """The dtypes in full, once; they are known without running."""
    expected = {
        "rr bool": pl.Boolean,
        "rr bool other": pl.Enum(["true", "false", "other"]),
        "rr str": pl.Enum(STRINGS),
        "rr str other": pl.Enum([*STRINGS, "other"]),
        "rr int": pl.Int64,
        "rr int other": pl.Enum(["1", "2", "3", "other"]),
        "oue str": pl.Array(pl.Boolean, 3),
        "oue int none": pl.Array(pl.Boolean, 70),
        "oue str other": pl.Array(pl.Boolean, 4),
    }
    for name, dtype in expected.items():
        noise = ldp_polars.perturb("x", MECHANISMS[name], typed=False)
        with case(name):
            draws.clear()
            assert records(MECHANISMS[name], 5).lazy().select(noise).collect_schema()["x"] == dtype
            assert draws == []
            assert records(MECHANISMS[name], 5).select(noise).schema["x"] == dtype
    packed = ldp_polars.perturb("x", MECHANISMS["oue int none"], packed=True, typed=False)
    assert records(MECHANISMS["oue int none"], 5).select(packed).schema["x"] == pl.Array(pl.UInt64, 2)


def test_enum_codes_at_the_width_limits():
    """Values survive the trip through codes: no noise at epsilon 100."""
    for n, unmatched in product((255, 256, 257, 65535, 65537), ("error", "other")):
        labels = [f"v{i}" for i in range(n)]
        mechanism = RandomizedResponse(Domain(labels, unmatched=unmatched), epsilon=100.0)
        values = ["v0", labels[-1], "v127", "v128", "v254"] + ([None, "zz"] if unmatched == "other" else [])
        out = pl.DataFrame({"x": values}).select(ldp_polars.perturb("x", mechanism, typed=False))
        with case(n, unmatched):
            assert out["x"].to_list() == [*values[:5], *["other"] * (len(values) - 5)]
            assert mechanism.tally(out["x"].to_arrow()).n == len(values)


# ---- domains that a column's dtype declares


def test_an_enum_declares_its_domain(run):
    """Categories that do not occur are values too."""
    declared = run(
        FRAME, lambda f: f.select(pl.col("e", "b").ldp.randomized_response(epsilon=1.0, seed=1, typed=False))
    )
    for name, domain in (("e", XYZ), ("b", [False, True])):
        said = FRAME.select(pl.col(name).ldp.randomized_response(domain=domain, epsilon=1.0, seed=1, typed=False))
        assert declared.select(name).equals(said)
    bits = run(
        FRAME, lambda f: f.select(pl.col("e").ldp.unary_encode(epsilon=1.0, variant="symmetric", seed=1, typed=False))
    )
    m = UnaryEncoding(XYZ, epsilon=1.0, variant="symmetric")
    assert bits.equals(FRAME.select(pl.col("e").ldp.unary_encode(m, seed=1, typed=False)))


def test_unmatched_goes_with_a_declared_domain():
    with_null = FRAME.with_columns(pl.when(pl.col("i") > 3).then("e").alias("e"))
    m = UnaryEncoding(Domain(XYZ, unmatched="other"), epsilon=1.0)
    expected = with_null.select(pl.col("e").ldp.unary_encode(m, seed=1, typed=False))
    for domain in (None, XYZ):
        got = with_null.select(
            pl.col("e").ldp.unary_encode(domain=domain, epsilon=1.0, unmatched="other", seed=1, typed=False)
        )
        assert got.equals(expected)
    answers = with_null.select(pl.col("e").ldp.randomized_response(epsilon=1.0, unmatched="other", typed=False))
    assert answers.schema["e"] == pl.Enum([*XYZ, "other"])
    with pytest.raises(ParameterError, match="leave out unmatched= here"):
        pl.col("e").ldp.unary_encode(domain=Domain(XYZ), epsilon=1.0, unmatched="other", typed=False)
    with pytest.raises(ParameterError, match="not both"):
        pl.col("e").ldp.unary_encode(m, unmatched="other", typed=False)


def test_dates_and_numbers_in_declared_bins(run, unlikely):
    labels = ["old", "new"]
    breaks = [dt.date(2026, 3, 1)]
    binned = pl.col("day").bin_intervals(breaks, labels=labels)
    got = run(FRAME, lambda f: f.select(binned.ldp.unary_encode(epsilon=50.0, unmatched="other", typed=False)))
    m = UnaryEncoding(Domain(labels, unmatched="other"), epsilon=50.0, variant="optimized")
    support = m.tally(got["day"].to_arrow()).counters
    assert not unlikely(support, [59, N - 60, 1], 0.5)  # OUE keeps a 1 with probability 1/2, and sets none at 50
    ages = pl.DataFrame({"age": [3, 17, 18, 40, 65, 88] * 1000})
    answers = ages.select(
        pl.col("age")
        .bin_intervals([18, 65], labels=["child", "adult", "old"])
        .ldp.randomized_response(epsilon=50.0, typed=False)
    )
    assert answers["age"].value_counts(sort=True)["count"].to_list() == [2000] * 3


def test_bins_of_one_records_value_are_refused():
    for select in (pl.Expr.first, pl.Expr.drop_nulls, lambda e: e.filter(pl.col("b"))):
        with pytest.raises(ParameterError, match="one value a row"):
            select(pl.col("i")).bin_intervals([18], labels=["a", "b"]).ldp.unary_encode(epsilon=1.0, typed=False)
    named = FRAME.rename({"i": 'i").bin_intervals()'})
    with pytest.raises(ParameterError, match="one value a row"):
        pl.col(named.columns[3]).first().ldp.unary_encode(epsilon=1.0, typed=False)


def test_columns_of_a_selector_have_noise_of_their_own(unlikely):
    same = FRAME.with_columns(f="e")
    reports = same.select(cs.by_dtype(pl.Enum).as_expr().ldp.randomized_response(epsilon=0.1, typed=False))
    agree = (reports["e"] == reports["f"]).sum()
    m = RandomizedResponse(XYZ, epsilon=0.1)
    assert not unlikely(agree, N, m.p**2 + 2 * m.q**2)


def test_a_dtype_that_declares_nothing():
    for build in (pl.col("i").ldp.unary_encode, pl.col("i").ldp.randomized_response):
        lazy = FRAME.lazy().select(build(epsilon=1.0))
        with pytest.raises(DtypeError, match="column 'i': pass domain="):
            lazy.collect_schema()
    for bad in (0, -1, float("nan")):
        with pytest.raises(ParameterError, match="epsilon"):
            pl.col("i").ldp.unary_encode(epsilon=bad, typed=False)
    with pytest.raises(ParameterError, match="one value a row"):
        pl.col("e").first().ldp.unary_encode(epsilon=1.0, typed=False)


# ---- errors


def test_every_error_class_can_be_built_from_one_string():
    """Polars builds an error of ours again, of its class and its text."""
    found = [c for c in vars(core_errors).values() if isinstance(c, type) and issubclass(c, LdpError)]
    assert len(found) == 9
    for cls in found:
        assert str(cls("text")) == "text"


CONTEXTS = {
    "select": lambda f, e: f.select(e),
    "with_columns": lambda f, e: f.with_columns(z=e),
    "filter": lambda f, e: f.filter(e == "a"),
    "over": lambda f, e: f.select(e.over("g")),
    "agg": lambda f, e: f.group_by("g").agg(e),
    "dynamic": lambda f, e: f.group_by_dynamic("i", every="1i").agg(e),
    "rolling": lambda f, e: f.rolling("i", period="2i").agg(e),
}


def test_our_error_classes_survive(run):
    noise = ldp_polars.perturb("x", RandomizedResponse(["a", "b"], epsilon=1.0), typed=False)
    for bad, x in ((DomainError, ["a", "b", "zz"]), (DtypeError, [1.0, 2.0, 3.0])):
        df = pl.DataFrame({"x": x, "g": [0, 0, 1], "i": [0, 1, 2]})
        for name, context in CONTEXTS.items():
            with case(bad, name), pytest.raises(bad, match="column '") as info:
                run(df, lambda f, context=context: context(f, noise))
            assert type(info.value) is bad
            assert "zz" not in str(info.value)


# ---- every context of Polars on every engine: one report a record comes out, of the right value and dtype


ROWS = 240


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

HEIGHTS = {"head": 10, "tail after": 10, "slice": 11, "limit": 3, "explode": 2 * ROWS, "unique before": 3, "empty": 0}


@pytest.mark.parametrize("names", groups(FEW, "rr str other", "oue int none"))
def test_reports_in_every_context(names, run, support):
    for name, packed in product(names, (False, True)):
        mechanism = MECHANISMS[name]
        df = records(mechanism, ROWS)
        chosen = df["c"].sum()
        heights = {
            "before filter": chosen,
            "after filter": chosen,
            "concat": ROWS + chosen,
            "gather": ROWS // 3,
        } | HEIGHTS
        noise = ldp_polars.perturb("x", mechanism, packed=packed, typed=False)
        for context, transform in REPORTS.items():
            with case(name, packed, context):
                out = run(df, lambda f, transform=transform, noise=noise: transform(f, noise))
                assert out.height == heights.get(context, ROWS)
                assert out.schema["x"] == columns.report_dtype(mechanism, packed=packed)
                assert out["x"].null_count() == 0
                tally = mechanism.tally(out["x"].to_arrow())
                assert tally.n == out.height
                assert tally.counters.tolist() == support(out["x"], mechanism).tolist()


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
