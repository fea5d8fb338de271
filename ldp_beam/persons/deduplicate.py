"""One of each record, from sources that deliver at least once."""

from __future__ import annotations

from typing import Unpack

from ldp_beam.elements.windows import Window
from ldp_beam.persons.limits import LimitOptions, LimitTransform

DUPLICATE = "duplicate"


class Deduplicate(LimitTransform):
    """The first record of each id and event-time window; a record that is delivered again is dropped.

    A source that delivers a record twice has it perturbed twice, and both reports spend epsilon. Place this before
    `BoundContributions` and `Perturb`.

    Args:
        id: the column of the record's id, which all deliveries of a record share: integers, text or binary.
        within: as ``window`` of `BoundContributions`: a duplicate is recognised if it is in the same window,
            and always is where the time is a column of the record, which is delivered with it.
        event_time: column of the records' times. None: the elements' timestamps; a duplicate with another
            timestamp may then fall into the next window and pass.
        drop_id, shards, key, allowed_lateness: see `BoundContributions`. A duplicate that comes later than that
            after its window's end is dropped by the runner as late.

    Metrics, errors and dead letters: as `BoundContributions`; counter ``duplicates_dropped``, reason ``"duplicate"``.

    Raises:
        ParameterError: bad arguments.

    >>> import apache_beam as beam
    >>> events = [{"id": "x1", "os": "ios", "time": 5}] * 3
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     once = p | beam.Create(events) | Deduplicate("id", within="1h", event_time="time")
    ...     _ = once | beam.Map(print)
    {'os': 'ios', 'time': 5}
    """

    def __init__(
        self,
        id: str,  # noqa: A002 (as in Perturb)
        *,
        within: Window,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__(
            id,
            records=1,
            reason=DUPLICATE,
            counter="duplicates_dropped",
            window=within,
            **options,
        )
