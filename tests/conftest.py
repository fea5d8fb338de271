"""Hypothesis runs the same examples each time, unless HYPOTHESIS_PROFILE=search asks for new and more of them.

It does not look for the smallest example either, as tests of planted faults would have it do so each time: ask for
"search" when a property fails.
"""

import os

from hypothesis import HealthCheck, Phase, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
_ONCE = [Phase.explicit, Phase.generate]
settings.register_profile("repeatable", deadline=None, derandomize=True, phases=_ONCE, suppress_health_check=_SLOW)
settings.register_profile("search", deadline=None, max_examples=2000, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
