"""librdkafka's mock of a Kafka broker, in this process."""


class MockBroker:
    """A topic is there, with 4 partitions, when it is first named."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        # the broker lives as long as this client
        self._owner = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 1, "log_level": 0})
        [broker] = self._owner.list_topics(timeout=10).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def stop(self) -> None:
        """End it."""
        del self._owner
