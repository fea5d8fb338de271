"""On Flink a worker is killed: every record comes through, and no sink sees two reports of one.

The planted twin, noise that nothing protects, fails the same check: so the check sees the fault, and the kill is one.
"""

import time
from contextlib import ExitStack
from functools import partial
from typing import Any

import apache_beam as beam
import pytest

import ldp_beam
from ldp_beam.io import ReadKafka
from ldp_core import InputError, PrivacyPlan, UnaryEncoding
from tests.bed.flink import FlinkCluster
from tests.bed.kafka import KafkaBroker

from .conftest import need_flink

pytest.importorskip("confluent_kafka")
from .flink_faults import PATIENCE, Append, Job, Live, Numbers, Sent, pane_rows, report_rows, until

pytestmark = pytest.mark.flink

# 64 bits: that two draws of a record agree has probability below 1e-11
VALUES = 64
PLAN = PrivacyPlan({"value": UnaryEncoding(range(VALUES), epsilon=1.0)}, keep=["id", "t"])
RATE, EVERY, WINDOW = 5_000, 10.0, 1


@pytest.fixture(scope="module")
def broker():
    with ExitStack() as stack:
        try:
            started = stack.enter_context(KafkaBroker())
        except InputError as reason:
            pytest.skip(str(reason))
        yield started


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    need_flink()
    with FlinkCluster(tmp_path_factory.mktemp("flink"), timeout=PATIENCE) as running:
        yield running


# what a job may be told to protect its noise: arguments of `Perturb`, and of `PrivateHistogram`
PROTECTIONS: dict[str, dict[str, Any]] = {
    "record": {"record": "position", "stabilize": False},
    "checkpointed": {},
    "none": {"stabilize": False},
}


def job(p, broker, topic, folder):
    """Each protection with two sinks: of reports, behind a Reshuffle, which Flink makes no more durable; of panes."""
    events = p | ReadKafka(broker.servers, topic, group=topic, max_delay=0.5, position="position")
    for name, options in PROTECTIONS.items():
        drawn = events | f"Perturb {name}" >> ldp_beam.Perturb(PLAN, packed=True, **options)
        rows = drawn | f"Shuffle {name}" >> beam.Reshuffle() | f"Rows {name}" >> beam.Map(report_rows)
        _ = rows | f"Send {name}" >> beam.ParDo(Append(folder / f"{name} reports"))
        histogram = ldp_beam.PrivateHistogram("value", PLAN["value"], window=WINDOW, event_time="t", **options)
        rows = events | f"Histogram {name}" >> histogram | f"Panes {name}" >> beam.Map(pane_rows)
        _ = rows | f"Tell {name}" >> beam.ParDo(Append(folder / f"{name} panes"))


def test_no_sink_sees_two_reports_of_a_record_or_two_estimates_of_a_pane(cluster, broker, tmp_path):
    topic = "once"
    broker.create_topic(topic, 4)
    files = {(name, what): tmp_path / f"{name} {what}" for name in PROTECTIONS for what in ("reports", "panes")}
    flags = cluster.pipeline_flags(streaming=True, checkpoint_every=EVERY)
    with Job(cluster, partial(job, broker=broker, topic=topic, folder=tmp_path), flags) as running:
        made = Numbers(VALUES)
        with Live(broker.servers, topic, made, rate=RATE, partitions=4):
            reports = {files[name, "reports"]: 0.0 for name in ("none", "record")}
            uncertain = running.wait_for_uncertain(reports | {files["none", "panes"]: WINDOW}, EVERY)
            recovered = running.kill_workers()
            time.sleep(2.0)  # some that were never in danger
        for name in PROTECTIONS:
            until(partial(_all_are_there, files[name, "reports"], made.records), PATIENCE, "all records have come")
        for path, places in uncertain.items():
            until(lambda path=path, places=places: Sent.read(path, 0).all_again(places), PATIENCE, "rows come again")
    print(f"all ran again {recovered:.1f} s after the kill")  # noqa: T201 (pytest -s shows it)
    seen = {(name, what): Sent.read(path, made.records) for (name, what), path in files.items()}
    for place, sent in seen.items():
        print(*place, sent)  # noqa: T201
    for name in PROTECTIONS:
        assert not seen[name, "reports"].lost
    assert {place for place, sent in seen.items() if sent.different} == {("none", "reports"), ("none", "panes")}


def _all_are_there(path, records):
    return not Sent.read(path, records).lost
