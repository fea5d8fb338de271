"""Local differential privacy: mechanisms, exact randomness, tallies and histograms.

values -> Domain -> codes -> Mechanism.perturb -> reports -> tally -> Tally -> estimate -> Histogram

The names are listed in `__init__.pyi`, and each is imported when it is first used.
"""

from ldp_core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
