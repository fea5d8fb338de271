"""Beam YAML: what the transforms do in a pipeline of plain text, in batch and streaming, and what is refused before."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("jinja2", reason="needs Beam YAML: pip install 'ldp-telemetry[yaml]'")
pytest.importorskip("jsonschema", reason="needs Beam YAML: pip install 'ldp-telemetry[yaml]'")

import yaml as pyyaml
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.yaml.yaml_provider import load_providers, merge_providers
from apache_beam.yaml.yaml_transform import YamlTransform, expand_jinja, expand_pipeline

import ldp_beam
from ldp_beam.yaml import (
    PROVIDERS,
    LdpBoundContributions,
    LdpDeduplicate,
    LdpDistribution,
    LdpHeavyHitters,
    LdpHistogram,
    LdpMean,
    LdpPerturb,
    LdpPrivacyLedger,
    LdpPrivateHeavyHitters,
    LdpPrivateHistogram,
    LdpPrivateMean,
    LdpReadParquet,
)
from ldp_core import (
    DomainError,
    DtypeError,
    InputError,
    LdpError,
    Mechanism,
    ParameterError,
    PlanError,
    PrivacyPlan,
    Rappor,
    Secret,
)

from .helpers import Collector, table

EXAMPLES = Path(__file__).parents[2] / "pipelines" / "yaml"
SECRET_ENV = "LDP_TEST_YAML_SECRET"

# with probability above 1 - 1e-15 these report the truth
BITS = {"mechanism": "unary_encoding", "variant": "symmetric", "epsilon": 120.0}
OS = {**BITS, "domain": ["ios", "android", "web"]}
COIN = {"mechanism": "randomized_response", "epsilon": 80.0, "domain": [False, True]}
WIDE = {**BITS, "domain": list(range(70))}
# reports whether a number was 0 or 10, which the numbers of these tests are
NUMBER = {"mechanism": "one_bit_mean", "epsilon": 80.0, "domain": {"low": 0, "high": 10}}
SKETCH = {"mechanism": "hadamard_count_mean_sketch", "epsilon": 1.0}
LETTERS = {"domain": {"kind": "str"}, "alphabet": "abcdefghijklmnopqrstuvwxyz", "length": 4}
WORD = {"mechanism": "heavy_hitters", "epsilon": 5.0, **LETTERS, "levels": [2, 4], "rows": 8}


def expand(transforms, **outputs):
    """Run a pipeline of these transforms; the elements that come out of the last one, or of the outputs named."""
    pipeline = {"type": "chain", "transforms": transforms}
    if outputs:
        pipeline = {"type": "composite", "transforms": transforms, "output": outputs}
    spec = {"pipeline": pipeline, "providers": [{"include": str(PROVIDERS)}]}
    p = beam.Pipeline("FnApiRunner", options=PipelineOptions([], pickle_library="cloudpickle"))
    out = expand_pipeline(p, pyyaml.safe_dump(spec), validate_schema="none" if outputs else "generic")
    outputs = out if isinstance(out, dict) else {"out": out}
    collectors = {name: Collector() for name in outputs}
    for name, pcoll in outputs.items():
        _ = pcoll | f"Collect {name}" >> collectors[name]
    p.run().wait_until_finish()
    found = {name: collector.elements for name, collector in collectors.items()}
    return found if len(found) > 1 else next(iter(found.values()))


def create(rows):
    return {"type": "Create", "config": {"elements": rows}}


def ns_and_counts(rows):
    return {
        place: {value: (round(row.count, 6), row.n) for value, row in values.items() if round(row.count, 6)}
        for place, values in table(rows).items()
    }


WHOLE = (beam.utils.timestamp.MIN_TIMESTAMP.micros / 1e6, beam.utils.timestamp.MAX_TIMESTAMP.micros / 1e6)


@pytest.mark.parametrize("packed", [True, False])
def test_reports_are_rows_that_histograms_read(packed):
    # value 63 sets the top bit of a word, which a Beam schema can only say as a negative number
    plan = {"keep": ["t"], "columns": {"v": WIDE, "c": COIN}}
    rows = [{"v": v, "c": v > 64, "t": 1.0 * v, "user": f"u{v}"} for v in (0, 1, 63, 63, 64, 69)]
    perturb = {"type": "LdpPerturb", "config": {"plan": plan, "packed": packed}}
    reports = expand([create(rows), perturb])
    assert {tuple(sorted(r._asdict() if hasattr(r, "_asdict") else r.as_dict())) for r in reports} == {("c", "t", "v")}
    if packed:
        assert sorted(tuple(r.v) for r in reports) == sorted(
            [(1, 0), (2, 0), (-(2**63), 0), (-(2**63), 0), (0, 1), (0, 32)]
        )
    else:
        assert {len(r.v) for r in reports} == {70}
        assert all(type(bit) is bool for r in reports for bit in r.v)
    histogram = {"type": "LdpHistogram", "config": {"column": "v", "mechanism": WIDE}}
    found = ns_and_counts(expand([create(rows), perturb, histogram]))
    assert found == {WHOLE: {"0": (1, 6), "1": (1, 6), "63": (2, 6), "64": (1, 6), "69": (1, 6)}}
    histogram = {"type": "LdpHistogram", "config": {"column": "c", "plan": plan, "window": "64s", "event_time": "t"}}
    found = ns_and_counts(expand([create(rows), perturb, histogram]))
    assert found == {(0, 64): {"false": (4, 4)}, (64, 128): {"false": (1, 2), "true": (1, 2)}}


def test_reports_have_the_schema_of_the_plan():
    domain = ["a", "b"]
    plan = PrivacyPlan.from_dict(
        {
            "keep": ["t"],
            "columns": {
                "bits": {**BITS, "domain": domain},
                "text": {"mechanism": "randomized_response", "epsilon": 1.0, "domain": domain},
                "number": {"mechanism": "randomized_response", "epsilon": 1.0, "domain": [1, 2]},
                "coin": COIN,
                "mean": {"mechanism": "piecewise", "epsilon": 1.0, "domain": {"low": 0, "high": 1}},
                "word": WORD,
            },
        }
    )
    p = beam.Pipeline("FnApiRunner")
    rows = p | beam.Create([beam.Row(bits="a", text="a", number=1, coin=True, mean=0.5, word="rome", t=1.0)])
    for packed, word in ((True, np.int64), (False, bool)):
        out = rows | f"{packed}" >> LdpPerturb(plan=plan.to_dict(), packed=packed)
        assert isinstance(out.element_type, RowTypeConstraint)
        fields = dict(named_fields_from_element_type(out.element_type))
        assert list(fields) == ["bits", "text", "number", "coin", "mean", "word", "t"]
        assert fields["mean"] == fields["word"] == np.int64
        assert fields["bits"].__args__ == (word,)
        assert [fields[name] for name in ("text", "number", "coin", "t")] == [str, np.int64, bool, np.float64]
    out = rows | LdpPrivateHistogram(column="coin", mechanism=COIN)
    assert out.element_type is ldp_beam.HistogramRow
    assert (rows | LdpPrivateHeavyHitters(column="word", mechanism=WORD, k=1)).element_type is ldp_beam.HistogramRow
    assert (rows | LdpPrivateMean(column="mean", plan=plan.to_dict())).element_type is ldp_beam.MeanRow


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {WHOLE: {"ios": (3, 4), "web": (1, 4)}}),
        (
            {"window": 10, "event_time": "t"},
            {(0, 10): {"ios": (2, 2)}, (10, 20): {"web": (1, 1)}, (20, 30): {"ios": (1, 1)}},
        ),
        (
            {"window": "10s", "event_time": "t", "by": ["c"]},
            {
                (0, 10, "fr"): {"ios": (1, 1)},
                (0, 10, "it"): {"ios": (1, 1)},
                (10, 20, "it"): {"web": (1, 1)},
                (20, 30, "fr"): {"ios": (1, 1)},
            },
        ),
        (
            {"window": {"type": "sliding", "size": "20s", "period": "10s"}, "event_time": "t"},
            {
                (-10, 10): {"ios": (2, 2)},
                (0, 20): {"ios": (2, 3), "web": (1, 3)},
                (10, 30): {"ios": (1, 2), "web": (1, 2)},
                (20, 40): {"ios": (1, 1)},
            },
        ),
        (
            {"window": {"type": "sessions", "gap": 9}, "event_time": "t"},
            {(1, 21): {"ios": (2, 3), "web": (1, 3)}, (25, 34): {"ios": (1, 1)}},
        ),
        (
            {"window": {"type": "fixed", "size": 15}, "event_time": "t", "fill": [0, "1970-01-01T00:00:46+00:00"]},
            {(0, 15): {"ios": (2, 3), "web": (1, 3)}, (15, 30): {"ios": (1, 1)}, (30, 45): {}, (45, 60): {}},
        ),
    ],
    ids=["whole", "fixed", "by", "sliding", "sessions", "fill"],
)
def test_private_histograms_of_rows(options, expected):
    rows = [
        {"os": os, "t": t, "c": c}
        for os, t, c in [("ios", 1, "fr"), ("ios", 9, "it"), ("web", 12, "it"), ("ios", 25, "fr")]
    ]
    histogram = {"type": "LdpPrivateHistogram", "config": {"column": "os", "mechanism": OS, **options}}
    assert ns_and_counts(expand([create(rows), histogram])) == expected


NUMBERS = [{"x": x, "t": t, "c": c} for x, t, c in [(0.0, 1, "fr"), (10.0, 9, "it"), (10.0, 12, "it"), (0.0, 19, "it")]]


@pytest.mark.parametrize("direct", [True, False])
def test_means(direct):
    options = {"column": "x", "mechanism": NUMBER, "window": "10s", "event_time": "t", "by": ["c"], "confidence": 0.9}
    plan = {"keep": ["t", "c"], "columns": {"x": NUMBER}}
    steps = [{"type": "LdpPrivateMean", "config": options}]
    if not direct:
        steps = [{"type": "LdpPerturb", "config": {"plan": plan}}, {"type": "LdpMean", "config": options}]
    fields = {"mean": "mean", "n": "n", "wide": "high - low > 0", "confidence": "confidence"}
    start = {"callable": "lambda row: row.window_start.micros // 10**6 if row.key['c'] == 'it' else -1"}
    fields = {"language": "python", "fields": {**fields, "start": start}}
    rows = expand([create(NUMBERS), *steps, {"type": "MapToFields", "config": fields}])
    found = [(round(row.mean, 6), row.n, row.wide, row.confidence, row.start) for row in rows]
    assert sorted(found) == [(0.0, 1, True, 0.9, -1), (5.0, 2, True, 0.9, 10), (10.0, 1, True, 0.9, 0)]


@pytest.mark.parametrize("direct", [True, False])
def test_distributions(direct):
    wave = {"mechanism": "square_wave", "epsilon": 50.0, "domain": {"low": 0, "high": 10}, "buckets": 2}
    options = {"column": "x", "mechanism": wave, "buckets": 2, "method": "em", "confidence": 0.9}
    steps = [{"type": "LdpPrivateDistribution", "config": options}]
    if not direct:
        perturb = {"type": "LdpPerturb", "config": {"plan": {"columns": {"x": wave}}}}
        steps = [perturb, {"type": "LdpDistribution", "config": options}]
    rows = expand([create(NUMBERS), *steps])
    found = [(row.left, row.right, round(row.frequency, 6), row.n, row.confidence) for row in rows]
    assert sorted(found) == [(0.0, 5.0, 0.5, 4, 0.9), (5.0, 10.0, 0.5, 4, 0.9)]


@pytest.mark.parametrize("direct", [True, False])
def test_heavy_hitters(direct):
    words = [{"x": word} for word in ["rome"] * 3000 + ["oslo"] * 2000 + ["bern"]]
    config = {"column": "x", "mechanism": WORD, "k": 5, "confidence": 0.999999}
    steps = [{"type": "LdpPrivateHeavyHitters", "config": config}]
    if not direct:
        config = {"column": "x", "plan": {"columns": {"x": WORD}}, "k": 5, "threshold": 1000}
        perturb = {"type": "LdpPerturb", "config": {"plan": {"columns": {"x": WORD}}}}
        steps = [perturb, {"type": "LdpHeavyHitters", "config": config}]
    rows = expand([create(words), *steps])
    # 1000 are 7 standard errors and more (p = 0.74, q = 1 / 53, about half of the reports at a level)
    assert [(row.value, row.n) for row in rows] == [("rome", 5001), ("oslo", 5001)]
    for row, true in zip(rows, (3000, 2000), strict=True):
        assert abs(row.count - true) < 6.5 * row.standard_error < 900  # 1e-10


PEOPLE = [
    {"user": user, "os": os, "t": t} for user, os, t in [(1, "ios", 1), (1, "web", 2), (1, "ios", 61), (2, "ios", 3)]
]
TWICE = {"columns": {"os": {**OS, "epsilon": 0.5}}}


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        (
            "LdpBoundContributions",
            {"per_window": 1, "window": "1m", "event_time": "t"},
            {(1, 1): 1, (1, 61): 1, (2, 3): 1},
        ),
        ("LdpBoundContributions", {"per_window": 1, "window": {"type": "global"}}, {1: 1, 2: 1}),
        ("LdpDeduplicate", {"within": "1m", "event_time": "t"}, {(1, 1): 1, (1, 61): 1, (2, 3): 1}),
        ("LdpPrivacyLedger", {"plan": TWICE, "budget": "3/2"}, {1: 3, 2: 1}),
        ("LdpPrivacyLedger", {"plan": TWICE, "budget": 1}, {1: 2, 2: 1}),
        ("LdpPrivacyLedger", {"plan": TWICE, "budget": 0.5, "per": "1m", "event_time": "t"}, {1: 2, 2: 1}),
    ],
)
def test_limits_of_persons(kind, config, expected):
    passed = expand([create(PEOPLE), {"type": kind, "config": {"id": "user", "drop_id": False, **config}}])
    by_time = any(isinstance(key, tuple) for key in expected)
    found = [(row.user, row.t) if by_time else row.user for row in passed]
    assert {key: found.count(key) for key in found} == expected


def test_limits_drop_the_id_and_count_what_they_drop():
    config = {"id": "user", "per_window": 1, "error_handling": {"output": "over"}}
    limit = {"type": "LdpBoundContributions", "name": "Limit", "input": "Create", "config": config}
    perturb = {
        "type": "LdpPerturb",
        "name": "Perturb",
        "input": "Limit.good",
        "config": {"plan": {"columns": {"os": OS}}},
    }
    found = expand([create(PEOPLE), limit, perturb], good="Perturb", over="Limit.over")
    assert len(found["good"]) == 2
    assert [tuple(letter) for letter in found["over"]] == [("user", "over the limit", 2)]
    p = beam.Pipeline("FnApiRunner")
    rows = p | beam.Create([beam.Row(**row) for row in PEOPLE])
    out = rows | LdpDeduplicate(id="user", within="1h")
    assert dict(named_fields_from_element_type(out.element_type)) == {"os": str, "t": np.int64}
    out = rows | "Kept" >> LdpDeduplicate(id="user", within="1h", drop_id=False)
    assert list(dict(named_fields_from_element_type(out.element_type))) == ["user", "os", "t"]


def test_unusable_rows_are_counted_in_an_output_of_their_own():
    rows = [{"os": "ios"}, {"os": "symbian"}, {"os": None}, {"os": "ios"}, {"os": "symbian"}]
    for kind in ("LdpPerturb", "LdpPrivateHistogram"):
        what = {"plan": {"columns": {"os": OS}}} if kind == "LdpPerturb" else {"column": "os", "mechanism": OS}
        job = {"type": kind, "name": "Ldp", "input": "Create", "config": {**what, "error_handling": {"output": "bad"}}}
        found = expand([create(rows), job], good="Ldp.good", bad="Ldp.bad")
        assert sorted(map(tuple, found["bad"])) == [("os", "not in the domain", 2), ("os", "null", 1)]
        if kind == "LdpPerturb":
            assert len(found["good"]) == 2
        else:
            assert ns_and_counts(found["good"]) == {WHOLE: {"ios": (2, 2)}}


def test_files_get_what_comes_at_the_end_of_a_bundle(tmp_path):
    """Beam 2.77 loses what a DoFn puts out in ``finish_bundle`` on its way into a DoFn with ``process_batch``."""
    rows = [{"crashed": True}, {"crashed": False}, {"crashed": None}]
    config = {"plan": {"columns": {"crashed": COIN}}, "stabilize": False, "error_handling": {"output": "bad"}}
    perturb = {"type": "LdpPerturb", "name": "Ldp", "input": "Create", "config": config}
    write = [
        {"type": "WriteToJson", "name": name, "input": f"Ldp.{name}", "config": {"path": str(tmp_path / name)}}
        for name in ("good", "bad")
    ]
    expand([create(rows), perturb, *write], good="Ldp.good")
    assert sorted(row["crashed"] for row in lines(tmp_path, "good*")) == [False, True]
    assert lines(tmp_path, "bad*") == [{"column": "crashed", "reason": "null", "count": 1}]


def a_secret() -> Secret:
    return Secret(bytes(range(32)))


def test_keyed_noise_is_that_of_the_secret_which_does_not_travel(tmp_path, monkeypatch):
    plan = {"columns": {"os": {**OS, "epsilon": 1.0}}}
    rows = [{"os": ["ios", "android", "web"][i % 3], "user": f"user {i}"} for i in range(200)]
    mechanism = Mechanism.from_dict(plan["columns"]["os"])
    batch = pa.RecordBatch.from_pylist(rows)
    reports = PrivacyPlan({"os": mechanism}).perturb(batch, packed=True, key=a_secret(), id=batch["user"])
    expected = sorted(tuple(words) for words in reports["os"].to_pylist())
    text = bytes(range(32)).hex()
    monkeypatch.setenv(SECRET_ENV, text)
    (tmp_path / "secret").write_bytes(bytes(range(32)))
    for secret in ({"env": SECRET_ENV}, {"file": str(tmp_path / "secret")}, {"function": f"{__name__}.a_secret"}):
        config = {"plan": plan, "packed": True, "key": secret, "id": "user"}
        found = expand([create(rows), {"type": "LdpPerturb", "config": config}])
        assert sorted(tuple(report.os) for report in found) == expected
        travels = cloudpickle.dumps(LdpPerturb(**config))
        assert bytes(range(32)) not in travels
        assert text.encode() not in travels


def test_parquet_in_batches(tmp_path):
    times = pa.array([0, 1, 3601], pa.timestamp("s", "UTC"))
    pq.write_table(
        pa.table({"os": ["ios", "web", "tv"], "event_time": times, "user": [1, 2, 3]}), tmp_path / "e.parquet"
    )
    variables = {"input": str(tmp_path / "*.parquet"), "output": str(tmp_path)}
    p = beam.Pipeline("FnApiRunner")
    text = expand_jinja((EXAMPLES / "parquet.yaml").read_text(), variables)
    expand_pipeline(p, text, pipeline_path=str(EXAMPLES / "parquet.yaml"))
    p.run()
    assert histogram_ns(tmp_path) == {
        ("1970-01-01T00:00:00Z", value): 2 for value in ("ios", "android", "web", "other")
    } | {("1970-01-01T01:00:00Z", value): 1 for value in ("ios", "android", "web", "other")}


def test_reports_of_batches_stay_batches(tmp_path):
    with pytest.raises(InputError, match="no files"):
        LdpReadParquet(path=str(tmp_path / "*.parquet"))
    pq.write_table(pa.table({"os": ["ios"]}), tmp_path / "e.parquet")
    p = beam.Pipeline("FnApiRunner")
    tables = p | LdpReadParquet(path=str(tmp_path / "*.parquet"), columns=["os"])
    assert (tables | LdpPerturb(plan={"columns": {"os": OS}})).element_type is pa.RecordBatch


# ---- the command line


def write_plan(folder, **columns):
    plan = PrivacyPlan({name: Mechanism.from_dict(spec) for name, spec in columns.items()}, keep=["hour"])
    (folder / "plan.toml").write_text(plan.to_toml())
    return str(folder / "plan.toml")


def run_main(name, **variables):
    command = [sys.executable, "-m", "apache_beam.yaml.main", f"--yaml_pipeline_file={EXAMPLES / name}"]
    command += ["--runner=FnApiRunner", f"--jinja_variables={json.dumps(variables)}"]
    root = str(EXAMPLES.parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=300)


def lines(folder, pattern):
    return [json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()]


def histogram_ns(folder):
    return {(row["start"], row["value"]): row["n"] for row in lines(folder, "histogram*")}


def test_the_batch_example_on_the_command_line(tmp_path):
    rows = [("ios", True, 1.25)] * 3 + [("web", False, 3599.5)] + [("ios", False, 3600.0), ("s3cr3t", True, 7.0)]
    text = "os,crashed,time,user\n" + "".join(f"{os},{str(c).lower()},{t},ann\n" for os, c, t in rows)
    (tmp_path / "events.csv").write_text(text)
    out = tmp_path / "out"
    plan = write_plan(tmp_path, os=OS, crashed=COIN)
    done = run_main("batch.yaml", input=str(tmp_path / "events.csv"), output=str(out), plan=plan)
    assert done.returncode == 0, done.stderr[-2000:]
    reports = [(report["os"], report["crashed"], report["hour"]) for report in lines(out, "reports*")]
    assert sorted(reports) == sorted([([1], True, 0)] * 3 + [([4], False, 0), ([1], False, 3600)])
    counts = {
        (row["start"], row["end"], row["value"]): (round(row["count"], 6), row["n"]) for row in lines(out, "histogram*")
    }
    first, second, third = (f"1970-01-01T0{hour}:00:00Z" for hour in range(3))
    assert counts == {
        (first, second, "ios"): (3, 4),
        (first, second, "android"): (0, 4),
        (first, second, "web"): (1, 4),
        (second, third, "ios"): (1, 1),
        (second, third, "android"): (0, 1),
        (second, third, "web"): (0, 1),
    }
    assert lines(out, "unusable*") == [{"column": "os", "reason": "not in the domain", "count": 1}]
    written = "".join(path.read_text() for path in out.rglob("*") if path.is_file())
    for secret in ("s3cr3t", "ann", "1.25"):
        assert secret not in written
    assert "s3cr3t" not in done.stdout + done.stderr


def test_a_bad_plan_fails_before_anything_runs(tmp_path):
    (tmp_path / "events.csv").write_text("os,crashed,time\ns3cr3t,true,1\n")
    plan = write_plan(tmp_path, os=OS, colour=OS)
    done = run_main("batch.yaml", input=str(tmp_path / "events.csv"), output=str(tmp_path / "out"), plan=plan)
    assert done.returncode != 0
    assert "'colour'" in done.stderr
    assert "PlanError" in done.stderr
    assert "Running pipeline" not in done.stdout
    assert not (tmp_path / "out").exists()
    assert "s3cr3t" not in done.stdout + done.stderr


# ---- streaming

LOCAL = ("--streaming",)


def test_panes_and_lateness_in_a_stream():
    """Window [0, 10): two rows in time, one late, one after the allowed lateness."""
    config = {"column": "os", "mechanism": OS, "window": "10s", "event_time": "t", "allowed_lateness": "20s"}
    for mode, ns in (("accumulating", [2, 3]), ("discarding", [2, 1])):
        source = Stream().advance_watermark_to(0)
        for at, watermark in ((1, None), (2, 12), (5, 100), (6, None)):
            source.add_elements([TimestampedValue(beam.Row(os="ios", t=at), at)])
            if watermark:
                source.advance_watermark_to(watermark)
        source.advance_watermark_to_infinity()
        p = beam.Pipeline("BundleBasedDirectRunner", options=PipelineOptions(list(LOCAL)))
        job = {"type": "LdpPrivateHistogram", "config": {**config, "accumulation_mode": mode}}
        providers = merge_providers(load_providers(str(PROVIDERS)))
        rows = (
            p
            | source
            | beam.Map(lambda row: row).with_output_types(RowTypeConstraint.from_fields([("os", str), ("t", int)]))
        )
        collector = Collector()
        _ = rows | YamlTransform(pyyaml.safe_dump({"type": "chain", "transforms": [job]}), providers) | "C" >> collector
        p.run().wait_until_finish()
        panes = [(row.pane_timing, row.n, round(row.count, 6)) for row in collector.elements if row.value == "ios"]
        assert panes == [("ON_TIME", ns[0], ns[0]), ("LATE", ns[1], ns[1])]


def test_the_streaming_example_on_a_local_pubsub():
    pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")
    from pipelines.local.pubsub import PubSub, PubSubServer

    name = "projects/test-project/{}".format
    service = PubSub(capacity=10_000)
    types = service.types
    for topic in ("events", "histograms", "unusable"):
        service.create_topic(types["Topic"](name=name(f"topics/{topic}")))
        service.create_subscription(
            types["Subscription"](name=name(f"subscriptions/{topic}"), topic=name(f"topics/{topic}"))
        )
    # The local runner's watermark is the clock, whatever the messages say: what is past is late, but allowed for 10 m.
    start = (int(time.time()) // 60 - 2) * 60
    for i in range(90):  # 60 of the first minute, 30 of the second
        request = types["PublishRequest"](topic=name("topics/events"))
        request.messages.add(
            data=json.dumps({"os": ["ios", "web", "tv"][i % 3]}).encode(), attributes={"time": str(1000 * (start + i))}
        )
        service.publish(request)
    first, second = (datetime.fromtimestamp(start + s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for s in (0, 60))
    expected = {(minute, v): n for minute, n in ((first, 60), (second, 30)) for v in ("ios", "android", "web", "other")}
    variables = {
        "subscription": name("subscriptions/events"),
        "topic": name("topics/histograms"),
        "unusable": name("topics/unusable"),
    }
    spec = expand_jinja((EXAMPLES / "streaming.yaml").read_text(), variables)
    found: dict[tuple[str, str], int] = {}
    with PubSubServer(service):
        p = beam.Pipeline("BundleBasedDirectRunner", options=PipelineOptions(["--streaming"]))
        expand_pipeline(p, spec, pipeline_path=str(EXAMPLES / "streaming.yaml"))
        result = p.run()
        try:
            deadline = time.monotonic() + 60
            while found != expected and time.monotonic() < deadline:
                pull = types["PullRequest"](subscription=name("subscriptions/histograms"), max_messages=100)
                for received in service.pull(pull).received_messages:  # waits for the first
                    row = json.loads(received.message.data)
                    found[row["start"], row["value"]] = row["n"]  # a later pane replaces an earlier one
        finally:
            result.cancel()
    assert found == expected


def test_the_dataflow_template_builds_the_streaming_example():
    pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")
    from apache_beam.yaml.main import build_pipeline_components_from_argv

    from pipelines.dataflow.main import PARAMETERS, arguments

    metadata = json.loads((EXAMPLES.parent / "dataflow" / "metadata.json").read_text())
    assert [parameter["name"] for parameter in metadata["parameters"]] == list(PARAMETERS)
    values = [f"projects/test-project/{kind}/x" for kind in ("subscriptions", "topics", "topics")]
    given = [f"--{name}={value}" for name, value in zip(PARAMETERS, values, strict=True)]
    for parameter, value in zip(metadata["parameters"], values, strict=True):
        assert re.fullmatch(parameter["regexes"][0], value)
    options, constructor, _ = build_pipeline_components_from_argv(arguments(given))
    assert options.get_all_options()["streaming"]
    assert "disable_always_on_exception_sampling" in options.get_all_options()["experiments"]
    p = beam.Pipeline("FnApiRunner", options=options)
    constructor(p)
    proto = str(p.to_runner_api())
    assert all(value in proto for value in values)
    assert "PartialTallies" in proto


# ---- what is refused


PLAN = {"columns": {"os": OS}}


@pytest.mark.parametrize(
    ("error", "config"),
    [
        (PlanError, {"plan": "no/such/plan.toml"}),
        (PlanError, {"plan": 7}),
        (PlanError, {"plan": {}}),
        (PlanError, {"plan": {"columns": {}}}),
        (PlanError, {"plan": {"columns": {"os": {**OS, "epsilon": -1}}}}),
        (PlanError, {"plan": {"columns": {"os": {**OS, "mechanism": "laplace"}}}}),
        (PlanError, {"plan": {"columns": {"os": {**OS, "domain": ["ios", False]}}}}),  # unquoted no
        (PlanError, {"plan": {**PLAN, "seed": 1}}),
        (ParameterError, {"plan": PLAN, "packed": "yes"}),
        (ParameterError, {"plan": PLAN, "stabilize": 0}),
        (ParameterError, {"plan": PLAN, "id": "user"}),
        (ParameterError, {"plan": PLAN, "key": {"env": "NAME"}}),
        (ParameterError, {"plan": PLAN, "key": "00" * 32, "id": "user"}),
        (ParameterError, {"plan": PLAN, "key": {"hex": "00" * 32}, "id": "user"}),
        (ParameterError, {"plan": PLAN, "key": {"function": "os.no_such_function"}, "id": "user"}),
        (ParameterError, {"plan": PLAN, "key": {"function": "nothing"}, "id": "user"}),
        (ParameterError, {"plan": PLAN, "error_handling": {"output": "good"}}),
        (ParameterError, {"plan": PLAN, "error_handling": "bad"}),
    ],
)
def test_bad_arguments_of_perturb(error, config):
    with pytest.raises(error) as caught:
        LdpPerturb(**config)
    assert "00" * 32 not in str(caught.value)


@pytest.mark.parametrize("kind", [LdpHistogram, LdpPrivateHistogram, LdpMean, LdpPrivateHeavyHitters])
@pytest.mark.parametrize(
    ("error", "config"),
    [
        (TypeError, {"columns": "os"}),
        (ParameterError, {"mechanism": None}),
        (ParameterError, {"plan": PLAN}),
        (ParameterError, {"mechanism": "unary_encoding"}),
        (ParameterError, {"mechanism": {**OS, "epsilon": 0}}),
        (ParameterError, {"mechanism": {**OS, "epsilon": "1"}}),
        (ParameterError, {"mechanism": {**OS, "size": 3}}),
        (DomainError, {"mechanism": {**OS, "domain": ["ios"]}}),
        (PlanError, {"mechanism": None, "plan": {"columns": {"crashed": COIN}}}),
        (ParameterError, {"window": "1 hour"}),
        (ParameterError, {"window": {"type": "fixed"}}),
        (ParameterError, {"window": {"type": "fixed", "size": 0}}),
        (ParameterError, {"window": {"type": "fixed", "size": "1h", "gap": 3}}),
        (ParameterError, {"window": {"type": "daily"}}),
        (ParameterError, {"window": {"type": ["fixed"]}}),
        (ParameterError, {"window": 10**400}),
        (ParameterError, {"event_time": 5}),
        (ParameterError, {"by": {"c": 1}}),
        (ParameterError, {"by": ["os"]}),
        (ParameterError, {"confidence": "0.95"}),
        (ParameterError, {"confidence": 1}),
        (ParameterError, {"confidence": 10**400}),
        (ParameterError, {"allowed_lateness": "1m"}),
        (ParameterError, {"accumulation_mode": "retracting"}),
        (ParameterError, {"accumulation_mode": ["discarding"]}),
        (ParameterError, {"window": "1h", "fill": "2026"}),
        (ParameterError, {"window": "1h", "fill": ["today", None]}),
        (ParameterError, {"window": "1h", "fill": [0, 7200], "by": "c", "fill_keys": ["fr"]}),
        (ParameterError, {"error_handling": {}}),
    ],
)
def test_bad_arguments_of_estimates(kind, error, config):
    good = {LdpMean: {"mechanism": NUMBER}, LdpPrivateHeavyHitters: {"mechanism": WORD, "k": 3}}
    made = {"column": "os", "mechanism": OS, **good.get(kind, {})}
    kind(**made)
    with pytest.raises(error):
        kind(**{**made, **config})


@pytest.mark.parametrize(
    ("message", "make"),
    [
        ("simultaneous", lambda: LdpHistogram(column="os", mechanism=OS, simultaneous=1)),
        ("LdpMean, .*LdpHeavyHitters", lambda: LdpHistogram(column="x", mechanism=NUMBER)),
        ("candidates", lambda: LdpHistogram(column="x", mechanism={**SKETCH, "domain": {"kind": "str"}})),
        ("mechanism for numbers", lambda: LdpMean(column="os", mechanism=OS)),
        ("SquareWave or", lambda: LdpDistribution(column="x", mechanism=NUMBER)),
        ("HeavyHitters", lambda: LdpHeavyHitters(column="os", mechanism=OS, k=3)),
        ("k must be", lambda: LdpHeavyHitters(column="os", mechanism=WORD, k=0)),
        ("threshold", lambda: LdpHeavyHitters(column="os", mechanism=WORD, k=3, threshold="high")),
        ("keyed noise takes", lambda: LdpPrivateMean(column="x", mechanism=NUMBER, key={"env": "NAME"})),
        ("records must be", lambda: LdpBoundContributions(id="user", per_window=0)),
        ("does not pay", lambda: LdpPrivacyLedger(id="user", plan=TWICE, budget=0.4)),
        ("drop_id", lambda: LdpDeduplicate(id="user", within="1h", drop_id="no")),
        ("longer than 0", lambda: LdpDeduplicate(id="user", within={"type": "fixed", "size": 0})),
    ],
)
def test_what_one_kind_alone_refuses(message, make):
    with pytest.raises(ParameterError, match=message):
        make()


NO_HISTOGRAM = {
    "number": {"mechanism": "hybrid", "epsilon": 1.0, "domain": {"low": 0, "high": 100}},
    "word": {**SKETCH, "domain": {"kind": "str"}},
    "page": Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75).to_dict(),
    "name": WORD,
}


@pytest.mark.parametrize("column", NO_HISTOGRAM)
def test_a_histogram_of_what_has_none_says_what_to_do_instead(column):
    with pytest.raises(ParameterError, match=r"candidates .*LdpMean, .*LdpHeavyHitters"):
        LdpHistogram(column=column, mechanism=NO_HISTOGRAM[column])


@pytest.mark.parametrize(
    ("mechanism", "needs"),
    [(NO_HISTOGRAM["number"], "hybrid needs float values, not str"), ({**SKETCH, "domain": {"kind": "int"}}, "int")],
)
def test_the_mechanism_is_named_and_not_labels_that_it_has_not(mechanism, needs):
    rows = beam.Pipeline("FnApiRunner") | beam.Create([beam.Row(word="rome")])
    with pytest.raises(DtypeError, match=f"'word': .*{needs}"):
        _ = rows | LdpPerturb(plan={"columns": {"word": mechanism}})


@pytest.mark.parametrize(
    ("option", "make"),
    [
        ("column", lambda: LdpMean(mechanism=NUMBER)),
        ("k", lambda: LdpHeavyHitters(column="w", mechanism=WORD)),
        ("simultaneous", lambda: LdpMean(column="x", mechanism=NUMBER, simultaneous=True)),
    ],
)
def test_missing_and_unknown_options(option, make):
    with pytest.raises(TypeError, match=f"'{option}'"):
        make()


@pytest.mark.parametrize(
    ("error", "message", "transform"),
    [
        (PlanError, "colour", LdpPerturb(plan={"columns": {"colour": OS}})),
        (PlanError, "hour", LdpPerturb(plan={**PLAN, "keep": ["hour"]})),
        (PlanError, "user", LdpPerturb(plan=PLAN, key={"env": "NAME"}, id="user")),
        (DtypeError, "'n'", LdpPerturb(plan={"columns": {"n": OS}})),
        (DtypeError, "'os'", LdpPerturb(plan={"columns": {"os": {**OS, "domain": [True, False]}}})),  # unquoted yes, no
        (PlanError, "colour", LdpHistogram(column="colour", mechanism=OS)),
        (PlanError, "'t'", LdpHistogram(column="os", mechanism=OS, window="1h", event_time="t")),
        (PlanError, "'c'", LdpPrivateHistogram(column="os", mechanism=OS, by=["c"])),
        (DtypeError, "'n'", LdpPrivateHistogram(column="n", mechanism=OS)),
        (PlanError, "user", LdpPrivateHistogram(column="os", mechanism=OS, key={"env": "NAME"}, id="user")),
        (DtypeError, "'os'", LdpPrivateMean(column="os", mechanism=NUMBER)),
        (DtypeError, "'n'", LdpPrivateHeavyHitters(column="n", mechanism=WORD, k=1)),
        (PlanError, "seconds", LdpMean(column="seconds", mechanism=NUMBER)),
        (PlanError, "user", LdpDeduplicate(id="user", within="1h")),
        (PlanError, "'t'", LdpBoundContributions(id="n", per_window=1, window="1h", event_time="t")),
    ],
)
def test_what_does_not_fit_the_rows_is_refused_before_anything_runs(error, message, transform):
    p = beam.Pipeline("FnApiRunner")
    rows = p | beam.Create([beam.Row(os="ios", n=1)])
    with pytest.raises(error, match=message):
        _ = rows | transform


def test_kept_columns_need_a_schema():
    p = beam.Pipeline("FnApiRunner")
    rows = p | beam.Create([{"os": "ios", "hour": 1}])
    with pytest.raises(PlanError, match="schema"):
        _ = rows | LdpPerturb(plan={**PLAN, "keep": ["hour"]})


def test_errors_in_yaml_say_where_and_have_ours_as_their_cause():
    with pytest.raises(ValueError, match=r"LdpPerturb.* at line") as caught:
        expand([create([{"os": "ios"}]), {"type": "LdpPerturb", "config": {"plan": "no/such/plan.toml"}}])
    assert isinstance(caught.value.__cause__, LdpError)
    with pytest.raises(ValueError, match="epsilonn"):
        expand([create([{"os": "ios"}]), {"type": "LdpPrivateHistogram", "config": {"column": "os", "epsilonn": 1}}])


def test_the_yaml_of_the_guide_is_accepted(tmp_path, monkeypatch):
    text = (EXAMPLES.parents[1] / "docs" / "deploy.md").read_text(encoding="utf-8")
    steps = [step for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) for step in pyyaml.safe_load(block)]
    (tmp_path / "plan.toml").write_text(PrivacyPlan({"os": Mechanism.from_dict(OS)}).to_toml())
    monkeypatch.chdir(tmp_path)
    assert {"LdpPerturb", "LdpPrivateMean", "LdpPrivateHeavyHitters"} <= {step["type"] for step in steps}
    (provider,) = load_providers(str(PROVIDERS))
    for step in steps:
        provider.create_transform(step["type"], step["config"], None)


def test_the_providers_describe_their_arguments():
    (provider,) = load_providers(str(PROVIDERS))
    assert set(provider.provided_transforms()) == {
        *("LdpPerturb", "LdpReadParquet", "LdpBoundContributions", "LdpDeduplicate", "LdpPrivacyLedger"),
        *("LdpHistogram", "LdpMean", "LdpDistribution", "LdpHeavyHitters"),
        *("LdpPrivateHistogram", "LdpPrivateMean", "LdpPrivateDistribution", "LdpPrivateHeavyHitters"),
    }
    for name in provider.provided_transforms():
        assert provider.description(name)
        assert provider.requires_inputs(name, {}) == (name != "LdpReadParquet")
        fields = {field.name: field for field in provider.config_schema(name).fields}
        assert all(field.description for field in fields.values())
        assert name == "LdpReadParquet" or "error_handling" in fields
        if "column" in fields:
            assert {"column", "mechanism", "plan", "window", "event_time", "by", "confidence"} <= set(fields)
            assert fields["column"].type.atomic_type == beam.portability.api.schema_pb2.STRING
        assert ("key" in fields) == ("id" in fields)
