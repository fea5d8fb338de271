"""The public names, and where they are: `ldp_core.lazy` and type checkers read this file."""

from ldp_beam.elements.rows import (
    BooleanHistogramRow,
    DeadLetter,
    DistributionRow,
    HistogramRow,
    IntegerHistogramRow,
    MeanRow,
    text_row,
)
from ldp_beam.estimates.combine import EstimateCombineFn, HistogramCombineFn, TallyCombineFn
from ldp_beam.estimates.comparing import Compare
from ldp_beam.estimates.pooling import PoolCombineFn
from ldp_beam.estimates.ratio import RatioCombineFn
from ldp_beam.estimates.transforms import Estimate, Histogram, PrivateHistogram, PrivateTable, Table
from ldp_beam.persons.transforms import BoundContributions, Deduplicate, PrivacyLedger
from ldp_beam.perturb import Perturb, RandomizedResponse, UnaryEncode
from ldp_beam.time.triggers import AfterTallies

__all__ = [
    "AfterTallies",
    "BooleanHistogramRow",
    "BoundContributions",
    "Compare",
    "DeadLetter",
    "Deduplicate",
    "DistributionRow",
    "Estimate",
    "EstimateCombineFn",
    "Histogram",
    "HistogramCombineFn",
    "HistogramRow",
    "IntegerHistogramRow",
    "MeanRow",
    "Perturb",
    "PoolCombineFn",
    "PrivacyLedger",
    "PrivateHistogram",
    "PrivateTable",
    "RandomizedResponse",
    "RatioCombineFn",
    "Table",
    "TallyCombineFn",
    "UnaryEncode",
    "text_row",
]
