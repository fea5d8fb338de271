"""Processor time and memory of a Flink cluster's processes, as Linux tells them (``/proc``)."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ldp_core import LdpError
from tests.bed.flink import FlinkCluster

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """Of one process: seconds of the processor that it and its children that have ended took, and bytes resident."""

    cpu: float
    resident: int


def usage(pid: int) -> Usage:
    """What a process has taken so far.

    Raises:
        OSError: there is no such process.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # from the third: proc(5)
    return Usage(sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE)


def children(pid: int) -> list[int]:
    """Processes that this one has started and that run."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def ports(pid: int, *, listening: bool) -> set[int]:
    """TCP ports at which a process listens; or those at the other end of its connections."""
    mine = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            mine.add(os.readlink(link))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, here, there, state, *rest = line.split()
            if f"socket:[{rest[5]}]" in mine and state == ("0A" if listening else "01"):
                found.add(int((here if listening else there).rpartition(":")[2], 16))
    return found


class Pins(threading.Thread):
    """Holds each TaskManager and its Python workers to one core, the first to core 0, for a ``with`` block."""

    def __init__(self, cluster: FlinkCluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._over = threading.Event()
        self._done: set[int] = set()

    def _pin(self, pid: int, core: int) -> None:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                os.sched_setaffinity(int(task.name), {core})
        self._done.add(pid)

    def run(self) -> None:
        managers = [pid for name, pid in self._cluster.processes.items() if name.startswith("taskmanager")]
        for core, pid in enumerate(managers):
            self._pin(pid, core)
        while not self._over.wait(0.1):
            for worker in set(self._cluster.workers().values()) - self._done:
                with suppress(OSError):
                    theirs = ports(worker, listening=False)
                    for core, manager in enumerate(managers):
                        if theirs & ports(manager, listening=True):
                            self._pin(worker, core)

    def __enter__(self) -> Pins:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


class Watch(threading.Thread):
    """Looks at a cluster every few seconds, for a ``with`` block.

    Attributes:
        samples: a mapping each time: ``time``; for each kind of process, ``NAME cpu``, the seconds that all of the kind
            took so far, also those that have ended, and ``NAME MB``, the memory of those that run; ``heap MB``, what
            the TaskManagers' Java objects take; ``checkpoint kB``, the size of the last one, and ``checkpoint s``.
    """

    def __init__(self, cluster: FlinkCluster, every: float = 10.0, more: dict[str, int] | None = None) -> None:
        super().__init__(daemon=True)
        self._cluster, self._every, self._more = cluster, every, more or {}
        self._over = threading.Event()
        self._cpu: dict[str, dict[int, float]] = defaultdict(dict)
        self.samples: list[dict[str, float]] = []

    def processes(self) -> dict[str, list[int]]:
        """Kind -> process ids."""
        found = defaultdict(list, {name: [pid] for name, pid in self._more.items()})
        for name, pid in self._cluster.processes.items():
            found[name.partition("-")[0] if name.startswith("taskmanager") else name].append(pid)
        found["workers"] = list(self._cluster.workers().values())
        found["worker-pool"] += [pid for pid in children(found["worker-pool"][0]) if pid not in found["workers"]]
        return found

    def sample(self) -> dict[str, float]:
        """Look once."""
        found = {"time": time.time()}
        for name, pids in self.processes().items():
            resident = 0
            for pid in pids:
                with suppress(OSError):
                    self._cpu[name][pid], bytes_now = usage(pid)
                    resident += bytes_now
            found |= {f"{name} cpu": sum(self._cpu[name].values()), f"{name} MB": resident / 1e6}
        with suppress(LdpError, LookupError):  # a JobManager may be too busy to answer, or know nothing yet
            found |= self._checkpoint()
            found["heap MB"] = self._heap() / 1e6
        self.samples.append(found)
        return found

    def _checkpoint(self) -> dict[str, float]:
        for job in self._cluster.get("/jobs/overview")["jobs"]:
            last = self._cluster.get(f"/jobs/{job['jid']}/checkpoints")["latest"]["completed"]
            if job["state"] == "RUNNING" and last:
                return {"checkpoint kB": last["state_size"] / 1e3, "checkpoint s": last["end_to_end_duration"] / 1e3}
        return {}

    def _heap(self) -> float:
        managers = [one["id"] for one in self._cluster.get("/taskmanagers")["taskmanagers"]]
        answers: list[Any] = [
            self._cluster.get(f"/taskmanagers/{one}/metrics?get=Status.JVM.Memory.Heap.Used") for one in managers
        ]
        return sum(float(answer[0]["value"]) for answer in answers)

    def run(self) -> None:
        while not self._over.wait(self._every):
            self.sample()

    def __enter__(self) -> Watch:
        self.sample()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self.sample()

    def values(self, name: str, since: float = 0.0) -> npt.NDArray[np.float64]:
        """Times and values of what a sample has under this name, float64[k, 2]."""
        found = [(one["time"], one[name]) for one in self.samples if name in one and one["time"] >= since]
        return np.array(found, np.float64).reshape(-1, 2)


def slope(points: npt.NDArray[np.float64], *, least: bool = False) -> tuple[float, float]:
    """Growth a minute of a straight line through the means (or least values) of each minute, and its error.

    The error is a standard error. Minutes, since neighbouring samples are not independent.
    """
    minutes = (points[:, 0] - points[0, 0]) // 60
    chosen = [points[minutes == minute, 1] for minute in np.unique(minutes)]
    heights = np.array([part.min() if least else part.mean() for part in chosen])
    if len(heights) < 4:
        return float("nan"), float("nan")
    (rate, _), covariance = np.polyfit(np.unique(minutes), heights, 1, cov=True)
    return float(rate), float(np.sqrt(covariance[0, 0]))
