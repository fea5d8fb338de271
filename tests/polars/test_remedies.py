"""What a new user meets first: the error says what to do."""

from __future__ import annotations

import polars as pl
import pytest

import ldp_polars
from ldp_core import Domain, InputError, LdpError, LdpWarning, PlanError, PrivacyPlan, RandomizedResponse

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


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (
            lambda: PEOPLE.ldp.perturb({"crashed": RandomizedResponse(epsilon=1.0)}),
            r"PrivacyPlan\(\{name: mechanism\}\)",
        ),
        (lambda: PEOPLE.ldp.perturb("plan.toml"), "from_toml"),
        (lambda: ldp_polars.perturb_frame(PEOPLE.to_arrow(), FLAG), r"pl\.from_arrow"),
        (lambda: PEOPLE.ldp.perturb(FLAG, key="secret", id="day"), r"Secret\.from_file"),
        (lambda: PEOPLE.select(pl.col("word").ldp.randomized_response([1, 2], epsilon=1.0)), "by keyword"),
        (lambda: PEOPLE.select(pl.col("word").ldp.randomized_response(domain=[1, 2], epsilon=1.0)), "type String"),
    ],
    ids=["a dict", "a path", "an Arrow table", "a text for a secret", "a list", "a type"],
)
def test_errors_say_what_to_do(wrong, remedy):
    with pytest.raises(LdpError, match=remedy):
        wrong()


def test_a_domain_learned_from_a_column_warns():
    with pytest.warns(LdpWarning, match="Declare the labels"):
        assert Domain(PEOPLE["word"].unique()).size == 2
