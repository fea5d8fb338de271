"""Stable wire formats: Arrow IPC for batches, `Tally.to_bytes` for tallies."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders.typecoders import registry
from typing_extensions import override

from ldp_core import Tally
from ldp_core.engine import bytes_of, read_batch, write_batch


class RecordBatchCoder(beam.coders.Coder):
    """A ``pyarrow.RecordBatch`` as an Arrow IPC stream of one batch, with the schema's metadata (the plan).

    Not deterministic: padding and null slots have unspecified bits. So a batch cannot be a key.
    """

    @override
    def encode(self, value: pa.RecordBatch) -> bytes:
        return write_batch(value)

    @override
    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """Inverse of `encode`; without copying the data, and without a look at them: they come from a worker."""
        return read_batch(encoded, None)

    @override
    def estimate_size(self, value: pa.RecordBatch) -> int:
        """About how many bytes `encode` makes; Beam asks often, and would encode the batch to find out."""
        return bytes_of(value)

    @override
    def to_type_hint(self) -> type:
        return pa.RecordBatch


class TallyCoder(beam.coders.Coder):
    """A `Tally` as `Tally.to_bytes`: compact, deterministic, and its first byte is the encoding's version.

    >>> import numpy as np
    >>> TallyCoder().encode(Tally(3, np.array([1, 2]), "a" * 16)).hex(" ", 16)
    '01016161616161616161616161616161 61610300000000000000020000000102'
    """

    @override
    def encode(self, value: Tally) -> bytes:
        return value.to_bytes()

    @override
    def decode(self, encoded: bytes) -> Tally:
        """See `Tally.from_bytes`; `ReportError` for another version or damaged bytes."""
        return Tally.from_bytes(encoded)

    @override
    def is_deterministic(self) -> bool:
        return True

    @override
    def to_type_hint(self) -> type:
        return Tally


class _Anything(type):
    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return True


class AnyReports(metaclass=_Anything):
    """Type hint, inside a transform, of batches or records: whatever Beam looks at (``--runtime_type_check``)."""


class AnyReportsCoder(beam.coders.Coder):
    """Batches as `RecordBatchCoder` has them, single records as Beam's fallback has them; a last byte says which.

    The type of a source's elements is often unknown (``ReadFromParquetBatched`` declares none); with
    this coder the reports made from them have a stable wire format all the same.
    """

    def __init__(self) -> None:
        self._record = beam.coders.FastPrimitivesCoder()

    @override
    def encode(self, value: Any) -> bytes:
        """An Arrow stream and ``b"A"``, or Beam's encoding and ``b"P"``."""
        if isinstance(value, pa.RecordBatch):
            return write_batch(value, b"A")  # at the end: no copy to put it there, none to cut it off
        return bytes(self._record.encode(value)) + b"P"

    @override
    def decode(self, encoded: bytes) -> Any:
        if encoded[-1:] == b"A":
            return read_batch(memoryview(encoded)[:-1], None)
        return self._record.decode(encoded[:-1])

    @override
    def estimate_size(self, value: Any) -> int:
        return bytes_of(value) if isinstance(value, pa.RecordBatch) else len(self.encode(value))

    @override
    def to_type_hint(self) -> type:
        return AnyReports


registry.register_coder(pa.RecordBatch, RecordBatchCoder)
registry.register_coder(Tally, TallyCoder)
registry.register_coder(AnyReports, AnyReportsCoder)
