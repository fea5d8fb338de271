"""The Pub/Sub server of this process, through Google's own clients."""

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")

from google.cloud import pubsub_v1

from tests.bed.pubsub import PubSub, PubSubServer, RpcError, google_types

TOPIC = "projects/test-project/topics/t"
SUBSCRIPTION = "projects/test-project/subscriptions/s"


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
    queue.ack(first[b"a"])  # of a delivery that has expired: says nothing about the second
    queue.clock.now = 20.0
    queue.ack(second[b"c"])  # at the deadline: too late
    assert set(queue.pull()) == {b"a", b"b", b"c"}


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
