"""Whatever is asked in whatever context of Polars: the answer is what the core makes of the same rows."""

import math
import warnings
from functools import partial

import numpy as np
import polars as pl
import pytest

import ldp_core
import ldp_polars
from ldp_core import (
    BlockHadamardResponse,
    Domain,
    DomainError,
    DtypeError,
    HadamardCountMeanSketch,
    HeavyHitters,
    HistogramEstimate,
    Hybrid,
    Interval,
    LdpWarning,
    LocalHashing,
    OneBitMean,
    ParameterError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    Secret,
    SquareWave,
    StochasticRounding,
    SubsetSelection,
    UnaryEncoding,
    question_of,
)

from ..cases import case

N = 240
X = pl.col("x").ldp
WORDS = HeavyHitters(Prefixes("abcd", 2), epsilon=40.0, rows=2, width=64)
ASKED = {  # mechanism, its values, question, the question's short name
    "answers": (
        RandomizedResponse(Domain(["ios", "web"], unmatched="other"), epsilon=2.0),
        ["ios", "web", None],
        "histogram:confidence=0.9,simultaneous=true",
        lambda x, *m: x.histogram(*m, confidence=0.9, simultaneous=True),
    ),
    "bits": (
        UnaryEncoding(Domain(range(70), unmatched="none"), epsilon=1.0),
        range(70),
        "histogram",
        lambda x, *m: x.histogram(*m),
    ),
    "one bit": (
        OneBitMean((0, 10), epsilon=1.0),
        range(10),
        "mean:confidence=0.9",
        lambda x, *m: x.mean(*m, confidence=0.9),
    ),
    "hybrid": (Hybrid((0, 10), epsilon=1.0), range(10), "mean", lambda x, *m: x.mean(*m)),
    "wave": (
        SquareWave((0, 10), epsilon=2.0, buckets=16),
        range(10),
        "distribution:buckets=4,method=em",
        lambda x, *m: x.distribution(*m, buckets=4, method="em"),
    ),
    "rounding": (
        StochasticRounding((0, 10), epsilon=2.0, buckets=9),
        range(10),
        "distribution",
        lambda x, *m: x.distribution(*m),
    ),
    "words": (WORDS, ["ab", "ca"], "heavy_hitters:k=1", lambda x, *m: x.heavy_hitters(*m, k=1)),
}
CONTEXTS = {
    "select": lambda f, *a: f.select(*a),
    "filter": lambda f, *a: f.filter("c").group_by("g").agg(*a),
    "dynamic": lambda f, *a: f.group_by_dynamic("i", every="30i").agg(*a),
    "overlapping": lambda f, *a: f.group_by_dynamic("i", every="60i", period="80i").agg(*a),
    "rolling": lambda f, *a: f.head(8).rolling("i", period="5i").agg(*a),
    "two keys": lambda f, *a: f.group_by("g", "c").agg(*a),
    "over": lambda f, *a: f.head(9).select(*(one.over("g") for one in a)),
    "nothing": lambda f, *a: f.filter(pl.col("i") < 0).select(*a),
    "no group": lambda f, *a: f.filter(pl.col("i") < 0).group_by("g").agg(*a),
}
FEW = ("select", "filter", "nothing")
EVERYWHERE = ("answers", "one bit")
"""Of a question the contexts see one thing only, its function: these two are asked in all of them by default."""
SLOWLY = [(name, [c for c in CONTEXTS if c not in FEW]) for name in ASKED if name not in EVERYWHERE]
each = pytest.mark.parametrize("name", ASKED)


def asked(name):
    mechanism, _, question, short = ASKED[name]
    return mechanism, question_of(question), short


def reports(name, **options) -> pl.DataFrame:
    mechanism, values, *_ = ASKED[name]
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"x": list(values) * (N // len(values)) + list(values)[: N % len(values)]})
    columns = {"g": rng.integers(0, 3, N), "c": rng.random(N) < 0.5, "i": np.arange(N)}
    return frame.select(X.perturb(mechanism, **options), **{n: pl.Series(v) for n, v in columns.items()})


def check(found, result) -> None:
    """The rows of an answer are the core's."""
    expected = result.to_arrow().to_pylist()
    found = [found] if isinstance(found, dict) else found
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert row.keys() == other.keys()
        for field, value in other.items():
            if isinstance(value, float):
                near = math.isclose(row[field], value, rel_tol=1e-9, abs_tol=1e-9)
                assert near or (math.isnan(value) and math.isnan(row[field])), (field, row[field], value)
            else:
                assert row[field] == value


@pytest.mark.parametrize(
    ("name", "contexts"),
    [(name, CONTEXTS if name in EVERYWHERE else FEW) for name in ASKED]
    + [pytest.param(*one, marks=pytest.mark.slow) for one in SLOWLY],
)
def test_the_answer_is_what_the_core_makes_of_the_same_rows(name, contexts, run, support):
    mechanism, question, _ = asked(name)
    for packed in (False, True) if name == "bits" else (False,):
        frame = reports(name, packed=packed)
        a = (
            pl.col("x").ext.storage().implode().alias("rows"),
            X.tally(mechanism).alias("t"),
            X.estimate(question, mechanism),
        )
        for context in contexts:
            aggregate = CONTEXTS[context]
            with case(context, packed):
                query = aggregate(frame.lazy(), *a)
                out = run(frame, lambda f, aggregate=aggregate, a=a: aggregate(f, *a))
                assert out.schema == query.collect_schema()
                assert out.height or context == "no group"
                for row in out.iter_rows(named=True):
                    rows = pl.Series(row["rows"], dtype=frame.schema["x"].ext_storage())
                    tally = mechanism.tally(rows.to_arrow())
                    assert row["t"] == tally.to_dict()
                    check(row["x"], question.result(mechanism, tally))
                    if isinstance(mechanism, (RandomizedResponse, UnaryEncoding)):
                        assert row["t"]["counters"] == support(rows, mechanism).tolist()


@each
@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_every_way_to_ask_gives_the_same(name, run):
    """By its short name, as a method or a function; of typed reports without the mechanism; of tallies, merged."""
    mechanism, question, short = asked(name)
    typed = reports(name)
    plain = typed.with_columns(pl.col("x").ext.storage())
    expected = typed.select(X.estimate(question, mechanism))
    function = getattr(ldp_polars, question.name)
    for frame, ask in (
        (plain, X.estimate(question.to_dict(), mechanism, assume_reports=True)),
        (plain, X.tally(mechanism, assume_reports=True).ldp.estimate(question, mechanism)),
        (typed, short(X)),
        (typed, short(X, mechanism)),
        (typed, X.estimate(question)),
        (typed, X.estimate(question, mechanism)),
        (typed, X.tally(mechanism).ldp.estimate(question, mechanism)),
    ):
        with case(ask):
            assert run(frame, lambda f, ask=ask: f.select(ask)).equals(expected)
    assert typed.select(function("x", mechanism)).schema == typed.select(function("x")).schema
    tallies = typed.group_by("g", maintain_order=True).agg(X.tally(mechanism))
    assert typed.group_by("g", maintain_order=True).agg(X.tally()).equals(tallies)
    merged = tallies.select(X.merge(mechanism)).select(short(X, mechanism))
    assert merged.equals(expected)
    holes = tallies.with_columns(pl.when(pl.col("g") > 0).then("x")).select("g", short(X, mechanism)).sort("g")
    assert holes["x"].is_null().to_list() == [True, False, False]
    with pytest.raises(DtypeError, match="column 'x': pass the mechanism"):
        plain.lazy().select(short(X)).collect_schema()


NO_HISTOGRAM = [
    ASKED["hybrid"][0],
    HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32),
    Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75),
    WORDS,
]


def test_wrong_arguments():
    said = r"numbers have a mean.*HeavyHitters has heavy hitters.*sketch\.over"
    for m in NO_HISTOGRAM:
        for make in (X.histogram, partial(X.estimate, HistogramEstimate())):
            with case(m), pytest.raises(ParameterError, match=said):
                make(m)
    with pytest.raises(ParameterError, match=r"got a mechanism: name it, as estimate\(mechanism=m\)"):
        X.estimate(ASKED["answers"][0])
    hybrid, wave = ASKED["hybrid"][0], ASKED["wave"][0]
    flag = RandomizedResponse(epsilon=1.0)
    for wrong in (
        lambda: X.mean(flag),
        lambda: X.mean("hybrid"),
        lambda: X.mean(hybrid, confidence=1.0),
        lambda: X.distribution(flag),
        lambda: X.distribution(hybrid),  # means only
        lambda: X.distribution(wave, buckets=17),
        lambda: X.heavy_hitters(flag, k=2),
        *(lambda m=m, bad=bad: X.heavy_hitters(m, **bad) for m in (WORDS, None) for bad in ({"k": 0}, {"k": True})),
        *(lambda m=m: X.heavy_hitters(m, confidence=1.0) for m in (WORDS, None)),
        lambda: X.heavy_hitters(WORDS, threshold=-1.0),
        *(lambda c=c: X.histogram(flag, confidence=c) for c in (0, 1, 95, math.nan, True)),
    ):
        with pytest.raises(ParameterError):
            wrong()
    for values, message in (([1.0, None], "null"), ([1.0, 11.0], "1 of 2 values")):
        with pytest.raises(DomainError, match=message):
            pl.DataFrame({"x": values}).select(X.perturb(hybrid))


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_large_matrices_do_not_overflow_the_stacks_of_polars_threads(engine):
    wave = SquareWave((0, 3), epsilon=1.0, buckets=512)
    page = Rappor("str", bits=64, hashes=2, cohorts=32, f=0.25, p=0.25, q=0.75)
    frame = pl.DataFrame({"os": ["ios", "web"] * 50, "number": [1.0, 2.0] * 50, "word": ["rome", "oslo"] * 50})
    plan, secret = PrivacyPlan({"number": wave, "word": page}, keep=["os"]), Secret.from_seed(1)
    reports = frame.with_row_index("user").ldp.perturb(plan, key=secret, id="user")
    many = page.over([*map(str, range(500))])
    groups = (
        reports.lazy()
        .group_by("os")
        .agg(pl.col("number").ldp.distribution(wave, buckets=4), pl.col("word").ldp.histogram(many, repeats=1))
        .select(pl.col("number").list.len(), pl.col("word").list.len())
        .collect(engine=engine)
    )
    assert groups.rows() == [(4, 500)] * 2


@pytest.mark.parametrize("kind", [LocalHashing, BlockHadamardResponse, SubsetSelection])
def test_where_there_are_no_groups_there_are_no_quantiles(kind, run):
    """Of mechanisms whose errors are sums over pairs of values it was an error of numpy."""
    plan = PrivacyPlan({"x": kind(range(12), epsilon=2.0)}, keep=["g"])
    reports = pl.DataFrame({"x": [1, 2] * 30, "g": [1, 2] * 30}).ldp.perturb(plan)
    nobody = reports.clear()
    for asked in (X.median(), X.quantiles(0.9), X.cdf(), X.range(edges=[3, 6])):
        assert run(nobody, lambda f, asked=asked: f.group_by("g").agg(asked)).height == 0
    sides = reports.ldp.compare(plan, other=nobody, by="g", quantiles=[0.5])
    assert sides.select("g", "after").rows() == [(1, None), (2, None)]


# ---- estimates that no data give


FLAG = RandomizedResponse(epsilon=1.0)
UNPERTURBED = pl.DataFrame({"x": [True] * 6000, "g": [1, 2, 3] * 2000})


@pytest.mark.parametrize(
    "query",
    [
        lambda f: f.select(X.histogram(FLAG, assume_reports=True)),
        lambda f: f.group_by("g").agg(X.histogram(FLAG, assume_reports=True)),
        lambda f: f.select(X.tally(FLAG, assume_reports=True)).select(X.histogram(FLAG)),
        lambda f: f.select(X.mean(OneBitMean((0, 1), epsilon=1.0), assume_reports=True)),
    ],
    ids=["histogram", "groups", "tallies", "mean"],
)
@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
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
        lambda **how: few.select(X.histogram(FLAG, **how)),
        lambda **how: few.group_by("g").agg(ldp_polars.estimate("x", "histogram", FLAG, **how)),
        lambda **how: few.select(X.tally(FLAG, **how).over("g")),
        lambda **how: few.ldp.perturb(plan).select(pl.col("x").ext.storage().ldp.histogram(FLAG, **how)),
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
    ids = (pl.col("user").str.slice(1).cast(pl.Int128) + 2**100).alias("user")  # of more than 64 bits
    wide = made.with_columns(ids).select(pl.col("x").ldp.histogram(person="user"))
    assert wide.equals(made.select(pl.col("x").ldp.histogram(person="user")))
    alone = made.select(pl.col("y").ldp.mean(person=pl.col("user"))).unnest("y")
    assert alone["standard_error"].item() > 0
    tidy = made.ldp.histograms(plan, person="user")
    assert tidy["n"].to_list() == [400] * 3
    with pytest.raises(ldp_core.ParameterError, match="tallies do not tell persons apart"):
        made.select(pl.col("x").ldp.tally()).select(pl.col("x").ldp.estimate("histogram", m, person="x"))


def test_means_of_numbers_that_are_drawn_take_repeats_in_place_of_persons():
    """The error spoke of private groups only."""
    plan = PrivacyPlan.sampled({"x": Interval(0, 1), "y": [1, 2]}, epsilon=2.0, keep=["user"])
    reports = pl.DataFrame({"x": [0.5] * 60, "y": [1, 2] * 30, "user": [*range(30)] * 2}).ldp.perturb(plan)
    with pytest.raises(ParameterError, match=r"means by person .* take repeats= in place of person="):
        reports.select(X.mean(person="user"))
    once, twice = (reports.select(X.mean(repeats=k)).unnest("x")["standard_error"].item() for k in (1, 2))
    assert twice == pytest.approx(once * math.sqrt(2))
    assert reports.ldp.histograms(plan, person="user")["n"].to_list() == [60, 60]


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


def test_one_quantile_needs_no_list():
    reports = pl.DataFrame({"x": [1, 2, 3] * 20}).select(X.perturb(RandomizedResponse([1, 2, 3], epsilon=2.0), seed=1))
    for one in (0.9, np.float64(0.9), np.array(0.9)):  # TypeError, of the last
        assert reports.select(X.quantiles(one)).equals(reports.select(X.quantiles([0.9])))
    for none in (None, np.float32(1)):  # TypeError
        with pytest.raises(ParameterError, match="each of probabilities must be"):
            X.quantiles(none)
    with pytest.raises(ParameterError, match="must be a list"):
        ldp_polars.weighted_quantiles("x", np.array(0.9), "x")
    with pytest.raises(ParameterError, match=r"each of probabilities must be in \(0, 1\), got 1"):
        X.quantiles(1)


def test_rolling_windows_of_no_rows_have_no_estimates():
    """Polars calls with nulls of no type there: tallies of another mechanism, the error said."""
    times = pl.Series("t", [], dtype=pl.Date)
    reports = pl.DataFrame({"x": [True]}).select(pl.col("x").ldp.randomized_response(epsilon=1.0)).head(0)
    windows = reports.with_columns(times).rolling("t", period="3d").agg(pl.col("x").ldp.histogram())
    assert windows.height == 0
    assert isinstance(windows.schema["x"], pl.List)
