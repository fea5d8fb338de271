"""Typed reports: the mechanism travels with the column, and another one's reports do not mix with it."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pyarrow.parquet as pq
import pytest

import ldp_polars
from ldp_core import (
    Domain,
    DtypeError,
    MechanismMismatchError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
)

LABELS = ["ios", "android", "web"]
MECHANISMS = {
    "bits": UnaryEncoding(LABELS, epsilon=1.0),
    "wide bits": UnaryEncoding(Domain(range(70), unmatched="none"), epsilon=1.0, variant="symmetric"),
    "p and q": UnaryEncoding.from_probabilities(LABELS, p=0.7, q=0.2),
    "text": RandomizedResponse(Domain(LABELS, unmatched="other"), epsilon=1.0),
    "numbers": RandomizedResponse(range(5), epsilon=1.0),
    "coins": RandomizedResponse.from_coins(truth=0.4, yes=0.3),
}
N = 600


@pytest.fixture(params=MECHANISMS)
def mechanism(request):
    return MECHANISMS[request.param]


def frame(mechanism):
    labels = list(mechanism.domain.labels)
    return pl.DataFrame({"x": [labels[i % len(labels)] for i in range(N)], "g": [i % 3 for i in range(N)]})


@pytest.mark.parametrize("packed", [False, True])
def test_estimates_need_no_argument_on_any_engine(mechanism, packed, run):
    reports = frame(mechanism).select("g", ldp_polars.perturb("x", mechanism, packed=packed, typed=True))
    assert reports.schema["x"] == ldp_polars.Report(mechanism, packed=packed)
    assert reports.schema["x"].mechanism == mechanism
    plain = reports.with_columns(pl.col("x").ext.storage())
    for query, expected in [
        (
            lambda f: f.select(pl.col("x").ldp.histogram(confidence=0.9)),
            plain.select(pl.col("x").ldp.histogram(mechanism, confidence=0.9)),
        ),
        (lambda f: f.select(pl.col("x").ldp.tally()), plain.select(pl.col("x").ldp.tally(mechanism))),
        (
            lambda f: f.group_by("g").agg(pl.col("x").ldp.histogram()).sort("g"),
            plain.group_by("g").agg(pl.col("x").ldp.histogram(mechanism)).sort("g"),
        ),
        (
            lambda f: f.sort("g").select(pl.col("x").ldp.tally(mechanism)),
            plain.select(pl.col("x").ldp.tally(mechanism)),
        ),
    ]:
        assert run(reports, query).equals(expected)


def test_the_schema_is_known_without_running(mechanism, draws):
    lazy = frame(mechanism).lazy().select(ldp_polars.perturb("x", mechanism, typed=True))
    assert lazy.collect_schema()["x"] == ldp_polars.Report(mechanism)
    assert (
        lazy.select(pl.col("x").ldp.histogram()).collect_schema()["x"]
        == frame(mechanism).select(ldp_polars.histogram(ldp_polars.perturb("x", mechanism), mechanism)).schema["x"]
    )
    assert sum(draws) == N  # of the eager line only


@pytest.mark.parametrize("kind", ["parquet", "ipc"])
def test_the_type_survives_files_and_other_readers(mechanism, kind, tmp_path):
    path = tmp_path / f"reports.{kind}"
    reports = frame(mechanism).lazy().select("g", ldp_polars.perturb("x", mechanism, typed=True))
    getattr(reports, f"sink_{kind}")(path)
    back = getattr(pl, f"read_{kind}")(path)
    assert back.schema["x"] == ldp_polars.Report(mechanism)
    assert back.select(pl.col("x").ldp.tally()).item()["n"] == N
    lazy = getattr(pl, f"scan_{kind}")(path).group_by("g").agg(pl.col("x").ldp.tally().struct.field("n"))
    assert lazy.collect()["n"].to_list() == [N // 3] * 3
    if kind == "parquet":
        plain = pq.read_table(path)["x"]
        assert mechanism.tally(plain) == mechanism.tally(back["x"].ext.storage().to_arrow())


REGISTERED = """
import sys
import polars as pl, pyarrow as pa, pyarrow.parquet as pq
import apache_beam as beam
import ldp_beam, ldp_polars
from ldp_core import Mechanism, MechanismMismatchError, RandomizedResponse

class Report(pa.ExtensionType):
    def __init__(self, storage, metadata):
        self.metadata = metadata
        super().__init__(storage, "ldp.report")
    def __arrow_ext_serialize__(self):
        return self.metadata
    @classmethod
    def __arrow_ext_deserialize__(cls, storage, metadata):
        return cls(storage, metadata)

if sys.argv[2] == "registered":
    pa.register_extension_type(Report(pa.bool_(), b""))
table = pq.read_table(sys.argv[1])
assert isinstance(table.schema.field("x").type, Report) == (sys.argv[2] == "registered")
frame = pl.read_parquet(sys.argv[1])
mechanism = frame.schema["x"].mechanism
for data in (table, frame.to_arrow(), pa.table(frame)):
    back = pl.from_arrow(data)
    assert back.schema == frame.schema and back.equals(frame)
    assert mechanism.tally(data["x"]) == mechanism.tally(table["x"])
    assert back.select(pl.col("x").ldp.tally()).item()["counters"] == mechanism.tally(table["x"]).counters.tolist()
    with beam.Pipeline("FnApiRunner") as p:
        rows = p | beam.Create(data.to_batches()) | ldp_beam.Histogram("x", mechanism)
        rows | beam.combiners.ToList() | beam.Map(lambda rows: print(rows[0].n))
    try:
        with beam.Pipeline("FnApiRunner") as p:
            p | beam.Create(data.to_batches()) | ldp_beam.Histogram("x", RandomizedResponse(epsilon=0.123))
    except Exception as error:
        assert "MechanismMismatchError" in str(error) or isinstance(error, MechanismMismatchError), error
    else:
        raise AssertionError("tallied with another mechanism")
"""


@pytest.mark.parametrize("known", ["registered", "unknown"])
def test_the_type_survives_pyarrow(mechanism, known, tmp_path):
    """Whether or not pyarrow knows the type: there and back, tallied by the core and by Beam, and never mistaken."""
    path = tmp_path / "reports.parquet"
    frame(mechanism).select("g", ldp_polars.perturb("x", mechanism, typed=True)).write_parquet(path)
    done = subprocess.run(
        [sys.executable, "-c", REGISTERED, str(path), known], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(N)] * 3


def test_seeded_reports_say_so(mechanism):
    df = frame(mechanism)
    plan = PrivacyPlan({"x": mechanism})
    seeded = df.ldp.perturb(plan.seeded(7), typed=True)
    assert seeded.schema["x"].seeded
    assert seeded.equals(df.ldp.perturb(plan, typed=True, seed=7))
    assert not df.ldp.perturb(plan, typed=True).schema["x"].seeded
    assert seeded["x"].ext.storage().equals(df.ldp.perturb(plan.seeded(7), typed=True)["x"].ext.storage())
    with pytest.raises(pl.exceptions.SchemaError):
        pl.concat([seeded, df.ldp.perturb(plan, typed=True)])
    with pytest.raises(PlanError, match="not private"):
        seeded.ldp.histograms(plan)
    assert seeded.ldp.histograms(plan.seeded(1)).height == mechanism.domain.size


def test_reports_of_two_mechanisms_do_not_mix(mechanism):
    other = RandomizedResponse(mechanism.domain, epsilon=1.5) if mechanism.domain.unmatched != "none" else None
    other = UnaryEncoding(mechanism.domain, epsilon=1.5) if isinstance(mechanism, UnaryEncoding) else other
    df = frame(mechanism)
    mine, theirs = (df.select(ldp_polars.perturb("x", m, typed=True)) for m in (mechanism, other))
    with pytest.raises(pl.exceptions.SchemaError):
        pl.concat([mine, theirs])
    for name in ("histogram", "tally"):
        with pytest.raises(MechanismMismatchError, match="column 'x'"):
            theirs.select(getattr(ldp_polars, name)("x", mechanism))
    with pytest.raises(MechanismMismatchError, match="column 'x'"):
        theirs.ldp.histograms(PrivacyPlan({"x": mechanism}))


def test_untyped_reports_want_the_mechanism():
    reports = frame(MECHANISMS["bits"]).select(ldp_polars.perturb("x", MECHANISMS["bits"]))
    for name in ("histogram", "tally"):
        with pytest.raises(DtypeError, match="column 'x': pass the mechanism"):
            reports.lazy().select(getattr(ldp_polars, name)("x")).collect_schema()


def test_typed_plans_and_keyed_noise():
    df = frame(MECHANISMS["bits"])
    plan = PrivacyPlan({"x": MECHANISMS["bits"]}, keep=["g"])
    df = df.with_row_index("user")
    noise = {"key": Secret(bytes(32)), "id": "user"}
    typed, plain = df.ldp.perturb(plan, typed=True, **noise), df.ldp.perturb(plan, **noise)
    assert typed["x"].ext.storage().equals(plain["x"])
    assert typed.ldp.histograms(plan, by="g").equals(plain.ldp.histograms(plan, by="g"))
    assert typed.select(pl.col("x").ldp.histogram()).equals(plain.select(pl.col("x").ldp.histogram(plan["x"])))
