"""What a plan's estimates would look like."""

import math
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    CountMeanSketch,
    Dates,
    Distribution,
    Domain,
    DomainError,
    HeavyHitters,
    Histogram,
    Hybrid,
    Interval,
    LongitudinalRandomizedResponse,
    Mean,
    MechanismMismatchError,
    NOutput,
    ParameterError,
    PlanError,
    Prefixes,
    PrivacyPlan,
    PrivSet,
    RandomizedResponse,
    SquareWave,
    UnaryEncoding,
    WholeNumbers,
)
from ldp_core.plans.simulation import apportioned

from ...cases import case

PLAN = PrivacyPlan(
    {
        "os": UnaryEncoding(Domain(["ios", "android"], unmatched="other"), epsilon=1.0),
        "crashed": RandomizedResponse(epsilon=1.0),
        "minutes": Hybrid((0, 60), epsilon=1.0),
        "age": SquareWave((0, 100), epsilon=2.0, buckets=16),
        "word": CountMeanSketch(epsilon=2.0, hashes=16, width=64),
        "page": HeavyHitters(Prefixes("abcd", 4), epsilon=3.0, rows=4, width=256),
    },
    keep=["day"],
)
DATA = {
    "os": ["ios", "ios", None, "symbian"],
    "crashed": [True, False, False, False],
    "minutes": [0, 60, 60, 60],
    "age": [20.0, 20.0, 70.0, 70.0],
    "word": ["new", "york", "york", "york"],
    "page": ["a", "a", "b", "cab"],
}
N = 10**6


def test_a_mixed_plan_shows_all_its_columns():
    seen = PLAN.simulate(pa.table(DATA), n=N, seed=1)
    assert list(seen) == list(PLAN.columns)
    assert [type(estimate) for estimate in seen.values()][:5] == [Histogram, Histogram, Mean, Distribution, Histogram]
    assert {tally.n for tally in seen.tallies.values()} == {N}
    assert seen["os"].frequencies == pytest.approx([0.5, 0, 0.5], abs=0.02)  # 6 standard errors and more
    assert seen["crashed"].frequencies == pytest.approx([0.75, 0.25], abs=0.006)
    assert seen["minutes"].mean == pytest.approx(45, abs=0.4)
    assert seen["age"].mean == pytest.approx(45, abs=4)  # smoothed, by buckets of 6.25
    assert dict(zip(seen["word"].values, seen["word"].frequencies, strict=True)) == {
        "york": pytest.approx(0.75, abs=0.15),
        "new": pytest.approx(0.25, abs=0.15),
    }
    assert set(seen["page"].values) == {"a", "b", "cab"}
    assert seen.people["crashed"] == ((True, N // 4), (False, 3 * N // 4))
    assert all(name in repr(seen) for name in PLAN.columns)
    assert seen._repr_html_().count("<table>") == 5


def test_pictures_have_diamonds_of_what_is_drawn():
    """They were refused: "truth= has ['word'], and there are a, b", of options that nobody gave."""
    words, sketch = {"a": 300, "b": 20, "word": 680}, CountMeanSketch(epsilon=2.0, hashes=16, width=64)
    for m, people, ask, known in (
        (sketch.over(["a", "b"]), words, "histogram", ["a", "b"]),
        (
            RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=2.0),
            words,
            "histogram",
            ["a", "b", "other"],
        ),
        (UnaryEncoding(range(4), epsilon=2.0), range(4), "range:low=2", []),
    ):
        seen = PrivacyPlan({"x": m}).simulate({"x": people}, n=1000, seed=1, ask={"x": ask})
        with case(m.name, ask):
            [bars] = seen.plot().to_dict()["datasets"].values()
            assert [bar["value"] for bar in bars if bar["truth"] is not None] == known


def test_the_truth_is_what_is_counted():
    """Beside an estimate of 70 % "other" stood 0 people, and 155 minutes beside a mean of 0 to 60."""
    months = Dates("2024-01-01", "2024-04-01", every="1mo", unmatched="clip", missing="2024-02-01")
    jan, feb, mar = (date(2024, month, 1) for month in (1, 2, 3))
    apps = PrivSet(Domain(["a", "b"], unmatched="other"), epsilon=1.0, most=2, on_more="first")
    found = HeavyHitters(Prefixes("abcd", 2, unmatched="cut"), epsilon=3.0, rows=4, width=256)
    clipped, whole = Interval(0, 60, "clip", missing=20), WholeNumbers(1, 9, "clip")
    for m, values, counted in (
        (
            RandomizedResponse(Domain(["a", "b"], unmatched="other"), epsilon=1.0),
            ["b", "c", None],
            ["b"] + 2 * ["other"],
        ),
        (RandomizedResponse(Domain([1, 2], unmatched="other"), epsilon=1.0), [1, 7], ["1", "other"]),
        (UnaryEncoding(Domain([1, 2], unmatched="none"), epsilon=1.0), [1, 7], [1, None]),
        (UnaryEncoding(months, epsilon=1.0), ["2024-01-31", "2025-01-01", None, "2023-01-01"], [jan, mar, feb, jan]),
        (apps, [["b", "b"], None, [], ["b", "z", "a"]], [["b"], ["other"], [], ["b", "other"]]),
        (found, ["abc", "Abc", None], ["ab", "", ""]),
        (NOutput(clipped, epsilon=1.0), [30, 61.5, -1, None, math.nan], [30.0, 60.0, 0.0, 20.0, 20.0]),
        (SquareWave(whole, epsilon=1.0), [2.4, 77.0, 9.0], [2.0, 9.0, 9.0]),
        (CountMeanSketch(epsilon=2.0, hashes=16, width=64), ["new", "york"], ["new", "york"]),
    ):
        with case(m.name, values):
            people = PrivacyPlan({"x": m}).simulate({"x": pa.array(values)}, seed=1).people["x"]
            assert sorted(map(repr, counted)) == sorted(repr(value) for value, number in people for _ in range(number))


def test_the_same_from_lists_shares_and_counts():
    again = PLAN.simulate(DATA, n=N, seed=1)
    assert again.tallies == PLAN.simulate(pa.table(DATA), n=N, seed=1).tallies
    mean, numbers = PrivacyPlan({"x": Hybrid((0, 60), epsilon=1.0)}), [0.0, 30.0, 60.0]
    for kind in (pa.float16(), pa.decimal128(5, 2)):  # (of half floats Arrow counts no values)
        n = (
            mean.simulate(pa.table({"x": pa.array(np.array(numbers, np.float16)).cast(pa.float32()).cast(kind)}))
            .tallies["x"]
            .n
        )
        assert n == 3
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    counts = {"crashed": {True: 250, False: 750}}
    tally = plan.simulate(counts, seed=2).tallies["crashed"]
    assert tally == plan["crashed"].simulate(counts["crashed"], seed=2)
    assert tally == plan.simulate({"crashed": {True: 0.25, False: 0.75}}, n=1000, seed=2).tallies["crashed"]
    assert tally == plan.simulate({"crashed": [True] * 250 + [False] * 750}, seed=2).tallies["crashed"]


def test_reports_are_no_records_to_simulate():
    """Their shares are those of noise: 28 % where 20 % of the people had a value."""
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    with pytest.raises(MechanismMismatchError, match="reports already"):
        plan.simulate(plan.perturb(pa.table({"crashed": [True, False]})))


def test_people_who_send_several_reports_each():
    """Noise averages out, and intervals are those of the bound; permanent answers do not, and are refused."""
    plan = PrivacyPlan({name: PLAN[name] for name in ("crashed", "minutes")})
    data = {"crashed": {True: 250, False: 750}, "minutes": [0, 60, 60, 60]}
    seen, once = (plan.simulate(data, n=1000, seed=3, repeats=k) for k in (9, 1))
    one, of_it = PrivacyPlan({"crashed": PLAN["crashed"]}), {"crashed": data["crashed"]}
    found = [one.simulate(of_it, n=1000, seed=k, repeats=9)["crashed"].frequencies[1] for k in range(200)]
    alone = plan["crashed"].variance(1, 0.25) ** 0.5
    assert np.std(found) == pytest.approx(alone / np.sqrt(9000), rel=0.15)
    assert (seen["crashed"].n, seen.people["crashed"]) == (9000, ((True, 2250), (False, 6750)))
    widths = [(one["crashed"].frequency_high - one["crashed"].frequency_low)[0] for one in (seen, once)]
    assert widths[0] == pytest.approx(widths[1], rel=0.02)
    assert seen["minutes"].standard_error == pytest.approx(once["minutes"].standard_error, rel=0.1)
    kept = PrivacyPlan({"v": LongitudinalRandomizedResponse(["a", "b"], epsilon_infinity=2.0, epsilon_1=1.0)})
    for one, words in ((kept, "permanent answers"), (PrivacyPlan({"v": PLAN["age"]}), "no sum over reports")):
        with pytest.raises(ParameterError, match=words):
            one.simulate({"v": ["a", "b"] if one is kept else [20.0]}, repeats=2)
    with pytest.raises(ParameterError, match="repeats"):
        plan.simulate(data, repeats=0)


def test_columns_of_which_a_record_answers_one():
    for way in (PrivacyPlan.sampled, PrivacyPlan.fake):
        plan = way({"os": ["ios", "android"], "crashed": [False, True]}, epsilon=1.0)
        seen = plan.simulate({"os": {"ios": 0.9, "android": 0.1}, "crashed": [True]}, n=N, seed=1)
        assert seen["os"].frequencies == pytest.approx([0.9, 0.1], abs=0.02)


@pytest.mark.parametrize(("weights", "n"), [([1, 1, 1], 10), ([0.1, 0.2, 0.7], 3), ([1e-9, 1, 0], 10**9), ([5, 5], 0)])
def test_people_add_up(weights, n):
    people = apportioned("x", weights, n)
    assert people.sum() == n
    assert np.abs(people - np.array(weights) / np.sum(weights) * n).max() < 1 + 1e-6


@pytest.mark.parametrize(
    ("data", "n", "error", "words"),
    [
        ({"os": ["ios"]}, None, PlanError, "names column 'crashed'"),
        ([1, 2], None, PlanError, "got list"),
        ({"crashed": {True: 0.5}}, None, ParameterError, "say of how many people"),
        ({"crashed": {True: -1}}, None, ParameterError, "at least 0"),
        ({"crashed": {True: -0.5}}, 10, ParameterError, "at least 0"),
        ({"crashed": {True: 0}}, 10, ParameterError, "not all 0"),
        ({"crashed": {True: 1}}, -1, ParameterError, "n must be an integer"),
        ({"crashed": [None]}, None, DomainError, "column 'crashed': 1 of 1 values are not in the domain"),
    ],
)
def test_refusals(data, n, error, words):
    plan = PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)})
    with pytest.raises(error, match=words):
        plan.simulate(data, n=n)
