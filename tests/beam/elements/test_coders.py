"""Wire formats."""

import pickle
import struct
import subprocess
import sys
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders.typecoders import registry
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_beam.elements.coders import AnyReports, AnyReportsCoder, RecordBatchCoder, TallyCoder
from ldp_core import PrivacyPlan, ReportError, Tally

from ..helpers import SURE, SURE_BITS, run

PLAN = PrivacyPlan({"v": SURE, "w": SURE_BITS}, keep=["t"])
EVENTS = pa.record_batch({"v": ["a", "b"], "w": ["c", "a"], "t": [1, 2], "secret": [8, 9]})


def test_a_batch_and_its_plan_survive():
    coder = registry.get_coder(pa.RecordBatch)
    assert isinstance(coder, RecordBatchCoder)
    assert not coder.is_deterministic()
    for packed in (True, False):
        reports = PLAN.perturb(EVENTS, packed=packed)
        for batch in (reports, reports.slice(1), reports.slice(0, 0)):
            back = coder.decode(coder.encode(batch))
            assert back.equals(batch, check_metadata=True)
            assert PrivacyPlan.from_metadata(back.schema.metadata) == PLAN


def test_the_wire_format_of_a_batch_is_an_arrow_stream():
    data = RecordBatchCoder().encode(EVENTS)
    assert pa.ipc.open_stream(data).read_all().to_batches() == [EVENTS]


def test_tally_bytes_made_by_hand():
    coder = registry.get_coder(Tally)
    tally = Tally(70_000, np.array([0, 65_536]), "0123456789abcdef")
    golden = struct.pack("<BB16sqI", 1, 4, b"0123456789abcdef", 70_000, 2) + struct.pack("<II", 0, 65_536)
    assert isinstance(coder, TallyCoder)
    assert coder.is_deterministic()
    assert coder.encode(tally) == golden
    assert coder.decode(golden) == tally
    for damaged in (b"", golden[:-1], b"\x00" + golden[1:], golden + b"\0"):
        with pytest.raises(ReportError):
            coder.decode(damaged)


def test_rows_have_schemas():
    row = ldp_beam.HistogramRow(
        Timestamp(0), Timestamp(60), 1, "LATE", False, True, "os", {"k": "x"}, "ios", -1.5, 2.0, -3.0, 4.0,
        0.5, 0.2, -0.3, 0.6, 7, 0.95, 1.0, "f" * 16,
    )  # fmt: skip
    letter = ldp_beam.DeadLetter("os", "null", 3)
    for value in (row, letter):
        coder = registry.get_coder(type(value))
        assert isinstance(coder, beam.coders.RowCoder)
        assert tuple(coder.decode(coder.encode(value))) == tuple(value)


def test_coders_are_values():
    for coder in (RecordBatchCoder(), TallyCoder(), AnyReportsCoder()):
        assert pickle.loads(pickle.dumps(coder)) == coder == type(coder)()
        assert len({coder, type(coder)()}) == 1


def test_mixed_reports():
    coder = registry.get_coder(AnyReports)
    for value in (EVENTS, {"v": "a"}, beam.Row(v="a")):
        assert coder.decode(coder.encode(value)) == value


@pytest.mark.parametrize("declared", [True, False], ids=["element type declared", "unknown"])
def test_reports_are_shuffled_in_the_stable_format(monkeypatch, declared):
    encoded = []
    encode = AnyReportsCoder.encode

    def spy(self, value):
        encoded.append(encode(self, value))
        return encoded[-1]

    monkeypatch.setattr(AnyReportsCoder, "encode", spy)
    element_type = pa.RecordBatch if declared else Any
    [out] = run(beam.Map(lambda x: x).with_output_types(element_type) | ldp_beam.Perturb(PLAN), [EVENTS])
    assert PrivacyPlan.from_metadata(out.schema.metadata) == PLAN
    [data] = encoded  # once: not a second time to measure it
    assert data[-1:] == b"A"
    assert pa.ipc.open_stream(data[:-1]).read_next_batch().equals(out, check_metadata=True)


def test_batches_have_their_coder_before_the_first_of_our_names():
    """By pickle a slice takes all of its table's buffers along: 16 times as much time for the example of flights."""
    code = "import apache_beam as beam, ldp_beam, pyarrow as pa; print(beam.coders.registry.get_coder(pa.RecordBatch))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "RecordBatchCoder" in done.stdout
