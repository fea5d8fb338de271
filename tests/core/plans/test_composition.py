"""What several reports of one person spend under a plan."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    FakeDataColumn,
    LongitudinalRandomizedResponse,
    PrivacyPlan,
    RandomizedResponse,
    SampledColumn,
    Secret,
    UnaryEncoding,
)
from ldp_core.plans.drawn import DrawnColumns

from ...cases import each
from ..checks import check_binomial
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


def test_a_column_drawn_anew_is_found(monkeypatch):
    monkeypatch.setattr(DrawnColumns, "draw", lambda self, n, keyed, tag=None: np.arange(n) % 2)
    for kind in DRAWN:
        with pytest.raises(AssertionError):
            check_drawn(kind)


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
