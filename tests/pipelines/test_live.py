"""Live on one machine: the Pub/Sub server, the fleet, and both with the pipeline through the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")

from google.api_core import exceptions
from google.cloud import pubsub_v1

from ldp_beam import DeadLetter
from ldp_beam.elements.faults import LATE
from ldp_beam.io import decode
from ldp_beam.io.extras import MissingExtraError
from ldp_core import (
    Domain,
    LdpError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    UnaryEncoding,
)
from pipelines.local import fleet as fleet_module
from pipelines.local.fleet import BAD_ROWS, EVENT_TIME, TIMESTAMP_ATTRIBUTE, Devices, Faults, Fleet, Pace, Sent
from pipelines.local.live import Ledger, LiveJob
from pipelines.local.pubsub import MAX_MESSAGE_BYTES, PubSub, PubSubServer, RpcError, google_types
from pipelines.telemetry import main

TOPIC = "projects/test-project/topics/t"
SUBSCRIPTION = "projects/test-project/subscriptions/s"
OTHER = "projects/test-project/subscriptions/other"
SECRET = "s3cr3t-value"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Queue:
    """A server with one topic and one subscription, seen through Google's clients."""

    def __init__(self, **options):
        self.clock = Clock()
        self.service = PubSub(clock=self.clock, pull_wait=0.0, **options)
        self.server = PubSubServer(self.service)

    def __enter__(self):
        self.server.__enter__()
        self.publisher = pubsub_v1.PublisherClient(pubsub_v1.types.BatchSettings(max_messages=1))
        self.subscriber = pubsub_v1.SubscriberClient()
        self.publisher.create_topic(name=TOPIC)
        self.subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC)
        return self

    def __exit__(self, *error):
        self.publisher.stop()
        self.publisher.transport.close()
        self.subscriber.close()
        self.server.__exit__(*error)

    def publish(self, *data: bytes, **attributes: str) -> list[str]:
        return [self.publisher.publish(TOPIC, d, **attributes).result(timeout=30) for d in data]

    def pull(self, n: int = 100, subscription: str = SUBSCRIPTION) -> dict[bytes, str]:
        found = self.subscriber.pull(subscription=subscription, max_messages=n).received_messages
        return {m.message.data: m.ack_id for m in found}

    def ack(self, *ids: str, subscription: str = SUBSCRIPTION) -> None:
        self.subscriber.acknowledge(subscription=subscription, ack_ids=list(ids))

    def modify(self, seconds: int, *ids: str) -> None:
        self.subscriber.modify_ack_deadline(subscription=SUBSCRIPTION, ack_ids=list(ids), ack_deadline_seconds=seconds)


@pytest.fixture
def queue():
    with Queue() as made:
        yield made


# the server


def test_an_acknowledged_message_is_delivered_once(queue):
    ids = queue.publish(b"a", b"b", color="red")
    assert len(set(ids)) == 2
    received = queue.subscriber.pull(subscription=SUBSCRIPTION, max_messages=10).received_messages
    assert [m.message.data for m in received] == [b"a", b"b"]
    assert [m.message.message_id for m in received] == ids
    assert all(m.message.attributes == {"color": "red"} and m.message.publish_time for m in received)
    queue.ack(*(m.ack_id for m in received))
    queue.clock.now = 1e6
    assert queue.pull() == {}
    assert queue.service.backlog(SUBSCRIPTION) == 0
    counters = queue.service.counters
    assert (counters.published, counters.delivered, counters.redelivered, counters.acknowledged) == (2, 2, 0, 2)


def test_an_unacknowledged_message_comes_again_after_its_deadline_and_before_others(queue):
    queue.publish(b"a")
    first = queue.pull()
    queue.publish(b"b")
    queue.clock.now = 9.9
    assert list(queue.pull()) == [b"b"]
    queue.clock.now = 10.0
    queue.publish(b"c")
    second = queue.pull()
    assert list(second) == [b"a", b"c"]
    assert first[b"a"] != second[b"a"]
    assert queue.service.counters.redelivered == 1
    queue.ack(first[b"a"])  # of a delivery that has expired: says nothing about the second
    queue.clock.now = 20.0
    queue.ack(second[b"c"])  # at the deadline: too late
    assert set(queue.pull()) == {b"a", b"b", b"c"}


def test_a_message_given_back_comes_again_at_once(queue):
    queue.publish(b"a", b"b")
    queue.modify(0, queue.pull()[b"a"])
    again = queue.pull()
    assert list(again) == [b"a"]
    queue.ack(again[b"a"])
    queue.clock.now = 10.0
    assert list(queue.pull()) == [b"b"]


def test_a_deadline_can_be_extended(queue):
    queue.publish(b"a")
    ack_id = queue.pull()[b"a"]
    queue.clock.now = 9.0
    queue.modify(60, ack_id)
    queue.clock.now = 68.9
    assert queue.pull() == {}
    queue.clock.now = 69.0
    assert list(queue.pull()) == [b"a"]


def test_each_subscription_gets_all_messages_and_its_subscribers_share_them(queue):
    queue.publish(b"before")
    queue.subscriber.create_subscription(name=OTHER, topic=TOPIC)
    queue.publish(b"a", b"b", b"c")
    mine = queue.pull()
    assert set(mine) == {b"before", b"a", b"b", b"c"}
    queue.ack(*mine.values())
    one, two = queue.pull(2, OTHER), queue.pull(2, OTHER)  # two subscribers of one subscription
    assert set(one) | set(two) == {b"a", b"b", b"c"}
    assert not set(one) & set(two)
    queue.subscriber.delete_subscription(subscription=OTHER)
    queue.publish(b"d")
    assert set(queue.pull()) == {b"d"}
    with pytest.raises(exceptions.NotFound):
        queue.pull(1, OTHER)


def test_what_the_server_refuses(queue):
    with pytest.raises(exceptions.NotFound):
        queue.publisher.publish(TOPIC + "x", b"a").result(timeout=30)
    with pytest.raises(exceptions.NotFound):
        queue.subscriber.create_subscription(name=OTHER, topic=TOPIC + "x")
    with pytest.raises(exceptions.AlreadyExists):
        queue.publisher.create_topic(name=TOPIC)
    with pytest.raises(exceptions.AlreadyExists):
        queue.subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC)
    with pytest.raises(exceptions.InvalidArgument):
        queue.publish(b"x" * (MAX_MESSAGE_BYTES + 1))
    with pytest.raises(exceptions.InvalidArgument):
        queue.publish(b"")
    with pytest.raises(exceptions.InvalidArgument):
        queue.pull(0)
    assert queue.service.counters.published == 0


def test_large_messages_come_in_several_pulls_of_a_size_that_clients_take(queue):
    large = [bytes([i]) * (MAX_MESSAGE_BYTES - 100) for i in range(2)] + [b"small"]
    queue.publish(*large)
    pulls = [list(queue.pull()) for _ in range(3)]
    assert pulls == [large[:1], large[1:], []] or pulls == [[m] for m in large]


def test_publishers_wait_for_room():
    types = google_types()
    service = PubSub(capacity=2, publish_wait=0.0, pull_wait=0.0)
    service.create_topic(types["Topic"](name=TOPIC))
    service.create_subscription(types["Subscription"](name=SUBSCRIPTION, topic=TOPIC))

    def publish(data: bytes):
        return service.publish(types["PublishRequest"](topic=TOPIC, messages=[{"data": data}]))

    def pull():
        return service.pull(types["PullRequest"](subscription=SUBSCRIPTION, max_messages=1)).received_messages[0]

    publish(b"a"), publish(b"b")
    taken = pull()
    with pytest.raises(RpcError, match="RESOURCE_EXHAUSTED"):  # what is not acknowledged may come back
        publish(b"c")
    assert service.counters.refused == 1
    service._publish_wait = 60.0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(publish, b"c")
        service.acknowledge(types["AcknowledgeRequest"](subscription=SUBSCRIPTION, ack_ids=[taken.ack_id]))
        waiting.result(timeout=30)
    assert service.backlog(SUBSCRIPTION) == 2
    service._capacity = 9
    with pytest.raises(RpcError, match="CANCELLED"):  # a caller who has gone will ask again: not twice the message
        service.publish(types["PublishRequest"](topic=TOPIC, messages=[{"data": b"d"}]), lambda: False)
    assert service.backlog(SUBSCRIPTION) == 2


def test_many_publishers_and_subscribers_lose_and_double_nothing():
    with Queue(capacity=5) as queue:
        queue.service._pull_wait = 0.02
        done = threading.Event()

        def subscribe() -> list[bytes]:
            got: list[bytes] = []
            while found := queue.pull(3) or not done.is_set():
                if isinstance(found, dict):
                    queue.ack(*found.values())
                    got += found
            return got

        with ThreadPoolExecutor(7) as pool:
            readers = [pool.submit(subscribe) for _ in range(3)]
            writers = [pool.submit(queue.publish, *(b"%d-%d" % (w, i) for i in range(40))) for w in range(4)]
            for writer in writers:
                writer.result(timeout=60)
            done.set()
            got = [data for reader in readers for data in reader.result(timeout=60)]
    assert sorted(got) == sorted(b"%d-%d" % (w, i) for w in range(4) for i in range(40))


def test_the_environment_is_restored(monkeypatch):
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "elsewhere:1")
    with PubSubServer(PubSub()) as server:
        assert os.environ["PUBSUB_EMULATOR_HOST"] == server.address
    assert os.environ["PUBSUB_EMULATOR_HOST"] == "elsewhere:1"
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST")
    with PubSubServer(PubSub()):
        assert "PUBSUB_EMULATOR_HOST" in os.environ
    assert "PUBSUB_EMULATOR_HOST" not in os.environ


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.pubsub_v1.types", None)
    with pytest.raises(MissingExtraError, match=r"ldp-telemetry\[gcp\]"):
        PubSub()
    assert main(["--live", "--for", "1s"]) == 2


# the fleet

SECOND = 1_000_000
START = 1_800_000_000 * SECOND
LABELS = ["ios", "android", "web"]


def plan(epsilon: float, keep: tuple[str, ...] = ()) -> PrivacyPlan:
    return PrivacyPlan(
        {
            "os": RandomizedResponse(Domain(LABELS, unmatched="other"), epsilon=epsilon),
            "app": UnaryEncoding(Domain(LABELS, unmatched="other"), epsilon=epsilon),
            "size": RandomizedResponse(Domain(range(3), unmatched="other"), epsilon=epsilon),
            "dark": RandomizedResponse(epsilon=epsilon),
        },
        keep=keep,
    )


SURE = plan(120.0)  # reports the truth, but with probability below 1e-15 (OUE: each true bit with probability 1/2)


def devices(made_with: PrivacyPlan, n: int = 1000, seed: int = 1) -> Devices:
    return Devices(made_with, devices=n, window=SECOND, seed=seed)


def texts(made_with: PrivacyPlan, batch: pa.RecordBatch, column: str) -> list[str]:
    mechanism = made_with[column]
    return [mechanism.domain.texts[code] for code in mechanism.domain.lookup(batch.column(column))]


def test_reports_hold_no_value_that_only_the_device_knows(monkeypatch):
    monkeypatch.setattr(fleet_module, "UNDECLARED", SECRET)
    made = devices(plan(1.0))
    assert SECRET in made._values["os"].to_pylist()  # some device has it
    assert made.report(1000, START, START).sent.records == 1000
    assert made.truth.of(START, "os")[3] > 0
    for _ in range(20):
        data = made.report(1000, START, START).message.data
        batch = decode(data)  # compressed: look into the bytes of the decoded columns as well
        columns = [b.to_pybytes() for c in batch.columns for b in c.buffers() if b is not None]
        dictionaries = [c.dictionary.to_pylist() for c in batch.columns if pa.types.is_dictionary(c.type)]
        assert not any(SECRET.encode() in text for text in [data, *columns, batch.schema.serialize().to_pybytes()])
        assert not any(SECRET in values for values in dictionaries)
        assert batch.schema.names == ["os", "app", "size", "dark", EVENT_TIME]


def test_reports_are_perturbed_with_the_plans_probabilities():
    n, noisy = 40_000, plan(1.0)
    truths = decode(devices(SURE, n).report(n, START, START).message.data)  # the same devices: the same seed
    reports = decode(devices(noisy, n).report(n, START, START).message.data)
    for column in ("os", "dark"):
        true, report = (np.array(texts(SURE, batch, column)) for batch in (truths, reports))
        for value in set(true):
            p = noisy[column].p
            kept = np.mean(report[true == value] == value)
            assert abs(kept - p) < 6 * np.sqrt(p * (1 - p) / np.sum(true == value))
    assert (
        devices(noisy, n).report(n, START, START).message.data != devices(noisy, n).report(n, START, START).message.data
    )


def test_times_are_cut_to_their_windows_unless_the_plan_keeps_them():
    start, end = START + 700_000, START + 1_300_000
    for keep, times in (((), [START, START, START + SECOND, START + SECOND]), ((EVENT_TIME,), None)):
        message = devices(plan(1.0, keep)).report(4, start, end).message
        found = decode(message.data).column(EVENT_TIME).cast(pa.int64()).to_pylist()
        assert found == (times or [start, START + 900_000, START + 1_100_000, end])
        assert message.attributes == {TIMESTAMP_ATTRIBUTE: str(found[0] // 1000)}


def test_the_truth_is_what_was_sent_in_time_and_usable():
    made = devices(SURE, n=70)
    batches = [
        made.report(50, START, START + 3 * SECOND),  # over windows
        made.report(50, START, START, bad=7),  # over the last device
        made.report(50, START + SECOND, START + SECOND, late=True),
        made.report(3, START, START, bad=BAD_ROWS),  # fewer than would be bad
        made.malformed(START),
    ]
    counted: dict[int, dict[str, np.ndarray]] = {}
    for k, batch in enumerate(batches[:-1]):
        reports = decode(batch.message.data)
        times = reports.column(EVENT_TIME).cast(pa.int64()).to_pylist()
        assert sum(t is None for t in times) == batch.sent.bad == [0, 7, 0, 3][k]
        for column in ("os", "size", "dark"):
            domain = SURE[column].domain
            for time, code in zip(times, domain.lookup(reports.column(column)).tolist(), strict=True):
                if time is not None and not batch.sent.late:
                    zeros = np.zeros(domain.size, int)
                    counted.setdefault(time, {}).setdefault(column, zeros)[code] += 1
    assert set(counted) == {START + k * SECOND for k in range(4)}
    for window, columns in counted.items():
        for column, counts in columns.items():
            np.testing.assert_array_equal(made.truth.of(window, column), counts)
        assert made.truth.of(window, "app").sum() == columns["os"].sum()
    assert [b.sent.late for b in batches] == [0, 0, 50, 0, 0]
    assert [b.sent.total for b in batches] == [50, 50, 50, 3, 1]
    assert made.truth.last == START + 3 * SECOND
    made.truth.forget(before=START + SECOND)
    assert made.truth.of(START, "os").sum() == 0
    assert made.truth.of(START + SECOND, "os").sum() > 0


@pytest.mark.parametrize("d", [16, 1000])
def test_a_full_message_fits_into_the_queue(d):
    made = devices(PrivacyPlan({"v": UnaryEncoding(range(d), epsilon=1.0)}))
    size = len(made.report(made.max_rows, START, START).message.data)
    assert made.max_rows == fleet_module.MAX_ROWS or size > MAX_MESSAGE_BYTES / 2
    assert size < MAX_MESSAGE_BYTES


def test_devices_report_in_turn():
    whole, parts = devices(SURE, n=70), devices(SURE, n=70)
    whole.report(140, START, START)
    for _ in range(14):
        parts.report(10, START, START)
    for column in SURE.columns:
        np.testing.assert_array_equal(whole.truth.of(START, column), parts.truth.of(START, column))


class Post:
    """Takes messages at once, and tells when there are ``enough``."""

    def __init__(self, enough: int) -> None:
        self.messages: list = []
        self.enough = enough
        self.there = threading.Event()

    def __call__(self, message) -> Future:
        future: Future = Future()
        future.set_result("id")
        self.messages.append(message)
        if len(self.messages) >= self.enough:
            self.there.set()
        return future


@pytest.mark.parametrize("closed", [None, START])
def test_a_fleet_accounts_for_what_it_sends(closed):
    post, rows = Post(60), 2000
    fleet = Fleet(
        devices(SURE), post, pace=Pace(None, rows), ahead=5.0, faults=Faults(late=0.1, malformed=0.1, bad=0.2)
    )
    if closed is not None:
        fleet.window_closed(closed)
        fleet.window_closed(closed - SECOND)
    fleet.start()
    assert post.there.wait(60)
    sent = fleet.stop()
    assert not fleet.is_running
    assert fleet.error is None
    readable = [decode(m.data) for m in post.messages if m.data != fleet_module.MALFORMED]
    assert sent.messages == len(post.messages) >= 60
    assert sent.malformed == len(post.messages) - len(readable) >= 5
    assert sent.records == sum(b.num_rows for b in readable) == rows * len(readable)
    assert sent.bad == sum(b.column(EVENT_TIME).null_count for b in readable) > 0
    of_closed = [b for b in readable if b.column(EVENT_TIME).cast(pa.int64()).to_pylist()[-1] == START]
    assert sent.late == sum(b.num_rows for b in of_closed)
    assert (sent.late > 0) == (closed is not None)  # before a window has closed nothing can be late


def test_a_fleet_stops_on_an_error_and_does_not_wait_for_what_never_comes():
    broken: Future = Future()
    broken.set_exception(OSError("gone"))
    fleet = Fleet(devices(SURE), lambda message: broken, pace=Pace(100_000.0))
    fleet.start()
    fleet._thread.join(60)
    assert isinstance(fleet.error, OSError)
    assert fleet.sent == Sent()
    stuck = Fleet(devices(SURE), lambda message: Future(), pace=Pace(1e6))
    stuck.start()
    assert stuck.stop(give_up=lambda: True) == Sent()
    assert stuck.error is None


@pytest.mark.parametrize(
    ("error", "make"),
    [
        (ParameterError, lambda: Faults(late=1.5)),
        (ParameterError, lambda: Pace(0.0)),
        (ParameterError, lambda: PubSub(capacity=0)),
        (PlanError, lambda: devices(plan(1.0, ("country",)))),
        (PlanError, lambda: LiveJob(PrivacyPlan({EVENT_TIME: RandomizedResponse(epsilon=1.0)}))),
        (ParameterError, lambda: LiveJob(SURE, devices=0)),
        (ParameterError, lambda: LiveJob(SURE, window=0)),
        (ParameterError, lambda: LiveJob(SURE, rate=-1.0)),
        (ParameterError, lambda: LiveJob(SURE, confidence=1.0)),
    ],
)
def test_bad_arguments_are_refused_at_once(error, make):
    with pytest.raises(error) as caught:
        make()
    assert isinstance(caught.value, LdpError)


# the account


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


# all together

WINDOW = re.compile(r"^\d\d:\d\d:\d\d - \d\d:\d\d:\d\d  (\w+): ([\d,]+) reports by", re.MULTILINE)
BALANCE = re.compile(
    r"^(\w+): sent ([\d,]+) = counted ([\d,]+) \+ late ([\d,]+) \+ dead-lettered ([\d,]+)", re.MULTILINE
)
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "pipelines.telemetry", "--live", "--window", "1s"]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def balances(out: str) -> dict[str, tuple[int, ...]]:
    return {column: tuple(map(number, numbers)) for column, *numbers in BALANCE.findall(out)}


def execute(*command: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=180)


def script(setup: str, call: str) -> subprocess.CompletedProcess:
    imports = "from pipelines import telemetry\nfrom pipelines.local import fleet, live, pubsub"
    code = f"{imports}\n{setup}\nraise SystemExit({call})"
    return execute(sys.executable, "-c", code)


def test_the_command_prints_windows_and_reconciles():
    done = execute(*COMMAND, "--for", "3s", "--rate", "5000", "--epsilon", "6")
    assert (done.returncode, done.stderr) == (0, "")
    windows = WINDOW.findall(done.stdout)
    assert {column for column, _ in windows} == {"app", "dark_mode"}
    found = balances(done.stdout)
    assert set(found) == {"app", "dark_mode"}
    for column, (sent, counted, late, dead) in found.items():
        assert sent == counted + late + dead
        assert counted == sum(number(n) for name, n in windows if name == column) > 0
    assert done.stdout.count("holds\n") == 2
    assert re.search(r"^maps +[\d,]+ +[\d,]+ +[\d,]+ \.\. [\d,]+ +(yes|NO) ", done.stdout, re.MULTILINE)


def test_everything_that_goes_wrong_on_the_way_is_accounted_for():
    job = "live.LiveJob(live.default_plan(6.0), window='1s', rate=5000.0, duration=5, faults=faults)"
    done = script("faults = fleet.Faults(late=0.2, malformed=0.1, bad=0.2)", f"live.run({job})")
    assert (done.returncode, done.stderr) == (0, "")
    for sent, counted, late, dead in balances(done.stdout).values():
        assert sent == counted + late + dead
        assert min(counted, late) > 0
        assert dead > BAD_ROWS
    assert re.search(r"dead letters: \d+ x no event time in 'app'", done.stdout)
    assert re.search(r"dead letters: \d+ x not a batch \(whole messages\)", done.stdout)


def test_a_message_that_the_server_swallows_is_missed():
    setup = """
live._PATIENCE = 1.0
accept, number = pubsub.PubSub._accept, iter(range(10**9))
pubsub.PubSub._accept = lambda self, topic, message: None if next(number) == 7 else accept(self, topic, message)
"""
    arguments = "['--live', '--window', '1s', '--for', '2s', '--rate', '5000']"
    done = script(setup, f"telemetry.main({arguments})")
    assert done.returncode == 1
    for sent, counted, late, dead in balances(done.stdout).values():
        assert sent == counted + late + dead + 500
    assert done.stdout.count("DOES NOT HOLD: 500 missing") == 2


def test_a_message_that_is_delivered_twice_is_seen():
    setup = """
accept, number = pubsub.PubSub._accept, iter(range(10**9))
pubsub.PubSub._accept = lambda self, *args: [accept(self, *args) for _ in range(1 + (next(number) == 7))]
live._PATIENCE = 1.0
"""
    arguments = "['--live', '--window', '1s', '--for', '2s', '--rate', '5000']"
    done = script(setup, f"telemetry.main({arguments})")
    assert done.returncode == 1
    assert done.stdout.count("DOES NOT HOLD: -500 missing") == 2


def test_ctrl_c_ends_it_cleanly():
    with subprocess.Popen(
        [*COMMAND, "--rate", "5000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        watchdog = threading.Timer(180, process.kill)
        watchdog.start()
        head = []
        for line in process.stdout:
            head.append(line)
            if WINDOW.match(line):
                process.send_signal(signal.SIGINT)
                break
        out = "".join(head) + process.stdout.read()
        errors = process.stderr.read()
        watchdog.cancel()
    assert (process.returncode, errors) == (0, "")
    assert out.count("holds\n") == 2
    assert "The fleet has stopped" in out


def test_a_failure_of_the_pipeline_ends_it_and_is_told_without_values():
    setup = f"""
def fail(*arguments):
    raise RuntimeError("{SECRET}")
live.ldp_beam.estimates._partials.TallyReports.natives = fail
"""
    done = script(setup, "telemetry.main(['--live', '--window', '1s'])")
    assert done.returncode == 1
    assert done.stderr == "error: the pipeline failed: RuntimeError\n"
    assert SECRET not in done.stdout


def test_reports_of_another_plan_are_dead_letters():
    setup = """
made = live.Devices
live.Devices = lambda plan, **options: made(live.default_plan(3.0), **options)
"""
    done = script(setup, "telemetry.main(['--live', '--window', '1s', '--for', '2s'])")
    assert (done.returncode, done.stderr) == (0, "")
    for sent, counted, late, dead in balances(done.stdout).values():
        assert sent == dead > 0
        assert counted == late == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--demo"],
        ["--input", "x.csv"],
        ["--runner=FlinkRunner"],
        ["--plan", "x.toml", "--epsilon", "1"],
    ],
)
def test_arguments_that_would_do_nothing_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--live", *arguments])
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--rate", "many"], ["--for", "soon"], ["--epsilon", "0"], ["--window", "x"]])
def test_bad_values_are_refused(arguments, capsys):
    assert main(["--live", *arguments]) == 2
    assert capsys.readouterr().err.startswith("error: ")
