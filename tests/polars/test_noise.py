"""Keyed and seeded noise in Polars: the same reports on every engine, and errors where that cannot be."""

import pickle
import uuid
from itertools import product

import numpy as np
import polars as pl
import pytest
from polars import selectors as cs

import ldp_polars
from ldp_core import (
    DtypeError,
    InputError,
    Keyed,
    LdpWarning,
    ParameterError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
)

from ..cases import case, each
from .helpers import groups

SECRET = Secret(bytes(range(32)))
N = 5000
MECHANISMS = {"bits": UnaryEncoding(range(12), epsilon=1.0), "k-ary": RandomizedResponse(range(12), epsilon=1.0)}


def people() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {"x": rng.integers(0, 12, N), "user": rng.permutation(N) + 10**12, "g": rng.integers(0, 7, N)}
    ).with_columns(name=pl.col("user").cast(pl.String), other="x", flag=pl.col("x") < 4, t=pl.int_range(pl.len()))


CONTEXTS = {
    "select": lambda f, e: f.select("user", r=e),
    "filter before": lambda f, e: f.filter(pl.col("g") > 2).select("user", r=e),
    "filter after": lambda f, e: f.with_columns(r=e).filter(pl.col("g") > 2).select("user", "r"),
    "filter on the report": lambda f, e: f.with_columns(r=e).filter(pl.col("r").is_not_null()).select("user", "r"),
    "shuffle": lambda f, e: f.sort(pl.col("user").hash()).select("user", r=e),
    "agg": lambda f, e: f.group_by("g").agg("user", r=e).explode("user", "r").select("user", "r"),
    "over": lambda f, e: f.select("user", r=e.over("g")),
    "dynamic": lambda f, e: f.group_by_dynamic("t", every="70i").agg("user", r=e).explode("user", "r").drop("t"),
    "overlapping": lambda f, e: (
        f.group_by_dynamic("t", every="500i", period="900i").agg("user", r=e).explode("user", "r").drop("t").unique()
    ),
    "head": lambda f, e: f.head(100).select("user", r=e),
    "when": lambda f, e: f.select("user", r=pl.when(pl.col("g") > 3).then(e)).drop_nulls(),
    "rolling": lambda f, e: (
        f.sort("user")
        .head(300)
        .rolling("user", period="3i")
        .agg(id="user", r=e)
        .explode("id", "r")
        .select(pl.col("id").alias("user"), "r")
        .unique()
    ),
}


@pytest.mark.parametrize("names", groups(MECHANISMS, "bits"))
def test_reports_depend_on_nothing_but_the_id(names, run):
    df, given = people(), ({"key": SECRET, "id": "user"}, {"seed": 11, "row_id": pl.col("user")})
    for name, options in product(names, given):
        noise = pl.col("x").ldp.perturb(MECHANISMS[name], **options, typed=False)
        reference = df.select("user", r=noise)
        for context, transform in CONTEXTS.items():
            with case(name, options, context):
                out = run(df, lambda f, transform=transform, noise=noise: transform(f, noise))
                assert out.height > 50
                joined = out.join(reference, on="user", how="left", suffix="_reference")
                assert out["user"].n_unique() == out.height  # one record, one report, in overlapping windows too
                assert joined["r"].equals(joined["r_reference"], check_names=False)


def test_columns_tags_and_secrets_are_independent():
    df = people().with_columns(x=pl.lit(1, pl.Int64), other=pl.lit(1, pl.Int64))
    m = RandomizedResponse(range(12), epsilon=0.1)
    noise = {"key": SECRET, "id": "user"}
    out = df.select(
        pl.col("x").ldp.perturb(m, **noise, typed=False).alias("a"),
        pl.col("other").ldp.perturb(m, **noise, typed=False).alias("b"),
        pl.col("x").ldp.perturb(m, **noise, tag="second", typed=False).alias("c"),
        pl.col("x").ldp.perturb(m, key=Secret.generate(), id="user", typed=False).alias("d"),
        pl.col("x").ldp.perturb(m, seed=1, row_id="user", typed=False).alias("e"),
        pl.col("x").ldp.perturb(m, **noise, typed=False).alias("again"),
        pl.col("other").ldp.perturb(m, **noise, tag="x", typed=False).alias("same tag"),
    )
    assert out["a"].equals(out["again"], check_names=False)
    assert out["a"].equals(out["same tag"], check_names=False)
    bound = 6 * np.sqrt(N / 12 * 11 / 12)
    for one in "abcde":
        for two in "abcde":
            agree = (out[one] == out[two]).sum()
            assert one == two or abs(agree - N * (m.p**2 + 11 * m.q**2)) < bound


def test_selectors_give_each_column_noise_of_its_own():
    df = people().select("user", q_1=pl.lit(value=True), q_2=pl.lit(value=True))
    out = df.select(cs.starts_with("q_").ldp.randomized_response(epsilon=0.1, key=SECRET, id="user", typed=False))
    assert abs((out["q_1"] == out["q_2"]).mean() - 0.5) < 0.05
    single = df.select(pl.col("q_1").ldp.randomized_response(epsilon=0.1, key=SECRET, id="user", typed=False))
    assert single["q_1"].equals(out["q_1"])


@each("columns", [cs.starts_with("q_"), pl.col("^q_.*$"), pl.col("q_1", "q_2")])
def test_one_tag_for_several_columns_is_added_to_their_names(columns, run):
    """It took the place of the names: equal values of a person had equal reports in all rows."""
    df = people().select("user", "g", q_1=pl.lit(value=True), q_2=pl.lit(value=True))
    m, noise = RandomizedResponse(epsilon=0.1), {"key": SECRET, "id": "user", "tag": "2024", "typed": False}
    plan = df.ldp.perturb(PrivacyPlan({"q_1": m, "q_2": m}), **noise)
    for several in (columns.ldp.perturb(m, **noise), columns.ldp.randomized_response(epsilon=0.1, **noise)):
        out = run(df, lambda f, several=several: f.select(several))
        assert out.equals(plan)
        assert abs((out["q_1"] == out["q_2"]).mean() - 0.5) < 0.05
    windows = df.lazy().sort("user").rolling("user", period="1i").agg(columns.ldp.perturb(m, **noise))
    with pytest.raises(ParameterError, match="one column at a time"):
        windows.collect()


def test_computed_values_take_a_tag():
    """Two under one name had equal reports of equal values: others told that values differ."""
    df = pl.DataFrame({"user": range(200)}).select("user", *(pl.struct(os=True).alias(k) for k in ("home", "work")))
    m, fields = RandomizedResponse(epsilon=0.1), {k: pl.col(k).struct.field("os") for k in ("home", "work")}
    chosen = pl.when(pl.col("user") > 9).then(pl.lit(value=True)).otherwise(pl.lit(value=False))  # called "literal"
    for noise in ({"key": SECRET, "id": "user"}, {"seed": 1}, {"seed": 1, "row_id": "user"}):
        older = pl.col("user") > 3, pl.col("user").alias("one") > 3, (pl.col("user") > 3).name.suffix("_over")
        for values in (*fields.values(), chosen, *older):
            with pytest.raises(ParameterError, match="pass tag= here"):
                values.ldp.perturb(m, **noise)
        told = [field.ldp.perturb(m, **noise, tag=k, typed=False).alias(k) for k, field in fields.items()]
        for out in (df.select(told), df.select(field.alias(k).ldp.perturb(m, **noise) for k, field in fields.items())):
            assert 50 < sum(one == other for one, other in out.rows()) < 150
    assert df.select(fields["home"].ldp.perturb(m, key=None, id=None)).columns == ["os"]


def test_plans(run):
    df = people()
    plan = PrivacyPlan({"x": MECHANISMS["bits"], "flag": RandomizedResponse(epsilon=1.0)}, keep=["g"])
    first = df.ldp.perturb(plan, key=SECRET, id="user")
    assert first.columns == ["x", "flag", "g"]
    assert run(df, lambda f: f.ldp.perturb(plan, key=SECRET, id="user")).equals(first)
    alone = df.select(pl.col("flag").ldp.randomized_response(epsilon=1.0, key=SECRET, id="user", typed=False))
    assert alone["flag"].equals(first["flag"])
    assert not df.ldp.perturb(plan, key=SECRET, id="user", tag="day 2")["flag"].equals(first["flag"])


def test_ids_are_of_the_columns_that_are_there(run):
    """A plan numbers the rows of the frame; the numbers must not be among the ids."""
    columns = {name: UnaryEncoding(["a", "b"], epsilon=0.1) for name in ("x", "y")}
    df = pl.DataFrame({"u": ["me"] * 400, "x": ["a"] * 400, "y": ["b"] * 400})
    for plan in (PrivacyPlan(columns), PrivacyPlan.sampled(columns, epsilon=0.1)):
        for ids in (cs.first(), pl.nth(0), cs.by_dtype(pl.String) - cs.by_name("x", "y"), "u", pl.col("u")):
            with case(plan, ids):
                reports = run(df, lambda f, plan=plan, ids=ids: f.ldp.perturb(plan, key=SECRET, id=ids, typed=False))
                assert reports.n_unique() == 1


def test_row_positions_as_ids():
    df, m = people(), MECHANISMS["bits"]
    seeded = pl.col("x").ldp.perturb(m, seed=3, typed=False)
    first = df.select(seeded)
    assert df.lazy().select(seeded).collect().equals(first)
    some = pl.col("g") == 1
    later = df.lazy().with_columns(seeded).filter(some).select("x").collect()
    assert later.equals(df.with_columns(first["x"]).filter(some).select("x"))
    assert not df.select(pl.col("x").ldp.perturb(m, seed=4, typed=False)).equals(first)
    assert df.select(pl.col("x").ldp.perturb(m, seed=np.int64(3), typed=False)).equals(first)
    plan = PrivacyPlan({"x": m}).seeded(np.int64(3))
    assert plan == PrivacyPlan({"x": m}).seeded(3)
    assert df.ldp.perturb(plan)["x"].ext.storage().equals(first["x"])
    assert PrivacyPlan.from_toml(plan.to_toml()).seed == 3
    assert df.ldp.perturb(PrivacyPlan({"x": m}), seed=np.uint8(3))["x"].ext.storage().equals(first["x"])
    nameless = df.select(pl.col("x").alias(""))
    seeded = pl.col("").ldp.perturb(m, seed=3, tag="x", typed=False)
    assert nameless.select(seeded).equals(nameless.lazy().select(seeded).collect(engine="streaming"))


GROUPED = {
    "group_by": lambda f, e: f.group_by("g").agg(e),
    "groups of one": lambda f, e: f.group_by("user").agg(e),
    "over": lambda f, e: f.select(e.over("g")),
    "rolling": lambda f, e: f.sort("user").rolling("user", period="3i").agg(e),
    "windows of one": lambda f, e: f.sort("user").rolling("user", period="1i").agg(e),
    "dynamic": lambda f, e: f.sort("user").group_by_dynamic("user", every="50i").agg(e),
    "overlapping": lambda f, e: f.sort("user").group_by_dynamic("user", every="50i", period="100i").agg(e),
}


def test_row_positions_that_repeat_are_refused(run, engine):
    contexts = dict(GROUPED)
    if pl.__version__.startswith("2.0.") and engine == "streaming":
        del contexts["over"]  # it tells the column's name in each group there: docs/versions.md
    for tag, (name, context) in product((None, "mine"), contexts.items()):
        seeded = pl.col("x").ldp.perturb(MECHANISMS["bits"], seed=3, tag=tag, typed=False)
        with case(name, tag), pytest.raises(ParameterError, match="pass row_id="):
            run(people(), lambda f, context=context, seeded=seeded: context(f, seeded))


BAD = {
    "key without id": {"key": SECRET},
    "id without key": {"id": "user"},
    "row_id without seed": {"row_id": "user"},
    "both": {"key": SECRET, "id": "user", "seed": 1},
    "key is bytes": {"key": bytes(32), "id": "user"},
    "seed is text": {"seed": "1"},
    "seed is true": {"seed": True},
    "seed with id": {"seed": 1, "id": "user"},
    "id is one value": {"key": SECRET, "id": pl.col("user").first()},
    "id is what is perturbed": {"key": SECRET, "id": "x"},  # (who has one value would have one report)
    "id is it as an expression": {"key": SECRET, "id": pl.col("x"), "tag": "t"},
}


def test_options_that_do_not_go_together():
    for name, options in BAD.items():
        with case(name), pytest.raises(ParameterError):
            pl.col("x").ldp.perturb(MECHANISMS["bits"], **options, typed=False)
    for plan in (PrivacyPlan.split, PrivacyPlan.sampled):  # (both columns of each)
        for whose in ("x", "g", pl.col("g")):
            with case(plan, whose), pytest.raises(ParameterError, match="tells the persons apart"):
                people().ldp.perturb(plan({"x": range(12), "g": range(7)}, epsilon=1.0), key=SECRET, id=whose)
    with pytest.raises(ParameterError, match="epsilom"):
        pl.col("x").ldp.randomized_response(epsilon=1.0, epsilom=2.0, typed=False)


def test_bad_ids(run):
    df = people()
    noise = pl.col("x").ldp.perturb(MECHANISMS["bits"], key=SECRET, id="id", typed=False)
    with pytest.raises(InputError, match="ids are null"):
        run(df.with_columns(id=pl.when(pl.col("g") > 0).then("user")), lambda f: f.select(noise))
    with pytest.raises(DtypeError, match="ids must be"):
        run(df.with_columns(id=pl.col("user").cast(pl.Float64)), lambda f: f.select(noise))
    wide = pl.DataFrame({"x": [1, 2], "y": [1, 2], "id": pl.Series([1, 10**38], dtype=pl.Int128)})
    plan = PrivacyPlan.sampled({"x": range(9), "y": range(9)}, epsilon=1.0)
    for query in (lambda f: f.select(noise), lambda f: f.ldp.perturb(plan, key=SECRET, id="id")):
        with pytest.raises(InputError, match="at most 38 digits"):
            run(wide, query)


def test_ids_that_are_python_objects_are_refused():
    """Of uuid.UUID Arrow got the places in memory: noise was fresh, 60 days told each answer, and no error was seen."""
    ids = [uuid.UUID(int=i) for i in range(9)]
    frame = pl.DataFrame({"user": ids, "x": [True] * 9})
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)}, keep=["user"])
    reports = frame.ldp.perturb(plan)
    asked = {
        "key": lambda: frame.select(pl.col("x").ldp.perturb(plan["x"], key=SECRET, id="user")),
        "plan": lambda: frame.lazy().ldp.perturb(plan, key=SECRET, id="user").collect(),
        "row_id": lambda: frame.ldp.perturb(plan, seed=1, row_id="user"),
        "bound": lambda: frame.ldp.bound(id="user", records=1, key=SECRET),
        "person": lambda: reports.select(pl.col("x").ldp.histogram(person="user")),
        "persons": lambda: reports.ldp.histograms(person="user"),
        "compare": lambda: reports.ldp.compare(plan, other=frame.ldp.perturb(plan), person="user"),
    }
    for name, ask in asked.items():
        with case(name), pytest.raises(DtypeError, match=r"'user' has Python objects.*map_elements\(str"):
            ask()


def test_secrets_do_not_travel_unless_shared():
    m = MECHANISMS["bits"]
    assert "Secret(...)" not in str(pl.col("x").ldp.perturb(m, key=SECRET, id="user", typed=False))
    plan = PrivacyPlan.sampled({"x": range(9), "y": range(9)}, epsilon=1.0)
    frame = pl.LazyFrame({"x": [0], "y": [0], "u": [0]})
    for query in (
        pl.col("x").ldp.perturb(m, key=SECRET, id="user", typed=False),
        frame.ldp.perturb(plan, key=SECRET, id="u"),
        frame.ldp.bound(id="u", records=1, key=SECRET),
    ):  # Polars alone asks for cloudpickle
        with pytest.warns(LdpWarning, match=r"secret\.shared\(\) does"), pytest.raises(Exception) as caught:  # noqa: PT011
            pickle.dumps(query)
        assert bytes(range(32)).hex() not in str(caught.value)
    shared = pickle.loads(pickle.dumps(pl.col("x").ldp.perturb(m, key=SECRET.shared(), id="user", typed=False)))
    df = people()
    assert df.select(shared).equals(df.select(ldp_polars.perturb("x", m, key=SECRET, id="user", typed=False)))


# ---- names and ids


def test_tag_and_column_of_a_plan_do_not_run_into_each_other():
    """They were joined by a slash."""
    df = pl.DataFrame({"c": [0] * 200, "b/c": [0] * 200, "u": range(200)})
    m, noise = UnaryEncoding(range(64), epsilon=0.5), {"key": SECRET, "id": "u"}
    drawn = PrivacyPlan.sampled({"c": range(9), "b/c": range(9)}, epsilon=1.0)
    one = df.ldp.perturb(PrivacyPlan({"c": m}), **noise, tag="a/b")["c"]
    two = df.ldp.perturb(PrivacyPlan({"b/c": m}), **noise, tag="a")["b/c"]
    assert not one.equals(two, check_names=False)
    core = m.perturb(df["c"].to_arrow(), randomness=Keyed(SECRET, df["u"].to_arrow(), column="c", tag="a/b"))
    assert one.to_list() == core.to_pylist()
    for plan in (PrivacyPlan({"c": m, "b/c": m}), drawn):
        days = [df.ldp.perturb(plan, **noise, tag=tag) for tag in (None, "", "a", "a/b")]
        assert all(not a.equals(b) for i, a in enumerate(days) for b in days[:i])


def test_equal_integers_of_any_width_are_one_id():
    x, small, large = pl.Series("x", [3] * 40), pl.Series("u", range(40)), [2**63 + k for k in range(40)]
    for name, mechanism in MECHANISMS.items():
        perturb = pl.col("x").ldp.perturb(mechanism, key=SECRET, id="u", typed=False)
        reference = pl.DataFrame([x, small]).select(perturb)
        for dtype in (pl.Int8, pl.UInt8, pl.UInt64, pl.Int128, pl.UInt128, pl.Decimal(30, 0)):
            frame = pl.DataFrame([x, small.cast(dtype)])
            with case(name, dtype):
                assert frame.select(perturb).equals(reference)
                assert frame.lazy().select(perturb).collect().equals(reference)
        core = mechanism.perturb(x.to_arrow(), randomness=Keyed(SECRET, large, column="x")).to_pylist()
        for dtype in (pl.UInt64, pl.Int128, pl.UInt128):
            with case(name, "large", dtype):
                assert pl.DataFrame([x, pl.Series("u", large, dtype)]).select(perturb)["x"].to_list() == core
        wrapped = pl.DataFrame([x, pl.Series("u", [n - 2**64 for n in large])])
        assert wrapped.select(perturb)["x"].to_list() != core
