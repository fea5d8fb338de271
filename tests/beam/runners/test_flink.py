"""One input, one plan: Flink, Beam's job service, Beam's local runner and Polars agree.

The engines are reached as in production, through Beam's portable job API: the pipeline is pickled, staged and
run by Python workers behind gRPC. Those that start with ``flink`` need Beam's job server for Flink (a jar).
"""

import ipaddress
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

from ldp_core import InputError, LdpError
from tests.bed.flink import VERSIONS, FlinkCluster, job_server_jar, recipe
from tests.bed.flink.__main__ import failure_of, main
from tests.bed.flink.cluster import free_ports, listens

from .conftest import need_flink
from .flink_helpers import PLAN, beam_keyed, beam_telemetry, polars_keyed, truth, write_events

FLINK = ["flink-local", "flink-loopback", "flink-external"]
ON_FLINK = [pytest.param(engine, marks=pytest.mark.flink) for engine in FLINK]
SLOW = [pytest.param(f"job-service-{where}", marks=pytest.mark.slow) for where in ("loopback", "external")]
LOCAL = ["--runner=FnApiRunner"]
JOB_SERVICE = ["--runner=PortableRunner", "--job_endpoint=embed"]


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    return write_events(tmp_path_factory.mktemp("events"))


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A worker pool without a cluster."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "tests.bed.flink", "worker-pool", "--port", str(port), "--cluster", "none"]
    logs = ["--logs", str(tmp_path_factory.mktemp("pool"))]
    with subprocess.Popen([*command, *logs], start_new_session=True) as process:
        try:
            until(lambda: process.poll() is not None or listens(f"127.0.0.1:{port}"))
            assert process.poll() is None
            yield f"127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def until(done, seconds=60.0):
    """Wait for what another process does; there is no event to wait for."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.fixture
def engine(request):
    """Name of an engine -> the options of a pipeline that runs there."""
    name = request.param
    if name == "job-service-loopback":
        return [*JOB_SERVICE, "--environment_type=LOOPBACK"]
    if name == "job-service-external":
        address = request.getfixturevalue("pool")
        return [*JOB_SERVICE, "--environment_type=EXTERNAL", f"--environment_config={address}"]
    if name == "flink-local":
        need_flink()
        jar = f"--flink_job_server_jar={job_server_jar()}"
        return ["--runner=FlinkRunner", f"--flink_version={VERSIONS['flink.minor']}", "--flink_master=[local]", jar]
    environment = name.removeprefix("flink-").upper()
    return request.getfixturevalue("flink_cluster").pipeline_flags(environment)


@pytest.mark.parametrize("engine", ["job-service-loopback", SLOW[1], *ON_FLINK], indirect=True)
def test_keyed_noise_gives_the_same_histograms_bit_for_bit(engine, events, tmp_path):
    expected = polars_keyed(events)
    assert {cell: n for cell, (_, n) in expected.items()} == {cell: n for cell, (_, n) in truth(events).items()}
    assert beam_keyed(events, tmp_path, engine) == expected


def test_the_local_runner_gives_those_histograms_too(events, tmp_path):
    assert beam_keyed(events, tmp_path, LOCAL) == polars_keyed(events)


@pytest.mark.parametrize("engine", [*SLOW, *ON_FLINK], indirect=True)
def test_the_telemetry_job_counts_every_record_and_estimates_within_sampling_error(engine, events, tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    found, local = beam_telemetry(events, there, engine), beam_telemetry(events, here, LOCAL)
    true = truth(events)
    beta = 1e-9 / (2 * len(true))  # of a false alarm in a cell: 1e-9 in any of both runs
    for rows in (found, local):
        assert {cell: n for cell, (_, n) in rows.items()} == {cell: n for cell, (_, n) in true.items()}
        for cell, (estimate, n) in rows.items():
            assert abs(estimate - true[cell][0]) <= n * PLAN[cell[0]].accuracy(n, beta)
    assert found != local, "the noise is not fresh"


@pytest.mark.flink
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_only_this_machine_reaches_what_listens_also_while_a_job_runs(flink_cluster):
    with beam.Pipeline(options=PipelineOptions(flink_cluster.pipeline_flags("EXTERNAL"))) as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(str)
    workers = flink_cluster.workers()  # they are kept for a minute
    assert workers
    found = {name: listening(pid) for name, pid in (flink_cluster.processes | workers).items()}
    assert all(found[name] for name in flink_cluster.processes)
    assert {ip for ips in found.values() for ip in ips} == {"127.0.0.1"}
    with socket.create_server(("0.0.0.0", 0)):  # the twin
        assert listening(os.getpid()) == ["0.0.0.0"]


def listening(pid):
    """The addresses at which a process takes TCP connections, as Linux tells them."""
    mine = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.exists() or link.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in mine:
                words = bytes.fromhex(local.partition(":")[0])
                packed = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
                address = ipaddress.ip_address(packed)
                found.append(str(getattr(address, "ipv4_mapped", None) or address))
    return found


FAILS = """
import os, sys
import apache_beam as beam
def fail(_):
    raise ValueError(os.environ["LDP_TRIED"])
with beam.Pipeline(argv=sys.argv) as p:
    _ = p | beam.Create([1]) | beam.Map(fail)
"""


@pytest.mark.flink
def test_a_directory_has_one_cluster(flink_cluster):
    with pytest.raises(LdpError, match="runs already"):
        FlinkCluster(flink_cluster.directory).start()
    assert all(flink_cluster.running().values())


@pytest.mark.flink
def test_the_commands_a_killed_task_manager_and_a_job_that_fails_for_ever(tmp_path, capsys, monkeypatch):
    need_flink()
    where = ["--dir", str(tmp_path)]
    assert main(["status", *where]) == 1
    try:
        assert main([*where, "up"]) == 0
        assert main([*where, "status"]) == 0
        seen = FlinkCluster(tmp_path)
        assert f"http://{seen.rest}" in capsys.readouterr().out
        seen.kill("taskmanager-2")
        until(lambda: seen.get("/overview")["taskmanagers"] == 1)
        assert main([*where, "status"]) == 1
        assert [name for name, alive in seen.running().items() if not alive] == ["taskmanager-2"]
        monkeypatch.setenv("LDP_TRIED", "what was set before the restart")
        for name in ("taskmanager-2", "worker-pool"):  # one that has ended, and one that runs
            assert main([*where, "restart", name]) == 0
        until(lambda: seen.get("/overview")["taskmanagers"] == 2 and listens(seen.pool))
        assert main([*where, "jobs"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "no jobs"
        (tmp_path / "fails.py").write_text(FAILS)
        command = [sys.executable, "-m", "tests.bed.flink", *where, "submit", tmp_path / "fails.py", "--streaming"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as submitted:
            [said] = itertools.islice((line for line in submitted.stderr if " failed: " in line), 1)
            assert " failed: ValueError: what was set before the restart" in said
            assert main([*where, "status"]) == 0
            [job] = [job["jid"] for job in FlinkCluster(tmp_path).get("/jobs/overview")["jobs"]]
            told = capsys.readouterr().out
            assert f"job {job} failed last: " in told
            assert "ValueError: what was set before the restart" in told
            seen.get(f"/jobs/{job}?mode=cancel", "PATCH")
            submitted.stderr.read()
    finally:
        assert main([*where, "down"]) == 0
    assert not any(seen.running().values())
    assert not listens(seen.rest)
    assert main(["down", *where]) == 0, "nothing there is no error"


def jar_for(version, folder):
    """A job server that says which Flink it is for, and cannot run."""
    jar = folder / f"{version}.jar"
    with zipfile.ZipFile(jar, "w") as made:
        made.writestr(".flink-runtime.version.properties", f"project.version={version}\n")
    return jar


def test_a_process_that_took_over_an_id_is_left_alone(tmp_path):
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as other:
        other.stdout.readline()  # it is under way
        state = {"rest": "127.0.0.1:1", "processes": {"jobmanager": other.pid}, "token": "0" * 32}
        (tmp_path / "cluster.json").write_text(json.dumps(state))
        cluster = FlinkCluster(tmp_path)
        assert cluster.running() == {"jobmanager": False}
        cluster.stop()
        assert other.poll() is None
        other.communicate(b"\n")
    assert other.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="threads have numbers of processes there")
def test_a_thread_with_the_number_of_a_worker_that_has_ended_is_no_worker(tmp_path):
    """It was a TaskManager's, which was killed in its place."""
    waits = "import threading; t = threading.Thread(target=input); t.start(); print(t.native_id, flush=True)"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", waits, "a token"], **pipes) as process:
        state = {"processes": {"taskmanager-1": process.pid}, "token": "a token"}
        (tmp_path / "cluster.json").write_text(json.dumps(state))
        thread = int(process.stdout.readline())
        for number in (thread, process.pid):
            (tmp_path / f"worker-{number}.log").touch()
        workers = FlinkCluster(tmp_path).workers()
        process.communicate(b"\n")
    assert thread != process.pid
    assert workers == {f"worker-{process.pid}": process.pid}


def test_a_job_server_that_is_not_there_or_of_another_flink_is_refused(tmp_path, monkeypatch):
    for jar, words in [
        (tmp_path / "none.jar", "there is no .*none.jar; LDP_FLINK_JOB_SERVER_JAR names it"),
        (Path(__file__), "is not a job server for Flink"),
        (jar_for("1.20.3", tmp_path), r"is for Flink 1\.20\.3, and the cluster is Flink 1\.19"),
    ]:
        monkeypatch.setenv(recipe.JOB_SERVER_JAR, str(jar))
        with pytest.raises(InputError, match=words):
            job_server_jar()
    jar = jar_for(VERSIONS["flink.version"], tmp_path)
    monkeypatch.setenv(recipe.JOB_SERVER_JAR, str(jar))
    assert job_server_jar() == jar


def test_another_beam_than_the_runner_is_for_is_refused(tmp_path, monkeypatch):
    for installed, good in [("2.77.0", True), ("2.77", True), ("2.78.0", False), ("2.7", False)]:
        monkeypatch.setattr(recipe, "version", {"apache-beam": installed}.get)
        monkeypatch.setattr("tests.bed.flink.cluster.program", lambda *_: pytest.fail("it went on"))
        if good:
            recipe.check_pairing()
            continue
        wanted = rf"apache-beam {installed} is installed, .* 2\.70\.0 was tried with 2\.77: "
        wanted += r"pip install 'apache-beam==2\.77\."
        with pytest.raises(InputError, match=wanted):
            FlinkCluster(tmp_path).start()


@pytest.mark.flink
def test_a_worker_that_ends_before_it_reaches_its_task_manager_is_an_error(pool):
    """Without an error the TaskManager waits for ever for a worker that is not there, and the job hangs silently."""
    [nobody] = free_ports(1)
    nowhere = endpoints_pb2.ApiServiceDescriptor(url=f"127.0.0.1:{nobody}")
    endpoints = dict.fromkeys(["control_endpoint", "logging_endpoint", "provision_endpoint"], nowhere)
    with grpc.insecure_channel(pool) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        answer = stub.StartWorker(beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1", **endpoints), timeout=60)
    assert answer.error == "a worker ended before it reached its TaskManager"


def test_a_damaged_state_and_a_submission_to_no_cluster(tmp_path, capsys):
    assert failure_of("java.lang.A: one\n\tat a\nCaused by: java.io.B: two\n\tat b\n") == "java.io.B: two"
    for words, said in [(["--help"], "usage: python -m tests.bed.flink submit"), (["-m", "json.tool", "--help"], "")]:
        assert main(["--dir", str(tmp_path), "submit", *words]) == 0
        assert said in capsys.readouterr().out
    for words, remedy in [(["-m", "x"], "`up` starts one"), ([], "submit needs what to run")]:
        assert main(["--dir", str(tmp_path), "submit", *words]) == 2
        assert remedy in capsys.readouterr().err
    for words in (["--dir", str(tmp_path), "status"], ["status", "--dir", str(tmp_path)]):
        assert main(words) == 1
        assert f"no cluster in {tmp_path}" in capsys.readouterr().out
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(InputError, match=r"cluster\.json is damaged"):
        FlinkCluster(tmp_path)


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="'java' is not on the PATH"):
        FlinkCluster(tmp_path).start()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = "{}:{}".format(*closed.getsockname())
    state = {"rest": address, "processes": {}, "token": "0" * 32}
    (tmp_path / "cluster.json").write_text(json.dumps(state))
    with pytest.raises(LdpError, match="no Flink answers"):
        FlinkCluster(tmp_path).get("/overview")
