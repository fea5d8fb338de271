"""Elements fixed before anything is done with them that cannot be taken back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows, IntervalWindow, Sessions
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

from ldp_beam._compat import StableInputParDo, knows_stable_input
from ldp_beam.elements.records import InWindows
from ldp_core import ParameterError


class ReplaySafe(beam.PTransform[Any, Any]):
    """``beam.Reshuffle``, in the global window: what a repeated bundle sends again is the same.

    In windows of their own, elements that come late would be lost: the Reshuffle of Beam 2.77 has no allowed
    lateness, and BundleBasedDirectRunner drops them. Timestamps stay. Sessions, which may have grown, travel along.

    On Flink a Reshuffle alone fixes nothing: after a failure all since the last checkpoint is done again. There a step
    follows that requires stable input, see `StableInputParDo`.
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
        windowing, held = pcoll.windowing, pcoll
        in_sessions = self._keep_windows and isinstance(windowing.windowfn, Sessions)
        if self._keep_windows and isinstance(windowing.windowfn, GlobalWindows):
            return self._fixed(pcoll | "Reshuffle" >> beam.Reshuffle())
        if in_sessions:
            kind: Any = beam.typehints.Tuple[pcoll.element_type, int, int]
            held = pcoll | "With sessions" >> beam.Map(_with_session).with_output_types(kind)
        out = self._fixed(held | "Global" >> everywhere | "Reshuffle" >> beam.Reshuffle())
        if not self._keep_windows:
            return out
        if in_sessions:
            own: Any = InWindows(_InSession(), windowing)  # type: ignore[no-untyped-call]
            return out | "Own windows" >> own.with_output_types(pcoll.element_type)
        asked: Any = SimpleNamespace(timestamp=Timestamp(0), window=None)  # without an element
        try:
            windowing.windowfn.assign(asked)
        except Exception as error:
            if getattr(error, "obj", None) is asked:
                by = f"the input is in windows by the element ({type(windowing.windowfn).__name__}), which reports lack"
                raise ParameterError(f"{by}: take windows by time, or stabilize=False before an aggregation") from None
        return out | "Own windows" >> beam.WindowInto(windowing, allowed_lateness=windowing.allowed_lateness)

    def _fixed(self, pcoll: PCollection[Any]) -> PCollection[Any]:
        if self._repeatable or not knows_stable_input(pcoll):
            return pcoll
        fixed: PCollection[Any] = pcoll | "Checkpointed" >> StableInputParDo(_Same())  # type: ignore[no-untyped-call]
        fixed.element_type = pcoll.element_type
        return fixed


def _with_session(element: Any, session: Any = beam.DoFn.WindowParam) -> tuple[Any, int, int]:
    return element, session.start.micros, session.end.micros


class _InSession(beam.DoFn):
    @override
    def process(self, element: tuple[Any, int, int], timestamp: Any = beam.DoFn.TimestampParam) -> Any:
        value, start, end = element
        yield WindowedValue(value, timestamp, (IntervalWindow(Timestamp(micros=start), Timestamp(micros=end)),))


class _Same(beam.DoFn):
    @override
    def process(self, element: Any) -> Any:
        yield element
