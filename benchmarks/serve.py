"""How many reports a second `ldp serve` takes, beside the server's own floor, which is an answer with nothing to do.

``python -m benchmarks.serve [SECONDS]``. Server and clients share the machine. Clients are in one process, each on a
connection of its own, and ask again as soon as they are answered.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ldp_core import PrivacyPlan, RandomizedResponse, UnaryEncoding

PLAN = PrivacyPlan(
    {"os": UnaryEncoding(["ios", "android", "web"], epsilon=1.0), "crashed": RandomizedResponse(epsilon=1.0)}
)
ROW = b'{"os":"AQ==","crashed":true}\n'
CLIENTS = (1, 64)
SIZES = (0, 1, 100, 1000)
HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def client(port: int, request: Callable[[], bytes], until: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    done = 0
    while time.monotonic() < until:
        writer.write(request())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
        await reader.readexactly(length)
        done += 1
    writer.close()
    return done


async def answered(port: int, request: Callable[[], bytes], clients: int, seconds: float) -> tuple[int, float]:
    start = time.monotonic()
    done = await asyncio.gather(*(client(port, request, start + seconds) for _ in range(clients)))
    return sum(done), time.monotonic() - start


def core_seconds(process: int) -> float:
    """What it has had of the processors: another program may have the rest."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def message(size: int) -> bytes:
    kind = f"application/vnd.ldp.reports+ndjson; version=1; plan={PLAN.fingerprint}"
    head = f"POST /reports HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\nidempotency-key: {uuid.uuid4()}\r\n"
    return f"{head}content-length: {size * len(ROW)}\r\n\r\n".encode() + ROW * size


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:  # on the disk: /tmp may be in memory
        plan = Path(folder) / "plan.toml"
        plan.write_text(PLAN.to_toml())
        command = f"serve --plan {plan} --output {folder}/out --port 0 --rate 1e9".split()
        code = "from ldp_cli import main; main()"
        with subprocess.Popen([sys.executable, "-c", code, *command], stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                port = int(server.stdout.readline().strip().strip("/").rpartition(":")[2])
                print("clients  reports a message  messages a second  reports a second  reports a second of a core")
                for clients in CLIENTS:
                    for size in SIZES:
                        before = core_seconds(server.pid)
                        request = partial(message, size) if size else lambda: HEALTH
                        done, took = asyncio.run(answered(port, request, clients, seconds))
                        cores, many = core_seconds(server.pid) - before, done * max(size, 1)
                        numbers = f"{done / took:17,.0f}  {many / took:16,.0f}  {many / cores:26,.0f}"
                        print(f"{clients:7}  {size or 'floor':>17}  {numbers}")
            finally:
                server.terminate()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
