"""On Flink a worker is killed: every record comes through, and no sink sees two reports of one.

The planted twin, noise that nothing protects, fails the same check: so the check sees the fault, and the kill is one.
"""

from __future__ import annotations

from functools import partial
from itertools import count

import apache_beam as beam
import pytest

import ldp_beam
from ldp_beam.io import ReadKafka
from ldp_core import PrivacyPlan, UnaryEncoding
from pipelines.local.flink import FlinkCluster

from ..io.kafka_broker import KafkaBroker, NoBrokerError
from .conftest import need_flink
from .flink_faults import PATIENCE, Append, Job, Live, Sent, report_rows, until

pytestmark = [pytest.mark.flink, pytest.mark.kafka]

# 64 bits: that two draws of a record agree has probability below 1e-11
VALUES = 64
PLAN = PrivacyPlan({"value": UnaryEncoding(range(VALUES), epsilon=1.0)}, keep=["id", "t"])
RATE, EVERY = 5_000, 3.0
topics = (f"once-{i}" for i in count())


@pytest.fixture(scope="module")
def broker():
    try:
        started = KafkaBroker().__enter__()
    except NoBrokerError as reason:
        pytest.skip(str(reason))
    yield started
    started.__exit__()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    need_flink()
    with FlinkCluster(tmp_path_factory.mktemp("flink")) as running:
        yield running


def unprotected(reports):
    """As `Perturb` was: a Reshuffle, which Flink does not make durable."""
    return reports | ldp_beam.Perturb(PLAN, packed=True, stabilize=False) | beam.Reshuffle()


PROTECTIONS = {
    "record": ldp_beam.Perturb(PLAN, packed=True, stabilize=False, record="position"),
    "checkpointed": ldp_beam.Perturb(PLAN, packed=True),
    "none": beam.ptransform_fn(unprotected)(),
}


def job(p, broker, topic, protection, path):
    read = ReadKafka(broker.servers, topic, group=topic, max_delay=5, position="position")
    rows = p | read | PROTECTIONS[protection] | beam.Map(report_rows)
    return rows | "Send" >> beam.ParDo(Append(path))


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_no_record_is_reported_twice_with_two_noises(protection, cluster, broker, tmp_path):
    topic, path = next(topics), tmp_path / "sent"
    broker.create_topic(topic, 4)
    flags = cluster.pipeline_flags(streaming=True, checkpoint_every=EVERY)
    build = partial(job, broker=broker, topic=topic, protection=protection, path=path)
    with Job(cluster, build, flags) as running:
        with Live(broker.servers, topic, rate=RATE, partitions=4, values=VALUES) as live:
            until(lambda: len(Sent.read(path, 0).words), PATIENCE, "the sink sees records")
            done = running.checkpoints
            until(lambda: running.checkpoints > done, PATIENCE, "a checkpoint")
            seen = len(Sent.read(path, 0).words)
            until(lambda: len(Sent.read(path, 0).words) > seen + RATE / 2, PATIENCE, "more records")
            recovered = running.kill_workers()
        until(lambda: not Sent.read(path, live.records).lost, PATIENCE, "all records have come")
    sent = Sent.read(path, live.records)
    print(f"{protection}: {sent}; all ran again {recovered:.1f} s after the kill")  # noqa: T201 (pytest -s shows it)
    assert not sent.lost
    assert sent.again, "nothing was replayed: this shows nothing"
    assert (sent.different == 0) == (protection != "none")
