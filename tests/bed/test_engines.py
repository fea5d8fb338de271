"""The live mode on Kafka and Flink, and how it ends."""

import io
import logging
import math
import signal
import subprocess
import sys

import pytest

pytest.importorskip("confluent_kafka", reason="needs confluent-kafka: pip install 'ldp-telemetry[kafka]'")
pytest.importorskip("google.pubsub_v1", reason="needs google-cloud-pubsub: pip install 'ldp-telemetry[gcp]'")

from apache_beam.utils.timestamp import Timestamp

from ldp_beam import HistogramRow
from ldp_beam.io import estimate_line
from ldp_core import InputError, LdpError
from pipelines.telemetry import main
from tests.bed import engines, live
from tests.bed.engines import parse
from tests.bed.flink import FlinkCluster
from tests.bed.kafka import KafkaBroker, kafka_jars
from tests.bed.live import LiveJob, default_plan

from .test_live import balances, check_command, closed_windows

FLINK = ["--live", "--engine", "flink"]


def test_a_row_comes_back_from_its_line():
    row = HistogramRow(Timestamp(5), Timestamp(10), 0, "ON_TIME", False, False, "app", {}, "maps",
                       2.5, 1.0, -0.5, 5.5, 0.25, 0.1, -0.05, 0.55, 10, 0.95, 1.0, "f" * 16)  # fmt: skip
    assert parse(estimate_line(row).encode()) == row
    assert parse(estimate_line(row._replace(frequency=math.nan)).encode()).frequency is None


# ---- how it ends


class Process:
    """A program that is there for a ``with`` block."""

    def __init__(self, *arguments, **options):
        self.runs = False
        started.append(self)

    def __enter__(self):
        self.runs = True
        return self

    def __exit__(self, *error):
        self.runs = False


started: list[Process] = []


@pytest.fixture
def processes(monkeypatch):
    """Stand-ins for the broker and the cluster, as they are made."""
    started.clear()
    monkeypatch.setattr(engines, "KafkaBroker", type("Broker", (Process,), {"servers": "127.0.0.1:1"}))
    return started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_at_the_start_stops_what_has_started(processes, monkeypatch, capsys, number):
    class Cluster(Process):
        def __enter__(self):
            signal.raise_signal(number)
            raise AssertionError("it went on")

    monkeypatch.setattr(engines, "FlinkCluster", Cluster)
    before, level = signal.getsignal(number), logging.getLogger().level
    assert main(FLINK) == 1
    assert capsys.readouterr().err == "interrupted while it started; what had started has been stopped\n"
    assert [process.runs for process in processes] == [False, False]
    assert signal.getsignal(number) is before
    assert logging.getLogger().level == level


# ---- what is refused


def test_what_cannot_be_is_refused(capsys):
    assert main([*FLINK, "--rate", "max"]) == 2
    assert "Kafka takes more than the pipeline" in capsys.readouterr().err
    assert main(["--engine", "flink", "--demo"]) == 2
    assert "--engine is for --live" in capsys.readouterr().err
    assert main(["--demo", "--page"]) == 2
    assert "--page is for --live" in capsys.readouterr().err
    with pytest.raises(LdpError, match=r"engine must be one of"):
        live.run(LiveJob(default_plan(2.0)), engine="spark")


def test_a_missing_package_is_told(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    assert main(FLINK) == 2
    assert "ldp-telemetry[kafka]" in capsys.readouterr().err


# ---- the whole of it


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The broker's process and the cluster of a run, whose logs are in the test's folder."""
    found = {}

    class Cluster(FlinkCluster):
        def start(self):
            found["cluster"] = self
            super().start()

    class Broker(KafkaBroker):
        def __enter__(self):
            super().__enter__()
            found["broker"] = self.process
            return self

    monkeypatch.setattr(engines, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(engines, "FlinkCluster", Cluster)
    monkeypatch.setattr(engines, "KafkaBroker", Broker)
    return found


def check_ended(made) -> None:
    """Nothing runs any more."""
    assert isinstance(made["broker"], subprocess.Popen)
    assert made["broker"].poll() is not None
    assert not any(made["cluster"].running().values())
    assert not made["cluster"].workers()


@pytest.fixture
def needs_flink():
    from ..beam.runners.conftest import need_flink

    need_flink()
    try:
        kafka_jars()
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.flink
def test_the_command_on_flink_prints_windows_and_reconciles(needs_flink, made, capsys):
    assert main([*FLINK, "--window", "2s", "--for", "15s", "--rate", "5000", "--epsilon", "6"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    check_command(printed.out)
    assert all(dead > 0 for *_, dead in balances(printed.out).values())
    check_ended(made)


@pytest.mark.flink
def test_a_fault_on_flink_ends_it_and_is_told(needs_flink, made, capsys):
    class Killing(io.StringIO):
        """A TaskManager is killed when the first window has been printed."""

        def write(self, text):
            written = super().write(text)
            if closed_windows(text):
                made["cluster"].kill("taskmanager-1")
            return written

    out = Killing()
    assert live.run(LiveJob(default_plan(6.0), window="2s", rate=5000.0), engine="flink", out=out) == 1
    assert "the logs are in" in capsys.readouterr().err
    assert "DOES NOT HOLD" in out.getvalue()
    check_ended(made)
