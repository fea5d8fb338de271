"""Broken input by the thousand, in processes with little memory: nothing but `LdpError`, and no message shows a value.

LDP_FUZZ_CASES is how many cases there are, over all entry points (default 50,000). LDP_FUZZ_FIRST is the number of the
first, which gives others.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .shares import SHARES

CASES = int(os.environ.get("LDP_FUZZ_CASES", "50000"))
FIRST = int(os.environ.get("LDP_FUZZ_FIRST", "0"))

pytestmark = pytest.mark.fuzz


def searched(name: str, cases: int, planted: str = "", first: int = FIRST) -> dict[str, Any]:
    """What a process reports that takes so many cases; what it says last, if it dies."""
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.run",
        name,
        str(first),
        str(first + cases),
        *([planted] if planted else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    if done.returncode:
        last = done.stdout.strip().rpartition("\n")[2]
        return {"faults": 1, "found": f"ended with {done.returncode} in the 64 cases from {last}", "cases": cases}
    return json.loads(done.stdout.strip().rpartition("\n")[2])


@pytest.mark.parametrize("name", SHARES)
def test_nothing_but_our_own_errors(name):
    if name == "requests_to_the_server":
        for package in ("starlette.testclient", "uvicorn"):
            pytest.importorskip(package, reason="needs the extra serve: pip install 'ldp-telemetry[serve,test]'")
    report = searched(name, max(CASES * SHARES[name] // sum(SHARES.values()), 100))
    assert report["faults"] == 0, report["found"]


def test_metadata_with_which_arrow_ends_the_process():
    """Case 2,008,331: where Arrow wrote them again, to be read here."""
    report = searched("watched_files", 1, first=2_008_331)
    assert report["faults"] == 0, report["found"]


@pytest.mark.parametrize(
    "planted",
    [
        "another exception",
        "a message that shows a value",
        "much memory",
        "memory that stays",
        "much time",
        "the end of the process",
    ],
)
def test_it_finds(planted):
    report = searched("states_of_who_was_seen", 400, planted)
    assert report["faults"]


@pytest.mark.parametrize("planted", ["sizes that nobody compares", "errors of numpy and Python that nobody catches"])
def test_it_finds_a_defence_that_is_gone(planted):
    assert searched("arrow_messages", 1500, planted)["faults"]


def test_every_entry_point_has_a_share():
    from .entry_points import ENTRY_POINTS

    assert list(ENTRY_POINTS) == list(SHARES)
