"""RAPPOR through Polars and Beam: perturbed here, tallied there, from the same file; candidates are named later."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers the namespaces)
from ldp_core import Keyed, Mechanism, ParameterError, PrivacyPlan, Secret
from ldp_core.mechanisms.sketches.rappor import Rappor

from ..beam.helpers import run
from .checks import (
    by_key,
    check_beam_reads,
    check_counts,
    check_dead_letter,
    check_groups_merge,
    check_polars_reads_beam,
    histogram,
    some,
)

NOISE = {"f": 0.2, "p": 0.2, "q": 0.8}
MECHANISMS = {
    "text": Rappor(bits=32, hashes=2, cohorts=8, **NOISE),
    "integers": Rappor("int", bits=70, hashes=1, cohorts=32, **NOISE),  # many, as the value nobody lists collides
    "MD5": Rappor(bits=16, hashes=2, cohorts=8, **NOISE, hashing="md5"),
}
N = 30_000
CANDIDATES = 6  # of which the last is nobody's; another value is, and nobody lists it
each = pytest.mark.parametrize("name", some(MECHANISMS, "text"))


def labels(m: Mechanism) -> list:
    return [10 * v for v in range(7)] if m.inputs.kind == "int" else [f"host {v}" for v in range(7)]


def events(m: Mechanism) -> pl.DataFrame:
    which = np.random.default_rng(3).choice([0, 1, 2, 3, 4, 6], N, p=[0.4, 0.25, 0.15, 0.1, 0.05, 0.05])
    values = pl.Series("x", labels(m)).gather(which)
    return pl.DataFrame({"x": values, "which": which, "k": np.arange(N) % 3, "id": np.arange(N)})


def over(m):
    return m.over(labels(m)[:CANDIDATES])


def check(counts, errors, which) -> None:
    check_counts(counts, errors, np.bincount(which, minlength=7)[:CANDIDATES])


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(name, engine):
    m = MECHANISMS[name]
    frame = events(m)
    lazy = frame.lazy().with_columns(pl.col("x").ldp.perturb(m, key=Secret.generate(), id="id"))
    reports = lazy.collect(engine=engine)
    assert reports.schema["x"].ext_storage() == pl.Array(pl.UInt64, 1 + -(-m.bits // 64))
    found = histogram(reports, over(m))
    assert found["value"].to_list() == labels(m)[:CANDIDATES]
    check(found["count"], found["standard_error"], frame["which"].to_numpy())
    with pytest.raises(AssertionError, match="standard errors"):  # the check has power: against other true counts
        check(found["count"], found["standard_error"], (frame["which"].to_numpy() + 1) % 5)
    # in groups, before anybody names candidates, and merged
    grouped = check_groups_merge(reports, m)
    merged = grouped.select(pl.col("x").ldp.merge(m))
    later = merged.select(pl.col("x").ldp.histogram(over(m))).explode("x").unnest("x")
    assert later["count"].to_list() == found["count"].to_list()
    each_group = grouped.select(pl.col("x").ldp.histogram(over(m)))["x"].to_list()
    assert len(each_group) == 3
    assert sum(row["count"] for rows in each_group for row in rows) == pytest.approx(
        sum(found["count"]), abs=6 * np.sqrt(3) * np.linalg.norm(found["standard_error"])
    )


@each
def test_keyed_reports_of_polars_are_those_of_the_core_but_for_the_second_round(name):
    m, secret = MECHANISMS[name], Secret.generate()
    frame = events(m).head(2000)
    perturb = pl.col("x").ldp.perturb(m, key=secret, id="id")
    ours, again = (np.array(frame.select(perturb)["x"].to_list(), np.uint64) for _ in range(2))
    core = m.reports.from_arrow(
        m.perturb(frame["x"].to_arrow(), randomness=Keyed(secret, frame["id"].to_arrow(), column="x"))
    )
    np.testing.assert_array_equal(ours[:, 0], core[:, 0])  # the cohort stays
    for other in (again, core):
        differing = np.bitwise_count(ours[:, 1:] ^ other[:, 1:]).sum() / (len(ours) * m.bits)
        assert abs(differing - 2 * 0.2 * 0.8) < 0.02  # of two draws of the same permanent bits


@each
def test_no_key_is_refused_at_once(name):
    m = MECHANISMS[name]
    for refused in (
        lambda: pl.col("x").ldp.perturb(m),
        lambda: ldp_beam.Perturb(PrivacyPlan({"x": m})),
        lambda: ldp_beam.PrivateHistogram("x", over(m)),
        lambda: pl.col("x").ldp.histogram(m),
    ):
        with pytest.raises(ParameterError):
            refused()


SEED = partial(Secret, bytes(range(32)))


@each
def test_beam_perturbs_and_tallies(name):
    m = MECHANISMS[name]
    frame = events(m)
    batches = frame.select("x", "k", "id").to_arrow().to_batches(max_chunksize=10_000)
    found = by_key(run(ldp_beam.PrivateHistogram("x", over(m), by=["k"], key=SEED, id="id"), batches))
    assert sorted(found) == ["0", "1", "2"]
    for key, rows in found.items():
        which = frame.filter(pl.col("k") == int(key))["which"]
        check([row.count for row in rows], [row.standard_error for row in rows], which)


@each
def test_reports_of_polars_are_tallied_by_beam_and_the_other_way_round(tmp_path, name):
    m = MECHANISMS[name]
    frame = events(m).select("x", "id", "which")
    path = str(tmp_path / "reports.parquet")
    frame.select(pl.col("x").ldp.perturb(m, key=Secret.generate(), id="id")).write_parquet(path)
    check_beam_reads(path, over(m))
    made = check_polars_reads_beam(frame.select("x", "id"), PrivacyPlan({"x": m}), key=SEED, id="id")
    found = histogram(made, over(m))
    check(found["count"], found["standard_error"], frame["which"].to_numpy())


def test_the_combine_fn_takes_reports_and_tallies():
    m = MECHANISMS["text"]
    frame = events(m).head(1000)
    reports = m.perturb(frame["x"].to_arrow(), randomness=Keyed(Secret.generate(), np.arange(1000), column="x"))
    combine = ldp_beam.TallyCombineFn(over(m))
    accumulator = combine.add_inputs(combine.create_accumulator(), [reports[:600], m.tally(reports[600:])])
    assert combine.extract_output(accumulator) == m.tally(reports)


def test_reports_that_are_none_become_dead_letters():
    m = MECHANISMS["text"]
    reports = m.perturb(["host 1"] * 100, randomness=Keyed(Secret.generate(), np.arange(100), column="x"))
    reports[7, 0] = 8  # there is no such cohort
    check_dead_letter(ldp_beam.Histogram("x", over(m)), pa.FixedSizeListArray.from_arrays(reports.reshape(-1), 2))


def test_single_records():
    """Dictionaries: a list of words each, and back; in two steps and in one."""
    m = MECHANISMS["MD5"]
    frame = events(m).head(500).select("x", "id", "k")
    perturb = ldp_beam.Perturb(PrivacyPlan({"x": m}, keep=["k"]), key=SEED, id="id")
    rows = run(perturb | ldp_beam.Histogram("x", over(m), by=["k"]), frame.to_dicts())
    assert len(rows) == 3 * CANDIDATES
    assert sum(row.n for row in rows) == 500 * CANDIDATES
    rows = run(ldp_beam.PrivateHistogram("x", over(m), key=SEED, id="id"), frame.to_dicts())
    check([row.count for row in rows], [row.standard_error for row in rows], events(m)["which"][:500])
