"""Bernoulli bits and uniform integers: exact for the integers, and random."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ldp_core import Keystream
from ldp_core.exact import sampling
from ldp_core.exact.probability import floor_threshold
from ldp_core.exact.sampling import ONE, bernoulli_bits, one_hot_rows, uniform_below

from ...cases import each
from ..checks import Scripted, almost_tied, check_binomial, check_bits, check_exact_decisions, check_uniform, exact_exp

PROBABILITIES = {
    "1/(e+1)": 1 / (exact_exp(1) + 1),
    "2^-20": Fraction(1, 2**20),
    "1-2^-20": 1 - Fraction(1, 2**20),
    "1/2": Fraction(1, 2),
    "0.3": Fraction(3, 10),
}
DECISIONS = 2 * 10**7
thresholds = st.one_of(
    st.integers(1, ONE - 1),
    st.builds(lambda odd, shift: (2 * odd + 1) << shift & (ONE - 1) or 1, st.integers(0, ONE), st.integers(0, 63)),
    st.sampled_from([1, 2, 255, 256, ONE // 2, ONE // 2 - 1, ONE // 2 + 1, ONE - 1, ONE - 2, ONE - 256, 1 << 56]),
)


@each("name", PROBABILITIES)
def test_bernoulli_bits_are_binomial_and_independent(name):
    threshold = floor_threshold(PROBABILITIES[name])
    check_bits(bernoulli_bits(threshold, DECISIONS // 8, Keystream()), Fraction(threshold, ONE))


@given(thresholds, st.integers(1, 40), st.integers(0, 2**32), st.sampled_from([0.5, 0.9, 0.97, 1.0]))
def test_every_decision_is_u_below_the_threshold(threshold, n_bytes, seed, agree):
    source = almost_tied(threshold, seed, agree, n_bytes)
    check_exact_decisions(threshold, bernoulli_bits(threshold, n_bytes, source), source.given)


@given(thresholds, st.integers(0, 2**32), st.integers(1, 300))
def test_ties_run_down_to_the_last_bit(threshold, seed, n_bytes):
    """U agrees with the threshold all the way: it is not below it. There are more ties than words drawn for them."""
    source = almost_tied(threshold, seed, 1.0, n_bytes)
    assert not bernoulli_bits(threshold, n_bytes, source).any()
    words = -(-n_bytes // 8)
    first, more = 8 * words * (1 if threshold == ONE // 2 else 8), 64 * 8 * words if threshold % (1 << 56) else 0
    assert sum(len(data) for data in source.given) == max(first + more, len(source.given[0]))


class Given:
    """A source of these bytes."""

    def __init__(self, data):
        self.data = data

    def bytes(self, n):
        first, self.data = self.data[:n], self.data[n:]
        return first.copy()


class Reusing:
    """A source that writes to one buffer, as a keystream does."""

    def __init__(self, source):
        self.source, self.buffer = source, np.empty(1 << 16, np.uint8)

    def bytes(self, n):
        self.buffer[:n] = self.source.bytes(n)
        return self.buffer[:n]


@given(thresholds, thresholds, st.integers(0, 40), st.integers(1, 5), st.integers(0, 2**32))
def test_rows_are_the_decisions_one_after_the_other(p, q, n, width, seed):
    """Also where there are more ties than words for them, which come after what has been drawn already."""
    position = np.random.default_rng(seed).integers(0, 8 * width + 3, n).astype(np.uint8)
    tied = almost_tied(q, seed, 1 - 2**-8, n * width).bytes(1 << 14)
    data = np.concatenate([tied, np.arange(1 << 14).astype(np.uint8) * 7])
    rows = one_hot_rows(p, q, position, width, Reusing(Given(data)))
    stream = Given(data)
    expected = np.unpackbits(bernoulli_bits(q, n * width, stream).reshape(n, width), axis=1, bitorder="little")
    true = np.unpackbits(bernoulli_bits(p, -(-n // 8), stream), bitorder="little")
    inside = np.flatnonzero(position < 8 * width)
    expected[inside, position[inside]] = true[inside]
    np.testing.assert_array_equal(np.unpackbits(rows, axis=1, bitorder="little"), expected)


@each("k", range(1, 256))
def test_all_leading_bytes_of_u_are_weighed_equally(k):
    """T = k 2^56 has exactly k of the 256 leading bytes below it; all 256 are fed at once."""

    def source(_call: int, n: int) -> np.ndarray:
        u = np.arange(256)
        planes = np.array([1 - (u >> (7 - i) & 1) for i in range(n // 32)], np.uint8)
        return np.packbits(planes, axis=1, bitorder="little").reshape(-1)

    out = bernoulli_bits(k << 56, 32, Scripted(source))
    np.testing.assert_array_equal(np.unpackbits(out, bitorder="little"), np.arange(256) < k)


def test_a_long_run_is_made_of_independent_blocks(monkeypatch):
    monkeypatch.setattr(sampling, "_BLOCK", 5)
    threshold = 0xB504F333F9DE6484
    stream = Keystream(bytes(32))
    script = Scripted(lambda _call, n: stream.bytes(n).copy())
    out = bernoulli_bits(threshold, 1003, script)
    assert len(script.given) == 201
    for i, given_bytes in enumerate(script.given):
        check_exact_decisions(threshold, out[5 * i : 5 * i + 5], [given_bytes])


DOMAINS = (2, 3, 7, 16, 105, 200, 256, 257, 300, 5000, 65537)


@each("d", DOMAINS)
def test_uniform_below_is_uniform(d):
    draws = uniform_below(d, 2_000_000, Keystream())
    assert draws.dtype == (np.uint8 if d <= 256 else np.uint32)
    check_uniform(np.bincount(draws, minlength=d))
    pairs = draws[::2].astype(np.int64) % 8 * 8 + draws[1::2] % 8  # neighbors are independent
    marginal = np.bincount(np.arange(d) % 8, minlength=8) / d
    check_binomial(np.bincount(pairs, minlength=64), len(pairs), np.outer(marginal, marginal).reshape(-1))


@each("d", range(1, 257))
def test_uniform_below_gives_each_value_to_equally_many_words(d):
    """All 2^8 or 2^16 words at once; the redraws of rejected words get a word known to be accepted as d - 1."""

    def source(call: int, n: int) -> np.ndarray:
        if call:
            return np.full(n, 255, np.uint8)
        return np.arange(256, dtype=np.uint8) if 256 % d == 0 else np.arange(1 << 16, dtype="<u2").view(np.uint8)

    words = 256 if 256 % d == 0 else 1 << 16
    script = Scripted(source)
    counts = np.bincount(uniform_below(d, words, script), minlength=d)
    redrawn = sum(len(data) for data in script.given[1:]) // 2
    assert redrawn == words % d
    counts[d - 1] -= redrawn
    assert counts.tolist() == [words // d] * d


@given(st.integers(257, 2**31), st.data())
def test_uniform_below_of_wide_words_is_lemires(d, data):
    """Words around every boundary between values, against integers: accepted iff w d mod 2^32 >= 2^32 mod d."""
    values = data.draw(st.lists(st.integers(0, d - 1), min_size=1, max_size=50))
    words = [w for v in values for w in range(-(-(v << 32) // d) - 2, -(-(v << 32) // d) + 3) if 0 <= w < 1 << 32]
    good = (1 << 32) - 1  # accepted, as d - 1
    script = Scripted(lambda call, n: np.array(words if call == 0 else [good] * (n // 4), "<u4").view(np.uint8))
    expected = [w * d >> 32 if w * d % 2**32 >= 2**32 % d else d - 1 for w in words]
    assert uniform_below(d, len(words), script).tolist() == expected
