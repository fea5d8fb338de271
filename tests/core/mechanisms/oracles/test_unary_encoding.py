"""Unary encoding: exact epsilon and probabilities, other people's numbers, samples of bit vectors."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ldp_core import ParameterError, Tally, UnaryEncoding
from ldp_core.exact.sampling import ONE

from ....cases import each
from ...acceptance import ACCEPTANCE, PEERS, exactly
from ...checks import check_binomial, check_rows_independent, exact_ln
from .helpers import KINDS, domain, epsilons, is_least_float_above, open_unit, sizes, spends_at_most, table_of


@each(("kind", "d"), [("OUE", 3), ("SUE", 16), ("custom", 65), ("OUE", 128)])
def test_rows_and_columns_of_bit_vectors_are_independent(kind, d):
    m = KINDS[kind](range(d))
    for value in (0, d // 2):
        check_rows_independent(m.perturb(np.full(300_000, value)), table_of(m)[value])


@pytest.mark.slow
@pytest.mark.parametrize("d", [1000, 100_000])
def test_wide_bit_vectors(d):
    m = UnaryEncoding(range(d), epsilon=4.0)
    n = 200_000_000 // d
    value = d - 1
    tally = m.tally(m.perturb(np.full(n, value), packed=True))
    check_binomial(tally.counters, n, np.where(np.arange(d) == value, m.p, m.q))


# A weight above 1 is a record of several values; here a record has one value, so those rows do not apply.
@each("row", [r for r in PEERS["bit_vector"] if r["max_weight"] == 1])
def test_epsilon_of_a_bit_vector(row):
    m = UnaryEncoding.from_probabilities([1, 2, 3], p=1 - row["f"] / 2, q=row["f"] / 2)
    assert m.epsilon == exactly(row["epsilon"])


@each("row", PEERS["unary_encoding"])
def test_epsilon_of_unary_encoding(row):
    assert UnaryEncoding.from_probabilities([1, 2], p=row["p"], q=row["q"]).epsilon == exactly(row["epsilon"])


@each("row", ACCEPTANCE["debias_bit_vector"])
def test_debiased_bit_vectors(row):
    d = len(row["counts"])
    m = UnaryEncoding.from_probabilities(range(d), p=1 - row["f"] / 2, q=row["f"] / 2)
    estimate = m.estimate(Tally(row["n"], np.array(row["counts"]), m.fingerprint))
    np.testing.assert_allclose(estimate.counts, row["estimate"], rtol=1e-12, atol=1e-12)


@given(epsilons, sizes, st.sampled_from(["symmetric", "optimized"]))
def test_epsilon_is_never_above_the_one_asked_for_and_cannot_be_nearer(epsilon, d, variant):
    m = UnaryEncoding(domain(d), epsilon=epsilon, variant=variant)
    p, q = m.thresholds
    assert p == (ONE - q if variant == "symmetric" else ONE // 2)
    assert m.worst_ratio() == Fraction(p, ONE - p) * Fraction(ONE - q, q)
    assert spends_at_most(m, epsilon)
    if p < ONE - 1 and q > 1:  # one step nearer to the edge
        p, q = p + (variant == "symmetric"), q - 1
        assert exact_ln(Fraction(p, ONE - p) * Fraction(ONE - q, q)) > Decimal(epsilon)


@given(open_unit, open_unit, st.integers(2, 20))
@example(0.75, 0.25, 2)
@example(1 - 2**-53, 1e-300, 2)
@example(math.nextafter(0.5, 1), 0.5, 2)
def test_from_probabilities(a, b, d):
    p, q = max(a, b), min(a, b)
    assume(math.floor(Fraction(p) * ONE) > math.ceil(Fraction(q) * ONE))
    m = UnaryEncoding.from_probabilities(domain(d), p=p, q=q)
    low, high = m.thresholds
    assert low == math.floor(Fraction(p) * ONE)
    assert high == math.ceil(Fraction(q) * ONE)
    assert spends_at_most(m, m.epsilon)
    assert is_least_float_above(m.epsilon, Fraction(p) * (1 - Fraction(q)) / ((1 - Fraction(p)) * Fraction(q)))


@each("bad", [0, 1, -0.1, 1.5, math.nan, math.inf, True, False, "0.75", None])
def test_p_and_q_must_be_ordered_probabilities_strictly_inside(bad):
    for p, q in ((bad, 0.25), (0.75, bad), (bad, bad), (0.5, 0.5), (0.3, 0.6)):
        with pytest.raises(ParameterError):
            UnaryEncoding.from_probabilities([1, 2], p=p, q=q)
