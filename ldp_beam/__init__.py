"""Beam transforms for local differential privacy: thin, over ``ldp_core``; batches first, single records too.

events  | Perturb(plan)                                   -> reports
reports | Histogram("os", mechanism, window="1h", ...)    -> rows: one per window, key and value
events  | PrivateHistogram("os", mechanism, ...)          -> rows; the reports never leave memory
"""

from ldp_beam.coders import RecordBatchCoder, TallyCoder
from ldp_beam.combine import HistogramCombineFn
from ldp_beam.histogram import Histogram, PrivateHistogram
from ldp_beam.perturb import Perturb, RandomizedResponse, UnaryEncode
from ldp_beam.rows import DeadLetter, HistogramRow

__all__ = [
    "DeadLetter",
    "Histogram",
    "HistogramCombineFn",
    "HistogramRow",
    "Perturb",
    "PrivateHistogram",
    "RandomizedResponse",
    "RecordBatchCoder",
    "TallyCoder",
    "UnaryEncode",
]
