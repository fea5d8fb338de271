"""The streaming suite: the same cases on Beam's local streaming runner, on Prism and on Flink.

Where an engine does something else than Beam's model says, the case says what; a newer one that does better is
noticed. docs/deploy.md has the table of them.

Prism comes as a Go binary: ``go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0``. It is looked for at
``LDP_PRISM``, then where Go installs, then on the PATH.
"""

import itertools
from functools import partial

import apache_beam as beam
import pyarrow.parquet as pq
import pytest

import ldp_beam
from ldp_beam.io import WriteReports
from ldp_core import PrivacyPlan

from ..helpers import SURE_BOOL, assumed, on_my_word, run
from ..streams import batch, late_of, true_panes
from .engines import ENGINES, FLINK_STREAM, NO_PRISM, PRISM, PRISM_BINARY, Engine
from .stream_cases import CASES, Case

MARKS = {
    "local": [],
    "prism": [pytest.mark.prism, pytest.mark.skipif(PRISM_BINARY is None, reason=NO_PRISM)],
    "flink": [pytest.mark.flink],
}
BY_DEFAULT = {
    "panes-BOTH-20-discarding",
    "arrivals-SlidingWindows-15-2-7-accumulating",
    "too-late-single-records-PrivateHistogram-5",
}
"""Of random arrivals, of panes that discard, and of private histograms, tallied as others are; the rest is slow."""
_IS_LONG = ("arrivals-", "discarding", "PrivateHistogram")
# BOTH and EACH have all panes that these triggers have; with a lateness of 40 s no record is late.
_IS_LONG += ("DefaultTrigger", "panes-AfterWatermark", "EARLY-", "panes-LATE", "BOTH-0", "EACH-0", "Histogram-40")
LONG = [case for case in CASES if any(part in case.id for part in _IS_LONG) and case.id not in BY_DEFAULT]
SHORT = [case for case in CASES if case not in LONG]


@pytest.mark.filterwarnings("ignore:Prism forgets a limit")
@pytest.mark.parametrize(
    ("engine", "cases"),
    [
        pytest.param("local", SHORT, id="local"),
        pytest.param("local", LONG, id="local, long", marks=pytest.mark.slow),
        *(pytest.param(engine, CASES, id=engine, marks=MARKS[engine]) for engine in ("prism", "flink")),
    ],
)
@pytest.mark.slow
def test_streams(request, engine, cases):
    """An engine does what Beam's model says, or the one thing that is known: also if it does better, that is seen."""
    runs = ENGINES[engine](request)
    found = {case.id: case.look(*runs.outputs(case, cases)) for case in cases}
    known = {case.id: case.deviations.get(engine, (case.expected,))[0] for case in cases}
    assert {name: rows for name, rows in found.items() if rows != known[name]} == {}


@pytest.mark.parametrize("engine", [pytest.param(engine, marks=MARKS[engine]) for engine in ENGINES])
def test_the_only_pane_of_bounded_input_is_on_time(engine, request):
    options = {"local": {}, "prism": PRISM}
    if engine == "flink":
        flags = request.getfixturevalue("flink_cluster").pipeline_flags("LOOPBACK", parallelism=1)
        options["flink"] = {"runner": None, "flags": tuple(flags)}
    histogram = on_my_word(ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", fill=(0, 30)))
    rows = true_panes(run(histogram, [batch([1, 11, 12])], **options[engine]))
    assert [(row.n, row.pane_timing, row.pane_index) for row in rows] == [(n, "ON_TIME", 0) for n in (1, 2, 0)]


@pytest.mark.flink
def test_rows_of_empty_windows_are_in_time_for_steps_behind(request):
    """Also where the watermark stops at the end of a window: a GroupByKey behind dropped the row of that window."""
    cluster = request.getfixturevalue("flink_cluster")
    flags = [*cluster.pipeline_flags("LOOPBACK", streaming=True, checkpoint_every=3600.0, parallelism=2), *FLINK_STREAM]
    histogram = on_my_word(ldp_beam.Histogram("v", SURE_BOOL, window=10, event_time="t", fill=(50, 200)))
    starts = beam.Map(lambda row: (row.window_start.micros // 10**6, row.value))
    case = Case("behind", [100, [101], 200], histogram | starts | beam.GroupByKey(), None, None)
    [groups] = Engine(None, flags, 1, patience=180.0).outputs(case, [case])
    assert sorted(start for start, _ in groups) == [*range(50, 200, 10)]


class Limited(beam.PTransform):
    """A limit and its letters, in front of an estimate and its own."""

    def __init__(self, limit, estimate):
        super().__init__()
        self.limit, self.estimate = limit.with_exception_handling(), estimate

    def expand(self, pcoll):
        passed, letters = pcoll | "Limit" >> self.limit
        return *(passed | "Count" >> self.estimate), letters


def in_many_windows(request, transform):
    """What comes of a stream with late records on two workers, for windows of several lengths, each per key and not.

    And how many records a counter says were late.
    """
    cluster = request.getfixturevalue("flink_cluster")
    flags = [*cluster.pipeline_flags("LOOPBACK", streaming=True, checkpoint_every=3600.0, parallelism=2), *FLINK_STREAM]
    cases = []
    for number, (window, by) in enumerate((window, by) for window in (3, 5, 10, 20) for by in ("c", ())):
        count = ldp_beam.Histogram("v", SURE_BOOL, by=by, window=window, event_time="t").with_exception_handling()
        steps = []
        for now in range(10, 60, 2):
            steps += [tuple(batch([now, now - 3, now - 7 - number], country) for country in ("fr", "it", "de")), now]
        cases.append(Case(f"case{number}", steps, transform(window, on_my_word(count)), None, None))
    runs = Engine(None, flags, len(cases), patience=180.0)
    found = [runs.outputs(case, cases) for case in cases]
    return found, [sum(n for step, n in runs.late.items() if case.id in step) for case in cases]


@pytest.mark.flink
def test_every_record_is_counted_or_late_where_workers_see_several_watermarks(request):
    """A worker may take a record when the watermark that makes it late for another one is under way."""
    found, _ = in_many_windows(request, lambda window, count: count)
    read = [sum(row.n for row in true_panes(rows)) + late_of(letters) for rows, letters in found]
    assert read == [225] * len(found)


@pytest.mark.flink
def test_every_record_passes_or_is_over_a_limit_or_late_where_workers_see_several_watermarks(request):
    """What is late for a limit was counted beside it: records as a window closes were in neither count, or in both."""

    def limited(window, count):
        return Limited(ldp_beam.BoundContributions("c", 4, window=window, event_time="t", drop_id=False), count)

    found, _ = in_many_windows(request, limited)
    read = [sum(row.n for row in true_panes(rows)) + sum(letter.count for letter in over) for rows, _, over in found]
    assert read == [225] * len(found)
    assert [late_of(letters) for _, letters, _ in found] == [0] * len(found), "what passes is in time for what counts"


@pytest.mark.flink
def test_every_report_is_in_a_file_or_late_where_workers_see_several_watermarks(request, tmp_path):
    """What is late for a file was counted beside it: reports as a window closes were in neither count, or in both."""
    plan, number = PrivacyPlan({"v": SURE_BOOL}, keep=["t", "c"]), itertools.count()

    def written(window, _):
        write = WriteReports(f"{tmp_path}/{next(number)}/r", plan, batch([1]).schema, triggering_frequency=window)
        return beam.Map(partial(assumed, mechanisms=plan.columns)) | write

    found, late = in_many_windows(request, written)
    read = [sum(pq.read_metadata(name).num_rows for name in names) for [names] in found]
    assert [a + b for a, b in zip(read, late, strict=True)] == [225] * len(found)
    assert all(late)
