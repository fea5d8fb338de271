"""So many records of a person, before they are perturbed; and what a person spends on these data."""

from __future__ import annotations

import polars as pl
import pytest

import ldp_polars
from ldp_core import InputError, ParameterError, PrivacyPlan, RandomizedResponse, Secret

from ..cases import case

PEOPLE = pl.DataFrame({"user": [i % 40 for i in range(1000)], "day": [i // 500 for i in range(1000)], "x": range(1000)})
KEY = Secret(bytes(range(32)))


def test_the_first_records_of_each_person_are_kept(run):
    found = run(PEOPLE, lambda f: f.ldp.bound(id="user", records=3))
    assert found["x"].to_list() == list(range(120))
    found = run(PEOPLE, lambda f: f.ldp.bound(id="user", records=2, per="day"))
    firsts = {(u, d): [x for x in range(1000) if x % 40 == u and x // 500 == d][:2] for u in range(40) for d in (0, 1)}
    assert sorted(found["x"].to_list()) == sorted(x for two in firsts.values() for x in two)


def test_with_a_key_the_choice_is_random_and_the_same_each_time(run):
    found = run(PEOPLE, lambda f: f.ldp.bound(id="user", records=5, key=KEY))
    assert found.group_by("user").len()["len"].to_list() == [5] * 40
    assert found.equals(PEOPLE.ldp.bound(id="user", records=5, key=KEY))
    assert found["x"].to_list() == sorted(found["x"].to_list()), "the order stays"
    other = PEOPLE.ldp.bound(id="user", records=5, key=Secret(bytes(32)))
    assert not found.equals(other)
    # each of the 25 records of a person as likely: their numbers are spread over all
    assert set(found.with_columns(number=pl.col("x") // 40)["number"]) == set(range(25))
    assert PEOPLE.with_columns(y=1).ldp.bound(id="user", records=5, key=KEY).drop("y").equals(found), "no other column"


def test_per_expressions_and_several():
    frame = PEOPLE.with_columns(os=pl.col("x") % 3)
    by_hand = frame.ldp.bound(id="user", records=1, per=["day", "os"])
    assert by_hand.height == frame.select("user", "day", "os").unique().height
    assert frame.ldp.bound(id="user", records=1, per=pl.col("x") // 100).height == 400


def test_bad_arguments_and_records_of_nobody():
    for wrong in ({"records": 0}, {"records": True}, {"records": 1, "key": "secret"}):
        with case(wrong), pytest.raises(ParameterError):
            PEOPLE.ldp.bound(id="user", **wrong)
    nobody = pl.DataFrame({"user": ["ann", None]})
    for key in (None, KEY):
        with case(key), pytest.raises(InputError, match=r"'user': 1 of 2 ids are null"):
            nobody.ldp.bound(id="user", records=1, key=key)


def test_explain_says_what_a_person_spends_on_these_data():
    plan = PrivacyPlan({"x": RandomizedResponse([1, 2], epsilon=2.0)})
    for frame in (PEOPLE, PEOPLE.lazy()):
        text = frame.ldp.explain(plan, id="user")
        assert text.startswith("40 people, half of them with at most 25 of the records, nobody with more than 25\n")
        [counts] = [line.split() for line in text.splitlines() if line.startswith("records of one person")]
        assert counts[4:6] == ["1", "25"]
        [spent] = [line.split() for line in text.splitlines() if line.startswith("epsilon together")]
        assert spent[2:4] == ["2", "50"]
        assert "all reports of a person (epsilon 50): odds" in text
    bounded = PEOPLE.ldp.bound(id="user", records=1).ldp.explain(plan, id="user")
    assert bounded.startswith("40 people, one record each\n")
    assert "all reports" not in bounded
    assert ldp_polars.explain(PEOPLE.clear(), plan, id="user") == ldp_polars.explain(PEOPLE.clear(), plan)
