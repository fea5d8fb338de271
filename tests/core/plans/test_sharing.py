"""Ways to share one epsilon over several columns: what they spend, how plans travel, what is refused."""

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_core import (
    Dates,
    FakeDataColumn,
    Interval,
    Mechanism,
    MedianEstimate,
    ParameterError,
    PlanError,
    PrivacyPlan,
    SampledColumn,
    UnaryEncoding,
)
from ldp_core.plans.compare import compare

from ...cases import each
from ..checks import exact_exp
from .helpers import AB, ABC, answered, grr, oue


def test_splitting_spends_no_more_than_was_asked():
    plan = PrivacyPlan.split({"a": AB, "b": ABC, "c": range(40)}, epsilon=1.0)
    assert [m.epsilon for m in plan.columns.values()] == [float(Fraction(1, 3))] * 3
    weighed = PrivacyPlan.split({"a": AB, "b": ABC}, epsilon=2, weights={"a": 3})
    assert [m.epsilon for m in weighed.columns.values()] == [1.5, 0.5]
    given = PrivacyPlan.split({"a": grr(AB, 0.25), "b": ABC, "c": AB}, epsilon=1.25)
    assert [m.epsilon for m in given.columns.values()] == [0.25, 0.5, 0.5]
    assert given["a"] == grr(AB, 0.25)
    assert PrivacyPlan.split({"a": AB}, epsilon=1.0)["a"] == grr(AB)


@given(st.floats(1e-3, 50), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9))
@settings(max_examples=60)
def test_the_parts_of_a_split_add_up_to_no_more(epsilon, weights):
    """Whichever mechanism is chosen: the choice, which takes long, is fixed."""
    names = [f"c{i}" for i in range(len(weights))]
    try:
        with patch("ldp_core.plans.sharing._best", grr):
            plan = PrivacyPlan.split(
                dict.fromkeys(names, AB), epsilon=epsilon, weights=dict(zip(names, weights, strict=True))
            )
    except PlanError:
        return
    assert sum(Fraction(m.epsilon) for m in plan.columns.values()) <= Fraction(epsilon)
    assert epsilon * (1 - 1e-12) <= plan.epsilon <= epsilon
    product = math.prod((m.worst_ratio() for m in plan.columns.values()), start=Fraction(1))
    assert product <= exact_exp(epsilon)


@pytest.mark.slow
def test_columns_of_many_ordered_values_are_collected_so_that_they_have_a_median():
    months = Dates(date(1900, 1, 1), date(2000, 1, 1), every="1mo")
    for epsilon in (0.5, 2.0, 5.0):
        for plan, true in (
            (PrivacyPlan.split({"a": months}, epsilon=epsilon), date(1975, 1, 1)),
            (PrivacyPlan.sampled({"a": range(1200), "b": AB}, epsilon=epsilon), 900),
        ):
            tally = plan["a"].simulate(np.where(np.arange(1200) == 900, 20_000, 10), seed=1)
            found = MedianEstimate().result(plan["a"], tally)
            assert found.low <= true <= found.high


def test_what_is_shared_may_be_any_number_and_nothing_else():
    """A tenth, as a fraction, is not the float: sampled and fake plans were refused as more than was asked."""
    ways = (PrivacyPlan.split, PrivacyPlan.sampled, PrivacyPlan.fake, PrivacyPlan.pairs)
    for way in ways:
        for tenth in (Fraction(1, 10), Decimal("0.1"), np.array(0.1)):
            assert way({"a": AB, "b": ABC}, epsilon=tenth) == way({"a": AB, "b": ABC}, epsilon=0.1)
        for columns in ([AB, ABC], None, "ab", {5: AB, "b": ABC}):
            with pytest.raises(PlanError, match="columns have names"):
                way(columns, epsilon=1.0)
    thirds = ({"a": kind("0.1"), "b": kind("0.3")} for kind in (Fraction, Decimal))  # the floats are not 1 to 3
    assert len({PrivacyPlan.split({"a": AB, "b": AB}, epsilon=4.0, weights=w).fingerprint for w in thirds}) == 1
    with pytest.raises(PlanError, match=r"spend epsilon = 9\.0 of 1\.0"):
        PrivacyPlan.split({"a": grr(AB, 9), "b": AB}, epsilon=Decimal(1))
    for weights in ({"a": "3"}, {"a": None}, {"a": 10**400}, {"a": 0}, {"a": math.nan}, [3, 1], {"c": 1}, {1: 1}):
        with pytest.raises(PlanError, match="weights"):
            PrivacyPlan.split({"a": AB, "b": ABC}, epsilon=1.0, weights=weights)
    with pytest.raises(PlanError, match="priors are a mapping"):
        PrivacyPlan.fake({"a": AB, "b": ABC}, epsilon=1.0, priors=[1, 1])


def test_epsilon_of_mixed_plans():
    drawn = PrivacyPlan.sampled({"x": AB, "y": grr(ABC, 0.5)}, epsilon=1.0)
    plan = PrivacyPlan({"b": oue(AB, 0.25), **drawn.columns, "a": grr(AB, 2.0)}, keep=["t"])
    assert drawn.epsilon == 1.0
    assert plan.epsilon == 3.25
    batch = pa.record_batch(dict.fromkeys("abxy", AB * 500) | {"t": range(1000)})
    reports = plan.perturb(batch)
    assert reports.schema.names == ["b", "x", "y", "a", "t"]
    assert [all(answered(reports[c])) for c in "bxya"] == [True, False, False, True]
    assert sum(answered(reports["x"])) + sum(answered(reports["y"])) == 1000
    assert list(plan.oracles) == ["b", "x", "y", "a"]


BAD = {
    "no columns": (lambda: PrivacyPlan.sampled({}, epsilon=1), "at least two"),
    "one column": (lambda: PrivacyPlan.fake({"x": AB}, epsilon=1), "at least two"),
    "epsilon": (lambda: PrivacyPlan.sampled({"x": AB, "y": AB}, epsilon=0), r"\(0, inf\)"),
    "split epsilon": (lambda: PrivacyPlan.split({"x": AB}, epsilon=math.inf), r"\(0, inf\)"),
    "too much": (lambda: PrivacyPlan.sampled({"x": AB, "y": grr(AB, 2.0)}, epsilon=1), "more than 1"),
    "nothing left": (lambda: PrivacyPlan.split({"x": AB, "y": grr(AB, 2.0)}, epsilon=2), "none is left"),
    "weight": (lambda: PrivacyPlan.split({"x": AB, "y": AB}, epsilon=1, weights={"x": 0}), r"\(0, inf\)"),
    "weights": (lambda: PrivacyPlan.split({"x": AB}, epsilon=1, weights={"z": 1}), "no such columns"),
    "domain": (lambda: PrivacyPlan.split({"x": ["a"]}, epsilon=1), "column 'x': .*two values"),
    "priors": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"z": [1]}), "no such columns"),
    "prior size": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"x": [1]}), "each of the 2"),
    "prior of": (
        lambda: PrivacyPlan.fake({"x": [False, True], "y": AB}, epsilon=1, priors={"x": {False: 9, True: 1}}),
        "list of",
    ),
    "prior sign": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"x": [1, -1]}), "weights"),
    "prior zero": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"x": [0, 0]}), "weights"),
    "prior nan": (lambda: PrivacyPlan.fake({"x": AB, "y": AB}, epsilon=1, priors={"x": [1, math.nan]}), "weights"),
    "no oracle": (lambda: SampledColumn(Interval(0, 1), columns=2), "frequency oracle"),
    "nested": (lambda: SampledColumn(SampledColumn(grr(AB), columns=2), columns=2), "frequency oracle"),
    "count": (lambda: SampledColumn(grr(AB), columns=1), r"\[2, 65535\]"),
    "bool": (lambda: FakeDataColumn(grr(AB), columns=True), r"\[2, 65535\]"),
    "fake": (lambda: FakeDataColumn(grr(AB), columns=2, fake="x"), '"uniform" or "none"'),
    "no none": (lambda: FakeDataColumn(grr(AB), columns=2, fake="none"), "no report of no value"),
    "both": (lambda: FakeDataColumn(oue(AB), columns=2, fake="none", prior=[1, 1]), "not both"),
    "answer": (lambda: Mechanism.from_dict({"mechanism": "sampled_column", "columns": 2, "domain": AB}), "answer"),
    "n": (lambda: compare({"x": AB, "y": AB}, 1.0, 0), "at least 1"),
    "explain": (lambda: PrivacyPlan({"v": oue(AB)}).explain(1.5), "n must be an integer, at least 0"),
}


@each("name", BAD)
def test_bad_parameters_are_refused(name):
    attempt, message = BAD[name]
    with pytest.raises((ParameterError, PlanError), match=message):
        attempt()


def test_sampled_joint_columns_beat_a_split_by_the_promised_factors():
    """V(1 / D)^2 over V(1) D (D - 1) / 2, V being OUE's (Wang et al., 2017): the table in docs/tables.md."""
    for columns, times in ((3, 115), (5, 270), (10, 964)):
        pairs = columns * (columns - 1) // 2
        joint = UnaryEncoding(range(12), epsilon=1.0)
        plan = PrivacyPlan.sampled({str(k): joint for k in range(pairs)}, epsilon=1.0)
        split = UnaryEncoding(range(4), epsilon=1 / columns).variance(1)
        assert plan.epsilon <= 1.0
        assert round(split**2 / plan["0"].variance(1)) == times
