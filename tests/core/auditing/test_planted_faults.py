"""Faults that break the promise, each planted in a black box, and each found by an audit.

Noise of mechanisms has fixed keys here, and that of numpy a seed: nothing fails by chance. Beside each fault is the
same box without it, which is not found guilty.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from ldp_core import (
    CountMeanSketch,
    Domain,
    Keyed,
    LongitudinalRandomizedResponse,
    LongitudinalUnaryEncoding,
    PrivacyPlan,
    RandomizedResponse,
    Secret,
    UnaryEncoding,
    audit,
)

from ...cases import each

FEW = 40_000


def one_hot(values, d):
    return np.asarray(values)[:, None] == np.arange(d)


def unary_encoding(values, d, p, q, rng):
    """Every bit is 1 with probability q, that of the value with probability p."""
    return rng.random((len(values), d)) < np.where(one_hot(values, d), p, q)


def keyed(n, column="x"):
    return Keyed(Secret.generate(), np.arange(n), column=column)


@pytest.mark.parametrize("d", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_a_left_out_bit(d):
    m = UnaryEncoding(range(d), epsilon=1.0)

    def leave_out(values):
        bits = m.perturb(values.to_numpy())
        bits[:, 1] = values.to_numpy() == 1
        return bits

    assert audit(m, leave_out, trials=FEW).broken
    assert not audit(m, trials=FEW).broken


def test_a_bit_that_is_left_out_of_packed_words():
    m = UnaryEncoding(range(70), epsilon=1.0)

    def leave_out(values):
        words = m.perturb(values.to_numpy(), packed=True).copy()
        words[:, 1] &= ~np.uint64(32)
        words[:, 1] |= np.where(values.to_numpy() == 69, np.uint64(32), np.uint64(0))
        return words

    assert audit(m, leave_out, trials=4000).broken


def test_a_permanent_round_that_is_drawn_anew():
    """Eight reports of one value are bounded by epsilon_infinity only because of what they have in common."""
    m = LongitudinalRandomizedResponse([False, True], epsilon_infinity=2.0, epsilon_1=1.0)

    def anew(*rounds):
        return tuple(m.perturb(values, randomness=keyed(len(values))) for values in rounds)

    found = audit(m, anew, rounds=8, trials=FEW)
    assert found.claimed == m.epsilon_of(8)
    assert found.lower_bound > 3
    assert not audit(m, rounds=8, trials=FEW).broken


@each(("truth", "yes"), [(0.5, 0.2), (0.6, 0.5), (0.5, 0.8)])
def test_a_constant_for_any_coins(truth, yes):
    """Warner's textbook claims ln 3 for two fair coins; a library must not for others."""
    m = RandomizedResponse.from_coins(truth=truth, yes=yes)
    assert audit(math.log(3), m.perturb, inputs=[False, True], trials=FEW).broken
    assert not audit(math.log(3), RandomizedResponse.from_coins().perturb, inputs=[False, True], trials=FEW).broken


@each(("bias", "broken"), [(1.01, True), (1.0, False)])
def test_a_coin_that_is_biased_by_one_percent(bias, broken):
    rng, p = np.random.default_rng(1), math.e / (1 + math.e)

    def biased(values):
        return values.to_numpy(zero_copy_only=False) ^ (rng.random(len(values)) >= bias * p)

    found = audit(RandomizedResponse(epsilon=1.0), biased, trials=1_000_000)
    assert found.broken == broken


def test_noise_that_two_columns_share():
    """Of a record that says the same twice, the reports are the same, too."""
    m = RandomizedResponse(epsilon=1.0)
    plan = PrivacyPlan({"crashed": m, "hung": m})

    def shared(crashed, hung):
        source = keyed(len(crashed))
        return m.perturb(crashed, randomness=source), m.perturb(hung, randomness=source)

    records = [(True, True), (True, False), (False, False), (False, True)]
    found = audit(plan, shared, inputs=records, trials=FEW)
    assert found.broken
    assert found.claimed == 2.0
    assert not audit(plan, inputs=records, trials=FEW).broken
    assert not audit(plan, inputs=records, trials=FEW, keyed=True).broken


def test_a_null_that_passes_through():
    m = UnaryEncoding(Domain(["a", "b"], unmatched="none"), epsilon=1.0)

    def pass_nulls(values):
        reports = m.perturb(values)
        return pa.array(reports.to_pylist(), reports.type, mask=np.asarray(values.is_null()))

    assert audit(m, pass_nulls, trials=4000).pair is not None
    assert audit(m, pass_nulls, trials=4000).broken
    assert not audit(m, trials=FEW).broken


def test_a_value_that_is_wrapped_to_another_code():
    """The other value is the code plus 1 to d - 1, modulo the 256 of a byte and not modulo d."""
    rng, d, p = np.random.default_rng(2), 200, math.e / (math.e + 199)

    def wrapped(values, modulus=256):
        codes = values.to_numpy()
        other = (codes + rng.integers(1, d, len(codes))) % modulus
        return np.where(rng.random(len(codes)) < p, codes, other)

    m = RandomizedResponse(range(d), epsilon=1.0)
    assert audit(m, wrapped, trials=FEW).broken
    assert not audit(m, lambda values: wrapped(values, d), trials=FEW).broken


class LowHalf:
    """Unary encoding of open values under keyed noise, of which the noise knows 32 bits of a code only."""

    def __init__(self, bits):
        self.m, self.mask = UnaryEncoding(range(16), epsilon=1.0), np.uint64((1 << bits) - 1)

    def __call__(self, *rounds):
        """Bits are compared with a word that follows from the person and the code's low bits, for this batch alone."""
        (p,), (q,) = ({float(x) for x in parts} for parts in self.m.support_probabilities())
        salt = np.random.default_rng(self.calls).integers(0, 1 << 63, 16, np.uint64)
        self.calls += 1
        reports = []
        for values in rounds:
            codes = values.to_numpy().astype(np.uint64)
            words = (codes & self.mask) * np.uint64(0x9E3779B97F4A7C15) ^ np.arange(len(codes), dtype=np.uint64)
            draws = np.empty((len(codes), 16))
            for k in range(16):
                word = (words ^ salt[k]) * np.uint64(0xBF58476D1CE4E5B9)
                word = (word ^ word >> np.uint64(29)) * np.uint64(0x94D049BB133111EB)
                draws[:, k] = (word ^ word >> np.uint64(32)) / 2.0**64
            own = one_hot((codes ^ codes >> np.uint64(32)) % np.uint64(16), 16)
            reports.append(draws < np.where(own, p, q))
        return tuple(reports)

    calls = 0


def test_two_values_that_share_their_noise_for_ever():
    """Two days: whether the second value shares the first one's low 32 bits shows in the bits that stay the same."""
    first, partner, stranger = 5, 5 + (3 << 32), 6
    days = [(first, partner), (first, stranger)]
    found = audit(1.0, LowHalf(32), inputs=days, trials=FEW)  # they differ in the second value alone
    assert found.broken
    assert found.lower_bound > 5
    assert not audit(1.0, LowHalf(64), inputs=days, trials=FEW).broken


def test_values_of_an_open_domain_share_no_noise():
    """The mechanisms themselves: a value whose code has the same low half as the first one's, or another."""
    m, days = CountMeanSketch("int", epsilon=1.0, hashes=64, width=64), [(5, 5 + (3 << 32)), (5, 6)]
    assert not audit(m, inputs=days, epsilon=1.0, keyed=True, trials=FEW).broken


def test_a_ledger_that_charges_too_little():
    """Two reports of one value, charged 2 epsilon_1 = 3; enumerated, they spend 3.319."""
    m = LongitudinalUnaryEncoding([0, 1], epsilon_infinity=8.0, epsilon_1=1.5, variant="OUE")
    found = audit(m, rounds=2, epsilon=2 * m.epsilon_1, trials=1_000_000)
    assert found.broken
    assert found.lower_bound < 3.3192
    assert not audit(m, rounds=2, trials=FEW).broken


def pure_ldp_unary_encoding(d, epsilon, rng, *, mended=False):
    """Pure-ldp's UEClient, versions 1.1.0 to 1.1.2 (https://github.com/Samuel-Maddock/pure-LDP/issues/11).

    All bits are drawn with probability q, that of the value too. Then it is set with probability p, and not cleared
    else: it is 1 with probability p + (1 - p) q.
    """
    p, q = 0.5, 1 / (math.exp(epsilon) + 1)

    def perturb(values):
        index = values.to_numpy()
        bits = rng.random((len(index), d)) < q
        rows = np.arange(len(index))
        if mended:
            bits[rows, index] = False
        bits[rows, index] |= rng.random(len(index)) < p
        return bits

    return perturb


@each("epsilon", [0.5, 1.0, 2.0])
def test_pure_ldp_s_published_bug(epsilon):
    """Its epsilon is ln((p + (1 - p) q) / ((1 - p) q)) = ln(exp(epsilon) + 2)."""
    rng, inputs = np.random.default_rng(3), range(4)
    found = audit(epsilon, pure_ldp_unary_encoding(4, epsilon, rng), inputs=inputs, trials=FEW)
    assert found.broken
    assert found.lower_bound < math.log(math.exp(epsilon) + 2)
    mended = audit(epsilon, pure_ldp_unary_encoding(4, epsilon, rng, mended=True), inputs=inputs, trials=FEW)
    assert not mended.broken
