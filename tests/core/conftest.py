"""Hypothesis runs the same examples each time, unless HYPOTHESIS_PROFILE=search asks for new and more of them."""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=_SLOW)
settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
