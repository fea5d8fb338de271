"""Plans in plain words, and what their shuffled records spend."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from ldp_core import (
    FrequencyOracle,
    Mechanism,
    ParameterError,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    UnaryEncoding,
    best_guess,
    shuffled_epsilon,
    total_epsilon,
)

from ...cases import each
from ..examples import EVERY

COIN, BITS = RandomizedResponse(epsilon=1.0), UnaryEncoding(range(16), epsilon=2.0)
N, DELTA = 1_000, 1e-6


def test_one_column_is_its_mechanism():
    plan = PrivacyPlan({"x": BITS}, keep=["day"])
    assert plan.shuffled(N, DELTA) == plan.shuffled(N, DELTA, rows=False) == BITS.shuffled(N, DELTA)


def test_rows_of_several_columns_are_one_mechanism_of_their_epsilon():
    plan = PrivacyPlan({"x": COIN, "y": BITS})
    assert plan.shuffled(N, DELTA) == shuffled_epsilon(3.0, N, DELTA)
    apart = COIN.shuffled(N, DELTA / 2) + BITS.shuffled(N, DELTA / 2)
    assert plan.shuffled(N, DELTA, rows=False) == pytest.approx(apart, rel=1e-4)
    assert plan.shuffled(N, DELTA, rows=False) < plan.shuffled(N, DELTA)


def test_columns_apart_add_up_to_no_more_than_the_rows():
    """Where hardly anything is amplified, the sum is larger: then the rows count."""
    plan = PrivacyPlan(dict.fromkeys("abcdefgh", COIN))
    assert plan.shuffled(2, DELTA, rows=False) <= plan.shuffled(2, DELTA) <= plan.epsilon


@each("maker", [PrivacyPlan.sampled, PrivacyPlan.fake])
def test_columns_of_which_one_is_answered_are_one_mechanism(maker):
    plan = maker({"x": range(4), "y": range(3)}, epsilon=1.0)
    assert plan.shuffled(N, DELTA) == plan.shuffled(N, DELTA, rows=False) == shuffled_epsilon(1.0, N, DELTA)
    both = PrivacyPlan({**plan.columns, "z": COIN})
    apart = COIN.shuffled(N, DELTA / 2) + shuffled_epsilon(1.0, N, DELTA / 2)
    assert both.shuffled(N, DELTA, rows=False) == pytest.approx(apart, rel=1e-4)


@each("name", EVERY)
def test_every_mechanism_gains_and_never_loses(name):
    m = EVERY[name]
    n, delta = 150, 1e-4
    bound, general = m.shuffled(n, delta), shuffled_epsilon(m.epsilon, n, delta)
    assert 0 < bound <= general <= m.epsilon
    assert bound < 0.95 * general or not m.two_levels


def test_a_seeded_plan_promises_nothing():
    plan = PrivacyPlan({"x": COIN}, seed=1)
    with pytest.raises(PlanError, match="promises nothing"):
        plan.shuffled(N, DELTA)
    assert "equally likely" not in plan.explain(N)


@each(("n", "delta"), [(0, 0.1), (1.5, 0.1), (10, 0), (10, 2)])
def test_arguments_are_checked(n, delta):
    for plan in (PrivacyPlan({"x": COIN}), PrivacyPlan({"x": COIN, "y": BITS})):
        with pytest.raises(ParameterError, match=r"^(n|delta) must be"):
            plan.shuffled(n, delta)


def lines(plan: PrivacyPlan, **options) -> list[str]:
    return [line for line in plan.explain(N, **options).replace("\n  ", " ").splitlines() if "equally likely" in line]


def percent(words: str) -> list[Fraction]:
    return [Fraction(number) / 100 for number in re.findall(r"([\d.]+) %", words)]


def test_what_explain_says():
    """One record; all reports of a person; histograms: each with the guess that Bayes allows, rounded up."""
    plan = PrivacyPlan({"x": BITS})
    total = total_epsilon(plan.epsilon, reports=3)
    record, person, histogram = lines(plan, total=total, delta=DELTA)
    assert record.startswith("one record (epsilon 2): odds between two values change at most 7.39-fold")  # e^2 = 7.389
    assert person.startswith("all reports of a person (epsilon 6): odds between two values change at most 404-fold")
    spent = plan.shuffled(N, DELTA)
    assert histogram.startswith(f"histograms of {N:,} shuffled records (epsilon ")
    assert "odds" not in histogram
    for line, epsilon, delta in ((record, 2.0, 0.0), (person, 6.0, 0.0), (histogram, spent, DELTA)):
        without = [0.5, 1 / 16]
        bounds = [best_guess(epsilon, values=d, delta=delta) for d in (2, 16)]
        bounds = [bound for pair in zip(bounds, without, strict=True) for bound in pair]
        for said, bound in zip(percent(line), bounds, strict=True):
            assert bound <= said < bound + 0.0011
    assert lines(plan) == [record]


def test_of_several_columns_two_values_are_guessed():
    [line] = lines(PrivacyPlan({"x": COIN, "y": BITS}))
    assert len(percent(line)) == 2  # with it and without
    assert line.startswith("one record (epsilon 3)")


def test_explain_checks_what_it_is_told():
    for options, message in (({"total": -1.0}, "total must be"), ({"delta": 0.0}, "delta must be")):
        with pytest.raises(ParameterError, match=message):
            PrivacyPlan({"x": COIN}).explain(N, **options)


def test_every_oracle_of_the_literature_s_two_levels_says_so():
    two = {type(m).__name__ for m in EVERY.values() if isinstance(m, Mechanism) and m.two_levels}
    assert two == {
        "BlockHadamardResponse",
        "HadamardResponse",
        "HybridProjectiveGeometryResponse",
        "LocalHashing",
        "ProjectiveGeometryResponse",
        "RandomizedResponse",
        "SubsetSelection",
        "ThresholdHistogramEncoding",
        "UnaryEncoding",
    }
    assert all(isinstance(m, FrequencyOracle) for m in EVERY.values() if m.two_levels)
