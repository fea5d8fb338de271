"""Larger than memory and on all cores: Parquet -> packed OUE reports -> Parquet, each run in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.timing import Row

BLOCK = 1_000_000


def rows(scale: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
        folder = Path(scratch)
        for d, n in ((128, int(1e7 * scale)), (16, int(2e8 * scale))):
            job = f"OUE d={d}, {n / 1e6:g} M rows, scan_parquet -> sink_parquet (packed): peak memory"
            ours, copy, expression = (run(folder, d, n, how, repeats=1) for how in ("file", "copy", "expression"))
            peak = f"{1e9 * ours['seconds'] / n:.3g} ns/row in all; Polars' copy of the values"
            yield Row(job, peak, "MB", ours["peak_mb"], copy["peak_mb"], "< 500", ours["peak_mb"] < 500)
            yield Row("the same by an expression, not by a plan", "", "MB", expression["peak_mb"], None, "", None)
        for n in (int(10**k * scale) for k in (5, 6, 7, 8)):
            cost = 1e9 * run(folder, 16, n, "file")["seconds"] / n
            yield Row(f"the same, d=16, {n:.0e} rows, second and later runs", "", "ns/row", cost, None, "", None)
        for d, n in ((16, int(2e7 * scale)), (128, int(4e6 * scale))):
            run(folder, d, n, "file", repeats=1, keep=True)
            for how, label in (
                ("memory", "in memory"),
                ("file", "file to file"),
                ("reports", "Polars' copy of the file"),
            ):
                turns = [[run(folder, d, n, how, cores=cores)["seconds"] for cores in (2, 1)] for _ in range(3)]
                two, one = (1e9 * statistics.median(side) / n for side in zip(*turns, strict=True))
                bar, reached = (">= 1.75x", one / two >= 1.75) if how != "reports" else ("", None)
                yield Row(f"OUE d={d}, {label}: two cores", "one core", "ns/row", two, one, bar, reached)


def run(
    scratch: Path, d: int, n: int, how: str, *, repeats: int = 4, cores: int = 2, keep: bool = False
) -> dict[str, Any]:
    """Median seconds (of the runs after the first, if any) and peak memory of a process that makes some runs.

    With fewer ``cores`` it is held to these: Polars uses more than it is told to by ``POLARS_MAX_THREADS``.
    """
    source = scratch / f"events-{d}-{n}.parquet"
    if not source.exists():
        write_events(source, d, n)
    reports = scratch / f"reports-{d}-{n}.parquet"
    target = reports if keep else scratch / "made.parquet"
    if how == "reports":
        source, how = reports, "copy"
    command = [sys.executable, "-m", "benchmarks.memory", str(source), str(target)]
    held = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))]
    done = subprocess.run([*held, *command, str(d), str(repeats), how], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def write_events(path: Path, d: int, n: int) -> None:
    import numpy as np
    import polars as pl
    import pyarrow.parquet as pq

    rng, labels, writer = np.random.default_rng(0), pl.Enum([f"v{i}" for i in range(d)]), None
    for start in range(0, n, BLOCK):
        codes = rng.integers(0, d, min(BLOCK, n - start), dtype=np.uint8)
        table = pl.DataFrame({"code": codes}).select(x=pl.col("code").cat.to(labels)).to_arrow()
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def main(source: str, target: str, d: str, repeats: str, how: str) -> None:
    """Perturb a Parquet column, or copy the file, some times; print seconds and peak memory as JSON."""
    import polars as pl

    import ldp_polars
    from ldp_core import PrivacyPlan, UnaryEncoding

    m = UnaryEncoding([f"v{i}" for i in range(int(d))], epsilon=1.0)
    encode, plan = ldp_polars.unary_encode("x", m, packed=True), PrivacyPlan({"x": m})
    values, scan = pl.read_parquet(source) if how == "memory" else pl.DataFrame(), pl.scan_parquet(source)
    jobs: dict[str, Callable[[], object]] = {
        "memory": lambda: values.select(encode),
        "file": lambda: scan.ldp.perturb(plan, packed=True).sink_parquet(target),
        "expression": lambda: scan.select(encode).sink_parquet(target),
        "copy": lambda: scan.sink_parquet(target),
    }
    seconds = []
    for _ in range(int(repeats)):
        start = time.perf_counter()
        jobs[how]()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(seconds[1:] or seconds), "peak_mb": peak_mb()}))


def peak_mb() -> float:
    """Of this program; getrusage's figure is not less than that of the process which started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    (line,) = (line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1000


if __name__ == "__main__":
    main(*sys.argv[1:])
