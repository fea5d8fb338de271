"""What the transforms of Beam YAML do in a pipeline of plain text, in batch and streaming."""

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
import yaml as pyyaml
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import named_fields_from_element_type
from apache_beam.yaml.yaml_provider import load_providers, merge_providers
from apache_beam.yaml.yaml_transform import YamlTransform

from ldp_beam.yaml import PROVIDERS, LdpDeduplicate, LdpPerturb
from ldp_core import Mechanism, PrivacyPlan, Secret

from ..helpers import Collector, table
from .spec import COIN, NUMBER, OS, TWICE, WIDE, create, expand

SECRET_ENV = "LDP_TEST_YAML_SECRET"


def ns_and_counts(rows):
    return {
        place: {value: (round(row.count, 6), row.n) for value, row in values.items() if round(row.count, 6)}
        for place, values in table(rows).items()
    }


WHOLE = (beam.utils.timestamp.MIN_TIMESTAMP.micros / 1e6, beam.utils.timestamp.MAX_TIMESTAMP.micros / 1e6)


def several(rows, jobs, before=()):
    """What comes out of each of some transforms, of the same rows, in one pipeline: {name: elements}."""
    steps = [{**step, "name": f"Before {i}"} for i, step in enumerate((create(rows), *before))]
    chained = [{**step, "input": earlier["name"]} for step, earlier in zip(steps[1:], steps, strict=False)]
    named = [{**job, "name": name, "input": steps[-1]["name"]} for name, job in jobs.items()]
    return expand([steps[0], *chained, *named], **{name: name for name in jobs}, before=steps[-1]["name"])


@pytest.mark.parametrize("packed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_reports_are_rows_that_histograms_read(packed):
    # value 63 sets the top bit of a word, which a Beam schema can only say as a negative number
    plan = {"keep": ["t"], "columns": {"v": WIDE, "c": COIN}}
    rows = [{"v": v, "c": v > 64, "t": 1.0 * v, "user": f"u{v}"} for v in (0, 1, 63, 63, 64, 69)]
    jobs = {
        "v": {"type": "LdpHistogram", "config": {"column": "v", "mechanism": WIDE}},
        "c": {"type": "LdpEstimate", "config": {"column": "c", "plan": plan, "window": "64s", "event_time": "t"}},
        "t": {"type": "LdpTable", "config": {"columns": ["c", "v"], "plan": plan}},
        "d": {"type": "LdpCompare", "config": {"column": "c", "plan": plan, "window": "64s", "event_time": "t"}},
    }
    found = several(rows, jobs, [{"type": "LdpPerturb", "config": {"plan": plan, "packed": packed}}])
    reports = found["before"]
    assert {tuple(sorted(r._asdict() if hasattr(r, "_asdict") else r.as_dict())) for r in reports} == {("c", "t", "v")}
    if packed:
        assert sorted(tuple(r.v) for r in reports) == sorted(
            [(1, 0), (2, 0), (-(2**63), 0), (-(2**63), 0), (0, 1), (0, 32)]
        )
    else:
        assert {len(r.v) for r in reports} == {70}
        assert all(type(bit) is bool for r in reports for bit in r.v)
    assert ns_and_counts(found["v"]) == {WHOLE: {0: (1, 6), 1: (1, 6), 63: (2, 6), 64: (1, 6), 69: (1, 6)}}
    assert {(r.c, r.v): round(r.count) for r in found["t"] if round(r.count)} == {
        **{(False, v): 1 + (v == 63) for v in (0, 1, 63, 64)},
        (True, 69): 1,
    }
    assert [(r.window_start.micros, r.value, round(r.difference, 9)) for r in found["d"]] == [
        (64 * 10**6, False, -0.5),
        (64 * 10**6, True, 0.5),
    ]
    assert ns_and_counts(found["c"]) == {(0, 64): {False: (4, 4)}, (64, 128): {False: (1, 2), True: (1, 2)}}


def test_a_plan_of_pairs_perturbs_columns_of_other_names_than_its_own():
    plan = PrivacyPlan.pairs({"os": ["ios", "web"], "crashed": [False, True]}, epsilon=80.0).to_dict()
    rows = [{"os": os, "crashed": crashed} for os, crashed in (("ios", False), ("ios", True), ("web", True))]
    jobs = {
        "of one": {"type": "LdpHistogram", "config": {"column": "os", "plan": plan}},
        "of both": {"type": "LdpTable", "config": {"columns": ["os", "crashed"], "plan": plan}},
    }
    found = several(rows, jobs, [{"type": "LdpPerturb", "config": {"plan": plan}}])
    assert {row.value: round(row.count) for row in found["of one"]} == {"ios": 2, "web": 1}
    both = {(row.os, row.crashed): round(row.count) for row in found["of both"]}
    assert both == {("ios", False): 1, ("ios", True): 1, ("web", False): 0, ("web", True): 1}


WINDOWS = {
    "whole": ({}, {WHOLE: {"ios": (3, 4), "web": (1, 4)}}),
    "fixed": (
        {"window": 10, "event_time": "t"},
        {(0, 10): {"ios": (2, 2)}, (10, 20): {"web": (1, 1)}, (20, 30): {"ios": (1, 1)}},
    ),
    "by": (
        {"window": "10s", "event_time": "t", "by": ["c"]},
        {
            (0, 10, "fr"): {"ios": (1, 1)},
            (0, 10, "it"): {"ios": (1, 1)},
            (10, 20, "it"): {"web": (1, 1)},
            (20, 30, "fr"): {"ios": (1, 1)},
        },
    ),
    "sliding": (
        {"window": {"type": "sliding", "size": "20s", "period": "10s"}, "event_time": "t"},
        {
            (-10, 10): {"ios": (2, 2)},
            (0, 20): {"ios": (2, 3), "web": (1, 3)},
            (10, 30): {"ios": (1, 2), "web": (1, 2)},
            (20, 40): {"ios": (1, 1)},
        },
    ),
    "sessions": (
        {"window": {"type": "sessions", "gap": 9}, "event_time": "t"},
        {(1, 21): {"ios": (2, 3), "web": (1, 3)}, (25, 34): {"ios": (1, 1)}},
    ),
    "fill": (
        {"window": {"type": "fixed", "size": 15}, "event_time": "t", "fill": [0, "1970-01-01T00:00:46+00:00"]},
        {(0, 15): {"ios": (2, 3), "web": (1, 3)}, (15, 30): {"ios": (1, 1)}, (30, 45): {}, (45, 60): {}},
    ),
}


def test_private_histograms_of_rows():
    rows = [
        {"os": os, "t": t, "c": c}
        for os, t, c in [("ios", 1, "fr"), ("ios", 9, "it"), ("web", 12, "it"), ("ios", 25, "fr")]
    ]
    config = {"column": "os", "mechanism": OS}
    jobs = {
        name: {"type": "LdpPrivateHistogram", "config": {**config, **options}} for name, (options, _) in WINDOWS.items()
    }
    found = several(rows, jobs)
    for name, (_, expected) in WINDOWS.items():
        assert ns_and_counts(found[name]) == expected, name


NUMBERS = [{"x": x, "t": t, "c": c} for x, t, c in [(0.0, 1, "fr"), (10.0, 9, "it"), (10.0, 12, "it"), (0.0, 19, "it")]]
WAVE = {"mechanism": "square_wave", "epsilon": 50.0, "domain": {"low": 0, "high": 10}, "buckets": 2}


@pytest.mark.parametrize("private", [True, False])
def test_means_and_distributions(private):
    plan = {"keep": ["t", "c"], "columns": {"x": NUMBER}}
    means = {"column": "x", "mechanism": NUMBER, "window": "10s", "event_time": "t", "by": ["c"], "confidence": 0.9}
    fields = {"mean": "mean", "n": "n", "wide": "high - low > 0", "confidence": "confidence"}
    start = {"callable": "lambda row: row.window_start.micros // 10**6 if row.key['c'] == 'it' else -1"}
    fields = {"language": "python", "fields": {**fields, "start": start}}
    asked = {"question": "distribution", "buckets": 2, "method": "em", "confidence": 0.9}
    wave = {"columns": {"x": WAVE}}
    steps = [
        create(NUMBERS),
        {"type": "LdpPerturb", "name": "Numbers", "input": "Create", "config": {"plan": plan}},
        {"type": "LdpPerturb", "name": "Waves", "input": "Create", "config": {"plan": wave}},
        {"type": "LdpEstimate", "name": "Means", "config": {**means, "private": private}},
        {"type": "LdpEstimate", "name": "Buckets", "config": {"column": "x", "plan": wave, "ask": asked}},
        {"type": "MapToFields", "name": "Fields", "input": "Means", "config": fields},
    ]
    steps[3]["input"], steps[4]["input"] = ("Create", "Create") if private else ("Numbers", "Waves")
    steps[4]["config"]["private"] = private
    rows = expand(steps, fields="Fields", buckets="Buckets")
    found = [(round(row.mean, 6), row.n, row.wide, row.confidence, row.start) for row in rows["fields"]]
    assert sorted(found) == [(0.0, 1, True, 0.9, -1), (5.0, 2, True, 0.9, 10), (10.0, 1, True, 0.9, 0)]
    found = [(r.bucket_start, r.bucket_end, round(r.frequency, 6), r.n, r.confidence) for r in rows["buckets"]]
    assert sorted(found) == [(0.0, 5.0, 0.5, 4, 0.9), (5.0, 10.0, 0.5, 4, 0.9)]


PEOPLE = [
    {"user": user, "os": os, "t": t} for user, os, t in [(1, "ios", 1), (1, "web", 2), (1, "ios", 61), (2, "ios", 3)]
]
BY_MINUTE, LEDGER = {(1, 1): 1, (1, 61): 1, (2, 3): 1}, {"plan": TWICE, "budget": 1}
LIMITS = [
    ("LdpBoundContributions", {"per_window": 1, "window": "1m", "event_time": "t"}, BY_MINUTE),
    ("LdpBoundContributions", {"per_window": 1, "window": {"type": "global"}}, {1: 1, 2: 1}),
    ("LdpDeduplicate", {"within": "1m", "event_time": "t"}, BY_MINUTE),
    ("LdpPrivacyLedger", {**LEDGER, "budget": "3/2"}, {1: 3, 2: 1}),
    ("LdpPrivacyLedger", {**LEDGER, "keyed": True, "change_times": "public"}, {1: 2, 2: 1}),
    ("LdpPrivacyLedger", {**LEDGER, "budget": 0.5, "per": "1m", "event_time": "t"}, {1: 2, 2: 1}),
]


def test_limits_of_persons():
    jobs = {
        f"limit {i}": {"type": kind, "config": {"id": "user", "drop_id": False, **config}}
        for i, (kind, config, _) in enumerate(LIMITS)
    }
    passed = several(PEOPLE, jobs)
    for name, (_, _, expected) in zip(jobs, LIMITS, strict=True):
        found = [(row.user, row.t) if expected is BY_MINUTE else row.user for row in passed[name]]
        assert {key: found.count(key) for key in found} == expected, name


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
    Secret(bytes(range(32))).to_file(tmp_path / "secret")
    for secret in ({"env": SECRET_ENV}, {"file": str(tmp_path / "secret")}, {"function": f"{__name__}.a_secret"}):
        config = {"plan": plan, "packed": True, "key": secret, "id": "user"}
        found = expand([create(rows), {"type": "LdpPerturb", "config": config}])
        assert sorted(tuple(report.os) for report in found) == expected
        travels = cloudpickle.dumps(LdpPerturb(**config))
        assert bytes(range(32)) not in travels
        assert text.encode() not in travels


# ---- streaming


def test_panes_and_lateness_in_a_stream():
    """Window [0, 10): two rows in time, one late, one after the allowed lateness."""
    config = {"column": "os", "mechanism": OS, "window": "10s", "event_time": "t", "allowed_lateness": "20s"}
    early, each = {"trigger": {"early": "each"}}, {"trigger": {"early": "each", "late": "each"}}
    cases = (
        (early, ["EARLY 1", "EARLY 2", "ON_TIME 2", "LATE 3"]),  # accumulating, if nothing is said
        ({**each, "accumulation_mode": "discarding"}, ["EARLY 1", "EARLY 1", "ON_TIME 0", "LATE 1"]),
    )
    for options, expected in cases:
        source = Stream().advance_watermark_to(0)
        for at, watermark in ((1, None), (2, 12), (5, 100), (6, None)):
            source.add_elements([TimestampedValue(beam.Row(os="ios", t=at), at)])
            if watermark:
                source.advance_watermark_to(watermark)
        source.advance_watermark_to_infinity()
        p = beam.Pipeline("BundleBasedDirectRunner", options=PipelineOptions(["--streaming"]))
        job = {"type": "LdpPrivateHistogram", "config": {**config, **options}}
        providers = merge_providers(load_providers(str(PROVIDERS)))
        rows = (
            p
            | source
            | beam.Map(lambda row: row).with_output_types(RowTypeConstraint.from_fields([("os", str), ("t", int)]))
        )
        collector = Collector()
        _ = rows | YamlTransform(pyyaml.safe_dump({"type": "chain", "transforms": [job]}), providers) | "C" >> collector
        p.run().wait_until_finish()
        rows = [row for row in collector.elements if row.value == "ios"]
        assert [f"{row.pane_timing} {row.n}" for row in rows] == expected
        assert [round(row.count, 6) for row in rows] == [row.n for row in rows]


# ---- what is known of them


def test_the_providers_describe_their_arguments():
    (provider,) = load_providers(str(PROVIDERS))
    assert set(provider.provided_transforms()) == {
        *("LdpPerturb", "LdpBoundContributions", "LdpDeduplicate", "LdpPrivacyLedger"),
        *("LdpReadCsv", "LdpReadNdjson", "LdpReadParquet", "LdpWriteEstimates"),
        *("LdpEstimate", "LdpHistogram", "LdpPrivateHistogram", "LdpTable", "LdpPrivateTable", "LdpCompare"),
    }
    kinds = beam.portability.api.schema_pb2
    for name in provider.provided_transforms():
        assert provider.description(name)
        assert provider.requires_inputs(name, {}) == (not name.startswith("LdpRead"))
        fields = {field.name: field for field in provider.config_schema(name).fields}
        assert all(field.description for field in fields.values())
        assert not any(field.description.startswith("see `") for field in fields.values())
        assert ("error_handling" in fields) == (name != "LdpWriteEstimates")
        if "column" in fields:
            options = {"column", "mechanism", "plan", "window", "event_time", "by", "confidence", "trigger"}
            assert options <= set(fields)
            assert fields["column"].type.atomic_type == kinds.STRING
            assert fields["confidence"].type.atomic_type == kinds.DOUBLE
            assert fields["by"].type.array_type.element_type.atomic_type == kinds.STRING
        assert "id" in fields or "key" not in fields
        assert ("ask" in fields) == ("private" in fields) == (name == "LdpEstimate")
