"""``python -m benchmarks``: one table, every ratio measured in this run."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.timing import HEADING, Row
from pipelines.table import aligned

SUITES = ("kernels", "columns", "peers", "oracles", "numbers", "heavy_hitters", "streams", "lines", "live", "memory")


NOTES = """
Runs of this table differ, the ratios by 10 to 20 %, and a few of those near their bars fall on either side of them.

With the extra `fast` (numba). [Without it](benchmarks_numpy.md): `LDP_KERNELS=numpy`, and `--only columns`.

**Where a bar is missed**

* *Binary randomized response through `.ldp`.* The perturbation itself is in the row above it. The rest is the row index
  that Polars materialises for the expression (4 bytes a row; the function is handed Booleans at 1 bit a row). Without
  that index Polars evaluates the function on a Parquet file's dictionary, on statistics and on literals in place of
  rows; `pl.repeat` in its place fails the regression tests for literals and hive columns.
* *Keyed noise.* A function of an id needs one AES block a record, 0.7 to 0.8 ns where they are made many at a time, and
  k-ary and binary response take 2.3 and 2.9 times as long as that; fresh binary noise takes one byte of keystream a
  record. OUE needs several blocks a record. Two cores draw the fresh noise beside it, one the keyed noise: with two,
  keyed response was slower.
* *Two threads from file to file.* See below.

**Against Polars' own one-hot encoding**, which takes both cores too, private one-hot encoding takes 0.38 times its
time for 16 values and 0.66 times for 128; lazily 0.67 and 0.95 times. A tally of SHE (d=128) and one of SMP are so
near their bar of 20x that a busy machine may show less.

**The peers.** All of their clients and servers take one value and one report a call, in Python or numba; ours take
columns. Their sketches and PEM need a shim for numpy 2, their local hashing xxhash below 4. Longitudinal ones draw
their "permanent" answer anew at each call, RAPPOR has no second round, RS+FD spends more than it says: the
comparison is of speed alone. Costs of FLH, HR, BHR, PGR and HCMS servers at 10^6 reports hardly grow with d; a tally
of CMS is 256 sums of 256 bits, whatever d is. (FLH's has a constant part, not small at a large epsilon: 5.7 s for
d = 16,384 at epsilon 3, 11 s at 4, where PGR takes 14 ns a report.)

**Cost against the number of rows.** From 10^6 (Polars) or 10^7 (Beam) on it is flat or falling; below, the start of
a query (10 ms) or of a pipeline (150 ms) is most of it.

**What the threads do.** Compiled loops and the keystream run without Python's global lock, in few long calls. A call
with many rows is shared by all cores, each with a keystream of its own: two are 1.8 times as fast as one. The table
gives the share of a call that holds the lock, and what follows from it for more cores, which nobody has tried.
Polars' streaming engine calls with 100,000 rows at a time, each in one thread. There a second core gains less: Python
takes the lock 12 times a call, and the steps of a first call in a new thread take 177 us where they take 39 in a loop
that does nothing else. From file to file most of the time is Polars' reading and writing.

**Memory.** Of the 571 MB for 2 * 10^8 rows numba has 130 to 200: without `fast` it was 361 (one run each, by hand).

**Where Beam's time goes** (k-ary, d=128, a sampling profiler on a busy machine): 42 % is work of ours, of which
drawing and encoding are a third, times and windows a quarter; no single step has more than 6 %.
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Ours against plain numpy, the peers (extra 'peers', where installed), Polars' and Beam's own "
        "floors. Both sides of a ratio run alternately in one process; medians. A ratio above 1 is ours faster.",
    )
    parser.add_argument("--only", nargs="+", choices=SUITES, default=SUITES, help="suites to run (default all)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply all row counts (default 1)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    args = parser.parse_args()
    table: list[Row] = []
    for name in args.only:
        for row in importlib.import_module(f"benchmarks.{name}").rows(args.scale):
            print(f"  measured: {row.job} against {row.against or 'a limit'}", file=sys.stderr)
            table.append(row)
    cells = [row.cells() for row in table]
    print(aligned([HEADING, *cells]))
    if args.markdown:
        args.markdown.write_text(_markdown(cells, args.scale, tuple(args.only)), encoding="utf-8")
    return 1 if any(row.reached is False for row in table) else 0


def _markdown(cells: list[list[str]], scale: float, only: Sequence[str] = SUITES) -> str:
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("polars", "apache-beam", "numpy", "pyarrow"))
    with suppress(importlib.metadata.PackageNotFoundError):
        versions += f", numba {importlib.metadata.version('numba')}"
    if "LDP_KERNELS" in os.environ:
        versions += f", LDP_KERNELS={os.environ['LDP_KERNELS']}"
    suites = f" --only {' '.join(only)}" if only != SUITES else ""
    lines = [
        "# Benchmarks",
        "",
        f"As `python -m benchmarks{suites} --scale {scale:g}` measured it on {os.cpu_count()} cores, CPython "
        f"{platform.python_version()}, {versions}. Both sides of a ratio run alternately in one process; medians. "
        "A ratio above 1 is ours faster.",
        "",
        "| " + " | ".join(HEADING) + " |",
        "|" + " --- |" * len(HEADING),
        *("| " + " | ".join(row) + " |" for row in cells),
    ]
    return "\n".join(lines) + "\n" + (NOTES if only == SUITES else "")


if __name__ == "__main__":
    sys.exit(main())
