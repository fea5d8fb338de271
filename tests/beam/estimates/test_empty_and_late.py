"""Windows without records have rows where that is asked for; records that come too late are counted."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows
from apache_beam.utils.timestamp import Timestamp

import ldp_beam
from ldp_beam.elements.rows import row_type
from ldp_beam.graph.late import horizon
from ldp_beam.io import WriteEstimates
from ldp_core import (
    Dates,
    DistributionEstimate,
    Domain,
    HierarchicalHistogram,
    Hybrid,
    LdpWarning,
    MedianEstimate,
    ParameterError,
    QuantilesEstimate,
    RandomizedResponse,
    SquareWave,
    UnaryEncoding,
)

from ...cases import each
from ..helpers import SURE_BOOL, on_my_word, run
from ..runners.stream_cases import histogram
from ..streams import LOCAL, All, Stream, batch, counted, late_of, ns, stream, true_panes

# ---- empty windows


def filled(window=10, kind=ldp_beam.Histogram, **options):
    return on_my_word(kind("v", SURE_BOOL, window=window, event_time="t", **options))


FILLS = [
    ((0, 60), range(0, 60, 10)),
    ((-15, 30), [-10, 0, 10, 20]),
    ((Timestamp(5), Timestamp(31)), [10, 20, 30, 50]),
    (
        (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 1, 0, 20, tzinfo=timezone(timedelta(hours=1)))),
        [0, 10, 50],
    ),
]


@each("kind", [ldp_beam.Histogram, ldp_beam.PrivateHistogram])
@pytest.mark.slow
def test_bounded(kind):
    found = run(All([filled(kind=kind, fill=fill) for fill, _ in FILLS]), [batch([11, 12, 55])])
    for rows, (_, starts) in zip(found, FILLS, strict=True):
        assert ns(rows) == {(s, s + 10): 0 for s in starts} | {(10, 20): 2, (50, 60): 1}
        for row in rows:
            assert (row.count, row.standard_error) == (0, 0) if not row.n else row.n
            assert (row.frequency == row.frequency) == bool(row.n)  # nan where there are no reports


def test_sliding_and_offset_windows():
    sliding, offset = filled(SlidingWindows(20, 10), fill=(0, 40)), filled(FixedWindows(10, offset=3), fill=(0, 30))
    in_sliding, in_offset = run(All([sliding, offset]), [batch([25])])
    assert ns(in_sliding) == {(0, 20): 0, (10, 30): 1, (20, 40): 1, (30, 50): 0}
    assert ns(in_offset) == {(3, 13): 0, (13, 23): 0, (23, 33): 1}


def test_no_sliding_window_is_filled_that_begins_before():
    """Also where each time of the stretch is in some; and those with reports have their rows."""
    rows = run(filled(SlidingWindows(40, 10), fill=(55, 80)), [batch([20])])
    assert ns(rows) == {(s, s + 40): 1 for s in (-10, 0, 10, 20)} | {(s, s + 40): 0 for s in (60, 70)}


def test_keys():
    transform = filled(by=["c"], fill=(0, 20), fill_keys=[("fr",), ("it",)])
    assert ns(run(transform, [batch([1]), batch([15], "de")])) == {
        (0, 10, "fr"): 1,
        (0, 10, "it"): 0,
        (10, 20, "fr"): 0,
        (10, 20, "it"): 0,
        (10, 20, "de"): 1,
    }


def test_empty_windows_of_means_and_distributions():
    hybrid, wave = Hybrid((0.0, 10.0), epsilon=1.0), SquareWave((0.0, 10.0), epsilon=2.0, buckets=64)
    numbers = [pa.table({"v": [1.0, 2.0], "t": [5, 6]})]
    mean = ldp_beam.Estimate("v", hybrid, private=True, window=10, event_time="t", fill=(0, 30))
    in_two = DistributionEstimate(buckets=2)
    wide = ldp_beam.Estimate("v", wave, in_two, private=True, window=10, event_time="t", fill=(0, 20))
    means, buckets = run(All([mean, wide]), numbers)
    starts = sorted((r.window_start.micros // 10**6, r.n, r.mean != r.mean) for r in means)
    assert starts == [(0, 2, False), (10, 0, True), (20, 0, True)]
    found = sorted((r.window_start.micros // 10**6, r.bucket_start, r.n, r.frequency != r.frequency) for r in buckets)
    assert found == [(0, 0.0, 2, False), (0, 5.0, 2, False), (10, 0.0, 0, True), (10, 5.0, 0, True)]


def test_empty_windows_of_quantiles():
    """They have none, which ended the job at the first empty window."""
    options = {"private": True, "window": 10, "event_time": "t", "fill": (0, 20)}
    numbers = HierarchicalHistogram(range(4), epsilon=1.0)
    rows = run(ldp_beam.Estimate("v", numbers, "median", **options), [pa.table({"v": [1, 2], "t": [5, 6]})])
    assert sorted((row.n, row.median != row.median, row.low, row.high) for row in rows)[0] == (0, True, 0, 3)
    words = HierarchicalHistogram(["low", "high"], epsilon=1.0)
    rows = run(ldp_beam.Estimate("v", words, "median", **options), [pa.table({"v": ["low"], "t": [15]})])
    assert [(row.median, row.low, row.high) for row in rows if not row.n] == [(None, "low", "high")]


@pytest.mark.slow
def test_words_and_dates_that_the_reports_do_not_tell(tmp_path):
    """Where all reports say ``other`` there is no median: the null ended the job."""
    sizes, days = (
        Domain(["s", "m", "l"], unmatched="other"),
        Dates(date(2026, 1, 1), date(2026, 1, 4), unmatched="other"),
    )
    reports = [{"v": "m", "d": "2026-01-02", "c": "a"}, {"v": "other", "d": "other", "c": "b"}]
    for column, domain, known, ends in (
        ("v", sizes, "m", ("s", "l")),
        ("d", days, "2026-01-02", ("2026-01-01", "2026-01-03")),
    ):
        m = RandomizedResponse(domain, epsilon=2.0)
        for question, name in ((MedianEstimate(), "median"), (QuantilesEstimate([0.5]), "quantile")):
            estimate = ldp_beam.Estimate(column, m, question, by="c")
            sinks = [
                estimate | WriteEstimates(str(tmp_path / column / name / form), form) for form in ("parquet", "ndjson")
            ]
            rows, *paths = run(All([estimate | beam.Reshuffle(), *sinks]), reports)
            assert {row.key["c"]: getattr(row, name) for row in rows} == {"a": known, "b": None}
            assert next((row.low, row.high) for row in rows if row.key["c"] == "b") == ends
            [[table], [lines]] = paths
            assert sorted(map(str, pq.read_table(table)[name].to_pylist())) == sorted(["None", known])
            written = [json.loads(line) for line in Path(lines).read_text().splitlines()]
            assert {row["key"]["c"]: row[name] for row in written} == {"a": known, "b": None}
    numbers, words = RandomizedResponse(Domain([1, 2], unmatched="other"), epsilon=2.0), MedianEstimate().schema(m)
    [row] = run(ldp_beam.Estimate("v", numbers, "median") | beam.Map(ldp_beam.text_row, row_type(words)), reports[1:])
    assert (row.median, row.low, row.high) == (None, "1.0", "2.0")


@pytest.mark.parametrize("question", ["median", "quantiles:probabilities=[0.5]"])
def test_times_that_the_reports_do_not_tell(tmp_path, question):
    """The null of a window without records ended the job."""
    hours = UnaryEncoding(Dates("2026-01-01T00:00", "2026-01-02T00:00", "6h"), epsilon=50.0)
    options = {"private": True, "window": 10, "event_time": "t", "fill": (0, 20)}
    estimate = ldp_beam.Estimate("v", hours, question, **options)
    sinks = [estimate | WriteEstimates(str(tmp_path / form), form) for form in ("parquet", "ndjson")]
    rows, tables, lines = run(All([estimate | beam.Reshuffle(), *sinks]), [{"v": "2026-01-01 06:00:00", "t": 5}])
    name, noon = question.partition("s:")[0], datetime(2026, 1, 1, 9, tzinfo=UTC)  # the middle of 6 to 12
    assert {row.n: getattr(row, name) for row in rows} == {0: None, 1: Timestamp.from_utc_datetime(noon)}
    assert {row["n"]: row[name] for path in tables for row in pq.read_table(path).to_pylist()} == {0: None, 1: noon}
    written = [json.loads(line) for path in lines for line in Path(path).read_text().splitlines()]
    assert {row["n"]: row[name] for row in written} == {0: None, 1: "2026-01-01T09:00:00Z"}


def test_a_runner_whose_empty_windows_come_late_is_said():
    # seen: of 15 windows a GroupByKey behind had 4
    source = beam.Pipeline("BundleBasedDirectRunner") | Stream()
    with pytest.warns(LdpWarning, match="rows of empty windows late: a GroupByKey behind drops them"):
        _ = source | filled(fill=(0, 60))


@each("lateness", [0, 0.0007])
def test_records_of_the_last_part_of_a_millisecond_are_counted_as_late(lateness):
    windows = FixedWindows(10, offset=Timestamp(micros=1))
    steps = stream([0, [1, 2], 10.001, [3]])
    transform = ldp_beam.PrivateHistogram("v", SURE_BOOL, window=windows, event_time="t", allowed_lateness=lateness)
    rows, late = run(transform.with_exception_handling(), steps, **LOCAL)
    assert (list(counted(rows).values()), late_of(late)) == ([2], 1)


@each("early", [None, AfterCount(1)])
def test_records_that_come_as_their_window_ends_are_late_for_a_trigger_that_closes_it(early):
    """The local streaming runner took them for no pane, and nothing said that they were lost."""
    options = {"window": 10, "event_time": "t", "trigger": AfterWatermark(early=early)}
    steps = stream([0, [1, 2], 10, [3], [4, 11], 20])
    rows, late = run(ldp_beam.PrivateHistogram("v", SURE_BOOL, **options).with_exception_handling(), steps, **LOCAL)
    assert (counted(rows), late_of(late)) == ({0: 2, 10: 1}, 2)


def test_an_endless_fill_is_for_streams():
    with pytest.raises(ParameterError, match="for bounded input pass fill an end"):
        run(filled(fill=(Timestamp.now(), None)), [batch([1])])


@each(
    "options",
    [
        {"fill": (0, 60)},
        {"fill": (0, 60), "window": Sessions(5)},
        {"fill": (60, 60), "window": 10},
        {"fill": 60, "window": 10},
        {"fill": ("0", "60"), "window": 10},
        {"fill": (datetime(2026, 1, 1), None), "window": 10},
        {"fill": (0, 60), "window": 10, "by": "c"},
        {"fill": (0, 60), "window": 10, "by": "c", "fill_keys": ["fr"]},
        {"fill": (0, 60), "window": 10, "by": "c", "fill_keys": [("fr", "x")]},
        {"fill_keys": [("fr",)], "window": 10, "by": "c"},
        {"fill": (0, 60), "window": 10, "by": "c", "fill_keys": 5},
        {"fill": (0, 2 * 10**6), "window": 1},
        {"fill": (0, float("inf")), "window": 10},
        {"fill": ("0001-01-01T00:00+14:00", 5), "window": 10},
        {"fill": (0, None), "window": "1h"},
    ],
)
def test_bad_fills(options):
    with pytest.raises(ParameterError, match="fill"):
        filled(**{"window": None, **options})


# ---- late records: most is in `runners.stream_cases`, for all engines


def test_bounded_input_has_no_late_records_and_no_step_for_them():
    good, dead = run(histogram(), [batch([1, 2, 500, 3])])
    assert counted(good) == {0: 3, 500: 1}
    assert dead == []
    p = beam.Pipeline("FnApiRunner")
    _ = p | beam.Create([1]) | histogram()
    assert "Late" not in str(p.to_runner_api())


@each(
    ("window", "seconds"),
    [
        (FixedWindows(1), 10_000),
        (FixedWindows(0.1), 3600),
        (FixedWindows(60), 600_000),
        (FixedWindows(3600), 7 * 86400),
        (SlidingWindows(3600, 10), 100_000),
    ],
)
def test_the_count_of_the_late_remembers_no_more_than_ten_thousand_windows(window, seconds):
    """On Flink each is in every checkpoint until it is forgotten: it was a week whatever the window."""
    assert horizon(window) == seconds


def late_panes(**mode):
    """n of the panes of [0, 10), in windows that the input is in, of two records in time and one late by 2 s."""
    windows = beam.WindowInto(FixedWindows(10), allowed_lateness=60, **mode)
    panes = run(
        windows | histogram(ldp_beam.PrivateHistogram, None), stream([0, [1, 2], 12, [3]], "single records"), **LOCAL
    )
    return [row.n for row in true_panes(panes[0])]


def test_windows_of_the_input_whose_late_panes_have_new_records_only():
    """The last pane had n = 1 of 3 records in silence: what Beam takes for its default trigger is to discard."""
    with pytest.warns(LdpWarning, match="accumulation_mode=AccumulationMode.ACCUMULATING"):
        assert late_panes() == [2, 1]
    assert late_panes(accumulation_mode=AccumulationMode.ACCUMULATING) == [2, 3]  # the remedy, without a warning
