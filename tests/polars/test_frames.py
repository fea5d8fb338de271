"""Whole frames under a plan, and reports that travel between Polars, pyarrow and the core."""

from __future__ import annotations

import datetime as dt
import re
from itertools import product

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ldp_polars
from ldp_core import (
    Domain,
    DomainError,
    HadamardCountMeanSketch,
    Hybrid,
    InputError,
    LdpWarning,
    LocalHashing,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Tally,
    UnaryEncoding,
)
from ldp_core.estimates.histogram import ENTRY
from ldp_core.limits import DEFAULT
from ldp_polars.columns import Report, report_dtype

from ..cases import case
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


def test_it_is_lazy_and_returns_the_same_kind_of_frame(draws):
    lazy = frame().lazy().ldp.perturb(PLAN)
    assert isinstance(lazy, pl.LazyFrame)
    schema = lazy.collect_schema()
    assert draws == []
    assert isinstance(frame().ldp.perturb(PLAN), pl.DataFrame)
    assert schema == frame().ldp.perturb(PLAN).schema


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


def test_errors_name_the_column(run):
    df = frame().with_columns(os=pl.lit("zz"))
    with pytest.raises(DomainError, match=f"column 'os': {N} of {N}|column 'os'"):
        run(df, lambda f: f.ldp.perturb(PLAN))


def test_empty_frames(run):
    out = run(frame().clear(), lambda f: f.ldp.perturb(PLAN, packed=True))
    assert out.is_empty()
    assert out.schema == frame().ldp.perturb(PLAN, packed=True).schema


def test_pipe_and_functions_are_the_same(run):
    out = run(frame(), lambda f: ldp_polars.perturb_frame(f, PLAN))
    assert out.schema == frame().ldp.perturb(PLAN).schema
    assert frame().pipe(ldp_polars.perturb_frame, PLAN, packed=True).columns == list(PLAN)


# ---- the same reports elsewhere


def tallies_of(df, name, mechanism):
    """Tally, by way of tally and by way of histogram's count."""
    row = df.select(pl.col(name).ldp.tally(mechanism)).item()
    table = df.select(pl.col(name).ldp.histogram(mechanism)).explode(name).unnest(name)
    tally = Tally.from_dict(row)
    assert table["count"].to_list() == mechanism.estimate(tally).counts.tolist()
    return tally


def test_reports_sunk_by_polars_are_tallied_by_the_core(tmp_path, support):
    path = tmp_path / "reports.parquet"
    kinds = ({}, {"compression": "snappy", "row_group_size": 700}, {"data_page_size": 1000})
    for packed, options in product((False, True), kinds):
        frame().lazy().ldp.perturb(PLAN, packed=packed).sink_parquet(path, **options)
        table, back = pq.read_table(path), pl.read_parquet(path)
        for name, mechanism in PLAN.columns.items():
            with case(packed, options, name):
                expected = mechanism.tally(table.column(name))
                assert expected.n == N
                assert expected.counters.tolist() == support(back[name].ext.storage(), mechanism).tolist()
                assert tallies_of(back, name, mechanism) == expected
                parts = [mechanism.tally(batch.column(name)) for batch in pq.ParquetFile(path).iter_batches(777)]
                assert Tally.merge(parts) == expected


def test_reports_made_by_the_core_are_tallied_by_polars(tmp_path, support):
    for packed in (False, True):
        batch = PLAN.perturb(frame().to_arrow().combine_chunks().to_batches()[0], packed=packed)
        table = pa.Table.from_batches([batch.slice(0, 1001), batch.slice(1001)])
        with pa.ipc.new_file(tmp_path / "ipc", table.schema) as writer:
            writer.write_table(table)
        pq.write_table(table, tmp_path / "parquet")
        pq.write_table(table, tmp_path / "small", data_page_size=512)
        read = {
            "memory": pl.from_arrow(table),
            "ipc": pl.read_ipc(tmp_path / "ipc"),
            "parquet": pl.read_parquet(tmp_path / "parquet"),
            "small pages": pl.read_parquet(tmp_path / "small"),
        }
        scan = pl.scan_parquet(tmp_path / "parquet")
        for name, m in PLAN.columns.items():
            expected, tally = m.tally(batch.column(name)), pl.col(name).ldp.tally(m)
            for through, back in read.items():
                with case(packed, name, through):
                    reports = stored(back[name]).cast(report_dtype(m, packed=packed))
                    assert expected.counters.tolist() == support(reports, m).tolist()
                    assert tallies_of(back, name, m) == expected
            with case(packed, name, "lazy"):
                assert Tally.from_dict(scan.select(tally).collect().item()) == expected
                halves = scan.group_by(pl.col("when") % 2).agg(tally)
                assert Tally.from_dict(halves.select(pl.col(name).ldp.merge(m)).collect().item()) == expected


def stored(reports: pl.Series) -> pl.Series:
    """Plain reports."""
    return reports.ext.storage() if isinstance(reports.dtype, Report) else reports


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
    with pytest.raises(ParameterError, match="go together"):
        reports.ldp.histograms(PLAN, window="1d")
    with pytest.raises(PlanError):
        reports.drop(next(iter(PLAN.columns))).ldp.histograms(PLAN)


def test_the_plan_travels_with_the_reports(tmp_path):
    path, df = tmp_path / "reports.parquet", frame()
    for packed in (False, True):
        df.lazy().ldp.perturb(PLAN, packed=packed).ldp.sink_parquet(path, PLAN)
        assert ldp_polars.read_plan(path) == PLAN
        assert PrivacyPlan.from_metadata(pq.read_schema(path).metadata or pq.read_metadata(path).metadata) == PLAN
        assert pl.read_parquet(path).ldp.histograms(PLAN)["n"].unique().to_list() == [df.height]
    df.write_parquet(tmp_path / "raw.parquet")
    with pytest.raises(PlanError):
        ldp_polars.read_plan(tmp_path / "raw.parquet")


def test_explain_tells_costs_errors_and_what_would_help():
    plan = PrivacyPlan(
        {"rare": UnaryEncoding(range(1000), epsilon=0.5), "yes": RandomizedResponse(epsilon=1.0)}, keep=["g"]
    )
    text = pl.DataFrame({"rare": [1] * 100, "yes": [True] * 100}).ldp.explain(plan)
    assert text == pl.LazyFrame({"rare": [1] * 100, "yes": [True] * 100}).ldp.explain(plan)
    assert "1.5" in text  # the total
    assert "unprotected" in text
    margin = 1.959964 * np.sqrt(plan["yes"].variance(100, 50))  # of 100 records: in percent, too
    assert f"± {margin:.3g} % of the records" in text
    assert max(map(len, text.splitlines())) <= 80
    text = text.replace("\n  ", " ")
    warning = next(line for line in text.splitlines() if line.startswith("rare: "))
    enough = int(re.search(r"more than ([\d,]+) reports", warning)[1].replace(",", ""))
    m = plan["rare"]
    assert np.sqrt(m.variance(enough + 1, enough / 1000)) / (enough + 1) < 1 / 1000
    assert np.sqrt(m.variance(0.9 * enough, 0.9 * enough / 1000)) / (0.9 * enough) > 1 / 1000
    assert not any(line.startswith("yes: ") for line in text.splitlines())


# ---- columns that have no histogram, and plans of drawn columns


WORDS = ["rome", "oslo"]
SKETCH = HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32)
NUMBER = Hybrid((0, 100), epsilon=1.0)


def mixed() -> pl.DataFrame:
    return pl.DataFrame({"os": ["ios", "web"] * 50, "number": [1.0, 2.0] * 50, "word": WORDS * 50})


def test_a_frame_without_any_histogram_says_what_to_do_instead():
    plan = PrivacyPlan({"number": NUMBER, "word": SKETCH})
    reports = mixed().ldp.perturb(plan)
    for one in (reports, reports.lazy()):
        with pytest.raises(PlanError, match=r"\['number', 'word'\] has a histogram: .*numbers have a mean.*candidates"):
            one.ldp.histograms(plan)


def test_columns_without_a_histogram_are_left_out_until_a_sketch_has_candidates():
    columns = {"os": RandomizedResponse(["ios", "web"], epsilon=1.0), "number": NUMBER}
    plan = PrivacyPlan({**columns, "word": SKETCH})
    reports = mixed().ldp.perturb(plan)
    assert set(reports.ldp.histograms(plan)["column_name"]) == {"os"}
    tidy = reports.ldp.histograms(PrivacyPlan({**columns, "word": SKETCH.over(WORDS)}))
    assert tidy.filter(pl.col("column_name") == "word")["value"].to_list() == WORDS


def test_a_plan_of_drawn_columns_perturbs_and_estimates():
    for kind, typed in product((PrivacyPlan.sampled, PrivacyPlan.fake), (False, True)):
        plan = kind({"os": ["ios", "web"], "word": WORDS}, epsilon=2.0)
        with case(kind, typed):
            assert mixed().ldp.perturb(plan, typed=typed).ldp.histograms(plan)["n"].to_list() == [100] * 4


def test_estimates_by_a_column_that_the_plan_did_not_keep_are_refused_at_once():
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    reports = mixed().lazy().ldp.perturb(plan)
    for options in ({"by": "country"}, {"by": ["country"]}, {"window": "1d", "event_time": "time"}):
        with pytest.raises(PlanError, match=r"\['(country|time)'\].*keep"):
            reports.ldp.histograms(plan, **options)


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
    reports = frame().lazy().ldp.perturb(FLAG)
    for put_back in (
        frame()["crashed"],
        pl.col("crashed").ext.storage(),
        pl.col("crashed").map_elements(lambda x: x, pl.Boolean),
    ):
        with case(put_back), pytest.raises(PlanError, match="nothing says that these are reports"):
            reports.with_columns(put_back).ldp.sink_parquet(target, FLAG)


def test_reports_and_raw_values_do_not_mix():
    raw, reports = frame().select("crashed", "g"), frame().ldp.perturb(FLAG)
    for number, mix in enumerate(
        (
            lambda: pl.concat([reports, raw]),
            lambda: pl.concat([reports, raw], how="vertical_relaxed"),
            lambda: reports.select(pl.coalesce("crashed", raw["crashed"])),
            lambda: reports.select(pl.col("crashed").fill_null(raw["crashed"])),
            lambda: reports.select(pl.when(pl.col("g") == 0).then(raw["crashed"]).otherwise("crashed")),
        )
    ):
        with case(number), pytest.raises(pl.exceptions.SchemaError):
            mix()


def test_reports_of_another_mechanism_are_not_written_under_a_plan(target):
    other = PrivacyPlan({"crashed": RandomizedResponse(epsilon=2.0)}, keep=["g"])
    with pytest.raises(MechanismMismatchError, match="column 'crashed'"):
        frame().ldp.perturb(other).ldp.sink_parquet(target, FLAG)


def test_columns_that_were_perturbed_one_by_one_are_written_if_they_say_so(tmp_path):
    path = tmp_path / "reports.parquet"
    reports = frame().select("g", pl.col("crashed").ldp.perturb(FLAG["crashed"], typed=True))
    reports.ldp.sink_parquet(path, FLAG)
    assert ldp_polars.read_plan(path) == FLAG
    assert pl.read_parquet(path).equals(reports)


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


def test_reports_of_the_core_are_not_perturbed_again_and_written_as_they_are(tmp_path):
    path = tmp_path / "reports.parquet"
    pq.write_table(pa.Table.from_batches([FLAG.perturb(frame().to_arrow().combine_chunks().to_batches()[0])]), path)
    with pytest.raises(MechanismMismatchError, match="hold reports already"):
        pl.scan_parquet(path).ldp.perturb(FLAG)
    pl.scan_parquet(path).ldp.sink_parquet(tmp_path / "again.parquet", FLAG)
    assert ldp_polars.read_plan(tmp_path / "again.parquet") == FLAG


def test_a_key_that_has_the_name_of_a_result_is_refused_in_our_own_words():
    for name in ("value", "count", "n", "column_name", "entry", "low"):
        plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)}, keep=[name])
        reports = mixed().with_columns(pl.lit(1).alias(name)).ldp.perturb(plan)
        with case(name), pytest.raises(PlanError, match=rf"{name}.*rename"):
            reports.ldp.histograms(plan, by=name)


def test_a_plan_of_a_file_that_is_no_parquet(tmp_path):
    path = tmp_path / "a.parquet"
    for content in (None, b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1"):
        if content is not None:
            path.write_bytes(content)
        with case(content), pytest.raises(InputError, match=r"a\.parquet"):
            ldp_polars.read_plan(path)


def test_a_plan_of_a_file_with_a_schema_of_many_levels(tmp_path):
    """It ended the process. (Here it would end the tests.)"""
    (tmp_path / "a.parquet").write_bytes(BOMBS["20,000 levels"]())
    with pytest.raises(InputError, match=r"a\.parquet"):
        ldp_polars.read_plan(tmp_path)


def test_a_large_plan_of_one_s_own_has_no_limits():
    m = LocalHashing(range(DEFAULT.labels + 1), epsilon=1.0)
    plan = PrivacyPlan({"page": m})
    reports = pl.DataFrame({"page": [1, 2, 3]}).ldp.perturb(plan)
    tally = m.tally(reports["page"].ext.storage().to_arrow())
    assert reports.select(pl.col("page").ldp.tally(m)).item()["n"] == tally.n
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
    with pytest.raises(PlanError, match=r"the frame does not have: \['os'\]"):
        df.drop("os").ldp.simulate(plan)
