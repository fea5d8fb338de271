"""What the tests of ldp_polars share: engines, a spy on the noise, independent arithmetic, exact binomial checks."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from ldp_core import Mechanism
from ldp_polars import perturbing

from .helpers import some

ALPHA = 1e-9
"""Probability of a false alarm of one statistical check, all its comparisons together (about 6 standard errors)."""

ENGINES = some(["eager", "in-memory", "streaming", "sink_parquet", "sink_ipc"], "eager", "streaming")


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
    """How many reports support each value, without a look at how the core counts them."""
    d = mechanism.domain.size
    if reports.dtype == pl.Array:
        rows = reports.to_numpy()
        if reports.dtype.inner == pl.UInt64:
            bits = rows[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)
            rows = bits.reshape(len(rows), 64 * reports.dtype.size)
            assert not rows[:, d:].any(), "padding bits are set"
        return rows[:, :d].sum(axis=0, dtype=int)
    texts = reports.cast(pl.String).to_list()
    return np.array([texts.count(text) for text in mechanism.domain.texts])


@pytest.fixture
def support():
    return _support
