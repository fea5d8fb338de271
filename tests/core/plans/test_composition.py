"""What several reports of one person spend under a plan."""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    FakeDataColumn,
    LongitudinalRandomizedResponse,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    SampledColumn,
    Secret,
    UnaryEncoding,
    best_guess,
    shuffled_epsilon,
    total_epsilon,
)

from ...cases import each
from ..checks import check_binomial
from ..examples import EVERY
from .helpers import AB

COIN, BITS = RandomizedResponse(AB, epsilon=1.0), UnaryEncoding(AB, epsilon=0.5)
L_GRR = LongitudinalRandomizedResponse(range(100), epsilon_infinity=5.0, epsilon_1=0.5)
PUBLIC = {"change_times": "public"}


def test_columns_add_up():
    plan = PrivacyPlan({"a": COIN, "b": BITS}, keep=["t"])
    assert plan.epsilon_of() == plan.epsilon == 1.5
    assert [plan.epsilon_of(k, changes=None) for k in (0, 1, 7, None)] == [0, 1.5, 10.5, math.inf]
    assert plan.epsilon_of(7, keyed=True) == 1.5
    assert plan.epsilon_of(7, keyed=True, changes=2, **PUBLIC) == 4.5
    assert plan.epsilon_of(2, keyed=True, changes=1) == math.inf
    remembered = PrivacyPlan({"p": L_GRR, "q": L_GRR})
    for known in ({}, {"changes": 1}, {"changes": 1, **PUBLIC}):
        assert remembered.epsilon_of(4, **known) == pytest.approx(2 * L_GRR.epsilon_of(4, **known))
    assert remembered.epsilon_of(4) > 4 * remembered.epsilon  # they share permanent answers


def test_a_plan_has_one_key_for_all_columns():
    """So that a memoized mechanism makes the noise of the others keyed, whatever is said."""
    plan = PrivacyPlan({"p": L_GRR, "a": COIN})
    assert plan.memoized
    assert plan.epsilon_of(9) == pytest.approx(L_GRR.epsilon_of(9) + 1)
    assert plan.epsilon_of(2, changes=1) == math.inf
    batch = pa.record_batch({"p": [1, 1], "a": ["a", "a"], "id": [7, 7]})
    key = Secret.from_seed(1)
    twice = [plan.perturb(batch, key=key, id=batch["id"])["a"].to_pylist() for _ in range(3)]
    assert len({report for reports in twice for report in reports}) == 1


def test_of_columns_of_which_a_record_answers_one_the_worst_counts():
    for made in (SampledColumn, FakeDataColumn):
        plan = PrivacyPlan({"a": made(COIN, columns=2), "b": made(BITS, columns=2), "c": COIN})
        assert plan.epsilon_of(5) == 10
        assert plan.epsilon_of(5, keyed=True) == 2
        plan = PrivacyPlan({"p": made(L_GRR, columns=2), "a": made(COIN, columns=2)})
        assert plan.epsilon_of(2) == max(1.0, L_GRR.epsilon_of(2))
        assert plan.epsilon_of(9) == L_GRR.epsilon_of(9)
        assert plan.epsilon_of(2, changes=1) == math.inf


# ---- columns of which a record answers one, under keyed noise: two records of a person

DRAWN = {
    "sampled": PrivacyPlan({name: SampledColumn(COIN, columns=2) for name in "xy"}),
    "fake": PrivacyPlan({name: FakeDataColumn(COIN, columns=2, fake="uniform") for name in "xy"}),
}
PAIRS = list(itertools.product(AB, repeat=2))
HISTORIES = list(itertools.product(PAIRS, repeat=2))
NOTHING = ("-", "-")


def answered(reports, values):
    """Of the column that a person answers: an answer is permanent, and so the same if the value is."""
    if "-" in reports:
        return 0
    p = COIN.support_probabilities()[0][0]
    chances = [p if r == v else 1 - p for r, v in zip(reports, values, strict=True)]
    return math.prod(chances) if values[0] != values[1] else chances[0] * (reports[0] == reports[1])


def other(kind, reports):
    """Of the other column: null, or a permanent fake."""
    return Fraction(reports == NOTHING) if kind == "sampled" else Fraction(reports[0] == reports[1], 2)


def chance(kind, reports, history):
    (x, y), (of_x, of_y) = reports, history
    return (answered(x, of_x) * other(kind, y) + other(kind, x) * answered(y, of_y)) / 2


def outcomes(kind):
    return list(itertools.product([*PAIRS, *([NOTHING] if kind == "sampled" else [])], repeat=2))


def check_drawn(kind, n=15_000):
    for x, y in HISTORIES[::5]:
        batch = pa.record_batch({"x": list(x) * n, "y": list(y) * n, "id": np.repeat(np.arange(n), 2)})
        made = DRAWN[kind].perturb(batch, key=Secret.from_seed(1), id=batch["id"])
        both = np.array([made[c].fill_null("-").to_pylist() for c in "xy"]).reshape(2, n, 2)
        found = [(both == np.array(o)[:, None]).all(axis=(0, 2)).sum() for o in outcomes(kind)]
        assert sum(found) == n
        check_binomial(np.array(found), n, [float(chance(kind, o, (x, y))) for o in outcomes(kind)])


@each("kind", DRAWN)
def test_drawn_columns_spend_what_their_worst_does(kind):
    check_drawn(kind)
    same = [(a, b) for a in HISTORIES for b in HISTORIES if [x == y for x, y in a] == [x == y for x, y in b]]
    pairs = [(chance(kind, o, a), chance(kind, o, b)) for a, b in same for o in outcomes(kind)]
    worst = max(math.log(a / b) for a, b in pairs if a)
    assert worst <= DRAWN[kind].epsilon_of(2, keyed=True, changes=1, **PUBLIC) == pytest.approx(2.0)


def test_explain_says_what_a_person_spends():
    _, table, _ = PrivacyPlan({"a": COIN}).explain(100).split("\n\n")  # errors; a person; what anybody learns
    assert table == (
        "records of one person  1  10  100  any number\n"
        "epsilon together       1  10  100    no bound"
    )  # fmt: skip
    _, table, _ = PrivacyPlan({"a": COIN}).explain(100, keyed=True).split("\n\n")
    assert [line.split("  ", 1)[1].split() for line in table.splitlines()[1:]] == [
        ["1", "1", "1", "1"],
        ["1", "no", "bound", "no", "bound", "no", "bound"],
        ["1", "10", "100", "no", "bound"],
    ]
    text = PrivacyPlan({"p": L_GRR}).explain(100)
    assert f"{L_GRR.epsilon_of(10):.4g}" in text
    assert f"{L_GRR.epsilon_of(100, changes=None):.4g}" in text
    fake = PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1.0)
    assert "a person answers is seen" in fake.explain(100, keyed=True).replace("\n  ", " ")
    assert "a person answers is seen" not in fake.explain(100)


# ---- plain words, and what shuffled records spend


WORDS_COIN, WORDS_BITS = RandomizedResponse(epsilon=1.0), UnaryEncoding(range(16), epsilon=2.0)
N, DELTA = 1_000, 1e-6


def test_one_column_is_its_mechanism():
    plan = PrivacyPlan({"x": WORDS_BITS}, keep=["day"])
    for rows in (True, False):
        assert plan.shuffled(N, DELTA, rows=rows) == WORDS_BITS.shuffled(N, DELTA, rows=rows)


def test_rows_of_several_columns_are_one_mechanism_of_their_epsilon():
    plan = PrivacyPlan({"x": WORDS_COIN, "y": WORDS_BITS})
    assert plan.shuffled(N, DELTA) == shuffled_epsilon(3.0, N, DELTA)
    apart = WORDS_COIN.shuffled(N, DELTA / 2) + WORDS_BITS.shuffled(N, DELTA / 2, rows=False)
    assert plan.shuffled(N, DELTA, rows=False) == pytest.approx(apart, rel=1e-4)
    assert plan.shuffled(N, DELTA, rows=False) < plan.shuffled(N, DELTA)


def test_columns_apart_add_up_to_no_more_than_the_rows():
    """Where hardly anything is amplified, the sum is larger: then the rows count."""
    plan = PrivacyPlan(dict.fromkeys("abcdefgh", WORDS_COIN))
    assert plan.shuffled(2, DELTA, rows=False) <= plan.shuffled(2, DELTA) <= plan.epsilon


@each("maker", [PrivacyPlan.sampled, PrivacyPlan.fake])
def test_columns_of_which_one_is_answered_are_one_mechanism(maker):
    plan = maker({"x": range(4), "y": range(3)}, epsilon=1.0)
    assert plan.shuffled(N, DELTA) == plan.shuffled(N, DELTA, rows=False) == shuffled_epsilon(1.0, N, DELTA)
    both = PrivacyPlan({**plan.columns, "z": WORDS_COIN})
    apart = WORDS_COIN.shuffled(N, DELTA / 2) + shuffled_epsilon(1.0, N, DELTA / 2)
    assert both.shuffled(N, DELTA, rows=False) == pytest.approx(apart, rel=1e-4)


@each("name", EVERY)
@pytest.mark.slow
def test_every_mechanism_gains_and_never_loses(name):
    m = EVERY[name]
    n, delta = 150, 1e-4
    bound, general = m.shuffled(n, delta), shuffled_epsilon(m.epsilon, n, delta)
    assert 0 < bound <= general <= m.epsilon
    assert bound < 0.95 * general or not m.two_levels


def test_a_seeded_plan_promises_nothing():
    plan = PrivacyPlan({"x": WORDS_COIN}, seed=1)
    with pytest.raises(PlanError, match="promises nothing"):
        plan.shuffled(N, DELTA)
    assert "equally likely" not in plan.explain(N)


@each(("n", "delta"), [(0, 0.1), (1.5, 0.1), (10, 0), (10, 2)])
def test_arguments_are_checked(n, delta):
    for plan in (PrivacyPlan({"x": WORDS_COIN}), PrivacyPlan({"x": WORDS_COIN, "y": WORDS_BITS})):
        with pytest.raises(ParameterError, match=r"^(n|delta) must be"):
            plan.shuffled(n, delta)


def lines(plan: PrivacyPlan, **options) -> list[str]:
    return [line for line in plan.explain(N, **options).replace("\n  ", " ").splitlines() if "equally likely" in line]


def percent(words: str) -> list[Fraction]:
    return [Fraction(number) / 100 for number in re.findall(r"([\d.]+) %", words)]


def test_what_explain_says():
    """One record; all reports of a person; shuffled; histograms: each with the guess that Bayes allows, rounded up."""
    plan = PrivacyPlan({"x": WORDS_BITS})
    total = total_epsilon(plan.epsilon, reports=3)
    record, person, pile, histogram = lines(plan, total=total, delta=DELTA)
    assert record.startswith("one record (epsilon 2): odds between two values change at most 7.39-fold")  # e^2 = 7.389
    assert person.startswith("all reports of a person (epsilon 6): odds between two values change at most 404-fold")
    spent, summed = (plan.shuffled(N, DELTA, rows=rows) for rows in (True, False))
    assert pile.startswith(f"{N:,} shuffled records (epsilon ")
    assert histogram.startswith(f"histograms of {N:,} shuffled records (epsilon ")
    assert "odds" not in histogram
    for line, epsilon, delta in (
        (record, 2.0, 0.0),
        (person, 6.0, 0.0),
        (pile, spent, DELTA),
        (histogram, summed, DELTA),
    ):
        without = [0.5, 1 / 16]
        bounds = [best_guess(epsilon, values=d, delta=delta) for d in (2, 16)]
        bounds = [bound for pair in zip(bounds, without, strict=True) for bound in pair]
        for said, bound in zip(percent(line), bounds, strict=True):
            assert bound <= said < bound + 0.0011
    assert lines(plan) == [record]


@each("memoized", [False, True])
def test_shuffled_reports_that_share_their_noise_hide_no_more_than_their_people(memoized):
    """400 keyed reports of 20 people are 20 reports: said was what 400 people spend, a quarter of that."""
    plan, n = PrivacyPlan({"x": L_GRR if memoized else WORDS_COIN}), 400
    for options in ({"repeats": 1.0}, {"repeats": 20.0}):
        text = plan.explain(n, keyed=not memoized, delta=DELTA, **options).replace("\n  ", " ")
        assert (f"histograms of {n} shuffled records" in text) == (options["repeats"] == 1)
        assert ("shuffled records: no bound, as those of a person share their noise" in text) == (
            options["repeats"] > 1
        )
    if not memoized:  # records of fresh noise hide each other
        assert f"histograms of {n} shuffled records" in plan.explain(n, delta=DELTA, repeats=20.0)
    with pytest.raises(ParameterError, match="delta must be"):
        plan.explain(n, keyed=True, delta=2.0, repeats=2.0)


def test_kept_columns_tell_shuffled_records_apart():
    """Only records that are alike in all of them hide each other: the words say so, as `PrivacyPlan.shuffled` does."""
    kept, none = (lines(PrivacyPlan({"x": WORDS_BITS}, keep=keep), delta=DELTA) for keep in (["day", "user"], []))
    assert kept[0] == none[0]
    said = f"{N:,} shuffled records that are alike in ['day', 'user'] (epsilon"
    assert [line.partition(said)[0] for line in kept[1:]] == ["", "histograms of "]
    assert [line.replace(" that are alike in ['day', 'user']", "") for line in kept] == none


def test_of_several_columns_two_values_are_guessed():
    [line] = lines(PrivacyPlan({"x": WORDS_COIN, "y": WORDS_BITS}))
    assert len(percent(line)) == 2  # with it and without
    assert line.startswith("one record (epsilon 3)")


def test_explain_of_what_is_beyond_all_bounds():
    for options, message in (({"total": -1.0}, "total must be"), ({"delta": 0.0}, "delta must be")):
        with pytest.raises(ParameterError, match=message):
            PrivacyPlan({"x": WORDS_COIN}).explain(N, **options)
    exact, rounded = (lines(PrivacyPlan({"x": WORDS_COIN}), delta=delta) for delta in (Fraction(1, 4), 0.25))
    assert exact == rounded
    plan = PrivacyPlan({name: UnaryEncoding([1, 2], epsilon=1e308) for name in "ab"})
    assert plan.epsilon == math.inf
    assert "one record (epsilon inf): there is no bound on what it tells" in plan.explain(100)
