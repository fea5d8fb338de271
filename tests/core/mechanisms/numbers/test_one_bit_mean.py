"""One bit of a mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ldp_core import Interval, Mechanism, OneBitMean, Tally
from ldp_core.inputs.interval import STEPS

from .helpers import CODES, SIDE, N, check_mean, enumerated


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


def test_rounding_to_the_nearest_point_is_found(monkeypatch):
    numbers = np.full(N, 0.2)
    m = OneBitMean(SIDE, epsilon=3.0)
    check_mean(m, numbers, m.mean(m.tally(m.perturb(numbers))))

    def nearest(codes, points, noise):
        return np.rint(codes / STEPS * (points - 1)).astype(np.uint32)

    monkeypatch.setattr("ldp_core.mechanisms.numbers.one_bit_mean.round_to_points", nearest)
    with pytest.raises(AssertionError):
        check_mean(m, numbers, m.mean(m.tally(m.perturb(numbers))))


def test_a_channel_with_a_wrong_row_is_found():
    class Wrong(OneBitMean):
        name = "wrong one bit mean"

        def perturb_block(self, codes, noise):
            return super().perturb_block(np.maximum(codes, STEPS // 64), noise)

    try:
        m = Wrong(SIDE, epsilon=1.0)
        assert enumerated(m, 0) != m.probabilities(0)
        assert enumerated(m, STEPS) == m.probabilities(STEPS)
    finally:
        del Mechanism._registry["wrong one bit mean"]


def test_clipping():
    m = OneBitMean(Interval(0, 10, "clip"), epsilon=80.0)
    assert m.perturb([-5, 0, 10, 99]).tolist() == [False, False, True, True]
    assert Mechanism.from_dict(m.to_dict()) == m


def test_variances_end_where_floats_do():
    assert OneBitMean((0, 1e200), epsilon=1.0).variance(10) == math.inf  # was an OverflowError
