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

SUITES = ("kernels", "columns", "peers", "oracles", "numbers", "weights", "streams", "memory")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Ours against plain numpy, the peers (extra 'peers', where installed), Polars' and Beam's own "
        "floors. Both sides of a ratio run alternately in one process; medians. A ratio above 1 is ours faster.",
    )
    parser.add_argument("--only", nargs="+", choices=SUITES, default=SUITES, help="suites to run (default all)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiply all row counts (default 1)")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the table there too, above what follows it"
    )
    args = parser.parse_args()
    table: list[Row] = []
    for name in args.only:
        for row in importlib.import_module(f"benchmarks.{name}").rows(args.scale):
            print(f"  measured: {row.job} against {row.against or 'a limit'}", file=sys.stderr)
            table.append(row)
    cells = [row.cells() for row in table]
    print(aligned([HEADING, *cells]))
    if args.markdown:
        before = args.markdown.read_text(encoding="utf-8") if args.markdown.exists() else ""
        notes = before.rpartition("|\n")[2]  # which somebody has written
        args.markdown.write_text(_markdown(cells, args.scale, tuple(args.only)) + notes, encoding="utf-8")
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
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
