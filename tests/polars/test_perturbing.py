"""Perturbing expressions: arguments are checked while they are built, dtypes are known before anything runs."""

from __future__ import annotations

import datetime as dt
import math
from functools import partial
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
    UnaryEncoding,
)
from ldp_core import errors as core_errors
from ldp_polars import columns
from ldp_polars.tallying import tally_dtype

from ..cases import case
from .helpers import FEW, FRAME, MECHANISMS, STRINGS, XYZ, N, groups, histogram_dtype, records

LABELS = ["ios", "android"]
RR, UE = RandomizedResponse(LABELS, epsilon=1.0), UnaryEncoding(LABELS, epsilon=1.0)
X = pl.col("x")
BAD_EPSILON = [0, 0.0, -1, -1e-300, math.nan, math.inf, -math.inf, "1", None, True, 1j, [1.0], 1e-30]
BAD_DOMAIN = [
    [],
    ["a"],
    ["a", "a"],
    ["a", 1],
    [True, 1],
    [1.0, 2.0],
    ["a", None],
    "ab",
    b"ab",
    [2**64, 1],
    [["a"], ["b"]],
]


def test_epsilon_and_domain():
    for epsilon in BAD_EPSILON:
        for build, options in (
            (X.ldp.randomized_response, {}),
            (X.ldp.randomized_response, {"domain": LABELS}),
            (X.ldp.unary_encode, {"domain": LABELS}),
            (X.ldp.unary_encode, {"domain": LABELS, "variant": "symmetric"}),
            (partial(ldp_polars.unary_encode, "x"), {"domain": LABELS}),
        ):
            with case(epsilon, build), pytest.raises(ParameterError, match="epsilon"):
                build(epsilon=epsilon, **options)
    for domain in BAD_DOMAIN:
        for build in (X.ldp.randomized_response, X.ldp.unary_encode):
            with case(domain, build), pytest.raises(DomainError):
                build(domain=domain, epsilon=1.0)


def test_parameters_that_are_missing_or_too_many():
    for build in (X.ldp.randomized_response, X.ldp.unary_encode):
        for options in ({}, {"domain": LABELS}):
            with pytest.raises(ParameterError, match="mechanism"):
                build(**options)
    for build, mechanism in ((X.ldp.randomized_response, RR), (X.ldp.unary_encode, UE)):
        for extra in ({"epsilon": 1.0}, {"domain": LABELS}, {"domain": Domain(LABELS), "epsilon": 1.0}):
            with case(mechanism, extra), pytest.raises(ParameterError, match="not both"):
                build(mechanism, **extra)
    with pytest.raises(ParameterError, match="not both"):
        X.ldp.unary_encode(UE, variant="symmetric")
    with pytest.raises(DomainError, match="none"):
        X.ldp.randomized_response(domain=Domain(LABELS, unmatched="none"), epsilon=1.0)
    with pytest.raises(ParameterError, match="variant"):
        X.ldp.unary_encode(domain=LABELS, epsilon=1.0, variant="best")


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


def test_names_are_kept_and_can_be_changed():
    df = pl.DataFrame({"x": LABELS, "y": LABELS})
    m = UE
    assert df.select(pl.col("x", "y").ldp.perturb(m, typed=False).name.suffix("_r")).columns == ["x_r", "y_r"]
    out = df.select(pl.all().ldp.perturb(m, typed=False)).select(pl.all().ldp.histogram(m))
    assert out.columns == ["x", "y"]
    for expr in (
        X.ldp.perturb(RR, typed=False),
        X.ldp.tally(RR),
        X.ldp.merge(RR),
        X.ldp.histogram(RR),
        X.ldp.histogram(RR),
    ):
        assert expr.meta.output_name() == "x"
        assert expr.meta.root_names() == ["x"]


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


@pytest.mark.parametrize("names", groups(MECHANISMS, *FEW, "rr bool", "rr int other", "oue d=65", "rr d=256"))
def test_schema_is_known_without_running_and_right(names, draws):
    for name, packed in product(names, (False, True)):
        mechanism = MECHANISMS[name]
        df = records(mechanism, 20)
        noise = ldp_polars.perturb("x", mechanism, packed=packed, typed=False)
        tally = pl.col("r").ldp.tally(mechanism)
        query = df.lazy().with_columns(r=noise)
        later = query.select("r", t=tally, m=tally.ldp.merge(mechanism), h=pl.col("r").ldp.histogram(mechanism))
        draws.clear()
        with case(name, packed):
            schema = later.collect_schema()
            assert draws == []
            assert schema == {
                "r": columns.report_dtype(mechanism, packed=packed),
                "t": tally_dtype(mechanism),
                "m": tally_dtype(mechanism),
                "h": histogram_dtype(mechanism),
            }
            for engine in ("in-memory", "streaming"):
                out = later.collect(engine=engine)
                assert out.schema == schema
                assert out.height == 20
                assert out["r"].null_count() == 0
            assert df.with_columns(r=noise).schema["r"] == schema["r"]


def test_report_dtypes():
    """The dtypes in full, once."""
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
            assert out.select(ldp_polars.tally("x", mechanism)).item()["n"] == len(values)


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
    with pytest.raises(ParameterError, match="not both"):
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


@pytest.mark.filterwarnings("ignore:`cut` is deprecated")
def test_cut_is_binning_too():
    cut = pl.col("i").cut([100, 200], labels=["low", "middle", "high"])
    answers = FRAME.select(cut.ldp.randomized_response(epsilon=60.0, typed=False))
    assert answers["i"].value_counts(sort=True).sort("i")["count"].to_list() == [101, 100, 99]


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


@pytest.mark.slow
def test_large_domains():
    """A report of 100,000 bits is 12.5 KB; an answer is a number. Both come back as they should."""
    n, d = 400, 100_000
    frame = pl.DataFrame({"x": np.arange(n) * (d // n)})
    m = UnaryEncoding(range(d), epsilon=2.0)
    reports = frame.lazy().select(pl.col("x").ldp.unary_encode(m, packed=True, typed=False)).collect()
    assert reports.schema["x"] == pl.Array(pl.UInt64, -(-d // 64))
    support = np.array(reports.select(pl.col("x").ldp.tally(m)).item()["counters"])
    held = np.zeros(d, bool)
    held[frame["x"].to_numpy()] = True
    total = int(support.sum())
    mean, variance = n * (m.p + (d - 1) * m.q), n * (m.p * (1 - m.p) + (d - 1) * m.q * (1 - m.q))
    assert abs(total - mean) < 7 * variance**0.5
    own = int(support[held].sum())
    mean = n * (m.p + (n - 1) * m.q)
    assert abs(own - mean) < 7 * (n * (m.p * (1 - m.p) + (n - 1) * m.q * (1 - m.q))) ** 0.5
    rr = RandomizedResponse(range(d), epsilon=30.0)
    answers = frame.select(pl.col("x").ldp.randomized_response(rr, typed=False))
    assert answers.equals(frame)
    histogram = answers.select(pl.col("x").ldp.histogram(rr)).explode("x").unnest("x")
    assert histogram.height == d
    assert round(histogram["count"].sum()) == n


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


# ---- small frames


def test_frames_of_no_row_and_one_row(run):
    labels = ["a", *(str(i) for i in range(99))]
    for mechanism, height, packed in product(
        (
            RandomizedResponse(["a", "b"], epsilon=1.0),
            UnaryEncoding(["a", "b", "c"], epsilon=1.0),
            UnaryEncoding(Domain(labels, unmatched="none"), epsilon=1.0, variant="symmetric"),
        ),
        (0, 1, 2),
        (False, True),
    ):
        df = pl.DataFrame({"x": ["a"] * height, "g": [0] * height}, schema={"x": pl.String, "g": pl.Int64})
        noise, tally = ldp_polars.perturb("x", mechanism, packed=packed, typed=False), pl.col("x").ldp.tally(mechanism)
        for transform in (
            lambda f, noise=noise: f.with_columns(x=noise).filter(pl.col("g") == 0).select("x"),
            lambda f, noise=noise: f.group_by("g").agg(noise).select("x").explode("x", empty_as_null=False),
            lambda f, noise=noise: f.select(noise.over("g")),
        ):
            with case(mechanism.name, height, packed):
                out = run(df, transform)
                assert out.height == height
                assert out.schema["x"] == columns.report_dtype(mechanism, packed=packed)
                assert out["x"].null_count() == 0
        with case(mechanism.name, height, packed):
            reports = run(df, lambda f, noise=noise: f.with_columns(x=noise))
            assert run(reports, lambda f, tally=tally: f.select(tally)).item()["n"] == height
