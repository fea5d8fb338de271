"""The page of a job that runs: to this machine, and new as windows close."""

import json
import urllib.error
import urllib.request

import pytest

from ldp_core import LdpError, LongitudinalRandomizedResponse, PrivacyPlan, RandomizedResponse
from ldp_report import LivePage, serving

PLAN = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0), "won": RandomizedResponse(epsilon=1.0)})


def rows(second, n=10):
    window = {"window_start": f"2024-01-01T00:00:{second:02}Z", "window_end": f"2024-01-01T00:00:{second + 1:02}Z"}
    return [{**window, "value": value, "count": 1.0, "low": 0.0, "high": 2.0, "n": n} for value in ("false", "true")]


@pytest.fixture
def page():
    with LivePage(PLAN, 0.95) as served:
        yield served


def get(page, path="", **headers):
    request = urllib.request.Request(page.url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def test_windows_come_as_they_close(page):
    assert "<!doctype html>" in get(page)
    first = json.loads(get(page, "data.json?"))
    assert first["data"]["windows"] == []
    page.add("crashed", rows(1))
    page.add("won", rows(1))
    page.bury("crashed", "late", 3)
    page.bury("crashed", "late", 4)
    second = json.loads(get(page, f"data.json?{first['version']}"))
    assert second["data"]["windows"] == ["2024-01-01 00:00:01 to 00:00:02"]
    assert second["data"]["letters"] == [{"column": "crashed", "reason": "late", "count": 7, "late": True}]
    assert second["data"]["counted"] == 10
    page.bury("won", "late", 7)  # the same records, of another column
    page.bury("", "not a batch", 2)
    third = json.loads(get(page, "data.json?"))["data"]
    assert (third["late"], third["dead"]) == (7, 2)
    known = json.loads(get(page, "data.json?"))["version"]
    assert json.loads(get(page, f"data.json?{known}")) == {"version": known}
    page.end()
    assert json.loads(get(page, f"data.json?{second['version']}"))["ended"]


def test_windows_of_keyed_noise_are_not_compared():
    remembers = LongitudinalRandomizedResponse([False, True], epsilon_infinity=2.0, epsilon_1=1.0)
    told = []
    for plan, repeats in ((PLAN, None), (PLAN, 1), (PrivacyPlan({"crashed": remembers}), None)):
        with LivePage(plan, 0.95, repeats=repeats) as live:
            for second in (1, 2):
                found = PLAN.columns["crashed"].estimate(PLAN.columns["crashed"].simulate([7, 3], seed=second))
                live.add(
                    "crashed",
                    [{**row, **one} for row, one in zip(rows(second), found.to_arrow().to_pylist(), strict=True)],
                )
            told.append(json.loads(live.data(""))["data"]["columns"][0]["changed"])
    assert "nothing has changed" in told[0]
    assert told[1:] == [None, None]


def test_old_windows_go_and_stay_counted(page, monkeypatch):
    monkeypatch.setattr(serving, "MOST_WINDOWS", 2)
    for second in (5, 6, 7, 8):
        page.add("crashed", rows(second))
    data = json.loads(get(page, "data.json?"))["data"]
    assert [window[-8:] for window in data["windows"]] == ["00:00:08", "00:00:09"]
    assert data["counted"] == 40


def test_other_names_paths_and_ports_get_nothing(page):
    # A page of another site may let its own name lead to this machine
    for path, host, code in (("", "evil.example:80", 403), ("data.json", "evil.example", 403), ("../x", None, 404)):
        with pytest.raises(urllib.error.HTTPError) as raised:
            get(page, path, **({} if host is None else {"Host": host}))
        assert raised.value.code == code
    assert json.loads(get(page, "data.json?", Host="localhost"))["data"]  # of port 80, which browsers leave out
    assert page.url.startswith("http://127.0.0.1:")
    with pytest.raises(LdpError, match="take another one"):
        LivePage(PLAN, 0.95, port=int(page.url.rsplit(":", 1)[1].strip("/")))
    with pytest.raises(LdpError, match="take another one"):
        LivePage(PLAN, 0.95, port=70_000)
