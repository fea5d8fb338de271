"""The Flink cluster that the tests marked ``flink`` share."""

import pytest

from ldp_core import InputError
from tests.bed.flink import FlinkCluster, flink_jars, job_server_jar
from tests.bed.maven import program


def need_flink():
    """Skip where Java, Flink or its job server cannot be had, and say why."""
    try:
        program("java", "a Flink cluster")
        flink_jars()
        job_server_jar()
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def flink_cluster(tmp_path_factory):
    """Flink with two TaskManagers, for all tests that leave it as they found it: no kills, and no job that goes on."""
    need_flink()
    # a machine with other work may take its time; on this cluster nothing dies
    patience = {"heartbeat.timeout": "180000", "pekko.ask.timeout": "120 s"}
    with FlinkCluster(tmp_path_factory.mktemp("flink"), settings=patience, timeout=180.0) as running:
        yield running
