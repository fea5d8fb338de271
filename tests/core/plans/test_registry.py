"""Entries for the public registry of deployments."""

from __future__ import annotations

import pytest

from ldp_core import PlanError, PrivacyPlan, RandomizedResponse, UnaryEncoding

yaml = pytest.importorskip("yaml")

# of schemas/deployments-schema.yaml in opendp/deployments-registry-data at 3e9c812: what is required, and what may be
BASIC = {
    "name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
    "publication_date",
}  # fmt: skip
PARTS = {"basic", "dp_variant", "privacy_loss", "deployment_model", "accounting", "implementation", "administrative"}


@pytest.fixture
def plan():
    odd = 'a"b: c\n\x85\u2028\x1b\U0001f600'
    columns = {"os": UnaryEncoding(["a", "b"], epsilon=2.0), odd: RandomizedResponse(epsilon=0.1)}
    return PrivacyPlan(columns, keep=["day", "# no comment"])


def test_an_entry_has_what_the_registry_requires(plan):
    found = yaml.safe_load(plan.registry_entry())
    assert found.keys() == {"url_slug", "status", "tier", "deployment"}
    assert found["status"] == "Draft"
    deployment = found["deployment"]
    assert deployment["basic"].keys() == BASIC
    assert deployment.keys() <= PARTS


def test_an_entry_says_what_the_plan_promises(plan):
    deployment = yaml.safe_load(plan.registry_entry())["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["deployment_model"] == {"model_name": "Local"}
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": plan.epsilon}
    assert deployment["privacy_loss"]["privacy_unit"] == "Event-level"
    assert deployment["dp_variant"]["unprotected_quantities"].endswith("as they are: day, # no comment.")
    assert deployment["implementation"]["mechanisms"].split("\n") == [
        "- os: unary_encoding, epsilon 2", '- a"b: c', "\x85\u2028\x1b\U0001f600: randomized_response, epsilon 0.1"
    ]  # fmt: skip


def test_a_seeded_plan_has_none(plan):
    with pytest.raises(PlanError, match="a plan with a seed is not private"):
        plan.seeded(1).registry_entry()
