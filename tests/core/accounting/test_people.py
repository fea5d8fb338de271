"""What people spend: never below the exact number, and randomized response attains what is said of a guess."""

import itertools
import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_core import (
    Hybrid,
    ParameterError,
    RandomizedResponse,
    best_guess,
    parallel_epsilon,
    required_n,
    sampled_epsilon,
    shuffled_epsilon,
    total_epsilon,
)
from ldp_core.plans.explanation import promise

from ...cases import each
from ..checks import exact_exp, exact_ln, fails
from ..enumeration import Every, worst_ratio

EPSILONS = st.floats(1e-9, 100)
SHARES = st.floats(0, 1)


def check_sampled(bound: float, epsilon: float, share: float) -> None:
    exact = exact_ln(1 + Fraction(share) * (exact_exp(epsilon) - 1))
    assert exact <= bound <= float(exact) * (1 + 1e-15) + 1e-53  # (the margin of `log_above`)


@given(epsilon=EPSILONS, share=SHARES)
def test_a_sample(epsilon, share):
    check_sampled(sampled_epsilon(epsilon, share), epsilon, share)


def test_a_sample_at_the_ends():
    assert sampled_epsilon(2.0, 1.0) == 2.0
    assert sampled_epsilon(1000.0, 0.5) == 1000.0
    assert sampled_epsilon(1.0, 0) <= 1e-50
    fails(check_sampled, math.nextafter(sampled_epsilon(1.0, 0.1), 0), 1.0, 0.1)  # rounded down


def test_a_sample_whose_rest_sends_a_fixed_value_spends_no_more():
    """The exact loss: with probability q the person's own report, else one of the first value."""
    m, q = RandomizedResponse(range(4), epsilon=1.5), Fraction(1, 8)
    tables = [Every(m.perturb_codes, code).table for code in range(4)]
    mixed = [{report: q * t[report] + (1 - q) * tables[0][report] for report in t} for t in tables]
    spent = exact_ln(worst_ratio(mixed))
    assert 0.9 * sampled_epsilon(1.5, 0.125) < spent <= sampled_epsilon(1.5, 0.125)


def test_groups_and_totals():
    assert parallel_epsilon(iter([0.5, 2.0])) == 2.0
    assert total_epsilon(0.1, reports=3) >= 3 * Fraction(0.1)
    assert total_epsilon(0.1, reports=3, windows=2) == pytest.approx(0.6)
    assert total_epsilon(1e308, reports=100) == math.inf


@given(epsilon=EPSILONS, reports=st.integers(1, 10**6), windows=st.integers(1, 10**6))
def test_totals_are_rounded_up(epsilon, reports, windows):
    exact = Fraction(epsilon) * reports * windows
    assert exact <= total_epsilon(epsilon, reports=reports, windows=windows) <= exact * (1 + Fraction(1, 2**52))


# ---- what a guesser gets


def bayes(tables, d: int) -> Fraction:
    """The success of the best guess of d equally likely values: after each report the likeliest one."""
    return sum(max(table[report] for table in tables) for report in tables[0]) / d


@each("epsilon", [0.1, 1.0, 4.0])
@each("d", [2, 3, 16])
def test_randomized_response_attains_the_guess(epsilon, d):
    m = RandomizedResponse(range(d), epsilon=epsilon)
    success = bayes([Every(m.perturb_codes, code).table for code in range(d)], d)
    bound = best_guess(epsilon, values=d)
    assert bound * (1 - 1e-12) < success <= bound
    assert success > math.nextafter(best_guess(epsilon * 0.999, values=d), 0)  # a smaller epsilon is refuted


@each("delta", [0.0, 0.01, 0.3, 1.0])
@each("d", [2, 5])
def test_a_guess_after_reveal_or_randomized_response(d, delta):
    """With probability delta the value itself, else randomized response, is (epsilon, delta)-private and attains it.

    (e^epsilon + (d - 1) delta) / (e^epsilon + d - 1) = delta + (1 - delta) e^epsilon / (e^epsilon + d - 1).
    """
    exact = Fraction(delta) + (1 - Fraction(delta)) * exact_exp(1.0) / (exact_exp(1.0) + d - 1)
    assert exact <= best_guess(1.0, values=d, delta=delta) <= float(exact) * (1 + 1e-15)


def test_guesses_at_the_ends():
    assert best_guess(0, values=4) == pytest.approx(0.25)
    assert best_guess(1e300) == best_guess(101.0) == 1.0


# ---- words


def test_words():
    line = promise("one record", 1.0, values=16)
    assert "epsilon 1)" in line
    assert "2.72-fold" in line  # e = 2.71828
    assert "at most 73.2 % of the time (50 % without), of 16 at most 15.4 % (6.25 %)" in line  # 73.106 and 15.341
    line = promise("a histogram", 0.015282, delta=1e-6)
    assert "epsilon 0.01529, delta 1e-06" in line
    assert "odds" not in line
    assert "at most 50.4 %" in line  # 50.382
    assert "epsilon 0," in promise("a histogram", 0.0, delta=0.5)
    assert "most 100 % of" in promise("x", 1e6)
    assert "at most 1,100-fold" in promise("x", 7.0)  # 1096.6
    assert "at most 99.91 %" in promise("x", 7.0)  # 99.9089


@given(epsilon=st.floats(1e-6, 90))
def test_numbers_in_words_are_rounded_up(epsilon):
    pattern = r"x \(epsilon (\S+)\): .* most (\S+)-fold; .* most (\S+) % of the time \(50 % without\)"
    spent, factor, percent = (
        float(found.replace(",", "").replace("10^", "1e"))
        for found in re.fullmatch(pattern, promise("x", epsilon)).groups()
    )
    assert epsilon * (1 - 1e-15) <= spent <= epsilon * 1.0011
    assert math.exp(epsilon) * (1 - 1e-14) <= factor <= math.exp(epsilon) * (1.0101 if factor < 1e6 else 10)
    assert best_guess(epsilon) - 1e-12 <= percent / 100 < best_guess(epsilon) + 0.0011


# ---- refusals


@each(
    ("call", "message"),
    [
        (lambda: shuffled_epsilon(-1.0, 10, 0.1), r"epsilon must be in \(0, inf\)"),
        (lambda: shuffled_epsilon(1.0, 0, 0.1), "n must be an integer, at least 1, got 0"),
        (lambda: shuffled_epsilon(1.0, 10, 0.0), r"delta must be in \(0, 1\)"),
        (lambda: shuffled_epsilon(1.0, 10, 0.1, method="numeric"), 'method must be "numerical" or "closed form"'),
        (lambda: sampled_epsilon(1.0, 1.5), r"share must be a probability"),
        (lambda: parallel_epsilon([]), "at least one"),
        (lambda: parallel_epsilon(None), "at least one, got None"),
        (lambda: parallel_epsilon(1.0), "at least one, got 1.0"),
        (lambda: required_n(RandomizedResponse(epsilon=1.0), margin=1e-300), "ask for a wider margin"),
        (lambda: required_n(Hybrid((0, 1), epsilon=1.0), margin=1e-300), "ask for a wider margin"),
        (lambda: parallel_epsilon([math.nan]), r"epsilon must be in \(0, inf\)"),
        (lambda: total_epsilon(1.0, reports=0), "reports must be an integer"),
        (lambda: total_epsilon(1.0, reports=1, windows=2.5), "windows must be an integer"),
        (lambda: best_guess(1.0, values=1), "values must be an integer, at least 2"),
        (lambda: best_guess(None), "epsilon must be a number"),
        (lambda: best_guess(-1.0), r"epsilon must be in \(0, inf\)"),
        (lambda: RandomizedResponse(epsilon=1.0).shuffled(0, 0.1), "n must be an integer"),
        (lambda: RandomizedResponse(epsilon=1.0).shuffled(10, 1), r"delta must be in \(0, 1\)"),
    ],
)
def test_arguments_are_checked(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_the_closed_form_is_the_larger_one():
    for epsilon, n in itertools.product((0.5, 1.0, 2.0), (10_000, 10**6)):
        closed = shuffled_epsilon(epsilon, n, 1e-6, method="closed form")
        assert shuffled_epsilon(epsilon, n, 1e-6) < closed / 3
