"""Randomized response: exact epsilon and coins, other people's numbers, samples, input that is refused."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given

from ldp_core import ParameterError, RandomizedResponse, Tally
from ldp_core.exact.sampling import ONE

from ....cases import each
from ...acceptance import ACCEPTANCE, PEERS, exactly
from ...checks import check_marginals, exact_exp, exact_ln
from .helpers import (
    RANDOMIZED,
    ROWS,
    as_threshold,
    domain,
    epsilons,
    is_least_float_above,
    open_unit,
    policies,
    sizes,
    spends_at_most,
    supported,
    table_of,
)


def test_booleans_as_bits_from_every_offset():
    """The path that never unpacks a Boolean column."""
    for m in (RANDOMIZED["warner"], RANDOMIZED["coins"]):
        values = np.random.default_rng(3).random(ROWS) < 0.5
        for offset in (0, 1, 7, 8, 13):
            reports = m.perturb(pa.array(values)[offset:-3])
            reports.validate(full=True)
            check_marginals(values[offset:-3].astype(int), supported(m, reports), table_of(m))


@each("row", PEERS["bool"])
def test_epsilon_of_boolean_randomized_response(row):
    p, epsilon = row["p"], row["epsilon"]
    if p == 0.5:  # epsilon 0: no information; refused here
        with pytest.raises(ParameterError):
            RandomizedResponse.from_coins(truth=2 * p - 1, yes=0.5)
        return
    coins = RandomizedResponse.from_coins(truth=2 * p - 1, yes=0.5)  # Pr[truth] + Pr[not truth] / 2 = p
    assert coins.epsilon == exactly(epsilon)
    assert coins.p == exactly(p)
    assert RandomizedResponse(epsilon=epsilon).p == exactly(p)


@each("row", PEERS["categorical"])
def test_p_of_categorical_randomized_response(row):
    k, p, epsilon = row["k"], row["p"], row["epsilon"]
    if epsilon < 1e-15:  # p = 1/k is epsilon 0, which the peer rounds up
        return
    m = RandomizedResponse(range(k), epsilon=epsilon)
    assert m.p == exactly(p)
    assert math.log(m.p * (k - 1) / (1 - m.p)) == exactly(epsilon)


@each("row", ACCEPTANCE["two_coin"])
def test_two_coins(row):
    m = RandomizedResponse.from_coins(truth=1 - row["h1"], yes=row["h2"])
    assert m.epsilon == exactly(row["epsilon"])
    assert m.realized_epsilon == exactly(row["epsilon"])
    (_, yes_of_yes), (_, yes_of_no) = m.support_probabilities()
    assert (float(yes_of_yes), float(yes_of_no)) == (exactly(row["p_yes_given_yes"]), exactly(row["p_yes_given_no"]))
    assert (m.p, m.q) == (float(yes_of_yes), float(yes_of_no))


# Never needlessly low: moving a threshold by one unit, 2^-64, away from privacy would exceed epsilon. That is the
# sharpest bound there is; in terms of epsilon it is about 2^-64 (1 / (1 - p) + 1 / q) (saturating at ln 2^64 = 44.4).
@given(epsilons, sizes, policies)
@example(1e-6, 5000, "error")
@example(50.0, 2, "error")
def test_grr(epsilon, d, policy):
    m = RandomizedResponse(domain(d, policy), epsilon=epsilon)
    (p, *more_p), (q, *more_q) = m.support_probabilities()
    assert set(more_p) == {p}
    assert set(more_q) == {q}
    assert p + (d - 1) * q == 1
    assert m.worst_ratio() == p / q
    assert spends_at_most(m, epsilon)
    keep = as_threshold(p if d == 2 else p - q)
    assert keep <= (exact_exp(epsilon) - (d > 2)) / (exact_exp(epsilon) + (1 if d == 2 else d - 1)) * ONE
    if keep < ONE - 1:
        better = Fraction(keep + 1, ONE)
        ratio = better / (1 - better) if d == 2 else (better + (1 - better) / d) / ((1 - better) / d)
        assert exact_ln(ratio) > Decimal(epsilon)


@given(open_unit, open_unit)
@example(0.5, 0.5)
@example(0.01, 0.9)
@example(1 - 2**-53, 1 - 2**-53)
def test_from_coins(truth, yes):
    t, y = Fraction(truth), Fraction(yes)
    p1, p0 = t + (1 - t) * y, (1 - t) * y
    assume(math.floor(p1 * ONE) > math.ceil(p0 * ONE))
    m = RandomizedResponse.from_coins(truth=truth, yes=yes)
    (no_of_no, yes_of_yes), (no_of_yes, yes_of_no) = m.support_probabilities()
    assert no_of_no + yes_of_no == yes_of_yes + no_of_yes == 1
    assert yes_of_yes * ONE == math.floor(p1 * ONE)
    assert yes_of_no * ONE == math.ceil(p0 * ONE)
    ratios = [p1 / p0, p0 / p1, (1 - p0) / (1 - p1), (1 - p1) / (1 - p0)]
    assert is_least_float_above(m.epsilon, max(ratios))
    assert m.worst_ratio() == max(yes_of_yes / yes_of_no, no_of_no / no_of_yes)
    assert spends_at_most(m, m.epsilon)


@each("bad", [0, 1, -0.1, 1.1, math.nan, True, "0.5", None])
def test_coins_must_be_strictly_inside(bad):
    with pytest.raises(ParameterError):
        RandomizedResponse.from_coins(truth=bad)
    with pytest.raises(ParameterError):
        RandomizedResponse.from_coins(yes=bad)


@each(("start", "stop"), [(0, 1), (3, 6), (9, 17), (7, 8)])
def test_a_slice_of_booleans_carries_nothing_of_its_neighbors(start, stop):
    """At epsilon 44 noise is negligible: what lies in the buffer beside the slice is what the neighbors said."""
    m = RandomizedResponse(epsilon=44)
    hidden = []
    for neighbors in (False, True):
        values = np.full(24, neighbors)
        values[start:stop] = True
        report = m.perturb(pa.array(values)[start:stop])
        assert report.to_pylist() == [True] * (stop - start)
        bits = np.unpackbits(np.frombuffer(report.buffers()[1], np.uint8), bitorder="little")
        hidden.append([*bits[: report.offset], *bits[report.offset + len(report) :]])
    assert hidden[0] == hidden[1]


def test_an_epsilon_that_is_accepted_can_be_estimated_with():
    m = RandomizedResponse(epsilon=1e-17)
    assert np.isfinite(m.estimate(m.tally([True] * 10)).counts).all()
    assert np.isfinite(m.accuracy(10))
    assert np.isfinite(m.variance(10))


def test_standard_errors_of_unequal_coins():
    """The two estimates add up to n, so they have one standard error; `variance` is the last value's."""
    m = RandomizedResponse.from_coins(truth=0.5, yes=0.25)
    h = m.estimate(Tally(1000, np.array([600, 400]), m.fingerprint))
    np.testing.assert_allclose(h.standard_errors, np.sqrt(m.variance(1000, h.counts[1])))
