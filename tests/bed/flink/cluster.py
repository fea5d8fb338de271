"""The processes of a cluster: started, looked at, restarted, stopped."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn

from ldp_core import InputError, LdpError, ParameterError
from tests.bed.flink.recipe import (
    SMALL_MANIFEST,
    WHAT,
    cache_directory,
    check_pairing,
    flink_jars,
    has_class,
    job_server_jar,
)
from tests.bed.maven import program

HOST = "127.0.0.1"
_STATE = "cluster.json"
_SOURCE = str(Path(__file__).parents[3])  # first: other packages install a module `tests`, too

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
taskmanager.memory.network.min: 256m
taskmanager.memory.network.max: 256m
taskmanager.memory.managed.size: 64m
taskmanager.memory.jvm-metaspace.size: 256m
taskmanager.memory.jvm-overhead.min: 128m
taskmanager.memory.jvm-overhead.max: 128m
parallelism.default: {slots}
heartbeat.interval: 1000
heartbeat.timeout: 10000
io.tmp.dirs: {folder}/tmp
classloader.resolve-order: parent-first
state.backend.type: rocksdb
state.backend.rocksdb.log.level: WARN_LEVEL
state.checkpoints.dir: {checkpoints}
state.savepoints.dir: {checkpoints}
execution.checkpointing.externalized-checkpoint-retention: RETAIN_ON_CANCELLATION
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000
restart-strategy.fixed-delay.delay: 1 s
"""
# with these a JobManager that is started again takes up the jobs of the one before
_HIGH_AVAILABILITY = """\
high-availability.type: zookeeper
high-availability.zookeeper.quorum: {host}:{zookeeper}
high-availability.cluster-id: /{token}
high-availability.zookeeper.client.session-timeout: 20000
high-availability.storageDir: {folder}/high-availability
high-availability.jobmanager.port: {rpc}
"""
_ZOOKEEPER_CONFIG = """\
clientPort={zookeeper}
clientPortAddress={host}
dataDir={folder}/tmp/zookeeper
"""
_TASK_MANAGER_MEMORY = ["-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:MaxMetaspaceSize=256m"]
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
_HAS_JAR = "-Dldp.cluster.has.jar=true"  # beam.patch
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_ZOOKEEPER = "org.apache.flink.runtime.zookeeper.FlinkZooKeeperQuorumPeer"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"


# a port that is free when it is chosen may be another program's when a process listens
_ATTEMPTS = 3


class _PortTakenError(LdpError):
    """Other ports may do."""


class FlinkCluster:
    """A running cluster for a ``with`` block, or between `start` and `stop`.

    The processes are ``jobmanager``, ``taskmanager-1`` and so on, ``job-server`` and ``worker-pool``. The Python
    workers inherit this process's environment variables, so that a `Secret.from_env` finds its own there, and its
    working directory, from which they import a pipeline's modules.

    Args:
        directory: for its configuration, logs and process ids; by default a folder in the user's cache.
        task_managers: how many, of one slot each.
        checkpoints: folder for checkpoints and savepoints; by default one within `directory`, which `stop` removes.
        settings: more of Flink's configuration, or in place of what stands here.
        high_availability: whether a JobManager that ended and was restarted (`restart`) takes up its jobs, from their
            last checkpoints. Takes one process more, ``zookeeper``. Without it the jobs of a JobManager end with it.
        timeout: seconds to wait for the processes.

    Attributes:
        rest: ``host:port`` of the JobManager: its REST API and its pages. Empty when there is no cluster.
        pool: ``host:port`` of the worker pool.
        job_server: ``host:port`` of Beam's job server.
        processes: name -> process id.

    Raises:
        ParameterError: bad arguments.
        InputError: Java, Flink or the job server is not there, another Beam is installed than they are for, or a folder
            cannot be written; from `start`.
        LdpError: the directory has a running cluster already, or a process did not come up; from `start`.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        task_managers: int = 2,
        checkpoints: str | os.PathLike[str] | None = None,
        settings: Mapping[str, str] | None = None,
        high_availability: bool = False,
        timeout: float = 180.0,
    ) -> None:
        if task_managers < 1:
            raise ParameterError(f"task_managers must be at least 1, got {task_managers!r}")
        if timeout <= 0:
            raise ParameterError(f"timeout must be above 0 seconds, got {timeout!r}")
        self.directory = Path(directory or cache_directory() / "cluster").absolute()
        self.task_managers = task_managers
        self.checkpoints = Path(checkpoints or self.directory / "checkpoints").absolute()
        self.settings = dict(settings or {})
        self.high_availability = high_availability
        self.timeout = timeout
        self._load()

    def __enter__(self) -> FlinkCluster:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _load(self) -> None:
        state: dict[str, Any] = {}
        with suppress(FileNotFoundError, NotADirectoryError):  # `start` says so
            try:
                state = json.loads((self.directory / _STATE).read_text())
            except ValueError:
                file = self.directory / _STATE
                raise InputError(
                    f"{file} is damaged; end the processes whose logs are beside it, and remove it"
                ) from None
        self.rest: str = state.get("rest", "")
        self.pool: str = state.get("pool", "")
        self.job_server: str = state.get("job_server", "")
        self.processes: dict[str, int] = state.get("processes", {})
        self._commands: dict[str, list[str]] = state.get("commands", {})
        self._token: str = state.get("token", "")

    def _save(self) -> None:
        state = {
            "rest": self.rest,
            "pool": self.pool,
            "job_server": self.job_server,
            "processes": self.processes,
            "commands": self._commands,
            "token": self._token,
        }
        (self.directory / _STATE).write_text(json.dumps(state, indent=2))

    def start(self) -> None:
        """Start the processes and wait until all TaskManagers have registered."""
        if any(self.running().values()):
            raise LdpError(f"a cluster runs already in {self.directory}; `down` stops it")
        check_pairing()
        java = program("java", WHAT)
        jars, jar = flink_jars(), job_server_jar()
        for attempts_left in reversed(range(_ATTEMPTS)):
            self._configure(java, jars, jar)
            try:
                for name in self._commands:
                    self._spawn(name)
                self._wait(self._ready, f"{self.task_managers} TaskManagers")
            except _PortTakenError:
                self.stop()
                if not attempts_left:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def _configure(self, java: str, jars: Path, job_server: Path) -> None:
        conf = self.directory / "conf"
        for folder in (conf, self.directory / "tmp", self.checkpoints):
            _writable(folder)
        for old in self.directory.glob("*.log"):
            old.unlink()
        rest, rpc, zookeeper, pool, jobs, artifacts, expansion = free_ports(7)
        self._token = uuid.uuid4().hex
        values = {
            "host": HOST,
            "rest": rest,
            "rpc": rpc,
            "zookeeper": zookeeper,
            "slots": self.task_managers,
            "folder": self.directory,
            "checkpoints": self.checkpoints.as_uri(),
            "token": self._token,
        }
        text = (_CONFIG + (_HIGH_AVAILABILITY if self.high_availability else "")).format(**values)
        ours = dict(line.split(": ", 1) for line in text.splitlines())
        if has_class(job_server, SMALL_MANIFEST):
            ours["state.backend.rocksdb.options-factory"] = SMALL_MANIFEST
        ours |= self.settings
        (conf / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in ours.items()))
        (conf / "zoo.cfg").write_text(_ZOOKEEPER_CONFIG.format(**values))
        (conf / "log4j2.properties").write_text(_LOGGING)
        self.rest = f"{HOST}:{rest}"
        self.pool = f"{HOST}:{pool}"
        self.job_server = f"{HOST}:{jobs}"
        self.processes = {}
        mine = f"-Dldp.cluster={self._token}"
        logging = f"-Dlog4j.configurationFile={(conf / 'log4j2.properties').as_uri()}"
        classpath = os.pathsep.join([str(jars / "*"), str(job_server)])
        jvm = [java, mine, logging, *_JAVA_OPTIONS, "-cp", classpath]
        place = ["--configDir", str(conf)]
        self._commands = {}
        if self.high_availability:
            no_pages = "-Dzookeeper.admin.enableServer=false"
            self._commands["zookeeper"] = [*jvm, "-Xmx64m", no_pages, _ZOOKEEPER]
            self._commands["zookeeper"] += ["--zkConfigFile", str(conf / "zoo.cfg"), "--peerId", "1"]
        self._commands["jobmanager"] = [*jvm, "-Xmx512m", _JOB_MANAGER, *place]
        for number in range(1, self.task_managers + 1):
            name = f"taskmanager-{number}"
            myself = ["-D", f"taskmanager.resource-id={name}"]
            self._commands[name] = [*jvm, *_TASK_MANAGER_MEMORY, _TASK_MANAGER, *place, *myself]
        self._commands["job-server"] = [
            *[java, mine, *_JAVA_OPTIONS, "-Xmx512m", _HAS_JAR, "-jar", str(job_server)],
            *[f"--flink-master=http://{self.rest}", f"--flink-conf-dir={conf}", f"--job-host={HOST}"],
            *[f"--job-port={jobs}", f"--artifact-port={artifacts}", f"--expansion-port={expansion}"],
            f"--artifacts-dir={self.directory / 'tmp' / 'artifacts'}",
        ]
        self._commands["worker-pool"] = [
            *[sys.executable, "-m", "tests.bed.flink", "worker-pool", "--port", str(pool)],
            *["--logs", str(self.directory), "--cluster", self._token],
        ]

    def _spawn(self, name: str) -> None:
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                self._commands[name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([_SOURCE, *sys.path])},
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

    def workers(self) -> dict[str, int]:
        """The Python workers that run: name, which is that of their log, -> process id."""
        ids = {log.stem: int(log.stem.partition("-")[2]) for log in self.directory.glob("worker-[0-9]*.log")}
        return {name: pid for name, pid in ids.items() if _is_ours(pid, self._token)}

    def kill(self, name: str) -> None:
        """End one process, or one of `workers`, at once (SIGKILL), as a fault would."""
        pid = (self.processes | self.workers()).get(name)
        if pid is None or not _is_ours(pid, self._token):
            raise ParameterError(f"{name!r} does not run; these do: {[*self._alive(), *self.workers()]}")
        os.kill(pid, signal.SIGKILL)
        while _is_ours(pid, self._token):
            time.sleep(0.01)

    def restart(self, name: str) -> None:
        """Start a process again that has ended; it has the same ports, and goes on in the same log."""
        if name not in self.processes or name in self._alive():
            ended = [name for name, alive in self.running().items() if not alive]
            raise ParameterError(f"{name!r} is not a process that has ended; these are: {ended}")
        self._spawn(name)

    def _alive(self) -> list[str]:
        return [name for name, alive in self.running().items() if alive]

    def get(self, path: str, method: str = "GET") -> dict[str, Any]:
        """What Flink's REST API answers, for example at ``/overview``, ``/jobs/overview``, ``/jobs/ID/checkpoints``."""
        connection = http.client.HTTPConnection(self.rest or HOST, timeout=10.0)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            status, text = response.status, response.read()
            answer: dict[str, Any] = json.loads(text or "{}")
        except (OSError, http.client.HTTPException, ValueError):
            raise LdpError(f"no Flink answers at {self.rest or 'any address'}; `status` says what runs") from None
        finally:
            connection.close()
        if status >= http.HTTPStatus.BAD_REQUEST:
            said = str(answer.get("errors", [""])[0]).splitlines()[:1]
            raise LdpError(f"Flink answers {status} to {method} {path}: {''.join(said)}")
        return answer

    def pipeline_flags(
        self,
        environment: Literal["EXTERNAL", "LOOPBACK"] = "EXTERNAL",
        *,
        streaming: bool = False,
        checkpoint_every: float = 10.0,
        parallelism: int | None = None,
    ) -> list[str]:
        """Beam's options for a pipeline that runs here."""
        slots = sum(name.startswith("taskmanager") for name in self.processes)
        flags = [
            "--runner=FlinkRunner",
            f"--job_endpoint={self.job_server}",
            f"--parallelism={parallelism or slots}",
            f"--environment_type={environment}",
            "--experiments=disable_logging_submission_environment",  # Beam would send what `pip freeze` prints
        ]
        if environment == "EXTERNAL":
            flags.append(f"--environment_config={self.pool}")
        if streaming:
            # without the last one a source's watermark stands still after some checkpoint, and no window comes out
            flags += [
                "--streaming",
                f"--checkpointing_interval={round(checkpoint_every * 1000)}",
                "--finish_bundle_before_checkpointing",
                "--max_bundle_time_mills=500",
                "--enable_stable_input_drain",  # or a stream that ends waits for a checkpoint that does not come
            ]
        else:  # one worker for all stages. (In a stream a killed one would be asked again and again, until it expires.)
            flags.append("--environment_cache_millis=60000")
        return flags

    def _ready(self) -> bool:
        with suppress(LdpError):
            overview = self.get("/overview")  # a TaskManager's slots are there a moment after itself
            all_here = overview["taskmanagers"] == overview["slots-total"] == self.task_managers
            return all_here and listens(self.pool) and listens(self.job_server)
        return False

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self.timeout
        while not ready():
            dead = [name for name, alive in self.running().items() if not alive]
            if dead:
                self._say_why(dead[0])
            if time.monotonic() > deadline:
                raise LdpError(f"no {what} within {self.timeout:g} s; the logs are in {self.directory}")
            time.sleep(0.2)

    def _say_why(self, name: str) -> NoReturn:
        said = self.log(name).read_text(errors="replace")
        if re.search("Address already in use|BindException|Failed to bind|any port in port range", said):
            taken = "since another program has taken its port in the meantime: start again"
            raise _PortTakenError(f"{name} ended, {taken}; its log is {self.log(name)}")
        raise LdpError(f"{name} ended; its log is {self.log(name)}")

    def stop(self) -> None:
        """Stop all processes and wait until they have gone; a cluster that is not there is no error."""
        for sign, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            for pid in [*(self.processes[name] for name in self._alive()), *self.workers().values()]:
                with suppress(ProcessLookupError):
                    (os.killpg if pid in self.processes.values() else os.kill)(pid, sign)
            deadline = time.monotonic() + patience
            while (self._alive() or self.workers()) and time.monotonic() < deadline:
                time.sleep(0.05)
        (self.directory / _STATE).unlink(missing_ok=True)
        for folder in ("tmp", "checkpoints", "high-availability"):  # records that Flink spilled or kept may be in there
            shutil.rmtree(self.directory / folder, ignore_errors=True)
        self._load()


def _writable(folder: Path) -> None:
    """Make a folder in which this user can make files."""
    probe = folder / f".{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}; name another folder") from None


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nothing listens on."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


def listens(address: str) -> bool:
    """Whether something takes connections at ``host:port``."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
        return True
    return False


def _is_ours(pid: int, token: str) -> bool:
    """Whether the process runs and is the one we started: process ids are used again."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # where it is our child, let it go
    if Path("/proc/self").exists():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if f"\nTgid:\t{pid}\n" not in Path(f"/proc/{pid}/status").read_text():
                return False  # a thread of a TaskManager, which has the number of an old worker
        except OSError:
            return False
    else:
        listing = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        command = subprocess.run(listing, capture_output=True, check=False).stdout
    return bool(token) and token.encode() in command
