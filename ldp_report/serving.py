"""A report while its job runs: served to this machine only, and new as windows close."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from typing_extensions import override

from ldp_core import LdpError, PrivacyPlan
from ldp_report.page import report_page
from ldp_report.results import Results, Row, check_rows, window_of

MOST_WINDOWS = 200  # older windows are dropped


class LivePage:
    """Serves a report on 127.0.0.1 while the ``with`` block runs. Thread-safe.

    Args:
        plan: of the reports.
        confidence: of the intervals.
        port: to listen on; 0 for a free one.
        name: what the page is called.
        repeats: the most reports of one person in a window. Say it where noise is keyed, also if it is 1: the same
            people may be in two windows, and what differs between them is then not said.
        accumulating: see `Results`.

    Attributes:
        url: where it is, once it is served.

    Raises:
        LdpError: the port is taken.

    >>> from ldp_core import RandomizedResponse
    >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    >>> with LivePage(plan, 0.95) as page:
    ...     page.add("crashed", [{"value": "true", "count": 1.0, "low": 0.0, "high": 2.0, "n": 3}])
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        plan: PrivacyPlan,
        confidence: float,
        *,
        port: int = 0,
        name: str = "",
        repeats: int | None = None,
        accumulating: bool = False,
    ) -> None:
        self._lock = threading.Lock()
        self._letters: list[Row] = []
        columns: dict[str, list[Row]] = {column: [] for column in plan.columns}
        self._results = Results(columns, self._letters, plan, confidence, name, per_column=True, live=True)
        self._results.repeats, self._results.accumulating = repeats, accumulating
        self._counted: Counter[str] = Counter()
        self._version = 0
        self._ended = False
        self._cached: tuple[int, bytes] | None = None
        try:
            self._server = _Server(("127.0.0.1", port), self)
        except (OSError, OverflowError):
            raise LdpError(f"port {port} of 127.0.0.1 cannot be had: take another one, or 0 for a free one") from None
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def __enter__(self) -> LivePage:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, column: str, rows: Iterable[Row]) -> None:
        """Add the rows of a window that has closed, and of one group; the oldest window goes if there are too many.

        Rows are as in `Results`; an `InputError` says so of others.
        """
        check_rows(new := list(rows))
        with self._lock:
            there = self._results.columns.setdefault(column, [])
            there.extend(new)
            self._counted[column] += new[0]["n"] if new else 0
            self._results.counted = max(self._counted.values())
            windows = {window_of(row) for row in there} - {None}
            if len(windows) > MOST_WINDOWS:
                kept = set(sorted(windows)[-MOST_WINDOWS:])  # type: ignore[type-var]  # (None is out)
                self._results.columns[column] = [row for row in there if window_of(row) in kept]
            self._version += 1

    def bury(self, column: str, reason: str, count: int) -> None:
        """Count dead letters, of each column those that it lost; the reason of late ones is ``"late"``."""
        with self._lock:
            for letter in self._letters:
                if (letter["column_name"], letter["reason"]) == (column, reason):
                    self._letters.remove(letter)
                    count += letter["count"]
                    break
            self._letters.append({"column_name": column, "reason": reason, "count": count})
            self._version += 1

    def cover(self, first: datetime, last: datetime = datetime.max) -> None:
        """Say when the records begin, and if it is known when they end: windows that they fill in part are marked."""
        with self._lock:
            self._results.covered = first, last
            self._version += 1

    def end(self) -> None:
        """Say that no more windows will come."""
        with self._lock:
            self._ended = True
            self._version += 1

    def page(self) -> bytes:
        """The page, with what is known by now."""
        with self._lock:
            return report_page(self._results, live="data.json").encode()

    def data(self, known: str) -> bytes:
        """What is known by now, as JSON; its version alone, if that is the one which is known already."""
        with self._lock:
            if known == str(self._version):
                return json.dumps({"version": self._version}).encode()
            if self._cached is None or self._cached[0] != self._version:
                said: dict[str, Any] = {"version": self._version, "ended": self._ended}
                text = json.dumps({**said, "data": self._results.to_json()}, allow_nan=False)
                self._cached = (self._version, text.encode())
            return self._cached[1]


class _Server(ThreadingHTTPServer):
    def __init__(self, address: tuple[str, int], page: LivePage) -> None:
        self.page = page
        super().__init__(address, _Handler)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10.0

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """The page and its data, to those who have asked for this machine by its name.

        A page of another site whose name leads here (DNS rebinding) asks for that name, and gets nothing.
        """
        host = (self.headers.get("Host") or "").partition(":")[0]
        path, _, query = self.path.partition("?")
        if host not in ("127.0.0.1", "localhost"):
            self.send_error(403)
        elif path == "/":
            self._answer(self.server.page.page(), "text/html; charset=utf-8")
        elif path == "/data.json":
            self._answer(self.server.page.data(query), "application/json")
        else:
            self.send_error(404)

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)
