"""What a new user meets first: the error says what to do."""

import datetime as dt
from itertools import product

import numpy as np
import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    Cells,
    CountMeanSketch,
    DtypeError,
    HistogramEstimate,
    Hybrid,
    InputError,
    LdpError,
    LdpWarning,
    MechanismMismatchError,
    ParameterError,
    PlanError,
    PrivacyPlan,
    PrivSet,
    RandomizedResponse,
    ReportError,
    Secret,
    Tally,
    ThresholdHistogramEncoding,
    UnaryEncoding,
    WholeNumbers,
    usual_question,
)

from ..cases import case

FLAG = PrivacyPlan({"crashed": RandomizedResponse(epsilon=3.0)})
PEOPLE = pl.DataFrame({"crashed": [True, False], "word": ["rome", "oslo"], "day": [1, 2]})


def test_a_plan_is_read_from_a_folder_or_a_pattern(tmp_path):
    other = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    one = PrivacyPlan({"crashed": RandomizedResponse(epsilon=3.0)})
    for name in "ab":
        PEOPLE.ldp.perturb(one).ldp.sink_parquet(tmp_path / f"{name}.parquet", one)
    (tmp_path / ".c.parquet.x").mkdir()  # (of a command that was killed)
    for unfinished in (tmp_path / ".c.parquet.x" / "c.parquet", tmp_path / ".c.parquet"):
        unfinished.write_bytes(b"PAR1")
    for path in (tmp_path, tmp_path / "*.parquet", tmp_path / "**" / "*.parquet", tmp_path / "a.parquet"):
        assert ldp_polars.read_plan(path) == one
    PEOPLE.ldp.perturb(other).ldp.sink_parquet(tmp_path / "c.parquet", other)
    with pytest.raises(PlanError, match="different plans"):
        ldp_polars.read_plan(tmp_path)
    for nothing in (tmp_path / "*.csv", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=r"there is no (Parquet )?file"):
            ldp_polars.read_plan(nothing)


WORD = pl.col("word").ldp
GRR = RandomizedResponse(["rome", "oslo"], epsilon=3.0)
OUE = UnaryEncoding(["rome", "oslo"], epsilon=3.0)
WORDS = PEOPLE.select(WORD.perturb(GRR))
DAYS = PrivacyPlan(FLAG.columns, keep=["day"])
DATES = PrivacyPlan(FLAG.columns, keep=["day", "date"])
DRAWN = PrivacyPlan.sampled({"word": GRR, "crashed": [False, True]}, epsilon=3.0)
PAIRS = PrivacyPlan.pairs({"word": ["rome", "oslo"], "crashed": [False, True]}, epsilon=3.0)
PAIRED = PEOPLE.ldp.perturb(PAIRS)
SETS = PrivSet(["rome", "oslo", "bern"], most=1, epsilon=3.0)
DRAWN_REPORTS = pl.concat([PEOPLE] * 500).ldp.perturb(DRAWN)

WRONG = [  # a call, and what its error says to do
    (lambda: PEOPLE.ldp.perturb({"crashed": RandomizedResponse(epsilon=1.0)}), r"PrivacyPlan\(\{name: mechanism\}\)"),
    (lambda: PEOPLE.ldp.perturb("plan.toml"), "from_toml"),
    (lambda: ldp_polars.perturb_frame(PEOPLE.to_arrow(), FLAG), r"pl\.from_arrow"),
    (lambda: PEOPLE.ldp.perturb(FLAG, key="secret", id="day"), r"Secret\.from_file"),
    (lambda: PEOPLE.select(pl.col("word").ldp.randomized_response([1, 2], epsilon=1.0)), "by keyword"),
    (lambda: PEOPLE.select(pl.col("word").ldp.randomized_response(domain=[1, 2], epsilon=1.0)), "type String"),
    (
        lambda: PEOPLE.select(WORD.randomized_response(["rome", "oslo"], epsilon=1)),
        r"got list in .*\.ldp\.randomized_response\(domain=\[...\], epsilon=1\.0\)",
    ),
    (lambda: PEOPLE.select(WORD.unary_encode(1.0)), r"got float in .*unary_encode\(domain=\[...\], epsilon=1\.0\)"),
    (lambda: PEOPLE.select(WORD.unary_encode(GRR)), r"\.ldp\.perturb takes any mechanism"),
    (lambda: PEOPLE.select(WORD.unary_encode(domain=["rome", "oslo"])), r"epsilon is missing: .*epsilon=1\.0"),
    (lambda: PEOPLE.select(WORD.randomized_response(epsilon=1.0)), r"'word': pass domain=\[...\]"),
    (lambda: PEOPLE.select(WORD.randomized_response(domain="rome", epsilon=1.0)), r'as \["yes", "no"\], got str'),
    (lambda: PEOPLE.select(WORD.perturb(1.0)), r"got float; .*RandomizedResponse\("),
    (lambda: PEOPLE.select(WORD.perturb(RandomizedResponse)), r"the class RandomizedResponse; make one"),
    (lambda: PEOPLE.select(WORD.perturb(FLAG)), r"df\.ldp\.perturb\(plan\)"),
    (lambda: WORDS.select(WORD.histogram(FLAG)), r"plan\[name\]"),
    (lambda: PEOPLE.select(WORD.histogram()), r"perturb them first: \.ldp\.perturb"),
    (lambda: PEOPLE.select(WORD.histogram(OUE)), "perturb the values; .*assume_reports"),
    (
        lambda: PEOPLE.select(pl.col("day").ldp.mean(Hybrid((0, 9), epsilon=1.0))),
        "perturb the values; .*assume_reports",
    ),
    (lambda: WORDS.select(WORD.merge(GRR)), r"got reports; .*\.ldp\.histogram estimates"),
    (lambda: WORDS.select(WORD.perturb(GRR)), "do not perturb them again$"),
    (lambda: WORDS.select(WORD.unary_encode(epsilon=1.0)), "do not perturb them again$"),  # (not: declare the values)
    (lambda: PEOPLE.ldp.histograms(PrivacyPlan({"word": GRR})), r"df\.ldp\.perturb\(plan\)\. "),
    (lambda: PEOPLE.ldp.perturb(DAYS).ldp.histograms(DAYS, window="7d", event_time="day"), "'day' is Int64; .*epoch"),
    (
        lambda: (
            PEOPLE.ldp.perturb(DAYS)
            .with_columns(pl.col("day").cast(str))
            .ldp.histograms(DAYS, window="7d", event_time="day")
        ),
        r"'day' is String; of text column\.str\.to_datetime",
    ),
    (lambda: PEOPLE.select(WORD.perturb(GRR).ldp.perturb(GRR)), r"\['word'\] hold reports already, says their dtype"),
    (
        lambda: PEOPLE.select(pl.col("crashed").ldp.randomized_response(epsilon=1.0).alias("twice").ldp.perturb(FLAG)),
        r"\['twice'\] hold reports already",
    ),
    (lambda: PEOPLE.select(WORD.perturb(GRR, typed=False).ldp.perturb(GRR)), "perturb it once$"),
    (
        lambda: PEOPLE.select(pl.col("crashed").ldp.randomized_response(domain=[0, 1], epsilon=1.0)),
        "'crashed': a domain of int labels cannot encode values of type Boolean: cast the column",
    ),
    (lambda: RandomizedResponse(eps=1.0), r"no arguments \['eps'\]: it takes domain, epsilon, unmatched$"),
    (
        lambda: RandomizedResponse(WholeNumbers(18, 90), epsilon=1.0),
        r"got WholeNumbers; whole numbers are range\(18, 91\)",
    ),
    (lambda: UnaryEncoding(Cells([0, 5, 60]), epsilon=1.0), "got Cells; .*Cells are for HierarchicalHistogram$"),
    (lambda: PEOPLE.select(WORD.perturb(PrivSet(["rome", "oslo"], epsilon=1.0, most=1))), "a list a row.* type String"),
    (lambda: WORD.randomized_response(eps=1.0), r"no arguments \['eps'\]: what a report spends is epsilon="),
    (lambda: WORD.perturb(GRR, epsilon=1.0), r"\['epsilon'\]: what a report spends is the mechanism's, and"),
    (lambda: WORD.perturb(GRR, eps=1.0), r"no arguments \['eps'\]: .*'id', 'key', 'row_id', 'seed', 'tag'"),
    (
        lambda: PEOPLE.ldp.perturb(DAYS).ldp.histograms(DAYS, by=pl.col("day")),
        "by= takes names of columns, got Expr: make the column before",
    ),
    (
        lambda: PEOPLE.ldp.perturb(DAYS).ldp.estimates(DAYS, window="1d", event_time=pl.col("day")),
        "event_time= takes names of columns, got Expr",
    ),
    (lambda: FLAG.explain(100, records=25), r"numbers of records, as \[1, 25\], got 25"),
    (
        lambda: (
            PEOPLE.with_columns(pl.lit(None, pl.Date).alias("day"))
            .ldp.perturb(DAYS)
            .ldp.histograms(DAYS, window="week", event_time="day")
        ),
        r'like "1w", "30d"',
    ),
    (
        lambda: (
            PEOPLE.with_columns(date=pl.date(2024, 1, "day"))
            .ldp.perturb(DATES)
            .ldp.compare(DATES, by="day", baseline=1, window="1d", event_time="date")
        ),
        "filter one of them, and give the other one as other=$",
    ),
    (
        lambda: PEOPLE.ldp.perturb(DAYS).select(pl.col("day").ldp.weighted_mean(weights="crashed")),
        r"\['crashed'\] hold reports, .* weights are public numbers: .*\(w \* x\)\.ldp\.ratio\(w, of=",
    ),
    (DRAWN_REPORTS.select("word").ldp.histograms, "estimated with all of them there$"),
    (lambda: FLAG.perturb(PEOPLE, key=Secret(bytes(32)), id="word"), r"give the column, id=batch\['user'\]"),
    (lambda: FLAG.perturb(PEOPLE, key=Secret(bytes(32))), r"give the column, id=batch\['user'\]"),
    (lambda: WORD.perturb(OUE, packed="no"), "packed must be true or false, got 'no'"),
    (lambda: OUE.perturb(["rome"], packed="no"), "packed must be true or false, got 'no'"),
    (
        lambda: (
            PEOPLE.with_columns(day=pl.Series(["a", "b"], dtype=pl.Enum("ab")))
            .ldp.perturb(DAYS)
            .ldp.compare(DAYS, by="day", baseline="c")
        ),
        "one of the values of the by column, Enum.*; this str is none",
    ),
    (lambda: PAIRED.ldp.estimates(PAIRS, ask={"word": "cdf"}), r"no cdf: collect by PrivacyPlan\.split"),
    (
        lambda: PEOPLE.select(pl.concat_list("word").ldp.perturb(SETS)).select(WORD.cdf()),
        "not known for privset: ask for a histogram",
    ),
]


def test_what_is_called_wrongly_says_the_right_call():
    for number, (wrong, remedy) in enumerate(WRONG):
        with case(number, remedy), pytest.raises(LdpError, match=remedy):
            wrong()


def test_dropped_nulls_of_drawn_columns_are_the_first_suspect():
    """Half of the records answer: if all of 500 do, that is 22 standard errors off. Raw values are told as before."""
    answered = DRAWN_REPORTS.drop_nulls("word")
    with pytest.warns(
        LdpWarning, match="Likely nulls, which are records that answer another column, were dropped"
    ) as said:
        found = answered.select(WORD.histogram()).item()
    assert f"is {len(answered) ** 0.5:.0f} standard errors away" in str(said[0].message)
    assert found.struct.field("n").unique().item() == len(answered)
    m = PrivacyPlan.sampled({key: [False, True] for key in "xyz"}, epsilon=1.0)["x"]
    with pytest.warns(LdpWarning) as said:  # and no warning of numpy, of an overflow
        m.estimate(Tally(20_000, np.zeros(3, np.int64), m.fingerprint))
    assert [warning.category for warning in said] == [LdpWarning]
    with pytest.warns(LdpWarning, match="Likely the values were never perturbed, or by another mechanism"):
        GRR.estimate(GRR.tally(["rome"] * 2_000))


@pytest.mark.parametrize("engine", ["eager", "in-memory", "streaming"])
def test_an_error_has_no_plan_of_polars_below_it(engine):
    labels = [f"label {i}" for i in range(500)]
    wrong = WORD.randomized_response(domain=labels, epsilon=1.0)
    run = PEOPLE.select if engine == "eager" else lambda e: PEOPLE.lazy().select(e).collect(engine=engine)
    with pytest.raises(LdpError, match="declare them, or take") as caught:
        run(wrong)
    assert "label 7" not in str(caught.value)
    assert "python_udf" not in str(caught.value)
    assert len(str(caught.value)) < 200


# ---- suspicious reports, as a column


WIDE = UnaryEncoding(range(70), epsilon=1.0)


def planted(*, packed=False, typed=False):
    """A thousand honest reports, among them, at the positions of the second value, all ones."""
    at = [0, 17, 999]
    honest = pl.DataFrame({"x": np.arange(1000) % 70}).select(ldp_polars.perturb("x", WIDE, packed=packed))
    honest = honest["x"].ext.storage()
    rows = honest.to_numpy().copy()
    rows[at] = [2**64 - 1, 63] if packed else True
    reports = pl.Series("x", rows, honest.dtype)
    return (reports.ext.to(ldp_polars.Report(WIDE, packed=packed)) if typed else reports).to_frame(), at


def test_found_in_any_layout_and_engine():
    asked = pl.col("x").ldp.suspicious(WIDE, false_alarm=1e-9)
    for packed, engine in product((False, True), ("in-memory", "streaming")):
        df, at = planted(packed=packed)
        with case(packed, engine):
            found = df.lazy().select(asked, index=pl.int_range(pl.len())).collect(engine=engine)
            assert found.schema["x"] == pl.Boolean
            assert found.filter("x")["index"].to_list() == at
            assert df.lazy().filter(~asked).collect(engine=engine).height == 997
            grouped = df.group_by(g=pl.int_range(pl.len()) % 2, maintain_order=True).agg(asked.sum())
            assert grouped["x"].to_list() == [1, 2]


def test_typed_reports_know_their_mechanism():
    df, at = planted(typed=True)
    assert df.select(pl.col("x").ldp.suspicious(false_alarm=1e-9)).to_series().arg_true().to_list() == at
    with pytest.raises(MechanismMismatchError):
        df.select(pl.col("x").ldp.suspicious(UnaryEncoding(range(70), epsilon=2.0)))
    with pytest.raises(DtypeError, match="pass the mechanism"):
        planted()[0].select(pl.col("x").ldp.suspicious())


def test_other_reports():
    for m in (
        ThresholdHistogramEncoding(range(9), epsilon=1.0),
        CountMeanSketch("int", epsilon=1.0, hashes=2, width=64),
    ):
        df = pl.DataFrame({"x": np.arange(500) % 9}).select(ldp_polars.perturb("x", m))
        with case(m):
            assert df.select(pl.col("x").ldp.suspicious(m, false_alarm=1e-9)).to_series().sum() == 0


def test_refused_when_planned():
    with pytest.raises(ParameterError, match="number of ones"):
        pl.col("x").ldp.suspicious(RandomizedResponse(range(4), epsilon=1.0))
    with pytest.raises(ParameterError, match="false_alarm"):
        pl.col("x").ldp.suspicious(WIDE, false_alarm=1)
    with pytest.raises(ParameterError, match="expected a mechanism"):
        pl.col("x").ldp.suspicious(0.5)
    with pytest.raises(ReportError, match="'x'"):
        pl.DataFrame({"x": [1, 2]}).select(pl.col("x").ldp.suspicious(WIDE))


def test_columns_that_the_result_has_are_renamed_in_the_reports_and_in_the_plan():
    """The remedy said of the reports only, and the plan then missed the column."""
    reports = PEOPLE.with_columns(value="day").ldp.perturb(kept := PrivacyPlan(FLAG.columns, keep=["value"]))
    start = PrivacyPlan({"window_start": FLAG["crashed"]}, keep=["time"])
    times = PEOPLE.select(window_start="crashed", time=pl.lit(dt.datetime(2026, 1, 1))).ldp.perturb(start)
    weeks = {"window": "1w", "event_time": "time"}
    for frame, plan, how in ((reports, kept, {"by": "value"}), (times, start, weeks)):
        with pytest.raises(PlanError, match="rename those of the reports, and in the plan"):
            frame.ldp.histograms(plan, **how)
    renamed = reports.rename({"value": "group"}), PrivacyPlan(FLAG.columns, keep=["group"])
    assert renamed[0].ldp.histograms(renamed[1], by="group")["group"].unique().sort().to_list() == [1, 2]
    flag = PrivacyPlan({"flag": FLAG["crashed"]}, keep=["time"])
    assert times.rename({"window_start": "flag"}).ldp.histograms(flag, **weeks)["n"].to_list() == [2, 2]


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-01-01 00:00:00"])
def test_what_makes_times_of_text(text):
    """Polars' own error came instead: it makes times of text with a zone only where it is told the zone."""
    plan = PrivacyPlan(FLAG.columns, keep=["time"])
    reports = PEOPLE.with_columns(time=pl.lit(text)).ldp.perturb(plan).lazy()
    with pytest.raises(ParameterError) as caught:
        reports.ldp.histograms(plan, window="1d", event_time="time")
    assert 'column.str.to_datetime() (with time_zone="UTC" if it names zones, as Z)' in str(caught.value)
    zone = {} if " " in text else {"time_zone": "UTC"}
    found = reports.with_columns(pl.col("time").str.to_datetime(**zone)).ldp.histograms(
        plan, window="1d", event_time="time"
    )
    assert found.collect()["window_start"].dt.replace_time_zone(None).to_list() == [dt.datetime(2026, 1, 1)] * 2


def test_a_question_says_how_often_a_person_reports():
    """Where a question is given there is no argument repeats=."""
    keyed = PEOPLE.select(pl.col("crashed").ldp.perturb(FLAG["crashed"], key=Secret.generate(), id="day"))
    with pytest.raises(ParameterError, match="the question says it, if one is given"):
        keyed.select(pl.col("crashed").ldp.estimate(HistogramEstimate()))
    said = keyed.select(pl.col("crashed").ldp.estimate(HistogramEstimate(repeats=1)))
    assert said.explode("crashed").unnest("crashed")["n"].to_list() == [2, 2]


def test_a_column_of_persons_is_one_of_the_reports():
    """Without a plan the words were that it keeps ()."""
    with pytest.raises(PlanError, match=r"person='user': expected a column .* the reports have \['crashed', 'day'\]"):
        PEOPLE.ldp.perturb(DAYS).ldp.histograms(person="user")


def test_a_plan_in_the_place_of_a_mechanism():
    """It was told which mechanisms have which estimate, and not that it is none."""
    with pytest.raises(ParameterError, match=r"got PrivacyPlan; the mechanism of one column is plan\[name\]"):
        usual_question(FLAG)
    with pytest.raises(ParameterError, match=r"got CountMeanSketch: .* sketch\.over"):
        usual_question(CountMeanSketch(epsilon=1.0, hashes=16, width=64))
