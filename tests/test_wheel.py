"""The wheel holds the packages and the jobs that users deploy, and no tools for trying them on one machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".typed", ".toml", ".yaml", ".json", ".xml", ".html", ".css", ".js", ""}
LOCAL = Path("pipelines/local")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, unpacked. Building it fetches hatchling."""
    made = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(made), str(ROOT)]
    subprocess.run(command, check=True, timeout=300)
    [file] = made.glob("*.whl")
    zipfile.ZipFile(file).extractall(made / "unpacked")
    return made / "unpacked"


@pytest.mark.slow
def test_the_wheel_holds_all_but_the_local_tools(wheel):
    packages = ["ldp_core", "ldp_polars", "ldp_beam", "ldp_plots", "ldp_report", "pipelines", "ldp_cli"]
    assert sorted(path.name for path in wheel.iterdir() if path.suffix != ".dist-info") == sorted(packages)
    source = {
        path.relative_to(ROOT)
        for package in packages
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in SUFFIXES
    }
    local = {path for path in source if path.is_relative_to(LOCAL)}
    tools = {
        "__init__.py",
        "engines.py",
        "fleet.py",
        "flink",
        "kafka.py",
        "live.py",
        "maven.py",
        "pubsub.py",
        "runner.py",
    }
    assert tools == {path.parts[2] for path in local}
    found = {path.relative_to(wheel) for package in packages for path in (wheel / package).rglob("*") if path.is_file()}
    assert found == source - local


@pytest.mark.slow
def test_a_yaml_pipeline_elsewhere_finds_the_transforms_of_the_wheel(wheel, tmp_path):
    """It named a file in the checkout."""
    (tmp_path / "job.yaml").write_text((wheel / "pipelines/yaml/parquet.yaml").read_text())
    time = pa.array([0, 1], pa.timestamp("s", "UTC"))
    pq.write_table(pa.table({"os": ["ios", "web"], "event_time": time}), tmp_path / "events.parquet")
    variables = json.dumps({"input": str(tmp_path / "events.parquet"), "output": str(tmp_path)})
    command = [sys.executable, "-m", "apache_beam.yaml.main", "--yaml_pipeline_file=job.yaml", "--runner=FnApiRunner"]
    command.append(f"--jinja_variables={variables}")
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True, timeout=120)
    found = [json.loads(line) for path in tmp_path.glob("histogram*") for line in path.read_text().splitlines()]
    assert {row["n"] for row in found} == {2}


@pytest.mark.slow
def test_the_command_of_the_wheel_says_where_live_is(wheel):
    command = [sys.executable, "-m", "pipelines.telemetry", "--live"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=wheel, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert "run it in a checkout of the source" in done.stderr


@pytest.mark.slow
def test_the_installed_command(wheel, tmp_path):
    """``ldp``, as pip installs it: it plans, and says that a cluster is for a checkout."""
    target = tmp_path / "installed"
    [file] = wheel.parent.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(file)]
    subprocess.run(install, check=True, timeout=300)

    def ldp(*words):
        command = [str(target / "bin" / "ldp"), *words]
        environment = {**os.environ, "PYTHONPATH": str(target)}
        return subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120
        )

    assert ldp("plan", "new", "plan.toml", "-c", "os=ios,web", "--epsilon", "1").returncode == 0
    done = ldp("plan", "check", "plan.toml", "--json")
    assert (done.returncode, json.loads(done.stdout)["epsilon"]) == (0, 1.0)
    for words in (("flink", "up"), ("live", "--for", "5s")):
        done = ldp(*words)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        assert "run it in a checkout" in done.stderr
    assert ldp("nothing").returncode == 2
