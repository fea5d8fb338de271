"""Keyed noise in Beam: the reports of Polars, bit for bit, in any form, replayed or not."""

from __future__ import annotations

from functools import partial

import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
from ldp_core import PlanError, Secret

from ..beam.estimates.driven import tallied
from ..beam.helpers import perturbed, run
from ..beam.streams import All
from .keyed import ELEMENTS, PLAN, SECRET, N, events, polars_reports, rows_of

KEYS = {"secret": SECRET, "from the worker": partial(Secret, bytes(range(32)))}


def of_all(reports) -> list[tuple]:
    return sorted(row for report in reports for row in rows_of(report))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("elements", ELEMENTS)
def test_reports_are_those_of_polars_bit_for_bit(elements, key):
    reports, _ = perturbed(ldp_beam.Perturb(PLAN, key=KEYS[key], id="user"), ELEMENTS[elements]())
    assert of_all(reports) == sorted(polars_reports())


@pytest.mark.parametrize(("elements", "key", "repeat"), [("batches", "secret", 2), ("dicts", "from the worker", 1)])
def test_reports_of_pipelines_are_those_of_polars_bit_for_bit(elements, key, repeat):
    perturb = ldp_beam.Perturb(PLAN, stabilize=False, key=KEYS[key], id="user")
    flags = (f"--direct_runner_bundle_repeat={repeat}",)
    assert set(of_all(run(perturb, ELEMENTS[elements](), flags=flags))) == set(polars_reports())


@pytest.mark.parametrize("elements", ELEMENTS)
def test_tallies_are_those_of_polars(elements):
    frame = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(PLAN, key=SECRET, id="user")
    for column, m in PLAN.columns.items():
        found, _ = tallied(ldp_beam.PrivateHistogram(column, m, key=SECRET, id="user"), ELEMENTS[elements]())
        [tally] = found.values()
        assert tally.counters.tolist() == frame.select(pl.col(column).ldp.tally(m)).item()["counters"]


@pytest.mark.parametrize("elements", ["batches", "rows"])
def test_private_histograms_are_those_of_polars_exactly(elements):
    frame = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(PLAN, key=SECRET, id="user")
    private = [ldp_beam.PrivateHistogram(c, m, key=SECRET, id="user") for c, m in PLAN.columns.items()]
    for (column, m), rows in zip(PLAN.columns.items(), run(All(private), ELEMENTS[elements]()), strict=True):
        expected = frame.select(pl.col(column).ldp.histogram(m)).explode(column).unnest(column)["count"]
        assert [row.count for row in rows] == expected.to_list()
        assert {row.n for row in rows} == {N}


@pytest.mark.parametrize("elements", ["batch", "dicts"])
def test_a_seeded_plan_gives_the_reports_of_polars(elements):
    seeded = PLAN.seeded(3)
    frame = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(seeded, row_id="n")
    rows = frame.select("n", "os", "crashed", "hour").rows()
    reports, _ = perturbed(ldp_beam.Perturb(seeded, id="n"), ELEMENTS[elements]())
    assert of_all(reports) == sorted((n, tuple(os), crashed, hour) for n, os, crashed, hour in rows)
    for options in ({}, {"key": SECRET, "id": "n"}):
        with pytest.raises(PlanError, match="seeded plan"):
            ldp_beam.Perturb(seeded, **options)


@pytest.mark.parametrize("elements", ["batch", "dicts"])
def test_the_others_reports_stay_where_records_without_an_id_are_dead_letters(elements):
    batch = events()
    batch = batch.set_column(1, "user", pa.array([None if i % 5 == 0 else f"user {i % 100}" for i in range(N)]))
    perturb = ldp_beam.Perturb(PLAN, key=SECRET, id="user").with_exception_handling()
    good, dead = perturbed(perturb, [batch] if elements == "batch" else batch.to_pylist())
    assert of_all(good) == sorted(row for row in polars_reports() if row[0] % 5)
    assert dead == [("user", "null", N // 5)]
