"""Histogram and PrivateHistogram against counts made by numpy and the estimator's formula."""

import math
import typing
from datetime import UTC, date, datetime, timedelta, timezone

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, IntervalWindow, Sessions, SlidingWindows
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

import ldp_beam
from ldp_beam.elements.faults import OTHER_PLAN
from ldp_beam.estimates import _partials
from ldp_core import (
    Domain,
    DomainError,
    HadamardCountMeanSketch,
    HeavyHitters,
    Hybrid,
    InputError,
    LdpError,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    ReportError,
    UnaryEncoding,
)

from .helpers import SURE, SURE_BITS, SURE_BOOL, counters, debiased, run, run_with_result, stamped, table

VALUES = ["a", "b", "c"]
RR = RandomizedResponse(VALUES, epsilon=1.0)
BITS = UnaryEncoding(VALUES, epsilon=1.0)
N = 3000
RNG = np.random.default_rng(11)
REPORT = RNG.integers(0, 3, N)
VECTOR = RNG.random((N, 3)) < 0.4
TIME = RNG.integers(0, 600, N)
KEY = RNG.choice(["x", "y", "z"], N, p=[0.9, 0.09, 0.01])
FLAG = RNG.random(N) < 0.5
EVERYTHING = pa.table(
    {
        "rr": np.array(VALUES)[REPORT],
        "bits": pa.FixedSizeListArray.from_arrays(pa.array(VECTOR.reshape(-1)), 3),
        "t": TIME,
        "k": KEY,
        "f": FLAG,
    }
)


class Report(typing.NamedTuple):
    rr: str
    bits: list[bool]
    t: int
    k: str
    f: bool


def supports(column):
    return np.eye(3, dtype=bool)[REPORT] if column == "rr" else VECTOR


def check(rows, column, mechanism, places):
    """Rows are exactly what the formula gives for the records of each place: {place: bool[N]}."""
    found = table(rows)
    assert set(found) == set(places)
    for place, records in places.items():
        n = int(records.sum())
        support = supports(column)[records].sum(axis=0)
        counts = debiased(support, n, mechanism.p, mechanism.q)
        for value, count in zip(VALUES, counts, strict=True):
            row = found[place][value]
            assert row.n == n
            assert row.column == column
            assert math.isclose(row.count, count, rel_tol=1e-12, abs_tol=1e-9)
            assert math.isclose(row.frequency, count / n, rel_tol=1e-12, abs_tol=1e-12)
            p, q, clipped = mechanism.p, mechanism.q, min(max(count, 0), n)
            error = math.sqrt(clipped * p * (1 - p) + (n - clipped) * q * (1 - q)) / (p - q)
            assert math.isclose(row.standard_error, error, rel_tol=1e-9)
            assert row.low < count < row.high
            for end in (row.low, row.high):  # 1.96 standard errors of its own away (a score interval)
                variance = (end * p * (1 - p) + (n - end) * q * (1 - q)) / (p - q) ** 2
                assert math.isclose(abs(count - end), 1.959963984540054 * math.sqrt(variance), rel_tol=1e-9)
            assert (row.confidence, row.epsilon, row.fingerprint) == (0.95, 1.0, mechanism.fingerprint)
            assert row.pane_index == 0


def fixed(size, **by):
    """Place -> which records, for fixed windows and the given key columns."""
    places = {}
    for start in np.unique(TIME // size * size):
        inside = TIME // size * size == start
        for key in {tuple(k) for k in zip(*(c.tolist() for c in by.values()), strict=True)} if by else {()}:
            records = inside.copy()
            for column, value in zip(by.values(), key, strict=True):
                records &= column == value
            if records.any():
                texts = (str(v).lower() if isinstance(v, bool) else str(v) for v in key)
                places[float(start), float(start + size), *texts] = records
    return places


@pytest.mark.parametrize(("column", "mechanism"), [("rr", RR), ("bits", BITS)])
@pytest.mark.parametrize("chunk", [N, 100, 1])
def test_fixed_windows_by_keys(column, mechanism, chunk):
    if chunk == 1:
        batches = EVERYTHING.to_batches(max_chunksize=1)[:200]
        batches += EVERYTHING[200:].to_batches()
    else:
        batches = EVERYTHING.to_batches(max_chunksize=chunk)
    rows = run(ldp_beam.Histogram(column, mechanism, window="1m", event_time="t"), batches)
    check(rows, column, mechanism, fixed(60))
    rows = run(ldp_beam.Histogram(column, mechanism, window=60, event_time="t", by=["f", "k"]), batches)
    check(rows, column, mechanism, fixed(60, f=FLAG, k=KEY))
    assert {tuple(row.key) for row in rows} == {("f", "k")}


@pytest.mark.parametrize("column", ["rr", "bits"])
def test_sliding_windows(column):
    mechanism = {"rr": RR, "bits": BITS}[column]
    window = SlidingWindows(100, 40, offset=10)
    rows = run(ldp_beam.Histogram(column, mechanism, window=window, event_time="t"), [EVERYTHING])
    starts = np.arange(-200, 601, 40) + 10
    places = {(float(s), float(s + 100)): (s <= TIME) & (s + 100 > TIME) for s in starts}
    check(rows, column, mechanism, {place: records for place, records in places.items() if records.any()})


@pytest.mark.parametrize("form", ["table", "chunked table", "dict", "row", "named tuple"])
@pytest.mark.parametrize(("column", "mechanism"), [("rr", RR), ("bits", BITS)])
def test_all_forms_of_elements_agree(form, column, mechanism):
    records = EVERYTHING.to_pylist()
    elements = {
        "table": [EVERYTHING],
        "chunked table": [pa.concat_tables([EVERYTHING[:1700], EVERYTHING[1700:]])],
        "dict": records,
        "row": [beam.Row(**r) for r in records],
        "named tuple": [Report(**r) for r in records],
    }[form]
    rows = run(ldp_beam.Histogram(column, mechanism, window="5m", event_time="t", by=["k"]), elements)
    check(rows, column, mechanism, fixed(300, k=KEY))


@pytest.mark.parametrize(
    "kind", ["string", "large_string", "string_view", "dictionary", "packed", "chunked dictionary"]
)
def test_layouts_of_reports_made_elsewhere(kind):
    if kind == "packed":
        words = (VECTOR * np.array([1, 2, 4], np.uint64)).sum(axis=1, dtype=np.uint64)
        columns, column, mechanism = pa.FixedSizeListArray.from_arrays(pa.array(words), 1), "bits", BITS
    else:
        text = EVERYTHING["rr"].combine_chunks()
        column, mechanism = "rr", RR
        if kind == "chunked dictionary":  # chunks with different dictionaries, as Polars categoricals have
            columns = pa.chunked_array([text[:10].dictionary_encode(), text[10:].dictionary_encode()])
        else:
            columns = text.dictionary_encode() if kind == "dictionary" else text.cast(getattr(pa, kind)())
    rows = run(
        ldp_beam.Histogram(column, mechanism, window=60, event_time="t"), [pa.table({column: columns, "t": TIME})]
    )
    check(rows, column, mechanism, fixed(60))


def times(kind):
    base = datetime(1970, 1, 1, tzinfo=UTC)
    moments = [base + timedelta(seconds=int(t)) for t in TIME]
    return {
        "s": lambda: pa.array(TIME, pa.timestamp("s")),
        "ms": lambda: pa.array(TIME * 1000 + 999, pa.timestamp("ms", tz="Europe/Rome")),
        "us": lambda: pa.array(TIME * 10**6 + 999_999, pa.timestamp("us")),
        "ns": lambda: pa.array(TIME * 10**9 + 999_999_999, pa.timestamp("ns", tz="UTC")),
        "int32": lambda: pa.array(TIME, pa.int32()),
        "uint64": lambda: pa.array(TIME, pa.uint64()),
        "float32": lambda: pa.array(TIME, pa.float32()),
        "float": lambda: pa.array(TIME + 0.999),
        "datetime": lambda: moments,
        "naive": lambda: [m.replace(tzinfo=None) for m in moments],
        "zoned": lambda: [m.astimezone(timezone(timedelta(hours=5))) for m in moments],
        "Timestamp": lambda: [Timestamp(int(t)) for t in TIME],
        "number": (TIME + 0.999).tolist,
        "numpy": lambda: list(TIME),
    }[kind]()


ARROW_TIMES = ["s", "ms", "us", "ns", "int32", "uint64", "float32", "float"]
PYTHON_TIMES = ["datetime", "naive", "zoned", "Timestamp", "number", "numpy"]


@pytest.mark.parametrize("kind", ARROW_TIMES + PYTHON_TIMES)
def test_event_times(kind):
    column = times(kind)
    if isinstance(column, list):
        reports = EVERYTHING["rr"].to_pylist()
        elements = [{"rr": r, "t": t} for r, t in zip(reports, column, strict=True)]
    else:
        elements = [pa.table({"rr": EVERYTHING["rr"], "t": column})]
    check(run(ldp_beam.Histogram("rr", RR, window=60, event_time="t"), elements), "rr", RR, fixed(60))


@pytest.mark.parametrize("kind", ["date32", "date64", "python"])
def test_dates(kind):
    days = [date(1969, 12, 31), date(2024, 2, 29), date(2024, 2, 29)]
    if kind == "python":
        elements = [{"v": True, "d": day} for day in days]
    else:
        elements = [pa.table({"v": [True] * 3, "d": pa.array(days, getattr(pa, kind)())})]
    rows = table(run(ldp_beam.Histogram("v", SURE_BOOL, window="1d", event_time="d"), elements))
    leap = 19782 * 86400.0  # days from 1970-01-01 to 2024-02-29
    assert {p: r["true"].n for p, r in rows.items()} == {(-86400.0, 0.0): 1, (leap, leap + 86400): 2}


def test_times_before_the_epoch():
    batch = pa.table({"v": [True] * 2, "t": pa.array([-1, -999], pa.timestamp("ns"))})
    rows = table(run(ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t"), [batch]))
    assert [(place, r["true"].n) for place, r in rows.items()] == [((-10.0, 0.0), 2)]


@pytest.mark.parametrize("batched", [True, False])
def test_element_times_where_no_column_has_them(batched):
    rows = EVERYTHING.slice(0, 300)
    elements = rows.to_batches(max_chunksize=1) if batched else rows.to_pylist()
    source = stamped(zip(elements, TIME[:300].tolist(), strict=True))
    inside = np.arange(N) < 300
    places = {place: records & inside for place, records in fixed(60, k=KEY).items() if (records & inside).any()}
    check(run(ldp_beam.Histogram("rr", RR, window="1m", by=["k"]), source), "rr", RR, places)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize(
    "fn", [FixedWindows(60), SlidingWindows(60, 30), Sessions(2)], ids=lambda fn: type(fn).__name__
)
def test_the_inputs_own_windows(batched, fn):
    rows = EVERYTHING.slice(0, 200)
    elements = rows.to_batches(max_chunksize=1) if batched else rows.to_pylist()
    own = run(
        beam.WindowInto(fn) | ldp_beam.Histogram("rr", RR, by=["k"]),
        stamped(zip(elements, TIME.tolist()[:200], strict=True)),
    )
    ours = run(ldp_beam.Histogram("rr", RR, window=fn, event_time="t", by=["k"]), [rows])
    assert table(own) == table(ours)


def test_the_global_window():
    rows = run(ldp_beam.Histogram("rr", RR, event_time="t"), [EVERYTHING, EVERYTHING])
    assert {(row.window_start, row.window_end, row.n) for row in rows} == {(MIN_TIMESTAMP, MAX_TIMESTAMP, 2 * N)}
    assert [row.value for row in rows] == VALUES


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
        rows = run(ldp_beam.Histogram("v", SURE_BOOL, by=list(keys)), elements)
        assert sorted({tuple(row.key.values()) for row in rows}) == sorted(expected)
        assert {row.n for row in rows} == {1}


def test_partials_in_own_windows_are_timestamped_inside_them():
    fn = ldp_beam.Histogram("v", SURE_BOOL)._partial_tallies()
    fn.start_bundle()
    for t in (3, 4, 15, 1, 12):
        start = t // 10 * 10
        assert not list(fn.process({"v": True}, Timestamp(t), IntervalWindow(start, start + 10)))
    tallies = [(p.timestamp, *p.windows, p.value[1].n) for p in fn.finish_bundle()]
    assert tallies == [
        (Timestamp(1), IntervalWindow(0, 10), 3),
        (Timestamp(12), IntervalWindow(10, 20), 2),
    ]


def test_reports_stay_marked_with_their_plan_through_the_shuffle():
    events = [pa.table({"v": ["a", "c"]})]
    perturb = ldp_beam.Perturb(PrivacyPlan({"v": SURE}))
    rows = run(perturb | ldp_beam.Histogram("v", SURE), events)
    assert [round(row.count, 9) for row in rows] == [1, 0, 1]
    with pytest.raises(MechanismMismatchError):
        run(perturb | ldp_beam.Histogram("v", RR), events)


def test_many_groups_are_counted_in_pieces(monkeypatch):
    monkeypatch.setattr(_partials, "_CELLS", 10)  # three groups of three values at a time
    for column, mechanism in (("rr", RR), ("bits", BITS)):
        rows = run(ldp_beam.Histogram(column, mechanism, window=30, event_time="t", by="k"), [EVERYTHING])
        check(rows, column, mechanism, fixed(30, k=KEY))


def test_reports_of_a_plan_are_tallied():
    plan = PrivacyPlan({"os": SURE, "app": SURE_BITS}, keep=["t"])
    events = pa.record_batch({"os": ["a", "a", "b"], "app": ["c", "b", "c"], "t": [1, 2, 70]})
    for packed in (True, False):
        reports = plan.perturb(events, packed=packed)
        for column, truth in (("os", [2, 0, 0, 0, 1, 0]), ("app", [0, 1, 1, 0, 0, 1])):
            rows = run(ldp_beam.Histogram(column, plan[column], window="1m", event_time="t"), [reports])
            assert [round(row.count, 9) + 0 for row in sorted(rows, key=lambda r: (r.window_start, r.value))] == truth
        singles = run(ldp_beam.Perturb(plan, packed=packed), events.to_pylist())
        rows = run(ldp_beam.Histogram("app", SURE_BITS, window="1m", event_time="t"), singles)
        assert [row.n for row in rows] == [2, 2, 2, 1, 1, 1]


def test_another_mechanism_than_the_plans_is_refused():
    plan = PrivacyPlan({"os": RR}, keep=["t"])
    reports = plan.perturb(pa.record_batch({"os": ["a", "b"], "t": [1, 2]}))
    other = RandomizedResponse(VALUES, epsilon=1.5)
    with pytest.raises(MechanismMismatchError, match=RR.fingerprint):
        run(ldp_beam.Histogram("os", other), [reports])
    kept = RandomizedResponse([1, 2], epsilon=1.0)
    with pytest.raises(MechanismMismatchError, match="no reports"):
        run(ldp_beam.Histogram("t", kept), [reports])
    garbage = reports.replace_schema_metadata({"ldp.plan": "s3cr3t"})
    own = PrivacyPlan({"os": other}, keep=["t"]).perturb(pa.record_batch({"os": ["a"], "t": [1]}))
    good, dead = run(ldp_beam.Histogram("os", other).with_exception_handling(), [reports, garbage, own])
    assert {row.n for row in good} == {1}
    assert sorted(dead) == [("", OTHER_PLAN, 2), ("", OTHER_PLAN, 2)]
    assert not any("s3cr3t" in str(letter) for letter in dead)
    renamed = reports.rename_columns(["system", "t"])
    assert run(ldp_beam.Histogram("system", RR), [renamed])[0].n == 2


@pytest.mark.parametrize(
    ("batch", "error", "match"),
    [
        ({"t": [1]}, PlanError, "'v'"),
        ({"v": ["a"]}, PlanError, "'t'"),
        ({"v": [None], "t": [1]}, LdpError, "'v'"),
        ({"v": ["z"], "t": [1]}, ReportError, "'v'"),
        ({"v": [3], "t": [1]}, ReportError, "'v'"),
        ({"v": ["a", "b"], "t": [1, None]}, InputError, "'t': 1 of 2"),
        ({"v": ["a", "b", "c"], "t": [float("nan"), 1.0, 1e300]}, InputError, "'t': 2 of 3"),
        ({"v": ["a"], "t": ["noon"]}, LdpError, "'t'"),
        ({"v": ["a"], "t": [10**15]}, InputError, "'t': 1 of 1"),
    ],
)
@pytest.mark.parametrize("single", [False, True])
def test_unusable_reports_stop_the_pipeline(batch, error, match, single):
    records = pa.table(batch)
    transform = ldp_beam.Histogram("v", SURE, window=10, event_time="t")
    if single:
        error, match = LdpError, match.split(":")[0]  # a record without the key has a null there
    with pytest.raises(error, match=match):
        run(transform, records.to_pylist() if single else [records])


NOISY = {
    "v": ["a", "b", None, "a", "z", "c", None],
    "t": [1, None, 2, 3, 4, 15, None],
    "k": ["x", "x", "x", "y", "x", "x", "y"],
}


@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
@pytest.mark.parametrize("single", [False, True])
def test_dead_letters(kind, single):
    batch = pa.table(NOISY)
    transform = kind("v", SURE, window=10, event_time="t", by=["k"]).with_exception_handling()
    (rows, letters), result = run_with_result(transform, batch.to_pylist() if single else [batch])
    ns = {place: row["a"].n for place, row in table(rows.elements).items()}
    assert ns == {(0.0, 10.0, "x"): 1, (0.0, 10.0, "y"): 1, (10.0, 20.0, "x"): 1}
    odd = "not a report of this mechanism" if kind is ldp_beam.Histogram else "not in the domain"
    assert sorted(letters.elements) == [("t", "no event time", 1), ("v", odd, 1), ("v", "null", 2)]
    expected = {"records_read": 7, "dead_lettered": 4}
    assert counters(result) == (expected if kind is ldp_beam.Histogram else {**expected, "perturbed": 3})


def test_dead_letters_of_bit_vectors():
    words = pa.array([[1], [8], None, [7], [9]], pa.list_(pa.uint64(), 1))  # bit 3 is beyond three values
    good, letters = run(ldp_beam.Histogram("v", SURE_BITS).with_exception_handling(), [pa.table({"v": words})])
    assert {row.n for row in good} == {2}
    assert sorted(letters) == [("v", "not a report of this mechanism", 2), ("v", "null", 1)]
    singles = [{"v": v} for v in ([1], [8], None, [7], [9], [1, 2], "a", [True, False, True])]
    good, letters = run(ldp_beam.Histogram("v", SURE_BITS).with_exception_handling(), singles)
    assert {row.n for row in good} == {3}
    assert sum(letter.count for letter in letters) == 5


@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
def test_wholly_unusable_batches(kind):
    batches = [
        pa.table({"v": [1, 2], "t": [1, 1], "k": ["x", "x"]}),
        pa.table({"v": ["a"], "t": ["x"], "k": ["x"]}),
        pa.table({"t": [1], "k": ["x"]}),
        pa.table({"v": ["a"], "k": ["x"]}),
        pa.table({"v": ["a"], "t": [1]}),
        pa.table({"v": ["a"], "t": [1], "k": [[1]]}),
        pa.table({"v": pa.array([], pa.string()), "t": pa.array([], pa.int64()), "k": pa.array([], pa.string())}),
    ]
    transform = kind("v", SURE, window=10, event_time="t", by=["k"]).with_exception_handling()
    rows, letters = run(transform, batches)
    assert rows == []
    assert sorted(letters) == [
        ("k", "no such column", 1),
        ("k", "wrong type", 1),
        ("t", "no such column", 1),
        ("t", "wrong type", 1),
        ("v", "no such column", 1),
        ("v", "wrong type", 2),
    ]


def test_every_batch_and_lot_has_noise_of_its_own():
    mechanism = UnaryEncoding(list(range(64)), epsilon=0.01)
    batch = pa.table({"v": [0] * 50, "k": ["x"] * 50})
    elements = [batch, batch.set_column(1, "k", pa.array(["y"] * 50)), *({"v": 0, "k": "z"} for _ in range(50))]
    rows = table(run(ldp_beam.PrivateHistogram("v", mechanism, by=["k"]), elements))
    counts = {tuple(row.count for row in rows[place].values()) for place in rows}
    # 64 binomial(50, 1/2) counts agree with probability 0.08^64
    assert len(counts) == len(rows) == 3


@pytest.mark.parametrize("mechanism", [SURE, SURE_BITS])
@pytest.mark.parametrize("single", [False, True])
def test_private_histogram_of_sure_mechanisms_is_the_histogram(mechanism, single):
    elements = EVERYTHING.select(["rr", "t", "k"])
    elements = elements.to_pylist() if single else elements.to_batches(max_chunksize=700)
    (out,), result = run_with_result(
        ldp_beam.PrivateHistogram("rr", mechanism, window=60, event_time="t", by=["k"]), elements
    )
    found = table(out.elements)
    places = fixed(60, k=KEY)
    assert set(found) == set(places)
    for place, records in places.items():
        truth = np.bincount(REPORT[records], minlength=3)
        assert [round(found[place][v].count, 6) for v in VALUES] == truth.tolist()
    assert counters(result) == {"records_read": N, "perturbed": N}


@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse(VALUES, epsilon=1.0),
        UnaryEncoding(VALUES, epsilon=1.0),
        UnaryEncoding(VALUES, epsilon=1.0, variant="symmetric"),
        RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=2.0),
        UnaryEncoding(Domain(["a", "b"], unmatched="none"), epsilon=1.0),
    ],
    ids=["rr", "oue", "sue", "rr-other", "oue-none"],
)
def test_estimates_are_within_six_standard_errors(mechanism):
    n = 60_000
    rng = np.random.default_rng(2)
    code, minute = rng.choice(3, n, p=[0.7, 0.25, 0.05]), rng.integers(0, 3, n)
    batches = pa.table({"v": np.array(VALUES)[code], "t": minute * 60}).to_batches(max_chunksize=20_000)
    rows = run(ldp_beam.PrivateHistogram("v", mechanism, window="1m", event_time="t"), batches)
    truth = {(m * 60.0, v): int(((code == c) & (minute == m)).sum()) for m in range(3) for c, v in enumerate(VALUES)}
    assert len(rows) == 3 * mechanism.domain.size
    for row in rows:
        true = truth[row.window_start.micros / 1e6, "c" if row.value == "other" else row.value]
        assert row.n == int((minute == row.window_start.micros // 60_000_000).sum())
        # at most 9 values: 9 * 2e-9
        assert abs(row.count - true) < 6 * math.sqrt(mechanism.variance(row.n, true))


def test_sliding_windows_share_one_report_a_record():
    # two windows of the same records must have the same noise: perturbed once, then put in both
    batch = pa.table({"v": ["a", "b", "c"] * 1000, "t": [7] * 3000})
    rows = table(run(ldp_beam.PrivateHistogram("v", RR, window=SlidingWindows(10, 5), event_time="t"), [batch]))
    assert set(rows) == {(0.0, 10.0), (5.0, 15.0)}
    assert [rows[0.0, 10.0][v].count for v in VALUES] == [rows[5.0, 15.0][v].count for v in VALUES]


def test_intervals_are_configurable():
    rows = run(ldp_beam.Histogram("rr", RR, confidence=0.5, simultaneous=True), [EVERYTHING])
    expected = RR.estimate(RR.tally(EVERYTHING["rr"]), confidence=0.5, simultaneous=True)
    assert [row.low for row in rows] == expected.low.tolist()
    assert [row.high for row in rows] == expected.high.tolist()
    assert {row.confidence for row in rows} == {0.5}


@pytest.mark.parametrize(
    "options",
    [
        {"confidence": 1.0},
        {"confidence": None},
        {"by": ["v"]},
        {"by": ["k", "k"]},
        {"by": [3]},
        {"event_time": "v", "window": 5},
        {"event_time": 3, "window": 5},
        {"window": 0},
        {"allowed_lateness": -1, "window": 5},
        {"allowed_lateness": "soon", "window": 5},
        {"allowed_lateness": 5},
        {"accumulation_mode": AccumulationMode.DISCARDING},
        {"accumulation_mode": "x", "window": 5},
        {"trigger": "x", "window": 5},
    ],
)
@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
def test_bad_options_at_construction(options, kind):
    with pytest.raises(ParameterError):
        kind("v", SURE, **options)


NO_HISTOGRAM = {
    "number": Hybrid((0, 100), epsilon=1.0),
    "word": HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32),
    "page": Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75),
    "name": HeavyHitters(Prefixes("abc", 2), epsilon=2.0, rows=4, width=64),
}


@pytest.mark.parametrize("column", NO_HISTOGRAM)
def test_a_histogram_of_what_has_none_says_what_to_do_instead(column):
    with pytest.raises(ParameterError, match=r"a histogram needs a frequency oracle, .*HeavyHitters .*sketch\.over"):
        ldp_beam.Histogram(column, NO_HISTOGRAM[column])


@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
def test_a_mechanism_is_needed(kind):
    with pytest.raises(ParameterError):
        kind("v", "rr")
    with pytest.raises(TypeError):
        kind("v", SURE, 5)  # options are named


def test_reports_with_nulls_are_refused():
    with pytest.raises((ReportError, DomainError)):
        run(ldp_beam.Histogram("v", SURE), [pa.table({"v": ["a", None]})])
