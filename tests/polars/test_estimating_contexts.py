"""Whatever is asked in whatever context of Polars: the answer is what the core makes of the same rows."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    Domain,
    DomainError,
    DtypeError,
    HeavyHitters,
    Hybrid,
    OneBitMean,
    ParameterError,
    Prefixes,
    RandomizedResponse,
    SquareWave,
    StochasticRounding,
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
    "rolling": lambda f, *a: f.head(20).rolling("i", period="7i").agg(*a),
    "two keys": lambda f, *a: f.group_by("g", "c").agg(*a),
    "over": lambda f, *a: f.head(30).select(*(one.over("g") for one in a)),
    "nothing": lambda f, *a: f.filter(pl.col("i") < 0).select(*a),
    "no group": lambda f, *a: f.filter(pl.col("i") < 0).group_by("g").agg(*a),
}
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


@each
def test_the_answer_is_what_the_core_makes_of_the_same_rows(name, run, support):
    mechanism, question, _ = asked(name)
    for packed in (False, True) if name == "bits" else (False,):
        frame = reports(name, packed=packed)
        a = (
            pl.col("x").ext.storage().implode().alias("rows"),
            X.tally(mechanism).alias("t"),
            X.estimate(question, mechanism),
        )
        for context, aggregate in CONTEXTS.items():
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


def test_wrong_arguments():
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
