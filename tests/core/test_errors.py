"""Errors are made from one string, are pickled, and are kinds of the standard ones."""

import pickle
import warnings

import numpy as np
import pytest

import ldp_core
from ldp_core import (
    DBitFlip,
    Domain,
    Hybrid,
    LdpError,
    LdpWarning,
    LongitudinalUnaryEncoding,
    Mechanism,
    PlanError,
    PrivacyPlan,
    RandomizedResponse,
    Rappor,
    StochasticRounding,
    UnaryEncoding,
)

from ..cases import each

NAMED = (getattr(ldp_core, name) for name in ldp_core.__all__)
ERRORS = [e for e in NAMED if isinstance(e, type) and issubclass(e, LdpError)]


@each("error", ERRORS)
def test_errors_can_be_made_from_one_string_and_pickled(error):
    assert len(ERRORS) >= 8
    made = error("column 'x': no")
    assert str(made) == "column 'x': no"
    assert str(pickle.loads(pickle.dumps(made))) == str(made)
    assert type(made)(str(made)).args == made.args
    if error is not LdpError:
        assert issubclass(error, (ValueError, TypeError))


# ---- an epsilon that hides nothing


def warned(call):
    """What a call gives, and the warnings that it shows."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        return call(), shown


@each(
    "make",
    [
        lambda: RandomizedResponse(epsilon=20.5),
        lambda: UnaryEncoding(range(3), epsilon=50.0, variant="symmetric"),
        lambda: Hybrid((0, 1), epsilon=30.0),
        lambda: StochasticRounding((0, 1), epsilon=30.0),
        lambda: LongitudinalUnaryEncoding(range(4), epsilon_infinity=40.0, epsilon_1=30.0),
        lambda: DBitFlip(range(4), epsilon_infinity=30.0, bits=2),
        lambda: Rappor(bits=16, hashes=4, cohorts=4, f=0.0, p=0.001, q=0.999),
        lambda: PrivacyPlan.from_toml('columns.x = {mechanism = "hybrid", epsilon = 50, domain = {low = 0, high = 1}}'),
        lambda: PrivacyPlan.split({"a": range(3), "b": range(3)}, epsilon=50.0),
        lambda: PrivacyPlan.sampled({"a": range(3), "b": range(3)}, epsilon=50.0),
        lambda: PrivacyPlan.fake({"a": range(3), "b": range(3)}, epsilon=50.0),
    ],
)
def test_an_epsilon_above_twenty_warns_once_and_where_it_was_given(make):
    made, shown = warned(make)
    (warning,) = shown
    assert issubclass(warning.category, LdpWarning)
    assert str(warning.message).startswith("epsilon ")
    assert warning.filename == __file__
    again = [lambda: pickle.loads(pickle.dumps(made)), lambda: type(made).from_dict(made.to_dict())]
    assert [warned(read)[1] for read in again] == [[], []]


def test_usual_epsilons_do_not_warn():
    assert not warned(lambda: RandomizedResponse(epsilon=20.0))[1]
    assert not warned(lambda: PrivacyPlan.split({"a": range(3), "b": range(3)}, epsilon=8.0))[1]
    assert not warned(
        lambda: Mechanism.from_dict({"mechanism": "randomized_response", "epsilon": 99.0, "domain": [1, 2]})
    )[1]


# ---- what a new user meets first: the error or the warning says what to do


def test_a_plan_with_one_epsilon_points_to_split():
    for columns in ({"os": ["ios", "web"]}, {"crashed": RandomizedResponse(epsilon=1.0)}):
        with pytest.raises(PlanError, match=r"PrivacyPlan\.split\(columns, epsilon=\)"):
            PrivacyPlan(columns, epsilon=1.0)
    with pytest.raises(PlanError, match=r"PrivacyPlan\.split\(columns, epsilon=\)"):
        PrivacyPlan({"os": ["ios", "web"]})
    with pytest.raises(PlanError, match=r"got str: .*from_toml"):
        PrivacyPlan("plan.toml")


@each("declared", [["b", "a"], ("b", "a"), range(3), np.arange(3), np.array(["b", "a"]), (c for c in "ab")])
def test_a_declared_domain_does_not(declared):
    with warnings.catch_warnings(action="error"):
        Domain(declared)
