"""The pool that starts Python workers for Beam's EXTERNAL environment, and what one of them runs.

Beam has such a pool too. This one listens on the loopback address alone; it gives each worker a log file, and the
pipeline's options, as Beam's containers do; it can be shared by several TaskManagers, which all number their
workers from "1-1": Beam's takes the request of one to stop "1-1" for the other's too. And a worker starts at once: it
is forked from a process that has imported Beam and this library, has compiled the most common loops, and has done
nothing else.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from ldp_core import Keystream, RandomizedResponse, UnaryEncoding
from ldp_core.compute.compiled import MANY

HOST = "127.0.0.1"
_STARTED = "started"
_PROVISION = "LDP_FLINK_PROVISION"
# of glibc. A worker has thirty threads. With arenas of their own each keeps the most that it has needed so far
_ARENAS = {"MALLOC_ARENA_MAX": "2"}


class _Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    def __init__(self, logs: Path, cluster: str) -> None:
        command = [sys.executable, "-m", "tests.bed.flink.workers", str(logs), cluster]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._forks = subprocess.Popen(command, env=_ARENAS | os.environ, **pipes)
        self._lock = threading.Lock()

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802
        env = {
            "WORKER_ID": request.worker_id,
            "CONTROL_API_SERVICE_DESCRIPTOR": str(request.control_endpoint),
            "LOGGING_API_SERVICE_DESCRIPTOR": str(request.logging_endpoint),
            _PROVISION: request.provision_endpoint.url,
        }
        ask, answer = self._forks.stdin, self._forks.stdout
        assert ask is not None and answer is not None  # noqa: PT018
        with self._lock:
            try:
                print(json.dumps(env), file=ask, flush=True)
                error = answer.readline().strip() or "the process that workers are forked from has ended"
            except OSError as failed:
                error = f"cannot start a worker: {failed.strerror}"
        return beam_fn_api_pb2.StartWorkerResponse(error="" if error == _STARTED else error)

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802
        return beam_fn_api_pb2.StopWorkerResponse()  # a worker ends when the TaskManager closes its channel


def serve(port: int, logs: Path, cluster: str) -> None:
    """Serve until the process ends."""
    server = grpc.server(shared_unbounded_instance(), options=[("grpc.so_reuseport", 0)])
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(_Pool(logs, cluster), server)
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    server.wait_for_termination()


def fork(logs: Path) -> None:
    """Start a worker for each line of standard input, a JSON object of environment variables; answer with a line.

    The answer waits until the worker has reached its TaskManager. For one that ends earlier Beam waits for ever.
    """
    from apache_beam.runners.worker import sdk_worker_main  # noqa: F401 (imported for the workers)

    from ldp_beam import Perturb  # noqa: F401 (with it come all others)

    _compile()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets a worker when it ends
    for line in sys.stdin:
        reached, reach = os.pipe()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.environ.update(json.loads(line))
            log = os.open(logs / f"worker-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(reached)
            return work(reach)
        os.close(reach)
        print(_STARTED if os.read(reached, 1) else "a worker ended before it reached its TaskManager", flush=True)
        os.close(reached)
    return None


def _compile() -> None:
    """Have numba, where it is installed, compile what randomized response, unary encoding and windows need.

    Otherwise each worker of each job does so, for two seconds.
    """
    from ldp_beam.time.windows import group, slots

    codes = np.zeros(2 * MANY, np.uint8)
    groups = np.arange(len(codes)) % 2
    group(slots(FixedWindows(1), groups, groups).number, groups, 2)
    for mechanism in (
        RandomizedResponse(range(16), epsilon=1.0),
        *(UnaryEncoding(range(d), epsilon=1.0) for d in (8, 16, 32, 64)),
    ):
        reports = mechanism.perturb_codes(codes, Keystream())
        mechanism.count_reports(reports, groups, 2)


def work(reach: int) -> None:
    """Run one worker, as the environment variables say; write to the file descriptor when the TaskManager answers."""
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc
    from apache_beam.runners.worker import sdk_worker_main
    from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor
    from google.protobuf import json_format  # type: ignore[import-untyped]

    with grpc.insecure_channel(os.environ[_PROVISION]) as plain:
        channel = grpc.intercept_channel(plain, WorkerIdInterceptor(os.environ["WORKER_ID"]))
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        info = stub.GetProvisionInfo(beam_provision_api_pb2.GetProvisionInfoRequest(), timeout=20).info
    os.environ["PIPELINE_OPTIONS"] = json_format.MessageToJson(info.pipeline_options)
    os.environ["RUNNER_CAPABILITIES"] = " ".join(info.runner_capabilities)
    os.write(reach, b"1")
    os.close(reach)
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    fork(Path(sys.argv[1]))
