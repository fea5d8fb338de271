"""What the tests of ldp_polars share: engines, a spy on the noise, independent arithmetic, exact binomial checks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

import ldp_polars
from ldp_core import Mechanism
from ldp_polars import columns, perturbing

ALPHA = 1e-9
"""Probability of a false alarm of one statistical check, all its comparisons together (about 6 standard errors)."""

ENGINES = ["eager", "in-memory", "streaming", "sink_parquet", "sink_ipc"]


@pytest.fixture(params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture
def run(engine, tmp_path):
    """run(frame, transform): the DataFrame that ``transform`` makes of ``frame`` on one of the engines."""

    def runner(frame, transform):
        if engine == "eager":
            return transform(frame.lazy().collect())
        query = transform(frame.lazy())
        if engine in ("in-memory", "streaming"):
            return query.collect(engine=engine)
        path = tmp_path / "out"
        if engine == "sink_parquet":
            query.sink_parquet(path)
            return pl.read_parquet(path)
        query.sink_ipc(path)
        return pl.read_ipc(path)

    return runner


@pytest.fixture
def draws(monkeypatch):
    """The number of rows of each call of the perturbing function, in order."""
    calls = []
    original = perturbing.Perturb.__call__

    def spy(self, inputs, return_dtype=None):
        calls.append(len(inputs[1]))
        return original(self, inputs, return_dtype)

    monkeypatch.setattr(perturbing.Perturb, "__call__", spy)
    return calls


def _unlikely(k, n, p, alpha=ALPHA):
    """Whether k successes in n trials are further out than ``alpha`` allows, exactly, for arrays too."""
    k, n, p = np.broadcast_arrays(np.asarray(k), np.asarray(n), np.asarray(p, float))
    tail = np.minimum(stats.binom.cdf(k, n, p), stats.binom.sf(k - 1, n, p))
    return bool(np.any(2 * tail < alpha / max(k.size, 1)))


@pytest.fixture
def unlikely():
    return _unlikely


def _support(reports: pl.Series, mechanism: Mechanism) -> np.ndarray:
    """Support counts, from plain Python values: bool[n, d] summed over n."""
    d = mechanism.domain.size
    rows = reports.to_list()
    if reports.dtype == pl.Array:
        if reports.dtype.inner == pl.UInt64:
            bits = [[word >> b & 1 for word in row for b in range(64)] for row in rows]
            matrix = np.array(bits, int).reshape(len(rows), 64 * reports.dtype.size)
            assert not matrix[:, d:].any(), "padding bits are set"
            return matrix[:, :d].sum(axis=0)
        return np.array(rows, int).reshape(len(rows), d).sum(axis=0)
    values = mechanism.domain.values
    if reports.dtype == pl.Enum:
        values = ["true" if v is True else "false" if v is False else str(v) for v in values]
    return np.array([sum(row == v and type(row) is type(v) for row in rows) for v in values])


@pytest.fixture
def support():
    return _support


@pytest.fixture
def debiased():
    """debiased(support, n, mechanism): (C - n q) / (p - q)."""

    def formula(counts, n, mechanism):
        p, q = (np.array([float(f) for f in side]) for side in mechanism.expected_parts())
        return (counts - n * q) / (p - q)

    return formula


class Unguarded:
    """`Perturb` without the row index, as one would write it first: what the guards are tested against."""

    def __init__(self, mechanism, packed=False):
        self.mechanism, self.packed = mechanism, packed

    def __call__(self, inputs, return_dtype=None):
        values = inputs[0]
        reports = self.mechanism.perturb(values.to_arrow(), packed=self.packed)
        return columns.to_physical(values.name, reports, return_dtype)


@pytest.fixture
def unguarded():
    """unguarded(expr, mechanism): a perturbing expression of one input, no guard at all."""

    def build(expr, mechanism, *, packed=False):
        dtype = columns.report_dtype(mechanism, packed=packed)
        out = pl.map_batches(
            [expr],
            Unguarded(mechanism, packed),
            return_dtype=columns.physical(columns.report_dtype(mechanism, packed=packed)),
            is_elementwise=True,
        )
        return out.cat.to(dtype) if isinstance(dtype, pl.Enum) else out

    return build


@pytest.fixture
def build(request, unguarded):
    """The perturbing expression under test: ``ldp_polars.perturb``, or with indirect parameter False the unguarded."""
    return ldp_polars.perturb if request.param else unguarded
