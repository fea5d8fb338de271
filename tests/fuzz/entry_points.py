"""Every place where bytes come in, and what is done with what was read there.

An entry point makes a case of a random generator and takes it. It may refuse (`LdpError`) or succeed. All else is a
fault: another exception, a message that shows a value, a step with dead letters that ends, much memory, much time.
"""

import json
import random
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import FixedWindows, GlobalWindow
from apache_beam.utils.timestamp import Timestamp

import ldp_polars
from ldp_beam.elements.batches import Batch
from ldp_beam.elements.coders import AnyReportsCoder, RecordBatchCoder, TallyCoder
from ldp_beam.elements.ids import IdHash, NoiseKey
from ldp_beam.estimates._partials import PerturbAndTally, TallyReports
from ldp_beam.estimates.combine import AccumulatorCoder, TallyCombineFn
from ldp_beam.io import ReadReports
from ldp_beam.io._files import ReadFileDoFn
from ldp_beam.io._kafka_source import OffsetRangeCoder
from ldp_beam.io.events import EventSchema, EventsDoFn, check_file, with_json_types
from ldp_beam.io.messages import Decoder, decode, encode
from ldp_beam.persons._limits import AdmitFirst, SplitByPerson
from ldp_beam.persons._seen import Seen
from ldp_beam.persons.transforms import BoundContributions
from ldp_beam.perturb import _PerturbDoFn
from ldp_beam.time.times import EventTime
from ldp_core import (
    Keyed,
    LdpError,
    Limits,
    LocalHashing,
    Mechanism,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    Tally,
    UnaryEncoding,
)
from ldp_core.arrays.ipc import write_batch
from ldp_core.plans.plan import METADATA_KEY, plan_of
from ldp_core.plans.provenance import NAME, check_made_by, describe, described
from ldp_report import RESULTS, about, read_results, report_page

from ..core.examples import DRAWN, EVERY, noise_for
from .mutations import SECRET, edited_bytes, edited_table, odd_column

SMALL = Limits(rows=1 << 14, bytes=1 << 22, row_group_bytes=1 << 22, line_bytes=1 << 12)
"""Limits that a case reaches without much work."""


class LeakError(Exception):
    """A message shows a value of the data."""


class EndedError(Exception):
    """A step that has dead letters has ended."""


@dataclass(frozen=True)
class EntryPoint:
    """What is called with broken input.

    Args:
        case: makes a case.
        take: takes it.
    """

    case: Callable[[random.Random], Any]
    take: Callable[[Any], Any]


ENTRY_POINTS: dict[str, EntryPoint] = {}


def entry_point(case: Callable[[random.Random], Any]) -> Callable[[Any], Any]:
    def register(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
        ENTRY_POINTS[take.__name__] = EntryPoint(case, take)
        return take

    return register


def quiet(run: Callable[[], Any]) -> Any:
    """What ``run`` returns, or None if it refuses."""
    try:
        return run()
    except LdpError as error:
        if SECRET in str(error):
            raise LeakError from None
        return None


# ---- what is done with batches

RR = RandomizedResponse(["a", "b", "c"], epsilon=1.0)
OUE = UnaryEncoding(["a", "b", "c"], epsilon=1.0)
INTEGERS = RandomizedResponse(range(5), epsilon=1.0)
PLAN = PrivacyPlan({"v": RR, "w": OUE}, keep=["t"])
KEY = Secret(bytes(32))
EVENTS = pa.record_batch(
    {
        "v": ["a", "b", "c", SECRET] * 2,
        "w": ["a", "b", None, "b"] * 2,
        "t": pa.array([0, 1, 2, None] * 2, pa.timestamp("us", "UTC")),
        "id": [1, 2, 3, 4] * 2,
    }
)
GOOD = EVENTS.slice(0, 2)
REPORTS = [PLAN.perturb(GOOD), PLAN.perturb(GOOD, packed=True)]
OTHER_BATCHES = [
    EVENTS,
    *REPORTS,
    pa.record_batch({"v": pa.array(["a", None, SECRET], pa.string_view()), "w": pa.nulls(3), "t": [0.5, None, 1.0]}),
    pa.record_batch(
        {"v": pa.array(["a", "b"]).dictionary_encode(), "w": [[True, False, True]] * 2, "id": ["x", SECRET]}
    ),
    pa.record_batch({"v": pa.array([{"a": [1, 2]}, None]), "w": pa.array([["a"], None]), "t": pa.array([1, 2])}),
    pa.record_batch({"v": pa.RunEndEncodedArray.from_arrays(pa.array([3]), ["a"]), "t": [1, 2, 3]}),
]


@cache
def _typed(mechanism: Mechanism) -> pa.Field:
    kind = mechanism.reports.arrow_type()
    metadata = {"ARROW:extension:name": NAME, "ARROW:extension:metadata": describe(mechanism, seeded=False)}
    return pa.field("v", kind, metadata=metadata)


TYPED = pa.record_batch([OUE.perturb(pa.array(["a", "b"]))], schema=pa.schema([_typed(OUE)]))
TIMES: dict[str, Any] = {
    "windows": FixedWindows(10),
    "event_time": EventTime("t"),
    "by": ("id",),
    "dead_letter_tag": "dead",
}
STEPS = [
    lambda: TallyReports("v", RR, windows=None, event_time=EventTime(None), by=(), dead_letter_tag="dead"),
    lambda: TallyReports("w", OUE, **TIMES),
    lambda: TallyReports("v", OUE, windows=None, event_time=EventTime(None), by=("w", "t"), dead_letter_tag="dead"),
    lambda: TallyReports("w", LocalHashing(["a", "b"], epsilon=1.0), **{**TIMES, "by": ()}),
    lambda: PerturbAndTally("v", RR, **TIMES),
    lambda: PerturbAndTally("w", OUE, **TIMES, key=NoiseKey(KEY, "id")),
    lambda: PerturbAndTally("v", INTEGERS, **{**TIMES, "by": ("w",)}),
    lambda: _PerturbDoFn(PLAN, False, None, "dead"),
    lambda: _PerturbDoFn(PLAN, True, NoiseKey(KEY, "id"), "dead"),
    lambda: _Limited(),  # noqa: PLW0108 (which comes below)
]


class _Limited:
    """Both steps of a limit."""

    def __init__(self) -> None:
        limit = BoundContributions("id", per_window=1, window=10, event_time="t")._limit
        self._split, self._admit = SplitByPerson(limit, "dead"), AdmitFirst(limit, "dead")

    def process(self, element: Any, timestamp: Any, window: Any) -> Any:
        for out in self._split.process(element, timestamp, window):
            if isinstance(out, TaggedOutput):
                yield out
            else:
                yield from self._admit.process(out.value, _Cell())


class _Cell:
    def read(self) -> None:
        return None

    def write(self, value: bytes) -> None:
        Seen.from_bytes(value)


def through_the_steps(batch: pa.RecordBatch, steps: list[Callable[[], Any]] = STEPS) -> None:
    """A pipeline with dead letters goes on, whatever a batch holds; each record is in its results or a dead letter."""
    for make in steps:
        step = make()
        try:
            for out in step.process(batch, Timestamp(0), GlobalWindow()) or ():
                if isinstance(out, TaggedOutput) and SECRET in repr(out.value):
                    raise LeakError
        except LdpError as error:
            raise EndedError(f"{type(step).__name__}: {type(error).__name__}") from error


def look_at(batch: pa.RecordBatch) -> None:
    quiet(lambda: plan_of(batch.schema))
    for at in range(batch.num_columns):
        quiet(lambda at=at: check_made_by(batch.schema.field(at), OUE))
        column = batch.column(at)
        for m in (RR, OUE, INTEGERS):
            quiet(lambda m=m, column=column: m.tally(column))
            quiet(lambda m=m, column=column: m.perturb(column))
        quiet(lambda column=column: Keyed(KEY, column, column="x"))
    through_the_steps(batch)


# ---- messages

MESSAGES = [encode(batch) for batch in (*OTHER_BATCHES, TYPED)]
MESSAGES += [encode(batch, compression="zstd") for batch in (EVENTS, REPORTS[1])]
MESSAGES += [encode(REPORTS[0], compression="lz4")]
for _bomb in (
    pa.Array.from_buffers(pa.null(), 2**31 - 1, [None]),
    pa.Array.from_buffers(pa.binary(0), 2**30, [None, pa.py_buffer(b"")]),
    pa.Array.from_buffers(pa.struct([]), 2**30, [None]),
    pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), ["a"]),
):
    MESSAGES.append(encode(pa.record_batch({"v": _bomb})))
MESSAGES.append(encode(pa.record_batch({"v": pa.array(np.zeros(10**7, np.uint8))}), compression="zstd"))


@entry_point(lambda rng: edited_bytes(rng, MESSAGES))
def arrow_messages(message: bytes) -> None:
    batch = quiet(lambda: decode(message, limits=SMALL))
    if batch is not None:
        if not batch.num_rows <= SMALL.rows:
            raise MemoryError
        look_at(batch)


@entry_point(lambda rng: [edited_bytes(rng, MESSAGES) for _ in range(3)])
def polls_of_messages(messages: list[bytes]) -> None:
    for decoded in Decoder("arrow", limits=SMALL).decode(messages):
        for batch in decoded.batches:
            batch.validate(full=True)
            quiet(lambda batch=batch: [RR.tally(column) for column in batch.columns])


@entry_point(lambda rng: edited_bytes(rng, MESSAGES[:-1]))
def coders_of_batches(message: bytes) -> None:
    quiet(lambda: RecordBatchCoder().decode(message))
    quiet(lambda: AnyReportsCoder().decode(message + b"A"))


LINES = [
    b'{"v": "a", "w": "b", "t": "2024-01-01T00:00:00Z", "id": 1}\n{"v": "' + SECRET.encode() + b'"}\n',
    b'{"v": "c", "x": [1, {"y": null}]}\n\n{"id": 9223372036854775807}\n{"t": 5}\nnull\n[]\n' * 3,
    b"[" * 3000 + b"\n" + b'{"v":' * 3000,
    b"{}\n" * 300,
]
SCHEMA = pa.schema([("v", pa.string()), ("w", pa.string()), ("t", pa.timestamp("us", "UTC")), ("id", pa.int64())])


@entry_point(lambda rng: edited_bytes(rng, LINES))
def ndjson_messages(message: bytes) -> None:
    for decoded in Decoder("ndjson", SCHEMA, SMALL).decode([message]):
        for batch in decoded.batches:
            through_the_steps(batch)


# ---- files


def _parquet(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([batch]), sink, **options)
    return sink.getvalue().to_pybytes()


_TEXTS = {"v": "DELTA_BYTE_ARRAY", "w": "DELTA_LENGTH_BYTE_ARRAY"}
PARQUET = [
    *(_parquet(EVENTS), _parquet(REPORTS[1]), _parquet(REPORTS[0], compression="zstd"), _parquet(TYPED)),
    _parquet(EVENTS, compression="none", use_dictionary=False, column_encoding=_TEXTS),
    _parquet(EVENTS, compression="zstd", use_dictionary=False, column_encoding=_TEXTS, data_page_version="2.0"),
]
CSV = [
    b"v,w,t,id\na,b,2024-01-01T00:00:00,1\n" + SECRET.encode() + b',"b\nb",x,y\n"",NA,,\n',
    b"t,id,v,w\n1,2,3\n" * 3,
]
FORMATS = {"parquet": PARQUET, "csv": CSV, "ndjson": LINES}
TELEMETRY = EventSchema.of(PrivacyPlan({"v": RR, "w": OUE}), "t", ("id",))


def a_file(rng: random.Random) -> tuple[str, bytes]:
    name = rng.choice(list(FORMATS))
    content = edited_bytes(rng, FORMATS[name])
    if name != "parquet" and rng.random() < 0.2:
        import gzip

        return f"{name}.gz", edited_bytes(rng, [gzip.compress(content)])
    return name, content


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Where files are, in memory if there is such a place."""
    return tempfile.TemporaryDirectory(prefix="ldp-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def _written(case: tuple[str, bytes]) -> str:
    path = Path(folder().name) / f"events.{case[0]}"
    path.write_bytes(case[1])
    return str(path)


@entry_point(a_file)
def watched_files(case: tuple[str, bytes]) -> None:
    for out in ReadFileDoFn(SCHEMA, "dead", SMALL).process(_written(case)):
        if isinstance(out, pa.RecordBatch):
            through_the_steps(out)


@entry_point(a_file)
def files_of_the_command(case: tuple[str, bytes]) -> None:
    path = _written(case)
    if quiet(lambda: (check_file(path, TELEMETRY), True)) is None:
        return
    for out in EventsDoFn(with_json_types(TELEMETRY, [path]), "dead").process(path):
        if isinstance(out, TaggedOutput) and SECRET in repr(out.value):
            raise LeakError


@entry_point(lambda rng: edited_bytes(rng, PARQUET))
def plans_in_parquet(content: bytes) -> None:
    quiet(lambda: ldp_polars.read_plan(_written(("parquet", content))))
    quiet(lambda: ReadReports(_written(("parquet", content))))


ESTIMATE = {"value": SECRET, "count": 1.5, "low": float("nan"), "high": 2.0, "n": 3, "key": "x", "pane_index": 1}
WINDOW = {"window_start": "1970-01-01T00:00:00Z", "window_end": "1970-01-02"}
TABLES = [[{**ESTIMATE, **WINDOW}] * 3, [{"mean": 2.5, "low": 1.0, "high": 4.0, "n": 9, "country": SECRET}]]
ESTIMATES = {
    "parquet": [_parquet(pa.RecordBatch.from_pylist(rows)) for rows in TABLES],
    "csv": [
        b"value,count,low,high,n,window_start,window_end\n" + SECRET.encode() + b",1,0,2,3,1970-01-01,1970-01-02\n"
    ],
    "ndjson": [json.dumps(row).encode() + b"\n" for rows in TABLES for row in rows]
    + [b'{"column": "v", "reason": "late", "count": 3}\n'],
    "json": [about(PLAN, 0.95).encode()],
}


def a_file_of_results(rng: random.Random) -> tuple[str, bytes]:
    kind = rng.choice(list(ESTIMATES))
    return kind, edited_bytes(rng, ESTIMATES[kind])


@entry_point(a_file_of_results)
def files_of_estimates(case: tuple[str, bytes]) -> None:
    kind, content = case
    with tempfile.TemporaryDirectory(dir=folder().name) as results:
        Path(results, RESULTS if kind == "json" else f"v.{kind}").write_bytes(content)
        if kind == "json":
            Path(results, "v.ndjson").write_bytes(ESTIMATES["ndjson"][0])
        page = quiet(lambda: report_page(read_results(results)))
        if page is not None and page.count("<script") != page.count("</script>"):
            raise LeakError


# ---- plans and mechanisms

MECHANISMS = [m.to_dict() for m in EVERY.values()]
PLANS = [
    PLAN.to_dict(),
    PrivacyPlan.split({"os": ["ios", "android"], "n": range(7)}, epsilon=2.0).to_dict(),
    PrivacyPlan.sampled({"os": ["ios", "android"], "n": range(7)}, epsilon=2.0).seeded(7).to_dict(),
    PrivacyPlan.fake({"os": ["ios", "android"], "n": range(7)}, epsilon=2.0, priors={"os": [0.3, 0.7]}).to_dict(),
    *[PrivacyPlan({"x": m}).to_dict() for name, m in EVERY.items() if name not in DRAWN],
]
PLAN_TEXTS = [json.dumps(plan).encode() for plan in PLANS]
PLAN_TEXTS += [b'{"columns":{"x":' + b"[" * 2000, b'{"a":' * 2000, b'{"keep":[' + b"9" * 5000 + b"]}"]


@entry_point(lambda rng: edited_table(rng, MECHANISMS))
def tables_of_mechanisms(table: Any) -> None:
    m = quiet(lambda: Mechanism.from_dict(table))
    if m is not None:
        quiet(lambda: use(m))


def use(m: Mechanism) -> None:
    """What is asked of a mechanism as soon as it is there."""
    repr(m), m.title, m.reports.arrow_type(), m.counters, m.inputs.summary, m.realized_epsilon
    if Mechanism.from_dict(m.to_dict()).fingerprint != m.fingerprint:
        raise AssertionError("another mechanism")


@entry_point(lambda rng: edited_table(rng, PLANS, MECHANISMS))
def tables_of_plans(table: Any) -> None:
    plan = quiet(lambda: PrivacyPlan.from_dict(table))
    if plan is not None:
        use_plan(plan)


def use_plan(plan: PrivacyPlan) -> None:
    repr(plan), plan.epsilon, plan.fingerprint, plan.explain(1000)
    if quiet(lambda: PrivacyPlan.from_json(plan.to_json())) not in (plan, None):
        raise AssertionError("another plan")
    quiet(lambda: PrivacyPlan.from_toml(plan.to_toml()))


@entry_point(lambda rng: edited_bytes(rng, PLAN_TEXTS))
def plans_in_metadata(text: bytes) -> None:
    plan = quiet(lambda: plan_of(pa.schema([], {METADATA_KEY: text})))
    if plan is not None:
        use_plan(plan)


TOML = [PrivacyPlan.from_dict(plan).to_toml().encode() for plan in PLANS]
TOML += [b"a = [" + b"[" * 2000, b"a." * 2000 + b"b = 1\n", b"keep = 0x" + b"f" * 5000, b"[[columns]]\nx=1979-05-27\n"]


@entry_point(lambda rng: edited_bytes(rng, TOML).decode(errors="replace") + "\n")
def plans_in_toml(text: str) -> None:
    plan = quiet(lambda: PrivacyPlan.from_toml(text))
    if plan is not None:
        use_plan(plan)


TYPES = [describe(m, seeded=seeded).encode() for m in EVERY.values() for seeded in (False, True)]
TYPES += [b"[" * 2000, b'{"answer":' * 2000, b"9" * 5000]


@entry_point(lambda rng: edited_bytes(rng, TYPES).decode(errors="surrogateescape"))
def metadata_of_types(text: str) -> None:
    quiet(lambda: described(text))
    with suppress(UnicodeEncodeError):  # Arrow's own, of names that are none
        field_ = pa.field("v", pa.bool_(), metadata={"ARROW:extension:name": NAME, "ARROW:extension:metadata": text})
        quiet(lambda: check_made_by(field_, OUE))


@entry_point(lambda rng: edited_bytes(rng, TYPES).decode(errors="replace"))
def typed_columns_of_polars(text: str) -> None:
    metadata = {"ARROW:extension:name": NAME, "ARROW:extension:metadata": text}
    schema = pa.schema([pa.field("v", pa.bool_(), metadata=metadata)])
    frame = pl.DataFrame(pa.table([pa.array([True, False])], schema=schema))
    str(frame), frame.schema
    quiet(lambda: frame.select(pl.col("v").ldp.tally()))
    quiet(lambda: frame.select(pl.col("v").ldp.tally(RR, assume_reports=True)))
    quiet(lambda: frame.select(pl.col("v").ldp.perturb(RR)))
    quiet(lambda: ldp_polars.histograms(frame, PrivacyPlan({"v": RandomizedResponse(epsilon=1.0)})))


# ---- tallies and states

TALLIES = [m.empty_tally().to_bytes() for m in (RR, OUE)]
TALLIES += [
    RR.tally(RR.perturb(["a", "b"] * 500)).to_bytes(),
    Tally(2**40, np.full(3, 2**35), RR.fingerprint).to_bytes(),
]
TALLY_TABLES = [Tally.from_bytes(data).to_dict() for data in TALLIES]


@entry_point(lambda rng: edited_bytes(rng, TALLIES))
def bytes_of_tallies(data: bytes) -> None:
    tally = quiet(lambda: TallyCoder().decode(data))
    accumulator = quiet(lambda: AccumulatorCoder().decode(data))
    if tally is not None:
        quiet(lambda: RR.estimate(tally))
        quiet(lambda: tally + tally + Tally.from_bytes(TALLIES[2]))
        combine = TallyCombineFn(RR)
        quiet(lambda: combine.add_input(combine.create_accumulator(), tally))
        quiet(lambda: combine.merge_accumulators([combine.create_accumulator(), accumulator]).tally())


@entry_point(lambda rng: edited_table(rng, TALLY_TABLES))
def tables_of_tallies(table: Any) -> None:
    tally = quiet(lambda: Tally.from_dict(table))
    if tally is not None:
        quiet(lambda: RR.estimate(tally))


_TALLY_FRAME = (
    pl.DataFrame({"r": ["a", "b"] * 20, "k": [1, 2] * 20})
    .with_columns(ldp_polars.perturb("r", RR))
    .group_by("k")
    .agg(ldp_polars.tally("r", RR))
)


_TALLY_TYPE = pa.struct([("n", pa.int64()), ("counters", pa.list_(pa.int64(), 3)), ("fingerprint", pa.string())])
_OTHER_TYPES = [
    pa.struct([("n", pa.int64()), ("counters", pa.list_(pa.int64())), ("fingerprint", pa.large_string())]),
    pa.struct([("n", pa.float64()), ("counters", pa.list_(pa.int64(), 2)), ("fingerprint", pa.string())]),
    pa.struct([("n", pa.int64()), ("counters", pa.int64())]),
    pa.null(),
]


def a_tally_column(rng: random.Random) -> pl.Series:
    rows = [edited_table(rng, TALLY_TABLES) for _ in range(rng.choice((0, 1, 3)))]
    kind = _TALLY_TYPE if rng.random() < 0.8 else rng.choice(_OTHER_TYPES)
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):  # rows of which there is no column
        return pl.Series("r", pa.array(rows, kind))
    return _TALLY_FRAME["r"]


@entry_point(a_tally_column)
def tally_columns_of_polars(tallies: pl.Series) -> None:
    frame = pl.DataFrame({"r": tallies})
    quiet(lambda: frame.select(ldp_polars.merge("r", RR)))
    quiet(lambda: frame.select(ldp_polars.histogram("r", RR, assume_reports=True)))


SEEN = [
    Seen.nobody(limit).admit(np.arange(1, n + 1, dtype=np.uint64), limit)[1].to_bytes()
    for limit in (1, 300)
    for n in (1, 20)
]


@entry_point(lambda rng: edited_bytes(rng, SEEN))
def states_of_who_was_seen(data: bytes) -> None:
    seen = quiet(lambda: Seen.from_bytes(data))
    if seen is not None:
        passes, after = seen.admit(np.array([1, 1, 2, 900], np.uint64), 2)
        if passes[:2].sum() > 2 or not (after.counts >= 1).all():
            raise AssertionError("more than the limit")


@entry_point(lambda rng: edited_bytes(rng, [bytes(7) + b"\5" + bytes(7) + b"\t", b"\xff" * 16]))
def checkpoints_of_kafka(data: bytes) -> None:
    offsets = quiet(lambda: OffsetRangeCoder().decode(data))
    if offsets is not None and OffsetRangeCoder().encode(offsets) != data:
        raise AssertionError("another checkpoint")


# ---- columns of any type


@entry_point(lambda rng: (rng.choice(list(EVERY)), odd_column(rng)))
def columns_of_any_type(case: tuple[str, pa.Array]) -> None:
    name, column = case
    m = EVERY[name]
    quiet(lambda: m.perturb(column, randomness=noise_for(m, len(column))))
    quiet(lambda: m.perturb(column, randomness=noise_for(m, len(column)), packed=True))
    quiet(lambda: m.tally(column))
    quiet(lambda: m.inputs.refuses(column))
    quiet(lambda: Keyed(KEY, column, column="x"))
    with suppress(pa.ArrowInvalid):
        quiet(lambda: m.tally(pa.chunked_array([column, column])))


@entry_point(lambda rng: {name: odd_column(rng) for name in ("v", "w", "t", "id")})
def batches_of_any_type(columns: dict[str, pa.Array]) -> None:
    n = min(map(len, columns.values()))
    batch = pa.record_batch({name: column.slice(0, n) for name, column in columns.items()})
    quiet(lambda: Batch(batch, Timestamp(0), GlobalWindow()).texts("v"))
    quiet(lambda: IdHash("id").of(Batch(batch, Timestamp(0), GlobalWindow())))
    through_the_steps(batch)


# ---- large ones, of which the cost in proportion to their bytes is looked at


def _in_each_other(rng: random.Random) -> pa.Array:
    """A column of dictionaries, runs, lists and structs in each other."""
    array = pa.array(["a", "b"])
    for _ in range(rng.randrange(20)):
        kind, n = rng.randrange(4), len(array)
        if kind == 0 and not pa.types.is_dictionary(array.type):
            array = pa.DictionaryArray.from_arrays(pa.array(np.arange(n, dtype=np.int8)), array)
        elif kind == 1 and not pa.types.is_run_end_encoded(array.type):
            array = pa.RunEndEncodedArray.from_arrays(pa.array(np.arange(1, n + 1, dtype=np.int32)), array)
        elif kind == 2:
            array = pa.StructArray.from_arrays([array], ["a"])
        else:
            array = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), array)
    return array


def _many_texts(rng: random.Random, k: int) -> pa.Array:
    """A column of k texts, or of k that share long ones."""
    made = pa.array(["x" * rng.choice((1, 9, 4000))] * rng.choice((1, 20))).dictionary_encode()
    shared = pa.DictionaryArray.from_arrays(pa.array(np.zeros(k, np.int32)), made.dictionary)
    views = pa.array([SECRET * 9] * k, pa.string_view())
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(np.arange(1, k + 1, dtype=np.int32)), pa.array(["a"] * k))
    return rng.choice((shared, views, runs, pa.array([[1]] * k), pa.array([f"{i}" for i in range(k)])))


def _columns(columns: list[pa.Array], metadata: Any = None) -> bytes:
    """A message of one row of each."""
    fields = [pa.field(f"{i:x}", column.type) for i, column in enumerate(columns)]
    batch = pa.RecordBatch.from_arrays([column.slice(0, 1) for column in columns], schema=pa.schema(fields, metadata))
    return write_batch(batch)


def _plan_of_many(rng: random.Random, k: int) -> dict[str, str]:
    of = rng.sample(MECHANISMS, 3)
    columns = {f"{i:x}": {**rng.choice(of), "epsilon": rng.random()} for i in range(k)}
    return {METADATA_KEY: json.dumps({"keep": [], "columns": columns})}


def _labels(rng: random.Random, k: int) -> list[Any]:
    return list(range(k)) if rng.random() < 0.5 else [f"v{i}" for i in range(k)]


def _long_mechanism(rng: random.Random, k: int) -> dict[str, Any]:
    table = {**rng.choice(MECHANISMS)}
    if isinstance(table.get("domain"), list):
        table["domain"] = _labels(rng, k)
    if rng.random() < 0.2:
        answer = {"mechanism": "randomized_response", "epsilon": 1.0, "domain": _labels(rng, k)}
        prior = [rng.random() for _ in range(k)]
        table = {"mechanism": "fake_data_column", "columns": 2, "answer": answer, "prior": prior}
        table |= {"domain": answer["domain"], "epsilon": 1.0}
    return table


LARGE: tuple[Callable[[random.Random, int], tuple[Callable[[Any], Any], Any]], ...] = (
    lambda rng, _: (messages_in_a_job, _columns([_in_each_other(rng) for _ in range(rng.choice((1, 1, 20)))])),
    lambda rng, k: (messages_in_a_job, encode(pa.record_batch({"v": _many_texts(rng, k)}))),
    lambda rng, k: (messages_in_a_job, _columns([rng.choice((pa.array([True]), pa.array(["a"])))] * k)),
    lambda rng, k: (messages_in_a_job, _columns([pa.array([True])] * min(k, 500), _plan_of_many(rng, k))),
    lambda rng, k: (tables_of_mechanisms, _long_mechanism(rng, k)),
    lambda rng, k: (ndjson_messages, b'{"v": "a", "t": 5}\n' * k),
    lambda rng, k: (ndjson_messages, json.dumps({f"{i:x}": i for i in range(k)}).encode() + b"\n"),
    lambda rng, k: (bytes_of_tallies, Tally(1, np.zeros(k, np.int64), RR.fingerprint).to_bytes()),
    lambda rng, k: (
        texts_in_toml,
        rng.choice(("a = [" + "1, " * k + "]\n", "[a]\n" + "x = [[]]\n" * k, "[[b]]\n" * k)),
    ),
    lambda rng, k: (metadata_of_types, describe(UnaryEncoding(_labels(rng, k), epsilon=1.0), seeded=False)),
)


def messages_in_a_job(message: bytes) -> None:
    """Read, and tallied by group."""
    batch = quiet(lambda: decode(message, limits=SMALL))
    if batch is not None:
        through_the_steps(batch, STEPS[2:3])


def texts_in_toml(text: str) -> None:
    quiet(lambda: PrivacyPlan.from_toml(text))


@entry_point(lambda rng: rng.choice(LARGE)(rng, rng.choice((30, 300, 3000, 10_000))))
def large_cases(case: tuple[Callable[[Any], Any], Any]) -> None:
    take, given = case
    take(given)


# ---- the server


def a_request(rng: random.Random) -> Any:
    from .http_requests import a_request as made  # the extra may be missing

    return made(rng)


@entry_point(a_request)
def requests_to_the_server(case: tuple[dict[str, Any], list[Any]]) -> None:
    from .http_requests import answer_to

    status, body = answer_to(folder().name, *case)
    if not 200 <= status < 500:
        raise EndedError(f"status {status}")
    if SECRET.encode() in body:
        raise LeakError
    if status >= 400 and case[0]["method"] not in ("HEAD", "OPTIONS"):
        words = json.loads(body)["error"]
        if not (isinstance(words, str) and 10 < len(words) < 5000):
            raise AssertionError("no words of ours")
