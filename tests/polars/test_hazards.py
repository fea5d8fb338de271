"""The ways in which Polars draws noise twice, or on the wrong thing.

Each check runs on our expression and on an unguarded variant of it, in which it must detect the fault.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    Domain,
    DomainError,
    DtypeError,
    LdpError,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    RandomizedResponse,
    ReportError,
    UnaryEncoding,
)
from ldp_core import errors as core_errors
from ldp_polars import udfs

N = 64_000
COLOURS = [f"v{i}" for i in range(16)]
guarded_and_not = pytest.mark.parametrize("build", [True, False], indirect=True, ids=["guarded", "unguarded"])
lazy_engines = pytest.mark.parametrize("lazy_engine", ["in-memory", "streaming"])


def is_guarded(build):
    return build is ldp_polars.perturb


# ---- predicates pushed into a scan


def kept_and_expected(build, scan, column, mechanism, by, lazy_engine):
    """Rows kept by a filter on the report, and expected: one row a group of ``by``, which fixes ``column``."""
    target = mechanism.domain.values[0]
    kept = scan.filter(build(pl.col(column), mechanism) == target).group_by(by).len("kept").collect(engine=lazy_engine)
    groups = scan.group_by(by).agg(pl.len().alias("n"), (pl.col(column) == target).first().alias("true"))
    both = groups.collect().join(kept, on=by, how="left").with_columns(pl.col("kept").fill_null(0))
    return both["kept"].to_numpy(), both["n"].to_numpy(), np.where(both["true"], mechanism.p, mechanism.q)


@guarded_and_not
@lazy_engines
def test_predicate_is_not_evaluated_on_a_parquet_dictionary(build, lazy_engine, tmp_path, unlikely, draws):
    path = tmp_path / "t.parquet"
    colours = np.random.default_rng(1).integers(0, 16, N)
    pl.DataFrame({"x": np.array(COLOURS)[colours]}).write_parquet(path, row_group_size=N // 8)
    mechanism = RandomizedResponse(COLOURS, epsilon=2.0)
    k, n, p = kept_and_expected(build, pl.scan_parquet(path), "x", mechanism, "x", lazy_engine)
    assert unlikely(k, n, p) is not is_guarded(build)
    if is_guarded(build):
        assert sum(draws) == N


@guarded_and_not
@lazy_engines
def test_predicate_is_not_evaluated_on_row_group_statistics(build, lazy_engine, tmp_path, unlikely, draws):
    path = tmp_path / "t.parquet"
    group = np.repeat(np.arange(8), N // 8)
    pl.DataFrame({"x": group % 4, "g": group}).write_parquet(path, row_group_size=N // 8)
    mechanism = RandomizedResponse(range(4), epsilon=1.0)
    k, n, p = kept_and_expected(build, pl.scan_parquet(path), "x", mechanism, "g", lazy_engine)
    assert unlikely(k, n, p) is not is_guarded(build)
    if is_guarded(build):
        assert sum(draws) == N


@guarded_and_not
@lazy_engines
def test_predicate_is_not_evaluated_on_hive_partitions(build, lazy_engine, tmp_path, unlikely, draws):
    for part in range(4):
        (tmp_path / f"x={part}").mkdir()
        pl.DataFrame({"y": range(N // 4)}).write_parquet(tmp_path / f"x={part}" / "0.parquet")
    mechanism = RandomizedResponse(range(4), epsilon=1.0)
    scan = pl.scan_parquet(tmp_path, hive_partitioning=True)
    k, n, p = kept_and_expected(build, scan, "x", mechanism, "x", lazy_engine)
    assert unlikely(k, n, p) is not is_guarded(build)
    if is_guarded(build):
        assert sum(draws) == N


@lazy_engines
@pytest.mark.parametrize("source", ["csv", "ipc", "ndjson", "in-memory"])
def test_predicates_on_other_sources_see_every_row(lazy_engine, source, tmp_path, unlikely, draws):
    path = tmp_path / "t"
    group = np.repeat(np.arange(8), N // 8)
    df = pl.DataFrame({"x": group % 4, "g": group})
    if source == "in-memory":
        scan = df.lazy()
    else:
        getattr(df, f"write_{source}")(path)
        scan = getattr(pl, f"scan_{source}")(path)
    mechanism = RandomizedResponse(range(4), epsilon=1.0)
    k, n, p = kept_and_expected(ldp_polars.perturb, scan, "x", mechanism, "g", lazy_engine)
    assert not unlikely(k, n, p)
    assert sum(draws) == N


# ---- literals, and values of another length than the frame


@guarded_and_not
def test_a_literal_gets_a_draw_for_each_row(build, run, unlikely):
    mechanism = RandomizedResponse(["a", "b", "c"], epsilon=1.0)
    out = run(pl.DataFrame({"i": range(2000)}), lambda f: f.with_columns(z=build(pl.lit("a"), mechanism)))
    assert unlikely((out["z"] == "a").sum(), 2000, mechanism.p) is not is_guarded(build)


@pytest.mark.parametrize(
    "literal",
    [pl.lit("a"), pl.lit("a").alias("z"), pl.lit("a").cast(pl.Enum(["b", "a"])), pl.lit(pl.Series(["a"])), pl.lit(None)],
    ids=["plain", "alias", "cast", "series", "null"],
)
@pytest.mark.parametrize("height", [0, 1, 50])
def test_literals_take_the_height_of_the_frame(literal, height, run):
    mechanism = RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0)
    out = run(pl.DataFrame({"i": range(height)}), lambda f: f.with_columns(z=literal.ldp.perturb(mechanism)))
    assert out.height == height
    assert out["z"].null_count() == 0


FRAME = pl.DataFrame({"x": ["b", "a", None, "a", "b", "b"], "y": [0, 1, 1, 0, 1, 0], "g": [0, 0, 0, 1, 1, 1]})
X = pl.col("x")
UNFIT = {
    "filter": X.filter(pl.col("y") == 1),
    "filter to one": X.filter(pl.int_range(pl.len()) == 1),
    "filter to none": X.filter(pl.lit(value=False)),
    "drop_nulls": X.drop_nulls(),
    "first": X.first(),
    "max": X.max(),
    "head": X.head(2),
    "unique": X.unique(),
    "sample": X.sample(2),
    "gather": X.gather([0, 0]),
    "explode": pl.col("x").implode().explode().head(3),
    "alias": X.max().alias("z"),
}


class Replicating(udfs.Perturb):
    """What the guard prevents: the first value, for as many rows as there are."""

    def __call__(self, inputs, return_dtype=None):
        values, index = inputs
        if len(values) != len(index):
            values = values.new_from_index(0, len(index))
        return super().__call__([values, index], return_dtype)


@pytest.mark.parametrize("name", UNFIT)
def test_values_of_another_length_are_refused_before_anything_runs(name, draws):
    with pytest.raises(ParameterError, match="one value a row"):
        UNFIT[name].ldp.perturb(RandomizedResponse(["a", "b"], epsilon=1.0))
    assert draws == []


@pytest.mark.parametrize("guard", [True, False])
@pytest.mark.parametrize(
    "unfit",
    [pl.col("x", "w").filter(pl.col("y") == 1), pl.col("x", "w").head(2), X.map_batches(lambda s: s.head(1))],
    ids=["filter", "head", "udf"],
)
@pytest.mark.parametrize("context", ["select", "with_columns", "agg", "over"])
def test_what_only_running_shows_is_refused_when_run(unfit, context, guard, monkeypatch):
    """Selectors and Python functions; without the guard one record's value fills six reports."""
    if not guard:
        monkeypatch.setattr(udfs.Perturb, "__call__", Replicating.__call__)
        monkeypatch.setattr(udfs, "Perturb", udfs.Perturb)
        original = udfs.Perturb.__call__
        del original
    df = FRAME.with_columns(w="x")
    expr = unfit.ldp.perturb(RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0))
    query = {
        "select": lambda: df.select(expr),
        "with_columns": lambda: df.with_columns(expr.name.suffix("_r")),
        "agg": lambda: df.group_by("g").agg(expr),
        "over": lambda: df.select(expr.over("g")),
    }[context]
    with pytest.raises(ParameterError, match="one value a row, got"):
        query()
