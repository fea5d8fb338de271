"""Estimates have the same fields everywhere, of the values' own type, and no name that SQL does not take."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_beam import HistogramRow
from ldp_beam.elements.rows import DistributionRow, MeanRow
from ldp_beam.estimates.transforms import Estimate
from ldp_beam.io import estimate_schema
from ldp_core import (
    HeavyHitters,
    Hybrid,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    SquareWave,
    UnaryEncoding,
    usual_question,
)

from ..beam.helpers import run
from ..beam.streams import All
from ..cases import case
from .sql_words import RESERVED

COUNTED = ["value", "count", "standard_error", "low", "high"]
COUNTED += ["frequency", "frequency_standard_error", "frequency_low", "frequency_high", "n"]
FIELDS = {
    "level": COUNTED,
    "word": COUNTED,
    "age": ["mean", "standard_error", "low", "high", "n"],
    "delay": ["bucket_start", "bucket_end", "frequency", "standard_error", "low", "high", "n"],
}
PLAN = PrivacyPlan(
    {
        "level": UnaryEncoding([1, 2, 10], epsilon=3.0),
        "word": HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8),
        "age": Hybrid((0, 120), epsilon=3.0),
        "delay": SquareWave((0, 10), epsilon=3.0, buckets=16),
    },
    keep=["day", "time"],
)
N = 4000
PEOPLE = pl.DataFrame(
    {
        "level": [1, 2, 10, 10] * (N // 4),
        "word": ["rome", "rome", "oslo", "rome"] * (N // 4),
        "age": [30.0, 50.0] * (N // 2),
        "delay": [1.0, 9.0] * (N // 2),
        "day": [1, 2] * (N // 2),
        "time": [dt.datetime(2026, 1, 1 + i % 2) for i in range(N)],
    }
)
ASKED = {"level": "histogram", "word": "heavy_hitters", "age": "mean", "delay": "distribution"}


@pytest.fixture(scope="module")
def reports():
    return PEOPLE.ldp.perturb(PLAN)


def test_one_vocabulary_in_core_arrow_polars_and_beam(reports):
    questions = {name: usual_question(m, 0.95) for name, m in PLAN.columns.items()}
    columns = {name: reports[name].ext.storage().to_arrow() for name in FIELDS}
    found = run(All([Estimate(name, PLAN[name], how) for name, how in questions.items()]), [pa.record_batch(columns)])
    tables = reports.ldp.estimates(PLAN)
    for (name, how), rows in zip(questions.items(), found, strict=True):
        result = how.result(PLAN[name], PLAN[name].tally(columns[name]))
        core = result.to_arrow()
        with case(name):
            assert core.column_names == result.to_polars().columns == FIELDS[name]
            assert set(core["n"].to_pylist()) == {N}
            polars = reports.select(getattr(pl.col(name).ldp, ASKED[name])())
            polars = (polars if how.single else polars.explode(name)).unnest(name)
            assert polars.equals(pl.DataFrame(core))
            assert tables[name].columns == FIELDS[name]
            fields = rows[0]._fields
            assert fields[fields.index("key") + 1 : fields.index("confidence")] == tuple(FIELDS[name])
            for field in FIELDS[name]:
                assert [getattr(row, field) for row in rows] == core[field].to_pylist()


def test_no_name_is_a_reserved_word_of_sql(reports):
    tables = reports.ldp.estimates(PLAN, window="1d", event_time="time")
    names = {name for table in tables.values() for name in table.columns}
    names |= set(reports.ldp.histograms(PLAN, by="day").columns)
    for row in (ldp_beam.HistogramRow, MeanRow, DistributionRow, ldp_beam.DeadLetter):
        names |= set(row._fields)
    names |= {*estimate_schema(HistogramRow).names, *estimate_schema(MeanRow).names}
    assert {"column_name", "window_start", "window_end", "bucket_start"} <= names
    assert not {name.lower() for name in names} & RESERVED


def test_values_of_their_own_type_join(reports):
    levels = pl.DataFrame({"value": [1, 2, 10], "label": ["low", "middle", "high"]})
    tidy = reports.ldp.histograms(PLAN)
    assert tidy.join(levels, on="value").sort("value")["label"].to_list() == ["low", "middle", "high"]
    flags = PrivacyPlan({"v": RandomizedResponse(epsilon=1.0)})
    tidy = pl.DataFrame({"v": [True, False]}).ldp.perturb(flags).ldp.histograms(flags)
    assert tidy["value"].to_list() == [False, True]
    assert np.array_equal(tidy["n"], [2, 2])
