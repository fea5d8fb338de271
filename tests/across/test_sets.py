"""Lists through Polars, Beam and the command: perturbed here, tallied there, keyed, refused, audited."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pyarrow as pa
from typer.testing import CliRunner

import ldp_beam
from ldp_beam.io.ndjson import parse_lines
from ldp_cli.app import app
from ldp_core import Domain, Keyed, PrivacyPlan, PrivSet, Secret, audit

from ..beam.helpers import run
from ..cases import case
from .checks import check_beam_reads, check_combined, check_counts

APPS = ["mail", "maps", "news", "chat", "tv"]
MECHANISMS = {
    "text": PrivSet(Domain(APPS, unmatched="other"), epsilon=2.0, most=3),
    "integers": PrivSet(range(70), epsilon=2.0, most=2, on_more="first"),
}
N = 6000


def events(name, n=N):
    """Lists of 0 to 3 items, some of which are there twice; and how many people have each item."""
    m, rng = MECHANISMS[name], np.random.default_rng(3)
    labels = [*m.domain.labels, *(["unknown"] if name == "text" else [])]
    weights = 0.5 ** np.minimum(np.arange(len(labels)), 5)
    rows = [rng.choice(len(labels), rng.integers(0, m.most + 1), p=weights / weights.sum()) for _ in range(n)]
    lists = [[labels[k] for k in row] for row in rows]
    if name == "text":
        lists[::50] = [None] * len(lists[::50])
    codes = [sorted({len(labels) - 1} if items is None else {labels.index(x) for x in items}) for items in lists]
    true = np.bincount(np.concatenate([np.array(row, int) for row in codes]), minlength=len(labels))
    return pl.DataFrame({"x": lists, "k": np.arange(n) % 3, "id": np.arange(n)}), true


def test_polars_in_both_engines_and_all_dtypes_of_lists():
    for name, m in MECHANISMS.items():
        frame, true = events(name)
        items = (pl.Enum([*APPS, "unknown"]), pl.Categorical) if name == "text" else (pl.Int8, pl.UInt64)
        dtypes = [pl.List(kind) for kind in items]
        for dtype in (frame.schema["x"], *dtypes):
            for engine in ("in-memory", "streaming"):
                lazy = frame.lazy().with_columns(pl.col("x").cast(dtype).ldp.perturb(m, packed=engine == "streaming"))
                reports = lazy.collect(engine=engine)
                found = reports.select(pl.col("x").ldp.histogram()).explode("x").unnest("x")
                with case(name, dtype, engine):
                    assert (reports["x"].null_count(), reports.schema["x"].mechanism) == (0, m)
                    check_counts(found["count"], found["standard_error"], true)
        keyed = frame.select(pl.col("x").ldp.perturb(m, key=(secret := Secret.generate()), id="id"))["x"]
        core = m.perturb(frame["x"].to_arrow(), randomness=Keyed(secret, frame["id"].to_arrow(), column="x"))
        assert keyed.to_list() == core.to_pylist()


def test_beam_in_batches_and_single_records(tmp_path):
    for name, m in MECHANISMS.items():
        frame, true = events(name)
        plan, options = PrivacyPlan({"x": m}, keep=["id"]), {"key": Secret.generate().shared(), "id": "id"}
        batches = frame.to_arrow().to_batches(max_chunksize=5000)
        dicts = frame.head(1000).to_dicts()
        with case(name):
            [rows] = [run(ldp_beam.PrivateHistogram("x", m), batches)]
            check_counts([row.count for row in rows], [row.standard_error for row in rows], true)
            made = run(ldp_beam.Perturb(plan, **options), dicts)
            found = {record["id"]: list(record["x"]) for record in made}
            noise = Keyed(options["key"], frame["id"].head(1000).to_arrow(), column="x", tag=None)
            expected = m.perturb(frame["x"].head(1000).to_arrow(), randomness=noise).to_pylist()
            assert [found[k] for k in range(1000)] == expected
            path = str(tmp_path / f"{name}.parquet")
            frame.select(pl.col("x").ldp.perturb(m, packed=True)).write_parquet(path)
            check_beam_reads([path], m)
            reports = m.perturb(frame["x"].head(1000).to_arrow())
            check_combined(m, reports, [reports[:600], m.tally(reports[600:700]), *reports[700:].to_pylist()])


def test_lists_that_are_refused_are_dead_letters():
    m = PrivSet(APPS, epsilon=1.0, most=2)
    lists = [["mail"], ["x"], None, ["mail", "maps", "news"], [], "mail", ["mail", 7]]
    transform = ldp_beam.Perturb(PrivacyPlan({"x": m})).with_exception_handling()

    for elements, wrong in (
        ([{"x": items} for items in lists], 2),
        ([pa.record_batch({"x": pa.array(lists[:5])})], 0),
    ):
        good, letters = run(transform, elements)
        reasons = {letter.reason: letter.count for letter in letters}
        with case(len(elements)):
            assert reasons.pop("null") == 1
            assert reasons.pop("not in the domain") == 2
            assert sum(reasons.values()) == wrong
            assert sum(1 if isinstance(made, dict) else len(made) for made in good) == 2


def test_the_command_reads_arrays_of_ndjson(tmp_path):
    m = MECHANISMS["text"]
    frame, true = events("text", 3000)
    plan, data, out = tmp_path / "plan.toml", tmp_path / "events.ndjson", tmp_path / "reports.parquet"
    plan.write_text(PrivacyPlan({"x": m}).to_toml())
    data.write_text("".join(json.dumps({"x": items}) + "\n" for items in frame["x"].to_list()))
    for words in (
        ["plan", "check", str(plan), str(data)],
        ["perturb", str(data), str(out), "--plan", str(plan)],
        ["estimate", str(out), "--json"],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["columns"]["x"]["estimates"]
    check_counts([row["count"] for row in rows], [row["standard_error"] for row in rows], true)


def test_beam_reads_arrays_of_ndjson():
    schema = pa.schema([("x", pa.list_(pa.string()))])
    lines = [b'{"x": ["mail", null]}', b'{"x": []}', b'{"x": null}', b'{"x": "mail"}', b'{"x": ["mail", 7]}']
    batches, numbers, bad = parse_lines(lines, schema)
    assert [row["x"] for batch in batches for row in batch.to_pylist()] == [["mail", None], [], None]
    assert numbers.tolist() == [0, 1, 2]
    assert bad.total() == 2


def test_the_audit_finds_no_fault_and_finds_a_planted_one():
    m = PrivSet(range(6), epsilon=1.0, most=2)

    def by_polars(values):
        return pl.DataFrame({"x": values}).select(pl.col("x").ldp.perturb(m, typed=False))["x"].to_arrow()

    for box in (None, by_polars):
        found = audit(m, box, trials=20_000)
        assert 0.8 < found.lower_bound < 1.0
    marked = audit(m, lambda values: PrivSet(range(6), epsilon=1.5, most=2).perturb(values), trials=50_000)
    assert marked.broken
