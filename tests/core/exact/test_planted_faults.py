"""Each statistical check, shown to fail on a fault of the kind that it is there to find."""

from fractions import Fraction

import numpy as np

from ldp_core import Keystream
from ldp_core.exact import sampling
from ldp_core.exact.probability import floor_threshold
from ldp_core.exact.sampling import bernoulli_bits

from ...cases import each
from ..checks import (
    almost_tied,
    by_numpy,
    check_binomial,
    check_bits,
    check_exact_decisions,
    check_moments,
    check_uniform,
    exact_exp,
    fails,
)

N = 25_000_000
THIRD = floor_threshold(Fraction(3, 10))


@each("p", [1 / (exact_exp(1) + 1), Fraction(1, 2), Fraction(3, 10)])
def test_a_threshold_that_is_off_by_a_thousandth(p):
    off = floor_threshold(p * Fraction(1001, 1000))
    fails(check_bits, bernoulli_bits(off, N, Keystream()), p)


def without_ties(draw, src, source, out):
    head = draw.threshold >> 56 << 56
    if head:
        _REAL(draw._replace(threshold=head), src, source, out)
    else:
        out[:] = 0


_REAL = sampling._decide


@each("p", [Fraction(3, 10), Fraction(1, 2**20), 1 - Fraction(1, 2**20)])
def test_ties_that_are_ignored(monkeypatch, p):
    threshold = floor_threshold(p)
    by_numpy(monkeypatch)
    monkeypatch.setattr(sampling, "_decide", without_ties)
    fails(check_bits, bernoulli_bits(threshold, N // 8, Keystream()), p)
    source = almost_tied(threshold, 0, 0.9, 2000)
    fails(check_exact_decisions, threshold, bernoulli_bits(threshold, 2000, source), source.given)


def test_ties_that_count_as_below(monkeypatch):
    """U <= T instead of U < T: one part in 2^64, which no statistics can see but the exact reference does."""

    def less_or_equal(draw, src, source, out):
        _REAL(draw._replace(threshold=draw.threshold + 1), src, source, out)

    by_numpy(monkeypatch)
    monkeypatch.setattr(sampling, "_decide", less_or_equal)
    source = almost_tied(THIRD, 0, 1.0, 8)
    fails(check_exact_decisions, THIRD, bernoulli_bits(THIRD, 8, source), source.given)


@each("d", [3, 7, 105, 200])
def test_a_biased_modulo(d):
    draws = Keystream().bytes(2_000_000) % d
    fails(check_uniform, np.bincount(draws, minlength=d))


def test_the_binomial_check_takes_either_side():
    check_binomial(500_000, 10**6, 0.5)
    fails(check_binomial, 503_500, 10**6, 0.5)
    fails(check_binomial, 496_500, 10**6, 0.5)
    fails(check_binomial, 3, 10**6, 2.0**-40)


def test_moments_that_are_off():
    runs = np.random.default_rng(1).normal(5.0, 2.0, 2000)
    check_moments(runs, 5.0, 4.0)
    for faulty in (runs + 0.2, 5 + 1.1 * (runs - 5)):
        fails(check_moments, faulty, 5.0, 4.0)
