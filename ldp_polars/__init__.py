"""Polars expressions for local differential privacy.

Importing this module registers the ``.ldp`` namespace on expressions, DataFrames and LazyFrames. The
same operations are typed functions here, which type checkers and completion see.
"""

from ldp_polars import namespace as namespace
from ldp_polars.frames import explain, histograms, perturb_frame, read_plan, sink_parquet
from ldp_polars.functions import (
    estimate,
    histogram,
    merge,
    perturb,
    randomized_response,
    tally,
    unary_encode,
)
from ldp_polars.noise import NoiseOptions
from ldp_polars.numbers import distribution, estimate_distribution, estimate_mean, mean
from ldp_polars.search import find as find_heavy_hitters
from ldp_polars.search import heavy_hitters
from ldp_polars.typed import Report

__all__ = [
    "NoiseOptions",
    "Report",
    "distribution",
    "estimate",
    "estimate_distribution",
    "estimate_mean",
    "explain",
    "find_heavy_hitters",
    "heavy_hitters",
    "histogram",
    "histograms",
    "mean",
    "merge",
    "perturb",
    "perturb_frame",
    "randomized_response",
    "read_plan",
    "sink_parquet",
    "tally",
    "unary_encode",
]
