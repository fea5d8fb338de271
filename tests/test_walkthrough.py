"""What a user meets who walks through the pages: mixed plans, wrong uses, and errors that say what to do instead."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import apache_beam as beam
import polars as pl
import pyarrow as pa
import pytest

import ldp_beam
import ldp_polars  # noqa: F401 (registers .ldp)
from ldp_beam.io.histograms import HISTOGRAM_SCHEMA
from ldp_beam.yaml import LdpHistogram, LdpPerturb
from ldp_core import (
    DtypeError,
    HadamardCountMeanSketch,
    HeavyHitters,
    Hybrid,
    InputError,
    LongitudinalUnaryEncoding,
    Mechanism,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    ReportError,
    Secret,
    SquareWave,
    SummationHistogramEncoding,
    UnaryEncoding,
)
from pipelines.job import TelemetryJob
from pipelines.means import MEAN_SCHEMA
from pipelines.sources import match_files
from pipelines.table import estimate_tables
from pipelines.telemetry import main

WORDS = ["rome", "oslo"]
SKETCH = HadamardCountMeanSketch("str", epsilon=2.0, hashes=16, width=32)
NO_HISTOGRAM = {
    "number": Hybrid((0, 100), epsilon=1.0),
    "word": SKETCH,
    "page": Rappor("str", bits=16, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75),
    "name": HeavyHitters(Prefixes("abc", 2), epsilon=2.0, rows=4, width=64),
}
each = pytest.mark.parametrize("column", NO_HISTOGRAM)


def frame() -> pl.DataFrame:
    return pl.DataFrame({"os": ["ios", "web"] * 50, "number": [1.0, 2.0] * 50, "word": WORDS * 50})


# ---- Polars


def test_a_frame_without_any_histogram_says_what_to_do_instead():
    plan = PrivacyPlan({"number": NO_HISTOGRAM["number"], "word": SKETCH})
    reports = frame().ldp.perturb(plan)
    for one in (reports, reports.lazy()):
        with pytest.raises(PlanError, match=r"\['number', 'word'\] has a histogram: of numbers take .*candidates"):
            one.ldp.histograms(plan)


def test_columns_without_a_histogram_are_left_out_until_a_sketch_has_candidates():
    columns = {"os": RandomizedResponse(["ios", "web"], epsilon=1.0), "number": NO_HISTOGRAM["number"]}
    plan = PrivacyPlan({**columns, "word": SKETCH})
    reports = frame().ldp.perturb(plan)
    assert set(reports.ldp.histograms(plan)["column"]) == {"os"}
    tidy = reports.ldp.histograms(PrivacyPlan({**columns, "word": SKETCH.over(WORDS)}))
    assert tidy.filter(pl.col("column") == "word")["value"].to_list() == WORDS


@each
def test_a_histogram_of_what_has_none_says_what_to_do_instead(column):
    for make in (pl.col(column).ldp.histogram, pl.col(column).ldp.estimate):
        with pytest.raises(ParameterError, match=r"\.ldp\.mean .*\.ldp\.heavy_hitters .*sketch\.over"):
            make(NO_HISTOGRAM[column])


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_different_aggregations_in_one_step(engine):
    os, number = RandomizedResponse(["ios", "web"], epsilon=1.0), NO_HISTOGRAM["number"]
    plan = PrivacyPlan({"os": os, "number": number, "word": SKETCH})
    table = (
        frame()
        .lazy()
        .ldp.perturb(plan)
        .select(
            pl.col("os").ldp.histogram(os).list.len(),
            pl.col("number").ldp.mean(number).struct.field("n"),
            pl.col("word").ldp.histogram(SKETCH.over(WORDS)).list.len(),
        )
        .collect(engine=engine)
    )
    assert table.rows() == [(2, 100, 2)]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_large_matrices_do_not_overflow_the_stacks_of_polars_threads(engine):
    wave = SquareWave((0, 3), epsilon=1.0, buckets=512)
    page = Rappor("str", bits=64, hashes=2, cohorts=32, f=0.25, p=0.25, q=0.75)
    plan, secret = PrivacyPlan({"number": wave, "word": page}, keep=["os"]), Secret.from_seed(1)
    reports = frame().with_row_index("user").ldp.perturb(plan, key=secret, id="user")
    many = page.over([*WORDS, *map(str, range(500))])
    groups = (
        reports.lazy()
        .group_by("os")
        .agg(pl.col("number").ldp.distribution(wave, buckets=4), pl.col("word").ldp.histogram(many))
        .select(pl.col("number").list.len(), pl.col("word").list.len())
        .collect(engine=engine)
    )
    assert groups.rows() == [(4, 502)] * 2


@pytest.mark.parametrize("kind", [PrivacyPlan.sampled, PrivacyPlan.fake])
@pytest.mark.parametrize("typed", [False, True])
def test_a_plan_of_drawn_columns_perturbs_and_estimates(kind, typed):
    plan = kind({"os": ["ios", "web"], "word": WORDS}, epsilon=2.0)
    tidy = frame().ldp.perturb(plan, typed=typed).ldp.histograms(plan)
    assert tidy["n"].to_list() == [100] * 4


@pytest.mark.parametrize(
    "plan",
    [
        PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)}),
        PrivacyPlan.sampled({"os": ["ios", "web"], "word": WORDS}, epsilon=1.0),
    ],
)
def test_typed_reports_are_not_perturbed_again(plan):
    reports = frame().ldp.perturb(plan, typed=True)
    for one in (reports, reports.lazy()):
        with pytest.raises(MechanismMismatchError, match="hold reports already"):
            one.ldp.perturb(plan)  # at once
    with pytest.raises(MechanismMismatchError, match=r"\['os'\] hold reports already"):
        reports.select(pl.col("os").ldp.perturb(RandomizedResponse(["ios", "web"], epsilon=1.0)))


def test_estimates_by_a_column_that_the_plan_did_not_keep_are_refused_at_once():
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    reports = frame().lazy().ldp.perturb(plan)
    for options in ({"by": "country"}, {"by": ["country"]}, {"window": "1d", "event_time": "time"}):
        with pytest.raises(PlanError, match=r"\['(country|time)'\].*keep"):
            reports.ldp.histograms(plan, **options)


def test_a_plan_in_the_place_of_a_mechanism_says_where_it_belongs():
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    with pytest.raises(ParameterError, match=r"df\.ldp\.perturb\(plan\)"):
        pl.col("os").ldp.perturb(plan)


# ---- Beam


def test_typed_reports_are_not_perturbed_again_in_beam():
    m = RandomizedResponse(["ios", "web"], epsilon=1.0)
    plan = PrivacyPlan({"os": m})
    reports = frame().ldp.perturb(plan, typed=True).to_arrow().to_batches()[0]
    for again in (ldp_beam.Perturb(plan), ldp_beam.PrivateHistogram("os", m)):
        with (
            pytest.raises(MechanismMismatchError, match=r"\['os'\] hold reports already"),
            beam.Pipeline("FnApiRunner") as p,
        ):
            _ = p | beam.Create([reports]) | again


@each
def test_a_histogram_in_beam_of_what_has_none_says_what_to_do_instead(column):
    with pytest.raises(ParameterError, match=r"of numbers take Mean, .*HeavyHitters, .*sketch\.over"):
        ldp_beam.Histogram(column, NO_HISTOGRAM[column])


@each
def test_a_histogram_in_yaml_of_what_has_none_says_what_to_do_instead(column):
    with pytest.raises(ParameterError, match=r"candidates .*LdpMean, .*LdpHeavyHitters"):
        LdpHistogram(column=column, mechanism=NO_HISTOGRAM[column].to_dict())


@pytest.mark.parametrize(
    ("mechanism", "needs"),
    [
        (NO_HISTOGRAM["number"], "hybrid needs float values, not str"),
        (HadamardCountMeanSketch("int", epsilon=1.0), "int"),
    ],
)
def test_yaml_names_the_mechanism_and_not_labels_that_it_has_not(mechanism, needs):
    plan = PrivacyPlan({"word": mechanism}).to_dict()
    with pytest.raises(DtypeError, match=f"'word': .*{needs}"), beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create([beam.Row(word="rome")]) | LdpPerturb(plan=plan)


def test_rappor_with_md5_is_perturbed_and_tallied_in_one_step():
    m = Rappor("str", bits=32, hashes=2, cohorts=8, f=0.25, p=0.05, q=0.95, hashing="md5").over([*WORDS, "bern"])
    events = [{"word": "rome" if i % 3 else "oslo", "user": i} for i in range(3000)]
    with beam.Pipeline("FnApiRunner") as p:
        histogram = ldp_beam.PrivateHistogram("word", m, key=Secret.from_seed(1).shared(), id="user")
        counts = (
            p | beam.Create(events) | histogram | beam.Map(lambda row: (row.value, row.count)) | beam.combiners.ToDict()
        )
        _ = counts | beam.Map(_check_counts)


def _check_counts(counts: dict[str, float]) -> None:
    assert abs(counts["rome"] - 2000) < 500
    assert abs(counts["bern"]) < 500


# ---- the pages


@pytest.mark.parametrize("page", ["mechanisms", "rappor", "heavy_hitters"])
def test_the_blocks_of_a_page_run_one_after_the_other(page):
    names: dict = {}
    for block in _blocks(page, "python"):
        exec(compile(block, f"{page}.md", "exec"), names)


@pytest.mark.parametrize("page", ["sketches", "rappor", "numbers", "heavy_hitters"])
def test_a_plan_in_toml_can_be_copied(page):
    plan = PrivacyPlan.from_toml(_blocks(page, "toml")[0])
    assert PrivacyPlan.from_toml(plan.to_toml()) == plan


def _blocks(page: str, language: str) -> list[str]:
    text = (Path(__file__).parents[1] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert blocks
    return blocks


# ---- what is perturbed already, or not yet


def test_a_batch_that_says_it_holds_reports_is_not_perturbed_again():
    plan = PrivacyPlan({"os": UnaryEncoding(["ios", "web"], epsilon=1.0)})
    reports = plan.perturb(pa.record_batch({"os": ["ios", "web"]}), packed=False)
    with pytest.raises(MechanismMismatchError, match="the plan in the data's metadata; do not perturb them again"):
        PrivacyPlan({"os": RandomizedResponse(range(4), epsilon=1.0)}).perturb(reports)


@pytest.mark.parametrize(
    "m",
    [
        UnaryEncoding(["ios", "web"], epsilon=1.0),
        HadamardCountMeanSketch("str", epsilon=1.0),
        Hybrid((0, 9), epsilon=1.0),
        SummationHistogramEncoding(["ios", "web"], epsilon=1.0),
    ],
    ids=lambda m: m.name,
)
def test_values_in_place_of_reports_are_told_to_be_perturbed_first(m):
    with pytest.raises(ReportError, match="if these are values, perturb them first"):
        m.tally(pa.array(["ios", "web"]))


def test_candidates_of_a_rappor_are_its_own():
    """Those of other sketches would read its tallies, too, and count wrongly."""
    rappor = Rappor("str", bits=32, hashes=2, cohorts=8, f=0.25, p=0.1, q=0.9)
    over = rappor.over(WORDS).to_dict()
    assert over["mechanism"] == "rappor_candidates"
    assert Mechanism.from_dict(over) == rappor.over(WORDS)
    with pytest.raises(ParameterError, match="of rappor the candidates are 'rappor_candidates', not 'candidates'"):
        Mechanism.from_dict({**over, "mechanism": "candidates"})
    other = HadamardCountMeanSketch("str", epsilon=1.0).over(WORDS).to_dict()
    with pytest.raises(ParameterError, match="the candidates are 'candidates'"):
        Mechanism.from_dict({**other, "mechanism": "rappor_candidates"})


# ---- the command line


def test_the_job_refuses_permanent_answers_before_it_reads_anything():
    plan = PrivacyPlan({"os": LongitudinalUnaryEncoding(["ios", "web"], epsilon_infinity=2.0, epsilon_1=1.0)})
    with pytest.raises(PlanError, match=r"keyed noise: give --secret-file FILE or --secret-env NAME, and --id COLUMN"):
        TelemetryJob(plan, ("nothing.parquet",), "time", "1d", "out")


def test_the_job_refuses_an_output_that_is_a_file(tmp_path):
    (tmp_path / "out").touch()
    plan = PrivacyPlan({"os": RandomizedResponse(epsilon=1.0)})
    with pytest.raises(InputError, match="the output must be a directory"):
        TelemetryJob(plan, ("nothing.parquet",), "time", "1d", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("--windw", "--window"), ("--heavy_hitters", "--heavy-hitters"), ("--report", "--reports"), ("--tops=3", "--top")],
)
def test_a_misspelt_option_is_not_left_to_beam_which_ignores_it(wrong, right, capsys):
    with pytest.raises(SystemExit):
        main(["--plan", "p", "--input", "i", "--event-time", "t", "--output", "o", wrong])
    assert f"did you mean {right}?" in capsys.readouterr().err


def test_beams_own_options_are_not_taken_for_misspelt_ones(capsys):
    flags = [
        "--flink_master=x",
        "--checkpointing_interval=1",
        "--environment_type=DOCKER",
        "--region=r",
        "--project",
        "p",
    ]
    assert main(["--plan", "p", "--input", "i", "--event-time", "t", "--output", "o", *flags]) == 2
    assert "cannot read the plan 'p'" in capsys.readouterr().err


def test_a_pattern_without_a_folder_finds_the_files_that_are_here(tmp_path, monkeypatch):
    (tmp_path / "a.ndjson").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert [Path(path).name for path in match_files(["*.ndjson"])] == ["a.ndjson"]
    assert match_files(["a.ndjson"]) == ["a.ndjson"]


@pytest.mark.parametrize(("column", "name"), [("word", "candidates"), ("page", "rappor_candidates")])
def test_a_sketch_without_candidates_says_how_to_write_them(column, name):
    mechanism = NO_HISTOGRAM[column]
    with pytest.raises(PlanError, match=f'mechanism = "{name}"'):
        TelemetryJob(PrivacyPlan({column: mechanism}), ("nothing.parquet",), "time", "1d", "out")
    assert mechanism.over(["rome"]).to_dict()["mechanism"] == name


def test_records_in_windows_without_heavy_hitters_are_not_said_to_be_missing(tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(PrivacyPlan({"name": NO_HISTOGRAM["name"]}).to_toml())
    (tmp_path / "events.ndjson").write_text('{"time": "2026-01-01T00:00:00", "name": "ab"}\n')
    where = {name: str(tmp_path / name) for name in ("plan.toml", "events.ndjson", "out")}
    options = ["--plan", where["plan.toml"], "--input", where["events.ndjson"], "--output", where["out"]]
    assert main([*options, "--event-time", "time"]) == 0
    out = capsys.readouterr().out
    assert "name: nothing was found" in out
    assert "records: 0 in windows in which something was found + 0 dead letters" in out


def test_half_of_an_interval_that_is_not_symmetric_is_half_of_it():
    row = dict.fromkeys(HISTOGRAM_SCHEMA.names) | {"window_start": datetime(2026, 1, 1, tzinfo=UTC), "column": "os"}
    row |= {"key": [], "value": "ios", "count": 50.0, "low": 0.0, "high": 60.0, "n": 100, "confidence": 0.95}
    plan = PrivacyPlan({"os": RandomizedResponse(["ios", "web"], epsilon=1.0)})
    text = "".join(estimate_tables(pa.Table.from_pylist([row], HISTOGRAM_SCHEMA), MEAN_SCHEMA.empty_table(), plan))
    assert "50 ± 30" in text
