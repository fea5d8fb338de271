"""Elements fixed before anything is done with them that cannot be taken back."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.portability import common_urns
from apache_beam.pvalue import PCollection
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows, Sessions
from typing_extensions import override


class ReplaySafe(beam.PTransform[Any, Any]):
    """``beam.Reshuffle``, in the global window: what a repeated bundle sends again is the same.

    In windows of their own, elements that come late would be lost: the Reshuffle of Beam 2.77 has no allowed
    lateness, and BundleBasedDirectRunner drops them. Timestamps stay.

    On Flink a Reshuffle alone fixes nothing: after a failure all since the last checkpoint is done again. There a step
    follows that requires stable input, see `StableInputParDo`.

    Args:
        keep_windows: put the elements into their windows again. (Not possible for sessions, which are merged already:
            these go through the Reshuffle as they are.)
        repeatable: whether a repeated bundle makes the same elements again anyway: then nothing need wait.

    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | beam.Create(["a message"]) | ReplaySafe() | beam.Map(print)
    a message
    """

    def __init__(self, *, keep_windows: bool = False, repeatable: bool = False) -> None:
        super().__init__()
        self._keep_windows = keep_windows
        self._repeatable = repeatable

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        everywhere = beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING
        )
        windowing = pcoll.windowing
        if self._keep_windows and isinstance(windowing.windowfn, (GlobalWindows, Sessions)):
            return self._fixed(pcoll | "Reshuffle" >> beam.Reshuffle())
        out = self._fixed(pcoll | "Global" >> everywhere | "Reshuffle" >> beam.Reshuffle())
        if not self._keep_windows:
            return out
        return out | "Own windows" >> beam.WindowInto(windowing, allowed_lateness=windowing.allowed_lateness)

    def _fixed(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        if self._repeatable or not knows_stable_input(pcoll):
            return pcoll
        fixed: PCollection[Any] = pcoll | "Checkpointed" >> StableInputParDo(_Same())  # type: ignore[no-untyped-call]
        fixed.element_type = pcoll.element_type
        return fixed


class StableInputParDo(beam.ParDo):
    """A ParDo that gets elements only when the runner would bring the same ones again: it *requires stable input*.

    Beam's model has this, and its Python SDK no way to say it. Flink's runner (seen in 2.70.0,
    ``ExecutableStageDoFnOperator``) then keeps what comes into the whole stage of fused steps in its state, and hands
    it on when the next checkpoint is complete: all that a step of this stage, or one after it, tells the world is made
    of checkpointed elements. So they come later by up to ``--checkpointing_interval``, and take memory as long.

    To be used where the runner knows it (`knows_stable_input`), and first in a stage: after a shuffle.
    """

    @override
    def to_runner_api_parameter(self, context: Any, **extra: Any) -> Any:  # type: ignore[override]
        urn, payload = super().to_runner_api_parameter(context, **extra)
        context.add_requirement(common_urns.requirements.REQUIRES_STABLE_INPUT.urn)
        payload.requires_stable_input = True
        return urn, payload


def knows_stable_input(pcoll: PCollection[Any]) -> bool:
    """Whether the runner is Flink's, which knows it, or streams behind a job service of which nothing else is known.

    Elsewhere it is not needed, or refused: Dataflow's Reshuffle is durable, the local runners have no checkpoints, and
    in batch nobody knows it.
    """
    runner = pcoll.pipeline.runner
    streams = not pcoll.is_bounded or pcoll.pipeline.options.view_as(StandardOptions).streaming
    return isinstance(runner, FlinkRunner) or (type(runner) is PortableRunner and bool(streams))


class _Same(beam.DoFn):
    @override
    def process(self, element: Any) -> Any:
        yield element
