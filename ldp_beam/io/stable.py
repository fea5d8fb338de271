"""What a sink sends, fixed before it is sent."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import GlobalWindows


class Stable(beam.PTransform[Any, Any]):
    """``beam.Reshuffle``, in the global window: what a repeated bundle sends again is the same.

    In windows of their own, elements that come late would be lost: the Reshuffle of Beam 2.77 has no allowed
    lateness, and BundleBasedDirectRunner drops them. Timestamps stay.

    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | beam.Create(["a message"]) | Stable() | beam.Map(print)
    a message
    """

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """See `beam.PTransform`."""
        everywhere = beam.WindowInto(
            GlobalWindows(), trigger=Repeatedly(AfterCount(1)), accumulation_mode=AccumulationMode.DISCARDING
        )
        return pcoll | "Global" >> everywhere | "Reshuffle" >> beam.Reshuffle()
