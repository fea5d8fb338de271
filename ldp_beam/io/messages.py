"""Messages of a queue or a log as Arrow batches: what one message holds, and how it is read.

A message is one ``pyarrow.RecordBatch`` as an Arrow IPC stream; the schema's metadata, the privacy plan, travel
along. Or it is text, one JSON object a line, of a schema that the reader declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from typing_extensions import override

from ldp_beam.elements.coders import arrow_stream
from ldp_beam.elements.faults import NOT_A_BATCH, NOT_A_RECORD
from ldp_beam.elements.records import NAMESPACE, RecordsTransform
from ldp_beam.elements.rows import DeadLetter, is_histogram_row
from ldp_beam.io.histograms import histogram_line
from ldp_beam.io.ndjson import parse_lines
from ldp_core import DtypeError, InputError, ParameterError
from ldp_core.plans.plan import plan_of

Format: TypeAlias = Literal["arrow", "ndjson"]

_REASONS: dict[Format, str] = {"arrow": NOT_A_BATCH, "ndjson": NOT_A_RECORD}


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
        raise DtypeError(f"a message is made from a pyarrow.RecordBatch, got {type(batch).__name__}")
    plan = plan_of(batch.schema)
    if plan is not None:
        plan.check_reports(batch.schema)
    return arrow_stream(batch, compression=compression)


def decode(message: bytes) -> pa.RecordBatch:
    """The batch of a message, checked: a batch from a stranger with wrong offsets would crash its reader later.

    Raises:
        InputError: the message is not an Arrow IPC stream of exactly one batch. It says nothing of the content.

    >>> decode(encode(pa.record_batch({"os": ["ios"]}), compression="zstd")).num_rows
    1
    """
    batch = _decoded(message)
    if batch is None:
        raise InputError("the message is not an Arrow IPC stream of one record batch")
    return batch


def message_of(element: Any) -> bytes:
    """What a sink sends for an element: a batch as `encode` has it, a `HistogramRow` as a line of JSON, bytes as is.

    Raises:
        DtypeError: another type.
    """
    if isinstance(element, bytes):
        return element
    if is_histogram_row(element):
        return histogram_line(element).encode()
    return encode(element)


def _decoded(message: Any) -> pa.RecordBatch | None:
    if not isinstance(message, (bytes, bytearray, memoryview)):  # Arrow would take text for the path of a file
        return None
    try:
        with pa.ipc.open_stream(message) as stream:
            batches = list(stream)
        if len(batches) != 1:
            return None
        batches[0].validate(full=True)
        _check_names(batches[0].schema)
    # whatever the bytes lead Arrow to; its messages may quote them
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError, OverflowError):
        return None
    return batches[0]


def _check_names(fields: Iterable[pa.Field]) -> None:
    """Raise `UnicodeDecodeError` if a name, nested ones included, is not text: Arrow does not look at names."""
    for field in fields:
        _ = field.name
        _check_names(field.type.field(i) for i in range(field.type.num_fields))


class Decoded(NamedTuple):
    """What several messages held."""

    batches: list[pa.RecordBatch]
    """One for each schema among them, in the order of first appearance."""
    unusable: int
    """Number of messages (of lines, in NDJSON) that could not be used."""
    total: int
    """Number of messages (of lines, in NDJSON)."""


@dataclass(frozen=True)
class Decoder:
    """How messages are read: a value, made by the reader's configuration.

    Args:
        format: ``"arrow"`` or ``"ndjson"``.
        schema: of the batches, for ``"ndjson"``; an Arrow message says its own.

    Raises:
        ParameterError: another format; a schema where there is one already, or none where it is needed.

    >>> decoder = Decoder("ndjson", pa.schema([("os", pa.string())]))
    >>> batches, unusable, total = decoder.decode([b'{"os": "ios"}', b"[]"])
    >>> batches[0].to_pydict(), unusable, total
    ({'os': ['ios']}, 1, 2)
    """

    format: Format = "arrow"
    schema: pa.Schema | None = None

    def __post_init__(self) -> None:
        if self.format not in _REASONS:
            raise ParameterError(f"format must be one of {list(_REASONS)}, got {self.format!r}")
        if self.format == "arrow" and self.schema is not None:
            raise ParameterError('an Arrow message brings its own schema: schema= is for format="ndjson"')
        if self.format == "ndjson" and not isinstance(self.schema, pa.Schema):
            raise ParameterError('format="ndjson" needs schema=, a pyarrow.Schema: types are declared, not guessed')

    @property
    def reason(self) -> str:
        """Reason of the dead letters."""
        return _REASONS[self.format]

    def decode(self, messages: Sequence[Any]) -> Decoded:
        """Read messages; many small ones become one batch where their schemas are equal."""
        texts = [message for message in messages if isinstance(message, (bytes, bytearray, memoryview))]
        strangers = len(messages) - len(texts)
        if self.format == "arrow":
            found = [batch for batch in map(_decoded, texts) if batch is not None]
            return Decoded(_concatenated(found), len(messages) - len(found), len(messages))
        lines = [line for text in texts for line in bytes(text).split(b"\n")]
        batches, bad = parse_lines(lines, self.schema)
        total = sum(batch.num_rows for batch in batches) + bad + strangers
        return Decoded(_concatenated(batches), bad + strangers, total)


def _concatenated(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches of equal schemas (metadata included) as one batch each, rows in order.

    >>> a, b = pa.record_batch({"x": [1]}), pa.record_batch({"y": [2]})
    >>> [batch.to_pydict() for batch in _concatenated([a, b, a])]
    [{'x': [1, 1]}, {'y': [2]}]
    """
    groups: dict[bytes, list[pa.RecordBatch]] = {}
    for batch in batches:
        groups.setdefault(batch.schema.serialize().to_pybytes(), []).append(batch)
    return [whole for group in groups.values() for whole in _joined(group)]


def _joined(group: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(group) == 1:
        return group
    try:
        return [pa.concat_batches(group)]
    except pa.ArrowException:
        return group  # too much for one batch: 2 GiB of text, or more dictionary values than indices


class DecodeMessages(RecordsTransform):
    """Messages -> ``pyarrow.RecordBatch``, with the timestamp and the window of the message.

    An element is one message, as ``bytes``; or a list of messages, which become one batch where their schemas
    are equal (``beam.BatchElements`` makes such lists of many small messages). With `with_exception_handling` it gives
    ``(batches, dead_letters)``: a message that is not a batch is a `DeadLetter` with the reason `NOT_A_BATCH`, of the
    lines of NDJSON each that is not an object of the schema is counted in one with `NOT_A_RECORD`.

    Args:
        format: ``"arrow"``: see `encode`; or ``"ndjson"``: one JSON object a line, one or more lines a message.
        schema: of the batches, for ``"ndjson"``.

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

    def __init__(self, format: Format = "arrow", *, schema: pa.Schema | None = None) -> None:  # noqa: A002
        super().__init__()
        self._decoder = Decoder(format, schema)

    @override
    def expand(self, pcoll: PCollection[Any]) -> Any:
        fn = _DecodeDoFn(self._decoder, self._dead_letter_tag)
        batches, dead_letters = self._outputs(pcoll, "Decode", fn, pa.RecordBatch)
        return batches if dead_letters is None else (batches, dead_letters)


class _DecodeDoFn(beam.DoFn):
    """A message, or a list of messages -> batches, and dead letters if there is a tag for them."""

    def __init__(self, decoder: Decoder, dead_letter_tag: str | None) -> None:
        self._decoder = decoder
        self._dead_letter_tag = dead_letter_tag
        self._read = Metrics.counter(NAMESPACE, "messages_read")
        self._dead = Metrics.counter(NAMESPACE, "dead_lettered")

    @override
    def process(self, element: Any) -> Iterator[Any]:
        """Yield the batches of one element."""
        messages = element if isinstance(element, (list, tuple)) else [element]
        batches, unusable, total = self._decoder.decode(messages)
        if unusable and self._dead_letter_tag is None:
            what = "messages are" if self._decoder.format == "arrow" else "lines are"
            raise InputError(f"{unusable} of {total} {what} {self._decoder.reason}")
        self._read.inc(len(messages))
        self._dead.inc(unusable)
        yield from batches
        if unusable:
            yield beam.pvalue.TaggedOutput(self._dead_letter_tag, DeadLetter("", self._decoder.reason, unusable))
