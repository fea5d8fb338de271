"""A Kafka broker on this machine: Apache's own, one node in KRaft mode, in a process of its own.

Its jars come from Maven Central once, and are cached. It listens on the loopback address only.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from ldp_core import LdpError
from ldp_core.extras import import_extra
from tests.bed.flink.cluster import HOST, free_ports
from tests.bed.maven import cache, made, program

KAFKA_VERSION = "3.9.1"
KAFKA_JARS = "LDP_KAFKA_JARS"

_START_SECONDS = 90

_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId> <artifactId>kafka-broker</artifactId> <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId> <artifactId>kafka_2.13</artifactId> <version>{KAFKA_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},PROXIED://{host}:{proxied},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port},PROXIED://{proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
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


def kafka_jars() -> Path:
    """The folder of the broker's jars; fetched from Maven Central (about 40 MB) when they are not there yet.

    The environment variable ``LDP_KAFKA_JARS`` names another folder than the one in the user's cache.
    """
    folder = Path(os.environ.get(KAFKA_JARS) or cache() / f"kafka-{KAFKA_VERSION}")
    if (folder / f"kafka_2.13-{KAFKA_VERSION}.jar").exists():
        return folder
    goals = ["dependency:copy-dependencies", "-DoutputDirectory=jars"]
    what = f"a Kafka broker whose jars are not in {folder} ({KAFKA_JARS} names another folder)"
    return made(folder, "jars", goals, lambda place: (place / "pom.xml").write_text(_POM), what)


class KafkaBroker:
    """A broker on free ports for a ``with`` block; its records are gone at the end."""

    servers: str
    proxied: str
    process: subprocess.Popen[bytes]

    def __init__(self, proxy: str = "") -> None:
        self._proxy = proxy

    def __enter__(self) -> KafkaBroker:
        import_extra("confluent_kafka", "kafka")
        java = program("java", "a Kafka broker")
        classpath = str(kafka_jars() / "*")
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-")))
            port, proxied, controller = free_ports(3)
            self.servers, self.proxied = f"{HOST}:{port}", f"{HOST}:{proxied}"
            config = home / "server.properties"
            settings = _PROPERTIES.format(
                host=HOST,
                port=port,
                proxied=proxied,
                proxy=self._proxy or self.proxied,
                controller=controller,
                logs=home / "logs",
            )
            config.write_text(settings)
            jvm = [java, "-Xmx384m", "-XX:+UseSerialGC", "-cp", classpath]
            cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            log = stack.enter_context((home / "broker.log").open("wb"))
            # its own group: Ctrl-C does not reach it
            output: dict[str, Any] = {
                "stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True
            }  # fmt: skip
            # (with an equals sign, because one id in 64 begins with a minus sign)
            storage = [*jvm, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={config}"]
            formatted = subprocess.run(storage, timeout=_START_SECONDS, check=False, **output)
            if formatted.returncode:
                raise _did_not_start(home / "broker.log")
            self.process = subprocess.Popen([*jvm, "kafka.Kafka", str(config)], **output)
            stack.callback(self._stop)
            self._wait(home / "broker.log")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()

    def _stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _wait(self, log: Path) -> None:
        """Until it answers."""
        deadline = time.monotonic() + _START_SECONDS
        port = int(self.servers.rpartition(":")[2])
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise _did_not_start(log)
            with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
                break
            time.sleep(0.1)
        kafka = import_extra("confluent_kafka", "kafka")
        try:
            self.admin().list_topics(timeout=max(1.0, deadline - time.monotonic()))
        except kafka.KafkaException:
            raise _did_not_start(log) from None

    def admin(self) -> Any:
        """A ``confluent_kafka.admin.AdminClient``."""
        return import_extra("confluent_kafka.admin", "kafka").AdminClient(
            {"bootstrap.servers": self.servers, "log_level": 0}
        )

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Make a topic; its name."""
        topic = import_extra("confluent_kafka.admin", "kafka").NewTopic(name, partitions, 1, config=config or {})
        admin = self.admin()  # the answer comes while it lives
        admin.create_topics([topic])[name].result(30)
        return name


def _did_not_start(log: Path) -> LdpError:
    return LdpError(f"the Kafka broker did not start; the end of its log: {log.read_text()[-1000:]}")
