"""Reports of one frame that are in another one, too, and are neither pooled nor compared as those of other people."""

import warnings

import polars as pl
import pytest

import ldp_polars
from ldp_core import LdpWarning, ParameterError, PrivacyPlan, RandomizedResponse, Secret, UnaryEncoding

from ..cases import case

YES = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}, keep=["country"])
LONG = PrivacyPlan({"os": UnaryEncoding(range(24), epsilon=1.0)}, keep=["country"])


def people(n, **columns):
    return pl.DataFrame(
        {"crashed": [k % 3 == 0 for k in range(n)], "os": [k % 24 for k in range(n)], "id": range(n)}
    ).with_columns(country=pl.Series(["de", "fr", "it"] * n).head(n), **columns)


def asked_together(plan, one, other, **how):
    """What both questions say."""
    lazy = one.lazy().ldp.compare(plan, other=other.lazy(), **how)
    yield from (
        lambda: ldp_polars.pool([(one, plan), (other.lazy(), plan)], repeats=how.get("repeats")),
        lazy.collect,
    )


def test_a_part_of_a_frame_is_not_counted_beside_the_frame():
    """Only whole copies were refused: of a head, a slice, a filter or a sample each report counted twice."""
    yes, long = people(3000).ldp.perturb(YES), people(3000).ldp.perturb(LONG)
    for name, plan, whole, part in (
        ("head", YES, yes, yes.head(400)),
        ("tail", YES, yes, yes.tail(400)),
        ("slice", YES, yes, yes.slice(1000, 600)),
        ("overlap", YES, yes.head(2000), yes.tail(2000)),
        ("sorted, then filtered", YES, yes.sort("country"), yes.filter(country="fr")),
        ("filter", LONG, long, long.filter(country="fr")),
        ("sample", LONG, long, long.sample(500, seed=1)),
        ("shuffled", LONG, long, long.sample(fraction=1, shuffle=True, seed=1)),
        ("distinct", LONG, long, long.unique(maintain_order=True)),
    ):
        for found in asked_together(plan, *((part, whole) if name == "head" else (whole, part))):
            with case(name), pytest.raises(ParameterError, match="the same reports"):
                found()


@pytest.mark.filterwarnings("ignore:the groups are not of one population:UserWarning")
def test_reports_that_were_drawn_are_no_copies():
    """Also of the same values in the same order, and of one value, on a side: false alarms have exp(-30) or less."""
    one, still = people(3000), people(1000, os=pl.lit(7), crashed=pl.lit(True))
    for plan in (YES, LONG):
        sides = [frame.ldp.perturb(plan) for frame in (one, one, one.head(400), still, still)]
        for other in sides[1:]:
            for found in asked_together(plan, sides[0], other):
                assert found().height
        assert ldp_polars.pool([(sides[3], plan), (sides[4], plan)]).height
    loud = PrivacyPlan({"os": RandomizedResponse(range(24), epsilon=20.0)}, keep=["country"])
    reports = one.ldp.perturb(loud)
    for found in asked_together(loud, reports, reports.head(1000)):  # with hardly any noise all such reports are equal
        assert found().height


def test_a_person_s_reports_of_one_value_are_no_copies():
    """Keyed noise is the same again where people report again: of a part of them, who come again, that is expected."""
    key = Secret(bytes(32))
    days = [people(n).ldp.perturb(LONG, key=key, id="id") for n in (3000, 1000)]
    for found in asked_together(LONG, *days, repeats=2, same_people=True):
        assert found().height


def test_reports_that_a_join_has_copied_are_told():
    """A one-to-many join after perturbing made every interval too narrow, without a word."""
    reports = people(1000).with_columns(n=pl.lit([1, 2])).ldp.perturb(PrivacyPlan(LONG.columns, keep=["id", "n"]))
    events = pl.DataFrame({"id": [k * 7 % 1000 for k in range(3000)]})
    for name, copied in (
        ("left join", reports.join(events, on="id", how="left")),
        ("inner join", events.join(reports, on="id")),
        ("explode", reports.explode("n")),
        ("concat", pl.concat([reports, reports])),
        ("one seed", pl.concat([people(1000).ldp.perturb(LONG, seed=1).select("os") for _ in "ab"])),
        ("with replacement", reports.sample(1000, with_replacement=True, seed=1)),
    ):
        with case(name), pytest.warns(LdpWarning, match="'os': reports are there twice"):
            copied.select(pl.col("os").ldp.histogram())
    both = PrivacyPlan({**LONG.columns, **YES.columns}, keep=["n"])
    with pytest.warns(LdpWarning, match="'os': reports are there twice"):
        people(1000).with_columns(n=pl.lit([1, 2])).ldp.perturb(both).explode("n").ldp.table("os", "crashed", plan=both)


def test_each_query_says_that_reports_are_there_twice():
    """Threads of Polars have no line of the user: the second query of a process, of other data, was not told."""
    asked = pl.col("os").ldp
    queries = (
        lambda twice: twice.group_by("g").agg(asked.histogram()),
        lambda twice: twice.lazy().group_by("g").agg(asked.tally()).collect(engine="streaming"),
        lambda twice: twice.ldp.histograms(by="g"),
        lambda twice: twice.select(asked.histogram().over("g")),
    )
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default", LdpWarning)
        for i, query in enumerate(query for query in queries for _ in "ab"):
            reports = people(1000).with_columns(g=1).ldp.perturb(PrivacyPlan(LONG.columns, keep=["g"]))
            query(pl.concat([reports, reports]))
            assert len(shown) == i + 1


def test_groups_of_fewer_than_512_reports_are_not_looked_at():
    """To look at all of 1,000 groups of 100 reports took a third of the time of the estimates."""
    reports = people(256).ldp.perturb(LONG)
    twice = pl.concat([reports, reports])
    with warnings.catch_warnings(action="error"):
        twice.head(511).select(pl.col("os").ldp.histogram())
    with pytest.warns(LdpWarning, match="'os': reports are there twice"):
        twice.select(pl.col("os").ldp.histogram())


@pytest.mark.filterwarnings("error::ldp_core.LdpWarning")
def test_where_people_are_there_as_often_as_was_said_nothing_is_told():
    reports = people(1000, os=pl.lit(7)).ldp.perturb(LONG)
    keyed = people(1000).ldp.perturb(LONG, key=Secret(bytes(32)), id="id")
    twice = pl.concat([keyed, keyed])
    reports.select(pl.col("os").ldp.histogram())
    pl.concat([reports, reports]).select(pl.col("os").ldp.histogram(repeats=2))
    twice.select(pl.col("os").ldp.histogram(repeats=2), tally=pl.col("os").ldp.tally())
    with pytest.raises(LdpWarning, match="reports are there twice"):
        twice.select(pl.col("os").ldp.histogram(repeats=1))
