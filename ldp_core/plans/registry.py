"""What a plan says of itself in a public registry of deployments of differential privacy.

The form is that of the registry that OpenDP keeps, as it was on 2026-07-15 (opendp/deployments-registry-data, commit
3e9c812, ``schemas/deployments-schema.yaml``): the registry by E. Ghazi, P. Nanayakkara and S. Vadhan.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ldp_core.mechanism import Mechanism
from ldp_core.tables import visible

_OWN = "(to be written)"


def entry(columns: Sequence[tuple[str, Mechanism]], keep: Sequence[str], epsilon: float) -> str:
    """`PrivacyPlan.registry_entry`."""
    kept = "" if not keep else f" The columns that are kept as they are: {', '.join(keep)}."
    used = "\n".join(f"- {name}: {m.name}, epsilon {m.epsilon:.6g}" for name, m in columns)
    found: dict[str, Any] = {
        "url_slug": _OWN,
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": {
                "name": _OWN,
                "data_curators": [_OWN],
                "intended_use": _OWN,
                "data_product_type": "Summary statistics",
                "data_product_region": _OWN,
                "description": _OWN,
                "publication_date": _OWN,
            },
            "dp_variant": {
                "variant_name": "Pure DP",
                "unprotected_quantities": f"How many reports there are, when they come, and from whom.{kept}",
            },
            "privacy_loss": {
                "privacy_unit": "Event-level",
                "privacy_unit_details": "One record with any values. If a person sends k records with fresh noise, "
                "they spend k times epsilon together.",
                "privacy_parameters": {"epsilon": epsilon},
            },
            "deployment_model": {"model_name": "Local"},
            "implementation": {"mechanisms": used},
        },
    }
    return "\n".join(["# In place of each (to be written) comes text that is yours alone.", *_yaml(found, "")]) + "\n"


def _yaml(found: dict[str, Any], indent: str) -> list[str]:
    """Lines of YAML: scalars and lists are JSON, which is YAML too, but for what breaks a line there."""
    lines = []
    for name, value in found.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_yaml(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {visible(json.dumps(value, ensure_ascii=False))}")
    return lines
