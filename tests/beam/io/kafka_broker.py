"""Kafka brokers for tests: Apache's own, one node in KRaft mode; and librdkafka's mock, in this process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from contextlib import ExitStack
from pathlib import Path
from typing import Any

VERSION = "3.9.1"
START_SECONDS = 90

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>test</groupId> <artifactId>kafka-broker</artifactId> <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId> <artifactId>kafka_2.13</artifactId> <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={logs}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class NoBrokerError(Exception):
    """Why there can be no broker here."""


def jars() -> Path:
    """Folder with the broker's jars; brought by Maven when they are not there.

    LDP_KAFKA_JARS names another folder than the one in the user's cache.

    Raises:
        NoBrokerError: no Java, or neither jars nor a Maven that gets them.
    """
    if shutil.which("java") is None:
        raise NoBrokerError("java is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = Path(os.environ.get("LDP_KAFKA_JARS", cache / "ldp-telemetry" / f"kafka-{VERSION}"))
    if (folder / f"kafka_2.13-{VERSION}.jar").exists():
        return folder
    if shutil.which("mvn") is None:
        raise NoBrokerError(f"there are no Kafka jars in {folder}, and no mvn to get them")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        (Path(scratch) / "pom.xml").write_text(_POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise NoBrokerError(f"mvn could not get the Kafka jars: {done.stdout[-300:]}")
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "jars").rename(folder)
    return folder


def _free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)]
        return [s.getsockname()[1] for s in sockets]


class KafkaBroker:
    """A real broker on free loopback ports, from ``with`` to its end; ``servers`` is its address.

    Raises:
        NoBrokerError: it cannot be had here.
    """

    servers: str

    def __enter__(self) -> KafkaBroker:
        classpath = str(jars() / "*")
        self._stack = ExitStack()
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-")))
            port, controller = _free_ports(2)
            self.servers = f"127.0.0.1:{port}"
            config = home / "server.properties"
            config.write_text(_PROPERTIES.format(port=port, controller=controller, logs=home / "logs"))
            java = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-cp", classpath]
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            log = stack.enter_context((home / "broker.log").open("wb"))
            output: dict[str, Any] = {"stdout": log, "stderr": subprocess.STDOUT}
            # (with an equals sign, because one id in 64 begins with a minus sign)
            storage = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={config}"]
            subprocess.run(storage, check=True, timeout=START_SECONDS, **output)
            self.process = subprocess.Popen([*java, "kafka.Kafka", str(config)], **output)
            stack.callback(self._stop)
            self._wait(home / "broker.log")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait(self, log: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        port = int(self.servers.rpartition(":")[2])
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            except OSError:
                time.sleep(0.1)
        try:
            self.admin().list_topics(timeout=max(1.0, deadline - time.monotonic()))
        except Exception as error:
            raise RuntimeError(f"the broker did not start: {log.read_text()[-2000:]}") from error

    def admin(self) -> Any:
        """A ``confluent_kafka.admin.AdminClient``."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers})

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Make a topic; its name."""
        from confluent_kafka.admin import NewTopic

        admin = self.admin()  # the answer comes while it lives
        admin.create_topics([NewTopic(name, partitions, 1, config=config or {})])[name].result(30)
        return name


class MockBroker:
    """librdkafka's mock broker, in this process: a topic is there, with 4 partitions, when it is first named."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        # the broker lives as long as this client
        self._owner = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 1, "log_level": 0})
        [broker] = self._owner.list_topics(timeout=10).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"

    def stop(self) -> None:
        """End it."""
        del self._owner
