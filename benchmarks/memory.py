"""Larger than memory: 10 million rows of OUE d=128 through ``sink_parquet``, in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Row

D = 128


def rows(scale: float) -> Iterator[Row]:
    n = int(1e7 * scale)
    with tempfile.TemporaryDirectory(prefix="ldp-bench-") as scratch:
        source = Path(scratch) / "events.parquet"
        write_events(source, n)
        command = [sys.executable, "-m", "benchmarks.memory", str(source), str(Path(scratch) / "reports.parquet")]
        out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield Row(
        f"OUE d={D}, {n / 1e6:g} M rows, scan_parquet -> sink_parquet (packed): peak memory",
        f"{1e9 * out['seconds'] / n:.3g} ns/row in all",
        "MB",
        out["peak_mb"],
        None,
        "< 1000",
        out["peak_mb"] < 1000,
    )


def write_events(path: Path, n: int) -> None:
    import numpy as np
    import polars as pl

    codes = np.random.default_rng(0).integers(0, D, n).astype(np.uint8)
    labels = pl.Enum([f"v{i}" for i in range(D)])
    pl.DataFrame({"code": codes}).select(x=pl.col("code").cat.to(labels)).write_parquet(path)


def main(source: str, target: str) -> None:
    """Perturb a Parquet column into another file; print seconds and peak memory as JSON."""
    import polars as pl

    import ldp_polars

    start = time.perf_counter()
    encode = ldp_polars.unary_encode("x", domain=[f"v{i}" for i in range(D)], epsilon=1.0, packed=True)
    pl.scan_parquet(source).select(encode).sink_parquet(target)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}))


if __name__ == "__main__":
    main(*sys.argv[1:])
