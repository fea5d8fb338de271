"""A progress line on standard error, from a counter in this process.

Beam's own counters cannot be read while a local run is under way, so that the reading step adds to this
one. Workers in other processes have a counter of their own, which nobody prints: at the end the line has what the
runner says, if it says it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """A thread-safe count of records, and a line that shows it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.known, self.records = True, 0

    def add(self, records: int) -> None:
        """Count ``records`` more."""
        with self._lock:
            self.records += records

    def settle(self, records: int | None) -> None:
        """Take what the runner has counted; None if it does not tell: what this process has counted, if that is any."""
        with self._lock:
            self.known = records is not None or self.records > 0
            self.records = self.records if records is None else records

    @contextmanager
    def show(self, *, stream: TextIO | None = None, every: float = 0.5) -> Iterator[None]:
        """Print to ``stream`` (default standard error) every so many seconds on a terminal, and at the end."""
        out, start, over = stream or sys.stderr, time.perf_counter(), threading.Event()
        self.known, self.records = True, 0

        def tell(end: str) -> None:
            records = f"{self.records:,} records read" if self.known else "done"
            line = f"perturbed at ingestion: {records} in {time.perf_counter() - start:.1f} s"
            out.write(("\r" if out.isatty() else "") + line + end)
            out.flush()

        def go_on() -> None:
            while not over.wait(every):
                tell("")

        thread = threading.Thread(target=go_on, daemon=True)
        if out.isatty():
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.is_alive():
                thread.join()
            tell("\n")


PROGRESS = Progress()
