"""Polars expressions for local differential privacy.

Importing this module registers the ``.ldp`` namespace on expressions, DataFrames and LazyFrames. The
same operations are typed functions here, which type checkers and completion see.
"""

from ldp_polars import _compat as _compat
from ldp_polars import namespace as namespace
from ldp_polars.columns import Report
from ldp_polars.comparing import compare
from ldp_polars.estimating import (
    cdf,
    distribution,
    estimate,
    heavy_hitters,
    histogram,
    mean,
    median,
    quantiles,
    range,  # noqa: A004 (as a method it is .ldp.range)
)
from ldp_polars.frames import estimates, explain, histograms, perturb_frame, simulate
from ldp_polars.namespace import ldp
from ldp_polars.noise import NoiseOptions
from ldp_polars.persons import bound
from ldp_polars.perturbing import perturb, randomized_response, unary_encode
from ldp_polars.planned import read_plan, sink_parquet
from ldp_polars.pooling import pool
from ldp_polars.tables import table
from ldp_polars.tallying import merge, suspicious, tally
from ldp_polars.weighing import linear_fit, navigation_timing, ratio, total, weight, weighted_mean, weighted_quantiles
from ldp_polars.windows import window_start

__all__ = [
    "NoiseOptions",
    "Report",
    "bound",
    "cdf",
    "compare",
    "distribution",
    "estimate",
    "estimates",
    "explain",
    "heavy_hitters",
    "histogram",
    "histograms",
    "ldp",
    "linear_fit",
    "mean",
    "median",
    "merge",
    "navigation_timing",
    "perturb",
    "perturb_frame",
    "pool",
    "quantiles",
    "randomized_response",
    "range",
    "ratio",
    "read_plan",
    "simulate",
    "sink_parquet",
    "suspicious",
    "table",
    "tally",
    "total",
    "unary_encode",
    "weight",
    "weighted_mean",
    "weighted_quantiles",
    "window_start",
]
