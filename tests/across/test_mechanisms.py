"""Mechanisms through Polars and Beam, which know none of them: perturbed here, tallied there, typed, keyed.

Sketches and RAPPOR are asked about candidates. RAPPOR and longitudinal mechanisms have keyed noise only.
"""

from functools import cache
from typing import Any

import apache_beam as beam
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars
from ldp_core import (
    BlockHadamardResponse,
    CountMeanSketch,
    Domain,
    HadamardCountMeanSketch,
    HadamardResponse,
    HierarchicalHistogram,
    HybridProjectiveGeometryResponse,
    Keyed,
    LocalHashing,
    Mechanism,
    ParameterError,
    PrivacyPlan,
    PrivSet,
    ProjectiveGeometryResponse,
    RandomizedResponse,
    Secret,
    SubsetSelection,
    SummationHistogramEncoding,
    ThresholdHistogramEncoding,
)
from ldp_core.mechanisms.longitudinal.d_bit_flip import DBitFlip
from ldp_core.mechanisms.longitudinal.loloha import Loloha
from ldp_core.mechanisms.longitudinal.two_rounds import LongitudinalRandomizedResponse, LongitudinalUnaryEncoding
from ldp_core.mechanisms.sketches.rappor import Rappor

from ..beam.helpers import run
from ..beam.streams import All
from ..cases import case
from . import checks
from .checks import (
    by_key,
    check_beam_reads,
    check_combined,
    check_dead_letter,
    check_groups_merge,
    check_polars_reads,
    histogram,
    some,
)

OS = ["ios", "android", "web", "tv"]
PLAIN, OTHER, NONE = Domain(OS), Domain(OS, unmatched="other"), Domain(OS, unmatched="none")
WIDE = Domain(range(70))
RAPPOR = {"f": 0.2, "p": 0.2, "q": 0.8}
LONGITUDINAL: dict[str, Mechanism] = {
    "L-GRR": LongitudinalRandomizedResponse(OS, epsilon_infinity=3.0, epsilon_1=2.0),
    "L-OSUE": LongitudinalUnaryEncoding(NONE, epsilon_infinity=3.0, epsilon_1=2.0),
    "L-SOUE wide": LongitudinalUnaryEncoding(range(70), epsilon_infinity=3.0, epsilon_1=1.0, variant="SOUE"),
    "LOLOHA": Loloha(OTHER, epsilon_infinity=3.0, epsilon_1=2.0, g=3),
    "dBitFlip": DBitFlip(range(12), epsilon_infinity=3.0, bits=5),
}
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
    "hierarchical": HierarchicalHistogram(WIDE, epsilon=2.0),
    "CMS": CountMeanSketch(epsilon=2.0, hashes=32, width=64),
    "HCMS": HadamardCountMeanSketch(epsilon=2.0, hashes=32, width=64),
    "HCMS of integers": HadamardCountMeanSketch("int", epsilon=2.0, hashes=32, width=64),
    "RAPPOR": Rappor(bits=32, hashes=2, cohorts=8, **RAPPOR),
    # many cohorts, as the value that nobody lists collides
    "RAPPOR of integers": Rappor("int", bits=70, hashes=1, cohorts=32, **RAPPOR),
    "RAPPOR by MD5": Rappor(bits=16, hashes=2, cohorts=8, **RAPPOR, hashing="md5"),
    "sets": PrivSet(Domain(OS, unmatched="other"), epsilon=2.0, most=3),
    "sets of integers": PrivSet(WIDE, epsilon=2.0, most=2, on_more="first"),
    **LONGITUDINAL,
}
FORMATS = ("RR other", "subset wide", "OLH none", "SHE none", "CMS", "HCMS", "RAPPOR", "sets", "L-OSUE", "LOLOHA")
"""One of each format of reports: label, bits, word, row of integers, a sketch's two, RAPPOR's, and two rounds."""
CANDIDATES = dict.fromkeys(("CMS", "HCMS", "HCMS of integers"), (2, 9999, 1))
"""Of what is asked: the two most frequent values and one that nobody has; of RAPPOR six, and another is not asked."""
CANDIDATES |= {name: range(6) for name in MECHANISMS if name.startswith("RAPPOR")}
KEYED_ONLY = [name for name in MECHANISMS if name.startswith("RAPPOR") or name in LONGITUDINAL]
N = 12_000
each = pytest.mark.parametrize("name", some(MECHANISMS, *FORMATS))


def word(name: str, k: int) -> Any:
    text, number = (f"host {k}", 10 * k) if name.startswith("RAPPOR") else (f"word {k}", 10**12 + k)
    return text if MECHANISMS[name].inputs.kind == "str" else number


@cache
def events(name: str, n: int = N) -> pl.DataFrame:
    if name.startswith("sets"):
        return checks.events_of_sets(MECHANISMS[name], n)
    if name not in CANDIDATES:
        return checks.events(MECHANISMS[name], n)
    rng = np.random.default_rng(3)
    if name.startswith("RAPPOR"):
        codes = rng.choice([0, 1, 2, 3, 4, 6], n, p=[0.4, 0.25, 0.15, 0.1, 0.05, 0.05])
    else:
        codes = np.minimum(rng.geometric(0.4, n), 400)
    values = [word(name, k) for k in codes.tolist()]
    return pl.DataFrame({"x": values, "code": codes, "k": np.arange(n) % 3, "id": np.arange(n)})


def asked(name: str) -> Any:
    """The mechanism that is asked for a histogram."""
    m = MECHANISMS[name]
    return m.over([word(name, k) for k in CANDIDATES[name]]) if name in CANDIDATES else m


def noise(name: str) -> dict[str, Any]:
    return {"key": Secret.generate().shared(), "id": "id"} if name in KEYED_ONLY else {}


def check(name: str, counts: Any, errors: Any, codes: Any) -> None:
    if name not in CANDIDATES:
        checks.check_counts(counts, errors, checks.true_counts(MECHANISMS[name], codes))
        return
    true = [np.sum(np.asarray(codes) == k) for k in CANDIDATES[name]]
    for count, error, people in zip(counts, errors, true, strict=True):
        checks.check_counts([count], [error], [people])


# ---- Polars


def once(name):
    """That nobody reports twice, where reports of a person would share noise."""
    return {"repeats": 1} if noise(name) or MECHANISMS[name].memoized else {}


@each
def test_polars(name):
    m, frame = MECHANISMS[name], events(name)
    for engine in ("in-memory", "streaming"):
        lazy = frame.lazy().with_columns(ldp_polars.perturb("x", m, **noise(name)))
        reports = lazy.collect(engine=engine)
        with case(engine):
            assert reports["x"].null_count() == 0
            assert reports.schema["x"].mechanism == m
            found = histogram(reports, asked(name))
            assert found["value"].cast(pl.String).to_list() == list(asked(name).domain.texts)
            check(name, found["count"], found["standard_error"], frame["code"])
            grouped = check_groups_merge(reports, m)
            if name in CANDIDATES:  # in groups, before anybody names candidates, and merged
                later = histogram(grouped.select(pl.col("x").ldp.merge(m)), asked(name))
                assert later.equals(found)
                parts = grouped.select(pl.col("x").ldp.histogram(asked(name)))["x"].to_list()
                off = sum(row["count"] for rows in parts for row in rows) - found["count"].sum()
                assert len(parts) == 3
                assert abs(off) < 6 * np.sqrt(3) * np.linalg.norm(found["standard_error"])
            else:
                assert histogram(reports, None).equals(found)


@each
def test_keyed_and_seeded_reports_of_polars_are_those_of_the_core(name):
    m, secret, frame = MECHANISMS[name], Secret.generate(), events(name, 2000)
    for options, key in (({"key": secret, "id": "id"}, secret), ({"seed": 7, "row_id": "id"}, Secret.from_seed(7))):
        ours = frame.select(pl.col("x").ldp.perturb(m, **options))["x"]
        core = m.perturb(frame["x"].to_arrow(), randomness=Keyed(key, frame["id"].to_arrow(), column="x"))
        if name not in KEYED_ONLY or "seed" in options:
            assert ours.to_list() == core.to_pylist()


def test_what_is_refused_at_once():
    for name in KEYED_ONLY:
        m = MECHANISMS[name]
        for number, refused in enumerate(
            (
                lambda m=m: pl.col("x").ldp.perturb(m),
                lambda m=m: ldp_beam.Perturb(PrivacyPlan({"x": m})),
                lambda name=name: ldp_beam.PrivateHistogram("x", asked(name)),
            )
        ):
            with case(name, number), pytest.raises(ParameterError, match="keyed noise"):
                refused()
    for name in CANDIDATES:
        with case(name), pytest.raises(ParameterError, match="over"):
            pl.col("x").ldp.histogram(MECHANISMS[name])


# ---- Beam


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
@each
def test_beam_perturbs_and_tallies(name):
    """Histograms of private values, and reports in both layouts, which Polars tallies too."""
    m, frame, options = MECHANISMS[name], events(name), noise(name)
    batches = frame.select("x", "k", "id").to_arrow().to_batches(max_chunksize=4000)
    plan = PrivacyPlan({"x": m}, keep=["k"])
    transforms = [ldp_beam.PrivateHistogram("x", asked(name), by=["k"], **options, **once(name))]
    some = beam.Map(lambda batch: batch[:2000]).with_output_types(pa.RecordBatch)
    transforms += [some | ldp_beam.Perturb(plan, packed=packed, **options) for packed in (False, True)]
    rows, *reports = run(All(transforms), batches)
    found = by_key(rows)
    assert sorted(found) == ["0", "1", "2"]
    for key, rows in found.items():
        assert [row.value for row in rows] == asked(name).domain.arrow_values.to_pylist()
        codes = frame.filter(pl.col("k") == int(key))["code"]
        check(name, [row.count for row in rows], [row.standard_error for row in rows], codes)
    for made in reports:
        table = check_polars_reads(made, m, 6000)
        found = histogram(table, asked(name))
        codes = np.concatenate([frame["code"][k : k + 2000] for k in range(0, N, 4000)])
        check(name, found["count"], found["standard_error"], codes)


@pytest.mark.parametrize("names", [FORMATS, pytest.param({*MECHANISMS} - {*FORMATS}, marks=pytest.mark.slow)])
def test_reports_of_polars_are_tallied_by_beam(tmp_path, names):
    paths = []
    for packed in (False, True):
        paths.append(str(tmp_path / f"{packed}.parquet"))
        columns = [
            events(name, 2000).select(pl.col("x").ldp.perturb(MECHANISMS[name], packed=packed, **noise(name)))["x"]
            for name in names
        ]
        pl.DataFrame([column.alias(name) for column, name in zip(columns, names, strict=True)]).write_parquet(paths[-1])
    check_beam_reads(paths, {name: asked(name) for name in names})


@pytest.mark.parametrize("name", some(MECHANISMS, "RR other", "subset wide", "OLH none", "SHE none", "CMS", "RAPPOR"))
def test_single_records(name):
    """Dictionaries: one report each, bits or words or a number, and back."""
    frame, plan = events(name, 500), PrivacyPlan({"x": MECHANISMS[name]}, keep=["k"])
    counted = ldp_beam.Histogram("x", asked(name), by=["k"], **once(name))
    transforms = [ldp_beam.Perturb(plan, packed=packed, **noise(name)) | counted for packed in (False, True)]
    transforms += [ldp_beam.PrivateHistogram("x", asked(name), **noise(name), **once(name))]
    *both, private = run(All(transforms), frame.select("x", "k", "id").to_dicts())
    size = asked(name).domain.size
    for rows in both:
        assert len(rows) == 3 * size
        assert sum(row.n for row in rows) == 500 * size
    check(name, [row.count for row in private], [row.standard_error for row in private], frame["code"])


@pytest.mark.parametrize("name", some([*LONGITUDINAL, "sets"], "L-OSUE", "LOLOHA", "sets"))
def test_seeded_single_records_are_those_of_the_core(name):
    m, frame = MECHANISMS[name], events(name, 200).select("x", "k", "id")
    plan = PrivacyPlan({"x": m}, keep=["k", "id"], seed=11)
    transforms = [ldp_beam.Perturb(plan, id="id", packed=packed) for packed in (False, True)]
    for packed, reports in enumerate(run(All(transforms), frame.to_dicts())):
        found = {r["id"]: r["x"].tolist() if hasattr(r["x"], "tolist") else r["x"] for r in reports}
        key = Keyed(Secret.from_seed(11), frame["id"].to_arrow(), column="x")
        expected = m.perturb(frame["x"].to_arrow(), randomness=key, packed=bool(packed)).to_pylist()
        # a schema has no unsigned integers
        signed = [[w - 2**64 if w >= 2**63 else w for w in r] if isinstance(r, list) else r for r in expected]
        assert [found[i] for i in range(200)] == signed


def test_combine_fn():
    for name, m in MECHANISMS.items():
        frame = events(name, 1000)
        key = Keyed(Secret.generate(), frame["id"].to_arrow(), column="x")
        reports = m.perturb(frame["x"].to_arrow(), randomness=key)
        with case(name):
            check_combined(asked(name), reports, [reports[:600], m.tally(reports[600:700]), *reports[700:].to_pylist()])


ANY_WORD = ("RR", "subset", "THE", "sets", *LONGITUDINAL)
NOT_ANY_WORD = [name for name in MECHANISMS if not name.startswith(ANY_WORD)]


@pytest.mark.parametrize("name", some(NOT_ANY_WORD, *FORMATS))
def test_reports_that_are_none_become_dead_letters(name):
    m, frame = MECHANISMS[name], events(name, 100)
    key = Keyed(Secret.generate(), frame["id"].to_arrow(), column="x")
    reports = m.perturb(frame["x"].to_arrow(), randomness=key).to_pylist()
    # Neither entries nor a bucket, a column, a point or a cohort.
    spoiled = {"SHE": lambda: [m.entries[1] + 1] * m.domain.size, "CMS": lambda: [m.hashes, 0]}
    spoiled["RAPPOR"] = lambda: [m.cohorts, *reports[7][1:]]
    reports[7] = spoiled.get(name.split(maxsplit=1)[0], lambda: 2**64 - 1)()
    check_dead_letter(ldp_beam.Histogram("x", asked(name), **once(name)), pa.array(reports, m.reports.arrow_type()))
