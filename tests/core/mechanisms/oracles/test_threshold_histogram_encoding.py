"""Thresholded histogram encoding: its p, q, theta and variance are the known ones; its bits are a unary encoding's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ldp_core import ThresholdHistogramEncoding
from ldp_core.exact.sampling import ONE
from ldp_core.mechanisms.oracles.unary_encoding import best_theta

from ....cases import each
from ...checks import exact_exp

# acceptance.json: epsilon -> n Var at f = 0, and theta to six digits
TABLE = {
    0.5: (17.827846864164275, 0.561629),
    1.0: (4.80715413009729, 0.618553),
    1.5: (2.2370064276076924, 0.668053),
    2.0: (1.2835772932763339, 0.709614),
    2.5: (0.8192764669092752, 0.744004),
    3.0: (0.5564506819905206, 0.772404),
    3.5: (0.3931269044264001, 0.795969),
    4.0: (0.2851675869600375, 0.815676),
    4.5: (0.21069088284937584, 0.832302),
    5.0: (0.1577250434926386, 0.846455),
}


# acceptance.json, "mechanism_parameters": as pure-ldp returns them, theta to four digits
PEER = [
    (0.5, 0.5616, 0.5519037296865329, 0.43450528082201645),
    (1.0, 0.6186, 0.5868097674463382, 0.3669802744150433),
    (2.0, 0.7096, 0.6260178389976807, 0.245920447238365),
]


@each("epsilon", TABLE)
def test_known_variances_and_thetas(epsilon):
    n_var, theta = TABLE[epsilon]
    m = ThresholdHistogramEncoding(range(16), epsilon=epsilon)
    assert m.theta == theta
    assert m.variance(1) == pytest.approx(n_var, rel=1e-9)  # (theta is rounded)


@each(("epsilon", "theta", "p", "q"), PEER)
def test_known_p_and_q(epsilon, theta, p, q):
    m = ThresholdHistogramEncoding(range(16), epsilon=epsilon, theta=theta)
    assert (m.p, m.q) == (pytest.approx(p, rel=1e-12), pytest.approx(q, rel=1e-12))
    spent = np.log(p * (1 - q) / ((1 - p) * q))  # what two bits reveal: less than was asked for
    assert m.realized_epsilon == pytest.approx(spent, rel=1e-12)
    assert m.realized_epsilon < 0.95 * epsilon


@each("theta", [0.5, 0.75, 1.0])
@each("epsilon", [0.5, 1.0, 4.0])
def test_bits_are_those_of_laplace_noise_above_a_threshold(epsilon, theta):
    m = ThresholdHistogramEncoding(range(16), epsilon=epsilon, theta=theta)
    noise = stats.laplace(scale=2 / epsilon)
    assert m.p == pytest.approx(noise.sf(theta - 1), rel=1e-12)
    assert m.q == pytest.approx(noise.sf(theta), rel=1e-12)


@each("epsilon", [0.1, 1.0, 5.0, 20.0, 50.0])
def test_theta_has_the_least_variance(epsilon):
    best = best_theta(epsilon)
    assert 0.5 <= best <= 1
    variance = ThresholdHistogramEncoding([1, 2], epsilon=epsilon).variance(1)
    for theta in np.linspace(0.5, 1, 101):
        other = ThresholdHistogramEncoding([1, 2], epsilon=epsilon, theta=float(theta)).variance(1)
        assert variance <= other * (1 + 1e-9)


# ---- every report, through the code


@given(st.floats(1e-6, 300), st.one_of(st.none(), st.floats(0.5, 1)))
def test_epsilon_is_never_above_the_one_asked_for(epsilon, theta):
    m = ThresholdHistogramEncoding(range(3), epsilon=epsilon, theta=theta)
    assert m.worst_ratio() <= exact_exp(epsilon)
    p, q = m.support_probabilities()
    half, share = Fraction(epsilon) / 2, Fraction(m.theta)
    if epsilon < 80:  # above, p and q are what 64 bits resolve
        exact_p, exact_q = 1 - exact_exp(half * (share - 1)) / 2, exact_exp(-half * share) / 2
        assert 0 <= exact_p - p[0] <= Fraction(2, ONE)
        assert 0 <= q[0] - exact_q <= Fraction(2, ONE)
