"""Lines: NDJSON of which a part cannot be used, against the same lines without fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from benchmarks.timing import Row, compare
from ldp_beam.io.ndjson import parse_lines

SCHEMA = pa.schema([("os", pa.string()), ("n", pa.int64()), ("ok", pa.bool_()), ("at", pa.timestamp("us", "UTC"))])
FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda line: line[:-3] + b"}",
    "of another type": lambda line: line.replace(b'"ios"', b"7"),
    "no time": lambda line: line.replace(b"-01-01", b"-02-30"),
    "no UTF-8": lambda line: line.replace(b"ios", b"\xff"),
}


def rows(scale: float) -> Iterator[Row]:
    n = int(1e5 * scale)
    good = [
        json.dumps({"os": "ios", "n": i, "ok": i % 2 == 0, "at": f"2024-01-01T00:00:{i % 60:02}Z"}).encode()
        for i in range(n)
    ]
    for fault, make in FAULTS.items():
        for share in (0.0001, 0.01, 0.5, 1.0):
            bad = np.random.default_rng(0).random(n) < share
            lines = [make(line) if is_bad else line for line, is_bad in zip(good, bad.tolist(), strict=True)]
            yield compare(
                f"{share:.2%} of lines {fault}",
                "good lines",
                lambda lines=lines: parse_lines(lines, SCHEMA),  # type: ignore[misc]
                lambda: parse_lines(good, SCHEMA),
                n=n,
                bar=0.1,
            )
