"""A page in Chromium sends the reports of 10,000 people; the live page, `ldp estimate` and Beam count them."""

import json
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import apache_beam as beam
import pytest

import ldp_beam
from ldp_beam.io import ReadReports
from ldp_core import PrivacyPlan, RandomizedResponse

from ..beam.helpers import Collector
from ..report.conftest import browser  # noqa: F401 (the fixture)
from ..report.test_pages import cells
from .helpers import PLAN, ROOT, httpx, server, wait_for

CLIENT = ROOT / "clients" / "js"
CONFIDENCE = 1 - 1e-9
PEOPLE = {"ios": 6000, "android": 3000, "web": 1000}
DAYS = ["2026-11-23", "2026-11-24"]
PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><script type="module">
import { Client, Sender, memory } from "./dist/index.js";
window.go = async (server, people, days) => {
  const plan = await (await fetch(server + "plan")).json();
  const client = new Client(plan, { storage: null });
  const sender = new Sender({ url: server + "reports", fingerprint: plan.fingerprint, storage: memory() });
  const records = Object.entries(people).flatMap(([os, n]) =>
    Array.from({ length: n }, (_, k) => ({ os, level: k % 5 ? "low" : "high", day: days[k % 2] })));
  return sender.send(await client.batch(records));
};
</script>"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The folder and the address of a site that has the client."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm here, which builds clients/js")
    for command in ("install --no-audit --no-fund --no-package-lock", "run minify"):
        done = subprocess.run(
            [npm, *command.split()], cwd=CLIENT, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            pytest.skip(f"npm {command} fails here: {done.stderr[-300:]}")
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(CLIENT / "dist", site / "dist")
    (site / "index.html").write_text(PAGE)
    shutil.copy(site / "dist" / "ldp.min.js", site)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site)) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        yield site, f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()


@pytest.mark.browser
@pytest.mark.fresh(false_alarms=1.1e-8)  # 1e-9 of each interval: of 3 and 2 values, and of 3 in each of 2 windows
def test_from_a_page_to_intervals(browser, client, tmp_path):  # noqa: F811
    client = client[1]
    plan_file, folder = tmp_path / "plan.toml", tmp_path / "reports"
    plan_file.write_text(PLAN.to_toml())
    options = ["--kept", "day=date", "--origin", client, "--confidence", repr(CONFIDENCE)]
    with server(folder, plan_file, *options) as (_, url):
        wait_for(url)
        live = browser.page(url)
        live.wait("document.body.innerText.includes('No report has come yet')")
        page = browser.page(client + "/index.html")
        page.wait("window.go !== undefined")
        assert page.run(f"go({json.dumps(url)}, {json.dumps(PEOPLE)}, {json.dumps(DAYS)})") == 0  # none waits
        assert page.complaints == []
        assert "ldp_reports 10000" in httpx.get(url + "metrics").text
        live.wait("document.getElementById('tiles').textContent.includes('10,000')")
        rows = cells(live)
        assert [row[0] for row in rows] == list(PEOPLE)
        for value, *_, interval in rows:  # as people read them
            low, high = (float(end.replace(",", "")) for end in interval.split(" \N{EN DASH} "))
            assert low <= PEOPLE[value] <= high
        httpx.post(url + "reports", content=b"{}", headers={"content-type": "text/plain"})
        live.wait("document.getElementById('letters').innerText.includes('another type')")
        words = live.run("document.body.innerText")
        assert ("Refused messages" in words, "all reports that have come" in words) == (True, True)
        assert [word for word in ("window", "late", "job") if word in words.lower().split()] == []  # there is one total
        assert live.complaints == []
        shown = httpx.get(url + "data.json").json()["data"]
        for column, truth in zip(shown["columns"], (PEOPLE, {"low": 8000, "high": 2000}), strict=True):
            [group] = column["groups"]
            assert group["n"] == 10_000
            for value, count, low, high in group["rows"]:
                assert low <= truth[value] <= high, (value, count)
                assert high - low < 2000
    command = [sys.executable, "-c", "from ldp_cli import main; main()", "estimate", folder, "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout)["columns"]["os"]
    counted = {row["value"]: row["count"] for row in told["estimates"]}
    assert counted == pytest.approx({row[0]: row[1] for row in shown["columns"][0]["groups"][0]["rows"]})
    assert sum(windows(folder).values()) == 10_000


@pytest.mark.browser
@pytest.mark.fresh(false_alarms=2e-9)  # 1e-9 of each of two intervals
def test_the_page_of_the_docs(browser, client, tmp_path):  # noqa: F811
    site, origin = client
    [text] = re.findall(r"```html\n(.*?)```", (ROOT / "docs" / "serve.md").read_text(encoding="utf-8"), re.DOTALL)
    plan_file = tmp_path / "plan.toml"
    plan_file.write_text(PrivacyPlan({"answer": RandomizedResponse(["yes", "no"], epsilon=1.0)}).to_toml())
    with server(tmp_path / "reports", plan_file, "--origin", origin, "--confidence", repr(CONFIDENCE)) as (_, url):
        wait_for(url)
        (site / "docs.html").write_text(text.replace("http://127.0.0.1:8000", url.rstrip("/")))
        visits = (
            ("window.fetch = () => Promise.reject()", [(0, "1 made, 1 wait")]),  # there is no network
            ("", [(1, "You have answered"), (2, "1000 made, 0 wait")]),
        )
        for before, clicks in visits:
            page = browser.page(origin + "/docs.html")
            page.wait("document.getElementById('crowd').onclick !== null")
            page.wait("Object.entries(localStorage).every(([key, text]) => !key.includes('queue') || text === '[]')")
            page.run(before)
            for button, told in clicks:
                page.run(f"document.querySelectorAll('button')[{button}].click()")
                page.wait(f"document.getElementById('state').textContent.startsWith('{told}')")
            assert page.complaints == []
        live = browser.page(url)
        live.wait("document.getElementById('tiles').textContent.includes('1,001')")
        [column] = httpx.get(url + "data.json").json()["data"]["columns"]
        truth = {"yes": 301, "no": 700}
        for value, count, low, high in column["groups"][0]["rows"]:
            assert low <= truth[value] <= high, (value, count)
            assert high - low < 1000


def windows(folder):
    """n of each window of a day, by Beam; each interval holds the truth."""
    seen = Collector()
    estimate = ldp_beam.Histogram("os", PLAN["os"], window="1d", event_time="day", confidence=CONFIDENCE)
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | ReadReports(f"{folder}/*.parquet") | estimate | seen.sink()
    for row in seen.elements:
        assert row.low <= PEOPLE[row.value] / 2 <= row.high
        assert row.high - row.low < 1500
    found = {row.window_start: row.n for row in seen.elements}
    assert {start.to_utc_datetime().date().isoformat() for start in found} == set(DAYS)
    return found
