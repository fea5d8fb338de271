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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.timing import Row

BLOCK = 1_000_000


def rows(scale: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
        for d, n, limit in ((128, int(1e7 * scale), 1000), (16, int(2e8 * scale), 1500)):
            out = run(Path(scratch), d, n, repeats=1)
            yield Row(
                f"OUE d={d}, {n / 1e6:g} M rows, scan_parquet -> sink_parquet (packed): peak memory",
                f"{1e9 * out['seconds'] / n:.3g} ns/row in all",
                "MB",
                out["peak_mb"],
                None,
                f"< {limit}",
                out["peak_mb"] < limit,
            )
        sizes = [int(10**k * scale) for k in (5, 6, 7, 8)]
        costs = [1e9 * run(Path(scratch), 16, n)["seconds"] / n for n in sizes]
        for n, cost in zip(sizes, costs, strict=True):
            yield Row(f"the same, d=16, {n:.0e} rows, second and later runs", "", "ns/row", cost, None, "", None)
        for d, n in ((16, int(2e7 * scale)), (128, int(4e6 * scale))):
            turns = [[run(Path(scratch), d, n, threads=threads)["seconds"] for threads in (2, 1)] for _ in range(3)]
            two, one = (1e9 * statistics.median(side) / n for side in zip(*turns, strict=True))
            yield Row(f"the same, d={d}, two threads", "one thread", "ns/row", two, one, ">= 1.6x", one / two >= 1.6)


def run(scratch: Path, d: int, n: int, *, repeats: int = 4, threads: int = 2) -> dict[str, Any]:
    """Median seconds (of the runs after the first, if any) and peak memory of a process that makes some runs."""
    source = scratch / f"events-{d}-{n}.parquet"
    if not source.exists():
        write_events(source, d, n)
    command = [sys.executable, "-m", "benchmarks.memory", str(source), str(scratch / "reports.parquet")]
    env = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    done = subprocess.run([*command, str(d), str(repeats)], check=True, capture_output=True, text=True, env=env)
    out: dict[str, Any] = json.loads(done.stdout)
    return out


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


def main(source: str, target: str, d: str, repeats: str) -> None:
    """Perturb a Parquet column into another file some times; print seconds and peak memory as JSON."""
    import polars as pl

    import ldp_polars

    encode = ldp_polars.unary_encode("x", domain=[f"v{i}" for i in range(int(d))], epsilon=1.0, packed=True)
    seconds = []
    for _ in range(int(repeats)):
        start = time.perf_counter()
        pl.scan_parquet(source).select(encode).sink_parquet(target)
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
