"""Whole frames under a plan, and reports that travel between Polars, pyarrow and the core."""

import datetime as dt
import math
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars import selectors as cs

import ldp_polars
from ldp_core import (
    Domain,
    DomainError,
    DtypeError,
    HadamardCountMeanSketch,
    HeavyHitters,
    HeavyHittersEstimate,
    HierarchicalHistogram,
    HistogramEstimate,
    Hybrid,
    InputError,
    Interval,
    LdpWarning,
    MeanEstimate,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    ReportError,
    Secret,
    SquareWave,
    UnaryEncoding,
)
from ldp_core.estimates.histogram import ENTRY
from ldp_core.limits import DEFAULT
from ldp_polars.columns import Report, report_dtype

from ..cases import case, full_disk
from ..parquet_bombs import BOMBS

LABELS = ["ios", "android", "web"]
N = 3000
PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(LABELS, epsilon=1.0),
        "wide": UnaryEncoding(Domain(range(70), unmatched="none"), epsilon=1.0),
        "crashed": RandomizedResponse(epsilon=1.0),
        "browser": RandomizedResponse(Domain(LABELS, unmatched="other"), epsilon=1.0),
        "level": RandomizedResponse([1, 2, 5], epsilon=1.0),
        "rank": RandomizedResponse(Domain(range(300), unmatched="other"), epsilon=1.0),
    },
    keep=["when", "g"],
)


def frame(n=N):
    rng = np.random.default_rng(11)
    return pl.DataFrame(
        {
            "user": [f"u{i}" for i in range(n)],
            "g": rng.integers(0, 3, n),
            "crashed": rng.random(n) < 0.2,
            "os": np.array(LABELS)[rng.integers(0, 3, n)],
            "wide": [None if v == 70 else v for v in rng.integers(0, 71, n).tolist()],
            "browser": [[*LABELS, None, "zz"][i] for i in rng.integers(0, 5, n)],
            "level": np.array([1, 2, 5])[rng.integers(0, 3, n)],
            "rank": rng.integers(-5, 305, n),
            "when": np.arange(n),
        }
    )


@pytest.mark.parametrize("packed", [False, True])
def test_planned_columns_are_perturbed_kept_ones_kept_others_dropped(packed, run, draws):
    df = frame()
    out = run(df, lambda f: f.ldp.perturb(PLAN, packed=packed))
    assert out.columns == list(PLAN)
    assert sum(draws) == N * len(PLAN.columns)
    assert out.select(PLAN.keep).equals(df.select(PLAN.keep))
    for name, mechanism in PLAN.columns.items():
        assert out.schema[name] == Report(mechanism, packed=packed)
        assert out[name].null_count() == 0
    plain = run(df, lambda f: f.ldp.perturb(PLAN, packed=packed, typed=False))
    assert plain.schema == {
        **{name: report_dtype(mechanism, packed=packed) for name, mechanism in PLAN.columns.items()},
        **df.select(PLAN.keep).schema,
    }


def test_a_missing_column_is_an_error_at_once(draws):
    for missing in ("os", "when"):
        for make in (frame().drop(missing), frame().lazy().drop(missing)):
            with pytest.raises(PlanError, match=rf"\['{missing}'\]"):
                make.ldp.perturb(PLAN)
    for wrong in ({"os": PLAN["os"]}, None, PLAN["os"]):
        with pytest.raises(PlanError, match="expected a PrivacyPlan"):
            frame().ldp.perturb(wrong)
    assert draws == []


def test_odd_column_names_are_names_and_not_patterns(run):
    """pl.col("*") would select, and so reveal, columns that the plan does not name."""
    m = RandomizedResponse(epsilon=1.0)
    for name in ("*", "^.*$", "^s.*$", "", " ", "a.b", "π"):
        df = pl.DataFrame({name: [True, False], "secret": [True, True], "x": [False, True]})
        for plan in (PrivacyPlan({"x": m}, keep=[name]), PrivacyPlan({name: m})):
            with case(name, plan):
                out = run(df, lambda f, plan=plan: f.ldp.perturb(plan))
                assert out.columns == list(plan)
                if name in plan.keep:
                    assert out[name].to_list() == [True, False]


def test_odd_column_names_of_text_numbers_and_groups_are_estimated():
    """Polars' own methods look a Series up by its name, and so as a pattern."""
    columns = {"^x$": UnaryEncoding([1, 2], epsilon=1.0), "^s$": RandomizedResponse(["a", "b"], epsilon=1.0)}
    plan, n = PrivacyPlan(columns, keep=["^k$"]), 8
    df = pl.DataFrame({"^x$": [1, 2] * 4, "^s$": ["a", "b"] * 4, "^k$": ["p", "q"] * 4, "^id$": range(n), "x": [0] * n})
    for packed in (False, True):
        reports = df.ldp.perturb(plan, packed=packed, key=Secret.from_seed(1), id="^id$")
        assert reports.columns == ["^x$", "^s$", "^k$"]
        by_group = reports.ldp.histograms(plan, by="^k$")
        assert set(by_group["n"]) == {n // 2}
        assert reports.lazy().ldp.histograms(plan).collect()["column_name"].unique().sort().to_list() == ["^s$", "^x$"]
        assert reports.select(ldp_polars.histogram("^s$").list.len()).item() == 2


# ---- the same reports elsewhere


def test_schemas_agree_with_the_cores():
    """The same plan gives the same columns, in the same order, of types that convert without loss.

    Only text from the core is not typed in Polars: there it is a dictionary, of which Polars knows no extension.
    """
    for packed in (False, True):
        ours = frame().ldp.perturb(PLAN, packed=packed)
        theirs = pl.from_arrow(PLAN.perturb(frame().to_arrow().combine_chunks().to_batches()[0], packed=packed))
        assert ours.columns == theirs.columns
        texts = {name for name, m in PLAN.columns.items() if pa.types.is_dictionary(m.reports.arrow_type())}
        assert {n: d for n, d in theirs.schema.items() if n not in texts} == {
            n: d for n, d in ours.schema.items() if n not in texts
        }
        assert all(theirs[name].cast(pl.String).dtype == ours[name].ext.storage().dtype for name in texts)


# ---- estimates, explanations and files of whole frames


def test_histograms_are_the_tidy_form_of_the_expressions(run):
    df = frame()
    reports = df.ldp.perturb(PLAN)
    tidy = run(reports, lambda f: f.ldp.histograms(PLAN, confidence=0.9))
    assert run(reports, lambda f: f.ldp.histograms(confidence=0.9)).equals(tidy)  # the types say the plan
    assert tidy.columns == ["column_name", *ENTRY]
    assert tidy["column_name"].unique(maintain_order=True).to_list() == list(PLAN.columns)
    for name, mechanism in PLAN.columns.items():
        expected = reports.select(pl.col(name).ldp.histogram(mechanism, confidence=0.9)).explode(name).unnest(name)
        part = tidy.filter(pl.col("column_name") == name).drop("column_name")
        assert part.equals(expected.with_columns(pl.col("value").cast(pl.String)))


def test_histograms_by_key_and_window(run):
    m = RandomizedResponse(["a", "b"], epsilon=100.0)  # as good as no noise
    plan = PrivacyPlan({"x": m}, keep=["g", "t"])
    df = pl.DataFrame(
        {
            "x": ["a", "b", "a", "a", "b", "b", "b"],
            "g": [1, 1, 1, 2, 2, 2, 2],
            "t": [dt.datetime(2026, 1, day) for day in (1, 1, 5, 1, 1, 9, 9)],
        }
    )
    tidy = run(df.ldp.perturb(plan), lambda f: f.ldp.histograms(plan, by="g", window="1d", event_time="t"))
    rows = (
        tidy.filter(pl.col("value") == "b")
        .select("g", pl.col("window_start", "window_end").dt.day(), pl.col("count").round(), "n")
        .rows()
    )
    assert rows == [(1, 1, 2, 1, 2), (1, 5, 6, 0, 1), (2, 1, 2, 1, 2), (2, 9, 10, 2, 2)]
    months = run(df.ldp.perturb(plan), lambda f: f.ldp.histograms(plan, window="1mo", event_time="t"))
    assert months["window_end"].unique().to_list() == [dt.datetime(2026, 2, 1)]


def test_months_that_begin_later_end_where_the_next_begin():
    plan = PrivacyPlan({"x": RandomizedResponse(["a", "b"], epsilon=1.0)}, keep=["t"])
    days = pl.date_range(dt.date(2026, 1, 1), dt.date(2026, 12, 31), eager=True)
    df = pl.DataFrame({"x": ["a"] * len(days), "t": days})
    found = df.ldp.perturb(plan).ldp.histograms(plan, window="1mo+30d", event_time="t").filter(value="a")
    assert found["window_start"][1:].to_list() == found["window_end"][:-1].to_list()
    assert dt.date(2026, 1, 31) in found["window_start"]
    assert found["n"].sum() == len(days)


CHANGES = {
    "Europe/Berlin": [dt.datetime(2024, 3, 31, 1), dt.datetime(2024, 10, 27, 1)],  # in UTC
    "America/Sao_Paulo": [dt.datetime(2018, 11, 4, 3)],  # from 00:00 to 01:00
    "Australia/Lord_Howe": [dt.datetime(2024, 4, 6, 15)],  # by half an hour
    "Pacific/Apia": [dt.datetime(2011, 12, 30, 10)],  # there was no 30th
    "Asia/Kolkata": [dt.datetime(2024, 3, 31)],
}


LENGTHS = ("1d", "1d+6h", "1d+2h15m", "1mo+1d", "12h", "5h+1h", "1h")
BERLIN, *ELSEWHERE = CHANGES
TRIED = [*product([BERLIN], LENGTHS), *product(ELSEWHERE, ["1d", "12h"])]


@pytest.mark.parametrize(
    "tried",
    [TRIED, pytest.param([one for one in product(CHANGES, LENGTHS) if one not in TRIED], marks=pytest.mark.slow)],
    ids=["some", "the others"],
)
def test_windows_end_where_the_next_begin_when_the_clock_changes(run, tried):
    """Starts went by the clock and ends did not, or the other way round: windows overlapped."""
    plan = PrivacyPlan({"x": RandomizedResponse(["a", "b"], epsilon=1.0)}, keep=["t"])
    for zone, window in tried:
        for change in CHANGES[zone]:
            times = pl.datetime_range(
                change - dt.timedelta(days=3), change + dt.timedelta(days=3), "15m", time_zone="UTC", eager=True
            ).dt.convert_time_zone(zone)
            df = pl.DataFrame({"x": ["a"] * len(times), "t": times}).ldp.perturb(plan)
            with case(zone, window, change):
                found = run(df, lambda f, window=window: f.ldp.histograms(plan, window=window, event_time="t")).filter(
                    value="a"
                )
                starts, ends = found["window_start"], found["window_end"]
                assert starts[1:].to_list() == ends[:-1].to_list()
                within = [
                    int(((times >= start) & (times < end)).sum()) for start, end in zip(starts, ends, strict=True)
                ]
                assert found["n"].to_list() == within
                assert sum(within) == len(times)
                if window in ("12h", "1h"):
                    length = dt.timedelta(hours=int(window[:-1]))
                    assert (ends - starts).unique().to_list() == [length]
                    assert (starts.dt.epoch("s") % length.total_seconds()).max() == 0
                elif window == "1d":
                    assert found.select(pl.col("window_start").dt.date())["window_start"].is_unique().all()
                    assert set(starts.dt.time()) <= {dt.time(0), dt.time(1)}
                elif (zone, window, change.month) == (BERLIN, "1d+2h15m", 10):  # a clock shows 02:15 twice
                    assert dt.datetime(2024, 10, 27, 0, 15, tzinfo=dt.UTC).timestamp() in starts.dt.epoch("s").to_list()
                elif window == "1d+6h":
                    assert set(starts.dt.time()) == {dt.time(6)}


def test_windows_are_no_finer_than_the_times():
    times = pl.DataFrame({"ms": [dt.datetime(2026, 1, 1)], "day": [dt.date(2026, 1, 1)], "n": [1]})
    times = times.with_columns(pl.col("ms").dt.cast_time_unit("ms"))
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)}, keep=["ms"])
    reports = times.with_columns(x=True).ldp.perturb(plan)
    with pytest.raises(ParameterError, match="whole ms"):
        reports.ldp.histograms(plan, window="0.5ms", event_time="ms")
    assert reports.ldp.histograms(plan, window="5ms", event_time="ms").height == 2
    for column, window, expected in (("ms", "0.5ms", "whole ms"), ("day", "1h", "whole days"), ("n", "1d", "Datetime")):
        with pytest.raises(ParameterError, match=expected):
            times.select(ldp_polars.window_start(column, window))
    with pytest.raises(ParameterError, match="window must be"):
        ldp_polars.window_start("ms", "soon")
    for day in ("day", pl.col("day")):
        assert times.select(ldp_polars.window_start(day, "1w")).item() == dt.date(2025, 12, 29)


def test_values_of_one_type_keep_it_and_those_of_several_are_text(run):
    level, crashed = RandomizedResponse([1, 2, 10], epsilon=1.0), RandomizedResponse(epsilon=1.0)
    df = pl.DataFrame({"a": [1, 2, 10], "b": [10, 2, 1], "c": [True, False, True]})
    one = PrivacyPlan({"a": level, "b": level})
    tidy = run(df.ldp.perturb(one), lambda f: f.ldp.histograms(one))
    assert tidy["value"].to_list() == [1, 2, 10] * 2
    assert tidy.join(pl.DataFrame({"value": [10], "name": ["high"]}), on="value").height == 2
    both = PrivacyPlan({"a": level, "c": crashed})
    tidy = run(df.ldp.perturb(both), lambda f: f.ldp.histograms(both))
    assert tidy["value"].to_list() == ["1", "2", "10", "false", "true"]


def test_a_full_disk_is_called_so(tmp_path):
    """It was a ComputeError of Polars, of a file out of specification, and nothing said which."""
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)})
    reports = pl.DataFrame({"x": [True, False] * 40_000}).ldp.perturb(plan)
    with full_disk(1 << 12), pytest.raises(OSError, match="File too large: no whole file was written") as caught:
        reports.ldp.sink_parquet(tmp_path / "x.parquet", plan)
    assert caught.value.filename == str(tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"x\.parquet"):
        ldp_polars.read_plan(tmp_path)
    reports.ldp.sink_parquet(tmp_path / "x.parquet", plan)
    assert len(pl.read_parquet(tmp_path / "x.parquet")) == 80_000


def test_a_file_that_is_there_is_whole_or_as_it_was(tmp_path):
    """An error in a late row left half a file in its place, and a file was lost that was read from itself."""
    path, late = tmp_path / "reports.parquet", pl.LazyFrame({"os": ["ios"] * 300_000 + ["beos"]})
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    late.head(9).ldp.perturb(plan).ldp.sink_parquet(path, plan)
    (link := tmp_path / "link.parquet").symlink_to(path)
    before = path.read_bytes()
    for target in (path, str(path), link):
        with case(target), pytest.raises(DomainError):
            late.ldp.perturb(plan).ldp.sink_parquet(target, plan)
        assert path.read_bytes() == before
    with full_disk(100), pytest.raises(OSError, match="no whole file was written"):
        late.head(9).ldp.perturb(plan).ldp.sink_parquet(path, plan)
    assert path.read_bytes() == before
    path.chmod(0o640)
    pl.scan_parquet(path).head(5).ldp.sink_parquet(link, plan, mkdir=True)
    assert pl.read_parquet(path).height == 5
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [link, path]
    sunk = []
    late.head(9).ldp.perturb(plan).ldp.sink_parquet(
        path, plan, sinked_paths_callback=lambda args: sunk.extend(args.paths)
    )
    assert [Path(one.path) for one in sunk] == [path]


def test_what_is_not_the_plans_reports_is_refused(tmp_path):
    df = frame()
    for call in (
        lambda: df.ldp.histograms(PLAN),
        lambda: df.lazy().select(list(PLAN)).ldp.sink_parquet(tmp_path / "x.parquet", PLAN),
        lambda: df.select(list(PLAN)).ldp.sink_parquet(tmp_path / "x.parquet", PLAN, assume_reports=True),
    ):
        with pytest.raises(PlanError, match="no reports"):
            call()
    assert not (tmp_path / "x.parquet").exists()
    reports = df.ldp.perturb(PLAN)
    with pytest.raises(PlanError, match="give the plan that made them"):
        df.ldp.estimates()
    with pytest.raises(ParameterError, match="go together"):
        reports.ldp.histograms(PLAN, window="1d")
    with pytest.raises(PlanError):
        reports.drop(next(iter(PLAN.columns))).ldp.histograms(PLAN)


def test_the_plan_travels_with_the_reports(tmp_path):
    path, df = tmp_path / "reports.parquet", frame()
    for packed in (False, True):
        later = df.lazy().ldp.perturb(PLAN, packed=packed).ldp.sink_parquet(path, PLAN, lazy=True)
        later.collect()  # (it was lost, and nothing was written)
        assert ldp_polars.read_plan(path) == PLAN
        assert PrivacyPlan.from_metadata(pq.read_schema(path).metadata or pq.read_metadata(path).metadata) == PLAN
        assert pl.read_parquet(path).ldp.histograms(PLAN)["n"].unique().to_list() == [df.height]
    df.write_parquet(tmp_path / "raw.parquet")
    with pytest.raises(PlanError):
        ldp_polars.read_plan(tmp_path / "raw.parquet")


# ---- columns that have no histogram, and plans of drawn columns


WORDS = ["rome", "oslo"]
SKETCH = HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32)
NUMBER = Hybrid((0, 100), epsilon=1.0)


def mixed() -> pl.DataFrame:
    return pl.DataFrame({"os": ["ios", "web"] * 50, "number": [1.0, 2.0] * 50, "word": WORDS * 50})


def test_histograms_refer_to_estimates_for_the_histogram_of_a_tree():
    plan = PrivacyPlan({"level": HierarchicalHistogram(range(4), epsilon=1.0)})
    reports = pl.DataFrame({"level": [0, 1, 2, 3]}).ldp.perturb(plan)
    with pytest.raises(PlanError, match=r"\.ldp\.estimates\(plan\) has the histogram of a HierarchicalHistogram"):
        reports.ldp.histograms(plan)
    assert reports.ldp.estimates(plan)["level"]["value"].to_list() == [0, 1, 2, 3]


def test_columns_without_a_histogram_are_left_out_until_a_sketch_has_candidates():
    columns = {"os": RandomizedResponse(["ios", "web"], epsilon=1.0), "number": NUMBER}
    plan, none = PrivacyPlan({**columns, "word": SKETCH}), PrivacyPlan({"number": NUMBER, "word": SKETCH})
    reports = mixed().ldp.perturb(plan)
    assert set(reports.ldp.histograms(plan)["column_name"]) == {"os"}
    tidy = reports.ldp.histograms(PrivacyPlan({**columns, "word": SKETCH.over(WORDS)}))
    assert tidy.filter(pl.col("column_name") == "word")["value"].to_list() == WORDS
    for one in (reports, reports.lazy()):
        with pytest.raises(PlanError, match=r"\['number', 'word'\] has a histogram: .*numbers have a mean.*candidates"):
            one.ldp.histograms(none)
        with pytest.raises(PlanError, match=r"column 'word' has no estimate.*candidates"):
            one.ldp.estimates(plan)
        for options in ({"by": "country"}, {"by": ["country"]}, {"window": "1d", "event_time": "time"}):
            with pytest.raises(PlanError, match=r"\['(country|time)'\].*keep"):
                one.ldp.histograms(plan, **options)


# ---- raw data never travel under a plan


FLAG = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["g"])


@pytest.fixture
def target(tmp_path):
    """Where nothing may be written."""
    path = tmp_path / "written.parquet"
    yield path
    assert not path.exists()


def test_what_is_not_of_the_plan_is_not_written_under_it(target):
    raw, others = frame().select("crashed", "g"), frame().ldp.perturb(FLAG).with_columns(frame()["user"])
    for kind in (pl.DataFrame.clone, pl.DataFrame.lazy):
        with pytest.raises(PlanError, match=r"\['crashed'\]: nothing says that these are reports.*assume_reports"):
            kind(raw).ldp.sink_parquet(target, FLAG)
        for options in ({}, {"assume_reports": True}):
            with pytest.raises(PlanError, match=r"\['user'\] are neither perturbed nor kept"):
                kind(others).ldp.sink_parquet(target, FLAG, **options)
    for kind in (pl.Int128, pl.UInt128, pl.List(pl.Struct({"a": pl.Array(pl.Int128, 2)}))):  # (not read again)
        with pytest.raises(PlanError, match=r"\['g'\] are of 128 bits"):
            frame().with_columns(g=pl.lit(None, kind)).ldp.perturb(FLAG).ldp.sink_parquet(target, FLAG)
    other = PrivacyPlan({"crashed": RandomizedResponse(epsilon=2.0)}, keep=["g"])
    with pytest.raises(MechanismMismatchError, match="column 'crashed'"):
        frame().ldp.perturb(other).ldp.sink_parquet(target, FLAG)
    reports = frame().lazy().ldp.perturb(FLAG)
    for put_back in (
        frame()["crashed"],
        pl.col("crashed").ext.storage(),
        pl.col("crashed").map_elements(lambda x: x, pl.Boolean),
    ):
        with case(put_back), pytest.raises(PlanError, match="nothing says that these are reports"):
            reports.with_columns(put_back).ldp.sink_parquet(target, FLAG)


def test_a_second_report_of_a_record_is_not_written_under_an_epsilon_without_it(tmp_path):
    """A join of two perturbed frames has two reports of each record; a plan that keeps one said the epsilon of one."""
    path, raw = tmp_path / "both.parquet", frame().drop("g").with_row_index("g")
    first, again = raw.ldp.perturb(FLAG), raw.ldp.perturb(FLAG)
    both = first.join(again, on="g")
    for plan in (FLAG, PrivacyPlan(FLAG.columns, keep=["g", "crashed_right"])):
        with pytest.raises(
            PlanError, match=r"\['crashed_right'\] hold reports, whose epsilon is not in that of the plan"
        ):
            both.ldp.sink_parquet(path, plan)
        with pytest.raises(PlanError, match=r"\['crashed_right'\] hold reports"):
            plan.check_reports(pl.DataFrame.to_arrow(both).schema)
    assert not path.exists()
    told = PrivacyPlan({**FLAG.columns, "crashed_right": FLAG["crashed"]}, keep=["g"])  # the remedy
    both.ldp.sink_parquet(path, told)
    assert ldp_polars.read_plan(path).epsilon == 2.0


def test_what_was_done_to_the_rows_does_not_take_the_proof_away(tmp_path):
    """The lazy plan of each would lose a mark that is not in the dtype."""
    path, reports = tmp_path / "reports.parquet", frame().lazy().ldp.perturb(FLAG)
    for some in (
        reports.filter(pl.col("g") == 1).sort("g").head(100),
        pl.concat([reports, reports]),
        reports.join(pl.LazyFrame({"g": [0, 1]}), on="g"),
        reports.collect(engine="streaming").lazy().group_by("g").agg("crashed").explode("crashed"),
        reports.select(g="g", crashed=pl.when(pl.col("g") == 0).then("crashed").otherwise("crashed")),
    ):
        some.ldp.sink_parquet(path, FLAG)
        pl.scan_parquet(path).ldp.sink_parquet(tmp_path / "again.parquet", FLAG)
        with pytest.raises(MechanismMismatchError, match="hold reports already"):
            pl.scan_parquet(path).ldp.perturb(FLAG)


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
@pytest.mark.parametrize("packed", [False, True])
def test_reports_that_pandas_has_written_are_cast(tmp_path, packed):
    """It has lists in place of arrays. All that the error said was to perturb them, a second time."""
    made = frame().ldp.perturb(PLAN, packed=packed)
    other = made.with_columns(pl.col(list(PLAN.columns)).ext.storage())
    other = other.with_columns(cs.array().arr.to_list(), cs.integer().cast(pl.Int64))
    with pytest.raises(PlanError, match="another program are cast to that dtype") as caught:
        other.ldp.histograms(PLAN, assume_reports=True)
    assert str(report_dtype(PLAN["os"], packed=packed)) in str(caught.value)
    cast = other.with_columns(pl.col(name).cast(report_dtype(m, packed=packed)) for name, m in PLAN.columns.items())
    assert cast.ldp.histograms(PLAN, assume_reports=True).equals(made.ldp.histograms(PLAN))
    cast.ldp.sink_parquet(tmp_path / "ours.parquet", PLAN, assume_reports=True)
    assert pl.read_parquet(tmp_path / "ours.parquet").equals(made)


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_floats_that_pandas_makes_of_words_are_read_anew(tmp_path):
    """A cast to the dtype that the error named gave other reports: a count of -117 in place of 13."""
    pd = pytest.importorskip("pandas")
    bits, path = {name: UnaryEncoding(range(70), epsilon=2.0) for name in "ab"}, tmp_path / "reports.parquet"
    plan = PrivacyPlan.sampled(bits, epsilon=2.0)
    made = pl.DataFrame(dict.fromkeys(bits, [1, 2] * 300)).ldp.perturb(plan, packed=True)
    made.write_parquet(path)
    floats = pl.from_pandas(made.to_pandas())
    assert floats["a"].cast(pl.Array(pl.UInt64, 2)).drop_nulls().ne(made["a"].ext.storage().drop_nulls()).any()
    with pytest.raises(PlanError, match='lost the last bits of words of 64: read them anew, as by dtype_backend="py'):
        floats.ldp.histograms(plan, assume_reports=True)
    with pytest.raises(ReportError, match="floats, as pandas makes"):
        floats.select(pl.col("a").ldp.histogram(plan["a"], assume_reports=True))
    with pytest.raises(PlanError, match="floats, as pandas makes"):
        plan.assume_reports(floats.to_arrow())
    anew = pl.from_pandas(pd.read_parquet(path, dtype_backend="pyarrow"))
    cast = anew.with_columns(pl.all().cast(pl.Array(pl.UInt64, 2)))
    assert cast.ldp.histograms(plan, assume_reports=True).equals(made.ldp.histograms(plan))


@pytest.mark.filterwarnings("ignore:assume_reports:UserWarning")
def test_dictionaries_that_arrow_has_written_are_reports(tmp_path):
    """Polars reads them as Categorical (which was "no reports")."""
    table = PLAN.perturb(frame().to_arrow())
    pq.write_table(table, tmp_path / "arrow.parquet")
    read = pl.read_parquet(tmp_path / "arrow.parquet")
    read.ldp.sink_parquet(tmp_path / "ours.parquet", PLAN, assume_reports=True)
    m, expected = PLAN["browser"], PLAN["browser"].tally(table["browser"]).to_bytes()
    assert isinstance(read.schema["browser"], pl.Categorical)
    assert m.tally(pl.read_parquet(tmp_path / "ours.parquet")["browser"].to_arrow()).to_bytes() == expected
    counted = read.ldp.histograms(PLAN, assume_reports=True).filter(column_name="browser")["count"]
    assert np.allclose(counted, m.estimate(m.tally(table["browser"])).counts)
    with pytest.raises(ReportError, match="'browser'"):
        read.with_columns(browser=pl.lit("no label", pl.Categorical)).ldp.histograms(PLAN, assume_reports=True)


def test_reports_from_elsewhere_are_written_on_the_users_word_with_a_warning(tmp_path):
    path = tmp_path / "reports.parquet"
    plain = frame().ldp.perturb(PLAN, typed=False)
    for reports in (plain, plain.lazy()):
        with pytest.warns(LdpWarning, match="nothing proves that columns .*'crashed'.* are reports"):
            reports.ldp.sink_parquet(path, PLAN, assume_reports=True)
        back = pl.read_parquet(path)
        assert ldp_polars.read_plan(path) == PLAN
        assert all(back.schema[name] == Report(mechanism) for name, mechanism in PLAN.columns.items())
        back.ldp.sink_parquet(path, PLAN)  # needs no word any more


def test_a_key_that_has_the_name_of_a_result_is_refused_in_our_own_words():
    for name in ("value", "count", "n", "column_name", "entry", "low"):
        plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)}, keep=[name])
        reports = mixed().with_columns(pl.lit(1).alias(name)).ldp.perturb(plan)
        with case(name), pytest.raises(PlanError, match=rf"{name}.*rename"):
            reports.ldp.histograms(plan, by=name)


def test_a_private_column_that_has_the_name_of_windows_is_refused_in_our_own_words():
    plan = PrivacyPlan({"window_start": RandomizedResponse(epsilon=1.0)}, keep=["day"])
    reports = pl.DataFrame({"window_start": [True], "day": [dt.date(2026, 1, 1)]}).ldp.perturb(plan)
    with pytest.raises(PlanError, match=r"window_start.*rename"):
        reports.ldp.histograms(plan, window="1d", event_time="day")


def test_persons_of_no_column_are_refused_in_our_own_words():
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)}, keep=["user"])
    made = pl.DataFrame({"x": [True], "user": [1]}).ldp.perturb(plan)
    for person in ("nobody", pl.col("user"), 3):
        for ask in (made.ldp.histograms, made.ldp.estimates, made.lazy().ldp.estimates, made.ldp.compare):
            with case(person), pytest.raises(PlanError, match="person="):
                ask(plan, person=person)


@pytest.mark.filterwarnings("ignore:(?s).*map_elements:polars.exceptions.PolarsInefficientMapWarning")
def test_what_no_group_can_be_is_refused_in_our_own_words():
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=1.0)}, keep=["g", "o"])
    made = pl.DataFrame({"x": [True], "g": [1], "o": pl.Series([object()], dtype=pl.Object)}).ldp.perturb(plan)
    for by, error, words in (
        (["g", "g"], ParameterError, "twice"),
        (None, ParameterError, "names of columns, got NoneType"),
        (3, ParameterError, "names of columns, got int"),
        ([None], ParameterError, "names of columns, got NoneType"),
        ("o", PlanError, r"Python objects.*column\.map_elements\(str, return_dtype=pl\.String\)"),
    ):
        for ask in (made.ldp.histograms, made.ldp.estimates, made.lazy().ldp.histograms, made.ldp.compare):
            with case(by), pytest.raises(error, match=words):
                ask(plan, by=by)
    text = made.with_columns(pl.col("o").map_elements(str, return_dtype=pl.String))  # (as the error says)
    assert text.ldp.histograms(plan, by="o")["n"].to_list() == [1, 1]


def test_structs_and_lists_of_reports_are_no_groups():
    """Their dtype still says so, and groups of 50, 2 and 2 % came out as 30, 12 and 12 %."""
    plan = PrivacyPlan(
        {"os": RandomizedResponse(["ios", "web"], epsilon=1.0), "crashed": RandomizedResponse(epsilon=4.0)}
    )
    reports = pl.DataFrame({"os": ["ios", "web"] * 5, "crashed": [True, False] * 5}).ldp.perturb(plan)
    of_crashed = PrivacyPlan({"crashed": plan["crashed"]})
    for group in (pl.struct("os"), pl.struct(pl.struct("os")), pl.concat_list("os")):
        frame = reports.with_columns(x=group)
        for ask in (frame.ldp.histograms, frame.lazy().ldp.estimates):
            with pytest.raises(MechanismMismatchError, match=r"\['x'\] hold reports, says their dtype"):
                ask(of_crashed, by="x")


def test_a_plan_of_a_file_that_is_no_parquet(tmp_path):
    """One with a schema of many levels ended the process. (Here it would end the tests.)"""
    path = tmp_path / "a.parquet"
    for content in (None, b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1", BOMBS["20,000 levels"]()):
        if content is not None:
            path.write_bytes(content)
        with case(str(content)[:20]), pytest.raises(InputError, match=r"a\.parquet"):
            ldp_polars.read_plan(path)


def test_a_large_plan_of_one_s_own_has_no_limits():
    m = RandomizedResponse(range(DEFAULT.labels + 1), epsilon=1.0)
    plan = PrivacyPlan({"page": m})
    reports = pl.DataFrame({"page": [1, 2, 3]}).ldp.perturb(plan)
    assert reports.select(pl.col("page").ldp.tally(m).struct.field("n")).item() == 3
    with pytest.raises(MechanismMismatchError, match="already"):
        reports.ldp.perturb(plan)


def test_simulate_as_in_the_core():
    plan = PrivacyPlan({"os": UnaryEncoding(["ios", "web"], epsilon=1.0), "n": Hybrid((0, 9), epsilon=1.0)})
    df = pl.DataFrame({"os": ["web", "ios", "web"], "n": [1, 1, 9], "other": [0, 0, 0]})
    kinds = [df, df.lazy(), df.with_columns(pl.col("os").cast(pl.Enum(["web", "ios"]))), df.cast({"n": pl.Int128})]
    for frame in kinds:
        seen = frame.ldp.simulate(plan, n=3000, seed=1)
        assert seen.people == {"os": (("web", 2000), ("ios", 1000)), "n": ((1, 2000), (9, 1000))}
        assert seen.tallies == plan.simulate(df.to_dict(as_series=False), n=3000, seed=1).tallies
    assert df.ldp.simulate(plan)["os"].n == 3
    assert df.ldp.simulate(plan, repeats=2)["os"].n == 6
    for frame in (df, df.lazy()):
        with pytest.raises(MechanismMismatchError, match="reports already"):
            frame.ldp.perturb(plan).ldp.simulate(plan)
    with pytest.raises(PlanError, match=r"the frame does not have: \['os'\]"):
        df.drop("os").ldp.simulate(plan)
    with pytest.raises(ParameterError, match="there are no records, or values, to take the shares of 100 people from"):
        df.head(0).ldp.simulate(plan, n=100)


def test_simulate_of_integers_beyond_64_bits():
    """They were nulls: counted as what is missing, where reports count them as the end of the interval."""
    numbers = Interval(0, 10, unmatched="clip", missing=5)
    plan = PrivacyPlan({"n": SquareWave(numbers, epsilon=9.0)})
    for n in (2**70, -(2**70)):
        seen = [
            pl.DataFrame({"n": pl.Series([x] * 9, dtype=pl.Int128)}).ldp.simulate(plan, seed=1) for x in (n, n >> 30)
        ]
        assert seen[0].tallies == seen[1].tallies


def test_options_of_ours_are_not_given_to_polars(tmp_path):
    """There was a TypeError, "got multiple values for keyword argument 'metadata'"."""
    with pytest.raises(ParameterError, match="leave out metadata="):
        frame().ldp.perturb(PLAN).ldp.sink_parquet(tmp_path / "r.parquet", PLAN, metadata={"a": "b"})


def test_errors_name_reports_and_not_all_that_made_them():
    """They had the JSON of the mechanism, with each of its values."""
    lists = frame().ldp.perturb(PLAN).select(pl.all().implode())
    for ask in (lambda: lists.ldp.histograms(PLAN), lambda: lists.select(pl.nth(0).ldp.histogram())):
        with pytest.raises((PlanError, DtypeError), match=r"(got|not) List\(Report\)"):
            ask()


# ---- all estimates of a mixed plan


HITTERS = HeavyHitters(Prefixes("abcdefghijklmnopqrstuvwxyz", 4), epsilon=5.0, levels=(2, 4), rows=8)
MIXED = PrivacyPlan(
    {
        "level": RandomizedResponse([1, 2, 10], epsilon=3.0),
        "crashed": RandomizedResponse(epsilon=3.0),
        "age": Hybrid((0, 120), epsilon=3.0),
        "delay": SquareWave((0, 10), epsilon=3.0, buckets=16),
        "word": HITTERS,
    },
    keep=["day", "time"],
)
PEOPLE = pl.DataFrame(
    {
        "level": [1, 2, 10, 10] * 2000,
        "crashed": [True, False] * 4000,
        "age": [30, 50] * 4000,
        "delay": [1.0, 9.0] * 4000,
        "word": ["rome"] * 5000 + ["oslo"] * 3000,
        "day": [1, 2] * 4000,
        "time": [dt.datetime(2026, 1, 1 + i % 2) for i in range(8000)],
    }
)


def test_every_column_of_a_mixed_plan_has_its_estimate(run):
    reports = PEOPLE.ldp.perturb(MIXED)
    found = reports.ldp.estimates(MIXED, by="day")
    assert list(found) == list(MIXED.columns)
    for name, ask in {
        "level": ldp_polars.histogram,
        "crashed": ldp_polars.histogram,
        "delay": ldp_polars.distribution,
        "word": ldp_polars.heavy_hitters,
    }.items():
        groups = reports.group_by("day").agg(ask(name)).sort("day")
        expected = groups.explode(name).unnest(name)
        assert found[name].equals(expected.select(found[name].columns))
        assert found[name].columns[-1] == "n"
    means = reports.group_by("day").agg(ldp_polars.mean("age")).sort("day").unnest("age")
    assert found["age"].equals(means)
    lazy = reports.lazy().ldp.estimates(MIXED, by="day")
    assert all(table.collect().equals(found[name]) for name, table in lazy.items())


def test_what_is_asked_of_a_column():
    reports = PEOPLE.ldp.perturb(MIXED)
    ask = {"delay": MeanEstimate(), "word": HeavyHittersEstimate(k=1), "level": HistogramEstimate(simultaneous=True)}
    found = reports.ldp.estimates(MIXED, window="1d", event_time="time", ask=ask)
    assert found["delay"].columns == ["window_start", "window_end", "mean", "standard_error", "low", "high", "n"]
    assert found["word"].height == 2
    assert found["level"]["n"].unique().to_list() == [4000]
    with pytest.raises(ParameterError, match="a mean needs"):
        reports.ldp.estimates(MIXED, ask={"level": MeanEstimate()})
    for no_columns in ("mean", 5, ["level"]):  # ValueError, TypeError
        with pytest.raises(ParameterError, match="what is asked of which column"):
            reports.ldp.estimates(MIXED, ask=no_columns)
    with pytest.raises(PlanError, match=r"ask names columns \['other'\]"):
        reports.ldp.estimates(MIXED, ask={"other": MeanEstimate()})
    with pytest.raises(PlanError, match="has columns"):
        reports.with_columns(low=1).ldp.estimates(MIXED, by="low")


def test_what_a_question_leaves_open_is_as_said_for_all_columns():
    """Of a question, not of its name, ``repeats`` and ``population`` were left out in silence: too narrow intervals."""
    reports = PEOPLE.ldp.perturb(plan := PrivacyPlan({n: MIXED[n] for n in ("level", "age", "word")}))
    assert reports.ldp.estimates(plan, ask={"word": HeavyHittersEstimate(k=1)}, population="many")["word"].height == 1
    reports, plan = reports.drop("word"), PrivacyPlan({n: MIXED[n] for n in ("level", "age")})
    for said in ({"repeats": 7}, {"population": "many"}, {"repeats": 7, "population": 90_000}):
        words, asked = (
            reports.ldp.estimates(plan, ask={"level": histogram, "age": mean}, **said)
            for histogram, mean in (("histogram", "mean"), (HistogramEstimate(), MeanEstimate()))
        )
        assert all(asked[name].equals(words[name]) for name in plan.columns), said
    alone = {"age": MeanEstimate(repeats=2), "level": HistogramEstimate(0.9, population=8_001)}
    both = reports.ldp.estimates(plan, ask=alone, population="many", repeats=7)
    assert both["age"].equals(reports.select(pl.col("age").ldp.mean(population="many", repeats=2)).unnest("age"))
    expected = reports.select(pl.col("level").ldp.histogram(confidence=0.9, population=8_001, repeats=7))
    assert both["level"].equals(expected.explode("level").unnest("level"))
    with pytest.raises(ParameterError, match=r"say HistogramEstimate\(confidence=0.99\), or name .* 'histogram'"):
        reports.ldp.estimates(plan, ask={"level": HistogramEstimate(population="many")}, confidence=0.99)
    kept = reports.ldp.estimates(plan, ask={"level": HistogramEstimate().to_dict()}, confidence=0.99)["level"]
    assert kept.equals(reports.ldp.estimates(plan, ask={"level": "histogram"})["level"])


def test_where_nothing_was_found_there_is_no_row(run):
    plan = PrivacyPlan({"word": HITTERS}, keep=["day"])
    few = PEOPLE.with_columns(day=pl.when(pl.int_range(pl.len()) < 3).then(3).otherwise("day")).ldp.perturb(plan)
    found = run(few, lambda f: f.ldp.estimates(plan, by="day")["word"])
    assert found["day"].unique().sort().to_list() == [1, 2]
    assert not found["value"].has_nulls()


# ---- so many records of a person, before they are perturbed; and what a person spends on these data


PERSONS = pl.DataFrame(
    {"user": [i % 40 for i in range(1000)], "day": [i // 500 for i in range(1000)], "x": range(1000)}
)
KEY = Secret(bytes(range(32)))


def test_the_first_records_of_each_person_are_kept(run):
    found = run(PERSONS, lambda f: f.ldp.bound(id="user", records=3))
    assert found["x"].to_list() == list(range(120))
    found = run(PERSONS, lambda f: f.ldp.bound(id="user", records=2, per="day"))
    assert PERSONS.ldp.bound(id="user", records=1, per=pl.col("x") // 100).height == 400
    several = PERSONS.with_columns(os=pl.col("x") % 3)
    kept = several.ldp.bound(id="user", records=1, per=["day", "os"])
    assert kept.height == several.select("user", "day", "os").unique().height
    firsts = {(u, d): [x for x in range(1000) if x % 40 == u and x // 500 == d][:2] for u in range(40) for d in (0, 1)}
    assert sorted(found["x"].to_list()) == sorted(x for two in firsts.values() for x in two)


def test_with_a_key_the_choice_is_random_and_the_same_each_time(run):
    found = run(PERSONS, lambda f: f.ldp.bound(id="user", records=5, key=KEY))
    assert found.group_by("user").len()["len"].to_list() == [5] * 40
    assert found.equals(PERSONS.ldp.bound(id="user", records=5, key=KEY))
    assert found["x"].to_list() == sorted(found["x"].to_list()), "the order stays"
    other = PERSONS.ldp.bound(id="user", records=5, key=Secret(bytes(32)))
    assert not found.equals(other)
    # each of the 25 records of a person as likely: their numbers are spread over all
    assert set(found.with_columns(number=pl.col("x") // 40)["number"]) == set(range(25))
    assert PERSONS.with_columns(y=1).ldp.bound(id="user", records=5, key=KEY).drop("y").equals(found), "no other column"


def test_each_period_has_a_choice_of_its_own():
    """The same number in each week was the same weekday for ever: of 1,000 intervals of four weeks 34 % held."""
    day = pl.col("day")
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 28), eager=True)
    number = (day.dt.day() - 1) // 7
    weeks = {
        "date": day.dt.truncate("1w"),
        "text": day.dt.strftime("%V"),
        "bytes": day.dt.strftime("%V").cast(pl.Binary),
        "lengths": pl.duration(days=number),
        "odd numbers": number.replace_strict([0, 1, 2, 3], [math.nan, math.inf, 0.5, None], return_dtype=pl.Float64),
        "lists": pl.concat_list(number, 1),
        "structs": pl.struct(number, one=1),
    }
    people = days.to_frame("day").join(pl.DataFrame({"user": range(300)}), how="cross")
    for name, week in {**weeks, "two": [day.dt.month(), pl.lit(1), weeks["date"]]}.items():
        kept = people.ldp.bound(id="user", records=1, per=week, key=KEY)
        of_each = kept.group_by("user").agg(day.dt.weekday().n_unique())["day"]
        with case(name):  # of 300 people 7^-3 have one weekday four times: 0.9 are expected, of 8 the chance is 10^-6
            assert kept.height == 4 * 300
            assert (of_each == 1).sum() < 8
        if name != "two":
            weekly = [people.filter(day.is_between(*ends)) for ends in zip(days[::7], days[6::7], strict=True)]
            apart = pl.concat(one.ldp.bound(id="user", records=1, per=week, key=KEY) for one in weekly)
            with case(name):
                assert apart.sort("user", "day").equals(kept.sort("user", "day"))
    with pytest.raises(DtypeError, match=r"bytes within .* have no text"):
        people.ldp.bound(id="user", records=1, per=pl.concat_list(weeks["bytes"]), key=KEY)


def test_bad_arguments_and_records_of_nobody():
    for wrong in ({"records": 0}, {"records": True}, {"records": 1, "key": "secret"}, {"records": 1, "per": None}):
        with case(wrong), pytest.raises(ParameterError):
            PERSONS.ldp.bound(id="user", **wrong)
    plan = PrivacyPlan({"x": RandomizedResponse(range(1000), epsilon=2.0)}, keep=["user"])
    for reports in (PERSONS.ldp.perturb(plan), PERSONS.lazy().ldp.perturb(plan)):
        with pytest.raises(ParameterError, match=r"after perturbing protects nothing: columns \['x'\] are reports"):
            reports.ldp.bound(id="user", records=1)
    nobody = pl.DataFrame({"user": ["ann", None]})
    for key in (None, KEY):
        with case(key), pytest.raises(InputError, match=r"'user': 1 of 2 ids are null"):
            nobody.ldp.bound(id="user", records=1, key=key)
        with case(key), pytest.raises(DtypeError, match="ids must be integers, text or binary, got double"):
            pl.DataFrame({"user": [float("nan")] * 9}).ldp.bound(id="user", records=1, key=key)  # nine are no person


def test_many_groups_are_tallied_in_few_calls(monkeypatch):
    """Each of them was a call of a Python function: 20,000 took 6 s, and 0.3 s now."""
    calls, count = [], UnaryEncoding.count_reports
    monkeypatch.setattr(UnaryEncoding, "count_reports", lambda *args: calls.append(1) or count(*args))
    plan = PrivacyPlan({"x": UnaryEncoding(["a", "b", "c"], epsilon=1.0)}, keep=["g"])
    frame = pl.DataFrame({"x": ["a", "b", "c"] * 1500, "g": [k * k % 701 if k % 3 else None for k in range(4500)]})
    made = frame.ldp.perturb(plan)
    found = made.ldp.histograms(by="g")
    assert len(calls) == 1
    each = made.group_by("g").agg(pl.col("x").ldp.histogram()).sort("g").explode("x").unnest("x")
    assert len(calls) > 300
    assert found.drop("column_name").equals(each, null_equal=True)


def test_ids_of_floats_are_refused_wherever_persons_are_told_apart():
    """All NaN were one person: of 10 people without an id ``explain`` said one person with 10 records."""
    plan = PrivacyPlan({"x": RandomizedResponse(epsilon=2.0), "y": Hybrid((0, 1), epsilon=1.0)}, keep=["user", "g"])
    ids = [float("nan")] * 10 + [1.5] * 10
    frame = pl.DataFrame({"x": [True] * 20, "y": [1.0] * 20, "g": [0, 1] * 10, "user": ids})
    made = frame.ldp.perturb(plan)
    for ask in (
        lambda: frame.ldp.explain(plan, id="user"),
        lambda: made.ldp.histograms(person="user"),
        lambda: made.ldp.estimates(person="user"),
        lambda: made.ldp.compare(plan, by="g", person="user"),
        lambda: made.select(pl.col("y").ldp.mean(person="user")),
        lambda: HistogramEstimate().of_persons(plan["x"], frame["x"], frame["user"].to_list()),
    ):
        with pytest.raises(DtypeError, match="ids must be integers, text or binary, got double"):
            ask()


def test_explain_says_what_a_person_spends_on_these_data():
    plan = PrivacyPlan({"x": RandomizedResponse([1, 2], epsilon=2.0)})
    for frame in (PERSONS, PERSONS.lazy()):
        text = frame.ldp.explain(plan, id="user")
        assert text.startswith("40 people, half of them with at most 25 of the records, nobody with more than 25\n")
        [counts] = [line.split() for line in text.splitlines() if line.startswith("records of one person")]
        assert counts[4:6] == ["1", "25"]
        [spent] = [line.split() for line in text.splitlines() if line.startswith("epsilon together")]
        assert spent[2:4] == ["2", "50"]
        assert "all reports of a person (epsilon 50): odds" in text
    bounded = PERSONS.ldp.bound(id="user", records=1).ldp.explain(plan, id="user")
    assert bounded.startswith("40 people, one record each\n")
    for n, words in ((1, "1 person, 1 record\n"), (3, "1 person, 3 records\n")):  # (it was "1 people")
        assert pl.DataFrame({"crashed": [True] * n, "user": [1] * n}).ldp.explain(FLAG, id="user").startswith(words)
    assert "all reports" not in bounded
    for nobody in (PERSONS, PERSONS.lazy()):
        with pytest.raises(InputError, match="1,000 of 1,000 ids are null"):
            nobody.with_columns(user=None).ldp.explain(plan, id="user")
    assert ldp_polars.explain(PERSONS.clear(), plan, id="user") == ldp_polars.explain(PERSONS.clear(), plan)


def test_each_row_of_a_sampled_plan_answers_one_column(run):
    """Rows of nulls, which a left join adds, were counted as people who answer another column."""
    columns = {"os": ["a", "b"], "bits": UnaryEncoding(["x", "y"], epsilon=1.0), "n": Hybrid((0, 9), epsilon=1.0)}
    plan = PrivacyPlan.sampled(columns, epsilon=1.0, keep=["id"])
    records = pl.DataFrame({"os": ["a"] * 90, "bits": ["x"] * 90, "n": [1.0] * 90, "id": range(90)})
    everyone = pl.DataFrame({"id": range(900)})
    for packed, typed in ((False, True), (True, False)):
        made = records.ldp.perturb(plan, packed=packed, typed=typed)
        joined = everyone.join(made, on="id", how="left")
        twice = made.with_columns(made["os"].shift(1))
        known = {"assume_reports": not typed}
        with case(packed, typed), pytest.warns(LdpWarning) if not typed else nullcontext():
            assert run(made, lambda f, known=known: f.ldp.histograms(plan, **known))["n"].to_list() == [90] * 4
            asked = [
                lambda f, known=known: f.ldp.histograms(plan, **known),
                lambda f, made=made, known=known: f.ldp.compare(plan, other=made, **known),
                *(lambda f, name=name, known=known: f.ldp.estimates(plan, **known)[name] for name in columns),
            ]
            for wrong in (joined, twice, pl.concat([made, everyone], how="diagonal")):
                for ask in asked:
                    with pytest.raises(ReportError, match="rows have no answer, or several"):
                        run(wrong, ask)
                with pytest.raises(ReportError, match="rows have no answer, or several"):
                    ldp_polars.pool([(made, plan), (wrong.lazy(), plan)], columns=["n"], **known)
