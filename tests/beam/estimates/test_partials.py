"""Partial tallies: whatever the records come in, each window and key has its own, exactly as numpy counts them.

The DoFn is called without a pipeline; that Beam's windows and sums do the rest is tested in `test_transforms`.
"""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from uuid import UUID

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, IntervalWindow, Sessions, SlidingWindows
from apache_beam.transforms.window import TimestampedValue as At
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_beam.elements.faults import OTHER_PLAN, UNSAID
from ldp_beam.estimates import _partials
from ldp_core import (
    DomainError,
    InputError,
    LdpError,
    LocalHashing,
    MechanismMismatchError,
    OneBitMean,
    ParameterError,
    Piecewise,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
    UnaryEncoding,
)

from ...cases import each
from ..helpers import SURE, SURE_BITS, SURE_BOOL, assumed, drive
from .driven import (
    EVERYTHING,
    FLAG,
    KEY,
    MECHANISMS,
    RR,
    TIME,
    VALUES,
    VECTOR,
    N,
    Report,
    check_tallies,
    merged,
    places,
    tallied,
)

KINDS = [ldp_beam.Histogram, ldp_beam.PrivateHistogram]
columns = each("column", MECHANISMS)


def tallies(*arguments, **options):
    found, dead = tallied(*arguments, **options)
    assert dead == []
    return found


# ---- forms and layouts


@columns
@each("chunk", [N, 100, 1])
@pytest.mark.slow
def test_fixed_windows_by_keys(column, chunk):
    batches = EVERYTHING.to_batches(max_chunksize=chunk)[:200]
    batches += EVERYTHING[sum(batch.num_rows for batch in batches) :].to_batches()
    m = MECHANISMS[column]
    check_tallies(tallies(ldp_beam.Histogram(column, m, window="1m", event_time="t"), batches), column, places(60))
    by_two = ldp_beam.Histogram(column, m, window=60, event_time="t", by=["f", "k"])
    check_tallies(tallies(by_two, batches), column, places(60, f=FLAG, k=KEY))


@columns
@each("form", ["table", "chunked table", "dict", "row", "named tuple"])
def test_all_forms_of_elements_agree(form, column):
    records = EVERYTHING.to_pylist()
    elements = {
        "table": [EVERYTHING],
        "chunked table": [pa.concat_tables([EVERYTHING[:1700], EVERYTHING[1700:]])],
        "dict": records,
        "row": [beam.Row(**r) for r in records],
        "named tuple": [Report(**r) for r in records],
    }[form]
    histogram = ldp_beam.Histogram(column, MECHANISMS[column], window="5m", event_time="t", by=["k"])
    check_tallies(tallies(histogram, elements), column, places(300, k=KEY))


@each("kind", ["string", "large_string", "string_view", "dictionary", "packed", "chunked dictionary"])
def test_layouts_of_reports_made_elsewhere(kind):
    if kind == "packed":
        words = (VECTOR * np.array([1, 2, 4], np.uint64)).sum(axis=1, dtype=np.uint64)
        reports, column = pa.FixedSizeListArray.from_arrays(pa.array(words), 1), "bits"
    else:
        text, column = EVERYTHING["rr"].combine_chunks(), "rr"
        if kind == "chunked dictionary":  # chunks with different dictionaries, as Polars categoricals have
            reports = pa.chunked_array([text[:10].dictionary_encode(), text[10:].dictionary_encode()])
        else:
            reports = text.dictionary_encode() if kind == "dictionary" else text.cast(getattr(pa, kind)())
    histogram = ldp_beam.Histogram(column, MECHANISMS[column], window=60, event_time="t")
    check_tallies(tallies(histogram, [pa.table({column: reports, "t": TIME})]), column, places(60))


def test_keys_of_all_kinds():
    keys = {
        "i": pa.array([1, 1, None, 2]),
        "d": pa.array(["p", None, "p", "p"]).dictionary_encode(),
        "b": [True, False, None, True],
        "w": pa.array(["q", "q", "q", "r"], pa.string_view()),
    }
    batch = pa.table({"v": [True] * 4, **keys})
    expected = [
        ("1", "p", "true", "q"),
        ("1", "null", "false", "q"),
        ("null", "p", "null", "q"),
        ("2", "p", "true", "r"),
    ]
    for elements in ([batch], batch.to_pylist()):
        found = tallies(ldp_beam.Histogram("v", SURE_BOOL, by=list(keys)), elements)
        assert sorted(key for _, _, *key in found) == sorted(map(list, expected))
        assert {tally.n for tally in found.values()} == {1}


class Letter(str, Enum):  # noqa: UP042 (as older code has it)
    X = "x"


def test_a_key_has_one_text():
    """Of whatever type and unit a batch has it, and in single records."""
    hour, half = datetime(2026, 1, 1, 5), datetime(2026, 1, 1, 5, 0, 10, 500_000)
    utc, nat = hour.replace(tzinfo=UTC), pytest.importorskip("pandas").NaT
    aware = [utc, utc.astimezone(timezone(timedelta(hours=3))), Timestamp.from_utc_datetime(utc)]
    cases = [
        (
            "2026-01-01 05:00:00",
            [hour, np.datetime64(hour, "h"), np.datetime64(hour)],
            [*map(pa.timestamp, ("s", "ms", "us", "ns"))],
        ),
        ("2026-01-01 05:00:10.5", [half, np.datetime64(half, "ns")], [*map(pa.timestamp, ("ms", "us", "ns"))]),
        ("2026-01-01 05:00:00Z", aware, [pa.timestamp("s", "UTC"), pa.timestamp("us", "+03:00")]),
        ("2026-01-01", [hour.date(), *map(np.datetime64, ("2026-01-01", "2026-01"))], [pa.date32(), pa.date64()]),
        ("05:00:00", [hour.time()], [pa.time32("s"), pa.time64("us")]),
        ("0:00:10", [timedelta(seconds=10), np.timedelta64(10, "s")], [pa.duration("s"), pa.duration("ns")]),
        ("10", [10.0, np.float32(10), Decimal("10.00")], [pa.int8(), pa.float16(), pa.float64(), pa.decimal128(9, 2)]),
        (
            "0.5",
            [0.5, np.float16(0.5), Decimal("0.50")],
            [
                pa.float16(),
                pa.float32(),
                pa.float64(),
                *(of(9, 2) for of in (pa.decimal32, pa.decimal64, pa.decimal128)),
            ],
        ),
        ("1e-07", [1e-7], [pa.float64()]),
        ("18446744073709549568", [2.0**64 - 2048], [pa.float64()]),
        ("0", [-0.0, Decimal("0E-10"), Decimal("-0.0")], [pa.float64(), pa.int64(), pa.decimal128(12, 10)]),
        ("100", [Decimal("1E+2")], [pa.decimal128(3), pa.int64()]),
        ("nan", [float("nan")], [pa.float32()]),
        ("x", [b"x", Letter.X], [pa.binary(), pa.large_binary(), pa.binary(1), pa.string()]),
        ("\\xff", [b"\xff"], [pa.binary(), pa.large_binary(), pa.binary(1)]),  # as one broken message of many has it
        ("1.50", ["1.50"], [pa.string()]),
        ("null", [None, np.datetime64("NaT"), np.timedelta64("NaT"), nat], [pa.timestamp("ns")]),
    ]
    for text, values, types in cases:
        singles = [{"v": True, "k": value} for value in values]
        batches = [pa.record_batch({"v": [True], "k": pa.array(values[:1]).cast(of)}) for of in types]
        for element in (*singles, *batches):
            ((_, _, key),) = tallies(ldp_beam.Histogram("v", SURE_BOOL, by="k"), [element])
            assert key == text, element
    of_one = UUID(int=5)
    ids = pa.array([of_one.bytes], pa.uuid())
    batches = [pa.record_batch({"v": [True], "k": k}) for k in (ids, pa.DictionaryArray.from_arrays([0], ids))]
    found = tallies(ldp_beam.Histogram("v", SURE_BOOL, by="k"), [*batches, {"v": True, "k": of_one}])
    assert [(key, tally.n) for (_, _, key), tally in found.items()] == [(str(of_one), 3)]


@columns
def test_many_groups_are_counted_in_pieces(column, monkeypatch):
    monkeypatch.setattr(_partials, "_CELLS", 10)  # three groups of three values at a time
    histogram = ldp_beam.Histogram(column, MECHANISMS[column], window=30, event_time="t", by="k")
    check_tallies(tallies(histogram, [EVERYTHING]), column, places(30, k=KEY))


# ---- times and windows


def times(kind, time):
    base = datetime(1970, 1, 1, tzinfo=UTC)
    moments = [base + timedelta(seconds=int(t)) for t in time]
    return {
        "s": lambda: pa.array(time, pa.timestamp("s")),
        "ms": lambda: pa.array(time * 1000 + 999, pa.timestamp("ms", tz="Europe/Rome")),
        "us": lambda: pa.array(time * 10**6 + 999_999, pa.timestamp("us")),
        "ns": lambda: pa.array(time * 10**9 + 999_999_999, pa.timestamp("ns", tz="UTC")),
        "int32": lambda: pa.array(time, pa.int32()),
        "uint64": lambda: pa.array(time, pa.uint64()),
        "float32": lambda: pa.array(time, pa.float32()),
        "float": lambda: pa.array(time + 0.999),
        "datetime": lambda: moments,
        "naive": lambda: [m.replace(tzinfo=None) for m in moments],
        "zoned": lambda: [m.astimezone(timezone(timedelta(hours=5))) for m in moments],
        "Timestamp": lambda: [Timestamp(int(t)) for t in time],
        "number": (time + 0.999).tolist,
        "numpy": lambda: list(time),
    }[kind]()


ARROW_TIMES = ["s", "ms", "us", "ns", "int32", "uint64", "float32", "float"]
PYTHON_TIMES = ["datetime", "naive", "zoned", "Timestamp", "number", "numpy"]


@each("kind", ARROW_TIMES + PYTHON_TIMES)
def test_event_times(kind):
    n = 300
    reports, column = EVERYTHING["rr"][:n], times(kind, TIME[:n])
    if isinstance(column, list):
        elements = [{"rr": r, "t": t} for r, t in zip(reports.to_pylist(), column, strict=True)]
    else:
        elements = [pa.table({"rr": reports, "t": column})]
    check_tallies(tallies(ldp_beam.Histogram("rr", RR, window=60, event_time="t"), elements), "rr", places(60, n))


@each("kind", ["date32", "date64", "python"])
def test_dates(kind):
    days = [date(1969, 12, 31), date(2024, 2, 29), date(2024, 2, 29)]
    if kind == "python":
        elements = [{"v": True, "d": day} for day in days]
    else:
        elements = [pa.table({"v": [True] * 3, "d": pa.array(days, getattr(pa, kind)())})]
    found = tallies(ldp_beam.Histogram("v", SURE_BOOL, window="1d", event_time="d"), elements)
    leap = 19782 * 86400.0  # days from 1970-01-01 to 2024-02-29
    assert {place: tally.n for place, tally in found.items()} == {(-86400.0, 0.0): 1, (leap, leap + 86400): 2}


def test_times_before_the_epoch():
    batch = pa.table({"v": [True] * 2, "t": pa.array([-1, -999], pa.timestamp("ns"))})
    found = tallies(ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t"), [batch])
    assert {place: tally.n for place, tally in found.items()} == {(-10.0, 0.0): 2}
    tenths = [-1e-7, -3.0, 0.0]  # of a microsecond, which was cut off towards 1970, into the window after it
    for elements in ([pa.table({"v": [True] * 3, "t": tenths})], [{"v": True, "t": t} for t in tenths]):
        found = tallies(ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t"), elements)
        assert {place: tally.n for place, tally in found.items()} == {(-10.0, 0.0): 2, (0.0, 10.0): 1}


@each("batched", [True, False])
def test_element_times_where_no_column_has_them(batched):
    rows = EVERYTHING[:300]
    elements = rows.to_batches(max_chunksize=1) if batched else rows.to_pylist()
    stamped = [At(element, time) for element, time in zip(elements, TIME.tolist()[:300], strict=True)]
    found = tallies(ldp_beam.Histogram("rr", RR, window="1m", by=["k"]), stamped)
    check_tallies(found, "rr", places(60, 300, k=KEY))


@each("batched", [True, False])
def test_partials_in_own_windows_are_timestamped_inside_them(batched):
    records = [{"v": True}] * 5
    elements = [pa.RecordBatch.from_pylist([r]) for r in records] if batched else records
    stamped = [At(element, t) for element, t in zip(elements, (3, 4, 15, 1, 12), strict=True)]
    told = [assumed(element, {"v": SURE_BOOL}) for element in stamped]
    partials, _ = drive(ldp_beam.Histogram("v", SURE_BOOL)._partial_tallies(), told, FixedWindows(10))
    found = [(p.timestamp, *p.windows, p.value[1].n) for p in partials]
    first, second = IntervalWindow(0, 10), IntervalWindow(10, 20)
    if batched:
        at = [(3, first), (4, first), (15, second), (1, first), (12, second)]
        assert found == [(Timestamp(t), window, 1) for t, window in at]
    else:
        assert found == [(Timestamp(1), first, 3), (Timestamp(12), second, 2)]


@each(
    "fn",
    [
        FixedWindows(20),
        FixedWindows(20, offset=7),
        SlidingWindows(20, 8),
        SlidingWindows(3, 10),
        Sessions(5),
        Sessions(1),
        Sessions(0.25),
    ],
)
@each("seed", [0, 1])
@pytest.mark.filterwarnings("ignore:the records between")
def test_every_window_has_the_records_that_beam_puts_there(fn, seed):
    rng = np.random.default_rng(seed)
    # whole quarters of seconds, so that gaps of exactly the session's gap occur
    times = np.sort(rng.integers(0, 800, 150))[rng.permutation(150)] / 4
    keys = rng.choice(["x", "y"], 150)
    truth = per_record(times.tolist(), keys.tolist(), fn)
    everything = pa.table({"v": rng.choice(VALUES, 150), "t": times, "k": keys})
    histogram = ldp_beam.Histogram("v", SURE, window=fn, event_time="t", by=["k"])
    for cut in (150, 40, 7):  # one batch, some, many
        found = tallies(histogram, everything.to_batches(max_chunksize=cut))
        assert {place: tally.n for place, tally in found.items()} == truth


def per_record(times, keys, fn):
    """The truth, from Beam's WindowFn: n of each window and key, one record after the other."""
    out = {}
    for key in set(keys):
        windows = [w for time, k in zip(times, keys, strict=True) if k == key for w in assigned(fn, time)]
        into = merged(fn, windows)
        for window in (into.get(w, w) for w in windows):
            place = (window.start.micros / 1e6, window.end.micros / 1e6, key)
            out[place] = out.get(place, 0) + 1
    return out


def assigned(fn, time):
    return fn.assign(beam.transforms.window.WindowFn.AssignContext(Timestamp(time)))


# ---- values, perturbed and tallied at once


def test_every_batch_and_lot_has_noise_of_its_own():
    mechanism = UnaryEncoding(list(range(64)), epsilon=0.01)
    batch = pa.table({"v": [0] * 50, "k": ["x"] * 50})
    elements = [batch, batch.set_column(1, "k", pa.array(["y"] * 50)), *({"v": 0, "k": "z"} for _ in range(50))]
    found = tallies(ldp_beam.PrivateHistogram("v", mechanism, by=["k"]), elements)
    # 64 binomial(50, 1/2) counts agree with probability 0.08^64
    assert len({tuple(tally.counters.tolist()) for tally in found.values()}) == len(found) == 3


def test_sliding_windows_share_one_report_a_record():
    # two windows of the same records must have the same noise: perturbed once, then put in both
    batch = pa.table({"v": ["a", "b", "c"] * 1000, "t": [7] * 3000})
    found = tallies(ldp_beam.PrivateHistogram("v", RR, window=SlidingWindows(10, 5), event_time="t"), [batch])
    assert set(found) == {(0.0, 10.0), (5.0, 15.0)}
    assert found[0.0, 10.0] == found[5.0, 15.0]


# ---- what is refused


def test_another_mechanism_than_the_plans_is_refused():
    plan = PrivacyPlan({"os": RR}, keep=["t"])
    reports = plan.perturb(pa.record_batch({"os": ["a", "b"], "t": [1, 2]}))
    other = RandomizedResponse(VALUES, epsilon=1.5)
    with pytest.raises(MechanismMismatchError, match=RR.fingerprint):
        tallies(ldp_beam.Histogram("os", other), [reports])
    kept = RandomizedResponse([1, 2], epsilon=1.0)
    with pytest.raises(MechanismMismatchError, match="no reports"):
        tallies(ldp_beam.Histogram("t", kept), [reports])
    garbage = reports.replace_schema_metadata({"ldp.plan": "s3cr3t"})
    own = PrivacyPlan({"os": other}, keep=["t"]).perturb(pa.record_batch({"os": ["a"], "t": [1]}))
    found, dead = tallied(ldp_beam.Histogram("os", other).with_exception_handling(), [reports, garbage, own])
    assert [tally.n for tally in found.values()] == [1]
    assert sorted(dead) == [("", OTHER_PLAN, 2), ("", OTHER_PLAN, 2)]
    assert not any("s3cr3t" in str(letter) for letter in dead)
    # anybody may send a batch that says its noise is keyed: without handling an error of the job, else a dead letter
    keyed = plan.perturb(pa.record_batch({"os": ["a"], "t": [1]}), key=Secret(b"s3cr3t" * 6), id=[1])
    with pytest.raises(ParameterError, match="say repeats=1"):
        tallies(ldp_beam.Histogram("os", RR), [keyed])
    found, dead = tallied(ldp_beam.Histogram("os", RR).with_exception_handling(), [reports, keyed])
    assert [tally.n for tally in found.values()] == [2]
    assert dead == [("", UNSAID, 1)]
    renamed = reports.rename_columns(["system", "t"])
    assert [tally.n for tally in tallies(ldp_beam.Histogram("system", RR), [renamed]).values()] == [2]


@each(
    ("batch", "error", "match"),
    [
        ({"t": [1]}, PlanError, "'v'"),
        ({"v": ["a"]}, PlanError, "'t'"),
        ({"v": [None], "t": [1]}, LdpError, "'v'"),
        ({"v": ["a", None], "t": [1, 1]}, (ReportError, DomainError), "'v'"),
        ({"v": ["z"], "t": [1]}, ReportError, "'v'"),
        ({"v": [3], "t": [1]}, ReportError, "'v'"),
        ({"v": ["a", "b"], "t": [1, None]}, InputError, "'t': 1 of 2"),
        ({"v": ["a", "b", "c"], "t": [float("nan"), 1.0, 1e300]}, InputError, "'t': 2 of 3"),
        ({"v": ["a"], "t": ["noon"]}, LdpError, "'t'"),
        ({"v": ["a"], "t": [10**15]}, InputError, "'t': 1 of 1"),
    ],
)
@each("single", [False, True])
def test_unusable_reports_are_refused(batch, error, match, single):
    records = pa.table(batch)
    transform = ldp_beam.Histogram("v", SURE, window=10, event_time="t")
    if single:
        error, match = LdpError, match.split(":")[0]  # a record without the key has a null there
    with pytest.raises(error, match=match):
        tallies(transform, records.to_pylist() if single else [records])


NOISY = pa.table(
    {
        "v": ["a", "b", None, "a", "z", "c", None],
        "t": [1, None, 2, 3, 4, 15, None],
        "k": ["x", "x", "x", "y", "x", "x", "y"],
    }
)
ODD = {ldp_beam.Histogram: "not a report of this mechanism", ldp_beam.PrivateHistogram: "not in the domain"}


@each("kind", KINDS)
@each("single", [False, True])
def test_dead_letters(kind, single):
    transform = kind("v", SURE, window=10, event_time="t", by=["k"]).with_exception_handling()
    found, letters = tallied(transform, NOISY.to_pylist() if single else [NOISY])
    ns = {place: tally.n for place, tally in found.items()}
    assert ns == {(0.0, 10.0, "x"): 1, (0.0, 10.0, "y"): 1, (10.0, 20.0, "x"): 1}
    assert sorted(letters) == [("t", "no event time", 1), ("v", ODD[kind], 1), ("v", "null", 2)]


def test_a_value_that_arrow_cannot_take_leaves_the_others_their_counts():
    for kind, mechanism, odd in (("float", OneBitMean((0, 1), epsilon=1.0), 2**53 + 1), ("str", SURE, "\ud800")):
        estimate = ldp_beam.Estimate("v", mechanism, private=True).with_exception_handling()
        good = 1 if kind == "float" else "a"
        found, letters = tallied(estimate, [{"v": value} for value in (good, odd, good)])
        assert ([tally.n for tally in found.values()], letters) == ([2], [("v", f"not of type {kind}", 1)])


def test_dead_letters_of_bit_vectors():
    histogram = ldp_beam.Histogram("v", SURE_BITS).with_exception_handling()
    words = pa.array([[1], [8], None, [7], [9]], pa.list_(pa.uint64(), 1))  # bit 3 is beyond three values
    found, letters = tallied(histogram, [pa.table({"v": words})])
    assert [tally.n for tally in found.values()] == [2]
    assert sorted(letters) == [("v", "not a report of this mechanism", 2), ("v", "null", 1)]
    singles = [{"v": v} for v in ([1], [8], None, [7], [9], [1, 2], "a", [True, False, True])]
    found, letters = tallied(histogram, singles)
    assert [tally.n for tally in found.values()] == [3]
    assert sum(letter.count for letter in letters) == 5


def test_a_float_is_no_report_that_is_an_integer():
    """Arrow would cut 10.7 to 10; and 2^53 + 1 has become 2^53 where words have been floats."""
    floats = [10.7, 1.0, np.float32(1), Decimal(1)]
    for mechanism, one, odd in (
        (RandomizedResponse([1, 2, 3], epsilon=1.0), 1, floats),
        (LocalHashing(range(9), epsilon=9.0), 1, floats),
        (Piecewise((0, 10), epsilon=1.0), 1, floats),
        (UnaryEncoding(range(100), epsilon=1.0), [2**60, 1], [[2.0**60, 1], np.array([1.0, 2.0]), (1, Decimal(2))]),
    ):
        estimate = ldp_beam.Estimate("v", mechanism).with_exception_handling()
        found, letters = tallied(estimate, [{"v": value} for value in (one, *odd, one)])
        assert [tally.n for tally in found.values()] == [2]
        assert letters == [("v", "not a report of this mechanism", len(odd))]


@each("kind", KINDS)
def test_wholly_unusable_batches(kind):
    # of which Python has no decimal: its error ended the job
    odd_scale = pa.Array.from_buffers(pa.decimal128(10, -50), 1, [None, pa.py_buffer(b"\1" + bytes(15))])
    batches = [
        pa.table({"v": [1, 2], "t": [1, 1], "k": ["x", "x"]}),
        pa.table({"v": ["a"], "t": ["x"], "k": ["x"]}),
        pa.table({"t": [1], "k": ["x"]}),
        pa.table({"v": ["a"], "k": ["x"]}),
        pa.table({"v": ["a"], "t": [1]}),
        pa.table({"v": ["a"], "t": [1], "k": [[1]]}),
        pa.table({"v": ["a"], "t": [1], "k": odd_scale}),
        pa.table({"v": pa.array([], pa.string()), "t": pa.array([], pa.int64()), "k": pa.array([], pa.string())}),
    ]
    transform = kind("v", SURE, window=10, event_time="t", by=["k"]).with_exception_handling()
    found, letters = tallied(transform, batches)
    assert found == {}
    assert sorted(letters) == [
        ("k", "no such column", 1),
        *[("k", "not of type text, number, Boolean or time", 1)] * 2,
        ("t", "no such column", 1),
        ("t", "not of type timestamp, date or number", 1),
        ("v", "no such column", 1),
        ("v", f"not of type {'string' if kind is ldp_beam.Histogram else 'str'}", 2),
    ]
