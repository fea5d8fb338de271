"""Keyed noise in Beam: the reports of Polars, bit for bit, in any form, replayed or not."""

from functools import partial
from itertools import product

import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
from ldp_core import PlanError, Secret

from ..beam.helpers import perturbed, run
from ..beam.streams import All
from ..cases import case
from .keyed import ELEMENTS, PLAN, SECRET, N, events, of_frame, polars_reports, rows_of

KEYS = {"secret": SECRET, "from the worker": partial(Secret, bytes(range(32)))}


def of_all(reports) -> list[tuple]:
    return sorted(row for report in reports for row in rows_of(report))


def test_reports_are_those_of_polars_bit_for_bit():
    expected = sorted(polars_reports())
    for elements, key in product(ELEMENTS, KEYS):
        reports, _ = perturbed(ldp_beam.Perturb(PLAN, key=KEYS[key], id="user"), ELEMENTS[elements]())
        with case(elements, key):
            assert of_all(reports) == expected


@pytest.mark.parametrize(("elements", "key", "repeat"), [("batches", "secret", 2), ("dicts", "from the worker", 1)])
def test_reports_of_pipelines_are_those_of_polars_bit_for_bit(elements, key, repeat):
    perturb = ldp_beam.Perturb(PLAN, stabilize=False, key=KEYS[key], id="user")
    flags = (f"--direct_runner_bundle_repeat={repeat}",)
    assert set(of_all(run(perturb, ELEMENTS[elements](), flags=flags))) == set(polars_reports())


def test_private_histograms_are_those_of_polars_exactly():
    frame = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(PLAN, key=SECRET, id="user")
    private = [ldp_beam.PrivateHistogram(c, m, key=SECRET, id="user", repeats=1) for c, m in PLAN.columns.items()]
    for (column, m), rows in zip(PLAN.columns.items(), run(All(private), ELEMENTS["rows"]()), strict=True):
        expected = frame.select(pl.col(column).ldp.histogram(m, repeats=1)).explode(column).unnest(column)["count"]
        with case(column):
            assert [row.count for row in rows] == expected.to_list()
            assert {row.n for row in rows} == {N}


def test_a_seeded_plan_gives_the_reports_of_polars():
    seeded = PLAN.seeded(3)
    frame = pl.from_arrow(pa.Table.from_batches([events()])).ldp.perturb(seeded, row_id="n")
    for elements in ("batch", "dicts"):
        reports, _ = perturbed(ldp_beam.Perturb(seeded, id="n"), ELEMENTS[elements]())
        with case(elements):
            assert of_all(reports) == sorted(of_frame(frame))
    for options in ({}, {"key": SECRET, "id": "n"}):
        with pytest.raises(PlanError, match="seeded plan"):
            ldp_beam.Perturb(seeded, **options)


def test_the_others_reports_stay_where_records_without_an_id_are_dead_letters():
    batch = events()
    batch = batch.set_column(1, "user", pa.array([None if i % 5 == 0 else f"user {i % 100}" for i in range(N)]))
    perturb = ldp_beam.Perturb(PLAN, key=SECRET, id="user").with_exception_handling()
    for name, elements in (("batch", [batch]), ("dicts", batch.to_pylist())):
        good, dead = perturbed(perturb, elements)
        with case(name):
            assert of_all(good) == sorted(row for row in polars_reports() if row[0] % 5)
            assert dead == [("user", "null", N // 5)]
