"""The wheel holds the packages, the telemetry job among them, and no top-level name that a user may have.

The sdist makes the same wheel. Each extra brings what it names. The version is in pyproject.toml and nowhere else.
"""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".pyi", ".typed", ".toml", ".yaml", ".json", ".xml", ".html", ".css", ".js", ""}
PACKAGES = ["ldp_core", "ldp_polars", "ldp_beam", "ldp_plots", "ldp_report", "ldp_serve", "ldp_cli"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Extra -> the engines among what it brings. "" is the project without any.
ENGINES = {
    "": set(),
    "polars": {"polars"},
    "beam": {"apache-beam"},
    "demo": {"apache-beam"},
    "fast": {"numba"},
    "audit": set(),
    "mbi": set(),
    "gcp": {"apache-beam"},
    "kafka": {"apache-beam"},
    "yaml": {"apache-beam"},
    "test": set(),
    "plot": {"altair"},
    "cli": set(),
    "serve": set(),
    "docs": set(),
    "peers": set(),
    "all": {"polars", "apache-beam", "altair", "numba"},
}


def brought(requirements: list[Requirement], extra: str) -> set[str]:
    """The packages that an extra asks for, those of the extras that it names included."""
    names = set()
    for requirement in requirements:
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name == PROJECT["name"]:
            names |= {name for other in requirement.extras for name in brought(requirements, other)}
        else:
            names.add(requirement.name)
    return names


def engines(requirements: list[Requirement]) -> dict[str, set[str]]:
    return {extra: brought(requirements, extra) & ENGINES["all"] for extra in ENGINES}


def declared() -> list[Requirement]:
    """As pyproject.toml says, in the form of a wheel's metadata."""
    optional = PROJECT["optional-dependencies"]
    extras = [f"{of}; extra == '{extra}'" for extra, requirements in optional.items() for of in requirements]
    return [Requirement(line) for line in [*PROJECT["dependencies"], *extras]]


def test_an_extra_brings_its_own_engine_and_no_other():
    assert ENGINES.keys() == {"", *PROJECT["optional-dependencies"]}
    assert engines(declared()) == ENGINES


def test_the_version_is_in_one_place():
    assert importlib.metadata.version(PROJECT["name"]) == PROJECT["version"], "install the project again"
    says = re.compile(rf"__version__|ldp[-_]telemetry[-=]+\d|[\"']{re.escape(PROJECT['version'])}[\"']")
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in {".py", ".toml"}]
    files += (ROOT / "docs").glob("*.md")
    assert [str(path) for path in files if says.search(path.read_text(encoding="utf-8"))] == []
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(
        rf"^## \[{re.escape(PROJECT['version'])}\]|What {re.escape(PROJECT['version'])} will be", changes, re.M
    )


def test_the_image_of_the_template_has_all_packages():
    lines = (ROOT / "pipelines/dataflow/Dockerfile").read_text().splitlines()
    copied = [line.split()[1] for line in lines if re.fullmatch(r"COPY (\w+) \1", line)]
    assert sorted(copied) == sorted([*PACKAGES, "pipelines"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, unpacked. Building it fetches hatchling."""
    made = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(made), str(ROOT)]
    subprocess.run(command, check=True, timeout=300)
    [file] = made.glob("*.whl")
    zipfile.ZipFile(file).extractall(made / "unpacked")
    return made / "unpacked"


def contents(file: Path) -> dict[str, bytes]:
    """Of a wheel as it was built: Python writes bytecode into the unpacked one."""
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.slow
def test_the_wheel_holds_the_packages(wheel):
    assert sorted(path.name for path in wheel.iterdir() if path.suffix != ".dist-info") == sorted(PACKAGES)
    source = {
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in SUFFIXES
    }
    [file] = wheel.parent.glob("*.whl")
    found = {Path(name) for name in contents(file) if name.split("/")[0] in PACKAGES}
    assert found == source


@pytest.mark.slow
def test_a_yaml_pipeline_elsewhere_finds_the_transforms_of_the_wheel(wheel, tmp_path):
    """It named a file in the checkout."""
    (tmp_path / "job.yaml").write_text((ROOT / "pipelines/yaml/parquet.yaml").read_text())
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


@pytest.mark.slow
def test_the_metadata_of_the_wheel(wheel):
    [file] = wheel.glob("*.dist-info/METADATA")
    metadata = Parser().parsestr(file.read_text(encoding="utf-8"))
    assert metadata["Version"] == PROJECT["version"]
    assert engines([Requirement(line) for line in metadata.get_all("Requires-Dist")]) == ENGINES


@pytest.mark.slow
def test_the_sdist_makes_the_same_wheel(wheel, tmp_path):
    python = environment(tmp_path / "build", "hatchling")
    command = [python, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=120)
    [sdist] = tmp_path.glob("*.tar.gz")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(sdist)]
    subprocess.run(command, check=True, timeout=300)
    [found], [expected] = (map(contents, folder.glob("*.whl")) for folder in (tmp_path, wheel.parent))
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


def environment(folder: Path, what: str) -> str:
    """The Python of a new environment, into which the pip from here has installed something, and nothing else."""
    venv.create(folder)
    python = str(folder / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile", what]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode and "connection broken" in done.stderr:
        pytest.skip("pip cannot reach an index")
    assert done.returncode == 0, done.stderr
    return python


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "ours", "brings", "not_there"),
    [
        ("", "ldp_core", "pyarrow", ["polars", "apache_beam", "altair", "typer"]),
        ("polars", "ldp_polars", "polars", ["apache_beam", "altair", "typer", "pandas"]),
        ("beam", "ldp_beam", "apache_beam", ["polars", "altair", "typer"]),
        ("plot", "ldp_plots", "altair", ["polars", "apache_beam", "typer"]),
        ("cli", "ldp_cli", "typer", ["polars", "apache_beam", "altair"]),
    ],
)
def test_an_extra_alone(wheel, tmp_path, extra, ours, brings, not_there):
    [file] = wheel.parent.glob("*.whl")
    python = environment(tmp_path / "new", f"{PROJECT['name']}[{extra}] @ {file.as_uri()}")
    code = f"import {ours}, {brings}; from importlib.util import find_spec as find; print([*filter(find, {not_there})])"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=alone, timeout=120)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
