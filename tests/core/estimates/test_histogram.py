"""Histograms as values and as tables."""

import copy
import pickle

import numpy as np
import pytest
from scipy import stats

from ldp_core import Domain, Histogram, RandomizedResponse, Tally, UnaryEncoding
from ldp_core.estimates.histogram import ENTRY, HistogramEstimate

from ...cases import each


def test_histogram():
    m = UnaryEncoding(Domain([10, 20], unmatched="other"), epsilon=2)
    h = m.estimate(Tally(1000, np.array([400, 300, 120]), m.fingerprint))
    assert h.values == (10, 20, "other")
    assert len(h) == 3
    np.testing.assert_array_equal(h.frequencies, h.counts / 1000)
    table = h.to_arrow()
    assert table.column_names == list(ENTRY)
    assert table["n"].to_pylist() == [1000] * 3
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


def test_a_histogram_travels():
    m = RandomizedResponse(epsilon=1)
    found = m.estimate(m.empty_tally())
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert not again.counts.flags.writeable
    assert pytest.importorskip("polars").DataFrame.equals(found.to_polars(), again.to_polars())


# ---- shares


def all_supports(m, n):
    """Every possible tally of n reports of a mechanism for two values."""
    yes = np.arange(n + 1)
    return np.full(n + 1, n), np.stack([n - yes, yes], axis=1)


def check_shares(table, m, n, share):
    """The error and the interval of the second value's share, by enumeration of all tallies; its share is ``share``."""
    p, q = (float(side[1]) for side in m.support_probabilities())
    people = round(n * share)
    yes, no = (stats.binom.pmf(range(k + 1), k, of) for k, of in ((people, p), (n - people, q)))
    chance = np.convolve(yes, no)
    of = {name: table[name].to_numpy()[1::2] for name in ENTRY[1:]}
    mean = chance @ of["frequency"]
    assert mean == pytest.approx(share, abs=1e-12)
    deviation = np.sqrt(chance @ (of["frequency"] - mean) ** 2)
    assert np.sqrt(chance @ of["frequency_standard_error"] ** 2) == pytest.approx(deviation, rel=0.01)
    covers = (of["frequency_low"] <= share) & (share <= of["frequency_high"])
    assert 0.94 < chance @ covers < 0.96


@pytest.mark.filterwarnings("ignore:implausible")  # some of all tallies hardly ever occur
@each("share", [0.0, 0.02, 0.5])
def test_the_interval_of_a_share_holds_it_as_often_as_it_says(share):
    m, n = RandomizedResponse(epsilon=1.0), 3000
    table, _ = HistogramEstimate().rows(m, *all_supports(m, n))
    check_shares(table, m, n, share)
