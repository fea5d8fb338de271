"""Beam transforms for local differential privacy: thin, over ``ldp_core``; batches first, single records too.

events  | Perturb(plan)                                   -> reports
reports | Estimate("age", mechanism, question, ...)       -> rows: the answer per window and key
events  | Estimate("age", mechanism, private=True, ...)   -> rows; the reports never leave memory
reports | Histogram("os", mechanism, window="1h", ...)    -> rows: one per window, key and value
events  | PrivateHistogram("os", mechanism, ...)          -> rows; the reports never leave memory
reports | Table(["os", "crashed"], plan, ...)             -> rows: one per combination of values

events  | Deduplicate("record_id", within="1h")           -> events, each once
events  | BoundContributions("user", 3, window="1d", ...) -> events, at most 3 per person per day
events  | PrivacyLedger(plan, id="user", budget=10)       -> events, no more than a person's budget pays for

Sources and sinks are in `ldp_beam.io`. The names are listed in `__init__.pyi`, and each is imported when it is first
used. So the options of the telemetry job are there without Beam. Where Beam is there already, its coders of batches are
registered now: a user's ``beam.Create(batches)`` may stand before the first of our names.
"""

import sys
from importlib import import_module

from ldp_core.engine import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

if sys.modules.get("apache_beam") is not None:
    import_module("ldp_beam.elements.coders")
