"""Units of numbers, times of unlikely years, and columns that are not there."""

from __future__ import annotations

from datetime import UTC, datetime

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

import ldp_beam
from ldp_beam.elements.batches import Batch, Record, RowBatch, times_of
from ldp_beam.time.times import EventTime
from ldp_core import ParameterError

from ..helpers import SURE_BOOL, Collector, counters

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = int(NEW_YEAR.timestamp())
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
HALF = 500_000


def test_numbers_in_each_unit():
    for unit, per_second in UNITS.items():
        whole, part = SECONDS * per_second, per_second // 2  # half a second later
        columns = [
            (pa.array([whole, whole + part]), [0, HALF if part else 0]),
            (pa.array([float(whole), whole + per_second / 2]), [0, HALF]),
            (pa.array([whole], pa.uint64()), [0]),
            (pa.array([NEW_YEAR], pa.timestamp("ms", "UTC")), [0]),  # has its own unit
            (pa.array([NEW_YEAR.date()]), [0]),
        ]
        for column, after in columns:
            values = column.to_pylist()
            for ones in (values, [np.float64(v) if isinstance(v, float) else v for v in values]):
                singles = RowBatch([Record({"t": value}, beam.utils.timestamp.Timestamp(0), None) for value in ones])
                for part_of in (Batch(pa.table({"t": column}), beam.utils.timestamp.Timestamp(0), None), singles):
                    assert (times_of(part_of, EventTime("t", unit)) - SECONDS * 10**6).tolist() == after


def windows(transform, elements):
    rows = Collector()
    with beam.Pipeline("FnApiRunner") as p:
        out = p | beam.Create(elements) | transform
        good = out[0] if isinstance(out, tuple) else out
        _ = good | rows.sink()
    return sorted({row.window_start.micros // 10**6 for row in rows.elements}), counters_with_odd(p.result)


def counters_with_odd(result):
    found = result.metrics().query(beam.metrics.MetricsFilter().with_name("odd_times"))["counters"]
    return {**counters(result), "odd_times": sum(c.committed for c in found)}


@pytest.mark.parametrize("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
@pytest.mark.parametrize("single", [True, False])
def test_milliseconds_as_seconds_are_said(kind, single, caplog):
    records = [{"v": True, "t": SECONDS * 1000 + i} for i in range(5)]
    elements = records if single else [pa.RecordBatch.from_pylist(records)]
    found, numbers = windows(kind("v", SURE_BOOL, window="1h", event_time="t", time_unit="ms"), elements)
    assert (found, numbers["odd_times"], caplog.messages) == ([SECONDS], 0, [])
    found, numbers = windows(kind("v", SURE_BOOL, window="1h", event_time="t"), elements)
    assert (len(found), numbers["odd_times"]) == (1, 5)
    [message] = [m for m in caplog.messages if "before 1990" in m]
    assert "time_unit='s'" in message
    assert str(SECONDS) not in message  # no value


def test_a_window_without_times_is_said(caplog):
    _, numbers = windows(ldp_beam.PrivateHistogram("v", SURE_BOOL, window="1h"), [{"v": True}])
    assert numbers["odd_times"] == 1
    assert any("event_time=" in message for message in caplog.messages)


def test_limits_know_units():
    for limit in (ldp_beam.BoundContributions("u", 1, window="1d", event_time="t", time_unit="ms"),):
        records = [{"u": 1, "v": True, "t": 1000 * (SECONDS + 3600 * hour)} for hour in range(30)]
        passed = Collector()
        with beam.Pipeline("FnApiRunner") as p:
            _ = p | beam.Create(records) | limit | passed.sink()
        assert len(passed.elements) == 2  # as seconds, each hour would be a day of its own


def test_other_units_are_refused():
    for unit in ("m", None, 1, "S"):
        with pytest.raises(ParameterError, match="time_unit must be one of 's', 'ms', 'us', 'ns'"):
            ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", time_unit=unit)


# ---- columns that are not there


def test_a_missing_column_is_called_missing():
    for make, kind in ((dict, ldp_beam.Histogram), (beam.Row, ldp_beam.PrivateHistogram)):
        records = [make(v=True, t=SECONDS) for _ in range(3)]
        for transform, column in (
            (kind("w", SURE_BOOL), "w"),
            (kind("v", SURE_BOOL, window="1h", event_time="time"), "time"),
            (ldp_beam.PrivateHistogram("v", SURE_BOOL, key=_secret, id="user"), "user"),
            (ldp_beam.BoundContributions("user", 1), "user"),
        ):
            with pytest.raises(Exception, match=f"there is no column '{column}' in any of 3 records"):
                windows(transform, records)
            letters = Collector()
            with beam.Pipeline("FnApiRunner") as p:
                _, dead = p | beam.Create(records) | transform.with_exception_handling()
                _ = dead | letters.sink()
            assert letters.elements == [(column, "no such column", 3)]


def _secret():
    from ldp_core import Secret

    return Secret.from_seed(1)


def test_a_record_without_the_column_among_others_has_no_such_column():
    letters = Collector()
    with beam.Pipeline("FnApiRunner") as p:
        records = [{"v": True}, {"v": None}, {}]
        _, dead = p | beam.Create(records) | ldp_beam.Histogram("v", SURE_BOOL).with_exception_handling()
        _ = dead | letters.sink()
    assert sorted(letters.elements) == [("v", "no such column", 1), ("v", "null", 1)]
