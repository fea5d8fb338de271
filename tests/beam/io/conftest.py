"""Brokers shared by the tests of this folder."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from ldp_core import InputError
from tests.bed.kafka import KafkaBroker

from .mock_broker import MockBroker

topics = (f"topic-{i}" for i in count())
"""Names that no test has used yet."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kafka: needs Java and Apache Kafka's jars; skipped without")


@pytest.fixture(autouse=True)
def _short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits until so many messages have come, or until then."""
    monkeypatch.setattr("ldp_beam.io._kafka_source.POLL_SECONDS", 0.02)
    monkeypatch.setattr("ldp_beam.io._kafka_source.PAUSE_SECONDS", 0.01)


@pytest.fixture(scope="session")
def real_broker() -> Iterator[KafkaBroker]:
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(KafkaBroker())
        except InputError as reason:
            pytest.skip(str(reason))
        yield broker


@pytest.fixture(params=["mock", pytest.param("real", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest) -> Any:
    """Both kinds of broker, one after the other."""
    return request.getfixturevalue("real_broker") if request.param == "real" else MockBroker()


@pytest.fixture
def topic(broker: Any) -> str:
    """A new topic with partitions 0 and 1."""
    name = next(topics)
    if isinstance(broker, KafkaBroker):
        broker.create_topic(name, 2)
    return name
