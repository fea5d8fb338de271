"""What the tests of ldp_polars share: mechanisms, records, dtypes, processes."""

import datetime as dt
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest

from ldp_core import Domain, Mechanism, RandomizedResponse, UnaryEncoding
from ldp_core.estimates.histogram import ENTRY


def some(params: Iterable[str], *default: str) -> list[Any]:
    """Parameters, of which all but the ``default`` ones are slow."""
    return [name if name in default else pytest.param(name, marks=pytest.mark.slow) for name in params]


def groups(params: Iterable[str], *default: str) -> list[Any]:
    """Two parameters, for a loop in a test: the ``default`` names and, slow, all others."""
    others = [name for name in params if name not in default]
    return [pytest.param(default, id="some"), pytest.param(others, id="others", marks=pytest.mark.slow)]


N = 300
XYZ = ["x", "y", "z"]

FRAME = pl.DataFrame(
    {
        "e": pl.Series([XYZ[i % 3] for i in range(N)], dtype=pl.Enum(XYZ)),
        "f": pl.Series([XYZ[i % 2] for i in range(N)], dtype=pl.Enum(XYZ)),
        "b": [i % 2 == 0 for i in range(N)],
        "i": list(range(N)),
        "day": [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(N - 1)] + [None],
    }
)
"""Columns whose dtype declares a domain, and others."""
STRINGS = ["ios", "android", "web"]

MECHANISMS = {
    "rr bool": RandomizedResponse(epsilon=1.0),
    "rr coins": RandomizedResponse.from_coins(truth=0.4, yes=0.3),
    "rr bool other": RandomizedResponse(Domain([True, False], unmatched="other"), epsilon=1.0),
    "rr str": RandomizedResponse(STRINGS, epsilon=2.0),
    "rr str other": RandomizedResponse(Domain(STRINGS, unmatched="other"), epsilon=2.0),
    "rr int": RandomizedResponse([7, -3, 2**40], epsilon=2.0),
    "rr int other": RandomizedResponse(Domain([1, 2, 3], unmatched="other"), epsilon=2.0),
    "oue str": UnaryEncoding(STRINGS, epsilon=1.0),
    "sue bool": UnaryEncoding([False, True], epsilon=1.0, variant="symmetric"),
    "oue int none": UnaryEncoding(Domain(range(70), unmatched="none"), epsilon=1.0),
    "oue str other": UnaryEncoding(Domain(STRINGS, unmatched="other"), epsilon=1.0),
    "ue p q": UnaryEncoding.from_probabilities(range(8), p=0.75, q=0.1),
    "oue 1": UnaryEncoding(Domain(["x"], unmatched="other"), epsilon=1.0),
}

FEW = ["rr coins", "rr str other", "rr int", "oue str", "oue int none"]


def records(mechanism: Mechanism, n: int, seed: int = 0) -> pl.DataFrame:
    """n records: a value column, a group, an order, a condition; unmatched values where the domain allows them."""
    rng = np.random.default_rng(seed)
    domain = mechanism.domain
    labels = list(domain.labels) + ([None] if domain.unmatched != "error" else [])
    return pl.DataFrame(
        {
            "x": [labels[i] for i in rng.integers(0, len(labels), n)],
            "g": rng.integers(0, 3, n),
            "i": np.arange(n),
            "c": rng.random(n) < 0.5,
        },
        schema_overrides={"x": {"str": pl.String, "int": pl.Int64, "bool": pl.Boolean}[domain.kind]},
    )


def histogram_dtype(mechanism: Mechanism) -> pl.DataType:
    """Of an estimated histogram: values that are tallied with an "other" are text."""
    domain = mechanism.domain
    kinds = {"str": pl.String, "int": pl.Int64, "bool": pl.Boolean}
    value = pl.String if "other" in domain.values else kinds[domain.kind]
    fields = {**dict.fromkeys(ENTRY, pl.Float64), "value": value, "n": pl.Int64}
    return pl.List(pl.Struct(fields))


def child(code, *arguments, **environment):
    """Run ``code`` in a fresh interpreter, in which cloudpickle cannot be imported; what it prints."""
    preamble = "import sys; sys.modules['cloudpickle'] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", preamble + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
