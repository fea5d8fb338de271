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

from ldp_beam.elements.faults import NOT_A_BATCH, NOT_A_RECORD, TOO_LARGE
from ldp_beam.elements.ipc import read_batch, write_batch
from ldp_beam.elements.records import NAMESPACE, RecordsTransform
from ldp_beam.elements.rows import DeadLetter, is_histogram_row
from ldp_beam.io.histograms import histogram_line
from ldp_beam.io.ndjson import parse_lines
from ldp_core import DtypeError, InputError, LimitError, ParameterError
from ldp_core.limits import DEFAULT, Limits
from ldp_core.plans.plan import plan_of

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
        raise DtypeError(f"a message is made from a pyarrow.RecordBatch, got {type(batch).__name__}")
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
    """What a sink sends for an element: a batch as `encode` has it, a `HistogramRow` as a line of JSON, bytes as is.

    Raises:
        DtypeError: another type.
    """
    if isinstance(element, bytes):
        return element
    if is_histogram_row(element):
        return histogram_line(element).encode()
    return encode(element)


class Decoded(NamedTuple):
    """What several messages held."""

    batches: list[pa.RecordBatch]
    """One for each schema among them, in the order of first appearance."""
    unusable: dict[str, int]
    """Number of messages (of lines, in NDJSON) that could not be used, by the reason of their dead letters."""
    total: int
    """Number of messages (of lines, in NDJSON)."""


@dataclass(frozen=True)
class Decoder:
    """How messages are read: a value, made by the reader's configuration.

    Args:
        format: ``"arrow"`` or ``"ndjson"``.
        schema: of the batches, for ``"ndjson"``; an Arrow message says its own.
        limits: for each message.

    Raises:
        ParameterError: another format; a schema where there is one already, or none where it is needed.

    >>> decoder = Decoder("ndjson", pa.schema([("os", pa.string())]))
    >>> [(batches, unusable, total)] = decoder.decode([b'{"os": "ios"}', b"[]"])
    >>> batches[0].to_pydict(), unusable, total
    ({'os': ['ios']}, {'not a JSON object of the schema': 1}, 2)
    """

    format: Format = "arrow"
    schema: pa.Schema | None = None
    limits: Limits = DEFAULT

    def __post_init__(self) -> None:
        if self.format not in _FORMATS:
            raise ParameterError(f"format must be one of {_FORMATS}, got {self.format!r}")
        if self.format == "arrow" and self.schema is not None:
            raise ParameterError('an Arrow message brings its own schema: schema= is for format="ndjson"')
        if self.format == "ndjson" and not isinstance(self.schema, pa.Schema):
            raise ParameterError('format="ndjson" needs schema=, a pyarrow.Schema: types are declared, not guessed')
        if not isinstance(self.limits, Limits):
            raise ParameterError(f"limits must be Limits, got {type(self.limits).__name__}")

    def decode(self, messages: Sequence[Any]) -> Iterator[Decoded]:
        """Read messages; many small ones become one batch where their schemas are equal.

        All of them together, or, where they are many and large, as many at a time as the limits allow one.
        """
        portion = _Portion()
        for message in messages:
            self._add(message, portion)
            if portion.size > self.limits.bytes or portion.rows > self.limits.rows:
                yield portion.decoded(self.schema)
                portion = _Portion()
        if portion.total or portion.lines or not messages:
            yield portion.decoded(self.schema)

    def _add(self, message: Any, portion: _Portion) -> None:
        """Read a message, or its lines."""
        if self.format == "arrow":
            portion.total += 1
            try:
                batch = read_batch(message, self.limits)
            except LimitError:
                portion.unusable[TOO_LARGE] += 1
            except InputError:
                portion.unusable[NOT_A_BATCH] += 1
            else:
                portion.batches.append(batch)
                portion.size += batch.nbytes
                portion.rows += batch.num_rows
            return
        if not isinstance(message, (bytes, bytearray, memoryview)):
            portion.total += 1
            portion.unusable[NOT_A_RECORD] += 1
            return
        text = bytes(message)
        lines = text.count(b"\n") + (not text.endswith(b"\n"))
        if len(text) > self.limits.bytes or lines > self.limits.rows:
            portion.total += lines
            portion.unusable[TOO_LARGE] += lines
            return
        portion.lines += text.split(b"\n")
        portion.size += len(text)
        portion.rows += lines


class _Portion:
    """Some messages, as they are read."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.lines: list[bytes] = []
        self.unusable: Counter[str] = Counter()
        self.total = self.size = self.rows = 0

    def decoded(self, schema: pa.Schema | None) -> Decoded:
        """What they held; lines are of ``schema``."""
        batches, bad = parse_lines(self.lines, schema) if self.lines else (self.batches, 0)
        if bad:
            self.unusable[NOT_A_RECORD] += bad
        total = self.total + (sum(batch.num_rows for batch in batches) + bad if self.lines else 0)
        return Decoded(_concatenated(batches), dict(self.unusable), total)


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
    lines of NDJSON each that is not an object of the schema is counted in one with `NOT_A_RECORD`; a message that is
    over the limits has the reason `TOO_LARGE`.

    Args:
        format: ``"arrow"``: see `encode`; or ``"ndjson"``: one JSON object a line, one or more lines a message.
        schema: of the batches, for ``"ndjson"``.
        limits: for the rows and bytes of each message.

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
    ) -> None:
        super().__init__()
        self._decoder = Decoder(format, schema, limits)

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
        self._read.inc(len(messages))
        for batches, unusable, total in self._decoder.decode(messages):
            if unusable and self._dead_letter_tag is None:
                what = "messages are" if self._decoder.format == "arrow" else "lines are"
                [(reason, count), *_] = unusable.items()
                raise InputError(f"{count} of {total} {what} {reason}")
            yield from batches
            for reason, count in unusable.items():
                self._dead.inc(count)
                yield beam.pvalue.TaggedOutput(self._dead_letter_tag, DeadLetter("", reason, count))
