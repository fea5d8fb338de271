"""Heavy hitters through Polars and Beam: perturbed here, searched there, in groups and in windows that differ."""

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
from ldp_core import HeavyHitters, HeavyHittersEstimate, Prefixes, PrivacyPlan, Secret
from ldp_polars import heavy_hitters

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
        assert [row.value for row in mine] == list(counts)  # (they are far apart: in order)
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
    asked = HeavyHittersEstimate(3, threshold=0, repeats=1)
    transform = ldp_beam.Estimate("x", M, asked, private=True, key=secret, id="id")
    rows = run(transform, [batch])
    reports = frame.select(pl.col("x").ldp.perturb(M, key=secret, id="id"))
    ours = reports.select(heavy_hitters("x", M, 3, threshold=0, repeats=1)).explode("x").unnest("x")
    assert [row.count for row in rows] == ours["count"].to_list()


def test_dead_letters():
    reports = M.perturb(["bead"] * 50).tolist()
    reports[3] = M.counters
    check_dead_letter(ldp_beam.Estimate("x", M, HeavyHittersEstimate(1, threshold=0)), pa.array(reports, pa.uint64()))
