"""BoundContributions, Deduplicate and PrivacyLedger: what each lets through, and what it promises.

How records are limited is tested in `test_limits`; here the limits are called without a pipeline (`driven`).
"""

import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.trigger import AfterWatermark
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_beam
from ldp_beam import AfterTallies, Estimate, Perturb
from ldp_beam.elements.faults import OTHER_PLAN
from ldp_beam.graph.upstream import Bound
from ldp_beam.persons.transforms import BoundContributions, Deduplicate, PrivacyLedger, exact_epsilon
from ldp_beam.yaml import LdpPrivacyLedger
from ldp_core import (
    CdfEstimate,
    DBitFlip,
    DistributionEstimate,
    HierarchicalHistogram,
    HistogramEstimate,
    LdpWarning,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    MeanEstimate,
    MechanismMismatchError,
    NOutput,
    ParameterError,
    PlanError,
    PrivacyPlan,
    QuantilesEstimate,
    RandomizedResponse,
    RangeEstimate,
    Rappor,
    Secret,
    SquareWave,
    Tally,
    UnaryEncoding,
)

from ...cases import case
from ..helpers import SURE, Collector, counters, run, run_with_result
from .driven import limited, numbers, rows_of, total

IN_A_STREAM = {"runner": "BundleBasedDirectRunner", "flags": ("--streaming",)}


def batches(records, size=50):
    return [pa.RecordBatch.from_pylist(records[i : i + size]) for i in range(0, len(records), size)]


FORMS = {"batches": batches, "dicts": list}


# ---- contributions


def test_what_a_person_spends():
    m, other = RandomizedResponse(epsilon=0.3), RandomizedResponse(["a", "b", "c"], epsilon=0.2)
    plan = PrivacyPlan({"crashed": m, "os": other})
    bound = BoundContributions("user", 5, window="1d")
    assert bound.epsilon(plan) == 5 * (Fraction(0.3) + Fraction(0.2))
    assert bound.epsilon("1/3") == Fraction(5, 3)


# ---- duplicates

DELIVERED = [{"id": f"record {i}", "time": 60.0 * i, "n": i} for i in range(120)]


def test_delivered_again():
    for within in ("1h", 1.0, GlobalWindows()):
        for form in FORMS.values():
            delivered = DELIVERED + DELIVERED[::-1] + DELIVERED[::7]
            once = Deduplicate("id", within=within, event_time="time", shards=5).with_exception_handling()
            good, bad = limited(once, form(delivered))
            assert numbers(good) == list(range(120))
            assert total(bad) == {("id", "duplicate"): len(delivered) - 120}


@settings(max_examples=50)
@given(
    picks=st.lists(st.integers(0, 119), min_size=1, max_size=60),
    size=st.integers(1, 60),
    shuffled=st.none() | st.integers(0, 9),
)
def test_whatever_is_delivered_how_often_and_in_what_batches(picks, size, shuffled):
    bundles = [[batch] for batch in batches([DELIVERED[i] for i in picks], size)]
    once, _ = limited(Deduplicate("id", within="1h", event_time="time", shards=5), *bundles, shuffled=shuffled)
    assert numbers(once) == sorted(set(picks))


def test_an_id_means_another_record_in_another_window():
    again = [{**r, "time": r["time"] + 7200, "n": r["n"] + 1000} for r in DELIVERED[:10]]
    for within, expected in (("1h", [*range(10), *range(1000, 1010)]), (GlobalWindows(), list(range(10)))):
        out, _ = limited(Deduplicate("id", within=within, event_time="time"), [*DELIVERED[:10], *again])
        assert numbers(out) == expected


def test_before_a_budget_and_a_histogram():
    plan = PrivacyPlan({"os": SURE})
    events = [{"id": i, "user": i % 4, "os": "abca"[i % 4], "time": i} for i in range(40)]
    job = (
        Deduplicate("id", within="1h", event_time="time")
        | BoundContributions("user", 3, window="1h", event_time="time")
        | ldp_beam.Perturb(plan)
        | ldp_beam.Histogram("os", SURE)
    )
    rows = run(job, [*batches(events), *batches(events), *events])
    assert {row.n for row in rows} == {12}
    assert {row.value: round(row.count) for row in rows} == {"a": 6, "b": 3, "c": 3}


def test_bad_parameters_of_deduplicate():
    for make in (
        lambda: Deduplicate("id", within=SlidingWindows(10, 5)),
        lambda: Deduplicate("id", within="soon"),
        lambda: Deduplicate(None, within=10),
        lambda: Deduplicate("id", within=None, event_time="time"),
    ):
        with pytest.raises(ParameterError):
            make()


# ---- budgets

DAY = 86_400
PLAN = PrivacyPlan({"crashed": RandomizedResponse(epsilon=0.5), "os": UnaryEncoding(["a", "b"], epsilon=0.25)})
SPENDING = [{"user": i % 7, "time": (i % 5) * 15 * DAY, "n": i} for i in range(300)]
positive = st.floats(1e-3, 50, allow_nan=False)


@settings(max_examples=150)
@given(each=st.lists(positive, min_size=1, max_size=4), budget=st.floats(1e-3, 1e4))
def test_as_many_records_as_the_budget_pays_for_and_not_one_more(each, budget):
    plan = PrivacyPlan({f"c{i}": RandomizedResponse(epsilon=e) for i, e in enumerate(each)})
    spends = sum(map(Fraction, each))
    if spends > Fraction(budget):
        with pytest.raises(ParameterError, match="does not pay"):
            PrivacyLedger(plan, id="user", budget=budget)
        return
    ledger = PrivacyLedger(plan, id="user", budget=budget)
    assert ledger.records * spends <= Fraction(budget) < (ledger.records + 1) * spends
    assert ledger.spent == ledger.records * spends


def test_exact_arithmetic():
    for each, budget, records in (
        (0.1, 0.3, 2),  # three times the float 0.1 is more than the float 0.3
        (0.1, 3 * Fraction(0.1), 3),
        ("0.1", "0.3", 3),
        ("1/10", Decimal("0.3"), 3),
        (Decimal("0.1"), Fraction(3, 10), 3),
        (1, 5, 5),
        (0.75, 3.0, 4),
        (PLAN, 3.0, 4),
        (PLAN, 2.9999999999999996, 3),
        (1e-9, 1e9, 999_999_999_999_999_937),  # the float 1e-9 is a little above a thousand millionth
    ):
        assert PrivacyLedger(each, id="user", budget=budget).records == records


def test_columns_of_which_a_record_answers_one_are_paid_for_once():
    alone = RandomizedResponse(epsilon=0.1)
    plan = PrivacyPlan.sampled({"a": alone, "b": alone}, epsilon=0.1, keep=["user"])
    assert plan.exact_epsilon == exact_epsilon(plan.epsilon) == Fraction(0.1)
    PrivacyLedger(plan, id="user", budget=0.1)


def test_each_person_and_period_spends_at_most_the_budget():
    for per, places in (("30d", lambda t: t // (30 * DAY)), (None, lambda t: 0), (15 * DAY, lambda t: t // (15 * DAY))):
        for form in FORMS:
            time = None if per is None else "time"
            ledger = PrivacyLedger(PLAN, id="user", budget=3.5, per=per, event_time=time, drop_id=False)
            passed = list(rows_of(limited(ledger, FORMS[form](SPENDING))[0]))
            spent = {}
            for r in passed:
                place = r["user"], places(r["time"])
                spent[place] = spent.get(place, 0) + PLAN.exact_epsilon
            assert max(spent.values()) == ledger.spent == 3 <= Fraction(3.5) < 3 + PLAN.exact_epsilon
            had = Counter((r["user"], places(r["time"])) for r in SPENDING)
            got = Counter((r["user"], places(r["time"])) for r in passed)
            assert got == {place: min(n, 4) for place, n in had.items()}


def most_within(times, length):
    """By definition: how many of them any stretch of this length has, without its end."""
    return max(sum(start <= time < start + length for time in times) for start in times)


@settings(max_examples=60)
@given(
    times=st.lists(st.integers(0, 40 * DAY), min_size=1, max_size=60),
    size=st.integers(1, 20),
    single=st.booleans(),
    forgets=st.booleans(),
)
def test_any_seven_days_spend_at_most_the_budget(times, size, single, forgets):
    ledger = PrivacyLedger(PLAN, id="user", budget=3, per="7d", rolling=True, event_time="time", drop_id=False)
    records = [{"user": i % 2, "time": time, "n": i} for i, time in enumerate(times)]
    bundles = [[one] if not single else one.to_pylist() for one in batches(records, size)]
    passed = list(rows_of(limited(ledger, *bundles, forgets=forgets)[0]))
    assert ledger.records == 4
    for user in (0, 1):
        own = [r["time"] for r in passed if r["user"] == user]
        assert not own or most_within(own, 7 * DAY) <= 4
    if forgets:  # what is older than the newest that passed by more than a period has no way
        return
    for record in records:  # and nobody is refused who could pay
        if record not in passed:
            own = [r["time"] for r in passed if r["user"] == record["user"]]
            assert most_within([*own, record["time"]], 7 * DAY) > 4


def test_two_weeks_side_by_side():
    """The four records of a week's last day, and the four of the next one's first, are eight within two days."""
    days = [{"user": 1, "time": (3 + day) * DAY + hour, "n": hour + 4 * day} for day in (0, 1) for hour in range(4)]
    week = {"id": "user", "budget": 3, "per": "1w", "event_time": "time"}  # (the first Monday is day 4)
    assert numbers(limited(PrivacyLedger(PLAN, **week), days)[0]) == list(range(8))
    assert numbers(limited(PrivacyLedger(PLAN, **week, rolling=True), days)[0]) == list(range(4))
    later = [{**record, "time": record["time"] + 7 * DAY} for record in days[:4]]
    out, _ = limited(PrivacyLedger(PLAN, **week, rolling=True), days[:4], later)
    assert len(out) == 8  # a stretch has its beginning and not its end
    for kind, job in (({}, run), (IN_A_STREAM, run)):
        ledger = PrivacyLedger(PLAN, **week, rolling=True)
        assert numbers(job(ledger, batches([*days, *later]), **kind)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_stream_forgets_what_is_older_than_its_periods():
    ledger = PrivacyLedger(0.5, id="user", budget=1, per=10, rolling=True, event_time="time", allowed_lateness=5)
    steps = [[{"user": 1, "time": time, "n": time}] for time in (0, 100, 85, 84, 200)]
    assert numbers(limited(ledger, *steps, forgets=True)[0]) == [0, 85, 100, 200]  # 84 is 16 older than the newest
    assert numbers(limited(ledger, *steps)[0]) == [0, 84, 85, 100, 200]


def test_what_is_refused_is_counted_and_dead():
    ledger = PrivacyLedger(PLAN, id="user", budget=3, drop_id=False).with_exception_handling()
    (good, bad), result = run_with_result(ledger, [*batches(SPENDING), {"user": None, "n": 999}])
    assert len(list(rows_of(good.elements))) == 28
    assert total(bad.elements) == {("user", "budget spent"): 272, ("user", "null"): 1}
    assert counters(result)["budget_dropped"] == 272


def test_stored_reports_have_spent_already():
    """Of files and of Kafka only what was perturbed in the same pipeline was refused."""
    plan = PrivacyPlan({"os": RandomizedResponse(["a", "b"], epsilon=1.0)}, keep=["user"])
    stored = plan.perturb(pa.record_batch({"os": ["a", "b", "a"], "user": [1, 1, 2]}))
    typed = stored.replace_schema_metadata(None)  # which the types of the columns say, too
    other = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    for reports in (stored, typed):
        for charged in (plan, 1.0):
            ledger = PrivacyLedger(charged, id="user", budget=1.0)
            with pytest.raises(MechanismMismatchError, match=r"\['os'\] hold reports already"):
                limited(ledger, [reports])
            assert total(limited(ledger.with_exception_handling(), [reports])[1]).keys() == {("", OTHER_PLAN)}
        for limit in (PrivacyLedger(other, id="user", budget=1.0), BoundContributions("user", 1)):
            assert len(list(rows_of(limited(limit, [reports])[0]))) == 2


def test_bad_parameters_of_a_ledger():
    for options in (
        {"budget": 0.4},
        {"budget": 0},
        {"budget": -1},
        {"budget": float("nan")},
        {"budget": float("inf")},
        {"budget": True},
        {"budget": "much"},
        {"budget": "1/0"},
        {"budget": None},
        {"plan_or_epsilon": 0, "budget": 1},
        {"plan_or_epsilon": "Infinity", "budget": 1},
        {"plan_or_epsilon": 10**400, "budget": 1},
        {"plan_or_epsilon": [0.5], "budget": 1},
        {"budget": 1, "event_time": "time"},
        {"budget": 1, "per": 0},
        {"budget": 1, "per": "a month"},
        {"budget": 1, "rolling": True},
        {"budget": 1, "per": 0, "rolling": True},
        {"budget": 1, "id": 7},
        {"budget": 1, "allowed_lateness": -1},
    ):
        with pytest.raises(ParameterError):
            PrivacyLedger(**{"plan_or_epsilon": 0.5, "id": "user", **options})


# ---- what several records of a person spend

COIN = PrivacyPlan({"os": RandomizedResponse(["a", "b"], epsilon=0.1)})
L_GRR = LongitudinalRandomizedResponse(range(100), epsilon_infinity=5.0, epsilon_1=0.5)
REMEMBERED = PrivacyPlan({"page": L_GRR})
PUBLIC = {"change_times": "public"}


def test_two_keyed_reports_are_not_sold_for_a_budget_of_two():
    """Whether two keyed reports differ is certain under (a, a) and a coin under (a, b): no budget pays for both."""
    key = Secret.from_seed(1)

    def job(ledger, **noise):
        events = [{"user": 1, "os": "a"}, {"user": 1, "os": "b"}]
        return run(ledger | beam.Map(dict) | ldp_beam.Perturb(COIN, **noise), events)

    for ledger in (
        PrivacyLedger(COIN, id="user", budget=0.2, drop_id=False),
        PrivacyLedger(0.1, id="user", budget=0.2, drop_id=False),
    ):
        assert ledger.records == 2
        with pytest.raises(ParameterError, match="charges for fresh noise"):
            job(ledger, key=key, id="user")
    for changes in (None, 1):
        with pytest.raises(ParameterError, match=r'changes=0, or change_times="public"'):
            PrivacyLedger(COIN, id="user", budget=0.2, keyed=True, changes=changes)
    few = PrivacyPlan({"x": DBitFlip(range(8), epsilon_infinity=0.1, bits=2)})
    tree = PrivacyPlan({"x": HierarchicalHistogram(range(8), epsilon=0.1)})
    for plan, said in product((few, tree), ({}, PUBLIC)):  # of few bits, and of trees, public times do not help
        with pytest.raises(ParameterError, match="changes=0; or take fresh noise"):
            PrivacyLedger(plan, id="user", budget=1, keyed=plan is tree, **said)
    declared = PrivacyLedger(COIN, id="user", budget=0.2, keyed=True, drop_id=False, **PUBLIC)
    assert declared.records == 2  # two values, one of each
    assert len(job(declared, key=key, id="user")) == 2
    with pytest.raises(ParameterError, match="charges for keyed noise"):
        job(declared)
    seeded = COIN.seeded(1)  # not private anyway
    run(PrivacyLedger(COIN, id="user", budget=0.2, drop_id=False) | ldp_beam.Perturb(seeded, id="user"), [])


def test_what_perturbs_and_tallies_in_one_step_is_held_to_its_ledger():
    ledger = PrivacyLedger(COIN, id="user", budget=0.2, drop_id=False)
    private = ldp_beam.PrivateHistogram("os", COIN["os"], key=Secret.from_seed(1), id="user")
    with pytest.raises(ParameterError, match="charges for fresh noise"):
        run(ledger | private, [{"user": 1, "os": "a"}])
    rows = run(ledger | ldp_beam.PrivateHistogram("os", COIN["os"]), [{"user": 1, "os": "a"}] * 5)
    assert {row.n for row in rows} == {2}


@pytest.mark.parametrize("whose", ["device", "event"])
def test_keyed_noise_of_other_ids_than_the_ledgers_is_refused(whose):
    """A person with n devices has n independent reports of one value, which spend n epsilon; the budget is for one."""
    ledger = PrivacyLedger(COIN, id="user", budget=0.1, keyed=True, changes=0, drop_id=False)
    assert ledger.records is None  # all pass
    noise = {"key": Secret.from_seed(1), "id": whose}
    for step in (ldp_beam.Perturb(COIN, **noise), ldp_beam.PrivateHistogram("os", COIN["os"], repeats=1, **noise)):
        with pytest.raises(ParameterError, match=f"'user'.* '{whose}'.*one id="):
            run(ledger | step, [{"user": 1, whose: n, "os": "a"} for n in range(9)])


def test_an_id_that_a_limit_has_dropped_says_how_to_keep_it():
    keyed = ldp_beam.Perturb(COIN, key=Secret.from_seed(1), id="user")
    record = {"user": 1, "os": "a"}
    for elements in ([record], [pa.RecordBatch.from_pylist([record])]):
        with pytest.raises(PlanError, match=r"no column 'user'.*drop_id=False"):
            run(BoundContributions("user", 1) | keyed, elements)


def test_a_column_that_the_rows_lack_is_missing_before_a_worker_looks():
    events = beam.Pipeline("FnApiRunner") | beam.Create([beam.Row(user=1, os="a")])
    limits = (
        BoundContributions("person", 1),
        BoundContributions("user", 1, window="1d", event_time="time"),
        PrivacyLedger(COIN, id="person", budget=1),
        Deduplicate("person", within="1d"),
        BoundContributions("user", 1) | "Again" >> BoundContributions("user", 1),  # (the first has dropped it)
        ldp_beam.Perturb(COIN, key=Secret.from_seed(1), id="person"),
    )
    for n, limit in enumerate(limits):
        with pytest.raises(PlanError, match=r"no columns \['(person|time|user)'\]; the rows have.*drop_id=False"):
            _ = events | f"{n}" >> limit


def test_a_plan_that_spends_more_than_its_ledger_charges_is_refused():
    dear = PrivacyPlan({"os": RandomizedResponse(["a", "b"], epsilon=10.0)})
    events = [{"user": 1, "os": "a"}]
    for charged in (COIN, 0.1):
        ledger = PrivacyLedger(charged, id="user", budget=0.2)
        for step in (ldp_beam.Perturb(dear), ldp_beam.PrivateHistogram("os", dear["os"])):
            with pytest.raises(ParameterError, match=r"charges 0\.2 for 2 records of a person, and here they spend 20"):
                run(ledger | step, events)
        assert run(ledger | ldp_beam.Perturb(COIN) | beam.Map(dict), events)
    several = PrivacyPlan({"os": COIN["os"], "page": COIN["os"]})
    ledger = PrivacyLedger(several, id="user", budget=0.2)  # one column of several spends less
    assert run(ledger | ldp_beam.PrivateHistogram("os", several["os"]), events)


def test_what_all_admitted_reports_spend_is_compared_and_not_what_one_does():
    """L-GRR of epsilon_infinity 1 was charged, and of 6 was spent: 6 of a budget of 1, at one epsilon of a report."""
    both = [LongitudinalRandomizedResponse(range(9), epsilon_infinity=e, epsilon_1=0.5) for e in (1, 6)]
    cheap, dear = (PrivacyPlan({"page": m}) for m in both)
    assert cheap.epsilon == dear.epsilon
    key, events = Secret.from_seed(1), [{"user": 1, "page": 3}]
    ledger = PrivacyLedger(cheap, id="user", budget=1.0, changes=0, drop_id=False)
    assert (ledger.records, ledger.spent) == (None, 1)
    assert len(run(ledger | beam.Map(dict) | ldp_beam.Perturb(cheap, key=key, id="user"), events * 20)) == 20
    for step in (ldp_beam.Perturb, lambda plan, **noise: ldp_beam.PrivateHistogram("page", plan["page"], **noise)):
        with pytest.raises(ParameterError, match=r"charges 1 for any number of records of a person, .* they spend 6"):
            run(ledger | step(dear, key=key, id="user"), events)
    few = PrivacyLedger(dear, id="user", budget=2.0, changes=0, drop_id=False)  # and the other way round it is less
    assert few.records is not None
    assert run(few | ldp_beam.Perturb(cheap, key=key, id="user") | beam.Map(dict), events)


def test_reports_that_share_a_permanent_answer_cost_more_than_their_sum():
    ledger = PrivacyLedger(REMEMBERED, id="user", budget=2.0)
    assert ledger.records == 3  # four spend 2.408 together
    assert ledger.spent == Fraction(REMEMBERED.epsilon_of(3, changes=None)) > 3 * Fraction(0.5)
    assert BoundContributions("user", 4, window="1d").epsilon(REMEMBERED, changes=0) == Fraction(L_GRR.epsilon_of(4))


def test_a_budget_of_k_reports_pays_for_k_reports_that_change_in_public():
    """It charged 1e-9 more, or a line above the loss: a budget of 4 paid for three reports of epsilon 1."""
    for kind in (LongitudinalRandomizedResponse, LongitudinalUnaryEncoding):
        plan = PrivacyPlan({"page": kind(range(4), epsilon_infinity=2.0, epsilon_1=1.0)})
        assert PrivacyLedger(plan, id="user", budget=4.0, **PUBLIC).records == 4


def test_a_budget_that_a_sum_of_floats_exceeds_is_told_by_how_much():
    plan = PrivacyPlan({name: RandomizedResponse(epsilon=0.1) for name in "abc"})
    with pytest.raises(ParameterError, match=r"budget 0\.3 does not pay .* spends 0\.30000000000000004"):
        PrivacyLedger(plan, id="user", budget=0.3)


def test_the_largest_number_of_records_that_the_budget_pays_for():
    for plan in (REMEMBERED, PrivacyPlan({"page": Rappor(bits=32, hashes=2, cohorts=8, f=0.5, p=0.5, q=0.75)})):
        for budget in (0.5, 1.9, 4.7, 12.0, 300.0):
            for known in ({"changes": 0}, {"changes": 1}, {"changes": 3, **PUBLIC}, PUBLIC, {}):
                if budget < plan.epsilon:
                    with pytest.raises(ParameterError, match="does not pay for one record"):
                        PrivacyLedger(plan, id="user", budget=budget, **known)
                    continue
                ledger = PrivacyLedger(plan, id="user", budget=budget, **known)
                bound = BoundContributions("user", 1, window="1d")
                if ledger.records is None:
                    assert ledger.spent == plan.epsilon_of(None, **known) <= budget
                    continue
                spent, more = (bound.epsilon(plan, windows=ledger.records + i, **known) for i in (0, 1))
                assert ledger.spent == spent <= Fraction(budget) < more


def test_any_number_of_records_of_an_unchanged_value():
    ledger = PrivacyLedger(REMEMBERED, id="user", budget=5, changes=0)
    assert (ledger.records, ledger.spent) == (None, 5)
    good, bad = limited(ledger.with_exception_handling(), [{"user": 1, "page": 7, "n": i} for i in range(300)])
    assert numbers(good) == list(range(300))
    assert not bad


def test_windows_of_reports_that_share_permanent_answers():
    bound = BoundContributions("user", 1, window="1d")
    assert bound.epsilon(COIN, windows=30) == 30 * Fraction(0.1)
    assert bound.epsilon(REMEMBERED, windows=4, changes=0) > 4 * bound.epsilon(REMEMBERED, changes=0)
    assert bound.epsilon(COIN, windows=30, keyed=True) == math.inf
    assert bound.epsilon(COIN, windows=30, keyed=True, changes=0) == Fraction(0.1)


def test_bad_charges():
    for options in (
        {"changes": -1},
        {"change_times": "known"},
        {"keyed": "yes"},
        {"plan_or_epsilon": 0.1, "keyed": True},
        {"plan_or_epsilon": 0.1, "changes": -1},
        {"plan_or_epsilon": PrivacyPlan({"page": DBitFlip(range(9), epsilon_infinity=0.1, bits=3)}), **PUBLIC},
        {"plan_or_epsilon": PrivacyPlan({**COIN.columns, **REMEMBERED.columns})},
    ):
        with pytest.raises(ParameterError):
            PrivacyLedger(**{"plan_or_epsilon": COIN, "id": "user", "budget": 9, **options})
        with pytest.raises(ParameterError):
            BoundContributions("user", 1, window="1d").epsilon(COIN, windows=0)


@pytest.mark.slow
def test_the_bound_of_persons_is_the_repeats_of_estimates():
    """Where noise is keyed or a population is meant, also of shorter windows, several times; not behind other steps.

    Of several limits the nearest was taken, and one of hours hid that of days: 49 % of 2,000 false alarms.
    """
    m, secret = RandomizedResponse(epsilon=1.0), Secret(bytes(range(16, 48)))
    plan = PrivacyPlan({"crashed": m}, keep=["time"])
    events = batches([{"user": i % 20, "visit": i, "crashed": i % 3 == 0, "time": 80.0 * i} for i in range(90)], 90)
    keyed, many = {"key": secret, "id": "user"}, HistogramEstimate(population="many")
    hour, usual, step = "1h", HistogramEstimate(), beam.Map(lambda batch: batch)
    early = {"trigger": AfterWatermark(early=AfterTallies(2)), "accumulation_mode": "accumulating"}
    # window of the limit, or limits, noise, question, options of the estimate, a step in between, what is asked (None:
    # a refusal)
    cases = (
        (hour, keyed, usual, early, None, 3),
        (GlobalWindows(), keyed, usual, {"private": True} | keyed, None, 3),
        (hour, {}, many, {}, None, 3),
        (hour, {}, usual, {}, None, 1),
        (None, keyed, usual, {}, None, None),
        ("30m", keyed, usual, {}, None, 6),
        (hour, keyed, replace(usual, repeats=2), {}, step, 2),
        (hour, keyed, RangeEstimate(values=[True]), early, None, 3),
        (None, keyed, RangeEstimate(values=[True]), {}, None, None),
        ([("user", 3, hour), ("user", 2, "30m")], {}, many, {}, None, 3),
        ([("user", 3, hour), ("user", 2, "30m")], keyed, usual, {}, None, 3),
        ([("user", 2, hour), ("user", 3, hour)], {}, many, {}, None, 2),
        ([("user", 3, hour), ("visit", 1, hour)], {}, many, {}, None, 3),
        ([("visit", 1, hour), ("user", 3, hour)], keyed, usual, {}, None, 3),
    )
    for number, (window, noise, question, more, between, repeats) in enumerate(cases):
        with case(number):
            out, options = Collector(), {"window": hour, "event_time": "time"} | more
            with beam.Pipeline("FnApiRunner") as p:
                rows = p | beam.Create(events)
                for of, records, each in window if isinstance(window, list) else [("user", 3, window)]:
                    by = None if each is None else "time"
                    limit = BoundContributions(of, records, window=each, event_time=by, drop_id=False)
                    rows = rows | f"{of} {each} {records}" >> limit
                rows = rows if "private" in options else rows | Perturb(plan, **noise)
                rows = rows if between is None else rows | between
                if repeats is None:
                    with pytest.raises(ParameterError, match="say repeats=1"):
                        _ = rows | Estimate("crashed", m, question, **options)
                    continue
                _ = rows | Estimate("crashed", m, question, **options) | out.sink()
            assert out.elements
            for row in out.elements:
                if row.value not in (True, "True"):
                    continue
                yes = round(row.count * float(m.p - m.q) + row.n * float(m.q))
                counters = np.array([row.n - yes, yes])
                expected = replace(question, repeats=repeats).result(m, Tally(row.n, counters, m.fingerprint))
                assert (row.standard_error, row.low) == pytest.approx((expected.standard_errors[-1], expected.low[-1]))


HOUR = {"window": "1h", "event_time": "time"}


@pytest.mark.slow
def test_the_records_that_a_ledger_admits_are_the_repeats_of_estimates():
    """It said nothing: of 998 comparisons of equal weeks, with 7 records a person, 34 % called a change."""
    m = RandomizedResponse(epsilon=1.0)
    plan = PrivacyPlan({"crashed": m}, keep=["time"])
    events = batches([{"user": i % 20, "crashed": i % 3 == 0, "time": 1e9 + 80.0 * i} for i in range(270)], 270)

    def ledger(budget, per="1h", **options):
        clock = {} if per is None else {"event_time": "time"}
        return PrivacyLedger(plan, **{"id": "user", "budget": budget, "per": per, **clock, **options})

    keyed = {"key": Secret(bytes(range(16, 48))), "id": "user"}
    day = BoundContributions("user", 2, window="1d", event_time="time", drop_id=False)
    in_yaml = LdpPrivacyLedger(plan=plan.to_dict(), id="user", budget=3, per="1h", event_time="time")
    # limits, noise, question, what is asked
    cases = (
        ([ledger(3)], {}, HOUR, 3),
        ([ledger(3.5)], {}, HOUR, 3),
        ([ledger(1)], {}, HOUR, 1),
        ([ledger(3)], {}, {**HOUR, "window": "30m"}, 3),
        ([ledger(3)], {}, {**HOUR, "window": "2h"}, 6),
        ([ledger(3)], {}, {**HOUR, "window": "90m"}, 6),
        ([ledger(3, None)], {}, HOUR, 3),
        ([ledger(3, rolling=True)], {}, HOUR, 3),
        ([ledger(3, rolling=True)], {}, {**HOUR, "window": "90m"}, 6),
        ([day, ledger(3)], {}, HOUR, 2),
        ([ledger(3, drop_id=False), day], {}, HOUR, 2),
        ([in_yaml], {}, HOUR, 3),
        ([ledger(1, keyed=True, change_times="public", drop_id=False)], keyed, HOUR, 1),
    )
    found, expected = [], []
    with beam.Pipeline("FnApiRunner") as p:
        rows = p | beam.Create(events)
        for number, (limits, noise, windows, repeats) in enumerate(cases):
            reports = rows
            for i, limit in enumerate([*limits, Perturb(plan, **noise)]):
                reports |= f"{number} {i}" >> limit
            for said, outs in ((None, found), (repeats, expected)):
                people = {"same_people": True} if noise else {}
                many = HistogramEstimate(population="many", repeats=said)
                asked = (
                    Estimate("crashed", m, many, **windows),
                    ldp_beam.Compare("crashed", m, repeats=said, **people, **windows),
                )
                for question in asked:
                    outs.append(Collector())
                    _ = (
                        reports
                        | f"{number} {len(outs)} {said}" >> question
                        | f"to {number} {len(outs)} {said}" >> outs[-1].sink()
                    )
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        with case(number // 2):
            assert one.elements
            assert sorted(map(str, one.elements)) == sorted(map(str, other.elements))


def test_where_a_ledger_says_nothing_of_a_window():
    """Any number of equal reports, other clocks, windows without a length, and answers that need one of each person."""
    m = RandomizedResponse(epsilon=1.0)
    plan = PrivacyPlan({"crashed": m}, keep=["time"])
    week, many = {"budget": 3, "per": "1w", "event_time": "time"}, HistogramEstimate(population="many")
    rows = beam.Pipeline("FnApiRunner") | beam.Create(batches([{"user": 1, "crashed": True, "time": 1e9}]))
    fresh = rows | PrivacyLedger(plan, id="user", **week) | Perturb(plan)
    for i, windows in enumerate(({}, {"window": "1w"}, {"window": Sessions(60), "event_time": "time"})):
        with pytest.warns(LdpWarning, match="'crashed': the limit before does not say how many"):
            _ = fresh | f"many {i}" >> Estimate("crashed", m, many, **windows)
        _ = fresh | f"these {i}" >> Estimate("crashed", m, **windows)
        _ = fresh | f"said {i}" >> Estimate("crashed", m, replace(many, repeats=3), **windows)
    with pytest.raises(ParameterError, match=r"up to 3 reports of a person into a window; if .* say repeats=1"):
        _ = fresh | ldp_beam.Compare("crashed", m, anytime=True, **HOUR)
    _ = fresh | "one" >> ldp_beam.Compare("crashed", m, anytime=True, repeats=1, **HOUR)
    all_pass = PrivacyLedger(plan, id="user", keyed=True, changes=0, drop_id=False, **week)
    keyed = rows | "all pass" >> all_pass | "keyed" >> Perturb(plan, key=Secret(bytes(32)), id="user")
    with pytest.raises(ParameterError, match="say repeats=1"):
        _ = keyed | "all" >> Estimate("crashed", m, many, window="1w", event_time="time")


def test_numbers_behind_a_limit_are_of_as_many_people():
    """Their intervals are about a population in any case. Fitted curves do not know their error by person."""
    mean, curve = NOutput((0, 1), epsilon=4.0), SquareWave((0, 1), epsilon=4.0)
    events = [{"user": i // 3, "x": float(i % 2), "y": 0.5, "time": 1e9} for i in range(90)]
    found, said = Collector(), Collector()
    with beam.Pipeline("FnApiRunner") as p:
        limited = p | beam.Create(batches(events)) | BoundContributions("user", 3, window="1h", event_time="time")
        x = limited | Perturb(PrivacyPlan({"x": mean}, keep=["time"]))
        y = limited | "y" >> Perturb(PrivacyPlan({"y": curve}, keep=["time"]))
        _ = x | Estimate("x", mean, **HOUR) | found.sink()
        _ = x | "said" >> Estimate("x", mean, MeanEstimate(repeats=3), **HOUR) | "to said" >> said.sink()
        for i, question in enumerate((DistributionEstimate(), QuantilesEstimate(), CdfEstimate())):
            with pytest.raises(ParameterError, match=r"up to 3 reports of a person into a window; .* say repeats=1"):
                _ = y | f"curve {i}" >> Estimate("y", curve, question, **HOUR)
            _ = y | f"of records {i}" >> Estimate("y", curve, replace(question, repeats=1), **HOUR)
        _ = y | "mean of y" >> Estimate("y", curve, MeanEstimate(), **HOUR)
    assert found.elements == said.elements
    assert found.elements[0].n == 90


def test_parts_of_periods_in_a_window():
    """The most periods that a window has a part of, against counting them."""
    random = np.random.default_rng(1)
    for _ in range(300):
        period, size, step, begin, offset = (int(random.integers(1, 9)) for _ in range(5))
        step = size if random.integers(2) else min(step, size)
        windows = FixedWindows(size, begin % size) if step == size else SlidingWindows(size, step, begin % step)
        at = begin % step
        parts = [
            (a + size - 1 - offset % period) // period - (a - offset % period) // period + 1
            for a in range(at, at + step * period, step)
        ]
        bound = Bound(2, FixedWindows(period, offset % period), "time")
        most = bound.within(windows, "time")
        assert most == 2 * max(parts), (period, size, step, begin, offset)
        assert Bound(2, GlobalWindows(), "time", period * 10**6).within(windows, "time") == 2 * math.ceil(size / period)
