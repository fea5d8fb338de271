"""Plans of which a record answers one column, through Polars and Beam: one draw a record wherever it is made.

Estimates are checked against the true counts; reports under one key must be equal wherever they are made.
"""

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
from ldp_beam.elements.faults import Faults, check_reports
from ldp_beam.yaml import LdpHistogram, LdpPerturb
from ldp_core import Domain, ParameterError, PlanError, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding
from ldp_polars import perturbing

from ..beam.helpers import run
from ..cases import case
from .checks import by_key, check_counts, true_counts

OS = ["ios", "android", "web"]
COLUMNS = {
    "os": Domain(OS, unmatched="other"),
    "level": UnaryEncoding(Domain(range(9), unmatched="none"), epsilon=2.0),
    "crashed": RandomizedResponse(epsilon=2.0),
    "wide": range(70),
}
PLANS = {
    "sampled": PrivacyPlan.sampled(COLUMNS, epsilon=2.0, keep=["g", "id"]),
    "fake": PrivacyPlan.fake(COLUMNS, epsilon=2.0, priors={"wide": range(70)}, keep=["g", "id"]),
    "mixed": PrivacyPlan(
        {
            "os": RandomizedResponse(COLUMNS["os"], epsilon=1.0),
            **PrivacyPlan.sampled({"crashed": [False, True], "level": COLUMNS["level"]}, epsilon=2.0).columns,
        },
        keep=["g", "id"],
    ),
}
N = 20_000
each = pytest.mark.parametrize("name", PLANS)
either = pytest.mark.parametrize(("packed", "name"), [(False, "sampled"), (True, "fake"), (True, "mixed")])


def events(n: int = N) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    return pl.DataFrame(
        {
            "os": pl.Series([*OS, None, "tv"]).gather(rng.choice(5, n, p=[0.5, 0.2, 0.1, 0.1, 0.1])),
            "level": pl.Series([*range(9), None]).gather(rng.integers(0, 10, n)),
            "crashed": rng.random(n) < 0.2,
            "wide": rng.integers(0, 70, n),
            "g": np.arange(n) % 2,
            "id": np.arange(n),
            "secret": ["s"] * n,
        }
    )


def check(frame: pl.DataFrame, plan: PrivacyPlan, name: str, counts) -> None:
    """By the mechanism's own variance."""
    m = plan[name]
    true = true_counts(m, m.inputs.encode(frame[name].to_arrow()))
    check_counts(counts, np.sqrt([m.variance(len(frame), c) for c in true]), true)


@pytest.fixture
def draws(monkeypatch):
    """The number of rows of each call of the perturbing function for all columns."""
    calls = []
    original = perturbing._perturbed_draw

    def spy(inputs, return_dtype=None, **options):
        calls.append(len(inputs[0]))
        return original(inputs, return_dtype, **options)

    monkeypatch.setattr(perturbing, "_perturbed_draw", spy)
    return calls


# ---- Polars


def collected(lazy: pl.LazyFrame, engine: str, tmp_path) -> pl.DataFrame:
    if engine == "sink":
        lazy.sink_parquet(tmp_path / "reports.parquet")
        return pl.read_parquet(tmp_path / "reports.parquet")
    return lazy.collect(engine=engine)


def answers(reports: pl.DataFrame, plan: PrivacyPlan) -> np.ndarray:
    """How many of the columns that are drawn each record answers."""
    return np.sum([answered(reports[name]) for name, _ in plan.drawn.columns], axis=0)


def answered(reports: pl.Series) -> np.ndarray:
    """Which reports are neither null nor an array of nulls."""
    if isinstance(reports.dtype, pl.BaseExtension):
        reports = reports.ext.storage()
    if isinstance(reports.dtype, pl.Array):
        reports = reports.arr.first()
    return reports.is_not_null().to_numpy()


@each
def test_polars(name, tmp_path, draws):
    plan, frame = PLANS[name], events()
    for engine in ("in-memory", "streaming", "sink"):
        draws.clear()
        reports = collected(frame.lazy().ldp.perturb(plan), engine, tmp_path)
        with case(engine):
            assert sum(draws) == N
            assert reports.columns == list(plan)
            assert set(answers(reports, plan)) == {4 if name == "fake" else 1}
            assert reports.select(plan.keep).equals(frame.select(plan.keep))
            histograms = reports.ldp.histograms(plan)
            for column in plan.columns:
                part = histograms.filter(pl.col("column_name") == column)
                assert part["n"].unique().to_list() == [N]
                check(frame, plan, column, part["count"])
            grouped = reports.ldp.histograms(plan, by="g").filter(column_name="crashed", g=1)
            check(frame.filter(g=1), plan, "crashed", grouped["count"])


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_what_follows_sees_one_report_a_record(name, engine, draws, tmp_path):
    """Filters on reports and on kept columns, projections, and copies of columns: a second draw would show."""
    plan, n = PLANS[name], 3000
    events(n).write_parquet(tmp_path / "events.parquet", row_group_size=500)
    lazy = pl.scan_parquet(tmp_path / "events.parquet").ldp.perturb(plan)
    full = set(answers(lazy.collect(engine=engine), plan))
    for query in (
        lazy.filter(pl.col("crashed").is_not_null()),
        lazy.filter(pl.col("crashed").ext.storage().fill_null(value=True)),
        lazy.filter(pl.col("g") == 1),
        lazy.head(100),
        lazy.with_columns(pl.col("crashed").alias("again")).filter(pl.col("again").is_not_null()),
        lazy.unique("id"),
    ):
        rows = query.collect(engine=engine)
        assert rows.height
        assert set(answers(rows, plan)) == full
    before = len(draws)
    one = lazy.select("id", "level").collect(engine=engine)
    assert sum(draws[before:]) == one.height == n
    if name != "fake":  # of the one column, a share is there
        assert 0.15 * n < answered(one["level"]).sum() < 0.85 * n


@either
def test_keyed_reports_are_the_same_everywhere(name, packed):
    plan, secret, frame = PLANS[name], Secret.generate(), events(4000)
    ours = frame.ldp.perturb(plan, packed=packed, key=secret, id="id")
    batch = frame.to_arrow().combine_chunks().to_batches()[0]
    core = plan.perturb(batch, packed=packed, key=secret, id=batch["id"])
    assert ours.rows() == pl.from_arrow(core).rows()
    assert frame.lazy().ldp.perturb(plan, packed=packed, key=secret, id="id").collect(engine="streaming").equals(ours)
    assert not frame.ldp.perturb(plan, packed=packed, key=secret, id="id", tag="t").equals(ours)
    [found] = run(ldp_beam.Perturb(plan, packed=packed, key=secret, id="id"), [batch])
    assert found.equals(core)


@each
def test_seeded_runs_repeat(name):
    plan, frame = PLANS[name].seeded(8), events(3000)
    first = frame.ldp.perturb(plan)
    assert first.equals(frame.lazy().ldp.perturb(plan).collect(engine="streaming"))
    assert first.equals(frame.ldp.perturb(PLANS[name], seed=8))
    assert not first.equals(frame.ldp.perturb(PLANS[name].seeded(9)))
    by_id = frame.ldp.perturb(plan, row_id="id")
    order = np.random.default_rng(1).permutation(3000)
    assert by_id[order].equals(frame[order].ldp.perturb(plan, row_id="id"))
    with pytest.raises(PlanError):
        frame.ldp.perturb(plan, seed=1)


@each
def test_one_column_alone_is_refused_at_once(name):
    m = PLANS[name]["crashed"]
    for attempt in (
        lambda: pl.col("crashed").ldp.perturb(m),
        lambda: pl.col("crashed").ldp.perturb(m, seed=1),
        lambda: ldp_beam.PrivateHistogram("crashed", m),
    ):
        with pytest.raises(ParameterError, match="with the plan"):
            attempt()


# ---- Beam


@pytest.mark.parametrize(
    ("name", "column", "single"),
    [
        ("sampled", "os", False),
        pytest.param("sampled", "level", True, marks=pytest.mark.slow),
        pytest.param("fake", "wide", False, marks=pytest.mark.slow),
        ("mixed", "crashed", True),
    ],
)
def test_beam(name, column, single):
    plan = PLANS[name]
    frame = events(2000 if single else N)
    elements = frame.to_dicts() if single else frame.to_arrow().to_batches(max_chunksize=10_000)
    perturb = ldp_beam.Perturb(plan, packed=not single)
    found = by_key(run(perturb | ldp_beam.Histogram(column, plan[column], by=["g"]), elements))
    assert sorted(found) == ["0", "1"]
    for key, rows in found.items():
        some = frame.filter(g=int(key))
        assert [row.value for row in rows] == plan[column].domain.arrow_values.to_pylist()
        assert {row.n for row in rows} == {some.height}
        check(some, plan, column, [row.count for row in rows])


def test_a_bad_report_does_not_make_unanswered_ones_dead_letters():
    """Nulls are no answers, also beside a report that is none. (Any Boolean is a report.)"""
    plan = PLANS["sampled"]
    batch = plan.perturb(events(200).to_arrow().combine_chunks().to_batches()[0], packed=False)
    for column, spoiled in (("os", "mainframe"), ("crashed", None), ("level", [True, None] + [False] * 7)):
        reports = batch.column(column).to_pylist()
        answered = next(i for i, r in enumerate(reports) if r is not None and r != [None] * 9)
        with case(column):
            assert sum(r is None or r == [None] * 9 for r in reports) > 100
            assert bad_reports(batch.column(column), plan, column) == []
            if spoiled is not None:
                reports[answered] = spoiled
                kind = pa.string() if column == "os" else batch.column(column).type
                assert bad_reports(pa.array(reports, kind), plan, column) == [answered]


def bad_reports(reports, plan, column) -> list[int]:
    faults = Faults(len(reports))
    check_reports(reports, plan[column].reports, column, faults)
    return np.flatnonzero(~faults.good).tolist()


def test_yaml_rows_may_be_null():
    plan = PLANS["sampled"]
    rows = [beam.Row(**row) for row in events(300).drop("secret").to_dicts()]
    spec = plan.to_dict()
    listed = [
        [list(v) if isinstance(v, (tuple, np.ndarray)) else v for v in (r.os, r.level, r.crashed, r.wide)]
        for r in run(LdpPerturb(plan=spec), rows)
    ]
    answers = [sum(v is not None and not (isinstance(v, list) and None in v) for v in r) for r in listed]
    assert answers == [1] * 300
    histogram = LdpPerturb(plan=spec) | LdpHistogram(column="os", plan=spec)
    assert [row.n for row in run(histogram, rows)] == [300] * 4
