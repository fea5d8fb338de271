"""Reports in CSV files."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest
from polars import selectors as cs

import ldp_polars
from ldp_core import Hybrid, LocalHashing, PlanError, PrivacyPlan, RandomizedResponse, UnaryEncoding

from ..cases import case
from . import test_frames

OS = test_frames.LABELS
MORE = {"hashed": LocalHashing(OS, epsilon=1.0), "age": Hybrid((0, 120), epsilon=1.0)}
PLAN = PrivacyPlan({**test_frames.PLAN.columns, **MORE}, keep=test_frames.PLAN.keep)
PEOPLE = test_frames.frame(150).with_columns(hashed="os", age=pl.Series([0.0, 33.3, 120.0] * 50))


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_reports_come_back_from_csv(tmp_path):
    path = tmp_path / "x.csv"
    for packed, lazy in product((False, True), (False, True)):
        reports = PEOPLE.ldp.perturb(PLAN, packed=packed)
        with pytest.raises(pl.exceptions.ComputeError):  # Polars cannot; if it can one day, this file is superfluous
            reports.write_csv(tmp_path / "polars.csv")
        (reports.lazy() if lazy else reports).ldp.sink_csv(path, PLAN)
        back = ldp_polars.scan_csv(path, PLAN, packed=packed).collect()
        plain = reports.with_columns(pl.col(name).ext.storage() for name in PLAN.columns)
        with case(packed, lazy):
            assert back.with_columns(cs.enum().cast(pl.String)).equals(plain)
            for name, m in PLAN.columns.items():
                tally = pl.col(name).ldp.tally(m, assume_reports=True)
                assert back.select(tally).item() == reports.select(tally).item()
            assert back.ldp.histograms(PLAN, assume_reports=True).equals(reports.ldp.histograms(PLAN))


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_what_was_not_answered_stays_so(tmp_path):
    columns = {"os": UnaryEncoding(OS, epsilon=1.0), "crashed": RandomizedResponse(epsilon=1.0)}
    plan = PrivacyPlan.sampled(columns, epsilon=1.0)
    for packed in (False, True):
        reports = PEOPLE.ldp.perturb(plan, packed=packed)
        reports.ldp.sink_csv(tmp_path / "x.csv", plan)
        back = ldp_polars.scan_csv(tmp_path / "x.csv", plan, packed=packed).collect()
        with case(packed):
            assert back.ldp.histograms(plan, assume_reports=True).equals(reports.ldp.histograms(plan))


def test_the_wrong_layout_is_an_error(tmp_path):
    PEOPLE.ldp.perturb(PLAN, packed=True).ldp.sink_csv(tmp_path / "x.csv", PLAN)
    with pytest.raises(pl.exceptions.PolarsError, match="width"):
        ldp_polars.scan_csv(tmp_path / "x.csv", PLAN).collect()


def test_nothing_raw_is_written(tmp_path):
    path = tmp_path / "x.csv"
    with pytest.raises(PlanError):
        PEOPLE.ldp.sink_csv(path, PLAN)
    with pytest.raises(PlanError, match="neither"):
        PEOPLE.ldp.perturb(PLAN).with_columns(user=1).ldp.sink_csv(path, PLAN)
    assert not path.exists()


def test_a_file_without_a_planned_column(tmp_path):
    PEOPLE.select("when").write_csv(tmp_path / "x.csv")
    with pytest.raises(PlanError, match="os"):
        ldp_polars.scan_csv(tmp_path / "x.csv", PLAN)
    with pytest.raises(PlanError, match="expected a PrivacyPlan"):
        ldp_polars.scan_csv(tmp_path / "x.csv", {"os": 1})
