"""A Flink cluster on this machine, to try a job on the engine: ``python -m tests.bed.flink``.

Plain processes, no containers: a JobManager, TaskManagers of one slot each, Beam's job server, which turns a
pipeline into a Flink job, and a pool that starts the Python workers. Flink and the job server are built from Maven
Central's parts once (``pom.xml``, where the versions stand), and are cached. Everything listens on the loopback
address only: these processes run what they are sent, so whoever may open a port of this machine may run code as you.
"""

from tests.bed.flink.cluster import FlinkCluster
from tests.bed.flink.recipe import VERSIONS, flink_jars, job_server_jar

__all__ = ["VERSIONS", "FlinkCluster", "flink_jars", "job_server_jar"]
