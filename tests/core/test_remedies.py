"""What a new user of the core meets first: the error or the warning says what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ldp_core import Domain, LdpWarning, PlanError, PrivacyPlan, RandomizedResponse

from ..cases import each


def test_a_plan_with_one_epsilon_points_to_split():
    for columns in ({"os": ["ios", "web"]}, {"crashed": RandomizedResponse(epsilon=1.0)}):
        with pytest.raises(PlanError, match=r"PrivacyPlan\.split\(columns, epsilon=\)"):
            PrivacyPlan(columns, epsilon=1.0)
    with pytest.raises(PlanError, match=r"PrivacyPlan\.split\(columns, epsilon=\)"):
        PrivacyPlan({"os": ["ios", "web"]})
    with pytest.raises(PlanError, match=r"got str: .*from_toml"):
        PrivacyPlan("plan.toml")


def test_a_domain_of_data_warns():
    with pytest.warns(LdpWarning, match="Declare the labels"):
        assert Domain(np.unique(["b", "a", "b"])).size == 2


@each("declared", [["b", "a"], ("b", "a"), range(3), np.arange(3), (c for c in "ab")])
def test_a_declared_domain_does_not(declared):
    with warnings.catch_warnings(action="error"):
        Domain(declared)
