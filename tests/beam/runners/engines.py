"""The engines that streams run on: this process, Prism, and a Flink cluster."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from ..helpers import Collector
from ..streams import LOCAL, stream
from .stream_cases import Case


def find_prism() -> str | None:
    """The path of the binary, if there is one."""
    given = os.environ.get("LDP_PRISM")
    if given:
        return given
    go = shutil.which("go")
    if go is not None:
        folder = subprocess.run([go, "env", "GOPATH"], capture_output=True, text=True, check=False).stdout.strip()
        if folder and (Path(folder) / "bin" / "prism").is_file():
            return str(Path(folder) / "bin" / "prism")
    return shutil.which("prism")


PRISM_BINARY = find_prism()
PRISM = {"runner": "PrismRunner", "flags": (f"--prism_location={PRISM_BINARY}", "--environment_type=LOOPBACK")}
NO_PRISM = "there is no prism binary: set LDP_PRISM, or go install it"

FLINK_STREAM = [
    "--max_bundle_size=1",  # or a watermark that comes within a bundle waits for its end, and nothing is late
    "--number_of_execution_retries=0",  # a test that fails does so at once
    "--shutdown_sources_after_idle_ms=100",  # or with checkpoints Flink keeps a finished Impulse, and the job, for ever
]


class Engine:
    """Runs cases, many in one pipeline, and keeps what came out.

    Args:
        runner, flags: of the pipeline.
        at_once: how many cases one pipeline may have, of any streams; 0: those of one stream.
        patience: seconds that a pipeline may take. After one that took longer no other starts.
    """

    def __init__(self, runner: str | None, flags: Iterable[str], at_once: int, patience: float | None = None) -> None:
        self._runner, self._flags, self._at_once, self._patience = runner, list(flags), at_once, patience
        self._found: dict[str, Any] = {}
        self.late: Counter[str] = Counter()  # what a counter says, by the runner's name of the step
        self._stuck = ""

    def outputs(self, case: Case, cases: Sequence[Case]) -> Any:
        """What came of one of these cases: a list for each output."""
        if case.id not in self._found:
            if self._at_once:
                first = cases.index(case) // self._at_once * self._at_once
                self._run(cases[first : first + self._at_once])
            else:
                self._run([other for other in cases if other.stream == case.stream])
        return self._found[case.id]

    def _run(self, cases: Sequence[Case]) -> None:
        if self._stuck:
            raise RuntimeError(self._stuck)
        p = beam.Pipeline(self._runner, options=PipelineOptions(self._flags))
        streams: dict[str, Any] = {}
        collectors: dict[str, list[Collector]] = {}
        for case in cases:
            if case.stream not in streams:
                streams[case.stream] = p | f"Stream{len(streams)}" >> stream(case.steps, case.form)
            outputs = streams[case.stream] | case.id >> case.transform
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            collectors[case.id] = [Collector() for _ in outputs]
            for i, (pcoll, collector) in enumerate(zip(outputs, collectors[case.id], strict=True)):
                _ = pcoll | f"{case.id}: collect {i}" >> collector
        result = p.run()
        if self._patience is None:
            result.wait_until_finish()
        elif result.wait_until_finish(round(self._patience * 1000)) != PipelineState.DONE:
            self._stuck = f"the pipeline from {cases[0].id} to {cases[-1].id} did not end in {self._patience:g} s"
            result.cancel()
            raise RuntimeError(self._stuck)
        for one in result.metrics().query(MetricsFilter().with_name("late"))["counters"]:
            self.late[one.key.step] += one.committed or 0
        self._found |= {name: [collector.elements for collector in made] for name, made in collectors.items()}


def _local(request: Any) -> Engine:
    return Engine(LOCAL["runner"], LOCAL["flags"], 0)


def _prism(request: Any) -> Engine:
    return Engine(PRISM["runner"], PRISM["flags"], 0)


def _flink(request: Any) -> Engine:
    # one slot: between two, an element may come before a watermark that was sent before it
    # no checkpoint while a test runs: what comes before and after it would be a matter of chance
    flags = request.getfixturevalue("flink_cluster").pipeline_flags(
        "LOOPBACK", streaming=True, checkpoint_every=3600.0, parallelism=1
    )
    # a job takes seconds to start, and one with all cases more memory than this cluster has
    return Engine(None, [*flags, *FLINK_STREAM], 15, patience=180.0)


ENGINES: dict[str, Callable[[Any], Engine]] = {"local": _local, "prism": _prism, "flink": _flink}
