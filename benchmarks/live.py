"""The live pipeline: simulated devices, Pub/Sub server and Beam's local streaming runner, all in one process."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Row
from ldp_core import Mechanism, PrivacyPlan, RandomizedResponse, UnaryEncoding

CASES: list[tuple[str, Mechanism]] = [
    ("k-ary RR d=16", RandomizedResponse([f"v{i}" for i in range(16)], epsilon=1.0)),
    ("OUE d=16", UnaryEncoding([f"v{i}" for i in range(16)], epsilon=1.0)),
]


def rows(scale: float) -> Iterator[Row]:
    seconds = max(int(20 * scale), 5)
    for name, mechanism in CASES:
        with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
            plan = Path(scratch) / "plan.toml"
            plan.write_text(PrivacyPlan({"value": mechanism}).to_toml(), encoding="utf-8")
            options = ["--live", "--for", f"{seconds}s", "--window", "5s", "--rate", "max", "--plan", str(plan)]
            command = [sys.executable, "-m", "pipelines.telemetry", *options]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        sent = re.search(r"sent ([\d,]+) = counted .* holds", done.stdout)
        assert sent is not None, done.stdout
        cost = 1e9 * seconds / int(sent[1].replace(",", ""))
        job = f"Beam live: {name}, perturbed, sent, received and counted for {seconds} s"
        yield Row(f"{job}, {1000 / cost:.3g} M reports/s", "", "ns/report", cost, None, "<= 200", cost <= 200)
