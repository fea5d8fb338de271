"""Examples of mechanisms for numbers; their channels by enumeration; checks of means and intervals."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from ldp_core import Hybrid, NOutput, OneBitMean, Piecewise, SquareWave, StochasticRounding
from ldp_core.inputs.interval import STEPS
from ldp_core.mechanisms.numbers import base as numeric

from ...enumeration import Every

SIDE = (-1.0, 1.0)
SYMBOLS = {
    "one bit": OneBitMean(SIDE, epsilon=1.0),
    "one bit, epsilon 3": OneBitMean(SIDE, epsilon=3.0),
    "piecewise": Piecewise(SIDE, epsilon=4.0),
    "piecewise, epsilon 7": Piecewise(SIDE, epsilon=7.0),
    "hybrid": Hybrid(SIDE, epsilon=4.0),
    "hybrid, epsilon 0.5": Hybrid(SIDE, epsilon=0.5),
    "N outputs": NOutput(SIDE, epsilon=1.0),
    "N outputs, epsilon 4": NOutput(SIDE, epsilon=4.0),
    "square wave": SquareWave(SIDE, epsilon=1.0, buckets=10),
    "square wave, 2 buckets": SquareWave(SIDE, epsilon=0.5, buckets=2),
}
ROUNDED = {
    "rounding, k-RR": StochasticRounding(SIDE, epsilon=2.0, buckets=5, oracle="randomized_response"),
    "rounding, OUE": StochasticRounding(SIDE, epsilon=1.0, buckets=4),
    "rounding, SUE": StochasticRounding(
        SIDE, epsilon=1.0, buckets=9, oracle={"mechanism": "unary_encoding", "variant": "symmetric"}
    ),
    "rounding, subsets": StochasticRounding(SIDE, epsilon=1.0, buckets=8, oracle="subset_selection"),
    "rounding, Hadamard": StochasticRounding(SIDE, epsilon=1.0, buckets=6, oracle="hadamard_response"),
}
ALL = SYMBOLS | ROUNDED
CODES = [0, 1, STEPS // 3, STEPS // 2, STEPS - 1, STEPS]


def true_share(m, code) -> Fraction:
    """What a report's value should be on average: the number, or the middle of its bucket."""
    if isinstance(m, SquareWave):
        return Fraction(2 * min(code * m.buckets // STEPS, m.buckets - 1) + 1, 2 * m.buckets)
    return Fraction(code, STEPS)


# ---- the channel, from the code that perturbs


def enumerated(m, code) -> list[Fraction]:
    """Pr[symbol | code]: all decisions of `perturb_block`, and for the rounding one draw of each stretch in which
    neither of the two roundings that there may be (to points, and to one bit) changes."""
    breaks = {0, STEPS, STEPS - code, STEPS - code * (m.points - 1) % STEPS}
    total = [Fraction(0)] * m.symbols
    for start, stop in pairwise(sorted(breaks)):
        for below in {start, stop - 1}:  # both ends, to see that nothing changes between
            table = Every(m.perturb_block, code, dtype=np.uint32, given={numeric.LANE_ROUND: below}).table
        for symbol, weight in table.items():
            total[int(symbol)] += Fraction(stop - start, STEPS) * weight
    return total


# ---- closed forms, on [-1, 1]


def exact_variance(m, code) -> Fraction:
    """n Var on [-1, 1], from the channel."""
    row, values = m.probabilities(code), m.symbol_values()
    second = sum(p * v**2 for p, v in zip(row, values, strict=True))
    return 4 * (second - true_share(m, code) ** 2)


# ---- samples

N = 100_000
POPULATIONS = {
    "ends and zero": lambda: np.random.default_rng(0).permutation(np.arange(N) % 3 - 1.0),
    "30 % at 0.2": lambda: np.where(np.random.default_rng(1).random(N) < 0.3, 0.2, -0.4),
}


def check_mean(m, numbers, found) -> None:
    """Within 6 standard errors of the noise alone; and the stated error is noise and population together."""
    levels, counts = np.unique(numbers, return_counts=True)
    n = len(numbers)
    noise = sum(c * m.variance(1, x) for x, c in zip(levels.tolist(), counts.tolist(), strict=True)) / n**2
    reported = numbers
    if isinstance(m, SquareWave):  # which knows of a number nothing but its bucket
        bucket = np.minimum(np.floor((numbers + 1) / 2 * m.buckets), m.buckets - 1)
        reported = (2 * bucket + 1) / m.buckets - 1
    assert abs(found.mean - reported.mean()) < 6 * np.sqrt(noise)
    assert found.standard_error == pytest.approx(np.sqrt(noise + reported.var() / n), rel=0.05)
    assert found.low < found.mean < found.high
    assert found.n == n


def coverage(m, numbers, runs, n) -> float:
    """Share of 95 % intervals that hold the mean of the population from which n numbers are drawn each time."""
    rng = np.random.default_rng(4)
    codes = m.inputs.encode(numbers)
    row = np.mean([[float(p) for p in m.probabilities(int(code))] for code in codes], axis=0)
    counts = rng.multinomial(n, row / row.sum(), size=runs)
    _, _, low, high = m.means(np.full(runs, n), counts)
    return float(np.mean((low <= numbers.mean()) & (numbers.mean() <= high)))
