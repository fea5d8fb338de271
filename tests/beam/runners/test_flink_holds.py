"""Elements that wait for a checkpoint hold the watermark back, also those that came after it was taken."""

import subprocess
from pathlib import Path

import pytest

from tests.bed.flink import job_server_jar

from .conftest import need_flink

pytestmark = pytest.mark.flink


def test_what_came_during_a_checkpoint_holds_the_watermark_when_it_is_complete():
    """Beam's issue 39991. Its runner as it is has no hold for b and for c that is brought back, and hands on d."""
    need_flink()
    command = ["java", "-cp", str(job_server_jar()), str(Path(__file__).with_name("Holds.java"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if "compiler" in done.stderr and done.returncode:
        pytest.skip("this Java has no compiler")
    assert done.stdout.splitlines() == [
        "nothing waits: no hold []",
        "a waits: 1000 []",
        "b came during the checkpoint of a: 2000 [a]",
        "nothing waits: no hold [a, b]",
        "c waits, which came when the watermark was 2500: 2500 [a, b]",
        "restored with c: -9223372036854775 [a, b]",  # (the beginning of time)
        "d came during the checkpoint after it: 4000 [a, b, c]",
    ], done.stderr
