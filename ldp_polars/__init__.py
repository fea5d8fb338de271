"""Polars expressions for local differential privacy.

Importing this module registers the ``.ldp`` namespace on expressions, DataFrames and LazyFrames. The
same operations are typed functions here, which type checkers and completion see.
"""

from ldp_polars import namespace as namespace
from ldp_polars.functions import (
    estimate,
    histogram,
    merge,
    perturb,
    perturb_frame,
    randomized_response,
    tally,
    unary_encode,
)
from ldp_polars.noise import NoiseOptions

__all__ = [
    "NoiseOptions",
    "estimate",
    "histogram",
    "merge",
    "perturb",
    "perturb_frame",
    "randomized_response",
    "tally",
    "unary_encode",
]
