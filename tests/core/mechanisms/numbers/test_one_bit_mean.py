"""One bit of a mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ldp_core import Interval, Mechanism, OneBitMean, Tally
from ldp_core.inputs.interval import STEPS

from .helpers import CODES


def test_one_bit_mean_is_ding_s_and_duchi_s():
    m, e = OneBitMean((0, 8), epsilon=1.5), np.exp(1.5)
    for code in CODES:
        share = code / STEPS
        ding = 1 / (e + 1) + share * (e - 1) / (e + 1)
        duchi = 0.5 + (2 * share - 1) * (e - 1) / (2 * (e + 1))
        assert float(m.probabilities(code)[1]) == pytest.approx(ding, rel=1e-12) == pytest.approx(duchi, rel=1e-12)
    tally = Tally(10, np.array([3, 7]), m.fingerprint)
    assert m.mean(tally).mean == pytest.approx(8 / 10 * (7 * (e + 1 - 1) / (e - 1) - 3 / (e - 1)))
    wilson = stats.binomtest(7, 10).proportion_ci(0.95, method="wilson")
    ends = [8 * (p * (e + 1) - 1) / (e - 1) for p in (wilson.low, wilson.high)]
    assert [m.mean(tally).low, m.mean(tally).high] == pytest.approx(ends)


def test_clipping():
    m = OneBitMean(Interval(0, 10, "clip"), epsilon=80.0)
    assert m.perturb([-5, 0, 10, 99]).tolist() == [False, False, True, True]
    assert Mechanism.from_dict(m.to_dict()) == m


def test_variances_end_where_floats_do():
    assert OneBitMean((0, 1e200), epsilon=1.0).variance(10) == math.inf  # was an OverflowError
