"""Numbers that others computed: closed forms, what peers print, worked examples (`acceptance.json`)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ldp_core import ParameterError, RandomizedResponse, Tally, UnaryEncoding

ACCEPTANCE = json.loads((Path(__file__).parent / "acceptance.json").read_text())
PEERS = ACCEPTANCE["epsilon_from_parameters"]
close = pytest.approx


def exactly(value):
    return close(value, rel=1e-12, abs=0)


def n_var(m) -> float:
    return m.variance(1)


@pytest.mark.parametrize("row", ACCEPTANCE["n_var"], ids=lambda row: str(row["epsilon"]))
def test_variances(row):
    epsilon = row["epsilon"]
    for d, expected in row["GRR"].items():
        assert n_var(RandomizedResponse(range(int(d)), epsilon=epsilon)) == exactly(expected)
    for d in (2, 16, 300):
        assert n_var(UnaryEncoding(range(d), epsilon=epsilon)) == exactly(row["OUE"])
        assert n_var(UnaryEncoding(range(d), epsilon=epsilon, variant="symmetric")) == exactly(row["SUE"])


@pytest.mark.parametrize("f", [0, 0.01, 0.3, 1])
@pytest.mark.parametrize("n", [1, 1000])
def test_variance_is_the_exact_form_in_the_count(f, n):
    for m in (RandomizedResponse(range(16), epsilon=1), UnaryEncoding(range(16), epsilon=1)):
        p, q = m.p, m.q
        expected = n * (q * (1 - q) / (p - q) ** 2 + f * (1 - p - q) / (p - q))  # the other way to write it
        assert m.variance(n, f * n) == exactly(expected)
    np.testing.assert_allclose(m.variance(n, np.array([0, f * n])), [m.variance(n), m.variance(n, f * n)], rtol=1e-15)


@pytest.mark.parametrize("row", ACCEPTANCE["mechanism_parameters"], ids=lambda row: str(row["epsilon"]))
def test_p_and_q(row):
    epsilon = row["epsilon"]
    for m, expected in (
        (RandomizedResponse(range(16), epsilon=epsilon), row["GRR_d16"]),
        (UnaryEncoding(range(16), epsilon=epsilon), row["OUE"]),
        (UnaryEncoding(range(16), epsilon=epsilon, variant="symmetric"), row["SUE"]),
    ):
        assert (m.p, m.q) == (exactly(expected["p"]), exactly(expected["q"]))
        assert m.realised_epsilon == exactly(epsilon)
        assert m.epsilon == epsilon


@pytest.mark.parametrize("row", PEERS["bool"], ids=lambda row: str(row["p"]))
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


@pytest.mark.parametrize("row", PEERS["categorical"], ids=str)
def test_p_of_categorical_randomized_response(row):
    k, p, epsilon = row["k"], row["p"], row["epsilon"]
    if epsilon < 1e-15:  # p = 1/k is epsilon 0, which the peer rounds up
        return
    m = RandomizedResponse(range(k), epsilon=epsilon)
    assert m.p == exactly(p)
    assert math.log(m.p * (k - 1) / (1 - m.p)) == exactly(epsilon)


# A weight above 1 is a record of several values; here a record has one value, so those rows do not apply.
@pytest.mark.parametrize("row", [r for r in PEERS["bit_vector"] if r["max_weight"] == 1], ids=lambda row: str(row["f"]))
def test_epsilon_of_a_bit_vector(row):
    m = UnaryEncoding.from_probabilities([1, 2, 3], p=1 - row["f"] / 2, q=row["f"] / 2)
    assert m.epsilon == exactly(row["epsilon"])


@pytest.mark.parametrize("row", PEERS["unary_encoding"])
def test_epsilon_of_unary_encoding(row):
    assert UnaryEncoding.from_probabilities([1, 2], p=row["p"], q=row["q"]).epsilon == exactly(row["epsilon"])


@pytest.mark.parametrize("row", ACCEPTANCE["two_coin"], ids=lambda row: f"{row['h1']}, {row['h2']}")
def test_two_coins(row):
    m = RandomizedResponse.from_coins(truth=1 - row["h1"], yes=row["h2"])
    assert m.epsilon == exactly(row["epsilon"])
    assert m.realised_epsilon == exactly(row["epsilon"])
    (_, yes_of_yes), (_, yes_of_no) = m.expected_parts()
    assert (float(yes_of_yes), float(yes_of_no)) == (exactly(row["p_yes_given_yes"]), exactly(row["p_yes_given_no"]))
    assert (m.p, m.q) == (float(yes_of_yes), float(yes_of_no))


@pytest.mark.parametrize("row", ACCEPTANCE["debias_bit_vector"], ids=lambda row: str(row["f"]))
def test_debiased_bit_vectors(row):
    d = len(row["counts"])
    m = UnaryEncoding.from_probabilities(range(d), p=1 - row["f"] / 2, q=row["f"] / 2)
    estimate = m.estimate(Tally(row["n"], np.array(row["counts"]), m.fingerprint))
    np.testing.assert_allclose(estimate.counts, row["estimate"], rtol=1e-12, atol=1e-12)


def test_a_bit_vector_without_information_is_an_error_not_infinity():
    with pytest.raises(ParameterError):
        UnaryEncoding.from_probabilities(range(8), p=0.5, q=0.5)


@pytest.mark.parametrize("row", ACCEPTANCE["estimators"], ids=lambda row: row["mechanism"])
def test_estimators(row):
    make = {"OUE": UnaryEncoding, "GRR": RandomizedResponse}[row["mechanism"]]
    m = make(range(len(row["counts"])), epsilon=row["epsilon"])
    estimate = m.estimate(Tally(row["n"], np.array(row["counts"]), m.fingerprint))
    np.testing.assert_allclose(estimate.counts, row["estimate"], rtol=1e-12)
    np.testing.assert_allclose(estimate.frequencies, np.array(row["estimate"]) / row["n"], rtol=1e-12)
    inside = np.clip(row["estimate"], 0, row["n"])
    np.testing.assert_allclose(estimate.standard_errors, np.sqrt(m.variance(row["n"], inside)), rtol=1e-12)
    for end in (estimate.low, estimate.high):  # each is 1.96 of its own standard errors away
        sigma = np.sqrt(m.variance(row["n"], end))
        np.testing.assert_allclose(np.abs(estimate.counts - end), 1.959963984540054 * sigma, rtol=1e-12)
    assert np.all((estimate.low < estimate.counts) & (estimate.counts < estimate.high))


ACCURACY = [
    RandomizedResponse(epsilon=1),
    RandomizedResponse(range(16), epsilon=2),
    UnaryEncoding(range(16), epsilon=1),
]


@pytest.mark.parametrize("m", ACCURACY, ids=str)
@pytest.mark.parametrize(("n", "beta"), [(1, 0.5), (1000, 0.05), (10**9, 1e-6)])
def test_accuracy_is_the_closed_form(m, n, beta):
    assert m.accuracy(n, beta) == exactly(math.sqrt(math.log(2 / beta) / (2 * n)) / (m.p - m.q))


@pytest.mark.parametrize("m", ACCURACY, ids=str)
@pytest.mark.parametrize("f", [0, 0.4])
def test_accuracy_holds(m, f):
    """|error| >= alpha in at most beta of the repetitions; a binomial bound on how many there may be."""
    rng = np.random.default_rng(1)
    n, beta, repetitions = 2000, 0.1, 20_000
    alpha = m.accuracy(n, beta)
    true = round(f * n)
    support = rng.binomial(true, m.p, repetitions) + rng.binomial(n - true, m.q, repetitions)
    error = (support - n * m.q) / (m.p - m.q) / n - f
    assert np.mean(np.abs(error) >= alpha) <= beta


@pytest.mark.parametrize(("n", "beta"), [(0, 0.1), (-1, 0.1), (10, 0), (10, 1), (10, math.nan), (10, -0.1)])
def test_accuracy_refuses(n, beta):
    with pytest.raises(ParameterError):
        RandomizedResponse(epsilon=1).accuracy(n, beta)
