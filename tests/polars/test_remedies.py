"""What a new user meets first: the error says what to do."""

from __future__ import annotations

import polars as pl
import pytest

import ldp_polars
from ldp_core import (
    Domain,
    Hybrid,
    InputError,
    LdpError,
    LdpWarning,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    UnaryEncoding,
)

from ..cases import case

FLAG = PrivacyPlan({"crashed": RandomizedResponse(epsilon=3.0)})
PEOPLE = pl.DataFrame({"crashed": [True, False], "word": ["rome", "oslo"], "day": [1, 2]})


def test_a_plan_is_read_from_a_folder_or_a_pattern(tmp_path):
    other = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    one = PrivacyPlan({"crashed": RandomizedResponse(epsilon=3.0)})
    for name in "ab":
        PEOPLE.ldp.perturb(one).ldp.sink_parquet(tmp_path / f"{name}.parquet", one)
    for path in (tmp_path, tmp_path / "*.parquet", tmp_path / "a.parquet"):
        assert ldp_polars.read_plan(path) == one
    PEOPLE.ldp.perturb(other).ldp.sink_parquet(tmp_path / "c.parquet", other)
    with pytest.raises(PlanError, match="different plans"):
        ldp_polars.read_plan(tmp_path)
    for nothing in (tmp_path / "*.csv", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InputError, match="no Parquet file"):
            ldp_polars.read_plan(nothing)


def test_a_domain_learned_from_a_column_warns():
    with pytest.warns(LdpWarning, match="Declare the labels"):
        assert Domain(PEOPLE["word"].unique()).size == 2


WORD = pl.col("word").ldp
GRR = RandomizedResponse(["rome", "oslo"], epsilon=3.0)
OUE = UnaryEncoding(["rome", "oslo"], epsilon=3.0)
WORDS = PEOPLE.select(WORD.perturb(GRR))
DAYS = PrivacyPlan(FLAG.columns, keep=["day"])


WRONG = [  # a call, and what its error says to do
    (
        lambda: PEOPLE.ldp.perturb({"crashed": RandomizedResponse(epsilon=1.0)}),
        r"PrivacyPlan\(\{name: mechanism\}\)",
    ),
    (lambda: PEOPLE.ldp.perturb("plan.toml"), "from_toml"),
    (lambda: ldp_polars.perturb_frame(PEOPLE.to_arrow(), FLAG), r"pl\.from_arrow"),
    (lambda: PEOPLE.ldp.perturb(FLAG, key="secret", id="day"), r"Secret\.from_file"),
    (lambda: PEOPLE.select(pl.col("word").ldp.randomized_response([1, 2], epsilon=1.0)), "by keyword"),
    (lambda: PEOPLE.select(pl.col("word").ldp.randomized_response(domain=[1, 2], epsilon=1.0)), "type String"),
    (
        lambda: PEOPLE.select(WORD.randomized_response(["rome", "oslo"], epsilon=1)),
        r"got list in .*\.ldp\.randomized_response\(domain=\[...\], epsilon=1\.0\)",
    ),
    (
        lambda: PEOPLE.select(WORD.unary_encode(1.0)),
        r"got float in .*unary_encode\(domain=\[...\], epsilon=1\.0\)",
    ),
    (lambda: PEOPLE.select(WORD.unary_encode(GRR)), r"\.ldp\.perturb takes any mechanism"),
    (lambda: PEOPLE.select(WORD.unary_encode(domain=["rome", "oslo"])), r"epsilon is missing: .*epsilon=1\.0"),
    (lambda: PEOPLE.select(WORD.randomized_response(epsilon=1.0)), r"'word': pass domain=\[...\]"),
    (lambda: PEOPLE.select(WORD.randomized_response(domain="rome", epsilon=1.0)), r'as \["yes", "no"\], got str'),
    (lambda: PEOPLE.select(WORD.perturb(1.0)), r"got float; .*RandomizedResponse\("),
    (lambda: PEOPLE.select(WORD.perturb(RandomizedResponse)), r"the class RandomizedResponse; make one"),
    (lambda: PEOPLE.select(WORD.perturb(FLAG)), r"df\.ldp\.perturb\(plan\)"),
    (lambda: WORDS.select(WORD.histogram(FLAG)), r"plan\[name\]"),
    (lambda: PEOPLE.select(WORD.histogram()), r"perturb them first: \.ldp\.perturb"),
    (lambda: PEOPLE.select(WORD.histogram(OUE)), r"Array\(Boolean.*got String; .*perturb them first$"),
    (
        lambda: PEOPLE.select(pl.col("day").ldp.mean(Hybrid((0, 9), epsilon=1.0))),
        "got Int64; .*perturb them first$",
    ),
    (lambda: WORDS.select(WORD.merge(GRR)), r"got reports; .*\.ldp\.histogram estimates"),
    (lambda: WORDS.select(WORD.perturb(GRR)), "do not perturb them again$"),
    (lambda: PEOPLE.ldp.histograms(PrivacyPlan({"word": GRR})), r"df\.ldp\.perturb\(plan\)$"),
    (
        lambda: PEOPLE.ldp.perturb(DAYS).ldp.histograms(DAYS, window="7d", event_time="day"),
        "'day' is Int64; .*epoch",
    ),
    (
        lambda: (
            PEOPLE.with_columns(pl.lit(None, pl.Date).alias("day"))
            .ldp.perturb(DAYS)
            .ldp.histograms(DAYS, window="week", event_time="day")
        ),
        r'like "2w", "30d"',
    ),
]


def test_what_is_called_wrongly_says_the_right_call():
    for number, (wrong, remedy) in enumerate(WRONG):
        with case(number, remedy), pytest.raises(LdpError, match=remedy):
            wrong()


@pytest.mark.parametrize("engine", ["eager", "in-memory", "streaming"])
def test_an_error_has_no_plan_of_polars_below_it(engine):
    labels = [f"label {i}" for i in range(500)]
    wrong = WORD.randomized_response(domain=labels, epsilon=1.0)
    run = PEOPLE.select if engine == "eager" else lambda e: PEOPLE.lazy().select(e).collect(engine=engine)
    with pytest.raises(LdpError, match="declare them, or use") as caught:
        run(wrong)
    assert "label 7" not in str(caught.value)
    assert "python_udf" not in str(caught.value)
    assert len(str(caught.value)) < 200
