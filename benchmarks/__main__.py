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
Runs of this table differ. Ratios differ by 10 to 20 %, so a ratio near its bar may reach it in one run and miss it in
another.

This run had the extra `fast` (numba). [The run without it](benchmarks_numpy.md) had `LDP_KERNELS=numpy` and
`--only columns`.

**Where a bar is missed**

* *Binary randomized response through `.ldp`.* The perturbation itself is in the row above it. The rest is the row
  index that Polars materialises for the expression. It takes 4 bytes a row, while the Booleans take 1 bit a row.
  Without that index Polars evaluates the function on a Parquet file's dictionary, on statistics and on literals, and
  not on rows. With `pl.repeat` in place of the index, the regression tests for literals and hive columns fail.
* *Keyed noise.* A function of an id needs one AES block a record. That takes 0.7 to 0.8 ns if many blocks are made at
  a time. K-ary and binary response take 2.3 and 2.9 times as long as that. Fresh binary noise takes only one byte of
  keystream a record. OUE needs several blocks a record. Two cores draw the fresh noise, but only one core draws the
  keyed noise: with two, keyed response was slower.
* *Two threads from file to file.* See below.

**Against Polars' own one-hot encoding.** Both use both cores. Private one-hot encoding takes 0.38 times the time of
Polars for 16 values and 0.66 times for 128. In a lazy query it takes 0.67 and 0.95 times. A tally of SHE (d=128) and
one of SMP are so near their bar of 20x that a busy machine may show less.

**The peers.** All of their clients and servers take one value and one report a call, in Python or numba. Ours take
columns. Their sketches and PEM need a shim for numpy 2, and their local hashing needs xxhash below 4. We compare only
speed: their longitudinal mechanisms draw the "permanent" answer anew at each call, their RAPPOR has no second round,
and their RS+FD spends more than it says. At 10^6 reports the costs of FLH, HR, BHR, PGR and HCMS servers hardly grow
with d. A tally of CMS is 256 sums of 256 bits for every d. (The cost of FLH has a constant part, which is not small
at a large epsilon. For d = 16,384 it is 5.7 s at epsilon 3 and 11 s at 4, where PGR takes 14 ns a report.)

**Cost against the number of rows.** From 10^6 rows (Polars) or 10^7 rows (Beam) on, the cost of a row is flat or
falling. With fewer rows, most of the cost is the start of a query (10 ms) or of a pipeline (150 ms).

**What the threads do.** Compiled loops and the keystream run without Python's global lock, in few long calls. A call
with many rows is shared by all cores, each with a keystream of its own: two are 1.8 times as fast as one. The table
gives the share of a call that holds the lock, and computes from it the gain of more cores. Nobody has tried more than
two cores. Polars' streaming engine calls with 100,000 rows at a time, each in one thread. There a second core gains
less. Python takes the lock 12 times a call. The steps of a first call in a new thread take 177 us. In a loop that
does nothing else they take 39. From file to file most of the time is Polars' reading and writing.

**Memory.** Of the 571 MB for 2 * 10^8 rows, numba takes 130 to 200. Without `fast` it was 361 MB (one run each, by
hand).

**Where Beam's time goes** (k-ary, d=128, a sampling profiler on a busy machine). 42 % is work of ours. A third of
these 42 % is drawing and encoding, and a quarter is times and windows. No single step has more than 6 %.
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
