"""A progress line on standard error, from a counter in this process.

Beam's own counters cannot be read while a local run is under way, so that the reading step adds to this
one. Workers in other processes have a counter of their own, which nobody prints: at the end the line has what the
runner says, if it says it.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO


class Progress:
    """A thread-safe count of records and a thread that prints it while the ``with`` block runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.known = True
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.records = 0

    def add(self, records: int) -> None:
        """Count ``records`` more."""
        with self._lock:
            self.records += records

    def show(self, *, stream: TextIO | None = None, every: float = 0.5) -> Progress:
        """Print to ``stream`` (default standard error) every so many seconds on a terminal, and at the end."""
        self._stream, self._every = stream or sys.stderr, every
        return self

    def settle(self, records: int | None) -> None:
        """Take what the runner has counted; None if it does not tell: what this process has counted, if that is any."""
        with self._lock:
            self.known = records is not None or self.records > 0
            self.records = self.records if records is None else records

    def __enter__(self) -> Progress:
        self.records, self.known = 0, True
        self._start = time.perf_counter()
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._print("\n")

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            if self._stream.isatty():
                self._print("")

    def _print(self, end: str) -> None:
        seconds = max(time.perf_counter() - self._start, 1e-9)
        start = "\r" if self._stream.isatty() else ""
        records = f"{self.records:,} records read" if self.known else "done"
        line = f"{start}perturbed at ingestion: {records} in {seconds:.1f} s"
        self._stream.write(line + end)
        self._stream.flush()


PROGRESS = Progress()
