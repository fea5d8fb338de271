"""What the sums of n people's bit vectors reveal of one of them, when nobody sees a vector: after secure aggregation.

Each of n people sends d bits with independent noise. The bit of the value is 1 with probability p, each other bit with
probability q <= p. Only the d sums leave. Neighbors are two data sets that differ in one person's value, from a to b.
Two sums have another law then, those of a and of b, and they are independent.

In the sum of a let m of the N = n - 1 others have the value a. Their bits add H = Bin(m, p) + Bin(N - m, q). With f1
and f0 the laws of H plus the person's own bit, 1 with probability p or q, and g1, g0 those of the sum of b,

    delta(eps) = sum over s and t of (f1(s) g0(t) - e^eps f0(s) g1(t))_+

H is log-concave, so that f1 / f0 grows with s, and g1 / g0 with t: for each s the t that count are those below a limit,
and the sum over them is one of two distribution functions.

**Every data set.** Who sees a sum can add noise to it: with fewer noisy bits it reveals no less. So all m from m0 to m1
are covered by Bin(m0, p) + Bin(N - m1, q), and a grid of m covers everybody; of each part no more people are counted
than have a variance of `_MOST`. The bound is the largest delta of all pairs of cells. The tails that are left out of
either binomial law are events that count as failures; what remains is log-concave still.

For p = 1 - q it is the setting of A. McMillan and others, "Private Federated Statistics in an Interactive Setting",
arXiv:2211.10082, appendix C. The table of J. Chen and others, "Differential Privacy Mechanisms for DAP",
draft-wang-ppm-differential-privacy-00, has values of its theorem; tests compare with them.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ldp_core.accounting.binomials import ERROR, pmf, spread
from ldp_core.arrays.types import F64


class Sum(NamedTuple):
    """Of a sum f1, f0 and f1 / f0, without the places of the first numbers, and the distribution functions."""

    laws: F64
    ratio: F64
    below: F64


def sums(p: float, q: float, n: int, delta: float) -> list[Sum]:
    """Of each cell of the grid of m."""
    parts = min(_CELLS, n)
    starts = [n * k // parts for k in range(parts + 1)]
    most = [max(int(_MOST / (x * (1 - x))), 1) for x in (p, q)]
    cells = {(min(start, most[0]), min(n - end, most[1])) for start, end in pairwise(starts)}
    return [_sum(p, q, of, others, _CUT * delta) for of, others in sorted(cells)]


def _sum(p: float, q: float, of: int, others: int, rest: float) -> Sum:
    noise = np.convolve(_binomial(of, p, rest), _binomial(others, q, rest))
    at, before = np.append(noise, 0.0), np.insert(noise, 0, 0.0)
    laws = np.array([(1 - x) * at + x * before for x in (p, q)])
    laws = laws[:, laws.min(axis=0) > 0]  # what is 0 as a float is below 1e-300, and delta is not
    return Sum(laws, laws[0] / laws[1], np.insert(np.cumsum(laws, axis=1), 0, 0.0, axis=1))


def divergence_of_sums(one: Sum, other: Sum, epsilon: float, delta: float) -> float:
    """Delta of a pair of sums, rounded up, if ``delta`` is about what is asked."""
    e = math.exp(epsilon)
    (f1, f0), (below1, below0) = one.laws, other.below[:, np.searchsorted(other.ratio, one.ratio / e)]
    return float(np.maximum(f1 * below0 - e * f0 * below1, 0.0).sum()) * (1 + _ROUNDING) + 4 * _CUT * delta


def _binomial(n: int, p: float, rest: float) -> F64:
    """Bin(n, p) where it is likely."""
    if n == 0:
        return np.ones(1)
    low, high = spread(n, p, 1 - p, rest)
    return pmf(np.arange(low, high + 1, dtype=float), np.array(float(n)), p, 1 - p)


_CUT = 1e-6  # of delta
_CELLS = 16
_MOST = 40_000.0
_ROUNDING = 1e-7 + 10 * ERROR  # also of p and q as floats, to the power of up to 4 10^8 people
