"""``python -m benchmarks``: one table, every ratio measured in this run."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks.timing import HEADING, Row
from pipelines.table import aligned

SUITES = ("kernels", "columns", "peers", "oracles", "numbers", "heavy_hitters", "streams", "lines", "live", "memory")


NOTES = """
Runs of this table differ, the ratios by 10 to 20 %, and a few of those near their bars fall on either side of them.

**Where a bar is missed**

* *Binary randomized response through `.ldp`.* The perturbation itself is in the row above it. The rest is the row index
  that Polars materialises for the expression (4 bytes a row; the function is handed Booleans at 1 bit a row). Without
  that index Polars evaluates the function on a Parquet file's dictionary, on statistics and on literals in place of
  rows; `pl.repeat` in its place fails the regression tests for literals and hive columns.
* *Binary and k-ary randomized response with keyed noise.* A function of an id needs one AES block a record, 2.4 ns, and
  writing that block down costs about as much; fresh binary noise takes one byte of keystream a record, 0.5 ns in all.
  Keyed bit vectors need several bytes a record either way.
* *Beam at 5 * 10^7 rows.* Five runs of this table's rows gave 0.53 to 0.62 (k-ary), 0.43 to 0.53 (OUE d=16) and 0.20
  to 0.23 (OUE d=128): what is compared with, reading alone, varied from 26 to 36 ns. OUE d=128 is 128 exact decisions a
  record and sums by window, about 85 ns outside of Beam; a compiled kernel would help.
* *Two threads in Polars.* See below.
* *Live.* One process does all: it perturbs, sends, receives, tallies. Runs gave 4.9 to 8.2 M reports/s (k-ary) and
  4.4 to 7.0 (OUE), as the machine was busier or not.

**Against Polars' own one-hot encoding**, lazily, runs gave 1.04 to 1.24 times its cost for 16 values and 1.5 to
2.2 times for 128. A tally of SHE (d=128) and one of SMP are so near their bar of 20x that a busy machine may show less.

**The peers.** All of their clients and servers take one value and one report a call, in Python or numba; ours take
columns. Their sketches and PEM need a shim for numpy 2, their local hashing xxhash below 4. Longitudinal ones draw
their "permanent" answer anew at each call, RAPPOR has no second round, RS+FD spends more than it says: the
comparison is of speed alone. Costs of FLH, HR, BHR, PGR and HCMS servers at 10^6 reports hardly grow with d; a tally
of CMS is 256 sums of 256 bits, whatever d is. (FLH's has a constant part, not small at a large epsilon: 5.7 s for
d = 16,384 at epsilon 3, 11 s at 4, where PGR takes 14 ns a report.)

**Cost against the number of rows.** From 10^6 (Polars) or 10^7 (Beam) on it is flat or falling; below, the start of
a query (10 ms) or of a pipeline (150 ms) is most of it.

**What the threads do.** numpy releases Python's global lock inside each operation, but two threads hand it to each
other at every one, some 45 times a call, and wait for each other longer than an operation takes. Two *processes* on
the same two cores are 1.8 (d=16) and 2.0 times (d=128) as fast as one (100,000 rows a call: 795 us alone, 439 us
effectively; 5989 and 2944), so memory is not what limits it. Tried, without gain: one lock around the short
operations, one call for the whole keystream, buffers kept by each thread, malloc without `munmap`, a C function for
the comparison alone. What would help: all of a call in one compiled function, or a Python without the lock. Larger
morsels (`pl.Config.set_streaming_chunk_size`) help a little.
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
        args.markdown.write_text(_markdown(cells, args.scale), encoding="utf-8")
    return 1 if any(row.reached is False for row in table) else 0


def _markdown(cells: list[list[str]], scale: float) -> str:
    versions = ", ".join(f"{p} {importlib.metadata.version(p)}" for p in ("polars", "apache-beam", "numpy", "pyarrow"))
    with suppress(importlib.metadata.PackageNotFoundError):
        versions += f", numba {importlib.metadata.version('numba')}"
    if "LDP_KERNELS" in os.environ:
        versions += f", LDP_KERNELS={os.environ['LDP_KERNELS']}"
    lines = [
        "# Benchmarks",
        "",
        f"As `python -m benchmarks --scale {scale:g}` measured it on {os.cpu_count()} cores, CPython "
        f"{platform.python_version()}, {versions}. Both sides of a ratio run alternately in one process; medians. "
        "A ratio above 1 is ours faster.",
        "",
        "| " + " | ".join(HEADING) + " |",
        "|" + " --- |" * len(HEADING),
        *("| " + " | ".join(row) + " |" for row in cells),
    ]
    return "\n".join(lines) + "\n" + NOTES


if __name__ == "__main__":
    sys.exit(main())
