"""Reports that are handed to Kafka or Pub/Sub: 200 says that the queue has them."""

import logging
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from typer.testing import CliRunner

from ldp_beam import Deduplicate, Histogram
from ldp_beam.io import DecodeMessages
from ldp_beam.io.messages import decode
from ldp_cli.app import app as command
from ldp_core import InputError, ParameterError, PrivacyPlan
from ldp_core.engine import check_made_by

from ..beam.io.mock_broker import MockBroker
from ..bed.kafka import KafkaBroker
from ..bed.pubsub import PubSub, PubSubServer, google_types
from .helpers import (
    KEPT,
    NDJSON,
    OS,
    PLAN,
    ROW,
    SECRET,
    Queue,
    Reader,
    Served,
    acknowledged_until_killed,
    httpx,
    lines,
    server,
    wait_for,
)
from .helpers import queue_module as module

SECONDS = 60.0


@pytest.fixture
def served(monkeypatch, tmp_path):
    """``with served(send) as app``: a queue that sends by ``send``."""

    def made(send, **options):
        monkeypatch.setattr(module, "_kafka", lambda *_: send)
        return Served(tmp_path, sink=Queue("kafka://host:9092/reports", PLAN), **options)

    return made


@pytest.mark.parametrize("planted", [False, True])
def test_nothing_is_acknowledged_before_the_queue_has_it(served, monkeypatch, planted):
    begun, go, answers = threading.Event(), threading.Event(), []

    def send(messages):
        begun.set()
        assert go.wait(SECONDS)
        return {}

    if planted:
        monkeypatch.setattr(Queue, "_keep", lambda self, batches: begun.set() or batches)
    with served(send) as app:
        client = threading.Thread(target=lambda: answers.append(app.post(lines(ROW))))
        client.start()
        assert begun.wait(SECONDS)
        client.join(SECONDS if planted else 0.3)
        early = list(answers)
        go.set()
        client.join()
        assert [answer.status_code for answer in answers] == [200]
        assert bool(early) == planted  # the test can fail
        assert app.n == 1


def test_what_did_not_arrive_is_refused_and_may_come_again(served, caplog):
    fails, sent = [True], []

    def send(messages):
        sent.extend(messages)
        return {name: "timed out" for name, _ in messages} if fails[0] else {}

    with served(send) as app, caplog.at_level(logging.ERROR):
        answer = app.post(lines(ROW), key="a")
        assert (answer.status_code, answer.headers["retry-after"], app.n) == (503, "60", 0)
        assert caplog.messages == ["1 messages did not reach the queue: timed out"]
        fails[0] = False
        assert app.post(lines(ROW), key="a").json() == {"taken": 1}
        assert app.post(lines(ROW), key="a").json() == {"repeated": 1}
        assert app.post(lines({**ROW, "level": SECRET}), key="b").status_code == 400
        assert (app.get("/health").status_code, app.n, len(sent)) == (200, 1, 2)
    assert sent[0] == sent[1]  # the same key both times


def test_who_reads_a_queue_drops_by_its_key_what_is_there_twice(served):
    """The queue had the first message, but its answer was lost, and the client sent again."""
    sent, outcomes = [], [{}, {}, {b"": "timed out"}]

    def send(messages):
        sent.extend(messages)
        return dict.fromkeys([name for name, _ in messages], "timed out") if outcomes.pop() else {}

    with served(send) as app:
        answers = [app.post(lines(*[ROW] * n), key=key).status_code for n, key in ((3, "a"), (3, "a"), (5, "b"))]
    assert (answers, len(sent)) == ([503, 200, 200], 3)
    with beam.Pipeline("FnApiRunner") as p:
        batches = p | beam.Create([(message, key) for key, message in sent]) | DecodeMessages(position="message")
        once = batches | Deduplicate("message", within="1d", event_time="day")
        for name, reports, n in (("Twice", batches, 11), ("Once", once, 8)):
            rows = reports | name >> Histogram("os", PLAN["os"], window="1d", event_time="day")
            assert_that(rows | f"n {name}" >> beam.Map(lambda row: row.n), equal_to([n] * len(OS)), name)


def test_large_messages_are_cut(served, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 4000)
    sent = []
    with served(lambda messages: sent.extend(messages) or {}) as app:
        assert app.post(lines(*[ROW] * 500)).json() == {"taken": 500}
    assert len(sent) > 2
    assert max(len(message) for _, message in sent) <= 4000
    assert sum(decode(message).num_rows for _, message in sent) == 500
    assert len(dict(sent)) == len(sent)  # who drops what has a known key keeps all
    assert len({name[:16] for name, _ in sent}) == 1


def test_a_part_that_does_not_arrive_refuses_the_whole(served, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 4000)
    sent, fails = [], [True]

    def send(messages):
        sent.append(messages)
        return {messages[-1][0]: "timed out"} if fails.pop() else {}

    with served(send) as app:
        assert (app.post(lines(*[ROW] * 500)).status_code, app.n) == (503, 0)
        fails.append(False)
        assert app.post(lines(*[ROW] * 500)).json() == {"taken": 500}
    assert sent[0] == sent[1]


def test_who_waits_for_large_messages_is_told_so(served, monkeypatch):
    """A queue that does not answer keeps two of them, and nobody waits behind these without an end."""
    begun, go, answers = threading.Event(), threading.Event(), []

    def send(messages):
        begun.set()
        assert go.wait(SECONDS)
        return {}

    def post(key):
        answers.append(app.post(lines(*[{**ROW, "day": None}] * 1000), key=key).status_code)

    monkeypatch.setattr("ldp_serve.app._LARGE_BYTES", 1000)
    with served(send, patience=0.3) as app:
        clients = [threading.Thread(target=post, args=(key,)) for key in "abc"]
        for client in clients:
            client.start()
        assert begun.wait(SECONDS)
        while not answers:
            time.sleep(0.01)
        assert answers == [503]
        assert app.post(lines(ROW), key="small").status_code == 503
        go.set()
        for client in clients:
            client.join()
        assert sorted(answers) == [200, 200, 503]


def test_a_group_has_one_deadline(monkeypatch):
    """Pub/Sub that does not answer: the clock goes on by what each result waits."""
    now, waited = [0.0], []

    class Never:
        def result(self, seconds):
            waited.append(seconds)
            now[0] += seconds
            raise TimeoutError

    client = SimpleNamespace(topic_path=lambda *names: "/".join(names), publish=lambda *_, **__: Never())
    google = SimpleNamespace(PublisherClient=lambda: client, GoogleAPIError=RuntimeError)
    monkeypatch.setattr(module, "import_extra", lambda *_: google)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]), raising=False)
    sink, reader = Queue("pubsub://project/topic", PLAN), Reader(PLAN, KEPT)
    sink.append([module.Batch.sent(reader.ndjson(lines(ROW)), b"%d" % k, b"") for k in range(10)])
    assert (waited, sink.groups) == ([module.SECONDS] + [0.0] * 9, 0)


def test_addresses():
    for address in ("kafka://host:9092", "kafka://host:9092/a/b", "http://host/topic", "kafka:///topic", SECRET):
        with pytest.raises(ParameterError, match="kafka://HOST:PORT/TOPIC") as found:
            Queue(address, PLAN)
        assert SECRET not in str(found.value)
    with pytest.raises(ParameterError, match="without"):
        Queue("pubsub://project/topic", PLAN, {"sasl.password": "s3cret"})


def test_the_command_has_one_place_for_reports(tmp_path):
    plan, options = tmp_path / "plan.toml", tmp_path / "client.properties"
    plan.write_text(PLAN.to_toml())
    options.write_text(f"# ours\nsasl.username=me\n{SECRET}\n")
    to = ["--to", "kafka://127.0.0.1:9/reports"]
    for more, words in (
        ([], "say where reports go"),
        ([*to, "--output", str(tmp_path / "out")], "say where reports go"),
        ([*to, "--queue-options", str(options)], "no KEY=VALUE"),
        ([*to, "--kept", "day=date", "--kept", "day=time"], "a column twice"),
        *(([*to, "--origin", one], "--origin is as") for one in ("a.org", "https://a.org/", "https://A.org")),
        *(([*to, "--host-name", one], "--host-name is a name alone") for one in ("a.org:80", "https://a.org", "::1")),
    ):
        done = CliRunner().invoke(command, ["serve", "--plan", str(plan), "--port", "0", *more])
        assert done.exit_code
        assert words in " ".join(done.output.split())
        assert SECRET not in done.output


@pytest.mark.parametrize("variable", ["LDP_SERVE_TOKEN", "LDP_SERVE_READ_TOKEN"])
def test_a_token_that_nobody_can_send_is_refused(variable, tmp_path, monkeypatch):
    """An empty variable let everybody in, and one with the line end of a file nobody."""
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.to_toml())
    monkeypatch.setattr("ldp_serve.run", lambda *_, **__: None)
    for k, (token, code) in enumerate([("", 2), (" ", 2), (f"{SECRET}\n", 2), (SECRET, 0)]):
        line = ["serve", "--plan", str(plan), "--output", str(tmp_path / str(k))]
        done = CliRunner().invoke(command, line, env={variable: token})
        assert (done.exit_code, SECRET in done.output) == (code, False), (token, done.output)
        if token:
            continue
        done = CliRunner().invoke(command, [*line, "--token", "t", "--read-token", "r"], env={variable: token})
        assert done.exit_code == 0, done.output


def test_the_command_answers_to_the_address_that_it_listens_on(tmp_path, monkeypatch):
    """Of IPv6 browsers send brackets, and of names lower case: each request was refused."""
    plan, hosts = tmp_path / "plan.toml", []
    plan.write_text(PLAN.to_toml())
    monkeypatch.setattr("ldp_serve.make_app", lambda reader, sink, options: hosts.extend(options.hosts) or sink.close())
    monkeypatch.setattr("ldp_serve.run", lambda *_, **__: None)
    for k, (host, name) in enumerate([("2001:DB8::1", "[2001:db8::1]"), ("Reports.example", "reports.example")]):
        more = ["--output", str(tmp_path / str(k)), "--host", host, "--origin", "https://a.org:8080", "--origin", "*"]
        done = CliRunner().invoke(command, ["serve", "--plan", str(plan), *more])
        assert (done.exit_code, name in hosts) == (0, True), done.output
    done = CliRunner().invoke(command, ["serve", "--plan", str(plan), *more, "--queue-options", str(plan)])
    assert "perhaps with --queue-options" in " ".join(done.output.split())


def checked(message, n, *, keyed=False):
    """The batch of a message, which says all that a file would."""
    batch = decode(message)
    PLAN.check_reports(batch.schema)
    assert PrivacyPlan.from_metadata(batch.schema.metadata) == PLAN
    assert {check_made_by(batch.schema.field(name), m).keyed for name, m in PLAN.columns.items()} == {keyed}
    assert PLAN["os"].tally(batch["os"]).n == batch.num_rows == n


def test_pubsub(tmp_path, monkeypatch):
    types, service = google_types(), PubSub()
    topic, subscription = "projects/p/topics/t", "projects/p/subscriptions/s"
    service.create_topic(types["Topic"](name=topic))
    service.create_subscription(types["Subscription"](name=subscription, topic=topic, ack_deadline_seconds=60))
    monkeypatch.setattr(module, "SECONDS", 20.0)
    with PubSubServer(service):
        with Served(tmp_path, sink=Queue("pubsub://p/t", PLAN)) as app:
            assert app.post(lines(*[ROW] * 3)).json() == {"taken": 3}
        pulled = service.pull(types["PullRequest"](subscription=subscription, max_messages=10))
        [message] = [received.message for received in pulled.received_messages]
        checked(message.data, 3)
        assert len(message.attributes["key"]) == 32
        with Served(tmp_path, sink=Queue("pubsub://p/nobody", PLAN)) as app:
            assert app.post(lines(ROW)).status_code == 503


@pytest.fixture(params=["mock", pytest.param("real", marks=pytest.mark.kafka)])
def broker(request):
    pytest.importorskip("confluent_kafka", reason="needs the extra kafka")
    with ExitStack() as stack:
        try:
            yield MockBroker() if request.param == "mock" else stack.enter_context(KafkaBroker())
        except InputError as reason:
            pytest.skip(str(reason))


def consumed(broker, topic):
    """Keys and values of all messages of a topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "g", "enable.auto.commit": False})
    found = []
    for number in consumer.list_topics(topic, SECONDS).topics[topic].partitions:
        place = TopicPartition(topic, number, 0)
        wanted = len(found) + consumer.get_watermark_offsets(place, SECONDS)[1]
        consumer.assign([place])
        while len(found) < wanted:
            messages = consumer.consume(wanted - len(found), 1.0)
            found += [(message.key().decode(), message.value()) for message in messages]
    consumer.close()
    return found


def test_kafka(broker, tmp_path, monkeypatch):
    if isinstance(broker, KafkaBroker):
        broker.create_topic("reports", 2)
        with pytest.raises(InputError, match="'nobody'"):
            Queue(f"kafka://{broker.servers}/nobody", PLAN)
    sink = Queue(f"kafka://{broker.servers}/reports", PLAN, {"client.id": "ldp"})
    with Served(tmp_path, sink=sink, repeats=2) as app:
        for n, kind in ((3, NDJSON), (4, f"{NDJSON}; noise=keyed")):
            assert app.post(lines(*[ROW] * n), key=str(n), kind=kind).json() == {"taken": n}
    found = sorted(consumed(broker, "reports"), key=lambda one: len(one[1]))
    assert len({key for key, _ in found}) == 2
    for n, (_, message) in zip((3, 4), sorted(found, key=lambda one: decode(one[1]).num_rows), strict=True):
        checked(message, n, keyed=True)
    monkeypatch.setattr(module, "SECONDS", 0.1)
    with pytest.raises(InputError, match="Kafka"):
        Queue("kafka://127.0.0.1:9/reports", PLAN, {"log_level": "0"})
    with pytest.raises(InputError, match="Kafka") as refused:
        Queue("kafka://127.0.0.1:9/reports", PLAN, {"sasl.pass": SECRET})
    assert SECRET not in str(refused.value)


@pytest.mark.kafka
def test_what_was_acknowledged_is_in_the_topic_after_kill(tmp_path):
    """SIGKILL of the server while clients send; and without a broker there is no 200."""
    plan_file, body = tmp_path / "plan.toml", lines(*[ROW] * 7)
    plan_file.write_text(PLAN.to_toml())
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(KafkaBroker())
        except InputError as reason:
            pytest.skip(str(reason))
        broker.create_topic("reports", 1)
        options = ["--to", f"kafka://{broker.servers}/reports", "--kept", "day=date"]
        with server(None, plan_file, *options) as (process, url):
            wait_for(url)
            acknowledged = acknowledged_until_killed(process, url, body, timeout=SECONDS)
        found = consumed(broker, "reports")
        keys = [key for key, _ in found]
        assert {module.Batch.sent(None, key.encode(), body).name.hex() for key in acknowledged} <= set(keys)
        assert 0 <= len(keys) - len(acknowledged) <= 4  # one request of each client may be there without an answer
        for _, message in found[:5]:
            checked(message, 7)
        with server(None, plan_file, *options) as (_, url):
            wait_for(url)
            stack.close()  # the broker's end
            headers = {"content-type": NDJSON, "idempotency-key": "late"}
            late = httpx.post(url + "reports", content=body, headers=headers, timeout=SECONDS)
            assert late.status_code == 503
