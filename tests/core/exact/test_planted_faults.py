"""Each statistical check, shown to fail on a fault of the kind that it is there to find."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ldp_core import Keystream
from ldp_core.exact import sampling
from ldp_core.exact.probability import floor_threshold
from ldp_core.exact.sampling import ONE, bernoulli_bits

from ...cases import each
from ..checks import (
    Scripted,
    almost_tied,
    by_numpy,
    check_binomial,
    check_bits,
    check_exact_decisions,
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


class Reused:
    """A keystream of which every ``period`` requests are the same."""

    def __init__(self, period: int) -> None:
        self.period, self.calls = period, 0

    def bytes(self, n):
        if self.calls % self.period == 0:
            self.stream = Keystream(bytes(32))
        self.calls += 1
        return self.stream.bytes(n)


def test_bytes_that_are_reused_for_the_next_block():
    fails(check_bits, bernoulli_bits(ONE // 2, N // 4, Reused(1)), Fraction(1, 2))


def test_bytes_that_are_reused_within_a_request():
    def source(_call, n):
        return np.repeat(Keystream().bytes(-(-n // 2)), 2)[:n]

    fails(check_bits, bernoulli_bits(THIRD, N // 64, Scripted(source)), Fraction(3, 10))


def test_bits_of_a_byte_that_are_copies():
    packed = bernoulli_bits(THIRD, N // 64, Keystream())
    fails(check_bits, packed & 0x55 | (packed & 0x55) << 1, Fraction(3, 10))


@each("d", [3, 7, 105, 200])
def test_a_biased_modulo(d):
    draws = Keystream().bytes(4_000_000) % d
    fails(check_uniform, np.bincount(draws, minlength=d))


def test_the_binomial_check_takes_either_side():
    check_binomial(500_000, 10**6, 0.5)
    fails(check_binomial, 503_500, 10**6, 0.5)
    fails(check_binomial, 496_500, 10**6, 0.5)
    fails(check_binomial, 3, 10**6, 2.0**-40)
