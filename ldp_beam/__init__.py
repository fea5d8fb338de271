"""Beam transforms for local differential privacy: thin, over ``ldp_core``; batches first, single records too.

events  | Perturb(plan)                                   -> reports
reports | Histogram("os", mechanism, window="1h", ...)    -> rows: one per window, key and value
events  | PrivateHistogram("os", mechanism, ...)          -> rows; the reports never leave memory
reports | Mean("seconds", mechanism, window="1h", ...)    -> rows: one per window and key
reports | Distribution("age", mechanism, buckets=20, ...) -> rows: one per window, key and bucket
reports | HeavyHitters("word", mechanism, k=20, ...)      -> rows: the most frequent of values that nobody listed

events  | Deduplicate("record_id", within="1h")           -> events, each once
events  | BoundContributions("user", 3, window="1d", ...) -> events, at most 3 a person and day
events  | PrivacyLedger(plan, id="user", budget=10)       -> events, no more than a person's budget pays for

Sources and sinks are in `ldp_beam.io`.
"""

from ldp_beam.elements.rows import (
    BooleanHistogramRow,
    DeadLetter,
    DistributionRow,
    HistogramRow,
    IntegerHistogramRow,
    MeanRow,
    text_row,
)
from ldp_beam.estimates.combine import HistogramCombineFn, TallyCombineFn
from ldp_beam.estimates.transforms import (
    Distribution,
    Estimate,
    HeavyHitters,
    Histogram,
    Mean,
    PrivateDistribution,
    PrivateHeavyHitters,
    PrivateHistogram,
    PrivateMean,
)
from ldp_beam.persons.transforms import BoundContributions, Deduplicate, PrivacyLedger
from ldp_beam.perturb import Perturb, RandomizedResponse, UnaryEncode
from ldp_beam.time.triggers import AfterTallies

__all__ = [
    "AfterTallies",
    "BooleanHistogramRow",
    "BoundContributions",
    "DeadLetter",
    "Deduplicate",
    "Distribution",
    "DistributionRow",
    "Estimate",
    "HeavyHitters",
    "Histogram",
    "HistogramCombineFn",
    "HistogramRow",
    "IntegerHistogramRow",
    "Mean",
    "MeanRow",
    "Perturb",
    "PrivacyLedger",
    "PrivateDistribution",
    "PrivateHeavyHitters",
    "PrivateHistogram",
    "PrivateMean",
    "RandomizedResponse",
    "TallyCombineFn",
    "UnaryEncode",
    "text_row",
]
