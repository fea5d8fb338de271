"""Requests to the server of reports, broken in every part; taken by the application, without a network."""

import asyncio
import json
import random
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from ldp_beam.io.messages import encode

from ..serve.helpers import ARROW, KEPT, LIMITS, NDJSON, PLAN, ROW, Options, Reader, Store, lines, make_app
from .mutations import SECRET, edited_bytes, edited_table, nested

_RAW = pa.record_batch({"os": ["ios", "web"], "level": ["low", "high"], "day": ["2026-11-24", None]})
BODIES = [lines(ROW), lines(*[ROW] * 40), lines(ROW, {**ROW, "level": SECRET}), lines({**ROW, "day": SECRET})]
BODIES += [b'{"os":' * 3000, b"[" * 3000 + b"\n", json.dumps(nested(700, table=True)).encode()]
MESSAGES = [encode(PLAN.perturb(_RAW)), encode(PLAN.perturb(_RAW, packed=True), compression="zstd"), encode(_RAW)]
HEADERS = {
    b"host": [b"testserver", b"testserver:8000", b"[::1]:80", b"evil.example"],
    b"content-type": [NDJSON.encode(), NDJSON.encode() + b"; noise=keyed", ARROW.encode(), b"text/plain;charset=utf-8"],
    b"idempotency-key": [b"1f0d4b9a-0a3c-4a7e-9d0f-000000000001", b"k"],
    b"authorization": [b"Bearer token", b"Basic dXNlcjp0b2tlbg==", b"Basic "],
    b"content-length": [b"100", b"99999999999999999999", b"-1"],
    b"origin": [b"https://good.example", b"null"],
    b"access-control-request-method": [b"POST", b"PUT"],
}
PATHS = ["/reports", "/", "/plan", "/data.json", "/metrics", "/health", "/reports/", "//", "/%00", "/\ud800"]
METHODS = ["POST", "GET", "HEAD", "OPTIONS", "PUT", "TRACE", "post"]


def a_request(rng: random.Random) -> tuple[dict[str, Any], list[bytes]]:
    """A scope of ASGI, and the chunks of the body; the last is None where the client goes away."""
    edit = rng.random() < 0.3
    headers = []
    for name, values in HEADERS.items():
        likely = 0.97 if name in (b"host", b"content-type", b"idempotency-key", b"authorization") else 0.1
        if rng.random() < likely:
            value = values[0] if rng.random() < 0.95 else rng.choice(values)
            headers.append((name, edited_bytes(rng, [value]) if edit and rng.random() < 0.3 else value))
    kind = rng.randrange(4)
    if kind == 0:
        body = edited_bytes(rng, MESSAGES)
        headers = [(name, ARROW.encode() if name == b"content-type" else value) for name, value in headers]
    else:
        body = edited_bytes(rng, BODIES)
    if kind == 1:
        with suppress(ValueError, TypeError, RecursionError):  # of which there is no JSON
            body = json.dumps(edited_table(rng, [ROW])).encode()
    if rng.random() < 0.7:  # else most are known
        headers = [(name, b"%d" % rng.getrandbits(64) if name == b"idempotency-key" else v) for name, v in headers]
    cut = rng.randrange(len(body) + 1)
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""}
    method, path = ("POST", "/reports") if rng.random() < 0.8 else (rng.choice(METHODS), rng.choice(PATHS))
    scope |= {"method": method, "path": path, "headers": headers}
    scope |= {"query_string": edited_bytes(rng, [b"", b"10-3"]), "client": rng.choice((("127.0.0.1", 9), None))}
    return scope, [body[:cut], None if rng.random() < 0.02 else body[cut:]]


@cache
def _served(folder: str) -> tuple[Any, Any]:
    reader = Reader(PLAN, KEPT, LIMITS)
    options = Options(
        token="token", read_token="token", hosts=("testserver",), origins=("https://good.example",), rate=1e9
    )
    app = make_app(reader, Store(Path(folder) / "served", PLAN, reader.schema), options)
    return app, asyncio.new_event_loop()


def answer_to(folder: str, scope: dict[str, Any], chunks: list[Any]) -> tuple[int, bytes]:
    """Status and body of what is answered."""
    app, loop = _served(folder)
    waiting, said = list(chunks), []

    async def receive() -> dict[str, Any]:
        chunk = waiting.pop(0) if waiting else None
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    loop.run_until_complete(app(scope, receive, send))
    return said[0]["status"], b"".join(message.get("body", b"") for message in said[1:])
