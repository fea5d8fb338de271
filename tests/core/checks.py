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

from ldp_core.compute import compiled
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

    Pairs: neighbors in a byte, the same bit of neighboring bytes, and of bytes one ``block`` apart
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


def almost_tied(threshold: int, seed: int, agree: float, n_bytes: int) -> Scripted:
    """Bytes for so many of decisions, whose bits of U agree with those of the threshold with probability ``agree``."""
    rng = np.random.default_rng(seed)
    words, planes = layout(threshold, n_bytes)

    def source(call: int, n: int) -> np.ndarray:
        first = 8 * planes * words if call == 0 else 0
        bits = rng.random((first // 8 // max(words, 1), 8 * words, 8)) < agree
        for i in range(len(bits)):
            if threshold >> (63 - i) & 1:  # a set bit of a plane means a 0 in U: agreeing with a 1 is a 0 there
                bits[i] = ~bits[i]
        tails = rng.random(((n - first) // 8, 64)) < agree
        tails ^= np.array([not threshold << 8 >> i & 1 for i in range(64)])  # bit i of each word
        parts = (np.packbits(part, axis=-1, bitorder="little").reshape(-1) for part in (bits, tails))
        return np.concatenate(list(parts))

    return Scripted(source)


def layout(threshold: int, n_bytes: int) -> tuple[int, int]:
    """Words of decisions, and planes of leading bits: one of them decides where the threshold is one half."""
    return -(-n_bytes // 8), 1 if threshold == ONE // 2 else 8


def intervals_of_decisions(threshold: int, given: list[np.ndarray], n_bytes: int) -> Iterator[tuple[int, int, int]]:
    """(decision number, least U, greatest U) of each decision, from the bytes that one block of decisions consumed.

    Eight planes of leading bits, then a word for each decision whose leading bits are those of the threshold.
    """
    words, planes = layout(threshold, n_bytes)
    data = np.concatenate(given)
    leading = data[: 8 * planes * words].reshape(planes, 8 * words)
    tails = iter(data[8 * planes * words :].view("<u8").tolist())
    for at in range(64 * words):
        low = sum((1 - (int(plane[at // 8]) >> at % 8 & 1)) << 63 - i for i, plane in enumerate(leading))
        if planes == 8 and low >> 56 == threshold >> 56 and threshold % (1 << 56):
            low |= next(tails) >> 8
            yield at, low, low
        else:
            yield at, low, low + (1 << 64 - planes) - 1


def check_exact_decisions(threshold: int, packed: np.ndarray, given: list[np.ndarray]) -> None:
    """Every decision is U < threshold, whatever the bits of U that were not drawn."""
    assert 0 < threshold < ONE
    bits = np.unpackbits(packed, bitorder="little").tolist()
    for at, low, high in intervals_of_decisions(threshold, given, len(packed)):
        assert (low < threshold) == (high < threshold), "decided before it was settled"
        if at < len(bits):
            assert bool(bits[at]) == (low < threshold)


def by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that puts something in the place of numpy code: no compiled loop does the same."""
    monkeypatch.setattr(compiled, "_mode", lambda: "numpy")


def fails(check, *arguments) -> None:
    """A check, or a test, sees a fault. (Hypothesis may find it in several ways.)"""
    with pytest.raises((AssertionError, ExceptionGroup)):
        check(*arguments)
