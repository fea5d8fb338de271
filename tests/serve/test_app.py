"""What the server takes, what it refuses, and in which words."""

import asyncio
import datetime as dt
import json
import re
import socket
from calendar import isleap
from collections import Counter
from http.client import HTTPConnection
from itertools import product

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_polars  # noqa: F401 (the namespace)
from ldp_beam.io.messages import encode
from ldp_core import (
    InputError,
    LdpError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    SummationHistogramEncoding,
)
from ldp_core.arrays.arrow import plain
from ldp_core.arrays.ipc import write_batch
from ldp_report import Results
from ldp_serve import KINDS

from ..cases import case, each
from ..vectors.make import files, mechanisms
from .helpers import (
    ARROW,
    LIMITS,
    NDJSON,
    PLAN,
    ROW,
    SECRET,
    Batch,
    Reader,
    Served,
    Store,
    httpx,
    lines,
    run,
    server,
    wait_for,
)


@pytest.fixture
def served(tmp_path):
    """``with served(token="t") as app``: its folder is the same each time."""
    return lambda **options: Served(tmp_path / "reports", **options)


def stored(folder):
    """All reports in files; nobody reads what is not one."""
    return pa.concat_tables([pq.read_table(path) for path in folder.glob("*.parquet")])


def raw_bytes(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def arrow(rows=None, plan=PLAN, **columns):
    rows = rows or {"os": ["ios"] * 5, "level": ["low"] * 5, "day": ["2026-11-24"] * 5}
    batch = plan.perturb(pa.record_batch(rows | columns))
    return batch, encode(batch)


def test_ndjson_and_arrow_become_the_same_files(served):
    batch, message = arrow()
    json_lines = lines(
        *(
            {"os": os, "level": level, "day": day}
            for os, level, day in zip(
                PLAN["os"].reports.to_json(PLAN["os"].reports.from_arrow(batch["os"])),
                batch["level"].to_pylist(),
                batch["day"].to_pylist(),
                strict=True,
            )
        )
    )
    with served() as app:
        assert app.post(message, key="a", kind=ARROW).json() == {"taken": 5}
        assert app.post(json_lines, key="b").json() == {"taken": 5}
        assert app.n == 10
        assert app.store.tallies["os"] == PLAN["os"].tally(batch["os"]) + PLAN["os"].tally(batch["os"])
        assert app.store.tallies["level"].n == 10
    table = stored(app.folder)
    PLAN.check_reports(table.schema)
    assert PrivacyPlan.from_metadata(table.schema.metadata) == PLAN
    assert table.schema.field("day").type == pa.date32()
    packed = PLAN["os"].reports.to_arrow(PLAN["os"].reports.from_arrow(batch["os"]), packed=True)
    rows = zip(packed.to_pylist(), batch["level"].to_pylist(), strict=True)
    assert Counter(map(str, zip(table["os"].to_pylist(), table["level"].to_pylist(), strict=True))) == Counter(
        2 * list(map(str, rows))
    )


def test_reports_with_keyed_noise_do_not_lose_that_mark(served, tmp_path):
    fresh = PLAN.perturb(pa.record_batch({"os": ["ios"], "level": ["low"], "day": [dt.date(2026, 11, 24)]}))
    keyed = fresh.cast(PLAN.with_proof(fresh.schema, seeded=False, keyed=True))
    told = f"{NDJSON}; noise=keyed"
    with served() as app:
        assert app.post(write_batch(fresh), kind=ARROW).json() == {"taken": 1}
        again = [(lines(ROW), kind, 415) for kind in (told, f'{NDJSON};Noise ="keyed"', f"{NDJSON}; noise=other")]
        for body, kind, status in ((write_batch(keyed), ARROW, 400), *again):
            answer = app.post(body, key=kind, kind=kind)
            assert (answer.status_code, app.n) == (status, 1)
            assert "--repeats" in answer.json()["error"]
    with pytest.raises(InputError, match="another plan or kind"):
        served(repeats=4)  # files of both kinds would lose it
    app = Served(tmp_path / "of persons", repeats=4)
    with app:
        bodies = (write_batch(fresh), ARROW), (write_batch(keyed), ARROW), (lines(ROW), told), (lines(ROW), NDJSON)
        for number, (body, kind) in enumerate(bodies):
            assert app.post(body, key=str(number), kind=kind).json() == {"taken": 1}
        [shown] = app.get("/data.json").json()["data"]["columns"][1]["groups"]
    level = pl.read_parquet(f"{app.folder}/*.parquet").select("level")
    found = pl.col("level").ldp.histogram
    with pytest.raises(ParameterError, match="say repeats=1"):
        level.select(found())
    alone, apart = (level.select(found(repeats=k)).explode("level").unnest("level") for k in (1, 4))
    assert shown["rows"] == [list(row) for row in apart.select("value", "count", "low", "high").rows()]
    assert apart["standard_error"].to_list() == pytest.approx((2 * alone["standard_error"]).to_list())
    assert PLAN.read_reports(lines(ROW), keyed=True).schema.field("level").metadata != (
        PLAN.read_reports(lines(ROW)).schema.field("level").metadata
    )


def test_what_is_no_report_is_refused_and_nothing_of_it_is_kept(served):
    good = lines(ROW)
    raw = pa.record_batch({"os": ["ios"], "level": ["low"], "day": ["2026-11-24"]})
    hidden = PLAN.perturb(raw)
    values = pa.DictionaryArray.from_arrays(pa.array([0], pa.uint8()), ["low", "high", SECRET])
    hidden = hidden.set_column(1, hidden.schema.field("level"), values)
    cases = {
        "raw Arrow": (encode(raw), ARROW, 400),
        "raw Arrow that names the plan": (write_batch(raw.replace_schema_metadata(PLAN.metadata)), ARROW, 400),
        "another plan": (arrow(plan=PrivacyPlan(PLAN.columns))[1], ARROW, 400),
        "no Arrow": (SECRET.encode(), ARROW, 400),
        "Arrow with bytes after it": (arrow()[1] + SECRET.encode(), ARROW, None),
        "a raw value": (lines({**ROW, "os": SECRET}), NDJSON, 400),
        "a label that is none": (lines({**ROW, "level": SECRET}), NDJSON, 400),
        "another column": (lines({**ROW, "user": SECRET}), NDJSON, 400),
        "a column too few": (lines({"os": "AQ=="}), NDJSON, 400),
        "bits beyond the last": (lines({**ROW, "os": "CA=="}), NDJSON, 400),
        "a good line before": (good + lines({**ROW, "level": SECRET}), NDJSON, 400),
        "another kind of day": (lines({**ROW, "day": SECRET}), NDJSON, 400),
        "half of a pair": (good.replace(b"low", b"\\ud800"), NDJSON, 400),
        "half of a pair, kept": (good.replace(b"2026-11-24", b"\\ud800"), NDJSON, 400),
        "no UTF-8": (good.replace(b"low", b"\xff"), NDJSON, 400),
        "nothing": (b"", NDJSON, 400),
        "no rows in Arrow": (encode(arrow()[0].slice(0, 0)), ARROW, 400),
        **{f"no {name} in Arrow": (encode(arrow()[0].drop_columns([name])), ARROW, 400) for name in PLAN},
        "an entry of no report": (encode(hidden), ARROW, None),
        "a value before the report": (good.replace(b'"os"', f'"os": "{SECRET}", "os"'.encode()), NDJSON, 400),
        "too many rows": (good * 1001, NDJSON, 413),
        "too many bytes": (b" " * ((1 << 20) + 1), NDJSON, 413),
    }
    with served() as app:
        for number, (name, (body, kind, status)) in enumerate(cases.items()):
            with case(name):
                answer = app.post(body, key=f"k{number}", kind=kind)
                assert answer.status_code == status or (status is None and answer.status_code in (200, 400))
                assert answer.status_code == 200 or answer.json().keys() == {"error"}
                assert SECRET not in answer.text
        page = app.get("/data.json").json()["data"]
        assert SECRET not in json.dumps(page)
        assert page["dead"] == sum(n for name, n in app.outcomes().items() if name != "taken")
    assert SECRET.encode() not in raw_bytes(app.folder)


def test_types_plans_and_keys(served):
    body = lines(ROW)
    with served() as app:
        for kind, status in (
            (None, 415),
            ("text/plain", 415),
            (NDJSON.replace("version=1", "version=2"), 415),
            (NDJSON.replace(PLAN.fingerprint, "0" * 16), 409),
            (NDJSON.rpartition(";")[0], 409),
            (NDJSON.upper().replace("VERSION", "version").replace("PLAN", "plan").replace(
                PLAN.fingerprint.upper(), f'"{PLAN.fingerprint}"'), 200),
        ):  # fmt: skip
            assert app.post(body, key=str(kind), kind=kind).status_code == status, kind
        for coding, status in (("gzip", 415), ("Identity", 200), ("br, gzip", 415), ("", 415)):
            answer = app.post(body, key=f"coded {coding}", **{"content-encoding": coding})
            assert (answer.status_code, "Content-Encoding" in answer.text) == (status, status == 415), coding
        for key, status in ((None, 400), ("", 400), ("x" * 201, 400), ("a\tb", 400), (b"\xff", 400), ("x" * 200, 200)):
            assert app.post(body, key=key).status_code == status, key
        assert app.get("/reports").status_code == 405
        assert app.get("/nothing").json() == {"error": "there is no such page"}
        plan = app.get("/plan")
        assert plan.headers["content-type"] == "application/vnd.ldp.plan+json; version=1"
        assert plan.json() == {**PLAN.compile(), "patterns": plan.json()["patterns"]}
        assert app.n == 3


def test_the_same_again_does_not_count_again(served):
    with served() as app:
        assert [next(iter(app.post(lines(ROW), key=key).json())) for key in "aaba"] == [
            "taken", "repeated", "taken", "repeated",
        ]  # fmt: skip
        other = app.post(lines(ROW, ROW), key="a")
        assert (other.status_code, app.n) == (400, 2)
        assert "Idempotency-Key" in other.json()["error"]
    with served() as app:  # a stop and a start later
        assert app.post(lines(ROW), key="a").json() == {"repeated": 1}
        assert app.n == 2


def test_requests_that_wait_share_a_write(served):
    async def all_at_once(app):
        transport = httpx.ASGITransport(app.app, client=("testclient", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            headers = [{"content-type": NDJSON, "idempotency-key": f"k{k // 2}"} for k in range(100)]
            sent = [client.post("/reports", content=lines(ROW), headers=one) for one in headers]
            return [next(iter(answer.json())) for answer in await asyncio.gather(*sent)]

    with served() as app:
        said = Counter(app.client.portal.call(all_at_once, app))  # each of 50 batches twice, at the same time
        assert said == app.outcomes() == {"taken": 50, "repeated": 50}
        assert app.n == 50
        assert app.store.groups < 50


def test_large_messages_wait_for_each_other(served, monkeypatch):
    """A few kB become many MB, so that only a few of them are in memory."""
    append, groups = Store.append, []
    monkeypatch.setattr(Store, "append", lambda store, group: groups.append(len(group)) or append(store, group))
    body = lines(*[{**ROW, "day": "x" * 100}] * 1000)

    async def all_at_once(app):
        transport = httpx.ASGITransport(app.app, client=("testclient", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            headers = [{"content-type": NDJSON, "idempotency-key": f"k{k}"} for k in range(20)]
            sent = [client.post("/reports", content=body, headers=one) for one in headers]
            return [answer.json() for answer in await asyncio.gather(*sent)]

    with served(kept={"day": "text"}) as app:
        assert app.client.portal.call(all_at_once, app) == [{"taken": 1000}] * 20
        assert app.n == 20_000
    assert max(groups) <= 2


def test_tokens(served):
    with served(token="s3cret", read_token="eyes") as app:
        assert app.post(lines(ROW)).status_code == 401
        for given in (
            "Bearer eyes",
            "Bearer ",
            "Basic czNjcmV0",
            "Digest s3cret",
            "s3cret",
            "Basic ÿ".encode("latin1"),
        ):
            assert app.post(lines(ROW), authorization=given).status_code == 401
        assert app.post(lines(ROW), authorization="Bearer s3cret").status_code == 200
        for path in ("/", "/data.json", "/metrics"):
            found = app.get(path)
            assert (found.status_code, found.headers["www-authenticate"]) == (401, 'Basic realm="ldp"')
            assert app.get(path, authorization="Bearer eyes").status_code == 200
            assert app.client.get(path, auth=("anybody", "eyes")).status_code == 200  # as a browser does
            assert app.client.get(path, auth=("anybody", "s3cret")).status_code == 401
        for path in ("/plan", "/health"):
            assert app.get(path).status_code == 200
    with served(token="") as app:  # an empty one opens nothing
        for given in ("", "Bearer ", "Basic Og=="):
            assert app.post(lines(ROW), authorization=given).status_code == 401


def test_names_of_the_server(served):
    with served(hosts=("127.0.0.1", "[::1]", "reports.example.org")) as app:
        for host, status in (
            ("127.0.0.1", 200),
            ("127.0.0.1:80", 200),
            ("[::1]", 200),
            ("[::1]:80", 200),
            ("REPORTS.example.org:443", 200),
            ("evil.example", 421),
            ("", 421),
        ):
            for path in ("/", "/plan", "/data.json", "/metrics", "/health"):
                assert app.get(path, host=host).status_code == status, (host, path)
        assert app.post(lines(ROW), host="evil.example").status_code == 421


def test_pages_of_other_sites(served):
    wanted = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,idempotency-key"}
    with served(origins=("https://good.example",)) as app:
        for origin, status in (("https://good.example", 200), ("https://evil.example", 400)):
            found = app.client.options("/reports", headers={"origin": origin, **wanted})
            assert found.status_code == status
            assert found.headers.get("access-control-allow-origin") == (origin if status == 200 else None)
        refused = app.post(b"", origin="https://good.example")  # the page learns that it was refused
        assert refused.headers["access-control-allow-origin"] == "https://good.example"
    with served() as app:
        assert app.client.options("/reports", headers={"origin": "https://good.example", **wanted}).status_code == 405


def test_too_many_from_one_address(served, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ldp_serve.app.time.monotonic", lambda: now[0])
    with served(rate=5.0) as app:
        status = [app.post(lines(ROW), key=str(k)).status_code for k in range(12)]
        assert status == [200] * 10 + [429] * 2
        now[0] += 1
        assert [app.post(lines(ROW), key=f"b{k}").status_code for k in range(6)] == [200] * 5 + [429]
        app.client._transport.client = ("another", 1)
        assert app.post(lines(ROW), key="c").status_code == 200
        monkeypatch.setattr("ldp_serve.app._MOST_ADDRESSES", 2)
        app.client._transport.client = ("a third", 1)
        assert app.post(lines(ROW), key="d").status_code == 200  # the oldest is forgotten, and memory is bounded
        assert app.outcomes()["too many"] == 3


def test_a_message_that_does_not_come(served):
    async def never(app):
        async def receive():
            await asyncio.sleep(30)

        said = []

        async def send(message):
            said.append(message)

        headers = [(b"host", b"testserver"), (b"content-type", NDJSON.encode()), (b"idempotency-key", b"k")]
        scope = {"type": "http", "method": "POST", "path": "/reports", "query_string": b"", "headers": headers}
        await app.app({**scope, "client": ("a", 1), "http_version": "1.1"}, receive, send)
        return said[0]["status"]

    with served(patience=0.05) as app:
        assert app.client.portal.call(never, app) == 408


def test_a_disk_that_fails(served, monkeypatch):
    with served() as app:
        assert app.post(lines(ROW), key="a").status_code == 200
        with monkeypatch.context() as patch:

            def full(_):
                raise OSError(28, "No space left on device")

            patch.setattr("ldp_serve.store.os.fsync", full)
            answer = app.post(lines(ROW), key="b")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
        assert app.post(lines(ROW), key="c").status_code == 503  # until somebody looks at it
        assert app.post(lines(ROW), key="a").json() == {"repeated": 1}
        assert app.get("/health").status_code == 503
        assert "ldp_disk_works 0" in app.get("/metrics").text
    with served() as app:
        answers = [app.post(lines(ROW), key=key).status_code for key in "abc"]
        assert (answers, app.n) == ([200] * 3, 3)


def test_files_as_time_goes_by(served):
    with served(every=0.01) as app:
        app.post(lines(ROW))
        for _ in range(500):
            if list(app.folder.glob("*.parquet")):
                break
            app.client.portal.call(asyncio.sleep, 0.01)
        assert len(stored(app.folder)) == 1


def test_the_page_shows_what_has_come(served):
    with served() as app:
        assert "<!doctype html>" in app.get("/").text
        assert app.get("/data.json").json()["data"]["counted"] == 0
        app.post(arrow({"os": ["ios"] * 500, "level": ["low"] * 500, "day": ["2026-11-24"] * 500})[1], kind=ARROW)
        found = _fresh(app)["data"]
        first = found["columns"][0]["groups"][0]
        assert (found["counted"], first["n"]) == (500, 500)
        assert found["doubts"] == []
        (label, count, low, high), *_ = first["rows"]
        expected = PLAN["os"].estimate(app.store.tallies["os"])
        assert (label, count) == ("ios", pytest.approx(float(expected.counts[0])))
        assert low <= 500 <= high
        again = app.client.get(f"/data.json?{_fresh(app)['version']}").json()
        assert again.keys() == {"version"}


def test_the_page_says_that_raw_values_have_come(served):
    """Nothing tells one from a report, but 500 of them are no reports: only `ldp estimate` said so."""
    with served() as app:
        assert app.post(lines(*[ROW] * 500)).json() == {"taken": 500}
        doubts = _fresh(app)["data"]["doubts"]
        assert [doubt.split(" for ")[0] for doubt in doubts] == [
            "Column 'os': implausible",
            "Column 'level': implausible",
        ]
        assert "the values were never perturbed" in app.get("/").text


def test_what_has_not_changed_is_not_made_again(served, monkeypatch):
    now, made, to_json = [1.0], [], Results.to_json
    monkeypatch.setattr(Results, "to_json", lambda self: made.append(self) or to_json(self))
    monkeypatch.setattr("ldp_serve.app.time.monotonic", lambda: now[0])
    with served() as app:
        for many in (2, 4, 6):  # the page and the data, of three states: nothing, a report, one that was refused
            for _ in range(5):
                now[0] += 2
                data = app.get("/data.json").json()
                assert app.get(f"/data.json?{data['version']}").json() == {"version": data["version"]}
                assert "<!doctype html>" in app.get("/").text
            assert len(made) == many
            app.post(lines(ROW) if many == 2 else b"", key=str(many))
        assert (data["data"]["counted"], data["data"]["dead"]) == (1, 1)


def _fresh(app):
    """The data, after the second in which they are not made anew."""
    for _ in range(300):
        found = app.get("/data.json").json()
        if found["data"]["counted"] == app.n:
            return found
        app.client.portal.call(asyncio.sleep, 0.01)
    raise AssertionError("never")


@pytest.mark.slow
def test_connections_that_browsers_keep_do_not_keep_others_out(tmp_path):
    """Each visitor's browser keeps its connection for seconds: those of 256 were all that there may be."""
    plan_file, body = tmp_path / "plan.toml", lines(ROW)
    plan_file.write_text(PLAN.to_toml())
    with server(tmp_path / "out", plan_file, "--kept", "day=date") as (_, url):
        wait_for(url)
        visitors = [HTTPConnection(httpx.URL(url).netloc.decode()) for _ in range(300)]
        for k, visitor in enumerate(visitors):
            visitor.request("POST", "/reports", body, {"content-type": NDJSON, "idempotency-key": f"k{k}"})
            assert visitor.getresponse().read() == b'{"taken":1}', k


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(LdpError, match="another one"):
        run(None, host="127.0.0.1", port=taken.getsockname()[1], started=print)


@each(
    ("plan", "kept", "error", "words"),
    [
        (PLAN, {"level": "text"}, PlanError, "does not keep"),
        (PLAN, {"day": "duration"}, ParameterError, "kinds text"),
        (PLAN.seeded(1), None, PlanError, "seed"),
        (PrivacyPlan({"w": SummationHistogramEncoding(["a", "b"], epsilon=1.0)}), None, PlanError, "w"),
    ],
)
def test_plans_that_are_not_served(plan, kept, error, words):
    with pytest.raises(error, match=words):
        Reader(plan, kept, LIMITS)


def test_kept_columns():
    plan = PrivacyPlan({"level": RandomizedResponse(["low", "high"], epsilon=2.0)}, keep=["x"])
    for kind, given, found in (
        ("text", "a", "a"),
        ("text", None, None),
        ("integer", 7, 7),
        ("number", 0.5, 0.5),
        ("boolean", True, True),
        ("time", "2026-11-24T10:00:00Z", "2026-11-24 10:00:00+00:00"),
    ):
        batch = Reader(plan, {"x": kind}, LIMITS).ndjson(lines({"level": "low", "x": given}))
        got = batch["x"].to_pylist()[0]
        assert (str(got) if kind == "time" else got) == found
    for kind, given in (
        ("integer", 0.5),
        ("date", "24 Nov"),
        ("text", [SECRET]),
        ("number", SECRET),
        ("text", "x" * 5000),
        ("time", 1767225600),  # seconds or milliseconds, which nobody can tell
        ("time", "2026-11-24T10:00:00"),
        ("date", 20000),
        ("boolean", 2),
        ("integer", "0x10"),
        ("integer", True),
        ("number", "nan"),
        ("text", float("nan")),  # which Python writes as NaN, and JSON does not have
        ("number", float("inf")),
    ):
        with pytest.raises(ReportError) as caught:
            Reader(plan, {"x": kind}, LIMITS).ndjson(lines({"level": "low", "x": given}))
        assert SECRET not in str(caught.value)


@pytest.mark.slow
def test_clients_are_told_what_kept_values_are():
    """One of another kind cost the others of its message; times in microseconds as numbers were refused."""
    plan = PrivacyPlan({"level": RandomizedResponse(["low", "high"], epsilon=2.0)}, keep=["x"])
    days = [f"{y}-{m:02}-{d:02}" for y in ("0000", "2024", "24") for m in range(14) for d in (0, 1, 28, 29, 30, 31, 32)]
    ends = product(" T_", ("00", "24", "7"), ("", ":59", ":60", ":00:00", ":00:00.1234567"), ("", "Z", "+01:30", "+1"))
    others = [None, True, False, "", "1", "null", 0, -1, 1.5, 1e-7, 1e300, -18 * 10**14, 18 * 10**17, 10**19, -(10**30)]
    values = [*days, *("2026-11-24" + "".join(end) for end in ends), *others]
    taken = Counter[str]()
    for kind in KINDS:
        reader = Reader(plan, {"x": kind}, LIMITS)
        pattern = re.compile(reader.compiled["patterns"]["x"], re.ASCII)
        for value in values:
            told = pattern.search(json.dumps(value)) is not None
            try:
                reader.ndjson(lines({"level": "low", "x": value}))
            except ReportError:
                assert not told, (kind, value)
            else:
                assert told or kind == "text", (kind, value)
                taken[kind] += told
        rows = [{"level": "low", "x": value} for value in values if pattern.search(json.dumps(value))]
        assert reader.ndjson(lines(*rows)).num_rows == taken[kind]  # one of text and one of a number were refused
    assert (taken["date"], taken["time"], taken["boolean"], taken["integer"], taken["number"]) == (55, 13, 3, 5, 7)


def test_clients_are_told_which_years_have_a_leap_day():
    """The 29th of February of another year cost the others of its message."""
    plan = PrivacyPlan({"level": RandomizedResponse(["low", "high"], epsilon=2.0)}, keep=["x"])
    for kind, end in (("date", ""), ("time", " 10:00Z")):
        pattern = re.compile(Reader(plan, {"x": kind}, LIMITS).compiled["patterns"]["x"], re.ASCII)
        for day, there in (("02-28", lambda year: True), ("02-29", isleap)):
            told = [year for year in range(1, 10_000) if pattern.search(f'"{year:04}-{day}{end}"')]
            assert told == list(filter(there, range(1, 10_000)))


def test_kept_columns_in_arrow_are_made_anew():
    """Nothing is left under nulls or behind the last value; dates and times are those of Python."""
    n, level, planted = 70, RandomizedResponse(["low", "high"], epsilon=2.0), b"raw-byte"
    nulls = pa.array([None, *range(1, n)], pa.int64()).buffers()[0]
    data, offsets = pa.py_buffer(planted + bytes(8 * n - 8) + planted), pa.array(range(0, 8 * n + 8, 8), pa.int32())
    for kind, kept in (
        ("integer", pa.Array.from_buffers(pa.int64(), n, [nulls, data])),
        ("number", pa.Array.from_buffers(pa.float64(), n, [nulls, data])),
        ("time", pa.Array.from_buffers(pa.timestamp("us", "UTC"), n, [nulls, data])),
        ("text", pa.Array.from_buffers(pa.string(), n, [nulls, offsets.buffers()[1], data])),
        ("text", pa.array(["a", None] * 35).dictionary_encode()),
        ("time", pa.array([dt.datetime(2026, 11, 24), None] * 35, pa.timestamp("ms", "Europe/Berlin"))),
        ("date", pa.array(["2026-11-24", None] * 35).dictionary_encode()),
        ("date", pa.array([None] * n)),
    ):
        plan = PrivacyPlan({"level": level}, keep=["x"])
        reader = Reader(plan, {"x": kind}, LIMITS)
        schema = pa.schema([reader.schema.field("level"), ("x", kept.type)], metadata=reader.schema.metadata)
        low = pa.array(["low"] * n).cast(schema.field("level").type)
        found = reader.arrow(write_batch(pa.record_batch([low, kept], schema=schema)))
        with case(kind, str(kept.type)):
            assert found["x"].equals(kept.cast(found["x"].type))
            assert planted not in found.serialize().to_pybytes()
    for far, kind in (
        (pa.array([2**30] * n, pa.date32()), "date"),
        (pa.array([2**62] * n, pa.timestamp("us")), "time"),
        (pa.array([0.5, None, float("-inf")] + [0.0] * (n - 3)), "number"),
        (pa.array([float("nan")] * n, pa.float32()), "number"),
    ):
        reader = Reader(plan, {"x": kind}, LIMITS)
        schema = pa.schema([reader.schema.field("level"), ("x", far.type)], metadata=reader.schema.metadata)
        with pytest.raises(ReportError, match=r"kept values must be (finite number|date|time)s "):
            reader.arrow(write_batch(pa.record_batch([low, far], schema=schema)))


@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_mechanism_of_clients(tmp_path, others):
    """Reports of the vectors come back as they were, from the journal, and then from the file: one of each kind."""
    kinds = set()
    for number, (mechanism, text) in enumerate(zip(mechanisms(), files().values(), strict=False)):
        if (mechanism.name in kinds) != others:
            continue
        kinds |= {mechanism.name}
        vector = json.loads(text)
        with case(mechanism.name, number):
            plan = PrivacyPlan({"x": mechanism})
            reader = Reader(plan, None, LIMITS)
            body = lines(*({"x": report} for report in vector["reports"]))
            store = Store(tmp_path / str(number), plan, reader.schema)
            store.append([Batch.sent(reader.ndjson(body), b"k", body)])
            store.close()
            for _ in range(2):  # the first start makes the file of the journal
                store = Store(tmp_path / str(number), plan, reader.schema)
                store.close()
                [path] = (tmp_path / str(number)).glob("*.parquet")
                column = plain(pq.read_table(path)["x"].combine_chunks())
                found = mechanism.reports.to_json(mechanism.reports.from_arrow(column))
                assert Counter(map(str, found)) == Counter(map(str, vector["reports"]))  # in any order
                assert store.tallies["x"] == mechanism.tally(column)
