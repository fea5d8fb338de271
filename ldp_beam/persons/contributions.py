"""A budget per person and window: at most k records of each pass."""

from __future__ import annotations

from fractions import Fraction
from typing import Unpack

from ldp_beam.elements.windows import Window
from ldp_beam.persons.ledger import exact_epsilon
from ldp_beam.persons.limits import LimitOptions, LimitTransform
from ldp_core import PrivacyPlan

OVER_LIMIT = "over the limit"


class BoundContributions(LimitTransform):
    """At most ``per_window`` records of each person and event-time window, the first to arrive; others are dropped.

    Placed before `Perturb` or `PrivateHistogram` it makes a promise per person out of theirs per record: with
    reports of epsilon e each, a person's values of one window are protected with ``per_window * e``. See
    ``docs/budget.md`` for what is promised and what is not.

    Elements may be ``pyarrow.RecordBatch`` or ``pyarrow.Table`` (record batches come out, the fast way: a batch
    is split by ``shards`` and windows, so it comes out in pieces), dictionaries, ``beam.Row``, NamedTuples or
    dataclasses (without their id, they come out as ``beam.Row``). Timestamps and windows stay as they are.

    Args:
        id: the column that says whose record it is: integers, text or binary, stable, one of each person.
        per_window: at least 1.
        window: fixed windows by length, in seconds or like ``"1d"``; or a Beam ``FixedWindows`` or
            ``GlobalWindows`` (for ever). None: the windows that the elements are in.
        event_time: column of the records' times, as in `Histogram`. None: the elements' timestamps.
        drop_id: whether the id goes no further; default True. Keep it for keyed noise or a further limit.
        shards: number of pieces that the persons of a window are spread over, and so of workers that can share them;
            default 16.
        key: a `Secret`, or a function that gets it on the worker, to hash ids with. The state holds hashes only;
            without a key, whoever reads it can find out whether an id that they guess is in it.
        allowed_lateness: seconds or text, as in `Histogram`: how long a window's counts are kept after its end. Later
            records are dropped by the runner, silently: they can never pass uncounted.

    Metrics: counter ``contributions_dropped``, and ``records_read`` and ``batch_rows``. With `with_exception_handling`
    also dead letters, of which ``DeadLetter(id, "over the limit", count)`` are the dropped.

    Do not change ``shards``, ``window`` or ``key`` when a pipeline goes on from saved state: it would not recognise
    whom it has counted.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `InputError` (null ids, no event
    time), `DtypeError`, `PlanError` (no such column). They never tell an id.

    Raises:
        ParameterError: bad arguments; or the input is in sliding or, without ``window``, in session windows.

    >>> import apache_beam as beam
    >>> events = [{"user": user, "os": "ios", "time": 60.0 * i} for i, user in enumerate("aabaa")]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     bounded = p | beam.Create(events) | BoundContributions("user", 2, window="1h", event_time="time")
    ...     _ = bounded | beam.combiners.ToList() | beam.Map(lambda records: print(sorted(r["time"] for r in records)))
    [0.0, 60.0, 120.0]
    """

    def __init__(
        self,
        id: str,  # noqa: A002 (as in Perturb)
        per_window: int,
        *,
        window: Window = None,
        **options: Unpack[LimitOptions],
    ) -> None:
        super().__init__(
            id,
            records=per_window,
            reason=OVER_LIMIT,
            counter="contributions_dropped",
            window=window,
            **options,
        )

    def epsilon(self, plan: PrivacyPlan | float | Fraction) -> Fraction:
        """What a person's records of one window spend at most, exactly, if each is perturbed with ``plan``.

        >>> from ldp_core import RandomizedResponse
        >>> plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=0.5)})
        >>> BoundContributions("user", 3, window="1d").epsilon(plan)
        Fraction(3, 2)
        """
        return self._limit.records * exact_epsilon(plan)
