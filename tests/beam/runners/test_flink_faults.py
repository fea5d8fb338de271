"""A stream on Flink goes on while its parts are killed, and gives what it would have given.

One stream for all these tests: each breaks something and compares all that has come since the one before.
"""

import time
from contextlib import ExitStack

import pytest

from ldp_core import InputError
from tests.bed.flink import FlinkCluster
from tests.bed.kafka import KafkaBroker

from .conftest import need_flink
from .flink_faults import PATIENCE, until
from .flink_stream import Proxy, Stream, dead

pytestmark = [pytest.mark.flink, pytest.mark.kafka]


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    need_flink()
    folder = tmp_path_factory.mktemp("stream")
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # half the CPU time of a start
        proxy = Proxy()
        stack.callback(proxy.cut)
        try:
            broker = stack.enter_context(KafkaBroker(proxy.address))
        except InputError as reason:
            pytest.skip(str(reason))
        proxy.target = broker.proxied
        options = {"checkpoints": folder / "checkpoints", "timeout": PATIENCE}
        cluster = stack.enter_context(FlinkCluster(folder / "cluster", high_availability=True, **options))
        spare = FlinkCluster(folder / "spare", **options)
        stack.callback(spare.stop)
        stream = Stream(cluster, spare, broker, proxy, folder)
        with stream.live:
            yield stream


@pytest.fixture
def told(request, record_property):
    """Prints the figures of a test, and keeps them in its report."""

    def tell(figures):
        for name, figure in figures.items():
            record_property(name, figure)
        said = ", ".join(f"{figure:.4g} {name}" for name, figure in figures.items())
        print(f"\n{request.node.name}: {said}")  # noqa: T201 (pytest -s shows it)

    return tell


def test_a_worker_is_killed(stream, told):
    told(stream.survives(lambda: stream.cluster.kill(next(iter(stream.cluster.workers())))))


def test_a_task_manager_is_killed_and_comes_back(stream, told):
    told(stream.survives(lambda: stream.cluster.kill("taskmanager-1")))


def test_the_job_manager_is_killed_and_another_takes_up_its_job(stream, told):
    told(stream.survives(lambda: stream.cluster.kill("jobmanager")))


def test_the_broker_cannot_be_reached_for_some_seconds(stream, told):
    def cut():
        stream.proxy.cut()
        time.sleep(6)
        assert stream.job.running
        stream.proxy.mend()

    told(stream.survives(cut, restarts=False))


def test_stopped_with_a_savepoint_and_submitted_again(stream, told):
    told(stream.survives(lambda: stream.resume(stream.job.stop()), restarts=False))


def test_everything_is_killed_and_another_cluster_goes_on_from_the_last_checkpoint(stream, told):
    def kill():
        for name in [*stream.cluster.workers(), *stream.cluster.processes]:
            stream.cluster.kill(name)
        stream.cluster.stop()
        last = max(stream.cluster.checkpoints.glob("*/chk-*/_metadata"), key=lambda file: file.stat().st_mtime)
        stream.cluster = stream.spare
        stream.cluster.start()
        stream.resume(last.parent.as_uri())

    told(stream.survives(kill, restarts=False))


def test_messages_that_cannot_be_used_are_dead_letters(stream, told):
    stream.send_late()  # where no fault has begun to
    true = stream.compare.made.poisoned
    until(lambda: len(true) == 5, PATIENCE, "every kind is sent")
    told(stream.compare(time.time()))  # (it waits for later records)
    stream.live.__exit__()
    until(lambda: all(dead(stream.folder)[key] >= true[key] for key in true), PATIENCE, "dead letters")
    assert {key: dead(stream.folder)[key] for key in true} == true
