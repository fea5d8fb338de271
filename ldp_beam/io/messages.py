"""Messages of a queue or a log as Arrow batches: what one message holds, and how it is read.

A message is one ``pyarrow.RecordBatch`` as an Arrow IPC stream; the schema's metadata, the privacy plan, travel
along. Or it is text, one JSON object a line, of a schema that the reader declares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from typing_extensions import override

from ldp_beam.elements.batches import joined
from ldp_beam.elements.faults import NOT_A_BATCH, NOT_A_RECORD, TOO_LARGE, Fault
from ldp_beam.elements.records import NAMESPACE, RecordsTransform
from ldp_beam.elements.rows import DeadLetter, is_estimate_row
from ldp_beam.io._positions import check_position, positions, rows_of, with_positions
from ldp_beam.io.estimates import estimate_line
from ldp_beam.io.ndjson import parse_lines
from ldp_core import DtypeError, InputError, LimitError, Limits, ParameterError
from ldp_core.engine import DEFAULT_LIMITS as DEFAULT
from ldp_core.engine import bytes_of, plan_of, read_batch, write_batch

Format: TypeAlias = Literal["arrow", "ndjson"]

_FORMATS: list[Format] = ["arrow", "ndjson"]


def encode(batch: pa.RecordBatch, *, compression: Literal["lz4", "zstd"] | None = None) -> bytes:
    """A batch as a message: an Arrow IPC stream; `decode` reads it compressed or not.

    A batch with a plan in its metadata must be the plan's reports, see `PrivacyPlan.check_reports`: raw values never
    travel under a plan. One without a plan is sent as it is.

    Raises:
        DtypeError: not a ``pyarrow.RecordBatch``.
        PlanError, MechanismMismatchError: the batch has a plan in its metadata, but holds other columns too, or columns
            that are not this plan's reports.

    >>> decode(encode(pa.record_batch({"os": ["ios"]}))).to_pylist()
    [{'os': 'ios'}]
    """
    if not isinstance(batch, pa.RecordBatch):
        raise DtypeError(
            f"a message is made from a pyarrow.RecordBatch, got {type(batch).__name__}: send all else as bytes, dead "
            "letters by beam.Map(lambda letter: json.dumps(letter._asdict()).encode())"
        )
    plan = plan_of(batch.schema)
    if plan is not None:
        plan.check_reports(batch.schema)
    return write_batch(batch, compression=compression)


def decode(message: bytes, *, limits: Limits = DEFAULT) -> pa.RecordBatch:
    """The batch of a message, checked: what it declares is within the limits, and its content is sound.

    Args:
        message: what `encode` made, or a stranger.
        limits: for its rows and bytes.

    Raises:
        LimitError: the message declares more. (Nothing has been allocated for it.)
        InputError: the message is not an Arrow IPC stream of exactly one batch. It says nothing of the content.

    >>> decode(encode(pa.record_batch({"os": ["ios"]}), compression="zstd")).num_rows
    1
    """
    return read_batch(message, limits)


def message_of(element: Any) -> bytes:
    """What a sink sends for an element: a batch as `encode` has it, a `HistogramRow` as a line of JSON, bytes as is."""
    if isinstance(element, bytes):
        return element
    if is_estimate_row(element):
        return estimate_line(element).encode()
    return encode(element)


def messages_of(element: Any, most: int) -> Iterator[bytes]:
    """`message_of`; of a batch that takes more bytes than a message may have several, of its records in order."""
    message = message_of(element)
    half = element.num_rows // 2 if isinstance(element, pa.RecordBatch) else 0
    if len(message) <= most or not half:  # (of one record too many bytes are the sink's error)
        yield message
        return
    for part in (element.slice(0, half), element.slice(half)):
        yield from messages_of(part, most)


class Decoded(NamedTuple):
    """What several messages held."""

    batches: list[pa.RecordBatch]  # one for each schema among them, in the order of first appearance
    letters: list[DeadLetter]  # what could not be used: messages; in NDJSON lines
    total: int
    """Number of messages (of lines, in NDJSON)."""


@dataclass(frozen=True)
class Decoder:
    """How messages are read: the configuration of `DecodeMessages`, which says more.

    >>> decoder = Decoder("ndjson", pa.schema([("os", pa.string())]))
    >>> [(batches, letters, total)] = decoder.decode([b'{"os": "ios"}', b'{"os": 7}'])
    >>> batches[0].to_pydict(), letters, total
    ({'os': ['ios']}, [DeadLetter(column_name='os', reason='not of type string', count=1)], 2)
    """

    format: Format = "arrow"
    schema: pa.Schema | None = None
    limits: Limits = DEFAULT
    position: str | None = None

    def __post_init__(self) -> None:
        if self.format not in _FORMATS:
            raise ParameterError(f"format must be one of {_FORMATS}, got {self.format!r}")
        if self.format == "arrow" and self.schema is not None:
            raise ParameterError('an Arrow message brings its own schema: schema= is for format="ndjson"')
        if self.format == "ndjson" and not isinstance(self.schema, pa.Schema):
            raise ParameterError('format="ndjson" needs schema=, a pyarrow.Schema: types are declared, not guessed')
        if not isinstance(self.limits, Limits):
            raise ParameterError(f"limits must be Limits, got {type(self.limits).__name__}")
        check_position(self.position, self.schema)

    def decode(self, messages: Sequence[Any]) -> Iterator[Decoded]:
        """Read messages; many small ones become one batch where their schemas are equal.

        All of them together, or, where they are many and large, as many at a time as the limits allow one. With
        `position` each is a pair of a message and its name.
        """
        portion = _Portion()
        for given in messages:
            message, name = (given, b"") if self.position is None else _pair(given)
            self._add(message, name, portion)
            if portion.size > self.limits.bytes or portion.rows > self.limits.rows:
                yield portion.decoded(self.schema, self.position)
                portion = _Portion()
        if portion.total or portion.lines or not messages:
            yield portion.decoded(self.schema, self.position)

    def _add(self, message: Any, name: bytes, portion: _Portion) -> None:
        if self.format == "arrow":
            portion.total += 1
            try:
                batch = read_batch(message, self.limits)
            except LimitError:
                portion.unusable["", TOO_LARGE] += 1
            except InputError:
                portion.unusable["", NOT_A_BATCH] += 1
            else:
                portion.batches.append(batch)
                portion.named.append((name, batch.num_rows))
                portion.size += bytes_of(batch)
                portion.rows += batch.num_rows
            return
        if not isinstance(message, (bytes, bytearray, memoryview)):
            portion.total += 1
            portion.unusable["", NOT_A_RECORD] += 1
            return
        text = bytes(message)
        lines = text.count(b"\n") + (not text.endswith(b"\n"))
        if len(text) > self.limits.bytes or lines > self.limits.rows:
            portion.total += lines
            portion.unusable["", TOO_LARGE] += lines
            return
        own = text.split(b"\n")
        portion.lines += own
        portion.named.append((name, len(own)))
        portion.size += len(text)
        portion.rows += lines


class _Portion:
    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.lines: list[bytes] = []
        self.named: list[tuple[bytes, int]] = []  # of each message: its name, and how many batch rows or lines it has
        self.unusable: Counter[Fault] = Counter()
        self.total = self.size = self.rows = 0

    def decoded(self, schema: pa.Schema | None, position: str | None) -> Decoded:
        """What they held; lines are of ``schema``."""
        if not self.lines:
            return Decoded(_concatenated(self.batches, self.named, position), self._letters(), self.total)
        batches, numbers, bad = parse_lines(self.lines, schema)
        self.unusable += bad
        total = self.total + len(numbers) + bad.total()
        batches = _concatenated(batches)
        if position is not None:
            batches = with_positions(batches, position, _positions(self.named).take(pa.array(numbers)))
        return Decoded(batches, self._letters(), total)

    def _letters(self) -> list[DeadLetter]:
        return [DeadLetter(column, reason, count) for (column, reason), count in self.unusable.items()]


def _pair(given: Any) -> tuple[Any, bytes]:
    if not isinstance(given, tuple) or len(given) != 2:
        raise DtypeError(
            f"with position= a message is a pair of it and of bytes that name it, got {type(given).__name__}"
        )
    return given


def _positions(named: Sequence[tuple[bytes, int]]) -> pa.Array:
    """Of all rows of messages with these names and numbers of rows."""
    return positions([name for name, _ in named], *rows_of([size for _, size in named]))


def _concatenated(
    batches: Iterable[pa.RecordBatch], named: Sequence[tuple[bytes, int]] = (), position: str | None = None
) -> list[pa.RecordBatch]:
    """Batches of equal schemas (metadata included) as one batch each, rows in order.

    With ``position`` each batch is of a message of its own, which ``named`` names, and gets the column.
    """
    groups: dict[bytes, list[int]] = {}
    batches = list(batches)
    for number, batch in enumerate(batches):
        groups.setdefault(batch.schema.serialize().to_pybytes(), []).append(number)
    out = []
    for numbers in groups.values():
        together = joined([batches[number] for number in numbers])
        if position is not None:
            together = with_positions(together, position, _positions([named[number] for number in numbers]))
        out += together
    return out


class DecodeMessages(RecordsTransform):
    """Messages -> ``pyarrow.RecordBatch``, with the timestamp and the window of the message.

    An element is one message, as ``bytes``; or a list of messages, which become one batch where their schemas
    are equal (``beam.BatchElements`` makes such lists of many small messages). With `with_exception_handling` it gives
    ``(batches, dead_letters)``: a message that is not a batch is a `DeadLetter` with the reason `NOT_A_BATCH`, of the
    lines of NDJSON each that is no object is counted in one with `NOT_A_RECORD`, or, where it is known, one in which a
    column is of another type in one with this column and the type that was expected; a message that is over the limits
    has the reason `TOO_LARGE`.

    Args:
        format: ``"arrow"``: see `encode`; or ``"ndjson"``: one JSON object a line, one or more lines a message.
        schema: of the batches, for ``"ndjson"``.
        limits: for the rows and bytes of each message.
        position: put where each record comes from into a column of this name, for ``Perturb(..., record=)``. A message
            is then a pair ``(message, name)``, of bytes: the name is the same whenever this message is delivered, and
            that of no other one. A position is 16 bytes, a hash of that name and of the row in the message (of NDJSON
            the line, all lines counted). A column of this name that a message brings is replaced: nobody who sends
            messages may choose positions.

    Errors while the pipeline runs, unless `with_exception_handling` is used: `InputError`. Metrics: counters
    ``messages_read`` and ``dead_lettered``.

    Raises:
        ParameterError: see `Decoder`.

    >>> messages = [encode(pa.record_batch({"os": ["ios", "android"]})), b"noise"]
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     batches, dead = p | beam.Create(messages) | DecodeMessages().with_exception_handling()
    ...     _ = batches | "Batches" >> beam.Map(lambda batch: print(batch.to_pydict()))
    ...     _ = dead | "Dead" >> beam.Map(lambda letter: print(letter.reason, letter.count))
    {'os': ['ios', 'android']}
    not a batch 1
    """

    def __init__(
        self,
        format: Format = "arrow",  # noqa: A002 (what it is)
        *,
        schema: pa.Schema | None = None,
        limits: Limits = DEFAULT,
        position: str | None = None,
    ) -> None:
        super().__init__()
        self._decoder = Decoder(format, schema, limits, position)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        fn = _DecodeDoFn(self._decoder, self._dead_letter_tag)
        return self._batches(pcoll, "Decode", fn)


class _DecodeDoFn(beam.DoFn):
    """A message, or a list of messages -> batches, and dead letters if there is a tag for them."""

    def __init__(self, decoder: Decoder, dead_letter_tag: str | None) -> None:
        self._decoder = decoder
        self._dead_letter_tag = dead_letter_tag
        self._read = Metrics.counter(NAMESPACE, "messages_read")
        self._dead = Metrics.counter(NAMESPACE, "dead_lettered")

    @override
    def process(self, element: Any) -> Iterator[Any]:
        several = list if self._decoder.position is not None else (list, tuple)  # (a tuple is a message with its name)
        messages = element if isinstance(element, several) else [element]
        self._read.inc(len(messages))
        for batches, letters, total in self._decoder.decode(messages):
            if letters and self._dead_letter_tag is None:
                what = "messages are" if self._decoder.format == "arrow" else "lines are"
                column, reason, count = letters[0]
                where = f" in column {column!r}" if column else ""
                raise InputError(f"{count} of {total} {what} {reason}{where}")
            yield from batches
            for letter in letters:
                self._dead.inc(letter.count)
                yield beam.pvalue.TaggedOutput(self._dead_letter_tag, letter)
