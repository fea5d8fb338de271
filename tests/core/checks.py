"""What the tests measure with: exact arithmetic, statistical checks that cannot flake, scripted randomness.

Each statistical check raises `AssertionError` when its data have a probability below `FALSE_ALARM`
under what they should be, however many numbers it looks at (Bonferroni): a red check is a fault.
Each is shown in `test_planted_faults.py` to fail on one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from ldp_core.exact.sampling import ONE

FALSE_ALARM = 1e-8


def slow(*parameters):
    """Parameters of a test that run with the long tests."""
    return pytest.param(*parameters, marks=pytest.mark.slow)


_PRECISE = Context(prec=150)


# ---- exact arithmetic, independent of ldp_core.exact.probability (150 digits there, 60 here)


def exact_ln(ratio: Fraction) -> Decimal:
    """ln(ratio) with an error below 10^-100 for the ratios in these tests."""
    return _PRECISE.subtract(_PRECISE.ln(Decimal(ratio.numerator)), _PRECISE.ln(Decimal(ratio.denominator)))


def exact_exp(x: float | Fraction) -> Fraction:
    """exp(x) with a relative error below 10^-100."""
    x = Fraction(x)
    return Fraction(_PRECISE.exp(_PRECISE.divide(Decimal(x.numerator), Decimal(x.denominator))))


# ---- statistical checks


def check_binomial(successes, n, p) -> None:
    """Each of ``successes`` is a plausible number of successes in ``n`` trials of probability ``p``; exact tails."""
    successes, n, p = np.broadcast_arrays(successes, n, np.asarray(p, float))
    tail = 2 * np.minimum(stats.binom.cdf(successes, n, p), stats.binom.sf(successes - 1, n, p))
    worst = np.unravel_index(np.argmin(tail), tail.shape)
    assert tail[worst] * tail.size > FALSE_ALARM, (
        f"{successes[worst]} successes of {n[worst]} at p = {p[worst]} (cell {tuple(map(int, worst))}): "
        f"probability {tail[worst]:.2g}, {tail.size} cells"
    )


def check_uniform(counts) -> None:
    """``counts`` are plausible counts of equally likely values."""
    probability = stats.chisquare(counts).pvalue
    assert probability > FALSE_ALARM, f"not uniform: chi-square probability {probability:.2g}"


def ones(packed: np.ndarray) -> int:
    return int(np.bitwise_count(packed).sum(dtype=np.int64))


def check_bits(packed: np.ndarray, p: Fraction, block: int = 1 << 17) -> None:
    """``packed`` holds independent bits of probability ``p``: all of them, by position, and in pairs.

    Pairs: neighbours in a byte, the same bit of neighbouring bytes, and of bytes one ``block`` apart
    (a reused buffer). Pairs do not overlap, so that each count is binomial.
    """
    n = len(packed)
    check_binomial(ones(packed), 8 * n, p)
    check_binomial([ones(packed & np.uint8(1 << i)) for i in range(8)], n, p)
    both = [ones((packed >> np.uint8(1)) & packed & np.uint8(1 << i)) for i in range(7)]
    check_binomial(both, n, p**2)
    check_binomial(ones(packed[0 : n - 1 : 2] & packed[1:n:2]), 8 * (n // 2), p**2)
    pairs = packed[: n // (2 * block) * 2 * block].reshape(-1, 2, block)
    if len(pairs):
        check_binomial(ones(pairs[:, 0] & pairs[:, 1]), 8 * len(pairs) * block, p**2)


def check_marginals(codes: np.ndarray, supported: np.ndarray, expected: np.ndarray) -> None:
    """``supported`` (bool[n, d]) has, among rows of code ``x``, value ``v`` with probability ``expected[x, v]``."""
    n_inputs, d = expected.shape
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes, minlength=n_inputs)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    rows = supported[order]
    counts = np.array([rows[s : s + k].sum(axis=0) for s, k in zip(starts, sizes, strict=True)]).reshape(n_inputs, d)
    check_binomial(counts, np.broadcast_to(sizes[:, None], counts.shape), expected)


def check_rows_independent(bits: np.ndarray, probabilities: np.ndarray) -> None:
    """Rows of ``bits`` (bool[n, d], all of one true value) do not depend on each other, nor columns."""
    n, d = bits.shape
    p = np.asarray(probabilities, float)
    half = n // 2
    check_binomial((bits[: 2 * half : 2] & bits[1 : 2 * half : 2]).sum(axis=0), half, p**2)
    check_binomial((bits[:half] & bits[half : 2 * half]).sum(axis=0), half, p**2)
    if d > 1:
        check_binomial((bits[:, :-1] & bits[:, 1:]).sum(axis=0), n, p[:-1] * p[1:])


def check_moments(estimates, true, variance, sigmas: float = 3) -> None:
    """Mean and variance of runs are so many standard errors near what they should be: for noise that is seeded.

    ``estimates`` are float[runs] or float[runs, values]; their standard errors are those of the normal distribution.
    """
    runs, variance = len(estimates), np.asarray(variance, float)
    bias = (estimates.mean(axis=0) - true) / np.sqrt(variance / runs)
    assert np.abs(bias).max() < sigmas, f"mean: {np.abs(bias).max():.1f} standard errors"
    spread = (estimates.var(axis=0, ddof=1) / variance - 1) / np.sqrt(2 / (runs - 1))
    assert np.abs(spread).max() < sigmas, f"variance: {np.abs(spread).max():.1f} standard errors"


def empirical_epsilon(reports_of: list[np.ndarray]) -> float:
    """A lower bound of epsilon from samples: the best ln(TPR_low / FPR_high) over pairs of inputs and outputs.

    ``reports_of[x]`` are output numbers drawn for input ``x``. The Clopper-Pearson bounds hold all
    together with probability 1 - `FALSE_ALARM`, so that the result exceeds the true epsilon no more often.
    """
    n_outputs = max(int(r.max()) for r in reports_of) + 1
    counts = np.array([np.bincount(r, minlength=n_outputs) for r in reports_of])
    n = np.array([[len(r)] for r in reports_of])
    alpha = FALSE_ALARM / (2 * counts.size)
    low = np.where(counts > 0, stats.beta.ppf(alpha, counts, n - counts + 1), 0)
    high = np.where(counts < n, stats.beta.isf(alpha, counts + 1, n - counts), 1)
    with np.errstate(divide="ignore"):
        return float(np.max(np.log(low[:, None]) - np.log(high[None, :])))


# ---- scripted randomness and a slow reference for exactness


class Scripted:
    """A `Randomness` that asks ``source(call_number, n)`` for bytes and remembers what it gave."""

    def __init__(self, source: Callable[[int, int], np.ndarray]) -> None:
        self.given: list[np.ndarray] = []
        self._source = source

    def bytes(self, n: int) -> np.ndarray:
        data = np.asarray(self._source(len(self.given), n), np.uint8)
        assert data.shape == (n,)
        self.given.append(data)
        return data.copy()


def almost_tied(threshold: int, seed: int, agree: float) -> Scripted:
    """Bytes whose bits of U agree with those of the threshold with probability ``agree``, so that ties run deep."""
    rng = np.random.default_rng(seed)

    def source(call: int, n: int) -> np.ndarray:
        head = threshold >> (56 - 8 * call) & 255
        rest = threshold & ((1 << (56 - 8 * call)) - 1)
        depth = 8 if rest else 8 - ((head & -head).bit_length() - 1)
        m = n // depth
        bits = rng.random((depth, m, 8)) < agree
        for i in range(depth):
            if head >> (7 - i) & 1:  # a set bit of a plane means a 0 in U: agreeing with a 1 is a 0 there
                bits[i] = ~bits[i]
        return np.packbits(bits, axis=-1, bitorder="little").reshape(-1)

    return Scripted(source)


def decisions_from_planes(threshold: int, given: list[np.ndarray], n_bytes: int) -> Iterator[tuple[int, int, int]]:
    """(decision number, least U, greatest U) of each decision, from the bytes that one block of decisions consumed.

    A request for more bytes is for those words of output (four bytes if their number is a multiple of four, else
    one) in which some decision agrees with the threshold in all the bits of the last request (not: of all
    requests, so that a few are drawn needlessly).
    """
    prefixes = [0] * (8 * n_bytes)
    lengths = [0] * (8 * n_bytes)
    active = list(range(n_bytes))
    for data in given:
        depth, rest = divmod(len(data), len(active))
        assert rest == 0
        planes = data.reshape(depth, len(active))
        for k, byte in enumerate(active):
            for bit in range(8):
                at = 8 * byte + bit
                for plane in planes[:, k]:
                    prefixes[at] = prefixes[at] << 1 | (1 - (int(plane) >> bit & 1))
                    lengths[at] += 1
        last = (1 << depth) - 1
        tied = [
            any((prefixes[at] ^ threshold >> (64 - lengths[at])) & last == 0 for at in range(8 * byte, 8 * byte + 8))
            for byte in active
        ]
        word = 1 if len(active) % 4 else 4
        active = [byte for k, byte in enumerate(active) if any(tied[k - k % word : k - k % word + word])]
    for at, (prefix, length) in enumerate(zip(prefixes, lengths, strict=True)):
        assert length <= 64
        low = prefix << (64 - length)
        yield at, low, low + (1 << (64 - length)) - 1


def check_exact_decisions(threshold: int, packed: np.ndarray, given: list[np.ndarray]) -> None:
    """Every decision is U < threshold, whatever the bits of U that were not drawn."""
    assert 0 < threshold < ONE
    for at, low, high in decisions_from_planes(threshold, given, len(packed)):
        assert (low < threshold) == (high < threshold), "decided before it was settled"
        assert bool(packed[at // 8] >> (at % 8) & 1) == (low < threshold)


def fails(check, *arguments) -> None:
    with pytest.raises(AssertionError):
        check(*arguments)
