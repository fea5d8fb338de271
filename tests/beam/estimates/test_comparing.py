"""Each window against the one before, with the rows of `ldp_core.compare`: in batch, live panes, with late records."""

import math

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, SlidingWindows

import ldp_beam
import ldp_polars  # noqa: F401 (the namespace ldp)
from ldp_core import (
    Hybrid,
    Keystream,
    LocalHashing,
    LongitudinalUnaryEncoding,
    MechanismMismatchError,
    ParameterError,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
    compare,
    compare_quantiles,
)

from ..helpers import SURE_BOOL, assumed, on_my_word, run
from ..runners.stream_cases import BOTH
from ..streams import LOCAL, All, late_of, stream

N = 900
rng = np.random.default_rng(5)
AT = np.concatenate([rng.uniform(-10, 20, N // 2), rng.uniform(50, 70, N // 2)])
COUNTRIES = np.array(["de", "fr"])[rng.integers(0, 2, N)]
MADE_BY = {
    "os": UnaryEncoding(["ios", "android"], epsilon=1.0),
    "age": RandomizedResponse([1, 2, 30], epsilon=1.0),
    "minutes": Hybrid((0, 60), epsilon=1.0),
    "city": LocalHashing(["a", "b", "c"], epsilon=1.0),
}
VALUES = {
    "os": rng.choice(["ios", "android"], N),
    "age": rng.choice([1, 2, 30], N),
    "minutes": rng.random(N) * 60,
    "city": rng.choice(["a", "b", "c"], N),
}
REPORTS = {name: m.draw(VALUES[name], Keystream(), name) for name, m in MADE_BY.items()}
ANSWERS = ["value", "before", "after", "difference", "standard_error", "low", "high", "p_value", "p_adjusted"]
ANSWERS += ["statistic", "degrees_of_freedom", "p_value_of_all", "n_before", "n_after"]


def batches():
    columns = {name: m.reports.to_arrow(REPORTS[name]) for name, m in MADE_BY.items()}
    whole = assumed(pa.table({**columns, "t": AT, "c": COUNTRIES}), MADE_BY)
    return [batch for part in (whole[:500], whole[500:]) for batch in part.to_batches()]


def expected(name, start, length, of=None, **asked):
    """The rows of the core for one pair of windows."""
    m = MADE_BY[name]
    there = np.ones(N, bool) if of is None else of == COUNTRIES
    sides = [there & (at <= AT) & (at + length > AT) for at in (start - length, start)]
    return (
        compare(m, *(m.tally(m.reports.to_arrow(REPORTS[name][side])) for side in sides), **asked)
        .to_arrow()
        .to_pylist()
    )


def test_windows_in_batch():
    """By keys, with an offset, with no reports for a while; all kinds of values."""
    jobs = {
        "os": ({"window": 10, "by": "c", "anytime": 300}, [0, 10, 60], ["de", "fr"]),
        "age": ({"window": FixedWindows(10, offset=5), "simultaneous": True}, [-5, 5, 15, 55, 65], [None]),
        "minutes": ({"window": "10s"}, [0, 10, 60], [None]),
        "city": ({"window": 10, "by": "c", "population": None}, [0, 10, 60], ["de", "fr"]),
    }
    transforms = [ldp_beam.Compare(name, MADE_BY[name], event_time="t", **job[0]) for name, job in jobs.items()]
    for (name, (how, starts, keys)), rows in zip(jobs.items(), run(All(transforms), batches()), strict=True):
        asked = {option: how[option] for option in how.keys() & {"anytime", "simultaneous", "population"}}
        places = {(start, key) for start in starts for key in keys}
        assert {(row.window_start.micros // 10**6, row.key.get("c")) for row in rows} == places, name
        for start, key in places:
            found = [row for row in rows if (row.window_start.micros // 10**6, row.key.get("c")) == (start, key)]
            core = expected(name, start, 10, key, **asked)
            assert len(found) == len(core)
            for row, one in zip(found, core, strict=True):
                assert (row.compared_with.micros, row.window_end.micros) == ((start - 10) * 10**6, (start + 10) * 10**6)
                assert row.n == row.n_before + row.n_after
                assert (row.fingerprint, row.confidence) == (MADE_BY[name].fingerprint, 0.95)
                for answer in ANSWERS[0 if name != "minutes" else 1 :]:
                    known = math.nan if one[answer] is None else one[answer]
                    assert getattr(row, answer) == pytest.approx(known, nan_ok=True), (name, answer)


def test_quantiles_of_windows():
    age = MADE_BY["age"]
    transform = ldp_beam.Compare("age", age, window=10, event_time="t", quantiles=[0.5, 0.9], simultaneous=True)
    rows = run(transform, batches())
    assert {row.window_start.micros // 10**6 for row in rows} == {0, 10, 60}
    for start in (0, 10, 60):
        sides = [REPORTS["age"][(at <= AT) & (at + 10 > AT)] for at in (start - 10, start)]
        tallies = (age.tally(age.reports.to_arrow(side)) for side in sides)
        core = compare_quantiles(age, *tallies, [0.5, 0.9], simultaneous=True).to_arrow().to_pylist()
        found = [row for row in rows if row.window_start.micros == start * 10**6]
        assert [{name: getattr(row, name) for name in core[0]} for row in found] == [pytest.approx(one) for one in core]
    for name, how, text in (
        ("os", {}, "differences are of numbers"),
        ("minutes", {}, "quantile"),
        ("age", {"anytime": True}, "anytime"),
    ):
        with pytest.raises(ParameterError, match=text):
            ldp_beam.Compare(name, MADE_BY[name], window=10, quantiles=[0.5], **how)


def test_live_panes_and_late_records():
    """A pane has all so far of both windows; a late record changes its own comparison, and the next one's before."""
    steps = [0, [1, 2], [11], 12, [3], 20, [5], [12], [21], 40, [6], [13]]
    how = {"window": 10, "event_time": "t", "trigger": BOTH, "allowed_lateness": 15, "anytime": True}
    live = ldp_beam.Compare("v", SURE_BOOL, **how).with_exception_handling()
    rows, letters = run(on_my_word(live), stream(steps), **LOCAL)
    seen = [(r.window_start.micros // 10**6, r.pane_timing, r.n_before, r.n_after) for r in rows if r.value is True]
    ten = [(10, "EARLY", 2, 1), (10, "EARLY", 3, 1), (10, "ON_TIME", 3, 1), (10, "LATE", 4, 1), (10, "LATE", 4, 2)]
    assert seen == [*ten, (20, "EARLY", 2, 1), (20, "ON_TIME", 2, 1), (20, "LATE", 3, 1)]
    assert {row.compared_with.micros // 10**6 for row in rows} == {0, 10}
    assert late_of(letters) == 3  # a record of each: two comparisons are over that it is of, and one


def test_no_late_reports_are_compared_with_late_ones():
    how = {"window": 10, "event_time": "t"}
    for mode in ("discarding", AccumulationMode.DISCARDING):
        with pytest.raises(ParameterError, match="accumulation_mode"):
            ldp_beam.Compare("v", RandomizedResponse(epsilon=1.0), accumulation_mode=mode, **how)
    ldp_beam.Compare("v", RandomizedResponse(epsilon=1.0), accumulation_mode="accumulating", **how)
    with pytest.raises(ParameterError, match=r"no options \['fill'\]"):  # was an IndexError
        ldp_beam.Compare("v", RandomizedResponse(epsilon=1.0), fill=(0, 60), **how)


def test_keyed_noise_asks_whether_people_are_in_both_windows():
    plan = PrivacyPlan({"v": RandomizedResponse(epsilon=1.0)}, keep=["t"])
    events = [{"v": k % 3 == 0, "t": float(k), "id": k} for k in range(20)]
    said = {"same_people": True, "repeats": 1}
    for how, noise in (({}, {}), (said, {"key": Secret(bytes(32)), "id": "id"})):
        transform = ldp_beam.Compare("v", plan["v"], window=10, event_time="t", **how)
        assert len(run(ldp_beam.Perturb(plan, **noise) | transform, events)) == 2
    with pytest.raises(ParameterError, match=r"noise of these reports is a person's own.*same_people=False"):
        run(ldp_beam.Perturb(plan, **noise) | ldp_beam.Compare("v", plan["v"], window=10, event_time="t"), events)
    transform = ldp_beam.Compare("v", plan["v"], window=10, event_time="t", same_people=True)
    with pytest.raises(ParameterError, match="say repeats=1"):
        run(ldp_beam.Perturb(plan, **noise) | transform, events)


def test_a_limit_of_reports_says_how_often_people_report():
    """By the same clock: for each window of the limit, which may be the one that is compared."""
    plan = PrivacyPlan({"v": RandomizedResponse(epsilon=1.0)}, keep=["t"])
    events = [{"v": k % 3 == 0, "t": float(k % 20), "id": k % 10} for k in range(200)]
    noise = {"key": Secret(bytes(32)), "id": "id"}
    jobs = []
    for records, how in ((1, {}), (4, {}), (4, {"repeats": 1})):
        limit = ldp_beam.BoundContributions("id", records, window=10, event_time="t", drop_id=False)
        transform = ldp_beam.Compare("v", plan["v"], window=10, event_time="t", same_people=True, **how)
        jobs.append(limit | ldp_beam.Perturb(plan, **noise) | transform)
    _, (four, *_), (one, *_) = run(All(jobs), events)
    assert four.standard_error == pytest.approx(2 * one.standard_error)
    limit = ldp_beam.BoundContributions("id", 1, window=10, drop_id=False)  # by the elements' timestamps
    transform = ldp_beam.Compare("v", plan["v"], window=10, event_time="t", same_people=True)
    with pytest.raises(ParameterError, match="say repeats=1"):
        run(limit | ldp_beam.Perturb(plan, **noise) | transform, events)


def test_batches_say_that_their_noise_is_keyed():
    """Reports that were stored: nothing before them perturbs."""
    plan = PrivacyPlan({"v": RandomizedResponse(epsilon=1.0)}, keep=["t"])
    people = pl.DataFrame({"v": [True, False] * 40, "t": np.arange(80) % 20.0, "id": range(80)})
    asked = ({}, {"repeats": 1}, {"same_people": False}, {"same_people": False, "repeats": 1})
    *some, enough = [ldp_beam.Compare("v", plan["v"], window=10, event_time="t", **how) for how in asked]
    fresh = people.ldp.perturb(plan).to_arrow().to_batches()
    assert [len(rows) for rows in run(All([*some, enough]), fresh)] == [2] * 4
    stored = people.ldp.perturb(plan, key=Secret(bytes(32)), id="id").to_arrow().to_batches()
    for transform, text in zip(some, ("same_people=False", "same_people=False", "say repeats=1"), strict=True):
        with pytest.raises(ParameterError, match=text):
            run(transform, stored)
    assert len(run(enough, stored)) == 2


def test_what_is_refused():
    own = LongitudinalUnaryEncoding(["a", "b"], epsilon_infinity=2.0, epsilon_1=1.0)
    for how, text in (
        ({"window": None}, "compared with the one before"),
        ({"window": SlidingWindows(20, 10)}, "compared with the one before"),
        ({"window": 10, "confidence": 2}, "confidence"),
        ({"window": 10, "anytime": True, "same_people": True}, "anytime"),
        ({"window": 10, "mechanism": own}, "same_people=False"),
        ({"window": 10, "by": "v"}, "'v'"),
    ):
        with pytest.raises(ParameterError, match=text):
            ldp_beam.Compare("v", **{"mechanism": SURE_BOOL, **how})
    perturb = ldp_beam.Perturb(PrivacyPlan({"v": RandomizedResponse(epsilon=1.0)}))
    with pytest.raises(MechanismMismatchError):
        run(perturb | ldp_beam.Compare("v", SURE_BOOL, window=10), [{"v": True}])
