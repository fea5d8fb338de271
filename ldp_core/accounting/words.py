"""An epsilon in plain words, for `PrivacyPlan.explain`."""

from __future__ import annotations

import math
from fractions import Fraction

from ldp_core.accounting.people import best_guess
from ldp_core.exact.probability import exp_above


def promise(what: str, epsilon: float, *, values: int = 2, delta: float = 0.0) -> str:
    """A sentence: the most that ``what`` tells anybody about a person. All numbers are rounded up.

    The odds of two values after the reports are seen are the odds before, times a ratio of probabilities, whose
    logarithm is at most epsilon (Bayes). With a delta there is no such factor, and only the guess is said.

    >>> promise("one record", 1.0)
    'one record (epsilon 1): odds between two values change at most 2.72-fold; of 2 equally likely values the right \
one is guessed at most 73.2 % of the time (50 % without)'
    """
    spent = f"epsilon {_up(epsilon, 4)}" + (f", delta {delta:.3g}" if delta else "")
    odds = "" if delta else f"odds between two values change at most {_factor(epsilon)}-fold; "
    guess = f"of 2 equally likely values the right one is guessed at most {_percent(epsilon, 2, delta)} of the time"
    guess += " (50 % without)"
    more = f", of {values} at most {_percent(epsilon, values, delta)} ({100 / values:.3g} %)" if values > 2 else ""
    return f"{what} ({spent}): {odds}{guess}{more}"


def _factor(epsilon: float) -> str:
    if epsilon > 100:
        return "more than 10^43"
    factor = Fraction(exp_above(epsilon))
    if factor < _MILLION:
        return _up(factor, 3)
    least = _exponent(factor)
    return f"10^{least if 10**least >= factor else least + 1}"


_MILLION = 10**6


def _percent(epsilon: float, values: int, delta: float) -> str:
    """One decimal; near 100 % as many as it takes to tell the difference."""
    percent = 100 * Fraction(best_guess(epsilon, values=values, delta=delta))
    places = max(-_exponent(100 - percent), 1) if percent < 100 else 0
    return f"{float(math.ceil(percent * 10**places) / Fraction(10) ** places):.{places}f} %".replace(".0 %", " %")


def _up(x: Fraction | float, digits: int) -> str:
    """``x`` with so many significant digits, rounded up."""
    exact = Fraction(x)
    if not exact:
        return "0"
    unit = Fraction(10) ** (_exponent(exact) - digits + 1)
    value = float(math.ceil(exact / unit) * unit)
    return f"{value:,.0f}" if 1000 <= value < 1e6 else f"{value:.{digits}g}"


def _exponent(x: Fraction) -> int:
    return math.floor(math.log10(x))
