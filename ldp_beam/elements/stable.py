"""Elements fixed before anything is done with them that cannot be taken back."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows, Sessions
from typing_extensions import override


class Stable(beam.PTransform[Any, Any]):
    """``beam.Reshuffle``, in the global window: what a repeated bundle sends again is the same.

    In windows of their own, elements that come late would be lost: the Reshuffle of Beam 2.77 has no allowed
    lateness, and BundleBasedDirectRunner drops them. Timestamps stay.

    Args:
        keep_windows: put the elements into their windows again. (Not possible for sessions, which are merged already:
            these go through the Reshuffle as they are.)

    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | beam.Create(["a message"]) | Stable() | beam.Map(print)
    a message
    """

    def __init__(self, *, keep_windows: bool = False) -> None:
        super().__init__()
        self._keep_windows = keep_windows

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        everywhere = beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING
        )
        windowing = pcoll.windowing
        if self._keep_windows and isinstance(windowing.windowfn, (GlobalWindows, Sessions)):
            return pcoll | "Reshuffle" >> beam.Reshuffle()
        out = pcoll | "Global" >> everywhere | "Reshuffle" >> beam.Reshuffle()
        if not self._keep_windows:
            return out
        return out | "Own windows" >> beam.WindowInto(windowing, allowed_lateness=windowing.allowed_lateness)
