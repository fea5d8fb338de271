"""What the reports of n people reveal of one of them, once nobody can tell whose report is whose.

Each of n people sends one report of a mechanism that is epsilon_0-private by itself; then identities, order and
arrival times are taken off (a shuffle; a histogram does the same). What remains is (epsilon, delta)-private with a
much smaller epsilon, as the other reports hide the one. Neighbors are two data sets that differ in one person's value.

**The reduction.** Let R_v be the law of a report of value v, and compare the person's values x and x'. Suppose that
there are laws A, B, N of a report with

    R_x  = p1 A + p2 B + p3 N        R_x' = p2 A + p1 B + p3 N        (p1 >= p2, p1 + p2 + p3 = 1)
    R_v >= w A + w B + r N           for every value v

Then each other report is, with probability 2 w + r, drawn from A, B or N whatever its value is: it is a *clone*.
Given how many reports are drawn from A, from B and from N, that of the person included, the shuffled reports can be
made from these three numbers and the other people's values; so they reveal no more of the person than the numbers do.
Let a, b, c be the numbers of those of n people who draw from A, B and N with probabilities w, w and r. The divergence
of the numbers under x and under x' is

    delta(eps) = E[(a (p1 - e^eps p2) / w + b (p2 - e^eps p1) / w - c (e^eps - 1) p3 / r)_+] / n               (*)

which is Lemma 5.3 of B. Balle, J. Bell, A. Gascon, K. Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019
(arXiv:1903.02837), for this decomposition.

**Any mechanism** (`clones`). V. Feldman, A. McMillan, K. Talwar, "Hiding Among the Clones", FOCS 2021
(arXiv:2012.12803), Theorem 3.2: with e = exp(epsilon_0) there are such laws for p1 = e / (e + 1), p2 = 1 / (e + 1),
w = 1 / (2 e), r = p3 = 0. Their Theorem 3.1 bounds (*) by `closed_form`.

**Two levels** (`two_levels`). For each report y let R_v(y) be m(y) or e m(y), for every value v. Let t be the total
variation distance of R_x and R_x', and w = t / (e - 1). The reports that are likelier under x have e m(y) there and
m(y) under x': together t more, so that they have probability e w under x and w under x'. Those that are likelier
under x' have w under x and e w under x'. They are A and B, with p1 = e w and p2 = w; all others are as likely under x
as under x', and are N. Under any value v is R_v >= m, which has mass w on A, w on B, and at least p3 / e on N: that
is the reduction with r = p3 / e. Or let N be only those that have m(y) under both values, and r = p3: what is left
out has a negative term in (*), so that this is a bound too. The smaller one of both counts. Both are the blanket of
Balle et al. but for a part of N. (S. Wang et al., "Privacy Amplification via Shuffling: Unified, Simplified, and
Tightened", PVLDB 17, 2024, arXiv:2304.05007, have the same parameters, epsilon_0 and t.)

V. Feldman, A. McMillan, K. Talwar, "Stronger Privacy Amplification by Shuffling", SODA 2023 (arXiv:2208.04591), has an
erratum: its Theorem 3.1 does not hold for every mechanism. Nothing here uses it.

**Numerics.** Given m = a + b + c and a + b, a is Bin(a + b, 1/2), and the expectation is a binomial probability and a
binomial tail (`_expected`). Everything is rounded towards a larger delta: probabilities by 1e-11
(`ldp_core.accounting.binomials`); tails by their errors, which are added up beside them; what is left out of a range is
added (1e-7 delta); and values of m, and of very many a + b, are put together in blocks: fewer clones hide less.
The result is on a grid of 2^14 steps an octave, rounded upwards. So it is a bound. It is larger than the exact solution
of (*) by less than 1e-4 of it for any mechanism, and by less than 1e-3 for two levels, in tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from ldp_core.accounting.binomials import ERROR, normal_tail, pmf, spread
from ldp_core.accounting.sums import divergence_of_sums, sums
from ldp_core.arrays.types import F64, I64

NONE = 50.0
"""From this epsilon on no amplification is claimed: fewer than one of 10^21 reports is a clone."""

MOST = 10**10
"""More reports than so many count as so many."""

FINEST = 1e-300
"""For a smaller delta no amplification is claimed: floats end there."""


class Reduction(NamedTuple):
    """``w``, ``r``, and with them (p1 - p2) / w, (p1 + p2) / (2 w), p3 / r; see the module."""

    pair: float
    rest: float
    difference: float
    mean: float
    ratio: float


def clones(epsilon: float) -> Reduction:
    """Of any mechanism that is epsilon-private by itself."""
    e = math.exp(epsilon)
    return Reduction(1 / (2 * e), 0.0, 2 * e * math.tanh(epsilon / 2), e, 0.0)


class Levels(NamedTuple):
    """Of a mechanism of two levels and two values x and x'."""

    distance: Fraction
    """Total variation distance of a report of x and one of x'."""
    greater: Fraction
    """Probability that a report of x is of the greater level, in which it is e m(y).

    A report that is as likely under every value may count as such.
    """


def two_levels(epsilon: float, levels: Levels) -> list[Reduction]:
    """Of a mechanism of two levels that are exp(epsilon) apart: one reduction for each N."""
    e, less_one = math.exp(epsilon), math.expm1(epsilon)
    w = float(levels.distance) / less_one
    equal = 1 - (e + 1) * w
    both = float(levels.greater) - e * w
    some = [(equal / e, e), (equal - both, 1.0)]
    return [Reduction(w, r if r > _NOTHING else 0.0, less_one, (e + 1) / 2, ratio) for r, ratio in some]


_NOTHING = 1e-14  # as much as rounding leaves; what is left out of N makes a bound larger


def amplified(epsilon: float, n: int, delta: float, levels: Iterable[Levels] = ()) -> float:
    """The least epsilon on a grid that is proved for n shuffled reports and this delta; at most ``epsilon``.

    ``levels`` are those of all pairs of values, of a mechanism of two levels that are exactly exp(epsilon) apart. None:
    any mechanism.
    """
    if epsilon >= NONE or delta < FINEST:
        return epsilon
    n = min(n, MOST)
    general = least(Curve(clones(epsilon), n, delta), delta, epsilon)
    bounds = []
    for pair in levels:
        bound = general
        for reduction in two_levels(epsilon, pair):
            bound = least(Curve(reduction, n, delta), delta, bound)
        bounds.append(bound)
    return max(bounds, default=general)


def amplified_sums(p: float, q: float, n: int, delta: float, known: float) -> float:
    """The least epsilon on the grid that is proved for sums of bits, see `ldp_core.accounting.sums`; or ``known``."""
    if known >= NONE or delta < 1e-100:
        return known
    found = 0.0
    for one, other in product(sums(p, q, min(n, MOST), delta), repeat=2):
        curve = partial(divergence_of_sums, one, other, delta=delta)
        if curve(found) > delta:
            found = least(curve, delta, known)
    return found


def closed_form(epsilon: float, n: int, delta: float) -> float:
    """Theorem 3.1 of "Hiding Among the Clones", for ``epsilon`` up to ln(n / (16 ln(4 / delta))); else ``epsilon``.

    ln(1 + (e - 1) / (e + 1) (8 sqrt(e ln(4 / delta) / n) + 8 e / n)), e = exp(epsilon). (The theorem's own condition is
    a little weaker, with 2 in place of the 4; this is that of the authors' program.)
    """
    log = math.log(4 / delta)
    n = min(n, MOST)
    if epsilon >= NONE or math.exp(epsilon) > n / (16 * log):
        return epsilon
    e = math.exp(epsilon)
    bound = math.log1p(math.tanh(epsilon / 2) * (8 * math.sqrt(e * log / n) + 8 * e / n))
    return min(bound * (1 + _ROUNDING), epsilon)


_ROUNDING = 1e-14  # of some ten operations of floats


# ---- the grid

_STEPS = 1 << 14
_LEAST = -40  # the grid begins at 2^-40


def _point(i: int) -> float:
    octave, step = divmod(i, _STEPS)
    return math.ldexp(1 + step / _STEPS, octave + _LEAST)


def _index(epsilon: float) -> int:
    """The first point that is at least ``epsilon``; negative below the grid."""
    mantissa, exponent = math.frexp(epsilon)
    return (exponent - 1 - _LEAST) * _STEPS + math.ceil((2 * mantissa - 1) * _STEPS)


def least(curve: Callable[[float], float], delta: float, known: float) -> float:
    """The first point of the grid at which delta is enough; or ``known``, at which it is, if that is less.

    Delta falls with epsilon. Its logarithm is interpolated, and each guess is moved a little towards the end of the
    bracket that stayed, so that both ends move.
    """

    def excess(i: int) -> float:
        return math.log(curve(_point(i)) / delta)

    high = _index(known)
    if (above := excess(high)) > 0:
        return known
    low, step = high - _STEPS, _STEPS
    while low >= 0 and (below := excess(low)) <= 0:
        low, high, above, step = low - 2 * step, low, below, 2 * step
    if low < 0:
        if curve(0.0) <= delta:
            return 0.0
        low, below = 0, excess(0)
        if high <= 0 or below <= 0:
            return min(_point(0), known)
    aside = 0
    while high - low > 1:
        guess = low + (high - low) * below / (below - above) + aside * ((high - low) // 32 + 1)
        middle = min(max(round(guess), low + 1), high - 1)
        found = excess(middle)
        if found <= 0:
            high, above, aside = middle, found, -1
        else:
            low, below, aside = middle, found, 1
    return min(_point(high), known)


# ---- delta as a function of epsilon


class Curve:
    """An upper bound of (*) as a function of epsilon, for a reduction, n reports, and deltas near the one given."""

    def __init__(self, reduction: Reduction, n: int, delta: float) -> None:
        self._reduction, rest = reduction, _CUT * delta
        w, r, *_ = reduction
        self._left_out = 2 * rest
        # What else is rounded: w and r, as floats, change the probability of what n people send by a factor.
        self._inflation = 1 + 10 * ERROR + 2e-14 * n
        # The person's own law makes one clone of n; the number of the others that are clones:
        clone, none = 2 * w + r, max(1 - 2 * w - r, _TINY)
        low, high = spread(n - 1, clone, none, rest)
        others = np.arange(low, high + 1, dtype=float)
        weights = pmf(others, np.array(float(n - 1)), clone, none)
        self._least = None  # where the numbers of pairs are put together, the least of each block
        if not r:  # every clone is A or B
            many = others.size > _CELLS
            starts = _starts(others.size, _BLOCKS if many else others.size)
            self._m = self._pairs = (others[starts] + 1)[None]
            self._weights = np.add.reduceat(weights, starts)[None] * 2 * w / self._m
            self._least = self._pairs if many else None
            return
        share, other = 2 * w / clone, r / clone
        least, most = (spread(m, share, other, rest) for m in (low, high + 1))
        self._pairs = np.arange(max(least[0] - 1, 0), most[1] + 2, dtype=float)[None]
        blocks = min(max(_CELLS // self._pairs.size, math.ceil(others.size / (_WIDTH * (low + 1)))), others.size)
        starts = _starts(others.size, blocks)
        self._m = (others[starts] + 1)[:, None]
        of_block = np.add.reduceat(weights, starts)[:, None]
        self._weights = of_block * clone / self._m * pmf(self._pairs, self._m, share, other)
        if self._pairs.size > _CELLS or self._weights.size > _PRODUCTS:
            starts = _starts(self._pairs.size, _BLOCKS)
            self._weights = np.add.reduceat(self._weights, starts, axis=1)
            self._least = self._pairs[:, starts]
            self._pairs = np.append(self._least[:, 1:] - 1, self._pairs[:, -1:], axis=1)

    def __call__(self, epsilon: float) -> float:
        """Delta, rounded up."""
        expected = _expected(self._reduction, self._m, self._pairs, epsilon, self._least)
        total = float(np.sum(self._weights * expected)) * self._inflation + self._left_out
        return min(total, 1.0)


_CUT = 5e-8  # of delta
_TINY = 1e-300
_CELLS, _WIDTH = 50_000, 1e-3  # numbers at a time; a block of m is no wider than this share of m, or as these allow
_BLOCKS = 2_000  # of more numbers
_PRODUCTS = 1 << 20  # of both numbers: a delta of 1e-200 has ten times as many, and took a minute


def _starts(size: int, blocks: int) -> I64:
    return np.linspace(0, size, blocks, endpoint=False).astype(np.int64)


def _expected(reduction: Reduction, m: F64, pairs: F64, epsilon: float, least: F64 | None) -> F64:
    """E[(a u - b v - c s)_+] given a + b = ``pairs`` and a + b + c = ``m``, rounded up.

    With c = m - pairs and b = pairs - a it is (u + v) (a - T)_+ with T = pairs / 2 + B / (u + v) and

        u + v = (e^eps + 1) (p1 - p2) / w        B = (e^eps - 1) (pairs (p1 + p2) / (2 w) + (m - pairs) p3 / r)

    and for a of Bin(l, 1/2) and k the first whole number above T, sum over a >= k of a Pr[a] = (l S + k Pr[k]) / 2,
    where S = Pr[a >= k]: so it is (u + v) k Pr[k] / 2 - B S.

    From ``least`` to ``pairs`` it is no more than with a of the greatest and the least B, as a - pairs / 2 has the mean
    0, and one more coin spreads it (Jensen's inequality).
    """
    s = math.expm1(epsilon)
    slope = (s + 2) * reduction.difference
    drift = pairs if least is None or reduction.mean < reduction.ratio else least
    b = s * (drift * reduction.mean + (m - drift) * reduction.ratio)
    k = np.floor(pairs / 2 + b / slope) + 1
    before = pmf(k - 1, pairs, 0.5, 0.5)  # Pr[k - 1]
    at = before * np.maximum(pairs - k + 1, 0) / k  # Pr[k]
    tail = _tails(k, pairs, before, at, backwards=not reduction.rest) if least is None else _normal_tails(k, pairs, at)
    return np.maximum(slope * k / 2 * at * (1 + 2 * ERROR) - b * tail * (1 - ERROR), 0.0)


def _tails(k: F64, pairs: F64, before: F64, at: F64, *, backwards: bool) -> F64:
    """Lower bounds of Pr[Bin(l, 1/2) >= k] along the last axis, where l grows by 1 and k by 0 or 1.

    By Pascal's rule S_(l + 1)(k) = S_l(k) + Pr_l[k - 1] / 2 and S_(l + 1)(k + 1) = S_l(k) - Pr_l[k] / 2. The first
    tail is summed, at the end where tails are smaller; so the errors, which add up, stay small beside what follows.
    """
    steps = np.where(np.diff(k, axis=-1) == 0, before[..., :-1], -at[..., :-1]) / 2
    end = -1 if backwards else 0
    first = _tail(k[..., end], pairs[0, end], at[..., end])
    if backwards:
        steps = -steps[..., ::-1]
    values = np.concatenate([first[..., None], steps], axis=-1)
    sums = np.cumsum(values, axis=-1)
    errors = np.cumsum(ERROR * np.abs(values) + 3e-16 * np.abs(sums), axis=-1)
    out: F64 = np.maximum(sums - errors, 0.0)
    return out[..., ::-1] if backwards else out


def _normal_tails(k: F64, pairs: F64, at: F64) -> F64:
    """Lower bounds of Pr[Bin(l, 1/2) >= k], k >= l / 2: Pr[k] k / sqrt(l) times Mills' ratio at (2 k - l) / sqrt(l).

    B. McKay, "On Littlewood's Estimate for the Binomial Distribution", 1989, Theorem 2: it is larger by a factor of at
    most exp(sqrt(pi / (2 l))).
    """
    z = (2 * k - pairs) / np.sqrt(pairs)
    near = np.minimum(z, 35.0)
    mills = np.exp(near * near / 2) * normal_tail(near) * math.sqrt(2 * math.pi)
    return np.where(z == near, at * k / np.sqrt(pairs) * mills * (1 - 1e-10), 0.0)


def _tail(k: F64, pairs: float, at: F64) -> F64:
    """A lower bound of Pr[Bin(l, 1/2) >= k], of which Pr[k] is given: as many terms as matter."""
    terms = min(int(pairs), int(8 * math.sqrt(pairs)) + 60)
    next_ones = k[..., None] + np.arange(1, terms + 1)
    ratios = np.maximum(pairs - next_ones + 1, 0) / next_ones
    return at * (1 + np.cumprod(ratios, axis=-1).sum(axis=-1)) * (1 - 1e-10)
