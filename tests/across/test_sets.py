"""Lists: their dtypes, refused, through the command, audited. The rest is in `test_mechanisms.py`."""

import json

import polars as pl
import pyarrow as pa
from typer.testing import CliRunner

import ldp_beam
from ldp_beam.io.ndjson import parse_lines
from ldp_cli.app import app
from ldp_core import Domain, PrivacyPlan, PrivSet, audit

from ..beam.helpers import run
from ..cases import case
from .checks import check_counts, events_of_sets, true_counts

APPS = ["mail", "maps", "news", "chat", "tv"]
M = PrivSet(Domain(APPS, unmatched="other"), epsilon=2.0, most=3)
INTEGERS = PrivSet(range(70), epsilon=2.0, most=2, on_more="first")


def true(frame, m):
    return true_counts(m, frame["code"])


def test_all_dtypes_of_lists():
    for m, kinds in ((M, (pl.Enum([*APPS, "unknown"]), pl.Categorical)), (INTEGERS, (pl.Int8, pl.UInt64))):
        frame = events_of_sets(m, 6000)
        for kind in kinds:
            reports = frame.select(pl.col("x").cast(pl.List(kind)).ldp.perturb(m))
            found = reports.select(pl.col("x").ldp.histogram()).explode("x").unnest("x")
            with case(m, kind):
                check_counts(found["count"], found["standard_error"], true(frame, m))


def test_lists_that_are_refused_are_dead_letters():
    m = PrivSet(APPS, epsilon=1.0, most=2)
    lists = [["mail"], ["x"], None, ["mail", "maps", "news"], [], "mail", ["mail", 7]]
    transform = ldp_beam.Perturb(PrivacyPlan({"x": m})).with_exception_handling()

    for elements, wrong in (([{"x": items} for items in lists], 2), ([pa.record_batch({"x": pa.array(lists[:5])})], 0)):
        good, letters = run(transform, elements)
        reasons = {letter.reason: letter.count for letter in letters}
        with case(len(elements)):
            assert reasons.pop("null") == 1
            assert reasons.pop("not in the domain") == 2
            assert sum(reasons.values()) == wrong
            assert sum(1 if isinstance(made, dict) else len(made) for made in good) == 2


def test_the_command_reads_arrays_of_ndjson(tmp_path):
    m, frame = M, events_of_sets(M, 3000)
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
    check_counts([row["count"] for row in rows], [row["standard_error"] for row in rows], true(frame, m))


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
