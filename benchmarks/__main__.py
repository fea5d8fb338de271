"""``python -m benchmarks``: one table, every ratio measured in this run."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from benchmarks.timing import HEADING, Row
from pipelines.table import aligned

SUITES = ("columns", "peers", "streams", "live", "memory")


NOTES = """
**Where a bar is missed**

* *Binary randomized response through `.ldp`.* The perturbation itself is in the row above it. The rest is the row index
  that Polars materialises for the expression (4 bytes a row; the function is handed Booleans at 1 bit a row). Without
  that index Polars evaluates the function on a Parquet file's dictionary, on statistics and on literals in place of
  rows; `pl.repeat` in its place fails the regression tests for literals and hive columns.
* *Binary randomized response with keyed noise.* One AES block a record is about 2.5 ns; fresh noise takes one byte of
  keystream a record, 0.5 ns in all. Keyed bit vectors need several bytes a record either way and are within the bar.
* *OUE d=128 in Beam* is a goal of later work.

**What the threads do.** numpy releases Python's global lock inside each operation, but two threads hand it to each
other at every one. With arrays of half a megabyte two threads are 1.6 to 1.8 times as fast as one (d=128, 100,000
rows a call); at d=16 a call's arrays are 200 KB and two threads gain nothing, which is why the lazy row is behind
the eager one there. A larger `POLARS_IDEAL_MORSEL_SIZE` helps; a compiled kernel would cure it.
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
