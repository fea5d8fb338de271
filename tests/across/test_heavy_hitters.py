"""Heavy hitters through Polars and Beam: perturbed here, searched there, in groups and in windows that differ."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # registers the namespaces
from ldp_core import (
    HeavyHitters,
    HeavyHittersEstimate,
    Keyed,
    ParameterError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
)
from ldp_core.estimates.histogram import ENTRY
from ldp_polars import heavy_hitters
from ldp_polars import heavy_hitters as find

from ..beam.helpers import run
from .checks import by_key, check_dead_letter

M = HeavyHitters(Prefixes("abcdefg", 4), epsilon=4.0, levels=(2, 4), rows=16, width=512)
MORNING = {"bead": 12_000, "cafe": 8000, "dad": 6000}
EVENING = {"face": 12_000, "gag": 8000, "bead": 6000}
HOUR = 3600


def events() -> pl.DataFrame:
    """Two hours in which different words are frequent, and some that are not; in no order."""
    rng = np.random.default_rng(4)
    rare = pl.Series(M.domain.decode(M.domain.begin(4)))
    hours = []
    for hour, counts in enumerate((MORNING, EVENING)):
        words = pl.Series([w for w, n in counts.items() for _ in range(n)])
        words = pl.concat([words, rare.sample(4000, with_replacement=True, seed=hour)])
        times = rng.uniform(hour * HOUR, (hour + 1) * HOUR, len(words))
        hours.append(pl.DataFrame({"x": words, "hour": [hour] * len(words), "t": times}))
    frame = pl.concat(hours).sample(fraction=1, shuffle=True, seed=1)
    return frame.with_columns(id=np.arange(len(frame)))


def check(values, counts: dict[str, int]) -> None:
    assert list(values) == list(counts)  # (they are far apart: in order)


def found(frame: pl.DataFrame, *by: str) -> dict:
    table = frame.explode("x").unnest("x")
    return {key: part["value"].to_list() for (key,), part in table.group_by(*by)}


# ---- Polars


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(engine):
    reports = events().lazy().with_columns(ldp_polars.perturb("x", M)).collect(engine=engine)
    assert reports.schema["x"].ext_storage() == pl.UInt64
    whole = reports.select(heavy_hitters("x", M, 1)).explode("x").unnest("x")
    assert whole.columns == list(ENTRY)
    assert whole["value"].to_list() == ["bead"]
    hours = reports.group_by("hour").agg(heavy_hitters("x", M, 3))
    check(found(hours, "hour")[0], MORNING)
    check(found(hours, "hour")[1], EVENING)
    core = M.find(M.tally(reports.filter(hour=0)["x"].to_arrow()), 3)
    ours = hours.filter(hour=0).explode("x").unnest("x")
    assert ours["count"].to_list() == core.counts.tolist()


def test_stored_tallies_are_searched_later():
    reports = events().select(pl.col("x").ldp.perturb(M), "hour")
    tallies = reports.group_by("hour", maintain_order=True).agg(pl.col("x").ldp.tally(M))
    merged = tallies.select(pl.col("x").ldp.merge(M))
    assert merged.select(find("x", M, 5)).item().to_list() == reports.select(heavy_hitters("x", M, 5)).item().to_list()
    with_null = pl.concat([tallies, pl.DataFrame({"hour": [9], "x": [None]}, schema=tallies.schema)])
    lists = with_null.select(find("x", M, 3))["x"]
    assert [None if one is None else len(one) for one in lists] == [3, 3, None]
    assert tallies.clear().select(find("x", M, 3))["x"].to_list() == []


def test_typed_and_keyed_reports():
    frame, secret = events().head(3000), Secret.generate()
    typed = frame.select(pl.col("x").ldp.perturb(M, typed=True))
    assert typed.schema["x"].mechanism == M
    assert typed.select(heavy_hitters("x", M, 3)).item() is not None
    ours = frame.select(pl.col("x").ldp.perturb(M, key=secret, id="id"))["x"]
    core = M.perturb(frame["x"].to_arrow(), randomness=Keyed(secret, frame["id"].to_arrow(), column="x"))
    assert ours.to_list() == core.to_pylist()


def test_nothing_found_is_an_empty_list():
    lists = pl.DataFrame({"x": M.perturb(["a"])}).select(heavy_hitters("x", M, 3))
    assert lists["x"].to_list() == [[]]


def test_what_polars_refuses():
    with pytest.raises(ParameterError):
        heavy_hitters("x", M, 0)
    with pytest.raises(ParameterError):
        heavy_hitters("x", RandomizedResponse(epsilon=1.0), 3)
    with pytest.raises(ReportError):
        pl.DataFrame({"x": ["a"]}).select(heavy_hitters("x", M, 3))


# ---- Beam


@pytest.mark.parametrize("private", [False, True])
def test_windows_that_differ(tmp_path, private):
    """Reports of Polars, through a file (or values, perturbed in Beam); each window has its own heavy hitters."""
    frame = events()
    if not private:
        frame = frame.select(pl.col("x").ldp.perturb(M), "t", "hour")
    path = str(tmp_path / "reports.parquet")
    frame.write_parquet(path, row_group_size=20_000)
    search = ldp_beam.Estimate("x", M, HeavyHittersEstimate(3), private=private, window="1h", event_time="t")
    rows = run(search, beam.io.ReadFromParquetBatched(path))
    for start, counts in ((0, MORNING), (HOUR, EVENING)):
        mine = [row for row in rows if row.window_start == start]
        check([row.value for row in mine], counts)
        assert {row.n for row in mine} == {30_000}
    if not private:
        core = M.find(M.tally(frame.filter(hour=0)["x"].to_arrow()), 3)
        assert [row.count for row in rows if row.window_start == 0] == core.counts.tolist()


def test_by_a_key_and_single_records():
    plan = PrivacyPlan({"x": M}, keep=["hour"])
    frame = events().select("x", "hour").sample(5000, seed=0)
    search = ldp_beam.Estimate("x", M, HeavyHittersEstimate(3), by=["hour"])
    found = by_key(run(ldp_beam.Perturb(plan) | search, frame.to_dicts()))
    for hour, counts in (("0", MORNING), ("1", EVENING)):
        assert {row.value for row in found[hour]} == set(counts)


def test_keyed_in_beam_is_keyed_in_polars():
    frame = events().head(6000)
    secret = Secret.from_seed(3)
    batch = frame.select("x", "id").to_arrow().combine_chunks().to_batches()[0]
    transform = ldp_beam.Estimate("x", M, HeavyHittersEstimate(3, threshold=0), private=True, key=secret, id="id")
    rows = run(transform, [batch])
    reports = frame.select(pl.col("x").ldp.perturb(M, key=secret, id="id"))
    ours = reports.select(heavy_hitters("x", M, 3, threshold=0)).explode("x").unnest("x")
    assert [row.count for row in rows] == ours["count"].to_list()


def test_what_beam_refuses():
    with pytest.raises(ParameterError):
        ldp_beam.Estimate("x", RandomizedResponse(epsilon=1.0), HeavyHittersEstimate(3))
    with pytest.raises(ParameterError):
        ldp_beam.Estimate("x", M, {"question": "heavy_hitters", "k": 0})
    with pytest.raises(ParameterError):
        ldp_beam.Estimate("x", M, "heavy_hitters:k=3", confidence=2.0)
    with pytest.raises(ParameterError):
        ldp_beam.Estimate("x", M, "heavy_hitters:k=3,threshold=-1.0")


def test_dead_letters():
    reports = M.perturb(["bead"] * 50).tolist()
    reports[3] = M.counters
    check_dead_letter(ldp_beam.Estimate("x", M, HeavyHittersEstimate(1, threshold=0)), pa.array(reports, pa.uint64()))


# ---- plans


def test_a_plan_with_heavy_hitters(tmp_path):
    plan = PrivacyPlan({"x": M, "number": HeavyHitters(Prefixes(None, 20), epsilon=1.0)}, keep=["hour"])
    path = tmp_path / "plan.toml"
    path.write_text(plan.to_toml())
    assert PrivacyPlan.from_toml(path) == plan
    assert "heavy_hitters" in plan.explain(1000)
    made = events().head(100).with_columns(number=7).ldp.perturb(plan)
    assert made.columns == ["x", "number", "hour"]
