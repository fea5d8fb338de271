"""Frequency oracles through Polars and Beam, which know none of them: perturbed here, tallied there, typed, keyed."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars
from ldp_core import (
    BlockHadamardResponse,
    Domain,
    HadamardResponse,
    HybridProjectiveGeometryResponse,
    Keyed,
    LocalHashing,
    Mechanism,
    PrivacyPlan,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    Secret,
    SubsetSelection,
    SummationHistogramEncoding,
    ThresholdHistogramEncoding,
)

from ..beam.helpers import run
from .checks import (
    by_key,
    check_beam_reads,
    check_combined,
    check_counts,
    check_dead_letter,
    check_groups_merge,
    check_polars_reads_beam,
    events,
    histogram,
    some,
    true_counts,
)

OS = ["ios", "android", "web", "tv"]
PLAIN, OTHER, NONE = Domain(OS), Domain(OS, unmatched="other"), Domain(OS, unmatched="none")
WIDE = Domain(range(70))
MECHANISMS: dict[str, Mechanism] = {
    "RR other": RandomizedResponse(OTHER, epsilon=1.0),
    "subset": SubsetSelection(PLAIN, epsilon=1.0),
    "subset other": SubsetSelection(OTHER, epsilon=1.0, k=2),
    "subset wide": SubsetSelection(WIDE, epsilon=2.0),
    "OLH": LocalHashing(PLAIN, epsilon=1.0),
    "OLH none": LocalHashing(NONE, epsilon=1.0),
    "BLH wide": LocalHashing(WIDE, epsilon=2.0, variant="binary"),
    "FLH other": LocalHashing(OTHER, epsilon=1.0, variant="fast"),
    "FLH wide": LocalHashing(WIDE, epsilon=2.0, variant="fast"),
    "Hadamard none": HadamardResponse(NONE, epsilon=1.0),
    "Hadamard wide": HadamardResponse(WIDE, epsilon=2.0),
    "block Hadamard none": BlockHadamardResponse(NONE, epsilon=1.0, blocks=2),
    "block Hadamard wide": BlockHadamardResponse(WIDE, epsilon=2.0),
    "THE none": ThresholdHistogramEncoding(NONE, epsilon=1.0),
    "THE wide": ThresholdHistogramEncoding(WIDE, epsilon=2.0),
    "SHE none": SummationHistogramEncoding(NONE, epsilon=1.0),
    "SHE wide": SummationHistogramEncoding(WIDE, epsilon=2.0, unit=10),
    "PGR other": ProjectiveGeometryResponse(OTHER, epsilon=1.0),
    "PGR none": ProjectiveGeometryResponse(NONE, epsilon=1.0, field=3),
    "PGR wide": ProjectiveGeometryResponse(WIDE, epsilon=2.0),
    "HPGR none": HybridProjectiveGeometryResponse(NONE, epsilon=2.0, field=2),
    "HPGR wide": HybridProjectiveGeometryResponse(WIDE, epsilon=2.0, field=3),
}
FORMATS = {"label": "RR other", "bits": "subset wide", "word": "OLH none", "row of integers": "SHE none"}
N = 30_000
each = pytest.mark.parametrize("name", some(MECHANISMS, *FORMATS.values()))
packed_or_not = pytest.mark.parametrize("packed", [False, True])


# ---- Polars


@each
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars(name, engine):
    m = MECHANISMS[name]
    frame = events(m, N)
    reports = frame.lazy().with_columns(ldp_polars.perturb("x", m)).collect(engine=engine)
    assert reports["x"].null_count() == 0
    found = histogram(reports, m)
    assert found["value"].cast(pl.String).to_list() == list(m.domain.texts)
    check_counts(found["count"], found["standard_error"], true_counts(m, frame["code"]))
    check_groups_merge(reports, m)


@pytest.mark.parametrize(
    ("m", "half"),
    [
        [LocalHashing(PLAIN, epsilon=x, variant="binary") for x in (1.0, 0.5)],
        [ProjectiveGeometryResponse(WIDE, epsilon=x, field=7) for x in (2.0, 1.0)],
    ],
)
@pytest.mark.filterwarnings("ignore::ldp_core.LdpWarning")  # no honest reports
def test_a_wrong_mechanism_is_found_in_polars(m, half):
    """The check of the estimates has power: reports with half of the epsilon, debiased with the whole."""
    frame = events(m, N)
    found = histogram(frame.select(pl.col("x").ldp.perturb(half, typed=False)), m)
    with pytest.raises(AssertionError, match="standard errors"):
        check_counts(found["count"], found["standard_error"], true_counts(m, frame["code"]))


@each
def test_typed_reports_carry_their_mechanism(name):
    m = MECHANISMS[name]
    reports = events(m, 1000).select(pl.col("x").ldp.perturb(m))
    assert reports.schema["x"].mechanism == m
    assert reports.select(pl.col("x").ldp.histogram()).item().len() == m.domain.size


@each
def test_keyed_reports_of_polars_are_those_of_the_core(name):
    m, secret = MECHANISMS[name], Secret.generate()
    frame = events(m, 2000)
    ours = frame.select(pl.col("x").ldp.perturb(m, key=secret, id="id"))["x"]
    core = m.perturb(frame["x"].to_arrow(), randomness=Keyed(secret, frame["id"].to_arrow(), column="x"))
    assert ours.to_list() == core.to_pylist()


# ---- Beam


@each
def test_beam_perturbs_and_tallies(name):
    m = MECHANISMS[name]
    frame = events(m, N)
    batches = frame.select("x", "k").to_arrow().to_batches(max_chunksize=10_000)
    found = by_key(run(ldp_beam.PrivateHistogram("x", m, by=["k"]), batches))
    assert sorted(found) == ["0", "1", "2"]
    for key, rows in found.items():
        assert [row.value for row in rows] == m.domain.arrow_values.to_pylist()
        true = true_counts(m, frame.filter(pl.col("k") == int(key))["code"])
        check_counts([row.count for row in rows], [row.standard_error for row in rows], true)


@each
@packed_or_not
def test_reports_of_polars_are_tallied_by_beam_and_the_other_way_round(tmp_path, name, packed):
    m, path = MECHANISMS[name], str(tmp_path / "reports.parquet")
    frame = events(m, 6000).select("x", "k")
    frame.select(pl.col("x").ldp.perturb(m, packed=packed), "k").write_parquet(path)
    check_beam_reads(path, m)
    check_polars_reads_beam(frame, PrivacyPlan({"x": m}, keep=["k"]), packed=packed)


@each
@packed_or_not
def test_single_records(name, packed):
    """Dictionaries: one report each, bits or words or a number, and back."""
    m = MECHANISMS[name]
    perturb = ldp_beam.Perturb(PrivacyPlan({"x": m}, keep=["k"]), packed=packed)
    rows = run(perturb | ldp_beam.Histogram("x", m, by=["k"]), events(m, 500).select("x", "k").to_dicts())
    assert len(rows) == 3 * m.domain.size
    assert sum(row.n for row in rows) == 500 * m.domain.size


@each
def test_combine_fn(name):
    m = MECHANISMS[name]
    reports = m.perturb(events(m, 1000)["x"].to_arrow())
    check_combined(m, reports, [reports[:600], *reports[600:].to_pylist()])


NOT_ANY_WORD = [name for name, m in MECHANISMS.items() if not name.startswith(("RR", "subset", "THE"))]


@pytest.mark.parametrize("name", some(NOT_ANY_WORD, *FORMATS.values()))
def test_reports_that_are_none_become_dead_letters(name):
    m = MECHANISMS[name]
    reports = m.perturb(events(m, 100)["x"].to_arrow()).to_pylist()
    # Neither entries, nor a bucket, a column or a point.
    reports[7] = [m.entries[1] + 1] * m.domain.size if name.startswith("SHE") else 2**64 - 1
    check_dead_letter(ldp_beam.Histogram("x", m), pa.array(reports, m.reports.arrow_type()))
