"""PrivacyLedger: nobody's records spend more than the budget, in exact arithmetic."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import TimestampedValue as At
from hypothesis import given, settings
from hypothesis import strategies as st

import ldp_beam
from ldp_beam.persons.transforms import PrivacyLedger, exact_epsilon
from ldp_core import ParameterError, PrivacyPlan, RandomizedResponse, UnaryEncoding

from .helpers import SURE_BOOL, counters, run, run_with_result

DAY = 86_400
PLAN = PrivacyPlan({"crashed": RandomizedResponse(epsilon=0.5), "os": UnaryEncoding(["a", "b"], epsilon=0.25)})
RECORDS = [{"user": i % 7, "time": (i % 5) * 15 * DAY, "n": i} for i in range(300)]


def batches(size=37):
    return [pa.RecordBatch.from_pylist(RECORDS[i : i + size]) for i in range(0, len(RECORDS), size)]


def rows_of(elements):
    return [r for e in elements for r in (e.to_pylist() if isinstance(e, pa.RecordBatch) else [e])]


positive = st.floats(1e-3, 50, allow_nan=False)


@settings(max_examples=500)
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


@pytest.mark.parametrize(
    ("each", "budget", "records"),
    [
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
    ],
)
def test_exact_arithmetic(each, budget, records):
    assert PrivacyLedger(each, id="user", budget=budget).records == records


def test_the_sum_of_a_plan_is_not_rounded():
    each = [0.1, 0.2, 0.7]
    plan = PrivacyPlan({str(i): RandomizedResponse(epsilon=e) for i, e in enumerate(each)})
    assert Fraction(plan.epsilon) != exact_epsilon(plan) == sum(map(Fraction, each))


def test_columns_of_which_a_record_answers_one_are_paid_for_once():
    alone = RandomizedResponse(epsilon=0.1)
    plan = PrivacyPlan.sampled({"a": alone, "b": alone}, epsilon=0.1, keep=["user"])
    assert exact_epsilon(plan) == Fraction(plan.epsilon) == Fraction(0.1)
    PrivacyLedger(plan, id="user", budget=0.1)


@pytest.mark.parametrize("elements", [RECORDS, batches()], ids=["dicts", "batches"])
@pytest.mark.parametrize(
    ("per", "places"), [("30d", lambda t: t // (30 * DAY)), (None, lambda t: 0), (15 * DAY, lambda t: t // (15 * DAY))]
)
def test_each_person_and_period_spends_at_most_the_budget(elements, per, places):
    time = None if per is None else "time"
    ledger = PrivacyLedger(PLAN, id="user", budget=3.5, per=per, event_time=time, drop_id=False)
    passed = rows_of(run(ledger, elements))
    spent = {}
    for r in passed:
        place = r["user"], places(r["time"])
        spent[place] = spent.get(place, 0) + exact_epsilon(PLAN)
    assert max(spent.values()) == ledger.spent == 3 <= Fraction(3.5) < 3 + exact_epsilon(PLAN)
    had = Counter((r["user"], places(r["time"])) for r in RECORDS)
    got = Counter((r["user"], places(r["time"])) for r in passed)
    assert got == {place: min(n, 4) for place, n in had.items()}


def test_what_is_refused_is_counted_and_dead():
    ledger = PrivacyLedger(PLAN, id="user", budget=3, drop_id=False).with_exception_handling()
    (good, bad), result = run_with_result(ledger, [*batches(), {"user": None, "n": 999}])
    assert len(rows_of(good.elements)) == 28
    total = Counter()
    for letter in bad.elements:
        total[letter.column, letter.reason] += letter.count
    assert total == {("user", "budget spent"): 272, ("user", "null"): 1}
    assert counters(result)["budget_dropped"] == 272


def test_a_stream_spends_no_more_whenever_the_records_come():
    source = Stream().advance_watermark_to(0)
    for day in range(0, 200, 10):
        source.add_elements([At({"user": 1, "time": day * DAY, "n": day}, day * DAY)])
        source.add_elements([At({"user": 1, "time": 5 * DAY, "n": 1000 + day}, day * DAY)])  # late, most of them
        source.advance_watermark_to((day + 5) * DAY)
    source.advance_watermark_to_infinity()
    kept = {"drop_id": False, "allowed_lateness": "365d"}
    by_month = PrivacyLedger(1.0, id="user", budget=2.5, per="30d", event_time="time", **kept)
    out = run(by_month, source, runner="BundleBasedDirectRunner", flags=("--streaming",))
    assert Counter(r["time"] // (30 * DAY) for r in out) == dict.fromkeys(range(7), 2)


def test_a_repeated_bundle_is_charged_once():
    ledger = PrivacyLedger(1, id="user", budget=2, drop_id=False) | beam.Reshuffle()
    out = run(ledger, batches(), flags=("--direct_runner_bundle_repeat=2",))
    assert Counter(r["user"] for r in {r["n"]: r for r in rows_of(out)}.values()) == dict.fromkeys(range(7), 2)


def test_end_to_end():
    plan = PrivacyPlan({"crashed": SURE_BOOL})
    records = [{"user": f"u{i % 10}", "crashed": i >= 500} for i in range(1000)]
    ledger = PrivacyLedger(plan, id="user", budget=3 * SURE_BOOL.epsilon)
    rows = run(ledger | ldp_beam.Perturb(plan) | ldp_beam.Histogram("crashed", SURE_BOOL), records)
    assert {(row.value, round(row.count), row.n) for row in rows} == {("false", 30, 30), ("true", 0, 30)}


@pytest.mark.parametrize(
    "options",
    [
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
        {"plan_or_epsilon": [0.5], "budget": 1},
        {"budget": 1, "event_time": "time"},
        {"budget": 1, "per": 0},
        {"budget": 1, "per": "a month"},
        {"budget": 1, "id": 7},
        {"budget": 1, "allowed_lateness": -1},
    ],
)
def test_bad_parameters_at_construction(options):
    with pytest.raises(ParameterError):
        PrivacyLedger(**{"plan_or_epsilon": 0.5, "id": "user", **options})
