"""The files beside estimates, which say what they are of: written by the jobs, read by the report."""

from __future__ import annotations

import json

from ldp_core.plans.plan import PrivacyPlan

RESULTS = "results.json"
"""The file beside estimates that says which plan they are of: its text is that of `about`."""

DEAD_LETTERS = "dead_letters"
"""How a file of dead letters is called; it is there where they were counted, be there none."""


def about(plan: PrivacyPlan, confidence: float | None = None) -> str:
    """What the file `RESULTS` has: the plan, and the confidence of the intervals beside it, as JSON.

    >>> from ldp_core import RandomizedResponse
    >>> text = about(PrivacyPlan({"crashed": RandomizedResponse(epsilon=1.0)}), 0.95)
    >>> sorted(json.loads(text))
    ['confidence', 'plan']
    """
    return json.dumps({"plan": plan.to_dict(), "confidence": confidence}, indent=1) + "\n"
