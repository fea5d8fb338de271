"""Questions of all mechanisms, in situations that are drawn: `benchmarks.promises`, with seeds that are fixed.

So few hold in one of 10^5 cases each, where as many as are promised do; other seeds were looked through by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.promises import of_distributions, of_one_tally, told
from benchmarks.situations import PLACES, Situation, judged
from ldp_core import Piecewise, RandomizedResponse
from ldp_core.mechanisms.oracles import base

from ...cases import case

FALSE_ALARM = 1e-5
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of a large epsilon, and of the most improbable tallies


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_intervals_hold_what_they_promise_and_are_no_longer_than_they_need_to_be(seed):
    for found, s, least, chance in told(seed, 9):
        with case(found.what, s, least, found.length):
            assert chance > FALSE_ALARM
            assert not (found.length > 1.2 and s.n > 1000 and s.mechanism.epsilon < 4)  # (no few coins decide)


def test_score_intervals_alone_of_few_people_are_found(monkeypatch):
    m = RandomizedResponse(range(16), epsilon=6.0)
    shares, rng = np.eye(16)[0], np.random.default_rng(1)
    for planted in (False, True):
        if planted:
            monkeypatch.setattr(base, "reach_of_few", lambda ends, *_: ends)
        found = [judged(held)[1] for held in of_one_tally(Situation("RR", m, m, shares, 50, 0.95, None, rng))]
        assert (min(found) < FALSE_ALARM) == planted


@pytest.mark.slow
def test_shares_of_points_without_the_error_of_drawing_them_are_found(monkeypatch):
    """What `StochasticRounding` had: intervals of its oracle's noise alone."""
    m, shares, estimate = Piecewise((0, 1), epsilon=6.0), np.eye(PLACES)[13], base.FrequencyOracle.estimate
    for planted in (False, True):
        if planted:
            monkeypatch.setattr(base.FrequencyOracle, "estimate", lambda self, tally, **_: estimate(self, tally))
        s = Situation("Piecewise", m, m, shares, 200, 0.95, None, np.random.default_rng(1))
        assert (min(judged(held)[1] for held in of_distributions(s)) < FALSE_ALARM) == planted
