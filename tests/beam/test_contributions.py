"""BoundContributions: the first k records of each person and window, however they are batched, bundled and ordered."""

from __future__ import annotations

import dataclasses
import logging
import re
import subprocess
import sys
import textwrap
import typing
from collections import Counter
from fractions import Fraction
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import FixedWindows, GlobalWindow, GlobalWindows, Sessions, SlidingWindows
from apache_beam.transforms.window import TimestampedValue as At
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_beam
from ldp_beam.elements.ids import IdHash
from ldp_beam.persons._limits import AdmitFirst, PieceCoder, SplitByPerson
from ldp_beam.persons._seen import Seen
from ldp_beam.persons.transforms import BoundContributions
from ldp_core import (
    DtypeError,
    InputError,
    LdpError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
)
from ldp_core.exact.probability import exp_below

from .helpers import SURE, Collector, counters, run, run_with_result, stamped, table
from .test_secrets import NUMBER, SECRET, assert_clean, everything_about

HASH_OF_17 = "0xad620114b57ac473"
N = 600
_rng = np.random.default_rng(0)
EVENTS = pa.table(
    {
        "user": _rng.integers(0, 20, N),
        "time": _rng.integers(-50, 50, N),
        "n": np.arange(N),
        "os": _rng.choice(["a", "b", "c"], N),
    }
)


def rows_of(elements):
    """Records of any kind of elements, as dicts."""
    for element in elements:
        if isinstance(element, (pa.RecordBatch, pa.Table)):
            yield from element.to_pylist()
        else:
            yield dict(element) if isinstance(element, dict) else element._asdict()


def numbers(elements):
    return sorted(row["n"] for row in rows_of(elements))


def first(k, records, size=10, *, user="user", time="time"):
    """The reference: one record after the other; ``size`` is the window's, None for ever."""
    seen, out = Counter(), []
    for record in records:
        place = (record[user], record[time] // size if size else 0)
        seen[place] += 1
        if seen[place] <= k:
            out.append(record["n"])
    return sorted(out)


class Event(typing.NamedTuple):
    user: int
    time: int
    n: int
    os: str


@dataclasses.dataclass
class EventData:
    user: int
    time: int
    n: int
    os: str


def made(*elements):
    """A source of elements that ``Create`` cannot take: of several kinds, or beyond its coders."""
    return beam.Create([0], reshuffle=False) | "Make" >> beam.FlatMap(lambda _: list(elements)).with_output_types(
        typing.Any
    )


class OverTheWire(BoundContributions):
    """With a shuffle in the middle, as runners of several machines have it: pieces are encoded, and change places."""

    def _admit(self, pieces):
        return super()._admit(pieces | beam.Reshuffle())


def totals(result):
    """Counters by name, summed over the steps that have one of it."""
    out = Counter()
    for counter in result.metrics().query(MetricsFilter().with_namespace("ldp"))["counters"]:
        out[counter.key.metric.name] += counter.committed
    return dict(+out)


FORMS = {
    "one table": lambda t: [t],
    "batches": lambda t: t.to_batches(max_chunksize=100),
    "chunked tables": lambda t: [pa.concat_tables([t[:200], t[200:300]]), t[300:]],
    "tiny batches": lambda t: t[:50].to_batches(max_chunksize=1) + t[50:].to_batches(),
    "empty batches": lambda t: [t[:0], t, t[:0]],
    "dicts": lambda t: t.to_pylist(),
    "rows": lambda t: [beam.Row(**r) for r in t.to_pylist()],
    "named tuples": lambda t: [Event(**r) for r in t.to_pylist()],
    "dataclasses": lambda t: [EventData(**r) for r in t.to_pylist()],
}


@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_the_first_k_of_each_person_and_window(form, k, runner):
    bound = BoundContributions("user", k, window=10, event_time="time")
    out = run(bound, FORMS[form](EVENTS), runner=runner)
    expected = first(k, EVENTS.to_pylist())
    assert 0 < len(expected) < N
    assert numbers(out) == expected
    assert all(set(row) == {"time", "n", "os"} for row in rows_of(out))
    assert all(isinstance(e, (pa.RecordBatch, dict, beam.Row)) for e in out)
    assert all(len(e) for e in out if isinstance(e, pa.RecordBatch))


IDS = {
    "text": lambda i: pa.array([f"user {j}" for j in i]),
    "long text": lambda i: pa.array([f"{j:050d}" for j in i], pa.large_string()),
    "view": lambda i: pa.array([f"user {j}" for j in i]).cast(pa.string_view()),
    "binary": lambda i: pa.array([bytes([j, 0, j]) for j in i]),
    "dictionary": lambda i: pa.array([f"user {j}" for j in i]).dictionary_encode(),
    "int16": lambda i: pa.array(i, pa.int16()),
    "uint64": lambda i: pa.array([2**64 - 1 - j for j in i], pa.uint64()),
}


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("kind", IDS)
def test_kinds_of_ids(kind, single):
    events = EVENTS.set_column(0, "user", IDS[kind](EVENTS["user"].to_pylist()))
    elements = events.to_pylist() if single else events.to_batches(max_chunksize=500)
    for key in (None, Secret(bytes(16))):
        out = run(BoundContributions("user", 2, window=10, event_time="time", key=key), elements)
        assert numbers(out) == first(2, EVENTS.to_pylist())


def test_a_person_is_the_same_in_batches_and_single_records_and_as_numpy():
    text = EVENTS.set_column(0, "user", IDS["text"](EVENTS["user"].to_pylist()))
    mixed = [text[:100], *text[100:200].to_pylist(), *(beam.Row(**r) for r in text[200:300].to_pylist()), text[300:]]
    # single records are held until the bundle ends, so that arrival is not this order: how many pass is exact
    expected = first(3, text.to_pylist())
    assert len(numbers(run(BoundContributions("user", 3, window=10, event_time="time"), mixed))) == len(expected)
    same = [{"user": u, "n": n} for n, u in enumerate([7, np.int64(7), np.uint8(7), "7", b"7", np.str_("7"), "8", -7])]
    assert numbers(run(BoundContributions("user", 1), same)) == [0, 3, 6, 7]


def test_ids_kept():
    bound = BoundContributions("user", 2, window=10, event_time="time", drop_id=False)
    for elements in (EVENTS.to_batches(), EVENTS.to_pylist()):
        out = list(rows_of(run(bound, elements)))
        assert sorted(r["n"] for r in out) == first(2, EVENTS.to_pylist())
        assert all(r == EVENTS.slice(r["n"], 1).to_pylist()[0] for r in out)
    rows = [Event(1, 2, 3, "a")]
    assert run(bound, rows) == rows


@pytest.mark.parametrize("shards", [1, 2, 7, 64, 1000])
def test_any_number_of_shards(shards):
    bound = BoundContributions("user", 2, window=10, event_time="time", shards=shards)
    assert numbers(run(bound, EVENTS.to_batches(max_chunksize=999))) == first(2, EVENTS.to_pylist())


@pytest.mark.parametrize(
    ("window", "size"), [("10s", 10), (FixedWindows(10), 10), (GlobalWindows(), None), ("1d", 86_400)]
)
def test_windows(window, size):
    out = run(BoundContributions("user", 2, window=window, event_time="time"), EVENTS.to_batches(max_chunksize=99))
    assert numbers(out) == first(2, EVENTS.to_pylist(), size)
    shifted = run(BoundContributions("user", 2, window=FixedWindows(10, 3), event_time="time"), [EVENTS])
    moved = [{**r, "time": r["time"] - 3} for r in EVENTS.to_pylist()]
    assert numbers(shifted) == first(2, moved)


@pytest.mark.parametrize("single", [False, True])
def test_element_timestamps_and_the_windows_of_the_elements(single):
    records = EVENTS.to_pylist()
    elements = [r if single else pa.RecordBatch.from_pylist([r]) for r in records]
    at_their_times = [(e, r["time"] + 100) for e, r in zip(elements, records, strict=True)]
    for bound in (
        BoundContributions("user", 1, window=10),
        beam.WindowInto(FixedWindows(10)) | BoundContributions("user", 1),
    ):
        assert numbers(run(bound, stamped(at_their_times))) == first(1, records)
    # without windows it is for ever; elements without a time of their own are at the beginning of time
    assert numbers(run(BoundContributions("user", 1), elements)) == first(1, records, None)
    assert numbers(run(BoundContributions("user", 1, window=10), elements)) == first(1, records, None)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner"])
def test_times_and_windows_stay(single, runner):
    records = EVENTS.to_pylist()[:300]
    elements = [r if single else pa.RecordBatch.from_pylist([r]) for r in records]
    bound = BoundContributions("user", 1, window=10, event_time="time").with_exception_handling()
    (good, bad), _ = run_with_result(
        beam.WindowInto(FixedWindows(7)) | bound, stamped((e, i) for i, e in enumerate(elements)), runner=runner
    )
    assert len(good.stamped) == len(first(1, records)) < 300
    for element, time, window in good.stamped:
        [row] = rows_of([element])
        assert time == Timestamp(row["n"])
        assert window.start == Timestamp(row["n"] // 7 * 7)
    passed = set(first(1, records))
    over = Counter(r["n"] // 7 * 7 for r in records if r["n"] not in passed)
    found = Counter()
    for letter, time, window in bad.stamped:
        assert window.start <= time < window.end
        found[window.start.micros // 10**6] += letter.count
    assert found == over


def test_windowed_aggregations_after_it_see_the_windows_of_the_input():
    bound = BoundContributions("user", 2, window=1000, event_time="time")
    source = stamped((e, 10 * i) for i, e in enumerate(EVENTS.to_batches(max_chunksize=100)))
    sink = Collector()
    with beam.Pipeline("FnApiRunner") as p:
        rows = p | source | beam.WindowInto(FixedWindows(20)) | bound | beam.Map(lambda b: b.num_rows)
        _ = rows | beam.CombineGlobally(sum).without_defaults() | sink.sink()
    kept = first(2, EVENTS.to_pylist(), 1000)
    by_window = Counter(n // 100 * 10 // 20 * 20 for n in kept)
    assert {w.start.micros // 10**6: total for total, _, w in sink.stamped} == by_window


def test_order_inside_a_piece_is_the_order_of_arrival():
    out = run(BoundContributions("user", 3, window=10, event_time="time", shards=1), [EVENTS])
    assert all(np.all(np.diff(batch["n"].to_numpy()) > 0) for batch in out)


def test_metadata_and_types_stay():
    batch = EVENTS.to_batches()[0].replace_schema_metadata({"who": "knows"})
    batch = batch.set_column(3, "os", batch["os"].dictionary_encode())
    for out in run(BoundContributions("user", 3), [batch]):
        assert out.schema.equals(batch.schema.remove(0).with_metadata({"who": "knows"}), check_metadata=True)


def test_dropped_records_are_counted():
    passed = len(first(2, EVENTS.to_pylist()))
    bound = BoundContributions("user", 2, window=10, event_time="time")
    for elements in (EVENTS.to_batches(max_chunksize=500), EVENTS.to_pylist()):
        _, result = run_with_result(bound, elements)
        assert counters(result) == {"records_read": N, "contributions_dropped": N - passed}
        (good, bad), result = run_with_result(bound.with_exception_handling(), elements)
        assert counters(result) == {"records_read": N, "contributions_dropped": N - passed, "dead_lettered": N - passed}
        assert len(numbers(good.elements)) == passed
        assert {letter[:2] for letter in bad.elements} == {("user", "over the limit")}
        assert all(isinstance(letter, ldp_beam.DeadLetter) for letter in bad.elements)
        assert sum(letter.count for letter in bad.elements) == N - passed


# ---- whatever batching, bundling, order


@settings(max_examples=200)
@given(
    ids=st.lists(st.integers(0, 6), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    k=st.integers(1, 4) | st.just(300) | st.just(2**70),
)
def test_the_table_admits_the_first_k_however_its_input_is_cut(ids, cuts, k):
    hashes = np.array(ids, np.uint64) * np.uint64(2**61)
    seen, passed = Seen.nobody(k), []
    for part in np.split(hashes, sorted(min(cut, len(ids)) for cut in cuts)):
        passes, seen = Seen.from_bytes(seen.to_bytes()).admit(part, k)
        passed += passes.tolist()
    so_far = Counter()
    for i, ok in zip(ids, passed, strict=True):
        so_far[i] += 1
        assert ok == (so_far[i] <= k)
    assert np.all(np.diff(seen.hashes.astype(object)) > 0)
    assert dict(zip(seen.hashes.tolist(), seen.counts.tolist(), strict=True)) == {
        i * 2**61: min(n, k) for i, n in so_far.items()
    }


def test_the_table_with_another_limit_than_it_was_made_with():
    hashes = np.full(500, 7, np.uint64)
    for before, now, more in ((2, 400, 398), (400, 2, 0), (400, 401, 1)):
        passes, seen = Seen.nobody(before).admit(hashes, before)
        assert passes.sum() == before
        passes, seen = seen.admit(hashes, now)
        assert passes.sum() == more
        assert seen.counts.tolist() == [max(before, now)]


@pytest.mark.parametrize(
    "data", [b"", b"\x01", bytes(8), b"\x02\x01" + bytes(6), b"\x01\x03" + bytes(6), b"\x01\x01" + bytes(7)]
)
def test_a_damaged_state_is_refused(data):
    with pytest.raises(InputError, match="version 1"):
        Seen.from_bytes(data)


@st.composite
def streams(draw):
    """Records in any order, cut into elements of any form."""
    n = draw(st.integers(1, 40))
    records = [{"user": draw(st.integers(0, 3)), "time": draw(st.integers(0, 29)), "n": i} for i in range(n)]
    elements, start = [], 0
    while start < n:
        size = draw(st.integers(1, 12))
        part = records[start : start + size]
        form = draw(st.sampled_from(["batch", "table", "dicts", "rows"]))
        if form == "batch":
            elements.append(pa.RecordBatch.from_pylist(part))
        elif form == "table":
            elements.append(pa.Table.from_pylist(part))
        else:
            elements += part if form == "dicts" else [beam.Row(**r) for r in part]
        start += size
    return records, elements


@settings(max_examples=40)
@given(
    stream=streams(),
    k=st.integers(1, 4),
    shards=st.integers(1, 5),
    reshuffle=st.booleans(),
    kind=st.sampled_from([BoundContributions, OverTheWire]),
    runner=st.sampled_from(["FnApiRunner", "BundleBasedDirectRunner"]),
)
def test_never_more_than_k_and_nobody_below_loses_any(stream, k, shards, reshuffle, kind, runner):
    records, elements = stream
    bound = kind("user", k, window=10, event_time="time", drop_id=False, shards=shards)
    source = made(*elements) | beam.Reshuffle() if reshuffle else made(*elements)
    out = list(rows_of(run(bound, source, runner=runner)))
    assert len({row["n"] for row in out}) == len(out)
    had = Counter((r["user"], r["time"] // 10) for r in records)
    got = Counter((r["user"], r["time"] // 10) for r in out)
    assert got == {place: min(n, k) for place, n in had.items()}


def test_colliding_hashes_drop_too_much_and_never_too_little(monkeypatch):
    true_hash = IdHash.of
    monkeypatch.setattr(IdHash, "of", lambda self, part: true_hash(self, part) & np.uint64(0xC000000000000003))
    bound = BoundContributions("user", 3, window=10, event_time="time", drop_id=False, shards=4)
    out = list(rows_of(run(bound, EVENTS.to_batches(max_chunksize=100))))
    got = Counter((r["user"], r["time"] // 10) for r in out)
    had = Counter((r["user"], r["time"] // 10) for r in EVENTS.to_pylist())
    assert all(n <= 3 for n in got.values())
    assert len(got) < len(had), "nobody collided: the test shows nothing"
    assert len({r["time"] // 10 for r in out}) == 10


def test_hashes_are_keyed_stable_and_spread():
    part = next(iter(SplitInput("user", pa.array(range(100_000)))))
    plain = IdHash("user").of(part)
    # this value must never change: state that outlives a release is looked up by it
    assert hex(plain[17]) == HASH_OF_17
    assert np.array_equal(plain, IdHash("user").of(part))
    keyed = IdHash("user", Secret(bytes(16))).of(part)
    assert not np.any(keyed == plain)
    assert len(np.unique(plain)) == 100_000  # two of them collide with probability 3e-10
    shards = np.bincount((plain >> np.uint64(58)).astype(int), minlength=64)
    assert abs(shards - 100_000 / 64).max() < 7 * (100_000 / 64) ** 0.5  # probability below 1e-9


def SplitInput(name, ids):  # noqa: N802
    from ldp_beam.elements.batches import Batch

    yield Batch(pa.RecordBatch.from_arrays([ids], names=[name]), Timestamp(0), GlobalWindow())


# ---- replay, streams, processes


@pytest.mark.parametrize("form", ["batches", "dicts"])
def test_a_repeated_bundle_passes_the_same_records(form):
    p = beam.Pipeline(
        "FnApiRunner", options=beam.options.pipeline_options.PipelineOptions(["--direct_runner_bundle_repeat=2"])
    )
    first_sink, last_sink = Collector(), Collector()
    bound = BoundContributions("user", 2, window=10, event_time="time")
    out = p | beam.Create(FORMS[form](EVENTS), reshuffle=False) | bound
    _ = out | "Seen" >> first_sink | beam.Reshuffle() | beam.FlatMap(lambda e: list(rows_of([e]))) | "Last" >> last_sink
    result = p.run()
    result.wait_until_finish()
    expected = first(2, EVENTS.to_pylist())
    attempts = Counter(row["n"] for row in rows_of(first_sink.elements))
    assert attempts == dict.fromkeys(expected, 3), "three attempts, each with the same records"
    assert set(numbers(last_sink.elements)) == set(expected)
    assert counters(result)["contributions_dropped"] == N - len(expected)


@pytest.mark.parametrize("form", ["batches", "dicts"])
def test_a_stream_with_late_records(form):
    records = EVENTS.to_pylist()
    source, sent = Stream().advance_watermark_to(-60), []

    def add(part, at):
        elements = [pa.RecordBatch.from_pylist(part)] if form == "batches" else part
        source.add_elements([At(e, at) for e in elements])
        sent.extend(part)

    for i in range(0, 300, 50):
        add(records[i : i + 50], -50)
    source.advance_watermark_to(0)  # windows until here have ended
    for i in range(300, N, 50):
        add(records[i : i + 50], 0)
    source.advance_watermark_to(40)
    add(records[:200], 45)  # all over again, on time for Beam but most of it late by its own time
    source.advance_watermark_to(1000)
    add(records[200:350], 3)  # and after everything
    source.advance_watermark_to_infinity()
    bound = BoundContributions("user", 3, window=10, event_time="time", drop_id=False, allowed_lateness="1h")
    out = run(bound, source, runner="BundleBasedDirectRunner", flags=("--streaming",))
    got = Counter((r["user"], r["time"] // 10) for r in rows_of(out))
    had = Counter((r["user"], r["time"] // 10) for r in sent)
    assert got == {place: min(n, 3) for place, n in had.items()}
    assert numbers(out) == first(3, sent)


def test_without_lateness_a_late_record_may_be_lost_but_never_passes_uncounted():
    records = [{"user": 1, "time": 5, "n": i} for i in range(6)]
    source = Stream().advance_watermark_to(0)
    for i, record in enumerate(records):
        source.add_elements([At(record, 5)]).advance_watermark_to(100 * (i + 1))
    bound = BoundContributions("user", 2, window=10, event_time="time")
    out = run(bound, source.advance_watermark_to_infinity(), runner="BundleBasedDirectRunner", flags=("--streaming",))
    assert 1 <= len(out) <= 2


def test_two_worker_processes(tmp_path):
    script = tmp_path / "two_workers.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys, uuid
            import apache_beam as beam
            import pyarrow as pa
            from apache_beam.options.pipeline_options import PipelineOptions
            from ldp_beam.persons.transforms import BoundContributions

            class OverTheWire(BoundContributions):  # or the local runner would run all of it in one process
                def _admit(self, pieces):
                    return super()._admit(pieces | beam.Reshuffle())

            def write(batch, name, folder):
                with open(os.path.join(folder, f"{name}-{uuid.uuid4().hex}"), "w") as file:
                    file.write("\\n".join(f"{os.getpid()} {user}" for user in batch["user"].to_pylist()))
                return batch

            if __name__ == "__main__":
                batches = [pa.record_batch({"user": [i % 7, 7, 8, i % 3], "t": [i % 2] * 4}) for i in range(84)]
                options = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
                with beam.Pipeline("FnApiRunner", options=options) as p:
                    events = p | beam.Create(batches) | "Spread" >> beam.Reshuffle()
                    events |= "In" >> beam.Map(write, "in", sys.argv[1])
                    bound = OverTheWire("user", 3, window=1, event_time="t", drop_id=False)
                    _ = events | bound | "Out" >> beam.Map(write, "out", sys.argv[1])
            """
        )
    )
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run([sys.executable, str(script), str(out)], check=True, timeout=200, capture_output=True)
    lines = [line.split() for path in out.glob("out-*") for line in path.read_text().splitlines()]
    readers = {path.read_text().split()[0] for path in out.glob("in-*")}
    assert len(readers) == 2, "one worker had all the work: the test shows nothing"
    assert Counter(user for _, user in lines) == {str(user): 6 for user in range(9)}  # three in each of two windows


def test_pieces_travel():
    split = SplitByPerson(BoundContributions("user", 2, window=10, event_time="time")._limit, None)
    coder = PieceCoder()
    for elements in (EVENTS[:99].to_batches(), EVENTS[:99].to_pylist()):
        split.start_bundle()
        out = [
            w
            for e in elements
            for w in split.process(
                e, Timestamp(3), FixedWindows(7).assign(beam.transforms.window.WindowFn.AssignContext(Timestamp(3)))[0]
            )
        ]
        out += split.finish_bundle()
        rows = 0
        for wrapped in out:
            piece = wrapped.value[1]
            again = coder.decode(coder.encode(piece))
            assert np.array_equal(again.hashes, piece.hashes)
            assert again.part.stamps().tolist() == piece.part.stamps().tolist()
            assert again.part.own_windows()[1] == piece.part.own_windows()[1]
            assert again.part.column("n") == piece.part.column("n")
            rows += len(again.part)
        assert rows == 99


# ---- unusable records


@pytest.mark.parametrize(
    ("elements", "error", "match"),
    [
        ([{"user": None, "n": 0}, {"n": 1}, {"user": 1}], InputError, "'user': 2 of 3 ids are null"),
        ([{"user": 1.5}], DtypeError, "'user'.*1 of 1"),
        ([{"user": True}], DtypeError, "'user'"),
        (made({"user": 2**64}), DtypeError, "'user'"),
        ([pa.record_batch({"user": pa.array([1, None])})], InputError, "'user': 1 of 2 ids are null"),
        ([pa.record_batch({"user": pa.nulls(2)})], InputError, "2 of 2"),
        ([pa.record_batch({"user": [0.5]})], DtypeError, "'user'.*double"),
        ([pa.record_batch({"other": [1]})], PlanError, "'user'"),
        (["text"], DtypeError, "got str"),
    ],
)
def test_records_of_nobody_stop_the_pipeline(elements, error, match):
    with pytest.raises(error, match=match):
        run(BoundContributions("user", 1), elements)


HALF_NULL = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1]), pa.array(["x", None]))


@pytest.mark.parametrize(
    ("element", "kept", "letters"),
    [
        (pa.record_batch({"user": pa.array([1, None, 2, None]), "n": range(4)}), [0, 2], {("user", "null"): 2}),
        (pa.record_batch({"user": HALF_NULL, "n": range(4)}), [0, 2], {("user", "null"): 2}),
        (pa.record_batch({"user": pa.nulls(4), "n": range(4)}), [], {("user", "null"): 4}),
        (pa.record_batch({"user": [0.5] * 4, "n": range(4)}), [], {("user", "wrong type"): 4}),
        (pa.record_batch({"n": range(4)}), [], {("user", "no such column"): 4}),
    ],
)
def test_dead_letters_of_a_batch(element, kept, letters):
    good, bad = run(BoundContributions("user", 9).with_exception_handling(), [element])
    assert numbers(good) == kept
    assert Counter({(d.column, d.reason): d.count for d in bad}) == letters


def test_dead_letters_of_single_records_and_of_times():
    ids = [1, None, "x", 2.5, True, 2**64, b"x", "y", 1, 1, 1]
    records = [{"user": i, "n": n, "time": 5} for n, i in enumerate(ids)]
    records += [{"user": 9, "n": 100, "time": None}, {"user": 9, "n": 101}, {"user": 9, "n": 102, "time": "soon"}]
    bound = BoundContributions("user", 2, window=10, event_time="time").with_exception_handling()
    (good, bad), result = run_with_result(bound, made(*records))
    assert numbers(good.elements) == [0, 2, 6, 7, 8]
    total = Counter()
    for letter in bad.elements:
        total[letter[:2]] += letter.count
    assert total == {
        ("user", "null"): 1,
        ("user", "wrong type"): 3,
        ("user", "over the limit"): 2,
        ("time", "no event time"): 3,
    }
    assert totals(result) == {"records_read": 14, "dead_lettered": 9, "contributions_dropped": 2}
    for time, reason in ((pa.nulls(2, pa.int64()), "no event time"), (pa.array(["a", "b"]), "wrong type")):
        good, bad = run(bound, [pa.record_batch({"user": [1, 2], "time": time, "n": [0, 1]})])
        assert (good, bad) == ([], [("time", reason, 2)])
    good, bad = run(bound, [pa.record_batch({"user": [1, 2], "n": [0, 1]})])
    assert (good, bad) == ([], [("time", "no such column", 2)])


@pytest.mark.parametrize(
    "make",
    [
        lambda: BoundContributions("user", 0),
        lambda: BoundContributions("user", -1),
        lambda: BoundContributions("user", True),
        lambda: BoundContributions("user", 1.0),
        lambda: BoundContributions("user", "3"),
        lambda: BoundContributions(5, 1),
        lambda: BoundContributions("user", 1, window=0),
        lambda: BoundContributions("user", 1, window="soon"),
        lambda: BoundContributions("user", 1, window=SlidingWindows(10, 5)),
        lambda: BoundContributions("user", 1, window=Sessions(10)),
        lambda: BoundContributions("user", 1, event_time="time"),
        lambda: BoundContributions("user", 1, window=10, event_time="user"),
        lambda: BoundContributions("user", 1, window=10, event_time=5),
        lambda: BoundContributions("user", 1, allowed_lateness=5),
        lambda: BoundContributions("user", 1, window=10, allowed_lateness=-5),
        lambda: BoundContributions("user", 1, shards=0),
        lambda: BoundContributions("user", 1, shards=2**17),
        lambda: BoundContributions("user", 1, key=bytes(32)),
    ],
)
def test_bad_parameters_at_construction(make):
    with pytest.raises(ParameterError):
        make()


@pytest.mark.parametrize("windows", [SlidingWindows(10, 5), Sessions(10)])
def test_records_in_several_or_merging_windows_are_refused(windows):
    with pytest.raises(ParameterError, match="windows"):
        run(beam.WindowInto(windows) | BoundContributions("user", 1), [{"user": 1, "n": 1}])


# ---- ids stay out of everything

TEXT_ID, NUMBER_ID = SECRET, NUMBER
UNUSABLE = [
    {"user": float(NUMBER_ID), "time": 1},
    {"user": NUMBER_ID * 10**30, "time": 1},
    {"user": {TEXT_ID: 1}, "time": 1},
    {"user": TEXT_ID, "time": TEXT_ID},
    {"user": NUMBER_ID, "time": None},
    pa.record_batch({"user": [float(NUMBER_ID)], "time": [1]}),
    pa.record_batch({"user": [TEXT_ID, None], "time": [1, 1]}),
    pa.record_batch({"user": pa.array([NUMBER_ID, None]), "time": [1, 1]}),
    pa.record_batch({"user": [TEXT_ID], "time": [TEXT_ID]}),
    pa.record_batch({"user": pa.array([[TEXT_ID]]), "time": [1]}),
]
BOUND = BoundContributions("user", 1, window=10, event_time="time")


@pytest.mark.parametrize("element", UNUSABLE, ids=range(len(UNUSABLE)))
def test_ids_are_in_no_error_or_log(element, caplog):
    caplog.set_level(logging.INFO)
    with pytest.raises(LdpError) as caught:
        run(BOUND, made(element))
    assert_clean(everything_about(caught.value))
    assert_clean("\n".join(r.getMessage() + str(r.exc_text) for r in caplog.records))


def test_ids_are_in_no_dead_letter_metric_or_log(caplog):
    caplog.set_level(logging.INFO)
    over = [{"user": i, "time": 1} for i in (TEXT_ID, NUMBER_ID)] * 3
    over += [pa.record_batch({"user": [TEXT_ID] * 3, "time": [1] * 3})]
    (good, bad), result = run_with_result(BOUND.with_exception_handling(), made(*UNUSABLE, *over))
    assert {d.reason for d in bad.elements} == {"over the limit", "wrong type", "null", "no event time"}
    assert_clean(str(good.stamped) + str(bad.stamped) + str(result.metrics().query()))
    assert_clean("\n".join(r.getMessage() + str(r.exc_text) for r in caplog.records))


def test_pickles_carry_configuration_only():
    split = SplitByPerson(BOUND._limit, None)
    before = cloudpickle.dumps(split)
    split.start_bundle()
    list(split.process({"user": TEXT_ID, "time": 1}, Timestamp(0), GlobalWindow()))
    assert len(cloudpickle.dumps(split)) == len(before)
    assert TEXT_ID.encode() not in cloudpickle.dumps(split)
    assert TEXT_ID.encode() not in cloudpickle.dumps(AdmitFirst(BOUND._limit, None))


def test_neither_pieces_nor_state_hold_the_id():
    split = SplitByPerson(BOUND._limit, None)
    elements = [pa.record_batch({"user": [TEXT_ID] * 2, "time": [1, 2]}), {"user": TEXT_ID, "time": 1}]
    pieces = [w.value[1] for e in elements for w in split.process(e, Timestamp(0), GlobalWindow())]
    pieces += [w.value[1] for w in split.finish_bundle()]
    assert len(pieces) == 2
    state = Written()
    for piece in pieces:
        assert TEXT_ID.encode() not in PieceCoder().encode(piece)
        list(AdmitFirst(BOUND._limit, None).process((0, piece), state))
    assert TEXT_ID.encode() not in state.value
    assert len(state.value) == 8 + 9


class Written:
    """A state cell."""

    value: bytes | None = None

    def read(self):
        return self.value

    def write(self, value):
        self.value = value


# ---- end to end, and what it promises


@pytest.mark.parametrize("form", ["batches", "dicts"])
def test_end_to_end(form):
    plan = PrivacyPlan({"os": SURE}, keep=["time"])
    bound = BoundContributions("user", 2, window=10, event_time="time")
    job = bound | ldp_beam.Perturb(plan) | ldp_beam.Histogram("os", SURE, window=10, event_time="time")
    found = table(run(job, FORMS[form](EVENTS)))
    kept, os = set(first(2, EVENTS.to_pylist())), EVENTS["os"].to_pylist()
    expected = Counter((r["time"] // 10 * 10, os[r["n"]]) for r in EVENTS.to_pylist() if r["n"] in kept)
    counted = {(start, value): row.count for (start, _), rows in found.items() for value, row in rows.items()}
    assert counted == pytest.approx(expected)


def test_what_a_person_spends():
    m, other = RandomizedResponse(epsilon=0.3), RandomizedResponse(["a", "b", "c"], epsilon=0.2)
    plan = PrivacyPlan({"crashed": m, "os": other})
    bound = BoundContributions("user", 5, window="1d")
    assert bound.epsilon(plan) == 5 * (Fraction(0.3) + Fraction(0.2))
    assert bound.epsilon("1/3") == Fraction(5, 3)
    # any two sequences of 5 records, any reports: the likelihood ratio is at most worst_ratio^5 of both columns
    worst = (m.worst_ratio() * other.worst_ratio()) ** 5
    assert worst <= exp_below(bound.epsilon(plan)) < worst * (1 + Fraction(1, 10**15))
    # and by exhaustion for one column and 2 records
    (p_no, p_yes), (q_no, q_yes) = m.expected_parts()
    yes = {True: p_yes, False: q_yes}  # Pr[report yes | value]
    assert (p_no, q_no) == (p_yes, q_yes)

    def probability(reports, values):
        out = Fraction(1)
        for report, value in zip(reports, values, strict=True):
            out *= yes[value] if report else 1 - yes[value]
        return out

    pairs = [(a, b) for a in (False, True) for b in (False, True)]
    ratio = max(probability(r, v) / probability(r, w) for r in pairs for v in pairs for w in pairs)
    two = BoundContributions("user", 2, window="1d")
    assert m.worst_ratio() < ratio <= exp_below(two.epsilon(PrivacyPlan({"crashed": m})))


def test_the_blocks_of_the_guide_run_one_after_the_other(capsys):
    text = (Path(__file__).parents[2] / "docs" / "budget.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", text, re.DOTALL)
    assert len(blocks) > 3
    names: dict = {}
    for block, shown in blocks:
        exec(compile(block, "budget.md", "exec"), names)
        assert capsys.readouterr().out == shown
