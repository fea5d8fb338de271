"""The ASGI application: who may ask for what, how much, and what is said of it. An answer never quotes a request."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ldp_core import LdpError, LimitError, Tally
from ldp_core.engine import collecting, questions_of
from ldp_report import Results, report_page
from ldp_serve.reading import KEYED, Reader
from ldp_serve.store import Batch, Sink

PLAN_TYPE = "application/vnd.ldp.plan+json; version=1"
NDJSON_TYPE, ARROW_TYPE = "application/vnd.ldp.reports+ndjson", "application/vnd.apache.arrow.stream"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_OUTCOMES = {401: "no token", 408: "too slow", 409: "another plan", 413: "too large", 415: "another type"}
_OUTCOMES |= {421: "another host", 429: "too many", 503: "disk"}
_WORDS = {404: "there is no such page", 405: "this page has no such method"}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_MOST_ADDRESSES, _MOST_CONNECTIONS = 1 << 14, 256
_FEW_BYTES = 1 << 14  # which are read at once: a thread takes longer
_MOST_LARGE, _LARGE_BYTES = 2, 1 << 16  # messages that are this large as Arrow, at once: a few kB may become 16 MB


@dataclass(frozen=True, kw_only=True)
class Options:
    """Who may do what, and how much of it.

    Args:
        token: that who sends reports must have; None: everybody may.
        read_token: that who looks at the page and the metrics must have; None: everybody may.
        origins: of pages in browsers that may send, as ``https://example.org``; ``*`` is all.
        hosts: names under which the server is asked for. (A page of another site may have a name that leads here.)
        most_bytes: of one message.
        rate: messages a second from one address, on average; twice as many at once.
        patience: seconds in which a message must have come.
        every: seconds after which what is in the journal becomes a Parquet file.
        confidence: of the intervals on the page.
        repeats: the most reports of one person, for these intervals.
    """

    token: str | None = None
    read_token: str | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = LOOPBACK
    most_bytes: int = 1 << 20
    rate: float = 100.0
    patience: float = 20.0
    every: float = 600.0
    confidence: float = 0.95
    repeats: int | None = None


def make_app(reader: Reader, store: Sink, options: Options) -> Starlette:
    """The application: POST /reports, GET /plan, /, /data.json, /metrics, /health. It closes the store when it ends.

    Raises:
        PlanError, ParameterError: a column has no estimate, or none of people who report several times.
    """
    room, token = _Room(reader, store, options), options.read_token
    routes = [Route("/reports", room.answering(room.reports, options.token), methods=["POST"])]
    routes += [Route(f"/{one.__name__}", room.answering(one, None)) for one in (room.plan, room.health)]
    looked_at = {"/": room.page, "/data.json": room.data, "/metrics": room.metrics}
    routes += [Route(path, room.answering(one, token)) for path, one in looked_at.items()]
    headers = ["content-type", "idempotency-key", "authorization"]
    cors = Middleware(CORSMiddleware, options.origins, allow_methods=["GET", "POST"], allow_headers=headers)
    app = Starlette(
        routes=routes,
        middleware=[cors] if options.origins else [],
        exception_handlers={HTTPException: room.refuse, LdpError: room.refuse},
        lifespan=room.lifespan,
    )
    app.router.redirect_slashes = False  # which reads the query as UTF-8
    return app


def run(app: Starlette, *, host: str, port: int, started: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; ``started`` is told the address. Nothing is logged of a request."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        async def answer(message: Any) -> None:
            many = len(server.server_state.connections) > _MOST_CONNECTIONS // 2
            if many and message["type"] == "http.response.start":  # browsers keep theirs, and others could not come in
                message["headers"].append((b"connection", b"close"))
            await send(message)

        await app(scope, receive, answer)

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=1024)
        listening.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )  # else an answer waits 40 ms for its second part
    except (OSError, OverflowError):
        raise LdpError(
            f"port {port} of {host} cannot be had: take another one, or 0, and an address of this machine"
        ) from None
    started(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/")
    with listening:
        config = uvicorn.Config(serve, proxy_headers=False, ws="none", log_level="critical", access_log=False)
        config.server_header, config.limit_concurrency = False, _MOST_CONNECTIONS
        config.timeout_keep_alive = config.timeout_graceful_shutdown = 10
        server = uvicorn.Server(config)
        server.run([listening])


class _Room:
    def __init__(self, reader: Reader, store: Sink, options: Options) -> None:
        self._reader, self._store, self._options = reader, store, options
        self._questions = questions_of(reader.plan.columns, None, options.confidence, repeats=options.repeats)
        self._outcomes, self._addresses = Counter[str](), dict[str, tuple[float, float]]()
        self._waiting, self._coming = list[Batch](), Counter[bytes]()
        self._one_group, self._looking, self._broken = asyncio.Lock(), asyncio.Lock(), False
        self._few = asyncio.Semaphore(_MOST_LARGE)
        self._results, self._version, self._until = Results(), "", 0.0
        self._made = dict[Callable[[Results, str], bytes], bytes]()

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        files = asyncio.create_task(self._make_files())
        yield
        files.cancel()
        await self._on_disk(None)
        self._store.close()

    async def _make_files(self) -> None:
        while True:
            await asyncio.sleep(self._options.every)
            await self._on_disk(None)

    async def _on_disk(self, batch: Batch | None) -> None:
        """Write what waits, one group at a time; with None make a file, too.

        If the disk fails, nothing is taken any more until the next start.
        """
        async with self._one_group:
            if batch is not None and self._store.known(batch):
                return  # it was in the group before: not to wait for the next one
            group, self._waiting = self._waiting, []
            try:
                if not self._broken:
                    await run_in_threadpool(self._store.append, group)
                    if batch is None:
                        await run_in_threadpool(self._store.finish)
            except OSError:
                self._broken = True

    async def refuse(self, request: Request, error: Exception) -> Response:
        status, words, more = 413 if isinstance(error, LimitError) else 400, str(error), None
        if isinstance(error, HTTPException):
            status, more = error.status_code, error.headers
            words = _WORDS.get(status, error.detail)
        if request.scope["path"] == "/reports":
            self._outcomes[_OUTCOMES.get(status, "refused")] += 1
        return JSONResponse({"error": words}, status, {**_HEADERS, **(more or {})})

    def answering(
        self, answer: Callable[[Request], Awaitable[Response]], token: str | None
    ) -> Callable[[Request], Awaitable[Response]]:
        """The same, for those who may ask."""

        async def endpoint(request: Request) -> Response:
            host = request.headers.get("host", "")
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name.lower() not in self._options.hosts:
                raise HTTPException(421, "this server does not have this name: --host-name NAME gives it one")
            if request.method == "POST":
                self._check_rate("" if request.client is None else request.client.host)
            if token is not None and not (token and secrets.compare_digest(_given(request), token.encode())):
                raise HTTPException(401, "a token is needed", {"WWW-Authenticate": 'Basic realm="ldp"'})
            response = await answer(request)
            response.headers.update(_HEADERS)
            return response

        return endpoint

    def _check_rate(self, address: str) -> None:
        """Take one of what an address has left, which becomes more as time goes by."""
        now, most = time.monotonic(), max(2 * self._options.rate, 1.0)
        left, at = self._addresses.pop(address, (most, now))
        left = min(most, left + (now - at) * self._options.rate)
        self._addresses[address] = left - (left >= 1), now  # last: the first has not sent for the longest time
        if len(self._addresses) > _MOST_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        if left < 1:
            raise HTTPException(429, "too many messages from this address: wait", {"Retry-After": "1"})

    async def reports(self, request: Request) -> Response:
        read = self._way_of(request.headers.get("content-type", ""))
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise HTTPException(415, "a message is not compressed: send it without the header Content-Encoding")
        key = request.headers.get("idempotency-key", "")
        if not (1 <= len(key) <= 200 and key.isascii() and key.isprintable()):
            raise HTTPException(400, "the header Idempotency-Key must be there, of 1 to 200 characters of ASCII")
        body = await self._body(request)
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._options.patience):
                    await held.enter_async_context(self._few)
            except TimeoutError:
                raise _not_kept() from None
            found = read(body) if len(body) <= _FEW_BYTES else await run_in_threadpool(read, body)
            if found.nbytes <= _LARGE_BYTES:
                await held.aclose()  # a small one waits for the disk with many others
            batch, outcome = Batch.sent(found, key.encode(), body), "repeated"
            if not self._store.known(batch):
                outcome = "taken" if batch.name not in self._coming else "repeated"
                self._coming[batch.name] += 1
                self._waiting.append(batch)
                try:
                    await self._on_disk(batch)  # with all that came while others were written
                finally:
                    self._coming -= Counter([batch.name])
                if not self._store.known(batch):
                    raise _not_kept()
        self._outcomes[outcome] += 1
        return JSONResponse({outcome: found.num_rows})

    def _way_of(self, content_type: str) -> Callable[[bytes], Any]:
        kind, *words = (word.strip() for word in content_type.split(";"))
        parameters = {name.strip().lower(): value for name, _, value in (word.partition("=") for word in words)}
        if kind.lower() == ARROW_TYPE:
            return self._reader.arrow
        if kind.lower() != NDJSON_TYPE or parameters.get("version") != "1":
            raise HTTPException(415, f"reports are {NDJSON_TYPE}; version=1; plan=FINGERPRINT, or {ARROW_TYPE}")
        if parameters.get("plan", "").strip('"') != self._reader.plan.fingerprint:
            raise HTTPException(409, "these are reports of another plan: GET /plan has the one that is counted here")
        if "noise" in parameters and not self._reader.keyed:
            raise HTTPException(415, KEYED)
        return self._reader.ndjson

    async def _body(self, request: Request) -> bytes:
        body, most = bytearray(), self._options.most_bytes
        try:
            async with asyncio.timeout(self._options.patience):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise HTTPException(413, f"a message has at most {most} bytes: send fewer reports in one")
        except TimeoutError:
            raise HTTPException(408, "the message did not come in time") from None
        except ClientDisconnect:
            raise HTTPException(400, "the message was not sent to its end") from None
        return bytes(body)

    async def plan(self, _: Request) -> Response:
        return Response(json.dumps(self._reader.compiled), media_type=PLAN_TYPE)

    async def page(self, _: Request) -> Response:
        """The live page, which then asks for the data."""
        return Response((await self._newest(_page))[1], media_type="text/html")

    async def data(self, request: Request) -> Response:
        """What the page shows, where it has changed."""
        version, data = await self._newest(_data)
        same = request.scope["query_string"] == version.encode()
        return JSONResponse({"version": version}) if same else Response(data, media_type="application/json")

    async def metrics(self, _: Request) -> Response:
        counts = {f'ldp_messages_total{{outcome="{name}"}}': n for name, n in sorted(self._outcomes.items())}
        counts |= {"ldp_reports": self._n(), "ldp_writes_total": self._store.groups}
        lines = [f"{name} {n}\n" for name, n in {**counts, "ldp_disk_works": int(not self._broken)}.items()]
        return Response("".join(lines), media_type="text/plain; version=0.0.4")

    async def health(self, _: Request) -> Response:
        return JSONResponse({"disk": not self._broken}, 503 if self._broken else 200)

    async def _newest(self, make: Callable[[Results, str], bytes]) -> tuple[str, bytes]:
        """The version of what is known by now, and what ``make`` makes of it.

        It is made once a second at most, and only where something has come: nothing limits how often people ask.
        """
        async with self._looking:
            if time.monotonic() > self._until:
                tallies = dict(self._store.tallies)  # whose columns may not all have the newest reports yet
                version = f"{sum(tally.n for tally in tallies.values())}-{self._lost().total()}"
                if version != self._version:
                    self._results = await run_in_threadpool(self._estimated, tallies)
                    self._version, self._made = version, {}
                self._until = time.monotonic() + 1
            if make not in self._made:
                self._made[make] = await run_in_threadpool(make, self._results, self._version)
            return self._version, self._made[make]

    def _lost(self) -> Counter[str]:
        return self._outcomes - Counter(dict.fromkeys(("taken", "repeated"), self._outcomes.total()))

    def _estimated(self, tallies: dict[str, Tally]) -> Results:
        columns: dict[str, list[Any]] = {name: [] for name in tallies}
        plan, doubts = self._reader.plan, list[str]()
        for name, question in self._questions.items():
            if tallies[name].n:
                with collecting() as found:
                    columns[name] = question.result(plan[name], tallies[name]).to_arrow().to_pylist()
                doubts += [f"Column {name!r}: {doubt.replace('repeats=', '--repeats')}" for doubt in found[:1]]
        letters: list[Any] = [{"column_name": "", "reason": reason, "count": n} for reason, n in self._lost().items()]
        return Results(
            columns, letters, plan, self._options.confidence, "reports", self._n(), live=True, total=True, doubts=doubts
        )

    def _n(self) -> int:
        return max(tally.n for tally in self._store.tallies.values())


def _not_kept() -> HTTPException:
    return HTTPException(503, "they could not be kept: send again later", {"Retry-After": "60"})


def _page(results: Results, _: str) -> bytes:
    return report_page(results, live="data.json").encode()


def _data(results: Results, version: str) -> bytes:
    return json.dumps({"version": version, "ended": False, "data": results.to_json()}).encode()


def _given(request: Request) -> bytes:
    """The token of a request: the bearer's, or a password, which a browser asks its user for."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(given, validate=True).partition(b":")[2]
    return given.encode() if kind.lower() == "bearer" else b""
