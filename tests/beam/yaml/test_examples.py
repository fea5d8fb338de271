"""The examples in ``pipelines/yaml`` and in the guide, on files, on the command line and on Pub/Sub."""

import contextlib
import io
import json
import re
import time
import traceback
from datetime import UTC, datetime

import apache_beam as beam
import pytest
import yaml as pyyaml
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.yaml.main import build_pipeline_components_from_argv
from apache_beam.yaml.main import run as run_here
from apache_beam.yaml.yaml_provider import load_providers
from apache_beam.yaml.yaml_transform import expand_jinja, expand_pipeline

from ldp_beam.yaml import PROVIDERS
from ldp_core import Mechanism, PrivacyPlan

from .spec import COIN, EXAMPLES, OS, lines


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_an_example_finds_its_transforms_by_name_and_by_no_path(path):
    """It may be copied anywhere: they come from the installed package."""
    text = path.read_text(encoding="utf-8")
    used = set(re.findall(r"type: (Ldp\w+)", text))
    providers = pyyaml.safe_load(re.search(r"(?ms)^providers:.*?(?=^\S|\Z)", text)[0])["providers"]
    named = {name: where for provider in providers for name, where in provider.get("transforms", {}).items()}
    assert not any("include" in provider for provider in providers)
    assert used
    assert {name: named.get(name) for name in used} == {name: f"ldp_beam.yaml.{name}" for name in used}


def write_plan(folder, **columns):
    plan = PrivacyPlan({name: Mechanism.from_dict(spec) for name, spec in columns.items()}, keep=["hour"])
    (folder / "plan.toml").write_text(plan.to_toml())
    return str(folder / "plan.toml")


def run_main(name, **variables):
    """Beam's command for YAML, in this process: whether it succeeds, and all that it prints."""
    arguments = [f"--yaml_pipeline_file={EXAMPLES / name}", "--runner=FnApiRunner"]
    arguments += [f"--jinja_variables={json.dumps(variables)}"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            run_here(arguments)
        except Exception:
            traceback.print_exc()
            return False, printed.getvalue()
    return True, printed.getvalue()


@pytest.mark.slow
def test_the_batch_example_on_the_command_line(tmp_path):
    rows = [("ios", True, 1.25)] * 3 + [("web", False, 3599.5)] + [("ios", False, 3600.0), ("s3cr3t", True, 7.0)]
    text = "os,crashed,time,user\n" + "".join(f"{os},{str(c).lower()},{t},ann\n" for os, c, t in rows)
    (tmp_path / "events.csv").write_text(text)
    out = tmp_path / "out"
    plan = write_plan(tmp_path, os=OS, crashed=COIN)
    succeeds, printed = run_main("batch.yaml", input=str(tmp_path / "events.csv"), output=str(out), plan=plan)
    assert succeeds, printed[-2000:]
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
    assert lines(out, "unusable*") == [{"column_name": "os", "reason": "not in the domain", "count": 1}]
    written = "".join(path.read_text() for path in out.rglob("*") if path.is_file())
    for secret in ("s3cr3t", "ann", "1.25"):
        assert secret not in written
    assert "s3cr3t" not in printed


def test_a_bad_plan_fails_before_anything_runs(tmp_path):
    (tmp_path / "events.csv").write_text("os,crashed,time\ns3cr3t,true,1\n")
    files = {"input": str(tmp_path / "events.csv"), "output": str(tmp_path / "out")}
    succeeds, printed = run_main("batch.yaml", plan=write_plan(tmp_path, os=OS, color=OS), **files)
    assert not succeeds
    assert "'color'" in printed
    assert "PlanError" in printed
    assert "Running pipeline" not in printed
    assert not (tmp_path / "out").exists()
    assert "s3cr3t" not in printed


# ---- Pub/Sub and Dataflow


@pytest.mark.slow
def test_the_streaming_example_on_a_local_pubsub():
    pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")
    from tests.bed.pubsub import PubSub, PubSubServer

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


# ---- the guide


def test_the_yaml_of_the_guide_is_accepted(tmp_path, monkeypatch):
    text = (EXAMPLES.parents[1] / "docs" / "yaml.md").read_text(encoding="utf-8")
    steps = [step for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) for step in pyyaml.safe_load(block)]
    (tmp_path / "plan.toml").write_text(PrivacyPlan({"os": Mechanism.from_dict(OS)}).to_toml())
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.csv").write_text("os,crashed,time\n")
    monkeypatch.chdir(tmp_path)
    assert {"LdpPerturb", "LdpEstimate", "LdpHistogram"} <= {step["type"] for step in steps}
    (provider,) = load_providers(str(PROVIDERS))
    for step in steps:
        provider.create_transform(step["type"], step["config"], None)
