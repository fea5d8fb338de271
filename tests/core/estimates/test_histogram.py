"""Histograms as values and as tables."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from ldp_core import Domain, Histogram, ParameterError, RandomizedResponse, Tally, UnaryEncoding


def test_histogram():
    m = UnaryEncoding(Domain([10, 20], unmatched="other"), epsilon=2)
    h = m.estimate(Tally(1000, np.array([400, 300, 120]), m.fingerprint))
    assert h.values == (10, 20, "other")
    assert len(h) == 3
    np.testing.assert_array_equal(h.frequencies, h.counts / 1000)
    table = h.to_arrow()
    assert table.column_names == ["value", "count", "frequency", "standard_error", "low", "high"]
    assert table["value"].to_pylist() == ["10", "20", "other"]
    assert table["count"].to_pylist() == h.counts.tolist()
    assert h == m.estimate(Tally(1000, np.array([400, 300, 120]), m.fingerprint))
    assert hash(h) == hash(pickle.loads(pickle.dumps(h)))
    assert h != m.estimate(Tally(1000, np.array([400, 300, 121]), m.fingerprint))
    assert "1,000 reports, 95% intervals" in repr(h)
    assert isinstance(h, Histogram)
    with pytest.raises(ValueError, match="read-only"):
        h.counts[0] = 1
    wide = UnaryEncoding(range(50), epsilon=2)
    assert "30 more values" in repr(wide.estimate(wide.empty_tally()))


def test_histogram_to_polars():
    pl = pytest.importorskip("polars")
    for m in (
        UnaryEncoding([10, 20], epsilon=2),
        RandomizedResponse(epsilon=1),
        RandomizedResponse(["a", "b"], epsilon=1),
    ):
        frame = m.estimate(m.empty_tally()).to_polars()
        assert isinstance(frame, pl.DataFrame)
        assert frame["value"].to_list() == list(m.domain.labels)


@pytest.mark.parametrize("confidence", [0, 1, -1, 1.5, float("nan"), 95, True])
def test_confidence_is_inside_the_unit_interval(confidence):
    m = RandomizedResponse(epsilon=1)
    with pytest.raises(ParameterError):
        m.estimate(m.empty_tally(), confidence=confidence)


@pytest.mark.parametrize("again", [lambda h: pickle.loads(pickle.dumps(h)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_histogram_stays_read_only(again):
    m = RandomizedResponse(epsilon=1)
    assert not again(m.estimate(m.empty_tally())).counts.flags.writeable
