"""An application and its client, without a network; and servers in processes of their own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ldp_core import Limits, PrivacyPlan, RandomizedResponse, UnaryEncoding

_REASON = "needs the extra serve: pip install 'ldp-telemetry[serve,test]'"
httpx = pytest.importorskip("httpx", reason=_REASON)
pytest.importorskip("uvicorn", reason=_REASON)
TestClient = pytest.importorskip("starlette.testclient", reason=_REASON).TestClient

from ldp_serve import Batch, Options, Queue, Reader, Store, make_app, run  # noqa: E402 (which needs these)
from ldp_serve import queue as queue_module  # noqa: E402
from ldp_serve import store as store_module  # noqa: E402

__all__ = [
    "Batch",
    "Options",
    "Queue",
    "Reader",
    "Store",
    "httpx",
    "queue_module",
    "run",
    "store_module",
]  # and what is below
ROOT = Path(__file__).parents[2]
OS = ["ios", "android", "web"]
PLAN = PrivacyPlan(
    {"os": UnaryEncoding(OS, epsilon=2.0), "level": RandomizedResponse(["low", "high"], epsilon=2.0)}, keep=["day"]
)
KEPT = {"day": "date"}
NDJSON = f"application/vnd.ldp.reports+ndjson; version=1; plan={PLAN.fingerprint}"
ARROW = "application/vnd.apache.arrow.stream"
LIMITS = Limits(rows=1000, bytes=1 << 20, plan_bytes=1 << 16)
ROW = {"os": "AQ==", "level": "low", "day": "2026-11-24"}
SECRET = "qq-raw-value-qq"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


class Served:
    """The application while the ``with`` block runs."""

    def __init__(self, folder, plan=PLAN, kept=KEPT, address="testclient", sink=None, **options):
        self.folder = folder
        self.reader = Reader(plan, kept, LIMITS, keyed=options.get("repeats") is not None)
        self.store = sink or Store(folder, plan, self.reader.schema)
        options = Options(**{"hosts": ("testserver",), "rate": 1e6, **options})
        self.app = make_app(self.reader, self.store, options)
        self.client = TestClient(self.app, client=(address, 1))

    def __enter__(self):
        self.client.__enter__()
        return self

    def __exit__(self, *_):
        self.client.__exit__(None, None, None)

    def post(self, body, key="k1", kind=NDJSON, **headers):
        given = {"content-type": kind, "idempotency-key": key, **headers}
        return self.client.post("/reports", content=body, headers={k: v for k, v in given.items() if v is not None})

    def get(self, path, **headers):
        return self.client.get(path, headers=headers)

    @property
    def n(self):
        return max(tally.n for tally in self.store.tallies.values())

    def outcomes(self):
        """From the metrics."""
        found = (line.split("}") for line in self.get("/metrics").text.splitlines() if "outcome" in line)
        return {name.split('"')[1]: int(n) for name, n in found}


PLANTED = """
import pathlib, ldp_serve.store
opened = pathlib.Path.open
pathlib.Path.open = lambda path, mode="r", **how: opened(path, mode, 1 << 24 if mode == "wb" else -1, **how)
ldp_serve.store._sync = lambda file: None
"""


@contextlib.contextmanager
def server(folder, plan_file, *more, planted=False):
    """`ldp serve` in a process of its own; gives the process and its address, and ends it by SIGTERM.

    Without a folder ``more`` says where reports go. With ``planted`` it acknowledges what is in its own memory only.
    """
    fault = PLANTED if planted else ""
    command = [sys.executable, "-c", f"{fault}from ldp_cli import main; main()", "serve", "--plan", plan_file]
    command += [*(("--output", folder) if folder else ()), "--port", "0", "--rate", "1e6", *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(map(str, command), stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), url
            yield process, url
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(30)


def wait_for(url):
    """Until the server answers."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=20)) as client:
        assert client.get(url + "health").status_code == 200


def acknowledged_until_killed(process, url, body, timeout=5.0):
    """Four clients send, each message with a key of its own, until the server is killed: the keys that got a 200."""
    keys, lock = [], threading.Lock()

    def send(name):
        with httpx.Client(timeout=timeout) as client:
            for k in range(10_000):
                headers = {"content-type": NDJSON, "idempotency-key": f"{name}-{k}"}
                try:
                    answer = client.post(url + "reports", content=body, headers=headers)
                except httpx.HTTPError:
                    return
                assert answer.status_code == 200
                with lock:
                    keys.append(f"{name}-{k}")

    threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    while len(keys) < 100:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    for thread in threads:
        thread.join()
    return keys
