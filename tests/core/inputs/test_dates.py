"""Dates and times cut into cells, against Python's own calendar: what is taken, what is refused, what comes back."""

from __future__ import annotations

import datetime as dt
import pickle
from bisect import bisect_right
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import ldp_polars  # noqa: F401 (the namespace)
from ldp_core import (
    CdfEstimate,
    Dates,
    Domain,
    DomainError,
    DtypeError,
    HierarchicalHistogram,
    LocalHashing,
    Mechanism,
    MedianEstimate,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    RangeEstimate,
    ReportError,
    SubsetSelection,
    UnaryEncoding,
    recommend,
)
from ldp_core.auditing.inputs import inputs_of

from ...cases import case, each

DAY = dt.date.fromisoformat
TIME = dt.datetime.fromisoformat
MONTHS = Dates(DAY("2024-01-01"), DAY("2025-01-01"), every="1mo")
HOURS = Dates(TIME("2024-03-30T00:00"), TIME("2024-04-02T00:00"), every="1h")
ROME = ZoneInfo("Europe/Rome")

# hardly any noise
SURE = {
    "tree": HierarchicalHistogram(MONTHS, epsilon=80.0),
    "randomized response": RandomizedResponse(MONTHS, epsilon=80.0),
    "subsets": SubsetSelection(MONTHS, epsilon=80.0),
    "bits": UnaryEncoding(MONTHS, epsilon=120.0, variant="symmetric"),
}


def months(first: dt.date, count: int, step: int) -> list[dt.date]:
    numbers = [12 * first.year + first.month - 1 + step * k for k in range(count)]
    return [dt.date(n // 12, n % 12 + 1, 1) for n in numbers]


@each(
    ("domain", "starts"),
    [
        (MONTHS, months(DAY("2024-01-01"), 12, 1)),
        (Dates("1896-01-01", "1904-01-01", "1q"), months(DAY("1896-01-01"), 32, 3)),  # 1900 has no leap day
        (Dates("0001-01-01", "9999-01-01", "2y"), months(dt.date.min, 4999, 24)),
        (Dates("2024-02-27", "2024-03-05"), [DAY("2024-02-27") + dt.timedelta(k) for k in range(7)]),
        (Dates("1969-12-28", "1970-01-18", "1w"), [DAY("1969-12-28") + dt.timedelta(7 * k) for k in range(3)]),
        (Dates("9999-12-01", "9999-12-31", "15d"), [DAY("9999-12-01"), DAY("9999-12-16")]),
    ],
)
def test_each_day_is_in_the_cell_that_the_calendar_says(domain, starts):
    assert domain.arrow_values.to_pylist() == starts
    assert domain.texts == tuple(map(str, starts))
    last = DAY(domain.to_dict()["domain"]["high"]) - dt.timedelta(1)
    step = max((last - starts[0]).days // 3000, 1)
    days = [starts[0] + dt.timedelta(k) for k in range(0, (last - starts[0]).days + 1, step)]
    expected = [bisect_right(starts, day) - 1 for day in days]
    assert domain.encode(days).tolist() == expected
    assert domain.encode(pa.array(days)).tolist() == expected
    first, end = (side.to_pylist() for side in domain.ends)
    assert (first, end[-1]) == (starts, last)
    assert end[:-1] == [start - dt.timedelta(1) for start in starts[1:]]


def test_times_are_cut_at_the_microsecond():
    assert HOURS.arrow_type == pa.timestamp("us")
    edge, before = TIME("2024-03-30T05:00"), TIME("2024-03-30T04:59:59.999999")
    for unit in ("s", "ms", "us", "ns"):
        times = pa.array([before, edge], pa.timestamp("us")).cast(pa.timestamp(unit), safe=False)
        assert HOURS.encode(times).tolist() == [4, 5]
    assert HOURS.encode(["2024-03-30T04:59:59.999999999", "2024-03-30 05:00:00Z"]).tolist() == [4, 5]
    early = Dates("1969-12-31T23:00", "1970-01-01T01:00", "1h")  # a nanosecond before 1970 is not in 1970
    assert early.encode(np.array([-1, 0], "datetime64[ns]")).tolist() == [0, 1]


def test_values_of_any_origin_have_one_meaning():
    day, noon = DAY("2024-03-31"), TIME("2024-03-31T12:00")
    texts = ["2024-03-31", "2024-03-31T12:00:00Z"]
    columns = {
        "dates": [day],
        "a datetime": [noon, day],
        "aware": [noon.replace(tzinfo=dt.UTC)],
        "aware, and a day": [noon.replace(tzinfo=dt.UTC), day],
        "of numpy, in hours": [np.datetime64("2024-03-31T12", "h"), day],
        "texts": texts,
        "of numpy": [np.datetime64("2024-03-31"), np.datetime64("2024-03-31T12", "h")],
        "numpy text": np.array(texts),
        "date32": pa.array([day]),
        "date64": pa.array([day], pa.date64()),
        "Date": pl.Series([day]),
        "Datetime": pl.Series([noon], dtype=pl.Datetime("ns")),
        "Datetime of UTC": pl.Series([noon]).dt.replace_time_zone("UTC"),
        "Categorical": pl.Series(texts, dtype=pl.Categorical),
        "a dictionary of dates": pa.array([day]).dictionary_encode(),
        "large text": pa.array(texts, pa.large_string()),
        "views": pa.array(texts, pa.string_view()),
        **{unit: np.array(["2024-03-31T12"], f"datetime64[{unit}]") for unit in ("D", "h", "m", "s", "ms", "us", "ns")},
        "big-endian": np.array(["2024-03-31"], ">M8[D]"),
    }
    for name, column in columns.items():
        with case(name):
            assert set(MONTHS.encode(column).tolist()) == {2}
            assert set((HOURS.encode(column) // 24).tolist()) == {1}
            assert not MONTHS.refuses(column).any()
    assert MONTHS.encode(np.array(["2024-03"], "datetime64[M]")).tolist() == [2]
    assert MONTHS.encode([]).tolist() == []


def test_another_zone_is_converted_to_utc_or_for_days_refused():
    """In Rome it is 3:30 on the day when clocks skip from 2 to 3: 1:30 in UTC, and an hour later 2:30."""
    there = [dt.datetime(2024, 3, 31, hour, 30, tzinfo=ROME) for hour in (1, 3, 4)]
    series = pl.Series(there, dtype=pl.Datetime("us", "Europe/Rome"))
    texts = [time.isoformat() for time in there]
    for values in (there, series):
        assert HOURS.encode(values).tolist() == [24, 25, 26]
        with pytest.raises(DtypeError, match=r"days are of UTC, but the values' zone is Europe/Rome.*dt.date"):
            MONTHS.encode(values)
    assert MONTHS.refuses(texts).all()
    assert HOURS.refuses(texts).all()  # clients do not know zones
    assert MONTHS.encode(series.dt.date()).tolist() == [2, 2, 2]


@each("text", ["2024-06-01T10:00:00+02:00", "2024-06-01 10:00-0500", "1900-01-01T10:00+01:00"])
def test_a_text_of_another_zone_is_never_the_day_that_is_missing(text):
    ends = "2024-01-01", "2025-01-01", "1mo"
    for policy in ("error", "clip"):
        days = Dates(*ends, policy, missing="2024-05-05")
        assert days.refuses([text, None, "2024-06-01T10:00:00Z"]).tolist() == [True, False, False]
        with pytest.raises(DomainError, match=r"1 of 2 values .*\(0 of them null\).*another zone"):
            days.encode([text, "2024-06-01T10:00:00Z"])
    assert Dates(*ends, "other", missing="2024-05-05").encode([text, None, "no date"]).tolist() == [12, 4, 4]


@each(
    "value",
    [
        None, "", "x", "NaT", "2024-02-30", "2023-02-29", "2024-13-01", "2024-00-10", "2024-01-00", "0000-01-01",
        "9999-12-31", "10000-01-01", "-2024-01-01", "2024-1-1", "2024-W01", "20240101", "2024-06-01T24:00",
        "2024-06-01T00:60", "2024-06-01T00:00:60", "2024-06-01T",
        "2024-06-01T10", "2024-06-01 10:00", "2024-06-01\n", " 2024-06-01", "2024-06-01T00+24",
        "2025-01-01", "2023-12-31", "\u0662\u0660\u0662\u0664-01-01", dt.date.min, dt.date.max, dt.datetime.max,
        np.datetime64("NaT"), "2024-06-01T00:00+24:00",
    ],
)  # fmt: skip
def test_what_is_no_date_or_outside_is_refused(value):
    others = Dates("2024-01-01", "2025-01-01", "1mo", unmatched="other")
    bits = Dates("2024-01-01", "2025-01-01", "1mo", unmatched="none")
    assert MONTHS.refuses([value, "2024-06-01"]).tolist() == [True, False]
    assert others.encode([value, "2024-06-01"]).tolist() == bits.encode([value, "2024-06-01"]).tolist() == [12, 5]
    with pytest.raises(DomainError, match=r"column 'born': 1 of 2 values are not in the domain of 12") as caught:
        MONTHS.encode(["2024-06-01", value], column="born")
    assert not value or str(value) not in str(caught.value)


def test_arrays_of_far_times_and_of_none_are_refused():
    far = [2**62, -(2**62), 2**63 - 1, -(2**63) + 1]
    units = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us")
    columns = [np.array(far, f"datetime64[{unit}]") for unit in units]
    columns += [pa.array(far, pa.timestamp(unit)) for unit in ("s", "ms", "us")]
    columns += [pa.array([2**31 - 1, -(2**31)], pa.date32()), pa.array(far, pa.date64())]
    columns += [
        np.array(["NaT"], "datetime64[D]"),
        np.array(["NaT"], "datetime64"),
        pa.nulls(2, pa.date32()),
        pa.nulls(1),
    ]
    for column in columns:
        with case(getattr(column, "dtype", getattr(column, "type", None))):
            assert MONTHS.refuses(column).all()
            assert HOURS.refuses(column).all()
    for wrong in ([3], [True], [1.5], [b"2024-01-01"], pa.array([1], pa.time32("s")), np.array([1]), "2024-01-01"):
        with pytest.raises(DtypeError):
            MONTHS.encode(wrong)
    broken = pa.DictionaryArray.from_arrays(pa.array([7], pa.int8()), pa.array(["2024-01-01"]), safe=False)
    with pytest.raises(DomainError, match="bounds"):
        MONTHS.encode(broken)


def test_outside_is_clipped_and_nulls_count_as_a_date_only_if_asked():
    clip = Dates("2024-01-01", "2025-01-01", "1mo", unmatched="clip")
    days = ["1900-01-01", "2024-05-05", "2025-01-01", "9999-12-31"]
    assert clip.encode(days).tolist() == [0, 4, 11, 11]
    assert clip.outside(days).tolist() == [True, False, True, True]
    assert not clip.takes_nulls
    with pytest.raises(DomainError, match=r"1 of 1 values .*missing=, a date"):
        clip.encode([None])
    both = Dates("2024-01-01", "2025-01-01", "1mo", unmatched="clip", missing=DAY("2024-05-05"))
    assert both.encode([None, "no date", "1900-01-01"]).tolist() == [4, 4, 0]
    assert both.encode(np.array(["NaT"], "datetime64[s]")).tolist() == [4]
    assert both.takes_nulls
    assert Dates("2024-01-01", "2025-01-01", "1mo", missing="2024-05-05").refuses([None, "1900-01-01"]).tolist() == [
        False,
        True,
    ]
    assert inputs_of(RandomizedResponse(both, epsilon=1.0))[-1] is None
    assert None not in inputs_of(RandomizedResponse(clip, epsilon=1.0))


@each(
    ("arguments", "error", "says"),
    [
        (("2024-01-01", "2024-12-31", "1mo"), DomainError, "high of dates is where the last cell ends"),
        (("2024-01-02", "2025-01-02", "1mo"), DomainError, "begin with a month"),
        (("2024-01-01", "2025-01-01", "5mo"), DomainError, "a whole number of cells"),
        (("2024-01-01", "2024-01-16", "1w"), DomainError, "a whole number of cells"),
        (("2024-01-01", "2024-01-02", "1h"), DomainError, "those of days have whole days"),
        (("2024-01-01", "2024-01-01", "1d"), DomainError, "high of dates"),
        (("2025-01-01", "2024-01-01", "1d"), DomainError, "high of dates"),
        (("2024-01-01", "2024-02-01", "1mo"), DomainError, "2 to 65536 cells, got 1"),
        (("0001-01-01", "9999-12-31", "1d"), DomainError, "2 to 65536 cells, got 3652058"),
        (("2024-01-01T00:00", "2024-01-02", "1h"), DomainError, "two dates, or two datetimes"),
        (("0000-01-01", "2024-01-01", "1y"), DomainError, "low must be a date"),
        (("2023-02-29", "2024-01-01"), DomainError, "low must be a date"),
        ((2023, 2024, "1y"), DomainError, "low must be a date"),
        ((None, "2024-01-01"), DomainError, "low must be a date"),
        (("2024-01-01", "2025-01-01", "1mo+3d"), ParameterError, "every must be one length"),
        (("2024-01-01", "2025-01-01", 7), ParameterError, "every must be one length"),
        (("2024-01-01", "2025-01-01", "0d"), ParameterError, "longer than 0"),
        (("2024-01-01", "2025-01-01", "month"), ParameterError, "must be like"),
        (("2024-01-01", "2025-01-01", "1" * 50_000), ParameterError, "^.{,200}$"),  # (5,000 took a second each time)
        (("2024-01-01", "2025-01-01", "1mo", "cut"), DomainError, "unmatched must be"),
        (("2024-01-01", "2025-01-01", "1mo", "clip", "2025-01-01"), DomainError, "missing must be a date in"),
        (("2024-01-01", "2025-01-01", "1mo", "clip", "never"), DomainError, "missing must be a date"),
    ],
)
def test_ends_that_cannot_be_are_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        Dates(*arguments)


def test_a_domain_is_declared_once_whatever_its_spelling():
    assert MONTHS.to_dict() == {"domain": {"low": "2024-01-01", "high": "2025-01-01", "every": "1mo"}}
    assert HOURS.to_dict()["domain"] == {"low": "2024-03-30 00:00:00", "high": "2024-04-02 00:00:00", "every": "1h"}
    year, weeks, seconds = (
        ("2023", "2024"),
        ("2024-01-01", "2024-02-12"),
        ("2024-01-01T00:00:00", "2024-01-01T00:00:03"),
    )
    times = tuple(f"{end}T00" for end in weeks)
    same = [
        (weeks, "2w", "14d"), (times, "1d12h", "36h"), (times, "60m", "1h"), (times, dt.timedelta(hours=6), "6h"),
        (seconds, "1500ms", "1.5s"), (tuple(f"{end}-01-01" for end in year), "1q", "3mo"),
    ]  # fmt: skip
    for ends, one, other in same:
        with case(other):
            assert Dates(*ends, one) == Dates(*ends, other)
            assert Dates(*ends, one).to_dict() == Dates(*ends, other).to_dict()
    east = dt.timezone(dt.timedelta(hours=2))
    aware = Dates(dt.datetime(2024, 1, 1, 2, tzinfo=east), dt.datetime(2024, 1, 2, 2, tzinfo=east), "6h")
    assert aware == Dates("2024-01-01T00:00Z", "2024-01-02T00:00Z", "6h")
    different = [MONTHS, HOURS, aware, Domain(MONTHS.texts)]
    different += [
        Dates("2024-01-01", "2025-01-01", "1mo", **more) for more in ({"unmatched": "clip"}, {"missing": "2024-02-01"})
    ]
    different += [
        Dates("2024-01-01", "2024-03-01", "1mo"),
        Dates("2024-01-01", "2024-03-03", "31d"),
    ]  # of the same labels
    assert len(set(different)) == len(different)
    for domain in different[:-3]:
        assert pickle.loads(pickle.dumps(domain)) == domain
        m = RandomizedResponse(domain, epsilon=1.0)
        assert Mechanism.from_dict(m.to_dict()) == m
        assert PrivacyPlan.from_toml(PrivacyPlan({"x": m}).to_toml())["x"].fingerprint == m.fingerprint
    plan = PrivacyPlan.from_toml(
        '[columns.born]\nmechanism = "unary_encoding"\nepsilon = 1.0\n'
        'domain = {low = 2024-01-01, high = 2025-01-01, every = "1mo", missing = 2024-03-03}\n'
        '[columns.at]\nmechanism = "unary_encoding"\nepsilon = 1.0\n'
        'domain = {low = 2024-03-30T00:00:00Z, high = 2024-04-02T00:00:00, every = "1h"}\n'
    )
    assert plan["at"].domain == HOURS
    assert plan["born"].domain == Dates("2024-01-01", "2025-01-01", "1mo", missing="2024-03-03")
    born, at = (column["input"] for column in plan.compile()["columns"].values())
    assert (born["labels"][2], born["end"], born["missing"]) == ("2024-03-01", "2025-01-01", "2024-03-03")
    assert (at["labels"][1], at["end"], "missing" in at) == ("2024-03-30 01:00:00", "2024-04-02 00:00:00", False)
    with pytest.raises(PlanError, match="whole seconds"):
        PrivacyPlan({"at": RandomizedResponse(Dates(*seconds, "1500ms"), epsilon=1.0)}).compile()


def test_reports_are_cells_as_text_and_nothing_else_is_one():
    m = SURE["randomized response"]
    reports = m.perturb(pa.array([DAY("2024-02-29"), DAY("2024-12-31")]))
    assert reports.to_pylist() == ["2024-02-01", "2024-12-01"]
    assert reports.type == m.reports.arrow_type()
    assert m.perturb([DAY("2024-02-29")]).tolist() == ["2024-02-01"]
    assert m.tally(reports).counters.tolist() == [0, 1, *[0] * 9, 1]
    for wrong in (["2024-02-29"], [DAY("2024-02-01")], [None]):
        with pytest.raises(ReportError):
            m.tally(wrong)
    others = RandomizedResponse(Dates("2024-01-01", "2025-01-01", "1mo", unmatched="other"), epsilon=80.0)
    assert others.perturb(["2024-02-29", None]).tolist() == ["2024-02-01", "other"]
    assert others.domain.arrow_type == pa.string()


@each("name", SURE)
def test_answers_are_dates(name):
    m = SURE[name]
    born = [DAY("2024-01-01") + dt.timedelta(int(k) * 7 % 366) for k in np.arange(900) ** 2]
    people = pl.DataFrame({"born": born})
    reports = people.ldp.perturb(PrivacyPlan({"born": m}))
    column = pl.col("born").ldp
    histogram = reports.select(column.histogram()).explode("born").unnest("born")
    starts = people["born"].dt.truncate("1mo")
    expected = pl.DataFrame({"value": MONTHS.arrow_values.to_pylist()}).join(
        starts.value_counts(name="true"), left_on="value", right_on="born", how="left"
    )
    assert histogram.schema["value"] == pl.Date
    assert histogram["count"].round(3).to_list() == expected["true"].fill_null(0).to_list()

    def counted(low: str, high: str) -> int:
        return people.filter(pl.col("born").is_between(DAY(low), DAY(high))).height

    spring = reports.select(column.range(DAY("2024-03-01"), DAY("2024-05-31"))).unnest("born")
    assert spring["value"].item() == "2024-03-01 to 2024-05-31"
    assert spring["count"].round(3).item() == counted("2024-03-01", "2024-05-31")
    buckets = reports.select(column.range(edges=[DAY("2024-04-01")])).explode("born").unnest("born")
    assert buckets["value"].to_list() == ["2024-01-01 to 2024-03-31", "2024-04-01 to 2024-12-31"]
    assert buckets["count"].round(3).to_list() == [
        counted("2024-01-01", "2024-03-31"),
        counted("2024-04-01", "2024-12-31"),
    ]

    true = sorted(born)[449]
    median = reports.select(column.median()).unnest("born")
    assert set(median.schema.dtypes()[:3]) == {pl.Date}
    [(middle, low, high, n)] = median.rows()
    assert (low, n) == (true.replace(day=1), 900)
    assert (high.year, high.month, (high + dt.timedelta(1)).day) == (2024, true.month, 1)
    assert middle == low + (high - low) // 2
    quantiles = reports.select(column.quantiles([0.5])).explode("born").unnest("born")
    assert quantiles.row(0)[1:] == (middle, low, high, 900)
    curve = reports.select(column.cdf()).explode("born").unnest("born")
    assert curve["value"].to_list() == MONTHS.ends[1].to_pylist()
    assert curve["share"].round(6).to_list() == (expected["true"].fill_null(0).cum_sum() / 900).round(6).to_list()

    tally = m.tally(m.perturb(born))
    found = MedianEstimate().result(m, tally)
    assert repr(found) == f"Median of 900 reports: {middle}, 95% interval {low} to {high}"
    assert found.to_arrow().to_pylist() == [{"median": middle, "low": low, "high": high, "n": 900}]
    assert CdfEstimate().result(m, tally).to_arrow()["value"].to_pylist() == curve["value"].to_list()
    empty = MedianEstimate().result(m, m.empty_tally()).to_arrow()
    assert empty.to_pylist() == [{"median": None, "low": DAY("2024-01-01"), "high": DAY("2024-12-31"), "n": 0}]


def test_a_range_of_times_goes_from_edge_to_edge_and_a_date_is_the_whole_day():
    m = HierarchicalHistogram(HOURS, epsilon=80.0)
    times = [TIME("2024-03-30T00:00") + dt.timedelta(minutes=15 * k) for k in range(4 * 72)]
    tally = m.tally(m.perturb(times))
    asked = [
        (DAY("2024-03-31"), DAY("2024-03-31")), (TIME("2024-03-30T01:00"), TIME("2024-03-30T04:00")),
        (None, "2024-03-30"), ("2024-04-01T12:00:00+02:00", None), ("2024-03-30", "2024-03-30T01:00"),
    ]  # fmt: skip
    found = RangeEstimate(ranges=asked).result(m, tally)
    assert found.counts.round(3).tolist() == [96, 12, 96, 56, 4]
    assert found.values[1] == "2024-03-30 01:00:00 to 2024-03-30 04:00:00"
    median = MedianEstimate().result(m, tally)
    assert (median.low, median.median, median.high) == (
        TIME("2024-03-31T11:00"), TIME("2024-03-31T11:30"), TIME("2024-03-31T12:00"),
    )  # fmt: skip


@each(
    ("domain", "ends", "says"),
    [
        (MONTHS, ("2024-02-02", None), "low of a range must be an edge.*nearest are 2024-02-01 and 2024-03-01"),
        (MONTHS, (None, DAY("2024-12-01")), "high of a range must be an edge.*nearest are 2024-11-30 and 2024-12-31"),
        (MONTHS, ("2023-12-01", None), "low of a range must be an edge.*nearest are 2024-01-01 and 2024-02-01"),
        (MONTHS, ("2025-01-01", None), "low of a range must be an edge.*nearest are 2024-11-01 and 2024-12-01"),
        (MONTHS, (None, "2026-01-31"), "high of a range must be an edge"),
        (MONTHS, (None, "2023-12-31"), "high of a range must be an edge.*nearest are 2024-01-31 and 2024-02-29"),
        (MONTHS, (None, "2023-06-30"), "high of a range must be an edge"),
        (MONTHS, ("2024-03-01", "2024-02-29"), "take a later high, or an earlier low"),
        (MONTHS, (3, None), "low must be a date"),
        (MONTHS, ("spring", None), "low must be a date"),
        (HOURS, (TIME("2024-03-30T01:30"), None), "nearest are 2024-03-30 01:00:00 and 2024-03-30 02:00:00"),
        (HOURS, (None, DAY("2024-04-02")), "high of a range must be an edge"),
    ],
)
def test_ranges_that_cut_cells_or_are_none_are_refused(domain, ends, says):
    with pytest.raises(ParameterError, match=says):
        domain.between(*ends)


def test_dates_are_recommended_split_drawn_and_hashed_as_labels_are():
    asked = {row.key for row in recommend(MONTHS, 1.0, 10_000, ask="median")}
    assert asked == {row.key for row in recommend(Domain(MONTHS.texts), 1.0, 10_000, ask="median")}
    plan = PrivacyPlan.split({"born": MONTHS, "at": HOURS}, epsilon=2.0)
    assert [m.domain for m in plan.columns.values()] == [MONTHS, HOURS]
    m = LocalHashing(MONTHS, epsilon=2.0)
    codes = LocalHashing(Domain(MONTHS.texts), epsilon=2.0)
    assert m.support_probabilities() == codes.support_probabilities()
    sure = SURE["subsets"]
    curve = CdfEstimate().result(sure, sure.tally(sure.perturb(list(MONTHS.texts))))
    x = curve.plot().to_dict()["layer"][0]["encoding"]["x"]
    assert (x["type"], x["scale"]["type"]) == ("temporal", "utc")
