"""Live on one machine: fleet, server and pipeline together, and the account of every record."""

import io
import json
import queue
import re
import signal
import time

import numpy as np
import pytest
from apache_beam.utils.timestamp import Timestamp

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")

from ldp_beam import DeadLetter, HistogramRow
from ldp_beam.elements.faults import LATE
from ldp_beam.estimates._partials import TallyReports
from ldp_core import PrivacyPlan, RandomizedResponse
from ldp_report import LivePage
from pipelines.telemetry import main
from tests.bed import live, runner
from tests.bed.engines import LocalEngine
from tests.bed.fleet import BAD_ROWS, EVENT_TIME, Faults, Fleet, Pace, Sent
from tests.bed.live import Ledger, LiveJob, default_plan
from tests.bed.pubsub import PubSub

from ..beam import cheap_pipelines  # noqa: F401 (changes Beam when it is imported)

SECRET = "s3cr3t-value"
PLAN = default_plan(6.0)

# ---- the account


def test_a_record_too_few_or_too_many_is_seen():
    sent = Sent(messages=12, records=100, late=5, bad=3, malformed=2)
    ledger = Ledger(["os", "app"])
    for column in ledger.columns:
        ledger.count(column, 92)
        ledger.bury(column, DeadLetter(EVENT_TIME, LATE, 5))
        ledger.bury(column, DeadLetter(EVENT_TIME, "no event time", 3))
    assert [ledger.missing(column, sent) for column in ledger.columns] == [2, 2]
    ledger.bury("", DeadLetter("", "not a batch", 2))
    assert ledger.holds(sent)
    assert ledger.lines(sent)[1] == "app: sent 102 = counted 92 + late 5 + dead-lettered 5   holds"
    ledger.count("app", 1)
    assert not ledger.holds(sent)
    assert "DOES NOT HOLD: -1 missing" in ledger.lines(sent)[1]


# ---- the view


def test_windows_and_letters_go_to_the_page_too():
    """And a window that a busy machine starved is no miss of its intervals, whose confidence is said as it is."""
    confidence = 0.9995
    plan = PrivacyPlan({"v": RandomizedResponse(["a", "b"], epsilon=80.0)})
    devices = live.Devices(plan, devices=1, window=1_000_000)
    devices.truth.add(0, {"v": np.array([0, 0, 1])})
    box, out = queue.SimpleQueue(), io.StringIO()
    devices.truth.add(1_000_000, {"v": np.array([0, 0, 1])})
    for start, counts in ((0, (2, 1)), (1, (1, 0))):  # two of the second window's records came late
        for value, count in zip("ab", counts, strict=True):
            head = (Timestamp(start), Timestamp(start + 1), 0, "ON_TIME", True, True, "v", {}, value, count, 0.0)
            ends = (count, count, count / 3, 0.0, count / 3, count / 3, sum(counts))
            box.put(HistogramRow(*head, *ends, confidence, 80.0, "f" * 16))
    box.put(("v", DeadLetter("v", "late", 4)))
    with LivePage(plan, confidence) as page:
        fleet = Fleet(devices, print, pace=Pace(1.0))
        view = live._View(LiveJob(plan, window="1s", confidence=confidence), devices.truth, fleet, out, page)
        view.head("")
        assert page.url in out.getvalue()
        while view._take(box, 0.0):
            pass
        data = json.loads(page.data(""))["data"]
        view.totals(Sent(messages=2, records=6))
    assert "2 more were sent in time but came late" in out.getvalue()
    assert " 99.95% interval " in out.getvalue()
    assert "2 of 2 intervals hold the truth (100.0%); their confidence is 99.95%\nleft out: 1 windows" in out.getvalue()
    assert data["columns"][0]["groups"][0]["rows"] == [["a", 2.0, 2.0, 2.0], ["b", 1.0, 1.0, 1.0]]
    assert (data["counted"], data["late"], data["windows"]) == (
        4,
        4,
        [f"1970-01-01 00:00:0{k} to 00:00:0{k + 1}" for k in range(2)],
    )


# ---- all together

WINDOW = re.compile(r"^\d\d:\d\d:\d\d - \d\d:\d\d:\d\d  (\w+): ([\d,]+) reports by", re.MULTILINE)
BALANCE = re.compile(
    r"^(\w+): sent ([\d,]+) = counted ([\d,]+) \+ late ([\d,]+) \+ dead-lettered ([\d,]+)", re.MULTILINE
)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def balances(out: str) -> dict[str, tuple[int, ...]]:
    return {column: tuple(map(number, numbers)) for column, *numbers in BALANCE.findall(out)}


def closed_windows(text: str) -> int:
    """How many have been printed."""
    return text.count("sent so far")


@pytest.fixture
def short(monkeypatch):
    """Clocks that are less ahead: windows close sooner."""
    monkeypatch.setattr(LocalEngine, "ahead", 0.5)


@pytest.fixture
def run_until(short):
    """Run a job until Ctrl-C, when what it has printed is enough: its exit code, and all that it printed."""

    def run(enough, **options):
        before, deadline = signal.getsignal(signal.SIGINT), time.monotonic() + 60

        class Watched(io.StringIO):
            pressed = False

            def write(self, text):
                written, said = super().write(text), self.getvalue()
                if not (self.pressed or "sent: " in said) and (enough(said) or time.monotonic() > deadline):
                    self.pressed = True
                    signal.raise_signal(signal.SIGINT)
                return written

        out = Watched()
        code = live.run(LiveJob(PLAN, window="250ms", rate=5000.0, **options), out=out)
        assert signal.getsignal(signal.SIGINT) is before
        assert enough(out.getvalue()), "it did not happen in time"
        return code, out.getvalue()

    return run


def check_command(out: str) -> None:
    """Windows of both columns, each with a table, which add up to what was counted; and the balance holds."""
    found = WINDOW.findall(out)
    assert {column for column, _ in found} == {"app", "dark_mode"}
    assert set(balances(out)) == {"app", "dark_mode"}
    for column, (sent, counted, late, dead) in balances(out).items():
        assert sent == counted + late + dead
        assert counted == sum(number(n) for name, n in found if name == column) > 0
    assert out.count("holds\n") == 2
    assert re.search(r"^maps +[\d,]+ +[\d,]+ +[\d,]+ \.\. [\d,]+ +(yes|NO) ", out, re.MULTILINE)


@pytest.mark.slow
def test_the_command_prints_windows_and_reconciles(short, capsys, monkeypatch):
    pulls, finish = [], runner._Read.finish_bundle  # of the runner that does not grow, for which there are tests
    monkeypatch.setattr(runner._Read, "finish_bundle", lambda self: pulls.append(1) or finish(self))
    arguments = ["--live", "--window", "250ms", "--for", "1s", "--rate", "5000", "--epsilon", "6"]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    check_command(printed.out)
    assert pulls


def test_everything_that_goes_wrong_on_the_way_is_accounted_for(run_until, capsys):
    all_of_it = re.compile(r"app [\d,]+ \+ [1-9][\d,]* \+ [\d,]{2,}, dark_mode [\d,]+ \+ [1-9][\d,]* \+ [\d,]{2,}")
    code, out = run_until(all_of_it.search, faults=Faults(late=0.3, malformed=0.2, bad=0.3))
    assert (code, capsys.readouterr().err) == (0, "")
    assert out.count("holds\n") == 2
    for sent, counted, late, dead in balances(out).values():
        assert sent == counted + late + dead
        assert min(counted, late) > 0
        assert dead > BAD_ROWS
    assert re.search(r"dead letters: \d+ x no event time in 'app'", out)
    assert re.search(r"dead letters: \d+ x not a batch \(whole messages\)", out)


@pytest.mark.slow
@pytest.mark.parametrize(("times", "missing"), [(0, 500), (2, -500)], ids=["swallowed", "delivered twice"])
def test_a_message_that_the_server_does_not_deliver_once_is_seen(run_until, monkeypatch, times, missing):
    accept, messages = PubSub._accept, iter(range(10**9))

    def accept_the_eighth(self, *arguments):
        for _ in range(times if next(messages) == 7 else 1):
            accept(self, *arguments)

    monkeypatch.setattr(PubSub, "_accept", accept_the_eighth)
    monkeypatch.setattr(LocalEngine, "patience", 2.0)
    code, out = run_until(lambda text: closed_windows(text) >= 3)
    assert code == 1
    for sent, counted, late, dead in balances(out).values():
        assert sent == counted + late + dead + missing
    assert out.count(f"DOES NOT HOLD: {missing} missing") == 2


def test_a_failure_of_the_pipeline_ends_it_and_is_told_without_values(short, monkeypatch, capsys):
    def fail(*arguments):
        raise RuntimeError(SECRET)

    monkeypatch.setattr(TallyReports, "natives", fail)
    assert main(["--live", "--window", "250ms"]) == 1
    printed = capsys.readouterr()
    assert printed.err == "error: the pipeline failed: RuntimeError\n"
    assert SECRET not in printed.out


def test_reports_of_another_plan_are_dead_letters(run_until, monkeypatch):
    made = live.Devices
    monkeypatch.setattr(live, "Devices", lambda plan, **options: made(default_plan(3.0), **options))
    code, out = run_until(lambda text: "sent: " in text, duration=0.5)
    assert code == 0
    for sent, counted, late, dead in balances(out).values():
        assert sent == dead > 0
        assert counted == late == 0


# ---- what is refused


def test_what_is_bad_or_would_do_nothing_is_refused(capsys):
    for arguments in [
        ["--demo"],
        ["--input", "x.csv"],
        ["--runner=FlinkRunner"],
        ["--plan", "x.toml", "--epsilon", "1"],
    ]:
        try:
            code = main(["--live", *arguments])
        except SystemExit as ended:
            code = ended.code
        assert code == 2
        assert "error:" in capsys.readouterr().err
    for arguments in [["--rate", "many"], ["--for", "soon"], ["--epsilon", "0"], ["--window", "x"]]:
        assert main(["--live", *arguments]) == 2
        assert capsys.readouterr().err.startswith("error: ")
