"""Keyed noise in Beam: the reports of the core and of Polars, bit for bit, replayed or not."""

from __future__ import annotations

import pickle
from functools import partial

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespace)
from ldp_core import Domain, ParameterError, PlanError, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding

from .helpers import run

SECRET = Secret(bytes(range(32)))
PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(Domain(["ios", "android"], unmatched="other"), epsilon=1.0),
        "crashed": RandomizedResponse(epsilon=1.0),
        "hour": RandomizedResponse(range(24), epsilon=1.0),
    },
    keep=["n"],
)
N = 500


def events() -> pa.RecordBatch:
    k = np.arange(N)
    return pa.record_batch(
        {
            "n": k,
            "user": [f"user {i % 100}" for i in range(N)],
            "os": pa.array([["ios", "android", "web", None][i % 4] for i in range(N)]),
            "crashed": k % 3 == 0,
            "hour": k % 24,
        }
    )


def polars_reports() -> list[tuple]:
    """What Polars makes of the events: the plan's rows."""
    reports = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(PLAN, key=SECRET, id="user")
    rows = reports.select("n", "os", "crashed", "hour").rows()
    return [(n, tuple(os), crashed, hour) for n, os, crashed, hour in rows]


def rows_of(report) -> list[tuple]:
    records = report.to_pylist() if isinstance(report, pa.RecordBatch) else [report]
    records = [r if isinstance(r, dict) else r._asdict() for r in records]
    return [(r["n"], tuple(r["os"]), r["crashed"], r["hour"]) for r in records]


def check(expected, found):
    assert sorted(found) == sorted(expected)


ELEMENTS = {
    "batch": lambda: [events()],
    "batches": lambda: [events()[:123], events()[123:]],
    "dicts": lambda: events().to_pylist(),
    "rows": lambda: [beam.Row(**record) for record in events().to_pylist()],
}
KEYS = {"secret": SECRET, "from the worker": partial(Secret, bytes(range(32)))}


@pytest.mark.parametrize("repeat", [1, 2])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("elements", ELEMENTS)
def test_reports_are_those_of_polars_bit_for_bit(elements, key, repeat):
    options = beam.options.pipeline_options.PipelineOptions([f"--direct_runner_bundle_repeat={repeat}"])
    with beam.Pipeline("FnApiRunner", options=options) as pipeline:
        perturb = ldp_beam.Perturb(PLAN, stabilize=False, key=KEYS[key], id="user")
        reports = pipeline | beam.Create(ELEMENTS[elements](), reshuffle=False) | perturb
        assert_that(reports | beam.FlatMap(rows_of), partial(check, polars_reports()))


@pytest.mark.parametrize("elements", ELEMENTS)
@pytest.mark.parametrize("column", PLAN.columns)
def test_private_histograms_are_those_of_polars_exactly(column, elements):
    mechanism = PLAN[column]
    frame = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(PLAN, key=SECRET, id="user")
    table = frame.select(pl.col(column).ldp.histogram(mechanism)).explode(column).unnest(column)
    expected = [(text, count, N) for text, count in zip(mechanism.domain.texts, table["count"], strict=True)]
    with beam.Pipeline("FnApiRunner") as pipeline:
        source = pipeline | beam.Create(ELEMENTS[elements](), reshuffle=False)
        rows = source | ldp_beam.PrivateHistogram(column, mechanism, key=SECRET, id="user")
        assert_that(rows | beam.Map(lambda r: (r.value, r.count, r.n)), partial(check, expected))


def test_private_histograms_without_ids_are_dead_letters():
    batch = events().set_column(1, "user", pa.array([None if i % 5 == 0 else f"user {i}" for i in range(N)]))
    job = ldp_beam.PrivateHistogram("hour", PLAN["hour"], key=SECRET, id="user").with_exception_handling()
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows, dead = pipeline | beam.Create([batch]) | job
        assert_that(rows | beam.Map(lambda r: r.n), partial(check, [N - N // 5] * 24), label="rows")
        assert_that(dead | beam.Map(tuple), partial(check, [("user", "null", N // 5)]), label="dead")


@pytest.mark.parametrize("single", [False, True])
def test_records_without_an_id_are_dead_letters(single):
    batch = events()
    user = pa.array([None if i % 5 == 0 else f"user {i % 100}" for i in range(N)])
    batch = batch.set_column(1, "user", user)
    expected = [row for row in polars_reports() if row[0] % 5]
    with beam.Pipeline("FnApiRunner") as pipeline:
        source = pipeline | beam.Create(batch.to_pylist() if single else [batch])
        good, dead = source | ldp_beam.Perturb(PLAN, key=SECRET, id="user").with_exception_handling()
        assert_that(good | beam.FlatMap(rows_of), partial(check, expected), label="good")
        counts = dead | beam.Map(lambda d: (d.column, d.reason, d.count))
        assert_that(counts, partial(check, [("user", "null", N // 5)]), label="dead")


def test_a_batch_without_the_id_column_is_dead():
    with beam.Pipeline("FnApiRunner") as pipeline:
        source = pipeline | beam.Create([events().drop_columns(["user"])])
        good, dead = source | ldp_beam.Perturb(PLAN, key=SECRET, id="user").with_exception_handling()
        assert_that(good, partial(check, []), label="good")
        counts = dead | beam.Map(lambda d: (d.column, d.count))
        assert_that(counts, partial(check, [("user", N)]), label="dead")


@pytest.mark.parametrize("bad", [{"key": SECRET}, {"id": "user"}, {"key": bytes(32), "id": "user"}])
def test_bad_options_fail_at_construction(bad):
    with pytest.raises(ParameterError):
        ldp_beam.Perturb(PLAN, **bad)
    with pytest.raises(ParameterError):
        ldp_beam.PrivateHistogram("os", PLAN["os"], **bad)


def test_the_secret_travels_only_if_it_is_given():
    given = pickle.dumps(ldp_beam.Perturb(PLAN, key=SECRET, id="user"))
    assert bytes(range(32)) in given
    named = pickle.dumps(ldp_beam.Perturb(PLAN, key=partial(Secret.from_env, "LDP_SECRET"), id="user"))
    assert bytes(range(32)) not in named


def test_a_seeded_plan_gives_the_reports_of_polars():
    seeded = PLAN.seeded(3)
    frame = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(seeded, row_id="n")
    rows = frame.select("n", "os", "crashed", "hour").rows()
    expected = [(n, tuple(os), crashed, hour) for n, os, crashed, hour in rows]
    for inputs in ([events()], events().to_pylist()):
        with beam.Pipeline("FnApiRunner") as p:
            reports = p | beam.Create(inputs) | ldp_beam.Perturb(seeded, id="n") | beam.FlatMap(rows_of)
            assert_that(reports, partial(check, expected))
    for options in ({}, {"key": SECRET, "id": "n"}):
        with pytest.raises(PlanError, match="seeded plan"):
            ldp_beam.Perturb(seeded, **options)


@pytest.mark.parametrize(
    ("ids", "reasons"),
    [
        (pa.array([1.5, 2.5, 3.5]), {"wrong type": 3}),
        (pa.array([True, False, True]), {"wrong type": 3}),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None])), {"null": 1}),
        ([1.5, 2.5, None], {"null": 1, "wrong type": 2}),
        ([1, "a", 2], {"wrong type": 1}),
    ],
    ids=["floats", "Booleans", "null in a dictionary", "list of floats", "mixed list"],
)
def test_unusable_ids_are_dead_letters(ids, reasons):
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    if isinstance(ids, list):
        elements = [{"crashed": True, "user": user} for user in ids]
    else:
        elements = [pa.record_batch({"crashed": pa.array([True, False, True]), "user": ids})]
    good, dead = run(ldp_beam.Perturb(plan, key=SECRET, id="user").with_exception_handling(), elements)
    found = {letter.reason: letter.count for letter in dead}
    assert found == reasons
    rows = sum(b.num_rows for b in good) if elements[0].__class__ is not dict else len(good)
    assert rows == 3 - sum(reasons.values())
