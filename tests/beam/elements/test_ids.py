"""Ids as hashes: the same for ever, different under another key, spread evenly."""

import struct
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders.typecoders import registry
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_beam.elements.batches import Batch, Record, RowBatch
from ldp_beam.elements.coders import AnyReportsCoder, TallyCoder
from ldp_beam.elements.faults import NOT_DISTINCT, Faults
from ldp_beam.elements.ids import IdHash, NoiseKey
from ldp_core import DtypeError, PrivacyPlan, RandomizedResponse, ReportError, Secret, Tally, UnaryEncoding

from ..helpers import SURE, SURE_BITS, run

HASH_OF_17 = "0xad620114b57ac473"


def test_hashes_are_keyed_stable_and_spread():
    part = Batch(pa.record_batch({"user": pa.array(range(100_000))}), Timestamp(0), GlobalWindow())
    plain = IdHash("user").of(part)
    # this value must never change: state that outlives a release is looked up by it
    assert hex(plain[17]) == HASH_OF_17
    assert np.array_equal(plain, IdHash("user").of(part))
    keyed = IdHash("user", Secret(bytes(16))).of(part)
    assert not np.any(keyed == plain)
    assert len(np.unique(plain)) == 100_000
    shards = np.bincount((plain >> np.uint64(58)).astype(int), minlength=64)
    assert abs(shards - 100_000 / 64).max() < 7 * (100_000 / 64) ** 0.5


def test_equal_integers_of_any_width_are_one_id_and_others_are_others():
    """-1 was 2**64 - 1."""
    numbers = [7, -1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**38 - 1]
    records = RowBatch([Record({"user": n}, Timestamp(0), GlobalWindow()) for n in numbers])
    hashes = IdHash("user").of(records)
    assert len(set(hashes.tolist())) == len(numbers)
    for dtype, some in (
        (pa.decimal128(38), range(9)),
        (pa.int64(), range(4)),
        (pa.uint64(), [0, 2, 4, 5]),
        (pa.int8(), [0, 1]),
    ):
        column = pa.array([numbers[k] for k in some], dtype)
        part = Batch(pa.record_batch({"user": column}), Timestamp(0), GlobalWindow())
        assert IdHash("user").of(part).tolist() == hashes[list(some)].tolist()
        keyed = NoiseKey(Secret(bytes(16)), "user").randomness(part, "x")
        single = RowBatch([Record({"user": n}, Timestamp(0), GlobalWindow()) for n in column.to_pylist()])
        m = UnaryEncoding(range(64), epsilon=1.0)
        codes = np.zeros(len(column), np.int64)
        expected = m.perturb(codes, randomness=NoiseKey(Secret(bytes(16)), "user").randomness(single, "x"))
        np.testing.assert_array_equal(m.perturb(codes, randomness=keyed), expected)


def test_integers_of_too_many_digits_and_what_is_no_text_are_faults():
    """Of keyed noise they ended the pipeline, dead letters or not."""
    part = RowBatch([Record({"user": n}, Timestamp(0), GlobalWindow()) for n in (1, 10**38, -(10**38), 2**64)])
    for finder in (IdHash("user"), NoiseKey(Secret(bytes(16)), "user")):
        faults = Faults(len(part))
        finder.find_faults(part, faults)
        assert faults.good.tolist() == [True, False, False, True]
    mixed = RowBatch([Record({"user": n}, Timestamp(0), GlobalWindow()) for n in (1, np.int64(2), "3", 4)])
    faults = Faults(len(mixed))
    NoiseKey(Secret(bytes(16)), "user").find_faults(mixed, faults)
    assert faults.good.tolist() == [True, True, False, True]  # integers of any type are ids of one kind
    halves = RowBatch(
        [Record({"user": text}, Timestamp(0), GlobalWindow()) for text in ("a", "\ud800", "b\udfff", "\ue000")]
    )
    for finder in (NoiseKey(Secret(bytes(16)), "user"), NoiseKey(Secret(bytes(16)), None, "user")):
        faults = Faults(len(halves))
        finder.find_faults(halves, faults)  # half of a surrogate pair, which JSON may have, is no text
        assert faults.good.tolist() == [True, False, False, True]
    lists = RowBatch([Record({"user": (n, [n])}, Timestamp(0), GlobalWindow()) for n in range(40)])
    with pytest.raises(DtypeError, match="ids must be"):
        NoiseKey(Secret(bytes(16)), None, "user").randomness(lists, "x")
    with pytest.raises(DtypeError, match="38 digits"):
        IdHash("user").of(part)
    with pytest.raises(DtypeError, match="ids must be"):
        NoiseKey(Secret(bytes(16)), "user").randomness(part, "x")


@pytest.mark.parametrize(
    ("make", "column"),
    [
        (lambda i: UUID(int=i), lambda ids: pa.array([one.bytes for one in ids], pa.uuid())),
        (Decimal, lambda ids: pa.array(ids, pa.decimal128(38))),
        (lambda i: bytearray([i]), lambda ids: pa.array(ids, pa.binary())),
    ],
    ids=["UUID", "Decimal", "bytearray"],
)
def test_single_records_have_the_ids_that_batches_have(make, column):
    """As Avro's and BigQuery's: all became dead letters if any record of the lot was unusable, and limits took none."""
    ids = [make(i) for i in range(40)]
    records = [{"v": i % 2 == 0, "user": one} for i, one in enumerate(ids)]
    batch = pa.record_batch({"v": [i % 2 == 0 for i in range(40)], "user": column(ids)})
    plan, secret = PrivacyPlan({"v": RandomizedResponse(epsilon=1.0)}), Secret.generate()
    for of in ({"id": "user"}, {"record": "user"}):
        perturb = ldp_beam.Perturb(plan, key=secret, **of)
        single, dead = run(perturb.with_exception_handling(), [*records, {"v": None, "user": ids[0]}])
        assert dead == [ldp_beam.DeadLetter("v", "null", 1)]
        assert [one["v"] for one in single] == run(perturb, [batch])[0]["v"].to_pylist()
    admitted = run(ldp_beam.BoundContributions("user", 1), [batch, *records])
    assert sum(one.num_rows if isinstance(one, pa.RecordBatch) else 1 for one in admitted) == 40
    alike = [{"v": True, "user": ids[0]} for _ in range(40)]
    _, dead = run(ldp_beam.Perturb(plan, key=secret, record="user").with_exception_handling(), alike)
    assert dead == [ldp_beam.DeadLetter("user", NOT_DISTINCT, 40)]
    for odd in (Decimal("1.5"), Decimal("nan"), Decimal("inf"), Decimal(10**38), np.timedelta64(3, "D")):
        _, dead = run(ldp_beam.BoundContributions("user", 1).with_exception_handling(), [{"user": odd}])
        assert dead == [ldp_beam.DeadLetter("user", "not of type int, str or bytes", 1)]


# ---- wire formats


PLAN = PrivacyPlan({"v": SURE, "w": SURE_BITS}, keep=["t"])
EVENTS = pa.record_batch({"v": ["a", "b"], "w": ["c", "a"], "t": [1, 2], "secret": [8, 9]})


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


def test_to_import_the_package_registers_its_coders(monkeypatch):
    asked = []
    monkeypatch.setattr("importlib.import_module", asked.append)
    exec(Path(ldp_beam.__file__).read_text(encoding="utf-8"), dict(vars(ldp_beam)))
    assert asked == [AnyReportsCoder.__module__]
    assert "RecordBatchCoder" in str(registry.get_coder(pa.RecordBatch))


@pytest.mark.slow
def test_batches_have_their_coder_before_the_first_of_our_names():
    """By pickle a slice takes all of its table's buffers along: 16 times as much time for the example of flights."""
    code = "import apache_beam as beam, ldp_beam, pyarrow as pa; print(beam.coders.registry.get_coder(pa.RecordBatch))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "RecordBatchCoder" in done.stdout
