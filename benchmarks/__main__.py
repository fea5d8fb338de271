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
from ldp_beam.telemetry.table import aligned

SUITES = ("kernels", "columns", "peers", "oracles", "numbers", "heavy_hitters", "streams", "lines", "live", "memory")


NOTES = """
Runs of this table differ. Ratios differ by 10 to 20 %, so a ratio near its bar may reach it in one run and miss it in
another.

This run had the extra `fast` (numba). [The run without it](benchmarks_numpy.md) had `LDP_KERNELS=numpy` and
`--only columns`.

**Where a bar is missed**

* *One-hot encoding in the streaming engine.* In `select` it reaches its bars: 0.35 and 0.64 times the time of Polars'
  own. In a lazy query it takes 0.73 and 1.08 times, and with morsels of 2^19 rows
  (`pl.Config.set_streaming_chunk_size`) 0.54 and 1.25 times here, 0.42 and 0.68 in another run. See "What the threads
  do".
* *Binary randomized response through `.ldp`.* The perturbation itself is in the row above it. The rest is the row
  index that Polars materialises for the expression. It takes 4 bytes a row, while the Booleans take 1 bit a row.
  Without that index Polars evaluates the function on a Parquet file's dictionary, on statistics and on literals, and
  not on rows. Three cheaper guards were tried: `pl.repeat`, `shift` and a forward fill. With each of them, Polars
  draws once for all records of a hive partition.
* *K-ary response through `.ldp`.* The perturbation takes 0.3 ns a row. Polars takes 1.3 to look up the texts.
* *Keyed noise.* A function of an id needs one AES block a record, which takes 0.7 ns if many blocks are made at a time.
  On one core, k-ary and binary response take 2.1 and 2.5 times as long as that; on two cores, 1.5 and 1.8 times. Fresh
  binary noise takes only one byte of keystream a record. OUE needs several blocks a record.
* *Beam.* See "Where Beam's time goes".
* *Two cores.* A call of the core is 1.8 times as fast on two cores. A table in memory gains less: one core alone makes
  the row index (0.2 ns a row), and pads 2 bytes to 8 for 16 values (0.6 ns). As bits, without padding, it is 1.6 times
  as fast for 16 values and 1.7 for 128. File to file was 1.9 and 1.8 times as fast in another run. Polars' own copy of
  the file is 1.8 to 2.0 times as fast. One core means that the process is held to it: with `POLARS_MAX_THREADS=1`
  Polars uses more than one.

**The peers.** A tally of SHE (d=128) is so near its bar that a run may reach it or not. All of their clients and
servers take one value and one report a call, in Python or numba. Ours take columns. Their sketches and PEM need a shim
for numpy 2, and their local hashing needs xxhash below 4. We compare only speed: their longitudinal mechanisms draw the
"permanent" answer anew at each call, their RAPPOR has no second round, and their RS+FD spends more than it says. At
10^6 reports the costs of FLH, HR, BHR, PGR and HCMS servers hardly grow with d. A tally of CMS is 256 sums of 256 bits
for every d. (The cost of FLH has a constant part, which is not small at a large epsilon. For d = 16,384 it is 5.7 s at
epsilon 3 and 11 s at 4, where PGR takes 14 ns a report.)

**Cost against the number of rows.** From 10^6 rows (Polars) or 10^7 rows (Beam) on, the cost of a row is flat or
falling. With fewer rows, most of the cost is the start of a query (10 ms) or of a pipeline (150 ms).

**What the threads do.** Compiled loops and the keystream run without Python's global lock, in few long calls. A call
with many rows is shared by all cores, each with a keystream of its own: two are 1.8 times as fast as one. The table
gives the share of a call that holds the lock, and computes from it the gain of more cores. Nobody has tried more than
two cores. Polars' streaming engine calls with 100,000 rows at a time, each in one thread. There a second core gains
less. Python takes the lock 12 times a call, and waits for it when the other thread has it. A call of 258 us (d=16) in a
loop of its own takes 560 to 720 there.

**Memory.** Of the 369 MB for 2 * 10^8 rows, importing numba takes 54 MB and compiling one loop 90. An expression in
place of a plan takes more: Polars keeps the values that it has read ahead. See
[Polars](polars.md#more-than-memory-more-than-one-core).

**Where Beam's time goes** (k-ary, d=128; 10 ns a row beside reading). Drawing takes 2 to 4 ns a row, times and windows
1.5 to 3, counts 0.7. The rest is Python, 312 batches of 65,536 rows. What leaves a batch costs nothing that can be
measured. The local runner works in one thread. Beam ends each bundle up to 0.2 s late, because it waits for a thread
that samples its state. So these rows read each file twice.
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
