"""What is done because of faults of others: each with the versions in which it was seen, and a test."""

from __future__ import annotations

import os
import sys

FIXED = (3, 14)  # the Python in which a thread that calls back while Python ends no longer aborts the process


def end_at_once(code: int | str | None) -> None:
    """End the process without Python's own clean-up, if a query of Polars may still call back.

    After an error, threads of a query go on for a moment, and call our functions. When Python ends it ends such a
    thread from within, which Rust does not take: the process aborts, in 4 of 15 runs (CPython before 3.14,
    https://github.com/python/cpython/issues/87135; seen with Polars 2.1). Beam's threads must be waited for.
    """
    if sys.version_info < FIXED and "polars" in sys.modules and "apache_beam" not in sys.modules:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
