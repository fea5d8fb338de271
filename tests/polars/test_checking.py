"""Suspicious reports, as a column."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    CountMeanSketch,
    DtypeError,
    MechanismMismatchError,
    ParameterError,
    RandomizedResponse,
    ReportError,
    UnaryEncoding,
)
from ldp_core import SummationHistogramEncoding as Sums

from ..cases import case

WIDE = UnaryEncoding(range(70), epsilon=1.0)


def planted(*, packed=False, typed=False):
    """A thousand honest reports, among them, at the positions of the second value, all ones."""
    at = [0, 17, 999]
    honest = pl.DataFrame({"x": np.arange(1000) % 70}).select(ldp_polars.perturb("x", WIDE, packed=packed))
    honest = honest["x"].ext.storage()
    rows = honest.to_numpy().copy()
    rows[at] = [2**64 - 1, 63] if packed else True
    reports = pl.Series("x", rows, honest.dtype)
    return (reports.ext.to(ldp_polars.Report(WIDE, packed=packed)) if typed else reports).to_frame(), at


def test_found_in_any_layout_and_engine():
    asked = pl.col("x").ldp.suspicious(WIDE, false_alarm=1e-9)
    for packed, engine in product((False, True), ("in-memory", "streaming")):
        df, at = planted(packed=packed)
        with case(packed, engine):
            found = df.lazy().select(asked, index=pl.int_range(pl.len())).collect(engine=engine)
            assert found.schema["x"] == pl.Boolean
            assert found.filter("x")["index"].to_list() == at
            assert df.lazy().filter(~asked).collect(engine=engine).height == 997
            grouped = df.group_by(g=pl.int_range(pl.len()) % 2, maintain_order=True).agg(asked.sum())
            assert grouped["x"].to_list() == [1, 2]


def test_typed_reports_know_their_mechanism():
    df, at = planted(typed=True)
    assert df.select(pl.col("x").ldp.suspicious(false_alarm=1e-9)).to_series().arg_true().to_list() == at
    with pytest.raises(MechanismMismatchError):
        df.select(pl.col("x").ldp.suspicious(UnaryEncoding(range(70), epsilon=2.0)))
    with pytest.raises(DtypeError, match="pass the mechanism"):
        planted()[0].select(pl.col("x").ldp.suspicious())


def test_other_reports():
    for m in (Sums(range(9), epsilon=1.0), CountMeanSketch("int", epsilon=1.0, hashes=2, width=64)):
        df = pl.DataFrame({"x": np.arange(500) % 9}).select(ldp_polars.perturb("x", m))
        with case(m):
            assert df.select(pl.col("x").ldp.suspicious(m, false_alarm=1e-9)).to_series().sum() == 0


def test_refused_when_planned():
    with pytest.raises(ParameterError, match="number of ones"):
        pl.col("x").ldp.suspicious(RandomizedResponse(range(4), epsilon=1.0))
    with pytest.raises(ParameterError, match="false_alarm"):
        pl.col("x").ldp.suspicious(WIDE, false_alarm=1)
    with pytest.raises(ParameterError, match="expected a mechanism"):
        pl.col("x").ldp.suspicious(0.5)
    with pytest.raises(ReportError, match="'x'"):
        pl.DataFrame({"x": [1, 2]}).select(pl.col("x").ldp.suspicious(WIDE))
