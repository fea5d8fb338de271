"""Flink and Beam's job server for it, built from ``pom.xml`` and cached."""

import hashlib
import os
import shutil
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree

from ldp_core import InputError
from tests.bed.maven import cache, made, program

WHAT = "a Flink cluster"
JOB_SERVER_JAR = "LDP_FLINK_JOB_SERVER_JAR"
_HERE = Path(__file__).parent
_POM = _HERE / "pom.xml"
_PATCH = _HERE / "beam.patch"
_SPACE = {"m": "http://maven.apache.org/POM/4.0.0"}
SMALL_MANIFEST = "ldp.SmallManifest"
_FLINK_WITHIN = ".flink-runtime.version.properties"


def _properties() -> dict[str, str]:
    found = ElementTree.fromstring(_POM.read_text()).find("m:properties", _SPACE)
    assert found is not None
    return {entry.tag.partition("}")[2]: entry.text or "" for entry in found}


VERSIONS = MappingProxyType(_properties())
"""What stands in ``pom.xml``: ``flink.version``, ``beam.runner.version`` and the others."""


def check_pairing() -> None:
    """Refuse a Beam in Python that the runner was not tried with."""
    wanted, has = VERSIONS["beam.sdk.version"], version("apache-beam")
    if not f"{has}.".startswith(f"{wanted}."):
        raise InputError(
            f"apache-beam {has} is installed, and Flink's runner {VERSIONS['beam.runner.version']} was tried with "
            f"{wanted}: pip install 'apache-beam=={wanted}.*', or change beam.sdk.version in {_POM} and run the tests "
            "marked flink"
        )


def cache_directory() -> Path:
    """Where what is built and, by default, the cluster's logs and process ids go."""
    return cache() / "flink"


def flink_jars() -> Path:
    """The folder of Flink's jars, the cluster's class path; built when it is not there (65 MB from Maven Central)."""
    return _built("lib", ["-P", "cluster", "dependency:copy-dependencies", "-DoutputDirectory=lib"])


def job_server_jar() -> Path:
    """Beam's job server, which turns a pipeline into a Flink job; built when it is not there (from 200 MB of jars).

    The environment variable ``LDP_FLINK_JOB_SERVER_JAR`` can name another one.
    """
    given = os.environ.get(JOB_SERVER_JAR)
    path = Path(given) if given else _built("target/job-server.jar", ["-P", "job-server", "package"])
    wanted = VERSIONS["flink.minor"]
    try:
        with zipfile.ZipFile(path) as jar:
            lines = jar.read(_FLINK_WITHIN).decode().splitlines()
    except FileNotFoundError:
        raise InputError(
            f"there is no {path}; {JOB_SERVER_JAR} names it: correct it, or unset it to build one"
        ) from None
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        raise InputError(f"{path} is not a job server for Flink; remove it, or unset {JOB_SERVER_JAR}") from None
    has = next((line.partition("=")[2] for line in lines if line.startswith("project.version=")), "none")
    if not has.startswith(f"{wanted}."):
        raise InputError(
            f"{path} is for Flink {has}, and the cluster is Flink {VERSIONS['flink.version']}: take a job server for "
            f"{wanted}, or change flink.version and flink.minor in {_POM.name}"
        )
    return path


def has_class(jar: Path, name: str) -> bool:
    """Whether a jar has a class; one that ``LDP_FLINK_JOB_SERVER_JAR`` names may lack ours."""
    with zipfile.ZipFile(jar) as opened:
        return f"{name.replace('.', '/')}.class" in opened.namelist()


def _built(name: str, goals: list[str]) -> Path:
    """What Maven makes of the pom and the Java beside it, kept under a name that changes with them."""
    sources = [_POM, _PATCH, *sorted((_HERE / "java").rglob("*.java"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    kept = cache_directory() / f"{VERSIONS['flink.version']}-{digest[:8]}" / Path(name).name
    if kept.exists():
        return kept
    program("java", WHAT)
    program("mvn", WHAT)
    if "package" in goals:
        program("git", WHAT)  # applies the patch
    print(f"building {kept} from Maven Central; a minute or two, once", file=sys.stderr)
    return made(kept, name, goals, _put, WHAT)


def _put(folder: Path) -> None:
    shutil.copy(_POM, folder)
    shutil.copy(_PATCH, folder)
    shutil.copytree(_HERE / "java", folder / "java")
