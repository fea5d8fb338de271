"""Every context of Polars on every engine: what comes out has the declared dtype and adds up to the formula."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import Domain, RandomizedResponse, UnaryEncoding
from ldp_polars import columns
from ldp_polars.tallying import tally_dtype

from .helpers import histogram_dtype

N = 240
STRINGS = ["ios", "android", "web"]
MECHANISMS = {
    "rr bool": RandomizedResponse(epsilon=1.0),
    "rr coins": RandomizedResponse.from_coins(truth=0.4, yes=0.3),
    "rr bool other": RandomizedResponse(Domain([True, False], unmatched="other"), epsilon=1.0),
    "rr str": RandomizedResponse(STRINGS, epsilon=2.0),
    "rr str other": RandomizedResponse(Domain(STRINGS, unmatched="other"), epsilon=2.0),
    "rr int": RandomizedResponse([7, -3, 2**40], epsilon=2.0),
    "rr int other": RandomizedResponse(Domain([1, 2, 3], unmatched="other"), epsilon=2.0),
    "oue str": UnaryEncoding(STRINGS, epsilon=1.0),
    "sue bool": UnaryEncoding([False, True], epsilon=1.0, variant="symmetric"),
    "oue int none": UnaryEncoding(Domain(range(70), unmatched="none"), epsilon=1.0),
    "oue str other": UnaryEncoding(Domain(STRINGS, unmatched="other"), epsilon=1.0),
    "ue p q": UnaryEncoding.from_probabilities(range(8), p=0.75, q=0.1),
    "oue 1": UnaryEncoding(Domain(["x"], unmatched="other"), epsilon=1.0),
}
for d in (2, 3, 8, 9, 63, 64, 65, 127, 128, 129, 255, 256, 257, 300):
    MECHANISMS[f"rr d={d}"] = RandomizedResponse([f"v{i}" for i in range(d)], epsilon=3.0)
    MECHANISMS[f"rr int other d={d + 1}"] = RandomizedResponse(Domain(range(d), unmatched="other"), epsilon=3.0)
    MECHANISMS[f"oue d={d}"] = UnaryEncoding([f"v{i}" for i in range(d)], epsilon=3.0)
FEW = ["rr coins", "rr str other", "rr int", "oue str", "oue int none"]


def frame(mechanism, n=N, seed=0):
    """n records: a value column, a group, an order, a condition; unmatched values where the domain allows them."""
    rng = np.random.default_rng(seed)
    domain = mechanism.domain
    labels = list(domain.labels) + ([None] if domain.unmatched != "error" else [])
    return pl.DataFrame(
        {
            "x": [labels[i] for i in rng.integers(0, len(labels), n)],
            "g": rng.integers(0, 3, n),
            "i": np.arange(n),
            "c": rng.random(n) < 0.5,
        },
        schema_overrides={"x": {"str": pl.String, "int": pl.Int64, "bool": pl.Boolean}[domain.kind]},
    )


# ---- schema


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", MECHANISMS)
def test_schema_is_known_without_running_and_right(name, packed, draws):
    mechanism = MECHANISMS[name]
    df = frame(mechanism, 20)
    noise = ldp_polars.perturb("x", mechanism, packed=packed)
    query = df.lazy().with_columns(r=noise)
    later = query.select(
        "r",
        t=pl.col("r").ldp.tally(mechanism),
        m=pl.col("r").ldp.tally(mechanism).ldp.merge(mechanism),
        h=pl.col("r").ldp.histogram(mechanism),
    )
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
        assert frame(MECHANISMS[name], 5).select(ldp_polars.perturb("x", MECHANISMS[name])).schema["x"] == dtype
    packed = ldp_polars.perturb("x", MECHANISMS["oue int none"], packed=True)
    assert frame(MECHANISMS["oue int none"], 5).select(packed).schema["x"] == pl.Array(pl.UInt64, 2)


@pytest.mark.parametrize("unmatched", ["error", "other"])
@pytest.mark.parametrize("labels", [255, 256, 257, 65535, 65537])
def test_enum_codes_at_the_width_limits(labels, unmatched):
    """Values survive the trip through codes: no noise at epsilon 100."""
    domain = Domain([f"v{i}" for i in range(labels)], unmatched=unmatched)
    mechanism = RandomizedResponse(domain, epsilon=100.0)
    values = ["v0", f"v{labels - 1}", "v127", "v128", "v254"] + ([None, "zz"] if unmatched == "other" else [])
    out = pl.DataFrame({"x": values}).select(ldp_polars.perturb("x", mechanism))
    assert out["x"].to_list() == [v if v in domain.labels else "other" for v in values]
    assert out.select(ldp_polars.tally("x", mechanism)).item()["n"] == len(values)


# ---- contexts: reports come out in all of them


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
HEIGHTS |= {"gather": N // 3}


@pytest.mark.parametrize("context", REPORTS)
@pytest.mark.parametrize("name", FEW)
def test_reports_in_every_context(context, name, run, support):
    mechanism = MECHANISMS[name]
    df = frame(mechanism)
    for packed in (False, True):
        noise = ldp_polars.perturb("x", mechanism, packed=packed)
        out = run(df, lambda f, noise=noise: REPORTS[context](f, noise))
        chosen = df["c"].sum()
        heights = HEIGHTS | {"before filter": chosen, "after filter": chosen, "concat": N + chosen}
        assert out.height == heights.get(context, N)
        assert out.schema["x"] == columns.report_dtype(mechanism, packed=packed)
        assert out["x"].null_count() == 0
        tally = out.select(ldp_polars.tally("x", mechanism)).item()
        assert tally["n"] == out.height
        assert tally["counters"] == support(out["x"], mechanism).tolist()


def test_filter_on_the_report_itself(run):
    mechanism = MECHANISMS["rr str"]
    df = frame(mechanism)
    out = run(df, lambda f: f.with_columns(r=ldp_polars.perturb("x", mechanism)).filter(pl.col("r") == "web"))
    assert set(out["r"]) == {"web"}
    assert set(out["x"]) == set(STRINGS)


@pytest.mark.parametrize("name", FEW)
def test_the_right_value_is_perturbed_in_every_context(name, run):
    """Without noise (epsilon 100) every report says its own record's value."""
    domain = MECHANISMS[name].domain
    if domain.unmatched == "none":
        domain = Domain(domain.labels, unmatched="other")
    mechanism = RandomizedResponse(domain, epsilon=100.0)
    df = frame(mechanism).with_columns(true="x")
    both = [ldp_polars.perturb("x", mechanism), pl.col("true")]
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


# ---- contexts: aggregations equal the formula


AGGREGATIONS = {
    "select": lambda f, a: f.select(pl.col("r").alias("rows").implode(), a),
    "agg": lambda f, a: f.group_by("g").agg(pl.col("r").alias("rows"), a),
    "agg after filter": lambda f, a: f.filter("c").group_by("g").agg(pl.col("r").alias("rows"), a),
    "dynamic": lambda f, a: f.group_by_dynamic("i", every="30i").agg(pl.col("r").alias("rows"), a),
    "overlapping": lambda f, a: f.group_by_dynamic("i", every="30i", period="80i").agg(pl.col("r").alias("rows"), a),
    "rolling": lambda f, a: f.head(60).rolling("i", period="20i").agg(pl.col("r").alias("rows"), a),
    "two keys": lambda f, a: f.group_by("g", "c").agg(pl.col("r").alias("rows"), a),
    "empty select": lambda f, a: f.filter(pl.col("i") < 0).select(pl.col("r").alias("rows").implode(), a),
    "empty agg": lambda f, a: f.filter(pl.col("i") < 0).group_by("g").agg(pl.col("r").alias("rows"), a),
}


def check_histogram(entries, n, counts, mechanism, formula):
    p, q = (np.array([float(x) for x in side]) for side in mechanism.expected_parts())
    estimate = formula(counts, n, mechanism)
    columns = {key: np.array([row[key] for row in entries]) for key in entries[0]}
    values = list(mechanism.domain.values)
    if mechanism.domain.unmatched == "other":
        values = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    assert columns.pop("value").tolist() == values
    assert set(columns) == {"count", "frequency", "standard_error", "low", "high"}
    close = {"rtol": 1e-12, "atol": 1e-9}
    np.testing.assert_allclose(columns["count"], estimate, **close)
    c = np.clip(estimate, 0, n)
    error = np.sqrt(c * p * (1 - p) + (n - c) * q * (1 - q)) / (p - q)
    np.testing.assert_allclose(columns["standard_error"], error, **close)
    for end in (columns["low"], columns["high"]):  # 1.96 standard errors of its own away (a score interval)
        variance = (end * p * (1 - p) + (n - end) * q * (1 - q)) / (p - q) ** 2
        np.testing.assert_allclose((estimate - end) ** 2, 1.959963984540054**2 * variance, **close)
    if n:
        assert np.all((columns["low"] < estimate) & (estimate < columns["high"]))
        np.testing.assert_allclose(columns["frequency"], estimate / n, **close)
    else:
        assert np.isnan(columns["frequency"]).all()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("context", AGGREGATIONS)
@pytest.mark.parametrize("name", FEW)
def test_tallies_and_histograms_equal_the_formula(context, name, packed, run, support, debiased):
    mechanism = MECHANISMS[name]
    reports = frame(mechanism).with_columns(r=ldp_polars.perturb("x", mechanism, packed=packed)).drop("x")
    pair = [ldp_polars.tally("r", mechanism).alias("t"), ldp_polars.histogram("r", mechanism).alias("h")]
    for k, aggregate in enumerate(pair):
        out = run(reports, lambda f, aggregate=aggregate: AGGREGATIONS[context](f, aggregate))
        assert out.height or context == "empty agg"
        for row in out.iter_rows(named=True):
            rows = pl.Series(row["rows"], dtype=reports.schema["r"])
            counts = support(rows, mechanism)
            if k == 0:
                assert row["t"] == {
                    "n": len(rows),
                    "counters": counts.tolist(),
                    "fingerprint": mechanism.fingerprint,
                }
            else:
                check_histogram(row["h"], len(rows), counts, mechanism, debiased)


@pytest.mark.parametrize("name", FEW)
def test_over_gives_each_row_its_groups_tally_and_histogram(name, run, support, debiased):
    mechanism = MECHANISMS[name]
    reports = frame(mechanism, 90).with_columns(r=ldp_polars.perturb("x", mechanism)).drop("x")
    out = run(
        reports,
        lambda f: f.with_columns(
            t=ldp_polars.tally("r", mechanism).over("g"), h=ldp_polars.histogram("r", mechanism).over("g")
        ),
    )
    assert out.height == 90
    groups = {g: out.filter(pl.col("g") == g)["r"] for g in range(3)}
    for row in out.iter_rows(named=True):
        rows = groups[row["g"]]
        assert row["t"]["counters"] == support(rows, mechanism).tolist()
        check_histogram(row["h"], len(rows), support(rows, mechanism), mechanism, debiased)


def test_histogram_check_has_power(debiased):
    mechanism = MECHANISMS["oue str"]
    reports = frame(mechanism).select(ldp_polars.perturb("x", mechanism))
    other = UnaryEncoding(STRINGS, epsilon=1.001)
    counts = np.array(reports["x"].to_list()).sum(axis=0)
    entries = reports.select(ldp_polars.histogram("x", mechanism)).item().to_list()
    check_histogram(entries, N, counts, mechanism, debiased)
    for wrong in ((N + 1, counts, mechanism), (N, counts[::-1] + 1, mechanism), (N, counts, other)):
        with pytest.raises(AssertionError):
            check_histogram(entries, *wrong, debiased)


@pytest.mark.parametrize(("confidence", "simultaneous", "z"), [(0.9, False, 1.6448536), (0.95, True, 2.3939798)])
def test_confidence_and_simultaneous(confidence, simultaneous, z):
    mechanism = MECHANISMS["oue str"]
    df = frame(mechanism).select(ldp_polars.perturb("x", mechanism))
    options = {"confidence": confidence, "simultaneous": simultaneous}
    for h in (
        df.select(pl.col("x").ldp.histogram(mechanism, **options)),
        df.select(pl.col("x").ldp.tally(mechanism)).select(pl.col("x").ldp.estimate(mechanism, **options)),
    ):
        table = h.explode("x").unnest("x")
        for end in (table["low"].to_numpy(), table["high"].to_numpy()):
            sigma = np.sqrt(mechanism.variance(df.height, end))
            np.testing.assert_allclose(np.abs(table["count"] - end), z * sigma, rtol=1e-7)


def test_histogram_equals_the_cores(run):
    for name in FEW:
        mechanism = MECHANISMS[name]
        reports = frame(mechanism).select(ldp_polars.perturb("x", mechanism))
        out = run(reports, lambda f, m=mechanism: f.select(ldp_polars.histogram("x", m)).explode("x").unnest("x"))
        expected = mechanism.estimate(mechanism.tally(reports["x"].to_arrow())).to_polars()
        assert out.equals(expected.cast(out.schema))
