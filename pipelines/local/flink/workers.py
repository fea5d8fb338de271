"""The pool that starts Python workers for Beam's EXTERNAL environment, and what one of them runs.

Beam has such a pool too. This one listens on the loopback address alone; it gives each worker a log file, and the
pipeline's options, as Beam's containers do; and it can be shared by several TaskManagers, which all number their
workers from "1-1": Beam's takes the request of one to stop "1-1" for the other's too.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

HOST = "127.0.0.1"
_PROVISION = "LDP_FLINK_PROVISION"


class _Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    def __init__(self, logs: Path, cluster: str) -> None:
        self._logs = logs
        self._cluster = cluster
        self._numbers = itertools.count(1)

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802
        env = os.environ | {
            "WORKER_ID": request.worker_id,
            "CONTROL_API_SERVICE_DESCRIPTOR": str(request.control_endpoint),
            "LOGGING_API_SERVICE_DESCRIPTOR": str(request.logging_endpoint),
            _PROVISION: request.provision_endpoint.url,
        }
        command = [sys.executable, "-m", "pipelines.local.flink.workers", self._cluster]
        started = self._logs / f"worker-starting-{next(self._numbers)}.log"
        try:
            with started.open("wb") as log:
                worker = subprocess.Popen(  # noqa: S603
                    command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            started.rename(self._logs / f"worker-{worker.pid}.log")
        except OSError as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=f"cannot start a worker: {error.strerror}")
        threading.Thread(target=worker.wait, daemon=True).start()  # so that the system forgets it when it ends
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802
        return beam_fn_api_pb2.StopWorkerResponse()  # a worker ends when the TaskManager closes its channel


def serve(port: int, logs: Path, cluster: str) -> None:
    """Serve until the process ends."""
    server = grpc.server(shared_unbounded_instance(), options=[("grpc.so_reuseport", 0)])
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(_Pool(logs, cluster), server)
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    server.wait_for_termination()


def work() -> None:
    """Run one worker, as the environment variables say."""
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc  # noqa: PLC0415
    from apache_beam.runners.worker import sdk_worker_main  # noqa: PLC0415
    from apache_beam.runners.worker.worker_id_interceptor import WorkerIdInterceptor  # noqa: PLC0415
    from google.protobuf import json_format  # type: ignore[import-untyped] # noqa: PLC0415

    with grpc.insecure_channel(os.environ[_PROVISION]) as plain:
        channel = grpc.intercept_channel(plain, WorkerIdInterceptor(os.environ["WORKER_ID"]))
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        info = stub.GetProvisionInfo(beam_provision_api_pb2.GetProvisionInfoRequest(), timeout=60).info
    os.environ["PIPELINE_OPTIONS"] = json_format.MessageToJson(info.pipeline_options)
    os.environ["RUNNER_CAPABILITIES"] = " ".join(info.runner_capabilities)
    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    work()
