"""Grouping by a private column: records of all values are in each group of equal reports, so that it is refused."""

import apache_beam as beam
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_core import MechanismMismatchError, PrivacyPlan, RandomizedResponse, UnaryEncoding

from ..beam.helpers import run
from ..cases import case

VERSION, CRASHED = RandomizedResponse(["1", "2", "3"], epsilon=1.0), UnaryEncoding([False, True], epsilon=1.0)
PLAN = PrivacyPlan({"version": VERSION, "crashed": CRASHED}, keep=["os"])
PEOPLE = pa.record_batch({"version": ["1", "2", "3"] * 4, "crashed": [True] * 12, "os": ["ios", "web"] * 6})
REFUSED = r"columns \['version'\] hold reports.*records of all values"


def test_polars_and_sql():
    reports = pl.DataFrame(PEOPLE).ldp.perturb(PLAN)
    calls = [
        lambda by: reports.ldp.histograms(PLAN, by=by),
        lambda by: reports.lazy().ldp.estimates(PLAN, by=[by, "os"] if by != "os" else by),
        lambda by: reports.ldp.histograms(PrivacyPlan({"crashed": CRASHED}, keep=["os", "version"]), by=by),
        lambda by: PLAN.sql("crashed", "reports", by=[by]),
    ]
    for number, call in enumerate(calls):
        with case(number):
            call("os")
            with pytest.raises(MechanismMismatchError, match=REFUSED):
                call("version")


def test_where_polars_asks_nobody():
    """A dtype is told of no grouping and of no filter by plain values: where this fails, refuse it there, too."""
    reports, found = pl.DataFrame(PEOPLE).ldp.perturb(PLAN), pl.col("crashed").ldp.histogram()
    assert {name for name in vars(pl.BaseExtension) if not name.startswith("__")} == {
        *("_string_repr", "ext_from_params", "ext_metadata", "ext_name", "ext_storage")
    }
    assert reports.group_by("version").agg(found).columns == ["version", "crashed"]
    assert reports.select(found.over("version")).height == 12
    assert sum(part.height for part in reports.partition_by("version")) == 12


def test_who_means_it_says_so():
    """Plain values under another name are no reports, whoever asks."""
    reports = pl.DataFrame(PEOPLE).ldp.perturb(PLAN).with_columns(said=pl.col("version").ext.storage())
    assert set(reports.ldp.histograms(PLAN, by="said")["said"]) == set(reports["said"])
    rows = run(ldp_beam.Histogram("crashed", CRASHED, by=["said"]), [reports.to_arrow().to_batches()[0]])
    assert {row.key["said"] for row in rows} == set(reports["said"])


def test_beam():
    typed = PrivacyPlan({"version": VERSION}, keep=["crashed", "os"]).perturb(PEOPLE)
    for estimate, batch in ((ldp_beam.Histogram, PLAN.perturb(PEOPLE)), (ldp_beam.PrivateHistogram, typed)):
        with case(estimate), pytest.raises(MechanismMismatchError, match=REFUSED):
            run(estimate("crashed", CRASHED, by=["version"]), [batch])
    perturbed = beam.Pipeline("FnApiRunner") | beam.Create([PEOPLE]) | ldp_beam.Perturb(PLAN)
    with pytest.raises(MechanismMismatchError, match=REFUSED):  # when the pipeline is built
        perturbed | ldp_beam.Histogram("crashed", CRASHED, by=["version"])
