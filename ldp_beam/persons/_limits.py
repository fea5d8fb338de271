"""At most so many records per person and window: the machinery under budgets, ledgers and deduplication.

    records -> pieces, each of one shard of the ids and one window   (`SplitByPerson`, vectorized)
            -> Beam's windows: state is per (shard, window)          (`beam.WindowInto`, or `PutInWindow`)
            -> the first so many of each person                      (`AdmitFirst`, stateful)
            -> the windows and timestamps they came with

Whose record it is counts, and nothing else of the record but its time; so what is dropped does not depend on the
values. State is never cleared by a timer here (local runners fire those early, and a person whose count was
cleared could pass again): the runner drops it with its window, and from then on drops the window's late records too,
which are counted as what it was not given (`with_dropped`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypedDict

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders.typecoders import registry
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import FixedWindows, GlobalWindows, WindowFn
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from typing_extensions import override

from ldp_beam._compat import drops_late_state, forgets_at_the_end
from ldp_beam.elements.batches import (
    AnyBatch,
    Batch,
    Record,
    RowBatch,
    find_time_faults,
    joined,
    times_of,
    windows_of,
)
from ldp_beam.elements.coders import RecordBatchCoder
from ldp_beam.elements.faults import Faults
from ldp_beam.elements.ids import IdHash, KeyLike
from ldp_beam.elements.records import NAMESPACE, FlushedAtOnce, InWindows, RecordsDoFn, RecordsTransform, letters
from ldp_beam.elements.rows import fields_of
from ldp_beam.graph.late import with_dropped
from ldp_beam.graph.upstream import LetsThrough, refuse_missing, refuse_overlapping
from ldp_beam.persons._seen import Seen, SeenAt
from ldp_beam.time.times import EventTime, OddTimes, TimeUnit
from ldp_beam.time.windows import WindowLike, group, slots, window_fn
from ldp_core import ParameterError, Secret
from ldp_core.engine import I64, U64, check_integer, refuse_reports, seconds, warn_user

SHARDS = 16
_TAKEN = "what the limit took"  # tag of an output
_MOST_SHARDS = 1 << 16
_JOINED = 1 << 20  # rows that wait for the end of a bundle, at most
_TINY = 1 << 16  # below it numpy sorts by radix


@dataclass(frozen=True)
class Limit:
    """Configuration: how many records of whom pass, the reason of the others' dead letters, and their counter.

    Attributes:
        windows: None for the windows that the elements are in.
        rolling: microseconds: the limit is for any stretch of this length, in global windows. None: it is not.
    """

    hashing: IdHash
    records: int
    reason: str
    counter: str
    windows: WindowFn | None
    event_time: EventTime
    lateness: float
    drop_id: bool
    shards: int
    rolling: int | None = None

    def __post_init__(self) -> None:
        check_integer("per_window", self.records, 1)
        check_integer("shards", self.shards, 1, _MOST_SHARDS)
        if self.windows is not None and not isinstance(self.windows, (FixedWindows, GlobalWindows)):
            raise ParameterError(
                f"window must be fixed or global windows, or a length, got {type(self.windows).__name__}: "
                "in overlapping or merging windows a record would count several times"
            )
        if self.windows is None and (self.event_time.column is not None or self.lateness):
            raise ParameterError("event_time and allowed_lateness need a window")
        column = self.event_time.column
        if not isinstance(column, (str, type(None))) or column == self.hashing.column:
            raise ParameterError("event_time must be the name of another column than the id, or None")


class Piece:
    """The records of one shard and window in a batch, and the hash of each one's id."""

    __slots__ = ("hashes", "part")

    def __init__(self, hashes: U64, part: AnyBatch) -> None:
        self.hashes = hashes
        self.part = part

    @property
    def n(self) -> int:
        return len(self.hashes)


class PieceCoder(beam.coders.Coder):
    """Hashes as bytes, batches as `RecordBatchCoder` has them, single records as Beam's fallback has them."""

    def __init__(self) -> None:
        self._any = beam.coders.FastPrimitivesCoder()
        self._batch = RecordBatchCoder()

    @override
    def encode(self, value: Piece) -> bytes:
        part = value.part
        own, windows = part.own_windows()
        records = self._batch.encode(part.table) if isinstance(part, Batch) else [r.element for r in part.records]
        stamps = part.stamps()[:1] if isinstance(part, Batch) else part.stamps()
        return bytes(
            self._any.encode((value.hashes.tobytes(), stamps.tobytes(), own[: len(stamps)].tobytes(), windows, records))
        )

    @override
    def decode(self, encoded: bytes) -> Piece:
        hashes, stamps, own, windows, records = self._any.decode(encoded)
        times = [Timestamp(micros=micros) for micros in np.frombuffer(stamps, np.int64).tolist()]
        part: AnyBatch
        if isinstance(records, bytes):
            part = Batch(self._batch.decode(records), times[0], windows[0])
        else:
            places = np.frombuffer(own, np.int64).tolist()
            part = RowBatch([Record(r, t, windows[i]) for r, t, i in zip(records, times, places, strict=True)])
        return Piece(np.frombuffer(hashes, np.uint64), part)

    @override
    def to_type_hint(self) -> type:
        return Piece


registry.register_coder(Piece, PieceCoder)


class SplitByPerson(RecordsDoFn):
    """Records to (shard, piece), each at the beginning of its window, or at the earliest time its records came with."""

    def __init__(
        self,
        limit: Limit,
        dead_letter_tag: str | None,
        values: Collection[str] | None = (),
        *,
        at_beginning: bool = True,
    ) -> None:
        super().__init__(dead_letter_tag)
        self._limit = limit
        self._at_beginning = at_beginning and limit.windows is not None
        self._values = values
        periods = limit.rolling is not None or isinstance(limit.windows, FixedWindows)
        own = limit.windows is None
        self._time = replace(limit.event_time, windowed=periods, own=own)  # (all without a time would share a period)
        self._odd = OddTimes(limit.event_time)

    @override
    def check_schema(self, schema: pa.Schema) -> None:
        refuse_reports(schema, schema.names if self._values is None else self._values)

    @override
    def work(self, part: AnyBatch) -> list[WindowedValue]:
        if not len(part):
            return []
        if isinstance(part, Batch):
            self.check_schema(part.schema)
        limit = self._limit
        hashes = limit.hashing.of(part)
        shards = ((hashes >> np.uint64(32)) * np.uint64(limit.shards) >> np.uint64(32)).astype(np.int64)
        places, stamps_of, window_of = self._places(part)
        groups = group(places, shards, limit.shards)
        if stamps_of is None:
            stamps = np.full(len(groups.key), np.iinfo(np.int64).max)
            np.minimum.at(stamps, groups.of_record, part.stamps())
        else:
            stamps = stamps_of(groups.slot)
        if limit.drop_id or isinstance(part, Batch):
            part = part.without(limit.hashing.column if limit.drop_id else None)
        ends = np.bincount(groups.of_record, minlength=len(groups.key)).cumsum()
        if len(ends) > 1:
            order = np.argsort(groups.of_record.astype(np.uint16 if len(ends) <= _TINY else np.int64), kind="stable")
            hashes, part = hashes[order], part.ordered(order)
        out, start = [], 0
        for end, shard, place, micros in zip(
            ends.tolist(), groups.key.tolist(), groups.slot.tolist(), stamps.tolist(), strict=True
        ):
            piece = Piece(hashes[start:end], part.slice(start, end))
            out.append(WindowedValue((shard, piece), Timestamp(micros=micros), (window_of(place),)))
            start = end
        return out

    def _places(self, part: AnyBatch) -> tuple[I64, Callable[[I64], I64] | None, Callable[[int], Any]]:
        """The window of each record as a number; from numbers to a window's beginning; and to the window, if known."""
        if self._limit.windows is None:
            own, windows = windows_of(part)
            return own, None, windows.__getitem__
        times = times_of(part, self._time)
        if self._time.windowed:
            self._odd.look(times)
        slotted = slots(self._limit.windows, times, np.zeros_like(times))
        # (the element's own window is a placeholder: the step that follows assigns windows)
        return slotted.number, slotted.timestamp if self._at_beginning else None, lambda _: part.window

    @override
    def find_faults(self, part: AnyBatch, faults: Faults) -> None:
        self._limit.hashing.find_faults(part, faults)
        find_time_faults(part, self._time, faults)


class PutInWindow(beam.DoFn):
    """A piece in the window of its records, and no later than it came.

    The local streaming runner holds the watermark at the times of pieces. At a window's beginning, which may be later
    than the time that its records go on with, they would be late behind a Reshuffle.
    """

    def __init__(self, limit: Limit) -> None:
        self._limit = limit

    @override
    def process(self, element: tuple[int, Piece], timestamp: Any = beam.DoFn.TimestampParam) -> Iterable[Any]:
        at = int(times_of(element[1].part.slice(0, 1), self._limit.event_time)[0])
        windows: Any = self._limit.windows
        [window] = windows.assign(WindowFn.AssignContext(Timestamp(micros=at)))
        return [WindowedValue(element, min(timestamp, window.max_timestamp()), (window,))]


_SEEN = beam.DoFn.StateParam(ReadModifyWriteStateSpec("seen", beam.coders.BytesCoder()))


class AdmitFirst(beam.DoFn):
    """Lets the first so many records of each person through, in order of arrival; one piece after the other."""

    def __init__(
        self, limit: Limit, dead_letter_tag: str | None, *, forgets: bool = False, tells: bool = False
    ) -> None:
        self._limit = limit
        self._horizon = limit.rolling + round(limit.lateness * 1e6) if forgets and limit.rolling else None
        self._dead_letter_tag = dead_letter_tag
        self._tells = tells  # what it takes
        self._dropped = Metrics.counter(NAMESPACE, limit.counter)
        self._dead = Metrics.counter(NAMESPACE, "dead_lettered")

    @override
    def process(
        self, element: tuple[int, Piece], state: Any = _SEEN, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterable[Any]:
        piece, limit = element[1], self._limit
        stored = state.read()
        seen: Seen | SeenAt
        after: Seen | SeenAt
        if limit.rolling is None:
            seen = Seen.nobody(limit.records) if stored is None else Seen.from_bytes(stored)
            passes, after = seen.admit(piece.hashes, limit.records)
        else:
            seen = SeenAt.nobody() if stored is None else SeenAt.from_bytes(stored)
            times = times_of(piece.part, limit.event_time)
            passes, after = seen.admit(piece.hashes, times, limit.records, limit.rolling, self._horizon)
        if after is not seen:
            state.write(after.to_bytes())
        dropped = len(passes) - int(np.count_nonzero(passes))
        part = piece.part
        kept = part.take(passes) if dropped else part
        out: list[Any] = list(kept.elements()) if len(kept) else []
        if self._tells:
            taken = WindowedValue(piece.n, timestamp, (part.own_windows()[1][0],))
            out.append(beam.pvalue.TaggedOutput(_TAKEN, taken))
        if not dropped:
            return out
        self._dropped.inc(dropped)
        if self._dead_letter_tag is not None:
            self._dead.inc(dropped)
            faults = Faults(len(passes))
            faults.add(limit.hashing.column, limit.reason, ~passes)
            over = letters(part, faults, ~passes)
            out += [beam.pvalue.TaggedOutput(self._dead_letter_tag, letter) for letter in over]
        return out


class JoinPieces(beam.DoFn):
    """The pieces of a batch that come in one bundle, as one batch again.

    A limit makes ``shards`` pieces of a batch, and without this a second limit as many of each of them.
    """

    def __init__(self) -> None:
        self._pieces: dict[Any, list[pa.RecordBatch]] = {}
        self._rows = 0

    @override
    def start_bundle(self) -> None:
        self._pieces, self._rows = {}, 0

    @override
    def process(
        self, element: Any, timestamp: Any = beam.DoFn.TimestampParam, window: Any = beam.DoFn.WindowParam
    ) -> Iterable[Any]:
        """A single record as it is; batches later, with others of the same time, window, columns and makers."""
        if not isinstance(element, pa.RecordBatch):
            return [element]
        schema = element.schema.serialize().to_pybytes()  # (equal schemas may differ in what their fields say)
        self._pieces.setdefault((timestamp, window, schema), []).append(element)
        self._rows += element.num_rows
        return self._joined() if self._rows >= _JOINED else []

    @override
    def finish_bundle(self) -> Iterable[Any]:
        return self._joined()

    def _joined(self) -> list[WindowedValue]:
        pieces, self._pieces, self._rows = self._pieces, {}, 0
        return [
            WindowedValue(batch, timestamp, (window,))
            for (timestamp, window, _), parts in pieces.items()
            for batch in joined(parts)
        ]


class LimitOptions(TypedDict, total=False):
    event_time: str | None
    time_unit: TimeUnit
    drop_id: bool
    shards: int
    key: KeyLike | None
    allowed_lateness: float | str


class LimitTransform(RecordsTransform, LetsThrough):
    """Base of the transforms that let so many records of a person through; see them for the arguments.

    Attributes:
        values: columns that must not hold reports already, as far as Arrow batches say it; None: all.
    """

    reason: ClassVar[str]
    counter: ClassVar[str]
    values: Collection[str] | None = ()

    def __init__(
        self,
        id: str,  # noqa: A002 (as in Perturb)
        *,
        records: int,
        window: WindowLike,
        event_time: str | None = None,
        time_unit: TimeUnit = "s",
        drop_id: bool = True,
        shards: int = SHARDS,
        key: KeyLike | None = None,
        allowed_lateness: float | str = 0,
        rolling: int | None = None,
    ) -> None:
        super().__init__()
        self.limited, self.dated = id, event_time
        self._limit = Limit(
            IdHash(id, key.shared() if isinstance(key, Secret) else key),
            records,
            self.reason,
            self.counter,
            window_fn(window),
            EventTime(event_time, time_unit),
            seconds(allowed_lateness, name="allowed_lateness"),
            drop_id,
            shards,
            rolling,
        )

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        refuse_overlapping(pcoll)
        limit = self._limit
        refuse_missing(pcoll, (self.limited, limit.event_time.column))
        if limit.windows is None and pcoll.windowing.windowfn.is_merging():
            raise ParameterError("the input is in merging windows, which cannot hold state: pass window=")
        drops = drops_late_state(pcoll)
        split = SplitByPerson(limit, self._dead_letter_tag, self.values, at_beginning=drops)
        pieces, unusable = self._outputs(pcoll, "SplitByPerson", split, tuple[int, Piece])
        windows, forgets = limit.windows or pcoll.windowing.windowfn, forgets_at_the_end(pcoll)
        if forgets and not isinstance(windows, GlobalWindows):
            warn_user(
                "Prism forgets a limit when its window ends, so that late records of a person pass again: take another "
                "runner, or of PrivacyLedger rolling=True"
            )
        into = None if limit.windows is None else beam.WindowInto(limit.windows, allowed_lateness=limit.lateness)
        if into is not None and drops:
            pieces |= "Window" >> into
        elif into is not None:
            place: Any = InWindows(PutInWindow(limit), into.windowing)
            pieces |= "Window" >> place.with_output_types(tuple[int, Piece])
        # A step with state shares its input with no other step: of stages that do, Beam's runner for Flink numbers the
        # ids in no fixed order, and after a restart elsewhere one may get another's state.
        given, pieces = pieces, pieces | "Own" >> beam.Map(lambda piece: piece).with_output_types(tuple[int, Piece])
        streams = not pcoll.is_bounded
        tags = [_TAKEN] if streams and drops and not forgets and isinstance(windows, FixedWindows) else []
        admit = AdmitFirst(limit, self._dead_letter_tag, forgets=streams, tells=bool(tags))
        good, over, *taken = self._outputs(pieces, "AdmitFirst", admit, Any, *tags, windowing=pcoll.windowing)
        for each in taken:
            column = limit.event_time.column or limit.hashing.column
            unusable = with_dropped(given, each, column, pcoll, unusable)
        good = good | "Join" >> beam.ParDo(JoinPieces()) | "Flushed" >> FlushedAtOnce()
        fields = fields_of(pcoll.element_type)
        good.element_type = pcoll.element_type
        if pcoll.element_type in (pa.RecordBatch, pa.Table):
            good.element_type = pa.RecordBatch
        elif fields is not None and limit.drop_id:
            fields.pop(limit.hashing.column, None)
            good.element_type = RowTypeConstraint.from_fields(list(fields.items()))
        if over is None:
            return good
        return good, (unusable, over) | "DeadLetters" >> beam.Flatten()
