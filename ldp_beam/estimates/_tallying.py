"""What all aggregating transforms share: partial tallies in a DoFn, then Beam's windows and panes, then rows."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypedDict

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms.trigger import AccumulationMode, TriggerFn
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import PaneInfoTiming
from typing_extensions import override

from ldp_beam.elements.ids import KeyLike, noise_key
from ldp_beam.elements.records import RecordsTransform, refuse_sliding
from ldp_beam.elements.rows import DeadLetter
from ldp_beam.elements.windows import WindowLike, seconds, window_fn
from ldp_beam.estimates._empty_and_late import EmptyTallies, Fill, LateRecords, knows_late
from ldp_beam.estimates._partials import PartialTallies, PerturbAndTally, TallyReports
from ldp_beam.estimates.combine import TallyCombineFn
from ldp_core import Mechanism, ParameterError, Tally

Keyed = tuple[tuple[str, ...], Tally]
Head: TypeAlias = tuple[Any, ...]
"""The fields that every row of a pane begins with, from ``window_start`` to ``key``."""


class TallyingOptions(TypedDict, total=False):
    """Keyword arguments that all aggregating transforms take; see `Histogram`."""

    window: WindowLike
    event_time: str | None
    by: Iterable[str]
    trigger: TriggerFn | None
    accumulation_mode: Any
    allowed_lateness: float | str
    fill: Fill | None
    fill_keys: Iterable[tuple[str, ...]] | None


class Tallying(RecordsTransform):
    """Tallies of a column per window, key and pane; a subclass makes rows of them."""

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *,
        window: WindowLike = None,
        event_time: str | None = None,
        by: Iterable[str] = (),
        trigger: TriggerFn | None = None,
        accumulation_mode: Any = None,
        allowed_lateness: float | str = 0,
        fill: Fill | None = None,
        fill_keys: Iterable[tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__()
        by = (by,) if isinstance(by, str) else tuple(by)
        names = [column, *by, *([] if event_time is None else [event_time])]
        if not all(isinstance(name, str) for name in names):
            raise ParameterError("column, event_time and by must be names of columns")
        if len(set(by)) < len(by) or column in (*by, event_time):
            raise ParameterError(f"column {column!r} cannot be event time or key too, and keys must be distinct: {by}")
        self._windows = window_fn(window)
        lateness = seconds(allowed_lateness, name="allowed_lateness")
        if self._windows is None and (trigger is not None or accumulation_mode is not None or lateness):
            raise ParameterError("trigger, accumulation_mode and allowed_lateness need a window")
        if trigger is not None and not isinstance(trigger, TriggerFn):
            raise ParameterError(f"trigger must be a Beam trigger, got {type(trigger).__name__}")
        modes = (AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING)
        if accumulation_mode is None:
            accumulation_mode = AccumulationMode.ACCUMULATING
        if accumulation_mode not in modes:
            raise ParameterError("accumulation_mode must be AccumulationMode.ACCUMULATING or DISCARDING")
        self._fill = None
        if fill is not None:
            self._fill = EmptyTallies(self._windows, fill, _keys(fill_keys, by), mechanism.empty_tally())
        elif fill_keys is not None:
            raise ParameterError("fill_keys= says which keys fill= fills: pass both")
        self._column = column
        self._mechanism = mechanism
        self._event_time = event_time
        self._by = by
        self._trigger = trigger
        self._accumulation_mode = accumulation_mode
        self._lateness = lateness

    def _dofn(self, kind: type[PartialTallies], **options: Any) -> PartialTallies:
        return kind(
            self._column,
            self._mechanism,
            windows=self._windows,
            event_time=self._event_time,
            by=self._by,
            dead_letter_tag=self._dead_letter_tag,
            **options,
        )

    def _partial_tallies(self) -> PartialTallies:
        """The DoFn that makes partial tallies: of reports."""
        return self._dofn(TallyReports)

    @abstractmethod
    def _rows(self) -> beam.ParDo:
        """(key, tally) of a pane to rows."""

    def _each_pane(self, rows: Callable[[Head, Tally], Iterable[Any]], kind: type) -> beam.ParDo:
        """`_rows` by a function that makes rows, of type ``kind``, of what they begin with and a tally."""
        made: beam.ParDo = beam.ParDo(_RowsDoFn(self._column, self._by, rows)).with_output_types(kind)
        return made

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        partials, dead_letters = self._outputs(pcoll, "PartialTallies", self._partial_tallies(), Keyed)
        if self._windows is not None:
            if not pcoll.is_bounded and knows_late(self._windows):
                late = partials | "Late" >> LateRecords(self._windows, self._lateness, self._event_time or self._column)
                if dead_letters is not None:
                    late |= "As the input" >> beam.WindowInto(pcoll.windowing)
                    dead_letters = (dead_letters, late) | "Dead letters" >> beam.Flatten()
            if self._fill is not None:
                empty = pcoll.pipeline | "Empty windows" >> copy.copy(self._fill)  # (it belongs to one pipeline then)
                partials = (partials, empty) | "Filled" >> beam.Flatten()
            partials |= "Window" >> beam.WindowInto(
                self._windows,
                trigger=self._trigger,
                accumulation_mode=self._accumulation_mode,
                allowed_lateness=self._lateness,
            )
        tallies = partials | "Sum" >> beam.CombinePerKey(TallyCombineFn(self._mechanism)).with_output_types(Keyed)
        rows = tallies | "Estimate" >> self._rows()
        if dead_letters is None:
            return rows
        dead_letters.element_type = DeadLetter
        return rows, dead_letters

    @override
    def display_data(self) -> dict[str, Any]:
        """Column and mechanism, for the runner's user interface."""
        return {"column": self._column, "mechanism": self._mechanism.name, "epsilon": self._mechanism.epsilon}


class Perturbing(Tallying):
    """Mixed in before another: values come in, and are perturbed and tallied at once; reports never leave memory."""

    def __init__(
        self,
        column: str,
        mechanism: Mechanism,
        *args: Any,
        key: KeyLike | None = None,
        id: str | None = None,  # noqa: A002 (as in Polars)
        **options: Any,
    ) -> None:
        super().__init__(column, mechanism, *args, **options)
        self._key = noise_key(key, id)
        mechanism.check_noise(keyed=self._key is not None)

    @override
    def _partial_tallies(self) -> PartialTallies:
        return self._dofn(PerturbAndTally, key=self._key)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        refuse_sliding(pcoll)
        return super().expand(pcoll)


class _RowsDoFn(beam.DoFn):
    """(key, tally) of a pane to rows."""

    def __init__(self, column: str, by: tuple[str, ...], rows: Callable[[Head, Tally], Iterable[Any]]) -> None:
        self._column = column
        self._by = by
        self._rows = rows

    @override
    def process(
        self, element: Keyed, window: Any = beam.DoFn.WindowParam, pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterable[Any]:
        """The rows of one pane and key."""
        key, tally = element
        return self._rows(_head_of_row(window, pane, self._column, dict(zip(self._by, key, strict=True))), tally)


def _head_of_row(window: Any, pane: Any, column: str, key: dict[str, str]) -> Head:
    """The fields that every row of a pane begins with, from ``window_start`` to ``key``."""
    whole = isinstance(window, GlobalWindow)
    return (
        MIN_TIMESTAMP if whole else window.start,
        MAX_TIMESTAMP if whole else window.end,
        pane.index,
        PaneInfoTiming.to_string(pane.timing),
        pane.is_first,
        pane.is_last,
        column,
        key,
    )


def _keys(keys: Iterable[tuple[str, ...]] | None, by: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The keys to fill, one text for each name in ``by``."""
    if keys is None and by:
        raise ParameterError(
            f"fill= with by={by} needs fill_keys=, tuples of {len(by)} texts: they are not known before"
        )
    out = ((),) if keys is None else tuple(keys)
    if not all(isinstance(key, tuple) and len(key) == len(by) and all(isinstance(k, str) for k in key) for key in out):
        raise ParameterError(f"fill_keys= are tuples of {len(by)} texts, one for each name in by={by}")
    return out
