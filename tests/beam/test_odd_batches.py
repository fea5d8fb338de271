"""Batches that strangers may send: a step with dead letters goes on, whatever their types are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ldp_beam.elements.batches import Batch
from ldp_beam.io._kafka_source import OffsetRangeCoder
from ldp_core import InputError
from ldp_core.plans.provenance import NAME

from ..fuzz.entry_points import OTHER_BATCHES, through_the_steps


def test_steps_with_dead_letters_go_on():
    for batch in OTHER_BATCHES:
        through_the_steps(batch)


def test_metadata_of_a_type_that_no_mechanism_has():
    for text in ("{}", '{"mechanism": "none", "domain": [1, 2]}', "[" * 2000, '{"domain": 5}'):
        metadata = {"ARROW:extension:name": NAME, "ARROW:extension:metadata": text}
        fields = [pa.field(name, pa.string(), metadata=metadata) for name in ("v", "w")]
        through_the_steps(pa.record_batch([["a", "b"]] * 2, schema=pa.schema(fields)))


def test_keys_in_views_are_text():
    batch = pa.record_batch({"k": pa.array(["a", None], pa.string_view())})
    assert Batch(batch, None, None).texts("k")[1] == ["a", "null"]


def test_a_damaged_checkpoint_is_refused():
    for data in (b"", b"5", bytes(15), bytes(17), b"\xff" * 16, b"[[0, 5, 9]]", bytes(7) + b"\t" + bytes(8)):
        with pytest.raises(InputError):
            OffsetRangeCoder().decode(data)
