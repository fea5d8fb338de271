"""A Flink cluster on this machine, to try a job on the engine: ``python -m pipelines.local.flink``.

Plain processes, no containers: a JobManager, TaskManagers of one slot each and, on request, a worker pool in
which Beam's EXTERNAL environment starts its Python workers. Flink comes from Maven Central once, and is cached.
Everything listens on the loopback address only: Flink's REST endpoint and a worker pool run what they are
sent, so whoever may open a port of this machine may run code as you.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.metadata
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from ldp_core import InputError, LdpError, ParameterError
from pipelines.table import aligned

HOST = "127.0.0.1"
FLINK_VERSION = "1.20.3"
JOB_SERVER_JAR = "LDP_FLINK_JOB_SERVER_JAR"
_STATE = "cluster.json"

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>flink</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_LOG4J = "org.apache.logging.log4j"

# the sums have to fit the JVM's options below; Beam's channel to the Python workers takes direct memory
_CONFIG = """\
jobmanager.rpc.address: {host}
jobmanager.bind-host: {host}
jobmanager.rpc.port: {rpc}
rest.address: {host}
rest.bind-address: {host}
rest.port: {rest}
taskmanager.host: {host}
taskmanager.bind-host: {host}
taskmanager.numberOfTaskSlots: 1
taskmanager.cpu.cores: 1.0
taskmanager.memory.framework.heap.size: 128m
taskmanager.memory.task.heap.size: 384m
taskmanager.memory.framework.off-heap.size: 128m
taskmanager.memory.task.off-heap.size: 128m
taskmanager.memory.network.min: 64m
taskmanager.memory.network.max: 64m
taskmanager.memory.managed.size: 64m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 128m
taskmanager.memory.jvm-overhead.max: 128m
parallelism.default: {slots}
heartbeat.interval: 1000
heartbeat.timeout: 10000
io.tmp.dirs: {folder}/tmp
"""
_TASK_MANAGER_MEMORY = ["-Xmx512m", "-XX:MaxDirectMemorySize=320m", "-XX:MaxMetaspaceSize=256m"]
_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = Console
appender.console.name = Console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
"""
# what Flink's own start scripts open to it from Java 16 on
_OPENS = ["lang", "lang.reflect", "net", "io", "nio", "text", "time", "util", "util.concurrent"]
_JAVA_OPTIONS = [
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENS),
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
]
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"


def cache_directory() -> Path:
    """Where Flink's jars and, by default, the cluster's logs and process ids go."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ldp-telemetry" / "flink"


def flink_jars(version: str = FLINK_VERSION) -> Path:
    """The folder of Flink's jars; fetched from Maven Central (about 65 MB) when it is not there yet.

    Raises:
        InputError: neither the folder nor Maven is there, or Maven cannot get this version.
    """
    jars = cache_directory() / version
    if jars.is_dir():
        return jars
    maven = _program("mvn")
    found = ["flink-clients", "flink-runtime-web"]
    dependencies = [("org.apache.flink", name, version) for name in found]
    dependencies += [(_LOG4J, name, "2.24.3") for name in ("log4j-core", "log4j-slf4j-impl")]
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="fetching-") as scratch:
        (Path(scratch) / "pom.xml").write_text(_POM.format("".join(_DEPENDENCY.format(*d) for d in dependencies)))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise InputError(f"Maven cannot get Flink {version}: {done.stdout.strip().splitlines()[:1]}")
        with suppress(OSError):  # another process was faster
            (Path(scratch) / "jars").rename(jars)
    return jars


def job_server_jar(version: str = FLINK_VERSION) -> Path:
    """Beam's job server for this Flink, which turns a pipeline into a Flink job.

    That is the file which the environment variable ``LDP_FLINK_JOB_SERVER_JAR`` names, or else the one in Beam's
    own cache. Without either, Beam tries to download it when a pipeline runs.

    Raises:
        InputError: there is no such file.
    """
    minor = _minor(version)
    name = f"beam-runners-flink-{minor}-job-server-{importlib.metadata.version('apache-beam')}.jar"
    given = os.environ.get(JOB_SERVER_JAR)
    path = Path(given) if given else Path.home() / ".apache_beam" / "cache" / "jars" / name
    if not path.is_file():
        raise InputError(
            f"no Beam job server for Flink {minor}: {path} is not there; {JOB_SERVER_JAR} can name another"
        )
    return path


class FlinkCluster:
    """A running cluster for a ``with`` block, or between `start` and `stop`.

    Args:
        directory: for its configuration, logs and process ids; by default a folder in the user's cache.
        task_managers: how many, of one slot each.
        worker_pool: whether to start a pool of Python workers for Beam's EXTERNAL environment. They inherit this
            process's environment variables, so that a `Secret.from_env` finds its own there.
        version: of Flink; the job server has to be for the same minor version.
        timeout: seconds to wait for the processes.

    Attributes:
        rest: ``host:port`` of the JobManager; what ``--flink_master`` takes. Empty when there is no cluster.
        pool: ``host:port`` of the worker pool; what ``--environment_config`` takes. Empty without one.
        processes: name -> process id.

    Raises:
        ParameterError: bad arguments.
        InputError: Java or Flink is not there; from `start`.
        LdpError: the directory has a running cluster already, or a process did not come up; from `start`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        task_managers: int = 2,
        worker_pool: bool = False,
        version: str = FLINK_VERSION,
        timeout: float = 60.0,
    ) -> None:
        if task_managers < 1:
            raise ParameterError(f"task_managers must be at least 1, got {task_managers!r}")
        if timeout <= 0:
            raise ParameterError(f"timeout must be above 0 seconds, got {timeout!r}")
        self.directory = Path(directory or cache_directory() / "cluster").absolute()
        self.task_managers = task_managers
        self.worker_pool = worker_pool
        self.version = version
        self.timeout = timeout
        self._load()

    def __enter__(self) -> FlinkCluster:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _load(self) -> None:
        state: dict[str, Any] = {}
        with suppress(FileNotFoundError):
            state = json.loads((self.directory / _STATE).read_text())
        self.rest: str = state.get("rest", "")
        self.pool: str = state.get("pool", "")
        self.processes: dict[str, int] = state.get("processes", {})
        self._token: str = state.get("token", "")
        self.version = state.get("version", self.version)

    def _save(self) -> None:
        state = {
            "rest": self.rest,
            "pool": self.pool,
            "processes": self.processes,
            "token": self._token,
            "version": self.version,
        }
        (self.directory / _STATE).write_text(json.dumps(state, indent=2))

    def start(self) -> None:
        """Start the processes and wait until all TaskManagers have registered."""
        if any(self.running().values()):
            raise LdpError(f"a cluster runs already in {self.directory}")
        java = _program("java")
        classpath = str(flink_jars(self.version) / "*")
        conf = self._configure()
        logging = f"-Dlog4j.configurationFile={(conf / 'log4j2.properties').as_uri()}"
        jvm = [java, f"-Dldp.cluster={self._token}", logging, *_JAVA_OPTIONS]
        run = ["-cp", classpath]
        place = ["--configDir", str(conf)]
        try:
            self._spawn("jobmanager", [*jvm, "-Xmx512m", *run, _JOB_MANAGER, *place])
            for number in range(1, self.task_managers + 1):
                name = f"taskmanager-{number}"
                myself = ["-D", f"taskmanager.resource-id={name}"]
                self._spawn(name, [*jvm, *_TASK_MANAGER_MEMORY, *run, _TASK_MANAGER, *place, *myself])
            if self.worker_pool:
                port = self.pool.rpartition(":")[2]
                pool = [sys.executable, "-m", "pipelines.local.flink", "worker-pool", "--port", port, "--cluster"]
                self._spawn("worker-pool", [*pool, self._token])
            self._wait(self._ready, f"{self.task_managers} TaskManagers")
        except BaseException:
            self.stop()
            raise

    def _configure(self) -> Path:
        conf = self.directory / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (self.directory / "tmp").mkdir(exist_ok=True)
        rest, rpc, pool = _free_ports(3)
        text = _CONFIG.format(host=HOST, rest=rest, rpc=rpc, slots=self.task_managers, folder=self.directory)
        (conf / "config.yaml").write_text(text)
        (conf / "log4j2.properties").write_text(_LOGGING)
        self.rest = f"{HOST}:{rest}"
        self.pool = f"{HOST}:{pool}" if self.worker_pool else ""
        self.processes = {}
        self._token = uuid.uuid4().hex
        return conf

    def _spawn(self, name: str, command: list[str]) -> None:
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # its own group: Ctrl-C does not reach it, `stop` reaches its workers
            )
        self.processes[name] = process.pid
        self._save()
        # a process that has just begun has no command line yet, by which `running` would know it
        while process.poll() is None and not _is_ours(process.pid, self._token):
            time.sleep(0.01)
        process.returncode = 0  # it outlives this object, on purpose

    def log(self, name: str) -> Path:
        """The log file of a process."""
        return self.directory / f"{name}.log"

    def running(self) -> dict[str, bool]:
        """Name of each process -> whether it runs."""
        return {name: _is_ours(pid, self._token) for name, pid in self.processes.items()}

    def overview(self) -> dict[str, Any]:
        """What Flink's REST endpoint says: ``taskmanagers``, ``slots-total``, ``jobs-running`` and more.

        Raises:
            LdpError: it does not answer.
        """
        answer: dict[str, Any] | None = None
        with suppress(OSError, http.client.HTTPException, ValueError):
            answer = _get_json(self.rest, "/overview")
        if answer is None:
            raise LdpError(f"no Flink answers at {self.rest or 'any address'}")
        return answer

    def pipeline_flags(self, environment: Literal["EXTERNAL", "LOOPBACK"] | None = None) -> list[str]:
        """Beam's options for a pipeline that runs here.

        Args:
            environment: where the Python code runs. EXTERNAL: in the worker pool, by default where there is one.
                LOOPBACK: in the process that submits the pipeline. Beam 2.77 opens that one's ports on all
                addresses of the machine, so mind who can reach it.

        Raises:
            ParameterError: EXTERNAL without a worker pool.
        """
        environment = environment or ("EXTERNAL" if self.pool else "LOOPBACK")
        if environment == "EXTERNAL" and not self.pool:
            raise ParameterError("EXTERNAL needs a cluster with a worker pool")
        flags = [
            "--runner=FlinkRunner",
            f"--flink_version={_minor(self.version)}",
            f"--flink_master={self.rest}",
            f"--parallelism={sum(name.startswith('taskmanager') for name in self.processes)}",
            f"--environment_type={environment}",
        ]
        if environment == "EXTERNAL":
            flags.append(f"--environment_config={self.pool}")
        with suppress(InputError):
            flags.append(f"--flink_job_server_jar={job_server_jar(self.version)}")
        return flags

    def _ready(self) -> bool:
        with suppress(LdpError):
            overview = self.overview()  # a TaskManager's slots are there a moment after itself
            all_here = overview["taskmanagers"] == overview["slots-total"] == self.task_managers
            return all_here and (not self.pool or _listens(self.pool))
        return False

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self.timeout
        while not ready():
            dead = [name for name, alive in self.running().items() if not alive]
            if dead:
                raise LdpError(f"{dead[0]} ended; its log is {self.log(dead[0])}")
            if time.monotonic() > deadline:
                raise LdpError(f"no {what} within {self.timeout:g} s; the logs are in {self.directory}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Stop all processes and wait until they have gone; a cluster that is not there is no error."""
        for sign, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            for name, alive in self.running().items():
                if alive:
                    with suppress(ProcessLookupError):
                        os.killpg(self.processes[name], sign)
            deadline = time.monotonic() + patience
            while any(self.running().values()) and time.monotonic() < deadline:
                time.sleep(0.05)
        (self.directory / _STATE).unlink(missing_ok=True)
        shutil.rmtree(self.directory / "tmp", ignore_errors=True)  # records that Flink spilled may be in there
        self._load()


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise InputError(f"the program {name!r} is not on the PATH; a Flink cluster needs it")
    return found


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
        return True
    return False


def _get_json(address: str, path: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(address, timeout=5.0)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != http.HTTPStatus.OK:  # as long as the JobManager is coming up
            raise http.client.HTTPException(str(response.status))
        return answer
    finally:
        connection.close()


def _is_ours(pid: int, token: str) -> bool:
    """Whether the process runs and is the one we started: process ids are used again."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # where it is our child, let it go
    if Path("/proc/self").exists():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
    else:
        listing = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        command = subprocess.run(listing, capture_output=True, check=False).stdout  # noqa: S603
    return token.encode() in command


def serve_worker_pool(port: int) -> None:
    """Beam's pool of Python workers, on the loopback address: Beam's own command listens on all of them."""
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 (the other commands start faster without Beam)
    from apache_beam.portability.api import beam_fn_api_pb2_grpc  # noqa: PLC0415
    from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer  # noqa: PLC0415
    from apache_beam.utils.thread_pool_executor import shared_unbounded_instance  # noqa: PLC0415

    # the pool starts "python" from PATH: that must be this one
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    server = grpc.server(shared_unbounded_instance())
    servicer = BeamFnExternalWorkerPoolServicer(use_process=True)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(servicer, server)
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    server.wait_for_termination()


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m pipelines.local.flink",
        description="Start and stop a Flink cluster on this machine (Java, and Maven for the first time, are needed).",
        allow_abbrev=False,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="up | down | status")
    up = commands.add_parser("up", help="start a cluster, and print how to run a pipeline on it")
    up.add_argument("--task-managers", type=int, default=2, metavar="N", help="of one slot each (default 2)")
    up.add_argument("--worker-pool", action="store_true", help="start a pool of Python workers too (EXTERNAL)")
    up.add_argument("--flink-version", default=FLINK_VERSION, metavar="V", help=f"default {FLINK_VERSION}")
    down = commands.add_parser("down", help="stop it")
    status = commands.add_parser("status", help="say what runs; exit code 1 unless everything does")
    for command in (up, down, status):
        command.add_argument("--dir", metavar="DIR", help="for logs and process ids (default: in the user's cache)")
    pool = commands.add_parser("worker-pool")  # without help: not for people
    pool.add_argument("--port", type=int, required=True)
    pool.add_argument("--cluster", required=True)  # by which `stop` knows the process
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0 if it succeeded, 1 if `status` finds something down, 2 if there is an error."""
    args = parser().parse_args(argv)
    try:
        if args.command == "worker-pool":
            serve_worker_pool(args.port)
        elif args.command == "up":
            cluster = FlinkCluster(
                args.dir,
                task_managers=args.task_managers,
                worker_pool=args.worker_pool,
                version=args.flink_version,
            )
            cluster.start()
            return _report(cluster)
        elif args.command == "down":
            FlinkCluster(args.dir).stop()
        else:
            return _report(FlinkCluster(args.dir))
    except LdpError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _report(cluster: FlinkCluster) -> int:
    running = cluster.running()
    if not running:
        print(f"no cluster in {cluster.directory}")
        return 1
    rows = [
        [name, str(cluster.processes[name]), "runs" if alive else "has ended", str(cluster.log(name))]
        for name, alive in running.items()
    ]
    print(aligned([["process", "pid", "state", "log"], *rows]) + "\n")
    overview = cluster.overview()
    flags = cluster.pipeline_flags()
    has_jar = flags[-1].startswith("--flink_job_server_jar")
    facts = {
        "Flink": f"{cluster.version}, http://{cluster.rest}",
        "slots": f"{overview['slots-available']} of {overview['slots-total']} free",
        "worker pool": cluster.pool or "none: the Python code runs in the process that submits the pipeline (LOOPBACK)",
        "job server": "here" if has_jar else f"not here: Beam downloads it, or {JOB_SERVER_JAR} names it",
        "a pipeline's options": " ".join(flags),
    }
    width = max(map(len, facts))
    for name, fact in facts.items():
        print(f"{name.ljust(width)}  {fact}")
    return 0 if all(running.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
